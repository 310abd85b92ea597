/* What the kinds of hops that have been found weigh under a protocol; see hops.h. */
#include <stdlib.h>
#include <string.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/fold/hops.h"
#include "topo/topo.h"

static bool weighs_the_same(const struct tutti_route_weight *a, const struct tutti_route_weight *b)
{
    return a->latency_ps == b->latency_ps && a->pace.bytes_per_s == b->pace.bytes_per_s &&
           a->pace.slice_ps == b->pace.slice_ps;
}

/* The first kind that weighs what this one does. The table is that of weights now. */
static uint32_t first_like(struct tutti_hops *hops, uint32_t kind)
{
    const struct tutti_route_weight *weight = &hops->kinds[kind];
    uint64_t place = tutti_random_hash((uint64_t)weight->pace.slice_ps,
                                       (uint64_t)weight->latency_ps, weight->pace.bytes_per_s, 0);

    for (;; place++) {
        uint32_t *entry = &hops->table[place & (hops->table_size - 1)];

        if (*entry == 0)
            *entry = kind + 1;
        if (weighs_the_same(&hops->kinds[*entry - 1], weight))
            return *entry - 1;
    }
}

static void settle_family(const struct tutti_hops *hops, struct tutti_hop_family *family)
{
    uint32_t n = hops->topo->rank_count;
    uint32_t rank = 0;

    family->kind = hops->same[family->found != NULL ? family->found[0] : family->found_kind];
    while (family->found != NULL && rank < n && hops->same[family->found[rank]] == family->kind)
        rank++;
    family->kinds = family->found != NULL && rank < n ? family->found : NULL;
}

int tutti_hops_weigh(struct tutti_hops *hops, const struct tutti_protocol *protocol)
{
    if (hops->kinds == NULL)
        hops->kinds = malloc((hops->kind_count + (size_t)1) * sizeof(*hops->kinds));
    if (hops->same == NULL)
        hops->same = malloc((hops->kind_count + (size_t)1) * sizeof(*hops->same));
    if (hops->kinds == NULL || hops->same == NULL)
        return -TUTTI_ENOMEM;
    memset(hops->table, 0, hops->table_size * sizeof(*hops->table));
    for (uint32_t i = 0; i < hops->kind_count; i++) {
        hops->kinds[i] = tutti_figures_weigh(&hops->figures[i], protocol);
        hops->same[i] = first_like(hops, i);
    }
    for (uint32_t i = 0; i < hops->family_count; i++)
        settle_family(hops, &hops->families[i]);
    return 0;
}

/* Of each of the three the best on any hop of a family. */
static struct tutti_route_weight best_of(const struct tutti_hops *hops,
                                         const struct tutti_hop_family *family)
{
    struct tutti_route_weight best = hops->kinds[family->kind];
    uint32_t last = family->kind;

    for (uint32_t rank = 0; family->kinds != NULL && rank < hops->topo->rank_count; rank++) {
        const struct tutti_route_weight *weight = &hops->kinds[family->kinds[rank]];

        if (family->kinds[rank] == last)
            continue;
        last = family->kinds[rank];
        if (weight->latency_ps < best.latency_ps)
            best.latency_ps = weight->latency_ps;
        if (weight->pace.slice_ps < best.pace.slice_ps)
            best.pace.slice_ps = weight->pace.slice_ps;
        if (weight->pace.bytes_per_s > best.pace.bytes_per_s)
            best.pace.bytes_per_s = weight->pace.bytes_per_s;
    }
    return best;
}

int tutti_hops_best(struct tutti_hops *known, const struct tutti_protocol *protocol,
                    struct tutti_route_weight best[TUTTI_HOP_FAMILIES_MAX])
{
    if (known->topo == NULL || tutti_hops_weigh(known, protocol) < 0)
        return -TUTTI_ELACK;
    for (uint32_t i = 0; i < known->family_count; i++)
        best[i] = best_of(known, &known->families[i]);
    return 0;
}
