/* The table of all algorithms, in the order in which they are tried. */
#include "runtime/coll.h"
#include "runtime/coll/generators.h"

static const struct tutti_algorithm algorithms[] = {
    {"ring", "pieces go round a ring: fewest bytes, latency grows with the ranks",
     1u << TUTTI_ALLREDUCE, tutti_coll_ring},
    {"ring-bidirectional", "two rings, half of the data each way round", 1u << TUTTI_ALLREDUCE,
     tutti_coll_ring_bidirectional},
};

const struct tutti_algorithm *tutti_algorithms(size_t *ret_count)
{
    *ret_count = sizeof(algorithms) / sizeof(algorithms[0]);
    return algorithms;
}
