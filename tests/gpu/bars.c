/* What the CUDA player reaches on this GPU: bytes moved a second, against the fastest copy of the
 * driver's in the same run, and the times of short all-reduces. Virtual ranks, random floats.
 * Prints a table, TABs between; lines of '#' say what it ran on. Usage: bars [--small] [GiB]
 * (the size of a rank's input of the long ones, 1). Exit 77: no GPU here. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/coll.h"
#include "runtime/cuda.h"
#include "runtime/exec/cuda/gpu.h"
#include "runtime/random.h"
#include "runtime/shape.h"
#include "runtime/status.h"

enum { RANKS = 8, TURNS = 15, PATTERN_BYTES = 16 << 20 };

struct bench {
    struct tutti_gpu gpu;
    double copy_bytes_per_s; /* read and written */
    uint32_t *pattern;       /* floats of any sign and of sizes that no sum of them overflows */
    struct tutti_err err;
};

static double now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int by_number(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof(*values), by_number);
    return values[count / 2];
}

/* Random floats in [first, first + bytes) of the device. */
static int fill(struct bench *b, uint64_t at, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes;) {
        uint64_t now = bytes - done < PATTERN_BYTES ? bytes - done : PATTERN_BYTES;
        int status = tutti_gpu_upload(&b->gpu, at + done, b->pattern, (size_t)now, &b->err);

        for (done += now; status == 0 && done >= PATTERN_BYTES && done < bytes; done += now) {
            now = bytes - done < done ? bytes - done : done;
            status = tutti_cuda_check(&b->gpu.driver,
                                      b->gpu.driver.copy(at + done, at, (size_t)now, b->gpu.stream),
                                      "copy", &b->err);
        }
        if (status < 0)
            return status;
    }
    return tutti_gpu_wait(&b->gpu, NULL, INT64_MAX / 2, &b->err);
}

/* The fastest copy that the driver makes, over some sizes: its median turn. */
static int measure_copy(struct bench *b, uint64_t first_bytes)
{
    for (uint64_t bytes = first_bytes; bytes <= 8 * first_bytes; bytes *= 8) {
        uint64_t memory = 0;
        double turns[TURNS];
        int status = tutti_cuda_check(&b->gpu.driver, b->gpu.driver.alloc(&memory, 2 * bytes),
                                      "alloc", &b->err);

        if (status == 0)
            status = fill(b, memory, bytes);
        for (int i = 0; i < TURNS && status == 0; i++) {
            float ms = 0;

            (void)b->gpu.driver.event_record(b->gpu.begin, b->gpu.stream);
            (void)b->gpu.driver.copy(memory + bytes, memory, bytes, b->gpu.stream);
            (void)b->gpu.driver.event_record(b->gpu.end, b->gpu.stream);
            status = tutti_gpu_wait(&b->gpu, NULL, INT64_MAX / 2, &b->err);
            (void)b->gpu.driver.event_elapsed(&ms, b->gpu.begin, b->gpu.end);
            turns[i] = 2.0 * (double)bytes / ((double)ms / 1e3);
        }
        (void)b->gpu.driver.free(memory);
        if (status < 0)
            return status;
        printf("copy\t%" PRIu64 "\t%.1f\tGB/s read and written\n", bytes,
               median(turns, TURNS) / 1e9);
        (void)fflush(stdout);
        if (turns[TURNS / 2] > b->copy_bytes_per_s)
            b->copy_bytes_per_s = turns[TURNS / 2];
    }
    return 0;
}

/* ---- one schedule ---- */

struct timed {
    double row_us;    /* launches behind each other: a mean by the GPU's events */
    double wait_us;   /* launch and wait, median by the host */
    double inside_us; /* an iteration within one launch, median by the GPU's clock */
    uint64_t moved_bytes;
    uint32_t lanes;
    uint32_t threads;
};

static int time_row(struct bench *b, struct tutti_gpu_load *load, uint32_t count, double *ret_us)
{
    float ms = 0;
    int status = 0;

    (void)b->gpu.driver.event_record(b->gpu.begin, b->gpu.stream);
    for (uint32_t i = 0; i < count && status == 0; i++)
        status = tutti_gpu_launch(load, 1, false, &b->err);
    (void)b->gpu.driver.event_record(b->gpu.end, b->gpu.stream);
    if (status == 0)
        status = tutti_gpu_wait(&b->gpu, NULL, INT64_MAX / 2, &b->err);
    (void)b->gpu.driver.event_elapsed(&ms, b->gpu.begin, b->gpu.end);
    *ret_us = (double)ms * 1e3 / count;
    return status;
}

