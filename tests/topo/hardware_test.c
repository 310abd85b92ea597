/* The hardware of a host: read from NCCL's XML and from text, kept by copies, or refused. */
#include "runtime/arena.h"
#include "runtime/status.h"
#include "tests/test.h"
#include "tests/traces/nccl_xml.h"
#include "topo/hardware.h"
#include "topo/perturb.h"
#include "topo/topo.h"

/* The lines that say the hardware; to be freed. */
static char *hardware_lines(const struct tutti_topo *topo)
{
    struct tutti_err err = {""};
    char *text = NULL;
    char *start;

    CHECK_OK(tutti_topo_print(topo, &text, &err), err);
    start = text == NULL ? NULL : strstr(text, "\nhardware ");
    if (start != NULL)
        memmove(text, start + 1, strlen(start + 1) + 1);
    else if (text != NULL)
        text[0] = '\0';
    return text;
}

static void expect_lines(const struct tutti_topo *topo, const char *expected)
{
    char *lines = hardware_lines(topo);

    CHECK_TEXT(lines, expected);
    free(lines);
}

static struct tutti_topo *from_xml(const char *text)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_nccl_xml_parse("own.xml", text, strlen(text), &topo, &err), err);
    return topo;
}

/* ---- from XML ---- */

/* A port behind a switch with a GPU, one of two functions of a card, a virtual one; ranks against
 * document order; a branch that NCCL trims; a GPU without rank; links to what is not there. */
static const char everything[] =
    "<system version='1'>"
    "<cpu numaid='-1' arch='x86_64' vendor='AuthenticAMD' familyid='25' modelid='1'>"
    "<pci busid='0000:16:00.0' vendor='0x1000' device='0xc010' subsystem_vendor='0x1000' "
    "subsystem_device='0xa032' link_speed='16.0 GT/s PCIe' link_width='8'>"
    "<pci busid='0000:17:00.0' link_speed='' link_width='0'/>"
    "<pci busid='0000:18:00.0' link_speed='64.0 GT/s PCIe' link_width='16'>"
    "<gpu dev='4' sm='90' rank='1' gdr='1'>"
    "<nvlink target='0000:20:00.0' count='2' tclass='0x030200'/>"
    "<nvlink target='0000:99:00.0' count='1' tclass='0x030200'/>"
    "<nvlink target='fffffff:ffff:ff' count='18' tclass='0x068000'/></gpu></pci>"
    "<pci busid='0000:19:00.1'><nic>"
    "<net dev='0' speed='400000' port='2' guid='0xa088c203005f1234' latency='0.001' gdr='1' "
    "coll='1'/><net dev='1'/></nic></pci></pci></cpu>"
    "<cpu numaid='1' arch='ppc64'>"
    "<nic><net dev='2' speed='2500'/></nic>"
    "<pci busid='c0fe:20:00.0'><gpu dev='5' sm='70' rank='0'>"
    "<nvlink target='00' count='3' tclass='0x068001'/>"
    "<c2c bw='44712' count='10'/></gpu></pci>"
    "<pci busid='0000:20:00.0'><gpu dev='6' sm='70' rank='2' gdr='0'/></pci>"
    "<pci busid='0000:21:00.0'><gpu dev='7' sm='70'/></pci></cpu></system>";

