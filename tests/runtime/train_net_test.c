/* The passes of a network that is really trained, against double precision and finite differences;
 * and what does not depend on how a batch is divided. */
#include <pthread.h>

#include "tests/runtime/train_reference.h"

/* 8 x 8 x 2; a convolution without padding, pooled; one with padding and no bias; one of stride 2,
 * padded; two dense layers. */
static const char images[] = "model images\nsample image\nlogits 4\n"
                             "layer a\n"
                             "operation conv1 convolution 36 x 18 x 5 in 128 out 180 first\n"
                             "operation relu elementwise in 180 out 180\n"
                             "operation pool1 elementwise in 180 out 45\n"
                             "variable conv1 elements 90 rows 3\n"
                             "variable conv1.bias elements 5\n"
                             "layer b\n"
                             "operation conv2 convolution 9 x 45 x 4 in 45 out 36\n"
                             "variable conv2 elements 180 rows 3\n"
                             "layer c\n"
                             "operation conv3 convolution 4 x 36 x 7 in 36 out 28\n"
                             "operation relu elementwise in 28 out 28\n"
                             "variable conv3 elements 252 rows 3\n"
                             "variable conv3.bias elements 7\n"
                             "layer d\n"
                             "operation hidden matmul 1 x 28 x 6\n"
                             "operation relu elementwise in 6 out 6\n"
                             "variable hidden elements 168 rows 28\n"
                             "variable hidden.bias elements 6\n"
                             "layer e\n"
                             "operation classes matmul 1 x 6 x 4\n"
                             "operation loss loss in 4 out 1\n"
                             "variable classes elements 24 rows 6\n"
                             "variable classes.bias elements 4\n";

/* Rows of 5 with 3 targets, and a layer of two repeats. */
static const char rows[] = "model rows\nsample row\nlogits 3\n"
                           "layer in\n"
                           "operation in matmul 1 x 5 x 7 first\n"
                           "operation relu elementwise in 7 out 7\n"
                           "variable in elements 35 rows 5\n"
                           "variable in.bias elements 7\n"
                           "layer middle repeat 2\n"
                           "operation middle matmul 1 x 7 x 7\n"
                           "operation relu elementwise in 7 out 7\n"
                           "variable middle elements 49 rows 7\n"
                           "layer out\n"
                           "operation out matmul 1 x 7 x 3\n"
                           "variable out elements 21 rows 7\n"
                           "variable out.bias elements 3\n";

/* The gradients of a batch are those of finite differences of the loss in double precision. */
static void check_gradients(struct tutti_network *net, uint32_t count)
{
    const double step = 1e-6;
    struct trained t;
    double *weights;
    double off = 0;
    double of = 0;

    trained_open(&t, net, count, test_seed);
    for (size_t i = 0; i < t.elements; i++) /* biases, too, are not 0 */
        t.weights[i] += t.weights[i] == 0 ? 0.125f - 0.01f * (float)(i % 17) : 0;
    trained_step(&t, &t.batch, false);
    weights = calloc(t.elements, sizeof(*weights));
    REQUIRE(weights != NULL);
    for (size_t i = 0; i < t.elements; i++)
        weights[i] = (double)t.weights[i];
    CHECK(fabs(reference_loss(t.work, weights) - tutti_network_score(t.work).loss) <
          1e-5 * (1 + tutti_network_score(t.work).loss));
    for (size_t i = 0; i < t.elements; i += test_is_slow() ? 7 : 1) {
        double was = weights[i];
        double above;
        double slope;

        weights[i] = was + step;
        above = reference_loss(t.work, weights);
        weights[i] = was - step;
        slope = (above - reference_loss(t.work, weights)) / (2 * step) / count;
        weights[i] = was;
        if (fabs(slope - (double)t.gradients[i]) > 1e-4)
            TEST_FAIL("gradient %zu is %g, expected %g", i, (double)t.gradients[i], slope);
        off += (slope - (double)t.gradients[i]) * (slope - (double)t.gradients[i]);
        of += slope * slope;
    }
    CHECK(of > 1e-4);
    CHECK(sqrt(off / of) < 1e-5);
    free(weights);
    trained_close(&t);
}

