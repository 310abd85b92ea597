/* Tests of our text form of machines: what is written is read back, what is wrong is named. */
#include <stdlib.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/test.h"
#include "topo/topo.h"

static int parse(const char *text, struct tutti_topo **ret, struct tutti_err *err)
{
    return tutti_topo_parse("x.topo", text, strlen(text), ret, err);
}

static void expect_refusal(const char *text, const char *message)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_INT(parse(text, &topo, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, message);
    tutti_topo_free(topo);
}

TEST(a_machine_is_written_as_a_person_would)
{
    static const char text[] = "topology two boards\n"
                               "source a test\n"
                               "node gpu0 device rank=0 host=0 flops=989T mem=3350GB/s\n"
                               "node gpu1 device rank=1 host=0 flops=989T mem=3350GB/s\n"
                               "node sw switch host=0 reduces\n"
                               "node nic0 nic host=0\n"
                               "node cpu0 cpu\n"
                               "cable gpu0 sw nvlink 450GB/s 250ns cables=18\n"
                               "link gpu1 sw nvlink 450GB/s 250ns\n"
                               "link sw gpu1 nvlink 450.000000001GB/s 251ns\n"
                               "cable gpu1 nic0 pcie 63.015GB/s 300ns\n"
                               "cable nic0 cpu0 c2c 1GB/s 0ps\n"
                               "levels 2\n"
                               "order 0 1\n"
                               "order 1 0\n";
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    char *printed = NULL;

    CHECK_OK(parse(text, &topo, &err), err);
    REQUIRE(topo != NULL);
    CHECK_INT(tutti_topo_link(topo, 0).cable_count, 18);
    CHECK_INT(tutti_topo_node(topo, 1).flops_per_s, 989000000000000);
    CHECK(tutti_topo_node(topo, 2).reduces);
    CHECK_OK(tutti_topo_print(topo, &printed, &err), err);
    REQUIRE(printed != NULL);
    CHECK_TEXT(printed, text);
    free(printed);
    tutti_topo_free(topo);
}

TEST(comments_blanks_and_missing_newlines_do_no_harm)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(parse("\n# nothing\n\t node a device # one\r\n node b device\n"
                   "cable a b ici 400Gb/s 1us",
                   &topo, &err),
             err);
    REQUIRE(topo != NULL);
    CHECK_INT(tutti_topo_link(topo, 1).bytes_per_s, 50000000000);
    CHECK_TEXT(topo->name, "x.topo");
    CHECK_TEXT(topo->source, "not stated");
    tutti_topo_free(topo);
}

TEST(what_is_wrong_is_named_with_its_line)
{
    expect_refusal("", "x.topo: no devices (at least 1)");
    expect_refusal("nod a device\n",
                   "x.topo: line 1: unknown statement 'nod' (topology, source, node, link, cable, "
                   "levels, dims, order, routes, net, hardware)");
    expect_refusal("\nnode a gpu\n",
                   "x.topo: line 2: unknown kind 'gpu' (device, switch, nic, cpu)");
    expect_refusal("node a\n", "x.topo: line 1: the line ends too early (missing: a kind: device, "
                               "switch, nic or cpu)");
    expect_refusal("node a device\nnode a device\n", "x.topo: line 2: a second node 'a'");
    expect_refusal("node a nic reduces\n",
                   "x.topo: line 1: unknown option 'reduces' of a nic (host=)");
    expect_refusal("node a device flops=1.5T\n",
                   "x.topo: line 1: not a rate of FLOPs '1.5T' (such as 989T)");
    expect_refusal("node a device\ncable a b nvlink 1GB/s 1us\n",
                   "x.topo: line 2: no node 'b' before this line");
    expect_refusal("node a device\ncable a a nvlink 1GB/s 1us\n",
                   "x.topo: line 2: link from 'a' to itself");
    expect_refusal("node a device\nnode b device\nlink a b nvlnk 1GB/s 1us\n",
                   "x.topo: line 3: unknown kind 'nvlnk' (generic, nvlink, xgmi, pcie, c2c, cpu, "
                   "net, ici, dcn)");
    expect_refusal("node a device\nnode b device\nlink a b nvlink 1 1us\n",
                   "x.topo: line 3: not a rate '1' (a unit is needed: 50GB/s is bytes, 400Gb/s is "
                   "bits)");
    expect_refusal("node a device\nnode b device\nlink a b nvlink 1GB/s 1us x=1\n",
                   "x.topo: line 3: unknown option 'x=1' of a link (cables=, burst=)");
    expect_refusal("node a device\nlevels 2\n", "x.topo: levels do not multiply to the 1 devices");
    expect_refusal("node a device\ndims 2x\n",
                   "x.topo: line 2: not a grid '2x' (1 to 8 numbers such as 4x4x8)");
    expect_refusal("node a device\ndims 1x1 wrap=1\n",
                   "x.topo: line 2: not a wrap 'wrap=1' (wrap= and a 0 or 1 an axis)");
    expect_refusal("node a device\norder 1\n", "x.topo: a ring order names rank 1 (0 to 0)");
    expect_refusal("node a device\norder 0\norder 0 0\n",
                   "x.topo: line 3: an order of 2 ranks after one of 1");
    expect_refusal("node a device\nroutes tree 2\n",
                   "x.topo: line 2: routes tree with 1 numbers (3)");
    expect_refusal("node a device\nroutes tree 2 1 1\n",
                   "x.topo: not a fat tree: 1 devices for arity 2, levels 1");
    expect_refusal(
        "node a device\nroutes cluster 1 1 1 1\n",
        "x.topo: not a cluster of equal hosts: a count of the plan is out of range (at 1)");
    expect_refusal("node a device\nnode b device\ndims 2\nroutes grid\n",
                   "x.topo: not a grid: no link between 'a' and 'b' on axis 0");
    expect_refusal("node \x01 device\n", "x.topo: line 1: a byte 0x01 that is no text");
}

