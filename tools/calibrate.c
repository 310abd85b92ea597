/* tutti calibrate: fit what protocols cost to the logs and tables of one cluster, what devices take
 * to its training steps, or what this machine's memory and messages cost to what is measured. */
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/local.h"
#include "tools/calibrate/fit_job.h"
#include "tools/calibrate/fit_logs.h"
#include "tools/calibrate/fit_priors.h"
#include "tools/calibrate/step_command.h"
#include "tools/cli/files.h"
#include "tools/cli/nccl_options.h"
#include "tools/cli/shared_options.h"
#include "tools/commands.h"
#include "tools/local/calibrate_here.h"
#include "tools/options.h"
#include "tools/run/run.h"
#include "tools/run/run_group.h"

enum {
    ITERATIONS_MAX = 14, /* as of the fit that is shipped (traces/measured/fit.sh) */
    /* Parameters times sizes that one fit takes a minute for, on two processors: the laboratory's
     * nine (tools/fit/) take 400,000 a minute. */
    A_MINUTE = 3600000,
};

/* What was fitted to, as options that would do it again; `machine`: of the logs, NULL without. */
static void describe(const struct tutti_args *args, const struct tutti_topo *machine, char *buf,
                     size_t buf_bytes)
{
    const char *spec = tutti_args_operand(args, 0);

    if (machine != NULL)
        (void)snprintf(buf, buf_bytes, "%.60s --log %.120s", spec != NULL ? spec : machine->name,
                       tutti_args_text(args, "log"));
    else
        (void)snprintf(buf, buf_bytes, "--filter '%.200s'", tutti_args_text(args, "filter"));
}

static int fit_and_print(const struct tutti_args *args, const struct tutti_topo *machine,
                         struct tutti_fit_job *job, struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_fit_report report = {
        .job = job,
        .times_count = 1,
        .times = {{.title = "as fitted", .csv = "fitted_us", .json = "", .times = job->seen}},
    };
    struct tutti_calib *calib = NULL;
    char words[256];
    int status = tutti_fit_job_solve(job, ITERATIONS_MAX, sink, err);

    describe(args, machine, words, sizeof(words));
    if (status == 0)
        status = tutti_fit_job_result(job, args, words, sink, &calib, &report.open, err);
    report.calib = calib;
    if (status == 0)
        status = tutti_fit_print(args, &report, sink, err);
    tutti_calib_free(calib);
    return status;
}

static int calibrate(const struct tutti_args *args, struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_measured_filter filter = {.term_count = 0}; /* of all */
    struct tutti_fit_choice choice = {.fitted = &filter};
    struct tutti_measured set = {.table_count = 0};
    struct tutti_topo *machine = NULL;
    struct tutti_calib *base = NULL;
    struct tutti_fit_job job = {.command = args->command, .a_minute = A_MINUTE};
    int status = tutti_fit_title_check(args, err);

    /* What stands on the command line is chosen already. */
    if (status == 0 && (!tutti_args_given(args, "log") || tutti_args_given(args, "filter")))
        status = tutti_fit_filter_read(args, "filter", &filter, &choice.fitted, err);
    if (status < 0)
        return status;
    status = tutti_fit_tables_read(args, &set, &machine, sink, err);
    if (status == 0)
        status = tutti_fit_base(&base, err);
    if (status == 0)
        status = tutti_fit_job_open(&set, machine, &choice,
                                    (uint32_t)tutti_args_number(args, "jobs"), base, &job, err);
    if (status == 0)
        status = fit_and_print(args, machine, &job, sink, err);
    tutti_fit_job_close(&job);
    tutti_measured_free(&set);
    tutti_topo_free(machine);
    tutti_calib_free(base);
    return status;
}

/* Of tables of training steps little else is asked. */
static int check_training(const struct tutti_args *args, struct tutti_err *err)
{
    static const char *const used[] = {"training", "free",    "output", "title",
                                       "format",   "verbose", "quiet"};
    const struct tutti_command *command = args->command;

    for (size_t i = 0; i < command->option_count; i++) {
        bool known = false;

        for (size_t j = 0; j < sizeof(used) / sizeof(used[0]); j++)
            known |= strcmp(command->options[i].name, used[j]) == 0;
        if (!known && args->values[i].given)
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--%s' says nothing with '--training' (--free, -O, --title)",
                              command->options[i].name);
    }
    return 0;
}

