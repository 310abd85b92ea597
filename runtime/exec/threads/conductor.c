/* Keeps the clock of another machine; see conductor.h. */
#include "runtime/exec/threads/conductor.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/exec/threads/podium.h"
#include "runtime/status.h"

enum seat_state {
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
static void enter(struct tutti_conductor *conductor)
{
    enum { LOOKS = 100 };

    for (int i = 0; i < LOOKS; i++) {
        if (pthread_mutex_trylock(&conductor->lock) == 0)
            return;
        tutti_hall_breathe();
    }
    pthread_mutex_lock(&conductor->lock);
}

int tutti_conductor_open(struct tutti_conductor *conductor, struct tutti_hall *hall,
                         struct tutti_wires *wires, struct tutti_shaper *shaper, double slowdown,
                         bool spins, struct tutti_err *err)
{
    struct tutti_seat *seats;
    uint32_t *seat_of;
    int status = shaper->ops->begin(shaper, wires->own_count, wires->slot_count, err);

    assert(shaper->ops->size == sizeof(struct tutti_shaper_ops));
    for (uint32_t i = 0; i < wires->wire_count && status == 0; i++) {
        const struct tutti_wire *wire = &wires->wires[i];

        status = shaper->ops->connect(shaper, wire->from, wire->to, wire->lane, err);
    }
    if (status < 0)
        return status;
    seats = aligned_alloc(TUTTI_CACHE_LINE, hall->rank_count * sizeof(*seats));
    seat_of = calloc(wires->own_count, sizeof(*seat_of));
    if (seats == NULL || seat_of == NULL) {
        free(seats);
        free(seat_of);
        return tutti_nomem(err);
    }
    for (uint32_t i = 0; i < hall->rank_count; i++)
        seats[i] = (struct tutti_seat){.state = OUT};
    *conductor = (struct tutti_conductor){
        .hall = hall, .wires = wires, .shaper = shaper, .slowdown = slowdown, .spins = spins};
    if (pthread_mutex_init(&conductor->lock, NULL) != 0) {
        free(seats);
        free(seat_of);
        return tutti_fail(err, TUTTI_EIO, "cannot make a lock for the clock");
    }
    conductor->seats = seats;
    conductor->seat_of = seat_of;
    return 0;
}

void tutti_conductor_close(struct tutti_conductor *conductor)
{
    if (conductor->seats == NULL)
        return;
    pthread_mutex_destroy(&conductor->lock);
    free(conductor->seats);
    free(conductor->seat_of);
    conductor->seats = NULL;
    conductor->seat_of = NULL;
}

/* ---- under the lock ------------------------------------------------------------------------- */

/* When something that happens there at `ps` is due here. */
static tutti_ps due_ps(const struct tutti_conductor *conductor, tutti_ps ps)
{
    double later_ps = (double)ps * conductor->slowdown;

    return later_ps < 0x1p62 ? tutti_hall_after(conductor->epoch_ps, (tutti_ps)later_ps)
                             : INT64_MAX;
}

tutti_ps tutti_conductor_now(const struct tutti_conductor *conductor)
{
    return conductor->podium != NULL ? tutti_podium_now(conductor->podium) : conductor->now_ps;
}

tutti_ps tutti_conductor_epoch(const struct tutti_conductor *conductor)
{
    return conductor->podium != NULL ? tutti_podium_epoch(conductor->podium) : conductor->epoch_ps;
}

tutti_ps tutti_conductor_time(const struct tutti_conductor *conductor)
{
    return conductor->podium != NULL ? tutti_podium_time(conductor->podium)
                                     : due_ps(conductor, conductor->now_ps);
}

/* Seats of those who may rise, to be rung when the lock is given back: who rises will want it. */
struct calls {
    uint32_t count;
    uint32_t seats[64];
};

/* Gives the lock back. */
static void leave(struct tutti_conductor *conductor, struct calls *calls)
{
    pthread_mutex_unlock(&conductor->lock);
    for (uint32_t i = 0; i < calls->count; i++)
        tutti_hall_ring(conductor->hall, calls->seats[i]);
    calls->count = 0;
}

static void call(struct tutti_conductor *conductor, uint32_t number, struct calls *calls)
{
    if (calls->count < sizeof(calls->seats) / sizeof(calls->seats[0]))
        calls->seats[calls->count++] = number;
    else
        tutti_hall_ring(conductor->hall, number);
}

static void ring(struct tutti_conductor *conductor, uint32_t number, struct calls *calls)
{
    struct tutti_seat *seat = &conductor->seats[number];

    if (atomic_load(&seat->state) == PLAYING)
        seat->rung = true;
    if (atomic_load(&seat->state) != WAITING)
        return;
    conductor->playing_count++;
    atomic_store(&seat->state, PLAYING);
    call(conductor, number, calls);
}

/* Somebody must keep the clock, now that none plays: whoever waits and sleeps. */
static void call_keeper(struct tutti_conductor *conductor, struct calls *calls)
{
    if (conductor->playing_count > 0 || conductor->kept)
        return;
    for (uint32_t i = 0; i < conductor->hall->rank_count; i++) {
        if (atomic_load(&conductor->seats[i].state) != WAITING)
            continue;
        call(conductor, i, calls);
        return;
    }
}

/* When something happens next; false: never. */
static bool next_ps(struct tutti_conductor *conductor, tutti_ps *ret_ps)
{
    struct tutti_shaper *shaper = conductor->shaper;
    tutti_ps first_ps = INT64_MAX;
    bool found = shaper->ops->next(shaper, conductor->now_ps, &first_ps);

    for (uint32_t i = 0; i < conductor->hall->rank_count; i++) {
        const struct tutti_seat *seat = &conductor->seats[i];

        if (atomic_load(&seat->state) != WAITING || seat->until_ps == 0)
            continue;
        found = true;
        if (seat->until_ps < first_ps)
            first_ps = seat->until_ps;
    }
    *ret_ps = first_ps;
    return found;
}

/* Sets the clock, and rings all for whom something has happened. */
static void advance(struct tutti_conductor *conductor, tutti_ps now_ps, struct calls *calls)
{
    struct tutti_shaper *shaper = conductor->shaper;
    uint32_t message;

    assert(now_ps >= conductor->now_ps); /* time never runs back */
    conductor->now_ps = now_ps;
    for (uint32_t i = 0; i < conductor->hall->rank_count; i++) {
        const struct tutti_seat *seat = &conductor->seats[i];

        if (atomic_load(&seat->state) == WAITING && seat->until_ps > 0 && seat->until_ps <= now_ps)
            ring(conductor, i, calls);
    }
    while ((message = shaper->ops->arrived(shaper, now_ps)) != TUTTI_SHAPER_NONE) {
        struct tutti_slot *slot = &conductor->wires->slots[message];

        atomic_store(&slot->arrived, atomic_load(&slot->serial));
        ring(conductor, conductor->seat_of[conductor->wires->wires[slot->wire].to], calls);
    }
}

static void count_lateness(struct tutti_conductor *conductor, tutti_ps begun_ps, tutti_ps target_ps,
                           tutti_ps now_ps)
{
    struct tutti_tempo *tempo = &conductor->tempo;
    tutti_ps late_ps = now_ps > target_ps ? now_ps - target_ps : 0;

    tempo->instant_count++;
    if (begun_ps > target_ps && late_ps > LATE_PS)
        tempo->late_count++;
    if (late_ps > tempo->late_ps_max)
        tempo->late_ps_max = late_ps;
    tempo->work_ps += begun_ps - conductor->since_ps;
    tempo->rest_ps += now_ps - begun_ps;
    conductor->since_ps = now_ps;
}

/* Sleeps until shortly before `target_ps`, then looks at the clock until it is time; without the
 * lock. At the latest `limit_ps`, or when the run is broken off. Returns the time. */
static tutti_ps hold_until(struct tutti_hall *hall, uint32_t number, tutti_ps target_ps,
                           tutti_ps limit_ps)
{
    tutti_ps end_ps = target_ps < limit_ps ? target_ps : limit_ps;
    tutti_ps now_ps = tutti_hall_now(hall);

    while (now_ps < end_ps && atomic_load(&hall->stopped) == 0) {
        if (end_ps - now_ps > AWAKE_PS) {
            tutti_hall_lie_down(hall, number);
            tutti_hall_sleep(hall, number, end_ps - AWAKE_PS);
        } else {
            tutti_hall_breathe();
        }
        now_ps = tutti_hall_now(hall);
    }
    return now_ps;
}

/* Waits for what happens next, and lets it happen; gives the lock up meanwhile. */
static int keep(struct tutti_conductor *conductor, uint32_t number, tutti_ps limit_ps,
                struct calls *calls)
{
    struct tutti_hall *hall = conductor->hall;
    tutti_ps begun_ps = tutti_hall_now(hall);
    tutti_ps target_ps;
    tutti_ps held_ps;
    tutti_ps at_ps;
    int status = 0;

