/* The reader of NCCL topology XML: small machines of our own, and what is refused and why. */
#include "runtime/status.h"
#include "tests/test.h"
#include "tests/traces/nccl_xml.h"
#include "topo/topo.h"
#include "traces/nccl_xml.h"

/* ---- machines of our own ---- */

#define CPU_INTEL "arch='x86_64' vendor='GenuineIntel' familyid='6' modelid='143'"
#define GEN5      "link_speed='32.0 GT/s PCIe' link_width='16'"
#define GEN4      "link_speed='16 GT/s' link_width='16'"

/* Parses `text`, or fails the test. */
static struct tutti_topo *machine(const char *text)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_nccl_xml_parse("own.xml", text, strlen(text), &topo, &err), err);
    return topo;
}

static uint32_t node_named(const struct tutti_topo *topo, const char *name)
{
    for (uint32_t v = 0; v < topo->node_count; v++)
        if (strcmp(tutti_topo_node_name(topo, v, (char[TUTTI_NODE_NAME_BYTES]){0}), name) == 0)
            return v;
    TEST_FAIL("no node %s", name);
    return 0;
}

/* Rate of the link between two nodes in MB/s; 0: none. */
static int64_t rate_of(const struct tutti_topo *topo, const char *from, const char *to)
{
    uint32_t a = node_named(topo, from);
    uint32_t b = node_named(topo, to);

    for (uint32_t l = 0; l < topo->link_count; l++)
        if (tutti_topo_link(topo, l).from == a && tutti_topo_link(topo, l).to == b)
            return (int64_t)(tutti_topo_link(topo, l).bytes_per_s / 1000000);
    return 0;
}

/* An H100 has 18 NVLinks of 25 GB/s; PCIe is Gen5, 16 lanes. NCCL reckons with 20.6 and 48. */
TEST(the_example_of_eight_h100_has_the_rates_of_data_sheets)
{
    struct tutti_err err = {""};
    struct tutti_topo *topo;

    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
    topo = load(TUTTI_SOURCE_DIR "/tools/examples/h100x8.xml", "h100x8.xml", &err);
    CHECK_TEXT(err.text, "");
    REQUIRE(topo != NULL);
    CHECK_INT(topo->rank_count, 8);
    CHECK_INT(topo->host_count, 1);
    for (uint32_t r = 1; r < 8; r++)
        CHECK_INT(path_rate(topo, 0, r), 450000);
    CHECK(tutti_topo_node(topo, node_named(topo, "nvswitch")).reduces);
    CHECK_INT(rate_of(topo, "gpu0", "pci0"), 63015);
    CHECK_INT(rate_of(topo, "pci0", "card0"), 63015);
    CHECK_INT(rate_of(topo, "card0", "nic0"), 50000);
    CHECK_INT(rate_of(topo, "pci0", "cpu0"), 63015);
    CHECK_INT(rate_of(topo, "cpu0", "cpu1"), 22000);
    CHECK(tutti_topo_link(topo, tutti_topo_out_link(topo, node_named(topo, "nvswitch"), 0))
              .cable_count == 18);
    tutti_topo_free(topo);
}

TEST(ranks_with_gaps_are_closed_and_gpus_without_one_left_out)
{
    struct tutti_topo *topo;

    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
    topo = machine("<system version='1'><cpu numaid='0' " CPU_INTEL ">"
                   "<pci busid='0000:1d:00.0' " GEN4 "><gpu dev='2' sm='86' rank='7'/></pci>"
                   "<pci busid='0000:1e:00.0' " GEN5 "><gpu dev='3' sm='86' rank='3'/></pci>"
                   "<pci busid='0000:1f:00.0' " GEN5 "><gpu dev='4' sm='86'/></pci>"
                   "</cpu></system>");
    REQUIRE(topo != NULL);
    CHECK_INT(topo->rank_count, 2);
    CHECK_INT(rate_of(topo, "gpu1", "cpu0"), 31508);
    CHECK_INT(rate_of(topo, "gpu0", "cpu0"), 63015);
    tutti_topo_free(topo);
}

