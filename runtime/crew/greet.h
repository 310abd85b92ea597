/* How two processes make sure of each other before anything else is said: four messages of fixed
 * size, without sockets. The guest has connected, the host has listened.
 *
 *     guest: hello      who I am, what I want, a nonce
 *     host:  challenge  go on, another nonce (or a refusal)
 *     guest: proof      HMAC of both under the secret
 *     host:  welcome    HMAC of all of it likewise, a session key under a pad (or a refusal)
 *
 * The guest proves first, so that a stranger who calls learns nothing made from the secret. Each
 * HMAC covers both nonces and names the side that made it: nothing heard once is of use again.
 * Private to runtime/crew. */
#ifndef TUTTI_RUNTIME_CREW_GREET_H
#define TUTTI_RUNTIME_CREW_GREET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/crew/sha256.h"

enum {
    TUTTI_GREET_VERSION = 1,
    TUTTI_GREET_NONCE_BYTES = 32,
    TUTTI_GREET_KEY_BYTES = 32,
    TUTTI_GREET_NOTE_BYTES = 52,   /* of a refusal, with its zero */
    TUTTI_GREET_PREFIX_BYTES = 12, /* magic and version: of every version's hello and challenge */
    TUTTI_GREET_HELLO_BYTES = 96,
    TUTTI_GREET_CHALLENGE_BYTES = 56,
    TUTTI_GREET_PROOF_BYTES = 32,
    TUTTI_GREET_WELCOME_BYTES = 128,
};

enum tutti_greet_kind {
    TUTTI_GREET_JOIN = 1, /* to become a member of the crew */
    TUTTI_GREET_LINK = 2, /* a data connection between two members */
};

/* Why a guest is refused. The numbers are the protocol's. */
enum tutti_greet_reason {
    TUTTI_GREET_WELCOME = 0,
    TUTTI_GREET_OTHER_VERSION = 1, /* value: the host's */
    TUTTI_GREET_NO_SECRET = 2,     /* the host has one, the guest has not */
    TUTTI_GREET_UNWANTED_SECRET = 3,
    TUTTI_GREET_WRONG_SECRET = 4,
    TUTTI_GREET_OTHER_COUNT = 5, /* value: the host's */
    TUTTI_GREET_NO_SUCH_INDEX = 6,
    TUTTI_GREET_TWICE = 7,      /* note: the address of the process that has the index */
    TUTTI_GREET_BROKEN_OFF = 8, /* note: why, cut to its room; join alone */
    TUTTI_GREET_OTHER_KIND = 9,
    TUTTI_GREET_NOT_WANTED = 10, /* a link that the host does not wait for */
    TUTTI_GREET_REASON_COUNT
};

struct tutti_hello {
    enum tutti_greet_kind kind;
    uint32_t index;      /* of the guest */
    uint32_t count;      /* of processes, as the guest believes */
    uint32_t peer;       /* link: the process that is called */
    uint32_t round;      /* link: which making of links this belongs to */
    uint64_t key;        /* link */
    uint32_t port;       /* join: where the guest takes data connections */
    uint8_t address[16]; /* likewise, IPv4 as ::ffff:a.b.c.d; zeros: as the host sees it */
};

enum tutti_greet_state {
    TUTTI_GREET_WANTS_HELLO,     /* host */
    TUTTI_GREET_WANTS_PROOF,     /* host */
    TUTTI_GREET_PROVED,          /* host: say welcome or refuse */
    TUTTI_GREET_WANTS_CHALLENGE, /* guest */
    TUTTI_GREET_WANTS_WELCOME,   /* guest */
    TUTTI_GREET_DONE,
    TUTTI_GREET_REFUSED,  /* by the host: reason, value and note say why */
    TUTTI_GREET_STRANGER, /* what came is not of this protocol; nothing is answered */
    TUTTI_GREET_IMPOSTOR, /* guest: the host does not know the secret */
};

struct tutti_greet {
    enum tutti_greet_state state;
    const void *secret; /* borrowed */
    size_t secret_bytes;
    bool has_secret;
    struct tutti_hello said; /* by the guest */
    uint32_t reason;         /* of a refusal */
    uint32_t value;
    uint32_t wait_ms; /* join: how long the host will yet wait for others */
    char note[TUTTI_GREET_NOTE_BYTES];
    uint8_t session[TUTTI_GREET_KEY_BYTES]; /* guest: from the welcome */
    uint8_t nonce[TUTTI_GREET_NONCE_BYTES];
    uint8_t hello[TUTTI_GREET_HELLO_BYTES]; /* as they were on the wire: what is proved */
    uint8_t challenge[TUTTI_GREET_CHALLENGE_BYTES];
    uint8_t last[TUTTI_GREET_WELCOME_BYTES]; /* proof, then welcome */
    uint8_t *in;                             /* where the next bytes go */
    size_t in_bytes;                         /* that are still wanted; 0: none */
    const uint8_t *out;                      /* what is to be sent */
    size_t out_bytes;
};

/* secret NULL: none. The nonce must never have been used before. */
void tutti_greet_host(struct tutti_greet *greet, const void *secret, size_t secret_bytes,
                      const uint8_t nonce[TUTTI_GREET_NONCE_BYTES]);
void tutti_greet_guest(struct tutti_greet *greet, const void *secret, size_t secret_bytes,
                       const uint8_t nonce[TUTTI_GREET_NONCE_BYTES],
                       const struct tutti_hello *hello);

/* `bytes` of in_bytes have been put at `in`; out_bytes must be 0. */
void tutti_greet_took(struct tutti_greet *greet, size_t bytes);
void tutti_greet_sent(struct tutti_greet *greet, size_t bytes); /* of out_bytes */

/* The struct was copied from `from`, into which it still points. */
void tutti_greet_moved(struct tutti_greet *greet, const struct tutti_greet *from);

/* In the state PROVED. session NULL: none is given. */
void tutti_greet_welcome(struct tutti_greet *greet, uint32_t wait_ms, const uint8_t *session);
void tutti_greet_refuse(struct tutti_greet *greet, enum tutti_greet_reason reason, uint32_t value,
                        const char *note);

#endif
