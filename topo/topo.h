/* The machine: devices, switches, NICs and directed links, and the routes between ranks. */
#ifndef TUTTI_TOPO_TOPO_H
#define TUTTI_TOPO_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/schedule.h"
#include "runtime/shape.h"
#include "runtime/units.h"
#include "runtime/wide.h"

TUTTI_API_BEGIN

struct tutti_arena;
struct tutti_err;
struct tutti_hardware;

enum tutti_node_kind {
    TUTTI_NODE_DEVICE, /* computes: a GPU, a TPU chip, a host; carries a rank */
    TUTTI_NODE_SWITCH, /* NVSwitch, PCIe switch, leaf, spine */
    TUTTI_NODE_NIC,
    TUTTI_NODE_CPU, /* a NUMA node of a host */
    TUTTI_NODE_KIND_COUNT
};

enum tutti_link_kind {
    TUTTI_LINK_GENERIC,
    TUTTI_LINK_NVLINK,
    TUTTI_LINK_XGMI,
    TUTTI_LINK_PCIE,
    TUTTI_LINK_C2C,
    TUTTI_LINK_CPU, /* between NUMA nodes: QPI, UPI, Infinity Fabric */
    TUTTI_LINK_NET, /* InfiniBand, RoCE, EFA, Ethernet */
    TUTTI_LINK_ICI, /* TPU inter-chip interconnect */
    TUTTI_LINK_DCN, /* TPU slices over the data centre network */
    TUTTI_LINK_KIND_COUNT
};

/* What the network between hosts is: costs of its steps depend on it, not its rates. */
enum tutti_net_kind {
    TUTTI_NET_UNKNOWN,
    TUTTI_NET_IB, /* InfiniBand */
    TUTTI_NET_ROCE,
    TUTTI_NET_EFA, /* AWS */
    TUTTI_NET_SLINGSHOT,
    TUTTI_NET_TCP,   /* sockets over any Ethernet */
    TUTTI_NET_TCPX,  /* sockets whose payload the NIC puts into GPU memory: Google, A3 High */
    TUTTI_NET_TCPXO, /* as those, by a transport of its own (FasTrak): Google, A3 Mega */
    TUTTI_NET_KIND_COUNT
};

#define TUTTI_RANK_NONE UINT32_MAX

struct tutti_node {
    const char *name; /* to add one: "gpu0.3", "leaf2"; NULL when asked: tutti_topo_node_name() */
    uint32_t rank;    /* devices; TUTTI_RANK_NONE otherwise */
    uint32_t host;    /* index of the host (server, tray) it sits in; UINT32_MAX: outside hosts */
    uint8_t kind;     /* enum tutti_node_kind */
    bool reduces;     /* switch that can reduce and multicast (NVLS, SHARP) */
    uint16_t reserved;
    uint64_t flops_per_s;     /* devices: dense bf16 peak; 0 unknown */
    uint64_t mem_bytes_per_s; /* devices: device memory; 0 unknown */
};

/* One direction of a cable; parallel cables between the same two nodes are one link of summed rate
 * and burst. One with a burst has a token bucket, as networks have that are shaped (tc tbf, limits
 * of clouds): it lets through at most burst_bytes + bytes_per_s * T in any time T. What the bucket
 * holds takes no time, and it fills again at the link's rate. */
struct tutti_link {
    uint32_t from; /* node index */
    uint32_t to;
    uint64_t bytes_per_s;
    tutti_ps latency_ps;
    uint8_t kind;              /* enum tutti_link_kind */
    uint32_t burst_bytes : 24; /* depth of the bucket; 0: none, every byte goes at the rate */
    uint32_t cable_count;      /* physical links summed in it; >= 1 */
};
TUTTI_STATIC_ASSERT(sizeof(struct tutti_link) == 32,
                    "machines of a million links are looked through");
#define TUTTI_BURST_BYTES_MAX ((UINT32_C(1) << 24) - 1)