/* What says something of the logs alone, or of this machine. */
static int check_options(const struct tutti_args *args, struct tutti_err *err)
{
    static const char *const of_logs[] = {"collective", "nodes", "as-nccl", "env"};
    static const char *const of_tables[] = {"filter", "title", "jobs"};
    static const char *const of_here[] = {
        "ranks",  "pin",         "no-pin",     "deadline",  "maxbytes", "launch",
        "hosts",  "dry-run",     "rendezvous", "interface", "open",     "launcher",
        "engine", "connections", "congestion", "library",   "gpus",     "no-peers"};
    bool here = tutti_args_given(args, "backend");
    bool log = tutti_args_given(args, "log");

    if (tutti_args_flag(args, "training"))
        return check_training(args, err);
    if (tutti_args_given(args, "free"))
        return tutti_fail(err, TUTTI_EINVAL, "option '--free' says nothing without '--training'");
    if (tutti_args_operand(args, 1) != NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "unexpected word '%s' (one SPEC, FILE or FOLDER; several files: "
                          "'--training')",
                          tutti_args_operand(args, 1));
    if (here && log)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '-B' measures this machine and takes no log (one or the other)");
    for (size_t i = 0; !log && i < sizeof(of_logs) / sizeof(of_logs[0]); i++) {
        if (tutti_args_given(args, of_logs[i]))
            return tutti_fail(err, TUTTI_EINVAL, "option '--%s' says nothing without '--log'",
                              of_logs[i]);
    }
    for (size_t i = 0; here && i < sizeof(of_tables) / sizeof(of_tables[0]); i++) {
        if (tutti_args_given(args, of_tables[i]))
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--%s' is of fits to tables and logs, and says nothing with "
                              "'-B'",
                              of_tables[i]);
    }
    for (size_t i = 0; !here && i < sizeof(of_here) / sizeof(of_here[0]); i++) {
        if (tutti_args_given(args, of_here[i]))
            return tutti_fail(
                err, TUTTI_EINVAL,
                "option '--%s' says nothing without '-B' (threads, tcp, mpi, cuda, nccl)",
                of_here[i]);
    }
    if (!here && !log && tutti_args_operand(args, 0) == NULL)
        return tutti_fail(
            err, TUTTI_EINVAL,
            "nothing to fit to (SPEC --log FILE, FOLDER or FILE of tables, --training "
            "FILE.csv of steps, or -B threads for this machine)");
    return 0;
}

int tutti_command_calibrate(const struct tutti_args *args, struct tutti_sink *sink,
                            struct tutti_err *err)
{
    int status = check_options(args, err);

    /* What takes minutes is not to be lost in the end. */
    if (status == 0 && tutti_args_given(args, "output") && tutti_run_writes_here(args))
        status = tutti_file_check_target(tutti_args_text(args, "output"), err);
    if (status < 0)
        return status;
    if (tutti_args_flag(args, "training"))
        return tutti_calibrate_training(args, sink, err);
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
         "and its messages cost; cuda, nccl: its GPUs, and what launches, hops and bytes cost "
         "there"},
    {.name = "log",
     .type = TUTTI_OPTION_LIST,
     .value = "FILE...",
     .help = "output of nccl-tests, or CSV with the columns size_bytes and time_us, measured on "
             "SPEC: fit to that instead; - is stdin"},
    {.name = "training",
     .type = TUTTI_OPTION_FLAG,
     .help = "fit what devices take of training steps to tables of measured ones (FILE.csv, or "
             "folders of them), as 'validate --training' reads them"},
    {.name = "free",
     .type = TUTTI_OPTION_LIST,
     .value = "NAME...",
     .help = "--training: the constants that may change (if not given: those that the rows hang "
             "on): matmul_half, attention, passes, forward_us, ..."},
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
     .help = "-B: how many ranks hand messages on; if not given 2, cuda: 8, or one a process"},
    TUTTI_OPTION_GPUS,
    TUTTI_OPTION_NO_PEERS,
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
    TUTTI_OPTION_LAUNCH,
    TUTTI_OPTIONS_RUN_GROUP,
    {.letter = 'e',
     .name = "maxbytes",
     .type = TUTTI_OPTION_SIZE,
     .value = "SIZE",
     .standard = "192M",
     .min = 48 << 10,
     .max = UINT64_C(1) << 34,
     .help = "-B: the largest operand to measure with; cuda, nccl: 48M if not given"},
    TUTTI_FIT_OPTION_FILTER,
    TUTTI_OPTION_JOBS,
    TUTTI_FIT_OPTIONS_RESULT,
    TUTTI_OPTIONS_PAGE,
};

