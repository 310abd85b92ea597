/* What a server does with each message; see server.h. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/servers/server.h"
#include "runtime/status.h"

/* ---- sending --------------------------------------------------------------------------------- */

void tutti_server_send(struct tutti_seat *seat, enum tutti_server_message message,
                       const struct tutti_server_head *head, const void *body, size_t bytes)
{
    uint8_t packed[TUTTI_SERVER_HEAD_BYTES];
    const struct tutti_frames_part parts[2] = {{packed, sizeof(packed)}, {body, bytes}};

    if (seat->frames == NULL || tutti_frames_ended(seat->frames))
        return;
    tutti_server_head_put(head, packed);
    (void)tutti_frames_send(seat->frames, message, parts, bytes > 0 ? 2 : 1, NULL);
}

struct tutti_seat *tutti_server_seat_of(struct tutti_server *s, bool trains, uint32_t member)
{
    for (uint32_t i = 0; i < s->seat_count; i++) {
        struct tutti_seat *seat = &s->seats[i];

        if (seat->is_known && seat->member == member &&
            (seat->role != TUTTI_SERVERS_SERVER) == trains)
            return seat;
    }
    return NULL;
}

/* ---- pulls and snapshots --------------------------------------------------------------------- */

static bool is_due(const struct tutti_server *s, const struct tutti_seat *seat)
{
    return seat->want.generation != s->store->generation ||
           s->store->sequence >= seat->want.sequence;
}

/* Of another generation: a head with number 0, and nothing else. */
static void answer(struct tutti_server *s, struct tutti_seat *seat)
{
    struct tutti_store *store = s->store;
    const bool snapshot = seat->wanted == TUTTI_MESSAGE_SNAPSHOT;
    struct tutti_server_head head = seat->want;
    bool is_there = head.generation == store->generation;

    seat->waits = false;
    if (snapshot)
        is_there = is_there && store->copied.generation == head.generation &&
                   store->copied.sequence == head.sequence;
    head.step = snapshot ? store->copied.step : store->step;
    head.member = store->moment_count;
    head.sequence = is_there; /* whether values follow */
    head.number = snapshot ? store->copied.number : store->updates;
    if (s->lead != NULL && !snapshot && is_there)
        tutti_lead_pulled(s->lead, seat->member, &seat->want);
    tutti_server_send(seat, snapshot ? TUTTI_MESSAGE_COPY : TUTTI_MESSAGE_WEIGHTS, &head,
                      snapshot ? store->copy : store->weights,
                      is_there ? (snapshot ? tutti_store_row(store) : store->count) * sizeof(float)
                               : 0);
}

void tutti_server_answer_waiting(struct tutti_server *s)
{
    for (uint32_t i = 0; i < s->seat_count; i++)
        if (s->seats[i].waits && is_due(s, &s->seats[i]))
            answer(s, &s->seats[i]);
}

/* Server 0 has carried out all that it has decided, so nobody waits there: an answer amid its own
 * verdicts would be an event amid another one. */
static int ask(struct tutti_server *s, struct tutti_seat *seat, enum tutti_server_message what,
               const struct tutti_server_head *head, struct tutti_err *err)
{
    if (s->lead != NULL && head->generation == s->store->generation &&
        head->sequence > s->store->sequence)
        return tutti_fail(err, TUTTI_EINVAL,
                          "it waits for verdict '%" PRIu64 "', and %" PRIu64 " is the last",
                          head->sequence, s->store->sequence);
    seat->wanted = what;
    seat->want = *head;
    seat->waits = true;
    if (is_due(s, seat))
        answer(s, seat);
    return 0;
}

/* ---- verdicts -------------------------------------------------------------------------------- */

int tutti_server_carry_out(struct tutti_server *s, const struct tutti_server_head *verdict,
                           struct tutti_err *err)
{
    if (!tutti_store_carry_out(s->store, s->params.synchronous, verdict))
        return tutti_fail(err, TUTTI_ECHECK,
                          "verdict %" PRIu64 " is of a gradient of worker %u that has not come",
                          verdict->sequence, verdict->member);
    tutti_server_answer_waiting(s);
    return 0;
}

static void lead_verdict(void *context, const struct tutti_server_head *verdict)
{
    struct tutti_server *s = context;

    if (s->failed == 0 && tutti_server_carry_out(s, verdict, &s->why) < 0)
        s->failed = -TUTTI_ECHECK;
    for (uint32_t i = 0; i < s->seat_count; i++)
        if (s->seats[i].is_known && s->seats[i].role == TUTTI_SERVERS_SERVER)
            tutti_server_send(&s->seats[i], TUTTI_MESSAGE_VERDICT, verdict, NULL, 0);
}

