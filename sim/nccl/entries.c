/* The tuning tables filled: NCCL's estimates of bandwidth and latency, and what may run at all
 * (NCCL 2.28 graph/tuning.cc, ncclTopoTuneModel). In float where NCCL is, so that ties are its. */
#include "sim/nccl/tables.h"

#include <stddef.h>
#include <string.h>

#include "sim/nccl/plugin.h"
#include "topo/hardware.h"

/* What every formula reads. */
struct model {
    const struct tutti_nccl_comm *comm;
    const struct tutti_nccl_facts *facts;
    const struct tutti_nccl_env *env;
    const struct tutti_nccl_changes *changes;
    const struct tutti_nccl_constants *constants;
    uint32_t gpu;   /* class, a row of the constants */
    uint32_t scale; /* of nodes, a column */
    uint32_t rank_count, node_count;
    float ranks_a_node;
};

static float lesser(double a, double b)
{
    return (float)(a < b ? a : b);
}

static bool is_collnet(int algorithm)
{
    return algorithm == TUTTI_NCCL_COLLNET_DIRECT || algorithm == TUTTI_NCCL_COLLNET_CHAIN;
}

static bool is_nvls(int algorithm)
{
    return algorithm == TUTTI_NCCL_NVLS || algorithm == TUTTI_NCCL_NVLS_TREE;
}

static bool gathers(int function)
{
    return function == TUTTI_NCCL_ALLGATHER || function == TUTTI_NCCL_REDUCESCATTER;
}

static uint32_t steps(const struct model *m, int function)
{
    if (function == TUTTI_NCCL_ALLREDUCE)
        return 2 * (m->rank_count - 1);
    return gathers(function) ? m->rank_count - 1 : m->rank_count;
}

/* ---- what is missing ----------------------------------------------------------------------- */

/* What no setting changes: which functions and protocols an algorithm is written for. */
static const char *unwritten(int function, int algorithm, int protocol)
{
    bool rooted = function == TUTTI_NCCL_BROADCAST || function == TUTTI_NCCL_REDUCE;

    if (rooted && algorithm != TUTTI_NCCL_RING)
        return "only Ring is written for it";
    if (gathers(function) && algorithm != TUTTI_NCCL_RING && algorithm != TUTTI_NCCL_PAT &&
        algorithm != TUTTI_NCCL_NVLS && algorithm != TUTTI_NCCL_COLLNET_DIRECT)
        return "not written for it";
    if (function == TUTTI_NCCL_ALLREDUCE && algorithm == TUTTI_NCCL_PAT)
        return "not written for it";
    if (algorithm > TUTTI_NCCL_RING && protocol != TUTTI_NCCL_SIMPLE)
        return "runs with Simple alone";
    return NULL;
}

/* PAT: one rank a node, unless it is forced. */
static const char *pat_missing(const struct model *m)
{
    if (m->changes->no_pat)
        return "this version has no PAT";
    if (m->facts->compute_min < 60)
        return "needs compute capability 6.0";
    if (m->env->pat_enable == 0)
        return "NCCL_PAT_ENABLE is 0";
    if (m->env->pat_enable != 1 && m->node_count != m->rank_count)
        return "needs one rank a node";
    return NULL;
}

/* CollNet on several nodes, and all gathering through switches there. */
static const char *collnet_missing(const struct model *m, int function, int algorithm)
{
    const struct tutti_nccl_graph *graph =
        tutti_nccl_graph_of(m->comm, (enum tutti_nccl_algorithm)algorithm);

    if (m->changes->no_collnet)
        return "CollNet of this version is not modelled";
    if (algorithm == TUTTI_NCCL_COLLNET_CHAIN && m->changes->no_collnet_chain)
        return "this version has no CollNetChain";
    if (m->env->collnet_enable != 1)
        return "CollNet is off (NCCL_COLLNET_ENABLE)";
    if (!tutti_nccl_env_collnet(m->env, m->node_count))
        return "CollNet is off for so few nodes (NCCL_COLLNET_NODE_THRESHOLD)";
    if (m->node_count > 1 && m->comm->graphs[TUTTI_GRAPH_COLLNET_CHAIN].channel_count == 0)
        return "CollNet finds no port whose network reduces (coll=1 of a port; presets: sharp=yes)";
    if (algorithm == TUTTI_NCCL_COLLNET_DIRECT && !m->facts->nvswitch)
        return "needs NVSwitch";
    if (gathers(function) && m->node_count > 1 && m->ranks_a_node > (float)graph->channel_count)
        return "needs a head for each rank of a node";
    return NULL;
}

