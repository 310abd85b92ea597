/* How what is left of a group, or a group and its newcomers, agree on the next incarnation. Private
 * to runtime/group.
 *
 * Each process works at it in its caller's thread, with its progress thread ended and its listener
 * in hand. All know all addresses (view.h), and all order members alike. The first member that
 * lives leads: the others seek it from the first on, passing over those whose host refuses the
 * connection. It lets them in, calls those who do not come, to learn who is lost, and then
 *
 *     leader: PROPOSE   the next view: who is here, a higher incarnation
 *     member: ACCEPT    taken: from now on this is the view that it seeks others by
 *     leader: COMMIT    once all have taken it; whoever hears it has the next group
 *
 * A member lost meanwhile makes the leader propose again, a leader lost sends all back to seek. So
 * whoever has heard COMMIT knows that all the others have that view, and nobody is ever in two
 * groups of one incarnation. Half of the deadline is for all to come, the other half to agree; who
 * is late is left behind, and told so when it comes. */
#ifndef TUTTI_RUNTIME_GROUP_REGROUP_H
#define TUTTI_RUNTIME_GROUP_REGROUP_H

#include "runtime/group/progress.h"

enum tutti_regroup_phase {
    TUTTI_REGROUP_SEEKS,   /* a leader, from the first member on */
    TUTTI_REGROUP_FOLLOWS, /* one that has let it in */
    TUTTI_REGROUP_GATHERS, /* leads: lets others in */
    TUTTI_REGROUP_AGREES,  /* leads: has proposed */
    TUTTI_REGROUP_DONE,
};

enum tutti_standing {
    TUTTI_STANDING_UNKNOWN,
    TUTTI_STANDING_HERE, /* its peer is connected; of one who follows: the leader alone */
    TUTTI_STANDING_GONE, /* nobody listens where it did */
    TUTTI_STANDING_LATE, /* it may live, and is left behind */
};

struct tutti_regroup_member {
    enum tutti_standing standing;
    bool accepted;          /* what was proposed last */
    bool calling;           /* in a slot */
    tutti_ps not_before_ps; /* when it may be called again */
};

enum { TUTTI_REGROUP_CALLS = 64 };

struct tutti_regroup_slot {
    bool used;
    uint32_t place;
    tutti_ps due_ps;
    struct tutti_call call;
};

struct tutti_regroup {
    struct tutti_group_tcp *group; /* the last incarnation, or a newcomer's, which is none yet */
    struct tutti_group_tcp *next;  /* made beforehand: nothing may fail once all have agreed */
    bool admits;                   /* not a shrink: of those who were there none may be lost */
    bool is_newcomer;              /* the group is none yet */
    uint32_t old_count;            /* members before any newcomer */
    struct tutti_view view;        /* the newest that this process has taken */
    struct tutti_view proposed;    /* leader: what it proposes */
    uint32_t place;                /* own, in the view */
    uint32_t leader;               /* FOLLOWS: its place */
    enum tutti_regroup_phase phase;
    struct tutti_regroup_member *members; /* [view.count] */
    struct tutti_peer *peers;             /* [view.count] */
    struct pollfd *polls;
    struct tutti_packet *ping;
    struct tutti_packet *bye;
    struct tutti_regroup_slot *slots; /* [TUTTI_REGROUP_CALLS] */
    uint32_t incarnation_max;         /* heard of */
    uint32_t count_min;
    bool repropose;
    int status; /* negative: it has failed, err says why */
    struct tutti_err err;
    tutti_ps deadline_ps;
    tutti_ps begin_ps;
    tutti_ps half_ps;
    tutti_ps due_ps;
    tutti_ps quiet_ps; /* who says nothing for so long is left behind; 0: by the deadline */
    tutti_ps beat_due_ps;
    tutti_ps seen_ps;  /* all that had come by then has been looked at */
    tutti_ps held_ps;  /* so long this process was itself stopped or held up */
    tutti_ps probe_ps; /* leader: calls nobody before */
};

/* Takes all memory that is needed; nothing has happened yet. */
int tutti_regroup_open(struct tutti_regroup *regroup, struct tutti_group_tcp *group,
                       uint32_t newcomers_max, tutti_ps deadline_ps, struct tutti_err *err);
/* Until it is done or has failed. The listener of the group answers in the regroup's name. */
int tutti_regroup_run(struct tutti_regroup *regroup, struct tutti_err *err);
void tutti_regroup_close(struct tutti_regroup *regroup);

/* ---- its parts ---- */

__attribute__((format(printf, 3, 4))) void tutti_regroup_fail(struct tutti_regroup *regroup,
                                                              int status, const char *format, ...);
tutti_ps tutti_regroup_now(const struct tutti_regroup *regroup);
/* Half of what is left of the deadline is for the next leader to be found, and all to come. */
void tutti_regroup_halve(struct tutti_regroup *regroup);
void tutti_regroup_follow(struct tutti_regroup *regroup, uint32_t place, int fd);

/* regroup_calls.c: who calls here, and who is called. */
extern const struct tutti_listener_ops tutti_regroup_listener_ops;
void tutti_regroup_call(struct tutti_regroup *regroup, uint32_t place);
void tutti_regroup_move_calls(struct tutti_regroup *regroup, const struct pollfd *polls);
void tutti_regroup_end_calls(struct tutti_regroup *regroup);

/* regroup_frames.c: what leader and members say to each other. */
void tutti_regroup_listen_to(struct tutti_regroup *regroup, uint32_t place);
void tutti_regroup_lose(struct tutti_regroup *regroup, uint32_t place, enum tutti_standing how);
void tutti_regroup_cut_off(struct tutti_regroup *regroup, uint32_t place);
void tutti_regroup_propose(struct tutti_regroup *regroup);
void tutti_regroup_commit(struct tutti_regroup *regroup);

/* successor.c: the group of the next incarnation. */
int tutti_successor_new(struct tutti_group_tcp *group, uint32_t count_max,
                        struct tutti_group_tcp **ret, struct tutti_err *err);
/* What was agreed becomes the next group, which takes listeners and connections over. */
int tutti_successor_start(struct tutti_regroup *regroup, struct tutti_group **ret,
                          struct tutti_err *err);

#endif
