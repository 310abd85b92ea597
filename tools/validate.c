/* tutti validate: what was measured, by a log or here and now, beside what is predicted. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "runtime/backend.h"
#include "runtime/group.h"
#include "runtime/status.h"
#include "tools/cli/calib.h"
#include "tools/cli/files.h"
#include "tools/cli/page.h"
#include "tools/cli/sizes.h"
#include "tools/commands.h"
#include "tools/local/local.h"
#include "tools/run/run.h"
#include "tools/run/run_group.h"
#include "tools/sweep/sweep.h"
#include "tools/validate/cases.h"
#include "tools/validate/fitted.h"
#include "tools/validate/logs.h"
#include "tools/validate/measurements.h"
#include "tools/validate/training_command.h"
#include "tools/validate/validate_options.h"
#include "tools/validate/validate_plot.h"
#include "topo/hardware.h"

/* All that is printed, of logs or of this machine. */
struct validation {
    struct tutti_cases cases;
    struct tutti_logs logs;                 /* logs */
    struct tutti_measurements measurements; /* logs */
    struct tutti_topo *topo;                /* logs */
    struct tutti_ask ask;                   /* logs */
    struct tutti_run_command run;           /* -B */
    struct tutti_run_group with;            /* -B tcp: the other processes */
    struct tutti_local local;               /* -B */
    const char *how;                        /* -B: it came to be known */
    struct tutti_local_beside beside;       /* -B: as it is now */
    uint32_t moved_count;                   /* -B: rows during which it moved */
    struct tutti_nccl_options nccl;         /* logs */
    bool here;                              /* -B threads */
    struct tutti_calib_choice calib;        /* of topo */
    enum tutti_fitted fitted;               /* logs: calib to them */
    char fitted_table[TUTTI_FITTED_ID_BYTES];
    bool silent; /* another process prints */
};

/* ---- logs ------------------------------------------------------------------------------------ */

static enum tutti_side read_side(const struct tutti_args *args)
{
    return tutti_args_is(args, "side", "in")     ? TUTTI_SIDE_IN
           : tutti_args_is(args, "side", "best") ? TUTTI_SIDE_BEST
                                                 : TUTTI_SIDE_OUT;
}

