/* Writing records in Chrome's JSON trace event format, which Perfetto reads too. A SEND goes on
 * while its lane does other things, but the slices of a thread must nest; so SENDs under way lie
 * on threads of their own beside the lane's. */
#include "traces/chrome.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/record.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "traces/text/text.h"

/* Thread of the k-th SEND under way on a lane: lane + k * TRACK_STRIDE, k from 1; lanes have 16
 * bits. More than TRACKS_MAX at once share the last. */
enum { TRACKS_MAX = 64, TRACK_STRIDE = 1 << 16 };

struct slice {
    const struct tutti_event *event;
    uint32_t tid;
};

static int compare_u64(uint64_t left, uint64_t right)
{
    return (left > right) - (left < right);
}

/* By rank, lane, start, step: the order in which they are written. */
static int by_place(const void *left, const void *right)
{
    const struct tutti_event *a = ((const struct slice *)left)->event;
    const struct tutti_event *b = ((const struct slice *)right)->event;
    int order = compare_u64(a->rank, b->rank);

    if (order == 0)
        order = compare_u64(a->lane, b->lane);
    if (order == 0)
        order = (a->start_ps > b->start_ps) - (a->start_ps < b->start_ps);
    return order != 0 ? order : compare_u64(a->step, b->step);
}

static uint32_t sender(const struct tutti_event *event)
{
    return event->kind == TUTTI_SEND ? event->rank : event->peer;
}

static uint32_t receiver(const struct tutti_event *event)
{
    return event->kind == TUTTI_SEND ? event->peer : event->rank;
}

static int by_connection(const struct tutti_event *a, const struct tutti_event *b)
{
    int order = compare_u64(sender(a), sender(b));

    if (order == 0)
        order = compare_u64(receiver(a), receiver(b));
    return order != 0 ? order : compare_u64(a->lane, b->lane);
}

/* SENDs, then RECVs, each by connection and program order; other steps last. */
static int by_message(const void *left, const void *right)
{
    const struct tutti_event *a = ((const struct slice *)left)->event;
    const struct tutti_event *b = ((const struct slice *)right)->event;
    int order = compare_u64(a->kind, b->kind);

    _Static_assert(TUTTI_SEND < TUTTI_RECV && TUTTI_RECV < TUTTI_REDUCE, "sort order");
    if (order == 0 && a->kind <= TUTTI_RECV)
        order = by_connection(a, b);
    return order != 0 ? order : compare_u64(a->step, b->step);
}

/* Gives each slice (sorted by place) its thread. */
static void lay_out(struct slice *slices, size_t count)
{
    tutti_ps track_end_ps[TRACKS_MAX];
    uint32_t track_count = 0;

    for (size_t i = 0; i < count; i++) {
        const struct tutti_event *event = slices[i].event;
        uint32_t track = 0;
        if (i == 0 || event->rank != slices[i - 1].event->rank ||
            event->lane != slices[i - 1].event->lane)
            track_count = 0;
        slices[i].tid = event->lane;
        if (event->kind != TUTTI_SEND)
            continue;
        while (track < track_count && track_end_ps[track] > event->start_ps)
            track++;
        if (track == TRACKS_MAX)
            track = TRACKS_MAX - 1;
        if (track == track_count)
            track_count++;
        track_end_ps[track] = event->end_ps;
        slices[i].tid += (track + 1) * TRACK_STRIDE;
    }
}

/* Microseconds with all the digits that picoseconds have. */
static void add_time(struct tutti_trace_text *text, const char *key, tutti_ps ps)
{
    uint64_t size = ps < 0 ? 0 - (uint64_t)ps : (uint64_t)ps;

    tutti_trace_text_add(text, ",\"%s\":%s%" PRIu64 ".%06" PRIu64, key, ps < 0 ? "-" : "",
                         size / 1000000, size % 1000000);
}

static void add_place(struct tutti_trace_text *text, const struct slice *slice)
{
    tutti_trace_text_add(text, ",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32, slice->event->rank,
                         slice->tid);
}

/* Begins an event of the list. */
static void add_event(struct tutti_trace_text *text, const char *phase)
{
    bool first = text->count > 0 && text->bytes[text->count - 1] == '[';

    tutti_trace_text_add(text, "%s\n{\"ph\":\"%s\"", first ? "" : ",", phase);
}

static void add_slice(struct tutti_trace_text *text, const struct slice *slice,
                      const struct tutti_chrome_names *names)
{
    const struct tutti_event *event = slice->event;
    const char *kind = tutti_trace_kind_name(event->kind);

    add_event(text, "X");
    tutti_trace_text_add(text, ",\"cat\":\"%s\",\"name\":", kind);
    if (names != NULL)
        tutti_trace_text_add_json(text, names->step(names->context, event));
    else if (event->kind == TUTTI_SEND)
        tutti_trace_text_add(text, "\"%s to %" PRIu32 "\"", kind, event->peer);
    else if (event->kind == TUTTI_RECV)
        tutti_trace_text_add(text, "\"%s from %" PRIu32 "\"", kind, event->peer);
    else
        tutti_trace_text_add(text, "\"%s\"", kind);
    add_time(text, "ts", event->start_ps);
    add_time(text, "dur", event->end_ps - event->start_ps);
    add_place(text, slice);
    tutti_trace_text_add(text, ",\"args\":{\"step\":%" PRIu64 ",\"bytes\":%" PRIu64 "}}",
                         event->step, event->bytes);
}

