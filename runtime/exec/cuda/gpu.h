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

/* What a GPU did took `gpu_ps` from its first time to its last, all of it within `host_ps` of the
 * host's: from before the launch until its end was seen. That is all that is known of where its
 * clock stands on the host's: in the middle, which is half of what is left over off at most. (An
 * exchange of its own would be a launch, too, and know no more.) */
void tutti_gpu_place_times(tutti_ps gpu_ps, tutti_ps host_ps, tutti_ps *ret_later_ps,
                           tutti_ps *ret_error_ps);

/* The host's side of work that it does in the middle of a program. */
struct tutti_gpu_work {
    struct tutti_cuda_request *requests; /* [lane of the part], which the GPU sees; NULL: none */
    uint32_t *lanes;                     /* [lane_count]: those that ask, as the plan counts */
    uint32_t lane_count;
    void *stream;                 /* for copies, while the kernel waits */
    void **lent[TUTTI_BUF_COUNT]; /* [enum tutti_buf][rank]: what the work gets as its buffers */
    void **own[TUTTI_BUF_COUNT];  /* likewise: NULL where it is the caller's */
};

/* A part of an operation, for one block. */
struct tutti_gpu_piece {
    uint32_t op;
    uint64_t offset;
    uint64_t bytes;
};

/* A plan by levels. */
struct tutti_gpu_graph {
    struct tutti_cuda_stages stages;
    struct tutti_gpu_piece *pieces; /* level by level */
    uint32_t piece_count;
    uint32_t *piece_first; /* [level_count + 1] */
    void *graph;
    void *played; /* made of it */
};

/* Where the parts of the memory begin; counted before there is any. */
struct tutti_gpu_layout {
    uint64_t bytes;
    uint64_t ops;
    uint64_t lanes;
    uint64_t waits;
    uint64_t signals;
    uint64_t lines; /* from here to `stamps` zeros */
    uint64_t counters;
    uint64_t meeting;
    uint64_t verdicts;
    uint64_t stop;
    uint64_t stamps;
};

/* A plan, or one GPU's part of it, on a GPU: its buffers, operations and counters are one piece of
 * memory there. */
struct tutti_gpu_load {
    struct tutti_gpu *gpu;
    const struct tutti_cuda_plan *plan;
    struct tutti_cuda_part part;
    void *kernel;
    uint32_t thread_count;
    uint64_t memory;
    struct tutti_gpu_layout layout;
    uint64_t buffer_bytes;                /* at its beginning: all buffers of the part's ranks */
    uint64_t *addresses[TUTTI_BUF_COUNT]; /* [enum tutti_buf][rank] */
    uint64_t *const *lent; /* NULL, or addresses of all buffers, which are somebody else's */
    uint64_t homes[TUTTI_CUDA_GPUS_MAX + 1]; /* where the memory of messages lies; plan.h */
    uint64_t meetings;                       /* uint64_t [meeting_capacity] */
    uint32_t meeting_capacity;
    struct tutti_gpu_work work;
    bool by_levels; /* as a graph; else a block a lane, all of them at work together */
    struct tutti_gpu_graph graph;
    bool stamped;    /* times of operations can be taken: */
    uint64_t stamps; /* struct tutti_cuda_stamp [op], of a graph [piece] */
    struct tutti_cuda_args args;
};

/* Whether all lanes of the plan can be at work together. */
int tutti_gpu_fits(struct tutti_gpu *gpu, const struct tutti_cuda_plan *plan, uint32_t thread_count,
                   bool *ret, struct tutti_err *err);

/* Takes memory and uploads the plan, which is of one GPU. `by_levels`: as a graph; -TUTTI_ELACK if
 * the host has work. `thread_count`: of a block; 0: as many as the messages give work to, fewer
 * where more lanes than else would fit must. `stamped`: the times of operations can be taken. */
int tutti_gpu_load_open(struct tutti_gpu_load *load, struct tutti_gpu *gpu,
                        const struct tutti_cuda_plan *plan, bool by_levels, uint32_t thread_count,
                        bool stamped, struct tutti_err *err);

