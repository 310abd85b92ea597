/* The memory of one device in a training step: what it holds at its peak, term by term, and whether
 * the device has as much. States and what is saved for the backward pass are exact; the rest are
 * named constants of frameworks and devices, each with its source (sim/footprint/frameworks.c). */
#ifndef TUTTI_SIM_FOOTPRINT_H
#define TUTTI_SIM_FOOTPRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/parallel.h"
#include "runtime/traffic.h"
#include "topo/accelerator.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_workload;

enum tutti_optimizer {
    TUTTI_OPTIMIZER_SGD,
    TUTTI_OPTIMIZER_MOMENTUM, /* 4 bytes a parameter */
    TUTTI_OPTIMIZER_ADAM,     /* 8; also LAMB and AdamW */
    TUTTI_OPTIMIZER_COUNT
};

enum tutti_recompute {
    TUTTI_RECOMPUTE_NONE,
    TUTTI_RECOMPUTE_SELECTIVE, /* the matrices of attention */
    TUTTI_RECOMPUTE_FULL,      /* all of a layer: of transformers of their equal layers, else all */
    TUTTI_RECOMPUTE_COUNT
};

/* ---- frameworks ----------------------------------------------------------------------------- */

enum tutti_bucket_use {
    TUTTI_BUCKETS_NONE,  /* gradients are reduced where they lie */
    TUTTI_BUCKETS_COPY,  /* a copy of all gradients */
    TUTTI_BUCKETS_FIXED, /* up to bucket_elements */
};

/* What a framework keeps beside what formulas say. */
struct tutti_framework_memory {
    const char *name; /* "pytorch" */
    /* Bytes of a parameter in mixed precision: as held, its copy at 16 bits, its gradient, the
     * copy at 32 bits that the optimizer has. In fp32 and tf32: 4, 0, 4, 0. */
    uint8_t weight_bytes;
    uint8_t cast_bytes;
    uint8_t gradient_bytes;
    uint8_t master_bytes;
    uint8_t bucket_use;         /* enum tutti_bucket_use */
    uint16_t saved_percent;     /* of transformer layers: of what fused kernels would save */
    uint16_t fragment_permille; /* of what is allocated: reserved but of no use at the peak */
    /* Of a parameter, in thousandths: what else is there of gradients that replicas reduce. */
    uint16_t reduced_millibytes;
    uint32_t logit_millibytes; /* of a logit, in thousandths, divided by tensor parallelism; */
    uint32_t logit_whole_millibytes; /* that it does not divide: times (1 - 1/t) */
    uint64_t bucket_elements;
    uint64_t workspace_bytes; /* of matrix products, and the rest of what is there from the start */
    uint64_t convolution_bytes; /* the same, where the model has convolutions */
    const char *source;
};

const struct tutti_framework_memory *tutti_memory_frameworks(size_t *ret_count);
/* By name, or the first whose name is in the text, in any case: "Megatron-DeepSpeed" is deepspeed.
 * -TUTTI_EINVAL with the nearest. */
int tutti_memory_framework_find(const char *text, const struct tutti_framework_memory **ret,
                                struct tutti_err *err);

/* ---- what is asked -------------------------------------------------------------------------- */

