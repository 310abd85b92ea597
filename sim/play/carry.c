/* The data of a simulated run; see carry.h. */
#include "sim/play/carry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backend.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/wide.h"

/* `count` times `bytes` zeroed bytes; never NULL unless memory ran out. */
static unsigned char *take(uint64_t count, uint64_t bytes)
{
    return calloc(tutti_size(count > 0 ? count : 1), tutti_size(bytes > 0 ? bytes : 1));
}

/* The address of bytes of a rank; that they lie inside was checked when the engine was made. */
static unsigned char *locate(const struct tutti_carry *carry, uint32_t rank, unsigned buf,
                             uint64_t offset, uint64_t bytes)
{
    const struct tutti_schedule *schedule = carry->schedule;
    const struct tutti_buf_sizes most = {schedule->in_bytes, schedule->out_bytes,
                                         schedule->scratch_bytes, schedule->state_bytes};
    uint64_t size = tutti_buf_size_of(&most, (enum tutti_buf)buf);
    unsigned char *base;

    assert(buf != TUTTI_BUF_NONE);
    assert(offset <= size);
    assert(bytes <= size - offset);
    if (buf == TUTTI_BUF_SCRATCH)
        base = carry->scratch + (size_t)rank * schedule->scratch_bytes;
    else if (buf == TUTTI_BUF_STATE && carry->own_state != NULL)
        base = carry->own_state + (size_t)rank * schedule->state_bytes;
    else if (buf == TUTTI_BUF_STATE)
        base = carry->state[rank];
    else if (buf == TUTTI_BUF_IN && carry->own_in != NULL)
        base = carry->own_in;
    else if (buf == TUTTI_BUF_IN)
        base = (unsigned char *)(uintptr_t)carry->in[rank]; /* read only */
    else if (carry->own_out != NULL)
        base = carry->own_out + (size_t)rank * schedule->out_bytes;
    else
        base = carry->out[rank];
    return base + offset;
}

int tutti_carry_init(struct tutti_carry *carry, const struct tutti_play *play, bool wanted,
                     struct tutti_err *err)
{
    const struct tutti_schedule *schedule = play->schedule;

    *carry = (struct tutti_carry){
        .schedule = schedule, .in = play->in, .out = play->out, .state = play->state};
    carry->on = wanted || (play->in != NULL && play->out != NULL);
    if (!carry->on)
        return 0;
    carry->scratch = take(schedule->rank_count, schedule->scratch_bytes);
    if (play->state == NULL)
        carry->own_state = take(schedule->rank_count, schedule->state_bytes);
    if (carry->scratch == NULL || (play->state == NULL && carry->own_state == NULL)) {
        tutti_carry_done(carry);
        return tutti_nomem(err);
    }
    if (play->in != NULL && play->out != NULL)
        return 0;
    carry->own_in = take(1, schedule->in_bytes);
    carry->own_out = take(schedule->rank_count, schedule->out_bytes);
    if (carry->own_in == NULL || carry->own_out == NULL) {
        tutti_carry_done(carry);
        return tutti_nomem(err);
    }
    return 0;
}

void tutti_carry_done(struct tutti_carry *carry)
{
    free(carry->scratch);
    free(carry->own_in);
    free(carry->own_out);
    free(carry->own_state);
    *carry = (struct tutti_carry){.on = false};
}

void tutti_carry_recv(const struct tutti_carry *carry, uint32_t rank, const struct tutti_step *recv,
                      uint32_t sender, const struct tutti_step *send)
{
    if (!carry->on || recv->bytes == 0)
        return;
    memcpy(locate(carry, rank, recv->dst_buf, recv->dst_offset, recv->bytes),
           locate(carry, sender, send->src_buf, send->src_offset, recv->bytes),
           (size_t)recv->bytes);
}

void tutti_carry_local(const struct tutti_carry *carry, uint32_t rank,
                       const struct tutti_step *step, uint32_t sender,
                       const struct tutti_step *send)
{
    const struct tutti_reduction r = tutti_step_reduction(carry->schedule, step);
    size_t count = (size_t)step->bytes / tutti_dtype_bytes(r.dtype);
    unsigned char *dst;
    const unsigned char *src;

    if (!carry->on || step->bytes == 0)
        return;
    dst = locate(carry, rank, step->dst_buf, step->dst_offset, step->bytes);
    src = send != NULL ? locate(carry, sender, send->src_buf, send->src_offset, step->bytes)
                       : locate(carry, rank, step->src_buf, step->src_offset, step->bytes);
    if (step->kind == TUTTI_REDUCE)
        tutti_reduce(r.dtype, r.op, dst,
                     locate(carry, rank, step->acc_buf, step->acc_offset, step->bytes), src, count);
    else
        memmove(dst, src, (size_t)step->bytes);
    if ((step->flags & TUTTI_STEP_LAST) != 0)
        tutti_finish(r.dtype, r.op, dst, count, r.divisor);
}

int tutti_carry_work(const struct tutti_carry *carry, uint32_t rank, const struct tutti_step *step,
                     uint64_t iteration, struct tutti_err *err)
{
    const struct tutti_work *work = step->peer == 0 ? NULL : &carry->schedule->work[step->peer - 1];
    int status;

    if (!carry->on || work == NULL || work->run == NULL)
        return 0;
    status =
        work->run(&(struct tutti_work_call){.work = work,
                                            .step = step,
                                            .rank = rank,
                                            .iteration = iteration,
                                            .in = locate(carry, rank, TUTTI_BUF_IN, 0, 0),
                                            .out = locate(carry, rank, TUTTI_BUF_OUT, 0, 0),
                                            .scratch = locate(carry, rank, TUTTI_BUF_SCRATCH, 0, 0),
                                            .state = locate(carry, rank, TUTTI_BUF_STATE, 0, 0)},
                  err);
    return status >= 0 ? 0 : tutti_wrap(err, status, "work '%s'", work->name);
}
