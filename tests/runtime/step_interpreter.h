/* An interpreter of schedules with groups and work that is as simple as can be: calls by their
 * contract, messages copied at once. */
#ifndef TUTTI_TESTS_RUNTIME_STEP_INTERPRETER_H
#define TUTTI_TESTS_RUNTIME_STEP_INTERPRETER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data.h"
#include "runtime/schedule.h"
#include "runtime/status.h"

enum { RANKS_MAX = 16, INTERPRETER_LANES_MAX = 4 };

/* ---- work ------------------------------------------------------------------------------------ */

/* Writes bytes that depend on every byte read, on the work and on nothing else. */
static int step_stir(const struct tutti_work_call *call, struct tutti_err *err)
{
    char *const bufs[TUTTI_BUF_COUNT] = {
        [TUTTI_BUF_IN] = (char *)(uintptr_t)call->in, /* only read */
        [TUTTI_BUF_OUT] = call->out,
        [TUTTI_BUF_SCRATCH] = call->scratch,
        [TUTTI_BUF_STATE] = call->state,
    };
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    (void)err;
    for (const char *c = call->work->name; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    for (uint32_t i = 0; i < call->work->read_count; i++) {
        const struct tutti_region at = tutti_region_at(&call->work->reads[i], call->step);

        for (uint64_t b = 0; b < at.bytes; b++)
            hash = (hash ^ (unsigned char)bufs[at.buf][at.offset + b]) * UINT64_C(0x100000001b3);
    }
    for (uint32_t i = 0; i < call->work->write_count; i++) {
        const struct tutti_region at = tutti_region_at(&call->work->writes[i], call->step);

        for (uint64_t b = 0; b < at.bytes; b++) {
            hash = (hash ^ hash >> 29) * UINT64_C(0x9e3779b97f4a7c15) + b;
            bufs[at.buf][at.offset + b] = (char)(hash >> 56);
        }
    }
    return 0;
}

/* ---- the interpreter ------------------------------------------------------------------------- */

struct memory {
    char *bufs[RANKS_MAX][TUTTI_BUF_COUNT];
};

static void memory_reset(struct memory *memory, const struct tutti_schedule *s)
{
    for (uint32_t rank = 0; rank < s->rank_count; rank++) {
        for (uint64_t i = 0; i < s->in_bytes; i++)
            memory->bufs[rank][TUTTI_BUF_IN][i] = (char)(rank * 31 + i * 7 + 1);
        for (uint64_t i = 0; i < s->state_bytes; i++)
            memory->bufs[rank][TUTTI_BUF_STATE][i] = (char)(i * 13 + 5);
        memset(memory->bufs[rank][TUTTI_BUF_OUT], 0, (size_t)s->out_bytes);
        memset(memory->bufs[rank][TUTTI_BUF_SCRATCH], 0, (size_t)s->scratch_bytes);
    }
}

static inline bool memory_open(struct memory *memory, const struct tutti_schedule *s)
{
    const uint64_t sizes[TUTTI_BUF_COUNT] = {0, s->in_bytes, s->out_bytes, s->scratch_bytes,
                                             s->state_bytes};

    for (uint32_t rank = 0; rank < s->rank_count; rank++)
        for (int buf = TUTTI_BUF_IN; buf < TUTTI_BUF_COUNT; buf++)
            if ((memory->bufs[rank][buf] = calloc((size_t)sizes[buf] + 1, 1)) == NULL)
                return false;
    memory_reset(memory, s);
    return true;
}

static inline void memory_close(struct memory *memory, const struct tutti_schedule *s)
{
    for (uint32_t rank = 0; rank < s->rank_count; rank++)
        for (int buf = TUTTI_BUF_IN; buf < TUTTI_BUF_COUNT; buf++)
            free(memory->bufs[rank][buf]);
}

struct walker {
    struct tutti_cursor cursor;
    const struct tutti_step *step; /* the next; NULL at the end */
    uint64_t done;
};

struct interpreter {
    const struct tutti_schedule *s;
    struct memory *memory;
    struct walker walkers[RANKS_MAX][INTERPRETER_LANES_MAX];
};

static void interpret_pass(struct walker *w)
{
    w->done++;
    w->step = tutti_cursor_next(&w->cursor);
}

static bool interpret_ready(const struct interpreter *x, uint32_t rank,
                            const struct tutti_step *step)
{
    return (step->flags & TUTTI_STEP_DEP) == 0 ||
           x->walkers[rank][step->dep_lane].done > step->dep_step;
}

/* The contract of a call, on copies of what its members bring. */
static void interpret_contract(struct interpreter *x, const struct tutti_schedule *callee,
                               const struct tutti_axis *axis, uint32_t group, uint32_t lane)
{
    const struct tutti_contract *c = &callee->contract;
    const size_t in_bytes = (size_t)callee->in_bytes;
    const uint32_t n = axis->size;
    char *in = calloc(n, in_bytes + 8);
    char *sum = calloc(1, in_bytes + 8);

    for (uint32_t i = 0; i < n && in != NULL && sum != NULL; i++) {
        uint32_t rank = tutti_axis_rank(axis, group, i);
        const struct tutti_step *step = x->walkers[rank][lane].step;

        memcpy(in + i * in_bytes, x->memory->bufs[rank][step->src_buf] + step->src_offset,
               in_bytes);
        if (i == 0)
            memcpy(sum, in, in_bytes);
        else
            tutti_reduce(c->dtype, c->op, sum, sum, in + i * in_bytes,
                         in_bytes / tutti_dtype_bytes(c->dtype));
    }
    for (uint32_t i = 0; i < n && in != NULL && sum != NULL; i++) {
        uint32_t rank = tutti_axis_rank(axis, group, i);
        struct walker *w = &x->walkers[rank][lane];
        char *out = x->memory->bufs[rank][w->step->dst_buf] + w->step->dst_offset;

        if (c->collective == TUTTI_ALLREDUCE)
            memcpy(out, sum, in_bytes);
        else if (c->collective == TUTTI_REDUCESCATTER)
            memcpy(out, sum + i * (in_bytes / n), in_bytes / n);
        else
            memcpy(out, in, n * in_bytes);
        interpret_pass(w);
    }
    free(in);
    free(sum);
}

/* 1 if all members of the group have come to a call of the same. */
static bool interpret_call(struct interpreter *x, uint32_t rank, uint32_t lane)
{
    const struct tutti_step *step = x->walkers[rank][lane].step;
    const struct tutti_axis axis = tutti_schedule_axis(x->s, step->axis);
    uint32_t group = 0;
    uint32_t member = 0;

    if (!tutti_axis_find(&axis, rank, &group, &member))
        return false;
    for (uint32_t i = 0; i < axis.size; i++) {
        uint32_t other = tutti_axis_rank(&axis, group, i);
        const struct tutti_step *its = x->walkers[other][lane].step;

        if (its == NULL || its->kind != TUTTI_CALL || its->peer != step->peer ||
            its->axis != step->axis || !interpret_ready(x, other, its))
            return false;
    }
    interpret_contract(x, x->s->callees[step->peer], &axis, group, lane);
    return true;
}

/* A RECV and the SEND of the other side, which stand on one lane each. */
static bool interpret_recv(struct interpreter *x, uint32_t rank, uint32_t lane)
{
    const struct tutti_step *recv = x->walkers[rank][lane].step;
    struct tutti_cursor cursor;
    const struct tutti_step *send;

    /* Each connection has one message in these schedules. */
    tutti_cursor_open(&cursor, x->s, recv->peer, lane);
    while ((send = tutti_cursor_next(&cursor)) != NULL)
        if (send->kind == TUTTI_SEND && send->peer == rank)
            break;
    if (send == NULL || x->walkers[recv->peer][lane].done <= cursor.step_index - 1)
        return false;
    memcpy(x->memory->bufs[rank][recv->dst_buf] + recv->dst_offset,
           x->memory->bufs[recv->peer][send->src_buf] + send->src_offset, (size_t)recv->bytes);
    return true;
}

/* Whether the lane's next step could be executed. */
static bool interpret_step(struct interpreter *x, uint32_t rank, uint32_t lane)
{
    struct walker *w = &x->walkers[rank][lane];
    char *const *bufs = x->memory->bufs[rank];
    struct tutti_err err;

    if (w->step == NULL || !interpret_ready(x, rank, w->step))
        return false;
    if (w->step->kind == TUTTI_CALL)
        return interpret_call(x, rank, lane);
    if (w->step->kind == TUTTI_RECV && !interpret_recv(x, rank, lane))
        return false;
    if (w->step->kind == TUTTI_COMPUTE)
        (void)step_stir(&(struct tutti_work_call){.work = &x->s->work[w->step->peer - 1],
                                                  .step = w->step,
                                                  .in = bufs[TUTTI_BUF_IN],
                                                  .out = bufs[TUTTI_BUF_OUT],
                                                  .scratch = bufs[TUTTI_BUF_SCRATCH],
                                                  .state = bufs[TUTTI_BUF_STATE]},
                        &err);
    interpret_pass(w);
    return true;
}

/* Executes everything once; false: it cannot be finished. */
static inline bool interpret(const struct tutti_schedule *s, struct memory *memory)
{
    struct interpreter x = {.s = s, .memory = memory};
    bool moved = true;
    bool ended = true;

    for (uint32_t rank = 0; rank < s->rank_count; rank++) {
        for (uint32_t lane = 0; lane < s->lane_count; lane++) {
            tutti_cursor_open(&x.walkers[rank][lane].cursor, s, rank, lane);
            x.walkers[rank][lane].step = tutti_cursor_next(&x.walkers[rank][lane].cursor);
        }
    }
    while (moved) {
        moved = false;
        for (uint32_t rank = 0; rank < s->rank_count; rank++)
            for (uint32_t lane = 0; lane < s->lane_count; lane++)
                moved |= interpret_step(&x, rank, lane);
    }
    for (uint32_t rank = 0; rank < s->rank_count; rank++)
        for (uint32_t lane = 0; lane < s->lane_count; lane++)
            ended &= x.walkers[rank][lane].step == NULL;
    return ended;
}

#endif
