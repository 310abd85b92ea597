/* NCCL's rings: all-reduce, reduce-scatter and all-gather around, broadcast and reduce along them.
 *
 * Price for n ranks and M bytes: all-reduce in p pieces of n chunks takes 2(n-1) messages one after
 * another and 2(n-1) p slices a rank and slice of a chunk, 2(n-1)/n M bytes a rank and reduces
 * (n-1)/n M; the others as in ring_blocks.c and, for chains of q slices, n - 2 + q messages. The
 * steps are those of NCCL 2.28 all_reduce.h, reduce_scatter.h, all_gather.h, broadcast.h, reduce.h:
 * pieces follow one another without a break, bounded by the slots of a connection alone.
 *
 * Chunks of a piece that is short by less than a piece of whole chunks are made to fit: n of equal
 * length but for the last, which may be shorter or empty, and is sent all the same. So is a slice
 * without data.
 *
 * Partial sums of all-reduce grow in `out`; those of the others have places in scratch, one more
 * than slices can be under way: then the slots alone make a rank wait, as in NCCL, where sums pass
 * through registers. */
#include "runtime/arena.h"
#include "runtime/coll/nccl_chains.h"
#include "runtime/coll/nccl_cut.h"
#include "runtime/coll/nccl_generators.h"

enum {
    LONG_RING = 32,       /* ranks from which on pieces are too long to be compared as a whole */
    ORDERS_MAX = 1 << 24, /* ranks on rings written down */
};

struct ring {
    struct coll coll;
    struct nccl_chains chains;
    struct nccl_cut cut;
    uint64_t piece_elements; /* of a whole piece; of blocks: of each block */
    uint64_t stage_count;    /* rounds of a piece, by slice */
    uint64_t repeat_count;   /* of all pieces */
    uint64_t slice_elements; /* room for a slice that lands */
    uint64_t chunk_elements; /* room for a sum */
    uint64_t keep_count;     /* sums in scratch */
    uint32_t *orders;        /* [chain][rank]: the rings, where that is asked for; or NULL */
};

/* One rank on the ring of its lane. */
struct seat {
    uint32_t lane;
    uint32_t position; /* counted from rank 0, or from the root */
    uint32_t next;
    uint32_t prev;
};

/* What a round is about. */
struct task {
    struct range share;
    uint64_t piece;
    uint64_t stage; /* stage j receives what came with transfer j - 1, and sends transfer j */
    uint32_t slice;
};

static struct seat seat_of(const struct ring *ring, uint32_t rank, uint32_t lane)
{
    uint32_t n = ring->coll.schedule.rank_count;
    uint32_t x = nccl_ring_position(&ring->chains, lane, rank);
    uint32_t zero = nccl_ring_position(&ring->chains, lane, ring->coll.schedule.contract.root);

    return (struct seat){.lane = lane,
                         .position = ring_sub(x, zero, n),
                         .next = nccl_ring_rank(&ring->chains, lane, x + 1 < n ? x + 1 : 0),
                         .prev = nccl_ring_rank(&ring->chains, lane, x > 0 ? x - 1 : n - 1)};
}

static struct place staging_of(const struct ring *ring, uint32_t lane)
{
    return at(&ring->coll, TUTTI_BUF_SCRATCH,
              lane * (ring->slice_elements + ring->keep_count * ring->chunk_elements));
}

/* Where sum number `number` of a lane is kept, from element `offset` of it on. */
static struct place sum_place(const struct ring *ring, uint32_t lane, uint64_t number,
                              uint64_t offset)
{
    struct place place = staging_of(ring, lane);
    uint64_t element = ring->slice_elements + number % ring->keep_count * ring->chunk_elements;

    place.offset += (element + offset) * ring->coll.element_bytes;
    return place;
}

/* ---- all-reduce ------------------------------------------------------------------------------ */

