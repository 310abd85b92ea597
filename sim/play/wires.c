/* Connections of a simulated run, made on first use; see wires.h. */
#include "sim/play/wires.h"

#include <assert.h>
#include <inttypes.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/memory/memory.h"
#include "sim/net/net.h"
#include "sim/protocol.h"
#include "topo/topo.h"

static enum tutti_hop hop_of_kind(enum tutti_link_kind kind)
{
    switch (kind) {
    case TUTTI_LINK_NET:
    case TUTTI_LINK_DCN:
        return TUTTI_HOP_NET;
    case TUTTI_LINK_CPU:
        return TUTTI_HOP_HOST;
    case TUTTI_LINK_PCIE:
        return TUTTI_HOP_PCI;
    case TUTTI_LINK_C2C:
        return TUTTI_HOP_C2C;
    case TUTTI_LINK_XGMI:
        return TUTTI_HOP_XGMI;
    default:
        return TUTTI_HOP_NVLINK;
    }
}

/* What a device or a switch has of a CPU goes through its root complex; a NIC's own link is as wide
 * as it needs. */
static bool enters_cpu(const struct tutti_topo *topo, uint32_t link)
{
    struct tutti_link ends = tutti_topo_link(topo, link);
    uint8_t from = tutti_topo_node(topo, ends.from).kind;
    uint8_t to = tutti_topo_node(topo, ends.to).kind;

    return (from == TUTTI_NODE_CPU && to != TUTTI_NODE_NIC) ||
           (to == TUTTI_NODE_CPU && from != TUTTI_NODE_NIC);
}

enum tutti_hop tutti_link_hop(const struct tutti_topo *topo, uint32_t link)
{
    struct tutti_link figures = tutti_topo_link_figures(topo, link);
    enum tutti_hop hop = hop_of_kind((enum tutti_link_kind)figures.kind);

    return hop == TUTTI_HOP_PCI && enters_cpu(topo, link) ? TUTTI_HOP_ROOT : hop;
}

/* The slower of a kind of route and a link on it. */
static enum tutti_hop slower(enum tutti_hop route, enum tutti_hop link)
{
    enum tutti_hop hop = link == TUTTI_HOP_ROOT ? TUTTI_HOP_HOST : link;

    return hop > route ? hop : route;
}

/* Whether a route of PCIe links goes through a CPU. */
static bool passes_cpu(const struct tutti_topo *topo, const uint32_t *links, uint32_t link_count)
{
    for (uint32_t i = 0; i + 1 < link_count; i++) {
        uint32_t node = tutti_topo_link(topo, links[i]).to;

        if (tutti_topo_node(topo, node).kind == TUTTI_NODE_CPU)
            return true;
    }
    return false;
}

static enum tutti_hop settle_hop(const struct tutti_topo *topo, const uint32_t *links,
                                 uint32_t link_count, enum tutti_hop slowest)
{
    return slowest == TUTTI_HOP_PCI && passes_cpu(topo, links, link_count) ? TUTTI_HOP_HOST
                                                                           : slowest;
}

enum tutti_hop tutti_route_hop(const struct tutti_topo *topo, const uint32_t *links,
                               uint32_t link_count)
{
    enum tutti_hop slowest = TUTTI_HOP_NVLINK; /* the enum is in order of slowness */

    for (uint32_t i = 0; i < link_count; i++)
        slowest = slower(slowest, tutti_link_hop(topo, links[i]));
    return settle_hop(topo, links, link_count, slowest);
}

uint64_t tutti_link_rate(const struct tutti_topo *topo, const struct tutti_protocol *protocol,
                         uint32_t link)
{
    struct tutti_link figures = tutti_topo_link_figures(topo, link);

    return tutti_protocol_link_rate(protocol, tutti_link_hop(topo, link), figures.bytes_per_s);
}

int tutti_link_bursts(struct tutti_memory *memory, const struct tutti_topo *topo, uint32_t **ret)
{
    uint32_t *bursts = tutti_memory_take(memory, (size_t)topo->link_count + 1, sizeof(*bursts));

    if (bursts == NULL)
        return -TUTTI_ENOMEM;
    for (uint32_t i = 0; i < topo->link_count; i++)
        bursts[i] = tutti_topo_link_figures(topo, i).burst_bytes;
    *ret = bursts;
    return 0;
}

static struct tutti_route_figures no_figures(void)
{
    struct tutti_route_figures figures = {.hop = TUTTI_HOP_NVLINK};

    for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++)
        figures.bytes_per_s[hop] = UINT64_MAX;
    return figures;
}

static void add_link(struct tutti_route_figures *figures, const struct tutti_link *link,
                     enum tutti_hop hop)
{
    figures->latency_ps = tutti_add_ps(figures->latency_ps, link->latency_ps);
    if (link->bytes_per_s < figures->bytes_per_s[hop])
        figures->bytes_per_s[hop] = link->bytes_per_s;
    figures->hop = slower(figures->hop, hop);
}