TEST(gradients_are_those_of_finite_differences)
{
    struct tutti_products plain;

    tutti_products_by_loops(tutti_loops_at(0), &plain);
    check_gradients(reference_net(images, (struct tutti_network_params){0}), 3);
    check_gradients(reference_net(images, (struct tutti_network_params){.products = &plain}), 3);
    check_gradients(reference_net(images, (struct tutti_network_params){.dropout = 0.3f}), 3);
    check_gradients(reference_net(rows, (struct tutti_network_params){0}), 5);
    check_gradients(reference_net(rows, (struct tutti_network_params){.dropout = 0.5f}), 5);
    check_gradients(reference_named("linear-regression", (struct tutti_network_params){0}), 7);
}

TEST(layers_and_variables_are_those_of_the_workload)
{
    static const char *const names[] = {"linear-regression", "mlp", "cifar10-cnn"};
    struct tutti_err err = {.text = ""};

    for (size_t i = 0; i < 3; i++) {
        struct tutti_workload *model = NULL;
        struct tutti_network *net = reference_named(names[i], (struct tutti_network_params){0});

        REQUIRE(net != NULL);
        REQUIRE(tutti_model_new(names[i], NULL, &model, &err) == 0);
        CHECK_INT(tutti_network_layer_count(net), model->layer_count);
        CHECK_INT(tutti_network_elements(net), tutti_model_sum(model).parameters);
        for (uint32_t l = 0; l < model->layer_count; l++) {
            const struct tutti_network_layer *layer = tutti_network_layer(net, l);

            CHECK_TEXT(layer->name, model->layers[l].name);
            CHECK_INT(layer->variable_count, model->layers[l].variable_count);
            for (uint32_t v = 0; v < layer->variable_count; v++) {
                CHECK_TEXT(layer->variables[v].name, model->layers[l].variables[v].name);
                CHECK_INT(layer->variables[v].elements, model->layers[l].variables[v].elements);
            }
        }
        tutti_network_free(net);
        tutti_model_free(model);
    }
}

TEST(inputs_are_what_the_models_are_known_for)
{
    struct tutti_network *net = reference_named("cifar10-cnn", (struct tutti_network_params){0});
    struct tutti_network_input input;

    REQUIRE(net != NULL);
    input = tutti_network_input(net);
    CHECK_INT(input.channels, 3);
    CHECK_INT(input.rows, 32);
    CHECK_INT(input.columns, 32);
    CHECK_INT(input.classes, 10);
    tutti_network_free(net);
    net = reference_named("mlp", (struct tutti_network_params){0});
    REQUIRE(net != NULL);
    input = tutti_network_input(net);
    CHECK_INT(input.channels * input.rows * input.columns, 784);
    CHECK_INT(input.classes, 10);
    tutti_network_free(net);
    net = reference_named("linear-regression", (struct tutti_network_params){0});
    REQUIRE(net != NULL);
    input = tutti_network_input(net);
    CHECK_INT(input.channels, 1);
    CHECK_INT(input.classes, 0);
    CHECK_INT(input.targets, 1);
    tutti_network_free(net);
}

static void check_refused(const char *text, const char *why)
{
    struct tutti_workload *model = NULL;
    struct tutti_network *net = NULL;
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_model_parse("test", text, strlen(text), &model, &err), err);
    REQUIRE(model != NULL);
    CHECK_INT(tutti_network_new(model, &(struct tutti_network_params){0}, &net, &err),
              -TUTTI_EINVAL);
    if (strstr(err.text, why) == NULL)
        TEST_FAIL("'%s' does not say '%s'", err.text, why);
    tutti_model_free(model);
}

