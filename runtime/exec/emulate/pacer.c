/* Keeps the clock of another machine; see pacer.h. */
#include "runtime/exec/emulate/pacer.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/exec/emulate/shared_pacer.h"
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

/* Takes the lock. It is never held for long, and to sleep on it would take longer. */
static void enter(struct tutti_pacer *pacer)
{
    enum { LOOKS = 100 };

    for (int i = 0; i < LOOKS; i++) {
        if (pthread_mutex_trylock(&pacer->lock) == 0)
            return;
        tutti_cpu_relax();
    }
    pthread_mutex_lock(&pacer->lock);
}

int tutti_pacer_open(struct tutti_pacer *pacer, struct tutti_wait_set *wait_set,
                     struct tutti_connections *connections, struct tutti_shaper *shaper,
                     double slowdown, bool spins, struct tutti_err *err)
{
    struct tutti_pacer_worker *workers;
    uint32_t *worker_of;
    int status = shaper->ops->begin(shaper, connections->own_count, connections->slot_count, err);

    assert(shaper->ops->size == sizeof(struct tutti_shaper_ops));
    for (uint32_t i = 0; i < connections->connection_count && status == 0; i++) {
        const struct tutti_connection *connection = &connections->connections[i];

        status =
            shaper->ops->connect(shaper, connection->from, connection->to, connection->lane, err);
    }
    if (status < 0)
        return status;
    workers = aligned_alloc(TUTTI_CACHE_LINE, wait_set->rank_count * sizeof(*workers));
    worker_of = calloc(connections->own_count, sizeof(*worker_of));
    if (workers == NULL || worker_of == NULL) {
        free(workers);
        free(worker_of);
        return tutti_nomem(err);
    }
    for (uint32_t i = 0; i < wait_set->rank_count; i++)
        workers[i] = (struct tutti_pacer_worker){.state = OUT};
    *pacer = (struct tutti_pacer){.wait_set = wait_set,
                                  .connections = connections,
                                  .shaper = shaper,
                                  .slowdown = slowdown,
                                  .spins = spins};
    if (pthread_mutex_init(&pacer->lock, NULL) != 0) {
        free(workers);
        free(worker_of);
        return tutti_fail(err, TUTTI_EIO, "cannot make a lock for the clock");
    }
    pacer->workers = workers;
    pacer->worker_of = worker_of;
    return 0;
}

void tutti_pacer_close(struct tutti_pacer *pacer)
{
    if (pacer->workers == NULL)
        return;
    pthread_mutex_destroy(&pacer->lock);
    free(pacer->workers);
    free(pacer->worker_of);
    pacer->workers = NULL;
    pacer->worker_of = NULL;
}

/* ---- under the lock ------------------------------------------------------------------------- */

/* When something that happens there at `ps` is due here. */
static tutti_ps due_ps(const struct tutti_pacer *pacer, tutti_ps ps)
{
    double later_ps = (double)ps * pacer->slowdown;

    return later_ps < 0x1p62 ? tutti_wait_set_after(pacer->epoch_ps, (tutti_ps)later_ps)
                             : INT64_MAX;
}

tutti_ps tutti_pacer_now(const struct tutti_pacer *pacer)
{
    return pacer->shared_pacer != NULL ? tutti_shared_pacer_now(pacer->shared_pacer)
                                       : pacer->now_ps;
}

tutti_ps tutti_pacer_epoch(const struct tutti_pacer *pacer)
{
    return pacer->shared_pacer != NULL ? tutti_shared_pacer_epoch(pacer->shared_pacer)
                                       : pacer->epoch_ps;
}

tutti_ps tutti_pacer_time(const struct tutti_pacer *pacer)
{
    return pacer->shared_pacer != NULL ? tutti_shared_pacer_time(pacer->shared_pacer)
                                       : due_ps(pacer, pacer->now_ps);
}

/* Seats of those who may rise, to be rung when the lock is given back: who rises will want it. */
struct calls {
    uint32_t count;
    uint32_t workers[64];
};

/* Gives the lock back. */
static void leave(struct tutti_pacer *pacer, struct calls *calls)
{
    pthread_mutex_unlock(&pacer->lock);
    for (uint32_t i = 0; i < calls->count; i++)
        tutti_wait_set_signal(pacer->wait_set, calls->workers[i]);
    calls->count = 0;
}

static void call(struct tutti_pacer *pacer, uint32_t number, struct calls *calls)
{
    if (calls->count < sizeof(calls->workers) / sizeof(calls->workers[0]))
        calls->workers[calls->count++] = number;
    else
        tutti_wait_set_signal(pacer->wait_set, number);
}

static void ring(struct tutti_pacer *pacer, uint32_t number, struct calls *calls)
{
    struct tutti_pacer_worker *worker = &pacer->workers[number];

    if (atomic_load(&worker->state) == PLAYING)
        worker->rung = true;
    if (atomic_load(&worker->state) != WAITING)
        return;
    pacer->playing_count++;
    atomic_store(&worker->state, PLAYING);
    call(pacer, number, calls);
}

