/* Max-min fair rates after few flows came or went; see maxmin_near.h.
 *
 * Rates are max-min fair if and only if each flow has a link that is full and on which none has a
 * higher rate (Bertsekas & Gallager 6.5.2): that link backs it. So the flows of the links where
 * something has changed are held at the rates they had, and these links are filled level by level,
 * as in the solve of all. When the level reaches the rate of a held flow, it keeps that if some
 * link still backs it: one that is filled here and has just become full, or another one, whose
 * flows have all kept their rates, at that level. Otherwise it is opened, to get more; and where a
 * link becomes full below the rate of a held flow, that is opened to get less. The links of an
 * opened flow are filled, too, from the level on that has been reached: what flows below that level
 * get does not change any more. The sums are those of the solve of all, in the same order. */
#include "sim/net/maxmin_near.h"

#include <assert.h>
#include <math.h>

#include "sim/net/maxmin.h"

#define NONE UINT32_MAX

/* Takes from a link what its booked flows have, level by level. */
static void take_booked(const struct tutti_maxmin *maxmin, struct tutti_maxmin_link *link)
{
    double last = 0;

    for (;;) {
        double rate = INFINITY;
        uint32_t count = 0;

        for (uint32_t hop = link->hop_first; hop != NONE; hop = maxmin->hops[hop].next) {
            const struct tutti_maxmin_flow *flow = &maxmin->flows[maxmin->hops[hop].flow];

            if (flow->state != TUTTI_MAXMIN_BOOKED || flow->rate <= last || flow->rate > rate)
                continue;
            count = flow->rate < rate ? 0 : count;
            rate = flow->rate;
            count += maxmin->hops[hop].weight;
        }
        if (count == 0)
            return;
        link->residual -= rate * count;
        last = rate;
    }
}

/* Begins to fill a link, from `level` on. */
static void look_at(struct tutti_maxmin *maxmin, uint32_t id, double level, uint32_t *count)
{
    struct tutti_maxmin_link *link = &maxmin->links[id];
    bool booked = false;

    if (link->touched == maxmin->solve_count)
        return;
    link->touched = maxmin->solve_count;
    link->residual = link->capacity;
    link->level = INFINITY;
    link->open_count = link->fresh_count = 0;
    maxmin->some_links[(*count)++] = id;
    for (uint32_t hop = link->hop_first; hop != NONE; hop = maxmin->hops[hop].next) {
        uint32_t number = maxmin->hops[hop].flow;
        struct tutti_maxmin_flow *flow = &maxmin->flows[number];

        maxmin->look_count++;
        if (flow->touched != maxmin->solve_count) {
            flow->touched = maxmin->solve_count;
            flow->state = flow->entered         ? TUTTI_MAXMIN_OPEN
                          : flow->rate <= level ? TUTTI_MAXMIN_BOOKED
                                                : TUTTI_MAXMIN_HELD;
            if (flow->entered)
                maxmin->some_flows[maxmin->some_flow_count++] = number;
            else if (flow->state == TUTTI_MAXMIN_HELD)
                maxmin->held[maxmin->held_count++] = number;
            flow->entered = false;
        }
        if (flow->state == TUTTI_MAXMIN_BOOKED)
            booked = true;
        else
            link->open_count += maxmin->hops[hop].weight;
    }
    if (booked)
        take_booked(maxmin, link);
}

/* A held flow does not keep its rate: its links are filled from now on. */
static void open_flow(struct tutti_maxmin *maxmin, uint32_t id, double level, uint32_t *count)
{
    struct tutti_maxmin_flow *flow = &maxmin->flows[id];

    flow->state = TUTTI_MAXMIN_OPEN;
    maxmin->some_flows[maxmin->some_flow_count++] = id;
    for (uint32_t i = 0; i < flow->hop_count; i++)
        look_at(maxmin, maxmin->hops[flow->hop_first + i].link, level, count);
}

