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
#include "topo/topo.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_protocol;
struct tutti_schedule;
struct tutti_step;
struct tutti_step_note;

enum {
    TUTTI_PACE = 1000000,
    TUTTI_SHARE_ONE = 1 << 30,
    TUTTI_SHARE_DIMS = 4,
    TUTTI_SHARE_DIRECTIONS = 2 * TUTTI_SHARE_DIMS,
    TUTTI_SHARE_LINKS = TUTTI_SHARE_DIRECTIONS + TUTTI_LINK_KIND_COUNT
};

/* What a collective takes by itself when all groups of its axis play it at once, and what it uses
 * meanwhile. Shares are of TUTTI_SHARE_ONE. */
struct tutti_call_price {
    tutti_ps alone_ps;
    /* The part of its rate that is used of the busiest link of a rank or its host: of those of a
     * torus or mesh by direction (2 * dimension, and 1 more upwards), and of others by kind (from
     * TUTTI_SHARE_DIRECTIONS on, enum tutti_link_kind). */
    uint32_t link_share[TUTTI_SHARE_LINKS];
    uint32_t device_share; /* of the device, which work beside it does without: NCCL's channels each
                              hold a multiprocessor */
};

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
    /* NULL: a callee is simulated as it stands, under `model` and `protocol`; else this says what
     * number `callee` takes on axis `axis` (0: all ranks). Asked once for each pair of them. */
    int (*price)(void *context, uint32_t callee, uint32_t axis, struct tutti_call_price *ret,
                 struct tutti_err *err);
    void *price_context;
    /* NULL, or told of each step of the lowest rank of each class when it has ended; a CALL begins
     * when its lane has come to it, and `alone_ps` later at the earliest it ends. */
    void (*note)(void *context, const struct tutti_step_note *note);
    void *note_context;
    /* NULL, or what a COMPUTE takes, 0 or more, whatever it says: on all ranks the same. */
    tutti_ps (*compute_ps)(const void *context, const struct tutti_step *step);
    const void *compute_context;
};

struct tutti_step_note {
    uint32_t rank;
    uint32_t lane;
    uint64_t index; /* of the step in its lane */
    const struct tutti_step *step;
    tutti_ps begin_ps; /* all that it waits for was there; a CALL: the last member had come */
    tutti_ps came_ps;  /* a CALL: this rank had; else begin_ps */
    tutti_ps end_ps;
};

struct tutti_stepped {
    tutti_ps total_ps;    /* until the last rank ends */
    uint32_t class_count; /* ranks played, each for all that do the same */
    uint32_t price_count; /* collectives predicted */
    uint64_t step_count;  /* of all ranks, those of callees not counted */
};

/* Plays the steps of the schedule's ranks: in a lane in order, after their dependencies; a SEND
 * takes what its message takes alone on its route, without a launch; a CALL begins when the last
 * member of the group has come to it, and ends for all at once. Calls that are under way at once
 * slow each other down as a fluid (sim/step/sharing.h): each goes on at the same part of its full
 * rate until a link is full, by the shares of their prices; a COMPUTE goes on as fast as the calls
 * of its rank leave the device to it. A play of the schedule laid out (tutti_schedule_flatten,
 * sim.h) knows each message. Where nothing overlaps, all members come together and all ranks leave
 * a collective together, the times are equal. -TUTTI_ECHECK for a schedule that cannot finish
 * (names rank and step), -TUTTI_EINVAL for one that does not fit the machine. Memory: programs of
 * all ranks are read one after the other, none is kept; some 40 bytes a rank, some KiB a class. */
int tutti_step_play(const struct tutti_step_opts *opts, struct tutti_stepped *ret,
                    struct tutti_err *err);

TUTTI_API_END

#endif
