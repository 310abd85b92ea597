/* Ring all-to-all, by forwarding: what is not yet at home goes on to the neighbour; and the ring
 * barrier.
 *
 * Price for n ranks and blocks of B bytes: n-1 messages one after another, of n-1, n-2, ..., 1
 * blocks; a rank sends and receives n(n-1)/2 * B bytes and copies (2n-1) B. Only for machines with
 * no wires but the ring. The blocks of a message are first laid side by side in scratch, in the
 * order in which they will get off; two places take turns, one filling while the other is sent.
 *
 * Barrier: n-1 empty messages a rank, one after another: after k of them a rank has heard of its k
 * predecessors.
 *
 * Grain: chunk_bytes has no effect; a share is one piece. */
#include "runtime/coll/emit.h"
#include "runtime/coll/ring_blocks.h"
#include "runtime/coll/ring_order.h"

struct forward {
    struct coll coll;
    struct ring_orders orders;
    uint64_t share_elements; /* the longest share of a block */
};

/* n rounds copy the blocks of `in`, then stage t = 1 .. n-1 has S SENDs, S RECVs and a COPY. */
static uint64_t stage_rounds(const struct coll *coll)
{
    return 2 * (uint64_t)coll->slice_count + 1;
}

static uint64_t forward_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                    uint32_t lane)
{
    const struct coll *coll = (const struct coll *)schedule;

    (void)rank;
    (void)lane;
    return schedule->rank_count + (schedule->rank_count - UINT64_C(1)) * stage_rounds(coll);
}

/* Element of scratch where block `index` of one of the two places begins. */
static uint64_t parked(const struct forward *forward, uint32_t lane, uint64_t turn, uint64_t index,
                       uint64_t block_elements)
{
    uint64_t place = (uint64_t)(forward->coll.schedule.rank_count - 1) * forward->share_elements;

    return (2 * (uint64_t)lane + turn) * place + index * block_elements;
}

/* The block for the rank `ahead` places on, into its place in the first message; my own, home. */
static void emit_park(const struct forward *forward, uint32_t rank, uint32_t lane, uint32_t ahead,
                      struct range part, struct tutti_round *out)
{
    const struct coll *coll = &forward->coll;
    uint32_t n = coll->schedule.rank_count;
    uint32_t x = ring_position(&forward->orders, lane, rank);
    uint32_t to = ring_rank(&forward->orders, lane, ring_add(x, ahead, n));
    struct place from = at(coll, TUTTI_BUF_IN, to * coll->schedule.contract.count + part.first);
    struct place dst = at(coll, TUTTI_BUF_OUT, to * coll->schedule.contract.count + part.first);

    if (ahead > 0)
        dst = at(coll, TUTTI_BUF_SCRATCH, parked(forward, lane, 0, ahead - 1, part.count));
    emit_copy(out, dst, from, part.count * coll->element_bytes);
}

/* Stage t sends n-t blocks from one place (but those received in stage t-1 begin with one that has
 * arrived) and receives as many into the other. */
static void emit_stage(const struct forward *forward, uint32_t rank, uint32_t lane, uint64_t stage,
                       uint64_t index, struct range part, struct tutti_round *out)
{
    const struct coll *coll = &forward->coll;
    uint32_t n = coll->schedule.rank_count;
    uint64_t slice_count = coll->slice_count;
    uint32_t x = ring_position(&forward->orders, lane, rank);
    uint64_t here = parked(forward, lane, stage % 2, 0, part.count);
    uint64_t there = parked(forward, lane, (stage + 1) % 2, stage == 1 ? 0 : 1, part.count);
    struct range message = {.first = 0, .count = (n - stage) * part.count};

    message = part_of(message, index % slice_count, slice_count);
    if (index < slice_count) {
        emit_send(out, ring_rank(&forward->orders, lane, ring_add(x, 1, n)),
                  at(coll, TUTTI_BUF_SCRATCH, there + message.first),
                  message.count * coll->element_bytes);
    } else if (index < 2 * slice_count) {
        struct tutti_step *step = emit_recv(
            out, ring_rank(&forward->orders, lane, ring_sub(x, 1, n)),
            at(coll, TUTTI_BUF_SCRATCH, here + message.first), message.count * coll->element_bytes);

        if (stage > 1 && index == slice_count) /* the last SEND of stage - 1 read these bytes */
            emit_dep(step, lane, n + (stage - 2) * stage_rounds(coll) + slice_count - 1);
    } else {
        uint32_t from = ring_rank(&forward->orders, lane, ring_sub(x, (uint32_t)stage, n));

        emit_copy(out, at(coll, TUTTI_BUF_OUT, from * coll->schedule.contract.count + part.first),
                  at(coll, TUTTI_BUF_SCRATCH, here), part.count * coll->element_bytes);
    }
}

