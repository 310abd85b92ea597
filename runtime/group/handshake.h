/* How two processes make sure of each other before anything else is said: four messages of fixed
 * size, without sockets. The client has connected, the server has listened.
 *
 *     client: hello      who I am, what I want, a nonce
 *     server: challenge  go on, another nonce (or a refusal)
 *     client: proof      HMAC of both under the secret
 *     server: welcome    HMAC of all of it likewise, a session key under a pad (or a refusal)
 *
 * The client proves first, so that a stranger who calls learns nothing made from the secret. Each
 * HMAC covers both nonces and names the side that made it: nothing heard once is of use again.
 * Private to runtime/group. */
#ifndef TUTTI_RUNTIME_GROUP_HANDSHAKE_H
#define TUTTI_RUNTIME_GROUP_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/group/sha256.h"

enum {
    TUTTI_HANDSHAKE_VERSION = 2,
    TUTTI_HANDSHAKE_NONCE_BYTES = 32,
    TUTTI_HANDSHAKE_KEY_BYTES = 32,
    TUTTI_HANDSHAKE_NOTE_BYTES = 52, /* of a refusal, with its zero */
    TUTTI_HANDSHAKE_PREFIX_BYTES =
        12, /* magic and version: of every version's hello and challenge */
    TUTTI_HANDSHAKE_HELLO_BYTES = 112,
    TUTTI_HANDSHAKE_CHALLENGE_BYTES = 56,
    TUTTI_HANDSHAKE_PROOF_BYTES = 32,
    TUTTI_HANDSHAKE_WELCOME_BYTES = 128,
};

enum tutti_handshake_kind {
    TUTTI_HANDSHAKE_JOIN = 1, /* to become a member of the group that is being opened */
    TUTTI_HANDSHAKE_LINK = 2, /* a data connection between two members */
    /* One member to another, of the same group or of what was left of it: to agree on the next
     * incarnation. From a higher place: let me in; from a lower one (round 1): come to me. */
    TUTTI_HANDSHAKE_SHRINK = 3,
    TUTTI_HANDSHAKE_ENTER = 4, /* a newcomer, to become a member of the next incarnation */
    TUTTI_HANDSHAKE_PAIR = 5,  /* a pair link between two members */
    TUTTI_HANDSHAKE_CALL = 6,  /* a pair link from a process that is no member */
};

/* Why a client is refused. The numbers are the protocol's. */
enum tutti_handshake_reason {
    TUTTI_HANDSHAKE_WELCOME = 0,
    TUTTI_HANDSHAKE_OTHER_VERSION = 1, /* value: the server's */
    TUTTI_HANDSHAKE_NO_SECRET = 2,     /* the server has one, the client has not */
    TUTTI_HANDSHAKE_UNWANTED_SECRET = 3,
    TUTTI_HANDSHAKE_WRONG_SECRET = 4,
    TUTTI_HANDSHAKE_OTHER_COUNT = 5, /* value: the server's */
    TUTTI_HANDSHAKE_NO_SUCH_INDEX = 6,
    TUTTI_HANDSHAKE_TWICE = 7,      /* note: the address of the process that has the index */
    TUTTI_HANDSHAKE_BROKEN_OFF = 8, /* note: why, cut to its room; join alone */
    TUTTI_HANDSHAKE_OTHER_KIND = 9,
    TUTTI_HANDSHAKE_NOT_WANTED = 10,  /* a link that the server does not wait for */
    TUTTI_HANDSHAKE_NOT_YET = 11,     /* the server lives, but cannot let anybody in now */
    TUTTI_HANDSHAKE_LEFT_BEHIND = 12, /* the group goes on without it; value: the incarnation */
    TUTTI_HANDSHAKE_ELSEWHERE = 13,   /* note: the address where newcomers are let in */
    TUTTI_HANDSHAKE_TOO_MANY = 14,    /* wait already */
    TUTTI_HANDSHAKE_REASON_COUNT
};

