/* What a standing worker runs for a training, in its child; see job.h. */
#include "tools/worker/job.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/frames.h"
#include "runtime/status.h"
#include "tools/cli.h"
#include "tools/cli/model.h"
#include "tools/commands.h"
#include "tools/options.h"
#include "tools/sink.h"

/* Where the text of a model lies, in all workers alike: processes compare their options. */
enum { MODEL_FD = 100, NAME_BYTES = 64 };
static const char model_path[] = "/dev/fd/100";

static int reply_u32(struct tutti_cluster_reply *reply, uint32_t value, struct tutti_err *err)
{
    uint8_t room[4];
    struct tutti_frames_writer writer = {.data = room, .room = sizeof(room)};

    tutti_frames_put_u32(&writer, value);
    return tutti_cluster_reply(reply, room, sizeof(room), err);
}

/* A driver may ask for the end before the training listens for that, which then finds it. */
static void hold_term(bool held)
{
    sigset_t term;

    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    (void)sigprocmask(held ? SIG_BLOCK : SIG_UNBLOCK, &term, NULL);
}

/* ---- a port ---------------------------------------------------------------------------------- */

/* A port that is free, and stays so for this training: a socket is bound to it that never listens,
 * so that another of this host may, which asks for this very port (SO_REUSEADDR). */
static int prepare(void *context, const void *input, uint64_t bytes,
                   struct tutti_cluster_reply *reply, struct tutti_err *err)
{
    static const int on = 1;
    struct tutti_job_place *place = context;
    struct sockaddr_in any = {.sin_family = AF_INET};
    socklen_t any_bytes = sizeof(any);

