/* The crew over TCP as its callers see it: open, exchange, stop, close. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/crew/keeper.h"

static const tutti_ps DEFAULT_PS = 30 * TUTTI_PS_PER_S;
static const tutti_ps STALL_PS_MIN = 100 * TUTTI_PS_PER_MS;
/* Process 0 says who is missing when a deadline passes; so much longer one waits for its words. */
static const tutti_ps GRACE_PS = 2 * TUTTI_PS_PER_S;

static struct tutti_crew_tcp *of(struct tutti_crew *crew)
{
    return (struct tutti_crew_tcp *)crew;
}

static int told(struct tutti_crew_tcp *crew, struct tutti_err *err)
{
    return tutti_board_told(&crew->board, crew->base.index, crew->base.count, err);
}

/* ---- the ops ---- */

static int ask(struct tutti_crew_tcp *crew, const void *mine, size_t bytes, tutti_ps deadline_ps,
               struct tutti_err *err)
{
    size_t head_bytes = crew->base.index == 0 ? TUTTI_FRAME_HEAD_BYTES : 0;
    struct tutti_parcel *parcel = tutti_parcel_new(TUTTI_FRAME_HEAD_BYTES + bytes);
    struct tutti_parcel *room = tutti_parcel_new(head_bytes + bytes * crew->base.count);
    bool over;

    if (parcel == NULL || room == NULL) {
        int status = tutti_nomem(err);

        tutti_parcel_drop(parcel);
        tutti_parcel_drop(room);
        tutti_crew_stop(&crew->base, status, err);
        return status;
    }
    tutti_frame_write_head(
        &(struct tutti_frame){.type = TUTTI_FRAME_EXCHANGE,
                              .bytes = (uint32_t)bytes,
                              .wait_ms = (uint64_t)(deadline_ps / TUTTI_PS_PER_MS)},
        parcel->data);
    if (bytes > 0)
        memcpy(parcel->data + TUTTI_FRAME_HEAD_BYTES, mine, bytes);
    pthread_mutex_lock(&crew->board.lock);
    over = crew->board.over; /* then one that has failed may still lie there */
    if (!over) {
        assert(crew->board.mine == NULL); /* one exchange at a time */
        crew->board.mine = parcel;
        crew->board.room = room;
    }
    pthread_mutex_unlock(&crew->board.lock);
    if (over) {
        tutti_parcel_drop(parcel);
        tutti_parcel_drop(room);
        return told(crew, err);
    }
    tutti_board_poke(&crew->board);
    return 0;
}

static int tcp_exchange(struct tutti_crew *base, const void *mine, size_t bytes, void *ret_all,
                        tutti_ps deadline_ps, struct tutti_err *err)
{
    struct tutti_crew_tcp *crew = of(base);
    struct tutti_board *board = &crew->board;
    struct tutti_parcel *all = NULL;
    tutti_ps due_ps;
    size_t at = 0;
    bool late = false;
    int status;

    if (bytes > TUTTI_FRAME_PART_BYTES_MAX || bytes * base->count > TUTTI_FRAME_ALL_BYTES_MAX) {
        status = tutti_fail(err, TUTTI_EINVAL, "%zu bytes each of %u processes are too many", bytes,
                            base->count);
        tutti_crew_stop(base, status, err);
        return status;
    }
    if (deadline_ps <= 0)
        deadline_ps = crew->deadline_ps;
    due_ps =
        tutti_crew_after(tutti_crew_after(tutti_board_now(&crew->board), deadline_ps), GRACE_PS);
    status = ask(crew, mine, bytes, deadline_ps, err);
    if (status < 0)
        return status;
    pthread_mutex_lock(&board->lock);
    while (board->all == NULL && !board->over && !late)
        late = !tutti_board_wait(board, due_ps);
    all = board->all;
    at = board->all_at;
    board->all = NULL;
    pthread_mutex_unlock(&board->lock);
    if (all == NULL) {
        char time[TUTTI_UNIT_TEXT_BYTES];

        if (late)
            tutti_keeper_end(crew, -TUTTI_ETIME, "process 0 of %u has not answered within %s",
                             base->count, tutti_print_time(deadline_ps, time));
        return told(crew, err);
    }
    assert(all->bytes - at == bytes * base->count);
    if (bytes > 0)
        memcpy(ret_all, all->data + at, bytes * base->count);
    tutti_parcel_drop(all);
    return 0;
}

