/* The player's kernel for a C compiler: a thread of the device is a pthread, the barrier of a block
 * a pthread barrier, acquire and release those of C11. Every sanitizer sees what it does. Mutants
 * leave the barrier out or make the counters relaxed: ThreadSanitizer must see them. */
#ifndef TUTTI_TESTS_GPU_PLAYER_CPU_H
#define TUTTI_TESTS_GPU_PLAYER_CPU_H

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/exec/cuda/op.h"
#include "runtime/exec/device/half.h"

enum player_cpu_mutant { PLAYER_CPU_RIGHT, PLAYER_CPU_NO_BARRIER, PLAYER_CPU_RELAXED };

struct player_cpu_block {
    pthread_barrier_t barrier;
    void *shared;
    uint32_t index;
};

/* What is slept on until somebody has stored: counters and lines share some. */
struct player_cpu_word {
    _Alignas(64) uint32_t stores; /* a futex */
    uint32_t sleepers;
};

enum { PLAYER_CPU_WORDS = 256 };

/* A thread of the device. */
struct player_cpu_self {
    struct player_cpu_block *block;
    const struct tutti_cuda_args *args;
    void (*kernel)(const struct player_cpu_self *self, struct tutti_cuda_args args);
    uint32_t thread;
    uint32_t thread_count;
    uint32_t block_count;
    enum player_cpu_mutant mutant;
};

struct player_cpu_vector {
    _Alignas(16) uint32_t word[4];
};

#define P_DEV   inline
#define P_APART static
#define P_KERNEL(NAME) \
    static void NAME(const struct player_cpu_self *self, struct tutti_cuda_args args)
#define P_CTX                const struct player_cpu_self *self,
#define P_PASS               self,
#define P_TID                (self->thread)
#define P_NTID               (self->thread_count)
#define P_BID                (self->block->index)
#define P_NBLOCKS            (self->block_count)
#define P_SYNC()             player_cpu_sync(self)
#define P_NULL               NULL
#define P_SHARED(TYPE, NAME) TYPE *NAME = self->block->shared
#define P_UNROLL
#define P_SPINS 8 /* each of which may be a millisecond */
#define p_vec   struct player_cpu_vector
/* Those that know which mutant it is. */
#define p_ld_acquire(AT)               player_cpu_load(self, AT)
#define p_st_release(AT, VALUE)        player_cpu_store(self, AT, VALUE)
#define p_add_release(AT)              player_cpu_add(self, AT)
#define p_ld_acquire_system(AT)        player_cpu_load_system(self, AT)
#define p_st_release_system(AT, VALUE) player_cpu_store(self, AT, VALUE)
#define p_half_widen                   tutti_half_widen
#define p_half_narrow                  tutti_half_narrow

static inline void player_cpu_sync(const struct player_cpu_self *self)
{
    if (self->mutant != PLAYER_CPU_NO_BARRIER)
        (void)pthread_barrier_wait(&self->block->barrier);
}

/* What this thread has looked at last, which p_pause sleeps on; none: it only lets others run. */
struct player_cpu_watch {
    struct player_cpu_word *word;
    uint32_t stores; /* before it looked */
    bool hosts;      /* the host may be who stores, and wakes nobody */
};

static inline struct player_cpu_watch *player_cpu_watch(void)
{
    static _Thread_local struct player_cpu_watch mine;

    return &mine;
}

/* Of all launches: those of several devices wake each other. */
static inline struct player_cpu_word *player_cpu_word(uint64_t at)
{
    static struct player_cpu_word words[PLAYER_CPU_WORDS];

    return &words[(at >> 4 ^ at >> 12) % PLAYER_CPU_WORDS];
}

/* Before a look. None of this is an order of anything: what ThreadSanitizer is to see are the
 * counters alone. Who sleeps for a store that came before wakes up by himself. */
static inline void player_cpu_look(uint64_t at)
{
    struct player_cpu_watch *mine = player_cpu_watch();

    mine->word = player_cpu_word(at);
    mine->hosts = false;
    mine->stores = __atomic_load_n(&mine->word->stores, __ATOMIC_RELAXED);
}

