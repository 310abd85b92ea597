/* NCCL's tuning held against NCCL's own numbers: tables, picks and times from the graphs that its
 * search found (nccl_vectors.h), shares of channels, chunks. */
#include <math.h>

#include "tests/runtime/nccl_hosts.h"
#include "tests/sim/nccl/nccl_comm.h"

/* ---- tables, picks and times --------------------------------------------------------------- */

static int checks; /* values compared */

static const char *rows_of(const struct tutti_nccl_comm *comm, enum tutti_collective collective,
                           char *text)
{
    size_t used = 0;

    text[0] = '\0';
    for (int a = 0; a < TUTTI_NCCL_ALGORITHM_COUNT; a++) {
        for (int p = 0; p < TUTTI_NCCL_PROTOCOL_COUNT; p++) {
            struct tutti_nccl_estimate row = tutti_nccl_row(
                comm, collective, (enum tutti_nccl_algorithm)a, (enum tutti_nccl_protocol)p);

            if (row.algbw_GBps <= 0)
                continue;
            used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%s/%s %.1f/%.1f",
                                     used > 0 ? "; " : "",
                                     tutti_nccl_algorithm_name((enum tutti_nccl_algorithm)a),
                                     tutti_nccl_protocol_name((enum tutti_nccl_protocol)p),
                                     row.latency_us, row.algbw_GBps);
            checks += 2;
        }
    }
    return text;
}

static const char *picks_of(const struct tutti_nccl_comm *comm, enum tutti_collective collective,
                            char *text)
{
    struct tutti_nccl_choice last = {.algorithm = UINT8_MAX};
    size_t used = 0;

    text[0] = '\0';
    for (uint64_t bytes = 8; bytes <= UINT64_C(1) << 30; bytes *= 2) {
        /* Without a whole element a rank there is nothing to do: not asked below that. */
        uint64_t least = collective == TUTTI_ALLREDUCE ? 8 : 4 * (uint64_t)comm->rank_count;
        struct tutti_nccl_choice choice =
            choice_of(comm, collective, bytes < least ? least : bytes);

        if (choice.algorithm == last.algorithm && choice.protocol == last.protocol)
            continue;
        used += (size_t)snprintf(
            text + used, TEXT_BYTES - used, "%s%" PRIu64 ":%s/%s(%.1fus)", used > 0 ? " " : "",
            bytes, tutti_nccl_algorithm_name((enum tutti_nccl_algorithm)choice.algorithm),
            tutti_nccl_protocol_name((enum tutti_nccl_protocol)choice.protocol), choice.time_us);
        last = choice;
        checks += 2;
    }
    return text;
}

static const char *times_of(const struct tutti_nccl_comm *comm, char *text)
{
    static const uint64_t sizes[] = {1024, 16384, 262144, 4194304, 67108864, 1073741824};
    size_t used = 0;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct tutti_nccl_choice choice = choice_of(comm, TUTTI_ALLREDUCE, sizes[i]);

        used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%" PRIu64 ":%.2f",
                                 used > 0 ? " " : "", sizes[i], choice.time_us);
        checks++;
    }
    return text;
}

static void check_comm(const struct nccl_vector *vector, const struct tutti_nccl_comm *comm,
                       const char *version)
{
    char text[TEXT_BYTES];
    int failures = test_failures;

    CHECK_INT(comm->channel_count, vector->channels);
    checks++;
    CHECK_TEXT(rows_of(comm, TUTTI_ALLREDUCE, text), vector->allreduce);
    CHECK_TEXT(rows_of(comm, TUTTI_ALLGATHER, text), vector->gather);
    CHECK_TEXT(rows_of(comm, TUTTI_REDUCESCATTER, text), vector->gather);
    CHECK_TEXT(rows_of(comm, TUTTI_BROADCAST, text), vector->broadcast);
    CHECK_TEXT(rows_of(comm, TUTTI_REDUCE_TO_ROOT, text), vector->broadcast);
    CHECK_TEXT(picks_of(comm, TUTTI_ALLREDUCE, text), vector->allreduce_picks);
    CHECK_TEXT(picks_of(comm, TUTTI_ALLGATHER, text), vector->gather_picks);
    CHECK_TEXT(times_of(comm, text), vector->allreduce_times);
    if (test_failures > failures)
        fprintf(stderr, "   so for %s on %u nodes as NCCL %s\n", vector->machine, vector->nodes,
                version);
}