TEST(what_cannot_be_computed_is_refused_by_name)
{
    static const char head[] = "model own\nsample image\nlayer a\n";
    static const char *const bad[][2] = {
        {"operation qkv attention 4 x 4 x 4", "layer 'a': operation 'qkv'"},
        {"operation gelu elementwise in 4 out 4", "operation 'gelu'"},
        {"operation relu elementwise in 4 out 4", "operation 'relu'"},
        {"operation d matmul 2 x 4 x 4\nvariable d elements 16", "one row"},
        {"operation d matmul 1 x 4 x 4\nvariable d elements 15", "another number"},
        {"operation d matmul 1 x 4 x 4\nvariable d elements 16\nvariable x elements 3",
         "variable 'x'"},
        {"operation c convolution 9 x 27 x 4 count 2 in 75\nvariable c elements 108 rows 3",
         "groups"},
        {"operation c convolution 10 x 27 x 4 in 75\nvariable c elements 108 rows 3", "square"},
        {"operation c convolution 9 x 27 x 4 in 75 out 36\nvariable c elements 108 rows 3\n"
         "operation pool elementwise in 36 out 9",
         "2 x 2"},
        {"operation loss loss in 1 out 1", "no product"},
    };
    struct tutti_workload *model = NULL;
    struct tutti_network *net = NULL;
    struct tutti_err err = {.text = ""};
    char text[512];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(text, sizeof(text), "%s%s\n", head, bad[i][0]);
        check_refused(text, bad[i][1]);
    }
    REQUIRE(tutti_model_new("vgg16", NULL, &model, &err) == 0);
    CHECK_INT(tutti_network_new(model, &(struct tutti_network_params){0}, &net, &err),
              -TUTTI_EINVAL);
    CHECK(strstr(err.text, "model 'vgg16'") != NULL);
    tutti_model_free(model);
}

/* Glorot: within the limit, and about as wide as that says; biases are 0; another seed, others. */
TEST(first_weights_are_glorot_uniform)
{
    struct tutti_network *net = reference_named("mlp", (struct tutti_network_params){0});
    static float a[784 * 128 + 128];
    static float b[784 * 128 + 128];
    const float limit = sqrtf(6.0f / (784 + 128));
    double squares = 0;

    REQUIRE(net != NULL);
    tutti_network_init(net, 1, 0, a);
    tutti_network_init(net, 1, 0, b);
    CHECK(memcmp(a, b, sizeof(a)) == 0);
    tutti_network_init(net, 2, 0, b);
    CHECK(memcmp(a, b, sizeof(a)) != 0);
    for (size_t i = 0; i < 784 * 128; i++) {
        CHECK(fabsf(a[i]) <= limit);
        squares += (double)a[i] * (double)a[i];
    }
    CHECK(fabs(squares / (784 * 128) / ((double)limit * (double)limit / 3) - 1) < 0.02);
    for (size_t i = 784 * 128; i < 784 * 128 + 128; i++)
        CHECK(a[i] == 0);
    tutti_network_free(net);
}

/* Parts of a batch, with the whole batch's scale, add up to its gradient; an empty part to nothing.
 * Masks are drawn for examples, so that dropout does not see the division. */
static void check_parts(struct tutti_network *net, uint32_t count, double most)
{
    size_t in = (size_t)(tutti_network_input(net).channels * tutti_network_input(net).rows *
                         tutti_network_input(net).columns);
    uint32_t cuts[] = {0, count / 4, count / 4, count / 2 + 1, count};
    struct trained t;
    float *whole;
    double loss;

    trained_open(&t, net, count, test_seed);
    whole = calloc(t.elements, sizeof(*whole));
    REQUIRE(whole != NULL);
    t.batch.step = 9;
    t.batch.first_example = 1000;
    trained_step(&t, &t.batch, false);
    memcpy(whole, t.gradients, t.elements * sizeof(*whole));
    loss = tutti_network_score(t.work).loss;
    for (size_t i = 0; i + 1 < sizeof(cuts) / sizeof(cuts[0]); i++) {
        struct tutti_network_batch part = t.batch;

        part.inputs += cuts[i] * in;
        part.labels = part.labels != NULL ? part.labels + cuts[i] : NULL;
        part.targets = part.targets != NULL ? part.targets + cuts[i] * net->input.targets : NULL;
        part.count = cuts[i + 1] - cuts[i];
        part.first_example += cuts[i];
        trained_step(&t, &part, i > 0);
        loss -= tutti_network_score(t.work).loss;
    }
    CHECK(fabs(loss) < 1e-5);
    if (!(relative(t.gradients, whole, t.elements) < most))
        TEST_FAIL("parts are off by %g", relative(t.gradients, whole, t.elements));
    free(whole);
    trained_close(&t);
}

