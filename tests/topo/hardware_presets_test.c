/* The hardware that presets have: as real machines do, and as their own nodes and links say. */
#include "runtime/status.h"
#include "tests/test.h"
#include "tests/traces/nccl_xml.h"
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
    static const char *const pairs[][2] = {
        {"dgx-a100", "dgxa100.xml"},
        {"dgx-h100:nodes=64", "h100x8.xml"},
        {"hgx-b200:nodes=2", "b200x8.xml"},
        {"dgx-1v", "dgx1v.xml"},
        {"host:gpu=v100", "dgx1v.xml"},
        {"host:gpu=h100,nodes=2", "h100x8.xml"},
        {"host:gpu=a100,gpus=8", "dgxa100.xml"},
        {"host:gpu=a100,gpus=8,switches=8", "a100x8.xml"},
        {"host:gpu=h100,gpus=4,intra=nvswitch,switches=4", "h100x4.xml"},
        {"host:gpu=h100,gpus=2,intra=nvswitch,switches=2", "h100x2.xml"},
        {"host:gpu=l40,gpus=8,nics=2,nic=100Gb/s,nicat=cpu", "l40x8.xml"}};

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
    hosts = tutti_topo_hardware_hosts(topo);
    CHECK_INT(hosts * hw->gpu_count, topo->rank_count);
    CHECK_INT(hosts, topo->host_count * (hw->rack == 0 ? 1 : hw->rack));
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
        "hgx-b300:nodes=2",
        "gb200-nvl72",
        "gb200-nvl72:racks=2",
        "gb200-nvl72:racks=2,gpus=16",
        "gb200-nvl72:racks=3,gpus=2",
        "mi300x:nodes=2",
        "mi300x:nodes=2,gpus=3",
        "pcie:nodes=2,gpus=6,nics=3,switches=2,gen=5",
        "pcie:nodes=2,gpus=2,nics=1,switches=0,sockets=1,gpu=l40s",
        "host:gpu=p100,gpus=8,nodes=2",
        "host:gpu=v100,gpus=4,nodes=2,nics=1",
        "host:gpu=v100,gpus=16,nodes=2",
        "host:gpu=v100,gpus=8,nodes=2",
        "host:gpu=a100,gpus=4,nodes=2,intra=nvlink-mesh,nics=2,nic=200Gb/s,net=slingshot",
        "host:gpu=a100-pcie,gpus=4,intra=nvlink-pairs,nodes=2,nics=4",
        "host:gpu=rtx3090,gpus=8,nodes=4,nic=100Gb/s,cpu=amd,net=roce",
        "host:gpu=h100,nics=32,nic=100Gb/s,net=efa,nodes=2",
        "host:gpu=gh200,gpus=4,nodes=2,nic=200Gb/s,net=slingshot",
        "host:gpu=gb200,gpus=4,trays=8,nodes=2",
        "host:gpu=gb200,gpus=2,nodes=2,intra=pcie,nics=4,net=roce",
        "host:gpu=gb300,gpus=4,trays=2",
        "host:gpu=mi300a,gpus=4",
        "host:gpu=mi325x,nodes=2",
    };

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        printf("%s\n", specs[i]);
        check_agrees(specs[i]);
    }
}

/* What is on the board and not used is gone, but for its ports. */
TEST(a_host_may_use_the_first_gpus_of_its_board)
{
    struct tutti_topo *topo = preset("host:gpu=h100,gpus=2,board=8,nodes=2");
    const struct tutti_hardware *hw;

    REQUIRE(topo != NULL);
    hw = topo->hardware;
    CHECK_INT(topo->rank_count, 4);
    CHECK_INT(hw->gpu_count, 2);
    CHECK_INT(hw->nvlink_count, 2);
    CHECK_INT(hw->net_count, 8);
    CHECK_INT(hw->pci_count, 8 + 8 + 2);
    CHECK_INT(hw->cpu_count, 2);
    tutti_topo_free(topo);
    check_agrees("host:gpu=h100,gpus=2,board=8,nodes=2");
    check_agrees("host:gpu=h100,gpus=1,board=8,nodes=2,nics=1");
}

