/* Parameter servers whose workers, chief and servers are lost and come: what is known of it in
 * closed form, and that all of a worker's time is told. */
#include <math.h>

#include "runtime/status.h"
#include "sim/servers.h"
#include "tests/alloc_fail.h"
#include "tests/test.h"

static const tutti_ps MS = 1000000000;
static const uint64_t BYTES[] = {10000000, 10000000}; /* 10 ms each way, of each */

/* Workers and servers on hosts of their own; 1 GB/s, 80 ms of computing. */
static struct tutti_servers_opts opts_of(const char *name, uint32_t workers, uint32_t servers,
                                         uint64_t steps)
{
    const struct tutti_coordinator_ops *ops = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_coordinator_find(name, &ops, &err), err);
    return (struct tutti_servers_opts){.size = sizeof(struct tutti_servers_opts),
                                       .ops = ops,
                                       .params = {.size = sizeof(struct tutti_coordinator_params),
                                                  .member_count = workers,
                                                  .last_step = steps},
                                       .host_count = workers + servers,
                                       .server_count = servers,
                                       .server_bytes = BYTES,
                                       .host_bytes_per_s = 1000000000,
                                       .compute_ps = 80 * MS,
                                       .seed = test_seed};
}

static struct tutti_served play(const struct tutti_servers_opts *opts)
{
    struct tutti_served served = {0};
    struct tutti_err err = {""};

    CHECK_OK(tutti_servers_play(opts, &served, &err), err);
    return served;
}

/* `why` NULL: losses come faster than steps. */
static void refuse(const struct tutti_servers_opts *opts, int status, const char *why)
{
    struct tutti_served served = {0};
    struct tutti_err err = {""};

    CHECK_INT(tutti_servers_play(opts, &served, &err), status);
    if (why != NULL)
        CHECK_TEXT(err.text, why);
    else
        CHECK(strncmp(err.text, "training fails more often than it gets on: step ", 48) == 0);
}

static struct tutti_servers_change lost(bool is_server, uint32_t index, tutti_ps at_ps)
{
    return (struct tutti_servers_change){.is_server = is_server, .index = index, .at_ps = at_ps};
}

static struct tutti_servers_change comes(bool is_server, uint32_t index, tutti_ps at_ps)
{
    return (struct tutti_servers_change){
        .is_server = is_server, .comes = true, .index = index, .at_ps = at_ps};
}

static void list(struct tutti_servers_opts *opts, const struct tutti_servers_change *changes,
                 uint32_t count)
{
    opts->changes = changes;
    opts->change_count = count;
}

/* One worker: the model is sent, 10 steps of pull, compute and push; it is pulled and written. */
TEST(a_supervised_run_is_a_set_up_its_steps_and_the_last_checkpoint)
{
    struct tutti_servers_opts opts = opts_of("async", 1, 1, 10);
    struct tutti_served served;

    opts.supervised = true;
    opts.save_bytes_per_s = 100000000;
    served = play(&opts);
    CHECK_INT(served.total_ps, (10 + 10 * 100 + 10 + 100) * MS);
    CHECK_INT(served.standing_ps, 10 * MS);
    CHECK_INT(served.checkpoints, 1);
    CHECK_INT(served.stats.restored, 1);
    CHECK_INT(served.stats.applied, 10);
    /* Due in the middle of a pull, of steps 4, 7 and 10: each makes it 5 ms longer. The third is
     * pulled until 940 ms and written until 1,040 ms, 15 ms after the last step. */
    opts.save_every_ps = 305 * MS;
    served = play(&opts);
    CHECK_INT(served.total_ps, (10 + 10 * 100 + 3 * 5 + 15 + 10 + 100) * MS);
    CHECK_INT(served.checkpoints, 4);
}

/* A checkpoint of step 3 is due at 315 ms, pulled until 330 ms and written until 430 ms. At 650 ms,
 * in step 7, somebody is lost, and with it the next one; it is back at 900 ms, the model is read
 * for 100 ms and sent for 10 ms. */
static void check_restored(bool is_server)
{
    const struct tutti_servers_change changes[] = {lost(is_server, 0, 650 * MS),
                                                   comes(is_server, 0, 900 * MS)};
    struct tutti_servers_opts opts = opts_of("async", 1, 1, 10);
    struct tutti_served served;

    opts.supervised = true;
    opts.save_bytes_per_s = 100000000;
    opts.save_every_ps = 305 * MS;
    list(&opts, changes, 2);
    served = play(&opts);
    CHECK_INT(served.failures, 1);
    CHECK_INT(served.repeated_steps, 3); /* of the 6 that were made */
    CHECK_INT(served.stats.restored, 2);
    CHECK_INT(served.steps, 10);
    CHECK_INT(served.stats.applied, 13);
    CHECK_INT(served.standing_ps, (10 + 250 + 110) * MS);
    /* 7 more steps, of which the fourth and the seventh pull beside checkpoints; of those the
     * second is written 15 ms after them, and then the last. */
    CHECK_INT(served.total_ps, (1010 + 700 + 2 * 5 + 15 + 110) * MS);
    CHECK_INT(served.checkpoints, 4);
}

TEST(a_lost_server_takes_all_back_to_the_checkpoint)
{
    check_restored(true);
}

TEST(a_lost_chief_takes_all_back_to_the_checkpoint)
{
    check_restored(false);
}