/* From the graphs of the vector. False, here and below: it was passed over. */
static bool check_given(const struct nccl_vector *vector, const char *version)
{
    struct tutti_nccl_comm comm;
    struct tutti_err err = {""};

    CHECK_OK(make(vector, version, NULL, &comm, &err), err);
    check_comm(vector, &comm, version);
    tutti_nccl_tables_free(comm.tables);
    return true;
}

/* From its hosts: what the search finds, and what the hardware tells. NCCL makes no NVLS for two
 * GPUs (ncclNvlsInit), where the vectors took it to be supported. */
static bool check_searched(const struct nccl_vector *vector, const char *version)
{
    struct tutti_nccl_comm_params params = {.host_count = vector->nodes};
    struct tutti_nccl_comm *comm = NULL;
    struct tutti_err err = {""};
    struct host host;

    if (vector->ranks == 2 && strstr(vector->graphs, "nvls") != NULL)
        return false;
    CHECK(host_named(&host, vector->machine));
    params.hardware = host_hardware(&host);
    CHECK_OK(tutti_nccl_version_find(version, &params.version, &err), err);
    CHECK_OK(tutti_nccl_comm_new(&params, &comm, &err), err);
    if (comm != NULL)
        check_comm(vector, comm, version);
    tutti_nccl_comm_free(comm);
    return true;
}

static void check_vectors(const char *version,
                          bool (*check)(const struct nccl_vector *vector, const char *version))
{
    int count = 0;

    checks = 0;
    for (size_t i = 0; i < VECTOR_COUNT; i++) {
        if (strstr(nccl_vectors[i].versions, version) == NULL)
            continue;
        count += check(&nccl_vectors[i], version);
    }
    printf("NCCL %s: %d vectors, %d values\n", version, count, checks);
    CHECK(count > 0);
}

TEST(tables_picks_and_times_of_2_28_9)
{
    check_vectors("2.28.9", check_given);
}

/* Printed by NCCL 2.29.2 itself on four H100s of a board, and the same as the vector of 2.28.9:
 * github waynehacking8/nccl-collectives-bench@ec97f06204de, in results/scaling_attributed
 * g4_auto.log. */
TEST(tables_that_nccl_2_29_2_printed_on_four_h100s)
{
    const struct nccl_vector *vector = NULL;
    struct tutti_nccl_comm comm;
    struct tutti_err err = {""};
    char text[TEXT_BYTES];

    for (size_t i = 0; i < VECTOR_COUNT && vector == NULL; i++) {
        if (strcmp(nccl_vectors[i].machine, "H100x4") == 0)
            vector = &nccl_vectors[i];
    }
    REQUIRE(vector != NULL);
    CHECK_OK(make(vector, "2.29.2", NULL, &comm, &err), err);
    CHECK_INT(comm.channel_count, 24);
    CHECK_TEXT(rows_of(&comm, TUTTI_ALLREDUCE, text), vector->allreduce);
    CHECK_TEXT(rows_of(&comm, TUTTI_ALLGATHER, text), vector->gather);
    CHECK_TEXT(rows_of(&comm, TUTTI_REDUCESCATTER, text), vector->gather);
    CHECK_TEXT(rows_of(&comm, TUTTI_BROADCAST, text), vector->broadcast);
    CHECK_TEXT(rows_of(&comm, TUTTI_REDUCE_TO_ROOT, text), vector->broadcast);
    tutti_nccl_tables_free(comm.tables);
}

TEST(tables_picks_and_times_of_2_30_7)
{
    check_vectors("2.30.7", check_given);
}