static void tcp_stop(struct tutti_crew *base, int status, const struct tutti_err *err)
{
    struct tutti_crew_tcp *crew = of(base);
    struct tutti_ending ending = {.status = status, .origin = base->index};

    if (err != NULL)
        ending.err = *err;
    if (tutti_board_end(&crew->board, &ending))
        tutti_board_poke(&crew->board);
}

static int tcp_wait_stop(struct tutti_crew *base, tutti_ps timeout_ps, struct tutti_err *err)
{
    struct tutti_crew_tcp *crew = of(base);
    struct tutti_board *board = &crew->board;
    tutti_ps due_ps = tutti_crew_after(tutti_board_now(&crew->board), timeout_ps);
    bool late = timeout_ps <= 0;
    bool over;

    pthread_mutex_lock(&board->lock);
    while (!board->over && !board->woken && !late)
        late = !tutti_board_wait(board, due_ps);
    over = board->over;
    board->woken = false;
    pthread_mutex_unlock(&board->lock);
    return over ? told(crew, err) : 0;
}

static void tcp_wake(struct tutti_crew *base)
{
    struct tutti_board *board = &of(base)->board;

    pthread_mutex_lock(&board->lock);
    board->woken = true;
    pthread_cond_broadcast(&board->changed);
    pthread_mutex_unlock(&board->lock);
}

static void close_door(struct tutti_door *door)
{
    if (door != NULL)
        tutti_door_close(door);
    free(door);
}

static void tcp_close(struct tutti_crew *base)
{
    struct tutti_crew_tcp *crew = of(base);

    tutti_keeper_stop(crew);
    for (uint32_t i = 0; i < crew->peer_count; i++) {
        tutti_peer_close(&crew->peers[i]);
        tutti_parcel_drop(crew->peers[i].part);
    }
    close_door(crew->rendezvous);
    close_door(crew->links);
    tutti_board_close(&crew->board);
    tutti_parcel_drop(crew->room);
    tutti_parcel_drop(crew->ping);
    tutti_parcel_drop(crew->bye);
    tutti_parcel_drop(crew->stop);
    if (crew->secret != NULL)
        explicit_bzero(crew->secret, crew->secret_bytes);
    explicit_bzero(crew->session, sizeof(crew->session));
    free(crew->secret);
    free(crew->seats);
    free(crew->peers);
    free(crew->polls);
    free(crew);
}

static const struct tutti_crew_ops tcp_ops = {
    .size = sizeof(struct tutti_crew_ops),
    .name = "tcp",
    .close = tcp_close,
    .exchange = tcp_exchange,
    .stop = tcp_stop,
    .wait_stop = tcp_wait_stop,
    .wake = tcp_wake,
};

/* ---- open ---- */

static struct tutti_parcel *head_alone(enum tutti_frame_type type)
{
    struct tutti_parcel *parcel = tutti_parcel_new(TUTTI_FRAME_HEAD_BYTES);

    if (parcel != NULL)
        tutti_frame_write_head(&(struct tutti_frame){.type = type}, parcel->data);
    return parcel;
}

static struct tutti_door *new_door(struct tutti_crew_tcp *crew, const struct tutti_door_ops *ops)
{
    struct tutti_door *door = calloc(1, sizeof(*door));

    if (door == NULL)
        return NULL;
    door->fd = -1;
    door->ops = ops;
    door->data = crew;
    return door;
}

/* Takes all the memory that can be taken before anybody is met. */
static int furnish(struct tutti_crew_tcp *crew, const struct tutti_crew_tcp_opts *opts,
                   struct tutti_err *err)
{
    size_t poll_count;
    bool is_root = opts->index == 0;

