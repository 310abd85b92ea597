/* A training step, or any schedule with COMPUTE and CALL, simulated without its messages: a CALL
 * takes what its collective takes when all groups of its axis play it at once, which is predicted
 * once and remembered. Ranks that do the same are played once. */
#ifndef TUTTI_SIM_STEP_H
#define TUTTI_SIM_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/units.h"
#include "sim/sim.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_protocol;
struct tutti_schedule;
struct tutti_topo;

enum { TUTTI_PACE = 1000000 };

struct tutti_step_opts {
    size_t size;                           /* sizeof(struct tutti_step_opts): runtime/api.h */
    const struct tutti_topo *topo;         /* with as many ranks as the schedule */
    const struct tutti_schedule *schedule; /* not laid out; custom or not */
    enum tutti_model model;                /* of messages within a CALL */
    const struct tutti_protocol *protocol; /* NULL: none; each CALL then pays no launch */
    uint64_t reduce_bytes_per_s;           /* as in struct tutti_sim_opts */
    /* NULL, or [rank]: its COMPUTE steps take so many millionths of what they say: 1,200,000 is a
     * straggler of 20 %. TUTTI_PACE: as they say. */
    const uint32_t *pace_ppm;
    bool unfolded;    /* play every rank by itself: the same times, for tests */
    tutti_ps *end_ps; /* NULL, or [rank]: when each rank ends */
};

struct tutti_stepped {
    tutti_ps total_ps;    /* until the last rank ends */
    uint32_t class_count; /* ranks played, each for all that do the same */
    uint32_t price_count; /* collectives predicted */
    uint64_t step_count;  /* of all ranks, those of callees not counted */
};

/* Plays the steps of the schedule's ranks: in a lane in order, after their dependencies; a SEND
 * takes what its message takes alone on its route, without a launch; a CALL begins when the last
 * member of the group has come to it, and ends for all at once. Two collectives at a time do not
 * slow each other down here: a play of the schedule laid out (tutti_schedule_flatten, sim.h) knows
 * what they share. Where nothing overlaps, all members come together and all ranks leave a
 * collective together, the times are equal. -TUTTI_ECHECK for a schedule that cannot finish (names
 * rank and step), -TUTTI_EINVAL for one that does not fit the machine. Memory: programs of all
 * ranks are read one after the other, none is kept; some 40 bytes a rank, and some KiB a class. */
int tutti_step_play(const struct tutti_step_opts *opts, struct tutti_stepped *ret,
                    struct tutti_err *err);

TUTTI_API_END

#endif
