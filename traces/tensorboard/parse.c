/* TensorBoard's event files: the reader. */
#include <assert.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "traces/protobuf/wire.h"
#include "traces/tensorboard.h"
#include "traces/tensorboard/event.h"
#include "traces/tensorboard/record.h"

enum { EVENTS_MIN = 64 };

struct parse {
    struct tutti_tensorboard_log log;
    size_t capacity;
    const char *name;
    uint64_t record; /* number of the one at hand, from 1 */
    struct tutti_err *err;
};

static int malformed(struct parse *parse, const char *what)
{
    return tutti_fail(parse->err, TUTTI_EINVAL, "%s: record %llu: malformed %s", parse->name,
                      (unsigned long long)parse->record, what);
}

/* Another event; room is taken twice as large each time. */
static int event_add(struct parse *parse, const struct tutti_tensorboard_event *event)
{
    struct tutti_tensorboard_log *log = &parse->log;

    if (log->event_count == parse->capacity) {
        size_t capacity = parse->capacity == 0 ? EVENTS_MIN : parse->capacity * 2;
        struct tutti_tensorboard_event *events =
            tutti_arena_take(log->arena, capacity, sizeof(*events));

        if (events == NULL)
            return tutti_nomem(parse->err);
        if (log->event_count > 0)
            memcpy(events, log->events, log->event_count * sizeof(*events));
        log->events = events;
        parse->capacity = capacity;
    }
    log->events[log->event_count++] = *event;
    return 0;
}

static int text_take(struct parse *parse, const struct tutti_protobuf_field *field,
                     const char **ret)
{
    char *text = tutti_arena_take(parse->log.arena, field->count + 1, 1);

    if (text == NULL)
        return tutti_nomem(parse->err);
    if (field->count > 0)
        memcpy(text, field->bytes, field->count);
    *ret = text;
    return 0;
}

/* ---- histograms ---------------------------------------------------------------------------- */

/* Doubles of a repeated field, packed or one by one, as protobuf's readers take both. */
struct doubles {
    double *values;
    size_t count;
};

static bool doubles_add(struct doubles *doubles, const struct tutti_protobuf_field *field)
{
    if (field->type == TUTTI_PROTOBUF_FIXED64) {
        if (doubles->values != NULL)
            doubles->values[doubles->count] = tutti_protobuf_as_double(field->value);
        doubles->count++;
        return true;
    }
    if (field->type != TUTTI_PROTOBUF_BYTES || field->count % 8 != 0)
        return false;
    for (size_t i = 0; i < field->count; i += 8) {
        if (doubles->values != NULL)
            doubles->values[doubles->count] =
                tutti_protobuf_as_double(tutti_protobuf_fixed(field->bytes + i, 8));
        doubles->count++;
    }
    return true;
}

/* Goes through the fields: once to count, once to keep (where there is room in `limits` and
 * `counts`). */
static bool histogram_scan(const struct tutti_protobuf_field *message,
                           struct tutti_tensorboard_histogram *ret, struct doubles *limits,
                           struct doubles *counts)
{
    double *const numbers[] = {NULL, &ret->min, &ret->max, &ret->num, &ret->sum, &ret->sum_squares};
    struct tutti_protobuf_reader reader = {message->bytes, message->count};
    struct tutti_protobuf_field field;
    int more;

    limits->count = counts->count = 0;
    while ((more = tutti_protobuf_next(&reader, &field)) > 0) {
        if (field.number <= TUTTI_HISTOGRAM_SUM_SQUARES && field.type == TUTTI_PROTOBUF_FIXED64)
            *numbers[field.number] = tutti_protobuf_as_double(field.value);
        else if (field.number <= TUTTI_HISTOGRAM_SUM_SQUARES)
            return false;
        if (field.number == TUTTI_HISTOGRAM_LIMITS && !doubles_add(limits, &field))
            return false;
        if (field.number == TUTTI_HISTOGRAM_COUNTS && !doubles_add(counts, &field))
            return false;
    }
    return more == 0 && limits->count == counts->count && limits->count <= UINT32_MAX;
}

static int histogram_take(struct parse *parse, const struct tutti_protobuf_field *message,
                          struct tutti_tensorboard_histogram *ret)
{
    struct tutti_tensorboard_histogram histogram = {0};
    struct doubles limits = {.values = NULL};
    struct doubles counts = {.values = NULL};

    if (message->type != TUTTI_PROTOBUF_BYTES ||
        !histogram_scan(message, &histogram, &limits, &counts))
        return malformed(parse, "histogram");
    limits.values = tutti_arena_take(parse->log.arena, limits.count, sizeof(double));
    counts.values = tutti_arena_take(parse->log.arena, counts.count, sizeof(double));
    if (limits.values == NULL || counts.values == NULL)
        return tutti_nomem(parse->err);
    (void)histogram_scan(message, &histogram, &limits, &counts);
    histogram.bucket_count = (uint32_t)limits.count;
    histogram.limits = limits.values;
    histogram.counts = counts.values;
    *ret = histogram;
    return 0;
}

