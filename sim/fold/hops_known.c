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

/* A copy of each order, for schedules come and go. */
static int own_orders(struct tutti_hops *hops)
{
    for (uint32_t i = 0; i < hops->family_count; i++) {
        struct tutti_hop_family *family = &hops->families[i];
        size_t bytes = family->way.size * sizeof(*family->own_order);

        if (family->way.order == NULL)
            continue;
        family->own_order = malloc(bytes);
        if (family->own_order == NULL)
            return -TUTTI_ENOMEM;
        memcpy(family->own_order, family->way.order, bytes);
    }
    return 0;
}

int tutti_hops_take(struct tutti_hops *hops, const struct tutti_topo *topo,
                    struct tutti_hops *known)
{
    struct tutti_hops taken = *known;

    if (known->topo != topo || !are_same(known, hops))
        return own_orders(hops);
    for (uint32_t i = 0; i < hops->family_count; i++) {
        const struct tutti_hop_family *family = &hops->families[i];

        taken.families[i].way = family->way;
        taken.families[i].lane_count = family->lane_count;
        taken.families[i].lane = family->lane;
    }
    *hops = taken;
    *known = (struct tutti_hops){.family_count = 0};
    return 0;
}

void tutti_hops_give(struct tutti_hops *hops, struct tutti_hops *known)
{
    if (hops->topo == NULL || hops->same == NULL) {
        tutti_hops_done(hops);
        return;
    }
    for (uint32_t i = 0; i < hops->family_count; i++)
        hops->families[i].way.order = hops->families[i].own_order;
    tutti_hops_done(known);
    *known = *hops;
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
