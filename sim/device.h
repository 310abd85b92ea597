/* What a layer of a model takes on a device: products by shape, the rest by the bytes that it
 * moves, and what the host needs to issue all of it. */
#ifndef TUTTI_SIM_DEVICE_H
#define TUTTI_SIM_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/model.h"
#include "runtime/strategy.h"
#include "runtime/units.h"
#include "sim/footprint.h"
#include "topo/accelerator.h"

TUTTI_API_BEGIN

struct tutti_err;

/* What a framework makes of a device: shares of its peak rates by kind of operation, and what the
 * host needs. Each is a constant of a framework, not of a model, a size or a row. */
struct tutti_framework {
    const char *name; /* "pytorch" */
    /* Of the peak, for products of any size: what the tiles lose comes on top. */
    double matmul_fp32;
    double matmul_half; /* fp16, bf16, tf32 and narrower: matrix units */
    double convolution_fp32;
    double convolution_half;
    double attention;       /* of the matmul peak */
    double fill_elements;   /* of depth that pass before a tile's pipeline is full */
    double memory;          /* of the device memory's rate */
    double passes;          /* how often what element-wise operations read and write is moved:
                               1 is fully fused */
    double logit_bytes;     /* moved for each logit, forward and backward together */
    double optimizer_bytes; /* moved for each parameter owned */
    /* Of the host, for each operation of a layer. */
    double forward_us;
    double backward_us;
    double step_us; /* once a step: clipping, copies, what a loop over tensors costs */
    /* Of models that are cut (sim/parallel.h). */
    double layer_step_us; /* once a step, for each transformer layer of a device: loops over
                             tensors */
    double collective_us; /* of the host, for each collective of a layer, times log2 of its ranks;
                             0: launches as of any operation */
    double
        staged_collective_us; /* of the host, for each of them and each of its ranks, where stages
                                    of a pipeline are on several hosts */
    double
        wait_us; /* each of them takes so much longer than by itself, times the root of its ranks:
                       for hosts that are late */
    double message_us;     /* each message between stages, beside what its route takes */
    double bucket_MB;      /* gradients that are reduced at once; 0: all of a stage's */
    double bucket_rank_MB; /* and, where not all, at least so much for each rank that
                              reduces them */
    double rank_us;       /* of a collective of data parallelism among hosts, for each of its ranks,
                              beside what it takes by itself: networks that are slow at scale */
    double overlap;       /* of what backward could hide of gradients' collectives */
    double overlap_next;  /* of what the next forward could hide of gathered weights (ZeRO-1, -2) */
    double async_tensor;  /* of collectives that could run beside products, where they are to: in
                            backward passes beside the gradients of weights, */
    double async_forward; /* and in forward passes beside parts of the products that need them */
    /* How far apart devices that do the same are in a micro-batch, as a part of its time (the
     * coefficient of variation), and how far data that hosts read and decode drive them apart: a
     * step that is in step with others takes as long as the slowest. */
    double spread;
    double input_spread;
    const char *source;
};

/* "pytorch", "compiled", "megatron", "megatron-lm", "internevo", "deepspeed", "nanotron",
 * "tensorflow", "tensorflow-xla", "xla"; *ret_count of them. */
const struct tutti_framework *tutti_frameworks(size_t *ret_count);
/* By name, or as the columns of tables spell it ("TensorFlow 1.15 (NGC)", "Megatron-DeepSpeed,
 * 1F1B"); -TUTTI_EINVAL with all of them. */
int tutti_framework_find(const char *name, const struct tutti_framework **ret,
                         struct tutti_err *err);

/* A constant that a fit to measured steps may change, and a calibration give. */
struct tutti_framework_constant {
    const char *name; /* the field's */
    size_t offset;
    double most;  /* values are greater than 0, and no greater than this */
    double sigma; /* how far that of another cluster may well be from this one, in logarithms */
};
/* "matmul_fp32" to "step_us", in the order of the fields; *ret_count of them. */
const struct tutti_framework_constant *tutti_framework_constants(size_t *ret_count);
double tutti_framework_get(const struct tutti_framework *framework,
                           const struct tutti_framework_constant *constant);
void tutti_framework_set(struct tutti_framework *framework,
                         const struct tutti_framework_constant *constant, double value);

struct tutti_device_use {
    const struct tutti_accelerator *accelerator;
    const struct tutti_framework *framework;
    enum tutti_precision precision;
    enum tutti_recompute recompute;
    bool fused_attention;   /* FlashAttention: no s x s matrix in memory, half of it where causal */
    bool recompute_all;     /* full recomputation of layers that are no transformer's, too */
    uint32_t batch;         /* samples of a micro-batch */
    uint32_t tensor;        /* tensor parallel, t; 0: 1. Of experts each is divided as well */
    uint32_t context;       /* so many devices share the tokens of a sample; 0: 1 */
    uint32_t expert;        /* so many share the experts of a layer, and their tokens; 0: 1 */
    double imbalance;       /* the busiest of those has so many times the mean of tokens; 0: 1 */
    bool sequence_parallel; /* what `tensor` does not divide is divided by tokens */
    uint32_t kv_heads;      /* of the model: of more devices than these several have the same; 0:
                               not less than `tensor` */
};

/* One layer, once, for one micro-batch: max(device, host), forward and backward by itself. The
 * device by the roofline of each operation: a product [M x K][K x N] in the best of some tile
 * sizes, of which each multiprocessor has one at a time and a whole number in a row (waves); the
 * rest by the bytes that it moves. Backward is the two products of each, and is preceded by forward
 * once more where all is recomputed. -TUTTI_EINVAL where a rate is not known. */
int tutti_device_layer(const struct tutti_device_use *use, const struct tutti_layer *layer,
                       struct tutti_layer_times *ret, struct tutti_err *err);

/* The same before host and device are put together. What is frozen has no backward pass. */
struct tutti_layer_parts {
    tutti_ps forward_ps;           /* of the device */
    tutti_ps backward_ps;          /* gradients of inputs, and what is recomputed for them */
    tutti_ps weights_ps;           /* gradients of weights */
    tutti_ps attention_forward_ps; /* of these: what blocks of attention take */
    tutti_ps attention_backward_ps;
    tutti_ps host_forward_ps;
    tutti_ps host_backward_ps;
};
int tutti_device_layer_parts(const struct tutti_device_use *use, const struct tutti_layer *layer,
                             struct tutti_layer_parts *ret, struct tutti_err *err);

/* The optimizer over so many parameters, and what the host adds to a step. */
tutti_ps tutti_device_optimizer(const struct tutti_device_use *use, uint64_t parameters);

/* How many times the mean the slowest of so many devices takes over so many micro-batches, of data
 * that are read or made up: 1 + s x the expected largest of that many values from a standard normal
 * distribution, where s is what is left of the spread over the micro-batches. */
double tutti_device_slowest(const struct tutti_framework *framework, uint32_t device_count,
                            uint32_t micro_batches, bool synthetic);

TUTTI_API_END

#endif
