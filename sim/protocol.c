/* The table of NCCL's wire protocols; see protocol.h.
 *
 * Base and hop latencies: NCCL 2.28 src/graph/tuning.cc, rows "ring" of baseLatencies and
 * hwLatencies (columns NVLINK, PCI, NET; kinds of hops that NCCL does not tell apart are alike).
 * Wire formats: NCCL 2.28 device primitives. LL sends 16-byte lines of two (4 B data, 4 B flag);
 * LL128 128-byte lines of 120 B data and 8 B flag; Simple sends the data as it is and a counter a
 * slice. */
#include "sim/protocol.h"

#include <assert.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/wide.h"

static const struct tutti_protocol protocols[TUTTI_PROTOCOLS] = {
    {
        .name = "ll",
        .launch_ps = 6600000,
        .message_ps = {[TUTTI_HOP_NVLINK] = 600000,
                       [TUTTI_HOP_XGMI] = 600000,
                       [TUTTI_HOP_C2C] = 600000,
                       [TUTTI_HOP_PCI] = 1000000,
                       [TUTTI_HOP_HOST] = 1000000,
                       [TUTTI_HOP_NET] = 2700000},
        .wire_num = 2,
        .wire_den = 1,
    },
    {
        .name = "ll128",
        .launch_ps = 14000000,
        .message_ps = {[TUTTI_HOP_NVLINK] = 1900000,
                       [TUTTI_HOP_XGMI] = 1900000,
                       [TUTTI_HOP_C2C] = 1900000,
                       [TUTTI_HOP_PCI] = 2500000,
                       [TUTTI_HOP_HOST] = 2500000,
                       [TUTTI_HOP_NET] = 4000000},
        .wire_num = 16,
        .wire_den = 15,
    },
    {
        .name = "simple",
        .launch_ps = 8400000,
        .message_ps = {[TUTTI_HOP_NVLINK] = 3400000,
                       [TUTTI_HOP_XGMI] = 3400000,
                       [TUTTI_HOP_C2C] = 3400000,
                       [TUTTI_HOP_PCI] = 5700000,
                       [TUTTI_HOP_HOST] = 5700000,
                       [TUTTI_HOP_NET] = 14000000},
        .wire_num = 1,
        .wire_den = 1,
    },
};

const struct tutti_protocol *tutti_protocols(size_t *ret_count)
{
    if (ret_count != NULL)
        *ret_count = sizeof(protocols) / sizeof(protocols[0]);
    return protocols;
}

int tutti_protocol_find(const char *name, const struct tutti_protocol **ret, struct tutti_err *err)
{
    static const char words[] = "none, ll, ll128 or simple";
    char hint[TUTTI_HINT_BYTES];

    if (strcmp(name, "none") == 0) { /* no protocol: the topology's own latencies and rates */
        *ret = NULL;
        return 0;
    }
    for (size_t i = 0; i < sizeof(protocols) / sizeof(protocols[0]); i++) {
        if (strcmp(name, protocols[i].name) == 0) {
            *ret = &protocols[i];
            return 0;
        }
    }
    return tutti_fail(err, TUTTI_EINVAL, "unknown protocol '%s' (%s%s)", name,
                      tutti_nearest_hint(name, words, hint), words);
}

bool tutti_protocol_same(const struct tutti_protocol *a, const struct tutti_protocol *b)
{
    bool same;

    if (a == NULL || b == NULL)
        return a == b;
    same = a->launch_ps == b->launch_ps && a->channel_ps == b->channel_ps &&
           a->early_channel_ps == b->early_channel_ps && a->wire_num == b->wire_num &&
           a->wire_den == b->wire_den;
    for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++)
        same = same && a->message_ps[hop] == b->message_ps[hop] &&
               a->slice_ps[hop] == b->slice_ps[hop] &&
               a->lane_bytes_per_s[hop] == b->lane_bytes_per_s[hop] &&
               a->link_ppm[hop] == b->link_ppm[hop];
    return same;
}

uint64_t tutti_protocol_link_rate(const struct tutti_protocol *protocol, enum tutti_hop hop,
                                  uint64_t bytes_per_s)
{
    uint32_t ppm = protocol != NULL ? protocol->link_ppm[hop] : 0;
    uint64_t share = tutti_muldiv(bytes_per_s, ppm, TUTTI_PPM);

    assert(ppm <= TUTTI_PPM);
    if (ppm == 0)
        return bytes_per_s;
    return share > 0 ? share : 1;
}

