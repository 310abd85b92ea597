/* The versions of NCCL that are known, and their constants: graph/tuning.cc of NCCL's repository at
 * the tags v2.20.3-1, v2.21.5-1, v2.22.3-1, v2.24.3-1, v2.25.1-1, v2.26.2-1, v2.28.9-1 and at
 * 2.30.7; of 2.27 commit 72d2432, taken for 2.27.3 (its version file was not seen); of 2.29.7 what
 * NCCL's history says. Search, channels, chunks: 2.28.9 and 2.30.7 alone. */
#include "sim/nccl/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

/* What has not changed since 2.20: LL and LL128, rings, CollNet inside and between nodes. */
#define BASE(tree_simple, pat) \
    .base_us = {{6.8, 14.0, tree_simple}, {6.6, 14.0, 8.4}, [TUTTI_NCCL_PAT] = {pat, pat, pat}}

#define STEPS(tree, tree_net, nvls, nvls_tree_net) \
    .step_us = {                                   \
        [TUTTI_WIRE_NVLINK] = {{0.6, 1.25, tree},  \
                               {0.6, 1.9, 3.4},    \
                               {0, 0, 3.7},        \
                               {0, 0, 2.8},        \
                               {0, 0, nvls},       \
                               {0, 0, nvls},       \
                               {0, 0, 4}},         \
        [TUTTI_WIRE_PCI] = {{1, 1.9, tree},        \
                            {1, 2.5, 5.7},         \
                            {0, 0, 3.7},           \
                            {0, 0, 2.8},           \
                            {0, 0, 0},             \
                            {0, 0, 0},             \
                            {0, 0, 4}},            \
        [TUTTI_WIRE_NET] = {{5, 8.5, tree_net},    \
                            {2.7, 4, 14},          \
                            {0, 0, 31},            \
                            {0, 0, 30},            \
                            {0, 0, 18},            \
                            {0, 0, nvls_tree_net}, \
                            {0, 0, 14}},           \
    }

#define CORRECTION                                                                                \
    .tree_correction = {                                                                          \
        {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},  \
        {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1}, \
        {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,                                          \
         .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},                                         \
    }

#define LL .ll_GBps = {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}}

/* Of Blackwell; the rows before it never changed. */
#define RING_LL128(...) \
    .ring_ll128_GBps = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {__VA_ARGS__}}
#define TREE_LL128(...) \
    .tree_ll128_GBps = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {__VA_ARGS__}}
#define TREE(...) .tree_GBps = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {__VA_ARGS__}}
#define NVLS_TREE(...) \
    .nvls_tree_GBps = {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {__VA_ARGS__}}
#define NVLS .nvls_efficiency = {0, 0, 0.85, 0.74}

#define SINCE_22803                                                                    \
    BASE(8.4, 8), STEPS(4, 14, 25, 20.9), CORRECTION, LL, TREE_LL128(55.6, 31.67, 20), \
        TREE(70, 42.8, 24), NVLS

static const struct tutti_nccl_constants of_22003 = {
    BASE(0, 0),    STEPS(28, 28, 23, 14),
    CORRECTION,    .ll_GBps = {{39, 39, 20.4}, {87.7, 22.5, 19}, {87.7, 22.5, 19}},
    RING_LL128(0), TREE_LL128(0),
    TREE(0),
};

static const struct tutti_nccl_constants of_22105 = {
    BASE(0, 0), STEPS(28, 28, 25, 14), CORRECTION, LL, RING_LL128(0), TREE_LL128(0), TREE(0),
};

static const struct tutti_nccl_constants of_22403 = {
    BASE(8.4, 8), STEPS(4, 14, 25, 14), CORRECTION, LL, RING_LL128(0), TREE_LL128(0), TREE(0),
};

static const struct tutti_nccl_constants of_22501 = {
    BASE(8.4, 8),
    STEPS(4, 14, 25, 14),
    CORRECTION,
    LL,
    RING_LL128(73.4, 73.4, 73.4),
    TREE_LL128(73.4, 73.4, 58),
    TREE(77.4, 82.8, 72),
};

