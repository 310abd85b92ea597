/* Tests of bounds and bisections: against theory, by brute force, by playing. */
#include <math.h>
#include <time.h>

#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/predict.h"
#include "tests/machines.h"
#include "tests/test.h"
#include "tests/topo/random_machine.h"
#include "topo/topo.h"

/* ---- values of theory ------------------------------------------------------------------------ */

/* All-reduce of 1 GB: the rate is tau links of link_giga GB/s. */
struct value {
    const char *spec;
    uint64_t tau_up;
    uint64_t tau_down;
    uint64_t link_giga;
    bool exact;
};

/* Spanning tree packings, computed independently (Cunningham's algorithm); dgx-1v also by brute
 * force over its 4140 partitions. The MI250 of 16 GCDs: bound_exact_test. */
static const struct value values[] = {
    {"dgx-1v", 24, 7, 25, true},
    {"fattree:arity=4,bw=50GB/s", 8, 15, 50, true}, /* by the ring: 2 x 15/16 M / 50 GB/s */
    {"fattree:arity=4,over=2,bw=50GB/s", 8, 15, 50, true},
    {"dgx-2", 8, 15, 150, true},
    {"mesh:4x4,bw=1GB/s", 8, 5, 1, true},
    {"mesh:8x8,bw=1GB/s", 16, 9, 1, true},
    {"mesh:4x2x2,bw=1GB/s", 28, 15, 1, true},
    {"torus:4x4,bw=1GB/s", 32, 15, 1, true},
    {"torus:4x4x4,bw=1GB/s", 64, 21, 1, true},
    {"ring:n=8,bw=1GB/s", 8, 7, 1, true},
    {"full:n=8,bw=1GB/s", 4, 1, 1, true},
    {"mi300x", 4, 1, 64, true},
    {"tpu-v4:4x4x8", 384, 127, 45, true},       /* twisted: N links of 6 a device over N - 1 */
    {"switch:n=8,bw=450GB/s", 4, 7, 450, true}, /* 2 x 7/8 M / 450 GB/s */
    {"switch:n=8,bw=450GB/s,reduces", 1, 1, 450, false},
    {"dgx-h100", 1, 1, 450, false}, /* NVLS */
    {"dgx-a100", 4, 7, 300, true},
};

TEST(all_reduce_is_bound_as_theory_says)
{
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        const struct value *value = &values[i];
        struct tutti_topo *topo = machine(value->spec);
        struct tutti_bound bound = bound_of(topo, TUTTI_ALLREDUCE, GIGA);
        /* 1e9 bytes over tau * giga * 1e9 bytes a second, rounded down */
        uint64_t ps =
            UINT64_C(1000000000000) * value->tau_down / (value->tau_up * value->link_giga);

        if ((uint64_t)bound.bandwidth_ps != ps || bound.exact != value->exact)
            TEST_FAIL("%s: %" PRId64 " ps, %s, expected %" PRIu64 " (%s)", value->spec,
                      bound.bandwidth_ps, bound.exact ? "exact" : "valid", ps, bound.binding);
        tutti_topo_free(topo);
    }
}

/* Section 4.2 of theory: 4 x 8 B200: max(2 x 3/4 M / 400, 2 x 31/32 M / 950), but the switches of a
 * B200 reduce, so of the devices only M / 950 is left. Without NVLS the rail cluster has both. */
TEST(levels_are_bound_by_what_leaves_a_host)
{
    struct tutti_topo *topo = machine("hgx-b200:nodes=4");
    struct tutti_bound bound = bound_of(topo, TUTTI_ALLREDUCE, GIGA);

    CHECK_INT(bound.bandwidth_ps, UINT64_C(1500000000000) / 400);
    CHECK_TEXT(bound.binding, "the 8 NICs of each host: 400GB/s out");
    CHECK(bound.exact); /* by a reduce-scatter and an all-gather */
    tutti_topo_free(topo);
    topo = machine("rail:nodes=4,gpus=8,bw=100GB/s,nic=50GB/s");
    bound = bound_of(topo, TUTTI_ALLREDUCE, GIGA);
    CHECK_INT(bound.bandwidth_ps, UINT64_C(2000000000000) * 31 / 32 / 150);
    CHECK_TEXT(bound.binding, "each device: 150GB/s out");
    tutti_topo_free(topo);
}