static void emit_allreduce(const struct ring *ring, const struct seat *seat,
                           const struct task *task, struct tutti_round *out)
{
    const struct coll *coll = &ring->coll;
    uint32_t n = coll->schedule.rank_count;
    struct range piece = nccl_piece(task->share, task->piece, ring->piece_elements);
    uint64_t size = nccl_chunk_of(&ring->cut, piece.count, n);
    uint32_t back = (uint32_t)((task->stage + 1) % n);
    uint32_t chunk = ring_sub(seat->position, back, n);
    struct range part = nccl_slice(&ring->cut, nccl_within(piece, chunk * size, size), task->slice);
    struct place in = at(coll, TUTTI_BUF_IN, part.first);
    struct place dst = at(coll, TUTTI_BUF_OUT, part.first);
    uint64_t bytes = part.count * coll->element_bytes;

    if (task->stage >= n) {
        emit_recv(out, seat->prev, dst, bytes);
    } else if (task->stage > 0) {
        struct tutti_step *step =
            emit_recv_reduce(out, seat->prev, staging_of(ring, seat->lane), dst, in, bytes);

        if (task->stage + 1 == n)
            emit_last(step);
    }
    if (task->stage + 1 < ring->stage_count)
        emit_send(out, seat->next, task->stage == 0 ? in : dst, bytes);
}

/* ---- reduce-scatter and all-gather ----------------------------------------------------------- */

/* The part of the block of the rank `back` places before this one. */
static struct range block_behind(const struct ring *ring, const struct seat *seat, uint64_t back,
                                 struct range part)
{
    const struct tutti_schedule *schedule = &ring->coll.schedule;
    uint32_t n = schedule->rank_count;
    uint32_t zero = nccl_ring_position(&ring->chains, seat->lane, 0);
    uint32_t position = ring_sub(ring_add(seat->position, zero, n), (uint32_t)(back % n), n);

    part.first += nccl_ring_rank(&ring->chains, seat->lane, position) * schedule->contract.count;
    return part;
}

static void emit_scatter(const struct ring *ring, const struct seat *seat, const struct task *task,
                         struct tutti_round *out)
{
    const struct coll *coll = &ring->coll;
    uint32_t n = coll->schedule.rank_count;
    struct range piece = nccl_piece(task->share, task->piece, ring->piece_elements);
    struct range part = nccl_slice(&ring->cut, piece, task->slice);
    uint64_t bytes = part.count * coll->element_bytes;
    struct place in = at(coll, TUTTI_BUF_IN, block_behind(ring, seat, task->stage + 1, part).first);
    struct place sum = in;

    if (task->stage + 1 == n)
        sum = at(coll, TUTTI_BUF_OUT, part.first);
    else if (task->stage > 0)
        sum = sum_place(ring, seat->lane, task->piece * (n - UINT64_C(2)) + task->stage - 1,
                        part.first - piece.first);
    if (task->stage > 0) {
        struct tutti_step *step =
            emit_recv_reduce(out, seat->prev, staging_of(ring, seat->lane), sum, in, bytes);

        if (task->stage + 1 == n)
            emit_last(step);
    }
    if (task->stage + 1 < n)
        emit_send(out, seat->next, sum, bytes);
}

static void emit_gather(const struct ring *ring, const struct seat *seat, const struct task *task,
                        struct tutti_round *out)
{
    const struct coll *coll = &ring->coll;
    struct range piece = nccl_piece(task->share, task->piece, ring->piece_elements);
    struct range part = nccl_slice(&ring->cut, piece, task->slice);
    struct place in = at(coll, TUTTI_BUF_IN, part.first);
    struct place block = at(coll, TUTTI_BUF_OUT, block_behind(ring, seat, task->stage, part).first);
    uint64_t bytes = part.count * coll->element_bytes;

    if (task->stage > 0)
        emit_recv(out, seat->prev, block, bytes);
    if (task->stage + 1 < coll->schedule.rank_count)
        emit_send(out, seat->next, task->stage == 0 ? in : block, bytes);
    if (task->stage == 0)
        emit_copy(out, block, in, bytes);
}

/* ---- broadcast and reduce -------------------------------------------------------------------- */

