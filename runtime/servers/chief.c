/* What the chief does beside training: sets the model up or restores it on all servers, and saves
 * snapshots of them; see trainer.h. A snapshot is written behind, by the saver's thread. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/servers/trainer.h"
#include "runtime/status.h"
#include "runtime/train/checkpoint_saver.h"
#include "runtime/train/saved_model.h"

enum { SLOTS = 1 + TUTTI_SERVER_MOMENTS, SCALARS = 3 };

static const char *const slot_names[SLOTS] = {"weights", "moment1", "moment2"};

struct tutti_server_saving {
    struct tutti_saved_model saved;
    struct tutti_checkpoint_slot slots[SLOTS];
    uint32_t slot_count;
    float *all[SLOTS]; /* [elements] each, as they are on the servers at `step` */
    uint64_t step;
    uint64_t updates;
    struct tutti_saver *saver; /* NULL: not begun since the model was set up */
    bool in_flight;
    bool is_committed;
    struct tutti_server_head order; /* that it answers */
    uint64_t on_disk;               /* the step that is saved already; UINT64_MAX: none */
};

static void note(const struct tutti_server_trainer *t, const char *line)
{
    if (t->params.note != NULL)
        t->params.note(t->params.context, line);
}

/* ---- opening --------------------------------------------------------------------------------- */

int tutti_chief_open(struct tutti_server_trainer *t, struct tutti_err *err)
{
    struct tutti_server_saving *s = calloc(1, sizeof(*s));
    int status;

    t->saving = s;
    if (s == NULL)
        return tutti_nomem(err);
    status = tutti_saved_model_make(t->params.model, &s->saved, err);
    s->slot_count = 1 + tutti_update_moments(&t->params.optimizer);
    for (uint32_t i = 0; i < s->slot_count && status == 0; i++) {
        s->slots[i] = (struct tutti_checkpoint_slot){
            .name = slot_names[i], .dtype = TUTTI_FLOAT32, .owner = TUTTI_OWNER_SHARED};
        s->all[i] = calloc(t->layout->elements + 1, sizeof(float));
        if (s->all[i] == NULL)
            status = tutti_nomem(err);
    }
    s->on_disk = UINT64_MAX;
    t->asked_s = tutti_server_now_s();
    return status;
}

void tutti_chief_close(struct tutti_server_trainer *t)
{
    struct tutti_server_saving *s = t->saving;
    struct tutti_err err;

    if (s == NULL)
        return;
    if (s->saver != NULL && tutti_saver_close(s->saver, &err) < 0)
        note(t, err.text);
    for (uint32_t i = 0; i < SLOTS; i++)
        free(s->all[i]);
    tutti_saved_model_done(&s->saved);
    free(s);
    t->saving = NULL;
}

bool tutti_chief_is_busy(const struct tutti_server_trainer *t)
{
    return t->saving != NULL && t->saving->in_flight;
}

static int show_weights(struct tutti_server_trainer *t, struct tutti_err *err)
{
    if (t->params.weights == NULL)
        return 0;
    return t->params.weights(t->params.context, t->saving->step, t->saving->all[0], err);
}

/* ---- setting up ------------------------------------------------------------------------------ */

static int initialise(struct tutti_server_trainer *t, struct tutti_err *err)
{
    const struct tutti_server_layout *l = t->layout;
    const struct tutti_learner *learner = t->params.learner;
    struct tutti_server_saving *s = t->saving;
    float **variables = calloc((size_t)l->first_variable[l->layer_count] + 1, sizeof(float *));
    int status = variables == NULL ? tutti_nomem(err) : 0;

    for (uint32_t i = 0; i < s->slot_count; i++)
        memset(s->all[i], 0, l->elements * sizeof(float));
    for (uint32_t v = 0; status == 0 && v < l->first_variable[l->layer_count]; v++)
        variables[v] = s->all[0] + l->variable_at[v];
    for (uint32_t i = 0; status == 0 && i < l->layer_count; i++)
        status = learner->init(learner->context, t->params.seed, i,
                               variables + l->first_variable[i], err);
    s->step = s->updates = 0;
    free(variables);
    return status;
}

static uint64_t integer_of(const struct tutti_checkpoint *c, const char *name)
{
    const struct tutti_checkpoint_scalar *scalar = tutti_checkpoint_scalar(c, name);

    return scalar != NULL ? scalar->integer : 0;
}

static int restore(struct tutti_server_trainer *t, struct tutti_checkpoint *c,
                   struct tutti_err *err)
{
    struct tutti_server_saving *s = t->saving;
    char line[TUTTI_CHECKPOINT_PATH_BYTES + 128];
    int status = 0;

