/* A GPU that is open, and a plan that has been loaded onto it. Private to runtime/exec: the
 * backend nccl has one for each of its ranks. */
#ifndef TUTTI_RUNTIME_EXEC_CUDA_GPU_H
#define TUTTI_RUNTIME_EXEC_CUDA_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/exec/cuda/driver.h"
#include "runtime/exec/cuda/plan.h"
#include "runtime/units.h"

struct tutti_gpu {
    struct tutti_cuda_driver driver;
    int device;
    int multiprocessor_count;
    bool retained; /* the context is ours to give back */
    void *context;
    void *module;
    void *stream;
    void *begin; /* events */
    void *end;
    uint32_t *abort; /* of the host, which the GPU looks at too */
    uint64_t abort_address;
    bool lost; /* a kernel did not end: nothing may be freed or used any more */
};

int tutti_gpu_open(struct tutti_gpu *gpu, const char *library, uint32_t device,
                   struct tutti_err *err);
void tutti_gpu_close(struct tutti_gpu *gpu); /* a zeroed one is a no-op */

/* Makes its context that of the calling thread. */
int tutti_gpu_enter(const struct tutti_gpu *gpu, struct tutti_err *err);

struct tutti_gpu_load;

/* Waits until all that was put on the stream is done; kernels end by themselves, past the deadline
 * of their waits at the latest. What takes `limit_ps` longer than that is told to leave, and
 * given up: -TUTTI_EIO. `load`: NULL, or what is being played, of which the host's work is done
 * meanwhile; work that fails makes the kernel leave. */
int tutti_gpu_wait(struct tutti_gpu *gpu, struct tutti_gpu_load *load, tutti_ps limit_ps,
                   struct tutti_err *err);

/* The host's side of work that it does in the middle of a program. */
struct tutti_gpu_work {
    struct tutti_cuda_request *requests; /* [lane], in memory that the GPU sees; NULL: none */
    uint32_t *lanes;                     /* [lane_count]: those that ask */
    uint32_t lane_count;
    void *stream;                 /* for copies, while the kernel waits */
    void **lent[TUTTI_BUF_COUNT]; /* [enum tutti_buf][rank]: what the work gets as its buffers */
    void **own[TUTTI_BUF_COUNT];  /* likewise: NULL where it is the caller's */
};

/* A plan on a GPU: its buffers, operations and counters are one piece of memory there. */
struct tutti_gpu_load {
    struct tutti_gpu *gpu;
    const struct tutti_cuda_plan *plan;
    void *kernel;
    uint32_t thread_count;
    uint64_t memory;
    uint64_t buffer_bytes;                /* at its beginning: all buffers of all ranks */
    uint64_t *addresses[TUTTI_BUF_COUNT]; /* [enum tutti_buf][rank] */
    uint64_t meetings;                    /* uint64_t [meeting_capacity] */
    uint32_t meeting_capacity;
    struct tutti_gpu_work work;
    uint64_t stamps; /* 0, or struct tutti_cuda_stamp [op] */
    struct tutti_cuda_args args;
};

/* Takes memory and uploads the plan. `thread_count`: of a block; 0: as many as the messages give
 * work to, fewer where more lanes than else would fit must. `stamped`: the times of operations can
 * be taken. */
int tutti_gpu_load_open(struct tutti_gpu_load *load, struct tutti_gpu *gpu,
                        const struct tutti_cuda_plan *plan, uint32_t thread_count, bool stamped,
                        struct tutti_err *err);

/* The threads of a block, if not asked otherwise and all lanes fit. */
uint32_t tutti_gpu_threads_for(const struct tutti_cuda_plan *plan);

/* Room for the times of so many meetings: one more than a launch has iterations. */
int tutti_gpu_load_meetings(struct tutti_gpu_load *load, uint32_t count, struct tutti_err *err);
void tutti_gpu_load_close(struct tutti_gpu_load *load); /* a zeroed one is a no-op */

/* Puts a launch of some iterations on the stream. */
int tutti_gpu_launch(struct tutti_gpu_load *load, uint32_t iteration_count, bool stamped,
                     struct tutti_err *err);

/* ---- host_work.c; nothing where the host has no work ---- */

int tutti_gpu_work_open(struct tutti_gpu_load *load, struct tutti_err *err);
/* The buffers of the caller, [enum tutti_buf][rank] or NULL, in which the work finds its bytes: the
 * regions that it reads and writes are brought there. Before anything is played. */
int tutti_gpu_work_lend(struct tutti_gpu_load *load, void *const *bufs[TUTTI_BUF_COUNT],
                        struct tutti_err *err);
void tutti_gpu_work_close(struct tutti_gpu_load *load);
/* Does what has been asked for. */
int tutti_gpu_work_serve(struct tutti_gpu_load *load, struct tutti_err *err);

/* Whether a lane has given up: -TUTTI_ETIME, with its rank, lane and step. */
int tutti_gpu_verdict(struct tutti_gpu_load *load, tutti_ps deadline_ps, struct tutti_err *err);

/* To and from the GPU, and waits. */
int tutti_gpu_upload(struct tutti_gpu *gpu, uint64_t to, const void *from, size_t bytes,
                     struct tutti_err *err);
int tutti_gpu_download(struct tutti_gpu *gpu, void *to, uint64_t from, size_t bytes,
                       struct tutti_err *err);
int tutti_gpu_fill(struct tutti_gpu *gpu, uint64_t at, unsigned char value, size_t bytes,
                   struct tutti_err *err);

#endif
