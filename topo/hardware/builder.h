/* The hardware of a host while it is collected. */
#ifndef TUTTI_TOPO_HARDWARE_BUILDER_H
#define TUTTI_TOPO_HARDWARE_BUILDER_H

#include <stdbool.h>
#include <stdint.h>

#include "topo/hardware.h"

enum tutti_hw_part {
    TUTTI_HW_CPU,
    TUTTI_HW_PCI,
    TUTTI_HW_GPU,
    TUTTI_HW_NVLINK,
    TUTTI_HW_C2C,
    TUTTI_HW_NET,
    TUTTI_HW_PART_COUNT
};

/* Hardware while it is collected; {0} is empty. */
struct tutti_hw_builder {
    struct {
        void *items;
        uint32_t count;
        uint32_t capacity;
    } parts[TUTTI_HW_PART_COUNT];
    uint32_t rack;
};

/* Adds a struct tutti_hw_cpu, tutti_hw_pci, ...: that of the part. */
int tutti_hw_builder_add(struct tutti_hw_builder *builder, enum tutti_hw_part part,
                         const void *item, struct tutti_err *err);
bool tutti_hw_builder_is_empty(const struct tutti_hw_builder *builder);
/* Its arrays, until more is added. */
struct tutti_hardware tutti_hw_builder_view(const struct tutti_hw_builder *builder);
void tutti_hw_builder_done(struct tutti_hw_builder *builder);

#endif
