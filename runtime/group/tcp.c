/* The group over TCP as its callers see it: open, exchange, stop, close. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/group/progress.h"

static const tutti_ps DEFAULT_PS = 30 * TUTTI_PS_PER_S;
static const tutti_ps STALL_PS_MIN = 100 * TUTTI_PS_PER_MS;
static const tutti_ps FAREWELL_PS = 2 * TUTTI_PS_PER_S; /* to send what is left, at the end */
/* Process 0 says who is missing when a deadline passes; so much longer one waits for its words. */
static const tutti_ps GRACE_PS = 2 * TUTTI_PS_PER_S;

static struct tutti_group_tcp *of(struct tutti_group *group)
{
    return (struct tutti_group_tcp *)group;
}

static int told(struct tutti_group_tcp *group, struct tutti_err *err)
{
    return tutti_mailbox_told(&group->mailbox, group->base.index, group->base.count, err);
}

void tutti_group_tcp_where(const struct tutti_group_tcp *group, uint32_t peer,
                           struct tutti_address *ret)
{
    const struct tutti_member *member = &group->view.members[peer];

    tutti_address_unpack(member->address, (uint16_t)member->port, group->scope, ret);
}

const char *tutti_group_tcp_address(const struct tutti_group *base, char *ret)
{
    const struct tutti_group_tcp *group = (const struct tutti_group_tcp *)base;
    const struct tutti_listener *listener =
        base->index == 0 && group->rendezvous != NULL && group->rendezvous->fd >= 0
            ? group->rendezvous
            : group->links;
    struct tutti_address address;
    char text[TUTTI_ADDRESS_TEXT_BYTES] = "";

    if (listener != NULL && base->index > 0)
        tutti_group_tcp_where(group, 0, &address);
    else if (listener != NULL)
        tutti_address_of_socket(listener->fd, &address);
    if (listener != NULL)
        (void)tutti_address_text(&address, text);
    (void)snprintf(ret, TUTTI_GROUP_TCP_ADDRESS_BYTES, "%s", text);
    return ret;
}

/* ---- the ops ---- */

static uint32_t wait_ms_of(tutti_ps ps)
{
    return ps / TUTTI_PS_PER_MS < UINT32_MAX ? (uint32_t)(ps / TUTTI_PS_PER_MS) : UINT32_MAX;
}

static int ask(struct tutti_group_tcp *group, const void *mine, size_t bytes, tutti_ps deadline_ps,
               struct tutti_err *err)
{
    size_t head_bytes = group->base.index == 0 ? TUTTI_FRAME_HEAD_BYTES : 0;
    struct tutti_packet *packet = tutti_packet_new(TUTTI_FRAME_HEAD_BYTES + bytes);
    struct tutti_packet *room = tutti_packet_new(head_bytes + bytes * group->base.count);
    bool over;

    if (packet == NULL || room == NULL) {
        int status = tutti_nomem(err);

        tutti_packet_drop(packet);
        tutti_packet_drop(room);
        tutti_group_stop(&group->base, status, err);
        return status;
    }
    tutti_frame_write_head(&(struct tutti_frame){.type = TUTTI_FRAME_EXCHANGE,
                                                 .bytes = (uint32_t)bytes,
                                                 .wait_ms = wait_ms_of(deadline_ps)},
                           packet->data);
    if (bytes > 0)
        memcpy(packet->data + TUTTI_FRAME_HEAD_BYTES, mine, bytes);
    pthread_mutex_lock(&group->mailbox.lock);
    over = group->mailbox.over; /* then one that has failed may still lie there */
    if (!over) {
        assert(group->mailbox.mine == NULL); /* one exchange at a time */
        group->mailbox.mine = packet;
        group->mailbox.room = room;
    }
    pthread_mutex_unlock(&group->mailbox.lock);
    if (over) {
        tutti_packet_drop(packet);
        tutti_packet_drop(room);
        return told(group, err);
    }
    tutti_mailbox_poke(&group->mailbox);
    return 0;
}

