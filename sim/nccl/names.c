/* NCCL's own words for what it chooses among (2.28 nccl_common.h, graph/topo.cc). */
#include "sim/nccl/names.h"

#include <assert.h>

const char *tutti_nccl_algorithm_name(enum tutti_nccl_algorithm algorithm)
{
    static const char *const names[TUTTI_NCCL_ALGORITHM_COUNT] = {
        "Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT",
    };

    assert(algorithm < TUTTI_NCCL_ALGORITHM_COUNT);
    return names[algorithm];
}

const char *tutti_nccl_protocol_name(enum tutti_nccl_protocol protocol)
{
    static const char *const names[TUTTI_NCCL_PROTOCOL_COUNT] = {"LL", "LL128", "Simple"};

    assert(protocol < TUTTI_NCCL_PROTOCOL_COUNT);
    return names[protocol];
}

const char *tutti_nccl_path_name(enum tutti_nccl_path_type path)
{
    static const char *const names[TUTTI_PATH_COUNT] = {
        "LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS",
    };

    assert(path < TUTTI_PATH_COUNT);
    return names[path];
}

const char *tutti_nccl_pattern_name(enum tutti_nccl_pattern pattern)
{
    static const char *const names[] = {
        [TUTTI_PATTERN_BALANCED_TREE] = "BALANCED_TREE",
        [TUTTI_PATTERN_SPLIT_TREE] = "SPLIT_TREE",
        [TUTTI_PATTERN_TREE] = "TREE",
        [TUTTI_PATTERN_RING] = "RING",
        [TUTTI_PATTERN_NVLS] = "NVLS",
        [TUTTI_PATTERN_COLLNET_DIRECT] = "COLLNET_DIRECT",
    };

    assert(pattern >= TUTTI_PATTERN_BALANCED_TREE && pattern <= TUTTI_PATTERN_COLLNET_DIRECT);
    return names[pattern];
}

const char *tutti_nccl_function_name(enum tutti_nccl_function function)
{
    static const char *const names[TUTTI_NCCL_FUNCTION_COUNT] = {
        "Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce",
    };

    assert(function < TUTTI_NCCL_FUNCTION_COUNT);
    return names[function];
}
