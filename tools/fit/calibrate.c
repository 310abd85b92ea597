/* tutti-fit calibrate: fit what protocols cost to tables of measurements, and judge the fit on what
 * it did not see. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "tools/calibrate/fit_job.h"
#include "tools/calibrate/fit_priors.h"
#include "tools/cli/files.h"
#include "tools/cli/shared_options.h"
#include "tools/fit/commands.h"
#include "tools/fit/unseen.h"
#include "tools/options.h"
#include "tools/validate/measured_files.h"

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

struct filters {
    struct tutti_measured_filter fitted, aside, judged;
    struct tutti_fit_choice choice;
};

static int read_filters(const struct tutti_args *args, struct filters *filters,
                        struct tutti_err *err)
{
    int status =
        tutti_fit_filter_read(args, "filter", &filters->fitted, &filters->choice.fitted, err);

    if (status == 0)
        status = tutti_fit_filter_read(args, "aside", &filters->aside, &filters->choice.aside, err);
    return status < 0 ? status
                      : tutti_fit_filter_read(args, "judge", &filters->judged,
                                              &filters->choice.judged, err);
}

static int read_tables(const struct tutti_args *args, struct tutti_measured *ret,
                       struct tutti_err *err)
{
    const char *path = tutti_args_operand(args, 0);

    if (path == NULL)
        path = tutti_measured_folder();
    if (path == NULL)
        return tutti_fail(err, TUTTI_ELACK,
                          "the tables of measurements are not installed (calibrate FOLDER, or "
                          "TUTTI_MEASURED_DIR)");
    return tutti_measured_load(path, ret, err);
}

/* What was fitted to, as options that would do it again: `tutti validate` reads them in the shipped
 * calibration. */
static void describe(const struct tutti_args *args, char *buf, size_t buf_bytes)
{
    char aside[200] = "";

    if (tutti_args_given(args, "aside"))
        (void)snprintf(aside, sizeof(aside), " --aside '%s'", tutti_args_text(args, "aside"));
    (void)snprintf(buf, buf_bytes, "--filter '%.200s'%s", tutti_args_text(args, "filter"), aside);
}

static int fit_and_judge(const struct tutti_args *args, struct tutti_fit_job *job,
                         struct tutti_fit_unseen *unseen, struct tutti_sink *sink,
                         struct tutti_err *err)
{
    struct tutti_fit_report report = {.job = job};
    struct tutti_calib *calib = NULL;
    char words[420];
    int status =
        tutti_fit_job_solve(job, (uint32_t)tutti_args_number(args, "iterations"), sink, err);

    describe(args, words, sizeof(words));
    if (status == 0)
        status = tutti_fit_job_result(job, args, words, sink, &calib, &report.open, err);
    if (status == 0)
        status = tutti_fit_judge(job, unseen, sink, err);
    report.calib = calib;
    if (unseen->folds_alone)
        report.note = "without:  each a fit without a fifth of all sites, or platforms, its own "
                      "among them";
    report.times[report.times_count++] = (struct tutti_fit_times){
        .title = "as fitted", .csv = "fitted_us", .json = "", .times = job->seen};
    report.times[report.times_count++] = (struct tutti_fit_times){.title = "without site",
                                                                  .csv = "without_site_us",
                                                                  .json = "without_site_",
                                                                  .times = unseen->by_site};
    report.times[report.times_count++] = (struct tutti_fit_times){.title = "without platform",
                                                                  .csv = "without_platform_us",
                                                                  .json = "without_platform_",
                                                                  .times = unseen->by_platform};
    if (status == 0)
        status = tutti_fit_print(args, &report, sink, err);
    tutti_calib_free(calib);
    return status;
}

