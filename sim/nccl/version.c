/* The versions of NCCL that are known, by graph/tuning.cc and, before 2.20, enqueue.cc of its
 * repository at the tags v2.6.4-1, v2.7.3-1, v2.8.3-1, v2.10.3-1, v2.14.3-1, v2.15.1-1, v2.17.1-1,
 * v2.18.1-1, v2.18.3-1, v2.20.3-1, v2.21.5-1, v2.22.3-1, v2.24.3-1, v2.25.1-1, v2.26.2-1,
 * v2.28.9-1 and at 2.30.7; 2.12 by two forks of it (Oneflow-Inc/occl, dailiuyao/msccl-lyd), 2.19.3
 * by commit f983551 of that line; of 2.27 commit 72d2432, taken for 2.27.3 (its version file was
 * not seen); of 2.29.7 what NCCL's history says. Search, channels, chunks: 2.28.9 and 2.30.7 alone,
 * but where notes say otherwise. */
#include "sim/nccl/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/nccl/constants.h"

static const uint32_t ll128_of_volta[] = {70, 0};
static const uint32_t ll128_to_ampere[] = {70, 80, 0};
static const uint32_t ll128_to_hopper[] = {70, 80, 90, 0};
static const uint32_t ll128_to_blackwell[] = {70, 80, 90, 100, 120, 0};

/* Rules that held until a version: each has those of the later ones. */
#define UNTIL_2_26 .nvls_plain = true
#define UNTIL_2_24 UNTIL_2_26, .no_blackwell = true
#define UNTIL_2_22                                                                             \
    UNTIL_2_24, .nvls_plain_gather = true, .ring_ll128_lone = true, .lone_by_algorithm = true, \
                .no_pat = true, .ring_for_lack = true
#define UNTIL_2_21 UNTIL_2_22, .shares_in_turn = true
#define UNTIL_2_20 UNTIL_2_21, .ring_ll_quarter = true
#define UNTIL_2_19 UNTIL_2_20, .tree_chunks_by_depth = true
#define UNTIL_2_18                                                                             \
    UNTIL_2_19, .gathers_by_rings = true, .nvls_tree_by_nodes = true, .collnet_half_us = true, \
                .duplicates_last = true
#define UNTIL_2_18_1 \
    UNTIL_2_18, .nvls_three_quarters = true, .tree_pattern_free = true, .ll128_by_nvlink = true
#define UNTIL_2_17                                                                         \
    UNTIL_2_18_1, .no_nvls_tree = true, .nvls_by_rings = true, .collnet_chain_slow = true, \
                  .bus_capped = true, .ll_longer = true, .no_posts = true,                 \
                  .plateau_by_ranks = true, .channels_not_doubled = true
#define UNTIL_2_16 UNTIL_2_17, .no_nvls = true
#define UNTIL_2_12 UNTIL_2_16, .no_collnet_chain = true
#define UNTIL_2_10 UNTIL_2_12, .no_port_latency = true
#define UNTIL_2_8  UNTIL_2_10, .no_collnet = true, .tree_ll128_less = true
#define UNTIL_2_7  UNTIL_2_8, .tree_by_totals = true

/* Came and went. */
#define FROM_2_18_TO_2_19 .channels_doubled_to_32 = true
#define FROM_2_12_TO_2_22 .ring_twice_nodes = true
#define FROM_2_12_TO_2_17 FROM_2_12_TO_2_22, .latency_instead = true

#define TABLES_ONLY                 \
    "tables and rules of its own; " \
    "search, channels, chunks and messages as 2.28.9"
#define IN_TURN \
    "tables, rules and channels in turn of its own; search, chunks and messages as 2.28.9"
#define CHUNKS_TOO                                                            \
    "tables, rules, channels in turn and a tree's chunks of its own; search " \
    "and messages as 2.28.9"
#define DOUBLING_TOO                                                      \
    "tables, rules, channels in turn, a tree's chunks and when a search " \
    "doubles channels of its own; other search and messages as 2.28.9"
#define NO_COLLNET DOUBLING_TOO "; CollNet is not modelled"

