/* Tests of the memory of a training step: the exact parts against published figures, what does not
 * fit and what would. */
#include "runtime/model.h"
#include "runtime/status.h"
#include "sim/footprint.h"
#include "tests/test.h"

#define GIB 0x1p30

static struct tutti_footprint footprint_of(const struct tutti_footprint_params *params)
{
    struct tutti_footprint footprint = {.stage = 0};
    struct tutti_err err = {""};

    CHECK_OK(tutti_footprint_of(params, &footprint, &err), err);
    return footprint;
}

static const struct tutti_framework_memory *framework(const char *name)
{
    const struct tutti_framework_memory *found = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_memory_framework_find(name, &found, &err), err);
    return found;
}

static const struct tutti_accelerator *device(const char *name)
{
    const struct tutti_accelerator *found = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_accelerator_find(name, &found, &err), err);
    return found;
}

/* A model of one variable and nothing else. */
static struct tutti_workload of_parameters(struct tutti_layer *layer,
                                           struct tutti_variable *variable, uint64_t count)
{
    *variable = (struct tutti_variable){.name = "w", .rows = 1, .elements = count};
    *layer = (struct tutti_layer){
        .name = "layer", .repeat = 1, .variables = variable, .variable_count = 1};
    return (struct tutti_workload){.name = "parameters", .layers = layer, .layer_count = 1};
}

static uint64_t states(const struct tutti_footprint *f)
{
    return f->bytes[TUTTI_MEMORY_WEIGHTS] + f->bytes[TUTTI_MEMORY_GRADIENTS] +
           f->bytes[TUTTI_MEMORY_OPTIMIZER];
}

TEST(states_of_a_parameter_by_precision_optimizer_and_framework)
{
    static const struct {
        const char *framework;
        enum tutti_precision precision;
        enum tutti_optimizer optimizer;
        uint32_t gradient_bytes;
        uint64_t bytes;
    } rows[] = {
        {"generic", TUTTI_PRECISION_FP32, TUTTI_OPTIMIZER_SGD, 0, 8},
        {"generic", TUTTI_PRECISION_FP32, TUTTI_OPTIMIZER_MOMENTUM, 0, 12},
        {"generic", TUTTI_PRECISION_FP32, TUTTI_OPTIMIZER_ADAM, 0, 16},
        {"pytorch", TUTTI_PRECISION_TF32, TUTTI_OPTIMIZER_ADAM, 0, 16},
        {"generic", TUTTI_PRECISION_FP16, TUTTI_OPTIMIZER_ADAM, 0, 16},
        {"generic", TUTTI_PRECISION_BF16, TUTTI_OPTIMIZER_ADAM, 4, 18},
        {"deepspeed", TUTTI_PRECISION_FP16, TUTTI_OPTIMIZER_ADAM, 0, 16},
        {"megatron", TUTTI_PRECISION_BF16, TUTTI_OPTIMIZER_ADAM, 0, 18},
        {"nanotron", TUTTI_PRECISION_BF16, TUTTI_OPTIMIZER_ADAM, 0, 18},
        {"pytorch", TUTTI_PRECISION_FP16, TUTTI_OPTIMIZER_ADAM, 0, 18}, /* 16, and the copies */
        {"tensorflow", TUTTI_PRECISION_FP16, TUTTI_OPTIMIZER_MOMENTUM, 0, 14},
    };
    struct tutti_layer layer;
    struct tutti_variable variable;
    struct tutti_workload model = of_parameters(&layer, &variable, 1000);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct tutti_footprint_params params = {.size = sizeof(params),
                                                      .model = &model,
                                                      .micro_batch = 1,
                                                      .framework = framework(rows[i].framework),
                                                      .precision = rows[i].precision,
                                                      .optimizer = rows[i].optimizer,
                                                      .gradient_bytes = rows[i].gradient_bytes};
        const struct tutti_footprint f = footprint_of(&params);

        CHECK_INT(states(&f), 1000 * rows[i].bytes);
        CHECK_INT(f.bytes[TUTTI_MEMORY_BUCKETS], 0); /* one device reduces nothing */
    }
}

