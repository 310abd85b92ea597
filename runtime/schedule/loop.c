/* Programs as loops: the writer, and the schedule that asks it for stretches of steps. */
#include "runtime/loop.h"

#include <assert.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/schedule/tables.h"
#include "runtime/status.h"

struct loop_schedule {
    struct tutti_schedule base;
    uint32_t share_lanes;
    void (*write)(struct tutti_loop *w);
    const void *context;
};

/* ---- the writer ------------------------------------------------------------------------------ */

struct tutti_step *tutti_loop_append(struct tutti_loop *w, struct tutti_step step)
{
    uint64_t index = w->at[w->lane]++;
    struct tutti_step *place = &w->spare;

    if (w->lane == w->wanted && index >= w->first && index < w->end)
        place = &w->rounds[(index - w->first) / TUTTI_ROUND_STEPS_MAX]
                     .step[(index - w->first) % TUTTI_ROUND_STEPS_MAX];
    *place = step;
    return place;
}

struct tutti_step *tutti_loop_recv_reduce(struct tutti_loop *w, uint32_t from,
                                          struct tutti_buf_at dst, struct tutti_buf_at acc,
                                          struct tutti_buf_at staging, uint64_t bytes)
{
    struct tutti_step recv = tutti_step_recv(staging, bytes, from);

    recv.flags |= TUTTI_STEP_FUSE;
    tutti_loop_append(w, recv);
    return tutti_loop_append(w, tutti_step_reduce(dst, acc, staging, bytes));
}

void tutti_loop_on(struct tutti_loop *w, uint32_t lane)
{
    assert(lane < w->lane_count);
    w->lane = lane;
}

struct tutti_loop_mark tutti_loop_next(const struct tutti_loop *w)
{
    return (struct tutti_loop_mark){w->lane, w->at[w->lane]};
}

struct tutti_loop_mark tutti_loop_last(const struct tutti_loop *w)
{
    assert(w->at[w->lane] > 0);
    return (struct tutti_loop_mark){w->lane, w->at[w->lane] - 1};
}

void tutti_loop_after(const struct tutti_loop *w, struct tutti_step *step,
                      struct tutti_loop_mark mark)
{
    step->flags |= TUTTI_STEP_DEP;
    step->dep_lane = (uint16_t)(w->share * w->lane_count + mark.lane);
    step->dep_step = (uint32_t)mark.step;
}

struct tutti_loop_turns tutti_loop_begin(const struct tutti_loop *w, uint64_t times)
{
    struct tutti_loop_turns turns = {.times = times};

    memcpy(turns.before, w->at, sizeof(turns.before));
    return turns;
}

/* Of the turns that are left, how many come before the first that is asked for. */
static uint64_t turns_to_pass(const struct tutti_loop *w, uint64_t a_turn, uint64_t left)
{
    uint64_t at = w->at[w->wanted];
    uint64_t pass;

    if (a_turn == 0 || at >= w->end)
        return left;
    pass = at < w->first ? (w->first - at) / a_turn : 0;
    return pass < left ? pass : left;
}

void tutti_loop_turn(struct tutti_loop *w, struct tutti_loop_turns *turns)
{
    uint64_t pass;

    for (uint32_t lane = 0; lane < w->lane_count; lane++) {
        if (turns->turn == 0)
            turns->a_turn[lane] = w->at[lane] - turns->before[lane];
        /* Each turn has as many steps as the first: the header says so. */
        assert(w->at[lane] == turns->before[lane] + (turns->turn + 1) * turns->a_turn[lane]);
    }
    turns->turn++;
    pass = turns_to_pass(w, turns->a_turn[w->wanted], turns->times - turns->turn);
    turns->turn += pass;
    for (uint32_t lane = 0; lane < w->lane_count; lane++)
        w->at[lane] += pass * turns->a_turn[lane];
}

/* ---- the schedule ---------------------------------------------------------------------------- */

/* Writes steps [first, first + 16 * round_count) of a lane; returns how many the lane has. */
static uint64_t write_steps(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                            uint64_t first, uint32_t round_count, struct tutti_round *rounds)
{
    const struct loop_schedule *s = (const struct loop_schedule *)schedule;
    struct tutti_loop w = {
        .rank = rank,
        .rank_count = schedule->rank_count,
        .share = lane / s->share_lanes,
        .context = s->context,
        .lane_count = s->share_lanes,
        .wanted = lane % s->share_lanes,
        .first = first,
        .end = first + (uint64_t)round_count * TUTTI_ROUND_STEPS_MAX,
        .rounds = rounds,
    };

    s->write(&w);
    return w.at[w.wanted];
}