struct tutti_hello {
    enum tutti_handshake_kind kind;
    uint32_t index;      /* of the client; shrink: its identity */
    uint32_t count;      /* of processes, as the client believes */
    uint32_t peer;       /* link, pair: the process that is called; shrink: its identity */
    uint32_t round;      /* link: which making of links this belongs to */
    uint64_t key;        /* link, pair, call; shrink: the milliseconds that the client will wait */
    uint32_t port;       /* join, enter: where the client takes data connections */
    uint8_t address[16]; /* likewise, IPv4 as ::ffff:a.b.c.d; zeros: as the server sees it */
    /* Link, pair and shrink: the incarnation that the client is of. */
    uint32_t incarnation;
    uint64_t view;
};

enum tutti_handshake_state {
    TUTTI_HANDSHAKE_WANTS_HELLO,     /* server */
    TUTTI_HANDSHAKE_WANTS_PROOF,     /* server */
    TUTTI_HANDSHAKE_PROVED,          /* server: say welcome or refuse */
    TUTTI_HANDSHAKE_WANTS_CHALLENGE, /* client */
    TUTTI_HANDSHAKE_WANTS_WELCOME,   /* client */
    TUTTI_HANDSHAKE_DONE,
    TUTTI_HANDSHAKE_REFUSED,  /* by the server: reason, value and note say why */
    TUTTI_HANDSHAKE_STRANGER, /* what came is not of this protocol; nothing is answered */
    TUTTI_HANDSHAKE_IMPOSTOR, /* client: the server does not know the secret */
};

struct tutti_handshake {
    enum tutti_handshake_state state;
    const void *secret; /* borrowed */
    size_t secret_bytes;
    bool has_secret;
    const void *members_key; /* server: what members prove instead; borrowed; NULL: the secret */
    size_t members_key_bytes;
    struct tutti_hello said; /* by the client */
    uint32_t reason;         /* of a refusal */
    uint32_t value;          /* of a refusal; enter: the newcomer's identity, set before welcome */
    uint32_t wait_ms;        /* join: how long the server will yet wait for others */
    char note[TUTTI_HANDSHAKE_NOTE_BYTES];
    uint8_t session[TUTTI_HANDSHAKE_KEY_BYTES]; /* client: from the welcome */
    uint8_t nonce[TUTTI_HANDSHAKE_NONCE_BYTES];
    uint8_t hello[TUTTI_HANDSHAKE_HELLO_BYTES]; /* as they were on the wire: what is proved */
    uint8_t challenge[TUTTI_HANDSHAKE_CHALLENGE_BYTES];
    uint8_t last[TUTTI_HANDSHAKE_WELCOME_BYTES]; /* proof, then welcome */
    uint8_t *in;                                 /* where the next bytes go */
    size_t in_bytes;                             /* that are still wanted; 0: none */
    const uint8_t *out;                          /* what is to be sent */
    size_t out_bytes;
};

/* secret NULL: none. The nonce must never have been used before. */
void tutti_handshake_server(struct tutti_handshake *handshake, const void *secret,
                            size_t secret_bytes, const uint8_t nonce[TUTTI_HANDSHAKE_NONCE_BYTES]);
/* Of a server that has heard nothing yet: links, pairs and shrinks prove this key instead. */
void tutti_handshake_expect_members(struct tutti_handshake *handshake, const void *key,
                                    size_t key_bytes);
void tutti_handshake_client(struct tutti_handshake *handshake, const void *secret,
                            size_t secret_bytes, const uint8_t nonce[TUTTI_HANDSHAKE_NONCE_BYTES],
                            const struct tutti_hello *hello);

/* `bytes` of in_bytes have been put at `in`; out_bytes must be 0. */
void tutti_handshake_took(struct tutti_handshake *handshake, size_t bytes);
void tutti_handshake_sent(struct tutti_handshake *handshake, size_t bytes); /* of out_bytes */

/* The struct was copied from `from`, into which it still points. */
void tutti_handshake_moved(struct tutti_handshake *handshake, const struct tutti_handshake *from);

/* In the state PROVED. session NULL: none is given. */
void tutti_handshake_welcome(struct tutti_handshake *handshake, uint32_t wait_ms,
                             const uint8_t *session);
void tutti_handshake_refuse(struct tutti_handshake *handshake, enum tutti_handshake_reason reason,
                            uint32_t value, const char *note);

#endif
