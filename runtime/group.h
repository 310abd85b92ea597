/* A process group: the processes that play one schedule together, on one host or many. It carries
 * little and seldom: who is there, what all agree on, that somebody gives up. The data of a
 * performance travel on the backend's own ways. One that loses a process ends; what is left of it
 * can go on as a new group (tutti_group_shrink), of the next incarnation: nothing that was said in
 * an earlier one is heard in it.
 *
 * Every process of a group makes the same calls in the same order, but for stop, wait_stop and
 * wake. One thread at a time calls exchange; another may be in wait_stop meanwhile, a third in
 * stop. */
#ifndef TUTTI_RUNTIME_GROUP_H
#define TUTTI_RUNTIME_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_group;
struct tutti_err;

/* How the processes reach each other: one const struct a kind (tcp, mpi, alone). Errors of all:
 * -TUTTI_ETIME when the deadline passed: names the processes that have not come; -TUTTI_EIO when a
 * process has gone: names it; what a process that stopped has said, with its status. After an error
 * the group is of no use but to be closed, or shrunk. */
struct tutti_group_ops {
    size_t size; /* sizeof(struct tutti_group_ops) */
    const char *name;
    void (*close)(struct tutti_group *group);
    int (*exchange)(struct tutti_group *group, const void *mine, size_t bytes, void *ret_all,
                    tutti_ps deadline_ps, struct tutti_err *err);
    void (*stop)(struct tutti_group *group, int status, const struct tutti_err *err);
    int (*wait_stop)(struct tutti_group *group, tutti_ps timeout_ps, struct tutti_err *err);
    void (*wake)(struct tutti_group *group);
    /* NULL: the kind has one incarnation, and identities are indices. */
    uint32_t (*id)(const struct tutti_group *group, uint32_t index);
    const char *(*why)(const struct tutti_group *group);
    int (*shrink)(struct tutti_group *group, uint32_t count_min, tutti_ps deadline_ps,
                  struct tutti_group **ret, struct tutti_err *err);
    int (*admit)(struct tutti_group *group, uint32_t count_max, tutti_ps deadline_ps,
                 struct tutti_group **ret, struct tutti_err *err);
};

/* The kind embeds this struct as its first member. */
struct tutti_group {
    const struct tutti_group_ops *ops;
    uint32_t index;       /* of this process */
    uint32_t count;       /* of all; >= 1 */
    uint32_t incarnation; /* 1 as it was opened, more after each change of its members */
};

/* Each process gives `bytes` bytes (0: only to meet); ret_all has room for count * bytes, and gets
 * them in the order of the processes. Ends nowhere before all have begun. */
int tutti_group_exchange(struct tutti_group *group, const void *mine, size_t bytes, void *ret_all,
                         tutti_ps deadline_ps, struct tutti_err *err);

/* 0 where every process gives 0; else, in all of them, the status and the message of the first that
 * does not, "process 3 of 4: ..." before it. */
int tutti_group_agree(struct tutti_group *group, int status, tutti_ps deadline_ps,
                      struct tutti_err *err);

/* -TUTTI_EINVAL, in all of them, where the processes do not all give the same text: "process 2 of 4
 * has schedule 'x', process 0 'y'", with `what` for schedule. Compared up to 255 bytes. */
int tutti_group_same(struct tutti_group *group, const char *what, const char *text,
                     tutti_ps deadline_ps, struct tutti_err *err);

/* This process gives up: all others learn it at once, with the reason, in wait_stop or in their
 * next exchange. Needs no answer, never waits; the first call counts. */
void tutti_group_stop(struct tutti_group *group, int status, const struct tutti_err *err);

/* Sleeps until another process stops or is gone (a negative status, and who and why), until wake is
 * called, or until the time is over (both 0). */
int tutti_group_wait_stop(struct tutti_group *group, tutti_ps timeout_ps, struct tutti_err *err);
void tutti_group_wake(
    struct tutti_group *group); /* from any thread, but not from a signal handler */

