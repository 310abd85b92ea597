/* Training by parameter servers: what a machine, a model and tasks on its hosts come to. */
#include <math.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/train_servers.h"
#include "tests/alloc_fail.h"
#include "tests/test.h"
#include "topo/topo.h"

/* A machine, a model, and what is asked of them. */
struct world {
    struct tutti_topo *topo;
    struct tutti_workload *model;
    struct tutti_strategy strategy;
    struct tutti_train_ask train;
    struct tutti_train_servers_ask ask;
};

static void set_up(struct world *w, const char *spec, const char *model)
{
    struct tutti_err err = {""};

    *w = (struct world){.train = {.size = sizeof(w->train)}, .ask = {.size = sizeof(w->ask)}};
    CHECK_OK(tutti_topo_from_spec(spec, &w->topo, &err), err);
    CHECK_OK(tutti_model_new(model, NULL, &w->model, &err), err);
    CHECK_OK(tutti_strategy_named("parameter-server", &w->strategy, &err), err);
    w->train.topo = w->topo;
    w->train.model = w->model;
    w->train.strategy = &w->strategy;
    w->train.use.batch = 32;
    w->train.prefetch = 1;
    w->train.synthetic = true;
    CHECK_OK(tutti_accelerator_find("v100", &w->train.use.accelerator, &err), err);
    w->ask.train = &w->train;
}

static void take_down(struct world *w)
{
    tutti_topo_free(w->topo);
    tutti_model_free(w->model);
}

static struct tutti_train_servers_answer answer(const struct world *w)
{
    struct tutti_train_servers_answer a = {.bytes = 0};
    struct tutti_err err = {""};

    CHECK_OK(tutti_train_servers_predict(&w->ask, &a, &err), err);
    return a;
}

