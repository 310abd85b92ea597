/* A training loop of the user's own: a thread a replica, whose all-reduces the calling thread plays
 * as one schedule, once all replicas of the process have come. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/backend.h"
#include "runtime/coll.h"
#include "runtime/schedule.h"
#include "runtime/shape.h"
#include "runtime/status.h"
#include "runtime/train/replicas.h"

enum state { RUNS, WAITS, HAS_ENDED };

/* What is reduced: all replicas ask for the same. */
struct ask {
    enum tutti_op op;
    enum tutti_dtype dtype;
    size_t count;
};

struct loop;

struct tutti_replica_seat {
    struct loop *loop;
    struct tutti_replica_context context;
    pthread_t thread;
    bool has_thread;
    enum state state;
    struct ask ask; /* while it waits */
    void *values;   /* likewise */
    int status;     /* once it has ended */
    struct tutti_err err;
};

struct loop {
    struct tutti_replicas *replicas;
    int (*run)(struct tutti_replica_context *replica, void *context, struct tutti_err *err);
    void *context;
    struct tutti_replica_seat *seats; /* [own_count] */
    pthread_mutex_t lock;             /* guards states, asks, and all below */
    pthread_cond_t changed;
    uint64_t round; /* all-reduces done */
    int status;     /* < 0: of an all-reduce, or of the first replica that failed; it is the last */
    struct tutti_err err;
    /* The schedule of the last ask, kept open: the calling thread's alone. */
    struct ask open;
    struct tutti_schedule *schedule;
    struct tutti_run *backend_run;
    void **in; /* [replica], NULL but for those of this process */
    void **out;
};

/* ---- one all-reduce -------------------------------------------------------------------------- */

static void close_run(struct loop *l)
{
    tutti_run_close(l->backend_run);
    tutti_schedule_free(l->schedule);
    for (uint32_t i = 0; i < l->replicas->count; i++) {
        free(l->in[i]);
        free(l->out[i]);
        l->in[i] = l->out[i] = NULL;
    }
    l->backend_run = NULL;
    l->schedule = NULL;
    l->open = (struct ask){.count = 0};
}

static int open_run(struct loop *l, const struct ask *ask, struct tutti_err *err)
{
    const struct tutti_replicas *r = l->replicas;
    const struct tutti_shape shape = tutti_shape_flat(r->count);
    const struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = ask->dtype, .op = ask->op, .count = ask->count};
    struct tutti_play play = {.size = sizeof(play),
                              .in = (const void *const *)l->in,
                              .out = l->out,
                              .iteration_count = 1,
                              .deadline_ps = r->params.deadline_ps};
    char text[128];
    int status = 0;

    close_run(l);
    (void)snprintf(text, sizeof(text), "%s of %zu %s", tutti_op_name(ask->op), ask->count,
                   tutti_dtype_name(ask->dtype));
    if (r->group != NULL)
        status = tutti_group_same(r->group, "the all-reduce", text, r->params.deadline_ps, err);
    for (uint32_t i = r->first; i < r->first + r->own_count && status == 0; i++) {
        l->in[i] = calloc(ask->count, tutti_dtype_bytes(ask->dtype));
        l->out[i] = calloc(ask->count, tutti_dtype_bytes(ask->dtype));
        if (l->in[i] == NULL || l->out[i] == NULL)
            status = tutti_nomem(err);
    }
    if (status == 0)
        status = tutti_coll_generate("ring", &params, &shape, &l->schedule, err);
    play.schedule = l->schedule;
    if (status == 0)
        status = tutti_run_open(r->backend, &play, &l->backend_run, err);
    if (status == 0)
        l->open = *ask;
    return status;
}

static bool is_same(const struct ask *a, const struct ask *b)
{
    return a->op == b->op && a->dtype == b->dtype && a->count == b->count;
}

