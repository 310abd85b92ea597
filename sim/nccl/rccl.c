/* RCCL's tuning: models by GPU, times, protocols; see rccl.h. */
#include "sim/nccl/rccl.h"

#include <string.h>

#include "topo/hardware.h"

enum { GFX942 = 942, GFX950 = 950 };

#define MIB UINT64_C(1048576)

/* RCCL's tuning model 3: gfx90a (MI250X) with four ports. LL128 is off there. */
static const struct tutti_rccl_tuning gfx90a = {
    .inside_us = {{0.8, 0, 2.5}, {0.8, 0, 3.6}},
    .between_us = {{12.5, 0, 22.4}, {9.5, 0, 19.8}},
    .share = {{{0.20, 0, 1.75}, {0.20, 0, 1}}, {{0.20, 0, 0.96}, {0.20, 0, 1}}},
    .correction = {{{.1f, .1f, .1f, .1f, .1f, .1f, 1,   1,   .2f, 1,   .9f, 1,   .6f, .4f,
                     .6f, .4f, .3f, .3f, .3f, .3f, .3f, .2f, .2f, .2f, .2f, .2f, .2f},
                    {0},
                    {1, 1, 1, 1, 1, 1, .1f, .1f, .1f, .2f, 1,   .8f, 1,  1,
                     1, 1, 1, 1, 1, 1, 1,   .8f, .7f, .8f, .9f, .7f, .7f}},
                   {{.1f, .1f, .1f, .1f, .1f, .3f, .1f, .2f, .1f, .4f, .4f, .2f, .2f, .3f,
                     .7f, .5f, .4f, .3f, .3f, .3f, .3f, .2f, .2f, .2f, .2f, .2f, .2f},
                    {0},
                    {.1f, .1f, .1f, .1f, .1f, .1f, .1f, .5f, 1, .1f, .3f, .1f, .1f, .1f,
                     .2f, .2f, .2f, .3f, .4f, .7f, 1,   1,   1, 1,   1,   1,   1}}},
};

/* RCCL's tuning model 5: gfx942 (MI300X). */
static const struct tutti_rccl_tuning gfx94 = {
    .inside_us = {{0.9, 0.9, 2.3}, {0.8, 0.8, 2.1}},
    .between_us = {{10.5, 10.5, 25}, {9.5, 9.5, 320}},
    .share = {{{0.06, 0.06, 0.11}, {0.08, 0.08, 1}}, {{0.06, 0.06, 0.59}, {0.08, 0.08, 1}}},
    .correction = {{{.1f, .1f, .1f, .1f, .1f, .1f, 1,   1,   1,   1,   1,   .6f, 1,  .9f,
                     1,   1,   .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f},
                    {.1f, .1f, .1f, .1f, .1f, .1f, 1,   1,   1,   1,   1,   .6f, 1,  .9f,
                     1,   1,   .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f},
                    {.1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f,
                     .1f, .7f, 1,   1,   1,   1,   1,   .7f, .7f, .5f, .6f, .6f, .6f}},
                   {{.1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, 1,   .2f, 1,
                     .4f, .4f, .1f, .2f, .2f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f},
                    {.1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, 1,   .2f, 1,
                     .4f, .4f, .1f, .2f, .2f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f},
                    {.1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f,
                     .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, 1,   .8f, 1,   1,   1}}},
    .ranges = {[TUTTI_NCCL_ALLREDUCE] = {MIB, MIB, 9 * MIB},
               [TUTTI_NCCL_REDUCESCATTER] = {655360, 131072, 3211264},
               [TUTTI_NCCL_ALLGATHER] = {98304, 98304, 5046272}},
    .alone_ll = {[TUTTI_NCCL_REDUCESCATTER] = 352128},
    .direct = 4 * MIB,
};

/* RCCL's tuning model 6: gfx950 (MI350X, MI355X). What LL and LL128 are used for is of 2.28, as
 * runs of MI355X say, too (traces/measured/): all-reduce was held to 17 MiB before. */
