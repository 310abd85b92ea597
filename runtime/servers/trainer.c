/* The loop of those that train: orders of server 0, and connections that come and go; see
 * trainer.h. */
#include "runtime/servers/trainer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/status.h"

static const struct timespec before_again = {.tv_nsec = 50000000};
static const tutti_ps LOOK_PS = 20 * TUTTI_PS_PER_MS; /* at files, and at who watches */

/* ---- messages -------------------------------------------------------------------------------- */

static int note_order(struct tutti_server_trainer *t, const struct tutti_frames_got *got,
                      const struct tutti_server_head *head, struct tutti_err *err);

/* What a server said before it went: perhaps why all is to end. */
static int hear_out(struct tutti_server_trainer *t, uint32_t server, struct tutti_err *err)
{
    struct tutti_frames_got got;
    struct tutti_server_head head;

    while (tutti_frames_receive(t->links[server], 0, &got, NULL) == 0)
        if (got.type == TUTTI_MESSAGE_FAIL &&
            tutti_server_head_get(got.data, got.bytes, &head, NULL) == 0)
            return note_order(t, &got, &head, err);
    return 0;
}

static int send_parts(struct tutti_server_trainer *t, uint32_t server,
                      enum tutti_server_message message, const struct tutti_frames_part *parts,
                      size_t count, struct tutti_err *err)
{
    int status = tutti_frames_send(t->links[server], message, parts, count, err);

    if (status == 0 || status == -TUTTI_EINVAL)
        return status;
    t->broken = true;
    return hear_out(t, server, err) < 0 ? t->failed : status;
}

int tutti_trainer_tell(struct tutti_server_trainer *t, uint32_t server,
                       enum tutti_server_message message, const struct tutti_server_head *head,
                       const void *body, size_t bytes, const void *more, size_t more_bytes,
                       struct tutti_err *err)
{
    uint8_t packed[TUTTI_SERVER_HEAD_BYTES];
    const struct tutti_frames_part parts[3] = {
        {packed, sizeof(packed)}, {body, bytes}, {more, more_bytes}};
    size_t count = more_bytes > 0 ? 3 : bytes > 0 ? 2 : 1;

    tutti_server_head_put(head, packed);
    return send_parts(t, server, message, parts, count, err);
}

static void keep(struct tutti_order *order, const struct tutti_server_head *head)
{
    *order = (struct tutti_order){true, *head};
}

static int show_told(struct tutti_server_trainer *t, const struct tutti_frames_got *got,
                     struct tutti_err *err)
{
    const struct tutti_server_head head = {.step = 0};
    int status = 0;

    for (uint64_t at = TUTTI_SERVER_HEAD_BYTES;
         at + TUTTI_SERVER_TOLD_BYTES <= got->bytes && status == 0 && t->params.told != NULL;
         at += TUTTI_SERVER_TOLD_BYTES) {
        struct tutti_servers_told told;

        tutti_server_told_get(got->data + at, &told);
        status = t->params.told(t->params.context, &told, err);
    }
    if (status < 0)
        t->failed = status;
    return status < 0 ? status
                      : tutti_trainer_tell(t, 0, TUTTI_MESSAGE_SEEN, &head, NULL, 0, NULL, 0, err);
}

/* Of server 0, whatever this process is doing. */
static int note_order(struct tutti_server_trainer *t, const struct tutti_frames_got *got,
                      const struct tutti_server_head *head, struct tutti_err *err)
{
    t->heard_s = tutti_server_now_s();
    switch (got->type) {
    case TUTTI_MESSAGE_START:
        keep(&t->start, head);
        break;
    case TUTTI_MESSAGE_ABORT:
        t->aborted = head->episode;
        t->aborted_generation = head->generation;
        break;
    case TUTTI_MESSAGE_SET_UP:
        keep(&t->set_up, head);
        break;
    case TUTTI_MESSAGE_SAVE:
        keep(&t->save, head);
        break;
    case TUTTI_MESSAGE_TOLD:
        return show_told(t, got, err);
    case TUTTI_MESSAGE_FINISH:
        t->finished = true;
        return tutti_server_result_get(got->data + TUTTI_SERVER_HEAD_BYTES,
                                       got->bytes - TUTTI_SERVER_HEAD_BYTES, t->params.worker_count,
                                       t->result, err);
    case TUTTI_MESSAGE_FAIL:
        t->failed = tutti_server_failure_get(got->data, got->bytes, err);
        return t->failed;
    case TUTTI_MESSAGE_ALIVE:
        break;
    default:
        return tutti_fail(err, TUTTI_EINVAL, "message '%u' of %s", got->type,
                          tutti_frames_name(t->links[0]));
    }
    return 0;
}

