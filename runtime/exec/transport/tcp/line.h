/* Lines: the connections between two ranks on one lane, and what is on its way over them. Private
 * to runtime/exec/transport/tcp.
 *
 * A line serves the endpoints between its ranks both ways over the same connections, since bytes
 * that go one way then carry the system's own acknowledgements of the other. An endpoint with
 * strict messages has a line of its own, over which the receiver says back what it has: were such
 * words behind data, they would wait for one who waits for them.
 *
 * A message is a head and its bytes. Of a large one each connection carries a part, each with a
 * head of its own, so that a stream that is out of step is found on any of them; and what is
 * written in several calls, between which somebody else might write, has a seal behind it. The
 * receiver reads nothing before it has a receive descriptor for it, so a message that nobody takes
 * waits in the sockets, and holds up nobody else: other lanes have other lines.
 *
 * Connections are those of one incarnation of the group: who makes one proves that it is of the
 * same (runtime/group/links.c), and a backend, which keeps them, belongs to one group. So heads do
 * not say of which incarnation they are.
 *
 * Between processes of one host a large message is lent: the system is given the pages that it lies
 * in, not a copy, and the receiver's copy is the only one (zero_copy.c). The source then is being
 * read until the receiver says that it has all of it: such a message is as a strict one, and its
 * endpoint has a line of its own. */
#ifndef TUTTI_RUNTIME_EXEC_TRANSPORT_TCP_LINE_H
#define TUTTI_RUNTIME_EXEC_TRANSPORT_TCP_LINE_H

#include <sys/uio.h>

#include "runtime/exec/transport/transport.h"

enum {
    /* Two who send and receive in small turns are in each other's way; with these 1 MiB to and fro
     * takes half as long as with 256 and 128 KiB (tests/bench/notes.md). */
    TUTTI_TCP_AT_ONCE = 1 << 20,      /* bytes handed to the system in one call */
    TUTTI_TCP_PIECE = 512 << 10,      /* bytes received before they are reduced: they fit a cache */
    TUTTI_TCP_STRIPE_MIN = 512 << 10, /* messages from here on are cut over all connections */
    /* Messages from here on are lent, where that can be. Where ranks share processors it means
     * more turns of the scheduler, and pays later. */
    TUTTI_TCP_ZERO_COPY_MIN = 128 << 10,
    TUTTI_TCP_ZERO_COPY_CROWDED_MIN = 512 << 10,
};

enum {
    TUTTI_TCP_IOVS = 3,              /* head, bytes and seal */
    TUTTI_TCP_SEALED_MIN = 16 << 10, /* messages from here on have seals: the system may take them
                                         in several bites */
};

/* In the byte order of the machine, as the data themselves. */
struct tutti_tcp_head {
    uint32_t magic;
    uint16_t strict; /* 1: the receiver says when it has it */
    uint16_t conn;   /* of the line, that this goes over */
    uint64_t number; /* of the message, since the execution began */
    uint64_t bytes;  /* of the message */
    uint64_t step;
};

struct tutti_tcp_line;

/* Where pages are on their way from a message to a socket. */
struct tutti_tcp_pipe {
    int fds[2];     /* to read from and to write to */
    uint64_t bytes; /* in it: the next of the message being sent */
};

/* One socket. */
struct tutti_tcp_conn {
    struct tutti_tcp_line *line;
    uint32_t index; /* in its line */
    int fd;
    bool wants_in;  /* there is something to be read, when it comes */
    bool wants_out; /* there is something to be written */
    bool listed;    /* in the progress context's list of those that want something */
    /* Of the message being received: this connection's part, from in_first on. */
    uint64_t in_first;
    uint64_t in_bytes;
    uint64_t in_got;
    struct tutti_tcp_head in_head;
    uint64_t in_seal;
    uint32_t head_got; /* of the head, or of a word */
    uint32_t seal_got;
    uint32_t rest_bytes; /* received and not yet reduced: less than TUTTI_PIECE_BYTES */
    char rest[TUTTI_PIECE_BYTES];
    char *piece; /* TUTTI_TCP_PIECE bytes, where what is reduced is received */
    /* The message being sent, from 0; how much of head and part, or of a word, has gone. */
    uint64_t out_number;
    uint64_t out_gone;
    struct tutti_tcp_head out_head;
    uint64_t out_seal;
    uint32_t lent_at;            /* iov of those given out last; TUTTI_TCP_IOVS: none */
    struct tutti_tcp_pipe *pipe; /* NULL: its line lends nothing */
    void *own;                   /* the engine's */
};

struct tutti_tcp_send_desc {
    struct tutti_send_desc send_desc;
    uint32_t parts_left; /* connections that have still to carry their part */
};

struct tutti_tcp_line {
    struct tutti_tcp_progress *progress; /* of the rank whose line it is */
    struct tutti_endpoint *out;          /* NULL: nothing is sent but words */
    struct tutti_endpoint *in;           /* NULL: nothing is received but words */
    uint32_t peer;                       /* rank */
    uint32_t process;                    /* of that rank */
    uint32_t conn_count;
    struct tutti_tcp_conn *conns;
    bool lends;             /* all its connections have pipes */
    uint64_t zero_copy_min; /* bytes of a message, from which on it is lent then */
    /* Sending: a ring of out->slot_count send descriptors. */
    struct tutti_tcp_send_desc *send_descs;
    uint64_t sent_count;   /* handed to us */
    uint64_t gone_count;   /* handed to the system */
    uint64_t told_count;   /* received on the other side, as far as it has said so */
    uint64_t strict_count; /* up to the last of which it is to say so */
    uint64_t word_in;
    /* Receiving. */
    struct tutti_recv_desc recv_desc;
    bool has_recv_desc;
    uint32_t parts_left;
    struct tutti_tcp_head head;
    uint64_t word_out;   /* the word under way: how many messages have been received */
    uint64_t tell_count; /* the last one to be said, and that has been */
    uint64_t said_count;
};

/* What the connection would read or write next: how many of iov[0 .. TUTTI_TCP_IOVS) are filled; 0:
 * nothing. */
uint32_t tutti_tcp_line_in(struct tutti_tcp_conn *conn, struct iovec *iov);
uint32_t tutti_tcp_line_out(struct tutti_tcp_conn *conn, struct iovec *iov);

/* It has been read or written. `result`: bytes, 0 for a closed connection, or -errno, but not
 * -EAGAIN. 0, or -TUTTI_EIO with a message that names the peer. */
int tutti_tcp_line_came(struct tutti_tcp_conn *conn, int64_t result, struct tutti_err *err);
int tutti_tcp_line_went(struct tutti_tcp_conn *conn, int64_t result, struct tutti_err *err);

/* These set wants_out and wants_in of connections, and those above unset them. */
void tutti_tcp_line_send(struct tutti_tcp_line *line, const struct tutti_send_desc *send_desc);
void tutti_tcp_line_recv(struct tutti_tcp_line *line, const struct tutti_recv_desc *recv_desc);

#endif