static void lead_send(void *context, uint32_t trainer, enum tutti_server_message message,
                      const struct tutti_server_head *head)
{
    struct tutti_server *s = context;
    struct tutti_seat *seat = tutti_server_seat_of(s, true, trainer);
    struct tutti_servers_result result;
    size_t bytes = tutti_server_result_bytes(s->params.worker_count);
    uint8_t *body;

    if (seat == NULL)
        return;
    if (message != TUTTI_MESSAGE_FINISH) {
        tutti_server_send(seat, message, head, NULL, 0);
        return;
    }
    while (trainer == 0 && s->told_count > 0 && seat->frames != NULL &&
           !tutti_frames_ended(seat->frames)) {
        s->told_waits = false; /* it reads all of them before the end */
        tutti_server_tell_chief(s);
    }
    tutti_lead_result(s->lead, &result);
    body = malloc(bytes);
    if (body == NULL)
        return;
    tutti_server_result_put(&result, body);
    tutti_server_send(seat, message, head, body, bytes);
    free(body);
}

/* ---- the chief's news ------------------------------------------------------------------------ */

enum { TOLD_ROOM = 1 << 14 }; /* steps that the chief has not been told of yet */

static void lead_told(void *context, const struct tutti_servers_told *told)
{
    struct tutti_server *s = context;

    if (s->told == NULL)
        s->told = calloc(TOLD_ROOM, sizeof(s->told[0]));
    if (s->told == NULL)
        return;
    if (s->told_count == TOLD_ROOM) {
        s->told_first = (s->told_first + 1) % TOLD_ROOM; /* the oldest is left out */
        s->told_count--;
    }
    s->told[(s->told_first + s->told_count++) % TOLD_ROOM] = *told;
}

void tutti_server_tell_chief(struct tutti_server *s)
{
    struct tutti_seat *chief = tutti_server_seat_of(s, true, 0);
    const struct tutti_server_head head = {.step = 0};
    uint8_t body[TUTTI_SERVER_TOLD_MAX * TUTTI_SERVER_TOLD_BYTES];
    size_t bytes = 0;

    if (chief == NULL || s->told_waits || s->told_count == 0)
        return;
    for (; s->told_count > 0 && bytes < sizeof(body); bytes += TUTTI_SERVER_TOLD_BYTES) {
        tutti_server_told_put(&s->told[s->told_first], body + bytes);
        s->told_first = (s->told_first + 1) % TOLD_ROOM;
        s->told_count--;
    }
    s->told_waits = true;
    tutti_server_send(chief, TUTTI_MESSAGE_TOLD, &head, body, bytes);
}

const struct tutti_lead_calls tutti_server_lead_calls = {
    .send = lead_send, .verdict = lead_verdict, .told = lead_told};

/* ---- who comes ------------------------------------------------------------------------------- */

static int refuse(struct tutti_seat *seat, const char *what, const char *there, const char *here,
                  struct tutti_err *err)
{
    struct tutti_err said;
    const struct tutti_server_head head = {.step = 0};

    (void)tutti_fail(&said, TUTTI_EINVAL, "%s of this process is '%.300s', of the server '%.300s'",
                     what, there, here);
    tutti_server_send(seat, TUTTI_MESSAGE_FAIL, &head, said.text, strlen(said.text) + 1);
    return tutti_fail(err, TUTTI_EINVAL, "%s of that process is '%.300s', of this server '%.300s'",
                      what, there, here);
}

/* Its number among those that train, or among servers; false: there is no such. */
static bool number_of(const struct tutti_server *s, const struct tutti_server_hello *hello,
                      uint32_t *ret)
{
    const struct tutti_servers_params *p = &s->params;

    if (hello->role == TUTTI_SERVERS_CHIEF && p->has_chief && hello->index == 0)
        *ret = 0;
    else if (hello->role == TUTTI_SERVERS_WORKER && hello->index < p->worker_count)
        *ret = hello->index + (p->has_chief ? 1 : 0);
    else if (hello->role == TUTTI_SERVERS_SERVER && s->lead != NULL && hello->index > 0 &&
             hello->index < p->server_count)
        *ret = hello->index;
    else
        return false;
    return true;
}

/* Whoever was there under that number is gone; or is another process, which must not come again, or
 * the two would replace each other for ever. */
static void replace(struct tutti_server *s, const struct tutti_seat *by)
{
    static const char why[] =
        "another process has come as this very task (each task of the cluster once)";
    const struct tutti_server_head head = {.step = 0};

    for (uint32_t i = 0; i < s->seat_count; i++) {
        struct tutti_seat *seat = &s->seats[i];

        if (seat != by && seat->is_known && seat->member == by->member &&
            (seat->role == TUTTI_SERVERS_SERVER) == (by->role == TUTTI_SERVERS_SERVER)) {
            tutti_server_send(seat, TUTTI_MESSAGE_FAIL, &head, why, sizeof(why));
            seat->is_known = seat->waits = false;
            tutti_frames_close(seat->frames);
            seat->frames = NULL;
        }
    }
}