static const char *nvls_missing(const struct model *m, int function, int algorithm)
{
    if (m->changes->gathers_by_rings && gathers(function))
        return "not written for it in this version";
    if (m->changes->no_nvls)
        return "this version has no NVLS";
    if (algorithm == TUTTI_NCCL_NVLS_TREE && m->changes->no_nvls_tree)
        return "this version has no NVLSTree";
    if (m->env->nvls_enable == 0)
        return "NCCL_NVLS_ENABLE is 0";
    if (algorithm == TUTTI_NCCL_NVLS_TREE && m->node_count == 1)
        return "needs several nodes";
    if (m->comm->graphs[TUTTI_GRAPH_NVLS].channel_count == 0)
        return "no NVLS channels were found (it needs NVSwitch, from compute capability 9.0)";
    if (m->comm->graphs[TUTTI_GRAPH_NVLS].channel_count == 1)
        return "needs two NVLS channels, one was found";
    return NULL;
}

/* GPUs that a version knows to have it. */
static bool knows_ll128(const struct model *m)
{
    const uint32_t *known = m->changes->ll128_computes;

    if (known == NULL)
        return m->facts->compute_min >= 70;
    while (*known != 0 && *known != m->facts->compute_min)
        known++;
    return *known != 0;
}

/* Where LL128 may run by itself: its 128 bytes must arrive as one. */
static const char *ll128_missing(const struct model *m, int algorithm)
{
    const struct tutti_nccl_graph *graph =
        tutti_nccl_graph_of(m->comm, (enum tutti_nccl_algorithm)algorithm);
    uint32_t compute = m->facts->compute_min;
    bool far = compute >= 90 && m->env->ll128_c2c != 0;

    if (graph->type_inter > (far ? TUTTI_PATH_PXN : TUTTI_PATH_PXB))
        return far ? "LL128 needs network ports no further than PXN"
                   : "LL128 needs network ports no further than PXB";
    if (graph->type_intra > (m->changes->ll128_by_nvlink ? TUTTI_PATH_NVL : TUTTI_PATH_NVB))
        return "LL128 needs NVLink between the GPUs of a host";
    if (compute != m->facts->compute_max && (compute < 90 || !m->changes->ll128_across_gpus))
        return "LL128 needs GPUs of one compute capability";
    if (!knows_ll128(m))
        return m->changes->ll128_computes == NULL
                   ? "LL128 needs compute capability 7.0"
                   : "this version has LL128 on no GPUs of this compute capability";
    return NULL;
}

static const char *missing(const struct model *m, int function, int algorithm, int protocol)
{
    const char *why = unwritten(function, algorithm, protocol);

    if (why == NULL && m->env->algorithms[function][algorithm] == TUTTI_NCCL_OFF)
        why = "NCCL_ALGO leaves it out";
    if (why == NULL && m->env->protocols[function][protocol] == TUTTI_NCCL_OFF)
        why = "NCCL_PROTO leaves it out";
    if (why == NULL && protocol != TUTTI_NCCL_SIMPLE && m->facts->unordered &&
        m->env->protocols[function][TUTTI_NCCL_LL128] == TUTTI_NCCL_AUTO) /* NCCL_PROTO is unset */
        why = "the plugin of its network has NCCL run Simple alone (bytes may come out of order)";
    if (why == NULL && is_nvls(algorithm))
        why = nvls_missing(m, function, algorithm);
    if (why == NULL && algorithm == TUTTI_NCCL_PAT)
        why = pat_missing(m);
    if (why == NULL &&
        (is_collnet(algorithm) || (algorithm == TUTTI_NCCL_NVLS && m->node_count > 1)))
        why = collnet_missing(m, function, algorithm);
    if (why == NULL && protocol == TUTTI_NCCL_LL128 &&
        m->env->protocols[function][protocol] == TUTTI_NCCL_AUTO)
        why = ll128_missing(m, algorithm);
    if (why == NULL &&
        tutti_nccl_graph_of(m->comm, (enum tutti_nccl_algorithm)algorithm)->channel_count == 0)
        why = "its search found no channel";
    return why;
}

