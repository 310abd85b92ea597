/* What ranks send in a step cut by model parallelism, by playing every collective and message of
 * every rank one by one. */
#include "runtime/model.h"
#include "runtime/parallel.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/test.h"

/* A llama, small enough to send every message of a step: of each kind what every rank has sent. */
enum { RANKS_MAX = 256, TOKENS = 48, HIDDEN = 32, HEADS = 8, KV_HEADS = 4, WIDTH = 48, WORDS = 64 };
enum { SBH = TOKENS * HIDDEN, ACTIVE = 2, EXPERTS = 4, BF16 = 2 };

struct world {
    struct tutti_parallel p; /* filled in */
    uint32_t layers;
    bool experts;
    bool recomputes;
    uint32_t device; /* whose passes are played */
    uint64_t sent[TUTTI_TRAFFIC_KIND_COUNT][RANKS_MAX];
};

static bool is_on(const struct world *w, uint32_t rank, uint32_t device)
{
    const struct tutti_axis axis = tutti_parallel_axis(&w->p, TUTTI_GROUP_PIPELINE);
    uint32_t group;
    uint32_t member;

    CHECK(tutti_axis_find(&axis, rank, &group, &member));
    return member == device;
}

/* Plays a collective in each group of the device: `of` says what a member sends in a step of it. */
static void play(struct world *w, enum tutti_traffic_kind kind, enum tutti_parallel_group group,
                 uint64_t (*of)(uint64_t elements, uint32_t n, uint32_t member, uint32_t step),
                 uint32_t steps, uint64_t elements, uint32_t bytes)
{
    const struct tutti_axis axis = tutti_parallel_axis(&w->p, group);

    for (uint32_t g = 0; g < tutti_axis_group_count(&axis); g++)
        for (uint32_t i = 0; i < axis.size; i++)
            for (uint32_t step = 0; step < steps; step++)
                if (is_on(w, tutti_axis_rank(&axis, g, i), w->device))
                    w->sent[kind][tutti_axis_rank(&axis, g, i)] +=
                        of(elements, axis.size, i, step) * bytes;
}

/* Ring: block i - step, then i + 1 - step; blocks as even as can be. */
static uint64_t ring_block(uint64_t elements, uint32_t n, uint32_t member, uint32_t step)
{
    const uint32_t block =
        step < n - 1 ? (member + n - step) % n : (member + 1 + 2 * n - 1 - step) % n;

    return elements * (block + 1) / n - elements * block / n;
}

static uint64_t shard(uint64_t elements, uint32_t n, uint32_t member, uint32_t step)
{
    (void)member;
    (void)step;
    return (elements + n - 1) / n;
}

static uint64_t all_of_it(uint64_t elements, uint32_t n, uint32_t member, uint32_t step)
{
    (void)n;
    (void)member;
    (void)step;
    return elements;
}

static void reduce_tensor(struct world *w, enum tutti_traffic_kind kind, uint64_t elements,
                          uint32_t bytes)
{
    play(w, kind, TUTTI_GROUP_TENSOR, ring_block, 2 * (w->p.tensor - 1), elements, bytes);
}

static void half_tensor(struct world *w, enum tutti_traffic_kind kind, uint64_t elements)
{
    play(w, kind, TUTTI_GROUP_TENSOR, shard, w->p.tensor - 1, elements, BF16);
}

/* Sums of parts, with tokens divided or not. */
static void sum_tensor(struct world *w, enum tutti_traffic_kind kind, uint64_t elements)
{
    if (w->p.sequence_parallel)
        half_tensor(w, kind, elements);
    else
        reduce_tensor(w, kind, elements, BF16);
}

static void gather_tensor(struct world *w, enum tutti_traffic_kind kind, uint64_t elements)
{
    if (w->p.sequence_parallel)
        half_tensor(w, kind, elements);
}

static uint64_t of_pass(const struct world *w, uint64_t elements)
{
    return elements * w->p.micro_batch / w->p.context;
}

static void attend(struct world *w, uint32_t times)
{
    const uint32_t c = w->p.context;
    const uint32_t t = w->p.tensor;
    const uint64_t tokens = (uint64_t)TOKENS / c * w->p.micro_batch;
    const uint64_t head = HIDDEN / HEADS;
    const uint32_t kv_ring = KV_HEADS > t ? KV_HEADS / t : 1;
    const uint32_t kv_ulysses = KV_HEADS > t * c ? KV_HEADS / t : c;

    for (uint32_t i = 0; i < times && w->p.context_kind == TUTTI_CONTEXT_RING; i++)
        play(w, TUTTI_TRAFFIC_CONTEXT, TUTTI_GROUP_CONTEXT, all_of_it, c - 1,
             2 * tokens * head * kv_ring, BF16);
    for (uint32_t i = 0; i < 4 && w->p.context_kind == TUTTI_CONTEXT_ULYSSES; i++)
        play(w, TUTTI_TRAFFIC_CONTEXT, TUTTI_GROUP_CONTEXT, shard, c - 1,
             tokens * head * (i % 3 == 0 ? HEADS / t : kv_ulysses), BF16);
}

