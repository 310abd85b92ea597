/* Tests of routes: stories of single routes, and properties that hold for every machine. */
#include <stdlib.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/machines.h"
#include "tests/test.h"
#include "topo/graph/routes.h"
#include "topo/topo.h"

enum { TEXT_BYTES = 4096, HOPS_MAX = 1024 };

/* "dev0 dev1 dev2": the nodes along a route. */
static const char *way(const struct tutti_topo *topo, uint32_t from, uint32_t to, char *buf)
{
    uint32_t links[HOPS_MAX];
    uint32_t count = tutti_topo_route(topo, from, to, links, HOPS_MAX);
    char name[TUTTI_NODE_NAME_BYTES];
    int used = snprintf(buf, TEXT_BYTES, "%s",
                        tutti_topo_node_name(topo, tutti_topo_rank_node(topo, from), name));

    for (uint32_t k = 0; k < count && used < TEXT_BYTES; k++)
        used += snprintf(buf + used, (size_t)(TEXT_BYTES - used), " %s",
                         tutti_topo_node_name(topo, tutti_topo_link(topo, links[k]).to, name));
    return buf;
}

static void expect_way(const char *spec, uint32_t from, uint32_t to, const char *expected)
{
    struct tutti_topo *topo = machine(spec);
    char buf[TEXT_BYTES];

    REQUIRE(topo != NULL);
    CHECK_TEXT(way(topo, from, to, buf), expected);
    tutti_topo_free(topo);
}

TEST(a_ring_goes_the_shorter_way_and_up_when_both_are_equal)
{
    expect_way("ring:n=8", 0, 2, "dev0 dev1 dev2");
    expect_way("ring:n=8", 0, 6, "dev0 dev7 dev6");
    expect_way("ring:n=8", 6, 2, "dev6 dev7 dev0 dev1 dev2");
    expect_way("ring:n=2", 1, 0, "dev1 dev0");
}

TEST(a_torus_goes_axis_by_axis)
{
    expect_way("torus:4x4", 0, 11, "dev0 dev3 dev7 dev11");
    expect_way("mesh:4x4", 0, 11, "dev0 dev1 dev2 dev3 dev7 dev11");
    expect_way("torus:2x3x4", 0, 23, "dev0 dev1 dev5 dev23");
}

TEST(a_switch_is_two_links_away)
{
    expect_way("switch:n=4", 3, 1, "dev3 switch dev1");
    expect_way("full:n=4", 3, 1, "dev3 dev1");
}

TEST(a_fat_tree_spreads_destinations_over_its_spines)
{
    expect_way("fattree:arity=4,levels=2", 0, 3, "dev0 leaf0 dev3");
    expect_way("fattree:arity=4,levels=2", 0, 5, "dev0 leaf0 spine1 leaf1 dev5");
    expect_way("fattree:arity=4,levels=2", 1, 6, "dev1 leaf0 spine2 leaf1 dev6");
    expect_way("fattree:arity=4,levels=2,over=4", 1, 6, "dev1 leaf0 spine0 leaf1 dev6");
    expect_way("fattree:arity=2,levels=3", 0, 7, "dev0 leaf0 spine1 core3 spine3 leaf3 dev7");
}

TEST(a_rail_cluster_stays_on_its_rail)
{
    const char *spec = "rail:nodes=4,gpus=2,group=2";

    expect_way(spec, 0, 1, "gpu0.0 nvswitch0 gpu0.1");
    expect_way(spec, 1, 3, "gpu0.1 nic0.1 leaf1.0 nic1.1 gpu1.1");
    expect_way(spec, 0, 3, "gpu0.0 nic0.0 leaf0.0 spine1 leaf1.0 nic1.1 gpu1.1");
    expect_way(spec, 0, 4, "gpu0.0 nic0.0 leaf0.0 spine0 leaf0.1 nic2.0 gpu2.0");
    expect_way("rail:nodes=2,gpus=4,nics=2", 3, 5,
               "gpu0.3 nic0.1 leaf1.0 spine1 leaf0.0 nic1.0 "
               "gpu1.1");
}

/* As NCCL has them: devices that are as near to one as to another go round by their number on the
 * host, though one of the NICs may be nearer to another device. */
