/* Tests of the vendors' machines: each is built, counted and held against published figures. */
#include "runtime/status.h"
#include "tests/machines.h"
#include "tests/test.h"
#include "topo/hardware.h"
#include "topo/topo.h"

static void expect_refusal(const char *spec, const char *message)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_topo_from_spec(spec, &topo, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, message);
    CHECK(topo == NULL);
}

/* The rate out of a device over links of one kind. */
static uint64_t egress(const struct tutti_topo *topo, uint32_t rank, enum tutti_link_kind kind)
{
    uint32_t v = tutti_topo_rank_node(topo, rank);
    uint64_t sum = 0;

    for (uint32_t i = 0; i < tutti_topo_out_count(topo, v); i++)
        if (tutti_topo_link(topo, tutti_topo_out_link(topo, v, i)).kind == kind)
            sum += tutti_topo_link(topo, tutti_topo_out_link(topo, v, i)).bytes_per_s;
    return sum;
}

/* The link between two ranks; none: of no rate. */
static struct tutti_link link_of(const struct tutti_topo *topo, uint32_t a, uint32_t b)
{
    uint32_t v = tutti_topo_rank_node(topo, a);

    for (uint32_t i = 0; i < tutti_topo_out_count(topo, v); i++)
        if (tutti_topo_link(topo, tutti_topo_out_link(topo, v, i)).to ==
            tutti_topo_rank_node(topo, b))
            return tutti_topo_link(topo, tutti_topo_out_link(topo, v, i));
    return (struct tutti_link){.bytes_per_s = 0};
}

static uint32_t cables(const struct tutti_topo *topo, uint32_t a, uint32_t b)
{
    return link_of(topo, a, b).cable_count;
}

static uint32_t switches_that_reduce(const struct tutti_topo *topo)
{
    uint32_t count = 0;

    for (uint32_t v = 0; v < topo->node_count; v++)
        count += tutti_topo_node(topo, v).reduces;
    return count;
}

/* NVLinks of a GPU by its maker's page on NVLink, generation by generation (1st 4, 2nd 6, 3rd 12,
 * 4th and 5th 18), and as the drivers list them: NCCL counts its channels by them (H100: 24 where
 * it finds 18, 28 where 17). */
TEST(gpus_of_presets_have_as_many_nvlinks_as_they_are_made_with)
{
    static const struct {
        const char *spec;
        uint32_t links;
    } cases[] = {
        {"dgx-1p", 4},        {"dgx-1v", 6},         {"dgx-2", 6},          {"dgx-a100", 12},
        {"dgx-h100", 18},     {"hgx-h200", 18},      {"hgx-b200", 18},      {"gb200-nvl72", 18},
        {"host:gpu=v100", 6}, {"host:gpu=a100", 12}, {"host:gpu=h100", 18}, {"host:gpu=b200", 18},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_topo *topo = machine(cases[i].spec);
        const struct tutti_hardware *hw;
        uint32_t links = 0;

        REQUIRE(topo != NULL);
        hw = topo->hardware;
        for (uint32_t l = 0; l < hw->nvlink_count; l++)
            links += hw->nvlinks[l].gpu == 0 ? hw->nvlinks[l].count : 0;
        if (links != cases[i].links)
            TEST_FAIL("%s: %u NVLinks a GPU, made with %u", cases[i].spec, links, cases[i].links);
        tutti_topo_free(topo);
    }
}

/* One line a preset of what users see, so that no default changes unnoticed. */
TEST(the_table_of_presets_is_known)
{
    size_t count;
    const struct tutti_preset *presets = tutti_presets(&count);
    char *text = calloc(count, 2048);
    size_t used = 0;

    REQUIRE(text != NULL);
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, 2048,
                                 "%s\n    %s\n    keys: %s\n    source: %s\n    example: %s\n",
                                 presets[i].name, presets[i].summary, presets[i].keys,
                                 presets[i].source, presets[i].example);
    test_golden("presets.txt", text);
    free(text);
}

/* A GPU machine as sold: GPUs, their rate inside the host, peak, and whether it reduces. */
struct sold {
    const char *name;
    uint32_t gpus;
    enum tutti_link_kind kind;
    uint64_t out_giga;
    uint64_t flops_tera;
    uint64_t node_out_giga; /* of its NICs together */
    bool reduces;
};

