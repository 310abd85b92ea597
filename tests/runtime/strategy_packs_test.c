/* Packs of tf.distribute in the step's schedule: which gradients a collective holds, in what order
 * they go, and after which layer's backward pass each may begin. */
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/strategy.h"
#include "tests/test.h"

/* Gradients of 40, 80, 120 and 160 bytes. */
static const struct tutti_variable variables[4] = {{.name = "w1", .rows = 10, .elements = 10},
                                                   {.name = "w2", .rows = 20, .elements = 20},
                                                   {.name = "w3", .rows = 30, .elements = 30},
                                                   {.name = "w4", .rows = 40, .elements = 40}};
static const struct tutti_layer layers[4] = {
    {.name = "l1", .repeat = 1, .variables = &variables[0], .variable_count = 1},
    {.name = "l2", .repeat = 1, .variables = &variables[1], .variable_count = 1},
    {.name = "l3", .repeat = 1, .variables = &variables[2], .variable_count = 1},
    {.name = "l4", .repeat = 1, .variables = &variables[3], .variable_count = 1}};
static const struct tutti_workload model = {
    .name = "four", .layers = layers, .layer_count = 4, .sequence = 1};
static const struct tutti_layer_times times[4] = {{1, 2}, {1, 2}, {1, 2}, {1, 2}};

static struct tutti_strategy named(const char *name)
{
    struct tutti_strategy s = {.name = NULL};
    struct tutti_err err = {""};

    CHECK_OK(tutti_strategy_named(name, &s, &err), err);
    return s;
}

/* "40 after l4.backward, ...": the elements of each collective of the reduce lane, and the work
 * that it waits for; and what is computed between them. */
static void expect_of(const struct tutti_workload *of, uint32_t samples,
                      const struct tutti_strategy *strategy, const char *expected)
{
    const struct tutti_strategy_params params = {.size = sizeof(params),
                                                 .strategy = strategy,
                                                 .model = of,
                                                 .rank_count = 4,
                                                 .samples = samples,
                                                 .gradient_bytes = 4,
                                                 .weight_bytes = 4,
                                                 .times = times};
    struct tutti_schedule *s = NULL;
    struct tutti_err err = {""};
    struct tutti_cursor cursor;
    const struct tutti_step *step;
    char said[512] = "";
    uint32_t work[16]; /* entries of the work lane */
    uint32_t count = 0;

    CHECK_OK(tutti_strategy_schedule(&params, &s, &err), err);
    REQUIRE(s != NULL);
    CHECK_OK(tutti_schedule_check(s, &err), err);
    CHECK_OK(tutti_schedule_prove(s, &err), err);
    tutti_cursor_open(&cursor, s, 0, TUTTI_LANE_WORK);
    while ((step = tutti_cursor_next(&cursor)) != NULL && count < 16)
        work[count++] = step->peer - 1;
    tutti_cursor_open(&cursor, s, 0, TUTTI_LANE_REDUCE);
    while ((step = tutti_cursor_next(&cursor)) != NULL) {
        size_t used = strlen(said);

        if (step->kind == TUTTI_COMPUTE) {
            snprintf(said + used, sizeof(said) - used, ", %s", s->work[step->peer - 1].name);
            continue;
        }
        CHECK_INT(step->kind, TUTTI_CALL);
        snprintf(said + used, sizeof(said) - used, "%s%llu", used > 0 ? ", " : "",
                 (unsigned long long)s->callees[step->peer]->contract.count);
        used = strlen(said);
        if ((step->flags & TUTTI_STEP_DEP) == 0) /* the one before it on its lane is enough */
            continue;
        CHECK_INT(step->dep_lane, TUTTI_LANE_WORK);
        snprintf(said + used, sizeof(said) - used, " after %s", s->work[work[step->dep_step]].name);
    }
    CHECK_TEXT(said, expected);
    tutti_schedule_free(s);
}

static void expect(const struct tutti_strategy *strategy, const char *expected)
{
    expect_of(&model, 1, strategy, expected);
}

/* NcclAllReduce(num_packs), HierarchicalCopyAllReduce(num_packs): all gradients concatenated, and
 * cut into equal pieces, the last with the remainder; none goes before the last gradient is there.
 */
TEST(num_packs_are_pieces_of_all_gradients)
{
    struct tutti_strategy s = named("mirrored");

    expect(&s, "100 after l1.backward");
    s.limit = 3;
    expect(&s, "33 after l1.backward, 33 after l1.backward, 34 after l1.backward");
    s.limit = 0; /* each by itself */
    expect(&s, "40 after l1.backward, 30 after l1.backward, 20 after l1.backward, 10 after "
               "l1.backward");
    s.overlap = true;
    expect(&s, "40 after l4.backward, 30 after l3.backward, 20 after l2.backward, 10 after "
               "l1.backward");
}

/* MultiWorkerMirrored: in reverse order, so that packs follow the backward pass; one is closed once
 * it holds more than bytes_per_pack. */
