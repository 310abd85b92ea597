/* Packing of messages; see message.h. */
#include "runtime/servers/message.h"

#include <assert.h>
#include <string.h>

#include "runtime/frames.h"
#include "runtime/status.h"

enum { BYTE_ORDER_MARK = 0x01020304 };

static void done(const struct tutti_frames_writer *w)
{
    assert(!w->full);
    assert(w->bytes == w->room);
}

/* ---- the head -------------------------------------------------------------------------------- */

void tutti_server_head_put(const struct tutti_server_head *head,
                           uint8_t ret[TUTTI_SERVER_HEAD_BYTES])
{
    struct tutti_frames_writer w = {.data = ret, .room = TUTTI_SERVER_HEAD_BYTES};

    tutti_frames_put_u64(&w, head->generation);
    tutti_frames_put_u32(&w, head->incarnation);
    tutti_frames_put_u32(&w, head->member);
    tutti_frames_put_u64(&w, head->episode);
    tutti_frames_put_u64(&w, head->step);
    tutti_frames_put_u64(&w, head->sequence);
    tutti_frames_put_u64(&w, head->number);
    done(&w);
}

int tutti_server_head_get(const void *bytes, size_t byte_count, struct tutti_server_head *ret,
                          struct tutti_err *err)
{
    struct tutti_frames_reader r = {.data = bytes, .bytes = byte_count};

    ret->generation = tutti_frames_get_u64(&r);
    ret->incarnation = tutti_frames_get_u32(&r);
    ret->member = tutti_frames_get_u32(&r);
    ret->episode = tutti_frames_get_u64(&r);
    ret->step = tutti_frames_get_u64(&r);
    ret->sequence = tutti_frames_get_u64(&r);
    ret->number = tutti_frames_get_u64(&r);
    if (r.bad)
        return tutti_fail(err, TUTTI_EINVAL, "a message of '%zu' bytes (at least %d)", byte_count,
                          TUTTI_SERVER_HEAD_BYTES);
    return 0;
}

/* ---- reports --------------------------------------------------------------------------------- */

static void put_sums(struct tutti_frames_writer *w, const struct tutti_sums *sums)
{
    tutti_frames_put_double(w, sums->loss);
    tutti_frames_put_double(w, sums->correct);
    tutti_frames_put_double(w, sums->examples);
}

static struct tutti_sums get_sums(struct tutti_frames_reader *r)
{
    struct tutti_sums sums;

    sums.loss = tutti_frames_get_double(r);
    sums.correct = tutti_frames_get_double(r);
    sums.examples = tutti_frames_get_double(r);
    return sums;
}

void tutti_server_report_put(const struct tutti_server_report *report,
                             uint8_t ret[TUTTI_SERVER_REPORT_BYTES])
{
    struct tutti_frames_writer w = {.data = ret, .room = TUTTI_SERVER_REPORT_BYTES};

    put_sums(&w, &report->sums);
    tutti_frames_put_double(&w, report->gradient_norm);
    tutti_frames_put_double(&w, report->compute_s);
    done(&w);
}

void tutti_server_report_get(const uint8_t bytes[TUTTI_SERVER_REPORT_BYTES],
                             struct tutti_server_report *ret)
{
    struct tutti_frames_reader r = {.data = bytes, .bytes = TUTTI_SERVER_REPORT_BYTES};

    ret->sums = get_sums(&r);
    ret->gradient_norm = tutti_frames_get_double(&r);
    ret->compute_s = tutti_frames_get_double(&r);
    assert(tutti_frames_get_all(&r));
}

void tutti_server_told_put(const struct tutti_servers_told *told,
                           uint8_t ret[TUTTI_SERVER_TOLD_BYTES])
{
    struct tutti_frames_writer w = {.data = ret, .room = TUTTI_SERVER_TOLD_BYTES};

    tutti_frames_put_u64(&w, told->step);
    tutti_frames_put_u32(&w, told->worker);
    tutti_frames_put_u32(&w, told->gradients);
    tutti_frames_put_u64(&w, told->staleness);
    tutti_frames_put_u64(&w, told->dropped);
    put_sums(&w, &told->sums);
    tutti_frames_put_double(&w, told->gradient_norm);
    tutti_frames_put_double(&w, told->compute_s);
    tutti_frames_put_double(&w, told->at_s);
    done(&w);
}

void tutti_server_told_get(const uint8_t bytes[TUTTI_SERVER_TOLD_BYTES],
                           struct tutti_servers_told *ret)
{
    struct tutti_frames_reader r = {.data = bytes, .bytes = TUTTI_SERVER_TOLD_BYTES};

    ret->step = tutti_frames_get_u64(&r);
    ret->worker = tutti_frames_get_u32(&r);
    ret->gradients = tutti_frames_get_u32(&r);
    ret->staleness = tutti_frames_get_u64(&r);
    ret->dropped = tutti_frames_get_u64(&r);
    ret->sums = get_sums(&r);
    ret->gradient_norm = tutti_frames_get_double(&r);
    ret->compute_s = tutti_frames_get_double(&r);
    ret->at_s = tutti_frames_get_double(&r);
    assert(tutti_frames_get_all(&r));
}

/* ---- hello ----------------------------------------------------------------------------------- */

