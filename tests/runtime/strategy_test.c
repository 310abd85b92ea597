/* Strategies as step schedules: each is checked and proved, on a model of a few layers; bytes and
 * numbers of collectives are those of the formulas. */
#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/strategy.h"
#include "tests/alloc_fail.h"
#include "tests/test.h"

static const struct tutti_variable wide[] = {{.name = "w", .rows = 40, .elements = 4000},
                                             {.name = "b", .rows = 10, .elements = 10}};
static const struct tutti_variable narrow[] = {
    {.name = "w", .rows = 10, .elements = 1000},
    {.name = "moving", .elements = 7, .unreduced = true}};
static const struct tutti_layer layers[] = {
    {.name = "stem", .repeat = 1, .variables = wide, .variable_count = 2},
    {.name = "block", .repeat = 3, .variables = narrow, .variable_count = 2},
    {.name = "pool", .repeat = 1},
    {.name = "head", .repeat = 1, .variables = wide, .variable_count = 2}};
static const struct tutti_workload model = {
    .name = "tiny", .layers = layers, .layer_count = 4, .sequence = 1};
static const struct tutti_layer_times times[] = {{10, 20}, {5, 9}, {1, 1}, {10, 20}};

enum { ELEMENTS = 2 * 4010 + 3 * 1000 };

static struct tutti_strategy_params params_of(const struct tutti_strategy *strategy,
                                              uint32_t rank_count)
{
    return (struct tutti_strategy_params){.size = sizeof(struct tutti_strategy_params),
                                          .strategy = strategy,
                                          .model = &model,
                                          .rank_count = rank_count,
                                          .gradient_bytes = 4,
                                          .weight_bytes = 4,
                                          .times = times,
                                          .optimizer_ps = 7};
}

static struct tutti_strategy named(const char *name)
{
    struct tutti_strategy strategy = {.name = NULL};
    struct tutti_err err;

    CHECK_OK(tutti_strategy_named(name, &strategy, &err), err);
    return strategy;
}

/* Bytes of all calls of a rank, by collective, as the contracts count them. */
static void count_calls(const struct tutti_schedule *s, uint64_t counts[TUTTI_COLLECTIVE_COUNT],
                        uint64_t bytes[TUTTI_COLLECTIVE_COUNT])
{
    for (uint32_t lane = 0; lane < s->lane_count; lane++) {
        const struct tutti_step *step;
        struct tutti_cursor cursor;

        tutti_cursor_open(&cursor, s, s->rank_count - 1, lane);
        while ((step = tutti_cursor_next(&cursor)) != NULL) {
            const struct tutti_contract *c;

            if (step->kind != TUTTI_CALL)
                continue;
            c = &s->callees[step->peer]->contract;
            counts[c->collective]++;
            bytes[c->collective] += tutti_collective_bytes(c->collective, c->count, c->dtype,
                                                           s->callees[step->peer]->rank_count);
        }
    }
}

static int no_work(const struct tutti_work_call *call, struct tutti_err *err)
{
    (void)call;
    (void)err;
    return 0;
}

/* As a step that is really done: with work, with what all ranks report, also without overlap. */
TEST(every_strategy_that_is_really_done_is_checked_and_proved)
{
    size_t count;
    const struct tutti_strategy_entry *entries = tutti_strategies(&count);

    for (size_t i = 0; i < 4 * count; i++) {
        struct tutti_strategy strategy = named(entries[i / 4].name);
        struct tutti_strategy_params params = params_of(&strategy, 4);
        struct tutti_schedule *s = NULL;
        struct tutti_err err;

        if (strategy.coordinated)
            continue;
        strategy.limit = strategy.limit > 1 ? 5000 : strategy.limit;
        strategy.local_steps = strategy.local_steps > 0 ? 3 : 0;
        strategy.overlap = strategy.overlap && i % 4 < 2;
        params.micro_batches = 1 + i % 2;
        params.run = no_work;
        params.report_elements = 7;
        params.rank_count = strcmp(strategy.name, "onedevice") == 0 ? 1 : 4;
        params.shard_ranks = strcmp(strategy.name, "hsdp") == 0 ? 2 : 0;
        CHECK_OK(tutti_strategy_schedule(&params, &s, &err), err);
        if (tutti_schedule_check(s, &err) < 0 || tutti_schedule_prove(s, &err) < 0)
            TEST_FAIL("%s, %u micro-batches: %s", strategy.name, params.micro_batches, err.text);
        for (uint32_t k = 0; k < s->work_count; k++)
            CHECK(s->work[k].run == no_work);
        tutti_schedule_free(s);
    }
}

