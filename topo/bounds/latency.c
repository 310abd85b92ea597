/* Latency bounds: Dijkstra from a few ranks, each as far as possible from the one before. */
#include "topo/bounds/latency.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "topo/bounds/sample.h"
#include "topo/graph/graph.h"
#include "topo/graph/rule.h"

enum { SWEEPS = 4 };

/* What is farther is as far as this: still a bound, and not INT64_MAX, which is out of reach. */
static const tutti_ps FARTHEST_PS = INT64_MAX - 1;

struct entry {
    tutti_ps far_ps;
    uint32_t node;
};

struct search {
    const struct tutti_topo *topo;
    tutti_ps *far_ps;   /* [node_count] */
    struct entry *heap; /* [link_count + 1], at most one entry a link */
    uint32_t heap_count;
    bool alike;          /* all links have the same latency: */
    uint32_t queue_head; /* then the heap is a queue that begins here */
};

static bool latencies_alike(const struct tutti_topo *topo)
{
    struct tutti_link links[TUTTI_LINK_BLOCK];

    for (uint32_t first = 0; first < topo->link_count; first += TUTTI_LINK_BLOCK) {
        uint32_t count = tutti_topo_links(topo, first, links, TUTTI_LINK_BLOCK);

        for (uint32_t i = 0; i < count; i++)
            if (links[i].latency_ps != tutti_topo_link(topo, 0).latency_ps)
                return false;
    }
    return true;
}

static void push(struct search *search, uint32_t node, tutti_ps far_ps)
{
    uint32_t at = search->heap_count++;

    /* Of a queue the last is the farthest: it stays where it is. */
    for (; !search->alike && at > 0 && search->heap[(at - 1) / 2].far_ps > far_ps;
         at = (at - 1) / 2)
        search->heap[at] = search->heap[(at - 1) / 2];
    search->heap[at] = (struct entry){.far_ps = far_ps, .node = node};
}

static struct entry pop(struct search *search)
{
    struct entry first = search->heap[0];
    struct entry last = search->heap[--search->heap_count];
    uint32_t at = 0;

    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child + 1 < search->heap_count &&
            search->heap[child + 1].far_ps < search->heap[child].far_ps)
            child++;
        if (child >= search->heap_count || search->heap[child].far_ps >= last.far_ps)
            break;
        search->heap[at] = search->heap[child];
        at = child;
    }
    search->heap[at] = last;
    return first;
}

static void search_from(struct search *search, uint32_t rank)
{
    const struct tutti_topo *topo = search->topo;

    for (uint32_t v = 0; v < topo->node_count; v++)
        search->far_ps[v] = INT64_MAX;
    search->heap_count = search->queue_head = 0;
    search->far_ps[tutti_topo_rank_node(topo, rank)] = 0;
    push(search, tutti_topo_rank_node(topo, rank), 0);
    while (search->queue_head < search->heap_count) {
        struct entry entry = search->alike ? search->heap[search->queue_head++] : pop(search);

        if (entry.far_ps > search->far_ps[entry.node])
            continue;
        for (uint32_t k = 0; k < tutti_topo_out_count(topo, entry.node); k++) {
            struct tutti_link link =
                tutti_topo_link(topo, tutti_topo_out_link(topo, entry.node, k));
            tutti_ps far_ps = link.latency_ps < FARTHEST_PS - entry.far_ps
                                  ? entry.far_ps + link.latency_ps
                                  : FARTHEST_PS;

            if (far_ps >= search->far_ps[link.to])
                continue;
            search->far_ps[link.to] = far_ps;
            push(search, link.to, far_ps);
        }
    }
}

static void consider(const struct search *search, uint32_t from, uint32_t to,
                     struct tutti_latency *best)
{
    tutti_ps far_ps = search->far_ps[tutti_topo_rank_node(search->topo, to)];

    if (far_ps != INT64_MAX && far_ps > best->latency_ps)
        *best = (struct tutti_latency){.latency_ps = far_ps, .from = from, .to = to};
}

