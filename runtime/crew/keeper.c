/* The keeper: one thread a process, waiting for sockets, orders and clocks, and nothing else. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/crew/keeper.h"

static const tutti_ps FAREWELL_PS = 2 * TUTTI_PS_PER_S; /* to send what is left, at the end */

/* So long process 0 of a crew that broke off before all had come stays to tell the others why. */
static const tutti_ps LATE_PS = TUTTI_PS_PER_S;

enum { FRAMES_A_TURN = 16 };

static tutti_ps beat_ps(const struct tutti_crew_tcp *crew)
{
    tutti_ps beat = crew->stall_ps / 4;

    return beat > 5 * TUTTI_PS_PER_S ? 5 * TUTTI_PS_PER_S : beat;
}

void tutti_keeper_end(struct tutti_crew_tcp *crew, int status, const char *format, ...)
{
    struct tutti_ending ending = {.status = status, .origin = TUTTI_ENDING_PLAIN};
    va_list args;

    /* The other messages say of whom they speak. */
    if (status == -TUTTI_ENOMEM)
        ending.origin = crew->base.index;
    va_start(args, format);
    (void)vsnprintf(ending.err.text, sizeof(ending.err.text), format, args);
    va_end(args);
    (void)tutti_board_end(&crew->board, &ending);
    tutti_board_poke(&crew->board); /* the others must be told */
}

/* ---- what is logged ---- */

void tutti_keeper_refused(struct tutti_crew_tcp *crew, const char *who, const char *why)
{
    enum { AT_ONCE = 16 };
    char line[TUTTI_ADDRESS_TEXT_BYTES + TUTTI_GUEST_WHY_BYTES + 64];
    tutti_ps now_ps = tutti_board_now(&crew->board);

    crew->refused_count++;
    snprintf(crew->last_refused, sizeof(crew->last_refused), "%s: %s", who, why);
    if (crew->log == NULL)
        return;
    if (now_ps - crew->log_since_ps >= TUTTI_PS_PER_S) {
        crew->log_credit = crew->log_credit == 0 && crew->log_since_ps > 0 ? 1 : AT_ONCE;
        crew->log_since_ps = now_ps;
    }
    if (crew->log_credit == 0) {
        crew->log_kept_count++;
        return;
    }
    crew->log_credit--;
    if (crew->log_kept_count > 0)
        snprintf(line, sizeof(line), "refused %s (and %u others before)", crew->last_refused,
                 crew->log_kept_count);
    else
        snprintf(line, sizeof(line), "refused %s", crew->last_refused);
    crew->log_kept_count = 0;
    crew->log(crew->log_data, line);
}

/* ---- frames ---- */

static void broadcast(struct tutti_crew_tcp *crew, struct tutti_parcel *parcel)
{
    for (uint32_t i = 0; i < crew->peer_count; i++)
        if (crew->peers[i].fd >= 0 && crew->peers[i].out_count < TUTTI_PEER_OUT_MAX)
            tutti_peer_tell(&crew->peers[i], tutti_parcel_hold(parcel));
}

static uint32_t peer_index(const struct tutti_crew_tcp *crew, uint32_t at)
{
    return crew->base.index == 0 ? at : 0;
}

static void gone(struct tutti_crew_tcp *crew, uint32_t at, int code)
{
    struct tutti_peer *peer = &crew->peers[at];

    if (!peer->left)
        tutti_keeper_end(crew, -TUTTI_EIO, "process %u of %u ('%s') has gone%s%s",
                         peer_index(crew, at), crew->base.count, peer->address,
                         code != 0 ? ": " : "", code != 0 ? strerror(code) : "");
    tutti_peer_close(peer);
}