    crew->peer_count = is_root ? opts->count : 1;
    poll_count = 1 + 2 * (size_t)TUTTI_DOOR_POLL_MAX + crew->peer_count;
    crew->peers = calloc(crew->peer_count, sizeof(crew->peers[0]));
    if (crew->peers == NULL) {
        crew->peer_count = 0;
        return tutti_nomem(err);
    }
    for (uint32_t i = 0; i < crew->peer_count; i++)
        crew->peers[i].fd = -1;
    crew->seats = calloc(opts->count, sizeof(crew->seats[0]));
    crew->polls = calloc(poll_count, sizeof(crew->polls[0]));
    crew->ping = head_alone(TUTTI_FRAME_PING);
    crew->bye = head_alone(TUTTI_FRAME_BYE);
    crew->stop =
        tutti_parcel_new(TUTTI_FRAME_HEAD_BYTES + TUTTI_FRAME_STOP_BYTES + TUTTI_ERR_TEXT_BYTES);
    crew->links = new_door(crew, &tutti_link_door_ops);
    if (is_root)
        crew->rendezvous = new_door(crew, &tutti_root_door_ops);
    if (opts->secret != NULL) {
        crew->secret = malloc(opts->secret_bytes > 0 ? opts->secret_bytes : 1);
        crew->secret_bytes = opts->secret_bytes;
    }
    if (crew->seats == NULL || crew->polls == NULL || crew->ping == NULL || crew->bye == NULL ||
        crew->stop == NULL || crew->links == NULL || (is_root && crew->rendezvous == NULL) ||
        (opts->secret != NULL && crew->secret == NULL))
        return tutti_nomem(err);
    if (opts->secret_bytes > 0 && opts->secret != NULL)
        memcpy(crew->secret, opts->secret, opts->secret_bytes);
    crew->links->secret = crew->session;
    crew->links->secret_bytes = sizeof(crew->session);
    if (is_root) {
        crew->rendezvous->secret = crew->secret;
        crew->rendezvous->secret_bytes = crew->secret_bytes;
    }
    return 0;
}

/* The socket of another's making: it may do what ours would not. */
static int take_over(int fd, struct tutti_err *err)
{
    int listens = 0;
    socklen_t bytes = sizeof(listens);
    int flags = fcntl(fd, F_GETFL);

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 || listens == 0)
        return tutti_fail(err, TUTTI_EINVAL, "descriptor %d is no listening socket", fd);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return tutti_fail(err, TUTTI_EIO, "cannot make descriptor %d non-blocking: %s", fd,
                          strerror(errno));
    return 0;
}

/* Process 0: listens, and is the first to be there. */
static int found(struct tutti_crew_tcp *crew, const struct tutti_crew_tcp_opts *opts,
                 struct tutti_err *err)
{
    struct tutti_address own;
    struct tutti_peer *self = &crew->peers[0];
    char text[TUTTI_CREW_TCP_ADDRESS_BYTES];
    int fd = opts->listen_fd;
    int status;

    if (!tutti_greet_nonce(crew->session))
        return tutti_fail(err, TUTTI_EIO, "no random bytes: %s", strerror(errno));
    status = opts->has_listen_fd ? take_over(fd, err) : tutti_crew_tcp_listen(opts, &fd, text, err);
    if (status < 0)
        return status;
    tutti_address_of_socket(fd, &own);
    if (opts->secret == NULL && !opts->open_to_all && !tutti_address_is_loopback(&own))
        status = tutti_fail(err, TUTTI_EINVAL, "listens at '%s' without a secret (loopback alone)",
                            tutti_address_text(&own, text));
    if (status == 0)
        status = tutti_crew_tcp_listen_links(crew, opts, &own, &self->seat, err);
    if (status < 0) {
        if (!opts->has_listen_fd)
            close(fd);
        return status;
    }
    self->seat.like_root = opts->bind == NULL;
    if (own.as.any.sa_family == AF_INET6)
        crew->scope = own.as.v6.sin6_scope_id;
    crew->rendezvous->fd = fd;
    self->here = true;
    crew->here_count = 1;
    return 0;
}

