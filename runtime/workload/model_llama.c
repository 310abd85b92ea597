/* Llama, Mixtral and Nemotron: rotary positions, RMS normalisation before each block, grouped
 * queries, a gated feed-forward without biases, which in Mixtral is one of several experts a token;
 * of one's own shape as "llama". The gated product is one kernel: it keeps its two inputs and its
 * output. Nemotron has layer normalisation with a shift, and a feed-forward of two products with
 * the square of a ReLU between. */
#include "runtime/workload/transformer.h"

/* Nemotron is the one that has no gate. */
static void norm(struct tutti_build *b, const char *name)
{
    tutti_transformer_norm(b, (struct tutti_layer_norm){.name = name,
                                                        .positions = b->sequence,
                                                        .width = b->transformer.hidden,
                                                        .shift = !b->transformer.gated,
                                                        .kept = 2});
}

static void attention(struct tutti_build *b)
{
    const struct tutti_transformer *t = &b->transformer;
    uint64_t s = b->sequence;
    uint64_t h = t->hidden;
    uint64_t head = h / t->heads;
    uint64_t kv = head * t->kv_heads;

    norm(b, "norm1");
    tutti_build_dense(
        b, (struct tutti_dense){"qkv", TUTTI_SPLIT_COLUMNS, s, h, h + 2 * kv, false, false});
    tutti_build_kv(b, 2 * s * kv, 2 * h * kv);
    tutti_build_step(b, "rotary", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_HEADS, s * (h + kv),
                     s * (h + kv));
    tutti_build_kv(b, 2 * s * kv, 0); /* keys alone, read and written */
    tutti_transformer_attention(
        b, (struct tutti_attention){t->heads, head, s * (h + 2 * kv), s * h, false});
    tutti_build_kv(b, 2 * s * kv, 0);
    tutti_build_save(b, (struct tutti_saved){.kv_elements = 2 * s * kv});
    tutti_build_dense(b, (struct tutti_dense){"proj", TUTTI_SPLIT_ROWS, s, h, h, false, false});
    tutti_transformer_add(b, "sum1", false);
}

static void feed_forward(struct tutti_build *b)
{
    uint64_t s = b->sequence;
    uint64_t h = b->transformer.hidden;
    uint64_t f = b->transformer.feed_forward;

    tutti_build_dense(
        b, (struct tutti_dense){"gate.up", TUTTI_SPLIT_COLUMNS, s, h, 2 * f, false, false});
    tutti_build_step(b, "swiglu", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_COLUMNS, 2 * s * f, s * f);
    tutti_build_dense(b, (struct tutti_dense){"down", TUTTI_SPLIT_ROWS, s, f, h, false, false});
    tutti_build_save(b, (struct tutti_saved){.split_elements = 3 * s * f});
}

static void squared_feed_forward(struct tutti_build *b)
{
    uint64_t s = b->sequence;
    uint64_t h = b->transformer.hidden;
    uint64_t f = b->transformer.feed_forward;

    tutti_build_dense(b, (struct tutti_dense){"up", TUTTI_SPLIT_COLUMNS, s, h, f, false, false});
    tutti_build_step(b, "relu2", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_COLUMNS, s * f, s * f);
    tutti_build_dense(b, (struct tutti_dense){"down", TUTTI_SPLIT_ROWS, s, f, h, false, false});
    tutti_build_save(b, (struct tutti_saved){.split_elements = 2 * s * f});
}

static void layers(struct tutti_build *b)
{
    const struct tutti_transformer *t = &b->transformer;
    uint64_t s = b->sequence;
    uint64_t h = t->hidden;

    tutti_build_layer(b, "layer", t->layers, s * h);
    attention(b);
    norm(b, "norm2");
    if (t->experts > 0)
        tutti_transformer_experts(b, 0);
    else if (t->gated)
        feed_forward(b);
    else
        squared_feed_forward(b);
    tutti_transformer_add(b, "sum2", false);
    if (!b->no_memory)
        tutti_build_last(b)->is_transformer = true;
}

