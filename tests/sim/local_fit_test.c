/* The parameters of a machine found again from what small schedules took on it; and once more when
 * it has moved. */
#include <math.h>
#include <stdio.h>

#include "runtime/random.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/local.h"
#include "tests/test.h"
#include "tools/local/local.h"

static void set(struct tutti_local *local, enum tutti_local_parameter parameter, double value)
{
    local->values[parameter] = (struct tutti_local_value){.value = value, .low = NAN, .high = NAN};
}

/* ---- found again ----------------------------------------------------------------------------- */

static const double truths[TUTTI_LOCAL_COUNT] = {
    [TUTTI_LOCAL_TOGETHER] = 0.8,
    [TUTTI_LOCAL_LAUNCH] = 0.45,
    [TUTTI_LOCAL_LAUNCH_ALONE] = 0.08,
    [TUTTI_LOCAL_HOP] = 0.17,
    [TUTTI_LOCAL_STEP] = 0.025,
    [TUTTI_LOCAL_READ_OWN] = 140,
    [TUTTI_LOCAL_READ_OTHER] = 14,
    [TUTTI_LOCAL_READ_TWIN] = 60,
    [TUTTI_LOCAL_READ_SHARED] = 27,
    [TUTTI_LOCAL_READ_CAST] = 22,
    [TUTTI_LOCAL_READ_MEMORY] = 14,
    [TUTTI_LOCAL_WRITE_OWN] = 90,
    [TUTTI_LOCAL_WRITE_OTHER] = 17,
    [TUTTI_LOCAL_WRITE_SHARED] = 26,
    [TUTTI_LOCAL_WRITE_CAST] = 20,
    [TUTTI_LOCAL_WRITE_MEMORY] = 12,
    [TUTTI_LOCAL_COPY_PAST] = 30,
    [TUTTI_LOCAL_REDUCE_PAST] = 21,
    [TUTTI_LOCAL_PUSH] = 80,
    [TUTTI_LOCAL_OWN_CACHE] = 2300,
    [TUTTI_LOCAL_SHARED_CACHE] = 60000,
    [TUTTI_LOCAL_SEND_NEAR] = 10,
    [TUTTI_LOCAL_SEND_FAR] = 3,
    [TUTTI_LOCAL_TAKE_NEAR] = 8,
    [TUTTI_LOCAL_TAKE_FAR] = 5,
    [TUTTI_LOCAL_CALL] = 3,
    [TUTTI_LOCAL_NEAR] = 900,
    [TUTTI_LOCAL_LEND] = 18,
    [TUTTI_LOCAL_TAKE_LENT] = 9,
    [TUTTI_LOCAL_TAKE_MEMORY] = 4,
    [TUTTI_LOCAL_ALL_SHARED] = 35,
    [TUTTI_LOCAL_ALL_MEMORY] = 30,
};

/* The times of a known machine, each off by up to `noise`, as if they had been measured. */
static void make_up(struct tutti_local_points *points, const struct tutti_local *like, double noise)
{
    struct tutti_local truth = *like;
    struct tutti_random random;
    struct tutti_err err = {.text = ""};

    tutti_random_seed(&random, test_seed);
    for (int p = 0; p < TUTTI_LOCAL_COUNT; p++)
        set(&truth, (enum tutti_local_parameter)p, truths[p]);
    for (uint32_t i = 0; i < points->count; i++) {
        struct tutti_local_point *point = &points->points[i];
        struct tutti_local_play *play = NULL;
        tutti_ps ps = 0;

        CHECK_OK(tutti_local_play_open(point->schedule, 2, &play, &err), err);
        CHECK_OK(tutti_local_time(play, &truth, &ps, &err), err);
        tutti_local_play_close(play);
        point->measured_us = (double)ps / (double)TUTTI_PS_PER_US *
                             (1 + noise * (2 * tutti_random_unit(&random) - 1));
    }
}

