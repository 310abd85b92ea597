/* What the contenders of a benchmark share: clock, sizes, memory, data, and the placement probe. */
#ifndef TUTTI_TESTS_BENCH_BENCH_H
#define TUTTI_TESTS_BENCH_BENCH_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static inline double bench_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* "8,1024,..." into at most `max` numbers; 0 if the list is not one. */
static inline size_t bench_sizes(const char *list, uint64_t *sizes, size_t max)
{
    size_t count = 0;
    char *end = NULL;

    for (const char *at = list; count < max; at = end + 1) {
        sizes[count] = strtoull(at, &end, 10);
        if (end == at || sizes[count] == 0 || sizes[count] % sizeof(float) != 0)
            return 0;
        count++;
        if (*end == '\0')
            return count;
        if (*end != ',')
            return 0;
    }
    return 0;
}

/* How often a size is played in one timing: the same for every contender. */
static inline uint32_t bench_iterations(uint64_t bytes)
{
    if (bytes <= 4096)
        return 2000;
    if (bytes <= 65536)
        return 500;
    if (bytes <= 1 << 20)
        return 100;
    return bytes <= 16 << 20 ? 15 : 3;
}

/* Untimed rounds before a timing. */
static inline uint32_t bench_warmups(uint64_t bytes)
{
    return bench_iterations(bytes) / 10 + 1;
}

/* Memory in huge pages where the system grants them: first touches are dear, and are not what is
 * measured. Ends the program if there is none. */
static inline float *bench_memory(uint64_t bytes)
{
    const size_t huge = (size_t)2 << 20;
    size_t rounded = ((size_t)bytes + huge - 1) / huge * huge;
    float *memory = aligned_alloc(huge, rounded);

    if (memory == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    (void)madvise(memory, rounded, MADV_HUGEPAGE);
    memset(memory, 1, rounded);
    return memory;
}

/* Small whole numbers, none 0 (a memory full of zeros is faster than any other), whose sums are
 * exact; they repeat after BENCH_PERIOD elements. */
enum { BENCH_PERIOD = 7 };

static inline void bench_fill(float *data, uint64_t bytes, uint32_t rank)
{
    for (uint64_t i = 0; i < bytes / sizeof(float); i++)
        data[i] = (float)(1 + (i + rank) % BENCH_PERIOD);
}

/* How many elements of a sum over all ranks are wrong. */
static inline uint64_t bench_wrong(const float *sum, uint64_t bytes, uint32_t rank_count)
{
    float expected[BENCH_PERIOD] = {0};
    uint64_t wrong = 0;
    uint32_t phase = 0;

    for (uint32_t i = 0; i < BENCH_PERIOD; i++) {
        for (uint32_t rank = 0; rank < rank_count; rank++)
            expected[i] += (float)(1 + (i + rank) % BENCH_PERIOD);
    }
    for (uint64_t i = 0; i < bytes / sizeof(float); i++) {
        wrong += sum[i] < expected[phase] || sum[i] > expected[phase];
        phase = phase + 1 == BENCH_PERIOD ? 0 : phase + 1;
    }
    return wrong;
}

/* ---- the placement probe ----
 *
 * A virtual machine's processors may be moved between neighbouring and distant cores within
 * seconds, which changes everything that passes through a cache by a factor of up to five. Two
 * threads hand a cache line to and fro; the median one-way time tells how far apart they are. */

enum { BENCH_PROBE_HOPS = 401 };

struct bench_probe {
    _Alignas(128) atomic_uint ball;
    _Alignas(128) double hop_ns[BENCH_PROBE_HOPS];
};

static inline void bench_pin(uint32_t index)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(index, &one);
    (void)sched_setaffinity(0, sizeof(one), &one);
}

static inline void *bench_probe_answer(void *data)
{
    struct bench_probe *probe = data;

    bench_pin(1);
    for (unsigned i = 0; i < BENCH_PROBE_HOPS; i++) {
        while (atomic_load_explicit(&probe->ball, memory_order_acquire) != 2 * i + 1)
            ;
        atomic_store_explicit(&probe->ball, 2 * i + 2, memory_order_release);
    }
    return NULL;
}

static inline int bench_compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

static inline void *bench_probe_ask(void *data)
{
    struct bench_probe *probe = data;

    bench_pin(0);
    for (unsigned i = 0; i < BENCH_PROBE_HOPS; i++) {
        double start_us = bench_now_us();

        atomic_store_explicit(&probe->ball, 2 * i + 1, memory_order_release);
        while (atomic_load_explicit(&probe->ball, memory_order_acquire) != 2 * i + 2)
            ;
        probe->hop_ns[i] = (bench_now_us() - start_us) * 1e3 / 2;
    }
    return NULL;
}

/* One-way hand-off between processors 0 and 1 in nanoseconds (with half a reading of the clock);
 * 0 if it cannot be told. */
static inline double bench_hop_ns(void)
{
    static struct bench_probe probe;
    pthread_t ask;
    pthread_t answer;

    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        return 0;
    atomic_store(&probe.ball, 0);
    if (pthread_create(&ask, NULL, bench_probe_ask, &probe) != 0)
        return 0;
    if (pthread_create(&answer, NULL, bench_probe_answer, &probe) != 0)
        exit(1); /* the other thread waits for ever */
    pthread_join(ask, NULL);
    pthread_join(answer, NULL);
    qsort(probe.hop_ns, BENCH_PROBE_HOPS, sizeof(probe.hop_ns[0]), bench_compare);
    return probe.hop_ns[BENCH_PROBE_HOPS / 2];
}

/* One line of results: contender, ranks, bytes, microseconds, hops before and after, and how. */
static inline void bench_say(const char *contender, uint32_t rank_count, uint64_t bytes, double us,
                             double before_ns, double after_ns, const char *how)
{
    printf("%s %u %llu %.3f %.0f %.0f %s\n", contender, rank_count, (unsigned long long)bytes, us,
           before_ns, after_ns, how);
    fflush(stdout);
}

#endif
