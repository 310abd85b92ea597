/* Channels and threads for an operation, its shares of the channels, and chunks (NCCL 2.28
 * enqueue.cc: topoGetAlgoInfo, scheduleCollTasksToPlan, calcCollChunking). */
#include "sim/nccl/cut.h"

#include <assert.h>

enum {
    WARP = 32,
    BLOCK_THREADS_MAX = 640, /* NCCL_MAX_NTHREADS */
    STEPS = 8,               /* of a connection's buffer: NCCL_STEPS */
    CELL_GRAIN = 16,         /* bytes that a channel's share is a multiple of */
};

static uint64_t divide_up(uint64_t value, uint64_t by)
{
    return (value + by - 1) / by;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool gathers(uint32_t function)
{
    return function == TUTTI_NCCL_ALLGATHER || function == TUTTI_NCCL_REDUCESCATTER;
}

static uint32_t heads(const struct tutti_nccl_comm *comm, uint32_t algorithm)
{
    uint32_t count = tutti_nccl_graph_of(comm, (enum tutti_nccl_algorithm)algorithm)->channel_count;

    return count > 0 ? count : 1;
}

/* ---- channels and threads ------------------------------------------------------------------ */

/* CollNetDirect gives channels up in bands from 16 down. */
static uint32_t collnet_direct_channels(const struct tutti_nccl_comm *comm, uint64_t bytes,
                                        uint64_t thread_count, uint64_t thread_bytes)
{
    uint32_t count = comm->channel_count;
    uint64_t span = thread_count * heads(comm, TUTTI_NCCL_COLLNET_DIRECT);

    for (uint32_t floor = 16; floor >= 1; floor /= 2) {
        while (bytes < count * span * thread_bytes && count > floor) {
            if (2 * count == 3 * floor)
                thread_bytes /= 2;
            count--;
        }
        if (bytes >= count * span * thread_bytes)
            break;
    }
    return count;
}

static uint32_t warps_of(const struct tutti_nccl_choice *choice, uint64_t thread_count)
{
    if (choice->protocol == TUTTI_NCCL_SIMPLE && choice->algorithm == TUTTI_NCCL_RING)
        thread_count += WARP; /* one to synchronise */
    if (choice->algorithm == TUTTI_NCCL_TREE || choice->algorithm == TUTTI_NCCL_PAT)
        thread_count = BLOCK_THREADS_MAX;
    return (uint32_t)(most(thread_count, 3 * WARP) / WARP);
}

void tutti_nccl_allow_channels(const struct tutti_nccl_comm *comm,
                               const struct tutti_nccl_operation *operation,
                               struct tutti_nccl_choice *choice)
{
    const struct tutti_nccl_tables *tables = comm->tables;
    uint64_t thread_count = tables->thread_counts[choice->algorithm][choice->protocol];
    uint64_t thread_bytes = tables->thread_bytes[choice->algorithm][choice->protocol];
    uint64_t bytes = operation->bytes;
    uint32_t count = comm->channel_count;

    switch (choice->algorithm) {
    case TUTTI_NCCL_COLLNET_DIRECT:
        count = collnet_direct_channels(comm, bytes, thread_count, thread_bytes);
        break;
    case TUTTI_NCCL_NVLS:
    case TUTTI_NCCL_NVLS_TREE:
        count = comm->nvls_channel_count;
        if (choice->algorithm == TUTTI_NCCL_NVLS && comm->node_count > 1)
            count = (uint32_t)least(count, comm->channel_count);
        break;
    default:
        while (bytes < count * thread_count * thread_bytes && count >= 2)
            count--;
        while (bytes < count * thread_count * thread_bytes && thread_count % 128 == 0)
            thread_count /= 2;
    }
    choice->channels_allowed = count;
    choice->warp_count = warps_of(choice, thread_count);
}

/* ---- shares -------------------------------------------------------------------------------- */

/* CollNet's channels take chunks in turn: equal shares but for the last. */
static void share_in_turn(const struct tutti_nccl_operation *operation,
                          struct tutti_nccl_choice *choice)
{
    uint64_t share = divide_up(operation->count, choice->channels_allowed);

    choice->channel_count = choice->channels_allowed;
    choice->count_lo = choice->count_mid = choice->count_hi = share;
    if (choice->channel_count > 1) {
        uint64_t others = (choice->channel_count - 1) * share;

        choice->count_hi = operation->count > others ? operation->count - others : 0;
    }
}

/* The cells of one operation alone in its launch: `traffic` bytes travel for each byte of it. */
static void share_cells(const struct tutti_nccl_version *version, uint64_t traffic, uint64_t bytes,
                        uint64_t limit, struct tutti_nccl_choice *choice, uint64_t cells[3],
                        uint64_t *ret_cell_bytes)
{
    uint64_t min = version->traffic_bytes_min;
    uint64_t cell = divide_up(divide_up(min, traffic), CELL_GRAIN) * CELL_GRAIN;
    uint64_t count = divide_up(bytes, cell);
    uint64_t share = most(min, traffic * bytes) / choice->channels_allowed;
    uint64_t mids;

    share = version->changes.traffic_rounded ? divide_up(share, CELL_GRAIN) * CELL_GRAIN
                                             : most(min, share);
    cells[1] = least(count, divide_up(share, cell * traffic));
    cells[0] = limit == 1 ? count : cells[1];
    mids = (count - cells[0]) / cells[1];
    cells[2] = (count - cells[0]) % cells[1];
    if (limit < 1 + mids + (cells[2] > 0 ? 1 : 0)) { /* more than there are */
        assert(limit >= 2);
        mids = limit - 2;
        cells[1] = (count - cells[0]) / (mids + 1);
        cells[2] = cells[1] + (count - cells[0]) % (mids + 1);
    }
    if (cells[2] == 0 && mids > 0) {
        cells[2] = cells[1];
        mids--;
    }
    choice->channel_count = (uint32_t)(1 + mids + (cells[2] > 0 ? 1 : 0));
    *ret_cell_bytes = cell;
}

void tutti_nccl_share(const struct tutti_nccl_comm *comm,
                      const struct tutti_nccl_operation *operation,
                      struct tutti_nccl_choice *choice)
{
    bool nvls = choice->algorithm == TUTTI_NCCL_NVLS || choice->algorithm == TUTTI_NCCL_NVLS_TREE;
    uint64_t traffic = operation->function == TUTTI_NCCL_ALLREDUCE ? 2
                       : gathers(operation->function)              ? comm->rank_count
                                                                   : 1;
    uint64_t bytes = operation->count * operation->element_bytes;
    uint64_t cells[3];
    uint64_t cell_bytes = 0;
    uint64_t cell_count, over;

    if (choice->algorithm == TUTTI_NCCL_COLLNET_DIRECT ||
        choice->algorithm == TUTTI_NCCL_COLLNET_CHAIN ||
        (choice->algorithm == TUTTI_NCCL_NVLS && comm->node_count > 1) ||
        comm->version->changes.shares_in_turn) {
        share_in_turn(operation, choice);
        return;
    }
    choice->channel_count = 1;
    choice->count_lo = choice->count_mid = choice->count_hi = operation->count;
    if (bytes == 0)
        return;
    if (choice->protocol == TUTTI_NCCL_LL)
        traffic *= 4;
    share_cells(comm->version, traffic, bytes,
                nvls ? comm->nvls_channel_count : comm->channel_count, choice, cells, &cell_bytes);
    cell_count = divide_up(bytes, cell_bytes);
    over = (cell_count * cell_bytes - bytes) / operation->element_bytes;
    if (choice->channel_count == 1)
        return;
    choice->count_lo = cells[0] * cell_bytes / operation->element_bytes;
    choice->count_mid = cells[1] * cell_bytes / operation->element_bytes;
    choice->count_hi = cells[2] * cell_bytes / operation->element_bytes - over;
}

/* ---- chunks -------------------------------------------------------------------------------- */

static uint64_t tree_ll128_chunk(const struct tutti_nccl_comm *comm, uint64_t bytes, uint64_t chunk)
{
    float ranks = (float)comm->rank_count / (float)comm->node_count;
    float levels = (float)(1 + tutti_nccl_log2(comm->node_count) + 0.1 * (double)ranks);

    while ((float)(bytes / chunk) < levels * 64 / ranks && chunk > 131072)
        chunk /= 2;
    while ((float)(bytes / chunk) < levels * 16 / ranks && chunk > 32768)
        chunk /= 2;
    return chunk;
}

static uint64_t nvls_chunk(const struct tutti_nccl_comm *comm, uint64_t bytes, uint64_t at_once,
                           uint64_t chunk)
{
    const struct tutti_nccl_entry *entry =
        &comm->tables->entries[TUTTI_NCCL_ALLREDUCE][TUTTI_NCCL_NVLS][TUTTI_NCCL_SIMPLE];
    uint64_t max = comm->tables->nvls_chunk_bytes;

    if (comm->node_count > 1 && entry->algbw_GBps < 150)
        max = 32768;
    chunk = least(chunk, max);
    if (bytes < 64 * at_once * chunk)
        chunk = least(chunk, 65536);
    if (bytes < 8 * at_once * chunk)
        chunk = least(chunk, 32768);
    if (bytes < 2 * at_once * chunk)
        chunk = least(chunk, 16384);
    return chunk;
}

static uint64_t nvls_tree_chunk(const struct tutti_nccl_comm *comm, uint64_t bytes,
                                uint64_t at_once, uint64_t chunk)
{
    static const struct {
        uint64_t times, bytes;
    } limits[] = {{32, 262144}, {16, 131072}, {4, 65536}, {1, 32768}};
    uint64_t cap = comm->tables->nvls_tree_chunk_bytes;

    chunk = least(chunk, comm->tables->nvls_chunk_bytes);
    if (cap == UINT64_MAX)
        cap = comm->node_count >= 4 ? 65536 : chunk;
    chunk = least(chunk, cap);
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (bytes < limits[i].times * at_once * chunk)
            chunk = least(chunk, limits[i].bytes);
    }
    return chunk;
}

