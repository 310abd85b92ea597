/* tutti compare: the algorithms of a collective ranked by size, where they cross, and the bound. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/chart.h"
#include "tools/cli/files.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/cli/shared_options.h"
#include "tools/commands.h"
#include "tools/sweep/compare_times.h"
#include "tools/sweep/ranking.h"
#include "tools/sweep/sweep.h"

/* For people: a line a size. */
static const struct tutti_column size_columns[] = {
    {"bytes", "size", "B", TUTTI_CELL_COUNT},
    {"algorithm", "fastest", "", TUTTI_CELL_TEXT},
    {"protocol", "protocol", "", TUTTI_CELL_TEXT},
    {"time_us", "time", "us", TUTTI_CELL_NUMBER},
    {"busbw_GBps", "busbw", "GB/s", TUTTI_CELL_NUMBER},
    {"bound_us", "bound", "us", TUTTI_CELL_NUMBER},
    {"percent_of_bound", "of bound", "%", TUTTI_CELL_NUMBER},
    {"ranking", "ranking", "fastest first", TUTTI_CELL_TEXT},
    TUTTI_PERTURB_TABLE_COLUMNS,
};

/* For people where there is one size alone: a line an algorithm. The keys are not printed. */
static const struct tutti_column place_columns[] = {
    {"algorithm", "algorithm", "", TUTTI_CELL_TEXT},
    {"protocol", "protocol", "", TUTTI_CELL_TEXT},
    {"time_us", "time", "us", TUTTI_CELL_NUMBER},
    {"times_fastest", "x fastest", "", TUTTI_CELL_NUMBER},
    {"algbw_GBps", "algbw", "GB/s", TUTTI_CELL_NUMBER},
    {"busbw_GBps", "busbw", "GB/s", TUTTI_CELL_NUMBER},
    {"percent_of_bound", "of bound", "%", TUTTI_CELL_NUMBER},
    TUTTI_PERTURB_TABLE_COLUMNS,
};

