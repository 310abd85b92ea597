/* Training on a device: what replicas and networks do where weights, gradients and activations lie
 * in its memory. All of it is put into a queue (runtime/exec/device/queue.h); private to
 * runtime/train. */
#ifndef TUTTI_RUNTIME_TRAIN_GPU_H
#define TUTTI_RUNTIME_TRAIN_GPU_H

#include "runtime/exec/device/queue.h"
#include "runtime/train/net.h"
#include "runtime/train/replica.h"

/* How a learner computes on a device. Variables and gradients are the device's. */
struct tutti_learner_device {
    /* `replica` is what the learner's own open has made; the queue outlives *ret. */
    int (*open)(void *replica, struct tutti_device_queue *queue, void **ret, struct tutti_err *err);
    void (*close)(void *device);
    int (*input)(void *device, uint64_t step, uint32_t micro_batch, double scale,
                 struct tutti_err *err);
    int (*forward)(void *device, uint32_t layer, const float *const *variables,
                   struct tutti_err *err);
    int (*backward)(void *device, uint32_t layer, const float *const *variables,
                    float *const *gradients, bool add, struct tutti_err *err);
    /* Of the last micro-batch: adds its loss and its examples that are right to sums[2], of the
     * device; returns how many examples it has. */
    int (*sums)(void *device, double *sums, uint32_t *ret_examples, struct tutti_err *err);
};

/* ---- networks (gpu_net.c) ---- */

struct tutti_gpu_network;

int tutti_gpu_network_new(const struct tutti_network *net, uint32_t max_batch,
                          struct tutti_device_queue *queue, struct tutti_gpu_network **ret,
                          struct tutti_err *err);
void tutti_gpu_network_free(struct tutti_gpu_network *gpu); /* NULL is a no-op */
/* Whether its stages are computed there: all but an embedding. */
bool tutti_gpu_network_can(const struct tutti_network *net);
/* As tutti_network_begin; what the batch points to is the host's, and is copied. */
int tutti_gpu_network_begin(struct tutti_gpu_network *gpu, const struct tutti_network_batch *batch,
                            struct tutti_err *err);
/* As tutti_network_forward and _backward, with pointers to each of the layer's variables. */
int tutti_gpu_network_forward(struct tutti_gpu_network *gpu, uint32_t layer,
                              const float *const *variables, struct tutti_err *err);
int tutti_gpu_network_backward(struct tutti_gpu_network *gpu, uint32_t layer,
                               const float *const *variables, float *const *gradients, bool add,
                               struct tutti_err *err);
/* As the learner's `sums`. */
int tutti_gpu_network_sums(struct tutti_gpu_network *gpu, double *sums, uint32_t *ret_examples,
                           struct tutti_err *err);

/* ---- replicas (gpu_replica.c) ---- */

/* The work of a step, as tutti_replica_run, with call->queue. */
int tutti_gpu_replica_run(struct tutti_replica *replica, const struct tutti_work_call *call,
                          struct tutti_err *err);
/* Weights and moments to the host, where they are in the replica as on other backends. */
int tutti_gpu_replica_fetch(struct tutti_replica *replica, struct tutti_err *err);
/* Ends what it has on the device, whose run is about to be closed. */
void tutti_gpu_replica_leave(struct tutti_replica *replica);
/* Whether the device can do all of a step of this layout. */
bool tutti_gpu_can(const struct tutti_trainer_params *params);

#endif
