/* The fast way to play: where no two lanes compete for a link, times follow from data flow alone,
 * and no event queue is needed. */
#ifndef TUTTI_SIM_PLAY_FLOW_H
#define TUTTI_SIM_PLAY_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/units.h"

struct tutti_err;
struct tutti_flow;
struct tutti_record;
struct tutti_schedule;
struct tutti_sim_opts;

/* Both are borrowed until free. */
int tutti_flow_new(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                   struct tutti_flow **ret, struct tutti_err *err);
void tutti_flow_free(struct tutti_flow *flow);

/* Plays once from `start_ps`. 1: done; the same times as on the stage, to the picosecond. 0: this
 * way does not suit the schedule (lanes compete for a link, steps depend on other lanes) or
 * something is wrong with it: play it on the stage, which finds the same times or the words.
 * `record` may be NULL; where 0 is returned it may hold a part of the events. */
int tutti_flow_play(struct tutti_flow *flow, uint64_t seed, tutti_ps start_ps,
                    struct tutti_record *record, tutti_ps *ret_end_ps, uint64_t *ret_step_count,
                    struct tutti_err *err);

/* The most that a message of the last play took beyond its latency. */
tutti_ps tutti_flow_drain_ps_max(const struct tutti_flow *flow);

#endif