TEST(gpus_are_known_by_what_drivers_call_them)
{
    static const struct {
        const char *device;
        uint32_t sm;
    } names[] = {
        {"NVIDIA H100 80GB HBM3", 90},
        {"NVIDIA H20-3e", 90},
        {"NVIDIA A100-SXM4-80GB", 80},
        {"NVIDIA GB200", 100},
        {"NVIDIA GB300", 103},
        {"NVIDIA GeForce RTX 2080 Ti", 75},
        {"NVIDIA RTX A6000", 86},
        {"NVIDIA L40S", 89},
        {"Tesla V100-SXM2-32GB", 70},
        {"AMD Instinct MI300X VF", 942},
        {"AMD Instinct MI355X", 950},
        {"NVIDIA GH200 480GB", 90},
        {"AMD Radeon Graphics", 0},
        {"", 0},
        {"NVIDIA H1000", 0},
        {"NVIDIA RTX PRO 6000 Blackwell", 120},
        {"Tesla T4", 75},
        {"NVIDIA A10", 86},
        {"NVIDIA A10G", 86},
        {"NVIDIA RTX 6000 Ada Generation", 89},
        {"NVIDIA GeForce 2", 0},
        {"NVIDIA GeForce GTX 1080 Ti", 61},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        CHECK_INT(tutti_hw_device_sm(names[i].device), names[i].sm);
}

TEST(what_drivers_call_a_gpu_gives_the_usual_host_of_it)
{
    static const struct {
        const char *device;
        uint32_t gpus;
        uint32_t hosts;
        const char *net;
        const char *spec;
    } cases[] = {
        {"NVIDIA H100 80GB HBM3", 8, 1, "ib", "host:gpu=h100,gpus=8"},
        {"NVIDIA H100 80GB HBM3", 8, 2, "", "host:gpu=h100,gpus=8,nodes=2"},
        {"NVIDIA H100 NVL", 2, 1, "", "host:gpu=h100-nvl,gpus=2"},
        {"NVIDIA H100 PCIe", 4, 1, "", "host:gpu=h100-pcie,gpus=4"},
        {"NVIDIA A100-SXM4-40GB", 8, 4, "efa", "host:gpu=a100-40g,gpus=8,nodes=4,net=efa"},
        {"NVIDIA A100-SXM4-80GB", 4, 1, "", "host:gpu=a100,gpus=4"},
        {"NVIDIA A100-PCIE-40GB", 2, 1, "", "host:gpu=a100-pcie-40g,gpus=2"},
        {"NVIDIA A100 80GB PCIe", 2, 1, "", "host:gpu=a100-pcie,gpus=2"},
        {"Tesla V100-PCIE-16GB", 4, 2, "tcp", "host:gpu=v100-pcie,gpus=4,nodes=2,net=tcp"},
        {"NVIDIA A10", 4, 1, "", "host:gpu=a10,gpus=4"},
        {"NVIDIA A10G", 4, 1, "", "host:gpu=a10g,gpus=4"},
        {"NVIDIA L40S", 8, 1, "", "host:gpu=l40s,gpus=8"},
        {"NVIDIA RTX 6000 Ada Generation", 2, 1, "", "host:gpu=rtx6000ada,gpus=2"},
        {"NVIDIA RTX 5880 Ada Generation", 8, 1, "", "host:gpu=rtx5880ada,gpus=8"},
        {"NVIDIA GeForce RTX 4070 Ti SUPER", 2, 1, "", "host:gpu=rtx4070tisuper,gpus=2"},
        {"Tesla K80", 4, 1, "", "host:gpu=k80,gpus=4"},
        {"AMD Instinct MI100", 2, 1, "", "host:gpu=mi100,gpus=2"},
        {"NVIDIA RTX 6000D", 8, 1, "", "host:gpu=rtx6000d,gpus=8"},
        {"NVIDIA GB200", 4, 8, "ib", "host:gpu=gb200,gpus=4,trays=8"},
        {"AMD Instinct MI300X OAM", 8, 1, "", "host:gpu=mi300x,gpus=8"},
    };
    char spec[128];
    struct tutti_err err = {0};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_topo *topo = NULL;

        CHECK_INT(tutti_hw_device_spec(cases[i].device, cases[i].gpus, cases[i].hosts, cases[i].net,
                                       spec, sizeof(spec), &err),
                  0);
        CHECK_TEXT(spec, cases[i].spec);
        CHECK_INT(tutti_topo_from_spec(spec, &topo, &err), 0);
        CHECK_INT(topo->rank_count, cases[i].gpus * cases[i].hosts);
        tutti_topo_free(topo);
    }
    CHECK_INT(tutti_hw_device_spec("AMD Radeon Graphics", 8, 1, "", spec, sizeof(spec), &err),
              -TUTTI_EINVAL);
    CHECK_TEXT(err.text,
               "'AMD Radeon Graphics' is no GPU that 'tutti topo list host' knows (a SPEC)");
    CHECK_INT(tutti_hw_device_spec("NVIDIA A800 80GB PCIe", 8, 1, "", spec, sizeof(spec), &err),
              -TUTTI_EINVAL);
    CHECK_INT(tutti_hw_device_spec("NVIDIA GB300", 4, 32, "", spec, sizeof(spec), &err),
              -TUTTI_EINVAL);
}

