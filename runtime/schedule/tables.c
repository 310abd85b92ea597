/* The tables of a schedule that steps refer to by number: axes, work, atomic regions. */
#include "runtime/schedule/tables.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/schedule/axis.h"
#include "runtime/schedule/step.h"
#include "runtime/status.h"

static const char *const work_kind_names[] = {
    [TUTTI_WORK_OTHER] = "other",
    [TUTTI_WORK_MATMUL] = "matmul",
    [TUTTI_WORK_CONVOLUTION] = "convolution",
    [TUTTI_WORK_ATTENTION] = "attention",
    [TUTTI_WORK_NORMALIZATION] = "normalization",
    [TUTTI_WORK_ELEMENTWISE] = "elementwise",
    [TUTTI_WORK_EMBEDDING] = "embedding",
    [TUTTI_WORK_LOSS] = "loss",
    [TUTTI_WORK_OPTIMIZER] = "optimizer",
    [TUTTI_WORK_INPUT] = "input",
    [TUTTI_WORK_HOST] = "host",
};

const char *tutti_work_kind_name(enum tutti_work_kind kind)
{
    return kind < TUTTI_WORK_KIND_COUNT ? work_kind_names[kind] : "unknown";
}

int tutti_work_kind_find(const char *name, enum tutti_work_kind *ret, struct tutti_err *err)
{
    for (int kind = 0; kind < TUTTI_WORK_KIND_COUNT; kind++) {
        if (strcmp(name, work_kind_names[kind]) != 0)
            continue;
        *ret = (enum tutti_work_kind)kind;
        return 0;
    }
    return tutti_fail(err, TUTTI_EINVAL,
                      "unknown kind of work '%.40s' (other, matmul, convolution, attention, "
                      "normalization, elementwise, embedding, loss, optimizer, input or host)",
                      name);
}

/* ---- reductions, sizes ----------------------------------------------------------------------- */

uint8_t tutti_reduction_code(enum tutti_dtype dtype, enum tutti_op op)
{
    _Static_assert(TUTTI_DTYPE_COUNT * TUTTI_OP_COUNT < UINT8_MAX, "all codes fit into a byte");
    return (uint8_t)(1 + (unsigned)dtype * TUTTI_OP_COUNT + (unsigned)op);
}

struct tutti_reduction tutti_step_reduction(const struct tutti_schedule *schedule,
                                            const struct tutti_step *step)
{
    struct tutti_reduction r = {schedule->contract.dtype, schedule->contract.op,
                                step->peer == 0 ? schedule->rank_count : step->peer};

    if (step->reduction > 0) {
        r.dtype = (enum tutti_dtype)((step->reduction - 1u) / TUTTI_OP_COUNT);
        r.op = (enum tutti_op)((step->reduction - 1u) % TUTTI_OP_COUNT);
    }
    return r;
}

void tutti_schedule_buf_sizes(const struct tutti_schedule *schedule, uint32_t rank,
                              struct tutti_buf_sizes *ret)
{
    if (schedule->ops->sizes != NULL)
        schedule->ops->sizes(schedule, rank, ret);
    else
        *ret = (struct tutti_buf_sizes){schedule->in_bytes, schedule->out_bytes,
                                        schedule->scratch_bytes, schedule->state_bytes};
}

uint64_t tutti_buf_size_of(const struct tutti_buf_sizes *sizes, enum tutti_buf buf)
{
    switch (buf) {
    case TUTTI_BUF_IN:
        return sizes->in_bytes;
    case TUTTI_BUF_OUT:
        return sizes->out_bytes;
    case TUTTI_BUF_SCRATCH:
        return sizes->scratch_bytes;
    case TUTTI_BUF_STATE:
        return sizes->state_bytes;
    default:
        return 0;
    }
}

struct tutti_region tutti_region_at(const struct tutti_region *region,
                                    const struct tutti_step *step)
{
    struct tutti_region at = *region;

    if (step->src_buf == region->buf)
        at.offset += step->src_offset;
    return at;
}

bool tutti_is_atomic(const struct tutti_schedule *schedule, uint64_t offset, uint64_t bytes)
{
    for (uint32_t i = 0; i < schedule->atomic_count; i++) {
        const struct tutti_region *a = &schedule->atomics[i];

        if (offset >= a->offset && bytes <= a->bytes && offset - a->offset <= a->bytes - bytes)
            return true;
    }
    return false;
}

/* ---- rules ----------------------------------------------------------------------------------- */

int tutti_name_valid(const char *what, const char *name, struct tutti_err *err)
{
    size_t length = name == NULL ? 0 : strlen(name);

    if (length == 0)
        return tutti_fail(err, TUTTI_EINVAL, "the %s has no name (one word)", what);
    for (size_t i = 0; i < length; i++)
        if (!isgraph((unsigned char)name[i]) || name[i] == '#')
            return tutti_fail(err, TUTTI_EINVAL,
                              "bad %s name '%.40s' (one word, printable, without '#')", what, name);
    return 0;
}

