/* Steps of models that are cut: pipelines as published at no latency, agreement with steps that
 * divide data alone, collectives as they are counted, and what is refused. */
#include <math.h>
#include <stdlib.h>

#include "runtime/strategy.h"
#include "sim/predict.h"
#include "tests/alloc_fail.h"
#include "tests/sim/parallel_world.h"

/* ---- pipelines ------------------------------------------------------------------------------- */

/* 48 layers that are one product of 8192^3 each: forward, gradient of the input and gradient of the
 * weights take the same. */
static const char equal_layers[] = "model equal\nsample row bytes 8\nlogits 1\n"
                                   "layer dense repeat 48 transformer\n"
                                   "operation dense matmul 8192 x 8192 x 8192\n"
                                   "variable weight elements 67108864 rows 8192\n"
                                   "saved whole 67108864 input 67108864\n";

enum { DEVICES = 4, MICRO_BATCHES = 16 };

/* Beyond what a device is busy for, and beyond what messages, gradients and the optimizer take. */
static tutti_ps bubble_of(enum tutti_pipeline schedule, uint32_t chunks,
                          struct tutti_stage_times *stage)
{
    struct tutti_parallel_answer answer;
    struct tutti_err err = {""};
    struct world w;

    open_world(&w, "dgx-h100:gpus=4", "mlp",
               (struct tutti_parallel){.pipeline = DEVICES,
                                       .schedule = schedule,
                                       .virtual_stages = chunks,
                                       .micro_batches = MICRO_BATCHES});
    tutti_model_free(w.model);
    CHECK_OK(tutti_model_parse("equal", equal_layers, sizeof(equal_layers) - 1, &w.model, &err),
             err);
    w.ask.model = w.model;
    w.ask.post_validation = schedule >= TUTTI_PIPELINE_ZB_H1;
    answer = predict(&w);
    *stage = answer.stages[0];
    for (uint32_t s = 0; s < DEVICES * chunks; s++)
        CHECK(memcmp(&answer.stages[s], stage, sizeof(*stage)) == 0);
    CHECK_INT(answer.split.compute_ps,
              (stage->forward_ps + stage->backward_ps + stage->weights_ps) * MICRO_BATCHES *
                  (tutti_ps)chunks);
    close_world(&w);
    tutti_parallel_answer_free(&answer);
    return answer.split.bubble_ps;
}

/* Makespans at no latency: Huang et al. 2019, Narayanan et al. 2019 and 2021, Qi et al. 2023 and
 * 2024. Chunks of v a device take 1/v. */
TEST(bubbles_are_as_published)
{
    const tutti_ps others = DEVICES - 1;
    struct tutti_stage_times t;

    CHECK_INT(bubble_of(TUTTI_PIPELINE_GPIPE, 1, &t),
              others * (t.forward_ps + t.backward_ps + t.weights_ps));
    CHECK_INT(bubble_of(TUTTI_PIPELINE_1F1B, 1, &t),
              others * (t.forward_ps + t.backward_ps + t.weights_ps));
    for (uint32_t v = 2; v <= 6; v += 2)
        CHECK_INT(bubble_of(TUTTI_PIPELINE_INTERLEAVED, v, &t),
                  others * (t.forward_ps + t.backward_ps + t.weights_ps));
    CHECK_INT(bubble_of(TUTTI_PIPELINE_ZB_H1, 1, &t),
              others * (t.forward_ps + t.backward_ps - t.weights_ps));
    CHECK_INT(bubble_of(TUTTI_PIPELINE_ZB_H2, 1, &t),
              others * (t.forward_ps + t.backward_ps - 2 * t.weights_ps));
    CHECK_INT(bubble_of(TUTTI_PIPELINE_ZBV, 2, &t), 0);
}

/* ---- large machines -------------------------------------------------------------------------- */

/* Llama 3.1 405B as Meta trained it on 16,384 GPUs, but with 1f1b: 15 of 31 slots are bubble. */
TEST(a_large_step_is_half_bubble)
{
    struct tutti_parallel_answer a;
    struct world w;

    open_world(&w, "dgx-h100:nodes=2048", "llama3-405b",
               (struct tutti_parallel){.tensor = 8,
                                       .pipeline = 16,
                                       .data = 128,
                                       .sequence_parallel = true,
                                       .sharding = TUTTI_SHARD_ZERO1,
                                       .micro_batches = 16,
                                       .micro_batch = 1});
    w.ask.any_memory = true;
    a = predict(&w);
    printf("%.3f s, %.1f %% of peak: %s\n", (double)a.step_ps / 1e12, a.mfu_percent, a.limited_by);
    CHECK_INT(a.samples, 2048);
    CHECK_INT(a.device_count, 16);
    CHECK(a.split.bubble_ps > a.step_ps * 2 / 5 && a.split.bubble_ps < a.step_ps / 2);
    CHECK(strncmp(a.limited_by, "bubble (", 8) == 0);
    tutti_parallel_answer_free(&a);
    close_world(&w);
}

