/* How long a play will take, and how much memory, estimated before it begins. */
#ifndef TUTTI_SIM_PLAY_ESTIMATE_H
#define TUTTI_SIM_PLAY_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

struct tutti_err;
struct tutti_net;
struct tutti_play;
struct tutti_schedule;
struct tutti_sim_opts;

/* About how many steps all ranks run. */
double tutti_play_steps(const struct tutti_schedule *schedule);

/* 0, or, with the figures, -TUTTI_ETIME where it would take longer than opts->seconds_max, and
 * -TUTTI_ELACK if this machine does not have the memory; by the clock (event by event), or,
 * `flows`, by data flow, which is many times as fast. Always 0 with opts->force. */
int tutti_play_fits(const struct tutti_sim_opts *opts, const struct tutti_play *play, bool flows,
                    struct tutti_err *err);

/* Whether opts->strict lets a play take as many looks at flows of links. */
bool tutti_play_is_within(const struct tutti_sim_opts *opts, uint64_t look_count);

/* For a play under way: -TUTTI_ETIME once, with opts->strict, its network has taken about as long
 * as opts->seconds_max. */
int tutti_play_goes_on(const struct tutti_sim_opts *opts, const struct tutti_net *net,
                       struct tutti_err *err);

#endif
