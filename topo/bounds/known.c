/* Where the bounds over partitions are exact, and why.
 *
 * Star: devices round one switch that does not reduce, all links alike. All-reduce, all-gather and
 * reduce-scatter by the ring, broadcast and reduce by a pipelined chain, all-to-all and send/recv
 * directly keep every port busy with nothing but what the bound counts.
 *
 * Full mesh and grids (mesh, torus, twisted torus) of devices with links all alike, full duplex:
 *  - All-reduce: the optimum is M / tau, tau = min over partitions of (rate between the groups) /
 *    (groups - 1) (trees packed by Tutte and Nash-Williams, reduced up and broadcast down).
 *    In a connected vertex-transitive graph of degree D each group of a k-part partition has at
 *    least D links (Mader), so single devices are the worst. A product of a graph G for which that
 *    holds with a path or a ring has it too: a subgraph with v nodes in t layers has at most
 *    tau(G)(v - t) links in the layers and v - v/t between them (v in a ring if t is all layers),
 *    and that over v - 1 grows with v and t up to the whole product.
 *  - Broadcast and reduce: M over the least cut (Edmonds' arborescences), and all-gather and
 *    reduce-scatter: the largest |S| / cut(S) (ForestColl, Zhao et al. 2024). The least cut of
 *    these graphs is their least degree, so the worst S is all but one device.
 *  - All-to-all, grids without twist: routing axis by axis, both ways round where equally far,
 *    loads each link of an axis as the cut through the middle of that axis counts. Full mesh:
 *    directly.
 *
 * Up to 8 devices wired directly, at any rates: the same theorems, as the family has all cuts and
 * the best of all partitions.
 *
 * Anything else: where the rings of the machine, in their orders and by its routes, are as fast as
 * the bound (broadcast and reduce: pipelined along them), or its groups are, by rings across them
 * and exchanges inside (all-reduce, all-gather and reduce-scatter), or its routes from each rank to
 * each (all-to-all, of up to 256 ranks) or to the next (send/recv). */
#include "topo/bounds/known.h"

#include <stdlib.h>

#include "runtime/status.h"
#include "topo/bounds/family.h"
#include "topo/bounds/sample.h"
#include "topo/graph/graph.h"
#include "topo/graph/routes.h"
#include "topo/graph/rule.h"

static bool links_alike(const struct tutti_topo *topo)
{
    struct tutti_link links[TUTTI_LINK_BLOCK];

    for (uint32_t first = 0; first < topo->link_count; first += TUTTI_LINK_BLOCK) {
        uint32_t count = tutti_topo_links(topo, first, links, TUTTI_LINK_BLOCK);

        for (uint32_t i = 0; i < count; i++)
            if (links[i].bytes_per_s != tutti_topo_link(topo, 0).bytes_per_s)
                return false;
        if (topo->graph->rule != NULL && topo->graph->changes == NULL &&
            topo->graph->rule->ops == &tutti_rule_grid)
            return true; /* one cable for all */
    }
    return topo->link_count > 0;
}

/* The only other node is a switch, and every device is tied to it, once and to nothing else. */
static bool is_star(const struct tutti_topo *topo)
{
    const struct tutti_rule *rule = topo->graph->rule;

    if (topo->node_count != topo->rank_count + 1 || topo->link_count != 2 * topo->rank_count)
        return false;
    if (rule != NULL && rule->ops == &tutti_rule_tree)
        return !rule->tree.reduces;
    for (uint32_t v = 0; v < topo->node_count; v++) {
        struct tutti_node node = tutti_topo_node(topo, v);

        if (node.kind == TUTTI_NODE_DEVICE ? tutti_topo_out_count(topo, v) != 1 : node.reduces)
            return false;
    }
    for (uint32_t l = 0; l < topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(topo, l);

        if (tutti_topo_node(topo, link.from).kind == tutti_topo_node(topo, link.to).kind)
            return false;
    }
    return true;
}

/* Freeze has refused links from a node to itself and merged those of one kind between a pair; a
 * second kind would show in the count of somebody's links. */
