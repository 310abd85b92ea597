/* Torus (multi-dimensional bucket) all-reduce: with D axes the data is cut into 2D parts; part (a,
 * direction) is reduce-scattered over the axes a, a+1, ... in turn, all in its own direction, and
 * gathered back, so that all axes are busy both ways all the time.
 *
 * Jain & Sabharwal 2010. Price for axes d_0 .. d_{D-1}, n their product, M bytes: 2 * sum (d_k - 1)
 * messages one after another; a rank sends 2(n-1)/n * M bytes, spread over its 2D links, and
 * reduces (n-1)/n * M. On an axis without wrap-around the message that closes the ring goes the
 * long way; that is the route's business, not the schedule's.
 *
 * A part goes on to links that another one has just used: axis k in phase p serves the part that
 * began with axis k-p. In step that is a change of turns. So that it stays one where links are
 * unequal, the first message of a phase waits until the part before has left the link, where all
 * axes wrap around, and are of one length, or messages so long (1 MiB at first) that idle links
 * cost little: unequal axes wait for the longest.
 *
 * On axes of unequal length links idle by that: a third and more. Where all axes are closed and
 * even the shortest messages are long, up to 256 ranks take turns instead (torus_turns.c), which
 * keeps all links busy at several times the messages, in two slices at least, so that no link
 * waits for a message to arrive.
 *
 * Grain: a piece of a part is d_0 chunks; chunk_bytes 0 makes one piece. */
#include "runtime/coll/bucket.h"
#include "runtime/coll/generators.h"
#include "runtime/coll/torus_turns.h"

enum {
    TURNS_RANKS_MAX = 256,       /* more ranks: simulated folded, which turns are not */
    TURNS_MESSAGE_MIN = 1 << 14, /* bytes: a message below costs mostly its latency */
};

static int find_axes(const struct tutti_shape *shape, struct route *axes, struct tutti_err *err)
{
    uint64_t product = 1;

    if (shape->dim_count == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "torus needs a grid; this machine has none: its %u ranks have no "
                          "dimensions (a torus or mesh)",
                          shape->rank_count);
    assert(shape->dim_count <= TUTTI_DIMS_MAX);
    for (uint32_t i = 0; i < shape->dim_count; i++) {
        uint32_t size = shape->dim[i];

        if (size > 1)
            axes->axis[axes->axis_count++] =
                (struct axis){.size = size, .stride = (uint32_t)product};
        product *= size;
        if (size == 0 || product > shape->rank_count)
            return tutti_fail(err, TUTTI_EINVAL,
                              "dimension %u of '%u' does not fit: the dimensions must multiply out "
                              "to the number of ranks (%u)",
                              i, size, shape->rank_count);
    }
    if (product != shape->rank_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "the %u dimensions multiply out to '%llu' ranks, not to the %u there are",
                          shape->dim_count, (unsigned long long)product, shape->rank_count);
    return 0;
}

static bool all_wrap(const struct tutti_shape *shape)
{
    bool all = true;

    for (uint32_t i = 0; i < shape->dim_count; i++)
        all &= shape->wrap[i] || shape->dim[i] == 1;
    return all;
}

/* The classic plan: a part for each axis to begin with, all alike. */
static void lay_even(const struct route *axes, struct bucket_plan *plan)
{
    plan->route_count = 2 * axes->axis_count;
    for (uint32_t i = 0; i < plan->route_count; i++) {
        plan->route[i].axis_count = axes->axis_count;
        for (uint32_t k = 0; k < axes->axis_count; k++) {
            plan->route[i].axis[k] = axes->axis[(i / 2 + k) % axes->axis_count];
            plan->route[i].axis[k].reversed = i % 2 == 1;
        }
    }
}

/* Axes of unequal length, all of them closed (one of two is). */
static bool is_uneven(const struct tutti_shape *shape, const struct route *axes)
{
    bool equal = true;

    for (uint32_t i = 0; i < shape->dim_count; i++)
        if (!shape->wrap[i] && shape->dim[i] > 2)
            return false;
    for (uint32_t i = 1; i < axes->axis_count; i++)
        equal &= axes->axis[i].size == axes->axis[0].size;
    return !equal;
}

/* Bytes of the shortest message of a weighted plan. */
static uint64_t message_bytes(const struct tutti_coll_params *params, uint32_t rank_count,
                              const struct bucket_plan *plan)
{
    uint64_t bytes = params->count * tutti_dtype_bytes(params->dtype);
    uint64_t least = plan->route[0].weight;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < plan->route_count; i++) {
        least = plan->route[i].weight < least ? plan->route[i].weight : least;
        sum += plan->route[i].weight;
    }
    return tutti_muldiv(bytes, least, sum) / rank_count /
           (params->channel_count == 0 ? 1 : params->channel_count);
}

/* Tries turns; false: what there is to gain is less than their messages cost. */
static bool lay_turns(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                      const struct route *axes, struct bucket_plan *plan)
{
    return is_uneven(shape, axes) && params->chunk_bytes == 0 && params->slot_count != 1 &&
           shape->rank_count <= TURNS_RANKS_MAX && tutti_torus_turns(axes, plan) &&
           message_bytes(params, shape->rank_count, plan) >= TURNS_MESSAGE_MIN;
}

int tutti_coll_torus(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                     struct tutti_schedule **ret, struct tutti_err *err)
{
    struct bucket_plan even = {.name = "torus", .turns = all_wrap(shape)};
    struct bucket_plan turns = {.name = "torus"};
    struct tutti_coll_params sliced = *params;
    struct route axes = {.axis_count = 0};
    int status;

    if (shape->rank_count <= 1)
        return tutti_coll_alone(even.name, params, shape, ret, err);
    status = find_axes(shape, &axes, err);
    if (status < 0)
        return status;
    if (lay_turns(params, shape, &axes, &turns)) {
        if (sliced.slice_count < 2)
            sliced.slice_count = 2;
        return tutti_bucket_new(&turns, &sliced, shape, ret, err);
    }
    lay_even(&axes, &even);
    return tutti_bucket_new(&even, params, shape, ret, err);
}
