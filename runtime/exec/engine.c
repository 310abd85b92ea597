/* The engine: program counters of some ranks, and which steps may start. No clock, no I/O. */
#include "runtime/engine.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/program.h"
#include "runtime/record.h"
#include "runtime/status.h"
#include "runtime/wide.h"

enum {
    DONE_BATCH = 64,
    STORE_BYTES = 64 << 20, /* programs up to this size are generated once, not in every run */
};

static const uint32_t NONE = UINT32_MAX;

/* A SEND that has been posted and has not finished. Its lane goes on meanwhile, so it keeps its own
 * copy of the step. */
struct send {
    uint64_t index;
    uint32_t next; /* in the lane, oldest first; or in the free list */
    struct tutti_step step;
};

struct lane {
    const struct tutti_step *step; /* the step to post, or posted; NULL: the lane has ended */
    uint64_t index;                /* of `step`: every earlier one has completed but for `sends` */
    const struct tutti_step *end;  /* stored programs only */
    struct tutti_cursor *cursor;   /* generated programs only, else NULL */
    uint32_t send_first;           /* SENDs posted and not finished, oldest first */
    uint32_t send_last;
    uint32_t waiter_first; /* lanes of this rank whose next step waits for a step of this one */
    uint32_t waiter_next;  /* links the list that this lane waits in */
    uint32_t rank;
    uint16_t lane;
    bool posted; /* `step` has been posted and has not finished; a SEND: not started */
    bool waiting;
};

struct tutti_engine {
    const struct tutti_schedule *schedule;
    uint32_t first_rank;
    uint32_t rank_count;
    uint32_t lane_total;
    struct tutti_program program;
    struct lane *lanes; /* [rank_count * schedule->lane_count] */
    struct tutti_cursor *cursors;
    struct send *sends;
    uint32_t send_free;
    uint32_t *ready; /* ring of lanes whose next step may be tried; each lane at most once */
    uint32_t ready_first;
    uint32_t ready_count;
    uint32_t lanes_left;     /* lanes that have not ended */
    uint64_t under_endpoint; /* steps posted and not finished, SENDs included */
    uint64_t step_count;     /* finished in this run */
    struct tutti_record *record;
};

/* ---- lanes ---- */

static void push_ready(struct tutti_engine *engine, uint32_t number)
{
    uint32_t at = engine->ready_first + engine->ready_count;

    assert(engine->ready_count < engine->lane_total);
    engine->ready[at < engine->lane_total ? at : at - engine->lane_total] = number;
    engine->ready_count++;
}

static uint32_t pop_ready(struct tutti_engine *engine)
{
    uint32_t number = engine->ready[engine->ready_first];

    assert(engine->ready_count > 0);
    engine->ready_count--;
    engine->ready_first++;
    if (engine->ready_first == engine->lane_total)
        engine->ready_first = 0;
    return number;
}

static bool has_completed(const struct tutti_engine *engine, const struct lane *lane, uint64_t step)
{
    if (step >= lane->index)
        return false;
    for (uint32_t s = lane->send_first; s != NONE; s = engine->sends[s].next) {
        if (engine->sends[s].index == step)
            return false;
    }
    return true;
}

/* The lane that the next step of `lane` depends on; the lanes of a rank lie side by side. */
static struct lane *dep_lane_of(struct lane *lane)
{
    return lane - lane->lane + lane->step->dep_lane;
}

/* On to the next step of the lane, which is then ready to be tried. */
static void advance(struct tutti_engine *engine, struct lane *lane)
{
    lane->posted = false;
    lane->index++;
    if (lane->cursor != NULL)
        lane->step = tutti_cursor_next(lane->cursor);
    else
        lane->step = lane->step + 1 < lane->end ? lane->step + 1 : NULL;
    if (lane->step != NULL)
        push_ready(engine, (uint32_t)(lane - engine->lanes));
    else
        engine->lanes_left--;
}

