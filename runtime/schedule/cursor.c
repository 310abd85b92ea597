/* Reading a program: a cursor walks one lane, asking the generator for one round at a time. */
#include <assert.h>

#include "runtime/arena.h"
#include "runtime/schedule.h"

void tutti_schedule_free(struct tutti_schedule *schedule)
{
    if (schedule == NULL)
        return;
    for (uint32_t i = 0; i < schedule->callee_count; i++) {
        assert(schedule->callees[i]->callee_count == 0); /* one level; see flatten */
        tutti_arena_free(schedule->callees[i]->arena);
    }
    tutti_arena_free(schedule->arena);
}

void tutti_cursor_open(struct tutti_cursor *cursor, const struct tutti_schedule *schedule,
                       uint32_t rank, uint32_t lane)
{
    assert(rank < schedule->rank_count);
    assert(lane < schedule->lane_count);
    cursor->schedule = schedule;
    cursor->rank = rank;
    cursor->lane = lane;
    cursor->round = 0;
    cursor->round_count = schedule->ops->round_count(schedule, rank, lane);
    cursor->step_index = 0;
    cursor->position = 0;
    cursor->batch.step_count = 0;
}

const struct tutti_step *tutti_cursor_next(struct tutti_cursor *cursor)
{
    const struct tutti_schedule *schedule = cursor->schedule;

    while (cursor->position == cursor->batch.step_count) {
        if (cursor->round == cursor->round_count)
            return NULL;
        cursor->position = 0;
        cursor->batch.step_count = 0;
        schedule->ops->emit(schedule, cursor->rank, cursor->lane, cursor->round, &cursor->batch);
        assert(cursor->batch.step_count <= TUTTI_ROUND_STEPS_MAX);
        cursor->round++;
    }
    cursor->step_index++;
    return &cursor->batch.step[cursor->position++];
}

void tutti_schedule_emit(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                         uint64_t round, uint32_t count, struct tutti_round *out)
{
    for (uint32_t i = 0; i < count; i++)
        out[i].step_count = 0;
    if (schedule->ops->emit_run != NULL) {
        schedule->ops->emit_run(schedule, rank, lane, round, count, out);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        schedule->ops->emit(schedule, rank, lane, round + i, &out[i]);
}

uint64_t tutti_schedule_step_count(const struct tutti_schedule *schedule, uint32_t rank,
                                   uint32_t lane)
{
    struct tutti_round batch;
    uint64_t round_count = schedule->ops->round_count(schedule, rank, lane);
    uint64_t step_count = 0;

    for (uint64_t round = 0; round < round_count; round++) {
        batch.step_count = 0;
        schedule->ops->emit(schedule, rank, lane, round, &batch);
        assert(batch.step_count <= TUTTI_ROUND_STEPS_MAX);
        step_count += batch.step_count;
    }
    return step_count;
}
