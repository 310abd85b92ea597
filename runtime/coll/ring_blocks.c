/* Ring reduce-scatter and all-gather: blocks go round, one step a transfer.
 *
 * Price for n ranks and blocks of B bytes: n-1 messages one after another; a rank sends and
 * receives (n-1) B bytes; reduce-scatter reduces as much (Patarasuk & Yuan 2009; steps as in NCCL
 * 2.28 reduce_scatter.h and all_gather.h). Channel c runs on ring c mod order_count. Both ways
 * round: half of each block each way, the same rounds and bytes per rank, half of them a direction.
 *
 * Partial sums of a reduce-scatter belong to blocks that `out` has no room for: they live in a few
 * places in scratch, and one is written again only when the message that carried its last content
 * has been taken. Two would do, with all ranks in step; four let neighbours drift apart a little.
 *
 * Grain: chunk_bytes is the piece of every block done at a time; 0: the whole share. */
#include "runtime/coll/ring_blocks.h"

#include "runtime/coll/emit.h"
#include "runtime/coll/ring_order.h"
#include "runtime/wide.h"

enum { SUMS_KEPT = 4 };

struct blocks {
    struct coll coll;
    struct ring_orders orders;
    uint32_t way_count;      /* 2: every other share goes round the other way */
    uint64_t keep_count;     /* partial sums in scratch */
    uint64_t chunk_elements; /* room for one */
    uint64_t slice_elements; /* room for a slice that lands */
};

/* One rank on the ring of its lane. */
struct seat {
    uint32_t lane;
    uint32_t ring;
    uint32_t position; /* counted in the direction of travel */
    uint32_t next;
    uint32_t prev;
    bool backward;
};

/* The rank at a position of the ring of a seat. */
static uint32_t rank_at(const struct blocks *blocks, const struct seat *seat, uint32_t position)
{
    uint32_t n = blocks->coll.schedule.rank_count;

    return ring_rank(&blocks->orders, seat->ring,
                     seat->backward ? ring_sub(0, position, n) : position);
}

static struct seat seat_of(const struct blocks *blocks, uint32_t rank, uint32_t lane)
{
    uint32_t n = blocks->coll.schedule.rank_count;
    struct seat seat = {
        .lane = lane, .ring = lane / blocks->way_count, .backward = lane % blocks->way_count == 1};
    uint32_t x = ring_position(&blocks->orders, seat.ring, rank);

    seat.position = seat.backward ? ring_sub(0, x, n) : x;
    seat.next = rank_at(blocks, &seat, ring_add(seat.position, 1, n));
    seat.prev = rank_at(blocks, &seat, ring_sub(seat.position, 1, n));
    return seat;
}

/* The block of the rank `back` places before this one on the ring. */
static struct range block_behind(const struct blocks *blocks, const struct seat *seat,
                                 uint64_t back, struct range part)
{
    uint32_t n = blocks->coll.schedule.rank_count;
    uint32_t position = ring_sub(seat->position, (uint32_t)(back % n), n);

    part.first += rank_at(blocks, seat, position) * blocks->coll.schedule.contract.count;
    return part;
}

/* ---- reduce-scatter -------------------------------------------------------------------------- */

/* Where the partial sum of a transfer lies: `number` counts the sums of this lane. */
static struct place sum_place(const struct blocks *blocks, uint32_t lane, uint64_t number,
                              struct range whole, struct range part)
{
    uint64_t lane_elements = blocks->slice_elements + blocks->keep_count * blocks->chunk_elements;

    return at(&blocks->coll, TUTTI_BUF_SCRATCH,
              lane * lane_elements + blocks->slice_elements +
                  number % blocks->keep_count * blocks->chunk_elements + part.first - whole.first);
}

/* Index in the lane of the SEND that carries slice `slice` of partial sum `number`. A piece has S
 * SENDs, n-2 stages of S times RECV, REDUCE, SEND, and S times RECV, REDUCE. */
static uint64_t send_index(const struct blocks *blocks, uint64_t number, uint64_t slice)
{
    uint64_t sums = blocks->coll.schedule.rank_count - UINT64_C(2);
    uint64_t slice_count = blocks->coll.slice_count;

    return number / sums * 3 * slice_count * (sums + 1) + slice_count +
           number % sums * 3 * slice_count + 3 * slice + 2;
}

static void scatter_stage(const struct blocks *blocks, const struct seat *seat, uint64_t piece,
                          uint64_t stage, uint64_t slice, struct tutti_round *out)
{
    const struct coll *coll = &blocks->coll;
    uint32_t n = coll->schedule.rank_count;
    struct range whole = coll_piece(coll, seat->lane, piece);
    struct range part = part_of(whole, slice, coll->slice_count);
    uint64_t bytes = part.count * coll->element_bytes;
    uint64_t number = piece * (n - UINT64_C(2)) + stage - 1; /* of the sum made in this stage */
    struct place source = at(coll, TUTTI_BUF_IN, block_behind(blocks, seat, 1, part).first);

    if (stage > 0) {
        struct place in = at(coll, TUTTI_BUF_IN, block_behind(blocks, seat, stage + 1, part).first);
        struct place staging =
            at(coll, TUTTI_BUF_SCRATCH,
               seat->lane * (blocks->slice_elements + blocks->keep_count * blocks->chunk_elements));
        bool last = stage == n - 1;
        struct tutti_step *step;

        source = last ? at(coll, TUTTI_BUF_OUT, part.first)
                      : sum_place(blocks, seat->lane, number, whole, part);
        step = emit_recv_reduce(out, seat->prev, staging, source, in, bytes);
        if (last)
            emit_last(step);
        else if (number >= blocks->keep_count)
            emit_dep(step, seat->lane, send_index(blocks, number - blocks->keep_count, slice));
    }
    if (stage < n - 1)
        emit_send(out, seat->next, source, bytes);
}

