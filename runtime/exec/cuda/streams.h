/* A step of training on GPUs: its COMPUTE steps are put into streams, one a lane of each rank,
 * which wait for each other by events; a CALL is started once, on the GPUs' own streams, when all
 * ranks here have come to it. One thread of the host puts all of it in, in one order: that of the
 * dependencies. Private to runtime/exec: who communicates is the backend's. */
#ifndef TUTTI_RUNTIME_EXEC_CUDA_STREAMS_H
#define TUTTI_RUNTIME_EXEC_CUDA_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/backend.h"
#include "runtime/exec/cuda/blas.h"
#include "runtime/exec/cuda/gpu.h"
#include "runtime/schedule.h"

struct tutti_record;
struct tutti_streams;

/* Who communicates. */
struct tutti_streams_calls {
    /* What a CALL needs, from run to run of the step. Addresses: [enum tutti_buf][rank]. */
    int (*open)(void *context, const struct tutti_schedule *schedule, const struct tutti_step *call,
                uint64_t *const addresses[TUTTI_BUF_COUNT], void **ret, struct tutti_err *err);
    void (*close)(void *context, void *call);
    /* Puts it on the stream of each GPU that has ranks of it. */
    int (*start)(void *context, void *call, struct tutti_err *err);
    /* After the step: whether it has come to its end; NULL: it has. */
    int (*verdict)(void *context, void *call, struct tutti_err *err);
    /* Again and again while the host waits for a stream: negative: it waits no longer. NULL: it
     * waits until the stream has come to its end. */
    int (*look)(void *context, struct tutti_err *err);
    /* After an error: what is under way shall end soon. NULL: it does so by itself. */
    void (*leave)(void *context);
};

struct tutti_streams_opts {
    struct tutti_gpu **gpus; /* [own_count]: that of each rank here; ranks may share one */
    uint32_t first_rank;
    uint32_t own_count;
    const struct tutti_streams_calls *calls;
    void *context;
    bool recorded;        /* the last iteration of each step */
    tutti_ps deadline_ps; /* no step that ends earlier is asked for its calls' verdicts */
};

/* `play` is borrowed, but for the struct itself; its schedule has not been flattened. -TUTTI_ELACK:
 * the ranks' programs differ, or have other steps than COMPUTE, CALL and COPY. */
int tutti_streams_open(const struct tutti_play *play, const struct tutti_streams_opts *opts,
                       struct tutti_streams **ret, struct tutti_err *err);
void tutti_streams_close(struct tutti_streams *streams); /* NULL is a no-op */
int tutti_streams_step(struct tutti_streams *streams, uint32_t iteration_count,
                       struct tutti_played *ret, struct tutti_err *err);
/* Adds the events of the last iteration, of the ranks here: its COMPUTEs, CALLs and COPYs as the
 * schedule has them, from when the host began it; *ret_error_ps as of struct tutti_played. */
int tutti_streams_record(const struct tutti_streams *streams, struct tutti_record *record,
                         tutti_ps *ret_error_ps, struct tutti_err *err);
/* Of the ranks here, in one iteration. */
uint64_t tutti_streams_step_count(const struct tutti_streams *streams);

#endif
