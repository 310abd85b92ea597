/* Networks learn: losses fall; and one global batch on 1, 2 or 4 ranks gives the same weights, all
 * but for the order in which gradients are summed. */
#include "runtime/optimizer.h"
#include "tests/runtime/train_reference.h"

enum { STEPS = 100 };

/* A data set that can be learnt: each class has a pattern, each example is its own with noise. */
static float *make_patterns(const struct tutti_network_input *input)
{
    size_t count = (size_t)(input->classes * input->channels * input->rows * input->columns);
    struct tutti_random random;
    float *ret = calloc(count, sizeof(*ret));

    if (ret == NULL)
        abort();
    tutti_random_seed(&random, 5);
    for (size_t i = 0; i < count; i++)
        ret[i] = reference_draw(&random);
    return ret;
}

static void make_examples(struct trained *t, const float *pattern, uint32_t count, float noise,
                          uint64_t seed)
{
    struct tutti_network_input input = tutti_network_input(t->net);
    size_t elements = (size_t)(input.channels * input.rows * input.columns);
    struct tutti_random random;

    tutti_random_seed(&random, seed);
    for (uint32_t i = 0; i < count; i++) {
        t->labels[i] = (uint32_t)tutti_random_below(&random, input.classes);
        for (size_t j = 0; j < elements; j++)
            t->inputs[i * elements + j] =
                pattern[t->labels[i] * elements + j] + noise * reference_draw(&random);
    }
}

/* What a run leaves. */
struct outcome {
    float *weights;
    size_t elements;
    double loss;      /* of the last step, a mean */
    uint64_t correct; /* of it */
};

/* `ranks` of them in turn, whose gradients are added in their order, as a collective does. */
static struct outcome train(struct tutti_network *net, const char *optimizer, uint32_t batch,
                            uint32_t ranks, float noise)
{
    struct tutti_network_input input = tutti_network_input(net);
    size_t in = (size_t)(input.channels * input.rows * input.columns);
    struct tutti_update_rule rule = {0};
    struct outcome outcome = {0};
    struct tutti_err err = {.text = ""};
    float *pattern = make_patterns(&input);
    struct trained t;
    float *sum;
    float *moments[2];

    CHECK_OK(tutti_update_named(optimizer, &rule, &err), err);
    trained_open(&t, net, batch, 3);
    sum = calloc(t.elements, sizeof(*sum));
    moments[0] = calloc(t.elements, sizeof(float));
    moments[1] = calloc(t.elements, sizeof(float));
    for (uint64_t step = 0; step < STEPS; step++) {
        make_examples(&t, pattern, batch, noise, 1000 + step);
        outcome.loss = 0;
        outcome.correct = 0;
        for (uint32_t r = 0; r < ranks; r++) {
            struct tutti_network_batch part = t.batch;

            part.count = batch / ranks;
            part.inputs += r * part.count * in;
            part.labels += r * part.count;
            part.first_example = r * part.count;
            part.step = step;
            trained_step(&t, &part, false);
            outcome.loss += tutti_network_score(t.work).loss / batch;
            outcome.correct += tutti_network_score(t.work).correct;
            for (size_t i = 0; i < t.elements; i++)
                sum[i] = r == 0 ? t.gradients[i] : sum[i] + t.gradients[i];
        }
        tutti_update_weights(&rule, rule.rate, step + 1, 1, t.weights, sum, moments, t.elements);
    }
    outcome.elements = t.elements;
    outcome.weights = t.weights;
    t.weights = NULL;
    free(pattern);
    free(sum);
    free(moments[0]);
    free(moments[1]);
    trained_close(&t);
    return outcome;
}

TEST(a_perceptron_learns)
{
    static const char *const optimizers[] = {"sgd", "momentum", "nesterov", "adam"};
    static const double most[] = {0.5, 0.05, 0.05, 0.05};

    for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++) {
        struct outcome o = train(reference_named("mlp", (struct tutti_network_params){0}),
                                 optimizers[i], 64, 1, 1);

        if (!(o.loss < most[i]))
            TEST_FAIL("%s: a loss of %g after %d steps", optimizers[i], o.loss, STEPS);
        CHECK(o.correct >= 60);
        free(o.weights);
    }
}

TEST(a_convolutional_network_learns)
{
    struct outcome o =
        train(reference_named("cifar10-cnn", (struct tutti_network_params){0}), "adam", 32, 1, 1);

    if (!(o.loss < 0.5))
        TEST_FAIL("a loss of %g after %d steps", o.loss, STEPS);
    CHECK(o.correct >= 28);
    free(o.weights);
}

TEST(mixed_precision_learns_as_well)
{
    const enum tutti_dtype types[] = {TUTTI_FLOAT16, TUTTI_BFLOAT16};

    for (size_t i = 0; i < 2; i++) {
        struct outcome o =
            train(reference_named("mlp", (struct tutti_network_params){.dtype = types[i]}), "adam",
                  64, 1, 1);

        if (!(o.loss < 0.06))
            TEST_FAIL("%s: a loss of %g", tutti_dtype_name(types[i]), o.loss);
        free(o.weights);
    }
}

/* y = 2 x - 1. */
TEST(a_line_is_found)
{
    struct tutti_update_rule rule;
    struct tutti_err err = {.text = ""};
    struct trained t;

    CHECK_OK(tutti_update_named("sgd", &rule, &err), err);
    trained_open(&t, reference_named("linear-regression", (struct tutti_network_params){0}), 32,
                 test_seed);
    for (uint32_t i = 0; i < 32; i++)
        t.targets[i] = 2 * t.inputs[i] - 1;
    for (uint64_t step = 1; step <= 400; step++) {
        trained_step(&t, &t.batch, false);
        tutti_update_weights(&rule, 0.2, step, 1, t.weights, t.gradients, NULL, t.elements);
    }
    CHECK(fabsf(t.weights[0] - 2) < 1e-3f);
    CHECK(fabsf(t.weights[1] + 1) < 1e-3f);
    trained_close(&t);
}

static void check_ranks(const char *model, const char *optimizer, uint32_t batch, bool by_loops)
{
    struct tutti_products plain;
    struct tutti_network_params params = {.dropout = 0.2f, .products = by_loops ? &plain : NULL};
    struct outcome one;

    tutti_products_by_loops(tutti_loops_at(0), &plain);
    one = train(reference_named(model, params), optimizer, batch, 1, 1);
    for (uint32_t ranks = 2; ranks <= 4; ranks *= 2) {
        struct outcome many = train(reference_named(model, params), optimizer, batch, ranks, 1);
        double off = relative(many.weights, one.weights, one.elements);

        printf("        %s, %s, %s: %u ranks are off by %.2g\n", model, optimizer,
               by_loops ? "loops" : "the best products", ranks, off);
        CHECK(off <= 1e-6);
        CHECK(fabs(many.loss - one.loss) <= 1e-5 * (1 + one.loss));
        free(many.weights);
    }
    free(one.weights);
}

/* Dropout included. */
TEST(ranks_that_share_a_batch_reach_the_same_weights)
{
    static const struct {
        const char *model;
        const char *optimizer;
        uint32_t batch;
        bool by_loops;
    } cases[] = {{"mlp", "adam", 64, true},
                 {"mlp", "sgd", 64, false},
                 {"mlp", "momentum", 64, false},
                 {"mlp", "adam", 64, false},
                 {"cifar10-cnn", "momentum", 16, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (test_takes())
            check_ranks(cases[i].model, cases[i].optimizer, cases[i].batch, cases[i].by_loops);
}
