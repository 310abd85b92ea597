/* Steps that the stage would refuse: a play by data flow gives up at them. */
#ifndef TUTTI_SIM_PLAY_FLOW_CHECK_H
#define TUTTI_SIM_PLAY_FLOW_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/schedule.h"
#include "sim/play/flow_state.h"

static inline bool is_outside(const struct tutti_flow *flow, unsigned buf, uint64_t offset,
                              uint64_t bytes)
{
    return buf > TUTTI_BUF_SCRATCH ||
           (bytes > 0 && (bytes > flow->room_bytes[buf] || offset > flow->room_bytes[buf] - bytes));
}

static inline bool is_unwritable(const struct tutti_flow *flow, const struct tutti_step *step)
{
    return is_outside(flow, step->dst_buf, step->dst_offset, step->bytes) ||
           (step->dst_buf == TUTTI_BUF_IN && step->bytes > 0);
}

static inline bool is_unplayable(const struct tutti_flow *flow, const struct tutti_step *step)
{
    if (step->kind == TUTTI_COMPUTE)
        return step->duration_ps < 0 || (step->duration_ps == 0 && step->flops > 0);
    if (step->kind == TUTTI_REDUCE && step->bytes > 0 &&
        (((step->bytes | step->dst_offset | step->acc_offset | step->src_offset) &
          flow->element_mask) != 0 ||
         is_outside(flow, step->acc_buf, step->acc_offset, step->bytes)))
        return true;
    return is_outside(flow, step->src_buf, step->src_offset, step->bytes) ||
           is_unwritable(flow, step);
}

#endif
