/* A transport: brings messages from the ranks of one process to those of another, over sockets or
 * MPI. Ranks of one process meet in memory and need none. Private to runtime/exec.
 *
 * An endpoint is what a transport sees of a connection (from, to, lane) of which one end is here.
 * Its messages keep their order; endpoints do not wait for each other: a message that nobody
 * receives yet must not hold up those of another endpoint. The thread of a rank drives the
 * endpoints of that rank, and nobody else does: send, recv, move and rest come from that thread
 * alone, wake and stop may come from any. If one thread plays all ranks of the process, move, rest,
 * wake and owes are for all of them, whichever is named. begin and end are called by all processes
 * of the group alike. */
#ifndef TUTTI_RUNTIME_EXEC_TRANSPORT_TRANSPORT_H
#define TUTTI_RUNTIME_EXEC_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/units.h"

struct tutti_transport;
struct tutti_group;
struct tutti_err;

enum { TUTTI_PIECE_BYTES = 64 };

struct tutti_endpoint {
    uint32_t rank;          /* of this process */
    uint32_t peer;          /* of another */
    uint32_t lane;          /* lane_count and more: the execution's own, for the barrier */
    uint32_t slot_count;    /* messages under way at most */
    uint64_t message_count; /* of one iteration */
    uint64_t bytes_max;     /* the longest of them */
    bool sends;             /* rank to peer; else peer to rank */
    bool strict;            /* some of its send descriptors may be strict; both sides know */
    bool near;              /* the peer reaches us without leaving this host's network, and nobody
                               minds if any send descriptor is taken for strict; both sides know */

    /* What the transport has to say, written in calls of the rank's thread. */
    uint64_t done_count; /* messages completed since begin, in order */
    /* Of the message received last: how long it was, and the step that sent it. If it was not as
     * long as the receive descriptor, it still counts as done; what the receive descriptor then
     * holds is no matter, and the execution ends. */
    uint64_t came_bytes;
    uint64_t came_step;

    void *own; /* the transport's */
};

/* Where a received message goes. It is the transport's to choose how; an endpoint has one at most.
 */
struct tutti_recv_desc {
    void *dst; /* `bytes` bytes, of any alignment that the data type has */
    uint64_t bytes;
    /* NULL: the message is stored at dst. Else its pieces are handed over as they come, in any
     * order and while they are in the cache, each but that at the end a multiple of
     * TUTTI_PIECE_BYTES long, and aligned for every data type; dst may hold them meanwhile, or hold
     * nothing. The piece may also be the whole message. */
    void (*take)(void *data, uint64_t offset, const void *piece, uint64_t bytes);
    void *data;
};

/* A message to be sent. */
struct tutti_send_desc {
    const void *src; /* not written before the message is done; NULL if it has no bytes */
    uint64_t bytes;
    uint64_t step; /* for the messages of the other side */
    /* Done once the receiver has all of it where it belongs (stored, or handed to `take`). Else
     * done as soon as the source may be written again. Either without waiting for later messages
     * of this endpoint. */
    bool strict;
};

/* What is about to be played. */
struct tutti_transport_plan {
    uint32_t rank_count;
    uint32_t first_rank; /* of this process; 0 ranks where there are more processes than ranks */
    uint32_t own_count;
    uint32_t endpoint_count;
    /* By (lower rank, higher rank, lane, direction): two processes have their endpoints in the same
     * order. They and their counts are known to be the same on both sides. */
    struct tutti_endpoint *endpoints;
    bool crowded;  /* more threads on this host than processors: who waits should not spin */
    bool together; /* one thread plays all ranks of the process */
    tutti_ps deadline_ps;
};

/* One const struct a kind. Statuses of all: 0, or negative with a message that names the peer. */
struct tutti_transport_ops {
    size_t size; /* sizeof(struct tutti_transport_ops) */
    const char *name;
    void (*close)(struct tutti_transport *transport);
    /* Before the threads start. `plan` and its endpoints stay where they are until end. */
    int (*begin)(struct tutti_transport *transport, struct tutti_group *group,
                 const struct tutti_transport_plan *plan, struct tutti_err *err);
    /* Both return at once; the send descriptor and the receive descriptor are copied. At most
     * slot_count messages are under way, and one receive descriptor; a receive descriptor comes
     * only after the one before is done. */
    int (*send)(struct tutti_transport *transport, struct tutti_endpoint *endpoint,
                const struct tutti_send_desc *send_desc, struct tutti_err *err);
    int (*recv)(struct tutti_transport *transport, struct tutti_endpoint *endpoint,
                const struct tutti_recv_desc *recv_desc, struct tutti_err *err);
    /* Moves what can be moved without waiting. > 0: something was (no deadline runs while bytes
     * fused_reduce, done or not); 0: nothing. -TUTTI_EIO: a peer is gone, or has broken off:
     * "rank 3 (process 1) is gone"; or it has sent what it should not, in other words. */
    int (*move)(struct tutti_transport *transport, uint32_t rank, struct tutti_err *err);
    /* Whether something of `rank` has still to go out although all its own messages are done, such
     * as word of what it has received. NULL: never. */
    bool (*owes)(const struct tutti_transport *transport, uint32_t rank);
    /* Sleeps until there may be something to move, until wake(rank) (also one that came before), or
     * until the time is over; may return early. Only after a move of 0. */
    void (*rest)(struct tutti_transport *transport, uint32_t rank, tutti_ps timeout_ps);
    void (*wake)(struct tutti_transport *transport, uint32_t rank);
    /* This process breaks off: the others shall not have to wait for their deadlines. May be NULL
     * where there is no way to tell them. */
    void (*stop)(struct tutti_transport *transport);
    /* After the threads have ended. status < 0: the execution was broken off somewhere, messages of
     * any endpoint may be lost or half there; the next begin must find its endpoints empty. */
    void (*end)(struct tutti_transport *transport, int status);
};

/* The kind embeds this struct as its first member. */
struct tutti_transport {
    const struct tutti_transport_ops *ops;
};

#endif
