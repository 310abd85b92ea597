/* The partitions that are tried: any gives a valid bound, these give near ones (laminar families of
 * levels, and the axes and planes of grids). */
#include "topo/bounds/family.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "topo/bounds/least_partition.h"
#include "topo/bounds/regular.h"
#include "topo/graph/routes.h"

enum { SEEN_MAX = 4, SEEN_RANKS_MIN = 64, RATES_MAX = 8, TWIG_ROUNDS_MAX = 6 };

/* Partitions visited: another of them tells nothing. */
struct seen {
    uint32_t *group[SEEN_MAX];
    uint32_t count;
};

struct walk {
    struct tutti_partition partition;
    const struct tutti_topo *topo;
    uint32_t *parent;             /* [node_count]: union-find */
    uint32_t *number;             /* [node_count]: of a root's group, while groups are numbered */
    uint32_t *left;               /* [node_count]: neighbours not yet peeled off */
    struct seen seen;             /* [rank_count] each */
    struct tutti_told_hosts told; /* groups within hosts are found in these alone */
    uint32_t *told_group;         /* [told host * its ranks] */
    struct seen told_seen;        /* the same each */
    uint64_t between_most; /* bytes a second of the fastest link that lies in no host of copies */
    void (*visit)(const struct tutti_partition *partition, const struct tutti_family_member *member,
                  void *context);
    void *context;
};

/* Of large machines, of which levels, hosts and fast links often say the same. Without memory to
 * know, they are visited again. */
static bool was_seen(struct seen *seen, const uint32_t *group, size_t count)
{
    if (count < SEEN_RANKS_MIN)
        return false;
    for (uint32_t i = 0; i < seen->count; i++)
        if (memcmp(seen->group[i], group, count * sizeof(*group)) == 0)
            return true;
    if (seen->count == SEEN_MAX)
        return false;
    seen->group[seen->count] = malloc(count * sizeof(*group));
    if (seen->group[seen->count] != NULL)
        memcpy(seen->group[seen->count++], group, count * sizeof(*group));
    return false;
}

static void forget_seen(struct seen *seen)
{
    for (uint32_t i = 0; i < seen->count; i++)
        free(seen->group[i]);
}

static bool tells_hosts(const struct walk *walk)
{
    return walk->told.count > 0;
}

static void visit(struct walk *walk, enum tutti_family_kind kind, uint32_t index,
                  uint64_t bytes_per_s)
{
    struct tutti_family_member member = {.kind = kind, .index = index, .bytes_per_s = bytes_per_s};

    if (walk->partition.group_count < 2)
        return;
    /* Groups that lie across hosts are few where those within are told, and seldom the same. */
    if (!tells_hosts(walk) &&
        was_seen(&walk->seen, walk->partition.rank_group, walk->topo->rank_count))
        return;
    tutti_partition_cut(&walk->partition);
    walk->visit(&walk->partition, &member, walk->context);
}

/* A partition whose groups lie within hosts, as told_group says. */
static void visit_told(struct walk *walk, enum tutti_family_kind kind, uint32_t index,
                       uint64_t bytes_per_s)
{
    struct tutti_family_member member = {.kind = kind, .index = index, .bytes_per_s = bytes_per_s};
    size_t ranks = (size_t)walk->told.count * walk->partition.copies.rank_count;

    if (was_seen(&walk->told_seen, walk->told_group, ranks))
        return;
    tutti_partition_cut_hosts(&walk->partition, &walk->told, walk->told_group);
    walk->visit(&walk->partition, &member, walk->context);
}

/* So many ranks after one another, of which a host has a multiple, are a group. */
static void visit_told_blocks(struct walk *walk, enum tutti_family_kind kind, uint32_t index,
                              uint32_t size)
{
    uint32_t ranks = walk->partition.copies.rank_count;

    for (uint32_t i = 0; i < walk->told.count; i++)
        for (uint32_t d = 0; d < ranks; d++)
            walk->told_group[(size_t)i * ranks + d] = d / size;
    visit_told(walk, kind, index, 0);
}

/* ---- groups by number ------------------------------------------------------------------------ */

/* Rank r is in group (r / inner) % count, or, for lines, in that of all its other digits. */
static void by_digit(struct walk *walk, uint32_t inner, uint32_t count)
{
    for (uint32_t r = 0; r < walk->topo->rank_count; r++)
        walk->partition.rank_group[r] = r / inner % count;
    walk->partition.group_count = count;
}