/* NVLink is stated by each end for its own direction; one side may have lost links. */
TEST(nvlinks_between_gpus_have_the_rate_each_side_states)
{
    struct tutti_topo *topo;

    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
    topo = machine("<system version='1'><cpu numaid='0' " CPU_INTEL ">"
                   "<pci busid='0000:17:00.0'><gpu dev='0' sm='80' rank='0'>"
                   "<nvlink target='0000:65:00.0' count='1' tclass='0x030200'/>"
                   "<nvlink target='0000:99:00.0' count='2' tclass='0x030200'/></gpu></pci>"
                   "<pci busid='0000:65:00.0'><gpu dev='1' sm='80' rank='1'>"
                   "<nvlink target='0000:17:00.0' count='12' tclass='0x030200'/></gpu></pci>"
                   "</cpu></system>");
    REQUIRE(topo != NULL);
    CHECK_INT(path_rate(topo, 0, 1), 25000);
    CHECK_INT(path_rate(topo, 1, 0), 300000);
    CHECK(strstr(topo->source, "left out: 2 links to no other GPU of the file") != NULL);
    tutti_topo_free(topo);
}

/* A Broadcom PEX switch shows itself as two levels: one node, and its inner link is none. */
TEST(both_levels_of_a_pex_switch_are_one_switch)
{
    static const char upper[] = "vendor='0x1000' device='0xc010' subsystem_vendor='0x1000' "
                                "subsystem_device='0xa032' class='0x060400' ";
    char text[2048];
    struct tutti_topo *topo;

    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
    snprintf(text, sizeof(text),
             "<system version='1'><cpu numaid='0' " CPU_INTEL "><pci busid='0000:01:00.0' %s" GEN5
             "><pci busid='0000:02:00.0' %s" GEN4 "><pci busid='0000:03:00.0' " GEN5
             "><gpu dev='0' sm='90' rank='0'/></pci></pci>"
             "<pci busid='0000:04:00.0' class='0x060400' " GEN4 "><pci busid='0000:05:00.0' " GEN5
             "><gpu dev='1' sm='90' rank='1'/></pci></pci>"
             "</pci></cpu></system>",
             upper, upper);
    topo = machine(text);
    REQUIRE(topo != NULL);
    CHECK_INT(rate_of(topo, "gpu0", "pci0"), 63015);
    CHECK_INT(rate_of(topo, "gpu1", "pci0"), 0);
    CHECK_INT(rate_of(topo, "gpu1", "pci1"), 63015);
    CHECK_INT(rate_of(topo, "pci1", "pci0"), 31508);
    tutti_topo_free(topo);
}

/* Two functions of one card share its slot; two elements with one guid and port are one port. */
TEST(cards_and_ports_are_counted_once)
{
    struct tutti_topo *topo;

    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
    topo = machine("<system version='1'><cpu numaid='0' arch='x86_64' vendor='AuthenticAMD'>"
                   "<pci busid='0000:01:00.0'><gpu dev='0' sm='89' rank='0'/></pci>"
                   "<pci busid='0000:18:00.0' " GEN4 "><nic>"
                   "<net name='a' dev='0' speed='100000' port='1' guid='0xa'/></nic></pci>"
                   "<pci busid='0000:18:00.1' " GEN4 "><nic>"
                   "<net name='b' dev='1' speed='100000' port='2' guid='0xa'/></nic></pci>"
                   "<nic><net name='c' dev='2' speed='-1' port='0' guid='0xc'/>"
                   "<net name='d' dev='3' speed='1000' port='0' guid='0xc'/>"
                   "<net name='e' speed='1000' port='0' guid='0xe'/></nic>"
                   "</cpu></system>");
    REQUIRE(topo != NULL);
    CHECK_INT(rate_of(topo, "card0", "cpu0"), 31508);
    CHECK_INT(rate_of(topo, "card0", "nic0"), 12500);
    CHECK_INT(rate_of(topo, "card0", "nic1"), 12500);
    CHECK_INT(rate_of(topo, "cpu0", "nic2"), 1250);
    CHECK_INT(topo->node_count, 6);
    tutti_topo_free(topo);
}