TEST(an_oversubscribed_tree_is_bound_at_its_leaves)
{
    struct tutti_topo *topo = machine("fattree:arity=8,levels=2,over=4,bw=50GB/s");
    struct tutti_bound bound = bound_of(topo, TUTTI_ALLTOALL, GIGA / 64);

    /* 8 x 56 x M/64 over the two links of a leaf */
    CHECK_INT(bound.bandwidth_ps, UINT64_C(7000000000000) / 100);
    CHECK_TEXT(bound.binding, "each group of 8 ranks: 100GB/s out");
    /* an all-reduce needs no more between leaves than of each device */
    bound = bound_of(topo, TUTTI_ALLREDUCE, GIGA);
    CHECK_INT(bound.bandwidth_ps, UINT64_C(2000000000000) * 63 / 64 / 50);
    tutti_topo_free(topo);
    topo = machine("dgx-a100:nodes=64,over=4,spines=8");
    bound = bound_of(topo, TUTTI_ALLREDUCE, GIGA);
    /* two groups of 32 hosts, 8 rails of 32 x 25 GB/s, a quarter of it up: 2 x 1/2 M / 1600 GB/s is
     * less than 2 x 63/64 M / 200 GB/s of a host */
    CHECK_INT(bound.bandwidth_ps, UINT64_C(2000000000000) * 63 / 64 / 200);
    tutti_topo_free(topo);
    topo = machine("dgx-a100:nodes=64,over=64,spines=8");
    bound = bound_of(topo, TUTTI_ALLREDUCE, GIGA);
    CHECK_INT(bound.bandwidth_ps, UINT64_C(1000000000000) / 100);
    CHECK_TEXT(bound.binding, "each group of 256 ranks under the same leaf switches: 100GB/s out");
    tutti_topo_free(topo);
}

/* 58 days and 58 days are more than the 106 that can be said: as far as can be said, then. */
TEST(latencies_beyond_what_can_be_said_bind_all_the_same)
{
    struct tutti_topo *topo = read_machine("node a device\nnode b device\nnode c device\n"
                                           "cable a b generic 1GB/s 5000000s\n"
                                           "cable b c generic 1GB/s 5000000s\n");
    struct tutti_bound bound = bound_of(topo, TUTTI_ALLREDUCE, 1000000);

    CHECK_INT(bound.time_ps, INT64_MAX - 1);
    CHECK(!bound.exact);
    tutti_topo_free(topo);
}

/* Rates 10, 1, 10, 1: pairs joined by a fast cable have a cut of 2, single devices one of 11. */
TEST(a_ring_of_unequal_cables_is_bound_by_its_slow_ones)
{
    struct tutti_topo *topo = read_machine("node a device\nnode b device\nnode c device\n"
                                           "node d device\n"
                                           "cable a b generic 10GB/s 1us\n"
                                           "cable b c generic 1GB/s 1us\n"
                                           "cable c d generic 10GB/s 1us\n"
                                           "cable d a generic 1GB/s 1us\n");
    struct tutti_bound bound = bound_of(topo, TUTTI_ALLREDUCE, GIGA);

    CHECK_INT(bound.bandwidth_ps, UINT64_C(500000000000)); /* tau = 2 */
    CHECK_TEXT(bound.binding, "each group of 2 ranks joined by links faster than 1GB/s: 2GB/s out");
    CHECK(bound.exact);
    tutti_topo_free(topo);
}

