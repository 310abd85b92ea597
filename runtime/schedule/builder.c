/* The builder: a schedule whose steps are stored, for files, tests, strategies and mutants. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/schedule.h"
#include "runtime/schedule/tables.h"
#include "runtime/status.h"

/* Ranks times lanes of a stored schedule, its callees included; a file that names more is a mistake
 * or an attack. */
enum { CELLS_MAX = 1 << 24, STEPS_A_ROUND = TUTTI_ROUND_STEPS_MAX };
_Static_assert(CELLS_MAX <= 1 << 24, "a radix sort of three bytes tells all cells apart");

/* A lane that has steps. Lanes are found by their cell, rank * lane_count + lane. */
struct lane {
    uint64_t cell;
    uint64_t first; /* of its steps in `steps` */
    uint64_t count;
};

struct stored_schedule {
    struct tutti_schedule base;
    const struct lane *lanes; /* sorted by cell */
    size_t lane_count;
    const struct tutti_step *steps;      /* lane after lane */
    const struct tutti_buf_sizes *sizes; /* [rank], or NULL: the same for all */
    uint32_t program_count;              /* 0: one of its own for each rank */
    uint32_t program_stride;
};

/* The steps in the order in which they were added; they are sorted by lane in the end. Memory grows
 * with the steps alone, whatever numbers of ranks and lanes were announced. */
struct tutti_builder {
    struct tutti_schedule_desc desc;
    struct tutti_arena *arena; /* of the schedule to be: its name */
    struct tutti_step *steps;
    uint32_t *cells; /* steps[i] belongs to the lane of cells[i] */
    size_t step_count;
    size_t step_capacity;
    const struct tutti_schedule **callees;
    uint32_t callee_count;
    uint64_t cell_count;           /* of the schedule and its callees */
    struct tutti_buf_sizes *sizes; /* [rank], in the arena, or NULL: the same for all */
    int status;                    /* of the first step that could not be added ... */
    struct tutti_err err;          /* ... and why */
};

static uint64_t stored_program(const struct tutti_schedule *schedule, uint32_t rank)
{
    const struct stored_schedule *s = (const struct stored_schedule *)schedule;

    return s->program_count == 0 ? rank : rank / s->program_stride % s->program_count;
}

static const struct lane *find_stored(const struct tutti_schedule *schedule, uint32_t rank,
                                      uint32_t lane)
{
    const struct stored_schedule *s = (const struct stored_schedule *)schedule;
    uint64_t cell = stored_program(schedule, rank) * schedule->lane_count + lane;
    size_t low = 0;
    size_t high = s->lane_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (s->lanes[middle].cell < cell)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->lane_count && s->lanes[low].cell == cell ? &s->lanes[low] : NULL;
}

static uint64_t stored_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                   uint32_t lane)
{
    const struct lane *found = find_stored(schedule, rank, lane);

    return found == NULL ? 0 : (found->count + STEPS_A_ROUND - 1) / STEPS_A_ROUND;
}

static void stored_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                        uint64_t round, struct tutti_round *out)
{
    const struct stored_schedule *s = (const struct stored_schedule *)schedule;
    const struct lane *found = find_stored(schedule, rank, lane);
    uint64_t first = round * STEPS_A_ROUND;
    uint64_t count;

    assert(found != NULL);
    assert(first < found->count);
    count = found->count - first < STEPS_A_ROUND ? found->count - first : STEPS_A_ROUND;
    memcpy(out->step, s->steps + found->first + first, (size_t)count * sizeof(out->step[0]));
    out->step_count = (uint32_t)count;
    for (uint32_t i = 0; i < count && s->program_count > 0; i++)
        if (out->step[i].kind == TUTTI_SEND || out->step[i].kind == TUTTI_RECV)
            out->step[i].peer =
                (uint32_t)(((uint64_t)rank + out->step[i].peer) % schedule->rank_count);
}

static void stored_sizes(const struct tutti_schedule *schedule, uint32_t rank,
                         struct tutti_buf_sizes *ret)
{
    const struct stored_schedule *s = (const struct stored_schedule *)schedule;

