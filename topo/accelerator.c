/* The catalogue of accelerators: looking one up, by name or as the machine's devices. */
#include "topo/accelerator.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "runtime/status.h"
#include "topo/topo.h"

#define GIGA UINT64_C(1000000000)
#define ACCELERATOR(device_name, maker, fp32, tf32, fp16, bf16, fp8, fp4, mib, mbyte_per_s, cores, \
                    mhz, power, text)                                                              \
    {.name = device_name,                                                                          \
     .vendor = maker,                                                                              \
     .flops_per_s = {fp32 * GIGA, tf32 * GIGA, fp16 * GIGA, bf16 * GIGA, fp8 * GIGA, fp4 * GIGA},  \
     .mem_bytes = (uint64_t)(mib) << 20,                                                           \
     .mem_bytes_per_s = (mbyte_per_s) * (GIGA / 1000),                                             \
     .units = cores,                                                                               \
     .clock_mhz = mhz,                                                                             \
     .watts = power,                                                                               \
     .source = text},
static const struct tutti_accelerator accelerators[] = {
#include "topo/presets/accelerators.inc"
};
#undef ACCELERATOR

enum { COUNT = sizeof(accelerators) / sizeof(accelerators[0]), NAMES_BYTES = 1024 };

const struct tutti_accelerator *tutti_accelerators(size_t *ret_count)
{
    *ret_count = COUNT;
    return accelerators;
}

/* ---- by name --------------------------------------------------------------------------------- */

/* What stands between the parts of a name, as vendors spell it: "A100-SXM4", "Gaudi(R) 2". */
static const char *skip_between(const char *text)
{
    for (;; text++) {
        if (strncasecmp(text, "(r)", 3) == 0)
            text += 2;
        else if (*text == '\0' || strchr(" -_", *text) == NULL)
            return text;
    }
}

/* Whether the text begins with the first `bytes` of the name, but for what stands between its
 * parts; *ret_rest is what follows. */
static bool begins(const char *text, const char *name, size_t bytes, const char **ret_rest)
{
    for (size_t i = 0; i < bytes; i++, text++) {
        text = i > 0 ? skip_between(text) : text;
        if (tolower((unsigned char)*text) != name[i])
            return false;
    }
    *ret_rest = text;
    return true;
}

/* Whether the word or number that ends before `rest` goes on in it. */
static bool goes_on(const char *rest)
{
    return isdigit((unsigned char)rest[0]) ||
           (isalpha((unsigned char)rest[-1]) && isalpha((unsigned char)rest[0]));
}

/* The characters of the name up to its form ("h100" of "h100-nvl") if the text has that, not as a
 * part of a longer word or number; 0: it has not. */
static size_t match_bytes(const char *text, const char *name)
{
    size_t bytes = strcspn(name, "-");
    const char *rest;

    for (const char *at = text; *at != '\0'; at++) {
        bool inside = at > text && isalnum((unsigned char)at[-1]) &&
                      !(at[-1] == 'x' && at > text + 1 && isdigit((unsigned char)at[-2]));

        if (!inside && begins(at, name, bytes, &rest) && !goes_on(rest))
            return bytes;
    }
    return 0;
}

/* How many parts of the form ("pcie" and "40g" of "a100-pcie-40g") the text has; -1: it lacks one.
 */
static int match_form(const char *text, const char *name)
{
    const char *part = name + strcspn(name, "-");
    const char *rest;
    int count = 0;

    for (; *part == '-'; count++) {
        size_t bytes = strcspn(++part, "-");
        const char *at = text;

        while (*at != '\0' && !begins(at, part, bytes, &rest))
            at++;
        if (*at == '\0')
            return -1;
        part += bytes;
    }
    return count;
}

/* That with the longest name in the text, and of its forms the one that the text says most of. */
static const struct tutti_accelerator *find_in(const char *text)
{
    const struct tutti_accelerator *best = NULL;
    size_t best_bytes = 0;
    int best_form = 0;

    for (size_t i = 0; i < COUNT; i++) {
        size_t bytes = match_bytes(text, accelerators[i].name);
        int form = match_form(text, accelerators[i].name);

        if (bytes == 0 || form < 0 || bytes < best_bytes ||
            (bytes == best_bytes && form <= best_form && best != NULL))
            continue;
        best = &accelerators[i];
        best_bytes = bytes;
        best_form = form;
    }
    return best;
}

static const struct tutti_accelerator *find_exactly(const char *name, size_t bytes)
{
    for (size_t i = 0; i < COUNT; i++)
        if (strlen(accelerators[i].name) == bytes &&
            strncasecmp(accelerators[i].name, name, bytes) == 0)
            return &accelerators[i];
    return NULL;
}

/* Chips by the name of their generation. */
static const char *const also[][2] = {{"trillium", "tpu-v6e"}, {"ironwood", "tpu-v7x"},
                                      {"tpu7x", "tpu-v7x"},    {"v5litepod", "tpu-v5e"},
                                      {"vega20", "radeonvii"}, {"hl205", "gaudi"}};

int tutti_accelerator_find(const char *name, const struct tutti_accelerator **ret,
                           struct tutti_err *err)
{
    const struct tutti_accelerator *found = find_exactly(name, strlen(name));
    char names[NAMES_BYTES] = "";
    char hint[TUTTI_HINT_BYTES];
    size_t used = 0;

    for (size_t i = 0; i < sizeof(also) / sizeof(also[0]) && found == NULL; i++)
        if (match_bytes(name, also[i][0]) > 0)
            found = find_exactly(also[i][1], strlen(also[i][1]));
    if (found == NULL)
        found = find_in(name);
    if (found != NULL) {
        *ret = found;
        return 0;
    }
    for (size_t i = 0; i < COUNT && used < sizeof(names); i++)
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "",
                                 accelerators[i].name);
    return tutti_fail(err, TUTTI_EINVAL, "unknown accelerator '%.40s' (%s%s)", name,
                      tutti_nearest_hint(name, names, hint), names);
}

