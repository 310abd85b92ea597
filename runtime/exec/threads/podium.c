/* The clock of an emulated machine in shared memory; see podium.h. */
#include "runtime/exec/threads/podium_memory.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "runtime/crew.h"
#include "runtime/schedule.h"
#include "runtime/status.h"

enum { OUT, PLAYING, WAITING }; /* as in conductor.c */

/* As in conductor.c. */
static const tutti_ps AWAKE_PS = 150 * TUTTI_PS_PER_US;
static const tutti_ps LATE_PS = 20 * TUTTI_PS_PER_US;
/* A thread that waits looks up this often, lest somebody has died who should have rung. */
static const tutti_ps LOOK_PS = 50 * TUTTI_PS_PER_MS;

static struct timespec after(struct timespec time, tutti_ps ps)
{
    time.tv_nsec += (long)(ps / TUTTI_PS_PER_NS);
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

/* ---- the lock -------------------------------------------------------------------------------- */

/* Takes the lock, or is broken off while somebody who has been stopped holds it. Who dies with the
 * lock in hand leaves the game broken off; the crew says who it was. */
static bool enter(struct tutti_podium *podium)
{
    struct tutti_podium_memory *memory = podium->memory;
    int status;

    do {
        struct timespec until;

        clock_gettime(CLOCK_REALTIME, &until);
        until = after(until, LOOK_PS);
        status = pthread_mutex_timedlock(&memory->lock, &until);
    } while (status == ETIMEDOUT && atomic_load(&podium->hall->stopped) == 0);
    if (status == EOWNERDEAD) {
        atomic_store(&memory->stopped, 1);
        pthread_mutex_consistent(&memory->lock);
    }
    return status == 0 || status == EOWNERDEAD;
}

static void leave(struct tutti_podium *podium)
{
    pthread_mutex_unlock(&podium->memory->lock);
}

/* ---- under the lock -------------------------------------------------------------------------- */

/* Lets a rank play on that waits, and tells its process to rouse it. */
static void ring(struct tutti_podium *podium, uint32_t rank)
{
    struct tutti_podium_memory *memory = podium->memory;
    struct tutti_podium_seat *seat = &tutti_podium_seats(podium)[rank];

    if (atomic_load(&seat->state) == PLAYING)
        seat->rung = true;
    if (atomic_load(&seat->state) != WAITING)
        return;
    atomic_store(&seat->state, PLAYING);
    memory->playing_count++;
    memory->waiting_count--;
    seat->called = true;
    pthread_cond_signal(&memory->bells[seat->process]);
}

/* The clock may go on: that is for the first process to see to. */
static void call_keeper(struct tutti_podium *podium)
{
    if (podium->memory->playing_count == 0)
        pthread_cond_signal(&podium->memory->bells[0]);
}

/* Hands what has been sent to the shaper. */
static void take_sent(struct tutti_podium *podium)
{
    struct tutti_podium_memory *memory = podium->memory;
    struct tutti_shaper *shaper = podium->shaper;

    for (uint32_t i = 0; i < memory->sent_count; i++) {
        const struct tutti_podium_sent *sent = &tutti_podium_sent(podium)[i];
        const struct tutti_wire *wire = &podium->all.wires[sent->wire];
        uint64_t number = podium->sent_counts[sent->wire]++ % wire->slot_count;

        shaper->ops->start(shaper, sent->wire,
                           (uint32_t)(wire->slots - podium->all.slots) + (uint32_t)number,
                           sent->bytes, atomic_load(&memory->now_ps));
    }
    memory->sent_count = 0;
}

/* When something happens next; false: never. */
static bool next_ps(struct tutti_podium *podium, tutti_ps *ret_ps)
{
    tutti_ps first_ps = INT64_MAX;
    bool found =
        podium->shaper->ops->next(podium->shaper, atomic_load(&podium->memory->now_ps), &first_ps);

    for (uint32_t i = 0; i < podium->rank_count; i++) {
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

    assert(now_ps >= atomic_load(&podium->memory->now_ps));
    atomic_store(&podium->memory->now_ps, now_ps);
    for (uint32_t i = 0; i < podium->rank_count; i++) {
        const struct tutti_podium_seat *seat = &tutti_podium_seats(podium)[i];

        if (atomic_load(&seat->state) == WAITING && seat->until_ps > 0 && seat->until_ps <= now_ps)
            ring(podium, i);
    }
    while ((message = shaper->ops->arrived(shaper, now_ps)) != TUTTI_SHAPER_NONE) {
        uint32_t number = podium->all.slots[message].wire;

        atomic_fetch_add(&tutti_podium_arrivals(podium)[number], 1);
        ring(podium, podium->all.wires[number].to);
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* On the hall's clock: when what happens on the other machine's at `ps` is due. */
static tutti_ps due_ps(const struct tutti_podium *podium, tutti_ps ps)
{
    const struct tutti_podium_memory *memory = podium->memory;
    double later_ps = (double)ps * podium->slowdown;
    tutti_ps epoch_ps =
        (memory->epoch_s - podium->hall->epoch_s) * TUTTI_PS_PER_S + memory->epoch_ps;

    return later_ps < 0x1p62 ? tutti_hall_after(epoch_ps, (tutti_ps)later_ps) : INT64_MAX;
}

static bool is_over(const struct tutti_podium *podium)
{
    return atomic_load(&podium->over) || atomic_load(&podium->hall->stopped) != 0 ||
           atomic_load(&podium->memory->stopped) != 0;
}

static void hold_until(struct tutti_podium *podium, tutti_ps target_ps)
{
    tutti_ps now_ps = tutti_hall_now(podium->hall);

    while (now_ps < target_ps && !is_over(podium)) {
        tutti_ps left_ps = target_ps - now_ps - AWAKE_PS;
        struct timespec nap = {0};

        if (left_ps > LOOK_PS)
            left_ps = LOOK_PS;
        if (left_ps > 0) {
            nap.tv_nsec = (long)(left_ps / TUTTI_PS_PER_NS);
            (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
        } else {
            tutti_hall_breathe();
        }
        now_ps = tutti_hall_now(podium->hall);
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

/* The clock goes on, if nobody has begun to play meanwhile; gives the lock up, and returns whether
 * it has got it back. */
static bool keep(struct tutti_podium *podium)
{
    struct tutti_podium_memory *memory = podium->memory;
    tutti_ps begun_ps = tutti_hall_now(podium->hall);
    tutti_ps target_ps;
    tutti_ps at_ps;

    if (memory->generation != podium->generation) {
        podium->generation = memory->generation;
        podium->shaper->ops->reset(podium->shaper);
        podium->since_ps = due_ps(podium, 0);
    }
    take_sent(podium);
    if (!next_ps(podium, &at_ps)) {
        atomic_store(&memory->stuck, 1);
        for (uint32_t i = 0; i < podium->rank_count; i++)
            ring(podium, i);
        return true;
    }
    target_ps = due_ps(podium, at_ps);
    leave(podium);
    hold_until(podium, target_ps);
    if (!enter(podium))
        return false;
    if (is_over(podium) || memory->playing_count > 0 || memory->sent_count > 0)
        return true;
    count_lateness(podium, begun_ps, target_ps);
    advance(podium, at_ps);
    return true;
}

static void rouse(struct tutti_podium *podium)
{
    for (uint32_t i = 0; i < podium->hall->rank_count; i++) {
        struct tutti_podium_seat *seat = &tutti_podium_seats(podium)[podium->hall->first_rank + i];

        if (!seat->called)
            continue;
        seat->called = false;
        tutti_hall_ring(podium->hall, podium->hall->first_rank + i);
    }
}

static void *run(void *data)
{
    struct tutti_podium *podium = data;
    struct tutti_podium_memory *memory = podium->memory;

    if (!enter(podium))
        return NULL;
    while (!is_over(podium)) {
        struct timespec until;

        rouse(podium);
        if (podium->process == 0 && memory->playing_count == 0 && memory->waiting_count > 0 &&
            atomic_load(&memory->stuck) == 0) {
            if (!keep(podium))
                return NULL;
            continue;
        }
        clock_gettime(CLOCK_MONOTONIC, &until);
        until = after(until, LOOK_PS);
        if (pthread_cond_timedwait(&memory->bells[podium->process], &memory->lock, &until) ==
            EOWNERDEAD) {
            atomic_store(&memory->stopped, 1);
            pthread_mutex_consistent(&memory->lock);
        }
    }
    leave(podium);
    return NULL;
}

/* ---- what ranks call ------------------------------------------------------------------------- */

tutti_ps tutti_podium_now(const struct tutti_podium *podium)
{
    return atomic_load(&podium->memory->now_ps);
}

tutti_ps tutti_podium_epoch(const struct tutti_podium *podium)
{
    return due_ps(podium, 0);
}

tutti_ps tutti_podium_time(const struct tutti_podium *podium)
{
    return due_ps(podium, tutti_podium_now(podium));
}

int tutti_podium_wait(struct tutti_podium *podium, uint32_t rank, tutti_ps until_ps,
                      bool sends_matter, tutti_ps *since_ps)
{
    struct tutti_podium_memory *memory = podium->memory;
    struct tutti_hall *hall = podium->hall;
    struct tutti_podium_seat *seat = &tutti_podium_seats(podium)[rank];
    tutti_ps limit_ps = INT64_MAX;
    bool waited;

    if (*since_ps == 0 || until_ps > 0)
        *since_ps = tutti_hall_now(hall);
    if (until_ps == 0)
        limit_ps = tutti_hall_after(*since_ps, hall->deadline_ps);
    if (!enter(podium))
        return -TUTTI_EIO;
    if (seat->rung || (until_ps > 0 && until_ps <= atomic_load(&memory->now_ps))) {
        seat->rung = false;
        leave(podium);
        return 0;
    }
    seat->until_ps = until_ps;
    atomic_store(&seat->sends_matter, sends_matter);
    atomic_store(&seat->state, WAITING);
    memory->playing_count--;
    memory->waiting_count++;
    tutti_hall_lie_down(hall, rank);
    call_keeper(podium);
    leave(podium);
    tutti_hall_sleep(hall, rank, limit_ps);
    if (!enter(podium))
        return -TUTTI_EIO;
    waited = atomic_load(&seat->state) == WAITING;
    if (waited) { /* there may be bytes to move */
        atomic_store(&seat->state, PLAYING);
        memory->playing_count++;
        memory->waiting_count--;
    }
    seat->called = false;
    leave(podium);
    if (atomic_load(&hall->stopped) != 0 || atomic_load(&memory->stopped) != 0)
        return -TUTTI_EIO;
    if (atomic_load(&memory->stuck) != 0)
        return -TUTTI_ECHECK;
    return waited && tutti_hall_now(hall) >= limit_ps ? -TUTTI_ETIME : 0;
}

int tutti_podium_begin(struct tutti_podium *podium, uint32_t rank, uint64_t generation)
{
    struct tutti_podium_memory *memory = podium->memory;
    struct timespec now;
    tutti_ps begin_ps;
    tutti_ps since_ps = 0;
    int status = 0;

    if (!enter(podium))
        return -TUTTI_EIO;
    if (generation != memory->generation) {
        memory->generation = generation;
        for (uint32_t i = 0; i < podium->rank_count; i++) {
            tutti_podium_seats(podium)[i].rung = false;
            atomic_store(&tutti_podium_seats(podium)[i].state, PLAYING);
        }
        memory->playing_count = podium->rank_count;
        memory->waiting_count = 0;
        memory->sent_count = 0;
        atomic_store(&memory->now_ps, 0);
        clock_gettime(CLOCK_MONOTONIC, &now);
        memory->epoch_s = now.tv_sec;
        memory->epoch_ps = now.tv_nsec * TUTTI_PS_PER_NS;
    }
    begin_ps = tutti_hall_after(tutti_podium_now(podium), podium->shaper->launch_ps);
    leave(podium);
    while (status == 0 && tutti_podium_now(podium) < begin_ps)
        status = tutti_podium_wait(podium, rank, begin_ps, false, &since_ps);
    return status;
}

void tutti_podium_end(struct tutti_podium *podium, uint32_t rank)
{
    struct tutti_podium_memory *memory = podium->memory;

    if (!enter(podium))
        return;
    atomic_store(&tutti_podium_seats(podium)[rank].state, OUT);
    memory->playing_count--;
    memory->clock_ps = tutti_podium_now(podium);
    call_keeper(podium);
    leave(podium);
}

void tutti_podium_send(struct tutti_podium *podium, const struct tutti_wire *wire, uint64_t bytes)
{
    if (!enter(podium))
        return;
    assert(podium->memory->sent_count < podium->all.slot_count);
    tutti_podium_sent(podium)[podium->memory->sent_count++] =
        (struct tutti_podium_sent){.bytes = bytes, .wire = wire->number};
    leave(podium);
}

bool tutti_podium_arrived(const struct tutti_podium *podium, const struct tutti_wire *wire)
{
    return atomic_load(&tutti_podium_arrivals(podium)[wire->number]) > wire->taken_count;
}

void tutti_podium_release(struct tutti_podium *podium, const struct tutti_wire *wire)
{
    const struct tutti_podium_seat *seat = &tutti_podium_seats(podium)[wire->from];

    atomic_store(&tutti_podium_releases(podium)[wire->number], wire->taken_count);
    if (atomic_load(&seat->state) == WAITING && !atomic_load(&seat->sends_matter))
        return;
    if (!enter(podium))
        return;
    ring(podium, wire->from);
    leave(podium);
}

uint64_t tutti_podium_released(const struct tutti_podium *podium, const struct tutti_wire *wire)
{
    return atomic_load(&tutti_podium_releases(podium)[wire->number]);
}

/* ---- coming and going ------------------------------------------------------------------------ */

int tutti_podium_prepare(struct tutti_podium *podium, struct tutti_wires *own,
                         const struct tutti_schedule *schedule, struct tutti_err *err)
{
    int status = tutti_thread_wires_open(&podium->all, schedule, 0, schedule->rank_count, err);

    if (status < 0)
        return status;
    podium->rank_count = schedule->rank_count;
    for (uint32_t i = 0; i < own->wire_count; i++) {
        struct tutti_wire *wire = &own->wires[i];
        const struct tutti_wire *found =
            tutti_thread_wires_find(&podium->all, wire->from, wire->to, wire->lane);

        assert(found != NULL);
        wire->number = (uint32_t)(found - podium->all.wires);
    }
    return 0;
}

int tutti_podium_open(struct tutti_podium *podium, struct tutti_hall *hall,
                      struct tutti_shaper *shaper, double slowdown, struct tutti_crew *crew,
                      tutti_ps deadline_ps, struct tutti_err *err)
{
    int status = 0;

    podium->hall = hall;
    podium->shaper = shaper;
    podium->slowdown = slowdown;
    podium->process = crew->index;
    podium->memory_bytes = sizeof(struct tutti_podium_memory) +
                           podium->rank_count * sizeof(struct tutti_podium_seat) +
                           2 * (size_t)podium->all.wire_count * sizeof(atomic_uint_fast64_t) +
                           ((size_t)podium->all.slot_count + 1) * sizeof(struct tutti_podium_sent);
    status = tutti_podium_share(podium, crew, deadline_ps, err);
    if (status == 0) {
        int failed = pthread_create(&podium->thread, NULL, run, podium);

        podium->has_thread = failed == 0;
        if (failed != 0)
            status = tutti_fail(err, TUTTI_EIO, "cannot start a thread: %s", strerror(failed));
    }
    return tutti_crew_agree(crew, status, deadline_ps, err);
}

struct tutti_tempo tutti_podium_tempo(struct tutti_podium *podium)
{
    struct tutti_tempo tempo = {0};

    if (podium->memory == NULL || !enter(podium))
        return tempo;
    tempo = podium->tempo;
    tempo.clock_ps = podium->memory->clock_ps;
    leave(podium);
    return tempo;
}

void tutti_podium_close(struct tutti_podium *podium)
{
    bool held;

    if (podium->has_thread) {
        atomic_store(&podium->over, true);
        held = enter(podium);
        pthread_cond_broadcast(&podium->memory->bells[podium->process]);
        if (held)
            leave(podium);
        pthread_join(podium->thread, NULL);
        podium->has_thread = false;
    }
    if (podium->memory != NULL)
        munmap(podium->memory, podium->memory_bytes);
    podium->memory = NULL;
    free(podium->sent_counts);
    podium->sent_counts = NULL;
    tutti_thread_wires_close(&podium->all);
}
