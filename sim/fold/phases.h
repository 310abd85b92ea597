/* Folded play of schedules whose lanes are made of ring phases (rings, tori, hierarchies): phase by
 * phase, ring by ring, each in closed form where one is known, rings that are alike once.
 *
 * That is exact as long as no two lanes want a link at a time: which is made sure of, by the order
 * that the schedule lays down, or by comparing times. Links may differ, and so may the times at
 * which ranks begin. */
#ifndef TUTTI_SIM_FOLD_PHASES_H
#define TUTTI_SIM_FOLD_PHASES_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/units.h"

struct tutti_err;
struct tutti_folded;
struct tutti_hops;
struct tutti_protocol;
struct tutti_schedule;
struct tutti_sim_opts;

/* Whether all lanes are made of ring phases. */
bool tutti_phases_suit(const struct tutti_schedule *schedule);

/* As tutti_fold_play, for schedules that suit; no jitter. What is counted as simulated are times
 * of messages that were computed one by one; ret->class_count is the most ranks of a phase whose
 * times were computed, each for all that do the same. `known` are the hops of a play before on this
 * machine, or none, and then those of this one. */
int tutti_phases_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                      uint64_t step_count_max, struct tutti_hops *known, struct tutti_folded *ret,
                      struct tutti_err *err);

/* A time that no play of such a schedule under a protocol goes below, after the launch: that of the
 * best hops of each phase, without reductions. 0: its hops are not those that are known. */
tutti_ps tutti_phases_least_ps(struct tutti_hops *known, const struct tutti_schedule *schedule,
                               const struct tutti_protocol *protocol);

#endif
