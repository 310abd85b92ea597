/* A carrier: brings messages from the ranks of one process to those of another, over sockets or
 * MPI. Ranks of one process meet in memory and need none. Private to runtime/exec.
 *
 * A way is what a carrier sees of a connection (from, to, lane) of which one end is here. Its
 * messages keep their order; ways do not wait for each other: a message that nobody receives yet
 * must not hold up those of another way. The thread of a rank drives the ways of that rank, and
 * nobody else does: send, recv, move and rest come from that thread alone, wake and stop may come
 * from any. If one thread plays all ranks of the process, move, rest, wake and owes are for all of
 * them, whichever is named. begin and end are called by all processes of the crew alike. */
#ifndef TUTTI_RUNTIME_EXEC_THREADS_CARRIER_H
#define TUTTI_RUNTIME_EXEC_THREADS_CARRIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/units.h"

struct tutti_carrier;
struct tutti_crew;
struct tutti_err;

enum { TUTTI_PIECE_BYTES = 64 };

struct tutti_way {
    uint32_t rank;          /* of this process */
    uint32_t peer;          /* of another */
    uint32_t lane;          /* lane_count and more: the game's own, for the barrier */
    uint32_t slot_count;    /* messages under way at most */
    uint64_t message_count; /* of one iteration */
    uint64_t bytes_max;     /* the longest of them */
    bool sends;             /* rank to peer; else peer to rank */
    bool strict;            /* some of its parcels may be strict; both sides know */
    bool near;              /* the peer reaches us without leaving this host's network, and nobody
                               minds if any parcel is taken for strict; both sides know */

    /* What the carrier has to say, written in calls of the rank's thread. */
    uint64_t done_count; /* messages completed since begin, in order */
    /* Of the message received last: how long it was, and the step that sent it. If it was not as
     * long as the landing, it still counts as done; what the landing then holds is no matter, and
     * the game ends. */
    uint64_t came_bytes;
    uint64_t came_step;

    void *own; /* the carrier's */
};

/* Where a received message goes. It is the carrier's to choose how; a way has one at most. */
struct tutti_landing {
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
struct tutti_parcel {
    const void *src; /* not written before the message is done; NULL if it has no bytes */
    uint64_t bytes;
    uint64_t step; /* for the messages of the other side */
    /* Done once the receiver has all of it where it belongs (stored, or handed to `take`). Else
     * done as soon as the source may be written again. Either without waiting for later messages
     * of this way. */
    bool strict;
};

/* What is about to be played. */
struct tutti_carried {
    uint32_t rank_count;
    uint32_t first_rank; /* of this process; 0 ranks where there are more processes than ranks */
    uint32_t own_count;
    uint32_t way_count;
    /* By (lower rank, higher rank, lane, direction): two processes have their ways in the same
     * order. They and their counts are known to be the same on both sides. */
    struct tutti_way *ways;
    bool crowded;  /* more threads on this host than processors: who waits should not spin */
    bool together; /* one thread plays all ranks of the process */
    tutti_ps deadline_ps;
};

/* One const struct a kind. Statuses of all: 0, or negative with a message that names the peer. */
struct tutti_carrier_ops {
    size_t size; /* sizeof(struct tutti_carrier_ops) */
    const char *name;
    void (*close)(struct tutti_carrier *carrier);
    /* Before the threads start. `carried` and its ways stay where they are until end. */
    int (*begin)(struct tutti_carrier *carrier, struct tutti_crew *crew,
                 const struct tutti_carried *carried, struct tutti_err *err);
    /* Both return at once; the parcel and the landing are copied. At most slot_count messages are
     * under way, and one landing; a landing comes only after the one before is done. */
    int (*send)(struct tutti_carrier *carrier, struct tutti_way *way,
                const struct tutti_parcel *parcel, struct tutti_err *err);
    int (*recv)(struct tutti_carrier *carrier, struct tutti_way *way,
                const struct tutti_landing *landing, struct tutti_err *err);
    /* Moves what can be moved without waiting. > 0: something was (no deadline runs while bytes
     * flow, done or not); 0: nothing. -TUTTI_EIO: a peer is gone, or has broken off:
     * "rank 3 (process 1) is gone"; or it has sent what it should not, in other words. */
    int (*move)(struct tutti_carrier *carrier, uint32_t rank, struct tutti_err *err);
    /* Whether something of `rank` has still to go out although all its own messages are done, such
     * as word of what it has received. NULL: never. */
    bool (*owes)(const struct tutti_carrier *carrier, uint32_t rank);
    /* Sleeps until there may be something to move, until wake(rank) (also one that came before), or
     * until the time is over; may return early. Only after a move of 0. */
    void (*rest)(struct tutti_carrier *carrier, uint32_t rank, tutti_ps timeout_ps);
    void (*wake)(struct tutti_carrier *carrier, uint32_t rank);
    /* This process breaks off: the others shall not have to wait for their deadlines. May be NULL
     * where there is no way to tell them. */
    void (*stop)(struct tutti_carrier *carrier);
    /* After the threads have ended. status < 0: the game was broken off somewhere, messages of any
     * way may be lost or half there; the next begin must find its ways empty. */
    void (*end)(struct tutti_carrier *carrier, int status);
};

/* The kind embeds this struct as its first member. */
struct tutti_carrier {
    const struct tutti_carrier_ops *ops;
};

#endif
