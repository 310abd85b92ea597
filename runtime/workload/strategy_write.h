/* A step of a strategy while it is being written. */
#ifndef TUTTI_RUNTIME_WORKLOAD_STRATEGY_WRITE_H
#define TUTTI_RUNTIME_WORKLOAD_STRATEGY_WRITE_H

#include "runtime/workload/strategy_plan.h"

struct tutti_coll_params;

enum { TUTTI_WRITER_CALLEES_MAX = 4096 };

/* A collective that some lane calls; equal ones are one callee. */
struct tutti_step_callee {
    struct tutti_contract contract;
    uint32_t axis;
    struct tutti_schedule *schedule; /* until the builder has it */
    uint32_t index;
};

struct tutti_step_writer {
    struct tutti_plan plan;
    struct tutti_builder *builder;
    struct tutti_step_callee *callees;
    uint32_t callee_count;
    uint64_t staging_bytes[TUTTI_STRATEGY_LANES];
    uint64_t staging_offset[TUTTI_STRATEGY_LANES];
    struct tutti_work *work;
    uint32_t work_count;
    struct tutti_plan_entries entries;
    uint32_t step_count[TUTTI_STRATEGY_LANES];
    uint32_t *backward_step;   /* [layer]: of this micro-batch, on the work lane */
    uint32_t *compressed_step; /* [pack]: on the work lane */
    uint32_t *reduced_step;    /* [pack]: of the micro-batch before, on the lane that ends it */
    uint32_t *gather_user;     /* [gather mod (prefetch + 1)]: the work that used it */
    uint32_t *weights_user;    /* [layer]: the work that last used its gathered weights */
    uint32_t gather_count;
    uint32_t optimizer_step;
    struct tutti_axis axes[2];
    uint32_t axis_count;
};

static inline bool tutti_writer_shares(const struct tutti_step_writer *w)
{
    return w->plan.strategy->sharding != TUTTI_SHARD_NONE;
}

static inline bool tutti_writer_at_every_micro_batch(const struct tutti_step_writer *w)
{
    return w->plan.strategy->sharding >= TUTTI_SHARD_ZERO2;
}

static inline bool tutti_writer_gathers_layers(const struct tutti_step_writer *w)
{
    return w->plan.strategy->sharding == TUTTI_SHARD_ZERO3 && w->plan.params.rank_count > 1;
}

static inline bool tutti_writer_goes_across(const struct tutti_step_writer *w)
{
    return tutti_writer_shares(w) && w->plan.shard_ranks < w->plan.params.rank_count;
}

static inline bool tutti_writer_compresses(const struct tutti_step_writer *w)
{
    return w->plan.strategy->compression != TUTTI_COMPRESS_NONE && w->plan.params.rank_count > 1;
}

/* Reduced at every micro-batch, and there are several. */
static inline bool tutti_writer_adds_up(const struct tutti_step_writer *w)
{
    return tutti_writer_at_every_micro_batch(w) && w->plan.micro_batches > 1 &&
           w->plan.params.rank_count > 1;
}

static inline bool tutti_writer_averages_weights(const struct tutti_step_writer *w)
{
    return w->plan.strategy->local_steps > 0;
}

/* What ranks report, of which all get the sum. */
struct tutti_contract tutti_writer_report(const struct tutti_step_writer *w);
/* What is reduced of a pack (the first or the second part of what is sent), what across groups, and
 * what is gathered. */
struct tutti_contract tutti_writer_reduction(const struct tutti_step_writer *w,
                                             const struct tutti_plan_pack *p, uint32_t part);
struct tutti_contract tutti_writer_across(const struct tutti_step_writer *w,
                                          const struct tutti_plan_pack *p);
struct tutti_contract tutti_writer_gather(const struct tutti_step_writer *w,
                                          const struct tutti_plan_pack *p);
uint32_t tutti_writer_shard_axis(const struct tutti_step_writer *w);
/* NULL: not needed so far. */
struct tutti_step_callee *tutti_writer_callee(const struct tutti_step_writer *w,
                                              const struct tutti_contract *c, uint32_t axis);
/* An all-gather by way of rank 0 (tf_gather.c). */
int tutti_writer_gather_at_one(const struct tutti_coll_params *params, uint32_t rank_count,
                               struct tutti_schedule **ret, struct tutti_err *err);
/* Makes all collectives, before anything is written: what they need is part of scratch. */
int tutti_writer_need_all(struct tutti_step_writer *w, struct tutti_err *err);

/* The work table (struct tutti_plan_entries). False: no memory. */
bool tutti_writer_list_work(struct tutti_step_writer *w);

#endif
