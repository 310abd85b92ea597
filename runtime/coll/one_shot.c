/* One-shot all-reduce: every rank sends all its data to every other and adds up what it gets.
 *
 * Price for n ranks, M bytes: 1 message after which all is known; a rank sends and receives (n-1) M
 * bytes and reduces as much. Best for the shortest messages on a switch or full mesh (MSCCL++,
 * vLLM's custom all-reduce). Everybody adds in the order of the ranks, so that floating-point sums
 * come out the same everywhere.
 *
 * Grain: chunk_bytes 0 sends the whole share at once. */
#include "runtime/coll/emit.h"
#include "runtime/coll/generators.h"

struct one_shot {
    struct coll coll;
    uint64_t staging_elements; /* two of them a lane: the first contribution, and the next ones */
};

static uint64_t half_rounds(const struct coll *coll)
{
    return (uint64_t)(coll->schedule.rank_count - 1) * coll->slice_count;
}

static uint64_t one_shot_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                     uint32_t lane)
{
    const struct coll *coll = (const struct coll *)schedule;

    (void)rank;
    (void)lane;
    return coll->piece_count * 2 * half_rounds(coll);
}

/* Ranks 0 and 1 begin with their own data and add the others in order (of two numbers the order
 * does not matter). The others begin with the data of 0 and 1 and add their own in its turn. */
static void emit_sum(const struct one_shot *one, uint32_t rank, uint32_t lane, uint32_t index,
                     struct range range, struct tutti_round *out)
{
    const struct coll *coll = &one->coll;
    uint64_t bytes = range.count * coll->element_bytes;
    struct place in = at(coll, TUTTI_BUF_IN, range.first);
    struct place sum = at(coll, TUTTI_BUF_OUT, range.first);
    struct place staging = at(coll, TUTTI_BUF_SCRATCH, 2 * lane * one->staging_elements);
    struct place first = at(coll, TUTTI_BUF_SCRATCH, (2 * lane + 1) * one->staging_elements);
    struct tutti_step *step;

    if (rank <= 1) {
        uint32_t from = index < rank ? index : index + 1;

        step = emit_recv_reduce(out, from, staging, sum, index == 0 ? in : sum, bytes);
    } else if (index == 0) {
        emit_recv(out, 0, first, bytes);
        step = emit_recv_reduce(out, 1, staging, sum, first, bytes);
    } else if (index + 1 == rank) {
        step = emit_reduce(out, sum, sum, in, bytes);
    } else {
        step = emit_recv_reduce(out, index + 1, staging, sum, sum, bytes);
    }
    if (index + 2 == coll->schedule.rank_count)
        emit_last(step);
}

static void one_shot_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                          uint64_t round, struct tutti_round *out)
{
    const struct one_shot *one = (const struct one_shot *)schedule;
    const struct coll *coll = &one->coll;
    uint32_t others = schedule->rank_count - 1;
    uint64_t half = half_rounds(coll);
    uint64_t rest = round % half;
    struct range range =
        part_of(coll_piece(coll, lane, round / (2 * half)), rest / others, coll->slice_count);
    uint32_t index = (uint32_t)(rest % others);

    if (round / half % 2 == 0)
        emit_send(out, ring_add(rank, index + 1, schedule->rank_count),
                  at(coll, TUTTI_BUF_IN, range.first), range.count * coll->element_bytes);
    else
        emit_sum(one, rank, lane, index, range, out);
}

/* Every slice is sent to all, then every slice is received from all. */
static bool one_shot_exchange(const struct tutti_schedule *schedule, uint32_t lane, uint64_t part,
                              uint32_t rank, struct tutti_exchange *ret)
{
    const struct coll *coll = (const struct coll *)schedule;
    uint64_t piece = part / (2 * coll->slice_count);

    (void)rank;
    if (piece >= coll->piece_count)
        return false;
    ret->sends = part / coll->slice_count % 2 == 0;
    ret->by_sender = true;
    ret->bytes =
        coll->element_bytes *
        part_of(coll_piece(coll, lane, piece), part % coll->slice_count, coll->slice_count).count;
    return true;
}

static const struct tutti_schedule_ops one_shot_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = one_shot_round_count,
    .emit = one_shot_emit,
    .exchange = one_shot_exchange,
};

int tutti_coll_one_shot(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                        struct tutti_schedule **ret, struct tutti_err *err)
{
    struct coll_layout layout = {
        .name = "one-shot", .ops = &one_shot_ops, .struct_bytes = sizeof(struct one_shot)};
    struct coll *coll = NULL;
    struct one_shot *one;
    int status;

    if (shape->rank_count <= 1)
        return tutti_coll_alone(layout.name, params, shape, ret, err);
    status = tutti_coll_new(&layout, params, shape, &coll, err);
    if (status < 0)
        return status;
    one = (struct one_shot *)coll;
    one->staging_elements = div_up(coll_piece_max(coll), coll->slice_count);
    return tutti_coll_finish(coll, 2 * one->staging_elements, 0, 2 * half_rounds(coll), ret, err);
}