/* Says good-bye back by closing: then nothing of what it sent is lost. */
static void left(struct tutti_crew_tcp *crew, uint32_t at)
{
    struct tutti_peer *peer = &crew->peers[at];

    peer->left = true;
    tutti_peer_close(peer);
    if (crew->base.index == 0)
        tutti_root_missed(crew);
    else if (crew->asked || crew->here_count == 0)
        tutti_keeper_end(crew, -TUTTI_EIO, "process 0 of %u has left", crew->base.count);
}

static void hear_seats(struct tutti_crew_tcp *crew, uint32_t at, const struct tutti_parcel *body)
{
    bool good = crew->base.index != 0 && crew->here_count == 0;

    for (uint32_t i = 0; good && i < crew->base.count; i++)
        good =
            tutti_frame_read_seat(body->data + (size_t)i * TUTTI_FRAME_SEAT_BYTES, &crew->seats[i]);
    if (!good) {
        tutti_keeper_end(crew, -TUTTI_EIO, "process %u of %u sends no list of seats",
                         peer_index(crew, at), crew->base.count);
        return;
    }
    crew->here_count = crew->base.count;
    pthread_mutex_lock(&crew->board.lock);
    crew->board.complete = true;
    pthread_cond_broadcast(&crew->board.changed);
    pthread_mutex_unlock(&crew->board.lock);
}

/* A member's part to process 0, or all parts from it; the body is ours. */
static void hear_exchange(struct tutti_crew_tcp *crew, uint32_t at, const struct tutti_frame *frame,
                          struct tutti_parcel *body)
{
    if (frame->round != crew->round || (crew->base.index != 0 && !crew->asked)) {
        tutti_keeper_end(crew, -TUTTI_EIO,
                         "process %u of %u is in exchange %llu, process %u in %llu",
                         peer_index(crew, at), crew->base.count, (unsigned long long)frame->round,
                         crew->base.index, (unsigned long long)crew->round);
        tutti_parcel_drop(body);
        return;
    }
    if (crew->base.index == 0) {
        tutti_root_take_part(crew, at, body, 0, frame->wait_ms);
        return;
    }
    if (crew->room != NULL) {
        tutti_keeper_end(crew, -TUTTI_EIO, "process 0 of %u answers with %zu bytes, not %zu",
                         crew->base.count, body->bytes, crew->room->bytes);
        tutti_parcel_drop(body);
        return;
    }
    crew->asked = false;
    crew->round++;
    pthread_mutex_lock(&crew->board.lock);
    assert(crew->board.all == NULL);
    crew->board.all = body;
    crew->board.all_at = 0;
    pthread_cond_broadcast(&crew->board.changed);
    pthread_mutex_unlock(&crew->board.lock);
}

static void hear_stop(struct tutti_crew_tcp *crew, uint32_t at, const struct tutti_parcel *body)
{
    struct tutti_ending ending;

    if (!tutti_frame_read_stop(body->data, body->bytes, &ending)) {
        tutti_keeper_end(crew, -TUTTI_EIO, "process %u of %u stops for no known reason",
                         peer_index(crew, at), crew->base.count);
        return;
    }
    /* A member speaks for itself alone. */
    if (crew->base.index == 0)
        ending.origin = ending.origin == TUTTI_ENDING_PLAIN ? TUTTI_ENDING_PLAIN : at;
    if (tutti_board_end(&crew->board, &ending) && crew->base.index != 0)
        crew->told = true; /* by process 0, to everybody */
}

static void hear(struct tutti_crew_tcp *crew, uint32_t at, const struct tutti_frame *frame,
                 struct tutti_parcel *body)
{
    switch (frame->type) {
    case TUTTI_FRAME_PING:
        break;
    case TUTTI_FRAME_SEATS:
        hear_seats(crew, at, body);
        break;
    case TUTTI_FRAME_EXCHANGE:
        hear_exchange(crew, at, frame, body);
        return;
    case TUTTI_FRAME_STOP:
        hear_stop(crew, at, body);
        break;
    case TUTTI_FRAME_BYE:
        left(crew, at);
        break;
    }
    tutti_parcel_drop(body);
}

