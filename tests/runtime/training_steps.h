/* Training steps made at random for tests: tensor and data parallel, whole or spoilt in one place.
 */
#ifndef TUTTI_TESTS_RUNTIME_TRAINING_STEPS_H
#define TUTTI_TESTS_RUNTIME_TRAINING_STEPS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/coll.h"
#include "runtime/data.h"
#include "runtime/status.h"
#include "tests/runtime/step_interpreter.h"
#include "tests/test.h"

enum { LAYERS_MAX = 3, LANES = 3, TYPE_COUNT = 5, ALGORITHM_COUNT = 4 };

/* Lanes: work, calls of the tensor-parallel axis, calls of the data-parallel one. */
enum { WORK, TENSOR, DATA };

/* What one step of a schedule can be spoilt by. */
enum spoil {
    SPOIL_NOTHING,
    SPOIL_DEPENDENCY, /* dropped */
    SPOIL_CALL,       /* left out by one rank */
    SPOIL_ORDER,      /* a call of one rank and the next on its lane change places */
    SPOIL_PLACE,      /* the input of a call of one rank lies 8 bytes further on */
    SPOIL_WORK,       /* left out by one rank */
    SPOIL_AXIS,       /* a call of one rank on the other axis, whose groups have as many ranks */
    SPOIL_COUNT
};

struct layer {
    uint64_t act_bytes;
    uint64_t weight_bytes; /* a multiple of 8 dp */
    uint32_t act_type;
    uint32_t grad_type;
    uint32_t algorithm;
    bool is_sharded; /* each rank of dp updates its part, and gathers the others' */
    bool in_place;
};

struct training {
    uint32_t tp;
    uint32_t dp;
    uint32_t layer_count;
    struct layer layers[LAYERS_MAX];
    bool has_neighbours; /* each rank sends its first activations to the next */
    enum spoil spoil;
    uint32_t spoil_site;
    uint32_t site_counts[SPOIL_COUNT]; /* places that there were to spoil */
};

/* Integers: no order of summing matters. */
static const struct {
    enum tutti_dtype dtype;
    enum tutti_op op;
} step_types[TYPE_COUNT] = {{TUTTI_INT32, TUTTI_SUM},
                            {TUTTI_INT32, TUTTI_MAX},
                            {TUTTI_INT64, TUTTI_MIN},
                            {TUTTI_UINT8, TUTTI_SUM},
                            {TUTTI_INT8, TUTTI_PROD}};

/* Those that are right in place too. */
static const char *const step_algorithms[ALGORITHM_COUNT] = {"ring", "halving-doubling", "two-shot",
                                                             "binomial"};

/* ---- making a step --------------------------------------------------------------------------- */

/* Where things lie, in bytes, and the numbers of work and callees by layer. */
struct plan {
    uint64_t act[LAYERS_MAX];   /* scratch: as computed */
    uint64_t whole[LAYERS_MAX]; /* scratch: summed over tp; `act` if in place or alone */
    uint64_t grad[LAYERS_MAX];
    uint64_t sum[LAYERS_MAX]; /* scratch: gradients summed over dp, or this rank's part of them */
    uint64_t weight[LAYERS_MAX]; /* state */
    uint64_t neighbour;          /* scratch */
    uint64_t callee_scratch[LANES];
    uint32_t callee[LANES][LAYERS_MAX];
    uint32_t gather[LAYERS_MAX];
    uint64_t scratch_bytes;
    uint64_t state_bytes;
};

struct maker {
    struct training *t;
    struct plan plan;
    struct tutti_builder *builder;
    struct tutti_schedule *callees[3 * LAYERS_MAX];
    uint32_t callee_count;
    uint64_t callee_bytes[LANES]; /* scratch that the callees of a lane want at most */
    struct tutti_work work[3 * LAYERS_MAX + 1];
    struct tutti_region regions[8 * (3 * LAYERS_MAX + 1)];
    uint32_t region_count;
    uint32_t seen[SPOIL_COUNT];
    uint32_t counts[LANES]; /* steps of the rank in hand */
    uint32_t rank;
    struct tutti_step held[LANES]; /* a call that waits for the next, to change places with it */
    bool holds[LANES];
};