TEST(the_same_of_2_28_9_from_the_hosts_alone)
{
    check_vectors("2.28.9", check_searched);
}

TEST(the_same_of_2_30_7_from_the_hosts_alone)
{
    check_vectors("2.30.7", check_searched);
}

/* ---- facts --------------------------------------------------------------------------------- */

static void expect_facts(const char *name, uint32_t link_count, bool nvlink_all, bool nvswitch)
{
    struct tutti_nccl_facts facts;
    struct host host;

    REQUIRE(host_named(&host, name));
    tutti_nccl_facts_of(host_hardware(&host), &facts);
    CHECK_INT(facts.link_count, link_count);
    CHECK(facts.nvlink_all == nvlink_all);
    CHECK(facts.nvswitch == nvswitch);
}

/* In the cube mesh some pairs have no link, and all have a neighbour of both. */
TEST(links_of_pairs_count_direct_or_by_the_switch)
{
    expect_facts("H100x8", 18, true, true);
    expect_facts("A100x2", 12, true, false);
    expect_facts("V100x8", 0, true, false);
    expect_facts("L40x8", 0, false, false);
    expect_facts("ONE90", 0, false, false);
}

/* ---- latencies ----------------------------------------------------------------------------- */

static double ring_us(const struct tutti_nccl_comm *comm, uint64_t bytes)
{
    return choice_of(comm, TUTTI_ALLREDUCE, bytes)
        .rows[TUTTI_NCCL_RING][TUTTI_NCCL_SIMPLE]
        .latency_us;
}

/* NCCL's tuning.cc, "Plateau effect of ring": on several nodes the latency of Simple's ring counts
 * 1.9 times, from compute capability 8.0 on 1.4 times, once every channel and rank has 64 bytes;
 * before 2.18 1.9 times, from 9.0 on 1.5 times, once every rank has 4 KiB. */
TEST(a_ring_over_the_network_waits_more_once_it_is_full)
{
    static const struct {
        const char *machine, *version;
        uint32_t begins; /* bytes a rank; 0: 64 a channel */
        double factor;
    } cases[] = {
        {"V100x8", "2.28.9", 0, 1.9},  {"A100x8", "2.28.9", 0, 1.4},  {"H100x8", "2.28.9", 0, 1.4},
        {"V100x8", "2.16", 4096, 1.9}, {"A100x8", "2.16", 4096, 1.9}, {"H100x8", "2.16", 4096, 1.5},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_nccl_comm comm;
        struct tutti_err err = {""};
        uint64_t bytes = cases[i].begins;
        double before_us;

        CHECK_OK(
            make(vector_of(cases[i].machine, 2, "2.28.9"), cases[i].version, NULL, &comm, &err),
            err);
        bytes = comm.rank_count * (bytes > 0 ? bytes : 64 * comm.channel_count);
        before_us = ring_us(&comm, bytes - 4);
        CHECK(before_us > 1);
        if (fabs(ring_us(&comm, bytes) - cases[i].factor * before_us) > 1e-4 * before_us)
            TEST_FAIL("%s of NCCL %s: %.4f us after %.4f", cases[i].machine, cases[i].version,
                      ring_us(&comm, bytes), before_us);
        tutti_nccl_tables_free(comm.tables);
    }
}

static double far_ring_us(const struct tutti_nccl_facts *facts)
{
    struct tutti_nccl_comm comm = {.rank_count = 16, .node_count = 2};
    struct tutti_err err = {""};
    double us;

    read_graphs(vector_of("A100x8", 2, "2.28.9"), &comm);
    CHECK_OK(tune(facts, "2.28.9", NULL, &comm, &err), err);
    us = tutti_nccl_row(&comm, TUTTI_ALLREDUCE, TUTTI_NCCL_RING, TUTTI_NCCL_SIMPLE).latency_us;
    tutti_nccl_tables_free(comm.tables);
    return us;
}

/* tuning.cc getNetOverhead: an AMD CPU takes 2 us to post, others 1 us, and so do hosts whose CPUs
 * differ; with Simple three times that is the least a step takes, of 28 inside nodes. */