    for (uint32_t i = 0; i < s->slot_count && status == 0; i++) {
        const struct tutti_checkpoint_want want = {.slot = slot_names[i],
                                                   .dtype = TUTTI_FLOAT32,
                                                   .count = t->layout->elements,
                                                   .rank_count = 1};

        memset(s->all[i], 0, t->layout->elements * sizeof(float));
        if (tutti_checkpoint_slot(c, slot_names[i]) != NULL) /* else of another optimizer */
            status = tutti_checkpoint_read(c, &want, s->all[i], err);
    }
    s->step = s->on_disk = integer_of(c, "steps");
    s->updates = integer_of(c, "updates");
    (void)snprintf(line, sizeof(line), "restored step %" PRIu64 " from '%s', saved by %s", s->step,
                   tutti_checkpoint_folder(c), tutti_checkpoint_strategy(c));
    if (status == 0)
        note(t, line);
    return status;
}

static void note_damage(void *context, const char *line)
{
    char text[TUTTI_CHECKPOINT_PATH_BYTES + 256];

    (void)snprintf(text, sizeof(text), "passed over: %s", line);
    note(context, text);
}

/* From the newest checkpoint that is whole, or from the beginning. Saves of before are over: those
 * that follow are of another incarnation, for steps may come again. */
static int load(struct tutti_server_trainer *t, struct tutti_err *err)
{
    struct tutti_server_saving *s = t->saving;
    const struct tutti_checkpoint_source source = {
        .model = &s->saved.model, .verify = true, .note = note_damage, .context = t};
    struct tutti_checkpoint *c = NULL;
    struct tutti_err closing;
    int status = 0;

    if (s->saver != NULL && tutti_saver_close(s->saver, &closing) < 0)
        note(t, closing.text);
    s->saver = NULL;
    s->in_flight = false;
    s->on_disk = UINT64_MAX;
    if (t->params.checkpoint != NULL)
        status = tutti_checkpoint_open_newest(&source, t->params.checkpoint, &c, err);
    if (status == 0)
        status = c != NULL ? restore(t, c, err) : initialise(t, err);
    tutti_checkpoint_close(c);
    return status;
}

/* Each server's part of weights and moments, one behind the other. */
static void gather(const struct tutti_server_trainer *t, uint32_t server)
{
    for (uint32_t i = 0; i < t->saving->slot_count; i++)
        tutti_server_gather(t->layout, server, t->saving->all[i],
                            t->part + i * t->layout->server_elements[server]);
}

static uint64_t row_bytes(const struct tutti_server_trainer *t, uint32_t server)
{
    return t->layout->server_elements[server] * t->saving->slot_count * sizeof(float);
}

int tutti_chief_set_up(struct tutti_server_trainer *t, struct tutti_err *err)
{
    struct tutti_server_head head = t->set_up.head;
    struct tutti_server_head got;
    const uint8_t *nothing;
    int status = load(t, err);

    t->set_up.is_there = t->save.is_there = false;
    head.step = t->saving->step;
    head.number = t->saving->updates;
    head.member = t->saving->slot_count - 1;
    for (uint32_t s = 0; s < t->params.server_count && status == 0; s++) {
        gather(t, s);
        status = tutti_trainer_tell(t, s, TUTTI_MESSAGE_ASSIGN, &head, t->part, row_bytes(t, s),
                                    NULL, 0, err);
        if (status == 0)
            status = tutti_trainer_await(t, s, TUTTI_MESSAGE_ASSIGNED, 0, &got, &nothing, err);
    }
    if (status == 0)
        status = show_weights(t, err);
    if (status == 0)
        status = tutti_trainer_tell(t, 0, TUTTI_MESSAGE_IS_SET_UP, &head, NULL, 0, NULL, 0, err);
    return status;
}

/* ---- saving ---------------------------------------------------------------------------------- */

/* *ret_there false: the model has been set up anew since. */
static int fetch(struct tutti_server_trainer *t, const struct tutti_server_head *order,
                 bool *ret_there, struct tutti_err *err)
{
    struct tutti_server_saving *s = t->saving;
    int status = 0;

    *ret_there = true;
    for (uint32_t i = 0; i < t->params.server_count && status == 0; i++) {
        struct tutti_server_head got;
        const uint8_t *body = NULL;
        const float *row;

        status = tutti_trainer_tell(t, i, TUTTI_MESSAGE_SNAPSHOT, order, NULL, 0, NULL, 0, err);
        if (status == 0)
            status =
                tutti_trainer_await(t, i, TUTTI_MESSAGE_COPY, row_bytes(t, i), &got, &body, err);
        if (status < 0)
            break;
        row = (const float *)(const void *)body;
        if (got.sequence == 0)
            *ret_there = false;
        else if (i > 0 && got.step != s->step)
            return tutti_fail(err, TUTTI_ECHECK,
                              "a snapshot of step %" PRIu64 " on server 0 and %" PRIu64
                              " on server %u",
                              s->step, got.step, i);
        for (uint32_t k = 0; k < s->slot_count && got.sequence > 0; k++)
            tutti_server_scatter(t->layout, i, row + k * t->layout->server_elements[i], s->all[k]);
        s->step = got.sequence > 0 ? got.step : s->step;
        s->updates = got.sequence > 0 ? got.number : s->updates;
    }
    return status;
}

