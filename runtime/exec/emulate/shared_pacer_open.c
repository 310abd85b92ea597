/* How a shared pacer begins and ends; see shared_pacer.h. */
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/exec/emulate/shared_pacer_memory.h"
#include "runtime/exec/run/player.h"
#include "runtime/group.h"
#include "runtime/schedule.h"
#include "runtime/status.h"

/* What is under way on a connection at most, if it goes without the receiver's doing: sockets take
 * more. */
enum { TAKEN_BYTES = 64 << 10 };

/* Wakes the worker thread, which sleeps on the transport, when others post the wake-up. */
static void *listen(void *data)
{
    struct tutti_shared_pacer *shared_pacer = data;
    struct tutti_shared_pacer_member *member = tutti_shared_pacer_own_member(shared_pacer);
    struct tutti_wait_set *wait_set = shared_pacer->wait_set;

    while (!atomic_load(&shared_pacer->over)) {
        if (sem_wait(&member->transport_wakeup) == 0 &&
            atomic_load(&member->asleep) == TUTTI_SHARED_PACER_ON_TRANSPORT)
            wait_set->transport->ops->wake(wait_set->transport, wait_set->first_rank);
    }
    return NULL;
}

/* The connections of all processes, and their numbers for our own. */
static int number_connections(struct tutti_shared_pacer *shared_pacer,
                              struct tutti_connections *own, const struct tutti_schedule *schedule,
                              struct tutti_err *err)
{
    int status =
        tutti_thread_connections_open(&shared_pacer->all, schedule, 0, schedule->rank_count, err);

    for (uint32_t i = 0; i < own->connection_count && status == 0; i++) {
        struct tutti_connection *connection = &own->connections[i];
        const struct tutti_connection *found = tutti_thread_connections_find(
            &shared_pacer->all, connection->from, connection->to, connection->lane);

        assert(found != NULL);
        connection->number = (uint32_t)(found - shared_pacer->all.connections);
    }
    return status;
}

/* Processes that emulate one machine must share memory for that. */
static int check_group(const struct tutti_pacer_opts *opts, struct tutti_err *err)
{
    for (uint32_t i = 1; i < opts->group->count; i++) {
        if (opts->homes[i].host != opts->homes[0].host)
            return tutti_fail(err, TUTTI_ELACK,
                              "process %u is on another host than process 0: only processes of "
                              "one host can emulate a machine",
                              i);
    }
    if (opts->group->count > TUTTI_SHARED_PACER_PROCESSES_MAX)
        return tutti_fail(err, TUTTI_ELACK, "%u processes emulate a machine (at most %d)",
                          opts->group->count, TUTTI_SHARED_PACER_PROCESSES_MAX);
    return 0;
}

static int start_listener(struct tutti_shared_pacer *shared_pacer, struct tutti_err *err)
{
    int failed;

    if (shared_pacer->wait_set->rank_count == 0)
        return 0;
    failed = pthread_create(&shared_pacer->thread, NULL, listen, shared_pacer);
    shared_pacer->has_thread = failed == 0;
    return failed == 0 ? 0
                       : tutti_fail(err, TUTTI_EIO, "cannot start a thread: %s", strerror(failed));
}

static bool is_small(const struct tutti_connections *connections)
{
    for (uint32_t i = 0; i < connections->connection_count; i++) {
        if (connections->connections[i].bytes_max >
            TAKEN_BYTES / connections->connections[i].slot_count)
            return false;
    }
    return true;
}

int tutti_shared_pacer_open(const struct tutti_pacer_opts *opts, struct tutti_pacer **ret,
                            struct tutti_err *err)
{
    struct tutti_shared_pacer *shared_pacer;
    int status = check_group(opts, err);

    if (status < 0)
        return status;
    shared_pacer = malloc(sizeof(*shared_pacer));
    if (shared_pacer == NULL)
        return tutti_nomem(err);
    *shared_pacer = (struct tutti_shared_pacer){
        .base = {.ops = &tutti_shared_pacer_ops, .shaper = opts->shaper},
        .group = opts->group,
        .wait_set = opts->wait_set,
        .slowdown = opts->slowdown,
        .process = opts->group->index,
        .process_count = opts->group->count,
        .spins = !opts->wait_set->crowded,
        .rank_count = opts->schedule->rank_count,
    };
    status = number_connections(shared_pacer, opts->connections, opts->schedule, err);
    if (status < 0) {
        free(shared_pacer);
        return status;
    }
    shared_pacer->small = is_small(&shared_pacer->all);
    *ret = &shared_pacer->base;
    return 0;
}

int tutti_shared_pacer_connect(struct tutti_pacer *base, tutti_ps deadline_ps,
                               struct tutti_err *err)
{
    struct tutti_shared_pacer *shared_pacer = tutti_shared_pacer_of(base);
    int status;

    shared_pacer->memory_bytes =
        sizeof(struct tutti_shared_pacer_memory) +
        shared_pacer->process_count * sizeof(struct tutti_shared_pacer_member) +
        2 * (size_t)shared_pacer->all.connection_count * sizeof(atomic_uint_fast64_t) +
        ((size_t)shared_pacer->all.slot_count + 1) * sizeof(struct tutti_shared_pacer_sent);
    status = tutti_shared_pacer_share(shared_pacer, shared_pacer->group, deadline_ps, err);
    if (status == 0)
        status = start_listener(shared_pacer, err);
    return tutti_group_agree(shared_pacer->group, status, deadline_ps, err);
}

/* While there is somebody to be woken. */
void tutti_shared_pacer_disconnect(struct tutti_pacer *base)
{
    struct tutti_shared_pacer *shared_pacer = tutti_shared_pacer_of(base);

    if (shared_pacer->has_thread) {
        atomic_store(&shared_pacer->over, true);
        sem_post(&tutti_shared_pacer_own_member(shared_pacer)->transport_wakeup);
        pthread_join(shared_pacer->thread, NULL);
        shared_pacer->has_thread = false;
    }
    if (shared_pacer->memory != NULL)
        munmap(shared_pacer->memory, shared_pacer->memory_bytes);
    shared_pacer->memory = NULL;
}

void tutti_shared_pacer_close(struct tutti_pacer *base)
{
    struct tutti_shared_pacer *shared_pacer = tutti_shared_pacer_of(base);

    tutti_shared_pacer_disconnect(base);
    free(shared_pacer->sent_counts);
    tutti_thread_connections_close(&shared_pacer->all);
    free(shared_pacer);
}
