/* Predictions of many points on all processors; see points.h. */
#include "tools/points.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    THREADS_MAX = 256,
    PROGRESS_FIRST_MS = 1000, /* silence that long: most sweeps are done by then */
    PROGRESS_EVERY_MS = 200,
};

struct crew {
    const struct tutti_ask *ask;
    struct tutti_point *points;
    size_t point_count;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t done;  /* a point is done */
    size_t taken_count;
    size_t done_count;
};

/* The last points are the largest and take longest: they are begun first, so that no processor is
 * left alone with one at the end. */
static struct tutti_point *take_point(struct crew *crew)
{
    struct tutti_point *point = NULL;

    pthread_mutex_lock(&crew->lock);
    if (crew->taken_count < crew->point_count)
        point = &crew->points[crew->point_count - ++crew->taken_count];
    pthread_mutex_unlock(&crew->lock);
    return point;
}

static void *work(void *context)
{
    struct crew *crew = context;
    struct tutti_fold_memory *memory = NULL;

    for (struct tutti_point *point = take_point(crew); point != NULL; point = take_point(crew)) {
        struct tutti_ask ask = *crew->ask;
        int status = memory == NULL ? tutti_predict_memory_new(&memory, &point->err) : 0;

        ask.algorithm = point->algorithm;
        ask.params.count = point->count;
        ask.memory = memory;
        point->status = status < 0 ? status : tutti_predict(&ask, &point->answer, &point->err);
        pthread_mutex_lock(&crew->lock);
        crew->done_count++;
        pthread_cond_signal(&crew->done);
        pthread_mutex_unlock(&crew->lock);
    }
    tutti_predict_memory_free(memory);
    return NULL;
}

static uint32_t processor_count(void)
{
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        return 1;
    return (uint32_t)CPU_COUNT(&allowed);
}

static struct timespec after_ms(long ms)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

/* Tells how far the crew is until it is done; leaves an empty line behind. */
static void watch(struct crew *crew, const char *command)
{
    struct timespec next = after_ms(PROGRESS_FIRST_MS);
    bool shown = false;

    pthread_mutex_lock(&crew->lock);
    while (crew->done_count < crew->point_count) {
        if (pthread_cond_timedwait(&crew->done, &crew->lock, &next) != ETIMEDOUT)
            continue;
        next = after_ms(PROGRESS_EVERY_MS);
        shown = true;
        fprintf(stderr, "\rtutti %s: %zu of %zu points", command, crew->done_count,
                crew->point_count);
        fflush(stderr);
    }
    pthread_mutex_unlock(&crew->lock);
    if (shown)
        fprintf(stderr, "\r%*s\r", (int)strlen(command) + 60, "");
}

void tutti_points_predict(const struct tutti_ask *ask, const char *command, uint32_t thread_count,
                          struct tutti_point *points, size_t point_count)
{
    struct crew crew = {
        .ask = ask,
        .points = points,
        .point_count = point_count,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .done = PTHREAD_COND_INITIALIZER,
    };
    pthread_t threads[THREADS_MAX];
    uint32_t started = 0;

    if (thread_count == 0)
        thread_count = processor_count();
    if (thread_count > THREADS_MAX)
        thread_count = THREADS_MAX;
    if (thread_count > point_count)
        thread_count = (uint32_t)point_count;
    while (started < thread_count && pthread_create(&threads[started], NULL, work, &crew) == 0)
        started++;
    if (started == 0) /* there is always the one that asks */
        work(&crew);
    if (started > 0 && command != NULL && isatty(STDERR_FILENO))
        watch(&crew, command);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_cond_destroy(&crew.done);
    pthread_mutex_destroy(&crew.lock);
}
