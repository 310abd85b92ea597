/* What runtime/exec/nccl says of NCCL's types and numbers, held against nccl.h; and its calls,
 * found in the library that is here. Needs no GPU. Usage: nccl_abi LIBRARY */
#include <nccl.h>
#include <stdio.h>

#include "runtime/exec/nccl/library.h"
#include "runtime/status.h"

_Static_assert(sizeof(struct tutti_nccl_id) == sizeof(ncclUniqueId), "an id");
_Static_assert(sizeof(struct tutti_nccl_config) <= sizeof(ncclConfig_t), "a beginning of it");
_Static_assert(offsetof(struct tutti_nccl_config, blocking) == offsetof(ncclConfig_t, blocking),
               "blocking");
_Static_assert(offsetof(struct tutti_nccl_config, ctas_max) == offsetof(ncclConfig_t, maxCTAs),
               "maxCTAs");
_Static_assert(offsetof(struct tutti_nccl_config, net_name) == offsetof(ncclConfig_t, netName),
               "netName");
_Static_assert(offsetof(struct tutti_nccl_config, split_share) ==
                   offsetof(ncclConfig_t, splitShare),
               "splitShare");
_Static_assert(sizeof(struct tutti_nccl_simulation) == sizeof(ncclSimInfo_t), "a simulation");
_Static_assert(offsetof(struct tutti_nccl_simulation, estimated_us) ==
                   offsetof(ncclSimInfo_t, estimatedTime),
               "its estimate");
_Static_assert((int)ncclSuccess == TUTTI_NCCL_SUCCESS, "success");
_Static_assert((int)ncclInProgress == TUTTI_NCCL_IN_PROGRESS, "in progress");
_Static_assert((int)ncclUint8 == TUTTI_NCCL_UINT8, "bytes");
_Static_assert((int)NCCL_SPLIT_NOCOLOR == TUTTI_NCCL_NO_COLOR, "in no group of a split");

static const int types[TUTTI_DTYPE_COUNT] = {
    [TUTTI_FLOAT32] = ncclFloat32,   [TUTTI_FLOAT64] = ncclFloat64, [TUTTI_FLOAT16] = ncclFloat16,
    [TUTTI_BFLOAT16] = ncclBfloat16, [TUTTI_INT32] = ncclInt32,     [TUTTI_INT64] = ncclInt64,
    [TUTTI_INT8] = ncclInt8,         [TUTTI_UINT8] = ncclUint8};
static const int ops[TUTTI_OP_COUNT] = {[TUTTI_SUM] = ncclSum,
                                        [TUTTI_PROD] = ncclProd,
                                        [TUTTI_MIN] = ncclMin,
                                        [TUTTI_MAX] = ncclMax,
                                        [TUTTI_AVG] = ncclAvg};

int main(int argc, char **argv)
{
    const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    const ncclSimInfo_t simulation = NCCL_SIM_INFO_INITIALIZER;
    struct tutti_nccl_library library;
    struct tutti_err err = {{0}};
    int wrong =
        config.magic != TUTTI_NCCL_CONFIG_MAGIC || simulation.magic != TUTTI_NCCL_SIMULATION_MAGIC;

    for (int i = 0; i < TUTTI_DTYPE_COUNT; i++)
        wrong += tutti_nccl_type((enum tutti_dtype)i) != types[i];
    for (int i = 0; i < TUTTI_OP_COUNT; i++)
        wrong += tutti_nccl_op((enum tutti_op)i) != ops[i];
    if (wrong > 0)
        fprintf(stderr, "%d numbers are not those of nccl.h\n", wrong);
    if (argc != 2 || tutti_nccl_library_open(argv[1], &library, &err) < 0) {
        fprintf(stderr, "%s\n", argc != 2 ? "usage: nccl_abi LIBRARY" : err.text);
        return 1;
    }
    printf("NCCL %d, all calls found, newer ones: %d\n", library.code,
           (library.split != NULL) + (library.simulate_end != NULL) + (library.alltoall != NULL));
    tutti_nccl_library_close(&library);
    return wrong > 0;
}
