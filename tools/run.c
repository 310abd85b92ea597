/* tutti run: really executes a collective, checks the data, and prints what nccl-tests prints. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/backend.h"
#include "runtime/cuda.h"
#include "runtime/nccl.h"
#include "runtime/record.h"
#include "runtime/status.h"
#include "sim/predict.h"
#include "tools/cli/machine.h"
#include "tools/cli/shared_options.h"
#include "tools/cli/trace_file.h"
#include "tools/commands.h"
#include "tools/local/local.h"
#include "tools/run/run.h"
#include "tools/run/run_emulate.h"
#include "tools/run/run_group.h"
#include "tools/run/run_page.h"
#include "tools/sweep/sweep.h"

/* ---- running --------------------------------------------------------------------------------- */

/* Options that say something about the other backend only. */
static int check_options(const struct tutti_args *args, const struct tutti_run_command *run,
                         struct tutti_err *err)
{
    static const char *const of_sim[] = {"topo",   "nodes",       "model",     "protocol",
                                         "jitter", "reduce-rate", "steps-max", NULL};
    static const char *const of_threads[] = {"pin",          "no-pin",   "deadline",
                                             "emulate",      "predict",  "scale",
                                             "back-to-back", "in-place", NULL};
    static const char *const of_processors[] = {"pin", "no-pin", NULL};
    bool sim = run->backend->simulated;
    bool emulated = tutti_args_given(args, "emulate");
    const char *const *others = sim ? of_threads : of_sim;

