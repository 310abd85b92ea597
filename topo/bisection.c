/* Bisection: halvings of a machine along its levels and axes, and the least that crosses. */
#include "runtime/status.h"
#include "topo/bounds/partition.h"
#include "topo/topo.h"

/* One halving: rank r is in the upper half if (r / inner) % count >= count / 2. */
static void halve(struct tutti_partition *partition, uint32_t inner, uint32_t count, uint64_t *best)
{
    for (uint32_t r = 0; r < partition->topo->rank_count; r++)
        partition->rank_group[r] = r / inner % count >= count / 2;
    partition->group_count = 2;
    tutti_partition_cut(partition);
    for (int g = 0; g < 2; g++) {
        const struct tutti_bound_group *group = &partition->groups[g];

        *best = group->out < *best ? group->out : *best;
        *best = group->in < *best ? group->in : *best;
    }
}

/* All even factors of a mixed radix numbering of the ranks; but the outermost, if it is even,
 * parts the lower ranks from the upper ones, which is done anyway. */
static void halve_each(struct tutti_partition *partition, const uint32_t *factor, uint32_t count,
                       uint64_t *best)
{
    uint32_t inner = 1;

    for (uint32_t i = 0; i < count; inner *= factor[i++])
        if (factor[i] % 2 == 0 && inner * factor[i] < partition->topo->rank_count)
            halve(partition, inner, factor[i], best);
}

int tutti_topo_bisection(const struct tutti_topo *topo, uint64_t *ret_bytes_per_s,
                         struct tutti_err *err)
{
    const struct tutti_shape *shape = &topo->shape;
    struct tutti_partition partition;
    uint64_t best = UINT64_MAX;
    int status;

    if (topo->rank_count < 2) {
        *ret_bytes_per_s = 0;
        return 0;
    }
    status = tutti_partition_open(&partition, topo, err);
    if (status < 0)
        return status;
    halve_each(&partition, shape->dim, shape->dim_count, &best);
    halve_each(&partition, shape->level, shape->level_count, &best);
    /* Where nothing divides by 2, or there is no shape: the lower ranks and the upper ranks. */
    halve(&partition, 1, topo->rank_count, &best);
    tutti_partition_close(&partition);
    *ret_bytes_per_s = best;
    return 0;
}
