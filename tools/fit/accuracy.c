/* tutti-fit accuracy: every prediction against everything that was measured. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "runtime/status.h"
#include "tools/cli/calib.h"
#include "tools/cli/error_plot.h"
#include "tools/cli/files.h"
#include "tools/cli/nccl_options.h"
#include "tools/cli/page.h"
#include "tools/cli/shared_options.h"
#include "tools/cli/sizes.h"
#include "tools/fit/accuracy/accuracy.h"
#include "tools/fit/commands.h"
#include "tools/validate/measured_files.h"

enum { SECONDS_MAX = 3 }; /* of a size: what takes longer to play is not predicted, and said */

static int read_ask(const struct tutti_args *args, struct tutti_accuracy_ask *ask,
                    struct tutti_err *err)
{
    int status;

    ask->ask.size = sizeof(ask->ask);
    ask->ask.empty = true;
    ask->ask.algorithm = tutti_args_text(args, "algorithm");
    ask->protocol = tutti_args_text(args, "protocol");
    ask->side = tutti_args_is(args, "side", "in")     ? TUTTI_SIDE_IN
                : tutti_args_is(args, "side", "best") ? TUTTI_SIDE_BEST
                                                      : TUTTI_SIDE_OUT;
    ask->ask.reduce_bytes_per_s = tutti_args_number(args, "reduce-rate");
    ask->ask.seconds_max = SECONDS_MAX;
    ask->ask.strict = true;
    ask->bytes_min = tutti_args_given(args, "minbytes") ? tutti_args_number(args, "minbytes") : 1;
    ask->bytes_max =
        tutti_args_given(args, "maxbytes") ? tutti_args_number(args, "maxbytes") : UINT64_MAX;
    ask->thread_count = (uint32_t)tutti_args_number(args, "jobs");
    if (strchr(ask->ask.algorithm, ',') != NULL || strcmp(ask->ask.algorithm, "all") == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '-a': '%s' is more than one algorithm (one name, or auto)",
                          ask->ask.algorithm);
    status = tutti_sizes_check_order(args, ask->bytes_min, ask->bytes_max, err);
    if (status == 0)
        status = tutti_model_find(tutti_args_text(args, "model"), &ask->ask.model, err);
    return status < 0 ? status : tutti_calib_option_read(args, &ask->calib, err);
}

static int open_tables(const struct tutti_args *args, struct tutti_accuracy *accuracy,
                       struct tutti_err *err)
{
    const char *path = tutti_args_operand(args, 0);
    struct tutti_measured_filter filter;
    int status = tutti_measured_filter_parse(tutti_args_text(args, "filter"), &filter, err);
    size_t chosen = 0;

    if (status < 0)
        return tutti_wrap(err, status, "option '--filter'");
    if (path == NULL)
        path = tutti_measured_folder();
    if (path == NULL)
        return tutti_fail(err, TUTTI_ELACK,
                          "the tables of measurements are not installed (accuracy FOLDER, or "
                          "TUTTI_MEASURED_DIR)");
    status = tutti_accuracy_open(path, &filter, accuracy, err);
    if (status < 0)
        return status;
    for (size_t i = 0; i < accuracy->table_count; i++)
        chosen += accuracy->tables[i].chosen;
    return chosen > 0
               ? 0
               : tutti_fail(err, TUTTI_EINVAL, "option '--filter': none of %zu tables is '%s'",
                            accuracy->table_count, tutti_args_text(args, "filter"));
}

/* Below the table: the errors of all sizes of the chosen tables that count. */
static int plot_tables(const struct tutti_args *args, const struct tutti_accuracy *accuracy,
                       bool terminal, FILE *out, struct tutti_err *err)
{
    struct tutti_error_point *points;
    size_t count = 0;

    if (!tutti_shared_wants_plot(args, terminal))
        return 0;
    for (size_t t = 0; t < accuracy->table_count; t++)
        count += accuracy->tables[t].row_count;
    points = calloc(count + 1, sizeof(*points));
    if (points == NULL)
        return tutti_nomem(err);
    count = 0;
    for (size_t t = 0; t < accuracy->table_count; t++) {
        const struct tutti_accuracy_table *table = &accuracy->tables[t];
        bool counts = table->chosen && tutti_accuracy_counts(table);

        for (size_t i = 0; counts && i < table->row_count; i++) {
            const struct tutti_accuracy_row *row = &table->rows[i];

            points[count++] = (struct tutti_error_point){row->bytes, row->us[TUTTI_FORECAST_OURS] /
                                                                         row->measured_us};
        }
    }
    tutti_error_plot(points, count, tutti_shared_plot_utf8(args), out);
    free(points);
    return 0;
}

