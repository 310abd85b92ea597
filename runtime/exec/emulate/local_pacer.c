/* The pacer of the threads of one process: the last one to wait keeps the clock; see pacer.h. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/exec/emulate/pacer.h"
#include "runtime/exec/host/connection.h"
#include "runtime/exec/host/wait_set.h"
#include "runtime/status.h"

enum worker_state {
    OUT,     /* meets the others, or has ended */
    PLAYING, /* the clock stands still */
    WAITING,
};

/* A sleep ends 60 to 120 us late (50 us of timer slack, and the wake-up), so who waits for an
 * instant is awake that long before. */
static const tutti_ps AWAKE_PS = 150 * TUTTI_PS_PER_US;

/* What comes later than this after its time has been late. */
static const tutti_ps LATE_PS = 20 * TUTTI_PS_PER_US;

/* What a thread is doing, as the pacer sees it. */
struct worker {
    _Alignas(TUTTI_CACHE_LINE) atomic_int state; /* written under the lock */
    bool rung; /* while playing: something has happened, look again before waiting */
    /* While waiting: something hangs on SENDs of its ranks, which others complete. */
    atomic_bool sends_matter;
    bool has_work;     /* it has something else to do: no wait of its outlasts an instant */
    tutti_ps until_ps; /* while waiting: a step of its ranks ends then; 0: none */
};

struct local_pacer {
    struct tutti_pacer base; /* first member: the pacer casts back; the shaper is under the lock */
    struct tutti_wait_set *wait_set;
    struct tutti_connections *connections;
    pthread_mutex_t lock; /* guards all that follows */
    double slowdown;
    struct worker *workers;    /* [worker]: one a thread */
    const uint32_t *worker_of; /* [rank] */
    bool spins;
    uint32_t playing_count;
    bool kept;           /* somebody waits for what happens next */
    uint64_t generation; /* counts resets */
    tutti_ps epoch_ps;   /* on the wait set's clock: when the other machine's began */
    tutti_ps since_ps;   /* on the wait set's clock: when the last instant came, or the epoch */
    tutti_ps now_ps;     /* on the other machine's clock; who plays may read it without the lock */
    /* On the wait set's clock: when the next instant is due, of which somebody waits for it; read
     * without the lock by those who will be rung then. */
    _Atomic tutti_ps due_ps;
};

static const struct tutti_pacer_ops local_ops;

static struct local_pacer *of(struct tutti_pacer *base)
{
    return (struct local_pacer *)base;
}

static const struct local_pacer *of_const(const struct tutti_pacer *base)
{
    return (const struct local_pacer *)base;
}

/* Takes the lock. It is never held for long, and to sleep on it would take longer. */
static void enter(struct local_pacer *pacer)
{
    enum { LOOKS = 100 };

    for (int i = 0; i < LOOKS; i++) {
        if (pthread_mutex_trylock(&pacer->lock) == 0)
            return;
        tutti_cpu_relax();
    }
    pthread_mutex_lock(&pacer->lock);
}

static void local_close(struct tutti_pacer *base)
{
    struct local_pacer *pacer = of(base);

    pthread_mutex_destroy(&pacer->lock);
    free(pacer->workers);
    free(pacer);
}

/* The shaper is told all connections. */
static int begin_shaper(const struct tutti_pacer_opts *opts, struct tutti_err *err)
{
    const struct tutti_connections *connections = opts->connections;
    struct tutti_shaper *shaper = opts->shaper;
    int status = shaper->ops->begin(shaper, connections->own_count, connections->slot_count, err);

    assert(shaper->ops->size == sizeof(struct tutti_shaper_ops));
    for (uint32_t i = 0; i < connections->connection_count && status == 0; i++) {
        const struct tutti_connection *connection = &connections->connections[i];

        status =
            shaper->ops->connect(shaper, connection->from, connection->to, connection->lane, err);
    }
    return status;
}