static int time_waits(struct bench *b, struct tutti_gpu_load *load, uint32_t count, double *ret_us)
{
    double *turns = calloc(count, sizeof(*turns));
    int status = turns == NULL ? tutti_nomem(&b->err) : 0;

    for (uint32_t i = 0; i < count && status == 0; i++) {
        double since_us = now_us();

        status = tutti_gpu_launch(load, 1, false, &b->err);
        if (status == 0)
            status = tutti_gpu_wait(&b->gpu, NULL, INT64_MAX / 2, &b->err);
        turns[i] = now_us() - since_us;
    }
    if (status == 0)
        *ret_us = median(turns, count);
    free(turns);
    return status;
}

static int time_inside(struct bench *b, struct tutti_gpu_load *load, uint32_t count, double *ret_us)
{
    uint64_t *met_ns = calloc((size_t)count + 1, sizeof(*met_ns));
    double *turns = calloc(count, sizeof(*turns));
    int status = met_ns == NULL || turns == NULL ? tutti_nomem(&b->err)
                                                 : tutti_gpu_launch(load, count, false, &b->err);

    if (status == 0)
        status = tutti_gpu_wait(&b->gpu, NULL, INT64_MAX / 2, &b->err);
    if (status == 0)
        status = tutti_gpu_download(&b->gpu, met_ns, load->meetings,
                                    ((size_t)count + 1) * sizeof(*met_ns), &b->err);
    for (uint32_t i = 0; i < count && status == 0; i++)
        turns[i] = (double)(met_ns[i + 1] - met_ns[i]) / 1e3;
    /* The mean of the middle: the clock may tick coarsely. */
    if (status == 0) {
        (void)median(turns, count);
        *ret_us = 0;
        for (uint32_t i = count / 4; i < count - count / 4; i++)
            *ret_us += turns[i] / (count - count / 4 - count / 4);
    }
    free(met_ns);
    free(turns);
    return status;
}

/* Takes the schedule over. */
static int measure(struct bench *b, struct tutti_schedule *schedule, uint32_t threads,
                   uint32_t count, struct timed *ret)
{
    struct tutti_cuda_plan plan = {0};
    struct tutti_gpu_load load = {0};
    double ignored_us = 0;
    int status = tutti_cuda_plan_open(&plan, schedule, TUTTI_CUDA_LINED, &b->err);

    if (status == 0)
        status = tutti_gpu_load_open(&load, &b->gpu, &plan, false, threads, false, &b->err);
    if (status == 0)
        status = tutti_gpu_load_meetings(&load, count + 1, &b->err);
    if (status == 0) {
        load.args.deadline_ns = 5000000000;
        *ret = (struct timed){.moved_bytes = plan.moved_bytes,
                              .lanes = plan.lane_total,
                              .threads = load.thread_count};
        status = fill(b, load.memory, load.buffer_bytes);
    }
    if (status == 0)
        status = time_row(b, &load, 3, &ignored_us);
    if (status == 0)
        status = time_row(b, &load, count, &ret->row_us);
    if (status == 0)
        status = time_waits(b, &load, count, &ret->wait_us);
    if (status == 0)
        status = time_inside(b, &load, count, &ret->inside_us);
    if (status == 0)
        status = tutti_gpu_verdict(&load, 5 * TUTTI_PS_PER_S, &b->err);
    tutti_gpu_load_close(&load);
    tutti_cuda_plan_close(&plan);
    tutti_schedule_free(schedule);
    return status;
}

static void show(const struct bench *b, const char *name, uint32_t ranks, uint64_t bytes,
                 const struct timed *t)
{
    double rate = t->row_us > 0 ? (double)t->moved_bytes / (t->row_us / 1e6) : 0;

    printf("%s\t%u\t%" PRIu64 "\t%u\t%u\t%.2f\t%.2f\t%.2f\t%" PRIu64 "\t%.1f\t%.1f\n", name, ranks,
           bytes, t->lanes, t->threads, t->row_us, t->wait_us, t->inside_us, t->moved_bytes,
           rate / 1e9, 100.0 * rate / b->copy_bytes_per_s);
    (void)fflush(stdout);
}

static int all_reduce(struct bench *b, const char *algorithm, uint32_t ranks, uint64_t bytes,
                      uint32_t channels, uint32_t threads, uint32_t count)
{
    const struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                             .dtype = TUTTI_FLOAT32,
                                             .count = bytes / 4,
                                             .channel_count = channels};
    const struct tutti_shape shape = tutti_shape_flat(ranks);
    struct tutti_schedule *schedule = NULL;
    struct timed timed;
    int status = tutti_coll_generate(algorithm, &params, &shape, &schedule, &b->err);

    if (status == 0)
        status = measure(b, schedule, threads, count, &timed);
    if (status == 0)
        show(b, algorithm, ranks, bytes, &timed);
    else
        printf("# %s, %u ranks, %" PRIu64 " bytes, %u channels, %u threads: %s\n", algorithm, ranks,
               bytes, channels, threads, b->err.text);
    return status;
}