static int valid_region(const struct tutti_schedule_desc *desc, const char *of, const char *name,
                        const struct tutti_region *region, bool written, struct tutti_err *err)
{
    const struct tutti_buf_sizes sizes = {desc->in_bytes, desc->out_bytes, desc->scratch_bytes,
                                          desc->state_bytes};
    uint64_t size = tutti_buf_size_of(&sizes, (enum tutti_buf)region->buf);

    if (region->buf == TUTTI_BUF_NONE || region->buf >= TUTTI_BUF_COUNT)
        return tutti_fail(err, TUTTI_EINVAL, "%s '%s': no buffer '%u' (in, out, scratch or state)",
                          of, name, region->buf);
    if (written && region->buf == TUTTI_BUF_IN)
        return tutti_fail(err, TUTTI_EINVAL, "%s '%s' writes 'in' (out, scratch or state)", of,
                          name);
    if (region->bytes == 0 || region->offset > size || region->bytes > size - region->offset)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s '%s': '%" PRIu64 "' bytes from %" PRIu64
                          " on lie outside '%s' (1 byte or more of %" PRIu64 ")",
                          of, name, region->bytes, region->offset, tutti_buf_name(region->buf),
                          size);
    if (region->whole > desc->axis_count + 1 || (written && region->whole > 0))
        return tutti_fail(err, TUTTI_EINVAL, "%s '%s': no axis '%u' to be whole over (%s)", of,
                          name, region->whole - 1, written ? "of what is read" : "0, or an axis");
    return 0;
}

static int valid_work(const struct tutti_schedule_desc *desc, const struct tutti_work *work,
                      struct tutti_err *err)
{
    int status = tutti_name_valid("work", work->name, err);

    if (status == 0 && work->kind >= TUTTI_WORK_KIND_COUNT)
        return tutti_fail(err, TUTTI_EINVAL, "work '%s' of unknown kind '%d'", work->name,
                          (int)work->kind);
    if (status == 0 && work->duration_ps < 0)
        return tutti_fail(err, TUTTI_EINVAL, "work '%s' takes less than no time (0 or more)",
                          work->name);
    for (uint32_t i = 0; i < work->read_count && status == 0; i++)
        status = valid_region(desc, "work", work->name, &work->reads[i], false, err);
    for (uint32_t i = 0; i < work->write_count && status == 0; i++)
        status = valid_region(desc, "work", work->name, &work->writes[i], true, err);
    return status;
}

int tutti_tables_valid(const struct tutti_schedule_desc *desc, struct tutti_err *err)
{
    int status = 0;

    if (desc->axis_count > TUTTI_AXES_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' axes (at most %d)", desc->axis_count,
                          TUTTI_AXES_MAX);
    if (desc->chunk_count > 0 && desc->axis_count + desc->work_count + desc->state_bytes > 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a schedule in chunks with axes, work or state (one in bytes)");
    for (uint32_t i = 0; i < desc->axis_count && status == 0; i++) {
        status = tutti_name_valid("axis", desc->axes[i].name, err);
        if (status == 0)
            status = tutti_axis_valid(&desc->axes[i], desc->rank_count, err);
    }
    for (uint32_t i = 0; i < desc->work_count && status == 0; i++)
        status = valid_work(desc, &desc->work[i], err);
    for (uint32_t i = 0; i < desc->atomic_count && status == 0; i++) {
        if (desc->atomics[i].buf != TUTTI_BUF_STATE)
            return tutti_fail(err, TUTTI_EINVAL, "an atomic region of '%s' (state)",
                              tutti_buf_name(desc->atomics[i].buf));
        status = valid_region(desc, "atomic", "region", &desc->atomics[i], true, err);
    }
    return status;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static struct tutti_region *copy_regions(struct tutti_arena *arena,
                                         const struct tutti_region *regions, uint32_t count)
{
    struct tutti_region *copy = tutti_arena_take(arena, count, sizeof(*copy));

    for (uint32_t i = 0; i < count && copy != NULL; i++)
        copy[i] = regions[i];
    return copy;
}

static bool copy_work(struct tutti_arena *arena, struct tutti_work *work)
{
    work->name = tutti_arena_copy_text(arena, work->name);
    work->reads = copy_regions(arena, work->reads, work->read_count);
    work->writes = copy_regions(arena, work->writes, work->write_count);
    return work->name != NULL && work->reads != NULL && work->writes != NULL;
}

int tutti_tables_copy(struct tutti_schedule_desc *desc, struct tutti_arena *arena,
                      struct tutti_err *err)
{
    struct tutti_axis *axes = tutti_arena_take(arena, desc->axis_count, sizeof(*axes));
    struct tutti_work *work = tutti_arena_take(arena, desc->work_count, sizeof(*work));
    struct tutti_region *atomics = copy_regions(arena, desc->atomics, desc->atomic_count);
    bool done = axes != NULL && work != NULL && atomics != NULL;

    for (uint32_t i = 0; i < desc->axis_count && done; i++) {
        axes[i] = desc->axes[i];
        axes[i].name = tutti_arena_copy_text(arena, axes[i].name);
        done = axes[i].name != NULL;
    }
    for (uint32_t i = 0; i < desc->work_count && done; i++) {
        work[i] = desc->work[i];
        done = copy_work(arena, &work[i]);
    }
    if (!done)
        return tutti_nomem(err);
    desc->axes = axes;
    desc->work = work;
    desc->atomics = atomics;
    return 0;
}
