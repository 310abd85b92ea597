/* The rules that steps obey by themselves: bounds, peers, flags, whole elements, no overlaps. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "runtime/schedule/dry_run.h"
#include "runtime/schedule/step.h"
#include "runtime/status.h"

/* The step under examination, and what is wrong with it. */
struct place {
    const struct tutti_schedule *schedule;
    uint32_t rank;
    uint32_t lane;
    uint64_t index;
    const struct tutti_step *step;
    struct tutti_err *err;
};

__attribute__((format(printf, 2, 3))) static int refuse(const struct place *p, const char *format,
                                                        ...)
{
    char where[TUTTI_STEP_WHERE_BYTES];
    struct tutti_err cause;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(cause.text, sizeof(cause.text), format, args);
    va_end(args);
    return tutti_fail(p->err, TUTTI_ECHECK, "%s: %.700s",
                      tutti_step_where(p->rank, p->lane, p->index, p->step, where), cause.text);
}

/* Bytes [offset, offset + bytes) lie in the buffer. Steps of 0 bytes address none. */
static int valid_region(const struct place *p, unsigned buffer, uint64_t offset, bool write)
{
    const struct tutti_schedule *s = p->schedule;
    uint64_t size = buffer == TUTTI_BUF_IN    ? s->in_bytes
                    : buffer == TUTTI_BUF_OUT ? s->out_bytes
                                              : s->scratch_bytes;
    uint64_t bytes = p->step->bytes;

    if (buffer > TUTTI_BUF_SCRATCH)
        return refuse(p, "no buffer '%u' (in, out or scratch)", buffer);
    if (bytes == 0)
        return 0;
    if (buffer == TUTTI_BUF_NONE)
        return refuse(p, "%" PRIu64 " bytes of no buffer (in, out or scratch)", bytes);
    if (write && buffer == TUTTI_BUF_IN)
        return refuse(p, "writes 'in' (out or scratch)");
    if (offset > size || bytes > size - offset)
        return refuse(p, "bytes %" PRIu64 "..%" PRIu64 " lie outside '%s' (of %" PRIu64 " bytes)",
                      offset, offset + bytes - 1, tutti_buf_name(buffer), size);
    return 0;
}

static int valid_peer(const struct place *p)
{
    if (p->step->peer >= p->schedule->rank_count)
        return refuse(p, "no rank '%u' (0 to %u)", p->step->peer, p->schedule->rank_count - 1);
    if (p->step->peer == p->rank)
        return refuse(p, "its peer is the rank itself (another rank)");
    return 0;
}

/* Overlap of regions of the step's length that are not the very same. */
static bool overlap(unsigned buffer, uint64_t offset, unsigned other_buffer, uint64_t other_offset,
                    uint64_t bytes, bool same_is_fine)
{
    uint64_t apart = offset > other_offset ? offset - other_offset : other_offset - offset;

    return buffer == other_buffer && apart < bytes && !(apart == 0 && same_is_fine);
}

static int valid_reduce(const struct place *p)
{
    const struct tutti_step *t = p->step;
    uint64_t element_bytes = tutti_dtype_bytes(p->schedule->contract.dtype);
    int status = valid_region(p, t->dst_buf, t->dst_offset, true);

    if (status == 0)
        status = valid_region(p, t->acc_buf, t->acc_offset, false);
    if (status == 0)
        status = valid_region(p, t->src_buf, t->src_offset, false);
    if (status < 0)
        return status;
    if (t->bytes % element_bytes != 0)
        return refuse(p, "reduces a fraction of an element (a multiple of %" PRIu64 " bytes)",
                      element_bytes);
    if (t->bytes == 0)
        return 0;
    if (t->dst_offset % element_bytes != 0 || t->acc_offset % element_bytes != 0 ||
        t->src_offset % element_bytes != 0)
        return refuse(p, "reduces at an offset inside an element (a multiple of %" PRIu64 " bytes)",
                      element_bytes);
    if (overlap(t->dst_buf, t->dst_offset, t->acc_buf, t->acc_offset, t->bytes, true) ||
        overlap(t->dst_buf, t->dst_offset, t->src_buf, t->src_offset, t->bytes, true) ||
        overlap(t->acc_buf, t->acc_offset, t->src_buf, t->src_offset, t->bytes, false))
        return refuse(p, "its operands overlap (the result may be one operand, all of it)");
    return 0;
}

static int valid_copy(const struct place *p)
{
    const struct tutti_step *t = p->step;
    int status = valid_region(p, t->dst_buf, t->dst_offset, true);

    if (status == 0)
        status = valid_region(p, t->src_buf, t->src_offset, false);
    if (status < 0)
        return status;
    if (overlap(t->dst_buf, t->dst_offset, t->src_buf, t->src_offset, t->bytes, false))
        return refuse(p, "copies bytes onto themselves (regions that do not overlap)");
    return 0;
}

