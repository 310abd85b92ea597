/* Tests of the bounds that are found by flows: values of theory, brute force over all cuts and all
 * partitions. */
#include "tests/machines.h"
#include "tests/test.h"
#include "tests/topo/random_machine.h"

static const uint64_t second = UINT64_C(1000000000000);

/* ---- values of theory ------------------------------------------------------------------------ */

/* Writes a machine of `count` devices with so many cables of 50 GB/s between each two. */
static struct tutti_topo *wired(const uint8_t *cables, int count)
{
    char text[8192];
    size_t used = 0;

    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "node gcd%d device\n", i);
    for (int i = 0; i < count; i++)
        for (int j = i + 1; j < count; j++)
            if (cables[i * count + j] > 0)
                used += (size_t)snprintf(text + used, sizeof(text) - used,
                                         "cable gcd%d gcd%d xgmi %dGB/s 1us\n", i, j,
                                         50 * cables[i * count + j]);
    return read_machine(text);
}

/* Two nodes of four MI250, two GCDs each: ForestColl's matrix, in links of 50 GB/s. */
static const uint8_t mi250[16 * 16] = {
    0, 4, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, /**/
    4, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, /**/
    0, 0, 0, 4, 0, 0, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, /**/
    0, 0, 4, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, /**/
    2, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, /**/
    0, 1, 0, 0, 4, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, /**/
    0, 0, 1, 0, 1, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, /**/
    0, 0, 0, 2, 0, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, /**/
    1, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 2, 0, 0, 0, /**/
    0, 1, 1, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 1, 0, 0, /**/
    0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 1, 0, /**/
    0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 2, /**/
    0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 4, 1, 0, /**/
    0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 4, 0, 1, 1, /**/
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 4, /**/
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 4, 0, /**/
};

/* tau = 24/7 links of 50 GB/s, and a reduce-scatter with an all-gather does as well. */
TEST(sixteen_gcds_of_mi250)
{
    struct tutti_topo *topo = wired(mi250, 16);
    struct tutti_bound bound = bound_of(topo, TUTTI_ALLREDUCE, 24 * GIGA);

    CHECK_INT(bound.bandwidth_ps, second * 7 / 50);
    CHECK(bound.exact);
    bound = bound_of(topo, TUTTI_ALLGATHER, 24 * GIGA);
    CHECK_INT(bound.bandwidth_ps, second * 16 * 7 / 100);
    CHECK(bound.exact);
    tutti_topo_free(topo);
}

/* What an all-reduce could do as a reduce-scatter and an all-gather, in links: N / (2 T) of the
 * all-gather of one byte a rank and link rate 1. */
TEST(all_gathers_are_those_of_theory)
{
    static const struct {
        const char *spec;
        uint64_t up;
        uint64_t down;
        uint64_t link_giga;
    } values[] = {
        {"dgx-1v", 24, 7, 25},
        {"mesh:4x4,bw=1GB/s", 16, 15, 1},
        {"mesh:8x8,bw=1GB/s", 64, 63, 1},
        {"mesh:4x2x2,bw=1GB/s", 8, 5, 1},
        {"torus:4x4,bw=1GB/s", 32, 15, 1},
        {"torus:4x4x4,bw=1GB/s", 64, 21, 1},
    };

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct tutti_topo *topo = machine(values[i].spec);
        uint64_t ps =
            second * topo->rank_count * values[i].down / (2 * values[i].up * values[i].link_giga);
        struct tutti_bound gather = bound_of(topo, TUTTI_ALLGATHER, GIGA);
        struct tutti_bound scatter = bound_of(topo, TUTTI_REDUCESCATTER, GIGA);

        if ((uint64_t)gather.bandwidth_ps != ps || !gather.exact ||
            scatter.bandwidth_ps != gather.bandwidth_ps || !scatter.exact)
            TEST_FAIL("%s: %" PRId64 " and %" PRId64 " ps, expected %" PRIu64, values[i].spec,
                      gather.bandwidth_ps, scatter.bandwidth_ps, ps);
        tutti_topo_free(topo);
    }
}

