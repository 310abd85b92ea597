/* What a calibrated protocol adds to the links: the pace of connections, the share of links, and
 * which routes are of which kind. */
#include "sim/play/wires.h"
#include "sim/protocol.h"
#include "tests/sim/sim_world.h"

#define TWO_RANKS "2 ranks 0 switches, 0-1 50GB/s 1us"

static const enum tutti_model models[] = {TUTTI_MODEL_ALPHABETA, TUTTI_MODEL_FAIR};

/* Two messages of 50 000 B (1 us at the rate of the link) on as many lanes, or on one. */
static tutti_ps play_two(const struct tutti_protocol *protocol, enum tutti_model model, bool lanes)
{
    struct story story = story_begin(TWO_RANKS);
    tutti_ps total_ps;

    story.opts.model = model;
    story.opts.protocol = protocol;
    for (uint32_t i = 0; i < 2; i++) {
        story.lane = lanes ? i : 0;
        sends(&story, 0, 1, 50000);
        receives(&story, 1, 0, 50000);
    }
    story_play(&story);
    CHECK_OK(story.status, story.err);
    total_ps = story.played.total_ps;
    story_end(&story);
    return total_ps;
}

TEST(a_lane_has_its_own_rate_while_the_link_has_room)
{
    struct tutti_protocol slow = {.name = "slow", .wire_num = 1, .wire_den = 1};

    slow.lane_bytes_per_s[TUTTI_HOP_NVLINK] = 10000000000; /* 5 us a message */
    CHECK_INT(play_two(&slow, TUTTI_MODEL_FAIR, true), 1000000 + 5000000);
    CHECK_INT(play_two(&slow, TUTTI_MODEL_FAIR, false), 1000000 + 10000000);
    /* The link takes one message after the other, and is through with the first after 1 us. */
    CHECK_INT(play_two(&slow, TUTTI_MODEL_ALPHABETA, true), 1000000 + 1000000 + 5000000);
    CHECK_INT(play_two(&slow, TUTTI_MODEL_ALPHABETA, false), 1000000 + 10000000);
}

TEST(lanes_that_are_too_fast_for_the_link_share_it)
{
    struct tutti_protocol fast = {.name = "fast", .wire_num = 1, .wire_den = 1};

    fast.lane_bytes_per_s[TUTTI_HOP_NVLINK] = 40000000000;
    CHECK_INT(play_two(&fast, TUTTI_MODEL_FAIR, true), 1000000 + 2000000);
    CHECK_INT(play_two(&fast, TUTTI_MODEL_FAIR, false), 1000000 + 2500000);
    CHECK_INT(play_two(&fast, TUTTI_MODEL_ALPHABETA, true), 1000000 + 1000000 + 1250000);
}

TEST(rates_of_lanes_are_those_of_data)
{
    struct tutti_protocol twice = {.name = "twice", .wire_num = 2, .wire_den = 1};

    twice.lane_bytes_per_s[TUTTI_HOP_NVLINK] = 10000000000; /* 20 GB/s of 100 000 B: 5 us */
    for (int i = 0; i < 2; i++)
        CHECK_INT(play_two(&twice, models[i], false), 1000000 + 10000000);
}

TEST(slices_keep_messages_of_a_connection_apart)
{
    struct tutti_protocol sliced = {.name = "sliced", .wire_num = 1, .wire_den = 1};

    sliced.slice_ps[TUTTI_HOP_NVLINK] = 2000000;
    sliced.message_ps[TUTTI_HOP_NVLINK] = 300000; /* these overlap */
    for (int i = 0; i < 2; i++)
        CHECK_INT(play_two(&sliced, models[i], false), 1300000 + 2 * (2000000 + 1000000));
    CHECK_INT(play_two(&sliced, TUTTI_MODEL_FAIR, true), 1300000 + 2000000 + 2000000);
    CHECK_INT(play_two(&sliced, TUTTI_MODEL_ALPHABETA, true), 1300000 + 1000000 + 3000000);
}

TEST(links_give_no_more_than_their_share)
{
    struct tutti_protocol part = {.name = "part", .wire_num = 1, .wire_den = 1};

    part.link_ppm[TUTTI_HOP_NVLINK] = 800000; /* 40 GB/s: 1.25 us a message */
    for (int i = 0; i < 2; i++) {
        CHECK_INT(play_two(&part, models[i], true), 1000000 + 2500000);
        CHECK_INT(play_two(&part, models[i], false), 1000000 + 2500000);
    }
    part.link_ppm[TUTTI_HOP_NVLINK] = TUTTI_PPM;
    CHECK_INT(play_two(&part, TUTTI_MODEL_FAIR, true), 1000000 + 2000000);
    CHECK_INT(tutti_protocol_link_rate(&part, TUTTI_HOP_NVLINK, 7), 7);
    part.link_ppm[TUTTI_HOP_NVLINK] = 1;
    CHECK_INT(tutti_protocol_link_rate(&part, TUTTI_HOP_NVLINK, 7), 1); /* never nothing */
    CHECK_INT(tutti_protocol_link_rate(&part, TUTTI_HOP_NET, 7), 7);
}

/* ---- kinds of hops --------------------------------------------------------------------------- */

static enum tutti_hop hop_between(const struct tutti_topo *topo, uint32_t from, uint32_t to)
{
    uint32_t links[16];

    return tutti_route_hop(topo, links, tutti_topo_route(topo, from, to, links, 16));
}

