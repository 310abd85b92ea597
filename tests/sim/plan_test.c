/* Plans: what is pruned would not have been among the best, nothing is that does not fit, and what
 * would change the order does. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/parallel.h"
#include "sim/plan.h"
#include "sim/plan/search.h"
#include "sim/train.h"
#include "tests/alloc_fail.h"
#include "tests/machines.h"
#include "tests/test.h"

enum { MACHINES_MAX = 3 };

/* What collectives take on the presets of these tests, which are the same in all. */
static struct tutti_train_memory *memory;

struct world {
    struct tutti_topo *topos[MACHINES_MAX];
    struct tutti_plan_machine machines[MACHINES_MAX];
    struct tutti_workload *model;
    struct tutti_prices *prices;
    struct tutti_plan_space space;
    struct tutti_plan_ask ask;
};

/* `specs` are separated by blanks; "" adds none. */
static void open_world(struct world *w, const char *specs, const char *model, uint32_t layers,
                       uint64_t batch)
{
    struct tutti_model_params params = {.size = sizeof(params), .sequence = 1024};
    struct tutti_err err;
    char spec[64];

    *w = (struct world){.ask = {.size = sizeof(w->ask)}, .space = {.size = sizeof(w->space)}};
    if (layers > 0)
        params.transformer =
            (struct tutti_transformer){.layers = layers, .hidden = 2048, .heads = 16};
    CHECK_OK(tutti_model_new(model, layers > 0 ? &params : NULL, &w->model, &err), err);
    CHECK_OK(tutti_prices_builtin(&w->prices, &err), err);
    if (memory == NULL)
        CHECK_OK(tutti_train_memory_new(&memory, &err), err);
    for (int used = 0; sscanf(specs, " %63s%n", spec, &used) == 1; specs += used) {
        uint32_t at = w->ask.machine_count++;

        w->topos[at] = machine(spec);
        w->machines[at].topo = w->topos[at];
    }
    w->ask.machines = w->machines;
    w->ask.model = w->model;
    w->ask.use.precision = TUTTI_PRECISION_BF16;
    w->ask.use.fused_attention = true;
    w->ask.optimizer = TUTTI_OPTIMIZER_ADAM;
    w->ask.global_batch = batch;
    w->ask.space = &w->space;
    w->ask.prices = w->prices;
    w->ask.memory = memory;
}

static void close_world(struct world *w)
{
    for (uint32_t i = 0; i < w->ask.machine_count; i++)
        tutti_topo_free(w->topos[i]);
    tutti_model_free(w->model);
    tutti_prices_free(w->prices);
}

static struct tutti_plan_answer search(const struct world *w)
{
    struct tutti_plan_answer answer = {.best = NULL};
    struct tutti_err err;

    CHECK_OK(tutti_plan_search(&w->ask, &answer, &err), err);
    return answer;
}

static bool same(const struct tutti_plan_found *a, const struct tutti_plan_found *b)
{
    const struct tutti_parallel *p = &a->plan.parallel;
    const struct tutti_parallel *q = &b->plan.parallel;

    return tutti_plan_same_division(&a->plan, &b->plan) && p->micro_batch == q->micro_batch &&
           p->virtual_stages == q->virtual_stages && p->schedule == q->schedule &&
           p->sharding == q->sharding && p->sequence_parallel == q->sequence_parallel &&
           a->plan.recompute == b->plan.recompute && a->step_ps == b->step_ps &&
           a->cost.money == b->cost.money && a->footprint.total_bytes == b->footprint.total_bytes;
}

static void check_same(const struct tutti_plan_found *a, uint32_t a_count,
                       const struct tutti_plan_found *b, uint32_t b_count)
{
    CHECK_INT(a_count, b_count);
    for (uint32_t i = 0; i < a_count && i < b_count; i++)
        CHECK(same(&a[i], &b[i]));
}

static void check_counts(const struct tutti_plan_counts *c)
{
    CHECK_INT(c->tried, c->refused + c->too_large + c->pruned + c->predicted);
}

/* ---- pruned or not --------------------------------------------------------------------------- */