static uint64_t loop_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                 uint32_t lane)
{
    uint64_t count = write_steps(schedule, rank, lane, UINT64_MAX, 0, NULL);

    return (count + TUTTI_ROUND_STEPS_MAX - 1) / TUTTI_ROUND_STEPS_MAX;
}

static void loop_emit_run(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                          uint64_t round, uint32_t count, struct tutti_round *out)
{
    uint64_t first = round * TUTTI_ROUND_STEPS_MAX;
    uint64_t end = write_steps(schedule, rank, lane, first, count, out);

    for (uint32_t i = 0; i < count; i++, first += TUTTI_ROUND_STEPS_MAX)
        out[i].step_count = end <= first                          ? 0
                            : end - first < TUTTI_ROUND_STEPS_MAX ? (uint32_t)(end - first)
                                                                  : TUTTI_ROUND_STEPS_MAX;
}

static void loop_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                      uint64_t round, struct tutti_round *out)
{
    loop_emit_run(schedule, rank, lane, round, 1, out);
}

static const struct tutti_schedule_ops loop_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = loop_round_count,
    .emit = loop_emit,
    .emit_run = loop_emit_run,
};

/* The builder knows what is wrong with a head. */
static int check_head(const struct tutti_schedule_desc *head, struct tutti_buf_sizes *ret,
                      uint32_t *ret_slots, struct tutti_err *err)
{
    struct tutti_schedule_desc small = *head;
    struct tutti_schedule *schedule = NULL;
    struct tutti_builder *builder = NULL;
    int status;

    if (head->axis_count + head->work_count + head->atomic_count > 0 || head->chunk_count > 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a generator of loops with axes, work or chunks (without)");
    status = tutti_builder_new(&small, &builder, err);
    if (status == 0)
        status = tutti_builder_finish(builder, &schedule, err);
    if (status < 0)
        return status;
    tutti_schedule_buf_sizes(schedule, 0, ret);
    *ret_slots = schedule->slot_count;
    tutti_schedule_free(schedule);
    return 0;
}

static struct loop_schedule *make(struct tutti_arena *arena, const struct tutti_loop_desc *desc)
{
    struct loop_schedule *s = tutti_arena_take(arena, 1, sizeof(*s));
    char *context = tutti_arena_take(arena, desc->context_bytes, 1);
    const char *name = tutti_arena_copy_text(arena, desc->head.name);

    if (s == NULL || context == NULL || name == NULL)
        return NULL;
    if (desc->context_bytes > 0)
        memcpy(context, desc->context, desc->context_bytes);
    *s = (struct loop_schedule){.share_lanes = desc->share_lanes,
                                .write = desc->write,
                                .context = context,
                                .base = {.ops = &loop_ops,
                                         .arena = arena,
                                         .name = name,
                                         .contract = desc->head.contract,
                                         .rank_count = desc->head.rank_count,
                                         .lane_count = desc->head.lane_count}};
    return s;
}

static int loop_schedule(const struct tutti_loop_desc *desc, struct tutti_schedule **ret,
                         struct tutti_err *err)
{
    struct tutti_buf_sizes sizes = {0};
    struct tutti_arena *arena;
    struct loop_schedule *s;
    uint32_t slot_count = 0;
    int status = check_head(&desc->head, &sizes, &slot_count, err);

    if (status < 0)
        return status;
    if (desc->share_lanes < 1 || desc->share_lanes > TUTTI_LOOP_LANES_MAX ||
        desc->head.lane_count % desc->share_lanes != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "shares of '%u' lanes of %u in all (1 to %d, dividing them)",
                          desc->share_lanes, desc->head.lane_count, TUTTI_LOOP_LANES_MAX);
    arena = tutti_arena_new();
    s = arena == NULL ? NULL : make(arena, desc);
    if (s == NULL) {
        tutti_arena_free(arena);
        return tutti_nomem(err);
    }
    s->base.slot_count = slot_count;
    s->base.in_bytes = sizes.in_bytes;
    s->base.out_bytes = sizes.out_bytes;
    s->base.scratch_bytes = sizes.scratch_bytes;
    s->base.state_bytes = sizes.state_bytes;
    *ret = &s->base;
    return 0;
}

int tutti_loop_schedule(const struct tutti_loop_desc *desc, struct tutti_schedule **ret,
                        struct tutti_err *err)
{
    struct tutti_loop_desc own;
    int status = tutti_take("tutti_loop_desc", &own, sizeof(own), desc,
                            TUTTI_BYTES_TO(struct tutti_loop_desc, context_bytes), err);

    return status < 0 ? status : loop_schedule(&own, ret, err);
}
