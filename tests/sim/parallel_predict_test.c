/* Steps of models that are cut: pipelines as published at no latency, parts that add up, what must
 * never be slower, and agreement with steps that divide data alone. */
#include "sim/parallel.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "runtime/strategy.h"
#include "tests/alloc_fail.h"
#include "tests/test.h"
#include "topo/topo.h"

struct world {
    struct tutti_topo *topo;
    struct tutti_workload *model;
    struct tutti_parallel parallel;
    struct tutti_parallel_ask ask;
};

static void open_world(struct world *w, const char *spec, const char *model,
                       struct tutti_parallel parallel)
{
    struct tutti_err err;

    *w = (struct world){.parallel = parallel};
    w->parallel.size = sizeof(w->parallel);
    CHECK_OK(tutti_topo_from_spec(spec, &w->topo, &err), err);
    CHECK_OK(tutti_model_new(model, NULL, &w->model, &err), err);
    w->ask = (struct tutti_parallel_ask){
        .size = sizeof(w->ask),
        .topo = w->topo,
        .model = w->model,
        .parallel = &w->parallel,
        .use = {.fused_attention = true, .precision = TUTTI_PRECISION_BF16},
        .optimizer = TUTTI_OPTIMIZER_ADAM,
        .prefetch = 1};
}

static void close_world(struct world *w)
{
    tutti_model_free(w->model);
    tutti_topo_free(w->topo);
}

static tutti_ps sum_of(const struct tutti_parallel_split *s)
{
    return s->compute_ps + s->host_ps + s->tensor_ps + s->context_ps + s->expert_ps +
           s->pipeline_ps + s->bubble_ps + s->data_ps + s->gather_ps + s->optimizer_ps +
           s->input_ps;
}

static struct tutti_parallel_answer predict(const struct world *w)
{
    struct tutti_parallel_answer answer = {.step_ps = -1};
    struct tutti_err err = {""};

    CHECK_OK(tutti_parallel_predict(&w->ask, &answer, &err), err);
    CHECK_INT(sum_of(&answer.split), answer.step_ps);
    return answer;
}

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
                 {"dgx-a100:nodes=4", "llama3.2-3b", 1},
                 {"dgx-1v:nodes=2", "gpt2-774m", 4}};
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
    w.ask.gradient_bytes = 3;
    CHECK_INT(tutti_parallel_predict(&w.ask, &a, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "gradients of '3' bytes") != NULL);
    close_world(&w);
}
