/* Models as layers: what training one costs, before anyone says on what machine. Parameters, FLOPs
 * of the forward pass, activations and what must be kept for the backward pass, of one sample. */
#ifndef TUTTI_RUNTIME_MODEL_H
#define TUTTI_RUNTIME_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/work.h"

TUTTI_API_BEGIN

struct tutti_err;

/* How tensor parallelism over t devices divides an operation, a variable or saved activations. */
enum tutti_split {
    TUTTI_SPLIT_NONE,    /* each of the t does all of it */
    TUTTI_SPLIT_COLUMNS, /* each has 1/t of the output columns */
    TUTTI_SPLIT_ROWS,    /* each has 1/t of the input columns; the outputs are partial sums */
    TUTTI_SPLIT_HEADS,   /* each has 1/t of the attention heads */
    TUTTI_SPLIT_VOCAB,   /* each has 1/t of the vocabulary */
    TUTTI_SPLIT_EXPERTS, /* of expert parallelism: each has 1/e of the experts */
    TUTTI_SPLIT_COUNT
};

/* "none", "columns", "rows", ... */
const char *tutti_split_name(enum tutti_split split);

/* One operation of a layer, forward, for one sample (an image; a sequence of the model's length).
 * Backward does as much for each operand that has a gradient: twice that for a product with
 * weights, and once the element-wise rest. */
struct tutti_operation {
    const char *name;          /* one word: "qkv", "conv2" */
    enum tutti_work_kind kind; /* MATMUL, CONVOLUTION, ATTENTION, NORMALIZATION, ELEMENTWISE, ... */
    enum tutti_split split;
    uint32_t
        count; /* so many products of the shape below: groups of a convolution, active experts */
    /* MATMUL: [rows x depth] times [depth x columns]. CONVOLUTION as a product: rows = output
     * positions, depth = kernel height x width x input channels of a group, columns = output
     * channels of a group. ATTENTION: rows queries, columns keys, depth = head size x heads.
     * Others: 0. */
    uint64_t rows;
    uint64_t columns;
    uint64_t depth;
    uint64_t flops; /* multiply-add = 2; all `count` together; attention in full, not halved; of
                       what is no product 0, as in the sums that MFU is made of */
    uint64_t in_elements;   /* activations read */
    uint64_t out_elements;  /* activations written */
    bool no_input_gradient; /* the first layer's: its backward is half as much */
    /* Of both together, those of keys and values (of the output of a product of queries, keys and
     * values its columns): tutti_held_part(). */
    uint64_t kv_elements;
};

struct tutti_variable {
    const char *name;
    enum tutti_split split;
    uint64_t rows;     /* the first axis, along which partitioners cut; 1 for a scalar */
    uint64_t elements; /* trained, and reduced by data parallelism */
    /* An embedding whose gradient is sparse: a sample touches at most so many rows. 0: dense */
    uint64_t touched_rows;
    bool unreduced;       /* kept but not trained: moving statistics of batch normalisation */
    uint64_t kv_elements; /* of `elements`, those that keys and values are made by */
};

/* What the backward pass needs of one sample, as long as nothing is recomputed. Elements take the
 * bytes of the activations' type (2 at half precision); bytes are masks, whatever the type.
 * Korthikanti et al. 2022, section 4, at half precision: s b h (10 + 24/t + 5 a s/(h t)) is
 * {10 whole, 24 split, 5 a s^2 attention}. */
struct tutti_saved {
    uint64_t
        whole_elements; /* on each of the t devices, unless sequence parallelism divides them */
    uint64_t whole_bytes;
    uint64_t split_elements; /* divided by t */
    uint64_t split_bytes;
    uint64_t
        attention_elements;   /* of the s x s matrices; none with a fused kernel, or where only */
    uint64_t attention_bytes; /* they are recomputed */
    uint64_t input_elements;  /* of the layer's input: all there is with full recomputation */
    uint64_t kv_elements;     /* of `split_elements`, those of keys and values */
};

/* A layer is what a framework calls a block: the unit of FSDP, of pipeline stages and of the host's
 * floor. */
struct tutti_layer {
    const char *name;
    uint32_t repeat; /* so many of these in a row, >= 1 */
    const struct tutti_operation *operations;
    uint32_t operation_count;
    const struct tutti_variable *variables; /* in the order in which forward uses them */
    uint32_t variable_count;
    struct tutti_saved saved;
    bool is_transformer; /* one of the L equal layers of Megatron's formulas */
    bool is_frozen;      /* not trained, nor is anything before it: it has no backward pass */
};

enum tutti_sample_kind {
    TUTTI_SAMPLE_IMAGE,
    TUTTI_SAMPLE_SEQUENCE,
    TUTTI_SAMPLE_ROW,
    TUTTI_SAMPLE_COUNT
};

