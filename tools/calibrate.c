/* Measures messages, copies and reductions on this machine by threads; see calibrate.h. */
#include "tools/calibrate.h"

#include <assert.h>
#include <string.h>

#include "runtime/backend.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/threads.h"
#include "tools/buffers.h"
#include "tools/run.h"

enum {
    HOPS = 64,              /* of small messages, so that one hop is not lost in the clock */
    WARMUP = 2,             /* first touches, and the threads' way to their processors */
    ITERATIONS = 5,         /* of which the shortest counts, */
    PLAYS = 3,              /* of as many plays, each with new threads */
    POINT_BYTES_MIN = 3072, /* below, the latency is all */
    POINT_RATIO = 4,        /* from one size to the next */
};

static const uint64_t point_bytes_max = UINT64_C(3) << 22; /* 12 MiB; with all buffers 100 */

/* One kind of measurement: a schedule of few steps. */
struct probe {
    const struct tutti_host_ask *ask;
    struct tutti_backend *backend;
    struct tutti_builder *builder;
    uint32_t rank_count;
};

static int probe_open(struct probe *probe, uint32_t rank_count, uint64_t bytes,
                      struct tutti_err *err)
{
    struct tutti_schedule_desc desc = {
        .name = "probe",
        .contract = {.collective = TUTTI_CUSTOM, .dtype = probe->ask->dtype, .op = probe->ask->op},
        .rank_count = rank_count,
        .lane_count = 1,
        .in_bytes = 2 * bytes,
        .out_bytes = 2 * bytes,
        .scratch_bytes = bytes,
    };

    probe->rank_count = rank_count;
    return tutti_builder_new(&desc, &probe->builder, err);
}

/* Adds a step; after a failure nothing more. */
static void add(struct probe *probe, uint32_t rank, struct tutti_step step, int *status,
                struct tutti_err *err)
{
    if (*status == 0)
        *status = tutti_builder_add(probe->builder, rank, 0, &step, err);
}

static struct tutti_step send_step(enum tutti_buf from, uint32_t peer, uint64_t bytes)
{
    return (struct tutti_step){
        .kind = TUTTI_SEND, .src_buf = (uint8_t)from, .peer = peer, .bytes = bytes};
}

/* Received to be kept, or into scratch to be reduced at once. */
static struct tutti_step take_step(enum tutti_buf to, uint64_t offset, uint32_t peer,
                                   uint64_t bytes)
{
    return (struct tutti_step){.kind = TUTTI_RECV,
                               .dst_buf = (uint8_t)to,
                               .dst_offset = offset,
                               .peer = peer,
                               .bytes = bytes};
}

static struct tutti_step fused_step(uint32_t peer, uint64_t bytes)
{
    struct tutti_step step = take_step(TUTTI_BUF_SCRATCH, 0, peer, bytes);

    step.flags = TUTTI_STEP_FUSE;
    return step;
}

static struct tutti_step copy_step(uint64_t bytes)
{
    return (struct tutti_step){
        .kind = TUTTI_COPY, .dst_buf = TUTTI_BUF_OUT, .src_buf = TUTTI_BUF_IN, .bytes = bytes};
}

static struct tutti_step reduce_step(enum tutti_buf to, enum tutti_buf acc, enum tutti_buf from,
                                     uint64_t from_offset, uint64_t bytes)
{
    return (struct tutti_step){.kind = TUTTI_REDUCE,
                               .dst_buf = (uint8_t)to,
                               .acc_buf = (uint8_t)acc,
                               .src_buf = (uint8_t)from,
                               .src_offset = from_offset,
                               .bytes = bytes};
}

