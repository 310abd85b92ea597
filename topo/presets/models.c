/* Looking up a GPU in the catalogue. */
#include "topo/presets/models.h"

#include <ctype.h>
#include <string.h>

#include "topo/hardware.h"

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

/* Characters of the name up to its form ("h100" of "h100-nvl") with which the text begins, but for
 * blanks and hyphens within; 0: it does not, or goes on as a longer number does. */
static size_t match_bytes(const char *text, const char *name)
{
    size_t bytes = strcspn(name, "-");

    for (size_t i = 0; i < bytes; text++) {
        if (tolower((unsigned char)*text) == name[i])
            i++;
        else if (i == 0 || (*text != ' ' && *text != '-'))
            return 0;
    }
    return isdigit((unsigned char)*text) ? 0 : bytes;
}

uint32_t tutti_hw_device_sm(const char *device)
{
    size_t best = 0;
    uint32_t sm = 0;

    for (const char *at = device; *at != '\0'; at++) {
        for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
            size_t bytes = match_bytes(at, models[i].name);

            if (bytes > best) {
                best = bytes;
                sm = models[i].sm;
            }
        }
    }
    return sm;
}
