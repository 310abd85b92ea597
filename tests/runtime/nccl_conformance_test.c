/* The conformance suite on the backend `nccl`: on the GPUs here, or on what TUTTI_CUDA_LIBRARY and
 * TUTTI_NCCL_LIBRARY name, under ctest the stand-ins. */
#include "runtime/nccl.h"
#include "tests/runtime/conformance.h"

static int open_nccl(uint32_t rank_count, struct tutti_backend **ret, struct tutti_err *err)
{
    (void)rank_count;
    return tutti_nccl_open(NULL, ret, err);
}

static const struct conformance_subject subject = {.name = "nccl", .open = open_nccl};
