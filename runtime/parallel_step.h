/* A step of a model that is cut by layers (pipeline), within layers (tensor, context, experts) and
 * by examples (data), as one schedule: tasks of stages with collectives between their pieces,
 * messages between stages, gradients reduced once their last micro-batch is through, the optimizer
 * at the end. Neutral to machines: times come from the caller, groups of ranks are axes. */
#ifndef TUTTI_RUNTIME_PARALLEL_STEP_H
#define TUTTI_RUNTIME_PARALLEL_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/data.h"
#include "runtime/pipeline.h"
#include "runtime/schedule.h"
#include "runtime/units.h"
#include "runtime/work.h"

TUTTI_API_BEGIN

struct tutti_coll_params;
struct tutti_err;

enum { TUTTI_PARALLEL_LANES = 8 };

/* A part of a pass, which a device computes at a stretch; behind it, but for the last of a pass,
 * its group of an axis may do something together before the next piece begins. */
struct tutti_parallel_piece {
    tutti_ps duration_ps;
    uint8_t axis; /* 0: nothing comes behind it; k: on the rank's group of axes[k - 1], */
    enum tutti_collective collective; /* ALLREDUCE (a sum, in place), ALLGATHER, REDUCESCATTER or
                                         ALLTOALL */
    enum tutti_dtype dtype;
    uint64_t count; /* of elements, as in struct tutti_contract */
};

/* Of one micro-batch on one stage, on every rank that has it. */
struct tutti_parallel_pass {
    const struct tutti_parallel_piece *pieces;
    uint32_t piece_count; /* 1 or more; of the gradients of weights 0 where they are no pass */
};

/* Gradients that one axis reduces, after all micro-batches. */
struct tutti_parallel_reduction {
    uint8_t axis; /* 0: nobody does; k: axes[k - 1] */
    uint64_t elements;
    /* So many pieces before the last of the pass that writes gradients of weights these are there;
     * from then on no piece of it touches them. What comes backward first lies in other layers. */
    uint32_t early;
};

/* A stage: layers that follow each other on one device of each pipeline. */
struct tutti_parallel_stage {
    struct tutti_parallel_pass passes[3]; /* enum tutti_pass */
    uint64_t boundary_bytes; /* a rank's activations on the way to the next stage, and their
                                gradients on the way back, of one micro-batch; of the last 0 */
    /* All of a rank's weights, in this order; one axis at a time. */
    const struct tutti_parallel_reduction *reductions;
    uint32_t reduction_count;
};

struct tutti_parallel_schedule_params {
    size_t size; /* sizeof(struct tutti_parallel_schedule_params): runtime/api.h */
    uint32_t rank_count;
    /* Groups of ranks. Groups of axes[pipeline_axis - 1] are pipelines, their members devices in
     * order; 0: all ranks are one pipeline. Every rank is in one. */
    const struct tutti_axis *axes;
    uint32_t axis_count;
    uint32_t pipeline_axis;
    const struct tutti_pipeline_params *pipeline;
    const struct tutti_parallel_stage *stages; /* [tutti_pipeline_stage_count] */
    enum tutti_dtype gradients;                /* as they are kept and reduced */
    enum tutti_dtype weights;
    bool overlap; /* gradients are reduced as soon as those of the last micro-batch are there; else
                     when the device has done all of its tasks */
    tutti_ps input_ps; /* at the head of the step */
    tutti_ps optimizer_ps;
    /* Makes the schedule of a collective among `size` ranks of an axis (0: all ranks, k: axes
     * [k - 1]); NULL: "ring". */
    int (*collective)(void *context, const struct tutti_coll_params *params, uint32_t axis,
                      uint32_t size, struct tutti_schedule **ret, struct tutti_err *err);
    void *context;
    /* What really does each COMPUTE; NULL: they take their time alone. */
    int (*run)(const struct tutti_work_call *call, struct tutti_err *err);
    void *run_context;
    /* FLOAT64 sums that all ranks share before the optimizer runs; 0: none. */
    uint32_t report_elements;
};

/* The step of all ranks. Lanes: 0 tasks, piece by piece, their collectives, then the report and the
 * optimizer; messages between stages on lanes 1 to 6, as soon as what they carry is there; 7
 * reductions of gradients. Work table: "input", "report"; of each stage the pieces of its passes
 * ("stage0.forward", "stage0.forward.1", ...); of each device of a pipeline "device0.sums", which
 * sees all its gradients summed, and "device0.optimizer". State: weights of all chunks of a device,
 * then their gradients, to which passes add; the first of a step writes them anew. In scratch of
 * every micro-batch what goes between stages and what pieces reduce. tutti_schedule_check and
 * _prove hold it to that sums are whole. Ranks of axes whose groups are of one do nothing there.
 * The result, a custom schedule, borrows nothing but the contexts. -TUTTI_EINVAL for what does not
 * fit together. */
int tutti_parallel_schedule(const struct tutti_parallel_schedule_params *params,
                            struct tutti_schedule **ret, struct tutti_err *err);

TUTTI_API_END

#endif
