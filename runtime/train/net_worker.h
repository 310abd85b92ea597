/* Ranks that train a part of a network each: what of it they have, and the passes of micro-batches
 * through that. Private to runtime/train. */
#ifndef TUTTI_RUNTIME_TRAIN_NET_WORKER_H
#define TUTTI_RUNTIME_TRAIN_NET_WORKER_H

#include "runtime/pipeline.h"
#include "runtime/train.h"
#include "runtime/train/net_part.h"

struct tutti_net_parts;
struct tutti_net_worker;

struct tutti_net_parts_params {
    uint32_t tensor;              /* ranks that divide layers; >= 1 */
    uint32_t data;                /* replicas; as many as the learner has ranks */
    uint32_t stage_count;         /* that follow each other */
    const uint32_t *stage_layers; /* [stage]: layers of each, in sum all; copied */
};

/* Parts of all stages and members. The learner must outlive them. -TUTTI_EINVAL for a learner that
 * is no network, or layers that cannot be cut so. */
int tutti_net_parts_new(const struct tutti_learner *learner,
                        const struct tutti_net_parts_params *params, struct tutti_net_parts **ret,
                        struct tutti_err *err);
void tutti_net_parts_free(struct tutti_net_parts *parts); /* NULL is a no-op */
const struct tutti_network *tutti_net_part_of(const struct tutti_net_parts *parts, uint32_t stage,
                                              uint32_t member);
/* Examples of a micro-batch at most. */
uint32_t tutti_net_parts_batch(const struct tutti_net_parts *parts);
/* Layers of the network. */
int tutti_net_parts_layers(const struct tutti_learner *learner, uint32_t *ret,
                           struct tutti_err *err);

/* ---- a rank ---------------------------------------------------------------------------------- */

struct tutti_net_worker_params {
    uint32_t data_rank;
    uint32_t member;
    uint32_t chunk_count;
    const uint32_t *stages; /* [chunk] */
    const uint32_t *held;   /* [chunk]: micro-batches at once */
    bool splits;            /* gradients of weights are a pass of their own */
};

int tutti_net_worker_new(const struct tutti_net_parts *parts,
                         const struct tutti_net_worker_params *params,
                         struct tutti_net_worker **ret, struct tutti_err *err);
void tutti_net_worker_free(struct tutti_net_worker *worker); /* NULL is a no-op */

/* Examples of step `step` come next; see struct tutti_learner. */
int tutti_net_worker_input(struct tutti_net_worker *worker, uint64_t step, double scale,
                           struct tutti_err *err);

/* A piece of a pass of a micro-batch through a chunk. */
struct tutti_net_task {
    enum tutti_pass pass;
    uint32_t chunk;
    uint32_t micro_batch;
    const float *inputs; /* of the chunk; of the first stage NULL */
    const float *slopes; /* gradient of what it leaves; of the last stage NULL */
    struct tutti_network_piece piece;
    const float *weights;
    float *gradients;
};
void tutti_net_worker_run(struct tutti_net_worker *worker, const struct tutti_net_task *task);
/* Of the last micro-batch whose forward pass has ended in the last stage. */
struct tutti_sums tutti_net_worker_sums(const struct tutti_net_worker *worker);

#endif
