/* The rule of clusters: copies of one host, rails of leaf switches, spines. */
#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "topo/graph/graph.h"
#include "topo/graph/rule.h"

/* Where the numbers of the network begin. */
static uint32_t leaf_first(const struct tutti_cluster_rule *cluster)
{
    return cluster->host_count * cluster->host.node_count;
}

static uint32_t leaf_count(const struct tutti_cluster_rule *cluster)
{
    return cluster->group_count * cluster->nic_count;
}

static uint32_t cable_first(const struct tutti_cluster_rule *cluster)
{
    return cluster->host_count * cluster->host.link_count;
}

static uint32_t uplink_first(const struct tutti_cluster_rule *cluster)
{
    return cable_first(cluster) + 2 * cluster->host_count * cluster->nic_count;
}

static struct tutti_node cluster_node(const struct tutti_rule *rule, uint32_t v)
{
    const struct tutti_cluster_rule *cluster = &rule->cluster;
    uint32_t host = v / cluster->host.node_count;
    struct tutti_node node = {.rank = TUTTI_RANK_NONE,
                              .host = UINT32_MAX,
                              .kind = TUTTI_NODE_SWITCH,
                              .reduces = cluster->reduces};

    if (host >= cluster->host_count)
        return node;
    node = cluster->host.graph->nodes[v % cluster->host.node_count];
    node.name = NULL;
    node.host = host;
    if (node.kind == TUTTI_NODE_DEVICE)
        node.rank += host * cluster->host.rank_count;
    return node;
}

/* "gpu3" of host 2 is "gpu2.3"; where that is ambiguous, "host2/gpu3". */
static void name_in_host(const struct tutti_cluster_rule *cluster, uint32_t host, const char *name,
                         char *buf)
{
    size_t stem = strlen(name);

    while (stem > 0 && isdigit((unsigned char)name[stem - 1]))
        stem--;
    if (cluster->dotted || stem == 0)
        (void)snprintf(buf, TUTTI_NODE_NAME_BYTES, "host%u/%s", host, name);
    else
        (void)snprintf(buf, TUTTI_NODE_NAME_BYTES, "%.*s%u%s%s", (int)stem, name, host,
                       name[stem] == '\0' ? "" : ".", name + stem);
}

static void cluster_name(const struct tutti_rule *rule, uint32_t v, char *buf)
{
    const struct tutti_cluster_rule *cluster = &rule->cluster;
    uint32_t host = v / cluster->host.node_count;
    uint32_t leaf = v - leaf_first(cluster);

    if (host < cluster->host_count)
        name_in_host(cluster, host, cluster->host.graph->nodes[v % cluster->host.node_count].name,
                     buf);
    else if (leaf < leaf_count(cluster))
        (void)snprintf(buf, TUTTI_NODE_NAME_BYTES, "leaf%u.%u", leaf % cluster->nic_count,
                       leaf / cluster->nic_count);
    else
        (void)snprintf(buf, TUTTI_NODE_NAME_BYTES, "spine%u", leaf - leaf_count(cluster));
}

/* A link of the network; `down` is the way back of its cable. */
static struct tutti_link between(const struct tutti_link *like, uint32_t low, uint32_t high,
                                 bool down)
{
    struct tutti_link link = *like;

    link.from = down ? high : low;
    link.to = down ? low : high;
    return link;
}

static struct tutti_link cluster_link(const struct tutti_rule *rule, uint32_t l)
{
    const struct tutti_cluster_rule *cluster = &rule->cluster;
    uint32_t host;
    uint32_t rail;
    uint32_t leaf;

    if (l < cable_first(cluster)) {
        struct tutti_link link = cluster->host.graph->links[l % cluster->host.link_count];

        host = l / cluster->host.link_count;
        link.from += host * cluster->host.node_count;
        link.to += host * cluster->host.node_count;
        return link;
    }
    l -= cable_first(cluster);
    host = l / 2 / cluster->nic_count;
    if (host < cluster->host_count) {
        rail = l / 2 % cluster->nic_count;
        leaf = leaf_first(cluster) + host / cluster->group_hosts * cluster->nic_count + rail;
        return between(&cluster->cables[rail],
                       host * cluster->host.node_count + cluster->nics[rail], leaf, l % 2 != 0);
    }
    l -= 2 * cluster->host_count * cluster->nic_count;
    leaf = l / 2 / cluster->spine_count;
    return between(&cluster->uplinks[leaf % cluster->nic_count], leaf_first(cluster) + leaf,
                   leaf_first(cluster) + leaf_count(cluster) + l / 2 % cluster->spine_count,
                   l % 2 != 0);
}

