/* Tests of machines: what a SPEC says, what a builder refuses, what freezing makes of links. */
#include "runtime/status.h"
#include "tests/test.h"
#include "topo/topo.h"

static void expect_refusal(const char *spec, const char *message)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_topo_from_spec(spec, &topo, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, message);
    CHECK(topo == NULL);
}

TEST(a_wrong_spec_is_refused_with_what_would_be_accepted)
{
    expect_refusal("rign", "unknown preset 'rign' (did you mean 'ring'?)");
    expect_refusal("ring:bandwith=50GB/s",
                   "unknown key 'bandwith' of preset 'ring' (n=, bw=, lat=, burst=)");
    expect_refusal("ring:n=4,n=5", "key 'n' of preset 'ring' is given twice");
    expect_refusal("torus:4x4,5x5", "grid '5x5' of preset 'torus' is given twice");
    expect_refusal("ring:n=", "key 'n' of preset 'ring' has no value (n=8)");
    expect_refusal("ring:n", "key 'n' of preset 'ring' has no value (n=8)");
    expect_refusal("ring:", "empty item in the SPEC of preset 'ring'");
    expect_refusal("ring:n=4,", "empty item in the SPEC of preset 'ring'");
    expect_refusal("ring:n=0", "preset 'ring': key 'n': out of range '0' (1 to 16777216)");
    expect_refusal("ring:bw=50", "preset 'ring': key 'bw': not a rate '50' (a unit is needed: "
                                 "50GB/s is bytes, 400Gb/s is bits)");
    expect_refusal("ring:lat=-1us",
                   "preset 'ring': key 'lat': not a time '-1us' (a unit is needed: "
                   "500ns, 1.5us, 2ms, 1s)");
    expect_refusal("ring:4x4", "unknown word '4x4' of preset 'ring' (n=, bw=, lat=, burst=)");
    expect_refusal("torus:4y4",
                   "preset 'torus': not a grid '4y4' (1 to 8 numbers from 1 such as 4x4x8)");
    expect_refusal("torus:0x4",
                   "preset 'torus': not a grid '0x4' (1 to 8 numbers from 1 such as 4x4x8)");
    expect_refusal("torus:4096x4097",
                   "preset 'torus': grid '4096x4097' is too large (at most 16777216 devices)");
    expect_refusal("torus:DIMS=4x4",
                   "unknown key 'DIMS' of preset 'torus' (4x4x4, bw=, lat=, burst=)");
    expect_refusal("switch:reduces=1",
                   "unknown key 'reduces' of preset 'switch' (n=, bw=, lat=, burst=, reduces)");
    expect_refusal("fattree:arity=8,over=3",
                   "preset 'fattree': key 'over': 8 uplinks do not divide "
                   "by 3 (arity times a number)");
    expect_refusal("rail:nodes=16777216,gpus=8", "preset 'rail': 16777216 times 8 devices (at most "
                                                 "16777216)");
}

TEST(every_example_of_the_table_is_a_machine)
{
    size_t count;
    const struct tutti_preset *presets = tutti_presets(&count);

    CHECK(count >= 7);
    for (size_t i = 0; i < count; i++) {
        struct tutti_topo *topo = NULL;
        struct tutti_err err = {""};

        CHECK_OK(tutti_topo_from_spec(presets[i].name, &topo, &err), err);
        if (strcmp(presets[i].name, "host") != 0)
            CHECK_TEXT(topo->source, presets[i].source);
        tutti_topo_free(topo);
        topo = NULL;
        CHECK_OK(tutti_topo_from_spec(presets[i].example, &topo, &err), err);
        REQUIRE(topo != NULL);
        CHECK_TEXT(topo->name, presets[i].example);
        if (strcmp(presets[i].name, "host") == 0)
            CHECK(strstr(topo->source, "NVIDIA A100 data sheet (SXM4 80 GB)") == topo->source);
        if (strstr(presets[i].example, "bw=") != NULL) /* those figures are the user's own */
            CHECK(strncmp(topo->source, "bw", 2) == 0 && strstr(topo->source, "given") != NULL);
        tutti_topo_free(topo);
    }
}

static struct tutti_topo_builder *two_devices(void)
{
    struct tutti_topo_builder *builder = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_builder_new("two", NULL, &builder, &err), err);
    for (int v = 0; v < 2; v++) {
        struct tutti_node node = {
            .name = v == 0 ? "a" : "b", .rank = TUTTI_RANK_NONE, .host = UINT32_MAX};
        CHECK_OK(tutti_topo_add_node(builder, &node, NULL, &err), err);
    }
    return builder;
}