static struct tutti_local_ask ask_of(void)
{
    return (struct tutti_local_ask){.rank_count = 2,
                                    .processor_count = 2,
                                    .dtype = TUTTI_FLOAT32,
                                    .op = TUTTI_SUM,
                                    .bytes_max = UINT64_C(192) << 20};
}

/* From messages of at most so many bytes. */
static struct tutti_local found_up_to(uint64_t bytes_max, const char *backend,
                                      uint32_t process_count, double noise,
                                      struct tutti_local_fitted *ret)
{
    struct tutti_local_ask ask = ask_of();
    struct tutti_local_points points = {.count = 0};
    struct tutti_local local = tutti_local_guess();
    struct tutti_err err = {.text = ""};

    ask.bytes_max = bytes_max;
    local.processor_count = 2;
    local.process_count = process_count;
    snprintf(local.backend, sizeof(local.backend), "%s", backend);
    CHECK_OK(tutti_local_points_make(&ask, &points, &err), err);
    make_up(&points, &local, noise);
    CHECK_OK(tutti_local_fit(&points, &local, ret, &err), err);
    tutti_local_points_close(&points);
    return local;
}

static struct tutti_local found(const char *backend, uint32_t process_count, double noise,
                                struct tutti_local_fitted *ret)
{
    return found_up_to(ask_of().bytes_max, backend, process_count, noise, ret);
}

TEST(a_machine_that_was_measured_exactly_is_found_again)
{
    struct tutti_local_fitted fitted = {.iteration_count = 0};
    struct tutti_local local = found("threads", 1, 0, &fitted);

    CHECK(fitted.median_abs_percent < 1);
    for (int p = 0; p < TUTTI_LOCAL_COUNT; p++) {
        const struct tutti_local_value *value = &local.values[p];

        if (tutti_local_has(&local, (enum tutti_local_parameter)p) && !value->open &&
            fabs(value->value / truths[p] - 1) > 0.15)
            TEST_FAIL("%s is %g, expected %g", tutti_local_name((enum tutti_local_parameter)p),
                      value->value, truths[p]);
    }
    CHECK(!local.values[TUTTI_LOCAL_HOP].open);
    CHECK(!local.values[TUTTI_LOCAL_READ_MEMORY].open);
    CHECK(!local.values[TUTTI_LOCAL_OWN_CACHE].open);
    CHECK(!local.values[TUTTI_LOCAL_ALL_MEMORY].open);
}

/* The intervals take the model for linear about what was found, and begin with guesses that pull a
 * little; so of 20 of them more than one may miss, but none by far. */
TEST(truths_lie_within_their_intervals)
{
    struct tutti_local_fitted fitted = {.iteration_count = 0};
    struct tutti_local local;
    int outside = 0;

    if (test_fewer() > 1)
        SKIP("fewer cases are asked for");
    local = found("threads", 1, 0.05, &fitted);
    CHECK(fitted.median_abs_percent < 5);
    for (int p = 0; p < TUTTI_LOCAL_COUNT; p++) {
        const struct tutti_local_value *value = &local.values[p];
        double off = fabs(log(truths[p] / value->value));
        double half = log(value->high / value->value);

        if (!tutti_local_has(&local, (enum tutti_local_parameter)p))
            continue;
        outside += off > half;
        if (off > 5 * half)
            TEST_FAIL("%s is %g (%g to %g), expected %g",
                      tutti_local_name((enum tutti_local_parameter)p), value->value, value->low,
                      value->high, truths[p]);
    }
    if (outside > 5)
        TEST_FAIL("%d of %d truths lie outside of their intervals", outside, TUTTI_LOCAL_COUNT);
}

/* That these are told by the data, and right within 15 %. */
static void check_told(const struct tutti_local *local, const enum tutti_local_parameter *told,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct tutti_local_value *value = &local->values[told[i]];

        CHECK(!value->open);
        if (fabs(value->value / truths[told[i]] - 1) > 0.15)
            TEST_FAIL("%s is %g, expected %g", tutti_local_name(told[i]), value->value,
                      truths[told[i]]);
    }
}