static const struct tutti_nccl_constants of_22809 = {SINCE_22803, RING_LL128(73.4, 34.6, 73.4),
                                                     NVLS_TREE(0, 96, 43.8)};

static const struct tutti_nccl_constants of_22907 = {SINCE_22803, RING_LL128(40, 40, 40),
                                                     NVLS_TREE(0, 96, 43.8)};

static const struct tutti_nccl_constants of_23007 = {SINCE_22803, RING_LL128(40, 40, 40),
                                                     NVLS_TREE(0, 96, 80)};

static const uint32_t ll128_to_hopper[] = {70, 80, 90, 0};
static const uint32_t ll128_to_blackwell[] = {70, 80, 90, 100, 120, 0};

#define TABLES_ONLY "tables and rules of its own; search, channels, chunks and messages as 2.28.9"

static const struct tutti_nccl_version versions[] = {
    {
        .name = "2.20.3",
        .number = 22003,
        .note = "tables, rules and channels in turn of its own; search, chunks and messages as "
                "2.28.9",
        .constants = &of_22003,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {.no_blackwell = true,
                    .nvls_plain = true,
                    .nvls_plain_gather = true,
                    .ring_twice_nodes = true,
                    .ring_ll128_lone = true,
                    .ring_ll_quarter = true,
                    .lone_by_algorithm = true,
                    .no_pat = true,
                    .ring_for_lack = true,
                    .ll128_computes = ll128_to_hopper,
                    .shares_in_turn = true},
    },
    {
        .name = "2.21.5",
        .number = 22105,
        .note = "tables, rules and channels in turn of its own; search, chunks and messages as "
                "2.28.9",
        .constants = &of_22105,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {.no_blackwell = true,
                    .nvls_plain = true,
                    .nvls_plain_gather = true,
                    .ring_twice_nodes = true,
                    .ring_ll128_lone = true,
                    .lone_by_algorithm = true,
                    .no_pat = true,
                    .ring_for_lack = true,
                    .ll128_computes = ll128_to_hopper,
                    .shares_in_turn = true},
    },
    {
        .name = "2.22.3",
        .number = 22203,
        .note = TABLES_ONLY,
        .constants = &of_22105,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {.no_blackwell = true,
                    .nvls_plain = true,
                    .nvls_plain_gather = true,
                    .ring_twice_nodes = true,
                    .ring_ll128_lone = true,
                    .lone_by_algorithm = true,
                    .no_pat = true,
                    .ring_for_lack = true,
                    .ll128_computes = ll128_to_hopper},
    },
    {
        .name = "2.24.3",
        .number = 22403,
        .note = TABLES_ONLY,
        .constants = &of_22403,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {.no_blackwell = true, .nvls_plain = true, .ll128_computes = ll128_to_hopper},
    },
    {
        .name = "2.25.1",
        .number = 22501,
        .note = TABLES_ONLY,
        .constants = &of_22501,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {.nvls_plain = true, .ll128_computes = ll128_to_blackwell},
    },
    {
        .name = "2.26.2",
        .number = 22602,
        .note = TABLES_ONLY,
        .constants = &of_22501,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {.nvls_plain = true, .ll128_computes = ll128_to_blackwell},
    },
    {
        .name = "2.27.3",
        .number = 22703,
        .note = TABLES_ONLY,
        .constants = &of_22501,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {.nvls_plain = true, .nvls_plain_peers = true},
    },
    {
        .name = "2.28.9",
        .number = 22809,
        .constants = &of_22809,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
    },
    {
        .name = "2.29.7",
        .number = 22907,
        .note = "as 2.28.9 but for the cap of LL128 rings on Blackwell",
        .constants = &of_22907,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
    },
    {
        .name = "2.30.7",
        .number = 23007,
        .constants = &of_23007,
        .batch_count_max = 8,
        .traffic_bytes_min = 32768,
        .speeds_45 = true,
        .amd_rates = true,
        .changes = {.ll128_across_gpus = true,
                    .nvls_tree_corrected = true,
                    .traffic_rounded = true,
                    .nvls_tree_table = true,
                    .p2p_ll_by_used_channels = true},
    },
};

