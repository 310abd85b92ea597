/* Trainings of days: the closed form is what is played in the mean, and both are Daly's and Young's
 * where those hold. */
#include <math.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/long_run.h"
#include "tests/alloc_fail.h"

#define CHECK_NEAR(seen, expected, percent)                                          \
    do {                                                                             \
        double seen_ = (double)(seen), expected_ = (double)(expected);               \
        if (!(fabs(seen_ - expected_) <= fabs(expected_) * (percent) / 100.0))       \
            TEST_FAIL("%s is %g, expected %g within %g %%", #seen, seen_, expected_, \
                      (double)(percent));                                            \
    } while (0)

static const tutti_ps S = TUTTI_PS_PER_S;

static struct tutti_long_run_times expect(const struct tutti_long_run *run)
{
    struct tutti_long_run_times times = {0};
    struct tutti_err err = {""};

    CHECK_OK(tutti_long_run_expect(run, &times, &err), err);
    return times;
}

static struct tutti_long_run_times play(const struct tutti_long_run *run)
{
    struct tutti_long_run_times times = {0};
    struct tutti_err err = {""};

    CHECK_OK(tutti_long_run_play(run, &times, &err), err);
    return times;
}

static double sum(const struct tutti_long_run_times *times)
{
    double all = 0;

    for (int i = 0; i < TUTTI_RUN_PART_COUNT; i++)
        all += times->part_s[i];
    return all;
}

/* 1 TB at 10 GB/s: 100 s, each 1000 s. */
TEST(without_failures_checkpoints_alone_take_time)
{
    struct tutti_long_run run = {.size = sizeof(run),
                                 .device_count = 8,
                                 .state_bytes = UINT64_C(1000000000000),
                                 .save_bytes_per_s = UINT64_C(10000000000),
                                 .every_ps = 1000 * S,
                                 .work_s = 100000};
    struct tutti_long_run_times times = play(&run);

    CHECK_NEAR(times.total_s, 110000, 1e-6);
    CHECK_NEAR(times.part_s[TUTTI_RUN_CHECKPOINT], 10000, 1e-6);
    CHECK_INT(times.checkpoints, 100);
    CHECK_NEAR(expect(&run).goodput, times.goodput, 1e-6);
    run.async = true; /* 1 TB / 8 at 25 GB/s stalls for 5 s; the last is waited for */
    run.copy_bytes_per_s = UINT64_C(25000000000);
    times = play(&run);
    CHECK_NEAR(times.total_s, 100600, 1e-6);
    CHECK_NEAR(expect(&run).goodput, 1000.0 / 1005, 1e-6);
}

/* One cause, synchronous: equation 20 of Daly 2006, and the interval of its equation 37 and of the
 * search are within a hundredth of a percent of the best goodput. */
TEST(one_level_is_dalys_equation)
{
    struct tutti_failure_cause cause = {.name = "device", .mtbf_s = 1024 * 3 * 3600.0};
    struct tutti_long_run run = {.size = sizeof(run),
                                 .device_count = 1024,
                                 .causes = &cause,
                                 .cause_count = 1,
                                 .state_bytes = UINT64_C(4000000000000),
                                 .save_bytes_per_s = UINT64_C(100000000000),
                                 .restart_ps = 260 * S,
                                 .every_ps = 900 * S,
                                 .wall_s = 1e6};
    const double M = 3 * 3600.0, restart = 260 + 40, save = 40;
    struct tutti_long_run_times times = expect(&run);
    double best, daly, young;

    CHECK_NEAR(times.goodput, 900 / (M * exp(restart / M) * expm1((900 + save) / M)), 1e-6);
    CHECK_NEAR(sum(&times), times.total_s, 1e-6);
    CHECK_NEAR((double)tutti_long_run_young(40 * S, M) / 1e12, sqrt(2 * 40 * M), 1e-6);
    run.every_ps = tutti_long_run_young(40 * S, M);
    young = expect(&run).goodput;
    run.every_ps = tutti_long_run_daly(40 * S, M);
    daly = expect(&run).goodput;
    run.every_ps = 0;
    best = expect(&run).goodput;
    CHECK(best >= daly && daly >= young);
    CHECK_NEAR(daly, best, 0.01);
    CHECK_NEAR(young, best, 0.3);
}

/* ---- the closed form against what is played -------------------------------------------------- */

static struct tutti_random source;

static double between(double low, double high)
{
    return low * pow(high / low, tutti_random_unit(&source));
}

static bool coin(void)
{
    return tutti_random_below(&source, 2) == 0;
}

