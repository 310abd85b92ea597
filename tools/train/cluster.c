/* Drives a training on standing workers: one task each; see cluster.h. */
#include "tools/train/cluster.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cluster.h"
#include "runtime/frames.h"
#include "runtime/launch.h"
#include "runtime/meet.h"
#include "runtime/model.h"
#include "runtime/status.h"
#include "tools/cli/files.h"
#include "tools/cli/model.h"
#include "tools/worker/job.h"

enum { GRACE_MS = 3000, PREPARE = 1, TRAIN = 2, LABEL_BYTES = 64 };

/* A task of the training, and the worker that does it. */
struct task {
    const struct tutti_cluster_task *of;
    char label[LABEL_BYTES]; /* "worker 1" */
    struct tutti_cluster_link *link;
    uint16_t port; /* for the training's own traffic */
    bool done;
    bool waits; /* of a server: ends when the others do */
};

struct driver {
    struct tutti_sink *sink;
    char secret[TUTTI_MEET_SECRET_BYTES];
    tutti_ps deadline_ps;
    struct tutti_cluster_task *read;
    struct task *tasks;
    struct pollfd *polled;
    uint32_t count;
    uint32_t open_count; /* tasks that have not ended, servers aside */
    struct tutti_job_text job;
    char *model; /* the text of a file; NULL: a name */
    int code;    /* of the first that failed; 0: none */
    bool failed; /* or one that could not even say so */
    struct tutti_err why;
    int term_fd;      /* with checkpoints: of SIGTERM; -1: none */
    int64_t grace_ms; /* that those that are left have once one has ended */
    int64_t end_ms;   /* when all that is left is ended; 0: not yet */
};

static int64_t now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- what is asked for ----------------------------------------------------------------------- */

static int read_cluster(const struct tutti_args *args, struct driver *d, struct tutti_err *err)
{
    const char *path = tutti_args_text(args, "cluster");
    char *text = NULL;
    size_t bytes;
    int status = tutti_file_read(path, &text, &bytes, err);

    if (status < 0)
        return tutti_wrap(err, status, "option '--cluster'");
    status = tutti_cluster_read(text, &d->read, &d->count, err);
    free(text);
    if (status < 0)
        return tutti_wrap(err, status, "option '--cluster': '%s'", path);
    d->tasks = calloc(d->count, sizeof(*d->tasks));
    d->polled = calloc((size_t)d->count + 1, sizeof(*d->polled));
    if (d->tasks == NULL || d->polled == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < d->count; i++) {
        d->tasks[i].of = &d->read[i];
        d->tasks[i].waits = strcmp(d->read[i].type, "ps") == 0;
        d->open_count += !d->tasks[i].waits;
        (void)snprintf(d->tasks[i].label, LABEL_BYTES, "%s %u", d->read[i].type, d->read[i].index);
    }
    if (d->open_count == 0)
        return tutti_fail(err, TUTTI_EINVAL, "option '--cluster': '%s': nobody trains in it", path);
    return 0;
}

/* A model of one's own is read here, where its messages are, and goes out as text. */
static int read_model(const struct tutti_args *args, struct driver *d, struct tutti_err *err)
{
    const char *name = tutti_args_text(args, "model");
    struct tutti_workload *model = NULL;
    size_t bytes;
    int status;

    if (name == NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "no model ('--model NAME': linear-regression, mlp, cifar10-cnn, "
                          "bag-of-words or a file)");
    status = tutti_model_load(args, name, &model, err);
    tutti_model_free(model);
    if (status == 0 && !tutti_model_is_name(name))
        status = tutti_file_read(name, &d->model, &bytes, err);
    d->job.model = d->model != NULL ? d->model : "";
    return status;
}

