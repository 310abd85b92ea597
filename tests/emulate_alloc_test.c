/* Emulating on threads: every allocation made to fail once. */
#include "tests/alloc_fail.h"

#include "runtime/coll.h"
#include "runtime/record.h"
#include "runtime/schedule.h"
#include "tests/emulated.h"

static int play_emulated(enum tutti_model model, struct tutti_err *err)
{
    struct tutti_sim_opts opts = {.model = model};
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_INT32, .count = 12, .channel_count = 1};
    struct tutti_shape shape = tutti_shape_flat(3);
    struct tutti_schedule *schedule = NULL;
    struct tutti_backend *backend = NULL;
    struct tutti_record record;
    struct tutti_played played;
    struct tutti_play play = {.iteration_count = 2, .barrier = true, .record = &record};
    int status = tutti_coll_generate("ring", &params, &shape, &schedule, err);

    tutti_record_init(&record);
    play.schedule = schedule;
    if (status == 0)
        status = emulated_open("switch:n=3,bw=50GB/s,lat=1us", opts, 0, &backend, err);
    if (status == 0)
        status = tutti_backend_play(backend, &play, &played, err);
    tutti_backend_close(backend);
    tutti_schedule_free(schedule);
    tutti_record_done(&record);
    return status;
}

TEST(emulating_on_threads_fails_cleanly)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(play_emulated(TUTTI_MODEL_FAIR, &err), err);
    ALLOC_FAIL_EACH(play_emulated(TUTTI_MODEL_ALPHABETA, &err), err);
}