static void random_causes(struct tutti_failure_cause *causes, uint32_t count, double mtbf_s,
                          bool spares)
{
    for (uint32_t i = 0; i < count; i++) {
        causes[i] = (struct tutti_failure_cause){.name = "cause",
                                                 .mtbf_s = mtbf_s * count,
                                                 .detect_ps = (tutti_ps)(between(1, 300) * 1e12),
                                                 .keeps_memory = coin()};
        if (spares && coin())
            causes[i].away_ps = (tutti_ps)(between(3600, 2 * 86400) * 1e12);
        if (coin() && coin())
            causes[i].notice_ps = (tutti_ps)(between(10, 1000) * 1e12);
    }
}

static double worst, total;
static uint32_t compared, over;

static void compare(struct tutti_long_run *run)
{
    struct tutti_long_run_times times = expect(run), played;
    double off;

    if (times.goodput < 0.25) /* nobody runs such a training */
        return;
    run->wall_s = (run->hot_spares + run->cold_spares > 0 ? 30000 : 3000) * times.mtbf_s;
    times = expect(run);
    run->seed = test_seed + compared;
    played = play(run);
    CHECK_NEAR(sum(&times), times.total_s, 1e-6);
    CHECK_NEAR(sum(&played), played.total_s, 1e-6);
    off = fabs(played.goodput / times.goodput - 1);
    if (off > 0.03)
        printf("  run %u: %.4f played, %.4f expected\n", compared, played.goodput, times.goodput);
    over += off > 0.03;
    worst = fmax(worst, off);
    total += off;
    compared++;
    for (int i = 0; i < TUTTI_RUN_PART_COUNT; i++) /* of the time, each to a few percent of it */
        CHECK(fabs(played.part_s[i] / played.total_s - times.part_s[i] / times.total_s) < 0.03);
}

static void random_run(bool spares, bool levels, bool elastic)
{
    struct tutti_failure_cause causes[4];
    const uint32_t count = 1 + (uint32_t)tutti_random_below(&source, 4);
    const double mtbf_s = between(3600, 86400);
    struct tutti_long_run run = {.size = sizeof(run),
                                 .device_count = 1024,
                                 .host_devices = 8,
                                 .causes = causes,
                                 .cause_count = count,
                                 .state_bytes = (uint64_t)between(1e11, 5e12),
                                 .save_bytes_per_s = (uint64_t)between(5e10, 1e12),
                                 .async = levels || coin(),
                                 .copy_bytes_per_s = UINT64_C(1000000000),
                                 .restart_ps = (tutti_ps)(between(10, 900) * 1e12),
                                 .hot_swap_ps = 30 * S,
                                 .cold_swap_ps = 600 * S,
                                 .wall_s = 1};

    random_causes(causes, count, 1024 * mtbf_s, spares);
    if (coin())
        run.every_ps = (tutti_ps)(between(60, 3600) * 1e12);
    if (levels)
        run.storage_every = 1 + (uint32_t)tutti_random_below(&source, 10);
    if (spares) {
        run.hot_spares = (uint32_t)tutti_random_below(&source, 6);
        run.cold_spares = (uint32_t)tutti_random_below(&source, 6);
    }
    if (elastic) {
        run.least_devices = 512;
        run.replica_devices = (uint32_t)4 << tutti_random_below(&source, 4);
    }
    compare(&run);
}

static void compare_many(const char *what, uint32_t count, bool spares, bool levels, bool elastic)
{
    tutti_random_seed(&source, test_seed);
    worst = total = 0;
    compared = over = 0;
    for (uint32_t i = 0; i < count; i++)
        random_run(spares, levels, elastic);
    printf("  %s: %u runs, off by %.2f %% in the mean, %.2f %% at worst (seed %" PRIu64 ")\n", what,
           compared, 100 * total / compared, 100 * worst, test_seed);
    /* What is played is drawn: few may be further off, where little of the time is left. */
    CHECK(total / compared < 0.005);
    CHECK(over * 10 <= compared);
    CHECK(worst < 0.2);
}

TEST(checkpoints_and_restarts_as_expected)
{
    compare_many("checkpoints", test_full ? 400 : 40, false, false, false);
}

TEST(spares_as_erlang_expects)
{
    compare_many("spares", test_full ? 400 : 16, true, false, false);
}

TEST(two_levels_as_expected)
{
    compare_many("two levels", test_full ? 400 : 40, false, true, false);
}

TEST(fewer_replicas_as_expected)
{
    compare_many("elastic", test_full ? 400 : 16, true, true, true);
}

/* ---- stories --------------------------------------------------------------------------------- */

/* A stop that is known two minutes before loses nothing but a checkpoint and a restart, one that is
 * known too late as much as a failure. */