/* ---- bandwidth ----------------------------------------------------------------------------- */

/* LL is bound by the GPUs on one node, by the CPUs on several: rows of AMD and of the others. */
static double ll_GBps(const struct model *m)
{
    bool amd = m->facts->cpus_mixed || m->facts->cpu_vendor == TUTTI_VENDOR_AMD;
    uint32_t row = m->node_count == 1 ? m->gpu : amd ? TUTTI_GPU_AMPERE : TUTTI_GPU_VOLTA;

    return m->constants->ll_GBps[row][m->scale];
}

/* What LL leaves of a ring's speed. */
static double ring_ll_share(const struct model *m, int function)
{
    if (!m->changes->ring_ll_quarter)
        return .5;
    return m->changes->as_in_2_6 || m->node_count > 1 || function == TUTTI_NCCL_ALLREDUCE ||
                   function == TUTTI_NCCL_REDUCE
               ? 1.0 / 4.0
               : 1.0 / 3.0;
}

static float ring_ll128_GBps(const struct model *m, const struct tutti_nccl_graph *graph, float bus,
                             int function)
{
    double most = m->constants->ll128_GBps_of[function];
    double share = m->changes->ring_ll128_lone && m->ranks_a_node < 2 ? 0.7 : 0.92;

    if (m->changes->as_in_2_6)
        return lesser((double)bus * 120 / 128, most);
    if (!(most > 0))
        most = m->constants->ring_ll128_GBps[m->gpu][m->scale];
    return lesser((double)bus * share, graph->channel_count * most);
}

static float ring_bus_GBps(const struct model *m, const struct tutti_nccl_graph *graph, float bus,
                           int function, int protocol)
{
    if (protocol == TUTTI_NCCL_LL)
        return lesser((double)bus * ring_ll_share(m, function), ll_GBps(m));
    if (protocol == TUTTI_NCCL_LL128)
        return ring_ll128_GBps(m, graph, bus, function);
    return bus;
}

/* What the whole bus is to trees, of their protocols. */
static float tree_share_GBps(const struct model *m, const struct tutti_nccl_graph *graph, float bus,
                             int protocol)
{
    bool wide =
        m->gpu == TUTTI_GPU_AMPERE && protocol == TUTTI_NCCL_LL128 && !m->changes->as_in_2_6;

    if (!m->changes->tree_by_totals)
        return lesser((double)bus * .92,
                      graph->channel_count * m->constants->tree_GBps[m->gpu][m->scale]);
    if (m->scale == TUTTI_NCCL_MANY_NODES)
        return lesser((double)bus * .9, wide ? 105 : 80);
    return lesser((double)bus * .9, wide ? 130 : 110);
}

static double tree_ll128_share(const struct model *m)
{
    if (m->node_count == 1 || m->changes->as_in_2_6)
        return 7.0 / 9.0;
    return m->changes->tree_ll128_less ? .915 : 120.0 / 128.0;
}

static float tree_bus_GBps(const struct model *m, const struct tutti_nccl_graph *graph, float bus,
                           int protocol)
{
    const struct tutti_nccl_constants *c = m->constants;

    bus = tree_share_GBps(m, graph, bus, protocol);
    if (protocol == TUTTI_NCCL_LL)
        bus = lesser((double)bus / (m->changes->as_in_2_6 ? 3.0 : 3.8), ll_GBps(m));
    if (protocol == TUTTI_NCCL_LL128)
        bus = lesser((double)bus * tree_ll128_share(m),
                     graph->channel_count * c->tree_ll128_GBps[m->gpu][m->scale]);
    if (graph->pattern == TUTTI_PATTERN_TREE &&
        !m->changes->tree_pattern_free) /* the worst node's */
        bus = (float)((double)bus * .85);
    return bus;
}

