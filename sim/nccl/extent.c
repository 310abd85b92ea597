/* What the ways of a graph amount to: bounds of rates and types, who reaches whom. */
#include "sim/nccl/paths.h"

static int64_t path_rate_max(const struct tutti_nccl_system *s, uint32_t gpu,
                             enum tutti_nccl_kind to)
{
    int64_t rate = 0;

    for (uint32_t i = 0; i < s->counts[to]; i++) {
        const struct tutti_nccl_path *path = tutti_nccl_path(s, TUTTI_NCCL_GPU, gpu, to, i);

        if (path->hop_count > 0 && path->kbyte_per_s > rate)
            rate = path->kbyte_per_s;
    }
    return rate;
}

/* All NVLinks, or the PCI link. */
static int64_t link_rates(const struct tutti_nccl_node *gpu)
{
    int64_t nvlink = 0;
    int64_t pci = 0;

    for (uint32_t l = 0; l < gpu->link_count; l++) {
        if (gpu->links[l].type == TUTTI_PATH_NVL)
            nvlink += gpu->links[l].kbyte_per_s;
        if (gpu->links[l].type == TUTTI_PATH_PIX)
            pci = gpu->links[l].kbyte_per_s;
    }
    return pci > nvlink ? pci : nvlink;
}

void tutti_nccl_rates(struct tutti_nccl_system *system)
{
    bool inter = system->counts[TUTTI_NCCL_NET] > 0;

    system->max_kbyte_per_s = 0;
    system->total_kbyte_per_s = 0;
    if (!inter && system->counts[TUTTI_NCCL_GPU] == 1) {
        system->max_kbyte_per_s = TUTTI_NCCL_LOCAL_KBYTE_PER_S;
        system->total_kbyte_per_s = TUTTI_NCCL_LOCAL_KBYTE_PER_S;
        return;
    }
    for (uint32_t g = 0; g < system->counts[TUTTI_NCCL_GPU]; g++) {
        int64_t max = path_rate_max(system, g, inter ? TUTTI_NCCL_NET : TUTTI_NCCL_GPU);
        int64_t total = link_rates(tutti_nccl_node(system, TUTTI_NCCL_GPU, g));

        if (max > system->max_kbyte_per_s)
            system->max_kbyte_per_s = max;
        if (total > system->total_kbyte_per_s)
            system->total_kbyte_per_s = total;
    }
}

/* Labels GPUs by the lowest one they reach by ways better than `type_end`, as NCCL does: by one
 * look at those before. */
static void label(const struct tutti_nccl_system *s, uint8_t type_first, uint8_t type_end,
                  uint32_t *ret)
{
    for (uint32_t g = 0; g < s->counts[TUTTI_NCCL_GPU]; g++) {
        ret[g] = g;
        for (uint32_t p = 0; p < g; p++) {
            uint8_t type = tutti_nccl_path(s, TUTTI_NCCL_GPU, g, TUTTI_NCCL_GPU, p)->type;

            if (type >= type_first && type < type_end && ret[p] < ret[g])
                ret[g] = ret[p];
        }
    }
}

void tutti_nccl_domains(const struct tutti_nccl_system *system, uint32_t *ret)
{
    label(system, TUTTI_PATH_LOC, TUTTI_PATH_NET, ret);
}

bool tutti_nccl_nvlink_is_split(const struct tutti_nccl_system *system, uint32_t *scratch)
{
    uint32_t sets = 0;

    label(system, TUTTI_PATH_NVL, TUTTI_PATH_NVL + 1, scratch);
    for (uint32_t g = 0; g < system->counts[TUTTI_NCCL_GPU]; g++) {
        uint32_t count = 0;

        for (uint32_t p = 0; p < system->counts[TUTTI_NCCL_GPU]; p++)
            count += scratch[p] == g;
        sets += count > 1;
    }
    return sets == 2;
}

uint8_t tutti_nccl_type_min(const struct tutti_nccl_system *system, enum tutti_nccl_kind to)
{
    uint8_t type = TUTTI_PATH_SYS;

    for (uint32_t g = 0; g < system->counts[TUTTI_NCCL_GPU]; g++)
        for (uint32_t i = 0; i < system->counts[to]; i++)
            if ((to != TUTTI_NCCL_GPU || i != g) &&
                tutti_nccl_path(system, TUTTI_NCCL_GPU, g, to, i)->type < type)
                type = tutti_nccl_path(system, TUTTI_NCCL_GPU, g, to, i)->type;
    return type;
}

uint8_t tutti_nccl_type_max(const struct tutti_nccl_system *system, enum tutti_nccl_kind to)
{
    uint8_t type = TUTTI_PATH_LOC;

    for (uint32_t g = 0; g < system->counts[TUTTI_NCCL_GPU]; g++)
        for (uint32_t i = 0; i < system->counts[to]; i++)
            if ((to != TUTTI_NCCL_GPU || i != g) &&
                tutti_nccl_path(system, TUTTI_NCCL_GPU, g, to, i)->type > type)
                type = tutti_nccl_path(system, TUTTI_NCCL_GPU, g, to, i)->type;
    return type;
}
