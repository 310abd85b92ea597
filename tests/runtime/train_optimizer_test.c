/* Optimizers, learning rates and loss scales against numbers worked out by hand from Keras' rules.
 */
#include <math.h>

#include "runtime/optimizer.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/train/loops.h"
#include "tests/test.h"

static struct tutti_update_rule named(const char *name)
{
    struct tutti_update_rule optimizer = {0};
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_update_named(name, &optimizer, &err), err);
    return optimizer;
}

static void check_near(float seen, double expected)
{
    if (!(fabs((double)seen - expected) <= 1e-6 * (1 + fabs(expected))))
        TEST_FAIL("%.9g, expected %.9g", (double)seen, expected);
}

TEST(sgd_goes_down_the_gradient)
{
    struct tutti_update_rule o = named("sgd");
    float w[] = {1, -2};
    const float g[] = {4, -8};

    CHECK_INT(tutti_update_moments(&o), 0);
    tutti_update_weights(&o, 0.1, 1, 0.5, w, g, NULL, 2);
    check_near(w[0], 0.8);
    check_near(w[1], -1.6);
    o.decay = 0.5; /* w -= 0.5 * 0.1 w, then -0.1 * 2 */
    tutti_update_weights(&o, 0.1, 2, 0.5, w, g, NULL, 2);
    check_near(w[0], 0.76 - 0.2);
}

/* v1 = -0.1 g = -0.2, v2 = 0.9 v1 - 0.2 = -0.38; Nesterov goes 0.9 v - 0.1 g. */
TEST(momentum_is_that_of_keras)
{
    struct tutti_update_rule o = named("momentum");
    float w = 1;
    float v = 0;
    float *moments[] = {&v};
    const float g = 2;

    CHECK_INT(tutti_update_moments(&o), 1);
    tutti_update_weights(&o, 0.1, 1, 1, &w, &g, moments, 1);
    check_near(v, -0.2);
    check_near(w, 0.8);
    tutti_update_weights(&o, 0.1, 2, 1, &w, &g, moments, 1);
    check_near(v, -0.38);
    check_near(w, 0.42);
    o = named("nesterov");
    w = 1;
    v = 0;
    tutti_update_weights(&o, 0.1, 1, 1, &w, &g, moments, 1);
    check_near(v, -0.2);
    check_near(w, 1 - 0.18 - 0.2);
    tutti_update_weights(&o, 0.1, 2, 1, &w, &g, moments, 1);
    check_near(w, 0.62 - 0.9 * 0.38 - 0.2);
}

/* After one step m = 0.1 g and v = 0.001 g^2, so that w moves by rate x g/(|g| + epsilon'),
 * epsilon' = epsilon / sqrt(0.001); the second step by hand in double precision. */
TEST(adam_is_that_of_keras)
{
    struct tutti_update_rule o = named("adam");
    const double epsilon = 1e-7;
    float w[] = {1, 1};
    float m[2] = {0};
    float v[2] = {0};
    float *moments[] = {m, v};
    const float first[] = {0.5f, 0};
    const float second[] = {-0.25f, 0};
    double expected = 1;

    CHECK_INT(tutti_update_moments(&o), 2);
    tutti_update_weights(&o, 0.01, 1, 1, w, first, moments, 2);
    check_near(m[0], 0.05);
    check_near(v[0], 0.00025);
    expected -= 0.05 * 0.01 * sqrt(1 - 0.999) / (1 - 0.9) / (sqrt(0.00025) + epsilon);
    check_near(w[0], expected);
    check_near(w[0], 0.99);
    tutti_update_weights(&o, 0.01, 2, 1, w, second, moments, 2);
    check_near(m[0], 0.9 * 0.05 - 0.1 * 0.25);
    check_near(v[0], 0.999 * 0.00025 + 0.001 * 0.0625);
    expected -= 0.02 * 0.01 * sqrt(1 - 0.999 * 0.999) / (1 - 0.81) / (sqrt(0.00031225) + epsilon);
    check_near(w[0], expected);
    CHECK(w[1] == 1); /* a gradient of 0 moves nothing */
}

