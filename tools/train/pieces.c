/* Finds COMPUTEs, CALLs and messages between stages in the record of a step; see pieces.h. */
#include "tools/train/pieces.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model.h"
#include "runtime/record.h"
#include "runtime/status.h"

/* A walk through one lane of one rank: the strategy's steps beside those of the schedule laid out,
 * and the events of these. */
struct walk {
    struct tutti_cursor written;
    struct tutti_cursor flat;
    const struct tutti_step *next; /* of `flat` */
    uint32_t lane_count;           /* that the strategy wrote */
    bool has_calls;                /* the record: it is of the schedule as it was written */
    const struct tutti_event *at;
    const struct tutti_event *end;
};

static int by_place(const void *left, const void *right)
{
    const struct tutti_event *a = left;
    const struct tutti_event *b = right;

    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->lane != b->lane)
        return a->lane < b->lane ? -1 : 1;
    return (a->step > b->step) - (a->step < b->step);
}

/* The event of the next step laid out; NULL: the record has another. */
static const struct tutti_event *advance(struct walk *w, uint32_t rank, uint32_t lane)
{
    const struct tutti_event *event = w->at;

    if (w->next == NULL || event == w->end || event->rank != rank || event->lane != lane ||
        event->kind != w->next->kind)
        return NULL;
    w->at++;
    w->next = tutti_cursor_next(&w->flat);
    return event;
}

/* A CALL is laid out as a fork and a join for each lane that its collective has at this rank; it
 * begins when what it waits for is there. */
static bool take_call(struct walk *w, struct tutti_train_real_piece *piece)
{
    const struct tutti_event *event = advance(w, piece->rank, piece->lane);

    if (event == NULL)
        return false;
    piece->begin_ps = piece->end_ps = event->end_ps;
    while (w->next != NULL && w->next->kind == TUTTI_COPY &&
           (w->next->flags & TUTTI_STEP_DEP) != 0 && w->next->dep_lane >= w->lane_count) {
        event = advance(w, piece->rank, piece->lane);
        if (event == NULL)
            return false;
        piece->end_ps = event->end_ps;
    }
    return true;
}

/* Adds the pieces of one lane; false: the record is of another schedule. */
static bool take_lane(struct walk *w, uint32_t rank, uint32_t lane, struct tutti_train_pieces *ret)
{
    const struct tutti_step *step;

    for (uint64_t index = 0; (step = tutti_cursor_next(&w->written)) != NULL; index++) {
        struct tutti_train_real_piece piece = {
            .step = *step, .index = index, .rank = rank, .lane = lane};
        const struct tutti_event *event;

        if (step->kind == TUTTI_CALL && !w->has_calls) {
            if (!take_call(w, &piece))
                return false;
        } else {
            event = advance(w, rank, lane);
            if (event == NULL)
                return false;
            piece.begin_ps = event->start_ps;
            piece.end_ps = event->end_ps;
        }
        if (step->kind == TUTTI_CALL || step->kind == TUTTI_COMPUTE || step->kind == TUTTI_SEND ||
            step->kind == TUTTI_RECV)
            ret->pieces[ret->count++] = piece;
    }
    return true;
}

static bool take_all(const struct tutti_schedule *schedule, const struct tutti_schedule *flat,
                     const struct tutti_event *events, size_t count, struct tutti_train_pieces *ret)
{
    struct walk w = {.lane_count = schedule->lane_count, .at = events, .end = events + count};
    bool whole = true;

    for (size_t i = 0; i < count; i++)
        w.has_calls = w.has_calls || events[i].kind == TUTTI_CALL;
    for (uint32_t rank = 0; rank < schedule->rank_count && whole; rank++) {
        while (w.at < w.end && w.at->rank < rank) /* messages of the rank before */
            w.at++;
        for (uint32_t lane = 0; lane < schedule->lane_count && whole; lane++) {
            tutti_cursor_open(&w.written, schedule, rank, lane);
            tutti_cursor_open(&w.flat, w.has_calls ? schedule : flat, rank, lane);
            w.next = tutti_cursor_next(&w.flat);
            whole = take_lane(&w, rank, lane, ret);
        }
    }
    return whole;
}

