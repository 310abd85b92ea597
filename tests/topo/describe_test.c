/* Tests of what a machine is said to be: kinds counted, rates added up, the farthest pair. */
#include "runtime/status.h"
#include "tests/test.h"
#include "topo/describe.h"

#define GIGA UINT64_C(1000000000)

static struct tutti_topo *described(const char *spec, struct tutti_description *ret)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    if (topo == NULL)
        exit(1);
    CHECK_OK(tutti_topo_describe(topo, ret, &err), err);
    return topo;
}

TEST(a_cluster_is_counted_by_kinds)
{
    struct tutti_description d;
    struct tutti_topo *topo = described("dgx-h100:nodes=4", &d);

    CHECK_INT(d.node_kind_count[TUTTI_NODE_DEVICE], 32);
    CHECK_INT(d.node_kind_count[TUTTI_NODE_NIC], 32);
    CHECK_INT(d.node_kind_count[TUTTI_NODE_SWITCH], 4 + 8 + 4);
    CHECK_INT(d.node_group_count, 4); /* the NVSwitches reduce, leaves and spines do not */
    CHECK(tutti_topo_node(topo, d.node_groups[1].first).reduces);
    CHECK_INT(d.node_groups[1].count, 4);
    CHECK_INT(d.link_group_count, 7);
    CHECK_INT(d.link_groups[0].count, 32);
    CHECK_INT(tutti_topo_link(topo, d.link_groups[0].first).bytes_per_s, 450 * GIGA);
    CHECK_INT(d.node_more + d.link_more, 0);
    CHECK_INT(d.bisection_bytes_per_s, 800 * GIGA);
    CHECK_INT(d.host_out_min, 400 * GIGA);
    CHECK_INT(d.host_out_max, 400 * GIGA);
    CHECK_INT(d.host_ranks_min, 8);
    CHECK_INT(d.host_ranks_max, 8);
    CHECK_INT(d.far_ps, 2 * (250 + 500 + 150) * TUTTI_PS_PER_NS); /* other rail, over a spine */
    tutti_topo_free(topo);
}

TEST(corners_of_a_mesh_are_the_poorest)
{
    struct tutti_description d;
    struct tutti_topo *topo = described("mesh:4x3,bw=10GB/s,lat=1us", &d);

    CHECK_INT(d.rank_out_min, 20 * GIGA);
    CHECK_INT(d.rank_out_max, 40 * GIGA);
    CHECK_INT(d.host_out_max, 0);
    CHECK_INT(d.host_ranks_max, 0);
    CHECK_INT(d.far_ps, 5 * TUTTI_PS_PER_US);
    CHECK_INT(d.far_from, 0);
    CHECK_INT(d.far_to, 11);
    tutti_topo_free(topo);
}

TEST(one_device_has_nothing_to_send)
{
    struct tutti_description d;
    struct tutti_topo *topo = described("ring:n=1", &d);

    CHECK_INT(d.link_group_count, 0);
    CHECK_INT(d.rank_out_max, 0);
    CHECK_INT(d.bisection_bytes_per_s, 0);
    CHECK_INT(d.far_ps, 0);
    tutti_topo_free(topo);
}

/* More kinds of links than there is room for are counted, not lost. */
TEST(what_does_not_fit_is_counted)
{
    enum { DEVICES = 100 };
    static char text[DEVICES * 128];
    size_t used = 0;
    struct tutti_topo *topo = NULL;
    struct tutti_description d;
    struct tutti_err err = {""};

    for (int i = 0; i < DEVICES; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "node d%d device flops=%dT\n", i,
                                 i + 1);
    for (int i = 0; i + 1 < DEVICES; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used,
                                 "cable d%d d%d generic %dGB/s 1us\n", i, i + 1, i + 1);
    CHECK_OK(tutti_topo_parse("test", text, used, &topo, &err), err);
    REQUIRE(topo != NULL);
    CHECK_OK(tutti_topo_describe(topo, &d, &err), err);
    CHECK_INT(d.node_group_count, TUTTI_NODE_GROUPS_MAX);
    CHECK_INT(d.node_more, DEVICES - TUTTI_NODE_GROUPS_MAX);
    CHECK_INT(d.link_group_count, TUTTI_LINK_GROUPS_MAX);
    CHECK_INT(d.link_more, 2 * (DEVICES - 1 - TUTTI_LINK_GROUPS_MAX));
    CHECK_INT(d.rank_out_min, GIGA);
    tutti_topo_free(topo);
}
