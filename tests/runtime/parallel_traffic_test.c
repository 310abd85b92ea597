/* What ranks send in a step cut by model parallelism: formulas of the papers to the byte. */
#include "runtime/model.h"
#include "runtime/parallel.h"
#include "runtime/status.h"
#include "tests/test.h"

/* A GPT: s tokens, h hidden, a heads, L layers, V of vocabulary; b samples a pass. */
enum { S = 2048, H = 1024, A = 16, KV = 8, L = 8, V = 50304, B = 2, F = 4096 };
#define SBH  ((uint64_t)S * B * H)
#define BF16 2

static struct tutti_workload *model_of(const char *name, struct tutti_transformer t)
{
    const struct tutti_model_params params = {
        .size = sizeof(params), .sequence = S, .vocabulary = V, .transformer = t};
    struct tutti_workload *model = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_model_new(name, &params, &model, &err), err);
    if (model == NULL)
        abort();
    return model;
}

static struct tutti_workload *gpt(void)
{
    return model_of("gpt", (struct tutti_transformer){.layers = L, .hidden = H, .heads = A});
}

static struct tutti_workload *llama(void)
{
    return model_of("llama",
                    (struct tutti_transformer){
                        .layers = L, .hidden = H, .heads = A, .kv_heads = KV, .feed_forward = F});
}

static struct tutti_parallel_traffic traffic_of(const struct tutti_parallel *p,
                                                const struct tutti_workload *model,
                                                struct tutti_parallel_traffic_params params)
{
    struct tutti_parallel_traffic traffic = {0};
    struct tutti_err err = {""};
    uint64_t sum = 0;

    params.size = sizeof(params);
    params.parallel = p;
    params.model = model;
    CHECK_OK(tutti_parallel_traffic_of(&params, &traffic, &err), err);
    for (int kind = 0; kind < TUTTI_TRAFFIC_KIND_COUNT; kind++)
        sum += traffic.bytes[kind];
    CHECK_INT(sum, traffic.sum_bytes);
    return traffic;
}

static struct tutti_parallel_traffic plain(const struct tutti_parallel *p,
                                           const struct tutti_workload *model)
{
    return traffic_of(p, model, (struct tutti_parallel_traffic_params){0});
}

#define PARALLEL(...)                                                        \
    {                                                                        \
        .size = sizeof(struct tutti_parallel), .micro_batch = B, __VA_ARGS__ \
    }

/* ---- what papers say ------------------------------------------------------------------------- */

/* Of a GPT: per layer 12 h^2 + 13 h, of which norms and two biases are whole. */
static uint64_t parameters(uint64_t t, uint64_t layers, bool first, bool last)
{
    const uint64_t layer = 12 * (uint64_t)H * H / t + 7 * H / t + 6 * H;

    return layers * layer + (first ? (uint64_t)V * H / t + (uint64_t)S * H : 0) +
           (last ? 2 * H : 0);
}

