/* Does the works of COMPUTE steps beside the threads of the ranks; see work_threads.h. */
#include "runtime/exec/host/work_threads.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/host/wait_set.h"

struct tutti_work_thread {
    _Alignas(TUTTI_CACHE_LINE) pthread_mutex_t lock; /* guards all up to `closing` */
    pthread_cond_t posted;                           /* the thread waits for work, */
    pthread_cond_t rested;                           /* others for the end of `running` */
    struct tutti_posted_work *first;
    struct tutti_posted_work *last;
    struct tutti_posted_work *running; /* until its rank has been woken */
    bool closing;
    struct tutti_work_threads *threads;
    uint32_t worker_index; /* of the first rank that it serves */
    bool has_locks;
    bool has_thread;
    pthread_t thread;
};

struct tutti_work_threads {
    struct tutti_work_threads_opts opts;
    struct tutti_work_thread *threads; /* [thread_count] */
    uint32_t thread_count;
    struct tutti_rank_work *ranks;  /* [own]; without a thread: its works are done elsewhere */
    struct tutti_posted_work *jobs; /* backs those of all ranks */
    tutti_ps *took_ps;              /* likewise */
};

/* ---- the threads ----------------------------------------------------------------------------- */

static void perform(struct tutti_work_thread *thread, struct tutti_posted_work *job)
{
    struct tutti_wait_set *wait_set = thread->threads->opts.wait_set;
    struct tutti_rank_work *rank_work = job->rank_work;
    bool wakes = job->wakes; /* once it has ended, the job is the rank's again */

    if (rank_work->failed) /* the play ends with what that one said */
        return;
    job->start_ps = tutti_wait_set_now(wait_set);
    job->status = job->call.work->run(&job->call, &rank_work->err);
    job->end_ps = tutti_wait_set_now(wait_set);
    rank_work->failed = job->status < 0;
    atomic_store(&job->ended, true);
    if (wakes || atomic_load(&job->awaited))
        tutti_wait_set_wake(wait_set, rank_work->worker_index);
}

/* Where the ranks have processors of their own, on one that is nobody's; if there is none, on any
 * but that of the rank. */
static void pin(const struct tutti_work_thread *thread)
{
    const struct tutti_work_threads_opts *opts = &thread->threads->opts;
    uint32_t processor_count = (uint32_t)CPU_COUNT(opts->processors);
    uint32_t own = (opts->pinned_before + thread->worker_index - opts->first_rank) %
                   (processor_count > 0 ? processor_count : 1);
    uint32_t number = 0;
    cpu_set_t mine;

    if (!opts->pins || processor_count < 2)
        return;
    CPU_ZERO(&mine);
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, opts->processors))
            continue;
        if (opts->pinned_count < processor_count ? number >= opts->pinned_count : number != own)
            CPU_SET(i, &mine);
        number++;
    }
    (void)pthread_setaffinity_np(pthread_self(), sizeof(mine), &mine); /* best effort */
}

static void *run_work_thread(void *data)
{
    struct tutti_work_thread *thread = data;

    pin(thread);
    pthread_mutex_lock(&thread->lock);
    while (!thread->closing) {
        struct tutti_posted_work *job = thread->first;

        if (job == NULL) {
            pthread_cond_wait(&thread->posted, &thread->lock);
            continue;
        }
        thread->first = job->next;
        thread->running = job;
        pthread_mutex_unlock(&thread->lock);
        perform(thread, job);
        pthread_mutex_lock(&thread->lock);
        thread->running = NULL;
        pthread_cond_broadcast(&thread->rested);
    }
    pthread_mutex_unlock(&thread->lock);
    return NULL;
}

int tutti_work_threads_start(struct tutti_work_threads *threads, struct tutti_err *err)
{
    for (uint32_t i = 0; threads != NULL && i < threads->thread_count; i++) {
        struct tutti_work_thread *thread = &threads->threads[i];
        int status = pthread_create(&thread->thread, NULL, run_work_thread, thread);

        thread->has_thread = status == 0;
        if (status != 0)
            return tutti_fail(err, TUTTI_EIO, "cannot start work thread %u of %u: %s", i,
                              threads->thread_count, strerror(status));
    }
    return 0;
}

void tutti_work_threads_join(struct tutti_work_threads *threads)
{
    for (uint32_t i = 0; threads != NULL && i < threads->thread_count; i++) {
        struct tutti_work_thread *thread = &threads->threads[i];

        if (!thread->has_thread)
            continue;
        pthread_mutex_lock(&thread->lock);
        thread->closing = true;
        pthread_cond_signal(&thread->posted);
        pthread_mutex_unlock(&thread->lock);
        pthread_join(thread->thread, NULL);
        thread->has_thread = false;
    }
}

