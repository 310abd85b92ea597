/* What `tutti run` prints; see run_page.h. */
#include "tools/run/run_page.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "build.h"
#include "runtime/backend.h"
#include "runtime/group.h"
#include "runtime/status.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/cli/shared_options.h"
#include "tools/run/run_emulate.h"
#include "tools/run/run_group.h"
#include "topo/topo.h"

static const struct tutti_column columns[] = {
    {"bytes", "size", "B", TUTTI_CELL_COUNT},
    {"count", "count", "elements", TUTTI_CELL_COUNT},
    {"type", NULL, "", TUTTI_CELL_TEXT}, /* these three are the same in all rows: */
    {"redop", NULL, "", TUTTI_CELL_TEXT},
    {"root", NULL, "", TUTTI_CELL_WHOLE}, /* the line above the table says them */
    {"algorithm", "algorithm", "", TUTTI_CELL_TEXT},
    {"protocol", NULL, "", TUTTI_CELL_TEXT}, /* shown with sim and --emulate */
    {"time_us", "time", "us", TUTTI_CELL_NUMBER},
    {"best_us", "best", "us", TUTTI_CELL_NUMBER}, /* shown with threads */
    {"algbw_GBps", "algbw", "GB/s", TUTTI_CELL_NUMBER},
    {"busbw_GBps", "busbw", "GB/s", TUTTI_CELL_NUMBER},
    {"wrong", "#wrong", "", TUTTI_CELL_WHOLE},
    {"in_place_time_us", NULL, "us", TUTTI_CELL_NUMBER}, /* these shown with in place */
    {"in_place_best_us", NULL, "us", TUTTI_CELL_NUMBER},
    {"in_place_algbw_GBps", NULL, "GB/s", TUTTI_CELL_NUMBER},
    {"in_place_busbw_GBps", NULL, "GB/s", TUTTI_CELL_NUMBER},
    {"in_place_wrong", NULL, "", TUTTI_CELL_WHOLE},
    {"host_us", NULL, "us", TUTTI_CELL_NUMBER},      /* shown with --report-cputime */
    {"predicted_us", NULL, "us", TUTTI_CELL_NUMBER}, /* shown with --predict and --emulate */
    {"error_percent", NULL, "%", TUTTI_CELL_NUMBER}, /* of time; likewise */
    {"estimate_us", NULL, "us", TUTTI_CELL_NUMBER},  /* shown with nccl --library: NCCL's own */
};

enum { COLUMN_COUNT = sizeof(columns) / sizeof(columns[0]) };

/* The same in JSON and CSV; the table shows what differs from row to row. Which columns it shows
 * besides, and which it does not. */
static void choose_columns(const struct tutti_run_command *run, const struct tutti_run_stage *stage,
                           struct tutti_column *shown)
{
    bool sim = stage->topo != NULL;
    bool emulated = stage->emulation != NULL;
    bool predicted = stage->local != NULL || emulated;
    bool in_place = run->perform.in_place;
    const struct {
        const char *key;
        const char *title;
        bool holds;
    } changes[] = {
        {"protocol", "protocol", sim || emulated},
        {"best_us", NULL, sim || in_place}, /* nccl-tests has none, and there are columns enough */
        {"count", NULL,
         predicted || in_place}, /* what is measured varies in width, and columns must not */
        {"predicted_us", "predicted", predicted},
        {"error_percent", "error", predicted},
        {"estimate_us", "estimate", run->library && run->backend->on_gpu},
        {"in_place_time_us", "time", in_place},
        {"in_place_algbw_GBps", "algbw", in_place},
        {"in_place_busbw_GBps", "busbw", in_place},
        {"in_place_wrong", "#wrong", in_place},
        {"host_us", "host", run->report_host},
    };

    memcpy(shown, columns, sizeof(columns));
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        for (size_t k = 0; k < sizeof(changes) / sizeof(changes[0]); k++)
            if (changes[k].holds && strcmp(columns[i].key, changes[k].key) == 0)
                shown[i].title = changes[k].title;
}

