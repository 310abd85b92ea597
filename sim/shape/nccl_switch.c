/* From NCCL's choice of NVLS or CollNet to its pipeline; see nccl_switch.h. */
#include "sim/shape/nccl_switch.h"

#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/nccl.h"
#include "sim/nccl/tables.h"
#include "sim/play/wires.h"
#include "sim/protocol.h"
#include "topo/hardware.h"
#include "topo/topo.h"

enum { ROUTE_MAX = 64 };

/* A rate, and a latency. */
struct way {
    uint64_t bytes_per_s;
    tutti_ps latency_ps;
};

/* From a GPU to switches that reduce: the rate of all links, and the latency of the longest. Other
 * links (PCIe) may come before them. */
static struct way way_of(const struct tutti_topo *topo, uint32_t rank)
{
    uint32_t node = tutti_topo_rank_node(topo, rank);
    struct way way = {.bytes_per_s = 0};

    for (uint32_t k = 0; k < tutti_topo_out_count(topo, node); k++) {
        struct tutti_link link = tutti_topo_link(topo, tutti_topo_out_link(topo, node, k));

        if (!tutti_topo_node(topo, link.to).reduces || link.kind == TUTTI_LINK_NET)
            continue;
        way.bytes_per_s += link.bytes_per_s;
        way.latency_ps = link.latency_ps > way.latency_ps ? link.latency_ps : way.latency_ps;
    }
    return way;
}

/* Of the GPU that is slowest: every loop waits for all. O(ranks). */
static struct way slowest_way(const struct tutti_topo *topo)
{
    struct way slowest = way_of(topo, 0);

    for (uint32_t rank = 1; rank < topo->rank_count; rank++) {
        struct way way = way_of(topo, rank);

        if (way.bytes_per_s < slowest.bytes_per_s)
            slowest.bytes_per_s = way.bytes_per_s;
        if (way.latency_ps > slowest.latency_ps)
            slowest.latency_ps = way.latency_ps;
    }
    return slowest;
}

/* ---- what runs ----------------------------------------------------------------------------- */

static const uint8_t forms[TUTTI_NCCL_ALGORITHM_COUNT] = {
    [TUTTI_NCCL_NVLS] = TUTTI_IN_NETWORK_NVLS,
    [TUTTI_NCCL_NVLS_TREE] = TUTTI_IN_NETWORK_NVLS_TREE,
    [TUTTI_NCCL_COLLNET_DIRECT] = TUTTI_IN_NETWORK_COLLNET_DIRECT,
    [TUTTI_NCCL_COLLNET_CHAIN] = TUTTI_IN_NETWORK_COLLNET_CHAIN,
};

static bool is_nvls(const struct tutti_in_network *plan)
{
    return plan->form == TUTTI_IN_NETWORK_NVLS || plan->form == TUTTI_IN_NETWORK_NVLS_TREE;
}

/* Does the way from the first host to the last pass a switch that reduces? */
static bool network_reduces(const struct tutti_topo *topo, uint32_t host_count)
{
    uint32_t to = topo->rank_count - topo->rank_count / host_count;
    uint32_t links[ROUTE_MAX];
    uint32_t count = tutti_topo_route(topo, 0, to, links, ROUTE_MAX);

    for (uint32_t i = 0; i < count && i < ROUTE_MAX; i++) {
        struct tutti_node node = tutti_topo_node(topo, tutti_topo_link(topo, links[i]).to);

        if (node.reduces && node.host == UINT32_MAX)
            return true;
    }
    return false;
}

/* A channel starts at one of them. */
static uint32_t count_ports(const struct tutti_nccl_graph *graph)
{
    uint32_t count = 0;

    for (uint32_t c = 0; c < graph->channel_count; c++) {
        bool known = false;

        for (uint32_t d = 0; d < c && graph->nets != NULL; d++)
            known |= graph->nets[2 * d] == graph->nets[2 * c];
        count += !known;
    }
    return count;
}

/* From a rank to another of its host. A link between others than GPUs carries one of the two ways
 * of a chain in either direction, a GPU's carries both. */
static struct way way_to(const struct tutti_topo *topo, uint32_t from, uint32_t to,
                         uint8_t *ret_hop)
{
    uint32_t links[ROUTE_MAX];
    uint32_t count = tutti_topo_route(topo, from, to, links, ROUTE_MAX);
    struct way way = {.bytes_per_s = UINT64_MAX / 4};

    *ret_hop = TUTTI_HOP_NVLINK;
    for (uint32_t i = 0; i < count && i < ROUTE_MAX; i++) {
        struct tutti_link link = tutti_topo_link(topo, links[i]);
        uint8_t hop = (uint8_t)tutti_link_hop(topo, links[i]);
        uint64_t rate = link.bytes_per_s;

        if (i > 0 && i + 1 < count)
            rate *= 2;
        if (rate < way.bytes_per_s) {
            way.bytes_per_s = rate;
            *ret_hop = hop;
        }
        way.latency_ps += link.latency_ps;
    }
    return way;
}