/* Rajbhandari et al. 2020, figure 1: 7.5e9 parameters on 64 devices: 120, 31.4, 16.6, 1.9 GB. */
TEST(zero_divides_states_as_its_paper_says)
{
    static const double gigabytes[] = {120, 31.40625, 16.640625, 1.875};
    struct tutti_layer layer;
    struct tutti_variable variable;
    struct tutti_workload model = of_parameters(&layer, &variable, UINT64_C(7500000000));

    for (int stage = TUTTI_SHARD_NONE; stage <= TUTTI_SHARD_ZERO3; stage++) {
        const struct tutti_footprint_params params = {.size = sizeof(params),
                                                      .model = &model,
                                                      .micro_batch = 1,
                                                      .precision = TUTTI_PRECISION_FP16,
                                                      .optimizer = TUTTI_OPTIMIZER_ADAM,
                                                      .data = 64,
                                                      .sharding = (enum tutti_sharding)stage};
        struct tutti_footprint_params hybrid = params;
        struct tutti_footprint f = footprint_of(&params);

        CHECK_INT(states(&f), (uint64_t)(gigabytes[stage] * 1e9));
        hybrid.shard_ranks = 8; /* inside a host, replicated between */
        f = footprint_of(&hybrid);
        CHECK_INT(states(&f), stage == TUTTI_SHARD_NONE    ? UINT64_C(120000000000)
                              : stage == TUTTI_SHARD_ZERO1 ? UINT64_C(41250000000)
                              : stage == TUTTI_SHARD_ZERO2 ? UINT64_C(28125000000)
                                                           : UINT64_C(15000000000));
    }
}

/* The equal layers of a transformer as Korthikanti et al. 2022 count them, no more: a layer keeps
 * s b h (10 + 24/t) + 5 a s^2 b/t bytes, and has 12 h^2 + 13 h parameters. */
struct korthikanti {
    struct tutti_layer layer;
    struct tutti_variable variable;
    struct tutti_workload model;
};

static void korthikanti(struct korthikanti *k, uint64_t layers, uint64_t hidden, uint64_t heads,
                        uint64_t sequence)
{
    k->model = of_parameters(&k->layer, &k->variable, 12 * hidden * hidden + 13 * hidden);
    k->variable.split = TUTTI_SPLIT_COLUMNS;
    k->layer.repeat = (uint32_t)layers;
    k->layer.is_transformer = true;
    k->layer.saved = (struct tutti_saved){.whole_elements = 4 * sequence * hidden,
                                          .whole_bytes = 2 * sequence * hidden,
                                          .split_elements = 12 * sequence * hidden,
                                          .attention_elements = 2 * heads * sequence * sequence,
                                          .attention_bytes = heads * sequence * sequence,
                                          .input_elements = sequence * hidden};
}

/* To a hundredth: some are rounded, some cut off, and states are printed without biases. */
static void check_near(double seen, double expected)
{
    if (seen < expected - 0.011 || seen > expected + 0.011)
        TEST_FAIL("%.4f is not %.4f", seen, expected);
}

/* What Megatron's authors print, GiB: states of a device; activations with nothing saved again, and
 * with sequence parallelism and selective recomputation. */
TEST(megatron_models_take_what_is_published)
{
    static const struct {
        uint64_t layers, hidden, heads;
        uint32_t pipeline, chunks;
        uint64_t micro_batch;
        double states, none, selective;
    } rows[] = {{48, 6144, 64, 1, 1, 4, 45.56, 59.25, 9.5625},
                {96, 12288, 96, 8, 3, 1, 45.56, 66.84, 12.35},
                {105, 20480, 128, 35, 3, 1, 31.64, 114.02, 23.07},
                {128, 25600, 160, 64, 1, 1, 32.96, 131.25, 26.56}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct korthikanti k;
        struct tutti_footprint f;
        struct tutti_footprint_params params = {.size = sizeof(params),
                                                .framework = framework("Megatron-LM"),
                                                .precision = TUTTI_PRECISION_FP16,
                                                .optimizer = TUTTI_OPTIMIZER_ADAM,
                                                .micro_batch = rows[i].micro_batch,
                                                .micro_batches = 1000,
                                                .tensor = 8,
                                                .pipeline = rows[i].pipeline,
                                                .virtual_stages = rows[i].chunks};

        korthikanti(&k, rows[i].layers, rows[i].hidden, rows[i].heads, 2048);
        params.model = &k.model;
        f = footprint_of(&params);
        check_near((double)states(&f) / GIB, rows[i].states);
        check_near((double)f.bytes[TUTTI_MEMORY_ACTIVATIONS] / GIB, rows[i].none);
        CHECK_INT(f.stage, 0);
        params.sequence_parallel = true;
        params.recompute = TUTTI_RECOMPUTE_SELECTIVE;
        f = footprint_of(&params);
        check_near((double)f.bytes[TUTTI_MEMORY_ACTIVATIONS] / GIB, rows[i].selective);
    }
}