static int calibrate(const struct tutti_args *args, struct tutti_sink *sink, struct tutti_err *err)
{
    struct filters filters = {.choice = {.fitted = NULL}};
    struct tutti_measured set = {.table_count = 0};
    struct tutti_calib *base = NULL;
    struct tutti_fit_unseen unseen = {.folds_alone = tutti_args_is(args, "leave-out", "fifth")};
    struct tutti_fit_job job = {
        .command = args->command,
        .again = unseen.folds_alone ? "a fifth of all sites, and of platforms"
                                    : "each site and platform",
        .a_minute = unseen.folds_alone ? 400000 : 200000,
    };
    int status = tutti_fit_title_check(args, err);

    if (status == 0)
        status = read_filters(args, &filters, err);
    if (status < 0)
        return status;
    status = read_tables(args, &set, err);
    if (status == 0)
        status = open_base(args, &base, err);
    if (status == 0)
        status = tutti_fit_job_open(&set, NULL, &filters.choice,
                                    (uint32_t)tutti_args_number(args, "jobs"), base, &job, err);
    if (status == 0 && job.values.parameter_count == 0 && tutti_args_given(args, "given"))
        status = tutti_fail(err, TUTTI_EINVAL,
                            "option '--given': it has all values that these tables depend on, and "
                            "nothing is left to fit (fewer values, or other tables)");
    if (status == 0)
        status = fit_and_judge(args, &job, &unseen, sink, err);
    tutti_fit_unseen_done(&unseen);
    tutti_fit_job_close(&job);
    tutti_measured_free(&set);
    tutti_calib_free(base);
    return status;
}

int tutti_command_fit_calibrate(const struct tutti_args *args, struct tutti_sink *sink,
                                struct tutti_err *err)
{
    bool named = tutti_args_operand(args, 0) != NULL;
    int status = 0;

    if (!named && !tutti_args_flag(args, "all"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "nothing to fit to (FOLDER or FILE of tables, or --all: what comes with "
                          "Tutti, an hour and more)");
    if (named && tutti_args_flag(args, "all"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--all' fits to the tables that come with Tutti (or to what is "
                          "named here)");
    /* What takes minutes is not to be lost in the end. */
    if (tutti_args_given(args, "output"))
        status = tutti_file_check_target(tutti_args_text(args, "output"), err);
    return status < 0 ? status : calibrate(args, sink, err);
}

static const struct tutti_option options[] = {
    {.name = "all",
     .type = TUTTI_OPTION_FLAG,
     .help = "fit to the tables of measurements that come with Tutti: an hour and more"},
    TUTTI_FIT_OPTION_FILTER,
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
    TUTTI_FIT_OPTIONS_RESULT,
    TUTTI_OPTIONS_PAGE,
};

const struct tutti_command tutti_fit_calibrate = {
    .program = TUTTI_FIT_PROGRAM,
    .name = "calibrate",
    .summary = "fit what protocols cost to tables of measurements, and judge the fit",
    .operands = "[FOLDER|FILE]",
    .operand_max = 1,
    .text =
        "Fits latencies, rates and efficiencies of NCCL's protocols on classes of GPUs and "
        "links to measured tables (those of a folder or file, or with --all those of "
        "traces/measured, from which traces/measured/fit.sh makes the shipped costs in two such "
        "fits), predicting each as 'tutti predict -a nccl' would. The fit is robust, in "
        "logarithms, from NCCL's own figures on: what it misses by more than a third says little; "
        "a value is a product over classes from general to special, so that one of which little "
        "was measured stays near its like.\n\n"
        "Errors are printed as fitted, and, for judging, with each table predicted by a fit "
        "without all tables of its site, and without all of its platform, whose search has never "
        "seen them: it begins at a fit, made from the start, without a fifth of all sites.",
    .examples =
        "tutti-fit calibrate traces/measured --filter quality=good,collective=allreduce,nodes=1\n"
        "tutti-fit calibrate mine.measured --leave-out fifth -O mine.calib\n"
        "tutti predict dgx-h100 -a nccl --calib mine.calib",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_fit_calibrate,
};
