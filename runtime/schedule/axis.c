/* Groups of ranks by rule: the arithmetic of an axis, and the rules that its numbers obey. */
#include "runtime/schedule/axis.h"

#include <assert.h>
#include <inttypes.h>

#include "runtime/status.h"

uint32_t tutti_axis_group_count(const struct tutti_axis *axis)
{
    return axis->width * axis->repeat;
}

bool tutti_axis_find(const struct tutti_axis *axis, uint32_t rank, uint32_t *ret_group,
                     uint32_t *ret_member)
{
    uint32_t at = rank - axis->first;
    uint32_t block = at / axis->period;
    uint32_t member = at % axis->period / axis->stride;
    uint32_t column = at % axis->period % axis->stride;

    if (rank < axis->first || block >= axis->repeat || member >= axis->size ||
        column >= axis->width)
        return false;
    *ret_group = block * axis->width + column;
    *ret_member = member;
    return true;
}

uint32_t tutti_axis_rank(const struct tutti_axis *axis, uint32_t group, uint32_t member)
{
    assert(member < axis->size);
    return axis->first + group / axis->width * axis->period + group % axis->width +
           member * axis->stride;
}

struct tutti_axis tutti_mesh_axis(const char *name, uint32_t first, const uint32_t *sizes,
                                  uint32_t count, uint32_t index)
{
    struct tutti_axis axis = {
        .name = name, .first = first, .width = 1, .stride = 1, .size = sizes[index], .repeat = 1};

    assert(index < count);
    for (uint32_t i = index + 1; i < count; i++)
        axis.stride *= sizes[i];
    for (uint32_t i = 0; i < index; i++)
        axis.repeat *= sizes[i];
    axis.width = axis.stride;
    axis.period = axis.stride * axis.size;
    return axis;
}

struct tutti_axis tutti_schedule_axis(const struct tutti_schedule *schedule, uint32_t number)
{
    assert(number <= schedule->axis_count);
    if (number > 0)
        return schedule->axes[number - 1];
    return (struct tutti_axis){.name = "all",
                               .width = 1,
                               .stride = 1,
                               .size = schedule->rank_count,
                               .period = schedule->rank_count,
                               .repeat = 1};
}

int tutti_axis_valid(const struct tutti_axis *axis, uint32_t rank_count, struct tutti_err *err)
{
    uint64_t span;

    if (axis->size < 1 || axis->stride < 1 || axis->repeat < 1 || axis->width < 1 ||
        axis->width > axis->stride)
        return tutti_fail(err, TUTTI_EINVAL,
                          "axis '%s' of size %u, stride %u, width %u, repeat %u (each 1 or more, "
                          "the width at most the stride)",
                          axis->name, axis->size, axis->stride, axis->width, axis->repeat);
    span = (uint64_t)axis->stride * (axis->size - 1) + axis->width;
    if (axis->period < span)
        return tutti_fail(err, TUTTI_EINVAL,
                          "axis '%s': a period of '%u' is less than the %" PRIu64
                          " ranks that its groups span",
                          axis->name, axis->period, span);
    if (axis->first + (uint64_t)axis->period * (axis->repeat - 1) + span > rank_count)
        return tutti_fail(err, TUTTI_EINVAL, "axis '%s' goes beyond rank '%u'", axis->name,
                          rank_count - 1);
    return 0;
}
