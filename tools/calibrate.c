/* tutti calibrate: fit what protocols cost to tables of measurements, and judge the fit on what it
 * did not see. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "runtime/status.h"
#include "sim/local.h"
#include "tools/calibrate/fit_job.h"
#include "tools/calibrate/fit_logs.h"
#include "tools/calibrate/fit_priors.h"
#include "tools/cli/calib.h"
#include "tools/cli/files.h"
#include "tools/cli/nccl_options.h"
#include "tools/cli/page.h"
#include "tools/cli/shared_options.h"
#include "tools/commands.h"
#include "tools/fit/unseen.h"
#include "tools/local/calibrate_here.h"
#include "tools/options.h"
#include "tools/run/run.h"
#include "tools/run/run_group.h"

/* A class of hardware unlike all others is to be its own, and not to move what is general: few
 * degrees of freedom, as is usual where some members of a group may be outliers (Lange, Little &
 * Taylor 1989, "Robust statistical modeling using the t distribution"). */
enum { PRIOR_FREEDOM = 3 };

static int open_job(struct tutti_measured *set, struct tutti_topo *machine,
                    const struct tutti_fit_choice *choice, uint32_t thread_count,
                    const struct tutti_calib *base, struct tutti_fit_job *job,
                    struct tutti_err *err)
{
    int status = tutti_fit_cases_open(set, machine, choice, thread_count, &job->cases, err);

    if (status == 0)
        status = tutti_fit_values_open(&job->cases, base, &job->values, err);
    if (status < 0)
        return status;
    job->observed = tutti_fit_numbers(job->cases.point_count);
    job->weight = tutti_fit_numbers(job->cases.point_count);
    job->seen = tutti_fit_numbers(job->cases.point_count);
    job->by_site = tutti_fit_numbers(job->cases.point_count);
    job->by_platform = tutti_fit_numbers(job->cases.point_count);
    job->prior = tutti_fit_numbers(job->values.parameter_count);
    job->sigma = tutti_fit_numbers(job->values.parameter_count);
    if (job->observed == NULL || job->weight == NULL || job->seen == NULL || job->by_site == NULL ||
        job->by_platform == NULL || job->prior == NULL || job->sigma == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < job->cases.point_count; i++)
        job->observed[i] = log(job->cases.points[i].measured_us);
    for (size_t p = 0; p < job->values.parameter_count; p++)
        job->sigma[p] = job->values.parameters[p].sigma;
    return 0;
}

static void close_job(struct tutti_fit_job *job)
{
    tutti_fit_free(job->fit);
    tutti_fit_values_close(&job->values);
    tutti_fit_cases_close(&job->cases);
    free(job->observed);
    free(job->weight);
    free(job->seen);
    free(job->by_site);
    free(job->by_platform);
    free(job->prior);
    free(job->sigma);
}

/* What was fitted to: not what only judges, and no size without a time. */
static void count_fitted(const struct tutti_fit_job *job, size_t *ret_tables, size_t *ret_sizes)
{
    *ret_tables = *ret_sizes = 0;
    for (size_t c = 0; c < job->cases.case_count; c++) {
        const struct tutti_fit_case *one = &job->cases.cases[c];

        *ret_tables += !one->judged;
        for (size_t i = 0; i < one->point_count && !one->judged; i++)
            *ret_sizes += !job->cases.points[one->first_point + i].wrong;
    }
}

/* What takes minutes says so before, whoever reads it; on the way only to a terminal. */
static void announce(const struct tutti_fit_job *job, struct tutti_sink *sink)
{
    const size_t a_minute = job->folds_alone ? 400000 : 200000; /* on two processors, of all fits */
    size_t tables, sizes;
    size_t minutes;

    count_fitted(job, &tables, &sizes);
    minutes = job->values.parameter_count * sizes / a_minute;
    if (minutes > 1)
        fprintf(sink->notes,
                "tutti calibrate: fits %zu parameters to %zu sizes of %zu tables, then again "
                "without %s: takes some %zu minutes on two processors (fewer "
                "tables: --filter)\n",
                job->values.parameter_count, sizes, tables,
                job->folds_alone ? "a fifth of all sites, and of platforms"
                                 : "each site and platform",
                minutes);
}