static int print_all(const struct tutti_args *args, const struct tutti_accuracy *accuracy,
                     const struct tutti_accuracy_ask *ask, struct tutti_sink *sink,
                     struct tutti_err *err)
{
    struct tutti_json json = {.out = sink->out};
    struct tutti_page page;
    int status;

    if (tutti_args_is(args, "format", "csv"))
        return tutti_accuracy_csv(accuracy, sink->out, err);
    if (!tutti_args_is(args, "format", "json")) {
        status = tutti_page_open(&page, sink, err);
        if (status < 0)
            return status;
        fprintf(page.out, "# tutti-fit %s accuracy\n", TUTTI_BUILD_VERSION);
        status = tutti_accuracy_print(accuracy, ask, &page, err);
        if (status == 0)
            status = plot_tables(args, accuracy, sink->out_terminal, page.out, err);
        return tutti_page_close(&page, status, err);
    }
    tutti_json_open(&json, NULL, '{');
    tutti_json_text(&json, "tutti", TUTTI_BUILD_VERSION);
    tutti_json_text(&json, "algorithm", ask->ask.algorithm);
    tutti_json_text(&json, "protocol", ask->protocol);
    tutti_json_text(&json, "model", tutti_model_name(ask->ask.model));
    tutti_json_text(&json, "costs", tutti_calib_option_title(&ask->calib));
    status = tutti_accuracy_json(accuracy, &json, err);
    tutti_json_close(&json);
    return status;
}

static int write_svg(const struct tutti_args *args, const struct tutti_accuracy *accuracy,
                     struct tutti_sink *sink, struct tutti_err *err)
{
    char *svg = NULL;
    int status;

    if (!tutti_args_given(args, "svg"))
        return 0;
    status = tutti_accuracy_svg(accuracy, &svg, err);
    if (status == 0)
        status = tutti_file_write(tutti_args_text(args, "svg"), svg, strlen(svg), sink, err);
    free(svg);
    return status < 0 ? tutti_wrap(err, status, "option '--svg'") : 0;
}

/* --limit holds the median of the chosen tables, good and degraded and of whatever library: who
 * gives a limit chooses. */
static int check_limit(const struct tutti_args *args, const struct tutti_accuracy *accuracy,
                       struct tutti_err *err)
{
    struct tutti_accuracy_slice slice = {
        .forecaster = TUTTI_FORECAST_OURS,
        .bytes_max = UINT64_MAX,
    };
    struct tutti_accuracy_sum sum;
    int status;

    if (!tutti_args_given(args, "limit"))
        return 0;
    status = tutti_accuracy_sum(accuracy, &slice, &sum, err);
    if (status < 0)
        return status;
    if (sum.bin_count == 0)
        return tutti_fail(err, TUTTI_ECHECK, "nothing was predicted (--limit %s)",
                          tutti_args_text(args, "limit"));
    if (sum.median_percent > tutti_args_real(args, "limit"))
        return tutti_fail(err, TUTTI_ECHECK, "the median error is %.1f %% (--limit %s)",
                          sum.median_percent, tutti_args_text(args, "limit"));
    return 0;
}

static int measure(const struct tutti_args *args, struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_accuracy accuracy = {0};
    struct tutti_accuracy_ask ask = {0};
    struct tutti_nccl_options nccl = {.env = NULL};
    int status = read_ask(args, &ask, err);

    if (status == 0)
        status = tutti_nccl_options_read(args, tutti_algorithm_is_nccl(ask.ask.algorithm), &nccl,
                                         sink, err);
    ask.ask.as_nccl = nccl.asked != NULL ? nccl.version : NULL; /* else the table says */
    ask.ask.env = nccl.env;
    if (status == 0)
        status = open_tables(args, &accuracy, err);
    if (status == 0)
        status = tutti_accuracy_run(&accuracy, &ask, err);
    if (status == 0)
        status = print_all(args, &accuracy, &ask, sink, err);
    if (status == 0)
        status = write_svg(args, &accuracy, sink, err);
    if (status == 0)
        status = check_limit(args, &accuracy, err);
    tutti_calib_option_done(&ask.calib);
    tutti_accuracy_close(&accuracy);
    tutti_nccl_options_done(&nccl);
    return status;
}

