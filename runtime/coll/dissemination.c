/* Bruck's all-gather and the dissemination barrier: in exchange k a rank hands what it knows to the
 * rank 2^k before (the barrier: after) it, for any number of ranks.
 *
 * Price for n ranks, L = ceil(log2 n), blocks of B bytes: L messages one after another; all-gather:
 * a rank sends and receives (n-1) B bytes in all (Bruck, Ho, Kipnis, Upfal & Weathersby 1997), and
 * copies (n+1) B: its own block in, and all out again at the end, because it collects blocks in the
 * order own, next, ... and has to turn them round. Barrier: L empty messages a rank (Hensgen,
 * Finkel & Manber 1988).
 *
 * Grain: chunk_bytes has no effect; a share is one piece. */
#include "runtime/coll/dissemination.h"

#include "runtime/coll/emit.h"

struct bruck {
    struct coll coll;
    uint32_t log;
    uint64_t share_elements; /* the longest share of a block */
};

/* One copy in, log exchanges of S SENDs and S RECVs, then the turn: where a lane has whole blocks
 * two copies do it, else one a block. */
static uint64_t turn_rounds(const struct bruck *bruck)
{
    return bruck->coll.share_count == 1 ? 2 : bruck->coll.schedule.rank_count;
}

static uint64_t bruck_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                  uint32_t lane)
{
    const struct bruck *bruck = (const struct bruck *)schedule;

    (void)rank;
    (void)lane;
    return 1 + 2 * (uint64_t)bruck->log * bruck->coll.slice_count + turn_rounds(bruck);
}

static void emit_exchange(const struct bruck *bruck, uint32_t rank, uint64_t round,
                          struct range part, uint64_t base, struct tutti_round *out)
{
    const struct coll *coll = &bruck->coll;
    uint32_t n = coll->schedule.rank_count;
    uint64_t slice_count = coll->slice_count;
    uint32_t known = UINT32_C(1) << round / (2 * slice_count);
    uint32_t news = known < n - known ? known : n - known;
    struct range message = {.first = base, .count = news * part.count};
    bool receive = round / slice_count % 2 == 1;

    if (receive)
        message.first += known * part.count;
    message = part_of(message, round % slice_count, slice_count);
    if (receive)
        emit_recv(out, ring_add(rank, known, n), at(coll, TUTTI_BUF_SCRATCH, message.first),
                  message.count * coll->element_bytes);
    else
        emit_send(out, ring_sub(rank, known, n), at(coll, TUTTI_BUF_SCRATCH, message.first),
                  message.count * coll->element_bytes);
}

/* Scratch holds the blocks of ranks r, r+1, ...; out wants 0, 1, .... */
static void emit_turn(const struct bruck *bruck, uint32_t rank, uint32_t index, struct range part,
                      uint64_t base, struct tutti_round *out)
{
    const struct coll *coll = &bruck->coll;
    uint32_t n = coll->schedule.rank_count;
    uint64_t count = 1;
    uint32_t block = index; /* in scratch */

    if (coll->share_count == 1) {
        block = index == 0 ? 0 : n - rank;
        count = index == 0 ? n - rank : rank;
    }
    emit_copy(out,
              at(coll, TUTTI_BUF_OUT,
                 ring_add(rank, block % n, n) * coll->schedule.contract.count + part.first),
              at(coll, TUTTI_BUF_SCRATCH, base + block * part.count),
              count * part.count * coll->element_bytes);
}

static void bruck_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                       uint64_t round, struct tutti_round *out)
{
    const struct bruck *bruck = (const struct bruck *)schedule;
    const struct coll *coll = &bruck->coll;
    struct range part = coll_piece(coll, lane, 0);
    uint64_t exchanges = 2 * (uint64_t)bruck->log * coll->slice_count;
    uint64_t base = (uint64_t)lane * schedule->rank_count * bruck->share_elements;

    if (round == 0)
        emit_copy(out, at(coll, TUTTI_BUF_SCRATCH, base), at(coll, TUTTI_BUF_IN, part.first),
                  part.count * coll->element_bytes);
    else if (round <= exchanges)
        emit_exchange(bruck, rank, round - 1, part, base, out);
    else
        emit_turn(bruck, rank, (uint32_t)(round - 1 - exchanges), part, base, out);
}

static const struct tutti_schedule_ops bruck_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = bruck_round_count,
    .emit = bruck_emit,
};

static uint64_t barrier_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                    uint32_t lane)
{
    (void)rank;
    (void)lane;
    return log2_up(schedule->rank_count);
}

static void barrier_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                         uint64_t round, struct tutti_round *out)
{
    const struct coll *coll = (const struct coll *)schedule;
    uint32_t distance = UINT32_C(1) << round;

    (void)lane;
    emit_send(out, ring_add(rank, distance, schedule->rank_count), at(coll, TUTTI_BUF_IN, 0), 0);
    emit_recv(out, ring_sub(rank, distance, schedule->rank_count), at(coll, TUTTI_BUF_OUT, 0), 0);
}

static const struct tutti_schedule_ops barrier_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = barrier_round_count,
    .emit = barrier_emit,
};

int tutti_dissemination_allgather(const struct tutti_coll_params *params,
                                  const struct tutti_shape *shape, struct tutti_schedule **ret,
                                  struct tutti_err *err)
{
    struct coll_layout layout = {.name = "recursive-doubling",
                                 .ops = &bruck_ops,
                                 .struct_bytes = sizeof(struct bruck),
                                 .whole = true};
    struct coll *coll = NULL;
    struct bruck *bruck;
    int status = tutti_coll_new(&layout, params, shape, &coll, err);

    if (status < 0)
        return status;
    assert(shape->rank_count >= 2);
    bruck = (struct bruck *)coll;
    bruck->log = log2_up(shape->rank_count);
    bruck->share_elements = coll_piece_max(coll);
    return tutti_coll_finish(coll, shape->rank_count * bruck->share_elements, 0, 1, ret, err);
}

int tutti_dissemination_barrier(const struct tutti_coll_params *params,
                                const struct tutti_shape *shape, struct tutti_schedule **ret,
                                struct tutti_err *err)
{
    struct coll_layout layout = {.name = "recursive-doubling",
                                 .ops = &barrier_ops,
                                 .struct_bytes = sizeof(struct coll),
                                 .whole = true};
    struct coll *coll = NULL;
    int status = tutti_coll_new(&layout, params, shape, &coll, err);

    if (status < 0)
        return status;
    assert(shape->rank_count >= 2);
    return tutti_coll_finish(coll, 0, 0, 1, ret, err);
}
