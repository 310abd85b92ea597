/* Collects what a simulated step tells, and writes it as a trace; see timeline.h. */
#include "tools/train/timeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/record.h"
#include "runtime/status.h"
#include "tools/cli/output.h"
#include "tools/cli/trace_file.h"
#include "traces/chrome.h"

/* Room for one more; false: no memory. */
static bool grow(void **items, size_t count, size_t *room, size_t bytes)
{
    size_t more = *room > 0 ? 2 * *room : 256;
    void *grown;

    if (count < *room)
        return true;
    grown = realloc(*items, more * bytes);
    if (grown == NULL)
        return false;
    *items = grown;
    *room = more;
    return true;
}

static void add_piece(struct tutti_train_timeline *t, const struct tutti_step_note *note)
{
    uint32_t lane = note->lane;
    void *items;

    if (lane >= TUTTI_STRATEGY_LANES || t->lost)
        return;
    items = t->piece[lane];
    t->lost = !grow(&items, t->count[lane], &t->room[lane], sizeof(*t->piece[lane]));
    t->piece[lane] = items;
    if (!t->lost)
        t->piece[lane][t->count[lane]++] = (struct tutti_train_piece){.step = *note->step,
                                                                      .begin_ps = note->begin_ps,
                                                                      .came_ps = note->came_ps,
                                                                      .end_ps = note->end_ps};
}

/* That of another rank than 0; NULL: it is one too many, or there is no memory. */
static struct tutti_train_timeline *other_of(struct tutti_train_timeline *t, uint32_t rank)
{
    struct tutti_train_timeline *made;

    for (uint32_t i = 0; i < t->other_count; i++)
        if (t->other[i]->rank == rank)
            return t->other[i];
    if (t->other_count == TUTTI_TRAIN_OTHERS_MAX)
        return NULL;
    made = calloc(1, sizeof(*made));
    if (made == NULL) {
        t->lost = true;
        return NULL;
    }
    made->rank = rank;
    made->schedule = t->schedule;
    t->other[t->other_count++] = made;
    return made;
}

static void note(void *context, const struct tutti_step_note *note)
{
    struct tutti_train_timeline *t = context;
    struct tutti_train_timeline *of = note->rank == 0 ? t : other_of(t, note->rank);

    if (of != NULL)
        add_piece(of, note);
}

static void note_call(void *context, const struct tutti_train_call *call)
{
    struct tutti_train_timeline *t = context;
    void *items = t->call;

    t->lost = t->lost || !grow(&items, t->call_count, &t->call_room, sizeof(*t->call));
    t->call = items;
    if (!t->lost)
        t->call[t->call_count++] = *call;
}

int tutti_train_timeline_watch(struct tutti_train_timeline *t, struct tutti_train_ask *ask,
                               struct tutti_err *err)
{
    tutti_train_timeline_done(t);
    ask->note = note;
    ask->call = note_call;
    ask->note_context = t;
    return tutti_train_schedule(ask, &t->schedule, err);
}

int tutti_train_timeline_check(const struct tutti_train_timeline *t, struct tutti_err *err)
{
    bool lost = t->lost;

    for (uint32_t i = 0; i < t->other_count; i++)
        lost |= t->other[i]->lost;
    return lost ? tutti_nomem(err) : 0;
}

void tutti_train_timeline_done(struct tutti_train_timeline *t)
{
    for (uint32_t i = 0; i < t->other_count; i++) {
        for (uint32_t lane = 0; lane < TUTTI_STRATEGY_LANES; lane++)
            free(t->other[i]->piece[lane]);
        free(t->other[i]);
    }
    for (uint32_t lane = 0; lane < TUTTI_STRATEGY_LANES; lane++)
        free(t->piece[lane]);
    free(t->call);
    tutti_schedule_free(t->schedule);
    *t = (struct tutti_train_timeline){.schedule = NULL};
}

/* ---- names ----------------------------------------------------------------------------------- */