enum { VERSION_COUNT = sizeof(versions) / sizeof(versions[0]), ARGUMENTS_VERSION = 22200 };

const struct tutti_nccl_version *tutti_nccl_version_at(size_t index)
{
    return index < VERSION_COUNT ? &versions[index] : NULL;
}

const char *tutti_nccl_version_name(const struct tutti_nccl_version *version)
{
    return version->name;
}

const char *tutti_nccl_version_note(const struct tutti_nccl_version *version)
{
    return version->note;
}

const struct tutti_nccl_version *tutti_nccl_version_default(void)
{
    for (size_t i = 0; i < VERSION_COUNT; i++) {
        if (versions[i].number == 22809)
            return &versions[i];
    }
    return &versions[VERSION_COUNT - 1];
}

bool tutti_nccl_version_is_early(const struct tutti_nccl_version *version)
{
    return version != NULL && version->number < ARGUMENTS_VERSION;
}

/* "2.28" and "2.28.9" into 22800 and 22809, "22809" into itself; `ret_series`: no patch was named.
 * NCCL's own code: from 2.9 on, 10000 times the major, 100 times the minor number. */
static int read_number(const char *name, uint32_t *ret, bool *ret_series)
{
    unsigned long part[3] = {0, 0, 0};
    const char *at = name;
    int count = 0;

    for (; count < 3; count++) {
        char *end = NULL;

        if (*at < '0' || *at > '9')
            return -TUTTI_EINVAL;
        part[count] = strtoul(at, &end, 10);
        if (part[count] > 99999)
            return -TUTTI_EINVAL;
        at = end;
        if (*at != '.')
            break;
        at++;
    }
    if (*at != '\0' || count > 2 || (count > 0 && (part[0] > 9 || part[1] > 99 || part[2] > 99)))
        return -TUTTI_EINVAL;
    *ret_series = count == 1;
    *ret = count == 0 ? (uint32_t)part[0] : (uint32_t)(10000 * part[0] + 100 * part[1] + part[2]);
    return 0;
}

static int unknown(const char *name, struct tutti_err *err)
{
    char list[256] = "";
    size_t used = 0;

    for (size_t i = 0; i < VERSION_COUNT; i++) {
        int length = snprintf(list + used, sizeof(list) - used, "%s, ", versions[i].name);

        used += length > 0 ? (size_t)length : 0;
    }
    return tutti_fail(err, TUTTI_EINVAL,
                      "unknown version of NCCL '%s' (%sa series as 2.28, 22809, or latest)", name,
                      list);
}

int tutti_nccl_version_find(const char *name, const struct tutti_nccl_version **ret,
                            struct tutti_err *err)
{
    const struct tutti_nccl_version *found = NULL;
    uint32_t number = 0;
    bool series = false;

    if (strcmp(name, "latest") == 0) {
        *ret = &versions[VERSION_COUNT - 1];
        return 0;
    }
    if (read_number(name, &number, &series) < 0 || number < versions[0].number / 100 * 100 ||
        number / 100 > versions[VERSION_COUNT - 1].number / 100)
        return unknown(name, err);
    if (series)
        number += 99;
    for (size_t i = 0; i < VERSION_COUNT; i++) { /* oldest first */
        if (versions[i].number <= number || found == NULL)
            found = &versions[i];
    }
    *ret = found;
    return 0;
}

const struct tutti_nccl_version *tutti_nccl_version_near(const char *name)
{
    const struct tutti_nccl_version *found = NULL;
    uint32_t number = 0;
    bool series = false;

    if (tutti_nccl_version_find(name, &found, NULL) == 0)
        return found;
    if (read_number(name, &number, &series) < 0)
        return NULL;
    return &versions[number < versions[0].number ? 0 : VERSION_COUNT - 1];
}
