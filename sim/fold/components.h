/* The play of a quotient that is a ring: components of wires, each for itself for a while.
 *
 * Wires that share links, directly or through others, make a component; what happens on one reaches
 * another only by a message, and that takes at least the least latency of all. So between the
 * earliest event of all and one least latency later each component is played for itself: few wires,
 * whose next event is found by looking at all of them. What a message takes is the rates of the
 * wires that drain with it, and those are kept for each set of wires that has been met. */
#ifndef TUTTI_SIM_FOLD_COMPONENTS_H
#define TUTTI_SIM_FOLD_COMPONENTS_H

#include "sim/fold/class_play.h"

/* As tutti_class_play, with the same result. -TUTTI_ELACK where lanes are no rings of one phase, a
 * component has more wires than can be looked at one by one, messages take no time, reductions do,
 * or links are not shared in round numbers. */
int tutti_components_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                          const struct tutti_quotient *quotient, uint64_t step_count_max,
                          struct tutti_class_played *ret, struct tutti_err *err);

#endif