/* The callee's buffer lies within one of the caller's. */
static int valid_lent(const struct place *p, const char *what, unsigned buffer, uint64_t offset,
                      uint64_t bytes, bool write)
{
    const struct tutti_schedule *s = p->schedule;
    uint64_t size = buffer == TUTTI_BUF_IN        ? s->in_bytes
                    : buffer == TUTTI_BUF_OUT     ? s->out_bytes
                    : buffer == TUTTI_BUF_SCRATCH ? s->scratch_bytes
                                                  : 0;

    if (buffer > TUTTI_BUF_SCRATCH)
        return refuse(p, "no buffer '%u' (in, out or scratch)", buffer);
    if (bytes == 0)
        return 0;
    if (write && buffer == TUTTI_BUF_IN)
        return refuse(p, "the callee writes its '%s', which is 'in' (out or scratch)", what);
    if (offset > size || bytes > size - offset)
        return refuse(
            p, "the callee's '%s' of %" PRIu64 " bytes lies outside '%s' (of %" PRIu64 " bytes)",
            what, bytes, tutti_buf_name(buffer), size);
    return 0;
}

static int valid_call(const struct place *p)
{
    const struct tutti_schedule *s = p->schedule;
    const struct tutti_step *t = p->step;
    const struct tutti_schedule *callee;
    int status;

    if (t->peer >= s->callee_count)
        return refuse(p, "no callee '%u' (%s%u)", t->peer,
                      s->callee_count == 0 ? "callees: " : "0 to ",
                      s->callee_count == 0 ? 0 : s->callee_count - 1);
    callee = s->callees[t->peer];
    status = valid_lent(p, "in", t->src_buf, t->src_offset, callee->in_bytes, false);
    if (status == 0)
        status = valid_lent(p, "out", t->dst_buf, t->dst_offset, callee->out_bytes, true);
    if (status == 0)
        status =
            valid_lent(p, "scratch", TUTTI_BUF_SCRATCH, t->acc_offset, callee->scratch_bytes, true);
    return status;
}

static int valid_flags(const struct place *p)
{
    static const uint8_t allowed[] = {
        [TUTTI_SEND] = TUTTI_STEP_DEP,
        [TUTTI_RECV] = TUTTI_STEP_DEP | TUTTI_STEP_FUSE,
        [TUTTI_REDUCE] = TUTTI_STEP_DEP | TUTTI_STEP_LAST,
        [TUTTI_COPY] = TUTTI_STEP_DEP | TUTTI_STEP_LAST,
        [TUTTI_COMPUTE] = TUTTI_STEP_DEP,
        [TUTTI_CALL] = TUTTI_STEP_DEP,
    };
    const struct tutti_step *t = p->step;

    if (t->kind < TUTTI_SEND || t->kind > TUTTI_CALL)
        return refuse(p, "unknown kind '%u' (%d to %d)", t->kind, TUTTI_SEND, TUTTI_CALL);
    if (t->reserved != 0)
        return refuse(p, "its reserved byte is '%u' (0)", t->reserved);
    if ((t->flags & ~allowed[t->kind]) != 0)
        return refuse(p, "flags '%u' do not go with this kind (dep 1, last 2, fuse 4 within %u)",
                      t->flags, allowed[t->kind]);
    return 0;
}

/* What a dependency names can come first; that the step is there is for those who count steps. */
static int valid_dependency(const struct place *p)
{
    const struct tutti_schedule *s = p->schedule;
    const struct tutti_step *t = p->step;

    if ((t->flags & TUTTI_STEP_DEP) == 0)
        return 0;
    if (t->dep_lane >= s->lane_count)
        return refuse(p, "depends on lane '%u' (0 to %u)", t->dep_lane, s->lane_count - 1);
    if (t->dep_lane == p->lane && t->dep_step >= p->index)
        return refuse(p, "depends on step '%u' of its own lane (an earlier one)", t->dep_step);
    return 0;
}

int tutti_step_valid(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                     uint64_t index, const struct tutti_step *step, struct tutti_err *err)
{
    const struct place p = {schedule, rank, lane, index, step, err};
    int status = valid_flags(&p);

    if (status == 0)
        status = valid_dependency(&p);
    if (status < 0)
        return status;
    switch (step->kind) {
    case TUTTI_SEND:
        status = valid_peer(&p);
        return status < 0 ? status : valid_region(&p, step->src_buf, step->src_offset, false);
    case TUTTI_RECV:
        status = valid_peer(&p);
        return status < 0 ? status : valid_region(&p, step->dst_buf, step->dst_offset, true);
    case TUTTI_REDUCE:
        return valid_reduce(&p);
    case TUTTI_COPY:
        return valid_copy(&p);
    case TUTTI_COMPUTE:
        return step->duration_ps < 0 ? refuse(&p, "takes less than no time (0 or more)") : 0;
    default:
        return valid_call(&p);
    }
}

int tutti_step_follows(uint32_t rank, uint32_t lane, uint64_t index,
                       const struct tutti_step *before, const struct tutti_step *step,
                       struct tutti_err *err)
{
    struct place p = {NULL, rank, lane, index - 1, before, err};

    if (before == NULL || (before->flags & TUTTI_STEP_FUSE) == 0)
        return 0;
    if (before->bytes > 0 && before->dst_buf != TUTTI_BUF_SCRATCH)
        return refuse(&p, "fuses a receive into '%s' (scratch)", tutti_buf_name(before->dst_buf));
    if (step == NULL || step->kind != TUTTI_REDUCE || step->src_buf != before->dst_buf ||
        step->src_offset != before->dst_offset || step->bytes != before->bytes)
        return refuse(&p, "fuse, but the next step does not reduce from just these bytes "
                          "(a REDUCE with them as src)");
    return 0;
}
