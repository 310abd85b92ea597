/* What wants all weights at once: evaluation on held-out examples, and the weights themselves. A
 * schedule of its own: where weights are divided they are gathered, then each rank looks at all of
 * them, then what ranks have found is added up. */
#include <stdlib.h>
#include <string.h>

#include "runtime/coll.h"
#include "runtime/schedule.h"
#include "runtime/shape.h"
#include "runtime/status.h"
#include "runtime/train/cut.h"
#include "runtime/train/flat.h"

enum { SUMS = TUTTI_TRAINER_SUMS, LINE = 64 };

/* What a rank does with all weights. */
struct whole {
    struct tutti_trainer *trainer;
    float *all;        /* not NULL: the first rank of this process copies them there */
    bool evaluate;     /* each rank looks at its held-out examples */
    const double *own; /* not NULL: what this process adds to the sums */
    bool gathers;
    uint64_t sums_offset;
    double sums[SUMS];
};

struct whole_schedule {
    struct tutti_schedule *gather;
    struct tutti_schedule *reduce;
    struct tutti_work work[2]; /* look; note what came of it */
    struct tutti_region regions[3];
    uint64_t gathered_bytes;
    uint64_t sums_offset;
    uint64_t total_offset;
    uint64_t scratch_bytes;
};

/* Weights as one row: where they lie, or put together in memory of the caller's to free. */
static const float *row_of(const struct whole *whole, const struct tutti_work_call *call,
                           float **ret_own)
{
    const struct tutti_trainer *t = whole->trainer;
    const uint64_t elements = t->layout.plan.state_bytes / sizeof(float);

    *ret_own = NULL;
    if (!whole->gathers)
        return call->state;
    *ret_own = calloc(t->layout.plan.weights + 1, sizeof(float));
    for (uint32_t i = 0; *ret_own != NULL && i < t->params.rank_count; i++)
        tutti_flat_gather(tutti_trainer_layout(t, i), i,
                          (const float *)call->scratch + i * elements, *ret_own);
    return *ret_own;
}

static int evaluate(const struct whole *whole, const struct tutti_work_call *call, const float *row,
                    struct tutti_err *err)
{
    const struct tutti_layout *l = &whole->trainer->layout;
    struct tutti_replica *r = whole->trainer->replicas[call->rank];
    uint32_t count = l->first_place[l->plan.layer_count];
    const float **variables = calloc((size_t)count + 1, sizeof(variables[0]));
    struct tutti_sums sums = {0, 0, 0};
    double *said = (double *)(void *)((char *)call->scratch + whole->sums_offset);
    int status;

    if (variables == NULL)
        return tutti_nomem(err);
    for (uint32_t v = 0; v < count; v++)
        variables[v] =
            row + (whole->gathers ? l->places[v].flat : l->places[v].weight / sizeof(float));
    status = r->learning == NULL ? 0 : l->learner->evaluate(r->learning, variables, &sums, err);
    free(variables);
    memset(said, 0, SUMS * sizeof(said[0]));
    said[0] = sums.loss;
    said[1] = sums.correct;
    said[2] = sums.examples;
    return status;
}

/* Of a process its first rank speaks. */
static void say(const struct whole *whole, const struct tutti_work_call *call)
{
    double *said = (double *)(void *)((char *)call->scratch + whole->sums_offset);

    for (uint32_t i = 0; i < SUMS; i++)
        said[i] = call->rank == whole->trainer->first_rank ? whole->own[i] : 0;
}

static int look(const struct tutti_work_call *call, struct tutti_err *err)
{
    struct whole *whole = call->work->context;
    const struct tutti_trainer *t = whole->trainer;
    float *own;
    const float *row = row_of(whole, call, &own);
    int status = row == NULL ? tutti_nomem(err) : 0;

    if (status == 0 && whole->all != NULL && call->rank == t->first_rank)
        memcpy(whole->all, row, t->layout.plan.weights * sizeof(float));
    if (status == 0 && whole->evaluate)
        status = evaluate(whole, call, row, err);
    if (whole->own != NULL)
        say(whole, call);
    free(own);
    return status;
}

static int note(const struct tutti_work_call *call, struct tutti_err *err)
{
    struct whole *whole = call->work->context;

    (void)err;
    if (call->rank == whole->trainer->first_rank)
        memcpy(whole->sums, (const char *)call->scratch + call->work->reads[0].offset,
               sizeof(whole->sums));
    return 0;
}

/* ---- the schedule ---------------------------------------------------------------------------- */

static int make_callees(const struct whole *whole, struct whole_schedule *s, struct tutti_err *err)
{
    const struct tutti_trainer *t = whole->trainer;
    const struct tutti_shape shape = tutti_shape_flat(t->params.rank_count);
    const struct tutti_coll_params gather = {.collective = TUTTI_ALLGATHER,
                                             .dtype = TUTTI_FLOAT32,
                                             .count = t->layout.plan.state_bytes / sizeof(float)};
    const struct tutti_coll_params reduce = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT64, .op = TUTTI_SUM, .count = SUMS};
    int status = 0;

    if (whole->gathers) {
        status = tutti_coll_generate("ring", &gather, &shape, &s->gather, err);
        s->gathered_bytes = t->params.rank_count * t->layout.plan.state_bytes;
    }
    if (status == 0 && t->params.rank_count > 1)
        status = tutti_coll_generate("ring", &reduce, &shape, &s->reduce, err);
    return status;
}