TEST(a_route_is_of_its_slowest_kind)
{
    static const char text[] = "topology kinds\n"
                               "node a device\n"
                               "node b device\n"
                               "node c device\n"
                               "node d device\n"
                               "node e device\n"
                               "node plx switch\n"
                               "node cpu0 cpu\n"
                               "node cpu1 cpu\n"
                               "node out switch\n"
                               "cable a plx pcie 20GB/s 100ns\n"
                               "cable b plx pcie 20GB/s 100ns\n"
                               "cable plx cpu0 pcie 20GB/s 100ns\n"
                               "cable c cpu0 pcie 20GB/s 100ns\n"
                               "cable cpu0 cpu1 cpu 20GB/s 100ns\n"
                               "cable d cpu1 c2c 20GB/s 100ns\n"
                               "cable plx out net 20GB/s 100ns\n"
                               "cable e out net 20GB/s 100ns\n"
                               "cable a e xgmi 2GB/s 100ns\n";
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_parse("kinds", text, sizeof(text) - 1, &topo, &err), err);
    CHECK_INT(hop_between(topo, 0, 1), TUTTI_HOP_PCI);
    CHECK_INT(hop_between(topo, 0, 2), TUTTI_HOP_HOST); /* PCIe all the way, but through a CPU */
    CHECK_INT(hop_between(topo, 2, 3), TUTTI_HOP_HOST);
    CHECK_INT(hop_between(topo, 1, 4), TUTTI_HOP_NET);
    CHECK_INT(hop_between(topo, 0, 4), TUTTI_HOP_XGMI);
    tutti_topo_free(topo);
}

/* The number of a link by the names of its ends. */
static uint32_t link_of(const struct tutti_topo *topo, const char *from, const char *to)
{
    for (uint32_t i = 0; i < topo->link_count; i++) {
        struct tutti_link link = tutti_topo_link(topo, i);
        char first[TUTTI_NODE_NAME_BYTES];
        char last[TUTTI_NODE_NAME_BYTES];

        if (strcmp(tutti_topo_node_name(topo, link.from, first), from) == 0 &&
            strcmp(tutti_topo_node_name(topo, link.to, last), to) == 0)
            return i;
    }
    TEST_FAIL("no link from '%s' to '%s'", from, to);
    return 0;
}

static enum tutti_hop hop_of(const struct tutti_topo *topo, const char *from, const char *to)
{
    return tutti_link_hop(topo, link_of(topo, from, to));
}

/* What two cards move through the CPU that they hang off is less than PCIe carries below a switch;
 * the NIC's own link to that CPU is not what binds. */
TEST(a_link_into_a_cpu_is_of_its_own_kind)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    struct tutti_protocol half = {.name = "simple", .wire_num = 1, .wire_den = 1};
    uint32_t links[16];
    uint32_t count;

    CHECK_OK(
        tutti_topo_from_spec("host:gpu=a100-pcie,gpus=2,sockets=1,nics=1,nodes=2", &topo, &err),
        err);
    CHECK_INT(hop_of(topo, "gpu0.0", "cpu0.0"), TUTTI_HOP_ROOT);
    CHECK_INT(hop_of(topo, "cpu0.0", "gpu0.1"), TUTTI_HOP_ROOT);
    CHECK_INT(hop_of(topo, "nic0.0", "cpu0.0"), TUTTI_HOP_PCI);
    CHECK_INT(hop_between(topo, 0, 1), TUTTI_HOP_HOST); /* which is what messages are of */
    CHECK_INT(hop_between(topo, 0, 2), TUTTI_HOP_NET);
    half.link_ppm[TUTTI_HOP_ROOT] = TUTTI_PPM / 2;
    count = tutti_topo_route(topo, 0, 1, links, 16);
    CHECK_INT(tutti_route_weigh(topo, &half, links, count).bytes_per_s, 31508 * UINT64_C(500000));
    tutti_topo_free(topo);
    CHECK_OK(tutti_topo_from_spec("host:gpu=a100-pcie,gpus=2,switches=1", &topo, &err), err);
    CHECK_INT(hop_of(topo, "gpu0", "pcie0"), TUTTI_HOP_PCI);
    CHECK_INT(hop_of(topo, "pcie0", "cpu0"), TUTTI_HOP_ROOT);
    CHECK_INT(hop_between(topo, 0, 1), TUTTI_HOP_PCI);
    tutti_topo_free(topo);
}

/* Four cards behind one switch: what each sends lies in the CPU's memory first, so that all four
 * share the switch's one link up. */
TEST(without_peer_to_peer_a_switch_brings_all_to_the_cpu)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {""};
    uint32_t links[16];

    CHECK_OK(
        tutti_topo_from_spec("host:gpu=rtx3090,gpus=8,sockets=2,switches=2,p2p=no", &topo, &err),
        err);
    for (uint32_t rank = 0; rank < 3; rank++) {
        REQUIRE(tutti_topo_route(topo, rank, rank + 1, links, 16) == 4);
        CHECK_INT(links[1], link_of(topo, "pcie0", "cpu0"));
        CHECK_INT(hop_between(topo, rank, rank + 1), TUTTI_HOP_HOST);
    }
    REQUIRE(tutti_topo_route(topo, 3, 4, links, 16) == 5); /* from CPU to CPU besides */
    CHECK_INT(links[1], link_of(topo, "pcie0", "cpu0"));
    tutti_topo_free(topo);
    CHECK_INT(tutti_topo_from_spec("host:gpu=rtx3090,p2p=maybe", &topo, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "preset 'host': key 'p2p': unknown 'maybe' (auto, yes, no)");
}