/* The shortest of several plays; ends the probe. */
static int probe_play(struct probe *probe, int status, int64_t *ret_ps, struct tutti_err *err)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_buffers buffers = {0};
    struct tutti_played played = {0};
    int64_t best_ps = 0;

    if (status == 0)
        status = tutti_builder_finish(probe->builder, &schedule, err);
    else
        tutti_builder_free(probe->builder);
    probe->builder = NULL;
    if (status == 0)
        status = tutti_buffers_open(schedule, probe->ask->seed, &buffers, err);
    for (int i = 0; i < PLAYS && status == 0; i++) {
        struct tutti_play play = {
            .schedule = schedule,
            .in = (const void *const *)buffers.in,
            .out = buffers.out,
            .warmup_count = WARMUP,
            .iteration_count = ITERATIONS,
            .barrier = true,
            .deadline_ps = probe->ask->deadline_ps,
        };

        status = tutti_backend_play(probe->backend, &play, &played, err);
        if (status == 0 && (i == 0 || played.best_ps < best_ps))
            best_ps = played.best_ps;
    }
    tutti_buffers_close(&buffers);
    tutti_schedule_free(schedule);
    if (status == 0)
        *ret_ps = best_ps;
    return status;
}

/* Ranks with nothing to do but to begin and end. */
static int measure_launch(struct probe *probe, uint32_t ranks, int64_t *ret_ps,
                          struct tutti_err *err)
{
    int status = probe_open(probe, ranks, 64, err);

    if (status < 0)
        return status;
    for (uint32_t r = 0; r < probe->rank_count; r++)
        add(probe, r, copy_step(0), &status, err);
    return probe_play(probe, status, ret_ps, err);
}

/* Small messages that go round, one from each rank at a time: what a step takes while all ranks do
 * the same, and where there are more ranks than processors, wait for their turns. */
static int measure_hop(struct probe *probe, uint32_t n, int64_t launch_ps, int64_t *ret_ps,
                       struct tutti_err *err)
{
    int status = probe_open(probe, n, 64, err);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < HOPS; i++) {
        for (uint32_t r = 0; r < n; r++) {
            add(probe, r, send_step(TUTTI_BUF_IN, (r + 1) % n, 8), &status, err);
            add(probe, r, take_step(TUTTI_BUF_OUT, 0, (r + n - 1) % n, 8), &status, err);
        }
    }
    status = probe_play(probe, status, ret_ps, err);
    if (status == 0)
        *ret_ps = (*ret_ps > launch_ps ? *ret_ps - launch_ps : *ret_ps) / HOPS;
    return status;
}

/* One rank alone copies, or adds one half of its input to the other. */
static int measure_own(struct probe *probe, uint64_t bytes, bool reduce, int64_t *ret_ps,
                       struct tutti_err *err)
{
    int status = probe_open(probe, 1, bytes, err);

    if (status < 0)
        return status;
    if (reduce)
        add(probe, 0, reduce_step(TUTTI_BUF_OUT, TUTTI_BUF_IN, TUTTI_BUF_IN, bytes, bytes), &status,
            err);
    else
        add(probe, 0, copy_step(bytes), &status, err);
    return probe_play(probe, status, ret_ps, err);
}

/* Rank 0 copies, and sends what it has just written to rank 1. */
static int measure_single(struct probe *probe, uint64_t bytes, int64_t *ret_ps,
                          struct tutti_err *err)
{
    int status = probe_open(probe, 2, bytes, err);

    if (status < 0)
        return status;
    add(probe, 0, copy_step(bytes), &status, err);
    add(probe, 0, send_step(TUTTI_BUF_OUT, 1, bytes), &status, err);
    add(probe, 1, take_step(TUTTI_BUF_SCRATCH, 0, 0, bytes), &status, err);
    return probe_play(probe, status, ret_ps, err);
}

/* All pairs exchange their inputs and keep them, or reduce them and then do something with the
 * fresh results: NOTHING, exchange (TAKE) or exchange and reduce (REDUCE_FRESH) them, or exchange
 * them where the sender can write them itself (PUSH). */
static int measure_pairs(struct probe *probe, uint32_t ranks, uint64_t bytes,
                         enum tutti_host_pass then, int64_t *ret_ps, struct tutti_err *err)
{
    int status = probe_open(probe, ranks, bytes, err);

