/* Pipelines: a model cut into stages that follow each other on several devices, and the order in
 * which each device works on the micro-batches that pass through. What a step takes and what it
 * holds follows from that order, before anyone says on what machine. */
#ifndef TUTTI_RUNTIME_PIPELINE_H
#define TUTTI_RUNTIME_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_schedule;
struct tutti_work_call;

/* p devices, m micro-batches, v chunks a device; F, B, W: what forward, the gradient of the input
 * and the gradient of the weights take of one micro-batch on one device. Bubbles at zero latency
 * and equal devices. */
enum tutti_pipeline {
    /* All forward, then all backward: holds m. Huang et al. 2019. Bubble (p - 1)(F + B + W). */
    TUTTI_PIPELINE_GPIPE,
    /* Backward as early as can be: the same bubble, holds min(m, p). Narayanan et al. 2019. */
    TUTTI_PIPELINE_1F1B,
    /* v chunks a device, p stages apart: (p - 1)(F + B + W)/v, holds p + (p - 1)/v. m is a multiple
     * of p. Narayanan et al. 2021. */
    TUTTI_PIPELINE_INTERLEAVED,
    /* W later than B, to fill gaps. Qi et al. 2023: (p - 1)(F + B - W) where W is no more than F,
     * else (p - 1) B; holds min(m, p). m >= p. */
    TUTTI_PIPELINE_ZB_H1,
    /* (p - 1)(F + B - 2W) where W is no more than F; holds min(m, 2p - 1). m >= 2p - 1. */
    TUTTI_PIPELINE_ZB_H2,
    /* Two chunks a device, the second on the way back. Qi et al. 2024: at F = B = W a device is
     * never idle between its first and its last work, and the last device begins (p - 1) F/2
     * later; holds min(m, p) at most. m >= 2p - 2. */
    TUTTI_PIPELINE_ZBV,
    TUTTI_PIPELINE_COUNT
};

/* "gpipe" "1f1b" "interleaved" "zb-h1" "zb-h2" "zbv"; find: -TUTTI_EINVAL with all of them. */
const char *tutti_pipeline_name(enum tutti_pipeline pipeline);
int tutti_pipeline_find(const char *name, enum tutti_pipeline *ret, struct tutti_err *err);

struct tutti_pipeline_params {
    size_t size; /* sizeof(struct tutti_pipeline_params): runtime/api.h */
    enum tutti_pipeline pipeline;
    uint32_t device_count;
    uint32_t micro_batches;
    uint32_t chunks; /* of a device: INTERLEAVED, 2 or more; 0: 1, of ZBV 2 */
};

enum { TUTTI_PIPELINE_TASKS_MAX = 1 << 26 }; /* of all devices */

enum tutti_pass {
    TUTTI_PASS_FORWARD,
    TUTTI_PASS_BACKWARD, /* with the gradients of weights, unless these are a pass of their own */
    TUTTI_PASS_WEIGHTS,
};

struct tutti_pipeline_task {
    enum tutti_pass pass;
    uint32_t chunk; /* of the device */
    uint32_t micro_batch;
};

/* -TUTTI_EINVAL for what cannot be. In all that follow the params are such as this has taken. */
int tutti_pipeline_check(const struct tutti_pipeline_params *params, struct tutti_err *err);

/* Whether gradients of weights are a pass of their own. */
bool tutti_pipeline_splits(const struct tutti_pipeline_params *params);
uint32_t tutti_pipeline_chunks(const struct tutti_pipeline_params *params);

/* Forward passes stages 0, 1, ...; which of them is a device's chunk, and where a stage is. */
uint32_t tutti_pipeline_stage_count(const struct tutti_pipeline_params *params);
uint32_t tutti_pipeline_stage(const struct tutti_pipeline_params *params, uint32_t device,
                              uint32_t chunk);
void tutti_pipeline_place(const struct tutti_pipeline_params *params, uint32_t stage,
                          uint32_t *ret_device, uint32_t *ret_chunk);

/* Of one device; all have equally many. */
uint32_t tutti_pipeline_task_count(const struct tutti_pipeline_params *params);

