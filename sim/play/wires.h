/* Connections (from, to, lane) of a simulated run: routes, message queues and slots. */
#ifndef TUTTI_SIM_PLAY_WIRES_H
#define TUTTI_SIM_PLAY_WIRES_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/units.h"
#include "sim/protocol.h"

struct tutti_err;
struct tutti_link;
struct tutti_memory;
struct tutti_net;
struct tutti_step;
struct tutti_topo;

/* A message under way: from the time its SEND got a slot until its RECV (or, fused, the REDUCE that
 * reads it) has completed. `step` is the SEND. */
struct tutti_message {
    const struct tutti_step *step;
    uint64_t index;
    tutti_ps start_ps;
    uint32_t wire;
    uint32_t next; /* in the queue of the wire, or in the list of free ones */
    bool arrived;
};

/* One connection. Messages are taken in order; both ends count them in their own program order. */
struct tutti_wire {
    uint32_t from;
    uint32_t to;
    uint32_t lane;
    uint32_t first; /* oldest message that is not completed, or TUTTI_MESSAGE_NONE */
    uint32_t last;
    bool send_waits; /* for a slot; at most one, for it holds up its lane */
    bool recv_waits; /* for the oldest message; at most one, likewise */
    tutti_ps latency_ps;
    uint64_t sent_count;
    uint64_t completed_count;
    const struct tutti_step *send_step;
    const struct tutti_step *recv_step;
    uint64_t send_index;
    uint64_t recv_index;
    tutti_ps recv_ps; /* since when it waits */
};

/* All of them, found by a hash of (from, to, lane), made on first use and kept until done; memory
 * doubles when it has to, so after the first time through a schedule nothing is allocated. */
struct tutti_wires {
    const struct tutti_topo *topo;
    const struct tutti_protocol *protocol; /* or NULL */
    struct tutti_net *net;
    uint32_t *route; /* [topo->node_count] */
    struct tutti_wire *wires;
    uint32_t wire_count;
    uint32_t wire_capacity;
    uint32_t *table; /* [table_size] wire + 1, or 0 */
    uint32_t table_size;
    struct tutti_message *messages;
    uint32_t message_count; /* given out at least once */
    uint32_t message_capacity;
    uint32_t message_free; /* list of those given back */
    struct tutti_memory *memory;
};

int tutti_wires_init(struct tutti_wires *wires, const struct tutti_topo *topo,
                     const struct tutti_protocol *protocol, struct tutti_net *net,
                     struct tutti_memory *memory, struct tutti_err *err);
void tutti_wires_done(struct tutti_wires *wires);
void tutti_wires_reset(struct tutti_wires *wires); /* no messages under way, counts at 0 */

/* The number of the connection; its route is asked for on first use. */
int tutti_wires_find(struct tutti_wires *wires, uint32_t from, uint32_t to, uint32_t lane,
                     uint32_t *ret, struct tutti_err *err);

/* The kind of a link, and the slowest kind on a route, which decides what a protocol adds. */
enum tutti_hop tutti_link_hop(const struct tutti_topo *topo, uint32_t link);
enum tutti_hop tutti_route_hop(const struct tutti_topo *topo, const uint32_t *links,
                               uint32_t link_count);

/* What a link carries in a second under a protocol (or NULL). */
uint64_t tutti_link_rate(const struct tutti_topo *topo, const struct tutti_protocol *protocol,
                         uint32_t link);

/* The depths of the token buckets of all links, in bytes; the caller gives *ret back. */
int tutti_link_bursts(struct tutti_memory *memory, const struct tutti_topo *topo, uint32_t **ret);

/* Latency of a message: that of the links of its route, and what the protocol (or NULL) adds. */
tutti_ps tutti_route_latency_ps(const struct tutti_topo *topo,
                                const struct tutti_protocol *protocol, const uint32_t *links,
                                uint32_t link_count);

/* Latency, the rate of the narrowest link, and the pace of connections, of a route and of a single
 * link. */
struct tutti_route_weight {
    tutti_ps latency_ps;
    uint64_t bytes_per_s;
    struct tutti_pace pace; /* of no more than bytes_per_s, and not 0 */
};
struct tutti_route_weight tutti_route_weigh(const struct tutti_topo *topo,
                                            const struct tutti_protocol *protocol,
                                            const uint32_t *links, uint32_t link_count);

/* What the weight of a route comes of, whatever the protocol; and of a single link. */
struct tutti_route_figures {
    tutti_ps latency_ps; /* of its links */
    enum tutti_hop hop;  /* what it is */
    uint64_t
        bytes_per_s[TUTTI_HOP_COUNT]; /* of the narrowest link of each kind; UINT64_MAX: none */
};
struct tutti_route_figures tutti_route_figures(const struct tutti_topo *topo, const uint32_t *links,
                                               uint32_t link_count);
struct tutti_route_figures tutti_link_figures(const struct tutti_link *link);
struct tutti_route_weight tutti_figures_weigh(const struct tutti_route_figures *figures,
                                              const struct tutti_protocol *protocol);

/* What a message weighs on the wire. */
uint64_t tutti_wire_bytes(const struct tutti_protocol *protocol, uint64_t bytes);

/* `jitter` in 1 / 2^32, and the stretch of message `number` of a connection, in the same unit:
 * drawn for the message, so that it does not depend on the order of events. */
uint64_t tutti_jitter_q32(double jitter);
uint64_t tutti_stretch_of(uint64_t seed, uint64_t jitter_q32, const struct tutti_wire *wire,
                          uint64_t number);

/* Appends a message to the queue of a wire, and takes the oldest one out. */
int tutti_wires_push(struct tutti_wires *wires, uint32_t wire, uint32_t *ret_message,
                     struct tutti_err *err);
void tutti_wires_pop(struct tutti_wires *wires, uint32_t wire);

#endif