static int tcp_exchange(struct tutti_group *base, const void *mine, size_t bytes, void *ret_all,
                        tutti_ps deadline_ps, struct tutti_err *err)
{
    struct tutti_group_tcp *group = of(base);
    struct tutti_mailbox *mailbox = &group->mailbox;
    struct tutti_packet *all = NULL;
    tutti_ps due_ps;
    size_t at = 0;
    bool late = false;
    int status;

    if (bytes > TUTTI_FRAME_PART_BYTES_MAX || bytes * base->count > TUTTI_FRAME_ALL_BYTES_MAX) {
        status = tutti_fail(err, TUTTI_EINVAL, "%zu bytes each of %u processes are too many", bytes,
                            base->count);
        tutti_group_stop(base, status, err);
        return status;
    }
    if (deadline_ps <= 0)
        deadline_ps = group->deadline_ps;
    due_ps = tutti_group_after(tutti_group_after(tutti_mailbox_now(&group->mailbox), deadline_ps),
                               GRACE_PS);
    status = ask(group, mine, bytes, deadline_ps, err);
    if (status < 0)
        return status;
    pthread_mutex_lock(&mailbox->lock);
    while (mailbox->all == NULL && !mailbox->over && !late)
        late = !tutti_mailbox_wait(mailbox, due_ps);
    all = mailbox->all;
    at = mailbox->all_at;
    mailbox->all = NULL;
    pthread_mutex_unlock(&mailbox->lock);
    if (all == NULL) {
        char time[TUTTI_UNIT_TEXT_BYTES];

        if (late)
            tutti_progress_end(group, -TUTTI_ETIME, "process 0 of %u has not answered within %s",
                               base->count, tutti_print_time(deadline_ps, time));
        return told(group, err);
    }
    assert(all->bytes - at == bytes * base->count);
    if (bytes > 0)
        memcpy(ret_all, all->data + at, bytes * base->count);
    tutti_packet_drop(all);
    return 0;
}

static void tcp_stop(struct tutti_group *base, int status, const struct tutti_err *err)
{
    struct tutti_group_tcp *group = of(base);
    struct tutti_ending ending = {.status = status, .origin = base->index};

    if (err != NULL)
        ending.err = *err;
    if (tutti_mailbox_end(&group->mailbox, &ending))
        tutti_mailbox_poke(&group->mailbox);
}

static int tcp_wait_stop(struct tutti_group *base, tutti_ps timeout_ps, struct tutti_err *err)
{
    struct tutti_group_tcp *group = of(base);
    struct tutti_mailbox *mailbox = &group->mailbox;
    tutti_ps due_ps = tutti_group_after(tutti_mailbox_now(&group->mailbox), timeout_ps);
    bool late = timeout_ps <= 0;
    bool over;

    pthread_mutex_lock(&mailbox->lock);
    while (!mailbox->over && !mailbox->woken && !late)
        late = !tutti_mailbox_wait(mailbox, due_ps);
    over = mailbox->over;
    mailbox->woken = false;
    pthread_mutex_unlock(&mailbox->lock);
    return over ? told(group, err) : 0;
}

static void tcp_wake(struct tutti_group *base)
{
    struct tutti_mailbox *mailbox = &of(base)->mailbox;

    pthread_mutex_lock(&mailbox->lock);
    mailbox->woken = true;
    pthread_cond_broadcast(&mailbox->changed);
    pthread_mutex_unlock(&mailbox->lock);
}

static void close_listener(struct tutti_listener *listener)
{
    if (listener != NULL)
        tutti_listener_close(listener);
    free(listener);
}

static void tcp_close(struct tutti_group *base)
{
    struct tutti_group_tcp *group = of(base);

    tutti_progress_stop(group);
    for (uint32_t i = 0; i < group->peer_count; i++) {
        tutti_peer_close(&group->peers[i]);
        tutti_packet_drop(group->peers[i].part);
    }
    close_listener(group->rendezvous);
    close_listener(group->links);
    tutti_newcomers_free(group->newcomers);
    tutti_pair_queue_free(group->pairs);
    tutti_mailbox_close(&group->mailbox);
    tutti_packet_drop(group->room);
    tutti_packet_drop(group->ping);
    tutti_packet_drop(group->bye);
    tutti_packet_drop(group->stop);
    if (group->secret != NULL)
        explicit_bzero(group->secret, group->secret_bytes);
    explicit_bzero(group->session, sizeof(group->session));
    free(group->secret);
    tutti_view_done(&group->view);
    free(group->peers);
    free(group->polls);
    free(group);
}

static uint32_t tcp_id(const struct tutti_group *base, uint32_t index)
{
    const struct tutti_group_tcp *group = (const struct tutti_group_tcp *)base;

    return group->view.members == NULL ? index : group->view.members[index].id;
}

static const char *tcp_why(const struct tutti_group *base)
{
    return ((const struct tutti_group_tcp *)base)->why;
}

const struct tutti_group_ops tutti_group_tcp_ops = {
    .size = sizeof(struct tutti_group_ops),
    .name = "tcp",
    .close = tcp_close,
    .exchange = tcp_exchange,
    .stop = tcp_stop,
    .wait_stop = tcp_wait_stop,
    .wake = tcp_wake,
    .id = tcp_id,
    .why = tcp_why,
    .shrink = tutti_group_tcp_shrink,
    .admit = tutti_group_tcp_admit,
};