TEST(cables_between_the_same_two_nodes_add_up)
{
    struct tutti_topo_builder *builder = two_devices();
    struct tutti_link link = {.from = 0, .to = 1, .bytes_per_s = 25, .latency_ps = 3};
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_add_cable(builder, &link, &err), err);
    link.cable_count = 2;
    link.kind = TUTTI_LINK_PCIE;
    CHECK_OK(tutti_topo_add_link(builder, &link, &err), err);
    link.kind = TUTTI_LINK_GENERIC;
    link.latency_ps = 5;
    CHECK_OK(tutti_topo_add_cable(builder, &link, &err), err);
    CHECK_OK(tutti_topo_freeze(builder, &topo, &err), err);
    REQUIRE(topo != NULL);
    CHECK_INT(topo->link_count, 3);
    /* In the place of the first of them, whatever came in between. */
    CHECK_INT(tutti_topo_link(topo, 0).kind, TUTTI_LINK_GENERIC);
    CHECK_INT(tutti_topo_link(topo, 1).from, 1);
    CHECK_INT(tutti_topo_link(topo, 1).bytes_per_s, 50);
    CHECK_INT(tutti_topo_link(topo, 0).bytes_per_s, 50);
    CHECK_INT(tutti_topo_link(topo, 0).cable_count, 3);
    CHECK_INT(tutti_topo_link(topo, 0).latency_ps, 5);
    CHECK_INT(tutti_topo_link(topo, 2).kind, TUTTI_LINK_PCIE);
    CHECK_INT(tutti_topo_out_count(topo, 0), 2);
    CHECK_INT(tutti_topo_out_link(topo, 0, 1), 2);
    tutti_topo_free(topo);
}

TEST(a_bad_link_is_refused_at_once)
{
    struct tutti_topo_builder *builder = two_devices();
    struct tutti_link link = {.from = 0, .to = 0, .bytes_per_s = 25};
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_topo_add_link(builder, &link, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "link from 'a' to itself");
    link.to = 2;
    CHECK_INT(tutti_topo_add_link(builder, &link, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "link from node 0 to node 2 (there are 2 nodes)");
    link.to = 1;
    link.bytes_per_s = 0;
    CHECK_INT(tutti_topo_add_link(builder, &link, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "link from 'a' to 'b' has no rate (more than 0)");
    link.bytes_per_s = 1;
    CHECK_OK(tutti_topo_add_link(builder, &link, &err), err);
    CHECK_INT(tutti_topo_freeze(builder, &topo, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text,
               "no route from 'b' to 'a' (devices pass on only over nvlink, xgmi, ici and "
               "generic links)");
    CHECK(topo == NULL);
}

TEST(names_and_ranks_must_be_different)
{
    struct tutti_topo_builder *builder = two_devices();
    struct tutti_node node = {.name = "a", .rank = TUTTI_RANK_NONE, .host = UINT32_MAX};
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_add_node(builder, &node, NULL, &err), err);
    CHECK_INT(tutti_topo_freeze(builder, &topo, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "two nodes are named 'a'");
    builder = two_devices();
    node.name = "c";
    node.rank = 1;
    CHECK_OK(tutti_topo_add_node(builder, &node, NULL, &err), err);
    CHECK_INT(tutti_topo_freeze(builder, &topo, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "device 'a' has no rank (all devices or none)");
    builder = two_devices();
    node.name = "x y";
    CHECK_INT(tutti_topo_add_node(builder, &node, NULL, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "bad node name 'x y' (1 to 63 visible characters, no '#')");
    tutti_topo_builder_free(builder);
}

TEST(hosts_become_levels)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec("rail:nodes=4,gpus=8", &topo, &err), err);
    REQUIRE(topo != NULL);
    CHECK_INT(topo->rank_count, 32);
    CHECK_INT(topo->host_count, 4);
    CHECK_INT(topo->shape.level_count, 2);
    CHECK_INT(topo->shape.level[0], 8);
    CHECK_INT(topo->shape.level[1], 4);
    tutti_topo_free(topo);
}

TEST(a_million_devices_fit)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec(test_full ? "torus:128x128x64" : "torus:32x32x32", &topo, &err),
             err);
    REQUIRE(topo != NULL);
    CHECK_INT(topo->link_count, 6 * topo->rank_count);
    CHECK_INT(tutti_topo_route(topo, 0, topo->rank_count / 2, NULL, 0), test_full ? 32 : 16);
    tutti_topo_free(topo);
}
