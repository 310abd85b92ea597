/* Transformer-XL on WikiText-103: positions relative to each other, as many tokens remembered as
 * are read, and a vocabulary in four parts of which the rarer have narrower embeddings (large) and
 * are multiplied for the tokens in them alone. Shares of tokens in the rarer parts are assumed: an
 * eighth, a sixteenth, a sixty-fourth. */
#include "runtime/workload/transformer.h"

enum { PARTS = 4 };

static const uint64_t part_words[PARTS - 1] = {19997, 20000, 160000};
static const uint64_t part_share[PARTS] = {1, 8, 16, 64}; /* one token in so many */

struct shape {
    uint64_t narrower; /* a part's embedding than that of the part before; 1: all alike */
};

static uint64_t part_columns(const struct tutti_build *b, const struct shape *shape, unsigned part)
{
    uint64_t columns = b->transformer.hidden;

    for (unsigned i = 0; i < part; i++)
        columns /= shape->narrower;
    return columns;
}

/* The last part ends with the vocabulary. */
static uint64_t part_rows(const struct tutti_build *b, unsigned part)
{
    return part + 1 < PARTS ? part_words[part]
                            : b->vocabulary - part_words[0] - part_words[1] - part_words[2];
}

static void embed(struct tutti_build *b, const struct shape *shape)
{
    uint64_t s = b->sequence;
    uint64_t h = b->transformer.hidden;

    tutti_build_layer(b, "embedding", 1, s);
    tutti_build_step(b, "tokens", TUTTI_WORK_EMBEDDING, TUTTI_SPLIT_VOCAB, s * h, s * h);
    for (unsigned p = 0; p < PARTS; p++) {
        uint64_t columns = part_columns(b, shape, p);

        tutti_build_variable(b, (struct tutti_variable){.name = tutti_build_name(b, "tokens%u", p),
                                                        .split = TUTTI_SPLIT_VOCAB,
                                                        .rows = part_rows(b, p),
                                                        .elements = part_rows(b, p) * columns});
        if (shape->narrower > 1)
            tutti_build_dense(b,
                              (struct tutti_dense){.name = tutti_build_name(b, "widen%u", p),
                                                   .rows = (s + part_share[p] - 1) / part_share[p],
                                                   .depth = columns,
                                                   .columns = h});
    }
    tutti_build_step(b, "dropout", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, s * h, s * h);
    tutti_build_save(b, (struct tutti_saved){.whole_elements = s * h, .whole_bytes = s * h});
}

/* Queries of what is read against what is remembered and read: scores of contents, scores of
 * distances and the use of both, half as much again as without distances. */
static void attention(struct tutti_build *b)
{
    uint64_t s = b->sequence;
    uint64_t h = b->transformer.hidden;
    uint64_t all = 2 * s;
    uint64_t scores = b->transformer.heads * s * all;

    tutti_build_dense(b, (struct tutti_dense){.name = "qkv",
                                              .split = TUTTI_SPLIT_COLUMNS,
                                              .rows = all,
                                              .depth = h,
                                              .columns = 3 * h});
    tutti_build_dense(b, (struct tutti_dense){.name = "distances",
                                              .split = TUTTI_SPLIT_COLUMNS,
                                              .rows = all,
                                              .depth = h,
                                              .columns = h});
    tutti_build_operation(b, (struct tutti_operation){.name = "attention",
                                                      .kind = TUTTI_WORK_ATTENTION,
                                                      .split = TUTTI_SPLIT_HEADS,
                                                      .rows = s,
                                                      .columns = all,
                                                      .depth = h + h / 2,
                                                      .in_elements = 4 * all * h,
                                                      .out_elements = s * h});
    tutti_build_save(b, (struct tutti_saved){.split_elements = 4 * all * h + s * h,
                                             .attention_elements = 2 * scores,
                                             .attention_bytes = scores});
    tutti_build_dense(
        b, (struct tutti_dense){
               .name = "proj", .split = TUTTI_SPLIT_ROWS, .rows = s, .depth = h, .columns = h});
    tutti_transformer_add(b, "sum1", true);
    tutti_transformer_norm(b, (struct tutti_layer_norm){"norm1", s, h, .shift = true, .kept = 2});
}