    *ret = s->sizes != NULL
               ? s->sizes[rank]
               : (struct tutti_buf_sizes){schedule->in_bytes, schedule->out_bytes,
                                          schedule->scratch_bytes, schedule->state_bytes};
}

static const struct tutti_schedule_ops stored_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = stored_round_count,
    .emit = stored_emit,
    .sizes = stored_sizes,
};

static const struct tutti_schedule_ops shared_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = stored_round_count,
    .emit = stored_emit,
    .sizes = stored_sizes,
    .program = stored_program,
};

/* Chunks are equal, of whole elements, and so are the buffers that do not follow from the
 * contract. */
static int check_chunks(const struct tutti_schedule_desc *desc, struct tutti_err *err)
{
    const struct tutti_contract *c = &desc->contract;
    uint64_t chunk_bytes;

    if (desc->chunk_count == 0)
        return 0;
    if (c->count == 0 || c->count % desc->chunk_count != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a count of '%" PRIu64 "' cannot be cut into %" PRIu64
                          " equal chunks (a multiple of %" PRIu64 ")",
                          c->count, desc->chunk_count, desc->chunk_count);
    chunk_bytes = c->count / desc->chunk_count * tutti_dtype_bytes(c->dtype);
    if (desc->in_bytes % chunk_bytes != 0 || desc->out_bytes % chunk_bytes != 0 ||
        desc->scratch_bytes % chunk_bytes != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a buffer that is not of whole chunks of '%" PRIu64 "' bytes",
                          chunk_bytes);
    return 0;
}

static uint32_t program_count(const struct tutti_schedule_desc *desc)
{
    return desc->program_count > 0 ? desc->program_count : desc->rank_count;
}

static int check_desc(struct tutti_schedule_desc *desc, struct tutti_err *err)
{
    const struct tutti_contract *c = &desc->contract;
    int status = tutti_name_valid("schedule", desc->name, err);

    if (status < 0)
        return status;
    if (desc->rank_count < 1)
        return tutti_fail(err, TUTTI_EINVAL, "a schedule of '0' ranks (1 or more)");
    if (desc->lane_count < 1 || desc->lane_count > TUTTI_LANES_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "a schedule of '%u' lanes (1 to %d)", desc->lane_count,
                          TUTTI_LANES_MAX);
    if ((uint64_t)program_count(desc) * desc->lane_count > CELLS_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%u' ranks of %u lanes are too many to store (ranks * lanes up to %d)",
                          program_count(desc), desc->lane_count, CELLS_MAX);
    if (desc->program_count > desc->rank_count)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' programs of %u ranks (at most as many)",
                          desc->program_count, desc->rank_count);
    if (c->collective >= TUTTI_COLLECTIVE_COUNT || c->dtype >= TUTTI_DTYPE_COUNT ||
        c->op >= TUTTI_OP_COUNT)
        return tutti_fail(err, TUTTI_EINVAL, "a contract of unknown collective, type or operator");
    if (c->root >= desc->rank_count)
        return tutti_fail(err, TUTTI_EINVAL, "root '%u' is not a rank (0 to %u)", c->root,
                          desc->rank_count - 1);
    if (c->collective != TUTTI_CUSTOM) {
        if (desc->in_bytes != 0 || desc->out_bytes != 0)
            return tutti_fail(err, TUTTI_EINVAL,
                              "sizes of in and out given for '%s', which fixes them itself",
                              tutti_collective_name(c->collective));
        tutti_contract_bytes(c, desc->rank_count, &desc->in_bytes, &desc->out_bytes);
    }
    if (desc->in_bytes > INT64_MAX || desc->out_bytes > INT64_MAX ||
        desc->scratch_bytes > INT64_MAX || desc->state_bytes > INT64_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "buffers of 2^63 bytes or more (count '%" PRIu64 "')",
                          c->count);
    if (desc->slot_count == 0)
        desc->slot_count = TUTTI_SLOTS_DEFAULT;
    if (desc->program_stride == 0)
        desc->program_stride = 1;
    status = tutti_tables_valid(desc, err);
    return status < 0 ? status : check_chunks(desc, err);
}

