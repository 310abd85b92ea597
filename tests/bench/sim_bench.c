/* How fast the simulator is: messages a second, nanoseconds a message, peak memory.
 *
 *     sim_bench                                        the table of cases
 *     sim_bench SPEC COLLECTIVE ALGORITHM BYTES MODEL [JITTER]   one case
 *
 * Columns: messages; CPU seconds to generate all programs once and do nothing with them (walk), and
 * to simulate (CPU, all of the process); from the latter millions of messages a second and
 * nanoseconds a message; peak resident memory; simulated time. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/backend.h"
#include "runtime/coll.h"
#include "runtime/status.h"
#include "runtime/units.h"
#include "sim/sim.h"
#include "topo/topo.h"

struct bench {
    const char *spec;
    const char *collective;
    const char *algorithm;
    const char *bytes;
    const char *model;
    const char *jitter;
};

/* Those of the table that N = 64 .. 4096 can run unfolded in seconds. */
static const struct bench benches[] = {
    {"ring:n=64", "allreduce", "ring", "1G", "alphabeta", "0"},
    {"ring:n=1024", "allreduce", "ring", "1G", "alphabeta", "0"},
    {"ring:n=4096", "allreduce", "ring", "1G", "alphabeta", "0"},
    {"ring:n=4096", "allreduce", "ring", "1G", "alphabeta", "0.2"},
    {"switch:n=4096", "allreduce", "ring", "1G", "alphabeta", "0"},
    {"switch:n=64", "allreduce", "ring", "1G", "fair", "0"},
    {"switch:n=1024", "allreduce", "ring", "1G", "fair", "0"},
    {"switch:n=4096", "allreduce", "ring", "1G", "fair", "0"},
    {"switch:n=1024", "allreduce", "ring", "1G", "fair", "0.2"},
    {"switch:n=64", "allreduce", "double-binary-tree", "1G", "alphabeta", "0"},
    {"switch:n=1024", "allreduce", "double-binary-tree", "1G", "alphabeta", "0"},
    {"switch:n=64", "allreduce", "double-binary-tree", "1G", "fair", "0"},
    {"switch:n=64", "allreduce", "halving-doubling", "1G", "alphabeta", "0"},
    {"switch:n=4096", "allreduce", "halving-doubling", "1G", "alphabeta", "0"},
    {"switch:n=4096", "allreduce", "halving-doubling", "1G", "fair", "0"},
    {"dgx-h100:nodes=8", "allreduce", "hierarchical", "1G", "alphabeta", "0"},
    {"dgx-h100:nodes=512", "allreduce", "hierarchical", "1G", "alphabeta", "0"},
    {"dgx-h100:nodes=32", "allreduce", "hierarchical", "1G", "fair", "0"},
    {"dgx-h100:nodes=32", "allreduce", "ring", "1G", "fair", "0"},
    {"torus:4x4x4", "allreduce", "torus", "1G", "alphabeta", "0"},
    {"torus:16x16x16", "allreduce", "torus", "1G", "alphabeta", "0"},
    {"torus:16x16x16", "allreduce", "torus", "1G", "fair", "0"},
    {"switch:n=256", "alltoall", "direct", "1G", "alphabeta", "0"},
    {"switch:n=128", "alltoall", "direct", "1G", "fair", "0"},
};

/* A case made ready: its machine and its schedule. */
struct subject {
    struct tutti_topo *topo;
    struct tutti_schedule *schedule;
    struct tutti_sim_opts opts;
};

/* What a process says of itself when it is done. */
struct said {
    uint64_t count;
    uint64_t total_ps;
};

static void subject_close(struct subject *subject)
{
    tutti_schedule_free(subject->schedule);
    tutti_topo_free(subject->topo);
}

static int subject_open(struct subject *subject, const struct bench *bench, struct tutti_err *err)
{
    struct tutti_coll_params params = {.dtype = TUTTI_FLOAT32, .op = TUTTI_SUM};
    uint64_t bytes = 0;
    int status;

    *subject = (struct subject){.opts = {.seed = 1, .jitter = strtod(bench->jitter, NULL)}};
    status = tutti_topo_from_spec(bench->spec, &subject->topo, err);
    if (status == 0)
        status = tutti_collective_find(bench->collective, &params.collective, err);
    if (status == 0)
        status = tutti_model_find(bench->model, &subject->opts.model, err);
    if (status == 0)
        status = tutti_read_size(bench->bytes, &bytes, err);
    if (status < 0)
        return status;
    params.count = tutti_collective_count_for(params.collective, bytes, params.dtype,
                                              subject->topo->rank_count);
    subject->opts.topo = subject->topo;
    return tutti_coll_generate(bench->algorithm, &params, &subject->topo->shape, &subject->schedule,
                               err);
}