static void emit_broadcast(const struct ring *ring, const struct seat *seat,
                           const struct task *task, struct tutti_round *out)
{
    const struct coll *coll = &ring->coll;
    struct range piece = nccl_piece(task->share, task->piece, ring->piece_elements);
    struct range part = nccl_slice(&ring->cut, piece, task->slice);
    struct place in = at(coll, TUTTI_BUF_IN, part.first);
    struct place dst = at(coll, TUTTI_BUF_OUT, part.first);
    uint64_t bytes = part.count * coll->element_bytes;
    bool root = seat->position == 0;

    if (!root)
        emit_recv(out, seat->prev, dst, bytes);
    if (seat->position + 1 < coll->schedule.rank_count)
        emit_send(out, seat->next, root ? in : dst, bytes);
    if (root)
        emit_copy(out, dst, in, bytes);
}

/* The rank after the root begins, and the root is the last. */
static void emit_reduction(const struct ring *ring, const struct seat *seat,
                           const struct task *task, struct tutti_round *out)
{
    const struct coll *coll = &ring->coll;
    struct range piece = nccl_piece(task->share, task->piece, ring->piece_elements);
    struct range part = nccl_slice(&ring->cut, piece, task->slice);
    struct place in = at(coll, TUTTI_BUF_IN, part.first);
    struct place sum = in;
    uint64_t bytes = part.count * coll->element_bytes;
    bool root = seat->position == 0;

    if (root)
        sum = at(coll, TUTTI_BUF_OUT, part.first);
    else if (seat->position > 1)
        sum = sum_place(ring, seat->lane, task->piece, part.first - piece.first);
    if (seat->position != 1) {
        struct tutti_step *step =
            emit_recv_reduce(out, seat->prev, staging_of(ring, seat->lane), sum, in, bytes);

        if (root)
            emit_last(step);
    }
    if (!root)
        emit_send(out, seat->next, sum, bytes);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static uint64_t piece_rounds(const struct ring *ring)
{
    return ring->stage_count * ring->coll.slice_count;
}

/* Rounds of one time. */
static uint64_t once_rounds(const struct ring *ring, uint32_t lane)
{
    return div_up(nccl_share(&ring->cut, lane).count, ring->piece_elements) * piece_rounds(ring);
}

static uint64_t ring_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                 uint32_t lane)
{
    const struct ring *ring = (const struct ring *)schedule;

    (void)rank;
    return ring->repeat_count * once_rounds(ring, lane);
}

static void ring_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                      uint64_t round, struct tutti_round *out)
{
    const struct ring *ring = (const struct ring *)schedule;
    struct seat seat = seat_of(ring, rank, lane);
    uint64_t once = ring->repeat_count > 1 ? round % once_rounds(ring, lane) : round;
    uint64_t rest = once % piece_rounds(ring);
    struct task task = {.share = nccl_share(&ring->cut, lane),
                        .piece = once / piece_rounds(ring),
                        .stage = rest / ring->coll.slice_count,
                        .slice = (uint32_t)(rest % ring->coll.slice_count)};

    switch (schedule->contract.collective) {
    case TUTTI_REDUCESCATTER:
        emit_scatter(ring, &seat, &task, out);
        break;
    case TUTTI_ALLGATHER:
        emit_gather(ring, &seat, &task, out);
        break;
    case TUTTI_BROADCAST:
        emit_broadcast(ring, &seat, &task, out);
        break;
    case TUTTI_REDUCE_TO_ROOT:
        emit_reduction(ring, &seat, &task, out);
        break;
    default:
        emit_allreduce(ring, &seat, &task, out);
        break;
    }
}

/* Whether all chunks of a piece are of one length: those of blocks are. */
static bool is_even(const struct ring *ring, struct range share, uint64_t piece)
{
    uint32_t n = ring->coll.schedule.rank_count;
    uint64_t count = nccl_piece(share, piece, ring->piece_elements).count;

    return ring->coll.schedule.contract.collective != TUTTI_ALLREDUCE ||
           nccl_chunk_of(&ring->cut, count, n) * n == count;
}