/* After a store. */
static inline void player_cpu_wake(uint64_t at)
{
    struct player_cpu_word *word = player_cpu_word(at);

    (void)__atomic_fetch_add(&word->stores, 1, __ATOMIC_RELAXED);
    if (__atomic_load_n(&word->sleepers, __ATOMIC_RELAXED) > 0)
        (void)syscall(SYS_futex, &word->stores, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static inline void p_pause(void)
{
    struct player_cpu_watch *mine = player_cpu_watch();
    const struct timespec most = {.tv_nsec = mine->hosts ? 50000 : 1000000};

    if (mine->word == NULL) {
        (void)sched_yield();
        return;
    }
    (void)__atomic_fetch_add(&mine->word->sleepers, 1, __ATOMIC_RELAXED);
    (void)syscall(SYS_futex, &mine->word->stores, FUTEX_WAIT_PRIVATE, mine->stores, &most, NULL, 0);
    (void)__atomic_fetch_sub(&mine->word->sleepers, 1, __ATOMIC_RELAXED);
    mine->word = NULL;
}

static inline uint64_t player_cpu_load(const struct player_cpu_self *self, const uint64_t *at)
{
    player_cpu_look((uintptr_t)at);
    return self->mutant == PLAYER_CPU_RELAXED ? __atomic_load_n(at, __ATOMIC_RELAXED)
                                              : __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

static inline uint64_t player_cpu_load_system(const struct player_cpu_self *self,
                                              const uint64_t *at)
{
    uint64_t value = player_cpu_load(self, at);

    player_cpu_watch()->hosts = true;
    return value;
}

static inline void player_cpu_store(const struct player_cpu_self *self, uint64_t *at,
                                    uint64_t value)
{
    if (self->mutant == PLAYER_CPU_RELAXED)
        __atomic_store_n(at, value, __ATOMIC_RELAXED);
    else
        __atomic_store_n(at, value, __ATOMIC_RELEASE);
    player_cpu_wake((uintptr_t)at);
}

static inline void player_cpu_add(const struct player_cpu_self *self, uint64_t *at)
{
    if (self->mutant == PLAYER_CPU_RELAXED)
        (void)__atomic_fetch_add(at, 1, __ATOMIC_RELAXED);
    else
        (void)__atomic_fetch_add(at, 1, __ATOMIC_RELEASE);
    player_cpu_wake((uintptr_t)at);
}

static inline bool p_ld_line(uint64_t at, uint32_t flag, uint64_t *ret)
{
    const uint64_t *halves = (const uint64_t *)(uintptr_t)at;
    uint64_t low;
    uint64_t high;

    player_cpu_look(at);
    low = __atomic_load_n(&halves[0], __ATOMIC_RELAXED);
    high = __atomic_load_n(&halves[1], __ATOMIC_RELAXED);
    *ret = high << 32 | (uint32_t)low;
    return (uint32_t)(low >> 32) == flag && (uint32_t)(high >> 32) == flag;
}

static inline void p_st_line(uint64_t at, uint64_t value, uint32_t flag)
{
    uint64_t *halves = (uint64_t *)(uintptr_t)at;

    __atomic_store_n(&halves[0], (uint64_t)flag << 32 | (uint32_t)value, __ATOMIC_RELAXED);
    __atomic_store_n(&halves[1], (uint64_t)flag << 32 | value >> 32, __ATOMIC_RELAXED);
    player_cpu_wake(at);
}

static inline uint32_t p_ld_flag(const uint32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

static inline void p_st_flag(uint32_t *at, uint32_t value)
{
    __atomic_store_n(at, value, __ATOMIC_RELAXED);
}

static inline bool p_claim(uint32_t *at)
{
    uint32_t nobody = 0;

    return __atomic_compare_exchange_n(at, &nobody, 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static inline uint32_t p_ld_host(const uint32_t *at)
{
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}

static inline uint64_t p_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static inline float p_float(uint32_t bits)
{
    return (union tutti_float_bits){.u = bits}.f;
}

static inline uint32_t p_float_bits(float value)
{
    return (union tutti_float_bits){.f = value}.u;
}

union player_cpu_double {
    uint64_t u;
    double d;
};

static inline double p_double(uint64_t bits)
{
    return (union player_cpu_double){.u = bits}.d;
}

static inline uint64_t p_double_bits(double value)
{
    return (union player_cpu_double){.d = value}.u;
}

#include "runtime/exec/cuda/player.h"

typedef void player_cpu_kernel(const struct player_cpu_self *self, struct tutti_cuda_args args);

#define PLAYER_CPU_ROW(NAME)                                     \
    {"tutti_play_" #NAME "_sum", tutti_play_##NAME##_sum},       \
        {"tutti_play_" #NAME "_prod", tutti_play_##NAME##_prod}, \
        {"tutti_play_" #NAME "_min", tutti_play_##NAME##_min},   \
        {"tutti_play_" #NAME "_max", tutti_play_##NAME##_max},   \
        {"tutti_play_" #NAME "_avg", tutti_play_##NAME##_avg},

/* The kernels by their names on the device. */
static const struct player_cpu_entry {
    const char *name;
    player_cpu_kernel *kernel;
} player_cpu_kernels[] = {PLAYER_CPU_ROW(float) PLAYER_CPU_ROW(double) PLAYER_CPU_ROW(half)
                              PLAYER_CPU_ROW(bfloat16) PLAYER_CPU_ROW(int32) PLAYER_CPU_ROW(int64)
                                  PLAYER_CPU_ROW(int8)
                                      PLAYER_CPU_ROW(uint8){"tutti_play_mixed", tutti_play_mixed}};

#include "tests/gpu/player_threads.h"

#endif
