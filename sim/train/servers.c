/* Training by parameter servers: tasks placed on hosts, variables on servers, and what virtual time
 * says of it. */
#include "sim/train_servers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/servers.h"
#include "sim/train/hosts.h"
#include "sim/train/train.h"

/* Global steps that are simulated, and rounds of asynchronous workers: as many as cost next to
 * nothing, since each of the transfers under way is looked at whenever one begins or ends. */
enum {
    STEPS_MIN = 24,
    STEPS_MAX = 200,
    LOOKS_MAX = 50000000,
    LASTING_LOOKS_MAX = 500000000, /* of training from begin to end: some seconds */
    WEIGHT_BYTES = 4
};

struct job {
    struct tutti_train_servers_ask ask;
    struct tutti_train_ask train; /* what workers are asked for */
    struct tutti_train t;
    struct tutti_server_hosts hosts;
    struct tutti_arena *arena;
    uint32_t *worker_host;
    uint32_t *server_host;
    uint64_t *server_bytes; /* that are moved */
    uint32_t *pace_ppm;     /* [worker], or NULL */
    uint32_t host_count;    /* and those of servers alone */
    uint32_t worker_devices;
    tutti_ps compute_ps; /* of an episode, with copies to and from devices */
    struct tutti_train_servers_answer answer;
};

/* ---- tasks ----------------------------------------------------------------------------------- */

static int refuse_workers(const struct job *j, struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_EINVAL,
                      "'%u' workers on %u hosts of %u device%s (each has as many devices of one "
                      "host: %u or %u workers)",
                      j->ask.worker_count, j->hosts.host_count, j->hosts.devices,
                      j->hosts.devices == 1 ? "" : "s", j->hosts.host_count,
                      j->hosts.host_count * j->hosts.devices);
}

static int place_workers(struct job *j, struct tutti_err *err)
{
    uint32_t ranks = j->hosts.host_count * j->hosts.devices;
    uint32_t *count = &j->ask.worker_count;

    if (*count == 0)
        *count = j->hosts.host_count > 1 ? j->hosts.host_count : ranks;
    if (ranks % *count != 0 || j->hosts.devices % (ranks / *count) != 0)
        return refuse_workers(j, err);
    j->worker_devices = ranks / *count;
    j->worker_host = tutti_arena_take(j->arena, *count, sizeof(uint32_t));
    if (j->worker_host == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < *count; i++) {
        j->worker_host[i] = j->ask.worker_host == NULL ? i * j->worker_devices / j->hosts.devices
                                                       : j->ask.worker_host[i];
        if (j->worker_host[i] >= j->hosts.host_count)
            return tutti_fail(err, TUTTI_EINVAL, "worker %u on host %u of '%u'", i,
                              j->worker_host[i], j->hosts.host_count);
    }
    for (uint32_t host = 0; host < j->hosts.host_count; host++) {
        uint32_t here = 0;

        for (uint32_t i = 0; i < *count; i++)
            here += j->worker_host[i] == host;
        if (here != *count / j->hosts.host_count)
            return tutti_fail(err, TUTTI_EINVAL, "'%u' workers on host %u (%u, as on all others)",
                              here, host, *count / j->hosts.host_count);
    }
    return 0;
}

static int place_servers(struct job *j, struct tutti_err *err)
{
    uint32_t hosts = j->hosts.host_count;

    if (j->ask.server_count == 0)
        j->ask.server_count = hosts;
    j->server_host = tutti_arena_take(j->arena, j->ask.server_count, sizeof(uint32_t));
    if (j->server_host == NULL)
        return tutti_nomem(err);
    j->host_count = hosts;
    for (uint32_t i = 0; i < j->ask.server_count; i++) {
        j->server_host[i] = j->ask.server_host != NULL ? j->ask.server_host[i]
                            : j->ask.apart             ? hosts + i
                                                       : i % hosts;
        if (j->server_host[i] >= TUTTI_SERVERS_HOSTS_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "server %u on host '%u' (at most %d hosts)", i,
                              j->server_host[i], TUTTI_SERVERS_HOSTS_MAX);
        if (j->server_host[i] >= j->host_count)
            j->host_count = j->server_host[i] + 1;
    }
    return 0;
}

