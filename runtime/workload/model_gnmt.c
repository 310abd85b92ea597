/* GNMT v2: an encoder and a decoder of four recurrent layers each, joined by attention. Of a
 * recurrent layer the inputs of all steps are one product, and then a step is one after another. */
#include "runtime/workload/build.h"

enum { WIDTH = 1024, GATES = 4 };

static void keep(struct tutti_build *b, uint64_t elements)
{
    tutti_build_save(b, (struct tutti_saved){.whole_elements = elements});
}

/* Long short-term memory: weights of the input and of the state, and two biases. Keeps its gates,
 * the states and the outputs. */
static void lstm(struct tutti_build *b, const char *name, uint64_t in)
{
    uint64_t s = b->sequence;
    const char *recurrent = tutti_build_name(b, "%s.state", name);

    tutti_build_dense(
        b, (struct tutti_dense){
               .name = name, .rows = s, .depth = in, .columns = GATES * WIDTH, .bias = true});
    tutti_build_operation(b, (struct tutti_operation){.name = recurrent,
                                                      .kind = TUTTI_WORK_MATMUL,
                                                      .count = (uint32_t)s,
                                                      .rows = 1,
                                                      .depth = WIDTH,
                                                      .columns = GATES * WIDTH,
                                                      .in_elements = s * WIDTH,
                                                      .out_elements = s * GATES * WIDTH});
    tutti_build_variable(b, (struct tutti_variable){.name = recurrent,
                                                    .rows = WIDTH,
                                                    .elements = WIDTH * GATES * WIDTH});
    tutti_build_variable(b,
                         (struct tutti_variable){.name = tutti_build_name(b, "%s.bias", recurrent),
                                                 .rows = GATES * WIDTH,
                                                 .elements = GATES * WIDTH});
    tutti_build_step(b, "gates", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, s * (GATES + 1) * WIDTH,
                     s * 2 * WIDTH);
    keep(b, s * (GATES + 2) * WIDTH);
}

/* Dropout before a layer, and the sum with what went round it. */
static void around(struct tutti_build *b, bool adds)
{
    uint64_t elements = b->sequence * WIDTH;

    tutti_build_step(b, "dropout", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, elements, elements);
    keep(b, elements);
    tutti_build_save(b, (struct tutti_saved){.whole_bytes = elements});
    if (adds)
        tutti_build_step(b, "sum", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, 2 * elements,
                         elements);
}

static void encoder(struct tutti_build *b)
{
    uint64_t sh = b->sequence * WIDTH;

    tutti_build_layer(b, "encoder1", 1, b->sequence);
    tutti_build_step(b, "tokens", TUTTI_WORK_EMBEDDING, TUTTI_SPLIT_VOCAB, sh, sh);
    tutti_build_variable(b, (struct tutti_variable){.name = "tokens",
                                                    .split = TUTTI_SPLIT_VOCAB,
                                                    .rows = b->vocabulary,
                                                    .elements = b->vocabulary * WIDTH});
    around(b, false);
    lstm(b, "forward", WIDTH);
    lstm(b, "backward", WIDTH);
    tutti_build_layer(b, "encoder2", 1, 2 * sh);
    around(b, false);
    lstm(b, "lstm", 2 * WIDTH);
    tutti_build_layer(b, "encoder.layer", 2, sh);
    around(b, true);
    lstm(b, "lstm", WIDTH);
}

/* Additive attention: a tanh of sums of all pairs of positions, weighed. */
static void attention(struct tutti_build *b)
{
    uint64_t s = b->sequence;
    uint64_t pairs = s * s * WIDTH;

    tutti_build_dense(
        b, (struct tutti_dense){.name = "query", .rows = s, .depth = WIDTH, .columns = WIDTH});
    tutti_build_dense(
        b, (struct tutti_dense){.name = "key", .rows = s, .depth = WIDTH, .columns = WIDTH});
    tutti_build_step(b, "scores", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, pairs, s * s);
    tutti_build_variable(b, (struct tutti_variable){.name = "scores", .elements = WIDTH});
    tutti_build_variable(b, (struct tutti_variable){.name = "scores.bias", .elements = WIDTH});
    tutti_build_variable(b, (struct tutti_variable){.name = "scores.norm", .elements = 1});
    tutti_build_operation(b, (struct tutti_operation){.name = "context",
                                                      .kind = TUTTI_WORK_MATMUL,
                                                      .rows = s,
                                                      .depth = s,
                                                      .columns = WIDTH,
                                                      .in_elements = s * s + s * WIDTH,
                                                      .out_elements = s * WIDTH});
    keep(b, pairs + s * s + 3 * s * WIDTH);
}

static void decoder(struct tutti_build *b)
{
    uint64_t sh = b->sequence * WIDTH;

    tutti_build_layer(b, "decoder1", 1, b->sequence);
    tutti_build_step(b, "tokens", TUTTI_WORK_EMBEDDING, TUTTI_SPLIT_VOCAB, sh, sh);
    around(b, false);
    lstm(b, "lstm", WIDTH);
    attention(b);
    tutti_build_layer(b, "decoder.layer", 3, 2 * sh);
    around(b, true);
    lstm(b, "lstm", 2 * WIDTH); /* the context beside */
    tutti_build_layer(b, "head", 1, sh);
    tutti_build_dense(b, (struct tutti_dense){.name = "head",
                                              .split = TUTTI_SPLIT_VOCAB,
                                              .rows = b->sequence,
                                              .depth = WIDTH,
                                              .columns = b->vocabulary,
                                              .bias = true});
    keep(b, sh);
    b->logits = b->sequence * b->vocabulary;
    tutti_build_step(b, "loss", TUTTI_WORK_LOSS, TUTTI_SPLIT_VOCAB, b->logits, b->sequence);
}

static void gnmt(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    (void)kind;
    encoder(b);
    decoder(b);
    b->sample_bytes = 8 * 3 * b->sequence;                    /* source, target in, target out */
    b->transformer = (struct tutti_transformer){.layers = 0}; /* it is none */
}

static const struct tutti_model_kind kinds[] = {
    {.name = "gnmt",
     .summary = "GNMT v2, a pair of 50 tokens each",
     .source = "Wu et al. 2016, arXiv 1609.08144; as in NVIDIA's PyTorch example",
     .sample = TUTTI_SAMPLE_SEQUENCE,
     .sequence = 50,
     .vocabulary = 32320,
     .examples = 3975116,
     .build = gnmt},
};

const struct tutti_model_family tutti_family_gnmt = {kinds, sizeof(kinds) / sizeof(kinds[0])};
