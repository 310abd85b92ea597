/* How a podium begins and ends; see podium.h. */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/crew.h"
#include "runtime/exec/threads/podium_memory.h"
#include "runtime/schedule.h"
#include "runtime/status.h"

/* What is under way on a connection at most, if it goes without the receiver's doing: sockets take
 * more. */
enum { TAKEN_BYTES = 64 << 10 };

/* Wakes the player, which sleeps on the carrier, when others post on the bell. */
static void *listen(void *data)
{
    struct tutti_podium *podium = data;
    struct tutti_podium_seat *seat = tutti_podium_own_seat(podium);
    struct tutti_hall *hall = podium->hall;

    while (!atomic_load(&podium->over)) {
        if (sem_wait(&seat->carrier_bell) == 0 &&
            atomic_load(&seat->asleep) == TUTTI_PODIUM_ON_CARRIER)
            hall->carrier->ops->wake(hall->carrier, hall->first_rank);
    }
    return NULL;
}

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

static int start_listener(struct tutti_podium *podium, struct tutti_err *err)
{
    int failed;

    if (podium->hall->rank_count == 0)
        return 0;
    failed = pthread_create(&podium->thread, NULL, listen, podium);
    podium->has_thread = failed == 0;
    return failed == 0 ? 0
                       : tutti_fail(err, TUTTI_EIO, "cannot start a thread: %s", strerror(failed));
}

static bool is_small(const struct tutti_wires *wires)
{
    for (uint32_t i = 0; i < wires->wire_count; i++) {
        if (wires->wires[i].bytes_max > TAKEN_BYTES / wires->wires[i].slot_count)
            return false;
    }
    return true;
}

int tutti_podium_open(struct tutti_podium *podium, struct tutti_hall *hall,
                      struct tutti_shaper *shaper, double slowdown, struct tutti_crew *crew,
                      tutti_ps deadline_ps, struct tutti_err *err)
{
    int status;

    podium->hall = hall;
    podium->shaper = shaper;
    podium->slowdown = slowdown;
    podium->process = crew->index;
    podium->process_count = crew->count;
    podium->spins = !hall->crowded;
    podium->small = is_small(&podium->all);
    podium->memory_bytes = sizeof(struct tutti_podium_memory) +
                           podium->process_count * sizeof(struct tutti_podium_seat) +
                           2 * (size_t)podium->all.wire_count * sizeof(atomic_uint_fast64_t) +
                           ((size_t)podium->all.slot_count + 1) * sizeof(struct tutti_podium_sent);
    status = tutti_podium_share(podium, crew, deadline_ps, err);
    if (status == 0)
        status = start_listener(podium, err);
    return tutti_crew_agree(crew, status, deadline_ps, err);
}

void tutti_podium_close(struct tutti_podium *podium)
{
    if (podium->has_thread) {
        atomic_store(&podium->over, true);
        sem_post(&tutti_podium_own_seat(podium)->carrier_bell);
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
