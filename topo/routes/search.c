/* Breadth-first search backwards from one node; see search.h. Deterministic: all in index order. */
#include "topo/routes/search.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/status.h"

static bool inside(const struct tutti_search *search, uint32_t node)
{
    return node >= search->begin && node < search->end;
}

static bool forwards(const struct tutti_link *link)
{
    return link->kind == TUTTI_LINK_NVLINK || link->kind == TUTTI_LINK_XGMI ||
           link->kind == TUTTI_LINK_ICI || link->kind == TUTTI_LINK_GENERIC;
}

static void fill_in_links(struct tutti_search *search)
{
    const struct tutti_topo *topo = search->topo;
    uint32_t count = search->end - search->begin;
    uint32_t *first = search->in_first;

    for (uint32_t v = search->begin; v < search->end; v++)
        for (uint32_t k = topo->out_first[v]; k < topo->out_first[v + 1]; k++)
            if (inside(search, topo->links[topo->out_links[k]].to))
                first[topo->links[topo->out_links[k]].to - search->begin + 1]++;
    for (uint32_t v = 0; v < count; v++)
        first[v + 1] += first[v];
    for (uint32_t v = search->begin; v < search->end; v++) {
        for (uint32_t k = topo->out_first[v]; k < topo->out_first[v + 1]; k++) {
            uint32_t l = topo->out_links[k];

            if (inside(search, topo->links[l].to))
                search->in_links[first[topo->links[l].to - search->begin]++] = l;
        }
    }
    for (uint32_t v = count; v > 0; v--)
        first[v] = first[v - 1];
    first[0] = 0;
}

int tutti_search_open(struct tutti_search *search, const struct tutti_topo *topo, uint32_t begin,
                      uint32_t end, struct tutti_err *err)
{
    size_t nodes = end - begin;
    size_t links = topo->out_first[end] - topo->out_first[begin];

    *search = (struct tutti_search){.topo = topo, .begin = begin, .end = end, .nics_forward = true};
    search->in_first = calloc(nodes + 1, sizeof(uint32_t));
    search->in_links = calloc(links + 1, sizeof(uint32_t));
    search->queue = calloc(nodes + 1, sizeof(uint32_t));
    search->hops = calloc(nodes + 1, sizeof(uint32_t));
    search->next = calloc(nodes + 1, sizeof(uint32_t));
    search->width = calloc(nodes + 1, sizeof(uint64_t));
    if (search->in_first == NULL || search->in_links == NULL || search->queue == NULL ||
        search->hops == NULL || search->next == NULL || search->width == NULL) {
        tutti_search_close(search);
        return tutti_nomem(err);
    }
    fill_in_links(search);
    return 0;
}

void tutti_search_close(struct tutti_search *search)
{
    free(search->in_first);
    free(search->in_links);
    free(search->queue);
    free(search->hops);
    free(search->next);
    free(search->width);
    *search = (struct tutti_search){0};
}

/* May what arrives at the far end of `link` go on from there? The far end was reached over links
 * that it may pass on to. */
static bool passes(const struct tutti_search *search, const struct tutti_link *link,
                   bool devices_forward)
{
    switch ((enum tutti_node_kind)search->topo->nodes[link->to].kind) {
    case TUTTI_NODE_DEVICE:
        return devices_forward && forwards(link);
    case TUTTI_NODE_NIC:
        return search->nics_forward;
    default:
        return true;
    }
}

/* Is this link, out of a node, a step on a shortest way, and which is the widest of those? */
static uint32_t best_link(const struct tutti_search *search, uint32_t from, bool as_origin,
                          uint64_t *ret_width)
{
    const struct tutti_topo *topo = search->topo;
    uint32_t target = search->queue[0];
    bool device = topo->nodes[from].kind == TUTTI_NODE_DEVICE;
    uint32_t best = UINT32_MAX;
    uint32_t best_hops = UINT32_MAX;

    *ret_width = 0;
    for (uint32_t k = topo->out_first[from]; k < topo->out_first[from + 1]; k++) {
        const struct tutti_link *link = &topo->links[topo->out_links[k]];
        uint32_t hops;
        uint64_t width;

        if (!inside(search, link->to) || (device && !as_origin && !forwards(link)))
            continue;
        /* hops of a device that does not forward are UINT32_MAX already, unless it is the end. */
        hops = search->hops[link->to - search->begin];
        if (hops == UINT32_MAX || (link->to != target && !passes(search, link, true)))
            continue;
        width = search->width[link->to - search->begin];
        width = link->bytes_per_s < width ? link->bytes_per_s : width;
        if (hops < best_hops || (hops == best_hops && width > *ret_width)) {
            best = topo->out_links[k];
            best_hops = hops;
            *ret_width = width;
        }
    }
    return best;
}

/* Puts v in the queue behind all that are nearer. */
static void reach(struct tutti_search *search, uint32_t v, uint32_t hops)
{
    search->hops[v - search->begin] = hops;
    search->queue[search->reached++] = v;
}

void tutti_search_to(struct tutti_search *search, uint32_t to, bool devices_forward)
{
    const struct tutti_topo *topo = search->topo;

    assert(inside(search, to));
    for (uint32_t v = 0; v < search->end - search->begin; v++)
        search->hops[v] = search->next[v] = UINT32_MAX;
    search->reached = 0;
    reach(search, to, 0);
    search->width[to - search->begin] = UINT64_MAX;
    for (uint32_t q = 0; q < search->reached; q++) {
        uint32_t w = search->queue[q];
        uint32_t at = w - search->begin;

        if (q > 0)
            search->next[at] = best_link(search, w, false, &search->width[at]);
        for (uint32_t k = search->in_first[at]; k < search->in_first[at + 1]; k++) {
            const struct tutti_link *link = &topo->links[search->in_links[k]];
            uint32_t v = link->from;
            uint8_t kind = topo->nodes[v].kind;

            if (search->hops[v - search->begin] != UINT32_MAX ||
                (kind == TUTTI_NODE_DEVICE && (!devices_forward || !forwards(link))) ||
                (kind == TUTTI_NODE_NIC && !search->nics_forward) ||
                (w != to && !passes(search, link, devices_forward)))
                continue;
            reach(search, v, search->hops[at] + 1);
        }
    }
}

uint32_t tutti_search_first(const struct tutti_search *search, uint32_t from)
{
    uint64_t width;

    return best_link(search, from, true, &width);
}
