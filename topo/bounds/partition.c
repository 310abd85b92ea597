/* Cuts of partitions: who belongs to which group, and the links that cross. */
#include "topo/bounds/partition.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "topo/graph/graph.h"
#include "topo/graph/rule.h"

enum { PASSES_MAX = 8 };
#define BETWEEN UINT32_MAX
#define UNSEEN  (UINT32_MAX - 1) /* a host without ranks */

int tutti_partition_open(struct tutti_partition *partition, const struct tutti_topo *topo,
                         struct tutti_err *err)
{
    *partition = (struct tutti_partition){
        .topo = topo, .spines = tutti_graph_spines(topo), .copies = tutti_graph_copies(topo)};
    partition->rank_group = calloc(topo->rank_count, sizeof(uint32_t));
    partition->groups = calloc(topo->rank_count, sizeof(struct tutti_bound_group));
    partition->label = calloc(topo->node_count, sizeof(uint32_t));
    partition->host_group = calloc((size_t)topo->host_count + 1, sizeof(uint32_t));
    if (partition->rank_group == NULL || partition->groups == NULL || partition->label == NULL ||
        partition->host_group == NULL) {
        tutti_partition_close(partition);
        return tutti_nomem(err);
    }
    return 0;
}

void tutti_partition_close(struct tutti_partition *partition)
{
    free(partition->rank_group);
    free(partition->groups);
    free(partition->label);
    free(partition->host_group);
    *partition = (struct tutti_partition){0};
}

static uint32_t host_of(const struct tutti_partition *partition, uint32_t rank)
{
    const struct tutti_topo *topo = partition->topo;

    return partition->copies.host_count > 0
               ? rank / partition->copies.rank_count
               : tutti_topo_node(topo, tutti_topo_rank_node(topo, rank)).host;
}

static void group_hosts(struct tutti_partition *partition)
{
    const struct tutti_topo *topo = partition->topo;

    for (uint32_t h = 0; h < topo->host_count; h++)
        partition->host_group[h] = UNSEEN;
    for (uint32_t r = 0; r < topo->rank_count; r++) {
        uint32_t host = host_of(partition, r);
        uint32_t group = partition->rank_group[r];

        if (host == UINT32_MAX)
            continue;
        if (partition->host_group[host] == UNSEEN)
            partition->host_group[host] = group;
        else if (partition->host_group[host] != group)
            partition->host_group[host] = BETWEEN;
    }
}

static void label_nodes(struct tutti_partition *partition, uint32_t first, uint32_t end)
{
    for (uint32_t v = first; v < end; v++) {
        struct tutti_node node = tutti_topo_node(partition->topo, v);

        partition->label[v] = BETWEEN;
        if (node.kind == TUTTI_NODE_DEVICE)
            partition->label[v] = partition->rank_group[node.rank];
        else if (node.host != UINT32_MAX && partition->host_group[node.host] != UNSEEN)
            partition->label[v] = partition->host_group[node.host];
    }
}

/* Ranks, then all that is in a host whose ranks are all in one group. */
static void label_hosts(struct tutti_partition *partition)
{
    uint32_t nodes = partition->copies.node_count;
    uint32_t hosts = partition->copies.host_count;

    group_hosts(partition);
    for (uint32_t h = 0; h < hosts; h++) {
        if (partition->host_group[h] == BETWEEN)
            label_nodes(partition, h * nodes, (h + 1) * nodes);
        for (uint32_t i = 0; i < nodes && partition->host_group[h] != BETWEEN; i++)
            partition->label[h * nodes + i] = partition->host_group[h];
    }
    label_nodes(partition, hosts * nodes, partition->topo->node_count);
}

/* Of the rate that leads from a node to groups, the vote so far. */
struct vote {
    uint32_t candidate;
    struct tutti_wide lead;
    struct tutti_wide voted; /* of groups */
    struct tutti_wide total;
};

static void add_vote(struct vote *vote, uint32_t group, uint64_t bytes_per_s)
{
    struct tutti_wide rate = tutti_wide_of(bytes_per_s);

    vote->total = tutti_wide_add(vote->total, rate);
    if (group == BETWEEN)
        return;
    vote->voted = tutti_wide_add(vote->voted, rate);
    if (group == vote->candidate) {
        vote->lead = tutti_wide_add(vote->lead, rate);
    } else if (!tutti_wide_less(vote->lead, rate)) {
        vote->lead = tutti_wide_subtract(vote->lead, rate);
    } else {
        vote->lead = tutti_wide_subtract(rate, vote->lead);
        vote->candidate = group;
    }
}

