/* Ranks that have parts of the model, by layers and of them, train what one rank trains that has
 * all of it. */
#include <ftw.h>
#include <unistd.h>

#include "runtime/random.h"
#include "tests/runtime/train_world.h"

enum { STEPS = 6, BATCH = 24, MICRO = 4 };

/* 784-24-16-8-10, with dropout between. */
static const char deep[] = "model deep\n"
                           "sample image\n"
                           "logits 10\n"
                           "layer one\n"
                           "operation one matmul 1 x 784 x 24 first\n"
                           "operation relu elementwise in 24 out 24\n"
                           "variable one elements 18816 rows 784\n"
                           "variable one.bias elements 24\n"
                           "layer two\n"
                           "operation two matmul 1 x 24 x 16\n"
                           "operation relu elementwise in 16 out 16\n"
                           "variable two elements 384 rows 24\n"
                           "layer three\n"
                           "operation three matmul 1 x 16 x 8\n"
                           "operation relu elementwise in 8 out 8\n"
                           "variable three elements 128 rows 16\n"
                           "variable three.bias elements 8\n"
                           "layer classes\n"
                           "operation classes matmul 1 x 8 x 10\n"
                           "operation loss loss in 10 out 1\n"
                           "variable classes elements 80 rows 8\n"
                           "variable classes.bias elements 10\n";

static struct outcome *take(struct course course)
{
    course.model = course.model != NULL ? course.model : deep;
    course.strategy = course.strategy != NULL  ? course.strategy
                      : course.rank_count == 1 ? "onedevice"
                                               : "mirrored";
    course.steps = course.steps > 0 ? course.steps : STEPS;
    course.global_batch = course.global_batch > 0 ? course.global_batch : BATCH;
    course.examples = course.examples > 0 ? course.examples : 100; /* the fifth batch is short */
    course.rate = course.optimizer != NULL ? 0 : 0.05;
    return take_course(&course);
}

static bool is_equal(const struct outcome *a, const struct outcome *b)
{
    return a->count == b->count &&
           memcmp(a->weights, b->weights, (size_t)a->count * sizeof(float)) == 0;
}

static void expect_like(const struct course *course, const struct outcome *one)
{
    const struct tutti_parallel *p = course->parallel;
    struct outcome *o = take(*course);
    const double off = apart(o, one);

    if (!(off <= 1e-6))
        TEST_FAIL("tensor %u, pipeline %u (%s) on %u ranks: off by %g", p->tensor, p->pipeline,
                  tutti_pipeline_name(p->schedule), course->rank_count, off);
    for (uint32_t i = 0; i < STEPS; i++) {
        CHECK(o->examples[i] == one->examples[i]);
        if (!(fabs(o->loss[i] - one->loss[i]) <= 1e-5))
            TEST_FAIL("tensor %u, pipeline %u: step %u has a loss of %.9g, not %.9g", p->tensor,
                      p->pipeline, i, o->loss[i], one->loss[i]);
    }
    CHECK(o->in_sync);
    outcome_free(o);
}

#define CUT(...) \
    (&(const struct tutti_parallel){.size = sizeof(struct tutti_parallel), __VA_ARGS__})

/* Gradients are added up micro-batch by micro-batch as one device does; by GPipe from the last on.
 */
TEST(a_pipeline_is_one_device_that_accumulates_to_the_bit)
{
    static const struct {
        enum tutti_pipeline kind;
        uint32_t devices;
        uint32_t chunks;
    } rows[] = {{TUTTI_PIPELINE_GPIPE, 2, 1}, {TUTTI_PIPELINE_1F1B, 2, 1},
                {TUTTI_PIPELINE_1F1B, 4, 1},  {TUTTI_PIPELINE_INTERLEAVED, 2, 2},
                {TUTTI_PIPELINE_ZB_H1, 2, 1}, {TUTTI_PIPELINE_ZB_H2, 2, 1},
                {TUTTI_PIPELINE_ZBV, 2, 2}};
    struct outcome *one =
        take((struct course){.rank_count = 1, .micro_batches = MICRO, .dropout = 0.2f});

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct tutti_parallel cut = {.size = sizeof(cut),
                                           .pipeline = rows[i].devices,
                                           .schedule = rows[i].kind,
                                           .virtual_stages = rows[i].chunks};
        const struct course course = {
            .rank_count = cut.pipeline, .micro_batches = MICRO, .dropout = 0.2f, .parallel = &cut};
        struct outcome *o = take(course);

        if (!is_equal(o, one) && cut.schedule != TUTTI_PIPELINE_GPIPE)
            TEST_FAIL("%s of %u devices: off by %g", tutti_pipeline_name(cut.schedule),
                      cut.pipeline, apart(o, one));
        outcome_free(o);
        expect_like(&course, one);
    }
    outcome_free(one);
}

TEST(parts_of_layers_are_one_device)
{
    struct outcome *one = take((struct course){.rank_count = 1, .dropout = 0.2f});

    expect_like(&(struct course){.rank_count = 2, .dropout = 0.2f, .parallel = CUT(.tensor = 2)},
                one);
    expect_like(&(struct course){.rank_count = 4, .dropout = 0.2f, .parallel = CUT(.tensor = 4)},
                one);
    expect_like(&(struct course){.rank_count = 8,
                                 .dropout = 0.2f,
                                 .micro_batches = MICRO,
                                 .parallel = CUT(.tensor = 2, .pipeline = 2,
                                                 .schedule = TUTTI_PIPELINE_1F1B)},
                one);
    outcome_free(one);
}

