/* The tuning tables of a communicator: made, asked, freed. */
#include "sim/nccl/tables.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "sim/nccl/plugin.h"
#include "sim/nccl/rccl.h"
#include "topo/hardware.h"

uint32_t tutti_nccl_gpu_class(uint32_t compute, const struct tutti_nccl_changes *changes)
{
    if (compute >= 100 && !changes->no_blackwell)
        return TUTTI_GPU_BLACKWELL;
    if (compute >= 90)
        return TUTTI_GPU_HOPPER;
    return compute >= 80 ? TUTTI_GPU_AMPERE : TUTTI_GPU_VOLTA;
}

int tutti_nccl_log2(uint64_t value)
{
    int log = -1;

    for (; value > 0; value /= 2)
        log++;
    return log;
}

const struct tutti_nccl_graph *tutti_nccl_graph_of(const struct tutti_nccl_comm *comm,
                                                   enum tutti_nccl_algorithm algorithm)
{
    static const uint8_t graphs[TUTTI_NCCL_ALGORITHM_COUNT] = {
        [TUTTI_NCCL_TREE] = TUTTI_GRAPH_TREE,
        [TUTTI_NCCL_RING] = TUTTI_GRAPH_RING,
        [TUTTI_NCCL_COLLNET_DIRECT] = TUTTI_GRAPH_COLLNET_DIRECT,
        [TUTTI_NCCL_COLLNET_CHAIN] = TUTTI_GRAPH_COLLNET_CHAIN,
        [TUTTI_NCCL_NVLS] = TUTTI_GRAPH_NVLS,
        [TUTTI_NCCL_NVLS_TREE] = TUTTI_GRAPH_NVLS,
        [TUTTI_NCCL_PAT] = TUTTI_GRAPH_TREE,
    };

    assert(algorithm < TUTTI_NCCL_ALGORITHM_COUNT);
    return &comm->graphs[graphs[algorithm]];
}

/* ---- the machine --------------------------------------------------------------------------- */

/* NVLinks between two GPUs, or of each to the switch that joins them. */
static uint32_t links_between(const struct tutti_hardware *hardware, uint32_t a, uint32_t b)
{
    uint32_t direct = 0;
    uint32_t up[2] = {0, 0};

    for (uint32_t i = 0; i < hardware->nvlink_count; i++) {
        const struct tutti_hw_nvlink *link = &hardware->nvlinks[i];

        if (link->target_kind == TUTTI_TARGET_GPU && link->gpu == a && link->target == b)
            direct += link->count;
        if (link->target_kind == TUTTI_TARGET_NVSWITCH && link->gpu == a)
            up[0] += link->count;
        if (link->target_kind == TUTTI_TARGET_NVSWITCH && link->gpu == b)
            up[1] += link->count;
    }
    if (direct > 0)
        return direct;
    return up[0] < up[1] ? up[0] : up[1];
}

/* Do the GPUs have links of their own or, as in a cube mesh, a neighbour that has links to both? */
static bool linked(const struct tutti_hardware *hardware, uint32_t a, uint32_t b)
{
    if (links_between(hardware, a, b) > 0)
        return true;
    for (uint32_t c = 0; c < hardware->gpu_count; c++) {
        if (c != a && c != b && links_between(hardware, a, c) > 0 &&
            links_between(hardware, c, b) > 0)
            return true;
    }
    return false;
}

static void count_links(const struct tutti_hardware *hardware, struct tutti_nccl_facts *facts)
{
    if (hardware->gpu_count < 2)
        return;
    facts->link_count = UINT32_MAX;
    facts->nvlink_all = true;
    for (uint32_t a = 0; a < hardware->gpu_count; a++) {
        for (uint32_t b = a + 1; b < hardware->gpu_count; b++) {
            uint32_t count = links_between(hardware, a, b);

            facts->link_count = count < facts->link_count ? count : facts->link_count;
            facts->nvlink_all = facts->nvlink_all && linked(hardware, a, b);
        }
    }
}

