/* Fuzzes TensorBoard's event files: as they are, and as one event whose checksums hold, which
 * random bytes would never get beyond. */
#include <stdbool.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge.h"
#include "traces/protobuf/wire.h"
#include "traces/tensorboard.h"
#include "traces/tensorboard/record.h"

/* Reads both, for a sanitizer to see. */
static void touch(const volatile double *limit, const volatile double *count)
{
    (void)*limit;
    (void)*count;
}

static void judge_log(const struct tutti_tensorboard_log *log, size_t bytes)
{
    JUDGE(log->whole_bytes <= bytes);
    for (size_t i = 0; i < log->event_count; i++) {
        const struct tutti_tensorboard_event *event = &log->events[i];

        JUDGE(event->tag != NULL);
        JUDGE(strlen(event->tag) < bytes);
        JUDGE(event->kind <= TUTTI_TENSORBOARD_OTHER);
        JUDGE(event->histogram.bucket_count <= bytes / 16);
        for (uint32_t k = 0; k < event->histogram.bucket_count; k++)
            touch(&event->histogram.limits[k], &event->histogram.counts[k]);
    }
}

static void parse(const uint8_t *data, size_t bytes, bool is_whole)
{
    struct tutti_tensorboard_log log = {0};
    struct tutti_err err = {""};
    int status = tutti_tensorboard_parse("fuzz", data, bytes, &log, &err);

    if (status < 0) {
        judge_refusal(status, &err);
        return;
    }
    JUDGE(!is_whole || log.whole_bytes == bytes);
    judge_log(&log, bytes);
    tutti_tensorboard_log_free(&log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tutti_protobuf wire = {0};
    size_t record = tutti_record_open(&wire);

    tutti_protobuf_raw(&wire, data, bytes);
    tutti_record_close(&wire, record);
    parse(data, bytes, false);
    if (!wire.failed)
        parse(wire.bytes, wire.count, true);
    free(wire.bytes);
    return 0;
}
