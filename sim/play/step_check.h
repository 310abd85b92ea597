/* Steps that the stage would refuse: who plays without it gives up at them. */
#ifndef TUTTI_SIM_PLAY_STEP_CHECK_H
#define TUTTI_SIM_PLAY_STEP_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/schedule.h"

/* Of a step with a type of its own: no element is larger, and it costs nothing to be strict. */
enum { ELEMENT_MASK_MAX = 7 };

/* The buffers of a rank. */
struct rooms {
    uint64_t bytes[TUTTI_BUF_COUNT];
    uint64_t element_mask; /* bytes of an element, a power of 2, less 1 */
    uint32_t work_count;
};

static inline struct rooms rooms_of(const struct tutti_schedule *schedule)
{
    return (struct rooms){
        .bytes = {[TUTTI_BUF_IN] = schedule->in_bytes,
                  [TUTTI_BUF_OUT] = schedule->out_bytes,
                  [TUTTI_BUF_SCRATCH] = schedule->scratch_bytes,
                  [TUTTI_BUF_STATE] = schedule->state_bytes},
        .element_mask = tutti_dtype_bytes(schedule->contract.dtype) - 1,
        .work_count = schedule->work_count,
    };
}

static inline bool is_outside(const struct rooms *rooms, unsigned buf, uint64_t offset,
                              uint64_t bytes)
{
    return buf >= TUTTI_BUF_COUNT ||
           (bytes > 0 && (bytes > rooms->bytes[buf] || offset > rooms->bytes[buf] - bytes));
}

static inline bool is_unwritable(const struct rooms *rooms, const struct tutti_step *step)
{
    return is_outside(rooms, step->dst_buf, step->dst_offset, step->bytes) ||
           (step->dst_buf == TUTTI_BUF_IN && step->bytes > 0);
}

static inline bool is_unplayable(const struct rooms *rooms, const struct tutti_step *step)
{
    if (step->kind == TUTTI_COMPUTE)
        return step->duration_ps < 0 || (step->duration_ps == 0 && step->flops > 0) ||
               step->peer > rooms->work_count;
    if (step->kind == TUTTI_REDUCE && step->bytes > 0 &&
        (((step->bytes | step->dst_offset | step->acc_offset | step->src_offset) &
          (step->reduction > 0 ? ELEMENT_MASK_MAX : rooms->element_mask)) != 0 ||
         is_outside(rooms, step->acc_buf, step->acc_offset, step->bytes)))
        return true;
    return is_outside(rooms, step->src_buf, step->src_offset, step->bytes) ||
           is_unwritable(rooms, step);
}

#endif