/* Of the GPUs that are next to each other in a channel the pair whose way is slowest. */
static void find_neighbours(const struct tutti_topo *topo, const struct tutti_nccl_graph *graph,
                            struct tutti_in_network *plan)
{
    plan->gpu_bytes_per_s = UINT64_MAX / 4; /* a GPU alone sends none by its links */
    for (uint32_t c = 0; c < graph->channel_count; c++) {
        const uint32_t *gpus = graph->gpus + (size_t)c * graph->gpu_count;

        for (uint32_t k = 1; k < graph->gpu_count; k++) {
            uint8_t hop;
            struct way way = way_to(topo, gpus[k - 1], gpus[k], &hop);

            if (way.bytes_per_s < plan->gpu_bytes_per_s) {
                plan->gpu_bytes_per_s = way.bytes_per_s;
                plan->hop = hop;
            }
            plan->stage_ps = way.latency_ps > plan->stage_ps ? way.latency_ps : plan->stage_ps;
        }
    }
}

static uint8_t part_of(enum tutti_collective collective)
{
    switch (collective) {
    case TUTTI_ALLGATHER:
        return TUTTI_IN_NETWORK_GATHERED;
    case TUTTI_REDUCESCATTER:
        return TUTTI_IN_NETWORK_SCATTERED;
    default:
        return TUTTI_IN_NETWORK_ALL;
    }
}

static int refuse(const struct tutti_topo *topo, const struct tutti_in_network *plan,
                  const struct tutti_nccl_choice *choice, struct tutti_err *err)
{
    if (plan->part != TUTTI_IN_NETWORK_ALL && plan->host_count > 1)
        return tutti_fail(err, TUTTI_ELACK,
                          "NCCL would run %s/%s, which is modelled for all-reduce alone "
                          "(nccl:ring, or NCCL_ALGO without it)",
                          tutti_nccl_algorithm_name(choice->algorithm),
                          tutti_nccl_protocol_name(choice->protocol));
    if (is_nvls(plan) && slowest_way(topo).bytes_per_s == 0)
        return tutti_fail(err, TUTTI_EINVAL, "'%s' has no switch that reduces", topo->name);
    if (plan->form != TUTTI_IN_NETWORK_NVLS_TREE && plan->host_count > 1 &&
        !network_reduces(topo, plan->host_count))
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s' has no switch between hosts that reduces (presets: sharp=yes)",
                          topo->name);
    return 0;
}

int tutti_nccl_switch_plan(const struct tutti_topo *topo, const struct tutti_nccl_comm *comm,
                           const struct tutti_nccl_choice *choice, enum tutti_collective collective,
                           uint64_t bytes, struct tutti_in_network *ret, struct tutti_err *err)
{
    const struct tutti_nccl_graph *graph =
        tutti_nccl_graph_of(comm, (enum tutti_nccl_algorithm)choice->algorithm);
    struct tutti_in_network plan = {.form = forms[choice->algorithm],
                                    .part = part_of(collective),
                                    .bytes = bytes,
                                    .gpu_count = topo->rank_count / comm->node_count,
                                    .head_count = graph->channel_count,
                                    .channel_count = choice->channel_count,
                                    .host_count = comm->node_count,
                                    .chunk_bytes = choice->chunk_bytes};
    int status = refuse(topo, &plan, choice, err);

    if (status < 0)
        return status;
    if (plan.head_count > graph->gpu_count)
        plan.head_count = graph->gpu_count;
    if (plan.form == TUTTI_IN_NETWORK_COLLNET_CHAIN)
        plan.head_count = count_ports(graph);
    if (is_nvls(&plan))
        plan.gpu_bytes_per_s = slowest_way(topo).bytes_per_s;
    else
        find_neighbours(topo, graph, &plan);
    if (plan.form == TUTTI_IN_NETWORK_NVLS_TREE)
        plan.tree_bytes_per_s = tutti_nvls_tree_rate(comm, plan.head_count);
    *ret = plan;
    return 0;
}

/* ---- what it costs ------------------------------------------------------------------------- */

/* A rank's way to its like in another host, and what binds it there. Where ports are fewer than
 * heads they are shared. */