/* Frozen after tutti_topo_freeze(): then the fields may be read by anyone and change no more. Nodes
 * and links have indices; what is at an index is asked for (tutti_topo_link() and so on), because
 * large machines of presets do not list them: a rule says each. A million devices take a few KiB.
 * Only rates and latencies can still be changed, before anyone else reads. */
struct tutti_topo {
    struct tutti_arena *arena;
    const char *name;   /* the SPEC or the file it came from */
    const char *source; /* where its numbers come from, one line; never NULL after freeze */
    uint32_t node_count;
    uint32_t link_count;
    uint32_t rank_count;
    uint32_t host_count;
    struct tutti_shape shape; /* levels, dims and ring orders found or declared */
    /* Of one host, which all are alike, as NCCL sees it (hardware.h); NULL: not known. */
    const struct tutti_hardware *hardware;
    uint8_t net_kind;                  /* enum tutti_net_kind */
    bool has_bursts;                   /* some links have token buckets */
    bool is_preset;                    /* `name` is a SPEC that makes this machine */
    const struct tutti_graph *graph;   /* private: nodes and links, listed or by rule */
    const struct tutti_router *router; /* private: routes, by rule or searched */
};

/* ---- building ----------------------------------------------------------------------------------
 */

struct tutti_topo_builder;

int tutti_topo_builder_new(const char *name, const char *source, struct tutti_topo_builder **ret,
                           struct tutti_err *err);
/* Adds a node; *ret is its index. Devices get ranks in the order of node.rank if set by the caller
 * (all or none), else 0, 1, ... in order of addition. The name is copied. */
int tutti_topo_add_node(struct tutti_topo_builder *builder, const struct tutti_node *node,
                        uint32_t *ret, struct tutti_err *err);
/* Adds one directed link; adding the same pair and kind again sums rate and cables. */
int tutti_topo_add_link(struct tutti_topo_builder *builder, const struct tutti_link *link,
                        struct tutti_err *err);
/* The same link in both directions. */
int tutti_topo_add_cable(struct tutti_topo_builder *builder, const struct tutti_link *link,
                         struct tutti_err *err);
/* Declares levels, dims or ring orders (copied). What is not declared is derived at freeze: levels
 * from hosts; ring orders by search, where up to 16 devices of one host are wired directly by
 * NVLink or xGMI, so that each link is in as many rings as it is fast. */
int tutti_topo_set_shape(struct tutti_topo_builder *builder, const struct tutti_shape *shape,
                         struct tutti_err *err);
/* Renames what is being built; NULL keeps what there is. The texts are copied. */
int tutti_topo_set_title(struct tutti_topo_builder *builder, const char *name, const char *source,
                         struct tutti_err *err);
/* Says what the hosts are (copied); NULL: not known. -TUTTI_EINVAL for what is no host, and at
 * freeze where its GPUs are not the ranks of a host, or, times the hosts of a rack, of what stands
 * there as a host. */
int tutti_topo_set_hardware(struct tutti_topo_builder *builder,
                            const struct tutti_hardware *hardware, struct tutti_err *err);
/* Says what the network between hosts is; not told: TUTTI_NET_UNKNOWN. */
void tutti_topo_set_net_kind(struct tutti_topo_builder *builder, enum tutti_net_kind kind);
/* Checks (connected between all ranks, rates > 0, no self-links) and freezes. The builder is gone
 * afterwards, also on failure. */
int tutti_topo_freeze(struct tutti_topo_builder *builder, struct tutti_topo **ret,
                      struct tutti_err *err);
void tutti_topo_builder_free(struct tutti_topo_builder *builder);
void tutti_topo_free(struct tutti_topo *topo);

/* ---- getting one --------------------------------------------------------------------------------
 */

/* A preset, "NAME", "NAME:key=value,..." or "tpu-v4:4x4x8"; presets and their keys:
 * tutti_presets(). -TUTTI_EINVAL with the nearest accepted names for an unknown preset, key, unit
 * or value. */
