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
    size_t left_count; /* points that are not done; the lock guards what stages they are at, too */
    size_t done_count;
};

/* Stages of a point on the way to its status; no statuses of a prediction. */
enum {
    UNTAKEN = TUTTI_POINT_SLOWER + 1,
    POSTPONED, /* it does not fold: when its rivals that do are done */
    TAKEN,
};

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

/* Whether all rivals of a point are done or postponed. */
static bool rivals_wait(const struct group *group, const struct tutti_point *point)
{
    for (size_t i = 0; i < group->point_count; i++) {
        const struct tutti_point *rival = &group->points[i];

        if (rival->rivals == point->rivals && (rival->status == UNTAKEN || rival->status == TAKEN))
            return false;
    }
    return true;
}

/* Of the points that were postponed the one whose turn it is, or NULL: of rivals, the one that may
 * be the fastest of them. */
static struct tutti_point *find_postponed(const struct group *group)
{
    struct tutti_point *found = NULL;

    for (size_t i = 0; i < group->point_count; i++) {
        struct tutti_point *point = &group->points[i];

        if (point->status == POSTPONED && (found == NULL || point->least_ps < found->least_ps) &&
            rivals_wait(group, point))
            found = point;
    }
    return found;
}

/* The least time among the rivals of a point so far. */
static tutti_ps least_of_rivals(const struct group *group, const struct tutti_point *point)
{
    tutti_ps least_ps = INT64_MAX;

    for (size_t i = 0; i < group->point_count; i++) {
        const struct tutti_point *rival = &group->points[i];

        if (rival->rivals == point->rivals && rival->status == 0 &&
            rival->answer.time_ps < least_ps)
            least_ps = rival->answer.time_ps;
    }
    return least_ps;
}

static void finish(struct group *group, struct tutti_point *point, int status)
{
    point->status = status;
    if (status != POSTPONED) {
        group->left_count--;
        group->done_count++;
    }
    pthread_cond_broadcast(&group->done);
}

/* A point to predict, or NULL: there are no more. *ret_again: it had been postponed. */
static struct tutti_point *take_point(struct group *group, uint32_t member, bool *ret_again)
{
    struct tutti_point *point = NULL;

    pthread_mutex_lock(&group->lock);
    while (group->left_count > 0 && point == NULL) {
        *ret_again = false;
        point = find_point(group, group->at[member]);
        if (point == NULL) {
            *ret_again = true;
            point = find_postponed(group);
        }
        if (point == NULL) {
            pthread_cond_wait(&group->done, &group->lock);
        } else if (*ret_again && point->least_ps > least_of_rivals(group, point)) {
            finish(group, point, TUTTI_POINT_SLOWER);
            point = NULL;
        }
    }
    if (point != NULL) {
        point->status = TAKEN;
        group->at[member] = point->algorithm;
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

/* Predicts a point, or postpones it. */
static int predict(const struct tutti_ask *given, struct tutti_predict_memory *memory, bool again,
                   struct tutti_point *point)
{
    struct tutti_ask ask = *given;
    bool first = point->rivals != 0 && !again && strcmp(ask.fold, "on") != 0;
    int status = -TUTTI_ELACK;

    ask.algorithm = point->algorithm;
    ask.params.count = point->count;
    ask.memory = memory;
    if (first)
        ask.fold = "on";
    if (!first || strcmp(given->fold, "off") != 0)
        status = tutti_predict(&ask, &point->answer, &point->err);
    if (!first || status != -TUTTI_ELACK)
        return status;
    status = tutti_predict_least(&ask, &point->least_ps, &point->err);
    if (status == -TUTTI_ENOMEM)
        return status;
    if (status < 0)
        point->least_ps = 0; /* what is wrong is said when it is predicted */
    return POSTPONED;
}

static void *work(void *context)
{
    struct group *group = context;
    struct tutti_predict_memory *memory = NULL;
    uint32_t member = join_group(group);
    struct tutti_point *point;
    bool again;

    while ((point = take_point(group, member, &again)) != NULL) {
        int status = memory == NULL ? tutti_predict_memory_new(&memory, &point->err) : 0;

        if (status == 0)
            status = predict(group->ask, memory, again, point);
        pthread_mutex_lock(&group->lock);
        finish(group, point, status);
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