/* A worker is as slow as the slowest of its devices. */
static int pace_workers(struct job *j, struct tutti_err *err)
{
    const uint32_t *pace = j->train.pace_ppm;
    uint32_t *next;

    if (pace == NULL)
        return 0;
    j->pace_ppm = tutti_arena_take(j->arena, j->ask.worker_count, sizeof(uint32_t));
    next = tutti_arena_take(j->arena, j->hosts.host_count, sizeof(uint32_t));
    if (j->pace_ppm == NULL || next == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < j->ask.worker_count; i++) {
        uint32_t host = j->worker_host[i];
        uint32_t first = host * j->hosts.devices + next[host];

        next[host] += j->worker_devices;
        for (uint32_t k = first; k < first + j->worker_devices; k++)
            if (pace[k] > j->pace_ppm[i])
                j->pace_ppm[i] = pace[k];
    }
    return 0;
}

/* ---- variables ------------------------------------------------------------------------------- */

/* What part of a variable a worker's batch needs, in millionths. */
static uint64_t touched_ppm(const struct job *j, const struct tutti_variable *v)
{
    uint64_t samples =
        tutti_times(j->train.use.batch, tutti_times(j->t.ask.micro_batches, j->worker_devices));
    uint64_t rows = tutti_times(v->touched_rows, samples);

    if (v->touched_rows == 0 || rows >= v->rows)
        return TUTTI_PACE;
    return tutti_muldiv(rows, TUTTI_PACE, v->rows);
}

static uint32_t list_variables(const struct job *j, uint64_t *rows, uint64_t *elements,
                               uint64_t *ppm)
{
    const struct tutti_workload *model = j->train.model;
    uint32_t count = 0;

    for (uint32_t l = 0; l < model->layer_count; l++)
        for (uint32_t k = 0; k < model->layers[l].repeat; k++)
            for (uint32_t i = 0; i < model->layers[l].variable_count; i++) {
                const struct tutti_variable *v = &model->layers[l].variables[i];

                if (v->unreduced || v->elements == 0)
                    continue;
                if (rows != NULL) {
                    rows[count] = v->rows;
                    elements[count] = v->elements;
                    ppm[count] = touched_ppm(j, v);
                }
                count++;
            }
    return count;
}

static void add_shares(struct job *j, const struct tutti_placed *placed, const uint64_t *ppm)
{
    struct tutti_train_servers_answer *a = &j->answer;

    for (uint32_t i = 0; i < placed->shard_count; i++) {
        const struct tutti_shard *s = &placed->shard[i];

        j->server_bytes[s->server] += tutti_muldiv(s->bytes, ppm[s->variable], TUTTI_PACE);
    }
    for (uint32_t i = 0; i < j->ask.server_count; i++) {
        a->bytes += j->server_bytes[i];
        if (j->server_bytes[i] > a->fullest_bytes) {
            a->fullest_bytes = j->server_bytes[i];
            a->fullest_server = i;
        }
    }
}

static int place_variables(struct job *j, struct tutti_err *err)
{
    uint32_t count = list_variables(j, NULL, NULL, NULL);
    uint64_t *rows = tutti_arena_take(j->arena, count, sizeof(*rows));
    uint64_t *elements = tutti_arena_take(j->arena, count, sizeof(*elements));
    uint64_t *ppm = tutti_arena_take(j->arena, count, sizeof(*ppm));
    struct tutti_placement_params params = {.size = sizeof(params),
                                            .placement = j->ask.placement,
                                            .partition = j->ask.partition,
                                            .server_count = j->ask.server_count,
                                            .element_bytes = WEIGHT_BYTES,
                                            .variable_count = count,
                                            .rows = rows,
                                            .elements = elements};
    struct tutti_placed *placed = NULL;
    int status;

    if (params.partition.kind == TUTTI_PARTITION_MIN_SIZE && params.partition.shards == 0)
        params.partition.shards = j->ask.server_count;
    j->server_bytes = tutti_arena_take(j->arena, j->ask.server_count, sizeof(uint64_t));
    if (rows == NULL || elements == NULL || ppm == NULL || j->server_bytes == NULL)
        return tutti_nomem(err);
    (void)list_variables(j, rows, elements, ppm);
    status = tutti_placed_new(&params, &placed, err);
    if (status == 0)
        add_shares(j, placed, ppm);
    tutti_placed_free(placed);
    return status;
}