/* NVIDIA sells no boards of two: it is a part of eight, with the ports of that part. */
TEST(two_gpus_of_nvidia_are_a_part_of_eight)
{
    static const struct {
        const char *spec;
        uint32_t switches; /* of NVLink and PCIe on a host: at least so many */
        uint32_t nics;
    } hosts[] = {
        {"host:gpu=h100,gpus=2,nodes=2", 1 + 8, 2},
        {"host:gpu=h100,gpus=2,nics=2,nodes=2", 1 + 8, 2},
        {"host:gpu=a100,gpus=2,nics=1,nodes=4", 1 + 4, 1},
        {"host:gpu=a100,gpus=2,nics=8,nodes=2", 1 + 4, 8}, /* those of the whole host */
        {"host:gpu=h200,gpus=6,nics=3,nodes=2", 1 + 4, 3}, /* of four, one for two GPUs */
        {"host:gpu=h100,gpus=4,nodes=2", 0, 4},
        {"host:gpu=h100,gpus=1,nodes=2", 0, 1},
        {"host:gpu=h100,gpus=2,board=2,nodes=2", 0, 2},
        {"host:gpu=h100,gpus=2,sockets=1,nodes=2", 0, 2},
        {"host:gpu=l40s,gpus=2,nodes=2", 0, 1},
    };

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        struct tutti_topo *topo = preset(hosts[i].spec);
        uint32_t kinds[2] = {0, 0};

        REQUIRE(topo != NULL);
        printf("%s\n", hosts[i].spec);
        for (uint32_t v = 0; v < topo->node_count; v++) {
            struct tutti_node node = tutti_topo_node(topo, v);

            kinds[0] += node.kind == TUTTI_NODE_SWITCH;
            kinds[1] += node.kind == TUTTI_NODE_NIC;
        }
        CHECK_INT(kinds[1], hosts[i].nics * topo->host_count);
        CHECK(kinds[0] >= hosts[i].switches * topo->host_count);
        tutti_topo_free(topo);
        check_agrees(hosts[i].spec);
    }
}

/* Of eight GPUs and four NICs each GPU has a NIC at its own switch. */
TEST(two_gpus_share_a_switch_where_they_share_a_nic)
{
    struct tutti_topo *topo = preset("host:gpu=h100,nics=4,nic=200Gb/s,net=tcpx,nodes=2");
    const struct tutti_hardware *hw;

    REQUIRE(topo != NULL);
    hw = topo->hardware;
    CHECK_INT(hw->net_count, 4);
    for (uint32_t g = 0; g < hw->gpu_count; g++)
        CHECK_INT(hw->pcis[hw->gpus[g].pci].parent, hw->pcis[hw->nets[g / 2].pci].parent);
    tutti_topo_free(topo);
}

