/* A step of a cut model before it is written: where everything lies, and what the work table has.
 * Private to the room runtime. */
#ifndef TUTTI_RUNTIME_WORKLOAD_PARALLEL_PLAN_H
#define TUTTI_RUNTIME_WORKLOAD_PARALLEL_PLAN_H

#include "runtime/parallel_step.h"
#include "runtime/workload/pipeline_ways.h"

struct tutti_arena;

/* What two pieces have between them, in scratch, of micro-batch 0. */
struct tutti_parallel_exchange {
    uint64_t in; /* what the first leaves, and the second finds: one place of an all-reduce */
    uint64_t in_bytes;
    uint64_t out;
    uint64_t out_bytes;
};

/* A stage on its device. */
struct tutti_parallel_place {
    struct tutti_stage_ends ends;
    uint64_t weights; /* in state */
    uint64_t weight_bytes;
    uint64_t gradients; /* in state */
    uint64_t gradient_bytes;
    uint32_t first_entry[3];                      /* of each pass, in the work table */
    struct tutti_parallel_exchange *exchanges[3]; /* [piece]; what comes behind it */
};

struct tutti_parallel_plan {
    struct tutti_parallel_schedule_params params;
    struct tutti_axis pipelines;
    uint32_t stage_count;
    struct tutti_parallel_place *places; /* [stage] */
    uint64_t
        record_bytes;    /* of one micro-batch in scratch: COMPUTE steps shift by it; more than 0 */
    uint64_t report;     /* in scratch: what a rank says, */
    uint64_t report_sum; /* what all say, */
    uint64_t sums;       /* and what it says it by: [1] FLOAT64 */
    uint64_t staging;    /* of collectives on the lane of tasks, */
    uint64_t reduce_staging; /* and of gradients; no lower */
    uint64_t state_bytes;    /* of the device that has most */
    uint64_t weight_bytes;   /* likewise, weights alone */
    struct tutti_work *work;
    uint32_t work_count;
};

enum { TUTTI_PARALLEL_INPUT, TUTTI_PARALLEL_REPORT, TUTTI_PARALLEL_STAGES };

/* Which task of a step an entry of the work table is. */
enum tutti_parallel_kind {
    TUTTI_PARALLEL_IS_INPUT,
    TUTTI_PARALLEL_IS_REPORT,
    TUTTI_PARALLEL_IS_PIECE,
    TUTTI_PARALLEL_IS_SUMS,
    TUTTI_PARALLEL_IS_OPTIMIZER,
};

struct tutti_parallel_entry {
    enum tutti_parallel_kind kind;
    uint32_t stage; /* of a piece */
    enum tutti_pass pass;
    uint32_t piece;
    uint32_t micro_batch;
    uint32_t device; /* sums, optimizer */
};

/* Memory from `arena`. -TUTTI_EINVAL for what does not fit together. */
int tutti_parallel_plan_make(const struct tutti_parallel_schedule_params *params,
                             struct tutti_arena *arena, struct tutti_parallel_plan *ret,
                             struct tutti_err *err);

/* Whether members of the axis do anything together. */
bool tutti_parallel_meets(const struct tutti_parallel_plan *plan, uint8_t axis);
/* Pieces of a pass, as the work table has them. */
uint32_t tutti_parallel_pieces(const struct tutti_parallel_plan *plan, uint32_t stage,
                               enum tutti_pass pass);
/* The pass in which gradients of weights are added up. */
enum tutti_pass tutti_parallel_sums_in(const struct tutti_parallel_plan *plan);
/* The piece of that pass behind which those of a reduction are there. */
uint32_t tutti_parallel_ready(const struct tutti_parallel_plan *plan, uint32_t stage,
                              uint32_t reduction);
/* Of a COMPUTE step. */
struct tutti_parallel_entry tutti_parallel_entry_of(const struct tutti_parallel_plan *plan,
                                                    const struct tutti_step *step);

#endif