static void step_add_to(struct maker *m, uint32_t lane, struct tutti_step step)
{
    struct tutti_err err;

    CHECK_OK(tutti_builder_add(m->builder, m->rank, lane, &step, &err), err);
}

/* Whether this is the place that is to be spoilt. */
static bool step_spoils(struct maker *m, enum spoil spoil)
{
    return m->seen[spoil]++ == m->t->spoil_site && m->t->spoil == spoil;
}

static struct tutti_step step_nothing(struct tutti_step step)
{
    return (struct tutti_step){.kind = TUTTI_COPY,
                               .flags = step.flags & TUTTI_STEP_DEP,
                               .dep_lane = step.dep_lane,
                               .dep_step = step.dep_step};
}

static struct tutti_step step_spoilt_call(struct maker *m, struct tutti_step step)
{
    if (step_spoils(m, SPOIL_PLACE))
        step.src_offset += 8;
    if (m->t->tp == m->t->dp && step_spoils(m, SPOIL_AXIS))
        step.axis = (uint8_t)(3 - step.axis);
    return step_spoils(m, SPOIL_CALL) ? step_nothing(step) : step;
}

/* Adds a step; returns its number in the lane. */
static uint32_t step_add(struct maker *m, uint32_t lane, struct tutti_step step)
{
    bool was_held = m->holds[lane];

    if ((step.flags & TUTTI_STEP_DEP) != 0 && step_spoils(m, SPOIL_DEPENDENCY))
        step.flags &= (uint8_t)~TUTTI_STEP_DEP;
    if (step.kind == TUTTI_COMPUTE && step_spoils(m, SPOIL_WORK))
        step = step_nothing(step);
    if (step.kind == TUTTI_CALL)
        step = step_spoilt_call(m, step);
    /* The last call of a lane has none to change places with. */
    if (!was_held && step.kind == TUTTI_CALL && lane == DATA && m->t->layer_count > 1 &&
        m->counts[lane] == 0 && step_spoils(m, SPOIL_ORDER)) {
        m->held[lane] = step;
        m->holds[lane] = true;
        return m->counts[lane]++;
    }
    step_add_to(m, lane, step);
    if (was_held) {
        step_add_to(m, lane, m->held[lane]);
        m->holds[lane] = false;
    }
    return m->counts[lane]++;
}

static struct tutti_step step_after(struct tutti_step step, uint32_t lane, uint32_t index)
{
    step.flags |= TUTTI_STEP_DEP;
    step.dep_lane = (uint16_t)lane;
    step.dep_step = index;
    return step;
}

static void step_reads(struct maker *m, uint32_t work, enum tutti_buf buf, uint64_t offset,
                       uint64_t bytes, uint8_t whole)
{
    if (m->work[work].read_count++ == 0)
        m->work[work].reads = &m->regions[m->region_count];
    m->regions[m->region_count++] = (struct tutti_region){
        .buf = (uint8_t)buf, .whole = whole, .offset = offset, .bytes = bytes};
}

static void step_writes(struct maker *m, uint32_t work, enum tutti_buf buf, uint64_t offset,
                        uint64_t bytes)
{
    m->work[work].writes = &m->regions[m->region_count];
    m->work[work].write_count = 1;
    m->regions[m->region_count++] =
        (struct tutti_region){.buf = (uint8_t)buf, .offset = offset, .bytes = bytes};
}