/* Llama 3.1 8B, whole attention matrices, one sequence (the ultra-scale playbook's chart):
 * L s b h (34 + 5 a s/h) = 9.254, 97.0, 1348 GiB. */
TEST(attention_matrices_grow_with_the_square_of_the_sequence)
{
    static const struct {
        uint64_t sequence;
        double gibi;
    } rows[] = {{1024, 9.25}, {4096, 97.0}, {16384, 1348.0}};
    struct korthikanti k;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tutti_footprint f;
        struct tutti_footprint_params params = {
            .size = sizeof(params), .precision = TUTTI_PRECISION_BF16, .micro_batch = 1};
        double seen;

        korthikanti(&k, 32, 4096, 32, rows[i].sequence);
        params.model = &k.model;
        f = footprint_of(&params);
        seen = (double)f.bytes[TUTTI_MEMORY_ACTIVATIONS] / GIB;
        CHECK(seen > rows[i].gibi * 0.999);
        CHECK(seen < rows[i].gibi * 1.001);
        params.fused_attention = true;
        f = footprint_of(&params);
        CHECK_INT(f.bytes[TUTTI_MEMORY_ACTIVATIONS], 34 * 32 * 4096 * rows[i].sequence);
        /* In full: the inputs, and one layer again while it is in work. */
        params.recompute = TUTTI_RECOMPUTE_FULL;
        f = footprint_of(&params);
        CHECK_INT(f.bytes[TUTTI_MEMORY_ACTIVATIONS], 2 * 32 * 4096 * rows[i].sequence);
        CHECK_INT(f.bytes[TUTTI_MEMORY_RECOMPUTED], 34 * 4096 * rows[i].sequence);
    }
}

/* Four stages of two layers each; 34 s b h = 34 bytes. */
TEST(stages_hold_what_is_under_way)
{
    struct korthikanti k;
    struct tutti_footprint_params params = {.size = sizeof(params),
                                            .precision = TUTTI_PRECISION_BF16,
                                            .fused_attention = true,
                                            .micro_batch = 1,
                                            .micro_batches = 100,
                                            .pipeline = 4,
                                            .one_stage = true};

    korthikanti(&k, 8, 1, 1, 1);
    params.model = &k.model;
    for (uint32_t stage = 0; stage < 4; stage++) {
        struct tutti_footprint f;

        params.stage = stage;
        f = footprint_of(&params);
        CHECK_INT(f.bytes[TUTTI_MEMORY_ACTIVATIONS], 34u * 2 * (4 - stage));
        CHECK_INT(f.bytes[TUTTI_MEMORY_WEIGHTS], 2u * 2 * 25);
        CHECK_INT(f.stage, stage);
    }
    params.stage = 0;
    params.micro_batches = 3; /* fewer than stages */
    CHECK_INT(footprint_of(&params).bytes[TUTTI_MEMORY_ACTIVATIONS], 34 * 2 * 3);
    params.micro_batches = 100;
    params.held = 100; /* GPipe */
    CHECK_INT(footprint_of(&params).bytes[TUTTI_MEMORY_ACTIVATIONS], 34 * 2 * 100);
    params.held = 0;
    params.stage_layers = (const uint32_t[]){3, 3, 2, 0};
    CHECK_INT(footprint_of(&params).bytes[TUTTI_MEMORY_ACTIVATIONS], 34 * 3 * 4);
    params.stage = 2;
    CHECK_INT(footprint_of(&params).bytes[TUTTI_MEMORY_ACTIVATIONS], 34 * 2 * 2);
    params.stage = 0;
    params.stage_layers = NULL;
    params.virtual_stages = 2; /* chunks of one layer: 2 x 3 + 4 + 1 of them */
    CHECK_INT(footprint_of(&params).bytes[TUTTI_MEMORY_ACTIVATIONS], 34 * 11);
    CHECK_INT(footprint_of(&params).bytes[TUTTI_MEMORY_WEIGHTS], 2 * 2 * 25);
}

static struct tutti_workload *model_of(const char *name)
{
    struct tutti_workload *model = NULL;
    const struct tutti_model_params params = {.size = sizeof(params)};
    struct tutti_err err = {""};