static void show_turn(void *context, uint32_t iteration, uint32_t parameter)
{
    const struct tutti_fit_values *values = context;
    char detail[80];

    (void)snprintf(detail, sizeof(detail), "%" PRIu32 ", derivative %" PRIu32 " of %zu",
                   iteration + 1, parameter + 1, values->parameter_count);
    tutti_run_show("calibrate", "fits, turn", detail, values->sink);
}

static int fit(struct tutti_fit_job *job, uint32_t iteration_max, struct tutti_sink *sink,
               struct tutti_err *err)
{
    struct tutti_fit_problem *problem = &job->problem;
    int status = tutti_fit_values_predict(&job->values, job->prior, TUTTI_FIT_NONE, job->seen, err);

    *problem = (struct tutti_fit_problem){
        .parameter_count = (uint32_t)job->values.parameter_count,
        .point_count = (uint32_t)job->cases.point_count,
        .prior = job->prior,
        .prior_sigma = job->sigma,
        .observed = job->observed,
        .weight = job->weight,
        .prior_freedom = PRIOR_FREEDOM,
        .scale = 0.03,
        .lost = 0.3,
        .iteration_max = iteration_max,
        .predict = tutti_fit_values_predict,
        .predict_near = tutti_fit_values_predict_near,
        .differentiate_near = tutti_fit_values_differentiate_near,
        .approximate = tutti_fit_values_approximate,
        .watch = show_turn,
        .context = &job->values,
    };
    for (size_t c = 0; c < job->cases.case_count; c++) {
        const struct tutti_fit_case *one = &job->cases.cases[c];

        for (size_t i = one->first_point; i < one->first_point + one->point_count; i++)
            job->weight[i] = one->judged || job->cases.points[i].wrong ? 0 : one->weight;
    }
    if (status == 0) {
        announce(job, sink);
        job->values.sink = sink;
        status = tutti_fit_solve(problem, &job->fit, err);
    }
    if (status == 0) {
        job->cases.judges = true;
        status =
            tutti_fit_values_predict(&job->values, job->fit->value, TUTTI_FIT_NONE, job->seen, err);
    }
    tutti_run_show("calibrate", NULL, NULL, sink);
    return status;
}

/* ---- what came of it ------------------------------------------------------------------------- */

/* What was fitted; `machine`: of the logs, NULL without. The caller frees. */
static int name_calib(const struct tutti_args *args, const struct tutti_topo *machine,
                      struct tutti_fit_job *job, struct tutti_calib **ret, size_t *ret_open,
                      struct tutti_err *err)
{
    const char *spec = tutti_args_operand(args, 0);
    struct tutti_calib *calib = NULL;
    char source[512], aside[200] = "";
    size_t tables, sizes;
    int status;

    if (tutti_args_given(args, "aside"))
        (void)snprintf(aside, sizeof(aside), " --aside '%s'", tutti_args_text(args, "aside"));
    count_fitted(job, &tables, &sizes);
    if (machine != NULL)
        (void)snprintf(
            source, sizeof(source), "tutti calibrate %.60s --log %.120s: %zu tables, %zu sizes",
            spec != NULL ? spec : machine->name, tutti_args_text(args, "log"), tables, sizes);
    else
        (void)snprintf(source, sizeof(source),
                       "tutti calibrate --filter '%.200s'%s: %zu tables, %zu sizes",
                       tutti_args_text(args, "filter"), aside, tables, sizes);
    for (char *p = source; *p != '\0'; p++) { /* names of files may have anything */
        if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '#')
            *p = '?';
    }
    status = tutti_fit_values_result(&job->values, job->fit, source, &calib, ret_open, err);
    if (status == 0)
        status = tutti_calib_set_title(calib, tutti_args_text(args, "title"), err);
    if (status < 0) {
        tutti_calib_free(calib);
        return status;
    }
    *ret = calib;
    return 0;
}

/* As soon as it is known: to judge it takes longer, and may be cut short. */
static int write_calib(const struct tutti_args *args, const struct tutti_calib *calib,
                       struct tutti_sink *sink, struct tutti_err *err)
{
    char *text = NULL;
    int status;

    if (!tutti_args_given(args, "output"))
        return 0;
    status = tutti_calib_print(calib, &text, err);
    if (status == 0)
        status = tutti_file_write(tutti_args_text(args, "output"), text, strlen(text), sink, err);
    free(text);
    return status;
}

