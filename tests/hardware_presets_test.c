/* The hardware that presets have: as real machines do, and as their own nodes and links say. */
#include "runtime/status.h"
#include "tests/nccl_xml.h"
#include "tests/test.h"
#include "topo/hardware.h"
#include "topo/topo.h"

/* Alike in all but bus ids, device ids, guids and the order of functions under one switch. */
static void check_alike(const struct tutti_hardware *a, const struct tutti_hardware *b)
{
    REQUIRE(a != NULL && b != NULL);
    CHECK_INT(a->cpu_count, b->cpu_count);
    CHECK_INT(a->pci_count, b->pci_count);
    CHECK_INT(a->gpu_count, b->gpu_count);
    CHECK_INT(a->nvlink_count, b->nvlink_count);
    CHECK_INT(a->net_count, b->net_count);
    CHECK_INT(a->c2c_count + b->c2c_count + a->rack + b->rack, 0);
    for (uint32_t c = 0; c < a->cpu_count; c++)
        CHECK(a->cpus[c].numa == b->cpus[c].numa && a->cpus[c].arch == b->cpus[c].arch &&
              a->cpus[c].vendor == b->cpus[c].vendor && a->cpus[c].family == b->cpus[c].family &&
              a->cpus[c].model == b->cpus[c].model);
    for (uint32_t p = 0; p < a->pci_count; p++) {
        CHECK_INT(a->pcis[p].parent, b->pcis[p].parent);
        CHECK_INT(a->pcis[p].cpu, b->pcis[p].cpu);
        CHECK_INT(a->pcis[p].lane_mbit_per_s, b->pcis[p].lane_mbit_per_s);
        CHECK_INT(a->pcis[p].lane_count, b->pcis[p].lane_count);
    }
    for (uint32_t g = 0; g < a->gpu_count; g++) {
        CHECK_INT(a->pcis[a->gpus[g].pci].parent, b->pcis[b->gpus[g].pci].parent);
        CHECK_INT(a->gpus[g].rank, b->gpus[g].rank);
        CHECK_INT(a->gpus[g].sm, b->gpus[g].sm);
        CHECK_INT(a->gpus[g].gdr, b->gpus[g].gdr);
    }
    for (uint32_t n = 0; n < a->net_count; n++) {
        CHECK_INT(a->pcis[a->nets[n].pci].parent, b->pcis[b->nets[n].pci].parent);
        CHECK_INT(a->nets[n].dev, b->nets[n].dev);
        CHECK_INT(a->nets[n].mbit_per_s, b->nets[n].mbit_per_s);
        CHECK_INT(a->nets[n].gdr, b->nets[n].gdr);
    }
}

static struct tutti_topo *preset(const char *spec)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    return topo;
}

TEST(presets_have_the_hardware_of_the_machines_of_nccls_test_vectors)
{
    static const char *const pairs[][2] = {{"dgx-a100", "dgxa100.xml"},
                                           {"dgx-h100:nodes=64", "h100x8.xml"},
                                           {"hgx-b200:nodes=2", "b200x8.xml"},
                                           {"dgx-1v", "dgx1v.xml"}};

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]) && tutti_nccl_xml_available(); i++) {
        struct tutti_topo *a = preset(pairs[i][0]);
        struct tutti_topo *b = fixture(pairs[i][1]);

        REQUIRE(a != NULL && b != NULL);
        printf("%s\n", pairs[i][0]);
        check_alike(a->hardware, b->hardware);
        tutti_topo_free(a);
        tutti_topo_free(b);
    }
    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
}

/* A GPU's NVLinks of the hardware are the cables of the nodes and links; ports are the NICs. */
static void check_agrees(const char *spec)
{
    struct tutti_topo *topo = preset(spec);
    const struct tutti_hardware *hw;
    uint32_t hosts;

    REQUIRE(topo != NULL);
    hw = topo->hardware;
    REQUIRE(hw != NULL);
    hosts = topo->rank_count / hw->gpu_count;
    CHECK_INT(hosts * hw->gpu_count, topo->rank_count);
    for (uint32_t g = 0; g < hw->gpu_count; g++) {
        uint32_t v = tutti_topo_rank_node(topo, g);
        uint32_t cables = 0;

        for (uint32_t k = 0; k < tutti_topo_out_count(topo, v); k++) {
            struct tutti_link link = tutti_topo_link(topo, tutti_topo_out_link(topo, v, k));

            if (link.kind == TUTTI_LINK_NVLINK || link.kind == TUTTI_LINK_XGMI)
                cables += link.cable_count;
        }
        for (uint32_t l = 0; l < hw->nvlink_count; l++)
            if (hw->nvlinks[l].gpu == g)
                cables -= hw->nvlinks[l].count;
        CHECK_INT(cables, 0);
    }
    for (uint32_t v = 0, nics = 0; topo->host_count > 1 && v < topo->node_count; v++) {
        struct tutti_node node = tutti_topo_node(topo, v);
        uint64_t rate = 0;

        if (node.kind != TUTTI_NODE_NIC || node.host != 0)
            continue;
        for (uint32_t k = 0; k < tutti_topo_out_count(topo, v); k++)
            if (tutti_topo_link(topo, tutti_topo_out_link(topo, v, k)).kind == TUTTI_LINK_NET)
                rate = tutti_topo_link(topo, tutti_topo_out_link(topo, v, k)).bytes_per_s;
        CHECK_INT(rate, (uint64_t)hw->nets[nics % hw->net_count].mbit_per_s * 125000);
        nics++;
        if (v + 1 == topo->node_count || tutti_topo_node(topo, v + 1).host != 0)
            CHECK_INT(nics, hw->net_count * (hw->rack == 0 ? 1 : hw->rack));
    }
    tutti_topo_free(topo);
}