/* A step of `lane` has completed: those who waited for it may be tried again. */
static void wake(struct tutti_engine *engine, struct lane *lane)
{
    uint32_t *link = &lane->waiter_first;

    while (*link != NONE) {
        struct lane *waiter = &engine->lanes[*link];
        uint32_t number = *link;

        if (!has_completed(engine, lane, waiter->step->dep_step)) {
            link = &waiter->waiter_next;
            continue;
        }
        *link = waiter->waiter_next;
        waiter->waiting = false;
        push_ready(engine, number);
    }
}

/* ---- SENDs under way ---- */

static struct send *take_send(struct tutti_engine *engine, struct lane *lane)
{
    uint32_t number = engine->send_free;
    struct send *send = &engine->sends[number];

    assert(number != NONE); /* sends_max bounds them as long as the stage keeps to the slots */
    engine->send_free = send->next;
    *send = (struct send){.index = lane->index, .next = NONE, .step = *lane->step};
    if (lane->send_first == NONE)
        lane->send_first = number;
    else
        engine->sends[lane->send_last].next = number;
    lane->send_last = number;
    return send;
}

/* Takes the SEND out of its lane's list; its step stays readable until the next take_send. */
static const struct tutti_step *drop_send(struct tutti_engine *engine, struct lane *lane,
                                          uint64_t index)
{
    uint32_t *link = &lane->send_first;
    uint32_t before = NONE;
    uint32_t number;

    while (*link != NONE && engine->sends[*link].index != index) {
        before = *link;
        link = &engine->sends[*link].next;
    }
    number = *link;
    assert(number != NONE); /* the stage reports only what was posted, and once */
    *link = engine->sends[number].next;
    if (lane->send_last == number)
        lane->send_last = before;
    engine->sends[number].next = engine->send_free;
    engine->send_free = number;
    return &engine->sends[number].step;
}

/* ---- the run ---- */

static void rewind_lane(struct tutti_engine *engine, uint32_t number)
{
    struct lane *lane = &engine->lanes[number];
    const struct tutti_program_lane *program = &engine->program.lanes[number];

    *lane = (struct lane){
        .send_first = NONE,
        .send_last = NONE,
        .waiter_first = NONE,
        .waiter_next = NONE,
        .rank = engine->first_rank + number / engine->schedule->lane_count,
        .lane = (uint16_t)(number % engine->schedule->lane_count),
    };
    if (engine->cursors != NULL) {
        lane->cursor = &engine->cursors[number];
        tutti_cursor_open(lane->cursor, engine->schedule, lane->rank, lane->lane);
        lane->step = tutti_cursor_next(lane->cursor);
    } else if (program->step_count > 0) {
        lane->step = program->steps;
        lane->end = program->steps + program->step_count;
    }
    if (lane->step != NULL) {
        engine->lanes_left++;
        push_ready(engine, number);
    }
}

static void rewind_all(struct tutti_engine *engine)
{
    engine->ready_first = 0;
    engine->ready_count = 0;
    engine->lanes_left = 0;
    engine->under_endpoint = 0;
    engine->step_count = 0;
    engine->send_free = NONE;
    for (uint32_t s = (uint32_t)engine->program.sends_max; s > 0; s--) {
        engine->sends[s - 1].next = engine->send_free;
        engine->send_free = s - 1;
    }
    for (uint32_t i = 0; i < engine->lane_total; i++)
        rewind_lane(engine, i);
}

/* Posts the next step of a lane, or leaves the lane with those who wait for what it depends on. */
static int try_lane(struct tutti_engine *engine, uint32_t number, const struct tutti_stage_ops *ops,
                    void *stage, struct tutti_err *err)
{
    struct lane *lane = &engine->lanes[number];
    struct tutti_post post = {
        .rank = lane->rank, .lane = lane->lane, .index = lane->index, .step = lane->step};

    assert(lane->step != NULL);
    assert(!lane->posted);
    if ((lane->step->flags & TUTTI_STEP_DEP) != 0) {
        struct lane *dep = dep_lane_of(lane);

        if (!has_completed(engine, dep, lane->step->dep_step)) {
            lane->waiting = true;
            lane->waiter_next = dep->waiter_first;
            dep->waiter_first = number;
            return 0;
        }
    }
    if (lane->cursor == NULL && lane->step + 1 < lane->end)
        post.next = lane->step + 1;
    lane->posted = true;
    engine->under_endpoint++;
    if (lane->step->kind == TUTTI_SEND)
        post.step = &take_send(engine, lane)->step;
    return ops->post(stage, &post, err);
}

