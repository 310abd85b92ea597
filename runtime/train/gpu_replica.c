/* What a rank does at each COMPUTE of a training step where its memory is a device's: the same as
 * replica.c, put into a queue. Once a step, before the optimizer, the host learns what all ranks
 * have said, and decides as everywhere. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/train/gpu.h"
#include "runtime/train/hash.h"
#include "runtime/train/loops.h"

enum { SQUARES = 2, SUMS = 3, PARTS = 4096, FEWER_PARTS = 64 };

struct tutti_gpu_replica {
    struct tutti_device_queue *queue;
    void *learning; /* the learner's */
    float *state;   /* the run's */
    float *moments[2];
    float *anchor;
    float *outer_moment;
    float *gradients; /* narrow, as in struct tutti_replica */
    float *widened;
    double *sums;     /* of the step: loss, examples that are right, squares of the gradient */
    double *parts;    /* [PARTS + FEWER_PARTS] */
    uint64_t *stamps; /* when the step's work began and ended */
    double *said;     /* [report elements], of the host */
};

#define PUT(CALL, KERNEL, ...)                                       \
    (CALL)->queue->ops->launch((CALL)->queue, TUTTI_KERNEL_##KERNEL, \
                               &(const struct tutti_kernel_args){__VA_ARGS__}, err)

static char *at(const void *base, uint64_t offset)
{
    return (char *)base + offset;
}

static uint32_t kind_of(const struct tutti_layout *l)
{
    return !l->narrow                              ? TUTTI_KERNEL_FLOAT
           : l->params.gradients == TUTTI_BFLOAT16 ? TUTTI_KERNEL_BRAIN
                                                   : TUTTI_KERNEL_HALF;
}

bool tutti_gpu_can(const struct tutti_trainer_params *p)
{
    return p->learner->size >= sizeof(struct tutti_learner) && p->learner->device != NULL &&
           p->strategy->compression == TUTTI_COMPRESS_NONE;
}

/* ---- what it has there ----------------------------------------------------------------------- */

/* The host's arrays that training keeps, and where they are on the device: [NULL] ends them. */
struct kept {
    float *here;
    float **there;
};

static void list_kept(struct tutti_replica *r, struct kept ret[5])
{
    struct tutti_gpu_replica *gpu = r->gpu;
    const struct kept all[5] = {{r->state, &gpu->state},
                                {r->moments[0], &gpu->moments[0]},
                                {r->moments[1], &gpu->moments[1]},
                                {r->anchor, &gpu->anchor},
                                {r->outer_moment, &gpu->outer_moment}};

    memcpy(ret, all, sizeof(all));
}

static int take(struct tutti_gpu_replica *gpu, uint64_t bytes, void **ret, int status,
                struct tutti_err *err)
{
    return status < 0 ? status : gpu->queue->ops->alloc(gpu->queue, bytes + 64, ret, err);
}

static int take_floats(struct tutti_gpu_replica *gpu, uint64_t count, float **ret, int status,
                       struct tutti_err *err)
{
    void *made = NULL;

    status = take(gpu, count * sizeof(float), &made, status, err);
    *ret = made;
    return status;
}

/* The state is the run's, which has brought it there. */
static int send_kept(struct tutti_replica *r, struct tutti_err *err)
{
    struct tutti_gpu_replica *gpu = r->gpu;
    struct kept kept[5];
    int status = 0;

    list_kept(r, kept);
    for (int i = 1; i < 5 && status == 0; i++) {
        if (kept[i].here == NULL)
            continue;
        status = take_floats(gpu, r->state_elements, kept[i].there, status, err);
        if (status == 0)
            status = gpu->queue->ops->upload(gpu->queue, *kept[i].there, kept[i].here,
                                             r->state_elements * sizeof(float), err);
    }
    return status;
}

