/* BERT and ELECTRA: learned positions, layer normalisation after each block, GELU, dropout; with
 * the pre-training head, with the head for questions and answers (SQuAD), or the encoder alone. */
#include "runtime/workload/transformer.h"

enum { POSITIONS = 512, TYPES = 2 };

enum head { HEAD_PRETRAINING, HEAD_SQUAD, HEAD_NONE };

struct shape {
    enum head head;
};

static void embed(struct tutti_build *b)
{
    uint64_t s = b->sequence;
    uint64_t h = b->transformer.hidden;

    tutti_build_layer(b, "embedding", 1, s);
    tutti_transformer_lookup(b, "tokens", TUTTI_SPLIT_VOCAB, b->vocabulary);
    tutti_transformer_lookup(b, "positions", TUTTI_SPLIT_NONE, s > POSITIONS ? s : POSITIONS);
    tutti_transformer_lookup(b, "types", TUTTI_SPLIT_NONE, TYPES);
    tutti_transformer_norm(b, (struct tutti_layer_norm){"norm", s, h, .shift = true, .kept = 1});
    tutti_build_step(b, "dropout", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, s * h, s * h);
    tutti_build_save(b, (struct tutti_saved){.whole_bytes = s * h});
}

/* Keeps as much as a layer of GPT: what the products read is here what came out of the
 * normalisation before, or out of the layer below. */
static void layers(struct tutti_build *b, const char *name)
{
    uint64_t s = b->sequence;
    uint64_t h = b->transformer.hidden;
    uint64_t f = b->transformer.feed_forward;
    uint64_t heads = b->transformer.heads;

    tutti_build_layer(b, name, b->transformer.layers, s * h);
    tutti_build_save(b, (struct tutti_saved){.whole_elements = s * h});
    tutti_build_dense(b,
                      (struct tutti_dense){"qkv", TUTTI_SPLIT_COLUMNS, s, h, 3 * h, true, false});
    tutti_transformer_attention(b,
                                (struct tutti_attention){heads, h / heads, 3 * s * h, s * h, true});
    tutti_build_dense(b, (struct tutti_dense){"proj", TUTTI_SPLIT_ROWS, s, h, h, true, false});
    tutti_transformer_add(b, "sum1", true);
    tutti_transformer_norm(b, (struct tutti_layer_norm){"norm1", s, h, .shift = true, .kept = 2});
    tutti_build_dense(b, (struct tutti_dense){"up", TUTTI_SPLIT_COLUMNS, s, h, f, true, false});
    tutti_build_step(b, "gelu", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_COLUMNS, s * f, s * f);
    tutti_build_dense(b, (struct tutti_dense){"down", TUTTI_SPLIT_ROWS, s, f, h, true, false});
    tutti_build_save(b, (struct tutti_saved){.split_elements = 2 * s * f}); /* GELU's in and out */
    tutti_transformer_add(b, "sum2", true);
    tutti_transformer_norm(b, (struct tutti_layer_norm){"norm2", s, h, .shift = true, .kept = 1});
}

/* The first token's output stands for the whole sequence. */
static void pool(struct tutti_build *b)
{
    uint64_t h = b->transformer.hidden;

    tutti_build_layer(b, "pooler", 1, b->sequence * h);
    tutti_build_dense(b, (struct tutti_dense){"pooler", TUTTI_SPLIT_NONE, 1, h, h, true, false});
    tutti_build_step(b, "tanh", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, h, h);
    tutti_build_save(b, (struct tutti_saved){.whole_elements = 2 * h});
}

/* The tokens that were hidden are predicted from their positions alone, which are gathered; the
 * layers' output is `depth` wide, the embedding as the model's hidden columns. */
static void masked_head(struct tutti_build *b, uint64_t depth)
{
    uint64_t h = b->transformer.hidden;
    uint64_t p = b->predictions;

    tutti_build_step(b, "gather", TUTTI_WORK_EMBEDDING, TUTTI_SPLIT_NONE, p * depth, p * depth);
    tutti_build_dense(
        b, (struct tutti_dense){"transform", TUTTI_SPLIT_NONE, p, depth, h, true, false});
    tutti_build_step(b, "gelu", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, p * h, p * h);
    tutti_transformer_norm(b, (struct tutti_layer_norm){"norm", p, h, .shift = true, .kept = 2});
    tutti_build_save(b, (struct tutti_saved){.whole_elements = p * (depth + h)}); /* GELU's in */
    tutti_build_variable(b, (struct tutti_variable){.name = "head.bias",
                                                    .split = TUTTI_SPLIT_VOCAB,
                                                    .rows = b->vocabulary,
                                                    .elements = b->vocabulary});
    tutti_transformer_head(b, p, true);
}

/* And whether the second sentence follows the first. */
static void pretraining(struct tutti_build *b)
{
    uint64_t h = b->transformer.hidden;

    pool(b);
    tutti_build_layer(b, "head", 1, b->sequence * h);
    masked_head(b, h);
    tutti_build_dense(b, (struct tutti_dense){"follows", TUTTI_SPLIT_NONE, 1, h, 2, true, false});
    tutti_build_step(b, "follows.loss", TUTTI_WORK_LOSS, TUTTI_SPLIT_NONE, 2, 1);
    /* ids, mask and types; positions, ids and weights of what is hidden; whether it follows */
    b->sample_bytes = 4 * (3 * b->sequence + 3 * b->predictions + 1);
}

