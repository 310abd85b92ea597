/* The table of all algorithms, in the order in which they are tried. */
#include "runtime/coll.h"
#include "runtime/coll/generators.h"

enum {
    AR = 1 << TUTTI_ALLREDUCE,
    RS = 1 << TUTTI_REDUCESCATTER,
    AG = 1 << TUTTI_ALLGATHER,
    BC = 1 << TUTTI_BROADCAST,
    RD = 1 << TUTTI_REDUCE_TO_ROOT,
    AA = 1 << TUTTI_ALLTOALL,
    SR = 1 << TUTTI_SENDRECV,
    BA = 1 << TUTTI_BARRIER,
};

#define ENTRY(name_, summary_, collectives_, generate_)                                 \
    {                                                                                   \
        .size = sizeof(struct tutti_algorithm), .name = (name_), .summary = (summary_), \
        .collectives = (collectives_), .generate = (generate_)                          \
    }

static const struct tutti_algorithm algorithms[] = {
    ENTRY("ring", "data go round a ring: fewest bytes, latency grows with the ranks",
          AR | RS | AG | BC | RD | AA | BA, tutti_coll_ring),
    ENTRY("ring-bidirectional", "two rings, half of the data each way round",
          AR | RS | AG | BC | RD, tutti_coll_ring_bidirectional),
    ENTRY("recursive-doubling", "exchange everything at distance 1, 2, 4, ...: lowest latency",
          AR | AG | BA, tutti_coll_recursive_doubling),
    ENTRY("halving-doubling",
          "halve the data while reducing, double while gathering (Rabenseifner)", AR,
          tutti_coll_halving_doubling),
    ENTRY("halving", "exchange half of the blocks, then a quarter, ...", RS, tutti_coll_halving),
    ENTRY("binomial", "binomial tree to the root, from it, or both", AR | BC | RD | BA,
          tutti_coll_binomial),
    ENTRY("double-binary-tree",
          "two pipelined binary trees, half of the data each (as NCCL's tree)", AR,
          tutti_coll_double_binary_tree),
    ENTRY("one-shot", "everybody sends everything to everybody", AR, tutti_coll_one_shot),
    ENTRY("two-shot", "everybody reduces a part and sends it to everybody", AR,
          tutti_coll_two_shot),
    ENTRY("direct", "every block straight to where it belongs", RS | AG | AA | SR,
          tutti_coll_direct),
    ENTRY("hierarchical", "reduce-scatter inside groups, all-reduce across, all-gather inside", AR,
          tutti_coll_hierarchical),
    ENTRY("reduce-broadcast", "all to rank 0, which adds and sends the sum to all", AR,
          tutti_coll_reduce_broadcast),
    ENTRY("torus", "a bucket for every axis and direction of a grid, all links busy", AR,
          tutti_coll_torus),
    ENTRY("chain-tree",
          "chains inside hosts, two binary trees between them, by every NIC (NCCL's tree)", AR,
          tutti_coll_chain_tree),
};

const struct tutti_algorithm *tutti_algorithms(size_t *ret_count)
{
    *ret_count = sizeof(algorithms) / sizeof(algorithms[0]);
    return algorithms;
}
