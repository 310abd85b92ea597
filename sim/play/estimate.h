/* How much memory a play will take, estimated before any is taken. */
#ifndef TUTTI_SIM_PLAY_ESTIMATE_H
#define TUTTI_SIM_PLAY_ESTIMATE_H

struct tutti_err;
struct tutti_play;
struct tutti_sim_opts;

/* 0, or -TUTTI_ELACK with the figures if this machine does not have the memory. */
int tutti_play_fits(const struct tutti_sim_opts *opts, const struct tutti_play *play,
                    struct tutti_err *err);

#endif