struct tutti_protocol tutti_protocol_of_messages(const struct tutti_protocol *protocol)
{
    struct tutti_protocol own = *protocol;

    if (own.p2p_launch_ps > 0)
        own.launch_ps = own.p2p_launch_ps;
    for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++) {
        enum tutti_hop of = hop == TUTTI_HOP_ROOT ? TUTTI_HOP_PCI : (enum tutti_hop)hop;
        uint64_t ppm = protocol->link_ppm[of] > 0 ? protocol->link_ppm[of] : TUTTI_PPM;

        if (own.p2p_message_ps[hop] > 0)
            own.message_ps[hop] = own.p2p_message_ps[hop];
        if (own.p2p_lane_bytes_per_s[hop] > 0) {
            own.lane_bytes_per_s[hop] = own.p2p_lane_bytes_per_s[hop];
            own.slice_ps[hop] = 0;
        }
        if (own.p2p_link_ppm[hop] > 0) {
            ppm = ppm * own.p2p_link_ppm[hop] / TUTTI_PPM;
            own.link_ppm[hop] = (uint32_t)(ppm > 0 ? ppm : 1);
        }
    }
    return own;
}

static uint32_t share_of(uint32_t ppm)
{
    return ppm > 0 ? ppm : TUTTI_PPM;
}

struct tutti_protocol tutti_protocol_of_channels(const struct tutti_protocol *protocol,
                                                 uint64_t lane_bytes_per_s)
{
    static const enum tutti_hop hops[] = {TUTTI_HOP_NVLINK, TUTTI_HOP_XGMI};
    struct tutti_protocol own = *protocol;

    for (size_t i = 0; i < sizeof(hops) / sizeof(hops[0]); i++) {
        uint64_t *lane = &own.lane_bytes_per_s[hops[i]];

        if (*lane == 0 || *lane > lane_bytes_per_s)
            *lane = lane_bytes_per_s;
    }
    return own;
}

struct tutti_protocol tutti_protocol_of_lines(const struct tutti_protocol *protocol,
                                              uint32_t part_count)
{
    struct tutti_protocol own = *protocol;

    assert(part_count > 0);
    own.lane_bytes_per_s[TUTTI_HOP_NVLINK] = (own.lane_bytes_per_s[TUTTI_HOP_NVLINK] + 1) / 2;
    for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++)
        own.slice_ps[hop] /= part_count;
    if (strcmp(own.name, "ll128") == 0)
        own.message_ps[TUTTI_HOP_NVLINK] = own.message_ps[TUTTI_HOP_NVLINK] * 2 / 3;
    return own;
}

struct tutti_protocol tutti_protocol_one_way(const struct tutti_protocol *protocol)
{
    struct tutti_protocol own = *protocol;

    if (share_of(own.link_ppm[TUTTI_HOP_PCI]) > share_of(own.link_ppm[TUTTI_HOP_ROOT]))
        own.link_ppm[TUTTI_HOP_ROOT] = own.link_ppm[TUTTI_HOP_PCI];
    return own;
}

struct tutti_protocol tutti_protocol_of_peers(const struct tutti_protocol *protocol)
{
    struct tutti_protocol own = *protocol;

    if (own.link_ppm[TUTTI_HOP_PEER] > 0)
        own.link_ppm[TUTTI_HOP_ROOT] = own.link_ppm[TUTTI_HOP_PEER];
    return own;
}

struct tutti_pace tutti_protocol_pace(const struct tutti_protocol *protocol, enum tutti_hop hop)
{
    struct tutti_pace pace = {.bytes_per_s = 0};
    uint64_t rate;

    if (protocol == NULL)
        return pace;
    pace.slice_ps = protocol->slice_ps[hop];
    if (protocol->lane_bytes_per_s[hop] == 0)
        return pace;
    rate = tutti_muldiv(protocol->lane_bytes_per_s[hop], protocol->wire_num, protocol->wire_den);
    pace.bytes_per_s = rate > 0 ? rate : 1;
    return pace;
}