    (void)input;
    (void)bytes;
    hold_term(true);
    if (place->port_fd < 0)
        place->port_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (place->port_fd < 0 ||
        setsockopt(place->port_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(place->port_fd, (struct sockaddr *)&any, sizeof(any)) != 0 ||
        getsockname(place->port_fd, (struct sockaddr *)&any, &any_bytes) != 0)
        return tutti_fail(err, TUTTI_EIO, "cannot find a free port: %s", strerror(errno));
    return reply_u32(reply, ntohs(any.sin_port), err);
}

/* ---- training -------------------------------------------------------------------------------- */

/* Room for the words of a command line, those of options with their dashes again. */
struct line {
    char *words[TUTTI_JOB_WORDS_MAX + 8];
    int count;
    char names[TUTTI_JOB_WORDS_MAX][NAME_BYTES];
};

static const struct tutti_option *find_option(const char *name)
{
    for (size_t i = 0; i < tutti_cli_train.option_count; i++)
        if (strcmp(tutti_cli_train.options[i].name, name) == 0)
            return &tutti_cli_train.options[i];
    return NULL;
}

static void put(struct line *line, const char *word)
{
    line->words[line->count++] = (char *)(uintptr_t)word; /* main's words are not const */
}

static int make_line(const struct tutti_job_text *job, struct line *ret, struct tutti_err *err)
{
    ret->count = 0;
    for (uint32_t i = 0; i < job->word_count; i++) {
        const struct tutti_option *option = find_option(job->words[i]);

        if (option != NULL && strcmp(option->name, "cluster") == 0) /* would drive by itself */
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--cluster' says nothing to standing workers");
        if (option == NULL)
            return tutti_fail(err, TUTTI_EINVAL, "a job with an option '%.60s', which is none",
                              job->words[i]);
        (void)snprintf(ret->names[i], NAME_BYTES, "--%s", option->name);
        put(ret, ret->names[i]);
        if (option->type == TUTTI_OPTION_FLAG)
            continue;
        if (++i == job->word_count)
            return tutti_fail(err, TUTTI_EINVAL, "a job with an option '--%s' and no value",
                              option->name);
        put(ret, job->words[i]);
    }
    return 0;
}

static int check_line(struct line *line, const char *dir, struct tutti_err *err)
{
    struct tutti_args args;
    const char *model;
    int status = tutti_args_parse(&tutti_cli_train, line->count, line->words, &args, err);

    if (status < 0)
        return status;
    model = tutti_args_text(&args, "model");
    status = tutti_job_check(&args, dir, err);
    if (status == 0 && model != NULL && !tutti_model_is_name(model))
        status =
            tutti_fail(err, TUTTI_EINVAL, "model '%s' is no name (one's own comes as text)", model);
    tutti_args_done(&args);
    return status;
}

static int put_model(const char *text, struct line *line, struct tutti_err *err)
{
    size_t bytes = strlen(text);
    int fd;

    if (bytes == 0)
        return 0;
    fd = memfd_create("model", MFD_CLOEXEC);
    if (fd < 0 || write(fd, text, bytes) != (ssize_t)bytes || dup2(fd, MODEL_FD) < 0)
        return tutti_fail(err, TUTTI_EIO, "cannot keep the text of the model: %s", strerror(errno));
    close(fd);
    put(line, "--model");
    put(line, model_path);
    return 0;
}

static bool says(const struct line *line, const char *option)
{
    for (int i = 0; i < line->count; i++)
        if (strcmp(line->words[i], option) == 0)
            return true;
    return false;
}

static void put_launch(struct line *line)
{
    if (!says(line, "--backend")) {
        put(line, "--backend");
        put(line, "tcp");
    }
    put(line, "--launcher");
    put(line, "tf_config");
}

/* The command itself, as a process that was started with this TF_CONFIG. */
static int call(struct line *line, struct tutti_cluster_reply *reply, struct tutti_err *err)
{
    char *words[TUTTI_JOB_WORDS_MAX + 12] = {(char *)(uintptr_t)tutti_cli_train.name};
    struct tutti_sink sink = {.out = fdopen(STDOUT_FILENO, "w"),
                              .notes = fdopen(STDERR_FILENO, "w")};
    struct tutti_err said = {""};
    int code;

    if (sink.out == NULL || sink.notes == NULL)
        return tutti_nomem(err);
    (void)setvbuf(sink.out, NULL, _IOLBF, 0);
    (void)setvbuf(sink.notes, NULL, _IOLBF, 0);
    memcpy(words + 1, line->words, (size_t)line->count * sizeof(words[0]));
    code = tutti_cli_call(line->count + 1, words, &sink, &said);
    (void)fflush(sink.out);
    (void)fflush(sink.notes);
    return reply_u32(reply, (uint32_t)code, err);
}

static int train(void *context, const void *input, uint64_t bytes,
                 struct tutti_cluster_reply *reply, struct tutti_err *err)
{
    const struct tutti_job_place *place = context;
    struct line *line = calloc(1, sizeof(*line));
    struct tutti_job_text job;
    int status = line == NULL ? tutti_nomem(err) : tutti_job_read(input, bytes, &job, err);

    if (status == 0)
        status = make_line(&job, line, err);
    if (status == 0)
        status = check_line(line, place->dir, err);
    if (status == 0)
        status = put_model(job.model, line, err);
    if (status == 0)
        put_launch(line);
    if (status == 0 && place->dir != NULL && chdir(place->dir) != 0)
        status = tutti_fail(err, TUTTI_EIO, "cannot go to '%s': %s", place->dir, strerror(errno));
    if (status == 0 && setenv("TF_CONFIG", job.tf_config, 1) != 0)
        status = tutti_nomem(err);
    if (status == 0) {
        hold_term(says(line, "--checkpoint")); /* without, it ends the process */
        status = call(line, reply, err);
    }
    free(line);
    return status;
}

void tutti_job_functions(struct tutti_job_place *place,
                         struct tutti_cluster_function ret[TUTTI_JOB_FUNCTIONS])
{
    ret[0] = (struct tutti_cluster_function){TUTTI_JOB_PREPARE, prepare, place};
    ret[1] = (struct tutti_cluster_function){TUTTI_JOB_TRAIN, train, place};
}