static int welcome(struct tutti_server *s, struct tutti_seat *seat,
                   const struct tutti_frames_got *got, struct tutti_err *err)
{
    struct tutti_server_hello hello;
    struct tutti_server_head head = {.generation = s->store->generation};
    char name[64];
    int status = tutti_server_hello_get(got->data, got->bytes, &hello, err);

    if (status < 0)
        return status;
    if (strcmp(hello.model, s->model_text) != 0)
        return refuse(seat, "the model", hello.model, s->model_text, err);
    if (strcmp(hello.training, s->training_text) != 0)
        return refuse(seat, "the training", hello.training, s->training_text, err);
    seat->role = hello.role;
    if (!number_of(s, &hello, &seat->member))
        return tutti_fail(err, TUTTI_EINVAL, "there is no number '%u' of role %u here", hello.index,
                          hello.role);
    replace(s, seat);
    seat->is_known = true;
    if (seat->role == TUTTI_SERVERS_SERVER)
        (void)snprintf(name, sizeof(name), "parameter server %u", seat->member);
    else
        tutti_lead_name(&s->params, seat->member, name, sizeof(name));
    tutti_frames_set_name(seat->frames, name);
    if (seat->role != TUTTI_SERVERS_SERVER && !s->seen[seat->member]) {
        s->seen[seat->member] = true;
        s->seen_count++;
    }
    tutti_server_send(seat, TUTTI_MESSAGE_WELCOME, &head, NULL, 0);
    if (s->lead == NULL)
        return 0;
    head.number = s->stopped;
    if (seat->role == TUTTI_SERVERS_SERVER && s->over) /* it comes late */
        tutti_server_send(seat, TUTTI_MESSAGE_FINISH, &head, NULL, 0);
    if (seat->role == TUTTI_SERVERS_SERVER)
        tutti_lead_server_joined(s->lead, seat->member, hello.generation);
    else
        tutti_lead_trainer_joined(s->lead, seat->member);
    if (seat->role != TUTTI_SERVERS_SERVER && seat->member == 0)
        s->told_waits = false;
    return 0;
}

/* ---- messages of those that are known -------------------------------------------------------- */

static int expect(const struct tutti_frames_got *got, uint64_t bytes, struct tutti_err *err)
{
    if (got->bytes == bytes)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL, "message %u has '%" PRIu64 "' bytes (%" PRIu64 ")",
                      got->type, got->bytes, bytes);
}

static uint32_t worker_of(const struct tutti_server *s, const struct tutti_seat *seat)
{
    return seat->member - (s->params.has_chief ? 1 : 0);
}

static bool computes(const struct tutti_server *s, const struct tutti_seat *seat)
{
    return seat->member > 0 || !s->params.has_chief;
}

/* Values lie behind a head of 48 bytes, or that and a report of 40: aligned for floats. */
static const float *values_at(const uint8_t *data)
{
    assert((uintptr_t)data % sizeof(float) == 0);
    return (const float *)(const void *)data;
}

static int take_gradient(struct tutti_server *s, struct tutti_seat *seat,
                         const struct tutti_frames_got *got, const struct tutti_server_head *head,
                         struct tutti_err *err)
{
    const bool is_done = got->type == TUTTI_MESSAGE_DONE;
    const size_t before = TUTTI_SERVER_HEAD_BYTES + (is_done ? TUTTI_SERVER_REPORT_BYTES : 0);
    struct tutti_server_report report;
    int status = expect(got, before + s->store->count * sizeof(float), err);

    if (status == 0 && (!computes(s, seat) || is_done != (s->lead != NULL)))
        status = tutti_fail(err, TUTTI_EINVAL, "a gradient of who has none, or for another server");
    if (status < 0)
        return status;
    tutti_store_stage(s->store, worker_of(s, seat), head, values_at(got->data + before));
    if (is_done) {
        tutti_server_report_get(got->data + TUTTI_SERVER_HEAD_BYTES, &report);
        tutti_lead_done(s->lead, seat->member, head, &report);
    } else
        tutti_server_send(seat, TUTTI_MESSAGE_PUSHED, head, NULL, 0);
    return 0;
}

/* No lead whose servers have said which generation they have orders that: see lead_events.c. */
static int refuse_old(struct tutti_server *s, struct tutti_seat *seat,
                      const struct tutti_server_head *head, struct tutti_err *err)
{
    const struct tutti_server_head none = {.step = 0};

    (void)tutti_fail(err, TUTTI_EINVAL,
                     "weights of generation '%" PRIu64 "' for a server that has those of %" PRIu64,
                     head->generation, s->store->generation);
    tutti_server_send(seat, TUTTI_MESSAGE_FAIL, &none, err->text, strlen(err->text) + 1);
    return -TUTTI_EINVAL;
}

