/* Training steps predicted: published ones from one measured step, what is waited for, what does
 * not fit; and that the two levels agree where nothing overlaps. */
#include <math.h>
#include <stdlib.h>

#include "runtime/coll.h"
#include "runtime/status.h"
#include "runtime/strategy.h"
#include "runtime/tensorflow.h"
#include "sim/train.h"
#include "tests/alloc_fail.h"
#include "tests/test.h"
#include "topo/topo.h"

struct world {
    struct tutti_topo *topo;
    struct tutti_workload *model;
    struct tutti_strategy strategy;
    struct tutti_train_ask ask;
};

static void open_world(struct world *w, const char *spec, const char *model, const char *strategy,
                       const struct tutti_model_params *params)
{
    struct tutti_err err;

    *w = (struct world){.topo = NULL};
    CHECK_OK(tutti_topo_from_spec(spec, &w->topo, &err), err);
    CHECK_OK(tutti_model_new(model, params, &w->model, &err), err);
    CHECK_OK(tutti_strategy_named(strategy, &w->strategy, &err), err);
    w->ask = (struct tutti_train_ask){.size = sizeof(w->ask),
                                      .topo = w->topo,
                                      .model = w->model,
                                      .strategy = &w->strategy,
                                      .use = {.batch = 64, .fused_attention = true},
                                      .prefetch = 1};
}

static void close_world(struct world *w)
{
    tutti_model_free(w->model);
    tutti_topo_free(w->topo);
}

static struct tutti_train_answer predict(const struct world *w)
{
    struct tutti_train_answer answer = {.step_ps = -1};
    struct tutti_err err;

    CHECK_OK(tutti_train_predict(&w->ask, &answer, &err), err);
    return answer;
}

/* A published lesson: MobileNetV2 on cats and dogs, 1 GPU 306 ms a step of 64, 4 GPUs by
 * MirroredStrategy 373 to 390 ms a step of 256. The network has no part in it: the host decodes. */
TEST(four_gpus_wait_for_one_host)
{
    const struct tutti_model_params two = {.size = sizeof(two), .classes = 2};
    struct tutti_train_answer answer;
    struct world w;

    open_world(&w, "dgx-1v:gpus=4", "mobilenetv2", "mirrored", &two);
    w.ask.anchor_ps = 306 * TUTTI_PS_PER_MS;
    w.ask.input_rate = 689; /* TensorFlow's decode, one thread */
    answer = predict(&w);
    printf("%.1f ms, gradients %.2f ms: %s\n", (double)answer.step_ps / 1e9,
           (double)answer.split.reduce_ps / 1e9, answer.limited_by);
    CHECK(answer.step_ps > 361 * TUTTI_PS_PER_MS && answer.step_ps < 399 * TUTTI_PS_PER_MS);
    CHECK(answer.split.reduce_ps < 5 * TUTTI_PS_PER_MS);
    CHECK(strstr(answer.limited_by, "input pipeline") != NULL);
    CHECK_INT((23262 + 64 - 1) / 64, 364);
    CHECK_INT((23262 + answer.samples - 1) / answer.samples, 91);
    close_world(&w);
}

/* 87 hours for 90 epochs of ImageNet on one V100; NVIDIA publishes some 10 h on eight. */
TEST(eighty_seven_hours_become_ten)
{
    struct tutti_train_answer answer;
    struct world w;
    double hours;

    open_world(&w, "dgx-1v", "resnet50", "mirrored", NULL);
    w.ask.synthetic = true; /* the host keeps up */
    w.ask.anchor_ps = (tutti_ps)(87.0 * 3600 / 90 / 1281167 * 64 * 1e12);
    answer = predict(&w);
    hours = (double)answer.step_ps / 1e12 * ceil(1281167.0 / (double)answer.samples) * 90 / 3600;
    printf("%.2f h on eight\n", hours);
    CHECK(fabs(hours / 10 - 1) < 0.10);
    close_world(&w);
}