static const struct tutti_rccl_tuning gfx950 = {
    .inside_us = {{0.9, 0.9, 2.3}, {0.8, 0.8, 2.1}},
    .between_us = {{10.5, 10.5, 25}, {9.5, 9.5, 320}},
    .share = {{{0.06, 0.06, 0.11}, {0.08, 0.08, 1}}, {{0.06, 0.06, 0.59}, {0.08, 0.08, 1}}},
    .correction = {{{.1f, .1f, .1f, .1f, .1f, .1f, 1,   1,   1,   1,   1,   .6f, 1,  .9f,
                     1,   1,   .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f},
                    {.1f, .1f, .1f, .1f, .1f, .1f, 1,   1,   1,   1,   1,   .6f, 1,  .9f,
                     1,   1,   1,   1,   1,   2,   .1f, .1f, .1f, .1f, .1f, .1f, .1f},
                    {.1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f,
                     .1f, .7f, 1,   .1f, .1f, .1f, .9f, .9f, .7f, .8f, .6f, .6f, .6f}},
                   {{.1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, 1,   .2f, 1,
                     .4f, .4f, .1f, .2f, .2f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f},
                    {.1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, 1,   .2f, 1,
                     .4f, .4f, .1f, .2f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f},
                    {.1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f,
                     .1f, .1f, .1f, .1f, .1f, .1f, .1f, .1f, 1,   .8f, .8f, 1,   1}}},
    .ranges = {[TUTTI_NCCL_ALLREDUCE] = {262144, 262144, (uint64_t)(67.4 * (double)MIB)},
               [TUTTI_NCCL_REDUCESCATTER] = {131071, 131071, 8 * MIB},
               [TUTTI_NCCL_ALLGATHER] = {7, 7, 8 * MIB},
               [TUTTI_NCCL_REDUCE] = {16383, 16383, 16 * MIB},
               [TUTTI_NCCL_BROADCAST] = {2048, 2048, 16 * MIB}},
    .alone_ll = {[TUTTI_NCCL_REDUCESCATTER] = 131072, [TUTTI_NCCL_ALLGATHER] = 88448},
    .direct_alone = 8 * MIB,
    .direct_a_node = 2 * MIB,
};

bool tutti_rccl_runs_on(const struct tutti_hardware *hardware)
{
    for (uint32_t g = 0; g < hardware->gpu_count; g++) {
        if (hardware->gpus[g].sm < TUTTI_RCCL_SM_MIN)
            return false;
    }
    return hardware->gpu_count > 0;
}

const struct tutti_rccl_tuning *tutti_rccl_tuning_of(const struct tutti_hardware *hardware)
{
    if (hardware->gpus[0].sm >= GFX950)
        return &gfx950;
    return hardware->gpus[0].sm >= GFX942 ? &gfx94 : &gfx90a;
}

/* ---- times --------------------------------------------------------------------------------- */

/* What the CPU takes to post to the network, in us. */
static double post_us(const struct tutti_nccl_facts *facts)
{
    return facts->cpu_arch == TUTTI_ARCH_X86_64 && facts->cpu_vendor == TUTTI_VENDOR_AMD ? 2 : 1;
}

static double latency_us(const struct tutti_nccl_comm *comm, const struct tutti_nccl_tables *tables,
                         int function, int algorithm, int protocol)
{
    static const double base_us[TUTTI_NCCL_PROTOCOL_COUNT] = {12, 12, 17};
    const struct tutti_rccl_tuning *tuning = tables->rccl;
    bool ring = algorithm == TUTTI_NCCL_RING;
    uint32_t nodes = comm->node_count, ranks = comm->rank_count;
    double inside = tuning->inside_us[ring][protocol];
    double between = tuning->between_us[ring && ranks > nodes][protocol];
    double steps = function == TUTTI_NCCL_ALLREDUCE ? 2.0 * (ranks - 1)
                   : function == TUTTI_NCCL_ALLGATHER || function == TUTTI_NCCL_REDUCESCATTER
                       ? ranks - 1.0
                       : ranks;
    double crossings = function == TUTTI_NCCL_ALLREDUCE ? 2.0 * (nodes - 1) : nodes - 1.0;

    if (!ring)
        return base_us[protocol] +
               2 * ((ranks / nodes - 1) * inside + tutti_nccl_log2(nodes) * between);
    if (function == TUTTI_NCCL_BROADCAST || function == TUTTI_NCCL_REDUCE)
        return base_us[protocol] + steps * (nodes > 1 ? between : inside);
    if (nodes > 1) { /* each step is posted */
        double post = post_us(&tables->facts) * (protocol == TUTTI_NCCL_SIMPLE ? 3 : 1);

        inside = inside > post ? inside : post;
    }
    return base_us[protocol] + (steps - crossings) * inside + crossings * between;
}

static const char *missing(const struct tutti_nccl_comm *comm,
                           const struct tutti_nccl_tables *tables, int function, int algorithm,
                           int protocol)
{
    if (tables->env.algorithms[function][algorithm] == TUTTI_NCCL_OFF)
        return "NCCL_ALGO leaves it out";
    if (tables->env.protocols[function][protocol] == TUTTI_NCCL_OFF)
        return "NCCL_PROTO leaves it out";
    if (algorithm != TUTTI_NCCL_RING && algorithm != TUTTI_NCCL_TREE)
        return "RCCL does not run it by itself";
    if (algorithm == TUTTI_NCCL_TREE && function != TUTTI_NCCL_ALLREDUCE)
        return "trees are for all-reduce alone";
    if (protocol == TUTTI_NCCL_LL128 && tables->rccl == &gfx90a)
        return "LL128 is off on these GPUs";
    if (algorithm == TUTTI_NCCL_TREE && protocol == TUTTI_NCCL_SIMPLE && tables->rccl != &gfx90a &&
        comm->node_count == 1)
        return "RCCL runs no trees with Simple on one node of these GPUs";
    return NULL;
}

