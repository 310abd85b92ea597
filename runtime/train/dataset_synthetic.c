/* Synthetic data sets: example `index` is a pure function of (seed, part, index), without files. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/train/dataset_kinds.h"

enum {
    CLASS_COUNT = 10,
    SIDE_MAX = 32,
    CHANNELS_MAX = 3,
    NOISE = 16,
    MIDDLE = 128,
    WAVE_SPREAD = 36
};

struct synthetic {
    struct tutti_dataset set; /* what the caller holds */
    uint64_t seed;            /* of this part */
    int32_t radius;           /* of the textured disc, pixels */
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

/* A triangle of period 2^32 from -255 to 255. */
static int32_t triangle(uint32_t phase)
{
    int32_t at = (int32_t)(phase >> 23);

    return (at < 256 ? at : 511 - at) * 2 - 255;
}

/* Of each example a little another: what is in phase in the middle is not at the rim. */
static uint32_t wave_step(int32_t wave, struct tutti_random *random)
{
    int32_t turned = wave + (int32_t)tutti_random_below(random, 2 * WAVE_SPREAD + 1) - WAVE_SPREAD;

    return (uint32_t)turned << 22;
}

static struct texture texture_draw(const struct synthetic *synthetic, uint32_t class_index,
                                   struct tutti_random *random)
{
    const struct tutti_dataset *set = &synthetic->set;
    uint32_t reach = set->width - 2 * (uint32_t)synthetic->radius / 2;
    struct texture texture = {.phase = (uint32_t)(tutti_random_next(random) >> 32)};

    texture.step_x = wave_step(waves[class_index][0], random);
    texture.step_y = wave_step(waves[class_index][1], random);
    texture.middle_x = synthetic->radius / 2 + (int32_t)tutti_random_below(random, reach);
    texture.middle_y = synthetic->radius / 2 + (int32_t)tutti_random_below(random, reach);
    for (uint32_t c = 0; c < set->channels; c++) {
        int32_t gain = 80 + (int32_t)tutti_random_below(random, 48);

        texture.gain[c] = tutti_random_below(random, 2) == 0 ? gain : -gain;
    }
    return texture;
}

/* A pixel of a channel without noise: the texture inside of the disc, grey elsewhere. */
static int32_t pixel(const struct texture *texture, int32_t radius, int32_t gain, int32_t x,
                     int32_t y)
{
    int32_t right = x - texture->middle_x;
    int32_t down = y - texture->middle_y;
    uint32_t phase = texture->phase + texture->step_x * (uint32_t)x + texture->step_y * (uint32_t)y;

    if (right * right + down * down > radius * radius)
        return MIDDLE;
    return MIDDLE + triangle(phase) * gain / 300;
}

/* Every class has the same mean, grey, for phase and sign are uniform: no linear function of the
 * pixels tells one from another, but what is sensitive to a direction at any place does. Whole
 * numbers alone: the same bytes on every machine. */
static int texture_read(const struct tutti_dataset *set, uint64_t index, float *ret_inputs,
                        float *ret_target, struct tutti_err *err)
{
    const struct synthetic *synthetic = set->state;
    struct tutti_random random;
    struct texture texture;
    uint32_t class_index;
    uint64_t noise = 0;
    uint32_t noise_left = 0;

    (void)err;
    assert(index < set->example_count);
    tutti_random_seed(&random, tutti_random_hash(synthetic->seed, index, 0, 0));
    class_index = (uint32_t)tutti_random_below(&random, CLASS_COUNT);
    texture = texture_draw(synthetic, class_index, &random);
    for (uint32_t c = 0; c < set->channels; c++) {
        for (uint32_t at = 0; at < set->width * set->height; at++) {
            int32_t value = pixel(&texture, synthetic->radius, texture.gain[c],
                                  (int32_t)(at % set->width), (int32_t)(at / set->width));

            if (noise_left-- == 0) {
                noise = tutti_random_next(&random);
                noise_left = 7;
            }
            value += (int32_t)(noise & 0xff) * (2 * NOISE + 1) / 256 - NOISE;
            noise >>= 8;
            *ret_inputs++ = (float)value / 255.0f;
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
        [TUTTI_SYNTHETIC_LINE] =
            {.example_count = 1000, .channels = 1, .height = 1, .width = 1, .read = line_read},
    };
    struct synthetic *synthetic = calloc(1, sizeof(*synthetic));

    if (synthetic == NULL)
        return tutti_nomem(err);
    synthetic->set = sets[kind];
    if (part == TUTTI_DATASET_HELD_OUT)
        synthetic->set.example_count = kind == TUTTI_SYNTHETIC_LINE ? 200 : 10000;
    synthetic->seed = tutti_random_hash(seed, (uint64_t)kind, (uint64_t)part, 0);
    synthetic->radius = (int32_t)synthetic->set.width / 3;
    synthetic->set.state = synthetic;
    synthetic->set.close = synthetic_close;
    assert(synthetic->set.width <= SIDE_MAX);
    *ret = &synthetic->set;
    return 0;
}
