/* The process of a server: waits for messages, and ends when all is over; see server.h. */
#include "runtime/servers/server.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/status.h"

enum { LOOK_MS = 100, SEATS_BESIDE = 16 };

/* How long those that have finished are waited for to close. */
static const double LINGER_S = 5;

double tutti_server_now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double deadline_s(const struct tutti_server *s)
{
    return (double)s->params.deadline_ps / (double)TUTTI_PS_PER_S;
}

double tutti_server_alive_every_s(const struct tutti_servers_params *p)
{
    const double third_s = (double)p->deadline_ps / (double)TUTTI_PS_PER_S / 3;

    return third_s < 0.5 ? third_s : 0.5;
}

static void note(const struct tutti_server *s, const char *what, const struct tutti_err *err)
{
    char line[TUTTI_ERR_TEXT_BYTES + 64];

    if (s->params.note == NULL)
        return;
    (void)snprintf(line, sizeof(line), "%s%s", what, err != NULL ? err->text : "");
    s->params.note(s->params.context, line);
}

/* ---- seats ----------------------------------------------------------------------------------- */

static void lose(struct tutti_server *s, const struct tutti_seat *seat)
{
    char line[128];
    char name[64];

    if (!seat->is_known)
        return;
    if (seat->role == TUTTI_SERVERS_SERVER)
        (void)snprintf(name, sizeof(name), "parameter server %u", seat->member);
    else
        tutti_lead_name(&s->params, seat->member, name, sizeof(name));
    if (s->lead == NULL)
        return;
    if (!tutti_lead_is_over(s->lead)) {
        (void)snprintf(line, sizeof(line), "%s is gone", name);
        note(s, line, NULL);
    }
    if (seat->role == TUTTI_SERVERS_SERVER)
        tutti_lead_server_lost(s->lead, seat->member);
    else
        tutti_lead_trainer_lost(s->lead, seat->member);
}

/* Its connection has ended, or it keeps a seat without saying who it is. One that trains says so
 * once it has found all servers, and may take as long, unless others find no seat. */
static bool is_to_go(const struct tutti_server *s, const struct tutti_seat *seat, double now_s)
{
    const double grace_s = deadline_s(s) * (s->seat_count < s->seat_room ? 2 : 1.0 / 3);
    char line[TUTTI_FRAMES_NAME_BYTES + 64];

    if (seat->frames == NULL || tutti_frames_ended(seat->frames))
        return true;
    if (seat->is_known || now_s < seat->came_s + grace_s)
        return false;
    (void)snprintf(line, sizeof(line), "%s does not say who it is",
                   tutti_frames_name(seat->frames));
    note(s, line, NULL);
    return true;
}

/* Those that are gone, or to go; what follows of it for others may end more of them. */
static void clear_seats(struct tutti_server *s)
{
    const double now_s = tutti_server_now_s();

    for (uint32_t i = 0; i < s->seat_count;) {
        struct tutti_seat gone = s->seats[i];

        if (!is_to_go(s, &gone, now_s)) {
            i++;
            continue;
        }
        s->seats[i] = s->seats[--s->seat_count];
        lose(s, &gone);
        tutti_frames_close(gone.frames);
    }
}

static int accept_all(struct tutti_server *s, struct tutti_err *err)
{
    while (s->seat_count < s->seat_room) {
        struct tutti_frames *frames = NULL;
        int status = tutti_frames_accept(s->listener, 0, &frames, err);

        if (status < 0 || frames == NULL)
            return status;
        s->seats[s->seat_count++] =
            (struct tutti_seat){.frames = frames, .came_s = tutti_server_now_s()};
    }
    return 0;
}