/* 2 (n-1)/n of 4 bytes each: Megatron and nanotron reduce at 32 bits. */
TEST(gradients_of_replicas)
{
    struct tutti_workload *model = gpt();
    struct tutti_parallel p = PARALLEL(.data = 8, .tensor = 2, .micro_batches = 4);
    const uint64_t all = parameters(2, L, true, true);
    struct tutti_parallel_traffic seen = plain(&p, model);

    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_GRADIENTS], 2 * 7 * (4 * all / 8));
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_WEIGHTS], 0);
    seen = traffic_of(&p, model, (struct tutti_parallel_traffic_params){.gradient_bytes = 2});
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_GRADIENTS], 2 * 7 * (2 * all / 8));
    p.sharding = TUTTI_SHARD_ZERO1; /* (n-1)/n (4 + 2) P */
    seen = plain(&p, model);
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_GRADIENTS], 7 * (4 * all / 8));
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_WEIGHTS], 7 * (2 * all / 8));
    p.sharding = TUTTI_SHARD_ZERO2; /* gradients with every micro-batch */
    seen = plain(&p, model);
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_GRADIENTS], 4 * 7 * (4 * all / 8));
    CHECK_INT(seen.calls[TUTTI_TRAFFIC_GRADIENTS], 4);
    p.sharding = TUTTI_SHARD_ZERO3; /* weights twice */
    seen = plain(&p, model);
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_GRADIENTS], 4 * 7 * (4 * all / 8));
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_WEIGHTS], 4 * 2 * 7 * (2 * all / 8));
    p.keep_weights = true;
    CHECK_INT(plain(&p, model).bytes[TUTTI_TRAFFIC_WEIGHTS], 4 * 7 * (2 * all / 8));
    p.shard_ranks = 4; /* HSDP: an all-reduce of P/4 over 2 */
    seen = plain(&p, model);
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_WEIGHTS], 4 * 3 * (2 * all / 4));
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_ACROSS], 4 * all / 4);
    p.sharding = TUTTI_SHARD_ZERO1; /* optimizer states of a host */
    p.keep_weights = false;
    seen = plain(&p, model);
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_GRADIENTS], 3 * (4 * all / 4));
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_WEIGHTS], 3 * (2 * all / 4));
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_ACROSS], 4 * all / 4);
    tutti_model_free(model);
}

/* PyTorch's FSDP with a pipeline: gathered and reduced once a step. */
TEST(weights_kept_for_a_step_are_gathered_once)
{
    struct tutti_workload *model = llama();
    const struct tutti_parallel p =
        PARALLEL(.data = 8, .pipeline = 2, .schedule = TUTTI_PIPELINE_1F1B, .micro_batches = 4,
                 .sharding = TUTTI_SHARD_ZERO3, .keep_weights = true);
    const struct tutti_parallel_traffic seen = plain(&p, model);
    const uint64_t all =
        (uint64_t)V * H + L / 2 * (2 * H * H + 2 * H * H * KV / A + 3 * (uint64_t)H * F + 2 * H);

    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_GRADIENTS], 7 * (4 * all / 8));
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_WEIGHTS], 7 * (2 * all / 8));
    tutti_model_free(model);
}

/* Four all-reduces of 2sbh a layer and micro-batch, six with full recomputation. */
TEST(tensor_parallelism)
{
    struct tutti_workload *model = gpt();
    struct tutti_parallel p = PARALLEL(.tensor = 4, .micro_batches = 3);
    const uint64_t one = 2 * 3 * (BF16 * SBH / 4); /* an all-reduce: 2 (t-1)/t of 2sbh */
    struct tutti_parallel_traffic seen = plain(&p, model);
    const struct tutti_parallel_traffic_params full = {.full_recompute = true};

    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_TENSOR], L * 3 * 4 * one);
    CHECK_INT(seen.calls[TUTTI_TRAFFIC_TENSOR], L * 3 * 4);
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_EMBEDDING], 3 * one);
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_HEAD], 3 * one);
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_LOSS], 3 * 3 * (2 * 3 * (UINT64_C(4) * S * B / 4)));
    CHECK_INT(traffic_of(&p, model, full).bytes[TUTTI_TRAFFIC_TENSOR], L * 3 * 6 * one);
    CHECK_INT(traffic_of(&p, model, full).bytes[TUTTI_TRAFFIC_HEAD], 3 * one);

    p.sequence_parallel = true; /* the same halved and twice as often, and a gather more each */
    seen = plain(&p, model);
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_TENSOR], L * 3 * (4 * one + 2 * one / 2));
    CHECK_INT(seen.calls[TUTTI_TRAFFIC_TENSOR], L * 3 * (4 * 2 + 2));
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_EMBEDDING], 3 * one);
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_HEAD], 3 * (one + one / 2));
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_WHOLE],
              2 * 3 * (4 * (L * 6 * H + (uint64_t)S * H + 2 * H) / 4));
    CHECK_INT(traffic_of(&p, model, full).bytes[TUTTI_TRAFFIC_TENSOR],
              L * 3 * (6 * one + 2 * one / 2));
    tutti_model_free(model);
}

