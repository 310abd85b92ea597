/* NCCL's tree all-reduce: a chain inside each host, and between hosts one of two binary trees.
 *
 * Price for n ranks on N hosts and M bytes: a chunk goes up and down, each way at most n/N - 1
 * messages along a chain and L between hosts, the smallest L with 2^L >= N, and one more inside
 * each of those hosts where children are attached to a second rank; 2(n-1) messages a chunk in all.
 * A rank has at most three children: it sends 4M bytes at most, and reduces 3M. Channels in turn
 * use the one and the other tree between hosts, in which inner hosts of one are mostly leaves of
 * the other. Chunks, or slices of them, to each of which this applies, are not divided by the
 * ranks, and follow one another in a pipeline; up and down are lanes of their own, as they are
 * groups of warps in NCCL 2.28 all_reduce.h. */
#include "runtime/coll/nccl_generators.h"
#include "runtime/coll/tree.h"
#include "runtime/nccl_coll.h"

int tutti_nccl_tree(const struct tutti_nccl_params *params, const struct tutti_chains *chains,
                    const struct tutti_shape *shape, struct tutti_schedule **ret,
                    struct tutti_err *err)
{
    struct tree_plan plan = {
        .name = "nccl:tree", .kind = TREE_HOSTS, .tree_count = 1, .nccl = params, .chains = chains};

    if (params->coll.collective != TUTTI_ALLREDUCE)
        return tutti_fail(err, TUTTI_EINVAL, "NCCL's trees do not serve '%s' (allreduce)",
                          tutti_collective_name(params->coll.collective));
    return tutti_tree_new(&plan, &params->coll, shape, ret, err);
}
