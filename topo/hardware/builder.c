/* Hardware while it is collected: a growing array of each part. */
#include "topo/hardware/builder.h"

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

int tutti_hw_builder_add(struct tutti_hw_builder *builder, enum tutti_hw_part part,
                         const void *item, struct tutti_err *err)
{
    size_t bytes = part_bytes[part];

    if (builder->parts[part].count == TUTTI_HW_ITEMS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "hardware of too many parts of a kind (at most %d)",
                          TUTTI_HW_ITEMS_MAX);
    if (builder->parts[part].count == builder->parts[part].capacity) {
        uint32_t capacity =
            builder->parts[part].capacity == 0 ? CAPACITY_FIRST : builder->parts[part].capacity * 2;
        void *items = realloc(builder->parts[part].items, capacity * bytes);

        if (items == NULL)
            return tutti_nomem(err);
        builder->parts[part].items = items;
        builder->parts[part].capacity = capacity;
    }
    memcpy((char *)builder->parts[part].items + builder->parts[part].count * bytes, item, bytes);
    builder->parts[part].count++;
    return 0;
}

bool tutti_hw_builder_is_empty(const struct tutti_hw_builder *builder)
{
    for (int p = 0; p < TUTTI_HW_PART_COUNT; p++)
        if (builder->parts[p].count > 0)
            return false;
    return builder->rack == 0;
}

struct tutti_hardware tutti_hw_builder_view(const struct tutti_hw_builder *builder)
{
    return (struct tutti_hardware){
        .cpu_count = builder->parts[TUTTI_HW_CPU].count,
        .pci_count = builder->parts[TUTTI_HW_PCI].count,
        .gpu_count = builder->parts[TUTTI_HW_GPU].count,
        .nvlink_count = builder->parts[TUTTI_HW_NVLINK].count,
        .c2c_count = builder->parts[TUTTI_HW_C2C].count,
        .net_count = builder->parts[TUTTI_HW_NET].count,
        .cpus = builder->parts[TUTTI_HW_CPU].items,
        .pcis = builder->parts[TUTTI_HW_PCI].items,
        .gpus = builder->parts[TUTTI_HW_GPU].items,
        .nvlinks = builder->parts[TUTTI_HW_NVLINK].items,
        .c2cs = builder->parts[TUTTI_HW_C2C].items,
        .nets = builder->parts[TUTTI_HW_NET].items,
        .rack = builder->rack,
    };
}

void tutti_hw_builder_done(struct tutti_hw_builder *builder)
{
    for (int p = 0; p < TUTTI_HW_PART_COUNT; p++)
        free(builder->parts[p].items);
    *builder = (struct tutti_hw_builder){0};
}