TEST(ports_and_links_of_presets_agree_with_their_nodes_and_links)
{
    static const char *const specs[] = {
        "dgx-1p:nodes=2",
        "dgx-1v:nodes=3,gpus=3",
        "dgx-2:nodes=2",
        "dgx-2:nodes=2,gpus=11,nicbw=25GB/s",
        "dgx-a100:nodes=2,gpus=5",
        "dgx-h100:nodes=2,nicbw=100GB/s",
        "hgx-h200:nodes=2,gpus=1",
        "hgx-b200:nodes=2",
        "gb200-nvl72",
        "gb200-nvl72:racks=2",
        "gb200-nvl72:racks=2,gpus=16",
        "gb200-nvl72:racks=3,gpus=2",
        "mi300x:nodes=2",
        "mi300x:nodes=2,gpus=3",
        "pcie:nodes=2,gpus=6,nics=3,switches=2,gen=5",
        "pcie:nodes=2,gpus=2,nics=1,switches=0,sockets=1,gpu=l40s",
    };

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        printf("%s\n", specs[i]);
        check_agrees(specs[i]);
    }
}

TEST(the_kind_of_network_and_gdr_are_kept)
{
    struct tutti_topo *topo = preset("dgx-h100:nodes=2");
    struct tutti_topo *again = NULL;
    struct tutti_err err = {""};
    char *text = NULL;

    REQUIRE(topo != NULL);
    CHECK_INT(topo->net_kind, TUTTI_NET_IB);
    CHECK(topo->hardware->gpus[0].gdr && topo->hardware->nets[7].gdr);
    tutti_topo_free(topo);
    topo = preset("dgx-h100:nodes=2,net=roce,gdr=no");
    REQUIRE(topo != NULL);
    CHECK_INT(topo->net_kind, TUTTI_NET_ROCE);
    CHECK(!topo->hardware->gpus[0].gdr && !topo->hardware->nets[7].gdr);
    CHECK_OK(tutti_topo_print(topo, &text, &err), err);
    CHECK(strstr(text, "\nnet roce\n") != NULL);
    CHECK_OK(tutti_topo_parse("x", text, strlen(text), &again, &err), err);
    REQUIRE(again != NULL);
    CHECK_INT(again->net_kind, TUTTI_NET_ROCE);
    free(text);
    tutti_topo_free(again);
    tutti_topo_free(topo);
    topo = preset("rail:net=tcp");
    CHECK_INT(topo->net_kind, TUTTI_NET_TCP);
    tutti_topo_free(topo);
    topo = preset("dgx-h100:net=tcp");
    CHECK(!topo->hardware->gpus[0].gdr); /* sockets go through the host */
    CHECK_OK(tutti_topo_replicate(topo, 3, 1000, &again, &err), err);
    CHECK_INT(again->net_kind, TUTTI_NET_TCP);
    CHECK_INT(again->hardware->net_count, 8);
    tutti_topo_free(again);
    tutti_topo_free(topo);
    CHECK_INT(tutti_topo_from_spec("dgx-h100:net=myrinet", &topo, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "preset 'dgx-h100': key 'net': unknown 'myrinet' (ib, roce, efa, "
                         "slingshot, tcp)");
    CHECK_INT(tutti_topo_from_spec("dgx-h100:gpus=9", &topo, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_topo_from_spec("dgx-h100:gpus=auto", &topo, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_topo_from_spec("dgx-h100:nodes=auto", &topo, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_topo_from_spec("gb200-nvl72:gpus=6", &topo, &err), -TUTTI_EINVAL);
}