static int read_all(const struct tutti_args *args, struct driver *d, struct tutti_err *err)
{
    /* Which files may be named is the workers' business. */
    int status = tutti_job_check(args, "/", err);

    if (status == 0)
        status = tutti_job_words(args, &d->job, err);
    if (status == 0)
        status = read_cluster(args, d, err);
    if (status == 0)
        status = read_model(args, d, err);
    if (status == 0)
        status = tutti_meet_secret(&tutti_env_process, d->secret, err);
    d->deadline_ps = (tutti_ps)tutti_args_number(args, "deadline");
    return status;
}

/* ---- workers --------------------------------------------------------------------------------- */

static int open_workers(struct driver *d, struct tutti_err *err)
{
    const struct tutti_cluster_link_opts opts = {.size = sizeof(opts),
                                                 .secret = d->secret[0] != '\0' ? d->secret : NULL,
                                                 .secret_bytes = strlen(d->secret),
                                                 .bytes_max = TUTTI_JOB_BYTES_MAX,
                                                 .deadline_ps = d->deadline_ps};
    int status = 0;

    for (uint32_t i = 0; i < d->count && status == 0; i++)
        status = tutti_cluster_link_open(&opts, d->tasks[i].of->address, d->tasks[i].label,
                                         &d->tasks[i].link, err);
    return status;
}

/* An answer that comes at once. */
static int hear_port(const struct driver *d, struct task *task, struct tutti_err *err)
{
    struct tutti_cluster_link_event event;
    struct tutti_frames_reader reader;
    char time[TUTTI_UNIT_TEXT_BYTES];
    uint32_t port;
    int status = tutti_cluster_link_next(task->link, d->deadline_ps, &event, err);

    if (status < 0)
        return status;
    if (event.kind == TUTTI_CLUSTER_LINK_FAILED || event.kind == TUTTI_CLUSTER_LINK_END)
        return tutti_fail(err, TUTTI_EIO, "%s: %s", tutti_cluster_link_name(task->link),
                          event.data);
    reader = (struct tutti_frames_reader){.data = (const uint8_t *)event.data,
                                          .bytes = (size_t)event.bytes};
    if (event.kind == TUTTI_CLUSTER_LINK_NOTHING)
        return tutti_fail(err, TUTTI_ETIME, "%s has not answered within %s (--deadline)",
                          tutti_cluster_link_name(task->link),
                          tutti_print_time(d->deadline_ps, time));
    port = event.kind == TUTTI_CLUSTER_LINK_DONE ? tutti_frames_get_u32(&reader) : 0;
    if (port == 0 || port > UINT16_MAX)
        return tutti_fail(err, TUTTI_EIO, "%s names no port", tutti_cluster_link_name(task->link));
    task->port = (uint16_t)port;
    return 0;
}

static int prepare(struct driver *d, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < d->count && status == 0; i++)
        status =
            tutti_cluster_link_call(d->tasks[i].link, PREPARE, TUTTI_JOB_PREPARE, NULL, 0, err);
    for (uint32_t i = 0; i < d->count && status == 0; i++)
        status = hear_port(d, &d->tasks[i], err);
    return status;
}

/* The TF_CONFIG of one task: hosts as the file has them, ports as the workers have said. */
static char *print_config(const struct driver *d, const struct task *own)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);

    if (out == NULL)
        return NULL;
    fprintf(out, "{\"cluster\": {");
    for (uint32_t i = 0; i < d->count; i++) {
        const struct tutti_cluster_task *of = d->tasks[i].of;
        bool first = i == 0 || strcmp(of->type, d->tasks[i - 1].of->type) != 0;

        if (first)
            fprintf(out, "%s\"%s\": [", i == 0 ? "" : "], ", of->type);
        fprintf(out, "%s\"%.*s:%u\"", first ? "" : ", ",
                (int)(strrchr(of->address, ':') - of->address), of->address, d->tasks[i].port);
    }
    fprintf(out, "]}, \"task\": {\"type\": \"%s\", \"index\": %u}}", own->of->type, own->of->index);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static int start(struct driver *d, struct tutti_err *err)
{
    int status = 0;

    for (uint32_t i = 0; i < d->count && status == 0; i++) {
        char *config = print_config(d, &d->tasks[i]);
        uint8_t *input = NULL;
        uint64_t bytes;

        d->job.tf_config = config;
        status = config == NULL ? tutti_nomem(err) : tutti_job_write(&d->job, &input, &bytes, err);
        if (status == 0)
            status = tutti_cluster_link_call(d->tasks[i].link, TRAIN, TUTTI_JOB_TRAIN, input, bytes,
                                             err);
        free(input);
        free(config);
    }
    return status;
}