/* Hosts of GPUs round a switch of 300 GB/s, each GPU with 25 GB/s to one network: the levels say
 * as much as twice the all-gather, so that both are reached. */
TEST(clusters_are_bound_by_their_levels)
{
    static const uint32_t cases[][2] = {{2, 4}, {4, 4}, {2, 8}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t hosts = cases[i][0];
        uint32_t gpus = cases[i][1];
        uint32_t n = hosts * gpus;
        struct tutti_topo *topo;
        struct tutti_bound bound;
        char spec[64];
        uint64_t host_ps = second * 2 * (hosts - 1) / hosts / (25 * gpus);
        uint64_t gpu_ps = second * 2 * (n - 1) / n / 325;

        (void)snprintf(spec, sizeof(spec), "rail:nodes=%u,gpus=%u,bw=300GB/s,nic=25GB/s", hosts,
                       gpus);
        topo = machine(spec);
        bound = bound_of(topo, TUTTI_ALLREDUCE, GIGA);
        CHECK_INT(bound.bandwidth_ps, host_ps > gpu_ps ? host_ps : gpu_ps);
        CHECK(bound.exact);
        bound = bound_of(topo, TUTTI_ALLGATHER, 2 * GIGA / n);
        CHECK(bound.exact);
        CHECK(llabs(bound.bandwidth_ps - (int64_t)(host_ps > gpu_ps ? host_ps : gpu_ps)) <= 100);
        tutti_topo_free(topo);
    }
}

/* What binds has a name that fits: of groups of two and of three ranks none is called `each`. */
TEST(groups_of_unequal_size_are_told_apart)
{
    struct tutti_topo *topo =
        read_machine("node g0 device\nnode g1 device\nnode g2 device\nnode g3 device\n"
                     "node g4 device\nnode s0 switch\nnode s1 switch\n"
                     "cable g0 s0 nvlink 100GB/s 1us\ncable g1 s0 nvlink 100GB/s 1us\n"
                     "cable g2 s0 nvlink 100GB/s 1us\ncable g3 s1 nvlink 100GB/s 1us\n"
                     "cable g4 s1 nvlink 100GB/s 1us\ncable s0 s1 net 10GB/s 1us\n"
                     "cable g1 s1 net 5GB/s 1us\n");
    struct tutti_bound bound = bound_of(topo, TUTTI_ALLREDUCE, 15 * GIGA);

    CHECK_INT(bound.bandwidth_ps, second);
    CHECK_TEXT(bound.binding,
               "group of 3 ranks from rank 0 joined by links faster than 10GB/s: 15GB/s out");
    tutti_topo_free(topo);
}

/* ---- against brute force --------------------------------------------------------------------- */

/* What leaves a set of nodes, in GB/s. */
static uint64_t rate_out(const struct tutti_topo *topo, uint32_t set)
{
    uint64_t sum = 0;

    for (uint32_t l = 0; l < topo->link_count; l++)
        if ((set >> tutti_topo_link(topo, l).from & 1) != 0 &&
            (set >> tutti_topo_link(topo, l).to & 1) == 0)
            sum += tutti_topo_link(topo, l).bytes_per_s / GIGA;
    return sum;
}

/* The largest bytes / rate over all sets of nodes: of ranks in the set and not all (gather), or
 * with the root and not all (broadcast); backward: of what enters. In ps for 1 GB a rank. */
static uint64_t worst_set(const struct tutti_topo *topo, enum tutti_collective collective,
                          uint32_t root)
{
    bool backward = collective == TUTTI_REDUCESCATTER || collective == TUTTI_REDUCE_TO_ROOT;
    bool gather = collective == TUTTI_ALLGATHER || collective == TUTTI_REDUCESCATTER;
    uint32_t nodes = (1u << topo->node_count) - 1;
    uint32_t ranks = (1u << topo->rank_count) - 1; /* the first nodes */
    uint64_t worst = 0;

    for (uint32_t set = 1; set <= nodes; set++) {
        uint32_t inside = (uint32_t)__builtin_popcount(set & ranks);
        uint64_t ps;

        if ((set & ranks) == ranks || inside == 0 || (!gather && (set >> root & 1) == 0))
            continue;
        ps = second * (gather ? inside : 1) / rate_out(topo, backward ? nodes & ~set : set);
        worst = ps > worst ? ps : worst;
    }
    return worst;
}