#define IS_OF_FIT \
    "fits to public tables are made and judged by 'tutti-fit calibrate', of the source tree"

static const struct tutti_moved_option moved[] = {
    {"all", IS_OF_FIT},   {"aside", IS_OF_FIT},      {"judge", IS_OF_FIT},
    {"given", IS_OF_FIT}, {"iterations", IS_OF_FIT}, {"leave-out", IS_OF_FIT},
};

const struct tutti_command tutti_cli_calibrate = {
    .name = "calibrate",
    .summary = "fit what protocols cost to what was measured: logs, tables, or this machine",
    .operands = "[SPEC|FILE...|FOLDER]",
    .operand_max = TUTTI_STEP_FILES_MAX,
    .text =
        "With SPEC and --log: fits latencies, rates and efficiencies of NCCL's protocols to what "
        "logs of nccl-tests tell of one machine (without SPEC: hosts of the GPUs that they list, "
        "as such hosts usually are), predicting each as 'predict -a nccl' would. The fit is "
        "robust, in logarithms, from NCCL's own figures on: what it misses by more than a third "
        "says little, and what the logs do not tell stays as it began or near it. Give -O, and "
        "predict and validate with that file (--calib).\n\n"
        "With FILE or FOLDER: the same of tables of measurements as those of traces/measured, each "
        "of which names its machine; a value is a product over classes of links and GPUs from "
        "general to special, so that one of which little was measured stays near its like.\n\n"
        "With --training: fits what devices take of a training step to your own rows, of each "
        "framework the shares of peak rates that products, convolutions and attention reach, how "
        "often element-wise operations go over memory, and what the host needs for an operation "
        "and a step (framework.NAME.CONSTANT). Each is held by a prior about what this build has, "
        "so that a few rows move it little; errors are printed before, after, and for rows that "
        "a fit has not seen. A row says what was trained on what (model, gpu, gpus, framework, "
        "precision, batch_per_gpu, ...) and how long a step took. Give -O, and 'train' and "
        "'validate --training' go by that file (--calib).\n\n"
        "With -B threads: times small schedules on this machine (copies, reductions, messages "
        "one way and both ways; no collective, and at 3 times powers of two of bytes), and "
        "fits to them what a pass over memory costs by where its bytes lie (a processor's own "
        "cache, another one's, the one of all, memory), how large the caches are, and what it "
        "costs to hand a message on. With -B tcp (--launch 2) or -B mpi (mpirun -n 2) all "
        "processes measure together, and to that comes what the system or the MPI library "
        "takes to send and to receive. With -B cuda it times copies, sums and messages of virtual "
        "ranks, all on one GPU or one each on several, by 1, 4 and 16 lanes each, and fits what a "
        "launch, a hop and an "
        "operation "
        "take, and the rates of a block of threads, of memory and of the cache. The file (-O) is "
        "for "
        "'validate -B' and 'run --predict'.",
    .examples = "tutti calibrate dgx-h100:nodes=2 --log all_reduce_16.log -O mine.calib\n"
                "tutti calibrate mine.measured -O mine.calib\n"
                "tutti predict dgx-h100 -a nccl --calib mine.calib\n"
                "tutti calibrate --training steps.csv -O mine.calib\n"
                "tutti train dgx-h100 --model llama3-8b --strategy fsdp --calib mine.calib\n"
                "tutti calibrate -B threads -O here.local\n"
                "tutti calibrate -B cuda -g 8 -O gpu.local\n"
                "tutti validate -B threads --calib here.local -a all -b 64K -e 256M\n"
                "tutti calibrate -B tcp --launch 2 -O here-tcp.local\n"
                "mpirun -n 2 tutti calibrate -B mpi -O here-mpi.local",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .moved = moved,
    .moved_count = sizeof(moved) / sizeof(moved[0]),
    .run = tutti_command_calibrate,
};