int tutti_local_pacer_open(const struct tutti_pacer_opts *opts, struct tutti_pacer **ret,
                           struct tutti_err *err)
{
    uint32_t worker_count = opts->wait_set->rank_count;
    struct local_pacer *pacer;
    int status = begin_shaper(opts, err);

    if (status < 0)
        return status;
    pacer = malloc(sizeof(*pacer));
    if (pacer == NULL)
        return tutti_nomem(err);
    *pacer = (struct local_pacer){
        .base = {.ops = &local_ops, .shaper = opts->shaper},
        .wait_set = opts->wait_set,
        .connections = opts->connections,
        .slowdown = opts->slowdown,
        .worker_of = opts->worker_of,
        .spins = opts->spins,
        .workers = aligned_alloc(TUTTI_CACHE_LINE, worker_count * sizeof(pacer->workers[0])),
    };
    status = pacer->workers == NULL ? tutti_nomem(err) : 0;
    if (status == 0 && pthread_mutex_init(&pacer->lock, NULL) != 0)
        status = tutti_fail(err, TUTTI_EIO, "cannot make a lock for the clock");
    if (status < 0) {
        free(pacer->workers);
        free(pacer);
        return status;
    }
    for (uint32_t i = 0; i < worker_count; i++)
        pacer->workers[i] = (struct worker){.state = OUT};
    *ret = &pacer->base;
    return 0;
}

/* ---- under the lock ------------------------------------------------------------------------- */

/* When something that happens there at `ps` is due here. */
static tutti_ps due_ps(const struct local_pacer *pacer, tutti_ps ps)
{
    double later_ps = (double)ps * pacer->slowdown;

    return later_ps < 0x1p62 ? tutti_wait_set_after(pacer->epoch_ps, (tutti_ps)later_ps)
                             : INT64_MAX;
}

static tutti_ps local_now(const struct tutti_pacer *base)
{
    return of_const(base)->now_ps;
}

static tutti_ps local_epoch(const struct tutti_pacer *base)
{
    return of_const(base)->epoch_ps;
}

static tutti_ps local_time(const struct tutti_pacer *base)
{
    return due_ps(of_const(base), of_const(base)->now_ps);
}

/* Seats of those who may rise, to be rung when the lock is given back: who rises will want it. */
struct calls {
    uint32_t count;
    uint32_t workers[64];
};

/* Gives the lock back. */
static void leave(struct local_pacer *pacer, struct calls *calls)
{
    pthread_mutex_unlock(&pacer->lock);
    for (uint32_t i = 0; i < calls->count; i++)
        tutti_wait_set_signal(pacer->wait_set, calls->workers[i]);
    calls->count = 0;
}

static void call(struct local_pacer *pacer, uint32_t number, struct calls *calls)
{
    if (calls->count < sizeof(calls->workers) / sizeof(calls->workers[0]))
        calls->workers[calls->count++] = number;
    else
        tutti_wait_set_signal(pacer->wait_set, number);
}

static void ring(struct local_pacer *pacer, uint32_t number, struct calls *calls)
{
    struct worker *worker = &pacer->workers[number];

    if (atomic_load(&worker->state) == PLAYING)
        worker->rung = true;
    if (atomic_load(&worker->state) != WAITING)
        return;
    pacer->playing_count++;
    atomic_store(&worker->state, PLAYING);
    call(pacer, number, calls);
}

/* Somebody must keep the clock, now that none plays: whoever waits and sleeps. */
static void call_timekeeper(struct local_pacer *pacer, struct calls *calls)
{
    if (pacer->playing_count > 0 || pacer->kept)
        return;
    for (uint32_t i = 0; i < pacer->wait_set->rank_count; i++) {
        if (atomic_load(&pacer->workers[i].state) != WAITING)
            continue;
        call(pacer, i, calls);
        return;
    }
}