/* Cuts are found to the last bit, on machines with switches and with links of one direction. */
TEST(bounds_of_random_machines_are_the_worst_of_all_cuts)
{
    static const enum tutti_collective collectives[] = {TUTTI_ALLGATHER, TUTTI_REDUCESCATTER,
                                                        TUTTI_BROADCAST, TUTTI_REDUCE_TO_ROOT};
    struct tutti_random random;
    int cases = test_full ? 2000 : 200;

    tutti_random_seed(&random, test_seed);
    for (int i = 0; i < cases && test_failures == 0; i++) {
        uint32_t ranks = 2 + (uint32_t)tutti_random_below(&random, 6);
        struct tutti_topo *topo =
            random_machine(&random, ranks, (uint32_t)tutti_random_below(&random, 5), i % 2 == 1);

        for (size_t c = 0; c < sizeof(collectives) / sizeof(collectives[0]); c++) {
            uint64_t worst = worst_set(topo, collectives[c], 0);
            struct tutti_bound bound = bound_of(topo, collectives[c], GIGA);

            if ((uint64_t)bound.bandwidth_ps != worst || (i % 2 == 0 && !bound.exact))
                TEST_FAIL("case %d, %s: %" PRId64 " ps (%s), worst of all cuts %" PRIu64 " (%s)", i,
                          tutti_collective_name(collectives[c]), bound.bandwidth_ps,
                          bound.exact ? "exact" : "valid", worst, bound.binding);
        }
        tutti_topo_free(topo);
    }
}

/* The largest (groups - 1) / (rate between them), both ways, over all partitions, tried one by one:
 * rank r is in a group of a lower rank, or in a new one. */
struct trial {
    uint32_t n;
    uint64_t rates[16][16]; /* both ways together, in GB/s */
    uint32_t group[16];
    uint64_t count; /* of the best: groups - 1, */
    uint64_t rate;  /* and the rate between them */
};

static void try_all(struct trial *trial, uint32_t rank, uint32_t groups, uint64_t rate)
{
    if (rank == trial->n) {
        if (groups > 1 && (trial->rate == 0 || (groups - 1) * trial->rate > trial->count * rate)) {
            trial->count = groups - 1;
            trial->rate = rate;
        }
        return;
    }
    for (uint32_t g = 0; g <= groups; g++) {
        uint64_t more = 0;

        trial->group[rank] = g;
        for (uint32_t q = 0; q < rank; q++)
            more += trial->group[q] != g ? trial->rates[q][rank] : 0;
        try_all(trial, rank + 1, g == groups ? groups + 1 : groups, rate + more);
    }
}

TEST(all_reduce_on_wired_devices_is_the_best_of_all_partitions)
{
    struct tutti_random random;
    int cases = test_full ? 200 : 20;

    tutti_random_seed(&random, test_seed + 1);
    for (int i = 0; i < cases && test_failures == 0; i++) {
        uint32_t n = 9 + (uint32_t)tutti_random_below(&random, 2);
        struct tutti_topo *topo = random_machine(&random, n, 0, false);
        struct tutti_bound bound = bound_of(topo, TUTTI_ALLREDUCE, GIGA);
        struct trial trial = {.n = n};
        uint64_t ps;

        for (uint32_t l = 0; l < topo->link_count; l++) {
            struct tutti_link link = tutti_topo_link(topo, l);
            uint32_t low = link.from < link.to ? link.from : link.to;

            trial.rates[low][link.from + link.to - low] += link.bytes_per_s / GIGA;
        }
        try_all(&trial, 0, 0, 0);
        ps = second * 2 * trial.count / trial.rate;
        if ((uint64_t)bound.bandwidth_ps != ps || !bound.exact)
            TEST_FAIL("case %d: %" PRId64 " ps (%s), best of all partitions %" PRIu64, i,
                      bound.bandwidth_ps, bound.binding, ps);
        tutti_topo_free(topo);
    }
}
