/* What members of a group say to each other once they have greeted: a head, and a body whose size
 * the head tells and the type bounds. Private to runtime/group. */
#ifndef TUTTI_RUNTIME_GROUP_FRAME_H
#define TUTTI_RUNTIME_GROUP_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/status.h"

enum {
    TUTTI_FRAME_HEAD_BYTES = 24,
    TUTTI_FRAME_STOP_BYTES = 8,  /* before the text */
    TUTTI_FRAME_VIEW_BYTES = 20, /* of a view, before its members */
    TUTTI_FRAME_MEMBER_BYTES = 28,
    TUTTI_FRAME_PART_BYTES_MAX = 16 << 20, /* that one process gives to an exchange */
    TUTTI_FRAME_ALL_BYTES_MAX = 256 << 20, /* that all give */
};

enum tutti_frame_type {
    TUTTI_FRAME_PING = 1,     /* both ways: still alive */
    TUTTI_FRAME_MEMBERS = 2,  /* from process 0: all are there, and where: a view */
    TUTTI_FRAME_EXCHANGE = 3, /* to process 0: a part; from process 0: all parts */
    TUTTI_FRAME_STOP = 4,     /* both ways: it is over, why, and who says so */
    TUTTI_FRAME_BYE = 5,      /* both ways: closes, in peace */
    TUTTI_FRAME_PROPOSE = 6,  /* from who leads a shrink or an admission: the next view */
    TUTTI_FRAME_ACCEPT = 7,   /* to it: taken; incarnation says which */
    TUTTI_FRAME_COMMIT = 8,   /* from it: all have taken it, it holds */
};

/* `incarnation` and `round` together say to which step of which group a frame belongs: one of an
 * earlier incarnation is dropped, whatever it says. */
struct tutti_frame {
    enum tutti_frame_type type;
    uint32_t bytes; /* of the body */
    uint32_t incarnation;
    uint32_t wait_ms; /* exchange, to process 0: how long the sender will wait */
    uint64_t round;   /* exchange: its number */
};

/* Why a group is over. */
struct tutti_ending {
    int status;      /* negative */
    uint32_t origin; /* the process whose words the text is, or TUTTI_ENDING_PLAIN */
    struct tutti_err err;
};

#define TUTTI_ENDING_PLAIN UINT32_MAX

void tutti_frame_write_head(const struct tutti_frame *frame, uint8_t to[TUTTI_FRAME_HEAD_BYTES]);
/* False: no frame that is known, or one too long. */
bool tutti_frame_read_head(const uint8_t from[TUTTI_FRAME_HEAD_BYTES], struct tutti_frame *ret);

/* A whole STOP of this incarnation, head and body; `to` has room for TUTTI_FRAME_HEAD_BYTES +
 * TUTTI_FRAME_STOP_BYTES + TUTTI_ERR_TEXT_BYTES. Returns its bytes. */
size_t tutti_frame_write_stop(const struct tutti_ending *ending, uint32_t incarnation, uint8_t *to);
bool tutti_frame_read_stop(const uint8_t *from, size_t bytes, struct tutti_ending *ret);

#endif
