/* Pairs: links of two processes whose end is an event, and no more. A parameter server has one with
 * each of its workers; a supervisor one with each process. They lie beside the process group: one
 * goes on when the group ends, shrinks or is closed, and the group goes on when one ends.
 *
 * Either end is a member of a group over TCP that takes pairs at its listener (tutti_pair_accept);
 * the other is a member of the same group (tutti_pair_open), or any process that knows the group's
 * secret (tutti_pair_call). Both have proved it to each other. What is sent afterwards is neither
 * encrypted nor authenticated: runtime/group_tcp.h.
 *
 * A pair is used by one thread at a time. It has no thread of its own: a peer that is stopped is
 * slow, and no more; a peer that has died, or whose host has vanished, is the end. */
#ifndef TUTTI_RUNTIME_PAIR_H
#define TUTTI_RUNTIME_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/group_tcp.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_pair;

#define TUTTI_PAIR_NO_MEMBER UINT32_MAX

enum {
    TUTTI_PAIR_WAITING_MAX = 64,    /* pairs of a group that have come and are not accepted */
    TUTTI_PAIR_BYTES_MAX = 1 << 30, /* of a frame */
};

/* A message. Data: what it is about both ends know. */
struct tutti_pair_frame {
    uint32_t kind;        /* the user's */
    uint32_t incarnation; /* and step: when it was said */
    uint64_t step;
    uint64_t bytes;
    const void *data; /* received: the pair's, until its next recv or close */
};

enum tutti_pair_what {
    TUTTI_PAIR_NOTHING, /* within the time */
    TUTTI_PAIR_FRAME,
    TUTTI_PAIR_END, /* the peer has closed it or is gone; said again at each further call */
};

struct tutti_pair_event {
    enum tutti_pair_what what;
    struct tutti_pair_frame frame;
    const char *why; /* of an end: "process 2 ('10.0.0.3:4242') has gone: Connection reset by peer";
                        lives as long as the pair */
};

/* Who is at the other end. */
struct tutti_pair_peer {
    uint32_t id;  /* tutti_group_id of a member; TUTTI_PAIR_NO_MEMBER: it called from outside */
    uint64_t key; /* that the opening side gave: what the pair is for */
    char address[TUTTI_GROUP_TCP_ADDRESS_BYTES];
};

/* To another member (its index) of this incarnation; the group need not be whole any more.
 * -TUTTI_ETIME: it has not taken the pair within deadline_ps (0: the group's own), and why;
 * -TUTTI_EIO: nobody listens there any more; -TUTTI_EINVAL: there is no such member, or it is of a
 * later incarnation; -TUTTI_ELACK, here and in accept: the group is of another kind than tcp, or
 * does not listen. */
int tutti_pair_open(struct tutti_group *group, uint32_t peer, uint64_t key, tutti_ps deadline_ps,
                    struct tutti_pair **ret, struct tutti_err *err);

/* From outside: to the member that listens at root of opts, any one (tutti_group_tcp_address).
 * Secret, bind, open_to_all, deadline_ps and stall_ps of opts hold as in tutti_group_tcp_open; it
 * is tried again until the deadline. -TUTTI_EINVAL: refused, for another secret or version. */
int tutti_pair_call(const struct tutti_group_tcp_opts *opts, uint64_t key, struct tutti_pair **ret,
                    struct tutti_err *err);

/* The next pair that somebody has opened to this process; *ret NULL: none within the time. Works
 * until the group is closed, also once it has ended; a shrink or an admission gives those that wait
 * over to the new group. Where TUTTI_PAIR_WAITING_MAX wait, who comes is asked to try again. */
int tutti_pair_accept(struct tutti_group *group, tutti_ps timeout_ps, struct tutti_pair **ret,
                      struct tutti_err *err);

/* Sends all of a frame, or fails: -TUTTI_EIO: the pair has ended; -TUTTI_ETIME: the peer has not
 * taken all of it within deadline_ps (0: 30 s), and the pair is at its end, since half a frame lies
 * in it; -TUTTI_EINVAL: too long, nothing was sent. While it waits it receives up to one frame, so
 * that two ends that send to each other one frame each do not wait for each other for ever. */
int tutti_pair_send(struct tutti_pair *pair, const struct tutti_pair_frame *frame,
                    tutti_ps deadline_ps, struct tutti_err *err);

/* What comes next, within timeout_ps (0: what is there already). An end is an event, not an error:
 * of what was sent before it nothing is lost. -TUTTI_ENOMEM: no room for the frame; the call can be
 * made again. */
int tutti_pair_recv(struct tutti_pair *pair, tutti_ps timeout_ps, struct tutti_pair_event *ret,
                    struct tutti_err *err);

/* From now on frames of an earlier incarnation, and those of this incarnation and an earlier step,
 * are dropped, whatever they say. Starts at (0, 0). */
void tutti_pair_expect(struct tutti_pair *pair, uint32_t incarnation, uint64_t step);
uint64_t tutti_pair_dropped(const struct tutti_pair *pair); /* how many were */

/* Sleeps until one of the pairs has something to be received, or its end, or until the time is
 * over: *at is then the place of one of them, or count. Looks from place *at on, which therefore is
 * to be the one after the last. */
int tutti_pair_wait(struct tutti_pair *const *pairs, size_t count, tutti_ps timeout_ps, size_t *at,
                    struct tutti_err *err);

/* For a poll of the user's own: readable when something may have come. A frame that was received
 * during a send does not show there: recv with a timeout of 0 before each poll. */
int tutti_pair_fd(const struct tutti_pair *pair);
/* Likewise of a group: readable while a pair waits to be accepted; -1: none ever will. */
int tutti_pair_accept_fd(const struct tutti_group *group);

const struct tutti_pair_peer *tutti_pair_peer(const struct tutti_pair *pair);

/* The other end is told, after what was sent before; but of that some may be lost where it goes on
 * sending. NULL is a no-op. */
void tutti_pair_close(struct tutti_pair *pair);

TUTTI_API_END

#endif
