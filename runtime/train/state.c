/* All that training has come to, as bytes whose order does not depend on how many ranks there are:
 * for those that go on in another number, and those that come later. */
#include <stdlib.h>
#include <string.h>

#include "runtime/coll.h"
#include "runtime/schedule.h"
#include "runtime/shape.h"
#include "runtime/status.h"
#include "runtime/train/flat.h"
#include "runtime/train/trainer.h"

enum { ARRAYS = 5 };

/* What stands before the arrays. */
struct head {
    uint64_t steps;
    uint64_t updates;
    uint64_t good_steps;
    double loss_scale;
};

_Static_assert(sizeof(struct head) % sizeof(float) == 0, "floats may follow");

/* Each as long as the weights, or NULL: alike in all replicas of one training. */
static void list(const struct tutti_replica *r, float *ret[ARRAYS])
{
    ret[0] = r->state;
    ret[1] = r->moments[0];
    ret[2] = r->moments[1];
    ret[3] = r->anchor;
    ret[4] = r->outer_moment;
}

static int check(const struct tutti_trainer *t, struct tutti_err *err)
{
    if (t->cut != NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "ranks that have parts of the model (each with all of it)");
    if (t->strategy.sharding != TUTTI_SHARD_NONE || tutti_trainer_first(t)->left_out != NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "strategy '%s' divides what training has come to among its ranks (one "
                          "where each has all)",
                          t->strategy.name);
    return 0;
}

uint64_t tutti_trainer_state_bytes(const struct tutti_trainer *t)
{
    float *arrays[ARRAYS];
    uint64_t bytes = sizeof(struct head);

    list(tutti_trainer_first(t), arrays);
    for (int i = 0; i < ARRAYS; i++)
        bytes += arrays[i] != NULL ? t->layout.plan.weights * sizeof(float) : 0;
    return bytes;
}

int tutti_trainer_read_state(struct tutti_trainer *t, void *to, struct tutti_err *err)
{
    const struct tutti_replica *r = tutti_trainer_first(t);
    const struct head head = {.steps = t->step_count,
                              .updates = r->update_count,
                              .good_steps = r->scale.good_steps,
                              .loss_scale = r->scale.scale};
    float *at = (float *)(void *)((char *)to + sizeof(head));
    float *arrays[ARRAYS];
    int status = check(t, err);

    if (status == 0)
        status = tutti_trainer_fetch(t, err);
    if (status < 0)
        return status;
    memcpy(to, &head, sizeof(head));
    list(r, arrays);
    for (int i = 0; i < ARRAYS; i++) {
        if (arrays[i] == NULL)
            continue;
        tutti_flat_gather(&t->layout, t->first_rank, arrays[i], at);
        at += t->layout.plan.weights;
    }
    return 0;
}

int tutti_trainer_write_state(struct tutti_trainer *t, const void *from, struct tutti_err *err)
{
    struct head head;
    int status = check(t, err);

    if (status < 0)
        return status;
    memcpy(&head, from, sizeof(head));
    tutti_trainer_rest(t);
    for (uint32_t own = 0; own < t->own_count; own++) {
        struct tutti_replica *r = t->replicas[t->first_rank + own];
        const float *at = (const float *)(const void *)((const char *)from + sizeof(head));
        float *arrays[ARRAYS];

        list(r, arrays);
        for (int i = 0; i < ARRAYS; i++) {
            if (arrays[i] == NULL)
                continue;
            tutti_flat_scatter(&t->layout, r->rank, at, arrays[i]);
            at += t->layout.plan.weights;
        }
        r->step = head.steps;
        r->update_count = head.updates;
        r->scale.good_steps = (uint32_t)head.good_steps;
        r->scale.scale = head.loss_scale;
    }
    t->step_count = head.steps;
    return 0;
}

/* From rank `root` to all, as the backend's ranks are connected. */
static int broadcast(struct tutti_trainer *t, uint32_t root, void *bytes, uint64_t count,
                     struct tutti_err *err)
{
    const struct tutti_coll_params params = {.collective = TUTTI_BROADCAST,
                                             .dtype = TUTTI_FLOAT32,
                                             .root = root,
                                             .count = count / sizeof(float)};
    const struct tutti_shape shape = tutti_shape_flat(t->params.rank_count);
    struct tutti_play play = {.size = sizeof(play),
                              .iteration_count = 1,
                              .barrier = true,
                              .deadline_ps = t->params.deadline_ps};
    const void **ins = calloc(t->params.rank_count, sizeof(ins[0]));
    void **outs = calloc(t->params.rank_count, sizeof(outs[0]));
    char *rows = calloc(t->own_count, count);
    struct tutti_schedule *schedule = NULL;
    struct tutti_played played;
    int status = ins == NULL || outs == NULL || rows == NULL
                     ? tutti_nomem(err)
                     : tutti_coll_generate("ring", &params, &shape, &schedule, err);

    for (uint32_t i = 0; i < t->own_count && status == 0; i++) {
        ins[t->first_rank + i] = bytes;
        outs[t->first_rank + i] = rows + i * count;
    }
    play.schedule = schedule;
    play.in = ins;
    play.out = outs;
    if (status == 0)
        status = tutti_backend_play(t->params.backend, &play, &played, err);
    if (status == 0)
        memcpy(bytes, rows, count);
    tutti_schedule_free(schedule);
    free(rows);
    free(outs);
    free(ins);
    return status;
}

int tutti_trainer_spread_state(struct tutti_trainer *t, uint32_t root, struct tutti_err *err)
{
    const uint64_t bytes = tutti_trainer_state_bytes(t);
    void *state = malloc(bytes);
    int status = state == NULL ? tutti_nomem(err) : tutti_trainer_read_state(t, state, err);

    tutti_trainer_rest(t);
    if (status == 0 && t->params.rank_count > 1)
        status = broadcast(t, root, state, bytes, err);
    if (status == 0)
        status = tutti_trainer_write_state(t, state, err);
    free(state);
    return status;
}