TEST(the_models_of_tutorials_are_cut)
{
    struct outcome *one =
        take((struct course){.model = "mlp", .rank_count = 1, .optimizer = "adam"});

    expect_like(
        &(struct course){
            .model = "mlp", .rank_count = 2, .optimizer = "adam", .parallel = CUT(.tensor = 2)},
        one);
    expect_like(&(struct course){.model = "mlp",
                                 .rank_count = 4,
                                 .optimizer = "adam",
                                 .micro_batches = MICRO,
                                 .parallel = CUT(.tensor = 2, .pipeline = 2)},
                one);
    outcome_free(one);
    one = take((struct course){.model = "cifar10-cnn",
                               .data = "synthetic-cifar10",
                               .rank_count = 1,
                               .global_batch = 8,
                               .examples = 36});
    expect_like(&(struct course){.model = "cifar10-cnn",
                                 .data = "synthetic-cifar10",
                                 .rank_count = 2,
                                 .global_batch = 8,
                                 .examples = 36,
                                 .micro_batches = 2,
                                 .parallel = CUT(.pipeline = 2, .schedule = TUTTI_PIPELINE_ZB_H1)},
                one);
    expect_like(&(struct course){.model = "cifar10-cnn",
                                 .data = "synthetic-cifar10",
                                 .rank_count = 4,
                                 .global_batch = 8,
                                 .examples = 36,
                                 .micro_batches = 2,
                                 .parallel = CUT(.pipeline = 2)},
                one);
    outcome_free(one);
}

/* Drawn: which ranks form groups, who is cut how, and in how many micro-batches. */
TEST(drawn_at_random_they_are_one_device)
{
    const uint64_t count = test_count(60, 6);
    struct outcome *one = take((struct course){.rank_count = 1, .optimizer = "adam"});

    for (uint64_t k = 0; k < count; k++) {
        const uint64_t seed = test_seed + k;
        struct tutti_parallel cut = {.size = sizeof(cut),
                                     .tensor = 1u << tutti_random_hash(seed, 1, 0, 0) % 3,
                                     .pipeline = 1u << tutti_random_hash(seed, 2, 0, 0) % 3,
                                     .data = 1 + (uint32_t)(tutti_random_hash(seed, 3, 0, 0) % 2),
                                     .schedule = (enum tutti_pipeline)(
                                         tutti_random_hash(seed, 4, 0, 0) % TUTTI_PIPELINE_COUNT)};
        struct course course = {.optimizer = "adam", .parallel = &cut};

        if (cut.pipeline != 2 && cut.schedule != TUTTI_PIPELINE_GPIPE)
            cut.schedule = TUTTI_PIPELINE_1F1B;
        if (cut.schedule == TUTTI_PIPELINE_INTERLEAVED || cut.schedule == TUTTI_PIPELINE_ZBV)
            cut.virtual_stages = 2;
        course.micro_batches = 4 + 2 * (uint32_t)(tutti_random_hash(seed, 5, 0, 0) % 3);
        for (uint32_t i = 0; i < TUTTI_DIM_COUNT; i++)
            cut.order[i] = (uint8_t)i;
        for (uint32_t i = TUTTI_DIM_COUNT - 1; i > 0; i--) {
            const uint32_t j = (uint32_t)(tutti_random_hash(seed, 6, i, 0) % (i + 1));
            const uint8_t moved = cut.order[i];

            cut.order[i] = cut.order[j];
            cut.order[j] = moved;
        }
        course.rank_count = cut.tensor * cut.pipeline * cut.data;
        if (course.rank_count > 1)
            expect_like(&course, one);
    }
    outcome_free(one);
}

/* ---- what is kept, and looked at ------------------------------------------------------------- */

TEST(an_evaluation_counts_each_example_once)
{
    struct outcome *one = take((struct course){.rank_count = 1, .held_out = 77, .evaluate = true});
    struct outcome *o = take((struct course){.rank_count = 8,
                                             .held_out = 77,
                                             .evaluate = true,
                                             .micro_batches = 2,
                                             .parallel = CUT(.tensor = 2, .pipeline = 2)});

    CHECK(o->held_out.examples == 77);
    CHECK(o->held_out.correct == one->held_out.correct);
    CHECK(fabs(o->held_out.loss - one->held_out.loss) < 1e-4);
    outcome_free(o);
    outcome_free(one);
}

static int remove_file(const char *path, const struct stat *what, int kind, struct FTW *where)
{
    (void)what, (void)kind, (void)where;
    return remove(path);
}

/* Saved by ranks that have parts, gone on with by one that has all, or otherwise cut, and back. */
TEST(a_checkpoint_knows_no_parts)
{
    static const struct tutti_parallel cut = {.size = sizeof(cut), .tensor = 2, .pipeline = 2};
    static const struct tutti_parallel other = {.size = sizeof(other), .pipeline = 4};
    char folder[] = "/tmp/tutti_parts_XXXXXX";
    struct course course = {.rank_count = 1, .optimizer = "adam"};
    struct outcome *one = take(course);
    struct outcome *o;

    REQUIRE(mkdtemp(folder) != NULL);
    course.checkpoint = folder;
    for (uint32_t i = 1; i <= 3; i++) {
        course.steps = 2 * i;
        course.parallel = i == 1 ? &cut : i == 2 ? NULL : &other;
        course.rank_count = i == 1 ? 8 : i == 2 ? 1 : 4;
        course.micro_batches = i == 2 ? 0 : 2;
        o = take(course);
        if (i == 3 && !(apart(o, one) <= 1e-6))
            TEST_FAIL("off by %g", apart(o, one));
        outcome_free(o);
    }
    CHECK(nftw(folder, remove_file, 8, FTW_DEPTH | FTW_PHYS) == 0);
    outcome_free(one);
}
