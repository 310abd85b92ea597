/* Freezing the links: the same pair and kind becomes one link, and each node gets its list. */
#include <assert.h>
#include <stdlib.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "topo/graph/builder.h"

struct key {
    uint32_t to;
    uint32_t kind;
    uint32_t index; /* in order of addition */
};

static int compare_keys(const void *left, const void *right)
{
    const struct key *a = left;
    const struct key *b = right;

    if (a->to != b->to)
        return a->to < b->to ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* first[v] .. first[v + 1]: where the links that leave v will stand. */
static void count_from(const struct tutti_link *links, uint32_t link_count, uint32_t *first,
                       uint32_t node_count)
{
    for (uint32_t v = 0; v <= node_count; v++)
        first[v] = 0;
    for (uint32_t l = 0; l < link_count; l++)
        first[links[l].from + 1]++;
    for (uint32_t v = 0; v < node_count; v++)
        first[v + 1] += first[v];
}

/* Adds link b to its earlier twin a; the latency of both is then the larger one. */
static int merge(const struct tutti_topo_builder *builder, struct tutti_link *a,
                 struct tutti_link *b, struct tutti_err *err)
{
    if (__builtin_add_overflow(a->bytes_per_s, b->bytes_per_s, &a->bytes_per_s) ||
        a->bytes_per_s > INT64_MAX ||
        __builtin_add_overflow(a->cable_count, b->cable_count, &a->cable_count))
        return tutti_fail(err, TUTTI_EINVAL, "links from '%s' to '%s' are too many to add up",
                          builder->nodes[a->from].name, builder->nodes[a->to].name);
    if ((uint64_t)a->burst_bytes + b->burst_bytes > TUTTI_BURST_BYTES_MAX)
        return tutti_fail(
            err, TUTTI_EINVAL, "links from '%s' to '%s' have bursts too large to add up (%u bytes)",
            builder->nodes[a->from].name, builder->nodes[a->to].name, TUTTI_BURST_BYTES_MAX);
    a->burst_bytes = (a->burst_bytes + b->burst_bytes) & TUTTI_BURST_BYTES_MAX;
    if (b->latency_ps > a->latency_ps)
        a->latency_ps = b->latency_ps;
    b->bytes_per_s = 0; /* gone */
    return 0;
}

static int merge_twins(struct tutti_topo_builder *builder, uint32_t *first, struct key *keys,
                       struct tutti_err *err)
{
    struct tutti_link *links = builder->links;

    for (uint32_t l = 0; l < builder->link_count; l++)
        keys[first[links[l].from]++] =
            (struct key){.to = links[l].to, .kind = links[l].kind, .index = l};
    /* first[v] now is the end of v's keys, so the start of v + 1's. */
    for (uint32_t v = 0; v < builder->node_count; v++) {
        uint32_t begin = v == 0 ? 0 : first[v - 1];
        uint32_t twin = begin;

        if (first[v] > begin)
            qsort(keys + begin, first[v] - begin, sizeof(*keys), compare_keys);
        for (uint32_t k = begin + 1; k < first[v]; k++) {
            int status = 0;

            if (keys[k].to == keys[twin].to && keys[k].kind == keys[twin].kind)
                status = merge(builder, &links[keys[twin].index], &links[keys[k].index], err);
            else
                twin = k;
            if (status < 0)
                return status;
        }
    }
    return 0;
}

/* Copies the links that are left to the arena and makes the lists out_first and out_links. */
static int lay_out(struct tutti_topo_builder *builder, struct tutti_topo *topo,
                   struct tutti_graph *graph, struct tutti_err *err)
{
    struct tutti_link *links;
    uint32_t *first;
    uint32_t *out;
    uint32_t count = 0;

    for (uint32_t l = 0; l < builder->link_count; l++)
        count += builder->links[l].bytes_per_s > 0;
    links = tutti_arena_take(topo->arena, count, sizeof(*links));
    first = tutti_arena_take(topo->arena, (size_t)topo->node_count + 1, sizeof(*first));
    out = tutti_arena_take(topo->arena, count, sizeof(*out));
    if (links == NULL || first == NULL || out == NULL)
        return tutti_nomem(err);
    count = 0;
    for (uint32_t l = 0; l < builder->link_count; l++)
        if (builder->links[l].bytes_per_s > 0)
            links[count++] = builder->links[l];
    for (uint32_t l = 0; l < count && !topo->has_bursts; l++)
        topo->has_bursts = links[l].burst_bytes > 0;
    count_from(links, count, first, topo->node_count);
    for (uint32_t l = 0; l < count; l++)
        out[first[links[l].from]++] = l;
    for (uint32_t v = topo->node_count; v > 0; v--)
        first[v] = first[v - 1];
    first[0] = 0;
    topo->link_count = count;
    graph->links = links;
    graph->out_first = first;
    graph->out_links = out;
    return 0;
}

int tutti_freeze_links(struct tutti_topo_builder *builder, struct tutti_topo *topo,
                       struct tutti_graph *graph, struct tutti_err *err)
{
    uint32_t *first = calloc((size_t)topo->node_count + 1, sizeof(*first));
    struct key *keys = calloc((size_t)builder->link_count + 1, sizeof(*keys));
    int status = first == NULL || keys == NULL ? tutti_nomem(err) : 0;

    assert(topo->node_count == builder->node_count);
    if (status == 0) {
        count_from(builder->links, builder->link_count, first, topo->node_count);
        status = merge_twins(builder, first, keys, err);
    }
    free(keys);
    free(first);
    return status < 0 ? status : lay_out(builder, topo, graph, err);
}