/* All whole frames of a seat. Who says what it must not is sent away, and the rest goes on. */
static void read_seat(struct tutti_server *s, uint32_t index)
{
    struct tutti_frames *frames = s->seats[index].frames;

    while (s->failed == 0 && frames != NULL && s->seats[index].frames == frames &&
           tutti_frames_ready(frames)) {
        struct tutti_frames_got got;
        struct tutti_err said;
        int status = tutti_frames_receive(frames, 0, &got, &said);

        if (status == -TUTTI_ETIME)
            return;
        if (s->lead != NULL)
            tutti_lead_set_now(s->lead, tutti_server_now_s());
        if (status == 0)
            status = tutti_server_take(s, &s->seats[index], &got, &said);
        if (status == 0 || s->failed != 0)
            continue;
        if (!tutti_frames_ended(frames)) {
            (void)tutti_wrap(&said, status, "%s is refused", tutti_frames_name(frames));
            note(s, "", &said);
        }
        tutti_frames_close(frames);
        s->seats[index].frames = NULL; /* gone, once all have been looked at */
        return;
    }
}

/* ---- server 0, for the others ---------------------------------------------------------------- */

static int hello(struct tutti_server *s, struct tutti_err *err)
{
    const struct tutti_server_hello hello = {.role = TUTTI_SERVERS_SERVER,
                                             .index = s->params.index,
                                             .generation = s->store->generation,
                                             .model = s->model_text,
                                             .training = s->training_text};
    uint8_t body[TUTTI_SERVER_HELLO_BYTES];
    struct tutti_frames_part part = {.data = body};

    part.bytes = tutti_server_hello_put(&hello, body);
    return tutti_frames_send(s->link, TUTTI_MESSAGE_HELLO, &part, 1, err);
}

static void send_stop(struct tutti_server *s)
{
    const struct tutti_server_head head = {.step = 0};
    uint8_t packed[TUTTI_SERVER_HEAD_BYTES];
    const struct tutti_frames_part part = {packed, sizeof(packed)};

    tutti_server_head_put(&head, packed);
    if (s->link != NULL)
        (void)tutti_frames_send(s->link, TUTTI_MESSAGE_STOP, &part, 1, NULL);
}

/* Again, where it was lost: it may have been started anew, and does not know what it was told. */
static int open_link(struct tutti_server *s, struct tutti_err *err)
{
    int status = tutti_frames_connect(&s->opts, s->params.servers[0], s->params.deadline_ps,
                                      "parameter server 0", &s->link, err);

    s->link_s = tutti_server_now_s();
    s->store->sequence = 0; /* of a server 0 that counts anew */
    if (status == 0 && hello(s, err) == -TUTTI_EINVAL)
        return -TUTTI_EINVAL;
    if (status == 0 && s->stop_asked)
        send_stop(s);
    return status; /* one that is lost just now is seen by who reads, and tried again */
}

static int take_link(struct tutti_server *s, const struct tutti_frames_got *got,
                     struct tutti_err *err)
{
    struct tutti_server_head head;
    int status = tutti_server_head_get(got->data, got->bytes, &head, err);

    if (status < 0)
        return status;
    s->link_s = tutti_server_now_s();
    switch (got->type) {
    case TUTTI_MESSAGE_VERDICT:
        return tutti_server_carry_out(s, &head, err);
    case TUTTI_MESSAGE_FINISH:
        s->over = true;
        s->stopped = head.number > 0;
        s->over_s = tutti_server_now_s();
        return 0;
    case TUTTI_MESSAGE_FAIL:
        return tutti_server_failure_get(got->data, got->bytes, err);
    default:
        return 0;
    }
}

