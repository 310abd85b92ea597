/* Parameter servers in virtual time against what is known of them in closed form. */
#include <math.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "sim/servers.h"
#include "tests/alloc_fail.h"
#include "tests/test.h"

enum { WORKERS_MAX = 64 };

static const tutti_ps MS = 1000000000;

static const struct tutti_coordinator_ops *kind(const char *name)
{
    const struct tutti_coordinator_ops *ops = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_coordinator_find(name, &ops, &err), err);
    return ops;
}

/* n workers and as many servers of so many bytes, each on a host of its own; 1 GB/s, 100 ms. */
static struct tutti_servers_opts opts_of(const char *name, uint32_t workers, uint32_t servers,
                                         const uint64_t *bytes, uint64_t steps)
{
    return (struct tutti_servers_opts){.size = sizeof(struct tutti_servers_opts),
                                       .ops = kind(name),
                                       .params = {.size = sizeof(struct tutti_coordinator_params),
                                                  .member_count = workers,
                                                  .last_step = steps},
                                       .host_count = workers + servers,
                                       .server_count = servers,
                                       .server_bytes = bytes,
                                       .host_bytes_per_s = 1000000000,
                                       .compute_ps = 100 * MS,
                                       .seed = test_seed};
}

static struct tutti_served play(const struct tutti_servers_opts *opts)
{
    struct tutti_served served = {0};
    struct tutti_err err = {""};

    CHECK_OK(tutti_servers_play(opts, &served, &err), err);
    return served;
}

#define CHECK_NEAR(seen, expected, percent)                                          \
    do {                                                                             \
        double seen_ = (double)(seen), expected_ = (double)(expected);               \
        if (!(seen_ >= expected_ * (1 - (percent) / 100.0) &&                        \
              seen_ <= expected_ * (1 + (percent) / 100.0)))                         \
            TEST_FAIL("%s is %g, expected %g within %g %%", #seen, seen_, expected_, \
                      (double)(percent));                                            \
    } while (0)

/* One worker: pull, compute and push, one after another. */
TEST(an_episode_is_a_pull_a_computation_and_a_push)
{
    static const uint64_t bytes[] = {10000000}; /* 10 ms */
    struct tutti_servers_opts opts = opts_of("async", 1, 1, bytes, 10);
    struct tutti_served served;

    opts.latency_ps = MS;
    opts.apply_bytes_per_s = 2000000000; /* 5 ms */
    served = play(&opts);
    CHECK_INT(served.total_ps, 10 * (10 + 1 + 100 + 10 + 1 + 5) * MS);
    CHECK_INT(served.step_ps, 127 * MS);
    CHECK_NEAR(served.computing, 100.0 / 127, 0.001);
    CHECK_NEAR(served.busiest_card, 10.0 / 127, 0.001);
}

/* The pull is hidden behind computing, or computing behind the pull. */
TEST(relaxed_consistency_hides_the_pull)
{
    static const uint64_t bytes[] = {30000000}; /* 30 ms */
    struct tutti_servers_opts opts = opts_of("async", 1, 1, bytes, 10);

    CHECK_INT(play(&opts).step_ps, 160 * MS);
    opts.relaxed = true;
    CHECK_INT(play(&opts).step_ps, 130 * MS);
    CHECK_INT(play(&opts).total_ps, (160 + 9 * 130) * MS); /* the first has no weights before */
    CHECK_NEAR(play(&opts).computing, 1000.0 / 1330, 0.001);
    opts.compute_ps = 10 * MS;
    CHECK_INT(play(&opts).step_ps, 60 * MS);
}

/* A worker on its server's host sends nothing; a second one has the card for itself. */
TEST(a_host_of_its_own_is_no_network)
{
    static const uint64_t bytes[] = {10000000};
    static const uint32_t hosts[] = {0, 1};
    static const uint32_t server_host[] = {0};
    struct tutti_servers_opts opts = opts_of("sync", 2, 1, bytes, 10);

    opts.worker_host = hosts;
    opts.server_host = server_host;
    opts.host_count = 2;
    CHECK_INT(play(&opts).step_ps, 120 * MS);
    opts.local_bytes_per_s = 100000000; /* 100 ms */
    CHECK_INT(play(&opts).step_ps, 300 * MS);
    opts.params.member_count = 1;
    CHECK_INT(play(&opts).step_ps, 300 * MS);
    opts.local_bytes_per_s = 0;
    CHECK_INT(play(&opts).step_ps, 100 * MS);
}

