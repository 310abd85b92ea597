/* Synthetic data sets: example `index` is a pure function of (seed, part, index), without files. */
#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/train/dataset_kinds.h"

enum {
    CLASS_COUNT = 10,
    CHANNELS_MAX = 3,
    WIDTH_MAX = TUTTI_CIFAR_SIDE,
    INPUTS_MAX = CHANNELS_MAX * TUTTI_CIFAR_SIDE * WIDTH_MAX,
    NOISE = 16,
    MIDDLE = 128
};

/* How textures differ from example to example. */
struct look {
    int32_t radius;      /* of the textured disc, pixels */
    int32_t margin;      /* that the disc's middle keeps, pixels */
    int32_t wave_spread; /* waves a pixel and direction are this much more or less, in 1/1024 */
};

struct synthetic {
    struct tutti_dataset set; /* what the caller holds */
    uint64_t seed;            /* of this part */
    struct look look;
};

/* Of each class the waves a pixel, to the right and down, in 1/1024: five directions 36 degrees
 * apart, with waves of 4 and of 7 pixels. */
static const int16_t waves[CLASS_COUNT][2] = {{256, 0},    {207, 150}, {79, 243}, {-79, 243},
                                              {-207, 150}, {146, 0},   {118, 86}, {45, 139},
                                              {-45, 139},  {-118, 86}};

/* Where and how an example has its texture. */
struct texture {
    uint32_t phase;
    uint32_t step_x, step_y; /* 2^32 is a wave */
    int32_t middle_x, middle_y;
    int32_t gain[CHANNELS_MAX]; /* of a channel, with either sign */
};

/* Of each example a little another: what is in phase in the middle is not at the rim. */
static uint32_t wave_step(int32_t wave, int32_t spread, struct tutti_random *random)
{
    int32_t turned = wave + (int32_t)tutti_random_below(random, 2 * (uint64_t)spread + 1) - spread;

    return (uint32_t)turned << 22;
}

static struct texture texture_draw(const struct synthetic *synthetic, uint32_t class_index,
                                   struct tutti_random *random)
{
    const struct tutti_dataset *set = &synthetic->set;
    const struct look *look = &synthetic->look;
    uint32_t reach = set->width - 2 * (uint32_t)look->margin;
    struct texture texture = {.phase = (uint32_t)(tutti_random_next(random) >> 32)};

    texture.step_x = wave_step(waves[class_index][0], look->wave_spread, random);
    texture.step_y = wave_step(waves[class_index][1], look->wave_spread, random);
    texture.middle_x = look->margin + (int32_t)tutti_random_below(random, reach);
    texture.middle_y = look->margin + (int32_t)tutti_random_below(random, reach);
    for (uint32_t c = 0; c < set->channels; c++) {
        int32_t gain = 68 + (int32_t)tutti_random_below(random, 42);

        texture.gain[c] = tutti_random_below(random, 2) == 0 ? gain : -gain;
    }
    return texture;
}

/* A row of a channel: in the disc a triangle of period 2^32 from -255 to 255 times the gain, in
 * 1/256, grey elsewhere, and noise everywhere. Whole numbers without a jump, and always as many as
 * the widest row has, which compilers make vectors of. */
static void row_draw(const struct texture *texture, int32_t radius, int32_t gain, int32_t y,
                     const uint8_t *noise, float *ret)
{
    int32_t down = y - texture->middle_y;
    int32_t reach = radius * radius - down * down;
    uint32_t first = texture->phase + texture->step_y * (uint32_t)y;
    uint32_t step = texture->step_x;
    int32_t middle = texture->middle_x;

    for (int32_t x = 0; x < WIDTH_MAX; x++) {
        int32_t at = (int32_t)((first + step * (uint32_t)x) >> 23);
        int32_t wave = (at < 256 ? at : 511 - at) * 2 - 255;
        int32_t value = (wave * gain + (MIDDLE << 8)) >> 8;

        value = (x - middle) * (x - middle) <= reach ? value : MIDDLE;
        value += (noise[x] * (2 * NOISE + 1) >> 8) - NOISE;
        ret[x] = (float)value * (1.0f / 255.0f);
    }
}

static void noise_draw(struct tutti_random *random, uint8_t *ret, uint64_t count)
{
    for (uint64_t i = 0; i < count; i += 8) {
        uint64_t bits = tutti_random_next(random);

        for (int k = 0; k < 8; k++)
            ret[i + (uint64_t)k] = (uint8_t)(bits >> 8 * k);
    }
}

/* Every class has the same mean, grey, for phase and sign are uniform. A linear model can do no
 * better than to guess a sign, right half of the time; what is sensitive to a direction does
 * better, a perceptron where textures lie and turn alike (MNIST's shape), a convolution anywhere.
 * Whole numbers, rounded to float in the end: the same bytes on every machine. */
static int texture_read(const struct tutti_dataset *set, uint64_t index, float *ret_inputs,
                        float *ret_target, struct tutti_err *err)
{
    const struct synthetic *synthetic = set->state;
    struct tutti_random random;
    struct texture texture;
    uint32_t class_index;
    uint8_t noise[INPUTS_MAX + WIDTH_MAX] = {0};
    float line[WIDTH_MAX];
    uint32_t row = 0;

    (void)err;
    assert(index < set->example_count);
    tutti_random_seed(&random, tutti_random_hash(synthetic->seed, index, 0, 0));
    class_index = (uint32_t)tutti_random_below(&random, CLASS_COUNT);
    texture = texture_draw(synthetic, class_index, &random);
    noise_draw(&random, noise, tutti_dataset_input_count(set));
    for (uint32_t c = 0; c < set->channels; c++) {
        for (uint32_t y = 0; y < set->height; y++, row++) {
            row_draw(&texture, synthetic->look.radius, texture.gain[c], (int32_t)y,
                     noise + row * set->width, line);
            memcpy(ret_inputs + row * set->width, line, set->width * sizeof(float));
        }
    }
    *ret_target = (float)class_index;
    return 0;
}