TEST(a_straggler_holds_up_all)
{
    uint32_t pace[8] = {TUTTI_PACE, TUTTI_PACE, TUTTI_PACE, TUTTI_PACE * 6 / 5,
                        TUTTI_PACE, TUTTI_PACE, TUTTI_PACE, TUTTI_PACE};
    struct world w;
    tutti_ps even;
    tutti_ps slow;

    open_world(&w, "dgx-1v", "resnet50", "ddp", NULL);
    even = predict(&w).step_ps;
    w.ask.pace_ppm = pace;
    slow = predict(&w).step_ps;
    printf("%.2f %% longer\n", ((double)slow / (double)even - 1) * 100);
    CHECK(fabs((double)slow / (double)even - 1.2) < 0.01);
    close_world(&w);
}

/* They average every eight steps, and at each average all wait for the one that was slow in all of
 * them. */
TEST(a_straggler_holds_up_averages_as_well)
{
    uint32_t pace[8] = {TUTTI_PACE, TUTTI_PACE, TUTTI_PACE, TUTTI_PACE * 6 / 5,
                        TUTTI_PACE, TUTTI_PACE, TUTTI_PACE, TUTTI_PACE};
    struct tutti_train_answer slow;
    struct world w;
    tutti_ps even;

    open_world(&w, "dgx-1v", "resnet50", "local-sgd", NULL);
    even = predict(&w).step_ps;
    w.ask.pace_ppm = pace;
    slow = predict(&w);
    CHECK(fabs((double)slow.step_ps / (double)even - 1.2) < 0.01);
    CHECK(llabs(slow.split.compute_ps + slow.split.reduce_ps + slow.split.late_ps - slow.step_ps) <
          TUTTI_PS_PER_US);
    close_world(&w);
}

/* Forward once more: a third of what forward and backward are together, of convolutions as well,
 * whose memory it saves. */
TEST(what_is_recomputed_takes_time)
{
    struct tutti_train_answer none;
    struct tutti_train_answer full;
    struct world w;

    open_world(&w, "dgx-1v", "resnet50", "mirrored", NULL);
    none = predict(&w);
    w.ask.use.recompute = TUTTI_RECOMPUTE_FULL;
    full = predict(&w);
    CHECK(full.footprint.total_bytes < none.footprint.total_bytes);
    CHECK(full.split.compute_ps > none.split.compute_ps * 5 / 4);
    CHECK(full.split.compute_ps < none.split.compute_ps * 3 / 2);
    close_world(&w);
}

/* Of tables of 24 thousand million elements a step updates the rows that it touches. */
TEST(an_embedding_is_updated_where_it_is_touched)
{
    struct world w;
    tutti_ps rows;

    open_world(&w, "dgx-1v", "dlrm", "mirrored", NULL);
    w.ask.any_memory = true;
    rows = predict(&w).step_ps;
    w.strategy.densify = true;
    CHECK(predict(&w).step_ps > 10 * rows);
    close_world(&w);
}

/* Every message of the algorithm that was asked for, TensorFlow's rings with orders among them. */
TEST(messages_are_those_of_the_algorithm)
{
    static const char *const names[] = {"ring", "tf-ring", "hierarchical-copy"};
    struct tutti_algorithm_set *added = NULL;
    uint32_t pace[8] = {TUTTI_PACE};
    struct tutti_train_answer answer;
    struct tutti_err err;
    tutti_ps step_ps[3];
    struct world w;

    CHECK_OK(tutti_algorithm_set_new(&added, &err), err);
    CHECK_OK(tutti_tf_algorithm_add(added, &err), err);
    open_world(&w, "dgx-1v", "vgg16", "mirrored", NULL);
    w.ask.added = added;
    w.ask.exact = true;
    for (size_t i = 0; i < 3; i++) {
        w.ask.algorithm = names[i];
        step_ps[i] = predict(&w).step_ps;
    }
    printf("%lld, %lld, %lld ps\n", (long long)step_ps[0], (long long)step_ps[1],
           (long long)step_ps[2]);
    CHECK(step_ps[1] != step_ps[0]);
    CHECK(step_ps[2] != step_ps[0]);
    w.ask.pace_ppm = pace; /* one program is laid out for all ranks */
    CHECK_INT(tutti_train_predict(&w.ask, &answer, &err), -TUTTI_EINVAL);
    close_world(&w);
    tutti_algorithm_set_free(added);
}

