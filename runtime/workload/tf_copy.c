/* TensorFlow's hierarchical copy: sums at a root in each half, the halves' sums joined across. */
#include <assert.h>

#include "runtime/loop.h"
#include "runtime/status.h"
#include "runtime/tensorflow.h"
#include "runtime/wide.h"

struct copying {
    uint64_t count; /* elements */
    uint64_t element_bytes;
    uint32_t tensor_count;
    uint64_t tensor_bytes_max;
};

/* Where tensor `index` begins. */
static uint64_t tensor_first(const struct copying *copying, uint32_t index)
{
    return tutti_muldiv(copying->count, index, copying->tensor_count) * copying->element_bytes;
}

static void write_member(struct tutti_loop *w, uint32_t root, uint64_t first, uint64_t bytes)
{
    const struct tutti_buf_at in = {TUTTI_BUF_IN, first};
    const struct tutti_buf_at out = {TUTTI_BUF_OUT, first};

    tutti_loop_append(w, tutti_step_send(in, bytes, root));
    tutti_loop_append(w, tutti_step_recv(out, bytes, root));
}

/* `half` is the first rank of the root's half, `other` the root of the other one. */
static void write_root(struct tutti_loop *w, uint32_t half, uint32_t other, bool is_first,
                       uint64_t first, uint64_t bytes)
{
    const struct copying *copying = w->context;
    const struct tutti_buf_at in = {TUTTI_BUF_IN, first};
    const struct tutti_buf_at out = {TUTTI_BUF_OUT, first};
    const struct tutti_buf_at staging = {TUTTI_BUF_SCRATCH, w->share * copying->tensor_bytes_max};
    struct tutti_buf_at sum = in;
    uint32_t size = w->rank_count / 2;

    for (uint32_t i = 0; i < size; i++) {
        if (half + i == w->rank)
            continue;
        tutti_loop_recv_reduce(w, half + i, out, sum, staging, bytes);
        sum = out;
    }
    if (is_first) {
        tutti_loop_recv_reduce(w, other, out, sum, staging, bytes)->flags |= TUTTI_STEP_LAST;
        tutti_loop_append(w, tutti_step_send(out, bytes, other));
    } else {
        tutti_loop_append(w, tutti_step_send(sum, bytes, other));
        tutti_loop_append(w, tutti_step_recv(out, bytes, other));
    }
    for (uint32_t i = 0; i < size; i++)
        if (half + i != w->rank)
            tutti_loop_append(w, tutti_step_send(out, bytes, half + i));
}

static void write(struct tutti_loop *w)
{
    const struct copying *copying = w->context;
    uint32_t size = w->rank_count / 2;
    uint32_t first_root = w->share % w->rank_count;
    uint32_t second_root = (first_root + size) % w->rank_count;
    uint32_t half = w->rank / size * size;
    bool with_first = first_root / size * size == half;
    uint32_t root = with_first ? first_root : second_root;
    uint64_t first = tensor_first(copying, w->share);
    uint64_t bytes = tensor_first(copying, w->share + 1) - first;

    if (w->rank == root)
        write_root(w, half, with_first ? second_root : first_root, with_first, first, bytes);
    else
        write_member(w, root, first, bytes);
}

int tutti_tf_hierarchical_copy(const struct tutti_coll_params *params,
                               const struct tutti_shape *shape, struct tutti_schedule **ret,
                               struct tutti_err *err)
{
    struct copying copying = {.count = params->count,
                              .element_bytes = tutti_dtype_bytes(params->dtype),
                              .tensor_count =
                                  params->channel_count > 0 ? params->channel_count : 1};
    struct tutti_loop_desc desc = {
        .size = sizeof(desc),
        .head = {.name = "hierarchical-copy",
                 .contract = {.collective = params->collective,
                              .dtype = params->dtype,
                              .op = params->op,
                              .count = params->count},
                 .rank_count = shape->rank_count,
                 .lane_count = copying.tensor_count,
                 .slot_count = params->slot_count},
        .share_lanes = 1,
        .write = write,
        .context = &copying,
        .context_bytes = sizeof(copying),
    };

    if (params->collective != TUTTI_ALLREDUCE)
        return tutti_fail(err, TUTTI_EINVAL, "hierarchical-copy does not do '%s' (but allreduce)",
                          tutti_collective_name(params->collective));
    if (shape->rank_count < 2 || shape->rank_count % 2 != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "hierarchical-copy on '%u' ranks (it needs two halves of equal size)",
                          shape->rank_count);
    if (tutti_times(params->count, copying.element_bytes) > INT64_MAX / 2)
        return tutti_fail(err, TUTTI_EINVAL, "'%llu' elements are more bytes than can be counted",
                          (unsigned long long)params->count);
    copying.tensor_bytes_max =
        (params->count / copying.tensor_count + (params->count % copying.tensor_count != 0)) *
        copying.element_bytes;
    desc.head.scratch_bytes = tutti_times(copying.tensor_bytes_max, copying.tensor_count);
    return tutti_loop_schedule(&desc, ret, err);
}

int tutti_tf_algorithm_add(struct tutti_algorithm_set *set, struct tutti_err *err)
{
    static const struct tutti_algorithm algorithms[] = {
        {.size = sizeof(struct tutti_algorithm),
         .name = "hierarchical-copy",
         .summary = "sums at a root in each half, then across, a root a tensor (TensorFlow, DGX-1)",
         .collectives = 1u << TUTTI_ALLREDUCE,
         .generate = tutti_tf_hierarchical_copy},
        {.size = sizeof(struct tutti_algorithm),
         .name = "tf-ring",
         .summary = "rings turned and reversed in each host, one a subdivision (TensorFlow)",
         .collectives = 1u << TUTTI_ALLREDUCE,
         .generate = tutti_tf_ring_reduce},
    };
    int status = 0;

    for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]) && status == 0; i++)
        status = tutti_algorithm_add(set, &algorithms[i], err);
    return status;
}