    CHECK_OK(tutti_model_new(name, &params, &model, &err), err);
    if (model == NULL)
        exit(1);
    return model;
}

/* GPT-2: one set of weights of V h for embedding and head, which two stages both hold. */
TEST(tied_weights_are_held_twice_by_a_pipeline)
{
    struct tutti_workload *model = model_of("gpt2");
    struct tutti_footprint_params params = {
        .size = sizeof(params), .model = model, .micro_batch = 1, .one_stage = true};
    uint64_t bytes = 0;

    CHECK_INT(footprint_of(&params).bytes[TUTTI_MEMORY_WEIGHTS], 4 * UINT64_C(124439808));
    params.pipeline = 2;
    for (params.stage = 0; params.stage < 2; params.stage++)
        bytes += footprint_of(&params).bytes[TUTTI_MEMORY_WEIGHTS];
    CHECK_INT(bytes, 4 * (UINT64_C(124439808) + 50257 * 768));
    params.stage = 0;
    CHECK_INT(footprint_of(&params).bytes[TUTTI_MEMORY_LOGITS], 0);
    params.stage = 1; /* fp32: logits, softmax, gradient */
    CHECK_INT(footprint_of(&params).bytes[TUTTI_MEMORY_LOGITS], 12 * UINT64_C(50257) * 1024);
    tutti_model_free(model);
}

/* Mixtral: eight ways of expert parallelism leave one expert a layer on each of eight replicas, its
 * states then are on no other. */
TEST(experts_are_divided_and_their_replicas_fewer)
{
    struct tutti_workload *model = model_of("mixtral-8x7b");
    const uint64_t experts = UINT64_C(3) * 8 * 32 * 4096 * 14336;
    const uint64_t rest = UINT64_C(46702792704) - experts;
    struct tutti_footprint_params params = {.size = sizeof(params),
                                            .model = model,
                                            .precision = TUTTI_PRECISION_BF16,
                                            .optimizer = TUTTI_OPTIMIZER_ADAM,
                                            .micro_batch = 1,
                                            .data = 8,
                                            .expert = 8,
                                            .sharding = TUTTI_SHARD_ZERO1};
    const struct tutti_footprint f = footprint_of(&params);

    CHECK_INT(f.bytes[TUTTI_MEMORY_WEIGHTS], 2 * (rest + experts / 8));
    CHECK_INT(f.bytes[TUTTI_MEMORY_OPTIMIZER], 12 * (rest / 8 + experts / 8));
    tutti_model_free(model);
}

TEST(terms_add_up)
{
    struct tutti_workload *model = model_of("resnet50");
    const struct tutti_footprint_params params = {.size = sizeof(params),
                                                  .model = model,
                                                  .accelerator = device("v100"),
                                                  .framework = framework("pytorch"),
                                                  .optimizer = TUTTI_OPTIMIZER_MOMENTUM,
                                                  .micro_batch = 64,
                                                  .data = 8};
    const struct tutti_footprint f = footprint_of(&params);
    uint64_t sum = 0;

    for (int t = 0; t < TUTTI_MEMORY_CONTEXT; t++)
        sum += f.bytes[t];
    CHECK_INT(sum, f.allocated_bytes);
    for (int t = TUTTI_MEMORY_CONTEXT; t < TUTTI_MEMORY_TERM_COUNT; t++)
        sum += f.bytes[t];
    CHECK_INT(sum, f.total_bytes);
    CHECK_INT(states(&f), 12 * UINT64_C(25557032) + 4 * 53120);
    CHECK_INT(f.bytes[TUTTI_MEMORY_BUCKETS], 4 * UINT64_C(25557032)); /* copies, of DDP */
    CHECK_INT(f.bytes[TUTTI_MEMORY_CONTEXT], UINT64_C(1271) << 20);
    CHECK_INT(f.bytes[TUTTI_MEMORY_COLLECTIVES], UINT64_C(4) * 16 * 2 << 20);
    CHECK(f.bytes[TUTTI_MEMORY_ACTIVATIONS] > UINT64_C(64) * 80000000);
    CHECK(f.fits);
    tutti_model_free(model);
}

/* Batches that others ran (DLPerf, NVIDIA's examples, PaddlePaddle's tables, TensorFlow's
 * benchmarks of 2017): all must fit. `no`: no table has more for this device, and twice as much
 * does not. */