/* When something happens next; false: never. */
static bool next_ps(struct local_pacer *pacer, tutti_ps *ret_ps)
{
    struct tutti_shaper *shaper = pacer->base.shaper;
    tutti_ps first_ps = INT64_MAX;
    bool found = shaper->ops->next(shaper, pacer->now_ps, &first_ps);

    for (uint32_t i = 0; i < pacer->wait_set->rank_count; i++) {
        const struct worker *worker = &pacer->workers[i];

        if (atomic_load(&worker->state) != WAITING || worker->until_ps == 0)
            continue;
        found = true;
        if (worker->until_ps < first_ps)
            first_ps = worker->until_ps;
    }
    *ret_ps = first_ps;
    return found;
}

/* Sets the clock, and rings all for whom something has happened. */
static void advance(struct local_pacer *pacer, tutti_ps now_ps, struct calls *calls)
{
    struct tutti_shaper *shaper = pacer->base.shaper;
    uint32_t message;

    assert(now_ps >= pacer->now_ps); /* time never runs back */
    pacer->now_ps = now_ps;
    for (uint32_t i = 0; i < pacer->wait_set->rank_count; i++) {
        const struct worker *worker = &pacer->workers[i];

        if (atomic_load(&worker->state) == WAITING && worker->until_ps > 0 &&
            worker->until_ps <= now_ps)
            ring(pacer, i, calls);
    }
    while ((message = shaper->ops->arrived(shaper, now_ps)) != TUTTI_SHAPER_NONE) {
        struct tutti_slot *slot = &pacer->connections->slots[message];

        atomic_store(&slot->arrived, atomic_load(&slot->serial));
        ring(pacer, pacer->worker_of[pacer->connections->connections[slot->connection].to], calls);
    }
}

static void count_lateness(struct local_pacer *pacer, tutti_ps begun_ps, tutti_ps target_ps,
                           tutti_ps now_ps)
{
    struct tutti_lateness *lateness = &pacer->base.lateness;
    tutti_ps late_ps = now_ps > target_ps ? now_ps - target_ps : 0;

    lateness->instant_count++;
    if (begun_ps > target_ps && late_ps > LATE_PS)
        lateness->late_count++;
    if (late_ps > lateness->late_ps_max)
        lateness->late_ps_max = late_ps;
    lateness->work_ps += begun_ps - pacer->since_ps;
    lateness->rest_ps += now_ps - begun_ps;
    pacer->since_ps = now_ps;
}

/* Sleeps until shortly before `target_ps`, then looks at the clock until it is time; without the
 * lock. At the latest `limit_ps`, or when the run is broken off. Returns the time. */
static tutti_ps hold_until(struct tutti_wait_set *wait_set, uint32_t number, tutti_ps target_ps,
                           tutti_ps limit_ps)
{
    tutti_ps end_ps = target_ps < limit_ps ? target_ps : limit_ps;
    tutti_ps now_ps = tutti_wait_set_now(wait_set);

    while (now_ps < end_ps && atomic_load(&wait_set->stopped) == 0) {
        if (end_ps - now_ps > AWAKE_PS) {
            tutti_wait_set_prepare(wait_set, number);
            tutti_wait_set_sleep(wait_set, number, end_ps - AWAKE_PS);
        } else {
            tutti_cpu_relax();
        }
        now_ps = tutti_wait_set_now(wait_set);
    }
    return now_ps;
}

/* Waits for what happens next, and lets it happen; gives the lock up meanwhile. */
static int keep(struct local_pacer *pacer, uint32_t number, tutti_ps limit_ps, struct calls *calls)
{
    struct tutti_wait_set *wait_set = pacer->wait_set;
    tutti_ps begun_ps = tutti_wait_set_now(wait_set);
    tutti_ps target_ps;
    tutti_ps held_ps;
    tutti_ps at_ps;
    int status = 0;

    if (!next_ps(pacer, &at_ps))
        return -TUTTI_ECHECK;
    target_ps = due_ps(pacer, at_ps);
    pacer->kept = true;
    atomic_store(&pacer->due_ps, target_ps);
    pthread_mutex_unlock(&pacer->lock);
    held_ps = hold_until(wait_set, number, target_ps, limit_ps);
    enter(pacer);
    pacer->kept = false;
    if (atomic_load(&wait_set->stopped) != 0)
        status = -TUTTI_EIO;
    else if (held_ps < target_ps)
        status = -TUTTI_ETIME;
    if (status < 0 || pacer->playing_count > 0) /* somebody else's deadline has passed */
        return status;
    count_lateness(pacer, begun_ps, target_ps, held_ps);
    advance(pacer, at_ps, calls);
    return 0;
}

