/* Memory of each device of a pipeline under model parallelism: the published figures, and every
 * order of tasks against what its tasks say. */
#include "runtime/model.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/footprint.h"
#include "tests/test.h"

#define GIB 0x1p30

enum { STAGES_MAX = 256 };

/* ---- a model of equal layers ----------------------------------------------------------------- */

/* As Korthikanti et al. 2022 count them: a layer keeps s b h (10 + 24/t) + 5 a s^2 b/t bytes, and
 * has 12 h^2 + 13 h parameters, which are all divided. */
struct korthikanti {
    struct tutti_layer layer;
    struct tutti_variable variable;
    struct tutti_workload model;
};

static void korthikanti(struct korthikanti *k, uint64_t layers, uint64_t hidden, uint64_t heads,
                        uint64_t sequence)
{
    k->variable = (struct tutti_variable){.name = "w",
                                          .split = TUTTI_SPLIT_COLUMNS,
                                          .rows = 1,
                                          .elements = 12 * hidden * hidden + 13 * hidden};
    k->layer = (struct tutti_layer){.name = "layer",
                                    .repeat = (uint32_t)layers,
                                    .variables = &k->variable,
                                    .variable_count = 1,
                                    .is_transformer = true,
                                    .saved = {.whole_elements = 4 * sequence * hidden,
                                              .whole_bytes = 2 * sequence * hidden,
                                              .split_elements = 12 * sequence * hidden,
                                              .attention_elements = 2 * heads * sequence * sequence,
                                              .attention_bytes = heads * sequence * sequence,
                                              .input_elements = sequence * hidden}};
    k->model = (struct tutti_workload){.name = "korthikanti",
                                       .sequence = (uint32_t)sequence,
                                       .layers = &k->layer,
                                       .layer_count = 1};
}

static void stages_of(const struct tutti_footprint_params *params, struct tutti_footprint *ret)
{
    struct tutti_err err = {""};

    CHECK_OK(tutti_footprint_stages(params, ret, &err), err);
}

static uint64_t states(const struct tutti_footprint *f)
{
    return f->bytes[TUTTI_MEMORY_WEIGHTS] + f->bytes[TUTTI_MEMORY_GRADIENTS] +
           f->bytes[TUTTI_MEMORY_OPTIMIZER];
}

/* To a hundredth: some are rounded, some cut off, and states are printed without biases. */
static void check_near(double seen, double expected)
{
    if (seen < expected - 0.011 || seen > expected + 0.011)
        TEST_FAIL("%.4f is not %.4f", seen, expected);
}

/* What Megatron's authors print, GiB, of the first device: 22B, 175B, 530B, 1T; and the formulas
 * behind it to the byte. */
TEST(megatron_models_take_what_is_published)
{
    static const struct {
        uint64_t layers, hidden, heads;
        uint32_t pipeline, chunks, micro_batch, held; /* layers' worth: L (1 + (p-1)/(pv)) */
        double states, none, selective;
    } rows[] = {{48, 6144, 64, 1, 1, 4, 48, 45.56, 59.25, 9.5625},
                {96, 12288, 96, 8, 3, 1, 124, 45.56, 66.84, 12.35},
                {105, 20480, 128, 35, 3, 1, 139, 31.64, 114.02, 23.07},
                {128, 25600, 160, 64, 1, 1, 128, 32.96, 131.25, 26.56}};
    static struct tutti_footprint f[STAGES_MAX];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const uint64_t h = rows[i].hidden;
        const uint64_t sbh = 2048 * rows[i].micro_batch * h;
        const uint64_t matrices = 5 * rows[i].heads * 2048 * 2048 * rows[i].micro_batch;
        struct korthikanti k;
        struct tutti_parallel degrees = {.size = sizeof(degrees),
                                         .tensor = 8,
                                         .pipeline = rows[i].pipeline,
                                         .virtual_stages = rows[i].chunks,
                                         .schedule = rows[i].chunks > 1 ? TUTTI_PIPELINE_INTERLEAVED
                                                                        : TUTTI_PIPELINE_1F1B,
                                         .micro_batches = 64 * rows[i].pipeline,
                                         .micro_batch = rows[i].micro_batch};
        struct tutti_footprint_params params = {.size = sizeof(params),
                                                .model = &k.model,
                                                .precision = TUTTI_PRECISION_FP16,
                                                .optimizer = TUTTI_OPTIMIZER_ADAM,
                                                .gradient_bytes = 4,
                                                .parallel = &degrees};

        korthikanti(&k, rows[i].layers, rows[i].hidden, rows[i].heads, 2048);
        stages_of(&params, f);
        check_near((double)states(&f[0]) / GIB, rows[i].states);
        CHECK_INT(states(&f[0]),
                  18 * (rows[i].layers / rows[i].pipeline) * (12 * h * h + 13 * h) / 8);
        check_near((double)f[0].bytes[TUTTI_MEMORY_ACTIVATIONS] / GIB, rows[i].none);
        CHECK_INT(f[0].bytes[TUTTI_MEMORY_ACTIVATIONS],
                  rows[i].held * (10 * sbh + 24 * sbh / 8 + matrices / 8));
        degrees.sequence_parallel = true;
        params.recompute = TUTTI_RECOMPUTE_SELECTIVE;
        stages_of(&params, f);
        check_near((double)f[0].bytes[TUTTI_MEMORY_ACTIVATIONS] / GIB, rows[i].selective);
        CHECK_INT(f[0].bytes[TUTTI_MEMORY_ACTIVATIONS], rows[i].held * 34 * sbh / 8);
    }
}