TEST(who_posts_to_the_network_takes_its_time)
{
    struct tutti_nccl_facts facts = facts_of("A100x8");
    double amd_us = far_ring_us(&facts);
    double mixed_us;

    CHECK_INT(facts.cpu_vendor, TUTTI_VENDOR_AMD);
    facts.cpus_mixed = true;
    mixed_us = far_ring_us(&facts);
    facts.cpus_mixed = false;
    facts.cpu_vendor = TUTTI_VENDOR_INTEL;
    CHECK(fabs(far_ring_us(&facts) - mixed_us) < 1e-9);
    CHECK(amd_us - mixed_us > 28 * 2 - 1e-3 && amd_us - mixed_us < 28 * 3 + 1e-3);
}

/* tuning.cc: on POWER a tree's step over PCI with Simple is as quick as a ring's. Both begin with
 * 8.4 us and take as many steps within a host. */
TEST(trees_of_power_step_over_pci_as_rings_do)
{
    for (int power = 0; power < 2; power++) {
        struct tutti_nccl_facts facts = facts_of("L40x4");
        struct tutti_nccl_comm comm = {.rank_count = 4, .node_count = 1};
        struct tutti_err err = {""};
        struct tutti_nccl_estimate tree, ring;

        facts.cpu_arch = power ? TUTTI_ARCH_PPC64 : TUTTI_ARCH_X86_64;
        read_graphs(vector_of("L40x4", 1, "2.28.9"), &comm);
        CHECK_OK(tune(&facts, "2.28.9", NULL, &comm, &err), err);
        tree = tutti_nccl_row(&comm, TUTTI_ALLREDUCE, TUTTI_NCCL_TREE, TUTTI_NCCL_SIMPLE);
        ring = tutti_nccl_row(&comm, TUTTI_ALLREDUCE, TUTTI_NCCL_RING, TUTTI_NCCL_SIMPLE);
        CHECK((fabs(tree.latency_us - ring.latency_us) < 1e-6) == power);
        tutti_nccl_tables_free(comm.tables);
    }
}

/* ---- what may run -------------------------------------------------------------------------- */

/* tuning.cc: LL128 needs ports no further than PXB, from Hopper on, with C2C, than PXN, and GPUs of
 * one compute capability, which 2.30 asks below Hopper alone. */
