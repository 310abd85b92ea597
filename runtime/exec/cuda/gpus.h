/* The GPUs of this host that ranks are spread over, and a plan whose parts are loaded onto them:
 * one launch a GPU, and lanes of different GPUs hand on as runtime/exec/cuda/plan.h says. Private
 * to runtime/exec/cuda. */
#ifndef TUTTI_RUNTIME_EXEC_CUDA_GPUS_H
#define TUTTI_RUNTIME_EXEC_CUDA_GPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/exec/cuda/gpu.h"

struct tutti_gpus {
    struct tutti_gpu gpus[TUTTI_CUDA_GPUS_MAX]; /* those that are open */
    uint32_t count;
    uint32_t count_max; /* that may be */
    const char *library;
    uint32_t device; /* the first */
    bool staged;     /* none is to touch another's memory */
    bool direct[TUTTI_CUDA_GPUS_MAX][TUTTI_CUDA_GPUS_MAX];
};

/* Opens the first; the others are opened when they are wanted. `gpu_count`: 0: all from `device`
 * on; -TUTTI_EINVAL: there are fewer. `library` is borrowed. */
int tutti_gpus_open(struct tutti_gpus *gpus, const char *library, uint32_t device,
                    uint32_t gpu_count, bool staged, struct tutti_err *err);
void tutti_gpus_close(struct tutti_gpus *gpus); /* a zeroed one is a no-op */

/* Where so many ranks are played; opens the GPUs that it takes. */
int tutti_gpus_spread(struct tutti_gpus *gpus, uint32_t rank_count, struct tutti_cuda_spread *ret,
                      struct tutti_err *err);

/* The same in words, as tutti_cuda_places. */
int tutti_gpus_places(struct tutti_gpus *gpus, uint32_t rank_count, char *ret, size_t bytes,
                      struct tutti_err *err);

/* The parts of a plan, each on its GPU, and what they share in memory of the host. */
struct tutti_gpus_load {
    struct tutti_gpu_load loads[TUTTI_CUDA_GPUS_MAX];
    uint32_t count;
    void *shared;             /* NULL: there is one GPU */
    uint32_t iteration_count; /* of the last launch */
};

/* As the arguments of tutti_gpu_load_open; `lent` as in struct tutti_gpu_load. */
struct tutti_gpus_way {
    bool by_levels;
    uint32_t thread_count;
    bool stamped;
    uint64_t *const *lent;
};

/* As tutti_gpu_load_open. -TUTTI_ELACK for a graph on several GPUs. */
int tutti_gpus_load_open(struct tutti_gpus_load *load, struct tutti_gpus *gpus,
                         const struct tutti_cuda_plan *plan, const struct tutti_gpus_way *way,
                         struct tutti_err *err);
void tutti_gpus_load_close(struct tutti_gpus_load *load); /* a zeroed one is a no-op */

/* That which has a rank; its GPU is made the calling thread's. */
int tutti_gpus_load_of(struct tutti_gpus_load *load, uint32_t rank, struct tutti_gpu_load **ret,
                       struct tutti_err *err);
/* Makes the GPU of load number `index` the calling thread's, where there are several. */
int tutti_gpus_enter(struct tutti_gpus_load *load, uint32_t index, struct tutti_err *err);

/* As the functions of one GPU, on all of them. A launch that fails on one of them leaves others
 * waiting for it: tutti_gpus_leave. */
int tutti_gpus_load_meetings(struct tutti_gpus_load *load, uint32_t count, struct tutti_err *err);
int tutti_gpus_launch(struct tutti_gpus_load *load, uint32_t iteration_count, bool stamped,
                      struct tutti_err *err);
int tutti_gpus_wait(struct tutti_gpus_load *load, tutti_ps limit_ps, struct tutti_err *err);
int tutti_gpus_verdict(struct tutti_gpus_load *load, tutti_ps deadline_ps, struct tutti_err *err);

/* After an error: whatever still plays is told to leave, and has left; else it is given up. */
void tutti_gpus_leave(struct tutti_gpus_load *load);

/* An event on each GPU, behind what has been launched so far; and the time between both, on the GPU
 * that took longest. */
int tutti_gpus_record(struct tutti_gpus_load *load, bool begins, struct tutti_err *err);
int tutti_gpus_elapsed(struct tutti_gpus_load *load, float *ret_ms, struct tutti_err *err);

/* How far GPU `index`'s clock is behind that of the first, by the last iteration's beginning, which
 * all of them had met for; as exact as such a meeting is, some microseconds. */
int tutti_gpus_clock(struct tutti_gpus_load *load, uint32_t index, int64_t *ret_behind_ns,
                     struct tutti_err *err);

#endif