/* ---- orders of tasks ------------------------------------------------------------------------- */

/* 34 s b h = 34 bytes a layer; what each device holds, in layers. */
static const char *held(struct tutti_parallel degrees, uint32_t layers)
{
    static char text[128];
    struct korthikanti k;
    struct tutti_footprint f[8];
    const struct tutti_footprint_params params = {.size = sizeof(params),
                                                  .model = &k.model,
                                                  .precision = TUTTI_PRECISION_BF16,
                                                  .fused_attention = true,
                                                  .parallel = &degrees};
    size_t used = 0;

    degrees.size = sizeof(degrees);
    korthikanti(&k, layers, 1, 1, 1);
    stages_of(&params, f);
    for (uint32_t i = 0; i < degrees.pipeline; i++) {
        CHECK_INT(f[i].bytes[TUTTI_MEMORY_ACTIVATIONS] % 34, 0);
        CHECK_INT(f[i].stage, i);
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u", i > 0 ? " " : "",
                                 (unsigned)(f[i].bytes[TUTTI_MEMORY_ACTIVATIONS] / 34));
    }
    return text;
}

/* Eight layers on four devices. */
TEST(each_order_holds_what_is_under_way)
{
    struct tutti_parallel p = {.pipeline = 4, .micro_batches = 16};

    p.schedule = TUTTI_PIPELINE_GPIPE;
    CHECK_TEXT(held(p, 8), "32 32 32 32");
    p.schedule = TUTTI_PIPELINE_1F1B;
    CHECK_TEXT(held(p, 8), "8 6 4 2");
    p.stage_layers = (const uint32_t[]){3, 3, 1, 1};
    CHECK_TEXT(held(p, 8), "12 9 2 1");
    p.stage_layers = NULL;
    p.schedule = TUTTI_PIPELINE_ZB_H1;
    CHECK_TEXT(held(p, 8), "8 8 8 8");
    p.schedule = TUTTI_PIPELINE_ZB_H2; /* 2p - 1 micro-batches */
    CHECK_TEXT(held(p, 8), "14 14 14 14");
    p.schedule = TUTTI_PIPELINE_ZBV; /* chunks of one layer: at most those of 1F1B's first device */
    CHECK_TEXT(held(p, 8), "8 8 8 8");
    p.schedule = TUTTI_PIPELINE_INTERLEAVED; /* 2 (p - 1 - d) + (v - 1) p + 1 chunks */
    p.virtual_stages = 2;
    CHECK_TEXT(held(p, 8), "11 9 7 5");
    p.pipeline = 1;
    p.virtual_stages = 1;
    CHECK_TEXT(held(p, 8), "8"); /* one micro-batch after another */
}

