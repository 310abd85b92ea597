/* The backend `cuda`: all ranks of a schedule on the GPUs of NVIDIA of this host, a block of
 * threads a lane, the whole program inside one kernel a GPU. Ranks are virtual: each has its own
 * buffers in the GPU's memory, and messages are read there, or written to where they are received.
 *
 * Of g GPUs and n ranks rank r is on GPU r * g / n, rounded down: each has neighbours, and with
 * fewer ranks than GPUs the first n have one each. Blocks of two GPUs with peer access load and
 * store in each other's memory; without it their messages go through memory of the host, which the
 * sender's block fills and the receiver's empties.
 * One GPU: measured on an H100 and an H200. Several: played on stand-ins; not yet on several GPUs.
 *
 * All of this is in libtutti_cuda, which alone has the kernels; nothing is linked with CUDA: the
 * driver's library is opened when a backend is. Without a driver, without a GPU, or in a build
 * without kernels tutti_cuda_open fails with -TUTTI_ELACK and says what to install. */
#ifndef TUTTI_RUNTIME_CUDA_H
#define TUTTI_RUNTIME_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/backend.h"

TUTTI_API_BEGIN

/* When a schedule is played as a CUDA graph: a kernel a level of it, each with the whole GPU, one
 * after the other, instead of one kernel with a block a lane. */
enum tutti_cuda_graph {
    TUTTI_CUDA_GRAPH_AUTO, /* where the GPU cannot keep all lanes at work at one time, and, without
                                `persistent`, where it is faster: tutti_cuda_weigh_graph */
    TUTTI_CUDA_GRAPH_ALWAYS, /* but for work of the host's; `persistent` is of no effect */
    TUTTI_CUDA_GRAPH_NEVER,
};

struct tutti_cuda_opts {
    size_t size; /* sizeof(struct tutti_cuda_opts): runtime/api.h */
    /* The driver's library; NULL: what the environment variable TUTTI_CUDA_LIBRARY names, or
     * libcuda.so.1. */
    const char *library;
    uint32_t device; /* the first GPU, as the driver counts them */
    /* All iterations in one launch, in which all lanes meet between two: times are without launch,
     * with that meeting, by the GPU's clock. Else a launch is an iteration: with the play's
     * barrier each is timed by the host from before its launch until its end is seen; without, the
     * GPU times all of them, launched one behind the other. */
    bool persistent;
    uint32_t thread_count; /* of a block, a multiple of 32, at most 512; 0: by the messages' size */
    enum tutti_cuda_graph graph; /* of several GPUs: none, and -TUTTI_ELACK for ALWAYS */
    /* Ranks are spread over so many GPUs from `device` on; 0: all there are, at most 16. */
    uint32_t gpu_count;
    bool staged; /* between GPUs always through the host, as if there were no peer access */
    /* A step of training: a stream a lane, an event a dependency, a launch a CALL; work whose
     * entry says so (struct tutti_work.queued) is done by the GPU, its products by cuBLAS where the
     * machine has it (the environment variable TUTTI_CUBLAS_LIBRARY names another; "none": own
     * kernels). Schedules have COMPUTE, CALL and COPY steps alone, and all ranks the same ones. A
     * record is of these steps, by the GPU's clock; there is no hook. */
    bool streams;
};

/* Opens the backend; opts may be NULL. -TUTTI_EINVAL: there are not so many GPUs. GPUs but the
 * first are opened when a run has ranks for them. Default deadline of a wait: 30 s. play gives
 * -TUTTI_ELACK for a schedule of more memory than a GPU has left, or of more lanes (of all ranks on
 * a GPU) than it can keep at work at one time where a graph does not serve (work of the host's,
 * several GPUs), and -TUTTI_ECHECK,
 * before anything is played, for one that locks up. In a record, steps that were joined into one
 * operation have that operation's times. */
int tutti_cuda_open(const struct tutti_cuda_opts *opts, struct tutti_backend **ret,
                    struct tutti_err *err);

/* How many channels make good use of a GPU for `rank_count` ranks of `bytes` each: as many as keep
 * it busy, fewer for what is small. */
uint32_t tutti_cuda_channels(uint32_t rank_count, uint64_t bytes);

enum { TUTTI_CUDA_PLACES_BYTES = 512 };

/* Where so many ranks are played, with several GPUs: "ranks 0-3 on GPU 0, 4-7 on GPU 1, peer
 * access"; "" with one. Opens the GPUs that it takes. `backend`: of tutti_cuda_open. */
int tutti_cuda_places(struct tutti_backend *backend, uint32_t rank_count,
                      char ret[TUTTI_CUDA_PLACES_BYTES], struct tutti_err *err);

enum { TUTTI_CUDA_NAME_BYTES = 192 };

/* "NVIDIA H200, 132 multiprocessors, 139.8 GiB, driver for CUDA 13.0", of the first GPU; and
 * ", the first of 8 GPUs" where there are several. The same errors as open. */
int tutti_cuda_name(char ret[TUTTI_CUDA_NAME_BYTES], struct tutti_err *err);

TUTTI_API_END

#endif
