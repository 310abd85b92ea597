/* Trains at the pace of another machine; see emulate.h. */
#include "tools/train/emulate.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/group.h"
#include "runtime/schedule.h"
#include "runtime/shaper.h"
#include "runtime/wide.h"
#include "sim/predict.h"
#include "sim/shaper.h"
#include "sim/sim.h"
#include "sim/step.h"
#include "sim/train.h"
#include "tools/cli/machine.h"
#include "tools/sink.h"
#include "tools/train/going_on.h"
#include "tools/train/real.h"
#include "topo/topo.h"

enum {
    SCALE_MAX = 1000000000,
    TRIAL_SCALE_MAX = 1000000,
    TRIAL_STEPS = 3, /* after one to warm up; the shortest counts */
    TRIAL_PERCENT_MAX = 2,
    SLOW_PERCENT = 3 /* steps that are longer by this do not fit */
};

/* ---- what is asked for ----------------------------------------------------------------------- */

static int read_scale(const struct tutti_args *args, struct tutti_train_emulation *e,
                      struct tutti_err *err)
{
    const char *text = tutti_args_text(args, "scale");

    e->scale = 1;
    e->automatic = strcmp(text, "auto") == 0;
    if (e->automatic || tutti_read_count(text, 1, SCALE_MAX, &e->scale, NULL) == 0)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--scale': '%s' (a whole number from 1 to %d, or auto)", text,
                      SCALE_MAX);
}

static int check(const struct tutti_args *args, const struct tutti_run_command *run,
                 const struct tutti_run_group *with, const struct tutti_topo *topo,
                 struct tutti_err *err)
{
    if (tutti_args_given(args, "ranks") &&
        tutti_args_number(args, "ranks") != (uint64_t)topo->rank_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '-g': %" PRIu64 " ranks, but '%s' has %" PRIu32
                          " (that, or no -g)",
                          tutti_args_number(args, "ranks"), topo->name, topo->rank_count);
    if (topo->rank_count > TUTTI_RUN_RANKS_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--emulate': '%s' has %" PRIu32 " ranks (at most %d)", topo->name,
                          topo->rank_count, TUTTI_RUN_RANKS_MAX);
    if (run->grouped && with->group->count > topo->rank_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--emulate': '%s' has %" PRIu32 " ranks in %" PRIu32
                          " processes (at least one each)",
                          topo->name, topo->rank_count, with->group->count);
    return 0;
}

static int read_uneven(const struct tutti_args *args, struct tutti_train_emulation *e,
                       struct tutti_err *err)
{
    const uint64_t seed = tutti_args_number(args, "seed");
    int status = tutti_train_slow_read(args, &e->slow, err);

    if (status == 0)
        status = tutti_train_slow_paces(&e->slow, e->topo->rank_count, &e->paces, err);
    if (status == 0)
        status = tutti_perturb_read(args, true, &e->perturb, err);
    if (status < 0 || e->perturb.item_count == 0)
        return status;
    status = tutti_perturb_machine(e->topo, &e->perturb, seed, err);
    return status < 0
               ? status
               : tutti_perturb_starts(&e->perturb, seed, e->topo->rank_count, &e->starts_ps, err);
}

int tutti_train_emulation_open(const struct tutti_args *args, struct tutti_run_command *run,
                               const struct tutti_run_group *with,
                               struct tutti_train_emulation *ret, struct tutti_err *err)
{
    int status;

