/* Real training: opens everything, makes the steps; see real.h. */
#include "tools/train/real.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "runtime/coll.h"
#include "runtime/nccl.h"
#include "runtime/random.h"
#include "runtime/shape.h"
#include "runtime/status.h"
#include "tools/sink.h"
#include "tools/train/going_on.h"

/* ---- collectives ----------------------------------------------------------------------------- */

/* What is asked for reduces gradients; what else a step needs goes round a ring. */
static int make_collective(void *context, const struct tutti_coll_params *given, uint32_t axis,
                           uint32_t size, struct tutti_schedule **ret, struct tutti_err *err)
{
    const struct tutti_train_real *real = context;
    struct tutti_coll_params params = *given;
    struct tutti_shape shape = tutti_shape_flat(size);
    const bool all = axis == TUTTI_AXIS_ALL && params.collective == TUTTI_ALLREDUCE &&
                     params.dtype != TUTTI_FLOAT64;

    params.added = real->added;
    if (all && real->algorithm != NULL && real->emulation.topo != NULL)
        return tutti_train_emulation_collective(real, &params, ret, err);
    if (real->group_ranks > 1 && size % real->group_ranks == 0 && size > real->group_ranks) {
        shape.level_count = 2;
        shape.level[0] = real->group_ranks;
        shape.level[1] = size / real->group_ranks;
    }
    if (strcmp(real->strategy.name, "tpu") == 0 && size % 2 == 0 && size > 2) {
        shape.dim_count = 2;
        shape.dim[0] = 2;
        shape.dim[1] = size / 2;
        shape.wrap[0] = shape.wrap[1] = true;
    }
    if (all && real->algorithm != NULL) {
        params.channel_count = real->channels;
        return tutti_coll_generate(real->algorithm, &params, &shape, ret, err);
    }
    if (all && real->strategy.to_one_device)
        return tutti_coll_generate("reduce-broadcast", &params, &shape, ret, err);
    if (all && shape.dim_count > 0 && tutti_coll_generate("torus", &params, &shape, ret, err) == 0)
        return 0;
    return tutti_coll_generate("ring", &params, &shape, ret, err);
}

/* ---- opening --------------------------------------------------------------------------------- */

static int read_backend(const struct tutti_args *args, struct tutti_train_real *real,
                        struct tutti_err *err)
{
    struct tutti_run_command *run = &real->run;
    const char *launch = tutti_args_text(args, "launch");
    int status = tutti_run_read_measuring(args, run, err);

    if (status < 0)
        return status;
    if (launch != NULL &&
        (launch[strspn(launch, "0123456789")] != '\0' || strtol(launch, NULL, 10) < 1 ||
         strtol(launch, NULL, 10) > TUTTI_JOIN_LAUNCH_MAX))
        return tutti_fail(err, TUTTI_EINVAL, "option '--launch': '%.40s' with -B (1 to %d)", launch,
                          TUTTI_JOIN_LAUNCH_MAX);
    run->streams = run->backend->on_gpu;
    run->rank_count =
        tutti_args_given(args, "ranks") ? (uint32_t)tutti_args_number(args, "ranks") : 0;
    run->emulated = tutti_args_given(args, "emulate");
    if (run->emulated && !run->backend->emulates)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--emulate' says nothing to backend '%s' "
                          "(threads or tcp)",
                          run->backend->name);
    run->perform.deadline_ps = (tutti_ps)tutti_args_number(args, "deadline");
    if (run->perform.deadline_ps == 0)
        return tutti_fail(err, TUTTI_EINVAL, "option '--deadline': '%s' (more than 0)",
                          tutti_args_text(args, "deadline"));
    status = tutti_train_real_cut_read(args, real, err);
    if (status < 0)
        return status;
    if (!run->grouped && run->rank_count == 0 && tutti_args_is(args, "strategy", "onedevice"))
        run->rank_count = 1;
    if (!run->grouped && run->rank_count == 0 && run->backend->alone)
        status = tutti_nccl_gpu_count(&run->rank_count, err);
    if (status < 0)
        return status;
    if (!run->grouped && run->rank_count == 0)
        run->rank_count = 2;
    run->pin = tutti_args_flag(args, "pin") ||
               (!tutti_args_flag(args, "no-pin") && run->rank_count <= tutti_run_processors());
    status = tutti_train_going_on_check(args, run, err);
    if (status == 0)
        status = tutti_train_elastic_read(args, &real->elastic, err);
    if (status == 0)
        status = tutti_train_elastic_check(args, &real->elastic, err);
    real->preempt_file = tutti_args_text(args, "preempt-file");
    return status < 0 ? status : tutti_run_group_check(args, run, err);
}

