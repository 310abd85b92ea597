/* A connection to another member: frames that come in, packets that go out, none of it waiting.
 * Private to runtime/group; the progress thread's thread alone uses it. */
#ifndef TUTTI_RUNTIME_GROUP_PEER_H
#define TUTTI_RUNTIME_GROUP_PEER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/group/address.h"
#include "runtime/group/frame.h"
#include "runtime/group/view.h"
#include "runtime/units.h"

/* Bytes on their way to one or many; the last holder frees them. */
struct tutti_packet {
    atomic_uint holder_count;
    size_t bytes;
    uint8_t data[];
};

struct tutti_packet *tutti_packet_new(size_t bytes); /* NULL: no memory; one holder */
/* A frame without a body. */
struct tutti_packet *tutti_packet_of_head(enum tutti_frame_type type, uint32_t incarnation);
struct tutti_packet *tutti_packet_hold(struct tutti_packet *packet);
void tutti_packet_drop(struct tutti_packet *packet); /* NULL is a no-op */

/* Members, a result, a ping, a stop and a bye: no more can be under way to one peer, for the next
 * result needs an answer to the last. */
enum { TUTTI_PEER_OUT_MAX = 8 };

struct tutti_peer {
    int fd;           /* -1: none */
    bool here;        /* has come (and may have gone since) */
    bool left;        /* has said good-bye */
    bool turned_away; /* has come when all was over, and has been told why */
    char address[TUTTI_ADDRESS_TEXT_BYTES];
    tutti_ps heard_ps; /* when the last bytes came */
    uint8_t head[TUTTI_FRAME_HEAD_BYTES];
    size_t head_bytes;
    struct tutti_frame frame; /* once the head is whole */
    bool has_frame;
    struct tutti_packet *body; /* NULL: none is needed */
    size_t body_bytes;
    struct tutti_packet *out[TUTTI_PEER_OUT_MAX];
    uint32_t out_count;
    size_t out_bytes; /* of out[0] that have gone */
    /* What process 0 keeps of each process, itself included. */
    struct tutti_member member;
    struct tutti_packet *part; /* of the exchange under way; NULL: not yet */
    size_t part_at;            /* where in the packet it begins */
    tutti_ps part_due_ps;      /* how long its giver waits */
    uint32_t part_wait_ms;     /* the same as a duration, for messages */
};

enum tutti_heard {
    TUTTI_HEARD_NOTHING, /* more */
    TUTTI_HEARD_FRAME,
    TUTTI_HEARD_END,   /* errno says how; 0: it closed */
    TUTTI_HEARD_NOISE, /* no frame */
    TUTTI_HEARD_NO_MEMORY,
};

void tutti_peer_open(struct tutti_peer *peer, int fd, tutti_ps now_ps);
void tutti_peer_close(struct tutti_peer *peer); /* packets too, but for the part */

/* Reads what is there, up to a whole frame: its body is the caller's; NULL for those that never
 * have one. The body of an exchange goes into *room, and takes it, if it has just that size. */
enum tutti_heard tutti_peer_hear(struct tutti_peer *peer, size_t exchange_bytes_max,
                                 struct tutti_packet **room, struct tutti_frame *ret,
                                 struct tutti_packet **ret_body);

/* Takes one holder's share of the packet. */
void tutti_peer_tell(struct tutti_peer *peer, struct tutti_packet *packet);

/* Sends what can be sent. False: the peer has gone, errno says how. */
bool tutti_peer_send(struct tutti_peer *peer);

#endif
