/* Who is whose neighbour in NCCL's tree (2.28: ncclTopoPreset and connectTrees in connect.cc).
 *
 * Inside a host every rank's parent is the one before on the chain. The first rank of a chain has
 * the link to the parent host; it leads to the rank of that host's chain at which its children are
 * attached: by the pattern the first or the second, for a lower (first) child and for a higher
 * (second) one, so that two GPUs and their NICs share what goes in and out. */
#include "runtime/coll/tree_hosts.h"

#include "runtime/coll/tree.h"

int tutti_tree_hosts_init(struct tree_hosts *hosts, const struct tree_plan *plan,
                          uint32_t rank_count, struct tutti_arena *arena, struct tutti_err *err)
{
    struct tutti_chains chains = *plan->chains;
    uint8_t pattern = plan->nccl->pattern;

    if (pattern < TUTTI_TREE_BALANCED || pattern > TUTTI_TREE_SINGLE)
        return tutti_fail(err, TUTTI_EINVAL, "no tree has the pattern '%u' (1 to 3)",
                          (unsigned)pattern);
    hosts->pattern = pattern;
    chains.swapped = false; /* rings only */
    return tutti_nccl_chains_init(&hosts->chains, &chains, rank_count, arena, err);
}

/* Where on the chain of a host the children below it are attached, or those above it. */
static uint32_t attachment(const struct tree_hosts *hosts, bool above)
{
    bool second = above ? hosts->pattern == TUTTI_TREE_SPLIT : hosts->pattern != TUTTI_TREE_SINGLE;

    return second && hosts->chains.is.length > 1 ? 1 : 0;
}

struct tree_family tutti_tree_family(const struct tree_hosts *hosts, uint32_t channel,
                                     uint32_t rank)
{
    const struct nccl_chains *chains = &hosts->chains;
    uint32_t length = chains->is.length;
    uint32_t n = chains->is.host_count;
    uint32_t position = nccl_ring_position(chains, channel, rank);
    uint32_t place = position % length;
    uint32_t which = channel / chains->is.count % 2;
    struct tree_family family = {.parent = TREE_NONE};
    uint32_t id;

    if (place + 1 < length)
        family.children[family.child_count++] = nccl_ring_rank(chains, channel, position + 1);
    if (place > 0)
        family.parent = nccl_ring_rank(chains, channel, position - 1);
    if (n < 2)
        return family;
    id = tutti_tree_double_node(which, n, position / length);
    for (uint32_t i = 0; i < tutti_tree_child_count(TREE_BALANCED, n, id); i++) {
        uint32_t child = tutti_tree_child(TREE_BALANCED, n, id, i);
        uint32_t host = tutti_tree_double_rank(which, n, child);

        if (place == attachment(hosts, child > id))
            family.children[family.child_count++] = nccl_ring_rank(chains, channel, host * length);
    }
    if (place == 0 && id != 0) {
        uint32_t parent = tutti_tree_parent(TREE_BALANCED, n, id);
        uint32_t host = tutti_tree_double_rank(which, n, parent);

        family.parent =
            nccl_ring_rank(chains, channel, host * length + attachment(hosts, id > parent));
    }
    return family;
}