static struct tutti_plan_counts compare_searches(struct world *w)
{
    struct tutti_plan_answer pruned = search(w);
    struct tutti_plan_answer whole;
    struct tutti_plan_counts counts = pruned.counts;

    w->ask.unpruned = true;
    whole = search(w);
    w->ask.unpruned = false;
    check_same(pruned.best, pruned.best_count, whole.best, whole.best_count);
    check_same(pruned.front, pruned.front_count, whole.front, whole.front_count);
    check_counts(&pruned.counts);
    check_counts(&whole.counts);
    CHECK_INT(pruned.counts.tried, whole.counts.tried);
    CHECK_INT(whole.counts.pruned, 0);
    for (uint32_t i = 0; i < pruned.best_count; i++) {
        const struct tutti_footprint *f = &pruned.best[i].footprint;

        CHECK((double)f->total_bytes <=
              (double)f->capacity_bytes / 1e6 * (double)w->ask.memory_ppm);
    }
    tutti_plan_answer_done(&pruned);
    tutti_plan_answer_done(&whole);
    return counts;
}

TEST(what_is_pruned_is_not_among_the_best)
{
    static const char *const specs[] = {"dgx-h100", "dgx-h100:nodes=2",
                                        "dgx-a100 dgx-h100 dgx-h100:nodes=2",
                                        "rail:nodes=4,gpus=4"};
    struct tutti_random random;
    uint64_t count = test_count(60, 5);
    uint64_t predicted = 0;
    uint64_t pruned = 0;

    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < count; i++) {
        uint32_t layers = 2 + (uint32_t)tutti_random_below(&random, 30);
        const char *machines = specs[tutti_random_below(&random, 4)];
        struct tutti_plan_counts counts;
        struct world w;

        open_world(&w, machines, tutti_random_below(&random, 2) ? "gpt" : "llama", layers,
                   UINT64_C(32) << tutti_random_below(&random, 4));
        if (strstr(machines, "rail") != NULL)
            (void)tutti_accelerator_find("a100", &w.ask.use.accelerator, NULL);
        w.ask.memory_ppm = 100000 + 100000 * (uint64_t)tutti_random_below(&random, 10);
        w.ask.goal = (enum tutti_plan_goal)tutti_random_below(&random, TUTTI_PLAN_GOAL_COUNT);
        w.ask.best_count = 1 + (uint32_t)tutti_random_below(&random, 6);
        w.ask.steps = 1000;
        w.space.schedules = (uint32_t)tutti_random_below(&random, 1u << TUTTI_PIPELINE_COUNT);
        if (tutti_random_below(&random, 2) > 0)
            w.ask.deadline_us = 1000000 * (100 + (uint64_t)tutti_random_below(&random, 2000));
        counts = compare_searches(&w);
        predicted += counts.predicted;
        pruned += counts.pruned;
        close_world(&w);
    }
    printf("%" PRIu64 " predicted, %" PRIu64 " pruned\n", predicted, pruned);
    CHECK(pruned > predicted);
}

/* ---- bounds and memory ----------------------------------------------------------------------- */

/* Each configuration that goes together: no step is below its bound, and its memory is what the
 * prediction says of the fullest stage. */