static bool is_full(const struct tutti_topo *topo)
{
    if (topo->node_count != topo->rank_count)
        return false;
    for (uint32_t v = 0; v < topo->node_count; v++) {
        uint8_t kind = 0;

        if (tutti_topo_out_count(topo, v) != topo->node_count - 1)
            return false;
        for (uint32_t k = 0; k < topo->node_count - 1; k++) {
            struct tutti_link link = tutti_topo_link(topo, tutti_topo_out_link(topo, v, k));

            if (k > 0 && link.kind != kind)
                return false;
            kind = link.kind;
        }
    }
    return true;
}

/* Freeze has made sure that the links of a grid are there; here that there are no others. */
static bool is_grid(const struct tutti_topo *topo, bool *ret_twisted)
{
    struct tutti_routes routes = tutti_topo_routes(topo);
    uint64_t links = 0;

    if (routes.kind != TUTTI_ROUTES_GRID || topo->node_count != topo->rank_count)
        return false;
    for (uint32_t d = 0; d < topo->shape.dim_count; d++) {
        uint64_t n = topo->shape.dim[d];
        uint64_t cables = topo->shape.wrap[d] && n > 2 ? n : n - 1;

        links += 2 * cables * (topo->rank_count / n);
    }
    *ret_twisted = false;
    for (uint32_t i = 0; i < TUTTI_ROUTES_ARGS_MAX; i++)
        *ret_twisted = *ret_twisted || routes.args[i] != 0;
    return links == topo->link_count;
}

/* Up to TUTTI_FAMILY_SMALL devices wired directly, as fast there as back: the family has all cuts
 * and the best of all partitions. */
static bool is_small(const struct tutti_topo *topo)
{
    uint64_t between[TUTTI_FAMILY_SMALL][TUTTI_FAMILY_SMALL] = {{0}};

    if (topo->node_count != topo->rank_count || topo->rank_count > TUTTI_FAMILY_SMALL)
        return false;
    for (uint32_t l = 0; l < topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(topo, l);

        if (link.bytes_per_s > UINT64_MAX / (1u << TUTTI_LINK_KIND_COUNT))
            return false;
        between[link.from][link.to] += link.bytes_per_s;
    }
    for (uint32_t a = 0; a < topo->node_count; a++)
        for (uint32_t b = 0; b < a; b++)
            if (between[a][b] != between[b][a])
                return false;
    return true;
}

static bool is_proved(const struct tutti_topo *topo, enum tutti_collective collective)
{
    bool twisted = false;
    bool alike = links_alike(topo);

    if (alike && is_star(topo))
        return true;
    switch (collective) {
    case TUTTI_ALLREDUCE:
    case TUTTI_REDUCESCATTER:
    case TUTTI_ALLGATHER:
    case TUTTI_BROADCAST:
    case TUTTI_REDUCE_TO_ROOT:
        return is_small(topo) || (alike && (is_full(topo) || is_grid(topo, &twisted)));
    case TUTTI_ALLTOALL:
        return alike && (is_full(topo) || (is_grid(topo, &twisted) && !twisted));
    case TUTTI_SENDRECV:
    case TUTTI_BARRIER:
    case TUTTI_CUSTOM:
    case TUTTI_COLLECTIVE_COUNT:
        break;
    }
    return false;
}

/* ---- shown by routes ----------------------------------------------------------------------------
 */

enum {
    HOPS_MAX = 64,
    PAIRS_OF_MAX = 256, /* ranks: as many routes as that squared, a few milliseconds */
    GROUP_MAX = 256,    /* ranks of a group whose pairs are looked at */
    LEVELS_OF_MAX = 1 << 16,
};

struct uses {
    const struct tutti_topo *topo;
    const struct tutti_topo *machine; /* that, or what it is a sample of */
    uint32_t weight;                  /* of each use from now on */
    uint32_t *count;                  /* [link_count]: how often a link is used */
    double share; /* of each byte of a rank's block, bytes that cross it with each use */
    double s_per_byte_max;
};

