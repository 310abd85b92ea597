/* Plans as a table, CSV, or JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "build.h"
#include "runtime/model.h"
#include "runtime/status.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/plan/amounts.h"
#include "tools/plan/plan.h"
#include "tools/sink.h"
#include "topo/topo.h"

enum { COLUMNS = 25 };

static const struct tutti_column columns[COLUMNS] = {
    {"rank", NULL, "", TUTTI_CELL_COUNT},
    {"front", NULL, "", TUTTI_CELL_BOOL},
    {"spec", "machine", "", TUTTI_CELL_TEXT},
    {"topology", NULL, "", TUTTI_CELL_TEXT},
    {"devices", "devices", "", TUTTI_CELL_COUNT},
    {"tp", "TP", "", TUTTI_CELL_COUNT},
    {"pp", "PP", "", TUTTI_CELL_COUNT},
    {"vp", "VP", "", TUTTI_CELL_COUNT},
    {"cp", "CP", "", TUTTI_CELL_COUNT},
    {"ep", "EP", "", TUTTI_CELL_COUNT},
    {"dp", "DP", "", TUTTI_CELL_COUNT},
    {"zero", "ZeRO", "", TUTTI_CELL_COUNT},
    {"sp", NULL, "", TUTTI_CELL_BOOL},
    {"pipeline", NULL, "", TUTTI_CELL_TEXT},
    {"micro_batch", "batch", "", TUTTI_CELL_COUNT},
    {"micro_batches", "x", "", TUTTI_CELL_COUNT},
    {"recompute", "recompute", "", TUTTI_CELL_TEXT},
    {"step_time_s", "step", "s", TUTTI_CELL_NUMBER},
    {"tokens_per_s", NULL, "", TUTTI_CELL_NUMBER},
    {"mfu_percent", "MFU", "%", TUTTI_CELL_NUMBER},
    {"memory_GB", "memory", "GB", TUTTI_CELL_NUMBER},
    {"days", "days", "", TUTTI_CELL_NUMBER},
    {"cost_millions", "cost", "million", TUTTI_CELL_NUMBER},
    {"in_time", NULL, "", TUTTI_CELL_BOOL},
    {"in_budget", NULL, "", TUTTI_CELL_BOOL},
};

/* ---- words ----------------------------------------------------------------------------------- */

const char *tutti_plan_text(const struct tutti_plan_setting *plan, bool whole, char *buf)
{
    const struct tutti_parallel *p = &plan->parallel;
    char context[24] = "";
    char expert[24] = "";
    char chunks[24] = "";
    char sharding[24] = "";
    char recompute[32] = "";

    if (p->context > 1)
        (void)snprintf(context, sizeof(context), " CP%" PRIu32, p->context);
    if (p->expert > 1)
        (void)snprintf(expert, sizeof(expert), " EP%" PRIu32, p->expert);
    if (whole && p->virtual_stages > 1)
        (void)snprintf(chunks, sizeof(chunks), " VP%" PRIu32, p->virtual_stages);
    if (whole && p->sharding != TUTTI_SHARD_NONE)
        (void)snprintf(sharding, sizeof(sharding), ", ZeRO-%d", (int)p->sharding);
    if (whole && plan->recompute != TUTTI_RECOMPUTE_NONE)
        (void)snprintf(recompute, sizeof(recompute), ", recompute %s",
                       tutti_recompute_name(plan->recompute));
    (void)snprintf(buf, TUTTI_PLAN_TEXT_BYTES, "TP%" PRIu32 " PP%" PRIu32 "%s%s%s DP%" PRIu32,
                   p->tensor, p->pipeline, chunks, context, expert, p->data);
    if (whole) {
        size_t used = strlen(buf);

        (void)snprintf(buf + used, TUTTI_PLAN_TEXT_BYTES - used,
                       " with micro-batches of %" PRIu32 "%s%s", p->micro_batch, sharding,
                       recompute);
    }
    return buf;
}

