/* How many channels a communicator has, how many threads serve one, how large buffers are (NCCL
 * 2.28 graph/connect.cc, graph/tuning.cc, init.cc). */
#include "sim/nccl/tables.h"

enum {
    WARP = 32,
    BLOCK_THREADS_MAX = 640,  /* NCCL_MAX_NTHREADS, NCCL_LL128_MAX_NTHREADS */
    SIMPLE_THREADS_MAX = 512, /* and LL's */
    NVLS_CHUNK_BYTES = 131072,
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static int64_t or_else(int64_t value, int64_t otherwise)
{
    return value != TUTTI_NCCL_UNSET ? value : otherwise;
}

/* ---- channels ------------------------------------------------------------------------------ */

static uint32_t limited(int64_t value)
{
    return value < 1                         ? 1
           : value > TUTTI_NCCL_CHANNELS_MAX ? TUTTI_NCCL_CHANNELS_MAX
                                             : (uint32_t)value;
}

/* NCCL_MAX_NCHANNELS, and of old NCCL_MAX_NRINGS, with NCCL_MAX_CTAS. */
static uint32_t channels_max(const struct tutti_nccl_env *env)
{
    int64_t rings = or_else(env->max_nrings, TUTTI_NCCL_CHANNELS_MAX);

    return least(limited(or_else(env->max_nchannels, rings)),
                 limited(or_else(env->max_ctas, TUTTI_NCCL_CHANNELS_MAX)));
}

static uint32_t channels_min(const struct tutti_nccl_env *env)
{
    return most(limited(or_else(env->min_nchannels, or_else(env->min_nrings, 1))),
                limited(or_else(env->min_ctas, 1)));
}

/* Channels of NVLS: 16 on Hopper, from Blackwell on 24 on one node and 32 on several. */
static uint32_t nvls_channels(const struct tutti_nccl_comm *comm,
                              const struct tutti_nccl_facts *facts,
                              const struct tutti_nccl_env *env)
{
    uint32_t count = 16;

    if (comm->graphs[TUTTI_GRAPH_NVLS].channel_count == 0 || env->nvls_enable == 0)
        return 0;
    if (facts->compute_min >= 100)
        count = comm->node_count == 1 ? 24 : 32;
    count = most(count, limited(or_else(env->min_ctas, 1)));
    return least(count, limited(or_else(env->max_ctas, TUTTI_NCCL_CHANNELS_MAX)));
}

/* Hopper's channels on several nodes. */
static uint32_t doubled_below(const struct tutti_nccl_version *version)
{
    if (version->changes.channels_not_doubled)
        return 0;
    return version->changes.channels_doubled_to_32 ? 17 : 16;
}

void tutti_nccl_count_channels(struct tutti_nccl_comm *comm, const struct tutti_nccl_facts *facts,
                               const struct tutti_nccl_env *env)
{
    struct tutti_nccl_graph *ring = &comm->graphs[TUTTI_GRAPH_RING];
    struct tutti_nccl_graph *tree = &comm->graphs[TUTTI_GRAPH_TREE];
    const struct tutti_nccl_graph *chain = &comm->graphs[TUTTI_GRAPH_COLLNET_CHAIN];
    uint32_t count = least(ring->channel_count, tree->channel_count);

    ring->channel_count = count;
    tree->channel_count = count;
    count = least(2 * count, TUTTI_NCCL_CHANNELS_MAX); /* twice each: the trees are double */
    if (tutti_nccl_env_collnet(env, comm->node_count) &&
        chain->bw_intra_GBps > chain->bw_inter_GBps && comm->rank_count > comm->node_count)
        count = least(count + count / 2, TUTTI_NCCL_CHANNELS_MAX);
    if (facts->compute_min >= 90 && comm->node_count > 1 && ring->bw_intra_GBps > 45 &&
        count < doubled_below(comm->version))
        count *= 2; /* four a search channel where there are few ranks a node */
    comm->channel_count = most(least(count, channels_max(env)), channels_min(env));
    comm->nvls_channel_count = nvls_channels(comm, facts, env);
}

/* ---- threads ------------------------------------------------------------------------------- */

/* NCCL's getNthreads: what is no multiple of a warp, or too large, becomes the maximum. */
static uint32_t threads_of(int64_t asked, uint32_t min, uint32_t max, uint32_t otherwise)
{
    if (asked == TUTTI_NCCL_UNSET || asked <= 0)
        return otherwise;
    if (asked % WARP != 0 || asked > max)
        return max;
    return asked < min ? min : (uint32_t)asked;
}

static void fill_thresholds(const struct tutti_nccl_comm *comm, struct tutti_nccl_tables *tables)
{
    for (int a = 0; a < TUTTI_NCCL_ALGORITHM_COUNT; a++) {
        tables->thread_bytes[a][TUTTI_NCCL_LL] = 8;
        tables->thread_bytes[a][TUTTI_NCCL_LL128] = 8;
        tables->thread_bytes[a][TUTTI_NCCL_SIMPLE] = 64;
    }
    tables->thread_bytes[TUTTI_NCCL_RING][TUTTI_NCCL_LL] *= comm->rank_count;
    tables->thread_bytes[TUTTI_NCCL_COLLNET_DIRECT][TUTTI_NCCL_SIMPLE] = 512;
    tables->thread_bytes[TUTTI_NCCL_COLLNET_CHAIN][TUTTI_NCCL_SIMPLE] = 512;
    for (int a = TUTTI_NCCL_TREE; a <= TUTTI_NCCL_RING; a++) {
        for (int p = 0; p < TUTTI_NCCL_PROTOCOL_COUNT; p++) {
            int64_t asked = tables->env.thread_thresholds[a][p];

            if (asked != TUTTI_NCCL_UNSET)
                tables->thread_bytes[a][p] = (uint64_t)asked;
        }
    }
}

void tutti_nccl_fill_threads(const struct tutti_nccl_comm *comm, struct tutti_nccl_tables *tables)
{
    const struct tutti_nccl_graph *ring = &comm->graphs[TUTTI_GRAPH_RING];
    int64_t asked = tables->env.nthreads;
    bool slow = (float)ring->bw_intra_GBps * (float)ring->channel_count <= 12; /* Gen3 x16 */
    uint32_t simple = threads_of(asked, 2 * WARP, SIMPLE_THREADS_MAX, SIMPLE_THREADS_MAX);
    uint32_t ll128 = threads_of(tables->env.ll128_nthreads, BLOCK_THREADS_MAX / 4,
                                BLOCK_THREADS_MAX, BLOCK_THREADS_MAX);

    /* PAT stays 0: NCCL sets none, so that its channels are never fewer. */
    for (int a = TUTTI_NCCL_TREE; a <= TUTTI_NCCL_RING; a++) {
        tables->thread_counts[a][TUTTI_NCCL_LL] = simple;
        tables->thread_counts[a][TUTTI_NCCL_LL128] = ll128;
        tables->thread_counts[a][TUTTI_NCCL_SIMPLE] = simple;
    }
    tables->thread_counts[TUTTI_NCCL_RING][TUTTI_NCCL_SIMPLE] =
        threads_of(asked, 2 * WARP, SIMPLE_THREADS_MAX, slow ? 256 : SIMPLE_THREADS_MAX);
    for (int a = TUTTI_NCCL_COLLNET_DIRECT; a <= TUTTI_NCCL_NVLS_TREE; a++)
        tables->thread_counts[a][TUTTI_NCCL_SIMPLE] = BLOCK_THREADS_MAX;
    fill_thresholds(comm, tables);
}

/* ---- buffers ------------------------------------------------------------------------------- */

/* Channels and chunks of NVLS from Blackwell on over several nodes, by nodes, ports and ranks a
 * node (NCCL 2.30). */
static void tune_nvls(struct tutti_nccl_comm *comm, struct tutti_nccl_tables *tables)
{
    double nic_GBps = tables->facts.nic_GBps;
    uint32_t ranks = comm->rank_count / comm->node_count;
    bool near = comm->graphs[TUTTI_GRAPH_NVLS].type_inter <= TUTTI_PATH_PXB;
    uint32_t channels = comm->nvls_channel_count;
    uint64_t tree = UINT64_MAX;

    if (comm->node_count == 2 && nic_GBps >= 48) {
        channels = 32;
        tree = 131072;
        if (ranks <= 4)
            tables->nvls_chunk_bytes = tree = 262144;
        else if (ranks >= 16 || (ranks <= 8 && near && nic_GBps < 96))
            tree = 65536;
    } else if (nic_GBps >= 96) {
        channels = ranks <= 8 ? 24 : 32;
        tree = ranks <= 8 ? 262144 : ranks >= 32 ? 65536 : 131072;
        if (ranks <= 8)
            tables->nvls_chunk_bytes = 262144;
    } else if (nic_GBps >= 48) {
        channels = 24;
        tree = near ? 65536 : 131072;
    }
    if (tables->env.min_ctas == TUTTI_NCCL_UNSET && tables->env.max_ctas == TUTTI_NCCL_UNSET)
        comm->nvls_channel_count = channels;
    tables->nvls_tree_chunk_bytes = tree;
}

static uint32_t power_of_two_up(uint32_t value)
{
    uint32_t power = 1;

    while (power < value)
        power *= 2;
    return power;
}

/* Channels that one peer gets: the fewest of any pair of GPUs; and the chunk of its messages. */
static void fill_p2p(const struct tutti_nccl_comm *comm, struct tutti_nccl_tables *tables)
{
    const struct tutti_nccl_env *env = &tables->env;
    uint32_t count = comm->channel_count;
    uint32_t peer = count;
    bool alone = comm->rank_count == comm->node_count;
    int64_t chunk;

    if (!alone)
        peer = least(peer, tables->facts.link_count > 0 ? 2 * tables->facts.link_count : 2);
    if (comm->node_count > 1) {
        uint32_t remote = 2;

        while (remote > 1 && remote * comm->rank_count > 4 * count)
            remote /= 2;
        peer = least(peer, remote);
    }
    tables->p2p_channel_count = power_of_two_up(count);
    tables->p2p_peer_channel_count = power_of_two_up(peer);
    if (comm->node_count > 1)
        chunk = or_else(env->p2p_net_chunksize, 131072);
    else if (tables->facts.nvlink_all)
        chunk = or_else(env->p2p_nvl_chunksize, 524288);
    else
        chunk = or_else(env->p2p_pci_chunksize, 131072);
    tables->p2p_chunk_bytes = (uint64_t)chunk;
    if (tables->p2p_chunk_bytes > tables->buffer_bytes[TUTTI_NCCL_SIMPLE] / 8)
        tables->p2p_chunk_bytes = tables->buffer_bytes[TUTTI_NCCL_SIMPLE] / 8;
}

void tutti_nccl_fill_buffers(struct tutti_nccl_comm *comm, struct tutti_nccl_tables *tables)
{
    const struct tutti_nccl_env *env = &tables->env;

    tables->buffer_bytes[TUTTI_NCCL_LL] = (uint64_t)or_else(env->ll_buffsize, 524288);
    tables->buffer_bytes[TUTTI_NCCL_LL128] = (uint64_t)or_else(env->ll128_buffsize, 4915200);
    tables->buffer_bytes[TUTTI_NCCL_SIMPLE] = (uint64_t)or_else(env->buffsize, 4194304);
    tables->nvls_chunk_bytes = NVLS_CHUNK_BYTES;
    tables->nvls_tree_chunk_bytes = UINT64_MAX;
    if (comm->version->changes.nvls_tree_table && tables->facts.compute_min >= 100 &&
        comm->node_count > 1 && comm->nvls_channel_count > 0)
        tune_nvls(comm, tables);
    tables->nvls_chunk_bytes =
        (uint64_t)or_else(env->nvls_chunksize, (int64_t)tables->nvls_chunk_bytes);
    if (env->nvlstree_max_chunksize != TUTTI_NCCL_UNSET)
        tables->nvls_tree_chunk_bytes = (uint64_t)env->nvlstree_max_chunksize;
    fill_p2p(comm, tables);
}
