/* All-reduce on the backend `tcp`, a rank a process on this host, timed as MPI_Allreduce is; and
 * `raw`: as many bytes to and fro over one socket by two processes that do nothing else. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "runtime/coll.h"
#include "runtime/exec/transport/tcp/line.h"
#include "runtime/group_tcp.h"
#include "runtime/status.h"
#include "runtime/tcp.h"
#include "tests/bench/bench.h"

enum { PROCESSES_MAX = 16, SIZES_MAX = 64, TRIALS_MAX = 16 };

struct bench {
    struct tutti_group *group;
    struct tutti_backend *backend;
    const char *algorithm;
    uint64_t chunk_bytes;
    uint64_t largest;
    uint32_t buffer_bytes;
    bool best;                /* the shortest iteration, not the mean: for finding out what helps */
    float *in[PROCESSES_MAX]; /* only our own */
    float *out[PROCESSES_MAX];
};

static void give_up(const char *what, const struct tutti_err *err)
{
    fprintf(stderr, "tcp_bench: %s: %s\n", what, err->text);
    exit(1);
}

/* ---- raw sockets ---- */

/* Sends and receives `bytes`, a piece at a time, as large as those of the backend, without ever
 * waiting for one of the two. */
static void exchange(int fd, const char *out, char *in, uint64_t bytes)
{
    const uint64_t at_once = TUTTI_TCP_AT_ONCE;
    uint64_t went = 0;
    uint64_t came = 0;

    while (went < bytes || came < bytes) {
        if (went < bytes) {
            uint64_t left = bytes - went < at_once ? bytes - went : at_once;
            ssize_t n = send(fd, out + went, (size_t)left, MSG_DONTWAIT | MSG_NOSIGNAL);

            went += n > 0 ? (uint64_t)n : 0;
        }
        if (came < bytes) {
            uint64_t left = bytes - came < at_once ? bytes - came : at_once;
            ssize_t n = recv(fd, in + came, (size_t)left, MSG_DONTWAIT);

            if (n == 0)
                exit(1);
            came += n > 0 ? (uint64_t)n : 0;
        }
    }
}

static void run_raw(struct bench *bench, const uint64_t *sizes, size_t size_count)
{
    struct tutti_group_tcp_link link = {.peer = 1 - bench->group->index};
    const tutti_ps wait_ps = 60 * TUTTI_PS_PER_S;
    struct tutti_err err;
    uint32_t me = bench->group->index;
    int fd;

    if (bench->group->count != 2)
        exit(2);
    if (tutti_group_tcp_links(bench->group, &link, 1, &fd, wait_ps, &err) < 0)
        give_up("raw", &err);
    if (bench->buffer_bytes > 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bench->buffer_bytes, sizeof(int));
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bench->buffer_bytes, sizeof(int));
    }
    for (size_t i = 0; i < size_count; i++) {
        uint32_t iterations = bench_iterations(sizes[i]);
        double both_us[2];
        double best_us = 1e300;
        double before_ns = me == 0 ? bench_hop_ns() : 0;
        double us;

        for (uint32_t k = 0; k < bench_warmups(sizes[i]); k++)
            exchange(fd, (char *)bench->in[me], (char *)bench->out[me], sizes[i]);
        us = bench_now_us();
        for (uint32_t k = 0; k < iterations; k++) {
            double start_us = bench_now_us();

            exchange(fd, (char *)bench->in[me], (char *)bench->out[me], sizes[i]);
            start_us = bench_now_us() - start_us;
            best_us = start_us < best_us ? start_us : best_us;
        }
        us = bench->best ? best_us : (bench_now_us() - us) / iterations;
        if (tutti_group_exchange(bench->group, &us, sizeof(us), both_us, wait_ps, &err) < 0)
            give_up("raw", &err);
        if (me == 0)
            bench_say("raw", 2, sizes[i], both_us[0] > both_us[1] ? both_us[0] : both_us[1],
                      before_ns, bench_hop_ns(), "sockets");
    }
    close(fd);
}

/* ---- the backend ---- */

static double play(struct bench *bench, const struct tutti_schedule *schedule,
                   uint32_t warmup_count, uint32_t iteration_count)
{
    struct tutti_played played;
    struct tutti_err err;
    struct tutti_play play = {
        .size = sizeof(struct tutti_play),
        .schedule = schedule,
        .in = (const void *const *)bench->in,
        .out = (void *const *)bench->out,
        .warmup_count = warmup_count,
        .iteration_count = iteration_count,
        .barrier = bench->best,
    };

    if (tutti_backend_play(bench->backend, &play, &played, &err) < 0)
        give_up(schedule->name, &err);
    return (double)played.best_ps * 1e-6;
}

static struct tutti_schedule *schedule_of(const struct bench *bench, const char *algorithm,
                                          uint64_t bytes, uint64_t chunk_bytes)
{
    struct tutti_shape shape = tutti_shape_flat(bench->group->count);
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .count = bytes / sizeof(float),
        .chunk_bytes = chunk_bytes,
    };
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err;

    if (tutti_coll_generate(algorithm, &params, &shape, &schedule, &err) < 0)
        give_up(algorithm, &err);
    return schedule;
}

/* "auto": the fastest in short trials, in which all take turns. All processes see the same times,
 * so they agree. */
static struct tutti_schedule *fastest(struct bench *bench, uint64_t bytes)
{
    enum { NAMES = 5, TURNS = 3 };
    static const char *const names[NAMES] = {"one-shot", "two-shot", "ring", "recursive-doubling",
                                             "halving-doubling"};
    struct tutti_schedule *schedules[NAMES];
    double best_us[NAMES];
    size_t best = 0;

