/* The brisk way to play by the clock: what the engine on the stage does, in the same order, for
 * plays that carry no data. */
#ifndef TUTTI_SIM_PLAY_CLOCKED_H
#define TUTTI_SIM_PLAY_CLOCKED_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/units.h"

struct tutti_clocked;
struct tutti_err;
struct tutti_record;
struct tutti_schedule;
struct tutti_sim_opts;

/* Both are borrowed until free. */
int tutti_clocked_new(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                      struct tutti_clocked **ret, struct tutti_err *err);
void tutti_clocked_free(struct tutti_clocked *clocked);

/* From now on skips rounds that repeat, and gives up (0) after so many steps that were not skipped.
 * Only under `alphabeta`, without jitter, a record and token buckets, and on the heap. */
int tutti_clocked_skip(struct tutti_clocked *clocked, uint64_t step_count_max,
                       struct tutti_err *err);

/* Whether the last play has skipped some, and whether it was given up. */
bool tutti_clocked_has_skipped(const struct tutti_clocked *clocked);
bool tutti_clocked_is_over(const struct tutti_clocked *clocked);

/* Plays once from `start_ps`. 1: done; the same times as on the stage, to the picosecond. 0:
 * something is wrong with the schedule, or it reckons with the speed of devices: play it on the
 * stage. `record` may be NULL; where 0 is returned it may hold a part of the events. */
int tutti_clocked_play(struct tutti_clocked *clocked, uint64_t seed, tutti_ps start_ps,
                       struct tutti_record *record, tutti_ps *ret_end_ps, uint64_t *ret_step_count,
                       struct tutti_err *err);

/* The most that a message of the last play took beyond its latency. */
tutti_ps tutti_clocked_drain_ps_max(const struct tutti_clocked *clocked);

#endif