/* What a device does, in order. ret: [tutti_pipeline_task_count] */
void tutti_pipeline_tasks(const struct tutti_pipeline_params *params, uint32_t device,
                          struct tutti_pipeline_task *ret);

/* Micro-batches of chunks whose activations a device with these tasks holds at once: from their
 * forward pass until the last of their backward passes. */
uint32_t tutti_pipeline_held(const struct tutti_pipeline_params *params,
                             const struct tutti_pipeline_task *tasks);

/* Of one micro-batch on one stage. */
struct tutti_stage_times {
    tutti_ps forward_ps;
    tutti_ps backward_ps; /* of the gradient of the input alone */
    tutti_ps weights_ps;
};

struct tutti_pipeline_times {
    tutti_ps step_ps; /* from the first beginning to the last end */
    /* The longest that a device waits between its first beginning and its last end: where no device
     * waits for all others at the end of a step, what the next step cannot use. */
    tutti_ps idle_ps;
};

/* Plays the step: a task begins when the one before it on its device has ended and what it needs is
 * there: the pass of the neighbouring stage, `hop_ps` after its end where that is on another
 * device. times: [stage]. starts: [device * task count + task], when each begins, or NULL. O(number
 * of tasks). -TUTTI_EINVAL for times that are negative or add up to too much. */
int tutti_pipeline_play(const struct tutti_pipeline_params *params,
                        const struct tutti_stage_times *times, tutti_ps hop_ps, tutti_ps *starts,
                        struct tutti_pipeline_times *ret, struct tutti_err *err);

/* Stages as nanotron cuts them, of layers alike and a head behind them: a stage ends with the layer
 * with which all so far reach its share of all sizes; the last has the layers left, perhaps none,
 * and the head. Sizes are numbers of parameters, the embedding's left out. ret: [stage_count], how
 * many layers each has (as `stage_layers` of sim/footprint.h). -TUTTI_EINVAL: no stages, or sizes
 * whose sum cannot be counted. */
int tutti_pipeline_cut(uint32_t layer_count, uint64_t layer_size, uint64_t head_size,
                       uint32_t stage_count, uint32_t *ret, struct tutti_err *err);

/* ---- as a schedule --------------------------------------------------------------------------- */

struct tutti_pipeline_schedule_params {
    size_t size; /* sizeof(struct tutti_pipeline_schedule_params): runtime/api.h */
    const struct tutti_pipeline_params *pipeline;
    const struct tutti_stage_times *times; /* [stage] */
    /* [stage, but for the last]: of one micro-batch, what its activations take on the way to the
     * next stage, and their gradients on the way back. */
    const uint64_t *boundary_bytes;
    const uint64_t *weight_bytes; /* [stage]; gradients take as much */
    tutti_ps optimizer_ps;        /* of each device, at its end */
    /* What really does each COMPUTE step; NULL: they take their time alone. */
    int (*run)(const struct tutti_work_call *call, struct tutti_err *err);
    void *run_context;
};

/* A step of the pipeline, a rank a device. Lane 0 has its tasks as COMPUTE steps in order, then the
 * optimizer; messages go on lanes of their own, as soon as what they carry is there. Entries of the
 * work table: of stage s 3s forward, 3s + 1 backward, 3s + 2 weights; behind them one optimizer a
 * device. State: of each chunk weights, then gradients, which passes add to and the optimizer sets
 * to zero; before the first step they are zero. Regions, in this order, of those that there are:
 *   forward    reads weights, input                       writes output
 *   backward   reads weights, input, gradient of output   writes gradient of input
 *              not split: reads and writes gradients of weights behind these
 *   weights    reads input, gradient of output, gradients of weights   writes these
 *   optimizer  reads weights, gradients of each chunk     writes these
 * Stage 0 has no input and the last no output; of 0 bytes there is none. Scratch keeps what goes
 * between stages of all micro-batches, whatever a device would hold. The result, a custom schedule,
 * borrows nothing. */
int tutti_pipeline_schedule(const struct tutti_pipeline_schedule_params *params,
                            struct tutti_schedule **ret, struct tutti_err *err);

TUTTI_API_END

#endif
