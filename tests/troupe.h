/* Several "processes" in one: a crew that meets under a lock, a carrier that moves messages in
 * memory, and a backend that lets all of them play, each in a thread of its own, and compares what
 * they say. The conformance suite then sees one backend. */
#ifndef TUTTI_TESTS_TROUPE_H
#define TUTTI_TESTS_TROUPE_H

#include <pthread.h>
#include <time.h>

#include "runtime/backend.h"
#include "runtime/crew.h"
#include "runtime/exec/threads/game.h"
#include "runtime/record.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { TROUPE_MAX = 16 };

static struct timespec troupe_until(tutti_ps timeout_ps)
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

/* ---- the crew ---- */

struct troupe_desk {
    pthread_mutex_t lock; /* guards all of it */
    pthread_cond_t news;
    uint32_t count;
    uint32_t arrived;
    uint64_t generation;
    char *said[TROUPE_MAX];
    bool stopped;
    int status;
    struct tutti_err err;
};

struct troupe_crew {
    struct tutti_crew base;
    struct troupe_desk *desk;
    bool woken;
};

static int troupe_meet(struct troupe_desk *desk, const struct timespec *until)
{
    uint64_t generation = desk->generation;
    int status = 0;

    if (++desk->arrived == desk->count) {
        desk->arrived = 0;
        desk->generation++;
        pthread_cond_broadcast(&desk->news);
    }
    while (status == 0 && generation == desk->generation && !desk->stopped)
        status = pthread_cond_timedwait(&desk->news, &desk->lock, until);
    return status != 0 ? -TUTTI_ETIME : desk->stopped ? desk->status : 0;
}

static int troupe_exchange(struct tutti_crew *crew, const void *mine, size_t bytes, void *ret_all,
                           tutti_ps deadline_ps, struct tutti_err *err)
{
    struct troupe_desk *desk = ((struct troupe_crew *)crew)->desk;
    struct timespec until = troupe_until(deadline_ps);
    int status;

    pthread_mutex_lock(&desk->lock);
    desk->said[crew->index] = (char *)(uintptr_t)mine;
    status = troupe_meet(desk, &until);
    for (uint32_t i = 0; status == 0 && bytes > 0 && i < crew->count; i++)
        memmove((char *)ret_all + i * bytes, desk->said[i], bytes);
    if (status == 0)
        status = troupe_meet(desk, &until);
    if (status < 0 && err != NULL) {
        *err = desk->err;
        if (!desk->stopped)
            (void)tutti_fail(err, TUTTI_ETIME, "somebody has not come");
    }
    pthread_mutex_unlock(&desk->lock);
    return status;
}

static void troupe_stop(struct tutti_crew *crew, int status, const struct tutti_err *err)
{
    struct troupe_desk *desk = ((struct troupe_crew *)crew)->desk;

    pthread_mutex_lock(&desk->lock);
    if (!desk->stopped) {
        desk->status = status;
        if (err != NULL)
            desk->err = *err;
    }
    desk->stopped = true;
    pthread_cond_broadcast(&desk->news);
    pthread_mutex_unlock(&desk->lock);
}

static int troupe_wait_stop(struct tutti_crew *crew, tutti_ps timeout_ps, struct tutti_err *err)
{
    struct troupe_crew *mine = (struct troupe_crew *)crew;
    struct troupe_desk *desk = mine->desk;
    struct timespec until = troupe_until(timeout_ps);
    int status = 0;

    pthread_mutex_lock(&desk->lock);
    while (status == 0 && !desk->stopped && !mine->woken)
        status = pthread_cond_timedwait(&desk->news, &desk->lock, &until);
    mine->woken = false;
    status = desk->stopped ? desk->status : 0;
    if (desk->stopped && err != NULL)
        *err = desk->err;
    pthread_mutex_unlock(&desk->lock);
    return status;
}

static void troupe_wake(struct tutti_crew *crew)
{
    struct troupe_crew *mine = (struct troupe_crew *)crew;

    pthread_mutex_lock(&mine->desk->lock);
    mine->woken = true;
    pthread_cond_broadcast(&mine->desk->news);
    pthread_mutex_unlock(&mine->desk->lock);
}

static void troupe_crew_close(struct tutti_crew *crew)
{
    (void)crew; /* part of the troupe */
}

static const struct tutti_crew_ops troupe_crew_ops = {
    .size = sizeof(struct tutti_crew_ops),
    .name = "memory",
    .close = troupe_crew_close,
    .exchange = troupe_exchange,
    .stop = troupe_stop,
    .wait_stop = troupe_wait_stop,
    .wake = troupe_wake,
};

/* ---- the backend of them all ---- */

