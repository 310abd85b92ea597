/* What AWS's plugin for EFA makes NCCL run: its variables, and its tuner from 3 hosts on. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "runtime/status.h"
#include "sim/nccl.h"
#include "sim/nccl/tables.h"
#include "tests/test.h"
#include "topo/topo.h"

static struct tutti_nccl_comm *make(const char *spec, uint32_t hosts, const char *version,
                                    const char *env)
{
    struct tutti_nccl_comm_params params = {.host_count = hosts};
    struct tutti_nccl_comm *comm = NULL;
    struct tutti_nccl_env *set = NULL;
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    CHECK_OK(tutti_nccl_env_new(&set, &err), err);
    if (env != NULL)
        CHECK_OK(tutti_nccl_env_add(set, env, &err), err);
    CHECK_OK(tutti_nccl_version_find(version, &params.version, &err), err);
    params.hardware = topo->hardware;
    params.env = set;
    CHECK_OK(tutti_nccl_comm_new(&params, &comm, &err), err);
    tutti_nccl_env_free(set);
    tutti_topo_free(topo);
    return comm;
}

static struct tutti_nccl_choice choose(const struct tutti_nccl_comm *comm,
                                       enum tutti_collective collective, uint64_t bytes)
{
    struct tutti_nccl_choice choice = {.tuned = false};
    struct tutti_err err = {""};

    CHECK_OK(tutti_nccl_choose(comm, collective, TUTTI_FLOAT32, TUTTI_SUM, bytes, &choice, &err),
             err);
    return choice;
}

static char letter_of(const struct tutti_nccl_choice *choice)
{
    if (choice->algorithm == TUTTI_NCCL_TREE && choice->protocol == TUTTI_NCCL_LL128)
        return 'T';
    if (choice->algorithm == TUTTI_NCCL_NVLS_TREE && choice->protocol == TUTTI_NCCL_SIMPLE)
        return 'N';
    if (choice->algorithm != TUTTI_NCCL_RING || choice->protocol == TUTTI_NCCL_LL)
        return '?';
    return choice->protocol == TUTTI_NCCL_LL128 ? 'r' : 'R';
}

/* The plugin's own table of decisions (aws-ofi-nccl, tests/unit/static/current_tuner_decisions.csv)
 * for all-reduce on p5: 1 MiB to 32 GiB; tree and ring with LL128, ring and NVLSTree with Simple.
 * Its rows of 2 hosts are older than that the tuner leaves those to NCCL (pull request 778). */