void tutti_nccl_facts_of(const struct tutti_hardware *hardware, struct tutti_nccl_facts *ret)
{
    struct tutti_nccl_facts facts = {.compute_min = UINT32_MAX};

    for (uint32_t i = 0; i < hardware->gpu_count; i++) {
        uint32_t compute = hardware->gpus[i].sm;

        facts.compute_min = compute < facts.compute_min ? compute : facts.compute_min;
        facts.compute_max = compute > facts.compute_max ? compute : facts.compute_max;
    }
    for (uint32_t i = 0; i < hardware->cpu_count; i++) {
        if (i == 0) {
            facts.cpu_arch = hardware->cpus[0].arch;
            facts.cpu_vendor = hardware->cpus[0].vendor;
        }
        facts.cpus_mixed = facts.cpus_mixed || hardware->cpus[i].vendor != facts.cpu_vendor;
    }
    for (uint32_t i = 0; i < hardware->nvlink_count; i++)
        facts.nvswitch =
            facts.nvswitch || hardware->nvlinks[i].target_kind == TUTTI_TARGET_NVSWITCH;
    for (uint32_t i = 0; i < hardware->net_count; i++) {
        double nic_GBps = hardware->nets[i].mbit_per_s / 8000.0;

        facts.plugin =
            (uint8_t)tutti_nccl_plugin_of(hardware->nets[i].latency_ns, facts.compute_min);
        facts.unordered = facts.unordered || hardware->nets[i].unordered;
        facts.nic_GBps = i == 0 || nic_GBps < facts.nic_GBps ? nic_GBps : facts.nic_GBps;
    }
    count_links(hardware, &facts);
    if (tutti_rccl_runs_on(hardware))
        facts.rccl = tutti_rccl_tuning_of(hardware);
    *ret = facts;
}

/* ---- made and freed ------------------------------------------------------------------------ */

int tutti_nccl_tune(struct tutti_nccl_comm *comm, const struct tutti_nccl_facts *facts,
                    const struct tutti_nccl_env *env, struct tutti_err *err)
{
    struct tutti_nccl_tables *tables = calloc(1, sizeof(*tables));

    assert(comm->rank_count > 0 && comm->node_count > 0);
    assert(comm->version != NULL);
    if (tables == NULL)
        return tutti_nomem(err);
    tables->facts = *facts;
    tables->rccl = facts->rccl;
    tables->env = env != NULL ? *env : *tutti_nccl_env_none();
    tutti_nccl_plugin_set((enum tutti_nccl_plugin)facts->plugin, comm->version, &tables->env);
    tutti_nccl_count_channels(comm, &tables->facts, &tables->env);
    tutti_nccl_fill_threads(comm, tables);
    tutti_nccl_fill_buffers(comm, tables);
    if (comm->rank_count > 1 && tables->rccl != NULL)
        tutti_rccl_fill_entries(comm, tables);
    else if (comm->rank_count > 1)
        tutti_nccl_fill_entries(comm, tables);
    comm->tables = tables;
    return 0;
}

void tutti_nccl_tables_free(struct tutti_nccl_tables *tables)
{
    free(tables);
}

/* ---- asked --------------------------------------------------------------------------------- */

int tutti_nccl_function_of(enum tutti_collective collective)
{
    switch (collective) {
    case TUTTI_BROADCAST:
        return TUTTI_NCCL_BROADCAST;
    case TUTTI_REDUCE_TO_ROOT:
        return TUTTI_NCCL_REDUCE;
    case TUTTI_ALLGATHER:
        return TUTTI_NCCL_ALLGATHER;
    case TUTTI_REDUCESCATTER:
        return TUTTI_NCCL_REDUCESCATTER;
    case TUTTI_ALLREDUCE:
        return TUTTI_NCCL_ALLREDUCE;
    default:
        return -1;
    }
}

struct tutti_nccl_estimate tutti_nccl_row(const struct tutti_nccl_comm *comm,
                                          enum tutti_collective collective,
                                          enum tutti_nccl_algorithm algorithm,
                                          enum tutti_nccl_protocol protocol)
{
    int function = tutti_nccl_function_of(collective);
    struct tutti_nccl_estimate row = {0, 0};

    assert(algorithm < TUTTI_NCCL_ALGORITHM_COUNT);
    assert(protocol < TUTTI_NCCL_PROTOCOL_COUNT);
    if (function >= 0) {
        row.latency_us = (double)comm->tables->entries[function][algorithm][protocol].latency_us;
        row.algbw_GBps = (double)comm->tables->entries[function][algorithm][protocol].algbw_GBps;
    }
    return row;
}