/* The group to which at least half of the rate of v's links leads, or BETWEEN. The candidate is
 * found by voting in pairs (Boyer and Moore), then counted. */
static uint32_t strongest_group(const struct tutti_partition *partition, uint32_t v)
{
    const struct tutti_topo *topo = partition->topo;
    struct tutti_link links[TUTTI_LINK_BLOCK];
    struct vote vote = {.candidate = BETWEEN};
    struct tutti_wide own = {.high = 0};
    uint32_t begin = 0;
    uint32_t count;

    do {
        count = tutti_graph_out_links(topo, v, begin, links, TUTTI_LINK_BLOCK);
        for (uint32_t i = 0; i < count; i++)
            add_vote(&vote, partition->label[links[i].to], links[i].bytes_per_s);
        begin += count;
    } while (count == TUTTI_LINK_BLOCK);
    /* What is not in the lead was paired off, one of each pair for others: the candidate has at
     * most lead + (voted - lead) / 2. */
    if (vote.candidate == BETWEEN ||
        tutti_wide_less(tutti_wide_add(vote.lead, vote.voted), vote.total))
        return BETWEEN;
    for (uint32_t first = 0; first < begin; first += count) {
        if (begin >= TUTTI_LINK_BLOCK) /* else they are still there */
            count = tutti_graph_out_links(topo, v, first, links, TUTTI_LINK_BLOCK);
        for (uint32_t i = 0; i < count; i++)
            if (partition->label[links[i].to] == vote.candidate)
                own = tutti_wide_add_word(own, links[i].bytes_per_s);
    }
    return tutti_wide_less(tutti_wide_add(own, own), vote.total) ? BETWEEN : vote.candidate;
}

/* Moves switches of nodes [first, end) to their strongest group until none moves any more. What
 * comes after the last one that moved has seen all as it is now. */
static void label_switches(struct tutti_partition *partition, uint32_t first, uint32_t end)
{
    uint32_t spine = partition->spines.node_first;
    uint32_t last = end;
    bool moved = true;

    for (int pass = 0; pass < PASSES_MAX && moved; pass++) {
        uint32_t seen = last;

        moved = false;
        for (uint32_t v = first; v < (moved ? end : seen); v++) {
            if (partition->label[v] != BETWEEN)
                continue;
            /* Spines see the same. */
            partition->label[v] =
                v > spine ? partition->label[spine] : strongest_group(partition, v);
            if (partition->label[v] == BETWEEN)
                continue;
            moved = true;
            last = v;
        }
    }
}

static void count_ranks(struct tutti_partition *partition)
{
    uint32_t rank_count = partition->topo->rank_count;

    for (uint32_t g = 0; g < partition->group_count; g++)
        partition->groups[g] = (struct tutti_bound_group){.count = 1, .first = UINT32_MAX};
    partition->kind_count = partition->group_count;
    for (uint32_t r = 0; r < rank_count; r++) {
        struct tutti_bound_group *group = &partition->groups[partition->rank_group[r]];
        uint32_t next = r + 1 < rank_count ? r + 1 : 0;

        assert(partition->rank_group[r] < partition->group_count);
        group->rank_count++;
        group->has_root = group->has_root || r == partition->root;
        group->first = r < group->first ? r : group->first;
        group->follow_count += partition->rank_group[next] != partition->rank_group[r];
    }
}

/* As many links like this one, from and to nodes with the same labels. */
static void cut_links(struct tutti_partition *partition, uint32_t l, const struct tutti_link *link,
                      uint32_t count)
{
    struct tutti_wide rate = tutti_wide_product(link->bytes_per_s, count);
    uint32_t from = partition->label[link->from];
    uint32_t to = partition->label[link->to];

    if (from == to)
        return;
    if (from != BETWEEN) {
        struct tutti_bound_group *group = &partition->groups[from];

        group->out = tutti_plus(group->out, tutti_wide_word(rate));
        group->link_count += count;
        group->link_kinds |= 1u << link->kind;
        group->link_out = l;
        partition->out = tutti_wide_add(partition->out, rate);
    }
    if (to != BETWEEN) {
        struct tutti_bound_group *group = &partition->groups[to];

        group->in = tutti_plus(group->in, tutti_wide_word(rate));
        group->link_in_count += count;
        group->link_in = l;
        partition->in = tutti_wide_add(partition->in, rate);
    }
}

