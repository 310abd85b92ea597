/* Which messages go by lines; see plan.h. */
#include "runtime/exec/cuda/plan.h"

enum { LINED_BYTES_MAX = 4096, LINES_MAX = 1 << 16 };

/* Whether all messages are short, whole elements, and nothing but messages orders anything. */
static bool lines_serve(const struct tutti_cuda_plan *plan)
{
    size_t element = tutti_dtype_bytes(plan->reduction.dtype);

    for (uint32_t l = 0; l < plan->lane_total; l++) {
        for (uint32_t i = 0; i < plan->program.lanes[l].step_count; i++) {
            const struct tutti_step *step = tutti_cuda_step(plan, l, i);
            uint64_t places = step->src_offset | step->dst_offset | step->acc_offset;

            if ((step->flags & TUTTI_STEP_DEP) != 0)
                return false;
            if (step->kind != TUTTI_COMPUTE &&
                (step->bytes % element != 0 || places % element != 0))
                return false;
            if ((step->kind == TUTTI_SEND || step->kind == TUTTI_RECV) &&
                step->bytes > LINED_BYTES_MAX)
                return false;
        }
    }
    return true;
}

void tutti_cuda_choose_lines(struct tutti_cuda_plan *plan)
{
    plan->lined = !plan->mixed && plan->message_count <= LINES_MAX && lines_serve(plan);
    for (uint32_t m = 0; m < plan->message_count && plan->lined; m++) {
        struct tutti_cuda_message *message = &plan->messages[m];
        uint32_t sender = message->from * plan->schedule->lane_count + message->lane;
        const struct tutti_step *send =
            tutti_cuda_step(plan, sender, message->send - plan->step_first[sender]);
        uint64_t lines = send->bytes > 8 ? (send->bytes + 7) / 8 : 1;

        if (send->src_buf == TUTTI_BUF_IN && !message->apart)
            continue;
        message->lined = true;
        message->home_offset = plan->home_bytes[message->home];
        plan->home_bytes[message->home] += lines * 16;
    }
}