static void visit_experts(struct world *w)
{
    const uint64_t copies = of_pass(w, ACTIVE * SBH);

    play(w, TUTTI_TRAFFIC_EXPERT, TUTTI_GROUP_EXPERT, shard, w->p.expert - 1, copies / w->p.tensor,
         BF16);
    gather_tensor(w, TUTTI_TRAFFIC_TENSOR, copies);
    gather_tensor(w, TUTTI_TRAFFIC_TENSOR, copies); /* scattered */
    play(w, TUTTI_TRAFFIC_EXPERT, TUTTI_GROUP_EXPERT, shard, w->p.expert - 1, copies / w->p.tensor,
         BF16);
}

static void forward(struct world *w)
{
    const uint64_t sbh = of_pass(w, SBH);

    gather_tensor(w, TUTTI_TRAFFIC_TENSOR, sbh);
    attend(w, 1);
    sum_tensor(w, TUTTI_TRAFFIC_TENSOR, sbh);
    if (w->p.expert > 1) {
        visit_experts(w);
        return;
    }
    gather_tensor(w, TUTTI_TRAFFIC_TENSOR, sbh);
    sum_tensor(w, TUTTI_TRAFFIC_TENSOR, sbh);
}

static void backward(struct world *w)
{
    const uint64_t sbh = of_pass(w, SBH);

    if (w->p.expert > 1) {
        visit_experts(w);
    } else {
        gather_tensor(w, TUTTI_TRAFFIC_TENSOR, sbh); /* the gradient of the output */
        if (!w->experts)
            gather_tensor(w, TUTTI_TRAFFIC_TENSOR, sbh); /* the input, for its weights */
        sum_tensor(w, TUTTI_TRAFFIC_TENSOR, sbh);
    }
    gather_tensor(w, TUTTI_TRAFFIC_TENSOR, sbh);
    attend(w, 2 - (w->p.context_kind == TUTTI_CONTEXT_ULYSSES));
    gather_tensor(w, TUTTI_TRAFFIC_TENSOR, sbh);
    sum_tensor(w, TUTTI_TRAFFIC_TENSOR, sbh);
}

static void pass_on(struct world *w, uint32_t neighbour)
{
    const uint64_t sbh = of_pass(w, SBH);
    const bool divided = w->p.sequence_parallel || w->p.scatter_gather;

    if (neighbour == w->device)
        return;
    for (uint32_t rank = 0; rank < tutti_parallel_ranks(&w->p); rank++)
        if (is_on(w, rank, w->device))
            w->sent[TUTTI_TRAFFIC_PIPELINE][rank] += sbh / (divided ? w->p.tensor : 1) * BF16;
    if (w->p.scatter_gather) /* of what came the other way */
        half_tensor(w, TUTTI_TRAFFIC_PIPELINE_GATHER, sbh);
}

static void play_ends(struct world *w, bool first, bool last)
{
    const uint64_t sbh = of_pass(w, SBH);

    if (first) {
        sum_tensor(w, TUTTI_TRAFFIC_EMBEDDING, sbh);
        gather_tensor(w, TUTTI_TRAFFIC_EMBEDDING, sbh);
    }
    if (!last)
        return;
    gather_tensor(w, TUTTI_TRAFFIC_HEAD, sbh);
    gather_tensor(w, TUTTI_TRAFFIC_HEAD, sbh);
    sum_tensor(w, TUTTI_TRAFFIC_HEAD, sbh);
    for (int i = 0; i < 3; i++)
        reduce_tensor(w, TUTTI_TRAFFIC_LOSS, of_pass(w, TOKENS), 4);
}

/* Stages of device 0, 1, ... and around again, or back where the pipeline is a V. */
static uint32_t device_of(const struct world *w, uint32_t stage)
{
    const uint32_t d = stage % w->p.pipeline;

    return w->p.schedule == TUTTI_PIPELINE_ZBV && w->p.pipeline > 1 && stage >= w->p.pipeline
               ? w->p.pipeline - 1 - d
               : d;
}

static void play_stage(struct world *w, uint32_t stage, uint32_t stages)
{
    const uint32_t layers = w->layers / stages + (stage < w->layers % stages);

    for (uint32_t m = 0; m < w->p.micro_batches; m++) {
        for (uint32_t l = 0; l < layers; l++) {
            for (int again = w->recomputes ? 2 : 1; again > 0; again--)
                forward(w);
            backward(w);
        }
        play_ends(w, stage == 0, stage + 1 == stages);
        if (stage > 0)
            pass_on(w, device_of(w, stage - 1));
        if (stage + 1 < stages)
            pass_on(w, device_of(w, stage + 1));
    }
}

