/* The way from a name and parameters to a schedule, and the head that all generators share. */
#include "runtime/coll.h"

#include <stdio.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/coll/emit.h"
#include "runtime/wide.h"

enum {
    SLICES_MAX = 4096,
    SLOTS_MAX = 1 << 20,
};

static const uint64_t bytes_max = UINT64_C(1) << 60; /* of a buffer; products stay below 2^63 */

static uint32_t at_least_one(uint32_t count)
{
    return count == 0 ? 1 : count;
}

static uint32_t slots_of(const struct tutti_coll_params *params)
{
    return params->slot_count == 0 ? (uint32_t)TUTTI_SLOTS_DEFAULT : params->slot_count;
}

static int check_sizes(const struct tutti_coll_params *params, uint32_t rank_count,
                       struct tutti_err *err)
{
    uint64_t bytes =
        tutti_times(tutti_times(params->count, rank_count), tutti_dtype_bytes(params->dtype));

    if (bytes > bytes_max)
        return tutti_fail(
            err, TUTTI_EINVAL,
            "count '%llu' is too large (%u ranks times count times %zu bytes must not "
            "exceed 1152921504606846976 bytes)",
            (unsigned long long)params->count, rank_count, tutti_dtype_bytes(params->dtype));
    if (params->collective == TUTTI_BARRIER && params->count != 0)
        return tutti_fail(err, TUTTI_EINVAL, "a barrier carries no data: count '%llu' (0)",
                          (unsigned long long)params->count);
    return 0;
}

static int check_params(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                        struct tutti_err *err)
{
    uint32_t slice_count = at_least_one(params->slice_count);

    if (shape->rank_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "no ranks (at least 1)");
    if ((unsigned)params->dtype >= TUTTI_DTYPE_COUNT)
        return tutti_fail(err, TUTTI_EINVAL, "no data type has the number '%d' (0 to %d)",
                          (int)params->dtype, TUTTI_DTYPE_COUNT - 1);
    if ((unsigned)params->op >= TUTTI_OP_COUNT)
        return tutti_fail(err, TUTTI_EINVAL, "no operator has the number '%d' (0 to %d)",
                          (int)params->op, TUTTI_OP_COUNT - 1);
    if (tutti_collective_is_rooted(params->collective) && params->root >= shape->rank_count)
        return tutti_fail(err, TUTTI_EINVAL, "root '%u' is not a rank (0 to %u)", params->root,
                          shape->rank_count - 1);
    if (slots_of(params) > SLOTS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "too many slots '%u' (1 to %d)", params->slot_count,
                          SLOTS_MAX);
    if (slice_count > SLICES_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "too many slices '%u' (1 to %d)", slice_count,
                          SLICES_MAX);
    if (slice_count > slots_of(params))
        return tutti_fail(err, TUTTI_EINVAL,
                          "a chunk of '%u' slices does not fit into %u slots and would wait for "
                          "ever (at least as many slots as slices)",
                          slice_count, slots_of(params));
    return check_sizes(params, shape->rank_count, err);
}

