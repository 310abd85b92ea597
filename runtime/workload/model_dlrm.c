/* DLRM as in MLPerf: dense features through a perceptron, 26 categories through embedding tables
 * whose gradients are sparse, all pairs multiplied, and a perceptron on top. */
#include "runtime/workload/build.h"

enum { TABLES = 26, WIDTH = 128, DENSE_FEATURES = 13 };

/* Rows of Criteo's terabyte data, at most 40 million a table. */
static const uint32_t table_rows[TABLES] = {
    39884406, 39043,    17289,    7420,     20263,  3,     7120, 1543, 63,
    38532951, 2953546,  403346,   10,       2208,   11938, 155,  4,    976,
    14,       39979771, 25641295, 39664984, 585935, 12972, 108,  36};

static void perceptron(struct tutti_build *b, const char *prefix, const uint32_t *widths,
                       uint32_t count, bool first)
{
    for (uint32_t i = 1; i < count; i++) {
        tutti_build_dense(b, (struct tutti_dense){tutti_build_name(b, "%s%u", prefix, i),
                                                  TUTTI_SPLIT_NONE, 1, widths[i - 1], widths[i],
                                                  true, first && i == 1});
        if (widths[i] == 1)
            return; /* the logit */
        tutti_build_step(b, "relu", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, widths[i], widths[i]);
        tutti_build_save(b, (struct tutti_saved){.whole_elements = widths[i]});
    }
}

/* One row of each table. All lookups are one kernel in what trains this model. */
static void tables(struct tutti_build *b)
{
    tutti_build_layer(b, "tables", 1, TABLES);
    tutti_build_step(b, "lookup", TUTTI_WORK_EMBEDDING, TUTTI_SPLIT_NONE, TABLES * WIDTH,
                     TABLES * WIDTH);
    for (int i = 0; i < TABLES; i++)
        tutti_build_variable(b, (struct tutti_variable){.name = tutti_build_name(b, "table%d", i),
                                                        .rows = table_rows[i],
                                                        .elements = (uint64_t)table_rows[i] * WIDTH,
                                                        .touched_rows = 1});
}

/* Products of all pairs of the 27 vectors, of which one half is used, beside the dense vector. */
static void interact(struct tutti_build *b, uint64_t out)
{
    enum { VECTORS = TABLES + 1 };

    tutti_build_step(b, "stack", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, VECTORS * WIDTH,
                     VECTORS * WIDTH);
    tutti_build_operation(b, (struct tutti_operation){.name = "pairs",
                                                      .kind = TUTTI_WORK_MATMUL,
                                                      .rows = VECTORS,
                                                      .depth = WIDTH,
                                                      .columns = VECTORS,
                                                      .in_elements = 2 * VECTORS * WIDTH,
                                                      .out_elements = VECTORS * VECTORS});
    tutti_build_step(b, "half", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, VECTORS * VECTORS, out);
    tutti_build_save(b, (struct tutti_saved){.whole_elements = VECTORS * WIDTH + out});
}

static void dlrm(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    enum { PAIRS = (TABLES + 1) * TABLES / 2 + WIDTH };
    static const uint32_t bottom[] = {DENSE_FEATURES, 512, 256, WIDTH};
    static const uint32_t top[] = {PAIRS, 1024, 1024, 512, 256, 1};

    (void)kind;
    tutti_build_layer(b, "bottom", 1, DENSE_FEATURES);
    tutti_build_save(b, (struct tutti_saved){.whole_elements = DENSE_FEATURES});
    perceptron(b, "bottom", bottom, sizeof(bottom) / sizeof(bottom[0]), true);
    tables(b);
    tutti_build_layer(b, "interaction", 1, (TABLES + 1) * WIDTH);
    interact(b, PAIRS);
    tutti_build_layer(b, "top", 1, PAIRS);
    perceptron(b, "top", top, sizeof(top) / sizeof(top[0]), false);
    tutti_build_step(b, "loss", TUTTI_WORK_LOSS, TUTTI_SPLIT_NONE, 1, 1);
    b->sample_bytes = 4 * (DENSE_FEATURES + TABLES + 1);
    b->logits = 1;
}

static const struct tutti_model_kind kinds[] = {
    {.name = "dlrm",
     .summary = "DLRM of MLPerf, 26 sparse tables",
     .source = "Naumov et al. 2019, arXiv 1906.00091; MLPerf training v0.7 to v2.1",
     .sample = TUTTI_SAMPLE_ROW,
     .examples = UINT64_C(4195197692),
     .build = dlrm},
};

const struct tutti_model_family tutti_family_dlrm = {kinds, sizeof(kinds) / sizeof(kinds[0])};