/* Seven GPUs and one that hangs on by a single cable: tau = 1 link. */
TEST(uneven_groups_are_bound_by_the_cable_between_them)
{
    char text[4096] = "node lone device\n";
    size_t used = strlen(text);
    struct tutti_topo *topo;
    struct tutti_bound bound;

    for (int i = 0; i < 7; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "node gpu%d device\n", i);
    for (int i = 0; i < 7; i++)
        for (int j = i + 1; j < 7; j++)
            used += (size_t)snprintf(text + used, sizeof(text) - used,
                                     "cable gpu%d gpu%d generic 1GB/s 1us\n", i, j);
    (void)snprintf(text + used, sizeof(text) - used, "cable lone gpu0 generic 1GB/s 1us\n");
    topo = read_machine(text);
    bound = bound_of(topo, TUTTI_ALLREDUCE, GIGA);
    CHECK_INT(bound.bandwidth_ps, UINT64_C(1000000000000));
    CHECK_TEXT(bound.binding, "link lone -> gpu0: 1GB/s");
    /* all-gather: 7/8 must enter the lone one */
    CHECK_INT(bound_of(topo, TUTTI_ALLGATHER, GIGA / 8).bandwidth_ps, UINT64_C(875000000000));
    tutti_topo_free(topo);
}

TEST(other_collectives_have_their_closed_forms)
{
    struct tutti_topo *ring = machine("ring:n=8,bw=1GB/s");
    struct tutti_topo *mesh = machine("mesh:8x8,bw=1GB/s");
    struct tutti_topo *round = machine("switch:n=8,bw=1GB/s");
    const uint64_t second = UINT64_C(1000000000000);

    /* M N / (8 b) */
    CHECK_INT(bound_of(ring, TUTTI_ALLTOALL, GIGA / 8).bandwidth_ps, second);
    CHECK(bound_of(ring, TUTTI_ALLTOALL, GIGA / 8).exact);
    /* 7/8 M over two links */
    CHECK_INT(bound_of(ring, TUTTI_ALLGATHER, GIGA / 8).bandwidth_ps, second * 7 / 16);
    CHECK_INT(bound_of(ring, TUTTI_REDUCESCATTER, GIGA / 8).bandwidth_ps, second * 7 / 16);
    CHECK_INT(bound_of(ring, TUTTI_BROADCAST, GIGA).bandwidth_ps, second / 2);
    /* a corner takes 2 links: RS + AG as good as tau = 64/63 */
    CHECK_INT(bound_of(mesh, TUTTI_ALLGATHER, GIGA / 64).bandwidth_ps, second * 63 / 128);
    CHECK_INT(bound_of(mesh, TUTTI_REDUCE_TO_ROOT, GIGA).bandwidth_ps, second / 2);
    CHECK_INT(bound_of(round, TUTTI_ALLTOALL, GIGA / 8).bandwidth_ps, second * 7 / 8);
    CHECK_INT(bound_of(round, TUTTI_SENDRECV, GIGA).bandwidth_ps, second);
    CHECK(bound_of(round, TUTTI_SENDRECV, GIGA).exact);
    CHECK(!bound_of(ring, TUTTI_SENDRECV, GIGA).exact);
    tutti_topo_free(ring);
    tutti_topo_free(mesh);
    tutti_topo_free(round);
}

TEST(small_sizes_are_bound_by_latency)
{
    struct tutti_topo *topo = machine("torus:4x4x4,lat=1us");
    struct tutti_bound bound = bound_of(topo, TUTTI_ALLREDUCE, 8);

    CHECK_INT(bound.time_ps, 6 * TUTTI_PS_PER_US);
    CHECK_TEXT(bound.binding, "latency from rank 0 to rank 42");
    CHECK(!bound.exact);
    bound = bound_of(topo, TUTTI_BARRIER, 0);
    CHECK_INT(bound.time_ps, 6 * TUTTI_PS_PER_US);
    CHECK_INT(bound_of(topo, TUTTI_ALLREDUCE, 0).time_ps, 0);
    tutti_topo_free(topo);
    topo = machine("tpu-v4:4x4x8"); /* twisted: diameter 6, untwisted 8 */
    CHECK_INT(bound_of(topo, TUTTI_BARRIER, 0).time_ps, 6 * TUTTI_PS_PER_US);
    tutti_topo_free(topo);
    topo = machine("ring:n=1");
    CHECK_INT(bound_of(topo, TUTTI_ALLREDUCE, GIGA).time_ps, 0);
    tutti_topo_free(topo);
}