/* What AWS's plugin tells NCCL of its instances: p3dn, p4d, p5, p5en, g7e and p6. */
TEST(efa_is_what_its_plugin_says)
{
    static const struct {
        const char *spec;
        uint32_t latency_ns;
        bool unordered;
    } hosts[] = {
        {"host:gpu=v100,nics=1,nic=100Gb/s,gdr=no,net=efa,nodes=2", 150000, true},
        {"host:gpu=a100,gpus=8,nics=4,nic=100Gb/s,net=efa,nodes=2", 75000, true},
        {"dgx-h100:net=efa,nodes=2", 75000, false},
        {"hgx-h200:net=efa,nodes=2", 35000, false},
        {"host:gpu=rtxpro6000,gpus=1,gdr=no,net=efa,nodes=2", 75000, true},
        {"hgx-b200:net=efa,nodes=2", 35000, false},
        {"hgx-b200:nodes=2", 0, false}, /* another network */
    };

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        struct tutti_topo *topo = preset(hosts[i].spec);

        printf("%s\n", hosts[i].spec);
        REQUIRE(topo != NULL);
        CHECK_INT(topo->hardware->nets[0].latency_ns, hosts[i].latency_ns);
        CHECK_INT(topo->hardware->nets[0].unordered, hosts[i].unordered);
        tutti_topo_free(topo);
    }
}

/* p5 has 32 ports, p5en 16, and NCCL sees eight; p4d's four are what they are, and so are 32 of
 * another network, and of EFA without GPUDirect RDMA. */
TEST(efa_ports_of_a_gpu_are_one)
{
    static const struct {
        const char *spec;
        uint32_t count;
        uint32_t mbit_per_s;
    } hosts[] = {
        {"host:gpu=h100,gpus=8,nics=32,nic=100Gb/s,net=efa,nodes=2", 8, 400000},
        {"host:gpu=h200,gpus=8,nics=16,nic=200Gb/s,net=efa,nodes=2", 8, 400000},
        {"host:gpu=h100,gpus=1,nics=4,nic=100Gb/s,net=efa,nodes=2", 1, 400000},
        {"host:gpu=h100,gpus=8,nics=8,nic=400Gb/s,net=efa,nodes=2", 8, 400000},
        {"host:gpu=a100,gpus=8,nics=4,nic=100Gb/s,net=efa,nodes=2", 4, 100000},
        {"host:gpu=h100,gpus=8,nics=32,nic=100Gb/s,net=ib,nodes=2", 32, 100000},
        {"host:gpu=h100,gpus=8,nics=32,nic=100Gb/s,net=efa,gdr=no,nodes=2", 32, 100000},
    };

    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        struct tutti_topo *topo = preset(hosts[i].spec);

        printf("%s\n", hosts[i].spec);
        REQUIRE(topo != NULL);
        CHECK_INT(topo->hardware->net_count, hosts[i].count);
        CHECK_INT(topo->hardware->nets[0].mbit_per_s, hosts[i].mbit_per_s);
        tutti_topo_free(topo);
        check_agrees(hosts[i].spec);
    }
}

/* The quad of GH200 as nvidia-smi topo shows it: NV6 between any two, each with a CPU and a NIC.
 * The tray of GB300 as NCCL dumped it: five C2C links a GPU, two GPUs a CPU, each on a switch. */