static int read_link(struct tutti_server *s, struct tutti_err *err)
{
    int status = 0;

    while (status == 0 && s->link != NULL && tutti_frames_ready(s->link)) {
        struct tutti_frames_got got;

        status = tutti_frames_receive(s->link, 0, &got, err);
        if (status == -TUTTI_ETIME)
            return 0;
        if (status == 0)
            status = take_link(s, &got, err);
        else { /* tried again for as long as the deadline says */
            if (!s->over)
                note(s, "", err);
            tutti_frames_close(s->link);
            s->link = NULL;
            status = s->over ? 0 : open_link(s, err);
        }
    }
    if (status == 0 && !s->over && s->link != NULL &&
        tutti_server_now_s() > s->link_s + deadline_s(s))
        status = tutti_fail(err, TUTTI_ETIME,
                            "nothing from parameter server 0 at '%.200s' for "
                            "%.3g s (--deadline)",
                            s->params.servers[0], deadline_s(s));
    return status;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void say_alive(struct tutti_server *s, double now_s)
{
    const struct tutti_server_head head = {.step = 0};

    if (now_s < s->alive_s + tutti_server_alive_every_s(&s->params))
        return;
    s->alive_s = now_s;
    for (uint32_t i = 0; i < s->seat_count; i++)
        if (s->seats[i].is_known)
            tutti_server_send(&s->seats[i], TUTTI_MESSAGE_ALIVE, &head, NULL, 0);
}

static void tell_all(struct tutti_server *s, enum tutti_server_message message, const char *text)
{
    const struct tutti_server_head head = {.number = s->stopped};

    for (uint32_t i = 0; i < s->seat_count; i++)
        if (message == TUTTI_MESSAGE_FAIL ||
            (s->seats[i].is_known && s->seats[i].role == TUTTI_SERVERS_SERVER))
            tutti_server_send(&s->seats[i], message, &head, text, strlen(text) + (*text != 0));
}

/* Sleeps until something comes, or somebody whom there is a seat for. What came during a send does
 * not show in a file. */
static void wait_once(struct tutti_server *s, struct pollfd *polled)
{
    uint32_t count = 0;
    bool is_ready = false;

    for (uint32_t i = 0; i < s->seat_count; i++) {
        is_ready = is_ready || tutti_frames_ready(s->seats[i].frames);
        polled[count++] =
            (struct pollfd){.fd = tutti_frames_fd(s->seats[i].frames), .events = POLLIN};
    }
    if (s->seat_count < s->seat_room)
        polled[count++] =
            (struct pollfd){.fd = tutti_frames_listener_fd(s->listener), .events = POLLIN};
    if (s->link != NULL) {
        is_ready = is_ready || tutti_frames_ready(s->link);
        polled[count++] = (struct pollfd){.fd = tutti_frames_fd(s->link), .events = POLLIN};
    }
    if (!is_ready)
        (void)poll(polled, count, LOOK_MS);
}

static int lead_once(struct tutti_server *s, struct tutti_err *err)
{
    const double now_s = tutti_server_now_s();
    int status = 0;

    if (s->lead == NULL)
        return 0;
    status = tutti_lead_check(s->lead, now_s, err);
    tutti_server_tell_chief(s);
    say_alive(s, now_s);
    if (status == 0 && tutti_lead_is_over(s->lead) && !s->over) {
        struct tutti_servers_result result;

        tutti_lead_result(s->lead, &result);
        s->stopped = result.stopped;
        s->over = true;
        s->over_s = now_s;
        tell_all(s, TUTTI_MESSAGE_FINISH, "");
    }
    return status;
}

static bool has_trainers(const struct tutti_server *s)
{
    for (uint32_t i = 0; i < s->seat_count; i++)
        if (s->seats[i].is_known && s->seats[i].role != TUTTI_SERVERS_SERVER)
            return true;
    return false;
}

/* All is over and everybody knows. Who is slow to start, or to come again, may come after the end:
 * then server 0 tells it so, and for no longer than the deadline. Whoever comes goes to all
 * servers, so the others stay for as long as server 0 does. */
static bool is_done(const struct tutti_server *s)
{
    const double since_s = tutti_server_now_s() - s->over_s;

    if (!s->over)
        return false;
    if (s->lead == NULL)
        return s->link == NULL || since_s > deadline_s(s) + LINGER_S;
    if (s->seen_count < lead_trainer_count(&s->params))
        return since_s > deadline_s(s);
    return !has_trainers(s) || since_s > LINGER_S;
}

/* Somebody wants this process to end: then all save, and end. */
static void look_at_watch(struct tutti_server *s)
{
    if (s->params.watch == NULL || s->stop_asked ||
        (s->params.watch(s->params.context) & TUTTI_SERVERS_STOP) == 0)
        return;
    s->stop_asked = true;
    if (s->lead != NULL)
        tutti_lead_stop(s->lead);
    send_stop(s);
}

static int serve(struct tutti_server *s, struct tutti_err *err)
{
    struct pollfd *polled = calloc((size_t)s->seat_room + 2, sizeof(*polled));
    int status = polled == NULL ? tutti_nomem(err) : 0;

    while (status == 0 && !is_done(s)) {
        wait_once(s, polled);
        look_at_watch(s);
        status = accept_all(s, err);
        if (status == 0 && s->lead != NULL)
            status = lead_once(s, err);
        for (uint32_t i = 0; i < s->seat_count && status == 0; i++)
            read_seat(s, i);
        clear_seats(s);
        if (status == 0 && s->lead == NULL)
            status = read_link(s, err);
        if (status == 0 && s->failed != 0) {
            status = s->failed;
            *err = s->why;
        }
        if (status == 0)
            status = lead_once(s, err);
    }
    if (status < 0)
        tell_all(s, TUTTI_MESSAGE_FAIL, err->text);
    free(polled);
    return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int open_server(struct tutti_server *s, struct tutti_err *err)
{
    const struct tutti_servers_params *p = &s->params;
    struct tutti_lead_calls calls = tutti_server_lead_calls;
    int status = tutti_store_new(p, s->layout, p->index, &s->store, err);

    if (status < 0)
        return status;
    s->opts = tutti_servers_frames(p, s->layout);
    s->opts.has_listen_fd = p->has_listen_fd;
    s->opts.listen_fd = p->listen_fd;
    status = tutti_frames_listen(&s->opts, p->servers[p->index], &s->listener, err);
    s->opts.has_listen_fd = false;
    s->seat_room = lead_trainer_count(p) + p->server_count + SEATS_BESIDE;
    s->seats = calloc(s->seat_room, sizeof(s->seats[0]));
    s->seen = calloc(lead_trainer_count(p), sizeof(s->seen[0]));
    if (status == 0 && (s->seats == NULL || s->seen == NULL))
        status = tutti_nomem(err);
    calls.context = s;
    if (status == 0 && p->index == 0) {
        status = tutti_lead_new(p, &calls, tutti_server_now_s(), &s->lead, err);
        if (status == 0)
            tutti_lead_server_joined(s->lead, 0, 0);
    } else if (status == 0)
        status = open_link(s, err);
    return status;
}

int tutti_servers_serve(const struct tutti_servers_params *params,
                        const struct tutti_server_layout *layout, struct tutti_servers_result *ret,
                        struct tutti_err *err)
{
    struct tutti_server s = {.params = *params};
    uint64_t *by_worker = ret->by_worker;
    int status;

    s.layout = layout;
    tutti_servers_describe(params, layout, s.model_text, s.training_text);
    status = open_server(&s, err);
    if (status == 0)
        status = serve(&s, err);
    if (s.lead != NULL) {
        tutti_lead_result(s.lead, ret);
        for (uint32_t i = 0; i < params->worker_count && by_worker != NULL; i++)
            by_worker[i] = ret->by_worker[i];
        ret->by_worker = by_worker;
    }
    ret->stopped = s.stopped;
    for (uint32_t i = 0; i < s.seat_count; i++)
        tutti_frames_close(s.seats[i].frames);
    tutti_frames_close(s.link);
    tutti_frames_listener_close(s.listener);
    tutti_lead_free(s.lead);
    tutti_store_free(s.store);
    free(s.seats);
    free(s.seen);
    free(s.told);
    return status;
}