/* One step a lane on one rank: what a block moves by itself. */
static int steps(struct bench *b, bool reduces, uint64_t bytes, uint32_t lanes, uint32_t threads)
{
    const struct tutti_schedule_desc desc = {
        .name = reduces ? "reduce" : "copy-step",
        .contract = {.collective = TUTTI_CUSTOM, .dtype = TUTTI_FLOAT32, .op = TUTTI_SUM},
        .rank_count = 1,
        .lane_count = lanes,
        .in_bytes = 2 * bytes,
        .out_bytes = bytes,
    };
    struct tutti_builder *builder = NULL;
    struct tutti_schedule *schedule = NULL;
    struct timed timed;
    int status = tutti_builder_new(&desc, &builder, &b->err);

    if (status < 0)
        return status;
    for (uint32_t l = 0; l < lanes; l++) {
        uint64_t share = bytes / lanes / 16 * 16;
        struct tutti_buf_at in = {TUTTI_BUF_IN, l * share};
        struct tutti_buf_at more = {TUTTI_BUF_IN, bytes + l * share};
        struct tutti_buf_at out = {TUTTI_BUF_OUT, l * share};
        struct tutti_step step =
            reduces ? tutti_step_reduce(out, in, more, share) : tutti_step_copy(out, in, share);

        (void)tutti_builder_add(builder, 0, l, &step, NULL);
    }
    status = tutti_builder_finish(builder, &schedule, &b->err);
    if (status == 0)
        status = measure(b, schedule, threads, TURNS, &timed);
    if (status == 0)
        show(b, desc.name, 1, bytes, &timed);
    return status;
}

static int run(struct bench *b, uint64_t long_bytes, bool small)
{
    static const uint32_t channels[] = {8, 16};
    static const uint32_t threads[] = {256, 512};
    int status = measure_copy(b, small ? UINT64_C(1) << 23 : UINT64_C(1) << 30);
    int worst = 0; /* what one row lacks, others may have */

    if (status < 0)
        return status;
    printf("# name\tranks\tbytes\tlanes\tthreads\tin a row us\tlaunch and wait us\tinside one "
           "launch us\tbytes moved\tGB/s\t%% of the copy\n");
    for (uint64_t bytes = 8; bytes <= 65536; bytes *= 8) {
        worst |= all_reduce(b, "one-shot", RANKS, bytes, 1, 0, small ? 5 : 200);
        worst |= all_reduce(b, "two-shot", RANKS, bytes, 1, 0, small ? 5 : 200);
        worst |= all_reduce(b, "ring", RANKS, bytes, 1, 0, small ? 5 : 200);
    }
    for (int c = 0; c < 2 && !small; c++) {
        for (int t = 0; t < 2; t++) {
            worst |= steps(b, false, long_bytes, RANKS * channels[c], threads[t]);
            worst |= steps(b, true, long_bytes, RANKS * channels[c], threads[t]);
            worst |= all_reduce(b, "two-shot", RANKS, long_bytes, channels[c], threads[t], TURNS);
            worst |= all_reduce(b, "ring", RANKS, long_bytes, channels[c], threads[t], TURNS);
        }
        worst |= all_reduce(b, "double-binary-tree", RANKS, long_bytes, channels[c], 0, TURNS);
    }
    for (uint64_t bytes = 1 << 18; bytes < long_bytes && !small; bytes *= 8) {
        for (uint32_t c = 4; c <= 16; c *= 2) {
            worst |= all_reduce(b, "two-shot", RANKS, bytes, c, 0, TURNS);
            worst |= all_reduce(b, "ring", RANKS, bytes, c, 0, TURNS);
        }
    }
    return worst;
}

int main(int argc, char **argv)
{
    struct bench *b = calloc(1, sizeof(*b));
    bool small = argc > 1 && strcmp(argv[1], "--small") == 0;
    uint64_t gib = argc > 1 + small ? strtoull(argv[1 + small], NULL, 10) : 1;
    char name[TUTTI_CUDA_NAME_BYTES];
    int status;

    if (b == NULL)
        return 1;
    status = tutti_cuda_name(name, &b->err);
    if (status == 0)
        status = tutti_gpu_open(&b->gpu, NULL, 0, &b->err);
    if (status == 0) {
        printf("# %s\n", name);
        b->pattern = malloc(PATTERN_BYTES);
        for (uint32_t i = 0; b->pattern != NULL && i < PATTERN_BYTES / 4; i++)
            b->pattern[i] = (uint32_t)tutti_random_hash(42, i, 0, 0) & 0x80ffffff;
        for (uint32_t i = 0; b->pattern != NULL && i < PATTERN_BYTES / 4; i++)
            b->pattern[i] += 0x3e800000;
        status = b->pattern == NULL ? tutti_nomem(&b->err) : run(b, gib << 30, small);
    }
    if (status < 0)
        (void)fprintf(stderr, "bars: %s\n", b->err.text);
    free(b->pattern);
    tutti_gpu_close(&b->gpu);
    free(b);
    return status == -TUTTI_ELACK ? 77 : status != 0;
}