/* *ret_done: this process has nothing to do any more. */
static int open_backend(const struct tutti_args *args, struct tutti_train_real *real,
                        struct tutti_sink *sink, bool *ret_done, struct tutti_err *err)
{
    struct tutti_run_command *run = &real->run;
    int status;

    *ret_done = false;
    if (!run->grouped) {
        status = tutti_train_emulation_open(args, run, NULL, &real->emulation, err);
        return status < 0 || run->emulated ? status
                                           : tutti_run_open_alone(run, &real->backend, err);
    }
    status = tutti_run_group_open(args, run, &real->with, sink, err);
    *ret_done = status == 0 && real->with.group == NULL;
    real->backend = real->with.backend;
    if (status == 0 && !*ret_done) {
        status = tutti_train_emulation_open(args, run, &real->with, &real->emulation, err);
        status = tutti_run_group_agree(&real->with, status, run->perform.deadline_ps, err);
    }
    if (status == 0 && !*ret_done && run->rank_count % real->with.group->count == 0)
        real->group_ranks = run->rank_count / real->with.group->count;
    return status;
}

bool tutti_train_real_prints(const struct tutti_train_real *real)
{
    return real->with.group == NULL || real->with.group->index == 0;
}

/* ---- training -------------------------------------------------------------------------------- */

int tutti_train_real_look_at_weights(struct tutti_train_real *real,
                                     struct tutti_train_real_page *page, uint64_t *ret_hash,
                                     struct tutti_err *err)
{
    const uint64_t count = tutti_trainer_elements(real->trainer);
    float *all = calloc(count + 1, sizeof(*all));
    int status = all == NULL ? tutti_nomem(err) : tutti_trainer_weights(real->trainer, all, err);

    if (status == 0 && ret_hash != NULL)
        *ret_hash = tutti_weights_hash(all, count);
    if (status == 0)
        status = tutti_train_real_note_weights(page, real, all, err);
    free(all);
    return status;
}

/* Whether a step to be evaluated is among the last that were made. */
static bool is_due(const struct tutti_train_real *real, const struct tutti_trained *step)
{
    const uint64_t end = step->step + step->step_count;

    return real->evaluate_every > 0 && end < real->steps &&
           end / real->evaluate_every > step->step / real->evaluate_every;
}

/* Local SGD ends with an average. */
static void round_up(struct tutti_train_real *real, struct tutti_sink *sink)
{
    const uint64_t made = tutti_trainer_steps(real->trainer);
    const uint64_t local = real->strategy.local_steps;
    const uint64_t asked = real->steps;

    if (local == 0 || asked <= made || (asked - made) % local == 0)
        return;
    real->steps = made + (asked - made + local - 1) / local * local;
    if (tutti_train_real_prints(real))
        fprintf(sink->notes,
                "tutti train: %" PRIu64 " steps, not %" PRIu64 ": %s averages every %" PRIu64
                " ('--local-steps')\n",
                real->steps, asked, real->strategy.name, local);
}

/* ---- signals ---- */

/* With checkpoints, SIGTERM ends training after a step that all know, and that is saved: it waits
 * in a file until the step is over. Before threads are started, which inherit the mask. A file that
 * grows beyond what the user may write is told by the write that fails, as a full disk is. */
