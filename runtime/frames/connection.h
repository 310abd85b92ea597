/* One end of a connection from inside, and clocks. Private to runtime/frames. */
#ifndef TUTTI_RUNTIME_FRAMES_CONNECTION_H
#define TUTTI_RUNTIME_FRAMES_CONNECTION_H

#include "runtime/frames.h"
#include "runtime/frames/wire.h"
#include "runtime/group/address.h"
#include "runtime/status.h"

/* Bytes of a payload; swapped, not freed, from frame to frame. */
struct tutti_frames_buffer {
    uint8_t *data;
    uint64_t room;
};

struct tutti_frames {
    int fd;
    uint64_t bytes_max;
    tutti_ps deadline_ps; /* of a send */
    char address[TUTTI_ADDRESS_TEXT_BYTES];
    char name[TUTTI_FRAMES_NAME_BYTES + TUTTI_ADDRESS_TEXT_BYTES + 8];
    int ended; /* 0, or the status that says why; the text is in `why` */
    struct tutti_err why;
    struct tutti_wire_seal out;
    struct tutti_wire_seal in;
    /* The frame that comes in: a head, a payload, a tag. */
    uint8_t head_bytes_in[TUTTI_WIRE_HEAD_BYTES];
    size_t head_got;
    struct tutti_wire_head head; /* once head_got is all of it */
    struct tutti_frames_buffer coming;
    uint64_t payload_got;
    uint8_t tag[TUTTI_WIRE_TAG_BYTES];
    size_t tag_got;
    bool whole;                       /* waits to be given out */
    struct tutti_frames_buffer given; /* what the caller reads */
};

/* Takes the socket over; NULL: no memory, and it is still the caller's. */
struct tutti_frames *tutti_frames_new(int fd, const struct tutti_frames_opts *opts,
                                      const struct tutti_wire_talk *talk, bool server);

/* As tutti_frames_connect, but each address of the host is tried once: for who will come again. */
int tutti_frames_connect_once(const struct tutti_frames_opts *opts, const char *address,
                              tutti_ps deadline_ps, const char *what, struct tutti_frames **ret,
                              struct tutti_err *err);

/* opts as this version of the library knows them, with defaults in place of 0, and checked. */
int tutti_frames_take(const struct tutti_frames_opts *opts, struct tutti_frames_opts *ret,
                      struct tutti_err *err);

tutti_ps tutti_frames_now(void);                    /* of the monotonic clock */
tutti_ps tutti_frames_due(tutti_ps timeout_ps);     /* so long after now; INT64_MAX: never */
int tutti_frames_left_ms(tutti_ps due_ps);          /* for poll: rounded up, at most a minute */
bool tutti_frames_draw(uint8_t *ret, size_t bytes); /* at random; false: errno */
const char *tutti_frames_version(void);             /* of Tutti */

#endif
