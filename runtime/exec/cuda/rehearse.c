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

/* Goes on until the lane waits, or ends. */
static void go_on(struct rehearsal *r, uint32_t lane)
{
    const struct tutti_cuda_plan *plan = r->plan;

    for (; r->ops[lane] < plan->op_first[lane + 1]; r->ops[lane]++, r->waits[lane] = 0) {
        const struct tutti_cuda_planned_op *op = &plan->ops[r->ops[lane]];

        for (; r->waits[lane] < op->wait_count; r->waits[lane]++) {
            const struct tutti_cuda_flag *flag = &plan->waits[op->wait_first + r->waits[lane]];

            if (r->values[flag->counter] >= flag->value)
                continue;
            r->next[lane] = r->waiting[flag->counter];
            r->waiting[flag->counter] = lane;
            return;
        }
        for (uint32_t i = 0; i < op->signal_count; i++)
            store(r, &plan->signals[op->signal_first + i]);
    }
}

static void rehearse(struct rehearsal *r, bool *ret_ends, uint32_t *ret_lane, uint32_t *ret_wait)
{
    const struct tutti_cuda_plan *plan = r->plan;

    for (uint32_t i = 0; i < tutti_cuda_counter_count(plan); i++)
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
        *ret_wait = plan->ops[r->ops[l]].wait_first + r->waits[l];
    }
}

int tutti_cuda_rehearse(const struct tutti_cuda_plan *plan, bool *ret_ends, uint32_t *ret_lane,
                        uint32_t *ret_wait, struct tutti_err *err)
{
    size_t counters = (size_t)tutti_cuda_counter_count(plan) + 1;
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
    rehearse(&r, ret_ends, ret_lane, ret_wait);
    free(memory);
    return 0;
}
