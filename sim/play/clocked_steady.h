/* What repeats in a play by the clock, under `alphabeta`, and is skipped. */
#ifndef TUTTI_SIM_PLAY_CLOCKED_STEADY_H
#define TUTTI_SIM_PLAY_CLOCKED_STEADY_H

#include <stdbool.h>
#include <stdint.h>

struct tutti_clocked;
struct tutti_clocked_steady;
struct tutti_err;

int tutti_clocked_steady_new(uint64_t step_count_max, struct tutti_clocked_steady **ret,
                             struct tutti_err *err);
void tutti_clocked_steady_free(struct tutti_clocked_steady *steady);

/* A play begins. */
void tutti_clocked_steady_reset(struct tutti_clocked_steady *steady,
                                const struct tutti_clocked *clocked);

/* To be called when all that happens at clocked->now has happened. Once all is as it was some
 * rounds ago but for the time, and programs go on as since then, it skips as many such runs of
 * rounds as there are. After too many steps that were not skipped the play becomes unsuited. 0 or
 * -TUTTI_ENOMEM. */
int tutti_clocked_steady_watch(struct tutti_clocked_steady *steady, struct tutti_clocked *clocked);

bool tutti_clocked_steady_has_skipped(const struct tutti_clocked_steady *steady);
bool tutti_clocked_steady_is_over(const struct tutti_clocked_steady *steady);

#endif
