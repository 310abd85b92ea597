/* The reference player: plays a schedule in one thread, one message after another. Slow, plain, and
 * so the measure of what every other player must produce bit for bit. */
#ifndef TUTTI_TESTS_RUNTIME_REFERENCE_PLAYER_H
#define TUTTI_TESTS_RUNTIME_REFERENCE_PLAYER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/engine.h"
#include "runtime/schedule.h"
#include "runtime/status.h"

enum { REF_MESSAGES_MAX = 1 << 14 };

struct ref_message {
    uint32_t from, to, lane;
    bool started; /* holds a slot */
    struct tutti_post post;
};

struct ref {
    const struct tutti_schedule *schedule;
    char **bufs[TUTTI_BUF_COUNT]; /* by enum tutti_buf, then by rank */
    struct ref_message sends[REF_MESSAGES_MAX];
    uint32_t send_count;
    struct tutti_post waiting[REF_MESSAGES_MAX]; /* everything but SENDs */
    uint32_t waiting_count;
};

static char *ref_at(struct ref *ref, uint32_t rank, unsigned buf, uint64_t offset)
{
    return ref->bufs[buf][rank] + offset;
}

static int ref_post(void *data, const struct tutti_post *post, struct tutti_err *err)
{
    struct ref *ref = data;

    if (ref->send_count == REF_MESSAGES_MAX || ref->waiting_count == REF_MESSAGES_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "too large for the reference player");
    if (post->step->kind == TUTTI_SEND)
        ref->sends[ref->send_count++] = (struct ref_message){
            .from = post->rank, .to = post->step->peer, .lane = post->lane, .post = *post};
    else
        ref->waiting[ref->waiting_count++] = *post;
    return 0;
}

static struct tutti_done ref_done(const struct tutti_post *post, enum tutti_done_what what)
{
    return (struct tutti_done){
        .rank = post->rank, .lane = post->lane, .index = post->index, .what = what};
}

static bool ref_has_slot(const struct ref *ref, uint32_t number)
{
    const struct ref_message *m = &ref->sends[number];
    uint32_t used = 0;

    for (uint32_t i = 0; i < number; i++)
        used += ref->sends[i].started && ref->sends[i].from == m->from &&
                ref->sends[i].to == m->to && ref->sends[i].lane == m->lane;
    return used < ref->schedule->slot_count;
}

/* Work that has a function is really done. */
static void ref_work(struct ref *ref, uint32_t rank, const struct tutti_step *step)
{
    const struct tutti_work *work = step->peer == 0 ? NULL : &ref->schedule->work[step->peer - 1];
    struct tutti_err err;

    if (work != NULL && work->run != NULL)
        (void)work->run(
            &(struct tutti_work_call){.work = work,
                                      .step = step,
                                      .rank = rank,
                                      .in = ref_at(ref, rank, TUTTI_BUF_IN, 0),
                                      .out = ref_at(ref, rank, TUTTI_BUF_OUT, 0),
                                      .scratch = ref_at(ref, rank, TUTTI_BUF_SCRATCH, 0),
                                      .state = ref_at(ref, rank, TUTTI_BUF_STATE, 0)},
            &err);
}

/* Finishes step number i of those waiting if it can; returns the number of reports. */
static int ref_try(struct ref *ref, uint32_t i, struct tutti_done *done)
{
    struct tutti_post post = ref->waiting[i];
    const struct tutti_step *step = post.step;
    const struct tutti_reduction r = tutti_step_reduction(ref->schedule, step);
    char *dst = ref_at(ref, post.rank, step->dst_buf, step->dst_offset);
    const char *src = ref_at(ref, post.rank, step->src_buf, step->src_offset);
    uint32_t k = 0;

    if (step->kind == TUTTI_RECV) {
        while (k < ref->send_count &&
               (!ref->sends[k].started || ref->sends[k].from != step->peer ||
                ref->sends[k].to != post.rank || ref->sends[k].lane != post.lane))
            k++;
        if (k == ref->send_count)
            return 0;
        src = ref_at(ref, step->peer, ref->sends[k].post.step->src_buf,
                     ref->sends[k].post.step->src_offset);
    }
    if (step->kind == TUTTI_REDUCE)
        tutti_reduce(r.dtype, r.op, dst, ref_at(ref, post.rank, step->acc_buf, step->acc_offset),
                     src, (size_t)step->bytes / tutti_dtype_bytes(r.dtype));
    else if (step->kind == TUTTI_COMPUTE)
        ref_work(ref, post.rank, step);
    else
        memmove(dst, src, (size_t)step->bytes);
    if ((step->flags & TUTTI_STEP_LAST) != 0)
        tutti_finish(r.dtype, r.op, dst, (size_t)step->bytes / tutti_dtype_bytes(r.dtype),
                     r.divisor);
    done[0] = ref_done(&post, TUTTI_DONE_FINISHED);
    ref->waiting_count--;
    memmove(&ref->waiting[i], &ref->waiting[i + 1],
            (ref->waiting_count - i) * sizeof(ref->waiting[0]));
    if (step->kind != TUTTI_RECV)
        return 1;
    done[1] = ref_done(&ref->sends[k].post, TUTTI_DONE_FINISHED);
    ref->send_count--;
    memmove(&ref->sends[k], &ref->sends[k + 1], (ref->send_count - k) * sizeof(ref->sends[0]));
    return 2;
}

static int ref_poll(void *data, struct tutti_done *done, uint32_t max, struct tutti_err *err)
{
    struct ref *ref = data;
    int count = 0;

    (void)max;
    (void)err;
    for (uint32_t i = 0; i < ref->send_count; i++) {
        if (ref->sends[i].started || !ref_has_slot(ref, i))
            continue;
        ref->sends[i].started = true;
        done[0] = ref_done(&ref->sends[i].post, TUTTI_DONE_STARTED);
        return 1;
    }
    for (uint32_t i = 0; i < ref->waiting_count && count == 0; i++)
        count = ref_try(ref, i, done);
    return count;
}

/* bufs: by enum tutti_buf, then by rank; none for state. */
static int ref_play(const struct tutti_schedule *schedule, char **const *bufs,
                    struct tutti_err *err)
{
    static const struct tutti_stage_ops ops = {
        .size = sizeof(struct tutti_stage_ops), .post = ref_post, .poll = ref_poll};
    struct ref *ref = calloc(1, sizeof(*ref));
    struct tutti_engine *engine = NULL;
    int status = ref == NULL ? tutti_nomem(err) : 0;

    if (status == 0)
        status = tutti_engine_new(schedule, 0, schedule->rank_count, &engine, err);
    if (status == 0) {
        ref->schedule = schedule;
        memcpy(ref->bufs, bufs, TUTTI_BUF_STATE * sizeof(ref->bufs[0]));
        status = tutti_engine_run(engine, &ops, ref, NULL, err);
    }
    tutti_engine_free(engine);
    free(ref);
    return status;
}

#endif