/* ---- all-gather ------------------------------------------------------------------------------ */

static void gather_stage(const struct blocks *blocks, const struct seat *seat, uint64_t piece,
                         uint64_t stage, uint64_t slice, struct tutti_round *out)
{
    const struct coll *coll = &blocks->coll;
    struct range whole = coll_piece(coll, seat->lane, piece);
    struct range part = part_of(whole, slice, coll->slice_count);
    uint64_t bytes = part.count * coll->element_bytes;
    struct place block = at(coll, TUTTI_BUF_OUT, block_behind(blocks, seat, stage, part).first);

    if (stage > 0)
        emit_recv(out, seat->prev, block, bytes);
    if (stage < coll->schedule.rank_count - 1)
        emit_send(out, seat->next, stage == 0 ? at(coll, TUTTI_BUF_IN, part.first) : block, bytes);
    if (stage == 0 && slice + 1 == coll->slice_count)
        emit_copy(out, at(coll, TUTTI_BUF_OUT, block_behind(blocks, seat, 0, whole).first),
                  at(coll, TUTTI_BUF_IN, whole.first), whole.count * coll->element_bytes);
}

/* ---- both ------------------------------------------------------------------------------------ */

static uint64_t piece_rounds(const struct coll *coll)
{
    return (uint64_t)coll->schedule.rank_count * coll->slice_count;
}

static uint64_t blocks_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                   uint32_t lane)
{
    const struct coll *coll = (const struct coll *)schedule;

    (void)rank;
    (void)lane;
    return coll->piece_count * piece_rounds(coll);
}

static void blocks_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                        uint64_t round, struct tutti_round *out)
{
    const struct blocks *blocks = (const struct blocks *)schedule;
    uint64_t rounds = piece_rounds(&blocks->coll);
    uint64_t rest = round % rounds;
    struct seat seat = seat_of(blocks, rank, lane);
    bool scatter = schedule->contract.collective == TUTTI_REDUCESCATTER;

    (scatter ? scatter_stage : gather_stage)(blocks, &seat, round / rounds,
                                             rest / blocks->coll.slice_count,
                                             rest % blocks->coll.slice_count, out);
}

/* Blocks are equal, and all ranks cut them alike. */
static uint32_t blocks_partners(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                                struct tutti_partners *out, uint32_t capacity)
{
    struct seat seat = seat_of((const struct blocks *)schedule, rank, lane);

    if (capacity > 0)
        out[0] = (struct tutti_partners){.to = seat.next, .from = seat.prev};
    return 1;
}

static const struct tutti_schedule_ops blocks_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = blocks_round_count,
    .emit = blocks_emit,
    .partners = blocks_partners,
};

/* Sizes the scratch of a reduce-scatter. */
static int plan_sums(struct blocks *blocks, struct tutti_err *err)
{
    struct coll *coll = &blocks->coll;
    uint64_t sums = coll->piece_count * (coll->schedule.rank_count - UINT64_C(2));
    uint64_t steps = tutti_times(UINT64_C(3) * coll->slice_count, coll->schedule.rank_count);

    if (tutti_times(coll->piece_count, steps) > UINT32_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%llu' pieces are too many for %u ranks (larger chunks, fewer slices)",
                          (unsigned long long)coll->piece_count, coll->schedule.rank_count);
    blocks->keep_count = sums < SUMS_KEPT ? sums : SUMS_KEPT;
    blocks->chunk_elements = coll_piece_max(coll);
    blocks->slice_elements = div_up(blocks->chunk_elements, coll->slice_count);
    return 0;
}

int tutti_ring_scatter_gather(const struct tutti_coll_params *params,
                              const struct tutti_shape *shape, uint32_t way_count,
                              struct tutti_schedule **ret, struct tutti_err *err)
{
    struct coll_layout layout = {.name = way_count == 1 ? "ring" : "ring-bidirectional",
                                 .ops = &blocks_ops,
                                 .struct_bytes = sizeof(struct blocks),
                                 .shares_per_channel = way_count};
    struct coll *coll = NULL;
    struct blocks *blocks;
    int status = tutti_coll_new(&layout, params, shape, &coll, err);

    if (status < 0)
        return status;
    assert(shape->rank_count >= 2);
    blocks = (struct blocks *)coll;
    blocks->way_count = way_count;
    if (params->collective == TUTTI_REDUCESCATTER)
        status = plan_sums(blocks, err);
    if (status == 0)
        status = tutti_ring_orders_init(&blocks->orders, shape, coll->schedule.arena, err);
    if (status < 0) {
        tutti_schedule_free(&coll->schedule);
        return status;
    }
    return tutti_coll_finish(coll,
                             blocks->slice_elements + blocks->keep_count * blocks->chunk_elements,
                             0, piece_rounds(coll), ret, err);
}
