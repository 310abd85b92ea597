/* A training step predicted: what layers take, the strategy's schedule, its collectives' prices. */
#include "sim/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/coll.h"
#include "runtime/shape.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/sim.h"
#include "sim/train/train.h"

/* ---- the question made whole ----------------------------------------------------------------- */

static bool is_half(enum tutti_precision precision)
{
    return precision > TUTTI_PRECISION_TF32;
}

static int choose_device(struct tutti_train_ask *ask, struct tutti_err *err)
{
    const struct tutti_strategy *s = ask->strategy;

    if (ask->use.accelerator == NULL)
        ask->use.accelerator = tutti_topo_accelerator(ask->topo);
    if (ask->use.accelerator == NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "what devices '%s' has is not known (a preset, or --device NAME)",
                          ask->topo->name);
    if (ask->use.framework != NULL)
        return 0;
    return tutti_framework_find(s->framework, &ask->use.framework, err);
}

/* Of a model with transformer layers those are recomputed, of others all, as memory has it. */
static bool recomputes_all(const struct tutti_workload *model)
{
    for (uint32_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].is_transformer)
            return false;
    return true;
}

static void choose_shards(struct tutti_train_ask *ask)
{
    const struct tutti_topo *topo = ask->topo;
    bool half = is_half(ask->use.precision);

    if (ask->shard_ranks == 0 && strcmp(ask->strategy->name, "hsdp") == 0 && topo->host_count > 0)
        ask->shard_ranks = topo->rank_count / topo->host_count;
    if (ask->gradient_bytes == 0)
        ask->gradient_bytes = half && ask->strategy->sharding == TUTTI_SHARD_ZERO3 ? 2 : 4;
    if (ask->strategy->local_steps > 0) /* what is averaged */
        ask->weight_bytes = ask->gradient_bytes;
    if (ask->weight_bytes == 0)
        ask->weight_bytes = half && ask->strategy->sharding != TUTTI_SHARD_NONE ? 2 : 4;
    if (ask->micro_batches == 0)
        ask->micro_batches = 1;
}

static int make_whole(const struct tutti_train_ask *given, struct tutti_train *t,
                      struct tutti_err *err)
{
    struct tutti_train_ask *ask = &t->ask;
    int status = tutti_take("tutti_train_ask", ask, sizeof(*ask), given,
                            TUTTI_BYTES_TO(struct tutti_train_ask, note_context), err);

    if (status < 0)
        return status;
    if (ask->topo == NULL || ask->model == NULL || ask->strategy == NULL || ask->use.batch == 0)
        return tutti_fail(
            err, TUTTI_EINVAL,
            "a training step without machine, model, strategy or batch (all of them)");
    if (ask->strategy->whole_hosts && ask->topo->host_count > 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "strategy '%s' has the devices of one host, '%s' has %u hosts "
                          "(multiworkermirrored, or one host)",
                          ask->strategy->name, ask->topo->name, ask->topo->host_count);
    if (strcmp(ask->strategy->name, "onedevice") == 0 && ask->topo->rank_count > 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "strategy 'onedevice' on '%u' devices (one: mirrored has several)",
                          ask->topo->rank_count);
    if (ask->exact && ask->pace_ppm != NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "stragglers are not modelled where every message is simulated (exact)");
    ask->use.recompute_all = recomputes_all(ask->model);
    choose_shards(ask);
    if (ask->algorithm == NULL)
        ask->algorithm = ask->strategy->all_reduce;
    return choose_device(ask, err);
}

/* ---- the device and the host ----------------------------------------------------------------- */

/* That a step updates of a variable: all, or of a sparse gradient the rows that all replicas'
 * samples touch. */
static uint64_t updated_elements(const struct tutti_train_ask *ask, const struct tutti_variable *v)
{
    uint64_t samples =
        tutti_times(tutti_times(ask->use.batch, ask->micro_batches), ask->topo->rank_count);
    uint64_t rows = tutti_times(v->touched_rows, samples);

    if (v->unreduced)
        return 0;
    if (!tutti_strategy_gathers_rows(ask->strategy, v) || rows >= v->rows)
        return v->elements;
    return tutti_muldiv(v->elements, rows, v->rows);
}