int tutti_builder_new(const struct tutti_schedule_desc *desc, struct tutti_builder **ret,
                      struct tutti_err *err)
{
    struct tutti_builder *b;
    struct tutti_schedule_desc checked = *desc;
    int status = check_desc(&checked, err);

    if (status < 0)
        return status;
    b = calloc(1, sizeof(*b));
    if (b == NULL)
        return tutti_nomem(err);
    b->desc = checked;
    b->cell_count = (uint64_t)program_count(&checked) * checked.lane_count;
    b->arena = tutti_arena_new();
    b->desc.name = b->arena == NULL ? NULL : tutti_arena_copy_text(b->arena, desc->name);
    if (b->desc.name == NULL)
        status = tutti_nomem(err);
    else
        status = tutti_tables_copy(&b->desc, b->arena, err);
    if (status < 0) {
        tutti_builder_free(b);
        return status;
    }
    *ret = b;
    return 0;
}

static int grow_steps(struct tutti_builder *b)
{
    size_t capacity = b->step_capacity == 0 ? 64 : b->step_capacity * 2;
    struct tutti_step *steps = realloc(b->steps, capacity * sizeof(*steps));
    uint32_t *cells;

    if (steps == NULL)
        return -TUTTI_ENOMEM;
    b->steps = steps;
    cells = realloc(b->cells, capacity * sizeof(*cells));
    if (cells == NULL)
        return -TUTTI_ENOMEM;
    b->cells = cells;
    b->step_capacity = capacity;
    return 0;
}

/* Steps of a schedule in chunks move whole chunks. */
static int check_step(const struct tutti_schedule_desc *desc, const struct tutti_step *step,
                      struct tutti_err *err)
{
    uint64_t chunk_bytes;

    if (desc->chunk_count == 0 || step->kind == TUTTI_COMPUTE)
        return 0;
    if (step->kind == TUTTI_CALL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a schedule in chunks that calls another (one in bytes)");
    chunk_bytes =
        desc->contract.count / desc->chunk_count * tutti_dtype_bytes(desc->contract.dtype);
    if (step->bytes % chunk_bytes != 0 || step->dst_offset % chunk_bytes != 0 ||
        step->src_offset % chunk_bytes != 0 || step->acc_offset % chunk_bytes != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a step whose places or length are not whole chunks of '%" PRIu64
                          "' bytes",
                          chunk_bytes);
    return 0;
}

static int add(struct tutti_builder *builder, uint32_t rank, uint32_t lane,
               const struct tutti_step *step, struct tutti_err *err)
{
    const struct tutti_schedule_desc *desc = &builder->desc;
    int status = check_step(desc, step, err);

    if (rank >= program_count(desc))
        return tutti_fail(err, TUTTI_EINVAL, "no rank '%u' (0 to %u)", rank,
                          program_count(desc) - 1);
    if (lane >= desc->lane_count)
        return tutti_fail(err, TUTTI_EINVAL, "no lane '%u' (0 to %u)", lane, desc->lane_count - 1);
    if (status < 0)
        return status;
    if (builder->step_count == builder->step_capacity && grow_steps(builder) < 0)
        return tutti_nomem(err);
    builder->steps[builder->step_count] = *step;
    builder->cells[builder->step_count++] = rank * desc->lane_count + lane;
    return 0;
}

int tutti_builder_add(struct tutti_builder *builder, uint32_t rank, uint32_t lane,
                      const struct tutti_step *step, struct tutti_err *err)
{
    if (builder->status == 0)
        builder->status = add(builder, rank, lane, step, &builder->err);
    if (builder->status < 0 && err != NULL)
        *err = builder->err;
    return builder->status;
}

int tutti_builder_set_sizes(struct tutti_builder *builder, uint32_t rank,
                            const struct tutti_buf_sizes *sizes, struct tutti_err *err)
{
    struct tutti_schedule_desc *d = &builder->desc;
    const struct tutti_buf_sizes all = {d->in_bytes, d->out_bytes, d->scratch_bytes,
                                        d->state_bytes};

    if (rank >= d->rank_count)
        return tutti_fail(err, TUTTI_EINVAL, "no rank '%u' (0 to %u)", rank, d->rank_count - 1);
    if (d->chunk_count > 0 || d->program_count > 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "sizes by rank of a schedule in chunks or of shared programs (others)");
    if (sizes->in_bytes > all.in_bytes || sizes->out_bytes > all.out_bytes ||
        sizes->scratch_bytes > all.scratch_bytes || sizes->state_bytes > all.state_bytes)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a buffer of rank '%u' is larger than the schedule's (up to its size)",
                          rank);
    if (d->contract.collective != TUTTI_CUSTOM &&
        (sizes->in_bytes != all.in_bytes || sizes->out_bytes != all.out_bytes))
        return tutti_fail(err, TUTTI_EINVAL,
                          "in and out of rank '%u' are not those of '%s' (its contract fixes them)",
                          rank, tutti_collective_name(d->contract.collective));
    if (builder->sizes == NULL) {
        builder->sizes = tutti_arena_take(builder->arena, d->rank_count, sizeof(*sizes));
        for (uint32_t i = 0; i < d->rank_count && builder->sizes != NULL; i++)
            builder->sizes[i] = all;
    }
    if (builder->sizes == NULL)
        return tutti_nomem(err);
    builder->sizes[rank] = *sizes;
    return 0;
}