static const struct tutti_link *cluster_like(const struct tutti_rule *rule, uint32_t l)
{
    const struct tutti_cluster_rule *cluster = &rule->cluster;

    if (l < cable_first(cluster))
        return &cluster->host.graph->links[l % cluster->host.link_count];
    if (l < uplink_first(cluster))
        return &cluster->cables[(l - cable_first(cluster)) / 2 % cluster->nic_count];
    return &cluster->uplinks[(l - uplink_first(cluster)) / 2 / cluster->spine_count %
                             cluster->nic_count];
}

/* Those in hosts are copied with the numbers of their host added. Returns how many there were. */
static uint32_t links_inside(const struct tutti_cluster_rule *cluster, uint32_t first,
                             uint32_t count, struct tutti_link *ret)
{
    const struct tutti_link *like = cluster->host.graph->links;
    uint32_t left = cable_first(cluster) - first;
    uint32_t t = first % cluster->host.link_count;
    uint32_t node = first / cluster->host.link_count * cluster->host.node_count;

    count = count < left ? count : left;
    for (uint32_t i = 0; i < count; i++) {
        ret[i] = like[t];
        ret[i].from += node;
        ret[i].to += node;
        if (++t == cluster->host.link_count) {
            t = 0;
            node += cluster->host.node_count;
        }
    }
    return count;
}

/* The cables of hosts, from `first` on. Returns how many there were. */
static uint32_t links_of_nics(const struct tutti_cluster_rule *cluster, uint32_t first,
                              uint32_t count, struct tutti_link *ret)
{
    uint32_t cable = (first - cable_first(cluster)) / 2;
    uint32_t left = uplink_first(cluster) - first;
    uint32_t host = cable / cluster->nic_count;
    uint32_t rail = cable % cluster->nic_count;
    uint32_t leaf = leaf_first(cluster) + host / cluster->group_hosts * cluster->nic_count;
    uint32_t place = host % cluster->group_hosts;
    bool down = (first - cable_first(cluster)) % 2 != 0;

    count = count < left ? count : left;
    for (uint32_t i = 0; i < count; i++, down = !down) {
        ret[i] = between(&cluster->cables[rail],
                         host * cluster->host.node_count + cluster->nics[rail], leaf + rail, down);
        if (!down || ++rail < cluster->nic_count)
            continue;
        rail = 0;
        host++;
        if (++place == cluster->group_hosts) {
            place = 0;
            leaf += cluster->nic_count;
        }
    }
    return count;
}

/* The cables of leaves, from `first` on, all of which are there. */
static void uplinks(const struct tutti_cluster_rule *cluster, uint32_t first, uint32_t count,
                    struct tutti_link *ret)
{
    uint32_t cable = (first - uplink_first(cluster)) / 2;
    uint32_t leaf = cable / cluster->spine_count;
    uint32_t spine = cable % cluster->spine_count;
    uint32_t rail = leaf % cluster->nic_count;
    bool down = (first - uplink_first(cluster)) % 2 != 0;

    for (uint32_t i = 0; i < count; i++, down = !down) {
        ret[i] = between(&cluster->uplinks[rail], leaf_first(cluster) + leaf,
                         leaf_first(cluster) + leaf_count(cluster) + spine, down);
        if (!down || ++spine < cluster->spine_count)
            continue;
        spine = 0;
        leaf++;
        rail = rail + 1 < cluster->nic_count ? rail + 1 : 0;
    }
}

