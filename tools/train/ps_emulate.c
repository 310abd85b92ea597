/* Servers at another machine's pace; see ps_emulate.h. */
#include "tools/train/ps_emulate.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "runtime/status.h"
#include "tools/cli/machine.h"
#include "tools/train/emulate.h"
#include "tools/train/real.h"
#include "topo/topo.h"

/* Steps take at least so long here, so that what processes have to tell each other fits in. */
static const double STEP_S_MIN = 0.1;

enum { PACER_BYTES_MAX = 1 << 22, SCALE_MAX = 1000000 };

struct tutti_train_ps_shared {
    pthread_mutex_t lock;              /* of the pacer and of `began` */
    struct tutti_servers_pacer *pacer; /* NULL: nobody has made it yet */
    int64_t began_ns;
    _Alignas(16) char memory[PACER_BYTES_MAX]; /* touched where it is used alone */
};

/* ---- opening --------------------------------------------------------------------------------- */

static int open_shared(struct tutti_train_ps_emulation *e, struct tutti_err *err)
{
    pthread_mutexattr_t attributes;
    void *memory =
        mmap(NULL, sizeof(*e->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status;

    if (memory == MAP_FAILED)
        return tutti_nomem(err);
    e->shared = memory;
    status = pthread_mutexattr_init(&attributes);
    if (status == 0)
        status = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    if (status == 0)
        status = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    if (status == 0)
        status = pthread_mutex_init(&e->shared->lock, &attributes);
    return status == 0
               ? 0
               : tutti_fail(err, TUTTI_EIO, "no lock between processes: %s", strerror(status));
}

static int read_scale(const char *text, struct tutti_train_ps_emulation *e, struct tutti_err *err)
{
    char *end = NULL;
    unsigned long scale;

    e->automatic = text == NULL || strcmp(text, "auto") == 0;
    if (e->automatic)
        return 0;
    scale = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || scale == 0 || scale > SCALE_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "option '--scale': '%.40s' (auto, or 1 to %d)", text,
                          SCALE_MAX);
    e->scale = scale;
    return 0;
}

int tutti_train_ps_emulation_open(const struct tutti_args *args,
                                  struct tutti_train_ps_emulation *ret, struct tutti_err *err)
{
    int status;

    *ret = (struct tutti_train_ps_emulation){.topo = NULL};
    if (!tutti_args_given(args, "emulate"))
        return 0;
    if (!tutti_args_given(args, "launch"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--emulate' of servers that are not started here ('--launch "
                          "ps=N,worker=M')");
    status = read_scale(tutti_args_text(args, "scale"), ret, err);
    if (status == 0)
        status = tutti_machine_load(tutti_args_text(args, "emulate"),
                                    (uint32_t)tutti_args_number(args, "nodes"), &ret->topo, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--emulate'");
    status = tutti_train_slow_read(args, &ret->slow, err);
    return status < 0 ? status : open_shared(ret, err);
}

void tutti_train_ps_emulation_close(struct tutti_train_ps_emulation *e)
{
    tutti_topo_free(e->topo);
    if (e->shared != NULL)
        (void)munmap(e->shared, sizeof(*e->shared));
    *e = (struct tutti_train_ps_emulation){.topo = NULL};
}

/* ---- the pace -------------------------------------------------------------------------------- */

static int64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Whose process has ended while it held the lock has left the pacer as it may be: between two calls
 * of it, or in one, after which a transfer may be too long. */
static void lock(struct tutti_train_ps_shared *shared)
{
    if (pthread_mutex_lock(&shared->lock) == EOWNERDEAD)
        (void)pthread_mutex_consistent(&shared->lock);
}

/* That machine's clock; with the lock held, so that it never runs back. */
static tutti_ps now_ps(const struct tutti_train_ps_emulation *e)
{
    return (now_ns() - e->shared->began_ns) * 1000 / (tutti_ps)e->scale;
}

static void begin(void *context, enum tutti_servers_doing doing)
{
    const struct tutti_train_ps_emulation *e = context;
    const enum tutti_servers_pace pace = doing == TUTTI_SERVERS_PULLS      ? TUTTI_PACE_PULL
                                         : doing == TUTTI_SERVERS_COMPUTES ? TUTTI_PACE_COMPUTE
                                                                           : TUTTI_PACE_PUSH;

    lock(e->shared);
    tutti_servers_pacer_begin(e->shared->pacer, e->worker, pace, now_ps(e));
    (void)pthread_mutex_unlock(&e->shared->lock);
}

static tutti_ps left(void *context)
{
    const struct tutti_train_ps_emulation *e = context;
    tutti_ps left_ps;

    lock(e->shared);
    left_ps = tutti_servers_pacer_left(e->shared->pacer, e->worker, now_ps(e));
    (void)pthread_mutex_unlock(&e->shared->lock);
    return left_ps * (tutti_ps)e->scale;
}

static void stop(void *context)
{
    const struct tutti_train_ps_emulation *e = context;

    lock(e->shared);
    tutti_servers_pacer_stop(e->shared->pacer, e->worker, now_ps(e));
    (void)pthread_mutex_unlock(&e->shared->lock);
}

/* ---- what is simulated ----------------------------------------------------------------------- */

/* The first process to come makes the pacer. */
static int make_pacer(void *context, const struct tutti_servers_opts *opts, struct tutti_err *err)
{
    const struct tutti_train_ps_emulation *e = context;
    struct tutti_train_ps_shared *shared = e->shared;
    int status = 0;

    if (tutti_servers_pacer_bytes(opts) > PACER_BYTES_MAX)
        return tutti_fail(err, TUTTI_ELACK, "'%u' workers and %u servers are too many to emulate",
                          opts->params.member_count, opts->server_count);
    lock(shared);
    if (shared->pacer == NULL) {
        status = tutti_servers_pacer_init(shared->memory, opts, &shared->pacer, err);
        shared->began_ns = now_ns();
    }
    (void)pthread_mutex_unlock(&shared->lock);
    return status;
}

static struct tutti_train_servers_ask question(const struct tutti_args *args,
                                               const struct tutti_servers_params *p,
                                               struct tutti_train_ps_emulation *e)
{
    return (struct tutti_train_servers_ask){
        .size = sizeof(struct tutti_train_servers_ask),
        .worker_count = p->worker_count,
        .server_count = p->server_count,
        .apart = tutti_args_is(args, "server-hosts", "apart"),
        .synchronous = p->synchronous,
        .aggregate = p->aggregate,
        .late = p->late,
        .placement = p->placement,
        .partition = p->partition,
        .card_bytes_per_s =
            tutti_args_given(args, "card-rate") ? tutti_args_number(args, "card-rate") : 0,
        .apply_bytes_per_s =
            tutti_args_given(args, "apply-rate") ? tutti_args_number(args, "apply-rate") : 0,
        .jitter = tutti_args_real(args, "spread"),
        .seed = tutti_args_number(args, "seed"),
        .show = make_pacer,
        .show_context = e,
    };
}

static int ask(const struct tutti_args *args, struct tutti_train_ps_emulation *e,
               const struct tutti_train_real *real, const struct tutti_servers_params *params,
               struct tutti_err *err)
{
    const uint32_t devices = e->topo->rank_count / params->worker_count;
    const uint64_t pieces = (uint64_t)(devices > 0 ? devices : 1) * params->micro_batches;
    struct tutti_train_servers_ask servers = question(args, params, e);
    struct tutti_train_ask train = {.size = sizeof(train),
                                    .topo = e->topo,
                                    .model = real->model,
                                    .strategy = &real->strategy,
                                    .micro_batches = params->micro_batches,
                                    .prefetch = 1};
    uint32_t *paces = NULL;
    int status = tutti_train_emulation_device(args, &train.use, err);

    train.use.batch = (uint32_t)((real->data.global_batch + pieces - 1) / pieces);
    if (train.use.framework == NULL && status == 0)
        status = tutti_framework_find(real->strategy.framework, &train.use.framework, err);
    if (status == 0)
        status = tutti_train_slow_paces(&e->slow, e->topo->rank_count, &paces, err);
    train.pace_ppm = paces;
    servers.train = &train;
    if (status == 0)
        status = tutti_train_servers_predict(&servers, &e->predicted, err);
    free(paces);
    return status < 0 ? tutti_wrap(err, status, "option '--emulate'") : 0;
}

static double predicted_s(const struct tutti_train_ps_emulation *e)
{
    return e->predicted.updates_per_s > 0 ? 1 / e->predicted.updates_per_s : 0;
}

int tutti_train_ps_emulation_begin(const struct tutti_args *args,
                                   struct tutti_train_ps_emulation *e,
                                   const struct tutti_train_real *real,
                                   struct tutti_servers_params *params, struct tutti_err *err)
{
    int status;

    if (e->topo == NULL)
        return 0;
    status = ask(args, e, real, params, err);
    if (status < 0)
        return status;
    if (e->automatic) /* of a worker's episode, which is a step if synchronous */
        for (e->scale = 1;
             e->scale < SCALE_MAX &&
             (double)e->predicted.step.step_ps / 1e12 * (double)e->scale < STEP_S_MIN;)
            e->scale *= 10;
    if (params->role != TUTTI_SERVERS_WORKER)
        return 0;
    e->worker = params->index;
    e->pacing =
        (struct tutti_servers_pacing){.begin = begin, .left = left, .stop = stop, .context = e};
    params->pacing = &e->pacing;
    return 0;
}

/* ---- what came of it ------------------------------------------------------------------------- */

void tutti_train_ps_emulation_step(struct tutti_train_ps_emulation *e, uint64_t steps,
                                   struct tutti_servers_told *told)
{
    if (e->topo == NULL)
        return;
    told->at_s /= (double)e->scale;
    told->compute_s /= (double)e->scale;
    if (e->half_step == 0 && told->step >= (steps + 1) / 2) {
        e->half_s = told->at_s;
        e->half_step = told->step;
    }
    e->last_s = told->at_s;
    e->last_step = told->step;
}

static double step_s(const struct tutti_train_ps_emulation *e)
{
    return e->last_step > e->half_step
               ? (e->last_s - e->half_s) / (double)(e->last_step - e->half_step)
               : 0;
}

void tutti_train_ps_emulation_head(const struct tutti_train_ps_emulation *e, FILE *out)
{
    if (e->topo == NULL)
        return;
    fprintf(out, "# emulated: '%s', whose times these are; played at --scale %" PRIu64 "%s\n",
            e->topo->name, e->scale, e->automatic ? " (auto)" : "");
    tutti_train_slow_print(&e->slow, out);
}

void tutti_train_ps_emulation_print(const struct tutti_train_ps_emulation *e, FILE *out)
{
    const double predicted = predicted_s(e);

    if (e->topo == NULL)
        return;
    fprintf(out, "# emulated: a step in %.4g ms, the mean from half of them on; simulated %.4g ms",
            1e3 * step_s(e), 1e3 * predicted);
    if (predicted > 0 && step_s(e) > 0)
        fprintf(out, " (%+.2f %%)", 100 * (step_s(e) / predicted - 1));
    fputc('\n', out);
}

void tutti_train_ps_emulation_json(const struct tutti_train_ps_emulation *e, FILE *out)
{
    if (e->topo == NULL)
        return;
    fprintf(out,
            ",\"emulated\":{\"topology\":\"%s\",\"scale\":%" PRIu64
            ",\"step_s\":%.9g,\"predicted_step_s\":%.9g}",
            e->topo->name, e->scale, step_s(e), predicted_s(e));
}
