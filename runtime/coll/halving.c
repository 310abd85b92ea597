/* Recursive halving reduce-scatter: exchange half of the blocks with a far partner, a quarter with
 * a nearer one, and so on.
 *
 * Price for n = 2^L ranks and blocks of B bytes: L messages one after another; a rank sends,
 * receives and reduces (n-1) B bytes (Thakur, Rabenseifner & Gropp 2005, 3.2). Other n: the n - 2^L
 * surplus ranks fold in before, sending n B bytes, and get their block after: at most 2 messages
 * more; a partner works for two ranks and receives and reduces up to (n + 2^(L+1) - 2) B bytes.
 *
 * With several channels a lane has a strip of every block; as messages are many blocks long, it
 * first lays its strips side by side in scratch. Grain: chunk_bytes has no effect. */
#include "runtime/coll/emit.h"
#include "runtime/coll/fold.h"
#include "runtime/coll/generators.h"

struct scatter {
    struct coll coll;
    struct fold fold;
    bool packed;             /* several lanes */
    uint64_t share_elements; /* the longest share of a block */
};

/* Scratch of a lane: n blocks of sums, and room for a slice of n blocks to land. */
struct context {
    struct range part; /* of a block */
    uint64_t sums;     /* element of scratch */
    struct place staging;
};

static uint64_t staging_elements(const struct scatter *scatter)
{
    return div_up(scatter->coll.schedule.rank_count * scatter->share_elements,
                  scatter->coll.slice_count);
}

static uint64_t lane_elements(const struct scatter *scatter)
{
    return scatter->coll.schedule.rank_count * scatter->share_elements + staging_elements(scatter);
}

static struct context context_of(const struct scatter *scatter, uint32_t lane)
{
    uint64_t base = lane * lane_elements(scatter);

    return (struct context){
        .part = coll_piece(&scatter->coll, lane, 0),
        .sums = base,
        .staging = at(&scatter->coll, TUTTI_BUF_SCRATCH,
                      base + scatter->coll.schedule.rank_count * scatter->share_elements)};
}

/* Where element `first` of the lane's blocks, laid side by side, is found before any reduction. */
static struct place given(const struct scatter *scatter, const struct context *context,
                          uint64_t first)
{
    if (scatter->packed)
        return at(&scatter->coll, TUTTI_BUF_SCRATCH, context->sums + first);
    return at(&scatter->coll, TUTTI_BUF_IN, first);
}

static struct place summed(const struct scatter *scatter, const struct context *context,
                           uint64_t first)
{
    return at(&scatter->coll, TUTTI_BUF_SCRATCH, context->sums + first);
}

/* First block of a member: it stands for its surplus partner's too. */
static uint64_t first_block(const struct fold *fold, uint32_t member)
{
    return member < fold->surplus ? 2 * (uint64_t)member : (uint64_t)member + fold->surplus;
}

/* The blocks that a member still cares for after so many halvings, in elements side by side. */
static struct range interval(const struct scatter *scatter, const struct context *context,
                             uint32_t member, uint32_t halvings)
{
    uint32_t width = scatter->fold.member_count >> halvings;
    uint32_t low = member / width * width;
    uint64_t from = first_block(&scatter->fold, low);
    uint64_t to = first_block(&scatter->fold, low + width);

    return (struct range){.first = from * context->part.count,
                          .count = (to - from) * context->part.count};
}

static uint64_t pack_rounds(const struct scatter *scatter)
{
    return scatter->packed ? scatter->coll.schedule.rank_count : 0;
}

/* Rounds: pack; surplus: send, receive; member: [fold in], exchanges, [fold out and copy]. */
static uint64_t scatter_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                    uint32_t lane)
{
    const struct scatter *scatter = (const struct scatter *)schedule;
    uint64_t slice_count = scatter->coll.slice_count;
    struct role role = fold_role(&scatter->fold, rank);

    (void)lane;
    if (role.surplus)
        return pack_rounds(scatter) + 2 * slice_count;
    return pack_rounds(scatter) + 2 * slice_count * scatter->fold.log +
           (role.folded ? 2 * slice_count + 1 : 0);
}

static void emit_exchange(const struct scatter *scatter, const struct context *context,
                          const struct role *role, uint64_t stage, uint64_t slice,
                          struct tutti_round *out)
{
    const struct coll *coll = &scatter->coll;
    uint32_t k = (uint32_t)(stage / 2);
    bool receive = stage % 2 == 1;
    uint32_t peer = role->member ^ (scatter->fold.member_count >> (k + 1));
    struct range half = interval(scatter, context, receive ? role->member : peer, k + 1);
    struct range part = part_of(half, slice, coll->slice_count);
    uint64_t bytes = part.count * coll->element_bytes;
    struct place sum = k == 0 && !role->folded ? given(scatter, context, part.first)
                                               : summed(scatter, context, part.first);
    struct place dst = summed(scatter, context, part.first);
    struct tutti_step *step;

