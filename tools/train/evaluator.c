/* The evaluator of a TF_CONFIG: a process beside those that train, which looks at the checkpoints
 * they save; see real.h. It meets nobody: the folder is all that it shares with them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "runtime/launch.h"
#include "runtime/status.h"
#include "runtime/threads.h"
#include "tools/sink.h"
#include "tools/train/real.h"

enum { EVENTS_BYTES = 4096, LOOK_MS = 100 };

static bool read_launch(const struct tutti_args *args, struct tutti_launch *ret,
                        struct tutti_err *err)
{
    return tutti_launch_read(&tutti_env_process, tutti_args_text(args, "launcher"), ret, err) == 0;
}

bool tutti_train_is_evaluator(const struct tutti_args *args, const struct tutti_train_real *real)
{
    struct tutti_launch launch;

    return real->run.grouped && real->run.backend->launched && !tutti_args_given(args, "launch") &&
           !tutti_args_given(args, "hosts") && tutti_args_given(args, "checkpoint") &&
           read_launch(args, &launch, NULL) && !launch.member &&
           strcmp(launch.role, "evaluator") == 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Reads the options as those that train do, for what they say of model, data and length; then sees
 * to it as one rank, by the plainest strategy: weights are all that it restores. */
static int read_options(const struct tutti_args *args, struct tutti_train_real *real,
                        struct tutti_err *err)
{
    struct tutti_net_learner_params *d = &real->data;
    struct tutti_launch launch;
    int status;

    if (!read_launch(args, &launch, err))
        return -TUTTI_EINVAL;
    if (real->run.rank_count == 0)
        real->run.rank_count = launch.count > 0 ? launch.count : 1;
    status = tutti_train_real_read(args, real, err);
    if (status < 0)
        return status;
    tutti_net_learner_free(&real->learner);
    d->global_batch = (d->global_batch + d->rank_count - 1) / d->rank_count;
    d->rank_count = real->run.rank_count = real->params.rank_count = 1;
    d->micro_batches = real->params.micro_batches = 1;
    d->dropout = 0;
    d->shard = TUTTI_TF_SHARD_DATA;
    status = tutti_net_learner_new(d, &real->learner, &real->facts, err);
    if (status == 0)
        status = tutti_strategy_named("onedevice", &real->strategy, err);
    if (status == 0)
        status = tutti_update_named("sgd", &real->params.optimizer, err);
    real->params.gradients = TUTTI_FLOAT32;
    real->params.loss_scale = (struct tutti_loss_scale){0};
    real->params.shard_ranks = 0;
    real->params.parallel = NULL;
    real->params.restore_only = real->evaluate_end = true;
    return status;
}

/* FOLDER/evaluator: TensorBoard shows it as a run of its own beside the training's. */
static int make_events(struct tutti_train_real *real, char path[EVENTS_BYTES],
                       struct tutti_err *err)
{
    if (real->events == NULL)
        return 0;
    if (snprintf(path, EVENTS_BYTES, "%s/evaluator", real->events) >= EVENTS_BYTES)
        return tutti_fail(err, TUTTI_EINVAL, "option '--tensorboard': more than %d characters",
                          EVENTS_BYTES - 11);
    if (mkdir(real->events, 0777) != 0 && errno != EEXIST)
        return tutti_fail(err, TUTTI_EIO, "cannot make folder '%s': %s", real->events,
                          strerror(errno));
    real->events = path;
    return 0;
}

/* ---- looking on ------------------------------------------------------------------------------ */

struct watch {
    struct tutti_trainer_saved seen;  /* the newest that has been looked at */
    struct tutti_trainer_saved shown; /* the one restored for it: an older one if it is damaged */
    tutti_ps since_ps;
};

static tutti_ps now_ps(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (tutti_ps)t.tv_sec * TUTTI_PS_PER_S + (tutti_ps)t.tv_nsec * 1000;
}

static bool is_same(struct tutti_trainer_saved a, struct tutti_trainer_saved b)
{
    return a.is_there == b.is_there && a.incarnation == b.incarnation && a.step == b.step;
}