static void check_same(const struct tutti_topo *a, const struct tutti_topo *b)
{
    CHECK_TEXT(a->name, b->name);
    CHECK_TEXT(a->source, b->source);
    CHECK_INT(a->node_count, b->node_count);
    CHECK_INT(a->host_count, b->host_count);
    REQUIRE(a->link_count == b->link_count && a->rank_count == b->rank_count);
    for (uint32_t v = 0; v < a->node_count; v++) {
        CHECK_TEXT(tutti_topo_node_name(a, v, (char[TUTTI_NODE_NAME_BYTES]){0}),
                   tutti_topo_node_name(b, v, (char[TUTTI_NODE_NAME_BYTES]){0}));
        CHECK_INT(tutti_topo_node(a, v).rank, tutti_topo_node(b, v).rank);
        CHECK_INT(tutti_topo_node(a, v).host, tutti_topo_node(b, v).host);
        CHECK_INT(tutti_topo_node(a, v).mem_bytes_per_s, tutti_topo_node(b, v).mem_bytes_per_s);
    }
    for (uint32_t l = 0; l < a->link_count; l++) {
        struct tutti_link one = tutti_topo_link(a, l);
        struct tutti_link other = tutti_topo_link(b, l);

        CHECK(memcmp(&one, &other, sizeof(one)) == 0);
    }
    for (uint32_t i = 0; i < a->rank_count * a->rank_count; i++) {
        uint32_t one[64];
        uint32_t two[64];
        uint32_t count = tutti_topo_route(a, i / a->rank_count, i % a->rank_count, one, 64);

        CHECK_INT(tutti_topo_route(b, i / a->rank_count, i % a->rank_count, two, 64), count);
        CHECK(memcmp(one, two, (count < 64 ? count : 64) * sizeof(one[0])) == 0);
    }
}

/* Machines, routes included, survive being written and read. */
TEST(every_preset_is_read_back)
{
    size_t count;
    const struct tutti_preset *presets = tutti_presets(&count);

    for (size_t i = 0; i < count; i++) {
        struct tutti_topo *topo = NULL;
        struct tutti_topo *back = NULL;
        struct tutti_err err = {""};
        char *text = NULL;

        CHECK_OK(tutti_topo_from_spec(presets[i].name, &topo, &err), err);
        REQUIRE(topo != NULL);
        if (topo->rank_count <= 512) {
            CHECK_OK(tutti_topo_print(topo, &text, &err), err);
            CHECK_OK(parse(text, &back, &err), err);
            REQUIRE(back != NULL);
            check_same(topo, back);
        }
        free(text);
        tutti_topo_free(topo);
        tutti_topo_free(back);
    }
}

/* A good text with bytes changed is read or refused, and never worse. */
TEST(damaged_text_is_refused_or_read)
{
    struct tutti_topo *topo = NULL;
    struct tutti_random random;
    struct tutti_err err = {""};
    char *text = NULL;
    size_t bytes;

    CHECK_OK(tutti_topo_from_spec("rail:nodes=2,gpus=2", &topo, &err), err);
    CHECK_OK(tutti_topo_print(topo, &text, &err), err);
    tutti_topo_free(topo);
    REQUIRE(text != NULL);
    bytes = strlen(text);
    tutti_random_seed(&random, test_seed);
    for (int i = 0; i < (test_full ? 200000 : 3000); i++) {
        char *copy = strdup(text);
        size_t length = 1 + (size_t)tutti_random_below(&random, bytes);

        REQUIRE(copy != NULL);
        for (uint64_t k = tutti_random_below(&random, 4); k > 0; k--)
            copy[tutti_random_below(&random, length)] =
                (char)" \n0123456789abgrxz=#."[tutti_random_below(&random, 21)];
        topo = NULL;
        err.text[0] = '\0';
        if (tutti_topo_parse("x.topo", copy, length, &topo, &err) < 0) {
            CHECK(topo == NULL);
            CHECK(strncmp(err.text, "x.topo: ", 8) == 0);
        }
        tutti_topo_free(topo);
        free(copy);
    }
    free(text);
}
