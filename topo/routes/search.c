/* Breadth-first search backwards from one node; see search.h. Deterministic: all in index order. */
#include "topo/routes/search.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/status.h"

static bool inside(const struct tutti_route_search *search, uint32_t node)
{
    return node >= search->begin && node < search->end;
}

static bool forwards(const struct tutti_link *link)
{
    return link->kind == TUTTI_LINK_NVLINK || link->kind == TUTTI_LINK_XGMI ||
           link->kind == TUTTI_LINK_ICI || link->kind == TUTTI_LINK_GENERIC;
}

/* Counts the links of all nodes, or writes them: what leaves a node by index, what arrives by node
 * and index of its beginning. */
static void fill(struct tutti_route_search *search, bool count)
{
    const struct tutti_topo *topo = search->topo;

    for (uint32_t v = 0; v < search->end - search->begin; v++) {
        uint32_t outs = tutti_topo_out_count(topo, search->begin + v);

        for (uint32_t k = 0; k < outs; k++) {
            uint32_t l = tutti_topo_out_link(topo, search->begin + v, k);
            struct tutti_link link = tutti_topo_link(topo, l);
            struct tutti_arc arc = {
                .link = l, .bytes_per_s = link.bytes_per_s, .forwards = forwards(&link)};
            uint32_t to = link.to - search->begin;

            if (!inside(search, link.to))
                continue;
            if (count) {
                search->out_first[v + 1]++;
                search->in_first[to + 1]++;
                continue;
            }
            arc.node = to;
            search->outs[search->out_first[v]++] = arc;
            arc.node = v;
            search->ins[search->in_first[to]++] = arc;
        }
    }
}

/* After filling, first[v] has become the end of v's links, which is the first of v + 1. */
static void put_back(uint32_t *first, uint32_t count)
{
    for (uint32_t v = count; v > 0; v--)
        first[v] = first[v - 1];
    first[0] = 0;
}

static int fill_arcs(struct tutti_route_search *search, struct tutti_err *err)
{
    uint32_t count = search->end - search->begin;

    fill(search, true);
    for (uint32_t v = 0; v < count; v++) {
        search->out_first[v + 1] += search->out_first[v];
        search->in_first[v + 1] += search->in_first[v];
        search->kind[v] = tutti_topo_node(search->topo, search->begin + v).kind;
    }
    search->outs = calloc((size_t)search->out_first[count] + 1, sizeof(*search->outs));
    search->ins = calloc((size_t)search->out_first[count] + 1, sizeof(*search->ins));
    if (search->outs == NULL || search->ins == NULL)
        return tutti_nomem(err);
    fill(search, false);
    put_back(search->out_first, count);
    put_back(search->in_first, count);
    return 0;
}

int tutti_route_search_open(struct tutti_route_search *search, const struct tutti_topo *topo,
                            uint32_t begin, uint32_t end, struct tutti_err *err)
{
    size_t nodes = end - begin;
    int status = 0;

    *search =
        (struct tutti_route_search){.topo = topo, .begin = begin, .end = end, .nics_forward = true};
    search->kind = calloc(nodes + 1, sizeof(*search->kind));
    search->out_first = calloc(nodes + 1, sizeof(uint32_t));
    search->in_first = calloc(nodes + 1, sizeof(uint32_t));
    search->queue = calloc(nodes + 1, sizeof(uint32_t));
    search->hops = calloc(nodes + 1, sizeof(uint32_t));
    search->next = calloc(nodes + 1, sizeof(uint32_t));
    search->width = calloc(nodes + 1, sizeof(uint64_t));
    if (search->kind == NULL || search->out_first == NULL || search->in_first == NULL ||
        search->queue == NULL || search->hops == NULL || search->next == NULL ||
        search->width == NULL)
        status = tutti_nomem(err);
    if (status == 0)
        status = fill_arcs(search, err);
    if (status < 0)
        tutti_route_search_close(search);
    return status;
}

void tutti_route_search_close(struct tutti_route_search *search)
{
    free(search->kind);
    free(search->out_first);
    free(search->in_first);
    free(search->outs);
    free(search->ins);
    free(search->queue);
    free(search->hops);
    free(search->next);
    free(search->width);
    *search = (struct tutti_route_search){0};
}

/* May what arrives at `node` over `arc` go on from there? */
static bool passes(const struct tutti_route_search *search, const struct tutti_arc *arc,
                   uint32_t node, bool devices_forward)
{
    switch ((enum tutti_node_kind)search->kind[node]) {
    case TUTTI_NODE_DEVICE:
        return devices_forward && arc->forwards;
    case TUTTI_NODE_NIC:
        return search->nics_forward;
    default:
        return true;
    }
}

/* Which link out of a node is a step on a shortest way, and the widest of those? */
static uint32_t best_link(const struct tutti_route_search *search, uint32_t from, bool as_origin,
                          uint64_t *ret_width)
{
    uint32_t target = search->queue[0];
    bool device = search->kind[from] == TUTTI_NODE_DEVICE;
    uint32_t best = UINT32_MAX;
    uint32_t best_hops = UINT32_MAX;

    *ret_width = 0;
    for (uint32_t k = search->out_first[from]; k < search->out_first[from + 1]; k++) {
        const struct tutti_arc *arc = &search->outs[k];
        uint32_t hops = search->hops[arc->node];
        uint64_t width;

        /* hops of a device that does not forward are UINT32_MAX already, unless it is the end. */
        if (hops == UINT32_MAX || hops > best_hops || (device && !as_origin && !arc->forwards) ||
            (arc->node != target && !passes(search, arc, arc->node, true)))
            continue;
        width = search->width[arc->node];
        width = arc->bytes_per_s < width ? arc->bytes_per_s : width;
        if (hops < best_hops || width > *ret_width) {
            best = arc->link;
            best_hops = hops;
            *ret_width = width;
        }
    }
    return best;
}

/* Puts v in the queue behind all that are nearer. */
static void reach(struct tutti_route_search *search, uint32_t v, uint32_t hops)
{
    search->hops[v] = hops;
    search->queue[search->reached++] = v;
}

void tutti_route_search_to(struct tutti_route_search *search, uint32_t to, bool devices_forward)
{
    assert(inside(search, to));
    for (uint32_t v = 0; v < search->end - search->begin; v++)
        search->hops[v] = search->next[v] = UINT32_MAX;
    search->reached = 0;
    reach(search, to - search->begin, 0);
    search->width[to - search->begin] = UINT64_MAX;
    for (uint32_t q = 0; q < search->reached; q++) {
        uint32_t w = search->queue[q];

        if (q > 0)
            search->next[w] = best_link(search, w, false, &search->width[w]);
        for (uint32_t k = search->in_first[w]; k < search->in_first[w + 1]; k++) {
            const struct tutti_arc *arc = &search->ins[k];
            uint8_t kind = search->kind[arc->node];

            if (search->hops[arc->node] != UINT32_MAX ||
                (kind == TUTTI_NODE_DEVICE && (!devices_forward || !arc->forwards)) ||
                (kind == TUTTI_NODE_NIC && !search->nics_forward) ||
                (q > 0 && !passes(search, arc, w, devices_forward)))
                continue;
            reach(search, arc->node, search->hops[w] + 1);
        }
    }
}

uint32_t tutti_route_search_first(const struct tutti_route_search *search, uint32_t from)
{
    uint64_t width;

    return best_link(search, from - search->begin, true, &width);
}