bool tutti_trainer_is_aborted(const struct tutti_server_trainer *t,
                              const struct tutti_server_head *head)
{
    return t->aborted_generation == head->generation &&
           (t->aborted == head->episode || t->aborted == TUTTI_SERVER_ALL_EPISODES);
}

int tutti_trainer_listen(struct tutti_server_trainer *t, tutti_ps wait_ps, struct tutti_err *err)
{
    struct tutti_frames_got got;
    struct tutti_server_head head;
    int status = tutti_frames_receive(t->links[0], wait_ps, &got, err);

    while (status == 0) {
        status = tutti_server_head_get(got.data, got.bytes, &head, err);
        if (status == 0)
            status = note_order(t, &got, &head, err);
        if (status < 0)
            return status;
        status = tutti_frames_receive(t->links[0], 0, &got, err);
    }
    if (status != -TUTTI_ETIME)
        return status;
    if (tutti_server_now_s() - t->heard_s > (double)t->params.deadline_ps / (double)TUTTI_PS_PER_S)
        return tutti_fail(err, TUTTI_ETIME, "nothing from %s for %.3g s (--deadline)",
                          tutti_frames_name(t->links[0]),
                          (double)t->params.deadline_ps / (double)TUTTI_PS_PER_S);
    return 0;
}

int tutti_trainer_await(struct tutti_server_trainer *t, uint32_t server,
                        enum tutti_server_message message, uint64_t body_bytes,
                        struct tutti_server_head *ret_head, const uint8_t **ret_body,
                        struct tutti_err *err)
{
    for (;;) {
        struct tutti_frames_got got;
        int status = tutti_frames_receive(t->links[server], t->params.deadline_ps, &got, err);

        if (status == 0)
            status = tutti_server_head_get(got.data, got.bytes, ret_head, err);
        if (status < 0)
            return status;
        if (got.type == message) {
            *ret_body = got.data + TUTTI_SERVER_HEAD_BYTES;
            if (got.bytes == TUTTI_SERVER_HEAD_BYTES + (ret_head->sequence > 0 ? body_bytes : 0))
                return 0;
            return tutti_fail(err, TUTTI_EINVAL, "message '%u' of %s has %" PRIu64 " bytes",
                              got.type, tutti_frames_name(t->links[server]), got.bytes);
        }
        if (server == 0 || got.type == TUTTI_MESSAGE_FAIL)
            status = note_order(t, &got, ret_head, err);
        if (status < 0)
            return status;
    }
}

/* ---- connections ----------------------------------------------------------------------------- */

static void close_links(struct tutti_server_trainer *t)
{
    for (uint32_t s = 0; s < t->params.server_count; s++) {
        tutti_frames_close(t->links[s]);
        t->links[s] = NULL;
    }
    t->start.is_there = t->set_up.is_there = t->save.is_there = t->broken = false;
    t->stop_said = false; /* a server 0 that is started anew does not know */
}

static int say_hello(struct tutti_server_trainer *t, uint32_t server, struct tutti_err *err)
{
    struct tutti_server_hello hello = {.role = t->params.role, .index = t->params.index};
    char model[TUTTI_SERVER_TEXT_BYTES];
    char training[TUTTI_SERVER_TEXT_BYTES];
    uint8_t body[TUTTI_SERVER_HELLO_BYTES];
    struct tutti_frames_part part = {.data = body};
    struct tutti_server_head head;
    const uint8_t *nothing;
    int status;

    tutti_servers_describe(&t->params, t->layout, model, training);
    hello.model = model;
    hello.training = training;
    part.bytes = tutti_server_hello_put(&hello, body);
    status = send_parts(t, server, TUTTI_MESSAGE_HELLO, &part, 1, err);
    if (status == 0)
        status = tutti_trainer_await(t, server, TUTTI_MESSAGE_WELCOME, 0, &head, &nothing, err);
    t->heard_s = tutti_server_now_s();
    return status;
}

