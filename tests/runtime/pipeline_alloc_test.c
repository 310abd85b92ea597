/* Every allocation of a pipeline's play made to fail once. */
#include "runtime/pipeline.h"
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
