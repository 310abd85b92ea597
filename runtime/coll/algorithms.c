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

static const struct tutti_algorithm algorithms[] = {
    {"ring", "data go round a ring: fewest bytes, latency grows with the ranks",
     AR | RS | AG | BC | RD | AA | BA, tutti_coll_ring},
    {"ring-bidirectional", "two rings, half of the data each way round", AR | RS | AG | BC | RD,
     tutti_coll_ring_bidirectional},
    {"recursive-doubling", "exchange everything at distance 1, 2, 4, ...: lowest latency",
     AR | AG | BA, tutti_coll_recursive_doubling},
    {"halving-doubling", "halve the data while reducing, double while gathering (Rabenseifner)", AR,
     tutti_coll_halving_doubling},
    {"halving", "exchange half of the blocks, then a quarter, ...", RS, tutti_coll_halving},
    {"binomial", "binomial tree to the root, from it, or both", AR | BC | RD | BA,
     tutti_coll_binomial},
    {"double-binary-tree", "two pipelined binary trees, half of the data each (as NCCL's tree)", AR,
     tutti_coll_double_binary_tree},
    {"one-shot", "everybody sends everything to everybody", AR, tutti_coll_one_shot},
    {"two-shot", "everybody reduces a part and sends it to everybody", AR, tutti_coll_two_shot},
    {"direct", "every block straight to where it belongs", RS | AG | AA | SR, tutti_coll_direct},
    {"hierarchical", "reduce-scatter inside groups, all-reduce across, all-gather inside", AR,
     tutti_coll_hierarchical},
    {"reduce-broadcast", "all to rank 0, which adds and sends the sum to all", AR,
     tutti_coll_reduce_broadcast},
    {"torus", "a bucket for every axis and direction of a grid, all links busy", AR,
     tutti_coll_torus},
};

const struct tutti_algorithm *tutti_algorithms(size_t *ret_count)
{
    *ret_count = sizeof(algorithms) / sizeof(algorithms[0]);
    return algorithms;
}