static void listen_to(struct tutti_crew_tcp *crew, uint32_t at, tutti_ps now_ps)
{
    struct tutti_peer *peer = &crew->peers[at];
    size_t most = crew->base.index == 0 ? TUTTI_FRAME_PART_BYTES_MAX : TUTTI_FRAME_ALL_BYTES_MAX;
    enum tutti_heard heard = TUTTI_HEARD_FRAME;
    int code = 0;

    peer->heard_ps = now_ps;
    for (int i = 0; i < FRAMES_A_TURN && heard == TUTTI_HEARD_FRAME && peer->fd >= 0; i++) {
        struct tutti_frame frame;
        struct tutti_parcel *body = NULL;

        heard = tutti_peer_hear(peer, crew->base.count, most, &crew->room, &frame, &body);
        code = errno;
        if (heard == TUTTI_HEARD_FRAME)
            hear(crew, at, &frame, body);
    }
    if (heard == TUTTI_HEARD_END) {
        gone(crew, at, code);
    } else if (heard == TUTTI_HEARD_NO_MEMORY) {
        tutti_keeper_end(crew, -TUTTI_ENOMEM, "out of memory");
        tutti_peer_close(peer);
    } else if (heard == TUTTI_HEARD_NOISE) {
        tutti_keeper_end(crew, -TUTTI_EIO, "process %u of %u ('%s') sends what nobody understands",
                         peer_index(crew, at), crew->base.count, peer->address);
        tutti_peer_close(peer);
    }
}

/* ---- orders ---- */

static void pass_on(struct tutti_crew_tcp *crew, struct tutti_parcel *mine)
{
    struct tutti_frame frame = {0};
    bool known = tutti_frame_read_head(mine->data, crew->base.count, &frame);

    assert(known);
    if (crew->base.index == 0) {
        tutti_root_take_part(crew, 0, mine, TUTTI_FRAME_HEAD_BYTES, frame.wait_ms);
        return;
    }
    if (crew->peers[0].fd < 0) {
        tutti_keeper_end(crew, -TUTTI_EIO, "process 0 of %u has left", crew->base.count);
        tutti_parcel_drop(mine);
        return;
    }
    tutti_frame_write_head(&(struct tutti_frame){.type = TUTTI_FRAME_EXCHANGE,
                                                 .bytes = frame.bytes,
                                                 .round = crew->round,
                                                 .wait_ms = frame.wait_ms},
                           mine->data);
    crew->asked = true;
    tutti_peer_tell(&crew->peers[0], mine);
}

/* Tells everybody that it is over, once. */
static void tell_end(struct tutti_crew_tcp *crew)
{
    struct tutti_ending ending;

    pthread_mutex_lock(&crew->board.lock);
    ending = crew->board.ending;
    pthread_mutex_unlock(&crew->board.lock);
    crew->told = true;
    crew->stop->bytes = tutti_frame_write_stop(&ending, crew->stop->data);
    broadcast(crew, crew->stop);
}

/* False: it is time to close. */
static bool obey(struct tutti_crew_tcp *crew)
{
    struct tutti_parcel *mine;
    bool over;
    bool quit;

    pthread_mutex_lock(&crew->board.lock);
    mine = crew->board.mine;
    crew->board.mine = NULL;
    if (mine != NULL) {
        assert(crew->room == NULL || crew->board.over); /* left by an exchange that has failed */
        tutti_parcel_drop(crew->room);
        crew->room = crew->board.room;
        crew->board.room = NULL;
    }
    over = crew->board.over;
    quit = crew->board.quit;
    pthread_mutex_unlock(&crew->board.lock);
    if (mine != NULL && !over)
        pass_on(crew, mine);
    else
        tutti_parcel_drop(mine);
    if (over && !crew->told)
        tell_end(crew);
    return !quit;
}

/* ---- the turns ---- */