/* ---- while they train ------------------------------------------------------------------------ */

/* The results of the first task are this command's; all else is said behind the task's name. */
static void pass_line(const struct driver *d, uint32_t index, bool is_note, const char *line)
{
    if (index == 0 && !is_note) {
        fprintf(d->sink->out, "%s\n", line);
        (void)fflush(d->sink->out);
    } else {
        fprintf(d->sink->notes, "[%s] %s\n", d->tasks[index].label, line);
    }
}

/* Of a training that was told to stop, and has saved (--stop-code). */
static bool has_saved(int code)
{
    return code > 2 && code != 77;
}

static void end_task(struct driver *d, struct task *task, int code, const char *why)
{
    bool first = d->code == 0 || (has_saved(d->code) && code != 0 && !task->waits);

    task->done = true;
    d->open_count -= !task->waits;
    if (why != NULL && first)
        d->failed = tutti_fail(&d->why, TUTTI_EIO, "%s", why) < 0;
    else if (why != NULL) /* not the first to end, but perhaps why the first did */
        fprintf(d->sink->notes, "tutti train: %s\n", why);
    if (first)
        d->code = code;
    if (has_saved(code)) /* so the others are saving */
        d->grace_ms = d->deadline_ps / TUTTI_PS_PER_MS;
    /* The others are about to say so as well, or have nothing to do any more. */
    if (d->end_ms == 0 && (code != 0 || d->open_count == 0))
        d->end_ms = now_ms() + d->grace_ms;
}

static int take(struct driver *d, uint32_t index, struct tutti_err *err)
{
    struct task *task = &d->tasks[index];
    struct tutti_cluster_link_event event = {.kind = TUTTI_CLUSTER_LINK_NOTHING};
    char text[TUTTI_ERR_TEXT_BYTES];
    int status = tutti_cluster_link_next(task->link, 0, &event, err);

    switch (event.kind) {
    case TUTTI_CLUSTER_LINK_OUT:
    case TUTTI_CLUSTER_LINK_NOTE:
        pass_line(d, index, event.kind == TUTTI_CLUSTER_LINK_NOTE, event.data);
        break;
    case TUTTI_CLUSTER_LINK_DONE: {
        struct tutti_frames_reader reader = {.data = (const uint8_t *)event.data,
                                             .bytes = (size_t)event.bytes};

        end_task(d, task, (int)tutti_frames_get_u32(&reader), NULL);
        break;
    }
    case TUTTI_CLUSTER_LINK_FAILED:
        (void)snprintf(text, sizeof(text), "%s: %.800s", tutti_cluster_link_name(task->link),
                       event.data);
        end_task(d, task, event.status == -TUTTI_EINVAL ? 2 : 1, text);
        break;
    case TUTTI_CLUSTER_LINK_END:
        end_task(d, task, 1, event.data);
        break;
    case TUTTI_CLUSTER_LINK_NOTHING:
        break;
    }
    return status;
}

/* With checkpoints SIGTERM is passed on, and all save the step at which they stop; without, or
 * while workers are still looked for, it ends this command, and so the training. */