TEST(parts_of_a_batch_add_up_to_the_whole)
{
    check_parts(reference_named("mlp", (struct tutti_network_params){.dropout = 0.2f}), 64, 1e-6);
    check_parts(reference_net(images, (struct tutti_network_params){.dropout = 0.2f}), 16, 1e-6);
    check_parts(reference_net(rows, (struct tutti_network_params){.dropout = 0.4f}), 16, 1e-6);
    check_parts(reference_named("cifar10-cnn", (struct tutti_network_params){.dropout = 0.2f}), 8,
                1e-6);
}

/* By the loops an example's outputs are the same to the bit, whatever the batch that it is in. */
TEST(outputs_of_an_example_do_not_depend_on_its_batch)
{
    struct tutti_products plain;
    struct tutti_network_batch one;
    struct trained t;
    float together[8 * 10];

    tutti_products_by_loops(tutti_loops_at(0), &plain);
    trained_open(&t,
                 reference_named("cifar10-cnn", (struct tutti_network_params){.products = &plain}),
                 8, test_seed);
    trained_forward(&t, &t.batch);
    memcpy(together, tutti_network_outputs(t.work), sizeof(together));
    for (uint32_t i = 0; i < 8; i++) {
        one = t.batch;
        one.inputs += i * 3072;
        one.labels += i;
        one.count = 1;
        trained_forward(&t, &one);
        CHECK(memcmp(tutti_network_outputs(t.work), together + i * 10, 10 * sizeof(float)) == 0);
    }
    trained_close(&t);
}

/* A rank of several that share a network: a few steps, the gradients of which it adds up. */
static void *play_rank(void *data)
{
    struct trained *t = data;

    for (t->batch.step = 0; t->batch.step < 8; t->batch.step++)
        trained_step(t, &t->batch, t->batch.step > 0);
    return NULL;
}

TEST(ranks_that_are_threads_give_the_bits_of_one_alone)
{
    enum { RANKS = 4, BATCH = 6 };
    struct tutti_network *net =
        reference_named("cifar10-cnn", (struct tutti_network_params){.dropout = 0.2f});
    struct trained ranks[RANKS];
    struct trained alone;
    pthread_t threads[RANKS];

    REQUIRE(net != NULL);
    trained_open(&alone, net, BATCH, test_seed);
    (void)play_rank(&alone);
    for (size_t i = 0; i < RANKS; i++)
        trained_open(&ranks[i], net, BATCH, test_seed);
    for (size_t i = 0; i < RANKS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, play_rank, &ranks[i]) == 0);
    for (size_t i = 0; i < RANKS; i++) {
        (void)pthread_join(threads[i], NULL);
        CHECK(memcmp(ranks[i].gradients, alone.gradients, alone.elements * sizeof(float)) == 0);
        ranks[i].net = NULL;
        trained_close(&ranks[i]);
    }
    trained_close(&alone);
}

TEST(an_empty_batch_has_no_loss_and_no_gradients)
{
    struct trained t;

    trained_open(&t, reference_net(images, (struct tutti_network_params){0}), 2, test_seed);
    trained_step(&t, &t.batch, false);
    t.batch.count = 0;
    trained_step(&t, &t.batch, true);
    CHECK(t.gradients[0] != 0);
    trained_step(&t, &t.batch, false);
    for (size_t i = 0; i < t.elements; i++)
        CHECK(t.gradients[i] == 0);
    CHECK(tutti_network_score(t.work).loss == 0);
    CHECK_INT(tutti_network_score(t.work).count, 0);
    trained_close(&t);
}