/* Ranks do the same where chunks are of one length all the way; on chains each has its own part. */
static uint32_t ring_partners(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                              struct tutti_partners *out, uint32_t capacity)
{
    const struct ring *ring = (const struct ring *)schedule;
    struct seat seat = seat_of(ring, rank, lane);
    struct range share = nccl_share(&ring->cut, lane);

    if (ring->stage_count == 1 ||
        (share.count > 0 && !is_even(ring, share, (share.count - 1) / ring->piece_elements)))
        return 0;
    if (capacity > 0)
        out[0] = (struct tutti_partners){.to = seat.next, .from = seat.prev};
    return 1;
}

/* Whole pieces repeat; of long rings the stages of a piece that pass a chunk on: of all-reduce
 * those that reduce it, then those that only store it. */
static uint64_t ring_steady(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                            uint64_t round, uint64_t *ret_period)
{
    const struct ring *ring = (const struct ring *)schedule;
    uint32_t n = schedule->rank_count;
    struct range share = nccl_share(&ring->cut, lane);
    uint64_t rounds = piece_rounds(ring);
    uint64_t whole = share.count / ring->piece_elements;
    uint64_t piece;
    uint64_t stage;
    uint64_t end = n;

    (void)rank;
    if (ring->repeat_count > 1)
        round %= once_rounds(ring, lane);
    piece = round / rounds;
    stage = round % rounds / ring->coll.slice_count;
    if (piece + 2 < whole && (n <= LONG_RING || ring->stage_count == 1)) {
        *ret_period = rounds;
        return whole * rounds - round;
    }
    if (schedule->contract.collective != TUTTI_ALLREDUCE || stage >= n)
        end = ring->stage_count - 1;
    if (stage == 0 || stage >= end || !is_even(ring, share, piece))
        return 0;
    *ret_period = ring->coll.slice_count;
    return end * ring->coll.slice_count - round % rounds;
}

/* An all-reduce in one piece whose chunks are not cut is one phase. */
static bool is_one_phase(const struct ring *ring)
{
    return ring->coll.schedule.contract.collective == TUTTI_ALLREDUCE &&
           ring->coll.slice_count == 1 && ring->coll.piece_count == 1;
}

static bool ring_chunk(const struct tutti_schedule *schedule, uint32_t lane, uint32_t rank,
                       struct tutti_ring_phase *ret)
{
    const struct ring *ring = (const struct ring *)schedule;
    const struct nccl_chains *chains = &ring->chains;
    uint32_t n = schedule->rank_count;
    struct range share = nccl_share(&ring->cut, lane);
    struct seat seat = seat_of(ring, rank, lane);
    uint64_t size;

    if (!is_one_phase(ring) || share.count == 0 ||
        (chains->is.members != NULL && ring->orders == NULL))
        return false;
    size = nccl_chunk_of(&ring->cut, share.count, n);
    *ret = (struct tutti_ring_phase){
        .size = n,
        .stride = 1,
        .order =
            ring->orders == NULL ? NULL : ring->orders + (uint64_t)(lane % chains->is.count) * n,
        .transfer_count = ring->stage_count - 1,
        .reduce_count = n - UINT64_C(1),
        .bytes = nccl_within(share, ring_sub(seat.position, 1, n) * size, size).count *
                 ring->coll.element_bytes,
        .after_lane = TUTTI_LANE_NONE,
    };
    return true;
}

static const struct tutti_schedule_ops ring_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = ring_round_count,
    .emit = ring_emit,
    .partners = ring_partners,
    .ring_chunk = ring_chunk,
    .steady = ring_steady,
};

