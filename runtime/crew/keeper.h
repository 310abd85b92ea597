/* The crew over TCP from inside. Each process has a keeper: a thread that does all that is sent and
 * received, and that meets the callers at the board. Private to runtime/crew. */
#ifndef TUTTI_RUNTIME_CREW_KEEPER_H
#define TUTTI_RUNTIME_CREW_KEEPER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/crew.h"
#include "runtime/crew/frame.h"
#include "runtime/crew/peer.h"
#include "runtime/crew/talk.h"
#include "runtime/crew_tcp.h"

/* Where callers and keeper meet. */
struct tutti_board {
    pthread_mutex_t lock; /* guards all of the board but the descriptors and the epoch */
    pthread_cond_t changed;
    int poke_fd;     /* eventfd: the keeper has orders */
    int over_fd;     /* eventfd: readable once it is over */
    int64_t epoch_s; /* where its clock begins, on the monotonic one: picoseconds since the machine
                        was started would be too many after 106 days */
    bool quit;       /* order: close */
    bool woken;      /* tutti_crew_wake: one wait_stop returns */
    bool complete;   /* all processes are there, the seats are known */
    bool over;       /* the crew has ended: why stands in `ending` */
    struct tutti_ending ending;
    struct tutti_parcel *mine; /* order: a part, head first, for the exchange */
    struct tutti_parcel *room; /* with it: for the answer, so that there is memory for it */
    struct tutti_parcel *all;  /* answer: the parts of all, from all_at on */
    size_t all_at;
    /* Order: let in those who come for a link that is wanted here. NULL: none is. */
    const struct tutti_crew_tcp_link *wanted;
    int *link_fds; /* [wanted_count] */
    size_t wanted_count;
    uint32_t link_round;
};

int tutti_board_open(struct tutti_board *board, struct tutti_err *err);
void tutti_board_close(struct tutti_board *board);
void tutti_board_poke(struct tutti_board *board);
/* The first ending counts: true if it is this one. */
bool tutti_board_end(struct tutti_board *board, const struct tutti_ending *ending);
/* Why it is over, as process `index` of `count` tells it. */
int tutti_board_told(struct tutti_board *board, uint32_t index, uint32_t count,
                     struct tutti_err *err);
/* Waits for a change until `due_ps`; the lock is held. False: it is past. */
bool tutti_board_wait(struct tutti_board *board, tutti_ps due_ps);

/* > 0, on the monotonic clock, from about when the board was opened. */
tutti_ps tutti_board_now(const struct tutti_board *board);
tutti_ps tutti_crew_after(tutti_ps now_ps, tutti_ps ps); /* saturates */
/* For poll: rounded up, 60 s at most. */
int tutti_board_ms_until(const struct tutti_board *board, tutti_ps due_ps);

struct tutti_crew_tcp {
    struct tutti_crew base; /* first member: the ops cast back */
    struct tutti_board board;
    /* As they are from the start of the keeper on. */
    uint8_t *secret; /* NULL: none */
    size_t secret_bytes;
    uint8_t session[TUTTI_GREET_KEY_BYTES]; /* what members prove to each other */
    tutti_ps deadline_ps;
    tutti_ps stall_ps;
    void (*log)(void *data, const char *line);
    void *log_data;
    struct tutti_address root; /* process 0, as this one reaches it (index > 0) */
    uint32_t scope;            /* of link-local addresses */
    tutti_ps open_due_ps;
    pthread_t keeper;
    bool has_keeper;
    /* The keeper's own; seats: everybody's once the board is complete. */
    struct tutti_seat *seats; /* [count] */
    struct tutti_peer *peers; /* [peer_count]: process 0 has all, the others process 0 alone */
    uint32_t peer_count;
    uint32_t here_count;
    struct tutti_door *rendezvous; /* process 0 */
    struct tutti_door *links;      /* all: where data connections come in */
    struct pollfd *polls;
    struct tutti_parcel *ping;
    struct tutti_parcel *bye;
    struct tutti_parcel *stop;
    uint64_t round; /* of exchanges */
    tutti_ps beat_due_ps;
    tutti_ps leave_due_ps;     /* process 0: waits no longer for latecomers; 0: does not yet */
    struct tutti_parcel *room; /* for the answer of the exchange under way */
    bool asked;                /* index > 0: one is */
    bool told;                 /* that it is over */
    /* Refusals: how many may be logged at once, and how many were not. */
    uint32_t log_credit;
    uint32_t log_kept_count;
    tutti_ps log_since_ps;
    uint64_t refused_count;
    char last_refused[TUTTI_ADDRESS_TEXT_BYTES + TUTTI_GUEST_WHY_BYTES];
};

/* Starts the thread; ended by tutti_keeper_stop, which says good-bye to the others. */
int tutti_keeper_start(struct tutti_crew_tcp *crew, struct tutti_err *err);
void tutti_keeper_stop(struct tutti_crew_tcp *crew);

/* Ends the crew for a reason found here. */
__attribute__((format(printf, 3, 4))) void tutti_keeper_end(struct tutti_crew_tcp *crew, int status,
                                                            const char *format, ...);

/* Parts of the keeper: process 0 gathers members and parts. */
extern const struct tutti_door_ops tutti_root_door_ops;
extern const struct tutti_door_ops tutti_link_door_ops;
void tutti_root_missed(struct tutti_crew_tcp *crew); /* a process has left: who needs it ends */
void tutti_root_take_part(struct tutti_crew_tcp *crew, uint32_t index, struct tutti_parcel *part,
                          size_t at, uint64_t wait_ms);
void tutti_root_look_at_clock(struct tutti_crew_tcp *crew, tutti_ps now_ps);
tutti_ps tutti_root_due(const struct tutti_crew_tcp *crew);
/* It is over, and not all have come yet: those deserve to hear why. */
bool tutti_root_expects(const struct tutti_crew_tcp *crew, tutti_ps now_ps);
void tutti_keeper_refused(struct tutti_crew_tcp *crew, const char *who, const char *why);

/* Goes to process 0 until it lets this one in: the socket becomes peers[0]'s. */
int tutti_crew_tcp_join(struct tutti_crew_tcp *crew, const struct tutti_crew_tcp_opts *opts,
                        struct tutti_err *err);

/* Listens for data connections: where process 0, at `root`, and thus the others will reach it. What
 * others are told (all zeros: as process 0 sees it) goes to ret_seat. */
int tutti_crew_tcp_listen_links(struct tutti_crew_tcp *crew, const struct tutti_crew_tcp_opts *opts,
                                const struct tutti_address *root, struct tutti_seat *ret_seat,
                                struct tutti_err *err);

/* A whole copy of a caller's options: tutti_take(). */
int tutti_crew_tcp_take(const struct tutti_crew_tcp_opts *opts, struct tutti_crew_tcp_opts *ret,
                        struct tutti_err *err);

/* -TUTTI_EINVAL where there is a secret, and it is too short. */
int tutti_crew_tcp_check_secret(const struct tutti_crew_tcp_opts *opts, struct tutti_err *err);

/* Whether loopback alone is served: by the name of process 0, without looking it up. */
bool tutti_crew_tcp_is_local(const struct tutti_crew_tcp_opts *opts, const char *host);

#endif