/* Chunks that differ, and every micro-batch: what is saved is played through with all tasks. */
TEST(unequal_chunks_are_played_through)
{
    const uint64_t count = test_count(2000, 150);
    static struct tutti_pipeline_task tasks[3 * 96 * 4];
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (uint64_t n = 0; n < count; n++) {
        const enum tutti_pipeline kind =
            (enum tutti_pipeline)tutti_random_below(&random, TUTTI_PIPELINE_COUNT);
        const uint32_t p = 2 + (uint32_t)tutti_random_below(&random, 5);
        const uint32_t v = kind == TUTTI_PIPELINE_INTERLEAVED
                               ? 2 + (uint32_t)tutti_random_below(&random, 3)
                           : kind == TUTTI_PIPELINE_ZBV ? 2
                                                        : 1;
        uint32_t layers[24];
        uint32_t sum = 0;
        struct korthikanti k;
        struct tutti_footprint f[8];
        struct tutti_parallel degrees = {.size = sizeof(degrees),
                                         .pipeline = p,
                                         .virtual_stages = v,
                                         .schedule = kind,
                                         .stage_layers = layers,
                                         .micro_batches =
                                             p * (2 + (uint32_t)tutti_random_below(&random, 14))};
        const struct tutti_footprint_params params = {.size = sizeof(params),
                                                      .model = &k.model,
                                                      .precision = TUTTI_PRECISION_BF16,
                                                      .fused_attention = true,
                                                      .parallel = &degrees};
        const struct tutti_pipeline_params pipeline = tutti_parallel_pipeline(&degrees);

        for (uint32_t i = 0; i < p * v; i++)
            sum += layers[i] = 1 + (uint32_t)tutti_random_below(&random, 5);
        korthikanti(&k, sum, 1, 1, 1);
        stages_of(&params, f);
        for (uint32_t d = 0; d < p; d++) {
            uint64_t here = 0;
            uint64_t most = 0;

            tutti_pipeline_tasks(&pipeline, d, tasks);
            for (uint32_t i = 0; i < tutti_pipeline_task_count(&pipeline); i++) {
                const uint32_t stage = tutti_pipeline_stage(&pipeline, d, tasks[i].chunk);

                if (tasks[i].pass == TUTTI_PASS_FORWARD)
                    here += layers[stage];
                else if (tasks[i].pass == TUTTI_PASS_WEIGHTS || !tutti_pipeline_splits(&pipeline))
                    here -= layers[stage];
                most = here > most ? here : most;
            }
            if (f[d].bytes[TUTTI_MEMORY_ACTIVATIONS] != 34 * most)
                TEST_FAIL("%s, %u devices, %u micro-batches, device %u holds %llu, not %llu",
                          tutti_pipeline_name(kind), p, degrees.micro_batches, d,
                          (unsigned long long)f[d].bytes[TUTTI_MEMORY_ACTIVATIONS] / 34,
                          (unsigned long long)most);
        }
    }
}

/* ---- models that have ends and experts ------------------------------------------------------- */

static struct tutti_workload *model_of(const char *name)
{
    struct tutti_workload *model = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_model_new(name, NULL, &model, &err), err);
    if (model == NULL)
        exit(1);
    return model;
}

/* The embedding comes first, the head last; of a V both are on the first device. */
TEST(ends_are_where_their_stages_are)
{
    struct tutti_workload *model = model_of("gpt2");
    struct tutti_parallel degrees = {.size = sizeof(degrees),
                                     .pipeline = 2,
                                     .schedule = TUTTI_PIPELINE_1F1B,
                                     .micro_batches = 4};
    const struct tutti_footprint_params params = {
        .size = sizeof(params), .model = model, .parallel = &degrees};
    const uint64_t embedding = UINT64_C(50257) * 768;
    struct tutti_footprint f[2];

    stages_of(&params, f);
    CHECK_INT(f[0].bytes[TUTTI_MEMORY_LOGITS], 0);
    CHECK_INT(f[0].bytes[TUTTI_MEMORY_INPUT], 2 * 8 * 1024);
    CHECK_INT(f[1].bytes[TUTTI_MEMORY_LOGITS], 12 * UINT64_C(50257) * 1024);
    CHECK_INT(f[1].bytes[TUTTI_MEMORY_INPUT], 0);
    CHECK_INT(f[0].bytes[TUTTI_MEMORY_WEIGHTS] + f[1].bytes[TUTTI_MEMORY_WEIGHTS],
              4 * (UINT64_C(124439808) + embedding)); /* which both devices have */
    degrees.schedule = TUTTI_PIPELINE_ZBV;
    stages_of(&params, f);
    CHECK_INT(f[0].bytes[TUTTI_MEMORY_LOGITS], 12 * UINT64_C(50257) * 1024);
    CHECK_INT(f[1].bytes[TUTTI_MEMORY_LOGITS], 0);
    CHECK_INT(f[0].bytes[TUTTI_MEMORY_WEIGHTS] + f[1].bytes[TUTTI_MEMORY_WEIGHTS],
              4 * UINT64_C(124439808));
    tutti_model_free(model);
}