/* ---- what ranks call ------------------------------------------------------------------------ */

/* Waits to be rung, having lain down; without the lock. Spins for a while after it has played and
 * before an instant is due: who is rung may then play at once. */
static void doze(const struct local_pacer *pacer, uint32_t number, tutti_ps limit_ps)
{
    struct tutti_wait_set *wait_set = pacer->wait_set;
    tutti_ps now_ps = tutti_wait_set_now(wait_set);
    tutti_ps until_ps = pacer->spins ? now_ps + AWAKE_PS : now_ps;

    while (tutti_wait_set_is_prepared(wait_set, number) && atomic_load(&wait_set->stopped) == 0) {
        tutti_ps due_ps = atomic_load(&pacer->due_ps);

        if (pacer->spins && due_ps - AWAKE_PS <= now_ps && now_ps < due_ps + AWAKE_PS)
            until_ps = due_ps + AWAKE_PS;
        if (now_ps >= until_ps) {
            if (pacer->spins && due_ps - AWAKE_PS > now_ps && due_ps - AWAKE_PS < limit_ps)
                limit_ps = due_ps - AWAKE_PS;
            break;
        }
        tutti_cpu_relax();
        now_ps = tutti_wait_set_now(wait_set);
    }
    tutti_wait_set_sleep(wait_set, number, limit_ps);
}

static int local_wait(struct tutti_pacer *base, uint32_t number, tutti_ps until_ps,
                      bool sends_matter, tutti_ps *since_ps, struct tutti_err *err)
{
    struct local_pacer *pacer = of(base);
    struct tutti_wait_set *wait_set = pacer->wait_set;
    struct worker *worker;
    tutti_ps limit_ps = INT64_MAX;
    struct calls calls;
    int status = 0;

    (void)since_ps;
    err->text[0] = '\0';
    worker = &pacer->workers[number];
    calls.count = 0;
    if (until_ps == 0) /* waits for others, not for a step of its own */
        limit_ps = tutti_wait_set_after(tutti_wait_set_now(wait_set), wait_set->deadline_ps);
    enter(pacer);
    if (worker->rung || (until_ps > 0 && until_ps <= pacer->now_ps)) {
        worker->rung = false;
        pthread_mutex_unlock(&pacer->lock);
        return 0;
    }
    worker->until_ps = until_ps;
    atomic_store(&worker->sends_matter, sends_matter);
    atomic_store(&worker->state, WAITING);
    pacer->playing_count--;
    while (status == 0 && atomic_load(&worker->state) == WAITING) {
        if (pacer->playing_count == 0 && !pacer->kept) {
            status = keep(pacer, number, limit_ps, &calls);
            if (status < 0 || !worker->has_work)
                continue;
            break;
        }
        tutti_wait_set_prepare(wait_set, number);
        leave(pacer, &calls);
        doze(pacer, number, limit_ps);
        if (atomic_load(&worker->state) == PLAYING)
            return 0;
        enter(pacer);
        if (atomic_load(&wait_set->stopped) != 0)
            status = -TUTTI_EIO;
        else if (atomic_load(&worker->state) == WAITING && tutti_wait_set_now(wait_set) >= limit_ps)
            status = -TUTTI_ETIME;
    }
    if (atomic_load(&worker->state) == WAITING) {
        atomic_store(&worker->state, PLAYING);
        pacer->playing_count++;
    }
    leave(pacer, &calls);
    return status;
}

