/* The stage of the simulator: starts and finishes the steps of all ranks on a virtual clock. */
#ifndef TUTTI_SIM_PLAY_STAGE_H
#define TUTTI_SIM_PLAY_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/engine.h"
#include "sim/net/net.h"
#include "sim/play/carry.h"
#include "sim/play/wires.h"
#include "sim/queue/queue.h"
#include "sim/sim.h"

struct tutti_play;

/* What a lane is doing: at most one step that takes time. */
struct tutti_stage_lane {
    bool held; /* the first step: its rank has not begun */
    const struct tutti_step *step;
    uint64_t index;
    tutti_ps start_ps;
    uint32_t fused; /* wire whose oldest message the coming REDUCE reads, or UINT32_MAX */
    uint32_t to;    /* peer and wire of the last SEND and RECV: programs repeat themselves */
    uint32_t to_wire;
    uint32_t from;
    uint32_t from_wire;
};

struct tutti_stage {
    const struct tutti_sim_opts *opts;
    const struct tutti_schedule *schedule;
    tutti_ps now;
    tutti_ps launched_ps;  /* where the clock started */
    uint64_t seed;         /* of this iteration */
    uint64_t jitter_q32;   /* opts->jitter in 1 / 2^32 */
    uint64_t *link_rates;  /* [link_count] */
    uint32_t *link_bursts; /* [link_count], or NULL: no link has a token bucket */
    struct tutti_net *net;
    struct tutti_wires wires;
    struct tutti_carry carry;
    uint64_t iteration;             /* as COMPUTEs that really work count them */
    struct tutti_stage_lane *lanes; /* [rank_count * lane_count], by rank */
    uint32_t lane_count;
    struct tutti_queue timers; /* ids are lanes: their ranks begin, steps that take time end */
    struct tutti_done *ready;  /* finished or started at `now`, not yet handed out */
    uint32_t ready_first;
    uint32_t ready_count;
    uint32_t ready_capacity;
};

/* `play` and `opts` are borrowed until done. */
int tutti_stage_init(struct tutti_stage *stage, const struct tutti_sim_opts *opts,
                     const struct tutti_play *play, struct tutti_err *err);
void tutti_stage_done(struct tutti_stage *stage);

/* Sets the clock to `start_ps` and forgets all that was under way. */
void tutti_stage_reset(struct tutti_stage *stage, uint64_t seed, tutti_ps start_ps);

extern const struct tutti_stage_ops tutti_stage_ops_sim;

#endif