/* A channel of NVLS: through the switch twice in an all-reduce, over the network once. */
static float nvls_channel_GBps(const struct model *m, const struct tutti_nccl_graph *graph,
                               int function, int algorithm)
{
    float count = (float)graph->channel_count;
    float intra = (float)(graph->bw_intra_GBps * m->constants->nvls_efficiency[m->gpu] *
                          (double)(count - 1) / (double)count);
    float inter = (float)graph->bw_inter_GBps;

    if (m->changes->nvls_plain_peers && gathers(function))
        return lesser((float)graph->bw_intra_GBps * (m->ranks_a_node - 1) / m->ranks_a_node,
                      inter * 0.9f);
    if (m->changes->nvls_tree_by_nodes)
        return m->node_count <= 2 ? (float)graph->bw_intra_GBps : inter;
    if (m->changes->nvls_plain)
        return lesser(graph->bw_intra_GBps,
                      algorithm == TUTTI_NCCL_NVLS_TREE && m->node_count > 2 ? inter / 2 : inter);
    intra *= function == TUTTI_NCCL_ALLREDUCE ? 2.0f : (m->ranks_a_node - 1) / m->ranks_a_node;
    if (algorithm == TUTTI_NCCL_NVLS_TREE && m->node_count <= 2)
        inter *= 2;
    if (algorithm == TUTTI_NCCL_NVLS_TREE)
        inter = lesser(inter, m->constants->nvls_tree_GBps[m->gpu][m->scale]);
    return lesser(intra, inter);
}

static float collnet_direct_bus_GBps(const struct model *m, const struct tutti_nccl_graph *graph,
                                     float bus, int function)
{
    float factor = m->ranks_a_node / (float)graph->channel_count; /* GPUs a port */

    if (gathers(function))
        return m->ranks_a_node * lesser(graph->bw_intra_GBps, (float)graph->bw_inter_GBps * 0.9f);
    factor -= (factor - 1) / 2;
    bus /= factor;
    return m->facts->compute_min >= 90 ? (float)((double)bus * .85) : bus;
}

/* Bytes of an operation for each byte that a bus carries. */
static float ratio_of(const struct model *m, int function, int algorithm)
{
    if (algorithm == TUTTI_NCCL_NVLS && m->changes->nvls_three_quarters)
        return .75f;
    if (algorithm == TUTTI_NCCL_NVLS_TREE && m->changes->nvls_tree_by_nodes)
        return (float)(.70 * m->node_count / (2 * (m->node_count - 1)));
    if (m->changes->nvls_plain && is_nvls(algorithm))
        return (float)(5.0 / 6.0);
    if (algorithm == TUTTI_NCCL_RING || is_nvls(algorithm))
        return (float)(1.0 * m->rank_count / steps(m, function));
    return 0.5f;
}

/* What no bus of a generation goes beyond. */
static float capped(const struct model *m, float bus)
{
    if (!m->changes->bus_capped || m->gpu == TUTTI_GPU_VOLTA)
        return bus;
    if (m->changes->tree_by_totals) /* no cap yet: 2.7 takes 0.92 of Ampere's */
        return m->changes->as_in_2_6 ? bus : (float)((double)bus * .92);
    return lesser(bus, m->gpu == TUTTI_GPU_AMPERE ? 235 : 370);
}

static float algbw_GBps(const struct model *m, int function, int algorithm, int protocol)
{
    bool by_rings = algorithm == TUTTI_NCCL_NVLS && m->changes->nvls_by_rings;
    const struct tutti_nccl_graph *graph = tutti_nccl_graph_of(
        m->comm, by_rings ? TUTTI_NCCL_RING : (enum tutti_nccl_algorithm)algorithm);
    bool inside = m->node_count <= 2 || is_collnet(algorithm);
    float channel = (float)(inside ? graph->bw_intra_GBps : graph->bw_inter_GBps);
    float bus;

    if (is_nvls(algorithm) && !by_rings)
        channel = nvls_channel_GBps(m, graph, function, algorithm);
    bus = capped(m, (float)graph->channel_count * channel);
    if (algorithm == TUTTI_NCCL_RING)
        bus = ring_bus_GBps(m, graph, bus, function, protocol);
    else if (algorithm == TUTTI_NCCL_TREE)
        bus = tree_bus_GBps(m, graph, bus, protocol);
    else if (algorithm == TUTTI_NCCL_PAT)
        bus = (float)((double)bus * .75);
    else if (algorithm == TUTTI_NCCL_COLLNET_DIRECT)
        bus = collnet_direct_bus_GBps(m, graph, bus, function);
    else if (algorithm == TUTTI_NCCL_COLLNET_CHAIN && m->changes->collnet_chain_slow)
        bus = (float)((double)bus * .75);
    if (gathers(function) && algorithm != TUTTI_NCCL_RING &&
        !(m->changes->nvls_plain_gather && is_nvls(algorithm)))
        return bus;
    return bus * ratio_of(m, function, algorithm);
}

