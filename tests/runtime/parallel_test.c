/* Model parallelism described: which ranks form groups, which layers a stage has, and what does not
 * go together is said by name. */
#include "runtime/parallel.h"

#include "runtime/model.h"
#include "runtime/status.h"
#include "tests/test.h"

static struct tutti_workload *model_of(const char *name)
{
    struct tutti_workload *model = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_model_new(name, NULL, &model, &err), err);
    if (model == NULL)
        abort();
    return model;
}

static void expect_refused(const struct tutti_parallel *p, const struct tutti_workload *model,
                           const char *text)
{
    struct tutti_err err = {""};

    CHECK_INT(tutti_parallel_check(p, model, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, text);
}

static void expect_taken(const struct tutti_parallel *p, const struct tutti_workload *model)
{
    struct tutti_err err = {""};

    CHECK_OK(tutti_parallel_check(p, model, &err), err);
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* "0 2 4 6 | 1 3 5 7": all groups, members in order. */
static const char *groups(const struct tutti_parallel *p, enum tutti_parallel_group group)
{
    static char text[512];
    const struct tutti_axis axis = tutti_parallel_axis(p, group);
    size_t used = 0;

    for (uint32_t g = 0; g < tutti_axis_group_count(&axis); g++)
        for (uint32_t i = 0; i < axis.size; i++)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u",
                                     i > 0   ? " "
                                     : g > 0 ? " | "
                                             : "",
                                     tutti_axis_rank(&axis, g, i));
    return text;
}

/* Megatron's order: two ranks of tensor parallelism beside each other, then context, then data, the
 * two stages far apart. Experts are divided over the ranks of context and data. */
TEST(groups_of_sixteen_ranks)
{
    const struct tutti_parallel p = {.size = sizeof(p),
                                     .tensor = 2,
                                     .context = 2,
                                     .expert = 2,
                                     .data = 2,
                                     .pipeline = 2,
                                     .schedule = TUTTI_PIPELINE_1F1B,
                                     .sequence_parallel = true};

    expect_taken(&p, NULL);
    CHECK_INT(tutti_parallel_ranks(&p), 16);
    CHECK_TEXT(groups(&p, TUTTI_GROUP_TENSOR),
               "0 1 | 2 3 | 4 5 | 6 7 | 8 9 | 10 11 | 12 13 | 14 15");
    CHECK_TEXT(groups(&p, TUTTI_GROUP_CONTEXT),
               "0 2 | 1 3 | 4 6 | 5 7 | 8 10 | 9 11 | 12 14 | 13 15");
    CHECK_TEXT(groups(&p, TUTTI_GROUP_EXPERT),
               "0 2 | 1 3 | 4 6 | 5 7 | 8 10 | 9 11 | 12 14 | 13 15");
    CHECK_TEXT(groups(&p, TUTTI_GROUP_DATA), "0 2 4 6 | 1 3 5 7 | 8 10 12 14 | 9 11 13 15");
    CHECK_TEXT(groups(&p, TUTTI_GROUP_EXPERT_DATA),
               "0 4 | 1 5 | 2 6 | 3 7 | 8 12 | 9 13 | 10 14 | 11 15");
    CHECK_TEXT(groups(&p, TUTTI_GROUP_PIPELINE),
               "0 8 | 1 9 | 2 10 | 3 11 | 4 12 | 5 13 | 6 14 | 7 15");
    CHECK_TEXT(groups(&p, TUTTI_GROUP_ALL), "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15");
}

TEST(groups_that_share_states_and_those_across)
{
    const struct tutti_parallel p = {
        .size = sizeof(p), .tensor = 2, .data = 4, .sharding = TUTTI_SHARD_ZERO3, .shard_ranks = 2};

    expect_taken(&p, NULL);
    CHECK_TEXT(groups(&p, TUTTI_GROUP_SHARD), "0 2 | 1 3 | 4 6 | 5 7");
    CHECK_TEXT(groups(&p, TUTTI_GROUP_ACROSS), "0 4 | 1 5 | 2 6 | 3 7");
}

TEST(the_first_and_the_last_stage_share_tied_weights)
{
    struct tutti_parallel p = {.size = sizeof(p),
                               .tensor = 2,
                               .pipeline = 3,
                               .data = 2,
                               .schedule = TUTTI_PIPELINE_1F1B,
                               .order = {TUTTI_DIM_TENSOR, TUTTI_DIM_PIPELINE, TUTTI_DIM_CONTEXT,
                                         TUTTI_DIM_EXPERT, TUTTI_DIM_DATA}};

    expect_taken(&p, NULL);
    CHECK_TEXT(groups(&p, TUTTI_GROUP_TIED), "0 4 | 1 5 | 6 10 | 7 11");
    CHECK_TEXT(groups(&p, TUTTI_GROUP_PIPELINE), "0 2 4 | 1 3 5 | 6 8 10 | 7 9 11");
    p.schedule = TUTTI_PIPELINE_ZBV; /* the last stage is back on the first device */
    p.micro_batches = 4;
    expect_taken(&p, NULL);
    CHECK_INT(tutti_parallel_axis(&p, TUTTI_GROUP_TIED).size, 1);
}

TEST(orders_are_read_and_refused)
{
    struct tutti_parallel p = {.size = sizeof(p), .tensor = 2, .context = 2, .data = 2};
    struct tutti_err err = {""};

    CHECK_OK(tutti_parallel_order_parse("pp-tp-CP-ep-dp", p.order, &err), err);
    CHECK(p.order[0] == TUTTI_DIM_PIPELINE && p.order[4] == TUTTI_DIM_DATA);
    expect_taken(&p, NULL);
    CHECK_OK(tutti_parallel_order_parse("dp,cp", p.order, &err), err);
    CHECK(p.order[0] == TUTTI_DIM_DATA && p.order[2] == TUTTI_DIM_TENSOR);
    expect_taken(&p, NULL);
    CHECK_TEXT(groups(&p, TUTTI_GROUP_DATA), "0 1 2 3 | 4 5 6 7");
    CHECK_TEXT(groups(&p, TUTTI_GROUP_CONTEXT), "0 2 | 1 3 | 4 6 | 5 7");
    CHECK_OK(tutti_parallel_order_parse("cp,tp,dp", p.order, &err), err);
    expect_refused(&p, NULL,
                   "order 'cp,tp,dp,ep,pp' with 'tp' between 'cp' and 'dp', whose ranks reduce "
                   "gradients together (beside each other; tp,cp,ep,dp,pp)");
    p.data = 1; /* then there is nothing to stand between */
    expect_taken(&p, NULL);

    CHECK_INT(tutti_parallel_order_parse("tp,dp,tp", p.order, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "'tp' twice in order 'tp,dp,tp' (each once)");
    CHECK_INT(tutti_parallel_order_parse("tp,xp", p.order, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "unknown dimension 'xp' in order 'tp,xp' (innermost first: "
                         "tp,cp,ep,dp,pp)");
    CHECK_INT(tutti_parallel_order_parse("", p.order, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_parallel_order_parse("tp,", p.order, &err), -TUTTI_EINVAL);
    memset(p.order, 1, sizeof(p.order));
    CHECK_INT(tutti_parallel_check(&p, NULL, &err), -TUTTI_EINVAL);
}

/* ---- stages ---------------------------------------------------------------------------------- */

/* "1+3+0 | 0+3+0 | 0+2+1": repeats of each layer on each stage. */
static const char *stages(const struct tutti_parallel *p, const struct tutti_workload *model)
{
    static char text[512];
    uint32_t repeats[64];
    size_t used = 0;

    for (uint32_t s = 0; s < tutti_parallel_stage_count(p); s++) {
        uint32_t sum = 0;

        tutti_parallel_stage_repeats(p, model, s, repeats);
        for (uint32_t i = 0; i < model->layer_count; i++) {
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u",
                                     i > 0   ? "+"
                                     : s > 0 ? " | "
                                             : "",
                                     repeats[i]);
            sum += model->layers[i].is_transformer ? repeats[i] : 0;
        }
        if (model->transformer.layers > 0)
            CHECK_INT(sum, tutti_parallel_stage_layers(p, model, s));
    }
    return text;
}

/* Llama 3's 405 billion: "one Transformer layer each from the first and the last stages" less than
 * equal stages have, of 16 devices with 8 chunks (section 3.3.2 of its paper). */
TEST(ends_may_have_the_embedding_and_the_head_alone)
{
    struct tutti_workload *gpt2 = model_of("gpt2");
    struct tutti_workload *mlp = model_of("mlp");
    struct tutti_workload *llama3 = model_of("llama3-405b");
    struct tutti_parallel p = {.size = sizeof(p), .pipeline = 13};

    CHECK_INT(tutti_parallel_stages_most(gpt2), 14);
    CHECK_INT(tutti_parallel_stages_most(mlp), 2);
    p.schedule = TUTTI_PIPELINE_1F1B;
    expect_taken(&p, gpt2);
    for (uint32_t s = 0; s < 13; s++)
        CHECK_INT(tutti_parallel_stage_layers(&p, gpt2, s), s < 12);
    CHECK_INT(tutti_parallel_layer_repeats(&p, gpt2, 0, 0), 1);
    CHECK_INT(tutti_parallel_layer_repeats(&p, gpt2, 12, 2), 1);
    p.pipeline = 14;
    expect_taken(&p, gpt2);
    for (uint32_t s = 0; s < 14; s++)
        CHECK_INT(tutti_parallel_stage_layers(&p, gpt2, s), s > 0 && s < 13);
    p.pipeline = 15;
    expect_refused(&p, gpt2,
                   "pipeline 15 x 1 virtual stages with the 12 layers of 'gpt2' (at most 14 "
                   "stages, with embedding and head by themselves)");
    p.pipeline = 16;
    p.virtual_stages = 8;
    p.schedule = TUTTI_PIPELINE_INTERLEAVED;
    p.micro_batches = 16;
    expect_taken(&p, llama3);
    for (uint32_t s = 0; s < 128; s++)
        CHECK_INT(tutti_parallel_stage_layers(&p, llama3, s), s > 0 && s < 127);
    tutti_model_free(gpt2);
    tutti_model_free(mlp);
    tutti_model_free(llama3);
}

TEST(stages_have_equally_many_layers_and_what_is_left_lies_in_front)
{
    struct tutti_workload *model = model_of("gpt2"); /* embedding, 12 layers, head */
    struct tutti_workload *mlp = model_of("mlp");
    struct tutti_parallel p = {.size = sizeof(p), .schedule = TUTTI_PIPELINE_1F1B};

    CHECK_INT(tutti_parallel_layers(model), 12);
    CHECK_TEXT(stages(&p, model), "1+12+1");
    p.pipeline = 5;
    expect_taken(&p, model);
    CHECK_TEXT(stages(&p, model), "1+3+0 | 0+3+0 | 0+2+0 | 0+2+0 | 0+2+1");
    p.stage_layers = (const uint32_t[]){2, 3, 3, 4, 0};
    expect_taken(&p, model);
    CHECK_TEXT(stages(&p, model), "1+2+0 | 0+3+0 | 0+3+0 | 0+4+0 | 0+0+1");
    p.stage_layers = (const uint32_t[]){2, 3, 3, 4, 1};
    expect_refused(&p, model, "13 layers on 5 stages with the 12 layers of 'gpt2' (all of them)");
    p.stage_layers = (const uint32_t[]){0, 6, 6, 0, 0};
    expect_taken(&p, model); /* nanotron cuts so */
    CHECK_TEXT(stages(&p, model), "1+0+0 | 0+6+0 | 0+6+0 | 0+0+0 | 0+0+1");
    p.stage_layers = (const uint32_t[]){0, 4, 4, 4, 0};
    expect_taken(&p, model);
    CHECK_TEXT(stages(&p, model), "1+0+0 | 0+4+0 | 0+4+0 | 0+4+0 | 0+0+1");
    p.stage_layers = NULL;
    p.pipeline = 2;
    p.virtual_stages = 2;
    p.schedule = TUTTI_PIPELINE_INTERLEAVED;
    p.micro_batches = 2;
    expect_taken(&p, model);
    CHECK_TEXT(stages(&p, model), "1+3+0 | 0+3+0 | 0+3+0 | 0+3+1");
    p.virtual_stages = 1;
    p.schedule = TUTTI_PIPELINE_1F1B;
    CHECK_INT(tutti_parallel_layers(mlp), 2); /* any model is cut between its layers */
    CHECK_TEXT(stages(&p, mlp), "1+0 | 0+1");
    tutti_model_free(model);
    tutti_model_free(mlp);
}

/* ---- what does not go together --------------------------------------------------------------- */

TEST(tensor_parallelism_is_refused_by_name)
{
    struct tutti_workload *model = model_of("llama3-8b"); /* 32 heads, 8 of keys and values */
    struct tutti_workload *images = model_of("resnet50");
    struct tutti_parallel p = {.size = sizeof(p), .tensor = 3};

    expect_refused(&p, model, "tensor 3 with the 32 heads of 'llama3-8b' (a divisor: 2 or 4)");
    p.tensor = 64;
    expect_refused(&p, model, "tensor 64 with the 32 heads of 'llama3-8b' (a divisor: 32 at most)");
    p.tensor = 16; /* two ranks have the same heads of keys and values */
    expect_taken(&p, model);
    p.tensor = 2;
    expect_refused(&p, images,
                   "tensor 2 with 'resnet50', of which it divides nothing (a transformer; or "
                   "data)");
    p.tensor = 1;
    p.sequence_parallel = true;
    expect_refused(&p, model,
                   "sequence parallelism with tensor 1 (tensor 2 or more, whose ranks then divide "
                   "the tokens)");
    p.tensor = 2;
    expect_taken(&p, model);
    p.scatter_gather = true;
    expect_refused(&p, NULL, "scatter-gather with pipeline 1 (2 or more)");
    p.pipeline = 2;
    p.schedule = TUTTI_PIPELINE_1F1B;
    expect_refused(&p, NULL,
                   "scatter-gather with sequence parallelism, by which messages between stages "
                   "are divided already (one of them)");
    tutti_model_free(model);
    tutti_model_free(images);
}

TEST(context_parallelism_is_refused_by_name)
{
    const struct tutti_model_params odd = {.size = sizeof(odd), .sequence = 4100};
    struct tutti_workload *model = model_of("llama3-8b");
    struct tutti_workload *images = model_of("resnet50");
    struct tutti_workload *longer = NULL;
    struct tutti_parallel p = {.size = sizeof(p), .context = 4};
    struct tutti_err err = {""};

    CHECK_OK(tutti_model_new("llama3-8b", &odd, &longer, &err), err);
    expect_taken(&p, model);
    expect_refused(&p, longer,
                   "context 4 by a ring with samples of 4100 tokens (twice the degree divides "
                   "them)");
    expect_refused(&p, images,
                   "context 4 with 'resnet50', which has no attention to divide (a transformer; "
                   "or data)");
    p.context_kind = TUTTI_CONTEXT_ULYSSES;
    expect_taken(&p, longer);
    p.tensor = 16;
    expect_refused(&p, model,
                   "context 4 by Ulysses x tensor 16 with the 32 heads of 'llama3-8b' (together a "
                   "divisor: 32 at most; ring)");
    tutti_model_free(model);
    tutti_model_free(images);
    tutti_model_free(longer);
}

TEST(expert_parallelism_is_refused_by_name)
{
    struct tutti_workload *dense = model_of("llama3-8b");
    struct tutti_workload *model = model_of("mixtral-8x7b");
    struct tutti_parallel p = {.size = sizeof(p), .data = 8, .expert = 4};

    expect_taken(&p, model);
    expect_refused(&p, dense, "expert 4 with the dense model 'llama3-8b' (expert 1)");
    p.data = 2;
    expect_refused(&p, model,
                   "expert 4 with context 1 x data 2 (a divisor of their 2 ranks: 2 at most)");
    p.context = 2; /* over both */
    expect_taken(&p, model);
    p.tensor = 2;
    expect_refused(&p, model,
                   "expert 4 with tensor 2 and no sequence parallelism (with it, as Megatron "
                   "asks; or tensor 1)");
    p = (struct tutti_parallel){.size = sizeof(p), .data = 16, .expert = 16};
    expect_refused(&p, model,
                   "expert 16 with the 8 experts of 'mixtral-8x7b' (a divisor: 8 at most)");
    p.expert = 8;
    p.imbalance = 4.5;
    expect_refused(&p, model,
                   "an imbalance of experts of '4.5' with 'mixtral-8x7b', of whose 8 experts a "
                   "token uses 2 (at most 4)");
    p.imbalance = 0.5;
    expect_refused(&p, model,
                   "an imbalance of experts of '0.5' (the busiest one over the mean: 1 or more)");
    tutti_model_free(dense);
    tutti_model_free(model);
}

TEST(pipelines_and_sharing_are_refused_by_name)
{
    struct tutti_workload *model = model_of("gpt2"); /* 12 layers */
    struct tutti_workload *untied = model_of("llama3-8b");
    struct tutti_parallel p = {.size = sizeof(p),
                               .data = 2,
                               .pipeline = 4,
                               .schedule = TUTTI_PIPELINE_INTERLEAVED,
                               .virtual_stages = 4,
                               .micro_batches = 8};

    expect_refused(&p, model,
                   "pipeline 4 x 4 virtual stages with the 12 layers of 'gpt2' (at most 14 "
                   "stages, with embedding and head by themselves)");
    p.virtual_stages = 3;
    expect_taken(&p, model);
    p.micro_batches = 6;
    expect_refused(&p, model,
                   "pipeline 'interleaved' of 4 devices with '6' micro-batches (a multiple of the "
                   "devices)");
    p.schedule = TUTTI_PIPELINE_ZB_H1;
    p.virtual_stages = 1;
    p.micro_batches = 3;
    expect_refused(&p, model,
                   "pipeline 'zb-h1' of 4 devices with '3' micro-batches (4 or more; 1f1b)");
    p.schedule = TUTTI_PIPELINE_1F1B;
    p.sharding = TUTTI_SHARD_ZERO2;
    expect_refused(&p, model,
                   "ZeRO-2 with pipeline 4, whose gradients are whole until the last micro-batch "
                   "(ZeRO-1)");
    p.sharding = TUTTI_SHARD_ZERO3;
    expect_refused(&p, model,
                   "ZeRO-3 with pipeline 4, of which each pass would gather weights (ZeRO-1, or "
                   "weights kept for a step, as FSDP of PyTorch does)");
    p.keep_weights = true;
    expect_refused(&p, model,
                   "ZeRO-3 with pipeline 4 of 'gpt2', whose embedding and head are tied over two "
                   "stages (ZeRO-1)");
    expect_taken(&p, untied);
    p.sharding = TUTTI_SHARD_ZERO1;
    expect_refused(&p, model, "weights that are kept once they are gathered, without ZeRO-3");
    p.keep_weights = false;
    p.shard_ranks = 3;
    expect_refused(&p, model,
                   "states shared by 3 ranks with context 1 x data 2 (a divisor of their 2 ranks: "
                   "2 at most)");
    p.shard_ranks = 1;
    expect_taken(&p, model);
    p.sharding = TUTTI_SHARD_NONE;
    expect_refused(&p, model, "states shared by 1 ranks without ZeRO (ZeRO-1 to 3)");
    p = (struct tutti_parallel){.size = sizeof(p), .virtual_stages = 2};
    expect_refused(&p, NULL, "2 virtual stages with pipeline 1 (pipeline 2 or more)");
    p.size = 0;
    CHECK_INT(tutti_parallel_check(&p, NULL, NULL), -TUTTI_EINVAL);
    p = (struct tutti_parallel){.size = sizeof(p), .tensor = 1 << 16, .data = 1 << 16};
    CHECK_INT(tutti_parallel_check(&p, NULL, NULL), -TUTTI_EINVAL);
    tutti_model_free(untied);
    tutti_model_free(model);
}
