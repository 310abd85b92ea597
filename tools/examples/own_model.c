/* A model of one's own: y(x) = sum of c tanh(a x + b) learns sin(3 x) from examples.
 *   cc own_model.c -o own_model $(pkg-config --cflags --libs tutti)
 *   ./own_model onedevice
 *   TUTTI_REPLICAS=2 ./own_model mirrored
 *   mpirun -n 2 ./own_model multiworkermirrored     (or srun, torchrun, TF_CONFIG)
 * A second word is a folder for checkpoints and TensorBoard's events. */
#include "runtime/replica.h"
#include "runtime/status.h"
#include "traces/train_log.h"
#include <math.h>
#include <stdio.h>

enum { UNITS = 32 };

static int load(void *context, uint64_t example, float *x, float *y, struct tutti_err *err)
{
    (void)context, (void)err;
    x[0] = (float)fmod((double)example * 0.6180339887498949, 2) - 1; /* all over [-1, 1) */
    y[0] = sinf(3 * x[0]);
    return 0;
}

static int init(void *context, uint64_t seed, float *const *w, struct tutti_err *err)
{
    for (uint64_t k = 0; k < 2 * UNITS; k++) /* w[1] begins as 0 */
        (void)load(context, seed + k, &w[0][k], &(float){0}, err);
    return 0;
}

static int forward_backward(void *replica, const struct tutti_replica_batch *batch,
                            const float *const *w, float *const *g, struct tutti_sums *sums,
                            struct tutti_err *err)
{
    (void)replica, (void)err;
    for (uint32_t i = 0; i < batch->count; i++) {
        float x = batch->inputs[i], error = -batch->targets[i], h[UNITS];

        for (int k = 0; k < UNITS; k++)
            error += w[1][k] * (h[k] = tanhf(w[0][2 * k] * x + w[0][2 * k + 1]));
        sums->loss += 0.5 * (double)(error * error);
        for (int k = 0; k < UNITS && g != NULL; k++) { /* NULL: held-out examples */
            float slope = error * w[1][k] * (1 - h[k] * h[k]);

            g[0][2 * k] += slope * x, g[0][2 * k + 1] += slope;
            g[1][k] += error * h[k];
        }
    }
    sums->examples = batch->count;
    return 0;
}

int main(int count, char **words)
{
    const struct tutti_replica_variable shapes[] = {{"inner", UNITS, 2}, {"outer", UNITS, 1}};
    const struct tutti_replica_model model = {.size = sizeof(model),
                                              .name = "sine",
                                              .variables = shapes,
                                              .variable_count = 2,
                                              .init = init,
                                              .forward_backward = forward_backward,
                                              .example_count = 4096,
                                              .held_out_count = 512,
                                              .input_count = 1,
                                              .read = load};
    const struct tutti_replicas_params how = {.size = sizeof(how), .strategy = words[1]};
    struct tutti_replica_training plan = {.size = sizeof(plan), .steps = 300, .global_batch = 64};
    struct tutti_replicas *replicas = NULL;
    struct tutti_replica_result result;
    struct tutti_err err = {.text = ""};

    plan.optimizer = "adam";
    plan.learning_rate = 0.01;
    plan.checkpoint = count > 2 ? words[2] : NULL;
    if (tutti_train_log_open(&plan, stdout, plan.checkpoint, &err) == 0 &&
        tutti_replicas_open(&how, &replicas, &err) == 0)
        (void)tutti_replicas_train(replicas, &model, &plan, NULL, &result, &err);
    tutti_replicas_close(replicas);
    (void)tutti_train_log_close(&plan, &err);
    return err.text[0] != '\0' && fprintf(stderr, "own_model: %s\n", err.text) != 0;
}
