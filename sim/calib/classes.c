/* The tables of classes; see classes.h. A class is named after its best known member. */
#include "sim/calib/classes.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

enum { PARTS = 4, WORD_BYTES = 24, ACCEPTED_BYTES = 512 };

/* Compute capabilities: NVIDIA's table of CUDA GPUs; AMD's by the number of gfx. H200 is one of
 * h100, GH200 one with C2C, and so on: NCCL sees no other difference. */
static const struct tutti_calib_class gpus[] = {
    {.name = "any"},
    {.name = "m40", .sm = 52},
    {.name = "p100", .sm = 60},
    {.name = "p40", .sm = 61},
    {.name = "v100", .sm = 70},
    {.name = "t4", .sm = 75},
    {.name = "a100", .sm = 80},
    {.name = "a10", .sm = 86},
    {.name = "ada", .sm = 89},
    {.name = "h100", .sm = 90},
    {.name = "gh200", .sm = 90, .c2c = true, .parent = 9},
    {.name = "b200", .sm = 100},
    {.name = "gb200", .sm = 100, .c2c = true, .parent = 11},
    {.name = "b300", .sm = 103, .parent = 11},
    {.name = "gb300", .sm = 103, .c2c = true, .parent = 13},
    {.name = "rtx50", .sm = 120},
    {.name = "mi50", .sm = 906},
    {.name = "mi100", .sm = 908},
    {.name = "mi250", .sm = 910},
    {.name = "mi300", .sm = 942},
    {.name = "mi350", .sm = 950},
};

/* Within a host, then networks. */
static const struct tutti_calib_class links[] = {
    [TUTTI_CALIB_LINK_ANY] = {.name = "any"},
    [TUTTI_CALIB_LINK_NVLINK] = {.name = "nvlink"},
    [TUTTI_CALIB_LINK_NVSWITCH] = {.name = "nvswitch", .parent = TUTTI_CALIB_LINK_NVLINK},
    [TUTTI_CALIB_LINK_XGMI] = {.name = "xgmi", .parent = TUTTI_CALIB_LINK_NVLINK},
    [TUTTI_CALIB_LINK_C2C] = {.name = "c2c", .parent = TUTTI_CALIB_LINK_NVLINK},
    [TUTTI_CALIB_LINK_ICI] = {.name = "ici", .parent = TUTTI_CALIB_LINK_NVLINK},
    [TUTTI_CALIB_LINK_GENERIC] = {.name = "generic", .parent = TUTTI_CALIB_LINK_NVLINK},
    [TUTTI_CALIB_LINK_PCIE] = {.name = "pcie"},
    [TUTTI_CALIB_LINK_HOST] = {.name = "host", .parent = TUTTI_CALIB_LINK_PCIE},
    [TUTTI_CALIB_LINK_ROOT] = {.name = "root"},
    [TUTTI_CALIB_LINK_NET] = {.name = "net"},
    [TUTTI_CALIB_LINK_NVLS] = {.name = "nvls"},
    [TUTTI_CALIB_LINK_NVLS_TREE] = {.name = "nvlstree", .parent = TUTTI_CALIB_LINK_NVLS},
    [TUTTI_CALIB_LINK_CPUNET] = {.name = "cpunet", .parent = TUTTI_CALIB_LINK_NET},
    [TUTTI_CALIB_LINK_PEER] = {.name = "peer", .parent = TUTTI_CALIB_LINK_ROOT},
    {.name = "ib", .parent = TUTTI_CALIB_LINK_NET},
    {.name = "roce", .parent = TUTTI_CALIB_LINK_NET},
    {.name = "efa", .parent = TUTTI_CALIB_LINK_NET},
    {.name = "slingshot", .parent = TUTTI_CALIB_LINK_NET},
    {.name = "tcp", .parent = TUTTI_CALIB_LINK_NET},
    {.name = "tcpx", .parent = TUTTI_CALIB_LINK_NET},
    {.name = "tcpxo", .parent = TUTTI_CALIB_LINK_NET},
    {.name = "dcn", .parent = TUTTI_CALIB_LINK_NET},
};