TEST(ll128_runs_where_its_bytes_arrive_as_one)
{
    static const char *const pxb = "LL128 needs network ports no further than PXB";
    static const char *const pxn = "LL128 needs network ports no further than PXN";
    static const char *const one = "LL128 needs GPUs of one compute capability";
    const struct {
        const char *machine, *version, *env;
        enum tutti_nccl_path_type type;
        uint32_t compute_max;
        const char *missing;
    } cases[] = {
        {"A100x8", "2.28.9", NULL, TUTTI_PATH_PXB, 80, NULL},
        {"A100x8", "2.28.9", NULL, TUTTI_PATH_PXN, 80, pxb},
        {"H100x8", "2.28.9", NULL, TUTTI_PATH_PXN, 90, NULL},
        {"H100x8", "2.28.9", NULL, TUTTI_PATH_PHB, 90, pxn},
        {"H100x8", "2.28.9", "NCCL_LL128_C2C=0", TUTTI_PATH_PXN, 90, pxb},
        {"A100x8", "2.28.9", NULL, TUTTI_PATH_PXB, 90, one},
        {"A100x8", "2.30.7", NULL, TUTTI_PATH_PXB, 90, one},
        {"H100x8", "2.28.9", NULL, TUTTI_PATH_PXB, 100, one},
        {"H100x8", "2.30.7", NULL, TUTTI_PATH_PXB, 100, NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct nccl_vector *vector = vector_of(cases[i].machine, 2, "2.28.9");
        struct tutti_nccl_facts facts = facts_of(cases[i].machine);
        struct tutti_nccl_comm comm = {.rank_count = 16, .node_count = 2};
        struct tutti_err err = {""};
        const char *missing;

        facts.compute_max = cases[i].compute_max;
        read_graphs(vector, &comm);
        comm.graphs[TUTTI_GRAPH_RING].type_inter = (uint8_t)cases[i].type;
        CHECK_OK(tune(&facts, cases[i].version, cases[i].env, &comm, &err), err);
        missing =
            choice_of(&comm, TUTTI_ALLREDUCE, 1 << 20).missing[TUTTI_NCCL_RING][TUTTI_NCCL_LL128];
        CHECK_TEXT(missing != NULL ? missing : "",
                   cases[i].missing != NULL ? cases[i].missing : "");
        tutti_nccl_tables_free(comm.tables);
    }
}

/* graph/connect.cc: Hopper's channels double on several nodes where a search's are fast, while they
 * are fewer than 16, and in 2.18 and 2.19 while 32 are not exceeded. */
TEST(channels_of_hopper_double_on_several_nodes)
{
    static const struct {
        const char *version;
        uint32_t found, channels; /* by the search; in the end */
    } cases[] = {
        {"2.28.9", 8, 16}, {"2.28.9", 4, 16}, {"2.19", 8, 32}, {"2.19", 9, 18}, {"2.16", 4, 8}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_nccl_facts facts = facts_of("H100x8");
        struct tutti_nccl_comm comm = {.rank_count = 16, .node_count = 2};
        struct tutti_err err = {""};

        read_graphs(vector_of("H100x8", 2, "2.28.9"), &comm);
        comm.graphs[TUTTI_GRAPH_RING].channel_count = cases[i].found;
        comm.graphs[TUTTI_GRAPH_TREE].channel_count = cases[i].found;
        comm.graphs[TUTTI_GRAPH_RING].bw_intra_GBps = 48;
        CHECK_OK(tune(&facts, cases[i].version, NULL, &comm, &err), err);
        CHECK_INT(comm.channel_count, cases[i].channels);
        tutti_nccl_tables_free(comm.tables);
    }
}

static double lone_ring_GBps(const char *version, enum tutti_nccl_protocol protocol)
{
    struct tutti_nccl_comm comm;
    struct tutti_err err = {""};
    double GBps;

    CHECK_OK(make(vector_of("ONE90", 2, "2.28.9"), version,
                  protocol == TUTTI_NCCL_LL128 ? "NCCL_PROTO=LL128" : NULL, &comm, &err),
             err);
    GBps = tutti_nccl_row(&comm, TUTTI_ALLREDUCE, TUTTI_NCCL_RING, protocol).algbw_GBps;
    tutti_nccl_tables_free(comm.tables);
    return GBps;
}

/* tuning.cc: LL128 leaves a ring .92 of its speed; before 2.22 .7 where each rank is alone. */
TEST(ll128_slows_a_ring_of_lone_ranks)
{
    double simple_GBps = lone_ring_GBps("2.28.9", TUTTI_NCCL_SIMPLE);

    CHECK(simple_GBps > 0);
    CHECK(fabs(lone_ring_GBps("2.28.9", TUTTI_NCCL_LL128) / simple_GBps - .92) < 1e-4);
    CHECK(fabs(lone_ring_GBps("2.21.5", TUTTI_NCCL_LL128) / simple_GBps - .7) < 1e-4);
}

/* ---- CollNet ------------------------------------------------------------------------------- */

/* H100x8, or A100x8, on two nodes whose network reduces: `heads` channels of `GBps` each. */
static void tune_collnet(const char *machine, uint32_t heads, double GBps, const char *algorithm,
                         struct tutti_nccl_comm *comm)
{
    struct tutti_nccl_facts facts = facts_of(machine);
    struct tutti_nccl_graph graph = {
        .channel_count = heads, .bw_intra_GBps = GBps, .bw_inter_GBps = GBps};
    struct tutti_err err = {""};
    char env[128];

    *comm = (struct tutti_nccl_comm){.rank_count = 16, .node_count = 2};
    read_graphs(vector_of(machine, 2, "2.28.9"), comm);
    comm->graphs[TUTTI_GRAPH_COLLNET_CHAIN] = comm->graphs[TUTTI_GRAPH_COLLNET_DIRECT] = graph;
    comm->graphs[TUTTI_GRAPH_NVLS].bw_inter_GBps = GBps;
    snprintf(env, sizeof(env), "NCCL_COLLNET_ENABLE=1,NCCL_ALGO=%s", algorithm);
    CHECK_OK(tune(&facts, "2.28.9", env, comm, &err), err);
}

static void expect_direct(const char *machine, uint32_t heads, double GBps,
                          enum tutti_collective collective, double algbw_GBps)
{
    struct tutti_nccl_comm comm;
    struct tutti_nccl_estimate row;

    tune_collnet(machine, heads, GBps, "CollNetDirect", &comm);
    row = tutti_nccl_row(&comm, collective, TUTTI_NCCL_COLLNET_DIRECT, TUTTI_NCCL_SIMPLE);
    if (fabs(row.algbw_GBps - algbw_GBps) > 1e-3)
        TEST_FAIL("%s, %u heads: %.4f GB/s, expected %.4f", machine, heads, row.algbw_GBps,
                  algbw_GBps);
    tutti_nccl_tables_free(comm.tables);
}

/* tuning.cc: half of what its channels carry, less by half of the GPUs beyond one a port, and .85
 * of it from Hopper on; gathering, what all GPUs get, at .9 of a port each. A head for each GPU. */
TEST(collnet_direct_is_bound_by_its_ports)
{
    struct tutti_nccl_comm comm;

    expect_direct("H100x8", 8, 40, TUTTI_ALLREDUCE, 8 * 40 * .85 / 2);
    expect_direct("H100x8", 4, 40, TUTTI_ALLREDUCE, 4 * 40 / 1.5 * .85 / 2);
    expect_direct("A100x8", 8, 20, TUTTI_ALLREDUCE, 8 * 20 / 2.0);
    expect_direct("H100x8", 8, 40, TUTTI_ALLGATHER, 8 * 40 * .9);
    tune_collnet("H100x8", 7, 40, "allreduce:Ring;allgather:CollNetDirect", &comm);
    CHECK(tutti_nccl_row(&comm, TUTTI_ALLGATHER, TUTTI_NCCL_COLLNET_DIRECT, TUTTI_NCCL_SIMPLE)
              .algbw_GBps <= 0);
    tutti_nccl_tables_free(comm.tables);
}

/* enqueue.cc calcCollChunking: where NVLS on several nodes does not reach 150 GB/s, chunks are of
 * 32 KiB at most; of 8 heads and as many channels as there are, 8 GiB are many of any size. */
TEST(slow_networks_make_the_chunks_of_nvls_small)
{
    static const double GBps[] = {10, 48};
    static const uint64_t chunk_bytes[] = {32768, 131072};

    for (size_t i = 0; i < 2; i++) {
        struct tutti_nccl_comm comm;
        double algbw_GBps;

        tune_collnet("H100x8", 8, GBps[i], "NVLS", &comm);
        algbw_GBps =
            tutti_nccl_row(&comm, TUTTI_ALLREDUCE, TUTTI_NCCL_NVLS, TUTTI_NCCL_SIMPLE).algbw_GBps;
        CHECK((algbw_GBps < 150) == (chunk_bytes[i] == 32768));
        CHECK(algbw_GBps > 15);
        CHECK_INT(choice_of(&comm, TUTTI_ALLREDUCE, UINT64_C(1) << 33).chunk_bytes, chunk_bytes[i]);
        tutti_nccl_tables_free(comm.tables);
    }
}

/* calcCollChunking: a chain over the 8 GPUs of a host has 256 KiB; 512 chunks on each channel are
 * wanted of more than 128 KiB, 64 of more than 64 KiB, 8 of more than 32. */
TEST(chunks_of_a_chain_shrink_with_its_depth)
{
    static const struct {
        uint64_t channel_KiB; /* of the size, for each channel */
        uint64_t chunk_KiB;
    } cases[] = {{512 * 256, 256},     {512 * 256 - 256, 128}, {64 * 128, 128},
                 {64 * 128 - 128, 64}, {8 * 64, 64},           {8 * 64 - 64, 32}};
    struct tutti_nccl_comm comm;

    tune_collnet("H100x8", 8, 40, "CollNetChain", &comm);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t bytes = comm.channel_count * cases[i].channel_KiB << 10;
        struct tutti_nccl_choice choice = choice_of(&comm, TUTTI_ALLREDUCE, bytes);

        CHECK_INT(choice.channels_allowed, comm.channel_count);
        CHECK_INT(choice.chunk_bytes, cases[i].chunk_KiB << 10);
    }
    tutti_nccl_tables_free(comm.tables);
}

