/* Maximum flows by Dinic's algorithm: blocking flows over levels of a breadth-first search. */
#include "topo/bounds/max_flow.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/status.h"

int tutti_max_flow_open(struct tutti_max_flow *flow, uint32_t node_count, uint32_t pair_count,
                        struct tutti_err *err)
{
    *flow = (struct tutti_max_flow){.node_count = node_count, .arc_capacity = 2 * pair_count};
    flow->arcs = calloc((size_t)flow->arc_capacity + 1, sizeof(*flow->arcs));
    flow->first = calloc(node_count, sizeof(uint32_t));
    flow->level = calloc(node_count, sizeof(uint32_t));
    flow->at = calloc(node_count, sizeof(uint32_t));
    flow->queue = calloc(node_count, sizeof(uint32_t));
    flow->path = calloc(node_count, sizeof(uint32_t));
    if (flow->arcs == NULL || flow->first == NULL || flow->level == NULL || flow->at == NULL ||
        flow->queue == NULL || flow->path == NULL) {
        tutti_max_flow_close(flow);
        return tutti_nomem(err);
    }
    tutti_max_flow_clear(flow);
    return 0;
}

void tutti_max_flow_close(struct tutti_max_flow *flow)
{
    free(flow->arcs);
    free(flow->first);
    free(flow->level);
    free(flow->at);
    free(flow->queue);
    free(flow->path);
    *flow = (struct tutti_max_flow){.node_count = 0};
}

void tutti_max_flow_clear(struct tutti_max_flow *flow)
{
    flow->arc_count = 0;
    for (uint32_t v = 0; v < flow->node_count; v++)
        flow->first[v] = TUTTI_MAX_FLOW_NONE;
}

static void put_arc(struct tutti_max_flow *flow, uint32_t from, uint32_t to, struct tutti_wide most)
{
    assert(flow->arc_count < flow->arc_capacity);
    flow->arcs[flow->arc_count] = (struct tutti_max_flow_arc){
        .from = from, .to = to, .next = flow->first[from], .most = most};
    flow->first[from] = flow->arc_count++;
}

uint32_t tutti_max_flow_add(struct tutti_max_flow *flow, uint32_t from, uint32_t to,
                            struct tutti_wide most, struct tutti_wide back)
{
    put_arc(flow, from, to, most);
    put_arc(flow, to, from, back);
    return flow->arc_count - 2;
}

/* Numbers the nodes by their distance over arcs that have something left; is `to` among them? */
static bool find_levels(struct tutti_max_flow *flow, uint32_t from, uint32_t to)
{
    uint32_t head = 0;
    uint32_t count = 0;

    for (uint32_t v = 0; v < flow->node_count; v++) {
        flow->level[v] = TUTTI_MAX_FLOW_NONE;
        flow->at[v] = flow->first[v];
    }
    flow->level[from] = 0;
    flow->queue[count++] = from;
    while (head < count) {
        uint32_t v = flow->queue[head++];

        for (uint32_t e = flow->first[v]; e != TUTTI_MAX_FLOW_NONE; e = flow->arcs[e].next) {
            const struct tutti_max_flow_arc *arc = &flow->arcs[e];

            if (tutti_wide_is_zero(arc->left) || flow->level[arc->to] != TUTTI_MAX_FLOW_NONE)
                continue;
            flow->level[arc->to] = flow->level[v] + 1;
            flow->queue[count++] = arc->to;
        }
    }
    return flow->level[to] != TUTTI_MAX_FLOW_NONE;
}

/* Fills the path; returns how much went along, and in *depth how far the path is still open. */
static struct tutti_wide fill_path(struct tutti_max_flow *flow, uint32_t *depth)
{
    struct tutti_wide least = flow->arcs[flow->path[0]].left;
    uint32_t open = *depth;

    for (uint32_t i = 1; i < *depth; i++)
        if (tutti_wide_less(flow->arcs[flow->path[i]].left, least))
            least = flow->arcs[flow->path[i]].left;
    for (uint32_t i = *depth; i-- > 0;) {
        struct tutti_max_flow_arc *arc = &flow->arcs[flow->path[i]];
        struct tutti_max_flow_arc *back = &flow->arcs[flow->path[i] ^ 1];

        arc->left = tutti_wide_subtract(arc->left, least);
        back->left = tutti_wide_add(back->left, least);
        open = tutti_wide_is_zero(arc->left) ? i : open;
    }
    *depth = open;
    return least;
}

/* Sends along the levels until no path is left. */
static struct tutti_wide block_levels(struct tutti_max_flow *flow, uint32_t from, uint32_t to)
{
    struct tutti_wide sum = {.high = 0};
    uint32_t depth = 0;

    for (;;) {
        uint32_t v = depth == 0 ? from : flow->arcs[flow->path[depth - 1]].to;
        uint32_t e = flow->at[v];

        if (v == to) {
            sum = tutti_wide_add(sum, fill_path(flow, &depth));
            continue;
        }
        while (e != TUTTI_MAX_FLOW_NONE && (tutti_wide_is_zero(flow->arcs[e].left) ||
                                            flow->level[flow->arcs[e].to] != flow->level[v] + 1))
            e = flow->arcs[e].next;
        flow->at[v] = e;
        if (e != TUTTI_MAX_FLOW_NONE)
            flow->path[depth++] = e;
        else if (depth == 0)
            return sum;
        else
            flow->level[flow->arcs[flow->path[--depth]].to] = TUTTI_MAX_FLOW_NONE; /* a dead end */
    }
}

struct tutti_wide tutti_max_flow_between(struct tutti_max_flow *flow, uint32_t from, uint32_t to)
{
    struct tutti_wide sum = {.high = 0};

    assert(from != to);
    for (uint32_t e = 0; e < flow->arc_count; e++)
        flow->arcs[e].left = flow->arcs[e].most;
    while (find_levels(flow, from, to))
        sum = tutti_wide_add(sum, block_levels(flow, from, to));
    return sum;
}