TEST(steps_of_months_are_refused)
{
    struct tutti_train_answer answer = {.step_ps = -1};
    struct tutti_err err;
    struct world w;

    open_world(&w, "dgx-1v", "gpt3-175b", "ddp", NULL);
    w.ask.any_memory = true;
    w.ask.use.batch = 1 << 24;
    w.ask.micro_batches = 65536;
    CHECK_INT(tutti_train_predict(&w.ask, &answer, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "days") != NULL);
    w.ask.use.batch = 1;
    w.ask.micro_batches = 1;
    w.ask.input_rate = 1e-9;
    CHECK_INT(tutti_train_predict(&w.ask, &answer, &err), -TUTTI_EINVAL);
    CHECK_INT(answer.step_ps, -1);
    close_world(&w);
}

/* Detectors leave the first layers as they were trained: those go no way back. */
TEST(frozen_layers_have_the_flops_of_forward)
{
    struct tutti_train_answer answer;
    struct tutti_model_sums sums;
    struct world w;

    open_world(&w, "dgx-1v", "faster-rcnn-r50-c4", "ddp", NULL);
    w.ask.use.batch = 2;
    w.ask.any_memory = true;
    answer = predict(&w);
    sums = tutti_model_sum(w.model);
    CHECK(answer.flops < 3 * (double)sums.flops * (double)answer.samples * 0.99);
    CHECK(answer.flops > 2 * (double)sums.flops * (double)answer.samples);
    close_world(&w);
}

TEST(the_parts_add_up_to_the_step)
{
    static const char *const names[] = {"mirrored", "ddp", "zero1", "zero2", "fsdp", "hsdp"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct tutti_train_answer a;
        struct tutti_train_split *s = &a.split;
        struct world w;

        open_world(&w, i == 0 ? "dgx-h100" : "dgx-h100:nodes=2", "bert-large", names[i], NULL);
        w.ask.use.batch = 4;
        w.ask.use.precision = TUTTI_PRECISION_BF16;
        w.ask.micro_batches = 1 + i % 2;
        a = predict(&w);
        CHECK_INT(s->compute_ps + s->slowed_ps + s->reduce_ps + s->gather_ps + s->across_ps +
                      s->input_ps,
                  a.step_ps);
        CHECK(a.mfu_percent > 1 && a.mfu_percent < 100);
        close_world(&w);
    }
}

/* Where one collective follows the backward pass, the play of every message of the same rings is
 * the same. */
TEST(the_levels_agree_where_nothing_overlaps)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_schedule *flat = NULL;
    struct tutti_backend *sim = NULL;
    struct tutti_stepped stepped = {.total_ps = 0};
    struct tutti_played played = {.total_ps = 0};
    struct tutti_err err;
    struct world w;

    open_world(&w, "switch:n=8,bw=10GB/s,lat=1us", "mlp", "mirrored", NULL);
    CHECK_OK(tutti_accelerator_find("v100", &w.ask.use.accelerator, &err), err);
    CHECK_OK(tutti_train_schedule(&w.ask, &schedule, &err), err);
    CHECK_OK(tutti_step_play(&(struct tutti_step_opts){.size = sizeof(struct tutti_step_opts),
                                                       .topo = w.topo,
                                                       .schedule = schedule},
                             &stepped, &err),
             err);
    CHECK_OK(tutti_schedule_flatten(schedule, &flat, &err), err);
    CHECK_OK(tutti_sim_open(
                 &(struct tutti_sim_opts){.size = sizeof(struct tutti_sim_opts), .topo = w.topo},
                 &sim, &err),
             err);
    CHECK_OK(tutti_backend_play(sim,
                                &(struct tutti_play){.size = sizeof(struct tutti_play),
                                                     .schedule = flat,
                                                     .iteration_count = 1},
                                &played, &err),
             err);
    printf("%lld ps and %lld ps\n", (long long)stepped.total_ps, (long long)played.total_ps);
    CHECK(llabs(stepped.total_ps - played.total_ps) < TUTTI_PS_PER_US);
    tutti_backend_close(sim);
    tutti_schedule_free(flat);
    tutti_schedule_free(schedule);
    close_world(&w);
}

TEST(what_does_not_fit_is_refused_with_what_would)
{
    struct tutti_train_answer answer;
    struct tutti_err err;
    struct world w;

    open_world(&w, "dgx-h100", "llama3-70b", "ddp", NULL);
    w.ask.use.batch = 1;
    w.ask.use.precision = TUTTI_PRECISION_BF16;
    CHECK_INT(tutti_train_predict(&w.ask, &answer, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "does not fit") != NULL && strstr(err.text, "would fit") != NULL);
    w.ask.any_memory = true;
    CHECK(!predict(&w).footprint.fits);
    close_world(&w);
}

