/* Tries a plan out on its counters alone: whether every lane comes to its end. */
#include <stdlib.h>

#include "runtime/exec/cuda/plan.h"
#include "runtime/status.h"

#define NOBODY UINT32_MAX

struct rehearsal {
    const struct tutti_cuda_plan *plan;
    uint32_t *values;  /* [counter] */
    uint32_t *waiting; /* [counter]: the first lane that waits for it */
    uint32_t *next;    /* [lane]: the next that waits for the same */
    uint32_t *ops;     /* [lane]: where it is */
    uint32_t *waits;   /* [lane]: which of the operation's it waits for */
    uint32_t *ready;   /* a stack of lanes that may go on */
    uint32_t ready_count;
};

/* Wakes who waits for the counter: each looks again. */
static void store(struct rehearsal *r, const struct tutti_cuda_flag *flag)
{
    if (flag->value > r->values[flag->counter])
        r->values[flag->counter] = flag->value;
    while (r->waiting[flag->counter] != NOBODY) {
        uint32_t lane = r->waiting[flag->counter];

        r->waiting[flag->counter] = r->next[lane];
        r->ready[r->ready_count++] = lane;
    }
}

/* Number `wait` of what an operation waits for: its counters, then its lines, each a counter of the
 * rehearsal's own. */
static bool next_wait(const struct tutti_cuda_plan *plan, const struct tutti_cuda_planned_op *op,
                      uint32_t wait, struct tutti_cuda_flag *ret)
{
    if (wait < op->wait_count) {
        *ret = plan->waits[op->wait_first + wait];
        return true;
    }
    for (uint32_t s = 0; s < op->src_count; s++) {
        if (!tutti_cuda_is_line(&op->src[s]) || wait-- > op->wait_count)
            continue;
        *ret = (struct tutti_cuda_flag){tutti_cuda_counter_count(plan) + op->src[s].rank, 1};
        return true;
    }
    return false;
}

/* Goes on until the lane waits, or ends. */
static void go_on(struct rehearsal *r, uint32_t lane)
{
    const struct tutti_cuda_plan *plan = r->plan;

    for (; r->ops[lane] < plan->op_first[lane + 1]; r->ops[lane]++, r->waits[lane] = 0) {
        const struct tutti_cuda_planned_op *op = &plan->ops[r->ops[lane]];
        struct tutti_cuda_flag flag;

        for (; next_wait(plan, op, r->waits[lane], &flag); r->waits[lane]++) {
            if (r->values[flag.counter] >= flag.value)
                continue;
            r->next[lane] = r->waiting[flag.counter];
            r->waiting[flag.counter] = lane;
            return;
        }
        for (uint32_t d = 0; d < op->dst_count; d++) {
            flag = (struct tutti_cuda_flag){tutti_cuda_counter_count(plan) + op->dst[d].rank, 1};
            if (tutti_cuda_is_line(&op->dst[d]))
                store(r, &flag);
        }
        for (uint32_t i = 0; i < op->signal_count; i++)
            store(r, &plan->signals[op->signal_first + i]);
    }
}

/* The step of a lane that waits there: the SEND or RECV of a counter's, or the RECV of a line. */
static uint32_t step_of(const struct tutti_cuda_plan *plan, uint32_t lane, uint32_t number,
                        uint32_t wait)
{
    const struct tutti_cuda_planned_op *op = &plan->ops[number];
    struct tutti_cuda_flag flag = {0, 0};

    if (wait < op->wait_count)
        return plan->wait_steps[op->wait_first + wait];
    (void)next_wait(plan, op, wait, &flag);
    return plan->messages[flag.counter - tutti_cuda_counter_count(plan)].recv -
           plan->step_first[lane];
}

static void rehearse(struct rehearsal *r, bool *ret_ends, uint32_t *ret_lane, uint32_t *ret_step)
{
    const struct tutti_cuda_plan *plan = r->plan;

    for (uint32_t i = 0; i < tutti_cuda_counter_count(plan) + plan->message_count; i++)
        r->waiting[i] = NOBODY;
    for (uint32_t l = plan->lane_total; l-- > 0;) {
        r->ops[l] = plan->op_first[l];
        r->ready[r->ready_count++] = l;
    }
    while (r->ready_count > 0)
        go_on(r, r->ready[--r->ready_count]);
    *ret_ends = true;
    for (uint32_t l = 0; l < plan->lane_total && *ret_ends; l++) {
        if (r->ops[l] == plan->op_first[l + 1])
            continue;
        *ret_ends = false;
        *ret_lane = l;
        *ret_step = step_of(plan, l, r->ops[l], r->waits[l]);
    }
}

int tutti_cuda_rehearse(const struct tutti_cuda_plan *plan, bool *ret_ends, uint32_t *ret_lane,
                        uint32_t *ret_step, struct tutti_err *err)
{
    size_t counters = (size_t)tutti_cuda_counter_count(plan) + plan->message_count + 1;
    size_t lanes = (size_t)plan->lane_total + 1;
    uint32_t *memory = calloc(2 * counters + 4 * lanes, sizeof(*memory));
    struct rehearsal r = {.plan = plan, .values = memory};

    if (memory == NULL)
        return tutti_nomem(err);
    r.waiting = r.values + counters;
    r.next = r.waiting + counters;
    r.ops = r.next + lanes;
    r.waits = r.ops + lanes;
    r.ready = r.waits + lanes;
    rehearse(&r, ret_ends, ret_lane, ret_step);
    free(memory);
    return 0;
}