/* ---- latency ------------------------------------------------------------------------------- */

static float step_us(const struct model *m, uint32_t wire, int algorithm, int protocol)
{
    /* On POWER a Tree step over PCI with Simple is as quick as a Ring step. */
    if (m->facts->cpu_arch == TUTTI_ARCH_PPC64 && wire == TUTTI_WIRE_PCI &&
        algorithm == TUTTI_NCCL_TREE && protocol == TUTTI_NCCL_SIMPLE)
        algorithm = TUTTI_NCCL_RING;
    return (float)m->constants->step_us[wire][algorithm][protocol];
}

/* What the CPU takes to post to the network. */
static float post_us(const struct model *m)
{
    if (m->env->net_overhead_ns != TUTTI_NCCL_UNSET)
        return (float)((double)m->env->net_overhead_ns * .001);
    return m->facts->cpu_arch == TUTTI_ARCH_X86_64 && m->facts->cpu_vendor == TUTTI_VENDOR_AMD &&
                   !m->facts->cpus_mixed
               ? 2.0f
               : 1.0f;
}

static float ring_us(const struct model *m, int function, int protocol, float intra_us,
                     float inter_us)
{
    const struct tutti_nccl_graph *graph = &m->comm->graphs[TUTTI_GRAPH_RING];
    uint32_t wire = m->node_count > 1                     ? TUTTI_WIRE_NET
                    : graph->type_intra == TUTTI_PATH_NVL ? TUTTI_WIRE_NVLINK
                                                          : TUTTI_WIRE_PCI;
    uint32_t step_count = steps(m, function);
    uint32_t inter_count =
        function == TUTTI_NCCL_ALLREDUCE ? 2 * (m->node_count - 1) : m->node_count - 1;

    if (function == TUTTI_NCCL_BROADCAST || function == TUTTI_NCCL_REDUCE) {
        if (graph->same_channels)
            return step_us(m, wire, TUTTI_NCCL_RING, protocol);
        return (float)step_count *
               step_us(m, wire, protocol == TUTTI_NCCL_SIMPLE ? TUTTI_NCCL_TREE : TUTTI_NCCL_RING,
                       protocol);
    }
    if (m->changes->as_in_2_6)
        return (float)step_count * step_us(m, wire, TUTTI_NCCL_RING, protocol);
    if (m->changes->ring_twice_nodes && function == TUTTI_NCCL_ALLREDUCE && m->node_count > 1)
        inter_count = 2 * m->node_count;
    if (m->node_count > 1 && !m->changes->no_posts) { /* every step, those inside a node too */
        float post = post_us(m) * (protocol == TUTTI_NCCL_SIMPLE ? 3.0f : 1.0f);

        intra_us = intra_us > post ? intra_us : post;
    }
    return ((float)step_count - (float)inter_count) * intra_us + (float)inter_count * inter_us;
}

