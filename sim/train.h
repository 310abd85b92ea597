/* A training step predicted: a model by a strategy on a machine, how its time divides, and why. */
#ifndef TUTTI_SIM_TRAIN_H
#define TUTTI_SIM_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/model.h"
#include "runtime/strategy.h"
#include "sim/device.h"
#include "sim/footprint.h"
#include "sim/predict.h"
#include "sim/step.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_train_memory;

/* A collective of a step: what it is, what would run it, and what it takes by itself. */
struct tutti_train_call {
    uint32_t callee; /* of the schedule */
    uint32_t axis;   /* that its groups are of */
    uint32_t ranks;  /* of a group */
    enum tutti_collective collective;
    uint64_t bytes;
    const char *algorithm; /* NULL: that of the schedule, simulated as it stands */
    const char *protocol;  /* NULL: none */
    tutti_ps alone_ps;     /* all groups at once, and nothing beside */
};

struct tutti_train_ask {
    size_t size;                   /* sizeof(struct tutti_train_ask): runtime/api.h */
    const struct tutti_topo *topo; /* each rank is a replica */
    const struct tutti_workload *model;
    const struct tutti_strategy *strategy;
    struct tutti_device_use use; /* accelerator NULL: the machine's; framework NULL: by strategy */
    uint32_t micro_batches;      /* gradient accumulation; 0: 1 */
    uint32_t shard_ranks;        /* of a group that shares states; 0: all, of hsdp a host */
    /* Of an element as it is reduced, or averaged by local SGD; 0: 4, of fsdp at half precision 2.
     */
    uint32_t gradient_bytes;
    uint32_t weight_bytes; /* as it is gathered; 0: 2 at half precision, else 4 */
    const char *algorithm; /* of collectives; NULL: the strategy's, or the machine's library */
    const struct tutti_algorithm_set *added; /* NULL, or where `algorithm` may be as well */
    uint32_t channels; /* of all-reduces by `algorithm`, as in struct tutti_coll_params; 0: its own
                          choice. "hierarchical-copy": tensors, with their roots in turn */
    const struct tutti_protocol *protocols; /* as in struct tutti_ask */
    const struct tutti_nccl_version *as_nccl;
    /* The input pipeline of a host: samples a second by one worker, workers, and batches that are
     * made ahead: 0 means none, so that input and step follow each other. A rate of 0: as fast as
     * need be. */
    double input_rate;
    uint32_t input_workers; /* 0: 1 */
    uint32_t prefetch;
    /* A measured step of one device (or of this machine) at this batch, which scales what devices
     * take: 0 none. */
    tutti_ps anchor_ps;
    const uint32_t *pace_ppm;       /* NULL, or [rank], as in struct tutti_step_opts */
    bool synthetic;                 /* data are made up, not read */
    double pace;                    /* devices take so many times what is modelled; 0: 1 */
    enum tutti_optimizer optimizer; /* of states in memory */
    bool any_memory;                /* what does not fit into a device is predicted all the same */
    /* Every message is simulated, of all-reduces by `algorithm`; without one, of a library's and of
     * other collectives those of rings. */
    bool exact;
    /* NULL, or told of each step of each rank that is played, of which there is one of all that do
     * the same: the one with the least number, 0 among them. */
    void (*note)(void *context, const struct tutti_step_note *note);
    /* NULL, or told of each collective once, before it begins for the first time; not if `exact`.
     */
    void (*call)(void *context, const struct tutti_train_call *call);
    void *note_context;
    struct tutti_train_memory *memory; /* NULL, or what steps tell each other */
};

/* Where a step's time goes, on the rank that ends last; they add up to it. */
struct tutti_train_split {
    tutti_ps compute_ps; /* forward, backward and optimizer as they are alone */
    tutti_ps slowed_ps;  /* by collectives that hold multiprocessors */
    tutti_ps reduce_ps;  /* waiting for gradients to be reduced */
    tutti_ps gather_ps;  /* for weights to be gathered */
    tutti_ps across_ps;  /* for sums across groups */
    tutti_ps input_ps;   /* for the host to have the next batch */
    tutti_ps late_ps;    /* for ranks that come later to a collective */
};

struct tutti_train_answer {
    tutti_ps step_ps; /* of local SGD the mean of all its steps */
    struct tutti_train_split split;
    tutti_ps communication_ps; /* what collectives take by themselves, hidden or not */
    uint64_t samples;          /* of a step, all replicas */
    double samples_per_s;
    double tokens_per_s; /* 0: not sequences */
    double flops;        /* of the model, forward and backward, all replicas; nothing recomputed */
    double mfu_percent;  /* of the peak of all devices */
    uint64_t parameters;
    uint64_t reduced_bytes; /* of gradients a rank and step, as they are reduced */
    const char *framework;
    const char *accelerator;
    const char *algorithm; /* of the largest collective, and its protocol */
    const char *protocol;
    uint32_t class_count;
    struct tutti_footprint footprint; /* of a device */
    char limited_by[160];             /* the bottleneck in words, and what comes next */
};

/* -TUTTI_EINVAL for what does not fit together, or into a device, says what would; -TUTTI_ELACK for
 * what is not modelled. */
int tutti_train_predict(const struct tutti_train_ask *ask, struct tutti_train_answer *ret,
                        struct tutti_err *err);

/* For who predicts many steps: what a collective takes on a machine, once for all of them. Answers
 * are the same as without. Machines are known by their names: they are as their SPECs say, none
 * of them changed since, and questions about machines of one name have the same `protocols`,
 * `as_nccl` and `added`. Of one thread at a time. */
int tutti_train_memory_new(struct tutti_train_memory **ret, struct tutti_err *err);
void tutti_train_memory_free(struct tutti_train_memory *memory); /* NULL is a no-op */

/* What a device takes in the step that is simulated: *ret[layer of the model] for one micro-batch,
 * to be freed by the caller, the optimizer, and compressing all gradients. For who plays the step
 * otherwise than this does. */
int tutti_train_device_times(const struct tutti_train_ask *ask, struct tutti_layer_times **ret,
                             tutti_ps *ret_optimizer_ps, tutti_ps *ret_compress_ps,
                             struct tutti_err *err);

/* What a device holds in the step, without predicting it. -TUTTI_EINVAL, as of predicting, where it
 * has not so much memory and the question is not for any. */
int tutti_train_footprint(const struct tutti_train_ask *ask, struct tutti_footprint *ret,
                          struct tutti_err *err);

/* The schedule that is simulated; the caller frees it. */
int tutti_train_schedule(const struct tutti_train_ask *ask, struct tutti_schedule **ret,
                         struct tutti_err *err);

/* A machine like this one of so many devices, of presets alone: fewer or more hosts, some devices
 * of one host, another slice of a pod (the most even that the preset has). -TUTTI_EINVAL: there is
 * none. The caller frees it. */
int tutti_train_machine(const struct tutti_topo *topo, uint32_t device_count,
                        struct tutti_topo **ret, struct tutti_err *err);

TUTTI_API_END

#endif
