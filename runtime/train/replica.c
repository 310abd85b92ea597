/* What a rank does at each COMPUTE of a training step. */
#include "runtime/train/replica.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/data.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/train/checkpoint_saver.h"
#include "runtime/train/convert.h"
#include "runtime/train/flat.h"
#include "runtime/train/gpu.h"
#include "runtime/train/hash.h"

static double now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *at(const void *base, uint64_t offset)
{
    return (float *)(void *)((char *)base + offset);
}

/* ---- the learner's part ---------------------------------------------------------------------- */

const struct tutti_variable_place *tutti_replica_places(const struct tutti_replica *r,
                                                        uint32_t layer, uint32_t *ret_count)
{
    const struct tutti_layout *l = r->layout;

    *ret_count = l->first_place[layer + 1] - l->first_place[layer];
    return &l->places[l->first_place[layer]];
}

const float *const *tutti_replica_weights(struct tutti_replica *r, uint32_t layer,
                                          const struct tutti_work_call *call)
{
    uint32_t count;
    const struct tutti_variable_place *places = tutti_replica_places(r, layer, &count);
    const void *base = r->layout->weights_gathered ? call->scratch : call->state;

    for (uint32_t v = 0; v < count; v++)
        r->weights[v] = at(base, places[v].weight);
    return r->weights;
}

/* Examples of the next micro-batch. */
static int take_examples(struct tutti_replica *r, struct tutti_err *err)
{
    const struct tutti_layout *l = r->layout;
    const double scale = tutti_loss_scale_of(&r->scale) * (l->averages ? l->params.rank_count : 1);

    if (l->learner->input == NULL)
        return 0;
    return l->learner->input(r->learning, r->step - 1, r->micro_batch++, scale, err);
}

/* At the head of a step; other micro-batches come when the first layer begins them. */
static int input(struct tutti_replica *r, const struct tutti_work_call *call, struct tutti_err *err)
{
    (void)call;
    if (r->begins && r->layout->params.check_sync)
        r->hash = tutti_weights_hash_exact(r->state, r->state_elements);
    r->begins = false;
    r->micro_batch = 0;
    r->step++;
    r->has_input = true;
    return take_examples(r, err);
}

static int forward(struct tutti_replica *r, uint32_t layer, const struct tutti_work_call *call,
                   struct tutti_err *err)
{
    const struct tutti_layout *l = r->layout;
    const struct tutti_learner *learner = l->learner;
    struct tutti_sums sums;
    int status = 0;

    if (layer == 0 && !r->has_input)
        status = take_examples(r, err);
    if (layer == 0)
        r->has_input = false;
    if (status >= 0)
        status = learner->forward(r->learning, layer, tutti_replica_weights(r, layer, call), err);
    if (status < 0 || layer + 1 < l->plan.layer_count)
        return status;
    sums = learner->sums(r->learning);
    r->sums.loss += sums.loss;
    r->sums.correct += sums.correct;
    r->sums.examples += sums.examples;
    return 0;
}

/* Gradients of 16 bits are added up before they are rounded. */
static void narrow(struct tutti_replica *r, const struct tutti_variable_place *place, void *scratch)
{
    char *to = (char *)scratch + place->gradient;

    tutti_train_narrow(r->layout->params.gradients, to, r->gradients + place->flat,
                       place->elements);
}

static int backward(struct tutti_replica *r, uint32_t layer, bool add,
                    const struct tutti_work_call *call, struct tutti_err *err)
{
    const struct tutti_layout *l = r->layout;
    uint32_t count;
    const struct tutti_variable_place *places = tutti_replica_places(r, layer, &count);
    int status;

    for (uint32_t v = 0; v < count; v++)
        r->slopes[v] = places[v].slice_count > 0 ? NULL
                       : l->narrow               ? r->gradients + places[v].flat
                                                 : at(call->scratch, places[v].gradient);
    status = l->learner->backward(r->learning, layer, tutti_replica_weights(r, layer, call),
                                  r->slopes, add, err);
    for (uint32_t v = 0; v < count && status >= 0 && l->narrow; v++)
        narrow(r, &places[v], call->scratch);
    for (uint32_t v = 0; v < count && status >= 0; v++)
        if (places[v].slice_count > 0)
            status = tutti_replica_take_slices(r, layer, v, add, call, err);
    return status;
}