TEST(of_nics_alike_a_device_takes_that_of_its_number)
{
    const char *four = "host:gpu=a100,gpus=4,sockets=4,nics=2,net=slingshot,nodes=2";

    expect_way(four, 0, 4, "gpu0.0 cpu0.0 nic0.0 leaf0.0 nic1.0 cpu1.0 gpu1.0");
    expect_way(four, 2, 6, "gpu0.2 cpu0.2 nic0.1 leaf1.0 nic1.1 cpu1.2 gpu1.2");
    expect_way(four, 1, 5, "gpu0.1 cpu0.1 cpu0.2 nic0.1 leaf1.0 nic1.1 cpu1.2 cpu1.1 gpu1.1");
    expect_way(four, 3, 7, "gpu0.3 cpu0.3 cpu0.2 nic0.1 leaf1.0 nic1.1 cpu1.2 cpu1.3 gpu1.3");
    expect_way("host:gpu=a100,gpus=4,sockets=1,nics=4,nicat=cpu,nodes=2", 1, 6,
               "gpu0.1 cpu0.0 nic0.2 leaf2.0 spine1 leaf1.0 nic1.1 cpu1.0 gpu1.2");
}

/* NCCL's PXN: over NVLink and the neighbour beside the NIC rather than through the CPU; what
 * arrives comes in by the CPU's way, as rings begin at GPUs beside NICs and need none of it. */
TEST(a_device_behind_a_cpu_leaves_by_the_neighbour_beside_the_nic)
{
    const char *half = "host:gpu=h100,gpus=8,switches=8,nics=4,nodes=2";

    expect_way(half, 0, 8, "gpu0.0 pcie0.0 nic0.0 leaf0.0 nic1.0 pcie1.0 gpu1.0");
    expect_way(half, 1, 8, "gpu0.1 nvswitch0 gpu0.0 pcie0.0 nic0.0 leaf0.0 nic1.0 pcie1.0 gpu1.0");
    expect_way(half, 3, 10, "gpu0.3 nvswitch0 gpu0.2 pcie0.2 nic0.1 leaf1.0 nic1.1 pcie1.2 gpu1.2");
    expect_way(half, 0, 9, "gpu0.0 pcie0.0 nic0.0 leaf0.0 nic1.0 pcie1.0 cpu1.0 pcie1.1 gpu1.1");
    /* no NVLink, no neighbour */
    expect_way("host:gpu=l40s,gpus=4,switches=4,nics=2,sockets=1,nodes=2", 1, 4,
               "gpu0.1 pcie0.1 cpu0.0 pcie0.2 nic0.1 leaf1.0 spine1 leaf0.0 nic1.0 "
               "pcie1.0 gpu1.0");
}

/* The same graph without its rule, so that routes are searched. */
static struct tutti_topo *searched(const struct tutti_topo *topo)
{
    struct tutti_topo_builder *builder = NULL;
    struct tutti_topo *copy = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_builder_new("copy", NULL, &builder, &err), err);
    for (uint32_t v = 0; v < topo->node_count; v++) {
        struct tutti_node node = tutti_topo_node(topo, v);
        char name[TUTTI_NODE_NAME_BYTES];

        node.name = tutti_topo_node_name(topo, v, name);
        CHECK_OK(tutti_topo_add_node(builder, &node, NULL, &err), err);
    }
    for (uint32_t l = 0; l < topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(topo, l);

        CHECK_OK(tutti_topo_add_link(builder, &link, &err), err);
    }
    CHECK_OK(tutti_topo_freeze(builder, &copy, &err), err);
    return copy;
}

/* Starts at `from`, ends at `to`, link by link, through no device that is not a relay. */
static void check_route(const struct tutti_topo *topo, uint32_t from, uint32_t to)
{
    uint32_t links[HOPS_MAX];
    uint32_t count = tutti_topo_route(topo, from, to, links, HOPS_MAX);
    uint32_t here = tutti_topo_rank_node(topo, from);

    CHECK(count <= topo->node_count);
    for (uint32_t k = 0; k < count; k++) {
        REQUIRE(links[k] < topo->link_count);
        CHECK_INT(tutti_topo_link(topo, links[k]).from, here);
        here = tutti_topo_link(topo, links[k]).to;
    }
    CHECK_INT(here, tutti_topo_rank_node(topo, to));
    CHECK_INT(tutti_topo_route(topo, from, to, NULL, 0), count);
}

