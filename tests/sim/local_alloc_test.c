/* Every allocation of machines as their ranks feel them made to fail once. */
#include "runtime/coll.h"
#include "runtime/schedule.h"
#include "sim/local.h"
#include "tests/alloc_fail.h"
#include "tools/local/local.h"

/* A play of several ranks and lanes, of which some results are pushed. */
static int play(struct tutti_err *err)
{
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_UINT8, .op = TUTTI_SUM, .count = 4096};
    struct tutti_shape shape = tutti_shape_flat(3);
    struct tutti_local local = tutti_local_guess();
    struct tutti_schedule *schedule = NULL;
    struct tutti_local_play *made = NULL;
    tutti_ps ps = 0;
    int status = tutti_coll_generate("two-shot", &params, &shape, &schedule, err);

    if (status == 0)
        status = tutti_local_play_open(schedule, 2, &made, err);
    if (status == 0)
        status = tutti_local_time(made, &local, &ps, err);
    local.process_count = 2;
    if (status == 0)
        status = tutti_local_time(made, &local, &ps, err);
    tutti_local_play_close(made);
    tutti_schedule_free(schedule);
    return status;
}

static int print(struct tutti_err *err)
{
    struct tutti_local local = tutti_local_guess();
    char *text = NULL;
    int status = tutti_local_print(&local, &text, err);

    free(text);
    return status;
}

static int fit(struct tutti_err *err)
{
    struct tutti_local_ask ask = {.rank_count = 2,
                                  .processor_count = 2,
                                  .dtype = TUTTI_FLOAT32,
                                  .op = TUTTI_SUM,
                                  .bytes_max = 0};
    struct tutti_local local = tutti_local_guess();
    struct tutti_local_points points = {.count = 0};
    struct tutti_local_fitted fitted;
    int status = tutti_local_points_make(&ask, &points, err);

    for (uint32_t i = 0; status == 0 && i < points.count; i++)
        points.points[i].measured_us = 1;
    if (status == 0)
        status = tutti_local_fit(&points, &local, &fitted, err);
    tutti_local_points_close(&points);
    return status;
}

TEST(machines_fail_cleanly)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(play(&err), err);
    ALLOC_FAIL_EACH(print(&err), err);
    ALLOC_FAIL_EACH(fit(&err), err);
}