/* Between processes there is nothing to push, and nobody reads what another cache holds. Beyond a
 * processor's own cache nothing is asked for: 24 MiB do, but for --full. */
TEST(what_processes_take_is_found_again)
{
    static const enum tutti_local_parameter told[] = {TUTTI_LOCAL_SEND_FAR, TUTTI_LOCAL_TAKE_NEAR,
                                                      TUTTI_LOCAL_CALL, TUTTI_LOCAL_NEAR,
                                                      TUTTI_LOCAL_OWN_CACHE};
    struct tutti_local_fitted fitted = {.iteration_count = 0};
    struct tutti_local local =
        found_up_to(test_full ? ask_of().bytes_max : UINT64_C(24) << 20, "mpi", 2, 0, &fitted);

    CHECK(fitted.median_abs_percent < 2);
    check_told(&local, told, sizeof(told) / sizeof(told[0]));
    CHECK(local.values[TUTTI_LOCAL_PUSH].open);
    CHECK(local.values[TUTTI_LOCAL_READ_OTHER].open);
}

/* What is lent is found by messages both ways at once: one way, who lends is always faster. */
TEST(what_lending_takes_is_found_again)
{
    static const enum tutti_local_parameter told[] = {
        TUTTI_LOCAL_LEND, TUTTI_LOCAL_TAKE_LENT,   TUTTI_LOCAL_TAKE_MEMORY,
        TUTTI_LOCAL_CALL, TUTTI_LOCAL_READ_MEMORY, TUTTI_LOCAL_WRITE_MEMORY};
    struct tutti_local_fitted fitted = {.iteration_count = 0};
    struct tutti_local local = found("tcp", 2, 0, &fitted);

    CHECK(fitted.median_abs_percent < 2);
    check_told(&local, told, sizeof(told) / sizeof(told[0]));
    CHECK(local.values[TUTTI_LOCAL_SEND_FAR].open); /* all that is large is lent */
}

/* Without sizes beyond the caches nothing is said about memory, and that is told. */
TEST(what_the_data_leave_open_is_told)
{
    struct tutti_local_ask ask = ask_of();
    struct tutti_local_points points = {.count = 0};
    struct tutti_local local = tutti_local_guess();
    struct tutti_local_fitted fitted;
    struct tutti_err err = {.text = ""};

    local.processor_count = 2;
    ask.bytes_max = 192 << 10;
    CHECK_OK(tutti_local_points_make(&ask, &points, &err), err);
    make_up(&points, &local, 0);
    CHECK_OK(tutti_local_fit(&points, &local, &fitted, &err), err);
    CHECK(local.values[TUTTI_LOCAL_WRITE_MEMORY].open);
    CHECK(local.values[TUTTI_LOCAL_COPY_PAST].open);
    CHECK(local.values[TUTTI_LOCAL_ALL_MEMORY].open);
    CHECK(!local.values[TUTTI_LOCAL_READ_OWN].open);
    CHECK(!local.values[TUTTI_LOCAL_TOGETHER].open);
    tutti_local_points_close(&points);
}

/* On a machine that others stall at any moment times are off by factors, and what is fitted to them
 * is worth little; still it is a calibration that can be read. */
TEST(what_is_fitted_to_wild_times_can_be_written_and_read)
{
    struct tutti_local_ask ask = ask_of();
    struct tutti_local_points points = {.count = 0};
    struct tutti_local local = tutti_local_guess();
    struct tutti_local again;
    struct tutti_local_fitted fitted;
    struct tutti_random random;
    struct tutti_err err = {.text = ""};
    char *text = NULL;

    local.processor_count = 2;
    CHECK_OK(tutti_local_points_make(&ask, &points, &err), err);
    make_up(&points, &local, 0);
    tutti_random_seed(&random, test_seed);
    for (uint32_t i = 0; i < points.count; i++)
        points.points[i].measured_us *= exp(25 * tutti_random_unit(&random));
    CHECK_OK(tutti_local_fit(&points, &local, &fitted, &err), err);
    CHECK_OK(tutti_local_print(&local, &text, &err), err);
    if (text != NULL)
        CHECK_OK(tutti_local_parse("f", text, strlen(text), &again, &err), err);
    free(text);
    tutti_local_points_close(&points);
}