static int print_page(const struct tutti_fit_job *job, const struct tutti_calib *calib, size_t open,
                      const struct tutti_page *page, struct tutti_err *err)
{
    size_t wrong = 0;
    int status;

    for (size_t i = 0; i < job->cases.point_count; i++)
        wrong += job->cases.points[i].wrong;
    fprintf(page->out, "# tutti %s calibrate\n", TUTTI_BUILD_VERSION);
    fprintf(
        page->out,
        "# measured: %zu tables, %zu sizes; left out: %zu tables (other libraries, no machine), "
        "%zu sizes\n",
        job->cases.case_count, job->cases.point_count - wrong, job->cases.left_out_count, wrong);
    fprintf(page->out, "# fit:      %zu parameters, %" PRIu32 " iterations%s\n",
            job->values.parameter_count, job->fit->iteration_count,
            job->fit->converged ? "" : ", not converged");
    if (job->folds_alone)
        fprintf(page->out,
                "# without:  each a fit without a fifth of all sites, or platforms, its own among "
                "them\n");
    status = tutti_fit_print_errors(job, page, err);
    return status == 0 ? tutti_fit_print_values(job, calib, open, page, err) : status;
}

static int print_all(const struct tutti_args *args, const struct tutti_fit_job *job,
                     const struct tutti_calib *calib, size_t open, struct tutti_sink *sink,
                     struct tutti_err *err)
{
    struct tutti_page page;
    int status;

    if (tutti_args_is(args, "format", "csv"))
        return tutti_fit_print_csv(job, sink);
    if (tutti_args_is(args, "format", "json"))
        return tutti_fit_print_json(job, calib, open, sink, err);
    status = tutti_page_open(&page, sink, err);
    if (status < 0)
        return status;
    return tutti_page_close(&page, print_page(job, calib, open, &page, err), err);
}

/* What is not fitted. */
static int open_base(const struct tutti_args *args, struct tutti_calib **ret, struct tutti_err *err)
{
    const char *path = tutti_args_text(args, "given");
    char *text = NULL;
    size_t bytes = 0;
    int status;

    if (!tutti_args_given(args, "given"))
        return tutti_fit_base(ret, err);
    status = tutti_file_read(path, &text, &bytes, err);
    if (status == 0)
        status = tutti_calib_parse(path, text, bytes, ret, err);
    free(text);
    return status < 0 ? tutti_wrap(err, status, "option '--given'") : 0;
}

/* What a calibration cannot be called is found out before the fit. */
static int check_title(const struct tutti_args *args, struct tutti_err *err)
{
    struct tutti_calib *calib = NULL;
    int status = tutti_calib_new(&calib, err);

    if (status == 0)
        status = tutti_calib_set_title(calib, tutti_args_text(args, "title"), err);
    if (status == -TUTTI_EINVAL)
        status = tutti_wrap(err, status, "option '--title'");
    tutti_calib_free(calib);
    return status;
}

struct filters {
    struct tutti_measured_filter fitted, aside, judged;
    struct tutti_fit_choice choice;
};