/* ---- events -------------------------------------------------------------------------------- */

static int value_take(struct parse *parse, const struct tutti_protobuf_field *message,
                      struct tutti_tensorboard_event event)
{
    struct tutti_protobuf_reader reader = {message->bytes, message->count};
    struct tutti_protobuf_field field;
    int more = -1;
    int status = 0;

    event.kind = TUTTI_TENSORBOARD_OTHER;
    while (status == 0 && (more = tutti_protobuf_next(&reader, &field)) > 0) {
        if (field.number == TUTTI_VALUE_TAG && field.type == TUTTI_PROTOBUF_BYTES) {
            status = text_take(parse, &field, &event.tag);
        } else if (field.number == TUTTI_VALUE_SIMPLE && field.type == TUTTI_PROTOBUF_FIXED32) {
            event.kind = TUTTI_TENSORBOARD_SCALAR;
            event.value = (double)tutti_protobuf_as_float(field.value);
        } else if (field.number == TUTTI_VALUE_HISTOGRAM) {
            event.kind = TUTTI_TENSORBOARD_HISTOGRAM;
            status = histogram_take(parse, &field, &event.histogram);
        } else if (field.number <= TUTTI_VALUE_SIMPLE) {
            more = -1;
            break;
        }
    }
    if (status == 0 && more < 0)
        status = malformed(parse, "value of a summary");
    return status < 0 ? status : event_add(parse, &event);
}

static int summary_take(struct parse *parse, const struct tutti_protobuf_field *message,
                        const struct tutti_tensorboard_event *event)
{
    struct tutti_protobuf_reader reader = {message->bytes, message->count};
    struct tutti_protobuf_field field;
    int more = -1;
    int status = 0;

    while (status == 0 && (more = tutti_protobuf_next(&reader, &field)) > 0) {
        if (field.number == TUTTI_SUMMARY_VALUE && field.type == TUTTI_PROTOBUF_BYTES)
            status = value_take(parse, &field, *event);
    }
    return status == 0 && more < 0 ? malformed(parse, "summary") : status;
}

/* Wall time and step come first wherever they stand; then what the event holds. */
static int event_take(struct parse *parse, const uint8_t *bytes, size_t count)
{
    struct tutti_tensorboard_event event = {.tag = "", .kind = TUTTI_TENSORBOARD_OTHER};
    struct tutti_protobuf_reader reader = {bytes, count};
    struct tutti_protobuf_field field;
    struct tutti_protobuf_field what = {.number = 0};
    int more;
    int status;

    while ((more = tutti_protobuf_next(&reader, &field)) > 0) {
        if (field.number == TUTTI_EVENT_WALL_TIME && field.type == TUTTI_PROTOBUF_FIXED64)
            event.wall_s = tutti_protobuf_as_double(field.value);
        else if (field.number == TUTTI_EVENT_STEP && field.type == TUTTI_PROTOBUF_VARINT)
            event.step = (int64_t)field.value;
        else if (field.number <= TUTTI_EVENT_STEP)
            return malformed(parse, "event");
        else if (field.type == TUTTI_PROTOBUF_BYTES)
            what = field; /* one of several: the last counts */
    }
    if (more < 0)
        return malformed(parse, "event");
    if (what.number == TUTTI_EVENT_SUMMARY)
        return summary_take(parse, &what, &event);
    if (what.number == TUTTI_EVENT_FILE_VERSION) {
        event.kind = TUTTI_TENSORBOARD_VERSION;
        status = text_take(parse, &what, &event.tag);
        if (status < 0)
            return status;
    }
    return event_add(parse, &event);
}

int tutti_tensorboard_parse(const char *name, const uint8_t *bytes, size_t count,
                            struct tutti_tensorboard_log *ret, struct tutti_err *err)
{
    struct parse parse = {.name = name, .err = err};
    const uint8_t *data = NULL;
    size_t data_count = 0;
    int more = 0;
    int status = 0;

    parse.log.arena = tutti_arena_new();
    if (parse.log.arena == NULL)
        return tutti_nomem(err);
    while (status == 0 &&
           (more = tutti_record_next(bytes + parse.log.whole_bytes, count - parse.log.whole_bytes,
                                     &data, &data_count)) > 0) {
        parse.record++;
        status = event_take(&parse, data, data_count);
        parse.log.whole_bytes += TUTTI_RECORD_HEAD_BYTES + data_count + TUTTI_RECORD_TAIL_BYTES;
    }
    if (status == 0 && more < 0)
        status = tutti_fail(err, TUTTI_EINVAL, "%s: record %llu, at byte %zu: a wrong checksum",
                            name, (unsigned long long)parse.record + 1, parse.log.whole_bytes);
    if (status < 0) {
        tutti_tensorboard_log_free(&parse.log);
        return status;
    }
    *ret = parse.log;
    return 0;
}

void tutti_tensorboard_log_free(struct tutti_tensorboard_log *log)
{
    tutti_arena_free(log->arena);
    *log = (struct tutti_tensorboard_log){.event_count = 0};
}
