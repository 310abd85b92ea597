/* Which ranks form groups: each kind is an axis of the grid of ranks. Context and data lie beside
 * each other in the order (tutti_parallel_check sees to it), a block in which experts and shards
 * are cut as well. */
#include <assert.h>

#include "runtime/model.h"
#include "runtime/parallel/parts.h"

/* Ranks between two neighbours along a dimension. */
static uint32_t stride_of(const struct tutti_parallel *p, enum tutti_dimension dim)
{
    uint32_t stride = 1;

    for (int i = 0; p->order[i] != dim; i++)
        stride *= tutti_parallel_size_of(p, p->order[i]);
    return stride;
}

/* The same in the block of context and data. */
static uint32_t block_stride(const struct tutti_parallel *p)
{
    const uint32_t context = stride_of(p, TUTTI_DIM_CONTEXT);
    const uint32_t data = stride_of(p, TUTTI_DIM_DATA);

    if (p->context == 1 || p->data == 1)
        return p->context > 1 ? context : data;
    return context < data ? context : data;
}

static bool is_before(const struct tutti_parallel *p, enum tutti_dimension dim,
                      enum tutti_dimension other)
{
    int i = 0;

    while (p->order[i] != dim && p->order[i] != other)
        i++;
    return p->order[i] == dim;
}

static struct tutti_axis make(const struct tutti_parallel *p, const char *name, uint32_t stride,
                              uint32_t size)
{
    const uint32_t ranks = p->tensor * p->context * p->data * p->pipeline;

    return (struct tutti_axis){.name = name,
                               .width = stride,
                               .stride = stride,
                               .size = size,
                               .period = stride * size,
                               .repeat = ranks / (stride * size)};
}

/* Experts are the inner part of the block, or the outer one where they stand behind data. */
static struct tutti_axis expert_axis(const struct tutti_parallel *p, bool gradients)
{
    const uint32_t copies = p->context * p->data / p->expert;
    const bool inner = is_before(p, TUTTI_DIM_EXPERT, TUTTI_DIM_DATA);
    const uint32_t block = block_stride(p);

    if (gradients)
        return make(p, "expert-data", inner ? block * p->expert : block, copies);
    return make(p, "expert", inner ? block : block * copies, p->expert);
}

/* The first and the last device of each pipeline. */
static struct tutti_axis tied_axis(const struct tutti_parallel *p)
{
    struct tutti_axis axis =
        make(p, "tied", stride_of(p, TUTTI_DIM_PIPELINE),
             p->schedule == TUTTI_PIPELINE_ZBV && p->pipeline > 1 ? 1 : p->pipeline);

    if (axis.size > 1) {
        axis.stride *= axis.size - 1;
        axis.size = 2;
    }
    return axis;
}

struct tutti_axis tutti_parallel_kv_axis(const struct tutti_parallel *parallel,
                                         const struct tutti_workload *model)
{
    const struct tutti_parallel p = tutti_parallel_filled(parallel);
    const uint32_t heads = model->transformer.kv_heads;

    return make(&p, "keys-values", stride_of(&p, TUTTI_DIM_TENSOR),
                heads > 0 && p.tensor > heads ? p.tensor / heads : 1);
}

struct tutti_axis tutti_parallel_axis(const struct tutti_parallel *parallel,
                                      enum tutti_parallel_group group)
{
    const struct tutti_parallel p = tutti_parallel_filled(parallel);
    const uint32_t block = block_stride(&p);
    const uint32_t replicas = p.context * p.data;

    switch (group) {
    case TUTTI_GROUP_TENSOR:
        return make(&p, "tensor", stride_of(&p, TUTTI_DIM_TENSOR), p.tensor);
    case TUTTI_GROUP_CONTEXT:
        return make(&p, "context", stride_of(&p, TUTTI_DIM_CONTEXT), p.context);
    case TUTTI_GROUP_EXPERT:
        return expert_axis(&p, false);
    case TUTTI_GROUP_DATA:
        return make(&p, "data", block, replicas);
    case TUTTI_GROUP_EXPERT_DATA:
        return expert_axis(&p, true);
    case TUTTI_GROUP_SHARD:
        return make(&p, "shard", block, p.shard_ranks);
    case TUTTI_GROUP_ACROSS:
        return make(&p, "across", block * p.shard_ranks, replicas / p.shard_ranks);
    case TUTTI_GROUP_PIPELINE:
        return make(&p, "pipeline", stride_of(&p, TUTTI_DIM_PIPELINE), p.pipeline);
    case TUTTI_GROUP_TIED:
        return tied_axis(&p);
    default:
        assert(group == TUTTI_GROUP_ALL);
        return make(&p, "all", 1, p.tensor * replicas * p.pipeline);
    }
}
