/* The pacer: plays on another machine's clock, and holds that clock to ours.
 *
 * A shaper says when messages arrive on the other machine. Its clock stands still while any thread
 * plays; when all of them wait, one of them becomes the timekeeper: it looks up what happens next
 * there, waits until that is due here (the other machine's time, slowdown times as long), sets the
 * clock, and lets those play on for whom something has happened. So all steps that follow from one
 * instant happen at that very instant of the other machine's clock, in whatever order the threads
 * get to run, and what they cost here (waking, copying, adding) is not added to what they cost
 * there, as long as it is done before the next instant is due. If it is not, the clock is late, and
 * catches up if it can; how late is told.
 *
 * Two of them stand behind one table: local_pacer.c for the threads of one process, shared_pacer.c
 * for several processes of one host. A run that holds nothing back has none (flow.h). Private to
 * runtime/exec. */
#ifndef TUTTI_RUNTIME_EXEC_EMULATE_PACER_H
#define TUTTI_RUNTIME_EXEC_EMULATE_PACER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/shaper.h"
#include "runtime/threads.h"

struct tutti_connection;
struct tutti_connections;
struct tutti_err;
struct tutti_group;
struct tutti_home;
struct tutti_pacer;
struct tutti_schedule;
struct tutti_slot;
struct tutti_wait_set;

/* All borrowed until close. */
struct tutti_pacer_opts {
    struct tutti_wait_set *wait_set; /* a worker is one thread of it */
    struct tutti_connections *connections;
    const struct tutti_schedule *schedule;
    struct tutti_shaper *shaper;
    double slowdown;
    const uint32_t *worker_of; /* [rank - first_rank]: the worker that plays it */
    bool spins;                /* no more threads than processors: who waits may spin */
    struct tutti_group *group;
    const struct tutti_home *homes; /* [process] */
};

/* Ranks that play call these from the threads of their workers. Errors of begin and wait: as
 * tutti_wait_set_wait, and those of the transport: with these alone there is a message in *err,
 * which is empty otherwise. */
struct tutti_pacer_ops {
    void (*close)(struct tutti_pacer *pacer);
    /* Collective, before the threads start: processes share their clock from then on. NULL: no. */
    int (*connect)(struct tutti_pacer *pacer, tutti_ps deadline_ps, struct tutti_err *err);
    /* The threads are over, and the transport is still there. NULL: nothing to be done. */
    void (*disconnect)(struct tutti_pacer *pacer);
    /* This process has failed: nobody waits for it any more. NULL: the wait set knows. */
    void (*break_off)(struct tutti_pacer *pacer);
    /* A worker begins an iteration; the first one of a new generation, in which none may be inside,
     * starts the clock afresh with all of them. Returns when the launch is over. */
    int (*begin)(struct tutti_pacer *pacer, uint32_t worker, uint64_t generation,
                 struct tutti_err *err);
    /* It goes to meet the others, or has ended. */
    void (*end)(struct tutti_pacer *pacer, uint32_t worker);
    /* After a fruitless look at all its ranks: returns when there may be something to see, at the
     * latest at `until_ps` of the other machine's clock; 0: nothing of its own is under way. Where
     * sends_matter is false, it is not told that SENDs are complete: it sees that when something
     * else happens. *since_ps: when this wait began, of which this may be a part; 0: it begins. */
    int (*wait)(struct tutti_pacer *pacer, uint32_t worker, tutti_ps until_ps, bool sends_matter,
                tutti_ps *since_ps, struct tutti_err *err);
    /* Whether nothing is due, so that the worker may do what the messages under way are for. If
     * something is, its next waits return after each instant, also where that brings nothing for
     * it: there may be work left. NULL: never. */
    bool (*may_work_ahead)(struct tutti_pacer *pacer, uint32_t worker);
    tutti_ps (*now)(const struct tutti_pacer *pacer); /* on the other machine's clock */
    /* On the wait set's clock: when what happens there now is due here, and when that began. */
    tutti_ps (*time)(const struct tutti_pacer *pacer);
    tutti_ps (*epoch)(const struct tutti_pacer *pacer);
    /* The message in `slot` of a connection sets out now; its receiver is rung when it arrives. */
    void (*send)(struct tutti_pacer *pacer, struct tutti_connection *connection,
                 struct tutti_slot *slot);
    /* Whether the message has arrived that is taken next from a connection; `slot` is its own, or,
     * where the sender is in another process, NULL. */
    bool (*arrived)(const struct tutti_pacer *pacer, const struct tutti_connection *connection,
                    const struct tutti_slot *slot);
    /* The receiver has taken another message of a connection: its sender is rung, if that matters
     * to it. */
    void (*release)(struct tutti_pacer *pacer, struct tutti_connection *connection);
    /* How many messages of a connection to another process have been taken there. NULL: alone. */
    uint64_t (*released)(const struct tutti_pacer *pacer,
                         const struct tutti_connection *connection);
};

/* The kind embeds this struct as its first member. */
struct tutti_pacer {
    const struct tutti_pacer_ops *ops;
    struct tutti_shaper *shaper;
    struct tutti_lateness lateness; /* of all iterations so far */
};

/* That of this process alone, or of all of a group. */
int tutti_pacer_open(const struct tutti_pacer_opts *opts, struct tutti_pacer **ret,
                     struct tutti_err *err);

/* Nothing is held back where there is no pacer (NULL). */
static inline int tutti_pacer_begin(struct tutti_pacer *pacer, uint32_t worker, uint64_t generation,
                                    struct tutti_err *err)
{
    return pacer == NULL ? 0 : pacer->ops->begin(pacer, worker, generation, err);
}

static inline void tutti_pacer_end(struct tutti_pacer *pacer, uint32_t worker)
{
    if (pacer != NULL)
        pacer->ops->end(pacer, worker);
}

static inline int tutti_pacer_connect(struct tutti_pacer *pacer, tutti_ps deadline_ps,
                                      struct tutti_err *err)
{
    return pacer == NULL || pacer->ops->connect == NULL
               ? 0
               : pacer->ops->connect(pacer, deadline_ps, err);
}

static inline void tutti_pacer_disconnect(struct tutti_pacer *pacer)
{
    if (pacer != NULL && pacer->ops->disconnect != NULL)
        pacer->ops->disconnect(pacer);
}

static inline void tutti_pacer_break_off(struct tutti_pacer *pacer)
{
    if (pacer != NULL && pacer->ops->break_off != NULL)
        pacer->ops->break_off(pacer);
}

static inline void tutti_pacer_close(struct tutti_pacer *pacer)
{
    if (pacer != NULL)
        pacer->ops->close(pacer);
}

/* ---- private to emulate/ ---- */

int tutti_local_pacer_open(const struct tutti_pacer_opts *opts, struct tutti_pacer **ret,
                           struct tutti_err *err);
int tutti_shared_pacer_open(const struct tutti_pacer_opts *opts, struct tutti_pacer **ret,
                            struct tutti_err *err);

#endif