TEST(hosts_of_grace_are_as_they_were_seen)
{
    struct tutti_topo *topo = preset("host:gpu=gh200,gpus=4");
    const struct tutti_hardware *hw;

    REQUIRE(topo != NULL);
    hw = topo->hardware;
    CHECK_INT(hw->cpu_count, 4);
    CHECK_INT(hw->cpus[3].arch, TUTTI_ARCH_ARM64);
    CHECK_INT(hw->nvlink_count, 12);
    for (uint32_t l = 0; l < hw->nvlink_count; l++)
        CHECK_INT(hw->nvlinks[l].count, 6);
    CHECK_INT(hw->c2c_count, 4);
    CHECK_INT(hw->nets[3].cpu, 3);
    tutti_topo_free(topo);
    topo = preset("host:gpu=gb300,gpus=4,trays=2");
    REQUIRE(topo != NULL);
    hw = topo->hardware;
    CHECK_INT(topo->rank_count, 8);
    CHECK_INT(hw->gpu_count, 4);
    CHECK_INT(hw->rack, 2);
    CHECK_INT(hw->cpu_count, 2);
    CHECK_INT(hw->gpus[0].sm, 103);
    CHECK_INT(hw->c2cs[0].mbyte_per_s, 44712);
    CHECK_INT(hw->c2cs[0].count, 5);
    CHECK_INT(hw->pcis[hw->gpus[2].pci].cpu, 1);
    CHECK(hw->pcis[hw->gpus[2].pci].parent != TUTTI_HW_NONE);
    tutti_topo_free(topo);
}

/* In RCCL's model of a node of four MI250X each die has three neighbours. */
TEST(dies_of_mi250x_have_three_neighbours)
{
    struct tutti_topo *topo = preset("host:gpu=mi250x,gpus=8,nodes=2,nics=4");

    REQUIRE(topo != NULL);
    CHECK_INT(topo->hardware->nvlink_count, 24);
    CHECK_INT(topo->hardware->gpus[0].sm, 910);
    for (uint32_t l = 0; l < 24; l++) {
        const struct tutti_hw_nvlink *link = &topo->hardware->nvlinks[l];
        bool back = false;

        for (uint32_t m = 0; m < 24; m++)
            back = back || (topo->hardware->nvlinks[m].gpu == link->target &&
                            topo->hardware->nvlinks[m].target == link->gpu);
        CHECK(back);
    }
    tutti_topo_free(topo);
}

TEST(hosts_that_cannot_be_are_refused)
{
    static const char *const specs[][2] = {
        {"host:gpu=l40s,intra=nvlink-mesh",
         "preset 'host': 'intra=nvlink-mesh' of 8 l40s: has no such links"},
        {"host:gpu=mi300x,intra=nvswitch", "preset 'host': 'intra=nvswitch' of 8 mi300x: has xGMI"},
        {"host:gpu=a100,intra=xgmi", "preset 'host': 'intra=xgmi' of 8 a100: has no such links"},
        {"host:gpu=v100,intra=nvlink-mesh",
         "preset 'host': 'intra=nvlink-mesh' of 8 v100: fewer links than other GPUs"},
        {"host:gpu=v100,gpus=4,intra=nvlink-cube",
         "preset 'host': 'intra=nvlink-cube' of 4 v100: the wiring is known for boards of 8"},
        {"host:gpu=a40,gpus=3,intra=nvlink-pairs",
         "preset 'host': 'intra=nvlink-pairs' of 3 a40: one has no other"},
        {"host:gpus=8,board=4", "preset 'host': 'gpus=8' of a board of 4 (at most as many)"},
        {"host:gpu=l4,gpus=1,trays=2",
         "preset 'host': 'trays=2' without NVSwitches between them (intra=nvswitch)"},
        {"host:nodes=2,nics=0", "preset 'host': 'nics=0' of 2 nodes (at least 1)"},
    };

    for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
        struct tutti_topo *topo = NULL;
        struct tutti_err err = {""};

        CHECK_INT(tutti_topo_from_spec(specs[i][0], &topo, &err), -TUTTI_EINVAL);
        CHECK_TEXT(err.text, specs[i][1]);
        CHECK(topo == NULL);
    }
}

