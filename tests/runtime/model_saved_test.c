/* What models keep for the backward pass, held to what is published: the layers of transformers
 * under tensor and sequence parallelism and recomputation, and a convolutional network's. */
#include "tests/runtime/models.h"

enum keeps { ALL, SELECTIVE, FULL };

/* Bytes a layer keeps of one sequence at half precision on each of t devices; with sequence
 * parallelism what is whole is divided, too. */
static double kept(const struct tutti_layer *layer, double t, bool sequence_parallel,
                   enum keeps keeps)
{
    const struct tutti_saved *s = &layer->saved;
    double whole = 2 * (double)s->whole_elements + (double)s->whole_bytes;
    double split = 2 * (double)s->split_elements + (double)s->split_bytes;
    double attention = 2 * (double)s->attention_elements + (double)s->attention_bytes;

    if (keeps == FULL)
        return 2 * (double)s->input_elements / (sequence_parallel ? t : 1);
    return whole / (sequence_parallel ? t : 1) + split / t + (keeps == ALL ? attention / t : 0);
}

/* Korthikanti et al. 2022, section 4, exactly: s b h (10 + 24/t + 5 a s/(h t)). */
TEST(a_layer_of_gpt_keeps_what_korthikanti_says)
{
    for (int t = 1; t <= 8; t *= 8) {
        struct tutti_workload *model = make("gpt3-175b", NULL);
        const struct tutti_layer *layer = layer_of(model, "layer");
        double s = 2048, h = 12288, a = 96;

        CHECK_INT(kept(layer, t, false, ALL) * t, s * h * (10 * t + 24 + 5 * a * s / h));
        CHECK_INT(kept(layer, t, true, ALL) * t, s * h * (34 + 5 * a * s / h));
        CHECK_INT(kept(layer, t, false, SELECTIVE) * t, s * h * (10 * t + 24));
        CHECK_INT(kept(layer, t, true, SELECTIVE) * t, s * h * 34);
        CHECK_INT(kept(layer, t, false, FULL), 2 * s * h);
        CHECK_INT(kept(layer, t, true, FULL) * t, 2 * s * h);
        CHECK(layer->is_transformer);
        tutti_model_free(model);
    }
}

/* As far as two decimals tell, which some cut and some round. */
static void check_near(double seen, double published)
{
    if (seen < published - 0.00501 || seen > published + 0.00999)
        TEST_FAIL("%.4f, published as %.2f", seen, published);
}

/* The same paper's four models: GiB of the first pipeline stage, L (1 + (p - 1)/(p v)) layers at a
 * time of b sequences; without anything, and with sequence parallelism and selective
 * recomputation. */
TEST(activations_of_four_models)
{
    static const struct {
        uint32_t layers;
        uint32_t hidden;
        uint32_t heads;
        uint32_t pipeline;
        uint32_t virtual_stages;
        uint32_t batch;
        double all;
        double least;
        double states; /* 18 bytes a weight of the layers' products, divided by t p */
    } known[] = {
        {48, 6144, 64, 1, 1, 4, 59.25, 9.5625, 45.56},
        {96, 12288, 96, 8, 3, 1, 66.84, 12.35, 45.56},
        {105, 20480, 128, 35, 3, 1, 114.02, 23.07, 31.64},
        {128, 25600, 160, 64, 1, 1, 131.25, 26.56, 32.96},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct tutti_model_params params = {.size = sizeof(params), .sequence = 2048};
        struct tutti_workload *model;
        const struct tutti_layer *layer;
        double p = known[i].pipeline;
        double layers = known[i].layers * (p > 1 && known[i].virtual_stages > 1
                                               ? 1 + (p - 1) / (p * known[i].virtual_stages)
                                               : 1);
        double gib = layers * known[i].batch / (1 << 30);
        double weights = 0;

        params.transformer = (struct tutti_transformer){
            .layers = known[i].layers, .hidden = known[i].hidden, .heads = known[i].heads};
        model = make("gpt", &params);
        layer = layer_of(model, "layer");
        for (uint32_t o = 0; o < layer->operation_count; o++)
            if (layer->operations[o].kind == TUTTI_WORK_MATMUL)
                weights += (double)layer->repeat * (double)layer->operations[o].depth *
                           (double)layer->operations[o].columns;
        check_near(gib * kept(layer, 8, false, ALL), known[i].all);
        check_near(gib * kept(layer, 8, true, SELECTIVE), known[i].least);
        check_near(18 * weights / (8 * p) / (1 << 30), known[i].states);
        tutti_model_free(model);
    }
}

/* 9.254, 97.0 and 1348 GiB: L s h (34 + 5 a s/h) for 32 layers of 4096 columns and 32 heads. */
TEST(attention_matrices_grow_with_the_square)
{
    static const struct {
        uint32_t sequence;
        double gib;
    } known[] = {{1024, 9.254}, {4096, 97.0}, {16384, 1348}};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct tutti_model_params params = {.size = sizeof(params), .sequence = known[i].sequence};
        struct tutti_workload *model;
        double gib;

        params.transformer = (struct tutti_transformer){.layers = 32, .hidden = 4096, .heads = 32};
        model = make("gpt", &params);
        gib = 32 * kept(layer_of(model, "layer"), 1, false, ALL) / (1 << 30);
        CHECK(gib > known[i].gib * 0.9995);
        CHECK(gib < known[i].gib * 1.0005);
        tutti_model_free(model);
    }
}

/* BERT's layer keeps as much; Llama's: 4 h whole, q, k, v, the attention's output and three times
 * the feed-forward split, one matrix of the softmax. */
TEST(other_layers_keep)
{
    struct tutti_workload *bert = make("bert-large", NULL);
    struct tutti_workload *llama = make("llama3-8b", NULL);
    const struct tutti_saved *saved = &layer_of(llama, "layer")->saved;
    double sh = 512.0 * 1024;

    CHECK_INT(kept(layer_of(bert, "layer"), 8, false, ALL) * 8,
              sh * (80 + 24 + 5 * 16 * 512 / 1024));
    CHECK_INT(saved->whole_elements, 8192 * 4 * 4096);
    CHECK_INT(saved->split_elements, 8192 * (4096 + 2 * 1024 + 4096 + 3 * 14336));
    CHECK_INT(saved->attention_elements, INT64_C(32) * 8192 * 8192);
    CHECK_INT(saved->input_elements, 8192 * 4096);
    tutti_model_free(bert);
    tutti_model_free(llama);
}

/* The stem of ResNet-50: the image, the convolution's output (which its normalisation reads), the
 * activation's and the pooling's output; a block: 2 x 3 outputs, of which the last normalisation
 * has no activation, and the sum's activation. */
TEST(what_a_convolutional_network_keeps)
{
    struct tutti_workload *model = make("resnet50", NULL);
    uint64_t stem = 112 * 112 * 64;
    uint64_t pooled = 56 * 56 * 64;

    CHECK_INT(layer_of(model, "conv1")->saved.whole_elements, 224 * 224 * 3 + 2 * stem + pooled);
    CHECK_INT(layer_of(model, "conv2.block")->saved.whole_elements, 4 * pooled + 4 * pooled * 2);
    CHECK_INT(layer_of(model, "conv2.block")->saved.input_elements, 4 * pooled);
    tutti_model_free(model);
}
