/* The group over TCP from inside. Each process has a progress thread: a thread that does all that
 * is sent and received, and that meets the callers at the mailbox. Private to runtime/group. */
#ifndef TUTTI_RUNTIME_GROUP_PROGRESS_H
#define TUTTI_RUNTIME_GROUP_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/group.h"
#include "runtime/group/frame.h"
#include "runtime/group/pair.h"
#include "runtime/group/peer.h"
#include "runtime/group/talk.h"
#include "runtime/group_tcp.h"

/* Where callers and progress thread meet. */
struct tutti_mailbox {
    pthread_mutex_t lock; /* guards all of the mailbox but the descriptors and the epoch */
    pthread_cond_t changed;
    int poke_fd;     /* eventfd: the progress thread has orders */
    int over_fd;     /* eventfd: readable once it is over */
    int64_t epoch_s; /* where its clock begins, on the monotonic one: picoseconds since the machine
                        was started would be too many after 106 days */
    bool quit;       /* order: close */
    bool halt;       /* with it: say nothing to the others, and keep the connections */
    bool hold;       /* order: after the next exchange read nothing from the others */
    bool woken;      /* tutti_group_wake: one wait_stop returns */
    bool complete;   /* all processes are there, the members are known */
    bool over;       /* the group has ended: why stands in `ending` */
    struct tutti_ending ending;
    struct tutti_packet *mine; /* order: a part, head first, for the exchange */
    struct tutti_packet *room; /* with it: for the answer, so that there is memory for it */
    struct tutti_packet *all;  /* answer: the parts of all, from all_at on */
    size_t all_at;
    /* Order: let in those who come for a link that is wanted here. NULL: none is. */
    const struct tutti_group_tcp_link *wanted;
    int *link_fds; /* [wanted_count] */
    size_t wanted_count;
    uint32_t link_round;
    atomic_uint newcomer_count; /* process 0: who wait to be admitted */
};

int tutti_mailbox_open(struct tutti_mailbox *mailbox, struct tutti_err *err);
void tutti_mailbox_close(struct tutti_mailbox *mailbox);
void tutti_mailbox_poke(struct tutti_mailbox *mailbox);
void tutti_mailbox_drain(struct tutti_mailbox *mailbox); /* of what it was poked */
/* The first ending counts: true if it is this one. */
bool tutti_mailbox_end(struct tutti_mailbox *mailbox, const struct tutti_ending *ending);
/* Why it is over, as process `index` of `count` tells it. */
int tutti_mailbox_told(struct tutti_mailbox *mailbox, uint32_t index, uint32_t count,
                       struct tutti_err *err);
/* Waits for a change until `due_ps`; the lock is held. False: it is past. */
bool tutti_mailbox_wait(struct tutti_mailbox *mailbox, tutti_ps due_ps);

/* > 0, on the monotonic clock, from about when the mailbox was opened. */
tutti_ps tutti_mailbox_now(const struct tutti_mailbox *mailbox);
tutti_ps tutti_group_after(tutti_ps now_ps, tutti_ps ps); /* saturates */
/* For poll: rounded up, 60 s at most. */
int tutti_mailbox_ms_until(const struct tutti_mailbox *mailbox, tutti_ps due_ps);

enum { TUTTI_NEWCOMERS_MAX = 32 };

/* The progress thread's, of process 0. */
struct tutti_newcomers {
    uint32_t count;
    uint32_t next_id;
    struct tutti_peer peers[TUTTI_NEWCOMERS_MAX]; /* in the order in which they came */
};

struct tutti_group_tcp {
    struct tutti_group base; /* first member: the ops cast back */
    struct tutti_mailbox mailbox;
    /* As they are from the start of the progress thread on. */
    uint8_t *secret; /* NULL: none */
    size_t secret_bytes;
    uint8_t session[TUTTI_HANDSHAKE_KEY_BYTES]; /* what members prove to each other */
    tutti_ps deadline_ps;
    tutti_ps stall_ps;
    void (*log)(void *data, const char *line);
    void *log_data;
    bool again;                     /* who comes from the group before this one is no stranger */
    struct tutti_address root;      /* process 0, as this one reaches it (index > 0) */
    tutti_ps farewell_ps;           /* at the end, to send what is left */
    char why[TUTTI_ERR_TEXT_BYTES]; /* how this incarnation came to be */
    uint32_t scope;                 /* of link-local addresses */
    tutti_ps open_due_ps;
    pthread_t progress;
    bool has_progress;
    /* The progress thread's own; the view: everybody's once the mailbox is complete. */
    struct tutti_view view;   /* of process 0: resolved from the start */
    struct tutti_peer *peers; /* [peer_count]: process 0 has all, the others process 0 alone */
    uint32_t peer_count;
    uint32_t here_count;
    struct tutti_listener *rendezvous; /* process 0 */
    struct tutti_listener *links;      /* all: where data connections come in */
    struct tutti_newcomers *newcomers; /* process 0 */
    struct tutti_pair_queue *pairs;    /* that have come and wait to be accepted */
    struct pollfd *polls;
    struct tutti_packet *ping;
    struct tutti_packet *bye;
    struct tutti_packet *stop;
    uint64_t round; /* of exchanges */
    tutti_ps beat_due_ps;
    tutti_ps leave_due_ps;     /* process 0: waits no longer for latecomers; 0: does not yet */
    struct tutti_packet *room; /* for the answer of the exchange under way */
    bool asked;                /* index > 0: one is */
    bool told;                 /* that it is over */
    bool held;                 /* reads nothing from the others, until the mailbox's hold is over */
    /* Refusals: how many may be logged at once, and how many were not. */
    uint32_t log_credit;
    uint32_t log_kept_count;
    tutti_ps log_since_ps;
    uint64_t refused_count;
    char last_refused[TUTTI_ADDRESS_TEXT_BYTES + TUTTI_CLIENT_WHY_BYTES];
};

