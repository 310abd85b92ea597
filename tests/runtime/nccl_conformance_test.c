/* The conformance suite on the backend `nccl`: on the GPUs here, or on what TUTTI_CUDA_LIBRARY and
 * TUTTI_NCCL_LIBRARY name, under ctest the stand-ins. This program is TUTTI_TEST_PROCESSES
 * processes; 1: all ranks in one, whose communicators block. */
#include "runtime/nccl.h"
#include "tests/runtime/conformance_calls.h"
#include "tests/runtime/conformance_steps.h"
#include "tests/runtime/processes.h"

static int open_nccl(uint32_t rank_count, struct tutti_backend **ret, struct tutti_err *err)
{
    const struct tutti_nccl_opts opts = {.size = sizeof(opts), .group = processes_group()};

    (void)rank_count;
    return tutti_nccl_open(&opts, ret, err);
}

static const struct conformance_subject subject = {.name = "nccl", .open = open_nccl};
