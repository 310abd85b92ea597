/* tutti predict: what collectives cost on a machine, simulated, beside the physical bound. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/record.h"
#include "sim/limit.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/cli/trace_file.h"
#include "tools/commands.h"
#include "tools/sweep/sweep.h"

static const struct tutti_column columns[] = {
    {"bytes", "size", "B", TUTTI_CELL_COUNT},
    {"count", "count", "elements", TUTTI_CELL_COUNT},
    {"algorithm", "algorithm", "", TUTTI_CELL_TEXT},
    {"protocol", "protocol", "", TUTTI_CELL_TEXT},
    {"time_us", "time", "us", TUTTI_CELL_NUMBER},
    {"algbw_GBps", "algbw", "GB/s", TUTTI_CELL_NUMBER},
    {"busbw_GBps", "busbw", "GB/s", TUTTI_CELL_NUMBER},
    {"bound_us", "bound", "us", TUTTI_CELL_NUMBER},
    {"bound_kind", "kind", "", TUTTI_CELL_TEXT},
    {"percent_of_bound", "of bound", "%", TUTTI_CELL_NUMBER},
    {"events", "events", "", TUTTI_CELL_COUNT},
    {"folded", NULL, "", TUTTI_CELL_BOOL},
    {"bound_by", NULL, "", TUTTI_CELL_TEXT},
    {"beats_bound", NULL, "", TUTTI_CELL_BOOL},
    {"limited_by", NULL, "", TUTTI_CELL_TEXT},
    {"lacks", NULL, "", TUTTI_CELL_TEXT},
    TUTTI_PERTURB_TABLE_COLUMNS,
};

enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static double microseconds(tutti_ps ps)
{
    return (double)ps / (double)TUTTI_PS_PER_US;
}

/* What limits the prediction of a point. */
static int find_limit(const struct tutti_sweep *sweep, const struct tutti_point *point,
                      struct tutti_predict_memory *memory, char text[TUTTI_LIMIT_TEXT_BYTES],
                      struct tutti_err *err)
{
    struct tutti_ask ask = sweep->ask;

    ask.memory = memory;
    ask.algorithm = point->algorithm;
    ask.params.count = point->count;
    return tutti_predict_limit(&ask, &point->answer, text, err);
}

static int add_row(struct tutti_table *table, const struct tutti_sweep *sweep,
                   const struct tutti_point *point, const char *limit, const char *perturb)
{
    const struct tutti_answer *answer = &point->answer;
    bool moves = answer->time_ps > 0 && answer->bytes > 0; /* else there is no rate */
    bool bound = answer->bound.time_ps > 0;
    char lacks[TUTTI_SWEEP_LACKS_BYTES];

    return tutti_table_add(
        table, answer->bytes, point->count, answer->algorithm, answer->protocol,
        microseconds(answer->time_ps), moves ? answer->algbw_GBps : NAN,
        moves ? answer->busbw_GBps : NAN, bound ? microseconds(answer->bound.time_ps) : NAN,
        tutti_bound_kind(&answer->bound), bound ? answer->percent_of_bound : NAN,
        answer->event_count, (int)answer->folded, bound ? answer->bound.binding : "",
        (int)answer->beats_bound, limit, tutti_sweep_lacks(sweep, point, limit, lacks),
        tutti_sweep_calm_us(sweep, point), tutti_sweep_times_calm(sweep, point), perturb);
}

/* The points that are shown: all that were predicted, or of each size what NCCL or RCCL would run
 * and the fastest of the others. */
static bool is_shown(const struct tutti_sweep *sweep, size_t index)
{
    const struct tutti_point *point = &sweep->points[index];
    uint32_t size_index = (uint32_t)(index / sweep->algorithm_count);

    if (sweep->best)
        return point == tutti_sweep_best(sweep, size_index) ||
               point == tutti_sweep_library(sweep, size_index);
    return point->status == 0;
}

/* Where one of Tutti's own algorithms falls short, and by what. */
static int print_lack(const struct tutti_sweep *sweep, const struct tutti_point *point,
                      struct tutti_predict_memory *memory, FILE *out, struct tutti_err *err)
{
    char text[TUTTI_SWEEP_LACKS_BYTES];
    char limit[TUTTI_LIMIT_TEXT_BYTES];
    char size[TUTTI_UNIT_TEXT_BYTES];
    int status = find_limit(sweep, point, memory, limit, err);