/* ---- open ---- */

struct tutti_listener *tutti_group_tcp_new_listener(struct tutti_group_tcp *group,
                                                    const struct tutti_listener_ops *ops)
{
    struct tutti_listener *listener = calloc(1, sizeof(*listener));

    if (listener == NULL)
        return NULL;
    listener->fd = -1;
    listener->ops = ops;
    listener->data = group;
    return listener;
}

/* Takes all the memory that can be taken before anybody is met. */
static int furnish(struct tutti_group_tcp *group, const struct tutti_group_tcp_opts *opts,
                   struct tutti_err *err)
{
    bool is_root = opts->index == 0;

    group->peer_count = is_root ? opts->count : 1;
    group->peers = calloc(group->peer_count, sizeof(group->peers[0]));
    if (group->peers == NULL) {
        group->peer_count = 0;
        return tutti_nomem(err);
    }
    for (uint32_t i = 0; i < group->peer_count; i++)
        group->peers[i].fd = -1;
    group->view =
        (struct tutti_view){.incarnation = 1, .next_id = opts->count, .count = opts->count};
    group->view.members = calloc(opts->count, sizeof(group->view.members[0]));
    group->polls = calloc(tutti_progress_poll_max(group->peer_count), sizeof(group->polls[0]));
    group->ping = tutti_packet_of_head(TUTTI_FRAME_PING, 1);
    group->bye = tutti_packet_of_head(TUTTI_FRAME_BYE, 1);
    group->stop =
        tutti_packet_new(TUTTI_FRAME_HEAD_BYTES + TUTTI_FRAME_STOP_BYTES + TUTTI_ERR_TEXT_BYTES);
    group->links = tutti_group_tcp_new_listener(group, &tutti_link_listener_ops);
    group->pairs = tutti_pair_queue_new();
    if (is_root) {
        group->rendezvous = tutti_group_tcp_new_listener(group, &tutti_root_listener_ops);
        group->newcomers = tutti_newcomers_new();
    }
    if (opts->secret != NULL) {
        group->secret = malloc(opts->secret_bytes > 0 ? opts->secret_bytes : 1);
        group->secret_bytes = opts->secret_bytes;
    }
    if (group->view.members == NULL || group->polls == NULL || group->ping == NULL ||
        group->bye == NULL || group->stop == NULL || group->links == NULL || group->pairs == NULL ||
        (is_root && (group->rendezvous == NULL || group->newcomers == NULL)) ||
        (opts->secret != NULL && group->secret == NULL))
        return tutti_nomem(err);
    if (opts->secret_bytes > 0 && opts->secret != NULL)
        memcpy(group->secret, opts->secret, opts->secret_bytes);
    group->links->secret = group->secret;
    group->links->secret_bytes = group->secret_bytes;
    group->links->members_key = group->session;
    group->links->members_key_bytes = sizeof(group->session);
    if (is_root) {
        group->newcomers->next_id = opts->count;
        group->rendezvous->secret = group->secret;
        group->rendezvous->secret_bytes = group->secret_bytes;
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
static int found(struct tutti_group_tcp *group, const struct tutti_group_tcp_opts *opts,
                 struct tutti_err *err)
{
    struct tutti_address own;
    struct tutti_peer *self = &group->peers[0];
    char text[TUTTI_GROUP_TCP_ADDRESS_BYTES];
    uint8_t nonce[TUTTI_HANDSHAKE_NONCE_BYTES];
    int fd = opts->listen_fd;
    int status;

    if (!tutti_handshake_nonce(group->session) || !tutti_handshake_nonce(nonce))
        return tutti_fail(err, TUTTI_EIO, "no random bytes: %s", strerror(errno));
    memcpy(&group->view.id, nonce, sizeof(group->view.id));
    status =
        opts->has_listen_fd ? take_over(fd, err) : tutti_group_tcp_listen(opts, &fd, text, err);
    if (status < 0)
        return status;
    tutti_address_of_socket(fd, &own);
    if (opts->secret == NULL && !opts->open_to_all && !tutti_address_is_loopback(&own))
        status = tutti_fail(err, TUTTI_EINVAL, "listens at '%s' without a secret (loopback alone)",
                            tutti_address_text(&own, text));
    if (status == 0)
        status = tutti_group_tcp_listen_links(group, opts, &own, &self->member, err);
    if (status < 0) {
        if (!opts->has_listen_fd)
            close(fd);
        return status;
    }
    if (own.as.any.sa_family == AF_INET6)
        group->scope = own.as.v6.sin6_scope_id;
    group->rendezvous->fd = fd;
    self->here = true;
    group->here_count = 1;
    if (opts->count == 1) { /* nobody else is waited for */
        group->view.members[0] = self->member;
        group->mailbox.complete = true;
    }
    return 0;
}

static int wait_for_all(struct tutti_group_tcp *group, struct tutti_err *err)
{
    struct tutti_mailbox *mailbox = &group->mailbox;
    tutti_ps due_ps = tutti_group_after(group->open_due_ps, GRACE_PS);
    bool late = false;
    bool complete;

    pthread_mutex_lock(&mailbox->lock);
    while (!mailbox->complete && !mailbox->over && !late)
        late = !tutti_mailbox_wait(mailbox, due_ps);
    complete = mailbox->complete && !mailbox->over;
    pthread_mutex_unlock(&mailbox->lock);
    if (complete)
        return 0;
    if (late)
        tutti_progress_end(group, -TUTTI_ETIME,
                           "process 0 of %u has not said in time that all processes have come",
                           group->base.count);
    return told(group, err);
}

/* A group of one that nobody is to join listens nowhere. */
static bool listens(const struct tutti_group_tcp_opts *opts)
{
    return opts->count > 1 || opts->admits;
}

int tutti_group_tcp_check(const struct tutti_group_tcp_opts *opts, struct tutti_err *err)
{
    char host[TUTTI_HOST_BYTES];
    uint16_t port;
    int status;

    if (opts->count == 0 || opts->count > TUTTI_GROUP_TCP_COUNT_MAX || opts->index >= opts->count)
        return tutti_fail(err, TUTTI_EINVAL, "no process %u of %u (1 to %d, counted from 0)",
                          opts->index, opts->count, TUTTI_GROUP_TCP_COUNT_MAX);
    if (!listens(opts))
        return 0;
    if (opts->root == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "no address of process 0 (host:port)");
    status = tutti_group_tcp_check_secret(opts, err);
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

int tutti_group_tcp_make(const struct tutti_group_tcp_opts *opts, struct tutti_group_tcp **ret,
                         struct tutti_err *err)
{
    struct tutti_group_tcp *group = calloc(1, sizeof(*group));
    int status;

    if (group == NULL)
        return tutti_nomem(err);
    group->base = (struct tutti_group){
        .ops = &tutti_group_tcp_ops, .index = opts->index, .count = opts->count, .incarnation = 1};
    group->farewell_ps = FAREWELL_PS;
    group->deadline_ps = or_default(opts->deadline_ps);
    group->stall_ps = or_default(opts->stall_ps);
    if (group->stall_ps < STALL_PS_MIN)
        group->stall_ps = STALL_PS_MIN;
    group->log = opts->log;
    group->log_data = opts->log_data;
    group->again = opts->again;
    status = tutti_mailbox_open(&group->mailbox, err);
    group->open_due_ps = tutti_group_after(tutti_mailbox_now(&group->mailbox), group->deadline_ps);
    if (status == 0 && listens(opts))
        status = furnish(group, opts, err);
    if (status < 0) {
        tcp_close(&group->base);
        return status;
    }
    *ret = group;
    return 0;
}

static int open_checked(const struct tutti_group_tcp_opts *opts, struct tutti_group **ret,
                        struct tutti_err *err)
{
    struct tutti_group_tcp *group = NULL;
    int status = tutti_group_tcp_check(opts, err);

    if (status == 0)
        status = tutti_group_tcp_make(opts, &group, err);
    if (status < 0)
        return status;
    if (listens(opts)) {
        status =
            opts->index == 0 ? found(group, opts, err) : tutti_group_tcp_come(group, opts, err);
        if (status == 0)
            status = tutti_progress_start(group, err);
        if (status == 0)
            status = wait_for_all(group, err);
    }
    if (status < 0) {
        /* On failure the caller's listening socket stays the caller's. */
        if (opts->has_listen_fd && group->rendezvous != NULL) {
            tutti_progress_stop(group);
            group->rendezvous->fd = -1;
        }
        tcp_close(&group->base);
        return status;
    }
    *ret = &group->base;
    return 0;
}

int tutti_group_tcp_open(const struct tutti_group_tcp_opts *opts, struct tutti_group **ret,
                         struct tutti_err *err)
{
    struct tutti_group_tcp_opts own;
    int status = tutti_group_tcp_take(opts, &own, err);

    return status < 0 ? status : open_checked(&own, ret, err);
}
