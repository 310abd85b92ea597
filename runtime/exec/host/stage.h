/* The inside of the threads backend: one rank's stage, driven by that rank's engine in that rank's
 * thread. Private to runtime/exec/host. */
#ifndef TUTTI_RUNTIME_EXEC_HOST_STAGE_H
#define TUTTI_RUNTIME_EXEC_HOST_STAGE_H

#include "runtime/engine.h"
#include "runtime/exec/host/connection.h"
#include "runtime/exec/host/flow.h"
#include "runtime/exec/host/remote_write.h"
#include "runtime/exec/host/wait_set.h"

struct tutti_helpers;
struct tutti_lane_state; /* what a lane is doing */
struct tutti_pacer;
struct tutti_rank_work;

/* What the ranks know of each other. */
struct tutti_rank_peer {
    /* Iterations begun: whoever is in as late a one may write this rank's windows (remote_write.h).
     */
    _Alignas(TUTTI_CACHE_LINE) atomic_uint_fast64_t iteration;
    char *out;
};

/* One thread writes it; that of the rank beside it must not be in the way. */
struct tutti_thread_stage {
    _Alignas(TUTTI_CACHE_LINE) struct tutti_wait_set *wait_set;
    struct tutti_rank_peer *rank_peers; /* [rank - first_rank] */
    const struct tutti_remote_writes *remote_writes;
    const struct tutti_connections *connections;
    const struct tutti_flow_ops *flow;
    struct tutti_pacer *pacer;         /* of a flow that holds; else NULL */
    struct tutti_helpers *helpers;     /* NULL: this thread moves and adds itself, at once */
    struct tutti_rank_work *rank_work; /* NULL: this thread does the works itself */
    double slowdown;                   /* with a pacer */
    const struct tutti_schedule *schedule;
    const struct tutti_engine *engine; /* to say what is waited for */
    uint32_t rank;
    bool timed;           /* take the time of each step */
    uint64_t large_bytes; /* messages from this size on are stored past the cache */
    char *bufs[TUTTI_BUF_COUNT];
    struct tutti_lane_state *places; /* one piece of memory with the two lists that follow */
    uint32_t *busy;                  /* lanes with a posted step that has not been reported */
    uint32_t busy_count;
    struct tutti_connection **watched; /* connections with SENDs under way */
    uint32_t watched_count;
    uint32_t chain_count; /* lanes in which REDUCEs have been put off */
    /* With a transport, a bit a step: SENDs whose end another step waits for, and RECVs that may be
     * reported as soon as they are posted (remote.c). */
    uint64_t *marks;
    size_t *mark_first; /* [lane]: the bit of its first step */
};

/* `stage` comes with its first fields filled; takes memory. */
int tutti_thread_stage_open(struct tutti_thread_stage *stage, struct tutti_err *err);
void tutti_thread_stage_close(struct tutti_thread_stage *stage);

/* Before the program begins, in every iteration. */
void tutti_thread_stage_begin(struct tutti_thread_stage *stage);

/* After the program has ended: does what has been put off, stores what a fused RECV at the end of a
 * lane has only looked at, and sees to it that nothing is owed to other processes. */
int tutti_thread_stage_settle(struct tutti_thread_stage *stage, struct tutti_err *err);

extern const struct tutti_stage_ops tutti_thread_stage_ops;

/* What these are made of, for who has several stages (multiplex.h). Of one rank: */
int tutti_thread_stage_post(struct tutti_thread_stage *stage, const struct tutti_post *post,
                            struct tutti_err *err);
/* One look at its steps and messages: up to `max` events, 0 or a negative status. */
int tutti_thread_stage_look(struct tutti_thread_stage *stage, struct tutti_done *done, uint32_t max,
                            struct tutti_err *err);
/* Does what has been put off. */
void tutti_thread_stage_settle_all(struct tutti_thread_stage *stage);
/* With a pacer, and nothing put off: does what the messages under way are for, until that is
 * `bytes_max` or more. Returns how much it was. */
uint64_t tutti_thread_stage_work_ahead(struct tutti_thread_stage *stage, uint64_t bytes_max);
/* With a transport: whether a message has arrived on the other machine, and not here. */
bool tutti_thread_stage_lags(const struct tutti_thread_stage *stage);
/* With a pacer: whether a step is over on the other machine whose work is still being done here; if
 * so, this thread will be woken when it is done. */
bool tutti_thread_stage_awaits_work(const struct tutti_thread_stage *stage);
/* The play has failed: returns when no work of this rank is being done any more. */
void tutti_thread_stage_withdraw_work(struct tutti_thread_stage *stage);
/* When the first step ends that takes time of its own; 0: there is none. */
tutti_ps tutti_thread_stage_next_end(const struct tutti_thread_stage *stage);
/* Whether something may be done once a SEND is complete: one that waits for a slot, or the end of
 * the program; or its time is wanted. Lanes that have posted nothing are the engine's to count. */
bool tutti_thread_stage_hangs_on_sends(const struct tutti_thread_stage *stage);
/* A wait has failed: the status, and whose step it was. */
int tutti_thread_stage_gave_up(const struct tutti_thread_stage *stage, int status,
                               struct tutti_err *err);
/* The transport has said in *err what is wrong. */
int tutti_thread_stage_lost(const struct tutti_thread_stage *stage, int status,
                            struct tutti_err *err);

#endif