/* Halves a chunk while fewer than `times` of it go into `bytes`. */
static uint64_t halved(uint64_t bytes, uint64_t at_once, uint64_t times, uint64_t chunk,
                       uint64_t floor)
{
    while (bytes / (at_once * chunk) < times && chunk > floor)
        chunk /= 2;
    return chunk;
}

/* CollNet: depth is the GPUs of a node that a chunk passes. */
static uint64_t collnet_chunk(const struct tutti_nccl_comm *comm,
                              const struct tutti_nccl_choice *choice, uint64_t bytes,
                              uint64_t chunk)
{
    uint64_t ranks = comm->rank_count / comm->node_count;
    uint64_t at_once = choice->channels_allowed;

    if (choice->algorithm == TUTTI_NCCL_COLLNET_CHAIN) {
        chunk = least(262144, chunk);
        chunk = halved(bytes, at_once, ranks * 64, chunk, 131072);
        chunk = halved(bytes, at_once, ranks * 8, chunk, 65536);
        return halved(bytes, at_once, ranks, chunk, 32768);
    }
    at_once *= heads(comm, choice->algorithm);
    ranks = ranks > 1 ? 2 : 1;
    chunk = halved(bytes, at_once, ranks * 64, chunk, 131072);
    chunk = halved(bytes, at_once, ranks * 8, chunk, 65536);
    return halved(bytes, at_once, ranks * 8, chunk, 32768);
}