const char *tutti_plan_place(const struct tutti_plan_question *q, uint32_t machine, char *buf,
                             size_t buf_bytes)
{
    const struct tutti_topo *topo = q->machines[machine].topo;

    buf[0] = '\0';
    if (q->spec_count > 1)
        (void)snprintf(buf, buf_bytes, " on %s", topo->name);
    else if (q->machine_count > 1)
        (void)snprintf(buf, buf_bytes, " on %" PRIu32 " devices", topo->rank_count);
    return buf;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool on_front(const struct tutti_plan_answer *answer, const struct tutti_plan_found *found)
{
    for (uint32_t i = 0; i < answer->front_count; i++)
        if (tutti_plan_same_division(&answer->front[i].plan, &found->plan))
            return true;
    return false;
}

static int add_row(const struct tutti_plan_question *q, const struct tutti_plan_answer *answer,
                   const struct tutti_plan_found *f, uint32_t rank, struct tutti_table *table,
                   struct tutti_err *err)
{
    const struct tutti_parallel *p = &f->plan.parallel;
    int status = tutti_table_add(
        table, (uint64_t)rank, (int)on_front(answer, f),
        q->specs[q->machine_spec[f->plan.machine]]->name, q->machines[f->plan.machine].topo->name,
        (uint64_t)f->device_count, (uint64_t)p->tensor, (uint64_t)p->pipeline,
        (uint64_t)p->virtual_stages, (uint64_t)p->context, (uint64_t)p->expert, (uint64_t)p->data,
        (uint64_t)p->sharding, (int)p->sequence_parallel, tutti_pipeline_name(p->schedule),
        (uint64_t)p->micro_batch, (uint64_t)p->micro_batches,
        tutti_recompute_name(f->plan.recompute), (double)f->step_ps / 1e12,
        f->tokens_per_s > 0 ? f->tokens_per_s : NAN, f->mfu_percent,
        (double)f->footprint.total_bytes / 1e9, q->ends ? (double)f->time_us / 86400e6 : NAN,
        q->ends && f->cost.has_money ? (double)f->cost.money / 1e12 : NAN, (int)f->in_time,
        (int)f->in_budget);

    return status < 0 ? tutti_nomem(err) : 0;
}

/* Columns of what is nowhere more than one, and of what was not asked, are left out of a page; and
 * of what follows from others, where machines need room. */
static void choose_columns(const struct tutti_plan_question *q,
                           const struct tutti_plan_answer *answer, struct tutti_column ret[COLUMNS])
{
    bool chunks = false;
    bool context = false;
    bool expert = false;

    memcpy(ret, columns, sizeof(columns));
    for (uint32_t i = 0; i < answer->best_count + answer->each_count;
         i++) { /* the front is of each */
        const struct tutti_parallel *p = i < answer->best_count
                                             ? &answer->best[i].plan.parallel
                                             : &answer->each[i - answer->best_count].plan.parallel;

        chunks |= p->virtual_stages > 1;
        context |= p->context > 1;
        expert |= p->expert > 1;
    }
    for (size_t i = 0; i < COLUMNS; i++) {
        const char *key = ret[i].key;

        if ((!chunks && strcmp(key, "vp") == 0) || (!context && strcmp(key, "cp") == 0) ||
            (!expert && strcmp(key, "ep") == 0) ||
            (q->spec_count == 1 && strcmp(key, "spec") == 0) ||
            (q->machine_count == 1 && strcmp(key, "devices") == 0) ||
            (q->spec_count > 1 && strcmp(key, "micro_batches") == 0) ||
            (q->spec_count > 1 && q->ends && strcmp(key, "step_time_s") == 0) ||
            (!q->ends && (strcmp(key, "days") == 0 || strcmp(key, "cost_millions") == 0)))
            ret[i].title = NULL;
    }
}

static int fill(const struct tutti_plan_question *q, const struct tutti_plan_answer *answer,
                const struct tutti_plan_found *found, uint32_t count, bool ranked,
                struct tutti_table *table, struct tutti_err *err)
{
    int status = table == NULL ? tutti_nomem(err) : 0;

    for (uint32_t i = 0; i < count && status == 0; i++)
        status = add_row(q, answer, &found[i], ranked ? i + 1 : 0, table, err);
    return status;
}

/* ---- the page -------------------------------------------------------------------------------- */

static void print_training(const struct tutti_plan_question *q, FILE *out)
{
    const struct tutti_plan_ask *ask = &q->ask;
    bool sequences = q->model->sample == TUTTI_SAMPLE_SEQUENCE;
    char number[TUTTI_NUMBER_TEXT_BYTES];
    char text[TUTTI_DURATION_TEXT_BYTES];

    fprintf(out, "# training: %" PRIu64 " %ss a step", ask->global_batch,
            tutti_sample_name(q->model->sample));
    if (sequences)
        fprintf(out, ", %s million tokens",
                tutti_number_text((double)ask->global_batch * q->model->sequence / 1e6, number));
    if (q->ends)
        fprintf(out, "; %" PRIu64 " steps", ask->steps);
    if (ask->deadline_us > 0)
        fprintf(out, ", in %s at most", tutti_duration_text((double)ask->deadline_us / 1e6, text));
    if (ask->budget > 0)
        fprintf(out, ", for %s million at most",
                tutti_number_text((double)ask->budget / 1e12, number));
    fputc('\n', out);
}

static void print_head(const struct tutti_plan_question *q, const struct tutti_plan_result *result,
                       FILE *out)
{
    static const char *const goals[TUTTI_PLAN_GOAL_COUNT] = {"time", "cost", "number of devices"};
    const struct tutti_plan_counts *c = &result->answer.counts;

    fprintf(out, "# tutti %s plan: %s on ", TUTTI_BUILD_VERSION, q->model->name);
    for (uint32_t i = 0; i < q->spec_count; i++)
        fprintf(out, "%s%s", i > 0 ? " or " : "", q->specs[i]->name);
    fprintf(out, ", %s of %s, by %s\n", tutti_precision_name(q->ask.use.precision),
            q->framework.name, goals[q->ask.goal]);
    print_training(q, out);
    fprintf(out,
            "# tried:    %" PRIu64 " configurations in %.2f CPU-s: %" PRIu64 " do not go together, "
            "%" PRIu64 " do not fit, %" PRIu64 " cannot be among the best, %" PRIu64
            " predicted; %" PRIu64 " more are the same as one of them\n",
            c->tried, result->cpu_s, c->refused, c->too_large, c->pruned, c->predicted, c->folded);
    if (q->ends)
        fprintf(out, "# cost:     %s, prices of %s (--prices)\n", tutti_prices_currency(q->prices),
                tutti_prices_date(q->prices));
    if (q->calib.given)
        fprintf(out, "# costs:    %s; %zu constant%s of %s\n", tutti_calib_option_title(&q->calib),
                q->calibrated_count, q->calibrated_count == 1 ? "" : "s", q->framework.name);
}

/* The best of each machine as it was named, whatever its size. */
static int print_each(const struct tutti_plan_question *q, const struct tutti_plan_answer *answer,
                      const struct tutti_column *shown, const struct tutti_page *page,
                      struct tutti_err *err)
{
    struct tutti_table *table = tutti_table_new(shown, COLUMNS);
    int status = table == NULL ? tutti_nomem(err) : 0;

    for (uint32_t s = 0; s < q->spec_count && status == 0; s++) {
        const struct tutti_plan_found *best = NULL;

        for (uint32_t i = 0; i < answer->each_count; i++)
            if (q->machine_spec[answer->each[i].plan.machine] == s &&
                (best == NULL || tutti_plan_is_better(q->ask.goal, &answer->each[i], best)))
                best = &answer->each[i];
        if (best != NULL)
            status = add_row(q, answer, best, 0, table, err);
        else
            fprintf(page->out, "# left out: %s, which nothing fits\n", q->specs[s]->name);
    }
    if (status == 0) {
        fputs("# machines: the best of each\n", page->out);
        tutti_table_print(table, page);
    }
    tutti_table_free(table);
    return status;
}

/* What no plan keeps, and by how much the first misses it. */
static void print_missed(const struct tutti_plan_question *q, const struct tutti_plan_found *best,
                         FILE *out)
{
    char text[TUTTI_DURATION_TEXT_BYTES];

    if (best->in_time && best->in_budget)
        return;
    fputs("# missed:   no plan is", out);
    if (!best->in_time)
        fprintf(out, " in time (this one takes %s)",
                tutti_duration_text((double)best->time_us / 1e6, text));
    if (!best->in_budget)
        fprintf(out, "%s in budget (this one costs %.4g million)", best->in_time ? "" : " and",
                (double)best->cost.money / 1e12);
    fprintf(out, "; ranked by %s all the same\n",
            q->ask.goal == TUTTI_PLAN_MONEY ? "cost" : "time");
}

static void print_degree(const char *option, uint32_t degree, FILE *out)
{
    if (degree > 1)
        fprintf(out, " --%s %" PRIu32, option, degree);
}

/* The words by which `tutti train` takes the first plan apart. */
static void print_command(const struct tutti_args *args, const struct tutti_plan_question *q,
                          const struct tutti_plan_setting *plan, FILE *out)
{
    static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};
    static const char *const passed[] = {"precision", "framework", "device",    "optimizer",
                                         "seq",       "vocab",     "attention", "calib"};
    const struct tutti_parallel *p = &plan->parallel;

    fprintf(out, "# train:    tutti train %s --model %s --strategy %s",
            q->machines[plan->machine].topo->name, tutti_args_text(args, "model"),
            strategies[p->sharding]);
    print_degree("tp", p->tensor, out);
    print_degree("pp", p->pipeline, out);
    print_degree("vp", p->virtual_stages, out);
    print_degree("cp", p->context, out);
    print_degree("ep", p->expert, out);
    fprintf(out, " --dp %" PRIu32 " --global-batch %" PRIu64 " --micro-batch %" PRIu32, p->data,
            q->ask.global_batch, p->micro_batch);
    if (p->pipeline > 1 && p->schedule != TUTTI_PIPELINE_1F1B &&
        p->schedule != TUTTI_PIPELINE_INTERLEAVED)
        fprintf(out, " --pipeline %s", tutti_pipeline_name(p->schedule));
    if (p->tensor > 1 && !p->sequence_parallel)
        fputs(" --sp off", out);
    if (p->context_kind != TUTTI_CONTEXT_RING)
        fprintf(out, " --context %s", tutti_context_name(p->context_kind));
    if (plan->recompute != TUTTI_RECOMPUTE_NONE)
        fprintf(out, " --recompute %s", tutti_recompute_name(plan->recompute));
    if (!tutti_args_given(args, "framework") && q->model->sample != TUTTI_SAMPLE_SEQUENCE)
        fprintf(out, " --framework %s", q->framework.name);
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
        if (tutti_args_given(args, passed[i]))
            fprintf(out, " --%s %s", passed[i], tutti_args_text(args, passed[i]));
    fputc('\n', out);
}