static uint64_t most(const struct world *w, int kind)
{
    uint64_t most_bytes = 0;

    for (uint32_t rank = 0; rank < tutti_parallel_ranks(&w->p); rank++)
        most_bytes = w->sent[kind][rank] > most_bytes ? w->sent[kind][rank] : most_bytes;
    return most_bytes;
}

static void check_world(struct world *w, const struct tutti_workload *model)
{
    const struct tutti_parallel_traffic_params params = {.size = sizeof(params),
                                                         .parallel = &w->p,
                                                         .model = model,
                                                         .full_recompute = w->recomputes,
                                                         .device = w->device};
    struct tutti_parallel_traffic seen = {0};
    struct tutti_err err = {""};
    const uint32_t stages = w->p.pipeline * w->p.virtual_stages;

    CHECK_OK(tutti_parallel_traffic_of(&params, &seen, &err), err);
    memset(w->sent, 0, sizeof(w->sent));
    for (uint32_t stage = 0; stage < stages; stage++)
        if (device_of(w, stage) == w->device)
            play_stage(w, stage, stages);
    for (int kind = 0; kind <= TUTTI_TRAFFIC_PIPELINE_GATHER; kind++)
        if (kind != TUTTI_TRAFFIC_WHOLE && most(w, kind) != seen.bytes[kind])
            TEST_FAIL("tp %u cp %u ep %u dp %u pp %u x %u, sp %d, %s, device %u, %s: %llu bytes "
                      "played, %llu said",
                      w->p.tensor, w->p.context, w->p.expert, w->p.data, w->p.pipeline,
                      w->p.virtual_stages, w->p.sequence_parallel,
                      tutti_context_name(w->p.context_kind), w->device,
                      tutti_traffic_kind_name((enum tutti_traffic_kind)kind),
                      (unsigned long long)most(w, kind), (unsigned long long)seen.bytes[kind]);
}

TEST(each_collective_and_message_played)
{
    struct tutti_transformer shape = {
        .hidden = HIDDEN, .heads = HEADS, .kv_heads = KV_HEADS, .feed_forward = WIDTH};
    static struct world w;
    struct tutti_random random;
    uint64_t played = 0;

    tutti_random_seed(&random, test_seed);
    while (played < test_count(1000, 60)) {
        const enum tutti_pipeline kinds[] = {TUTTI_PIPELINE_1F1B, TUTTI_PIPELINE_INTERLEAVED,
                                             TUTTI_PIPELINE_ZBV};
        struct tutti_model_params params = {
            .size = sizeof(params), .sequence = TOKENS, .vocabulary = WORDS};
        struct tutti_parallel p = {
            .size = sizeof(p),
            .tensor = 1U << tutti_random_below(&random, 4),
            .context = 1U << tutti_random_below(&random, 3),
            .expert = 1U << tutti_random_below(&random, 3),
            .data = 1 + (uint32_t)tutti_random_below(&random, 3),
            .pipeline = 1 + (uint32_t)tutti_random_below(&random, 3),
            .schedule = kinds[tutti_random_below(&random, 3)],
            .sequence_parallel = tutti_random_below(&random, 2) > 0,
            .context_kind = (enum tutti_context_kind)tutti_random_below(&random, 2),
            .micro_batches = 1 + (uint32_t)tutti_random_below(&random, 6),
            .micro_batch = 1 + (uint32_t)tutti_random_below(&random, 3),
        };
        struct tutti_workload *model = NULL;
        struct tutti_err err = {""};

        p.scatter_gather = p.pipeline > 1 && p.tensor > 1 && !p.sequence_parallel;
        p.virtual_stages = p.pipeline > 1 && p.schedule == TUTTI_PIPELINE_INTERLEAVED ? 2 : 0;
        w.experts = tutti_random_below(&random, 2) > 0;
        w.recomputes = tutti_random_below(&random, 2) > 0;
        w.layers = 6 + (uint32_t)tutti_random_below(&random, 3);
        shape.layers = w.layers;
        shape.experts = w.experts ? EXPERTS : 0;
        shape.active_experts = w.experts ? ACTIVE : 0;
        params.transformer = shape;
        CHECK_OK(tutti_model_new("llama", &params, &model, &err), err);
        if (model == NULL)
            abort();
        if (tutti_parallel_check(&p, model, &err) == 0 && tutti_parallel_ranks(&p) <= RANKS_MAX) {
            CHECK_OK(tutti_parallel_complete(&p, &w.p, &err), err);
            w.device = (uint32_t)tutti_random_below(&random, p.pipeline);
            check_world(&w, model);
            played++;
        }
        tutti_model_free(model);
    }
}