/* The same in two steps, for a part of a plan: between them the addresses of other GPUs' buffers,
 * homes and counters are entered. Both leave the load to be closed if they fail. */
int tutti_gpu_load_take(struct tutti_gpu_load *load, struct tutti_err *err);
int tutti_gpu_load_send(struct tutti_gpu_load *load, struct tutti_err *err);

/* The threads of a block, if not asked otherwise and all lanes fit. */
uint32_t tutti_gpu_threads_for(const struct tutti_cuda_plan *plan);

/* Room for the times of so many meetings: one more than a launch has iterations. */
int tutti_gpu_load_meetings(struct tutti_gpu_load *load, uint32_t count, struct tutti_err *err);
void tutti_gpu_load_close(struct tutti_gpu_load *load); /* a zeroed one is a no-op */

/* Puts a launch of some iterations on the stream; a graph: as many launches, all of them stamped if
 * one can be. */
int tutti_gpu_launch(struct tutti_gpu_load *load, uint32_t iteration_count, bool stamped,
                     struct tutti_err *err);

/* ---- graph.c ---- */

/* Levels, and their pieces. */
int tutti_gpu_graph_plan(struct tutti_gpu_load *load, struct tutti_err *err);
/* As the device reads them, made of the operations of the plan. */
void tutti_gpu_graph_pieces(const struct tutti_gpu_load *load, const struct tutti_cuda_op *ops,
                            struct tutti_cuda_op *ret_ops, struct tutti_cuda_lane *ret_lanes);
int tutti_gpu_graph_make(struct tutti_gpu_load *load, struct tutti_err *err);
void tutti_gpu_graph_close(struct tutti_gpu_load *load);
/* The times of operations, which are zeroed, made of those of their pieces. */
void tutti_gpu_graph_stamps(const struct tutti_gpu_load *load,
                            const struct tutti_cuda_stamp *pieces, struct tutti_cuda_stamp *ops);

/* ---- host_work.c; nothing where the host has no work ---- */

int tutti_gpu_work_open(struct tutti_gpu_load *load, struct tutti_err *err);
/* The buffers of the caller, [enum tutti_buf][rank] or NULL, in which the work finds its bytes: the
 * regions that it reads and writes are brought there. Before anything is played. */
int tutti_gpu_work_lend(struct tutti_gpu_load *load, void *const *bufs[TUTTI_BUF_COUNT],
                        struct tutti_err *err);
void tutti_gpu_work_close(struct tutti_gpu_load *load);
/* Does what has been asked for. */
int tutti_gpu_work_serve(struct tutti_gpu_load *load, struct tutti_err *err);

/* ---- verdict.c ---- */

/* Whether a lane has given up: -TUTTI_ETIME, with its rank, lane and step. */
int tutti_gpu_verdict(struct tutti_gpu_load *load, tutti_ps deadline_ps, struct tutti_err *err);

/* The verdicts of the part's lanes into those of all, [lane]; and what all of them come to. */
int tutti_gpu_verdicts(struct tutti_gpu_load *load, struct tutti_cuda_verdict *verdicts,
                       struct tutti_err *err);
int tutti_gpu_blame(const struct tutti_cuda_plan *plan, const struct tutti_cuda_verdict *verdicts,
                    tutti_ps deadline_ps, struct tutti_err *err);

/* ---- gpu.c ---- */

/* To and from the GPU, and waits. */
int tutti_gpu_upload(struct tutti_gpu *gpu, uint64_t to, const void *from, size_t bytes,
                     struct tutti_err *err);
int tutti_gpu_download(struct tutti_gpu *gpu, void *to, uint64_t from, size_t bytes,
                       struct tutti_err *err);
int tutti_gpu_fill(struct tutti_gpu *gpu, uint64_t at, unsigned char value, size_t bytes,
                   struct tutti_err *err);

#endif
