/* The same schedule without CALL steps. */
#include "runtime/arena.h"
#include "runtime/schedule.h"
#include "runtime/status.h"

/* A schedule without callees seen through another, so that both can be freed alike. */
struct passed_schedule {
    struct tutti_schedule base;
    const struct tutti_schedule *inner;
};

static uint64_t passed_round_count(const struct tutti_schedule *schedule, uint32_t rank,
                                   uint32_t lane)
{
    const struct tutti_schedule *inner = ((const struct passed_schedule *)schedule)->inner;

    return inner->ops->round_count(inner, rank, lane);
}

static void passed_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                        uint64_t round, struct tutti_round *out)
{
    const struct tutti_schedule *inner = ((const struct passed_schedule *)schedule)->inner;

    inner->ops->emit(inner, rank, lane, round, out);
}

static const struct tutti_schedule_ops passed_ops = {
    .size = sizeof(struct tutti_schedule_ops),
    .round_count = passed_round_count,
    .emit = passed_emit,
};

int tutti_schedule_flatten(const struct tutti_schedule *schedule, struct tutti_schedule **ret,
                           struct tutti_err *err)
{
    struct tutti_arena *arena;
    struct passed_schedule *passed;

    if (schedule->callee_count > 0)
        return tutti_fail(err, TUTTI_ELACK,
                          "schedule '%s' calls others, which this build cannot play",
                          schedule->name);
    arena = tutti_arena_new();
    passed = arena == NULL ? NULL : tutti_arena_take(arena, 1, sizeof(*passed));
    if (passed == NULL) {
        tutti_arena_free(arena);
        return tutti_nomem(err);
    }
    passed->base = *schedule;
    passed->base.ops = &passed_ops;
    passed->base.arena = arena;
    passed->inner = schedule;
    *ret = &passed->base;
    return 0;
}
