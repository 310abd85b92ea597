/* An execution: a run of a schedule by the ranks of this process, and, through a transport, by
 * those of the other processes of a group. The backends threads, tcp and mpi execute so,
 * threads without a transport, the others each with its own. Private to runtime/exec. */
#ifndef TUTTI_RUNTIME_EXEC_HOST_EXECUTION_H
#define TUTTI_RUNTIME_EXEC_HOST_EXECUTION_H

#include <pthread.h>
#include <sched.h>

#include "runtime/backend.h"
#include "runtime/exec/emulate/pacer.h"
#include "runtime/exec/emulate/shared_pacer.h"
#include "runtime/exec/host/endpoints.h"
#include "runtime/exec/host/helpers.h"
#include "runtime/exec/host/multiplex.h"
#include "runtime/exec/host/stage.h"
#include "runtime/exec/run/player.h"
#include "runtime/group.h"
#include "runtime/record.h"

struct tutti_host_backend_opts {
    const char *name;          /* of the backend; lives as long as it */
    bool pin;                  /* the ranks of this host on its processors, one after the other */
    struct tutti_group *group; /* borrowed; NULL: this process alone */
    struct tutti_transport *transport; /* taken over, also on failure; NULL if there is no group */
    struct tutti_shaper *shaper;       /* as in struct tutti_threads_opts; of the first process */
    double slowdown;
    uint32_t thread_count;
};

/* Opens a backend that plays with the processes of a group; collective. */
int tutti_host_backend_open(const struct tutti_host_backend_opts *opts, struct tutti_backend **ret,
                            struct tutti_err *err);

/* The backend. */
struct tutti_host_backend {
    struct tutti_backend base; /* first member: the backend casts back */
    struct tutti_backend_ops ops;
    bool pin;
    struct tutti_shaper *shaper; /* borrowed; NULL: nothing is held back */
    double slowdown;
    uint32_t thread_count;
    struct tutti_lateness lateness; /* of the last play */
    cpu_set_t processors;           /* that this process may use */
    struct tutti_group *group;      /* `alone` if there is nobody else */
    struct tutti_group alone;
    struct tutti_transport *transport;
    struct tutti_home *homes; /* [process]; NULL if alone */
    bool has_run;             /* one is open */
};

/* The memory of one rank. */
struct tutti_part {
    void *own_in; /* provided by us, else NULL */
    void *own_out;
    void *own_state;
    void *scratch;
};

/* A worker plays one rank in a thread of its own; the first worker plays in the thread that calls.
 * Where a machine is emulated, a thread plays all ranks of this process, and helpers.h helps it,
 * or, if it is alone and told to, each of a few threads some: what many have to do in one instant
 * shall not cost as many wake-ups. The thread alone touches this in a step, `playing` aside. */
struct tutti_worker {
    struct tutti_execution *execution;
    uint32_t worker_index; /* in the wait set and before the pacer; its rank, if it plays one */
    uint32_t first_rank;   /* of those it plays */
    uint32_t rank_count;
    pthread_t thread;
    bool has_thread;
    atomic_bool playing; /* inside engine_run */
    struct tutti_engine *engine;
    struct tutti_thread_stage *stages; /* [rank_count] */
    struct tutti_multiplex multiplex;  /* of these stages, where one thread may have several */
    struct tutti_record record;
    tutti_ps *arrived_ps; /* [taken iterations]: came to the barrier, or began */
    tutti_ps *ended_ps;
    uint64_t generation;   /* counts the times that the ranks have met */
    uint32_t timed_count;  /* iterations played in this step, warm-ups aside */
    uint64_t played_count; /* and with them */
};

/* Listens for processes that give up or are gone, while the run is open. */
struct tutti_guard {
    pthread_t thread;
    bool has_thread;
    atomic_bool over;
    bool heard; /* it was this that ended the run */
};

/* What a process says first after a step. */
struct tutti_verdict {
    int64_t status;
    uint64_t event_count;
    uint64_t step_count;
    uint64_t timed_count; /* iterations; 0 also where a process has no ranks */
    tutti_ps took_ps;     /* of the first taken one */
    uint64_t opened_ns;   /* when the last barrier opened, on the clock of the host */
    int64_t ended_ns;     /* by the wall clock, which hosts have about the same */
    struct tutti_err err;
};