/* Two hosts of one NVLink domain: told apart by host_hash, joined by NVSwitch alone. */
TEST(hosts_of_a_rack_are_joined_by_nvswitch)
{
    struct tutti_topo *topo;

    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
    topo = machine("<system version='1'><cpu host_hash='0x1' numaid='0' arch='arm64'>"
                   "<pci busid='0008:01:00.0'><gpu dev='0' sm='100' rank='0'>"
                   "<c2c bw='44712' count='10'/>"
                   "<nvlink target='fffffff:ffff:ff' count='18' tclass='0x068000'/>"
                   "</gpu></pci></cpu>"
                   "<cpu host_hash='0x2' numaid='0' arch='arm64'>"
                   "<pci busid='0008:01:00.0'><gpu dev='0' sm='100' rank='1'>"
                   "<nvlink target='fffffff:ffff:ff' count='18' tclass='0x068000'/>"
                   "</gpu></pci></cpu></system>");
    REQUIRE(topo != NULL);
    CHECK_INT(topo->host_count, 2);
    CHECK_INT(path_rate(topo, 0, 1), 900000);
    CHECK_INT(rate_of(topo, "cpu0", "cpu1"), 0);
    CHECK_INT(tutti_topo_node(topo, node_named(topo, "nvswitch")).host, UINT32_MAX);
    CHECK_INT(
        tutti_topo_link(topo, tutti_topo_out_link(topo, node_named(topo, "cpu0"), 0)).bytes_per_s,
        15754000000);
    tutti_topo_free(topo);
}

TEST(names_of_ports_tell_the_kind_of_network)
{
    static const struct {
        const char *names[2];
        enum tutti_net_kind kind;
    } cases[] = {
        {{"mlx5_0", "mlx5_1"}, TUTTI_NET_UNKNOWN}, /* InfiniBand or RoCE */
        {{"mlx5_ib0", "mlx5_ib1"}, TUTTI_NET_IB},  {{"rdmap16s27", "rdmap32s27"}, TUTTI_NET_EFA},
        {{"cxi0", "cxi1"}, TUTTI_NET_SLINGSHOT},   {{"eth0", "enp3s0f0"}, TUTTI_NET_TCP},
        {{"eth0", "mlx5_ib0"}, TUTTI_NET_IB}, /* the interface is for other things */
        {{"mlx5_0", "eth0"}, TUTTI_NET_UNKNOWN},
    };

    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[1024];
        struct tutti_topo *topo;

        snprintf(text, sizeof(text),
                 "<system version='1'><cpu numaid='0' arch='x86_64' vendor='AuthenticAMD'>"
                 "<pci busid='0000:23:00.0'><gpu dev='0' sm='80' rank='0'/></pci>"
                 "<pci busid='0000:26:00.0'><nic>"
                 "<net name='%s' dev='0' speed='100000' port='1' guid='0x1'/>"
                 "<net name='%s' dev='1' speed='100000' port='1' guid='0x2'/></nic></pci>"
                 "</cpu></system>",
                 cases[i].names[0], cases[i].names[1]);
        topo = machine(text);
        REQUIRE(topo != NULL);
        CHECK_INT(topo->net_kind, cases[i].kind);
        tutti_topo_free(topo);
    }
}