/* n workers pull at once: each has an n-th of the server's card; more servers, more cards, until a
 * worker's own is full. */
TEST(workers_share_the_card_of_a_server)
{
    static const uint64_t whole[] = {10000000};
    static const uint64_t halves[] = {5000000, 5000000};
    struct tutti_servers_opts opts = opts_of("sync", 4, 1, whole, 6);

    CHECK_INT(play(&opts).step_ps, (4 * 10 + 100 + 4 * 10) * MS);
    opts = opts_of("sync", 4, 2, halves, 6);
    CHECK_INT(play(&opts).step_ps, (4 * 5 + 100 + 4 * 5) * MS);
    opts = opts_of("sync", 1, 2, halves, 6);
    CHECK_INT(play(&opts).step_ps, (10 + 100 + 10) * MS);
}

/* A server apiece on each worker's host: each card carries 2 (n-1)/n of all bytes each way, one
 * half as the worker's, one as the server's. */
TEST(servers_beside_workers_load_cards_as_a_ring_does)
{
    static uint64_t bytes[8];
    static const uint32_t hosts[] = {0, 1, 2, 3, 4, 5, 6, 7};

    for (uint32_t n = 2; n <= 8; n *= 2) {
        struct tutti_servers_opts opts;
        struct tutti_served served;

        for (uint32_t i = 0; i < n; i++)
            bytes[i] = 80000000 / n;
        opts = opts_of("sync", n, n, bytes, 6);
        opts.worker_host = opts.server_host = hosts;
        opts.host_count = n;
        served = play(&opts);
        CHECK_INT(served.step_ps, (100 + 2 * 80 * (n - 1) / n) * MS);
        CHECK_NEAR(served.busiest_card * (double)served.step_ps / 1e9, 2.0 * 80 * (n - 1) / n, 0.1);
    }
}

/* min(what workers compute, what the server's card carries); it carries one way while the other. */
TEST(async_throughput_is_bound_by_workers_or_by_the_card)
{
    static const uint64_t bytes[] = {10000000};

    for (uint32_t n = 1; n <= WORKERS_MAX; n *= 2) {
        struct tutti_servers_opts opts = opts_of("async", n, 1, bytes, 200 * n);
        double alone = n / 0.120;
        struct tutti_served served;

        opts.jitter = 0.1; /* so that they do not pull all at once */
        served = play(&opts);
        if (alone < 0.6 * 100)
            CHECK_NEAR(served.gradients_per_s, alone, 12);
        if (alone > 2 * 100) /* whom it waits for now and then: pull and push share the workers */
            CHECK_NEAR(served.gradients_per_s, 100, 4);
        CHECK(served.gradients_per_s < 100.5);
        CHECK_NEAR((double)served.stats.staleness_sum / (double)served.stats.applied, n - 1,
                   n == 1 ? 0 : 3);
    }
}

/* A worker 20 % slower: synchronous steps are all as slow; of asynchronous throughput there goes
 * what that worker lacks, a sixth of an n-th. */
TEST(a_straggler_holds_up_the_synchronous_alone)
{
    static const uint64_t bytes[] = {0};
    uint32_t pace[8];

    for (uint32_t i = 0; i < 8; i++)
        pace[i] = i == 3 ? 1200000 : 1000000;
    for (uint32_t n = 4; n <= 8; n += 4) {
        struct tutti_servers_opts sync = opts_of("sync", n, 1, bytes, 50);
        struct tutti_servers_opts async = opts_of("async", n, 1, bytes, 6000);
        double before;

        CHECK_INT(play(&sync).step_ps, 100 * MS);
        sync.pace_ppm = pace;
        CHECK_INT(play(&sync).step_ps, 120 * MS);
        before = play(&async).gradients_per_s;
        CHECK_NEAR(before, n * 10, 1);
        async.pace_ppm = pace;
        CHECK_NEAR(play(&async).gradients_per_s, before * (1 - (1 - 1 / 1.2) / n), 1);
        sync.params.aggregate = n - 1; /* a backup worker: nobody waits */
        sync.params.late = TUTTI_LATE_ABORTED;
        CHECK_INT(play(&sync).step_ps, 100 * MS);
    }
}