    for (uint32_t r = 0; status == 0 && r < ranks; r++) {
        uint32_t peer = r ^ 1u;

        add(probe, r, send_step(TUTTI_BUF_IN, peer, bytes), &status, err);
        if (then == TUTTI_PASS_TAKE_INPUT) {
            add(probe, r, take_step(TUTTI_BUF_OUT, 0, peer, bytes), &status, err);
            continue;
        }
        add(probe, r, fused_step(peer, bytes), &status, err);
        add(probe, r, reduce_step(TUTTI_BUF_OUT, TUTTI_BUF_IN, TUTTI_BUF_SCRATCH, 0, bytes),
            &status, err);
        if (then == TUTTI_PASS_REDUCE_INPUT)
            continue;
        add(probe, r, send_step(TUTTI_BUF_OUT, peer, bytes), &status, err);
        if (then == TUTTI_PASS_TAKE)
            add(probe, r, take_step(TUTTI_BUF_SCRATCH, 0, peer, bytes), &status, err);
        if (then == TUTTI_PASS_PUSH)
            add(probe, r, take_step(TUTTI_BUF_OUT, bytes, peer, bytes), &status, err);
        if (then != TUTTI_PASS_REDUCE_FRESH)
            continue;
        add(probe, r, fused_step(peer, bytes), &status, err);
        add(probe, r, reduce_step(TUTTI_BUF_SCRATCH, TUTTI_BUF_OUT, TUTTI_BUF_SCRATCH, 0, bytes),
            &status, err);
    }
    if (probe->builder == NULL)
        return status;
    return probe_play(probe, status, ret_ps, err);
}

/* Bytes per second of a part that took `whole_ps` less `others_ps`. Where the clock and chance
 * leave less than a twentieth of the whole, that is taken. */
static uint64_t rate_of(uint64_t bytes, int64_t whole_ps, int64_t others_ps)
{
    int64_t part_ps = whole_ps - others_ps;

    if (part_ps < whole_ps / 20)
        part_ps = whole_ps / 20;
    if (part_ps < 1)
        part_ps = 1;
    return (uint64_t)((double)bytes * (double)TUTTI_PS_PER_S / (double)part_ps) + 1;
}

/* What a pair takes beside moving the data, to be taken off. */
struct fixed {
    int64_t alone_ps; /* one rank, to begin and end */
    int64_t launch_ps;
    int64_t latency_ps;
};

static int measure_fixed(struct probe *probe, uint32_t pair_ranks, struct fixed *ret,
                         struct tutti_err *err)
{
    int status = measure_launch(probe, 1, &ret->alone_ps, err);

    if (status == 0)
        status = measure_launch(probe, pair_ranks, &ret->launch_ps, err);
    if (status == 0)
        status = measure_hop(probe, 2, ret->launch_ps, &ret->latency_ps, err);
    return status;
}

/* Passes of a rank that runs alone, or beside one that waits. */
static int measure_alone(struct probe *probe, const struct fixed *fixed,
                         struct tutti_host_point *point, struct tutti_err *err)
{
    uint64_t bytes = point->bytes;
    int64_t copy_ps = 0;
    int64_t took_ps = 0;
    int status = measure_own(probe, bytes, false, &copy_ps, err);

    if (status == 0)
        status = measure_own(probe, bytes, true, &took_ps, err);
    point->bytes_per_s[TUTTI_PASS_COPY] = rate_of(bytes, copy_ps, fixed->alone_ps);
    point->bytes_per_s[TUTTI_PASS_REDUCE] = rate_of(bytes, took_ps, fixed->alone_ps);
    if (status < 0 || probe->ask->rank_count == 1)
        return status;
    status = measure_single(probe, bytes, &took_ps, err);
    point->bytes_per_s[TUTTI_PASS_SINGLE] = rate_of(bytes, took_ps, copy_ps + fixed->latency_ps);
    return status;
}