/* ---- a group that goes on ----
 *
 *     status = tutti_backend_play(backend, ...);     -TUTTI_EIO: "process 2 of 4 ... has gone"
 *     tutti_backend_close(backend);                   backends belong to one incarnation
 *     tutti_group_shrink(group, 2, deadline, &next, &err);
 *     tutti_group_close(group);
 *     group = next;                                   3 processes, incarnation 2
 *     tutti_tcp_open(...);                            a backend of the new group
 */

/* What is left of a group becomes a group of its own: every process that lives calls this, each as
 * it learns that the group has ended (any error of the calls above; to one that has not ended it
 * puts an end). The members keep their order and are numbered anew, so index and count change; the
 * incarnation rises. Process 0 may be the lost one: the first that is left takes its part. Where
 * nobody is lost after all (a connection alone had broken) the new group has all of them.
 *
 * Who has closed its group, or has ended, is found lost at once. For who neither comes nor is found
 * lost (stopped, cut off, or at other things) the others wait for half of the deadline, and then go
 * on without it; the other half is for agreeing, where somebody is lost meanwhile. It returns after
 * deadline_ps at the latest (0: that of the group's own options). One that comes late learns that
 * it is left behind, -TUTTI_ETIME; it can join as a newcomer. There is no quorum but count_min (0:
 * 1): -TUTTI_EIO, naming who is missing, where fewer are left. Two halves of a group that cannot
 * reach each other both go on, each as a group of its own: whom that would harm asks for more than
 * half. Lost are parts of exchanges under way, data connections, and backends of the old group.
 *
 * Afterwards the old group is of no use but to be closed, also after an error; after an error this
 * process takes no part in what the others agree on. -TUTTI_EINVAL for a group of one, which has
 * nobody to lose; -TUTTI_ELACK for a kind that cannot (MPI ends a job whole). */
int tutti_group_shrink(struct tutti_group *group, uint32_t count_min, tutti_ps deadline_ps,
                       struct tutti_group **ret, struct tutti_err *err);

/* Lets newcomers in (tutti_group_tcp_join); collective: all members call it at a moment of their
 * own, between steps. Who waits at process 0 by then, at most count_max of them (0: all; process
 * 0's counts), who came first first, becomes a member of a new group, behind the others; its
 * incarnation is higher, and the old group is of no use but to be closed. *ret NULL: nobody waits;
 * the group stays what it is, for the price of one empty exchange.
 *
 * A newcomer that is lost meanwhile, or says nothing for an eighth of the deadline, is left out:
 * then the new group may be no larger. Where a member is lost the call fails in all of them,
 * naming it, and the group is over; what is left can shrink, and admit again: newcomers come back
 * until their own deadline. -TUTTI_ENOMEM in all of them where one lacks memory; then the group
 * stays what it is. -TUTTI_ELACK for a kind that cannot, and for a group of one that does not
 * listen (struct tutti_group_tcp_opts, admits). */
int tutti_group_admit(struct tutti_group *group, uint32_t count_max, tutti_ps deadline_ps,
                      struct tutti_group **ret, struct tutti_err *err);

/* What a process is called through all incarnations: the first ones by their first index, newcomers
 * by numbers that nobody has had before. Indices are in the order of these. */
uint32_t tutti_group_id(const struct tutti_group *group, uint32_t index);

/* How this incarnation came to be: "lost: process 2 of 4", "joined: process 3 of 4", "" for the
 * first one. Lives as long as
 * the group. */
const char *tutti_group_why(const struct tutti_group *group);

void tutti_group_close(struct tutti_group *group); /* NULL is a no-op */

/* The ranks of a process: blocks as even as can be, in order; the first ones take one more. */
static inline uint32_t tutti_group_first_rank(uint32_t rank_count, uint32_t count, uint32_t index)
{
    uint32_t share = rank_count / count;
    uint32_t more = rank_count % count;

    return index * share + (index < more ? index : more);
}

/* The process that has a rank. */
static inline uint32_t tutti_group_of_rank(uint32_t rank_count, uint32_t count, uint32_t rank)
{
    uint32_t share = rank_count / count;
    uint32_t more = rank_count % count;

    if (rank < more * (share + 1))
        return rank / (share + 1);
    return more + (rank - more * (share + 1)) / share;
}

TUTTI_API_END

#endif
