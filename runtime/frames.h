/* Frames: typed messages over one TCP connection between two processes that are no ranks of a
 * schedule: a parameter server and its worker, a chief and those that wait for it, a driver and a
 * standing worker. A connection has no thread of its own and is used by one thread at a time; every
 * wait has a deadline, and every message of an error names the peer.
 *
 * The handshake tells both sides the protocol's and Tutti's version, of which another is refused by
 * name, and a nonce of each. With a secret both prove that they know it (HMAC-SHA-256), and every
 * frame after it carries a MAC by a key of this session and direction, and a counter: a frame that
 * was changed, replayed, left out or moved ends the connection. Nothing is encrypted: who listens
 * on the way reads all of it, and may try guesses at the secret, which therefore must be drawn at
 * random. A MAC costs about 8 ns a byte. Without a secret loopback alone is listened at. */
#ifndef TUTTI_RUNTIME_FRAMES_H
#define TUTTI_RUNTIME_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_frames;          /* one end of a connection */
struct tutti_frames_listener; /* where others come */

enum {
    TUTTI_FRAMES_SECRET_BYTES_MIN = 32,
    TUTTI_FRAMES_ADDRESS_BYTES = 320,
    TUTTI_FRAMES_NAME_BYTES = 128,
    TUTTI_FRAMES_PARTS_MAX = 64,
    TUTTI_FRAMES_WAITING_MAX = 64, /* of those that have come and have not proved yet */
};

struct tutti_frames_opts {
    size_t size;          /* sizeof(struct tutti_frames_opts): runtime/api.h */
    const void *secret;   /* NULL: none; borrowed until the call returns */
    size_t secret_bytes;  /* TUTTI_FRAMES_SECRET_BYTES_MIN or more */
    uint64_t bytes_max;   /* of a frame that is sent or received; 0: 16 MiB */
    tutti_ps deadline_ps; /* of a handshake, and of a send; 0: 30 s */
    /* Told of strangers that were refused, a line without its end each, during accept. */
    void (*log)(void *data, const char *line);
    void *log_data;
    /* A socket that listens already, perhaps since before this process was forked: taken over once
     * listen has succeeded, in place of an address. */
    bool has_listen_fd;
    int listen_fd;
};

/* Listens at "host:port" ("10.0.0.1:4242", "[::1]:0", "worker-0:2222"; port 0: any free one);
 * address NULL: any port of 127.0.0.1. A name that is not an address of this host means all of its
 * addresses. -TUTTI_EINVAL: beyond loopback and without a secret, or with one that is too short. */
int tutti_frames_listen(const struct tutti_frames_opts *opts, const char *address,
                        struct tutti_frames_listener **ret, struct tutti_err *err);
const char *tutti_frames_listener_address(const struct tutti_frames_listener *listener);
uint16_t tutti_frames_listener_port(const struct tutti_frames_listener *listener);
/* Readable when accept has something to do. */
int tutti_frames_listener_fd(const struct tutti_frames_listener *listener);
void tutti_frames_listener_close(struct tutti_frames_listener *listener); /* NULL is a no-op */

/* The next that has come and proved; *ret NULL: none within timeout_ps (0: what is there already).
 * Who is slow to prove keeps nobody waiting. */
int tutti_frames_accept(struct tutti_frames_listener *listener, tutti_ps timeout_ps,
                        struct tutti_frames **ret, struct tutti_err *err);

/* To "host:port", tried again until deadline_ps, with opts' bytes_max and secret. `what` is what
 * this process waits for, "parameter server 0": in messages before the address. -TUTTI_EINVAL: the
 * peer is of another version, or has another secret; -TUTTI_EIO: nobody was there in time, and the
 * last reason. */
int tutti_frames_connect(const struct tutti_frames_opts *opts, const char *address,
                         tutti_ps deadline_ps, const char *what, struct tutti_frames **ret,
                         struct tutti_err *err);

/* Part of a payload: so a head and an array go out together, and nothing is copied. */
struct tutti_frames_part {
    const void *data;
    size_t bytes;
};

/* Sends all of it, or fails and has ended the connection (-TUTTI_EIO; -TUTTI_ETIME: the peer has
 * not taken it in time); -TUTTI_EINVAL: longer than bytes_max, nothing was sent. While it waits it
 * receives up to one frame, so that two ends that send to each other do not wait for ever. */
int tutti_frames_send(struct tutti_frames *frames, uint32_t type,
                      const struct tutti_frames_part *parts, size_t count, struct tutti_err *err);

struct tutti_frames_got {
    uint32_t type;
    const uint8_t
        *data; /* the connection's, until its next receive or close; also where it sends */
    uint64_t bytes;
};

/* The next frame. -TUTTI_ETIME: not within timeout_ps (0: what is there already), and one can ask
 * again. What else is returned is the end of the connection, said again at each further call:
 * -TUTTI_EIO: the peer has closed it or is gone; -TUTTI_EINVAL: it announces more than bytes_max;
 * -TUTTI_ECHECK: a MAC is wrong. Of what was sent before an end nothing is lost. */
int tutti_frames_receive(struct tutti_frames *frames, tutti_ps timeout_ps,
                         struct tutti_frames_got *ret, struct tutti_err *err);

/* Whether receive would return a frame or the end at once. To be asked before each poll of fd, for
 * a frame that came during a send does not show there. */
bool tutti_frames_ready(struct tutti_frames *frames);
int tutti_frames_fd(const struct tutti_frames *frames);
bool tutti_frames_ended(const struct tutti_frames *frames);

/* The peer, in messages: "parameter server 0 ('10.0.0.3:4242')". Of one that has come it is "a
 * process ('...')" until it is known who it is. */
void tutti_frames_set_name(struct tutti_frames *frames, const char *what);
const char *tutti_frames_name(const struct tutti_frames *frames);
void tutti_frames_close(struct tutti_frames *frames); /* NULL is a no-op */

/* ---- values in a payload: little-endian, and checked against its end ------------------------- */

/* Writes into room of the caller's; what does not fit sets `full` and writes nothing more. */
struct tutti_frames_writer {
    uint8_t *data;
    size_t room;
    size_t bytes; /* written */
    bool full;
};

void tutti_frames_put_u32(struct tutti_frames_writer *writer, uint32_t value);
void tutti_frames_put_u64(struct tutti_frames_writer *writer, uint64_t value);
void tutti_frames_put_double(struct tutti_frames_writer *writer, double value);
void tutti_frames_put_bytes(struct tutti_frames_writer *writer, const void *data, size_t bytes);
void tutti_frames_put_text(struct tutti_frames_writer *writer, const char *text);

/* Reads; beyond the end, or a text that is none, sets `bad`, and all further values are 0 or "". */
struct tutti_frames_reader {
    const uint8_t *data;
    size_t bytes;
    size_t at;
    bool bad;
};

uint32_t tutti_frames_get_u32(struct tutti_frames_reader *reader);
uint64_t tutti_frames_get_u64(struct tutti_frames_reader *reader);
double tutti_frames_get_double(struct tutti_frames_reader *reader);
const uint8_t *tutti_frames_get_bytes(struct tutti_frames_reader *reader, size_t bytes);
const char *tutti_frames_get_text(struct tutti_frames_reader *reader); /* lies in the payload */
bool tutti_frames_get_all(const struct tutti_frames_reader *reader);   /* read well, to the end */

TUTTI_API_END

#endif