/* Writes the rings down where not all ranks do the same and whoever keeps time wants to know. */
static int write_orders(struct ring *ring, struct tutti_err *err)
{
    struct nccl_chains *chains = &ring->chains;
    uint32_t n = ring->coll.schedule.rank_count;

    if (chains->is.members == NULL || !is_one_phase(ring) ||
        (uint64_t)chains->is.count * n > ORDERS_MAX)
        return 0;
    ring->orders =
        tutti_arena_take(ring->coll.schedule.arena, (size_t)chains->is.count * n, sizeof(uint32_t));
    if (ring->orders == NULL)
        return tutti_nomem(err);
    for (uint32_t c = 0; c < chains->is.count; c++) {
        for (uint32_t i = 0; i < n; i++)
            ring->orders[(size_t)c * n + i] = nccl_ring_rank(chains, c, i);
    }
    return 0;
}

static bool serves(enum tutti_collective collective)
{
    return collective == TUTTI_ALLREDUCE || collective == TUTTI_REDUCESCATTER ||
           collective == TUTTI_ALLGATHER || collective == TUTTI_BROADCAST ||
           collective == TUTTI_REDUCE_TO_ROOT;
}

/* Lays out pieces and scratch. */
static void plan(struct ring *ring, enum tutti_collective collective)
{
    uint32_t n = ring->coll.schedule.rank_count;
    uint64_t most = nccl_share_max(&ring->cut);
    bool keeps = collective == TUTTI_REDUCESCATTER || collective == TUTTI_REDUCE_TO_ROOT;
    struct range chunk = {.count = most < ring->cut.chunk ? most : ring->cut.chunk};

    ring->piece_elements = ring->cut.chunk;
    ring->stage_count = keeps || collective == TUTTI_ALLGATHER ? n : 1;
    if (collective == TUTTI_REDUCE_TO_ROOT)
        ring->stage_count = 1;
    if (collective == TUTTI_ALLREDUCE) {
        ring->piece_elements *= n;
        ring->stage_count = 2 * (uint64_t)n - 1;
        chunk.count = nccl_chunk_of(&ring->cut, most, n);
    }
    ring->chunk_elements = chunk.count;
    ring->slice_elements = nccl_slice(&ring->cut, chunk, 0).count;
    ring->keep_count = keeps ? ring->coll.schedule.slot_count / ring->cut.slice_count + 1 : 0;
}

int tutti_nccl_ring(const struct tutti_nccl_params *params, const struct tutti_chains *chains,
                    const struct tutti_shape *shape, struct tutti_schedule **ret,
                    struct tutti_err *err)
{
    struct coll_layout layout = {
        .name = "nccl:ring", .ops = &ring_ops, .struct_bytes = sizeof(struct ring), .whole = true};
    enum tutti_collective collective = params->coll.collective;
    struct coll *coll = NULL;
    struct ring *ring;
    int status;

    if (!serves(collective))
        return tutti_fail(err, TUTTI_EINVAL,
                          "NCCL's rings do not serve '%s' (allreduce, reducescatter, allgather, "
                          "broadcast, reduce)",
                          tutti_collective_name(collective));
    status = tutti_coll_new(&layout, &params->coll, shape, &coll, err);
    if (status < 0)
        return status;
    ring = (struct ring *)coll;
    ring->repeat_count = params->repeat_count > 0 ? params->repeat_count : 1;
    assert(ring->repeat_count == 1 || collective == TUTTI_BROADCAST ||
           collective == TUTTI_REDUCE_TO_ROOT);
    status = tutti_nccl_cut_init(&ring->cut, params, err);
    ring->cut.chunk = ring->cut.mid_chunk;
    if (status == 0)
        status = tutti_nccl_chains_init(&ring->chains, chains, shape->rank_count,
                                        coll->schedule.arena, err);
    if (status == 0) {
        plan(ring, collective);
        coll->piece_count = div_up(nccl_share_max(&ring->cut), ring->piece_elements);
        status = write_orders(ring, err);
    }
    if (status < 0) {
        tutti_schedule_free(&coll->schedule);
        return status;
    }
    return tutti_coll_finish(coll, ring->slice_elements + ring->keep_count * ring->chunk_elements,
                             0, piece_rounds(ring), ret, err);
}