static uint64_t owned_parameters(const struct tutti_train *t)
{
    const struct tutti_workload *model = t->ask.model;
    uint64_t n = t->ask.strategy->sharding == TUTTI_SHARD_NONE
                     ? 1
                     : (t->ask.shard_ranks > 0 ? t->ask.shard_ranks : t->ask.topo->rank_count);
    uint64_t sum = 0;

    for (uint32_t i = 0; i < model->layer_count; i++)
        for (uint32_t v = 0; v < model->layers[i].variable_count; v++)
            sum +=
                updated_elements(&t->ask, &model->layers[i].variables[v]) * model->layers[i].repeat;
    return (sum + n - 1) / n;
}

enum { MILLION = 1000000 };

static void scale(struct tutti_train *t, uint64_t by, uint64_t of)
{
    for (uint32_t i = 0; i < t->ask.model->layer_count; i++) {
        struct tutti_layer_times *times = &t->times[i];

        times->forward_ps = (tutti_ps)tutti_muldiv_near((uint64_t)times->forward_ps, by, of);
        times->backward_ps = (tutti_ps)tutti_muldiv_near((uint64_t)times->backward_ps, by, of);
    }
    t->optimizer_ps = (tutti_ps)tutti_muldiv_near((uint64_t)t->optimizer_ps, by, of);
}

/* A measured step says how fast this device really is at this model. */
static void apply_anchor(struct tutti_train *t)
{
    if (t->ask.anchor_ps > 0 && t->device_ps > 0)
        scale(t, (uint64_t)t->ask.anchor_ps, (uint64_t)t->device_ps);
    if (t->ask.pace > 0)
        scale(t, (uint64_t)llround(t->ask.pace * MILLION), MILLION);
}

/* Devices in step with each other take as long as the slowest, and agree once a step. */
static void wait_for_others(struct tutti_train *t)
{
    const struct tutti_train_ask *ask = &t->ask;
    uint32_t count = ask->topo->rank_count;
    double slowest =
        tutti_device_slowest(ask->use.framework, count, ask->micro_batches, ask->synthetic);

    if (count == 1)
        return;
    scale(t, (uint64_t)llround(slowest * MILLION), MILLION);
    t->optimizer_ps += ask->strategy->sync_us * TUTTI_PS_PER_US;
}

static tutti_ps device_ps(const struct tutti_train *t)
{
    tutti_ps sum = 0;

    for (uint32_t i = 0; i < t->ask.model->layer_count; i++)
        sum += (t->times[i].forward_ps + t->times[i].backward_ps) * t->ask.model->layers[i].repeat;
    return sum * t->ask.micro_batches + t->optimizer_ps;
}

/* Times of steps are added up as whole picoseconds, which go to 106 days. */
static int check_length(double ps, struct tutti_err *err)
{
    const double longest_ps = (double)(INT64_MAX / 4);
    const double day_ps = 86400.0 * (double)TUTTI_PS_PER_S;

    if (ps <= longest_ps)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL, "a step of '%.3g' days (at most %.0f)", ps / day_ps,
                      longest_ps / day_ps);
}

static int check_device(const struct tutti_train *t, struct tutti_err *err)
{
    double sum_ps = 0;

    for (uint32_t i = 0; i < t->ask.model->layer_count; i++)
        sum_ps += (double)(t->times[i].forward_ps + t->times[i].backward_ps) *
                  t->ask.model->layers[i].repeat;
    return check_length(sum_ps * t->ask.micro_batches + (double)t->optimizer_ps, err);
}

static int time_device(struct tutti_train *t, struct tutti_err *err)
{
    const struct tutti_workload *model = t->ask.model;
    int status = 0;

    t->times = calloc(model->layer_count + (size_t)1, sizeof(*t->times));
    if (t->times == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < model->layer_count && status == 0; i++)
        status = tutti_device_layer(&t->ask.use, &model->layers[i], &t->times[i], err);
    if (status < 0)
        return status;
    t->optimizer_ps = tutti_device_optimizer(&t->ask.use, owned_parameters(t));
    status = check_device(t, err);
    if (status < 0)
        return status;
    t->device_ps = device_ps(t);
    apply_anchor(t);
    wait_for_others(t);
    status = check_device(t, err);
    if (status == 0)
        t->device_ps = device_ps(t);
    return status;
}