/* 16 ranks and 8 heads of keys and values: two ranks have each, sum its gradients among themselves,
 * and have 1/8 of what makes it rather than 1/16. */
TEST(keys_and_values_held_twice)
{
    struct tutti_workload *model = llama();
    struct tutti_parallel p = PARALLEL(.tensor = 16, .data = 2);
    const uint64_t kv = 2 * (uint64_t)H * (H / A) * KV;
    const uint64_t layer = (2 * (uint64_t)H * H + 3 * (uint64_t)H * F) / 16 + kv / 8 + 2 * H;
    const uint64_t all = L * layer + 2 * (uint64_t)V * H / 16 + H;
    struct tutti_parallel_traffic seen = plain(&p, model);
    struct tutti_parallel_share share;
    struct tutti_axis same = tutti_parallel_kv_axis(&p, model);

    tutti_parallel_share_of(&p, model, 0, &share);
    CHECK_INT(share.dense, all);
    CHECK_INT(share.repeated, L * kv / 8);
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_GRADIENTS], 4 * all);
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_WHOLE], 4 * (L * kv / 8));
    CHECK_INT(same.size, 2);
    CHECK_INT(same.stride, 1);
    p.tensor = 8; /* one each */
    tutti_parallel_share_of(&p, model, 0, &share);
    CHECK_INT(share.repeated, 0);
    CHECK_INT(plain(&p, model).bytes[TUTTI_TRAFFIC_WHOLE], 0);
    CHECK_INT(tutti_parallel_kv_axis(&p, model).size, 1);
    tutti_model_free(model);
}

/* 2sbh a boundary each way and micro-batch, v times that interleaved; tied weights at its ends. */
TEST(pipelines)
{
    struct tutti_workload *model = gpt();
    struct tutti_parallel p =
        PARALLEL(.pipeline = 4, .schedule = TUTTI_PIPELINE_1F1B, .micro_batches = 8, .data = 2);
    struct tutti_parallel_traffic_params at = {.device = 1};
    const uint64_t one = BF16 * SBH;

    CHECK_INT(plain(&p, model).bytes[TUTTI_TRAFFIC_PIPELINE], 8 * one); /* forward alone */
    CHECK_INT(traffic_of(&p, model, at).bytes[TUTTI_TRAFFIC_PIPELINE], 2 * 8 * one);
    CHECK_INT(traffic_of(&p, model, at).bytes[TUTTI_TRAFFIC_TIED], 0);
    CHECK_INT(plain(&p, model).bytes[TUTTI_TRAFFIC_TIED], 4 * (uint64_t)V * H);
    CHECK_INT(plain(&p, model).bytes[TUTTI_TRAFFIC_GRADIENTS],
              4 * parameters(1, L / 4, true, false));
    at.device = 3; /* which has the tied weights as well, and reduces them */
    CHECK_INT(traffic_of(&p, model, at).bytes[TUTTI_TRAFFIC_TIED], 4 * (uint64_t)V * H);
    CHECK_INT(traffic_of(&p, model, at).bytes[TUTTI_TRAFFIC_GRADIENTS],
              4 * (parameters(1, L / 4, false, true) + (uint64_t)V * H));

    p.schedule = TUTTI_PIPELINE_INTERLEAVED;
    p.virtual_stages = 2;
    at.device = 1;
    CHECK_INT(traffic_of(&p, model, at).bytes[TUTTI_TRAFFIC_PIPELINE], 2 * 2 * 8 * one);
    CHECK_INT(plain(&p, model).bytes[TUTTI_TRAFFIC_PIPELINE], (2 * 2 - 1) * 8 * one);
    p.schedule = TUTTI_PIPELINE_ZBV; /* both ways twice, but where the pipeline turns or ends */
    CHECK_INT(traffic_of(&p, model, at).bytes[TUTTI_TRAFFIC_PIPELINE], 2 * 2 * 8 * one);
    CHECK_INT(plain(&p, model).bytes[TUTTI_TRAFFIC_PIPELINE], 2 * 8 * one);
    CHECK_INT(plain(&p, model).bytes[TUTTI_TRAFFIC_TIED], 0);

    p = (struct tutti_parallel)PARALLEL(.pipeline = 4, .schedule = TUTTI_PIPELINE_1F1B,
                                        .micro_batches = 8, .tensor = 2, .scatter_gather = true);
    CHECK_INT(traffic_of(&p, model, at).bytes[TUTTI_TRAFFIC_PIPELINE], 2 * 8 * one / 2);
    CHECK_INT(traffic_of(&p, model, at).bytes[TUTTI_TRAFFIC_PIPELINE_GATHER], 2 * 8 * one / 2);
    CHECK_INT(plain(&p, model).bytes[TUTTI_TRAFFIC_TIED], 4 * (uint64_t)V * H / 2);
    tutti_model_free(model);
}