/* ---- an episode ------------------------------------------------------------------------------ */

/* How much longer the slowest of some devices takes than all devices of the machine in step, as
 * which they were timed: those of a worker, or of all workers whose gradients make a step. Where
 * workers are drawn apart, those of a worker. */
static double in_step(const struct job *j, double *ret_all)
{
    const struct tutti_train_ask *ask = &j->t.ask;
    uint32_t all = j->train.topo->rank_count;
    uint32_t workers = !j->ask.synchronous || j->ask.jitter > 0 ? 1
                       : j->ask.aggregate > 0                   ? j->ask.aggregate
                                                                : j->ask.worker_count;

    *ret_all = all == 1 ? 1
                        : tutti_device_slowest(ask->use.framework, all, ask->micro_batches,
                                               ask->synthetic);
    return tutti_device_slowest(ask->use.framework, workers * j->worker_devices, ask->micro_batches,
                                ask->synthetic);
}

/* Weights come to each device while it goes forward, gradients leave it while it goes backward. */
static void time_episode(struct job *j)
{
    const struct tutti_workload *model = j->train.model;
    uint64_t rate = j->hosts.copy_bytes_per_s;
    double copy_ps = rate > 0 ? (double)tutti_wire_ps(j->answer.bytes, rate) : 0;
    double passes_ps[2] = {0, 0};
    double host_ps = (double)tutti_device_optimizer(&j->t.ask.use, 0);
    double all;
    double slowest = in_step(j, &all);

    for (uint32_t i = 0; i < model->layer_count; i++) {
        passes_ps[0] += (double)(j->t.times[i].forward_ps * model->layers[i].repeat) / all;
        passes_ps[1] += (double)(j->t.times[i].backward_ps * model->layers[i].repeat) / all;
    }
    for (int i = 0; i < 2; i++)
        passes_ps[i] *= j->t.ask.micro_batches;
    if (j->train.anchor_ps > 0) /* it has that in it */
        host_ps = fmax(0, (double)j->train.anchor_ps - passes_ps[0] - passes_ps[1]);
    j->compute_ps = (tutti_ps)llround(host_ps + fmax(passes_ps[0] * slowest, copy_ps) +
                                      fmax(passes_ps[1] * slowest, copy_ps));
    if (j->train.prefetch == 0)
        j->compute_ps += j->t.input_ps;
}

/* Whether training is simulated from its begin to its end. */
static bool lasts(const struct job *j)
{
    return j->ask.supervised || j->ask.change_count > 0 || j->ask.mtbf_ps > 0;
}

static uint64_t looks_of(const struct job *j)
{
    uint64_t looks =
        tutti_times(tutti_times(j->ask.worker_count, j->ask.worker_count), j->host_count);

    return looks > 0 ? looks : 1;
}

static struct tutti_servers_opts opts_of(const struct job *j,
                                         const struct tutti_coordinator_ops *ops)
{
    uint64_t steps = LOOKS_MAX / looks_of(j);

    steps = steps < STEPS_MIN ? STEPS_MIN : steps > STEPS_MAX ? STEPS_MAX : steps;
    if (lasts(j))
        steps = j->ask.steps;
    return (struct tutti_servers_opts){
        .size = sizeof(struct tutti_servers_opts),
        .ops = ops,
        .params = {.size = sizeof(struct tutti_coordinator_params),
                   .member_count = j->ask.worker_count,
                   .last_step = j->ask.synchronous ? steps : steps * j->ask.worker_count,
                   .slack = j->ask.slack,
                   .staleness_max = j->ask.staleness_max,
                   .aggregate = j->ask.aggregate,
                   .late = j->ask.late},
        .host_count = j->host_count,
        .worker_host = j->worker_host,
        .server_count = j->ask.server_count,
        .server_host = j->server_host,
        .server_bytes = j->server_bytes,
        /* where there is one host alone, no card is used */
        .host_bytes_per_s = j->answer.card_bytes_per_s > 0 ? j->answer.card_bytes_per_s : 1,
        .apply_bytes_per_s = j->ask.apply_bytes_per_s,
        .latency_ps = 2 * j->hosts.latency_ps,
        .compute_ps = j->compute_ps,
        .pace_ppm = j->pace_ppm,
        .jitter = j->ask.jitter,
        .seed = j->ask.seed,
        .relaxed = j->ask.relaxed,
        .mtbf_ps = j->ask.mtbf_ps,
        .restart_ps = j->ask.restart_ps,
        .changes = j->ask.changes,
        .change_count = j->ask.change_count,
        .supervised = j->ask.supervised,
        .save_every_ps = j->ask.save_every_ps,
        .save_bytes_per_s = j->ask.save_bytes_per_s,
    };
}

