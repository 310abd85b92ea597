/* The synthetic sets are learnable, and not by a linear model. */
#include <math.h>

#include "runtime/status.h"
#include "runtime/train/dataset.h"
#include "tests/test.h"

enum { INPUTS_MAX = 3 * 32 * 32, CLASSES = 10, BATCH = 50, JUDGED = 1000 };

static struct tutti_dataset *open_part(const char *name, enum tutti_dataset_part part)
{
    struct tutti_dataset *set = NULL;
    struct tutti_dataset_ask ask = {.name = name, .part = part, .seed = test_seed};
    struct tutti_err err;

    CHECK_OK(tutti_dataset_open(&ask, &set, &err), err);
    return set;
}

static int best_of(const float *scores)
{
    int best = 0;

    for (int c = 1; c < CLASSES; c++)
        best = scores[c] > scores[best] ? c : best;
    return best;
}

/* ---- softmax regression: a weight an input and class, and a bias ---- */

struct linear {
    uint64_t input_count;
    float weights[CLASSES][INPUTS_MAX + 1];
    float slopes[CLASSES][INPUTS_MAX + 1];
};

static int linear_scores(const struct linear *model, const float *inputs, float *ret_scores)
{
    for (int c = 0; c < CLASSES; c++) {
        float sum = model->weights[c][model->input_count];

        for (uint64_t i = 0; i < model->input_count; i++)
            sum += model->weights[c][i] * (inputs[i] - 0.5f);
        ret_scores[c] = sum;
    }
    return best_of(ret_scores);
}

static void linear_learn(struct linear *model, const float *inputs, int label)
{
    float scores[CLASSES];
    float largest;
    float sum = 0;

    largest = scores[linear_scores(model, inputs, scores)];
    for (int c = 0; c < CLASSES; c++)
        sum += scores[c] = expf(scores[c] - largest);
    for (int c = 0; c < CLASSES; c++) {
        float slope = scores[c] / sum - (c == label ? 1.0f : 0.0f);

        for (uint64_t i = 0; i < model->input_count; i++)
            model->slopes[c][i] += slope * (inputs[i] - 0.5f);
        model->slopes[c][model->input_count] += slope;
    }
}

static void linear_step(struct linear *model, float rate)
{
    for (int c = 0; c < CLASSES; c++) {
        for (uint64_t i = 0; i <= model->input_count; i++) {
            model->weights[c][i] -= rate * model->slopes[c][i] / BATCH;
            model->slopes[c][i] = 0;
        }
    }
}

/* Percent of held-out examples that are told right after so many epochs of so many examples. */
static double linear_accuracy(const char *name, uint64_t examples, int epochs)
{
    struct tutti_dataset *training = open_part(name, TUTTI_DATASET_TRAINING);
    struct tutti_dataset *held_out = open_part(name, TUTTI_DATASET_HELD_OUT);
    struct linear *model = calloc(1, sizeof(*model));
    float inputs[INPUTS_MAX], scores[CLASSES];
    float target = 0;
    int right = 0;
    struct tutti_err err;

    if (model == NULL)
        abort();
    model->input_count = tutti_dataset_input_count(training);
    for (uint64_t i = 0; i < examples * (uint64_t)epochs; i++) {
        CHECK_OK(training->read(training, i % examples, inputs, &target, &err), err);
        linear_learn(model, inputs, (int)target);
        if (i % BATCH == BATCH - 1)
            linear_step(model, 0.03f);
    }
    for (uint64_t i = 0; i < JUDGED; i++) {
        CHECK_OK(held_out->read(held_out, i, inputs, &target, &err), err);
        right += linear_scores(model, inputs, scores) == (int)target;
    }
    free(model);
    tutti_dataset_close(training);
    tutti_dataset_close(held_out);
    return 100.0 * right / JUDGED;
}

/* ---- one convolution, squared and summed: what a small network learns ---- */

/* How strong a wave (in 1/1024 of a wave a pixel) is in squares of 8 x 8, whatever its phase. */
static float wave_energy(const float *plane, uint32_t side, double wave_x, double wave_y)
{
    float energy = 0;

    for (uint32_t top = 0; top + 8 <= side; top += 4) {
        for (uint32_t left = 0; left + 8 <= side; left += 4) {
            double with = 0, across = 0;

            for (uint32_t i = 0; i < 64; i++) {
                uint32_t x = left + i % 8, y = top + i / 8;
                double angle = (wave_x * x + wave_y * y) * 2 * M_PI / 1024;
                double value = (double)plane[y * side + x] - 0.5;

                with += value * cos(angle);
                across += value * sin(angle);
            }
            energy += (float)(with * with + across * across);
        }
    }
    return energy;
}

/* Percent told right by the strongest of the ten waves that the classes are made of. */
static double wave_accuracy(const char *name)
{
    struct tutti_dataset *held_out = open_part(name, TUTTI_DATASET_HELD_OUT);
    float inputs[INPUTS_MAX], scores[CLASSES];
    float target = 0;
    int right = 0, judged = 200;
    struct tutti_err err;

    for (int i = 0; i < judged; i++) {
        CHECK_OK(held_out->read(held_out, (uint64_t)i, inputs, &target, &err), err);
        for (int c = 0; c < CLASSES; c++) {
            double length = c < 5 ? 256 : 146;
            double angle = (c % 5) * M_PI / 5;

            scores[c] = 0;
            for (uint32_t plane = 0; plane < held_out->channels; plane++)
                scores[c] += wave_energy(inputs + plane * held_out->width * held_out->height,
                                         held_out->width, length * cos(angle), length * sin(angle));
        }
        right += best_of(scores) == (int)target;
    }
    tutti_dataset_close(held_out);
    return 100.0 * right / judged;
}

static void expect_learnable(const char *name, uint64_t examples, int epochs)
{
    double linear = linear_accuracy(name, examples, epochs);
    double wave = wave_accuracy(name);

    printf("%s: linear %.1f %%, by waves %.1f %%\n", name, linear, wave);
    CHECK(linear <= 45);
    CHECK(linear >= 12); /* it does learn what there is for it */
    CHECK(wave >= 70);
}

TEST(mnist_shapes_want_more_than_a_linear_model)
{
    expect_learnable("synthetic-mnist", test_count(60000, 5000), 3);
}

TEST(cifar_shapes_want_more_than_a_linear_model)
{
    expect_learnable("synthetic-cifar10", test_count(50000, 2000), 3);
}
