/* A greeting over a socket: from the side that listens (door), and from the side that calls.
 * Private to runtime/crew. */
#ifndef TUTTI_RUNTIME_CREW_TALK_H
#define TUTTI_RUNTIME_CREW_TALK_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/crew/address.h"
#include "runtime/crew/greet.h"
#include "runtime/units.h"

struct tutti_err;

/* Sends and reads what can be without waiting. 1: the greeting wants nothing more (look at its
 * state); 0: later; -1: the other side has gone, errno says how (0: it closed). */
int tutti_greet_talk(struct tutti_greet *greet, int fd);
short tutti_greet_events(const struct tutti_greet *greet); /* to poll for */

bool tutti_greet_nonce(uint8_t ret[TUTTI_GREET_NONCE_BYTES]);

/* ---- the side that listens ---- */

enum {
    TUTTI_GUEST_MAX = 128, /* at a door, not yet proved */
    TUTTI_GUEST_WHY_BYTES = 160,
};

struct tutti_guest {
    int fd;
    bool leaving; /* refused: what it may yet send is drained, so that it can read why */
    size_t drained_bytes;
    tutti_ps since_ps;
    struct tutti_address from;
    struct tutti_greet greet;
};

/* Who stands behind a door, called in its thread. */
struct tutti_door_ops {
    /* The guest knows the secret: true: welcomed, and its fd taken over; false: refused. */
    bool (*proved)(void *data, struct tutti_guest *guest);
    void (*refused)(void *data, const struct tutti_guest *guest, const char *why);
};

struct tutti_door {
    int fd; /* listens; -1: none */
    const void *secret;
    size_t secret_bytes;
    const struct tutti_door_ops *ops;
    void *data;
    tutti_ps shut_until_ps; /* no guest is let in before: there are too many */
    uint32_t guest_count;
    struct tutti_guest guests[TUTTI_GUEST_MAX];
};

enum { TUTTI_DOOR_POLL_MAX = 1 + TUTTI_GUEST_MAX };

size_t tutti_door_polls(struct tutti_door *door, tutti_ps now_ps, struct pollfd *ret);
/* `polls` as the last tutti_door_polls wrote them. */
void tutti_door_move(struct tutti_door *door, const struct pollfd *polls, tutti_ps now_ps);
tutti_ps tutti_door_due(const struct tutti_door *door); /* when to move next without being polled */
void tutti_door_close(struct tutti_door *door);

/* ---- the side that calls ---- */

enum tutti_called {
    TUTTI_CALL_GOING,
    TUTTI_CALL_DONE,    /* welcome: the socket is the caller's */
    TUTTI_CALL_REFUSED, /* for good: err says why, status is that */
    TUTTI_CALL_FAILED,  /* perhaps later: err says why */
};

struct tutti_call {
    int fd; /* -1: none */
    bool connected;
    bool proving; /* all has been sent: the answer may take its time */
    int status;   /* of a refusal */
    struct tutti_address to;
    struct tutti_greet greet;
};

/* Starts to connect. False: not now, err says why. */
bool tutti_call_begin(struct tutti_call *call, const struct tutti_address *to, const void *secret,
                      size_t secret_bytes, const struct tutti_hello *hello, struct tutti_err *err);
short tutti_call_events(const struct tutti_call *call);
enum tutti_called tutti_call_move(struct tutti_call *call, const char *name, struct tutti_err *err);
void tutti_call_end(struct tutti_call *call); /* closes, if the socket was not taken (fd = -1) */

#endif