/* The rate of what is cleared; another step and another example have other masks; none outside
 * training. */
TEST(dropout_clears_its_share_and_scales_the_rest)
{
    struct tutti_network *net =
        reference_named("mlp", (struct tutti_network_params){.dropout = 0.2f});
    struct trained t;
    float first[128];
    float evaluated[10];
    size_t cleared = 0;

    trained_open(&t, net, 100, test_seed);
    trained_forward(&t, &t.batch);
    REQUIRE(net->stages[1].kind == TUTTI_TRAIN_DROPOUT);
    for (size_t i = 0; i < 100 * 128; i++) {
        cleared += t.work->masks[1][i] == 0;
        CHECK(t.work->masks[1][i] == 0 || fabsf(t.work->masks[1][i] - 1.25f) < 1e-4f);
    }
    CHECK(fabs((double)cleared / 12800 - 0.2) < 0.02);
    memcpy(first, t.work->masks[1], sizeof(first));
    CHECK(memcmp(first, t.work->masks[1] + 128, sizeof(first)) != 0);
    t.batch.step++;
    trained_forward(&t, &t.batch);
    CHECK(memcmp(first, t.work->masks[1], sizeof(first)) != 0);
    t.batch.training = false;
    trained_forward(&t, &t.batch);
    memcpy(evaluated, tutti_network_outputs(t.work), sizeof(evaluated));
    t.batch.step++;
    trained_forward(&t, &t.batch);
    CHECK(memcmp(evaluated, tutti_network_outputs(t.work), sizeof(evaluated)) == 0);
    trained_close(&t);
}

/* Rounded operands: gradients are near those of float32, by what the type keeps; and a NaN or an
 * overflow anywhere shows in the gradients. */
static void check_mixed(const char *text, enum tutti_dtype dtype, double least, double most)
{
    struct trained t;
    struct trained mixed;
    double off;

    trained_open(&t, reference_net(text, (struct tutti_network_params){0}), 16, test_seed);
    trained_open(&mixed, reference_net(text, (struct tutti_network_params){.dtype = dtype}), 16,
                 test_seed);
    trained_step(&t, &t.batch, false);
    mixed.batch.gradient_scale *= 1024;
    trained_step(&mixed, &mixed.batch, false);
    for (size_t i = 0; i < t.elements; i++)
        mixed.gradients[i] /= 1024;
    off = relative(mixed.gradients, t.gradients, t.elements);
    if (!(off > least && off < most))
        TEST_FAIL("%s is off by %g", tutti_dtype_name(dtype), off);
    mixed.batch.gradient_scale = dtype == TUTTI_FLOAT16 ? 1e8f : INFINITY;
    trained_step(&mixed, &mixed.batch, false);
    off = 0;
    for (size_t i = 0; i < t.elements; i++)
        off += (double)mixed.gradients[i] * (double)mixed.gradients[i];
    CHECK(!isfinite(off));
    trained_close(&t);
    trained_close(&mixed);
}

TEST(mixed_precision_is_as_near_as_its_type)
{
    check_mixed(rows, TUTTI_FLOAT16, 1e-5, 2e-3);
    check_mixed(rows, TUTTI_BFLOAT16, 1e-4, 2e-2);
    /* Rounding lets another of four near values be the maximum: its gradient goes elsewhere. */
    check_mixed(images, TUTTI_FLOAT16, 1e-5, 5e-2);
    check_mixed(images, TUTTI_BFLOAT16, 1e-4, 2e-1);
}

TEST(a_weight_that_is_not_finite_is_seen_in_the_loss)
{
    struct trained t;

    trained_open(&t, reference_net(images, (struct tutti_network_params){0}), 2, test_seed);
    t.weights[t.elements - 30] = NAN;
    trained_step(&t, &t.batch, false);
    CHECK(!isfinite(tutti_network_score(t.work).loss));
    trained_close(&t);
}