static void watch_signals(struct tutti_train_real *real, bool watches)
{
    sigset_t term;

    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    real->term_file = -1;
    if (watches)
        (void)signal(SIGXFSZ, SIG_IGN);
    if (!watches || pthread_sigmask(SIG_BLOCK, &term, &real->signals_before) != 0)
        return;
    real->term_file = signalfd(-1, &term, SFD_CLOEXEC | SFD_NONBLOCK);
}

static bool has_signal(const struct tutti_train_real *real)
{
    struct signalfd_siginfo info;

    return real->term_file >= 0 && read(real->term_file, &info, sizeof(info)) == sizeof(info);
}

/* A notice of who runs the machine: a file that is there, unless it says FALSE as the metadata of a
 * machine at Google that is not to be preempted. Looked for once a second, as TensorFlow does. */
static bool has_notice(struct tutti_train_real *real)
{
    char text[6] = "";
    struct timespec now;
    double now_s;
    FILE *file;
    bool says_no;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    now_s = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    if (real->preempt_file == NULL || now_s < real->looked_s + 1)
        return false;
    real->looked_s = now_s;
    file = fopen(real->preempt_file, "re");
    if (file == NULL)
        return false;
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    says_no = strncmp(text, "FALSE", 5) == 0;
    fclose(file);
    return !says_no;
}

bool tutti_train_real_is_told(struct tutti_train_real *real)
{
    return has_signal(real) || has_notice(real);
}

/* One that has come after the last step has nothing to end any more. Where training was told to
 * stop the process is about to end, and its code says so: no signal to it may say something else.
 */
static void leave_signals(struct tutti_train_real *real, bool is_stopped)
{
    if (real->term_file < 0)
        return;
    while (has_signal(real))
        continue;
    (void)close(real->term_file);
    if (!is_stopped)
        (void)pthread_sigmask(SIG_SETMASK, &real->signals_before, NULL);
}

int tutti_train_real_step(struct tutti_train_real *real, struct tutti_train_real_page *page,
                          struct tutti_trained *ret, struct tutti_err *err)
{
    struct tutti_sums held_out;
    int status = tutti_trainer_step(real->trainer, ret, err);

    if (status == 0 && real->emulation.topo != NULL)
        tutti_train_emulation_step(&real->emulation, real->backend, ret);
    if (status == 0)
        status = tutti_train_real_note_pieces(real, ret, err);
    if (status == 0)
        status = tutti_train_real_print_step(page, real, ret, err);
    if (status == 0 && real->params.check_sync && !ret->in_sync)
        status =
            tutti_fail(err, TUTTI_ECHECK,
                       "step %" PRIu64 ": replicas began it with weights that differ", ret->step);
    if (status < 0 || !is_due(real, ret))
        return status;
    status = tutti_trainer_evaluate(real->trainer, &held_out, err);
    if (status == 0)
        status = tutti_train_real_print_held_out(page, real, tutti_trainer_steps(real->trainer),
                                                 &held_out, err);
    return status < 0 ? status : tutti_train_real_look_at_weights(real, page, NULL, err);
}

static int make_steps(struct tutti_train_real *real, struct tutti_train_real_page *page,
                      bool *ret_stopped, struct tutti_err *err)
{
    struct tutti_trained step = {.stop = false};
    int status = 0;

    while (tutti_trainer_steps(real->trainer) < real->steps && status == 0 && !step.stop) {
        if (tutti_train_real_is_told(real))
            tutti_trainer_stop(real->trainer);
        status = tutti_train_real_step(real, page, &step, err);
    }
    *ret_stopped = step.stop;
    return status;
}

void tutti_train_real_note(void *context, const char *line)
{
    fprintf(((struct tutti_sink *)context)->notes, "tutti train: %s\n", line);
}