TEST(rules_of_presets_are_as_short_as_a_search)
{
    static const char *const specs[] = {
        "ring:n=1",
        "ring:n=2",
        "ring:n=3",
        "ring:n=9",
        "mesh:3x5",
        "mesh:1x4x2",
        "torus:4x4x4",
        "torus:5x2x3",
        "torus:2x2x2x2",
        "switch:n=1",
        "switch:n=9",
        "full:n=7",
        "fattree:arity=3,levels=3",
        "fattree:arity=4,levels=2,over=2",
        "fattree:arity=2,levels=5",
        "rail:nodes=1,gpus=4",
        "rail:nodes=5,gpus=4,group=2",
        "rail:nodes=3,gpus=4,nics=2",
        "rail:nodes=6,gpus=2,nics=1,group=4,spines=3",
    };

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct tutti_topo *topo = machine(specs[i]);
        struct tutti_topo *plain = topo != NULL ? searched(topo) : NULL;

        REQUIRE(plain != NULL);
        for (uint32_t a = 0; a < topo->rank_count; a++) {
            for (uint32_t b = 0; b < topo->rank_count; b++) {
                check_route(topo, a, b);
                check_route(plain, a, b);
                if (tutti_topo_route(topo, a, b, NULL, 0) != tutti_topo_route(plain, a, b, NULL, 0))
                    TEST_FAIL("%s: %u to %u is no shortest route", specs[i], a, b);
            }
        }
        tutti_topo_free(topo);
        tutti_topo_free(plain);
    }
}

/* n x n x 2n with both first axes twisted by n along the third: TPU v4's 4x4x8. */
static struct tutti_topo *twisted(uint32_t n)
{
    struct tutti_routes routes = {.kind = TUTTI_ROUTES_GRID, .args = {0, n, n}};
    struct tutti_shape shape = {.rank_count = 2 * n * n * n, .dim_count = 3};
    struct tutti_topo_builder *builder = NULL;
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_builder_new("twisted", NULL, &builder, &err), err);
    for (uint32_t d = 0; d < 3; d++) {
        shape.dim[d] = d == 2 ? 2 * n : n;
        shape.wrap[d] = true;
    }
    for (uint32_t r = 0; r < shape.rank_count; r++) {
        char name[32];
        struct tutti_node node = {.name = name, .rank = r, .host = UINT32_MAX};

        snprintf(name, sizeof(name), "tpu%u", r);
        CHECK_OK(tutti_topo_add_node(builder, &node, NULL, &err), err);
    }
    for (uint32_t r = 0; r < shape.rank_count; r++) {
        uint32_t x = r % n;
        uint32_t y = r / n % n;
        uint32_t z = r / n / n;
        struct tutti_link link = {
            .from = r, .bytes_per_s = 45000000000, .kind = TUTTI_LINK_ICI, .cable_count = 1};
        uint32_t beyond = (z + n) % (2 * n) * n * n;

        link.to = x + 1 < n ? r + 1 : y * n + beyond;
        CHECK_OK(tutti_topo_add_cable(builder, &link, &err), err);
        link.to = y + 1 < n ? r + n : x + beyond;
        CHECK_OK(tutti_topo_add_cable(builder, &link, &err), err);
        link.to = (z + 1) % (2 * n) * n * n + y * n + x;
        CHECK_OK(tutti_topo_add_cable(builder, &link, &err), err);
    }
    CHECK_OK(tutti_topo_set_shape(builder, &shape, &err), err);
    tutti_topo_set_routes(builder, &routes);
    CHECK_OK(tutti_topo_freeze(builder, &topo, &err), err);
    return topo;
}

/* Published for TPU v4's 4x4x8: the twist shortens the diameter from 8 to 6. */
TEST(a_twisted_torus_is_routed_by_one_table)
{
    struct tutti_topo *topo = twisted(4);
    struct tutti_topo *plain = topo != NULL ? searched(topo) : NULL;
    uint32_t longest = 0;

    REQUIRE(plain != NULL);
    for (uint32_t a = 0; a < topo->rank_count; a++) {
        for (uint32_t b = 0; b < topo->rank_count; b++) {
            uint32_t count = tutti_topo_route(topo, a, b, NULL, 0);

            check_route(topo, a, b);
            CHECK_INT(count, tutti_topo_route(plain, a, b, NULL, 0));
            longest = count > longest ? count : longest;
        }
    }
    CHECK_INT(longest, 6);
    tutti_topo_free(topo);
    tutti_topo_free(plain);
}