static void cluster_links(const struct tutti_rule *rule, uint32_t first, uint32_t count,
                          struct tutti_link *ret)
{
    const struct tutti_cluster_rule *cluster = &rule->cluster;
    uint32_t done = first < cable_first(cluster) ? links_inside(cluster, first, count, ret) : 0;

    if (done < count && first + done < uplink_first(cluster))
        done += links_of_nics(cluster, first + done, count - done, ret + done);
    if (done < count)
        uplinks(cluster, first + done, count - done, ret + done);
}

static uint32_t cluster_rank_node(const struct tutti_rule *rule, uint32_t rank)
{
    const struct tutti_topo *host = &rule->cluster.host;

    return host->graph->rank_node[rank % host->rank_count] +
           rank / host->rank_count * host->node_count;
}

/* Hosts under a leaf switch of this group: the last group may be smaller. */
static uint32_t hosts_in(const struct tutti_cluster_rule *cluster, uint32_t group)
{
    uint32_t left = cluster->host_count - group * cluster->group_hosts;

    return left < cluster->group_hosts ? left : cluster->group_hosts;
}

static uint32_t cluster_out_count(const struct tutti_rule *rule, uint32_t v)
{
    const struct tutti_cluster_rule *cluster = &rule->cluster;
    const struct tutti_graph *graph = cluster->host.graph;
    uint32_t leaf = v - leaf_first(cluster);

    if (v < leaf_first(cluster)) {
        uint32_t t = v % cluster->host.node_count;

        return graph->out_first[t + 1] - graph->out_first[t] + (cluster->node_nic[t] != UINT32_MAX);
    }
    if (leaf < leaf_count(cluster))
        return hosts_in(cluster, leaf / cluster->nic_count) + cluster->spine_count;
    return leaf_count(cluster);
}

static uint32_t host_out_link(const struct tutti_cluster_rule *cluster, uint32_t v, uint32_t k)
{
    const struct tutti_graph *graph = cluster->host.graph;
    uint32_t host = v / cluster->host.node_count;
    uint32_t t = v % cluster->host.node_count;

    if (k < graph->out_first[t + 1] - graph->out_first[t])
        return graph->out_links[graph->out_first[t] + k] + host * cluster->host.link_count;
    assert(cluster->node_nic[t] != UINT32_MAX);
    return cable_first(cluster) + 2 * (host * cluster->nic_count + cluster->node_nic[t]);
}

static uint32_t cluster_out_link(const struct tutti_rule *rule, uint32_t v, uint32_t k)
{
    const struct tutti_cluster_rule *cluster = &rule->cluster;
    uint32_t leaf = v - leaf_first(cluster);
    uint32_t below;

    if (v < leaf_first(cluster))
        return host_out_link(cluster, v, k);
    if (leaf >= leaf_count(cluster)) {
        uint32_t spine = leaf - leaf_count(cluster);

        return uplink_first(cluster) + 2 * (k * cluster->spine_count + spine) + 1;
    }
    below = hosts_in(cluster, leaf / cluster->nic_count);
    if (k < below) {
        uint32_t host = leaf / cluster->nic_count * cluster->group_hosts + k;

        return cable_first(cluster) + 2 * (host * cluster->nic_count + leaf % cluster->nic_count) +
               1;
    }
    return uplink_first(cluster) + 2 * (leaf * cluster->spine_count + k - below);
}

/* Of a leaf switch: to its hosts, which lie one after the other, then to the spines. */
static void leaf_out_links(const struct tutti_cluster_rule *cluster, uint32_t leaf, uint32_t k,
                           uint32_t count, struct tutti_link *ret)
{
    uint32_t group = leaf / cluster->nic_count;
    uint32_t rail = leaf % cluster->nic_count;
    uint32_t below = hosts_in(cluster, group);
    uint32_t node = (group * cluster->group_hosts + k) * cluster->host.node_count;
    uint32_t own = leaf_first(cluster) + leaf;
    uint32_t spines = leaf_first(cluster) + leaf_count(cluster);
    uint32_t i = 0;

    for (; i < count && k < below; i++, k++, node += cluster->host.node_count)
        ret[i] = between(&cluster->cables[rail], node + cluster->nics[rail], own, true);
    for (; i < count; i++, k++)
        ret[i] = between(&cluster->uplinks[rail], own, spines + k - below, false);
}

