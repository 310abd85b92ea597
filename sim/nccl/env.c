/* NCCL_* variables read in NCCL's own grammar (2.28 param.h, tuning.cc parseList, paths.cc
 * ncclGetLevel). Where NCCL would print a warning and go on with its default, we refuse. */
#include "sim/nccl/env.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/nccl/env_list.h"

enum { LIST_BYTES_MAX = 4096 };

#define NONE(field) .field = TUTTI_NCCL_UNSET
#define EACH(...)   {__VA_ARGS__}, {__VA_ARGS__}, {__VA_ARGS__}, {__VA_ARGS__}, {__VA_ARGS__},
#define THREE                                                \
    {                                                        \
        TUTTI_NCCL_UNSET, TUTTI_NCCL_UNSET, TUTTI_NCCL_UNSET \
    }

static const struct tutti_nccl_env none = {
    .algorithms = {EACH(1, 1, 1, 1, 1, 1, 1)},
    .protocols = {EACH(TUTTI_NCCL_ON, TUTTI_NCCL_AUTO, TUTTI_NCCL_ON)},
    .thread_thresholds = {THREE, THREE},
    NONE(min_nchannels),
    NONE(max_nchannels),
    NONE(min_nrings),
    NONE(max_nrings),
    NONE(min_ctas),
    NONE(max_ctas),
    NONE(nthreads),
    NONE(ll128_nthreads),
    NONE(buffsize),
    NONE(ll_buffsize),
    NONE(ll128_buffsize),
    NONE(nvls_chunksize),
    NONE(nvlstree_max_chunksize),
    NONE(p2p_ll_threshold),
    NONE(p2p_net_chunksize),
    NONE(p2p_pci_chunksize),
    NONE(p2p_nvl_chunksize),
    NONE(nvls_enable),
    NONE(collnet_enable),
    NONE(collnet_node_threshold),
    NONE(pat_enable),
    NONE(msccl_enable),
    NONE(tuner_plugin),
    NONE(net_overhead_ns),
    NONE(ll128_c2c),
    NONE(p2p_level),
    NONE(net_gdr_level),
    NONE(p2p_disable),
    NONE(shm_disable),
    NONE(pxn_disable),
    NONE(nvb_disable),
    NONE(net_gdr_read),
    NONE(pxn_c2c),
    NONE(cross_nic),
    NONE(netdevs_policy),
    NONE(netdevs_max),
};

/* ---- the readers --------------------------------------------------------------------------- */

struct variable {
    const char *name;
    int (*read)(const struct variable *variable, struct tutti_nccl_env *env, const char *value,
                struct tutti_err *err);
    size_t offset; /* of the int64_t that it sets */
    int64_t min, max;
};

static int64_t *field_of(const struct variable *variable, struct tutti_nccl_env *env)
{
    return (int64_t *)(void *)((char *)env + variable->offset);
}

/* As strtoll with base 0: decimal, 0x and 0 octal; nothing may follow. */
static int read_whole(const char *text, int64_t *ret)
{
    char *end = NULL;
    long long value;

    errno = 0;
    value = strtoll(text, &end, 0);
    if (errno != 0 || end == text || *end != '\0')
        return -TUTTI_EINVAL;
    *ret = value;
    return 0;
}

static int read_number(const struct variable *variable, struct tutti_nccl_env *env,
                       const char *value, struct tutti_err *err)
{
    int64_t number;

    if (read_whole(value, &number) < 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s is no number: '%s' (a whole number, without K or M)", variable->name,
                          value);
    if (number < variable->min || number > variable->max)
        return tutti_fail(err, TUTTI_EINVAL, "%s is out of range: '%s' (%lld to %lld)",
                          variable->name, value, (long long)variable->min,
                          (long long)variable->max);
    *field_of(variable, env) = number;
    return 0;
}

/* A path's name, or the old numbers 0 to 5, larger ones as 5 (2.28 paths.cc levelsOldToNew). */
static int read_level(const struct variable *variable, struct tutti_nccl_env *env,
                      const char *value, struct tutti_err *err)
{
    static const uint8_t of_number[] = {TUTTI_PATH_LOC, TUTTI_PATH_PIX, TUTTI_PATH_PXB,
                                        TUTTI_PATH_PHB, TUTTI_PATH_SYS, TUTTI_PATH_SYS};
    int64_t number;

    for (int path = TUTTI_PATH_LOC; path <= TUTTI_PATH_SYS; path++) {
        if (strcmp(value, tutti_nccl_path_name((enum tutti_nccl_path_type)path)) == 0) {
            *field_of(variable, env) = path;
            return 0;
        }
    }
    if (read_whole(value, &number) < 0 || number < 0)
        return tutti_fail(
            err, TUTTI_EINVAL,
            "%s is no level: '%s' (LOC NVL NVB C2C PIX PXB P2C PXN PHB SYS or 0 to 5)",
            variable->name, value);
    *field_of(variable, env) = of_number[number < 5 ? number : 5];
    return 0;
}

