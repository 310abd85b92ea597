/* A stream of a GPU as a queue of training's work: memory, copies, kernels, products. Private to
 * runtime/exec: the backend nccl has such, too. */
#ifndef TUTTI_RUNTIME_EXEC_CUDA_QUEUE_H
#define TUTTI_RUNTIME_EXEC_CUDA_QUEUE_H

#include "runtime/exec/cuda/blas.h"
#include "runtime/exec/cuda/gpu.h"
#include "runtime/exec/device/queue.h"

struct tutti_cuda_queue {
    struct tutti_device_queue base; /* first: a queue is this */
    struct tutti_gpu *gpu;
    const struct tutti_cublas *blas;
    void *stream;
    void *handle; /* cuBLAS's; NULL: not made yet */
    void *kernels[TUTTI_TRAIN_KERNEL_COUNT];
    /* NULL, or called while the host waits for the stream; negative: it waits no longer. */
    int (*look)(void *context, struct tutti_err *err);
    void *look_context;
};

/* Makes a stream, and finds the kernels. Its GPU's context is the calling thread's, here and at
 * each use. */
int tutti_cuda_queue_open(struct tutti_cuda_queue *queue, struct tutti_gpu *gpu,
                          const struct tutti_cublas *blas, struct tutti_err *err);
void tutti_cuda_queue_close(struct tutti_cuda_queue *queue); /* a zeroed one is a no-op */
/* Waits until all that was put into it is done. */
int tutti_cuda_queue_wait(struct tutti_cuda_queue *queue, struct tutti_err *err);

#endif