static double microseconds(tutti_ps ps)
{
    return (double)ps / (double)TUTTI_PS_PER_US;
}

static int add_row(struct tutti_table *table, const struct tutti_run_command *run,
                   const struct tutti_run_row *row)
{
    const struct tutti_coll_params *params = &run->perform.params;
    const struct tutti_performed *performed = &row->performed;
    const struct tutti_timed *apart = &performed->out_of_place;
    const struct tutti_timed *in_place = &performed->in_place;
    bool placed = performed->done_in_place;
    double time_us = microseconds(apart->time_ps);
    double predicted_us = row->predicted_ps > 0 ? microseconds(row->predicted_ps) : NAN;

    return tutti_table_add(
        table, performed->bytes, row->count, tutti_dtype_name(row->kind.dtype),
        tutti_collective_reduces(params->collective) ? tutti_op_name(row->kind.op) : "none",
        tutti_collective_is_rooted(params->collective) ? (double)params->root : -1.0,
        performed->algorithm, row->protocol != NULL ? row->protocol : "none", time_us,
        microseconds(apart->best_ps), apart->algbw_GBps, apart->busbw_GBps,
        run->perform.check ? (double)apart->wrong_count : NAN,
        placed ? microseconds(in_place->time_ps) : NAN,
        placed ? microseconds(in_place->best_ps) : NAN, placed ? in_place->algbw_GBps : NAN,
        placed ? in_place->busbw_GBps : NAN,
        placed && run->perform.check ? (double)in_place->wrong_count : NAN,
        apart->host_ps > 0 ? microseconds(apart->host_ps) : NAN, predicted_us,
        time_us > 0 ? 100.0 * (predicted_us - time_us) / time_us : NAN,
        row->estimate_ps > 0 ? microseconds(row->estimate_ps) : NAN);
}

/* Rows of one kind, or of all; NULL: no memory. */
static struct tutti_table *make_table(const struct tutti_run_command *run,
                                      const struct tutti_run_stage *stage,
                                      const struct tutti_column *shown,
                                      const struct tutti_run_rows *rows,
                                      const struct tutti_run_kind *kind)
{
    struct tutti_table *table = tutti_table_new(shown, COLUMN_COUNT);
    int status = table == NULL ? -TUTTI_ENOMEM : 0;

    if (status == 0 && stage->topo == NULL && stage->emulation == NULL)
        tutti_table_keep_units(table);
    if (status == 0 && run->perform.in_place) {
        tutti_table_group(table, "time_us", "wrong", "out-of-place");
        tutti_table_group(table, "in_place_time_us", "in_place_wrong", "in-place");
    }
    for (size_t i = 0; status == 0 && i < rows->row_count; i++) {
        const struct tutti_run_kind *own = &rows->rows[i].kind;

        if (kind == NULL || (own->dtype == kind->dtype && own->op == kind->op))
            status = add_row(table, run, &rows->rows[i]);
    }
    if (status == 0)
        return table;
    tutti_table_free(table);
    return NULL;
}

/* ---- what is said above the rows ------------------------------------------------------------- */

static const char *timing_text(const struct tutti_run_command *run)
{
    return run->perform.back_to_back ? "mean, back to back" : "median, ranks meet before each";
}

/* "allreduce of float, sum", or of all that was asked for. */
static void print_what(const struct tutti_run_command *run, FILE *out)
{
    const struct tutti_coll_params *params = &run->perform.params;
    bool types = run->kinds[0].dtype != run->kinds[run->kind_count - 1].dtype;
    bool ops = run->kinds[0].op != run->kinds[run->kind_count - 1].op;

    if (!types && !ops) {
        tutti_shared_print_params(params, out);
        return;
    }
    fprintf(out, "%s of %s", tutti_collective_name(params->collective),
            types ? "all types" : tutti_dtype_name(params->dtype));
    if (tutti_collective_reduces(params->collective))
        fprintf(out, ", %s", ops ? "all operators" : tutti_op_name(params->op));
    if (tutti_collective_is_rooted(params->collective))
        fprintf(out, ", root %" PRIu32, params->root);
}

