/* One phase of one lane of all ranks: from when each is ready to when each has finished. */
#ifndef TUTTI_SIM_FOLD_PHASE_H
#define TUTTI_SIM_FOLD_PHASE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/schedule.h"
#include "runtime/units.h"
#include "sim/fold/hops.h"
#include "sim/fold/ring_memo.h"
#include "sim/fold/ring_times.h"

struct tutti_err;
struct tutti_sim_opts;

/* A time of each rank. */
struct tutti_rank_times {
    tutti_ps all_ps;   /* of all ranks, if `each_ps` is NULL */
    tutti_ps *each_ps; /* [rank] */
    tutti_ps last_ps;  /* the latest of them */
};

enum { SPARES_MAX = 8 };

/* What is at hand for all phases. */
struct tutti_phase_context {
    const struct tutti_sim_opts *opts;
    const struct tutti_hops *hops;
    uint32_t rank_count;
    uint32_t slot_count;
    uint64_t update_count_max; /* of times, message by message or hop by hop */
    tutti_ps *free_ps; /* [link]: when it has served all that was sent so far; NULL: not asked */
    uint32_t *users;   /* [link]: the lane that sent it */
    tutti_ps *spare_ps[SPARES_MAX]; /* memory for times of all ranks that was given back */
    uint32_t spare_count;
    tutti_ps *busy_ps; /* [kind]: of a message of this phase */
    tutti_ps *hop_ps;
    uint32_t block;     /* rings that are taken at a time, side by side in memory */
    uint32_t *bases;    /* [block] */
    tutti_ps *ready_ps; /* [block * size]; those of a ring by seat */
    tutti_ps *finish_ps;
    tutti_ps *together_ps; /* [block]: when all ranks of a ring finish, or -1: see finish_ps */
    uint32_t *kinds;
    tutti_ps *ring_busy_ps; /* [size]: of one ring */
    tutti_ps *ring_hop_ps;
    struct tutti_ring_context ring_context;
    struct tutti_ring_memo memo;
    /* Of the phase that is being played: */
    uint32_t simulated_count; /* ranks whose times were computed */
    bool is_alike;            /* there was a ring of ranks that all do the same */
    tutti_ps first_ps;        /* that a rank finished */
    tutti_ps last_ps;
};

/* Which phase it is, and what it waits for. */
struct tutti_phase_ask {
    const struct tutti_ring_phase *phase;
    uint32_t lane;
    bool is_last; /* of the lane: when its last rank finishes is enough */
    uint32_t family;
    const struct tutti_rank_times *ready;
    const struct tutti_rank_times
        *turn; /* the next rank of each has been given its turn; or NULL */
    const struct tutti_rank_times *slots; /* the next rank has taken all that was sent to it over
                                             the same connections, in an earlier phase; or NULL */
};

int tutti_phase_context_init(struct tutti_phase_context *context, const struct tutti_sim_opts *opts,
                             const struct tutti_schedule *schedule, const struct tutti_hops *hops,
                             uint32_t size_max, struct tutti_err *err);
/* From now on times are compared on all links. The links of hops have been kept. */
int tutti_phase_compare_links(struct tutti_phase_context *context, struct tutti_err *err);
void tutti_phase_context_done(struct tutti_phase_context *context);

/* Plays it; *ret is the caller's. *ret_simulated_count: how many ranks stand for all of them.
 * -TUTTI_ELACK, and why: times of this kind are not known. */
int tutti_phase_play(struct tutti_phase_context *context, const struct tutti_phase_ask *ask,
                     struct tutti_rank_times *ret, uint32_t *ret_simulated_count,
                     struct tutti_err *err);

/* Gives back the memory of times that are needed no more. */
void tutti_phase_give_back(struct tutti_phase_context *context, struct tutti_rank_times *times);

static inline tutti_ps tutti_time_of(const struct tutti_rank_times *times, uint32_t rank)
{
    return times->each_ps != NULL ? times->each_ps[rank] : times->all_ps;
}

#endif