/* 0 and NULL everywhere but for model and micro_batch: as usual. Degrees of 0 are 1. */
struct tutti_footprint_params {
    size_t size; /* sizeof(struct tutti_footprint_params): runtime/api.h */
    const struct tutti_workload *model;
    const struct tutti_accelerator *accelerator;    /* NULL: of no known capacity, no context */
    const struct tutti_framework_memory *framework; /* NULL: "generic", the formulas alone */
    enum tutti_precision precision; /* fp32, tf32: all of 32 bits; else mixed precision */
    enum tutti_optimizer optimizer;
    uint32_t gradient_bytes; /* of a gradient as it is kept; 0: the framework's */
    uint64_t micro_batch;    /* samples of one pass, on a device or its tensor-parallel group */
    uint32_t micro_batches;  /* of a step */
    uint32_t tensor;
    uint32_t pipeline;
    uint32_t data; /* replicas */
    uint32_t expert;
    bool sequence_parallel; /* divides what is whole on each tensor-parallel device */
    bool fused_attention;   /* its s x s matrices are never there */
    enum tutti_recompute recompute;
    enum tutti_sharding sharding;
    uint32_t shard_ranks; /* ranks that share states; 0: all `data` */
    /* Of pipelines: equal transformer layers by ceil(L/p), the embedding on the first stage and the
     * head on the last, which holds tied weights a second time. */
    uint32_t virtual_stages; /* interleaved: chunks of a device */
    bool one_stage;          /* stage `stage`; else that with the most */
    uint32_t stage;
    /* Micro-batches whose activations a stage holds at once; 0: those of 1F1B, min(m, p - stage),
     * and of interleaved 1F1B 2(p - stage - 1) + (v - 1)p + 1 chunks. GPipe: m. */
    uint32_t held;
    uint32_t channels; /* of NCCL; 0: 16 */
    /* [pipeline]: how many of the equal layers each stage has, in order; NULL: ceil(L/p). Not with
     * virtual stages. */
    const uint32_t *stage_layers;
    uint32_t
        gathered_layers; /* ZeRO-3: that have weights at once; 0: 2, one in work and the next */
    bool keeps_weights;  /* ZeRO-3: weights gathered forward stay for backward */
    bool keeps_errors;   /* what compressed gradients leave out: 4 bytes a parameter */
    /* NULL, or the degrees, in the place of all that stand above: micro_batch and micro_batches,
     * tensor to sequence_parallel, sharding and shard_ranks, virtual_stages, stage_layers,
     * keeps_weights. With it stages are devices, which hold what their tasks say, chunk by chunk
     * (runtime/pipeline.h); what is saved is divided by context parallelism as well; and the device
     * is one with the busiest expert. Of experts divided over ranks, tensor parallelism gathers
     * what was dispatched, and keeps it whole. */
    const struct tutti_parallel *parallel;
};

/* ---- what comes out ------------------------------------------------------------------------- */

enum tutti_memory_term {
    TUTTI_MEMORY_WEIGHTS,
    TUTTI_MEMORY_GRADIENTS,
    TUTTI_MEMORY_OPTIMIZER,
    TUTTI_MEMORY_ACTIVATIONS, /* saved for the backward pass */
    TUTTI_MEMORY_RECOMPUTED,  /* saved again while a layer is recomputed, and */
    TUTTI_MEMORY_LOGITS,      /* with their softmax and gradient */
    TUTTI_MEMORY_TEMPORARIES, /* inputs and outputs of the largest operation: of both only what is
                                 beyond the logits and the layers behind, gone by then */
    TUTTI_MEMORY_BUCKETS,     /* copies of gradients that are being reduced */
    TUTTI_MEMORY_GATHERED,    /* ZeRO-3: two layers' weights, one layer's gradients */
    TUTTI_MEMORY_INPUT,       /* two batches */
    TUTTI_MEMORY_WORKSPACE,
    TUTTI_MEMORY_CONTEXT, /* from here on: not of the framework's allocator */
    TUTTI_MEMORY_COLLECTIVES,
    TUTTI_MEMORY_FRAGMENTATION,
    TUTTI_MEMORY_TERM_COUNT
};

struct tutti_footprint {
    uint64_t bytes[TUTTI_MEMORY_TERM_COUNT];
    uint64_t allocated_bytes; /* at the peak, as torch.cuda.max_memory_allocated() says */
    uint64_t total_bytes;     /* of the device */
    uint64_t capacity_bytes;  /* 0: not known */
    bool fits;
    uint32_t stage; /* of a pipeline: the one, or the device, that this is */
};

/* -TUTTI_EINVAL for what does not go together; -TUTTI_ENOMEM. Sums saturate. */
int tutti_footprint_of(const struct tutti_footprint_params *params, struct tutti_footprint *ret,
                       struct tutti_err *err);

/* Of each device of a pipeline. ret: [pipeline]; `one_stage` and `stage` mean nothing. */
int tutti_footprint_stages(const struct tutti_footprint_params *params, struct tutti_footprint *ret,
                           struct tutti_err *err);

/* 0 where it fits; else -TUTTI_EINVAL with the three largest terms and with what would make it fit,
 * found by trying: smaller micro-batches, recomputation, ZeRO stages, more devices. */
int tutti_footprint_check(const struct tutti_footprint_params *params, struct tutti_err *err);

const char *tutti_memory_term_name(enum tutti_memory_term term); /* "optimizer" */
/* "sgd" "momentum" "adam"; "none" "selective" "full"; find: any case, -TUTTI_EINVAL with all. */
const char *tutti_optimizer_name(enum tutti_optimizer optimizer);
int tutti_optimizer_find(const char *name, enum tutti_optimizer *ret, struct tutti_err *err);
const char *tutti_recompute_name(enum tutti_recompute recompute);
int tutti_recompute_find(const char *name, enum tutti_recompute *ret, struct tutti_err *err);

TUTTI_API_END

#endif
