/* Recommenders beside DLRM: neural collaborative filtering, whose embeddings of users and items
 * have sparse gradients, a variational autoencoder of all that a user has seen, and wide and deep:
 * a linear model of categories beside a perceptron that reads their embeddings. */
#include "runtime/workload/build.h"

static void relu(struct tutti_build *b, uint64_t elements)
{
    tutti_build_step(b, "relu", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, elements, elements);
    tutti_build_save(b, (struct tutti_saved){.whole_elements = elements});
}

static void dense(struct tutti_build *b, const char *name, uint64_t depth, uint64_t columns)
{
    tutti_build_dense(
        b, (struct tutti_dense){
               .name = name, .rows = 1, .depth = depth, .columns = columns, .bias = true});
}

/* ---- NCF ------------------------------------------------------------------------------------- */

enum { USERS = 138493, ITEMS = 26744, FACTORS = 64, DEEP = 128 };

/* A row for the user and one for the item of a sample. */
static void lookup(struct tutti_build *b, const char *name, uint64_t columns)
{
    tutti_build_step(b, name, TUTTI_WORK_EMBEDDING, TUTTI_SPLIT_NONE, 2 * columns, 2 * columns);
    tutti_build_variable(b, (struct tutti_variable){.name = tutti_build_name(b, "%s.users", name),
                                                    .rows = USERS,
                                                    .elements = USERS * columns,
                                                    .touched_rows = 1});
    tutti_build_variable(b, (struct tutti_variable){.name = tutti_build_name(b, "%s.items", name),
                                                    .rows = ITEMS,
                                                    .elements = ITEMS * columns,
                                                    .touched_rows = 1});
    tutti_build_save(b, (struct tutti_saved){.whole_elements = 2 * columns});
}

static void ncf(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    (void)kind;
    tutti_build_layer(b, "embeddings", 1, 2);
    lookup(b, "factors", FACTORS);
    lookup(b, "deep", DEEP);
    tutti_build_layer(b, "factorization", 1, 2 * FACTORS);
    tutti_build_step(b, "product", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, 2 * FACTORS, FACTORS);
    tutti_build_layer(b, "perceptron", 1, 2 * DEEP);
    dense(b, "dense1", 2 * DEEP, 256);
    relu(b, 256);
    dense(b, "dense2", 256, 128);
    relu(b, 128);
    dense(b, "dense3", 128, 64);
    relu(b, 64);
    tutti_build_layer(b, "rating", 1, FACTORS + 64);
    tutti_build_save(b, (struct tutti_saved){.whole_elements = FACTORS + 64});
    dense(b, "rating", FACTORS + 64, 1);
    tutti_build_step(b, "loss", TUTTI_WORK_LOSS, TUTTI_SPLIT_NONE, 1, 1);
    b->logits = 1;
    b->sample_bytes = 12; /* user, item, label */
}

/* ---- VAE-CF ---------------------------------------------------------------------------------- */

enum { FILMS = 20108, HIDDEN = 600, LATENT = 200 };

static void vae_cf(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    (void)kind;
    tutti_build_layer(b, "encoder", 1, FILMS);
    tutti_build_save(b, (struct tutti_saved){.whole_elements = FILMS});
    tutti_build_dense(b, (struct tutti_dense){.name = "encoder1",
                                              .rows = 1,
                                              .depth = FILMS,
                                              .columns = HIDDEN,
                                              .bias = true,
                                              .first = true});
    relu(b, HIDDEN);                          /* tanh, which keeps as much */
    dense(b, "encoder2", HIDDEN, 2 * LATENT); /* means, and logarithms of variances */
    tutti_build_step(b, "draw", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, 2 * LATENT, LATENT);
    tutti_build_save(b, (struct tutti_saved){.whole_elements = 3 * LATENT});
    tutti_build_layer(b, "decoder", 1, LATENT);
    dense(b, "decoder1", LATENT, HIDDEN);
    relu(b, HIDDEN);
    dense(b, "decoder2", HIDDEN, FILMS);
    tutti_build_step(b, "loss", TUTTI_WORK_LOSS, TUTTI_SPLIT_NONE, FILMS, 1);
    b->logits = FILMS;
    b->sample_bytes = 4 * FILMS;
}

/* ---- wide and deep --------------------------------------------------------------------------- */

/* Categories with embeddings, rows by columns, of which a sample has `values`; and small ones whose
 * indicators are read as they are. */
static const struct {
    const char *name;
    uint32_t rows;
    uint32_t columns;
    uint32_t values;
} categories[] = {
    {"event.document", 300000, 128, 1},
    {"ad", 250000, 128, 1},
    {"document", 100000, 128, 1},
    {"ad.entity", 10000, 64, 6},
    {"event.entity", 10000, 64, 6},
    {"ad.source", 4000, 64, 1},
    {"event.source", 4000, 64, 1},
    {"location", 2500, 64, 1},
    {"advertiser", 2500, 64, 1},
    {"state", 2000, 64, 1},
    {"ad.publisher", 1000, 64, 1},
    {"event.publisher", 1000, 64, 1},
    {"ad.topic", 350, 64, 3},
    {"event.topic", 350, 64, 3},
    {"country", 300, 64, 1},
    {"ad.category", 100, 64, 3},
    {"event.category", 100, 64, 3},
};

