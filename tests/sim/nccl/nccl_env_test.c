/* NCCL_* variables in NCCL's grammar: what lists switch on, what is refused and how it is said. */
#include "runtime/status.h"
#include "sim/nccl/env.h"
#include "tests/alloc_fail.h"
#include "tests/test.h"

enum { ALL = TUTTI_NCCL_FUNCTION_COUNT };

/* "TRcCNnP" with a letter for each algorithm that is on, "." for one that is off. */
static const char *on(const struct tutti_nccl_env *env, int function, char *text)
{
    for (int i = 0; i < TUTTI_NCCL_ALGORITHM_COUNT; i++)
        text[i] = env->algorithms[function][i] ? "TRcCNnP"[i] : '.';
    text[TUTTI_NCCL_ALGORITHM_COUNT] = '\0';
    return text;
}

static void expect_algorithms(const char *list, const char *allreduce, const char *others)
{
    struct tutti_nccl_env *env = NULL;
    struct tutti_err err = {""};
    char seen[TUTTI_NCCL_ALGORITHM_COUNT + 1];

    REQUIRE(tutti_nccl_env_new(&env, &err) == 0);
    CHECK_OK(tutti_nccl_env_set(env, "NCCL_ALGO", list, &err), err);
    CHECK_TEXT(on(env, TUTTI_NCCL_ALLREDUCE, seen), allreduce);
    CHECK_TEXT(on(env, TUTTI_NCCL_BROADCAST, seen), others);
    CHECK_TEXT(on(env, TUTTI_NCCL_ALLGATHER, seen), others);
    tutti_nccl_env_free(env);
}

static void expect_protocols(const char *list, int function, int ll, int ll128, int simple)
{
    struct tutti_nccl_env *env = NULL;
    struct tutti_err err = {""};

    REQUIRE(tutti_nccl_env_new(&env, &err) == 0);
    CHECK_OK(tutti_nccl_env_set(env, "NCCL_PROTO", list, &err), err);
    CHECK_INT(env->protocols[function][TUTTI_NCCL_LL], ll);
    CHECK_INT(env->protocols[function][TUTTI_NCCL_LL128], ll128);
    CHECK_INT(env->protocols[function][TUTTI_NCCL_SIMPLE], simple);
    tutti_nccl_env_free(env);
}

