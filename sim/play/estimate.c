/* Estimates time and memory from the programs of a few ranks. Time is steps; what takes memory are
 * connections (everybody to everybody is n squared of them), lanes, events that are recorded and
 * data that is carried. */
#include "sim/play/estimate.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/backend.h"
#include "runtime/record.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/memory/memory.h"
#include "sim/net/net.h"
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

/* Seconds a step, from tests/bench/sim.md: a ring of 4096 takes 8.3 ns a message by data flow where
 * many rounds are passed on at a time and 38 ns where each is looked at (jitter); trees and
 * exchanges by the clock 160 to 560 ns; with 2.5 steps a message. Many flows that share a link
 * under `fair` may take many times that. */
static const double relay_step_s = 4e-9;
static const double flow_step_s = 15e-9;
static const double clock_step_s = 150e-9;

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
static int sample(struct tutti_memory *memory, const struct tutti_schedule *schedule,
                  struct need *need, struct tutti_err *err)
{
    uint32_t n = schedule->rank_count;
    uint32_t ranks[SAMPLES] = {0, n > 1 ? 1 : 0, n / 2, n - 1};
    uint32_t *seen = tutti_memory_take(memory, n, sizeof(*seen));
    uint32_t serial = 0;

    if (seen == NULL)
        return tutti_nomem(err);
    for (int i = 0; i < SAMPLES; i++)
        walk_rank(schedule, ranks[i], seen, &serial, need);
    tutti_memory_give(memory, seen);
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

/* What the machine has; HUGE_VAL where libc does not know it, as wasi's does not. */
static double memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);

    return pages > 0 && page_bytes > 0 ? (double)pages * (double)page_bytes : HUGE_VAL;
}

/* Rounds of each lane, and the steps of their middle one. */
static uint64_t rank_steps(const struct tutti_schedule *schedule, uint32_t rank)
{
    uint64_t steps = 0;

    for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
        struct tutti_round round = {.step_count = 0};
        uint64_t count = schedule->ops->round_count(schedule, rank, lane);

        if (count > 0)
            schedule->ops->emit(schedule, rank, lane, count / 2, &round);
        steps += count * round.step_count;
    }
    return steps;
}

/* Rank 0 stands for itself, it is the root of many an algorithm; the busiest of a few others for
 * all others. */
double tutti_play_steps(const struct tutti_schedule *schedule)
{
    uint32_t n = schedule->rank_count;
    const uint32_t samples[] = {n > 1 ? 1 : 0, n / 2, n - 1};
    uint64_t most = 0;

    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        uint64_t of_rank = rank_steps(schedule, samples[i]);

        most = of_rank > most ? of_rank : most;
    }
    return (double)rank_steps(schedule, 0) + (double)most * (n - 1);
}

/* Messages that rank 1 sends before it receives any; of every `stride`th adds to *hops how many
 * links it goes over. */
static double first_sends(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                          uint32_t stride, uint32_t *links, double *hops)
{
    uint64_t count = 0;

    for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
        struct tutti_cursor cursor;
        const struct tutti_step *step;

        tutti_cursor_open(&cursor, schedule, 1, lane);
        while ((step = tutti_cursor_next(&cursor)) != NULL && step->kind == TUTTI_SEND) {
            if (count++ % stride == 0)
                *hops += tutti_topo_route(opts->topo, 1, step->peer, links, opts->topo->node_count);
        }
    }
    return (double)count;
}

/* A network model that shares links looks, whenever something ends, at all links of all messages
 * under way; messages over as many links as a ring has end at as many times as those are long.
 * Seconds, from 'predict ring:n=N -a one-shot' (N 100 to 300: 2.5 to 8e-8 s times flows, links and
 * times), where each of N ranks sends to all others before it receives. Rank 1 stands for all. */
static int crowd_s(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                   double *ret_s, struct tutti_err *err)
{
    enum { SAMPLED = 64 };
    uint32_t *links = NULL;
    double each = 0;
    double hops = 0;

    *ret_s = 0;
    if (opts->model != TUTTI_MODEL_FAIR || schedule->rank_count < 2)
        return 0;
    links = tutti_memory_take(opts->memory, opts->topo->node_count, sizeof(*links));
    if (links == NULL)
        return tutti_nomem(err);
    each = first_sends(opts, schedule, UINT32_MAX, links, &hops);
    if (each > 0) {
        uint32_t stride = (uint32_t)(each / SAMPLED) + 1;

        hops = 0;
        (void)first_sends(opts, schedule, stride, links, &hops);
        hops /= ceil(each / stride);
    }
    tutti_memory_give(opts->memory, links);
    *ret_s = 8e-8 * each * schedule->rank_count * hops * hops;
    return 0;
}

