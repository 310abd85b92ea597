/* Max-min fair rates by progressive filling (Bertsekas & Gallager, Data Networks, 6.5.2): raise all
 * rates together until a link is full, freeze its flows, go on with the rest. Price of a solve of
 * all: the links and hops of the touched component for each level of rates in it; mostly less is
 * enough (sim/net/maxmin_near.c). */
#include "sim/net/maxmin.h"

#include <assert.h>
#include <math.h>

#include "runtime/status.h"
#include "sim/memory/memory.h"
#include "sim/net/maxmin_near.h"
#include "sim/net/net.h"

#define NONE UINT32_MAX

/* Where flows came or went on more than one busy link in four, all is solved anew at once. */
enum { MOST_OF = 1, MOST_IN = 4 };

static void touch_link(struct tutti_maxmin *maxmin, uint32_t id, uint32_t *count)
{
    struct tutti_maxmin_link *link = &maxmin->links[id];

    if (link->touched == maxmin->solve_count)
        return;
    link->touched = maxmin->solve_count;
    link->residual = link->capacity;
    link->open_count = 0;
    link->fresh_count = 0;
    link->level = INFINITY;
    maxmin->some_links[(*count)++] = id;
}

static void touch_flow(struct tutti_maxmin *maxmin, uint32_t id, uint32_t *link_count)
{
    struct tutti_maxmin_flow *flow = &maxmin->flows[id];

    if (flow->touched == maxmin->solve_count)
        return;
    flow->touched = maxmin->solve_count;
    flow->state = TUTTI_MAXMIN_OPEN;
    flow->entered = false;
    maxmin->some_flows[maxmin->some_flow_count++] = id;
    for (uint32_t i = 0; i < flow->hop_count; i++)
        touch_link(maxmin, maxmin->hops[flow->hop_first + i].link, link_count);
}

/* Gathers the links and flows connected with the dirty links; returns how many links. */
static uint32_t gather(struct tutti_maxmin *maxmin)
{
    uint32_t count = 0;

    maxmin->some_flow_count = 0;
    for (uint32_t i = 0; i < maxmin->dirty_count; i++) {
        maxmin->links[maxmin->dirty[i]].dirty = false;
        touch_link(maxmin, maxmin->dirty[i], &count);
    }
    maxmin->dirty_count = 0;
    for (uint32_t i = 0; i < count; i++) { /* count grows as more links are reached */
        struct tutti_maxmin_link *link = &maxmin->links[maxmin->some_links[i]];

        for (uint32_t hop = link->hop_first; hop != NONE; hop = maxmin->hops[hop].next) {
            maxmin->look_count++;
            link->open_count += maxmin->hops[hop].weight;
            touch_flow(maxmin, maxmin->hops[hop].flow, &count);
        }
    }
    return count;
}

void tutti_maxmin_freeze(struct tutti_maxmin *maxmin, struct tutti_maxmin_flow *flow, double rate)
{
    flow->state = TUTTI_MAXMIN_FROZEN;
    flow->rate = rate;
    for (uint32_t i = 0; i < flow->hop_count; i++) {
        const struct tutti_maxmin_hop *taken = &maxmin->hops[flow->hop_first + i];

        maxmin->links[taken->link].fresh_count += taken->weight;
    }
}

/* Freezes the flows of a full link. */
static void freeze_link(struct tutti_maxmin *maxmin, struct tutti_maxmin_link *link, double rate)
{
    link->level = rate;
    for (uint32_t hop = link->hop_first; hop != NONE; hop = maxmin->hops[hop].next) {
        struct tutti_maxmin_flow *flow = &maxmin->flows[maxmin->hops[hop].flow];

        if (flow->state == TUTTI_MAXMIN_OPEN)
            tutti_maxmin_freeze(maxmin, flow, rate);
    }
}

uint32_t tutti_maxmin_close_level(struct tutti_maxmin *maxmin, uint32_t count, double rate)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct tutti_maxmin_link *link = &maxmin->links[maxmin->some_links[i]];
        double least;

        assert(link->fresh_count <= link->open_count);
        link->residual -= rate * link->fresh_count;
        link->open_count -= link->fresh_count;
        link->fresh_count = 0;
        least = rate * link->open_count; /* true in exact numbers: rates only rise by level */
        if (link->residual < least)
            link->residual = least;
        if (link->open_count > 0)
            maxmin->some_links[kept++] = maxmin->some_links[i];
    }
    return kept;
}