static float latency_us(const struct model *m, int function, int algorithm, int protocol)
{
    const struct tutti_nccl_graph *graph =
        tutti_nccl_graph_of(m->comm, (enum tutti_nccl_algorithm)algorithm);
    uint32_t inside = graph->type_intra == TUTTI_PATH_NVL ? TUTTI_WIRE_NVLINK : TUTTI_WIRE_PCI;
    float base = (float)m->constants->base_us[algorithm][protocol];
    float intra = step_us(m, inside, algorithm, protocol);
    bool lone = m->node_count == m->rank_count && !m->changes->lone_by_algorithm;
    float inter = step_us(m, TUTTI_WIRE_NET, lone ? TUTTI_NCCL_TREE : algorithm, protocol);
    float hops = (float)(m->rank_count / m->node_count - 1);
    float levels = (float)tutti_nccl_log2(m->node_count);
    float stated = (float)tutti_nccl_plugin_latency_us((enum tutti_nccl_plugin)m->facts->plugin,
                                                       m->comm->version, graph->latency_inter_us);

    if (m->changes->latency_instead) {
        inter = stated > 0 ? stated : inter;
    } else if (!m->changes->no_port_latency) {
        inter += stated;
        if (protocol == TUTTI_NCCL_SIMPLE) /* the flush */
            inter += stated;
    }
    if (m->changes->ll_longer && !m->changes->as_in_2_6 && m->node_count > 1 &&
        protocol == TUTTI_NCCL_LL)
        intra = (float)((double)intra * 1.8);
    switch (algorithm) {
    case TUTTI_NCCL_RING:
        return base + ring_us(m, function, protocol, intra, inter);
    case TUTTI_NCCL_TREE:
        return base + 2 * (hops * intra + levels * inter);
    case TUTTI_NCCL_COLLNET_DIRECT: /* so much for each further peer */
        return base + (float)(2 * ((hops > 0 ? 1.0 : 0.0) * (double)intra +
                                   (double)hops * (m->changes->collnet_half_us ? 0.5 : 0.4)) +
                              (double)inter);
    case TUTTI_NCCL_COLLNET_CHAIN:
        return base + 2 * hops * intra + (m->changes->collnet_chain_slow ? 0 : inter);
    case TUTTI_NCCL_NVLS:
        return base + (m->node_count > 1 && !m->changes->nvls_by_rings ? intra + inter : intra);
    case TUTTI_NCCL_NVLS_TREE:
        return base + intra +
               2 * (m->changes->nvls_tree_by_nodes ? (float)(m->node_count - 1) : levels) * inter;
    default: /* PAT */
        return (float)((double)base + (double)levels * ((double)inter / 3.5) + m->rank_count * 2.8);
    }
}

static void fill_entry(const struct model *m, int function, int algorithm, int protocol,
                       const char *why, struct tutti_nccl_entry *entry)
{
    entry->missing = why;
    if (why != NULL)
        return;
    entry->latency_us = latency_us(m, function, algorithm, protocol);
    entry->algbw_GBps = algbw_GBps(m, function, algorithm, protocol);
    if (!(entry->algbw_GBps > 0))
        entry->missing = "NCCL reckons with no bandwidth for it on these GPUs";
}

static bool fill_function(const struct model *m, int function, struct tutti_nccl_tables *tables)
{
    bool any = false;

    for (int a = 0; a < TUTTI_NCCL_ALGORITHM_COUNT; a++) {
        for (int p = 0; p < TUTTI_NCCL_PROTOCOL_COUNT; p++) {
            struct tutti_nccl_entry *entry = &tables->entries[function][a][p];

            fill_entry(m, function, a, p, missing(m, function, a, p), entry);
            any = any || entry->missing == NULL;
        }
    }
    return any;
}

void tutti_nccl_fill_entries(const struct tutti_nccl_comm *comm, struct tutti_nccl_tables *tables)
{
    struct model m = {
        .comm = comm,
        .facts = &tables->facts,
        .env = &tables->env,
        .changes = &comm->version->changes,
        .constants = comm->version->constants,
        .gpu = tutti_nccl_gpu_class(tables->facts.compute_min, &comm->version->changes),
        .scale = comm->node_count <= 2 ? comm->node_count - 1 : TUTTI_NCCL_MANY_NODES,
        .rank_count = comm->rank_count,
        .node_count = comm->node_count,
        .ranks_a_node = (float)comm->rank_count / (float)comm->node_count,
    };

    for (int f = 0; f < TUTTI_NCCL_FUNCTION_COUNT; f++) {
        if (fill_function(&m, f, tables) || !m.changes->ring_for_lack)
            continue;
        memset(tables->env.algorithms[f], TUTTI_NCCL_OFF, TUTTI_NCCL_ALGORITHM_COUNT);
        tables->env.algorithms[f][TUTTI_NCCL_RING] = TUTTI_NCCL_ON;
        (void)fill_function(&m, f, tables);
    }
}
