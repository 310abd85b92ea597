/* A schedule told level by level, as the backend `nccl` plays it; see runtime/cuda_work.h. */
#include <stdlib.h>

#include "runtime/cuda_work.h"
#include "runtime/exec/levels.h"
#include "runtime/exec/program.h"
#include "runtime/schedule.h"
#include "runtime/status.h"

enum { THREADS = 512, SUMMED = 3 }; /* places of a sum of two: read, read, written */

static const size_t store_bytes = (size_t)256 << 20;

struct whole {
    struct tutti_cuda_work work; /* first: what callers have */
    uint32_t *op_first;
    struct tutti_cuda_work_op *ops;
    struct tutti_cuda_work_flag *flags;
};

/* What a rank does in a level and stage: the messages of the level are its stage 0. */
struct part {
    uint32_t rank;
    uint32_t level;
    uint32_t stage;
    uint64_t sent_bytes;
    uint64_t taken_bytes;
    uint64_t touched_bytes; /* by REDUCE and COPY, read and written */
    uint64_t duration_ps;
    uint32_t peer; /* TUTTI_RANK none: UINT32_MAX */
};

struct parts {
    struct part *parts;
    uint64_t count;
};

static bool is_message(const struct tutti_step *step)
{
    return step->kind == TUTTI_SEND || step->kind == TUTTI_RECV;
}

static struct part part_of(const struct tutti_step *step, uint32_t rank,
                           struct tutti_level_stage at)
{
    struct part part = {.rank = rank, .level = at.level, .stage = at.stage, .peer = UINT32_MAX};

    if (is_message(step)) {
        part.peer = step->peer;
        part.sent_bytes = step->kind == TUTTI_SEND ? step->bytes : 0;
        part.taken_bytes = step->kind == TUTTI_RECV ? step->bytes : 0;
    } else if (step->kind == TUTTI_COMPUTE) {
        part.duration_ps = (uint64_t)step->duration_ps;
    } else {
        part.touched_bytes = step->bytes * (step->kind == TUTTI_REDUCE ? SUMMED : SUMMED - 1);
    }
    return part;
}

static int compare(const void *left, const void *right)
{
    const struct part *a = left;
    const struct part *b = right;

    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->level != b->level)
        return a->level < b->level ? -1 : 1;
    if (a->stage != b->stage)
        return a->stage < b->stage ? -1 : 1;
    return (a->peer > b->peer) - (a->peer < b->peer);
}

/* A part a step, in order of ranks, levels and stages. Of a level's messages, stage 0; what does
 * nothing is left out. */
static int list(const struct tutti_schedule *schedule, const struct tutti_program *program,
                const struct tutti_levels *levels, struct parts *ret, struct tutti_err *err)
{
    struct parts parts = {.count = 0};

    parts.parts = calloc(levels->step_first[levels->lane_total] + 1, sizeof(*parts.parts));
    if (parts.parts == NULL)
        return tutti_nomem(err);
    for (uint32_t l = 0; l < levels->lane_total; l++) {
        for (uint32_t i = 0; i < program->lanes[l].step_count; i++) {
            const struct tutti_step *step = &program->lanes[l].steps[i];
            struct tutti_level_stage at = levels->stages[levels->step_first[l] + i];

            if (is_message(step) || at.stage > 0)
                parts.parts[parts.count++] = part_of(step, l / schedule->lane_count, at);
        }
    }
    if (parts.count > 0)
        qsort(parts.parts, parts.count, sizeof(*parts.parts), compare);
    *ret = parts;
    return 0;
}

static bool is_same_op(const struct part *a, const struct part *b)
{
    return a->rank == b->rank && a->level == b->level && a->stage == b->stage;
}

/* Operations of a rank that come before the messages of the level: what it has done when it is
 * ready for them. */
static uint32_t done_before(const struct parts *parts, const uint64_t *first, uint32_t rank,
                            uint32_t level)
{
    uint32_t count = 0;

    for (uint64_t i = first[rank]; i < first[rank + 1] && parts->parts[i].level < level; i++)
        count += i == first[rank] || !is_same_op(&parts->parts[i - 1], &parts->parts[i]);
    return count;
}

static void add_flag(struct whole *whole, uint32_t counter, uint32_t value)
{
    whole->flags[whole->work.flag_count++] = (struct tutti_cuda_work_flag){counter, value};
}

/* The operation of parts [at, end): it waits until all peers have come to the level, and counts up
 * what its rank has done. */