static uint32_t step_add_callee(struct maker *m, uint32_t lane, const char *algorithm,
                                enum tutti_collective collective, uint32_t n, uint32_t type,
                                uint64_t bytes)
{
    const struct tutti_coll_params params = {.collective = collective,
                                             .dtype = step_types[type].dtype,
                                             .op = step_types[type].op,
                                             .count =
                                                 bytes / tutti_dtype_bytes(step_types[type].dtype)};
    const struct tutti_shape shape = tutti_shape_flat(n);
    struct tutti_err err;
    struct tutti_schedule **callee = &m->callees[m->callee_count];

    CHECK_OK(tutti_coll_generate(algorithm, &params, &shape, callee, &err), err);
    if (*callee != NULL && (*callee)->scratch_bytes > m->callee_bytes[lane])
        m->callee_bytes[lane] = (*callee)->scratch_bytes;
    return m->callee_count++;
}

static uint64_t step_take(uint64_t *used, uint64_t bytes)
{
    uint64_t at = *used;

    *used += (bytes + 7) / 8 * 8;
    return at;
}

static void step_plan_layer(struct maker *m, uint32_t l)
{
    const struct training *t = m->t;
    const struct layer *layer = &t->layers[l];
    struct plan *p = &m->plan;
    uint64_t part = layer->weight_bytes / t->dp;

    p->act[l] = step_take(&p->scratch_bytes, layer->act_bytes);
    p->whole[l] =
        t->tp == 1 || layer->in_place ? p->act[l] : step_take(&p->scratch_bytes, layer->act_bytes);
    p->grad[l] = step_take(&p->scratch_bytes, layer->weight_bytes);
    if (t->dp == 1 || (layer->in_place && !layer->is_sharded))
        p->sum[l] = p->grad[l];
    else
        p->sum[l] = step_take(&p->scratch_bytes, layer->is_sharded ? part : layer->weight_bytes);
    p->weight[l] = step_take(&p->state_bytes, layer->weight_bytes);
    if (t->tp > 1)
        p->callee[TENSOR][l] =
            step_add_callee(m, TENSOR, step_algorithms[layer->algorithm], TUTTI_ALLREDUCE, t->tp,
                            layer->act_type, layer->act_bytes);
    if (t->dp > 1 && layer->is_sharded) {
        p->callee[DATA][l] =
            step_add_callee(m, DATA, "ring", TUTTI_REDUCESCATTER, t->dp, layer->grad_type, part);
        p->gather[l] =
            step_add_callee(m, DATA, "ring", TUTTI_ALLGATHER, t->dp, layer->grad_type, part);
    } else if (t->dp > 1) {
        p->callee[DATA][l] =
            step_add_callee(m, DATA, step_algorithms[layer->algorithm], TUTTI_ALLREDUCE, t->dp,
                            layer->grad_type, layer->weight_bytes);
    }
}

/* Entry 3 l: forward; 3 l + 1: backward; 3 l + 2: update. */
static void step_plan_work(struct maker *m, uint32_t l)
{
    static const char *const names[3 * LAYERS_MAX] = {"forward0", "backward0", "update0",
                                                      "forward1", "backward1", "update1",
                                                      "forward2", "backward2", "update2"};
    const struct layer *layer = &m->t->layers[l];
    const struct plan *p = &m->plan;
    bool shards = layer->is_sharded && m->t->dp > 1;
    uint64_t part = shards ? layer->weight_bytes / m->t->dp : layer->weight_bytes;

    for (uint32_t i = 0; i < 3; i++)
        m->work[3 * l + i] = (struct tutti_work){
            .name = names[3 * l + i], .duration_ps = 1000 * (i + 1), .run = step_stir};
    step_reads(m, 3 * l, TUTTI_BUF_STATE, p->weight[l], layer->weight_bytes, 0);
    if (l == 0)
        step_reads(m, 3 * l, TUTTI_BUF_IN, 0, 16, 0);
    else
        step_reads(m, 3 * l, TUTTI_BUF_SCRATCH, p->whole[l - 1], m->t->layers[l - 1].act_bytes,
                   m->t->tp > 1 ? 2 : 0);
    step_writes(m, 3 * l, TUTTI_BUF_SCRATCH, p->act[l], layer->act_bytes);
    step_reads(m, 3 * l + 1, TUTTI_BUF_STATE, p->weight[l], layer->weight_bytes, 0);
    step_reads(m, 3 * l + 1, TUTTI_BUF_SCRATCH, p->whole[l], layer->act_bytes,
               m->t->tp > 1 ? 2 : 0);
    step_writes(m, 3 * l + 1, TUTTI_BUF_SCRATCH, p->grad[l], layer->weight_bytes);
    step_reads(m, 3 * l + 2, TUTTI_BUF_SCRATCH, p->sum[l], part, m->t->dp > 1 ? 3 : 0);
    step_reads(m, 3 * l + 2, TUTTI_BUF_STATE, p->weight[l], part, 0);
    step_writes(m, 3 * l + 2, TUTTI_BUF_STATE, p->weight[l], part);
}

