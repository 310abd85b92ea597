/* When the ranks of one ring get through a phase, given when each begins: exact, in max-plus
 * algebra.
 *
 * Rank i posts SEND t at P_i(t), its link begins to send at X_i(t), and RECV t is complete at
 * C_i(t), with C_i(-1) = ready_i, a_i = busy_i the time on the wire, b_i = hop_i >= a_i until the
 * next rank has the message, and B slots a connection:
 *
 *   P_i(t) = max(C_i(t-1), C_{i+1}(t-B) if t >= B)
 *   X_i(t) = max(P_i(t), X_i(t-1) + a_i)
 *   C_i(t) = max(P_i(t), X_{i-1}(t) + b_{i-1}) + what reducing it takes
 *
 * C_i(T-1) is the weight of the heaviest path to it. A path begins as some rank m begins, hops on
 * (b_i, a round), stays behind a busy link (a_i, a round), or steps back (nothing, B-1 rounds); it
 * has T rounds. A step back and a hop over the same link make B rounds and weigh b_i: a window. */
#ifndef TUTTI_SIM_FOLD_RING_TIMES_H
#define TUTTI_SIM_FOLD_RING_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/units.h"

struct tutti_err;

struct tutti_ring {
    uint32_t size;         /* d */
    uint32_t slot_count;   /* B */
    uint64_t round_count;  /* T >= d - 1 */
    uint64_t reduce_count; /* of the messages that are received, the first so many are reduced */
    tutti_ps reduce_ps;    /* each */
    bool only_last;        /* only the latest time matters; finish_ps may say that for all ranks */
    bool links_alike;      /* all busy_ps are equal, and all hop_ps */
    const tutti_ps *busy_ps; /* [size] */
    const tutti_ps *hop_ps;
    const tutti_ps *ready_ps;
    tutti_ps *finish_ps; /* written */
};

/* Memory that is used again from ring to ring, and what has been spent. */
struct tutti_ring_context {
    tutti_ps *memory;
    uint64_t memory_count;
    uint64_t update_count; /* of times, in all rings so far */
};

/* Writes finish_ps. Times begin at 0 or later, and what all hops of all rounds take, times the
 * slots, is below 2^61. -TUTTI_ELACK: the ring is too large to follow its messages one by one (at
 * most `update_count_max` in all), and of no form that is known otherwise. */
int tutti_ring_run(struct tutti_ring_context *context, const struct tutti_ring *ring,
                   uint64_t update_count_max, struct tutti_err *err);
/* Room for so many times: 0 or -TUTTI_ENOMEM. */
int tutti_ring_context_reserve(struct tutti_ring_context *context, uint64_t count);
void tutti_ring_context_done(struct tutti_ring_context *context);

/* Where all ranks begin together and all links are alike, so much later they all have finished:
 * hops alone are the heaviest path, as b >= a and b >= b/B. */
tutti_ps tutti_ring_alike_ps(uint64_t round_count, tutti_ps hop_ps, uint64_t reduce_count,
                             tutti_ps reduce_ps);

#endif