static void add_op(struct whole *whole, const struct parts *parts, const uint64_t *first,
                   uint64_t at, uint64_t end, uint32_t number)
{
    const struct part *p = &parts->parts[at];
    struct tutti_cuda_work_op *op = &whole->ops[whole->work.op_count++];
    uint64_t sent = 0;
    uint64_t taken = 0;
    uint64_t touched = 0;

    *op = (struct tutti_cuda_work_op){.dst_count = 1, .wait_first = whole->work.flag_count};
    for (uint64_t i = at; i < end; i++) {
        sent += parts->parts[i].sent_bytes;
        taken += parts->parts[i].taken_bytes;
        touched += parts->parts[i].touched_bytes;
        op->duration_ps += parts->parts[i].duration_ps;
        if (p->stage > 0 || (i > at && parts->parts[i].peer == parts->parts[i - 1].peer))
            continue;
        add_flag(whole, parts->parts[i].peer,
                 done_before(parts, first, parts->parts[i].peer, p->level));
    }
    op->wait_count = whole->work.flag_count - op->wait_first;
    op->src_count = p->stage > 0 ? 2 : 1;
    op->bytes = p->stage > 0 ? touched / SUMMED : sent > taken ? sent : taken;
    op->signal_first = whole->work.flag_count;
    op->signal_count = 1;
    add_flag(whole, p->rank, number);
    whole->work.moved_bytes += op->bytes * (op->src_count + 1u);
}

/* One a rank and stage, in the order in which they are played. */
static void add_ops(struct whole *whole, const struct parts *parts, const uint64_t *first,
                    uint32_t rank_count)
{
    for (uint32_t r = 0; r < rank_count; r++) {
        uint32_t number = 0;

        whole->op_first[r] = whole->work.op_count;
        for (uint64_t at = first[r]; at < first[r + 1];) {
            uint64_t end = at + 1;

            while (end < first[r + 1] && is_same_op(&parts->parts[at], &parts->parts[end]))
                end++;
            add_op(whole, parts, first, at, end, ++number);
            at = end;
        }
    }
    whole->op_first[rank_count] = whole->work.op_count;
}

static int take(const struct tutti_schedule *schedule, const struct parts *parts,
                struct whole *whole, struct tutti_err *err)
{
    uint32_t ranks = schedule->rank_count;
    uint64_t *first = calloc((size_t)ranks + 1, sizeof(*first));

    whole->op_first = calloc((size_t)ranks + 1, sizeof(*whole->op_first));
    whole->ops = calloc(parts->count + 1, sizeof(*whole->ops));
    whole->flags = calloc(2 * parts->count + 1, sizeof(*whole->flags));
    if (first == NULL || whole->op_first == NULL || whole->ops == NULL || whole->flags == NULL) {
        free(first);
        return tutti_nomem(err);
    }
    for (uint64_t i = 0; i < parts->count; i++)
        first[parts->parts[i].rank + 1]++;
    for (uint32_t r = 0; r < ranks; r++)
        first[r + 1] += first[r];
    add_ops(whole, parts, first, ranks);
    free(first);
    whole->work.lane_count = ranks;
    whole->work.counter_count = whole->work.line_first = ranks;
    whole->work.thread_count = THREADS;
    whole->work.op_first = whole->op_first;
    whole->work.ops = whole->ops;
    whole->work.flags = whole->flags;
    for (uint32_t r = 0; r < ranks; r++) {
        struct tutti_buf_sizes sizes;

        tutti_schedule_buf_sizes(schedule, r, &sizes);
        for (int b = TUTTI_BUF_IN; b < TUTTI_BUF_COUNT; b++)
            whole->work.buffer_bytes += tutti_buf_size_of(&sizes, (enum tutti_buf)b);
    }
    return 0;
}

int tutti_level_work_new(const struct tutti_schedule *schedule, struct tutti_cuda_work **ret,
                         struct tutti_err *err)
{
    struct tutti_levels levels = {.lane_total = 0};
    struct tutti_program program = {.lanes = NULL};
    struct parts parts = {.count = 0};
    struct whole *whole = calloc(1, sizeof(*whole));
    int status = whole == NULL ? tutti_nomem(err) : tutti_levels_open(&levels, schedule, err);

    if (status == 0)
        status = tutti_program_open(&program, schedule, 0, schedule->rank_count, store_bytes, err);
    if (status == 0 && program.step_count > 0 && program.stored == NULL)
        status = tutti_fail(err, TUTTI_ELACK,
                            "'%s' is too large to be looked at level by level (%zu MiB of steps)",
                            schedule->name, store_bytes >> 20);
    if (status == 0)
        status = list(schedule, &program, &levels, &parts, err);
    if (status == 0)
        status = take(schedule, &parts, whole, err);
    free(parts.parts);
    tutti_program_close(&program);
    tutti_levels_close(&levels);
    if (status < 0) {
        tutti_level_work_free(whole == NULL ? NULL : &whole->work);
        return status;
    }
    *ret = &whole->work;
    return 0;
}

void tutti_level_work_free(struct tutti_cuda_work *work)
{
    struct whole *whole = (struct whole *)work;

    if (whole == NULL)
        return;
    free(whole->op_first);
    free(whole->ops);
    free(whole->flags);
    free(whole);
}