const char *tutti_train_lane_name(uint32_t lane)
{
    static const char *const names[] = {[TUTTI_LANE_WORK] = "work",
                                        [TUTTI_LANE_REDUCE] = "reduce",
                                        [TUTTI_LANE_GATHER] = "gather",
                                        [TUTTI_LANE_ACROSS] = "across"};

    return lane < TUTTI_STRATEGY_LANES ? names[lane] : "lane";
}

/* That a collective moves; of work none are told. */
static uint64_t bytes_of(const struct tutti_train_timeline *t, const struct tutti_step *step)
{
    const struct tutti_schedule *callee;

    if (step->kind != TUTTI_CALL)
        return step->kind == TUTTI_COMPUTE ? 0 : step->bytes;
    callee = t->schedule->callees[step->peer];
    return tutti_collective_bytes(callee->contract.collective, callee->contract.count,
                                  callee->contract.dtype, callee->rank_count);
}

const char *tutti_train_piece_name(const struct tutti_train_timeline *t,
                                   const struct tutti_train_piece *piece,
                                   char buf[TUTTI_TRAIN_PIECE_BYTES])
{
    const struct tutti_step *step = &piece->step;
    const struct tutti_schedule *callee;
    char number[TUTTI_NUMBER_TEXT_BYTES];

    if (step->kind == TUTTI_COMPUTE)
        return step->peer > 0 ? t->schedule->work[step->peer - 1].name : "compute";
    if (step->kind != TUTTI_CALL)
        return "copy";
    callee = t->schedule->callees[step->peer];
    (void)snprintf(buf, TUTTI_TRAIN_PIECE_BYTES, "%s %s MB",
                   tutti_collective_name(callee->contract.collective),
                   tutti_number_text((double)bytes_of(t, step) / 1e6, number));
    return buf;
}

/* ---- the trace ------------------------------------------------------------------------------- */

struct naming {
    const struct tutti_train_timeline *timeline;
    char buf[TUTTI_TRAIN_PIECE_BYTES];
};

static const char *name_lane(const void *context, uint16_t lane)
{
    (void)context;
    return tutti_train_lane_name(lane);
}

static const char *name_step(const void *context, const struct tutti_event *event)
{
    /* the buffer is the caller's own, which it does not share */
    struct naming *naming = (struct naming *)(uintptr_t)context;
    const struct tutti_train_timeline *t = naming->timeline;

    for (uint32_t i = 0; i < naming->timeline->other_count; i++)
        if (naming->timeline->other[i]->rank == event->rank)
            t = naming->timeline->other[i];
    return tutti_train_piece_name(t, &t->piece[event->lane][event->step], naming->buf);
}

static int add_events(const struct tutti_train_timeline *t, struct tutti_record *record)
{
    int status = 0;

    for (uint32_t lane = 0; lane < TUTTI_STRATEGY_LANES; lane++)
        for (size_t i = 0; i < t->count[lane] && status == 0; i++) {
            const struct tutti_train_piece *p = &t->piece[lane][i];
            const struct tutti_event event = {
                .start_ps = p->begin_ps,
                .end_ps = p->end_ps,
                .rank = t->rank,
                .lane = (uint16_t)lane,
                .kind = p->step.kind,
                .step = i,
                .bytes = bytes_of(t, &p->step),
            };

            status = tutti_record_add(record, &event);
        }
    return status;
}

static int make_record(const struct tutti_train_timeline *t, struct tutti_record *record)
{
    int status = add_events(t, record);

    for (uint32_t i = 0; i < t->other_count && status == 0; i++)
        status = add_events(t->other[i], record);
    if (status == 0)
        tutti_record_sort(record);
    return status;
}

int tutti_train_trace(const struct tutti_train_timeline *t, const char *path, const char *title,
                      struct tutti_sink *sink, struct tutti_err *err)
{
    struct naming naming = {.timeline = t};
    const struct tutti_chrome_names names = {
        .lane = name_lane, .step = name_step, .context = &naming};
    struct tutti_record record;
    int status;

    tutti_record_init(&record);
    status = make_record(t, &record);
    status =
        status < 0 ? tutti_nomem(err) : tutti_trace_write(path, &record, title, &names, sink, err);
    tutti_record_done(&record);
    return status;
}