static void host_out_links(const struct tutti_cluster_rule *cluster, uint32_t v, uint32_t k,
                           uint32_t count, struct tutti_link *ret)
{
    const struct tutti_graph *graph = cluster->host.graph;
    uint32_t host = v / cluster->host.node_count;
    uint32_t t = v % cluster->host.node_count;
    uint32_t inside = graph->out_first[t + 1] - graph->out_first[t];
    uint32_t node = host * cluster->host.node_count;
    uint32_t rail = cluster->node_nic[t];

    for (uint32_t i = 0; i < count; i++, k++) {
        if (k >= inside) {
            uint32_t group = host / cluster->group_hosts;

            ret[i] = between(&cluster->cables[rail], v,
                             leaf_first(cluster) + group * cluster->nic_count + rail, false);
            continue;
        }
        ret[i] = graph->links[graph->out_links[graph->out_first[t] + k]];
        ret[i].from += node;
        ret[i].to += node;
    }
}

static void cluster_out_links(const struct tutti_rule *rule, uint32_t v, uint32_t k, uint32_t count,
                              struct tutti_link *ret)
{
    const struct tutti_cluster_rule *cluster = &rule->cluster;
    uint32_t leaf = v - leaf_first(cluster);

    if (v < leaf_first(cluster)) {
        host_out_links(cluster, v, k, count, ret);
    } else if (leaf < leaf_count(cluster)) {
        leaf_out_links(cluster, leaf, k, count, ret);
    } else {
        for (uint32_t i = 0; i < count; i++)
            ret[i] = between(&cluster->uplinks[(k + i) % cluster->nic_count],
                             leaf_first(cluster) + k + i, v, true);
    }
}

/* The links of host 0, each in every host; the cables of each rail, up and down; the uplinks. */
static bool cluster_link_class(const struct tutti_rule *rule, uint32_t i,
                               struct tutti_rule_class *ret)
{
    const struct tutti_cluster_rule *cluster = &rule->cluster;
    uint32_t rails = 2 * cluster->nic_count;

    if (i < cluster->host.link_count) {
        *ret = (struct tutti_rule_class){.first = i,
                                         .count = cluster->host_count,
                                         .run = cluster->host_count,
                                         .step = cluster->host.link_count};
        return true;
    }
    i -= cluster->host.link_count;
    if (i < rails) {
        *ret = (struct tutti_rule_class){.first = cable_first(cluster) + i,
                                         .count = cluster->host_count,
                                         .run = cluster->host_count,
                                         .step = rails};
        return true;
    }
    i -= rails;
    ret->first = uplink_first(cluster) + 2 * (i / 2) * cluster->spine_count + i % 2;
    ret->count = cluster->group_count * cluster->spine_count;
    ret->run = cluster->spine_count;
    ret->step = 2;
    ret->stride = rails * cluster->spine_count;
    return i < rails && ret->count > 0;
}

const struct tutti_rule_ops tutti_rule_cluster = {
    .node = cluster_node,
    .name = cluster_name,
    .link = cluster_link,
    .like = cluster_like,
    .links = cluster_links,
    .rank_node = cluster_rank_node,
    .out_count = cluster_out_count,
    .out_link = cluster_out_link,
    .out_links = cluster_out_links,
    .link_class = cluster_link_class,
};

struct tutti_rule tutti_rule_of_cluster(const struct tutti_cluster_rule *cluster)
{
    struct tutti_rule rule = {.ops = &tutti_rule_cluster, .cluster = *cluster};

    assert(cluster->host.graph->rule == NULL);
    assert(cluster->host_count > 1);
    assert(cluster->spine_count > 0 || leaf_count(cluster) == 1);
    rule.node_count = leaf_first(cluster) + leaf_count(cluster) + cluster->spine_count;
    rule.link_count = uplink_first(cluster) + 2 * leaf_count(cluster) * cluster->spine_count;
    rule.rank_count = cluster->host_count * cluster->host.rank_count;
    rule.host_count = cluster->host_count;
    return rule;
}
