/* Several "processes" in one: a group that meets under a lock, a transport that moves messages in
 * memory, and a backend that lets all of them play, each in a thread of its own, and compares what
 * they say. The conformance suite then sees one backend. */
#ifndef TUTTI_TESTS_RUNTIME_HOST_BACKEND_H
#define TUTTI_TESTS_RUNTIME_HOST_BACKEND_H

#include <pthread.h>
#include <time.h>

#include "runtime/backend.h"
#include "runtime/exec/host/execution.h"
#include "runtime/group.h"
#include "runtime/record.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { HOST_BACKEND_MAX = 16 };

static struct timespec host_backend_until(tutti_ps timeout_ps)
{
    struct timespec at;
    const tutti_ps hour_ps = 3600 * TUTTI_PS_PER_S;
    tutti_ps ns = (timeout_ps < hour_ps ? timeout_ps : hour_ps) / TUTTI_PS_PER_NS;

    clock_gettime(CLOCK_REALTIME, &at);
    ns += at.tv_nsec;
    at.tv_sec += (time_t)(ns / 1000000000);
    at.tv_nsec = (long)(ns % 1000000000);
    return at;
}

/* ---- the group ---- */

struct host_backend_context {
    pthread_mutex_t lock; /* guards all of it */
    pthread_cond_t news;
    uint32_t count;
    uint32_t arrived;
    uint64_t generation;
    char *said[HOST_BACKEND_MAX];
    bool stopped;
    int status;
    struct tutti_err err;
};

struct host_backend_group {
    struct tutti_group base;
    struct host_backend_context *context;
    bool woken;
};

static int host_backend_meet(struct host_backend_context *context, const struct timespec *until)
{
    uint64_t generation = context->generation;
    int status = 0;

    if (++context->arrived == context->count) {
        context->arrived = 0;
        context->generation++;
        pthread_cond_broadcast(&context->news);
    }
    while (status == 0 && generation == context->generation && !context->stopped)
        status = pthread_cond_timedwait(&context->news, &context->lock, until);
    return status != 0 ? -TUTTI_ETIME : context->stopped ? context->status : 0;
}

static int host_backend_exchange(struct tutti_group *group, const void *mine, size_t bytes,
                                 void *ret_all, tutti_ps deadline_ps, struct tutti_err *err)
{
    struct host_backend_context *context = ((struct host_backend_group *)group)->context;
    struct timespec until = host_backend_until(deadline_ps);
    int status;

    pthread_mutex_lock(&context->lock);
    context->said[group->index] = (char *)(uintptr_t)mine;
    status = host_backend_meet(context, &until);
    for (uint32_t i = 0; status == 0 && bytes > 0 && i < group->count; i++)
        memmove((char *)ret_all + i * bytes, context->said[i], bytes);
    if (status == 0)
        status = host_backend_meet(context, &until);
    if (status < 0 && err != NULL) {
        *err = context->err;
        if (!context->stopped)
            (void)tutti_fail(err, TUTTI_ETIME, "somebody has not come");
    }
    pthread_mutex_unlock(&context->lock);
    return status;
}

static void host_backend_stop(struct tutti_group *group, int status, const struct tutti_err *err)
{
    struct host_backend_context *context = ((struct host_backend_group *)group)->context;

    pthread_mutex_lock(&context->lock);
    if (!context->stopped) {
        context->status = status;
        if (err != NULL)
            context->err = *err;
    }
    context->stopped = true;
    pthread_cond_broadcast(&context->news);
    pthread_mutex_unlock(&context->lock);
}

static int host_backend_wait_stop(struct tutti_group *group, tutti_ps timeout_ps,
                                  struct tutti_err *err)
{
    struct host_backend_group *mine = (struct host_backend_group *)group;
    struct host_backend_context *context = mine->context;
    struct timespec until = host_backend_until(timeout_ps);
    int status = 0;

    pthread_mutex_lock(&context->lock);
    while (status == 0 && !context->stopped && !mine->woken)
        status = pthread_cond_timedwait(&context->news, &context->lock, &until);
    mine->woken = false;
    status = context->stopped ? context->status : 0;
    if (context->stopped && err != NULL)
        *err = context->err;
    pthread_mutex_unlock(&context->lock);
    return status;
}

static void host_backend_wake(struct tutti_group *group)
{
    struct host_backend_group *mine = (struct host_backend_group *)group;

    pthread_mutex_lock(&mine->context->lock);
    mine->woken = true;
    pthread_cond_broadcast(&mine->context->news);
    pthread_mutex_unlock(&mine->context->lock);
}

static void host_backend_group_close(struct tutti_group *group)
{
    (void)group; /* part of the host backend */
}

static const struct tutti_group_ops host_backend_group_ops = {
    .size = sizeof(struct tutti_group_ops),
    .name = "memory",
    .close = host_backend_group_close,
    .exchange = host_backend_exchange,
    .stop = host_backend_stop,
    .wait_stop = host_backend_wait_stop,
    .wake = host_backend_wake,
};

/* ---- the backend of them all ---- */

struct host_backend {
    struct tutti_backend base;
    struct host_backend_context context;
    uint32_t count;
    struct host_backend_group groups[HOST_BACKEND_MAX];
    struct tutti_backend *backends[HOST_BACKEND_MAX];
    /* Opens the backend of one process, in its own thread. */
    int (*open)(struct tutti_group *group, void *data, struct tutti_backend **ret,
                struct tutti_err *err);
    void *data;
};