static int show(struct tutti_train_real *real, struct tutti_train_real_page *page,
                struct tutti_err *err)
{
    const uint64_t step = tutti_trainer_steps(real->trainer);
    struct tutti_sums sums;
    uint64_t hash = 0;
    int status = tutti_trainer_evaluate(real->trainer, &sums, err);

    if (status == 0)
        status = tutti_train_real_look_at_weights(real, page, &hash, err);
    if (status == 0 && step < real->steps)
        status = tutti_train_real_print_held_out(page, real, step, &sums, err);
    else if (status == 0)
        status = tutti_train_real_print_final(page, real, &sums, hash, err);
    return status;
}

/* The newest as it is by now. -TUTTI_ETIME or what else has gone wrong with it: it may have been
 * removed meanwhile, to make room for newer ones. */
static int look(struct tutti_train_real *real, struct tutti_train_real_page *page,
                struct watch *watch, struct tutti_trainer_saved newest, struct tutti_err *err)
{
    int status = tutti_trainer_open(&real->params, &real->trainer, err);

    if (status == 0) {
        const struct tutti_trainer_saved restored = {true, newest.incarnation,
                                                     tutti_trainer_steps(real->trainer)};

        if (!is_same(restored, watch->shown))
            status = show(real, page, err);
        watch->shown = restored;
    }
    tutti_trainer_close(real->trainer);
    real->trainer = NULL;
    watch->since_ps = now_ps();
    return status;
}

static int overdue(const struct tutti_train_real *real, const struct watch *watch,
                   const char *waited, struct tutti_err *err)
{
    if (!watch->seen.is_there)
        return tutti_fail(err, TUTTI_ETIME, "no checkpoint in '%s' for %s (--evaluator-wait)",
                          real->params.checkpoint, waited);
    return tutti_fail(err, TUTTI_ETIME,
                      "no new checkpoint in '%s' for %s: the newest is of step %" PRIu64
                      " of %" PRIu64 " (--evaluator-wait)",
                      real->params.checkpoint, waited, watch->seen.step, real->steps);
}

static int watch_folder(const struct tutti_args *args, struct tutti_train_real *real,
                        struct tutti_train_real_page *page, struct tutti_err *err)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    const tutti_ps wait_ps = (tutti_ps)tutti_args_number(args, "evaluator-wait");
    struct watch watch = {.since_ps = now_ps()};

    for (;;) {
        struct tutti_trainer_saved newest;
        int status = tutti_trainer_newest(real->params.checkpoint, &newest, err);

        if (status < 0)
            return status;
        if (newest.is_there && !is_same(newest, watch.seen)) {
            struct tutti_trainer_saved now = newest;

            status = look(real, page, &watch, newest, err);
            if (status < 0 && tutti_trainer_newest(real->params.checkpoint, &now, NULL) == 0 &&
                !is_same(now, newest))
                continue; /* there is a newer one by now */
            if (status < 0)
                return status;
            watch.seen = newest;
        }
        if (watch.shown.is_there && watch.shown.step >= real->steps)
            return 0;
        if (now_ps() - watch.since_ps > wait_ps)
            return overdue(real, &watch, tutti_args_text(args, "evaluator-wait"), err);
        (void)nanosleep(&pause, NULL);
    }
}

int tutti_train_evaluator(const struct tutti_args *args, struct tutti_train_real *real,
                          struct tutti_sink *sink, struct tutti_err *err)
{
    const struct tutti_backend_kind *alone = tutti_backend_kind_find("threads");
    char events[EVENTS_BYTES];
    struct tutti_train_real_page page;
    struct tutti_err closing;
    int status = read_options(args, real, err);
    int closed;

    if (status == 0)
        status = make_events(real, events, err);
    if (status == 0)
        status = tutti_threads_open(NULL, &real->backend, err);
    if (status < 0)
        return status;
    real->run.backend = alone;
    real->run.grouped = false; /* the backend is this process's own */
    real->params.backend = real->backend;
    real->params.note = tutti_train_real_note;
    real->params.note_context = sink;
    status = tutti_train_real_page_open(args, real, sink, &page, err);
    if (status < 0)
        return status;
    status = watch_folder(args, real, &page, err);
    closed = tutti_train_real_page_done(&page, &closing);
    if (status == 0 && closed < 0)
        *err = closing;
    return status < 0 ? status : closed;
}