static double algbw_GBps(const struct tutti_nccl_comm *comm, const struct tutti_nccl_tables *tables,
                         int function, int algorithm, int protocol)
{
    const struct tutti_nccl_graph *graph = &comm->graphs[TUTTI_GRAPH_RING];
    bool ring = algorithm == TUTTI_NCCL_RING;
    double channel = comm->node_count <= 2 ? graph->bw_intra_GBps : graph->bw_inter_GBps;
    /* RCCL reckons with all channels of its models: of a mesh a path eight times, a ring four. */
    uint32_t alike = tables->rccl == &gfx90a ? 1 : comm->node_count > 1 ? 8 : 4;
    double bus = alike * graph->channel_count * channel *
                 tables->rccl->share[comm->node_count > 2][ring][protocol];
    double ranks = comm->rank_count;

    if (!ring)
        return bus / 2;
    if (function == TUTTI_NCCL_ALLREDUCE)
        return bus * ranks / (2 * (ranks - 1));
    return function == TUTTI_NCCL_ALLGATHER || function == TUTTI_NCCL_REDUCESCATTER
               ? bus * ranks / (ranks - 1)
               : bus;
}

void tutti_rccl_fill_entries(const struct tutti_nccl_comm *comm, struct tutti_nccl_tables *tables)
{
    for (int f = 0; f < TUTTI_NCCL_FUNCTION_COUNT; f++) {
        for (int a = 0; a < TUTTI_NCCL_ALGORITHM_COUNT; a++) {
            for (int p = 0; p < TUTTI_NCCL_PROTOCOL_COUNT; p++) {
                struct tutti_nccl_entry *entry = &tables->entries[f][a][p];

                entry->missing = missing(comm, tables, f, a, p);
                if (entry->missing != NULL)
                    continue;
                entry->latency_us = (float)latency_us(comm, tables, f, a, p);
                entry->algbw_GBps = (float)algbw_GBps(comm, tables, f, a, p);
            }
        }
    }
}

/* ---- by size ------------------------------------------------------------------------------- */

double tutti_rccl_correction(const struct tutti_rccl_tuning *tuning, int algorithm, int protocol,
                             uint64_t bytes)
{
    int size = tutti_nccl_log2(bytes >> 6);

    if (size < 0 || size >= TUTTI_RCCL_CORRECTIONS)
        return 1;
    return (double)tuning->correction[algorithm == TUTTI_NCCL_RING][protocol][size];
}

uint8_t tutti_rccl_protocol(const struct tutti_nccl_comm *comm, uint32_t function, uint64_t bytes,
                            uint8_t protocol)
{
    const struct tutti_nccl_tables *tables = comm->tables;
    const struct tutti_rccl_tuning *tuning = tables->rccl;
    uint64_t ll128 = tuning->ranges[function].ll128;

    for (int p = 0; p < TUTTI_NCCL_PROTOCOL_COUNT; p++) {
        if (tables->env.protocols[function][p] == TUTTI_NCCL_OFF)
            return protocol; /* NCCL_PROTO is set: what it says */
    }
    if (function != TUTTI_NCCL_ALLREDUCE)
        bytes /= comm->rank_count;
    else if (comm->node_count > 2)
        ll128 = (uint64_t)(3.8 * (double)ll128);
    if (comm->node_count < 2)
        return bytes <= tuning->alone_ll[function] ? TUTTI_NCCL_LL : protocol;
    if (ll128 == 0)
        return protocol;
    if (bytes > tuning->ranges[function].from && bytes <= ll128)
        return TUTTI_NCCL_LL128;
    return bytes <= tuning->ranges[function].ll ? TUTTI_NCCL_LL : TUTTI_NCCL_SIMPLE;
}

bool tutti_rccl_is_free(const struct tutti_nccl_comm *comm)
{
    const struct tutti_nccl_env *env = &comm->tables->env, *none = tutti_nccl_env_none();

    return memcmp(env->algorithms, none->algorithms, sizeof(env->algorithms)) == 0 &&
           memcmp(env->protocols, none->protocols, sizeof(env->protocols)) == 0;
}

bool tutti_rccl_gathers_directly(const struct tutti_nccl_comm *comm, uint64_t bytes)
{
    const uint32_t nodes_most = 63;
    const struct tutti_rccl_tuning *tuning = comm->tables->rccl;
    uint64_t most;

    if (tuning == NULL || comm->rank_count % 8 != 0 || !tutti_rccl_is_free(comm))
        return false;
    most = tuning->direct;
    if (comm->node_count == 1 && tuning->direct_alone > 0)
        most = tuning->direct_alone;
    else if (comm->node_count <= nodes_most && tuning->direct_a_node > 0)
        most = comm->node_count * tuning->direct_a_node;
    return bytes <= most;
}