static const char *const quantities[TUTTI_CALIB_QUANTITY_COUNT] = {
    [TUTTI_CALIB_LAUNCH] = "launch_us",
    [TUTTI_CALIB_RANK] = "rank_us",
    [TUTTI_CALIB_CHANNEL] = "channel_us",
    [TUTTI_CALIB_EARLY_CHANNEL] = "early_channel_us",
    [TUTTI_CALIB_STEP] = "step_us",
    [TUTTI_CALIB_SLICE] = "slice_us",
    [TUTTI_CALIB_LANE] = "lane_GBps",
    [TUTTI_CALIB_PERCENT] = "link_percent",
    [TUTTI_CALIB_P2P_LAUNCH] = "p2p_launch_us",
    [TUTTI_CALIB_P2P_STEP] = "p2p_step_us",
    [TUTTI_CALIB_P2P_LANE] = "p2p_GBps",
    [TUTTI_CALIB_P2P_PERCENT] = "p2p_percent",
};

const struct tutti_calib_class *tutti_calib_gpu(size_t index)
{
    return index < COUNT(gpus) ? &gpus[index] : NULL;
}

const struct tutti_calib_class *tutti_calib_link(size_t index)
{
    return index < COUNT(links) ? &links[index] : NULL;
}

const char *tutti_calib_gpu_family(const char *name)
{
    for (size_t i = 0; i < COUNT(gpus); i++) {
        size_t family = i;

        if (strcmp(gpus[i].name, name) != 0)
            continue;
        while (gpus[family].parent != 0)
            family = gpus[family].parent;
        return gpus[family].name;
    }
    return name;
}

const char *tutti_calib_gpu_name(size_t index)
{
    return index < COUNT(gpus) ? gpus[index].name : NULL;
}

const char *tutti_calib_link_name(size_t index)
{
    return index < COUNT(links) ? links[index].name : NULL;
}

const char *tutti_calib_quantity_name(size_t index)
{
    return index < COUNT(quantities) ? quantities[index] : NULL;
}

static const char *protocol_name(size_t index)
{
    size_t count;
    const struct tutti_protocol *protocols = tutti_protocols(&count);

    return index < count ? protocols[index].name : NULL;
}

uint8_t tutti_calib_link_find(const char *name, enum tutti_calib_link other)
{
    for (size_t i = 0; i < COUNT(links); i++) {
        if (strcmp(links[i].name, name) == 0)
            return (uint8_t)i;
    }
    return (uint8_t)other;
}

/* ---- names ----------------------------------------------------------------------------------- */

static const struct {
    const char *what;
    const char *(*name)(size_t index);
} parts[PARTS] = {
    {"GPU", tutti_calib_gpu_name},
    {"link", tutti_calib_link_name},
    {"protocol", protocol_name},
    {"quantity", tutti_calib_quantity_name},
};

static int refuse_part(int part, const char *word, struct tutti_err *err)
{
    char accepted[ACCEPTED_BYTES] = "";
    char hint[TUTTI_HINT_BYTES];
    size_t used = 0;

    for (size_t i = 0; parts[part].name(i) != NULL && used < sizeof(accepted); i++)
        used += (size_t)snprintf(accepted + used, sizeof(accepted) - used, "%s%s", i > 0 ? " " : "",
                                 parts[part].name(i));
    return tutti_fail(err, TUTTI_EINVAL, "unknown %s '%s' (%s%s)", parts[part].what, word,
                      tutti_nearest_hint(word, accepted, hint), accepted);
}

static int read_part(int part, const char *word, uint8_t *ret, struct tutti_err *err)
{
    for (size_t i = 0; parts[part].name(i) != NULL; i++) {
        if (strcmp(parts[part].name(i), word) == 0) {
            *ret = (uint8_t)i;
            return 0;
        }
    }
    return refuse_part(part, word, err);
}