/* Simple's before 2.19: 8, 4, then one chunk at least for each level that it passes. */
static uint64_t tree_chunk_by_depth(const struct tutti_nccl_comm *comm,
                                    const struct tutti_nccl_choice *choice, uint64_t bytes,
                                    uint64_t chunk)
{
    int levels = tutti_nccl_log2(comm->node_count);
    uint64_t depth = comm->rank_count / comm->node_count - 1 + (uint64_t)levels;
    uint64_t at_once = choice->channels_allowed;

    chunk = halved(bytes, at_once, depth * 8, chunk, 131072);
    chunk = halved(bytes, at_once, depth * 4, chunk, 65536);
    return halved(bytes, at_once, depth, chunk, 32768);
}

static uint64_t pat_chunk(uint64_t bytes, uint64_t times, uint64_t chunk)
{
    while (chunk * times > bytes && chunk > 65536)
        chunk /= 2;
    return chunk;
}

/* `bytes`: of a channel's share, or of all where channels take turns. */
static uint64_t chunk_of(const struct tutti_nccl_comm *comm,
                         const struct tutti_nccl_operation *operation,
                         const struct tutti_nccl_choice *choice, uint64_t bytes)
{
    static const uint64_t grains[TUTTI_NCCL_PROTOCOL_COUNT] = {16, 1920, 512};
    uint64_t chunk = comm->tables->buffer_bytes[choice->protocol] / STEPS;
    uint64_t grain = grains[choice->protocol];
    uint64_t at_once = heads(comm, choice->algorithm);
    bool gather = operation->function == TUTTI_NCCL_ALLGATHER;

    if (choice->protocol == TUTTI_NCCL_LL)
        chunk /= 2;
    if (choice->protocol == TUTTI_NCCL_LL128) /* in words of 8 bytes, 15 of 16 are data */
        chunk = chunk / 16 * 15;
    switch (choice->algorithm) {
    case TUTTI_NCCL_RING:
        if (choice->slice_count > 1)
            chunk *= 4;
        break;
    case TUTTI_NCCL_TREE:
        if (choice->protocol == TUTTI_NCCL_LL128)
            chunk = tree_ll128_chunk(comm, bytes, chunk);
        if (choice->protocol == TUTTI_NCCL_SIMPLE && comm->version->changes.tree_chunks_by_depth)
            chunk = tree_chunk_by_depth(comm, choice, operation->bytes, chunk);
        break;
    case TUTTI_NCCL_NVLS:
        if (comm->node_count > 1)
            at_once *= choice->channels_allowed;
        chunk = nvls_chunk(comm, bytes, at_once, chunk);
        break;
    case TUTTI_NCCL_NVLS_TREE:
        chunk = nvls_tree_chunk(comm, bytes, at_once, chunk);
        break;
    case TUTTI_NCCL_PAT:
        chunk = pat_chunk(bytes, gather ? 32 : 16, chunk);
        break;
    default:
        chunk = collnet_chunk(comm, choice, bytes, chunk);
    }
    return chunk < grain ? grain : chunk / grain * grain;
}