static void look_at_clock(struct tutti_crew_tcp *crew, tutti_ps now_ps)
{
    for (uint32_t i = 0; i < crew->peer_count; i++) {
        struct tutti_peer *peer = &crew->peers[i];
        char time[TUTTI_UNIT_TEXT_BYTES];

        if (peer->fd < 0 || now_ps - peer->heard_ps < crew->stall_ps)
            continue;
        tutti_keeper_end(crew, -TUTTI_EIO,
                         "process %u of %u ('%s') has given no sign of life for %s",
                         peer_index(crew, i), crew->base.count, peer->address,
                         tutti_print_time(crew->stall_ps, time));
        tutti_peer_close(peer);
    }
    if (now_ps >= crew->beat_due_ps) {
        crew->beat_due_ps = tutti_crew_after(now_ps, beat_ps(crew));
        for (uint32_t i = 0; i < crew->peer_count; i++)
            if (crew->peers[i].fd >= 0 && crew->peers[i].out_count == 0)
                tutti_peer_tell(&crew->peers[i], tutti_parcel_hold(crew->ping));
    }
    if (crew->base.index == 0)
        tutti_root_look_at_clock(crew, now_ps);
}

static tutti_ps sooner(tutti_ps a, tutti_ps b)
{
    return a < b ? a : b;
}

static tutti_ps next_due(const struct tutti_crew_tcp *crew)
{
    tutti_ps due = crew->beat_due_ps; /* often enough to see who is silent */

    if (crew->base.index == 0)
        due = sooner(due, tutti_root_due(crew));
    if (crew->rendezvous != NULL)
        due = sooner(due, tutti_door_due(crew->rendezvous));
    if (crew->leave_due_ps > 0)
        due = sooner(due, crew->leave_due_ps);
    return sooner(due, tutti_door_due(crew->links));
}

/* One that was itself stopped or held up has heard nobody, and may blame nobody for it. */
static void forgive(struct tutti_crew_tcp *crew, tutti_ps now_ps)
{
    for (uint32_t i = 0; i < crew->peer_count; i++)
        crew->peers[i].heard_ps = now_ps;
}

static void drain(int fd)
{
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof(count));

    (void)got; /* nothing there is fine */
}

static size_t add_peers(const struct tutti_crew_tcp *crew, struct pollfd *polls)
{
    for (uint32_t i = 0; i < crew->peer_count; i++) {
        const struct tutti_peer *peer = &crew->peers[i];

        polls[i] = (struct pollfd){.fd = peer->fd,
                                   .events = (short)(POLLIN | (peer->out_count > 0 ? POLLOUT : 0))};
    }
    return crew->peer_count;
}