int tutti_command_fit_accuracy(const struct tutti_args *args, struct tutti_sink *sink,
                               struct tutti_err *err)
{
    int status = tutti_shared_check_plot(args, err);

    /* What takes minutes is not to be lost in the end. */
    if (status == 0 && tutti_args_given(args, "svg")) {
        status = tutti_file_check_target(tutti_args_text(args, "svg"), err);
        if (status < 0)
            (void)tutti_wrap(err, status, "option '--svg'");
    }
    return status < 0 ? status : measure(args, sink, err);
}

static const struct tutti_option options[] = {
    {.name = "filter",
     .type = TUTTI_OPTION_TEXT,
     .value = "KEY=WORD,...",
     .help = "only tables that fit, as in platform=a100-*,nodes=2..8,library=nccl|rccl"},
    {.name = "side",
     .type = TUTTI_OPTION_CHOICE,
     .value = "out|in|best",
     .standard = "out",
     .help = "which times of a table: out of place, in place, or the better one"},
    {.letter = 'b',
     .name = "minbytes",
     .type = TUTTI_OPTION_SIZE,
     .value = "SIZE",
     .help = "smallest size: 12345, 4K, 16M, 1G (powers of 1024)"},
    {.letter = 'e',
     .name = "maxbytes",
     .type = TUTTI_OPTION_SIZE,
     .value = "SIZE",
     .help = "largest size"},
    {.letter = 'a',
     .name = "algorithm",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .standard = "nccl",
     .help = "nccl: what NCCL or RCCL would run; or one algorithm, as ring; auto: the fastest"},
    TUTTI_OPTION_PROTOCOL,
    TUTTI_OPTION_MODEL,
    TUTTI_OPTION_CALIB,
    TUTTI_OPTION_REDUCE_RATE,
    TUTTI_OPTION_AS_NCCL,
    TUTTI_OPTION_NCCL_ENV,
    {.name = "limit",
     .type = TUTTI_OPTION_REAL,
     .value = "PERCENT",
     .max = 1000000,
     .help = "fail if the median error is larger"},
    {.name = "svg",
     .type = TUTTI_OPTION_TEXT,
     .value = "FILE",
     .help = "draw what was measured against what is predicted"},
    {.name = "plot",
     .type = TUTTI_OPTION_CHOICE,
     .value = "auto|utf8|ascii|none",
     .standard = "auto",
     .help = "the errors by size below the table; auto: on a terminal, as the locale says"},
    TUTTI_OPTION_JOBS,
    TUTTI_OPTIONS_OUTPUT,
};

const struct tutti_command tutti_fit_accuracy = {
    .program = TUTTI_FIT_PROGRAM,
    .name = "accuracy",
    .summary = "hold predictions against all tables of measurements, beside other models",
    .operands = "[FOLDER|FILE]",
    .operand_max = 1,
    .text =
        "Predicts every size of the tables of a folder or file, or of the 1108 public "
        "ones of traces/measured, as the version of NCCL that ran there, with the variables that "
        "were set, and sums the errors up by collective, network and platform, beside NCCL's own "
        "model (model-a), one flat ring at nominal rates (nominal, the null model of 'tutti "
        "validate'), ASTRA-sim's analytical formula (astra), the time measured on the nearest "
        "other platform (nearest), and that on the same machine at other sites (twins, their "
        "median), which no model of machines can beat by much. Each table counts once in each "
        "power of two of bytes. Good tables of NCCL and RCCL count, degraded ones and other "
        "libraries are summed up apart. Sizes that would take longer than 3 s to play are left "
        "out, and said. Without a filter it takes a minute or two.\n\n"
        "Errors are in percent of what was measured, without their sign.",
    .examples =
        "tutti-fit accuracy --filter 'collective=allreduce,quality=good,library=nccl|rccl'\n"
        "tutti-fit accuracy --filter 'platform=*-hgx8,collective=allreduce' --svg it.svg\n"
        "tutti-fit accuracy mine.measured --calib mine.calib",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_fit_accuracy,
};
