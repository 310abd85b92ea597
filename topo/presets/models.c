/* Looking up a GPU in the catalogue. */
#include "topo/presets/models.h"

#include <string.h>

#define GPU(gpu_name, gpu_sm, gpu_form, gpu_cpu, generation, links, link, c2c, mem, peak, text) \
    {.name = gpu_name,                                                                          \
     .sm = gpu_sm,                                                                              \
     .form = TUTTI_FORM_##gpu_form,                                                             \
     .cpu = TUTTI_CPU_##gpu_cpu,                                                                \
     .pcie_generation = generation,                                                             \
     .nvlink_count = links,                                                                     \
     .nvlink_mbyte_per_s = link,                                                                \
     .c2c_count = c2c,                                                                          \
     .mem_mbyte_per_s = mem,                                                                    \
     .giga_flops = peak,                                                                        \
     .source = text},
static const struct tutti_gpu_model models[] = {
#include "topo/presets/models.inc"
};
#undef GPU

const struct tutti_gpu_model *tutti_gpu_model_at(size_t index)
{
    return index < sizeof(models) / sizeof(models[0]) ? &models[index] : NULL;
}

const struct tutti_gpu_model *tutti_gpu_model_find(const char *name)
{
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}