/* What a host needs for the samples of its devices. */
static int time_input(struct tutti_train *t, struct tutti_err *err)
{
    const struct tutti_topo *topo = t->ask.topo;
    double workers = t->ask.input_workers > 0 ? t->ask.input_workers : 1;
    double samples;
    double ps;
    int status;

    t->host_ranks = topo->host_count > 0 ? topo->rank_count / topo->host_count : 1;
    if (topo->host_count == 0 || t->host_ranks == 0)
        t->host_ranks = 1;
    if (t->ask.input_rate <= 0)
        return 0;
    samples = (double)t->ask.use.batch * t->ask.micro_batches * t->host_ranks;
    ps = samples / (t->ask.input_rate * workers) * (double)TUTTI_PS_PER_S;
    status = check_length(ps, err);
    if (status == 0)
        t->input_ps = (tutti_ps)ps;
    return status;
}

/* ---- the schedule ---------------------------------------------------------------------------- */

/* Of a step's gradients: what was left out is added and kept again (four times what they take,
 * read and written), then read by the selection twice, or for both factors, and what comes back is
 * multiplied out or added up. Products themselves take less, and launches are left out. */
static tutti_ps compress_ps(const struct tutti_train *t)
{
    enum { TIMES_MOVED = 8, GRADIENT_BYTES = 4 };
    const struct tutti_device_use *use = &t->ask.use;
    const struct tutti_model_sums sums = tutti_model_sum(t->ask.model);
    double bytes = (double)sums.parameters * TIMES_MOVED * GRADIENT_BYTES;
    double bytes_per_s = (double)use->accelerator->mem_bytes_per_s * use->framework->memory;

    return t->ask.strategy->compression == TUTTI_COMPRESS_NONE
               ? 0
               : (tutti_ps)llround(bytes / bytes_per_s * (double)TUTTI_PS_PER_S);
}

/* The collectives whose every message is simulated: all-reduces as they were asked for. */
static int make_collective(void *context, const struct tutti_coll_params *params, uint32_t axis,
                           uint32_t size, struct tutti_schedule **ret, struct tutti_err *err)
{
    const struct tutti_train_ask *train = &((const struct tutti_train *)context)->ask;
    const struct tutti_shape flat = tutti_shape_flat(size);
    struct tutti_ask ask = {
        .size = sizeof(ask), .topo = train->topo, .algorithm = train->algorithm, .params = *params};

    if (params->collective != TUTTI_ALLREDUCE || axis != TUTTI_AXIS_ALL)
        return tutti_coll_generate("ring", params, &flat, ret, err);
    ask.params.added = train->added;
    ask.params.channel_count = train->channels;
    return tutti_predict_schedule(&ask, ret, err);
}

/* Whether it is a schedule, and not what a library would run. */
static bool is_schedule(const char *algorithm)
{
    return algorithm != NULL && strcmp(algorithm, "auto") != 0 &&
           strncmp(algorithm, "nccl", 4) != 0;
}

static int write_schedule(struct tutti_train *t, struct tutti_err *err)
{
    const uint64_t samples = (uint64_t)t->ask.use.batch * t->ask.micro_batches;
    const struct tutti_strategy_params params = {
        .size = sizeof(params),
        .strategy = t->ask.strategy,
        .model = t->ask.model,
        .rank_count = t->ask.topo->rank_count,
        .shard_ranks = t->ask.strategy->sharding == TUTTI_SHARD_NONE ? 0 : t->ask.shard_ranks,
        .samples = samples < UINT32_MAX ? (uint32_t)samples : UINT32_MAX,
        .micro_batches = t->ask.micro_batches,
        .gradient_bytes = t->ask.gradient_bytes,
        .weight_bytes = t->ask.weight_bytes,
        .times = t->times,
        .input_ps = t->ask.prefetch == 0 ? t->input_ps : 0,
        .optimizer_ps = t->optimizer_ps,
        .compress_ps = compress_ps(t),
        .collective = t->ask.exact && is_schedule(t->ask.algorithm) ? make_collective : NULL,
        .context = t,
    };

    return tutti_strategy_schedule(&params, &t->schedule, err);
}

void tutti_train_close(struct tutti_train *t)
{
    free(t->times);
    tutti_schedule_free(t->schedule);
    tutti_train_memory_free(t->own_memory);
    for (uint32_t i = 0; i < TUTTI_TRAIN_AXES; i++) {
        tutti_predict_memory_free(t->memory[i]);
        tutti_topo_free(t->parts[i]);
    }
}

int tutti_train_open(const struct tutti_train_ask *given, struct tutti_train *t,
                     struct tutti_err *err)
{
    int status = make_whole(given, t, err);

    if (status == 0)
        status = time_device(t, err);
    return status < 0 ? status : time_input(t, err);
}

static int open_step(const struct tutti_train_ask *given, struct tutti_train *t,
                     struct tutti_err *err)
{
    int status = tutti_train_open(given, t, err);