TEST(published_batches_fit)
{
    static const struct {
        const char *device;
        const char *framework;
        const char *model;
        enum tutti_precision precision;
        enum tutti_optimizer optimizer;
        uint32_t sequence;
        uint64_t micro_batch;
        bool no;
    } rows[] = {
#define FP16             TUTTI_PRECISION_FP16, TUTTI_OPTIMIZER_MOMENTUM, 0
#define FP32             TUTTI_PRECISION_FP32, TUTTI_OPTIMIZER_MOMENTUM, 0
#define BERT16(sequence) TUTTI_PRECISION_FP16, TUTTI_OPTIMIZER_ADAM, sequence
#define BERT32(sequence) TUTTI_PRECISION_FP32, TUTTI_OPTIMIZER_ADAM, sequence
        {"v100", "tensorflow", "resnet50", FP16, 256, true},
        {"v100", "tensorflow", "resnet50", FP32, 128, true},
        {"v100", "pytorch", "resnet50", FP16, 256, true},
        {"v100", "pytorch", "resnet50", FP32, 128, true},
        {"v100-32g", "pytorch", "resnet50", FP32, 256, true},
        {"a100-40g", "horovod", "resnet50", FP32, 256, true},
        {"k80", "tensorflow", "alexnet", FP32, 512, false},
        {"p100", "tensorflow", "alexnet", FP32, 512, false},
        {"k80", "tensorflow", "inception3", FP32, 64, false},
        {"k80", "tensorflow", "resnet152", FP32, 32, false},
        {"p100", "tensorflow", "resnet152", FP32, 64, true},
        {"k80", "tensorflow", "resnet50", FP32, 64, false},
        {"k80", "tensorflow", "vgg16", FP32, 32, false},
        {"p100", "tensorflow", "vgg16", FP32, 64, false},
        {"v100", "pytorch", "bert-base", BERT16(128), 96, true},
        {"v100", "pytorch", "bert-base", BERT32(128), 48, true},
        {"v100", "tensorflow", "bert-base", BERT16(128), 96, false},
        {"v100", "tensorflow", "bert-base", BERT32(128), 48, false},
        {"v100-32g", "pytorch", "bert-base", BERT32(128), 96, false},
        {"v100", "horovod", "bert-large", BERT32(384), 6, true},
        {"v100", "horovod", "bert-large", BERT16(384), 6, false},
        {"v100-32g", "horovod", "bert-large", BERT32(384), 12, true},
        {"a100", "horovod", "bert-large", BERT16(128), 312, true},
        {"a100", "horovod", "bert-large", BERT32(128), 176, true},
#undef FP16
#undef FP32
#undef BERT16
#undef BERT32
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct tutti_model_params asked = {.size = sizeof(asked),
                                                 .sequence = rows[i].sequence};
        struct tutti_footprint_params params = {.size = sizeof(params),
                                                .accelerator = device(rows[i].device),
                                                .framework = framework(rows[i].framework),
                                                .precision = rows[i].precision,
                                                .optimizer = rows[i].optimizer,
                                                .micro_batch = rows[i].micro_batch,
                                                .data = 8};
        struct tutti_workload *model = NULL;
        struct tutti_err err = {""};

        CHECK_OK(tutti_model_new(rows[i].model, &asked, &model, &err), err);
        params.model = model;
        if (!footprint_of(&params).fits)
            TEST_FAIL("row %zu ran: %s on %s", i, rows[i].model, rows[i].device);
        params.micro_batch *= 2;
        if (rows[i].no && footprint_of(&params).fits)
            TEST_FAIL("row %zu fits twice: %s on %s", i, rows[i].model, rows[i].device);
        tutti_model_free(model);
    }
}

