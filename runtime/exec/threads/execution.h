/* An execution: one play of a schedule by the ranks of this process, and, through a transport, by
 * those of the other processes of a group. The backends threads, tcp and mpi execute so,
 * threads without a transport, the others each with its own. Private to runtime/exec. */
#ifndef TUTTI_RUNTIME_EXEC_THREADS_EXECUTION_H
#define TUTTI_RUNTIME_EXEC_THREADS_EXECUTION_H

#include <pthread.h>
#include <sched.h>

#include "runtime/backend.h"
#include "runtime/exec/threads/endpoints.h"
#include "runtime/exec/threads/helpers.h"
#include "runtime/exec/threads/multiplex.h"
#include "runtime/exec/threads/pacer.h"
#include "runtime/exec/threads/shared_pacer.h"
#include "runtime/exec/threads/stage.h"
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

/* Where a process is. */
struct tutti_home {
    uint64_t host;    /* the same for all that share its processors */
    uint64_t network; /* the same for all that reach each other without leaving the host; 0: who
                         knows */
};

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
};

/* The memory of one rank. */
struct tutti_part {
    void *own_in; /* provided by us, else NULL */
    void *own_out;
    void *scratch;
};

/* A thread, which plays one rank. Where a machine is emulated, a thread plays all ranks of this
 * process, and helpers.h helps it, or, if it is alone and told to, each of a few threads some: what
 * many have to do in one instant shall not cost as many wake-ups.
 * The thread alone touches this between start and join, `playing` aside. */
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
};

struct tutti_execution {
    struct tutti_host_backend *host_backend;
    const struct tutti_play *play;
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
    uint32_t taken_count; /* iterations of which the times are kept: all, or one for all of them */
    tutti_ps *opened_ps;  /* [taken]: with other processes, when the barrier opened; else NULL */
    atomic_int is_broken; /* 1: `broken` has an owner, who was broken off and says where */
    struct tutti_err broken;
};

/* ---- execution.c ---- */

/* With several processes all of them call it; status, message and times are then the same. */
int tutti_execution_play(struct tutti_host_backend *host_backend, const struct tutti_play *play,
                         struct tutti_played *ret, struct tutti_err *err);

/* ---- worker.c ---- */

/* The thread of a worker thread; `worker thread` is a struct tutti_worker. */
void *tutti_worker_run(void *worker);

/* ---- result.c ---- */

/* What all processes say after an execution: the same status and message in all of them, and then
 * the same times and records. `status` and *err are those of this process. */
int tutti_execution_conclude(struct tutti_execution *execution, int status,
                             struct tutti_played *ret, struct tutti_err *err);

#endif