/* Every GPU of the catalogue, in every number up to 16, with each wiring that it takes. */
TEST(hosts_of_every_gpu_are_built_or_refused)
{
    static const char *const gpus[] = {"p100",       "v100-pcie", "a100",     "a30",   "a10g",
                                       "l40s",       "h100",      "h100-nvl", "h20",   "gh200",
                                       "b200",       "b300",      "gb200",    "gb300", "rtx4090",
                                       "rtxpro6000", "mi250x",    "mi300x",   "mi350x"};
    static const char *const intras[] = {"auto",        "nvswitch", "nvlink-mesh", "nvlink-pairs",
                                         "nvlink-cube", "xgmi",     "pcie"};
    uint32_t built = 0;

    for (size_t g = 0; g < sizeof(gpus) / sizeof(gpus[0]); g++) {
        for (size_t i = 0; i < sizeof(intras) / sizeof(intras[0]); i++) {
            for (uint32_t n = 1; n <= 16; n++) {
                struct tutti_topo *topo = NULL;
                struct tutti_err err = {""};
                char spec[128];

                snprintf(spec, sizeof(spec), "host:gpu=%s,gpus=%u,nodes=2,intra=%s", gpus[g], n,
                         intras[i]);
                if (tutti_topo_from_spec(spec, &topo, &err) == 0) {
                    CHECK_INT(topo->hardware->gpu_count, n);
                    CHECK_INT(topo->rank_count, 2 * n);
                    built++;
                } else if (i == 0 && strcmp(gpus[g], "mi250x") != 0 && n <= 8) {
                    TEST_FAIL("%s: %s", spec, err.text);
                }
                tutti_topo_free(topo);
            }
        }
    }
    printf("%u built\n", built);
    CHECK(built > 500);
}

/* Of more than four cards: a root port each on AMD's CPUs, a switch a socket on Intel's. */
TEST(cards_lie_and_reach_each_other_as_most_do)
{
    static const struct {
        const char *spec;
        bool switched, no_peers, gdr;
    } cases[] = {
        {"host:gpu=rtx4090,gpus=8", false, true, false},
        {"host:gpu=rtx4090,gpus=8,p2p=yes,gdr=yes,switches=2", true, false, true},
        {"host:gpu=a40,gpus=8", false, false, true},
        {"host:gpu=a40,gpus=8,cpu=intel", true, false, true},
        {"host:gpu=v100-pcie,gpus=8", true, false, true},
        {"host:gpu=v100-pcie,gpus=4", false, false, true},
        {"host:gpu=rtxpro6000,gpus=8,p2p=no", false, true, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_topo *topo = preset(cases[i].spec);
        const struct tutti_hardware *hw = topo->hardware;

        for (uint32_t g = 0; g < hw->gpu_count; g++) {
            CHECK_INT(hw->pcis[hw->gpus[g].pci].parent != TUTTI_HW_NONE, cases[i].switched);
            CHECK_INT(hw->gpus[g].no_peers, cases[i].no_peers);
            CHECK_INT(hw->gpus[g].gdr, cases[i].gdr);
        }
        tutti_topo_free(topo);
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
    topo = preset("dgx-h100:net=tcpx,nodes=2");
    CHECK_INT(topo->net_kind, TUTTI_NET_TCPX);
    CHECK(topo->hardware->gpus[0].gdr); /* sockets too, but payload goes past the host */
    tutti_topo_free(topo);
    topo = preset("dgx-h100:net=tcpxo,nodes=2");
    CHECK_INT(topo->net_kind, TUTTI_NET_TCPXO);
    CHECK(topo->hardware->gpus[0].gdr);
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
                         "slingshot, tcp, tcpx, tcpxo)");
    CHECK_INT(tutti_topo_from_spec("dgx-h100:gpus=9", &topo, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_topo_from_spec("dgx-h100:gpus=auto", &topo, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_topo_from_spec("dgx-h100:nodes=auto", &topo, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_topo_from_spec("gb200-nvl72:gpus=6", &topo, &err), -TUTTI_EINVAL);
}
