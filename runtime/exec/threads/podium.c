/* The clock of an emulated machine in shared memory; see podium.h. */
#include "runtime/exec/threads/podium_memory.h"

#include <assert.h>
#include <time.h>

#include "runtime/crew.h"
#include "runtime/status.h"

enum { OUT, PLAYING, WAITING }; /* as in conductor.c */

/* As in conductor.c. */
static const tutti_ps AWAKE_PS = 150 * TUTTI_PS_PER_US;
static const tutti_ps LATE_PS = 20 * TUTTI_PS_PER_US;
/* Who waits for others that play spins so long: to be woken takes two threads, and 30 to 100 us. */
static const tutti_ps SPIN_PS = 500 * TUTTI_PS_PER_US;
/* Who sleeps looks up this often, lest somebody has died who should have rung. */
static const tutti_ps LOOK_PS = 50 * TUTTI_PS_PER_MS;
/* From when the keeper comes from the barrier until the clock starts: all have come by then. */
static const tutti_ps LEAD_PS = 200 * TUTTI_PS_PER_US;
/* Naps of who cannot be woken. */
static const tutti_ps NAP_PS = 20 * TUTTI_PS_PER_US;

static bool is_keeper(const struct tutti_podium *podium)
{
    return podium->process == 0;
}

static uint32_t process_of(const struct tutti_podium *podium, uint32_t rank)
{
    return tutti_crew_of_rank(podium->rank_count, podium->process_count, rank);
}

/* ---- times ----------------------------------------------------------------------------------- */

/* On the hall's clock, what is `ps` in the shared memory. */
static tutti_ps here_ps(const struct tutti_podium *podium, tutti_ps ps)
{
    int64_t later_s = podium->memory->base_s - podium->hall->epoch_s;

    return ps == INT64_MAX ? ps : later_s * TUTTI_PS_PER_S + ps;
}

/* When what happens on the other machine's clock at `ps` is due; in the shared memory's time. */
static tutti_ps due_ps(const struct tutti_podium *podium, tutti_ps ps)
{
    double later_ps = (double)ps * podium->slowdown;

    return later_ps < 0x1p62
               ? tutti_hall_after(atomic_load(&podium->memory->epoch_ps), (tutti_ps)later_ps)
               : INT64_MAX;
}

/* ---- who plays ------------------------------------------------------------------------------- */

/* What it waits for has been published: wakes a process if it sleeps. */
static void rouse(const struct tutti_podium *podium, uint32_t process)
{
    struct tutti_podium_seat *seat = &tutti_podium_seats(podium)[process];

    int where = atomic_load(&seat->asleep);

    if (where != TUTTI_PODIUM_NOWHERE)
        sem_post(where == TUTTI_PODIUM_ON_BELL ? &seat->bell : &seat->carrier_bell);
}

static void rouse_all(const struct tutti_podium *podium)
{
    for (uint32_t i = 0; i < podium->process_count; i++)
        rouse(podium, i);
}

/* Lets a process play on that waits; one that plays will look again before it waits. For who plays
 * himself, and for the keeper while nobody does: the clock does not go on meanwhile. */
static void ring(const struct tutti_podium *podium, uint32_t process)
{
    struct tutti_podium_seat *seat = &tutti_podium_seats(podium)[process];
    int waiting = WAITING;

    atomic_store(&seat->rung, true);
    if (atomic_load(&seat->state) != WAITING)
        return;
    atomic_fetch_add(&podium->memory->playing_count, 1);
    if (atomic_compare_exchange_strong(&seat->state, &waiting, PLAYING))
        rouse(podium, process);
    else /* it has seen that by itself */
        atomic_fetch_sub(&podium->memory->playing_count, 1);
}

