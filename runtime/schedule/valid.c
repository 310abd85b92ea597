/* The rules that steps obey by themselves: bounds, peers, flags, whole elements, no overlaps. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "runtime/schedule/dry_run.h"
#include "runtime/schedule/step.h"
#include "runtime/schedule/tables.h"
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

static uint64_t buf_bytes(const struct place *p, unsigned buffer)
{
    struct tutti_buf_sizes sizes;

    tutti_schedule_buf_sizes(p->schedule, p->rank, &sizes);
    return tutti_buf_size_of(&sizes, (enum tutti_buf)buffer);
}

/* Bytes [offset, offset + bytes) lie in the buffer. Steps of 0 bytes address none. */
static int valid_bytes(const struct place *p, unsigned buffer, uint64_t offset, uint64_t bytes,
                       bool write)
{
    uint64_t size;

    if (buffer >= TUTTI_BUF_COUNT)
        return refuse(p, "no buffer '%u' (in, out, scratch or state)", buffer);
    if (bytes == 0)
        return 0;
    if (buffer == TUTTI_BUF_NONE)
        return refuse(p, "%" PRIu64 " bytes of no buffer (in, out, scratch or state)", bytes);
    if (write && buffer == TUTTI_BUF_IN)
        return refuse(p, "writes 'in' (out, scratch or state)");
    size = buf_bytes(p, buffer);
    if (offset > size || bytes > size - offset)
        return refuse(p, "bytes %" PRIu64 "..%" PRIu64 " lie outside '%s' (of %" PRIu64 " bytes)",
                      offset, offset + bytes - 1, tutti_buf_name(buffer), size);
    return 0;
}

static int valid_region(const struct place *p, unsigned buffer, uint64_t offset, bool write)
{
    return valid_bytes(p, buffer, offset, p->step->bytes, write);
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
    uint64_t element_bytes = tutti_dtype_bytes(tutti_step_reduction(p->schedule, t).dtype);
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
    /* With LAST, avg may divide where the bytes lie. */
    if (overlap(t->dst_buf, t->dst_offset, t->src_buf, t->src_offset, t->bytes,
                (t->flags & TUTTI_STEP_LAST) != 0))
        return refuse(p, "copies bytes onto themselves (regions that do not overlap)");
    return 0;
}

/* The callee's buffer lies within one of the caller's. */
static int valid_lent(const struct place *p, const char *what, unsigned buffer, uint64_t offset,
                      uint64_t bytes, bool write)
{
    uint64_t size;

    if (buffer >= TUTTI_BUF_COUNT)
        return refuse(p, "no buffer '%u' (in, out, scratch or state)", buffer);
    if (bytes == 0)
        return 0;
    if (write && buffer == TUTTI_BUF_IN)
        return refuse(p, "the callee writes its '%s', which is 'in' (out, scratch or state)", what);
    size = buf_bytes(p, buffer);
    if (offset > size || bytes > size - offset)
        return refuse(
            p, "the callee's '%s' of %" PRIu64 " bytes lies outside '%s' (of %" PRIu64 " bytes)",
            what, bytes, tutti_buf_name(buffer), size);
    return 0;
}

/* The rank is in a group of the axis, and the callee for groups of its size. */
static int valid_group(const struct place *p, const struct tutti_schedule *callee)
{
    struct tutti_axis axis;
    uint32_t group = 0;
    uint32_t member = 0;

    if (p->step->axis > p->schedule->axis_count)
        return refuse(p, "no axis '%u' (0: all ranks; axes: %u)", p->step->axis,
                      p->schedule->axis_count);
    axis = tutti_schedule_axis(p->schedule, p->step->axis);
    if (!tutti_axis_find(&axis, p->rank, &group, &member))
        return refuse(p, "calls on axis '%s', of which rank '%u' is in no group", axis.name,
                      p->rank);
    if (callee->rank_count != axis.size)
        return refuse(p, "callee '%s' has '%u' ranks (%u, as the groups of axis '%s')",
                      callee->name, callee->rank_count, axis.size, axis.name);
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
    status = valid_group(p, callee);
    if (status == 0)
        status = valid_lent(p, "in", t->src_buf, t->src_offset, callee->in_bytes, false);
    if (status == 0)
        status = valid_lent(p, "out", t->dst_buf, t->dst_offset, callee->out_bytes, true);
    if (status == 0)
        status =
            valid_lent(p, "scratch", TUTTI_BUF_SCRATCH, t->acc_offset, callee->scratch_bytes, true);
    return status;
}

/* A region of the work table, where this step has it. */
static int valid_work_region(const struct place *p, const struct tutti_region *region, bool write)
{
    struct tutti_region at = tutti_region_at(region, p->step);
    struct tutti_axis axis;
    uint32_t group = 0;
    uint32_t member = 0;

    if (at.offset < region->offset)
        return refuse(p, "moves a region of its work beyond 2^64");
    if (at.whole > 0) {
        axis = tutti_schedule_axis(p->schedule, at.whole - 1u);
        if (!tutti_axis_find(&axis, p->rank, &group, &member))
            return refuse(p,
                          "reads what is whole over axis '%s', of which rank '%u' is in no group",
                          axis.name, p->rank);
    }
    return valid_bytes(p, at.buf, at.offset, at.bytes, write);
}

static int valid_compute(const struct place *p)
{
    const struct tutti_step *t = p->step;
    const struct tutti_work *work;
    int status = 0;

    if (t->duration_ps < 0)
        return refuse(p, "takes less than no time (0 or more)");
    if (t->peer > p->schedule->work_count)
        return refuse(p, "no work '%u' (entries: %u)", t->peer - 1, p->schedule->work_count);
    if (t->src_buf >= TUTTI_BUF_COUNT)
        return refuse(p, "no buffer '%u' (in, out, scratch or state)", t->src_buf);
    if (t->peer == 0)
        return 0;
    work = &p->schedule->work[t->peer - 1];
    for (uint32_t i = 0; i < work->read_count && status == 0; i++)
        status = valid_work_region(p, &work->reads[i], false);
    for (uint32_t i = 0; i < work->write_count && status == 0; i++)
        status = valid_work_region(p, &work->writes[i], true);
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
    if (t->kind == TUTTI_REDUCE || (t->flags & TUTTI_STEP_LAST) != 0) {
        if (t->reduction > TUTTI_DTYPE_COUNT * TUTTI_OP_COUNT)
            return refuse(p, "reduces by an unknown type or operator '%u' (0 to %d)", t->reduction,
                          TUTTI_DTYPE_COUNT * TUTTI_OP_COUNT);
    } else if (t->kind != TUTTI_CALL && t->reduction != 0) {
        return refuse(p, "a type and operator '%u' of what does not reduce (0)", t->reduction);
    }
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
        return valid_compute(&p);
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