/* Any cut of the weights gives the same bits, by every instruction set. */
TEST(parts_and_instruction_sets_give_the_same_bits)
{
    enum { COUNT = 1003 };
    static const char *const names[] = {"sgd", "momentum", "nesterov", "adam"};
    static float start[COUNT];
    static float g[COUNT];
    static float whole[3][COUNT];
    static float cut[3][COUNT];
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (size_t i = 0; i < COUNT; i++) {
        start[i] = (float)tutti_random_unit(&random) - 0.5f;
        g[i] = (float)tutti_random_unit(&random) - 0.5f;
    }
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
        struct tutti_update_rule o = named(names[n]);

        o.decay = 0.01;
        memset(whole, 0, sizeof(whole));
        memcpy(whole[0], start, sizeof(start));
        memcpy(cut, whole, sizeof(cut));
        for (uint64_t step = 1; step <= 5; step++) {
            float *moments[] = {whole[1], whole[2]};

            tutti_update_weights(&o, 0.01, step, 0.7, whole[0], g, moments, COUNT);
            for (size_t at = 0, now; at < COUNT; at += now) {
                float *parts[] = {cut[1] + at, cut[2] + at};

                now = at + 7 * (at + 1) < COUNT ? 7 * (at + 1) : COUNT - at;
                tutti_update_weights(&o, 0.01, step, 0.7, cut[0] + at, g + at, parts, now);
            }
        }
        CHECK(memcmp(whole, cut, sizeof(whole)) == 0);
    }
}

TEST(clipping_leaves_a_norm_of_at_most_so_much)
{
    CHECK(tutti_clip_scale(4, 1) == 0.25);
    CHECK(tutti_clip_scale(0.5, 1) == 1);
    CHECK(tutti_clip_scale(4, 0) == 1);
}

TEST(rates_warm_up_and_decay)
{
    struct tutti_rate rate = {
        .kind = TUTTI_RATE_COSINE, .warmup_steps = 4, .decay_steps = 10, .floor = 0.1};

    CHECK(tutti_rate_at(&rate, 0) == 0);
    CHECK(tutti_rate_at(&rate, 3) == 0.75);
    CHECK(tutti_rate_at(&rate, 4) == 1);
    CHECK(fabs(tutti_rate_at(&rate, 9) - 0.55) < 1e-12);
    CHECK(fabs(tutti_rate_at(&rate, 14) - 0.1) < 1e-12);
    CHECK(fabs(tutti_rate_at(&rate, 1000) - 0.1) < 1e-12);
    rate = (struct tutti_rate){0};
    CHECK(tutti_rate_at(&rate, 0) == 1);
    CHECK(tutti_rate_at(&rate, 1000000) == 1);
}

TEST(the_loss_scale_doubles_after_2000_good_steps_and_halves_on_a_bad_one)
{
    struct tutti_loss_scale s = tutti_loss_scale_dynamic();

    CHECK(tutti_loss_scale_of(&s) == 32768);
    for (int i = 0; i < 1999; i++)
        CHECK(tutti_loss_scale_update(&s, true));
    CHECK(tutti_loss_scale_of(&s) == 32768);
    CHECK(tutti_loss_scale_update(&s, true));
    CHECK(tutti_loss_scale_of(&s) == 65536);
    for (int i = 0; i < 1999; i++)
        (void)tutti_loss_scale_update(&s, true);
    CHECK(!tutti_loss_scale_update(&s, false)); /* and the count begins anew */
    CHECK(tutti_loss_scale_of(&s) == 32768);
    CHECK(tutti_loss_scale_update(&s, true));
    CHECK(tutti_loss_scale_of(&s) == 32768);
    for (int i = 0; i < 100; i++)
        CHECK(!tutti_loss_scale_update(&s, false));
    CHECK(tutti_loss_scale_of(&s) == 1);
    s = (struct tutti_loss_scale){0};
    CHECK(tutti_loss_scale_update(&s, true));
    CHECK(!tutti_loss_scale_update(&s, false));
    CHECK(tutti_loss_scale_of(&s) == 1);
}

TEST(an_unknown_optimizer_is_refused)
{
    struct tutti_update_rule o;
    struct tutti_err err = {.text = ""};

    CHECK_INT(tutti_update_named("adma", &o, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "did you mean 'adam'") != NULL);
}
