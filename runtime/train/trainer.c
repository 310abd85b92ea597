/* A trainer: opened once, stepped often. */
#include "runtime/train/trainer.h"

#include <stdlib.h>

#include "runtime/arena.h"
#include "runtime/record.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/train/cut.h"
#include "runtime/train/gpu.h"

struct tutti_replica *tutti_trainer_first(const struct tutti_trainer *t)
{
    return t->replicas[t->first_rank];
}

uint32_t tutti_trainer_stride(const struct tutti_trainer *t)
{
    return t->strategy.local_steps > 0 ? t->strategy.local_steps : 1;
}

/* ---- open ------------------------------------------------------------------------------------ */

static int check(const struct tutti_trainer_params *p, struct tutti_err *err)
{
    if (p->strategy == NULL || p->model == NULL || p->learner == NULL || p->backend == NULL ||
        p->rank_count == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "training without strategy, model, learner, backend or ranks (all of "
                          "them)");
    if (p->learner->size < TUTTI_BYTES_TO(struct tutti_learner, sums))
        return tutti_fail(err, TUTTI_EINVAL,
                          "a learner of '%zu' bytes (sizeof(struct "
                          "tutti_learner))",
                          p->learner->size);
    if (p->gradients != TUTTI_FLOAT32 && p->gradients != TUTTI_FLOAT16 &&
        p->gradients != TUTTI_BFLOAT16)
        return tutti_fail(err, TUTTI_EINVAL, "gradients of type '%s' (float, half or bfloat16)",
                          tutti_dtype_name(p->gradients));
    return 0;
}

static int write_schedule(struct tutti_trainer *t, struct tutti_err *err)
{
    const struct tutti_trainer_params *p = &t->params;
    struct tutti_layer_times *none =
        tutti_arena_take(t->arena, p->model->layer_count, sizeof(*none));
    const struct tutti_strategy_params step = {
        .size = sizeof(step),
        .strategy = &t->strategy,
        .model = p->model,
        .rank_count = p->rank_count,
        .shard_ranks = p->shard_ranks,
        .samples = p->samples,
        .micro_batches = p->micro_batches,
        .gradient_bytes = p->gradients == TUTTI_FLOAT32 ? 4 : 2,
        .weight_bytes = 4,
        .times = p->times != NULL ? p->times : none,
        .input_ps = p->input_ps,
        .optimizer_ps = p->optimizer_ps,
        .compress_ps = p->compress_ps,
        .collective = p->collective,
        .context = p->context,
        .run = tutti_replica_run,
        .run_context = t->replicas,
        .report_elements = tutti_report_elements(p),
        .ieee_half = p->gradients == TUTTI_FLOAT16,
        .queued = p->backend->ops->calls && tutti_gpu_can(p),
    };
    int status =
        none == NULL ? tutti_nomem(err) : tutti_layout_make(p, &step, t->arena, &t->layout, err);

    return status < 0 ? status : tutti_strategy_schedule(&step, &t->schedule, err);
}

static int open_replica(struct tutti_trainer *t, uint32_t rank, struct tutti_replica *ret,
                        struct tutti_err *err)
{
    return t->cut != NULL ? tutti_train_cut_open_rank(t, rank, ret, err)
                          : tutti_replica_open(&t->layout, rank, ret, err);
}

static int open_replicas(struct tutti_trainer *t, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < t->own_count && status == 0; i++) {
        uint32_t rank = t->first_rank + i;
        struct tutti_replica *replica = calloc(1, sizeof(*replica));

        if (replica == NULL)
            return tutti_nomem(err);
        t->replicas[rank] = replica;
        status = open_replica(t, rank, replica, err);
        t->states[rank] = replica->state;
    }
    return status;
}

static int open_run(struct tutti_trainer *t, struct tutti_err *err)
{
    const struct tutti_play play = {.size = sizeof(play),
                                    .schedule = t->schedule,
                                    .iteration_count = 1,
                                    .barrier = true,
                                    .deadline_ps = t->params.deadline_ps,
                                    .record = t->params.record,
                                    .state = t->states};

    return t->run != NULL ? 0 : tutti_run_open(t->params.backend, &play, &t->run, err);
}

void tutti_trainer_rest(struct tutti_trainer *t)
{
    for (uint32_t i = 0; t->replicas != NULL && i < t->own_count; i++)
        if (t->replicas[t->first_rank + i] != NULL)
            tutti_gpu_replica_leave(t->replicas[t->first_rank + i]);
    tutti_run_close(t->run);
    t->run = NULL;
}

int tutti_trainer_fetch(struct tutti_trainer *t, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < t->own_count && status == 0; i++)
        status = tutti_gpu_replica_fetch(t->replicas[t->first_rank + i], err);
    return status;
}

int tutti_trainer_play(struct tutti_trainer *t, const struct tutti_schedule *schedule,
                       struct tutti_err *err)
{
    const struct tutti_play play = {.size = sizeof(play),
                                    .schedule = schedule,
                                    .iteration_count = 1,
                                    .barrier = true,
                                    .deadline_ps = t->params.deadline_ps,
                                    .state = t->states};
    struct tutti_played played;
    int status = tutti_trainer_fetch(t, err);

    if (status < 0)
        return status;
    tutti_trainer_rest(t);
    return tutti_backend_play(t->params.backend, &play, &played, err);
}