/* Ring: c-1 hops of 2 x 2sbh kv/a/(ct), and twice backward. Ulysses: four all-to-alls each way. */
TEST(context_parallelism)
{
    struct tutti_workload *model = llama();
    struct tutti_workload *heads = gpt();
    struct tutti_parallel p = PARALLEL(.context = 4, .tensor = 2);
    const uint64_t block = 2 * BF16 * SBH * KV / A / (4 * 2);
    const struct tutti_parallel_traffic_params full = {.full_recompute = true};

    CHECK_INT(plain(&p, model).bytes[TUTTI_TRAFFIC_CONTEXT], L * 3 * 3 * block);
    CHECK_INT(traffic_of(&p, model, full).bytes[TUTTI_TRAFFIC_CONTEXT], L * 4 * 3 * block);
    CHECK_INT(plain(&p, model).bytes[TUTTI_TRAFFIC_TENSOR], L * 4 * (2 * BF16 * SBH / 4 / 2));
    p.tensor = 16; /* more than there are keys and values: two ranks have the same */
    CHECK_INT(plain(&p, model).bytes[TUTTI_TRAFFIC_CONTEXT], L * 3 * 3 * (2 * block / 8));
    p.tensor = 1;
    p.context_kind = TUTTI_CONTEXT_ULYSSES;
    CHECK_INT(plain(&p, heads).bytes[TUTTI_TRAFFIC_CONTEXT], L * 8 * (BF16 * SBH / 4 * 3 / 4));
    CHECK_INT(plain(&p, heads).calls[TUTTI_TRAFFIC_CONTEXT], L * 8);
    CHECK_INT(traffic_of(&p, heads, full).bytes[TUTTI_TRAFFIC_CONTEXT],
              L * 12 * (BF16 * SBH / 4 * 3 / 4));
    CHECK_INT(plain(&p, model).bytes[TUTTI_TRAFFIC_CONTEXT], /* keys and values are half of it */
              L * 2 * (2 + 1) * (BF16 * SBH / 4 * 3 / 4));
    p.tensor = 4; /* 16 ranks, 8 heads of keys and values: each twice */
    CHECK_INT(plain(&p, model).bytes[TUTTI_TRAFFIC_CONTEXT],
              L * 2 * 4 * (BF16 * SBH / 4 / 4 * 3 / 4));
    tutti_model_free(model);
    tutti_model_free(heads);
}

