/* Every allocation of a training, and of a loop, of the user's own made to fail once. */
#include "runtime/replica.h"
#include "tests/alloc_fail.h"
#include "traces/train_log.h"

static const struct tutti_replica_variable shapes[] = {{"slope", 1, 1}, {"offset", 1, 1}};

static int load(void *context, uint64_t example, float *x, float *y, struct tutti_err *err)
{
    (void)context;
    (void)err;
    x[0] = (float)(example % 17) / 17;
    y[0] = 2 * x[0];
    return 0;
}

static int init(void *context, uint64_t seed, float *const *w, struct tutti_err *err)
{
    (void)context;
    (void)err;
    w[0][0] = (float)seed;
    return 0;
}

static int forward_backward(void *replica, const struct tutti_replica_batch *batch,
                            const float *const *w, float *const *g, struct tutti_sums *ret,
                            struct tutti_err *err)
{
    (void)replica;
    (void)err;
    for (uint32_t i = 0; i < batch->count; i++) {
        const float x = batch->inputs != NULL ? batch->inputs[i] : (float)batch->examples[i];
        const float error = w[0][0] * x + w[1][0] - 2 * x;

        ret->loss += (double)error * (double)error;
        if (g != NULL) {
            g[0][0] += error * x;
            g[1][0] += error;
        }
    }
    ret->examples = batch->count;
    return 0;
}

struct story {
    const char *strategy;
    uint32_t replica_count;
    bool reads;
};

static int train(const struct story *story, struct tutti_err *err)
{
    const struct tutti_replicas_params how = {
        .size = sizeof(how), .strategy = story->strategy, .replica_count = story->replica_count};
    const struct tutti_replica_model model = {.size = sizeof(model),
                                              .name = "line",
                                              .variables = shapes,
                                              .variable_count = 2,
                                              .init = init,
                                              .forward_backward = forward_backward,
                                              .example_count = 40,
                                              .held_out_count = 7,
                                              .input_count = story->reads,
                                              .read = story->reads ? load : NULL};
    struct tutti_replica_training plan = {.size = sizeof(plan), .steps = 2, .global_batch = 8};
    struct tutti_replicas *replicas = NULL;
    struct tutti_replica_result result;
    int status = tutti_train_log_open(&plan, NULL, NULL, err);

    if (status == 0)
        status = tutti_replicas_open(&how, &replicas, err);
    if (status == 0)
        status = tutti_replicas_train(replicas, &model, &plan, NULL, &result, err);
    tutti_replicas_close(replicas);
    (void)tutti_train_log_close(&plan, NULL);
    return status;
}

TEST(training_fails_cleanly)
{
    static const struct story stories[] = {
        {"onedevice", 1, true}, {"mirrored", 2, false}, {"fsdp", 2, true}};
    struct tutti_err err = {.text = ""};

    for (size_t i = 0; i < sizeof(stories) / sizeof(stories[0]); i++)
        ALLOC_FAIL_EACH(train(&stories[i], &err), err);
}

static int add(struct tutti_replica_context *replica, void *context, struct tutti_err *err)
{
    float values[3] = {1, 2, 3};
    int status = tutti_replica_all_reduce(replica, TUTTI_SUM, TUTTI_FLOAT32, values, 3, err);

    (void)context;
    if (status == 0)
        status = tutti_replica_all_reduce(replica, TUTTI_MEAN, TUTTI_FLOAT32, values, 2, err);
    return status;
}

static int loop(struct tutti_err *err)
{
    const struct tutti_replicas_params how = {
        .size = sizeof(how), .strategy = "mirrored", .replica_count = 2};
    struct tutti_replicas *replicas = NULL;
    int status = tutti_replicas_open(&how, &replicas, err);

    if (status == 0)
        status = tutti_replicas_run(replicas, add, NULL, err);
    tutti_replicas_close(replicas);
    return status;
}

TEST(a_loop_fails_cleanly)
{
    struct tutti_err err = {.text = ""};

    ALLOC_FAIL_EACH(loop(&err), err);
}