static int take_logs(const struct tutti_args *args, struct validation *v, struct tutti_err *err)
{
    struct tutti_measurements_ask ask = {
        .topo = v->topo,
        .spec = v->logs.tell_machine ? v->logs.machine : tutti_args_operand(args, 0),
        .side = read_side(args),
        .has_collective = tutti_args_given(args, "collective"),
        .rank_count = (uint32_t)tutti_args_number(args, "ranks"),
        .bytes_min = tutti_args_given(args, "minbytes") ? tutti_args_number(args, "minbytes") : 0,
        .bytes_max =
            tutti_args_given(args, "maxbytes") ? tutti_args_number(args, "maxbytes") : UINT64_MAX,
    };
    int status = 0;

    if (ask.has_collective)
        status = tutti_collective_find(tutti_args_text(args, "collective"), &ask.collective, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '-c'");
    status = tutti_sizes_check_order(args, ask.bytes_min, ask.bytes_max, err);
    if (status < 0)
        return status;
    status = tutti_measurements_take(&ask, &v->logs, &v->measurements, &v->cases, err);
    if (status == 0 && v->cases.case_count == 0)
        status = tutti_fail(
            err, TUTTI_EINVAL, "nothing is left to compare in '%s' (rows with a size and a time%s)",
            tutti_args_word(args, "log", 0), ask.side == TUTTI_SIDE_IN ? " in place" : "");
    return status;
}

static int predict_logs(const struct tutti_args *args, struct validation *v,
                        struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_case *cases = v->cases.cases;
    double latency_ps = 0;
    double bytes_per_s = 0;
    int status = tutti_null_ring(v->topo, &latency_ps, &bytes_per_s, err);

    if (status == 0)
        status = tutti_cases_predict(&v->cases, &v->ask, (uint32_t)tutti_args_number(args, "jobs"),
                                     sink, err);
    for (size_t i = 0; status == 0 && i < v->cases.case_count; i++)
        cases[i].null_us = tutti_null_us(cases[i].params.collective, v->topo->rank_count,
                                         cases[i].bytes, latency_ps, bytes_per_s);
    return status;
}

/* One algorithm for all rows: lists have no place in a comparison with one measured time. */
static int read_algorithm(const struct tutti_args *args, const char **ret, struct tutti_err *err)
{
    const char *algorithm = tutti_args_text(args, "algorithm");

    if (strchr(algorithm, ',') != NULL || strcmp(algorithm, "all") == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '-a': '%s' is more than one algorithm (one name, or auto)",
                          algorithm);
    *ret = algorithm;
    return 0;
}

/* Without a word NCCL has chosen what was measured, on a machine of which it can be told. */
static int settle_algorithm(const struct tutti_args *args, struct validation *v,
                            struct tutti_err *err)
{
    bool by_nccl = v->topo->hardware != NULL;

    if (tutti_args_given(args, "algorithm"))
        return 0;
    if (by_nccl)
        v->ask.algorithm = "nccl";
    return by_nccl ? 0 : tutti_nccl_options_refuse(args, err);
}

/* The version that ran, or of those known the one nearest to it, if all logs say the same one,
 * unless another one is asked for. */
static void follow_version(struct validation *v)
{
    const struct tutti_measurements_table *tables = v->measurements.tables;
    const struct tutti_nccl_version *ran;
    uint32_t count = v->measurements.table_count;

    if (v->nccl.asked != NULL || !tutti_algorithm_is_nccl(v->ask.algorithm))
        return;
    for (uint32_t i = 0; i < count; i++) {
        if (tables[i].is_rccl || strcmp(tables[i].version, tables[0].version) != 0)
            return;
    }
    ran = tutti_nccl_version_near(tables[0].version);
    if (ran == NULL)
        return;
    v->nccl.version = ran;
    v->nccl.asked = tables[0].version;
}

static int validate_logs(const struct tutti_args *args, struct validation *v,
                         struct tutti_sink *sink, struct tutti_err *err)
{
    const char *spec = tutti_args_operand(args, 0);
    int status;

    if (!tutti_args_given(args, "log") && spec == NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "nothing to compare (SPEC --log FILE, --log FILE that lists its GPUs, "
                          "or -B threads for this machine)");
    if (!tutti_args_given(args, "log"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--log' is missing: nothing is measured of '%s' (--log FILE; "
                          "tables of measurements are for 'tutti-fit accuracy')",
                          spec);
    status = read_algorithm(args, &v->ask.algorithm, err);
    if (status == 0)
        status = tutti_nccl_options_read(
            args, !tutti_args_given(args, "algorithm") || tutti_algorithm_is_nccl(v->ask.algorithm),
            &v->nccl, sink, err);
    if (status == 0)
        status = tutti_model_find(tutti_args_text(args, "model"), &v->ask.model, err);
    if (status == 0)
        status = tutti_logs_read(args, &v->logs, err);
    if (status == 0)
        status = tutti_logs_load_machine(&v->logs, spec, (uint32_t)tutti_args_number(args, "nodes"),
                                         &v->topo, err);
    if (status == 0)
        status = take_logs(args, v, err);
    if (status == 0)
        status = settle_algorithm(args, v, err);
    if (status < 0)
        return status;
    follow_version(v);
    v->ask.topo = v->topo;
    v->ask.as_nccl = v->nccl.version;
    v->ask.env = v->nccl.env;
    v->ask.protocol = tutti_sweep_protocol(v->topo, tutti_args_text(args, "protocol"));
    status = tutti_calib_choose(args, v->topo, v->ask.protocol, &v->calib, err);
    if (status < 0)
        return status;
    v->ask.protocols = v->calib.made.protocols;
    v->ask.reduce_bytes_per_s = tutti_args_number(args, "reduce-rate");
    v->ask.params.channel_count = (uint32_t)tutti_args_number(args, "channels");
    v->ask.params.chunk_bytes = tutti_args_number(args, "chunk");
    v->ask.params.slice_count = (uint32_t)tutti_args_number(args, "slices");
    v->ask.params.slot_count = (uint32_t)tutti_args_number(args, "slots");
    return predict_logs(args, v, sink, err);
}

/* ---- here and now ---------------------------------------------------------------------------- */

static int add_played(struct validation *v, const struct tutti_run_row *row, struct tutti_err *err)
{
    struct tutti_case one = {
        .params = v->run.perform.params,
        .bytes = row->performed.bytes,
        .measured_us = (double)row->performed.out_of_place.time_ps / (double)TUTTI_PS_PER_US,
        .predicted_us = (double)row->predicted_ps / (double)TUTTI_PS_PER_US,
        .calibrated_us = (double)row->calibrated_ps / (double)TUTTI_PS_PER_US,
        .apart_ns = row->apart_ns,
        .algorithm = row->performed.algorithm,
        .protocol = "none",
    };

    one.params.dtype = row->kind.dtype;
    one.params.op = row->kind.op;
    one.null_us = tutti_null_us(one.params.collective, v->run.rank_count, one.bytes,
                                tutti_local_null_latency_ps(&v->local),
                                tutti_local_null_bytes_per_s(&v->local));
    return tutti_cases_add(&v->cases, &one) < 0 ? tutti_nomem(err) : 0;
}

static int validate_here(const struct tutti_args *args, struct validation *v,
                         struct tutti_sink *sink, struct tutti_err *err)
{
    const char *calib = tutti_args_given(args, "calib") ? tutti_args_text(args, "calib") : NULL;
    const struct tutti_run_group *with;
    struct tutti_run_rows rows = {0};
    int status = tutti_run_read(args, &v->run, err);

    if (status == 0)
        status = tutti_nccl_options_read(args, false, &v->nccl, sink, err);
    if (status < 0)
        return status;
    if (tutti_args_operand(args, 0) != NULL || tutti_args_given(args, "log"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '-B' measures this machine and takes no SPEC and no log (one or "
                          "the other)");
    if (v->run.backend->simulated)
        return tutti_run_read_measuring(args, &v->run, err);
    status = tutti_run_group_check(args, &v->run, err);
    if (status == 0 && tutti_run_is_group(&v->run))
        status = tutti_run_group_open(args, &v->run, &v->with, sink, err);
    v->silent = tutti_run_is_group(&v->run) && (v->with.group == NULL || v->with.group->index > 0);
    if (status < 0 || (tutti_run_is_group(&v->run) && v->with.group == NULL))
        return status;
    with = v->with.group != NULL ? &v->with : NULL;
    v->here = true;
    v->run.perform.check = v->run.perform.params.collective != TUTTI_CUSTOM;
    v->run.perform.carry = v->run.perform.check;
    status = tutti_run_local(&v->run, with, calib, "validate", &v->local, sink, err);
    v->how = calib != NULL ? calib : "measured first";
    if (status == 0 && !v->run.backend->on_gpu) {
        struct tutti_local_ask ask = tutti_run_local_ask(&v->run, with);

        status = tutti_local_beside_open(&ask, &v->local, &v->beside, err);
        v->run.beside = &v->beside;
    }
    if (status == 0 && with != NULL)
        status = tutti_run_group_play(&v->run, &v->with, "validate", &v->local, &rows, sink, err);
    else if (status == 0)
        status = tutti_run_alone(&v->run, "validate", &v->local, &rows, sink, err);
    for (size_t i = 0; status == 0 && i < rows.row_count; i++) {
        v->moved_count += rows.rows[i].moved;
        if (rows.rows[i].performed.out_of_place.time_ps > 0)
            status = add_played(v, &rows.rows[i], err);
    }
    if (status == 0 && rows.wrong_count > 0)
        status = tutti_fail(err, TUTTI_ECHECK, "%" PRIu64 " elements are wrong", rows.wrong_count);
    if (status == 0 && v->cases.case_count == 0)
        status = tutti_fail(err, TUTTI_ECHECK, "nothing took any time that could be compared");
    tutti_run_rows_done(&rows);
    return status;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_here(const struct validation *v, FILE *out)
{
    fprintf(out, ": %s, %" PRIu32 " %srank%s by %s",
            tutti_collective_name(v->run.perform.params.collective), v->run.rank_count,
            v->run.backend->on_gpu && !v->run.backend->alone ? "virtual " : "",
            v->run.rank_count == 1 ? "" : "s", v->run.backend->name);
    if (v->run.places[0] != '\0')
        fprintf(out, " on several GPUs\n# %s\n", v->run.places);
    else if (v->run.backend->on_gpu)
        fputs(v->run.backend->alone ? " on GPUs\n" : " on one GPU\n", out);
    else
        fprintf(out, " on %" PRIu32 " processors\n", tutti_run_processors());
}

static void print_head(const struct tutti_args *args, const struct validation *v,
                       const struct tutti_page *page)
{
    bool file = tutti_args_given(args, "calib") && !tutti_args_is(args, "calib", "builtin") &&
                !tutti_args_is(args, "calib", "none");
    FILE *out = page->out;

    fprintf(out, "# tutti %s validate", TUTTI_BUILD_VERSION);
    if (v->here) {
        print_here(v, out);
        tutti_local_show(&v->local, v->how, page->verbose, out);
        if (!page->verbose)
            return;
        if (v->run.backend->on_gpu) {
            fputs(
                "# predicted: the operations that the backend makes of the same schedule, on "
                "blocks of these rates;\n#   no collective was measured for it\n"
                "# null model: one flat ring, a hop and a step each, all ranks at once in memory\n",
                out);
            return;
        }
        fprintf(
            out,
            "# predicted: the same schedule played on a machine of these caches and rates, and as "
            "its processors lie\n#   beside it, by some messages; no collective was measured for "
            "it\n");
        fprintf(out, "# null model: one flat ring of one latency and one rate (%s)\n",
                v->local.process_count > 1 ? "to send and to receive, far"
                                           : "hop_us; to read and write in the shared cache");
        return;
    }
    fprintf(out, ": %s\n",
            tutti_args_is(args, "side", "in")     ? "in-place times"
            : tutti_args_is(args, "side", "best") ? "the better of in place and out of "
                                                    "place"
                                                  : "out-of-place times");
    tutti_sweep_print_machine(v->topo, page);
    if (v->logs.tell_machine)
        fprintf(
            out,
            "#            so by the GPUs that the log lists, and else as such hosts usually are; "
            "a SPEC says better\n");
    if (page->verbose)
        tutti_calib_print_choice(&v->calib, out);
    for (uint32_t i = 0; i < v->measurements.table_count; i++) {
        tutti_measurements_print_table(&v->measurements.tables[i],
                                       tutti_algorithm_is_nccl(v->ask.algorithm), out);
        tutti_measurements_print_mismatch(&v->measurements.tables[i], v->topo, out);
    }
    fprintf(out, "# predicted: algorithm %s, protocol %s, model %s; ", v->ask.algorithm,
            v->ask.protocol, tutti_model_name(v->ask.model));
    if (file) /* which may have been fitted to this very log */
        fprintf(out, "with the costs of %s", tutti_args_text(args, "calib"));
    else if (v->fitted == TUTTI_FITTED_TOO)
        fprintf(out, "its costs were fitted to this log, too (table '%s')", v->fitted_table);
    else if (v->fitted == TUTTI_FITTED_UNKNOWN)
        fputs("whether its costs were fitted to this log, too, is not known (their tables are not "
              "installed)",
              out);
    else
        fputs("not fitted to the log", out);
    if (v->nccl.asked != NULL)
        fprintf(out, "; as NCCL %s", tutti_nccl_version_name(v->nccl.version));
    if (!page->verbose && v->calib.is_told && !file)
        fprintf(out, "; costs %.*s", (int)strcspn(v->calib.made.text, ";"), v->calib.made.text);
    fputc('\n', out);
    if (page->verbose)
        fprintf(out, "# null model: one flat ring 0, 1, ... at the nominal rate and latency of its "
                     "slowest hop\n");
}

/* How the machine lay, and what a prediction from its calibration alone would have been worth. */
static void print_beside(const struct validation *v, const struct tutti_errors *errors, FILE *out)
{
    double least_ns = INFINITY;
    double most_ns = 0;

    for (size_t i = 0; i < v->cases.case_count; i++) {
        least_ns = fmin(least_ns, v->cases.cases[i].apart_ns);
        most_ns = fmax(most_ns, v->cases.cases[i].apart_ns);
    }
    fprintf(out, "# processors: %.0f to %.0f ns apart, probed %" PRIu32 " time%s", least_ns,
            most_ns, v->beside.probe_count, v->beside.probe_count == 1 ? "" : "s");
    if (v->moved_count > 0)
        fprintf(out, ", moved in %" PRIu32 " of %zu timings", v->moved_count, v->cases.case_count);
    if (v->local.apart_ns > 0)
        fprintf(out, "\n# processors: when calibrated %.0f ns, and predicted as then",
                v->local.apart_ns);
    else
        fprintf(out, "\n# processors: predicted as calibrated");
    fprintf(out, ": median error %.1f %%\n", errors->calibrated_median_abs_percent);
}

static int print_all(const struct tutti_args *args, const struct validation *v,
                     const struct tutti_errors *errors, struct tutti_sink *sink,
                     struct tutti_err *err)
{
    struct tutti_json json = {.out = sink->out};
    struct tutti_page page;
    int status = 0;

    if (tutti_args_is(args, "format", "csv"))
        return tutti_cases_csv(&v->cases, sink, err);
    if (!tutti_args_is(args, "format", "json")) {
        status = tutti_page_open(&page, sink, err);
        if (status < 0)
            return status;
        print_head(args, v, &page);
        status = tutti_cases_print(&v->cases, errors, &page, err);
        if (v->here && status == 0 && !v->run.backend->on_gpu)
            print_beside(v, errors, page.out);
        if (status == 0)
            status = tutti_validate_plot_cases(args, &v->cases, sink->out_terminal, page.out, err);
        return tutti_page_close(&page, status, err);
    }
    tutti_json_open(&json, NULL, '{');
    tutti_json_text(&json, "tutti", TUTTI_BUILD_VERSION);
    if (v->here)
        tutti_local_json(&v->local, &json);
    else
        tutti_sweep_json_machine(v->topo, &json);
    tutti_calib_json_choice(&v->calib, &json);
    status = tutti_cases_json(&v->cases, errors, &json, err);
    tutti_json_close(&json);
    return status;
}

/* The costs that this build has, where they are what predicted, may have seen the logs already. */
static int look_up_fitted(const struct tutti_args *args, struct validation *v,
                          struct tutti_err *err)
{
    bool builtin = !tutti_args_given(args, "calib") || tutti_args_is(args, "calib", "builtin");

    if (v->here || !builtin || !v->calib.is_told || !tutti_args_is(args, "format", "table"))
        return 0;
    return tutti_fitted_find(&v->cases, v->topo->rank_count, &v->fitted, v->fitted_table, err);
}

int tutti_command_validate(const struct tutti_args *args, struct tutti_sink *sink,
                           struct tutti_err *err)
{
    struct validation v = {
        .ask = {.size = sizeof(struct tutti_ask), .empty = true, .algorithm = "auto"}};
    struct tutti_errors errors = {0};
    int status = tutti_validate_options_check(args, err);

    if (status == 0 && tutti_args_flag(args, "training"))
        return tutti_validate_training(args, sink, err);
    if (status == 0)
        status = tutti_shared_check_plot(args, err);
    if (status == 0 && tutti_args_given(args, "svg") && tutti_run_writes_here(args)) {
        status = tutti_file_check_target(tutti_args_text(args, "svg"), err);
        if (status < 0)
            (void)tutti_wrap(err, status, "option '--svg'");
    }
    if (status < 0)
        return status;
    status = tutti_args_given(args, "backend") ? validate_here(args, &v, sink, err)
                                               : validate_logs(args, &v, sink, err);
    if (status == 0 && v.cases.case_count > 0)
        status = tutti_cases_errors(&v.cases, &errors, err);
    if (status == 0 && !v.silent)
        status = look_up_fitted(args, &v, err);
    if (status == 0 && !v.silent)
        status = print_all(args, &v, &errors, sink, err);
    if (status == 0 && !v.silent)
        status = tutti_validate_svg_cases(args, &v.cases, sink, err);
    if (status == 0 && !v.silent && tutti_args_given(args, "limit") &&
        errors.median_abs_percent > tutti_args_real(args, "limit"))
        status = tutti_fail(err, TUTTI_ECHECK, "the median error is %.1f %% (--limit %s)",
                            errors.median_abs_percent, tutti_args_text(args, "limit"));
    status = tutti_run_group_close(&v.with, status, v.run.perform.deadline_ps, err);
    tutti_local_beside_close(&v.beside);
    tutti_run_done(&v.run);
    tutti_cases_done(&v.cases);
    tutti_nccl_options_done(&v.nccl);
    tutti_measurements_done(&v.measurements);
    tutti_logs_done(&v.logs);
    tutti_topo_free(v.topo);
    return status;
}

static const struct tutti_option options[] = {
    {.name = "svg",
     .type = TUTTI_OPTION_TEXT,
     .value = "FILE",
     .help = "draw measured and predicted as well: times by size"},
    {.name = "plot",
     .type = TUTTI_OPTION_CHOICE,
     .value = "auto|utf8|ascii|none",
     .standard = "auto",
     .help = "the errors by size below the table; auto: on a terminal, as the locale says"},
    {.name = "log",
     .type = TUTTI_OPTION_LIST,
     .value = "FILE...",
     .help = "output of nccl-tests, or CSV with the columns size_bytes and time_us; - is stdin"},
    {.name = "side",
     .type = TUTTI_OPTION_CHOICE,
     .value = "out|in|best",
     .standard = "out",
     .help = "which times of a log: out of place, in place, or the better one"},
    {.name = "training",
     .type = TUTTI_OPTION_FLAG,
     .help = "tables of measured training steps (FILE.csv, or folders of them; if none is given: "
             "those that are installed), row by row"},
    {.name = "anchor",
     .type = TUTTI_OPTION_TEXT,
     .value = "ROW",
     .help = "a row of each family taken as measured, which scales the device: first, or "
             "COLUMN=VALUE; each:first, each:COLUMN=VALUE: of each series, whose rows differ in "
             "the number of devices alone"},
    {.name = "limit",
     .type = TUTTI_OPTION_REAL,
     .value = "PERCENT",
     .max = 1000000,
     .help = "fail if the median error is larger"},
    TUTTI_OPTIONS_RUN,
    TUTTI_OPTION_LAUNCH,
    TUTTI_OPTIONS_RUN_GROUP,
    TUTTI_OPTION_NODES,
    TUTTI_OPTION_MODEL,
    TUTTI_OPTION_PROTOCOL,
    TUTTI_OPTION_CALIB,
    TUTTI_OPTION_REDUCE_RATE,
    TUTTI_OPTION_AS_NCCL,
    TUTTI_OPTION_NCCL_ENV,
    TUTTI_OPTION_JOBS,
    TUTTI_OPTIONS_OUTPUT,
};

static const struct tutti_moved_option moved[] = {
    {"all", "predictions are held against all public tables by 'tutti-fit accuracy', of the source "
            "tree"},
    {"filter", "tables are chosen by 'tutti-fit accuracy', of the source tree"},
};

const struct tutti_command tutti_cli_validate = {
    .name = "validate",
    .summary = "hold predictions against measurements: a log, or this machine",
    .operands = "[SPEC|FILE.csv...]",
    .operand_min = 0,
    .operand_max = TUTTI_VALIDATE_OPERANDS_MAX,
    .text =
        "With SPEC and --log: takes collective, sizes and ranks from the logs, predicts each row "
        "on SPEC (without one: on hosts of the GPUs that the logs list, as such hosts usually "
        "are), and prints measured, predicted and error, beside a null model that knows only "
        "one flat ring at nominal link rates: allreduce 2(n-1) a + 2(n-1)/n S/b, reducescatter, "
        "allgather and alltoall half of that, broadcast and reduce (n-1) a + S/b, sendrecv a + "
        "S/b, where a and b are latency and rate of the slowest hop r to r+1. Nothing is fitted "
        "to the log; where the costs that this build has were fitted to a table of it, that is "
        "said. What nccl-tests has measured on GPUs NCCL has chosen, so that -a nccl is the "
        "standard there, in the version that the log names; and where one process drove several "
        "GPUs, no time is less than it takes to launch on them. A log of nccl-tests gives the "
        "mean of so many in a row (20 if it does not say): so does -a nccl where they overlap, in "
        "broadcast and reduce; a time of CSV without busbw is one alone. -b and -e choose sizes; "
        "-c and -g say "
        "what a log does not tell.\n\n"
        "With -B threads: runs the collective here, and predicts it from what is measured of "
        "single messages, as 'tutti run --predict' does, or from a file of 'tutti calibrate -B' "
        "(--calib); -n, -w and so on are those of run. The processors of a virtual machine may be "
        "moved to other cores meanwhile: so beside each timing it is looked how far apart they lie "
        "(the column apart, ns for a word from one to the other); where that is not as before, "
        "some messages are timed anew, to tell what passing from one to the other costs now, and "
        "what they moved during is timed again. The column calibrated is what would have been "
        "predicted without.\n\n"
        "With -B cuda: the same for virtual ranks of one GPU (of several: one rank each, of which "
        "all hops are alike), by what 'tutti calibrate -B cuda' "
        "fits to copies, sums and messages of other sizes: launch, hop of a counter or a line, "
        "rates of a block, of memory and of the cache. Predicted are the operations that the "
        "backend makes of the same schedule. With -B nccl: on GPUs, by what 'tutti calibrate -B "
        "nccl' fits; predicted are messages and sums level by level.\n\n"
        "With --training: predicts each row of tables of training steps from its settings alone "
        "(model, machine, strategy, batch, precision, framework), as 'tutti train' does, with the "
        "memory of a device; errors by family, beside a null model that knows one rate a device. "
        "Rows whose settings say too little, or ask for what is not modelled, say so.\n\n"
        "Errors are in percent of what was measured; the summary takes them without their sign.",
    .examples = "tutti validate dgx-h100 --log all_reduce_8.log\n"
                "tutti validate --log all_reduce_8.log\n"
                "tutti validate topo.xml --nodes 2 --log node2.log -b 1M --plot utf8 --svg it.svg\n"
                "tutti validate -B threads -g 2 -a ring\n"
                "tutti validate -B threads --calib here.local -a all -b 64K -e 256M\n"
                "tutti validate -B cuda -g 8 -a all --calib gpu.local\n"
                "tutti validate --training steps.csv --anchor each:gpus=1",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .moved = moved,
    .moved_count = sizeof(moved) / sizeof(moved[0]),
    .run = tutti_command_validate,
};