static int read_netdevs(const struct variable *variable, struct tutti_nccl_env *env,
                        const char *value, struct tutti_err *err)
{
    int64_t number = 0;

    if (strcasecmp(value, "AUTO") == 0) {
        env->netdevs_policy = TUTTI_NETDEVS_AUTO;
        return 0;
    }
    if (strcasecmp(value, "ALL") == 0) {
        env->netdevs_policy = TUTTI_NETDEVS_ALL;
        return 0;
    }
    if (strncasecmp(value, "MAX:", 4) != 0 || read_whole(value + 4, &number) < 0 || number < 1 ||
        number > UINT16_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "%s is no policy: '%s' (AUTO, ALL or MAX:1 and up)",
                          variable->name, value);
    env->netdevs_policy = TUTTI_NETDEVS_MAX;
    env->netdevs_max = number;
    return 0;
}

static int read_thresholds(const struct variable *variable, struct tutti_nccl_env *env,
                           const char *value, struct tutti_err *err)
{
    int64_t numbers[2][TUTTI_NCCL_PROTOCOL_COUNT];
    const char *at = value;

    for (int i = 0; i < 2 * TUTTI_NCCL_PROTOCOL_COUNT; i++) {
        char *end = NULL;
        long long number;

        errno = 0;
        number = strtoll(at, &end, 0);
        if (errno != 0 || end == at || *end != (i < 5 ? ' ' : '\0') || number < -2 ||
            number > INT32_MAX)
            return tutti_fail(
                err, TUTTI_EINVAL,
                "%s is not six numbers: '%s' (bytes a thread, divided by blanks: tree "
                "LL, LL128, Simple, ring LL, LL128, Simple; -2: NCCL's own)",
                variable->name, value);
        numbers[i / 3][i % 3] = number < 0 ? TUTTI_NCCL_UNSET : number;
        at = end + 1;
    }
    memcpy(env->thread_thresholds, numbers, sizeof(numbers));
    return 0;
}

static int read_algorithms(const struct variable *variable, struct tutti_nccl_env *env,
                           const char *value, struct tutti_err *err)
{
    (void)variable;
    return tutti_nccl_read_algorithms(value, env->algorithms, err);
}

static int read_protocols(const struct variable *variable, struct tutti_nccl_env *env,
                          const char *value, struct tutti_err *err)
{
    (void)variable;
    return tutti_nccl_read_protocols(value, env->protocols, err);
}

static int read_tuner(const struct variable *variable, struct tutti_nccl_env *env,
                      const char *value, struct tutti_err *err)
{
    (void)variable;
    (void)err;
    env->tuner_plugin = strcmp(value, "none") != 0;
    return 0;
}

static int read_rings(const struct variable *variable, struct tutti_nccl_env *env,
                      const char *value, struct tutti_err *err)
{
    (void)variable;
    return tutti_nccl_read_rings(value, &env->rings, err);
}

#define AT(field) offsetof(struct tutti_nccl_env, field)

