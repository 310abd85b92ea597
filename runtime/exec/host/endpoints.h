/* What leads out of this process: the endpoints of an execution for its transport, and the barrier
 * over all processes. Private to runtime/exec/host. */
#ifndef TUTTI_RUNTIME_EXEC_HOST_ENDPOINTS_H
#define TUTTI_RUNTIME_EXEC_HOST_ENDPOINTS_H

#include "runtime/exec/host/connection.h"
#include "runtime/exec/host/wait_set.h"
#include "runtime/exec/transport/transport.h"

enum { TUTTI_CROSSING_ROUNDS_MAX = 32 };

/* What a message of the barrier says, if anything. */
struct tutti_crossing_word {
    int64_t last_ns; /* when the last process heard of has come, on the monotonic clock */
    int64_t enough;  /* 1: one heard of has had enough */
};

/* The barrier of the processes that have ranks, by dissemination: in round k each sends a message
 * to the one 2^k on, and waits for that of the one 2^k before. Its first rank does it.
 * With a lead the messages say when the last of those heard of has come, so that in the end all
 * know when the last has, and begin so long after it: by the host's clock, which they share. */
struct tutti_crossing {
    uint32_t round_count;
    uint64_t met_count;
    tutti_ps lead_ps; /* 0: none */
    bool hooked;      /* the messages say, too, whether somebody has had enough */
    bool enough; /* before the barrier: this process has; after: somebody; written by the first rank
                    before the others go on */
    tutti_ps
        begins_ps; /* on the wait set's clock; written by the first rank before the others go on */
    struct tutti_crossing_word said[TUTTI_CROSSING_ROUNDS_MAX];
    struct tutti_crossing_word heard[TUTTI_CROSSING_ROUNDS_MAX];
    struct tutti_endpoint *out[TUTTI_CROSSING_ROUNDS_MAX];
    struct tutti_endpoint *in[TUTTI_CROSSING_ROUNDS_MAX];
};

struct tutti_endpoints {
    struct tutti_endpoint *endpoints; /* in the order that struct tutti_transport_plan asks for */
    uint32_t endpoint_count;
    struct tutti_crossing crossing;
};

/* Gives each connection with an end elsewhere its endpoint; the connections must stay where they
 * are. -TUTTI_ECHECK, with rank, lane and step, where SENDs and RECVs are not equally many: with
 * other processes in it, no deadlock is ever certain, so this one is found here. */
int tutti_endpoints_open(struct tutti_endpoints *endpoints, struct tutti_connections *connections,
                         const struct tutti_schedule *schedule, const struct tutti_group *group,
                         tutti_ps lead_ps, bool hooked, struct tutti_err *err);
void tutti_endpoints_close(struct tutti_endpoints *endpoints);

/* All ranks of all processes meet. Errors as tutti_wait_set_wait, and those of the transport: with
 * these alone there is a message in *err, which is not touched otherwise. */
int tutti_crossing_meet(struct tutti_crossing *crossing, struct tutti_wait_set *wait_set,
                        uint32_t rank, struct tutti_err *err);

#endif