static void step_plan_last(struct maker *m)
{
    const struct training *t = m->t;
    uint32_t work = 3 * t->layer_count;

    m->work[work] = (struct tutti_work){.name = "last", .duration_ps = 1, .run = step_stir};
    for (uint32_t l = 0; l < t->layer_count; l++)
        step_reads(m, work, TUTTI_BUF_STATE, m->plan.weight[l], t->layers[l].weight_bytes, 0);
    if (t->has_neighbours)
        step_reads(m, work, TUTTI_BUF_SCRATCH, m->plan.neighbour, t->layers[0].act_bytes, 0);
    step_writes(m, work, TUTTI_BUF_OUT, 0, 8);
}

static void step_forward_and_backward(struct maker *m, uint32_t *data_call)
{
    const struct training *t = m->t;
    const struct plan *p = &m->plan;
    uint32_t call = 0;
    uint32_t done;

    for (uint32_t l = 0; l < t->layer_count; l++) {
        struct tutti_step step = tutti_step_compute(&m->work[3 * l], 3 * l);

        done = step_add(m, WORK, t->tp > 1 && l > 0 ? step_after(step, TENSOR, call) : step);
        if (t->tp == 1)
            continue;
        step = tutti_step_call(
            p->callee[TENSOR][l], 1, (struct tutti_buf_at){TUTTI_BUF_SCRATCH, p->act[l]},
            (struct tutti_buf_at){TUTTI_BUF_SCRATCH, p->whole[l]}, p->callee_scratch[TENSOR]);
        call = step_add(m, TENSOR, step_after(step, WORK, done));
    }
    for (uint32_t l = t->layer_count; l-- > 0;) {
        struct tutti_step step = tutti_step_compute(&m->work[3 * l + 1], 3 * l + 1);

        done = step_add(
            m, WORK, t->tp > 1 && l + 1 == t->layer_count ? step_after(step, TENSOR, call) : step);
        if (t->dp == 1)
            continue;
        step = tutti_step_call(
            p->callee[DATA][l], 2, (struct tutti_buf_at){TUTTI_BUF_SCRATCH, p->grad[l]},
            (struct tutti_buf_at){TUTTI_BUF_SCRATCH, p->sum[l]}, p->callee_scratch[DATA]);
        data_call[l] = step_add(m, DATA, step_after(step, WORK, done));
    }
}