static const struct sold sold[] = {
    {"dgx-1p", 8, TUTTI_LINK_NVLINK, 80, 21, 50, false},
    {"dgx-1v", 8, TUTTI_LINK_NVLINK, 150, 125, 50, false},
    {"dgx-2", 16, TUTTI_LINK_NVLINK, 150, 125, 100, false},
    {"dgx-a100", 8, TUTTI_LINK_NVLINK, 300, 312, 200, false},
    {"dgx-h100", 8, TUTTI_LINK_NVLINK, 450, 989, 400, true},
    {"hgx-h200", 8, TUTTI_LINK_NVLINK, 450, 989, 400, true},
    {"hgx-b200", 8, TUTTI_LINK_NVLINK, 900, 2250, 400, true},
    {"hgx-b300", 8, TUTTI_LINK_NVLINK, 900, 2250, 800, true},
    {"gb200-nvl72", 72, TUTTI_LINK_NVLINK, 900, 2500, 3600, true},
    {"mi300x", 8, TUTTI_LINK_XGMI, 448, 1307, 400, false},
};

TEST(each_gpu_sends_as_fast_as_its_data_sheet_says)
{
    for (size_t i = 0; i < sizeof(sold) / sizeof(sold[0]); i++) {
        struct tutti_topo *topo = machine(sold[i].name);

        CHECK_INT(topo->rank_count, sold[i].gpus);
        CHECK_INT(topo->host_count, 1);
        CHECK_INT(switches_that_reduce(topo), sold[i].reduces ? 1 : 0);
        for (uint32_t r = 0; r < topo->rank_count; r++) {
            CHECK_INT(egress(topo, r, sold[i].kind), sold[i].out_giga * GIGA);
            CHECK_INT(tutti_topo_node(topo, tutti_topo_rank_node(topo, r)).flops_per_s,
                      sold[i].flops_tera * 1000 * GIGA);
            CHECK(tutti_topo_node(topo, tutti_topo_rank_node(topo, r)).mem_bytes_per_s > 0);
        }
        tutti_topo_free(topo);
    }
}

TEST(two_nodes_meet_at_the_rate_of_their_nics)
{
    for (size_t i = 0; i < sizeof(sold) / sizeof(sold[0]); i++) {
        char spec[64];
        struct tutti_topo *topo;
        uint64_t out = 0;

        snprintf(spec, sizeof(spec), "%s:nodes=2", sold[i].name);
        topo = machine(spec);
        CHECK_INT(topo->rank_count, 2 * sold[i].gpus);
        CHECK_INT(topo->host_count, 2);
        CHECK_INT(topo->shape.level_count, 2);
        CHECK_INT(topo->shape.level[0], sold[i].gpus);
        for (uint32_t l = 0; l < topo->link_count; l++)
            if (tutti_topo_link(topo, l).kind == TUTTI_LINK_NET &&
                tutti_topo_node(topo, tutti_topo_link(topo, l).from).host == 0)
                out += tutti_topo_link(topo, l).bytes_per_s;
        CHECK_INT(out, sold[i].node_out_giga * GIGA);
        CHECK(tutti_topo_route(topo, 0, sold[i].gpus, NULL, 0) >= 4);
        tutti_topo_free(topo);
    }
}

