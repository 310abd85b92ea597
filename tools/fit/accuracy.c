/* tutti validate --all: every prediction against everything that was measured. */
#include "tools/fit/accuracy_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "runtime/status.h"
#include "tools/cli/files.h"
#include "tools/cli/nccl_options.h"
#include "tools/cli/page.h"
#include "tools/cli/sizes.h"
#include "tools/fit/accuracy/accuracy.h"
#include "tools/validate/measured_files.h"
#include "tools/validate/validate_plot.h"

enum { SECONDS_MAX = 3 }; /* of a size: what takes longer to play is not predicted, and said */

static int read_ask(const struct tutti_args *args, struct tutti_accuracy_ask *ask,
                    struct tutti_err *err)
{
    int status;

    ask->ask.size = sizeof(ask->ask);
    ask->ask.empty = true;
    ask->ask.algorithm =
        tutti_args_given(args, "algorithm") ? tutti_args_text(args, "algorithm") : "nccl";
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
    if (tutti_args_given(args, "backend") || tutti_args_given(args, "log"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--all' takes its measurements from tables, not by '%s' (one or "
                          "the other)",
                          tutti_args_given(args, "backend") ? "-B" : "--log");
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
                          "the tables of measurements are not installed (validate --all FOLDER, or "
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
        fprintf(page.out, "# tutti %s validate: all tables\n", TUTTI_BUILD_VERSION);
        status = tutti_accuracy_print(accuracy, ask, &page, err);
        if (status == 0)
            status = tutti_validate_plot_tables(args, accuracy, sink->out_terminal, page.out, err);
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

int tutti_validate_all(const struct tutti_args *args, struct tutti_sink *sink,
                       struct tutti_err *err)
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