/* Server 0 first: without it the others end. It is the last to learn who this is: once it does, all
 * do. */
static int open_links(struct tutti_server_trainer *t, struct tutti_err *err)
{
    char name[64];
    int status = 0;

    for (uint32_t s = 0; s < t->params.server_count && status == 0; s++) {
        (void)snprintf(name, sizeof(name), "parameter server %u", s);
        status = tutti_frames_connect(&t->opts, t->params.servers[s], t->params.deadline_ps, name,
                                      &t->links[s], err);
    }
    for (uint32_t s = t->params.server_count; s-- > 0 && status == 0;)
        status = say_hello(t, s, err);
    return status;
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* One thing that is to be done, or waits for one. */
static int attend(struct tutti_server_trainer *t, struct tutti_err *err)
{
    const struct tutti_server_head head = {.step = 0};
    const int wanted = t->params.watch != NULL ? t->params.watch(t->params.context) : 0;
    int status = t->is_chief ? tutti_chief_look(t, wanted, err) : 0;

    t->stop_asked = t->stop_asked || (wanted & TUTTI_SERVERS_STOP) != 0;
    if (status == 0 && t->stop_asked && !t->stop_said) {
        t->stop_said = true;
        status = tutti_trainer_tell(t, 0, TUTTI_MESSAGE_STOP, &head, NULL, 0, NULL, 0, err);
    }
    if (status < 0)
        return status;
    if (t->set_up.is_there)
        return tutti_chief_set_up(t, err);
    if (t->save.is_there && !tutti_chief_is_busy(t))
        return tutti_chief_save(t, err);
    if (t->start.is_there && t->computes && !tutti_trainer_is_aborted(t, &t->start.head))
        return tutti_trainer_episode(t, err);
    t->start.is_there = false;
    return tutti_trainer_listen(
        t, t->is_chief || t->params.watch != NULL ? LOOK_PS : t->params.deadline_ps / 4, err);
}

/* A connection that broke is made anew, and server 0 sees a worker that comes back. What is wrong
 * here, or is said to be wrong elsewhere, ends it. */
static bool is_lost(const struct tutti_server_trainer *t)
{
    for (uint32_t s = 0; s < t->params.server_count; s++)
        if (t->links[s] == NULL || tutti_frames_ended(t->links[s]))
            return t->failed == 0;
    return t->broken && t->failed == 0;
}

static void say_lost(const struct tutti_server_trainer *t, const struct tutti_err *err)
{
    char line[TUTTI_ERR_TEXT_BYTES + 32];

    (void)snprintf(line, sizeof(line), "%s (tried again)", err->text);
    if (t->params.note != NULL)
        t->params.note(t->params.context, line);
}

static bool has_reached_all(const struct tutti_server_trainer *t)
{
    return t->links[t->params.server_count - 1] != NULL;
}

/* A server that is lost before it has answered comes back, or does not until the deadline, which
 * one that is not reached has used up. Server 0 may have said why by then. */
static int meet(struct tutti_server_trainer *t, struct tutti_err *err)
{
    const double due_s =
        tutti_server_now_s() + (double)t->params.deadline_ps / (double)TUTTI_PS_PER_S;
    int status = open_links(t, err);

    while (status < 0 && status != -TUTTI_EINVAL && is_lost(t)) {
        if (t->links[0] != NULL && hear_out(t, 0, err) < 0)
            return t->failed;
        if (!has_reached_all(t) || tutti_server_now_s() >= due_s)
            break;
        close_links(t);
        (void)nanosleep(&before_again, NULL);
        status = open_links(t, err);
    }
    return status;
}

static int train(struct tutti_server_trainer *t, struct tutti_err *err)
{
    int status = 0;

    while (!t->finished && status == 0) {
        status = meet(t, err);
        if (status < 0)
            break;
        while (status == 0 && !t->finished)
            status = attend(t, err);
        if (t->finished || !is_lost(t))
            break;
        say_lost(t, err);
        close_links(t);
        (void)nanosleep(&before_again, NULL);
        status = 0;
    }
    if (t->finished)
        return 0;
    if (status < 0 && t->links[0] != NULL && !is_lost(t) && t->failed == 0) {
        const struct tutti_server_head head = {.step = 0}; /* for all to know why */

        (void)tutti_trainer_tell(t, 0, TUTTI_MESSAGE_FAIL, &head, err->text, strlen(err->text) + 1,
                                 NULL, 0, NULL);
    }
    return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int open_memory(struct tutti_server_trainer *t, struct tutti_err *err)
{
    const struct tutti_server_layout *l = t->layout;
    const uint64_t moments = tutti_update_moments(&t->params.optimizer);
    uint64_t most = 0;
    uint32_t variables = l->first_variable[l->layer_count];

    for (uint32_t s = 0; s < l->server_count; s++)
        if (l->server_elements[s] > most)
            most = l->server_elements[s];
    t->links = calloc(l->server_count, sizeof(struct tutti_frames *));
    t->weights = calloc(l->elements + 1, sizeof(float));
    t->gradient = calloc(l->elements + 1, sizeof(float));
    t->part = calloc(most * (1 + moments) + 1, sizeof(float));
    t->layer_weights = calloc((size_t)variables + 1, sizeof(float *));
    t->layer_gradients = calloc((size_t)variables + 1, sizeof(float *));
    if (t->links == NULL || t->weights == NULL || t->gradient == NULL || t->part == NULL ||
        t->layer_weights == NULL || t->layer_gradients == NULL)
        return tutti_nomem(err);
    for (uint32_t v = 0; v < variables; v++) {
        t->layer_weights[v] = t->weights + l->variable_at[v];
        t->layer_gradients[v] = t->gradient + l->variable_at[v];
    }
    return 0;
}

static int open_replica(struct tutti_server_trainer *t, struct tutti_err *err)
{
    const struct tutti_learner *learner = t->params.learner;

    if (learner == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "a worker without a learner");
    t->replica = learner->context;
    if (learner->open == NULL || !t->computes)
        return 0;
    t->replica = NULL;
    return learner->open(learner->context, 0, &t->replica, err);
}

/* Each worker begins at its own part of the examples, so that the first pass over all of them takes
 * as many steps as that of one. */
static uint64_t first_step(const struct tutti_servers_params *p)
{
    return p->role == TUTTI_SERVERS_WORKER && p->worker_count > 0
               ? p->epoch_steps * p->index / p->worker_count
               : 0;
}

int tutti_servers_work(const struct tutti_servers_params *params,
                       const struct tutti_server_layout *layout, struct tutti_servers_result *ret,
                       struct tutti_err *err)
{
    struct tutti_server_trainer t = {.params = *params,
                                     .layout = layout,
                                     .result = ret,
                                     .computes = params->role == TUTTI_SERVERS_WORKER,
                                     .opts = tutti_servers_frames(params, layout),
                                     .local_step = first_step(params)};
    int status = open_memory(&t, err);

    t.is_chief = params->role == TUTTI_SERVERS_CHIEF || (!params->has_chief && params->index == 0);
    if (status == 0)
        status = open_replica(&t, err);
    if (status == 0 && t.is_chief)
        status = tutti_chief_open(&t, err);
    if (status == 0)
        status = train(&t, err);
    if (t.is_chief)
        tutti_chief_close(&t);
    if (t.computes && t.replica != NULL && params->learner->open != NULL &&
        params->learner->close != NULL)
        params->learner->close(t.replica);
    for (uint32_t s = 0; s < params->server_count && t.links != NULL; s++)
        tutti_frames_close(t.links[s]);
    free(t.links);
    free(t.weights);
    free(t.gradient);
    free(t.part);
    free(t.layer_weights);
    free(t.layer_gradients);
    return status;
}