static struct tutti_maxmin_link idle_link(uint64_t bytes_per_s)
{
    return (struct tutti_maxmin_link){.capacity = (double)bytes_per_s, .hop_first = NONE};
}

int tutti_maxmin_init(struct tutti_maxmin *maxmin, const uint64_t *bytes_per_s, uint32_t count)
{
    return tutti_maxmin_init_in(maxmin, NULL, bytes_per_s, count);
}

int tutti_maxmin_init_in(struct tutti_maxmin *maxmin, struct tutti_memory *memory,
                         const uint64_t *bytes_per_s, uint32_t count)
{
    *maxmin = (struct tutti_maxmin){.memory = memory, .link_count = count, .link_capacity = count};
    maxmin->links = tutti_memory_take(memory, (size_t)count + 1, sizeof(*maxmin->links));
    maxmin->dirty = tutti_memory_take(memory, (size_t)count + 1, sizeof(*maxmin->dirty));
    maxmin->some_links = tutti_memory_take(memory, (size_t)count + 1, sizeof(*maxmin->some_links));
    if (maxmin->links == NULL || maxmin->dirty == NULL || maxmin->some_links == NULL) {
        tutti_maxmin_done(maxmin);
        return -TUTTI_ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++)
        maxmin->links[i] = idle_link(bytes_per_s[i]);
    return 0;
}

void tutti_maxmin_done(struct tutti_maxmin *maxmin)
{
    tutti_memory_give(maxmin->memory, maxmin->links);
    tutti_memory_give(maxmin->memory, maxmin->flows);
    tutti_memory_give(maxmin->memory, maxmin->hops);
    tutti_memory_give(maxmin->memory, maxmin->dirty);
    tutti_memory_give(maxmin->memory, maxmin->some_links);
    tutti_memory_give(maxmin->memory, maxmin->some_flows);
    tutti_memory_give(maxmin->memory, maxmin->held);
    *maxmin = (struct tutti_maxmin){.link_count = 0};
}

void tutti_maxmin_reset(struct tutti_maxmin *maxmin)
{
    for (uint32_t i = 0; i < maxmin->flow_count; i++) {
        maxmin->flows[i].active = false;
        maxmin->flows[i].touched = 0;
    }
    for (uint32_t i = 0; i < maxmin->link_count; i++) {
        maxmin->links[i].hop_first = NONE;
        maxmin->links[i].dirty = false;
        maxmin->links[i].touched = 0;
    }
    maxmin->dirty_count = maxmin->some_flow_count = maxmin->solve_count = 0;
    maxmin->busy_count = 0;
    maxmin->look_count = 0;
}

/* Room for one link more. */
static int grow_links(struct tutti_maxmin *maxmin)
{
    uint64_t needed = (uint64_t)maxmin->link_count + 1;
    uint32_t capacity = maxmin->link_capacity;
    uint32_t dirty_capacity = capacity;
    uint32_t some_capacity = capacity;

    if (tutti_memory_grow(maxmin->memory, &maxmin->dirty, &dirty_capacity, needed,
                          sizeof(*maxmin->dirty)) < 0 ||
        tutti_memory_grow(maxmin->memory, &maxmin->some_links, &some_capacity, needed,
                          sizeof(*maxmin->some_links)) < 0 ||
        tutti_memory_grow(maxmin->memory, &maxmin->links, &capacity, needed,
                          sizeof(*maxmin->links)) < 0)
        return -TUTTI_ENOMEM;
    maxmin->link_capacity = capacity;
    return 0;
}

static int grow_flows(struct tutti_maxmin *maxmin, uint32_t hop_count)
{
    uint64_t needed = (uint64_t)maxmin->flow_count + 1;

    if (tutti_memory_grow(maxmin->memory, &maxmin->flows, &maxmin->flow_capacity, needed,
                          sizeof(*maxmin->flows)) < 0 ||
        tutti_memory_grow(maxmin->memory, &maxmin->some_flows, &maxmin->some_capacity, needed,
                          sizeof(*maxmin->some_flows)) < 0 ||
        tutti_memory_grow(maxmin->memory, &maxmin->held, &maxmin->held_capacity, needed,
                          sizeof(*maxmin->held)) < 0)
        return -TUTTI_ENOMEM;
    return tutti_memory_grow(maxmin->memory, &maxmin->hops, &maxmin->hop_capacity,
                             (uint64_t)maxmin->hop_count + hop_count, sizeof(*maxmin->hops));
}