TEST(what_has_no_bound_is_refused)
{
    struct tutti_topo *topo = machine("ring:n=4");
    struct tutti_contract contract = {.collective = TUTTI_CUSTOM, .count = 1};
    struct tutti_bound bound;
    struct tutti_err err = {""};

    CHECK_INT(tutti_topo_bound(topo, &contract, &bound, &err), -TUTTI_EINVAL);
    contract.collective = TUTTI_BROADCAST;
    contract.root = 4;
    CHECK_INT(tutti_topo_bound(topo, &contract, &bound, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "root 4 of 4 ranks (0 to 3)");
    contract.root = 0;
    contract.count = UINT64_MAX / 2;
    CHECK_INT(tutti_topo_bound(topo, &contract, &bound, &err), -TUTTI_EINVAL);
    tutti_topo_free(topo);
}

/* ---- against brute force --------------------------------------------------------------------- */

/* The least cut that has ranks of `set` on one side and all others on the other. */
static uint64_t least_cut(const struct tutti_topo *topo, uint32_t set)
{
    uint32_t switches = topo->node_count - topo->rank_count;
    uint64_t best = UINT64_MAX;

    for (uint32_t placing = 0; placing < 1u << switches; placing++) {
        uint32_t side = set | placing << topo->rank_count;
        uint64_t cut = 0;

        for (uint32_t l = 0; l < topo->link_count; l++)
            if ((side >> tutti_topo_link(topo, l).from & 1) != 0 &&
                (side >> tutti_topo_link(topo, l).to & 1) == 0)
                cut += tutti_topo_link(topo, l).bytes_per_s;
        best = cut < best ? cut : best;
    }
    return best;
}

/* The largest of 2 (k-1) / sum of least cuts over all partitions, in 1e-9 s/GB; group[r] <= r. */
static double best_partition(const uint64_t *cuts, uint32_t *groups, uint32_t count, uint32_t rank,
                             uint32_t rank_count)
{
    double best = 0;

    if (rank == rank_count) {
        uint64_t sum = 0;

        for (uint32_t g = 0; g < count; g++)
            sum += cuts[groups[g]];
        return count < 2 ? 0 : 2.0 * (count - 1) / (double)sum;
    }
    for (uint32_t g = 0; g <= count; g++) {
        double found;

        groups[g] = g == count ? 1u << rank : groups[g] | 1u << rank;
        found = best_partition(cuts, groups, g == count ? count + 1 : count, rank + 1, rank_count);
        groups[g] &= ~(1u << rank);
        best = found > best ? found : best;
    }
    return best;
}

/* The bound never exceeds the best partition of all: it is one of them, with a cut that may be
 * larger than the least. Without switches it is the best. */
TEST(bounds_of_random_machines_hold_against_all_partitions)
{
    struct tutti_random random;
    double total = 0;
    int cases = test_full ? 2000 : 200;

    tutti_random_seed(&random, test_seed);
    for (int i = 0; i < cases && test_failures == 0; i++) {
        uint32_t ranks = 2 + (uint32_t)tutti_random_below(&random, 5);
        uint32_t switches = (uint32_t)tutti_random_below(&random, 4);
        struct tutti_topo *topo = random_machine(&random, ranks, switches, false);
        uint64_t cuts[1 << 6];
        uint32_t groups[8] = {0};
        double best;
        double seen;

        for (uint32_t set = 1; set < 1u << ranks; set++)
            cuts[set] = least_cut(topo, set);
        best = best_partition(cuts, groups, 0, 0, ranks) * 1e9 * 1e12;
        seen = (double)bound_of(topo, TUTTI_ALLREDUCE, GIGA).bandwidth_ps;
        if (seen > best * (1 + 1e-9) || (switches == 0 && seen < best * (1 - 1e-9) - 1))
            TEST_FAIL("case %d: bound %.0f ps, best of all partitions %.0f ps", i, seen, best);
        total += seen / best;
        tutti_topo_free(topo);
    }
    printf("        bound / best over all partitions: %.3f on average of %d\n", total / cases,
           cases);
    CHECK(total / cases > 0.8);
}

/* ---- against simulation ---------------------------------------------------------------------- */

/* Returns how many algorithms ran. */
static uint32_t play(const struct tutti_topo *topo, const char *spec, enum tutti_model model,
                     enum tutti_collective collective, uint64_t count)
{
    size_t algorithm_count;
    const struct tutti_algorithm *algorithms = tutti_algorithms(&algorithm_count);
    uint32_t played = 0;

    for (size_t a = 0; a < algorithm_count; a++) {
        struct tutti_ask ask = {
            .size = sizeof(struct tutti_ask),
            .topo = topo,
            .algorithm = algorithms[a].name,
            .params = {.collective = collective,
                       .dtype = TUTTI_FLOAT32,
                       .op = TUTTI_SUM,
                       .root = topo->rank_count - 1,
                       .count = count},
            .protocol = "none",
            .model = model,
        };
        struct tutti_answer answer = {0};
        struct tutti_err err = {""};

        if ((algorithms[a].collectives >> collective & 1) == 0 ||
            tutti_predict(&ask, &answer, &err) < 0)
            continue;
        played++;
        CHECK(answer.bound.time_ps > 0);
        if (answer.time_ps < answer.bound.time_ps)
            TEST_FAIL("%s, %s, %s of %" PRIu64 " elements by %s: %" PRId64
                      " ps, below the bound of %" PRId64 " (%s)",
                      spec, tutti_model_name(model), tutti_collective_name(collective), count,
                      algorithms[a].name, answer.time_ps, answer.bound.time_ps,
                      answer.bound.binding);
    }
    return played;
}

/* `fair` knows all links, so nothing may beat the bound anywhere. `alphabeta` lets messages meet in
 * a link unhindered, so there only machines whose every route is its own first link count. */
TEST(no_simulated_collective_beats_its_bound)
{
    static const char *const specs[] = {
        "ring:n=5",
        "mesh:3x3",
        "torus:4x2x2",
        "switch:n=6",
        "full:n=5",
        "dgx-1v",
        "dgx-2",
        "dgx-h100:nodes=2",
        "mi300x",
        "pcie:gpus=8",
        "fattree:arity=3,levels=2,over=3",
        "tpu-v5e:4x4",
        "tpu-v4:2x2x1,slices=2",
        "rail:nodes=3,gpus=4,nics=2",
    };
    static const uint64_t counts[] = {1, 7, 1000, 1 << 20};
    uint32_t played = 0;

    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        struct tutti_topo *topo = machine(specs[s]);
        bool free_links = strncmp(specs[s], "switch", 6) == 0 || strncmp(specs[s], "full", 4) == 0;

        for (uint32_t c = 0; c < TUTTI_CUSTOM; c++) {
            for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                played +=
                    play(topo, specs[s], TUTTI_MODEL_FAIR, (enum tutti_collective)c, counts[i]);
                if (free_links)
                    played += play(topo, specs[s], TUTTI_MODEL_ALPHABETA, (enum tutti_collective)c,
                                   counts[i]);
            }
        }
        tutti_topo_free(topo);
    }
    printf("        %" PRIu32 " plays\n", played);
    CHECK(played > 1000);
}