TEST(all_that_an_xml_says_is_in_the_hardware)
{
    struct tutti_topo *topo;

    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
    topo = from_xml(everything);
    REQUIRE(topo != NULL);
    expect_lines(topo, "hardware cpu numa=-1 arch=x86_64 vendor=amd family=25 model=1\n"
                       "hardware cpu numa=1 arch=ppc64\n"
                       "hardware pci bus=0000:16:00.0 under=cpu0 gen=4 lanes=8 "
                       "ids=1000:c010:1000:a032\n"
                       "hardware pci bus=0000:18:00.0 under=pci0 gen=6 lanes=16\n"
                       "hardware pci bus=0000:19:00.1 under=pci0 gen=3 lanes=16\n"
                       "hardware pci bus=c0fe:20:00.0 under=cpu1 gen=3 lanes=16\n"
                       "hardware pci bus=0000:20:00.0 under=cpu1 gen=3 lanes=16\n"
                       "hardware gpu under=pci1 rank=1 dev=4 sm=90 gdr\n"
                       "hardware gpu under=pci3 rank=0 dev=5 sm=70\n"
                       "hardware gpu under=pci4 rank=2 dev=6 sm=70\n"
                       "hardware nvlink from=gpu0 to=gpu2 count=2\n"
                       "hardware nvlink from=gpu0 to=nvswitch count=18\n"
                       "hardware nvlink from=gpu1 to=cpu1 count=3\n"
                       "hardware c2c from=gpu1 each=44712MB/s count=10\n"
                       "hardware net under=pci2 dev=0 rate=400Gb/s port=2 "
                       "guid=0xa088c203005f1234 latency=1ns gdr coll\n"
                       "hardware net under=pci2 dev=1 rate=10Gb/s port=0 guid=0x1\n"
                       "hardware net under=cpu1 dev=2 rate=2500Mb/s port=0 guid=0x2\n");
    tutti_topo_free(topo);
}

TEST(amds_gpus_have_the_number_of_their_gfx)
{
    struct tutti_topo *topo;

    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
    topo = from_xml("<system version='2'><cpu numaid='0'>"
                    "<pci busid='1'><gpu dev='0' sm='304' gcn='gfx942' rank='0'/></pci>"
                    "<pci busid='2'><gpu dev='1' sm='110' gcn='gfx90a:sramecc+' rank='1'/></pci>"
                    "<pci busid='3'><gpu dev='2' sm='120' gcn='908' rank='2'>"
                    "<xgmi target='1' count='1' tclass='0x038000'/></gpu></pci>"
                    "</cpu></system>");
    REQUIRE(topo != NULL);
    REQUIRE(topo->hardware != NULL);
    CHECK_INT(topo->hardware->gpus[0].sm, 942);
    CHECK_INT(topo->hardware->gpus[1].sm, 910);
    CHECK_INT(topo->hardware->gpus[2].sm, 908);
    CHECK_INT(topo->hardware->nvlink_count, 1);
    CHECK_INT(topo->hardware->nvlinks[0].target, 0);
    tutti_topo_free(topo);
}

#define TRAY(hash, bus, rank)                                             \
    "<cpu numaid='0' host_hash='" hash "' arch='arm64'>"                  \
    "<pci busid='" bus "'><gpu dev='0' sm='100' rank='" rank "' gdr='1'>" \
    "<nvlink target='fffffff:ffff:ff' count='18' tclass='0x068000'/></gpu></pci></cpu>"

TEST(a_rack_has_the_hardware_of_one_tray)
{
    struct tutti_topo *topo;

    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
    topo = from_xml("<system version='1'>" TRAY("0x1", "0008:01:00.0", "0")
                        TRAY("0x2", "0009:01:00.0", "1") "</system>");
    REQUIRE(topo != NULL);
    CHECK_INT(topo->rank_count, 2);
    expect_lines(topo, "hardware cpu numa=0 arch=arm64\n"
                       "hardware pci bus=0008:01:00.0 under=cpu0 gen=3 lanes=16\n"
                       "hardware gpu under=pci0 rank=0 dev=0 sm=100 gdr\n"
                       "hardware nvlink from=gpu0 to=nvswitch count=18\n"
                       "hardware rack hosts=2\n");
    tutti_topo_free(topo);
    topo = from_xml("<system version='1'>" TRAY("0x1", "0008:01:00.0", "0") TRAY(
        "0x2", "0009:01:00.0", "1") TRAY("0x2", "000a:01:00.0", "2") "</system>");
    REQUIRE(topo != NULL);
    CHECK(topo->hardware == NULL); /* hosts of one and of two GPUs */
    tutti_topo_free(topo);
}

