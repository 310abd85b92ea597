/* Messages between the stages of a pipeline in a schedule: what a pass gets from the stage before
 * it in its direction, what it passes on, and on which lanes. Private to the room runtime. */
#ifndef TUTTI_RUNTIME_WORKLOAD_PIPELINE_WAYS_H
#define TUTTI_RUNTIME_WORKLOAD_PIPELINE_WAYS_H

#include "runtime/pipeline.h"

/* Messages of a direction go on the lane of their sender's colour: neighbours have different ones,
 * so that what a device receives waits for nothing that it sends. Lane 0 has the tasks. */
enum { TUTTI_LANE_FORWARD = 1, TUTTI_LANE_BACKWARD = 4, TUTTI_LANES_OF_STAGES = 7 };

/* Where a stage has what goes between it and its neighbours, in the scratch of its device, of
 * micro-batch 0. Neighbours on one device share it. */
struct tutti_stage_ends {
    uint32_t device;
    uint32_t chunk;
    uint64_t input;
    uint64_t output;
    uint64_t input_gradient;
    uint64_t output_gradient;
};

struct tutti_pipeline_way {
    uint32_t direction; /* first of its lanes */
    bool receives;
    bool sends;
    uint32_t from; /* device */
    uint32_t to;
    uint64_t in; /* scratch, of micro-batch 0 */
    uint64_t in_bytes;
    uint64_t out;
    uint64_t out_bytes;
};

/* Of a stage, between those before and behind it (NULL: there is none) with what goes between. */
static inline struct tutti_pipeline_way
tutti_pipeline_way_of(const struct tutti_stage_ends *before, uint64_t before_bytes,
                      const struct tutti_stage_ends *stage, uint64_t behind_bytes,
                      const struct tutti_stage_ends *behind, enum tutti_pass pass)
{
    const bool from_before = before != NULL && before->device != stage->device;
    const bool to_behind = behind != NULL && behind->device != stage->device;

    if (pass == TUTTI_PASS_WEIGHTS)
        return (struct tutti_pipeline_way){.direction = TUTTI_LANE_BACKWARD};
    if (pass == TUTTI_PASS_FORWARD)
        return (struct tutti_pipeline_way){.direction = TUTTI_LANE_FORWARD,
                                           .receives = from_before,
                                           .sends = to_behind,
                                           .from = from_before ? before->device : 0,
                                           .to = to_behind ? behind->device : 0,
                                           .in = stage->input,
                                           .in_bytes = before_bytes,
                                           .out = stage->output,
                                           .out_bytes = behind_bytes};
    return (struct tutti_pipeline_way){.direction = TUTTI_LANE_BACKWARD,
                                       .receives = to_behind,
                                       .sends = from_before,
                                       .from = to_behind ? behind->device : 0,
                                       .to = from_before ? before->device : 0,
                                       .in = stage->output_gradient,
                                       .in_bytes = behind_bytes,
                                       .out = stage->input_gradient,
                                       .out_bytes = before_bytes};
}

static inline uint32_t tutti_pipeline_lane(uint32_t device_count, uint32_t sender,
                                           uint32_t direction)
{
    const bool odd_end = sender + 1 == device_count && sender % 2 == 0;

    return direction + (odd_end ? 2 : sender % 2);
}

#endif