static int take_weights(struct tutti_server *s, struct tutti_seat *seat,
                        const struct tutti_frames_got *got, const struct tutti_server_head *head,
                        struct tutti_err *err)
{
    int status =
        expect(got, TUTTI_SERVER_HEAD_BYTES + tutti_store_row(s->store) * sizeof(float), err);

    if (status == 0 && seat->member != 0)
        status = tutti_fail(err, TUTTI_EINVAL, "weights of who is not the chief");
    if (status == 0 && (head->step > INT64_MAX || head->number > INT64_MAX)) /* updates count on */
        status =
            tutti_fail(err, TUTTI_EINVAL,
                       "weights of step '%" PRIu64 "' and update '%" PRIu64 "' (at most 2^63 - 1)",
                       head->step, head->number);
    if (status < 0)
        return status;
    if (head->generation < s->store->generation)
        return refuse_old(s, seat, head, err);
    tutti_store_assign(s->store, head, values_at(got->data + TUTTI_SERVER_HEAD_BYTES));
    tutti_server_send(seat, TUTTI_MESSAGE_ASSIGNED, head, NULL, 0);
    tutti_server_answer_waiting(s);
    return 0;
}

/* Why somebody cannot go on: then nobody does. */
static void take_failure(struct tutti_server *s, const struct tutti_seat *seat,
                         const struct tutti_frames_got *got)
{
    struct tutti_err said;
    char name[64];

    if (s->failed != 0)
        return;
    tutti_lead_name(&s->params, seat->member, name, sizeof(name));
    (void)tutti_server_failure_get(got->data, got->bytes, &said);
    s->failed = tutti_fail(&s->why, TUTTI_EIO, "%s: %.900s", name, said.text);
}

/* Of server 0 alone. */
static int take_for_lead(struct tutti_server *s, struct tutti_seat *seat,
                         const struct tutti_frames_got *got, const struct tutti_server_head *head,
                         struct tutti_err *err)
{
    switch (got->type) {
    case TUTTI_MESSAGE_IS_SET_UP:
        tutti_lead_set_up(s->lead, seat->member, head);
        return 0;
    case TUTTI_MESSAGE_SAVED:
        tutti_lead_saved(s->lead, seat->member, head);
        return 0;
    case TUTTI_MESSAGE_SAVE_DUE:
        tutti_lead_save_due(s->lead);
        return 0;
    case TUTTI_MESSAGE_SEEN:
        s->told_waits = false;
        return 0;
    case TUTTI_MESSAGE_FAIL:
        take_failure(s, seat, got);
        return 0;
    default:
        return tutti_fail(err, TUTTI_EINVAL, "message '%u' is none of a worker", got->type);
    }
}

int tutti_server_take(struct tutti_server *s, struct tutti_seat *seat,
                      const struct tutti_frames_got *got, struct tutti_err *err)
{
    struct tutti_server_head head;
    int status;

    if (got->type == TUTTI_MESSAGE_HELLO && !seat->is_known)
        return welcome(s, seat, got, err);
    if (!seat->is_known)
        return tutti_fail(err, TUTTI_EINVAL, "it does not say who it is");
    status = tutti_server_head_get(got->data, got->bytes, &head, err);
    if (status < 0)
        return status;
    if (got->type == TUTTI_MESSAGE_ALIVE) {
        if (s->lead != NULL && seat->role != TUTTI_SERVERS_SERVER)
            tutti_lead_trainer_alive(s->lead, seat->member);
        return 0;
    }
    if (got->type == TUTTI_MESSAGE_STOP && s->lead != NULL) {
        tutti_lead_stop(s->lead);
        return 0;
    }
    if (seat->role == TUTTI_SERVERS_SERVER)
        return tutti_fail(err, TUTTI_EINVAL, "message '%u' of a server", got->type);
    switch (got->type) {
    case TUTTI_MESSAGE_PULL:
    case TUTTI_MESSAGE_SNAPSHOT:
        return ask(s, seat, (enum tutti_server_message)got->type, &head, err);
    case TUTTI_MESSAGE_PUSH:
    case TUTTI_MESSAGE_DONE:
        return take_gradient(s, seat, got, &head, err);
    case TUTTI_MESSAGE_ASSIGN:
        return take_weights(s, seat, got, &head, err);
    default:
        return s->lead != NULL
                   ? take_for_lead(s, seat, got, &head, err)
                   : tutti_fail(err, TUTTI_EINVAL, "message '%u' is of server 0", got->type);
    }
}