static int open_saver(struct tutti_server_trainer *t, struct tutti_err *err)
{
    struct tutti_server_saving *s = t->saving;
    struct tutti_saver_options options = {.dir = t->params.checkpoint,
                                          .rank_count = 1,
                                          .is_chief = true,
                                          .keep = t->params.keep,
                                          .strategy = "parameter-server",
                                          .model = &s->saved.model,
                                          .slots = s->slots,
                                          .slot_count = s->slot_count};
    int status = tutti_checkpoint_next_incarnation(NULL, options.dir, &options.incarnation, err);

    return status < 0 ? status : tutti_saver_open(&options, &s->saver, err);
}

static int write_behind(struct tutti_server_trainer *t, struct tutti_err *err)
{
    struct tutti_server_saving *s = t->saving;
    const struct tutti_checkpoint_scalar scalars[SCALARS] = {
        {.name = "steps", .integer = s->step},
        {.name = "updates", .integer = s->updates},
        {.name = "seed", .integer = t->params.seed}};
    struct tutti_saver_piece pieces[SLOTS];
    int status = s->saver == NULL ? open_saver(t, err) : 0;

    for (uint32_t i = 0; i < s->slot_count; i++)
        pieces[i] = (struct tutti_saver_piece){i, 0, t->layout->elements, s->all[i]};
    if (status == 0)
        status = tutti_saver_begin(s->saver, s->step, pieces, s->slot_count, scalars, SCALARS, err);
    s->in_flight = status == 0;
    s->is_committed = false;
    return status;
}

static int say_saved(struct tutti_server_trainer *t, struct tutti_err *err)
{
    return tutti_trainer_tell(t, 0, TUTTI_MESSAGE_SAVED, &t->saving->order, NULL, 0, NULL, 0, err);
}

int tutti_chief_save(struct tutti_server_trainer *t, struct tutti_err *err)
{
    struct tutti_server_saving *s = t->saving;
    bool is_there = false;
    int status;

    t->save.is_there = false;
    s->order = t->save.head;
    status = fetch(t, &s->order, &is_there, err);
    if (status < 0 || !is_there)
        return status;
    t->asked_s = tutti_server_now_s();
    status = show_weights(t, err);
    if (status == 0 && (t->params.checkpoint == NULL || s->on_disk == s->step))
        return say_saved(t, err);
    return status < 0 ? status : write_behind(t, err);
}

/* Writing may take longer than the deadline, and at the end nothing else goes on. */
static int say_alive(struct tutti_server_trainer *t, double now_s, struct tutti_err *err)
{
    const struct tutti_server_head head = {.step = 0};

    if (now_s < t->alive_s + tutti_server_alive_every_s(&t->params))
        return 0;
    t->alive_s = now_s;
    return tutti_trainer_tell(t, 0, TUTTI_MESSAGE_ALIVE, &head, NULL, 0, NULL, 0, err);
}

/* What is being written. */
static int look_at_saver(struct tutti_server_trainer *t, struct tutti_err *err)
{
    struct tutti_server_saving *s = t->saving;
    enum tutti_saver_state state;
    int status = tutti_saver_poll(s->saver, &state, err);

    if (status == 0 && state == TUTTI_SAVER_WRITTEN && !s->is_committed) {
        s->is_committed = true;
        status = tutti_saver_commit(s->saver, err);
        if (status == 0) /* of one process: it takes as long as a manifest does */
            status = tutti_saver_wait(s->saver, err);
        if (status == 0) {
            s->in_flight = false;
            s->on_disk = s->step;
            status = say_saved(t, err);
        }
    }
    return status;
}

int tutti_chief_look(struct tutti_server_trainer *t, int wanted, struct tutti_err *err)
{
    const struct tutti_server_head head = {.step = 0};
    const double now_s = tutti_server_now_s();
    const bool is_due = t->params.save_ps > 0 && t->params.checkpoint != NULL &&
                        (now_s - t->asked_s) * 1e12 > (double)t->params.save_ps;
    int status = t->saving->in_flight ? look_at_saver(t, err) : 0;

    if (status == 0 && t->saving->in_flight)
        status = say_alive(t, now_s, err);
    if (status < 0 || (!is_due && (wanted & TUTTI_SERVERS_SAVE_NOW) == 0))
        return status;
    t->asked_s = now_s;
    return tutti_trainer_tell(t, 0, TUTTI_MESSAGE_SAVE_DUE, &head, NULL, 0, NULL, 0, err);
}