static bool takes_longer(const struct uses *uses, uint32_t link)
{
    double rate = (double)tutti_topo_link(uses->topo, link).bytes_per_s;

    return uses->share * uses->count[link] / rate > uses->s_per_byte_max;
}

/* Counts the links from one rank to another; false: the route is too long to say, or one of its
 * links takes longer than the bound by now. */
static bool use_route(struct uses *uses, uint32_t from, uint32_t to)
{
    uint32_t links[HOPS_MAX];
    uint32_t hops = tutti_topo_route(uses->topo, from, to, links, HOPS_MAX);

    for (uint32_t h = 0; h < hops && hops <= HOPS_MAX; h++) {
        uses->count[links[h]] += uses->weight;
        if (takes_longer(uses, links[h]))
            return false;
    }
    return hops <= HOPS_MAX;
}

static uint32_t ring_count(const struct tutti_topo *topo)
{
    return topo->shape.order_count > 0 ? topo->shape.order_count : 1;
}

static bool use_rings(struct uses *uses)
{
    const struct tutti_topo *topo = uses->topo;

    for (uint32_t o = 0; o < ring_count(topo); o++) {
        const uint32_t *order =
            topo->shape.order_count > 0 ? topo->shape.orders + (size_t)o * topo->rank_count : NULL;

        for (uint32_t i = 0; i < topo->rank_count; i++) {
            uint32_t next = i + 1 < topo->rank_count ? i + 1 : 0;

            if (!use_route(uses, order != NULL ? order[i] : i, order != NULL ? order[next] : next))
                return false;
        }
    }
    return true;
}

static bool use_all_pairs(struct uses *uses)
{
    uint32_t n = uses->topo->rank_count;

    for (uint32_t from = 0; from < n; from++)
        for (uint32_t to = 0; to < n; to++)
            if (from != to && !use_route(uses, from, to))
                return false;
    return true;
}

static bool use_neighbours(struct uses *uses)
{
    uint32_t n = uses->topo->rank_count;

    for (uint32_t from = 0; from < n; from++)
        if (!use_route(uses, from, (from + 1) % n))
            return false;
    return true;
}

/* By levels: rank i of each group of g goes round a ring of all k groups, with one block of k - 1
 * others; then all in a group send each other what they have, k blocks. An all-gather; its reverse
 * is a reduce-scatter, and in chunks one does not wait for the other. */
static bool use_levels(struct uses *uses)
{
    uint32_t size = uses->machine->shape.level[0];
    uint32_t n = uses->topo->rank_count;
    uint32_t groups = uses->machine->rank_count / size;

    if (n % size != 0)
        return false;
    uses->weight = groups - 1;
    for (uint32_t r = 0; r < n; r++)
        if (!use_route(uses, r, (r + size) % n))
            return false;
    uses->weight = groups;
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t i = 1; i < size; i++)
            if (!use_route(uses, r, r / size * size + (r + i) % size))
                return false;
    return true;
}

/* Flows to host number p under some leaves go by spine p modulo the spines: with as many spines as
 * the sample has hosts, each of its first spines serves one host. */
static bool sample_has_uplinks(const struct tutti_topo *topo)
{
    return topo->graph->rule->cluster.spine_count == 0 ||
           topo->graph->rule->cluster.spine_count >= TUTTI_SAMPLE_HOSTS;
}

/* Uses of uplinks in the whole machine: spine s serves hosts s, s + spines, ... of each group, of
 * which the first host may be used otherwise than all others. */
static void spread_uses(struct uses *uses, const struct tutti_topo *machine)
{
    const struct tutti_cluster_rule *cluster = &machine->graph->rule->cluster;
    const struct tutti_cluster_rule *small = &uses->topo->graph->rule->cluster;
    uint32_t spines = cluster->spine_count;
    uint32_t *count =
        uses->count + small->host_count * (small->host.link_count + 2 * small->nic_count);

    for (uint32_t leaf = 0; leaf < small->group_count * small->nic_count; leaf++) {
        for (uint32_t way = 0; spines > 0 && way < 2; way++) {
            uint32_t *first = count + 2 * leaf * spines + way;
            uint32_t others = first[2]; /* by spine 1, to host 1 */

            *first += (cluster->group_hosts - 1) / spines * others;
            for (uint32_t s = 1; s < spines && s < cluster->group_hosts; s++)
                first[2 * s] = ((cluster->group_hosts - 1 - s) / spines + 1) * others;
        }
    }
}

