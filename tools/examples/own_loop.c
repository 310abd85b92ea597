/* A training loop of one's own: each replica computes the gradient of its share of a global batch,
 * all_reduce(SUM) adds them up, and each applies the sum, as in tf.distribute's custom loops.
 *   cc own_loop.c -o own_loop $(pkg-config --cflags --libs tutti)
 *   TUTTI_REPLICAS=2 ./own_loop mirrored
 *   mpirun -n 2 ./own_loop multiworkermirrored     (or srun, torchrun, TF_CONFIG) */
#include <math.h>
#include <stdio.h>

#include "runtime/replica.h"
#include "runtime/status.h"

enum { STEPS = 100, GLOBAL_BATCH = 64 };

/* Learns y = 3 x + 1 from examples of it. */
static int learn(struct tutti_replica_context *replica, void *context, struct tutti_err *err)
{
    float w[2] = {0, 0}; /* the same on all replicas, at every step */

    (void)context;
    for (uint32_t step = 0; step < STEPS; step++) {
        float gradient[2] = {0, 0};
        int status;

        for (uint32_t i = replica->replica_id; i < GLOBAL_BATCH;
             i += replica->num_replicas_in_sync) {
            float x = (float)fmod((step * GLOBAL_BATCH + i) * 0.6180339887498949, 2) - 1;
            float error = w[0] * x + w[1] - (3 * x + 1);

            gradient[0] += error * x / GLOBAL_BATCH; /* the *global* batch */
            gradient[1] += error / GLOBAL_BATCH;
        }
        status = tutti_replica_all_reduce(replica, TUTTI_SUM, TUTTI_FLOAT32, gradient, 2, err);
        if (status < 0)
            return status;
        w[0] -= 0.5f * gradient[0];
        w[1] -= 0.5f * gradient[1];
    }
    if (replica->replica_id == 0)
        printf("%u replicas: y = %.5f x + %.5f\n", replica->num_replicas_in_sync, (double)w[0],
               (double)w[1]);
    return 0;
}

int main(int count, char **words)
{
    const struct tutti_replicas_params how = {.size = sizeof(how), .strategy = words[1]};
    struct tutti_replicas *replicas = NULL;
    struct tutti_err err = {.text = ""};

    (void)count;
    if (tutti_replicas_open(&how, &replicas, &err) == 0)
        (void)tutti_replicas_run(replicas, learn, NULL, &err);
    tutti_replicas_close(replicas);
    return err.text[0] != '\0' && fprintf(stderr, "own_loop: %s\n", err.text) != 0;
}
