/* What lies on the wire, without sockets: the handshake's four messages, heads of frames, MACs.
 *
 *     client: hello   magic, versions, whether it has a secret, a nonce
 *     server: hello   the same of its own, and perhaps why it refuses
 *     client: proof      HMAC of both hellos under the secret
 *     server: answer     whether it believes, and its own HMAC of both hellos and the proof
 *
 * The first 32 bytes of a hello are those of every version. The client proves first, so that a
 * stranger who calls learns nothing made from the secret; each HMAC begins with the name of what it
 * is for, so that none is of use elsewhere. Private to runtime/frames. */
#ifndef TUTTI_RUNTIME_FRAMES_WIRE_H
#define TUTTI_RUNTIME_FRAMES_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/group/sha256.h"

enum {
    TUTTI_WIRE_PROTOCOL = 1,
    TUTTI_WIRE_NONCE_BYTES = 32,
    TUTTI_WIRE_PREFIX_BYTES = 32, /* of a hello: magic, protocol, word, version of Tutti */
    TUTTI_WIRE_TUTTI_BYTES = 16,  /* "1.2.3" and zeros */
    TUTTI_WIRE_HELLO_BYTES = TUTTI_WIRE_PREFIX_BYTES + TUTTI_WIRE_NONCE_BYTES,
    TUTTI_WIRE_PROOF_BYTES = TUTTI_SHA256_BYTES,
    TUTTI_WIRE_ANSWER_BYTES = 4 + TUTTI_SHA256_BYTES,
    TUTTI_WIRE_TAG_BYTES = 16, /* a HMAC, cut */
    TUTTI_WIRE_HEAD_BYTES = 16 + TUTTI_WIRE_TAG_BYTES,
};

/* The word of a hello. Of a client: has a secret, or none; of a server: go on, or why not. */
enum tutti_wire_word {
    TUTTI_WIRE_GO_ON = 0,
    TUTTI_WIRE_OTHER_VERSION = 1,
    TUTTI_WIRE_NO_SECRET = 2, /* the server has one, the client has not */
    TUTTI_WIRE_UNWANTED_SECRET = 3,
    TUTTI_WIRE_WRONG_SECRET = 4,
    TUTTI_WIRE_HAS_SECRET = 5, /* of a client; GO_ON: it has none */
};

struct tutti_wire_hello {
    uint32_t protocol;
    uint32_t word;
    char tutti[TUTTI_WIRE_TUTTI_BYTES + 1];
};

void tutti_wire_write_hello(enum tutti_wire_word word, const char *tutti,
                            const uint8_t nonce[TUTTI_WIRE_NONCE_BYTES],
                            uint8_t ret[TUTTI_WIRE_HELLO_BYTES]);
/* Of the prefix. False: it is not of this protocol. */
bool tutti_wire_read_hello(const uint8_t prefix[TUTTI_WIRE_PREFIX_BYTES],
                           struct tutti_wire_hello *ret);

/* One direction of a session. */
struct tutti_wire_seal {
    bool on;               /* false: without a secret; tags are zeros */
    struct tutti_hmac key; /* has taken the key, and no data */
    uint64_t counter;      /* of frames */
};

/* Both hellos and the proof as they were on the wire: what is proved, and what keys are of. */
struct tutti_wire_talk {
    const void *secret;
    size_t secret_bytes; /* 0: none */
    uint8_t client[TUTTI_WIRE_HELLO_BYTES];
    uint8_t server[TUTTI_WIRE_HELLO_BYTES];
};

void tutti_wire_prove(const struct tutti_wire_talk *talk, bool server,
                      uint8_t ret[TUTTI_WIRE_PROOF_BYTES]);
/* The key of what the server, or the client, sends. */
void tutti_wire_seal_of(const struct tutti_wire_talk *talk, bool server,
                        struct tutti_wire_seal *ret);

struct tutti_wire_head {
    uint32_t type;
    uint64_t bytes;
};

/* The head of the next frame, with its tag. */
void tutti_wire_write_head(const struct tutti_wire_seal *seal, const struct tutti_wire_head *head,
                           uint8_t ret[TUTTI_WIRE_HEAD_BYTES]);
enum tutti_wire_read { TUTTI_WIRE_READ, TUTTI_WIRE_FORGED, TUTTI_WIRE_TOO_LONG };
enum tutti_wire_read tutti_wire_read_head(const struct tutti_wire_seal *seal,
                                          const uint8_t head[TUTTI_WIRE_HEAD_BYTES],
                                          uint64_t bytes_max, struct tutti_wire_head *ret);
/* The tag after the payload of this head: begin, add the parts, end, which counts the frame. Only
 * where seal->on and there is a payload; else the frame is counted by hand: ++seal->counter. */
void tutti_wire_begin_tag(const struct tutti_wire_seal *seal,
                          const uint8_t head[TUTTI_WIRE_HEAD_BYTES], struct tutti_hmac *ret);
void tutti_wire_end_tag(struct tutti_hmac *hmac, uint8_t ret[TUTTI_WIRE_TAG_BYTES]);

#endif