static int note(struct tutti_engine *engine, const struct tutti_done *done,
                const struct tutti_step *step, struct tutti_err *err)
{
    bool has_peer = step->kind == TUTTI_SEND || step->kind == TUTTI_RECV;
    struct tutti_event event = {
        .start_ps = done->start_ps,
        .end_ps = done->end_ps,
        .rank = done->rank,
        .lane = (uint16_t)done->lane,
        .kind = step->kind,
        .peer = has_peer ? step->peer : 0,
        .step = done->index,
        .bytes = step->kind == TUTTI_COMPUTE ? 0 : step->bytes,
    };

    return tutti_record_add(engine->record, &event) < 0 ? tutti_nomem(err) : 0;
}

static int take_done(struct tutti_engine *engine, const struct tutti_done *done,
                     struct tutti_err *err)
{
    struct lane *lane;
    const struct tutti_step *step;
    bool is_send;

    assert(done->rank - engine->first_rank < engine->rank_count);
    assert(done->lane < engine->schedule->lane_count);
    lane =
        &engine
             ->lanes[(done->rank - engine->first_rank) * engine->schedule->lane_count + done->lane];
    /* A SEND that has started lies behind the lane's step; anything else finished is that step. */
    is_send = done->what == TUTTI_DONE_FINISHED && done->index < lane->index;
    if (!is_send) {
        assert(lane->posted && done->index == lane->index);
        assert((lane->step->kind == TUTTI_SEND) == (done->what == TUTTI_DONE_STARTED));
    }
    if (done->what == TUTTI_DONE_STARTED) {
        advance(engine, lane);
        return 0;
    }
    step = is_send ? drop_send(engine, lane, done->index) : lane->step;
    engine->under_endpoint--;
    engine->step_count++;
    if (engine->record != NULL) {
        int status = note(engine, done, step, err);

        if (status < 0)
            return status;
    }
    if (!is_send)
        advance(engine, lane);
    if (lane->waiter_first != NONE)
        wake(engine, lane);
    return 0;
}

static int deadlock(const struct tutti_engine *engine, struct tutti_err *err)
{
    char text[256 + TUTTI_STEP_TEXT_BYTES];

    tutti_engine_waiting_for(engine, text, sizeof(text));
    return tutti_fail(err, TUTTI_ECHECK, "deadlock: %s can never finish", text);
}

int tutti_engine_new(const struct tutti_schedule *schedule, uint32_t first_rank,
                     uint32_t rank_count, struct tutti_engine **ret, struct tutti_err *err)
{
    struct tutti_engine *engine;
    size_t lane_total = (size_t)rank_count * schedule->lane_count;
    int status;

    assert(rank_count > 0 && first_rank < schedule->rank_count);
    assert(rank_count <= schedule->rank_count - first_rank);
    if (lane_total >= NONE)
        return tutti_fail(err, TUTTI_EINVAL, "too many lanes: %zu (at most %u in one engine)",
                          lane_total, NONE - 1);
    engine = calloc(1, sizeof(*engine));
    if (engine == NULL)
        return tutti_nomem(err);
    engine->schedule = schedule;
    engine->first_rank = first_rank;
    engine->rank_count = rank_count;
    engine->lane_total = (uint32_t)lane_total;
    status =
        tutti_program_open(&engine->program, schedule, first_rank, rank_count, STORE_BYTES, err);
    if (status == 0 && engine->program.sends_max >= NONE / 2)
        status = tutti_nomem(err);
    if (status == 0) {
        bool stored = engine->program.stored != NULL || engine->program.step_count == 0;

        engine->lanes = calloc(lane_total + 1, sizeof(engine->lanes[0]));
        engine->ready = calloc(lane_total + 1, sizeof(engine->ready[0]));
        engine->sends = calloc((size_t)engine->program.sends_max + 1, sizeof(engine->sends[0]));
        if (!stored)
            engine->cursors = calloc(lane_total, sizeof(engine->cursors[0]));
        if (engine->lanes == NULL || engine->ready == NULL || engine->sends == NULL ||
            (!stored && engine->cursors == NULL))
            status = tutti_nomem(err);
    }
    if (status < 0) {
        tutti_engine_free(engine);
        return status;
    }
    rewind_all(engine);
    *ret = engine;
    return 0;
}