/* ---- what is reduced ------------------------------------------------------------------------- */

uint64_t tutti_replica_own(const struct tutti_layout *l, const struct tutti_plan_pack *p)
{
    bool shares = l->plan.strategy->sharding != TUTTI_SHARD_NONE;

    return shares ? p->padded / l->plan.shard_ranks : p->weights;
}

uint64_t tutti_replica_count(const struct tutti_replica *r, const struct tutti_plan_pack *p)
{
    const struct tutti_plan *plan = &r->layout->plan;
    const uint64_t own = tutti_replica_own(r->layout, p);
    const uint64_t before =
        plan->strategy->sharding != TUTTI_SHARD_NONE ? r->rank % plan->shard_ranks * own : 0;
    const uint64_t left = p->weights > before ? p->weights - before : 0;

    return left < own ? left : own;
}

uint64_t tutti_replica_gradient(const struct tutti_replica *r, const struct tutti_plan_pack *p)
{
    const struct tutti_layout *l = r->layout;
    bool shares = l->plan.strategy->sharding != TUTTI_SHARD_NONE && !l->alone;

    if (l->alone || l->averages)
        return p->offset;
    /* All of it is reduced, the rank's part of which counts. */
    if (shares && l->plan.strategy->full_reduce)
        return p->sum_offset + (r->rank % l->plan.shard_ranks) * tutti_replica_own(l, p) *
                                   l->plan.params.gradient_bytes;
    return p->sum_offset;
}

/* The summed gradient of what the rank owns of a pack, in fp32. */
static const float *gradient_of(struct tutti_replica *r, const struct tutti_plan_pack *p,
                                const struct tutti_work_call *call)
{
    const struct tutti_layout *l = r->layout;
    const char *from = (const char *)call->scratch + tutti_replica_gradient(r, p);
    float *to;

    if (p->sparse)
        return r->tables + p->first_weight;
    if (!l->narrow)
        return (const float *)(const void *)from;
    to = r->widened + p->state_offset / sizeof(float);
    tutti_train_widen(l->params.gradients, to, from, tutti_replica_own(l, p));
    return to;
}

static int add_up(struct tutti_replica *r, uint32_t entry, const struct tutti_work_call *call,
                  struct tutti_err *err)
{
    const struct tutti_layout *l = r->layout;
    const struct tutti_plan_pack *p = &l->plan.packs[entry / 2];
    const uint64_t count = p->padded / l->plan.shard_ranks;
    const char *from = (const char *)call->scratch + p->result_offset;
    char *to = (char *)call->scratch + p->sum_offset;

    (void)err;
    if (entry % 2 == 0)
        memcpy(to, from, count * l->plan.params.gradient_bytes);
    else
        tutti_reduce(l->narrow ? l->params.gradients : TUTTI_FLOAT32, TUTTI_SUM, to, to, from,
                     count);
    return 0;
}

void tutti_replica_share(const struct tutti_replica *r, const struct tutti_plan_pack *p,
                         uint64_t *ret_first, uint64_t *ret_end)
{
    const struct tutti_layout *l = r->layout;
    const bool shares = l->plan.strategy->sharding != TUTTI_SHARD_NONE;
    const uint32_t equal = shares        ? l->params.rank_count / l->plan.shard_ranks
                           : l->averages ? 1
                                         : l->params.rank_count;
    const uint32_t part = shares ? r->rank / l->plan.shard_ranks : l->averages ? 0 : r->rank;
    const uint64_t count = tutti_replica_count(r, p);

    *ret_first = count * part / equal;
    *ret_end = count * (part + 1) / equal;
}

/* Squares of the summed gradient: where all ranks have all of it, each takes its share. */
static double squares(struct tutti_replica *r, const struct tutti_work_call *call)
{
    const struct tutti_layout *l = r->layout;
    double sum = 0;

    for (uint32_t i = 0; i < l->plan.pack_count; i++) {
        const struct tutti_plan_pack *p = &l->plan.packs[i];
        const float *gradient = gradient_of(r, p, call);
        uint64_t first;
        uint64_t end;

        tutti_replica_share(r, p, &first, &end);
        sum += tutti_train_square_sum(gradient + first, end - first);
    }
    return sum;
}