struct host_backend_part {
    struct host_backend *host_backend;
    uint32_t index;
    const struct tutti_play *play; /* NULL: open */
    struct tutti_record record;
    struct tutti_played played;
    struct tutti_err err;
    int status;
};

static void *host_backend_part_run(void *data)
{
    struct host_backend_part *part = data;
    struct host_backend *host_backend = part->host_backend;
    struct tutti_backend **backend = &host_backend->backends[part->index];
    struct tutti_play play;

    if (part->play == NULL) {
        part->status = host_backend->open(&host_backend->groups[part->index].base,
                                          host_backend->data, backend, &part->err);
        return NULL;
    }
    play = *part->play;
    if (play.record != NULL)
        play.record = &part->record;
    part->status = tutti_backend_play(*backend, &play, &part->played, &part->err);
    return NULL;
}

/* All processes do the same; process 0 is in `parts[0]`. */
static void host_backend_do(struct host_backend *host_backend, const struct tutti_play *play,
                            struct host_backend_part *parts)
{
    pthread_t threads[HOST_BACKEND_MAX];

    for (uint32_t i = 0; i < host_backend->count; i++) {
        parts[i] =
            (struct host_backend_part){.host_backend = host_backend, .index = i, .play = play};
        tutti_record_init(&parts[i].record);
        if (pthread_create(&threads[i], NULL, host_backend_part_run, &parts[i]) != 0) {
            fprintf(stderr, "no threads left\n");
            exit(1);
        }
    }
    for (uint32_t i = 0; i < host_backend->count; i++)
        pthread_join(threads[i], NULL);
}

static int host_backend_play(struct tutti_backend *backend, const struct tutti_play *play,
                             struct tutti_played *ret, struct tutti_err *err)
{
    static struct host_backend_part parts[HOST_BACKEND_MAX];
    struct host_backend *host_backend = (struct host_backend *)backend;

    host_backend_do(host_backend, play, parts);
    for (uint32_t i = 0; i < host_backend->count; i++) {
        CHECK_INT(parts[i].status, parts[0].status);
        if (parts[0].status < 0 &&
            !host_backend->context.stopped) /* else each says what it has seen */
            CHECK_TEXT(parts[i].err.text, parts[0].err.text);
        CHECK_INT(parts[i].played.best_ps, parts[0].played.best_ps);
        CHECK_INT(parts[i].played.step_count, parts[0].played.step_count);
        if (parts[0].status == 0)
            CHECK(tutti_record_hash(&parts[i].record, 1) == tutti_record_hash(&parts[0].record, 1));
    }
    if (parts[0].status == 0) {
        *ret = parts[0].played;
        tutti_record_sort(&parts[0].record); /* the hash has put it in another order */
        if (play->record != NULL) {
            struct tutti_record record = *play->record;

            *play->record = parts[0].record;
            parts[0].record = record;
        }
    } else if (err != NULL) {
        *err = parts[0].err;
    }
    for (uint32_t i = 0; i < host_backend->count; i++)
        tutti_record_done(&parts[i].record);
    return parts[0].status;
}

static void host_backend_close(struct tutti_backend *backend)
{
    struct host_backend *host_backend = (struct host_backend *)backend;

    for (uint32_t i = 0; i < host_backend->count; i++)
        tutti_backend_close(host_backend->backends[i]);
    pthread_mutex_destroy(&host_backend->context.lock);
    pthread_cond_destroy(&host_backend->context.news);
    free(host_backend);
}

static const struct tutti_backend_ops host_backend_ops = {
    .size = sizeof(struct tutti_backend_ops),
    .name = "host backend",
    .close = host_backend_close,
    .play = host_backend_play,
};

/* Makes the backend of one process, of which `group` is its group. */
typedef int host_backend_open_one(struct tutti_group *group, void *data, struct tutti_backend **ret,
                                  struct tutti_err *err);

/* `count` processes, each with the backend that `open` makes. */
__attribute__((unused)) static int host_backend_open(uint32_t count, host_backend_open_one *open,
                                                     void *data, struct tutti_backend **ret,
                                                     struct tutti_err *err)
{
    static struct host_backend_part parts[HOST_BACKEND_MAX];
    struct host_backend *host_backend = calloc(1, sizeof(*host_backend));
    int status = 0;

    if (host_backend == NULL)
        return tutti_nomem(err);
    host_backend->base.ops = &host_backend_ops;
    host_backend->count = count;
    host_backend->open = open;
    host_backend->data = data;
    host_backend->context.count = count;
    pthread_mutex_init(&host_backend->context.lock, NULL);
    pthread_cond_init(&host_backend->context.news, NULL);
    for (uint32_t i = 0; i < count; i++)
        host_backend->groups[i] = (struct host_backend_group){
            .base = {.ops = &host_backend_group_ops, .index = i, .count = count},
            .context = &host_backend->context};
    host_backend_do(host_backend, NULL, parts);
    for (uint32_t i = 0; i < count && status == 0; i++) {
        status = parts[i].status;
        if (status < 0 && err != NULL)
            *err = parts[i].err;
    }
    if (status < 0) {
        host_backend_close(&host_backend->base);
        return status;
    }
    *ret = &host_backend->base;
    return 0;
}

#endif