static struct way way_between(const struct tutti_topo *topo, const struct tutti_protocol *protocol,
                              const struct tutti_in_network *plan, uint32_t rank, uint32_t to)
{
    uint32_t per_host = topo->rank_count / plan->host_count;
    uint32_t links[ROUTE_MAX];
    uint32_t count = tutti_topo_route(topo, rank, to, links, ROUTE_MAX);
    const struct tutti_hardware *hardware = topo->hardware;
    uint64_t ports = plan->head_count;
    struct way way = {.bytes_per_s = UINT64_MAX};

    if (hardware != NULL) { /* whose hosts are the trays of a rack, or have several of NCCL's */
        ports = (uint64_t)hardware->net_count * per_host / hardware->gpu_count;
        ports += ports == 0;
    }
    for (uint32_t i = 0; i < count && i < ROUTE_MAX; i++) {
        struct tutti_link link = tutti_topo_link(topo, links[i]);
        enum tutti_hop hop = tutti_link_hop(topo, links[i]);
        uint64_t rate = tutti_protocol_link_rate(protocol, hop, link.bytes_per_s);

        if (link.kind == TUTTI_LINK_NET && ports < plan->head_count)
            rate = rate * ports / plan->head_count;
        way.bytes_per_s = rate < way.bytes_per_s ? rate : way.bytes_per_s;
        way.latency_ps += link.latency_ps;
    }
    way.bytes_per_s += way.bytes_per_s == 0;
    return way;
}

/* Where all GPUs are heads the slowest of them; else that of the first. The latency is that of the
 * first two hosts, or, where the network adds up, of those farthest apart: sums are complete no
 * nearer. O(ranks). */
static tutti_ps find_port(const struct tutti_topo *topo, const struct tutti_protocol *protocol,
                          struct tutti_in_network *plan)
{
    uint32_t per_host = topo->rank_count / plan->host_count;
    struct way first = way_between(topo, protocol, plan, 0, per_host);
    bool all_heads = plan->head_count == per_host;

    plan->port_bytes_per_s = first.bytes_per_s;
    for (uint32_t rank = 1; all_heads && rank < topo->rank_count; rank++) {
        struct way way =
            way_between(topo, protocol, plan, rank, (rank + per_host) % topo->rank_count);

        if (way.bytes_per_s < plan->port_bytes_per_s)
            plan->port_bytes_per_s = way.bytes_per_s;
    }
    if (plan->form == TUTTI_IN_NETWORK_NVLS_TREE)
        return first.latency_ps;
    return way_between(topo, protocol, plan, 0, topo->rank_count - per_host).latency_ps;
}

/* What NVSwitch costs that adds up. */
static void fill_nvls(const struct tutti_protocol *protocol, struct tutti_in_network *s)
{
    bool tree = s->form == TUTTI_IN_NETWORK_NVLS_TREE && protocol->nvls.tree_link_ppm > 0;
    uint32_t ppm = tree ? protocol->nvls.tree_link_ppm : protocol->nvls.link_ppm;

    if (protocol->nvls.launch_ps > 0)
        s->launch_ps = protocol->nvls.launch_ps;
    s->stage_ps += protocol->nvls.stage_ps;
    s->loop_ps = protocol->nvls.loop_ps;
    s->lane_bytes_per_s = protocol->nvls.lane_bytes_per_s;
    if (s->lane_bytes_per_s == 0)
        s->lane_bytes_per_s = protocol->p2p_lane_bytes_per_s[TUTTI_HOP_NVLINK];
    if (ppm > 0)
        s->gpu_bytes_per_s = tutti_muldiv(s->gpu_bytes_per_s, ppm, TUTTI_PPM);
    s->gpu_bytes_per_s += s->gpu_bytes_per_s == 0;
    if (protocol->nvls.tree_ppm > 0)
        s->tree_bytes_per_s = tutti_muldiv(s->tree_bytes_per_s, protocol->nvls.tree_ppm, TUTTI_PPM);
}

/* Between GPUs CollNet sends what rings and trees do. */
static void fill_collnet(const struct tutti_protocol *protocol, struct tutti_in_network *s)
{
    s->stage_ps += protocol->message_ps[s->hop];
    s->loop_ps = protocol->slice_ps[s->hop];
    s->lane_bytes_per_s = protocol->lane_bytes_per_s[s->hop];
    s->gpu_bytes_per_s =
        tutti_protocol_link_rate(protocol, (enum tutti_hop)s->hop, s->gpu_bytes_per_s);
}

tutti_ps tutti_nccl_switch_time(const struct tutti_topo *topo, const struct tutti_in_network *plan,
                                const struct tutti_protocol *protocol)
{
    struct tutti_in_network in_network = *plan;

    if (is_nvls(plan))
        in_network.stage_ps = 2 * slowest_way(topo).latency_ps;
    if (plan->host_count > 1)
        in_network.net_ps = find_port(topo, protocol, &in_network);
    if (protocol == NULL)
        return tutti_in_network_time(&in_network);
    in_network.launch_ps = protocol->launch_ps;
    if (is_nvls(plan))
        fill_nvls(protocol, &in_network);
    else
        fill_collnet(protocol, &in_network);
    if (plan->host_count > 1) {
        in_network.net_ps += protocol->message_ps[TUTTI_HOP_NET];
        in_network.net_loop_ps = protocol->slice_ps[TUTTI_HOP_NET];
    }
    return tutti_in_network_time(&in_network);
}