    if (!next_ps(conductor, &at_ps))
        return -TUTTI_ECHECK;
    target_ps = due_ps(conductor, at_ps);
    conductor->kept = true;
    atomic_store(&conductor->due_ps, target_ps);
    pthread_mutex_unlock(&conductor->lock);
    held_ps = hold_until(hall, number, target_ps, limit_ps);
    enter(conductor);
    conductor->kept = false;
    if (atomic_load(&hall->stopped) != 0)
        status = -TUTTI_EIO;
    else if (held_ps < target_ps)
        status = -TUTTI_ETIME;
    if (status < 0 || conductor->playing_count > 0) /* somebody else's deadline has passed */
        return status;
    count_lateness(conductor, begun_ps, target_ps, held_ps);
    advance(conductor, at_ps, calls);
    return 0;
}

/* ---- what ranks call ------------------------------------------------------------------------ */

/* Waits to be rung, having lain down; without the lock. Spins for a while after it has played and
 * before an instant is due: who is rung may then play at once. */
static void doze(const struct tutti_conductor *conductor, uint32_t number, tutti_ps limit_ps)
{
    struct tutti_hall *hall = conductor->hall;
    tutti_ps now_ps = tutti_hall_now(hall);
    tutti_ps until_ps = conductor->spins ? now_ps + AWAKE_PS : now_ps;

    while (tutti_hall_lies(hall, number) && atomic_load(&hall->stopped) == 0) {
        tutti_ps due_ps = atomic_load(&conductor->due_ps);

        if (conductor->spins && due_ps - AWAKE_PS <= now_ps && now_ps < due_ps + AWAKE_PS)
            until_ps = due_ps + AWAKE_PS;
        if (now_ps >= until_ps) {
            if (conductor->spins && due_ps - AWAKE_PS > now_ps && due_ps - AWAKE_PS < limit_ps)
                limit_ps = due_ps - AWAKE_PS;
            break;
        }
        tutti_hall_breathe();
        now_ps = tutti_hall_now(hall);
    }
    tutti_hall_sleep(hall, number, limit_ps);
}

int tutti_conductor_wait(struct tutti_conductor *conductor, uint32_t number, tutti_ps until_ps,
                         bool sends_matter, tutti_ps *since_ps, struct tutti_err *err)
{
    struct tutti_hall *hall = conductor->hall;
    struct tutti_seat *seat;
    tutti_ps limit_ps = INT64_MAX;
    struct calls calls;
    int status = 0;

    if (conductor->podium != NULL)
        return tutti_podium_wait(conductor->podium, until_ps, sends_matter, since_ps, err);
    err->text[0] = '\0';
    seat = &conductor->seats[number];
    calls.count = 0;
    if (until_ps == 0) /* waits for others, not for a step of its own */
        limit_ps = tutti_hall_after(tutti_hall_now(hall), hall->deadline_ps);
    enter(conductor);
    if (seat->rung || (until_ps > 0 && until_ps <= conductor->now_ps)) {
        seat->rung = false;
        pthread_mutex_unlock(&conductor->lock);
        return 0;
    }
    seat->until_ps = until_ps;
    atomic_store(&seat->sends_matter, sends_matter);
    atomic_store(&seat->state, WAITING);
    conductor->playing_count--;
    while (status == 0 && atomic_load(&seat->state) == WAITING) {
        if (conductor->playing_count == 0 && !conductor->kept) {
            status = keep(conductor, number, limit_ps, &calls);
            if (status < 0 || !seat->has_work)
                continue;
            break;
        }
        tutti_hall_lie_down(hall, number);
        leave(conductor, &calls);
        doze(conductor, number, limit_ps);
        if (atomic_load(&seat->state) == PLAYING)
            return 0;
        enter(conductor);
        if (atomic_load(&hall->stopped) != 0)
            status = -TUTTI_EIO;
        else if (atomic_load(&seat->state) == WAITING && tutti_hall_now(hall) >= limit_ps)
            status = -TUTTI_ETIME;
    }
    if (atomic_load(&seat->state) == WAITING) {
        atomic_store(&seat->state, PLAYING);
        conductor->playing_count++;
    }
    leave(conductor, &calls);
    return status;
}

int tutti_conductor_begin(struct tutti_conductor *conductor, uint32_t number, uint64_t generation,
                          struct tutti_err *err)
{
    struct tutti_shaper *shaper = conductor->shaper;
    tutti_ps since_ps = 0;
    tutti_ps begin_ps;
    int status = 0;