static uint32_t farthest_rank(const struct search *search)
{
    const struct tutti_topo *topo = search->topo;
    uint32_t best = 0;

    for (uint32_t r = 1; r < topo->rank_count; r++)
        if (search->far_ps[tutti_topo_rank_node(topo, r)] >
            search->far_ps[tutti_topo_rank_node(topo, best)])
            best = r;
    return best;
}

/* Every rank must hear of every other: the diameter, or nearly so. */
static void of_all(struct search *search, struct tutti_latency *best)
{
    uint32_t from = 0;

    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        tutti_ps before_ps = best->latency_ps;
        uint32_t to;

        search_from(search, from);
        to = farthest_rank(search);
        consider(search, from, to, best);
        if (best->latency_ps == before_ps)
            return; /* as far from there as from the last: it will go back and forth */
        from = to;
    }
}

static void of_root(struct search *search, uint32_t root, bool to_root, struct tutti_latency *best)
{
    uint32_t rank;

    search_from(search, root);
    rank = farthest_rank(search);
    if (!to_root) {
        consider(search, root, rank, best);
        return;
    }
    search_from(search, rank);
    consider(search, rank, root, best);
}

/* Rank r sends to rank r + 1: the first pair, the first across a level, the pair that closes. */
static void of_next(struct search *search, struct tutti_latency *best)
{
    const struct tutti_shape *shape = &search->topo->shape;
    uint32_t rank_count = search->topo->rank_count;
    uint64_t inner = 1;

    search_from(search, 0);
    consider(search, 0, 1 % rank_count, best);
    search_from(search, rank_count - 1);
    consider(search, rank_count - 1, 0, best);
    for (uint32_t l = 0; l + 1 < shape->level_count; l++) {
        inner *= shape->level[l];
        search_from(search, (uint32_t)inner - 1);
        consider(search, (uint32_t)inner - 1, (uint32_t)inner % rank_count, best);
    }
}

static int search_all(const struct tutti_topo *topo, enum tutti_collective collective,
                      uint32_t root, struct tutti_latency *ret, struct tutti_err *err)
{
    struct search search = {.topo = topo, .alike = latencies_alike(topo)};
    struct tutti_latency best = {0};

    search.far_ps = calloc(topo->node_count, sizeof(*search.far_ps));
    search.heap = calloc((size_t)topo->link_count + 1, sizeof(*search.heap));
    if (search.far_ps == NULL || search.heap == NULL) {
        free(search.far_ps);
        free(search.heap);
        return tutti_nomem(err);
    }
    switch (collective) {
    case TUTTI_BROADCAST:
    case TUTTI_REDUCE_TO_ROOT:
        of_root(&search, root, collective == TUTTI_REDUCE_TO_ROOT, &best);
        break;
    case TUTTI_SENDRECV:
        of_next(&search, &best);
        break;
    default:
        of_all(&search, &best);
        break;
    }
    free(search.far_ps);
    free(search.heap);
    *ret = best;
    return 0;
}

/* ---- machines that follow a rule ------------------------------------------------------------- */

/* No way is too long to say. */
static bool grid_is_short(const struct tutti_rule *rule)
{
    return rule->grid.cable.latency_ps < FARTHEST_PS / (tutti_ps)rule->rank_count;
}

/* In a grid of rings, links all as slow: the sum of the shorter ways round. */
static tutti_ps grid_distance(const struct tutti_grid_rule *grid, uint32_t from, uint32_t to)
{
    uint64_t hops = 0;

    for (uint32_t a = 0; a < grid->axis_count; a++) {
        uint32_t n = grid->length[a];
        uint32_t x = from / grid->stride[a] % n;
        uint32_t y = to / grid->stride[a] % n;
        uint32_t up = y >= x ? y - x : y + n - x;

        hops += up <= n - up ? up : n - up;
    }
    return (tutti_ps)hops * grid->cable.latency_ps;
}