/* Twelve uniform numbers have variance 1, and a sum that is nearly normal. */
static double normal(struct tutti_random *random)
{
    double sum = -6;

    for (int i = 0; i < 12; i++)
        sum += tutti_random_unit(random);
    return sum;
}

static int line_read(const struct tutti_dataset *set, uint64_t index, float *ret_inputs,
                     float *ret_target, struct tutti_err *err)
{
    const struct synthetic *synthetic = set->state;
    struct tutti_random random;
    float input;

    (void)err;
    assert(index < set->example_count);
    tutti_random_seed(&random, tutti_random_hash(synthetic->seed, index, 0, 0));
    input = (float)tutti_random_unit(&random);
    *ret_inputs = input;
    *ret_target = (float)(TUTTI_LINE_SLOPE * (double)input + TUTTI_LINE_INTERCEPT +
                          TUTTI_LINE_NOISE * normal(&random));
    return 0;
}

/* A text has words that all texts have, some of them often, and words of its class: one in four.
 * The latter are 500 numbers in a row for each class, the others all that follow. */
static int text_read(const struct tutti_dataset *set, uint64_t index, float *ret_inputs,
                     float *ret_target, struct tutti_err *err)
{
    enum { CLASS_WORDS = 500, COMMON = TUTTI_TEXT_VOCABULARY - TUTTI_TEXT_CLASSES * CLASS_WORDS };
    const struct synthetic *synthetic = set->state;
    struct tutti_random random;
    uint64_t class_index;

    (void)err;
    assert(index < set->example_count);
    tutti_random_seed(&random, tutti_random_hash(synthetic->seed, index, 0, 0));
    class_index = tutti_random_below(&random, TUTTI_TEXT_CLASSES);
    for (uint32_t w = 0; w < TUTTI_TEXT_WORDS; w++) {
        const bool own = tutti_random_below(&random, 4) == 0;
        const uint64_t of = own ? CLASS_WORDS : COMMON;
        const uint64_t before = own ? class_index * CLASS_WORDS : TUTTI_TEXT_CLASSES * CLASS_WORDS;
        const double unit = tutti_random_unit(&random);

        ret_inputs[w] = (float)(before + (uint64_t)(unit * unit * unit * (double)of));
    }
    *ret_target = (float)class_index;
    return 0;
}

static void synthetic_close(struct tutti_dataset *set)
{
    free(set->state);
}

int tutti_synthetic_dataset(enum tutti_synthetic kind, enum tutti_dataset_part part, uint64_t seed,
                            struct tutti_dataset **ret, struct tutti_err *err)
{
    static const struct tutti_dataset sets[] = {
        [TUTTI_SYNTHETIC_MNIST] = {.example_count = 60000,
                                   .channels = 1,
                                   .height = TUTTI_IDX_SIDE,
                                   .width = TUTTI_IDX_SIDE,
                                   .class_count = CLASS_COUNT,
                                   .read = texture_read},
        [TUTTI_SYNTHETIC_CIFAR10] = {.example_count = 50000,
                                     .channels = 3,
                                     .height = TUTTI_CIFAR_SIDE,
                                     .width = TUTTI_CIFAR_SIDE,
                                     .class_count = CLASS_COUNT,
                                     .read = texture_read},
        [TUTTI_SYNTHETIC_TEXT] = {.example_count = 20000,
                                  .channels = TUTTI_TEXT_WORDS,
                                  .height = 1,
                                  .width = 1,
                                  .class_count = TUTTI_TEXT_CLASSES,
                                  .read = text_read},
        [TUTTI_SYNTHETIC_LINE] =
            {.example_count = 1000, .channels = 1, .height = 1, .width = 1, .read = line_read},
    };
    static const struct look looks[] = {
        [TUTTI_SYNTHETIC_MNIST] = {.radius = 12, .margin = 12, .wave_spread = 26},
        [TUTTI_SYNTHETIC_CIFAR10] = {.radius = 10, .margin = 5, .wave_spread = 36},
        [TUTTI_SYNTHETIC_LINE] = {.radius = 0},
        [TUTTI_SYNTHETIC_TEXT] = {.radius = 0},
    };
    struct synthetic *synthetic = calloc(1, sizeof(*synthetic));

    if (synthetic == NULL)
        return tutti_nomem(err);
    synthetic->set = sets[kind];
    if (part == TUTTI_DATASET_HELD_OUT)
        synthetic->set.example_count = kind == TUTTI_SYNTHETIC_LINE   ? 200
                                       : kind == TUTTI_SYNTHETIC_TEXT ? 5000
                                                                      : 10000;
    synthetic->seed = tutti_random_hash(seed, (uint64_t)kind, (uint64_t)part, 0);
    synthetic->look = looks[kind];
    synthetic->set.state = synthetic;
    synthetic->set.close = synthetic_close;
    assert(tutti_dataset_input_count(&synthetic->set) <= INPUTS_MAX);
    *ret = &synthetic->set;
    return 0;
}