/* This process plays no more. */
static void lay_down(const struct tutti_podium *podium)
{
    if (atomic_fetch_sub(&podium->memory->playing_count, 1) == 1)
        rouse(podium, 0);
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* A status if there is nothing more to wait for. */
static int broken_off(const struct tutti_podium *podium)
{
    if (atomic_load(&podium->memory->stuck) != 0)
        return -TUTTI_ECHECK;
    return atomic_load(&podium->memory->broken) != 0 || atomic_load(&podium->hall->stopped) != 0
               ? -TUTTI_EIO
               : 0;
}

/* Whether this process has still to wait; `keeping`: for an instant, not for others. */
static bool must_wait(const struct tutti_podium *podium, bool keeping)
{
    const struct tutti_podium_memory *memory = podium->memory;

    if (broken_off(podium) != 0 || atomic_load(&tutti_podium_own_seat(podium)->state) == PLAYING)
        return false;
    return !is_keeper(podium) || (atomic_load(&memory->playing_count) == 0) == keeping;
}

static struct timespec after(struct timespec time, tutti_ps ps)
{
    int64_t ns = time.tv_nsec + ps / TUTTI_PS_PER_NS;

    return (struct timespec){.tv_sec = (time_t)(time.tv_sec + ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000)};
}

static void nap(tutti_ps ps)
{
    struct timespec time = after((struct timespec){0}, ps);

    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
}

/* Says that it sleeps, looks once more, and only then sleeps. */
static void sleep_until(struct tutti_podium *podium, tutti_ps until_ps, bool keeping)
{
    struct tutti_podium_seat *seat = tutti_podium_own_seat(podium);
    struct tutti_hall *hall = podium->hall;
    const struct tutti_carrier_ops *ops = hall->carrier->ops;
    bool on_bell = podium->small && !podium->spins &&
                   (ops->owes == NULL || !ops->owes(hall->carrier, hall->first_rank));
    tutti_ps left_ps;

    atomic_store(&seat->asleep, on_bell ? TUTTI_PODIUM_ON_BELL : TUTTI_PODIUM_ON_CARRIER);
    left_ps = until_ps - tutti_hall_now(hall);
    if (must_wait(podium, keeping) && left_ps > 0) {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until = after(until, left_ps);
        if (on_bell)
            (void)sem_timedwait(&seat->bell, &until);
        else
            ops->rest(hall->carrier, hall->first_rank, left_ps);
    }
    atomic_store(&seat->asleep, TUTTI_PODIUM_NOWHERE);
}

/* One turn of a wait: moves bytes, or spins, or sleeps for a while. Errors as of wait. */
static int linger(struct tutti_podium *podium, tutti_ps *spin_until_ps, tutti_ps limit_ps,
                  bool keeping, struct tutti_err *err)
{
    struct tutti_hall *hall = podium->hall;
    tutti_ps due_at_ps = here_ps(podium, atomic_load(&podium->memory->due_ps));
    tutti_ps wake_ps;
    tutti_ps now_ps;
    bool near;
    int status = broken_off(podium);

    if (status < 0)
        return status;
    status = tutti_hall_move(hall, hall->first_rank, err);
    now_ps = tutti_hall_now(hall);
    if (status != 0)
        return status < 0 ? status : 0;
    if (now_ps >= limit_ps)
        return -TUTTI_ETIME;
    if (*spin_until_ps == 0 && podium->spins)
        *spin_until_ps = now_ps + SPIN_PS;
    /* Who does not spin is woken when it is time, but for the keeper. */
    near = (podium->spins || keeping) && due_at_ps - AWAKE_PS <= now_ps;
    if (near && now_ps - AWAKE_PS < due_at_ps)
        *spin_until_ps = due_at_ps + AWAKE_PS;
    if (now_ps < *spin_until_ps) {
        tutti_hall_breathe();
        return 0;
    }
    wake_ps = limit_ps - now_ps < LOOK_PS ? limit_ps : now_ps + LOOK_PS;
    if ((podium->spins || keeping) && due_at_ps - AWAKE_PS > now_ps &&
        due_at_ps - AWAKE_PS < wake_ps)
        wake_ps = due_at_ps - AWAKE_PS;
    sleep_until(podium, wake_ps, keeping);
    return 0;
}

/* ---- the clock ------------------------------------------------------------------------------- */

/* Hands what has been sent to the shaper. */
static void take_sent(struct tutti_podium *podium)
{
    struct tutti_shaper *shaper = podium->shaper;
    tutti_ps now_ps = tutti_podium_now(podium);

    for (uint32_t i = 0; i < podium->process_count; i++) {
        struct tutti_podium_seat *seat = &tutti_podium_seats(podium)[i];

        for (uint32_t k = 0; k < seat->sent_count; k++) {
            const struct tutti_podium_sent *sent = &tutti_podium_sent(podium)[seat->sent_first + k];
            const struct tutti_wire *wire = &podium->all.wires[sent->wire];
            uint64_t number = podium->sent_counts[sent->wire]++ % wire->slot_count;

            shaper->ops->start(shaper, sent->wire,
                               (uint32_t)(wire->slots - podium->all.slots) + (uint32_t)number,
                               sent->bytes, now_ps);
        }
        seat->sent_count = 0;
    }
}

/* When something happens next; false: never. */
static bool next_ps(const struct tutti_podium *podium, tutti_ps *ret_ps)
{
    tutti_ps first_ps = INT64_MAX;
    bool found = podium->shaper->ops->next(podium->shaper, tutti_podium_now(podium), &first_ps);

    for (uint32_t i = 0; i < podium->process_count; i++) {
        const struct tutti_podium_seat *seat = &tutti_podium_seats(podium)[i];

        if (atomic_load(&seat->state) != WAITING || seat->until_ps == 0)
            continue;
        found = true;
        if (seat->until_ps < first_ps)
            first_ps = seat->until_ps;
    }
    *ret_ps = first_ps;
    return found;
}

static void advance(struct tutti_podium *podium, tutti_ps now_ps)
{
    struct tutti_shaper *shaper = podium->shaper;
    uint32_t message;

    assert(now_ps >= tutti_podium_now(podium));
    atomic_store(&podium->memory->now_ps, now_ps);
    while ((message = shaper->ops->arrived(shaper, now_ps)) != TUTTI_SHAPER_NONE) {
        uint32_t number = podium->all.slots[message].wire;
        uint32_t to = process_of(podium, podium->all.wires[number].to);

        atomic_fetch_add(&tutti_podium_arrivals(podium)[number], 1);
        atomic_store(&tutti_podium_seats(podium)[to].rung, true);
    }
    /* The others first: the keeper plays only when it has let go of the clock. */
    for (uint32_t i = podium->process_count; i-- > 0;) {
        const struct tutti_podium_seat *seat = &tutti_podium_seats(podium)[i];

        if (atomic_load(&seat->state) == WAITING &&
            (atomic_load(&seat->rung) || (seat->until_ps > 0 && seat->until_ps <= now_ps)))
            ring(podium, i);
    }
}

static void count_lateness(struct tutti_podium *podium, tutti_ps begun_ps, tutti_ps target_ps)
{
    struct tutti_tempo *tempo = &podium->tempo;
    tutti_ps now_ps = tutti_hall_now(podium->hall);
    tutti_ps late_ps = now_ps > target_ps ? now_ps - target_ps : 0;

    tempo->instant_count++;
    if (begun_ps > target_ps && late_ps > LATE_PS)
        tempo->late_count++;
    if (late_ps > tempo->late_ps_max)
        tempo->late_ps_max = late_ps;
    tempo->work_ps += begun_ps - podium->since_ps;
    tempo->rest_ps += now_ps - begun_ps;
    podium->since_ps = now_ps;
}

/* Nobody plays: waits for what happens next, and lets it happen. */
static int keep(struct tutti_podium *podium, tutti_ps limit_ps, struct tutti_err *err)
{
    struct tutti_podium_memory *memory = podium->memory;
    tutti_ps begun_ps = tutti_hall_now(podium->hall);
    tutti_ps spin_until_ps = begun_ps; /* but for what is near */
    tutti_ps target_ps;
    tutti_ps at_ps;
    int status = 0;

    take_sent(podium);
    if (!next_ps(podium, &at_ps)) {
        atomic_store(&memory->stuck, 1);
        rouse_all(podium);
        return -TUTTI_ECHECK;
    }
    atomic_store(&memory->due_ps, due_ps(podium, at_ps));
    target_ps = here_ps(podium, due_ps(podium, at_ps));
    /* Somebody else's deadline may pass. */
    while (status == 0 && atomic_load(&memory->playing_count) == 0) {
        if (tutti_hall_now(podium->hall) >= target_ps) {
            count_lateness(podium, begun_ps, target_ps);
            advance(podium, at_ps);
            return 0;
        }
        status = linger(podium, &spin_until_ps, limit_ps, true, err);
    }
    return status;
}

/* A new generation begins, which finds all processes out. */
static void reset(struct tutti_podium *podium, uint64_t generation)
{
    struct tutti_podium_memory *memory = podium->memory;
    tutti_ps now_ps = tutti_hall_now(podium->hall);
    unsigned count = 0;

    podium->shaper->ops->reset(podium->shaper);
    now_ps += LEAD_PS;
    podium->since_ps = now_ps;
    for (uint32_t i = 0; i < podium->process_count; i++) {
        struct tutti_podium_seat *seat = &tutti_podium_seats(podium)[i];

        if (seat->rank_count == 0)
            continue;
        assert(atomic_load(&seat->state) == OUT);
        atomic_store(&seat->rung, false);
        atomic_store(&seat->state, PLAYING);
        seat->sent_count = 0;
        count++;
    }
    atomic_store(&memory->now_ps, 0);
    atomic_store(&memory->due_ps, 0);
    atomic_store(&memory->epoch_ps, now_ps - here_ps(podium, 0));
    atomic_store(&memory->playing_count, count);
    atomic_store(&memory->generation, generation);
}

/* ---- what players call ----------------------------------------------------------------------- */

tutti_ps tutti_podium_now(const struct tutti_podium *podium)
{
    return atomic_load(&podium->memory->now_ps);
}

tutti_ps tutti_podium_epoch(const struct tutti_podium *podium)
{
    return here_ps(podium, due_ps(podium, 0));
}

tutti_ps tutti_podium_time(const struct tutti_podium *podium)
{
    return here_ps(podium, due_ps(podium, tutti_podium_now(podium)));
}

int tutti_podium_wait(struct tutti_podium *podium, tutti_ps until_ps, bool sends_matter,
                      tutti_ps *since_ps, struct tutti_err *err)
{
    struct tutti_podium_memory *memory = podium->memory;
    struct tutti_podium_seat *seat = tutti_podium_own_seat(podium);
    tutti_ps limit_ps = INT64_MAX;
    tutti_ps spin_until_ps = 0;
    int waiting = WAITING;
    int status = 0;

    err->text[0] = '\0';
    if (until_ps > 0 && until_ps <= tutti_podium_now(podium))
        return 0;
    if (*since_ps == 0 || until_ps > 0)
        *since_ps = tutti_hall_now(podium->hall);
    if (until_ps == 0)
        limit_ps = tutti_hall_after(*since_ps, podium->hall->deadline_ps);
    seat->until_ps = until_ps;
    atomic_store(&seat->sends_matter, sends_matter);
    atomic_store(&seat->state, WAITING);
    if (atomic_load(&seat->rung) &&
        atomic_compare_exchange_strong(&seat->state, &waiting, PLAYING)) {
        atomic_store(&seat->rung, false);
        return 0;
    }
    lay_down(podium);
    while (status == 0 && atomic_load(&seat->state) == WAITING)
        status = is_keeper(podium) && atomic_load(&memory->playing_count) == 0
                     ? keep(podium, limit_ps, err)
                     : linger(podium, &spin_until_ps, limit_ps, false, err);
    waiting = WAITING;
    atomic_fetch_add(&memory->playing_count, 1);
    if (!atomic_compare_exchange_strong(&seat->state, &waiting, PLAYING))
        atomic_fetch_sub(&memory->playing_count, 1); /* who rang has counted us */
    atomic_store(&seat->rung, false);                /* all is looked at next */
    return status;
}

int tutti_podium_begin(struct tutti_podium *podium, uint64_t generation, struct tutti_err *err)
{
    struct tutti_podium_memory *memory = podium->memory;
    struct tutti_hall *hall = podium->hall;
    tutti_ps limit_ps = tutti_hall_after(tutti_hall_now(hall), hall->deadline_ps);
    tutti_ps begin_ps;
    tutti_ps left_ps;
    tutti_ps since_ps = 0;
    int status = 0;

    err->text[0] = '\0';
    if (is_keeper(podium) && atomic_load(&memory->generation) != generation)
        reset(podium, generation);
    while (atomic_load(&memory->generation) != generation) { /* the keeper comes from the barrier */
        if (broken_off(podium) < 0)
            return -TUTTI_EIO;
        if (tutti_hall_now(hall) >= limit_ps)
            return -TUTTI_ETIME;
        if (podium->spins)
            tutti_hall_breathe();
        else
            nap(NAP_PS);
    }
    while ((left_ps = tutti_podium_epoch(podium) - tutti_hall_now(hall)) > 0) {
        if (podium->spins)
            tutti_hall_breathe();
        else
            nap(left_ps);
    }
    begin_ps = tutti_hall_after(tutti_podium_now(podium), podium->shaper->launch_ps);
    while (status == 0 && tutti_podium_now(podium) < begin_ps)
        status = tutti_podium_wait(podium, begin_ps, false, &since_ps, err);
    return status;
}

static bool all_are_out(const struct tutti_podium *podium)
{
    for (uint32_t i = 0; i < podium->process_count; i++) {
        if (atomic_load(&tutti_podium_seats(podium)[i].state) != OUT)
            return false;
    }
    return true;
}

void tutti_podium_end(struct tutti_podium *podium)
{
    struct tutti_podium_memory *memory = podium->memory;
    struct tutti_hall *hall = podium->hall;
    struct tutti_err err; /* those who wait find out for themselves */
    int status = 0;

    atomic_store(&tutti_podium_own_seat(podium)->state, OUT);
    lay_down(podium);
    if (!is_keeper(podium))
        return;
    while (status == 0) {
        tutti_ps limit_ps = tutti_hall_after(tutti_hall_now(hall), hall->deadline_ps);
        tutti_ps spin_until_ps = 0;

        while (status == 0 && atomic_load(&memory->playing_count) > 0)
            status = linger(podium, &spin_until_ps, limit_ps, false, &err);
        if (status < 0 || all_are_out(podium)) /* nobody plays, so that is how it stays */
            break;
        status = keep(podium, limit_ps, &err);
    }
    podium->tempo.clock_ps = tutti_podium_now(podium);
}

void tutti_podium_break(struct tutti_podium *podium)
{
    if (podium->memory == NULL)
        return;
    atomic_store(&podium->memory->broken, 1);
    rouse_all(podium);
}

void tutti_podium_send(struct tutti_podium *podium, const struct tutti_wire *wire, uint64_t bytes)
{
    struct tutti_podium_seat *seat = tutti_podium_own_seat(podium);
    uint32_t at = seat->sent_first + seat->sent_count++;

    assert(at < podium->all.slot_count);
    tutti_podium_sent(podium)[at] =
        (struct tutti_podium_sent){.bytes = bytes, .wire = wire->number};
}

bool tutti_podium_arrived(const struct tutti_podium *podium, const struct tutti_wire *wire)
{
    return atomic_load(&tutti_podium_arrivals(podium)[wire->number]) > wire->taken_count;
}

void tutti_podium_release(struct tutti_podium *podium, const struct tutti_wire *wire)
{
    uint32_t process = process_of(podium, wire->from);
    const struct tutti_podium_seat *seat = &tutti_podium_seats(podium)[process];

    atomic_store(&tutti_podium_releases(podium)[wire->number], wire->taken_count);
    if (process == podium->process) /* looks at all its ranks again before it waits */
        return;
    if (atomic_load(&seat->state) == WAITING && !atomic_load(&seat->sends_matter))
        return;
    ring(podium, process);
}

uint64_t tutti_podium_released(const struct tutti_podium *podium, const struct tutti_wire *wire)
{
    return atomic_load(&tutti_podium_releases(podium)[wire->number]);
}