TEST(the_machines_of_nccls_test_vectors_are_read_whole)
{
    static const struct {
        const char *file;
        uint32_t cpus, pcis, gpus, nvlinks, nets, sm, mbit_per_s;
    } cases[] = {
        {"h100x8.xml", 2, 24, 8, 8, 8, 90, 400000},  {"h100x4.xml", 2, 12, 4, 4, 4, 90, 400000},
        {"h100x2.xml", 2, 6, 2, 2, 2, 90, 400000},   {"a100x8.xml", 2, 24, 8, 8, 8, 80, 200000},
        {"dgxa100.xml", 2, 20, 8, 8, 8, 80, 200000}, {"b200x8.xml", 2, 24, 8, 8, 8, 100, 400000},
        {"l40x4.xml", 1, 5, 4, 0, 1, 89, 100000},    {"l40x8.xml", 2, 12, 8, 0, 2, 89, 100000},
        {"l40x2amd.xml", 1, 2, 2, 0, 0, 89, 0},      {"a100pair.xml", 1, 3, 2, 2, 1, 80, 100000},
        {"one90sock.xml", 1, 1, 1, 0, 1, 90, 10000}, {"dgx1v.xml", 2, 16, 8, 32, 4, 70, 100000},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]) && tutti_nccl_xml_available(); i++) {
        struct tutti_err err = {""};
        char path[1024];
        struct tutti_topo *topo;
        const struct tutti_hardware *hw;

        snprintf(path, sizeof(path), "%s/tests/fixtures/nccl_xml/%s", TUTTI_SOURCE_DIR,
                 cases[i].file);
        topo = load(path, cases[i].file, &err);
        CHECK_TEXT(err.text, "");
        REQUIRE(topo != NULL);
        hw = topo->hardware;
        REQUIRE(hw != NULL);
        CHECK_INT(hw->cpu_count, cases[i].cpus);
        CHECK_INT(hw->pci_count, cases[i].pcis);
        CHECK_INT(hw->gpu_count, cases[i].gpus);
        CHECK_INT(hw->nvlink_count, cases[i].nvlinks);
        CHECK_INT(hw->net_count, cases[i].nets);
        CHECK_INT(hw->gpus[hw->gpu_count - 1].sm, cases[i].sm);
        CHECK(hw->net_count == 0 || hw->nets[0].mbit_per_s == cases[i].mbit_per_s);
        CHECK_INT(hw->rack, 0);
        tutti_topo_free(topo);
    }
    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
}

/* ---- text ---- */

#define TWO                                        \
    "node a device host=0\nnode b device host=0\n" \
    "cable a b nvlink 20GB/s 1us\n"
#define HOST                                                            \
    "hardware cpu numa=0 arch=x86_64 vendor=intel family=6 model=143\n" \
    "hardware pci bus=0000:16:00.0 under=cpu0 gen=5 lanes=16\n"         \
    "hardware pci bus=0000:17:00.0 under=pci0 gen=5 lanes=16\n"         \
    "hardware pci bus=0000:18:00.0 under=pci0 gen=5 lanes=16\n"         \
    "hardware gpu under=pci1 rank=0 dev=0 sm=90 gdr\n"                  \
    "hardware gpu under=pci2 rank=1 dev=1 sm=90 gdr\n"                  \
    "hardware nvlink from=gpu0 to=gpu1 count=4\n"                       \
    "hardware nvlink from=gpu1 to=gpu0 count=4\n"                       \
    "hardware net under=cpu0 dev=0 rate=25Gb/s port=1 guid=0xff latency=2us gdr\n"

static struct tutti_topo *from_text(const char *text)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_parse("x.topo", text, strlen(text), &topo, &err), err);
    return topo;
}

