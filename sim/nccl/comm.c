/* A communicator as NCCL makes it: the graph of a node, the searches, what ranks agree on. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "sim/nccl.h"
#include "sim/nccl/env.h"
#include "sim/nccl/paths.h"
#include "sim/nccl/rccl.h"
#include "sim/nccl/search.h"
#include "sim/nccl/tables.h"

enum {
    NODE_GPUS_MAX = 576, /* NCCL_TOPO_MAX_NODES */
    RING_CHANNELS_MAX = TUTTI_NCCL_CHANNELS_MAX / 2,
    NVLS_GPUS_MIN = 3, /* transport/nvls.cc ncclNvlsInit */
};

/* A communicator and what stands behind it. */
struct room {
    struct tutti_nccl_comm comm; /* first: what the caller holds */
    struct tutti_arena *arena;
    struct tutti_nccl_search_log logs[TUTTI_GRAPH_COUNT]; /* of the first node */
};

/* While it is being made. */
struct make {
    struct room *room;
    const struct tutti_hardware *hw;
    struct tutti_nccl_rules rules;
    const struct tutti_nccl_rings *rings; /* NULL: to be searched for */
    uint32_t hosts;                       /* in the graph of a node: of a rack all, else 1 */
    uint32_t times;                       /* there are so many alike */
    uint32_t gpus;                        /* of those hosts */
    uint32_t *domain;                     /* [GPU]: the first GPU of its node */
    struct tutti_arena *scratch;
    struct tutti_err *err;
};

/* ---- rules --------------------------------------------------------------------------------- */

static int64_t or_else(int64_t value, int64_t otherwise)
{
    return value == TUTTI_NCCL_UNSET ? otherwise : value;
}

static struct tutti_nccl_rules rules_of(const struct tutti_nccl_env *env,
                                        const struct tutti_nccl_version *version)
{
    struct tutti_nccl_rules rules = {
        .p2p_level = (int)or_else(env->p2p_level, -1),
        .gdr_level = (int)or_else(env->net_gdr_level, -1),
        .nvb = or_else(env->nvb_disable, 0) == 0,
        .pxn = or_else(env->pxn_disable, 0) != 1,
        .pxn_c2c = or_else(env->pxn_c2c, 1) != 0,
        .shm = or_else(env->shm_disable, 0) != 1,
        .gdr_c2c = true,
        .cross_nic = (int)or_else(env->cross_nic, 2),
        .nets_policy = (int)or_else(env->netdevs_policy, TUTTI_NETDEVS_AUTO),
        .nets_max = (uint32_t)or_else(env->netdevs_max, 1),
        .nvls = or_else(env->nvls_enable, 2) != 0,
        .collnet = or_else(env->collnet_enable, 0) == 1,
        .sm100_more_speeds = version->speeds_45,
        .amd_rates = version->amd_rates,
        .duplicates_last = version->changes.duplicates_last,
    };

    if (or_else(env->p2p_disable, 0) == 1)
        rules.p2p_level = TUTTI_PATH_LOC;
    return rules;
}

/* ---- graphs -------------------------------------------------------------------------------- */

/* Takes over what was found, with ranks and ports instead of places. */
static int keep_graph(const struct make *m, const struct tutti_nccl_system *system,
                      const struct tutti_nccl_candidate *candidate, bool collapsed,
                      struct tutti_nccl_graph *ret)
{
    uint32_t gpus = system->counts[TUTTI_NCCL_GPU];
    bool inter = system->counts[TUTTI_NCCL_NET] > 0;
    size_t count = (size_t)candidate->channel_count * gpus;
    uint32_t *ranks = tutti_arena_take(m->room->arena, count, sizeof(*ranks));
    uint32_t *nets =
        tutti_arena_take(m->room->arena, 2 * (size_t)candidate->channel_count, sizeof(*nets));