/* Of the array `polls`, for so many peers. */
static inline size_t tutti_progress_poll_max(size_t peer_count)
{
    return 1 + 2 * (size_t)TUTTI_LISTENER_POLL_MAX + TUTTI_NEWCOMERS_MAX + peer_count;
}

/* Starts the thread; ended by tutti_progress_stop, which says good-bye to the others. */
int tutti_progress_start(struct tutti_group_tcp *group, struct tutti_err *err);
void tutti_progress_stop(struct tutti_group_tcp *group);
/* Ends the thread, and says nothing to anybody. */
void tutti_progress_halt(struct tutti_group_tcp *group);

/* Ends the group for a reason found here. */
__attribute__((format(printf, 3, 4))) void tutti_progress_end(struct tutti_group_tcp *group,
                                                              int status, const char *format, ...);

/* Parts of the progress thread: process 0 gathers members and parts. */
extern const struct tutti_listener_ops tutti_root_listener_ops;
extern const struct tutti_listener_ops tutti_link_listener_ops;
/* links.c: one that wants a data connection. As of listeners. */
bool tutti_links_proved(struct tutti_group_tcp *group, struct tutti_client *client);
void tutti_root_missed(struct tutti_group_tcp *group); /* a process has left: who needs it ends */
void tutti_root_take_part(struct tutti_group_tcp *group, uint32_t index, struct tutti_packet *part,
                          size_t at, uint32_t wait_ms);
void tutti_root_look_at_clock(struct tutti_group_tcp *group, tutti_ps now_ps);
tutti_ps tutti_root_due(const struct tutti_group_tcp *group);
/* It is over, and not all have come yet: those deserve to hear why. */
bool tutti_root_expects(const struct tutti_group_tcp *group, tutti_ps now_ps);
void tutti_progress_refused(struct tutti_group_tcp *group, const char *who, const char *why);

/* Goes to process 0 until it lets this one in: the socket becomes peers[0]'s. */
int tutti_group_tcp_come(struct tutti_group_tcp *group, const struct tutti_group_tcp_opts *opts,
                         struct tutti_err *err);

/* newcomers.c: who want to become members. One that has come at the rendezvous or a member's
 * listener: as of listeners. */
struct tutti_newcomers *tutti_newcomers_new(void);
void tutti_newcomers_free(struct tutti_newcomers *newcomers);
bool tutti_newcomers_proved(struct tutti_group_tcp *group, struct tutti_client *client);
size_t tutti_newcomers_polls(const struct tutti_group_tcp *group, struct pollfd *ret);
void tutti_newcomers_move(struct tutti_group_tcp *group, const struct pollfd *polls,
                          size_t poll_count, tutti_ps now_ps, bool beats);

/* join.c: calls whoever listens at root of opts, for a pair. */
int tutti_group_tcp_call(struct tutti_group_tcp *group, const struct tutti_group_tcp_opts *opts,
                         uint64_t key, struct tutti_call *ret, struct tutti_err *err);
/* pair_open.c: one that wants a pair. As of listeners. */
bool tutti_pair_proved(struct tutti_group_tcp *group, struct tutti_client *client);

/* Where this process reaches another member. */
void tutti_group_tcp_where(const struct tutti_group_tcp *group, uint32_t peer,
                           struct tutti_address *ret);

/* ---- tcp.c, shrink.c: the ops ---- */

extern const struct tutti_group_ops tutti_group_tcp_ops;
int tutti_group_tcp_shrink(struct tutti_group *group, uint32_t count_min, tutti_ps deadline_ps,
                           struct tutti_group **ret, struct tutti_err *err);
int tutti_group_tcp_admit(struct tutti_group *group, uint32_t count_max, tutti_ps deadline_ps,
                          struct tutti_group **ret, struct tutti_err *err);
/* A group by its options, of which nothing has happened yet. */
int tutti_group_tcp_make(const struct tutti_group_tcp_opts *opts, struct tutti_group_tcp **ret,
                         struct tutti_err *err);
struct tutti_listener *tutti_group_tcp_new_listener(struct tutti_group_tcp *group,
                                                    const struct tutti_listener_ops *ops);

/* Listens for data connections: where process 0, at `root`, and thus the others will reach it. What
 * others are told (all zeros: as process 0 sees it) goes to ret_member. */
int tutti_group_tcp_listen_links(struct tutti_group_tcp *group,
                                 const struct tutti_group_tcp_opts *opts,
                                 const struct tutti_address *root, struct tutti_member *ret_member,
                                 struct tutti_err *err);

/* A whole copy of a caller's options: tutti_take(). */
int tutti_group_tcp_take(const struct tutti_group_tcp_opts *opts, struct tutti_group_tcp_opts *ret,
                         struct tutti_err *err);

/* -TUTTI_EINVAL where options contradict themselves. */
int tutti_group_tcp_check(const struct tutti_group_tcp_opts *opts, struct tutti_err *err);

/* -TUTTI_EINVAL where there is a secret, and it is too short. */
int tutti_group_tcp_check_secret(const struct tutti_group_tcp_opts *opts, struct tutti_err *err);

/* Whether loopback alone is served: by the name of process 0, without looking it up. */
bool tutti_group_tcp_is_local(const struct tutti_group_tcp_opts *opts, const char *host);

#endif