/* Links [first, end), one by one. */
static void cut_between(struct tutti_partition *partition, uint32_t first, uint32_t end)
{
    struct tutti_link links[TUTTI_LINK_BLOCK];

    for (; first < end; first += TUTTI_LINK_BLOCK) {
        uint32_t left = end - first;
        uint32_t count = tutti_topo_links(partition->topo, first, links,
                                          left < TUTTI_LINK_BLOCK ? left : TUTTI_LINK_BLOCK);

        for (uint32_t i = 0; i < count; i++)
            cut_links(partition, first + i, &links[i], 1);
    }
}

/* Those inside hosts; in a host of one group no link crosses. */
static void cut_hosts(struct tutti_partition *partition)
{
    uint32_t links = partition->copies.link_count;

    for (uint32_t h = 0; h < partition->copies.host_count; h++)
        if (partition->host_group[h] == BETWEEN)
            cut_between(partition, h * links, (h + 1) * links);
}

void tutti_partition_cut(struct tutti_partition *partition)
{
    const struct tutti_topo *topo = partition->topo;
    const struct tutti_spines *spines = &partition->spines;
    struct tutti_link links[2];

    count_ranks(partition);
    label_hosts(partition);
    label_switches(partition, 0, topo->node_count);
    partition->out = partition->in = tutti_wide_of(0);
    partition->between_reduces = false;
    for (uint32_t v = 0; v < topo->node_count; v++)
        if (partition->label[v] == BETWEEN && tutti_topo_node(topo, v).reduces)
            partition->between_reduces = true;
    cut_hosts(partition);
    cut_between(partition, partition->copies.host_count * partition->copies.link_count,
                spines->link_first);
    for (uint32_t l = spines->link_first; l < topo->link_count; l += 2 * spines->count) {
        (void)tutti_topo_links(topo, l, links, 2);
        cut_links(partition, l, &links[0], spines->count);
        cut_links(partition, l + 1, &links[1], spines->count);
    }
}

/* ---- hosts that are told --------------------------------------------------------------------- */

/* Where the cables of a host's NICs begin; each has two links. */
static uint32_t cables_of(const struct tutti_partition *partition, uint32_t host)
{
    const struct tutti_cluster_rule *cluster = &partition->topo->graph->rule->cluster;

    return partition->copies.host_count * partition->copies.link_count +
           2 * host * cluster->nic_count;
}

static bool is_plain(const struct tutti_partition *partition, uint32_t host)
{
    const struct tutti_topo *topo = partition->topo;
    uint32_t links = partition->copies.link_count;

    return !tutti_graph_any_changed(topo, host * links, links) &&
           !tutti_graph_any_changed(topo, cables_of(partition, host),
                                    2 * topo->graph->rule->cluster.nic_count);
}

/* A leaf switch has one cable to each host: does none have half of the rate of its leaf? */
static bool leaves_are_between(const struct tutti_partition *partition,
                               const struct tutti_told_hosts *told)
{
    const struct tutti_cluster_rule *cluster = &partition->topo->graph->rule->cluster;
    uint32_t rest = cluster->host_count % cluster->group_hosts;
    uint32_t hosts = rest > 0 ? rest : cluster->group_hosts; /* of the smallest leaf */
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;

    for (uint32_t i = 0; i < told->count; i++) {
        uint32_t first = cables_of(partition, told->host[i]);

        for (uint32_t k = 0; k < cluster->nic_count; k++) {
            uint64_t rate = tutti_topo_link(partition->topo, first + 2 * k + 1).bytes_per_s;

            least = rate < least ? rate : least;
            most = rate > most ? rate : most;
        }
    }
    return tutti_wide_less(tutti_wide_product(most, 2), tutti_wide_product(least, hosts));
}