enum {
    CATEGORIES = sizeof(categories) / sizeof(categories[0]),
    INDICATORS = 6 + 3 + 3 + 2 + 2,
    NUMBERS = 32,
    WIDE_LAYER = 1024
};

static void wide(struct tutti_build *b)
{
    uint64_t values = INDICATORS / 3 + NUMBERS;

    tutti_build_layer(b, "wide", 1, values);
    for (int i = 0; i < CATEGORIES; i++) {
        tutti_build_variable(
            b, (struct tutti_variable){.name = tutti_build_name(b, "wide.%s", categories[i].name),
                                       .rows = categories[i].rows,
                                       .elements = categories[i].rows,
                                       .touched_rows = categories[i].values});
        values += categories[i].values;
    }
    tutti_build_variable(b, (struct tutti_variable){.name = "wide.others",
                                                    .rows = INDICATORS + NUMBERS,
                                                    .elements = INDICATORS + NUMBERS});
    tutti_build_variable(b, (struct tutti_variable){.name = "wide.bias", .elements = 1});
    tutti_build_step(b, "wide", TUTTI_WORK_EMBEDDING, TUTTI_SPLIT_NONE, values, 1);
}

static uint64_t deep_embeddings(struct tutti_build *b)
{
    uint64_t columns = INDICATORS + NUMBERS;

    tutti_build_layer(b, "embeddings", 1, columns);
    for (int i = 0; i < CATEGORIES; i++) {
        uint64_t out = categories[i].columns;

        tutti_build_step(b, categories[i].name, TUTTI_WORK_EMBEDDING, TUTTI_SPLIT_NONE,
                         categories[i].values * out, out);
        tutti_build_variable(b, (struct tutti_variable){.name = categories[i].name,
                                                        .rows = categories[i].rows,
                                                        .elements = categories[i].rows * out,
                                                        .touched_rows = categories[i].values});
        columns += out;
    }
    tutti_build_step(b, "concat", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, columns, columns);
    tutti_build_save(b, (struct tutti_saved){.whole_elements = columns});
    return columns;
}

static void wide_and_deep(struct tutti_build *b, const struct tutti_model_kind *kind)
{
    static const char *const names[] = {"dense1", "dense2", "dense3", "dense4", "dense5"};
    uint64_t columns;

    (void)kind;
    wide(b);
    columns = deep_embeddings(b);
    tutti_build_layer(b, "perceptron", 1, columns);
    for (int i = 0; i < 5; i++) {
        dense(b, names[i], columns, WIDE_LAYER);
        columns = WIDE_LAYER;
        relu(b, columns);
        tutti_build_step(b, "dropout", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, columns, columns);
        tutti_build_save(b,
                         (struct tutti_saved){.whole_elements = columns, .whole_bytes = columns});
    }
    dense(b, "click", columns, 1);
    tutti_build_step(b, "sum", TUTTI_WORK_ELEMENTWISE, TUTTI_SPLIT_NONE, 2, 1);
    tutti_build_step(b, "loss", TUTTI_WORK_LOSS, TUTTI_SPLIT_NONE, 1, 1);
    b->logits = 1;
    b->sample_bytes = 4 * (35 + INDICATORS / 3 + NUMBERS + 1); /* values of categories; a label */
}

static const struct tutti_model_kind kinds[] = {
    {.name = "ncf",
     .summary = "neural collaborative filtering, MovieLens 20M",
     .source = "He et al. 2017, arXiv 1708.05031; sizes of MLPerf v0.5 and NVIDIA's example",
     .sample = TUTTI_SAMPLE_ROW,
     .examples = 99308850, /* 19,861,770 seen films, and four that were not for each */
     .build = ncf},
    {.name = "vae-cf",
     .summary = "autoencoder of a user's films, MovieLens 20M",
     .source = "Liang et al. 2018, arXiv 1802.05814; as in NVIDIA's example",
     .sample = TUTTI_SAMPLE_ROW,
     .examples = 116677,
     .build = vae_cf},
    {.name = "wide-and-deep",
     .summary = "wide and deep, Outbrain's clicks",
     .source = "Cheng et al. 2016, arXiv 1606.07792; features of NVIDIA's TensorFlow example",
     .sample = TUTTI_SAMPLE_ROW,
     .examples = 59761827,
     .build = wide_and_deep},
};

const struct tutti_model_family tutti_family_recommend = {kinds, sizeof(kinds) / sizeof(kinds[0])};
