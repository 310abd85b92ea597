/* Training for real: the steps of a strategy, one after the other, played by a backend. The model
 * is the caller's (struct tutti_learner), the strategy a name: what tf.distribute makes of a
 * program that was written for one device. Ranks are replicas: each computes on its part of every
 * batch, and what they learn is summed by the very schedule that sim predicts.
 *
 * A step is a play of runtime/strategy.h's schedule: gradients are sums over replicas, so a learner
 * divides its loss by the examples of all of them. Weights and moments are fp32. For one algorithm,
 * packing and number of ranks the weights are equal to the bit on every backend and in every run:
 * the schedule fixes the order of sums. */
#ifndef TUTTI_RUNTIME_TRAIN_H
#define TUTTI_RUNTIME_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/data.h"
#include "runtime/optimizer.h"
#include "runtime/strategy.h"
#include "runtime/tensorflow.h"

TUTTI_API_BEGIN

struct tutti_backend;
struct tutti_err;
struct tutti_learner_device;
struct tutti_parallel;
struct tutti_schedule;
struct tutti_trainer;
struct tutti_workload;

/* Of the examples that a replica has seen. */
struct tutti_sums {
    double loss;    /* summed over examples */
    double correct; /* examples whose class was found; 0 where there are no classes */
    double examples;
};

/* What is learnt. Variables are those of the workload, layer by layer (each repeat of a layer is a
 * layer), in fp32; a layer's pointers come in the order of its variables. Functions are called by
 * several threads at once, but for one replica by one at a time. */
struct tutti_learner {
    size_t size; /* sizeof(struct tutti_learner): runtime/api.h */
    void *context;
    /* What replica `rank` needs: memory, data. NULL: nothing, and replicas are `context`. */
    int (*open)(void *context, uint32_t rank, void **ret_replica, struct tutti_err *err);
    void (*close)(void *replica);
    /* The first values of a layer's variables: a function of seed and layer alone. */
    int (*init)(void *context, uint64_t seed, uint32_t layer, float *const *variables,
                struct tutti_err *err);
    /* The replica's examples of a micro-batch of step `step` (from 0 on) come next. Gradients are
     * of the sum of losses, times `scale`, divided by the examples of all replicas in this step. */
    int (*input)(void *replica, uint64_t step, uint32_t micro_batch, double scale,
                 struct tutti_err *err);
    /* Layers in order, then in the opposite order. Gradients are written, or with `add` added to
     * what is there. */
    int (*forward)(void *replica, uint32_t layer, const float *const *variables,
                   struct tutti_err *err);
    int (*backward)(void *replica, uint32_t layer, const float *const *variables,
                    float *const *gradients, bool add, struct tutti_err *err);
    /* Of the last micro-batch whose forward pass has ended. */
    struct tutti_sums (*sums)(const void *replica);
    /* The replica's part of the held-out examples, each counted by one rank, with the weights of
     * all layers: [variables of all layers]. NULL: nothing can be evaluated. */
    int (*evaluate)(void *replica, const float *const *variables, struct tutti_sums *ret,
                    struct tutti_err *err);
    /* Of a variable of whose rows a sample touches some alone (struct tutti_variable), unless the
     * strategy makes its gradient dense: backward() gets NULL for it, and then this is asked which
     * rows the micro-batch has touched, and for their gradients, [rows][columns]; a row may come
     * more than once, and is added up. At most `capacity`: what the samples of struct
     * tutti_trainer_params touch. NULL: all gradients are dense. */
    int (*slices)(void *replica, uint32_t layer, uint32_t variable, uint64_t capacity,
                  int64_t *ret_rows, float *ret_values, uint64_t *ret_count, struct tutti_err *err);
    /* How Tutti's own networks compute on GPUs. NULL: on the host; with a backend of GPUs, what is
     * learnt is brought there before and back after. */
    const struct tutti_learner_device *device;
};

