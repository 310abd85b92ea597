/* Chain tree all-reduce: a chain inside each host, and between hosts one of two binary trees; what
 * NCCL runs as its tree, laid out on the rings of the shape.
 *
 * Channels 0 .. k - 1 go through the hosts of each of the k rings of the shape in that order, and
 * all use one binary tree between hosts; the next k of them the other, and so on in turn. A host is
 * a group of the innermost level; on a shape without levels each rank is one, and the two trees are
 * those of the double binary tree. Sanders, Speck & Traeff 2009; NCCL 2.28 trees.cc.
 *
 * Price for n ranks in N hosts and M bytes: as nccl_tree.c. An item goes up and down, each way at
 * most n/N - 1 messages along a chain and L between hosts, the smallest L with 2^L >= N, and one
 * more inside each of those hosts where children are attached to a second rank; 2(n - 1) messages
 * an item in all. A rank sends at most 4M bytes, and reduces 3M.
 *
 * Grain: an item is chunk_bytes; 0 means 2^k bytes, about the root of a channel's share in KiB:
 * longer items keep those behind them waiting, shorter ones cost more messages; but 4 KiB at least,
 * and no more than 128 items a share. */
#include <stdlib.h>

#include "runtime/coll/generators.h"
#include "runtime/coll/tree.h"
#include "runtime/nccl_coll.h"

enum {
    ITEMS_MAX = 128,
    ITEM_BYTES_MIN = 4096,
    ROOT_OF_BYTES = 1024,
};

static uint64_t item_bytes(const struct tutti_coll_params *params, uint64_t share_bytes)
{
    uint64_t bytes = ITEM_BYTES_MIN;

    if (params->chunk_bytes > 0)
        return params->chunk_bytes;
    while (bytes < share_bytes / bytes * ROOT_OF_BYTES || bytes < share_bytes / ITEMS_MAX)
        bytes *= 2;
    return bytes;
}

/* Channels share the elements evenly; the last takes what is left. */
static struct tutti_nccl_params cut_evenly(const struct tutti_coll_params *params)
{
    struct tutti_nccl_params cut = {.coll = *params, .pattern = TUTTI_TREE_BALANCED};
    uint64_t count = params->channel_count == 0 ? 1 : params->channel_count;
    uint64_t share = div_up(params->count, count);

    cut.coll.channel_count = (uint32_t)count;
    cut.coll.chunk_bytes = item_bytes(params, share * tutti_dtype_bytes(params->dtype));
    cut.count_lo = cut.count_mid = share = params->count / count;
    cut.count_hi = params->count - share * (count - 1);
    if (count == 1)
        cut.count_lo = cut.count_hi;
    return cut;
}

/* What each ring does on the first host; where it does not begin there, no order is known. */
static int read_chains(const struct tutti_shape *shape, struct tutti_chains *ret,
                       uint32_t **ret_members, struct tutti_err *err)
{
    uint32_t length = shape->level_count > 0 ? shape->level[0] : 1;
    uint32_t *members;

    *ret_members = NULL;
    if (length == 0 || shape->rank_count % length != 0)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' ranks are not in groups of %u",
                          shape->rank_count, length);
    *ret = (struct tutti_chains){
        .host_count = shape->rank_count / length, .length = length, .count = 1};
    if (shape->order_count == 0)
        return 0;
    members = malloc((size_t)shape->order_count * length * sizeof(*members));
    if (members == NULL)
        return tutti_nomem(err);
    for (uint32_t k = 0; k < shape->order_count; k++) {
        for (uint32_t i = 0; i < length; i++) {
            members[k * length + i] = shape->orders[(size_t)k * shape->rank_count + i];
            if (members[k * length + i] < length)
                continue;
            free(members);
            return 0;
        }
    }
    ret->count = shape->order_count;
    ret->members = *ret_members = members;
    return 0;
}

int tutti_coll_chain_tree(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                          struct tutti_schedule **ret, struct tutti_err *err)
{
    struct tutti_nccl_params cut = cut_evenly(params);
    struct tutti_chains chains;
    uint32_t *members = NULL;
    struct tree_plan plan = {
        .name = "chain-tree", .kind = TREE_HOSTS, .tree_count = 1, .nccl = &cut, .chains = &chains};
    int status;

    if (shape->rank_count <= 1)
        return tutti_coll_alone(plan.name, params, shape, ret, err);
    status = read_chains(shape, &chains, &members, err);
    if (status == 0)
        status = tutti_tree_new(&plan, &cut.coll, shape, ret, err);
    free(members);
    return status;
}
