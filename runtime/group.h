/* A process group: the processes that play one schedule together, on one host or many. It carries
 * little and seldom: who is there, what all agree on, that somebody gives up. The data of a
 * performance travel on the backend's own ways.
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
 * the group is of no use but to be closed. */
struct tutti_group_ops {
    size_t size; /* sizeof(struct tutti_group_ops) */
    const char *name;
    void (*close)(struct tutti_group *group);
    int (*exchange)(struct tutti_group *group, const void *mine, size_t bytes, void *ret_all,
                    tutti_ps deadline_ps, struct tutti_err *err);
    void (*stop)(struct tutti_group *group, int status, const struct tutti_err *err);
    int (*wait_stop)(struct tutti_group *group, tutti_ps timeout_ps, struct tutti_err *err);
    void (*wake)(struct tutti_group *group);
};

/* The kind embeds this struct as its first member. */
struct tutti_group {
    const struct tutti_group_ops *ops;
    uint32_t index; /* of this process */
    uint32_t count; /* of all; >= 1 */
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
