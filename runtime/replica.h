/* Training a model of one's own on many devices, as tf.distribute does it: the model is one
 * function, the strategy a word, and who takes part is what the launcher says.
 *
 *     struct tutti_replicas_params how = {.size = sizeof(how), .strategy = "mirrored"};
 *     tutti_replicas_open(&how, &replicas, &err);
 *     tutti_replicas_train(replicas, &model, &training, &result, &err);
 *     tutti_replicas_close(replicas);
 *
 * A replica is one copy of the model, and a thread. "onedevice" is one replica; without a launcher
 * all replicas are threads of this process, as many as asked for. Started by torchrun, mpirun,
 * srun, in pods with TF_CONFIG or with TUTTI_RANK, TUTTI_SIZE and TUTTI_ROOT (launch.h), the
 * processes meet over TCP, with the same number of replicas each. The program is the same, and with
 * one number of replicas so are the weights, to the bit. tools/examples/own_model.c is an example,
 * runtime/train/README.md the tour. Models layer by layer, whose gradients are sent while others
 * are computed, and GPUs: train.h. */
#ifndef TUTTI_RUNTIME_REPLICA_H
#define TUTTI_RUNTIME_REPLICA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/data.h"
#include "runtime/optimizer.h"
#include "runtime/train.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_backend;
struct tutti_err;
struct tutti_group;
struct tutti_replicas;

struct tutti_replicas_params {
    size_t size; /* sizeof(struct tutti_replicas_params): runtime/api.h */
    /* "onedevice", "mirrored", "multiworkermirrored", "fsdp", ...: those of tutti_strategies.
     * "onedevice", "mirrored", "central-storage" are of one process. "parameter-server", with
     * options as in servers.h ("parameter-server,sync=2"): this process is what TF_CONFIG says, a
     * worker with one replica, the chief or a server; an evaluation comes at the end alone, and
     * there is no loop of one's own. */
    const char *strategy;
    /* Of each process. 0: TUTTI_REPLICAS of the environment; without it one a process where there
     * are several, else as many as processors ("onedevice": 1). */
    uint32_t replica_count;
    bool pin; /* each replica to a processor of its own */
    /* Both or neither, borrowed: what has met and plays already (mpi.h). NULL: threads, or over TCP
     * the processes of the launcher. */
    struct tutti_backend *backend;
    struct tutti_group *group;
    tutti_ps deadline_ps; /* of waits for other replicas; 0: 30 s */
};

/* Meets the other processes. -TUTTI_EINVAL names the strategies there are, or what contradicts the
 * launcher; -TUTTI_ELACK: this process has a role that trains nothing (ps, evaluator). *ret is the
 * caller's. */
int tutti_replicas_open(const struct tutti_replicas_params *params, struct tutti_replicas **ret,
                        struct tutti_err *err);
void tutti_replicas_close(struct tutti_replicas *replicas); /* NULL is a no-op */

/* Of all processes: by what a loss is divided that is a mean over the global batch. */
uint32_t tutti_replicas_num_in_sync(const struct tutti_replicas *replicas);
/* Whether this is process 0, which writes logs and says what there is to say. */
bool tutti_replicas_is_chief(const struct tutti_replicas *replicas);
/* "mirrored, 4 replicas in 1 process on threads". */
const char *tutti_replicas_title(const struct tutti_replicas *replicas);
/* Ends training after the step that comes next, the same on all, which is saved. May be called by a
 * signal's handler. */
void tutti_replicas_stop(struct tutti_replicas *replicas);

/* ---- a model in one call --------------------------------------------------------------------- */

/* Weights, and what is learnt about them: rows x columns floats. */
struct tutti_replica_variable {
    const char *name;
    uint64_t rows;
    uint64_t columns; /* 0: 1 */
};

/* A replica's part of a step, of one micro-batch, or of the held-out examples. */
struct tutti_replica_batch {
    uint64_t step; /* from 0 on; of held-out examples 0 */
    uint32_t replica_id;
    uint32_t num_replicas_in_sync;
    uint32_t count;           /* of examples here; >= 1 */
    uint64_t global_count;    /* of examples of the step, of all replicas; held out: of all */
    const uint64_t *examples; /* [count]: their numbers */
    /* What `read` gave, or the data set holds; NULL where the model reads for itself. */
    const float *inputs;    /* [count][inputs of an example] */
    const float *targets;   /* [count]; NULL: classes */
    const uint32_t *labels; /* [count]; NULL: no classes */
    bool held_out;
};

/* Functions may be called by several threads at once, but for one replica by one at a time. What
 * fails returns a negative status and a message (status.h): then training ends everywhere. */
struct tutti_replica_model {
    size_t size;      /* sizeof(struct tutti_replica_model): runtime/api.h */
    const char *name; /* of checkpoints; the same model is called the same */
    const struct tutti_replica_variable *variables;
    uint32_t variable_count;
    void *context;
    /* What a replica needs for itself. NULL: nothing, and `replica` below is `context`. */
    int (*open)(void *context, uint32_t replica_id, void **ret_replica, struct tutti_err *err);
    void (*close)(void *replica);
    /* The first values, a function of the seed alone: params[variable]. Zeroed before. */
    int (*init)(void *context, uint64_t seed, float *const *params, struct tutti_err *err);
    /* The forward pass, and unless `grads` is NULL (held-out examples) the backward pass. Gradients
     * are those of the *sum* of losses over the batch, added to grads[variable], which are zeroed
     * before; Tutti divides them by the examples of all replicas, and sums them. *ret, zeroed
     * before, gets the sum of losses, how many examples were right (0 without classes), and how
     * many there were: as many as the batch has. */
    int (*forward_backward)(void *replica, const struct tutti_replica_batch *batch,
                            const float *const *params, float *const *grads, struct tutti_sums *ret,
                            struct tutti_err *err);