/* "image", "sequence", "row". */
const char *tutti_sample_name(enum tutti_sample_kind sample);

/* What a transformer is made of; zeros for others. */
struct tutti_transformer {
    uint32_t layers;
    uint32_t hidden;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t feed_forward; /* of one expert */
    uint32_t vocabulary;
    uint32_t experts;        /* 0: dense */
    uint32_t active_experts; /* a token */
    bool gated;              /* feed-forward of three products */
    bool tied;               /* embedding and head share their weights */
};

struct tutti_workload {
    const char *name;
    const char *summary;
    const char *source; /* where the figures come from */
    enum tutti_sample_kind sample;
    uint32_t sequence;     /* tokens of a sample; 1: none */
    uint64_t sample_bytes; /* of an input sample as the host passes it on, labels included */
    uint64_t logits;       /* elements of the last layer's output; not among what is saved */
    uint64_t examples;     /* of the data set that the model is known for; 0 none */
    struct tutti_transformer transformer;
    const struct tutti_layer *layers; /* in forward order */
    uint32_t layer_count;
    struct tutti_arena *arena;
};

/* 0 everywhere: as the model is known. */
struct tutti_model_params {
    size_t size; /* sizeof(struct tutti_model_params): runtime/api.h */
    uint32_t sequence;
    uint32_t vocabulary;
    uint32_t classes;
    uint32_t image;       /* pixels a side */
    uint32_t predictions; /* of BERT: positions a sequence whose tokens are hidden and predicted */
    /* For "gpt" and "llama" alone: layers, hidden and heads must be there; kv_heads of 0 are heads,
     * feed_forward of 0 is 4 hidden, of "llama" 8/3 of it rounded up to 256. Llamas are gated and
     * GPTs tied, whatever stands here. */
    struct tutti_transformer transformer;
};

/* The models there are: "resnet50", "llama3-8b", ... */
struct tutti_model_entry {
    const char *name;
    const char *summary;
    const char *source; /* where its figures come from */
};
/* Number `index` of them; false from the last on. */
bool tutti_model_at(size_t index, struct tutti_model_entry *ret);

/* A model by name; params may be NULL. -TUTTI_EINVAL with the nearest names, or for parameters that
 * it has not. The caller frees it. */
int tutti_model_new(const char *name, const struct tutti_model_params *params,
                    struct tutti_workload **ret, struct tutti_err *err);
void tutti_model_free(struct tutti_workload *model); /* NULL is a no-op */

/* The model that a published table means by its words (of the column that names it, and of what
 * else was set, one behind the other), such as "ResNet-50 v1.5", "Faster R-CNN: R50-FPN 3x" or
 * "LanguageModeling/BERT" of so many tokens (0: not said), with the sizes that the words say in
 * *ret. NULL, and nothing in *ret: none of those there are, or a model that the words leave open.
 * Llama-like and GPT-like models whose shape is stated beside are "llama" and "gpt". */
const char *tutti_model_recognize(const char *words, uint32_t sequence,
                                  struct tutti_model_params *ret);

/* The text form of a model of one's own (grammar at the top of runtime/workload/model_text.c);
 * parse(print(m)) is m. `name` is the file's, of messages. *ret of print: free(). */
int tutti_model_parse(const char *name, const char *text, size_t bytes, struct tutti_workload **ret,
                      struct tutti_err *err);
int tutti_model_print(const struct tutti_workload *model, char **ret, struct tutti_err *err);

/* Sums over all layers. */
struct tutti_model_sums {
    uint64_t parameters;        /* trained; tied ones once */
    uint64_t active_parameters; /* that a token uses: those of the experts that it goes to */
    uint64_t unreduced;         /* kept but not trained */
    uint64_t variable_count;
    uint64_t flops;           /* forward, one sample, attention in full */
    uint64_t attention_flops; /* the part of attention in it */
    struct tutti_saved saved;
};
struct tutti_model_sums tutti_model_sum(const struct tutti_workload *model);

/* What each of `tensor` devices has of elements, of which `kv_elements` are of keys and values.
 * Where there are fewer heads of these than devices (`kv_heads`; 0: not) several have the same one,
 * as neuronx-distributed (GQAQKVColumnParallelLinear) and vLLM do it. Rounded up. */
uint64_t tutti_held_part(uint64_t elements, uint64_t kv_elements, uint32_t tensor,
                         uint32_t kv_heads);
/* What a device of tensor and expert parallelism has of a variable. */
uint64_t tutti_variable_part(const struct tutti_variable *variable,
                             const struct tutti_workload *model, uint32_t tensor, uint32_t expert);

TUTTI_API_END

#endif
