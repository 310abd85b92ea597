/* Whatever the strategy, the number of ranks, the packing and the all-reduce: one global batch
 * trains one and the same network, all but for the order in which fp32 is summed. */
#include "runtime/random.h"
#include "tests/runtime/data_files.h"
#include "tests/runtime/train_world.h"

/* The last batch of an epoch of SHORT examples is short. */
enum { STEPS = 100, BATCH = 48, EXAMPLES = 480, SHORT = 520 };

/* 784-24-10, with dropout behind the hidden layer. */
static const char perceptron[] = "model perceptron\n"
                                 "sample image\n"
                                 "logits 10\n"
                                 "layer hidden\n"
                                 "operation hidden matmul 1 x 784 x 24 first\n"
                                 "operation relu elementwise in 24 out 24\n"
                                 "variable hidden elements 18816 rows 784\n"
                                 "variable hidden.bias elements 24\n"
                                 "layer classes\n"
                                 "operation classes matmul 1 x 24 x 10\n"
                                 "operation loss loss in 10 out 1\n"
                                 "variable classes elements 240 rows 24\n"
                                 "variable classes.bias elements 10\n";

/* Files of MNIST's format that a perceptron learns: half of an image is its class's, half noise. */
static void pattern_files(struct data_folder *folder, const char *part, uint32_t count)
{
    const size_t bytes = 16 + (size_t)count * IMAGE_BYTES;
    uint8_t *images = calloc(1, bytes);
    char name[64];

    if (images == NULL)
        abort();
    mnist_files(folder, part, count); /* and labels */
    put_big_endian(images, 2051);
    put_big_endian(images + 4, count);
    put_big_endian(images + 8, 28);
    put_big_endian(images + 12, 28);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t p = 0; p < IMAGE_BYTES; p++)
            images[16 + i * IMAGE_BYTES + p] =
                (uint8_t)((tutti_random_hash(1, i % 10, p, 0) & 127) +
                          (tutti_random_hash(2, i, p, count) & 127));
    (void)snprintf(name, sizeof(name), "%s-images-idx3-ubyte", part);
    data_file(folder, name, images, bytes);
    free(images);
}

/* The folder is there as long as the courses of a test are taken. */
static char data[DATA_PATH_BYTES];

static void open_data(struct data_folder *folder)
{
    data_folder_open(folder);
    pattern_files(folder, "train", SHORT);
    pattern_files(folder, "t10k", 100);
    (void)snprintf(data, sizeof(data), "mnist:%s", folder->path);
}

static struct outcome *take(struct course course)
{
    course.model = course.model != NULL ? course.model : perceptron;
    course.steps = course.steps > 0 ? course.steps : STEPS;
    course.global_batch = course.global_batch > 0 ? course.global_batch : BATCH;
    course.examples = course.examples > 0 ? course.examples : EXAMPLES;
    course.rate = course.rate > 0 || course.optimizer != NULL ? course.rate : 0.05;
    course.data = data;
    course.dropout = 0.2f;
    return take_course(&course);
}

/* Weights within `bound`, losses within 1e-5, mirrors equal after every step. */
static void expect_like(const struct course *course, const struct outcome *one, double bound)
{
    struct outcome *o = take(*course);
    double off = apart(o, one);

    if (!(off <= bound))
        TEST_FAIL("%s on %u ranks, %s: off by %g", course->strategy, course->rank_count,
                  course->algorithm != NULL ? course->algorithm : "ring", off);
    for (uint32_t i = 0; i < STEPS; i++)
        if (!(fabs(o->loss[i] - one->loss[i]) <= 1e-5))
            TEST_FAIL("%s on %u ranks: step %u has a loss of %.9g, not %.9g", course->strategy,
                      course->rank_count, i, o->loss[i], one->loss[i]);
    CHECK(o->in_sync);
    outcome_free(o);
}