struct tutti_route_figures tutti_route_figures(const struct tutti_topo *topo, const uint32_t *links,
                                               uint32_t link_count)
{
    struct tutti_route_figures figures = no_figures();

    for (uint32_t i = 0; i < link_count; i++) {
        struct tutti_link link = tutti_topo_link_figures(topo, links[i]);

        add_link(&figures, &link, tutti_link_hop(topo, links[i]));
    }
    figures.hop = settle_hop(topo, links, link_count, figures.hop);
    return figures;
}

struct tutti_route_figures tutti_link_figures(const struct tutti_link *link)
{
    struct tutti_route_figures figures = no_figures();

    add_link(&figures, link, hop_of_kind((enum tutti_link_kind)link->kind));
    return figures;
}

/* Of links of one kind the narrowest carries least under any protocol. */
struct tutti_route_weight tutti_figures_weigh(const struct tutti_route_figures *figures,
                                              const struct tutti_protocol *protocol)
{
    struct tutti_route_weight weight = {.latency_ps = figures->latency_ps,
                                        .bytes_per_s = UINT64_MAX};

    for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++) {
        uint64_t rate = figures->bytes_per_s[hop];

        if (rate < UINT64_MAX)
            rate = tutti_protocol_link_rate(protocol, (enum tutti_hop)hop, rate);
        weight.bytes_per_s = rate < weight.bytes_per_s ? rate : weight.bytes_per_s;
    }
    if (protocol != NULL)
        weight.latency_ps = tutti_add_ps(weight.latency_ps, protocol->message_ps[figures->hop]);
    weight.pace = tutti_protocol_pace(protocol, figures->hop);
    if (weight.pace.bytes_per_s == 0 || weight.pace.bytes_per_s > weight.bytes_per_s)
        weight.pace.bytes_per_s = weight.bytes_per_s;
    return weight;
}

struct tutti_route_weight tutti_route_weigh(const struct tutti_topo *topo,
                                            const struct tutti_protocol *protocol,
                                            const uint32_t *links, uint32_t link_count)
{
    struct tutti_route_figures figures = tutti_route_figures(topo, links, link_count);

    return tutti_figures_weigh(&figures, protocol);
}

tutti_ps tutti_route_latency_ps(const struct tutti_topo *topo,
                                const struct tutti_protocol *protocol, const uint32_t *links,
                                uint32_t link_count)
{
    return tutti_route_weigh(topo, protocol, links, link_count).latency_ps;
}

/* The place in the table where the connection is or would be. */
static uint32_t *place_of(const struct tutti_wires *wires, uint32_t from, uint32_t to,
                          uint32_t lane)
{
    uint64_t place = tutti_random_hash(0, from, to, lane);

    for (;; place++) {
        uint32_t *entry = &wires->table[place & (wires->table_size - 1)];
        const struct tutti_wire *wire = *entry > 0 ? &wires->wires[*entry - 1] : NULL;

        if (wire == NULL || (wire->from == from && wire->to == to && wire->lane == lane))
            return entry;
    }
}

/* Keeps the table at most half full. */
static int table_grow(struct tutti_wires *wires)
{
    uint32_t size = wires->table_size > 0 ? wires->table_size : 64;
    uint32_t *table;

    if ((uint64_t)wires->wire_count * 2 < wires->table_size)
        return 0;
    if (wires->wire_count >= UINT32_MAX / 8)
        return -TUTTI_ENOMEM;
    while (size <= wires->wire_count * 2)
        size *= 2;
    table = tutti_memory_take(wires->memory, size, sizeof(*table));
    if (table == NULL)
        return -TUTTI_ENOMEM;
    tutti_memory_give(wires->memory, wires->table);
    wires->table = table;
    wires->table_size = size;
    for (uint32_t i = 0; i < wires->wire_count; i++) {
        const struct tutti_wire *wire = &wires->wires[i];

        *place_of(wires, wire->from, wire->to, wire->lane) = i + 1;
    }
    return 0;
}

static int wire_make(struct tutti_wires *wires, uint32_t from, uint32_t to, uint32_t lane,
                     struct tutti_err *err)
{
    const struct tutti_topo *topo = wires->topo;
    struct tutti_route_weight weight;
    uint32_t link_count;

    if (to >= topo->rank_count || from >= topo->rank_count || from == to)
        return tutti_fail(err, TUTTI_ECHECK,
                          "lane %" PRIu32 ": rank %" PRIu32 " cannot send to rank '%" PRIu32
                          "' (another of the %" PRIu32 " ranks)",
                          lane, from, to, topo->rank_count);
    if (table_grow(wires) < 0 ||
        tutti_memory_grow(wires->memory, &wires->wires, &wires->wire_capacity,
                          (uint64_t)wires->wire_count + 1, sizeof(*wires->wires)) < 0)
        return tutti_nomem(err);
    link_count = tutti_topo_route(topo, from, to, wires->route, topo->node_count);
    assert(link_count <= topo->node_count);
    if (link_count == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "no route from rank %" PRIu32 " to rank %" PRIu32 " in '%s'", from, to,
                          topo->name);
    weight = tutti_route_weigh(topo, wires->protocol, wires->route, link_count);
    if (wires->net->ops->connect(wires->net, wires->route, link_count, weight.pace) < 0)
        return tutti_nomem(err);
    wires->wires[wires->wire_count] = (struct tutti_wire){
        .from = from,
        .to = to,
        .lane = lane,
        .first = TUTTI_MESSAGE_NONE,
        .last = TUTTI_MESSAGE_NONE,
        .latency_ps = weight.latency_ps,
    };
    *place_of(wires, from, to, lane) = ++wires->wire_count;
    return 0;
}

