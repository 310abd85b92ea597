/* Every allocation of a training whose ranks have parts of the model made to fail once. */
#include "runtime/backend.h"
#include "runtime/model.h"
#include "runtime/parallel.h"
#include "runtime/parallel_step.h"
#include "runtime/schedule.h"
#include "runtime/threads.h"
#include "runtime/train.h"
#include "tests/alloc_fail.h"

/* 784-2-10 */
static const char small[] = "model small\n"
                            "sample image\n"
                            "logits 10\n"
                            "layer hidden\n"
                            "operation hidden matmul 1 x 784 x 2 first\n"
                            "operation relu elementwise in 2 out 2\n"
                            "variable hidden elements 1568 rows 784\n"
                            "layer classes\n"
                            "operation classes matmul 1 x 2 x 10\n"
                            "operation loss loss in 10 out 1\n"
                            "variable classes elements 20 rows 2\n"
                            "variable classes.bias elements 10\n";

struct story {
    struct tutti_workload *model;
    struct tutti_parallel parallel;
    uint32_t rank_count;
};

static int take_steps(struct tutti_trainer *trainer, struct tutti_err *err)
{
    float weights[1600];
    struct tutti_trained made;
    struct tutti_sums held_out;
    int status = tutti_trainer_step(trainer, &made, err);

    if (status == 0)
        status = tutti_trainer_evaluate(trainer, &held_out, err);
    if (status == 0)
        status = tutti_trainer_weights(trainer, weights, err);
    return status;
}

static int train(const struct story *story, struct tutti_err *err)
{
    const struct tutti_net_learner_params data = {.size = sizeof(data),
                                                  .model = story->model,
                                                  .example_limit = 16,
                                                  .held_out_limit = 2,
                                                  .global_batch = 4,
                                                  .rank_count = 1,
                                                  .micro_batches = 2};
    struct tutti_net_learner_facts facts;
    struct tutti_learner learner = {.size = sizeof(learner)};
    struct tutti_strategy strategy;
    struct tutti_trainer *trainer = NULL;
    struct tutti_trainer_params params = {.size = sizeof(params),
                                          .strategy = &strategy,
                                          .model = story->model,
                                          .learner = &learner,
                                          .rank_count = story->rank_count,
                                          .micro_batches = 2,
                                          .parallel = &story->parallel};
    int status = tutti_net_learner_new(&data, &learner, &facts, err);

    if (status == 0)
        status = tutti_strategy_named("mirrored", &strategy, err);
    if (status == 0)
        status = tutti_update_named("adam", &params.optimizer, err);
    if (status == 0)
        status = tutti_threads_open(NULL, &params.backend, err);
    if (status == 0)
        status = tutti_trainer_open(&params, &trainer, err);
    if (status == 0)
        status = take_steps(trainer, err);
    tutti_trainer_close(trainer);
    tutti_backend_close(params.backend);
    tutti_net_learner_free(&learner);
    return status;
}

TEST(training_parts_fails_cleanly)
{
    struct story stories[] = {
        {.parallel = {.size = sizeof(struct tutti_parallel),
                      .pipeline = 2,
                      .schedule = TUTTI_PIPELINE_ZB_H1},
         .rank_count = 2},
        {.parallel = {.size = sizeof(struct tutti_parallel), .tensor = 2}, .rank_count = 2},
    };
    struct tutti_err err = {.text = ""};

    for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++) {
        CHECK_OK(tutti_model_parse("small", small, sizeof(small) - 1, &stories[i].model, &err),
                 err);
        REQUIRE(stories[i].model != NULL);
        ALLOC_FAIL_EACH(train(&stories[i], &err), err);
        tutti_model_free(stories[i].model);
    }
}

static int write_step(struct tutti_err *err)
{
    static const struct tutti_parallel_piece pieces[2] = {
        {.axis = 1, .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .count = 4}};
    static const struct tutti_parallel_reduction sum = {.axis = 1, .elements = 8};
    static const uint32_t sizes[2] = {2, 2};
    const struct tutti_axis axes[2] = {tutti_mesh_axis("tensor", 0, sizes, 2, 1),
                                       tutti_mesh_axis("pipeline", 0, sizes, 2, 0)};
    const struct tutti_parallel_stage stage = {.passes = {{pieces, 2}, {pieces, 2}, {pieces, 2}},
                                               .boundary_bytes = 8,
                                               .reductions = &sum,
                                               .reduction_count = 1};
    const struct tutti_parallel_stage stages[2] = {stage, stage};
    const struct tutti_pipeline_params pipeline = {.size = sizeof(pipeline),
                                                   .pipeline = TUTTI_PIPELINE_1F1B,
                                                   .device_count = 2,
                                                   .micro_batches = 2};
    const struct tutti_parallel_schedule_params params = {.size = sizeof(params),
                                                          .rank_count = 4,
                                                          .axes = axes,
                                                          .axis_count = 2,
                                                          .pipeline_axis = 2,
                                                          .pipeline = &pipeline,
                                                          .stages = stages,
                                                          .report_elements = 1};
    struct tutti_schedule *schedule = NULL;
    int status = tutti_parallel_schedule(&params, &schedule, err);

    tutti_schedule_free(schedule);
    return status;
}

TEST(a_step_without_memory_says_so)
{
    struct tutti_err err;

    ALLOC_FAIL_EACH(write_step(&err), err);
}