static void forward_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                         uint64_t round, struct tutti_round *out)
{
    const struct forward *forward = (const struct forward *)schedule;
    uint64_t rounds = stage_rounds(&forward->coll);
    uint32_t n = schedule->rank_count;
    struct range part = coll_piece(&forward->coll, lane, 0);

    if (round < n)
        emit_park(forward, rank, lane, (uint32_t)round, part, out);
    else
        emit_stage(forward, rank, lane, (round - n) / rounds + 1, (round - n) % rounds, part, out);
}

static const struct tutti_schedule_ops forward_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = forward_round_count,
    .emit = forward_emit,
};

static uint64_t barrier_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                    uint32_t lane)
{
    (void)rank;
    (void)lane;
    return schedule->rank_count - 1;
}

static void barrier_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                         uint64_t round, struct tutti_round *out)
{
    const struct forward *forward = (const struct forward *)schedule;
    uint32_t n = schedule->rank_count;
    uint32_t x = ring_position(&forward->orders, lane, rank);

    (void)round;
    emit_send(out, ring_rank(&forward->orders, lane, ring_add(x, 1, n)),
              at(&forward->coll, TUTTI_BUF_IN, 0), 0);
    emit_recv(out, ring_rank(&forward->orders, lane, ring_sub(x, 1, n)),
              at(&forward->coll, TUTTI_BUF_OUT, 0), 0);
}

static const struct tutti_schedule_ops barrier_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = barrier_round_count,
    .emit = barrier_emit,
};

static int make(const struct tutti_schedule_ops *ops, const struct tutti_coll_params *params,
                const struct tutti_shape *shape, struct tutti_schedule **ret, struct tutti_err *err)
{
    struct coll_layout layout = {
        .name = "ring", .ops = ops, .struct_bytes = sizeof(struct forward), .whole = true};
    uint64_t n = shape->rank_count;
    struct coll *coll = NULL;
    struct forward *forward;
    int status = tutti_coll_new(&layout, params, shape, &coll, err);

    if (status < 0)
        return status;
    assert(n >= 2);
    forward = (struct forward *)coll;
    forward->share_elements = coll_piece_max(coll);
    status = tutti_ring_orders_init(&forward->orders, shape, coll->schedule.arena, err);
    if (status == 0 && n + (n - 1) * stage_rounds(coll) > UINT32_MAX)
        status = tutti_fail(err, TUTTI_EINVAL, "'%llu' ranks are too many for %u slices",
                            (unsigned long long)n, coll->slice_count);
    if (status < 0) {
        tutti_schedule_free(&coll->schedule);
        return status;
    }
    return tutti_coll_finish(coll, 2 * (n - 1) * forward->share_elements, 0, 1, ret, err);
}

int tutti_ring_alltoall(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                        struct tutti_schedule **ret, struct tutti_err *err)
{
    return make(&forward_ops, params, shape, ret, err);
}

int tutti_ring_barrier(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                       struct tutti_schedule **ret, struct tutti_err *err)
{
    return make(&barrier_ops, params, shape, ret, err);
}
