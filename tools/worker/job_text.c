/* A job as words, as bytes, and what its options may do; see job.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/frames.h"
#include "runtime/status.h"
#include "tools/cli/model.h"
#include "tools/options.h"
#include "tools/worker/job.h"

/* ---- words ----------------------------------------------------------------------------------- */

static int add(struct tutti_job_text *job, const char *word, struct tutti_err *err)
{
    if (job->word_count == TUTTI_JOB_WORDS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "more than %d words of options", TUTTI_JOB_WORDS_MAX);
    job->words[job->word_count++] = word;
    return 0;
}

static bool is_sent(const struct tutti_args *args, const struct tutti_option *option)
{
    return strcmp(option->name, "cluster") != 0 &&
           (strcmp(option->name, "model") != 0 ||
            tutti_model_is_name(tutti_args_text(args, "model")));
}

int tutti_job_words(const struct tutti_args *args, struct tutti_job_text *ret,
                    struct tutti_err *err)
{
    const struct tutti_command *command = args->command;
    int status = 0;

    ret->word_count = 0;
    for (size_t i = 0; i < command->option_count && status == 0; i++) {
        const struct tutti_option *option = &command->options[i];

        if (!args->values[i].given || !is_sent(args, option))
            continue;
        status = add(ret, option->name, err); /* the dashes come back where it is read */
        if (status == 0 && option->type != TUTTI_OPTION_FLAG)
            status = add(ret, args->values[i].text, err);
    }
    return status;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

int tutti_job_write(const struct tutti_job_text *job, uint8_t **ret, uint64_t *ret_bytes,
                    struct tutti_err *err)
{
    struct tutti_frames_writer writer = {.room = 16 + strlen(job->model) + strlen(job->tf_config)};

    for (uint32_t i = 0; i < job->word_count; i++)
        writer.room += strlen(job->words[i]) + 5;
    writer.room += 16;
    writer.data = malloc(writer.room);
    if (writer.data == NULL)
        return tutti_nomem(err);
    tutti_frames_put_u32(&writer, job->word_count);
    for (uint32_t i = 0; i < job->word_count; i++)
        tutti_frames_put_text(&writer, job->words[i]);
    tutti_frames_put_text(&writer, job->model);
    tutti_frames_put_text(&writer, job->tf_config);
    if (writer.full || writer.bytes > TUTTI_JOB_BYTES_MAX) {
        free(writer.data);
        return tutti_fail(err, TUTTI_EINVAL, "a model of %zu bytes (at most %d with the options)",
                          strlen(job->model), TUTTI_JOB_BYTES_MAX);
    }
    *ret = writer.data;
    *ret_bytes = writer.bytes;
    return 0;
}

int tutti_job_read(const uint8_t *data, uint64_t bytes, struct tutti_job_text *ret,
                   struct tutti_err *err)
{
    struct tutti_frames_reader reader = {.data = data, .bytes = (size_t)bytes};

    ret->word_count = tutti_frames_get_u32(&reader);
    if (ret->word_count > TUTTI_JOB_WORDS_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "a job of %u words (at most %d)", ret->word_count,
                          TUTTI_JOB_WORDS_MAX);
    for (uint32_t i = 0; i < ret->word_count; i++)
        ret->words[i] = tutti_frames_get_text(&reader);
    ret->model = tutti_frames_get_text(&reader);
    ret->tf_config = tutti_frames_get_text(&reader);
    if (!tutti_frames_get_all(&reader))
        return tutti_fail(err, TUTTI_EINVAL, "a job that is cut off, or goes on behind its end");
    return 0;
}

/* ---- what it may do -------------------------------------------------------------------------- */

static bool is_below(const char *dir, const char *path)
{
    const size_t bytes = strlen(dir);

    return strncmp(path, dir, bytes) == 0 &&
           (path[bytes] == '\0' || path[bytes] == '/' || strcmp(dir, "/") == 0);
}

static bool climbs(const char *path)
{
    for (const char *p = path; p != NULL; p = strchr(p, '/')) {
        p += *p == '/';
        if (strncmp(p, "..", 2) == 0 && (p[2] == '\0' || p[2] == '/'))
            return true;
    }
    return false;
}

/* The longest part of a path that is there, without links, lies below dir. */
static bool leads_below(const char *dir, const char *path)
{
    char whole[2 * PATH_MAX];
    char real[PATH_MAX];

    if (climbs(path) || strlen(path) >= PATH_MAX || strlen(dir) >= PATH_MAX)
        return false;
    (void)snprintf(whole, sizeof(whole), "%s%s%s", path[0] == '/' ? "" : dir,
                   path[0] == '/' || dir[1] == '\0' ? "" : "/", path);
    if (!is_below(dir, whole))
        return false;
    while (realpath(whole, real) == NULL) {
        char *slash = strrchr(whole, '/');
        struct stat info;

        if (slash == NULL || slash == whole)
            return strcmp(dir, "/") == 0;
        if (lstat(whole, &info) == 0 && S_ISLNK(info.st_mode)) /* to what is not there yet */
            return false;
        *slash = '\0';
    }
    return is_below(dir, real);
}

static int check_path(const char *option, const char *path, const char *dir, struct tutti_err *err)
{
    if (dir == NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--%s': '%s': this worker reads and writes no files ('tutti "
                          "worker --dir DIR')",
                          option, path);
    if (!leads_below(dir, path))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--%s': '%s' lies outside of '%s', below which this worker reads "
                          "and writes (--dir)",
                          option, path, dir);
    return 0;
}

