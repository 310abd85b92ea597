/* tutti worker: a process that waits for drivers, and trains for one after the other. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/cluster.h"
#include "runtime/launch.h"
#include "runtime/meet.h"
#include "runtime/status.h"
#include "tools/commands.h"
#include "tools/options.h"
#include "tools/worker/job.h"

/* Said at once, to whoever reads a log. */
static void note(void *data, const char *line)
{
    struct tutti_sink *sink = data;

    fprintf(sink->notes, "tutti worker: %s\n", line);
    (void)fflush(sink->notes);
}

static int print_secret(struct tutti_sink *sink, struct tutti_err *err)
{
    char secret[TUTTI_MEET_SECRET_BYTES];
    int status = tutti_meet_draw_secret(secret, err);

    if (status == 0)
        fprintf(sink->out, "%s\n", secret);
    return status;
}

/* Absolute and without links, so that what is below it can be told by its name. */
static int read_dir(const struct tutti_args *args, char ret[PATH_MAX], struct tutti_err *err)
{
    const char *dir = tutti_args_text(args, "dir");
    struct stat info;

    if (dir == NULL)
        return 0;
    if (realpath(dir, ret) == NULL || stat(ret, &info) != 0)
        return tutti_fail(err, TUTTI_EINVAL, "option '--dir': '%s': %s", dir, strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return tutti_fail(err, TUTTI_EINVAL, "option '--dir': '%s' is no folder", dir);
    return 0;
}

static int read_address(const struct tutti_args *args, char *ret, size_t bytes,
                        struct tutti_err *err)
{
    const char *listen = tutti_args_text(args, "listen");

    if (listen != NULL && tutti_args_given(args, "port"))
        return tutti_fail(
            err, TUTTI_EINVAL,
            "options '--listen' and '--port' both say where it listens (one of them)");
    if (listen != NULL)
        (void)snprintf(ret, bytes, "%s", listen);
    else
        (void)snprintf(ret, bytes, "127.0.0.1:%u", (unsigned)tutti_args_number(args, "port"));
    return 0;
}

static int serve(struct tutti_cluster_worker *worker, struct tutti_err *err)
{
    const tutti_ps long_ps = 3600 * TUTTI_PS_PER_S;
    bool served;
    int status = 0;

    while (status == 0)
        status = tutti_cluster_worker_serve(worker, long_ps, &served, err);
    return status;
}

int tutti_command_worker(const struct tutti_args *args, struct tutti_sink *sink,
                         struct tutti_err *err)
{
    struct tutti_job_place place = {.port_fd = -1};
    struct tutti_cluster_function functions[TUTTI_JOB_FUNCTIONS];
    struct tutti_cluster_worker_opts opts = {.size = sizeof(opts),
                                             .functions = functions,
                                             .function_count = TUTTI_JOB_FUNCTIONS,
                                             .bytes_max = TUTTI_JOB_BYTES_MAX,
                                             .log = note,
                                             .log_data = sink};
    struct tutti_cluster_worker *worker = NULL;
    char secret[TUTTI_MEET_SECRET_BYTES];
    char address[TUTTI_CLUSTER_ADDRESS_BYTES];
    char dir[PATH_MAX] = "";
    int status;

    if (tutti_args_flag(args, "new-secret"))
        return print_secret(sink, err);
    status = read_dir(args, dir, err);
    if (status == 0)
        status = read_address(args, address, sizeof(address), err);
    if (status == 0)
        status = tutti_meet_secret(&tutti_env_process, secret, err);
    if (status < 0)
        return status;
    place.dir = dir[0] != '\0' ? dir : NULL;
    tutti_job_functions(&place, functions);
    opts.address = address;
    opts.name = tutti_args_text(args, "name");
    opts.secret = secret[0] != '\0' ? secret : NULL;
    opts.secret_bytes = strlen(secret);
    status = tutti_cluster_worker_open(&opts, &worker, err);
    if (status < 0)
        return status;
    fprintf(sink->out, "tutti worker waits at %s, %s, %s%s\n", tutti_cluster_worker_address(worker),
            opts.secret != NULL ? "with a secret" : "without a secret (this host alone)",
            place.dir != NULL ? "files below " : "no files (--dir)",
            place.dir != NULL ? place.dir : "");
    (void)fflush(sink->out);
    status = serve(worker, err);
    tutti_cluster_worker_close(worker);
    return status;
}

static const struct tutti_option options[] = {
    {.name = "port",
     .type = TUTTI_OPTION_COUNT,
     .value = "P",
     .standard = "0",
     .min = 0,
     .max = 65535,
     .help = "of this host's loopback; 0: any that is free"},
    {.name = "listen",
     .type = TUTTI_OPTION_TEXT,
     .value = "HOST:PORT",
     .help = "where drivers come instead; beyond loopback TUTTI_SECRET must be set"},
    {.name = "dir",
     .type = TUTTI_OPTION_TEXT,
     .value = "DIR",
     .help = "below this folder drivers have data read and checkpoints written; nowhere else"},
    {.name = "name",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .help = "what it calls itself to drivers"},
    {.name = "new-secret",
     .type = TUTTI_OPTION_FLAG,
     .help = "print one that is drawn at random, for TUTTI_SECRET of workers and drivers; no more"},
};

const struct tutti_command tutti_cli_worker = {
    .name = "worker",
    .summary = "waits for a driver ('tutti train --cluster'), and trains for it",
    .operands = "",
    .text =
        "Prints where it waits, and serves one driver at a time, for ever. What it runs for a "
        "driver it runs in a process of its own, as one that TF_CONFIG had started; when the "
        "driver ends, in whatever way, that process and all it has started are killed, and the "
        "worker waits for the next within a second (35 s where the driver's host vanishes "
        "without a word).\n\n"
        "Without a secret it listens on loopback alone, where every user of this host may drive "
        "it. TUTTI_SECRET, of 32 bytes or more and the same for all workers and drivers, keeps "
        "others out: it is proved when they meet, and every message after that carries a MAC. "
        "Nothing is encrypted, and the training's own traffic between workers carries no MAC.",
    .examples = "tutti worker --port 2222\n"
                "tutti worker --new-secret\n"
                "TUTTI_SECRET=... tutti worker --listen 10.0.0.2:2222 --dir /srv/tutti",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_worker,
};
