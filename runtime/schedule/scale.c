/* A schedule in chunks for another count of elements: the same steps, of longer or shorter
 * chunks. */
#include <assert.h>
#include <inttypes.h>

#include "runtime/arena.h"
#include "runtime/schedule.h"
#include "runtime/status.h"

static const uint64_t bytes_max = UINT64_C(1) << 60; /* of a buffer; products stay below 2^63 */

struct scaled {
    struct tutti_schedule base;
    const struct tutti_schedule *of;
    uint64_t from_bytes; /* of a chunk of `of` */
    uint64_t to_bytes;   /* of a chunk of this one */
};

uint64_t tutti_schedule_chunk_bytes(const struct tutti_schedule *schedule)
{
    const struct tutti_contract *contract = &schedule->contract;

    if (schedule->chunk_count == 0)
        return 0;
    assert(contract->count % schedule->chunk_count == 0);
    return contract->count / schedule->chunk_count * tutti_dtype_bytes(contract->dtype);
}

static uint64_t scale(const struct scaled *s, uint64_t bytes)
{
    assert(bytes % s->from_bytes == 0);
    return bytes / s->from_bytes * s->to_bytes;
}

static void scale_step(const struct scaled *s, struct tutti_step *step)
{
    if (step->kind == TUTTI_COMPUTE)
        return; /* what is computed does not grow with what is sent */
    step->bytes = scale(s, step->bytes);
    step->dst_offset = scale(s, step->dst_offset);
    step->src_offset = scale(s, step->src_offset);
    step->acc_offset = scale(s, step->acc_offset);
}

static uint64_t scaled_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                   uint32_t lane)
{
    const struct tutti_schedule *of = ((const struct scaled *)schedule)->of;

    return of->ops->round_count(of, rank, lane);
}

static void scaled_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                        uint64_t round, struct tutti_round *out)
{
    const struct scaled *s = (const struct scaled *)schedule;

    s->of->ops->emit(s->of, rank, lane, round, out);
    for (uint32_t i = 0; i < out->step_count; i++)
        scale_step(s, &out->step[i]);
}

static const struct tutti_schedule_ops scaled_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = scaled_round_count,
    .emit = scaled_emit,
};

/* How many chunks of `chunk_bytes` are in the largest of the buffers, so that no offset
 * overflows. */
static uint64_t chunks_max(const struct tutti_schedule *schedule, uint64_t chunk_bytes)
{
    uint64_t most =
        schedule->in_bytes > schedule->out_bytes ? schedule->in_bytes : schedule->out_bytes;

    return (schedule->scratch_bytes > most ? schedule->scratch_bytes : most) / chunk_bytes;
}

static int check_count(const struct tutti_schedule *schedule, uint64_t count, struct tutti_err *err)
{
    uint64_t own = schedule->contract.count;
    uint64_t chunks = schedule->chunk_count;
    uint64_t most;

    if (chunks == 0 && count != own)
        return tutti_fail(err, TUTTI_EINVAL,
                          "schedule '%.40s' is written in bytes, for a count of %" PRIu64
                          ", not '%" PRIu64 "' (one in chunks is for any size)",
                          schedule->name, own, count);
    if (chunks == 0)
        return 0;
    if (count == 0 || count % chunks != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a count of '%" PRIu64 "' cannot be cut into the %" PRIu64
                          " equal chunks of schedule '%.40s' (a multiple of %" PRIu64 ")",
                          count, chunks, schedule->name, chunks);
    most = chunks_max(schedule, tutti_schedule_chunk_bytes(schedule));
    if (count / chunks > bytes_max / tutti_dtype_bytes(schedule->contract.dtype) / (most + 1))
        return tutti_fail(err, TUTTI_EINVAL,
                          "count '%" PRIu64 "' is too large for schedule '%.40s'", count,
                          schedule->name);
    return 0;
}

int tutti_schedule_scale(const struct tutti_schedule *schedule, uint64_t count,
                         struct tutti_schedule **ret, struct tutti_err *err)
{
    int status = check_count(schedule, count, err);
    struct tutti_arena *arena;
    struct scaled *s;

    if (status < 0)
        return status;
    if (schedule->chunk_count == 0)
        return tutti_schedule_flatten(schedule, ret, err);
    assert(schedule->callee_count == 0); /* the builder's promise */
    arena = tutti_arena_new();
    s = arena == NULL ? NULL : tutti_arena_take(arena, 1, sizeof(*s));
    if (s == NULL) {
        tutti_arena_free(arena);
        return tutti_nomem(err);
    }
    *s = (struct scaled){.base = *schedule, .of = schedule};
    s->base.ops = &scaled_ops;
    s->base.arena = arena;
    s->base.recipe = NULL;
    s->base.recipe_count = 0;
    s->base.contract.count = count;
    s->from_bytes = tutti_schedule_chunk_bytes(schedule);
    s->to_bytes = tutti_schedule_chunk_bytes(&s->base);
    s->base.in_bytes = scale(s, schedule->in_bytes);
    s->base.out_bytes = scale(s, schedule->out_bytes);
    s->base.scratch_bytes = scale(s, schedule->scratch_bytes);
    *ret = &s->base;
    return 0;
}