static const struct variable variables[] = {
    {"NCCL_ALGO", read_algorithms, 0, 0, 0},
    {"NCCL_BUFFSIZE", read_number, AT(buffsize), 4096, INT32_MAX},
    {"NCCL_COLLNET_ENABLE", read_number, AT(collnet_enable), 0, 1},
    {"NCCL_COLLNET_NODE_THRESHOLD", read_number, AT(collnet_node_threshold), 0, INT32_MAX},
    {"NCCL_CROSS_NIC", read_number, AT(cross_nic), 0, 2},
    {"NCCL_GRAPH_FILE", read_rings, 0, 0, 0},
    {"NCCL_LL128_BUFFSIZE", read_number, AT(ll128_buffsize), 1024 * 15, INT32_MAX},
    {"NCCL_LL128_C2C", read_number, AT(ll128_c2c), 0, 1},
    {"NCCL_LL128_NTHREADS", read_number, AT(ll128_nthreads), 1, 1024},
    {"NCCL_LL_BUFFSIZE", read_number, AT(ll_buffsize), 4096, INT32_MAX},
    {"NCCL_MAX_CTAS", read_number, AT(max_ctas), 1, TUTTI_NCCL_CHANNELS_MAX},
    {"NCCL_MAX_NCHANNELS", read_number, AT(max_nchannels), 1, INT32_MAX},
    {"NCCL_MAX_NRINGS", read_number, AT(max_nrings), 1, INT32_MAX},
    {"NCCL_MIN_CTAS", read_number, AT(min_ctas), 1, TUTTI_NCCL_CHANNELS_MAX},
    {"NCCL_MIN_NCHANNELS", read_number, AT(min_nchannels), 0, INT32_MAX},
    {"NCCL_MIN_NRINGS", read_number, AT(min_nrings), 0, INT32_MAX},
    {"NCCL_NETDEVS_POLICY", read_netdevs, 0, 0, 0},
    {"NCCL_NET_GDR_LEVEL", read_level, AT(net_gdr_level), 0, 0},
    {"NCCL_NET_GDR_READ", read_number, AT(net_gdr_read), 0, 1},
    {"NCCL_NET_OVERHEAD", read_number, AT(net_overhead_ns), 0, INT32_MAX},
    {"NCCL_NTHREADS", read_number, AT(nthreads), 1, 1024},
    {"NCCL_NVB_DISABLE", read_number, AT(nvb_disable), 0, 1},
    {"NCCL_NVLSTREE_MAX_CHUNKSIZE", read_number, AT(nvlstree_max_chunksize), 512, INT32_MAX},
    {"NCCL_NVLS_CHUNKSIZE", read_number, AT(nvls_chunksize), 512, INT32_MAX},
    {"NCCL_NVLS_ENABLE", read_number, AT(nvls_enable), 0, 2},
    {"NCCL_P2P_DISABLE", read_number, AT(p2p_disable), 0, 1},
    {"NCCL_P2P_LEVEL", read_level, AT(p2p_level), 0, 0},
    {"NCCL_P2P_LL_THRESHOLD", read_number, AT(p2p_ll_threshold), 0, INT32_MAX},
    {"NCCL_P2P_NET_CHUNKSIZE", read_number, AT(p2p_net_chunksize), 512, INT32_MAX},
    {"NCCL_P2P_NVL_CHUNKSIZE", read_number, AT(p2p_nvl_chunksize), 512, INT32_MAX},
    {"NCCL_P2P_PCI_CHUNKSIZE", read_number, AT(p2p_pci_chunksize), 512, INT32_MAX},
    {"NCCL_PAT_ENABLE", read_number, AT(pat_enable), 0, 2},
    {"NCCL_PROTO", read_protocols, 0, 0, 0},
    {"NCCL_PXN_C2C", read_number, AT(pxn_c2c), 0, 1},
    {"NCCL_PXN_DISABLE", read_number, AT(pxn_disable), 0, 1},
    {"NCCL_SHM_DISABLE", read_number, AT(shm_disable), 0, 1},
    {"NCCL_THREAD_THRESHOLDS", read_thresholds, 0, 0, 0},
    {"NCCL_TUNER_PLUGIN", read_tuner, 0, 0, 0},
    {"RCCL_MSCCL_ENABLE", read_number, AT(msccl_enable), 0, 1},
};

enum { VARIABLE_COUNT = sizeof(variables) / sizeof(variables[0]) };

bool tutti_nccl_env_collnet(const struct tutti_nccl_env *env, uint32_t node_count)
{
    int64_t threshold = env->collnet_node_threshold;

    if (threshold == TUTTI_NCCL_UNSET)
        threshold = 2;
    return env->collnet_enable == 1 && node_count >= threshold;
}

const char *tutti_nccl_env_name_at(size_t index)
{
    return index < VARIABLE_COUNT ? variables[index].name : NULL;
}

/* Those of NCCL's documentation that say where, by what and how loudly it runs; what of them costs
 * time (queue pairs, threads of sockets) is not modelled. What ends in '_' begins names; the others
 * are names, lest one that is modelled and mistyped be taken for them. */
static const char *const others[] = {
    "NCCL_ALLOC_P2P_NET_LL_BUFFERS",
    "NCCL_BUFFREG_",
    "NCCL_CHECKS_DISABLE",
    "NCCL_CHECK_",
    "NCCL_COMM_",
    "NCCL_CONF_FILE",
    "NCCL_CTA_POLICY",
    "NCCL_CUMEM_",
    "NCCL_DEBUG",
    "NCCL_DEBUG_",
    "NCCL_DMABUF_ENABLE",
    "NCCL_GDRCOPY_",
    "NCCL_GDR_FLUSH_DISABLE",
    "NCCL_GIN_",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_GRAPH_MIXING_SUPPORT",
    "NCCL_GRAPH_REGISTER",
    "NCCL_HOSTID",
    "NCCL_IBEXT_",
    "NCCL_IB_",
    "NCCL_IGNORE_",
    "NCCL_LAUNCH_",
    "NCCL_LEGACY_CUDA_REGISTER",
    "NCCL_LOCAL_REGISTER",
    "NCCL_MNNVL_",
    "NCCL_NET",
    "NCCL_NET_DISABLE_INTRA",
    "NCCL_NET_PLUGIN",
    "NCCL_NET_SHARED_",
    "NCCL_NSOCKS_PERTHREAD",
    "NCCL_OOB_",
    "NCCL_P2P_DIRECT_DISABLE",
    "NCCL_P2P_USE_CUDA_MEMCPY",
    "NCCL_PLUGIN_",
    "NCCL_PROFILER_",
    "NCCL_PROFILE_",
    "NCCL_RAS_",
    "NCCL_RUNTIME_CONNECT",
    "NCCL_SET_",
    "NCCL_SHARP_",
    "NCCL_SHM_USE_CUDA_MEMCPY",
    "NCCL_SOCKET_",
    "NCCL_STACK_SIZE",
    "NCCL_TOPO_",
    "NCCL_TUNER_CONFIG_",
    "NCCL_UID_",
    "NCCL_WIN_",
    "NCCL_WORK_",
};