int tutti_topo_from_spec(const char *spec, struct tutti_topo **ret, struct tutti_err *err);

/* Our own text format (grammar at the top of topo/file.c); `name` is used in messages. */
int tutti_topo_parse(const char *name, const char *text, size_t bytes, struct tutti_topo **ret,
                     struct tutti_err *err);
/* Writes it; parse(print(t)) equals t. *ret is freed by the caller with free(). */
int tutti_topo_print(const struct tutti_topo *topo, char **ret, struct tutti_err *err);

/* `host_count` copies of a machine of one host (or of none named), joined by a non-blocking
 * network: each NIC (or, where there is none, each CPU, or else the first device) gets a cable to
 * one switch a rail (NIC i of every host on switch i) at its own rate: that of its links of kind
 * NET if it has some, else of its widest link. Rails are joined by one spine as fast as all of
 * them. `latency_ps` is from NIC to switch; from there to the spine it is TUTTI_SPINE_PS, but never
 * more than from the NIC. Hardware and net_kind are kept; the switches reduce where all ports of
 * the hardware say that their network does (coll). One copy is the machine itself. For machines
 * from files; presets have nodes=. */
#define TUTTI_SPINE_PS INT64_C(150000) /* as hop= of the presets: 0.1 to 0.2 us a switch */
int tutti_topo_replicate(const struct tutti_topo *host, uint32_t host_count, tutti_ps latency_ps,
                         struct tutti_topo **ret, struct tutti_err *err);

struct tutti_preset {
    const char *name;
    const char *summary; /* what it is, one line */
    const char *keys;    /* "nodes=1 bw=... lat=...": accepted keys and their defaults */
    const char *source;  /* where the numbers come from */
    const char *example; /* a SPEC that works */
};
const struct tutti_preset *tutti_presets(size_t *ret_count);

/* ---- asking -------------------------------------------------------------------------------------
 */

/* How many hosts of topo->hardware there are: more than host_count where what stands there as a
 * host is a rack of them; 0: the hardware is not known. */
uint32_t tutti_topo_hardware_hosts(const struct tutti_topo *topo);

/* What is at an index; 2 to 20 ns each, without memory. */
struct tutti_node tutti_topo_node(const struct tutti_topo *topo, uint32_t node);
struct tutti_link tutti_topo_link(const struct tutti_topo *topo, uint32_t link);
/* The same, but from and to may be those of another link: in less time for machines by rule. */
struct tutti_link tutti_topo_link_figures(const struct tutti_topo *topo, uint32_t link);
/* What the figures of a link are those of. Links of machines by rule that have equal ones differ in
 * their ends only, and these are CPUs, NICs, switches and devices alike. */
struct tutti_link_likeness {
    const void *rule;   /* NULL: it is like no other that is known */
    const void *change; /* NULL: it was not changed */
};
struct tutti_link_likeness tutti_topo_link_likeness(const struct tutti_topo *topo, uint32_t link);
/* Up to `capacity` links from `first` on, in a row; returns how many there were. For loops over all
 * links: 2 ns a link in blocks of some hundreds. */
uint32_t tutti_topo_links(const struct tutti_topo *topo, uint32_t first, struct tutti_link *links,
                          uint32_t capacity);
enum { TUTTI_LINK_BLOCK = 256 }; /* links: 8 KiB */
/* The device that carries a rank. */
uint32_t tutti_topo_rank_node(const struct tutti_topo *topo, uint32_t rank);
/* The links that leave a node, by index: how many, and number k of them. */
uint32_t tutti_topo_out_count(const struct tutti_topo *topo, uint32_t node);
uint32_t tutti_topo_out_link(const struct tutti_topo *topo, uint32_t node, uint32_t k);
/* The name of a node: in `buf`, or the machine's own. */
enum { TUTTI_NODE_NAME_BYTES = 64 };
const char *tutti_topo_node_name(const struct tutti_topo *topo, uint32_t node,
                                 char buf[TUTTI_NODE_NAME_BYTES]);

