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

enum { COLUMNS = 28 };

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
    {"sp", "SP", "", TUTTI_CELL_BOOL},
    {"pipeline", "pipeline", "", TUTTI_CELL_TEXT},
    {"context", "context", "", TUTTI_CELL_TEXT},
    {"micro_batch", "batch", "", TUTTI_CELL_COUNT},
    {"micro_batches", "x", "", TUTTI_CELL_COUNT},
    {"recompute", "recompute", "", TUTTI_CELL_TEXT},
    {"step_time_s", "step", "s", TUTTI_CELL_NUMBER},
    {"tokens_per_s", NULL, "", TUTTI_CELL_NUMBER},
    {"mfu_percent", "MFU", "%", TUTTI_CELL_NUMBER},
    {"memory_GB", "memory", "GB", TUTTI_CELL_NUMBER},
    {"days", "days", "", TUTTI_CELL_NUMBER},
    {"cost", "cost", "million", TUTTI_CELL_NUMBER}, /* in CSV in units of the currency */
    {"in_time", NULL, "", TUTTI_CELL_BOOL},
    {"in_budget", NULL, "", TUTTI_CELL_BOOL},
    {"exact", NULL, "", TUTTI_CELL_BOOL},
    {"alike", NULL, "", TUTTI_CELL_COUNT},
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

/* What a cost is told in. */
enum unit { ONES = 1, MILLIONS = 1000000 };

static int add_row(const struct tutti_plan_question *q, const struct tutti_plan_answer *answer,
                   const struct tutti_plan_found *f, uint32_t rank, enum unit unit,
                   struct tutti_table *table, struct tutti_err *err)
{
    const struct tutti_parallel *p = &f->plan.parallel;
    int status = tutti_table_add(
        table, (uint64_t)rank, (int)on_front(answer, f),
        q->specs[q->machine_spec[f->plan.machine]]->name, q->machines[f->plan.machine].topo->name,
        (uint64_t)f->device_count, (uint64_t)p->tensor, (uint64_t)p->pipeline,
        (uint64_t)p->virtual_stages, (uint64_t)p->context, (uint64_t)p->expert, (uint64_t)p->data,
        (uint64_t)p->sharding, (int)p->sequence_parallel, tutti_pipeline_name(p->schedule),
        p->context > 1 ? tutti_context_name(p->context_kind) : "", (uint64_t)p->micro_batch,
        (uint64_t)p->micro_batches, tutti_recompute_name(f->plan.recompute),
        (double)f->step_ps / 1e12, f->tokens_per_s > 0 ? f->tokens_per_s : NAN, f->mfu_percent,
        (double)f->footprint.total_bytes / 1e9, q->ends ? (double)f->time_us / 86400e6 : NAN,
        q->ends && f->cost.has_money ? (double)f->cost.money / 1e6 / (double)unit : NAN,
        (int)f->in_time, (int)f->in_budget, (int)f->exact, (uint64_t)f->alike_count);

    return status < 0 ? tutti_nomem(err) : 0;
}

/* What some plan has that others or a reader would not expect. */
struct shown {
    bool chunks;
    bool context;
    bool expert;
    bool sequence; /* one divides tensors and not sequences, as 'train' would */
    bool pipeline;
    bool context_kind;
};

static void note_shown(const struct tutti_parallel *p, struct shown *s)
{
    s->chunks |= p->virtual_stages > 1;
    s->context |= p->context > 1;
    s->expert |= p->expert > 1;
    s->sequence |= p->tensor > 1 && !p->sequence_parallel;
    s->pipeline |= p->pipeline > 1 && p->schedule != TUTTI_PIPELINE_1F1B &&
                   p->schedule != TUTTI_PIPELINE_INTERLEAVED;
    s->context_kind |= p->context > 1 && p->context_kind != TUTTI_CONTEXT_RING;
}

/* Columns of what is nowhere more than one, or as one would expect it, and of what was not asked,
 * are left out of a page; and of what follows from others, where machines need room. */
static void choose_columns(const struct tutti_plan_question *q,
                           const struct tutti_plan_answer *answer, struct tutti_column ret[COLUMNS])
{
    struct shown s = {.chunks = false};

    memcpy(ret, columns, sizeof(columns));
    for (uint32_t i = 0; i < answer->best_count; i++)
        note_shown(&answer->best[i].plan.parallel, &s);
    for (uint32_t i = 0; i < answer->each_count; i++) /* the front is of each */
        note_shown(&answer->each[i].plan.parallel, &s);
    for (size_t i = 0; i < COLUMNS; i++) {
        const char *key = ret[i].key;

        if ((!s.chunks && strcmp(key, "vp") == 0) || (!s.context && strcmp(key, "cp") == 0) ||
            (!s.expert && strcmp(key, "ep") == 0) || (!s.sequence && strcmp(key, "sp") == 0) ||
            (!s.pipeline && strcmp(key, "pipeline") == 0) ||
            (!s.context_kind && strcmp(key, "context") == 0) ||
            (q->spec_count == 1 && strcmp(key, "spec") == 0) ||
            (q->machine_count == 1 && strcmp(key, "devices") == 0) ||
            (q->spec_count > 1 && strcmp(key, "micro_batches") == 0) ||
            (q->spec_count > 1 && (s.pipeline || s.context_kind) &&
             strcmp(key, "mfu_percent") == 0) ||
            (q->spec_count > 1 && q->ends && strcmp(key, "step_time_s") == 0) ||
            (!q->ends && (strcmp(key, "days") == 0 || strcmp(key, "cost") == 0)))
            ret[i].title = NULL;
    }
}

