/* The messages of a schedule, and the results among them that are written straight to where they
 * will be received; found in one walk. Private to sim/local. */
#ifndef TUTTI_SIM_LOCAL_MESSAGES_H
#define TUTTI_SIM_LOCAL_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

struct tutti_schedule;
struct tutti_err;

enum { LOCAL_PIECES = 1024, LOCAL_PIECE_BYTES = 64 << 10 };

struct local_message {
    uint64_t dst_offset; /* of its RECV */
    double seen_ps;      /* when the receiver may see it; of this play */
    uint64_t step;       /* its SEND */
    uint64_t src_offset;
    uint64_t bytes;
    uint8_t dst_buf;
    uint8_t src_buf;
    bool fused;
    bool lands; /* result of a REDUCE, received into an output: written there by the sender */
};

/* A piece under way between processes. */
struct local_piece {
    double seen_ps;
    uint64_t bytes;
};

/* Of one sender, one receiver and one lane. */
struct local_wire {
    struct local_message *messages;
    double *released_ps; /* [slot]: when the sender may see that the message before it is gone */
    uint64_t message_count;
    uint64_t sent_count; /* in this play, */
    uint64_t taken_count;
    uint64_t ended_count; /* whose SENDs have been reported as finished */
    /* Between processes; bytes of all messages of this play. */
    bool remote;
    bool direct;           /* the receiver reads the sender's memory: nothing is handed over */
    uint64_t lend_min;     /* messages of so many bytes are handed over, and read likewise */
    uint64_t gone_count;   /* messages handed to the system, or read by the receiver */
    uint64_t gone_bytes;   /* and of the one that is being handed over */
    uint64_t posted_bytes; /* of SENDs that have begun */
    uint64_t given_bytes;  /* handed to the system */
    uint64_t taken_bytes;
    struct local_piece *pieces; /* [LOCAL_PIECES], a ring: not yet taken */
    uint32_t piece_first;
    uint32_t piece_count;
};

/* The REDUCE at `step` of a lane: its result is sent on by the `send_count` steps behind it. */
struct local_result {
    uint64_t step;
    uint32_t send_count;
};

struct local_results {
    struct local_result *results;
    uint64_t count;
    uint64_t next; /* in this play */
};

struct local_messages {
    uint32_t rank_count;
    uint32_t lane_count;
    struct local_wire *wires;      /* [(lane * ranks + from) * ranks + to] */
    struct local_results *results; /* [rank * lanes + lane] */
    uint64_t wire_count;
};

int tutti_local_messages_open(const struct tutti_schedule *schedule, struct local_messages *ret,
                              struct tutti_err *err);
void tutti_local_messages_close(struct local_messages *messages);
/* For plays with the ranks divided among so many processes, which read each other's memory, or lend
 * each other messages of so many bytes, or do neither. -TUTTI_ENOMEM. */
int tutti_local_messages_divide(struct local_messages *messages, uint32_t process_count,
                                bool direct, uint64_t lend_min);
void tutti_local_messages_rewind(struct local_messages *messages);

struct local_wire *tutti_local_wire_of(const struct local_messages *messages, uint32_t from,
                                       uint32_t to, uint32_t lane);

#endif
