/* Recursive doubling: all-reduce by exchanging everything with ever farther partners; with Bruck's
 * all-gather and the dissemination barrier under the same name.
 *
 * Price for n = 2^L ranks and M bytes: L messages one after another; a rank sends, receives and
 * reduces L * M bytes (Thakur, Rabenseifner & Gropp 2005, 4.2). Best for short messages. Other n:
 * n - 2^L surplus ranks fold in before and get the result after: at most 2 messages more, and M
 * bytes more each way for them and their partners.
 *
 * A sum must not be overwritten while the partner still reads it, so two places take turns, `out`
 * and one in scratch, such that the last sum falls to `out`.
 *
 * Grain: chunk_bytes 0 exchanges the whole share at once. */
#include "runtime/coll/dissemination.h"
#include "runtime/coll/emit.h"
#include "runtime/coll/fold.h"
#include "runtime/coll/generators.h"
#include "runtime/wide.h"

struct doubling {
    struct coll coll;
    struct fold fold;
    uint64_t staging_elements; /* scratch: the second place, then a staging area for each lane */
};

static uint64_t piece_rounds(const struct doubling *doubling, const struct role *role)
{
    uint64_t slice_count = doubling->coll.slice_count;

    if (role->surplus)
        return 2 * slice_count;
    return 2 * slice_count * doubling->fold.log + (role->folded ? 2 * slice_count : 0);
}

static uint64_t doubling_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                     uint32_t lane)
{
    const struct doubling *doubling = (const struct doubling *)schedule;
    struct role role = fold_role(&doubling->fold, rank);

    (void)lane;
    return doubling->coll.piece_count * piece_rounds(doubling, &role);
}

/* Where the sum after `exchanges` exchanges lies. */
static struct place sum_place(const struct doubling *doubling, const struct role *role,
                              uint32_t exchanges, uint64_t element)
{
    enum tutti_buf buf =
        (doubling->fold.log - exchanges) % 2 == 0 ? TUTTI_BUF_OUT : TUTTI_BUF_SCRATCH;

    if (exchanges == 0 && !role->folded)
        buf = TUTTI_BUF_IN;
    return at(&doubling->coll, buf, element);
}

/* Index in the lane of the SEND of a slice in exchange k: before it in its piece, S pairs fold in
 * and every exchange has S SENDs and S pairs. */
static uint64_t send_index(const struct doubling *doubling, const struct role *role, uint64_t piece,
                           uint32_t exchange, uint64_t slice)
{
    uint64_t slice_count = doubling->coll.slice_count;
    uint64_t steps = 3 * slice_count * (doubling->fold.log + (role->folded ? 1 : 0));

    return piece * steps + (role->folded ? 2 * slice_count : 0) + 3 * slice_count * exchange +
           slice;
}

static void emit_exchange(const struct doubling *doubling, const struct role *role, uint32_t lane,
                          uint64_t piece, uint64_t round, struct tutti_round *out)
{
    const struct coll *coll = &doubling->coll;
    uint64_t slice_count = coll->slice_count;
    uint32_t k = (uint32_t)(round / (2 * slice_count));
    uint64_t slice = round % slice_count;
    struct range part = part_of(coll_piece(coll, lane, piece), slice, slice_count);
    uint64_t bytes = part.count * coll->element_bytes;
    uint32_t peer = fold_rank(&doubling->fold, role->member ^ (UINT32_C(1) << k));
    struct place sum = sum_place(doubling, role, k, part.first);
    struct place staging = at(coll, TUTTI_BUF_SCRATCH,
                              coll->schedule.contract.count + lane * doubling->staging_elements);
    struct tutti_step *step;

    if (round / slice_count % 2 == 0) {
        emit_send(out, peer, sum, bytes);
        return;
    }
    step = emit_recv_reduce(out, peer, staging, sum_place(doubling, role, k + 1, part.first), sum,
                            bytes);
    if (k + 1 == doubling->fold.log)
        emit_last(step);
    if (k >= 2 || (k == 1 && role->folded)) /* the partner before the last may still read there */
        emit_dep(step, lane, send_index(doubling, role, piece, k - 1, slice));
}

static void emit_member(const struct doubling *doubling, const struct role *role, uint32_t lane,
                        uint64_t piece, uint64_t round, struct tutti_round *out)
{
    const struct coll *coll = &doubling->coll;
    uint64_t slice_count = coll->slice_count;
    struct range part = part_of(coll_piece(coll, lane, piece), round % slice_count, slice_count);
    uint64_t bytes = part.count * coll->element_bytes;
    struct place staging = at(coll, TUTTI_BUF_SCRATCH,
                              coll->schedule.contract.count + lane * doubling->staging_elements);

    if (role->folded && round < slice_count)
        emit_recv_reduce(out, role->partner, staging, sum_place(doubling, role, 0, part.first),
                         at(coll, TUTTI_BUF_IN, part.first), bytes);
    else if (role->folded && round >= slice_count * (1 + 2 * doubling->fold.log))
        emit_send(out, role->partner, at(coll, TUTTI_BUF_OUT, part.first), bytes);
    else
        emit_exchange(doubling, role, lane, piece, role->folded ? round - slice_count : round, out);
}

static void doubling_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                          uint64_t round, struct tutti_round *out)
{
    const struct doubling *doubling = (const struct doubling *)schedule;
    const struct coll *coll = &doubling->coll;
    struct role role = fold_role(&doubling->fold, rank);
    uint64_t rounds = piece_rounds(doubling, &role);
    uint64_t piece = round / rounds;
    uint64_t rest = round % rounds;
    struct range part =
        part_of(coll_piece(coll, lane, piece), rest % coll->slice_count, coll->slice_count);

    if (!role.surplus)
        emit_member(doubling, &role, lane, piece, rest, out);
    else
        fold_emit_surplus(coll, &role, rest < coll->slice_count, part, out);
}

static const struct tutti_schedule_ops doubling_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = doubling_round_count,
    .emit = doubling_emit,
};

int tutti_coll_recursive_doubling(const struct tutti_coll_params *params,
                                  const struct tutti_shape *shape, struct tutti_schedule **ret,
                                  struct tutti_err *err)
{
    struct coll_layout layout = {.name = "recursive-doubling",
                                 .ops = &doubling_ops,
                                 .struct_bytes = sizeof(struct doubling)};
    struct coll *coll = NULL;
    struct doubling *doubling;
    uint64_t steps;
    int status;

    if (shape->rank_count <= 1)
        return tutti_coll_alone(layout.name, params, shape, ret, err);
    if (params->collective == TUTTI_ALLGATHER)
        return tutti_dissemination_allgather(params, shape, ret, err);
    if (params->collective == TUTTI_BARRIER)
        return tutti_dissemination_barrier(params, shape, ret, err);
    status = tutti_coll_new(&layout, params, shape, &coll, err);
    if (status < 0)
        return status;
    doubling = (struct doubling *)coll;
    doubling->fold = fold_of(shape->rank_count);
    doubling->staging_elements = div_up(coll_piece_max(coll), coll->slice_count);
    steps = 3 * (uint64_t)coll->slice_count * (doubling->fold.log + 1);
    if (tutti_times(steps, coll->piece_count) > UINT32_MAX) {
        tutti_schedule_free(&coll->schedule);
        return tutti_fail(err, TUTTI_EINVAL,
                          "too many pieces for one lane (larger chunks, fewer slices)");
    }
    return tutti_coll_finish(coll, doubling->staging_elements, coll->schedule.contract.count, steps,
                             ret, err);
}