    if (status == 0)
        fprintf(out, "# lacks:    at %s %s takes %s\n", tutti_print_size(point->answer.bytes, size),
                point->answer.algorithm, tutti_sweep_lacks(sweep, point, limit, text));
    return status;
}

/* Of the first and the last of such sizes. */
static int print_lacks(const struct tutti_sweep *sweep, struct tutti_predict_memory *memory,
                       FILE *out, struct tutti_err *err)
{
    char text[TUTTI_SWEEP_LACKS_BYTES];
    const struct tutti_point *ends[2] = {NULL, NULL};
    int status = 0;

    for (size_t i = 0; i < sweep->point_count && sweep->best; i++) {
        if (!is_shown(sweep, i) || *tutti_sweep_lacks(sweep, &sweep->points[i], "", text) == '\0')
            continue;
        ends[0] = ends[0] == NULL ? &sweep->points[i] : ends[0];
        ends[1] = &sweep->points[i];
    }
    if (ends[0] != NULL)
        status = print_lack(sweep, ends[0], memory, out, err);
    if (status == 0 && ends[1] != ends[0])
        status = print_lack(sweep, ends[1], memory, out, err);
    return status;
}

/* What binds at the smallest and at the largest size, if it is known: people ask why. */
static void print_binding(const struct tutti_sweep *sweep, FILE *out)
{
    const struct tutti_point *first = NULL;
    const struct tutti_point *last = NULL;
    char from[TUTTI_UNIT_TEXT_BYTES];
    char to[TUTTI_UNIT_TEXT_BYTES];

    for (size_t i = 0; i < sweep->point_count; i++) {
        if (!is_shown(sweep, i) || sweep->points[i].answer.bound.time_ps == 0)
            continue;
        first = first == NULL ? &sweep->points[i] : first;
        last = &sweep->points[i];
    }
    if (first == NULL)
        return;
    if (strcmp(first->answer.bound.binding, last->answer.bound.binding) == 0)
        fprintf(out, "# physical bound: %s\n", last->answer.bound.binding);
    else
        fprintf(out, "# physical bound: %s at %s; %s at %s\n", first->answer.bound.binding,
                tutti_print_size(first->answer.bytes, from), last->answer.bound.binding,
                tutti_print_size(last->answer.bytes, to));
}

/* The same of the prediction: of the first row and of the last. */
static int print_limits(const struct tutti_sweep *sweep, struct tutti_predict_memory *memory,
                        FILE *out, struct tutti_err *err)
{
    char limits[2][TUTTI_LIMIT_TEXT_BYTES];
    char sizes[2][TUTTI_UNIT_TEXT_BYTES];
    const struct tutti_point *ends[2] = {NULL, NULL};
    int status = 0;

    for (size_t i = 0; i < sweep->point_count; i++) {
        if (!is_shown(sweep, i))
            continue;
        ends[0] = ends[0] == NULL ? &sweep->points[i] : ends[0];
        ends[1] = &sweep->points[i];
    }
    for (int k = 0; k < 2 && ends[0] != NULL && status == 0; k++) {
        (void)tutti_print_size(ends[k]->answer.bytes, sizes[k]);
        status = find_limit(sweep, ends[k], memory, limits[k], err);
    }
    if (status < 0 || ends[0] == NULL)
        return status;
    if (ends[0] == ends[1])
        fprintf(out, "# limited by: %s\n", limits[0]);
    else
        fprintf(out, "# limited by: %s: %s at %s; %s: %s at %s\n", ends[0]->answer.algorithm,
                limits[0], sizes[0], ends[1]->answer.algorithm, limits[1], sizes[1]);
    return 0;
}