    peer = fold_rank(&scatter->fold, peer);
    if (!receive) {
        emit_send(out, peer, sum, bytes);
        return;
    }
    if (k + 1 == scatter->fold.log && !role->folded)
        dst = at(coll, TUTTI_BUF_OUT, context->part.first + part.first - half.first);
    step = emit_recv_reduce(out, peer, context->staging, dst, sum, bytes);
    if (k + 1 == scatter->fold.log)
        emit_last(step);
}

static void emit_member(const struct scatter *scatter, const struct context *context,
                        const struct role *role, uint64_t round, struct tutti_round *out)
{
    const struct coll *coll = &scatter->coll;
    uint64_t slice = round % coll->slice_count;
    uint64_t stage = round / coll->slice_count;
    uint64_t exchanges = 2 * (uint64_t)scatter->fold.log;
    struct range part = {.first = 0, .count = coll->schedule.rank_count * context->part.count};
    uint64_t mine =
        2 * (uint64_t)role->member * context->part.count; /* partner's block, then mine */

    part = part_of(part, slice, coll->slice_count);
    if (role->folded && stage == 0) {
        emit_recv_reduce(out, role->partner, context->staging, summed(scatter, context, part.first),
                         given(scatter, context, part.first), part.count * coll->element_bytes);
        return;
    }
    stage -= role->folded ? 1 : 0;
    if (stage < exchanges) {
        emit_exchange(scatter, context, role, stage, slice, out);
    } else if (stage == exchanges) {
        part = part_of(context->part, slice, coll->slice_count);
        emit_send(out, role->partner,
                  summed(scatter, context, mine + part.first - context->part.first),
                  part.count * coll->element_bytes);
    } else {
        emit_copy(out, at(coll, TUTTI_BUF_OUT, context->part.first),
                  summed(scatter, context, mine + context->part.count),
                  context->part.count * coll->element_bytes);
    }
}

static void emit_surplus(const struct scatter *scatter, const struct context *context,
                         const struct role *role, uint64_t round, struct tutti_round *out)
{
    const struct coll *coll = &scatter->coll;
    struct range all = {.first = 0, .count = coll->schedule.rank_count * context->part.count};
    struct range part;

    if (round < coll->slice_count) {
        part = part_of(all, round, coll->slice_count);
        emit_send(out, role->partner, given(scatter, context, part.first),
                  part.count * coll->element_bytes);
    } else {
        part = part_of(context->part, round - coll->slice_count, coll->slice_count);
        emit_recv(out, role->partner, at(coll, TUTTI_BUF_OUT, part.first),
                  part.count * coll->element_bytes);
    }
}

static void scatter_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                         uint64_t round, struct tutti_round *out)
{
    const struct scatter *scatter = (const struct scatter *)schedule;
    const struct coll *coll = &scatter->coll;
    struct role role = fold_role(&scatter->fold, rank);
    struct context context = context_of(scatter, lane);
    uint64_t pack = pack_rounds(scatter);

    if (round < pack)
        emit_copy(out, summed(scatter, &context, round * context.part.count),
                  at(coll, TUTTI_BUF_IN, round * schedule->contract.count + context.part.first),
                  context.part.count * coll->element_bytes);
    else if (role.surplus)
        emit_surplus(scatter, &context, &role, round - pack, out);
    else
        emit_member(scatter, &context, &role, round - pack, out);
}

static const struct tutti_schedule_ops scatter_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = scatter_round_count,
    .emit = scatter_emit,
};

int tutti_coll_halving(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                       struct tutti_schedule **ret, struct tutti_err *err)
{
    struct coll_layout layout = {.name = "halving",
                                 .ops = &scatter_ops,
                                 .struct_bytes = sizeof(struct scatter),
                                 .whole = true};
    struct coll *coll = NULL;
    struct scatter *scatter;
    int status;

    if (shape->rank_count <= 1)
        return tutti_coll_alone(layout.name, params, shape, ret, err);
    status = tutti_coll_new(&layout, params, shape, &coll, err);
    if (status < 0)
        return status;
    scatter = (struct scatter *)coll;
    scatter->fold = fold_of(shape->rank_count);
    scatter->packed = coll->share_count > 1;
    scatter->share_elements = coll_piece_max(coll);
    return tutti_coll_finish(coll, lane_elements(scatter), 0, 1, ret, err);
}