/* Times drawn anew each step: waiting for fewer of them takes less. */
TEST(backup_workers_shorten_steps)
{
    static const uint64_t bytes[] = {0};
    tutti_ps before = INT64_MAX;

    for (uint32_t r = 16; r >= 10; r -= 2) {
        struct tutti_servers_opts opts = opts_of("sync", 16, 1, bytes, 400);
        struct tutti_served served;

        opts.jitter = 0.3;
        opts.params.aggregate = r;
        opts.params.late = TUTTI_LATE_ABORTED;
        served = play(&opts);
        CHECK(served.step_ps < before);
        CHECK_INT(served.stats.applied, 400 * r);
        before = served.step_ps;
    }
}

TEST(lost_workers_come_back)
{
    static const uint64_t bytes[] = {1000000, 3000000};
    struct tutti_servers_opts opts = opts_of("async", 8, 2, bytes, 4000);
    struct tutti_served calm;
    struct tutti_served served;
    struct tutti_served again;

    opts.jitter = 0.1;
    calm = play(&opts);
    opts.mtbf_ps = 4000 * MS; /* of a worker */
    opts.restart_ps = 1000 * MS;
    served = play(&opts);
    again = play(&opts);
    CHECK(memcmp(&served, &again, sizeof(served)) == 0);
    CHECK(served.failures > 20);
    /* a fifth of the time away, and half of an episode of some 110 ms lost each time */
    CHECK_NEAR(served.gradients_per_s, calm.gradients_per_s * 4000 / 5000 * (1 - 0.055 / 4), 6);
    opts.ops = kind("sync");
    opts.params.last_step = 200;
    CHECK_INT(play(&opts).steps, 200);
}