static void place(const struct tutti_trainer *t, struct whole_schedule *s, struct whole *whole)
{
    uint64_t most = 0;

    s->sums_offset = (s->gathered_bytes + LINE - 1) / LINE * LINE;
    s->total_offset = s->sums_offset + (t->params.rank_count > 1 ? LINE : 0);
    s->scratch_bytes = s->total_offset + LINE;
    if (s->gather != NULL)
        most = s->gather->scratch_bytes;
    if (s->reduce != NULL && s->reduce->scratch_bytes > most)
        most = s->reduce->scratch_bytes;
    s->scratch_bytes += most;
    s->regions[0] = (struct tutti_region){.buf = TUTTI_BUF_SCRATCH, .bytes = s->gathered_bytes};
    s->regions[1] = (struct tutti_region){
        .buf = TUTTI_BUF_SCRATCH, .offset = s->sums_offset, .bytes = SUMS * sizeof(double)};
    s->regions[2] = s->regions[1];
    s->regions[2].offset = s->total_offset;
    s->work[0] = (struct tutti_work){.name = "look",
                                     .reads = s->regions,
                                     .read_count = s->gathered_bytes > 0,
                                     .writes = s->regions + 1,
                                     .write_count = 1,
                                     .run = look,
                                     .context = whole};
    s->work[1] = (struct tutti_work){
        .name = "note", .reads = s->regions + 2, .read_count = 1, .run = note, .context = whole};
    whole->sums_offset = s->sums_offset;
}

static int add_call(struct tutti_builder *b, struct tutti_schedule **callee,
                    struct tutti_buf_at from, uint64_t to, uint64_t staging, struct tutti_err *err)
{
    struct tutti_step step;
    uint32_t index;
    int status;

    if (*callee == NULL)
        return 0;
    status = tutti_builder_add_callee(b, *callee, &index, err);
    if (status < 0)
        return status;
    *callee = NULL;
    step = tutti_step_call(index, 0, from, (struct tutti_buf_at){TUTTI_BUF_SCRATCH, to}, staging);
    return tutti_builder_add(b, 0, 0, &step, err);
}

static int write_schedule(const struct tutti_trainer *t, struct whole_schedule *s,
                          struct tutti_schedule **ret, struct tutti_err *err)
{
    const struct tutti_schedule_desc desc = {.name = "whole",
                                             .contract = {.collective = TUTTI_CUSTOM},
                                             .rank_count = t->params.rank_count,
                                             .lane_count = 1,
                                             .scratch_bytes = s->scratch_bytes,
                                             .state_bytes = t->layout.plan.state_bytes,
                                             .work = s->work,
                                             .work_count = 2,
                                             .program_count = 1};
    const uint64_t staging = s->total_offset + LINE;
    const struct tutti_step steps[2] = {tutti_step_compute(&s->work[0], 0),
                                        tutti_step_compute(&s->work[1], 1)};
    struct tutti_builder *b;
    int status = tutti_builder_new(&desc, &b, err);

    if (status < 0)
        return status;
    status = add_call(b, &s->gather, (struct tutti_buf_at){TUTTI_BUF_STATE, 0}, 0, staging, err);
    if (status == 0)
        status = tutti_builder_add(b, 0, 0, &steps[0], err);
    if (status == 0)
        status = add_call(b, &s->reduce, (struct tutti_buf_at){TUTTI_BUF_SCRATCH, s->sums_offset},
                          s->total_offset, staging, err);
    if (status == 0)
        status = tutti_builder_add(b, 0, 0, &steps[1], err);
    if (status == 0)
        return tutti_builder_finish(b, ret, err);
    tutti_builder_free(b);
    return status;
}

static int play_whole(struct whole *whole, struct tutti_err *err)
{
    struct tutti_trainer *t = whole->trainer;
    struct tutti_schedule *schedule = NULL;
    struct whole_schedule s = {0};
    int status = make_callees(whole, &s, err);

    if (status == 0) {
        place(t, &s, whole);
        status = write_schedule(t, &s, &schedule, err);
    }
    if (status == 0)
        status = tutti_trainer_play(t, schedule, err);
    tutti_schedule_free(schedule);
    tutti_schedule_free(s.gather);
    tutti_schedule_free(s.reduce);
    return status < 0 ? status : 0;
}

int tutti_trainer_add_up(struct tutti_trainer *t, double *sums, struct tutti_err *err)
{
    struct whole whole = {.trainer = t, .own = sums};
    int status = play_whole(&whole, err);

    if (status == 0)
        memcpy(sums, whole.sums, sizeof(whole.sums));
    return status;
}

/* ---- the door -------------------------------------------------------------------------------- */

int tutti_trainer_evaluate(struct tutti_trainer *t, struct tutti_sums *ret, struct tutti_err *err)
{
    struct whole whole = {.trainer = t, .evaluate = true, .gathers = t->layout.weights_gathered};
    int status;

    if (t->params.learner->size < TUTTI_BYTES_TO(struct tutti_learner, evaluate) ||
        t->params.learner->evaluate == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "the learner has no held-out examples (evaluate)");
    status = play_whole(&whole, err);
    *ret = (struct tutti_sums){whole.sums[0], whole.sums[1], whole.sums[2]};
    return status;
}

uint64_t tutti_trainer_elements(const struct tutti_trainer *t)
{
    return t->layout.plan.weights;
}

int tutti_trainer_weights(struct tutti_trainer *t, float *all, struct tutti_err *err)
{
    struct whole whole = {.trainer = t, .all = all, .gathers = t->layout.weights_gathered};
    int status;

    if (t->layout.weights_gathered)
        return play_whole(&whole, err);
    status = tutti_trainer_fetch(t, err);
    tutti_flat_gather(&t->layout, t->first_rank, tutti_trainer_first(t)->state, all);
    return status;
}
