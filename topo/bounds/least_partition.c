/* The partition of a few devices with the least rate between groups; see least_partition.h. */
#include "topo/bounds/least_partition.h"

#include <stdbool.h>
#include <string.h>

#include "runtime/wide.h"
#include "topo/bounds/family.h"

/* What two ranks have between them, both ways together. */
static void fill_rates(const struct tutti_topo *topo,
                       uint64_t rates[TUTTI_FAMILY_SMALL][TUTTI_FAMILY_SMALL])
{
    for (uint32_t l = 0; l < topo->link_count; l++) {
        struct tutti_link link = tutti_topo_link(topo, l);
        uint32_t a = tutti_topo_node(topo, link.from).rank;
        uint32_t b = tutti_topo_node(topo, link.to).rank;

        if (__builtin_add_overflow(rates[a][b], link.bytes_per_s, &rates[a][b]))
            rates[a][b] = UINT64_MAX;
        rates[b][a] = rates[a][b];
    }
}

static struct tutti_wide rate_between(uint64_t rates[TUTTI_FAMILY_SMALL][TUTTI_FAMILY_SMALL],
                                      const uint32_t *group, uint32_t count)
{
    struct tutti_wide sum = {.high = 0};

    for (uint32_t a = 0; a < count; a++)
        for (uint32_t b = 0; b < a; b++)
            if (group[a] != group[b])
                sum = tutti_wide_add_word(sum, rates[a][b]);
    return sum;
}

/* The next partition as a restricted growth string: rank r is in a group of a lower rank or in the
 * next new one. At most Bell(8) = 4140 of them. False: that was the last. */
static bool next_partition(uint32_t *group, uint32_t count)
{
    for (uint32_t r = count - 1; r > 0; r--) {
        uint32_t highest = 0;

        for (uint32_t q = 0; q < r; q++)
            highest = group[q] > highest ? group[q] : highest;
        if (group[r] > highest)
            continue;
        group[r]++;
        for (uint32_t q = r + 1; q < count; q++)
            group[q] = 0;
        return true;
    }
    return false;
}

static uint32_t groups_of(const uint32_t *group, uint32_t count)
{
    uint32_t highest = 0;

    for (uint32_t r = 0; r < count; r++)
        highest = group[r] > highest ? group[r] : highest;
    return highest + 1;
}

uint32_t tutti_least_partition(const struct tutti_topo *topo, uint32_t *ret)
{
    uint64_t rates[TUTTI_FAMILY_SMALL][TUTTI_FAMILY_SMALL] = {{0}};
    uint32_t group[TUTTI_FAMILY_SMALL] = {0};
    uint32_t best[TUTTI_FAMILY_SMALL] = {0};
    uint32_t count = topo->rank_count;
    struct tutti_wide best_rate = {.high = 0};

    fill_rates(topo, rates);
    while (next_partition(group, count)) {
        struct tutti_wide rate = rate_between(rates, group, count);

        if (groups_of(best, count) == 1 ||
            tutti_wide_less(tutti_wide_times(rate, groups_of(best, count) - 1),
                            tutti_wide_times(best_rate, groups_of(group, count) - 1))) {
            memcpy(best, group, sizeof(best));
            best_rate = rate;
        }
    }
    memcpy(ret, best, count * sizeof(*best));
    return groups_of(best, count);
}