static void expect_refusal(const char *list, const char *message)
{
    struct tutti_nccl_env *env = NULL;
    struct tutti_err err = {""};

    REQUIRE(tutti_nccl_env_new(&env, &err) == 0);
    CHECK_INT(tutti_nccl_env_add(env, list, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, message);
    CHECK(memcmp(env, tutti_nccl_env_none(), sizeof(*env)) == 0);
    tutti_nccl_env_free(env);
}

TEST(a_list_of_algorithms_switches_off_the_others)
{
    expect_algorithms("Ring", ".R.....", ".R.....");
    expect_algorithms("^nvls,NVLSTREE", "TRcC..P", "TRcC..P");
    expect_algorithms("ring,collnetdirect;allreduce:tree", "T......", ".Rc....");
    expect_algorithms("allreduce:^Tree", ".RcCNnP", "TRcCNnP");
}

TEST(ll128_is_automatic_until_a_list_names_or_leaves_it)
{
    expect_protocols("allgather:Simple", TUTTI_NCCL_ALLREDUCE, TUTTI_NCCL_ON, TUTTI_NCCL_AUTO,
                     TUTTI_NCCL_ON);
    expect_protocols("LL128", TUTTI_NCCL_REDUCE, TUTTI_NCCL_OFF, TUTTI_NCCL_ON, TUTTI_NCCL_OFF);
    expect_protocols("^LL", TUTTI_NCCL_ALLREDUCE, TUTTI_NCCL_OFF, TUTTI_NCCL_ON, TUTTI_NCCL_ON);
    expect_protocols("LL,Simple;allreduce:simple", TUTTI_NCCL_ALLREDUCE, TUTTI_NCCL_OFF,
                     TUTTI_NCCL_OFF, TUTTI_NCCL_ON);
}

TEST(a_comma_before_a_name_of_nccls_divides_a_list)
{
    struct tutti_nccl_env *env = NULL;
    struct tutti_err err = {""};
    char seen[TUTTI_NCCL_ALGORITHM_COUNT + 1];

    REQUIRE(tutti_nccl_env_new(&env, &err) == 0);
    CHECK_OK(tutti_nccl_env_add(env,
                                "NCCL_ALGO=Tree,Ring,NCCL_MAX_NCHANNELS=0x10,NCCL_P2P_LEVEL=NVL,"
                                "NCCL_NET_GDR_LEVEL=3,NCCL_NETDEVS_POLICY=max:2,"
                                "NCCL_THREAD_THRESHOLDS=1 2 3 -2 5 6",
                                &err),
             err);
    CHECK_TEXT(on(env, TUTTI_NCCL_ALLREDUCE, seen), "TR.....");
    CHECK_INT(env->max_nchannels, 16);
    CHECK_INT(env->p2p_level, TUTTI_PATH_NVL);
    CHECK_INT(env->net_gdr_level, TUTTI_PATH_PHB);
    CHECK_INT(env->netdevs_policy, TUTTI_NETDEVS_MAX);
    CHECK_INT(env->netdevs_max, 2);
    CHECK_INT(env->thread_thresholds[0][TUTTI_NCCL_SIMPLE], 3);
    CHECK_INT(env->thread_thresholds[1][TUTTI_NCCL_LL], TUTTI_NCCL_UNSET);
    CHECK_INT(env->thread_thresholds[1][TUTTI_NCCL_SIMPLE], 6);
    CHECK_INT(env->buffsize, TUTTI_NCCL_UNSET);
    tutti_nccl_env_free(env);
}

TEST(what_nccl_would_not_take_is_refused_with_what_it_would)
{
    expect_refusal("NCCL_ALGO=Rings", "NCCL_ALGO names no such thing: 'Rings' (Tree, Ring, "
                                      "CollNetDirect, CollNetChain, NVLS, NVLSTree or PAT)");
    expect_refusal("NCCL_PROTO=", "NCCL_PROTO is empty (LL, LL128 or Simple)");
    expect_refusal("NCCL_ALGO=ring;tree", "NCCL_ALGO: only the first entry may be without a "
                                          "function: 'tree' (allreduce:tree)");
    expect_refusal("NCCL_ALGO=alltoall:ring",
                   "NCCL_ALGO knows no function 'alltoall' (broadcast, reduce, allgather, "
                   "reducescatter or allreduce)");
    expect_refusal("NCCL_BUFFSIZE=4M",
                   "NCCL_BUFFSIZE is no number: '4M' (a whole number, without K or M)");
    expect_refusal("NCCL_CROSS_NIC=3", "NCCL_CROSS_NIC is out of range: '3' (0 to 2)");
    expect_refusal("NCCL_P2P_LEVEL=nvl", "NCCL_P2P_LEVEL is no level: 'nvl' (LOC NVL NVB C2C PIX "
                                         "PXB P2C PXN PHB SYS or 0 to 5)");
    expect_refusal("NCCL_NETDEVS_POLICY=MAX:0",
                   "NCCL_NETDEVS_POLICY is no policy: 'MAX:0' (AUTO, ALL or MAX:1 and up)");
    expect_refusal("NCCL_DEBUG=INFO", "no variable of NCCL that is modelled: 'NCCL_DEBUG' "
                                      "(NCCL_ALGO, NCCL_PROTO, NCCL_MAX_NCHANNELS and 36 others)");
    expect_refusal("", "'' sets nothing (NCCL_ALGO=Ring and the like)");
}

TEST(what_nccl_documents_and_what_decides_nothing_is_known_as_such)
{
    CHECK(tutti_nccl_env_is_other("NCCL_IB_QPS_PER_CONNECTION"));
    CHECK(tutti_nccl_env_is_other("NCCL_SOCKET_IFNAME"));
    CHECK(tutti_nccl_env_is_other("NCCL_NET"));
    CHECK(tutti_nccl_env_is_other("NCCL_NET_SHARED_BUFFERS"));
    CHECK(tutti_nccl_env_is_other("NCCL_DEBUG_SUBSYS"));
    CHECK(tutti_nccl_env_is_other("NCCL_CHECKS_DISABLE"));
    CHECK(!tutti_nccl_env_is_other("NCCL_NET_GDR_LEVEL")); /* this one decides, */
    CHECK(!tutti_nccl_env_is_other("NCCL_NET_GDR_LEVLE")); /* and this one is a slip */
    CHECK(!tutti_nccl_env_is_other("NCCL_NETDEV_POLICY"));
    CHECK(!tutti_nccl_env_is_other("NCCL_ALGO"));
    CHECK(!tutti_nccl_env_is_other("NCCL_ALGORITHM"));
    CHECK(!tutti_nccl_env_is_other("NCCL_TREE_THRESHOLD")); /* of NCCL 2.4: it decided */
    CHECK(!tutti_nccl_env_is_other("OMP_NUM_THREADS"));
}

/* Azure's graph file for two bridged pairs of A100: rings both ways. */
TEST(rings_of_a_graph_file_are_given_by_their_gpus)
{
    static const char *const wrong[] = {
        "/opt/microsoft/ncv4/graph.xml",
        "12",
        "12:",
        "0:0-1",
        "-3:0-1",
        "12:0",
        "12:0-1-2-",
        "12:0-1-3",     /* GPU 2 is left out */
        "12:0-1-1",     /* twice */
        "12:0-1-2/0-1", /* not all of them */
        "12:0-1/0-1 ",
        "12:0-99",
        "12:1-0/0-1/0-1/0-1/0-1/0-1/0-1/0-1/0-1/0-1/0-1/0-1/0-1/0-1/0-1/0-1/0-1",
    };
    struct tutti_nccl_env *env = NULL;
    struct tutti_err err = {""};

    REQUIRE(tutti_nccl_env_new(&env, &err) == 0);
    CHECK_OK(tutti_nccl_env_add(env, "NCCL_GRAPH_FILE=12:0-1-2-3/0-3-2-1", &err), err);
    CHECK_INT(env->rings.count, 2);
    CHECK_INT(env->rings.gpu_count, 4);
    CHECK_INT(env->rings.kbyte_per_s, 12000000);
    CHECK_INT(env->rings.gpus[0][1], 1);
    CHECK_INT(env->rings.gpus[1][1], 3);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        CHECK_INT(tutti_nccl_env_set(env, "NCCL_GRAPH_FILE", wrong[i], &err), -TUTTI_EINVAL);
        CHECK_INT(env->rings.count, 2); /* what there was stays */
    }
    tutti_nccl_env_free(env);
    expect_refusal("NCCL_GRAPH_FILE=g.xml",
                   "NCCL_GRAPH_FILE holds no rings: 'g.xml' (no file is read: the GB/s of a "
                   "channel and its GPUs, '12:0-1-2-3/0-3-2-1'; at most 16 of 16)");
}