/* ---- data alone ------------------------------------------------------------------------------ */

static tutti_ps train_step(const struct world *w, const char *name)
{
    struct tutti_strategy strategy;
    struct tutti_train_answer answer = {.step_ps = 0};
    struct tutti_err err = {""};
    struct tutti_train_ask ask = {.size = sizeof(ask),
                                  .topo = w->topo,
                                  .model = w->model,
                                  .strategy = &strategy,
                                  .use = w->ask.use,
                                  .micro_batches = w->parallel.micro_batches,
                                  .optimizer = w->ask.optimizer,
                                  .any_memory = true,
                                  .prefetch = 1};

    CHECK_OK(tutti_strategy_named(name, &strategy, &err), err);
    ask.use.batch = w->parallel.micro_batch;
    CHECK_OK(tutti_train_predict(&ask, &answer, &err), err);
    return answer.step_ps;
}

/* Where nothing but data is divided, the step is that of the strategy, whose collectives share
 * links as a fluid: within 3 %. Here what two lanes want of links at once is given to one after the
 * other, and the first bucket is no smaller than others. */
TEST(steps_that_divide_data_alone_are_those_of_strategies)
{
    static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};
    static const struct {
        const char *spec;
        const char *model;
        uint32_t batch;
    } cases[] = {{"dgx-h100", "gpt2-1558m", 2},
                 {"dgx-h100", "resnet50", 64},
                 {"dgx-a100:nodes=2", "gpt2-774m", 4}};
    double worst = 0;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (uint32_t s = 0; s < 4; s++) {
            struct tutti_parallel_answer a;
            struct world w;
            double off;

            open_world(&w, cases[i].spec, cases[i].model,
                       (struct tutti_parallel){.sharding = (enum tutti_sharding)s,
                                               .micro_batches = 2,
                                               .micro_batch = cases[i].batch});
            w.parallel.data = w.topo->rank_count;
            w.ask.any_memory = true;
            w.ask.use.precision = TUTTI_PRECISION_FP16;
            a = predict(&w);
            off = (double)a.step_ps / (double)train_step(&w, strategies[s]) - 1;
            printf("%s, %s, %s: %+.2f %%\n", cases[i].spec, cases[i].model, strategies[s],
                   100 * off);
            CHECK(fabs(off) < 0.03);
            worst = fmax(worst, fabs(off));
            tutti_parallel_answer_free(&a);
            close_world(&w);
        }
    printf("worst %.2f %%\n", 100 * worst);
}

/* ---- what is sent ---------------------------------------------------------------------------- */

static tutti_ps price_of(const char *spec, enum tutti_collective collective, uint64_t count)
{
    struct tutti_ask ask = {
        .size = sizeof(ask),
        .params = {.collective = collective, .dtype = TUTTI_BFLOAT16, .count = count}};
    struct tutti_topo *topo = NULL;
    struct tutti_answer answer;
    struct tutti_err err = {""};

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    ask.topo = topo;
    CHECK_OK(tutti_predict(&ask, &answer, &err), err);
    tutti_topo_free(topo);
    return answer.time_ps;
}

/* As many collectives as traffic is counted for (runtime/parallel.h), each at its price: of a GPT
 * with 2 experts of 8 a token, s 2048, h 1024, cut by tensor 2 and expert 8. */
