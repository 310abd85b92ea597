/* Halving-doubling all-reduce (Rabenseifner): reduce-scatter by recursive halving, then all-gather
 * by recursive doubling.
 *
 * Price for n = 2^L ranks and M bytes: 2L messages one after another; a rank sends and receives
 * 2(n-1)/n * M bytes and reduces (n-1)/n * M (Thakur, Rabenseifner & Gropp 2005, 4.3). Other n: the
 * n - 2^L surplus ranks fold in before and get the result after: at most 2 messages more, and M
 * more bytes each way for them and their partners. The first exchange, of the most bytes, is with
 * the nearest rank.
 *
 * Grain: a piece is n chunks; chunk_bytes 0 makes one piece. */
#include "runtime/coll/emit.h"
#include "runtime/coll/fold.h"
#include "runtime/coll/generators.h"

struct halving {
    struct coll coll;
    struct fold fold;
    uint64_t staging_elements;
};

/* After k halvings a member is responsible for this part of the piece: bit j of its number chose
 * the half in halving j. */
static struct range interval(const struct halving *halving, struct range piece, uint32_t member,
                             uint32_t halvings)
{
    uint32_t width = halving->fold.member_count;
    uint64_t low = 0;
    uint64_t from;
    uint64_t to;

    for (uint32_t j = 0; j < halvings; j++) {
        width /= 2;
        low += (member >> j & 1) * width;
    }
    from = tutti_muldiv(piece.count, low, halving->fold.member_count);
    to = tutti_muldiv(piece.count, low + width, halving->fold.member_count);
    return (struct range){.first = piece.first + from, .count = to - from};
}

static uint64_t piece_rounds(const struct halving *halving, const struct role *role)
{
    uint64_t slice_count = halving->coll.slice_count;

    if (role->surplus)
        return 2 * slice_count;
    return 4 * slice_count * halving->fold.log + (role->folded ? 2 * slice_count : 0);
}

static uint64_t halving_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                    uint32_t lane)
{
    const struct halving *halving = (const struct halving *)schedule;
    struct role role = fold_role(&halving->fold, rank);

    (void)lane;
    return halving->coll.piece_count * piece_rounds(halving, &role);
}

static void emit_halving(const struct halving *halving, const struct role *role, uint32_t k,
                         bool receive, uint64_t slice, struct range piece, struct place staging,
                         struct tutti_round *out)
{
    const struct coll *coll = &halving->coll;
    uint32_t peer = role->member ^ (UINT32_C(1) << k);
    struct range half = interval(halving, piece, receive ? role->member : peer, k + 1);
    struct range part = part_of(half, slice, coll->slice_count);
    uint64_t bytes = part.count * coll->element_bytes;
    bool untouched = k == 0 && !role->folded;
    struct place sum = at(coll, untouched ? TUTTI_BUF_IN : TUTTI_BUF_OUT, part.first);
    struct tutti_step *step;

    peer = fold_rank(&halving->fold, peer);
    if (!receive) {
        emit_send(out, peer, sum, bytes);
        return;
    }
    step = emit_recv_reduce(out, peer, staging, at(coll, TUTTI_BUF_OUT, part.first), sum, bytes);
    if (k + 1 == halving->fold.log)
        emit_last(step);
}

static void emit_doubling(const struct halving *halving, const struct role *role, uint32_t k,
                          bool receive, uint64_t slice, struct range piece, struct tutti_round *out)
{
    const struct coll *coll = &halving->coll;
    uint32_t peer = role->member ^ (UINT32_C(1) << k);
    struct range half = interval(halving, piece, receive ? peer : role->member, k + 1);
    struct range part = part_of(half, slice, coll->slice_count);
    struct place place = at(coll, TUTTI_BUF_OUT, part.first);

    peer = fold_rank(&halving->fold, peer);
    if (receive)
        emit_recv(out, peer, place, part.count * coll->element_bytes);
    else
        emit_send(out, peer, place, part.count * coll->element_bytes);
}

static void emit_member(const struct halving *halving, const struct role *role, uint64_t round,
                        struct range piece, struct place staging, struct tutti_round *out)
{
    const struct coll *coll = &halving->coll;
    uint64_t slice_count = coll->slice_count;
    uint64_t slice = round % slice_count;
    uint64_t stage = round / slice_count; /* after the fold: two an exchange */
    struct range part = part_of(piece, slice, slice_count);
    uint32_t log = halving->fold.log;

    if (role->folded && stage == 0) {
        emit_recv_reduce(out, role->partner, staging, at(coll, TUTTI_BUF_OUT, part.first),
                         at(coll, TUTTI_BUF_IN, part.first), part.count * coll->element_bytes);
        return;
    }
    stage -= role->folded ? 1 : 0;
    if (stage < 2 * log)
        emit_halving(halving, role, (uint32_t)(stage / 2), stage % 2 == 1, slice, piece, staging,
                     out);
    else if (stage < UINT64_C(4) * log)
        emit_doubling(halving, role, 2 * log - 1 - (uint32_t)(stage / 2), stage % 2 == 1, slice,
                      piece, out);
    else
        emit_send(out, role->partner, at(coll, TUTTI_BUF_OUT, part.first),
                  part.count * coll->element_bytes);
}

static void halving_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                         uint64_t round, struct tutti_round *out)
{
    const struct halving *halving = (const struct halving *)schedule;
    const struct coll *coll = &halving->coll;
    struct role role = fold_role(&halving->fold, rank);
    uint64_t rounds = piece_rounds(halving, &role);
    uint64_t rest = round % rounds;
    struct range piece = coll_piece(coll, lane, round / rounds);
    struct range part = part_of(piece, rest % coll->slice_count, coll->slice_count);

    if (!role.surplus)
        emit_member(halving, &role, rest, piece,
                    at(coll, TUTTI_BUF_SCRATCH, lane * halving->staging_elements), out);
    else
        fold_emit_surplus(coll, &role, rest < coll->slice_count, part, out);
}

static const struct tutti_schedule_ops halving_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = halving_round_count,
    .emit = halving_emit,
};

int tutti_coll_halving_doubling(const struct tutti_coll_params *params,
                                const struct tutti_shape *shape, struct tutti_schedule **ret,
                                struct tutti_err *err)
{
    struct coll_layout layout = {.name = "halving-doubling",
                                 .ops = &halving_ops,
                                 .struct_bytes = sizeof(struct halving),
                                 .chunks_per_piece = shape->rank_count};
    struct coll *coll = NULL;
    struct halving *halving;
    int status;

    if (shape->rank_count <= 1)
        return tutti_coll_alone(layout.name, params, shape, ret, err);
    status = tutti_coll_new(&layout, params, shape, &coll, err);
    if (status < 0)
        return status;
    halving = (struct halving *)coll;
    halving->fold = fold_of(shape->rank_count);
    halving->staging_elements =
        div_up(div_up(coll_piece_max(coll), halving->fold.surplus > 0 ? 1 : 2), coll->slice_count);
    return tutti_coll_finish(coll, halving->staging_elements, 0,
                             (uint64_t)coll->slice_count * (4 * halving->fold.log + 2), ret, err);
}