struct tutti_execution {
    struct tutti_host_backend *host_backend;
    struct tutti_play play; /* its counts are those of the step */
    const struct tutti_schedule *schedule;
    uint32_t first_rank;
    uint32_t own_count;
    uint32_t worker_index_first; /* ranks of this host before ours */
    tutti_ps deadline_ps;
    struct tutti_wait_set wait_set;
    struct tutti_connections connections;
    struct tutti_endpoints endpoints;
    struct tutti_transport_plan plan;
    struct tutti_remote_writes remote_writes;
    struct tutti_pacer pacer;               /* with a shaper */
    struct tutti_helpers *helpers;          /* likewise, and one thread for all ranks; else NULL */
    struct tutti_shared_pacer shared_pacer; /* and other processes */
    struct tutti_rank_peer *rank_peers;     /* [own] */
    struct tutti_part *parts;               /* [own] */
    struct tutti_thread_stage *stages;      /* [own] */
    struct tutti_worker *workers;           /* [worker_count] */
    uint32_t worker_count;
    uint64_t played_count; /* iterations of earlier steps, warm-ups included */
    uint32_t timed_count;  /* iterations that this step really had, warm-ups aside */
    uint32_t taken_count;  /* iterations of which the times are kept: those, or one for all */
    uint32_t taken_max;    /* room for so many */
    tutti_ps *times_ps;    /* backs the workers' times and the two below */
    tutti_ps *opened_ps;   /* [taken]: when the barrier opened, with other processes or a hook; else
                            NULL */
    tutti_ps *took_ps;     /* [taken]: how long the iterations took */
    struct tutti_verdict *verdicts; /* [process] */
    struct tutti_guard guard;
    bool has_begun;          /* the transport has */
    bool is_joined;          /* there are no threads any more */
    atomic_uint step_number; /* steps begun, the end of the run counted as one */
    atomic_uint ended_count; /* workers with a thread that have played this step */
    atomic_bool over;        /* the run is being closed */
    int status;              /* of the last step */
    atomic_int is_broken;    /* 1: `broken` has an owner, who was broken off and says where */
    struct tutti_err broken;
};

/* The iterations of a step meet before each. */
static inline bool tutti_execution_meets(const struct tutti_execution *execution)
{
    return execution->play.barrier || execution->play.between != NULL;
}

/* ---- execution.c ---- */

/* Takes all that a run needs, but for threads and other processes: these come in run.c. */
int tutti_execution_prepare(struct tutti_execution *execution, struct tutti_err *err);
/* Room for the times of a step. */
int tutti_execution_reserve(struct tutti_execution *execution, uint32_t iteration_count,
                            struct tutti_err *err);
void tutti_execution_clear(struct tutti_execution *execution);

/* ---- run.c ---- */

/* As the functions of struct tutti_backend_ops. With several processes all of them call them;
 * status, message and times are then the same. */
int tutti_execution_open(struct tutti_backend *backend, const struct tutti_play *play, void **ret,
                         struct tutti_err *err);
int tutti_execution_step(void *execution, uint32_t warmup_count, uint32_t iteration_count,
                         struct tutti_played *ret, struct tutti_err *err);
void tutti_execution_close(void *execution);

/* ---- worker.c ---- */

/* Plays the step in the worker's thread. A negative status: the run has been broken off. */
int tutti_worker_step(struct tutti_worker *worker);
/* In a step, once the worker has played it: until the others have. As tutti_worker_step. */
int tutti_worker_wait_for_others(struct tutti_worker *worker);
/* The thread of a worker, which is a struct tutti_worker: step after step, until the run is over or
 * broken off. */
void *tutti_worker_run(void *worker);
/* This thread takes the processor of the worker. */
void tutti_worker_pin(const struct tutti_worker *worker);

/* ---- result.c ---- */

/* What all processes say after a step: the same status and message in all of them, and then the
 * same times and records. `status` and *err are those of this process. 1: a hook has had enough. */
int tutti_execution_conclude(struct tutti_execution *execution, int status,
                             struct tutti_played *ret, struct tutti_err *err);

#endif
