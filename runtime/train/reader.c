/* A rank's batches, in their order, read ahead by a thread of their own. */
#include "runtime/train/reader.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "runtime/arena.h"
#include "runtime/status.h"

#define DEADLINE_STANDARD_S 60.0

/* A batch's buffers. */
struct slot {
    struct tutti_batch batch;
    float *inputs;
    uint32_t *labels;
    float *targets;
    uint64_t *examples;
};

struct tutti_reader {
    struct tutti_reader_ask ask;
    struct tutti_arena *arena;
    struct slot *slots; /* [depth + 1]: batch number k is in slot k mod depth + 1 */
    uint64_t input_count;
    struct tutti_feed_position position; /* of the next batch to be read; the thread's */
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    uint64_t read_count;  /* batches that are full */
    uint64_t taken_count; /* batches handed out; the last of them is in use */
    bool stop;
    int status; /* of the thread, < 0: it has ended, and why */
    struct tutti_err err;
    struct tutti_reader_stats stats;
};

static double now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool is_stopped(struct tutti_reader *reader)
{
    bool stop;

    pthread_mutex_lock(&reader->lock);
    stop = reader->stop;
    pthread_mutex_unlock(&reader->lock);
    return stop;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int example_read(struct tutti_reader *reader, struct slot *slot, uint32_t at,
                        struct tutti_err *err)
{
    const struct tutti_dataset *set = reader->ask.set;
    uint64_t example = tutti_feed_example(&reader->ask.feed, &slot->batch.share, at);
    float target = 0;
    int status = set->read(set, example, slot->inputs + at * reader->input_count, &target, err);

    if (status < 0)
        return tutti_wrap(err, status, "example %llu", (unsigned long long)example);
    slot->examples[at] = example;
    if (set->class_count == 0) {
        slot->targets[at] = target;
        return 0;
    }
    if (!(target >= 0 && target < (float)set->class_count)) /* NaN neither */
        return tutti_fail(err, TUTTI_EINVAL, "example %llu is of class %g (0 to %u)",
                          (unsigned long long)example, (double)target, set->class_count - 1);
    slot->labels[at] = (uint32_t)target;
    return 0;
}

/* Batch number `number`, which no one else touches now. */
static int batch_read(struct tutti_reader *reader, uint64_t number, struct tutti_err *err)
{
    struct slot *slot = &reader->slots[number % (reader->ask.depth + 1)];
    int status = 0;

    slot->batch.share = tutti_feed_share(&reader->ask.feed, reader->position);
    slot->batch.count = (uint32_t)slot->batch.share.count;
    for (uint32_t i = 0; status == 0 && i < slot->batch.count && !is_stopped(reader); i++)
        status = example_read(reader, slot, i, err);
    if (status < 0)
        return status;
    reader->position = tutti_feed_next(&reader->ask.feed, reader->position);
    return 0;
}

/* Reads one batch and says so; false: that was the last. Called without the lock. */
static bool read_one(struct tutti_reader *reader, uint64_t number)
{
    struct tutti_err err = {""};
    double begin_s = now_s();
    int status = batch_read(reader, number, &err);

    pthread_mutex_lock(&reader->lock);
    reader->stats.read_s += now_s() - begin_s;
    if (status == 0)
        reader->read_count++;
    reader->status = status;
    reader->err = err;
    pthread_cond_broadcast(&reader->changed);
    pthread_mutex_unlock(&reader->lock);
    return status == 0;
}

/* Waits for a free slot; false: there is nothing left to do. */
static bool wait_for_room(struct tutti_reader *reader, uint64_t number)
{
    bool go_on;

    if (reader->ask.step_limit > 0 && number >= reader->ask.step_limit)
        return false;
    pthread_mutex_lock(&reader->lock);
    /* The batch handed out last is in use, and lies in one of the depth + 1 slots. */
    while (!reader->stop &&
           number + (reader->taken_count > 0) > reader->taken_count + reader->ask.depth)
        pthread_cond_wait(&reader->changed, &reader->lock);
    go_on = !reader->stop;
    pthread_mutex_unlock(&reader->lock);
    return go_on;
}

static void *read_ahead(void *context)
{
    struct tutti_reader *reader = context;
    uint64_t number = 0;

    while (wait_for_room(reader, number) && read_one(reader, number))
        number++;
    return NULL;
}

/* ---- handing out ----------------------------------------------------------------------------- */

/* With the lock held, waits until batch number `number` is there. */
static int wait_for_batch(struct tutti_reader *reader, uint64_t number, struct tutti_err *err)
{
    double begin_s = now_s();
    double limit_s = begin_s + reader->ask.deadline_s;
    struct timespec limit = {.tv_sec = (time_t)limit_s};
    int late = 0;

    limit.tv_nsec = (long)((limit_s - (double)limit.tv_sec) * 1e9);
    if (reader->read_count > number)
        return 0;
    while (late == 0 && reader->read_count <= number && reader->status == 0)
        late = pthread_cond_timedwait(&reader->changed, &reader->lock, &limit);
    reader->stats.wait_count++;
    reader->stats.waited_s += now_s() - begin_s;
    if (reader->read_count > number)
        return 0;
    if (reader->status < 0) {
        if (err != NULL)
            *err = reader->err;
        return reader->status;
    }
    return tutti_fail(err, TUTTI_ETIME,
                      "no batch within %g s: still reading number %llu since the start",
                      reader->ask.deadline_s, (unsigned long long)number);
}

/* Without a thread: reads batch number `number` now, unless reading has failed before. */
static void read_here(struct tutti_reader *reader, uint64_t number)
{
    double begin_s = now_s();

    if (reader->status == 0)
        (void)read_one(reader, number);
    reader->stats.wait_count++;
    reader->stats.waited_s += now_s() - begin_s;
}

int tutti_reader_next(struct tutti_reader *reader, const struct tutti_batch **ret,
                      struct tutti_err *err)
{
    uint64_t number = reader->taken_count; /* which no other thread changes */
    struct slot *slot = &reader->slots[number % (reader->ask.depth + 1)];
    int status;

    if (reader->ask.step_limit > 0 && number >= reader->ask.step_limit) {
        *ret = NULL;
        return 0;
    }
    if (reader->ask.depth == 0)
        read_here(reader, number);
    pthread_mutex_lock(&reader->lock);
    status = wait_for_batch(reader, number, err);
    if (status == 0) {
        reader->taken_count++;
        reader->stats.batch_count++;
        reader->stats.example_count += slot->batch.count;
        pthread_cond_broadcast(&reader->changed);
    }
    pthread_mutex_unlock(&reader->lock);
    if (status == 0)
        *ret = &slot->batch;
    return status;
}

struct tutti_reader_stats tutti_reader_stats(struct tutti_reader *reader)
{
    struct tutti_reader_stats stats;

    pthread_mutex_lock(&reader->lock);
    stats = reader->stats;
    pthread_mutex_unlock(&reader->lock);
    return stats;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int slots_take(struct tutti_reader *reader, struct tutti_err *err)
{
    const struct tutti_feed_ask *feed = &reader->ask.feed.ask;
    bool is_class = reader->ask.set->class_count > 0;
    size_t most = (size_t)((feed->global_batch - 1) / feed->rank_count + 1);

    if (most > UINT32_MAX || reader->input_count > SIZE_MAX / sizeof(float) / most)
        return tutti_fail(err, TUTTI_EINVAL, "a batch of %zu examples a rank is too large", most);
    reader->slots =
        tutti_arena_take(reader->arena, reader->ask.depth + UINT64_C(1), sizeof(reader->slots[0]));
    for (uint64_t i = 0; reader->slots != NULL && i <= reader->ask.depth; i++) {
        struct slot *slot = &reader->slots[i];
        size_t input_count = most * (size_t)reader->input_count;

        slot->inputs = tutti_arena_take(reader->arena, input_count, sizeof(float));
        slot->examples = tutti_arena_take(reader->arena, most, sizeof(slot->examples[0]));
        if (is_class)
            slot->labels = tutti_arena_take(reader->arena, most, sizeof(slot->labels[0]));
        else
            slot->targets = tutti_arena_take(reader->arena, most, sizeof(slot->targets[0]));
        if (slot->inputs == NULL || slot->examples == NULL ||
            (slot->labels == NULL && slot->targets == NULL))
            return tutti_nomem(err);
        slot->batch.inputs = slot->inputs;
        slot->batch.labels = slot->labels;
        slot->batch.targets = slot->targets;
        slot->batch.examples = slot->examples;
    }
    return reader->slots == NULL ? tutti_nomem(err) : 0;
}

/* The lock, and a condition on the clock that goes on. */
static int lock_open(struct tutti_reader *reader)
{
    pthread_condattr_t attr;
    int code = pthread_mutex_init(&reader->lock, NULL);

    if (code != 0)
        return code;
    code = pthread_condattr_init(&attr);
    if (code == 0) {
        (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        code = pthread_cond_init(&reader->changed, &attr);
        (void)pthread_condattr_destroy(&attr);
    }
    if (code != 0)
        pthread_mutex_destroy(&reader->lock);
    return code;
}

/* Signals are others' business: the thread lets none be delivered to it. */
static int thread_start(struct tutti_reader *reader)
{
    sigset_t all, old;
    int code;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    code = pthread_create(&reader->thread, NULL, read_ahead, reader);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return code;
}

static int reader_start(struct tutti_reader *reader, struct tutti_err *err)
{
    int code = lock_open(reader);

    if (code == 0 && reader->ask.depth > 0) {
        code = thread_start(reader);
        if (code != 0) {
            pthread_cond_destroy(&reader->changed);
            pthread_mutex_destroy(&reader->lock);
        }
    }
    if (code != 0)
        return tutti_fail(err, TUTTI_EIO, "cannot start a thread that reads ahead: %s",
                          strerror(code));
    return 0;
}

int tutti_reader_open(const struct tutti_reader_ask *ask, struct tutti_reader **ret,
                      struct tutti_err *err)
{
    struct tutti_arena *arena;
    struct tutti_reader *reader;
    int status = tutti_feed_check(&ask->feed, ask->first, err);

    if (status < 0)
        return status;
    arena = tutti_arena_new();
    reader = arena == NULL ? NULL : tutti_arena_take(arena, 1, sizeof(*reader));
    if (reader == NULL) {
        tutti_arena_free(arena);
        return tutti_nomem(err);
    }
    reader->ask = *ask;
    reader->arena = arena;
    reader->position = ask->first;
    reader->input_count = tutti_dataset_input_count(ask->set);
    if (!(ask->deadline_s > 0))
        reader->ask.deadline_s = DEADLINE_STANDARD_S;
    status = slots_take(reader, err);
    if (status == 0)
        status = reader_start(reader, err);
    if (status < 0) {
        tutti_arena_free(arena);
        return status;
    }
    *ret = reader;
    return 0;
}

void tutti_reader_close(struct tutti_reader *reader)
{
    if (reader == NULL)
        return;
    if (reader->ask.depth > 0) {
        pthread_mutex_lock(&reader->lock);
        reader->stop = true;
        pthread_cond_broadcast(&reader->changed);
        pthread_mutex_unlock(&reader->lock);
        (void)pthread_join(reader->thread, NULL);
    }
    pthread_cond_destroy(&reader->changed);
    pthread_mutex_destroy(&reader->lock);
    tutti_arena_free(reader->arena);
}