/* The replicas of this process have all come. */
static int reduce(struct loop *l, struct tutti_err *err)
{
    const struct tutti_replicas *r = l->replicas;
    const struct ask *ask = &l->seats[0].ask;
    const size_t bytes = ask->count * tutti_dtype_bytes(ask->dtype);
    struct tutti_played played;
    int status = 0;

    for (uint32_t i = 1; i < r->own_count; i++)
        if (!is_same(&l->seats[i].ask, ask))
            return tutti_fail(err, TUTTI_EINVAL,
                              "replica %u asks for an all-reduce of '%zu' %s, replica %u of %zu %s "
                              "(all for the same)",
                              r->first + i, l->seats[i].ask.count,
                              tutti_dtype_name(l->seats[i].ask.dtype), r->first, ask->count,
                              tutti_dtype_name(ask->dtype));
    if (bytes == 0 || r->count == 1)
        return 0;
    if (l->backend_run == NULL || !is_same(&l->open, ask))
        status = open_run(l, ask, err);
    if (status < 0)
        return status;
    for (uint32_t i = 0; i < r->own_count; i++)
        memcpy(l->in[r->first + i], l->seats[i].values, bytes);
    status = tutti_run_step(l->backend_run, 1, &played, err);
    for (uint32_t i = 0; i < r->own_count && status >= 0; i++)
        memcpy(l->seats[i].values, l->out[r->first + i], bytes);
    return status < 0 ? status : 0;
}

int tutti_replica_all_reduce(struct tutti_replica_context *replica, enum tutti_op op,
                             enum tutti_dtype dtype, void *values, size_t count,
                             struct tutti_err *err)
{
    struct tutti_replica_seat *seat = replica->seat;
    struct loop *l = seat->loop;
    uint64_t round;
    int status;

    if ((unsigned)op >= TUTTI_OP_COUNT || (unsigned)dtype >= TUTTI_DTYPE_COUNT)
        return tutti_fail(err, TUTTI_EINVAL, "an all-reduce of operator '%d' and type '%d'",
                          (int)op, (int)dtype);
    seat->ask = (struct ask){.op = op, .dtype = dtype, .count = count};
    seat->values = values;
    if (!seat->has_thread) { /* one replica in this process: its thread is the one that plays */
        status = l->status < 0 ? l->status : reduce(l, &l->err);
        l->status = status;
        if (status < 0 && err != NULL)
            *err = l->err;
        return status;
    }
    (void)pthread_mutex_lock(&l->lock);
    round = l->round;
    seat->state = WAITS;
    (void)pthread_cond_broadcast(&l->changed);
    while (l->round == round && l->status == 0)
        (void)pthread_cond_wait(&l->changed, &l->lock);
    seat->state = RUNS;
    status = l->round == round ? l->status : 0;
    if (status < 0 && err != NULL)
        *err = l->err;
    (void)pthread_mutex_unlock(&l->lock);
    return status;
}

/* ---- threads --------------------------------------------------------------------------------- */

static void *run_seat(void *context)
{
    struct tutti_replica_seat *seat = context;
    struct loop *l = seat->loop;
    int status = l->run(&seat->context, l->context, &seat->err);

    (void)pthread_mutex_lock(&l->lock);
    seat->state = HAS_ENDED;
    seat->status = status < 0 ? status : 0;
    if (status < 0 && l->status == 0) {
        l->status = status;
        l->err = seat->err;
    }
    (void)pthread_cond_broadcast(&l->changed);
    (void)pthread_mutex_unlock(&l->lock);
    return NULL;
}

static uint32_t count_of(const struct loop *l, enum state state)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < l->replicas->own_count; i++)
        count += l->seats[i].state == state;
    return count;
}