/* RCCL: version 2, gcn by number or by name; sm is the number of compute units and not used. */
TEST(xgmi_of_each_generation_has_its_rate)
{
    static const struct {
        const char *gcn;
        int64_t mega;
    } cases[] = {{"906", 46000},    {"908", 46000},    {"910", 50000},    {"940", 64000},
                 {"gfx90a", 50000}, {"gfx942", 64000}, {"gfx950", 76800}, {"gfx908", 46000}};

    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[1024];
        struct tutti_topo *topo;

        snprintf(text, sizeof(text),
                 "<system version='2'><cpu numaid='0' arch='x86_64' vendor='AuthenticAMD'>"
                 "<pci busid='0000:23:00.0'><gpu dev='0' sm='104' gcn='%s' rank='0'>"
                 "<xgmi target='0000:26:00.0' count='2' tclass='0x038000'/></gpu></pci>"
                 "<pci busid='0000:26:00.0'><gpu dev='1' sm='104' gcn='%s' rank='1'>"
                 "<xgmi target='0000:23:00.0' count='2' tclass='0x038000'/></gpu></pci>"
                 "</cpu></system>",
                 cases[i].gcn, cases[i].gcn);
        topo = machine(text);
        REQUIRE(topo != NULL);
        CHECK_INT(path_rate(topo, 0, 1), 2 * cases[i].mega);
        CHECK_INT(tutti_topo_link(topo, 0).kind == TUTTI_LINK_XGMI ||
                      tutti_topo_link(topo, topo->link_count - 1).kind == TUTTI_LINK_XGMI,
                  1);
        tutti_topo_free(topo);
    }
}

/* ---- what is refused ---- */

#define GPU0 "<pci busid='0000:01:00.0'><gpu dev='0' sm='90' rank='0'>"
#define ONE(inside) \
    "<system version='1'>\n<cpu numaid='0'>\n" GPU0 inside "</gpu></pci>\n</cpu>\n</system>\n"

static const char *const refused[] = {
    "",
    "   \n",
    "not xml",
    "<system version='1'>\n<cpu numaid='0'>\n<pci busid='0000:01",
    "<system version='1'>\n<cpu numaid='0'>\n</pci>\n</system>",
    "<system version='1'></system>\n<system version='1'></system>",
    "<system version='1'>\xff\xfe</system>",
    "<system version='1' version='1'/>",
    "<!DOCTYPE system [<!ENTITY a 'aaaaaaaa'><!ENTITY b '&a;&a;&a;&a;'>]><system name='&b;'/>",
    "<!DOCTYPE system SYSTEM 'file:///etc/passwd'><system version='1'/>",
    "<system version='1'><cpu numaid='&unknown;'/></system>",
    "<?xml version='1.0' encoding='EBCDIC-XYZ'?><system version='1'/>",
    "<graphs version='1'/>",
    "<html/>",
    "<a&#10;b/>",
    "<system/>",
    "<system version='3'/>",
    "<system version='&#10;evil'/>",
    "<system version='1'><cpu numaid='0'><pci busid='0000:01:00.0'/></cpu></system>",
    "<system version='2'>\n<group name='x'><cpu><pci><gpu dev='0'/></pci></cpu></group></system>",
    "<system version='1'><cpu numaid='0'><gpu dev='0' rank='0'/></cpu></system>",
    ONE("<nvlink target='0000:02:00.0' count='many' tclass='0x030200'/>"),
    ONE("<nvlink target='0000:02:00.0' count='-1' tclass='0x030200'/>"),
    ONE("<xgmi target='0000:02:00.0' count='1'/>"),
    ONE("<c2c bw='1e9' count='1'/>"),
    "<system version='1'>\n<cpu><pci busid='1'><gpu rank='0'>\n<nvlink target='1' "
    "tclass='0x068000'/>"
    "</gpu></pci></cpu></system>",
    "<system version='1'><cpu>\n<pci busid='1' link_width='wide'><gpu "
    "rank='0'/></pci></cpu></system>",
    "<system version='1'><cpu><pci busid='1'><gpu rank='x'/></pci></cpu></system>",
    "<system version='1'><cpu><pci busid='1'><gpu "
    "rank='99999999999999999999'/></pci></cpu></system>",
    "<system version='1'><cpu>\n<pci busid='1'><gpu rank='3'/></pci>\n"
    "<pci busid='2'><gpu rank='3'/></pci></cpu></system>",
    "<system version='1'><cpu host_hash='1'><pci busid='1'><gpu rank='0'/></pci></cpu>"
    "<cpu host_hash='2'><pci busid='1'><gpu rank='1'/></pci></cpu></system>",
    "<system version='1'><cpu><pci busid='1'><gpu rank='0'/></pci>\n"
    "<nic><net dev='0' speed='fast'/></nic></cpu></system>",
    "<system version='1'><cpu familyid='six'><pci busid='1'><gpu rank='0'/></pci></cpu></system>",
};