TEST(nonsense_is_refused)
{
    static const uint64_t bytes[] = {1};
    static const uint32_t nowhere[] = {9, 9};
    struct tutti_servers_opts opts = opts_of("async", 2, 1, bytes, 10);
    struct tutti_served served;
    struct tutti_err err = {""};

    opts.worker_host = nowhere;
    CHECK_INT(tutti_servers_play(&opts, &served, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "worker 0 has no host among '3'");
    opts = opts_of("async", 2, 1, bytes, 0);
    CHECK_INT(tutti_servers_play(&opts, &served, &err), -TUTTI_EINVAL);
}

/* ---- measured ---------------------------------------------------------------------------------
 */

/* tf_cnn_benchmarks on EC2 p2.8xlarge, 8 K80 and a card of 10 Gb/s a host, synchronous
 * (distributed_replicated), images/s on 16, 32 and 64 GPUs and servers at 64: TensorFlow's
 * documentation, r1/guide/performance/benchmarks, of May 2017. */
static const struct measured {
    const char *model;
    uint32_t batch; /* of a GPU */
    double images_per_s[3];
    uint32_t servers;
} measured[] = {
    {"inception3", 64, {459, 902, 1783}, 6}, {"resnet50", 64, {751, 1388, 2744}, 8},
    {"resnet152", 32, {291, 565, 981}, 4},   {"inception3", 32, {427, 820, 1608}, 8},
    {"resnet50", 32, {667, 1180, 2315}, 4},
};

static double exchange_s(uint32_t hosts, uint32_t servers, uint64_t parameters)
{
    static const uint32_t number[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    uint64_t bytes[8] = {0};
    struct tutti_servers_opts opts = opts_of("sync", hosts, servers, bytes, 1);
    struct tutti_err err = {""};
    tutti_ps exchange_ps = 0;

    for (uint32_t i = 0; i < servers; i++)
        bytes[i] = parameters * 4 / servers;
    opts.worker_host = opts.server_host = number;
    opts.host_count = hosts;
    opts.host_bytes_per_s = 10000000000 / 8;
    CHECK_OK(tutti_servers_exchange(&opts, &exchange_ps, &err), err);
    return (double)exchange_ps / 1e12;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* From the step on 16 GPUs, and nothing fitted: what the cards carry more on 32 and 64. */
TEST(steps_of_k80s_on_ec2_are_foretold)
{
    enum { FIGURES = 10 };
    double errors[FIGURES];
    double nulls[FIGURES];
    uint32_t count = 0;

    for (size_t i = 0; i < sizeof(measured) / sizeof(measured[0]); i++) {
        const struct measured *m = &measured[i];
        struct tutti_model_params params = {.size = sizeof(params)};
        struct tutti_workload *model = NULL;
        struct tutti_err err = {""};
        double anchor = 16 * m->batch / m->images_per_s[0];
        uint64_t parameters;

        CHECK_OK(tutti_model_new(m->model, &params, &model, &err), err);
        REQUIRE(model != NULL);
        parameters = tutti_model_sum(model).parameters;
        tutti_model_free(model);
        for (uint32_t k = 1; k <= 2; k++) {
            uint32_t hosts = k == 1 ? 4 : 8;
            double step = hosts * 8 * m->batch / m->images_per_s[k];
            double seen = anchor + exchange_s(hosts, k == 1 ? 4 : m->servers, parameters) -
                          exchange_s(2, 2, parameters);

            errors[count] = fabs(seen / step - 1) * 100;
            nulls[count++] = fabs(anchor / step - 1) * 100;
        }
    }
    qsort(errors, FIGURES, sizeof(double), by_size);
    qsort(nulls, FIGURES, sizeof(double), by_size);
    printf("        median %.1f %%, worst %.1f %%; no change: %.1f, %.1f\n",
           (errors[4] + errors[5]) / 2, errors[9], (nulls[4] + nulls[5]) / 2, nulls[9]);
    CHECK((errors[4] + errors[5]) / 2 <= 2.5);
    CHECK(errors[9] <= 9);
}

static int story(struct tutti_err *err)
{
    static const uint64_t bytes[] = {1000, 2000};
    struct tutti_servers_opts opts = opts_of("async", 2, 2, bytes, 10);
    struct tutti_served served;

    return tutti_servers_play(&opts, &served, err);
}

TEST(memory_may_run_out)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(story(&err), err);
}

/* ---- failures -------------------------------------------------------------------------------- */

TEST(a_job_without_failures_stands_still_for_checkpoints_alone)
{
    struct tutti_goodput_opts opts = {.size = sizeof(opts), .step_ps = MS, .steps = 1000};
    struct tutti_goodput goodput = {0};
    struct tutti_err err = {""};

    CHECK_OK(tutti_goodput_play(&opts, &goodput, &err), err);
    CHECK_NEAR(goodput.total_s, 1, 1e-7);
    opts.save_steps = 100;
    opts.save_ps = 10 * MS;
    CHECK_OK(tutti_goodput_play(&opts, &goodput, &err), err);
    CHECK_NEAR(goodput.total_s, 1.1, 1e-7);
    CHECK_INT(goodput.checkpoints, 10);
    CHECK_NEAR(goodput.goodput, tutti_goodput_expected(100 * MS, 10 * MS, 0, 0), 0.001);
}

/* Some 5000 failures: within 3 % of what Daly expects, and best where Young says. */
TEST(goodput_is_as_daly_expects)
{
    const tutti_ps S = 1000 * MS;
    double at_best = 0;

    for (uint32_t k = 0; k < 5; k++) {
        static const double factor[] = {1, 0.2, 0.5, 2, 5};
        struct tutti_goodput_opts opts = {.size = sizeof(opts),
                                          .step_ps = S / 2,
                                          .save_ps = 40 * S,
                                          .mtbf_ps = 3 * 3600 * S,
                                          .restart_ps = 300 * S,
                                          .seed = test_seed + k};
        tutti_ps young = tutti_goodput_interval(opts.save_ps, opts.mtbf_ps);
        struct tutti_goodput goodput = {0};
        struct tutti_err err = {""};
        double expected;

        opts.save_steps = (uint64_t)(factor[k] * (double)young / (double)opts.step_ps);
        opts.steps = 5000 * (uint64_t)(opts.mtbf_ps / opts.step_ps) / opts.save_steps;
        opts.steps *= opts.save_steps;
        CHECK_OK(tutti_goodput_play(&opts, &goodput, &err), err);
        expected = tutti_goodput_expected((tutti_ps)opts.save_steps * opts.step_ps, opts.save_ps,
                                          opts.mtbf_ps, opts.restart_ps);
        CHECK_NEAR(goodput.goodput, expected, 3);
        CHECK(goodput.failures > 4000);
        CHECK(goodput.repeated_steps > 0);
        if (k == 0)
            at_best = goodput.goodput;
        else
            CHECK(goodput.goodput < at_best);
    }
    CHECK(at_best > 0.85);
}