static int print_page(const struct tutti_args *args, const struct tutti_plan_question *q,
                      const struct tutti_plan_result *result, struct tutti_sink *sink,
                      struct tutti_err *err)
{
    const struct tutti_plan_answer *answer = &result->answer;
    struct tutti_column shown[COLUMNS];
    struct tutti_table *best = NULL;
    struct tutti_table *front = NULL;
    struct tutti_page page;
    int status = tutti_page_open(&page, sink, err);

    if (status < 0)
        return status;
    choose_columns(q, answer, shown);
    best = tutti_table_new(shown, COLUMNS);
    front = tutti_table_new(shown, COLUMNS);
    status = fill(q, answer, answer->best, answer->best_count, true, best, err);
    if (status == 0)
        status = fill(q, answer, answer->front, answer->front_count, false, front, err);
    if (status == 0) {
        print_head(q, result, page.out);
        tutti_table_print(best, &page);
        print_missed(q, &answer->best[0], page.out);
        tutti_plan_why(q, result, page.out);
        print_command(args, q, &answer->best[0].plan, page.out);
        if (q->spec_count > 1)
            status = print_each(q, answer, shown, &page, err);
        if (q->machine_count > 1) {
            fputs("# front:    nothing is better in one of time, cost and devices and as good in "
                  "the others\n",
                  page.out);
            tutti_table_print(front, &page);
        }
        tutti_goodput_print(&q->goodput, &result->goodput, page.out);
    }
    tutti_table_free(best);
    tutti_table_free(front);
    return tutti_page_close(&page, status, err);
}

/* The best, then what else is on the front. */
static int print_csv(const struct tutti_plan_question *q, const struct tutti_plan_answer *answer,
                     struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_table *table = tutti_table_new(columns, COLUMNS);
    int status = fill(q, answer, answer->best, answer->best_count, true, table, err);

    for (uint32_t i = 0; i < answer->front_count && status == 0; i++) {
        bool is_known = false;

        for (uint32_t k = 0; k < answer->best_count; k++)
            is_known |= tutti_plan_same_division(&answer->best[k].plan, &answer->front[i].plan);
        if (!is_known)
            status = add_row(q, answer, &answer->front[i], 0, table, err);
    }
    if (status == 0)
        tutti_table_csv(table, sink->out);
    tutti_table_free(table);
    return status;
}

int tutti_plan_print(const struct tutti_args *args, const struct tutti_plan_question *q,
                     const struct tutti_plan_result *result, struct tutti_sink *sink,
                     struct tutti_err *err)
{
    if (tutti_args_is(args, "format", "csv"))
        return print_csv(q, &result->answer, sink, err);
    if (tutti_args_is(args, "format", "table"))
        return print_page(args, q, result, sink, err);
    tutti_plan_print_json(q, result, sink);
    return 0;
}
