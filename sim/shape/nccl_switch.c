/* From NCCL's choice of NVLS to its pipeline; see nccl_switch.h. */
#include "sim/shape/nccl_switch.h"

#include "runtime/status.h"
#include "sim/nccl.h"
#include "sim/play/wires.h"
#include "sim/protocol.h"
#include "topo/hardware.h"
#include "topo/topo.h"

enum { ROUTE_MAX = 64 };

/* From a GPU to switches that reduce: the rate of all links, and the latency of the longest. Other
 * links (PCIe) may come before them. */
struct way {
    uint64_t bytes_per_s;
    tutti_ps latency_ps;
};

static struct way way_of(const struct tutti_topo *topo, uint32_t rank)
{
    uint32_t node = tutti_topo_rank_node(topo, rank);
    struct way way = {.bytes_per_s = 0};

    for (uint32_t k = 0; k < tutti_topo_out_count(topo, node); k++) {
        struct tutti_link link = tutti_topo_link(topo, tutti_topo_out_link(topo, node, k));

        if (!tutti_topo_node(topo, link.to).reduces)
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

int tutti_nccl_switch_plan(const struct tutti_topo *topo, const struct tutti_nccl_comm *comm,
                           const struct tutti_nccl_choice *choice, enum tutti_collective collective,
                           uint64_t bytes, struct tutti_nvls *ret, struct tutti_err *err)
{
    const struct tutti_nccl_graph *graph = &comm->graphs[TUTTI_GRAPH_NVLS];
    bool tree = choice->algorithm == TUTTI_NCCL_NVLS_TREE;
    struct tutti_nvls plan = {.bytes = bytes,
                              .head_count = graph->channel_count,
                              .channel_count = choice->channel_count,
                              .host_count = comm->node_count,
                              .chunk_bytes = choice->chunk_bytes,
                              .gpu_bytes_per_s = slowest_way(topo).bytes_per_s};

    if (collective != TUTTI_ALLREDUCE ||
        (!tree && (choice->algorithm != TUTTI_NCCL_NVLS || comm->node_count > 1)))
        return tutti_fail(err, TUTTI_ELACK,
                          "NCCL would run %s/%s, which is not modelled yet (nccl:ring, or "
                          "NCCL_ALGO without it)",
                          tutti_nccl_algorithm_name(choice->algorithm),
                          tutti_nccl_protocol_name(choice->protocol));
    if (plan.gpu_bytes_per_s == 0)
        return tutti_fail(err, TUTTI_EINVAL, "'%s' has no switch that reduces", topo->name);
    if (plan.head_count > graph->gpu_count)
        plan.head_count = graph->gpu_count;
    if (tree)
        plan.tree_bytes_per_s = tutti_nvls_tree_rate(comm, plan.head_count);
    *ret = plan;
    return 0;
}

/* A rank's way to its like in the next host, and what binds it there. Where ports are fewer than
 * heads they are shared. */
static struct way way_between(const struct tutti_topo *topo, const struct tutti_protocol *protocol,
                              const struct tutti_nvls *plan, uint32_t rank)
{
    uint32_t per_host = topo->rank_count / plan->host_count;
    uint32_t to = (rank + per_host) % topo->rank_count;
    uint32_t links[ROUTE_MAX];
    uint32_t count = tutti_topo_route(topo, rank, to, links, ROUTE_MAX);
    const struct tutti_hardware *hardware = topo->hardware;
    uint64_t ports = plan->head_count;
    struct way way = {.bytes_per_s = UINT64_MAX};

    if (hardware != NULL) /* whose hosts are the trays of a rack */
        ports = (uint64_t)hardware->net_count * (per_host / hardware->gpu_count);
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
 * first two hosts. O(ranks). */
static tutti_ps find_port(const struct tutti_topo *topo, const struct tutti_protocol *protocol,
                          struct tutti_nvls *plan)
{
    struct way first = way_between(topo, protocol, plan, 0);
    bool all_heads = plan->head_count == topo->rank_count / plan->host_count;

    plan->port_bytes_per_s = first.bytes_per_s;
    for (uint32_t rank = 1; all_heads && rank < topo->rank_count; rank++) {
        struct way way = way_between(topo, protocol, plan, rank);

        if (way.bytes_per_s < plan->port_bytes_per_s)
            plan->port_bytes_per_s = way.bytes_per_s;
    }
    return first.latency_ps;
}

tutti_ps tutti_nccl_switch_time(const struct tutti_topo *topo, const struct tutti_nvls *plan,
                                const struct tutti_protocol *protocol)
{
    struct tutti_nvls nvls = *plan;

    nvls.stage_ps = 2 * slowest_way(topo).latency_ps;
    if (plan->host_count > 1)
        nvls.net_ps = find_port(topo, protocol, &nvls);
    if (protocol == NULL)
        return tutti_nvls_time(&nvls);
    nvls.launch_ps = protocol->nvls.launch_ps > 0 ? protocol->nvls.launch_ps : protocol->launch_ps;
    nvls.stage_ps += protocol->nvls.stage_ps;
    nvls.loop_ps = protocol->nvls.loop_ps;
    nvls.lane_bytes_per_s = protocol->p2p_lane_bytes_per_s[TUTTI_HOP_NVLINK];
    if (protocol->nvls.link_ppm > 0)
        nvls.gpu_bytes_per_s =
            (uint64_t)((tutti_u128)nvls.gpu_bytes_per_s * protocol->nvls.link_ppm / TUTTI_PPM);
    nvls.gpu_bytes_per_s += nvls.gpu_bytes_per_s == 0;
    if (plan->host_count > 1) {
        nvls.net_ps += protocol->message_ps[TUTTI_HOP_NET];
        nvls.net_loop_ps = protocol->slice_ps[TUTTI_HOP_NET];
    }
    return tutti_nvls_time(&nvls);
}