/* ---- in the rank's thread -------------------------------------------------------------------- */

void tutti_rank_work_post(struct tutti_rank_work *rank_work, uint32_t lane, bool wakes)
{
    struct tutti_work_thread *thread = rank_work->thread;
    struct tutti_posted_work *job = &rank_work->jobs[lane];

    job->rank_work = rank_work;
    job->next = NULL;
    job->wakes = wakes;
    atomic_store(&job->awaited, false);
    atomic_store(&job->ended, false);
    job->posted_ps = tutti_wait_set_now(thread->threads->opts.wait_set);
    rank_work->job_count++;
    pthread_mutex_lock(&thread->lock);
    if (thread->first == NULL)
        thread->first = job;
    else
        thread->last->next = job;
    thread->last = job;
    pthread_mutex_unlock(&thread->lock);
    pthread_cond_signal(&thread->posted);
}

bool tutti_rank_work_await(struct tutti_rank_work *rank_work, uint32_t lane)
{
    atomic_store(&rank_work->jobs[lane].awaited, true);
    return !atomic_load(&rank_work->jobs[lane].ended);
}

void tutti_rank_work_take(struct tutti_rank_work *rank_work, uint32_t lane)
{
    struct tutti_work_thread *thread = rank_work->thread;
    struct tutti_posted_work *job = &rank_work->jobs[lane];

    assert(atomic_load(&job->ended) && rank_work->job_count > 0);
    rank_work->job_count--;
    if (job->wakes || !atomic_load(&job->awaited))
        return;
    pthread_mutex_lock(&thread->lock);
    while (thread->running == job)
        pthread_cond_wait(&thread->rested, &thread->lock);
    pthread_mutex_unlock(&thread->lock);
}

void tutti_rank_work_withdraw(struct tutti_rank_work *rank_work)
{
    struct tutti_work_thread *thread;
    struct tutti_posted_work **link;

    if (rank_work == NULL || rank_work->job_count == 0)
        return;
    thread = rank_work->thread;
    pthread_mutex_lock(&thread->lock);
    thread->last = NULL;
    link = &thread->first;
    while (*link != NULL) {
        if ((*link)->rank_work == rank_work) {
            *link = (*link)->next;
        } else {
            thread->last = *link;
            link = &(*link)->next;
        }
    }
    while (thread->running != NULL && thread->running->rank_work == rank_work)
        pthread_cond_wait(&thread->rested, &thread->lock);
    pthread_mutex_unlock(&thread->lock);
    rank_work->job_count = 0;
}

/* ---- open and close -------------------------------------------------------------------------- */

/* What a lane of a rank has. */
static void look_at_lane(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                         bool *ret_works, bool *ret_messages)
{
    struct tutti_cursor cursor;
    const struct tutti_step *step;

    *ret_works = false;
    *ret_messages = false;
    tutti_cursor_open(&cursor, schedule, rank, lane);
    while ((step = tutti_cursor_next(&cursor)) != NULL && !(*ret_works && *ret_messages)) {
        if (step->kind == TUTTI_COMPUTE)
            *ret_works |= step->peer > 0 && schedule->work[step->peer - 1].run != NULL;
        *ret_messages |= step->kind == TUTTI_SEND || step->kind == TUTTI_RECV;
    }
}

/* Whether works of the rank can be done beside something else. */
static bool pays(const struct tutti_work_threads_opts *opts, uint32_t rank)
{
    uint32_t work_count = 0;    /* lanes */
    uint32_t message_count = 0; /* lanes */
    bool apart = false;         /* a lane has one of the two alone */

    for (uint32_t lane = 0; lane < opts->schedule->lane_count; lane++) {
        bool works;
        bool messages;

        look_at_lane(opts->schedule, rank, lane, &works, &messages);
        work_count += works;
        message_count += messages;
        apart = apart || works != messages;
    }
    if (work_count == 0 || opts->worker_of != NULL)
        return work_count > 0;
    return message_count > 0 && (opts->remote || apart || work_count > 1);
}

static bool has_work(const struct tutti_schedule *schedule)
{
    for (uint32_t i = 0; i < schedule->work_count; i++) {
        if (schedule->work[i].run != NULL)
            return true;
    }
    return false;
}