struct troupe {
    struct tutti_backend base;
    struct troupe_desk desk;
    uint32_t count;
    struct troupe_crew crews[TROUPE_MAX];
    struct tutti_backend *backends[TROUPE_MAX];
    /* Opens the backend of one process, in its own thread. */
    int (*open)(struct tutti_crew *crew, void *data, struct tutti_backend **ret,
                struct tutti_err *err);
    void *data;
};

struct troupe_part {
    struct troupe *troupe;
    uint32_t index;
    const struct tutti_play *play; /* NULL: open */
    struct tutti_record record;
    struct tutti_played played;
    struct tutti_err err;
    int status;
};

static void *troupe_part_run(void *data)
{
    struct troupe_part *part = data;
    struct troupe *troupe = part->troupe;
    struct tutti_backend **backend = &troupe->backends[part->index];
    struct tutti_play play;

    if (part->play == NULL) {
        part->status =
            troupe->open(&troupe->crews[part->index].base, troupe->data, backend, &part->err);
        return NULL;
    }
    play = *part->play;
    if (play.record != NULL)
        play.record = &part->record;
    part->status = tutti_backend_play(*backend, &play, &part->played, &part->err);
    return NULL;
}

/* All processes do the same; process 0 is in `parts[0]`. */
static void troupe_do(struct troupe *troupe, const struct tutti_play *play,
                      struct troupe_part *parts)
{
    pthread_t threads[TROUPE_MAX];

    for (uint32_t i = 0; i < troupe->count; i++) {
        parts[i] = (struct troupe_part){.troupe = troupe, .index = i, .play = play};
        tutti_record_init(&parts[i].record);
        if (pthread_create(&threads[i], NULL, troupe_part_run, &parts[i]) != 0) {
            fprintf(stderr, "no threads left\n");
            exit(1);
        }
    }
    for (uint32_t i = 0; i < troupe->count; i++)
        pthread_join(threads[i], NULL);
}

static int troupe_play(struct tutti_backend *backend, const struct tutti_play *play,
                       struct tutti_played *ret, struct tutti_err *err)
{
    static struct troupe_part parts[TROUPE_MAX];
    struct troupe *troupe = (struct troupe *)backend;

    troupe_do(troupe, play, parts);
    for (uint32_t i = 0; i < troupe->count; i++) {
        CHECK_INT(parts[i].status, parts[0].status);
        if (parts[0].status < 0 && !troupe->desk.stopped) /* else each says what it has seen */
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
    for (uint32_t i = 0; i < troupe->count; i++)
        tutti_record_done(&parts[i].record);
    return parts[0].status;
}

static void troupe_close(struct tutti_backend *backend)
{
    struct troupe *troupe = (struct troupe *)backend;

    for (uint32_t i = 0; i < troupe->count; i++)
        tutti_backend_close(troupe->backends[i]);
    pthread_mutex_destroy(&troupe->desk.lock);
    pthread_cond_destroy(&troupe->desk.news);
    free(troupe);
}

static const struct tutti_backend_ops troupe_ops = {
    .size = sizeof(struct tutti_backend_ops),
    .name = "troupe",
    .close = troupe_close,
    .play = troupe_play,
};

/* Makes the backend of one process, of which `crew` is its crew. */
typedef int troupe_open_one(struct tutti_crew *crew, void *data, struct tutti_backend **ret,
                            struct tutti_err *err);

/* `count` processes, each with the backend that `open` makes. */
__attribute__((unused)) static int troupe_open(uint32_t count, troupe_open_one *open, void *data,
                                               struct tutti_backend **ret, struct tutti_err *err)
{
    static struct troupe_part parts[TROUPE_MAX];
    struct troupe *troupe = calloc(1, sizeof(*troupe));
    int status = 0;

    if (troupe == NULL)
        return tutti_nomem(err);
    troupe->base.ops = &troupe_ops;
    troupe->count = count;
    troupe->open = open;
    troupe->data = data;
    troupe->desk.count = count;
    pthread_mutex_init(&troupe->desk.lock, NULL);
    pthread_cond_init(&troupe->desk.news, NULL);
    for (uint32_t i = 0; i < count; i++)
        troupe->crews[i] = (struct troupe_crew){
            .base = {.ops = &troupe_crew_ops, .index = i, .count = count}, .desk = &troupe->desk};
    troupe_do(troupe, NULL, parts);
    for (uint32_t i = 0; i < count && status == 0; i++) {
        status = parts[i].status;
        if (status < 0 && err != NULL)
            *err = parts[i].err;
    }
    if (status < 0) {
        troupe_close(&troupe->base);
        return status;
    }
    *ret = &troupe->base;
    return 0;
}

#endif
