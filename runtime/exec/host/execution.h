/* What the host's player has loaded: a schedule that the ranks of this process play in threads,
 * and, through a transport, with those of the other processes of a group. The backends threads, tcp
 * and mpi are this player, threads without a transport, the others each with its own. Private to
 * runtime/exec. */
#ifndef TUTTI_RUNTIME_EXEC_HOST_EXECUTION_H
#define TUTTI_RUNTIME_EXEC_HOST_EXECUTION_H

#include <pthread.h>
#include <sched.h>

#include "runtime/exec/emulate/pacer.h"
#include "runtime/exec/host/endpoints.h"
#include "runtime/exec/host/helpers.h"
#include "runtime/exec/host/multiplex.h"
#include "runtime/exec/host/stage.h"
#include "runtime/exec/host/work_threads.h"
#include "runtime/exec/run/player.h"
#include "runtime/group.h"
#include "runtime/record.h"
#include "runtime/threads.h"

struct tutti_host_backend_opts {
    const char *name;          /* of the backend; lives as long as it */
    bool pin;                  /* the ranks of this host on its processors, one after the other */
    struct tutti_group *group; /* borrowed; NULL: this process alone */
    struct tutti_transport *transport; /* taken over, also on failure; NULL if there is no group */
    struct tutti_shaper *shaper;       /* as in struct tutti_threads_opts; of the first process */
    double slowdown;
    uint32_t thread_count;
};

/* Opens a backend of the host's player; with a group, collective. */
int tutti_host_backend_open(const struct tutti_host_backend_opts *opts, struct tutti_backend **ret,
                            struct tutti_err *err);

/* The player. */
struct tutti_host_player {
    struct tutti_player base; /* first member: the player casts back */
    bool pin;
    struct tutti_shaper *shaper; /* borrowed; NULL: nothing is held back */
    double slowdown;
    uint32_t thread_count;
    struct tutti_lateness lateness; /* of the last burst, and those before it since load */
    cpu_set_t processors;           /* that this process may use */
    struct tutti_transport *transport;
};

/* A worker plays one rank in a thread of its own; the first worker plays in the thread that calls.
 * Where a machine is emulated, a thread plays all ranks of this process, and helpers.h helps it,
 * or, if it is alone and told to, each of a few threads some: what many have to do in one instant
 * shall not cost as many wake-ups. The thread alone touches this in a burst, `playing` aside. */
struct tutti_worker {
    _Alignas(TUTTI_CACHE_LINE) struct tutti_execution *execution;
    uint32_t worker_index; /* in the wait set and before the pacer; its rank, if it plays one */
    uint32_t first_rank;   /* of those it plays */
    uint32_t rank_count;
    pthread_t thread;
    bool has_thread;
    atomic_bool playing; /* inside engine_run */
    struct tutti_engine *engine;
    struct tutti_thread_stage *stages; /* [rank_count] */
    struct tutti_multiplex multiplex;  /* of these stages, where one thread may have several */
    const struct tutti_stage_ops *stage_ops; /* what the engine drives: the one stage, or these */
    void *stage;
    struct tutti_record record;
    tutti_ps *arrived_ps; /* [taken iterations]: came to the barrier, or began */
    tutti_ps *ended_ps;
    uint64_t generation; /* counts the times that the ranks have met */
};

struct tutti_execution {
    struct tutti_host_player *player;
    struct tutti_load load;
    uint32_t worker_index_first; /* workers of this host before ours */
    uint32_t host_worker_count;  /* of this host, in all processes */
    struct tutti_wait_set wait_set;
    struct tutti_connections connections;
    struct tutti_endpoints endpoints;
    struct tutti_transport_plan plan;
    struct tutti_remote_writes remote_writes;
    struct tutti_rank_peer *rank_peers;      /* [own] */
    struct tutti_thread_stage *stages;       /* [own] */
    struct tutti_worker *workers;            /* [worker_count] */
    struct tutti_pacer *pacer;               /* NULL: nothing is held back */
    uint32_t *worker_of;                     /* [own], with a pacer: who plays the rank */
    struct tutti_helpers *helpers;           /* likewise, and one thread for all ranks; else NULL */
    struct tutti_work_threads *work_threads; /* NULL: the workers do the works, if any */
    uint32_t worker_count;
    struct tutti_burst burst;
    uint32_t taken_max;  /* room for the times of so many iterations */
    tutti_ps *times_ps;  /* backs the workers' times and these: */
    tutti_ps *opened_ps; /* [taken]: with other processes, when the barrier opened; else NULL */
    bool has_begun;      /* the transport has */
    int status;          /* of connect */
    bool is_joined;      /* there are no threads any more */
    atomic_uint burst_number; /* bursts begun, the end of the run counted as one */
    atomic_uint ended_count;  /* workers with a thread that have played this burst */
    atomic_bool over;         /* the run is being closed */
    atomic_bool heard;        /* it was abort that ended the run */
    atomic_int is_broken;     /* 1: `broken` has an owner, who was broken off and says where */
    struct tutti_err broken;
};

/* Of how many iterations of the burst the times are kept: all, or one for all of them. */
static inline uint32_t tutti_execution_taken_count(const struct tutti_execution *execution)
{
    return execution->load.meets ? execution->burst.iteration_count : 1;
}

/* ---- execution.c ---- */

/* Takes all that is needed, but for threads and other processes: these come in player.c. */
int tutti_execution_prepare(struct tutti_execution *execution, struct tutti_err *err);
/* Room for the times of a burst. */
int tutti_execution_reserve(struct tutti_execution *execution, uint32_t iteration_count,
                            struct tutti_err *err);
void tutti_execution_clear(struct tutti_execution *execution);

/* ---- processes.c ---- */

/* With other processes: what the ranks of this one have to know of those of others. */
int tutti_execution_prepare_processes(struct tutti_execution *execution, struct tutti_err *err);

/* ---- emulated.c ---- */

/* With a shaper: how many threads play the ranks here, and what holds them back. */
uint32_t tutti_emulated_worker_count(const struct tutti_execution *execution);
int tutti_execution_prepare_emulation(struct tutti_execution *execution, struct tutti_err *err);

/* ---- worker.c ---- */

/* Plays the burst in the worker's thread. A negative status: the run has been broken off. */
int tutti_worker_play(struct tutti_worker *worker);
/* In a burst, once the worker has played it: until the others have. As tutti_worker_play. */
int tutti_worker_wait_for_others(struct tutti_worker *worker);
/* The thread of a worker, which is a struct tutti_worker: burst after burst, until the run is over
 * or broken off. */
void *tutti_worker_run(void *worker);
/* This thread takes the processor of the worker. */
void tutti_worker_pin(const struct tutti_worker *worker);

/* ---- player.c ---- */

extern const struct tutti_player_ops tutti_host_player_ops;

#endif