struct tutti_trainer_params {
    size_t size; /* sizeof(struct tutti_trainer_params): runtime/api.h */
    const struct tutti_strategy *strategy;
    const struct tutti_workload *model;
    const struct tutti_learner *learner;
    struct tutti_backend *backend; /* borrowed; plays nothing else meanwhile */
    uint32_t rank_count;
    uint32_t shard_ranks;   /* of a group that shares; 0: all. A divisor of rank_count */
    uint32_t micro_batches; /* gradient accumulation; 0: 1 */
    struct tutti_update_rule optimizer;
    struct tutti_rate rate;
    double clip_norm; /* of all gradients, once they are summed; 0: none */
    uint64_t seed;
    enum tutti_dtype
        gradients; /* as they are reduced: TUTTI_FLOAT32 (0 means this, too), FLOAT16 or
                                   BFLOAT16 */
    /* By which losses are multiplied, and gradients divided once they are summed. Where a gradient
     * is not finite on any rank the step is skipped by all, and the scale halves. */
    struct tutti_loss_scale loss_scale;
    /* Local SGD and DiLoCo: of the outer optimizer (Nesterov): 0: weights become the average. */
    double outer_rate;
    double outer_momentum;
    bool check_sync; /* the weights of all replicas are compared at every step, by hash */
    /* As in struct tutti_strategy_params. */
    int (*collective)(void *context, const struct tutti_coll_params *params, uint32_t axis,
                      uint32_t size, struct tutti_schedule **ret, struct tutti_err *err);
    void *context;
    /* Emulated: what layers, the optimizer and the input take on the emulated device; NULL: what
     * they take here. */
    const struct tutti_layer_times *times;
    tutti_ps optimizer_ps;
    tutti_ps input_ps;
    tutti_ps deadline_ps;        /* of waits; 0: the backend's */
    struct tutti_record *record; /* NULL, or receives the events of each step */
    /* Checkpoints in this folder, which all processes share; NULL: none. The newest sound one is
     * restored when the trainer is opened, whatever the number of ranks was; one of another model
     * is refused. */
    const char *checkpoint;
    uint64_t save_steps; /* saved after every so many steps (local SGD: with the average that is
                            next); 0: not so */
    tutti_ps save_ps;    /* and once so much time has passed; 0: not so */
    bool restore_only;   /* nothing is saved there, nor cleared up; -TUTTI_EINVAL: there is none */
    uint32_t keep;       /* the newest so many; 0: all */
    /* Lines for people: what was restored, what is damaged and passed over. NULL: nobody reads. */
    void (*note)(void *context, const char *line);
    void *note_context;
    /* Examples of a replica in a step, at most, all micro-batches: there is room for the rows that
     * they touch of sparse gradients. 0: 1 */
    uint32_t samples;
    tutti_ps compress_ps; /* emulated: of all gradients, to compress them and back */
    bool unrestored;      /* what is saved is left alone: another tells how far training has come */
    /* How ranks divide the model: tensor (dense layers of one of Tutti's networks, in pairs),
     * pipeline and data, in any order; `data` and `micro_batches` of 0 are what follows. NULL: all
     * ranks have all of it. The learner is then for `data` ranks, gradients are FLOAT32, the
     * strategy all-reduces them, and the backend is none of GPUs. */
    const struct tutti_parallel *parallel;
};

/* One step, as all ranks know it. */
struct tutti_trained {
    uint64_t step;       /* steps before this one */
    uint32_t step_count; /* made: one, of local SGD as many as lie between averages */
    struct tutti_sums sums;
    double gradient_norm; /* of the summed gradient, unscaled and before it is clipped */
    double learning_rate;
    double loss_scale;     /* 1: none */
    bool skipped;          /* a gradient was not finite */
    bool stop;             /* some rank has asked to stop (tutti_trainer_stop); it is saved */
    bool in_sync;          /* with check_sync: all had equal weights when the step began */
    tutti_ps step_ps;      /* from the common start to the last rank's end */
    tutti_ps compute_ps;   /* of the first rank of this process: what it has computed; */
    tutti_ps input_ps;     /* of that, to have the examples of the first micro-batch, */
    tutti_ps update_ps;    /* and after the backward pass: sums, the report, the optimizer */
    double most_compute_s; /* of all ranks */
    double least_compute_s;
};

/* Opens threads, connections and buffers, and gives variables their first values. All processes
 * open the same. *ret is the caller's, to be closed before the backend. -TUTTI_EINVAL for what does
 * not fit together. */
int tutti_trainer_open(const struct tutti_trainer_params *params, struct tutti_trainer **ret,
                       struct tutti_err *err);
void tutti_trainer_close(struct tutti_trainer *trainer); /* NULL is a no-op */

/* One step; of local SGD as many as lie between averages. After an error the trainer is of no use
 * but to be closed. */
int tutti_trainer_step(struct tutti_trainer *trainer, struct tutti_trained *ret,
                       struct tutti_err *err);
/* Steps made so far; of local SGD those of the inner optimizer, a multiple of what lies between
 * averages unless others have begun. */
uint64_t tutti_trainer_steps(const struct tutti_trainer *trainer);
/* The schedule of a step, the trainer's. */
const struct tutti_schedule *tutti_trainer_schedule(const struct tutti_trainer *trainer);
/* What any rank, of whatever process, has computed in the last step; what it did not it has waited,
 * or moved messages. Each tells it in its report; what comes after that, the optimizer, is taken to
 * be what the first rank of this process took. */
double tutti_trainer_computed_s(const struct tutti_trainer *trainer, uint32_t rank);
/* Of that its layers, forward and backward: without input, sums, the report and the optimizer. */
double tutti_trainer_layers_s(const struct tutti_trainer *trainer, uint32_t rank);
/* Asks all ranks to stop: the step after this one says so to all (tutti_trained.stop). May be
 * called by a signal's handler. */
void tutti_trainer_stop(struct tutti_trainer *trainer);

/* Saves where training is, waits until all ranks' parts are written, and commits it. Nothing
 * without a folder, or where this step is saved already. Collective. */
