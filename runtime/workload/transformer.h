/* What transformers share: embeddings, normalisations, the attention with its memory, the head.
 * Token embeddings are dense here, also in their gradient: tied to the head, or reduced so by the
 * frameworks that train these models. */
#ifndef TUTTI_RUNTIME_WORKLOAD_TRANSFORMER_H
#define TUTTI_RUNTIME_WORKLOAD_TRANSFORMER_H

#include "runtime/workload/build.h"

/* Rows of a table, looked up and (the second table on) added. */
void tutti_transformer_lookup(struct tutti_build *build, const char *name, enum tutti_split split,
                              uint64_t rows);

/* NAME.scale and, of a layer normalisation, NAME.shift; one position is normalised over `width`.
 * Keeps what it reads and, where products read it, what it writes: `kept` times the elements. */
struct tutti_layer_norm {
    const char *name;
    uint64_t positions;
    uint64_t width;
    bool shift;
    uint32_t kept;
};
void tutti_transformer_norm(struct tutti_build *build, struct tutti_layer_norm norm);

/* Scores of all positions with all, softmax, use: `head_size` is the mean of what scores and values
 * have. Keeps queries, keys and values (`qkv_elements`), its output, and the matrices of s x s
 * elements a head that are there without a fused kernel: the softmax's output and, with dropout, a
 * mask of a byte and what is left. */
struct tutti_attention {
    uint64_t heads;
    uint64_t head_size;
    uint64_t qkv_elements;
    uint64_t out_elements;
    bool dropout;
};
void tutti_transformer_attention(struct tutti_build *build, struct tutti_attention attention);

/* The sum with what went round a block of s x h elements; with dropout before it, the mask. */
void tutti_transformer_add(struct tutti_build *build, const char *name, bool dropout);

/* A router, then of build->transformer.experts gated feed-forwards those that it names for a token,
 * and the sum of what they say; beside them, of as many columns, `shared` experts that see all
 * tokens. A token visits active_experts of equal load. Keeps the tokens sorted by expert, the
 * inputs and the output of the gated product, and what each expert said. */
void tutti_transformer_experts(struct tutti_build *build, uint64_t shared);

/* Products of `positions` by the vocabulary, which is cut by TUTTI_SPLIT_VOCAB, and the loss. The
 * logits are told by the model, not among what is kept: how many copies of them, and of what type,
 * is the framework's choice. `tied`: with the weights of the embedding. */
void tutti_transformer_head(struct tutti_build *build, uint64_t positions, bool tied);

#endif