/* Links alike in all but their ends, whose nodes are of the same kinds. */
struct tutti_link_class {
    uint32_t first; /* the lowest of them */
    uint32_t count;
};
enum { TUTTI_LINK_CLASSES_MAX = 256 };
/* The classes of all links in order of their first. Writes at most `capacity` of them, which is at
 * most TUTTI_LINK_CLASSES_MAX, and returns how many; *ret_more: links of other classes, which were
 * only counted. O(links), but where links follow a rule: O(changed links, and 2 ns a link). */
uint32_t tutti_topo_link_classes(const struct tutti_topo *topo, struct tutti_link_class *classes,
                                 uint32_t capacity, uint32_t *ret_more);

/* Hops along an axis of a grid whose links a rule says, each over one link, and all alike unless
 * they were changed. The link from rank r to the next is number first + per_rank * r, or, where
 * `of_next`, first + per_rank * (the next rank); no other ranks' hops go over it. */
struct tutti_axis_links {
    struct tutti_link link; /* unchanged; its ends do not matter */
    uint32_t first;
    uint32_t per_rank;
    bool of_next;
    bool changed; /* some links of the machine were */
};
/* False where hops from rank to rank on an axis of `size` ranks, `stride` apart, downwards if
 * `reversed`, are not known to be such. */
bool tutti_topo_axis_links(const struct tutti_topo *topo, uint32_t size, uint32_t stride,
                           bool reversed, struct tutti_axis_links *ret);
/* Whether a link was changed by tutti_topo_change_links(). */
bool tutti_topo_link_is_changed(const struct tutti_topo *topo, uint32_t link);

/* Another rate and latency for one link. */
struct tutti_link_change {
    uint32_t link;
    uint64_t bytes_per_s;
    tutti_ps latency_ps;
};
/* Changes links of a frozen machine that nobody else uses yet; routes and shape stay. `next` says
 * the changes 0 .. count - 1, in order of links, each link once. 4 bytes a changed link, and 16 for
 * each new pair of rate and latency. -TUTTI_EINVAL for a link that is not there or out of order, no
 * rate or a negative latency: then nothing has changed. */
int tutti_topo_change_links(struct tutti_topo *topo, uint32_t count,
                            void (*next)(const void *context, uint32_t index,
                                         struct tutti_link_change *ret),
                            const void *context, struct tutti_err *err);

/* The links from rank `from` to rank `to` in order. Writes at most `capacity` link indices and
 * returns how many there are (a route never has more than node_count). Deterministic: presets route
 * as their machines do (dimension order on tori, up-down in fat trees with the spine chosen by
 * destination, same rail preferred); others take fewest hops, then the widest bottleneck, then the
 * lowest link index; devices do not forward except over NVLink/XGMI/ICI where there is no other
 * way. */
uint32_t tutti_topo_route(const struct tutti_topo *topo, uint32_t from, uint32_t to,
                          uint32_t *links, uint32_t capacity);

/* Machines made of equal parts along two axes (hosts in a group, groups): to permute the places
 * along an axis, in the same way for all that lies on it, takes ranks to ranks, links to links of
 * equal rate, latency and kind, and routes to routes. */
enum { TUTTI_AXES = 2 };
struct tutti_spot {
    uint32_t along[TUTTI_AXES]; /* the place on each axis, or UINT32_MAX: what does not lie on it */
    uint32_t kind; /* ranks, or links, of one kind differ by their places alone; from 0 on */
};
/* Writes the lengths of the axes; false: the machine is not known to be made like that. O(links).
 */
