/* Operations of a plan by levels: those of a level wait for none of the same level, and touch no
 * bytes that another writes, so that all of them may be played at one time. See plan.h. */
#include <assert.h>
#include <stdlib.h>

#include "runtime/exec/cuda/plan.h"
#include "runtime/status.h"

enum { LOOK_BACK = 64 }; /* operations of a lane; what is further back counts as touched */

struct staging {
    const struct tutti_cuda_plan *plan;
    uint32_t *levels;       /* [op] */
    uint32_t *after;        /* of each value of each counter: the level that may begin with it */
    uint32_t *value_first;  /* [counter]: its values in `after` */
    uint32_t *value_counts; /* [counter]: how many there are so far */
    uint32_t *ops;          /* [lane]: where it is */
    uint32_t *needs;        /* [lane]: of all that it has waited for */
    uint32_t *ends;         /* [lane]: when all that it has done is over */
};

static bool works(const struct tutti_cuda_planned_op *op)
{
    return op->src_count > 0 || op->duration_ps > 0;
}

static bool overlap(const struct tutti_cuda_place *a, uint64_t a_bytes,
                    const struct tutti_cuda_place *b, uint64_t b_bytes)
{
    return a->rank == b->rank && a->buf == b->buf && a->offset < b->offset + b_bytes &&
           b->offset < a->offset + a_bytes;
}

static bool writes_into(const struct tutti_cuda_planned_op *a,
                        const struct tutti_cuda_planned_op *b)
{
    for (uint32_t d = 0; d < a->dst_count; d++) {
        for (uint32_t s = 0; s < b->src_count; s++)
            if (overlap(&a->dst[d], a->bytes, &b->src[s], b->bytes))
                return true;
        for (uint32_t e = 0; e < b->dst_count; e++)
            if (overlap(&a->dst[d], a->bytes, &b->dst[e], b->bytes))
                return true;
    }
    return false;
}

/* Of an operation whose waits have all come, and whose lane needs `need`. */
static uint32_t level_of(const struct staging *s, uint32_t first, uint32_t number, uint32_t need)
{
    const struct tutti_cuda_planned_op *op = &s->plan->ops[number];
    uint32_t level = need;

    for (uint32_t i = number; i-- > first;) {
        const struct tutti_cuda_planned_op *before = &s->plan->ops[i];
        bool apart = number - i <= LOOK_BACK && before->duration_ps == 0 && op->duration_ps == 0 &&
                     !writes_into(before, op) && !writes_into(op, before);

        if (works(before) && !apart && s->levels[i] >= level)
            level = s->levels[i] + 1;
    }
    return level;
}

/* false: some wait has not come yet. */
static bool has_come(const struct staging *s, const struct tutti_cuda_planned_op *op,
                     uint32_t *need)
{
    for (uint32_t w = 0; w < op->wait_count; w++) {
        const struct tutti_cuda_flag *flag = &s->plan->waits[op->wait_first + w];
        uint32_t after;

        if (s->value_counts[flag->counter] < flag->value)
            return false;
        after = s->after[s->value_first[flag->counter] + flag->value - 1];
        *need = after > *need ? after : *need;
    }
    return true;
}

/* Values that have been left out, because a later one of the same counter stands for them, come
 * with that one. */
static void store(struct staging *s, const struct tutti_cuda_flag *flag, uint32_t end)
{
    for (uint32_t *count = &s->value_counts[flag->counter]; *count < flag->value; (*count)++)
        s->after[s->value_first[flag->counter] + *count] = end;
}

/* Whether the lane has come further. */
static bool go_on(struct staging *s, uint32_t lane)
{
    const struct tutti_cuda_plan *plan = s->plan;
    bool moved = false;

    for (; s->ops[lane] < plan->op_first[lane + 1]; s->ops[lane]++, moved = true) {
        uint32_t number = s->ops[lane];
        const struct tutti_cuda_planned_op *op = &plan->ops[number];

        if (!has_come(s, op, &s->needs[lane]))
            return moved;
        if (s->needs[lane] > s->ends[lane])
            s->ends[lane] = s->needs[lane];
        s->levels[number] = TUTTI_CUDA_NO_LEVEL;
        if (works(op)) {
            s->levels[number] = level_of(s, plan->op_first[lane], number, s->needs[lane]);
            if (s->levels[number] + 1 > s->ends[lane])
                s->ends[lane] = s->levels[number] + 1;
        }
        for (uint32_t i = 0; i < op->signal_count; i++)
            store(s, &plan->signals[op->signal_first + i], s->ends[lane]);
    }
    return moved;
}

static void find_values(struct staging *s)
{
    const struct tutti_cuda_plan *plan = s->plan;
    uint32_t count = 0;

    for (uint32_t c = 0; c < plan->connection_count; c++) {
        uint32_t end =
            c + 1 < plan->connection_count ? plan->connection_first[c + 1] : plan->message_count;

        for (int side = 0; side < 2; side++) {
            s->value_first[2 * c + (uint32_t)side] = count;
            count += end - plan->connection_first[c];
        }
    }
    for (uint32_t l = 0; l < plan->lane_total; l++) {
        s->value_first[tutti_cuda_done(plan, l)] = count;
        count += plan->step_first[l + 1] - plan->step_first[l];
    }
    assert(count == 2 * plan->message_count + plan->step_first[plan->lane_total]);
}

int tutti_cuda_stages_open(struct tutti_cuda_stages *stages, const struct tutti_cuda_plan *plan,
                           struct tutti_err *err)
{
    size_t values = 2 * (size_t)plan->message_count + plan->program.step_count + 1;
    size_t counters = (size_t)tutti_cuda_counter_count(plan) + 1;
    size_t lanes = (size_t)plan->lane_total + 1;
    uint32_t *levels = calloc((size_t)plan->op_count + 1, sizeof(*levels));
    uint32_t *memory = calloc(values + 2 * counters + 3 * lanes, sizeof(*memory));
    struct staging s = {.plan = plan, .levels = levels, .after = memory};
    bool moved = true;

    assert(!plan->lined);
    if (levels == NULL || memory == NULL) {
        free(levels);
        free(memory);
        return tutti_nomem(err);
    }
    s.value_first = s.after + values;
    s.value_counts = s.value_first + counters;
    s.ops = s.value_counts + counters;
    s.needs = s.ops + lanes;
    s.ends = s.needs + lanes;
    find_values(&s);
    for (uint32_t l = 0; l < plan->lane_total; l++)
        s.ops[l] = plan->op_first[l];
    while (moved) {
        moved = false;
        for (uint32_t l = 0; l < plan->lane_total; l++)
            moved = go_on(&s, l) || moved;
    }
    *stages = (struct tutti_cuda_stages){.levels = levels};
    for (uint32_t l = 0; l < plan->lane_total; l++) {
        assert(s.ops[l] == plan->op_first[l + 1]); /* the plan has been rehearsed */
        if (s.ends[l] > stages->level_count)
            stages->level_count = s.ends[l];
    }
    free(memory);
    return 0;
}

void tutti_cuda_stages_close(struct tutti_cuda_stages *stages)
{
    free(stages->levels);
    *stages = (struct tutti_cuda_stages){0};
}