/* Of links that messages do not go by, what there is to know: bits of quantities, and whether of
 * Simple alone, which NVLS runs in. Any other value would be one that no machine asks for. */
static const struct {
    bool simple_only;
    uint32_t quantities; /* 0: all, of other links */
} limits[] = {
    [TUTTI_CALIB_LINK_ROOT] = {false, 1u << TUTTI_CALIB_PERCENT | 1u << TUTTI_CALIB_P2P_PERCENT},
    [TUTTI_CALIB_LINK_PEER] = {false, 1u << TUTTI_CALIB_PERCENT},
    [TUTTI_CALIB_LINK_NVLS] = {true, 1u << TUTTI_CALIB_LAUNCH | 1u << TUTTI_CALIB_STEP |
                                         1u << TUTTI_CALIB_SLICE | 1u << TUTTI_CALIB_LANE |
                                         1u << TUTTI_CALIB_PERCENT},
    [TUTTI_CALIB_LINK_NVLS_TREE] = {true, 1u << TUTTI_CALIB_PERCENT},
};

bool tutti_calib_key_is_used(struct tutti_calib_key key)
{
    if (key.link >= COUNT(limits) || limits[key.link].quantities == 0)
        return true;
    if (limits[key.link].simple_only && key.protocol + 1 < TUTTI_PROTOCOLS)
        return false;
    return (limits[key.link].quantities >> key.quantity & 1) != 0;
}

static int refuse_unused(const char *name, const struct tutti_calib_key *key, struct tutti_err *err)
{
    char accepted[ACCEPTED_BYTES] = "";
    size_t used = 0;

    for (size_t i = 0; i < COUNT(quantities); i++) {
        if ((limits[key->link].quantities >> i & 1) != 0)
            used += (size_t)snprintf(accepted + used, sizeof(accepted) - used, "%s%s",
                                     used > 0 ? " " : "", quantities[i]);
    }
    return tutti_fail(err, TUTTI_EINVAL, "'%.64s' is a value that nothing asks for (of %s: %s%s)",
                      name, links[key->link].name, accepted,
                      limits[key->link].simple_only ? ", of simple" : "");
}

int tutti_calib_key_read(const char *name, struct tutti_calib_key *ret, struct tutti_err *err)
{
    uint8_t numbers[PARTS] = {0};
    const char *at = name;
    struct tutti_calib_key key;

    if (tutti_calib_names_framework(name))
        return tutti_calib_framework_read(name, ret, err);
    for (int part = 0; part < PARTS; part++) {
        size_t bytes = strcspn(at, ".");
        char word[WORD_BYTES];
        int status;

        if (bytes == 0 || bytes >= sizeof(word) || (at[bytes] == '.') != (part + 1 < PARTS))
            return tutti_fail(err, TUTTI_EINVAL,
                              "'%.64s' names no parameter (GPU.LINK.PROTOCOL.QUANTITY, as "
                              "h100.nvswitch.ll.step_us)",
                              name);
        memcpy(word, at, bytes);
        word[bytes] = '\0';
        status = read_part(part, word, &numbers[part], err);
        if (status < 0)
            return status;
        at += bytes + 1;
    }
    key = (struct tutti_calib_key){numbers[0], numbers[1], numbers[2], numbers[3]};
    if (!tutti_calib_key_is_used(key))
        return refuse_unused(name, &key, err);
    *ret = key;
    return 0;
}

void tutti_calib_key_print(struct tutti_calib_key key, char name[TUTTI_CALIB_NAME_BYTES])
{
    int bytes;

    if (key.gpu == TUTTI_CALIB_FRAMEWORK) {
        tutti_calib_framework_print(key, name);
        return;
    }
    bytes = snprintf(name, TUTTI_CALIB_NAME_BYTES, "%s.%s.%s.%s", gpus[key.gpu].name,
                     links[key.link].name, protocol_name(key.protocol), quantities[key.quantity]);
    assert(bytes > 0 && bytes < TUTTI_CALIB_NAME_BYTES);
}
