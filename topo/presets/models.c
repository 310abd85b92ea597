/* Looking up a GPU in the catalogue. */
#include "topo/presets/models.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "runtime/status.h"
#include "topo/hardware.h"

enum { RACK_TRAYS = 18 }; /* GB200 NVL72: four GPUs on each */

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

static bool says(const char *text, const char *word, size_t bytes)
{
    while (*text != '\0' && strncasecmp(text, word, bytes) != 0)
        text++;
    return *text != '\0';
}

/* How many parts of the model's form ("pcie" and "40g" of "a100-pcie-40g") the text has; -1: it
 * lacks one. */
static int match_form(const char *text, const char *name)
{
    const char *part = name + strcspn(name, "-");
    int count = 0;

    for (; *part == '-'; count++) {
        size_t bytes = strcspn(++part, "-");

        if (!says(text, part, bytes))
            return -1;
        part += bytes;
    }
    return count;
}

/* The model with the longest name in the text, and of its forms the one that the text says most of.
 * A hyphen ends a name in the text as a blank does: "A100-PCIE-40GB". */
const struct tutti_gpu_model *tutti_gpu_model_of_device(const char *device)
{
    const struct tutti_gpu_model *best = NULL;
    size_t best_bytes = 0;
    int best_form = 0;

    for (const char *at = device; *at != '\0'; at++) {
        for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
            size_t bytes = match_bytes(at, models[i].name);
            int form = match_form(device, models[i].name);

            if (bytes == 0 || form < 0 || bytes < best_bytes ||
                (bytes == best_bytes && form <= best_form && best != NULL))
                continue;
            best = &models[i];
            best_bytes = bytes;
            best_form = form;
        }
    }
    return best;
}

uint32_t tutti_hw_device_sm(const char *device)
{
    const struct tutti_gpu_model *model = tutti_gpu_model_of_device(device);

    return model != NULL ? model->sm : 0;
}

int tutti_hw_device_spec(const char *device, uint32_t gpu_count, uint32_t host_count,
                         const char *net, char *spec, size_t spec_bytes, struct tutti_err *err)
{
    const struct tutti_gpu_model *model = tutti_gpu_model_of_device(device);
    const char *hosts = "nodes";
    size_t used;

    /* A card of a GPU that the catalogue has on boards alone ("NVIDIA A800 80GB PCIe") is another.
     */
    if (model == NULL || (model->form == TUTTI_FORM_BOARD && says(device, "pcie", 4)))
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s' is no GPU that 'tutti topo list host' knows (a SPEC)", device);
    if (model->form == TUTTI_FORM_TRAY && host_count > 1) {
        hosts = "trays";
        net = "";
        if (host_count > RACK_TRAYS)
            return tutti_fail(err, TUTTI_EINVAL,
                              "%" PRIu32 " hosts of '%s' are more than one rack has (a SPEC that "
                              "says which trays= are a node)",
                              host_count, device);
    }
    used = (size_t)snprintf(spec, spec_bytes, "host:gpu=%s,gpus=%" PRIu32, model->name, gpu_count);
    if (host_count > 1 && used < spec_bytes)
        used += (size_t)snprintf(spec + used, spec_bytes - used, ",%s=%" PRIu32 "%s%s", hosts,
                                 host_count, net[0] != '\0' ? ",net=" : "", net);
    if (used >= spec_bytes)
        return tutti_fail(err, TUTTI_EINVAL, "no SPEC is so long");
    return 0;
}