TEST(p5_decides_as_the_plugins_own_table)
{
    static const struct {
        uint32_t hosts;
        const char *decisions;
    } rows[] = {
        {4, "TTTTTTrrrrrRRRRR"},   {8, "TTTTTTTrrrrrRRRR"},   {16, "TTTTTTTTTrrrNRRR"},
        {32, "TTTTTTTTTNNrNNRR"},  {64, "TTTTTTTTTNNNNNNR"},  {128, "TTTTTTTTTTNNNNNN"},
        {256, "TTTTTTTTTNNNNNNN"}, {512, "TTTTTTTTTNNNNNNN"}, {1024, "TTTTTTTTTNNNNNNN"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tutti_nccl_comm *comm = make("dgx-h100:net=efa", rows[i].hosts, "2.28", NULL);
        char seen[17] = "";

        for (int k = 0; k < 16; k++) {
            struct tutti_nccl_choice choice =
                choose(comm, TUTTI_ALLREDUCE, (uint64_t)1 << (20 + k));

            if (rows[i].hosts < 1024 || k < 15) /* that is beyond the regions: NCCL's own choice */
                CHECK(choice.tuned);
            CHECK(choice.time_us > 0);
            seen[k] = letter_of(&choice);
        }
        printf("%" PRIu32 " hosts\n", rows[i].hosts);
        CHECK_TEXT(seen, rows[i].decisions);
        tutti_nccl_comm_free(comm);
    }
}

static bool is_tuned(const char *spec, uint32_t hosts, const char *version, const char *env,
                     enum tutti_collective collective)
{
    struct tutti_nccl_comm *comm = make(spec, hosts, version, env);
    bool tuned = choose(comm, collective, 256 << 20).tuned;

    tutti_nccl_comm_free(comm);
    return tuned;
}

TEST(the_tuner_is_asked_where_it_is)
{
    CHECK(is_tuned("dgx-h100:net=efa", 3, "2.28", NULL, TUTTI_ALLREDUCE));
    CHECK(is_tuned("hgx-h200:net=efa", 4, "2.28", NULL, TUTTI_ALLGATHER));
    CHECK(is_tuned("hgx-b200:net=efa", 4, "2.28", NULL, TUTTI_REDUCESCATTER));
    CHECK(!is_tuned("dgx-h100:net=efa", 4, "2.28", NULL, TUTTI_ALLGATHER)); /* no regions */
    CHECK(!is_tuned("dgx-h100:net=efa", 4, "2.28", NULL, TUTTI_BROADCAST));
    CHECK(!is_tuned("dgx-h100:net=efa", 2, "2.28", NULL, TUTTI_ALLREDUCE)); /* NCCL's own */
    CHECK(!is_tuned("dgx-h100:net=efa", 4, "2.26", NULL, TUTTI_ALLREDUCE)); /* none yet */
    CHECK(!is_tuned("dgx-h100", 4, "2.28", NULL, TUTTI_ALLREDUCE));         /* not AWS */
    CHECK(!is_tuned("host:gpu=h100,gpus=2,net=efa", 4, "2.28", NULL, TUTTI_ALLREDUCE));
    CHECK(!is_tuned("dgx-h100:net=efa", 4, "2.28", "NCCL_TUNER_PLUGIN=none", TUTTI_ALLREDUCE));
    CHECK(is_tuned("dgx-h100:net=efa", 4, "2.28", "NCCL_TUNER_PLUGIN=libnccl-net.so",
                   TUTTI_ALLREDUCE));
}

/* What is forbidden is not taken: the next region that holds the point, or NCCL's own choice. */
TEST(what_the_user_forbids_stays_forbidden)
{
    struct tutti_nccl_comm *comm = make("dgx-h100:net=efa", 4, "2.28", "NCCL_PROTO=^LL128");
    struct tutti_nccl_choice choice = choose(comm, TUTTI_ALLREDUCE, 256 << 20);

    CHECK(!choice.tuned);
    CHECK(choice.protocol != TUTTI_NCCL_LL128);
    tutti_nccl_comm_free(comm);
}

static void expect_words(const char *spec, uint32_t hosts, const char *version, const char *env,
                         const char *expected)
{
    struct tutti_nccl_comm *comm = make(spec, hosts, version, env);
    char words[512];
    char cut[12];

    CHECK_INT(tutti_nccl_plugin_words(comm, words, sizeof(words)), strlen(expected));
    CHECK_TEXT(words, expected);
    CHECK(tutti_nccl_plugin_words(comm, cut, sizeof(cut)) < sizeof(cut));
    CHECK_INT(strncmp(cut, words, strlen(cut)), 0);
    tutti_nccl_comm_free(comm);
}

TEST(variables_are_set_as_the_plugin_of_that_time_did)
{
    expect_words("dgx-h100:net=efa", 4, "2.28", NULL,
                 "AWS's for EFA, as on p5; sets NCCL_NVLSTREE_MAX_CHUNKSIZE=524288 "
                 "NCCL_NVLS_CHUNKSIZE=524288 NCCL_BUFFSIZE=8388608 NCCL_P2P_NET_CHUNKSIZE=524288; "
                 "its tuner decides (NCCL_TUNER_PLUGIN=none: not)");
    expect_words("dgx-h100:net=efa", 2, "2.21", "NCCL_NVLS_CHUNKSIZE=131072",
                 "AWS's for EFA, as on p5; sets NCCL_NVLSTREE_MAX_CHUNKSIZE=524288");
    expect_words("hgx-h200:net=efa", 2, "2.18.3", NULL,
                 "AWS's for EFA, as on p5en; sets NCCL_NVLS_ENABLE=0");
    expect_words("host:gpu=a100,gpus=8,nics=4,nic=100Gb/s,net=efa", 8, "2.23", NULL,
                 "AWS's for EFA, as on p4d");
    expect_words("host:gpu=v100,nics=1,gdr=no,net=efa", 2, "2.28", NULL, "");
    expect_words("dgx-h100", 4, "2.28", NULL, "");
}

static double least_us(const char *spec, const char *version)
{
    struct tutti_nccl_comm *comm = make(spec, 2, version, "NCCL_ALGO=Tree");
    double us = choose(comm, TUTTI_ALLREDUCE, 8).time_us;

    tutti_nccl_comm_free(comm);
    return us;
}

/* p4d's ports stated 150 us until 2023, and have stated 75 since; p5en's and p6's 75, and 35 since
 * 2025-05. */
TEST(latencies_are_those_of_their_time)
{
    const char *p4d = "host:gpu=a100,gpus=8,nics=4,nic=100Gb/s,net=efa";

    CHECK(fabs(least_us(p4d, "2.17") - 692.0) < 0.05); /* 14 steps of 28 us and twice 150 us */
    CHECK(fabs(least_us(p4d, "2.28") - 392.4) < 0.05); /* 75 us, and the flush's, twice */
    CHECK(fabs(least_us("hgx-b200:net=efa", "2.26") - 175.2) < 0.05);
    CHECK(fabs(least_us("hgx-b200:net=efa", "2.27") - 95.2) < 0.05);
}

/* Buffers of 8 MiB have slices of 2 MiB: a user's own value stays. */
TEST(buffers_of_the_plugin_give_way_to_the_users)
{
    struct tutti_nccl_comm *its = make("dgx-h100:net=efa", 2, "2.28", NULL);
    struct tutti_nccl_comm *mine = make("dgx-h100:net=efa", 2, "2.28", "NCCL_BUFFSIZE=2097152");

    CHECK_INT(its->tables->buffer_bytes[TUTTI_NCCL_SIMPLE], 8 << 20);
    CHECK_INT(mine->tables->buffer_bytes[TUTTI_NCCL_SIMPLE], 2 << 20);
    tutti_nccl_comm_free(its);
    tutti_nccl_comm_free(mine);
}
