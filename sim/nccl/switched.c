/* NVLS as a pipeline; see nvls.h. */
#include "sim/nccl/nvls.h"

#include <assert.h>

#include "sim/nccl.h"
#include "sim/nccl/tables.h"
#include "sim/nccl/version.h"

static uint32_t levels(uint32_t host_count)
{
    uint32_t count = 0;

    while (host_count > 1) {
        host_count /= 2;
        count++;
    }
    return count;
}

/* A loop over `bytes` in the switches, and on the way to other hosts. */
static tutti_ps switch_ps(const struct tutti_nvls *nvls, uint64_t bytes)
{
    return nvls->loop_ps + tutti_wire_ps(bytes + bytes / nvls->head_count, nvls->gpu_bytes_per_s);
}

static tutti_ps port_ps(const struct tutti_nvls *nvls, uint64_t bytes)
{
    uint32_t times = nvls->host_count > 2 ? 2 : 1;

    if (nvls->host_count == 1)
        return 0;
    return nvls->net_loop_ps +
           tutti_wire_ps(bytes * times / nvls->head_count, nvls->port_bytes_per_s);
}

static tutti_ps lane_ps(const struct tutti_nvls *nvls, uint64_t bytes)
{
    if (nvls->lane_bytes_per_s == 0)
        return 0;
    return tutti_wire_ps(bytes / nvls->channel_count, nvls->lane_bytes_per_s);
}

static tutti_ps longer(tutti_ps a, tutti_ps b)
{
    return a > b ? a : b;
}

static tutti_ps pace_ps(const struct tutti_nvls *nvls, uint64_t bytes)
{
    tutti_ps pace = longer(switch_ps(nvls, bytes), port_ps(nvls, bytes));

    if (nvls->tree_bytes_per_s > 0)
        pace = longer(pace, tutti_wire_ps(bytes, nvls->tree_bytes_per_s));
    return longer(pace, lane_ps(nvls, bytes));
}

/* The way of the first loop over the hosts, up the trees and down. Of each head one half of a loop
 * goes by either tree: a level takes the wire of a whole loop, for a host has two below it, but the
 * root has one. What is on its way there is no stage of the switches besides. */
static tutti_ps climb_ps(const struct tutti_nvls *nvls, uint64_t bytes)
{
    tutti_ps wire = tutti_wire_ps(bytes / nvls->head_count, nvls->port_bytes_per_s);
    tutti_ps level_count = (tutti_ps)levels(nvls->host_count);

    return 2 * level_count * (nvls->net_ps + nvls->stage_ps) + (2 * level_count - 1) * wire +
           nvls->net_loop_ps;
}

tutti_ps tutti_nvls_time(const struct tutti_nvls *nvls)
{
    uint64_t loop_bytes = nvls->chunk_bytes * nvls->head_count * nvls->channel_count;
    uint64_t loop_count, rest, filling;
    tutti_ps total = nvls->launch_ps;

    assert(loop_bytes > 0 && loop_bytes < UINT64_MAX / 2);
    assert(nvls->channel_count > 0);
    assert(nvls->gpu_bytes_per_s > 0 && (nvls->host_count == 1 || nvls->port_bytes_per_s > 0));
    loop_count = nvls->bytes / loop_bytes;
    rest = nvls->bytes % loop_bytes;
    filling = loop_count > 0 ? loop_bytes : rest;
    /* The first loop goes through all stages; the others follow it at the pace of the slowest. */
    total += 2 * (nvls->stage_ps + longer(switch_ps(nvls, filling), lane_ps(nvls, filling)));
    total += nvls->host_count > 1 ? climb_ps(nvls, filling) : switch_ps(nvls, filling);
    if (loop_count > 1)
        total += (tutti_ps)(loop_count - 1) * pace_ps(nvls, loop_bytes);
    if (loop_count > 0 && rest > 0)
        total += pace_ps(nvls, rest);
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
