/* AWS's plugin for EFA; see plugin.h. */
#include "sim/nccl/plugin.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sim/nccl.h"
#include "sim/nccl/plugin_regions.h"
#include "sim/nccl/tables.h"

/* ---- which machine ------------------------------------------------------------------------- */

enum { P5_LATENCY_NS = 75000, P5EN_LATENCY_NS = 35000 };

/* Versions of NCCL of about the time when the plugin began to state them. */
enum { LATENCY_FROM = 21800, LATENCY_OF_P5EN_FROM = 22700 };

enum tutti_nccl_plugin tutti_nccl_plugin_of(uint32_t latency_ns, uint32_t compute)
{
    if (latency_ns == P5_LATENCY_NS && (compute == 80 || compute == 90))
        return compute == 80 ? TUTTI_PLUGIN_P4D : TUTTI_PLUGIN_P5;
    if (latency_ns != P5EN_LATENCY_NS)
        return TUTTI_PLUGIN_NONE;
    switch (compute) {
    case 90:
        return TUTTI_PLUGIN_P5EN;
    case 100:
        return TUTTI_PLUGIN_P6_B200;
    case 103:
        return TUTTI_PLUGIN_P6_B300;
    default:
        return TUTTI_PLUGIN_NONE;
    }
}

/* p4d's 75 us came with 1.7 in 2023, p5en's and p6's 35 us in 2025-05 (pull request 901); before
 * that all had 150 us (pull request 93), and then 75. */
double tutti_nccl_plugin_latency_us(enum tutti_nccl_plugin plugin,
                                    const struct tutti_nccl_version *version, double latency_us)
{
    const double first_us = 150, second_us = 75;

    if (plugin == TUTTI_PLUGIN_P4D && version->number < LATENCY_FROM)
        return first_us;
    return plugin > TUTTI_PLUGIN_P5 && version->number < LATENCY_OF_P5EN_FROM ? second_us
                                                                              : latency_us;
}

/* ---- what it sets -------------------------------------------------------------------------- */

enum { CHUNK_BYTES = 512 << 10, BUFFER_BYTES = 8 << 20 };

/* Versions of NCCL of about the time when the plugin began to: to turn NVLS off where that has an
 * error with EFA, to set chunks (2024-02, pull request 332), to set buffers (2025-05, 896). */
enum { NVLS_FROM = 21805, CHUNKS_FROM = 22003, BUFFERS_FROM = 22700 };

static void set(int64_t *variable, int64_t value)
{
    if (*variable == TUTTI_NCCL_UNSET)
        *variable = value;
}

void tutti_nccl_plugin_set(enum tutti_nccl_plugin plugin, const struct tutti_nccl_version *version,
                           struct tutti_nccl_env *env)
{
    if (plugin == TUTTI_PLUGIN_NONE)
        return;
    if (version->number < NVLS_FROM)
        set(&env->nvls_enable, 0);
    if (plugin != TUTTI_PLUGIN_P4D && version->number >= CHUNKS_FROM) {
        set(&env->nvlstree_max_chunksize, CHUNK_BYTES);
        set(&env->nvls_chunksize, CHUNK_BYTES);
    }
    if (version->number >= BUFFERS_FROM) {
        set(&env->buffsize, BUFFER_BYTES);
        set(&env->p2p_net_chunksize, CHUNK_BYTES);
    }
}

static size_t add_words(char *ret, size_t bytes, size_t length, const char *name, int64_t value,
                        int64_t now)
{
    if (value == TUTTI_NCCL_UNSET || value != now || length + 1 >= bytes)
        return length;
    return length + (size_t)snprintf(ret + length, bytes - length, "%s%s=%" PRId64,
                                     strchr(ret, '=') == NULL ? "; sets " : " ", name, value);
}