/* Which rows come of a few ranks that stand for all. */
static void print_folding(const struct tutti_sweep *sweep, FILE *out)
{
    uint32_t shown = 0;
    uint32_t folded = 0;
    uint32_t least = UINT32_MAX;
    uint32_t most = 0;

    for (size_t i = 0; i < sweep->point_count; i++) {
        const struct tutti_answer *answer = &sweep->points[i].answer;

        if (!is_shown(sweep, i))
            continue;
        shown++;
        if (!answer->folded)
            continue;
        folded++;
        least = answer->class_count < least ? answer->class_count : least;
        most = answer->class_count > most ? answer->class_count : most;
    }
    if (folded == 0)
        return;
    if (least == sweep->topo->rank_count)
        fprintf(out, "# folded:   ring by ring, as no two of %u ranks are alike", least);
    else
        fprintf(out, "# folded:   %u ranks into %u", sweep->topo->rank_count, least);
    if (most > least)
        fprintf(out, " to %u", most);
    if (folded < shown)
        fprintf(out, " in %u of %u rows", folded, shown);
    fprintf(out, "; events count the steps of all ranks\n");
}

/* A table of all rows; NULL when memory ran out. */
static struct tutti_table *make_table(const struct tutti_sweep *sweep,
                                      struct tutti_predict_memory *memory, bool people)
{
    char limit[TUTTI_LIMIT_TEXT_BYTES] = "";
    char *perturb = tutti_perturb_text(&sweep->perturb, sweep->ask.seed);
    struct tutti_table *table =
        tutti_table_new(columns, COLUMNS - (sweep->calm == NULL ? TUTTI_PERTURB_COLUMNS : 0));
    int status = table == NULL || perturb == NULL ? -TUTTI_ENOMEM : 0;
    bool marks = !sweep->best && sweep->algorithm_count > 1; /* one among several is the fastest */

    for (size_t i = 0; status == 0 && i < sweep->point_count; i++) {
        if (!is_shown(sweep, i))
            continue;
        if (!people)
            status = find_limit(sweep, &sweep->points[i], memory, limit, NULL);
        if (status == 0)
            status = add_row(table, sweep, &sweep->points[i], limit, perturb);
        if (status == 0 && marks &&
            &sweep->points[i] == tutti_sweep_best(sweep, (uint32_t)(i / sweep->algorithm_count)))
            tutti_table_mark(table);
    }
    free(perturb);
    if (status == 0)
        return table;
    tutti_table_free(table);
    return NULL;
}

static int print_page(const struct tutti_sweep *sweep, const struct tutti_table *table,
                      struct tutti_predict_memory *memory, const struct tutti_sink *sink,
                      struct tutti_err *err)
{
    struct tutti_page page;
    int status = tutti_page_open(&page, sink, err);

    if (status < 0)
        return status;
    tutti_sweep_print_head(sweep, "predict", &page);
    if (page.verbose)
        print_folding(sweep, page.out);
    tutti_table_print(table, &page);
    if (!page.quiet) /* it is simulated for */
        status = print_limits(sweep, memory, page.out, err);
    print_binding(sweep, page.out);
    if (status == 0 && !page.quiet)
        status = print_lacks(sweep, memory, page.out, err);
    tutti_sweep_print_left_out(sweep, page.out);
    return tutti_page_close(&page, status, err);
}

static int print_results(const struct tutti_args *args, const struct tutti_sweep *sweep,
                         struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_predict_memory *memory = NULL;
    struct tutti_table *table = NULL;
    int status = tutti_predict_memory_new(&memory, err);

    if (status == 0) {
        table = make_table(sweep, memory, tutti_args_is(args, "format", "table"));
        status = table == NULL ? tutti_nomem(err) : 0;
    }
    if (status < 0) {
        tutti_predict_memory_free(memory);
        return status;
    }
    if (tutti_args_is(args, "format", "json")) {
        struct tutti_json json = {.out = sink->out};

        tutti_json_open(&json, NULL, '{');
        tutti_sweep_json_head(sweep, &json);
        tutti_table_json(table, "results", &json);
        tutti_sweep_json_left_out(sweep, &json);
        tutti_json_close(&json);
    } else if (tutti_args_is(args, "format", "csv")) {
        tutti_table_csv(table, sink->out);
    } else {
        status = print_page(sweep, table, memory, sink, err);
    }
    tutti_table_free(table);
    tutti_predict_memory_free(memory);
    return status;
}

/* The last point once more, by the algorithm and the protocol that won, and with its events. */
static int write_trace(const struct tutti_sweep *sweep, const char *path, struct tutti_sink *sink,
                       struct tutti_err *err)
{
    const struct tutti_point *point = NULL;
    struct tutti_ask ask = sweep->ask;
    struct tutti_answer answer;
    struct tutti_record record;
    char title[256];
    char size[TUTTI_UNIT_TEXT_BYTES];
    int status;

