/* Links that are alike, counted; see tutti_topo_link_classes(). */
#include <assert.h>

#include "topo/graph/graph.h"
#include "topo/graph/rule.h"

/* What links of a class have in common. */
struct likeness {
    struct tutti_link link;
    uint8_t from; /* enum tutti_node_kind of its ends */
    uint8_t to;
};

struct sorter {
    const struct tutti_topo *topo;
    struct tutti_link_class *classes;
    uint32_t capacity;
    uint32_t count;
    uint32_t more;
    struct likeness likenesses[TUTTI_LINK_CLASSES_MAX];
};

static bool are_alike(const struct likeness *a, const struct likeness *b)
{
    return a->link.kind == b->link.kind && a->link.bytes_per_s == b->link.bytes_per_s &&
           a->link.latency_ps == b->link.latency_ps && a->link.cable_count == b->link.cable_count &&
           a->link.burst_bytes == b->link.burst_bytes && a->from == b->from && a->to == b->to;
}

/* Counts `count` links like this one, the lowest of them. */
static void add(struct sorter *sorter, uint32_t index, const struct tutti_link *link,
                uint32_t count)
{
    struct likeness likeness = {.link = *link,
                                .from = tutti_topo_node(sorter->topo, link->from).kind,
                                .to = tutti_topo_node(sorter->topo, link->to).kind};
    uint32_t c = 0;

    while (c < sorter->count && !are_alike(&sorter->likenesses[c], &likeness))
        c++;
    if (c < sorter->count) {
        struct tutti_link_class *class = &sorter->classes[c];

        class->count += count;
        class->first = index < class->first ? index : class->first;
    } else if (c < sorter->capacity) {
        sorter->likenesses[c] = likeness;
        sorter->classes[sorter->count++] =
            (struct tutti_link_class){.first = index, .count = count};
    } else {
        sorter->more += count;
    }
}

static void add_one_by_one(struct sorter *sorter)
{
    struct tutti_link links[TUTTI_LINK_BLOCK];

    for (uint32_t first = 0; first < sorter->topo->link_count; first += TUTTI_LINK_BLOCK) {
        uint32_t count = tutti_topo_links(sorter->topo, first, links, TUTTI_LINK_BLOCK);

        for (uint32_t i = 0; i < count; i++)
            add(sorter, first + i, &links[i], 1);
    }
}

/* Changed links of a class of the rule by themselves, and all others together. */
static void add_rule_class(struct sorter *sorter, const struct tutti_rule_class *class)
{
    const struct tutti_link_changes *changes = sorter->topo->graph->changes;
    uint32_t first = changes == NULL ? class->first : UINT32_MAX;
    uint32_t count = changes == NULL ? class->count : 0;

    for (uint32_t begin = class->first, done = 0; changes != NULL && done < class->count;
         begin += class->stride) {
        for (uint32_t i = 0; i < class->run; i++, done++) {
            uint32_t l = begin + i * class->step;

            if (tutti_link_changed(changes, l) != NULL) {
                struct tutti_link link = tutti_topo_link(sorter->topo, l);

                add(sorter, l, &link, 1);
                continue;
            }
            first = first == UINT32_MAX ? l : first;
            count++;
        }
    }
    if (count > 0) {
        struct tutti_link link = tutti_topo_link(sorter->topo, first);

        add(sorter, first, &link, count);
    }
}

static void sort_by_first(struct tutti_link_class *classes, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        struct tutti_link_class class = classes[i];
        uint32_t at = i;

        for (; at > 0 && classes[at - 1].first > class.first; at--)
            classes[at] = classes[at - 1];
        classes[at] = class;
    }
}

uint32_t tutti_topo_link_classes(const struct tutti_topo *topo, struct tutti_link_class *classes,
                                 uint32_t capacity, uint32_t *ret_more)
{
    const struct tutti_rule *rule = topo->graph->rule;
    struct sorter sorter = {.topo = topo, .classes = classes, .capacity = capacity};
    struct tutti_rule_class class;

    assert(capacity <= TUTTI_LINK_CLASSES_MAX);
    for (uint32_t i = 0; rule != NULL && rule->ops->link_class(rule, i, &class); i++)
        add_rule_class(&sorter, &class);
    /* Classes that found no room may begin before others that did. */
    if (rule == NULL || sorter.more > 0) {
        sorter.count = sorter.more = 0;
        add_one_by_one(&sorter);
    }
    sort_by_first(classes, sorter.count);
    *ret_more = sorter.more;
    return sorter.count;
}