/* Walks all programs and does nothing else: what generating costs, and how many messages. */
static int walk(const struct subject *subject, struct said *said, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = subject->schedule;

    (void)err;
    for (uint32_t i = 0; i < schedule->rank_count * schedule->lane_count; i++) {
        struct tutti_cursor cursor;
        const struct tutti_step *step;

        tutti_cursor_open(&cursor, schedule, i / schedule->lane_count, i % schedule->lane_count);
        while ((step = tutti_cursor_next(&cursor)) != NULL)
            said->count += step->kind == TUTTI_SEND;
    }
    return 0;
}

static int play(const struct subject *subject, struct said *said, struct tutti_err *err)
{
    struct tutti_play asked = {.schedule = subject->schedule, .iteration_count = 1};
    struct tutti_played played = {.total_ps = 0};
    struct tutti_backend *backend = NULL;
    int status = tutti_sim_open(&subject->opts, &backend, err);

    if (status == 0)
        status = tutti_backend_play(backend, &asked, &played, err);
    tutti_backend_close(backend);
    said->count = played.step_count;
    said->total_ps = (uint64_t)played.total_ps;
    return status;
}

typedef int act(const struct subject *subject, struct said *said, struct tutti_err *err);

static int child(const struct bench *bench, act *what, int out)
{
    struct tutti_err err = {.text = ""};
    struct subject subject;
    struct said said = {0};
    int status = subject_open(&subject, bench, &err);

    if (status == 0)
        status = what(&subject, &said, &err);
    if (status < 0)
        fprintf(stderr, "sim_bench: %s\n", err.text);
    subject_close(&subject);
    return status == 0 && write(out, &said, sizeof(said)) == (ssize_t)sizeof(said) ? 0 : 1;
}

/* Runs in a process of its own: CPU seconds and peak memory are of it alone. */
static int measure(const struct bench *bench, act *what, struct said *said, double *ret_seconds,
                   double *ret_mib)
{
    int ends[2];
    struct rusage usage = {.ru_maxrss = 0};
    bool heard;
    pid_t pid;

    if (pipe(ends) < 0)
        return 1;
    fflush(stdout);
    pid = fork();
    if (pid == 0)
        _exit(child(bench, what, ends[1]));
    close(ends[1]);
    heard = pid > 0 && read(ends[0], said, sizeof(*said)) == (ssize_t)sizeof(*said);
    close(ends[0]);
    if (pid < 0 || wait4(pid, &(int){0}, 0, &usage) < 0 || !heard)
        return 1;
    *ret_seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                   1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    *ret_mib = (double)usage.ru_maxrss / 1024;
    return 0;
}

static int run(const struct bench *bench)
{
    struct said walked = {0};
    struct said played = {0};
    double walk_s = 0;
    double seconds = 0;
    double mib = 0;

    if (measure(bench, walk, &walked, &walk_s, &mib) != 0 ||
        measure(bench, play, &played, &seconds, &mib) != 0)
        return 1;
    printf("%-19s %-9s %-18s %4s %-9s %4s %9llu %7.3f %7.3f %6.1f %7.1f %6.0f %14llu\n",
           bench->spec, bench->collective, bench->algorithm, bench->bytes, bench->model,
           bench->jitter, (unsigned long long)walked.count, walk_s, seconds,
           (double)walked.count / seconds / 1e6, seconds * 1e9 / (double)walked.count, mib,
           (unsigned long long)played.total_ps);
    return 0;
}

int main(int argc, char **argv)
{
    int failed = 0;

    if (argc != 1 && argc != 6 && argc != 7) {
        fprintf(stderr, "usage: sim_bench [SPEC COLLECTIVE ALGORITHM BYTES MODEL [JITTER]]\n");
        return 2;
    }
    printf("%-19s %-9s %-18s %4s %-9s %4s %9s %7s %7s %6s %7s %6s %14s\n", "topology", "of", "by",
           "size", "model", "jit", "messages", "walk s", "CPU s", "M/s", "ns/msg", "MiB", "ps");
    if (argc > 1)
        return run(&(struct bench){argv[1], argv[2], argv[3], argv[4], argv[5],
                                   argc == 7 ? argv[6] : "0"});
    for (size_t i = 0; i < sizeof(benches) / sizeof(benches[0]); i++)
        failed |= run(&benches[i]);
    return failed;
}