/* Passes of pairs: first those of the inputs, then what comes on top of one of them. */
static int measure_point(struct probe *probe, const struct fixed *fixed, uint32_t pair_ranks,
                         struct tutti_host_point *point, struct tutti_err *err)
{
    static const enum tutti_host_pass passes[] = {TUTTI_PASS_TAKE_INPUT, TUTTI_PASS_REDUCE_INPUT,
                                                  TUTTI_PASS_TAKE, TUTTI_PASS_REDUCE_FRESH,
                                                  TUTTI_PASS_PUSH};
    int64_t others_ps = fixed->launch_ps + fixed->latency_ps;
    int status = measure_alone(probe, fixed, point, err);

    if (probe->ask->rank_count == 1)
        return status;
    for (size_t i = 0; status == 0 && i < sizeof(passes) / sizeof(passes[0]); i++) {
        int64_t took_ps = 0;

        status = measure_pairs(probe, pair_ranks, point->bytes, passes[i], &took_ps, err);
        point->bytes_per_s[passes[i]] = rate_of(point->bytes, took_ps, others_ps);
        if (passes[i] == TUTTI_PASS_REDUCE_INPUT)
            others_ps = took_ps + fixed->latency_ps;
    }
    return status;
}

/* The sizes to measure at: from the last not above the smallest asked for to the first not below
 * the largest. */
static void choose_points(const struct tutti_host_ask *ask, struct tutti_host *host)
{
    for (uint64_t bytes = POINT_BYTES_MIN; bytes <= point_bytes_max; bytes *= POINT_RATIO) {
        bool last = bytes * POINT_RATIO > point_bytes_max;

        if (bytes * POINT_RATIO <= ask->bytes_min && !last)
            continue;
        assert(host->point_count < TUTTI_HOST_POINTS_MAX);
        host->points[host->point_count++].bytes = bytes;
        if (bytes >= ask->bytes_max)
            break;
    }
}

/* Rates, of one rank or one pair a processor, tied to it. */
static int measure_points(const struct tutti_host_ask *ask, struct tutti_host *host,
                          struct tutti_err *err)
{
    struct tutti_threads_opts opts = {.pin = true};
    struct probe probe = {.ask = ask};
    struct fixed fixed;
    int status = tutti_threads_open(&opts, &probe.backend, err);

    if (status < 0)
        return status;
    status = measure_fixed(&probe, host->pair_ranks, &fixed, err);
    for (uint32_t i = 0; status == 0 && i < host->point_count; i++)
        status = measure_point(&probe, &fixed, host->pair_ranks, &host->points[i], err);
    tutti_backend_close(probe.backend);
    return status;
}

/* What all ranks of the run take to begin and end, and to hand a message on. */
static int measure_all_ranks(const struct tutti_host_ask *ask, struct tutti_host *host,
                             struct tutti_err *err)
{
    struct tutti_threads_opts opts = {.pin = ask->pin};
    struct probe probe = {.ask = ask};
    int status = tutti_threads_open(&opts, &probe.backend, err);

    if (status < 0)
        return status;
    status = measure_launch(&probe, ask->rank_count, &host->launch_ps, err);
    if (status == 0 && ask->rank_count > 1)
        status = measure_hop(&probe, ask->rank_count, host->launch_ps, &host->latency_ps, err);
    tutti_backend_close(probe.backend);
    return status;
}

int tutti_host_measure(const struct tutti_host_ask *ask, struct tutti_host *ret,
                       struct tutti_err *err)
{
    struct tutti_host host = {
        .rank_count = ask->rank_count,
        .processor_count = tutti_run_processors(),
    };
    uint32_t alone =
        ask->rank_count < host.processor_count ? ask->rank_count : host.processor_count;
    int status;

    host.pair_ranks = alone < 2 ? 2 : alone & ~1u;
    choose_points(ask, &host);
    status = measure_all_ranks(ask, &host, err);
    if (status == 0)
        status = measure_points(ask, &host, err);
    if (status < 0)
        return tutti_wrap(err, status, "measuring this machine");
    *ret = host;
    return 0;
}