TEST(text_is_read_and_written_back)
{
    struct tutti_topo *topo = from_text(TWO HOST);

    REQUIRE(topo != NULL);
    REQUIRE(topo->hardware != NULL);
    CHECK_INT(topo->hardware->pcis[1].parent, 0);
    CHECK_INT(topo->hardware->pcis[0].parent, TUTTI_HW_NONE);
    CHECK_INT(topo->hardware->pcis[0].bus_id, 0x16000);
    CHECK_INT(topo->hardware->pcis[0].lane_mbit_per_s, 24000);
    CHECK_INT(topo->hardware->nets[0].pci, TUTTI_HW_NONE);
    CHECK_INT(topo->hardware->nets[0].latency_ns, 2000);
    CHECK(topo->hardware->nets[0].gdr && !topo->hardware->nets[0].coll);
    expect_lines(topo, HOST);
    tutti_topo_free(topo);
    topo = from_text(TWO HOST "hardware rack hosts=18 # an NVL72\n");
    REQUIRE(topo != NULL);
    CHECK_INT(topo->hardware->rack, 18);
    tutti_topo_free(topo);
    topo = from_text(TWO);
    REQUIRE(topo != NULL);
    CHECK(topo->hardware == NULL);
    tutti_topo_free(topo);
}

static void expect_refusal(const char *line, const char *message)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    char text[4096];

    snprintf(text, sizeof(text), "%s%s\n", TWO HOST, line);
    CHECK_INT(tutti_topo_parse("x", text, strlen(text), &topo, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, message);
    tutti_topo_free(topo);
}

TEST(what_is_wrong_in_text_is_named)
{
    expect_refusal("hardware", "x: line 13: the line ends too early (missing: a part: cpu, pci, "
                               "gpu, nvlink, c2c, net or rack)");
    expect_refusal("hardware disk", "x: line 13: unknown part 'disk' (cpu, pci, gpu, nvlink, c2c, "
                                    "net, rack)");
    expect_refusal("hardware cpu numa=0 cores=8",
                   "x: line 13: unknown option 'cores=8' of a hardware cpu (numa=, arch=, vendor=, "
                   "family=, model=)");
    expect_refusal("hardware cpu arch=x86_64", "x: line 13: a hardware cpu without numa=");
    expect_refusal("hardware cpu numa=0 arch=mips",
                   "x: line 13: arch of a hardware cpu is 'mips' (x86_64, arm64, ppc64)");
    expect_refusal("hardware pci bus=0:zz under=cpu0 gen=5 lanes=16",
                   "x: line 13: bus of a hardware pci is '0:zz' (hexadecimal digits)");
    expect_refusal("hardware pci bus=1 under=pci3 gen=5 lanes=16",
                   "x: line 13: under of a hardware pci is 'pci3' (a pci or cpu before this line, "
                   "such as cpu0)");
    expect_refusal("hardware pci bus=1 under=cpu0 gen=7 lanes=16",
                   "x: line 13: out of range '7' (1 to 6)");
    expect_refusal("hardware gpu under=cpu0 rank=2 dev=2",
                   "x: line 13: under of a hardware gpu is 'cpu0' (a pci before this line, such as "
                   "pci0)");
    expect_refusal(
        "hardware nvlink from=gpu0 to=gpu2 count=1",
        "x: line 13: to of a hardware nvlink is 'gpu2' (nvswitch, or a gpu or cpu before "
        "this line, such as gpu1)");
    expect_refusal("hardware c2c from=gpu0 each=1500b/s count=1",
                   "x: line 13: each of a hardware c2c is '1500b/s' (whole MB/s)");
    expect_refusal("hardware net under=cpu0 dev=0 rate=1Gb/s port=1 guid=7",
                   "x: line 13: guid of a hardware net is '7' (0x and digits)");
    expect_refusal("hardware net under=cpu0 dev=0 rate=1Gb/s port=1 guid=0x7 latency=1ps",
                   "x: line 13: latency of a hardware net is '1ps' (whole ns, up to 4s)");
    expect_refusal("hardware rack 7", "x: line 13: unknown option '7' of a hardware rack (hosts=)");
    expect_refusal("hardware rack hosts=2 7", "x: line 13: a word too many '7' (end of line)");
    /* Of the whole: */
    expect_refusal("hardware gpu under=pci1 rank=2 dev=2",
                   "x: hardware: gpu2 is the second of its pci (one each)");
    expect_refusal("hardware gpu under=pci0 rank=1 dev=2",
                   "x: hardware: gpu2 has a rank that is taken or too high (each from 0 once)");
    expect_refusal("hardware gpu under=pci0 rank=2 dev=2",
                   "x: hardware: pci1 is under a gpu or a net (a switch or a cpu)");
    expect_refusal("hardware net under=pci0 dev=0 rate=1Gb/s port=1 guid=0x7",
                   "x: hardware: pci1 is under a gpu or a net (a switch or a cpu)");
    expect_refusal("hardware nvlink from=gpu1 to=gpu1 count=1",
                   "x: hardware: nvlink2 has a count of 0, or leads from a gpu to itself");
    expect_refusal(
        "node c device host=0\ncable b c nvlink 1GB/s 1us",
        "x: the hardware of a host has 2 GPUs, but there are 3 ranks on 1 hosts (as many "
        "GPUs as ranks on each host)");
}

