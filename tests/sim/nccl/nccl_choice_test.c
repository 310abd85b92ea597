/* What variables, data and versions change in NCCL's choice; chunks, messages; what is refused. */
#include "tests/alloc_fail.h"
#include "tests/sim/nccl/nccl_comm.h"

/* "Ring/LL 24c 16w 8 x 32768B": the choice with its channels and its chunk. */
static const char *seen(const struct tutti_nccl_comm *comm, enum tutti_collective collective,
                        uint64_t bytes)
{
    static _Thread_local char text[128];
    struct tutti_nccl_choice choice = choice_of(comm, collective, bytes);

    snprintf(text, sizeof(text), "%s/%s %uc %uw %u x %" PRIu64 "B/%u",
             tutti_nccl_algorithm_name((enum tutti_nccl_algorithm)choice.algorithm),
             tutti_nccl_protocol_name((enum tutti_nccl_protocol)choice.protocol),
             choice.channels_allowed, choice.warp_count, choice.channel_count, choice.chunk_bytes,
             choice.slice_count);
    return text;
}

static void expect(const char *machine, unsigned nodes, const char *version, const char *env,
                   enum tutti_collective collective, uint64_t bytes, const char *expected)
{
    struct tutti_nccl_comm comm;
    struct tutti_err err = {""};

    REQUIRE(vector_of(machine, nodes, "2.28.9") != NULL);
    CHECK_OK(make(vector_of(machine, nodes, "2.28.9"), version, env, &comm, &err), err);
    CHECK_TEXT(seen(&comm, collective, bytes), expected);
    tutti_nccl_tables_free(comm.tables);
}

static void expect_channels(const char *machine, unsigned nodes, const char *env, unsigned count)
{
    struct tutti_nccl_comm comm;
    struct tutti_err err = {""};

    CHECK_OK(make(vector_of(machine, nodes, "2.28.9"), "2.28.9", env, &comm, &err), err);
    CHECK_INT(comm.channel_count, count);
    tutti_nccl_tables_free(comm.tables);
}

static void expect_refusal(const char *env, enum tutti_collective collective,
                           enum tutti_dtype dtype, enum tutti_op op, const char *message)
{
    struct tutti_nccl_comm comm;
    struct tutti_nccl_choice choice;
    struct tutti_err err = {""};

    CHECK_OK(make(vector_of("H100x8", 1, "2.28.9"), "2.28.9", env, &comm, &err), err);
    CHECK_INT(tutti_nccl_choose(&comm, collective, dtype, op, 1 << 20, &choice, &err),
              -TUTTI_EINVAL);
    CHECK_TEXT(err.text, message);
    tutti_nccl_tables_free(comm.tables);
}

TEST(variables_bound_the_channels)
{
    expect_channels("H100x8", 1, NULL, 24);
    expect_channels("H100x8", 1, "NCCL_MAX_NCHANNELS=8", 8);
    expect_channels("H100x8", 1, "NCCL_MAX_NRINGS=8,NCCL_MAX_NCHANNELS=4", 4);
    expect_channels("H100x8", 1, "NCCL_MAX_CTAS=6", 6);
    expect_channels("H100x8", 1, "NCCL_MIN_NCHANNELS=32", 32);
    expect_channels("H100x8", 1, "NCCL_MAX_NCHANNELS=2,NCCL_MIN_NCHANNELS=6", 6);
    expect_channels("H100x8", 1, "NCCL_MIN_NCHANNELS=1000", 64);
}

/* Of a chunk, facts by hand: Simple 4 MiB / 8 = 512 KiB a step; Ring all-reduce 4 steps of 2
 * slices; LL half of 64 KiB; LL128 15/16 of 600 KiB. */
TEST(chunks_follow_algorithm_and_protocol)
{
    expect("H100x8", 1, "2.28.9", "NCCL_ALGO=Ring,NCCL_PROTO=Simple", TUTTI_ALLREDUCE, 1 << 30,
           "Ring/Simple 24c 17w 24 x 2097152B/2");
    expect("H100x8", 1, "2.28.9", "NCCL_ALGO=Ring,NCCL_PROTO=Simple", TUTTI_BROADCAST, 1 << 30,
           "Ring/Simple 24c 17w 24 x 524288B/1");
    expect("H100x8", 1, "2.28.9", "NCCL_ALGO=Ring,NCCL_PROTO=LL", TUTTI_ALLGATHER, 1 << 30,
           "Ring/LL 24c 16w 24 x 32768B/1");
    expect("H100x8", 1, "2.28.9", "NCCL_ALGO=Ring,NCCL_PROTO=LL128", TUTTI_REDUCESCATTER, 1 << 30,
           "Ring/LL128 24c 20w 24 x 576000B/1");
    expect("H100x8", 1, "2.28.9", "NCCL_ALGO=Tree,NCCL_PROTO=Simple", TUTTI_ALLREDUCE, 1 << 30,
           "Tree/Simple 24c 20w 24 x 524288B/1");
    /* 1 MiB over 22 channels is less than a chunk each: 576,000 halved until it is below 32,768,
     * to 18,000, in grains of 1,920. */
    expect("H100x8", 1, "2.28.9", "NCCL_ALGO=Tree,NCCL_PROTO=LL128", TUTTI_ALLREDUCE, 1 << 20,
           "Tree/LL128 24c 20w 22 x 17280B/1");
    expect("H100x8", 1, "2.28.9", "NCCL_BUFFSIZE=1048576,NCCL_ALGO=Ring,NCCL_PROTO=Simple",
           TUTTI_ALLREDUCE, 1 << 30, "Ring/Simple 24c 17w 24 x 524288B/2");
}

