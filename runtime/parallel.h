/* How a model and its batch are divided over ranks: tensor, context, expert, data and pipeline
 * parallelism, what of it goes together, which ranks form which groups, and which layers a stage
 * has. Neutral to machines. As Megatron-LM has it: Narayanan et al. 2021, arXiv 2104.04473;
 * Korthikanti et al. 2022, arXiv 2205.05198 (sequence parallelism); Liu et al. 2025, arXiv
 * 2504.14960 (experts divided over the ranks of context and data). */
#ifndef TUTTI_RUNTIME_PARALLEL_H
#define TUTTI_RUNTIME_PARALLEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/pipeline.h"
#include "runtime/traffic.h"
#include "runtime/work.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_workload;

/* ---- what is divided ----------------------------------------------------------------------- */

/* Dimensions of the grid of ranks. Ranks are tensor x context x data x pipeline; experts see the
 * same ranks as tensor x expert x (context x data / expert) x pipeline. */
enum tutti_dimension {
    TUTTI_DIM_TENSOR,
    TUTTI_DIM_CONTEXT,
    TUTTI_DIM_EXPERT,
    TUTTI_DIM_DATA,
    TUTTI_DIM_PIPELINE,
    TUTTI_DIM_COUNT
};

/* How queries meet the keys and values of other parts of their sequence. */
enum tutti_context_kind {
    /* Keys and values go round a ring, in zig-zag parts, so that causal ranks have equal work: Liu
     * et al. 2023, arXiv 2310.01889; Megatron's "p2p". */
    TUTTI_CONTEXT_RING,
    TUTTI_CONTEXT_ULYSSES, /* all-to-alls from tokens to heads and back: Jacobs et al. 2023 */
    TUTTI_CONTEXT_COUNT
};

/* 0 and NULL everywhere: one rank. */
struct tutti_parallel {
    size_t size;       /* sizeof(struct tutti_parallel): runtime/api.h */
    uint32_t tensor;   /* of heads, feed-forward, vocabulary; of each expert as well */
    uint32_t context;  /* of the tokens of a sample */
    uint32_t expert;   /* of the experts of a layer; divides context x data (Megatron) */
    uint32_t data;     /* of the samples. All context x data ranks reduce dense gradients together,
                          context x data / expert those of an expert */
    uint32_t pipeline; /* devices that stages lie on */
    uint32_t virtual_stages;      /* stages of a device: interleaved 2 and more, zbv 2, others 1 */
    enum tutti_pipeline schedule; /* of pipeline > 1; one device holds one micro-batch at a time */
    bool sequence_parallel;       /* with tensor > 1: what that does not divide is by tokens */
    bool async_tensor;   /* its collectives run beside products that do not wait for them; of
                            tensor 1 there are none */
    bool scatter_gather; /* with tensor > 1 and without sequence_parallel: each of its ranks sends
                            1/tensor of what goes to the next stage, which gathers it there */
    enum tutti_context_kind context_kind;
    enum tutti_sharding sharding;
    uint32_t shard_ranks; /* that share states; 0: all context x data, else a divisor of them */
    bool keep_weights;    /* ZERO3: gathered forward and kept; with pipelines for a whole step */
    /* Dimensions on ranks, innermost first. Context is none for experts, and `expert` none for the
     * rest. All 0: tensor, context, expert, data, pipeline. */
    uint8_t order[TUTTI_DIM_COUNT];
    /* [pipeline x virtual_stages], in the order of forward passes: how many of the layers that
     * pipelines are cut between (tutti_parallel_layers) each stage has, perhaps none: a first and a
     * last stage then have the embedding and the head by themselves (Llama 3: Grattafiori et al.
     * 2024, arXiv 2407.21783, section 3.3.2); others pass on what they get (nanotron). NULL:
     * equally many; the first stages one more where that does not divide. Of one stage more than
     * layers the last has none, of two more the first as well. */
    const uint32_t *stage_layers;
    uint32_t micro_batches; /* of a step; 0: 1 */
    uint32_t micro_batch;   /* samples of one pass, of a rank and those that have the same; 0: 1 */
    double imbalance;       /* the busiest expert has so many times the mean of tokens; 0: 1 */
};

/* The same with all that is 0 filled in. -TUTTI_EINVAL: a struct of another size, more ranks than
 * 2^32 - 1, or an order that has a dimension twice. */
int tutti_parallel_complete(const struct tutti_parallel *parallel, struct tutti_parallel *ret,
                            struct tutti_err *err);

/* -TUTTI_EINVAL in one line that names what does not go together, and what would. model NULL: what
 * can be said without one. All that follow take what this has taken. */
int tutti_parallel_check(const struct tutti_parallel *parallel, const struct tutti_workload *model,
                         struct tutti_err *err);