static int open_thread(struct tutti_work_threads *threads, uint32_t number, struct tutti_err *err)
{
    struct tutti_work_thread *thread = &threads->threads[number];
    int status = pthread_mutex_init(&thread->lock, NULL);

    if (status == 0 && (status = pthread_cond_init(&thread->posted, NULL)) != 0)
        pthread_mutex_destroy(&thread->lock);
    if (status == 0 && (status = pthread_cond_init(&thread->rested, NULL)) != 0) {
        pthread_cond_destroy(&thread->posted);
        pthread_mutex_destroy(&thread->lock);
    }
    if (status != 0)
        return tutti_fail(err, TUTTI_EIO, "cannot make a lock for work thread %u", number);
    thread->has_locks = true;
    thread->threads = threads;
    return 0;
}

/* The ranks that have works, in turn on so many threads. */
static int take(struct tutti_work_threads *threads, uint32_t rank_count, struct tutti_err *err)
{
    const struct tutti_work_threads_opts *opts = &threads->opts;
    const struct tutti_schedule *schedule = opts->schedule;
    uint32_t next = 0;
    int status = 0;
    uint32_t thread_count = rank_count < opts->thread_max ? rank_count : opts->thread_max;

    threads->threads = tutti_lines_alloc(thread_count, sizeof(threads->threads[0]));
    threads->jobs = calloc((size_t)rank_count * schedule->lane_count, sizeof(threads->jobs[0]));
    threads->took_ps =
        calloc((size_t)rank_count * schedule->work_count, sizeof(threads->took_ps[0]));
    if (threads->threads == NULL || threads->jobs == NULL || threads->took_ps == NULL)
        return tutti_nomem(err);
    threads->thread_count = thread_count;
    for (uint32_t i = 0; i < thread_count && status == 0; i++)
        status = open_thread(threads, i, err);
    for (uint32_t own = 0; own < opts->own_count && status == 0; own++) {
        struct tutti_rank_work *rank_work = &threads->ranks[own];

        if (!rank_work->served)
            continue;
        rank_work->thread = &threads->threads[next % thread_count];
        rank_work->worker_index =
            opts->worker_of != NULL ? opts->worker_of[own] : opts->first_rank + own;
        if (next < thread_count)
            rank_work->thread->worker_index = rank_work->worker_index;
        rank_work->jobs = &threads->jobs[(size_t)next * schedule->lane_count];
        rank_work->took_ps = &threads->took_ps[(size_t)next * schedule->work_count];
        rank_work->crowded =
            opts->pinned_count + thread_count > (uint32_t)CPU_COUNT(opts->processors);
        next++;
    }
    return status;
}

int tutti_work_threads_open(const struct tutti_work_threads_opts *opts,
                            struct tutti_work_threads **ret, struct tutti_err *err)
{
    struct tutti_work_threads *threads;
    uint32_t rank_count = 0;
    int status;

    assert(opts->thread_max > 0);
    if (!has_work(opts->schedule))
        return 0;
    threads = calloc(1, sizeof(*threads));
    if (threads == NULL)
        return tutti_nomem(err);
    threads->opts = *opts;
    threads->ranks = calloc((size_t)opts->own_count + 1, sizeof(threads->ranks[0]));
    if (threads->ranks == NULL) {
        tutti_work_threads_close(threads);
        return tutti_nomem(err);
    }
    for (uint32_t own = 0; own < opts->own_count; own++) {
        threads->ranks[own].served = pays(opts, opts->first_rank + own);
        rank_count += threads->ranks[own].served;
    }
    status = rank_count > 0 ? take(threads, rank_count, err) : 0;
    if (status < 0 || rank_count == 0) {
        tutti_work_threads_close(threads);
        return status;
    }
    *ret = threads;
    return 0;
}

void tutti_work_threads_close(struct tutti_work_threads *threads)
{
    if (threads == NULL)
        return;
    tutti_work_threads_join(threads);
    for (uint32_t i = 0; i < threads->thread_count; i++) {
        struct tutti_work_thread *thread = &threads->threads[i];

        if (!thread->has_locks)
            continue;
        pthread_cond_destroy(&thread->rested);
        pthread_cond_destroy(&thread->posted);
        pthread_mutex_destroy(&thread->lock);
    }
    free(threads->threads);
    free(threads->ranks);
    free(threads->jobs);
    free(threads->took_ps);
    free(threads);
}

struct tutti_rank_work *tutti_work_threads_of(struct tutti_work_threads *threads, uint32_t own)
{
    return threads != NULL && threads->ranks[own].served ? &threads->ranks[own] : NULL;
}