/* Where the answer begins and ends. */
static void squad(struct tutti_build *b)
{
    uint64_t s = b->sequence;

    tutti_build_layer(b, "head", 1, s * b->transformer.hidden);
    tutti_build_dense(b, (struct tutti_dense){"span", TUTTI_SPLIT_NONE, s, b->transformer.hidden, 2,
                                              true, false});
    tutti_build_save(b, (struct tutti_saved){.whole_elements = s * b->transformer.hidden});
    tutti_build_step(b, "loss", TUTTI_WORK_LOSS, TUTTI_SPLIT_NONE, 2 * s, 2);
    b->logits = 2 * s;
    b->sample_bytes = 4 * (3 * s + 2);
}

/* The layers that are the model's, not a helper's. */
static void main_layers(struct tutti_build *b)
{
    layers(b, "layer");
    if (!b->no_memory)
        tutti_build_last(b)->is_transformer = true;
}

/* A generator of a third of the width fills in the hidden tokens; the model says of every token
 * whether it was replaced. They share the embedding, which is looked up twice. */
static void electra(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    const struct tutti_transformer whole = b->transformer;
    uint64_t s = b->sequence;
    uint64_t h = whole.hidden;
    uint64_t small = h / 3;

    (void)kind;
    embed(b);
    tutti_build_layer(b, "generator", 1, s * h);
    tutti_build_save(b, (struct tutti_saved){.whole_elements = s * h});
    tutti_build_dense(b,
                      (struct tutti_dense){
                          .name = "narrow", .rows = s, .depth = h, .columns = small, .bias = true});
    b->transformer.hidden = (uint32_t)small;
    b->transformer.heads = whole.heads / 3;
    b->transformer.feed_forward = whole.feed_forward / 3;
    layers(b, "generator.layer");
    b->transformer = whole;
    tutti_build_layer(b, "generator.head", 1, s * small);
    masked_head(b, small);
    tutti_build_layer(b, "again", 1, s);
    tutti_build_step(b, "tokens", TUTTI_WORK_EMBEDDING, TUTTI_SPLIT_VOCAB, 3 * s * h, s * h);
    tutti_build_step(b, "norm", TUTTI_WORK_NORMALIZATION, TUTTI_SPLIT_NONE, s * h, s * h);
    tutti_build_step(b, "dropout", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, s * h, s * h);
    tutti_build_save(b, (struct tutti_saved){.whole_elements = s * h, .whole_bytes = s * h});
    main_layers(b);
    tutti_build_layer(b, "head", 1, s * h);
    tutti_build_dense(b, (struct tutti_dense){"transform", TUTTI_SPLIT_NONE, s, h, h, true, false});
    tutti_build_step(b, "gelu", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, s * h, s * h);
    tutti_build_dense(b, (struct tutti_dense){"replaced", TUTTI_SPLIT_NONE, s, h, 1, true, false});
    tutti_build_save(b, (struct tutti_saved){.whole_elements = 3 * s * h});
    tutti_build_step(b, "replaced.loss", TUTTI_WORK_LOSS, TUTTI_SPLIT_NONE, s, 1);
    b->sample_bytes = 4 * 3 * (s + b->predictions);
}

static void bert(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    const struct shape *shape = kind->shape;

    embed(b);
    main_layers(b);
    if (shape->head == HEAD_PRETRAINING) {
        pretraining(b);
    } else if (shape->head == HEAD_SQUAD) {
        squad(b);
    } else {
        pool(b);
        b->logits = b->transformer.hidden;
        b->sample_bytes = 4 * 3 * b->sequence;
    }
}

#define BERT(model, words, tokens, hides, l, h, a, which)                         \
    {                                                                             \
        .name = model, .summary = words,                                          \
        .source = "Devlin et al. 2018, arXiv 1810.04805, and the code with it",   \
        .sample = TUTTI_SAMPLE_SEQUENCE, .sequence = tokens, .vocabulary = 30522, \
        .predictions_per_1000 = hides,                                            \
        .transformer = {.layers = l,                                              \
                        .hidden = h,                                              \
                        .heads = a,                                               \
                        .kv_heads = a,                                            \
                        .feed_forward = 4 * h,                                    \
                        .tied = true},                                            \
        .shape = &(const struct shape){which}, .build = bert                      \
    }

static const struct tutti_model_kind kinds[] = {
    BERT("bert-base", "BERT base, pre-training, 15 % hidden", 512, 150, 12, 768, 12,
         HEAD_PRETRAINING),
    BERT("bert-large", "BERT large, pre-training, 15 % hidden", 512, 150, 24, 1024, 16,
         HEAD_PRETRAINING),
    BERT("bert-base-squad", "BERT base, fine-tuned on SQuAD", 384, 0, 12, 768, 12, HEAD_SQUAD),
    BERT("bert-large-squad", "BERT large, fine-tuned on SQuAD", 384, 0, 24, 1024, 16, HEAD_SQUAD),
    {.name = "electra-base",
     .summary = "ELECTRA base, pre-training, 15 % hidden",
     .source = "Clark et al. 2020, arXiv 2003.10555; fine-tuned, it is BERT base",
     .sample = TUTTI_SAMPLE_SEQUENCE,
     .sequence = 512,
     .vocabulary = 30522,
     .predictions_per_1000 = 150,
     .transformer = {.layers = 12,
                     .hidden = 768,
                     .heads = 12,
                     .kv_heads = 12,
                     .feed_forward = 3072,
                     .tied = true},
     .build = electra},
    BERT("bert-base-encoder", "BERT base, encoder and pooler", 512, 0, 12, 768, 12, HEAD_NONE),
    BERT("bert-large-encoder", "BERT large, encoder and pooler", 512, 0, 24, 1024, 16, HEAD_NONE),
};

const struct tutti_model_family tutti_family_bert = {kinds, sizeof(kinds) / sizeof(kinds[0])};