static void add_rank_name(struct tutti_trace_text *text, uint32_t rank)
{
    add_event(text, "M");
    tutti_trace_text_add(text,
                         ",\"name\":\"process_name\",\"pid\":%" PRIu32
                         ",\"args\":{\"name\":\"rank %" PRIu32 "\"}}",
                         rank, rank);
    add_event(text, "M");
    tutti_trace_text_add(text,
                         ",\"name\":\"process_sort_index\",\"pid\":%" PRIu32
                         ",\"args\":{\"sort_index\":%" PRIu32 "}}",
                         rank, rank);
}

static void add_thread_name(struct tutti_trace_text *text, const struct slice *slice,
                            const struct tutti_chrome_names *names)
{
    uint32_t track = slice->tid / TRACK_STRIDE;

    add_event(text, "M");
    tutti_trace_text_add(text, ",\"name\":\"thread_name\"");
    add_place(text, slice);
    if (names != NULL) /* a word */
        tutti_trace_text_add(text, ",\"args\":{\"name\":\"%s",
                             names->lane(names->context, slice->event->lane));
    else
        tutti_trace_text_add(text, ",\"args\":{\"name\":\"lane %u", (unsigned)slice->event->lane);
    if (track > 0)
        tutti_trace_text_add(text, " sends %" PRIu32, track);
    tutti_trace_text_add(text, "\"}}");
    add_event(text, "M");
    tutti_trace_text_add(text, ",\"name\":\"thread_sort_index\"");
    add_place(text, slice);
    tutti_trace_text_add(text, ",\"args\":{\"sort_index\":%" PRIu64 "}}",
                         (uint64_t)slice->event->lane * (TRACKS_MAX + 1) + track);
}

static void add_slices(struct tutti_trace_text *text, const struct slice *slices, size_t count,
                       const struct tutti_chrome_names *names)
{
    uint64_t named[TRACKS_MAX / 64 + 1] = {0}; /* threads of this lane that have their name */

    for (size_t i = 0; i < count; i++) {
        bool new_rank = i == 0 || slices[i].event->rank != slices[i - 1].event->rank;
        bool new_lane = new_rank || slices[i].event->lane != slices[i - 1].event->lane;
        uint32_t track = slices[i].tid / TRACK_STRIDE;
        if (new_lane)
            memset(named, 0, sizeof(named));
        if (new_rank)
            add_rank_name(text, slices[i].event->rank);
        if ((named[track / 64] >> track % 64 & 1) == 0)
            add_thread_name(text, &slices[i], names);
        named[track / 64] |= UINT64_C(1) << track % 64;
        add_slice(text, &slices[i], names);
    }
}

static void add_arrow(struct tutti_trace_text *text, const struct slice *send,
                      const struct slice *recv, uint64_t id)
{
    static const char flow[] = ",\"cat\":\"message\",\"name\":\"message\"";
    tutti_ps end_ps = recv->event->end_ps;

    add_event(text, "s");
    tutti_trace_text_add(text, "%s,\"id\":%" PRIu64, flow, id);
    add_time(text, "ts", send->event->start_ps);
    add_place(text, send);
    tutti_trace_text_add(text, "}");
    add_event(text, "f");
    tutti_trace_text_add(text, "%s,\"bp\":\"e\",\"id\":%" PRIu64, flow, id);
    /* A flow ends in the slice that encloses its time; a slice does not enclose its own end. */
    add_time(text, "ts", end_ps > recv->event->start_ps ? end_ps - 1 : end_ps);
    add_place(text, recv);
    tutti_trace_text_add(text, "}");
}

/* Pairs the k-th SEND of each connection with its k-th RECV. */
static void add_arrows(struct tutti_trace_text *text, const struct slice *slices, size_t count)
{
    size_t send = 0;
    size_t recv = 0;
    uint64_t id = 0;

    while (send < count && slices[send].event->kind < TUTTI_SEND)
        send++;
    while (recv < count && slices[recv].event->kind <= TUTTI_SEND)
        recv++;
    while (send < count && slices[send].event->kind == TUTTI_SEND && recv < count &&
           slices[recv].event->kind == TUTTI_RECV) {
        int order = by_connection(slices[send].event, slices[recv].event);
        if (order == 0)
            add_arrow(text, &slices[send], &slices[recv], id++);
        send += order <= 0;
        recv += order >= 0;
    }
}

int tutti_chrome_print(const struct tutti_record *record, const char *title, char **ret,
                       struct tutti_err *err)
{
    return tutti_chrome_print_named(record, title, NULL, ret, err);
}

int tutti_chrome_print_named(const struct tutti_record *record, const char *title,
                             const struct tutti_chrome_names *names, char **ret,
                             struct tutti_err *err)
{
    struct tutti_trace_text text = {0};
    size_t count = record->event_count;
    struct slice *slices = malloc((count + 1) * sizeof(*slices));

    if (slices == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < count; i++)
        slices[i] = (struct slice){.event = &record->events[i]};
    qsort(slices, count, sizeof(*slices), by_place);
    lay_out(slices, count);
    tutti_trace_text_add(&text, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"title\":");
    tutti_trace_text_add_json(&text, title);
    tutti_trace_text_add(&text, "},\"traceEvents\":[");
    add_slices(&text, slices, count, names);
    qsort(slices, count, sizeof(*slices), by_message);
    add_arrows(&text, slices, count);
    tutti_trace_text_add(&text, "\n]}\n");
    free(slices);
    return tutti_trace_text_finish(&text, ret, err);
}