size_t tutti_nccl_plugin_words(const struct tutti_nccl_comm *comm, char *ret, size_t bytes)
{
    static const char *const machines[TUTTI_PLUGIN_COUNT] = {
        [TUTTI_PLUGIN_P4D] = "p4d",         [TUTTI_PLUGIN_P5] = "p5",
        [TUTTI_PLUGIN_P5EN] = "p5en",       [TUTTI_PLUGIN_P6_B200] = "p6-b200",
        [TUTTI_PLUGIN_P6_B300] = "p6-b300",
    };
    enum tutti_nccl_plugin plugin = (enum tutti_nccl_plugin)comm->tables->facts.plugin;
    const struct tutti_nccl_env *now = &comm->tables->env;
    struct tutti_nccl_env its = *tutti_nccl_env_none();
    size_t length;

    ret[0] = '\0';
    if (plugin == TUTTI_PLUGIN_NONE)
        return 0;
    tutti_nccl_plugin_set(plugin, comm->version, &its);
    length = (size_t)snprintf(ret, bytes, "AWS's for EFA, as on %s", machines[plugin]);
    length = add_words(ret, bytes, length, "NCCL_NVLS_ENABLE", its.nvls_enable, now->nvls_enable);
    length = add_words(ret, bytes, length, "NCCL_NVLSTREE_MAX_CHUNKSIZE",
                       its.nvlstree_max_chunksize, now->nvlstree_max_chunksize);
    length = add_words(ret, bytes, length, "NCCL_NVLS_CHUNKSIZE", its.nvls_chunksize,
                       now->nvls_chunksize);
    length = add_words(ret, bytes, length, "NCCL_BUFFSIZE", its.buffsize, now->buffsize);
    length = add_words(ret, bytes, length, "NCCL_P2P_NET_CHUNKSIZE", its.p2p_net_chunksize,
                       now->p2p_net_chunksize);
    if (tutti_nccl_plugin_tunes(comm) && length + 1 < bytes)
        length += (size_t)snprintf(ret + length, bytes - length,
                                   "; its tuner decides (NCCL_TUNER_PLUGIN=none: not)");
    return length < bytes ? length : bytes - 1;
}

/* ---- what its tuner takes ------------------------------------------------------------------ */

/* It is asked by itself from the plugin's 1.16 (2025-06) on, which leaves one and two hosts to NCCL
 * (pull request 778). */
enum { NODES_MIN = 3, GPUS = 8, TUNER_FROM = 22700 };

static struct tutti_nccl_vertex in_logarithms(struct tutti_nccl_vertex at)
{
    return (struct tutti_nccl_vertex){.bytes = at.bytes > 1 ? log2(at.bytes) : 0,
                                      .ranks = log2(at.ranks)};
}

/* Whether it lies on the side from a to b, its ends included. */
static bool is_on(struct tutti_nccl_vertex at, struct tutti_nccl_vertex a,
                  struct tutti_nccl_vertex b)
{
    const double hardly = 1e-9;
    double x = b.bytes - a.bytes, y = b.ranks - a.ranks;
    double length = hypot(x, y);
    double along, beside;

    if (length < hardly)
        return hypot(at.bytes - a.bytes, at.ranks - a.ranks) < hardly;
    along = ((at.bytes - a.bytes) * x + (at.ranks - a.ranks) * y) / length;
    beside = ((at.ranks - a.ranks) * x - (at.bytes - a.bytes) * y) / length;
    return along > -hardly && along < length + hardly && fabs(beside) < hardly;
}

/* Inside or on a side: by how many sides lie to the right of it. */
static bool holds(const struct tutti_nccl_region *region, struct tutti_nccl_vertex at)
{
    struct tutti_nccl_vertex a = in_logarithms(region->vertices[region->vertex_count - 1]);
    bool inside = false;

    assert(region->vertex_count <= TUTTI_NCCL_VERTICES_MAX);
    for (uint32_t i = 0; i < region->vertex_count; i++) {
        struct tutti_nccl_vertex b = in_logarithms(region->vertices[i]);

        if (is_on(at, a, b))
            return true;
        if ((a.ranks > at.ranks) != (b.ranks > at.ranks) &&
            at.bytes < a.bytes + (at.ranks - a.ranks) / (b.ranks - a.ranks) * (b.bytes - a.bytes))
            inside = !inside;
        a = b;
    }
    return inside;
}

bool tutti_nccl_plugin_tunes(const struct tutti_nccl_comm *comm)
{
    const struct tutti_nccl_tables *tables = comm->tables;
    enum tutti_nccl_plugin plugin = (enum tutti_nccl_plugin)tables->facts.plugin;

    return tutti_nccl_plugin_layout(plugin, TUTTI_NCCL_ALLREDUCE)->count > 0 &&
           tables->env.tuner_plugin != 0 && comm->version->number >= TUNER_FROM &&
           comm->node_count >= NODES_MIN && comm->rank_count == GPUS * comm->node_count;
}

bool tutti_nccl_plugin_picks(const struct tutti_nccl_comm *comm, uint32_t function, uint64_t bytes,
                             struct tutti_nccl_choice *choice)
{
    enum tutti_nccl_plugin plugin = (enum tutti_nccl_plugin)comm->tables->facts.plugin;
    const struct tutti_nccl_layout *layout = tutti_nccl_plugin_layout(plugin, function);
    struct tutti_nccl_vertex at = {.bytes = (double)bytes, .ranks = comm->rank_count};

    if (!tutti_nccl_plugin_tunes(comm))
        return false;
    at = in_logarithms(at);
    for (size_t i = 0; i < layout->count; i++) {
        const struct tutti_nccl_region *region = &layout->regions[i];

        if (choice->missing[region->algorithm][region->protocol] != NULL || !holds(region, at))
            continue;
        choice->algorithm = region->algorithm;
        choice->protocol = region->protocol;
        return true;
    }
    return false;
}
