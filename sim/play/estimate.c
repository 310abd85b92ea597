/* Estimates memory from the programs of a few ranks: what takes it are connections (everybody to
 * everybody is n squared of them), lanes, events that are recorded and data that is carried. */
#include "sim/play/estimate.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/backend.h"
#include "runtime/record.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/play/stage.h"
#include "sim/play/wires.h"
#include "sim/sim.h"
#include "topo/topo.h"

enum {
    SAMPLES = 4,
    /* Of a connection beside struct tutti_wire: its places in the hash table, and what a network
     * model keeps of it and of a message on it; measured with sim_bench, all-to-all and trees. */
    CONNECTION_BYTES = 200,
    /* Of a lane beside its cursor: what engine and stage keep, from the sizes of their structs. */
    LANE_BYTES = 200,
    SMALL_BYTES = 256 << 20, /* below, nothing is walked */
};

struct need {
    double connections;
    double events;
    double bytes;
};

/* Connections and steps of one rank's programs, added to *need. */
static void walk_rank(const struct tutti_schedule *schedule, uint32_t rank, uint32_t *seen,
                      uint32_t *serial, struct need *need)
{
    for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
        struct tutti_cursor cursor;
        const struct tutti_step *step;

        ++*serial;
        tutti_cursor_open(&cursor, schedule, rank, lane);
        while ((step = tutti_cursor_next(&cursor)) != NULL) {
            need->events++;
            if (step->kind != TUTTI_SEND || step->peer >= schedule->rank_count ||
                seen[step->peer] == *serial)
                continue;
            seen[step->peer] = *serial;
            need->connections++;
        }
    }
}

/* The mean over the first rank, the second, the middle one and the last, times all ranks. */
static int sample(const struct tutti_schedule *schedule, struct need *need, struct tutti_err *err)
{
    uint32_t n = schedule->rank_count;
    uint32_t ranks[SAMPLES] = {0, n > 1 ? 1 : 0, n / 2, n - 1};
    uint32_t *seen = calloc(n, sizeof(*seen));
    uint32_t serial = 0;

    if (seen == NULL)
        return tutti_nomem(err);
    for (int i = 0; i < SAMPLES; i++)
        walk_rank(schedule, ranks[i], seen, &serial, need);
    free(seen);
    need->connections *= (double)n / SAMPLES;
    need->events *= (double)n / SAMPLES;
    return 0;
}

static double carried_bytes(const struct tutti_sim_opts *opts, const struct tutti_play *play)
{
    const struct tutti_schedule *schedule = play->schedule;
    bool given = play->in != NULL && play->out != NULL;
    double each = (double)schedule->scratch_bytes;

    if (!opts->carry && !given)
        return 0;
    if (!given)
        each += (double)schedule->out_bytes;
    return each * schedule->rank_count + (given ? 0 : (double)schedule->in_bytes);
}

static double memory_bytes(void)
{
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

int tutti_play_fits(const struct tutti_sim_opts *opts, const struct tutti_play *play,
                    struct tutti_err *err)
{
    const struct tutti_schedule *schedule = play->schedule;
    double lanes = (double)schedule->rank_count * schedule->lane_count;
    double each_connection = sizeof(struct tutti_wire) + CONNECTION_BYTES;
    double carried = carried_bytes(opts, play);
    struct need need = {.connections = lanes * schedule->rank_count}; /* there cannot be more */
    int status = 0;

    if (need.connections * each_connection > SMALL_BYTES || play->record != NULL) {
        need.connections = 0;
        status = sample(schedule, &need, err);
    }
    if (status < 0)
        return status;
    need.bytes = lanes * (sizeof(struct tutti_cursor) + LANE_BYTES) +
                 need.connections * each_connection + carried;
    if (play->record != NULL)
        need.bytes += need.events * sizeof(struct tutti_event);
    if (need.bytes < memory_bytes())
        return 0;
    return tutti_fail(err, TUTTI_ELACK,
                      "'%s' on '%s' is too large for this machine: about %.0f GiB of memory for "
                      "%.0f lanes, %.0f connections, %.0f recorded events and %.0f GiB of data "
                      "(%.0f GiB)",
                      schedule->name, opts->topo->name, need.bytes * 0x1p-30, lanes,
                      need.connections, play->record != NULL ? need.events : 0, carried * 0x1p-30,
                      memory_bytes() * 0x1p-30);
}