TEST(no_play_on_a_random_machine_beats_its_bound)
{
    struct tutti_random random;
    uint32_t played = 0;

    tutti_random_seed(&random, test_seed + 1);
    for (int i = 0; i < (test_full ? 300 : 30); i++) {
        uint32_t ranks = 2 + (uint32_t)tutti_random_below(&random, 8);
        uint32_t switches = (uint32_t)tutti_random_below(&random, 5);
        struct tutti_topo *topo = random_machine(&random, ranks, switches, false);

        for (uint32_t c = 0; c < TUTTI_CUSTOM; c++)
            played += play(topo, "random", TUTTI_MODEL_FAIR, (enum tutti_collective)c,
                           1 + tutti_random_below(&random, 1 << 20));
        tutti_topo_free(topo);
    }
    printf("        %" PRIu32 " plays\n", played);
    CHECK(played > 300);
}

/* Where the bound is exact, something comes near to it. */
TEST(an_exact_bound_is_nearly_reached)
{
    static const char *const specs[] = {"ring:n=8,lat=0ns", "switch:n=8,lat=0ns",
                                        "torus:4x4,lat=0ns"};

    for (size_t s = 0; s < sizeof(specs) / sizeof(specs[0]); s++) {
        struct tutti_topo *topo = machine(specs[s]);
        struct tutti_ask ask = {
            .size = sizeof(struct tutti_ask),
            .topo = topo,
            .algorithm = "auto",
            .params = {.dtype = TUTTI_FLOAT32, .op = TUTTI_SUM, .count = 1 << 22},
            .protocol = "none",
            .model = TUTTI_MODEL_FAIR,
        };
        struct tutti_answer answer = {0};
        struct tutti_err err = {""};

        CHECK_OK(tutti_predict(&ask, &answer, &err), err);
        CHECK(answer.bound.exact);
        if (answer.percent_of_bound < 49)
            TEST_FAIL("%s: %s at %.1f %% of the bound", specs[s], answer.algorithm,
                      answer.percent_of_bound);
        printf("        %s: %s at %.1f %% of the bound\n", specs[s], answer.algorithm,
               answer.percent_of_bound);
        tutti_topo_free(topo);
    }
}

