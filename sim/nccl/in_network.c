/* Pipelines of loops through switches that add; see in_network.h. */
#include "sim/nccl/in_network.h"

#include <assert.h>

#include "runtime/wide.h"
#include "sim/nccl.h"
#include "sim/nccl/tables.h"
#include "sim/nccl/version.h"
#include "sim/net/net.h"

static uint32_t levels(uint32_t host_count)
{
    uint32_t count = 0;

    while (host_count > 1) {
        host_count /= 2;
        count++;
    }
    return count;
}

static bool is_tree(const struct tutti_in_network *s)
{
    return s->form == TUTTI_IN_NETWORK_NVLS_TREE;
}

/* Saturates at INT64_MAX, as all sums of times here do. */
static tutti_ps times_ps(uint64_t count, tutti_ps each)
{
    uint64_t all = tutti_times(count, (uint64_t)each);

    return all > INT64_MAX ? INT64_MAX : (tutti_ps)all;
}

/* What a GPU sends into its links, and receives, of a loop of so many bytes. */
static uint64_t link_bytes(const struct tutti_in_network *s, uint64_t bytes)
{
    switch (s->form) {
    case TUTTI_IN_NETWORK_COLLNET_DIRECT:
        return bytes / s->head_count * (s->head_count - 1 + s->gpu_count - 1);
    case TUTTI_IN_NETWORK_COLLNET_CHAIN:
        return s->gpu_count > 1 ? 2 * bytes : 0;
    default:
        return s->part == TUTTI_IN_NETWORK_ALL ? bytes + bytes / s->head_count : bytes;
    }
}

/* A loop over `bytes` on a GPU's links, and on the way to other hosts. */
static tutti_ps link_ps(const struct tutti_in_network *s, uint64_t bytes)
{
    return tutti_add_ps(s->loop_ps, tutti_wire_ps(link_bytes(s, bytes), s->gpu_bytes_per_s));
}

static tutti_ps port_ps(const struct tutti_in_network *s, uint64_t bytes)
{
    uint32_t times = is_tree(s) && s->host_count > 2 ? 2 : 1;

    if (s->host_count == 1)
        return 0;
    return tutti_add_ps(s->net_loop_ps,
                        tutti_wire_ps(bytes * times / s->head_count, s->port_bytes_per_s));
}

static tutti_ps lane_ps(const struct tutti_in_network *s, uint64_t bytes)
{
    if (s->lane_bytes_per_s == 0)
        return 0;
    return tutti_wire_ps(bytes / s->channel_count, s->lane_bytes_per_s);
}

static tutti_ps pace_ps(const struct tutti_in_network *s, uint64_t bytes)
{
    tutti_ps pace = tutti_later_ps(link_ps(s, bytes), port_ps(s, bytes));

    if (s->tree_bytes_per_s > 0)
        pace = tutti_later_ps(pace, tutti_wire_ps(bytes, s->tree_bytes_per_s));
    return tutti_later_ps(pace, lane_ps(s, bytes));
}

/* The way of the first loop over the hosts, up the trees and down, or into the network and back.
 * Of each head one half of a loop goes by either tree: a level takes the wire of a whole loop, for
 * a host has two below it, but the root has one. What is on its way there is no stage of the
 * NVSwitches besides. Switches of the network pass on what they have added up so far. */
static tutti_ps climb_ps(const struct tutti_in_network *s, uint64_t bytes)
{
    tutti_ps wire = tutti_wire_ps(bytes / s->head_count, s->port_bytes_per_s);
    uint64_t level_count = levels(s->host_count);
    tutti_ps latency = times_ps(2 * level_count, tutti_add_ps(s->net_ps, s->stage_ps));

    if (is_tree(s))
        wire = times_ps(2 * level_count - 1, wire);
    else
        latency = tutti_add_ps(s->net_ps, times_ps(2, s->stage_ps));
    return tutti_add_ps(tutti_add_ps(latency, wire), s->net_loop_ps);
}

/* Of the first loop what its host takes before and after the sums of all. */
static tutti_ps host_ps(const struct tutti_in_network *s, uint64_t bytes)
{
    uint64_t stage_count = s->part == TUTTI_IN_NETWORK_ALL ? 2 : 1;
    tutti_ps link = link_ps(s, bytes);

    if (s->form == TUTTI_IN_NETWORK_COLLNET_DIRECT || s->form == TUTTI_IN_NETWORK_COLLNET_CHAIN)
        link = link_ps(s, bytes / 2); /* of which half is of either way */
    if (s->form == TUTTI_IN_NETWORK_COLLNET_CHAIN)
        stage_count = 2 * (uint64_t)(s->gpu_count - 1);
    return times_ps(stage_count,
                    tutti_add_ps(s->stage_ps, tutti_later_ps(link, lane_ps(s, bytes))));
}

tutti_ps tutti_in_network_time(const struct tutti_in_network *s)
{
    uint64_t loop_bytes = s->chunk_bytes * s->channel_count;
    uint64_t loop_count, rest, filling;
    tutti_ps total;

    if (s->form != TUTTI_IN_NETWORK_COLLNET_CHAIN)
        loop_bytes *= s->head_count;
    assert(loop_bytes > 0 && loop_bytes < UINT64_MAX / 64);
    assert(s->part == TUTTI_IN_NETWORK_ALL || s->host_count == 1);
    assert(s->gpu_bytes_per_s > 0 && (s->host_count == 1 || s->port_bytes_per_s > 0));
    loop_count = s->bytes / loop_bytes;
    rest = s->bytes % loop_bytes;
    filling = loop_count > 0 ? loop_bytes : rest;
    /* The first loop goes through all stages; the others follow it at the pace of the slowest. */
    total = tutti_add_ps(s->launch_ps, host_ps(s, filling));
    total = tutti_add_ps(total, s->host_count > 1 ? climb_ps(s, filling) : link_ps(s, filling));
    if (loop_count > 1)
        total = tutti_add_ps(total, times_ps(loop_count - 1, pace_ps(s, loop_bytes)));
    if (loop_count > 0 && rest > 0)
        total = tutti_add_ps(total, pace_ps(s, rest));
    return total;
}

uint64_t tutti_nvls_tree_rate(const struct tutti_nccl_comm *comm, uint32_t head_count)
{
    const struct tutti_nccl_version *versions[] = {comm->version, tutti_nccl_version_default()};
    uint32_t scale = comm->node_count <= 2 ? comm->node_count - 1 : TUTTI_NCCL_MANY_NODES;
    double ranks = comm->rank_count;

    for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        uint32_t gpu = tutti_nccl_gpu_class(comm->tables->facts.compute_min, &versions[i]->changes);
        double bus = versions[i]->constants->nvls_tree_GBps[gpu][scale] * head_count;

        if (bus > 0 && comm->rank_count > 1)
            return (uint64_t)(bus * 1e9 * ranks / (2 * (ranks - 1)));
    }
    return 0;
}