    if (conductor->podium != NULL)
        return tutti_podium_begin(conductor->podium, generation, err);
    err->text[0] = '\0';
    enter(conductor);
    if (generation != conductor->generation) {
        conductor->generation = generation;
        for (uint32_t i = 0; i < conductor->hall->rank_count; i++) {
            assert(atomic_load(&conductor->seats[i].state) == OUT);
            conductor->seats[i].rung = false;
            atomic_store(&conductor->seats[i].state, PLAYING);
        }
        shaper->ops->reset(shaper);
        conductor->playing_count = conductor->hall->rank_count;
        conductor->now_ps = 0;
        conductor->epoch_ps = tutti_hall_now(conductor->hall);
        conductor->since_ps = conductor->epoch_ps;
    }
    begin_ps = tutti_hall_after(conductor->now_ps, shaper->launch_ps);
    pthread_mutex_unlock(&conductor->lock);
    while (status == 0 && conductor->now_ps < begin_ps)
        status = tutti_conductor_wait(conductor, number, begin_ps, false, &since_ps, err);
    return status;
}

bool tutti_conductor_is_due(struct tutti_conductor *conductor)
{
    tutti_ps at_ps;
    bool found;

    assert(conductor->podium == NULL);
    enter(conductor);
    found = next_ps(conductor, &at_ps);
    pthread_mutex_unlock(&conductor->lock);
    return found && due_ps(conductor, at_ps) <= tutti_hall_now(conductor->hall);
}

void tutti_conductor_has_work(struct tutti_conductor *conductor, uint32_t number, bool has_work)
{
    conductor->seats[number].has_work = has_work;
}

void tutti_conductor_end(struct tutti_conductor *conductor, uint32_t number)
{
    struct calls calls;

    if (conductor->podium != NULL) {
        tutti_podium_end(conductor->podium);
        return;
    }
    calls.count = 0;
    enter(conductor);
    assert(atomic_load(&conductor->seats[number].state) == PLAYING);
    atomic_store(&conductor->seats[number].state, OUT);
    conductor->playing_count--;
    conductor->tempo.clock_ps = conductor->now_ps;
    call_keeper(conductor, &calls);
    leave(conductor, &calls);
}

void tutti_conductor_send(struct tutti_conductor *conductor, struct tutti_wire *wire,
                          struct tutti_slot *slot)
{
    struct tutti_shaper *shaper = conductor->shaper;