/* tensor x context x data x pipeline */
uint32_t tutti_parallel_ranks(const struct tutti_parallel *parallel);
/* Samples of a step. */
uint64_t tutti_parallel_samples(const struct tutti_parallel *parallel);

/* "tp" "cp" "ep" "dp" "pp" */
const char *tutti_dimension_name(enum tutti_dimension dimension);
/* "tp,cp,ep,dp,pp", innermost first, by commas or as Megatron by '-'; those left out come behind in
 * this order. -TUTTI_EINVAL with what is accepted. */
int tutti_parallel_order_parse(const char *text, uint8_t ret[TUTTI_DIM_COUNT],
                               struct tutti_err *err);
/* "ring" "ulysses"; find: any case, -TUTTI_EINVAL with all. */
const char *tutti_context_name(enum tutti_context_kind kind);
int tutti_context_find(const char *name, enum tutti_context_kind *ret, struct tutti_err *err);

/* ---- groups -------------------------------------------------------------------------------- */

/* Ranks that do collectives together. */
enum tutti_parallel_group {
    TUTTI_GROUP_TENSOR,
    TUTTI_GROUP_CONTEXT,
    TUTTI_GROUP_EXPERT,      /* among them tokens are sent to experts */
    TUTTI_GROUP_DATA,        /* dense gradients: context x data */
    TUTTI_GROUP_EXPERT_DATA, /* gradients of an expert: context x data / expert */
    TUTTI_GROUP_SHARD,       /* the part of DATA that shares states: shard_ranks of it */
    TUTTI_GROUP_ACROSS,      /* the ranks of DATA that have the same share of the states */
    TUTTI_GROUP_PIPELINE,
    TUTTI_GROUP_TIED, /* first and last stage; one rank where both are on one device */
    TUTTI_GROUP_ALL,
    TUTTI_GROUP_COUNT
};

/* All groups of a kind: each rank is in one, but for TIED in one or none. Of size 1: nothing to
 * send. Its name is a word: "tensor". Where the model has no experts EXPERT_DATA is DATA. */
struct tutti_axis tutti_parallel_axis(const struct tutti_parallel *parallel,
                                      enum tutti_parallel_group group);

/* Ranks of a group of tensor parallelism that have the same heads of keys and values, since there
 * are fewer of these than ranks; of size 1 where each has its own. */
struct tutti_axis tutti_parallel_kv_axis(const struct tutti_parallel *parallel,
                                         const struct tutti_workload *model);

/* ---- stages -------------------------------------------------------------------------------- */

/* The order of work of the devices of a pipeline, for runtime/pipeline.h; of one device 1f1b. */
struct tutti_pipeline_params tutti_parallel_pipeline(const struct tutti_parallel *parallel);
/* pipeline x virtual_stages; stage s is where tutti_pipeline_place() says. */
uint32_t tutti_parallel_stage_count(const struct tutti_parallel *parallel);

/* Layers that pipelines are cut between: the equal ones of transformers, else all; repeats
 * counted. */
uint32_t tutti_parallel_layers(const struct tutti_workload *model);
/* The most stages: one for each of those, and of a transformer one for what stands before them and
 * one for what stands behind, where there is such. */
uint32_t tutti_parallel_stages_most(const struct tutti_workload *model);
/* How many of those a stage has. */
uint32_t tutti_parallel_stage_layers(const struct tutti_parallel *parallel,
                                     const struct tutti_workload *model, uint32_t stage);
/* How many of each layer's repeats a stage has. Of a transformer what comes before the equal layers
 * (embeddings) is on the first stage, and what comes behind (head, loss) on the last. ret:
 * [layer_count of the model] */
void tutti_parallel_stage_repeats(const struct tutti_parallel *parallel,
                                  const struct tutti_workload *model, uint32_t stage,
                                  uint32_t *ret);
/* The same of one layer. */
uint32_t tutti_parallel_layer_repeats(const struct tutti_parallel *parallel,
                                      const struct tutti_workload *model, uint32_t stage,
                                      uint32_t layer);

/* Parameters that a rank of a pipeline's device has, all of its stages together, before any
 * sharding; what degrees do not divide is rounded up, variable by variable. */
struct tutti_parallel_share {
    uint64_t dense;   /* reduced over context x data; with `expert` 1 all */
    uint64_t experts; /* reduced over context x data / expert */
    uint64_t whole;   /* of the dense ones, those that each rank of `tensor` has: norms, biases */
    uint64_t tied;    /* of the dense ones: the embedding's, held by the last stage once more where
                         that is not on the device of the first */
    uint64_t unreduced; /* kept but not trained */
    uint64_t repeated;  /* of the dense ones, those of keys and values that the ranks of
                           tutti_parallel_kv_axis() have as well */
};
void tutti_parallel_share_of(const struct tutti_parallel *parallel,
                             const struct tutti_workload *model, uint32_t device,
                             struct tutti_parallel_share *ret);

