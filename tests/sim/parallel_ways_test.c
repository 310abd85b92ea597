/* Ways to cut a model: what must never be slower, what is told of a step, rough prices, and
 * whatever else goes together. */
#include <math.h>

#include "runtime/random.h"
#include "tests/sim/parallel_world.h"

static tutti_ps step_of(const struct world *w)
{
    struct tutti_parallel_answer a = predict(w);

    tutti_parallel_answer_free(&a);
    return a.step_ps;
}

/* Ways to cut a model of experts on 4 hosts of 8, all kinds of collectives among them. */
static const struct tutti_parallel ways[] = {
    {.data = 32, .sharding = TUTTI_SHARD_ZERO3},
    {.data = 32, .sharding = TUTTI_SHARD_ZERO2, .expert = 8, .imbalance = 1.5},
    {.tensor = 8, .data = 4, .sequence_parallel = true, .async_tensor = true},
    {.tensor = 4, .pipeline = 4, .data = 2, .sharding = TUTTI_SHARD_ZERO1},
    {.tensor = 2, .context = 4, .data = 4, .sequence_parallel = true},
    {.tensor = 2, .context = 4, .data = 4, .context_kind = TUTTI_CONTEXT_ULYSSES},
    {.context = 2, .expert = 4, .data = 4, .pipeline = 4, .schedule = TUTTI_PIPELINE_ZB_H1},
    {.tensor = 2,
     .pipeline = 8,
     .data = 2,
     .schedule = TUTTI_PIPELINE_INTERLEAVED,
     .virtual_stages = 4},
    {.tensor = 2, .expert = 8, .data = 16, .sequence_parallel = true, .imbalance = 1.2},
    {.pipeline = 8, .data = 4, .schedule = TUTTI_PIPELINE_ZBV},
    {.tensor = 4,
     .pipeline = 2,
     .data = 4,
     .scatter_gather = true,
     .order = {TUTTI_DIM_DATA, TUTTI_DIM_CONTEXT, TUTTI_DIM_EXPERT, TUTTI_DIM_TENSOR,
               TUTTI_DIM_PIPELINE}},
    {.data = 32, .sharding = TUTTI_SHARD_ZERO3, .shard_ranks = 8},
};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static void open_way(struct world *w, size_t way, const char *spec)
{
    open_world(w, spec, "mixtral-8x7b", ways[way]);
    w->parallel.micro_batches = 16;
    w->parallel.micro_batch = 1;
    w->ask.any_memory = true;
}

/* Links that are twice as fast, twice the host's pace, and no overlap: never to the worse side. */
TEST(more_is_never_slower)
{
    for (size_t i = 0; i < WAYS; i++) {
        struct tutti_framework slower;
        struct world w;
        tutti_ps even;
        tutti_ps usual;
        tutti_ps wider;
        tutti_ps waits;
        tutti_ps late;

        open_way(&w, i, "dgx-h100:nodes=4");
        even = step_of(&w);
        CHECK_INT(step_of(&w), even);
        w.ask.no_overlap = true;
        waits = step_of(&w);
        w.ask.no_overlap = false;
        CHECK_OK(tutti_framework_find("megatron", &w.ask.use.framework, NULL),
                 (struct tutti_err){""});
        slower = *w.ask.use.framework;
        slower.forward_us *= 100;
        slower.message_us *= 10;
        slower.wait_us *= 10;
        usual = step_of(&w);
        w.ask.use.framework = &slower;
        late = step_of(&w);
        close_world(&w);
        open_way(&w, i, "dgx-h100:nodes=4,nicbw=100GB/s,bw=900GB/s");
        CHECK_OK(tutti_framework_find("megatron", &w.ask.use.framework, NULL),
                 (struct tutti_err){""});
        wider = step_of(&w);
        close_world(&w);
        printf("way %zu: %.3f s; wider %.3f, no overlap %.3f, slow host %.3f\n", i,
               (double)usual / 1e12, (double)wider / 1e12, (double)waits / 1e12,
               (double)late / 1e12);
        CHECK(wider <= usual);
        CHECK(waits >= even);
        CHECK(late > usual);
    }
}