/* A link is full at `level`: its open flows get that, and the held ones that had more. */
static void fill_link(struct tutti_maxmin *maxmin, struct tutti_maxmin_link *link, double level,
                      uint32_t *count)
{
    link->level = level;
    for (uint32_t hop = link->hop_first; hop != NONE; hop = maxmin->hops[hop].next) {
        uint32_t id = maxmin->hops[hop].flow;
        struct tutti_maxmin_flow *flow = &maxmin->flows[id];

        if (flow->state == TUTTI_MAXMIN_HELD && flow->rate > level * TUTTI_MAXMIN_SAME)
            open_flow(maxmin, id, level, count);
        if (flow->state == TUTTI_MAXMIN_OPEN)
            tutti_maxmin_freeze(maxmin, flow, level);
    }
}

static bool is_backed(const struct tutti_maxmin *maxmin, const struct tutti_maxmin_flow *flow,
                      double level)
{
    for (uint32_t i = 0; i < flow->hop_count; i++) {
        const struct tutti_maxmin_link *link =
            &maxmin->links[maxmin->hops[flow->hop_first + i].link];
        bool filled = link->touched == maxmin->solve_count;

        if (filled ? link->level <= level * TUTTI_MAXMIN_SAME
                   : !(link->level < flow->rate) && !(link->level > flow->rate))
            return true;
    }
    return false;
}

/* The held flows that the level has reached keep their rates or are opened. */
static void meet_held(struct tutti_maxmin *maxmin, double level, uint32_t *count)
{
    uint32_t kept = 0;
    uint32_t known = maxmin->held_count;

    for (uint32_t i = 0; i < known; i++) {
        uint32_t id = maxmin->held[i];
        struct tutti_maxmin_flow *flow = &maxmin->flows[id];

        if (flow->state != TUTTI_MAXMIN_HELD)
            continue;
        if (flow->rate > level * TUTTI_MAXMIN_SAME) {
            maxmin->held[kept++] = id;
        } else if (!is_backed(maxmin, flow, level)) {
            open_flow(maxmin, id, level, count);
        } else {
            flow->state = TUTTI_MAXMIN_BOOKED;
            for (uint32_t k = 0; k < flow->hop_count; k++) {
                const struct tutti_maxmin_hop *hop = &maxmin->hops[flow->hop_first + k];

                if (maxmin->links[hop->link].touched == maxmin->solve_count)
                    maxmin->links[hop->link].fresh_count += hop->weight;
            }
        }
    }
    for (uint32_t i = known; i < maxmin->held_count; i++) /* met on links that were opened here */
        maxmin->held[kept++] = maxmin->held[i];
    maxmin->held_count = kept;
}

/* The next level: where a link becomes full, or a held flow is met. */
static double next_level(const struct tutti_maxmin *maxmin, uint32_t count)
{
    double least = INFINITY;

    for (uint32_t i = 0; i < count; i++) {
        double share = tutti_maxmin_share(&maxmin->links[maxmin->some_links[i]]);

        least = share < least ? share : least;
    }
    for (uint32_t i = 0; i < maxmin->held_count; i++) {
        const struct tutti_maxmin_flow *flow = &maxmin->flows[maxmin->held[i]];

        least = flow->state == TUTTI_MAXMIN_HELD && flow->rate < least ? flow->rate : least;
    }
    return least;
}

void tutti_maxmin_solve_near(struct tutti_maxmin *maxmin)
{
    uint32_t count = 0;

    maxmin->some_flow_count = maxmin->held_count = 0;
    for (uint32_t i = 0; i < maxmin->dirty_count; i++) {
        maxmin->links[maxmin->dirty[i]].dirty = false;
        look_at(maxmin, maxmin->dirty[i], 0, &count);
    }
    maxmin->dirty_count = 0;
    count = tutti_maxmin_close_level(maxmin, count, 0); /* drops links that nobody uses any more */
    while (count > 0) {
        double level = next_level(maxmin, count);

        for (uint32_t i = 0; i < count; i++) { /* count grows as flows are opened */
            struct tutti_maxmin_link *link = &maxmin->links[maxmin->some_links[i]];

            if (tutti_maxmin_share(link) <= level * TUTTI_MAXMIN_SAME)
                fill_link(maxmin, link, level, &count);
        }
        meet_held(maxmin, level, &count);
        count = tutti_maxmin_close_level(maxmin, count, level);
    }
}
