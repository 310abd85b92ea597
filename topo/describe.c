/* Describing a machine: alike nodes and links are counted together, rates are added up. */
#include "topo/describe.h"

#include <stdlib.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "topo/bounds/latency.h"

static bool nodes_alike(const struct tutti_node *a, const struct tutti_node *b)
{
    return a->kind == b->kind && a->reduces == b->reduces && a->flops_per_s == b->flops_per_s &&
           a->mem_bytes_per_s == b->mem_bytes_per_s;
}

static void group_nodes(const struct tutti_topo *topo, struct tutti_description *ret)
{
    for (uint32_t v = 0; v < topo->node_count; v++) {
        struct tutti_node node = tutti_topo_node(topo, v);
        uint32_t g = 0;

        ret->node_kind_count[node.kind]++;
        for (; g < ret->node_group_count; g++) {
            struct tutti_node first = tutti_topo_node(topo, ret->node_groups[g].first);

            if (nodes_alike(&first, &node))
                break;
        }
        if (g == TUTTI_NODE_GROUPS_MAX) {
            ret->node_more++;
            continue;
        }
        if (g == ret->node_group_count)
            ret->node_groups[ret->node_group_count++] = (struct tutti_node_group){.first = v};
        ret->node_groups[g].count++;
    }
}

static void add_rate(uint64_t *sum, uint64_t rate)
{
    if (__builtin_add_overflow(*sum, rate, sum))
        *sum = UINT64_MAX;
}

static void widen(uint64_t *min, uint64_t *max, uint64_t value)
{
    *min = value < *min ? value : *min;
    *max = value > *max ? value : *max;
}

static void add_up_ranks(const struct tutti_topo *topo, struct tutti_description *ret)
{
    ret->rank_out_min = UINT64_MAX;
    for (uint32_t r = 0; r < topo->rank_count; r++) {
        uint32_t v = tutti_topo_rank_node(topo, r);
        uint64_t out = 0;

        for (uint32_t k = 0; k < tutti_topo_out_count(topo, v); k++)
            add_rate(&out, tutti_topo_link(topo, tutti_topo_out_link(topo, v, k)).bytes_per_s);
        widen(&ret->rank_out_min, &ret->rank_out_max, out);
    }
}

static int add_up_hosts(const struct tutti_topo *topo, struct tutti_description *ret,
                        struct tutti_err *err)
{
    struct host {
        uint64_t out;
        uint64_t ranks;
    } * hosts;
    uint64_t ranks_min = UINT64_MAX;
    uint64_t ranks_max = 0;

    if (topo->host_count == 0)
        return 0;
    hosts = calloc(topo->host_count, sizeof(*hosts));
    if (hosts == NULL)
        return tutti_nomem(err);
    for (uint32_t r = 0; r < topo->rank_count; r++) {
        uint32_t host = tutti_topo_node(topo, tutti_topo_rank_node(topo, r)).host;

        if (host != UINT32_MAX)
            hosts[host].ranks++;
    }
    for (uint32_t l = 0; l < topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(topo, l);
        uint32_t host = tutti_topo_node(topo, link.from).host;

        if (host != UINT32_MAX && tutti_topo_node(topo, link.to).host != host)
            add_rate(&hosts[host].out, link.bytes_per_s);
    }
    ret->host_out_min = UINT64_MAX;
    for (uint32_t h = 0; h < topo->host_count; h++) {
        widen(&ret->host_out_min, &ret->host_out_max, hosts[h].out);
        widen(&ranks_min, &ranks_max, hosts[h].ranks);
    }
    ret->host_ranks_min = (uint32_t)ranks_min;
    ret->host_ranks_max = (uint32_t)ranks_max;
    free(hosts);
    return 0;
}

int tutti_topo_describe(const struct tutti_topo *topo, struct tutti_description *ret,
                        struct tutti_err *err)
{
    struct tutti_description description = {0};
    struct tutti_latency far;
    int status = tutti_topo_bisection(topo, &description.bisection_bytes_per_s, err);

    if (status == 0)
        status = tutti_latency_bound(topo, TUTTI_BARRIER, 0, &far, err);
    if (status == 0)
        status = add_up_hosts(topo, &description, err);
    if (status < 0)
        return status;
    group_nodes(topo, &description);
    description.link_group_count = tutti_topo_link_classes(
        topo, description.link_groups, TUTTI_LINK_GROUPS_MAX, &description.link_more);
    add_up_ranks(topo, &description);
    description.far_ps = far.latency_ps;
    description.far_from = far.from;
    description.far_to = far.to;
    *ret = description;
    return 0;
}
