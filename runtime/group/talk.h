/* A greeting over a socket: from the side that listens (listener), and from the side that calls.
 * Private to runtime/group. */
#ifndef TUTTI_RUNTIME_GROUP_TALK_H
#define TUTTI_RUNTIME_GROUP_TALK_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/group/address.h"
#include "runtime/group/handshake.h"
#include "runtime/units.h"

struct tutti_err;

/* Sends and reads what can be without waiting. 1: the greeting wants nothing more (look at its
 * state); 0: later; -1: the other side has gone, errno says how (0: it closed). */
int tutti_handshake_talk(struct tutti_handshake *handshake, int fd);
short tutti_handshake_events(const struct tutti_handshake *handshake); /* to poll for */

bool tutti_handshake_nonce(uint8_t ret[TUTTI_HANDSHAKE_NONCE_BYTES]);

/* ---- the side that listens ---- */

enum {
    TUTTI_CLIENT_MAX = 128, /* at a listener, not yet proved */
    TUTTI_CLIENT_WHY_BYTES = 160,
};

struct tutti_client {
    int fd;
    bool leaving; /* refused: what it may yet send is drained, so that it can read why */
    size_t drained_bytes;
    tutti_ps since_ps;
    struct tutti_address from;
    struct tutti_handshake handshake;
};

/* Who stands behind a listener, called in its thread. */
struct tutti_listener_ops {
    /* The client knows the secret: true: welcomed, and its fd taken over; false: refused. */
    bool (*proved)(void *data, struct tutti_client *client);
    void (*refused)(void *data, const struct tutti_client *client, const char *why);
};

struct tutti_listener {
    int fd; /* listens; -1: none */
    const void *secret;
    size_t secret_bytes;
    const void
        *members_key; /* tutti_handshake_expect_members; NULL: nothing else than the secret */
    size_t members_key_bytes;
    const struct tutti_listener_ops *ops;
    void *data;
    tutti_ps shut_until_ps; /* no client is let in before: there are too many */
    uint32_t client_count;
    struct tutti_client clients[TUTTI_CLIENT_MAX];
};

enum { TUTTI_LISTENER_POLL_MAX = 1 + TUTTI_CLIENT_MAX };

size_t tutti_listener_polls(struct tutti_listener *listener, tutti_ps now_ps, struct pollfd *ret);
/* `polls` as the last tutti_listener_polls wrote them. */
void tutti_listener_move(struct tutti_listener *listener, const struct pollfd *polls,
                         tutti_ps now_ps);
tutti_ps tutti_listener_due(
    const struct tutti_listener *listener); /* when to move next without being polled */
/* Closes the connections of those who have not proved themselves yet: they try again. */
void tutti_listener_clear(struct tutti_listener *listener);
void tutti_listener_close(struct tutti_listener *listener);

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
    int code;     /* of a connection that the system did not make: errno */
    struct tutti_address to;
    struct tutti_handshake handshake;
};

/* Starts to connect. False: not now, err says why. */
bool tutti_call_begin(struct tutti_call *call, const struct tutti_address *to, const void *secret,
                      size_t secret_bytes, const struct tutti_hello *hello, struct tutti_err *err);
short tutti_call_events(const struct tutti_call *call);
enum tutti_called tutti_call_move(struct tutti_call *call, const char *name, struct tutti_err *err);
void tutti_call_end(struct tutti_call *call); /* closes, if the socket was not taken (fd = -1) */

#endif