void tutti_nccl_chunk(const struct tutti_nccl_comm *comm,
                      const struct tutti_nccl_operation *operation,
                      struct tutti_nccl_choice *choice)
{
    uint64_t bytes = operation->element_bytes;
    bool rooted =
        operation->function == TUTTI_NCCL_BROADCAST || operation->function == TUTTI_NCCL_REDUCE;

    choice->slice_count =
        choice->algorithm == TUTTI_NCCL_RING && choice->protocol == TUTTI_NCCL_SIMPLE && !rooted
            ? 2
            : 1;
    if (gathers(operation->function))
        bytes *= comm->rank_count;
    if (choice->algorithm == TUTTI_NCCL_COLLNET_DIRECT ||
        choice->algorithm == TUTTI_NCCL_COLLNET_CHAIN ||
        (choice->algorithm == TUTTI_NCCL_NVLS && comm->node_count > 1)) {
        choice->chunk_bytes = chunk_of(comm, operation, choice, operation->bytes);
        choice->chunk_lo_bytes = choice->chunk_hi_bytes = choice->chunk_bytes;
        return;
    }
    choice->chunk_lo_bytes = chunk_of(comm, operation, choice, bytes * choice->count_lo);
    choice->chunk_hi_bytes = chunk_of(comm, operation, choice, bytes * choice->count_hi);
    choice->chunk_bytes = choice->channel_count < 3
                              ? choice->chunk_lo_bytes
                              : chunk_of(comm, operation, choice, bytes * choice->count_mid);
}