static void add_hop(struct tutti_maxmin *maxmin, uint32_t link, uint32_t weight)
{
    assert(link < maxmin->link_count);
    maxmin->hops[maxmin->hop_count++] = (struct tutti_maxmin_hop){
        .link = link, .flow = maxmin->flow_count, .weight = weight, .next = NONE, .prev = NONE};
}

int tutti_maxmin_add(struct tutti_maxmin *maxmin, const uint32_t *links, const uint32_t *weights,
                     uint32_t link_count, uint64_t bytes_per_s_max)
{
    uint64_t hop_first = maxmin->hop_count;
    uint32_t own_count = bytes_per_s_max > 0 ? 1 : 0;

    assert(link_count > 0);
    if (grow_flows(maxmin, link_count + own_count) < 0 || (own_count > 0 && grow_links(maxmin) < 0))
        return -TUTTI_ENOMEM;
    for (uint32_t i = 0; i < link_count; i++)
        add_hop(maxmin, links[i], weights != NULL ? weights[i] : 1);
    if (own_count > 0) {
        maxmin->links[maxmin->link_count++] = idle_link(bytes_per_s_max);
        add_hop(maxmin, maxmin->link_count - 1, 1);
    }
    maxmin->flows[maxmin->flow_count++] =
        (struct tutti_maxmin_flow){.hop_first = hop_first, .hop_count = link_count + own_count};
    return 0;
}

static void mark_dirty(struct tutti_maxmin *maxmin, uint32_t id)
{
    if (maxmin->links[id].dirty)
        return;
    maxmin->links[id].dirty = true;
    maxmin->dirty[maxmin->dirty_count++] = id;
}

void tutti_maxmin_enter(struct tutti_maxmin *maxmin, uint32_t flow)
{
    struct tutti_maxmin_flow *entering = &maxmin->flows[flow];

    assert(!entering->active);
    entering->active = true;
    entering->entered = true;
    for (uint32_t i = 0; i < entering->hop_count; i++) {
        uint32_t hop = (uint32_t)entering->hop_first + i;
        struct tutti_maxmin_link *link = &maxmin->links[maxmin->hops[hop].link];

        maxmin->hops[hop].prev = NONE;
        maxmin->hops[hop].next = link->hop_first;
        if (link->hop_first != NONE)
            maxmin->hops[link->hop_first].prev = hop;
        else
            maxmin->busy_count++;
        link->hop_first = hop;
        mark_dirty(maxmin, maxmin->hops[hop].link);
    }
}

void tutti_maxmin_leave(struct tutti_maxmin *maxmin, uint32_t flow)
{
    struct tutti_maxmin_flow *leaving = &maxmin->flows[flow];

    assert(leaving->active);
    leaving->active = false;
    for (uint32_t i = 0; i < leaving->hop_count; i++) {
        const struct tutti_maxmin_hop *hop = &maxmin->hops[leaving->hop_first + i];

        if (hop->next != NONE)
            maxmin->hops[hop->next].prev = hop->prev;
        if (hop->prev != NONE)
            maxmin->hops[hop->prev].next = hop->next;
        else
            maxmin->links[hop->link].hop_first = hop->next;
        maxmin->busy_count -= maxmin->links[hop->link].hop_first == NONE;
        mark_dirty(maxmin, hop->link);
    }
}

/* All flows that share links, directly or through others, with those that entered or left. */
static void solve_all(struct tutti_maxmin *maxmin)
{
    uint32_t count = gather(maxmin);

    count = tutti_maxmin_close_level(maxmin, count, 0); /* drops links that nobody uses any more */
    while (count > 0) {
        double least = tutti_maxmin_share(&maxmin->links[maxmin->some_links[0]]);

        for (uint32_t i = 1; i < count; i++) {
            double other = tutti_maxmin_share(&maxmin->links[maxmin->some_links[i]]);

            least = other < least ? other : least;
        }
        for (uint32_t i = 0; i < count; i++) {
            struct tutti_maxmin_link *link = &maxmin->links[maxmin->some_links[i]];

            if (tutti_maxmin_share(link) <= least * TUTTI_MAXMIN_SAME)
                freeze_link(maxmin, link, least);
        }
        count = tutti_maxmin_close_level(maxmin, count, least);
    }
}

void tutti_maxmin_solve(struct tutti_maxmin *maxmin)
{
    maxmin->solve_count++;
    if (maxmin->dirty_count * MOST_IN >= maxmin->busy_count * MOST_OF)
        solve_all(maxmin);
    else
        tutti_maxmin_solve_near(maxmin);
}
