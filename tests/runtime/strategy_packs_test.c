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
 * that it waits for. */
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

        CHECK_INT(step->kind, TUTTI_CALL);
        CHECK_INT(step->flags & TUTTI_STEP_DEP, TUTTI_STEP_DEP);
        CHECK_INT(step->dep_lane, TUTTI_LANE_WORK);
        snprintf(said + used, sizeof(said) - used, "%s%llu after %s", used > 0 ? ", " : "",
                 (unsigned long long)s->callees[step->peer]->contract.count,
                 s->work[work[step->dep_step]].name);
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
    expect_of(&tables, 8, &s, "10 after l2.backward, 112 after l1.backward");
    expect_of(&tables, 64, &s, "10 after l2.backward, 700 after l1.backward");
    s.densify = true;
    expect_of(&tables, 8, &s, "10 after l2.backward, 500 after l1.backward");
    s = named("zero2"); /* states are divided: all of it */
    s.limit = 40;
    expect_of(&tables, 8, &s, "3 after l2.backward, 125 after l1.backward");
}
