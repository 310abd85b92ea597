/* Connections: for each (from, to, lane) of the programs a ring of descriptors with one writer and
 * one reader. Private to runtime/exec/host. */
#ifndef TUTTI_RUNTIME_EXEC_HOST_CONNECTION_H
#define TUTTI_RUNTIME_EXEC_HOST_CONNECTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/exec/host/wait_set.h"
#include "runtime/schedule.h"

/* One message under way. The sender writes all and `serial` last; the line then belongs to the
 * receiver until it counts the message as released. Serial and descriptor share the line, so that a
 * hand-over moves one line from core to core, not two. */
struct tutti_slot {
    _Alignas(TUTTI_CACHE_LINE) atomic_uint_fast64_t serial; /* of the message: 1, 2, 3, ... */
    const void *data;                                       /* the sender's own memory */
    uint64_t bytes;
    uint64_t step;     /* for the sender: index of the SEND */
    tutti_ps start_ps; /* for the sender: when it got the slot */
    /* With a pacer (pacer.h): serial of the last message here that has arrived on the other
     * machine. */
    atomic_uint_fast64_t arrived;
    uint32_t connection; /* whose slot it is */
};

struct tutti_connection {
    uint32_t from;
    uint32_t to;
    uint32_t lane;
    uint32_t slot_count;
    struct tutti_slot *slots; /* NULL where the sender is in another process */
    uint32_t number; /* with a shared pacer (shared_pacer.h): among those of all processes */
    struct tutti_endpoint *endpoint; /* the other end is in another process; NULL: both are here */
    uint64_t send_total;             /* SENDs and RECVs of one iteration */
    uint64_t recv_total;
    uint64_t bytes_max; /* of any of them */
    bool strict;        /* somebody may see when a SEND of it ends */

    _Alignas(TUTTI_CACHE_LINE) uint64_t sent_count; /* the sender's */
    uint64_t ended_count;                           /* SENDs reported as finished */
    uint32_t sent_slot;                             /* sent_count mod slot_count */
    uint32_t ended_slot;
    bool watched; /* in the sender's list of connections with SENDs under way */

    _Alignas(TUTTI_CACHE_LINE) uint64_t taken_count; /* the receiver's */
    uint32_t taken_slot;
    _Alignas(TUTTI_CACHE_LINE) atomic_uint_fast64_t released_count; /* written by the receiver */
};

/* All connections of a run that begin or end here, found by hashing; frozen before the threads
 * start. */
struct tutti_connections {
    uint32_t first_rank; /* of this process */
    uint32_t own_count;
    struct tutti_connection *connections;
    uint32_t connection_count;
    uint32_t *table; /* connection number + 1, or 0; the size is a power of two */
    uint32_t table_mask;
    struct tutti_slot *slots; /* [slot_count], connection by connection */
    uint32_t slot_count;
    uint64_t *waited_for; /* bit rank * lane_count + lane: steps depend on this lane of this rank */
    uint32_t *out_counts; /* [rank - first_rank]: connections that begin there */
};

static inline bool tutti_connections_own(const struct tutti_connections *connections, uint32_t rank)
{
    return rank - connections->first_rank < connections->own_count;
}

/* Walks all programs, also those of other processes' ranks; this one has [first_rank, first_rank +
 * own_count). -TUTTI_EINVAL for a COMPUTE of which nobody can say how long it takes. */
int tutti_thread_connections_open(struct tutti_connections *connections,
                                  const struct tutti_schedule *schedule, uint32_t first_rank,
                                  uint32_t own_count, struct tutti_err *err);
void tutti_thread_connections_close(struct tutti_connections *connections);

/* The connection, which the programs must have; NULL otherwise. */
struct tutti_connection *tutti_thread_connections_find(const struct tutti_connections *connections,
                                                       uint32_t from, uint32_t to, uint32_t lane);

#endif
