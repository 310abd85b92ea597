/* Plans as JSON. */
#include <math.h>
#include <stdio.h>

#include "build.h"
#include "runtime/model.h"
#include "tools/cli/json.h"
#include "tools/plan/plan.h"
#include "tools/sink.h"
#include "topo/topo.h"

static void print_memory(const struct tutti_footprint *f, struct tutti_json *json)
{
    tutti_json_open(json, "memory", '{');
    tutti_json_count(json, "stage", f->stage);
    tutti_json_number(json, "GB", (double)f->total_bytes / 1e9);
    tutti_json_number(json, "capacity_GB",
                      f->capacity_bytes > 0 ? (double)f->capacity_bytes / 1e9 : NAN);
    tutti_json_open(json, "terms", '{');
    for (uint32_t i = 0; i < TUTTI_MEMORY_TERM_COUNT; i++)
        if (f->bytes[i] > 0)
            tutti_json_number(json, tutti_memory_term_name((enum tutti_memory_term)i),
                              (double)f->bytes[i] / 1e9);
    tutti_json_close(json);
    tutti_json_close(json);
}

static void print_setting(const struct tutti_plan_setting *plan, struct tutti_json *json)
{
    const struct tutti_parallel *p = &plan->parallel;

    tutti_json_count(json, "tp", p->tensor);
    tutti_json_count(json, "pp", p->pipeline);
    tutti_json_count(json, "vp", p->virtual_stages);
    tutti_json_count(json, "cp", p->context);
    tutti_json_count(json, "ep", p->expert);
    tutti_json_count(json, "dp", p->data);
    tutti_json_count(json, "zero", (uint64_t)p->sharding);
    tutti_json_bool(json, "sp", p->sequence_parallel);
    tutti_json_text(json, "pipeline", tutti_pipeline_name(p->schedule));
    tutti_json_text(json, "context", p->context > 1 ? tutti_context_name(p->context_kind) : NULL);
    tutti_json_count(json, "micro_batch", p->micro_batch);
    tutti_json_count(json, "micro_batches", p->micro_batches);
    tutti_json_text(json, "recompute", tutti_recompute_name(plan->recompute));
}

static void print_found(const struct tutti_plan_question *q, const struct tutti_plan_found *f,
                        const char *key, struct tutti_json *json)
{
    tutti_ps parts[TUTTI_PLAN_PARTS];

    tutti_json_open(json, key, '{');
    tutti_json_text(json, "topology", q->machines[f->plan.machine].topo->name);
    tutti_json_count(json, "devices", f->device_count);
    print_setting(&f->plan, json);
    tutti_json_number(json, "step_time_s", (double)f->step_ps / 1e12);
    tutti_json_number(json, "tokens_per_s", f->tokens_per_s > 0 ? f->tokens_per_s : NAN);
    tutti_json_number(json, "mfu_percent", f->mfu_percent);
    tutti_json_number(json, "days", q->ends ? (double)f->time_us / 86400e6 : NAN);
    tutti_json_number(json, "cost",
                      q->ends && f->cost.has_money ? (double)f->cost.money / 1e6 : NAN);
    tutti_json_bool(json, "in_time", f->in_time);
    tutti_json_bool(json, "in_budget", f->in_budget);
    tutti_json_bool(json, "exact", f->exact);
    tutti_json_count(json, "alike", f->alike_count);
    tutti_plan_parts(&f->split, parts);
    tutti_json_open(json, "breakdown_s", '{');
    for (int i = 0; i < TUTTI_PLAN_PARTS; i++)
        tutti_json_number(json, tutti_plan_part_keys[i], (double)parts[i] / 1e12);
    tutti_json_close(json);
    print_memory(&f->footprint, json);
    tutti_json_open(json, "cautions", '[');
    for (int i = 0; i < TUTTI_PLAN_CAUTION_COUNT; i++)
        if (f->cautions & 1u << i)
            tutti_json_text(json, NULL, tutti_plan_caution_text((enum tutti_plan_caution)i));
    tutti_json_close(json);
    tutti_json_close(json);
}

static void print_turns(const struct tutti_plan_question *q, const struct tutti_plan_result *result,
                        struct tutti_json *json)
{
    tutti_json_open(json, "turns", '[');
    for (int i = 0; i < TUTTI_PLAN_TURN_COUNT && q->turns; i++) {
        const struct tutti_plan_turn *t = &result->turns[i];

        if (!t->is_asked)
            continue;
        tutti_json_open(json, NULL, '{');
        tutti_json_text(json, "what", tutti_plan_turn_keys[i]);
        tutti_json_number(json, "factor", t->factor);
        tutti_json_bool(json, "turns", t->turns);
        print_setting(&t->first.plan, json);
        tutti_json_number(json, "step_time_s", (double)t->first.step_ps / 1e12);
        tutti_json_number(json, "best_step_time_s",
                          t->best_ps > 0 ? (double)t->best_ps / 1e12 : NAN);
        tutti_json_close(json);
    }
    tutti_json_close(json);
}

void tutti_plan_print_json(const struct tutti_plan_question *q,
                           const struct tutti_plan_result *result, struct tutti_sink *sink)
{
    static const char *const goals[TUTTI_PLAN_GOAL_COUNT] = {"time", "money", "devices"};
    const struct tutti_plan_answer *answer = &result->answer;
    const struct tutti_plan_counts *c = &answer->counts;
    struct tutti_json json = {.out = sink->out};

    tutti_json_open(&json, NULL, '{');
    tutti_json_text(&json, "tutti", TUTTI_BUILD_VERSION);
    tutti_json_text(&json, "model", q->model->name);
    tutti_json_text(&json, "precision", tutti_precision_name(q->ask.use.precision));
    tutti_json_text(&json, "framework", q->framework.name);
    tutti_json_count(&json, "global_batch", q->ask.global_batch);
    tutti_json_number(&json, "steps", q->ends ? (double)q->ask.steps : NAN);
    tutti_json_text(&json, "by", goals[q->ask.goal]);
    tutti_json_text(&json, "currency", tutti_prices_currency(q->prices));
    tutti_json_open(&json, "counts", '{');
    tutti_json_count(&json, "tried", c->tried);
    tutti_json_count(&json, "refused", c->refused);
    tutti_json_count(&json, "too_large", c->too_large);
    tutti_json_count(&json, "pruned", c->pruned);
    tutti_json_count(&json, "predicted", c->predicted);
    tutti_json_count(&json, "folded", c->folded);
    tutti_json_close(&json);
    tutti_json_open(&json, "plans", '[');
    for (uint32_t i = 0; i < answer->best_count; i++)
        print_found(q, &answer->best[i], NULL, &json);
    tutti_json_close(&json);
    tutti_json_open(&json, "front", '[');
    for (uint32_t i = 0; i < answer->front_count; i++)
        print_found(q, &answer->front[i], NULL, &json);
    tutti_json_close(&json);
    tutti_json_open(&json, "machines", '[');
    for (uint32_t i = 0; i < answer->each_count; i++)
        print_found(q, &answer->each[i], NULL, &json);
    tutti_json_close(&json);
    print_turns(q, result, &json);
    tutti_goodput_json(&q->goodput, &result->goodput, &json);
    tutti_json_close(&json);
}
