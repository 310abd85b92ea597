/* A plan on several GPUs: what lies where, and the parts of it as devices read them; see plan.h. */
#include <assert.h>

#include "runtime/exec/cuda/plan.h"

static uint32_t gpu_of(const struct tutti_cuda_plan *plan, uint32_t rank)
{
    return tutti_cuda_gpu_of(&plan->spread, rank, plan->schedule->rank_count);
}

/* Whether two GPUs hand on through the host. */
static bool are_apart(const struct tutti_cuda_plan *plan, uint32_t a, uint32_t b)
{
    return a != b && !plan->spread.direct[a][b];
}

struct tutti_cuda_part tutti_cuda_part_of(const struct tutti_cuda_plan *plan, uint32_t gpu)
{
    uint32_t lanes = plan->schedule->lane_count;
    uint32_t ranks = plan->schedule->rank_count;
    struct tutti_cuda_part part = {.gpu = gpu,
                                   .rank_first = tutti_cuda_first_rank(&plan->spread, gpu, ranks),
                                   .rank_end =
                                       tutti_cuda_first_rank(&plan->spread, gpu + 1, ranks)};

    assert(part.rank_first < part.rank_end);
    assert(gpu_of(plan, part.rank_first) == gpu && gpu_of(plan, part.rank_end - 1) == gpu);
    part.lane_first = part.rank_first * lanes;
    part.lane_count = (part.rank_end - part.rank_first) * lanes;
    part.op_first = plan->op_first[part.lane_first];
    part.op_count = plan->op_first[part.lane_first + part.lane_count] - part.op_first;
    return part;
}

/* ---- what lies where ---- */

void tutti_cuda_choose_homes(struct tutti_cuda_plan *plan)
{
    for (uint32_t m = 0; m < plan->message_count; m++) {
        struct tutti_cuda_message *message = &plan->messages[m];
        uint32_t to = gpu_of(plan, message->to);

        message->apart = are_apart(plan, gpu_of(plan, message->from), to);
        message->home = (uint8_t)(message->apart ? plan->spread.gpu_count : to);
    }
}

static const struct tutti_step *send_of(const struct tutti_cuda_plan *plan,
                                        const struct tutti_cuda_message *message)
{
    uint32_t sender = message->from * plan->schedule->lane_count + message->lane;

    return tutti_cuda_step(plan, sender, message->send - plan->step_first[sender]);
}

/* A slot begins as the sender's bytes do among words of 16 bytes, and is copied by such. */
void tutti_cuda_choose_stages(struct tutti_cuda_plan *plan)
{
    enum { WORD = 16, LINE = 128 };

    for (uint32_t c = 0; c < plan->connection_count; c++) {
        uint32_t first = plan->connection_first[c];
        uint32_t end =
            c + 1 < plan->connection_count ? plan->connection_first[c + 1] : plan->message_count;
        uint32_t slots = plan->schedule->slot_count;
        uint64_t *all_bytes = &plan->home_bytes[plan->messages[first].home];
        uint64_t slot_bytes = 0;

        if (!plan->messages[first].apart)
            continue;
        slots = slots > end - first ? end - first : slots;
        for (uint32_t m = first; m < end; m++)
            if (send_of(plan, &plan->messages[m])->bytes > slot_bytes)
                slot_bytes = send_of(plan, &plan->messages[m])->bytes;
        slot_bytes = (slot_bytes + WORD + LINE - 1) / LINE * LINE;
        for (uint32_t m = first; m < end; m++)
            plan->messages[m].home_offset = *all_bytes +
                                            plan->messages[m].number % slots * slot_bytes +
                                            send_of(plan, &plan->messages[m])->src_offset % WORD;
        *all_bytes += slots * slot_bytes;
    }
}

/* The rank whose lanes wait for a counter: the receiver for its head, the sender for its tail, and
 * a lane's own rank for what it has done. */
static uint32_t waiter_of(const struct tutti_cuda_plan *plan, uint32_t counter)
{
    const struct tutti_cuda_message *message;

    if (counter >= 2 * plan->connection_count)
        return (counter - 2 * plan->connection_count) / plan->schedule->lane_count;
    message = &plan->messages[plan->connection_first[counter / 2]];
    return counter % 2 == 0 ? message->to : message->from;
}