/* ---- of a machine ---------------------------------------------------------------------------- */

/* Those of the presets that are machines of one device. */
static const char *const machines[][2] = {
    {"dgx-1p", "p100"},   {"dgx-1v", "v100"},      {"dgx-2", "v100-32g"}, {"dgx-a100", "a100"},
    {"dgx-h100", "h100"}, {"hgx-h200", "h200"},    {"hgx-b200", "b200"},  {"hgx-b300", "b300"},
    {"mi300x", "mi300x"}, {"gb200-nvl72", "gb200"}};

/* By the SPEC that made the machine; NULL: it does not say. */
static const struct tutti_accelerator *find_by_spec(const char *spec)
{
    size_t bytes = strcspn(spec, ":");
    const char *item = spec + bytes;

    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
        if (strlen(machines[i][0]) == bytes && strncmp(spec, machines[i][0], bytes) == 0)
            return find_exactly(machines[i][1], strlen(machines[i][1]));
    if (strncmp(spec, "tpu-", 4) == 0)
        return find_exactly(spec, bytes);
    for (; *item == ':' || *item == ','; item += strcspn(item, ",")) {
        item++;
        if (strncmp(item, "gpu=", 4) == 0)
            return find_exactly(item + 4, strcspn(item + 4, ","));
    }
    return strncmp(spec, "host", bytes) == 0 && bytes == 4 ? find_exactly("h100", 4) : NULL;
}

static uint64_t peak_at_16_bits(const struct tutti_accelerator *accelerator)
{
    const uint64_t *peaks = accelerator->flops_per_s;

    return peaks[TUTTI_PRECISION_BF16] > 0 ? peaks[TUTTI_PRECISION_BF16]
                                           : peaks[TUTTI_PRECISION_FP16];
}

/* Alike but for a part in `share` of each figure; presets of machines round theirs. */
static bool is_like(const struct tutti_accelerator *accelerator, const struct tutti_node *node,
                    uint64_t share)
{
    const uint64_t theirs[2] = {accelerator->mem_bytes_per_s, peak_at_16_bits(accelerator)};
    const uint64_t ours[2] = {node->mem_bytes_per_s, node->flops_per_s};

    for (int i = 0; i < 2; i++) {
        uint64_t off = theirs[i] > ours[i] ? theirs[i] - ours[i] : ours[i] - theirs[i];

        if (off > theirs[i] / share)
            return false;
    }
    return true;
}

const struct tutti_accelerator *tutti_topo_accelerator(const struct tutti_topo *topo)
{
    const struct tutti_node first = tutti_topo_node(topo, tutti_topo_rank_node(topo, 0));
    const struct tutti_accelerator *found = find_by_spec(topo->name);

    if (found != NULL && is_like(found, &first, 32))
        return found; /* presets build devices that are all alike */
    if (first.mem_bytes_per_s == 0 && first.flops_per_s == 0)
        return NULL;
    found = NULL;
    for (size_t i = 0; i < COUNT && found == NULL; i++)
        if (is_like(&accelerators[i], &first, UINT64_MAX))
            found = &accelerators[i];
    for (uint32_t r = 1; r < topo->rank_count && found != NULL; r++) {
        const struct tutti_node node = tutti_topo_node(topo, tutti_topo_rank_node(topo, r));

        if (!is_like(found, &node, UINT64_MAX))
            found = NULL;
    }
    return found;
}

/* ---- precisions ------------------------------------------------------------------------------ */

uint64_t tutti_accelerator_flops(const struct tutti_accelerator *accelerator,
                                 enum tutti_precision precision)
{
    /* From the widest on; bf16 holds what fp16 does, which is not so the other way round. */
    static const enum tutti_precision wider[TUTTI_PRECISION_COUNT] = {
        [TUTTI_PRECISION_FP32] = TUTTI_PRECISION_FP32,
        [TUTTI_PRECISION_TF32] = TUTTI_PRECISION_FP32,
        [TUTTI_PRECISION_FP16] = TUTTI_PRECISION_BF16,
        [TUTTI_PRECISION_BF16] = TUTTI_PRECISION_TF32,
        [TUTTI_PRECISION_FP8] = TUTTI_PRECISION_FP16,
        [TUTTI_PRECISION_FP4] = TUTTI_PRECISION_FP8};

    while (accelerator->flops_per_s[precision] == 0 && wider[precision] != precision)
        precision = wider[precision];
    return accelerator->flops_per_s[precision];
}

static const char *const precisions[TUTTI_PRECISION_COUNT] = {"fp32", "tf32", "fp16",
                                                              "bf16", "fp8",  "fp4"};

const char *tutti_precision_name(enum tutti_precision precision)
{
    return precisions[precision];
}

int tutti_precision_find(const char *name, enum tutti_precision *ret, struct tutti_err *err)
{
    static const char all[] = "fp32 tf32 fp16 bf16 fp8 fp4 amp mixed";
    char hint[TUTTI_HINT_BYTES];

    for (size_t i = 0; i < TUTTI_PRECISION_COUNT; i++) {
        if (strcasecmp(name, precisions[i]) != 0)
            continue;
        *ret = (enum tutti_precision)i;
        return 0;
    }
    if (strcasecmp(name, "amp") == 0 || strcasecmp(name, "mixed") == 0) {
        *ret = TUTTI_PRECISION_FP16;
        return 0;
    }
    return tutti_fail(err, TUTTI_EINVAL, "unknown precision '%.40s' (%s%s)", name,
                      tutti_nearest_hint(name, all, hint), all);
}