/* `one` says what is trained: the model, the optimizer, how many examples. */
static void expect_all_like(const struct course *courses, size_t count, struct course base)
{
    struct data_folder folder;
    struct outcome *one;

    open_data(&folder);
    base.strategy = "onedevice";
    base.rank_count = 1;
    one = take(base);
    CHECK(one->loss[STEPS - 1] < 0.5 * one->loss[0]);
    if (base.examples == SHORT) {
        CHECK(one->examples[9] == BATCH);
        CHECK(one->examples[10] == SHORT % BATCH);
        CHECK(one->examples[21] == SHORT % BATCH);
    }
    for (size_t i = 0; i < count; i++) {
        struct course course = courses[i];

        course.model = base.model;
        course.optimizer = base.optimizer;
        course.examples = base.examples;
        if (test_fewer() <= 4 ||
            test_takes()) /* a tenth of a second each: fewer under sanitizers */
            expect_like(&course, one, 1e-6);
    }
    outcome_free(one);
    data_folder_remove(&folder);
}

#define EXPECT_LIKE(courses, ...) \
    expect_all_like(courses, sizeof(courses) / sizeof((courses)[0]), (struct course){__VA_ARGS__})

/* The cross-device operations of tf.distribute's MirroredStrategy, each with packs and without. */
TEST(mirrored_is_one_device_with_all_of_the_batch)
{
    static const struct course courses[] = {
        {.strategy = "mirrored", .rank_count = 2},
        {.strategy = "mirrored", .rank_count = 4},
        {.strategy = "mirrored", .rank_count = 4, .by_pieces = true, .packs = 3},
        {.strategy = "mirrored", .rank_count = 4, .by_pieces = true}, /* each by itself */
        {.strategy = "mirrored", .rank_count = 4, .algorithm = "hierarchical-copy"},
        {.strategy = "mirrored", .rank_count = 4, .algorithm = "hierarchical-copy", .channels = 5},
        {.strategy = "mirrored", .rank_count = 3, .algorithm = "reduce-broadcast"},
        {.strategy = "mirrored",
         .rank_count = 4,
         .algorithm = "reduce-broadcast",
         .by_pieces = true,
         .packs = 2},
        {.strategy = "central-storage", .rank_count = 3},
    };

    EXPECT_LIKE(courses, .optimizer = NULL);
}

TEST(several_workers_are_one_whatever_reduces)
{
    static const struct course courses[] = {
        {.strategy = "multiworkermirrored", .rank_count = 2},
        {.strategy = "multiworkermirrored", .rank_count = 2, .packs = 1000},
        {.strategy = "multiworkermirrored", .rank_count = 3, .packs = 70000},
        {.strategy = "multiworkermirrored", .rank_count = 4, .algorithm = "tf-ring", .group = 2},
        {.strategy = "multiworkermirrored", .rank_count = 4, .algorithm = "subdivided", .group = 2},
        {.strategy = "multiworkermirrored",
         .rank_count = 6,
         .algorithm = "subdivided",
         .group = 3,
         .packs = 1000},
        {.strategy = "multiworkermirrored",
         .rank_count = 4,
         .algorithm = "hierarchical",
         .group = 2},
        {.strategy = "multiworkermirrored",
         .rank_count = 6,
         .algorithm = "hierarchical",
         .group = 2,
         .packs = 1000},
        {.strategy = "multiworkermirrored", .rank_count = 4, .algorithm = "halving-doubling"},
        {.strategy = "multiworkermirrored", .rank_count = 5, .algorithm = "double-binary-tree"},
    };

    EXPECT_LIKE(courses, .optimizer = NULL);
}

/* Summed over both axes of the torus; with the update divided, reduced by halves and gathered. */
TEST(a_torus_of_tpus_is_mirrored)
{
    static const struct course courses[] = {
        {.strategy = "tpu", .rank_count = 4, .algorithm = "torus", .rows = 2},
        {.strategy = "tpu", .rank_count = 8, .algorithm = "torus", .rows = 2},
        {.strategy = "tpu", .rank_count = 4, .shard_update = true},
        {.strategy = "tpu", .rank_count = 8, .shard_update = true},
    };

    EXPECT_LIKE(courses, .optimizer = NULL);
}

