/* The transport on MPI's point-to-point messages: what its two files share. Private to
 * runtime/exec/transport/mpi.
 *
 * A message of an endpoint is a head, with the bytes themselves behind it where they are few, and
 * otherwise pieces on a tag of their own. Small heads go at once whoever waits; pieces are large
 * enough for MPI's way of one copy, small enough to be reduced while the cache holds them, and few
 * are under way at a time. Receives are posted when there is a receive descriptor: never before. */
#ifndef TUTTI_RUNTIME_EXEC_TRANSPORT_MPI_TRANSPORT_H
#define TUTTI_RUNTIME_EXEC_TRANSPORT_MPI_TRANSPORT_H

#include "runtime/exec/transport/mpi/talk.h"
#include "runtime/exec/transport/transport.h"

enum {
    TUTTI_MPI_INLINE_BYTES = 62 * TUTTI_PIECE_BYTES,  /* with the head within the usual 4 KiB */
    TUTTI_MPI_MOVED_BYTES = 4096 * TUTTI_PIECE_BYTES, /* of a piece: 256 KiB */
    TUTTI_MPI_WINDOW = 4,                             /* pieces of an endpoint under way */
    TUTTI_MPI_TAG_STOP = 0,
    TUTTI_MPI_TAGS_OF_ENDPOINT = 3, /* heads, pieces, word of what has arrived */
};

struct tutti_mpi_head {
    uint64_t bytes; /* of the message */
    uint64_t step : 63;
    uint64_t strict : 1;
};

/* A send descriptor under way. */
struct tutti_mpi_flight {
    struct tutti_send_desc send_desc;
    uint64_t piece_count;
    uint64_t posted_count; /* pieces */
    uint64_t moved_count;
    bool head_moved;
    bool arrived; /* strict: the receiver has said so */
};

/* A piece that is being received. */
struct tutti_mpi_piece {
    char *at;
    bool came;
    bool lent; /* the memory is the rank's */
};

struct tutti_mpi_endpoint {
    struct tutti_endpoint *endpoint;
    struct tutti_mpi_rank *rank;
    int process; /* of the peer */
    int tag;     /* the first of its three */
    uint64_t
        sent_count; /* messages of MPI: what has been sent must be received, whatever happens */
    uint64_t received_count;
    char *heads; /* [slot_count] of head_bytes; one for an endpoint that receives */
    size_t head_bytes;

    struct tutti_mpi_flight *flights; /* [slot_count]; message m is in m mod slot_count */
    uint64_t begun_count;             /* messages */
    uint64_t posting;                 /* the message whose pieces are being posted */
    uint32_t window_count;            /* pieces posted and not yet moved */
    uint64_t word_count; /* messages before this one have arrived, or need not say so */

    struct tutti_recv_desc recv_desc;
    bool open; /* there is a receive descriptor */
    bool head_came;
    uint64_t piece_count;
    uint64_t posted_count;
    uint64_t taken_count;
    struct tutti_mpi_piece pieces[TUTTI_MPI_WINDOW]; /* piece p is in p mod the window */
};

/* What a request is for. */
struct tutti_mpi_what {
    struct tutti_mpi_endpoint *endpoint;
    enum tutti_mpi_kind {
        TUTTI_MPI_HEAD_OUT,
        TUTTI_MPI_PIECE_OUT,
        TUTTI_MPI_WORD_IN,
        TUTTI_MPI_HEAD_IN,
        TUTTI_MPI_PIECE_IN,
    } kind;
    uint64_t number; /* of the message; PIECE_IN: of the piece */
};

/* One rank of this process: its thread alone touches it but for `woken`. */
struct tutti_mpi_rank {
    MPI_Request *requests; /* [capacity]; what[i] says what requests[i] is for */
    struct tutti_mpi_what *whats;
    struct tutti_mpi_what *came; /* [capacity]: room for what has been completed */
    int *indices;
    MPI_Status *statuses;
    int active_count;
    int capacity;
    bool ready;
    char *memory[TUTTI_MPI_WINDOW]; /* for pieces that are handed over */
    char *spare[TUTTI_MPI_WINDOW];  /* of it the first spare_count are free */
    uint32_t spare_count;
    uint32_t fruitless_count;
    long backoff_ns;
    pthread_mutex_t lock; /* guards woken */
    pthread_cond_t sleeper;
    bool woken;
};

struct tutti_mpi_transport {
    struct tutti_transport base; /* first member: the transport casts back */
    struct tutti_mpi_group *group;
    MPI_Comm comm;
    int tag_max;
    bool broken; /* messages were left under way: of no use any more */
    /* From begin to end. */
    const struct tutti_transport_plan *plan;
    struct tutti_mpi_endpoint *endpoints; /* [endpoint_count] */
    struct tutti_mpi_rank *ranks;
    char *heads;
    struct tutti_mpi_flight *flights;
    uint64_t
        *counts; /* [processes * (processes + 2)]: sent to, received of, and all of the former */
    char *trash; /* a piece's worth */
    bool large;  /* some messages have pieces */
    atomic_bool stopped;
    atomic_int stopped_by; /* process + 1; 0: none that we know of */
};

static inline struct tutti_mpi_rank *tutti_mpi_rank_of(const struct tutti_mpi_transport *transport,
                                                       uint32_t rank)
{
    const struct tutti_transport_plan *plan = transport->plan;

    return &transport->ranks[plan->together ? 0 : rank - plan->first_rank];
}

/* messages.c: as the operations of transports. */
int tutti_mpi_send(struct tutti_transport *base, struct tutti_endpoint *endpoint,
                   const struct tutti_send_desc *send_desc, struct tutti_err *err);
int tutti_mpi_recv(struct tutti_transport *base, struct tutti_endpoint *endpoint,
                   const struct tutti_recv_desc *recv_desc, struct tutti_err *err);
int tutti_mpi_move(struct tutti_transport *base, uint32_t rank, struct tutti_err *err);

/* drain.c: after an execution that was broken off, until nothing is under way. */
int tutti_mpi_drain(struct tutti_mpi_transport *transport, struct tutti_err *err);

#endif