TEST(every_variable_is_listed_once_and_in_order)
{
    for (size_t i = 1; tutti_nccl_env_name_at(i) != NULL; i++)
        CHECK(strcmp(tutti_nccl_env_name_at(i - 1), tutti_nccl_env_name_at(i)) < 0);
    for (size_t i = 0; tutti_nccl_env_name_at(i) != NULL; i++)
        CHECK(!tutti_nccl_env_is_other(tutti_nccl_env_name_at(i)));
}

TEST(every_value_counts_in_the_hash)
{
    static const char *const values[] = {"NCCL_ALGO=Ring",
                                         "NCCL_PROTO=LL128",
                                         "NCCL_THREAD_THRESHOLDS=1 1 1 1 1 1",
                                         "NCCL_NTHREADS=64",
                                         "NCCL_NETDEVS_POLICY=MAX:2",
                                         "NCCL_NETDEVS_POLICY=MAX:3",
                                         "NCCL_GRAPH_FILE=12:0-1-2",
                                         "NCCL_GRAPH_FILE=12:0-2-1"};
    uint64_t last = tutti_nccl_env_hash(NULL);
    struct tutti_nccl_env *env = NULL;
    struct tutti_err err = {""};

    REQUIRE(tutti_nccl_env_new(&env, &err) == 0);
    CHECK(tutti_nccl_env_hash(env) == last);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        CHECK_OK(tutti_nccl_env_add(env, values[i], &err), err);
        CHECK(tutti_nccl_env_hash(env) != last);
        last = tutti_nccl_env_hash(env);
    }
    tutti_nccl_env_free(env);
}

static int story(struct tutti_err *err)
{
    struct tutti_nccl_env *env = NULL;
    int status = tutti_nccl_env_new(&env, err);

    if (status == 0)
        status = tutti_nccl_env_add(env, "NCCL_ALGO=Ring", err);
    tutti_nccl_env_free(env);
    return status;
}

TEST(memory_that_runs_out_is_an_error)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(story(&err), err);
}