/* Mixtral: 2 of 8 experts a token; k x 2sbh (e-1)/e, four times a layer. */
TEST(expert_parallelism)
{
    enum { TOKENS = 4096, LAYERS = 32, WIDE = 4096, WIDTH = 14336 };
    struct tutti_workload *model = NULL;
    struct tutti_err err = {""};
    struct tutti_parallel p = PARALLEL(.data = 8, .expert = 4);
    const uint64_t sbh = (uint64_t)TOKENS * B * WIDE;
    const uint64_t experts = UINT64_C(3) * 8 * LAYERS * WIDE * WIDTH;
    struct tutti_parallel_traffic seen;
    double share;

    CHECK_OK(tutti_model_new("mixtral-8x7b", NULL, &model, &err), err);
    CHECK_INT(model->sequence, TOKENS);
    seen = plain(&p, model);
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_EXPERT], LAYERS * 4 * (2 * BF16 * sbh / 4 * 3));
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_EXPERT_GRADIENTS], 2 * (experts / 4 * 4 / 2));
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_GRADIENTS],
              2 * 7 * ((UINT64_C(46702792704) - experts) * 4 / 8));
    p.tensor = 2; /* tokens are divided by two, and gathered where their experts are */
    p.sequence_parallel = true;
    seen = plain(&p, model);
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_EXPERT], LAYERS * 4 * (2 * BF16 * sbh / 2 / 4 * 3));
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_TENSOR], /* attention, then four halves of two copies */
              LAYERS * (5 + 4 * 2) * (BF16 * sbh / 2));
    p.expert = 1; /* each rank has a half of each expert: a token is gathered once */
    seen = plain(&p, model);
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_EXPERT], 0);
    CHECK_INT(seen.bytes[TUTTI_TRAFFIC_TENSOR], LAYERS * (5 + 4) * (BF16 * sbh / 2));
    p.sequence_parallel = false;
    CHECK_INT(plain(&p, model).bytes[TUTTI_TRAFFIC_TENSOR], LAYERS * 4 * (2 * BF16 * sbh / 2));

    /* One expert has twice the mean, so the rank with it and another of the eight 10/7 of it. It
     * keeps more of its own and has more to return: (e + f (e-2))/e, twice, for (e-1)/e. */
    p = (struct tutti_parallel)PARALLEL(.data = 8, .expert = 4, .imbalance = 2);
    CHECK_INT(tutti_parallel_imbalance_ppm(&p, model), 1428571);
    seen = plain(&p, model);
    share = (double)seen.bytes[TUTTI_TRAFFIC_EXPERT] / (double)(LAYERS * 2 * (BF16 * sbh / 2));
    CHECK(share > 4 + 2 * 10.0 / 7 - 1e-5 && share < 4 + 2 * 10.0 / 7 + 1e-5);
    p.expert = 8;
    CHECK_INT(tutti_parallel_imbalance_ppm(&p, model), 2000000);
    p.expert = 1;
    CHECK_INT(tutti_parallel_imbalance_ppm(&p, model), 1000000);
    tutti_model_free(model);
}

TEST(scalars_and_one_rank)
{
    struct tutti_workload *model = gpt();
    struct tutti_parallel p = PARALLEL(.data = 2);
    struct tutti_parallel_traffic_params params = {.scalars = 2};
    struct tutti_parallel_traffic traffic;
    struct tutti_err err = {""};

    CHECK_INT(traffic_of(&p, model, params).bytes[TUTTI_TRAFFIC_SCALARS], 2 * 4);
    p.data = 1;
    CHECK_INT(traffic_of(&p, model, params).sum_bytes, 0);
    params = (struct tutti_parallel_traffic_params){
        .size = sizeof(params), .parallel = &p, .model = model, .device = 1};
    CHECK_INT(tutti_parallel_traffic_of(&params, &traffic, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "device 1 of pipeline 1");
    CHECK_TEXT(tutti_traffic_kind_name(TUTTI_TRAFFIC_SCALARS), "scalars");
    CHECK_INT(tutti_traffic_group(TUTTI_TRAFFIC_SCALARS), TUTTI_GROUP_ALL);
    tutti_model_free(model);
}
