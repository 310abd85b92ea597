/* The pacer: plays on another machine's clock, and holds that clock to ours.
 *
 * A shaper says when messages arrive on the other machine. Its clock stands still while any thread
 * plays; when all of them wait, the last one becomes the timekeeper: it looks up what happens next
 * there, waits until that is due here (the other machine's time, slowdown times as long), sets the
 * clock, and lets those play on for whom something has happened. So all steps that follow from one
 * instant happen at that very instant of the other machine's clock, in whatever order the threads
 * get to run, and what they cost here (waking, copying, adding) is not added to what they cost
 * there, as long as it is done before the next instant is due. If it is not, the clock is late, and
 * catches up if it can; how late is told. Private to runtime/exec/emulate. */
#ifndef TUTTI_RUNTIME_EXEC_EMULATE_PACER_H
#define TUTTI_RUNTIME_EXEC_EMULATE_PACER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/exec/host/connection.h"
#include "runtime/exec/host/wait_set.h"
#include "runtime/shaper.h"
#include "runtime/threads.h"

struct tutti_shared_pacer;
struct tutti_err;

/* What a thread is doing, as the pacer sees it. */
struct tutti_pacer_worker {
    _Alignas(TUTTI_CACHE_LINE) atomic_int state; /* written under the lock */
    bool rung; /* while playing: something has happened, look again before waiting */
    /* While waiting: something hangs on SENDs of its ranks, which others complete. */
    atomic_bool sends_matter;
    bool has_work;     /* it has something else to do: no wait of its outlasts an instant */
    tutti_ps until_ps; /* while waiting: a step of its ranks ends then; 0: none */
};

struct tutti_pacer {
    /* NULL, or shared with other processes (shared_pacer.h): then all is kept there but the shaper.
     */
    struct tutti_shared_pacer *shared_pacer;
    struct tutti_wait_set *wait_set;
    struct tutti_connections *connections;
    pthread_mutex_t lock; /* guards all that follows, the shaper included */
    struct tutti_shaper *shaper;
    double slowdown;
    struct tutti_pacer_worker *workers; /* [worker]: one a thread */
    uint32_t *worker_of; /* [rank]: the thread that plays it; the execution writes it */
    bool spins;          /* no more threads than processors: who waits may spin */
    uint32_t playing_count;
    bool kept;           /* somebody waits for what happens next */
    uint64_t generation; /* counts resets */
    tutti_ps epoch_ps;   /* on the wait set's clock: when the other machine's began */
    tutti_ps since_ps;   /* on the wait set's clock: when the last instant came, or the epoch */
    tutti_ps now_ps;     /* on the other machine's clock; who plays may read it without the lock */
    /* On the wait set's clock: when the next instant is due, of which somebody waits for it; read
     * without the lock by those who will be rung then. */
    _Atomic tutti_ps due_ps;
    struct tutti_lateness lateness;
};

/* `wait set`, `connections` and `shaper` are borrowed until close. There are as many workers, one a
 * thread, as the wait set has; the caller fills worker_of afterwards. With a shared pacer
 * there are none here, and their numbers do not matter: a process is one. */
int tutti_pacer_open(struct tutti_pacer *pacer, struct tutti_wait_set *wait_set,
                     struct tutti_connections *connections, struct tutti_shaper *shaper,
                     double slowdown, bool spins, struct tutti_err *err);
void tutti_pacer_close(struct tutti_pacer *pacer);

/* A thread begins an iteration; the first one of a new generation, in which none may be inside,
 * starts the clock afresh with all of them. Returns when the launch is over. Errors of this and of
 * wait: as tutti_wait_set_wait, and those of the transport: with these alone there is a message in
 * *err, which is empty otherwise. */
int tutti_pacer_begin(struct tutti_pacer *pacer, uint32_t number, uint64_t generation,
                      struct tutti_err *err);

/* On the other machine's clock. For ranks that play. */
tutti_ps tutti_pacer_now(const struct tutti_pacer *pacer);

/* Whether something is due by now that the next wait will bring; without a shared pacer. For ranks
 * that play. */
bool tutti_pacer_is_due(struct tutti_pacer *pacer);

/* Whether a thread has something else to do while nothing is due: then its waits return after each
 * instant, also where that brings nothing for it. For this thread; without a shared pacer. */
void tutti_pacer_has_work(struct tutti_pacer *pacer, uint32_t number, bool has_work);

/* On the wait set's clock: when the other machine's began. */
tutti_ps tutti_pacer_epoch(const struct tutti_pacer *pacer);

/* On the wait set's clock: when what happens there now is due here. For ranks that play. */
tutti_ps tutti_pacer_time(const struct tutti_pacer *pacer);

/* A thread goes to meet the others, or has ended. */
void tutti_pacer_end(struct tutti_pacer *pacer, uint32_t number);

/* The message in `slot` of a connection sets out now; its receiver is rung when it arrives. */
void tutti_pacer_send(struct tutti_pacer *pacer, struct tutti_connection *connection,
                      struct tutti_slot *slot);

/* Whether the message has arrived that is taken next from a connection; `slot` is its own, or,
 * where the sender is in another process, NULL. */
bool tutti_pacer_arrived(const struct tutti_pacer *pacer, const struct tutti_connection *connection,
                         const struct tutti_slot *slot);

/* The receiver has taken another message of a connection: its sender is rung, if that matters to
 * it. */
void tutti_pacer_release(struct tutti_pacer *pacer, struct tutti_connection *connection);

/* How many messages of a connection to another process have been taken there. */
uint64_t tutti_pacer_released(const struct tutti_pacer *pacer,
                              const struct tutti_connection *connection);

/* After a fruitless look at all its ranks: returns when there may be something to see, at the
 * latest at `until_ps` of the other machine's clock; 0: nothing of its own is under way. Where
 * sends_matter is false, it is not told that SENDs are complete: it sees that when something else
 * happens.
 * *since_ps: when this wait began, of which this may be a part; 0: it begins. */
int tutti_pacer_wait(struct tutti_pacer *pacer, uint32_t number, tutti_ps until_ps,
                     bool sends_matter, tutti_ps *since_ps, struct tutti_err *err);

#endif