int tutti_wires_init(struct tutti_wires *wires, const struct tutti_topo *topo,
                     const struct tutti_protocol *protocol, struct tutti_net *net,
                     struct tutti_memory *memory, struct tutti_err *err)
{
    *wires = (struct tutti_wires){.memory = memory, .topo = topo, .protocol = protocol, .net = net};
    wires->message_free = TUTTI_MESSAGE_NONE;
    wires->route = tutti_memory_take(memory, (size_t)topo->node_count + 1, sizeof(*wires->route));
    return wires->route == NULL ? tutti_nomem(err) : 0;
}

void tutti_wires_done(struct tutti_wires *wires)
{
    tutti_memory_give(wires->memory, wires->route);
    tutti_memory_give(wires->memory, wires->wires);
    tutti_memory_give(wires->memory, wires->table);
    tutti_memory_give(wires->memory, wires->messages);
    *wires = (struct tutti_wires){.topo = NULL};
}

void tutti_wires_reset(struct tutti_wires *wires)
{
    for (uint32_t i = 0; i < wires->wire_count; i++) {
        struct tutti_wire *wire = &wires->wires[i];

        wire->first = wire->last = TUTTI_MESSAGE_NONE;
        wire->send_waits = wire->recv_waits = false;
        wire->sent_count = wire->completed_count = 0;
    }
    wires->message_count = 0;
    wires->message_free = TUTTI_MESSAGE_NONE;
}

int tutti_wires_find(struct tutti_wires *wires, uint32_t from, uint32_t to, uint32_t lane,
                     uint32_t *ret, struct tutti_err *err)
{
    uint32_t found = wires->table_size > 0 ? *place_of(wires, from, to, lane) : 0;
    int status;

    if (found == 0) {
        status = wire_make(wires, from, to, lane, err);
        if (status < 0)
            return status;
        found = wires->wire_count;
    }
    *ret = found - 1;
    return 0;
}

uint64_t tutti_wire_bytes(const struct tutti_protocol *protocol, uint64_t bytes)
{
    if (protocol == NULL)
        return bytes;
    return tutti_muldiv_up(bytes, protocol->wire_num, protocol->wire_den);
}

uint64_t tutti_jitter_q32(double jitter)
{
    return (uint64_t)(jitter * 0x1p32);
}

uint64_t tutti_stretch_of(uint64_t seed, uint64_t jitter_q32, const struct tutti_wire *wire,
                          uint64_t number)
{
    uint64_t draw;

    if (jitter_q32 == 0)
        return 0;
    draw = tutti_random_hash(seed, (uint64_t)wire->from << 32 | wire->to, wire->lane, number);
    return tutti_muldiv(draw >> 32, jitter_q32, UINT64_C(1) << 32);
}

int tutti_wires_push(struct tutti_wires *wires, uint32_t wire, uint32_t *ret_message,
                     struct tutti_err *err)
{
    struct tutti_wire *queue = &wires->wires[wire];
    uint32_t id = wires->message_free;

    if (id != TUTTI_MESSAGE_NONE) {
        wires->message_free = wires->messages[id].next;
    } else {
        id = wires->message_count;
        if (tutti_memory_grow(wires->memory, &wires->messages, &wires->message_capacity,
                              (uint64_t)id + 1, sizeof(*wires->messages)) < 0 ||
            wires->net->ops->reserve(wires->net, wires->message_capacity) < 0)
            return tutti_nomem(err);
        wires->message_count++;
    }
    wires->messages[id] = (struct tutti_message){.wire = wire, .next = TUTTI_MESSAGE_NONE};
    if (queue->first == TUTTI_MESSAGE_NONE)
        queue->first = id;
    else
        wires->messages[queue->last].next = id;
    queue->last = id;
    queue->sent_count++;
    *ret_message = id;
    return 0;
}

void tutti_wires_pop(struct tutti_wires *wires, uint32_t wire)
{
    struct tutti_wire *queue = &wires->wires[wire];
    uint32_t id = queue->first;

    assert(id != TUTTI_MESSAGE_NONE);
    queue->first = wires->messages[id].next;
    queue->completed_count++;
    wires->messages[id].next = wires->message_free;
    wires->message_free = id;
    assert(queue->completed_count <= queue->sent_count);
}