TEST(notice_is_of_use_if_it_is_long_enough)
{
    struct tutti_failure_cause cause = {
        .name = "preempted", .mtbf_s = 64 * 6 * 3600.0, .notice_ps = 120 * S};
    struct tutti_long_run run = {.size = sizeof(run),
                                 .device_count = 64,
                                 .causes = &cause,
                                 .cause_count = 1,
                                 .state_bytes = UINT64_C(1000000000000),
                                 .save_bytes_per_s = UINT64_C(10000000000),
                                 .restart_ps = 300 * S,
                                 .every_ps = 3600 * S,
                                 .wall_s = 3000 * 86400.0,
                                 .seed = test_seed};
    struct tutti_long_run_times times = play(&run);

    CHECK(times.interruptions > 10000);
    CHECK(times.part_s[TUTTI_RUN_LOST] <= 0);
    CHECK(times.mtbf_s > 0 && times.mtbf_unknown_s <= 0);
    CHECK_NEAR(expect(&run).part_s[TUTTI_RUN_CHECKPOINT], times.part_s[TUTTI_RUN_CHECKPOINT], 1);
    CHECK_NEAR(expect(&run).goodput, times.goodput, 0.5);
    cause.notice_ps = 90 * S;
    times = play(&run);
    CHECK(times.part_s[TUTTI_RUN_LOST] > 0.05 * times.total_s);
}

/* Two hosts are away of one spare: it waits, or goes on with three replicas of four. */
TEST(without_a_spare_it_waits_or_goes_on_with_fewer)
{
    struct tutti_failure_cause cause = {
        .name = "host", .mtbf_s = 32 * 86400.0, .away_ps = 86400 * S};
    struct tutti_long_run run = {.size = sizeof(run),
                                 .device_count = 32,
                                 .host_devices = 8,
                                 .causes = &cause,
                                 .cause_count = 1,
                                 .restart_ps = 60 * S,
                                 .every_ps = 600 * S,
                                 .hot_spares = 1,
                                 .wall_s = 20000 * 86400.0,
                                 .seed = test_seed};
    struct tutti_long_run_times waits = play(&run), goes_on;

    /* Erlang's loss formula, 1 busy on the average, 2 lines: 1/2 / (1 + 1 + 1/2). */
    CHECK_NEAR(waits.part_s[TUTTI_RUN_WAIT] / waits.total_s, 0.2, 6); /* drawn */
    CHECK(waits.part_s[TUTTI_RUN_FEWER] <= 0);
    run.least_devices = 8;
    run.replica_devices = 8;
    goes_on = play(&run);
    CHECK(goes_on.goodput > waits.goodput + 0.05);
    CHECK(goes_on.part_s[TUTTI_RUN_FEWER] > 0.05 * goes_on.total_s);
    CHECK_NEAR(expect(&run).goodput, goes_on.goodput, 3);
}

/* 54 days, 466 interruptions. Restarts and detection are not published: at 5 minutes each, and
 * checkpoints of 12 bytes a parameter at the 2 TB/s that are, more than 90 % is effective, as
 * published; a restart of 15 minutes would not leave it. */
TEST(llama3s_54_days)
{
    struct tutti_failure_cause causes[TUTTI_FAILURE_CAUSES_MAX];
    struct tutti_long_run run = {.size = sizeof(run),
                                 .device_count = 16384,
                                 .host_devices = 8,
                                 .causes = causes,
                                 .cause_count = tutti_failures_llama3_count,
                                 .state_bytes = UINT64_C(405000000000) * 12,
                                 .save_bytes_per_s = UINT64_C(2000000000000),
                                 .restart_ps = 300 * S,
                                 .wall_s = 54 * 86400.0,
                                 .seed = test_seed};
    struct tutti_long_run_times times, played;
    struct tutti_err err = {""};
    tutti_ps restart;

    memcpy(causes, tutti_failures_llama3, tutti_failures_llama3_count * sizeof(causes[0]));
    for (uint32_t i = 0; i < run.cause_count; i++)
        causes[i].detect_ps = 300 * S;
    times = expect(&run);
    played = play(&run);
    CHECK_NEAR(times.mtbf_s, 54 * 86400.0 / 466, 1e-6);
    CHECK_NEAR(times.interruptions, 466, 1e-6);
    CHECK_NEAR(played.interruptions, 466, 20);
    CHECK(times.goodput > 0.9 && times.goodput < 0.95);
    CHECK_NEAR(played.goodput, times.goodput, 3);
    CHECK_OK(tutti_long_run_restart_for(&run, 0.9, &restart, &err), err);
    CHECK(restart > 300 * S && restart < 900 * S);
    run.restart_ps = restart;
    CHECK_NEAR(expect(&run).goodput, 0.9, 0.1);
    CHECK_OK(tutti_long_run_restart_for(&run, 0.99, &restart, &err), err);
    CHECK_INT(restart, -1);
    printf("  restart 5 min: %.4f expected, %.4f played (seed %" PRIu64 ")\n", times.goodput,
           played.goodput, test_seed);
}

