/* NCCL's wire protocols LL, LL128 and Simple as costs on top of the topology. */
#ifndef TUTTI_SIM_PROTOCOL_H
#define TUTTI_SIM_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_err;

/* Kinds of hops, the slower the later. A route is of the slowest kind on its way. */
enum tutti_hop {
    TUTTI_HOP_NVLINK, /* and what is like it: TPU links, links of no kind */
    TUTTI_HOP_XGMI,
    TUTTI_HOP_C2C,
    TUTTI_HOP_PCI,  /* below one PCIe root */
    TUTTI_HOP_HOST, /* through a CPU, or from one to another */
    TUTTI_HOP_NET,
    TUTTI_HOP_ROUTE_COUNT,                  /* what follows is of links alone, */
    TUTTI_HOP_ROOT = TUTTI_HOP_ROUTE_COUNT, /* PCIe from a GPU or a switch into a CPU; on a route
                                               it is TUTTI_HOP_HOST */
    TUTTI_HOP_PEER, /* TUTTI_HOP_ROOT where GPUs write to each other's memory; no link is of this
                       kind by itself: see tutti_protocol_of_peers() */
    TUTTI_HOP_COUNT
};

enum { TUTTI_PPM = 1000000, TUTTI_PROTOCOLS = 3 /* ll, ll128, simple */ };

/* What a protocol costs: something once, something for each message by the kind of its route, and
 * data_bytes * wire_num / wire_den bytes over the wire. A message goes over a connection (from, to,
 * lane), which carries one after another: each occupies it for slice_ps and then for its bytes, at
 * no more than lane_bytes_per_s of data, as if over a private link of that rate. The last three of
 * them are 0 where nothing is known: then a message costs its latency and what links take. */
struct tutti_protocol {
    const char *name;          /* "ll", "ll128", "simple" */
    tutti_ps launch_ps;        /* once a run */
    tutti_ps channel_ps;       /* the same for each channel of a run of NCCL; counts as launch_ps
                                  there, and nowhere else */
    tutti_ps early_channel_ps; /* the same before NCCL 2.22 */
    tutti_ps message_ps[TUTTI_HOP_COUNT]; /* added to the latency of each message: those of one
                                             connection overlap */
    uint32_t wire_num;
    uint32_t wire_den;
    tutti_ps slice_ps[TUTTI_HOP_COUNT];         /* before its bytes: these do not overlap; in NCCL's
                                                   rings, trees and PAT between hosts those of all
                                                   connections that one thread of a rank serves */
    uint64_t lane_bytes_per_s[TUTTI_HOP_COUNT]; /* 0: as the links allow */
    uint32_t link_ppm[TUTTI_HOP_COUNT]; /* of the rate of links of a kind, what wire bytes can use,
                                           all flows together; 0: all of it, as TUTTI_PPM */
    /* Of sends and receives in place of these; 0: no other. See tutti_protocol_of_messages(). */
    tutti_ps p2p_launch_ps;
    tutti_ps p2p_message_ps[TUTTI_HOP_COUNT];
    uint64_t p2p_lane_bytes_per_s[TUTTI_HOP_COUNT];
    uint32_t p2p_link_ppm[TUTTI_HOP_COUNT];
    struct {                       /* where NVSwitch adds up (NVLS), in Simple alone */
        tutti_ps launch_ps;        /* once a run instead of launch_ps; 0: that */
        tutti_ps stage_ps;         /* from a stage to the next */
        tutti_ps loop_ps;          /* that a loop takes besides its bytes */
        uint64_t lane_bytes_per_s; /* that a channel scatters, and gathers as fast; 0: as what
                                      it copies of messages over NVLink */
        uint32_t link_ppm;         /* as above; 0: all of it */
        uint32_t tree_link_ppm;    /* the same by NVLSTree, whose threads also pass all bytes on
                                   to other hosts; 0: as link_ppm */
        uint32_t tree_ppm;         /* of what its kernel passes on at most; 0: all of it */
    } nvls;
};

/* NCCL's own figures (2.28 tuning tables: base latency, hardware latency, wire format), which it
 * decides by: not what was measured. TUTTI_PROTOCOLS of them (ret_count may be NULL); and one by
 * name, where "none" is found too and gives NULL: no protocol costs. */
const struct tutti_protocol *tutti_protocols(size_t *ret_count);
int tutti_protocol_find(const char *name, const struct tutti_protocol **ret, struct tutti_err *err);

/* Do two (or NULL) cost the same, whatever they are called? */
bool tutti_protocol_same(const struct tutti_protocol *a, const struct tutti_protocol *b);

/* The rate of a link of some kind under a protocol (or NULL): at least 1. */
uint64_t tutti_protocol_link_rate(const struct tutti_protocol *protocol, enum tutti_hop hop,
                                  uint64_t bytes_per_s);

/* What a protocol costs NCCL's sends and receives: a block of threads copies each part of a message
 * by itself, in smaller chunks than those of rings. Its own launch, latencies, lanes and shares of
 * links in place of those of the rest. Links into a CPU are told apart: the share there is of what
 * other PCIe carries, for messages lose less than rings, which wait for what comes in before it
 * goes on. */
struct tutti_protocol tutti_protocol_of_messages(const struct tutti_protocol *protocol);

/* What a protocol costs where it is known what a block of threads copies, or, of trees, passes up
 * and down at once: over NVLink or xGMI, whose links bind where channels are many, a lane moves no
 * more than that either way. */
struct tutti_protocol tutti_protocol_of_channels(const struct tutti_protocol *protocol,
                                                 uint64_t lane_bytes_per_s);

/* What LL and LL128 cost trees, whose chunks go on in `part_count` parts: for each of these a
 * message has its connection for its part of slice_ps. A rank's threads are shared out between
 * what goes up and what comes down (NCCL 2.28 all_reduce.h, runTreeSplit: 70 and 30 % of them), so
 * that over NVLink a lane moves half of what it does in a ring: 58 and 46 % of it between 4 and 8
 * ranks on one H200 in LL, 48 and 46 % in LL128 (64 MiB, four channels; between 2, where no rank
 * does both, 93 and 69 %: traces/measured/h200). A step of LL128 takes two thirds of one in a ring
 * there, as NCCL itself has it (tuning.cc, hwLatencies: 1.25 us and 1.9). */
struct tutti_protocol tutti_protocol_of_lines(const struct tutti_protocol *protocol,
                                              uint32_t part_count);

/* What it costs where links carry data one way alone. PCIe lets no read pass a write before it (PCI
 * Express Base Specification, ordering rules: non-posted requests wait for posted ones): on a link
 * into a CPU, where what a GPU writes meets reads of host memory, or of a NIC, less is left each
 * way, and that is link_ppm of TUTTI_HOP_ROOT, as of traffic both ways. One way alone it loses no
 * more than PCIe elsewhere: what packets cost. */
struct tutti_protocol tutti_protocol_one_way(const struct tutti_protocol *protocol);

/* What it costs where GPUs write to each other's memory through a CPU, instead of to the CPU's,
 * from where the next one reads: there are no reads that wait for writes. link_ppm of
 * TUTTI_HOP_PEER, if known, is that of TUTTI_HOP_ROOT. */
struct tutti_protocol tutti_protocol_of_peers(const struct tutti_protocol *protocol);

/* What keeps the messages of one connection apart; bytes are those on the wire. */
struct tutti_pace {
    uint64_t bytes_per_s; /* 0: as the links allow */
    tutti_ps slice_ps;
};
struct tutti_pace tutti_protocol_pace(const struct tutti_protocol *protocol, enum tutti_hop hop);

TUTTI_API_END

#endif
