/* CALLs by launches of the player's kernel. Private to runtime/exec/cuda. */
#ifndef TUTTI_RUNTIME_EXEC_CUDA_STREAMS_CALLS_H
#define TUTTI_RUNTIME_EXEC_CUDA_STREAMS_CALLS_H

#include "runtime/exec/cuda/gpus.h"
#include "runtime/exec/cuda/streams.h"

/* Their context. */
struct tutti_cuda_caller {
    struct tutti_gpus *gpus;
    uint32_t thread_count; /* as in struct tutti_cuda_opts */
    tutti_ps deadline_ps;
};

extern const struct tutti_streams_calls tutti_cuda_calls;

#endif