/* ---- channels, threads, shares ------------------------------------------------------------- */

/* "24c 16w -> 22 [12288, 20x12288, 4096]": channels allowed, warps, channels used, their counts. */
static const char *cut_of(const struct tutti_nccl_choice *choice, char *text)
{
    int used = snprintf(text, TEXT_BYTES, "%uc %uw -> %u [%" PRIu64, choice->channels_allowed,
                        choice->warp_count, choice->channel_count, choice->count_lo);

    if (choice->channel_count > 2)
        used += snprintf(text + used, TEXT_BYTES - (size_t)used, ", %ux%" PRIu64,
                         choice->channel_count - 2, choice->count_mid);
    if (choice->channel_count > 1)
        used += snprintf(text + used, TEXT_BYTES - (size_t)used, ", %" PRIu64, choice->count_hi);
    snprintf(text + used, TEXT_BYTES - (size_t)used, "]");
    return text;
}

static void expect_cuts(const char *machine, unsigned nodes, const char *version, const char *env,
                        const uint64_t *sizes, const char *const *expected, size_t count)
{
    struct tutti_nccl_comm comm;
    struct tutti_err err = {""};
    char text[TEXT_BYTES];

    REQUIRE(vector_of(machine, nodes, "2.28.9") != NULL);
    CHECK_OK(make(vector_of(machine, nodes, "2.28.9"), version, env, &comm, &err), err);
    for (size_t i = 0; i < count; i++) {
        struct tutti_nccl_choice choice = choice_of(&comm, TUTTI_ALLREDUCE, sizes[i]);
        uint64_t sum = choice.count_lo;

        CHECK_TEXT(cut_of(&choice, text), expected[i]);
        if (choice.channel_count > 1)
            sum += (choice.channel_count - 2) * choice.count_mid + choice.count_hi;
        CHECK_INT(sum, sizes[i] / 4);
    }
    tutti_nccl_tables_free(comm.tables);
}