    return status < 0 ? status : write_schedule(t, err);
}

/* ---- memory ---------------------------------------------------------------------------------- */

int tutti_train_fill_memory(const struct tutti_train *t, struct tutti_train_answer *answer,
                            struct tutti_err *err)
{
    const struct tutti_train_ask *ask = &t->ask;
    struct tutti_footprint_params params = {
        .size = sizeof(params),
        .model = ask->model,
        .accelerator = ask->use.accelerator,
        .precision = ask->use.precision,
        .optimizer = ask->optimizer,
        .micro_batch = ask->use.batch,
        .micro_batches = ask->micro_batches,
        .data = ask->topo->rank_count,
        .fused_attention = ask->use.fused_attention,
        .recompute = ask->use.recompute,
        .sharding = ask->strategy->sharding,
        .gathered_layers = ask->strategy->prefetch + 1,
        .keeps_weights = ask->strategy->keep_weights,
        .keeps_errors = ask->strategy->compression != TUTTI_COMPRESS_NONE,
        .shard_ranks = ask->strategy->sharding == TUTTI_SHARD_NONE ? 0 : ask->shard_ranks,
    };
    int status;

    if (tutti_memory_framework_find(ask->use.framework->name, &params.framework, NULL) < 0)
        params.framework = NULL;
    status = tutti_footprint_of(&params, &answer->footprint, err);
    if (status < 0 || answer->footprint.fits || answer->footprint.capacity_bytes == 0 ||
        ask->any_memory)
        return status;
    return tutti_footprint_check(&params, err);
}

/* ---- playing --------------------------------------------------------------------------------- */

/* Level 2: every message of every rank. */
static int play_exact(const struct tutti_train *t, tutti_ps *ret, struct tutti_err *err)
{
    const struct tutti_sim_opts opts = {.size = sizeof(opts), .topo = t->ask.topo};
    struct tutti_play play = {.size = sizeof(play), .iteration_count = 1};
    struct tutti_played played = {.total_ps = 0};
    struct tutti_backend *sim = NULL;
    struct tutti_schedule *flat = NULL;
    int status = tutti_schedule_flatten(t->schedule, &flat, err);

    play.schedule = flat;
    if (status == 0)
        status = tutti_sim_open(&opts, &sim, err);
    if (status == 0)
        status = tutti_backend_play(sim, &play, &played, err);
    tutti_backend_close(sim);
    tutti_schedule_free(flat);
    *ret = played.total_ps;
    return status;
}

static int play_step(struct tutti_train *t, struct tutti_train_answer *answer,
                     struct tutti_err *err)
{
    struct tutti_train_notes notes = {.train = t};
    const struct tutti_step_opts opts = {.size = sizeof(opts),
                                         .topo = t->ask.topo,
                                         .schedule = t->schedule,
                                         .pace_ppm = t->ask.pace_ppm,
                                         .price = t->ask.exact ? NULL : tutti_train_price,
                                         .price_context = t,
                                         .note = tutti_train_note,
                                         .note_context = &notes};
    struct tutti_stepped stepped = {.total_ps = 0};
    int status = tutti_step_play(&opts, &stepped, err);