    if (ranks == NULL || nets == NULL)
        return tutti_nomem(m->err);
    for (size_t i = 0; i < count; i++)
        ranks[i] =
            tutti_nccl_node(system, TUTTI_NCCL_GPU, candidate->gpus[i])->host * m->hw->gpu_count +
            tutti_nccl_gpu(system, candidate->gpus[i])->rank;
    for (size_t i = 0; inter && i < 2 * (size_t)candidate->channel_count; i++) {
        const struct tutti_nccl_node *net =
            tutti_nccl_node(system, TUTTI_NCCL_NET, candidate->nets[i]);

        nets[i] = net->host * m->hw->net_count + net->source;
    }
    *ret = (struct tutti_nccl_graph){
        .pattern = candidate->pattern,
        .cross_nic = candidate->cross_nic,
        .type_intra = candidate->type_intra,
        .type_inter = candidate->type_inter,
        .same_channels = candidate->same_channels,
        .collapsed = collapsed,
        .channel_count = candidate->channel_count,
        .channels_found = candidate->channel_count,
        .bw_intra_GBps = (double)candidate->intra_kbyte_per_s / 1e6,
        .bw_inter_GBps = (double)candidate->inter_kbyte_per_s / 1e6,
        .latency_inter_us = candidate->latency_ns / 1e3,
        .gpu_count = gpus,
        .gpus = ranks,
        .nets = inter ? nets : NULL,
    };
    return 0;
}

static int search_one(const struct make *m, struct tutti_nccl_system *system,
                      const struct tutti_nccl_request *request, enum tutti_nccl_graph_id id,
                      struct tutti_nccl_graph *graphs, struct tutti_nccl_search_log *logs)
{
    struct tutti_nccl_candidate candidate;
    int status;

    logs[id].arena = logs == m->room->logs ? m->room->arena : m->scratch;
    if (id == TUTTI_GRAPH_RING && m->rings != NULL)
        status = tutti_nccl_draw_rings(system, m->rings, m->scratch, &candidate, m->err);
    else
        status = tutti_nccl_search(system, &m->rules, request, m->scratch, &candidate, &logs[id],
                                   m->err);
    if (status == 0)
        status = keep_graph(m, system, &candidate, logs[id].collapsed, &graphs[id]);
    return status;
}

/* init.cc initTransportsRank: rings first, as many trees, the others where they may run at all. */
static int search_all(const struct make *m, struct tutti_nccl_system *system,
                      struct tutti_nccl_graph *graphs, struct tutti_nccl_search_log *logs)
{
    struct tutti_nccl_request request = {
        .pattern = TUTTI_PATTERN_RING, .channels_min = 1, .channels_max = RING_CHANNELS_MAX};
    int status = search_one(m, system, &request, TUTTI_GRAPH_RING, graphs, logs);

    request = (struct tutti_nccl_request){.pattern = TUTTI_PATTERN_BALANCED_TREE,
                                          .channels_min = graphs[TUTTI_GRAPH_RING].channel_count,
                                          .channels_max = graphs[TUTTI_GRAPH_RING].channel_count};
    if (status == 0)
        status = search_one(m, system, &request, TUTTI_GRAPH_TREE, graphs, logs);
    request.collnet = true;
    request.pattern = TUTTI_PATTERN_TREE;
    if (status == 0 && m->rules.collnet && system->counts[TUTTI_NCCL_NET] > 0)
        status = search_one(m, system, &request, TUTTI_GRAPH_COLLNET_CHAIN, graphs, logs);
    request = (struct tutti_nccl_request){.pattern = TUTTI_PATTERN_COLLNET_DIRECT,
                                          .collnet = true,
                                          .channels_min = 1,
                                          .channels_max = TUTTI_NCCL_CHANNELS_MAX};
    if (status == 0 && m->rules.collnet && system->counts[TUTTI_NCCL_NET] > 0)
        status = search_one(m, system, &request, TUTTI_GRAPH_COLLNET_DIRECT, graphs, logs);
    request = (struct tutti_nccl_request){
        .pattern = TUTTI_PATTERN_NVLS, .channels_min = 1, .channels_max = TUTTI_NCCL_CHANNELS_MAX};
    if (status == 0 && m->rules.nvls && system->counts[TUTTI_NCCL_GPU] >= NVLS_GPUS_MIN)
        status = search_one(m, system, &request, TUTTI_GRAPH_NVLS, graphs, logs);
    return status;
}

static double lesser(double a, double b)
{
    return a < b ? a : b;
}

/* All ranks use what the poorest node can. */
static void agree(struct tutti_nccl_graph *graph, const struct tutti_nccl_graph *other)
{
    if (other->channel_count < graph->channel_count)
        graph->channel_count = graph->channels_found = other->channel_count;
    graph->same_channels = graph->same_channels && other->same_channels;
    graph->collapsed = graph->collapsed || other->collapsed;
    graph->bw_intra_GBps = lesser(graph->bw_intra_GBps, other->bw_intra_GBps);
    graph->bw_inter_GBps = lesser(graph->bw_inter_GBps, other->bw_inter_GBps);
    if (other->type_intra > graph->type_intra)
        graph->type_intra = other->type_intra;
    if (other->type_inter > graph->type_inter)
        graph->type_inter = other->type_inter;
    if (other->cross_nic > graph->cross_nic)
        graph->cross_nic = other->cross_nic;
    if (other->pattern > graph->pattern)
        graph->pattern = other->pattern;
}