/* What is told of a step is the step: tasks of a device follow each other, and the last ends it. */
struct told {
    tutti_ps end_ps[8];
    tutti_ps last_ps;
    uint32_t count;
};

static void hear(void *context, const struct tutti_parallel_note *note)
{
    struct told *told = context;

    CHECK(note->device < 8);
    CHECK(note->begin_ps >= told->end_ps[note->device]);
    CHECK(note->end_ps >= note->begin_ps);
    CHECK(tutti_parallel_task_name(note->task)[0] != '\0');
    told->end_ps[note->device] = note->end_ps;
    told->last_ps = note->end_ps > told->last_ps ? note->end_ps : told->last_ps;
    told->count++;
}

TEST(what_is_told_is_the_step)
{
    for (size_t i = 0; i < WAYS; i++) {
        struct told told = {.count = 0};
        struct world w;

        open_way(&w, i, "dgx-h100:nodes=4");
        w.ask.note = hear;
        w.ask.note_context = &told;
        w.ask.input_rate = 1000;
        w.ask.prefetch = 0;
        CHECK_INT(step_of(&w), told.last_ps);
        CHECK(told.count > 0);
        close_world(&w);
    }
}

/* Rough prices are no more than some per cent off, on hundreds of hosts as well. */
TEST(rough_prices_are_near)
{
    for (uint32_t tensor = 2; tensor <= 8; tensor *= 4) {
        tutti_ps exact;
        tutti_ps rough;
        struct world w;

        open_world(&w, "dgx-h100:nodes=64", "llama3-70b",
                   (struct tutti_parallel){.tensor = tensor,
                                           .pipeline = 2,
                                           .data = 256 / tensor,
                                           .sharding = TUTTI_SHARD_ZERO1,
                                           .micro_batches = 4});
        w.ask.any_memory = true;
        exact = step_of(&w);
        w.ask.coarse = true;
        rough = step_of(&w);
        printf("tensor %u: %.4f s, roughly %.4f\n", tensor, (double)exact / 1e12,
               (double)rough / 1e12);
        CHECK(fabs((double)rough / (double)exact - 1) < 0.05);
        close_world(&w);
    }
}

/* A measured step is met. */
TEST(a_step_is_scaled_to_what_was_measured)
{
    struct world w;

    open_way(&w, 3, "dgx-h100:nodes=4");
    w.ask.anchor_ps = step_of(&w) * 5 / 4;
    CHECK(fabs((double)step_of(&w) / (double)w.ask.anchor_ps - 1) < 2e-4);
    close_world(&w);
}

/* So is one of launches more than of products, four times as long and a third shorter; what says
 * how, said again, gives that step. */
TEST(a_step_that_waits_for_the_host_is_scaled_too)
{
    static const double times[] = {4, 0.67};

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        struct tutti_parallel_answer a;
        struct world w;

        open_world(&w, "dgx-h100", "gpt2", (struct tutti_parallel){.tensor = 2, .data = 4});
        a = predict(&w);
        CHECK(a.split.host_ps > a.split.compute_ps);
        w.ask.anchor_ps = (tutti_ps)((double)a.step_ps * times[i]);
        tutti_parallel_answer_free(&a);
        a = predict(&w);
        CHECK(fabs((double)a.step_ps / (double)w.ask.anchor_ps - 1) < 2e-4);
        w.ask.anchor_ps = 0;
        w.ask.pace = a.pace;
        CHECK(step_of(&w) == a.step_ps);
        tutti_parallel_answer_free(&a);
        close_world(&w);
    }
}

static uint32_t draw(uint64_t *what, uint32_t count)
{
    return (uint32_t)(tutti_random_hash(test_seed, ++*what, 0, 0) % count);
}