static int local_begin(struct tutti_pacer *base, uint32_t number, uint64_t generation,
                       struct tutti_err *err)
{
    struct local_pacer *pacer = of(base);
    struct tutti_shaper *shaper = pacer->base.shaper;
    tutti_ps since_ps = 0;
    tutti_ps begin_ps;
    int status = 0;

    err->text[0] = '\0';
    enter(pacer);
    if (generation != pacer->generation) {
        pacer->generation = generation;
        for (uint32_t i = 0; i < pacer->wait_set->rank_count; i++) {
            assert(atomic_load(&pacer->workers[i].state) == OUT);
            pacer->workers[i].rung = false;
            atomic_store(&pacer->workers[i].state, PLAYING);
        }
        shaper->ops->reset(shaper);
        pacer->playing_count = pacer->wait_set->rank_count;
        pacer->now_ps = 0;
        pacer->epoch_ps = tutti_wait_set_now(pacer->wait_set);
        pacer->since_ps = pacer->epoch_ps;
    }
    begin_ps = tutti_wait_set_after(pacer->now_ps, shaper->launch_ps);
    pthread_mutex_unlock(&pacer->lock);
    while (status == 0 && pacer->now_ps < begin_ps)
        status = local_wait(base, number, begin_ps, false, &since_ps, err);
    return status;
}

static bool local_may_work_ahead(struct tutti_pacer *base, uint32_t number)
{
    struct local_pacer *pacer = of(base);
    tutti_ps at_ps;
    bool is_due;

    enter(pacer);
    is_due = next_ps(pacer, &at_ps) && due_ps(pacer, at_ps) <= tutti_wait_set_now(pacer->wait_set);
    pthread_mutex_unlock(&pacer->lock);
    pacer->workers[number].has_work = is_due;
    return !is_due;
}

static void local_end(struct tutti_pacer *base, uint32_t number)
{
    struct local_pacer *pacer = of(base);
    struct calls calls;

    calls.count = 0;
    enter(pacer);
    assert(atomic_load(&pacer->workers[number].state) == PLAYING);
    atomic_store(&pacer->workers[number].state, OUT);
    pacer->playing_count--;
    pacer->base.lateness.clock_ps = pacer->now_ps;
    call_timekeeper(pacer, &calls);
    leave(pacer, &calls);
}

static void local_send(struct tutti_pacer *base, struct tutti_connection *connection,
                       struct tutti_slot *slot)
{
    struct local_pacer *pacer = of(base);
    struct tutti_shaper *shaper = base->shaper;

    (void)connection;
    enter(pacer);
    shaper->ops->start(shaper, slot->connection, (uint32_t)(slot - pacer->connections->slots),
                       slot->bytes, pacer->now_ps);
    pthread_mutex_unlock(&pacer->lock);
}

static bool local_arrived(const struct tutti_pacer *base, const struct tutti_connection *connection,
                          const struct tutti_slot *slot)
{
    (void)base;
    return atomic_load(&slot->arrived) == connection->taken_count + 1;
}

static void local_release(struct tutti_pacer *base, struct tutti_connection *connection)
{
    struct local_pacer *pacer = of(base);
    const struct worker *worker;
    struct calls calls;

    if (pacer->worker_of[connection->from] == pacer->worker_of[connection->to])
        return; /* the thread looks at all its ranks again before it waits */
    worker = &pacer->workers[pacer->worker_of[connection->from]];
    /* The message was released before: a rank that rises after this look sees that itself. */
    if (atomic_load(&worker->state) == WAITING && !atomic_load(&worker->sends_matter))
        return;
    calls.count = 0;
    enter(pacer);
    ring(pacer, pacer->worker_of[connection->from], &calls);
    leave(pacer, &calls);
}

static const struct tutti_pacer_ops local_ops = {
    .close = local_close,
    .begin = local_begin,
    .end = local_end,
    .wait = local_wait,
    .may_work_ahead = local_may_work_ahead,
    .now = local_now,
    .time = local_time,
    .epoch = local_epoch,
    .send = local_send,
    .arrived = local_arrived,
    .release = local_release,
};
