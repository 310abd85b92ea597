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
    char work[64] = "";

    if (step->peer > 0 && step->src_buf != TUTTI_BUF_NONE)
        (void)snprintf(work, sizeof(work), " work %u %s+%" PRIu64, step->peer - 1,
                       tutti_buf_name(step->src_buf), step->src_offset);
    else if (step->peer > 0)
        (void)snprintf(work, sizeof(work), " work %u", step->peer - 1);
    if (step->duration_ps <= 0)
        return snprintf(buf, size, "COMPUTE %" PRIu64 " flops%s", step->flops, work);
    tutti_print_time(step->duration_ps, time);
    if (step->flops > 0)
        return snprintf(buf, size, "COMPUTE %s %" PRIu64 " flops%s", time, step->flops, work);
    return snprintf(buf, size, "COMPUTE %s%s", time, work);
}

/* " half max" and " over 4": what a REDUCE or a COPY with LAST says beside the contract. */
static const char *own_reduction(const struct tutti_step *step, char *buf, size_t size)
{
    const unsigned code = step->reduction - 1u;
    size_t used = 0;

    buf[0] = '\0';
    if (step->reduction > 0)
        used = (size_t)snprintf(buf, size, " %s %s",
                                tutti_dtype_name((enum tutti_dtype)(code / TUTTI_OP_COUNT)),
                                tutti_op_name((enum tutti_op)(code % TUTTI_OP_COUNT)));
    if (step->peer > 0)
        (void)snprintf(buf + used, size - used, " over %u", step->peer);
    return buf;
}

/* The step without its flags; returns the length, at most size - 1. */
static size_t body_text(const struct tutti_step *step, const char *unit, char *buf, size_t size)
{
    char dst[PLACE_BYTES];
    char src[PLACE_BYTES];
    char acc[PLACE_BYTES];
    char own[48];
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
        length = snprintf(buf, size, "REDUCE %s = %s op %s %" PRIu64 " %s%s", dst, acc, src,
                          step->bytes, unit, own_reduction(step, own, sizeof(own)));
        break;
    case TUTTI_COPY:
        length = snprintf(buf, size, "COPY %s = %s %" PRIu64 " %s%s", dst, src, step->bytes, unit,
                          own_reduction(step, own, sizeof(own)));
        break;
    case TUTTI_COMPUTE:
        length = compute_text(step, buf, size);
        break;
    case TUTTI_CALL:
        if (step->axis > 0)
            (void)snprintf(own, sizeof(own), " axis %u", step->axis);
        length = snprintf(buf, size, "CALL %u%s %s %s scratch+%" PRIu64, step->peer,
                          step->axis > 0 ? own : "", src, dst, step->acc_offset);
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
    static const char *const names[] = {"none", "in", "out", "scratch", "state"};

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