/* An option's filter; *ret stays NULL where it is not given. */
static int read_filter(const struct tutti_args *args, const char *name,
                       struct tutti_measured_filter *filter,
                       const struct tutti_measured_filter **ret, struct tutti_err *err)
{
    int status;

    if (!tutti_args_given(args, name))
        return 0;
    status = tutti_measured_filter_parse(tutti_args_text(args, name), filter, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--%s'", name);
    *ret = filter;
    return 0;
}

static int read_filters(const struct tutti_args *args, struct filters *filters,
                        struct tutti_err *err)
{
    int status = 0;

    /* What stands on the command line is chosen already. */
    if (!tutti_args_given(args, "log") || tutti_args_given(args, "filter"))
        status =
            tutti_measured_filter_parse(tutti_args_text(args, "filter"), &filters->fitted, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--filter'");
    status = read_filter(args, "aside", &filters->aside, &filters->choice.aside, err);
    return status < 0 ? status
                      : read_filter(args, "judge", &filters->judged, &filters->choice.judged, err);
}

static int calibrate(const struct tutti_args *args, struct tutti_sink *sink, struct tutti_err *err)
{
    struct filters filters = {.choice = {.fitted = &filters.fitted}};
    struct tutti_measured set = {.table_count = 0};
    struct tutti_topo *machine = NULL;
    struct tutti_calib *base = NULL, *calib = NULL;
    struct tutti_fit_job job = {.folds_alone = tutti_args_is(args, "leave-out", "fifth")};
    size_t open = 0;
    int status = check_title(args, err);

    if (status < 0)
        return status;

    status = read_filters(args, &filters, err);
    if (status < 0)
        return status;
    status = tutti_fit_tables_read(args, &set, &machine, sink, err);
    if (status == 0)
        status = open_base(args, &base, err);
    if (status == 0)
        status = open_job(&set, machine, &filters.choice, (uint32_t)tutti_args_number(args, "jobs"),
                          base, &job, err);
    if (status == 0 && job.values.parameter_count == 0 && tutti_args_given(args, "given"))
        status = tutti_fail(err, TUTTI_EINVAL,
                            "option '--given': it has all values that these tables depend on, and "
                            "nothing is left to fit (fewer values, or other tables)");
    if (status == 0)
        status = fit(&job, (uint32_t)tutti_args_number(args, "iterations"), sink, err);
    if (status == 0)
        status = name_calib(args, machine, &job, &calib, &open, err);
    if (status == 0)
        status = write_calib(args, calib, sink, err);
    if (status == 0)
        status = tutti_fit_unseen(&job, sink, err);
    if (status == 0)
        status = print_all(args, &job, calib, open, sink, err);
    close_job(&job);
    tutti_calib_free(calib);
    tutti_measured_free(&set);
    tutti_topo_free(machine);
    tutti_calib_free(base);
    return status;
}

int tutti_command_calibrate(const struct tutti_args *args, struct tutti_sink *sink,
                            struct tutti_err *err)
{
    int status = tutti_fit_options_check(args, err);

    /* What takes minutes is not to be lost in the end. */
    if (status == 0 && tutti_args_given(args, "output") && tutti_run_writes_here(args))
        status = tutti_file_check_target(tutti_args_text(args, "output"), err);
    if (status < 0)
        return status;
    return tutti_args_given(args, "backend") ? tutti_calibrate_here(args, sink, err)
                                             : calibrate(args, sink, err);
}

static const struct tutti_option options[] = {
    {.letter = 'B',
     .name = "backend",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help =
         "threads, tcp or mpi: measure this machine instead, and fit what its caches, its memory "
         "and its messages cost"},
    {.name = "all",
     .type = TUTTI_OPTION_FLAG,
     .help = "fit to the tables of measurements that come with Tutti: an hour and more"},
    {.name = "log",
     .type = TUTTI_OPTION_LIST,
     .value = "FILE...",
     .help = "output of nccl-tests, or CSV with the columns size_bytes and time_us, measured on "
             "SPEC: fit to that instead; - is stdin"},
    {.letter = 'c',
     .name = "collective",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help = "--log: which was run, if the log does not say"},
    TUTTI_OPTION_NODES,
    TUTTI_OPTION_AS_NCCL,
    TUTTI_OPTION_NCCL_ENV,
    {.letter = 'g',
     .name = "ranks",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .min = 1,
     .max = TUTTI_LOCAL_RANKS_MAX,
     .help = "-B: how many ranks hand messages on; if not given 2, or one a process"},
    {.name = "pin",
     .type = TUTTI_OPTION_FLAG,
     .help = "-B: tie each rank to a processor; done by itself where there are enough"},
    {.name = "no-pin",
     .type = TUTTI_OPTION_FLAG,
     .help = "-B: let the system move the ranks from processor to processor"},
    {.name = "deadline",
     .type = TUTTI_OPTION_TIME,
     .value = "TIME",
     .standard = "30s",
     .help = "-B: no wait of a rank for another lasts longer"},
    TUTTI_OPTIONS_RUN_GROUP,
    {.letter = 'e',
     .name = "maxbytes",
     .type = TUTTI_OPTION_SIZE,
     .value = "SIZE",
     .standard = "192M",
     .min = 48 << 10,
     .max = UINT64_C(1) << 34,
     .help = "-B: the largest operand to measure with"},
    {.name = "filter",
     .type = TUTTI_OPTION_TEXT,
     .value = "KEY=PATTERN,...",
     .standard = "quality=good,nodes=..4,timing!=torch|kernel|graph",
     .help = "which tables to fit to"},
    {.name = "aside",
     .type = TUTTI_OPTION_TEXT,
     .value = "KEY=PATTERN,...",
     .help = "which others to fit to as well, each size counting a quarter"},
    {.name = "judge",
     .type = TUTTI_OPTION_TEXT,
     .value = "KEY=PATTERN,...",
     .help = "which others to predict besides, to judge the fit"},
    {.name = "given",
     .type = TUTTI_OPTION_TEXT,
     .value = "FILE",
     .help = "a calibration whose values stay, so that only what it lacks is fitted"},
    {.letter = 'O',
     .name = "output",
     .type = TUTTI_OPTION_TEXT,
     .value = "FILE",
     .help = "write the calibration, which --calib of other commands takes"},
    {.name = "title",
     .type = TUTTI_OPTION_TEXT,
     .value = "TEXT",
     .standard = "fitted",
     .help = "what it is called"},
    {.name = "iterations",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .standard = "14",
     .min = 1,
     .max = 1000,
     .help = "of the fit, at most; of 6 and more the first 5 only lead up to it"},
    {.name = "leave-out",
     .type = TUTTI_OPTION_CHOICE,
     .value = "one|fifth",
     .standard = "one",
     .help = "judge by a fit without each site and platform, or, sooner, by fits without a fifth "
             "of them all, which have seen less"},
    TUTTI_OPTION_JOBS,
    {.name = "format",
     .type = TUTTI_OPTION_CHOICE,
     .value = "table|json|csv",
     .standard = "table",
     .help = "errors summed up; those and the values; or every size: measured, and as fitted"},
    TUTTI_OPTIONS_PAGE,
};

const struct tutti_command tutti_cli_calibrate = {
    .name = "calibrate",
    .summary = "fit what protocols cost to tables of measurements, and judge the fit",
    .operands = "[FOLDER|FILE|SPEC]",
    .operand_max = 1,
    .text =
        "Fits latencies, rates and efficiencies of NCCL's protocols on classes of GPUs and "
        "links to measured tables (those of a folder or file, or with --all those of "
        "traces/measured, from which traces/measured/fit.sh makes the shipped costs in two such "
        "fits), predicting each as 'predict -a nccl' would. The fit is robust, in logarithms, from "
        "NCCL's own figures "
        "on: what it misses by more than a third says little; a value is a product over "
        "classes from general to special, so that one of which little was measured stays near "
        "its like.\n\n"
        "Errors are printed as fitted, and, for judging, with each table predicted by a fit "
        "without all tables of its site, and without all of its platform, whose search has never "
        "seen them: it begins at a fit, made from the start, without a fifth of all sites.\n\n"
        "With SPEC and --log: fits to what logs of nccl-tests tell of one machine (without SPEC: "
        "hosts of the GPUs that they list, as such hosts usually are); what they do not tell "
        "stays as it is shipped or near it. Give -o, and predict and validate with "
        "that file (--calib).\n\n"
        "With -B threads: times small schedules on this machine (copies, reductions, messages "
        "one way and both ways; no collective, and at 3 times powers of two of bytes), and "
        "fits to them what a pass over memory costs by where its bytes lie (a processor's own "
        "cache, another one's, the one of all, memory), how large the caches are, and what it "
        "costs to hand a message on. With -B tcp (--launch 2) or -B mpi (mpirun -n 2) all "
        "processes measure together, and to that comes what the system or the MPI library "
        "takes to send and to receive. The file (-o) is for 'validate -B' and 'run "
        "--predict'.",
    .examples = "tutti calibrate mine.measured -O mine.calib\n"
                "tutti calibrate --all --filter quality=good,collective=allreduce,nodes=1\n"
                "tutti predict dgx-h100 -a nccl --calib mine.calib\n"
                "tutti calibrate dgx-h100:nodes=2 --log all_reduce_16.log -O mine.calib\n"
                "tutti calibrate -B threads -O here.local\n"
                "tutti validate -B threads --calib here.local -a all -b 64K -e 256M\n"
                "tutti calibrate -B tcp --launch 2 -O here-tcp.local\n"
                "mpirun -n 2 tutti calibrate -B mpi -O here-mpi.local",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_calibrate,
};
