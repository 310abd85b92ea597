/* Every rank played on the simulator, unfolded: what folded times are held against. */
#ifndef TUTTI_TESTS_SIM_PLAY_ALL_H
#define TUTTI_TESTS_SIM_PLAY_ALL_H

#include "runtime/backend.h"
#include "runtime/status.h"
#include "sim/sim.h"
#include "tests/test.h"

/* Failures are counted; total_ps is then -1. */
static inline struct tutti_played play_all(const struct tutti_sim_opts *opts,
                                           const struct tutti_schedule *schedule)
{
    struct tutti_play play = {
        .size = sizeof(struct tutti_play), .schedule = schedule, .iteration_count = 1};
    struct tutti_played played = {.total_ps = -1};
    struct tutti_backend *backend = NULL;
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_sim_open(opts, &backend, &err), err);
    CHECK_OK(tutti_backend_play(backend, &play, &played, &err), err);
    tutti_backend_close(backend);
    return played;
}

#endif
