/* The streams of the stand-in for the driver's library: each is a thread with a queue of copies,
 * fills, events and launches; and graphs, which keep such jobs. */
#ifndef TUTTI_TESTS_GPU_STANDIN_STREAMS_H
#define TUTTI_TESTS_GPU_STANDIN_STREAMS_H

#include <stdlib.h>
#include <string.h>

#include "tests/gpu/standin_memory.h"
#include "tests/gpu/train_cpu.h"

enum {
    SUCCESS = 0,
    INVALID = 1,
    OUT_OF_MEMORY = 2,
    ELSEWHERE = 400,
    NOT_READY = 600,
    NO_CONTEXT = 201,
    PEERS_UNSUPPORTED = 217,
    ILLEGAL_ADDRESS = 700,
    TOO_LARGE = 720,
    UNKNOWN = 999
};

enum { JOBS_MAX = 4096 };

enum job_kind { JOB_COPY, JOB_FILL, JOB_EVENT, JOB_WAIT, JOB_LAUNCH, JOB_KERNEL, JOB_CALL };

/* When a stream last came to it; 0: not yet since it was recorded last. Each time that it is
 * recorded is another one to wait for. */
struct event {
    uint64_t at_ns; /* first: what an event is elsewhere */
    uint64_t recorded;
    uint64_t reached;
};

struct job {
    enum job_kind kind;
    void *to;
    const void *from;
    size_t bytes;
    unsigned char value;
    const struct player_cpu_entry *entry;
    const struct train_cpu_entry *train;
    void (*call)(const void *args); /* of another library, which stands in like this one */
    union {
        struct tutti_cuda_args args;
        struct tutti_kernel_args kernel_args;
        unsigned char call_args[sizeof(struct tutti_kernel_args)];
    };
    uint32_t blocks;
    uint32_t threads;
};

/* Jobs that one launch plays. */
struct graph {
    struct job *jobs; /* [JOBS_MAX] */
    uint32_t count;
};

struct stream {
    void *context;
    int device;
    pthread_t thread;
    pthread_mutex_t lock; /* of the rest */
    pthread_cond_t changed;
    struct job *jobs; /* a ring of JOBS_MAX */
    uint64_t put;
    uint64_t done;
    bool over;
    int result;             /* of the first job that failed */
    struct graph *captured; /* what is put into it, while that is not NULL */
    struct stream *next;    /* of all; of their lock */
};

struct all_streams {
    pthread_mutex_t lock; /* of the rest */
    struct stream *first;
};

static struct all_streams *all_streams(void)
{
    static struct all_streams only = {.lock = PTHREAD_MUTEX_INITIALIZER};

    return &only;
}

static int play(struct player_cpu_pool *pool, const struct job *job, int device)
{
    uint32_t absent = (uint32_t)setting("TUTTI_STANDIN_ABSENT", UINT32_MAX);

    if (setting("TUTTI_STANDIN_ABSENT_DEVICE", (uint64_t)device) != (uint64_t)device)
        absent = UINT32_MAX;
    if (!memory_launch_is_legal(&job->args, job->blocks, device))
        return ILLEGAL_ADDRESS;
    return player_cpu_launch(pool, job->entry->kernel, &job->args, job->blocks, job->threads,
                             absent, PLAYER_CPU_RIGHT)
               ? SUCCESS
               : UNKNOWN;
}

static void reach(struct event *event, uint64_t number)
{
    __atomic_store_n(&event->reached, number, __ATOMIC_RELEASE);
    if (__atomic_load_n(&event->recorded, __ATOMIC_RELAXED) == number)
        __atomic_store_n(&event->at_ns, p_now_ns(), __ATOMIC_RELEASE);
}

static int do_job(struct player_cpu_pool *pool, struct job *job, int device)
{
    switch (job->kind) {
    case JOB_COPY:
        memcpy(job->to, job->from, job->bytes);
        return SUCCESS;
    case JOB_FILL:
        memset(job->to, job->value, job->bytes);
        return SUCCESS;
    case JOB_EVENT:
        reach(job->to, job->bytes);
        return SUCCESS;
    case JOB_WAIT:
        while (__atomic_load_n(&((struct event *)job->to)->reached, __ATOMIC_ACQUIRE) < job->bytes)
            (void)nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        return SUCCESS;
    case JOB_KERNEL:
        job->train->kernel(job->kernel_args, setting("TUTTI_STANDIN_BACKWARD", 0) != 0);
        return SUCCESS;
    case JOB_CALL:
        job->call(job->call_args);
        return SUCCESS;
    default:
        return play(pool, job, device);
    }
}

static void *work(void *data)
{
    struct stream *s = data;
    struct player_cpu_pool pool = {0};

    (void)pthread_mutex_lock(&s->lock);
    for (;;) {
        struct job job;
        int result;

        while (s->put == s->done && !s->over)
            (void)pthread_cond_wait(&s->changed, &s->lock);
        if (s->put == s->done)
            break;
        job = s->jobs[s->done % JOBS_MAX];
        (void)pthread_mutex_unlock(&s->lock);
        result = do_job(&pool, &job, s->device);
        (void)pthread_mutex_lock(&s->lock);
        s->result = s->result == SUCCESS ? result : s->result;
        s->done++;
        (void)pthread_cond_broadcast(&s->changed);
    }
    (void)pthread_mutex_unlock(&s->lock);
    player_cpu_pool_close(&pool);
    return NULL;
}

/* Waits while the queue is full, as a driver does. */
static int put(void *stream, const struct job *job)
{
    struct stream *s = stream;

    if (s->captured != NULL) {
        if (s->captured->count == JOBS_MAX)
            return INVALID;
        s->captured->jobs[s->captured->count++] = *job;
        return SUCCESS;
    }
    (void)pthread_mutex_lock(&s->lock);
    while (s->put - s->done == JOBS_MAX)
        (void)pthread_cond_wait(&s->changed, &s->lock);
    s->jobs[s->put++ % JOBS_MAX] = *job;
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
    return SUCCESS;
}

static void wait_for(struct stream *s)
{
    (void)pthread_mutex_lock(&s->lock);
    while (s->put != s->done)
        (void)pthread_cond_wait(&s->changed, &s->lock);
    (void)pthread_mutex_unlock(&s->lock);
}

/* To and from memory of the host's that is not pinned: a driver returns when it is done. */
static int put_copy(void *stream, void *to, const void *from, size_t bytes)
{
    (void)put(stream, &(struct job){.to = to, .from = from, .bytes = bytes});
    wait_for(stream);
    return SUCCESS;
}

static struct graph *graph_new(const struct graph *from)
{
    struct graph *graph = calloc(1, sizeof(*graph));

    if (graph == NULL)
        return NULL;
    graph->jobs = calloc(JOBS_MAX, sizeof(*graph->jobs));
    if (graph->jobs == NULL) {
        free(graph);
        return NULL;
    }
    graph->count = from == NULL ? 0 : from->count;
    for (uint32_t i = 0; i < graph->count; i++)
        graph->jobs[i] = from->jobs[i];
    return graph;
}

static void graph_free(struct graph *graph)
{
    free(graph->jobs);
    free(graph);
}

#endif