static int enter(struct tutti_replica *r, const struct tutti_work_call *call, struct tutti_err *err)
{
    const struct tutti_layout *l = r->layout;
    struct tutti_gpu_replica *gpu = calloc(1, sizeof(*gpu));
    void *made[3] = {NULL, NULL, NULL};
    int status = 0;

    if (gpu == NULL)
        return tutti_nomem(err);
    r->gpu = gpu; /* what has been taken is given back by leave */
    gpu->queue = call->queue;
    gpu->state = call->state;
    gpu->said = calloc(tutti_report_elements(&l->params), sizeof(gpu->said[0]));
    if (gpu->said == NULL)
        return tutti_nomem(err);
    status = take(gpu, SUMS * sizeof(double), &made[0], status, err);
    status = take(gpu, (PARTS + FEWER_PARTS) * sizeof(double), &made[1], status, err);
    status = take(gpu, 2 * sizeof(uint64_t), &made[2], status, err);
    gpu->sums = made[0];
    gpu->parts = made[1];
    gpu->stamps = made[2];
    if (l->narrow) {
        status = take_floats(gpu, l->plan.weights, &gpu->gradients, status, err);
        status = take_floats(gpu, r->state_elements, &gpu->widened, status, err);
    }
    if (status == 0)
        status = send_kept(r, err);
    if (status == 0)
        status = l->learner->device->open(r->learning, call->queue, &gpu->learning, err);
    return status;
}

int tutti_gpu_replica_fetch(struct tutti_replica *r, struct tutti_err *err)
{
    struct tutti_gpu_replica *gpu = r->gpu;
    struct kept kept[5];
    int status = 0;

    if (gpu == NULL)
        return 0;
    list_kept(r, kept);
    for (int i = 0; i < 5 && status == 0; i++)
        if (kept[i].here != NULL && *kept[i].there != NULL)
            status = gpu->queue->ops->download(gpu->queue, kept[i].here, *kept[i].there,
                                               r->state_elements * sizeof(float), err);
    return status;
}

void tutti_gpu_replica_leave(struct tutti_replica *r)
{
    struct tutti_gpu_replica *gpu = r->gpu;

    if (gpu == NULL)
        return;
    if (gpu->learning != NULL)
        r->layout->learner->device->close(gpu->learning);
    for (int i = 0; i < 2; i++)
        gpu->queue->ops->free(gpu->queue, gpu->moments[i]);
    gpu->queue->ops->free(gpu->queue, gpu->anchor);
    gpu->queue->ops->free(gpu->queue, gpu->outer_moment);
    gpu->queue->ops->free(gpu->queue, gpu->gradients);
    gpu->queue->ops->free(gpu->queue, gpu->widened);
    gpu->queue->ops->free(gpu->queue, gpu->sums);
    gpu->queue->ops->free(gpu->queue, gpu->parts);
    gpu->queue->ops->free(gpu->queue, gpu->stamps);
    free(gpu->said);
    free(gpu);
    r->gpu = NULL;
}

/* ---- the learner's part ---------------------------------------------------------------------- */

static int stamp(const struct tutti_replica *r, const struct tutti_work_call *call, uint64_t which,
                 struct tutti_err *err)
{
    return PUT(call, stamp, .bytes = r->gpu->stamps, .rows = which, .count = 1);
}

static int input(struct tutti_replica *r, const struct tutti_work_call *call, struct tutti_err *err)
{
    int status = 0;

    if (r->begins) {
        status = call->queue->ops->clear(call->queue, r->gpu->sums, SUMS * sizeof(double), err);
        if (status == 0)
            status = stamp(r, call, 0, err);
    }
    if (r->begins && r->layout->params.check_sync && status == 0) {
        status = tutti_gpu_replica_fetch(r, err);
        r->hash = tutti_weights_hash_exact(r->state, r->state_elements);
    }
    r->begins = false;
    r->micro_batch = 0;
    r->step++;
    return status;
}

static int forward(struct tutti_replica *r, uint32_t layer, const struct tutti_work_call *call,
                   struct tutti_err *err)
{
    const struct tutti_layout *l = r->layout;
    const struct tutti_learner_device *device = l->learner->device;
    double scale = tutti_loss_scale_of(&r->scale) * (l->averages ? l->params.rank_count : 1);
    uint32_t examples = 0;
    int status = 0;

    if (layer == 0)
        status = device->input(r->gpu->learning, r->step - 1, r->micro_batch++, scale, err);
    if (status >= 0)
        status =
            device->forward(r->gpu->learning, layer, tutti_replica_weights(r, layer, call), err);
    if (status < 0 || layer + 1 < l->plan.layer_count)
        return status;
    status = device->sums(r->gpu->learning, r->gpu->sums, &examples, err);
    r->sums.examples += examples;
    return status;
}

