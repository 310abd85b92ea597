/* Predictions of many points on all processors; see points.h. */
#include "tools/sweep/points.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/sink.h"

enum {
    THREADS_MAX = 256,
    PROGRESS_FIRST_MS = 1000, /* silence that long: most sweeps are done by then */
    PROGRESS_EVERY_MS = 200,
};

struct group {
    const struct tutti_ask *ask;
    struct tutti_point *points;
    size_t point_count;
    pthread_mutex_t lock;        /* guards what follows */
    pthread_cond_t done;         /* a point is done */
    const char *at[THREADS_MAX]; /* the algorithm that each is at, or NULL */
    uint32_t member_count;
    size_t left_count; /* points whose status is UNTAKEN; the lock guards that, too */
    size_t done_count;
};

enum { UNTAKEN = 1 }; /* no status of a prediction */

static bool is_anybody_at(const struct group *group, const char *algorithm)
{
    for (uint32_t i = 0; i < group->member_count; i++) {
        if (group->at[i] == algorithm)
            return true;
    }
    return false;
}

/* The last points are the largest and take longest: they are begun first, so that no processor is
 * left alone with one at the end. Who has predicted an algorithm goes on with it, for it remembers
 * what it found out; then comes one that nobody is at, and then whatever is left. */
static struct tutti_point *find_point(const struct group *group, const char *at)
{
    struct tutti_point *other = NULL;
    struct tutti_point *any = NULL;

    for (size_t i = group->point_count; i-- > 0;) {
        struct tutti_point *point = &group->points[i];

        if (point->status != UNTAKEN)
            continue;
        if (point->algorithm == at)
            return point;
        if (other == NULL && !is_anybody_at(group, point->algorithm))
            other = point;
        any = any == NULL ? point : any;
    }
    return other != NULL ? other : any;
}

static struct tutti_point *take_point(struct group *group, uint32_t member)
{
    struct tutti_point *point = NULL;

    pthread_mutex_lock(&group->lock);
    if (group->left_count > 0) {
        point = find_point(group, group->at[member]);
        point->status = 0;
        group->at[member] = point->algorithm;
        group->left_count--;
    }
    pthread_mutex_unlock(&group->lock);
    return point;
}

static uint32_t join_group(struct group *group)
{
    uint32_t member;

    pthread_mutex_lock(&group->lock);
    member = group->member_count++;
    pthread_mutex_unlock(&group->lock);
    return member;
}

static void *work(void *context)
{
    struct group *group = context;
    struct tutti_predict_memory *memory = NULL;
    uint32_t member = join_group(group);
    struct tutti_point *point;

    while ((point = take_point(group, member)) != NULL) {
        struct tutti_ask ask = *group->ask;
        int status = memory == NULL ? tutti_predict_memory_new(&memory, &point->err) : 0;

        ask.algorithm = point->algorithm;
        ask.params.count = point->count;
        ask.memory = memory;
        if (status == 0)
            status = tutti_predict(&ask, &point->answer, &point->err);
        pthread_mutex_lock(&group->lock);
        point->status = status;
        group->done_count++;
        pthread_cond_signal(&group->done);
        pthread_mutex_unlock(&group->lock);
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

/* Tells how far the group is until it is done; leaves an empty line behind. */
static void watch(struct group *group, const char *command, struct tutti_sink *sink)
{
    struct timespec next = after_ms(PROGRESS_FIRST_MS);
    bool shown = false;

    pthread_mutex_lock(&group->lock);
    while (group->done_count < group->point_count) {
        if (pthread_cond_timedwait(&group->done, &group->lock, &next) != ETIMEDOUT)
            continue;
        next = after_ms(PROGRESS_EVERY_MS);
        shown = true;
        fprintf(sink->notes, "\rtutti %s: %zu of %zu points", command, group->done_count,
                group->point_count);
        fflush(sink->notes);
    }
    pthread_mutex_unlock(&group->lock);
    if (shown)
        fprintf(sink->notes, "\r%*s\r", (int)strlen(command) + 60, "");
}

void tutti_points_predict(const struct tutti_ask *ask, const char *command, uint32_t thread_count,
                          struct tutti_point *points, size_t point_count, struct tutti_sink *sink)
{
    struct group group = {
        .ask = ask,
        .points = points,
        .point_count = point_count,
        .left_count = point_count,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .done = PTHREAD_COND_INITIALIZER,
    };
    pthread_t threads[THREADS_MAX];
    uint32_t started = 0;

    for (size_t i = 0; i < point_count; i++)
        points[i].status = UNTAKEN;
    if (thread_count == 0)
        thread_count = processor_count();
    if (thread_count > THREADS_MAX)
        thread_count = THREADS_MAX;
    if (thread_count > point_count)
        thread_count = (uint32_t)point_count;
    while (started < thread_count && pthread_create(&threads[started], NULL, work, &group) == 0)
        started++;
    if (started == 0) /* there is always the one that asks */
        work(&group);
    if (started > 0 && command != NULL && sink->notes_terminal)
        watch(&group, command, sink);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_cond_destroy(&group.done);
    pthread_mutex_destroy(&group.lock);
}