static double step_s(const struct tutti_sim_opts *opts, const struct tutti_play *play, bool flows)
{
    if (!flows)
        return clock_step_s;
    if (play->schedule->ops->relays == NULL || play->record != NULL || opts->jitter > 0 ||
        opts->reduce_bytes_per_s > 0)
        return flow_step_s;
    return relay_step_s;
}

static int estimate_memory(const struct tutti_sim_opts *opts, const struct tutti_play *play,
                           struct need *ret, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = play->schedule;
    double lanes = (double)schedule->rank_count * schedule->lane_count;
    double each_connection = sizeof(struct tutti_wire) + CONNECTION_BYTES;
    struct need need = {.connections = lanes * schedule->rank_count}; /* there cannot be more */
    int status = 0;

    if (need.connections * each_connection > SMALL_BYTES || play->record != NULL) {
        need.connections = 0;
        status = sample(opts->memory, schedule, &need, err);
    }
    if (status < 0)
        return status;
    need.bytes = lanes * (sizeof(struct tutti_cursor) + LANE_BYTES) +
                 need.connections * each_connection + carried_bytes(opts, play);
    if (play->record != NULL)
        need.bytes += need.events * sizeof(struct tutti_event);
    *ret = need;
    return 0;
}

/* "90 s", "35 min", "7 h", "12 days" */
static const char *print_duration(double seconds, char *buf, size_t buf_bytes)
{
    if (seconds < 120)
        (void)snprintf(buf, buf_bytes, "%.0f s", seconds);
    else if (seconds < 120 * 60.0)
        (void)snprintf(buf, buf_bytes, "%.0f min", seconds / 60);
    else if (seconds < 48 * 3600.0)
        (void)snprintf(buf, buf_bytes, "%.0f h", seconds / 3600);
    else
        (void)snprintf(buf, buf_bytes, "%.3g days", seconds / 86400);
    return buf;
}

static int refuse_time(const struct tutti_sim_opts *opts, const struct tutti_play *play,
                       double steps, double seconds, struct tutti_err *err)
{
    struct need need;
    char takes[32];
    char limit[32];
    int status = estimate_memory(opts, play, &need, err);

    if (status < 0)
        return status;
    return tutti_fail(err, TUTTI_ETIME,
                      "'%s' on '%s' takes about %.2g steps, %s and %.1f GiB to simulate (at most "
                      "%s)",
                      play->schedule->name, opts->topo->name, steps,
                      print_duration(seconds, takes, sizeof(takes)), need.bytes * 0x1p-30,
                      print_duration(opts->seconds_max, limit, sizeof(limit)));
}

int tutti_play_fits(const struct tutti_sim_opts *opts, const struct tutti_play *play, bool flows,
                    struct tutti_err *err)
{
    const struct tutti_schedule *schedule = play->schedule;
    struct need need;
    int status;

    if (opts->force)
        return 0;
    if (opts->seconds_max > 0) {
        double steps = tutti_play_steps(schedule);
        double seconds = steps * step_s(opts, play, flows);
        double crowded;

        status = crowd_s(opts, schedule, &crowded, err);
        if (status < 0)
            return status;
        seconds += crowded;
        if (tutti_jitter_q32(opts->jitter) != 0)
            seconds *= play->iteration_count;
        if (seconds > opts->seconds_max)
            return refuse_time(opts, play, steps, seconds, err);
    }
    if (opts->memory != NULL) /* its end is seen when it is reached */
        return 0;
    status = estimate_memory(opts, play, &need, err);
    if (status < 0 || need.bytes < memory_bytes())
        return status;
    return tutti_fail(err, TUTTI_ELACK,
                      "'%s' on '%s' is too large for this machine: about %.0f GiB of memory for "
                      "%.0f lanes, %.0f connections, %.0f recorded events and %.0f GiB of data "
                      "(%.0f GiB)",
                      schedule->name, opts->topo->name, need.bytes * 0x1p-30,
                      (double)schedule->rank_count * schedule->lane_count, need.connections,
                      play->record != NULL ? need.events : 0, carried_bytes(opts, play) * 0x1p-30,
                      memory_bytes() * 0x1p-30);
}

/* Looks at flows of links a second, what else is done with them included: NCCL's all-to-all of 512
 * ranks, folded (11 million) and every rank (14 million). */
static const uint64_t looks_per_s = 12000000;

bool tutti_play_is_within(const struct tutti_sim_opts *opts, uint64_t look_count)
{
    return !opts->strict || opts->force || opts->seconds_max == 0 ||
           look_count / looks_per_s < opts->seconds_max;
}

int tutti_play_goes_on(const struct tutti_sim_opts *opts, const struct tutti_net *net,
                       struct tutti_err *err)
{
    char limit[32];

    if (tutti_play_is_within(opts, net->look_count))
        return 0;
    return tutti_fail(err, TUTTI_ETIME,
                      "so many messages share links of '%s' that it takes more than %s to simulate",
                      opts->topo->name, print_duration(opts->seconds_max, limit, sizeof(limit)));
}
