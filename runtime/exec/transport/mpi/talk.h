/* What the parts of libtutti_mpi share: the group with MPI's lock, errors in words, and patience.
 * Private to runtime/exec/transport/mpi. */
#ifndef TUTTI_RUNTIME_EXEC_TRANSPORT_MPI_TALK_H
#define TUTTI_RUNTIME_EXEC_TRANSPORT_MPI_TALK_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/group.h"
#include "runtime/status.h"

/* What a process that gives up tells all others. */
struct tutti_mpi_notice {
    int32_t status;
    char text[TUTTI_ERR_TEXT_BYTES];
};

struct tutti_mpi_group {
    struct tutti_group base; /* first member: the group casts back */
    MPI_Comm talk;           /* exchanges */
    MPI_Comm notices;
    bool serialized; /* MPI lets one thread in at a time: all calls are made under `lock` */
    bool failed;     /* an exchange has failed: its messages may still be under way */
    bool dead;       /* MPI must not be called any more: tutti_mpi_die */
    /* Guards what follows, and a serialized MPI. */
    pthread_mutex_t lock;
    bool stopped; /* by this process */
    bool heard;   /* of another that stopped: heard_of, notice */
    uint32_t heard_of;
    struct tutti_mpi_notice notice; /* received, or under way to the others */
    MPI_Request *requests;          /* [2 * count]: receives, then sends of the exchange */
    MPI_Request *telling;           /* [count]: of the notice */
    char *mine;                     /* what is sent may outlive its exchange if that fails */
    char *all;
    size_t bytes_max; /* of one part, for which there is room */
    atomic_bool woken;
};

/* Around calls of MPI that are not made under the lock anyway. */
void tutti_mpi_enter(struct tutti_mpi_group *group);
void tutti_mpi_leave(struct tutti_mpi_group *group);

/* Messages could not be brought to an end, and MPI would go on with them in any call, in memory
 * that is its owner's again: this process makes none any more; the launcher will end it. */
void tutti_mpi_die(struct tutti_mpi_group *group);

/* What MPI returned, as a status: "cannot WHAT: MPI's words". */
int tutti_mpi_status(int code, const char *what, struct tutti_err *err);

/* One wait: MPI has none that ends by itself, so it looks, yields, and after some looks sleeps. */
struct tutti_mpi_patience {
    int64_t began_ns;
    int64_t limit_ns;
    long backoff_ns; /* 0: still yielding */
};

int64_t tutti_mpi_now_ns(void); /* on the monotonic clock */
struct tutti_mpi_patience tutti_mpi_patience(tutti_ps timeout_ps);
bool tutti_mpi_rest(struct tutti_mpi_patience *patience); /* false: the time is over */

#endif