/* ---- what keeps it ---- */

TEST(copies_and_perturbed_machines_keep_it)
{
    struct tutti_topo *host = from_text(TWO HOST);
    struct tutti_topo *topo = NULL;
    struct tutti_perturb perturb = {.item_count = 0};
    struct tutti_err err = {""};

    REQUIRE(host != NULL);
    CHECK_OK(tutti_topo_replicate(host, 1000, TUTTI_PS_PER_US, &topo, &err), err);
    tutti_topo_free(host);
    REQUIRE(topo != NULL);
    CHECK_OK(tutti_perturb_add(&perturb, "slow-node=1:2", &err), err);
    CHECK_OK(tutti_topo_perturb(topo, &perturb, 1, &err), err);
    expect_lines(topo, HOST);
    tutti_topo_free(topo);
}

/* ---- fewer GPUs ---- */

/* The handwritten machines of four and of two H100 are those of the first of eight, but that they
 * have the ports of their GPUs alone. */
TEST(the_first_gpus_of_a_host_keep_what_is_above_them_and_all_ports)
{
    struct tutti_topo *topo;
    struct tutti_arena *arena = tutti_arena_new();
    struct tutti_err err = {""};
    const struct tutti_hardware *hw = NULL;

    if (!tutti_nccl_xml_available()) {
        tutti_arena_free(arena);
        SKIP("this build is without libexpat");
    }
    topo = fixture("h100x8.xml");
    REQUIRE(topo != NULL);
    CHECK_OK(tutti_hardware_keep(arena, topo->hardware, 3, &hw, &err), err);
    REQUIRE(hw != NULL);
    CHECK_INT(hw->gpu_count, 3);
    CHECK_INT(hw->nvlink_count, 3);
    CHECK_INT(hw->net_count, 8);
    CHECK_INT(hw->cpu_count, 2);
    CHECK_INT(hw->pci_count, 8 + 8 + 3); /* switches, ports, GPUs */
    for (uint32_t n = 0; n < 8; n++) {
        CHECK_INT(hw->nets[n].dev, n);
        CHECK_INT(hw->nets[n].cpu, n / 4);
        CHECK_INT(hw->pcis[hw->nets[n].pci].bus_id,
                  topo->hardware->pcis[topo->hardware->nets[n].pci].bus_id);
        CHECK(hw->pcis[hw->nets[n].pci].parent < hw->nets[n].pci);
    }
    CHECK_INT(tutti_hardware_keep(arena, topo->hardware, 0, &hw, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_hardware_keep(arena, topo->hardware, 9, &hw, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "9 GPUs of a host that has 8 (from 1)");
    tutti_topo_free(topo);
    tutti_arena_free(arena);
}

/* Real dumps of a DGX-1V with 1 to 8 GPUs say so too: links to GPUs that are not there are gone,
 * switches without GPU or port as well. */
TEST(links_and_switches_without_their_gpus_are_gone)
{
    struct tutti_topo *topo;
    struct tutti_arena *arena = tutti_arena_new();
    struct tutti_err err = {""};
    const struct tutti_hardware *hw = NULL;

    if (!tutti_nccl_xml_available()) {
        tutti_arena_free(arena);
        SKIP("this build is without libexpat");
    }
    topo = fixture("l40x8.xml"); /* a switch of four GPUs and a port beside it, on each CPU */
    REQUIRE(topo != NULL);
    CHECK_OK(tutti_hardware_keep(arena, topo->hardware, 4, &hw, &err), err);
    CHECK_INT(hw->pci_count, 1 + 4 + 2);
    CHECK_INT(hw->cpu_count, 2);
    tutti_topo_free(topo);
    topo = fixture("dgx1v.xml");
    REQUIRE(topo != NULL);
    CHECK_OK(tutti_hardware_keep(arena, topo->hardware, 4, &hw, &err), err);
    CHECK_INT(hw->nvlink_count, 12); /* a quad is wired fully */
    for (uint32_t l = 0; l < hw->nvlink_count; l++)
        CHECK(hw->nvlinks[l].gpu < 4 && hw->nvlinks[l].target < 4);
    CHECK_INT(hw->pci_count, 4 + 4 + 4);
    tutti_topo_free(topo);
    topo = from_text(TWO HOST);
    REQUIRE(topo != NULL);
    CHECK_OK(tutti_hardware_keep(arena, topo->hardware, 1, &hw, &err), err);
    CHECK_INT(hw->nvlink_count, 0);
    CHECK_INT(hw->pci_count, 2);
    CHECK_INT(hw->gpus[0].pci, 1);
    tutti_topo_free(topo);
    tutti_arena_free(arena);
}

/* ---- by hand ---- */

TEST(hardware_that_is_none_is_refused)
{
    const struct tutti_hw_cpu cpu = {.numa = 0};
    const struct tutti_hw_gpu gpu = {.pci = 0};
    struct tutti_hw_pci pci = {.parent = TUTTI_HW_NONE, .lane_mbit_per_s = 6000, .lane_count = 16};
    struct tutti_hw_c2c c2c = {.mbyte_per_s = 1, .count = 1};
    struct tutti_hardware hw = {
        .cpu_count = 1, .cpus = &cpu, .pci_count = 1, .pcis = &pci, .gpu_count = 1, .gpus = &gpu};
    struct tutti_err err = {""};

    CHECK_OK(tutti_hardware_check(&hw, &err), err);
    hw.gpu_count = 0;
    CHECK_INT(tutti_hardware_check(&hw, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "hardware without a gpu (at least 1)");
    hw.gpu_count = 1;
    pci.lane_mbit_per_s = 6001;
    CHECK_INT(tutti_hardware_check(&hw, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "hardware: pci0 is of no PCIe generation (1 to 6)");
    pci.lane_mbit_per_s = 6000;
    pci.parent = 0;
    CHECK_INT(tutti_hardware_check(&hw, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "hardware: pci0 is under none before it");
    pci.parent = TUTTI_HW_NONE;
    hw.c2cs = &c2c;
    hw.c2c_count = 1;
    CHECK_OK(tutti_hardware_check(&hw, &err), err);
    c2c.gpu = 1;
    CHECK_INT(tutti_hardware_check(&hw, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "hardware: c2c0 is of no gpu, or has no rate or a count of 0");
    for (uint32_t g = 1; g <= 6; g++)
        CHECK_INT(tutti_hw_pcie_generation(tutti_hw_lane_mbit_per_s(g)), g);
    CHECK_INT(tutti_hw_lane_mbit_per_s(0) + tutti_hw_lane_mbit_per_s(7), 0);
}