static int backward(struct tutti_replica *r, uint32_t layer, bool add,
                    const struct tutti_work_call *call, struct tutti_err *err)
{
    const struct tutti_layout *l = r->layout;
    uint32_t count;
    const struct tutti_variable_place *places = tutti_replica_places(r, layer, &count);
    int status;

    for (uint32_t v = 0; v < count; v++)
        r->slopes[v] = l->narrow ? r->gpu->gradients + places[v].flat
                                 : (float *)(void *)at(call->scratch, places[v].gradient);
    status = l->learner->device->backward(
        r->gpu->learning, layer, tutti_replica_weights(r, layer, call), r->slopes, add, err);
    for (uint32_t v = 0; v < count && status >= 0 && l->narrow; v++)
        status = PUT(call, narrow, .bytes = at(call->scratch, places[v].gradient),
                     .from = r->gpu->gradients + places[v].flat, .count = places[v].elements,
                     .kind = kind_of(l));
    return status >= 0 && layer == 0 ? stamp(r, call, 1, err) : status;
}

/* ---- what is reduced ------------------------------------------------------------------------- */

static int gradient_of(struct tutti_replica *r, const struct tutti_plan_pack *p,
                       const struct tutti_work_call *call, const float **ret, struct tutti_err *err)
{
    const struct tutti_layout *l = r->layout;
    const char *from = at(call->scratch, tutti_replica_gradient(r, p));
    float *to;

    *ret = (const float *)(const void *)from;
    if (!l->narrow)
        return 0;
    to = r->gpu->widened + p->state_offset / sizeof(float);
    *ret = to;
    return PUT(call, widen, .to = to, .from_bytes = from, .count = tutti_replica_own(l, p),
               .kind = kind_of(l));
}

static int add_up(struct tutti_replica *r, uint32_t entry, const struct tutti_work_call *call,
                  struct tutti_err *err)
{
    const struct tutti_layout *l = r->layout;
    const struct tutti_plan_pack *p = &l->plan.packs[entry / 2];
    const uint64_t count = p->padded / l->plan.shard_ranks;
    char *from = at(call->scratch, p->result_offset);
    char *to = at(call->scratch, p->sum_offset);

    if (entry % 2 == 0)
        return call->queue->ops->copy(call->queue, to, from, count * l->plan.params.gradient_bytes,
                                      err);
    return PUT(call, add, .bytes = to, .from_bytes = from, .count = count, .kind = kind_of(l));
}

/* To sums[SQUARES]. */
static int squares(struct tutti_replica *r, const struct tutti_work_call *call,
                   struct tutti_err *err)
{
    struct tutti_gpu_replica *gpu = r->gpu;
    const struct tutti_plan *plan = &r->layout->plan;
    double *fewer = gpu->parts + PARTS;
    int status =
        call->queue->ops->clear(call->queue, gpu->sums + SQUARES, sizeof(gpu->sums[0]), err);

    for (uint32_t i = 0; i < plan->pack_count && status == 0; i++) {
        const float *gradient;
        uint64_t first;
        uint64_t end;
        uint64_t parts;

        tutti_replica_share(r, &plan->packs[i], &first, &end);
        if (first == end)
            continue;
        parts = end - first < PARTS ? end - first : PARTS;
        status = gradient_of(r, &plan->packs[i], call, &gradient, err);
        if (status == 0)
            status = PUT(call, square_sums, .from = gradient + first, .sums = gpu->parts,
                         .rows = end - first, .count = parts);
        if (status == 0)
            status = PUT(call, part_sums, .parts = gpu->parts, .sums = fewer, .rows = parts,
                         .columns = 1, .part_count = FEWER_PARTS, .count = FEWER_PARTS);
        if (status == 0)
            status = PUT(call, add_sums, .parts = fewer, .sums = gpu->sums + SQUARES,
                         .part_count = FEWER_PARTS, .count = 1, .factor = 1);
    }
    return status;
}

static int report(struct tutti_replica *r, const struct tutti_work_call *call,
                  struct tutti_err *err)
{
    const struct tutti_region *region = &r->layout->plan.report;
    char *to = at(call->scratch, region->offset);
    int status = squares(r, call, err);