bool tutti_topo_axes(const struct tutti_topo *topo, uint32_t lengths[TUTTI_AXES]);
/* Only where tutti_topo_axes() holds. */
struct tutti_spot tutti_topo_rank_spot(const struct tutti_topo *topo, uint32_t rank);
struct tutti_spot tutti_topo_link_spot(const struct tutti_topo *topo, uint32_t link);

/* A lower bound on the time of a collective of `bytes` (nccl-tests' size column), in picoseconds,
 * from physics alone: what must leave and enter the groups of many partitions of the ranks, and the
 * shortest latency. Where ranks times links are about four million or less, all cuts are considered
 * (by flows; for all-reduce on devices wired directly, all partitions). time_ps is the larger of
 * the two. It knows switches that reduce and multicast, so nothing that such a switch does goes
 * below it, and token buckets: no link carries more in a time T than its rate does in T plus the
 * largest burst over rate of all links, so that much is taken off. No bytes: 0. */
struct tutti_bound {
    tutti_ps time_ps;
    tutti_ps bandwidth_ps;
    tutti_ps latency_ps;
    /* The bandwidth bound binds and some schedule is known to come as near to it as one likes as
     * the size grows; else it is valid, but perhaps not reachable. */
    bool exact;
    char binding[128]; /* what binds: "each device: 450GB/s out", "latency from rank 0 to rank 7" */
};
int tutti_topo_bound(const struct tutti_topo *topo, const struct tutti_contract *contract,
                     struct tutti_bound *ret, struct tutti_err *err);

/* The bound of a collective for any size: worked out once, as that takes time, and asked often.
 * Copied at will; needs the topology no longer. `root` counts where the collective has one. */
struct tutti_bound_law {
    uint32_t rank_count;
    bool moves;                    /* data: not a barrier */
    bool exact;                    /* where the rates bind */
    struct tutti_wide bytes;       /* that must cross, of each byte of a rank's block, what binds */
    struct tutti_wide bytes_per_s; /* at this rate; 0: nothing must */
    tutti_ps latency_ps;
    tutti_ps burst_ps;    /* what full token buckets save at most: burst over rate, of all links */
    char rates_bind[128]; /* what binds where the rates do, */
    char latency_binds[128];
};
int tutti_topo_bound_law(const struct tutti_topo *topo, enum tutti_collective collective,
                         uint32_t root, struct tutti_bound_law *ret, struct tutti_err *err);

/* A law that bounds nothing, for who asks for times alone. */
struct tutti_bound_law tutti_bound_law_none(const struct tutti_topo *topo);

/* For `count` elements as the collective counts them. Refuses counts whose bytes overflow. */
int tutti_bound_law_at(const struct tutti_bound_law *law, uint64_t count, enum tutti_dtype dtype,
                       struct tutti_bound *ret, struct tutti_err *err);

/* Bisection: the least total rate, in bytes per second and one direction, from one half of the
 * ranks to the other over the halvings along levels and axes, and of low and high ranks. Valid as
 * an upper bound of the true minimum; exact for switches, trees and grids with an even longest
 * axis. One rank: 0. Saturates. */
int tutti_topo_bisection(const struct tutti_topo *topo, uint64_t *ret_bytes_per_s,
                         struct tutti_err *err);

const char *tutti_node_kind_name(enum tutti_node_kind kind); /* device switch nic cpu */
const char *tutti_link_kind_name(enum tutti_link_kind kind); /* generic nvlink xgmi pcie ... */
const char *tutti_net_kind_name(enum tutti_net_kind kind);   /* unknown ib roce ... */

/* A picture of the machine as SVG, for people: grids as panels, wired devices on a circle, hosts as
 * boxes over their network; links by kind and width, with a legend. What is too much for a picture
 * (about 2100 pixels) is left out, and counted below it. Printable ASCII; the same bytes for the
 * same machine. *ret is freed by the caller with free(). */
int tutti_topo_svg(const struct tutti_topo *topo, char **ret, struct tutti_err *err);

TUTTI_API_END

#endif