/* All of a schedule goes by routes that `use` counts. Reached if no link takes longer than the
 * bound; a sample of the machine stands for it. */
static int is_reached_in(const struct tutti_topo *topo, const struct tutti_topo *machine,
                         bool (*use)(struct uses *uses), double share, double s_per_byte, bool *ret,
                         struct tutti_err *err)
{
    struct uses uses = {.topo = topo,
                        .machine = machine,
                        .weight = 1,
                        .share = share,
                        .s_per_byte_max = s_per_byte * (1 + 1e-9)};
    bool reached;

    uses.count = calloc((size_t)topo->link_count + 1, sizeof(*uses.count));
    if (uses.count == NULL)
        return tutti_nomem(err);
    reached = use(&uses);
    if (machine != topo) {
        spread_uses(&uses, machine);
        for (uint32_t l = 0; l < topo->link_count && reached; l++)
            reached = !takes_longer(&uses, l);
    }
    free(uses.count);
    *ret = reached;
    return 0;
}

static int is_reached_by(const struct tutti_topo *topo, bool (*use)(struct uses *uses),
                         double share, double s_per_byte, bool *ret, struct tutti_err *err)
{
    struct tutti_sample sample;
    int status;

    if (use == use_all_pairs || !tutti_sample_fits(topo, true) || !sample_has_uplinks(topo))
        return is_reached_in(topo, topo, use, share, s_per_byte, ret, err);
    status = tutti_sample_open(&sample, topo, err);
    if (status < 0)
        return status;
    status = is_reached_in(sample.topo, topo, use, share, s_per_byte, ret, err);
    tutti_sample_close(&sample);
    return status;
}

/* All-gather and reduce-scatter, and what is made of both. */
static int is_gathered(const struct tutti_topo *topo, double blocks, double s_per_byte, bool *ret,
                       struct tutti_err *err)
{
    const struct tutti_shape *shape = &topo->shape;
    double n = (double)topo->rank_count;
    double rings = (double)ring_count(topo);
    bool levels = shape->level_count > 1 && shape->level[0] > 1 && shape->level[0] <= GROUP_MAX &&
                  shape->level[0] < topo->rank_count;
    bool small = topo->rank_count <= LEVELS_OF_MAX || tutti_sample_fits(topo, true);
    int status = is_reached_by(topo, use_rings, blocks * (n - 1) / rings, s_per_byte, ret, err);

    if (status < 0 || *ret || !levels || !small)
        return status;
    return is_reached_by(topo, use_levels, blocks, s_per_byte, ret, err);
}

int tutti_bound_is_reached(const struct tutti_topo *topo, enum tutti_collective collective,
                           double s_per_byte, bool *ret, struct tutti_err *err)
{
    *ret = is_proved(topo, collective);
    if (*ret)
        return 0;
    switch (collective) {
    case TUTTI_ALLREDUCE:
        return is_gathered(topo, 2 / (double)topo->rank_count, s_per_byte, ret, err);
    case TUTTI_ALLGATHER:
    case TUTTI_REDUCESCATTER:
        return is_gathered(topo, 1, s_per_byte, ret, err);
    case TUTTI_BROADCAST:
    case TUTTI_REDUCE_TO_ROOT:
        return is_reached_by(topo, use_rings, 1 / (double)ring_count(topo), s_per_byte, ret, err);
    case TUTTI_ALLTOALL:
        return topo->rank_count > PAIRS_OF_MAX
                   ? 0
                   : is_reached_by(topo, use_all_pairs, 1, s_per_byte, ret, err);
    case TUTTI_SENDRECV:
        return is_reached_by(topo, use_neighbours, 1, s_per_byte, ret, err);
    default:
        return 0;
    }
}