TEST(mirrored_has_one_host)
{
    struct tutti_train_answer answer;
    struct tutti_err err;
    struct world w;

    open_world(&w, "dgx-h100:nodes=2", "resnet50", "mirrored", NULL);
    CHECK_INT(tutti_train_predict(&w.ask, &answer, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "multiworkermirrored") != NULL);
    close_world(&w);
}

TEST(machines_of_other_sizes)
{
    static const struct {
        const char *spec;
        uint32_t count;
        const char *name;
    } cases[] = {{"dgx-1v", 4, "dgx-1v:nodes=1,gpus=4"},
                 {"dgx-h100:nodes=4,nicbw=25GB/s", 64, "dgx-h100:nodes=8,nicbw=25GB/s"},
                 {"tpu-v3", 128, "tpu-v3:8x16"},
                 {"tpu-v4", 512, "tpu-v4:8x8x8"},
                 {"ring:n=4,bw=1GB/s,lat=1us", 16, "ring:n=16,bw=1GB/s,lat=1us"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_topo *topo = NULL;
        struct tutti_topo *other = NULL;
        struct tutti_err err;

        CHECK_OK(tutti_topo_from_spec(cases[i].spec, &topo, &err), err);
        CHECK_OK(tutti_train_machine(topo, cases[i].count, &other, &err), err);
        CHECK_TEXT(other->name, cases[i].name);
        CHECK_INT(other->rank_count, cases[i].count);
        tutti_topo_free(other);
        CHECK_INT(tutti_train_machine(topo, 7777777, &other, &err), i == 4 ? 0 : -TUTTI_EINVAL);
        if (i == 4)
            tutti_topo_free(other);
        tutti_topo_free(topo);
    }
}

static void count_calls(void *context, const struct tutti_train_call *call)
{
    tutti_ps *sum_ps = context;

    *sum_ps += call->alone_ps;
}

/* Steps that share a memory, asked twice over in turn, are those that each would have alone. */
TEST(steps_that_tell_each_other_prices_are_the_same)
{
    static const char *const machines[] = {"dgx-1v:nodes=2", "dgx-h100:nodes=2", "dgx-h100"};
    static const char *const names[] = {"ddp", "zero2", "fsdp", "hsdp"};
    struct tutti_train_memory *memory = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_train_memory_new(&memory, &err), err);
    for (uint32_t i = 0; i < 2 * 3 * 4; i++) {
        struct tutti_train_answer alone;
        struct tutti_train_answer told;
        tutti_ps alone_ps = 0;
        tutti_ps told_ps = 0;
        struct world w;

        open_world(&w, machines[i % 3], i < 12 ? "resnet50" : "resnet101", names[i % 4], NULL);
        w.ask.call = count_calls;
        w.ask.note_context = &alone_ps;
        alone = predict(&w);
        w.ask.memory = memory;
        for (int again = 0; again < 2; again++) {
            told_ps = 0;
            w.ask.note_context = &told_ps;
            told = predict(&w);
            CHECK_INT(told.step_ps, alone.step_ps);
            CHECK_INT(told.split.slowed_ps, alone.split.slowed_ps);
            CHECK_INT(told.communication_ps, alone.communication_ps);
            CHECK_INT(told_ps, alone_ps);
            CHECK_TEXT(told.algorithm, alone.algorithm);
            CHECK_TEXT(told.protocol, alone.protocol);
        }
        close_world(&w);
    }
    tutti_train_memory_free(memory);
}

TEST(a_prediction_fails_cleanly_without_memory)
{
    struct tutti_train_answer answer;
    struct tutti_err err = {""};
    struct world w;

    open_world(&w, "switch:n=2,bw=10GB/s,lat=1us", "mlp", "mirrored", NULL);
    CHECK_OK(tutti_accelerator_find("v100", &w.ask.use.accelerator, &err), err);
    ALLOC_FAIL_EACH(tutti_train_predict(&w.ask, &answer, &err), err);
    close_world(&w);
}