static void move_peers(struct tutti_crew_tcp *crew, const struct pollfd *polls, tutti_ps now_ps)
{
    for (uint32_t i = 0; i < crew->peer_count; i++) {
        if (polls[i].fd < 0 || crew->peers[i].fd != polls[i].fd)
            continue;
        if ((polls[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
            listen_to(crew, i, now_ps);
        if (crew->peers[i].fd >= 0 && !tutti_peer_send(&crew->peers[i]))
            gone(crew, i, errno);
    }
}

static void turn(struct tutti_crew_tcp *crew)
{
    struct pollfd *polls = crew->polls;
    tutti_ps now_ps = tutti_board_now(&crew->board);
    tutti_ps due_ps = next_due(crew);
    size_t count = 1;
    size_t links_at;
    size_t peers_at;

    polls[0] = (struct pollfd){.fd = crew->board.poke_fd, .events = POLLIN};
    if (crew->rendezvous != NULL)
        count += tutti_door_polls(crew->rendezvous, now_ps, polls + count);
    links_at = count;
    count += tutti_door_polls(crew->links, now_ps, polls + count);
    peers_at = count;
    count += add_peers(crew, polls + count);
    if (poll(polls, (nfds_t)count, tutti_board_ms_until(&crew->board, due_ps)) < 0)
        for (size_t i = 0; i < count; i++)
            polls[i].revents = 0;
    now_ps = tutti_board_now(&crew->board);
    if (now_ps - due_ps > crew->stall_ps / 2)
        forgive(crew, now_ps);
    if (polls[0].revents != 0)
        drain(crew->board.poke_fd);
    /* Before the doors, which put new peers into the places polled. */
    move_peers(crew, polls + peers_at, now_ps);
    if (crew->rendezvous != NULL)
        tutti_door_move(crew->rendezvous, polls + 1, now_ps);
    tutti_door_move(crew->links, polls + links_at, now_ps);
    look_at_clock(crew, now_ps);
}

/* All has been said: what is on its way goes out, and everybody else closes, or time is up. */
static void take_leave(struct tutti_crew_tcp *crew)
{
    tutti_ps due_ps = tutti_crew_after(tutti_board_now(&crew->board), FAREWELL_PS);
    bool some = true;

    broadcast(crew, crew->bye);
    while (some && tutti_board_now(&crew->board) < due_ps) {
        size_t count = add_peers(crew, crew->polls);

        some = false;
        for (uint32_t i = 0; i < crew->peer_count; i++)
            some = some || crew->peers[i].fd >= 0;
        if (!some ||
            poll(crew->polls, (nfds_t)count, tutti_board_ms_until(&crew->board, due_ps)) < 0)
            continue;
        for (uint32_t i = 0; i < crew->peer_count; i++) {
            struct tutti_peer *peer = &crew->peers[i];
            uint8_t rubbish[4096];

            if (crew->polls[i].fd < 0)
                continue;
            if ((crew->polls[i].revents & POLLOUT) != 0 && !tutti_peer_send(peer))
                tutti_peer_close(peer);
            else if ((crew->polls[i].revents & ~POLLOUT) != 0 &&
                     recv(peer->fd, rubbish, sizeof(rubbish), MSG_DONTWAIT) <= 0)
                tutti_peer_close(peer);
            else if (peer->out_count == 0)
                (void)shutdown(peer->fd, SHUT_WR);
        }
    }
}

static void *keep(void *data)
{
    struct tutti_crew_tcp *crew = data;

    while (obey(crew)) {
        /* What an order put into the way of a peer goes at once, not a turn later. */
        for (uint32_t i = 0; i < crew->peer_count; i++)
            if (crew->peers[i].fd >= 0 && !tutti_peer_send(&crew->peers[i]))
                gone(crew, i, errno);
        turn(crew);
    }
    crew->leave_due_ps = tutti_crew_after(tutti_board_now(&crew->board), LATE_PS);
    while (tutti_root_expects(crew, tutti_board_now(&crew->board)) &&
           tutti_board_now(&crew->board) < crew->leave_due_ps)
        turn(crew);
    take_leave(crew);
    return NULL;
}

int tutti_keeper_start(struct tutti_crew_tcp *crew, struct tutti_err *err)
{
    sigset_t all;
    sigset_t old;
    int code;

    crew->beat_due_ps = tutti_crew_after(tutti_board_now(&crew->board), beat_ps(crew));
    /* Signals are for the threads of the program. */
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    code = pthread_create(&crew->keeper, NULL, keep, crew);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (code != 0)
        return tutti_fail(err, TUTTI_EIO, "cannot start a thread: %s", strerror(code));
    crew->has_keeper = true;
    return 0;
}

void tutti_keeper_stop(struct tutti_crew_tcp *crew)
{
    if (!crew->has_keeper)
        return;
    pthread_mutex_lock(&crew->board.lock);
    crew->board.quit = true;
    pthread_mutex_unlock(&crew->board.lock);
    tutti_board_poke(&crew->board);
    (void)pthread_join(crew->keeper, NULL);
    crew->has_keeper = false;
}