int tutti_told_hosts_find(const struct tutti_partition *partition, struct tutti_told_hosts *ret,
                          struct tutti_err *err)
{
    struct tutti_told_hosts told = {.plain = UINT32_MAX};
    uint32_t hosts = partition->copies.host_count;
    uint32_t root = hosts > 0 ? partition->root / partition->copies.rank_count : 0;

    *ret = told;
    if (hosts == 0)
        return 0;
    told.host = malloc(hosts * sizeof(*told.host));
    if (told.host == NULL)
        return tutti_nomem(err);
    for (uint32_t h = 0; h < hosts; h++) {
        bool plain = h != root && is_plain(partition, h);

        told.plain_count += plain;
        if (plain && told.plain != UINT32_MAX)
            continue;
        if (plain)
            told.plain = h;
        told.host[told.count++] = h;
    }
    if (leaves_are_between(partition, &told))
        *ret = told;
    else
        free(told.host);
    return 0;
}

/* The groups of a told host, and the labels of what is in it. Returns how many groups there are. */
static uint32_t label_host(struct tutti_partition *partition, uint32_t host, const uint32_t *group)
{
    uint32_t ranks = partition->copies.rank_count;
    uint32_t nodes = partition->copies.node_count;
    uint32_t base = partition->kind_count;
    uint32_t count = 0;

    for (uint32_t d = 0; d < ranks; d++) {
        struct tutti_bound_group *own = &partition->groups[base + group[d]];

        if (group[d] == count) {
            *own = (struct tutti_bound_group){.count = 1, .first = host * ranks + d};
            count++;
        }
        assert(group[d] < count);
        own->rank_count++;
        own->has_root = own->has_root || host * ranks + d == partition->root;
        own->follow_count += d + 1 == ranks || group[d + 1] != group[d];
    }
    for (uint32_t v = host * nodes; v < (host + 1) * nodes; v++) {
        struct tutti_node node = tutti_topo_node(partition->topo, v);

        partition->label[v] = count == 1 ? base : BETWEEN;
        if (node.kind == TUTTI_NODE_DEVICE)
            partition->label[v] = base + group[node.rank - host * ranks];
    }
    partition->kind_count += count;
    return count;
}

/* Does a switch that reduces lie between the groups of a host? */
static bool reduces_in(const struct tutti_partition *partition, uint32_t host)
{
    uint32_t nodes = partition->copies.node_count;
    bool reduces = false;

    for (uint32_t v = host * nodes; v < (host + 1) * nodes; v++)
        reduces |= partition->label[v] == BETWEEN && tutti_topo_node(partition->topo, v).reduces;
    return reduces;
}

void tutti_partition_cut_hosts(struct tutti_partition *partition,
                               const struct tutti_told_hosts *told, const uint32_t *group)
{
    const struct tutti_cluster_rule *cluster = &partition->topo->graph->rule->cluster;
    const struct tutti_copies *copies = &partition->copies;
    struct tutti_wide out = tutti_wide_of(0);
    struct tutti_wide in = tutti_wide_of(0);

    partition->kind_count = partition->group_count = 0;
    partition->between_reduces = cluster->reduces;
    for (uint32_t v = copies->host_count * copies->node_count; v < partition->topo->node_count; v++)
        partition->label[v] = BETWEEN;
    for (uint32_t i = 0; i < told->count; i++) {
        uint32_t host = told->host[i];
        uint32_t like = host == told->plain ? told->plain_count : 1;
        uint32_t first = partition->kind_count;
        uint32_t count = label_host(partition, host, group + (size_t)i * copies->rank_count);

        label_switches(partition, host * copies->node_count, (host + 1) * copies->node_count);
        partition->out = partition->in = tutti_wide_of(0);
        cut_between(partition, host * copies->link_count, (host + 1) * copies->link_count);
        cut_between(partition, cables_of(partition, host), cables_of(partition, host + 1));
        out = tutti_wide_add(out, tutti_wide_times(partition->out, like));
        in = tutti_wide_add(in, tutti_wide_times(partition->in, like));
        for (uint32_t g = first; g < partition->kind_count; g++)
            partition->groups[g].count = like;
        partition->group_count += count * like;
        partition->between_reduces |= reduces_in(partition, host);
    }
    partition->out = out;
    partition->in = in;
}