    for (size_t i = 0; i < NAMES; i++)
        schedules[i] = schedule_of(bench, names[i], bytes, 0);
    for (size_t turn = 0; turn < TURNS; turn++) {
        for (size_t i = 0; i < NAMES; i++) {
            double us = play(bench, schedules[i], 1, bench_iterations(bytes) / 20 + 1);

            best_us[i] = turn == 0 || us < best_us[i] ? us : best_us[i];
        }
    }
    for (size_t i = 1; i < NAMES; i++)
        best = best_us[i] < best_us[best] ? i : best;
    for (size_t i = 0; i < NAMES; i++) {
        if (i != best)
            tutti_schedule_free(schedules[i]);
    }
    return schedules[best];
}

static void run_tutti(struct bench *bench, const char *contender, const uint64_t *sizes,
                      size_t size_count)
{
    uint32_t me = bench->group->index;

    for (size_t i = 0; i < size_count; i++) {
        struct tutti_schedule *schedule =
            strcmp(bench->algorithm, "auto") == 0
                ? fastest(bench, sizes[i])
                : schedule_of(bench, bench->algorithm, sizes[i], bench->chunk_bytes);
        double before_ns = me == 0 ? bench_hop_ns() : 0;
        double us = play(bench, schedule, bench_warmups(sizes[i]), bench_iterations(sizes[i]));

        if (bench_wrong(bench->out[me], sizes[i], bench->group->count) > 0) {
            fprintf(stderr, "tcp_bench: %s: wrong sums at %llu bytes\n", schedule->name,
                    (unsigned long long)sizes[i]);
            exit(1);
        }
        if (me == 0)
            bench_say(contender, bench->group->count, sizes[i], us, before_ns, bench_hop_ns(),
                      schedule->name);
        tutti_schedule_free(schedule);
    }
}

/* ---- processes ---- */

/* Returns in each process, with its number; the one that was there first waits for the others. */
static uint32_t become_several(uint32_t count)
{
    pid_t children[PROCESSES_MAX];
    int code = 0;

    for (uint32_t i = 0; i < count; i++) {
        children[i] = fork();
        if (children[i] < 0)
            exit(1);
        if (children[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            return i;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        int how = 0;

        (void)waitpid(children[i], &how, 0);
        code = !WIFEXITED(how) ? 1 : WEXITSTATUS(how) != 0 ? WEXITSTATUS(how) : code;
    }
    exit(code);
}

static int usage(void)
{
    fprintf(stderr, "usage: tcp_bench CONTENDER|raw SIZE,SIZE,... PROCESSES [ALGORITHM [ENGINE "
                    "[CONGESTION [CONNECTIONS [BUFFER [CHUNK]]]]]]\n");
    return 2;
}

static uint32_t number_at(int argc, char **argv, int index)
{
    return index < argc ? (uint32_t)strtoul(argv[index], NULL, 10) : 0;
}

int main(int argc, char **argv)
{
    uint64_t sizes[SIZES_MAX];
    size_t size_count = argc >= 4 ? bench_sizes(argv[2], sizes, SIZES_MAX) : 0;
    struct bench bench = {.algorithm = argc >= 5 ? argv[4] : "auto",
                          .chunk_bytes = number_at(argc, argv, 9),
                          .buffer_bytes = number_at(argc, argv, 8),
                          .best = getenv("TUTTI_BENCH_BEST") != NULL};
    struct tutti_group_tcp_opts group = {.size = sizeof(struct tutti_group_tcp_opts),
                                         .root = "127.0.0.1:0",
                                         .count = number_at(argc, argv, 3)};
    struct tutti_tcp_opts opts = {
        .size = sizeof(struct tutti_tcp_opts),
        .congestion = argc >= 7 && argv[6][0] != '\0' ? argv[6] : NULL,
        .connections = number_at(argc, argv, 7),
        .buffer_bytes = number_at(argc, argv, 8),
        .pin = group.count <= 2,
    };
    char root[TUTTI_GROUP_TCP_ADDRESS_BYTES];
    struct tutti_err err;

    if (size_count == 0 || group.count < 2 || group.count > PROCESSES_MAX)
        return usage();
    if (argc >= 6 && tutti_tcp_engine_find(argv[5], &opts.engine, &err) < 0)
        give_up("engine", &err);
    if (tutti_group_tcp_listen(&group, &group.listen_fd, root, &err) < 0)
        give_up("listen", &err);
    group.index = become_several(group.count);
    group.root = root;
    group.has_listen_fd = group.index == 0;
    if (tutti_group_tcp_open(&group, &bench.group, &err) < 0)
        give_up("group", &err);
    for (size_t i = 0; i < size_count; i++)
        bench.largest = sizes[i] > bench.largest ? sizes[i] : bench.largest;
    bench.in[group.index] = bench_memory(bench.largest);
    bench.out[group.index] = bench_memory(bench.largest);
    bench_fill(bench.in[group.index], bench.largest, group.index);
    if (strcmp(argv[1], "raw") == 0) {
        bench_pin(group.index % 2);
        run_raw(&bench, sizes, size_count);
    } else {
        opts.group = bench.group;
        if (tutti_tcp_open(&opts, &bench.backend, &err) < 0)
            give_up("tcp", &err);
        run_tutti(&bench, argv[1], sizes, size_count);
        tutti_backend_close(bench.backend);
    }
    free(bench.in[group.index]);
    free(bench.out[group.index]);
    tutti_group_close(bench.group);
    return 0;
}