/* ---- messages ------------------------------------------------------------------------------ */

/* How many channels carry a message: as many as keep all peers' messages on different ones, more
 * where a part would be too large. */
static uint64_t message_parts(const struct tutti_nccl_comm *comm, uint64_t bytes)
{
    const struct tutti_nccl_tables *tables = comm->tables;
    uint64_t chunk = tables->p2p_chunk_bytes;
    uint64_t part_min = most(1, comm->node_count > 1 ? chunk / 2 : chunk / 8);
    uint64_t part_max = comm->node_count > 1 ? chunk : chunk * 32;
    uint64_t max = tables->p2p_peer_channel_count;
    uint64_t count = max;
    uint64_t part;

    while (count * comm->rank_count > tables->p2p_channel_count && count > 1)
        count /= 2;
    if (bytes == 0)
        return 1;
    count = least(count, divide_up(bytes, part_min));
    part = most(part_min, divide_up(bytes, count));
    while (part > part_max && count <= max / 2) {
        count *= 2;
        part = divide_up(bytes, count);
    }
    return count;
}

static uint64_t message_chunk(const struct tutti_nccl_comm *comm, uint64_t bytes, bool ll)
{
    uint64_t step =
        ll ? comm->tables->buffer_bytes[TUTTI_NCCL_LL] / STEPS : comm->tables->p2p_chunk_bytes;
    uint64_t chunk = step;

    if (comm->node_count > 1) {
        if (!ll && bytes < step)
            chunk /= 4;
        else if (bytes < 8 * step)
            chunk /= 2;
    }
    return ll ? chunk / 2 : chunk;
}

void tutti_nccl_cut_message(const struct tutti_nccl_comm *comm, uint64_t bytes,
                            uint32_t element_bytes, struct tutti_nccl_choice *choice)
{
    const struct tutti_nccl_env *env = &comm->tables->env;
    uint64_t parts = message_parts(comm, bytes);
    uint64_t counted = comm->version->changes.p2p_ll_by_used_channels
                           ? parts
                           : comm->tables->p2p_peer_channel_count;
    uint64_t threshold =
        env->p2p_ll_threshold == TUTTI_NCCL_UNSET ? 16384 : (uint64_t)env->p2p_ll_threshold;
    uint64_t part = divide_up(divide_up(bytes, parts), 4096) * 4096;
    /* Buffers of LL are not made over the network. */
    bool ll = comm->node_count == 1 && bytes <= counted * threshold;

    choice->algorithm = TUTTI_NCCL_RING;
    choice->protocol = ll ? TUTTI_NCCL_LL : TUTTI_NCCL_SIMPLE;
    choice->channels_allowed = (uint32_t)parts;
    choice->channel_count = bytes == 0 ? 1 : (uint32_t)divide_up(bytes, part);
    choice->warp_count = BLOCK_THREADS_MAX / WARP;
    choice->slice_count = 1;
    choice->chunk_bytes = message_chunk(comm, bytes, ll);
    choice->chunk_lo_bytes = choice->chunk_hi_bytes = choice->chunk_bytes;
    choice->count_lo = choice->count_mid = least(bytes, part) / element_bytes;
    choice->count_hi =
        bytes == 0 ? 0 : (bytes - (choice->channel_count - 1) * part) / element_bytes;
}