/* Plays what the replicas ask for until all have ended; `lock` is held, but not while it plays. */
static void attend(struct loop *l)
{
    const uint32_t own_count = l->replicas->own_count;
    uint32_t waits, ended;

    while ((ended = count_of(l, HAS_ENDED)) < own_count) {
        struct tutti_err err = {.text = ""};
        int status;

        waits = count_of(l, WAITS);
        if (waits + ended < own_count || l->status < 0) {
            (void)pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        if (ended > 0) {
            status = tutti_fail(&err, TUTTI_EINVAL,
                                "%u of %u replicas wait in an all-reduce, the others have ended "
                                "(all make the same calls)",
                                waits, own_count);
        } else {
            (void)pthread_mutex_unlock(&l->lock);
            status = reduce(l, &err);
            (void)pthread_mutex_lock(&l->lock);
        }
        if (status < 0) {
            l->status = status;
            l->err = err;
        } else {
            l->round++;
            for (uint32_t i = 0; i < own_count; i++)
                l->seats[i].state = RUNS;
        }
        (void)pthread_cond_broadcast(&l->changed);
    }
}

static void run_threads(struct loop *l)
{
    const uint32_t own_count = l->replicas->own_count;

    (void)pthread_mutex_lock(&l->lock);
    for (uint32_t i = 0; i < own_count; i++) {
        struct tutti_replica_seat *seat = &l->seats[i];
        int error;

        seat->has_thread = true;
        error = l->status < 0 ? 0 : pthread_create(&seat->thread, NULL, run_seat, seat);
        if (error != 0)
            l->status =
                tutti_fail(&l->err, TUTTI_EIO, "cannot start a thread: %s", strerror(error));
        if (l->status < 0) {
            seat->has_thread = false;
            seat->state = HAS_ENDED;
        }
    }
    (void)pthread_cond_broadcast(&l->changed);
    attend(l);
    (void)pthread_mutex_unlock(&l->lock);
    for (uint32_t i = 0; i < own_count; i++)
        if (l->seats[i].has_thread)
            (void)pthread_join(l->seats[i].thread, NULL);
}

/* All processes learn how it ended. */
static int end(struct loop *l, struct tutti_err *err)
{
    struct tutti_group *group = l->replicas->group;

    if (l->status < 0 && err != NULL)
        *err = l->err;
    if (group == NULL)
        return l->status;
    if (l->status < 0) {
        tutti_group_stop(group, l->status, &l->err);
        return l->status;
    }
    return tutti_group_agree(group, 0, l->replicas->params.deadline_ps, err);
}

int tutti_replicas_run(struct tutti_replicas *replicas,
                       int (*run)(struct tutti_replica_context *replica, void *context,
                                  struct tutti_err *err),
                       void *context, struct tutti_err *err)
{
    struct loop l = {.replicas = replicas, .run = run, .context = context};
    int status;

    if (replicas->cluster != NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "a loop of one's own by parameter servers: its replicas are in step, and "
                          "workers are not (tutti_replicas_train)");
    l.seats = calloc(replicas->own_count, sizeof(l.seats[0]));
    l.in = calloc(replicas->count, sizeof(l.in[0]));
    l.out = calloc(replicas->count, sizeof(l.out[0]));
    (void)pthread_mutex_init(&l.lock, NULL);
    (void)pthread_cond_init(&l.changed, NULL);
    if (l.seats == NULL || l.in == NULL || l.out == NULL)
        l.status = tutti_nomem(&l.err);
    for (uint32_t i = 0; l.status == 0 && i < replicas->own_count; i++) {
        struct tutti_replica_seat *seat = &l.seats[i];

        seat->loop = &l;
        seat->context = (struct tutti_replica_context){.replica_id = replicas->first + i,
                                                       .num_replicas_in_sync = replicas->count,
                                                       .seat = seat};
    }
    if (l.status == 0 && replicas->own_count == 1)
        (void)run_seat(&l.seats[0]);
    else if (l.status == 0)
        run_threads(&l);
    if (l.in != NULL && l.out != NULL)
        close_run(&l);
    status = end(&l, err);
    (void)pthread_cond_destroy(&l.changed);
    (void)pthread_mutex_destroy(&l.lock);
    free(l.seats);
    free(l.in);
    free(l.out);
    return status;
}