void tutti_engine_free(struct tutti_engine *engine)
{
    if (engine == NULL)
        return;
    tutti_program_close(&engine->program);
    free(engine->lanes);
    free(engine->ready);
    free(engine->sends);
    free(engine->cursors);
    free(engine);
}

int tutti_engine_run(struct tutti_engine *engine, const struct tutti_stage_ops *ops, void *stage,
                     struct tutti_record *record, struct tutti_err *err)
{
    struct tutti_done done[DONE_BATCH];

    if (record != NULL && tutti_record_reserve(record, tutti_size(record->event_count +
                                                                  engine->program.step_count)) < 0)
        return tutti_nomem(err);
    engine->record = record;
    rewind_all(engine);
    while (engine->lanes_left > 0 || engine->under_endpoint > 0) {
        int status;

        while (engine->ready_count > 0) {
            status = try_lane(engine, pop_ready(engine), ops, stage, err);
            if (status < 0)
                return status;
        }
        if (engine->under_endpoint == 0)
            return deadlock(engine, err);
        status = ops->poll(stage, done, DONE_BATCH, err);
        if (status < 0)
            return status;
        if (status == 0)
            return deadlock(engine, err);
        for (int i = 0; i < status; i++) {
            int noted = take_done(engine, &done[i], err);

            if (noted < 0)
                return noted;
        }
    }
    return 0;
}

uint64_t tutti_engine_step_count(const struct tutti_engine *engine)
{
    return engine->step_count;
}

/* Of the lowest rank with something left: a step that is under way tells more than one that waits
 * for another lane, and that more than a SEND nobody has taken. */
uint32_t tutti_engine_lanes_left(const struct tutti_engine *engine)
{
    return engine->lanes_left;
}

void tutti_engine_waiting_for(const struct tutti_engine *engine, char *buf, size_t buf_bytes)
{
    const struct lane *best = NULL;
    const struct tutti_step *step = NULL;
    uint64_t index = 0;
    int best_worth = 0;
    char text[TUTTI_STEP_TEXT_BYTES];
    char dep[64] = "";

    for (uint32_t i = 0; i < engine->lane_total; i++) {
        const struct lane *lane = &engine->lanes[i];
        int worth = lane->posted ? 3 : lane->step != NULL ? 2 : lane->send_first < NONE ? 1 : 0;

        if (best != NULL && lane->rank != best->rank)
            break;
        if (worth <= best_worth)
            continue;
        best_worth = worth;
        best = lane;
        step = worth > 1 ? lane->step : &engine->sends[lane->send_first].step;
        index = worth > 1 ? lane->index : engine->sends[lane->send_first].index;
    }
    if (best == NULL) {
        snprintf(buf, buf_bytes, "nothing");
        return;
    }
    if (best->waiting)
        snprintf(dep, sizeof(dep), ", which waits for lane %u, step %u", step->dep_lane,
                 step->dep_step);
    snprintf(buf, buf_bytes, "rank %u, lane %u, step %llu (%s)%s", best->rank, best->lane,
             (unsigned long long)index, tutti_step_text(step, text), dep);
}