/* "mnist:FOLDER"; a set that is made from nothing has no folder. */
static int check_data(const char *text, const char *dir, struct tutti_err *err)
{
    const char *colon = strchr(text, ':');

    return colon == NULL ? 0 : check_path("data", colon + 1, dir, err);
}

/* A preset, or else a file, also one of facts ("local:facts=FILE"). */
static int check_machine(const char *spec, const char *dir, struct tutti_err *err)
{
    const char *facts = strstr(spec, "facts=");
    char path[PATH_MAX];

    if (facts != NULL) {
        (void)snprintf(path, sizeof(path), "%.*s", (int)strcspn(facts + 6, ","), facts + 6);
        return check_path("emulate", path, dir, err);
    }
    return dir != NULL || access(spec, F_OK) == 0 ? check_path("emulate", spec, dir, err) : 0;
}

static int check_value(const char *name, const char *text, const char *dir, struct tutti_err *err)
{
    /* Files that it would read or write. */
    static const char *const paths[] = {"checkpoint", "evaluate-only", "tensorboard",
                                        "trace",      "calibrate",     "preempt-file"};
    /* The driver's own business, or that of who started the worker. */
    static const char *const refused[] = {"svg",        "prices",   "tf-config", "launch",
                                          "hosts",      "open",     "dry-run",   "join",
                                          "rendezvous", "launcher", "restarts",  "elastic"};

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (strcmp(refused[i], name) == 0)
            return tutti_fail(err, TUTTI_EINVAL, "option '--%s' says nothing to standing workers",
                              name);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        if (strcmp(paths[i], name) == 0)
            return check_path(name, text, dir, err);
    if (strcmp(name, "data") == 0)
        return check_data(text, dir, err);
    if (strcmp(name, "calib") == 0 && strcmp(text, "builtin") != 0 && strcmp(text, "none") != 0)
        return check_path(name, text, dir, err);
    if ((strcmp(name, "all-reduce") == 0 || strcmp(name, "emulate") == 0) &&
        (strchr(text, '/') != NULL || strstr(text, ".so") != NULL))
        return tutti_fail(err, TUTTI_EINVAL, "option '--%s': '%s' is a file (names alone)", name,
                          text);
    if (strcmp(name, "emulate") == 0)
        return check_machine(text, dir, err);
    if (strcmp(name, "backend") == 0 && strcmp(text, "tcp") != 0)
        return tutti_fail(err, TUTTI_EINVAL, "option '-B': '%s' with standing workers (tcp)", text);
    return 0;
}

int tutti_job_check(const struct tutti_args *args, const char *dir, struct tutti_err *err)
{
    int status = 0;

    if (tutti_args_operand(args, 0) != NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%s' beside '--cluster': a machine is simulated, or training is real "
                          "(one of them)",
                          tutti_args_operand(args, 0));
    for (size_t i = 0; i < args->command->option_count && status == 0; i++)
        if (args->values[i].given && strcmp(args->command->options[i].name, "cluster") != 0)
            status = check_value(args->command->options[i].name, args->values[i].text, dir, err);
    return status;
}