int tutti_train_pieces_make(const struct tutti_schedule *schedule,
                            const struct tutti_record *record, struct tutti_train_pieces *ret,
                            struct tutti_err *err)
{
    struct tutti_train_pieces made = {.schedule = schedule};
    struct tutti_schedule *flat = NULL;
    struct tutti_event *events = malloc((record->event_count + 1) * sizeof(*events));
    int status = tutti_schedule_flatten(schedule, &flat, err);

    made.pieces = calloc(record->event_count + 1, sizeof(made.pieces[0]));
    if (status == 0 && (events == NULL || made.pieces == NULL))
        status = tutti_nomem(err);
    for (size_t i = 0; i < record->event_count && status == 0; i++)
        events[i] = record->events[i];
    if (status == 0 && record->event_count > 0)
        qsort(events, record->event_count, sizeof(*events), by_place);
    if (status == 0 && !take_all(schedule, flat, events, record->event_count, &made))
        status = tutti_fail(err, TUTTI_EINVAL, "a record of '%zu' steps is not one of '%s'",
                            record->event_count, schedule->name);
    free(events);
    tutti_schedule_free(flat);
    if (status < 0)
        tutti_train_pieces_done(&made);
    else
        *ret = made;
    return status;
}

void tutti_train_pieces_done(struct tutti_train_pieces *p)
{
    free(p->pieces);
    *p = (struct tutti_train_pieces){.count = 0};
}

/* A step of local SGD plays several. */
struct tutti_train_parts tutti_train_pieces_parts(const struct tutti_train_pieces *p,
                                                  tutti_ps step_ps)
{
    struct tutti_train_parts parts = {.step_s = 0};
    double input_count = 0;

    for (size_t i = 0; i < p->count; i++) {
        const struct tutti_train_real_piece *piece = &p->pieces[i];
        const double s = (double)(piece->end_ps - piece->begin_ps);

        if (piece->step.kind != TUTTI_COMPUTE)
            continue;
        switch (tutti_train_work_class(p->schedule, piece->step.peer - 1)) {
        case TUTTI_TRAIN_WORK_INPUT:
            parts.input_s += s;
            input_count++;
            break;
        case TUTTI_TRAIN_WORK_LAYER:
            parts.compute_s += s;
            break;
        default:
            parts.update_s += s;
        }
    }
    input_count *= (double)TUTTI_PS_PER_S;
    parts.step_s = (double)step_ps / input_count * p->schedule->rank_count;
    parts.compute_s /= input_count;
    parts.input_s /= input_count;
    parts.update_s /= input_count;
    parts.exposed_s = parts.step_s - parts.compute_s - parts.input_s - parts.update_s;
    return parts;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text);
    const size_t end_length = strlen(end);

    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

enum tutti_train_work_class tutti_train_work_class(const struct tutti_schedule *schedule,
                                                   uint32_t entry)
{
    const struct tutti_work *work = &schedule->work[entry];

    if (work->kind == TUTTI_WORK_INPUT && strcmp(work->name, "input") == 0)
        return TUTTI_TRAIN_WORK_INPUT;
    return ends_with(work->name, ".forward") || ends_with(work->name, ".backward") ||
                   ends_with(work->name, ".backward-add")
               ? TUTTI_TRAIN_WORK_LAYER
               : TUTTI_TRAIN_WORK_UPDATE;
}

const struct tutti_layer *tutti_train_work_layer(const struct tutti_workload *model,
                                                 const char *work, bool *ret_backward)
{
    const char *pass = strrchr(work, '.');
    const struct tutti_layer *found = NULL;

    if (pass == NULL)
        return NULL;
    *ret_backward = strcmp(pass, ".forward") != 0;
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const struct tutti_layer *layer = &model->layers[i];
        const size_t length = strlen(layer->name);

        if (length <= (size_t)(pass - work) && strncmp(layer->name, work, length) == 0 &&
            work[length] == '.' && (found == NULL || length > strlen(found->name)))
            found = layer;
    }
    return found;
}