TEST(every_strategy_is_checked_and_proved)
{
    size_t count;
    const struct tutti_strategy_entry *entries = tutti_strategies(&count);

    for (size_t i = 0; i < count; i++) {
        for (uint32_t micro_batches = 1; micro_batches <= 3; micro_batches += 2) {
            struct tutti_strategy strategy = named(entries[i].name);
            struct tutti_strategy_params params = params_of(&strategy, 4);
            struct tutti_schedule *s = NULL;
            struct tutti_err err;

            if (strategy.coordinated) {
                CHECK_INT(tutti_strategy_schedule(&params, &s, &err), -TUTTI_EINVAL);
                CHECK(strstr(err.text, "coordinator") != NULL);
                continue;
            }
            strategy.limit = strategy.limit > 1 ? 5000 : strategy.limit;
            params.micro_batches = micro_batches;
            params.input_ps = 3;
            params.rank_count = strcmp(strategy.name, "onedevice") == 0 ? 1 : 4;
            params.shard_ranks = strcmp(strategy.name, "hsdp") == 0 ? 2 : 0;
            CHECK_OK(tutti_strategy_schedule(&params, &s, &err), err);
            if (tutti_schedule_check(s, &err) < 0)
                TEST_FAIL("%s, %u micro-batches: %s", strategy.name, micro_batches, err.text);
            if (tutti_schedule_prove(s, &err) < 0)
                TEST_FAIL("%s, %u micro-batches: %s", strategy.name, micro_batches, err.text);
            tutti_schedule_free(s);
        }
    }
}

TEST(bytes_are_those_of_the_formulas)
{
    static const struct {
        const char *name;
        uint64_t all_reduce;
        uint64_t reduce_scatter;
        uint64_t all_gather;
    } cases[] = {{"mirrored", 1, 0, 0},
                 {"ddp", 1, 0, 0},
                 {"zero1", 0, 1, 1},
                 {"fsdp", 0, 1, 2},
                 {"local-sgd", 1, 0, 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_strategy strategy = named(cases[i].name);
        struct tutti_strategy_params params = params_of(&strategy, 2); /* divides all */
        uint64_t counts[TUTTI_COLLECTIVE_COUNT] = {0};
        uint64_t bytes[TUTTI_COLLECTIVE_COUNT] = {0};
        struct tutti_schedule *s = NULL;
        struct tutti_err err;

        CHECK_OK(tutti_strategy_schedule(&params, &s, &err), err);
        count_calls(s, counts, bytes);
        CHECK_INT(bytes[TUTTI_ALLREDUCE], cases[i].all_reduce * ELEMENTS * 4);
        CHECK_INT(bytes[TUTTI_REDUCESCATTER], cases[i].reduce_scatter * ELEMENTS * 4);
        CHECK_INT(bytes[TUTTI_ALLGATHER], cases[i].all_gather * ELEMENTS * 4);
        tutti_schedule_free(s);
    }
}

/* DDP's first bucket, closed at a byte, is the head's bias and weight; the others follow. */
TEST(buckets_begin_under_the_backward_pass)
{
    struct tutti_strategy strategy = named("ddp");
    struct tutti_strategy_params params = params_of(&strategy, 2);
    const struct tutti_step *step;
    struct tutti_schedule *s = NULL;
    struct tutti_cursor cursor;
    struct tutti_err err;

    strategy.first_limit = 16000;
    strategy.limit = 8000;
    CHECK_OK(tutti_strategy_schedule(&params, &s, &err), err);
    tutti_cursor_open(&cursor, s, 0, TUTTI_LANE_REDUCE);
    step = tutti_cursor_next(&cursor);
    REQUIRE(step != NULL);
    CHECK_INT(step->dep_lane, TUTTI_LANE_WORK);
    CHECK_INT(step->dep_step, 6); /* after 6 layers forward, the first backward */
    step = tutti_cursor_next(&cursor);
    REQUIRE(step != NULL);
    CHECK_INT(step->dep_step, 9); /* pool, and two blocks of 4000 bytes */
    tutti_schedule_free(s);
}

TEST(unknown_names_are_refused_with_the_nearest)
{
    struct tutti_strategy strategy;
    struct tutti_err err;

    CHECK_INT(tutti_strategy_named("mirored", &strategy, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "unknown strategy 'mirored' (did you mean 'mirrored'?") != NULL);
}

static int make_fsdp(struct tutti_err *err)
{
    struct tutti_strategy strategy = named("fsdp");
    struct tutti_strategy_params params = params_of(&strategy, 4);
    struct tutti_schedule *s = NULL;
    int status = tutti_strategy_schedule(&params, &s, err);

    if (status == 0)
        tutti_schedule_free(s);
    return status;
}

TEST(a_strategy_fails_cleanly_without_memory)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(make_fsdp(&err), err);
}
