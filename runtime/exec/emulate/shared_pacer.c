/* The clock of an emulated machine in shared memory; see shared_pacer.h. */
#include "runtime/exec/emulate/shared_pacer_memory.h"

#include <assert.h>
#include <time.h>

#include "runtime/group.h"
#include "runtime/status.h"

enum { OUT, PLAYING, WAITING }; /* as in local_pacer.c */

/* As in local_pacer.c. */
static const tutti_ps AWAKE_PS = 150 * TUTTI_PS_PER_US;
static const tutti_ps LATE_PS = 20 * TUTTI_PS_PER_US;
/* Who waits for others that play spins so long: to be woken takes two threads, and 30 to 100 us. */
static const tutti_ps SPIN_PS = 500 * TUTTI_PS_PER_US;
/* Who sleeps looks up this often, lest somebody has died who should have rung. */
static const tutti_ps LOOK_PS = 50 * TUTTI_PS_PER_MS;
/* From when the timekeeper comes from the barrier until the clock starts: all have come by then. */
static const tutti_ps LEAD_PS = 200 * TUTTI_PS_PER_US;
/* Backoffs of who cannot be woken. */
static const tutti_ps BACKOFF_PS = 20 * TUTTI_PS_PER_US;

static bool is_timekeeper(const struct tutti_shared_pacer *shared_pacer)
{
    return shared_pacer->process == 0;
}

static uint32_t process_of(const struct tutti_shared_pacer *shared_pacer, uint32_t rank)
{
    return tutti_group_of_rank(shared_pacer->rank_count, shared_pacer->process_count, rank);
}

/* ---- times ----------------------------------------------------------------------------------- */

/* On the wait set's clock, what is `ps` in the shared memory. */
static tutti_ps here_ps(const struct tutti_shared_pacer *shared_pacer, tutti_ps ps)
{
    int64_t later_s = shared_pacer->memory->base_s - shared_pacer->wait_set->epoch_s;

    return ps == INT64_MAX ? ps : later_s * TUTTI_PS_PER_S + ps;
}

/* When what happens on the other machine's clock at `ps` is due; in the shared memory's time. */
static tutti_ps due_ps(const struct tutti_shared_pacer *shared_pacer, tutti_ps ps)
{
    double later_ps = (double)ps * shared_pacer->slowdown;

    return later_ps < 0x1p62 ? tutti_wait_set_after(atomic_load(&shared_pacer->memory->epoch_ps),
                                                    (tutti_ps)later_ps)
                             : INT64_MAX;
}

/* On the other machine's clock. */
static tutti_ps now_of(const struct tutti_shared_pacer *shared_pacer)
{
    return atomic_load(&shared_pacer->memory->now_ps);
}

static tutti_ps epoch_of(const struct tutti_shared_pacer *shared_pacer)
{
    return here_ps(shared_pacer, due_ps(shared_pacer, 0));
}

/* ---- who plays ------------------------------------------------------------------------------- */

/* What it waits for has been published: wakes a process if it sleeps. */
static void rouse(const struct tutti_shared_pacer *shared_pacer, uint32_t process)
{
    struct tutti_shared_pacer_member *member = &tutti_shared_pacer_members(shared_pacer)[process];

    int where = atomic_load(&member->asleep);

    if (where != TUTTI_SHARED_PACER_NOWHERE)
        sem_post(where == TUTTI_SHARED_PACER_ON_WAKEUP ? &member->wakeup
                                                       : &member->transport_wakeup);
}

static void rouse_all(const struct tutti_shared_pacer *shared_pacer)
{
    for (uint32_t i = 0; i < shared_pacer->process_count; i++)
        rouse(shared_pacer, i);
}

/* Lets a process play on that waits; one that plays will look again before it waits. For who plays
 * himself, and for the timekeeper while nobody does: the clock does not go on meanwhile. */