TEST(bounds_are_quick)
{
    static const struct {
        const char *spec;
        double ms;
    } cases[] = {{"dgx-1v", 1},          {"torus:4x4x4", 1},      {"dgx-h100:nodes=8", 1},
                 {"fattree:arity=8", 1}, {"torus:16x32x32", 400}, {"dgx-h100:nodes=2048", 400}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_topo *topo = machine(cases[i].spec);
        double best = 1e9;

        for (int turn = 0; turn < 5; turn++) {
            struct timespec begin;
            struct timespec end;

            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
            (void)bound_of(topo, TUTTI_ALLREDUCE, GIGA);
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
            best = fmin(best, (double)(end.tv_sec - begin.tv_sec) * 1e3 +
                                  (double)(end.tv_nsec - begin.tv_nsec) / 1e6);
        }
        printf("        %s: %.3f ms\n", cases[i].spec, best);
        CHECK(best < cases[i].ms * 20); /* sanitizers and busy machines */
        tutti_topo_free(topo);
    }
}

/* ---- bisection ------------------------------------------------------------------------------- */

TEST(bisections_are_those_of_theory)
{
    static const struct {
        const char *spec;
        uint64_t giga;
    } cases[] = {
        {"ring:n=1", 0},
        {"ring:n=8,bw=1GB/s", 2},
        {"ring:n=7,bw=1GB/s", 2},
        {"mesh:8x4,bw=1GB/s", 4},
        {"mesh:4x5,bw=1GB/s", 5},
        {"torus:4x4x4,bw=1GB/s", 32},
        {"torus:16x16x16,bw=45GB/s", 2 * 256 * 45},
        {"switch:n=8,bw=450GB/s", 1800},
        {"full:n=8,bw=1GB/s", 16},
        {"fattree:arity=8,levels=2,bw=50GB/s", 1600},
        {"fattree:arity=8,levels=2,over=4,bw=50GB/s", 400},
        {"dgx-1v", 150},
        {"dgx-2", 1200}, /* 2.4 TB/s both ways */
        {"dgx-h100", 1800},
        {"dgx-h100:nodes=4", 800},
        {"dgx-h100:nodes=64,over=4", 32 * 8 * 50 / 4},
        {"mi300x", 16 * 64},
        {"gb200-nvl72", 36 * 900},
        {"tpu-v5e:16x16", 2 * 16 * 50}, /* 1.6 TB/s as Google counts */
        {"tpu-v4:16x16x16", 2 * 256 * 45},
        {"tpu-v4:4x4x8,twist=off", 2 * 16 * 45},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_topo *topo = machine(cases[i].spec);
        struct tutti_err err = {""};
        uint64_t seen = 1;

        CHECK_OK(tutti_topo_bisection(topo, &seen, &err), err);
        if (seen != cases[i].giga * GIGA)
            TEST_FAIL("%s: %.3f GB/s, expected %" PRIu64, cases[i].spec, (double)seen / 1e9,
                      cases[i].giga);
        tutti_topo_free(topo);
    }
}