    if (!tutti_args_given(args, "emulate"))
        return 0;
    if (tutti_args_given(args, "calib") || tutti_args_given(args, "calibrate"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--emulate' beside '--%s', which is about this machine (one of "
                          "them)",
                          tutti_args_given(args, "calib") ? "calib" : "calibrate");
    status = read_scale(args, ret, err);
    if (status < 0)
        return status;
    status = tutti_machine_load(tutti_args_text(args, "emulate"),
                                (uint32_t)tutti_args_number(args, "nodes"), &ret->topo, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--emulate'");
    status = check(args, run, with, ret->topo, err);
    if (status == 0)
        status = read_uneven(args, ret, err);
    run->rank_count = ret->topo->rank_count;
    run->pin = tutti_args_flag(args, "pin") || (!run->grouped && !tutti_args_flag(args, "no-pin") &&
                                                run->rank_count <= tutti_run_processors());
    return status;
}

void tutti_train_emulation_close(struct tutti_train_emulation *e)
{
    tutti_shaper_close(e->shaper);
    tutti_topo_free(e->topo);
    free(e->paces);
    free(e->starts_ps);
    free(e->times);
    free(e->compute_ps);
    *e = (struct tutti_train_emulation){.topo = NULL};
}

/* ---- the device ------------------------------------------------------------------------------ */

int tutti_train_emulation_device(const struct tutti_args *args, struct tutti_device_use *use,
                                 struct tutti_err *err)
{
    const char *device = tutti_args_text(args, "device");
    const char *framework = tutti_args_text(args, "framework");
    const char *precision = tutti_args_text(args, "precision");
    int status = 0;

    if (device != NULL)
        status = tutti_accelerator_find(device, &use->accelerator, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--device'");
    if (framework != NULL)
        status = tutti_framework_find(framework, &use->framework, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--framework'");
    return precision == NULL ? 0 : tutti_precision_find(precision, &use->precision, err);
}

int tutti_train_emulation_time(const struct tutti_args *args, struct tutti_train_real *real,
                               struct tutti_err *err)
{
    struct tutti_train_emulation *e = &real->emulation;
    const uint64_t pieces = (uint64_t)real->run.rank_count * real->params.micro_batches;
    struct tutti_train_ask ask = {.size = sizeof(ask),
                                  .topo = e->topo,
                                  .model = real->model,
                                  .strategy = &real->strategy,
                                  .micro_batches = real->params.micro_batches,
                                  .shard_ranks = real->params.shard_ranks};
    int status = tutti_train_emulation_device(args, &ask.use, err);

    ask.use.batch = (uint32_t)((real->data.global_batch + pieces - 1) / pieces);
    if (status == 0)
        status = tutti_train_device_times(&ask, &e->times, &e->optimizer_ps,
                                          &real->params.compress_ps, err);
    if (status < 0)
        return status;
    real->params.times = e->times;
    real->params.optimizer_ps = e->optimizer_ps;
    return 0;
}

/* Devices that are not alike: stragglers, and those whose input is late. */
static tutti_ps compute_ps(const void *context, uint32_t rank, const struct tutti_step *step)
{
    const struct tutti_train_emulation *e = context;
    tutti_ps ps = step->duration_ps;

    if (e->paces != NULL)
        ps = (tutti_ps)tutti_muldiv_near((uint64_t)ps, e->paces[rank], TUTTI_PACE);
    if (e->starts_ps != NULL && e->schedule != NULL && step->peer > 0 &&
        e->schedule->work[step->peer - 1].kind == TUTTI_WORK_INPUT)
        ps += e->starts_ps[rank];
    return ps;
}

/* What a rank computes in a step there. */
static tutti_ps all_compute_ps(const struct tutti_train_emulation *e, uint32_t rank)
{
    const struct tutti_step *step;
    struct tutti_cursor cursor;
    tutti_ps sum_ps = 0;

    tutti_cursor_open(&cursor, e->schedule, rank, TUTTI_LANE_WORK);
    while ((step = tutti_cursor_next(&cursor)) != NULL)
        if (step->kind == TUTTI_COMPUTE)
            sum_ps += compute_ps(e, rank, step);
    return sum_ps;
}

/* ---- opening --------------------------------------------------------------------------------- */

static struct tutti_sim_opts simulated(const struct tutti_train_emulation *e)
{
    const bool uneven = e->paces != NULL || e->starts_ps != NULL;

    return (struct tutti_sim_opts){.size = sizeof(struct tutti_sim_opts),
                                   .topo = e->topo,
                                   .model = TUTTI_MODEL_FAIR,
                                   .compute_ps = uneven ? compute_ps : NULL,
                                   .compute_context = e};
}

static void close_all(struct tutti_train_real *real)
{
    tutti_trainer_close(real->trainer);
    tutti_backend_close(real->backend);
    tutti_shaper_close(real->emulation.shaper);
    real->trainer = NULL;
    real->backend = real->with.backend = NULL;
    real->emulation.shaper = NULL;
    real->emulation.schedule = NULL;
}

static int open_all(struct tutti_train_real *real, const struct tutti_trainer_params *given,
                    struct tutti_err *err)
{
    struct tutti_train_emulation *e = &real->emulation;
    const struct tutti_sim_opts sim = simulated(e);
    struct tutti_trainer_params params = *given;
    struct tutti_threads_opts opts = {.size = sizeof(struct tutti_threads_opts),
                                      .pin = real->run.pin,
                                      .slowdown = (double)e->scale};
    int status = tutti_sim_shaper_open(&sim, &e->shaper, err);

    opts.shaper = e->shaper;
    if (status == 0)
        status = !real->run.grouped ? tutti_threads_open(&opts, &real->backend, err)
                                    : tutti_run_group_emulate(&real->with, e->shaper, opts.slowdown,
                                                              &real->with.backend, err);
    if (real->run.grouped)
        real->backend = real->with.backend;
    params.backend = real->backend;
    if (status == 0)
        status = tutti_trainer_open(&params, &real->trainer, err);
    if (status == 0)
        e->schedule = tutti_trainer_schedule(real->trainer);
    if (status == 0 && e->compute_ps == NULL) {
        e->compute_ps = calloc(e->topo->rank_count, sizeof(e->compute_ps[0]));
        status = e->compute_ps == NULL ? tutti_nomem(err) : 0;
    }
    for (uint32_t i = 0; i < e->topo->rank_count && status == 0; i++)
        e->compute_ps[i] = all_compute_ps(e, i);
    return status;
}

static int predict(const struct tutti_train_emulation *e, struct tutti_train_parts *ret,
                   struct tutti_err *err)
{
    const struct tutti_sim_opts opts = simulated(e);
    struct tutti_record record;
    const struct tutti_play play = {
        .size = sizeof(play), .schedule = e->schedule, .iteration_count = 1, .record = &record};
    struct tutti_played played = {.total_ps = 0};
    struct tutti_train_pieces pieces = {.count = 0};
    struct tutti_backend *sim = NULL;
    int status = tutti_sim_open(&opts, &sim, err);

    tutti_record_init(&record);
    if (status == 0)
        status = tutti_backend_play(sim, &play, &played, err);
    tutti_backend_close(sim);
    if (status == 0)
        status = tutti_train_pieces_make(e->schedule, &record, &pieces, err);
    if (status == 0)
        *ret = tutti_train_pieces_parts(&pieces, played.total_ps);
    tutti_train_pieces_done(&pieces);
    tutti_record_done(&record);
    return status;
}

/* The shortest of a few steps, in the time of that machine. */
static int time_steps(struct tutti_train_real *real, tutti_ps *ret_ps, struct tutti_err *err)
{
    struct tutti_trained step = {.step_count = 1};
    tutti_ps best_ps = INT64_MAX;
    int status = 0;

    for (uint32_t i = 0; i <= TRIAL_STEPS && status == 0; i++) {
        status = tutti_trainer_step(real->trainer, &step, err);
        if (i > 0 && status == 0 && step.step_ps < best_ps)
            best_ps = step.step_ps;
    }
    *ret_ps = best_ps / step.step_count / (tutti_ps)real->emulation.scale;
    return status;
}

static int find_scale(struct tutti_train_real *real, struct tutti_err *err)
{
    struct tutti_trainer_params params = real->params;
    struct tutti_train_parts predicted = {.step_s = 0};
    tutti_ps step_ps = 0;
    bool fits = false;
    int status = 0;

    params.checkpoint = NULL;
    params.record = NULL;
    while (status == 0) {
        status = open_all(real, &params, err);
        if (status == 0)
            status = predict(&real->emulation, &predicted, err);
        if (status == 0)
            status = time_steps(real, &step_ps, err);
        close_all(real);
        fits = (double)step_ps <=
               predicted.step_s * (double)TUTTI_PS_PER_S * (1 + TRIAL_PERCENT_MAX / 100.0);
        if (status < 0 || fits || real->emulation.scale >= TRIAL_SCALE_MAX)
            break;
        real->emulation.scale *= 10;
    }
    return status;
}

int tutti_train_emulation_train(struct tutti_train_real *real, struct tutti_err *err)
{
    int status = real->emulation.automatic && real->steps > 0 ? find_scale(real, err) : 0;

    if (status == 0)
        status = open_all(real, &real->params, err);
    return status < 0 ? status : predict(&real->emulation, &real->predicted, err);
}

void tutti_train_emulation_step(struct tutti_train_emulation *e,
                                const struct tutti_backend *backend, struct tutti_trained *step)
{
    const double scale = (double)e->scale;

    e->lateness = tutti_threads_lateness(backend);
    step->step_ps = (tutti_ps)llround((double)step->step_ps / scale);
    step->compute_ps = e->compute_ps[0];
    step->input_ps = 0;
    step->update_ps = e->optimizer_ps;
}

int tutti_train_emulation_collective(const struct tutti_train_real *real,
                                     const struct tutti_coll_params *params,
                                     struct tutti_schedule **ret, struct tutti_err *err)
{
    const struct tutti_ask ask = {.size = sizeof(ask),
                                  .topo = real->emulation.topo,
                                  .algorithm = real->algorithm,
                                  .params = *params};

    return tutti_predict_schedule(&ask, ret, err);
}

/* ---- what is said of it ---------------------------------------------------------------------- */

void tutti_train_emulation_print_head(const struct tutti_train_emulation *e, FILE *out)
{
    fprintf(out, "# emulated: '%s', whose times these are; played at --scale %" PRIu64 "%s\n",
            e->topo->name, e->scale, e->automatic ? " (auto)" : "");
    tutti_train_slow_print(&e->slow, out);
    for (uint32_t i = 0; i < e->perturb.item_count; i++)
        fprintf(out, "# perturbed: %s\n", e->perturb.items[i].text);
}

void tutti_train_emulation_note(const struct tutti_train_emulation *e, double slow_percent,
                                struct tutti_sink *sink)
{
    const struct tutti_lateness *l = &e->lateness;

    if (slow_percent < SLOW_PERCENT)
        return;
    fprintf(sink->notes, "tutti train: the work here does not fit into --scale %" PRIu64 ": ",
            e->scale);
    fprintf(sink->notes, "steps are %.0f %% longer than simulated; %" PRIu64 " of %" PRIu64,
            slow_percent, l->computed_late_count, l->computed_count);
    fprintf(sink->notes,
            " COMPUTEs were late, the slowest fits into %.0f (a larger one, or auto)\n",
            ceil(l->computed_slowdown));
}

void tutti_train_emulation_json(const struct tutti_train_emulation *e, FILE *out)
{
    const struct tutti_lateness *l = &e->lateness;

    fprintf(out, ",\"emulated\":{\"topology\":\"%s\",\"scale\":%" PRIu64, e->topo->name, e->scale);
    fprintf(out, ",\"clock_s\":%.12g", (double)l->clock_ps / (double)TUTTI_PS_PER_S);
    fprintf(out, ",\"instants\":%" PRIu64 ",\"late_instants\":%" PRIu64, l->instant_count,
            l->late_count);
    fprintf(out, ",\"computes\":%" PRIu64 ",\"late_computes\":%" PRIu64, l->computed_count,
            l->computed_late_count);
    fprintf(out, ",\"slowest_fits_scale\":%.3g}", l->computed_slowdown);
}