/* Whether the rank's part of a checkpoint is written, and not committed yet. */
static bool has_saved(struct tutti_replica *r)
{
    enum tutti_saver_state state = TUTTI_SAVER_IDLE;

    if (r->saver == NULL || r->saver_status < 0)
        return false;
    r->saver_status = tutti_saver_poll(r->saver, &state, &r->saver_err);
    return r->saver_status == 0 && state == TUTTI_SAVER_WRITTEN;
}

void tutti_replica_report(struct tutti_replica *r, double sum, double *said)
{
    const struct tutti_layout *l = r->layout;

    memset(said, 0, l->plan.report.bytes);
    said[TUTTI_REPORT_LOSS] = r->sums.loss;
    said[TUTTI_REPORT_CORRECT] = r->sums.correct;
    said[TUTTI_REPORT_EXAMPLES] = r->sums.examples;
    said[TUTTI_REPORT_SQUARES] = isfinite(sum) ? sum : 0;
    said[TUTTI_REPORT_NOT_FINITE] = isfinite(sum) ? 0 : 1;
    said[TUTTI_REPORT_STOP] = atomic_load(&r->stop) ? 1 : 0;
    said[TUTTI_REPORT_SAVE] = r->wants_save ? 1 : 0;
    said[TUTTI_REPORT_SAVED] = has_saved(r) ? 1 : 0;
    said[TUTTI_REPORT_RANKS + r->rank] = r->compute_s;
    said[TUTTI_REPORT_RANKS + l->params.rank_count + r->rank] = r->input_s + r->update_s;
    if (l->params.check_sync)
        said[TUTTI_REPORT_RANKS + 2 * l->params.rank_count + r->rank] = r->hash;
}

static int report(struct tutti_replica *r, const struct tutti_work_call *call,
                  struct tutti_err *err)
{
    int status = tutti_replica_sum_slices(r, call, err);

    if (status < 0)
        return status;
    tutti_replica_report(r, squares(r, call),
                         (double *)(void *)((char *)call->scratch + r->layout->plan.report.offset));
    return 0;
}

/* ---- weights --------------------------------------------------------------------------------- */

double tutti_replica_next_update(struct tutti_replica *r, double norm)
{
    const struct tutti_trainer_params *p = &r->layout->params;

    r->rate = p->optimizer.rate * tutti_rate_at(&p->rate, r->update_count++);
    return tutti_clip_scale(norm, p->clip_norm) / tutti_loss_scale_of(&r->scale);
}

/* One update of what the rank owns, by gradients whose norm all know. */
static void update(struct tutti_replica *r, const struct tutti_work_call *call, double norm)
{
    const struct tutti_layout *l = r->layout;
    const double scale = tutti_replica_next_update(r, norm);

    for (uint32_t i = 0; i < l->plan.pack_count; i++) {
        const struct tutti_plan_pack *p = &l->plan.packs[i];
        uint64_t first = p->state_offset / sizeof(float);
        float *moments[2] = {r->moments[0] != NULL ? r->moments[0] + first : NULL,
                             r->moments[1] != NULL ? r->moments[1] + first : NULL};

        tutti_update_weights(&l->params.optimizer, r->rate, r->update_count, scale,
                             r->state + first, gradient_of(r, p, call), moments,
                             tutti_replica_count(r, p));
    }
}

void tutti_replica_hear(struct tutti_replica *r)
{
    r->norm = sqrt(r->said[TUTTI_REPORT_SQUARES]) / tutti_loss_scale_of(&r->scale);
    r->skipped = r->said[TUTTI_REPORT_NOT_FINITE] > 0;
}

static int optimize(struct tutti_replica *r, const struct tutti_work_call *call,
                    struct tutti_err *err)
{
    const struct tutti_layout *l = r->layout;