static void check_field(struct world *w, uint64_t share)
{
    struct tutti_plan_ask ask;
    struct plan_field field;
    struct tutti_err err;
    double nearest = 0;
    double close_sum = 0;
    uint32_t seen = 0;

    CHECK_OK(plan_ask_take(&w->ask, &ask, &err), err);
    CHECK_OK(plan_field_new(&ask, 0, &field, &err), err);
    for (uint32_t i = 0; i < field.count; i += 1 + (uint32_t)share) {
        struct tutti_plan_found found;
        struct tutti_footprint footprint;
        struct tutti_plan_setting plan;
        tutti_ps bound_ps = 0;
        tutti_ps close_ps = 0;

        plan_of_candidate(&field, &field.candidates[i], &plan);
        if (plan_price(&field, &plan, &found, &err) < 0)
            continue;
        CHECK_OK(plan_bound(&field, &plan, &bound_ps, &err), err);
        CHECK(bound_ps > 0 && bound_ps <= found.step_ps);
        CHECK_OK(plan_close_bound(&field, &plan, &close_ps, &err), err);
        CHECK(close_ps > 0 && close_ps <= found.step_ps);
        CHECK_OK(plan_footprint(&field, &plan, &footprint, &err), err);
        CHECK_INT(footprint.total_bytes, found.footprint.total_bytes);
        nearest = fmax(nearest, (double)bound_ps / (double)found.step_ps);
        close_sum += (double)close_ps / (double)found.step_ps;
        seen++;
    }
    printf("%u steps, the nearest bound is %.3f of its step, close ones %.3f in the mean\n", seen,
           nearest, close_sum / seen);
    CHECK(seen > (test_is_slow() ? 2 : 20));
    CHECK(nearest > 0.7);
    CHECK(close_sum / seen > 0.7);
    plan_field_done(&field);
}

TEST(no_step_is_below_its_bound)
{
    struct world w;

    open_world(&w, "dgx-h100:nodes=2", "llama", 12, 64);
    w.space.schedules = (1u << TUTTI_PIPELINE_COUNT) - 1;
    check_field(&w, 4 * test_fewer());
    close_world(&w);
    open_world(&w, "dgx-h100:nodes=2", "mixtral-8x7b", 0, 32);
    w.ask.use.fused_attention = false;
    check_field(&w, 16 * test_fewer());
    close_world(&w);
}

/* Fourteen layers on sixteen stages: embedding and head by themselves, of pipelines of two devices
 * and more. They are enumerated, none is below its bound, and pruning loses none of the best. */
TEST(stages_without_layers_are_tried)
{
    struct plan_field field;
    struct tutti_plan_ask ask;
    struct tutti_err err;
    struct world w;
    uint32_t bare = 0;

    open_world(&w, "dgx-h100:nodes=2", "llama", 14, 64);
    CHECK_OK(plan_ask_take(&w.ask, &ask, &err), err);
    CHECK_OK(plan_field_new(&ask, 0, &field, &err), err);
    for (uint32_t i = 0; i < field.count; i++)
        bare += field.candidates[i].pipeline * field.candidates[i].virtual_stages == 16;
    CHECK(bare > 50);
    plan_field_done(&field);
    w.space.tensor = (struct tutti_plan_values){1, {1}};
    w.space.pipeline = (struct tutti_plan_values){3, {4, 8, 16}};
    check_field(&w, 2 * test_fewer());
    w.ask.best_count = 6;
    w.ask.memory_ppm = 1000000;
    (void)compare_searches(&w);
    close_world(&w);
}

/* ---- what is told ---------------------------------------------------------------------------- */

TEST(what_does_not_fit_is_refused_with_its_largest_terms)
{
    struct tutti_plan_answer answer;
    struct tutti_err err = {""};
    struct world w;

    open_world(&w, "dgx-h100", "llama3-405b", 0, 8);
    answer = search(&w);
    CHECK_INT(answer.best_count, 0);
    CHECK_INT(answer.front_count, 0);
    CHECK(answer.has_nearest);
    CHECK_INT(answer.counts.pruned, 0);
    CHECK_INT(tutti_plan_refuse(&w.ask, &answer, &err), -TUTTI_EINVAL);
    printf("%s\n", err.text);
    CHECK(strstr(err.text, "weights ") != NULL);
    CHECK(strstr(err.text, "GiB a device") != NULL);
    tutti_plan_answer_done(&answer);
    w.space.tensor = (struct tutti_plan_values){1, {3}};
    answer = search(&w);
    CHECK_INT(tutti_plan_refuse(&w.ask, &answer, &err), -TUTTI_EINVAL);
    CHECK(strstr(err.text, "as asked") != NULL);
    tutti_plan_answer_done(&answer);
    close_world(&w);
}

/* More devices are faster and dearer: all three are on the front; the deadline leaves the cheapest
 * of those in time in front, and what is late behind. */