static void refused(const struct world *w, const char *text)
{
    struct tutti_train_servers_answer a;
    struct tutti_err err = {""};

    CHECK_INT(tutti_train_servers_predict(&w->ask, &a, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, text);
}

/* All four workers wait for all others, whose weights are S and whose cards carry (n-1)/n S as
 * worker and as much as server, out and in. */
TEST(a_synchronous_step_is_computing_and_what_cards_carry)
{
    struct world w;
    struct tutti_train_servers_answer a;
    double seconds;

    set_up(&w, "switch:n=4,bw=10Gb/s,lat=10us", "resnet50");
    w.ask.synchronous = true;
    w.ask.partition = (struct tutti_partitioning){.kind = TUTTI_PARTITION_FIXED, .shards = 4};
    w.ask.placement = TUTTI_PLACE_GREEDY;
    a = answer(&w);
    CHECK_INT(a.worker_count, 4);
    CHECK_INT(a.worker_devices, 1);
    CHECK_INT(a.server_count, 4);
    CHECK_INT(a.host_count, 4);
    CHECK_INT(a.bytes, 4 * UINT64_C(25557032));
    CHECK_INT(a.step.samples, 128);
    CHECK_INT(a.step.split.compute_ps + a.step.split.reduce_ps, a.step.step_ps);
    seconds = 2 * 0.75 * (double)a.bytes / 1.25e9;
    CHECK(fabs((double)a.step.split.reduce_ps / 1e12 / seconds - 1) < 0.02);
    w.ask.by_variable = true; /* in and out at once */
    a = answer(&w);
    CHECK(fabs((double)a.step.split.reduce_ps / 1e12 / seconds - 1) < 0.02);
    w.ask.apart = true; /* each server's card carries n shares each way, as each worker's one */
    CHECK_INT(answer(&w).host_count, 8);
    take_down(&w);
}

/* Eight gradients of four workers make a step: each computes twice, which is no waiting. */
TEST(few_workers_compute_more_than_once_a_step)
{
    struct world w;
    struct tutti_train_servers_answer once;
    struct tutti_train_servers_answer twice;

    set_up(&w, "switch:n=4,bw=100Gb/s,lat=10us", "resnet50");
    w.ask.synchronous = true;
    once = answer(&w);
    w.ask.aggregate = 8;
    twice = answer(&w);
    CHECK_INT(twice.step.samples, 2 * once.step.samples);
    CHECK(fabs((double)twice.step.split.compute_ps / (double)once.step.split.compute_ps - 2) <
          0.05);
    take_down(&w);
}

TEST(a_straggler_slows_the_synchronous_step_and_an_nth_of_the_asynchronous)
{
    static const uint32_t pace[4] = {1000000, 1000000, 1200000, 1000000};
    struct world w;
    struct tutti_train_servers_answer before;
    struct tutti_train_servers_answer after;

    set_up(&w, "switch:n=4,bw=3200Gb/s,lat=1us", "mobilenetv2");
    w.ask.synchronous = true;
    before = answer(&w);
    w.train.pace_ppm = pace;
    after = answer(&w);
    CHECK(fabs((double)after.step.step_ps / (double)before.step.step_ps - 1.2) < 0.01);
    w.ask.aggregate = 3; /* a backup worker, who is stopped */
    w.ask.late = TUTTI_LATE_ABORTED;
    after = answer(&w);
    CHECK(fabs((double)after.step.step_ps / (double)before.step.step_ps - 1) < 0.005);
    CHECK_INT(after.step.samples, 96);
    w.ask.synchronous = false;
    w.ask.aggregate = 0;
    after = answer(&w);
    w.train.pace_ppm = NULL;
    before = answer(&w);
    CHECK(fabs(after.gradients_per_s / before.gradients_per_s - (1 - (1 - 1 / 1.2) / 4)) < 0.01);
    CHECK(fabs(before.staleness - 3) < 0.05);
    take_down(&w);
}

/* Two workers a host, of four devices each; a batch touches rows of an embedding, not all of it. */
TEST(tasks_and_variables_are_placed)
{
    static const uint32_t swapped[4] = {1, 0, 1, 0};
    static const uint32_t lumped[4] = {0, 0, 0, 1};
    struct world w;
    struct tutti_train_servers_answer a;

    set_up(&w, "dgx-1v:nodes=2", "vgg16");
    w.ask.worker_count = 4;
    w.ask.server_count = 3;
    a = answer(&w);
    CHECK_INT(a.worker_devices, 4);
    CHECK_INT(a.host_count, 2);
    CHECK(a.fullest_bytes > 4 * UINT64_C(102760448)); /* the first dense layer is one variable, */
    w.ask.partition = (struct tutti_partitioning){.kind = TUTTI_PARTITION_FIXED, .shards = 3};
    CHECK(answer(&w).fullest_bytes < a.bytes * 35 / 100); /* unless it is cut */
    w.ask.partition =
        (struct tutti_partitioning){.kind = TUTTI_PARTITION_MIN_SIZE, .shard_bytes = 1 << 20};
    CHECK(answer(&w).fullest_bytes < a.bytes * 35 / 100);
    w.ask.worker_host = swapped;
    CHECK_INT(answer(&w).step.step_ps > 0, 1);
    w.ask.worker_host = lumped;
    refused(&w, "'3' workers on host 0 (2, as on all others)");
    w.ask.worker_host = NULL;
    w.ask.worker_count = 3;
    refused(&w,
            "'3' workers on 2 hosts of 8 devices (each has as many devices of one host: 2 or 16 "
            "workers)");
    w.ask.worker_count = 0;
    w.ask.aggregate = 1;
    refused(&w, "gradients that are averaged are of synchronous steps alone");
    take_down(&w);
    set_up(&w, "tpu-v3:4x4", "mlp");
    refused(&w, "how fast a network card of 'tpu-v3:4x4' is, is not known (say its rate)");
    w.ask.card_bytes_per_s = 1000000000;
    CHECK(answer(&w).worker_count > 1);
    take_down(&w);
    set_up(&w, "dgx-1v:nodes=2", "dlrm");
    w.train.any_memory = true; /* whole tables are counted */
    a = answer(&w);
    CHECK(a.bytes < 4 * tutti_model_sum(w.model).parameters / 10);
    take_down(&w);
}

TEST(a_host_that_is_late_with_its_input_is_waited_for)
{
    struct world w;
    struct tutti_train_servers_answer a;

    set_up(&w, "dgx-1v", "resnet50");
    w.train.input_rate = 100; /* 256 images of a host */
    a = answer(&w);
    CHECK_INT(a.step.step_ps, 2560 * TUTTI_PS_PER_MS);
    CHECK(strncmp(a.step.limited_by, "the input pipeline", 18) == 0);
    take_down(&w);
}

TEST(memory_may_run_out)
{
    struct world w;
    struct tutti_train_servers_answer a;
    struct tutti_err err = {""};

    set_up(&w, "dgx-1v:nodes=2", "mlp");
    ALLOC_FAIL_EACH(tutti_train_servers_predict(&w.ask, &a, &err), err);
    take_down(&w);
}