int tutti_trainer_open(const struct tutti_trainer_params *params, struct tutti_trainer **ret,
                       struct tutti_err *err)
{
    struct tutti_trainer *t = calloc(1, sizeof(*t));
    int status = t == NULL
                     ? tutti_nomem(err)
                     : tutti_take("tutti_trainer_params", &t->params, sizeof(t->params), params,
                                  TUTTI_BYTES_TO(struct tutti_trainer_params, record), err);

    if (status == 0)
        status = check(&t->params, err);
    if (status == 0) {
        t->strategy = *t->params.strategy;
        t->arena = tutti_arena_new();
        t->replicas = calloc(t->params.rank_count, sizeof(t->replicas[0]));
        t->states = calloc(t->params.rank_count, sizeof(t->states[0]));
        if (t->arena == NULL || t->replicas == NULL || t->states == NULL)
            status = tutti_nomem(err);
    }
    if (status == 0)
        status = t->params.parallel != NULL ? tutti_train_cut_open(t, err) : write_schedule(t, err);
    if (status == 0) {
        tutti_backend_ranks(t->params.backend, t->params.rank_count, &t->first_rank, &t->own_count);
        status = open_replicas(t, err);
    }
    if (status == 0)
        status = tutti_saving_open(t, err);
    if (status == 0)
        status = open_run(t, err);
    if (status < 0)
        tutti_trainer_close(t);
    else
        *ret = t;
    return status;
}

void tutti_trainer_close(struct tutti_trainer *t)
{
    if (t == NULL)
        return;
    tutti_trainer_rest(t);
    tutti_saving_close(t);
    for (uint32_t i = 0; t->replicas != NULL && i < t->params.rank_count; i++)
        if (t->replicas[i] != NULL) {
            tutti_train_cut_close_rank(t->replicas[i]);
            tutti_replica_close(t->replicas[i]);
            free(t->replicas[i]);
        }
    free(t->replicas);
    free(t->states);
    tutti_train_cut_close(t);
    tutti_schedule_free(t->schedule);
    tutti_arena_free(t->arena);
    free(t);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void note_by_rank(const struct tutti_trainer *t, const double *said,
                         struct tutti_trained *ret)
{
    const double *compute = said + TUTTI_REPORT_RANKS;
    const double *hash = compute + 2 * (size_t)t->params.rank_count;
    const uint32_t n = t->params.rank_count;

    ret->least_compute_s = compute[0];
    ret->in_sync = t->params.check_sync;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t same = t->cut != NULL               ? tutti_train_cut_first_alike(t, i)
                              : t->layout.weights_gathered ? i % t->layout.plan.shard_ranks
                                                           : 0;

        if (compute[i] > ret->most_compute_s)
            ret->most_compute_s = compute[i];
        if (compute[i] < ret->least_compute_s)
            ret->least_compute_s = compute[i];
        if (t->params.check_sync && hash[i] != hash[same])
            ret->in_sync = false;
    }
}

int tutti_trainer_step(struct tutti_trainer *t, struct tutti_trained *ret, struct tutti_err *err)
{
    struct tutti_replica *first = tutti_trainer_first(t);
    struct tutti_played played;
    int status = open_run(t, err);

    for (uint32_t i = 0; i < t->own_count; i++) {
        struct tutti_replica *r = t->replicas[t->first_rank + i];

        r->sums = (struct tutti_sums){0, 0, 0};
        r->compute_s = r->input_s = r->update_s = 0;
        r->begins = true;
    }
    tutti_saving_ask(t);
    *ret = (struct tutti_trained){.step = t->step_count,
                                  .step_count = tutti_trainer_stride(t),
                                  .loss_scale = tutti_loss_scale_of(&first->scale)};
    if (status == 0)
        status = tutti_run_step(t->run, 1, &played, err);
    if (status < 0)
        return status;
    t->step_count += ret->step_count;
    ret->sums =
        (struct tutti_sums){first->said[TUTTI_REPORT_LOSS], first->said[TUTTI_REPORT_CORRECT],
                            first->said[TUTTI_REPORT_EXAMPLES]};
    ret->gradient_norm = first->norm;
    ret->learning_rate = first->rate;
    ret->skipped = first->skipped;
    ret->stop = first->said[TUTTI_REPORT_STOP] > 0;
    ret->step_ps = played.total_ps;
    ret->compute_ps = (tutti_ps)(first->compute_s * 1e12);
    ret->input_ps = (tutti_ps)(first->input_s * 1e12);
    ret->update_ps = (tutti_ps)(first->update_s * 1e12);
    note_by_rank(t, first->said, ret);
    return tutti_saving_step(t, first->said, err);
}

uint64_t tutti_trainer_steps(const struct tutti_trainer *t)
{
    return t->step_count;
}

const struct tutti_schedule *tutti_trainer_schedule(const struct tutti_trainer *t)
{
    return t->schedule;
}

double tutti_trainer_computed_s(const struct tutti_trainer *t, uint32_t rank)
{
    const struct tutti_replica *first = tutti_trainer_first(t);
    const double *by_rank = first->said + TUTTI_REPORT_RANKS;

    /* What comes after the report no other rank is told: it is alike in all. */
    return by_rank[rank] + first->compute_s - by_rank[t->first_rank];
}

double tutti_trainer_layers_s(const struct tutti_trainer *t, uint32_t rank)
{
    const double *by_rank = tutti_trainer_first(t)->said + TUTTI_REPORT_RANKS;

    return by_rank[rank] - by_rank[t->params.rank_count + rank];
}

void tutti_trainer_stop(struct tutti_trainer *t)
{
    for (uint32_t i = 0; i < t->own_count; i++)
        atomic_store(&t->replicas[t->first_rank + i]->stop, true);
}
