/* Tests of copies: one host many times, joined by a network. */
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "tests/machines.h"
#include "tests/test.h"
#include "topo/topo.h"

TEST(copies_are_joined_nic_by_nic)
{
    struct tutti_topo *host = read_machine("topology box\nsource a test\n"
                                           "node gpu0 device host=0 flops=1T\n"
                                           "node gpu1 device host=0\n"
                                           "node sw switch host=0\n"
                                           "node nic0 nic host=0\nnode nic1 nic host=0\n"
                                           "cable gpu0 sw pcie 20GB/s 1us\n"
                                           "cable gpu1 sw pcie 20GB/s 1us\n"
                                           "cable sw nic0 pcie 20GB/s 1us\n"
                                           "cable sw nic1 net 10GB/s 1us\n");
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    uint64_t bisection = 0;
    uint64_t net = 0;
    char *text = NULL;

    CHECK_OK(tutti_topo_replicate(host, 3, 500 * TUTTI_PS_PER_NS, &topo, &err), err);
    REQUIRE(topo != NULL);
    CHECK_TEXT(topo->name, "box x 3");
    CHECK_TEXT(topo->source, "a test; network between hosts assumed non-blocking");
    CHECK_INT(topo->rank_count, 6);
    CHECK_INT(topo->host_count, 3);
    CHECK_INT(topo->node_count, 3 * 5 + 2 + 1);
    CHECK_INT(tutti_topo_node(topo, tutti_topo_rank_node(topo, 4)).flops_per_s,
              UINT64_C(1000000000000));
    CHECK_INT(topo->shape.level[0], 2);
    CHECK_INT(topo->shape.level[1], 3);
    for (uint32_t l = 0; l < topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(topo, l);

        if (tutti_topo_node(topo, link.from).host == 0 &&
            tutti_topo_node(topo, link.to).host == UINT32_MAX)
            net += link.bytes_per_s;
    }
    CHECK_INT(net, 30 * GIGA); /* 20 of the one by its widest link, 10 of the other by its port */
    CHECK_OK(tutti_topo_bisection(topo, &bisection, &err), err);
    CHECK_OK(tutti_topo_print(topo, &text, &err), err);
    free(text);
    tutti_topo_free(topo);
    CHECK_OK(tutti_topo_replicate(host, 1, 0, &topo, &err), err);
    CHECK_TEXT(topo->name, "box");
    CHECK_INT(topo->node_count, host->node_count);
    tutti_topo_free(topo);
    tutti_topo_free(host);
}

TEST(a_host_without_nics_is_joined_by_its_first_device)
{
    struct tutti_topo *host = machine("mi300x");
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_replicate(host, 2, TUTTI_PS_PER_US, &topo, &err), err);
    REQUIRE(topo != NULL);
    CHECK_INT(topo->rank_count, 16);
    CHECK_INT(topo->node_count, 17);
    CHECK(tutti_topo_route(topo, 3, 12, NULL, 0) == 4);
    CHECK_INT(bound_of(topo, TUTTI_ALLREDUCE, GIGA).bandwidth_ps, UINT64_C(1000000000000) / 64);
    tutti_topo_free(topo);
    tutti_topo_free(host);
}

TEST(what_cannot_be_copied_is_refused)
{
    struct tutti_topo *one = machine("dgx-a100");
    struct tutti_topo *two = machine("dgx-a100:nodes=2");
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_topo_replicate(two, 2, 0, &topo, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "'dgx-a100:nodes=2' has 2 hosts already (only a machine of one host can "
                         "be copied)");
    CHECK_INT(tutti_topo_replicate(one, 0, 0, &topo, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_topo_replicate(one, 2, -1, &topo, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_topo_replicate(one, UINT32_MAX, 0, &topo, &err), -TUTTI_EINVAL);
    CHECK(topo == NULL);
    tutti_topo_free(one);
    tutti_topo_free(two);
}