/* ---- searched routes ------------------------------------------------------------------------ */

static struct tutti_topo_builder *world(const char *const *names, const uint8_t *kinds,
                                        uint32_t count)
{
    struct tutti_topo_builder *builder = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_builder_new("world", NULL, &builder, &err), err);
    for (uint32_t v = 0; v < count; v++) {
        struct tutti_node node = {
            .name = names[v], .kind = kinds[v], .rank = TUTTI_RANK_NONE, .host = UINT32_MAX};
        CHECK_OK(tutti_topo_add_node(builder, &node, NULL, &err), err);
    }
    return builder;
}

static void cable(struct tutti_topo_builder *builder, uint32_t from, uint32_t to, uint8_t kind,
                  uint64_t gigabytes_per_s)
{
    struct tutti_link link = {.from = from,
                              .to = to,
                              .kind = kind,
                              .bytes_per_s = gigabytes_per_s * 1000000000,
                              .latency_ps = 1000,
                              .cable_count = 1};
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_add_cable(builder, &link, &err), err);
}

TEST(devices_pass_on_only_where_there_is_no_other_way)
{
    /* a - b - c over NVLink; a, c and d under one PCIe switch: a to c goes by the switch, but b,
     * which has no PCIe, can only be reached over NVLink. */
    static const char *const names[] = {"a", "b", "c", "d", "plx"};
    static const uint8_t kinds[] = {TUTTI_NODE_DEVICE, TUTTI_NODE_DEVICE, TUTTI_NODE_DEVICE,
                                    TUTTI_NODE_DEVICE, TUTTI_NODE_SWITCH};
    struct tutti_topo_builder *builder = world(names, kinds, 5);
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    char buf[TEXT_BYTES];

    cable(builder, 0, 1, TUTTI_LINK_NVLINK, 50);
    cable(builder, 1, 2, TUTTI_LINK_NVLINK, 50);
    cable(builder, 0, 4, TUTTI_LINK_PCIE, 12);
    cable(builder, 2, 4, TUTTI_LINK_PCIE, 12);
    CHECK_INT(tutti_topo_freeze(builder, &topo, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text,
               "no route from 'd' to 'a' (devices pass on only over nvlink, xgmi, ici and "
               "generic links)");
    builder = world(names, kinds, 5);
    cable(builder, 0, 1, TUTTI_LINK_NVLINK, 50);
    cable(builder, 1, 2, TUTTI_LINK_NVLINK, 50);
    cable(builder, 0, 4, TUTTI_LINK_NVLINK, 12);
    cable(builder, 2, 4, TUTTI_LINK_PCIE, 12);
    cable(builder, 3, 4, TUTTI_LINK_PCIE, 12);
    CHECK_OK(tutti_topo_freeze(builder, &topo, &err), err);
    REQUIRE(topo != NULL);
    CHECK_TEXT(way(topo, 0, 2, buf), "a plx c");
    CHECK_TEXT(way(topo, 3, 1, buf), "d plx a b"); /* not by c: its switch link is PCIe */
    tutti_topo_free(topo);
}

TEST(the_wider_of_two_short_ways_is_taken)
{
    static const char *const names[] = {"a", "b", "narrow", "wide", "wide_too"};
    static const uint8_t kinds[] = {TUTTI_NODE_DEVICE, TUTTI_NODE_DEVICE, TUTTI_NODE_SWITCH,
                                    TUTTI_NODE_SWITCH, TUTTI_NODE_SWITCH};
    struct tutti_topo_builder *builder = world(names, kinds, 5);
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    char buf[TEXT_BYTES];

    for (uint32_t s = 2; s < 5; s++) {
        cable(builder, 0, s, TUTTI_LINK_NET, 100);
        cable(builder, 1, s, TUTTI_LINK_NET, s == 2 ? 10 : 20);
    }
    CHECK_OK(tutti_topo_freeze(builder, &topo, &err), err);
    REQUIRE(topo != NULL);
    CHECK_TEXT(way(topo, 0, 1, buf), "a wide b");
    tutti_topo_free(topo);
}