static uint32_t draw_power(uint64_t *what, uint32_t most)
{
    return 1U << draw(what, most + 1);
}

/* Of 16 ranks; many do not go together. */
static struct tutti_parallel draw_parallel(uint64_t *what)
{
    struct tutti_parallel p = {.size = sizeof(p)};
    uint8_t kept;
    uint32_t a;
    uint32_t b;

    p.tensor = draw_power(what, 3);
    p.context = draw_power(what, 2);
    p.pipeline = draw_power(what, 2);
    p.expert = draw_power(what, 3);
    p.data = 16 / p.tensor / p.context / p.pipeline;
    p.schedule = (enum tutti_pipeline)draw(what, TUTTI_PIPELINE_COUNT);
    p.virtual_stages = p.schedule == TUTTI_PIPELINE_INTERLEAVED ? 2 : 0;
    p.sequence_parallel = p.tensor > 1 && draw(what, 3) > 0;
    p.async_tensor = p.tensor > 1 && draw(what, 2) > 0;
    p.context_kind = (enum tutti_context_kind)draw(what, TUTTI_CONTEXT_COUNT);
    p.sharding = (enum tutti_sharding)draw(what, 4);
    p.keep_weights = p.sharding == TUTTI_SHARD_ZERO3 && draw(what, 2) > 0;
    p.micro_batches = 4 * (1 + draw(what, 5));
    p.micro_batch = 1 + draw(what, 2);
    p.imbalance = p.expert > 1 ? 1 + draw(what, 3) * 0.25 : 0;
    for (int i = 0; i < TUTTI_DIM_COUNT; i++)
        p.order[i] = (uint8_t)i;
    a = draw(what, TUTTI_DIM_COUNT);
    b = draw(what, TUTTI_DIM_COUNT);
    kept = p.order[a];
    p.order[a] = p.order[b];
    p.order[b] = kept;
    return p;
}

/* The same step on links twice as fast. */
static tutti_ps step_on_wider(const struct world *w)
{
    struct world wider;
    tutti_ps ps;

    open_world(&wider, "dgx-h100:nodes=2,nicbw=100GB/s,bw=900GB/s", "mixtral-8x7b", w->parallel);
    wider.ask.any_memory = true;
    wider.ask.use.recompute = w->ask.use.recompute;
    ps = step_of(&wider);
    close_world(&wider);
    return ps;
}

/* Whatever goes together is predicted: parts add up (predict() sees to it), again the same, and
 * rough prices of few hosts are near the exact ones; faster links (with --full) are no loss. */
TEST(whatever_goes_together_is_predicted)
{
    enum { DRAWS = 400, ENOUGH = 15 };
    uint64_t what = 0;
    uint32_t count = 0;
    double worst = 0;

    for (int i = 0; i < DRAWS && count < (uint32_t)test_count(DRAWS, ENOUGH); i++) {
        const struct tutti_parallel p = draw_parallel(&what);
        tutti_ps usual;
        tutti_ps rough;
        struct world w;

        open_world(&w, "dgx-h100:nodes=2", "mixtral-8x7b", p);
        w.ask.any_memory = true;
        w.ask.use.recompute = (enum tutti_recompute)draw(&what, TUTTI_RECOMPUTE_COUNT);
        if (tutti_parallel_ranks(&w.parallel) == 16 &&
            tutti_parallel_check(&w.parallel, w.model, NULL) == 0) {
            usual = step_of(&w);
            CHECK_INT(step_of(&w), usual);
            CHECK(usual > 0);
            CHECK(!test_full || step_on_wider(&w) <= usual);
            w.ask.coarse = true;
            rough = step_of(&w);
            worst = fmax(worst, fabs((double)rough / (double)usual - 1));
            count++;
        }
        close_world(&w);
    }
    printf("%u predicted; rough ones at most %.2f %% off\n", count, 100 * worst);
    CHECK(count > 0);
    CHECK(worst < 0.05);
}