static void llama(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    uint64_t s = b->sequence;
    uint64_t h = b->transformer.hidden;

    (void)kind;
    tutti_build_layer(b, "embedding", 1, s);
    tutti_transformer_lookup(b, "tokens", TUTTI_SPLIT_VOCAB, b->vocabulary);
    layers(b);
    tutti_build_layer(b, "head", 1, s * h);
    norm(b, "norm");
    tutti_transformer_head(b, s, b->transformer.tied);
    b->sample_bytes = 8 * s; /* a token is an integer of 64 bits; its label is the next one */
}

#define LLAMA(model, words, from, tokens, v, l, h, a, kv, f, ...)                         \
    {                                                                                     \
        .name = model, .summary = words, .source = from, .sample = TUTTI_SAMPLE_SEQUENCE, \
        .sequence = tokens, .vocabulary = v,                                              \
        .transformer = {.layers = l,                                                      \
                        .hidden = h,                                                      \
                        .heads = a,                                                       \
                        .kv_heads = kv,                                                   \
                        .feed_forward = f,                                                \
                        .gated = true,                                                    \
                        __VA_ARGS__},                                                     \
        .build = llama                                                                    \
    }

#define NEMOTRON(model, words, l, h, a, f)                                                       \
    {                                                                                            \
        .name = model, .summary = words,                                                         \
        .source = "Parmar et al. 2024, arXiv 2402.16819; Adler et al., arXiv 2406.11704",        \
        .sample = TUTTI_SAMPLE_SEQUENCE, .sequence = 4096, .vocabulary = 256000,                 \
        .transformer = {.layers = l, .hidden = h, .heads = a, .kv_heads = 8, .feed_forward = f}, \
        .build = llama                                                                           \
    }

#define LLAMA2  "Touvron et al. 2023, arXiv 2307.09288, and the configurations published with it"
#define LLAMA3  "Llama team 2024, arXiv 2407.21783, and the configurations published with it"
#define MIXTRAL "Jiang et al. 2024, arXiv 2401.04088, and the configurations published with it"

static const struct tutti_model_kind kinds[] = {
    LLAMA("llama2-7b", "Llama 2 7B", LLAMA2, 4096, 32000, 32, 4096, 32, 32, 11008, .tied = false),
    LLAMA("llama2-13b", "Llama 2 13B", LLAMA2, 4096, 32000, 40, 5120, 40, 40, 13824, .tied = false),
    LLAMA("llama2-70b", "Llama 2 70B", LLAMA2, 4096, 32000, 80, 8192, 64, 8, 28672, .tied = false),
    LLAMA("llama3-8b", "Llama 3 8B", LLAMA3, 8192, 128256, 32, 4096, 32, 8, 14336, .tied = false),
    LLAMA("llama3-70b", "Llama 3 70B", LLAMA3, 8192, 128256, 80, 8192, 64, 8, 28672, .tied = false),
    LLAMA("llama3-405b", "Llama 3.1 405B", LLAMA3, 8192, 128256, 126, 16384, 128, 8, 53248,
          .tied = false),
    LLAMA("llama3.2-1b", "Llama 3.2 1B", LLAMA3, 8192, 128256, 16, 2048, 32, 8, 8192, .tied = true),
    LLAMA("llama3.2-3b", "Llama 3.2 3B", LLAMA3, 8192, 128256, 28, 3072, 24, 8, 8192, .tied = true),
    LLAMA("mixtral-8x7b", "Mixtral 8x7B, 2 of 8 experts a token", MIXTRAL, 4096, 32000, 32, 4096,
          32, 8, 14336, .experts = 8, .active_experts = 2),
    LLAMA("mixtral-8x22b", "Mixtral 8x22B, 2 of 8 experts a token", MIXTRAL, 4096, 32768, 56, 6144,
          48, 8, 16384, .experts = 8, .active_experts = 2),
    NEMOTRON("nemotron4-15b", "Nemotron-4 15B", 32, 6144, 48, 24576),
    NEMOTRON("nemotron4-340b", "Nemotron-4 340B", 96, 18432, 96, 73728),
    {.name = "llama",
     .summary = "a Llama or Mixtral of one's own shape",
     .source = "layers as in Llama; the shape is the caller's",
     .sample = TUTTI_SAMPLE_SEQUENCE,
     .sequence = 4096,
     .vocabulary = 32000,
     .transformer = {.gated = true},
     .asks_shape = true,
     .build = llama},
};

const struct tutti_model_family tutti_family_llama = {kinds, sizeof(kinds) / sizeof(kinds[0])};