int tutti_builder_add_callee(struct tutti_builder *builder, struct tutti_schedule *callee,
                             uint32_t *ret_index, struct tutti_err *err)
{
    const struct tutti_schedule **callees;
    uint64_t cell_count = (uint64_t)callee->rank_count * callee->lane_count;

    if (builder->desc.chunk_count > 0 || callee->chunk_count > 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "callee '%s': schedules in chunks neither call nor are called (in bytes)",
                          callee->name);
    if (callee->callee_count > 0)
        return tutti_fail(err, TUTTI_EINVAL, "callee '%s' has callees itself (one level)",
                          callee->name);
    if (callee->rank_count > builder->desc.rank_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "callee '%s' has '%u' ranks (at most %u, the caller's)", callee->name,
                          callee->rank_count, builder->desc.rank_count);
    if (builder->desc.program_count > 0)
        cell_count = 0; /* its own programs need not be stored either */
    if (builder->cell_count + cell_count > CELLS_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "with the '%u' lanes of callee '%s' there are too many to store "
                          "(ranks * lanes up to %d)",
                          callee->lane_count, callee->name, CELLS_MAX);
    callees = realloc(builder->callees, (builder->callee_count + (size_t)1) * sizeof(*callees));
    if (callees == NULL)
        return tutti_nomem(err);
    builder->callees = callees;
    builder->cell_count += cell_count;
    callees[builder->callee_count] = callee;
    *ret_index = builder->callee_count++;
    return 0;
}

static bool is_sorted(const struct tutti_builder *b)
{
    for (size_t i = 1; i < b->step_count; i++)
        if (b->cells[i - 1] > b->cells[i])
            return false;
    return true;
}

/* One pass of a radix sort: `from`, indices of steps, into `to` by eight bits of their cells. */
static void sort_pass(const struct tutti_builder *b, const size_t *from, size_t *to, unsigned shift)
{
    size_t next[257] = {0};

    for (size_t i = 0; i < b->step_count; i++)
        next[(b->cells[from[i]] >> shift & 255) + 1]++;
    for (size_t digit = 1; digit < 256; digit++)
        next[digit] += next[digit - 1];
    for (size_t i = 0; i < b->step_count; i++)
        to[next[b->cells[from[i]] >> shift & 255]++] = from[i];
}

/* Sorts steps and cells by lane, keeping their order inside each, in time that grows with the steps
 * alone. The steps end in the arena, the cells where they were. */
static struct tutti_step *sort_steps(struct tutti_builder *b)
{
    struct tutti_step *steps = tutti_arena_take(b->arena, b->step_count, sizeof(*steps));
    size_t *order = malloc((2 * b->step_count + 1) * sizeof(*order));
    uint32_t *cells = malloc((b->step_count + 1) * sizeof(*cells));
    size_t *other = order == NULL ? NULL : order + b->step_count;

