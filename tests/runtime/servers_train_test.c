/* Parameter servers for real: processes over tcp learn a line, and what each is told of. */
#include "tests/runtime/servers_world.h"

/* Steps of all workers together are contiguous; those of one are not, if there are several. */
static void check_steps(uint64_t steps)
{
    const uint32_t count = atomic_load(&cast->told_count);
    uint64_t of_first = 0;

    CHECK_INT(count, steps);
    for (uint32_t i = 0; i < count; i++)
        if (cast->told[i].step != i + 1)
            TEST_FAIL("step %u is told as %" PRIu64, i + 1, cast->told[i].step);
    for (uint32_t i = 0; i < count; i++)
        of_first += cast->told[i].worker == 0;
    CHECK(of_first > 0);
    CHECK(play.params.worker_count == 1 || of_first < steps);
}

/* Within 5 % of what the data are made of. */
static void check_line(void)
{
    if (fabs((double)cast->weights[0] / TUTTI_LINE_SLOPE - 1) > 0.05 ||
        fabs((double)cast->weights[1] / TUTTI_LINE_INTERCEPT - 1) > 0.05)
        TEST_FAIL("w %g b %g, expected %g and %g", (double)cast->weights[0],
                  (double)cast->weights[1], (double)TUTTI_LINE_SLOPE, (double)TUTTI_LINE_INTERCEPT);
}

TEST(a_server_and_two_workers_learn_the_line)
{
    const struct tutti_servers_result *result;

    cast_new(1, 2, 3000);
    cast_start_all();
    cast_end(30);
    check_steps(3000);
    check_line();
    result = &cast->actor[1].result;
    CHECK_INT(result->steps, 3000);
    CHECK_INT(result->applied, 3000);
    CHECK_INT(result->lost, 0); /* who computes when all is over is none */
    CHECK_INT(cast->weights_step, 3000);
    CHECK(result->staleness_max >= 1);
    printf("staleness %g, by worker %" PRIu64 " %" PRIu64 "\n",
           (double)result->staleness_sum / (double)result->applied, cast->actor[1].by_worker[0],
           cast->actor[1].by_worker[1]);
}

TEST(three_servers_and_a_chief_of_its_own_learn_it)
{
    cast_new(3, 2, 2000);
    play.params.has_chief = true;
    cast_start_all();
    cast_end(30);
    check_steps(2000);
    check_line();
}

/* Once both are there: one of them may start late. */
TEST(equal_workers_are_one_update_apart)
{
    uint64_t of_worker[2] = {0, 0};
    uint64_t sum = 0;
    uint32_t count = 0;

    cast_new(1, 2, 60);
    play.slow_us[0] = play.slow_us[1] = 30000;
    cast_start_all();
    cast_end(30);
    check_steps(60);
    for (uint32_t i = 0; i < 60; i++) {
        of_worker[cast->told[i].worker]++;
        if (of_worker[0] < 2 || of_worker[1] < 2)
            continue;
        sum += cast->told[i].staleness;
        count++;
    }
    printf("mean staleness %g of %u\n", (double)sum / count, count);
    CHECK(count > 10);
    CHECK(fabs((double)sum / count - 1) < 0.2);
}

/* ---- synchronous ----------------------------------------------------------------------------- */

static void train_in_steps(uint32_t servers, uint32_t workers, uint32_t aggregate,
                           enum tutti_late late)
{
    cast_new(servers, workers, 400);
    play.params.synchronous = true;
    play.params.aggregate = aggregate;
    play.params.late = late;
    cast_start_all();
    cast_end(30);
    CHECK_INT(atomic_load(&cast->told_count), 400);
    CHECK_INT(cast->actor[servers].result.applied, 400 * aggregate);
    CHECK_INT(cast->actor[servers].result.staleness_max, 0);
    for (uint32_t i = 0; i < atomic_load(&cast->told_count); i++)
        CHECK_INT(cast->told[i].gradients, aggregate);
}

TEST(a_step_of_all_workers_is_the_mean_of_theirs)
{
    train_in_steps(1, 2, 2, TUTTI_LATE_QUEUED);
    check_line();
    CHECK_INT(cast->actor[1].result.dropped_stale, 0);
    train_in_steps(2, 3, 3, TUTTI_LATE_ABORTED);
    check_line();
}

TEST(backups_come_too_late_and_are_dropped)
{
    train_in_steps(2, 3, 2, TUTTI_LATE_QUEUED);
    CHECK(cast->actor[2].result.dropped_stale > 0);
    check_line();
    train_in_steps(1, 3, 2, TUTTI_LATE_FRESH);
    train_in_steps(1, 3, 2, TUTTI_LATE_ABORTED);
    check_line();
}

TEST(one_worker_gives_all_gradients_of_a_step)
{
    train_in_steps(1, 1, 3, TUTTI_LATE_QUEUED);
    train_in_steps(2, 1, 3, TUTTI_LATE_ABORTED);
}