/* ---- nodes --------------------------------------------------------------------------------- */

static int system_of(const struct make *m, const bool *gpu_kept, bool with_nets,
                     struct tutti_nccl_system **ret)
{
    const struct tutti_nccl_parts parts = {.hardware = m->hw,
                                           .host_count = m->hosts,
                                           .gpu_kept = gpu_kept,
                                           .with_nets = with_nets,
                                           .amd_rates = m->rules.amd_rates};
    int status = tutti_nccl_system_new(&parts, m->scratch, ret, m->err);

    if (status == 0)
        status = tutti_nccl_paths(*ret, &m->rules, m->scratch, m->err);
    return status;
}

/* GPUs that reach each other only by the network are of different nodes (paths.cc
 * ncclTopoTrimSystem). */
static int find_nodes(struct make *m)
{
    struct tutti_nccl_system *system;
    int status;

    m->domain = tutti_arena_take(m->scratch, m->gpus, sizeof(*m->domain));
    if (m->domain == NULL)
        return tutti_nomem(m->err);
    status = system_of(m, NULL, true, &system);
    if (status == 0)
        tutti_nccl_domains(system, m->domain);
    return status;
}

static int add_node(struct make *m, uint32_t first, bool *kept)
{
    struct tutti_nccl_comm *comm = &m->room->comm;
    struct tutti_nccl_graph graphs[TUTTI_GRAPH_COUNT] = {{0}};
    struct tutti_nccl_search_log logs[TUTTI_GRAPH_COUNT] = {{0}};
    bool is_first = comm->node_count == 0;
    struct tutti_nccl_system *system;
    uint32_t count = 0;
    int status;

    for (uint32_t g = 0; g < m->gpus; g++) {
        kept[g] = m->domain[g] == first;
        count += kept[g];
    }
    status = system_of(m, kept, count < comm->rank_count, &system);
    if (status < 0)
        return status;
    comm->by_host_memory |= tutti_nccl_uses_host_memory(system, &m->rules);
    tutti_nccl_rates(system);
    status =
        search_all(m, system, is_first ? comm->graphs : graphs, is_first ? m->room->logs : logs);
    if (is_first || (double)system->max_kbyte_per_s / 1e6 > comm->max_bw_GBps)
        comm->max_bw_GBps = (double)system->max_kbyte_per_s / 1e6;
    if (is_first || (double)system->total_kbyte_per_s / 1e6 > comm->total_bw_GBps)
        comm->total_bw_GBps = (double)system->total_kbyte_per_s / 1e6;
    for (int i = 0; i < TUTTI_GRAPH_COUNT && !is_first; i++)
        agree(&comm->graphs[i], &graphs[i]);
    comm->node_count += m->times;
    return status;
}