int tutti_trainer_save(struct tutti_trainer *trainer, struct tutti_err *err);

/* All that training has come to, as bytes whose order and number do not depend on how many ranks
 * there are: another trainer of the same model, strategy and optimizer goes on from there, to the
 * same bits. read: of this process; write: all its ranks go on so. spread: collective, all have
 * what rank `rank` has. -TUTTI_EINVAL where ranks divide it (fsdp, zero1, ...; compression). */
uint64_t tutti_trainer_state_bytes(const struct tutti_trainer *trainer);
int tutti_trainer_read_state(struct tutti_trainer *trainer, void *to, struct tutti_err *err);
int tutti_trainer_write_state(struct tutti_trainer *trainer, const void *from,
                              struct tutti_err *err);
int tutti_trainer_spread_state(struct tutti_trainer *trainer, uint32_t rank, struct tutti_err *err);

/* The newest checkpoint that is committed in a folder, whoever trains there: for who only looks on.
 * Whether it is sound shows when it is restored. */
struct tutti_trainer_saved {
    bool is_there;        /* false: none is committed yet, or there is no such folder */
    uint64_t incarnation; /* of the start that has saved it: after a crash a step comes again */
    uint64_t step;
};
int tutti_trainer_newest(const char *folder, struct tutti_trainer_saved *ret,
                         struct tutti_err *err);

/* Variables of all layers one behind the other. */
uint64_t tutti_trainer_elements(const struct tutti_trainer *trainer);
/* The weights as they are now: `all` has room for all elements, and every rank of this process is
 * asked for what it has. Where weights are divided all processes must call it (an all-gather). */
int tutti_trainer_weights(struct tutti_trainer *trainer, float *all, struct tutti_err *err);

/* Of the bits of weights, in their order: equal on every machine for equal weights. */
uint64_t tutti_weights_hash(const float *weights, uint64_t count);

/* Held-out examples, by all ranks and processes; sums of all. -TUTTI_EINVAL: the learner has
 * none. */
int tutti_trainer_evaluate(struct tutti_trainer *trainer, struct tutti_sums *ret,
                           struct tutti_err *err);

/* ---- models and data that Tutti has
 * ----------------------------------------------------------- */

/* A network of the workload's layers on a data set: models "linear-regression", "mlp",
 * "cifar10-cnn", "bag-of-words", and those of a text whose operations are dense products, square
 * convolutions, relu, 2 x 2 pooling and dropout, and an embedding at the head, the mean of the rows
 * that an example's words name (its slices, word by word). */
struct tutti_net_learner_params {
    size_t size; /* sizeof(struct tutti_net_learner_params): runtime/api.h */
    const struct tutti_workload *model;
    /* "mnist:FOLDER", "fashion-mnist:FOLDER" (IDX files, as they are or .gz), "cifar10:FOLDER"
     * (binary version), "synthetic-mnist", "synthetic-cifar10", "synthetic-text", "line". NULL: the
     * synthetic set of the model's shape. */
    const char *data;
    uint64_t example_limit; /* of the training part; 0: all */
    uint64_t held_out_limit;
    uint64_t global_batch; /* examples of a step, of all replicas */
    uint32_t rank_count;
    uint32_t micro_batches;     /* 0: 1 */
    uint64_t seed;              /* of weights, shuffling, dropout and synthetic sets */
    bool in_order;              /* examples are not shuffled */
    bool drop_remainder;        /* leaves out the last, short batch of each epoch */
    enum tutti_tf_shard shard;  /* which files or examples a worker reads */
    enum tutti_dtype precision; /* of products' operands: FLOAT32, FLOAT16 or BFLOAT16 */
    float dropout;              /* part of activations; 0: none */
};

/* What training by such a learner comes to. */
struct tutti_net_learner_facts {
    uint64_t examples;    /* in the training part */
    uint64_t held_out;    /* in the other */
    uint64_t epoch_steps; /* steps until all have been seen */
    uint32_t classes;     /* 0: values */
    /* Of files: of 1024 examples of either part, or all, spread over it, inputs and targets; so
     * processes can compare what they read. Synthetic sets: of nothing, for name and seed say all.
     */
    uint64_t data_hash;
};

/* *ret is a learner whose context this holds; give it back with tutti_net_learner_free.
 * -TUTTI_EINVAL for a model that cannot be computed, a data set of another shape, files that are
 * not what they should be, by name. */
int tutti_net_learner_new(const struct tutti_net_learner_params *params, struct tutti_learner *ret,
                          struct tutti_net_learner_facts *ret_facts, struct tutti_err *err);
/* From now on there are so many ranks: examples are divided among them. Between two trainers: no
 * replica is open. */
void tutti_net_learner_regroup(struct tutti_learner *learner, uint32_t rank_count);
/* Who multiplies matrices: "OpenBLAS 0.3.21", or "own loops". */
const char *tutti_train_products_name(void);
void tutti_net_learner_free(struct tutti_learner *learner); /* all replicas are closed before */

TUTTI_API_END

#endif
