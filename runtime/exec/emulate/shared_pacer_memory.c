/* Memory that the processes of one host share; see shared_pacer_memory.h. */
#include "runtime/exec/emulate/shared_pacer_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/group.h"
#include "runtime/random.h"
#include "runtime/status.h"

enum { NAME_BYTES = 64 };

/* Where the list of what has been sent begins for each process. */
static void divide_sent(struct tutti_shared_pacer *shared_pacer)
{
    struct tutti_shared_pacer_member *members = tutti_shared_pacer_members(shared_pacer);
    uint32_t first = 0;

    for (uint32_t i = 0; i < shared_pacer->all.connection_count; i++) {
        const struct tutti_connection *connection = &shared_pacer->all.connections[i];

        members[tutti_group_of_rank(shared_pacer->rank_count, shared_pacer->process_count,
                                    connection->from)]
            .sent_first += connection->slot_count;
    }
    for (uint32_t i = 0; i < shared_pacer->process_count; i++) {
        uint32_t count = members[i].sent_first;

        members[i].sent_first = first;
        first += count;
    }
}

static int init_memory(struct tutti_shared_pacer *shared_pacer)
{
    struct tutti_shared_pacer_member *members = tutti_shared_pacer_members(shared_pacer);
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    shared_pacer->memory->base_s = now.tv_sec;
    for (uint32_t i = 0; i < shared_pacer->process_count; i++) {
        if (sem_init(&members[i].wakeup, 1, 0) != 0 ||
            sem_init(&members[i].transport_wakeup, 1, 0) != 0)
            return errno;
        members[i].rank_count =
            tutti_group_first_rank(shared_pacer->rank_count, shared_pacer->process_count, i + 1) -
            tutti_group_first_rank(shared_pacer->rank_count, shared_pacer->process_count, i);
    }
    divide_sent(shared_pacer);
    return 0;
}

/* Maps the memory of that name; the first process makes it. */
static int map_memory(struct tutti_shared_pacer *shared_pacer, const struct tutti_group *group,
                      const char *name, struct tutti_err *err)
{
    bool makes = group->index == 0;
    int fd = shm_open(name, makes ? O_RDWR | O_CREAT | O_EXCL : O_RDWR, 0600);
    int status = fd < 0 ? errno : 0;

    if (status == 0 && makes && ftruncate(fd, (off_t)shared_pacer->memory_bytes) != 0)
        status = errno;
    if (status == 0) {
        shared_pacer->memory =
            mmap(NULL, shared_pacer->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (shared_pacer->memory == MAP_FAILED) {
            status = errno;
            shared_pacer->memory = NULL;
        }
    }
    if (fd >= 0)
        close(fd);
    if (status == 0 && makes)
        status = init_memory(shared_pacer);
    if (status == 0)
        return 0;
    return tutti_fail(err, TUTTI_EIO, "process %" PRIu32 " cannot share memory '%s': %s",
                      group->index, name, strerror(status));
}

/* The shaper knows all connections, in the order of `all`. */
static int tell_shaper(struct tutti_shared_pacer *shared_pacer, struct tutti_err *err)
{
    struct tutti_shaper *shaper = shared_pacer->base.shaper;
    int status =
        shaper->ops->begin(shaper, shared_pacer->rank_count, shared_pacer->all.slot_count, err);

    for (uint32_t i = 0; status == 0 && i < shared_pacer->all.connection_count; i++) {
        const struct tutti_connection *connection = &shared_pacer->all.connections[i];

        status =
            shaper->ops->connect(shaper, connection->from, connection->to, connection->lane, err);
    }
    shared_pacer->sent_counts =
        calloc((size_t)shared_pacer->all.connection_count + 1, sizeof(uint64_t));
    return status == 0 && shared_pacer->sent_counts == NULL ? tutti_nomem(err) : status;
}

int tutti_shared_pacer_share(struct tutti_shared_pacer *shared_pacer, struct tutti_group *group,
                             tutti_ps deadline_ps, struct tutti_err *err)
{
    char names[TUTTI_SHARED_PACER_PROCESSES_MAX][NAME_BYTES];
    struct timespec now;
    char mine[NAME_BYTES] = "";
    int status;

    clock_gettime(CLOCK_REALTIME, &now);
    if (group->index == 0)
        (void)snprintf(mine, sizeof(mine), "/tutti-%ld-%016" PRIx64, (long)getpid(),
                       tutti_random_hash((uint64_t)now.tv_sec, (uint64_t)now.tv_nsec, 0, 0));
    status = group->index == 0 ? map_memory(shared_pacer, group, mine, err) : 0;
    if (status == 0 && group->index == 0)
        status = tell_shaper(shared_pacer, err);
    status = tutti_group_agree(group, status, deadline_ps, err);
    if (status == 0)
        status = tutti_group_exchange(group, mine, sizeof(mine), names, deadline_ps, err);
    if (status == 0) {
        status = group->index == 0 ? 0 : map_memory(shared_pacer, group, names[0], err);
        status = tutti_group_agree(group, status, deadline_ps, err);
    }
    if (group->index == 0)
        shm_unlink(mine); /* whoever has it keeps it */
    return status;
}