    if (emulated && tutti_args_flag(args, "predict"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '--emulate' and '--predict' contradict each other (an emulated "
                          "machine is predicted without)");
    if (!emulated && !sim && tutti_args_given(args, "scale"))
        return tutti_fail(err, TUTTI_EINVAL, "option '--scale' says nothing without '--emulate'");
    if (!run->backend->emulates && !sim && emulated)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--emulate' says nothing to backend '%s' (-B threads, -B tcp)",
                          run->backend->name);
    for (; *others != NULL; others++) {
        if (emulated && !sim && strcmp(*others, "topo") != 0 && strcmp(*others, "jitter") != 0)
            continue;
        if (tutti_args_given(args, *others))
            return tutti_fail(err, TUTTI_EINVAL, "option '--%s' says nothing to backend '%s' (%s)",
                              *others, run->backend->name, sim ? "-B threads" : "-B sim");
    }
    for (others = of_processors; run->backend->on_gpu && *others != NULL; others++)
        if (tutti_args_given(args, *others))
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--%s' says nothing to backend '%s' (-B threads)", *others,
                              run->backend->name);
    if (!run->backend->on_gpu && tutti_args_given(args, "report-cputime"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--report-cputime' says nothing to backend '%s' (-B cuda, "
                          "-B nccl)",
                          run->backend->name);
    if (run->kind_count > 1 && (sim || emulated))
        return tutti_fail(err, TUTTI_EINVAL, "options '-d' and '-o': 'all' is for real runs");
    if (emulated && tutti_args_is(args, "in-place", "on"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--in-place' says nothing with '--emulate' (one of them)");
    return tutti_run_group_check(args, run, err);
}

static int run_sim(const struct tutti_args *args, struct tutti_run_command *run,
                   struct tutti_run_stage *stage, struct tutti_run_rows *rows,
                   struct tutti_sink *sink, struct tutti_err *err)
{
    const char *spec = tutti_args_text(args, "topo");
    struct tutti_ask ask = {
        .size = sizeof(struct tutti_ask),
        .protocol = "none",
        .protocols = tutti_protocols(NULL),
        .empty = true,
        .step_count_max = tutti_run_steps_max(args, run),
        .seed = run->perform.seed,
        .jitter = tutti_args_real(args, "jitter"),
        .reduce_bytes_per_s = tutti_args_number(args, "reduce-rate"),
    };
    struct tutti_topo *topo = NULL;
    int status = tutti_model_find(tutti_args_text(args, "model"), &ask.model, err);

    if (status < 0)
        return tutti_wrap(err, status, "option '--model'");
    if (spec == NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--topo' is missing: backend 'sim' needs a machine (a preset "
                          "or a file)");
    status = tutti_machine_load(spec, (uint32_t)tutti_args_number(args, "nodes"), &topo, err);
    if (status < 0)
        return status;
    ask.topo = topo;
    ask.protocol = tutti_sweep_protocol(topo, tutti_args_text(args, "protocol"));
    if (run->rank_count != 0 && run->rank_count != topo->rank_count)
        status =
            tutti_fail(err, TUTTI_EINVAL,
                       "option '-g': %" PRIu32 " ranks, but '%s' has %" PRIu32 " (that, or no -g)",
                       run->rank_count, topo->name, topo->rank_count);
    if (status == 0)
        status = tutti_own_fits_machine(&run->own, topo, err);
    if (status == 0)
        status = tutti_calib_choose(args, topo, ask.protocol, &stage->calib, err);
    ask.protocols = stage->calib.made.protocols;
    run->rank_count = topo->rank_count;
    if (status == 0)
        status = tutti_run_sim(run, &ask, "run", rows, sink, err);
    stage->topo = topo;
    return status;
}

static int write_trace(const struct tutti_run_command *run, const struct tutti_run_rows *rows,
                       const char *path, struct tutti_sink *sink, struct tutti_err *err)
{
    const struct tutti_run_row *last = &rows->rows[rows->row_count - 1];
    char size[TUTTI_UNIT_TEXT_BYTES];
    char title[256];

    (void)snprintf(title, sizeof(title), "%s %s %s, %" PRIu32 " ranks, played by %s",
                   tutti_collective_name(run->perform.params.collective), last->performed.algorithm,
                   tutti_print_size(last->performed.bytes, size), run->rank_count,
                   run->backend->name);
    return tutti_trace_write(path, run->record, title, NULL, sink, err);
}

/* For --predict: of a file, or measured now; and from now on looked at beside each row. */
static int find_local(const struct tutti_args *args, struct tutti_run_command *run,
                      struct tutti_run_stage *stage, struct tutti_local *local,
                      struct tutti_sink *sink, struct tutti_err *err)
{
    const char *path = tutti_args_text(args, "calib");
    struct tutti_local_ask ask;
    int status;

    if (!tutti_args_flag(args, "predict"))
        return path == NULL
                   ? 0
                   : tutti_fail(err, TUTTI_EINVAL,
                                "option '--calib': nothing is to be predicted (--predict)");
    status = tutti_run_local(run, stage->with, path, "run", local, sink, err);
    stage->local = local;
    stage->how = path != NULL ? path : "measured first";
    if (status < 0)
        return status;
    if (run->backend->on_gpu) /* it has no processors that move */
        return 0;
    ask = tutti_run_local_ask(run, stage->with);
    status = tutti_local_beside_open(&ask, local, &stage->beside, err);
    if (status == 0)
        run->beside = &stage->beside;
    return status;
}

static int play_rows(const struct tutti_args *args, struct tutti_run_command *run,
                     struct tutti_run_stage *stage, struct tutti_local *local,
                     struct tutti_run_rows *rows, struct tutti_sink *sink, struct tutti_err *err)
{
    int status;

    if (run->backend->simulated)
        return run_sim(args, run, stage, rows, sink, err);
    if (run->backend->on_gpu) {
        status = run->backend->alone ? tutti_nccl_name(stage->gpu, err)
                                     : tutti_cuda_name(stage->gpu, err);
        if (status < 0)
            return status;
    }
    if (stage->emulation != NULL) {
        status = tutti_emulation_open(args, run, stage->with, stage->emulation, err);
        return status < 0 ? status
                          : tutti_run_emulated(run, stage->emulation, "run", rows, sink, err);
    }
    status = find_local(args, run, stage, local, sink, err);
    if (status == 0 && stage->with != NULL)
        return tutti_run_group_play(run, stage->with, "run", stage->local, rows, sink, err);
    return status < 0 ? status : tutti_run_alone(run, "run", stage->local, rows, sink, err);
}

/* Plays all rows and prints them, with the trace of the last one; of several processes the first
 * one prints. */
static int play(const struct tutti_args *args, struct tutti_run_command *run,
                struct tutti_run_group *with, struct tutti_sink *sink, struct tutti_err *err)
{
    const char *trace = tutti_args_text(args, "trace");
    bool speaks = with->group == NULL || with->group->index == 0;
    struct tutti_run_rows rows = {0};
    struct tutti_local local;
    struct tutti_emulation emulation = {0};
    struct tutti_run_stage stage = {.emulation = run->emulated ? &emulation : NULL,
                                    .with = with->group != NULL ? with : NULL,
                                    .began = tutti_cpu_steal_look()};
    int status = play_rows(args, run, &stage, &local, &rows, sink, err);

    if (status == 0 && speaks)
        status = tutti_run_print_rows(args, run, &stage, &rows, sink, err);
    if (status == 0 && speaks && trace != NULL)
        status = write_trace(run, &rows, trace, sink, err);
    if (status == 0 && speaks && rows.wrong_count > 0)
        status = tutti_fail(err, TUTTI_ECHECK, "%" PRIu64 " elements are wrong", rows.wrong_count);
    tutti_run_rows_done(&rows);
    tutti_topo_free(stage.topo);
    tutti_emulation_close(&emulation);
    tutti_local_beside_close(&stage.beside);
    run->beside = NULL;
    return status;
}

/* Several processes meet before, and part after. */
static int play_together(const struct tutti_args *args, struct tutti_run_command *run,
                         struct tutti_sink *sink, struct tutti_err *err)
{
    tutti_ps deadline_ps = run->perform.deadline_ps;
    struct tutti_run_group with = {.group = NULL};
    int status = 0;

    if (tutti_run_is_group(run)) {
        status = tutti_run_group_open(args, run, &with, sink, err);
        if (status < 0 || with.group == NULL)
            return status;
    }
    status = play(args, run, &with, sink, err);
    return tutti_run_group_close(&with, status, deadline_ps, err);
}

/* A schedule without a contract is played as it stands, and nothing is known of what comes out. */
static int check_data(const struct tutti_args *args, struct tutti_run_command *run,
                      struct tutti_err *err)
{
    bool custom = run->perform.params.collective == TUTTI_CUSTOM;

    if (custom && tutti_args_given(args, "check") && tutti_args_number(args, "check") != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '-C': schedule '%s' has no contract to check data by (-C 0)",
                          run->own.name);
    run->perform.check = tutti_args_number(args, "check") != 0 && !custom;
    run->perform.carry = run->perform.check || (!run->backend->simulated && !custom);
    run->perform.in_place = run->perform.carry && !run->backend->simulated &&
                            run->perform.params.collective != TUTTI_BARRIER &&
                            (tutti_args_is(args, "in-place", "on") ||
                             (tutti_args_is(args, "in-place", "auto") && run->backend->on_gpu));
    run->report_host = tutti_args_number(args, "report-cputime") != 0;
    return 0;
}

int tutti_command_run(const struct tutti_args *args, struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_record record;
    struct tutti_run_command run;
    int status = tutti_run_read(args, &run, err);

    if (status < 0)
        return status;
    status = check_options(args, &run, err);
    if (status == 0)
        status =
            tutti_trace_check(tutti_args_text(args, "trace"), tutti_run_writes_here(args), err);
    if (status == 0)
        status = check_data(args, &run, err);
    if (status < 0) {
        tutti_run_done(&run);
        return status;
    }
    tutti_record_init(&record);
    run.perform.back_to_back = tutti_args_flag(args, "back-to-back");
    run.emulated = tutti_args_given(args, "emulate");
    run.record = tutti_args_given(args, "trace") ? &record : NULL;
    status = play_together(args, &run, sink, err);
    tutti_record_done(&record);
    tutti_run_done(&run);
    return status;
}

static const struct tutti_option options[] = {
    TUTTI_OPTIONS_RUN,
    TUTTI_OPTION_LAUNCH,
    TUTTI_OPTIONS_RUN_GROUP,
    {.letter = 'C',
     .name = "check",
     .type = TUTTI_OPTION_COUNT,
     .value = "0|1",
     .standard = "1",
     .max = 1,
     .help = "check what comes out (nccl-tests: -c)"},
    {.name = "in-place",
     .type = TUTTI_OPTION_CHOICE,
     .value = "auto|on|off",
     .standard = "auto",
     .help =
         "then once more with in and out in one buffer, as nccl-tests does; auto: with cuda and "
         "nccl"},
    {.name = "report-cputime",
     .type = TUTTI_OPTION_COUNT,
     .value = "0|1",
     .standard = "0",
     .max = 1,
     .help = "cuda, nccl: show what the host takes to hand an iteration to the GPUs (nccl-tests: "
             "-C, which is the check here)"},
    {.name = "back-to-back",
     .type = TUTTI_OPTION_FLAG,
     .help = "time all iterations as one, as nccl-tests does, instead of each alone"},
    {.name = "predict",
     .type = TUTTI_OPTION_FLAG,
     .help =
         "real backends: measure this machine first, at other sizes and never a collective, and "
         "print what that lets one expect"},
    {.name = "calib",
     .type = TUTTI_OPTION_TEXT,
     .value = "FILE",
     .help = "--predict: as 'tutti calibrate -B' has found this machine, instead of measuring it; "
             "sim, --emulate: what protocols cost, as of predict (FILE|builtin|none)"},
    {.name = "topo",
     .type = TUTTI_OPTION_TEXT,
     .value = "SPEC",
     .help = "sim: the machine, a preset or a file"},
    TUTTI_OPTIONS_EMULATE,
    TUTTI_OPTION_NODES,
    TUTTI_OPTION_MODEL,
    TUTTI_OPTION_PROTOCOL,
    TUTTI_OPTION_REDUCE_RATE,
    TUTTI_OPTION_JITTER,
    {.name = "steps-max",
     .type = TUTTI_OPTION_COUNT,
     .value = "N",
     .standard = TUTTI_TEXT_OF(TUTTI_STANDARD_STEPS),
     .min = 1,
     .max = UINT64_MAX,
     .help = "sim, --emulate: auto leaves out, and names, what takes more steps to simulate at a "
             "size, or, folded or round one ring, 8 times as many; in rings that share no link, 16 "
             "times"},
    TUTTI_OPTION_TRACE,
    TUTTI_OPTIONS_OUTPUT,
};

const struct tutti_command tutti_cli_run = {
    .name = "run",
    .summary = "really execute a collective here: time, bandwidth, wrong elements",
    .operands = "",
    .text =
        "Plays a collective on a backend and prints the columns of nccl-tests. The ranks start "
        "with data that are nowhere zero and differ from rank to rank; what comes out is compared, "
        "bit for bit, with what the collective must give, and '#wrong' counts the elements that "
        "differ. If there are any, the exit code is 1.\n\n"
        "'time' is the median of the timed iterations, before each of which the ranks meet; 'best' "
        "is the shortest. With --back-to-back both are the mean of iterations that follow each "
        "other, as nccl-tests measures. With cuda and nccl, or --in-place on, each row is then "
        "played with input and output in one buffer, as nccl-tests lays them out: the same steps, "
        "once it is proved that none overwrites what another still needs; N/A, and a line below "
        "the table, where that does not hold or there is no such layout (alltoall, sendrecv). In "
        "place, an iteration takes what the one before has left; the check plays one more from "
        "fresh inputs.\n\n"
        "Backend 'threads' runs a thread a rank in this process and really moves the data. With "
        "--predict it first measures single messages, copies and reductions (never a collective, "
        "and at sizes that are no power of two) as 'tutti calibrate -B' does, or takes its file "
        "(--calib), plays the same schedule on a machine of just these caches and rates, and "
        "prints that time and its error beside the measured one. More ranks than processors, and "
        "other work of the machine, make that error large.\n\n"
        "With --emulate the ranks are those of another machine, and messages take the time that "
        "its links, shared as in the simulator, would give them, times --scale, and told in its "
        "own time; data are moved and "
        "added all the same. So a cluster can be tried out on a laptop, and the time be held "
        "against what the simulator says of the same machine. What a step costs "
        "here is not added to what it costs there, unless it lasts longer: then instants come "
        "late, and a line below the table says so. Backend 'tcp' does the same where all processes "
        "are "
        "on one host: they share the clock of that machine, and the data go over sockets.\n\n"
        "Backends 'tcp' and 'mpi' play with several processes, on one host or many, of which each "
        "has one rank or more; process 0 prints, and the data of all are checked. With tcp, "
        "'--launch N' starts N processes here and '--hosts' elsewhere; else whoever has started "
        "this process says which of how many it is: Open MPI's or MPICH's mpirun, Slurm's srun, "
        "torchrun, horovodrun, LSF, a TF_CONFIG, RANK and WORLD_SIZE, Kubernetes, or TUTTI_RANK, "
        "TUTTI_SIZE and TUTTI_ROOT=HOST:PORT of process 0; 'tutti doctor' shows it. All processes "
        "that prove to know TUTTI_SECRET are let in (16 characters or more, drawn at random: "
        "openssl rand -hex 16; what is sent afterwards is neither encrypted nor authenticated); "
        "without one only those of the same host are, or anybody with --open. Process 0 listens at "
        "the address of TUTTI_ROOT alone, if that is one in numbers, else on all of its host; "
        "--interface names another. When a process is lost or stands still, all others end within "
        "the deadline, with exit code 1, and name it; of those that --launch has started one line "
        "says "
        "it for all. With mpi an mpirun starts them.\n\n"
        "Backend 'sim' plays the same schedule on a virtual clock, on the machine of --topo, with "
        "the same data.\n\n" TUTTI_OWN_TEXT,
    .examples = "tutti run -B threads -g 4 -a ring -b 64K -e 16M -f 4\n"
                "tutti run -B threads -g 2 -a ring --predict\n"
                "tutti run -B threads -g 2 -c allgather -a all -b 1M\n"
                "tutti run -B threads -g 4 -a two-shot -b 1M --trace two-shot.json\n"
                "tutti run -B threads --schedule my.schedule -b 64K\n"
                "tutti run -B threads --emulate dgx-h100:nodes=2 -a ring,hierarchical -b 1M\n"
                "tutti run -B tcp --launch 2 --emulate dgx-h100:nodes=2 -a hierarchical -b 1M\n"
                "tutti run -B tcp --launch 4 -a ring,halving-doubling -b 64K -e 16M -f 4\n"
                "tutti run -B tcp --hosts node1:2,node2:2 -a ring -b 1M --dry-run\n"
                "srun -n 8 tutti run -B tcp -a all -b 1M\n"
                "mpirun -n 4 tutti run -B mpi -a ring -b 1M --library\n"
                "tutti run -B sim --topo dgx-h100 -a ring,halving-doubling -b 1M -e 64M -f 8",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_run,
};