/* GPT-2 on 14 stages: 50257 x 768 words and 1024 x 768 positions; 12 layers of 12 h^2 + 13 h; the
 * norm and the tied head. The same by degrees alone, and of 7 devices with 2 chunks. */
TEST(embedding_and_head_lie_by_themselves)
{
    struct tutti_workload *model = model_of("gpt2");
    const uint64_t words = UINT64_C(50257) * 768;
    const uint64_t layer = UINT64_C(12) * 768 * 768 + 13 * 768;
    const uint64_t elements[14] = {words + 1024 * 768,
                                   layer,
                                   layer,
                                   layer,
                                   layer,
                                   layer,
                                   layer,
                                   layer,
                                   layer,
                                   layer,
                                   layer,
                                   layer,
                                   layer,
                                   2 * 768 + words};
    struct tutti_parallel degrees = {.size = sizeof(degrees),
                                     .pipeline = 14,
                                     .schedule = TUTTI_PIPELINE_1F1B,
                                     .micro_batches = 14};
    const struct tutti_footprint_params params = {
        .size = sizeof(params), .model = model, .parallel = &degrees};
    struct tutti_footprint_params alone = {.size = sizeof(alone),
                                           .model = model,
                                           .micro_batch = 1,
                                           .micro_batches = 14,
                                           .pipeline = 14,
                                           .one_stage = true};
    struct tutti_footprint f[14];

    stages_of(&params, f);
    for (alone.stage = 0; alone.stage < 14; alone.stage++) {
        struct tutti_footprint once;
        struct tutti_err err;

        CHECK_INT(f[alone.stage].bytes[TUTTI_MEMORY_WEIGHTS], 4 * elements[alone.stage]);
        CHECK_OK(tutti_footprint_of(&alone, &once, &err), err);
        CHECK_INT(once.bytes[TUTTI_MEMORY_WEIGHTS], 4 * elements[alone.stage]);
        CHECK_INT(once.bytes[TUTTI_MEMORY_ACTIVATIONS],
                  f[alone.stage].bytes[TUTTI_MEMORY_ACTIVATIONS]);
    }
    CHECK_INT(f[13].bytes[TUTTI_MEMORY_LOGITS], 12 * UINT64_C(50257) * 1024);
    degrees.pipeline = 7;
    degrees.virtual_stages = 2;
    degrees.schedule = TUTTI_PIPELINE_INTERLEAVED;
    stages_of(&params, f);
    for (uint32_t d = 0; d < 7; d++)
        CHECK_INT(f[d].bytes[TUTTI_MEMORY_WEIGHTS], 4 * (elements[d] + elements[d + 7]));
    tutti_model_free(model);
}

/* FSDP with a pipeline: all weights of a device stay from the first micro-batch to the last, and
 * gradients are whole until then. */
TEST(weights_of_a_pipeline_are_gathered_for_a_step)
{
    struct tutti_workload *model = model_of("llama3-8b");
    const struct tutti_parallel degrees = {.size = sizeof(degrees),
                                           .data = 8,
                                           .pipeline = 2,
                                           .schedule = TUTTI_PIPELINE_1F1B,
                                           .micro_batches = 8,
                                           .sharding = TUTTI_SHARD_ZERO3,
                                           .keep_weights = true};
    const struct tutti_footprint_params params = {.size = sizeof(params),
                                                  .model = model,
                                                  .precision = TUTTI_PRECISION_BF16,
                                                  .optimizer = TUTTI_OPTIMIZER_ADAM,
                                                  .parallel = &degrees};
    struct tutti_footprint f[2];
    struct tutti_parallel_share share;

    stages_of(&params, f);
    tutti_parallel_share_of(&degrees, model, 0, &share);
    CHECK_INT(f[0].bytes[TUTTI_MEMORY_GATHERED], (2 + 2) * share.dense);
    CHECK_INT(states(&f[0]), 16 * share.dense / 8);
    tutti_model_free(model);
}

/* Mixtral on one device a replica of a layer: 2 sbh x 2 copies dispatched, gathered over two ranks
 * of tensor parallelism; an expert with twice the mean. */
