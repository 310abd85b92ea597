/* A training's steps as lines, and as TensorBoard's events; see train_log.h. */
#include "traces/train_log.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/replica.h"
#include "runtime/status.h"
#include "traces/tensorboard.h"

struct log {
    FILE *out;
    bool is_terminal;
    bool has_line; /* a progress line without its end */
    char *folder;
    struct tutti_tensorboard *events; /* NULL: none yet */
    double flushed_s;
};

static double wall_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* NaN where there is nothing to divide by: null in JSON. */
static double mean(double sum, double count)
{
    return count > 0 ? sum / count : NAN;
}

static double accuracy(const struct tutti_replica_seen *what, const struct tutti_sums *sums)
{
    return what->has_classes ? mean(sums->correct, sums->examples) : NAN;
}

static double seconds(tutti_ps ps)
{
    return (double)ps / (double)TUTTI_PS_PER_S;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void member(FILE *out, const char *key, double value)
{
    if (isfinite(value))
        fprintf(out, ",\"%s\":%.9g", key, value);
    else
        fprintf(out, ",\"%s\":null", key);
}

static void print_json(const struct log *log, const struct tutti_replica_seen *what)
{
    const struct tutti_trained *made = what->made;
    FILE *out = log->out;

    if (made != NULL) {
        const double step_s = seconds(made->step_ps);

        fprintf(out, "{\"step\":%" PRIu64, what->step);
        member(out, "loss", mean(made->sums.loss, made->sums.examples));
        member(out, "accuracy", accuracy(what, &made->sums));
        member(out, "step_s", step_s);
        member(out, "examples_per_s", mean(made->sums.examples, step_s));
        member(out, "waiting_s", fmax(step_s - seconds(made->compute_ps), 0));
        member(out, "grad_norm", made->gradient_norm);
        member(out, "learning_rate", made->learning_rate);
        fprintf(out, "%s}\n", made->skipped ? ",\"skipped\":true" : "");
    }
    if (what->held_out != NULL) {
        fprintf(out, "{\"held_out\":{\"step\":%" PRIu64, what->step);
        member(out, "loss", mean(what->held_out->loss, what->held_out->examples));
        member(out, "accuracy", accuracy(what, what->held_out));
        member(out, "examples", what->held_out->examples);
        fputs("}}\n", out);
    }
    if (what->final)
        fprintf(out, "{\"%s\":{\"steps\":%" PRIu64 ",\"weights\":\"%016" PRIx64 "\"}}\n",
                what->stopped ? "stopped" : "final", what->step, what->weights_hash);
    fflush(out);
}

static void print_line(struct log *log, const struct tutti_replica_seen *what)
{
    const struct tutti_sums *sums = what->made != NULL ? &what->made->sums : what->held_out;
    FILE *out = log->out;

    if (log->has_line)
        fputs(what->made != NULL ? "\r" : "\n", out);
    log->has_line = what->made != NULL;
    if (what->made != NULL)
        fprintf(out, "step %" PRIu64 " of %" PRIu64 ", %.3g ms", what->step, what->step_limit,
                1e3 * seconds(what->made->step_ps));
    else if (what->held_out != NULL)
        fprintf(out, "step %" PRIu64 ", held out", what->step);
    if (sums != NULL)
        fprintf(out, ", loss %.4g", mean(sums->loss, sums->examples));
    if (sums != NULL && what->has_classes)
        fprintf(out, ", accuracy %.2f %%", 100 * accuracy(what, sums));
    if (what->final)
        fprintf(out, "%s after step %" PRIu64 ", weights %016" PRIx64,
                what->stopped ? "stopped" : "done", what->step, what->weights_hash);
    fputs(what->made != NULL ? "\033[K" : "\n", out);
    fflush(out);
}

/* ---- events ---------------------------------------------------------------------------------- */

static int add_scalar(struct log *log, const struct tutti_replica_seen *what, const char *tag,
                      double value, struct tutti_err *err)
{
    if (!isfinite(value))
        return 0;
    return tutti_tensorboard_scalar(log->events, wall_s(), (int64_t)what->step, tag, value, err);
}

static int add_step(struct log *log, const struct tutti_replica_seen *what, struct tutti_err *err)
{
    const struct tutti_trained *made = what->made;
    const double step_s = seconds(made->step_ps);
    const struct {
        const char *tag;
        double value;
    } scalars[] = {{"train/loss", mean(made->sums.loss, made->sums.examples)},
                   {"train/accuracy", accuracy(what, &made->sums)},
                   {"train/gradient_norm", made->gradient_norm},
                   {"train/learning_rate", made->learning_rate},
                   {"speed/step_s", step_s},
                   {"speed/examples_per_s", mean(made->sums.examples, step_s)},
                   {"speed/waiting_s", fmax(step_s - seconds(made->compute_ps), 0)}};
    int status = 0;

    for (size_t i = 0; i < sizeof(scalars) / sizeof(scalars[0]) && status == 0; i++)
        status = add_scalar(log, what, scalars[i].tag, scalars[i].value, err);
    return status;
}

static int add_weights(struct log *log, const struct tutti_replica_seen *what,
                       struct tutti_err *err)
{
    const float *at = what->weights;
    char tag[128];
    int status = 0;

    for (uint32_t v = 0; v < what->variable_count && status == 0; v++) {
        const struct tutti_replica_variable *variable = &what->variables[v];
        const uint64_t count = variable->rows * (variable->columns > 0 ? variable->columns : 1);

        (void)snprintf(tag, sizeof(tag), "weights/%.64s", variable->name);
        status = tutti_tensorboard_histogram(log->events, wall_s(), (int64_t)what->step, tag, at,
                                             (size_t)count, err);
        at += count;
    }
    return status;
}

static int add_events(struct log *log, const struct tutti_replica_seen *what, struct tutti_err *err)
{
    int status = 0;

    if (log->events == NULL)
        status = tutti_tensorboard_open(log->folder, NULL, wall_s(), &log->events, err);
    if (status == 0 && what->made != NULL)
        status = add_step(log, what, err);
    if (status == 0 && what->held_out != NULL)
        status = add_scalar(log, what, "held_out/loss",
                            mean(what->held_out->loss, what->held_out->examples), err);
    if (status == 0 && what->held_out != NULL)
        status = add_scalar(log, what, "held_out/accuracy", accuracy(what, what->held_out), err);
    if (status == 0 && what->weights != NULL && (what->final || what->held_out != NULL))
        status = add_weights(log, what, err);
    /* Somebody may be watching the folder: once a second is often enough. */
    if (status == 0 && (what->final || wall_s() > log->flushed_s + 1)) {
        log->flushed_s = wall_s();
        status = tutti_tensorboard_flush(log->events, err);
    }
    return status;
}

static int see(void *context, const struct tutti_replica_seen *what, struct tutti_err *err)
{
    struct log *log = context;

    if (log->out != NULL && log->is_terminal)
        print_line(log, what);
    else if (log->out != NULL)
        print_json(log, what);
    return log->folder != NULL ? add_events(log, what, err) : 0;
}

/* ---- open and close -------------------------------------------------------------------------- */

int tutti_train_log_open(struct tutti_replica_training *training, FILE *out,
                         const char *tensorboard, struct tutti_err *err)
{
    struct log *log = calloc(1, sizeof(*log));

    if (log != NULL && tensorboard != NULL)
        log->folder = strdup(tensorboard);
    if (log == NULL || (tensorboard != NULL && log->folder == NULL)) {
        free(log);
        return tutti_nomem(err);
    }
    log->out = out;
    log->is_terminal = out != NULL && isatty(fileno(out)) == 1;
    training->seen = see;
    training->seen_context = log;
    return 0;
}

int tutti_train_log_close(struct tutti_replica_training *training, struct tutti_err *err)
{
    struct log *log = training->seen == see ? training->seen_context : NULL;
    int status;

    if (log == NULL)
        return 0;
    if (log->has_line)
        fputc('\n', log->out);
    status = tutti_tensorboard_close(log->events, err);
    free(log->folder);
    free(log);
    training->seen = NULL;
    training->seen_context = NULL;
    return status;
}