/* Tokens of the rank that has the busiest expert over the mean of all ranks, in millionths; other
 * experts share the rest equally. 1000000 where nothing is out of balance. */
uint32_t tutti_parallel_imbalance_ppm(const struct tutti_parallel *parallel,
                                      const struct tutti_workload *model);

/* ---- traffic ------------------------------------------------------------------------------- */

/* What is sent in a step. Of n ranks a ring all-reduce of S bytes sends 2 (n-1)/n S, all-gather,
 * reduce-scatter and all-to-all (n-1)/n S. With samples of s tokens, b of them a pass, S below is
 * sbh elements, divided by context parallelism; t tensor, c context, e expert. Full recomputation
 * repeats what is sent forward in layers. */
enum tutti_traffic_kind {
    /* Each divided product forward, and again backward: an all-reduce of S, twice a layer of a
     * transformer; with sequence parallelism all-gather and reduce-scatter, and one more
     * all-gather before each gradient of weights. Of experts divided over e: what was dispatched
     * is gathered, and scattered again. Korthikanti et al. 2022, section 4.2.2. */
    TUTTI_TRAFFIC_TENSOR,
    TUTTI_TRAFFIC_EMBEDDING, /* the same of the divided embedding: forward S; with sequence
                                parallelism scattered, and gathered backward */
    TUTTI_TRAFFIC_HEAD,      /* and of the head's input: backward S; with sequence parallelism
                                gathered twice and scattered */
    TUTTI_TRAFFIC_LOSS,      /* all-reduces of 3 floats a token, of a divided vocabulary */
    TUTTI_TRAFFIC_WHOLE,     /* with sequence parallelism gradients of what is whole on each of t;
                                with or without, of keys and values that several of t have */
    /* A ring: c-1 times the keys and values that a rank has, twice that backward, where gradients
     * go along. Ulysses: all-to-alls of queries, keys, values and output, and of their gradients.
     */
    TUTTI_TRAFFIC_CONTEXT,
    TUTTI_TRAFFIC_EXPERT,   /* a token to each of its experts and back, twice: all-to-alls. Of the
                             rank that has the busiest expert */
    TUTTI_TRAFFIC_PIPELINE, /* S to the next stage and back, divided by t where that is told */
    TUTTI_TRAFFIC_PIPELINE_GATHER, /* there gathered again: scatter_gather */
    TUTTI_TRAFFIC_GRADIENTS,       /* all-reduced or reduce-scattered over data x context, and as */
    TUTTI_TRAFFIC_WEIGHTS,         /* weights gathered: runtime/traffic.h */
    TUTTI_TRAFFIC_EXPERT_GRADIENTS,
    TUTTI_TRAFFIC_EXPERT_WEIGHTS,
    TUTTI_TRAFFIC_ACROSS,  /* all-reduces of both between groups that share states */
    TUTTI_TRAFFIC_TIED,    /* gradients of tied weights, between first and last stage */
    TUTTI_TRAFFIC_SCALARS, /* 4 bytes each: latency alone matters */
    TUTTI_TRAFFIC_KIND_COUNT
};

struct tutti_parallel_traffic_params {
    size_t size; /* sizeof(struct tutti_parallel_traffic_params): runtime/api.h */
    const struct tutti_parallel *parallel;
    const struct tutti_workload *model;
    uint32_t device;           /* of the pipeline */
    uint32_t activation_bytes; /* of an element; 0: 2 */
    uint32_t gradient_bytes;   /* 0: 4, as Megatron and nanotron reduce them */
    uint32_t weight_bytes;     /* as they are gathered; 0: 2 */
    bool full_recompute;       /* of layers */
    uint32_t scalars; /* all-reduces of one number over all ranks: 1 for the norm by which gradients
                         are clipped, 1 to see whether they are finite */
};

/* By the rank of the device that sends most. Sparse gradients count as dense ones. */
struct tutti_parallel_traffic {
    uint64_t bytes[TUTTI_TRAFFIC_KIND_COUNT];
    /* Collectives and messages; gradients and weights as if in one piece. */
    uint64_t calls[TUTTI_TRAFFIC_KIND_COUNT];
    uint64_t sum_bytes;
};

/* -TUTTI_EINVAL as tutti_parallel_check, and for a device that the pipeline has not. Sums saturate.
 */
int tutti_parallel_traffic_of(const struct tutti_parallel_traffic_params *params,
                              struct tutti_parallel_traffic *ret, struct tutti_err *err);

/* "tensor" "embedding" "head" ... */
const char *tutti_traffic_kind_name(enum tutti_traffic_kind kind);
/* Among whom; PIPELINE between neighbours in their group. */
enum tutti_parallel_group tutti_traffic_group(enum tutti_traffic_kind kind);

TUTTI_API_END

#endif
