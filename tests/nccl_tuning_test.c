/* NCCL's tuning held against NCCL's own numbers: tables, picks and times from the graphs that its
 * search found (nccl_vectors.h), shares of channels, chunks. */
#include "runtime/status.h"
#include "sim/nccl/tables.h"
#include "tests/nccl_vectors.h"
#include "tests/test.h"
#include "topo/hardware.h"

enum { TEXT_BYTES = 1024, VECTOR_COUNT = sizeof(nccl_vectors) / sizeof(nccl_vectors[0]) };

/* ---- the communicator of a vector ---------------------------------------------------------- */

static const struct machine {
    const char *name;
    uint32_t compute;
    uint8_t vendor;
    uint32_t link_count;
    double nic_GBps;
} machines[] = {
    {"H100x8", 90, TUTTI_VENDOR_INTEL, 18, 50}, {"H100x4", 90, TUTTI_VENDOR_INTEL, 18, 50},
    {"H100x2", 90, TUTTI_VENDOR_INTEL, 18, 50}, {"A100x8s", 80, TUTTI_VENDOR_AMD, 12, 25},
    {"A100x8", 80, TUTTI_VENDOR_AMD, 12, 25},   {"B200x8", 100, TUTTI_VENDOR_INTEL, 18, 50},
    {"L40x4", 89, TUTTI_VENDOR_AMD, 0, 12.5},   {"L40x8", 89, TUTTI_VENDOR_INTEL, 0, 12.5},
    {"L40x2", 89, TUTTI_VENDOR_AMD, 0, 0},      {"A100x2", 80, TUTTI_VENDOR_AMD, 12, 12.5},
    {"ONE90", 90, TUTTI_VENDOR_INTEL, 0, 1.25}, {"V100x8", 70, TUTTI_VENDOR_INTEL, 0, 12.5},
};

static uint8_t path_named(const char *name)
{
    for (int i = 0; i < TUTTI_PATH_COUNT; i++) {
        if (strcmp(name, tutti_nccl_path_name((enum tutti_nccl_path)i)) == 0)
            return (uint8_t)i;
    }
    TEST_FAIL("no path '%s'", name);
    return TUTTI_PATH_DIS;
}

/* "tree[TREE] 8x48/48 NVL/PIX same" */
static void read_graph(const char *text, struct tutti_nccl_comm *comm)
{
    struct tutti_nccl_graph graph = {.pattern = TUTTI_PATTERN_RING};
    char name[32], intra[8], inter[8];
    uint32_t id = TUTTI_GRAPH_RING;

    if (sscanf(text, "%31s %ux%lf/%lf %7[A-Z0-9]/%7[A-Z0-9]", name, &graph.channel_count,
               &graph.bw_intra_GBps, &graph.bw_inter_GBps, intra, inter) != 6) {
        TEST_FAIL("no graph: '%s'", text);
        return;
    }
    graph.type_intra = path_named(intra);
    graph.type_inter = path_named(inter);
    graph.same_channels = strstr(text, " same") != NULL;
    if (strncmp(name, "tree", 4) == 0) {
        id = TUTTI_GRAPH_TREE;
        graph.pattern =
            strcmp(name, "tree[TREE]") == 0 ? TUTTI_PATTERN_TREE : TUTTI_PATTERN_BALANCED_TREE;
    }
    if (strcmp(name, "nvls") == 0) {
        id = TUTTI_GRAPH_NVLS;
        graph.pattern = TUTTI_PATTERN_NVLS;
    }
    comm->graphs[id] = graph;
}

static void read_graphs(const struct nccl_vector *vector, struct tutti_nccl_comm *comm)
{
    char text[TEXT_BYTES];
    char *rest = NULL;

    snprintf(text, sizeof(text), "%s", vector->graphs);
    for (char *graph = strtok_r(text, ";", &rest); graph != NULL;
         graph = strtok_r(NULL, ";", &rest))
        read_graph(graph + strspn(graph, " "), comm);
}

static struct tutti_nccl_facts facts_of(const char *machine)
{
    struct tutti_nccl_facts facts = {.cpu_arch = TUTTI_ARCH_X86_64};

    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
        if (strcmp(machine, machines[i].name) != 0)
            continue;
        facts.compute_min = facts.compute_max = machines[i].compute;
        facts.cpu_vendor = machines[i].vendor;
        facts.link_count = machines[i].link_count;
        facts.nvswitch = facts.nvlink_all = machines[i].link_count > 0;
        facts.nic_GBps = machines[i].nic_GBps;
    }
    CHECK(facts.compute_min > 0);
    return facts;
}

