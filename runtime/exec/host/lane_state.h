/* What a lane is doing, and what the parts of a stage ask of each other: work.c reduces, remote.c
 * sends and receives through a transport, compute.c computes, stage.c does the rest. Private to
 * those four. */
#ifndef TUTTI_RUNTIME_EXEC_HOST_LANE_STATE_H
#define TUTTI_RUNTIME_EXEC_HOST_LANE_STATE_H

#include <string.h>

#include "runtime/exec/device/kernels.h"
#include "runtime/exec/host/helpers.h"
#include "runtime/exec/host/stage.h"

enum { TUTTI_DEFERRED_MAX = 8 };

/* REDUCEs of one result that have been reported and not yet done, because the next of them may come
 * at once: then all operands are read in one pass, and the result written once. Each has consumed a
 * fused message, released when it is done. */
struct tutti_deferred {
    struct tutti_step step; /* of the last */
    uint64_t index;
    const void *acc;
    const void *srcs[TUTTI_DEFERRED_MAX];
    struct tutti_connection *connections[TUTTI_DEFERRED_MAX];
    uint32_t length; /* 0: nothing is put off */
};

/* A REDUCE of a message from another process, done piece by piece while the message comes. */
struct tutti_fused_reduce {
    const struct tutti_thread_stage *stage;
    const struct tutti_step *step; /* the REDUCE */
    void *dsts[1 + TUTTI_REMOTE_WRITE_TARGETS_MAX];
    uint32_t dst_count;
};

struct tutti_lane_state {
    struct tutti_post post;       /* the posted step */
    tutti_ps start_ps;            /* when it began, if timed */
    tutti_ps until_ps;            /* once it has started, if it takes time of its own: its end */
    tutti_ps end_ps;              /* when a work that was handed over ended, if timed; else 0 */
    bool handed_over;             /* COMPUTE: its work is a job of the rank's work thread */
    bool started;                 /* its clock runs; SEND: has its slot, and is to be reported */
    bool flowing;                 /* its receive descriptor is with the transport */
    bool awaited;                 /* a fused RECV was reported early; its REDUCE comes next */
    struct tutti_connection *out; /* the connection of the last SEND of this lane */
    struct tutti_connection *in;  /* of the last RECV */
    struct tutti_slot *fused;     /* a message that a fused RECV has only looked at */
    bool ahead; /* what the RECV is for was done while the message was under way */
    struct tutti_step fused_step; /* that RECV, or the one awaited */
    struct tutti_deferred deferred;
    struct tutti_fused_reduce fused_reduce;
    const struct tutti_remote_write *remote_write;     /* the next in this lane */
    const struct tutti_remote_write *remote_write_end; /* past the last */
    /* The SENDs of the last push that are still to come: bit i of `pushed` is set if the bytes of
     * targets[i] lie where they will be received. */
    const struct tutti_remote_write_target *targets;
    const struct tutti_remote_write_target *targets_end;
    uint32_t pushed;
};

static inline char *tutti_at(const struct tutti_thread_stage *stage, unsigned buf, uint64_t offset)
{
    return stage->bufs[buf] + offset;
}

static inline tutti_ps tutti_time_of(const struct tutti_thread_stage *stage)
{
    if (!stage->timed)
        return 0;
    return stage->flow->time(stage);
}

static inline struct tutti_rank_peer *tutti_rank_peer_of(const struct tutti_thread_stage *stage,
                                                         uint32_t rank)
{
    return &stage->rank_peers[rank - stage->connections->first_rank];
}

/* Whether the step is the REDUCE that a fused RECV was for. */
static inline bool tutti_reads_fused(const struct tutti_step *recv, const struct tutti_step *step)
{
    return step->kind == TUTTI_REDUCE && step->src_buf == recv->dst_buf &&
           step->src_offset == recv->dst_offset && step->bytes == recv->bytes;
}

/* How a step reduces; avg divides where the result is complete: elsewhere the divisor is 0. */
static inline struct tutti_reduction tutti_reduction_of(const struct tutti_thread_stage *stage,
                                                        const struct tutti_step *step)
{
    struct tutti_reduction reduction = tutti_step_reduction(stage->schedule, step);

    if ((step->flags & TUTTI_STEP_LAST) == 0)
        reduction.divisor = 0;
    return reduction;
}

static inline void tutti_stage_copy(const struct tutti_thread_stage *stage, void *dst,
                                    const void *src, uint64_t bytes)
{
    if (bytes == 0)
        return;
    if (stage->helpers != NULL)
        tutti_helpers_copy(stage->helpers, stage->rank - stage->connections->first_rank, dst, src,
                           bytes, bytes >= stage->large_bytes);
    else if (bytes >= stage->large_bytes)
        tutti_copy_stream(dst, src, (size_t)bytes);
    else
        memmove(dst, src, (size_t)bytes);
}

/* ---- work.c ---- */

/* Does what has been put off: a deferred of at least one. */
void tutti_stage_settle_deferred(struct tutti_thread_stage *stage,
                                 struct tutti_lane_state *lane_state);
/* Whether the posted step may come before what has been put off in its lane is done. */
bool tutti_stage_goes_with(const struct tutti_deferred *deferred,
                           const struct tutti_lane_state *lane_state,
                           const struct tutti_step *step);
void tutti_stage_reduce(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state);
/* Adds to dsts[0 .. *count) the receivers' windows of the result of REDUCE `index`, as far as
 * their ranks have begun this iteration. */
void tutti_stage_add_targets(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state,
                             uint64_t index, void **dsts, uint32_t *count);

/* ---- compute.c ---- */

/* Each look at a COMPUTE: 1, 0 or a status. */
int tutti_stage_compute(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state,
                        struct tutti_err *err);
/* Until when a wait lasts, as tutti_wait_set_wait has it: works that have been handed over end some
 * time, and are neither a deadlock nor subject to a deadline. Who waits for them leaves them the
 * processor. */
tutti_ps tutti_stage_next_end(const struct tutti_thread_stage *stage,
                              struct tutti_backoff *backoff);

/* ---- stage.c ---- */

/* The sender may write the bytes of the oldest message again. */
void tutti_stage_release(struct tutti_thread_stage *stage, struct tutti_connection *connection);
/* A message of another length came for RECV `step`, the posted step or the one before it. */
int tutti_stage_refuse(const struct tutti_thread_stage *stage, const struct tutti_post *post,
                       const struct tutti_step *step, uint64_t came_bytes, uint64_t came_step,
                       struct tutti_err *err);

/* ---- remote.c ---- */

/* Takes memory; stage_close gives it back. */
int tutti_remote_open(struct tutti_thread_stage *stage, struct tutti_err *err);
/* Until nothing is owed to other processes. */
int tutti_remote_settle(struct tutti_thread_stage *stage, struct tutti_err *err);

/* The lane's SEND has its slot: helpers it to the transport. */
int tutti_remote_send(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state,
                      struct tutti_err *err);
/* Each look at a RECV from another process, or at a REDUCE awaited by one: 1, 0 or a status. */
int tutti_remote_recv(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state,
                      struct tutti_err *err);
int tutti_remote_reduce(struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state,
                        struct tutti_err *err);

#endif