static void print_head(const struct tutti_run_command *run, const struct tutti_run_stage *stage,
                       const struct tutti_page *page)
{
    FILE *out = page->out;
    const struct tutti_perform *perform = &run->perform;
    const char *checked = perform->check ? "data checked" : "data NOT checked";
    char text[128];

    fprintf(out, "# tutti %s run: ", TUTTI_BUILD_VERSION);
    print_what(run, out);
    fprintf(out, ", %" PRIu32 " rank%s", run->rank_count, run->rank_count == 1 ? "" : "s");
    if (stage->topo != NULL) {
        fprintf(out, " simulated on '%s'\n# virtual clock, out of place, %s\n", stage->topo->name,
                checked);
        tutti_calib_print_choice(&stage->calib, out);
        return;
    }
    if (stage->with != NULL) {
        tutti_run_group_describe(stage->with, run, text, sizeof(text));
        fprintf(out, " in %s%s%s\n", text, run->backend->on_gpu ? ", each by " : "", stage->gpu);
    } else {
        tutti_run_print_place(run, stage->gpu, out);
    }
    fprintf(out, "# %" PRIu32 " warm-up and %" PRIu32 " timed iterations (%s),%s %s\n",
            perform->warmup_count, perform->iteration_count, timing_text(run),
            perform->in_place ? "" : " out of place,", checked);
    if (stage->local != NULL)
        tutti_local_sum_up(stage->local, stage->how, page->verbose, out);
    if (stage->emulation != NULL)
        tutti_emulation_print_head(stage->emulation, page->verbose, out);
}

static void json_head(const struct tutti_run_command *run, const struct tutti_run_stage *stage,
                      struct tutti_json *json)
{
    const struct tutti_perform *perform = &run->perform;

    tutti_json_text(json, "tutti", TUTTI_BUILD_VERSION);
    tutti_json_text(json, "backend", run->backend->name);
    if (stage->topo != NULL) {
        tutti_json_text(json, "topology", stage->topo->name);
        tutti_calib_json_choice(&stage->calib, json);
    }
    if (run->backend->on_gpu)
        tutti_json_text(json, "gpu", stage->gpu);
    if (run->places[0] != '\0')
        tutti_json_text(json, "places", run->places);
    tutti_json_count(json, "ranks", run->rank_count);
    if (stage->with != NULL)
        tutti_json_count(json, "processes", stage->with->group->count);
    tutti_json_count(json, "processors", tutti_run_processors());
    tutti_json_text(json, "collective", tutti_collective_name(perform->params.collective));
    tutti_json_count(json, "warmup_iterations", perform->warmup_count);
    tutti_json_count(json, "iterations", perform->iteration_count);
    tutti_json_text(json, "timing", timing_text(run));
    tutti_own_json(&run->own, json);
    if (stage->local != NULL)
        tutti_local_json(stage->local, json);
    if (stage->emulation != NULL)
        tutti_emulation_json(stage->emulation, json);
}

/* What makes times and predictions worth less: in one line each, and only then. */
static void print_disturbed(const struct tutti_run_stage *stage, const struct tutti_run_rows *rows,
                            FILE *out)
{
    enum { OTHERS_PERCENT_MIN = 10 };
    double others = stage->with == NULL ? tutti_cpu_steal_percent(&stage->began) : 0;
    double then_ns = stage->local->apart_ns;
    double least_ns = then_ns;
    double most_ns = then_ns;
    uint32_t moved_count = 0;

    for (size_t i = 0; i < rows->row_count; i++) {
        least_ns = fmin(least_ns, rows->rows[i].apart_ns);
        most_ns = fmax(most_ns, rows->rows[i].apart_ns);
        moved_count += rows->rows[i].moved;
    }
    if (tutti_local_moved(least_ns, most_ns))
        fprintf(out,
                "# the processors moved: %.0f ns apart when measured, %.0f to %.0f ns later; in "
                "%" PRIu32 " of %zu rows\n",
                then_ns, least_ns, most_ns, moved_count, rows->row_count);
    if (others >= OTHERS_PERCENT_MIN)
        fprintf(out,
                "# busy:      others had %.0f %% of the processors: times are longer, predictions "
                "worth less\n",
                others);
}

