/* In place: a schedule whose in and out are one buffer, as the check and the proof see it. */
#include <assert.h>
#include <inttypes.h>

#include "runtime/arena.h"
#include "runtime/schedule/clock.h"
#include "runtime/schedule/prove.h"
#include "runtime/status.h"

bool tutti_in_place(const struct tutti_schedule *schedule, uint32_t rank, uint64_t *ret_in,
                    uint64_t *ret_out)
{
    *ret_in = 0;
    *ret_out = 0;
    switch (schedule->contract.collective) {
    case TUTTI_ALLREDUCE:
    case TUTTI_REDUCE_TO_ROOT:
    case TUTTI_BROADCAST:
        return true;
    case TUTTI_ALLGATHER:
        *ret_in = rank * schedule->in_bytes;
        return true;
    case TUTTI_REDUCESCATTER:
        *ret_out = rank * schedule->out_bytes;
        return true;
    default:
        return false;
    }
}

/* The steps of another, flat schedule with its in and out in one buffer, as if that were state: the
 * check then sees who touches whose bytes. */
struct aliased_schedule {
    struct tutti_schedule base;
    const struct tutti_schedule *inner;
};

static uint64_t aliased_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                    uint32_t lane)
{
    const struct tutti_schedule *inner = ((const struct aliased_schedule *)schedule)->inner;

    return inner->ops->round_count(inner, rank, lane);
}

static void move(uint64_t in, uint64_t out, uint8_t *buf, uint64_t *offset)
{
    if (*buf != TUTTI_BUF_IN && *buf != TUTTI_BUF_OUT)
        return;
    *offset += *buf == TUTTI_BUF_IN ? in : out;
    *buf = TUTTI_BUF_STATE;
}

/* A COPY of bytes onto themselves moves none. */
static void join_if_same(struct tutti_step *step)
{
    if (step->kind == TUTTI_COPY && (step->flags & TUTTI_STEP_LAST) == 0 &&
        step->src_buf == step->dst_buf && step->src_offset == step->dst_offset)
        step->bytes = 0;
}

static void aliased_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                         uint64_t round, struct tutti_round *out)
{
    const struct tutti_schedule *inner = ((const struct aliased_schedule *)schedule)->inner;
    uint64_t in_at = 0;
    uint64_t out_at = 0;

    (void)tutti_in_place(inner, rank, &in_at, &out_at);
    inner->ops->emit(inner, rank, lane, round, out);
    for (uint32_t i = 0; i < out->step_count; i++) {
        struct tutti_step *step = &out->step[i];
        bool receives = step->kind == TUTTI_RECV;

        if (step->kind == TUTTI_COMPUTE)
            continue;
        if (step->kind != TUTTI_SEND)
            move(in_at, out_at, &step->dst_buf, &step->dst_offset);
        if (!receives)
            move(in_at, out_at, &step->src_buf, &step->src_offset);
        if (step->kind == TUTTI_REDUCE)
            move(in_at, out_at, &step->acc_buf, &step->acc_offset);
        join_if_same(step);
    }
}

static const struct tutti_schedule_ops aliased_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = aliased_round_count,
    .emit = aliased_emit,
};

/* `flat` has no callees. */
static void alias(const struct tutti_schedule *flat, struct aliased_schedule *ret)
{
    *ret = (struct aliased_schedule){.base = *flat, .inner = flat};
    ret->base.ops = &aliased_ops;
    ret->base.contract.collective = TUTTI_CUSTOM;
    ret->base.recipe_count = 0;
    ret->base.in_bytes = 0;
    ret->base.out_bytes = 0;
    ret->base.state_bytes = flat->in_bytes > flat->out_bytes ? flat->in_bytes : flat->out_bytes;
}

static int refuse_others(const struct tutti_schedule *schedule, struct tutti_err *err)
{
    uint64_t in = 0;
    uint64_t out = 0;

    if (tutti_in_place(schedule, 0, &in, &out) && schedule->work_count == 0 &&
        schedule->state_bytes == 0)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "schedule '%s': no place for in and out both (all-reduce, reduce, "
                      "broadcast, all-gather or reduce-scatter, without work or state)",
                      schedule->name);
}

static int prove_flat(const struct tutti_schedule *flat, struct tutti_err *err)
{
    struct aliased_schedule aliased;
    int status;

    alias(flat, &aliased);
    status = tutti_clock_check(&aliased.base, false, err);
    if (status == 0)
        status = tutti_prove_in_place(flat, err);
    return status < 0 ? tutti_wrap(err, status, "in place (in and out are one buffer, state)") : 0;
}

int tutti_schedule_prove_in_place(const struct tutti_schedule *schedule, struct tutti_err *err)
{
    struct tutti_schedule *flat = NULL;
    int status = refuse_others(schedule, err);

    if (status == 0)
        status = tutti_schedule_flatten(schedule, &flat, err);
    if (status == 0)
        status = prove_flat(flat, err);
    tutti_schedule_free(flat);
    return status;
}

/* The check keeps a clock of all lanes for each step. */
static int refuse_large(const struct tutti_schedule *flat, struct tutti_err *err)
{
    enum { CLOCKS_MAX = 1 << 28 };
    uint64_t lanes = (uint64_t)flat->rank_count * flat->lane_count;
    uint64_t steps = 0;

    for (uint32_t rank = 0; rank < flat->rank_count; rank++)
        for (uint32_t lane = 0; lane < flat->lane_count; lane++)
            steps += tutti_schedule_step_count(flat, rank, lane);
    if (steps <= CLOCKS_MAX / lanes)
        return 0;
    return tutti_fail(err, TUTTI_ELACK,
                      "schedule '%s' has %" PRIu64 " steps on %" PRIu64
                      " lanes, too many to prove that it may be played in place",
                      flat->name, steps, lanes);
}

int tutti_schedule_in_place(const struct tutti_schedule *schedule, struct tutti_schedule **ret,
                            struct tutti_err *err)
{
    struct aliased_schedule *aliased = NULL;
    struct tutti_schedule *flat = NULL;
    int status = refuse_others(schedule, err);

    if (status == 0)
        status = tutti_schedule_flatten(schedule, &flat, err);
    if (status == 0)
        status = refuse_large(flat, err);
    if (status == 0)
        status = prove_flat(flat, err);
    if (status == 0) {
        aliased = tutti_arena_take(flat->arena, 1, sizeof(*aliased));
        status = aliased == NULL ? tutti_nomem(err) : 0;
    }
    if (status < 0) {
        tutti_schedule_free(flat);
        return status;
    }
    alias(flat, aliased);
    *ret = &aliased->base;
    return 0;
}

bool tutti_schedule_place(const struct tutti_schedule *schedule, uint32_t rank, uint64_t *ret_in,
                          uint64_t *ret_out)
{
    return tutti_in_place(schedule, rank, ret_in, ret_out);
}
