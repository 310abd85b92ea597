/* Hardware while it is collected: a growing array of each part. */
#include "topo/hardware/draft.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

enum { CAPACITY_FIRST = 16 };

static const size_t part_bytes[TUTTI_HW_PART_COUNT] = {
    [TUTTI_HW_CPU] = sizeof(struct tutti_hw_cpu),
    [TUTTI_HW_PCI] = sizeof(struct tutti_hw_pci),
    [TUTTI_HW_GPU] = sizeof(struct tutti_hw_gpu),
    [TUTTI_HW_NVLINK] = sizeof(struct tutti_hw_nvlink),
    [TUTTI_HW_C2C] = sizeof(struct tutti_hw_c2c),
    [TUTTI_HW_NET] = sizeof(struct tutti_hw_net),
};

int tutti_hw_draft_add(struct tutti_hw_draft *draft, enum tutti_hw_part part, const void *item,
                       struct tutti_err *err)
{
    size_t bytes = part_bytes[part];

    if (draft->parts[part].count == TUTTI_HW_ITEMS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "hardware of too many parts of a kind (at most %d)",
                          TUTTI_HW_ITEMS_MAX);
    if (draft->parts[part].count == draft->parts[part].capacity) {
        uint32_t capacity =
            draft->parts[part].capacity == 0 ? CAPACITY_FIRST : draft->parts[part].capacity * 2;
        void *items = realloc(draft->parts[part].items, capacity * bytes);

        if (items == NULL)
            return tutti_nomem(err);
        draft->parts[part].items = items;
        draft->parts[part].capacity = capacity;
    }
    memcpy((char *)draft->parts[part].items + draft->parts[part].count * bytes, item, bytes);
    draft->parts[part].count++;
    return 0;
}

bool tutti_hw_draft_is_empty(const struct tutti_hw_draft *draft)
{
    for (int p = 0; p < TUTTI_HW_PART_COUNT; p++)
        if (draft->parts[p].count > 0)
            return false;
    return draft->rack == 0;
}

struct tutti_hardware tutti_hw_draft_view(const struct tutti_hw_draft *draft)
{
    return (struct tutti_hardware){
        .cpu_count = draft->parts[TUTTI_HW_CPU].count,
        .pci_count = draft->parts[TUTTI_HW_PCI].count,
        .gpu_count = draft->parts[TUTTI_HW_GPU].count,
        .nvlink_count = draft->parts[TUTTI_HW_NVLINK].count,
        .c2c_count = draft->parts[TUTTI_HW_C2C].count,
        .net_count = draft->parts[TUTTI_HW_NET].count,
        .cpus = draft->parts[TUTTI_HW_CPU].items,
        .pcis = draft->parts[TUTTI_HW_PCI].items,
        .gpus = draft->parts[TUTTI_HW_GPU].items,
        .nvlinks = draft->parts[TUTTI_HW_NVLINK].items,
        .c2cs = draft->parts[TUTTI_HW_C2C].items,
        .nets = draft->parts[TUTTI_HW_NET].items,
        .rack = draft->rack,
    };
}

void tutti_hw_draft_done(struct tutti_hw_draft *draft)
{
    for (int p = 0; p < TUTTI_HW_PART_COUNT; p++)
        free(draft->parts[p].items);
    *draft = (struct tutti_hw_draft){0};
}