/* Of the row that is recorded; 0: none is, or by the host's own clock. */
static double record_error_us(const struct tutti_run_command *run,
                              const struct tutti_run_rows *rows)
{
    double most_us = 0;

    for (size_t i = 0; run->record != NULL && i < rows->row_count; i++)
        most_us = fmax(most_us, microseconds(rows->rows[i].performed.out_of_place.record_error_ps));
    return most_us;
}

/* A table, or, of several types and operators, one each, with a line of '#' that names it. */
static int print_tables(const struct tutti_run_command *run, const struct tutti_run_stage *stage,
                        const struct tutti_column *shown, const struct tutti_run_rows *rows,
                        struct tutti_page *page, struct tutti_err *err)
{
    for (uint32_t k = 0; k < run->kind_count; k++) {
        const struct tutti_run_kind *kind = &run->kinds[k];
        struct tutti_table *table = make_table(run, stage, shown, rows, kind);

        if (table == NULL)
            return tutti_nomem(err);
        if (run->kind_count > 1 && tutti_collective_reduces(run->perform.params.collective))
            fprintf(page->out, "# %s, %s\n", tutti_dtype_name(kind->dtype),
                    tutti_op_name(kind->op));
        else if (run->kind_count > 1)
            fprintf(page->out, "# %s\n", tutti_dtype_name(kind->dtype));
        tutti_table_print(table, page);
        tutti_table_free(table);
    }
    return 0;
}

static int print_page(const struct tutti_run_command *run, const struct tutti_run_stage *stage,
                      const struct tutti_column *shown, const struct tutti_run_rows *rows,
                      const struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_page page;
    int status = tutti_page_open(&page, sink, err);

    if (status < 0)
        return status;
    print_head(run, stage, &page);
    tutti_own_print(&run->own, page.out);
    status = print_tables(run, stage, shown, rows, &page, err);
    if (stage->emulation != NULL)
        tutti_emulation_print_tail(stage->emulation, page.out);
    if (stage->local != NULL && !run->backend->on_gpu)
        print_disturbed(stage, rows, page.out);
    tutti_run_print_left_out(rows, page.out);
    tutti_run_print_apart(rows, page.out);
    if (run->library && run->backend->on_gpu && run->rank_count == 1)
        fputs("# estimate: on one rank NCCL copies, decides nothing, and so estimates nothing\n",
              page.out);
    else if (run->library && run->backend->on_gpu && stage->with != NULL)
        fputs("# estimate: NCCL is asked in a process alone only, where its calls block\n",
              page.out);
    if (record_error_us(run, rows) > 0)
        fprintf(page.out, "# trace: times of the GPU on the host's clock, within %.1f us\n",
                record_error_us(run, rows));
    return tutti_page_close(&page, status, err);
}

int tutti_run_print_rows(const struct tutti_args *args, const struct tutti_run_command *run,
                         const struct tutti_run_stage *stage, const struct tutti_run_rows *rows,
                         struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_column shown[COLUMN_COUNT];
    struct tutti_table *table;

    choose_columns(run, stage, shown);
    if (tutti_args_is(args, "format", "table"))
        return print_page(run, stage, shown, rows, sink, err);
    table = make_table(run, stage, shown, rows, NULL);
    if (table == NULL)
        return tutti_nomem(err);
    if (tutti_args_is(args, "format", "json")) {
        struct tutti_json json = {.out = sink->out};

        tutti_json_open(&json, NULL, '{');
        json_head(run, stage, &json);
        tutti_table_json(table, "results", &json);
        tutti_run_json_left_out(rows, &json);
        tutti_run_json_apart(rows, &json);
        if (record_error_us(run, rows) > 0)
            tutti_json_number(&json, "trace_error_us", record_error_us(run, rows));
        tutti_json_close(&json);
    } else {
        tutti_table_csv(table, sink->out);
    }
    tutti_table_free(table);
    return 0;
}