TEST(what_is_sent_is_what_is_counted)
{
    enum { TOKENS = 2048, HIDDEN = 1024, ACTIVE = 2, LAYERS = 4, TENSOR = 2, EXPERT = 8 };
    const struct tutti_model_params params = {.size = sizeof(params),
                                              .sequence = TOKENS,
                                              .vocabulary = 32000,
                                              .transformer = {.layers = LAYERS,
                                                              .hidden = HIDDEN,
                                                              .heads = 16,
                                                              .feed_forward = 4096,
                                                              .experts = 8,
                                                              .active_experts = ACTIVE}};
    const struct tutti_framework *megatron = NULL;
    struct tutti_parallel_traffic_params asked = {.size = sizeof(asked)};
    struct tutti_parallel_traffic traffic;
    struct tutti_parallel_answer a;
    struct tutti_framework f;
    struct tutti_err err = {""};
    struct world w;

    open_world(&w, "dgx-h100:nodes=2", "mlp",
               (struct tutti_parallel){.tensor = TENSOR,
                                       .data = 8,
                                       .expert = EXPERT,
                                       .sequence_parallel = true,
                                       .micro_batches = 3});
    tutti_model_free(w.model);
    CHECK_OK(tutti_model_new("llama", &params, &w.model, &err), err);
    CHECK_OK(tutti_framework_find("megatron", &megatron, &err), err);
    f = *megatron;
    f.wait_us = 0;
    w.ask.model = w.model;
    w.ask.use.framework = &f;
    a = predict(&w);
    asked.parallel = &w.parallel;
    asked.model = w.model;
    CHECK_OK(tutti_parallel_traffic_of(&asked, &traffic, &err), err);
    CHECK_INT(traffic.calls[TUTTI_TRAFFIC_EXPERT], 4 * LAYERS * 3);
    CHECK_INT(a.split.expert_ps, (tutti_ps)traffic.calls[TUTTI_TRAFFIC_EXPERT] *
                                     price_of("dgx-h100:nodes=2,gpus=4", TUTTI_ALLTOALL,
                                              TOKENS * HIDDEN * ACTIVE / TENSOR / EXPERT));
    tutti_parallel_answer_free(&a);
    close_world(&w);

    open_world(&w, "dgx-h100", "mlp", (struct tutti_parallel){.tensor = 8, .micro_batches = 3});
    tutti_model_free(w.model);
    CHECK_OK(tutti_model_new("gpt2-355m", NULL, &w.model, &err), err);
    w.ask.model = w.model;
    w.ask.use.framework = &f;
    w.ask.use.recompute = TUTTI_RECOMPUTE_FULL;
    a = predict(&w);
    asked.full_recompute = true;
    asked.model = w.model;
    CHECK_OK(tutti_parallel_traffic_of(&asked, &traffic, &err), err);
    CHECK_INT(traffic.calls[TUTTI_TRAFFIC_TENSOR], 6 * 24 * 3);
    CHECK_INT(a.split.tensor_ps, (tutti_ps)(traffic.calls[TUTTI_TRAFFIC_TENSOR] +
                                            traffic.calls[TUTTI_TRAFFIC_EMBEDDING] +
                                            traffic.calls[TUTTI_TRAFFIC_HEAD]) *
                                         price_of("dgx-h100", TUTTI_ALLREDUCE, 1024 * 1024) +
                                     (tutti_ps)traffic.calls[TUTTI_TRAFFIC_LOSS] *
                                         price_of("dgx-h100", TUTTI_ALLREDUCE, 1024 * 2));
    tutti_parallel_answer_free(&a);
    close_world(&w);
}

/* Groups of a mesh, a torus and a tree of which no machine can be made pay for the whole way of
 * what they exchange, as a machine does that is like one of them: halves, and rows. */
TEST(groups_pay_for_the_whole_way_of_what_they_exchange)
{
    enum { TOKENS = 2048, HIDDEN = 1024, ACTIVE = 2, LAYERS = 4, EXPERT = 8 };
    static const struct {
        const char *whole, *part;
        uint32_t data;
    } cases[] = {
        {"mesh:16,bw=10GB/s,lat=1us", "mesh:8,bw=10GB/s,lat=1us", 16},
        {"torus:8x8,bw=10GB/s,lat=1us", "ring:n=8,bw=10GB/s,lat=1us", 64},
        {"fattree:arity=2,levels=4,over=2,bw=10GB/s,lat=1us",
         "fattree:arity=2,levels=3,over=2,bw=10GB/s,lat=1us", 16},
    };
    const struct tutti_model_params params = {.size = sizeof(params),
                                              .sequence = TOKENS,
                                              .vocabulary = 32000,
                                              .transformer = {.layers = LAYERS,
                                                              .hidden = HIDDEN,
                                                              .heads = 16,
                                                              .feed_forward = 4096,
                                                              .experts = 8,
                                                              .active_experts = ACTIVE}};
    const struct tutti_framework *megatron = NULL;
    struct tutti_framework f;
    struct tutti_err err = {""};

    CHECK_OK(tutti_framework_find("megatron", &megatron, &err), err);
    f = *megatron;
    f.wait_us = 0;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_parallel_answer a;
        struct world w;
        double each_ps, alone_ps;

        open_world(
            &w, cases[i].whole, "mlp",
            (struct tutti_parallel){.data = cases[i].data, .expert = EXPERT, .micro_batches = 1});
        tutti_model_free(w.model);
        CHECK_OK(tutti_model_new("llama", &params, &w.model, &err), err);
        CHECK_OK(tutti_accelerator_find("h100", &w.ask.use.accelerator, &err), err);
        w.ask.model = w.model;
        w.ask.use.framework = &f;
        a = predict(&w);
        each_ps = (double)a.split.expert_ps / (4 * LAYERS);
        alone_ps = (double)price_of(cases[i].part, TUTTI_ALLTOALL,
                                    (uint64_t)TOKENS * HIDDEN * ACTIVE / EXPERT);
        printf("%s: %.1f us, %s: %.1f us\n", cases[i].whole, each_ps / 1e6, cases[i].part,
               alone_ps / 1e6);
        CHECK(fabs(each_ps / alone_ps - 1) < 0.01);
        tutti_parallel_answer_free(&a);
        close_world(&w);
    }
}

