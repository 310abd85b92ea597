/* Bounds of large machines, up to a million devices, are those that theory has for them in closed
 * form, derived here. */
#include "runtime/wide.h"
#include "tests/machines.h"
#include "tests/test.h"

/* bytes / (giga GB/s) in ps, rounded down. */
static uint64_t over(uint64_t bytes, uint64_t giga)
{
    return tutti_muldiv(bytes, 1000, giga);
}

static void holds(const struct tutti_topo *topo, enum tutti_collective collective, uint64_t count,
                  uint64_t ps, bool exact)
{
    struct tutti_bound bound = bound_of(topo, collective, count);

    if ((uint64_t)bound.bandwidth_ps != ps || (exact && !bound.exact))
        TEST_FAIL("%s, %s: %" PRId64 " ps (%s, %s), by hand %" PRIu64, topo->name,
                  tutti_collective_name(collective), bound.bandwidth_ps,
                  bound.exact ? "exact" : "valid", bound.binding, ps);
}

/* k hosts of 8 GPUs, 8 NICs of 50 GB/s each, leaves and spines that do not throttle and only
 * forward. All-reduce is a gossip of k hosts: 2(k-1) messages of M, each out of one of k hosts of
 * 400 GB/s. All-gather: what the other hosts have enters each; all-to-all: 8 ranks of a host send
 * to 8(k-1) others. The GPUs themselves, 450 by NVLink and 50 by NIC, have time enough: so the
 * first three are reached by rings across the hosts and exchanges inside. */
TEST(hosts_of_gpus)
{
    static const uint64_t counts[] = {64, 512, 2048, 131072};

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        uint64_t k = counts[i];
        uint64_t m = 1 << 20;
        uint64_t giga = 400;
        struct tutti_topo *topo;
        char spec[64];

        (void)snprintf(spec, sizeof(spec), "dgx-h100:nodes=%" PRIu64, k);
        topo = machine(spec);
        holds(topo, TUTTI_ALLREDUCE, k * m, over(2 * (k - 1) * m, giga), true);
        holds(topo, TUTTI_ALLGATHER, m, over(8 * (k - 1) * m, giga), true);
        holds(topo, TUTTI_REDUCESCATTER, m, over(8 * (k - 1) * m, giga), true);
        holds(topo, TUTTI_BROADCAST, 1000 * m, over(1000 * m, giga), false);
        holds(topo, TUTTI_ALLTOALL, m, over(8 * 8 * (k - 1) * m, giga), false);
        CHECK_TEXT(bound_of(topo, TUTTI_ALLREDUCE, k * m).binding,
                   "the 8 NICs of each host: 400GB/s out");
        tutti_topo_free(topo);
    }
}

/* n chips with 6 links of 45 GB/s each. All-reduce: vertex transitive, links alike, so 2(n-1)/n M
 * over 270 GB/s; all-gather (n-1) m over them; broadcast M. All-to-all: half of the chips, across
 * the longest axis, send to the other half: n/2 * n/2 blocks over two cuts of n/longest links. */
TEST(chips_on_a_torus)
{
    static const uint64_t dims[][3] = {{8, 16, 16}, {16, 32, 32}, {64, 128, 128}};

    for (size_t i = 0; i < sizeof(dims) / sizeof(dims[0]); i++) {
        uint64_t n = dims[i][0] * dims[i][1] * dims[i][2];
        uint64_t m = 1 << 14;
        struct tutti_topo *topo;
        char spec[64];

        (void)snprintf(spec, sizeof(spec), "torus:%" PRIu64 "x%" PRIu64 "x%" PRIu64, dims[i][0],
                       dims[i][1], dims[i][2]);
        topo = machine(spec);
        holds(topo, TUTTI_ALLREDUCE, n * m, over(2 * (n - 1) * m, 270), true);
        holds(topo, TUTTI_ALLGATHER, m, over((n - 1) * m, 270), true);
        holds(topo, TUTTI_BROADCAST, n * m, over(n * m, 270), true);
        holds(topo, TUTTI_ALLTOALL, m, over((n / 2) * (n / 2) * m, 2 * n / dims[i][2] * 45), true);
        tutti_topo_free(topo);
    }
}

/* Two levels of n = arity^2 ports of 50 GB/s. Devices bind as round one switch, whatever the
 * leaves lack: all-reduce 2(n-1)/n M / 50 (a ring goes up once a leaf). All-to-all: over = 4 leaves
 * arity/4 links up, by which arity devices send to all of other leaves. */
TEST(ports_of_a_fat_tree)
{
    static const uint64_t arities[] = {16, 64, 256};

    for (size_t i = 0; i < sizeof(arities) / sizeof(arities[0]); i++) {
        uint64_t arity = arities[i];
        uint64_t n = arity * arity;
        uint64_t m = 1 << 16;
        struct tutti_topo *topo;
        char spec[64];

        (void)snprintf(spec, sizeof(spec), "fattree:arity=%" PRIu64 ",levels=2,over=4", arity);
        topo = machine(spec);
        holds(topo, TUTTI_ALLREDUCE, n * m, over(2 * (n - 1) * m, 50), true);
        holds(topo, TUTTI_ALLGATHER, m, over((n - 1) * m, 50), true);
        holds(topo, TUTTI_BROADCAST, n * m, over(n * m, 50), true);
        holds(topo, TUTTI_ALLTOALL, m, over(arity * (n - arity) * m, arity / 4 * 50), false);
        tutti_topo_free(topo);
    }
}