    /* Data, one of four:
     * - `data`: the name of a set, as struct tutti_net_learner_params has it;
     * - example_count, input_count and `read`: one example at a time, read ahead by a thread of
     *   each replica (inputs, and a value or, with class_count, the number of a class);
     * - example_count alone: the numbers of examples, which the model reads for itself;
     * - nothing: a stream without an end, whose example numbers go on from step to step.
     * Which replica gets which examples follows from step, global batch and seed alone. */
    const char *data;
    uint64_t example_count;
    uint64_t held_out_count; /* further ones, numbered from example_count on, for evaluation */
    uint32_t input_count;
    uint32_t class_count; /* 0: targets are values */
    int (*read)(void *context, uint64_t example, float *ret_inputs, float *ret_target,
                struct tutti_err *err);
};

/* ---- training -------------------------------------------------------------------------------- */

/* What has happened, told in process 0: a step, an evaluation, or the end. traces/train_log.h
 * makes lines of JSON, a progress line and TensorBoard's events of it. */
struct tutti_replica_seen {
    uint64_t step;                     /* made so far */
    uint64_t step_limit;               /* of this training */
    const struct tutti_trained *made;  /* the step; NULL: no step */
    const struct tutti_sums *held_out; /* the evaluation; NULL: none */
    bool has_classes;                  /* sums have an accuracy */
    /* With an evaluation and at the end: all weights, one variable behind the other; else NULL. */
    const float *weights;
    const struct tutti_replica_variable *variables;
    uint32_t variable_count;
    bool final;
    bool stopped;          /* with final: before its time (tutti_replicas_stop) */
    uint64_t weights_hash; /* with final */
};

struct tutti_replica_training {
    size_t size;                /* sizeof(struct tutti_replica_training): runtime/api.h */
    uint64_t steps;             /* in all, those of a checkpoint included */
    uint64_t batch;             /* examples of a replica in a step; 0: see global_batch */
    uint64_t global_batch;      /* or of all replicas; 0: batch (of 0: 64) times replicas */
    uint32_t micro_batches;     /* gradient accumulation: a batch goes through in so many; 0: 1 */
    const char *optimizer;      /* as tutti_update_named; NULL: "sgd" */
    double learning_rate;       /* 0: the optimizer's own */
    struct tutti_rate rate;     /* warming up, decay */
    double clip_norm;           /* 0: none */
    uint64_t seed;              /* of weights, and of the order of examples */
    bool in_order;              /* examples are not shuffled */
    bool drop_remainder;        /* leaves out the last, short batch of each epoch */
    enum tutti_dtype gradients; /* as they are sent: FLOAT32, FLOAT16 (with a dynamic loss scale) or
                                   BFLOAT16 */
    bool check_sync;            /* -TUTTI_ECHECK where replicas begin a step with other weights */
    uint64_t evaluate_steps;    /* every so many steps, and at the end; 0: at the end, if the model
                                   has held-out examples */
    const char *checkpoint;     /* folder, as in struct tutti_trainer_params; NULL: none */
    uint64_t save_steps;        /* 0: at the end, and once every 600 s */
    uint32_t keep;              /* 0: 5 */
    /* Told in process 0; < 0 ends training. NULL: nobody. */
    int (*seen)(void *context, const struct tutti_replica_seen *what, struct tutti_err *err);
    void *seen_context;
    /* Lines for people: what was restored, what is damaged. NULL: nobody reads. */
    void (*note)(void *context, const char *line);
    void *note_context;
};

struct tutti_replica_result {
    uint64_t steps; /* made in all, those of a checkpoint included */
    bool stopped;
    struct tutti_sums last;     /* of the last step made here; no examples: none was */
    struct tutti_sums held_out; /* of the last evaluation; likewise */
    uint64_t weights_hash;      /* of all weights, one variable behind the other */
};

/* Trains, from the newest checkpoint on where there is one. All processes pass the same model and
 * training (-TUTTI_EINVAL names what differs). `weights`, if not NULL, has room for all. */
int tutti_replicas_train(struct tutti_replicas *replicas, const struct tutti_replica_model *model,
                         const struct tutti_replica_training *training, float *weights,
                         struct tutti_replica_result *ret, struct tutti_err *err);

/* ---- a loop of one's own --------------------------------------------------------------------- */

/* One replica, inside tutti_replicas_run: tf.distribute's ReplicaContext. */
struct tutti_replica_context {
    uint32_t replica_id; /* of num_replicas_in_sync */
    uint32_t num_replicas_in_sync;
    struct tutti_replica_seat *seat; /* the library's */
};

/* Calls `run` once for each replica of this process, in a thread of its own where there are
 * several, and returns when all have: 0, or what failed first, in whichever process. All processes
 * call it. */
int tutti_replicas_run(struct tutti_replicas *replicas,
                       int (*run)(struct tutti_replica_context *replica, void *context,
                                  struct tutti_err *err),
                       void *context, struct tutti_err *err);

#define TUTTI_MEAN TUTTI_AVG

/* values[i] of all replicas are added up (TUTTI_SUM), or their mean is taken (TUTTI_MEAN; TUTTI_MIN
 * and TUTTI_MAX go as well), and all get the result in place. Every replica makes the same calls in
 * the same order; -TUTTI_EINVAL where they do not, -TUTTI_ETIME where one does not come. By the
 * ring: bits are the same in every run and on every backend. The values are copied twice a call. */
int tutti_replica_all_reduce(struct tutti_replica_context *replica, enum tutti_op op,
                             enum tutti_dtype dtype, void *values, size_t count,
                             struct tutti_err *err);

TUTTI_API_END

#endif