/* The lowest of those as far as can be. */
static uint32_t grid_farthest(const struct tutti_grid_rule *grid, uint32_t from)
{
    uint32_t to = 0;

    for (uint32_t a = 0; a < grid->axis_count; a++) {
        uint32_t n = grid->length[a];
        uint32_t x = from / grid->stride[a] % n;
        uint32_t one = (x + n / 2) % n;
        uint32_t other = (x + n - n / 2) % n;

        to += (one < other ? one : other) * grid->stride[a];
    }
    return grid->cable.latency_ps > 0 ? to : 0;
}

static void keep_longer(const struct tutti_grid_rule *grid, uint32_t from, uint32_t to,
                        struct tutti_latency *best)
{
    tutti_ps far_ps = grid_distance(grid, from, to);

    if (far_ps > best->latency_ps)
        *best = (struct tutti_latency){.latency_ps = far_ps, .from = from, .to = to};
}

/* All ranks look alike, so one search would do for all, and none is needed. */
static struct tutti_latency grid_latency(const struct tutti_rule *rule,
                                         enum tutti_collective collective, uint32_t root)
{
    const struct tutti_grid_rule *grid = &rule->grid;
    struct tutti_latency best = {0};

    switch (collective) {
    case TUTTI_BROADCAST:
        keep_longer(grid, root, grid_farthest(grid, root), &best);
        break;
    case TUTTI_REDUCE_TO_ROOT:
        keep_longer(grid, grid_farthest(grid, root), root, &best);
        break;
    case TUTTI_SENDRECV:
        keep_longer(grid, 0, 1, &best);
        keep_longer(grid, rule->rank_count - 1, 0, &best);
        break;
    default:
        keep_longer(grid, 0, grid_farthest(grid, 0), &best);
        break;
    }
    return best;
}

/* Opposite corners are the farthest; the last rank and the first are such. */
static struct tutti_latency cube_latency(const struct tutti_rule *rule,
                                         enum tutti_collective collective, uint32_t root)
{
    const uint32_t corners = rule->rank_count - 1;
    uint32_t from = collective == TUTTI_BROADCAST        ? root
                    : collective == TUTTI_REDUCE_TO_ROOT ? root ^ corners
                    : collective == TUTTI_SENDRECV       ? corners
                                                         : 0;

    if (rule->cube.cable.latency_ps == 0)
        return (struct tutti_latency){0};
    return (struct tutti_latency){.latency_ps = rule->cube.dim_count * rule->cube.cable.latency_ps,
                                  .from = from,
                                  .to = from ^ corners};
}

static bool cube_is_short(const struct tutti_rule *rule)
{
    return rule->cube.cable.latency_ps <= INT64_MAX / 64;
}

static int sampled(const struct tutti_topo *topo, enum tutti_collective collective, uint32_t root,
                   struct tutti_latency *ret, struct tutti_err *err)
{
    bool rooted = tutti_collective_is_rooted(collective);
    struct tutti_sample sample;
    int status = tutti_sample_open(&sample, topo, err);

    if (status < 0)
        return status;
    sample.root = rooted ? root : collective == TUTTI_SENDRECV ? topo->rank_count - 1 : 0;
    status = search_all(sample.topo, collective, tutti_sample_of_rank(&sample, root), ret, err);
    if (status == 0) {
        ret->from = tutti_sample_rank(&sample, ret->from);
        ret->to = tutti_sample_rank(&sample, ret->to);
    }
    tutti_sample_close(&sample);
    return status;
}

int tutti_latency_bound(const struct tutti_topo *topo, enum tutti_collective collective,
                        uint32_t root, struct tutti_latency *ret, struct tutti_err *err)
{
    const struct tutti_graph *graph = topo->graph;
    bool by_rule = graph->rule != NULL && (graph->changes == NULL || !graph->changes->latencies);

    if (by_rule && graph->rule->ops == &tutti_rule_grid && grid_is_short(graph->rule)) {
        *ret = grid_latency(graph->rule, collective, root);
        return 0;
    }
    if (by_rule && graph->rule->ops == &tutti_rule_cube && cube_is_short(graph->rule)) {
        *ret = cube_latency(graph->rule, collective, root);
        return 0;
    }
    if (tutti_sample_fits(topo, false))
        return sampled(topo, collective, root, ret, err);
    return search_all(topo, collective, root, ret, err);
}