/* NVLS: 16 channels of 8 heads on Hopper; a channel's share of 1 GiB, 64 MiB, is not below 64
 * chunks of 8 heads, so that the whole 128 KiB stay; of 16 MiB, 1 MiB is below 8 of 32 KiB. */
TEST(chunks_of_nvls_shrink_with_the_size)
{
    expect("H100x8", 1, "2.28.9", NULL, TUTTI_ALLREDUCE, 1 << 30,
           "NVLS/Simple 16c 20w 16 x 131072B/1");
    expect("H100x8", 1, "2.28.9", NULL, TUTTI_ALLREDUCE, 1 << 24,
           "NVLS/Simple 16c 20w 16 x 32768B/1");
    expect("H100x8", 1, "2.28.9", "NCCL_NVLS_CHUNKSIZE=65536", TUTTI_ALLREDUCE, 1 << 30,
           "NVLS/Simple 16c 20w 16 x 65536B/1");
    expect("H100x8", 4, "2.28.9", NULL, TUTTI_ALLREDUCE, 1 << 28,
           "NVLSTree/Simple 16c 20w 16 x 65536B/1");
    expect("B200x8", 2, "2.28.9", NULL, TUTTI_ALLREDUCE, 1 << 30,
           "NVLSTree/Simple 32c 20w 32 x 131072B/1");
    expect("B200x8", 2, "2.30.7", NULL, TUTTI_ALLREDUCE, 1 << 30,
           "NVLSTree/Simple 32c 20w 32 x 65536B/1");
}

/* Simple's 512 KiB of a step are halved down to 64 KiB while 32 of them, of a reduce-scatter 16,
 * are more than a channel's share (NCCL 2.28 enqueue.cc calcCollChunking). Of two ranks and two
 * channels that is half of what nccl-tests calls the size. */
