/* DeepSeek-V3 without its layer of multi-token prediction: attention whose keys and values are
 * compressed (multi-head latent attention), 3 dense layers, 58 of 256 experts and a shared one. */
#include "runtime/workload/transformer.h"

enum {
    DENSE_LAYERS = 3,
    DENSE_FEED_FORWARD = 18432,
    QUERY_RANK = 1536, /* of compressed queries */
    KV_RANK = 512,     /* of compressed keys and values */
    NOPE = 128,        /* of a head, what has no position */
    ROPE = 64,         /* and what is rotated; one for all heads, of keys */
    VALUE = 128,
};

static void attention(struct tutti_build *b)
{
    uint64_t s = b->sequence;
    uint64_t h = b->transformer.hidden;
    uint64_t a = b->transformer.heads;
    uint64_t q = a * (NOPE + ROPE);

    tutti_transformer_norm(b, (struct tutti_layer_norm){"norm1", s, h, .kept = 2});
    tutti_build_dense(
        b, (struct tutti_dense){"q.down", TUTTI_SPLIT_NONE, s, h, QUERY_RANK, false, false});
    tutti_transformer_norm(b, (struct tutti_layer_norm){"q.norm", s, QUERY_RANK, .kept = 2});
    tutti_build_dense(
        b, (struct tutti_dense){"q.up", TUTTI_SPLIT_COLUMNS, s, QUERY_RANK, q, false, false});
    tutti_build_dense(
        b, (struct tutti_dense){"kv.down", TUTTI_SPLIT_NONE, s, h, KV_RANK + ROPE, false, false});
    tutti_transformer_norm(b, (struct tutti_layer_norm){"kv.norm", s, KV_RANK, .kept = 2});
    tutti_build_dense(b, (struct tutti_dense){"kv.up", TUTTI_SPLIT_COLUMNS, s, KV_RANK,
                                              a * (NOPE + VALUE), false, false});
    tutti_build_step(
        b, "rotary", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_HEADS, s * (a + 1) * ROPE,
        s * (q + a * ROPE)); /* queries and keys, put together with what is not rotated */
    tutti_transformer_attention(b, (struct tutti_attention){.heads = a,
                                                            .head_size = (NOPE + ROPE + VALUE) / 2,
                                                            .qkv_elements = s * (2 * q + a * VALUE),
                                                            .out_elements = s * a * VALUE});
    tutti_build_dense(
        b, (struct tutti_dense){"proj", TUTTI_SPLIT_ROWS, s, a * VALUE, h, false, false});
    tutti_transformer_add(b, "sum1", false);
}

static void dense(struct tutti_build *b)
{
    uint64_t s = b->sequence;
    uint64_t h = b->transformer.hidden;
    uint64_t f = DENSE_FEED_FORWARD;

    tutti_build_dense(
        b, (struct tutti_dense){"gate.up", TUTTI_SPLIT_COLUMNS, s, h, 2 * f, false, false});
    tutti_build_step(b, "swiglu", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_COLUMNS, 2 * s * f, s * f);
    tutti_build_dense(b, (struct tutti_dense){"down", TUTTI_SPLIT_ROWS, s, f, h, false, false});
    tutti_build_save(b, (struct tutti_saved){.split_elements = 3 * s * f});
}

/* The router's bias, by which load is balanced, follows the load of a step and no gradient; like a
 * gradient it is summed over all, and it is counted with the parameters. */
static void experts(struct tutti_build *b)
{
    tutti_build_variable(b, (struct tutti_variable){.name = "router.bias",
                                                    .rows = b->transformer.experts,
                                                    .elements = b->transformer.experts});
    tutti_transformer_experts(b, 1);
}

static void deepseek_v3(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    uint64_t s = b->sequence;
    uint64_t h = b->transformer.hidden;

    (void)kind;
    tutti_build_layer(b, "embedding", 1, s);
    tutti_transformer_lookup(b, "tokens", TUTTI_SPLIT_VOCAB, b->vocabulary);
    for (int i = 0; i < 2; i++) {
        uint32_t repeat = i == 0 ? DENSE_LAYERS : b->transformer.layers - DENSE_LAYERS;

        tutti_build_layer(b, i == 0 ? "dense" : "experts", repeat, s * h);
        attention(b);
        tutti_transformer_norm(b, (struct tutti_layer_norm){"norm2", s, h, .kept = 2});
        if (i == 0)
            dense(b);
        else
            experts(b);
        tutti_transformer_add(b, "sum2", false);
        if (!b->no_memory)
            tutti_build_last(b)->is_transformer = true;
    }
    tutti_build_layer(b, "head", 1, s * h);
    tutti_transformer_norm(b, (struct tutti_layer_norm){"norm", s, h, .kept = 2});
    tutti_transformer_head(b, s, false);
    b->sample_bytes = 8 * s;
}

static const struct tutti_model_kind kinds[] = {
    {.name = "deepseek-v3",
     .summary = "DeepSeek-V3, 8 of 256 experts a token, 1 shared",
     .source = "DeepSeek-AI 2024, arXiv 2412.19437, and the configuration published with it",
     .sample = TUTTI_SAMPLE_SEQUENCE,
     .sequence = 4096,
     .vocabulary = 129280,
     .transformer = {.layers = 61,
                     .hidden = 7168,
                     .heads = 128,
                     .kv_heads = 128,
                     .feed_forward = 2048,
                     .experts = 256,
                     .active_experts = 8,
                     .gated = true},
     .build = deepseek_v3},
};

const struct tutti_model_family tutti_family_deepseek = {kinds, sizeof(kinds) / sizeof(kinds[0])};