/* What is said at the end: of the held-out examples, of the weights. */
static int end(struct tutti_train_real *real, struct tutti_train_real_page *page,
               struct tutti_err *err)
{
    struct tutti_sums held_out = {0, 0, 0};
    uint64_t hash = 0;
    int status = 0;

    if (real->evaluate_end)
        status = tutti_trainer_evaluate(real->trainer, &held_out, err);
    if (status == 0)
        status = tutti_train_real_look_at_weights(real, page, &hash, err);
    if (status == 0)
        status = tutti_train_real_print_final(page, real, &held_out, hash, err);
    return status;
}

int tutti_train_real_open_trainer(const struct tutti_args *args, struct tutti_train_real *real,
                                  struct tutti_sink *sink, struct tutti_err *err)
{
    uint32_t own_count;
    int status;

    real->params.note = tutti_train_real_note;
    real->params.note_context = sink;
    if (tutti_args_given(args, "trace") || tutti_args_given(args, "calibrate"))
        real->params.record = &real->record;
    status = real->emulation.topo != NULL ? tutti_train_emulation_train(real, err)
                                          : tutti_trainer_open(&real->params, &real->trainer, err);
    if (status < 0)
        return status;
    if (tutti_train_real_prints(real) && real->remark != NULL)
        fprintf(sink->notes, "tutti train: %s\n", real->remark);
    round_up(real, sink);
    tutti_backend_ranks(real->backend, real->run.rank_count, &real->first_rank, &own_count);
    return tutti_train_real_calib(args, real, err);
}

int tutti_train_real_end(const struct tutti_args *args, struct tutti_train_real *real,
                         struct tutti_train_real_page *page, bool stopped, struct tutti_sink *sink,
                         struct tutti_err *err)
{
    int status = 0;

    if (tutti_args_given(args, "trace") && tutti_train_real_prints(real))
        status = tutti_train_real_trace(args, real, sink, err);
    if (status == 0 && tutti_args_given(args, "calibrate") && tutti_train_real_prints(real))
        status = tutti_train_here_write(&real->notes, real, tutti_args_text(args, "calibrate"),
                                        sink, err);
    if (status == 0)
        status = tutti_trainer_save(real->trainer, err);
    if (status < 0 || !stopped)
        return status < 0 ? status : end(real, page, err);
    tutti_train_real_print_stopped(page, tutti_trainer_steps(real->trainer));
    sink->exit_code = (int)tutti_args_number(args, "stop-code");
    return 0;
}

static int train(const struct tutti_args *args, struct tutti_train_real *real,
                 struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_train_real_page page;
    struct tutti_err closing;
    bool stopped = false;
    int closed;
    int status;

    status = tutti_train_real_open_trainer(args, real, sink, err);
    if (status == 0)
        status = tutti_train_real_page_open(args, real, tutti_train_real_prints(real) ? sink : NULL,
                                            &page, err);
    if (status < 0)
        return status;
    status = make_steps(real, &page, &stopped, err);
    if (status == 0)
        status = tutti_train_real_end(args, real, &page, stopped, sink, err);
    closed = tutti_train_real_page_done(&page, &closing);
    if (status == 0 && closed < 0)
        *err = closing;
    return status < 0 ? status : closed;
}

static const char nothing_saved[] = "without '--checkpoint FOLDER' nothing is saved";

/* From the newest checkpoint on, or from the beginning: all that have met. */
static int begin(const struct tutti_args *args, struct tutti_train_real *real,
                 struct tutti_sink *sink, struct tutti_err *err)
{
    int status = real->learner.size > 0 ? 0 : tutti_train_real_read(args, real, err);