TEST(chunks_of_pat_shrink_with_the_share_of_a_channel)
{
    static const struct {
        enum tutti_collective collective;
        uint64_t share_KiB;
        const char *expected;
    } cases[] = {
        {TUTTI_ALLGATHER, 32 * 512, "PAT/Simple 2c 20w 2 x 524288B/1"},
        {TUTTI_ALLGATHER, 32 * 512 - 64, "PAT/Simple 2c 20w 2 x 262144B/1"},
        {TUTTI_ALLGATHER, 32 * 256, "PAT/Simple 2c 20w 2 x 262144B/1"},
        {TUTTI_ALLGATHER, 32 * 128, "PAT/Simple 2c 20w 2 x 131072B/1"},
        {TUTTI_ALLGATHER, 32 * 128 - 64, "PAT/Simple 2c 20w 2 x 65536B/1"},
        {TUTTI_ALLGATHER, 32 * 32, "PAT/Simple 2c 20w 2 x 65536B/1"},
        {TUTTI_REDUCESCATTER, 16 * 512, "PAT/Simple 2c 20w 2 x 524288B/1"},
        {TUTTI_REDUCESCATTER, 16 * 512 - 64, "PAT/Simple 2c 20w 2 x 262144B/1"},
        {TUTTI_REDUCESCATTER, 16 * 64, "PAT/Simple 2c 20w 2 x 65536B/1"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect("ONE90", 2, "2.28.9", "NCCL_ALGO=allgather:PAT;reducescatter:PAT",
               cases[i].collective, 2 * cases[i].share_KiB << 10, cases[i].expected);
}

/* NCCL 2.23 on: PAT needs compute capability 6.0, a P100 (tuning.cc: minCompCap >= 60). */
TEST(pat_runs_from_pascal_on)
{
    static const struct {
        uint32_t compute;
        const char *missing;
    } cases[] = {{90, NULL}, {60, NULL}, {52, "needs compute capability 6.0"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct nccl_vector *vector = vector_of("ONE90", 2, "2.28.9");
        struct tutti_nccl_facts facts = facts_of("ONE90");
        struct tutti_nccl_comm comm = {.rank_count = 2, .node_count = 2};
        struct tutti_nccl_choice choice;
        struct tutti_err err = {""};

        facts.compute_min = facts.compute_max = cases[i].compute;
        read_graphs(vector, &comm);
        CHECK_OK(tune(&facts, "2.28.9", NULL, &comm, &err), err);
        choice = choice_of(&comm, TUTTI_ALLGATHER, 1 << 15);
        CHECK((choice.missing[TUTTI_NCCL_PAT][TUTTI_NCCL_SIMPLE] == NULL) ==
              (cases[i].missing == NULL));
        if (cases[i].missing != NULL)
            CHECK_TEXT(choice.missing[TUTTI_NCCL_PAT][TUTTI_NCCL_SIMPLE], cases[i].missing);
        CHECK_INT(choice.algorithm, cases[i].missing == NULL ? TUTTI_NCCL_PAT : TUTTI_NCCL_RING);
        tutti_nccl_tables_free(comm.tables);
    }
}

/* NCCL 2.30 transport/nvls.cc, ncclNvlsTreeSm100Tuning, branch by branch: nodes, GPUs of each, rate
 * of a port, and how far it is from its GPU; channels, chunk, and the largest chunk of a tree. */
TEST(nvls_of_blackwell_is_tuned_by_nodes_ports_and_gpus)
{
    static const struct {
        uint32_t nodes, gpus;
        double nic_GBps;
        enum tutti_nccl_path_type type;
        uint32_t channels, chunk_KiB, tree_KiB; /* 0: no bound */
    } cases[] = {
        {2, 4, 50, TUTTI_PATH_PIX, 32, 256, 256},   {2, 5, 50, TUTTI_PATH_PIX, 32, 128, 64},
        {2, 8, 50, TUTTI_PATH_PXB, 32, 128, 64},    {2, 8, 50, TUTTI_PATH_PXN, 32, 128, 128},
        {2, 8, 96, TUTTI_PATH_PIX, 32, 128, 128},   {2, 12, 50, TUTTI_PATH_PIX, 32, 128, 128},
        {2, 16, 100, TUTTI_PATH_PHB, 32, 128, 64},  {2, 8, 47, TUTTI_PATH_PIX, 32, 128, 0},
        {3, 8, 96, TUTTI_PATH_PHB, 24, 256, 256},   {3, 9, 96, TUTTI_PATH_PIX, 32, 128, 128},
        {4, 31, 100, TUTTI_PATH_PIX, 32, 128, 128}, {4, 32, 100, TUTTI_PATH_PIX, 32, 128, 64},
        {4, 8, 48, TUTTI_PATH_PXB, 24, 128, 64},    {4, 8, 95, TUTTI_PATH_PXN, 24, 128, 128},
        {4, 8, 25, TUTTI_PATH_PIX, 32, 128, 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_nccl_facts facts = facts_of("B200x8");
        struct tutti_nccl_comm comm = {.rank_count = cases[i].nodes * cases[i].gpus,
                                       .node_count = cases[i].nodes};
        struct tutti_err err = {""};

        facts.nic_GBps = cases[i].nic_GBps;
        read_graphs(vector_of("B200x8", 2, "2.28.9"), &comm);
        comm.graphs[TUTTI_GRAPH_NVLS].type_inter = (uint8_t)cases[i].type;
        CHECK_OK(tune(&facts, "2.30.7", NULL, &comm, &err), err);
        CHECK_INT(comm.nvls_channel_count, cases[i].channels);
        CHECK_INT(comm.tables->nvls_chunk_bytes, cases[i].chunk_KiB << 10);
        if (cases[i].tree_KiB == 0)
            CHECK(comm.tables->nvls_tree_chunk_bytes == UINT64_MAX);
        else
            CHECK_INT(comm.tables->nvls_tree_chunk_bytes, cases[i].tree_KiB << 10);
        tutti_nccl_tables_free(comm.tables);
    }
}

/* NVLSTree of two nodes: a channel's share, a sixteenth, is below 4, then 1, chunks of 8 heads.
 * Tree with LL128 of one node of 8: 1.8 * 64 / 8 = 14.4 chunks of a share, a 24th, are wanted as
 * long as they are above 128 KiB, then 3.6 above 32 KiB (calcCollChunking). */
TEST(chunks_of_trees_shrink_with_the_share_of_a_channel)
{
    static const struct {
        uint64_t bytes;
        const char *chunk;
    } nvls[] = {{68 << 20, "131072B"},
                {60 << 20, "65536B"},
                {9 << 20, "65536B"},
                {7 << 20, "32768B"}},
      ll128[] = {{240000000, "576000B"}, {144000000, "288000B"}, {72000000, "144000B"}};
    char expected[64];

    for (size_t i = 0; i < sizeof(nvls) / sizeof(nvls[0]); i++) {
        snprintf(expected, sizeof(expected), "NVLSTree/Simple 16c 20w 16 x %s/1", nvls[i].chunk);
        expect("H100x8", 2, "2.28.9", "NCCL_ALGO=NVLSTree", TUTTI_ALLREDUCE, nvls[i].bytes,
               expected);
    }
    for (size_t i = 0; i < sizeof(ll128) / sizeof(ll128[0]); i++) {
        snprintf(expected, sizeof(expected), "Tree/LL128 24c 20w 24 x %s/1", ll128[i].chunk);
        expect("H100x8", 1, "2.28.9", "NCCL_ALGO=Tree,NCCL_PROTO=LL128", TUTTI_ALLREDUCE,
               ll128[i].bytes, expected);
    }
}

TEST(variables_switch_algorithms_and_protocols_off)
{
    expect("H100x8", 1, "2.28.9", "NCCL_NVLS_ENABLE=0", TUTTI_ALLREDUCE, 1 << 26,
           "Ring/Simple 24c 17w 24 x 2097152B/2");
    expect("H100x8", 1, "2.28.9", "NCCL_ALGO=^NVLS;allgather:NVLS", TUTTI_ALLGATHER, 1 << 12,
           "NVLS/Simple 16c 20w 1 x 16384B/1");
    expect("H100x8", 2, "2.28.9", "NCCL_PROTO=^LL", TUTTI_ALLREDUCE, 8,
           "Tree/LL128 1c 20w 1 x 17280B/1");
    /* LL128 over PCI only if the user insists. */
    expect("L40x4", 1, "2.28.9", "NCCL_PROTO=LL128", TUTTI_ALLREDUCE, 8,
           "Tree/LL128 1c 20w 1 x 17280B/1");
    expect("ONE90", 2, "2.28.9", "NCCL_PAT_ENABLE=0", TUTTI_ALLGATHER, 1 << 15,
           "Ring/Simple 2c 9w 2 x 2097152B/2");
    expect("A100x8", 2, "2.28.9", "NCCL_NET_OVERHEAD=0,NCCL_ALGO=Ring", TUTTI_ALLREDUCE, 8,
           "Ring/LL 1c 3w 1 x 32768B/1");
}

TEST(thread_variables_are_clamped_as_nccl_does)
{
    const char *ring = "NCCL_ALGO=Ring,NCCL_PROTO=Simple,NCCL_NTHREADS=256";
    const char *odd = "NCCL_ALGO=Ring,NCCL_PROTO=Simple,NCCL_NTHREADS=100";
    const char *few = "NCCL_ALGO=Ring,NCCL_PROTO=LL128,NCCL_LL128_NTHREADS=32";
    const char *eager = "NCCL_ALGO=Ring,NCCL_PROTO=LL,NCCL_THREAD_THRESHOLDS=8 8 64 0 8 64";

    expect("H100x8", 1, "2.28.9", ring, TUTTI_ALLREDUCE, 1 << 30,
           "Ring/Simple 24c 9w 24 x 2097152B/2");
    expect("H100x8", 1, "2.28.9", odd, TUTTI_ALLREDUCE, 1 << 30,
           "Ring/Simple 24c 17w 24 x 2097152B/2");
    expect("H100x8", 1, "2.28.9", few, TUTTI_ALLREDUCE, 1 << 30,
           "Ring/LL128 24c 5w 24 x 576000B/1");
    expect("H100x8", 1, "2.28.9", eager, TUTTI_ALLREDUCE, 8, "Ring/LL 24c 16w 1 x 32768B/1");
}

/* H100: 32 channels for a peer of 18 NVLinks. Of 8 ranks each message has 4 channels, of parts of
 * at least 64 KiB. Over the network a peer has 2, of which 1 for parts of up to 128 KiB. */
TEST(messages_are_cut_into_parts)
{
    expect("H100x8", 1, "2.28.9", NULL, TUTTI_SENDRECV, 1 << 16, "Ring/LL 1c 20w 1 x 32768B/1");
    expect("H100x8", 1, "2.28.9", NULL, TUTTI_SENDRECV, 1 << 20,
           "Ring/Simple 4c 20w 4 x 524288B/1");
    expect("H100x8", 1, "2.30.7", NULL, TUTTI_SENDRECV, 1 << 17,
           "Ring/Simple 2c 20w 2 x 524288B/1");
    expect("H100x8", 1, "2.28.9", NULL, TUTTI_ALLTOALL, 1 << 23,
           "Ring/Simple 4c 20w 4 x 524288B/1");
    expect("H100x8", 2, "2.28.9", NULL, TUTTI_SENDRECV, 1 << 20,
           "Ring/Simple 2c 20w 2 x 131072B/1");
    expect("H100x8", 2, "2.28.9", NULL, TUTTI_SENDRECV, 1 << 16, "Ring/Simple 1c 20w 1 x 32768B/1");
    expect("L40x2", 1, "2.28.9", "NCCL_P2P_LL_THRESHOLD=0", TUTTI_SENDRECV, 8,
           "Ring/Simple 1c 20w 1 x 131072B/1");
    /* No chunk is larger than one of 8 of a buffer: 512 KiB of the usual 4 MiB, 64 KiB of 512. */
    expect("H100x8", 1, "2.28.9", "NCCL_P2P_NVL_CHUNKSIZE=1048576", TUTTI_SENDRECV, 1 << 20,
           "Ring/Simple 4c 20w 4 x 524288B/1");
    expect("H100x8", 1, "2.28.9", "NCCL_BUFFSIZE=524288", TUTTI_SENDRECV, 1 << 20,
           "Ring/Simple 4c 20w 4 x 65536B/1");
}

TEST(what_is_missing_says_why)
{
    struct tutti_nccl_comm comm;
    struct tutti_nccl_choice choice;
    struct tutti_err err = {""};

    CHECK_OK(make(vector_of("L40x4", 1, "2.28.9"), "2.28.9", "NCCL_ALGO=^Tree", &comm, &err), err);
    choice = choice_of(&comm, TUTTI_ALLREDUCE, 1 << 20);
    CHECK_TEXT(choice.missing[TUTTI_NCCL_TREE][TUTTI_NCCL_LL], "NCCL_ALGO leaves it out");
    CHECK_TEXT(choice.missing[TUTTI_NCCL_RING][TUTTI_NCCL_LL128],
               "LL128 needs NVLink between the GPUs of a host");
    CHECK_TEXT(choice.missing[TUTTI_NCCL_NVLS_TREE][TUTTI_NCCL_SIMPLE], "needs several nodes");
    CHECK_TEXT(choice.missing[TUTTI_NCCL_COLLNET_CHAIN][TUTTI_NCCL_SIMPLE],
               "CollNet is off (NCCL_COLLNET_ENABLE)");
    CHECK_TEXT(choice.missing[TUTTI_NCCL_PAT][TUTTI_NCCL_SIMPLE], "not written for it");
    CHECK(choice.missing[TUTTI_NCCL_RING][TUTTI_NCCL_LL] == NULL);
    tutti_nccl_tables_free(comm.tables);
}

TEST(data_that_a_switch_does_not_reduce_take_a_ring)
{
    struct tutti_nccl_comm comm;
    struct tutti_nccl_choice choice;
    struct tutti_err err = {""};

    CHECK_OK(make(vector_of("H100x8", 1, "2.28.9"), "2.28.9", NULL, &comm, &err), err);
    CHECK_OK(
        tutti_nccl_choose(&comm, TUTTI_ALLREDUCE, TUTTI_FLOAT32, TUTTI_MAX, 1 << 26, &choice, &err),
        err);
    CHECK_INT(choice.algorithm, TUTTI_NCCL_RING);
    CHECK_TEXT(choice.missing[TUTTI_NCCL_NVLS][TUTTI_NCCL_SIMPLE],
               "NVSwitch does not reduce this type and operator");
    CHECK_OK(tutti_nccl_choose(&comm, TUTTI_ALLREDUCE, TUTTI_BFLOAT16, TUTTI_MAX, 1 << 26, &choice,
                               &err),
             err);
    CHECK_INT(choice.algorithm, TUTTI_NCCL_NVLS);
    tutti_nccl_tables_free(comm.tables);
}

TEST(nothing_left_to_run_is_refused)
{
    expect_refusal("NCCL_ALGO=NVLSTree", TUTTI_ALLREDUCE, TUTTI_FLOAT32, TUTTI_SUM,
                   "NCCL finds nothing to run for 'allreduce' of float, sum: NVLSTree with LL: "
                   "runs with Simple alone; with LL128: runs with Simple alone; with Simple: "
                   "needs several nodes (NCCL_ALGO and NCCL_PROTO must leave one)");
    expect_refusal(NULL, TUTTI_BARRIER, TUTTI_FLOAT32, TUTTI_SUM,
                   "NCCL has no 'barrier' (allreduce, reducescatter, allgather, broadcast, reduce, "
                   "alltoall, sendrecv)");
}

TEST(no_bytes_take_one_channel)
{
    expect("H100x8", 1, "2.28.9", NULL, TUTTI_ALLREDUCE, 0, "Ring/LL 1c 3w 1 x 32768B/1");
    expect("H100x8", 1, "2.28.9", NULL, TUTTI_SENDRECV, 0, "Ring/LL 1c 20w 1 x 32768B/1");
}

static void expect_symmetric(const char *machine, const char *env, enum tutti_collective collective,
                             uint64_t bytes, const char *expected)
{
    struct tutti_nccl_comm comm;
    struct tutti_nccl_symmetric symmetric = {.kernel = ""};
    struct tutti_err err = {""};
    char text[128];

    CHECK_OK(make(vector_of(machine, 1, "2.28.9"), "2.28.9", env, &comm, &err), err);
    CHECK_OK(
        tutti_nccl_symmetric(&comm, collective, TUTTI_FLOAT32, TUTTI_SUM, bytes, &symmetric, &err),
        err);
    snprintf(text, sizeof(text), "%s %u %.3f", symmetric.kernel, symmetric.block_count,
             symmetric.time_us);
    CHECK_TEXT(text, expected);
    tutti_nccl_tables_free(comm.tables);
}

static void refuse_symmetric(const char *machine, unsigned nodes, const char *version,
                             enum tutti_collective collective, enum tutti_op op,
                             const char *message)
{
    struct tutti_nccl_comm comm;
    struct tutti_nccl_symmetric symmetric;
    struct tutti_err err = {""};

    CHECK_OK(make(vector_of(machine, nodes, "2.28.9"), version, NULL, &comm, &err), err);
    CHECK_INT(tutti_nccl_symmetric(&comm, collective, TUTTI_FLOAT32, op, 1 << 20, &symmetric, &err),
              -TUTTI_EINVAL);
    CHECK_TEXT(err.text, message);
    tutti_nccl_tables_free(comm.tables);
}

/* The formulas evaluated elsewhere, in Python: 4.5 + softplus(9 * 8 * 8 KiB / 5 blocks - 1), ... */
TEST(symmetric_kernels_are_reckoned_by_their_own_model)
{
    expect_symmetric("H100x8", NULL, TUTTI_ALLREDUCE, 8192, "AllReduce_AGxLLMC_R 5 5.732");
    expect_symmetric("H100x8", NULL, TUTTI_ALLREDUCE, 1 << 20, "AllReduce_RSxLDMC_AGxSTMC 1 9.445");
    expect_symmetric("H100x8", NULL, TUTTI_ALLREDUCE, 1 << 26,
                     "AllReduce_RSxLDMC_AGxSTMC 2 153.288");
    expect_symmetric("H100x8", "NCCL_NVLS_ENABLE=0", TUTTI_ALLREDUCE, 1 << 26,
                     "AllReduce_RSxLD_AGxST 7 356.936");
    expect_symmetric("B200x8", NULL, TUTTI_ALLREDUCE, 1 << 26,
                     "AllReduce_RSxLDMC_AGxSTMC 3 88.824"); /* of 4 blocks: 32 in all; 2: 98.938 */
    refuse_symmetric("H100x8", 2, "2.28.9", TUTTI_ALLREDUCE, TUTTI_SUM,
                     "no symmetric kernel for 'allreduce': not here (several GPUs of one node, all "
                     "reached over NVLink)");
    refuse_symmetric("H100x8", 1, "2.26", TUTTI_ALLREDUCE, TUTTI_SUM,
                     "no symmetric kernel for 'allreduce': this version has none (2.27 on)");
    refuse_symmetric("H100x8", 1, "2.28.9", TUTTI_BROADCAST, TUTTI_SUM,
                     "no symmetric kernel for 'broadcast': not for this collective (allreduce, "
                     "reducescatter or allgather)");
    refuse_symmetric("H100x8", 1, "2.28.9", TUTTI_REDUCESCATTER, TUTTI_MAX,
                     "no symmetric kernel for 'reducescatter': not for this type and operator (sum "
                     "of float, half or bfloat16)");
}

static void expect_row(const char *machine, unsigned nodes, const char *version,
                       enum tutti_collective collective, enum tutti_nccl_algorithm algorithm,
                       enum tutti_nccl_protocol protocol, const char *expected)
{
    struct tutti_nccl_comm comm;
    struct tutti_err err = {""};
    struct tutti_nccl_estimate row;
    char text[64];

    CHECK_OK(make(vector_of(machine, nodes, "2.28.9"), version, NULL, &comm, &err), err);
    row = tutti_nccl_row(&comm, collective, algorithm, protocol);
    snprintf(text, sizeof(text), "%.1f/%.1f", row.latency_us, row.algbw_GBps);
    CHECK_TEXT(text, expected);
    tutti_nccl_tables_free(comm.tables);
}

/* From the formulas of those versions, by hand. Tree with Simple on one node: 2 * 7 steps of 28 us
 * without a base, later of 4 us after 8.4. NVLSTree on two: 25 + 2 * 14 us, 8 * 40 * 5/6. Ring with
 * LL on two: 6.6 + 26 * 1 + 4 * 2.7, later 28 and 2. All-gather by NVLS: 8 * 40, first times 5/6.
 * Blackwell: the ring's LL128 on two nodes is bound by 8 * 48 * 0.92, in 2.28.9 by 8 * 34.6. */
TEST(older_versions_reckon_by_their_own_tables)
{
    expect_row("H100x8", 1, "2.21.5", TUTTI_ALLREDUCE, TUTTI_NCCL_TREE, TUTTI_NCCL_SIMPLE,
               "392.0/165.6");
    expect_row("H100x8", 1, "2.24.3", TUTTI_ALLREDUCE, TUTTI_NCCL_TREE, TUTTI_NCCL_SIMPLE,
               "64.4/165.6");
    expect_row("H100x8", 2, "2.22.3", TUTTI_ALLREDUCE, TUTTI_NCCL_NVLS_TREE, TUTTI_NCCL_SIMPLE,
               "53.0/266.7");
    expect_row("H100x8", 4, "2.26.2", TUTTI_ALLREDUCE, TUTTI_NCCL_NVLS_TREE, TUTTI_NCCL_SIMPLE,
               "81.0/160.0");
    expect_row("H100x8", 2, "2.21.5", TUTTI_ALLREDUCE, TUTTI_NCCL_RING, TUTTI_NCCL_LL, "43.4/20.8");
    expect_row("H100x8", 2, "2.24.3", TUTTI_ALLREDUCE, TUTTI_NCCL_RING, TUTTI_NCCL_LL, "40.0/20.8");
    expect_row("H100x8", 1, "2.22.3", TUTTI_ALLGATHER, TUTTI_NCCL_NVLS, TUTTI_NCCL_SIMPLE,
               "25.0/266.7");
    expect_row("H100x8", 1, "2.25.1", TUTTI_ALLGATHER, TUTTI_NCCL_NVLS, TUTTI_NCCL_SIMPLE,
               "25.0/320.0");
    /* 2.27: 8 * min(40 * 7/8, 0.9 * 60); 2.20: a quarter of 120, and a third, at most 39. */
    expect_row("H100x8", 1, "2.27.3", TUTTI_ALLGATHER, TUTTI_NCCL_NVLS, TUTTI_NCCL_SIMPLE,
               "25.0/280.0");
    expect_row("H100x8", 1, "2.20.3", TUTTI_ALLREDUCE, TUTTI_NCCL_NVLS, TUTTI_NCCL_SIMPLE,
               "23.0/266.7");
    expect_row("V100x8", 1, "2.20.3", TUTTI_ALLREDUCE, TUTTI_NCCL_RING, TUTTI_NCCL_LL, "15.0/17.1");
    expect_row("V100x8", 1, "2.20.3", TUTTI_ALLGATHER, TUTTI_NCCL_RING, TUTTI_NCCL_LL, "10.8/44.6");
    expect_row("B200x8", 2, "2.26.2", TUTTI_ALLGATHER, TUTTI_NCCL_RING, TUTTI_NCCL_LL128,
               "44.6/376.8");
    expect_row("B200x8", 2, "2.28.9", TUTTI_ALLGATHER, TUTTI_NCCL_RING, TUTTI_NCCL_LL128,
               "44.6/295.3");
    expect_row("B200x8", 2, "2.29.7", TUTTI_ALLGATHER, TUTTI_NCCL_RING, TUTTI_NCCL_LL128,
               "44.6/341.3");
    expect_row("B200x8", 2, "2.24.3", TUTTI_ALLGATHER, TUTTI_NCCL_RING, TUTTI_NCCL_LL128,
               "0.0/0.0");
    expect_row("ONE90", 2, "2.22.3", TUTTI_ALLGATHER, TUTTI_NCCL_PAT, TUTTI_NCCL_SIMPLE, "0.0/0.0");
    /* One rank a node: the ring's own 2.7 us and twice N crossings, later the tree's 5 us. */
    expect_row("ONE90", 2, "2.22.3", TUTTI_ALLGATHER, TUTTI_NCCL_RING, TUTTI_NCCL_LL, "9.3/1.2");
    expect_row("ONE90", 2, "2.24.3", TUTTI_ALLGATHER, TUTTI_NCCL_RING, TUTTI_NCCL_LL, "11.6/1.2");
}

/* By hand again. V100, 16 ranks of two nodes: a tree with LL takes 4.4 + 2 (7 * 0.52 * 1.8 + 5) us
 * at 4 * 20 * 0.9 / 3.8 / 2 GB/s, later of 0.92; a ring's 30 steps with Simple are all the
 * network's 6.6 us in 2.6, then 28 of 3.4 us and 2 of 9.6, in 2.12 26 and 4 of 28, later of 9.6 us.
 * NVLS on H100: 40 us and 3/4 of the ring's 360 GB/s in 2.17; NVLSTree on four nodes in 2.18:
 * 23 + 2 * 3 * 19 us, 8 * 48 * 0.7 * 4/6 GB/s. */
TEST(versions_before_2_20_reckon_by_their_own_tables)
{
    expect_row("V100x8", 2, "2.6.4", TUTTI_ALLREDUCE, TUTTI_NCCL_TREE, TUTTI_NCCL_LL, "21.4/12.0");
    expect_row("V100x8", 2, "2.7.3", TUTTI_ALLREDUCE, TUTTI_NCCL_TREE, TUTTI_NCCL_LL, "27.5/9.5");
    expect_row("V100x8", 2, "2.8.3", TUTTI_ALLREDUCE, TUTTI_NCCL_TREE, TUTTI_NCCL_LL, "27.5/9.7");
    expect_row("V100x8", 2, "2.6.4", TUTTI_ALLREDUCE, TUTTI_NCCL_RING, TUTTI_NCCL_SIMPLE,
               "206.4/25.6");
    expect_row("V100x8", 2, "2.7.3", TUTTI_ALLREDUCE, TUTTI_NCCL_RING, TUTTI_NCCL_SIMPLE,
               "122.8/25.6");
    expect_row("V100x8", 2, "2.12.12", TUTTI_ALLREDUCE, TUTTI_NCCL_RING, TUTTI_NCCL_SIMPLE,
               "208.8/25.6");
    expect_row("V100x8", 2, "2.14.3", TUTTI_ALLREDUCE, TUTTI_NCCL_RING, TUTTI_NCCL_SIMPLE,
               "135.2/25.6");
    expect_row("V100x8", 2, "2.18.3", TUTTI_ALLREDUCE, TUTTI_NCCL_TREE, TUTTI_NCCL_SIMPLE,
               "84.0/36.8");
    expect_row("V100x8", 1, "2.7.3", TUTTI_ALLGATHER, TUTTI_NCCL_RING, TUTTI_NCCL_LL128,
               "23.3/125.5");
    expect_row("A100x8", 2, "2.6.4", TUTTI_ALLREDUCE, TUTTI_NCCL_TREE, TUTTI_NCCL_LL128, "0.0/0.0");
    expect_row("A100x8", 2, "2.7.3", TUTTI_ALLREDUCE, TUTTI_NCCL_RING, TUTTI_NCCL_SIMPLE,
               "122.8/94.2");
    expect_row("H100x8", 1, "2.16.5", TUTTI_ALLREDUCE, TUTTI_NCCL_NVLS, TUTTI_NCCL_SIMPLE,
               "0.0/0.0");
    expect_row("H100x8", 1, "2.17.1", TUTTI_ALLREDUCE, TUTTI_NCCL_NVLS, TUTTI_NCCL_SIMPLE,
               "40.0/270.0");
    expect_row("H100x8", 1, "2.18.3", TUTTI_ALLGATHER, TUTTI_NCCL_NVLS, TUTTI_NCCL_SIMPLE,
               "0.0/0.0");
    expect_row("H100x8", 4, "2.18.3", TUTTI_ALLREDUCE, TUTTI_NCCL_NVLS_TREE, TUTTI_NCCL_SIMPLE,
               "137.0/179.2");
}

/* Of 8 levels: before 2.19 chunks of 512 KiB are halved to 128 KiB while a channel has less than 64
 * of them, to 64 KiB while less than 32, to 32 KiB while less than 8. */
TEST(trees_before_2_19_have_smaller_chunks)
{
    expect("A100x8", 2, "2.18", "NCCL_ALGO=Tree,NCCL_PROTO=Simple", TUTTI_ALLREDUCE, 1 << 22,
           "Tree/Simple 16c 20w 16 x 32768B/1");
    expect("A100x8", 2, "2.20", "NCCL_ALGO=Tree,NCCL_PROTO=Simple", TUTTI_ALLREDUCE, 1 << 22,
           "Tree/Simple 16c 20w 16 x 524288B/1");
    expect("A100x8", 2, "2.18", "NCCL_ALGO=Tree,NCCL_PROTO=Simple", TUTTI_ALLREDUCE, 1 << 26,
           "Tree/Simple 16c 20w 16 x 131072B/1");
}

/* 2.21 gives every channel the same share, and runs a ring where NCCL_ALGO leaves nothing. */
TEST(older_versions_cut_and_choose_by_their_own_rules)
{
    expect("H100x8", 1, "2.21", "NCCL_ALGO=Ring,NCCL_PROTO=LL128", TUTTI_ALLREDUCE, 1 << 16,
           "Ring/LL128 12c 20w 12 x 576000B/1");
    expect("H100x8", 1, "2.22", "NCCL_ALGO=Ring,NCCL_PROTO=LL128", TUTTI_ALLREDUCE, 1 << 16,
           "Ring/LL128 12c 20w 8 x 576000B/1");
    expect("H100x8", 1, "2.22", "NCCL_ALGO=Tree", TUTTI_BROADCAST, 1 << 10,
           "Ring/LL 1c 3w 1 x 32768B/1");
}

static void expect_version(const char *name, const char *found)
{
    const struct tutti_nccl_version *version = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_nccl_version_find(name, &version, &err), err);
    if (version != NULL)
        CHECK_TEXT(tutti_nccl_version_name(version), found);
}

TEST(versions_are_found_by_name_series_and_code)
{
    expect_version("2.28.9", "2.28.9");
    expect_version("2.28", "2.28.9");
    expect_version("22809", "2.28.9");
    expect_version("2.30", "2.30.7");
    expect_version("2.7.8", "2.7.3");
    expect_version("2.20", "2.20.3");
    expect_version("2.20.5", "2.20.3");
    expect_version("2.21", "2.21.5");
    expect_version("2.23", "2.22.3");
    expect_version("2.27", "2.27.3");
    expect_version("2.28.3", "2.27.3");
    expect_version("2.30.99", "2.30.7");
    expect_version("latest", "2.30.7");
    CHECK_TEXT(tutti_nccl_version_name(tutti_nccl_version_default()), "2.28.9");
}

TEST(versions_unknown_are_refused_with_those_there_are)
{
    static const char *const names[] = {"",      "2",     "2.31",    "2.1",   "3.0", "2.28.9.1",
                                        "2..28", "2.28x", "latest ", "-2.28", "1e9"};
    const struct tutti_nccl_version *version = NULL;
    struct tutti_err err = {""};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        CHECK_INT(tutti_nccl_version_find(names[i], &version, &err), -TUTTI_EINVAL);
        CHECK(strstr(err.text, "2.28.9, ") != NULL && strstr(err.text, "2.30.7, ") != NULL);
    }
    CHECK(version == NULL);
}

/* What has run can be no version that is known: its neighbour is nearer to it than the standard. */
TEST(versions_that_have_run_are_like_the_nearest_known)
{
    CHECK_TEXT(tutti_nccl_version_name(tutti_nccl_version_near("2.16.5")), "2.15.1");
    CHECK_TEXT(tutti_nccl_version_name(tutti_nccl_version_near("2.4.8")), "2.6.4");
    CHECK_TEXT(tutti_nccl_version_name(tutti_nccl_version_near("2.23.4")), "2.22.3");
    CHECK_TEXT(tutti_nccl_version_name(tutti_nccl_version_near("2.31")), "2.30.7");
    CHECK(tutti_nccl_version_near("") == NULL);
    CHECK(tutti_nccl_version_near("2.28x") == NULL);
}

static int story(struct tutti_err *err)
{
    struct tutti_nccl_comm comm = {.tables = NULL};
    int status = make(vector_of("H100x8", 1, "2.28.9"), "2.28.9", NULL, &comm, err);

    tutti_nccl_tables_free(comm.tables);
    return status;
}

TEST(memory_that_runs_out_is_an_error)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(story(&err), err);
}