static const uint64_t cut_sizes[] = {1 << 10, 1 << 16, 1 << 18, 1 << 20, 1 << 26, 1 << 30};

static const struct {
    const char *env;
    const char *cuts[6];
} h100_cuts[] = {
    {"NCCL_ALGO=Ring,NCCL_PROTO=LL",
     {"1c 3w -> 1 [256]", "2c 16w -> 2 [8192, 8192]", "8c 16w -> 8 [8192, 6x8192, 8192]",
      "24c 16w -> 24 [11264, 22x11264, 3072]", "24c 16w -> 24 [699392, 22x699392, 691200]",
      "24c 16w -> 24 [11185152, 22x11185152, 11176960]"}},
    {"NCCL_ALGO=Ring,NCCL_PROTO=LL128",
     {"1c 10w -> 1 [256]", "12c 20w -> 8 [2048, 6x2048, 2048]",
      "24c 20w -> 16 [4096, 14x4096, 4096]", "24c 20w -> 22 [12288, 20x12288, 4096]",
      "24c 20w -> 24 [700416, 22x700416, 667648]",
      "24c 20w -> 24 [11186176, 22x11186176, 11153408]"}},
    {"NCCL_ALGO=Ring,NCCL_PROTO=Simple",
     {"1c 3w -> 1 [256]", "2c 17w -> 2 [8192, 8192]", "8c 17w -> 8 [8192, 6x8192, 8192]",
      "24c 17w -> 22 [12288, 20x12288, 4096]", "24c 17w -> 24 [700416, 22x700416, 667648]",
      "24c 17w -> 24 [11186176, 22x11186176, 11153408]"}},
    {"NCCL_ALGO=Tree,NCCL_PROTO=LL",
     {"1c 20w -> 1 [256]", "16c 20w -> 16 [1024, 14x1024, 1024]",
      "24c 20w -> 22 [3072, 20x3072, 1024]", "24c 20w -> 24 [11264, 22x11264, 3072]",
      "24c 20w -> 24 [699392, 22x699392, 691200]",
      "24c 20w -> 24 [11185152, 22x11185152, 11176960]"}},
    {"NCCL_ALGO=Tree,NCCL_PROTO=LL128",
     {"1c 20w -> 1 [256]", "12c 20w -> 8 [2048, 6x2048, 2048]",
      "24c 20w -> 16 [4096, 14x4096, 4096]", "24c 20w -> 22 [12288, 20x12288, 4096]",
      "24c 20w -> 24 [700416, 22x700416, 667648]",
      "24c 20w -> 24 [11186176, 22x11186176, 11153408]"}},
    {"NCCL_ALGO=Tree,NCCL_PROTO=Simple",
     {"1c 20w -> 1 [256]", "2c 20w -> 2 [8192, 8192]", "8c 20w -> 8 [8192, 6x8192, 8192]",
      "24c 20w -> 22 [12288, 20x12288, 4096]", "24c 20w -> 24 [700416, 22x700416, 667648]",
      "24c 20w -> 24 [11186176, 22x11186176, 11153408]"}},
};