/* Into how many pieces the largest share falls. */
static int count_pieces(const struct coll_layout *layout, const struct tutti_coll_params *params,
                        const struct coll *coll, uint64_t *ret, struct tutti_err *err)
{
    uint64_t grain = params->chunk_bytes == 0 ? layout->grain_bytes : params->chunk_bytes;
    uint64_t share = div_up(coll->schedule.contract.count, coll->share_count);
    uint64_t chunks_per_piece = layout->chunks_per_piece == 0 ? 1 : layout->chunks_per_piece;
    uint64_t chunk;
    uint64_t piece;
    uint64_t pieces;

    *ret = 1;
    if (grain == 0 || share == 0 || layout->whole)
        return 0;
    chunk = grain < coll->element_bytes ? 1 : grain / coll->element_bytes;
    if (__builtin_mul_overflow(chunk, chunks_per_piece, &piece))
        return 0;
    pieces = div_up(share, piece);
    if (pieces > UINT32_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a chunk of '%llu' bytes is too small for this count: %llu pieces (at "
                          "most 4294967295)",
                          (unsigned long long)grain, (unsigned long long)pieces);
    *ret = pieces;
    return 0;
}

static int count_lanes(const struct coll_layout *layout, const struct tutti_coll_params *params,
                       struct coll *coll, struct tutti_err *err)
{
    uint64_t channels = at_least_one(params->channel_count);
    uint64_t shares = channels * at_least_one(layout->shares_per_channel);
    uint64_t per_share = at_least_one(layout->lanes_per_share);

    if (channels > TUTTI_LANES_MAX || shares > TUTTI_LANES_MAX ||
        shares * per_share > TUTTI_LANES_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "too many channels '%llu' (1 to %llu)",
                          (unsigned long long)channels,
                          (unsigned long long)TUTTI_LANES_MAX * channels / (shares * per_share));
    coll->share_count = (uint32_t)shares;
    coll->schedule.lane_count = (uint32_t)(shares * per_share);
    return 0;
}

static int fill(const struct coll_layout *layout, const struct tutti_coll_params *params,
                const struct tutti_shape *shape, struct coll *coll, struct tutti_err *err)
{
    struct tutti_schedule *schedule = &coll->schedule;
    int status;

    schedule->ops = layout->ops;
    schedule->name = layout->name;
    schedule->contract = (struct tutti_contract){
        .collective = params->collective,
        .dtype = params->dtype,
        .op = params->op,
        .root = tutti_collective_is_rooted(params->collective) ? params->root : 0,
        .count = params->count};
    schedule->rank_count = shape->rank_count;
    schedule->slot_count = slots_of(params);
    tutti_contract_bytes(&schedule->contract, shape->rank_count, &schedule->in_bytes,
                         &schedule->out_bytes);
    coll->element_bytes = tutti_dtype_bytes(params->dtype);
    coll->slice_count = at_least_one(params->slice_count);
    status = count_lanes(layout, params, coll, err);
    if (status == 0)
        status = count_pieces(layout, params, coll, &coll->piece_count, err);
    return status;
}

int tutti_coll_new(const struct coll_layout *layout, const struct tutti_coll_params *params,
                   const struct tutti_shape *shape, struct coll **ret, struct tutti_err *err)
{
    int status = check_params(params, shape, err);
    struct tutti_arena *arena;
    struct coll *coll;

    assert(layout->struct_bytes >= sizeof(struct coll));
    if (status < 0)
        return status;
    arena = tutti_arena_new();
    if (arena == NULL)
        return tutti_nomem(err);
    coll = tutti_arena_take(arena, 1, layout->struct_bytes);
    if (coll == NULL)
        status = tutti_nomem(err);
    else
        status = fill(layout, params, shape, coll, err);
    if (status < 0) {
        tutti_arena_free(arena);
        return status;
    }
    coll->schedule.arena = arena;
    *ret = coll;
    return 0;
}

int tutti_coll_finish(struct coll *coll, uint64_t share_elements, uint64_t elements,
                      uint64_t rounds, struct tutti_schedule **ret, struct tutti_err *err)
{
    uint64_t scratch = tutti_plus(tutti_times(share_elements, coll->share_count), elements);
    uint64_t total = tutti_times(coll->piece_count, rounds);
    int status = 0;

    if (tutti_times(scratch, coll->element_bytes) > bytes_max * 2)
        status = tutti_fail(err, TUTTI_EINVAL, "count '%llu' is too large for the scratch buffer",
                            (unsigned long long)coll->schedule.contract.count);
    else if (total > (UINT64_C(1) << 62))
        status = tutti_fail(err, TUTTI_EINVAL, "too many messages (larger chunks, fewer slices)");
    if (status < 0) {
        tutti_schedule_free(&coll->schedule);
        return status;
    }
    coll->schedule.scratch_bytes = scratch * coll->element_bytes;
    *ret = &coll->schedule;
    return 0;
}

/* ---- a rank that is alone -------------------------------------------------------------------- */

static uint64_t alone_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                  uint32_t lane)
{
    (void)rank;
    (void)lane;
    return schedule->contract.collective == TUTTI_BARRIER ? 0 : 1;
}

static void alone_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                       uint64_t round, struct tutti_round *out)
{
    const struct coll *coll = (const struct coll *)schedule;
    struct range piece = coll_piece(coll, lane, round);
    struct tutti_step *copy;

    (void)rank;
    copy = emit_copy(out, at(coll, TUTTI_BUF_OUT, piece.first), at(coll, TUTTI_BUF_IN, piece.first),
                     piece.count * coll->element_bytes);
    if (tutti_collective_reduces(schedule->contract.collective))
        emit_last(copy);
}

static const struct tutti_schedule_ops alone_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = alone_round_count,
    .emit = alone_emit,
};

int tutti_coll_alone(const char *name, const struct tutti_coll_params *params,
                     const struct tutti_shape *shape, struct tutti_schedule **ret,
                     struct tutti_err *err)
{
    struct coll_layout layout = {
        .name = name, .ops = &alone_ops, .struct_bytes = sizeof(struct coll), .whole = true};
    struct coll *coll = NULL;
    int status = tutti_coll_new(&layout, params, shape, &coll, err);

    assert(shape->rank_count <= 1);
    if (status < 0)
        return status;
    return tutti_coll_finish(coll, 0, 0, 1, ret, err);
}
