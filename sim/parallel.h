/* A training step of a model that is cut: by tensor (with sequence parallelism), context, expert,
 * pipeline and data parallelism, ZeRO and FSDP, all together. Composed of what layers take on a
 * device (device.h), what collectives take on the part of the machine that a group is (predict.h),
 * and the play of the pipeline by its devices (runtime/pipeline.h); one rank stands for all of a
 * stage. Sources: Megatron-LM (Narayanan et al. 2021, arXiv 2104.04473; Korthikanti et al. 2022,
 * arXiv 2205.05198), ZeRO (Rajbhandari et al. 2020), ring attention (Liu et al. 2023), Ulysses
 * (Jacobs et al. 2023), zero bubble (Qi et al. 2023, 2024). */
#ifndef TUTTI_SIM_PARALLEL_H
#define TUTTI_SIM_PARALLEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/parallel.h"
#include "runtime/pipeline.h"
#include "sim/device.h"
#include "sim/footprint.h"
#include "sim/train.h"

TUTTI_API_BEGIN

struct tutti_err;

/* What a device does, for traces. */
enum tutti_parallel_task {
    TUTTI_TASK_INPUT,
    TUTTI_TASK_FORWARD, /* with what is sent within the pass */
    TUTTI_TASK_BACKWARD,
    TUTTI_TASK_WEIGHTS,   /* gradients of weights, where they are a pass of their own */
    TUTTI_TASK_GRADIENTS, /* gradients reduced, where nothing hides it */
    TUTTI_TASK_OPTIMIZER,
    TUTTI_TASK_GATHER, /* weights gathered behind it */
    TUTTI_TASK_COUNT
};
const char *tutti_parallel_task_name(enum tutti_parallel_task task); /* "forward" */

struct tutti_parallel_note {
    enum tutti_parallel_task task;
    uint32_t device; /* of the pipeline */
    uint32_t chunk;  /* of the device, and its micro-batch: FORWARD to WEIGHTS */
    uint32_t micro_batch;
    tutti_ps begin_ps;
    tutti_ps end_ps;
};

struct tutti_parallel_ask {
    size_t size;                   /* sizeof(struct tutti_parallel_ask): runtime/api.h */
    const struct tutti_topo *topo; /* of as many ranks as `parallel` has */
    const struct tutti_workload *model;
    const struct tutti_parallel *parallel;
    /* accelerator NULL: the machine's; framework NULL: "megatron", or "pytorch" where nothing but
     * data is divided. Degrees, batch and imbalance are those of `parallel`. */
    struct tutti_device_use use;
    /* Of a gradient as it is reduced; 0: 4, of DeepSpeed and of ZeRO-3 at half precision 2. */
    uint32_t gradient_bytes;
    uint32_t weight_bytes; /* as it is gathered; 0: 2 at half precision, else 4 */
    enum tutti_optimizer optimizer;
    bool no_overlap; /* gradients wait for the whole backward pass, weights for the optimizer; with
                        ZeRO-3 on one stage each for the layer's passes */
    bool any_memory; /* what does not fit into a device is predicted all the same */
    double pace;     /* devices take so many times what is modelled; 0: 1 */
    tutti_ps
        anchor_ps; /* a measured step of this setting on this machine, which scales what devices
                           take alone; 0: none */
    /* Of collectives, as in struct tutti_ask; `algorithm` is of all-reduces of gradients. */
    const char *algorithm;
    const struct tutti_protocol *protocols;
    const struct tutti_nccl_version *as_nccl;
    double input_rate;      /* samples a second of one worker of a host; 0: as fast as need be */
    uint32_t input_workers; /* 0: 1 */
    uint32_t prefetch;      /* batches made ahead; 0: input and step follow each other */
    struct tutti_train_memory *memory; /* NULL, or prices of collectives, for who asks many steps */
    /* NULL, or told of each task of each device of a pipeline, device by device, in order. What
     * collectives beside the passes cost stands behind them. */
    void (*note)(void *context, const struct tutti_parallel_note *note);
    void *note_context;
    bool full_reduce; /* ZeRO-1 as nanotron has it: an all-reduce where a reduce-scatter would do */
    /* Stages do not wait for each other before the optimizer, but check afterwards what clipping
     * and scaling need of all (Qi et al. 2023, section 4): then the next step begins where a device
     * is free. Of schedules that split backward. */
    bool post_validation;
    bool synthetic; /* data are made up, not read */
    /* For who asks thousands of steps: prices of collectives between two sizes of a grid in
     * proportion, and of groups on more than 32 hosts those of 32, as much longer as NCCL's own
     * estimate says. Some per cent off; ask for the best ones again without. */
    bool coarse;
    const char *layer_algorithm; /* of all-reduces that are not of gradients of data parallelism */
};

/* Where a step's time goes on the device of the pipeline that ends last; they add up to it. */
struct tutti_parallel_split {
    tutti_ps compute_ps; /* forward and backward on the device */
    tutti_ps host_ps;    /* what launches add where the host is slower than the device */
    tutti_ps tensor_ps;  /* collectives within layers that nothing hides, by kind */
    tutti_ps context_ps;
    tutti_ps expert_ps;
    tutti_ps pipeline_ps; /* messages between stages that nothing hides */
    tutti_ps bubble_ps;   /* other stages awaited */
    tutti_ps data_ps;     /* gradients being reduced, tied weights and the norm of gradients */
    tutti_ps gather_ps;   /* weights being gathered */
    tutti_ps optimizer_ps;
    tutti_ps input_ps; /* the host's next batch awaited */
};

struct tutti_parallel_answer {
    tutti_ps step_ps;
    struct tutti_parallel_split split;
    uint64_t samples; /* of a step, all replicas */
    double samples_per_s;
    double tokens_per_s; /* 0: not sequences */
    double flops;        /* of the model, forward and backward; nothing recomputed */
    double mfu_percent;  /* of the peak of all devices */
    uint64_t parameters;
    uint32_t device_count; /* of a pipeline */
    uint32_t stage_count;
    uint32_t last_device;               /* that the split is of */
    struct tutti_footprint *footprints; /* [device of a pipeline] */
    struct tutti_stage_times *stages;   /* [stage]: of one micro-batch, collectives included */
    bool fits;
    char limited_by[160]; /* in words, and what comes next */
    const char *framework;
    const char *accelerator;
    double pace; /* of devices, over what is modelled: as asked, or as a measured step has it */
};

/* `parallel`, which outlives the ask, becomes the ask's, and both do as the framework of ask->use
 * does: between stages Megatron sends from each tensor-parallel rank a part of what is whole on all
 * of them (unless --no-scatter-gather-tensors-in-pipeline); nanotron's ZeRO-1 reduces all gradients
 * on each rank. */
void tutti_parallel_follow(struct tutti_parallel *parallel, struct tutti_parallel_ask *ask);

/* -TUTTI_EINVAL for what does not go together, fit the machine or a device's memory; -TUTTI_ELACK
 * for what is not modelled. On success tutti_parallel_answer_free() is the caller's to call. */
int tutti_parallel_predict(const struct tutti_parallel_ask *ask, struct tutti_parallel_answer *ret,
                           struct tutti_err *err);
void tutti_parallel_answer_free(struct tutti_parallel_answer *answer); /* NULL is a no-op */

TUTTI_API_END

#endif