/* `before` nested elements, or the same one many times. */
static char *grown(const char *part, size_t count, const char *rest)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    fputs("<system version='1'>", out);
    for (size_t i = 0; i < count; i++)
        fputs(part, out);
    fputs(rest, out);
    fclose(out);
    return text;
}

static void print_refusal(FILE *out, const char *text, size_t bytes)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    int status = tutti_nccl_xml_parse("bad.xml", text, bytes, &topo, &err);

    CHECK_INT(status, -TUTTI_EINVAL);
    CHECK(topo == NULL);
    CHECK(strchr(err.text, '\n') == NULL);
    fprintf(out, "%s\n", err.text);
    CHECK_INT(tutti_nccl_xml_parse("bad.xml", text, bytes, &topo, NULL), -TUTTI_EINVAL);
    tutti_topo_free(topo);
}

TEST(what_is_no_machine_is_refused_with_a_line_and_a_reason)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out;
    char *deep;

    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
    out = open_memstream(&text, &bytes);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        print_refusal(out, refused[i], strlen(refused[i]));
    print_refusal(out, "<system\0version='1'/>", 21);
    print_refusal(out, "\xff\xfe<\0s\0", 6);
    deep = grown("<cpu>\n", 100, "");
    print_refusal(out, deep, strlen(deep));
    free(deep);
    deep = grown("<cpu/>", 70000, "</system>");
    print_refusal(out, deep, strlen(deep));
    free(deep);
    deep = grown("<cpu><pci busid='1'><gpu/></pci></cpu>", 600, "</system>");
    print_refusal(out, deep, strlen(deep));
    free(deep);
    fclose(out);
    test_golden("nccl_xml_refused.txt", text);
    free(text);
}

/* Every prefix of a good file is refused, never half believed. */
TEST(a_truncated_file_is_refused_wherever_it_ends)
{
    size_t bytes = 0;
    char *text = test_read_file(TUTTI_SOURCE_DIR "/tools/examples/h100x8.xml", &bytes);
    size_t refusals = 0;

    REQUIRE(text != NULL);
    if (tutti_nccl_xml_available()) {
        size_t last = bytes;

        while (last > 0 && text[last - 1] != '>')
            last--;
        for (size_t n = 0; n < last; n += 7, refusals++) {
            struct tutti_topo *topo = NULL;

            CHECK_INT(tutti_nccl_xml_parse("cut.xml", text, n, &topo, NULL), -TUTTI_EINVAL);
        }
        CHECK(refusals > 100);
    }
    free(text);
    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
}

/* Windows line ends and UTF-16 are XML too. */
TEST(crlf_and_utf16_are_read)
{
    static const char text[] = "<?xml version='1.0'?>\r\n<system version='1'>\r\n<cpu>\r\n"
                               "<pci busid='1'><gpu rank='0'/></pci></cpu></system>\r\n";
    char wide[2 * sizeof(text)] = "\xff\xfe";
    struct tutti_topo *topo = NULL;
    struct tutti_err err;

    if (!tutti_nccl_xml_available())
        SKIP("this build is without libexpat");
    tutti_topo_free(machine(text));
    for (size_t i = 0; i + 1 < sizeof(text); i++) {
        wide[2 + 2 * i] = text[i];
        wide[3 + 2 * i] = '\0';
    }
    CHECK_OK(tutti_nccl_xml_parse("wide.xml", wide, 2 * sizeof(text), &topo, &err), err);
    REQUIRE(topo != NULL);
    CHECK_INT(topo->rank_count, 1);
    tutti_topo_free(topo);
}

TEST(a_build_without_expat_says_so)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err;

    if (tutti_nccl_xml_available())
        SKIP("this build has libexpat");
    CHECK_INT(tutti_nccl_xml_parse("a.xml", "<system/>", 9, &topo, &err), -TUTTI_ELACK);
    CHECK_TEXT(err.text, "a.xml: this build cannot read XML (build with libexpat: Debian's "
                         "libexpat1-dev)");
}
