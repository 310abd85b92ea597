/* Hops that are known from a play of the same families; see hops.h. */
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/fold/hops.h"
#include "sim/fold/rings.h"
#include "topo/topo.h"

/* Whether messages go the same way, whoever laid the order down. */
static bool is_same(const struct tutti_ring_phase *a, const struct tutti_ring_phase *b)
{
    struct tutti_ring_phase like = *a;

    like.order = b->order;
    return tutti_is_same_way(&like, b) && (a->order == NULL) == (b->order == NULL) &&
           (a->order == NULL || memcmp(a->order, b->order, a->size * sizeof(*a->order)) == 0);
}

static bool are_same(const struct tutti_hops *a, const struct tutti_hops *b)
{
    bool same = a->family_count == b->family_count;

    for (uint32_t i = 0; i < a->family_count && same; i++)
        same = is_same(&a->families[i].way, &b->families[i].way);
    return same;
}

void tutti_hops_drop(struct tutti_hops *known)
{
    for (uint32_t i = 0; i < known->family_count; i++)
        free((void *)(uintptr_t)known->families[i].way.order);
    tutti_hops_done(known);
}

void tutti_hops_take(struct tutti_hops *hops, const struct tutti_topo *topo,
                     struct tutti_hops *known)
{
    struct tutti_hops taken = *known;

    if (known->topo == NULL)
        return;
    if (known->topo != topo || !are_same(known, hops)) {
        tutti_hops_drop(known);
        return;
    }
    for (uint32_t i = 0; i < hops->family_count; i++) {
        const struct tutti_hop_family *family = &hops->families[i];

        free((void *)(uintptr_t)taken.families[i].way.order);
        taken.families[i].way = family->way;
        taken.families[i].lane_count = family->lane_count;
        taken.families[i].lane = family->lane;
    }
    *hops = taken;
    *known = (struct tutti_hops){.family_count = 0};
}

/* A copy of each order, for schedules come and go. */
static bool own_orders(struct tutti_hops *hops)
{
    bool owned = true;

    for (uint32_t i = 0; i < hops->family_count; i++) {
        struct tutti_ring_phase *way = &hops->families[i].way;
        uint32_t *order = NULL;

        if (way->order == NULL)
            continue;
        if (owned)
            order = malloc(way->size * sizeof(*order));
        owned = order != NULL;
        if (owned)
            memcpy(order, way->order, way->size * sizeof(*order));
        way->order = order;
    }
    return owned;
}

void tutti_hops_give(struct tutti_hops *hops, struct tutti_hops *known)
{
    tutti_hops_drop(known);
    if (hops->topo == NULL || hops->same == NULL) {
        tutti_hops_done(hops);
        return;
    }
    if (own_orders(hops))
        *known = *hops;
    else
        tutti_hops_drop(hops);
    *hops = (struct tutti_hops){.family_count = 0};
}

bool tutti_hops_family(const struct tutti_hops *known, const struct tutti_ring_phase *phase,
                       uint32_t *ret)
{
    for (uint32_t i = 0; i < known->family_count; i++) {
        *ret = i;
        if (is_same(&known->families[i].way, phase))
            return true;
    }
    return false;
}