bool tutti_nccl_env_is_other(const char *name)
{
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        size_t bytes = strlen(others[i]);
        bool begins = others[i][bytes - 1] == '_';

        if (strncmp(name, others[i], begins ? bytes : bytes + 1) == 0)
            return true;
    }
    return false;
}

/* ---- the object ---------------------------------------------------------------------------- */

const struct tutti_nccl_env *tutti_nccl_env_none(void)
{
    return &none;
}

int tutti_nccl_env_new(struct tutti_nccl_env **ret, struct tutti_err *err)
{
    struct tutti_nccl_env *env = malloc(sizeof(*env));

    if (env == NULL)
        return tutti_nomem(err);
    *env = none;
    *ret = env;
    return 0;
}

void tutti_nccl_env_free(struct tutti_nccl_env *env)
{
    free(env);
}

uint64_t tutti_nccl_env_hash(const struct tutti_nccl_env *env)
{
    /* From here to the end there are words of 64 bits without gaps. */
    size_t first = offsetof(struct tutti_nccl_env, thread_thresholds);
    uint64_t hash = 0;

    env = env != NULL ? env : &none;
    for (int f = 0; f < TUTTI_NCCL_FUNCTION_COUNT; f++) {
        for (int a = 0; a < TUTTI_NCCL_ALGORITHM_COUNT; a++)
            hash = tutti_random_hash(hash, (uint64_t)f, (uint64_t)a, env->algorithms[f][a]);
        for (int p = 0; p < TUTTI_NCCL_PROTOCOL_COUNT; p++)
            hash = tutti_random_hash(hash, (uint64_t)f, (uint64_t)p, env->protocols[f][p]);
    }
    for (size_t at = first; at < sizeof(*env); at += sizeof(uint64_t)) {
        uint64_t number;

        memcpy(&number, (const char *)env + at, sizeof(number));
        hash = tutti_random_hash(hash, at, number, 0);
    }
    return hash;
}

int tutti_nccl_env_set(struct tutti_nccl_env *env, const char *name, const char *value,
                       struct tutti_err *err)
{
    for (size_t i = 0; i < VARIABLE_COUNT; i++) {
        if (strcmp(name, variables[i].name) == 0)
            return variables[i].read(&variables[i], env, value, err);
    }
    return tutti_fail(err, TUTTI_EINVAL,
                      "no variable of NCCL that is modelled: '%s' (NCCL_ALGO, NCCL_PROTO, "
                      "NCCL_MAX_NCHANNELS and %d others)",
                      name, VARIABLE_COUNT - 3);
}

/* Sets one NAME=VALUE, cutting it in two. */
static int set_item(struct tutti_nccl_env *env, char *item, struct tutti_err *err)
{
    char *equals = strchr(item, '=');

    if (equals == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "'%s' sets nothing (NCCL_ALGO=Ring and the like)",
                          item);
    *equals = '\0';
    return tutti_nccl_env_set(env, item, equals + 1, err);
}

const char *tutti_nccl_env_comma(const char *list)
{
    const char *at = strchr(list, ',');

    while (at != NULL && strncmp(at, ",NCCL_", 6) != 0 && strncmp(at, ",RCCL_", 6) != 0)
        at = strchr(at + 1, ',');
    return at;
}

int tutti_nccl_env_add(struct tutti_nccl_env *env, const char *list, struct tutti_err *err)
{
    char text[LIST_BYTES_MAX];
    int length = snprintf(text, sizeof(text), "%s", list);
    char *item = text;

    if (length < 0 || (size_t)length >= sizeof(text))
        return tutti_fail(err, TUTTI_EINVAL, "a list of variables of %d bytes (at most %d)", length,
                          LIST_BYTES_MAX - 1);
    while (item != NULL) {
        const char *comma = tutti_nccl_env_comma(item);
        char *next = NULL;
        int status;

        if (comma != NULL) {
            next = item + (comma - item);
            *next++ = '\0';
        }
        status = set_item(env, item, err);
        if (status < 0)
            return status;
        item = next;
    }
    return 0;
}
