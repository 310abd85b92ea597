/* In which order the steps of a program are put into streams: each once what it waits for is. */
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/cuda/streams_state.h"
#include "runtime/status.h"

/* A lane of the first rank here. */
struct lane {
    struct tutti_step *steps;
    uint32_t *numbers; /* [step]: its entry, once it is put in */
    uint32_t count;
    uint32_t next;
};

static void free_lanes(struct lane *lanes, uint32_t count)
{
    for (uint32_t l = 0; lanes != NULL && l < count; l++) {
        free(lanes[l].steps);
        free(lanes[l].numbers);
    }
    free(lanes);
}

static int read_lane(const struct tutti_schedule *schedule, uint32_t rank, uint32_t number,
                     struct lane *lane, struct tutti_err *err)
{
    uint64_t count = tutti_schedule_step_count(schedule, rank, number);
    const struct tutti_step *step;
    struct tutti_cursor cursor;

    if (count > UINT32_MAX / 2)
        return tutti_fail(err, TUTTI_ELACK, "lane %u has too many steps", number);
    lane->steps = calloc((size_t)count + 1, sizeof(lane->steps[0]));
    lane->numbers = calloc((size_t)count + 1, sizeof(lane->numbers[0]));
    if (lane->steps == NULL || lane->numbers == NULL)
        return tutti_nomem(err);
    tutti_cursor_open(&cursor, schedule, rank, number);
    while ((step = tutti_cursor_next(&cursor)) != NULL) {
        if (step->kind != TUTTI_COMPUTE && step->kind != TUTTI_CALL && step->kind != TUTTI_COPY)
            return tutti_fail(err, TUTTI_ELACK,
                              "rank %u, lane %u, step %u: streams play COMPUTE, CALL and COPY "
                              "alone",
                              rank, number, lane->count);
        lane->steps[lane->count++] = *step;
    }
    return 0;
}

/* All ranks here run what the first one runs. */
static int compare(const struct tutti_schedule *schedule, uint32_t rank, uint32_t number,
                   const struct lane *lane, struct tutti_err *err)
{
    const struct tutti_step *step;
    struct tutti_cursor cursor;
    uint32_t i = 0;

    tutti_cursor_open(&cursor, schedule, rank, number);
    while ((step = tutti_cursor_next(&cursor)) != NULL && i < lane->count &&
           memcmp(step, &lane->steps[i], sizeof(*step)) == 0)
        i++;
    if (step != NULL || i < lane->count)
        return tutti_fail(err, TUTTI_ELACK,
                          "rank %u, lane %u, step %u: ranks run different programs, which streams "
                          "do not play",
                          rank, number, i);
    return 0;
}

static int read_lanes(const struct tutti_streams *s, struct lane *lanes, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = s->play.schedule;
    int status = 0;

    for (uint32_t l = 0; l < schedule->lane_count && status == 0; l++) {
        status = read_lane(schedule, s->opts.first_rank, l, &lanes[l], err);
        for (uint32_t i = 1; i < s->opts.own_count && status == 0; i++)
            status = compare(schedule, s->opts.first_rank + i, l, &lanes[l], err);
    }
    return status;
}

/* The next step of a lane, if what it waits for has been put in; false: not yet, or the end. */
static bool put_next(struct tutti_streams *s, struct lane *lanes, uint32_t number)
{
    struct lane *lane = &lanes[number];
    struct tutti_streams_entry *entry = &s->entries[s->entry_count];
    const struct tutti_step *step = &lane->steps[lane->next];

    if (lane->next == lane->count)
        return false;
    *entry = (struct tutti_streams_entry){
        .step = *step, .lane = number, .index = lane->next, .dependency = UINT32_MAX};
    if ((step->flags & TUTTI_STEP_DEP) != 0) {
        const struct lane *other = &lanes[step->dep_lane];

        if (step->dep_step >= other->next)
            return false;
        if (step->dep_lane != number) {
            entry->dependency = other->numbers[step->dep_step];
            s->entries[entry->dependency].awaited = true;
        }
    }
    if (step->kind == TUTTI_COMPUTE && step->peer != 0) {
        const struct tutti_work *work = &s->play.schedule->work[step->peer - 1];

        s->staged = s->staged || (work->run != NULL && !work->queued);
    }
    lane->numbers[lane->next++] = s->entry_count++;
    return true;
}

/* Lanes take turns, so that each is as far as it can be. */
int tutti_streams_order(struct tutti_streams *s, struct tutti_err *err)
{
    const uint32_t lane_count = s->play.schedule->lane_count;
    struct lane *lanes = calloc((size_t)lane_count + 1, sizeof(lanes[0]));
    int status = lanes == NULL ? tutti_nomem(err) : read_lanes(s, lanes, err);
    size_t total = 0;
    bool moved = true;

    for (uint32_t l = 0; status == 0 && l < lane_count; l++)
        total += lanes[l].count;
    if (status == 0) {
        s->entries = calloc(total + 1, sizeof(s->entries[0]));
        status = s->entries == NULL ? tutti_nomem(err) : 0;
    }
    while (status == 0 && moved) {
        moved = false;
        for (uint32_t l = 0; l < lane_count; l++)
            moved = put_next(s, lanes, l) || moved;
    }
    if (status == 0 && s->entry_count < total)
        status = tutti_fail(err, TUTTI_ECHECK, "the schedule '%s' waits for itself",
                            s->play.schedule->name);
    free_lanes(lanes, lane_count);
    return status;
}