    if (status < 0)
        return status;
    tutti_train_notes_end(&notes, stepped.total_ps);
    answer->step_ps = stepped.total_ps;
    answer->class_count = stepped.class_count;
    answer->split = notes.split;
    answer->communication_ps = notes.communication_ps;
    return t->ask.exact ? play_exact(t, &answer->step_ps, err) : 0;
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* Of the slowest device, which all wait for when they average. */
static tutti_ps slowest_device_ps(const struct tutti_train *t)
{
    uint32_t most = t->ask.pace_ppm != NULL ? t->ask.pace_ppm[0] : (uint32_t)TUTTI_PACE;

    for (uint32_t i = 1; t->ask.pace_ppm != NULL && i < t->ask.topo->rank_count; i++)
        most = t->ask.pace_ppm[i] > most ? t->ask.pace_ppm[i] : most;
    return (tutti_ps)tutti_muldiv((uint64_t)t->device_ps, most, TUTTI_PACE);
}

/* Steps between those that average take the device's time. */
static void spread_local_steps(const struct tutti_train *t, struct tutti_train_answer *a)
{
    const int64_t every = t->ask.strategy->local_steps;
    tutti_ps others_ps;

    if (every <= 1)
        return;
    a->split.reduce_ps /= every;
    a->split.slowed_ps /= every;
    a->communication_ps /= every;
    others_ps = slowest_device_ps(t) + a->split.input_ps;
    a->step_ps = others_ps + (a->step_ps - others_ps) / every;
}

/* Batches are made ahead: the host works while devices do. */
static void wait_for_input(const struct tutti_train *t, struct tutti_train_answer *a)
{
    if (t->ask.prefetch == 0 || t->input_ps <= a->step_ps)
        return;
    a->split.input_ps += t->input_ps - a->step_ps;
    a->step_ps = t->input_ps;
}

double tutti_train_flops(const struct tutti_workload *model)
{
    double sum = 0;

    for (uint32_t i = 0; i < model->layer_count; i++) {
        const struct tutti_layer *layer = &model->layers[i];

        for (uint32_t k = 0; k < layer->operation_count; k++)
            sum += (double)layer->operations[k].flops * layer->repeat * (layer->is_frozen ? 1 : 3);
    }
    return sum;
}

void tutti_train_fill_rates(const struct tutti_train *t, struct tutti_train_answer *a)
{
    const struct tutti_train_ask *ask = &t->ask;
    const struct tutti_model_sums sums = tutti_model_sum(ask->model);
    double step_s = (double)a->step_ps / (double)TUTTI_PS_PER_S;
    double peak = (double)tutti_accelerator_flops(ask->use.accelerator, ask->use.precision) *
                  ask->topo->rank_count;

    a->parameters = sums.parameters;
    a->reduced_bytes = ask->topo->rank_count > 1 ? sums.parameters * ask->gradient_bytes : 0;
    a->flops = tutti_train_flops(ask->model) * (double)a->samples;
    a->framework = ask->use.framework->name;
    a->accelerator = ask->use.accelerator->name;
    if (step_s <= 0)
        return;
    a->samples_per_s = (double)a->samples / step_s;
    if (ask->model->sample == TUTTI_SAMPLE_SEQUENCE)
        a->tokens_per_s = a->samples_per_s * ask->model->sequence;
    if (peak > 0)
        a->mfu_percent = 100 * a->flops / step_s / peak;
}

int tutti_train_predict(const struct tutti_train_ask *ask, struct tutti_train_answer *ret,
                        struct tutti_err *err)
{
    struct tutti_train_answer answer = {.step_ps = 0};
    struct tutti_train t = {.answer = &answer};
    int status = open_step(ask, &t, err);

    if (status == 0)
        status = tutti_train_fill_memory(&t, &answer, err);
    if (status == 0)
        status = play_step(&t, &answer, err);
    if (status == 0) {
        spread_local_steps(&t, &answer);
        wait_for_input(&t, &answer);
        answer.samples = (uint64_t)t.ask.use.batch * t.ask.micro_batches * t.ask.topo->rank_count;
        tutti_train_fill_rates(&t, &answer);
        tutti_train_say_limit(&t, &answer);
        *ret = answer;
    }
    tutti_train_close(&t);
    return status;
}

int tutti_train_device_times(const struct tutti_train_ask *ask, struct tutti_layer_times **ret,
                             tutti_ps *ret_optimizer_ps, tutti_ps *ret_compress_ps,
                             struct tutti_err *err)
{
    struct tutti_train t = {.answer = NULL};
    int status = tutti_train_open(ask, &t, err);

    if (status == 0) {
        *ret = t.times;
        *ret_optimizer_ps = t.optimizer_ps;
        *ret_compress_ps = compress_ps(&t);
        t.times = NULL;
    }
    tutti_train_close(&t);
    return status;
}

int tutti_train_footprint(const struct tutti_train_ask *ask, struct tutti_footprint *ret,
                          struct tutti_err *err)
{
    struct tutti_train_answer answer = {.step_ps = 0};
    struct tutti_train t = {.answer = &answer};
    int status = tutti_train_open(ask, &t, err);

    if (status == 0)
        status = tutti_train_fill_memory(&t, &answer, err);
    if (status == 0)
        *ret = answer.footprint;
    tutti_train_close(&t);
    return status;
}

int tutti_train_schedule(const struct tutti_train_ask *ask, struct tutti_schedule **ret,
                         struct tutti_err *err)
{
    struct tutti_train_answer answer = {.step_ps = 0};
    struct tutti_train t = {.answer = &answer};
    int status = open_step(ask, &t, err);

    if (status == 0) {
        *ret = t.schedule;
        t.schedule = NULL;
    }
    tutti_train_close(&t);
    return status;
}