static int story(const struct world *w, struct tutti_err *err)
{
    struct tutti_parallel_answer answer;
    const int status = tutti_parallel_predict(&w->ask, &answer, err);

    if (status == 0)
        tutti_parallel_answer_free(&answer);
    return status;
}

TEST(a_prediction_fails_cleanly_without_memory)
{
    struct tutti_err err;
    struct world w;

    open_world(&w, "dgx-h100:gpus=2", "mlp",
               (struct tutti_parallel){.data = 2, .sharding = TUTTI_SHARD_ZERO1});
    tutti_train_memory_free(w.ask.memory);
    w.ask.memory = NULL;
    ALLOC_FAIL_EACH(story(&w, &err), err);
    close_world(&w);
}

/* ---- what is refused ------------------------------------------------------------------------- */

TEST(what_does_not_fit_is_refused)
{
    struct tutti_parallel_answer a;
    struct tutti_err err = {""};
    struct world w;

    open_world(&w, "dgx-h100", "gpt2-355m", (struct tutti_parallel){.tensor = 2, .data = 2});
    CHECK_INT(tutti_parallel_predict(&w.ask, &a, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "are 4 ranks, 'dgx-h100' has 8") != NULL);
    w.parallel.data = 4;
    w.ask.post_validation = true;
    CHECK_INT(tutti_parallel_predict(&w.ask, &a, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "post-validation with pipeline '1f1b'") != NULL);
    w.ask.post_validation = false;
    w.ask.full_reduce = true;
    CHECK_INT(tutti_parallel_predict(&w.ask, &a, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "without ZeRO-1") != NULL);
    w.ask.full_reduce = false;
    w.ask.pace = 1e9;
    CHECK_INT(tutti_parallel_predict(&w.ask, &a, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "a pace of devices of '1e+09'") != NULL);
    w.ask.pace = 0;
    w.ask.gradient_bytes = 3;
    CHECK_INT(tutti_parallel_predict(&w.ask, &a, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "gradients of '3' bytes") != NULL);
    close_world(&w);
}

/* Sizes of models of one's own are anyone's; times that cannot be counted are refused. */
TEST(what_takes_for_ever_is_refused)
{
    static const char endless[] = "model endless\nsample row bytes 8\nlogits 1\n"
                                  "layer dense repeat 400 transformer\n"
                                  "operation dense matmul 2000000 x 100000 x 100000\n"
                                  "variable weight elements 40000000000000000 rows 100000\n"
                                  "saved whole 67108864 input 40000000000000\n";
    static const struct tutti_parallel cuts[] = {
        {.data = 16, .sharding = TUTTI_SHARD_ZERO3},
        {.data = 16, .sharding = TUTTI_SHARD_ZERO2},
        {.data = 4, .pipeline = 4},
        {.data = 2, .pipeline = 8, .virtual_stages = 5, .schedule = TUTTI_PIPELINE_INTERLEAVED}};
    struct tutti_parallel_answer a;
    struct tutti_err err = {""};
    struct world w;

    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        open_world(&w, "dgx-h100:nodes=2", "mlp", cuts[i]);
        tutti_model_free(w.model);
        CHECK_OK(tutti_model_parse("endless", endless, sizeof(endless) - 1, &w.model, &err), err);
        w.ask.model = w.model;
        w.ask.any_memory = true;
        w.parallel.micro_batches = 1000;
        CHECK_INT(tutti_parallel_predict(&w.ask, &a, &err), -TUTTI_EINVAL);
        printf("%s\n", err.text);
        CHECK(strstr(err.text, "days") != NULL || strstr(err.text, "hours") != NULL);
        close_world(&w);
    }
}
