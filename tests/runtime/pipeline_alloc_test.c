/* Every allocation of a pipeline's play made to fail once. */
#include "runtime/pipeline.h"
#include "runtime/schedule.h"
#include "tests/alloc_fail.h"

TEST(a_play_without_memory_says_so)
{
    const struct tutti_pipeline_params params = {.size = sizeof(params),
                                                 .pipeline = TUTTI_PIPELINE_ZBV,
                                                 .device_count = 2,
                                                 .micro_batches = 4};
    const struct tutti_stage_times times[4] = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
    struct tutti_pipeline_times sum;
    struct tutti_err err;

    ALLOC_FAIL_EACH(tutti_pipeline_play(&params, times, 0, NULL, &sum, &err), err);
}

static int make(struct tutti_err *err)
{
    const struct tutti_pipeline_params pipeline = {.size = sizeof(pipeline),
                                                   .pipeline = TUTTI_PIPELINE_INTERLEAVED,
                                                   .device_count = 2,
                                                   .micro_batches = 2,
                                                   .chunks = 2};
    const struct tutti_stage_times times[4] = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
    const uint64_t bytes[4] = {8, 8, 8, 8};
    const struct tutti_pipeline_schedule_params params = {.size = sizeof(params),
                                                          .pipeline = &pipeline,
                                                          .times = times,
                                                          .boundary_bytes = bytes,
                                                          .weight_bytes = bytes};
    struct tutti_schedule *schedule = NULL;
    int status = tutti_pipeline_schedule(&params, &schedule, err);

    tutti_schedule_free(schedule);
    return status;
}

TEST(a_schedule_without_memory_says_so)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(make(&err), err);
}