TEST(what_does_not_fit_says_what_would)
{
    struct tutti_workload *model = model_of("llama3-8b");
    struct tutti_footprint_params params = {.size = sizeof(params),
                                            .model = model,
                                            .accelerator = device("h100"),
                                            .framework = framework("megatron"),
                                            .precision = TUTTI_PRECISION_BF16,
                                            .optimizer = TUTTI_OPTIMIZER_ADAM,
                                            .fused_attention = true,
                                            .micro_batch = 1,
                                            .data = 8};
    struct tutti_err err = {""};

    /* 18 x 8.03e9 bytes alone are 135 GiB: only fewer states on a device will do. */
    CHECK_INT(tutti_footprint_check(&params, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "does not fit: ") != NULL);
    CHECK(strstr(err.text, "of 79.6GiB of 'h100': optimizer 89.7GiB") != NULL);
    CHECK(strstr(err.text, "micro-batch") == NULL);
    CHECK(strstr(err.text, "would fit: ZeRO-3 (") != NULL);
    CHECK(strstr(err.text, "32 devices by tensor parallelism of 4 (") != NULL);

    params.tensor = 2;
    CHECK(!footprint_of(&params).fits);
    params.tensor = 4;
    CHECK(footprint_of(&params).fits);
    params.tensor = 1;

    /* Where states fit, the samples of a pass do not. */
    params.sharding = TUTTI_SHARD_ZERO3;
    params.micro_batch = 8;
    CHECK_INT(tutti_footprint_check(&params, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "would fit: micro-batch ") != NULL);
    for (uint64_t batch = 8; batch > 0; batch /= 2) {
        char text[64];

        params.micro_batch = batch;
        snprintf(text, sizeof(text), "micro-batch %" PRIu64 " (", batch);
        if (!footprint_of(&params).fits)
            continue;
        CHECK(strstr(err.text, text) != NULL); /* the first that fits */
        break;
    }
    params.micro_batch = 1;
    CHECK_OK(tutti_footprint_check(&params, &err), err);
    tutti_model_free(model);
}

TEST(what_does_not_go_together_is_refused)
{
    struct tutti_workload *model = model_of("gpt2"); /* 12 layers */
    struct tutti_workload *images = model_of("resnet50");
    struct tutti_footprint_params params = {.size = sizeof(params), .model = model};
    struct tutti_footprint f;
    struct tutti_err err = {""};
    enum tutti_optimizer optimizer;
    enum tutti_recompute recompute;
    const struct tutti_framework_memory *found = NULL;

    CHECK_INT(tutti_footprint_of(&params, &f, &err), -TUTTI_EINVAL);
    params.micro_batch = 1;
    params.pipeline = 15; /* embedding and head by themselves make 14 */
    CHECK_INT(tutti_footprint_of(&params, &f, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "15 pipeline stages of a model of 12 equal layers");
    params.pipeline = 4;
    params.virtual_stages = 2;
    CHECK_INT(tutti_footprint_of(&params, &f, &err), -TUTTI_EINVAL);
    params.virtual_stages = 1;
    params.stage_layers = (const uint32_t[]){4, 4, 4, 4};
    CHECK_INT(tutti_footprint_of(&params, &f, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "16 layers on stages of a model of 12 equal layers");
    params.stage_layers = NULL;
    params.data = 6;
    params.shard_ranks = 4;
    CHECK_INT(tutti_footprint_of(&params, &f, &err), -TUTTI_EINVAL);
    params = (struct tutti_footprint_params){
        .size = sizeof(params), .model = images, .micro_batch = 1, .pipeline = 2};
    CHECK_INT(tutti_footprint_of(&params, &f, &err), -TUTTI_EINVAL);
    params.size = 0;
    CHECK_INT(tutti_footprint_of(&params, &f, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_memory_framework_find("torchy", &found, &err), -TUTTI_EINVAL);
    CHECK_TEXT(framework("Megatron-DeepSpeed")->name, "deepspeed");
    CHECK_TEXT(framework("PyTorch DDP (detectron2)")->name, "pytorch");
    CHECK_OK(tutti_optimizer_find("Adam", &optimizer, &err), err);
    CHECK_INT(optimizer, TUTTI_OPTIMIZER_ADAM);
    CHECK_INT(tutti_optimizer_find("adamax", &optimizer, &err), -TUTTI_EINVAL);
    CHECK_OK(tutti_recompute_find("FULL", &recompute, &err), err);
    CHECK_INT(recompute, TUTTI_RECOMPUTE_FULL);
    CHECK_INT(tutti_recompute_find("some", &recompute, &err), -TUTTI_EINVAL);
    tutti_model_free(model);
    tutti_model_free(images);
}

/* Sizes beyond 64 bits saturate: they do not fit either. */
TEST(sums_saturate)
{
    struct tutti_workload *model = model_of("llama3-405b");
    const struct tutti_footprint_params params = {.size = sizeof(params),
                                                  .model = model,
                                                  .accelerator = device("b200"),
                                                  .precision = TUTTI_PRECISION_BF16,
                                                  .micro_batch = UINT64_MAX};
    const struct tutti_footprint f = footprint_of(&params);

    CHECK_INT(f.total_bytes, UINT64_MAX);
    CHECK(!f.fits);
    tutti_model_free(model);
}
