/* Memory that the processes of one host share; see podium_memory.h. */
#include "runtime/exec/threads/podium_memory.h"

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

#include "runtime/crew.h"
#include "runtime/random.h"
#include "runtime/status.h"

enum { NAME_BYTES = 64 };

/* Where the list of what has been sent begins for each process. */
static void divide_sent(struct tutti_podium *podium)
{
    struct tutti_podium_seat *seats = tutti_podium_seats(podium);
    uint32_t first = 0;

    for (uint32_t i = 0; i < podium->all.wire_count; i++) {
        const struct tutti_wire *wire = &podium->all.wires[i];

        seats[tutti_crew_of_rank(podium->rank_count, podium->process_count, wire->from)]
            .sent_first += wire->slot_count;
    }
    for (uint32_t i = 0; i < podium->process_count; i++) {
        uint32_t count = seats[i].sent_first;

        seats[i].sent_first = first;
        first += count;
    }
}

static int init_memory(struct tutti_podium *podium)
{
    struct tutti_podium_seat *seats = tutti_podium_seats(podium);
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    podium->memory->base_s = now.tv_sec;
    for (uint32_t i = 0; i < podium->process_count; i++) {
        if (sem_init(&seats[i].bell, 1, 0) != 0 || sem_init(&seats[i].carrier_bell, 1, 0) != 0)
            return errno;
        seats[i].rank_count =
            tutti_crew_first_rank(podium->rank_count, podium->process_count, i + 1) -
            tutti_crew_first_rank(podium->rank_count, podium->process_count, i);
    }
    divide_sent(podium);
    return 0;
}

/* Maps the memory of that name; the first process makes it. */
static int map_memory(struct tutti_podium *podium, const struct tutti_crew *crew, const char *name,
                      struct tutti_err *err)
{
    bool makes = crew->index == 0;
    int fd = shm_open(name, makes ? O_RDWR | O_CREAT | O_EXCL : O_RDWR, 0600);
    int status = fd < 0 ? errno : 0;

    if (status == 0 && makes && ftruncate(fd, (off_t)podium->memory_bytes) != 0)
        status = errno;
    if (status == 0) {
        podium->memory =
            mmap(NULL, podium->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (podium->memory == MAP_FAILED) {
            status = errno;
            podium->memory = NULL;
        }
    }
    if (fd >= 0)
        close(fd);
    if (status == 0 && makes)
        status = init_memory(podium);
    if (status == 0)
        return 0;
    return tutti_fail(err, TUTTI_EIO, "process %" PRIu32 " cannot share memory '%s': %s",
                      crew->index, name, strerror(status));
}

/* The shaper knows all connections, in the order of `all`. */
static int tell_shaper(struct tutti_podium *podium, struct tutti_err *err)
{
    struct tutti_shaper *shaper = podium->shaper;
    int status = shaper->ops->begin(shaper, podium->rank_count, podium->all.slot_count, err);

    for (uint32_t i = 0; status == 0 && i < podium->all.wire_count; i++) {
        const struct tutti_wire *wire = &podium->all.wires[i];

        status = shaper->ops->connect(shaper, wire->from, wire->to, wire->lane, err);
    }
    podium->sent_counts = calloc((size_t)podium->all.wire_count + 1, sizeof(uint64_t));
    return status == 0 && podium->sent_counts == NULL ? tutti_nomem(err) : status;
}

int tutti_podium_share(struct tutti_podium *podium, struct tutti_crew *crew, tutti_ps deadline_ps,
                       struct tutti_err *err)
{
    char names[TUTTI_PODIUM_PROCESSES_MAX][NAME_BYTES];
    struct timespec now;
    char mine[NAME_BYTES] = "";
    int status;

    clock_gettime(CLOCK_REALTIME, &now);
    if (crew->index == 0)
        (void)snprintf(mine, sizeof(mine), "/tutti-%ld-%016" PRIx64, (long)getpid(),
                       tutti_random_hash((uint64_t)now.tv_sec, (uint64_t)now.tv_nsec, 0, 0));
    status = crew->index == 0 ? map_memory(podium, crew, mine, err) : 0;
    if (status == 0 && crew->index == 0)
        status = tell_shaper(podium, err);
    status = tutti_crew_agree(crew, status, deadline_ps, err);
    if (status == 0)
        status = tutti_crew_exchange(crew, mine, sizeof(mine), names, deadline_ps, err);
    if (status == 0) {
        status = crew->index == 0 ? 0 : map_memory(podium, crew, names[0], err);
        status = tutti_crew_agree(crew, status, deadline_ps, err);
    }
    if (crew->index == 0)
        shm_unlink(mine); /* whoever has it keeps it */
    return status;
}