static void step_update(struct maker *m, const uint32_t *data_call)
{
    const struct training *t = m->t;
    const struct plan *p = &m->plan;
    uint64_t member = m->rank / t->tp;
    struct tutti_step last = tutti_step_compute(&m->work[3 * t->layer_count], 3 * t->layer_count);

    for (uint32_t l = t->layer_count; l-- > 0;) {
        struct tutti_step step = tutti_step_compute(&m->work[3 * l + 2], 3 * l + 2);
        uint64_t part = t->layers[l].weight_bytes / t->dp;
        bool shards = t->layers[l].is_sharded && t->dp > 1;
        uint32_t done;

        if (shards) {
            step.src_buf = TUTTI_BUF_STATE;
            step.src_offset = member * part;
        }
        done = step_add(m, WORK, t->dp > 1 ? step_after(step, DATA, data_call[l]) : step);
        if (!shards)
            continue;
        step = tutti_step_call(
            p->gather[l], 2, (struct tutti_buf_at){TUTTI_BUF_STATE, p->weight[l] + member * part},
            (struct tutti_buf_at){TUTTI_BUF_STATE, p->weight[l]}, p->callee_scratch[DATA]);
        last = step_after(last, DATA, step_add(m, DATA, step_after(step, WORK, done)));
    }
    if (t->has_neighbours) {
        uint32_t n = t->tp * t->dp;

        step_add(m, WORK,
                 tutti_step_send((struct tutti_buf_at){TUTTI_BUF_SCRATCH, p->whole[0]},
                                 t->layers[0].act_bytes, (m->rank + 1) % n));
        step_add(m, WORK,
                 tutti_step_recv((struct tutti_buf_at){TUTTI_BUF_SCRATCH, p->neighbour},
                                 t->layers[0].act_bytes, (m->rank + n - 1) % n));
    }
    step_add(m, WORK, last);
}

static bool step_open_builder(struct maker *m)
{
    const struct training *t = m->t;
    const uint32_t sizes[2] = {t->dp, t->tp};
    const struct tutti_axis axes[2] = {tutti_mesh_axis("tp", 0, sizes, 2, 1),
                                       tutti_mesh_axis("dp", 0, sizes, 2, 0)};
    const struct tutti_schedule_desc desc = {
        .name = "step",
        .contract = {.collective = TUTTI_CUSTOM},
        .rank_count = t->tp * t->dp,
        .lane_count = LANES,
        .in_bytes = 16,
        .out_bytes = 8,
        .scratch_bytes = m->plan.scratch_bytes,
        .state_bytes = m->plan.state_bytes,
        .axes = axes,
        .axis_count = 2,
        .work = m->work,
        .work_count = 3 * t->layer_count + 1,
    };
    struct tutti_err err;
    uint32_t index;

    CHECK_OK(tutti_builder_new(&desc, &m->builder, &err), err);
    for (uint32_t i = 0; i < m->callee_count && m->builder != NULL; i++)
        CHECK_OK(tutti_builder_add_callee(m->builder, m->callees[i], &index, &err), err);
    return m->builder != NULL;
}

/* The schedule, spoilt as `t` says; counts the places that could be. */
static struct tutti_schedule *make_step(struct training *t)
{
    struct maker m = {.t = t};
    uint32_t data_call[LAYERS_MAX] = {0};
    struct tutti_schedule *s = NULL;
    struct tutti_err err = {""};

    for (uint32_t l = 0; l < t->layer_count; l++)
        step_plan_layer(&m, l);
    m.plan.neighbour = step_take(&m.plan.scratch_bytes, t->layers[0].act_bytes);
    m.plan.callee_scratch[TENSOR] = step_take(&m.plan.scratch_bytes, m.callee_bytes[TENSOR]);
    m.plan.callee_scratch[DATA] = step_take(&m.plan.scratch_bytes, m.callee_bytes[DATA]);
    for (uint32_t l = 0; l < t->layer_count; l++)
        step_plan_work(&m, l);
    step_plan_last(&m);
    if (!step_open_builder(&m))
        return NULL;
    for (m.rank = 0; m.rank < t->tp * t->dp; m.rank++) {
        memset(m.counts, 0, sizeof(m.counts));
        step_forward_and_backward(&m, data_call);
        step_update(&m, data_call);
    }
    memcpy(t->site_counts, m.seen, sizeof(m.seen));
    CHECK_OK(tutti_builder_finish(m.builder, &s, &err), err);
    return s;
}

#endif