static void layers(struct tutti_build *b)
{
    uint64_t s = b->sequence;
    uint64_t h = b->transformer.hidden;
    uint64_t f = b->transformer.feed_forward;

    tutti_build_layer(b, "layer", b->transformer.layers, s * h);
    tutti_build_save(b, (struct tutti_saved){.whole_elements = 2 * s * h}); /* with the memory */
    attention(b);
    tutti_build_dense(b, (struct tutti_dense){"up", TUTTI_SPLIT_COLUMNS, s, h, f, true, false});
    tutti_build_step(b, "relu", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_COLUMNS, s * f, s * f);
    tutti_build_step(b, "dropout", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_COLUMNS, s * f, s * f);
    tutti_build_dense(b, (struct tutti_dense){"down", TUTTI_SPLIT_ROWS, s, f, h, true, false});
    tutti_build_save(b, (struct tutti_saved){.split_elements = 2 * s * f, .split_bytes = s * f});
    tutti_transformer_add(b, "sum2", true);
    tutti_transformer_norm(b, (struct tutti_layer_norm){"norm2", s, h, .shift = true, .kept = 1});
    if (!b->no_memory)
        tutti_build_last(b)->is_transformer = true;
}

/* The first part and the three others as words of it; then each part for its tokens. Weights are
 * those of the embedding; biases are the head's. */
static void head(struct tutti_build *b, const struct shape *shape)
{
    uint64_t s = b->sequence;
    uint64_t h = b->transformer.hidden;

    tutti_build_layer(b, "head", 1, s * h);
    tutti_build_variable(b, (struct tutti_variable){
                                .name = "parts", .rows = PARTS - 1, .elements = (PARTS - 1) * h});
    tutti_build_variable(
        b, (struct tutti_variable){.name = "parts.bias", .rows = PARTS - 1, .elements = PARTS - 1});
    tutti_build_variable(b, (struct tutti_variable){.name = "content.bias",
                                                    .rows = b->transformer.heads,
                                                    .elements = h});
    tutti_build_variable(b, (struct tutti_variable){.name = "distance.bias",
                                                    .rows = b->transformer.heads,
                                                    .elements = h});
    b->logits = 0;
    for (unsigned p = 0; p < PARTS; p++) {
        uint64_t rows = (s + part_share[p] - 1) / part_share[p];
        uint64_t columns = part_rows(b, p) + (p == 0 ? PARTS - 1 : 0);
        uint64_t depth = part_columns(b, shape, p);

        tutti_build_operation(b, (struct tutti_operation){.name = tutti_build_name(b, "words%u", p),
                                                          .kind = TUTTI_WORK_MATMUL,
                                                          .split = TUTTI_SPLIT_VOCAB,
                                                          .rows = rows,
                                                          .depth = depth,
                                                          .columns = columns,
                                                          .in_elements = rows * depth,
                                                          .out_elements = rows * columns});
        tutti_build_variable(b,
                             (struct tutti_variable){.name = tutti_build_name(b, "words%u.bias", p),
                                                     .split = TUTTI_SPLIT_VOCAB,
                                                     .rows = part_rows(b, p),
                                                     .elements = part_rows(b, p)});
        b->logits += rows * columns;
    }
    tutti_build_save(b, (struct tutti_saved){.whole_elements = s * h});
    tutti_build_step(b, "loss", TUTTI_WORK_LOSS, TUTTI_SPLIT_VOCAB, b->logits, s);
}

static void transformer_xl(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    embed(b, kind->shape);
    layers(b);
    head(b, kind->shape);
    b->sample_bytes = 8 * 2 * b->sequence;
}

#define TRANSFORMER_XL(model, words, tokens, l, h, a, f, by)                       \
    {                                                                              \
        .name = model, .summary = words,                                           \
        .source = "Dai et al. 2019, arXiv 1901.02860; sizes of NVIDIA's example",  \
        .sample = TUTTI_SAMPLE_SEQUENCE, .sequence = tokens, .vocabulary = 267735, \
        .vocabulary_min = 200000,                                                  \
        .transformer = {.layers = l,                                               \
                        .hidden = h,                                               \
                        .heads = a,                                                \
                        .kv_heads = a,                                             \
                        .feed_forward = f,                                         \
                        .tied = true},                                             \
        .shape = &(const struct shape){by}, .build = transformer_xl                \
    }

static const struct tutti_model_kind kinds[] = {
    TRANSFORMER_XL("transformer-xl-base", "Transformer-XL base, WikiText-103", 192, 16, 512, 8,
                   2048, 1),
    TRANSFORMER_XL("transformer-xl-large", "Transformer-XL large, WikiText-103", 384, 18, 1024, 16,
                   4096, 4),
};

const struct tutti_model_family tutti_family_transformer_xl = {kinds,
                                                               sizeof(kinds) / sizeof(kinds[0])};
