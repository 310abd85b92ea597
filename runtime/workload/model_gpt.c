/* GPT: learned positions, layer normalisation before each block, GELU, dropout, a tied head; of
 * one's own shape as "gpt". A layer keeps s h (10 + 24/t) + 5 a s^2/t bytes a sequence at half
 * precision: Korthikanti et al. 2022, section 4. */
#include "runtime/workload/transformer.h"

static void embed(struct tutti_build *b, uint64_t positions)
{
    uint64_t sh = b->sequence * b->transformer.hidden;

    tutti_build_layer(b, "embedding", 1, b->sequence);
    tutti_transformer_lookup(b, "tokens", TUTTI_SPLIT_VOCAB, b->vocabulary);
    tutti_transformer_lookup(b, "positions", TUTTI_SPLIT_NONE, positions);
    tutti_build_step(b, "dropout", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, sh, sh);
    tutti_build_save(b, (struct tutti_saved){.whole_bytes = sh});
}

static void layers(struct tutti_build *b)
{
    uint64_t s = b->sequence;
    uint64_t h = b->transformer.hidden;
    uint64_t f = b->transformer.feed_forward;
    uint64_t heads = b->transformer.heads;

    tutti_build_layer(b, "layer", b->transformer.layers, s * h);
    tutti_transformer_norm(b, (struct tutti_layer_norm){"norm1", s, h, .shift = true, .kept = 2});
    tutti_build_dense(b,
                      (struct tutti_dense){"qkv", TUTTI_SPLIT_COLUMNS, s, h, 3 * h, true, false});
    tutti_transformer_attention(b,
                                (struct tutti_attention){heads, h / heads, 3 * s * h, s * h, true});
    tutti_build_dense(b, (struct tutti_dense){"proj", TUTTI_SPLIT_ROWS, s, h, h, true, false});
    tutti_transformer_add(b, "sum1", true);
    tutti_transformer_norm(b, (struct tutti_layer_norm){"norm2", s, h, .shift = true, .kept = 2});
    tutti_build_dense(b, (struct tutti_dense){"up", TUTTI_SPLIT_COLUMNS, s, h, f, true, false});
    tutti_build_step(b, "gelu", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_COLUMNS, s * f, s * f);
    tutti_build_dense(b, (struct tutti_dense){"down", TUTTI_SPLIT_ROWS, s, f, h, true, false});
    tutti_build_save(b, (struct tutti_saved){.split_elements = 2 * s * f}); /* GELU's in and out */
    tutti_transformer_add(b, "sum2", true);
    if (!b->no_memory)
        tutti_build_last(b)->is_transformer = true;
}

/* As many positions are learned as the model has: more where a longer sequence is asked for. */
static void gpt(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    uint64_t s = b->sequence;
    uint64_t h = b->transformer.hidden;

    embed(b, s > kind->sequence || kind->asks_shape ? s : kind->sequence);
    layers(b);
    tutti_build_layer(b, "head", 1, s * h);
    tutti_transformer_norm(b, (struct tutti_layer_norm){"norm", s, h, .shift = true, .kept = 2});
    tutti_transformer_head(b, s, true);
    b->sample_bytes = 8 * s; /* a token is an integer of 64 bits; its label is the next one */
}

#define GPT(model, words, from, tokens, l, h, a)                                          \
    {                                                                                     \
        .name = model, .summary = words, .source = from, .sample = TUTTI_SAMPLE_SEQUENCE, \
        .sequence = tokens, .vocabulary = 50257,                                          \
        .transformer = {.layers = l,                                                      \
                        .hidden = h,                                                      \
                        .heads = a,                                                       \
                        .kv_heads = a,                                                    \
                        .feed_forward = 4 * h,                                            \
                        .tied = true},                                                    \
        .build = gpt                                                                      \
    }

#define GPT2 "Radford et al. 2019, Language models are unsupervised multitask learners"
#define GPT3 "Brown et al. 2020, arXiv 2005.14165, table 2.1; attention in full"

static const struct tutti_model_kind kinds[] = {
    GPT("gpt2", "GPT-2, 124M parameters", GPT2, 1024, 12, 768, 12),
    GPT("gpt2-355m", "GPT-2 medium", GPT2, 1024, 24, 1024, 16),
    GPT("gpt2-774m", "GPT-2 large", GPT2, 1024, 36, 1280, 20),
    GPT("gpt2-1558m", "GPT-2 XL", GPT2, 1024, 48, 1600, 25),
    GPT("gpt3-6.7b", "GPT-3 6.7B", GPT3, 2048, 32, 4096, 32),
    GPT("gpt3-175b", "GPT-3 175B", GPT3, 2048, 96, 12288, 96),
    {.name = "gpt",
     .summary = "a GPT of one's own shape",
     .source = "layers as in GPT-2 and Megatron-LM; the shape is the caller's",
     .sample = TUTTI_SAMPLE_SEQUENCE,
     .sequence = 1024,
     .vocabulary = 50257,
     .transformer = {.tied = true},
     .asks_shape = true,
     .build = gpt},
};

const struct tutti_model_family tutti_family_gpt = {kinds, sizeof(kinds) / sizeof(kinds[0])};
