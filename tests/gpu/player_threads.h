/* The threads of the device on the CPU. They outlive a launch: to start some hundred of them for
 * each takes longer than most launches do. Included by player_cpu.h. */
#ifndef TUTTI_TESTS_GPU_PLAYER_THREADS_H
#define TUTTI_TESTS_GPU_PLAYER_THREADS_H

#include <semaphore.h>

#include "tests/gpu/player_cpu.h"

enum { PLAYER_CPU_STACK_BYTES = 1 << 18 };

struct player_cpu_thread {
    pthread_t thread;
    sem_t begin;
    const struct player_cpu_self *self; /* what to be next; NULL: the end */
    struct player_cpu_pool *pool;
    struct player_cpu_thread *next; /* of all */
};

/* Zeros are a pool without threads. It plays one launch at a time. */
struct player_cpu_pool {
    struct player_cpu_thread *first;
    uint32_t at_work;
    sem_t end; /* of the launch; there while it is at work */
};

static inline void *player_cpu_work(void *data)
{
    struct player_cpu_thread *mine = data;

    for (;;) {
        const struct player_cpu_self *self;

        while (sem_wait(&mine->begin) != 0) {
        }
        self = mine->self;
        if (self == NULL)
            return NULL;
        *player_cpu_watch() = (struct player_cpu_watch){.word = NULL};
        self->kernel(self, *self->args);
        if (__atomic_sub_fetch(&mine->pool->at_work, 1, __ATOMIC_ACQ_REL) == 0)
            (void)sem_post(&mine->pool->end);
    }
}

static inline void player_cpu_pool_close(struct player_cpu_pool *pool)
{
    while (pool->first != NULL) {
        struct player_cpu_thread *last = pool->first;

        pool->first = last->next;
        last->self = NULL;
        (void)sem_post(&last->begin);
        (void)pthread_join(last->thread, NULL);
        (void)sem_destroy(&last->begin);
        free(last);
    }
}

static inline struct player_cpu_thread *player_cpu_thread_new(struct player_cpu_pool *pool)
{
    struct player_cpu_thread *thread = calloc(1, sizeof(*thread));
    pthread_attr_t attributes;
    bool started;

    if (thread == NULL || sem_init(&thread->begin, 0, 0) != 0) {
        free(thread);
        return NULL;
    }
    thread->pool = pool;
    (void)pthread_attr_init(&attributes);
    (void)pthread_attr_setstacksize(&attributes, PLAYER_CPU_STACK_BYTES);
    started = pthread_create(&thread->thread, &attributes, player_cpu_work, thread) == 0;
    (void)pthread_attr_destroy(&attributes);
    if (!started) {
        (void)sem_destroy(&thread->begin);
        free(thread);
        return NULL;
    }
    return thread;
}

/* So many threads are there; false: they could not be started. */
static inline bool player_cpu_pool_grow(struct player_cpu_pool *pool, uint32_t count)
{
    struct player_cpu_thread **link = &pool->first;

    for (uint32_t i = 0; i < count; i++) {
        if (*link == NULL)
            *link = player_cpu_thread_new(pool);
        if (*link == NULL)
            return false;
        link = &(*link)->next;
    }
    return true;
}

static inline void player_cpu_play(struct player_cpu_pool *pool,
                                   const struct player_cpu_self *selves, uint32_t count)
{
    struct player_cpu_thread *thread = pool->first;

    pool->at_work = count;
    if (count == 0 || sem_init(&pool->end, 0, 0) != 0)
        return;
    for (uint32_t t = 0; t < count; t++) {
        thread->self = &selves[t];
        (void)sem_post(&thread->begin);
        thread = thread->next;
    }
    while (sem_wait(&pool->end) != 0) {
    }
    (void)sem_destroy(&pool->end);
}

/* Launches a kernel and waits for its end. `absent`: a block that never comes, or UINT32_MAX.
 * False: there is no memory, or a thread could not be started. */
static inline bool player_cpu_launch(struct player_cpu_pool *pool, player_cpu_kernel *kernel,
                                     const struct tutti_cuda_args *args, uint32_t block_count,
                                     uint32_t thread_count, uint32_t absent,
                                     enum player_cpu_mutant mutant)
{
    uint32_t total = 0;
    struct player_cpu_block *blocks = calloc(block_count, sizeof(*blocks));
    struct player_cpu_self *selves = calloc((size_t)block_count * thread_count, sizeof(*selves));
    bool complete = blocks != NULL && selves != NULL;

    for (uint32_t b = 0; complete && b < block_count; b++) {
        blocks[b].index = b;
        blocks[b].shared = calloc(1, sizeof(struct player_shared));
        complete = blocks[b].shared != NULL &&
                   pthread_barrier_init(&blocks[b].barrier, NULL, thread_count) == 0;
        for (uint32_t t = 0; complete && t < thread_count && b != absent; t++)
            selves[total++] = (struct player_cpu_self){.block = &blocks[b],
                                                       .args = args,
                                                       .kernel = kernel,
                                                       .thread = t,
                                                       .thread_count = thread_count,
                                                       .block_count = block_count,
                                                       .mutant = mutant};
    }
    complete = complete && player_cpu_pool_grow(pool, total);
    if (complete)
        player_cpu_play(pool, selves, total);
    for (uint32_t b = 0; blocks != NULL && b < block_count; b++) {
        if (blocks[b].shared != NULL)
            (void)pthread_barrier_destroy(&blocks[b].barrier);
        free(blocks[b].shared);
    }
    free(blocks);
    free(selves);
    return complete;
}

#endif