static void ring(const struct tutti_shared_pacer *shared_pacer, uint32_t process)
{
    struct tutti_shared_pacer_member *member = &tutti_shared_pacer_members(shared_pacer)[process];
    int waiting = WAITING;

    atomic_store(&member->rung, true);
    if (atomic_load(&member->state) != WAITING)
        return;
    atomic_fetch_add(&shared_pacer->memory->playing_count, 1);
    if (atomic_compare_exchange_strong(&member->state, &waiting, PLAYING))
        rouse(shared_pacer, process);
    else /* it has seen that by itself */
        atomic_fetch_sub(&shared_pacer->memory->playing_count, 1);
}

/* This process plays no more. */
static void lay_down(const struct tutti_shared_pacer *shared_pacer)
{
    if (atomic_fetch_sub(&shared_pacer->memory->playing_count, 1) == 1)
        rouse(shared_pacer, 0);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* A status if there is nothing more to wait for. */
static int broken_off(const struct tutti_shared_pacer *shared_pacer)
{
    if (atomic_load(&shared_pacer->memory->stuck) != 0)
        return -TUTTI_ECHECK;
    return atomic_load(&shared_pacer->memory->broken) != 0 ||
                   atomic_load(&shared_pacer->wait_set->stopped) != 0
               ? -TUTTI_EIO
               : 0;
}

/* Whether this process has still to wait; `keeping`: for an instant, not for others. */
static bool must_wait(const struct tutti_shared_pacer *shared_pacer, bool keeping)
{
    const struct tutti_shared_pacer_memory *memory = shared_pacer->memory;

    if (broken_off(shared_pacer) != 0 ||
        atomic_load(&tutti_shared_pacer_own_member(shared_pacer)->state) == PLAYING)
        return false;
    return !is_timekeeper(shared_pacer) || (atomic_load(&memory->playing_count) == 0) == keeping;
}

static struct timespec after(struct timespec time, tutti_ps ps)
{
    int64_t ns = time.tv_nsec + ps / TUTTI_PS_PER_NS;

    return (struct timespec){.tv_sec = (time_t)(time.tv_sec + ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000)};
}

static void backoff(tutti_ps ps)
{
    struct timespec time = after((struct timespec){0}, ps);

    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

/* Says that it sleeps, looks once more, and only then sleeps. */
static void sleep_until(struct tutti_shared_pacer *shared_pacer, tutti_ps until_ps, bool keeping)
{
    struct tutti_shared_pacer_member *member = tutti_shared_pacer_own_member(shared_pacer);
    struct tutti_wait_set *wait_set = shared_pacer->wait_set;
    const struct tutti_transport_ops *ops = wait_set->transport->ops;
    bool on_wakeup = shared_pacer->small && !shared_pacer->spins &&
                     (ops->owes == NULL || !ops->owes(wait_set->transport, wait_set->first_rank));
    tutti_ps left_ps;

    atomic_store(&member->asleep,
                 on_wakeup ? TUTTI_SHARED_PACER_ON_WAKEUP : TUTTI_SHARED_PACER_ON_TRANSPORT);
    left_ps = until_ps - tutti_wait_set_now(wait_set);
    if (must_wait(shared_pacer, keeping) && left_ps > 0) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until = after(until, left_ps);
        if (on_wakeup)
            (void)sem_timedwait(&member->wakeup, &until);
        else
            ops->rest(wait_set->transport, wait_set->first_rank, left_ps);
    }
    atomic_store(&member->asleep, TUTTI_SHARED_PACER_NOWHERE);
}

/* One turn of a wait: moves bytes, or spins, or sleeps for a while. Errors as of wait. */
static int linger(struct tutti_shared_pacer *shared_pacer, tutti_ps *spin_until_ps,
                  tutti_ps limit_ps, bool keeping, struct tutti_err *err)
{
    struct tutti_wait_set *wait_set = shared_pacer->wait_set;
    tutti_ps due_at_ps = here_ps(shared_pacer, atomic_load(&shared_pacer->memory->due_ps));
    tutti_ps wake_ps;
    tutti_ps now_ps;
    bool near;
    int status = broken_off(shared_pacer);

    if (status < 0)
        return status;
    status = tutti_wait_set_move(wait_set, wait_set->first_rank, err);
    now_ps = tutti_wait_set_now(wait_set);
    if (status != 0)
        return status < 0 ? status : 0;
    if (now_ps >= limit_ps)
        return -TUTTI_ETIME;
    if (*spin_until_ps == 0 && shared_pacer->spins)
        *spin_until_ps = now_ps + SPIN_PS;
    /* Who does not spin is woken when it is time, but for the timekeeper. */
    near = (shared_pacer->spins || keeping) && due_at_ps - AWAKE_PS <= now_ps;
    if (near && now_ps - AWAKE_PS < due_at_ps)
        *spin_until_ps = due_at_ps + AWAKE_PS;
    if (now_ps < *spin_until_ps) {
        tutti_cpu_relax();
        return 0;
    }
    wake_ps = limit_ps - now_ps < LOOK_PS ? limit_ps : now_ps + LOOK_PS;
    if ((shared_pacer->spins || keeping) && due_at_ps - AWAKE_PS > now_ps &&
        due_at_ps - AWAKE_PS < wake_ps)
        wake_ps = due_at_ps - AWAKE_PS;
    sleep_until(shared_pacer, wake_ps, keeping);
    return 0;
}

/* ---- the clock ------------------------------------------------------------------------------- */

/* Helpers what has been sent to the shaper. */
static void take_sent(struct tutti_shared_pacer *shared_pacer)
{
    struct tutti_shaper *shaper = shared_pacer->base.shaper;
    tutti_ps now_ps = now_of(shared_pacer);

    for (uint32_t i = 0; i < shared_pacer->process_count; i++) {
        struct tutti_shared_pacer_member *member = &tutti_shared_pacer_members(shared_pacer)[i];

        for (uint32_t k = 0; k < member->sent_count; k++) {
            const struct tutti_shared_pacer_sent *sent =
                &tutti_shared_pacer_sent(shared_pacer)[member->sent_first + k];
            const struct tutti_connection *connection =
                &shared_pacer->all.connections[sent->connection];
            uint64_t number =
                shared_pacer->sent_counts[sent->connection]++ % connection->slot_count;

            shaper->ops->start(shaper, sent->connection,
                               (uint32_t)(connection->slots - shared_pacer->all.slots) +
                                   (uint32_t)number,
                               sent->bytes, now_ps);
        }
        member->sent_count = 0;
    }
}

/* When something happens next; false: never. */
static bool next_ps(const struct tutti_shared_pacer *shared_pacer, tutti_ps *ret_ps)
{
    tutti_ps first_ps = INT64_MAX;
    bool found = shared_pacer->base.shaper->ops->next(shared_pacer->base.shaper,
                                                      now_of(shared_pacer), &first_ps);

    for (uint32_t i = 0; i < shared_pacer->process_count; i++) {
        const struct tutti_shared_pacer_member *member =
            &tutti_shared_pacer_members(shared_pacer)[i];

        if (atomic_load(&member->state) != WAITING || member->until_ps == 0)
            continue;
        found = true;
        if (member->until_ps < first_ps)
            first_ps = member->until_ps;
    }
    *ret_ps = first_ps;
    return found;
}

static void advance(struct tutti_shared_pacer *shared_pacer, tutti_ps now_ps)
{
    struct tutti_shaper *shaper = shared_pacer->base.shaper;
    uint32_t message;

    assert(now_ps >= now_of(shared_pacer));
    atomic_store(&shared_pacer->memory->now_ps, now_ps);
    while ((message = shaper->ops->arrived(shaper, now_ps)) != TUTTI_SHAPER_NONE) {
        uint32_t number = shared_pacer->all.slots[message].connection;
        uint32_t to = process_of(shared_pacer, shared_pacer->all.connections[number].to);

        atomic_fetch_add(&tutti_shared_pacer_arrivals(shared_pacer)[number], 1);
        atomic_store(&tutti_shared_pacer_members(shared_pacer)[to].rung, true);
    }
    /* The others first: the timekeeper plays only when it has let go of the clock. */
    for (uint32_t i = shared_pacer->process_count; i-- > 0;) {
        const struct tutti_shared_pacer_member *member =
            &tutti_shared_pacer_members(shared_pacer)[i];

        if (atomic_load(&member->state) == WAITING &&
            (atomic_load(&member->rung) || (member->until_ps > 0 && member->until_ps <= now_ps)))
            ring(shared_pacer, i);
    }
}

static void count_lateness(struct tutti_shared_pacer *shared_pacer, tutti_ps begun_ps,
                           tutti_ps target_ps)
{
    struct tutti_lateness *lateness = &shared_pacer->base.lateness;
    tutti_ps now_ps = tutti_wait_set_now(shared_pacer->wait_set);
    tutti_ps late_ps = now_ps > target_ps ? now_ps - target_ps : 0;

    lateness->instant_count++;
    if (begun_ps > target_ps && late_ps > LATE_PS)
        lateness->late_count++;
    if (late_ps > lateness->late_ps_max)
        lateness->late_ps_max = late_ps;
    lateness->work_ps += begun_ps - shared_pacer->since_ps;
    lateness->rest_ps += now_ps - begun_ps;
    shared_pacer->since_ps = now_ps;
}

/* Nobody plays: waits for what happens next, and lets it happen. */
static int keep(struct tutti_shared_pacer *shared_pacer, tutti_ps limit_ps, struct tutti_err *err)
{
    struct tutti_shared_pacer_memory *memory = shared_pacer->memory;
    tutti_ps begun_ps = tutti_wait_set_now(shared_pacer->wait_set);
    tutti_ps spin_until_ps = begun_ps; /* but for what is near */
    tutti_ps target_ps;
    tutti_ps at_ps;
    int status = 0;

    take_sent(shared_pacer);
    if (!next_ps(shared_pacer, &at_ps)) {
        atomic_store(&memory->stuck, 1);
        rouse_all(shared_pacer);
        return -TUTTI_ECHECK;
    }
    atomic_store(&memory->due_ps, due_ps(shared_pacer, at_ps));
    target_ps = here_ps(shared_pacer, due_ps(shared_pacer, at_ps));
    /* Somebody else's deadline may pass. */
    while (status == 0 && atomic_load(&memory->playing_count) == 0) {
        if (tutti_wait_set_now(shared_pacer->wait_set) >= target_ps) {
            count_lateness(shared_pacer, begun_ps, target_ps);
            advance(shared_pacer, at_ps);
            return 0;
        }
        status = linger(shared_pacer, &spin_until_ps, limit_ps, true, err);
    }
    return status;
}

/* A new generation begins, which finds all processes out. */
static void reset(struct tutti_shared_pacer *shared_pacer, uint64_t generation)
{
    struct tutti_shared_pacer_memory *memory = shared_pacer->memory;
    tutti_ps now_ps = tutti_wait_set_now(shared_pacer->wait_set);
    unsigned count = 0;

    shared_pacer->base.shaper->ops->reset(shared_pacer->base.shaper);
    now_ps += LEAD_PS;
    shared_pacer->since_ps = now_ps;
    for (uint32_t i = 0; i < shared_pacer->process_count; i++) {
        struct tutti_shared_pacer_member *member = &tutti_shared_pacer_members(shared_pacer)[i];

        if (member->rank_count == 0)
            continue;
        assert(atomic_load(&member->state) == OUT);
        atomic_store(&member->rung, false);
        atomic_store(&member->state, PLAYING);
        member->sent_count = 0;
        count++;
    }
    atomic_store(&memory->now_ps, 0);
    atomic_store(&memory->due_ps, 0);
    atomic_store(&memory->epoch_ps, now_ps - here_ps(shared_pacer, 0));
    atomic_store(&memory->playing_count, count);
    atomic_store(&memory->generation, generation);
}

/* ---- what workers call --------------------------------------------------------------------- */

static tutti_ps shared_now(const struct tutti_pacer *base)
{
    return now_of((const struct tutti_shared_pacer *)base);
}

static tutti_ps shared_epoch(const struct tutti_pacer *base)
{
    return epoch_of((const struct tutti_shared_pacer *)base);
}

static tutti_ps shared_time(const struct tutti_pacer *base)
{
    const struct tutti_shared_pacer *shared_pacer = (const struct tutti_shared_pacer *)base;

    return here_ps(shared_pacer, due_ps(shared_pacer, now_of(shared_pacer)));
}

static int shared_wait(struct tutti_pacer *base, uint32_t worker, tutti_ps until_ps,
                       bool sends_matter, tutti_ps *since_ps, struct tutti_err *err)
{
    struct tutti_shared_pacer *shared_pacer = tutti_shared_pacer_of(base);
    struct tutti_shared_pacer_memory *memory = shared_pacer->memory;
    struct tutti_shared_pacer_member *member = tutti_shared_pacer_own_member(shared_pacer);
    tutti_ps limit_ps = INT64_MAX;
    tutti_ps spin_until_ps = 0;
    int waiting = WAITING;
    int status = 0;

    (void)worker;
    err->text[0] = '\0';
    if (until_ps > 0 && until_ps <= now_of(shared_pacer))
        return 0;
    if (*since_ps == 0 || until_ps > 0)
        *since_ps = tutti_wait_set_now(shared_pacer->wait_set);
    if (until_ps == 0)
        limit_ps = tutti_wait_set_after(*since_ps, shared_pacer->wait_set->deadline_ps);
    member->until_ps = until_ps;
    atomic_store(&member->sends_matter, sends_matter);
    atomic_store(&member->state, WAITING);
    if (atomic_load(&member->rung) &&
        atomic_compare_exchange_strong(&member->state, &waiting, PLAYING)) {
        atomic_store(&member->rung, false);
        return 0;
    }
    lay_down(shared_pacer);
    while (status == 0 && atomic_load(&member->state) == WAITING)
        status = is_timekeeper(shared_pacer) && atomic_load(&memory->playing_count) == 0
                     ? keep(shared_pacer, limit_ps, err)
                     : linger(shared_pacer, &spin_until_ps, limit_ps, false, err);
    waiting = WAITING;
    atomic_fetch_add(&memory->playing_count, 1);
    if (!atomic_compare_exchange_strong(&member->state, &waiting, PLAYING))
        atomic_fetch_sub(&memory->playing_count, 1); /* who rang has counted us */
    atomic_store(&member->rung, false);              /* all is looked at next */
    return status;
}

static int shared_begin(struct tutti_pacer *base, uint32_t worker, uint64_t generation,
                        struct tutti_err *err)
{
    struct tutti_shared_pacer *shared_pacer = tutti_shared_pacer_of(base);
    struct tutti_shared_pacer_memory *memory = shared_pacer->memory;
    struct tutti_wait_set *wait_set = shared_pacer->wait_set;
    tutti_ps limit_ps = tutti_wait_set_after(tutti_wait_set_now(wait_set), wait_set->deadline_ps);
    tutti_ps begin_ps;
    tutti_ps left_ps;
    tutti_ps since_ps = 0;
    int status = 0;

    err->text[0] = '\0';
    if (is_timekeeper(shared_pacer) && atomic_load(&memory->generation) != generation)
        reset(shared_pacer, generation);
    while (atomic_load(&memory->generation) !=
           generation) { /* the timekeeper comes from the barrier */
        if (broken_off(shared_pacer) < 0)
            return -TUTTI_EIO;
        if (tutti_wait_set_now(wait_set) >= limit_ps)
            return -TUTTI_ETIME;
        if (shared_pacer->spins)
            tutti_cpu_relax();
        else
            backoff(BACKOFF_PS);
    }
    while ((left_ps = epoch_of(shared_pacer) - tutti_wait_set_now(wait_set)) > 0) {
        if (shared_pacer->spins)
            tutti_cpu_relax();
        else
            backoff(left_ps);
    }
    begin_ps = tutti_wait_set_after(now_of(shared_pacer), shared_pacer->base.shaper->launch_ps);
    while (status == 0 && now_of(shared_pacer) < begin_ps)
        status = shared_wait(base, worker, begin_ps, false, &since_ps, err);
    return status;
}

static bool all_are_out(const struct tutti_shared_pacer *shared_pacer)
{
    for (uint32_t i = 0; i < shared_pacer->process_count; i++) {
        if (atomic_load(&tutti_shared_pacer_members(shared_pacer)[i].state) != OUT)
            return false;
    }
    return true;
}

static void shared_end(struct tutti_pacer *base, uint32_t worker)
{
    struct tutti_shared_pacer *shared_pacer = tutti_shared_pacer_of(base);
    struct tutti_shared_pacer_memory *memory = shared_pacer->memory;
    struct tutti_wait_set *wait_set = shared_pacer->wait_set;
    struct tutti_err err; /* those who wait find out for themselves */
    int status = 0;

    (void)worker;
    atomic_store(&tutti_shared_pacer_own_member(shared_pacer)->state, OUT);
    lay_down(shared_pacer);
    if (!is_timekeeper(shared_pacer))
        return;
    while (status == 0) {
        tutti_ps limit_ps =
            tutti_wait_set_after(tutti_wait_set_now(wait_set), wait_set->deadline_ps);
        tutti_ps spin_until_ps = 0;

        while (status == 0 && atomic_load(&memory->playing_count) > 0)
            status = linger(shared_pacer, &spin_until_ps, limit_ps, false, &err);
        if (status < 0 || all_are_out(shared_pacer)) /* nobody plays, so that is how it stays */
            break;
        status = keep(shared_pacer, limit_ps, &err);
    }
    shared_pacer->base.lateness.clock_ps = now_of(shared_pacer);
}

static void shared_break_off(struct tutti_pacer *base)
{
    struct tutti_shared_pacer *shared_pacer = tutti_shared_pacer_of(base);

    if (shared_pacer->memory == NULL)
        return;
    atomic_store(&shared_pacer->memory->broken, 1);
    rouse_all(shared_pacer);
}

static void shared_send(struct tutti_pacer *base, struct tutti_connection *connection,
                        struct tutti_slot *slot)
{
    struct tutti_shared_pacer *shared_pacer = tutti_shared_pacer_of(base);
    struct tutti_shared_pacer_member *member = tutti_shared_pacer_own_member(shared_pacer);
    uint32_t at = member->sent_first + member->sent_count++;

    assert(at < shared_pacer->all.slot_count);
    tutti_shared_pacer_sent(shared_pacer)[at] =
        (struct tutti_shared_pacer_sent){.bytes = slot->bytes, .connection = connection->number};
}

static bool shared_arrived(const struct tutti_pacer *base,
                           const struct tutti_connection *connection, const struct tutti_slot *slot)
{
    const struct tutti_shared_pacer *shared_pacer = (const struct tutti_shared_pacer *)base;

    (void)slot;
    return atomic_load(&tutti_shared_pacer_arrivals(shared_pacer)[connection->number]) >
           connection->taken_count;
}

static void shared_release(struct tutti_pacer *base, struct tutti_connection *connection)
{
    struct tutti_shared_pacer *shared_pacer = tutti_shared_pacer_of(base);
    uint32_t process = process_of(shared_pacer, connection->from);
    const struct tutti_shared_pacer_member *member =
        &tutti_shared_pacer_members(shared_pacer)[process];

    atomic_store(&tutti_shared_pacer_releases(shared_pacer)[connection->number],
                 connection->taken_count);
    if (process == shared_pacer->process) /* looks at all its ranks again before it waits */
        return;
    if (atomic_load(&member->state) == WAITING && !atomic_load(&member->sends_matter))
        return;
    ring(shared_pacer, process);
}

static uint64_t shared_released(const struct tutti_pacer *base,
                                const struct tutti_connection *connection)
{
    const struct tutti_shared_pacer *shared_pacer = (const struct tutti_shared_pacer *)base;

    return atomic_load(&tutti_shared_pacer_releases(shared_pacer)[connection->number]);
}

const struct tutti_pacer_ops tutti_shared_pacer_ops = {
    .close = tutti_shared_pacer_close,
    .connect = tutti_shared_pacer_connect,
    .disconnect = tutti_shared_pacer_disconnect,
    .break_off = shared_break_off,
    .begin = shared_begin,
    .end = shared_end,
    .wait = shared_wait,
    .now = shared_now,
    .time = shared_time,
    .epoch = shared_epoch,
    .send = shared_send,
    .arrived = shared_arrived,
    .release = shared_release,
    .released = shared_released,
};