/* 4 workers of 100 ms: one away for half of the time is an eighth of the gradients. */
TEST(asynchronous_workers_go_on_without_one)
{
    struct tutti_servers_opts opts = opts_of("async", 4, 1, 4000);
    struct tutti_servers_change change = lost(false, 2, 0);
    struct tutti_served calm;
    struct tutti_served served;

    opts.host_bytes_per_s = 1000000000000;
    calm = play(&opts);
    change.at_ps = calm.total_ps / 2;
    list(&opts, &change, 1);
    served = play(&opts);
    CHECK_INT(served.steps, 4000);
    CHECK(fabs((double)served.total_ps / (double)calm.total_ps - (0.5 + 0.5 * 4 / 3)) < 0.005);
    CHECK_INT(served.stats.lost, 1);
    CHECK_INT(served.stats.unfinished, 2);
    CHECK(fabs(served.away - 0.25 * 4 / 7) < 0.005);
    change = comes(false, 2, calm.total_ps / 2); /* and one who comes then */
    served = play(&opts);
    CHECK(fabs((double)served.total_ps / (double)calm.total_ps - (0.5 + (4 - 1.5) / 4)) < 0.005);
    CHECK_INT(served.failures, 0);
}

TEST(synchronous_workers_go_on_where_there_is_a_backup)
{
    struct tutti_servers_opts opts = opts_of("sync", 4, 1, 100);
    struct tutti_servers_change changes[] = {lost(false, 3, 2500 * MS), comes(false, 3, 5000 * MS)};
    struct tutti_served calm;
    struct tutti_served served;

    opts.host_bytes_per_s = 1000000000000;
    opts.params.aggregate = 3;
    opts.params.late = TUTTI_LATE_ABORTED;
    calm = play(&opts);
    list(&opts, changes, 1);
    served = play(&opts);
    CHECK(fabs((double)served.total_ps / (double)calm.total_ps - 1) < 0.001);
    opts.params.aggregate = 0;
    refuse(&opts, -TUTTI_ECHECK,
           "training stands still at step 31: worker 3 is lost, and does not come back");
    list(&opts, changes, 2);
    served = play(&opts);
    CHECK_INT(served.steps, 100);
    /* It is lost in the step that ends at 2,560 ms and is made again from 5,000 ms on. */
    CHECK(fabs((double)(served.total_ps - calm.total_ps) / (double)MS - (5000 - 2480)) < 5);
}

TEST(checkpoints_that_are_due_keep_nobody_going)
{
    const struct tutti_servers_change change = lost(false, 3, 250 * MS);
    struct tutti_servers_opts opts = opts_of("sync", 4, 1, 100);

    opts.params.late = TUTTI_LATE_ABORTED;
    opts.supervised = true;
    opts.save_every_ps = 1000 * MS;
    list(&opts, &change, 1);
    refuse(&opts, -TUTTI_ECHECK,
           "training stands still at step 1: worker 3 is lost, and does not come back");
    opts.change_count = 0;
    opts.mtbf_ps = 100 * MS; /* a set-up and a step take 170 ms */
    opts.restart_ps = 100000 * MS;
    refuse(&opts, -TUTTI_ECHECK, NULL);
}

TEST(all_time_of_workers_is_told)
{
    for (uint64_t i = 0; i < 20; i++) {
        struct tutti_servers_opts opts = opts_of(i % 2 == 0 ? "async" : "sync", 5, 2, 300);
        struct tutti_served served;
        uint64_t sum = 0;
        double told;

        opts.seed = test_seed + i;
        opts.jitter = 0.3;
        opts.mtbf_ps = 3000 * MS;
        opts.restart_ps = 400 * MS;
        opts.apply_bytes_per_s = 2000000000;
        opts.supervised = i % 4 < 2;
        opts.save_every_ps = 500 * MS;
        opts.save_bytes_per_s = 1000000000;
        served = play(&opts);
        CHECK_INT(served.steps, 300);
        CHECK(served.failures > 3);
        told = served.computing + served.pulling + served.pushing + served.queued + served.idle +
               served.away;
        CHECK(told < 1 + 1e-9 && told > 0.99); /* computing under way at the end is not */
        CHECK(served.queued > 0 && served.busiest_server > 0 && served.away > 0);
        for (uint32_t bin = 0; bin < TUTTI_STALENESS_BINS; bin++)
            sum += served.stats.staleness[bin];
        CHECK_INT(sum, served.stats.applied);
        if (opts.supervised)
            CHECK(served.checkpoints > 0 && served.stats.restored > 1);
        if (i % 2 == 0) /* each update of the step is a gradient, made again or not */
            CHECK_INT(served.stats.applied, served.steps + served.repeated_steps);
    }
}

TEST(nonsense_is_refused)
{
    struct tutti_servers_change changes[] = {lost(false, 0, 5), lost(false, 1, 4)};
    struct tutti_servers_opts opts = opts_of("async", 2, 1, 10);

    list(&opts, changes, 2);
    refuse(&opts, -TUTTI_EINVAL, "losses are not in the order of time");
    changes[1] = lost(false, 2, 9);
    refuse(&opts, -TUTTI_EINVAL, "worker '2' is lost, or comes, of 2 (0 to 1)");
    changes[1] = lost(true, 0, 9);
    refuse(&opts, -TUTTI_EINVAL,
           "server '0' is lost, and there is no checkpoint to go back to (supervised: there is)");
    opts.mtbf_ps = 1;
    refuse(&opts, -TUTTI_EINVAL, "losses are drawn, and listed as well ('2' changes; one of both)");
}

static int try_play(struct tutti_err *err)
{
    const struct tutti_servers_change changes[] = {lost(true, 0, 650 * MS),
                                                   comes(true, 0, 900 * MS)};
    struct tutti_servers_opts opts = opts_of("sync", 2, 2, 10);
    struct tutti_served served;

    opts.supervised = true;
    list(&opts, changes, 2);
    return tutti_servers_play(&opts, &served, err);
}

TEST(memory_may_run_out)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(try_play(&err), err);
}
