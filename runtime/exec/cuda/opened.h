/* The backend `cuda`, opened, and the two ways in which it plays. Private to runtime/exec/cuda. */
#ifndef TUTTI_RUNTIME_EXEC_CUDA_OPENED_H
#define TUTTI_RUNTIME_EXEC_CUDA_OPENED_H

#include "runtime/backend.h"
#include "runtime/cuda.h"
#include "runtime/exec/cuda/gpus.h"

struct tutti_cuda_backend {
    struct tutti_backend base; /* first: a backend is this */
    struct tutti_cuda_opts opts;
    struct tutti_gpus gpus;
};

extern const struct tutti_backend_ops tutti_cuda_ops;         /* whole programs: backend.c */
extern const struct tutti_backend_ops tutti_cuda_streams_ops; /* streams_backend.c */

void tutti_cuda_close(struct tutti_backend *backend);

#endif