static int wait_for_all(struct tutti_crew_tcp *crew, struct tutti_err *err)
{
    struct tutti_board *board = &crew->board;
    tutti_ps due_ps = tutti_crew_after(crew->open_due_ps, GRACE_PS);
    bool late = false;
    bool complete;

    pthread_mutex_lock(&board->lock);
    while (!board->complete && !board->over && !late)
        late = !tutti_board_wait(board, due_ps);
    complete = board->complete && !board->over;
    pthread_mutex_unlock(&board->lock);
    if (complete)
        return 0;
    if (late)
        tutti_keeper_end(crew, -TUTTI_ETIME,
                         "process 0 of %u has not said in time that all processes have come",
                         crew->base.count);
    return told(crew, err);
}

static int check(const struct tutti_crew_tcp_opts *opts, struct tutti_err *err)
{
    char host[TUTTI_HOST_BYTES];
    uint16_t port;
    int status;

    if (opts->count == 0 || opts->count > TUTTI_CREW_TCP_COUNT_MAX || opts->index >= opts->count)
        return tutti_fail(err, TUTTI_EINVAL, "no process %u of %u (1 to %d, counted from 0)",
                          opts->index, opts->count, TUTTI_CREW_TCP_COUNT_MAX);
    if (opts->count == 1)
        return 0;
    if (opts->root == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "no address of process 0 (host:port)");
    status = tutti_crew_tcp_check_secret(opts, err);
    if (status < 0)
        return status;
    status = tutti_address_split(opts->root, host, &port, err);
    if (status == 0 && port == 0 && !opts->has_listen_fd)
        status = tutti_fail(err, TUTTI_EINVAL, "no port of process 0 in '%s'", opts->root);
    return status;
}

static tutti_ps or_default(tutti_ps ps)
{
    return ps <= 0                            ? DEFAULT_PS
           : ps > INT32_MAX * TUTTI_PS_PER_MS ? INT32_MAX * TUTTI_PS_PER_MS
                                              : ps;
}

static int open_checked(const struct tutti_crew_tcp_opts *opts, struct tutti_crew **ret,
                        struct tutti_err *err)
{
    struct tutti_crew_tcp *crew;
    int status = check(opts, err);

    if (status < 0)
        return status;
    crew = calloc(1, sizeof(*crew));
    if (crew == NULL)
        return tutti_nomem(err);
    crew->base = (struct tutti_crew){.ops = &tcp_ops, .index = opts->index, .count = opts->count};
    crew->deadline_ps = or_default(opts->deadline_ps);
    crew->stall_ps = or_default(opts->stall_ps);
    if (crew->stall_ps < STALL_PS_MIN)
        crew->stall_ps = STALL_PS_MIN;
    crew->log = opts->log;
    crew->log_data = opts->log_data;
    status = tutti_board_open(&crew->board, err);
    crew->open_due_ps = tutti_crew_after(tutti_board_now(&crew->board), crew->deadline_ps);
    if (status == 0 && opts->count > 1) {
        status = furnish(crew, opts, err);
        if (status == 0)
            status =
                opts->index == 0 ? found(crew, opts, err) : tutti_crew_tcp_join(crew, opts, err);
        if (status == 0)
            status = tutti_keeper_start(crew, err);
        if (status == 0)
            status = wait_for_all(crew, err);
    }
    if (status < 0) {
        /* On failure the caller's listening socket stays the caller's. */
        if (opts->has_listen_fd && crew->rendezvous != NULL) {
            tutti_keeper_stop(crew);
            crew->rendezvous->fd = -1;
        }
        tcp_close(&crew->base);
        return status;
    }
    *ret = &crew->base;
    return 0;
}

int tutti_crew_tcp_open(const struct tutti_crew_tcp_opts *opts, struct tutti_crew **ret,
                        struct tutti_err *err)
{
    struct tutti_crew_tcp_opts own;
    int status = tutti_crew_tcp_take(opts, &own, err);

    return status < 0 ? status : open_checked(&own, ret, err);
}
