/* Samples of clusters; see sample.h. */
#include "topo/bounds/sample.h"

#include <assert.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "topo/graph/builder.h"
#include "topo/graph/routes.h"
#include "topo/graph/rule.h"

enum { SPINES_MAX = 256 }; /* more take as long as the machine they stand for */

bool tutti_sample_fits(const struct tutti_topo *topo, bool rates_matter)
{
    const struct tutti_graph *graph = topo->graph;
    const struct tutti_cluster_rule *cluster;

    if (graph->rule == NULL || graph->rule->ops != &tutti_rule_cluster)
        return false;
    if (rates_matter && tutti_topo_routes_drawn(topo))
        return false;
    if (graph->changes != NULL && (rates_matter || graph->changes->latencies))
        return false;
    cluster = &graph->rule->cluster;
    return cluster->host_count % cluster->group_hosts == 0 &&
           cluster->group_hosts >= TUTTI_SAMPLE_HOSTS &&
           (cluster->group_count == 1 || cluster->group_count >= TUTTI_SAMPLE_GROUPS) &&
           cluster->spine_count <= SPINES_MAX &&
           cluster->host_count > TUTTI_SAMPLE_HOSTS * TUTTI_SAMPLE_GROUPS;
}

/* Ring orders go host by host: those of the first hosts are the same in the machine. */
static int copy_orders(const struct tutti_topo *machine, struct tutti_topo *topo,
                       struct tutti_err *err)
{
    size_t ranks = topo->rank_count;
    uint32_t *orders =
        tutti_arena_take(topo->arena, machine->shape.order_count * ranks, sizeof(*orders));

    if (orders == NULL)
        return tutti_nomem(err);
    for (size_t o = 0; o < machine->shape.order_count; o++)
        for (size_t i = 0; i < ranks; i++)
            orders[o * ranks + i] = machine->shape.orders[o * machine->rank_count + i];
    topo->shape.order_count = machine->shape.order_count;
    topo->shape.orders = orders;
    return 0;
}

static int fill(struct tutti_topo *topo, const struct tutti_topo *machine, struct tutti_err *err)
{
    struct tutti_rule *rule = tutti_arena_take(topo->arena, 1, sizeof(*rule));
    struct tutti_graph *graph = tutti_arena_take(topo->arena, 1, sizeof(*graph));
    struct tutti_routes routes = tutti_topo_routes(machine);
    struct tutti_cluster_rule cluster = machine->graph->rule->cluster;
    struct tutti_shape shape = {.rank_count = 0};
    int status;

    if (rule == NULL || graph == NULL)
        return tutti_nomem(err);
    cluster.group_hosts = TUTTI_SAMPLE_HOSTS;
    cluster.group_count = cluster.group_count == 1 ? 1 : TUTTI_SAMPLE_GROUPS;
    cluster.host_count = cluster.group_hosts * cluster.group_count;
    *rule = tutti_rule_of_cluster(&cluster);
    graph->rule = rule;
    topo->name = machine->name;
    topo->source = machine->source;
    topo->graph = graph;
    topo->node_count = rule->node_count;
    topo->link_count = rule->link_count;
    topo->rank_count = rule->rank_count;
    topo->host_count = rule->host_count;
    status = tutti_freeze_shape(topo, &shape, err);
    if (status == 0 && machine->shape.order_count > 0)
        status = copy_orders(machine, topo, err);
    routes.args[0] = cluster.host_count;
    routes.args[2] = cluster.group_hosts;
    return status < 0 ? status : tutti_freeze_routes(topo, &routes, err);
}

int tutti_sample_open(struct tutti_sample *sample, const struct tutti_topo *topo,
                      struct tutti_err *err)
{
    struct tutti_arena *arena = tutti_arena_new();
    struct tutti_topo *small = arena != NULL ? tutti_arena_take(arena, 1, sizeof(*small)) : NULL;
    int status;

    assert(topo->graph->rule != NULL);
    if (small == NULL) {
        tutti_arena_free(arena);
        return tutti_nomem(err);
    }
    small->arena = arena;
    status = fill(small, topo, err);
    if (status < 0) {
        tutti_topo_free(small);
        return status;
    }
    *sample = (struct tutti_sample){
        .machine = topo, .topo = small, .devices = topo->graph->rule->cluster.host.rank_count};
    return 0;
}

void tutti_sample_close(struct tutti_sample *sample)
{
    tutti_topo_free(sample->topo);
    sample->topo = NULL;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The third of the sample is the root's, if that is none of the first two. */
static uint32_t third(uint32_t index, uint32_t root)
{
    return index == 2 && root > 2 ? root : index;
}

uint32_t tutti_sample_rank(const struct tutti_sample *sample, uint32_t rank)
{
    uint32_t group_hosts = sample->machine->graph->rule->cluster.group_hosts;
    uint32_t root = sample->root / sample->devices;
    uint32_t host = rank / sample->devices;
    uint32_t group = third(host / TUTTI_SAMPLE_HOSTS, root / group_hosts);

    host = third(host % TUTTI_SAMPLE_HOSTS, root % group_hosts);
    return (group * group_hosts + host) * sample->devices + rank % sample->devices;
}

uint32_t tutti_sample_of_rank(const struct tutti_sample *sample, uint32_t rank)
{
    uint32_t group_hosts = sample->machine->graph->rule->cluster.group_hosts;
    uint32_t host = rank / sample->devices;
    uint32_t group = least(host / group_hosts, TUTTI_SAMPLE_GROUPS - 1);

    host = least(host % group_hosts, TUTTI_SAMPLE_HOSTS - 1);
    return (group * TUTTI_SAMPLE_HOSTS + host) * sample->devices + rank % sample->devices;
}

uint32_t tutti_sample_link(const struct tutti_sample *sample, uint32_t link)
{
    uint32_t host_links = sample->machine->graph->rule->cluster.host.link_count;

    if (link < sample->topo->host_count * host_links)
        return link;
    return link + (sample->machine->host_count - sample->topo->host_count) * host_links;
}

uint32_t tutti_sample_uplink(const struct tutti_sample *sample)
{
    const struct tutti_cluster_rule *cluster = &sample->machine->graph->rule->cluster;

    return cluster->host_count * (cluster->host.link_count + 2 * cluster->nic_count);
}
