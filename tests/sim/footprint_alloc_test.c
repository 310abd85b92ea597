/* Every allocation of the footprints of a pipeline made to fail once. */
#include "runtime/model.h"
#include "sim/footprint.h"
#include "tests/alloc_fail.h"

static int use(const struct tutti_workload *model, struct tutti_err *err)
{
    const struct tutti_parallel degrees = {.size = sizeof(degrees),
                                           .pipeline = 3,
                                           .virtual_stages = 2,
                                           .schedule = TUTTI_PIPELINE_INTERLEAVED,
                                           .micro_batches = 6};
    const struct tutti_footprint_params params = {
        .size = sizeof(params), .model = model, .parallel = &degrees};
    struct tutti_footprint devices[3];
    struct tutti_footprint most;
    int status = tutti_footprint_stages(&params, devices, err);

    return status == 0 ? tutti_footprint_of(&params, &most, err) : status;
}

TEST(footprints_fail_cleanly)
{
    struct tutti_workload *model = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_model_new("gpt2", NULL, &model, &err), err);
    ALLOC_FAIL_EACH(use(model, &err), err);
    tutti_model_free(model);
}