static int make(const struct nccl_vector *vector, const char *version, const char *env_list,
                struct tutti_nccl_comm *comm, struct tutti_err *err)
{
    struct tutti_nccl_facts facts = facts_of(vector->machine);
    struct tutti_nccl_env *env = NULL;
    int status;

    *comm = (struct tutti_nccl_comm){.rank_count = vector->ranks, .node_count = vector->nodes};
    read_graphs(vector, comm);
    status = tutti_nccl_version_find(version, &comm->version, err);
    if (status == 0)
        status = tutti_nccl_env_new(&env, err);
    if (status == 0 && env_list != NULL)
        status = tutti_nccl_env_add(env, env_list, err);
    if (status == 0)
        status = tutti_nccl_tune(comm, &facts, env, err);
    tutti_nccl_env_free(env);
    return status;
}

static const struct nccl_vector *vector_of(const char *machine, unsigned nodes, const char *version)
{
    for (size_t i = 0; i < VECTOR_COUNT; i++) {
        if (strcmp(nccl_vectors[i].machine, machine) == 0 && nccl_vectors[i].nodes == nodes &&
            strstr(nccl_vectors[i].versions, version) != NULL)
            return &nccl_vectors[i];
    }
    return NULL;
}

/* ---- tables, picks and times --------------------------------------------------------------- */

static int checks; /* values compared */

static const char *rows_of(const struct tutti_nccl_comm *comm, enum tutti_collective collective,
                           char *text)
{
    size_t used = 0;

    text[0] = '\0';
    for (int a = 0; a < TUTTI_NCCL_ALGORITHM_COUNT; a++) {
        for (int p = 0; p < TUTTI_NCCL_PROTOCOL_COUNT; p++) {
            struct tutti_nccl_row row = tutti_nccl_row(
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

static struct tutti_nccl_choice choice_of(const struct tutti_nccl_comm *comm,
                                          enum tutti_collective collective, uint64_t bytes)
{
    struct tutti_nccl_choice choice = {.time_us = 0};
    struct tutti_err err = {""};

    CHECK_OK(tutti_nccl_choose(comm, collective, TUTTI_FLOAT32, TUTTI_SUM, bytes, &choice, &err),
             err);
    return choice;
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

static void check_vector(const struct nccl_vector *vector, const char *version)
{
    struct tutti_nccl_comm comm;
    struct tutti_err err = {""};
    char text[TEXT_BYTES];
    int failures = test_failures;

    CHECK_OK(make(vector, version, NULL, &comm, &err), err);
    CHECK_INT(comm.channel_count, vector->channels);
    checks++;
    CHECK_TEXT(rows_of(&comm, TUTTI_ALLREDUCE, text), vector->allreduce);
    CHECK_TEXT(rows_of(&comm, TUTTI_ALLGATHER, text), vector->gather);
    CHECK_TEXT(rows_of(&comm, TUTTI_REDUCESCATTER, text), vector->gather);
    CHECK_TEXT(rows_of(&comm, TUTTI_BROADCAST, text), vector->broadcast);
    CHECK_TEXT(rows_of(&comm, TUTTI_REDUCE_TO_ROOT, text), vector->broadcast);
    CHECK_TEXT(picks_of(&comm, TUTTI_ALLREDUCE, text), vector->allreduce_picks);
    CHECK_TEXT(picks_of(&comm, TUTTI_ALLGATHER, text), vector->gather_picks);
    CHECK_TEXT(times_of(&comm, text), vector->allreduce_times);
    if (test_failures > failures)
        fprintf(stderr, "   so for %s on %u nodes as NCCL %s\n", vector->machine, vector->nodes,
                version);
    tutti_nccl_tables_free(comm.tables);
}

static void check_vectors(const char *version)
{
    int count = 0;

    checks = 0;
    for (size_t i = 0; i < VECTOR_COUNT; i++) {
        if (strstr(nccl_vectors[i].versions, version) == NULL)
            continue;
        check_vector(&nccl_vectors[i], version);
        count++;
    }
    printf("NCCL %s: %d vectors, %d values\n", version, count, checks);
    CHECK(count > 0);
}

TEST(tables_picks_and_times_of_2_28_9)
{
    check_vectors("2.28.9");
}

TEST(tables_picks_and_times_of_2_30_7)
{
    check_vectors("2.30.7");
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