struct tutti_cuda_flag tutti_cuda_resolve_flag(const struct tutti_cuda_plan *plan,
                                               struct tutti_cuda_flag flag)
{
    uint32_t storer;
    uint32_t waiter;
    uint32_t where;

    if (plan->spread.gpu_count == 1)
        return flag;
    storer = gpu_of(plan, tutti_cuda_owner(plan, flag.counter) / plan->schedule->lane_count);
    waiter = gpu_of(plan, waiter_of(plan, flag.counter));
    where = are_apart(plan, storer, waiter) ? plan->spread.gpu_count : waiter;
    assert(flag.counter < TUTTI_CUDA_COUNTERS_MAX);
    if (storer != waiter)
        flag.counter |= (1 + where) << TUTTI_CUDA_COUNTER_BITS;
    return flag;
}

/* ---- for the device ---- */

static uint64_t address(const struct tutti_cuda_plan *plan,
                        const uint64_t *const bases[TUTTI_CUDA_BASES],
                        const struct tutti_cuda_place *place)
{
    if (place->buf >= TUTTI_CUDA_LINES)
        return bases[TUTTI_CUDA_LINES][plan->messages[place->rank].home] + place->offset;
    return bases[place->buf][place->rank] + place->offset;
}

static void resolve_op(const struct tutti_cuda_plan *plan, const struct tutti_cuda_planned_op *from,
                       const uint64_t *const bases[TUTTI_CUDA_BASES], struct tutti_cuda_op *to)
{
    *to = (struct tutti_cuda_op){
        .bytes = from->bytes,
        .duration_ns = from->duration_ps / 1000 + (from->duration_ps % 1000 != 0),
        .wait_first = from->wait_first,
        .wait_count = from->wait_count,
        .signal_first = from->signal_first,
        .signal_count = from->signal_count,
        .divide_by = from->divide_by,
        .src_count = from->src_count,
        .dst_count = from->dst_count,
        .code = from->code,
        .asks = from->asks,
    };
    if (from->wait_count + from->signal_count <= TUTTI_CUDA_FLAGS_MAX) {
        to->flagged = 1;
        for (uint32_t f = 0; f < from->wait_count; f++)
            to->flags[f] = tutti_cuda_resolve_flag(plan, plan->waits[from->wait_first + f]);
        for (uint32_t f = 0; f < from->signal_count; f++)
            to->flags[from->wait_count + f] =
                tutti_cuda_resolve_flag(plan, plan->signals[from->signal_first + f]);
    }
    for (uint32_t s = 0; s < from->src_count; s++) {
        to->src[s] = address(plan, bases, &from->src[s]);
        to->lines |= (uint32_t)tutti_cuda_is_line(&from->src[s]) << s;
    }
    for (uint32_t d = 0; d < from->dst_count; d++) {
        to->dst[d] = address(plan, bases, &from->dst[d]);
        to->lines |= (uint32_t)tutti_cuda_is_line(&from->dst[d]) << (16 + d);
    }
}

void tutti_cuda_resolve(const struct tutti_cuda_plan *plan, const struct tutti_cuda_part *part,
                        const uint64_t *const bases[TUTTI_CUDA_BASES],
                        struct tutti_cuda_op *ret_ops, struct tutti_cuda_lane *ret_lanes)
{
    for (uint32_t i = 0; i < part->lane_count; i++) {
        uint32_t l = part->lane_first + i;

        ret_lanes[i] = (struct tutti_cuda_lane){
            .op_first = plan->op_first[l] - part->op_first,
            .op_count = plan->op_first[l + 1] - plan->op_first[l],
            .rank = l / plan->schedule->lane_count,
            .lane = l % plan->schedule->lane_count,
        };
    }
    for (uint32_t i = 0; i < part->op_count; i++)
        resolve_op(plan, &plan->ops[part->op_first + i], bases, &ret_ops[i]);
}