/* `times` sets of `hosts` hosts that NVLink joins. */
static int add_hosts(struct make *m, uint32_t hosts, uint32_t times)
{
    bool *kept;
    int status;

    if (hosts == 0 || times == 0)
        return 0;
    m->hosts = hosts;
    m->times = times;
    m->gpus = hosts * m->hw->gpu_count;
    kept = tutti_arena_take(m->scratch, m->gpus, sizeof(*kept));
    status = kept == NULL ? tutti_nomem(m->err) : find_nodes(m);
    for (uint32_t g = 0; g < m->gpus && status == 0; g++)
        if (m->domain[g] == g)
            status = add_node(m, g, kept);
    return status;
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* Hosts of one node: of a rack those that are there, else one. */
static uint32_t rack_hosts(const struct tutti_hardware *hw, uint32_t host_count)
{
    uint32_t hosts = hw->rack > 1 ? hw->rack : 1;

    return hosts < host_count ? hosts : host_count;
}

static int check(const struct make *m, const struct tutti_nccl_comm_params *params)
{
    const struct tutti_hardware *hw = m->hw;
    int status = tutti_hardware_check(hw, m->err);

    if (status < 0)
        return status;
    if (params->host_count == 0 || (uint64_t)params->host_count * hw->gpu_count > INT32_MAX)
        return tutti_fail(m->err, TUTTI_EINVAL,
                          "no communicator of %" PRIu32 " hosts of %" PRIu32 " gpus",
                          params->host_count, hw->gpu_count);
    if ((uint64_t)rack_hosts(hw, params->host_count) * hw->gpu_count > NODE_GPUS_MAX)
        return tutti_fail(
            m->err, TUTTI_EINVAL, "a node of %" PRIu64 " gpus is more than nccl takes (%d)",
            (uint64_t)rack_hosts(hw, params->host_count) * hw->gpu_count, NODE_GPUS_MAX);
    for (uint32_t g = 0; g < hw->gpu_count; g++)
        if (hw->gpus[g].sm == 0 || (hw->gpus[g].sm >= TUTTI_RCCL_SM_MIN && !tutti_rccl_runs_on(hw)))
            return tutti_fail(
                m->err, TUTTI_EINVAL,
                "gpu %" PRIu32 " has compute capability '%" PRIu32
                "', which nccl does not run on (NVIDIA's, 35 or more, or AMD's alone)",
                g, hw->gpus[g].sm);
    if (params->host_count > rack_hosts(hw, params->host_count) && hw->net_count == 0)
        return tutti_fail(m->err, TUTTI_EINVAL,
                          "%" PRIu32 " hosts without network ports (1 host, or hosts with some)",
                          params->host_count);
    return 0;
}

static int make_all(struct make *m, const struct tutti_nccl_comm_params *params)
{
    struct tutti_nccl_comm *comm = &m->room->comm;
    const struct tutti_nccl_env *env = params->env != NULL ? params->env : tutti_nccl_env_none();
    struct tutti_nccl_facts facts;
    uint32_t hosts;
    int status = 0;

    comm->version = params->version;
    if (comm->version == NULL)
        status = tutti_nccl_version_find("2.28.9", &comm->version, m->err);
    if (status == 0)
        status = check(m, params);
    if (status < 0)
        return status;
    m->rules = rules_of(env, comm->version);
    m->rings = env->rings.count > 0 ? &env->rings : NULL;
    comm->rank_count = params->host_count * m->hw->gpu_count;
    hosts = rack_hosts(m->hw, params->host_count);
    if (tutti_rccl_runs_on(m->hw))
        status = tutti_rccl_draw(m->hw, params->host_count, m->room->arena, comm, m->err);
    else
        status = add_hosts(m, hosts, params->host_count / hosts);
    if (status == 0 && !tutti_rccl_runs_on(m->hw))
        status = add_hosts(m, params->host_count % hosts, 1); /* of the last rack */
    if (status < 0)
        return status;
    tutti_nccl_facts_of(m->hw, &facts);
    return tutti_nccl_tune(comm, &facts, env, m->err);
}

int tutti_nccl_comm_new(const struct tutti_nccl_comm_params *params, struct tutti_nccl_comm **ret,
                        struct tutti_err *err)
{
    struct make m = {.hw = params->hardware, .err = err};
    int status;

    assert(params->hardware != NULL);
    m.room = calloc(1, sizeof(*m.room));
    m.scratch = tutti_arena_new();
    if (m.room != NULL)
        m.room->arena = tutti_arena_new();
    if (m.room == NULL || m.scratch == NULL || m.room->arena == NULL)
        status = tutti_nomem(err);
    else
        status = make_all(&m, params);
    tutti_arena_free(m.scratch);
    if (status < 0) {
        tutti_nccl_comm_free(m.room == NULL ? NULL : &m.room->comm);
        return status;
    }
    *ret = &m.room->comm;
    return 0;
}

void tutti_nccl_comm_free(struct tutti_nccl_comm *comm)
{
    struct room *room = (struct room *)(void *)comm;

    if (room == NULL)
        return;
    tutti_nccl_tables_free(comm->tables);
    tutti_arena_free(room->arena);
    free(room);
}

bool tutti_nccl_is_rccl(const struct tutti_nccl_comm *comm)
{
    return comm->tables->rccl != NULL;
}

size_t tutti_nccl_tries(const struct tutti_nccl_comm *comm, enum tutti_nccl_graph_id graph,
                        const struct tutti_nccl_try **ret, enum tutti_nccl_path_type *ret_port_type)
{
    const struct room *room = (const struct room *)(const void *)comm;

    assert(graph < TUTTI_GRAPH_COUNT);
    *ret = room->logs[graph].tries;
    *ret_port_type = (enum tutti_nccl_path_type)room->logs[graph].type_inter_max;
    return room->logs[graph].count;
}
