/* Rings and channels; see channels.h. */
#include "sim/shape/channels.h"

#include <stdbool.h>
#include <string.h>

#include "runtime/coll.h"
#include "runtime/status.h"
#include "sim/shape/host_rings.h"
#include "sim/shape/memory.h"
#include "topo/topo.h"

enum { BLOCK_BYTES_MIN = 4096, TREE_SHARE_BYTES_MAX = 128 * 1024 };

/* For an algorithm that runs on rings: one for each ring of the machine, for each uses other links;
 * but one alone where that would leave less than 4 KiB of what goes round for each rank, for then
 * latencies decide and more messages cost. NCCL 2.28 takes channels away below as much (8 bytes for
 * each of 512 threads and each rank). */
static uint32_t ring_channels(const struct tutti_coll_params *params,
                              const struct tutti_shape *shape)
{
    uint64_t block = params->count * tutti_dtype_bytes(params->dtype);

    if (tutti_collective_is_rooted(params->collective))
        return shape->order_count; /* these go along the ring in chunks of their own */
    if (params->collective == TUTTI_ALLREDUCE)
        block /= shape->rank_count;
    return shape->order_count > 0 && block / shape->order_count < BLOCK_BYTES_MIN
               ? 1
               : shape->order_count;
}

/* Of a tree of chains: each ring twice, once for each of the trees between hosts; four times where
 * shares are small, of which more are under way at once; but with less than 4 KiB for each, two. */
static uint32_t tree_channels(const struct tutti_coll_params *params,
                              const struct tutti_shape *shape)
{
    uint64_t bytes = params->count * tutti_dtype_bytes(params->dtype);
    uint32_t count = shape->order_count > 0 ? shape->order_count : 1;
    uint64_t share = bytes / (4 * (uint64_t)count);

    if (2 * share < BLOCK_BYTES_MIN)
        return 2;
    return share >= BLOCK_BYTES_MIN && share <= TREE_SHARE_BYTES_MAX ? 4 * count : 2 * count;
}

/* Machines without hosts have nothing that such a tree is made for. */
static int check_hosts(const struct tutti_topo *topo, struct tutti_err *err)
{
    if (tutti_hosts_have_nics(topo))
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "it needs hosts of several ranks joined by NICs; this machine has none");
}

int tutti_shape_channels(const struct tutti_topo *topo, struct tutti_predict_memory *memory,
                         const char *algorithm, struct tutti_coll_params *params,
                         struct tutti_shape *ret, uint32_t **ret_orders, struct tutti_err *err)
{
    bool tree = strcmp(algorithm, "chain-tree") == 0;
    int status;

    *ret = topo->shape;
    *ret_orders = NULL;
    if (!tree && strcmp(algorithm, "ring") != 0 && strcmp(algorithm, "ring-bidirectional") != 0)
        return 0;
    status = tree ? check_hosts(topo, err) : 0;
    if (status == 0)
        status = memory != NULL ? tutti_memory_rings(memory, topo, ret, err)
                                : tutti_host_rings(topo, ret, ret_orders, err);
    if (status < 0)
        return status;
    if (params->channel_count == 0)
        params->channel_count = tree ? tree_channels(params, ret) : ring_channels(params, ret);
    if (ret->order_count > params->channel_count) /* which have a ring each */
        ret->order_count = params->channel_count;
    return 0;
}