TEST(shares_of_channels_of_2_28_9)
{
    static const uint64_t ring_sizes[] = {1 << 14, 1 << 16, 1 << 20};
    static const char *const ring[] = {"1c 9w -> 1 [4096]", "2c 9w -> 2 [8192, 8192]",
                                       "2c 9w -> 2 [131072, 131072]"};
    static const char *const ll[] = {"2c 16w -> 2 [2048, 2048]"};

    for (size_t i = 0; i < sizeof(h100_cuts) / sizeof(h100_cuts[0]); i++)
        expect_cuts("H100x8", 1, "2.28.9", h100_cuts[i].env, cut_sizes, h100_cuts[i].cuts, 6);
    expect_cuts("ONE90", 2, "2.28.9", "NCCL_ALGO=Ring,NCCL_PROTO=Simple", ring_sizes, ring, 3);
    expect_cuts("ONE90", 2, "2.28.9", "NCCL_ALGO=Ring,NCCL_PROTO=LL", ring_sizes, ll, 1);
}

/* 2.30.7 differs in LL128 alone, at 64 KiB and at 16 KiB. */
TEST(shares_of_channels_of_2_30_7)
{
    static const uint64_t small = 1 << 14;
    static const char *const one[] = {"3c 20w -> 1 [4096]"};
    static const char *const two[] = {"3c 20w -> 2 [2048, 2048]"};

    for (size_t i = 0; i < sizeof(h100_cuts) / sizeof(h100_cuts[0]); i++) {
        bool ll128 = strstr(h100_cuts[i].env, "LL128") != NULL;
        const char *cuts[6];

        memcpy(cuts, h100_cuts[i].cuts, sizeof(cuts));
        if (ll128)
            cuts[1] = "12c 20w -> 4 [4096, 2x4096, 4096]";
        expect_cuts("H100x8", 1, "2.30.7", h100_cuts[i].env, cut_sizes, cuts, 6);
        if (ll128) {
            expect_cuts("H100x8", 1, "2.30.7", h100_cuts[i].env, &small, one, 1);
            expect_cuts("H100x8", 1, "2.28.9", h100_cuts[i].env, &small, two, 1);
        }
    }
}