    if (steps == NULL || order == NULL || cells == NULL) {
        free(order);
        free(cells);
        return NULL;
    }
    for (size_t i = 0; i < b->step_count; i++)
        order[i] = i;
    if (!is_sorted(b)) {
        sort_pass(b, order, other, 0);
        sort_pass(b, other, order, 8);
        sort_pass(b, order, other, 16); /* CELLS_MAX is 2^24 */
    } else {
        other = order;
    }
    for (size_t i = 0; i < b->step_count; i++) {
        steps[i] = b->steps[other[i]];
        cells[i] = b->cells[other[i]];
    }
    free(order);
    free(b->cells);
    b->cells = cells;
    return steps;
}

/* The lanes of sorted steps. */
static struct lane *find_lanes(struct tutti_builder *b, size_t *ret_count)
{
    struct lane *lanes;
    size_t count = 0;

    for (size_t i = 0; i < b->step_count; i++)
        count += i == 0 || b->cells[i] != b->cells[i - 1];
    lanes = tutti_arena_take(b->arena, count, sizeof(*lanes));
    if (lanes == NULL)
        return NULL;
    *ret_count = count;
    count = 0;
    for (size_t i = 0; i < b->step_count; i++) {
        if (i == 0 || b->cells[i] != b->cells[i - 1])
            lanes[count++] = (struct lane){.cell = b->cells[i], .first = i};
        lanes[count - 1].count++;
    }
    return lanes;
}

static struct stored_schedule *freeze(struct tutti_builder *b)
{
    const struct tutti_schedule_desc *desc = &b->desc;
    struct stored_schedule *s = tutti_arena_take(b->arena, 1, sizeof(*s));
    const struct tutti_schedule **callees =
        tutti_arena_take(b->arena, b->callee_count, sizeof(*callees));
    struct tutti_step *steps = sort_steps(b);
    size_t lane_count = 0;
    struct lane *lanes = steps == NULL ? NULL : find_lanes(b, &lane_count);

    if (s == NULL || lanes == NULL || callees == NULL)
        return NULL;
    if (b->callee_count > 0)
        memcpy(callees, b->callees, b->callee_count * sizeof(*callees));
    *s = (struct stored_schedule){
        .base = {.ops = desc->program_count > 0 ? &shared_ops : &stored_ops,
                 .arena = b->arena,
                 .name = desc->name,
                 .contract = desc->contract,
                 .rank_count = desc->rank_count,
                 .lane_count = desc->lane_count,
                 .slot_count = desc->slot_count,
                 .callee_count = b->callee_count,
                 .in_bytes = desc->in_bytes,
                 .out_bytes = desc->out_bytes,
                 .scratch_bytes = desc->scratch_bytes,
                 .state_bytes = desc->state_bytes,
                 .chunk_count = desc->chunk_count,
                 .callees = callees,
                 .axes = desc->axes,
                 .axis_count = desc->axis_count,
                 .work_count = desc->work_count,
                 .work = desc->work,
                 .atomics = desc->atomics,
                 .atomic_count = desc->atomic_count},
        .lanes = lanes,
        .lane_count = lane_count,
        .steps = steps,
        .sizes = b->sizes,
        .program_count = desc->program_count,
        .program_stride = desc->program_stride,
    };
    return s;
}

int tutti_builder_finish(struct tutti_builder *builder, struct tutti_schedule **ret,
                         struct tutti_err *err)
{
    struct stored_schedule *s = NULL;
    int status = builder->status;

    if (status < 0 && err != NULL)
        *err = builder->err;
    if (status == 0 && (s = freeze(builder)) == NULL)
        status = tutti_nomem(err);
    if (s != NULL) {
        builder->arena = NULL;
        builder->callee_count = 0;
        *ret = &s->base;
    }
    tutti_builder_free(builder);
    return status;
}

void tutti_builder_free(struct tutti_builder *builder)
{
    if (builder == NULL)
        return;
    for (uint32_t i = 0; i < builder->callee_count; i++)
        tutti_arena_free(builder->callees[i]->arena);
    tutti_arena_free(builder->arena);
    free(builder->callees);
    free(builder->steps);
    free(builder->cells);
    free(builder);
}