/* Somebody must keep the clock, now that none plays: whoever waits and sleeps. */
static void call_timekeeper(struct tutti_pacer *pacer, struct calls *calls)
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
static bool next_ps(struct tutti_pacer *pacer, tutti_ps *ret_ps)
{
    struct tutti_shaper *shaper = pacer->shaper;
    tutti_ps first_ps = INT64_MAX;
    bool found = shaper->ops->next(shaper, pacer->now_ps, &first_ps);

    for (uint32_t i = 0; i < pacer->wait_set->rank_count; i++) {
        const struct tutti_pacer_worker *worker = &pacer->workers[i];

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
static void advance(struct tutti_pacer *pacer, tutti_ps now_ps, struct calls *calls)
{
    struct tutti_shaper *shaper = pacer->shaper;
    uint32_t message;

    assert(now_ps >= pacer->now_ps); /* time never runs back */
    pacer->now_ps = now_ps;
    for (uint32_t i = 0; i < pacer->wait_set->rank_count; i++) {
        const struct tutti_pacer_worker *worker = &pacer->workers[i];

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

static void count_lateness(struct tutti_pacer *pacer, tutti_ps begun_ps, tutti_ps target_ps,
                           tutti_ps now_ps)
{
    struct tutti_lateness *lateness = &pacer->lateness;
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
static int keep(struct tutti_pacer *pacer, uint32_t number, tutti_ps limit_ps, struct calls *calls)
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
static void doze(const struct tutti_pacer *pacer, uint32_t number, tutti_ps limit_ps)
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

int tutti_pacer_wait(struct tutti_pacer *pacer, uint32_t number, tutti_ps until_ps,
                     bool sends_matter, tutti_ps *since_ps, struct tutti_err *err)
{
    struct tutti_wait_set *wait_set = pacer->wait_set;
    struct tutti_pacer_worker *worker;
    tutti_ps limit_ps = INT64_MAX;
    struct calls calls;
    int status = 0;

    if (pacer->shared_pacer != NULL)
        return tutti_shared_pacer_wait(pacer->shared_pacer, until_ps, sends_matter, since_ps, err);
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

int tutti_pacer_begin(struct tutti_pacer *pacer, uint32_t number, uint64_t generation,
                      struct tutti_err *err)
{
    struct tutti_shaper *shaper = pacer->shaper;
    tutti_ps since_ps = 0;
    tutti_ps begin_ps;
    int status = 0;

    if (pacer->shared_pacer != NULL)
        return tutti_shared_pacer_begin(pacer->shared_pacer, generation, err);
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
        status = tutti_pacer_wait(pacer, number, begin_ps, false, &since_ps, err);
    return status;
}

bool tutti_pacer_is_due(struct tutti_pacer *pacer)
{
    tutti_ps at_ps;
    bool found;

    assert(pacer->shared_pacer == NULL);
    enter(pacer);
    found = next_ps(pacer, &at_ps);
    pthread_mutex_unlock(&pacer->lock);
    return found && due_ps(pacer, at_ps) <= tutti_wait_set_now(pacer->wait_set);
}

void tutti_pacer_has_work(struct tutti_pacer *pacer, uint32_t number, bool has_work)
{
    pacer->workers[number].has_work = has_work;
}

void tutti_pacer_end(struct tutti_pacer *pacer, uint32_t number)
{
    struct calls calls;

    if (pacer->shared_pacer != NULL) {
        tutti_shared_pacer_end(pacer->shared_pacer);
        return;
    }
    calls.count = 0;
    enter(pacer);
    assert(atomic_load(&pacer->workers[number].state) == PLAYING);
    atomic_store(&pacer->workers[number].state, OUT);
    pacer->playing_count--;
    pacer->lateness.clock_ps = pacer->now_ps;
    call_timekeeper(pacer, &calls);
    leave(pacer, &calls);
}

void tutti_pacer_send(struct tutti_pacer *pacer, struct tutti_connection *connection,
                      struct tutti_slot *slot)
{
    struct tutti_shaper *shaper = pacer->shaper;

    if (pacer->shared_pacer != NULL) {
        tutti_shared_pacer_send(pacer->shared_pacer, connection, slot->bytes);
        return;
    }
    enter(pacer);
    shaper->ops->start(shaper, slot->connection, (uint32_t)(slot - pacer->connections->slots),
                       slot->bytes, pacer->now_ps);
    pthread_mutex_unlock(&pacer->lock);
}

bool tutti_pacer_arrived(const struct tutti_pacer *pacer, const struct tutti_connection *connection,
                         const struct tutti_slot *slot)
{
    if (pacer->shared_pacer != NULL)
        return tutti_shared_pacer_arrived(pacer->shared_pacer, connection);
    return atomic_load(&slot->arrived) == connection->taken_count + 1;
}

uint64_t tutti_pacer_released(const struct tutti_pacer *pacer,
                              const struct tutti_connection *connection)
{
    assert(pacer->shared_pacer != NULL);
    return tutti_shared_pacer_released(pacer->shared_pacer, connection);
}

void tutti_pacer_release(struct tutti_pacer *pacer, struct tutti_connection *connection)
{
    const struct tutti_pacer_worker *worker;
    struct calls calls;

    if (pacer->shared_pacer != NULL) {
        tutti_shared_pacer_release(pacer->shared_pacer, connection);
        return;
    }
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