static void visit_devices(struct walk *walk)
{
    if (tells_hosts(walk)) {
        visit_told_blocks(walk, TUTTI_FAMILY_DEVICES, 0, 1);
        return;
    }
    by_digit(walk, 1, walk->topo->rank_count);
    visit(walk, TUTTI_FAMILY_DEVICES, 0, 0);
}

static void visit_axes(struct walk *walk)
{
    const struct tutti_shape *shape = &walk->topo->shape;
    uint32_t *group = walk->partition.rank_group;
    uint32_t inner = 1;

    for (uint32_t d = 0; d < shape->dim_count; inner *= shape->dim[d++]) {
        uint32_t count = shape->dim[d];

        if (count < 2)
            continue;
        by_digit(walk, inner, count);
        visit(walk, TUTTI_FAMILY_PLANE, d, 0);
        for (uint32_t r = 0; r < walk->topo->rank_count; r++)
            group[r] = r / inner % count >= count / 2;
        walk->partition.group_count = 2;
        visit(walk, TUTTI_FAMILY_HALF, d, 0);
        for (uint32_t r = 0; r < walk->topo->rank_count; r++)
            group[r] = r % inner + r / inner / count * inner;
        walk->partition.group_count = walk->topo->rank_count / count;
        if (walk->partition.group_count < walk->topo->rank_count && shape->dim_count > 2)
            visit(walk, TUTTI_FAMILY_LINE, d, 0);
    }
}

static void visit_levels(struct walk *walk)
{
    const struct tutti_topo *topo = walk->topo;
    struct tutti_routes routes = tutti_topo_routes(topo);
    uint32_t inner = 1;

    for (uint32_t l = 0; l + 1 < topo->shape.level_count; l++) {
        inner *= topo->shape.level[l];
        if (inner == 1)
            continue;
        if (tells_hosts(walk) && walk->partition.copies.rank_count % inner == 0) {
            visit_told_blocks(walk, TUTTI_FAMILY_LEVEL, l, inner);
            continue;
        }
        by_digit(walk, inner, topo->rank_count / inner);
        visit(walk, TUTTI_FAMILY_LEVEL, l, 0);
    }
    if (routes.kind == TUTTI_ROUTES_CLUSTER) {
        inner = topo->rank_count / routes.args[0] * routes.args[2];
        by_digit(walk, inner, (topo->rank_count - 1) / inner + 1);
        visit(walk, TUTTI_FAMILY_LEAVES, 0, 0);
    }
}

static void visit_hosts(struct walk *walk)
{
    const struct tutti_topo *topo = walk->topo;
    uint32_t *number = walk->number;
    uint32_t count = 0;

    if (tells_hosts(walk) && walk->partition.copies.rank_count > 1)
        visit_told_blocks(walk, TUTTI_FAMILY_HOSTS, 0, walk->partition.copies.rank_count);
    if (tells_hosts(walk))
        return;
    for (uint32_t v = 0; v < topo->node_count; v++)
        number[v] = UINT32_MAX;
    for (uint32_t r = 0; r < topo->rank_count; r++) {
        uint32_t host = tutti_topo_node(topo, tutti_topo_rank_node(topo, r)).host;

        if (host == UINT32_MAX)
            return;
        if (number[host] == UINT32_MAX)
            number[host] = count++;
        walk->partition.rank_group[r] = number[host];
    }
    walk->partition.group_count = count;
    if (count < topo->rank_count)
        visit(walk, TUTTI_FAMILY_HOSTS, 0, 0);
}

/* ---- groups by what is joined --------------------------------------------------------------- */

static uint32_t find(uint32_t *parent, uint32_t v)
{
    while (parent[v] != v)
        v = parent[v] = parent[parent[v]];
    return v;
}

static void join(uint32_t *parent, uint32_t a, uint32_t b)
{
    a = find(parent, a);
    b = find(parent, b);
    parent[a < b ? b : a] = a < b ? a : b;
}