size_t tutti_server_hello_put(const struct tutti_server_hello *hello,
                              uint8_t ret[TUTTI_SERVER_HELLO_BYTES])
{
    const uint32_t mark = BYTE_ORDER_MARK;
    struct tutti_frames_writer w = {.data = ret, .room = TUTTI_SERVER_HELLO_BYTES};

    tutti_frames_put_bytes(&w, &mark, sizeof(mark)); /* as this machine has it */
    tutti_frames_put_u32(&w, hello->role);
    tutti_frames_put_u32(&w, hello->index);
    tutti_frames_put_u64(&w, hello->generation);
    tutti_frames_put_text(&w, hello->model);
    tutti_frames_put_text(&w, hello->training);
    assert(!w.full);
    return w.bytes;
}

int tutti_server_hello_get(const void *bytes, size_t byte_count, struct tutti_server_hello *ret,
                           struct tutti_err *err)
{
    struct tutti_frames_reader r = {.data = bytes, .bytes = byte_count};
    const uint8_t *at = tutti_frames_get_bytes(&r, sizeof(uint32_t));
    uint32_t mark = 0;

    if (at != NULL)
        memcpy(&mark, at, sizeof(mark));
    ret->role = tutti_frames_get_u32(&r);
    ret->index = tutti_frames_get_u32(&r);
    ret->generation = tutti_frames_get_u64(&r);
    ret->model = tutti_frames_get_text(&r);
    ret->training = tutti_frames_get_text(&r);
    if (!tutti_frames_get_all(&r))
        return tutti_fail(err, TUTTI_EINVAL,
                          "its first message of '%zu' bytes does not say who it "
                          "is",
                          byte_count);
    if (mark != BYTE_ORDER_MARK)
        return tutti_fail(err, TUTTI_EINVAL, "its machine has another byte order");
    return 0;
}

int tutti_server_failure_get(const void *bytes, size_t byte_count, struct tutti_err *err)
{
    const size_t text_bytes = byte_count - TUTTI_SERVER_HEAD_BYTES;

    assert(byte_count >= TUTTI_SERVER_HEAD_BYTES);
    return tutti_fail(err, TUTTI_EIO, "%.*s", (int)(text_bytes < 1000 ? text_bytes : 1000),
                      (const char *)bytes + TUTTI_SERVER_HEAD_BYTES);
}

/* ---- what came of it ------------------------------------------------------------------------- */

enum { RESULT_NUMBERS = 9 };

size_t tutti_server_result_bytes(uint32_t worker_count)
{
    return (size_t)8 * (RESULT_NUMBERS + TUTTI_SERVERS_STALENESS_BINS + worker_count);
}

void tutti_server_result_put(const struct tutti_servers_result *result, uint8_t *ret)
{
    struct tutti_frames_writer w = {.data = ret,
                                    .room = tutti_server_result_bytes(result->worker_count)};

    tutti_frames_put_u64(&w, result->steps);
    tutti_frames_put_u64(&w, result->applied);
    tutti_frames_put_u64(&w, result->dropped_stale);
    tutti_frames_put_u64(&w, result->dropped_late);
    tutti_frames_put_u64(&w, result->lost);
    tutti_frames_put_u64(&w, result->staleness_sum);
    tutti_frames_put_u64(&w, result->staleness_max);
    tutti_frames_put_u64(&w, result->set_up);
    tutti_frames_put_u64(&w, result->stopped);
    for (int i = 0; i < TUTTI_SERVERS_STALENESS_BINS; i++)
        tutti_frames_put_u64(&w, result->staleness[i]);
    for (uint32_t i = 0; i < result->worker_count; i++)
        tutti_frames_put_u64(&w, result->by_worker[i]);
    done(&w);
}

int tutti_server_result_get(const void *bytes, size_t byte_count, uint32_t worker_count,
                            struct tutti_servers_result *ret, struct tutti_err *err)
{
    struct tutti_frames_reader r = {.data = bytes, .bytes = byte_count};

    ret->steps = tutti_frames_get_u64(&r);
    ret->applied = tutti_frames_get_u64(&r);
    ret->dropped_stale = tutti_frames_get_u64(&r);
    ret->dropped_late = tutti_frames_get_u64(&r);
    ret->lost = tutti_frames_get_u64(&r);
    ret->staleness_sum = tutti_frames_get_u64(&r);
    ret->staleness_max = tutti_frames_get_u64(&r);
    ret->set_up = tutti_frames_get_u64(&r);
    ret->stopped = tutti_frames_get_u64(&r) != 0;
    for (int i = 0; i < TUTTI_SERVERS_STALENESS_BINS; i++)
        ret->staleness[i] = tutti_frames_get_u64(&r);
    ret->worker_count = worker_count;
    for (uint32_t i = 0; i < worker_count; i++) {
        const uint64_t count = tutti_frames_get_u64(&r);

        if (ret->by_worker != NULL)
            ret->by_worker[i] = count;
    }
    if (!tutti_frames_get_all(&r))
        return tutti_fail(err, TUTTI_EINVAL, "the last message of server 0 has '%zu' bytes (%zu)",
                          byte_count, tutti_server_result_bytes(worker_count));
    return 0;
}