TEST(deadline_and_budget_rank)
{
    struct tutti_plan_answer answer;
    struct tutti_plan_answer late;
    struct tutti_err err;
    struct world w;

    open_world(&w,
               "switch:n=8,bw=50GB/s,lat=1us switch:n=16,bw=50GB/s,lat=1us "
               "switch:n=32,bw=50GB/s,lat=1us",
               "gpt", 24, 64);
    CHECK_OK(tutti_accelerator_find("h100", &w.ask.use.accelerator, &err), err);
    w.space.pipeline = (struct tutti_plan_values){1, {1}};
    w.space.tensor = (struct tutti_plan_values){2, {1, 2}};
    w.ask.steps = 100000;
    w.ask.best_count = 60;
    answer = search(&w);
    CHECK_INT(answer.front_count, 3);
    CHECK_INT(answer.best[0].device_count, 32);
    CHECK_INT(answer.front[0].device_count, 8);
    for (uint32_t i = 1; i < answer.front_count; i++) {
        CHECK(answer.front[i].time_us < answer.front[i - 1].time_us);
        CHECK(answer.front[i].cost.money > answer.front[i - 1].cost.money);
    }
    w.ask.goal = TUTTI_PLAN_MONEY;
    w.ask.deadline_us = answer.front[1].time_us;
    late = search(&w);
    CHECK_INT(late.best[0].device_count, 16);
    CHECK_INT(late.front_count, 2);
    CHECK(late.best[0].in_time && !late.best[late.best_count - 1].in_time);
    tutti_plan_answer_done(&late);
    w.ask.goal = TUTTI_PLAN_TIME;
    w.ask.deadline_us = 0;
    w.ask.budget = answer.front[0].cost.money;
    late = search(&w);
    CHECK(same(&late.best[0], &answer.front[0]));
    tutti_plan_answer_done(&late);
    tutti_plan_answer_done(&answer);
    close_world(&w);
}

/* Among plans that are given those are ranked as a search ranks them, each once, and no others. */
TEST(given_plans_alone)
{
    struct tutti_plan_answer answer;
    struct tutti_plan_answer again;
    struct tutti_plan_setting given[3];
    struct world w;

    open_world(&w, "dgx-h100", "gpt", 24, 64);
    answer = search(&w);
    CHECK(answer.best_count > 2);
    given[0] = answer.best[2].plan;
    given[1] = answer.best[1].plan;
    given[2] = given[0];
    w.ask.given = given;
    w.ask.given_count = 3;
    again = search(&w);
    CHECK_INT(again.counts.tried, 2);
    CHECK_INT(again.counts.folded, 1);
    CHECK_INT(again.best_count, 2);
    CHECK(same(&again.best[0], &answer.best[1]));
    CHECK(same(&again.best[1], &answer.best[2]));
    tutti_plan_answer_done(&again);
    tutti_plan_answer_done(&answer);
    close_world(&w);
}

/* ---- exact prices ---------------------------------------------------------------------------- */

/* What is printed is priced as who asks for that one step is told, in that order, and no two differ
 * in context parallelism alone and take as long. */
static void check_exact(const struct world *w, const struct tutti_plan_answer *answer)
{
    struct tutti_plan_ask ask;
    struct tutti_err err;

    CHECK_OK(plan_ask_take(&w->ask, &ask, &err), err);
    ask.exact = true;
    for (uint32_t i = 0; i < answer->best_count; i++) {
        const struct tutti_plan_found *f = &answer->best[i];
        const struct plan_field field = plan_field_of(&ask, f->plan.machine);
        struct tutti_plan_found again;

        CHECK_OK(plan_price(&field, &f->plan, &again, &err), err);
        CHECK(f->exact);
        CHECK_INT(f->step_ps, again.step_ps);
        CHECK(i == 0 || answer->best[i - 1].step_ps <= f->step_ps);
        for (uint32_t k = 0; k < i; k++)
            CHECK(!plan_is_alike(&answer->best[k], f));
    }
}