TEST(bytes_per_pack_are_exceeded_in_reverse_order)
{
    struct tutti_strategy s = named("multiworkermirrored");

    expect(&s, "100 after l1.backward"); /* 0: one pack */
    s.limit = 150;
    expect(&s, "40 after l4.backward, 50 after l2.backward, 10 after l1.backward");
    s.limit = 160; /* as much is not more */
    expect(&s, "70 after l3.backward, 30 after l1.backward");
    s.limit = 1;
    expect(&s, "40 after l4.backward, 30 after l3.backward, 20 after l2.backward, 10 after "
               "l1.backward");
    s.overlap = false;
    s.limit = 150;
    expect(&s, "40 after l1.backward, 50 after l1.backward, 10 after l1.backward");
}

/* DDP: a bucket is closed once it holds as much, the first once it holds first_limit. */
TEST(buckets_are_reached)
{
    struct tutti_strategy s = named("ddp");

    s.first_limit = 160;
    s.limit = 200;
    expect(&s, "40 after l4.backward, 50 after l2.backward, 10 after l1.backward");
    s.first_limit = 161;
    expect(&s, "70 after l3.backward, 30 after l1.backward");
}

/* A table of 100 rows of 5 elements, of which a sample touches two; a row's index takes as much as
 * two of its elements. More samples than rows touch them all. */
TEST(rows_that_samples_touch_are_gathered_with_their_indices)
{
    static const struct tutti_variable table[1] = {
        {.name = "table", .rows = 100, .elements = 500, .touched_rows = 2}};
    static const struct tutti_layer two[2] = {
        {.name = "l1", .repeat = 1, .variables = table, .variable_count = 1},
        {.name = "l2", .repeat = 1, .variables = &variables[0], .variable_count = 1}};
    static const struct tutti_workload tables = {
        .name = "tables", .layers = two, .layer_count = 2, .sequence = 1};
    struct tutti_strategy s = named("ddp");

    s.first_limit = 40;
    expect_of(&tables, 8, &s, "10 after l2.backward, 1 after l1.backward, 112");
    expect_of(&tables, 64, &s, "10 after l2.backward, 1 after l1.backward, 700");
    s.densify = true;
    expect_of(&tables, 8, &s, "10 after l2.backward, 500 after l1.backward");
    s = named("zero2"); /* states are divided: all of it */
    s.limit = 40;
    expect_of(&tables, 8, &s, "3 after l2.backward, 125 after l1.backward");
}

/* Of gradients of 40 and 30 elements, and 20 and 10, a tenth and an index of as many bytes each,
 * from all ranks; of a pack that has less than one such element, one. */
TEST(the_largest_elements_are_gathered_with_their_indices)
{
    struct tutti_strategy s = named("ddp");

    s.compression = TUTTI_COMPRESS_TOP_K;
    s.keep_ppm = 100000;
    s.first_limit = 161;
    expect(&s, "14 after compress, 6 after compress");
    s.keep_ppm = 1;
    expect(&s, "2 after compress, 2 after compress");
    s.overlap = false;
    expect(&s, "2 after compress, 2 after compress");
}

/* Factors of rank 2 are less than half of 100 x 5 elements (2 x 105 x 2 < 500), of rank 3 not; of
 * 60 x 40 they are 120 and then 80 elements, beside a vector of 40 that stays whole. */
TEST(factors_of_matrices_are_reduced_one_after_the_other)
{
    static const struct tutti_variable matrices[3] = {{.name = "a", .rows = 60, .elements = 2400},
                                                      {.name = "bias", .rows = 40, .elements = 40},
                                                      {.name = "b", .rows = 100, .elements = 500}};
    static const struct tutti_layer two[2] = {
        {.name = "l1", .repeat = 1, .variables = matrices, .variable_count = 2},
        {.name = "l2", .repeat = 1, .variables = &matrices[2], .variable_count = 1}};
    static const struct tutti_workload dense = {
        .name = "dense", .layers = two, .layer_count = 2, .sequence = 1};
    struct tutti_strategy s = named("ddp");

    s.compression = TUTTI_COMPRESS_POWER_SGD;
    s.factor_rank = 2;
    s.first_limit = 2000;
    expect_of(&dense, 1, &s,
              "200 after compress, orthogonalize, 10, 160 after compress, "
              "orthogonalize, 80");
    s.factor_rank = 3;
    expect_of(&dense, 1, &s, "500 after compress, 220 after compress, orthogonalize, 120");
}

TEST(what_is_divided_or_averaged_is_not_compressed)
{
    static const char *const names[] = {"zero1", "fsdp", "local-sgd", "central-storage"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct tutti_strategy s = named(names[i]);
        const struct tutti_strategy_params params = {.size = sizeof(params),
                                                     .strategy = &s,
                                                     .model = &model,
                                                     .rank_count = 4,
                                                     .gradient_bytes = 4,
                                                     .weight_bytes = 4,
                                                     .times = times};
        struct tutti_schedule *schedule = NULL;
        struct tutti_err err;

        s.compression = TUTTI_COMPRESS_TOP_K;
        s.keep_ppm = 1000;
        CHECK_INT(tutti_strategy_schedule(&params, &schedule, &err), -TUTTI_EINVAL);
        CHECK(strstr(err.text, names[i]) != NULL);
    }
}