    tutti_replica_report(r, 0, r->gpu->said);
    if (status == 0)
        status = call->queue->ops->upload(call->queue, to, r->gpu->said, region->bytes, err);
    return status < 0 ? status
                      : PUT(call, report, .sums = (double *)(void *)to, .parts = r->gpu->sums,
                            .from_bytes = r->gpu->stamps, .rows = TUTTI_REPORT_SQUARES,
                            .columns = TUTTI_REPORT_RANKS + r->rank, .count = 1);
}

/* ---- weights --------------------------------------------------------------------------------- */

static int update(struct tutti_replica *r, const struct tutti_work_call *call, double norm,
                  struct tutti_err *err)
{
    const struct tutti_layout *l = r->layout;
    const struct tutti_update_rule *rule = &l->params.optimizer;
    const double scale = tutti_replica_next_update(r, norm);
    const struct tutti_update_step u = tutti_update_step_of(rule, r->rate, r->update_count, scale);
    const uint32_t moments = tutti_update_moments(rule);
    int status = 0;

    for (uint32_t i = 0; i < l->plan.pack_count && status == 0; i++) {
        const struct tutti_plan_pack *p = &l->plan.packs[i];
        const uint64_t first = p->state_offset / sizeof(float);
        const float *gradient;

        status = gradient_of(r, p, call, &gradient, err);
        if (status == 0)
            status = PUT(call, update, .to = r->gpu->state + first, .from = gradient,
                         .moments = {moments > 0 ? r->gpu->moments[0] + first : NULL,
                                     moments > 1 ? r->gpu->moments[1] + first : NULL},
                         .count = tutti_replica_count(r, p),
                         .kind = moments == 2   ? TUTTI_KERNEL_ADAM
                                 : moments == 1 ? TUTTI_KERNEL_MOMENTUM
                                                : TUTTI_KERNEL_SGD,
                         .scale = u.gradient_scale, .decay = u.decay,
                         .rate = moments == 2 ? u.mean_rate : u.rate, .momentum = u.momentum,
                         .nesterov = u.nesterov, .mean_part = u.mean_part,
                         .variance_part = u.variance_part, .epsilon = u.epsilon);
    }
    return status;
}

static int optimize(struct tutti_replica *r, const struct tutti_work_call *call,
                    struct tutti_err *err)
{
    const struct tutti_region *region = &r->layout->plan.report_sum;
    int status = call->queue->ops->download(call->queue, r->said, at(call->scratch, region->offset),
                                            region->bytes, err);

    if (status < 0)
        return status;
    r->compute_s = r->said[TUTTI_REPORT_RANKS + r->rank];
    tutti_replica_hear(r);
    if (!r->skipped)
        status = update(r, call, r->norm, err);
    (void)tutti_loss_scale_update(&r->scale, !r->skipped);
    return status;
}

/* A step of local SGD between averages. */
static int optimize_locally(struct tutti_replica *r, const struct tutti_work_call *call,
                            struct tutti_err *err)
{
    double sum = 0;
    int status = squares(r, call, err);

    if (status == 0)
        status =
            call->queue->ops->download(call->queue, &sum, r->gpu->sums + SQUARES, sizeof(sum), err);
    return status < 0 || !isfinite(sum)
               ? status
               : update(r, call, sqrt(sum) / tutti_loss_scale_of(&r->scale), err);
}

static int outer(struct tutti_replica *r, const struct tutti_work_call *call, struct tutti_err *err)
{
    const struct tutti_trainer_params *p = &r->layout->params;

    if (r->anchor == NULL)
        return 0;
    return PUT(call, outer, .to = r->gpu->state, .moments = {r->gpu->anchor, r->gpu->outer_moment},
               .count = r->state_elements, .rate = (float)p->outer_rate,
               .momentum = (float)p->outer_momentum);
}

/* ---- all ------------------------------------------------------------------------------------- */

static const struct tutti_replica_ops ops_there = {.forward = forward,
                                                   .backward = backward,
                                                   .input = input,
                                                   .report = report,
                                                   .optimize = optimize,
                                                   .optimize_locally = optimize_locally,
                                                   .outer = outer,
                                                   .add_up = add_up};

int tutti_gpu_replica_run(struct tutti_replica *r, const struct tutti_work_call *call,
                          struct tutti_err *err)
{
    int status = r->gpu != NULL ? 0 : enter(r, call, err);

    return status < 0 ? status : tutti_replica_do(r, call, &ops_there, err);
}