/* The host whose card has most to carry each way. */
static void find_busiest(struct job *j)
{
    uint64_t most = 0;

    for (uint32_t host = 0; host < j->host_count; host++) {
        uint64_t kept = 0;
        uint64_t workers = 0;
        uint64_t bytes;

        for (uint32_t i = 0; i < j->ask.server_count; i++)
            kept += j->server_host[i] == host ? j->server_bytes[i] : 0;
        for (uint32_t i = 0; i < j->ask.worker_count; i++)
            workers += j->worker_host[i] == host;
        bytes = tutti_plus(tutti_times(workers, j->answer.bytes - kept),
                           tutti_times(j->ask.worker_count - workers, kept));
        if (bytes > most) {
            most = bytes;
            j->answer.busiest_host = host;
        }
    }
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* What workers that are lost keep others from, and themselves. */
static void say_losses(const struct job *j, struct tutti_train_answer *a)
{
    const struct tutti_served *s = &j->answer.served;

    (void)snprintf(a->limited_by, sizeof(a->limited_by),
                   "losses (%.0f %% of the workers' time they are away, or wait for who is), the "
                   "workers' devices (%.0f %%), servers and network (%.0f %%)",
                   100 * (s->away + s->idle), 100 * s->computing,
                   100 * (s->pulling + s->pushing + s->queued));
}

static void say_limit(const struct job *j, struct tutti_train_answer *a)
{
    const struct tutti_train_split *s = &a->split;
    double step = a->step_ps > 0 ? (double)a->step_ps : 1;
    char card[64] = "";

    if (j->answer.busiest_card > 0.005)
        (void)snprintf(card, sizeof(card), ", the card of host %u is busy %.0f %%",
                       j->answer.busiest_host, 100 * j->answer.busiest_card);
    if (lasts(j) && j->answer.served.failures > 0 &&
        j->answer.served.away + j->answer.served.idle > 0.1)
        say_losses(j, a);
    else if (s->input_ps > 0 && s->input_ps >= s->reduce_ps)
        (void)snprintf(a->limited_by, sizeof(a->limited_by),
                       "the input pipeline of the hosts (%.0f %% of the step is spent waiting)",
                       100 * (double)s->input_ps / step);
    else if (s->reduce_ps > s->compute_ps)
        (void)snprintf(a->limited_by, sizeof(a->limited_by),
                       "servers and network (%.0f %%%s), then the workers' devices (%.0f %%)",
                       100 * (double)s->reduce_ps / step, card, 100 * (double)s->compute_ps / step);
    else if (200 * s->reduce_ps > a->step_ps)
        (void)snprintf(a->limited_by, sizeof(a->limited_by),
                       "the workers' devices (%.0f %%), then servers and network (%.0f %%%s)",
                       100 * (double)s->compute_ps / step, 100 * (double)s->reduce_ps / step, card);
    else
        (void)snprintf(a->limited_by, sizeof(a->limited_by), "the workers' devices (%.0f %%)",
                       100 * (double)s->compute_ps / step);
}

static void fill_step(struct job *j, const struct tutti_served *served)
{
    struct tutti_train_answer *a = &j->answer.step;
    uint64_t batch = (uint64_t)j->train.use.batch * j->t.ask.micro_batches * j->worker_devices;
    uint64_t gradients =
        j->ask.synchronous && j->ask.aggregate > 0 ? j->ask.aggregate : j->ask.worker_count;
    /* Each worker computes once a step, as long as there are enough of them. */
    bool steady = j->ask.jitter <= 0 && j->pace_ppm == NULL && gradients <= j->ask.worker_count &&
                  !lasts(j) && j->ask.slack == 0 && j->ask.staleness_max == 0;

    a->samples = batch * gradients;
    a->step_ps = served->step_ps;
    if (lasts(j)) /* what is made again takes time, and is no step */
        a->step_ps = served->total_ps / (tutti_ps)j->ask.steps;
    else if (!j->ask.synchronous)
        a->step_ps = (tutti_ps)llround((double)gradients / served->gradients_per_s * 1e12);
    a->split.compute_ps =
        steady ? j->compute_ps : (tutti_ps)llround(served->computing * (double)a->step_ps);
    if (a->split.compute_ps > a->step_ps)
        a->split.compute_ps = a->step_ps;
    a->split.reduce_ps = a->step_ps - a->split.compute_ps;
    a->communication_ps = a->split.reduce_ps;
    if (j->train.prefetch == 0) {
        a->split.input_ps = j->t.input_ps < a->split.compute_ps ? j->t.input_ps : 0;
        a->split.compute_ps -= a->split.input_ps;
    } else if (j->t.input_ps > a->step_ps) { /* batches are made ahead */
        a->split.input_ps = j->t.input_ps - a->step_ps;
        a->step_ps = j->t.input_ps;
    }
    tutti_train_fill_rates(&j->t, a);
    a->reduced_bytes = j->answer.bytes;
    j->answer.gradients_per_s =
        a->step_ps > 0 ? (double)gradients / ((double)a->step_ps / 1e12) : 0;
    j->answer.updates_per_s =
        j->answer.gradients_per_s / (j->ask.synchronous ? (double)gradients : 1);
}

static int play(struct job *j, struct tutti_err *err)
{
    const struct tutti_coordinator_ops *ops = NULL;
    struct tutti_served served = {.total_ps = 0};
    struct tutti_servers_opts opts;
    tutti_ps exchange_ps = 0;
    int status = tutti_coordinator_find(j->ask.synchronous ? "sync" : "async", &ops, err);

    if (status < 0)
        return status;
    opts = opts_of(j, ops);
    if (j->ask.show != NULL)
        status = j->ask.show(j->ask.show_context, &opts, err);
    if (status == 0 &&
        j->ask.by_variable) { /* computing as it is, and beside it what cards carry both ways */
        status = tutti_servers_exchange(&opts, &exchange_ps, err);
        memset(j->server_bytes, 0, j->ask.server_count * sizeof(*j->server_bytes));
    }
    if (status == 0)
        status = tutti_servers_play(&opts, &served, err);
    if (status < 0)
        return status;
    if (j->ask.by_variable) {
        served.step_ps += exchange_ps;
        served.busiest_card = (double)exchange_ps / (double)served.step_ps;
    }
    j->answer.busiest_card = served.busiest_card;
    j->answer.served = served;
    j->answer.applied = served.stats.applied;
    j->answer.dropped = served.stats.dropped_stale + served.stats.dropped_late;
    if (j->ask.late == TUTTI_LATE_ABORTED)
        j->answer.dropped += served.stats.lost + served.stats.unfinished;
    j->answer.staleness = served.stats.applied > 0
                              ? (double)served.stats.staleness_sum / (double)served.stats.applied
                              : 0;
    fill_step(j, &served);
    say_limit(j, &j->answer.step);
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int check(const struct tutti_train_servers_ask *ask, struct tutti_err *err)
{
    if (ask->train == NULL || ask->train->topo == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "parameter servers without a machine of workers");
    if (!ask->synchronous && (ask->aggregate > 0 || ask->by_variable))
        return tutti_fail(err, TUTTI_EINVAL, "%s of synchronous steps alone",
                          ask->by_variable ? "transfers variable by variable (overlap) are"
                                           : "gradients that are averaged are");
    if (ask->synchronous && (ask->slack > 0 || ask->staleness_max > 0))
        return tutti_fail(err, TUTTI_EINVAL,
                          "a bound on how stale gradients are is of asynchronous steps alone");
    return 0;
}

/* Training from begin to end: how long it is must be known, and not too long. */
static int check_length(const struct job *j, struct tutti_err *err)
{
    uint64_t most = LASTING_LOOKS_MAX / looks_of(j);

    if (!lasts(j))
        return 0;
    if (j->ask.by_variable)
        return tutti_fail(err, TUTTI_EINVAL,
                          "losses beside transfers variable by variable (overlap) are not "
                          "modelled");
    if (j->ask.steps == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "losses and checkpoints are of a training of some length (so many "
                          "steps)");
    if (j->ask.steps > most)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%llu' steps with losses of %u workers (at most %llu are simulated one "
                          "by one)",
                          (unsigned long long)j->ask.steps, j->ask.worker_count,
                          (unsigned long long)most);
    return 0;
}

static int check_step(struct job *j, struct tutti_err *err)
{
    if (j->ask.aggregate == j->ask.worker_count)
        j->ask.aggregate = 0;
    if (j->ask.by_variable && (j->ask.relaxed || j->ask.aggregate > 0))
        return tutti_fail(err, TUTTI_EINVAL,
                          "transfers variable by variable are of steps of all workers ('%u'), with "
                          "weights as they are",
                          j->ask.worker_count);
    return 0;
}

static int ask_all(struct job *j, struct tutti_err *err)
{
    int status = tutti_server_hosts_of(j->train.topo, &j->hosts, err);

    if (status == 0)
        status = place_workers(j, err);
    if (status == 0)
        status = place_servers(j, err);
    if (status == 0)
        status = check_step(j, err);
    if (status == 0)
        status = check_length(j, err);
    if (status == 0)
        status = pace_workers(j, err);
    if (status == 0)
        status = tutti_train_open(&j->train, &j->t, err);
    if (status == 0)
        status = tutti_train_fill_memory(&j->t, &j->answer.step, err);
    if (status == 0)
        status = place_variables(j, err);
    if (status < 0)
        return status;
    j->answer.worker_count = j->ask.worker_count;
    j->answer.worker_devices = j->worker_devices;
    j->answer.server_count = j->ask.server_count;
    j->answer.host_count = j->host_count;
    j->answer.card_bytes_per_s =
        j->ask.card_bytes_per_s > 0 ? j->ask.card_bytes_per_s : j->hosts.card_bytes_per_s;
    if (j->host_count > 1 && j->answer.card_bytes_per_s == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "how fast a network card of '%s' is, is not known (say its rate)",
                          j->train.topo->name);
    find_busiest(j);
    time_episode(j);
    return play(j, err);
}

int tutti_train_servers_predict(const struct tutti_train_servers_ask *ask,
                                struct tutti_train_servers_answer *ret, struct tutti_err *err)
{
    struct tutti_strategy strategy;
    struct job j = {.arena = NULL};
    int status = tutti_take("tutti_train_servers_ask", &j.ask, sizeof(j.ask), ask,
                            TUTTI_BYTES_TO(struct tutti_train_servers_ask, seed), err);

    if (status == 0)
        status = check(&j.ask, err);
    if (status == 0)
        status = tutti_take("tutti_train_ask", &j.train, sizeof(j.train), j.ask.train,
                            TUTTI_BYTES_TO(struct tutti_train_ask, note_context), err);
    if (status == 0)
        status = tutti_strategy_named("parameter-server", &strategy, err);
    if (status < 0)
        return status;
    j.train.strategy = &strategy;
    j.train.optimizer = TUTTI_OPTIMIZER_SGD; /* its states are the servers' */
    j.arena = tutti_arena_new();
    status = j.arena == NULL ? tutti_nomem(err) : ask_all(&j, err);
    if (status == 0)
        *ret = j.answer;
    tutti_train_close(&j.t);
    tutti_arena_free(j.arena);
    return status;
}