    for (size_t i = 0; i < sweep->point_count; i++)
        point = is_shown(sweep, i) ? &sweep->points[i] : point;
    tutti_record_init(&record);
    ask.algorithm = point->answer.algorithm;
    ask.protocol = point->answer.protocol;
    ask.params.count = point->count;
    ask.record = &record;
    ask.step_count_max = 0;
    status = tutti_predict(&ask, &answer, err);
    if (status == 0) {
        (void)snprintf(title, sizeof(title), "%s %s %s, %s, on %.80s, simulated",
                       tutti_collective_name(ask.params.collective), answer.algorithm,
                       tutti_print_size(answer.bytes, size), tutti_model_name(ask.model),
                       sweep->topo->name);
        status = tutti_trace_write(path, &record, title, NULL, sink, err);
    }
    tutti_record_done(&record);
    return status;
}

int tutti_command_predict(const struct tutti_args *args, struct tutti_sink *sink,
                          struct tutti_err *err)
{
    const char *trace = tutti_args_text(args, "trace");
    struct tutti_sweep sweep;
    bool speaks = args->job->index == 0;
    int status = tutti_job_agree(args->job, tutti_trace_check(trace, speaks, err), err);

    if (status < 0)
        return status;
    status = tutti_sweep_open(args, &sweep, sink, err);
    if (status < 0)
        return status;
    status = tutti_sweep_run(&sweep, "predict", sink, err);
    if (status == 0 && speaks)
        status = print_results(args, &sweep, sink, err);
    if (status == 0 && speaks && trace != NULL)
        status = write_trace(&sweep, trace, sink, err);
    tutti_sweep_close(&sweep);
    return status;
}

static const struct tutti_option options[] = {
    TUTTI_OPTION_COLLECTIVE,
    TUTTI_OPTION_ALGORITHM("auto"),
    TUTTI_OPTIONS_SIZES("1K", "1G", "4"),
    TUTTI_OPTION_DTYPE,
    TUTTI_OPTION_OP,
    TUTTI_OPTION_ROOT,
    TUTTI_OPTIONS_SWEEP,
    TUTTI_OPTION_TRACE,
};

const struct tutti_command tutti_cli_predict = {
    .name = "predict",
    .summary = "simulate a collective on a machine: time, bandwidth, share of the bound",
    .operands = "SPEC",
    .operand_min = 1,
    .operand_max = 1,
    .text =
        "Simulates a collective on a machine and prints for each size what it takes, beside "
        "the physical lower bound of that machine: 'exact' where the bound can be reached, "
        "'valid' where it is true but perhaps out of reach. On a machine of GPUs whose library is "
        "known a size has two rows: what NCCL or RCCL would run ('nccl'), and the fastest of "
        "Tutti's own algorithms; '# lacks' says where these fall far behind. '# limited by' says "
        "what most of the predicted time hangs on; the physical bound is the machine's, whatever "
        "runs. SPEC is a preset "
        "('tutti topo "
        "list' shows them) or a file: NCCL topology XML or our own text.\n\n"
        "Size, count, algbw and busbw are those of nccl-tests. The lines of '#' above the "
        "table tell what was resolved.\n\n" TUTTI_OWN_TEXT TUTTI_PERTURB_TEXT
            TUTTI_PERTURB_START_TEXT TUTTI_PERTURB_RULES_TEXT TUTTI_PERTURB_NULL_TEXT
        "\n\nUnder mpirun or srun the processes share the points and the first prints one "
        "table, if "
        "this build has MPI ('tutti doctor' tells).",
    .examples = "tutti predict dgx-h100\n"
                "tutti predict switch:n=4,bw=50GB/s,lat=1us --schedule my.schedule -b 1M\n"
                "tutti predict dgx-h100:nodes=16 -a ring,hierarchical -b 1M -e 1G -f 4\n"
                "tutti predict tpu-v4:4x4x8 -a torus -b 64M\n"
                "tutti predict ring:n=4,bw=50GB/s,lat=1us -a ring -b 1M --trace ring.json\n"
                "tutti predict dgx-h100:nodes=16 -a hierarchical -b 1G --perturb slow-node=1:1.2",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .spreads = true,
    .run = tutti_command_predict,
};
