/* The conductor: plays on another machine's clock, and holds that clock to ours.
 *
 * A shaper says when messages arrive on the other machine. Its clock stands still while any thread
 * plays; when all of them wait, the last one becomes the keeper: it looks up what happens next
 * there, waits until that is due here (the other machine's time, slowdown times as long), sets the
 * clock, and lets those play on for whom something has happened. So all steps that follow from one
 * instant happen at that very instant of the other machine's clock, in whatever order the threads
 * get to run, and what they cost here (waking, copying, adding) is not added to what they cost
 * there, as long as it is done before the next instant is due. If it is not, the clock is late, and
 * catches up if it can; how late is told. Private to runtime/exec/threads. */
#ifndef TUTTI_RUNTIME_EXEC_THREADS_CONDUCTOR_H
#define TUTTI_RUNTIME_EXEC_THREADS_CONDUCTOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/exec/threads/hall.h"
#include "runtime/exec/threads/wire.h"
#include "runtime/shaper.h"
#include "runtime/threads.h"

struct tutti_podium;
struct tutti_err;

/* What a thread is doing, as the conductor sees it. */
struct tutti_seat {
    _Alignas(TUTTI_CACHE_LINE) atomic_int state; /* written under the lock */
    bool rung; /* while playing: something has happened, look again before waiting */
    /* While waiting: something hangs on SENDs of its ranks, which others complete. */
    atomic_bool sends_matter;
    bool has_work;     /* it has something else to do: no wait of its outlasts an instant */
    tutti_ps until_ps; /* while waiting: a step of its ranks ends then; 0: none */
};

struct tutti_conductor {
    /* NULL, or shared with other processes (podium.h): then all is kept there but the shaper. */
    struct tutti_podium *podium;
    struct tutti_hall *hall;
    struct tutti_wires *wires;
    pthread_mutex_t lock; /* guards all that follows, the shaper included */
    struct tutti_shaper *shaper;
    double slowdown;
    struct tutti_seat *seats; /* [seat]: one a thread */
    uint32_t *seat_of;        /* [rank]: the thread that plays it; the game writes it */
    bool spins;               /* no more threads than processors: who waits may spin */
    uint32_t playing_count;
    bool kept;           /* somebody waits for what happens next */
    uint64_t generation; /* counts resets */
    tutti_ps epoch_ps;   /* on the hall's clock: when the other machine's began */
    tutti_ps since_ps;   /* on the hall's clock: when the last instant came, or the epoch */
    tutti_ps now_ps;     /* on the other machine's clock; who plays may read it without the lock */
    /* On the hall's clock: when the next instant is due, of which somebody waits for it; read
     * without the lock by those who will be rung then. */
    _Atomic tutti_ps due_ps;
    struct tutti_tempo tempo;
};

/* `hall`, `wires` and `shaper` are borrowed until close. There are as many seats, one a thread, as
 * the hall has; the caller fills seat_of afterwards. With a podium there are none here, and their
 * numbers do not matter: a process is one. */
int tutti_conductor_open(struct tutti_conductor *conductor, struct tutti_hall *hall,
                         struct tutti_wires *wires, struct tutti_shaper *shaper, double slowdown,
                         bool spins, struct tutti_err *err);
void tutti_conductor_close(struct tutti_conductor *conductor);

/* A thread begins an iteration; the first one of a new generation, in which none may be inside,
 * starts the clock afresh with all of them. Returns when the launch is over. Errors of this and of
 * wait: as tutti_hall_rest, and those of the carrier: with these alone there is a message in *err,
 * which is empty otherwise. */
int tutti_conductor_begin(struct tutti_conductor *conductor, uint32_t number, uint64_t generation,
                          struct tutti_err *err);

/* On the other machine's clock. For ranks that play. */
tutti_ps tutti_conductor_now(const struct tutti_conductor *conductor);

/* Whether something is due by now that the next wait will bring; without a podium. For ranks that
 * play. */
bool tutti_conductor_is_due(struct tutti_conductor *conductor);

/* Whether a thread has something else to do while nothing is due: then its waits return after each
 * instant, also where that brings nothing for it. For this thread; without a podium. */
void tutti_conductor_has_work(struct tutti_conductor *conductor, uint32_t number, bool has_work);

/* On the hall's clock: when the other machine's began. */
tutti_ps tutti_conductor_epoch(const struct tutti_conductor *conductor);

/* On the hall's clock: when what happens there now is due here. For ranks that play. */
tutti_ps tutti_conductor_time(const struct tutti_conductor *conductor);

/* A thread goes to meet the others, or has ended. */
void tutti_conductor_end(struct tutti_conductor *conductor, uint32_t number);

/* The message in `slot` of a wire sets out now; its receiver is rung when it arrives. */
void tutti_conductor_send(struct tutti_conductor *conductor, struct tutti_wire *wire,
                          struct tutti_slot *slot);

/* Whether the message has arrived that is taken next from a wire; `slot` is its own, or, where the
 * sender is in another process, NULL. */
bool tutti_conductor_arrived(const struct tutti_conductor *conductor, const struct tutti_wire *wire,
                             const struct tutti_slot *slot);

/* The receiver has taken another message of a wire: its sender is rung, if that matters to it. */
void tutti_conductor_release(struct tutti_conductor *conductor, struct tutti_wire *wire);

/* How many messages of a wire to another process have been taken there. */
uint64_t tutti_conductor_released(const struct tutti_conductor *conductor,
                                  const struct tutti_wire *wire);

/* After a fruitless look at all its ranks: returns when there may be something to see, at the
 * latest at `until_ps` of the other machine's clock; 0: nothing of its own is under way. Where
 * sends_matter is false, it is not told that SENDs are complete: it sees that when something else
 * happens.
 * *since_ps: when this wait began, of which this may be a part; 0: it begins. */
int tutti_conductor_wait(struct tutti_conductor *conductor, uint32_t number, tutti_ps until_ps,
                         bool sends_matter, tutti_ps *since_ps, struct tutti_err *err);

#endif
