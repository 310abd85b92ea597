/* Changing rates and latencies of links after the freeze; see topo.h. */
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "topo/graph/graph.h"

enum { RECENT = 16 }; /* values looked at before a new one is kept */

/* All changes there will be, those of before merged with the new ones. */
struct merge {
    const struct tutti_topo *topo;
    uint64_t *bits;
    uint32_t *value;
    uint32_t count;
    struct tutti_link_value *values; /* malloc, growing */
    uint32_t value_count;
    uint32_t value_capacity;
    bool latencies;
};

/* For one value more; doubles. */
static int make_room(struct merge *merge)
{
    size_t capacity = merge->value_capacity > 0 ? (size_t)merge->value_capacity * 2 : RECENT;
    struct tutti_link_value *moved;

    if (merge->value_count < merge->value_capacity)
        return 0;
    moved = realloc(merge->values, capacity * sizeof(*moved));
    if (moved == NULL)
        return -TUTTI_ENOMEM;
    merge->values = moved;
    merge->value_capacity = (uint32_t)capacity;
    return 0;
}

static int add_value(struct merge *merge, const struct tutti_link_value *value,
                     struct tutti_err *err)
{
    uint32_t at = merge->value_count;
    uint32_t oldest = at > RECENT ? at - RECENT : 0;

    while (at > oldest && (merge->values[at - 1].bytes_per_s != value->bytes_per_s ||
                           merge->values[at - 1].latency_ps != value->latency_ps))
        at--;
    if (at == oldest) {
        if (make_room(merge) < 0)
            return tutti_nomem(err);
        merge->values[merge->value_count++] = *value;
        at = merge->value_count;
    }
    merge->value[merge->count++] = at - 1;
    return 0;
}

static int add(struct merge *merge, uint32_t link, const struct tutti_link_value *value,
               struct tutti_err *err)
{
    merge->bits[link / 64] |= UINT64_C(1) << link % 64;
    return add_value(merge, value, err);
}

/* What was changed before, of links [from, to). */
static int keep(struct merge *merge, uint32_t from, uint32_t to, struct tutti_err *err)
{
    const struct tutti_link_changes *old = merge->topo->graph->changes;
    int status = 0;

    for (uint32_t l = from; old != NULL && l < to && status == 0; l++) {
        const struct tutti_link_value *value = tutti_link_changed(old, l);

        if (value != NULL)
            status = add(merge, l, value, err);
    }
    return status;
}

static int check(const struct merge *merge, const struct tutti_link_change *change, uint32_t next,
                 struct tutti_err *err)
{
    uint32_t link = change->link;

    if (link >= merge->topo->link_count)
        return tutti_fail(err, TUTTI_EINVAL, "a change of link %u (there are %u links)", link,
                          merge->topo->link_count);
    if (link < next)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a change of link %u after one of link %u (in order, each once)", link,
                          next - 1);
    if (change->bytes_per_s == 0 || change->bytes_per_s > INT64_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "link %u changed to no rate (more than 0)", link);
    if (change->latency_ps < 0)
        return tutti_fail(err, TUTTI_EINVAL, "link %u changed to a negative latency", link);
    return 0;
}

/* The merged changes as the machine keeps them. */
static int finish(const struct merge *merge, struct tutti_topo *topo, struct tutti_err *err)
{
    size_t words = (size_t)topo->link_count / 64 + 1;
    struct tutti_graph *graph = tutti_arena_take(topo->arena, 1, sizeof(*graph));
    struct tutti_link_changes *all = tutti_arena_take(topo->arena, 1, sizeof(*all));
    uint32_t *before = tutti_arena_take(topo->arena, words, sizeof(*before));
    struct tutti_link_value *values =
        tutti_arena_take(topo->arena, merge->value_count, sizeof(*values));

    if (graph == NULL || all == NULL || before == NULL || values == NULL)
        return tutti_nomem(err);
    for (size_t w = 1; w < words; w++)
        before[w] = before[w - 1] + (uint32_t)__builtin_popcountll(merge->bits[w - 1]);
    if (merge->value_count > 0)
        memcpy(values, merge->values, merge->value_count * sizeof(*values));
    *all = (struct tutti_link_changes){.count = merge->count,
                                       .latencies = merge->latencies,
                                       .bits = merge->bits,
                                       .before = before,
                                       .value = merge->value,
                                       .value_count = merge->value_count,
                                       .values = values};
    *graph = *topo->graph;
    graph->changes = merge->count > 0 ? all : NULL;
    topo->graph = graph;
    return 0;
}

int tutti_topo_change_links(struct tutti_topo *topo, uint32_t count,
                            void (*next)(const void *context, uint32_t index,
                                         struct tutti_link_change *ret),
                            const void *context, struct tutti_err *err)
{
    const struct tutti_link_changes *old = topo->graph->changes;
    size_t most = (size_t)count + (old != NULL ? old->count : 0);
    struct merge merge = {
        .topo = topo,
        .bits = tutti_arena_take(topo->arena, (size_t)topo->link_count / 64 + 1, sizeof(uint64_t)),
        .value = tutti_arena_take(topo->arena, most, sizeof(uint32_t)),
        .latencies = old != NULL && old->latencies};
    int status = merge.bits == NULL || merge.value == NULL ? tutti_nomem(err) : 0;
    uint32_t link = 0;

    for (uint32_t i = 0; i < count && status == 0; i++) {
        struct tutti_link_change change;

        next(context, i, &change);
        status = check(&merge, &change, link, err);
        if (status == 0)
            status = keep(&merge, link, change.link, err);
        if (status == 0)
            status = add(&merge, change.link,
                         &(struct tutti_link_value){change.bytes_per_s, change.latency_ps}, err);
        merge.latencies =
            merge.latencies ||
            (status == 0 && change.latency_ps != tutti_topo_link(topo, change.link).latency_ps);
        link = change.link + 1;
    }
    if (status == 0)
        status = keep(&merge, link, topo->link_count, err);
    if (status == 0)
        status = finish(&merge, topo, err);
    free(merge.values);
    return status;
}
