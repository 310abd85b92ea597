/* A step in words, for messages: "RECV scratch+0 128 B from 2 fuse". */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "runtime/schedule/step.h"

enum { PLACE_BYTES = 32 };

static const char *place(unsigned buffer, uint64_t offset, char *buf)
{
    snprintf(buf, PLACE_BYTES, "%s+%" PRIu64, tutti_buf_name(buffer), offset);
    return buf;
}

static int compute_text(const struct tutti_step *step, char *buf, size_t size)
{
    char time[TUTTI_UNIT_TEXT_BYTES];

    if (step->duration_ps <= 0)
        return snprintf(buf, size, "COMPUTE %" PRIu64 " flops", step->flops);
    tutti_print_time(step->duration_ps, time);
    if (step->flops > 0)
        return snprintf(buf, size, "COMPUTE %s %" PRIu64 " flops", time, step->flops);
    return snprintf(buf, size, "COMPUTE %s", time);
}

/* The step without its flags; returns the length, at most size - 1. */
static size_t body_text(const struct tutti_step *step, const char *unit, char *buf, size_t size)
{
    char dst[PLACE_BYTES];
    char src[PLACE_BYTES];
    char acc[PLACE_BYTES];
    int length = 0;

    place(step->dst_buf, step->dst_offset, dst);
    place(step->src_buf, step->src_offset, src);
    place(step->acc_buf, step->acc_offset, acc);
    switch (step->kind) {
    case TUTTI_SEND:
        length =
            snprintf(buf, size, "SEND %s %" PRIu64 " %s to %u", src, step->bytes, unit, step->peer);
        break;
    case TUTTI_RECV:
        length = snprintf(buf, size, "RECV %s %" PRIu64 " %s from %u", dst, step->bytes, unit,
                          step->peer);
        break;
    case TUTTI_REDUCE:
        length = snprintf(buf, size, "REDUCE %s = %s op %s %" PRIu64 " %s", dst, acc, src,
                          step->bytes, unit);
        break;
    case TUTTI_COPY:
        length = snprintf(buf, size, "COPY %s = %s %" PRIu64 " %s", dst, src, step->bytes, unit);
        break;
    case TUTTI_COMPUTE:
        length = compute_text(step, buf, size);
        break;
    case TUTTI_CALL:
        length = snprintf(buf, size, "CALL %u %s %s scratch+%" PRIu64, step->peer, src, dst,
                          step->acc_offset);
        break;
    default:
        length = snprintf(buf, size, "step of unknown kind %u", step->kind);
        break;
    }
    assert(length >= 0);
    return (size_t)length < size ? (size_t)length : size - 1;
}

const char *tutti_buf_name(unsigned buffer)
{
    static const char *const names[] = {"none", "in", "out", "scratch"};

    return buffer < sizeof(names) / sizeof(names[0]) ? names[buffer] : "unknown";
}

const char *tutti_step_text_in(const struct tutti_step *step, const char *unit, char *buf)
{
    size_t used = body_text(step, unit, buf, TUTTI_STEP_TEXT_BYTES);
    size_t left = TUTTI_STEP_TEXT_BYTES - used;
    const char *fuse = (step->flags & TUTTI_STEP_FUSE) != 0 ? " fuse" : "";
    const char *last = (step->flags & TUTTI_STEP_LAST) != 0 ? " last" : "";

    if ((step->flags & TUTTI_STEP_DEP) != 0)
        snprintf(buf + used, left, "%s%s after lane %u step %u", fuse, last, step->dep_lane,
                 step->dep_step);
    else
        snprintf(buf + used, left, "%s%s", fuse, last);
    return buf;
}

const char *tutti_step_text(const struct tutti_step *step, char *buf)
{
    return tutti_step_text_in(step, "B", buf);
}

const char *tutti_step_where(uint32_t rank, uint32_t lane, uint64_t index,
                             const struct tutti_step *step, char *buf)
{
    char text[TUTTI_STEP_TEXT_BYTES];

    snprintf(buf, TUTTI_STEP_WHERE_BYTES, "rank %u, lane %u, step %" PRIu64 " (%s)", rank, lane,
             index, tutti_step_text(step, text));
    return buf;
}