static const struct tutti_nccl_version versions[] = {
    {
        .name = "2.6.4",
        .number = 20604,
        .note = NO_COLLNET,
        .constants = &tutti_nccl_of_20604,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {UNTIL_2_7, .as_in_2_6 = true, .no_plateau = true,
                    .ll128_computes = ll128_of_volta},
    },
    {
        .name = "2.7.3",
        .number = 20703,
        .note = NO_COLLNET,
        .constants = &tutti_nccl_of_20703,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {UNTIL_2_7, .ll128_computes = ll128_to_ampere},
    },
    {
        .name = "2.8.3",
        .number = 20803,
        .note = NO_COLLNET,
        .constants = &tutti_nccl_of_20803,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {UNTIL_2_8, .ll128_computes = ll128_to_ampere},
    },
    {
        .name = "2.10.3",
        .number = 21003,
        .note = DOUBLING_TOO,
        .constants = &tutti_nccl_of_21003,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {UNTIL_2_10, .ll128_computes = ll128_to_ampere},
    },
    {
        .name = "2.12.12",
        .number = 21212,
        .note = DOUBLING_TOO,
        .constants = &tutti_nccl_of_21212,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {UNTIL_2_12, FROM_2_12_TO_2_17, .ll128_computes = ll128_to_ampere},
    },
    {
        .name = "2.14.3",
        .number = 21403,
        .note = DOUBLING_TOO,
        .constants = &tutti_nccl_of_21003,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {UNTIL_2_16, FROM_2_12_TO_2_17, .ll128_computes = ll128_to_ampere},
    },
    {
        .name = "2.15.1",
        .number = 21501,
        .note = DOUBLING_TOO,
        .constants = &tutti_nccl_of_21501,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {UNTIL_2_16, FROM_2_12_TO_2_17, .ll128_computes = ll128_to_hopper},
    },
    {
        .name = "2.17.1",
        .number = 21701,
        .note = DOUBLING_TOO,
        .constants = &tutti_nccl_of_21701,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {UNTIL_2_17, FROM_2_12_TO_2_17, .ll128_computes = ll128_to_hopper},
    },
    {
        .name = "2.18.1",
        .number = 21801,
        .note = DOUBLING_TOO,
        .constants = &tutti_nccl_of_21801,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {UNTIL_2_18_1, FROM_2_12_TO_2_22, FROM_2_18_TO_2_19,
                    .ll128_computes = ll128_to_hopper},
    },
    {
        .name = "2.18.3",
        .number = 21803,
        .note = DOUBLING_TOO,
        .constants = &tutti_nccl_of_21803,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {UNTIL_2_18, FROM_2_12_TO_2_22, FROM_2_18_TO_2_19,
                    .ll128_computes = ll128_to_hopper},
    },
    {
        .name = "2.19.3",
        .number = 21903,
        .note = CHUNKS_TOO,
        .constants = &tutti_nccl_of_21903,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {UNTIL_2_19, FROM_2_12_TO_2_22, FROM_2_18_TO_2_19,
                    .ll128_computes = ll128_to_hopper},
    },
    {
        .name = "2.20.3",
        .number = 22003,
        .note = IN_TURN,
        .constants = &tutti_nccl_of_21903,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {UNTIL_2_20, FROM_2_12_TO_2_22, .ll128_computes = ll128_to_hopper},
    },
    {
        .name = "2.21.5",
        .number = 22105,
        .note = IN_TURN,
        .constants = &tutti_nccl_of_22105,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {UNTIL_2_21, FROM_2_12_TO_2_22, .ll128_computes = ll128_to_hopper},
    },
    {
        .name = "2.22.3",
        .number = 22203,
        .note = TABLES_ONLY,
        .constants = &tutti_nccl_of_22105,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {UNTIL_2_22, FROM_2_12_TO_2_22, .ll128_computes = ll128_to_hopper},
    },
    {
        .name = "2.24.3",
        .number = 22403,
        .note = TABLES_ONLY,
        .constants = &tutti_nccl_of_22403,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {UNTIL_2_24, .ll128_computes = ll128_to_hopper},
    },
    {
        .name = "2.25.1",
        .number = 22501,
        .note = TABLES_ONLY,
        .constants = &tutti_nccl_of_22501,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {UNTIL_2_26, .ll128_computes = ll128_to_blackwell},
    },
    {
        .name = "2.26.2",
        .number = 22602,
        .note = TABLES_ONLY,
        .constants = &tutti_nccl_of_22501,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {UNTIL_2_26, .ll128_computes = ll128_to_blackwell},
    },
    {
        .name = "2.27.3",
        .number = 22703,
        .note = TABLES_ONLY,
        .constants = &tutti_nccl_of_22501,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
        .changes = {.nvls_plain = true, .nvls_plain_peers = true},
    },
    {
        .name = "2.28.9",
        .number = 22809,
        .constants = &tutti_nccl_of_22809,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
    },
    {
        .name = "2.29.7",
        .number = 22907,
        .note = "as 2.28.9 but for the cap of LL128 rings on Blackwell",
        .constants = &tutti_nccl_of_22907,
        .batch_count_max = 10,
        .traffic_bytes_min = 16384,
    },
    {
        .name = "2.30.7",
        .number = 23007,
        .constants = &tutti_nccl_of_23007,
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