    (void)err;
    memcpy(r->said, (const char *)call->scratch + l->plan.report_sum.offset,
           l->plan.report_sum.bytes);
    tutti_replica_hear(r);
    if (!r->skipped) {
        update(r, call, r->norm);
        tutti_replica_keep_left_out(r, call);
    }
    (void)tutti_loss_scale_update(&r->scale, !r->skipped);
    return 0;
}

/* A step of local SGD between averages. */
static int optimize_locally(struct tutti_replica *r, const struct tutti_work_call *call,
                            struct tutti_err *err)
{
    double sum = squares(r, call);

    (void)err;
    if (isfinite(sum))
        update(r, call, sqrt(sum) / tutti_loss_scale_of(&r->scale));
    return 0;
}

/* The average is there: an outer optimizer takes what it differs by from the last as a gradient. */
static int outer(struct tutti_replica *r, const struct tutti_work_call *call, struct tutti_err *err)
{
    const struct tutti_trainer_params *p = &r->layout->params;

    (void)call;
    (void)err;
    for (uint64_t i = 0; i < r->state_elements && r->anchor != NULL; i++) {
        float slope = r->anchor[i] - r->state[i];
        float moment = (float)p->outer_momentum * r->outer_moment[i] + slope;

        r->outer_moment[i] = moment;
        r->state[i] =
            r->anchor[i] - (float)p->outer_rate * (slope + (float)p->outer_momentum * moment);
        r->anchor[i] = r->state[i];
    }
    return 0;
}

/* ---- all ------------------------------------------------------------------------------------- */

int tutti_replica_do(struct tutti_replica *r, const struct tutti_work_call *call,
                     const struct tutti_replica_ops *ops, struct tutti_err *err)
{
    const struct tutti_layout *l = r->layout;
    const struct tutti_plan_entries *e = &l->entries;
    const uint32_t entry = call->step->peer - 1;

    if (entry < 3 * l->plan.layer_count)
        return entry % 3 == 0 ? ops->forward(r, entry / 3, call, err)
                              : ops->backward(r, entry / 3, entry % 3 == 2, call, err);
    if (entry == e->input)
        return ops->input(r, call, err);
    if (entry == e->report)
        return ops->report(r, call, err);
    if (entry == e->optimizer)
        return ops->optimize(r, call, err);
    if (entry == e->local)
        return ops->optimize_locally(r, call, err);
    if (entry == e->outer)
        return ops->outer(r, call, err);
    if (e->sum != UINT32_MAX && entry >= e->sum && entry - e->sum < 2 * l->plan.pack_count)
        return ops->add_up(r, entry - e->sum, call, err);
    if (e->compress != UINT32_MAX && entry >= e->compress && ops->compress != NULL)
        ops->compress(r, entry - e->compress, call);
    return 0;
}

static const struct tutti_replica_ops ops_here = {.forward = forward,
                                                  .backward = backward,
                                                  .input = input,
                                                  .report = report,
                                                  .optimize = optimize,
                                                  .optimize_locally = optimize_locally,
                                                  .outer = outer,
                                                  .add_up = add_up,
                                                  .compress = tutti_replica_compress};

int tutti_replica_run(const struct tutti_work_call *call, struct tutti_err *err)
{
    struct tutti_replica *r = ((struct tutti_replica **)call->work->context)[call->rank];
    const uint32_t entry = call->step->peer - 1;
    const double from_s = now_s();
    double took_s;
    int status;

    if (call->queue != NULL)
        return tutti_gpu_replica_run(r, call, err);
    status = tutti_replica_do(r, call, &ops_here, err);
    took_s = now_s() - from_s;
    r->compute_s += took_s;
    if (entry == r->layout->entries.input)
        r->input_s += took_s;
    else if (entry >= 3 * r->layout->plan.layer_count)
        r->update_s += took_s;
    return status;
}

/* ---- open and close -------------------------------------------------------------------------- */

enum { LINE = 64 };

static float *take(uint64_t elements, bool *done)
{
    size_t bytes = (size_t)((elements * sizeof(float) + LINE) / LINE * LINE);
    float *memory = *done ? aligned_alloc(LINE, bytes) : NULL;

    *done = memory != NULL;
    if (*done)
        memset(memory, 0, bytes);
    return memory;
}