static int fill(const struct tutti_plan_question *q, const struct tutti_plan_answer *answer,
                const struct tutti_plan_found *found, uint32_t count, bool ranked, enum unit unit,
                struct tutti_table *table, struct tutti_err *err)
{
    int status = table == NULL ? tutti_nomem(err) : 0;

    for (uint32_t i = 0; i < count && status == 0; i++)
        status = add_row(q, answer, &found[i], ranked ? i + 1 : 0, unit, table, err);
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
            "# tried:    %" PRIu64 " configurations: %" PRIu64 " do not go together, "
            "%" PRIu64 " do not fit, %" PRIu64 " cannot be among the best, %" PRIu64
            " predicted; %" PRIu64 " more are the same as one of them\n",
            c->tried, c->refused, c->too_large, c->pruned, c->predicted, c->folded);
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
            status = add_row(q, answer, best, 0, MILLIONS, table, err);
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

/* What the table has otherwise than the search found it. */
static void print_order(const struct tutti_plan_question *q, const struct tutti_plan_answer *answer,
                        FILE *out)
{
    const struct tutti_plan_found *best = answer->best;
    char text[TUTTI_PLAN_TEXT_BYTES];
    char place[160];
    uint32_t alike = 0;
    uint32_t coarse = 0;
    uint32_t was_first = 0;
    bool moved = false;

    for (uint32_t i = 0; i < answer->best_count; i++) {
        alike += best[i].alike_count;
        coarse += !best[i].exact;
        was_first = best[i].coarse_rank < best[was_first].coarse_rank ? i : was_first;
        moved |= i > 0 && best[i].coarse_rank < best[i - 1].coarse_rank;
    }
    if (was_first > 0)
        fprintf(out,
                "# order:    exact prices of collectives; by the coarse ones of the search %s%s "
                "is first\n",
                tutti_plan_text(&best[was_first].plan, false, text),
                tutti_plan_place(q, best[was_first].plan.machine, place, sizeof(place)));
    else if (moved)
        fputs("# order:    exact prices of collectives; by the coarse ones of the search plans "
              "behind the first stand otherwise\n",
              out);
    if (coarse > 0)
        fprintf(out,
                "# coarse:   collectives of the last %" PRIu32 " plans are priced coarsely "
                "(--exact)\n",
                coarse);
    if (alike > 0)
        fprintf(out,
                "# alike:    %" PRIu32 " more division%s one of these in CP and DP alone and "
                "take%s as long, to 0.1 %%\n",
                alike, alike == 1 ? " differs from" : "s differ from", alike == 1 ? "s" : "");
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
    static const char *const passed[] = {"precision", "framework", "device", "optimizer",     "seq",
                                         "vocab",     "attention", "calib",  "gradient-bytes"};
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
    if (p->keep_weights)
        fputs(" --keep-weights", out);
    if (plan->recompute != TUTTI_RECOMPUTE_NONE)
        fprintf(out, " --recompute %s", tutti_recompute_name(plan->recompute));
    if (!tutti_args_given(args, "framework")) /* train's own choice is another now and then */
        fprintf(out, " --framework %s", q->framework.name);
    if (q->ask.synthetic)
        fputs(" --synthetic", out);
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
    status = fill(q, answer, answer->best, answer->best_count, true, MILLIONS, best, err);
    if (status == 0)
        status = fill(q, answer, answer->front, answer->front_count, false, MILLIONS, front, err);
    if (status == 0) {
        print_head(q, result, page.out);
        tutti_table_print(best, &page);
        print_order(q, answer, page.out);
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
    int status = fill(q, answer, answer->best, answer->best_count, true, ONES, table, err);

    for (uint32_t i = 0; i < answer->front_count && status == 0; i++) {
        bool is_known = false;

        for (uint32_t k = 0; k < answer->best_count; k++)
            is_known |= tutti_plan_same_division(&answer->best[k].plan, &answer->front[i].plan);
        if (!is_known)
            status = add_row(q, answer, &answer->front[i], 0, ONES, table, err);
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