/* For programs: a line a size and algorithm. */
static const struct tutti_column point_columns[] = {
    {"bytes", NULL, "B", TUTTI_CELL_COUNT},
    {"count", NULL, "elements", TUTTI_CELL_COUNT},
    {"place", NULL, "", TUTTI_CELL_COUNT},
    {"algorithm", NULL, "", TUTTI_CELL_TEXT},
    {"protocol", NULL, "", TUTTI_CELL_TEXT},
    {"time_us", NULL, "us", TUTTI_CELL_NUMBER},
    {"times_fastest", NULL, "", TUTTI_CELL_NUMBER},
    {"algbw_GBps", NULL, "GB/s", TUTTI_CELL_NUMBER},
    {"busbw_GBps", NULL, "GB/s", TUTTI_CELL_NUMBER},
    {"bound_us", NULL, "us", TUTTI_CELL_NUMBER},
    {"bound_kind", NULL, "", TUTTI_CELL_TEXT},
    {"percent_of_bound", NULL, "%", TUTTI_CELL_NUMBER},
    {"events", NULL, "", TUTTI_CELL_COUNT},
    {"folded", NULL, "", TUTTI_CELL_BOOL},
    {"bound_by", NULL, "", TUTTI_CELL_TEXT},
    {"beats_bound", NULL, "", TUTTI_CELL_BOOL},
    TUTTI_PERTURB_TABLE_COLUMNS,
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static double microseconds(tutti_ps ps)
{
    return (double)ps / (double)TUTTI_PS_PER_US;
}

static double or_none(bool there, double value)
{
    return there ? value : NAN;
}

static int add_size(struct tutti_table *table, const struct tutti_ranking *ranking, uint32_t row,
                    const char *perturb)
{
    const struct tutti_point *first = tutti_ranking_at(ranking, row, 0);
    const struct tutti_answer *best = &first->answer;
    char letters[TUTTI_SWEEP_ALGORITHMS_MAX + 1];
    uint32_t count = ranking->rows[row].place_count;
    bool moves = best->time_ps > 0 && best->bytes > 0;
    bool bound = best->bound.time_ps > 0;

    for (uint32_t place = 0; place < count; place++)
        letters[place] = ranking->letters[ranking->rows[row].places[place]];
    letters[count] = '\0';
    return tutti_table_add(
        table, best->bytes, best->algorithm, best->protocol, microseconds(best->time_ps),
        or_none(moves, best->busbw_GBps), or_none(bound, microseconds(best->bound.time_ps)),
        or_none(bound, best->percent_of_bound), letters, tutti_sweep_calm_us(ranking->sweep, first),
        tutti_sweep_times_calm(ranking->sweep, first), perturb);
}

static int add_places(struct tutti_table *table, const struct tutti_ranking *ranking,
                      const char *perturb)
{
    tutti_ps best_ps = tutti_ranking_at(ranking, 0, 0)->answer.time_ps;
    int status = 0;

    for (uint32_t place = 0; place < ranking->rows[0].place_count && status == 0; place++) {
        const struct tutti_point *point = tutti_ranking_at(ranking, 0, place);
        const struct tutti_answer *answer = &point->answer;
        bool moves = answer->time_ps > 0 && answer->bytes > 0;

        status = tutti_table_add(
            table, answer->algorithm, answer->protocol, microseconds(answer->time_ps),
            or_none(best_ps > 0, (double)answer->time_ps / (double)best_ps),
            or_none(moves, answer->algbw_GBps), or_none(moves, answer->busbw_GBps),
            or_none(answer->bound.time_ps > 0, answer->percent_of_bound),
            tutti_sweep_calm_us(ranking->sweep, point),
            tutti_sweep_times_calm(ranking->sweep, point), perturb);
    }
    return status;
}

static int add_points(struct tutti_table *table, const struct tutti_ranking *ranking, uint32_t row,
                      const char *perturb)
{
    tutti_ps best_ps = tutti_ranking_at(ranking, row, 0)->answer.time_ps;
    int status = 0;

    for (uint32_t place = 0; place < ranking->rows[row].place_count && status == 0; place++) {
        const struct tutti_point *point = tutti_ranking_at(ranking, row, place);
        const struct tutti_answer *answer = &point->answer;
        bool moves = answer->time_ps > 0 && answer->bytes > 0;
        bool bound = answer->bound.time_ps > 0;

        status = tutti_table_add(
            table, answer->bytes, point->count, (uint64_t)place + 1, answer->algorithm,
            answer->protocol, microseconds(answer->time_ps),
            or_none(best_ps > 0, (double)answer->time_ps / (double)best_ps),
            or_none(moves, answer->algbw_GBps), or_none(moves, answer->busbw_GBps),
            or_none(bound, microseconds(answer->bound.time_ps)), tutti_bound_kind(&answer->bound),
            or_none(bound, answer->percent_of_bound), answer->event_count, (int)answer->folded,
            bound ? answer->bound.binding : "", (int)answer->beats_bound,
            tutti_sweep_calm_us(ranking->sweep, point),
            tutti_sweep_times_calm(ranking->sweep, point), perturb);
    }
    return status;
}

static struct tutti_table *new_table(const struct tutti_ranking *ranking, bool people)
{
    size_t hidden = ranking->sweep->calm == NULL ? TUTTI_PERTURB_COLUMNS : 0;

    if (!people)
        return tutti_table_new(point_columns, COUNT_OF(point_columns) - hidden);
    if (ranking->row_count == 1)
        return tutti_table_new(place_columns, COUNT_OF(place_columns) - hidden);
    return tutti_table_new(size_columns, COUNT_OF(size_columns) - hidden);
}

/* A table of all rows; NULL when memory ran out. */
static struct tutti_table *make_table(const struct tutti_ranking *ranking, bool people)
{
    const struct tutti_sweep *sweep = ranking->sweep;
    bool one_size = people && ranking->row_count == 1;
    struct tutti_table *table = new_table(ranking, people);
    char *perturb = tutti_perturb_text(&sweep->perturb, sweep->ask.seed);
    int status = table == NULL || perturb == NULL ? -TUTTI_ENOMEM : 0;

    if (status == 0 && one_size)
        status = add_places(table, ranking, perturb);
    for (uint32_t row = 0; row < ranking->row_count && status == 0 && !one_size; row++)
        status = people ? add_size(table, ranking, row, perturb)
                        : add_points(table, ranking, row, perturb);
    free(perturb);
    if (status == 0)
        return table;
    tutti_table_free(table);
    return NULL;
}

/* ---- who wins where -------------------------------------------------------------------------- */

/* "one-shot wins up to 16KiB, two-shot from 32KiB". */
static void print_win(const struct tutti_ranking *ranking, const struct tutti_win *win, FILE *out)
{
    char from[TUTTI_UNIT_TEXT_BYTES];
    char to[TUTTI_UNIT_TEXT_BYTES];
    bool first = win->first_row == 0;
    bool last = win->last_row + 1 == ranking->row_count;

    (void)tutti_print_size(win->from_bytes, from);
    (void)tutti_print_size(win->to_bytes, to);
    fprintf(out, "%s%s%s", first ? "" : ", ", ranking->sweep->algorithms[win->algorithm],
            first ? " wins" : "");
    if (first && last)
        fputs(ranking->row_count > 1 ? " at every size" : "", out);
    else if (first)
        fprintf(out, " up to %s", to);
    else if (last)
        fprintf(out, " from %s", from);
    else if (win->from_bytes == win->to_bytes)
        fprintf(out, " at %s", from);
    else
        fprintf(out, " from %s to %s", from, to);
}

/* All of them in one sentence, from malloc; NULL when memory ran out. */
static char *wins_text(const struct tutti_ranking *ranking)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    struct tutti_win win;
    uint32_t row = 0;

    if (out == NULL)
        return NULL;
    while (tutti_ranking_next_win(ranking, &row, &win))
        print_win(ranking, &win, out);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

static void json_wins(const struct tutti_ranking *ranking, struct tutti_json *json)
{
    struct tutti_win win;
    uint32_t row = 0;

    tutti_json_open(json, "wins", '[');
    while (tutti_ranking_next_win(ranking, &row, &win)) {
        tutti_json_open(json, NULL, '{');
        tutti_json_text(json, "algorithm", ranking->sweep->algorithms[win.algorithm]);
        tutti_json_count(json, "from_bytes", win.from_bytes);
        tutti_json_count(json, "to_bytes", win.to_bytes);
        tutti_json_close(json);
    }
    tutti_json_close(json);
}

/* ---- the chart ------------------------------------------------------------------------------- */

struct drawing {
    struct tutti_chart chart;
    struct tutti_chart_series series[TUTTI_SWEEP_ALGORITHMS_MAX];
    double *values; /* bytes, the bound, then a row for each series */
    char title[256];
    char subtitle[256]; /* who wins where */
    char bound_name[64];
};

static bool is_left_out(const struct tutti_ranking *ranking, uint32_t algorithm)
{
    for (uint32_t row = 0; row < ranking->row_count; row++) {
        if (tutti_ranking_point(ranking, row, algorithm)->status == 0)
            return false;
    }
    return true;
}

static void name_drawing(struct drawing *drawing, const struct tutti_ranking *ranking,
                         const char *wins)
{
    const struct tutti_sweep *sweep = ranking->sweep;
    size_t said = strlen(wins);
    bool exact = true;

    while (said > 95 || (wins[said] != '\0' && said > 1 && wins[said - 2] != ','))
        said--; /* whole clauses */
    for (uint32_t row = 0; row < ranking->row_count; row++)
        exact = exact && tutti_ranking_at(ranking, row, 0)->answer.bound.exact;

    (void)snprintf(drawing->title, sizeof(drawing->title), "%s on %.40s%s, %u ranks",
                   tutti_collective_name(sweep->ask.params.collective), sweep->topo->name,
                   strlen(sweep->topo->name) > 40 ? "..." : "", sweep->topo->rank_count);
    (void)snprintf(drawing->subtitle, sizeof(drawing->subtitle),
                   "%.*s%s (simulated: %s, protocol %s)", (int)said, wins,
                   wins[said] != '\0' ? "..." : "", tutti_model_name(sweep->ask.model),
                   sweep->ask.protocol);
    (void)snprintf(drawing->bound_name, sizeof(drawing->bound_name), "bound (%s)",
                   exact ? "exact" : "valid");
}

static int open_drawing(struct drawing *drawing, const struct tutti_ranking *ranking,
                        struct tutti_err *err)
{
    size_t rows = ranking->row_count;
    uint32_t algorithms = ranking->sweep->algorithm_count;
    double *values = calloc((algorithms + 2) * rows, sizeof(*values));
    char *wins = wins_text(ranking);

    *drawing = (struct drawing){.values = values};
    if (values == NULL || wins == NULL) {
        free(wins);
        return tutti_nomem(err);
    }
    drawing->chart = (struct tutti_chart){.title = drawing->title,
                                          .subtitle = drawing->subtitle,
                                          .bytes = values,
                                          .x_count = rows,
                                          .series = drawing->series,
                                          .bound_name = drawing->bound_name};
    name_drawing(drawing, ranking, wins);
    free(wins);
    for (uint32_t row = 0; row < rows; row++) {
        const struct tutti_answer *best = &tutti_ranking_at(ranking, row, 0)->answer;

        values[row] = (double)best->bytes;
        values[rows + row] = microseconds(best->bound.time_ps);
        if (best->bound.time_ps > 0)
            drawing->chart.bound_us = values + rows;
    }
    for (uint32_t i = 0; i < algorithms; i++) {
        double *times = values + (2 + i) * rows;

        for (uint32_t row = 0; row < rows; row++) {
            const struct tutti_point *point = tutti_ranking_point(ranking, row, i);

            times[row] = point->status == 0 ? microseconds(point->answer.time_ps) : NAN;
        }
        if (!is_left_out(ranking, i))
            drawing->series[drawing->chart.series_count++] =
                (struct tutti_chart_series){.name = ranking->sweep->algorithms[i],
                                            .letter = ranking->letters[i],
                                            .times_us = times};
    }
    return 0;
}

static int print_plot(const struct tutti_args *args, const struct tutti_ranking *ranking, FILE *out,
                      struct tutti_err *err)
{
    struct drawing drawing;
    char *text = NULL;
    int status = open_drawing(&drawing, ranking, err);

    if (status == 0)
        status = tutti_chart_text(&drawing.chart, tutti_shared_plot_utf8(args), &text, err);
    if (status == 0)
        fputs(text, out);
    free(text);
    free(drawing.values);
    return status;
}

static int write_svg(const struct tutti_ranking *ranking, const char *path, struct tutti_sink *sink,
                     struct tutti_err *err)
{
    struct drawing drawing;
    char *text = NULL;
    int status = open_drawing(&drawing, ranking, err);

    if (status == 0)
        status = tutti_chart_svg(&drawing.chart, &text, err);
    if (status == 0)
        status = tutti_file_write(path, text, strlen(text), sink, err);
    free(text);
    free(drawing.values);
    return status < 0 ? tutti_wrap(err, status, "option '--svg'") : 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* One size is a list; its bound stands above it, for it is the same for all. */
static void print_bound(const struct tutti_ranking *ranking, FILE *out)
{
    const struct tutti_answer *best = &tutti_ranking_at(ranking, 0, 0)->answer;
    char size[TUTTI_UNIT_TEXT_BYTES];
    char number[TUTTI_NUMBER_TEXT_BYTES];

    fprintf(out, "# size:     %s", tutti_print_size(best->bytes, size));
    if (best->bound.time_ps > 0)
        fprintf(out, "; bound %s us (%s): %s",
                tutti_number_text(microseconds(best->bound.time_ps), number),
                tutti_bound_kind(&best->bound), best->bound.binding);
    fputc('\n', out);
}

/* What the letters of the ranking mean, where no chart tells. */
static void print_letters(const struct tutti_ranking *ranking, FILE *out)
{
    int column = 0;

    for (uint32_t i = 0; i < ranking->sweep->algorithm_count; i++) {
        const char *name = ranking->sweep->algorithms[i];
        int width = (int)strlen(name) + 4;

        if (is_left_out(ranking, i))
            continue;
        if (column + width > TUTTI_CHART_COLUMNS) {
            fputc('\n', out);
            column = 0;
        }
        column += fprintf(out, "%s%c %s", column == 0 ? "# " : "  ", ranking->letters[i], name);
    }
    fputc('\n', out);
}

/* Who would win where if the machine were as it should be. */
static int print_calm_wins(const struct tutti_ranking *ranking, FILE *out, struct tutti_err *err)
{
    struct tutti_sweep calm = *ranking->sweep;
    struct tutti_ranking calm_ranking;
    char *wins;
    int status;

    if (calm.calm == NULL)
        return 0;
    calm.points = calm.calm;
    status = tutti_ranking_open(&calm, &calm_ranking, err);
    if (status < 0)
        return status;
    wins = wins_text(&calm_ranking);
    if (wins != NULL)
        fprintf(out, "# unperturbed: %s\n", wins);
    else
        status = tutti_nomem(err);
    free(wins);
    tutti_ranking_close(&calm_ranking);
    return status;
}

static int print_people(const struct tutti_args *args, const struct tutti_ranking *ranking,
                        const struct tutti_table *table, const struct tutti_page *page,
                        struct tutti_err *err)
{
    bool one_size = ranking->row_count == 1;
    bool plot = !one_size && !tutti_args_is(args, "plot", "none") &&
                (!page->quiet || tutti_args_given(args, "plot"));
    char *wins = wins_text(ranking);
    int status = 0;

    if (wins == NULL)
        return tutti_nomem(err);
    tutti_sweep_print_head(ranking->sweep, "compare", page);
    if (one_size)
        print_bound(ranking, page->out);
    tutti_table_print(table, page);
    if (!one_size)
        tutti_compare_times(ranking, page->columns, page->out);
    if (!one_size && !plot)
        print_letters(ranking, page->out);
    fprintf(page->out, "# %s\n", wins);
    free(wins);
    status = print_calm_wins(ranking, page->out, err);
    tutti_sweep_print_left_out(ranking->sweep, page->out);
    if (status == 0 && plot) {
        fputs(page->quiet ? "" : "\n", page->out);
        status = print_plot(args, ranking, page->out, err);
    }
    return status;
}

static int print_results(const struct tutti_args *args, const struct tutti_ranking *ranking,
                         struct tutti_sink *sink, struct tutti_err *err)
{
    bool people = tutti_args_is(args, "format", "table");
    struct tutti_page page;
    struct tutti_table *table = make_table(ranking, people);
    int status = 0;

    if (table == NULL)
        return tutti_nomem(err);
    if (people) {
        status = tutti_page_open(&page, sink, err);
        if (status == 0)
            status = tutti_page_close(&page, print_people(args, ranking, table, &page, err), err);
    } else if (tutti_args_is(args, "format", "json")) {
        struct tutti_json json = {.out = sink->out};

        tutti_json_open(&json, NULL, '{');
        tutti_sweep_json_head(ranking->sweep, &json);
        tutti_table_json(table, "results", &json);
        json_wins(ranking, &json);
        tutti_sweep_json_left_out(ranking->sweep, &json);
        tutti_json_close(&json);
    } else {
        tutti_table_csv(table, sink->out);
    }
    tutti_table_free(table);
    return status;
}

int tutti_command_compare(const struct tutti_args *args, struct tutti_sink *sink,
                          struct tutti_err *err)
{
    const char *svg = tutti_args_text(args, "svg");
    struct tutti_ranking ranking = {.row_count = 0};
    struct tutti_sweep sweep;
    bool speaks = args->job->index == 0;
    int status = 0;

    if (tutti_args_is(args, "algorithm", "auto"))
        status =
            tutti_fail(err, TUTTI_EINVAL,
                       "option '-a': which one 'auto' is, compare finds out (NAME[,NAME] or all)");
    if (status == 0)
        status = tutti_shared_check_plot(args, err);
    if (status == 0 && speaks && svg != NULL) {
        status = tutti_file_check_target(svg, err);
        if (status < 0)
            (void)tutti_wrap(err, status, "option '--svg'");
    }
    status = tutti_job_agree(args->job, status, err);
    if (status < 0)
        return status;
    status = tutti_sweep_open(args, &sweep, sink, err);
    if (status < 0)
        return status;
    status = tutti_sweep_run(&sweep, "compare", sink, err);
    if (status == 0 && speaks)
        status = tutti_ranking_open(&sweep, &ranking, err);
    if (status == 0 && speaks && (svg == NULL || strcmp(svg, "-") != 0))
        status = print_results(args, &ranking, sink, err);
    if (status == 0 && speaks && svg != NULL)
        status = write_svg(&ranking, svg, sink, err);
    tutti_ranking_close(&ranking);
    tutti_sweep_close(&sweep);
    return status;
}

static const struct tutti_option options[] = {
    TUTTI_OPTION_COLLECTIVE,
    TUTTI_OPTION_ALGORITHM("all"),
    TUTTI_OPTIONS_SIZES("8", "8G", "2"),
    TUTTI_OPTION_DTYPE,
    TUTTI_OPTION_OP,
    TUTTI_OPTION_ROOT,
    TUTTI_OPTIONS_SWEEP,
    {.name = "plot",
     .type = TUTTI_OPTION_CHOICE,
     .value = "auto|utf8|ascii|none",
     .standard = "auto",
     .help = "the chart below the table; auto: as the locale says"},
    {.name = "svg",
     .type = TUTTI_OPTION_TEXT,
     .value = "FILE",
     .help = "draw the chart as SVG as well; - draws it to standard output, and nothing else"},
};

const struct tutti_command tutti_cli_compare = {
    .name = "compare",
    .summary = "rank the algorithms of a collective by size, and show where they cross",
    .operands = "SPEC",
    .operand_min = 1,
    .operand_max = 1,
    .text = "Simulates a collective by every algorithm that fits the machine, and by what NCCL or "
            "RCCL would run where that is known, and prints for each size the fastest, its share "
            "of the physical bound, and the ranking of all by the letters of the chart's legend; "
            "then what each takes in microseconds, from which size on which algorithm wins, and a "
            "chart of time by size, both in powers. CSV and JSON have all points.\n\n"
            "What cannot be laid out on the machine is named below the table with the "
            "reason." TUTTI_PERTURB_TEXT TUTTI_PERTURB_START_TEXT TUTTI_PERTURB_RULES_TEXT
                TUTTI_PERTURB_NULL_TEXT " Below the table stands who wins where if nothing changes."
            "\n\nUnder mpirun or srun the processes share the points and the first prints one "
            "table, if this build has MPI ('tutti doctor' tells).\n\n" TUTTI_OWN_TEXT,
    .examples = "tutti compare dgx-h100\n"
                "tutti compare switch:n=4,bw=50GB/s,lat=1us --schedule my.schedule\n"
                "tutti compare dgx-h100:nodes=4 -a ring,hierarchical,double-binary-tree -b 1K -e "
                "1G\n"
                "tutti compare tpu-v5e:8x8 -c allgather --svg allgather.svg\n"
                "tutti compare pcie --format csv\n"
                "tutti compare torus:4x4x4 -b 1M -e 1G -f 4 --perturb slow-link=1:4",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .spreads = true,
    .run = tutti_command_compare,
};