/* Numbers the joined sets that have ranks, in order of ranks. */
static void by_sets(struct walk *walk)
{
    const struct tutti_topo *topo = walk->topo;

    for (uint32_t v = 0; v < topo->node_count; v++)
        walk->number[v] = UINT32_MAX;
    walk->partition.group_count = 0;
    for (uint32_t r = 0; r < topo->rank_count; r++) {
        uint32_t root = find(walk->parent, tutti_topo_rank_node(topo, r));

        if (walk->number[root] == UINT32_MAX)
            walk->number[root] = walk->partition.group_count++;
        walk->partition.rank_group[r] = walk->number[root];
    }
}

/* Puts one more in its place; returns how many there are then. */
static uint32_t add_rate(uint64_t *rates, uint32_t count, uint64_t rate)
{
    uint32_t at = count;

    while (at > 0 && rates[at - 1] >= rate)
        at--;
    if (at == RATES_MAX || (at < count && rates[at] == rate))
        return count;
    count += count < RATES_MAX;
    for (uint32_t i = count - 1; i > at; i--)
        rates[i] = rates[i - 1];
    rates[at] = rate;
    return count;
}

/* Is the inside of a host as the rule says? One such host stands for all. */
static bool is_plain(const struct walk *walk, uint32_t host)
{
    uint32_t links = walk->partition.copies.link_count;

    return !tutti_graph_any_changed(walk->topo, host * links, links);
}

/* Links before this one lie inside hosts that are copies. */
static uint32_t first_between(const struct walk *walk)
{
    return walk->partition.copies.host_count * walk->partition.copies.link_count;
}

/* Does *first begin the links of a plain host? Then it moves on behind them. */
static bool pass_plain(const struct walk *walk, uint32_t *first)
{
    uint32_t links = walk->partition.copies.link_count;

    if (*first >= first_between(walk) || *first % links != 0 || !is_plain(walk, *first / links))
        return false;
    *first += links;
    return true;
}

/* Links from *first on, which moves on, at most to the end of a host; of alike spines only those of
 * one. Returns how many. */
static uint32_t next_links(const struct walk *walk, uint32_t *first,
                           struct tutti_link links[TUTTI_LINK_BLOCK])
{
    const struct tutti_spines *spines = &walk->partition.spines;
    bool up = *first >= spines->link_first;
    uint32_t most = up ? 2 : spines->link_first - *first;
    uint32_t count;

    if (*first < first_between(walk))
        most = walk->partition.copies.link_count - *first % walk->partition.copies.link_count;
    count = tutti_topo_links(walk->topo, *first, links,
                             most < TUTTI_LINK_BLOCK ? most : TUTTI_LINK_BLOCK);
    *first += up ? 2 * spines->count : count;
    return count;
}

/* A host whose inside is as the rule says, or host_count. */
static uint32_t first_plain(const struct walk *walk)
{
    uint32_t host = 0;

    while (host < walk->partition.copies.host_count && !is_plain(walk, host))
        host++;
    return host;
}

/* The lowest different rates, in order; returns how many. */
static uint32_t lowest_rates(struct walk *walk, uint64_t *rates)
{
    struct tutti_link links[TUTTI_LINK_BLOCK];
    uint32_t plain = first_plain(walk) * walk->partition.copies.link_count;
    uint32_t count = 0;

    walk->between_most = 0;
    for (uint32_t first = 0; first < walk->topo->link_count;) {
        bool between = first >= first_between(walk);
        uint32_t some;

        if (first > plain && pass_plain(walk, &first))
            continue;
        some = next_links(walk, &first, links);
        for (uint32_t i = 0; i < some; i++) {
            if (i > 0 && links[i].bytes_per_s == links[i - 1].bytes_per_s)
                continue;
            count = add_rate(rates, count, links[i].bytes_per_s);
            if (between && links[i].bytes_per_s > walk->between_most)
                walk->between_most = links[i].bytes_per_s;
        }
    }
    return count;
}

static void join_links(struct walk *walk, const struct tutti_link *links, uint32_t count,
                       uint64_t bytes_per_s)
{
    for (uint32_t i = 0; i < count; i++)
        if (links[i].bytes_per_s > bytes_per_s)
            join(walk->parent, links[i].from, links[i].to);
}