TEST(what_is_divided_or_accumulated_is_one_batch)
{
    static const struct course courses[] = {
        {.strategy = "onedevice", .rank_count = 1, .micro_batches = 4},
        {.strategy = "ddp", .rank_count = 4, .micro_batches = 3},
        {.strategy = "horovod", .rank_count = 3},
        {.strategy = "zero1", .rank_count = 4},
        {.strategy = "zero1", .rank_count = 3, .micro_batches = 2},
        {.strategy = "zero2", .rank_count = 4, .micro_batches = 2},
        {.strategy = "fsdp", .rank_count = 4},
        {.strategy = "fsdp", .rank_count = 3, .micro_batches = 4},
        {.strategy = "hsdp", .rank_count = 4, .shard_ranks = 2},
        {.strategy = "hsdp", .rank_count = 8, .shard_ranks = 4, .micro_batches = 2},
    };

    EXPECT_LIKE(courses, .optimizer = NULL);
}

/* 520 examples in batches of 48: each epoch ends with 40, of which the last of 7 ranks gets 4, and
 * the shares of 4 ranks are halved once more. A step divides by the examples that there are. */
TEST(a_short_batch_counts_what_it_has)
{
    static const struct course courses[] = {
        {.strategy = "mirrored", .rank_count = 4},
        {.strategy = "multiworkermirrored", .rank_count = 7},
        {.strategy = "fsdp", .rank_count = 4, .micro_batches = 2},
    };

    EXPECT_LIKE(courses, .examples = SHORT);
}

/* Adam divides by roots of what is near 0 at first, and so makes more of the order of sums. */
TEST(adam_and_a_perceptron_of_784_128_10_as_well)
{
    static const struct course courses[] = {{.strategy = "mirrored", .rank_count = 4},
                                            {.strategy = "zero1", .rank_count = 3}};

    EXPECT_LIKE(courses, .model = "mlp", .optimizer = "adam");
}

TEST(one_algorithm_packing_and_rank_count_have_one_result)
{
    static const struct course courses[] = {
        {.strategy = "multiworkermirrored", .rank_count = 4, .packs = 1000},
        {.strategy = "multiworkermirrored", .rank_count = 4, .algorithm = "subdivided", .group = 2},
        {.strategy = "multiworkermirrored",
         .rank_count = 6,
         .algorithm = "hierarchical",
         .group = 2},
        {.strategy = "tpu", .rank_count = 8, .algorithm = "torus", .rows = 2},
        {.strategy = "fsdp", .rank_count = 3, .micro_batches = 2},
    };
    struct data_folder folder;

    open_data(&folder);
    for (size_t i = 0; i < sizeof(courses) / sizeof(courses[0]); i++) {
        struct course course = courses[i];
        struct outcome *a;
        struct outcome *b;

        if (test_is_slow() && !test_takes())
            continue;
        course.steps = 40;
        a = take(course);
        b = take(course);
        CHECK(memcmp(a->weights, b->weights, a->count * sizeof(float)) == 0);
        outcome_free(a);
        outcome_free(b);
    }
    data_folder_remove(&folder);
}

/* Local SGD and DiLoCo: 8 replicas that meet every 8 steps learn what those learn that meet at
 * each: what is left of the loss on held-out examples is within 2 % of what was there. */
TEST(replicas_that_seldom_meet_learn_as_well)
{
    static const char *const names[] = {"local-sgd", "diloco"};
    struct course course = {.model = "mlp",
                            .strategy = "ddp",
                            .rank_count = 8,
                            .steps = 240,
                            .optimizer = "sgd",
                            .rate = 0.1,
                            .evaluate = true,
                            .held_out = 100};
    struct data_folder folder;
    struct outcome *often;

    if (test_is_slow())
        SKIP("what is learnt is the same without sanitizers");
    open_data(&folder);
    often = take(course);
    course.local_steps = 8;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct outcome *seldom;

        course.strategy = names[i];
        course.outer_rate = i == 0 ? 0 : 0.7;
        seldom = take(course);
        printf("        %s: %.4f, of %.2f, and %.4f at every step\n", names[i],
               seldom->held_out.loss / 100, often->loss[0], often->held_out.loss / 100);
        CHECK(seldom->held_out.loss / 100 <= often->held_out.loss / 100 + 0.02 * often->loss[0]);
        CHECK(seldom->held_out.correct >= often->held_out.correct - 2);
        outcome_free(seldom);
    }
    outcome_free(often);
    data_folder_remove(&folder);
}
