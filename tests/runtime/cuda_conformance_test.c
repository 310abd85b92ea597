/* The conformance suite on the backend `cuda`: on a GPU, or on what TUTTI_CUDA_LIBRARY names, under
 * ctest the stand-in for the driver. TUTTI_TEST_PERSISTENT: all iterations in one launch;
 * TUTTI_TEST_GRAPH: by levels, where the host has no work; TUTTI_TEST_STAGED: GPUs, if there are
 * several, hand on through the host. */
#include "runtime/cuda.h"
#include "tests/runtime/conformance_nccl.h"
#include "tests/runtime/conformance_steps.h"

static int open_cuda(uint32_t rank_count, struct tutti_backend **ret, struct tutti_err *err)
{
    const struct tutti_cuda_opts opts = {.size = sizeof(opts),
                                         .persistent = getenv("TUTTI_TEST_PERSISTENT") != NULL,
                                         .graph = getenv("TUTTI_TEST_GRAPH") != NULL
                                                      ? TUTTI_CUDA_GRAPH_ALWAYS
                                                      : TUTTI_CUDA_GRAPH_NEVER,
                                         .staged = getenv("TUTTI_TEST_STAGED") != NULL};

    (void)rank_count;
    return tutti_cuda_open(&opts, ret, err);
}

static const struct conformance_subject subject = {.name = "cuda", .open = open_cuda};