/* Inside plain hosts: as in the first of them. */
static void join_plain(struct walk *walk, uint64_t bytes_per_s)
{
    const struct tutti_copies *copies = &walk->partition.copies;
    struct tutti_link links[TUTTI_LINK_BLOCK];
    uint32_t plain = first_plain(walk);
    uint32_t *like = walk->parent + plain * copies->node_count;
    uint32_t first = plain * copies->link_count;

    while (plain < copies->host_count && first < (plain + 1) * copies->link_count) {
        uint32_t some = next_links(walk, &first, links);

        join_links(walk, links, some, bytes_per_s);
    }
    for (uint32_t h = plain + 1; h < copies->host_count; h++) {
        uint32_t nodes = (h - plain) * copies->node_count; /* from those to these */

        if (!is_plain(walk, h))
            continue;
        for (uint32_t i = 0; i < copies->node_count; i++)
            like[nodes + i] = like[i] + nodes;
    }
}

static void join_faster(struct walk *walk, uint64_t bytes_per_s)
{
    struct tutti_link links[TUTTI_LINK_BLOCK];
    uint32_t end = walk->topo->link_count;
    uint32_t first = 0;

    join_plain(walk, bytes_per_s);
    while (first < (bytes_per_s < walk->between_most ? end : first_between(walk))) {
        if (!pass_plain(walk, &first))
            join_links(walk, links, next_links(walk, &first, links), bytes_per_s);
    }
}

/* The sets of a told host's ranks that faster links inside it join. */
static void group_told(struct walk *walk, uint32_t told, uint64_t bytes_per_s)
{
    const struct tutti_copies *copies = &walk->partition.copies;
    uint32_t *group = walk->told_group + (size_t)told * copies->rank_count;
    uint32_t host = walk->told.host[told];
    uint32_t end = (host + 1) * copies->node_count;
    uint32_t count = 0;
    uint32_t some;

    for (uint32_t v = host * copies->node_count; v < end; v++) {
        walk->parent[v] = v;
        walk->number[v] = UINT32_MAX;
    }
    for (uint32_t l = host * copies->link_count; l < (host + 1) * copies->link_count; l += some) {
        struct tutti_link links[TUTTI_LINK_BLOCK];
        uint32_t left = (host + 1) * copies->link_count - l;

        some = tutti_topo_links(walk->topo, l, links,
                                left < TUTTI_LINK_BLOCK ? left : TUTTI_LINK_BLOCK);
        join_links(walk, links, some, bytes_per_s);
    }
    for (uint32_t d = 0; d < copies->rank_count; d++) {
        uint32_t rank = host * copies->rank_count + d;
        uint32_t root = find(walk->parent, tutti_topo_rank_node(walk->topo, rank));

        if (walk->number[root] == UINT32_MAX)
            walk->number[root] = count++;
        group[d] = walk->number[root];
    }
}

/* Where no link between hosts is faster. */
static void visit_fast_inside(struct walk *walk, uint64_t bytes_per_s)
{
    size_t ranks = walk->partition.copies.rank_count;
    bool joined = false;

    for (uint32_t i = 0; i < walk->told.count; i++) {
        group_told(walk, i, bytes_per_s);
        for (size_t d = 0; d < ranks; d++)
            joined |= walk->told_group[i * ranks + d] != d;
    }
    if (joined)
        visit_told(walk, TUTTI_FAMILY_FAST, 0, bytes_per_s);
}

static void visit_fast(struct walk *walk)
{
    const struct tutti_topo *topo = walk->topo;
    uint64_t rates[RATES_MAX];
    uint32_t rate_count = lowest_rates(walk, rates);

    for (uint32_t i = 0; i < rate_count; i++) {
        if (tells_hosts(walk) && rates[i] >= walk->between_most) {
            visit_fast_inside(walk, rates[i]);
            continue;
        }
        for (uint32_t v = 0; v < topo->node_count; v++)
            walk->parent[v] = v;
        join_faster(walk, rates[i]);
        by_sets(walk);
        if (walk->partition.group_count < topo->rank_count)
            visit(walk, TUTTI_FAMILY_FAST, 0, rates[i]);
    }
}

/* Has a node one neighbour? Hosts that are copies have as many links each. */
static bool has_twigs(const struct walk *walk)
{
    const struct tutti_copies *copies = &walk->partition.copies;
    uint32_t v = 0;

    while (v < walk->topo->node_count && tutti_topo_out_count(walk->topo, v) != 1) {
        v++;
        if (v == copies->node_count && copies->host_count > 0)
            v = copies->host_count * copies->node_count;
    }
    return v < walk->topo->node_count;
}

/* Peels off what has one neighbour left and joins it to that neighbour, round by round: in a tree
 * of switches the groups are what hangs under each. */