/* ---- a machine that moves -------------------------------------------------------------------- */

static struct tutti_local true_machine(void)
{
    struct tutti_local local = tutti_local_guess();

    for (int p = 0; p < TUTTI_LOCAL_COUNT; p++)
        set(&local, (enum tutti_local_parameter)p, truths[p]);
    local.processor_count = 2;
    return local;
}

/* What is between processors costs three times as much as when it was calibrated, and all else what
 * it did; timed are messages of two sizes. */
TEST(what_lies_otherwise_since_is_found_by_a_few_messages)
{
    struct tutti_local_ask ask = ask_of();
    struct tutti_local_points points = {.count = 0};
    struct tutti_local calibrated = true_machine();
    struct tutti_local_fitted fitted;
    struct tutti_local now;
    struct tutti_err err = {.text = ""};

    now = calibrated;
    calibrated.values[TUTTI_LOCAL_HOP].value /= 3;
    calibrated.values[TUTTI_LOCAL_READ_OTHER].value *= 3;
    calibrated.values[TUTTI_LOCAL_READ_CAST].value *= 3;
    ask.bytes_max = 1536 << 10;
    CHECK_OK(tutti_local_points_make(&ask, &points, &err), err);
    make_up(&points, &calibrated, 0.02);
    CHECK_OK(tutti_local_fit_between(&points, log(3), &calibrated, &fitted, &err), err);
    CHECK(fabs(calibrated.values[TUTTI_LOCAL_HOP].value / now.values[TUTTI_LOCAL_HOP].value - 1) <
          0.1);
    CHECK(fabs(calibrated.values[TUTTI_LOCAL_READ_OTHER].value /
                   now.values[TUTTI_LOCAL_READ_OTHER].value -
               1) < 0.25);
    CHECK(fabs(calibrated.values[TUTTI_LOCAL_READ_OWN].value - truths[TUTTI_LOCAL_READ_OWN]) <
          1e-9);
    CHECK(fabs(calibrated.values[TUTTI_LOCAL_READ_MEMORY].value - truths[TUTTI_LOCAL_READ_MEMORY]) <
          1e-9);
    tutti_local_points_close(&points);
}

/* Every fifth point took ten times as long, and are known to have been timed on the move. */
TEST(what_was_timed_on_the_move_is_not_fitted_to)
{
    struct tutti_local_ask ask = ask_of();
    struct tutti_local_points points = {.count = 0};
    struct tutti_local local = true_machine();
    struct tutti_local_fitted fitted;
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_local_points_make(&ask, &points, &err), err);
    make_up(&points, &local, 0);
    for (uint32_t i = 0; i < points.count; i += 5) {
        points.points[i].measured_us *= 10;
        points.points[i].moved = true;
    }
    CHECK_OK(tutti_local_fit(&points, &local, &fitted, &err), err);
    CHECK(fitted.median_abs_percent < 2);
    CHECK(fitted.p90_abs_percent < 10);
    tutti_local_points_close(&points);
}

TEST(places_differ_by_a_third_and_more)
{
    CHECK(!tutti_local_moved(40, 50));
    CHECK(tutti_local_moved(45, 31));
    CHECK(tutti_local_moved(45, 215));
    CHECK(tutti_local_moved(215, 45));
    CHECK(!tutti_local_moved(0, 215)); /* one processor: nothing was seen */
    CHECK(!tutti_local_moved(45, 0));
}

/* Two threads hand a word to and fro: no processor needs a millisecond for that. */
TEST(how_far_apart_processors_are_can_be_told)
{
    struct tutti_local_ask ask = {.group = NULL};
    struct tutti_err err = {.text = ""};
    double ns = -1;

    CHECK_OK(tutti_local_look(&ask, &ns, &err), err);
    CHECK(ns >= 0);
    CHECK(ns < 1e6);
}