TEST(experts_that_are_busy_keep_more)
{
    struct tutti_workload *model = model_of("mixtral-8x7b");
    struct tutti_parallel degrees = {.size = sizeof(degrees), .expert = 8, .data = 8};
    const struct tutti_footprint_params params = {.size = sizeof(params),
                                                  .model = model,
                                                  .precision = TUTTI_PRECISION_BF16,
                                                  .fused_attention = true,
                                                  .parallel = &degrees};
    const uint64_t visits = UINT64_C(2) * 4096 * 2 * 32; /* bytes of 2 a token, 32 layers */
    struct tutti_footprint f;
    uint64_t before;

    stages_of(&params, &f);
    before = f.bytes[TUTTI_MEMORY_ACTIVATIONS];
    degrees.imbalance = 2; /* input, and gate, up and their product, once more */
    stages_of(&params, &f);
    CHECK_INT(f.bytes[TUTTI_MEMORY_ACTIVATIONS] - before, visits * (4096 + 3 * 14336));
    degrees.imbalance = 1;
    degrees.tensor = 2;
    degrees.sequence_parallel = true; /* half of all but of what was dispatched */
    stages_of(&params, &f);
    CHECK_INT(f.bytes[TUTTI_MEMORY_ACTIVATIONS], before / 2 + visits * 4096 / 2);
    tutti_model_free(model);
}

/* Parts of a sequence have all weights each: they reduce gradients, and share states, as replicas
 * do. */
TEST(context_makes_replicas)
{
    struct tutti_workload *model = model_of("llama3-8b");
    const struct tutti_parallel degrees = {
        .size = sizeof(degrees), .context = 2, .sharding = TUTTI_SHARD_ZERO1};
    struct tutti_footprint_params params = {.size = sizeof(params),
                                            .model = model,
                                            .precision = TUTTI_PRECISION_BF16,
                                            .optimizer = TUTTI_OPTIMIZER_ADAM,
                                            .parallel = &degrees};
    struct tutti_footprint f;
    struct tutti_err err = {""};

    CHECK_OK(tutti_memory_framework_find("deepspeed", &params.framework, &err), err);
    stages_of(&params, &f);
    CHECK_INT(f.bytes[TUTTI_MEMORY_WEIGHTS], 2 * UINT64_C(8030261248));
    CHECK_INT(f.bytes[TUTTI_MEMORY_OPTIMIZER], 12 * UINT64_C(8030261248) / 2);
    CHECK_INT(f.bytes[TUTTI_MEMORY_BUCKETS], UINT64_C(500000000) * (2 + 2));
    tutti_model_free(model);
}

TEST(what_does_not_fit_says_which_degrees_would)
{
    const struct tutti_accelerator *h100 = NULL;
    struct tutti_workload *model = model_of("llama3-8b");
    struct tutti_parallel degrees = {.size = sizeof(degrees),
                                     .data = 4,
                                     .pipeline = 2,
                                     .schedule = TUTTI_PIPELINE_1F1B,
                                     .micro_batches = 8,
                                     .micro_batch = 1};
    struct tutti_footprint_params params = {.size = sizeof(params),
                                            .model = model,
                                            .precision = TUTTI_PRECISION_BF16,
                                            .optimizer = TUTTI_OPTIMIZER_ADAM,
                                            .gradient_bytes = 4,
                                            .fused_attention = true,
                                            .parallel = &degrees};
    struct tutti_err err = {""};

    CHECK_OK(tutti_accelerator_find("h100", &h100, &err), err);
    params.accelerator = h100;
    CHECK_INT(tutti_footprint_check(&params, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "does not fit: ") != NULL);
    CHECK(strstr(err.text, "16 devices by tensor parallelism of 2 (") != NULL);
    CHECK(strstr(err.text, "ZeRO-1 (") != NULL);
    CHECK(strstr(err.text, "ZeRO-2") == NULL); /* which does not go with pipelines */
    degrees.sharding = TUTTI_SHARD_ZERO1;
    CHECK_OK(tutti_footprint_check(&params, &err), err);
    degrees.sharding = TUTTI_SHARD_ZERO2;
    CHECK_INT(tutti_footprint_check(&params, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "ZeRO-2 with pipeline 2") != NULL);
    degrees.sharding = TUTTI_SHARD_ZERO1;
    params.one_stage = true;
    params.stage = 2;
    CHECK_INT(tutti_footprint_check(&params, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "stage 2 of 2");
    tutti_model_free(model);
}