static void watch_signals(const struct tutti_args *args, struct driver *d)
{
    sigset_t term;

    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    if (tutti_args_given(args, "checkpoint") && sigprocmask(SIG_BLOCK, &term, NULL) == 0)
        d->term_fd = signalfd(-1, &term, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void stop_all(struct driver *d)
{
    struct signalfd_siginfo info;

    if (read(d->term_fd, &info, sizeof(info)) != sizeof(info))
        return;
    d->grace_ms = d->deadline_ps / TUTTI_PS_PER_MS;
    d->end_ms = now_ms() + d->grace_ms;
    for (uint32_t i = 0; i < d->count; i++)
        if (!d->tasks[i].done && !d->tasks[i].waits) /* servers are needed to the end */
            (void)tutti_cluster_link_stop(d->tasks[i].link, NULL);
}

static bool is_over(const struct driver *d)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < d->count; i++)
        left += !d->tasks[i].done;
    return left == 0 || (d->end_ms != 0 && now_ms() >= d->end_ms);
}

static int follow(struct driver *d, struct tutti_err *err)
{
    int status = 0;

    while (status == 0 && !is_over(d)) {
        int64_t left_ms = d->end_ms != 0 ? d->end_ms - now_ms() : GRACE_MS;
        bool ready = false;

        for (uint32_t i = 0; i < d->count; i++) {
            d->polled[i] = (struct pollfd){
                .fd = d->tasks[i].done ? -1 : tutti_cluster_link_fd(d->tasks[i].link),
                .events = POLLIN};
            ready = ready || (!d->tasks[i].done && tutti_cluster_link_ready(d->tasks[i].link));
        }
        d->polled[d->count] = (struct pollfd){.fd = d->term_fd, .events = POLLIN};
        if (!ready)
            (void)poll(d->polled, d->count + 1, left_ms > 0 ? (int)left_ms : 0);
        if (d->polled[d->count].revents != 0)
            stop_all(d);
        for (uint32_t i = 0; i < d->count && status == 0; i++)
            while (status == 0 && !d->tasks[i].done && tutti_cluster_link_ready(d->tasks[i].link))
                status = take(d, i, err);
    }
    return status;
}

/* As the processes that train: where they have said why they failed, nothing is to be added. */
static int end(const struct driver *d, struct tutti_sink *sink, struct tutti_err *err)
{
    if (d->failed) {
        if (err != NULL)
            *err = d->why;
        return d->code == 2 ? -TUTTI_EINVAL : -TUTTI_EIO;
    }
    if (d->open_count > 0 && (d->code == 0 || has_saved(d->code)))
        return tutti_fail(err, TUTTI_ETIME,
                          "%u task%s had not ended, and perhaps not saved, when time ran out "
                          "(--deadline); what was saved before stays",
                          d->open_count, d->open_count == 1 ? "" : "s");
    if (d->code != 0 && err != NULL)
        err->text[0] = '\0';
    if (d->code == 0 || d->code == 1)
        return -d->code * TUTTI_EIO;
    if (d->code == 2)
        return -TUTTI_EINVAL;
    if (d->code == 77)
        return -TUTTI_ELACK;
    sink->exit_code = d->code; /* of a training that was told to stop, and has saved */
    return 0;
}

int tutti_train_cluster(const struct tutti_args *args, struct tutti_sink *sink,
                        struct tutti_err *err)
{
    struct driver d = {
        .sink = sink, .job = {.model = "", .tf_config = ""}, .term_fd = -1, .grace_ms = GRACE_MS};
    int status = read_all(args, &d, err);

    if (status == 0)
        status = open_workers(&d, err);
    if (status == 0)
        status = prepare(&d, err);
    if (status == 0)
        watch_signals(args, &d);
    if (status == 0)
        status = start(&d, err);
    if (status == 0)
        status = follow(&d, err);
    if (status == 0)
        status = end(&d, sink, err);
    for (uint32_t i = 0; i < d.count && d.tasks != NULL; i++)
        tutti_cluster_link_close(d.tasks[i].link);
    if (d.term_fd >= 0)
        close(d.term_fd);
    free(d.tasks);
    free(d.polled);
    free(d.read);
    free(d.model);
    return status;
}