/* microsoft/msccl-tools, topologies/nvidia.py: the pairs of a DGX-1 with V100, two links or one. */
TEST(the_wiring_of_dgx_1v_is_the_published_one)
{
    static const uint8_t pairs[][3] = {
        {0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
        {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
    static const uint32_t ring[] = {0, 3, 2, 1, 5, 6, 7, 4};
    struct tutti_topo *topo = machine("dgx-1v");
    uint32_t used[8][8] = {{0}};
    uint32_t sum = 0;

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        CHECK_INT(cables(topo, pairs[i][0], pairs[i][1]), pairs[i][2]);
        CHECK_INT(cables(topo, pairs[i][1], pairs[i][0]), pairs[i][2]);
    }
    for (uint32_t l = 0; l < topo->link_count; l++)
        sum += tutti_topo_link(topo, l).cable_count;
    CHECK_INT(sum, 48); /* 24 cables, both ways: 6 a GPU, and no other pair has any */
    for (uint32_t i = 0; i < 8; i++) {
        CHECK_INT(topo->shape.orders[i], ring[i]);
        CHECK_INT(cables(topo, ring[i], ring[(i + 1) % 8]), 2);
    }
    /* The six rings together use each cable once each way. */
    REQUIRE(topo->shape.order_count == 6);
    for (uint32_t o = 0; o < 6; o++)
        for (uint32_t i = 0; i < 8; i++)
            used[topo->shape.orders[o * 8 + i]][topo->shape.orders[o * 8 + (i + 1) % 8]]++;
    for (uint32_t a = 0; a < 8; a++)
        for (uint32_t b = 0; b < 8; b++)
            CHECK_INT(used[a][b], cables(topo, a, b));
    tutti_topo_free(topo);
}

TEST(rings_of_wired_hosts_use_every_link_once_each_way)
{
    static const char *const specs[] = {"dgx-1p", "mi300x"};

    for (size_t s = 0; s < 2; s++) {
        struct tutti_topo *topo = machine(specs[s]);
        uint32_t used[8][8] = {{0}};

        for (uint32_t o = 0; o < topo->shape.order_count; o++)
            for (uint32_t i = 0; i < 8; i++)
                used[topo->shape.orders[o * 8 + i]][topo->shape.orders[o * 8 + (i + 1) % 8]]++;
        for (uint32_t a = 0; a < 8; a++)
            for (uint32_t b = 0; b < 8; b++)
                CHECK_INT(used[a][b], cables(topo, a, b));
        tutti_topo_free(topo);
    }
}

TEST(the_boards_of_dgx_2_meet_at_full_rate)
{
    struct tutti_topo *topo = machine("dgx-2");
    uint64_t trunk = 0;

    for (uint32_t l = 0; l < topo->link_count; l++)
        if (tutti_topo_node(topo, tutti_topo_link(topo, l).from).kind == TUTTI_NODE_SWITCH &&
            tutti_topo_node(topo, tutti_topo_link(topo, l).to).kind == TUTTI_NODE_SWITCH)
            trunk += tutti_topo_link(topo, l).bytes_per_s;
    CHECK_INT(trunk, 2400 * GIGA); /* both ways */
    CHECK_INT(tutti_topo_route(topo, 0, 7, NULL, 0), 2);
    CHECK_INT(tutti_topo_route(topo, 0, 8, NULL, 0), 3);
    tutti_topo_free(topo);
}

TEST(a_rack_is_a_node_of_72)
{
    struct tutti_topo *topo = machine("gb200-nvl72:racks=3");

    CHECK_INT(topo->rank_count, 216);
    CHECK_INT(topo->shape.level[0], 72);
    CHECK_INT(topo->shape.level[1], 3);
    tutti_topo_free(topo);
    expect_refusal("gb200-nvl72:racks=3,nodes=2",
                   "preset 'gb200-nvl72': 'racks=3' and 'nodes=2' disagree (a rack is one NVLink "
                   "node: give one of them)");
}

TEST(a_pcie_server_hangs_its_gpus_where_it_is_told)
{
    struct tutti_topo *topo = machine("pcie:gpus=8,sockets=2,switches=4,gen=5");

    CHECK_INT(topo->node_count, 8 + 4 + 2);
    CHECK_INT(egress(topo, 0, TUTTI_LINK_PCIE), 63015 * GIGA / 1000);
    CHECK_INT(tutti_topo_route(topo, 0, 1, NULL, 0), 2); /* one switch */
    CHECK_INT(tutti_topo_route(topo, 0, 2, NULL, 0), 4); /* one socket */
    CHECK_INT(tutti_topo_route(topo, 0, 7, NULL, 0), 5); /* both */
    tutti_topo_free(topo);
    topo = machine("pcie:gpus=2,switches=0,sockets=2,nodes=2,nics=1");
    CHECK_INT(topo->rank_count, 4);
    CHECK_INT(tutti_topo_route(topo, 0, 1, NULL, 0), 3);
    tutti_topo_free(topo);
    expect_refusal("pcie:switches=3", "preset 'pcie': 'switches=3' do not spread evenly over "
                                      "'sockets=2' (a multiple of the sockets, or 0)");
    expect_refusal("pcie:gpus=6", "preset 'pcie': 'gpus=6' do not spread evenly over 4 switches "
                                  "(a multiple of them)");
    expect_refusal("pcie:gen=7", "preset 'pcie': key 'gen': out of range '7' (3 to 6)");
}

/* ---- TPU ----------------------------------------------------------------------------------------
 */

struct cut {
    const char *spec;
    uint32_t chips;
    uint32_t hosts;
    bool wrap[3];
};

/* Cloud TPU pages, jax-ml/scaling-book: v5e and v6e axes wrap at 16, cubes from 4x4x4 on. */
TEST(slices_wrap_where_the_rules_say)
{
    static const struct cut cuts[] = {
        {"tpu-v2", 256, 64, {true, true}},
        {"tpu-v2:8x16", 128, 32, {false, true}},
        {"tpu-v3", 1024, 128, {true, true}},
        {"tpu-v3:16x32", 512, 64, {false, true}},
        {"tpu-v3:16x16", 256, 32, {false, false}},
        {"tpu-v5e", 256, 32, {true, true}},
        {"tpu-v5e:8x16", 128, 16, {false, true}},
        {"tpu-v5e:16x8", 128, 16, {true, false}},
        {"tpu-v5e:8x8", 64, 8, {false, false}},
        {"tpu-v5e:4x8", 32, 4, {false, false}},
        {"tpu-v5e:2x4", 8, 1, {false, false}},
        {"tpu-v5e:1x1", 1, 1, {false, false}},
        {"tpu-v6e:16x16", 256, 32, {true, true}},
        {"tpu-v4:2x2x1", 4, 1, {false, false, false}},
        {"tpu-v4:2x2x4", 16, 4, {false, false, false}},
        {"tpu-v4:2x4x4", 32, 8, {false, false, false}},
        {"tpu-v4", 64, 16, {true, true, true}},
        {"tpu-v4:4x4x8", 128, 32, {true, true, true}},
        {"tpu-v4:16x16x16", 4096, 1024, {true, true, true}},
        {"tpu-v5p:16x20x28", 8960, 2240, {true, true, true}},
        {"tpu-v5p:16x16x24", 6144, 1536, {true, true, true}},
        {"tpu-v7x:2x2x2", 8, 2, {false, false, false}},
        {"tpu-v7x:16x16x36", 9216, 2304, {true, true, true}},
    };

    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        struct tutti_topo *topo = machine(cuts[i].spec);

        CHECK_INT(topo->rank_count, cuts[i].chips);
        CHECK_INT(topo->host_count, cuts[i].hosts);
        for (uint32_t d = 0; d < topo->shape.dim_count; d++)
            if (topo->shape.wrap[d] != cuts[i].wrap[d])
                TEST_FAIL("%s: axis %u", cuts[i].spec, d);
        tutti_topo_free(topo);
    }
}

/* Links counted one by one: a wrapped axis of n has n of them, another n - 1. */
TEST(a_slice_has_the_links_of_its_grid)
{
    struct tutti_topo *topo = machine("tpu-v5e:8x16");

    CHECK_INT(topo->link_count, 2 * (7 * 16 + 8 * 16));
    CHECK(link_of(topo, 0, 8 * 15).bytes_per_s > 0);
    CHECK(link_of(topo, 0, 7).bytes_per_s == 0);
    tutti_topo_free(topo);
    topo = machine("tpu-v4:2x2x1");
    CHECK_INT(topo->link_count, 2 * 4);
    tutti_topo_free(topo);
}

TEST(shapes_that_no_pod_offers_are_refused)
{
    expect_refusal("tpu-v5e:3x3", "preset 'tpu-v5e': no slice has the shape '3x3' (1x1, 2x2, 2x4, "
                                  "4x4, 4x8, 8x8, 8x16, 16x16, either way round)");
    expect_refusal("tpu-v4:2x2x3",
                   "preset 'tpu-v4': no slice has the shape '2x2x3' (2x2x1, 2x2x2, 2x2x4, 2x4x4, "
                   "or every axis a multiple of 4)");
    expect_refusal("tpu-v4:16x16x20",
                   "preset 'tpu-v4': a slice of 5120 chips is larger than the pod (at most 4096; "
                   "slices=N joins several)");
    expect_refusal("tpu-v4:8x8x8,twist=on",
                   "preset 'tpu-v4': the shape '8x8x8' has no twist (n x n x 2n or n x 2n x 2n "
                   "with n a multiple of 4)");
    expect_refusal("tpu-v4:4x4x8,twist=maybe",
                   "preset 'tpu-v4': wrong twist 'maybe' (auto, on or off)");
    expect_refusal("tpu-v2:slices=2", "unknown key 'slices' of preset 'tpu-v2' (16x16, bw=, lat=)");
}

/* Hops from rank 0 to all others; a torus looks the same from every chip. */
static void hops(const char *spec, uint32_t *ret_longest, uint32_t *ret_mean_1000)
{
    struct tutti_topo *topo = machine(spec);
    uint64_t sum = 0;

    *ret_longest = 0;
    for (uint32_t r = 1; r < topo->rank_count; r++) {
        uint32_t count = tutti_topo_route(topo, 0, r, NULL, 0);

        sum += count;
        *ret_longest = count > *ret_longest ? count : *ret_longest;
    }
    *ret_mean_1000 = (uint32_t)((sum * 1000 + (topo->rank_count - 1) / 2) / (topo->rank_count - 1));
    tutti_topo_free(topo);
}

/* Diameter and mean distance of twisted tori (Camara et al. 2010), by search over the graph of
 * the published geometry: 4x4x8 from 8, 4.03 to 6, 3.47; 4x8x8 from 10, 5.02 to 6, 4.33. */
TEST(the_twist_shortens_the_ways_as_published)
{
    uint32_t longest;
    uint32_t mean;

    hops("tpu-v4:4x4x8,twist=off", &longest, &mean);
    CHECK_INT(longest, 8);
    CHECK_INT(mean, 4031);
    hops("tpu-v4:4x4x8", &longest, &mean);
    CHECK_INT(longest, 6);
    CHECK_INT(mean, 3465);
    hops("tpu-v4:4x8x8,twist=off", &longest, &mean);
    CHECK_INT(longest, 10);
    CHECK_INT(mean, 5020);
    hops("tpu-v4:4x8x8,twist=on", &longest, &mean);
    CHECK_INT(longest, 6);
    CHECK_INT(mean, 4329);
}

TEST(slices_meet_in_the_data_centre_network)
{
    struct tutti_topo *topo = machine("tpu-v5e:16x16,slices=2");
    uint64_t out = 0;

    CHECK_INT(topo->rank_count, 512);
    CHECK_INT(topo->host_count, 64);
    CHECK_INT(topo->shape.level[0], 256);
    CHECK_INT(topo->shape.level[1], 2);
    for (uint32_t l = 0; l < topo->link_count; l++)
        if (tutti_topo_link(topo, l).kind == TUTTI_LINK_DCN &&
            tutti_topo_node(topo, tutti_topo_link(topo, l).from).kind == TUTTI_NODE_NIC)
            out += tutti_topo_link(topo, l).bytes_per_s;
    CHECK_INT(out, 512 * UINT64_C(3125000000)); /* 25 Gb/s a chip */
    CHECK_INT(tutti_topo_route(topo, 0, 256, NULL, 0), 4);
    tutti_topo_free(topo);
}

/* Cloud TPU pages print a pod's "all-reduce bandwidth": all one-way link rates together. */
TEST(pods_add_up_to_the_published_totals)
{
    static const struct {
        const char *spec;
        uint64_t tera;
    } pods[] = {{"tpu-v4:16x16x16", 1105}, {"tpu-v5e", 51}, {"tpu-v6e", 102}};

    for (size_t i = 0; i < sizeof(pods) / sizeof(pods[0]); i++) {
        struct tutti_topo *topo = machine(pods[i].spec);
        uint64_t sum = 0;

        for (uint32_t l = 0; l < topo->link_count; l++)
            sum += tutti_topo_link(topo, l).bytes_per_s;
        CHECK_INT(sum / (1000 * GIGA), pods[i].tera);
        tutti_topo_free(topo);
    }
}

/* Refused before anything is allocated: by what there would be, not by running out. */
TEST(machines_too_large_for_memory_are_refused_at_once)
{
    expect_refusal("torus:100000x100000",
                   "preset 'torus': grid '100000x100000' is too large (at most 16777216 devices)");
    expect_refusal("torus:256x256x256",
                   "'torus:256x256x256' has 16777216 nodes and 100663296 links, too many (at most "
                   "33554432 and 67108864)");
    expect_refusal("fattree:arity=16,levels=6",
                   "'fattree:arity=16,levels=6' has 23068672 nodes and 201326592 links, too many "
                   "(at most 33554432 and 67108864)");
    expect_refusal("dgx-h100:nodes=1000000,group=1,spines=1000",
                   "'dgx-h100:nodes=1000000,group=1,spines=1000' has 25001000 nodes and "
                   "16048000000 links, too many (at most 33554432 and 67108864)");
    expect_refusal("tpu-v5e:16x16,slices=65536",
                   "'tpu-v5e:16x16,slices=65536' has 33554432 nodes and 134217728 links, too many "
                   "(at most 33554432 and 67108864)");
}
