/* Writes a played step as a trace with names; see pieces.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/coll.h"
#include "runtime/parallel_step.h"
#include "runtime/record.h"
#include "runtime/status.h"
#include "tools/cli/output.h"
#include "tools/cli/trace_file.h"
#include "tools/train/pieces.h"
#include "tools/train/timeline.h"
#include "traces/chrome.h"

enum { NAME_BYTES = 96 };

/* Pieces as events: `step` is the number of a piece, in `waits` that of the one behind the wait. */
struct naming {
    const struct tutti_train_pieces *pieces;
    char name[NAME_BYTES];
};

static void name_piece(const struct tutti_train_pieces *p,
                       const struct tutti_train_real_piece *piece, char name[NAME_BYTES])
{
    const struct tutti_schedule *callee;
    char number[TUTTI_NUMBER_TEXT_BYTES];
    uint64_t bytes;

    if (piece->step.kind == TUTTI_COMPUTE) {
        (void)snprintf(name, NAME_BYTES, "%s", p->schedule->work[piece->step.peer - 1].name);
        return;
    }
    if (piece->step.kind != TUTTI_CALL) {
        (void)snprintf(name, NAME_BYTES, "%s %u",
                       piece->step.kind == TUTTI_SEND ? "send to" : "receive from",
                       piece->step.peer);
        return;
    }
    callee = p->schedule->callees[piece->step.peer];
    bytes = tutti_collective_bytes(callee->contract.collective, callee->contract.count,
                                   callee->contract.dtype, callee->rank_count);
    (void)snprintf(name, NAME_BYTES, "%s %s %s", tutti_collective_name(callee->contract.collective),
                   tutti_number_text(bytes < 10000 ? (double)bytes : (double)bytes / 1e6, number),
                   bytes < 10000 ? "B" : "MB");
}

static int by_place(const struct tutti_train_real_piece *a, uint32_t rank, uint32_t lane,
                    uint64_t index)
{
    if (a->rank != rank)
        return a->rank < rank ? -1 : 1;
    if (a->lane != lane)
        return a->lane < lane ? -1 : 1;
    return (a->index > index) - (a->index < index);
}

/* The piece of a rank that is step `index` of its lane; NULL: that is none. */
static const struct tutti_train_real_piece *find(const struct tutti_train_pieces *p, uint32_t rank,
                                                 uint32_t lane, uint64_t index)
{
    size_t low = 0;
    size_t high = p->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (by_place(&p->pieces[middle], rank, lane, index) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->count && by_place(&p->pieces[low], rank, lane, index) == 0 ? &p->pieces[low]
                                                                               : NULL;
}

static void name_wait(const struct tutti_train_pieces *p,
                      const struct tutti_train_real_piece *before, char name[NAME_BYTES])
{
    static const char words[] = "waits for ";
    const struct tutti_train_real_piece *for_what =
        (before->step.flags & TUTTI_STEP_DEP) != 0
            ? find(p, before->rank, before->step.dep_lane, before->step.dep_step)
            : NULL;
    char what[NAME_BYTES];

    if (for_what == NULL) { /* what it needs is there, but for a thread */
        (void)snprintf(name, NAME_BYTES, "waits to start");
        return;
    }
    name_piece(p, for_what, what);
    (void)snprintf(name, NAME_BYTES, "%s%.*s", words, (int)(NAME_BYTES - sizeof(words)), what);
}

static const char *name_step(const void *context, const struct tutti_event *event)
{
    /* the buffer is the caller's own, which it does not share */
    struct naming *n = (struct naming *)(uintptr_t)context;
    const struct tutti_train_pieces *p = n->pieces;

    if (event->lane >= p->schedule->lane_count) {
        if (event->kind == TUTTI_SEND || event->kind == TUTTI_RECV)
            (void)snprintf(n->name, NAME_BYTES, "%s %u",
                           event->kind == TUTTI_SEND ? "send to" : "receive from", event->peer);
        else
            (void)snprintf(n->name, NAME_BYTES, "%s",
                           event->kind == TUTTI_REDUCE ? "reduce" : "copy");
    } else if (event->kind == TUTTI_COPY) {
        name_wait(p, &p->pieces[event->step], n->name);
    } else {
        name_piece(p, &p->pieces[event->step], n->name);
    }
    return n->name;
}

static const char *name_lane(const void *context, uint16_t lane)
{
    const struct tutti_schedule *s = ((const struct naming *)context)->pieces->schedule;

    if (lane >= s->lane_count)
        return "messages";
    if (s->lane_count == TUTTI_PARALLEL_LANES)
        return lane == 0 ? "work" : lane + 1 == TUTTI_PARALLEL_LANES ? "reduce" : "between stages";
    return tutti_train_lane_name(lane);
}

static int add(struct tutti_record *record, const struct tutti_train_real_piece *piece, size_t step,
               uint8_t kind, tutti_ps begin_ps, tutti_ps end_ps)
{
    const struct tutti_event event = {.start_ps = begin_ps,
                                      .end_ps = end_ps,
                                      .rank = piece->rank,
                                      .lane = (uint16_t)piece->lane,
                                      .kind = kind,
                                      .step = step};

    return tutti_record_add(record, &event);
}

/* Of the lane of work the gaps, too: what is next waits for something, or for a processor. */
static int add_pieces(const struct tutti_train_pieces *p, struct tutti_record *record)
{
    tutti_ps free_ps = 0;
    int status = 0;

    for (size_t i = 0; i < p->count && status == 0; i++) {
        const struct tutti_train_real_piece *piece = &p->pieces[i];
        const bool works = piece->lane == TUTTI_LANE_WORK;

        if (i == 0 || piece->rank != piece[-1].rank)
            free_ps = 0;
        if (works && piece->begin_ps > free_ps)
            status = add(record, piece, i, TUTTI_COPY, free_ps, piece->begin_ps);
        if (status == 0)
            status = add(record, piece, i, piece->step.kind, piece->begin_ps, piece->end_ps);
        if (works)
            free_ps = piece->end_ps;
    }
    return status;
}

static int add_messages(const struct tutti_train_pieces *p, const struct tutti_record *from,
                        struct tutti_record *record)
{
    int status = 0;

    for (size_t i = 0; i < from->event_count && status == 0; i++) {
        const struct tutti_event *e = &from->events[i];
        const bool joins = e->kind == TUTTI_COPY && e->bytes == 0;

        if (e->lane >= p->schedule->lane_count && !joins)
            status = tutti_record_add(record, e);
    }
    return status;
}

int tutti_train_pieces_trace(const struct tutti_train_pieces *p, const struct tutti_record *from,
                             const char *path, const char *title, struct tutti_sink *sink,
                             struct tutti_err *err)
{
    struct naming naming = {.pieces = p};
    const struct tutti_chrome_names names = {
        .lane = name_lane, .step = name_step, .context = &naming};
    struct tutti_record record;
    int status;

    tutti_record_init(&record);
    status = add_pieces(p, &record);
    if (status == 0)
        status = add_messages(p, from, &record);
    tutti_record_sort(&record);
    status =
        status < 0 ? tutti_nomem(err) : tutti_trace_write(path, &record, title, &names, sink, err);
    tutti_record_done(&record);
    return status;
}