static bool is_whole(tutti_ps every_ps, tutti_ps step_ps)
{
    const double steps = (double)every_ps / (double)step_ps;

    return steps > 0.5 && fabs(steps - round(steps)) < 1e-6;
}

/* A copy stalls for 20 ms and storage takes 2.4 s, a step 13 s: nobody saves within it. */
TEST(checkpoints_lie_whole_steps_apart)
{
    struct tutti_failure_cause cause = {.name = "device", .mtbf_s = 16384 * 3 * 3600.0};
    struct tutti_long_run run = {.size = sizeof(run),
                                 .device_count = 16384,
                                 .causes = &cause,
                                 .cause_count = 1,
                                 .state_bytes = UINT64_C(4870000000000),
                                 .save_bytes_per_s = UINT64_C(2000000000000),
                                 .async = true,
                                 .restart_ps = 600 * S,
                                 .wall_s = 54 * 86400.0,
                                 .seed = test_seed,
                                 .step_ps = 13 * S};
    double best;

    CHECK_INT(expect(&run).every_ps, 13 * S); /* for nothing: at each */
    CHECK(play(&run).checkpoints < run.wall_s / 13 + 1);
    run.every_ps = 14 * S;
    CHECK_INT(expect(&run).every_ps, 26 * S);
    CHECK_INT(play(&run).every_ps, 26 * S);
    run.every_ps = 26 * S;
    CHECK_INT(expect(&run).every_ps, 26 * S);
    for (uint64_t copy = 1; copy < 100000; copy *= 7) { /* stalls of 0.3 s to some 5 hours */
        run.copy_bytes_per_s = UINT64_C(1000000000) / copy;
        run.every_ps = 0;
        best = expect(&run).goodput;
        run.every_ps = expect(&run).every_ps;
        CHECK(is_whole(run.every_ps, run.step_ps));
        CHECK_NEAR(expect(&run).goodput, best, 1e-9);
        run.every_ps += run.step_ps;
        CHECK(expect(&run).goodput <= best);
        run.every_ps -= 2 * run.step_ps;
        CHECK(run.every_ps <= 0 || expect(&run).goodput <= best);
    }
}

TEST(the_same_seed_is_the_same_run)
{
    struct tutti_failure_cause cause = {.name = "device", .mtbf_s = 8 * 3600.0};
    struct tutti_long_run run = {.size = sizeof(run),
                                 .device_count = 8,
                                 .causes = &cause,
                                 .cause_count = 1,
                                 .restart_ps = 60 * S,
                                 .every_ps = 600 * S,
                                 .work_s = 1e6,
                                 .seed = test_seed};
    struct tutti_long_run_times first = play(&run), again = play(&run), other;

    CHECK(memcmp(&first, &again, sizeof(first)) == 0);
    CHECK_NEAR(first.part_s[TUTTI_RUN_USEFUL], 1e6, 1e-6);
    run.seed++;
    other = play(&run);
    CHECK(memcmp(&first, &other, sizeof(first)) != 0);
}

TEST(what_makes_no_sense_is_refused)
{
    struct tutti_failure_cause cause = {.name = "device", .mtbf_s = 10};
    const struct tutti_long_run good = {.size = sizeof(good),
                                        .device_count = 8,
                                        .causes = &cause,
                                        .cause_count = 1,
                                        .restart_ps = 100 * S,
                                        .every_ps = 600 * S,
                                        .work_s = 1e3};
    struct tutti_long_run run = good;
    struct tutti_long_run_times times;
    struct tutti_err err = {""};

    CHECK_INT(tutti_long_run_play(&run, &times, &err), -TUTTI_ECHECK);
    CHECK(strstr(err.text, "fails more often than it gets on") != NULL);
    CHECK_OK(tutti_long_run_expect(&run, &times, &err), err);
    CHECK(times.goodput < 1e-9);
    run.host_devices = 3;
    CHECK_INT(tutti_long_run_expect(&run, &times, &err), -TUTTI_EINVAL);
    run = good;
    run.work_s = 0;
    CHECK_INT(tutti_long_run_play(&run, &times, &err), -TUTTI_EINVAL);
    run = good;
    run.storage_every = 3;
    CHECK_INT(tutti_long_run_play(&run, &times, &err), -TUTTI_EINVAL);
    run = good;
    cause.mtbf_s = 0;
    CHECK_INT(tutti_long_run_play(&run, &times, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "'device'") != NULL);
}

static int story(struct tutti_err *err)
{
    struct tutti_failure_cause cause = {.name = "device", .mtbf_s = 8 * 3600.0};
    struct tutti_long_run run = {
        .size = sizeof(run), .device_count = 8, .causes = &cause, .cause_count = 1, .work_s = 1e4};
    struct tutti_long_run_times times;

    return tutti_long_run_play(&run, &times, err);
}

TEST(memory_may_run_out)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(story(&err), err);
}