    if (status == 0 && real->emulation.topo != NULL)
        status = tutti_train_emulation_time(args, real, err);
    status = tutti_run_group_agree(&real->with, status, real->run.perform.deadline_ps, err);
    real->params.backend = real->backend;
    if (status == 0)
        status = tutti_train_real_same(real, err);
    if (status == 0 && real->with.join.again && real->breaks == 0 &&
        tutti_train_real_prints(real) && real->params.checkpoint == NULL)
        fprintf(sink->notes, "tutti train: all begin anew: %s\n", nothing_saved);
    return status < 0 ? status : train(args, real, sink, err);
}

/* Without what the lost one was waited for. */
static size_t sentence_bytes(const char *text)
{
    const char *at = strstr(text, " has gone: ");

    return at != NULL ? (size_t)(at - text) + strlen(" has gone") : strlen(text);
}

/* Whether what has failed is that another process is lost, or has given up, and they are to meet
 * again: who finds nothing but that is not to blame. What fails every time ends it in the end. */
static bool goes_on(struct tutti_train_real *real, int status, const struct tutti_err *err,
                    struct tutti_sink *sink)
{
    if ((status != -TUTTI_EIO && status != -TUTTI_ETIME) || real->with.group == NULL ||
        real->breaks >= real->with.join.restarts)
        return false;
    real->breaks++;
    if (tutti_train_real_prints(real))
        fprintf(sink->notes, "tutti train: %.*s; all %s%s\n", (int)sentence_bytes(err->text),
                err->text,
                real->params.checkpoint != NULL ? "go back to the newest whole checkpoint"
                                                : "begin anew: ",
                real->params.checkpoint != NULL ? "" : nothing_saved);
    return true;
}

/* One of those that train. */
static int take_part(const struct tutti_args *args, struct tutti_train_real *real,
                     struct tutti_sink *sink, struct tutti_err *err)
{
    const bool launches = tutti_args_given(args, "launch");
    const bool saves = tutti_args_given(args, "checkpoint") || real->elastic.least > 0;
    bool done = false;
    int status;

    if (!launches) /* else its children watch, once they are there */
        watch_signals(real, saves);
    status = open_backend(args, real, sink, &done, err);
    if (status < 0 || done)
        return status;
    if (launches)
        watch_signals(real, saves);
    if (real->elastic.least > 0)
        return tutti_train_elastic(args, real, sink, err);
    for (;;) {
        if (status == 0)
            status = begin(args, real, sink, err);
        if (status == 0 || !goes_on(real, status, err, sink))
            return status;
        tutti_trainer_close(real->trainer);
        real->trainer = NULL;
        status = tutti_run_group_again(args, &real->run, &real->with, sink, err);
        if (status < 0)
            return status;
        real->backend = real->with.backend;
        /* As the one that has come again, which has opened what is to be emulated: nothing. */
        status = tutti_run_group_agree(&real->with, 0, real->run.perform.deadline_ps, err);
    }
}

int tutti_train_real(const struct tutti_args *args, struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_train_real real = {.term_file = -1, .params = {.collective = make_collective}};
    struct tutti_launch launch;
    bool met;
    int status = read_backend(args, &real, err);

    if (status < 0)
        return status;
    real.params.context = &real;
    status = tutti_train_is_evaluator(args, &real) ? tutti_train_evaluator(args, &real, sink, err)
                                                   : take_part(args, &real, sink, err);
    tutti_trainer_close(real.trainer);
    tutti_net_learner_free(&real.learner);
    tutti_algorithm_set_free(real.added);
    tutti_model_free(real.model);
    free(real.stage_layers);
    met = real.with.group != NULL;
    launch = real.with.join.launch;
    if (!real.run.grouped)
        tutti_backend_close(real.backend);
    else
        status = tutti_run_group_close(&real.with, status, real.run.perform.deadline_ps, err);
    if (status < 0 && met) /* the others have it as it is, and name them by themselves */
        tutti_join_name_tasks(&launch, err);
    tutti_train_emulation_close(&real.emulation);
    tutti_record_done(&real.record);
    tutti_train_here_notes_done(&real.notes);
    leave_signals(&real, sink->exit_code != 0);
    return status;
}
