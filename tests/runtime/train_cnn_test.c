/* A convolutional network is trained by any number of ranks to what one reaches on held-out
 * examples, which a linear model does not; and any number of ranks counts alike. */
#include <unistd.h>

#include "tests/runtime/train_world.h"

enum { HELD_OUT = 997 }; /* which no number of ranks divides */

/* 28 x 28: convolutions of 5 x 5 and 3 x 3 by 16 channels, pooled, and a dense layer. */
static const char waves[] = "model waves\n"
                            "sample image\n"
                            "logits 10\n"
                            "layer first\n"
                            "operation conv1 convolution 576 x 25 x 16 in 784 out 9216 first\n"
                            "operation relu elementwise in 9216 out 9216\n"
                            "operation pool1 elementwise in 9216 out 2304\n"
                            "variable conv1 elements 400 rows 5\n"
                            "variable conv1.bias elements 16\n"
                            "layer second\n"
                            "operation conv2 convolution 100 x 144 x 16 in 2304 out 1600\n"
                            "operation relu elementwise in 1600 out 1600\n"
                            "operation pool2 elementwise in 1600 out 400\n"
                            "variable conv2 elements 2304 rows 3\n"
                            "variable conv2.bias elements 16\n"
                            "layer classes\n"
                            "operation classes matmul 1 x 400 x 10\n"
                            "operation loss loss in 10 out 1\n"
                            "variable classes elements 4000 rows 400\n"
                            "variable classes.bias elements 10\n";

static const char linear[] = "model linear\n"
                             "sample image\n"
                             "logits 10\n"
                             "layer classes\n"
                             "operation classes matmul 1 x 784 x 10 first\n"
                             "operation loss loss in 10 out 1\n"
                             "variable classes elements 7840 rows 784\n"
                             "variable classes.bias elements 10\n";

static double percent(const struct outcome *o)
{
    return 100 * o->held_out.correct / o->held_out.examples;
}

/* Held-out examples told right by one rank, and by 2 and 4 within a point of it. */
static void expect_learnt(struct course course)
{
    struct outcome *one;

    course.strategy = "onedevice";
    course.rank_count = 1;
    course.evaluate = true;
    course.held_out = HELD_OUT;
    one = take_course(&course);
    printf("        one rank: %.1f %%\n", percent(one));
    CHECK(percent(one) >= 70);
    course.strategy = "multiworkermirrored";
    for (course.rank_count = 2; course.rank_count <= 4; course.rank_count *= 2) {
        struct outcome *o = take_course(&course);

        printf("        %u ranks: %.1f %%\n", course.rank_count, percent(o));
        CHECK(o->held_out.examples == HELD_OUT);
        CHECK(fabs(percent(o) - percent(one)) <= 1);
        outcome_free(o);
    }
    outcome_free(one);
}

TEST(any_number_of_ranks_learns_what_one_does)
{
    if (test_is_slow())
        SKIP("what is learnt is the same without sanitizers");
    expect_learnt((struct course){
        .model = waves, .steps = 160, .global_batch = 32, .optimizer = "adam", .rate = 0.002});
}

TEST(the_network_of_cifar_does_as_well)
{
    if (!test_full)
        SKIP("the network of CIFAR-10 takes two minutes (--full)");
    expect_learnt((struct course){.model = "cifar10-cnn",
                                  .data = "synthetic-cifar10",
                                  .steps = 800,
                                  .global_batch = 64,
                                  .optimizer = "adam",
                                  .cosine = true});
}

TEST(a_linear_model_does_not)
{
    const struct course course = {.model = linear,
                                  .strategy = "onedevice",
                                  .rank_count = 1,
                                  .steps = 500,
                                  .global_batch = 64,
                                  .optimizer = "adam",
                                  .evaluate = true,
                                  .held_out = HELD_OUT};
    struct outcome *o;

    if (test_is_slow())
        SKIP("what is learnt is the same without sanitizers");
    o = take_course(&course);
    printf("        a linear model: %.1f %%\n", percent(o));
    CHECK(percent(o) <= 45);
    outcome_free(o);
}

/* Half way, where some are told right and some are not: saved once, and evaluated by several. */
TEST(evaluation_agrees_to_the_example)
{
    char folder[] = "/tmp/tutti-cnn-XXXXXX";
    char line[64];
    struct course course = {.model = waves,
                            .strategy = "mirrored",
                            .rank_count = 2,
                            .steps = 40,
                            .global_batch = 32,
                            .optimizer = "adam",
                            .rate = 0.002,
                            .evaluate = true,
                            .held_out = HELD_OUT};
    struct outcome *trained;

    REQUIRE(mkdtemp(folder) != NULL);
    course.checkpoint = folder;
    trained = take_course(&course);
    CHECK(percent(trained) > 20);
    CHECK(percent(trained) < 98);
    course.restore_only = true;
    for (course.rank_count = 1; course.rank_count <= 4; course.rank_count++) {
        struct outcome *o = take_course(&course);

        CHECK_INT(o->held_out.correct, trained->held_out.correct);
        CHECK_INT(o->held_out.examples, HELD_OUT);
        CHECK(fabs(o->held_out.loss - trained->held_out.loss) <= 1e-6 * trained->held_out.loss);
        outcome_free(o);
    }
    outcome_free(trained);
    (void)snprintf(line, sizeof(line), "rm -rf '%s'", folder);
    CHECK_INT(system(line), 0);
}