static bool take_all(struct tutti_replica *r)
{
    const struct tutti_layout *l = r->layout;
    bool done = true;

    r->state = take(r->state_elements, &done);
    for (uint32_t k = 0; k < tutti_update_moments(&l->params.optimizer); k++)
        r->moments[k] = take(r->state_elements, &done);
    if (l->narrow) {
        r->gradients = take(l->plan.weights, &done);
        r->widened = take(r->state_elements, &done);
    }
    if (l->slice_most > 0) {
        r->tables = take(l->plan.weights - l->dense_elements, &done);
        r->slices = take(l->slice_elements, &done);
        r->rows = calloc(l->slice_most, sizeof(r->rows[0]));
        done = done && r->rows != NULL;
    }
    if (l->averages && l->params.outer_rate > 0 && !l->alone) {
        r->anchor = take(r->state_elements, &done);
        r->outer_moment = take(r->state_elements, &done);
    }
    if (l->plan.strategy->compression != TUTTI_COMPRESS_NONE && !l->alone) {
        r->left_out = take(r->state_elements, &done);
        r->left_out_next = take(r->state_elements, &done);
    }
    if (l->plan.factor_elements > 0 && !l->alone)
        r->factors = take(l->plan.factor_elements, &done);
    r->weights = calloc((size_t)l->layer_most + 1, sizeof(r->weights[0]));
    r->slopes = calloc((size_t)l->layer_most + 1, sizeof(r->slopes[0]));
    r->said = calloc(tutti_report_elements(&l->params), sizeof(r->said[0]));
    return done && r->weights != NULL && r->slopes != NULL && r->said != NULL;
}

/* First values, layer by layer; of weights that are divided, the rank's part. */
static int begin_weights(struct tutti_replica *r, struct tutti_err *err)
{
    const struct tutti_layout *l = r->layout;
    bool done = true;
    float *all = take(l->plan.weights, &done);
    int status = done ? 0 : tutti_nomem(err);

    for (uint32_t i = 0; i < l->plan.layer_count && status >= 0; i++) {
        uint32_t count;
        const struct tutti_variable_place *places = tutti_replica_places(r, i, &count);

        for (uint32_t v = 0; v < count; v++)
            r->slopes[v] = all + places[v].flat;
        status = l->learner->init(l->learner->context, l->params.seed, i, r->slopes, err);
    }
    if (status >= 0)
        tutti_flat_scatter(l, r->rank, all, r->state);
    if (status >= 0 && r->anchor != NULL)
        memcpy(r->anchor, r->state, r->state_elements * sizeof(float));
    free(all);
    return status < 0 ? status : 0;
}

int tutti_replica_open(const struct tutti_layout *layout, uint32_t rank, struct tutti_replica *ret,
                       struct tutti_err *err)
{
    const struct tutti_learner *learner = layout->learner;
    int status = 0;

    *ret = (struct tutti_replica){.layout = layout,
                                  .rank = rank,
                                  .learning = learner->open == NULL ? learner->context : NULL,
                                  .state_elements = layout->plan.state_bytes / sizeof(float),
                                  .scale = layout->params.loss_scale};
    if (!take_all(ret))
        status = tutti_nomem(err);
    if (status == 0 && learner->open != NULL)
        status = learner->open(learner->context, rank, &ret->learning, err);
    if (status == 0)
        status = begin_weights(ret, err);
    if (status == 0)
        tutti_replica_begin_factors(ret);
    if (status < 0)
        tutti_replica_close(ret);
    return status;
}

void tutti_replica_close(struct tutti_replica *r)
{
    if (r->layout != NULL && r->layout->learner->close != NULL && r->learning != NULL)
        r->layout->learner->close(r->learning);
    free(r->state);
    free(r->moments[0]);
    free(r->moments[1]);
    free(r->gradients);
    free(r->widened);
    free(r->tables);
    free(r->slices);
    free(r->rows);
    free(r->left_out);
    free(r->left_out_next);
    free(r->factors);
    free(r->anchor);
    free(r->outer_moment);
    free(r->weights);
    free(r->slopes);
    free(r->said);
    *r = (struct tutti_replica){.layout = NULL}; /* may be closed once more */
}