static void visit_twigs(struct walk *walk)
{
    const struct tutti_topo *topo = walk->topo;

    if (!has_twigs(walk))
        return;
    for (uint32_t v = 0; v < topo->node_count; v++) {
        walk->parent[v] = v;
        walk->left[v] = tutti_topo_out_count(topo, v);
    }
    for (uint32_t round = 0; round < TWIG_ROUNDS_MAX; round++) {
        uint32_t peeled = 0;

        /* number[v]: 1 for what goes in this round, so that a chain does not go in one. */
        for (uint32_t v = 0; v < topo->node_count; v++)
            walk->number[v] = walk->left[v] == 1;
        for (uint32_t v = 0; v < topo->node_count; v++) {
            uint32_t outs = walk->number[v] ? tutti_topo_out_count(topo, v) : 0;

            for (uint32_t k = 0; k < outs; k++) {
                uint32_t to = tutti_topo_link(topo, tutti_topo_out_link(topo, v, k)).to;

                if (walk->left[to] == 0)
                    continue;
                join(walk->parent, v, to);
                walk->left[to]--;
                peeled++;
            }
            if (walk->number[v])
                walk->left[v] = 0;
        }
        if (peeled == 0)
            return;
        by_sets(walk);
        if (walk->partition.group_count < topo->rank_count)
            visit(walk, TUTTI_FAMILY_TWIG, round + 1, 0);
    }
}

/* ---- all groups ----------------------------------------------------------------------------- */

/* Few devices, wired directly: each set against the rest, and of all partitions the one with the
 * least rate between the groups for each group beyond the first. */
static void visit_small(struct walk *walk)
{
    const struct tutti_topo *topo = walk->topo;
    uint32_t count = topo->rank_count;

    if (count < 2 || count > TUTTI_FAMILY_SMALL || topo->node_count != count)
        return;
    for (uint32_t set = 1; set < 1u << (count - 1); set++) {
        for (uint32_t r = 0; r < count; r++)
            walk->partition.rank_group[r] = set >> r & 1;
        walk->partition.group_count = 2;
        visit(walk, TUTTI_FAMILY_SET, 0, 0);
    }
    walk->partition.group_count = tutti_least_partition(topo, walk->partition.rank_group);
    visit(walk, TUTTI_FAMILY_SET, 0, 0);
}

/* Finds the hosts in which groups are to be looked for, if those are enough. */
static int tell_hosts(struct walk *walk, struct tutti_err *err)
{
    int status = tutti_told_hosts_find(&walk->partition, &walk->told, err);

    if (status < 0 || !tells_hosts(walk))
        return status;
    walk->told_group = malloc((size_t)walk->told.count * walk->partition.copies.rank_count *
                              sizeof(*walk->told_group));
    return walk->told_group == NULL ? tutti_nomem(err) : 0;
}

int tutti_family_visit(const struct tutti_topo *topo, uint32_t root,
                       void (*callback)(const struct tutti_partition *partition,
                                        const struct tutti_family_member *member, void *context),
                       void *context, struct tutti_err *err)
{
    struct walk walk = {.topo = topo, .visit = callback, .context = context};
    bool done = false;
    int status = tutti_regular_visit(topo, root, callback, context, &done, err);

    if (status < 0 || done)
        return status;
    status = tutti_partition_open(&walk.partition, topo, err);
    if (status < 0)
        return status;
    walk.partition.root = root;
    walk.parent = calloc(topo->node_count, sizeof(uint32_t));
    walk.number = calloc(topo->node_count, sizeof(uint32_t));
    walk.left = calloc(topo->node_count, sizeof(uint32_t));
    if (topo->graph->changes != NULL)
        status = tell_hosts(&walk, err);
    if (status == 0 && (walk.parent == NULL || walk.number == NULL || walk.left == NULL))
        status = tutti_nomem(err);
    if (status == 0) {
        visit_devices(&walk);
        visit_hosts(&walk);
        visit_levels(&walk);
        visit_axes(&walk);
        visit_fast(&walk);
        visit_twigs(&walk);
        visit_small(&walk);
    }
    forget_seen(&walk.seen);
    forget_seen(&walk.told_seen);
    free(walk.told.host);
    free(walk.told_group);
    free(walk.parent);
    free(walk.number);
    free(walk.left);
    tutti_partition_close(&walk.partition);
    return status;
}