TEST(what_comes_first_is_priced_exactly)
{
    struct tutti_plan_answer answer;
    struct tutti_plan_answer whole;
    struct world w;
    uint32_t alike = 0;

    open_world(&w, "dgx-h100:nodes=4", "llama3-8b", 0, 64);
    answer = search(&w);
    check_exact(&w, &answer);
    for (uint32_t i = 0; i < answer.best_count; i++)
        alike += answer.best[i].alike_count;
    printf("%u are alike\n", alike);
    CHECK(alike > 0);
    w.ask.exact = true;
    whole = search(&w);
    CHECK_INT(answer.best_count, whole.best_count);
    for (uint32_t i = 0; i < answer.best_count; i++)
        CHECK_INT(answer.best[i].step_ps, whole.best[i].step_ps);
    tutti_plan_answer_done(&answer);
    tutti_plan_answer_done(&whole);
    close_world(&w);
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* With as little memory as a turn says another division wins, with a little more it does not. */
TEST(what_turns_the_order_turns_it)
{
    struct tutti_plan_turn turns[TUTTI_PLAN_TURN_COUNT];
    struct tutti_plan_answer answer;
    struct tutti_plan_answer then;
    struct tutti_err err;
    struct world w;
    uint32_t seen = 0;

    open_world(&w, "dgx-h100", "llama3-8b", 0, 64);
    answer = search(&w);
    CHECK_OK(tutti_plan_turns(&w.ask, &answer, turns, &err), err);
    for (int i = 0; i < TUTTI_PLAN_TURN_COUNT; i++)
        seen += turns[i].turns;
    printf("%u turn the order\n", seen);
    CHECK(turns[TUTTI_PLAN_LESS_MEMORY].turns);
    w.ask.memory_ppm = (uint64_t)(1e6 * turns[TUTTI_PLAN_LESS_MEMORY].factor);
    then = search(&w);
    CHECK(tutti_plan_same_division(&then.best[0].plan, &turns[TUTTI_PLAN_LESS_MEMORY].first.plan));
    CHECK(!tutti_plan_same_division(&then.best[0].plan, &answer.best[0].plan));
    tutti_plan_answer_done(&then);
    w.ask.memory_ppm += 100;
    then = search(&w);
    CHECK(tutti_plan_same_division(&then.best[0].plan, &answer.best[0].plan));
    tutti_plan_answer_done(&then);
    w.ask.memory_ppm = 0;
    for (int kind = TUTTI_PLAN_SMALLER_BATCH; kind <= TUTTI_PLAN_LARGER_BATCH; kind++) {
        w.ask.global_batch = (uint64_t)(64 * turns[kind].factor);
        CHECK(turns[kind].is_asked);
        then = search(&w);
        CHECK_INT(then.best[0].step_ps, turns[kind].first.step_ps);
        CHECK(!turns[kind].turns ||
              !tutti_plan_same_division(&then.best[0].plan, &answer.best[0].plan));
        tutti_plan_answer_done(&then);
    }
    tutti_plan_answer_done(&answer);
    close_world(&w);
}

/* A batch that the best plan cannot have at all says nothing of what is faster. */
TEST(batches_are_of_whole_passes_of_the_best_plan)
{
    static const uint64_t batches[] = {24, 64};

    for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
        struct tutti_plan_turn turns[TUTTI_PLAN_TURN_COUNT];
        struct tutti_plan_answer answer;
        struct tutti_err err;
        struct world w;

        open_world(&w, i == 0 ? "dgx-h100" : "dgx-h100:nodes=4", "llama3-8b", 0, batches[i]);
        answer = search(&w);
        CHECK_OK(tutti_plan_turns(&w.ask, &answer, turns, &err), err);
        for (int kind = TUTTI_PLAN_SMALLER_BATCH; kind <= TUTTI_PLAN_LARGER_BATCH; kind++) {
            double batch = (double)batches[i] * turns[kind].factor;

            CHECK(!turns[kind].is_asked ||
                  (uint64_t)(batch + 0.5) % answer.best[0].plan.parallel.data == 0);
            CHECK(!turns[kind].turns ||
                  (double)turns[kind].best_ps > 1.0009 * (double)turns[kind].first.step_ps);
        }
        CHECK(turns[TUTTI_PLAN_LARGER_BATCH].is_asked);
        tutti_plan_answer_done(&answer);
        close_world(&w);
    }
}