    if (conductor->podium != NULL) {
        tutti_podium_send(conductor->podium, wire, slot->bytes);
        return;
    }
    enter(conductor);
    shaper->ops->start(shaper, slot->wire, (uint32_t)(slot - conductor->wires->slots), slot->bytes,
                       conductor->now_ps);
    pthread_mutex_unlock(&conductor->lock);
}

bool tutti_conductor_arrived(const struct tutti_conductor *conductor, const struct tutti_wire *wire,
                             const struct tutti_slot *slot)
{
    if (conductor->podium != NULL)
        return tutti_podium_arrived(conductor->podium, wire);
    return atomic_load(&slot->arrived) == wire->taken_count + 1;
}

uint64_t tutti_conductor_released(const struct tutti_conductor *conductor,
                                  const struct tutti_wire *wire)
{
    assert(conductor->podium != NULL);
    return tutti_podium_released(conductor->podium, wire);
}

void tutti_conductor_release(struct tutti_conductor *conductor, struct tutti_wire *wire)
{
    const struct tutti_seat *seat;
    struct calls calls;

    if (conductor->podium != NULL) {
        tutti_podium_release(conductor->podium, wire);
        return;
    }
    if (conductor->seat_of[wire->from] == conductor->seat_of[wire->to])
        return; /* the thread looks at all its ranks again before it waits */
    seat = &conductor->seats[conductor->seat_of[wire->from]];
    /* The message was released before: a rank that rises after this look sees that itself. */
    if (atomic_load(&seat->state) == WAITING && !atomic_load(&seat->sends_matter))
        return;
    calls.count = 0;
    enter(conductor);
    ring(conductor, conductor->seat_of[wire->from], &calls);
    leave(conductor, &calls);
}