/* The machine with another network is the preset with another key. */
TEST(a_network_of_another_rate_is_a_machine_of_its_own)
{
    static const struct {
        const char *spec;
        const char *scaled; /* twice as fast; NULL: there is none */
    } cases[] = {
        {"dgx-h100:nodes=2", "dgx-h100:nodes=2,nicbw=100000000000B/s"},
        {"dgx-h100:nicbw=10GB/s,nodes=2,lat=1us", "dgx-h100:nodes=2,lat=1us,nicbw=20000000000B/s"},
        {"rail:nodes=2", "rail:nodes=2,nic=100000000000B/s"},
        {"host:nodes=2,gpus=4", "host:nodes=2,gpus=4,nic=100000000000B/s"},
        {"tpu-v4:4x4x4", "tpu-v4:4x4x4,bw=90000000000B/s"},
        {"dgx-h100", NULL}, /* of one host */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_topo *topo = machine(cases[i].spec);
        struct tutti_topo *scaled = NULL;
        struct tutti_err err;

        CHECK_OK(plan_network_scaled(topo, 2, &scaled, &err), err);
        CHECK((scaled == NULL) == (cases[i].scaled == NULL));
        if (scaled != NULL)
            CHECK_TEXT(scaled->name, cases[i].scaled);
        tutti_topo_free(scaled);
        tutti_topo_free(topo);
    }
}

/* ---- bad questions --------------------------------------------------------------------------- */

TEST(questions_that_are_none)
{
    struct tutti_plan_answer answer;
    struct tutti_err err;
    struct world w;

    open_world(&w, "dgx-h100", "gpt", 4, 64);
    w.ask.global_batch = 0;
    CHECK_INT(tutti_plan_search(&w.ask, &answer, &err), -TUTTI_EINVAL);
    w.ask.global_batch = 64;
    w.ask.best_count = 1 << 20;
    CHECK_INT(tutti_plan_search(&w.ask, &answer, &err), -TUTTI_EINVAL);
    w.ask.best_count = 0;
    w.space.tensor.count = TUTTI_PLAN_VALUES_MAX + 1;
    CHECK_INT(tutti_plan_search(&w.ask, &answer, &err), -TUTTI_EINVAL);
    w.space.size = 0;
    CHECK_INT(tutti_plan_search(&w.ask, &answer, &err), -TUTTI_EINVAL);
    w.ask.machine_count = 0;
    CHECK_INT(tutti_plan_search(&w.ask, &answer, &err), -TUTTI_EINVAL);
    w.ask.machine_count = 1;
    close_world(&w);
}

static int small_search(const struct world *w, struct tutti_err *err)
{
    struct tutti_plan_turn turns[TUTTI_PLAN_TURN_COUNT];
    struct tutti_plan_answer answer = {.best = NULL};
    struct tutti_plan_ask ask = w->ask;
    int status;

    ask.memory = NULL;
    status = tutti_plan_search(&ask, &answer, err);
    if (status == 0)
        status = tutti_plan_turns(&ask, &answer, turns, err);
    tutti_plan_answer_done(&answer);
    return status;
}

TEST(a_search_without_memory_ends_cleanly)
{
    struct tutti_err err;
    struct world w;

    open_world(&w, "switch:n=1", "gpt", 2, 2);
    CHECK_OK(tutti_accelerator_find("a100", &w.ask.use.accelerator, &err), err);
    w.space.recomputes = 1u << TUTTI_RECOMPUTE_NONE;
    w.space.shardings = 1u << TUTTI_SHARD_NONE;
    w.space.tensor = (struct tutti_plan_values){1, {1}};
    ALLOC_FAIL_EACH(small_search(&w, &err), err);
    close_world(&w);
    tutti_train_memory_free(memory);
    memory = NULL;
}
