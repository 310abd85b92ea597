/* Emulates a machine on this one; see run_emulate.h. */
#include "tools/run/run_emulate.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/group.h"
#include "runtime/shaper.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/shaper.h"
#include "tools/cli/json.h"
#include "tools/cli/machine.h"
#include "tools/run/run_group.h"
#include "tools/sweep/sweep.h"

enum {
    /* Unless told otherwise: times vary little, and each iteration takes long. */
    WARMUP_COUNT = 1,
    ITERATION_COUNT = 5,
    /* To find a scale. */
    TRIAL_ITERATIONS = 3,
    TRIAL_PERCENT_MAX = 2,
    TRIAL_SCALE_MAX = 1000000,
};

/* ---- what is asked for ----------------------------------------------------------------------- */

static int read_scale(const struct tutti_args *args, struct tutti_emulation *emulation,
                      struct tutti_err *err)
{
    const char *text = tutti_args_text(args, "scale");
    int status;

    emulation->scale = 1;
    emulation->automatic = strcmp(text, "auto") == 0;
    if (emulation->automatic)
        return 0;
    status = tutti_read_count(text, 1, TUTTI_EMULATE_SCALE_MAX, &emulation->scale, err);
    if (status < 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--scale': '%s' (a whole number from 1 to %d, or auto)", text,
                          TUTTI_EMULATE_SCALE_MAX);
    return 0;
}

static int settle_ranks(const struct tutti_args *args, struct tutti_run_command *run,
                        const struct tutti_run_group *with, const struct tutti_topo *topo,
                        struct tutti_err *err)
{
    if (tutti_args_given(args, "ranks") && run->rank_count != topo->rank_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '-g': %" PRIu32 " ranks, but '%s' has %" PRIu32
                          " (that, or no -g)",
                          run->rank_count, topo->name, topo->rank_count);
    if (tutti_own_fits_machine(&run->own, topo, err) < 0)
        return -TUTTI_EINVAL;
    if (topo->rank_count > TUTTI_RUN_RANKS_MAX)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--emulate': '%s' has %" PRIu32 " ranks (at most %d)", topo->name,
                          topo->rank_count, TUTTI_RUN_RANKS_MAX);
    if (with != NULL && with->group->count > topo->rank_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--emulate': '%s' has %" PRIu32 " ranks in %" PRIu32
                          " processes (at least one each)",
                          topo->name, topo->rank_count, with->group->count);
    run->rank_count = topo->rank_count;
    run->pin = tutti_args_flag(args, "pin") || (with == NULL && !tutti_args_flag(args, "no-pin") &&
                                                run->rank_count <= tutti_run_processors());
    if (!tutti_args_given(args, "warmup-iters"))
        run->perform.warmup_count = WARMUP_COUNT;
    if (!tutti_args_given(args, "iters"))
        run->perform.iteration_count = ITERATION_COUNT;
    return 0;
}

static int open_here(const struct tutti_args *args, struct tutti_run_command *run,
                     const struct tutti_run_group *with, struct tutti_emulation *ret,
                     struct tutti_err *err)
{
    int status;

    *ret = (struct tutti_emulation){
        .with = with,
        .ask = {.size = sizeof(struct tutti_ask),
                .empty = true,
                .step_count_max = tutti_run_steps_max(args, run),
                .reduce_bytes_per_s = tutti_args_number(args, "reduce-rate")}};
    status = read_scale(args, ret, err);
    if (status < 0)
        return status;
    status = tutti_model_find(tutti_args_text(args, "model"), &ret->ask.model, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--model'");
    status = tutti_machine_load(tutti_args_text(args, "emulate"),
                                (uint32_t)tutti_args_number(args, "nodes"), &ret->topo, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--emulate'");
    ret->ask.topo = ret->topo;
    ret->ask.protocol = tutti_sweep_protocol(ret->topo, tutti_args_text(args, "protocol"));
    ret->ask.params = run->perform.params;
    status = tutti_calib_choose(args, ret->topo, ret->ask.protocol, &ret->calib, err);
    if (status < 0)
        return status;
    ret->ask.protocols = ret->calib.made.protocols;
    return settle_ranks(args, run, with, ret->topo, err);
}

int tutti_emulation_open(const struct tutti_args *args, struct tutti_run_command *run,
                         const struct tutti_run_group *with, struct tutti_emulation *ret,
                         struct tutti_err *err)
{
    int status = open_here(args, run, with, ret, err);

    return tutti_run_group_agree(with, status, run->perform.deadline_ps, err);
}

void tutti_emulation_close(struct tutti_emulation *emulation)
{
    tutti_topo_free(emulation->topo);
    emulation->topo = NULL;
}

/* ---- running --------------------------------------------------------------------------------- */

/* What was measured here, as the clock of the emulated machine has it: that does not depend on how
 * many times as slow it was played. */
static void tell_in_its_time(const struct tutti_emulation *emulation,
                             struct tutti_performed *performed)
{
    double scale = (double)emulation->scale;

    performed->out_of_place.time_ps =
        (tutti_ps)llround((double)performed->out_of_place.time_ps / scale);
    performed->out_of_place.best_ps =
        (tutti_ps)llround((double)performed->out_of_place.best_ps / scale);
    performed->out_of_place.algbw_GBps *= scale;
    performed->out_of_place.busbw_GBps *= scale;
}

static void add_lateness(struct tutti_lateness *sum, const struct tutti_lateness *lateness)
{
    sum->clock_ps = lateness->clock_ps;
    sum->instant_count += lateness->instant_count;
    sum->late_count += lateness->late_count;
    sum->late_ps_max =
        lateness->late_ps_max > sum->late_ps_max ? lateness->late_ps_max : sum->late_ps_max;
    sum->work_ps += lateness->work_ps;
    sum->rest_ps += lateness->rest_ps;
}

static int open_backend(const struct tutti_run_command *run,
                        const struct tutti_emulation *emulation, struct tutti_shaper *shaper,
                        struct tutti_backend **ret, struct tutti_err *err)
{
    struct tutti_threads_opts opts = {.size = sizeof(struct tutti_threads_opts),
                                      .pin = run->pin,
                                      .shaper = shaper,
                                      .slowdown = (double)emulation->scale};

    return emulation->with == NULL
               ? tutti_threads_open(&opts, ret, err)
               : tutti_run_group_emulate(emulation->with, shaper, opts.slowdown, ret, err);
}

/* Plays what the simulator has predicted. */
static int play_answer(const struct tutti_run_command *run, struct tutti_emulation *emulation,
                       const struct tutti_ask *ask, const struct tutti_answer *answer,
                       const struct tutti_perform *how, struct tutti_run_row *row,
                       struct tutti_err *err)
{
    struct tutti_sim_opts sim = {.size = sizeof(struct tutti_sim_opts),
                                 .topo = ask->topo,
                                 .model = ask->model,
                                 .reduce_bytes_per_s = ask->reduce_bytes_per_s};
    struct tutti_perform perform = *how;
    struct tutti_shaper *shaper = NULL;
    struct tutti_lateness lateness;
    int status = tutti_ask_protocol(ask, answer->protocol, &sim.protocol, err);

    perform.shape = &ask->topo->shape;
    perform.params = ask->params;
    perform.predicted = ask;
    if (emulation->with != NULL)
        perform.group = emulation->with->group;
    if (status == 0)
        status = tutti_sim_shaper_open(&sim, &shaper, err);
    if (status == 0)
        status = open_backend(run, emulation, shaper, &perform.backend, err);
    if (status == 0)
        status = tutti_perform(&perform, answer->algorithm, &row->performed, err);
    if (status == 0) {
        lateness = tutti_threads_lateness(perform.backend);
        add_lateness(&emulation->lateness, &lateness);
        row->count = ask->params.count;
        row->protocol = answer->protocol;
        row->predicted_ps = answer->time_ps;
        tell_in_its_time(emulation, &row->performed);
    }
    tutti_backend_close(perform.backend);
    tutti_shaper_close(shaper);
    return status;
}

static double percent_slow(const struct tutti_run_row *row, tutti_ps time_ps)
{
    if (row->predicted_ps == 0)
        return 0;
    return 100.0 * ((double)time_ps / (double)row->predicted_ps - 1.0);
}

/* Raises the scale until this machine keeps up with one row. */
static int find_scale(const struct tutti_run_command *run, struct tutti_emulation *emulation,
                      const struct tutti_ask *ask, const struct tutti_answer *answer,
                      struct tutti_err *err)
{
    struct tutti_perform how = run->perform;

    how.warmup_count = 1;
    how.iteration_count = TRIAL_ITERATIONS;
    how.back_to_back = false;
    how.check = false;
    how.record = NULL;
    for (;;) {
        struct tutti_run_row row = {0};
        int status = play_answer(run, emulation, ask, answer, &how, &row, err);

        if (status < 0 ||
            percent_slow(&row, row.performed.out_of_place.best_ps) <= TRIAL_PERCENT_MAX ||
            emulation->scale >= TRIAL_SCALE_MAX)
            return status;
        emulation->scale *= 10;
    }
}

static int play_row(const struct tutti_run_command *run, struct tutti_emulation *emulation,
                    const struct tutti_ask *ask, const struct tutti_answer *answer,
                    struct tutti_run_rows *rows, struct tutti_err *err)
{
    struct tutti_perform how = run->perform;
    struct tutti_run_row row = {.kind = run->kinds[0]};
    double percent;
    int status;

    status = play_answer(run, emulation, ask, answer, &how, &row, err);
    if (status < 0)
        return status;
    percent = percent_slow(&row, row.performed.out_of_place.time_ps);
    tutti_run_note_left_out(rows, answer);
    emulation->row_count++;
    emulation->slow_count += percent >= TUTTI_EMULATE_SLOW_PERCENT;
    emulation->worst_percent = fmax(emulation->worst_percent, percent);
    return tutti_run_add(rows, &row) < 0 ? tutti_nomem(err) : 0;
}

/* One walk over all rows: to find the scale (rows NULL), or to play them. */
static int walk(struct tutti_run_command *run, struct tutti_emulation *emulation,
                const char *command, struct tutti_run_rows *rows, struct tutti_sink *sink,
                struct tutti_err *err)
{
    struct tutti_record *record = run->perform.record;
    struct tutti_ask ask = emulation->ask;
    struct tutti_answer answer;
    char size[TUTTI_UNIT_TEXT_BYTES];
    uint32_t fit_count = 0;
    int status = 0;

    for (uint32_t i = 0; status == 0 && i < run->sizes.count; i++) {
        ask.params.count = tutti_run_count(run, i);
        run->perform.record = i + 1 == run->sizes.count ? run->record : NULL;
        for (size_t k = 0; status == 0 && run->algorithms[k] != NULL; k++) {
            ask.algorithm = run->algorithms[k];
            tutti_run_show(command, rows == NULL ? "scale for" : ask.algorithm,
                           tutti_print_size(tutti_sizes_at(&run->sizes, i), size), sink);
            status = tutti_predict(&ask, &answer, err);
            if (status == 0 && rows == NULL)
                status = find_scale(run, emulation, &ask, &answer, err);
            else if (status == 0)
                status = play_row(run, emulation, &ask, &answer, rows, err);
            if (status == -TUTTI_EINVAL && run->all)
                status = 0; /* does not fit this machine: the next one */
            else
                fit_count++;
        }
    }
    tutti_run_show(command, NULL, NULL, sink);
    run->perform.record = record;
    if (status == 0 && fit_count == 0)
        status = tutti_fail(err, TUTTI_EINVAL, "no algorithm for %s fits '%s'",
                            tutti_collective_name(run->perform.params.collective), ask.topo->name);
    return status;
}

int tutti_run_emulated(struct tutti_run_command *run, struct tutti_emulation *emulation,
                       const char *command, struct tutti_run_rows *ret, struct tutti_sink *sink,
                       struct tutti_err *err)
{
    struct tutti_run_rows rows = {0};
    int status = 0;

    if (emulation->automatic)
        status = walk(run, emulation, command, NULL, sink, err);
    emulation->lateness = (struct tutti_lateness){0};
    if (status == 0)
        status = walk(run, emulation, command, &rows, sink, err);
    if (status < 0)
        tutti_run_rows_done(&rows);
    else
        *ret = rows;
    return status;
}

/* ---- what is said of it ---------------------------------------------------------------------- */

static double work_percent(const struct tutti_lateness *lateness)
{
    double all_ps = (double)lateness->work_ps + (double)lateness->rest_ps;

    return all_ps > 0 ? 100.0 * (double)lateness->work_ps / all_ps : 0;
}

/* What took longer here than it should is bounded by what this machine can move in the time, which
 * does not depend on the scale: one that makes the worst row's own time as long as it took. Rounded
 * up to two digits, as it was measured once. */
static double scale_that_may_do(const struct tutti_emulation *emulation)
{
    double scale = (double)emulation->scale * (1 + emulation->worst_percent / 100);
    double unit = pow(10, fmax(floor(log10(scale)) - 1, 0));

    return ceil(scale / unit) * unit;
}

void tutti_emulation_print_head(const struct tutti_emulation *emulation, bool verbose, FILE *out)
{
    const struct tutti_ask *ask = &emulation->ask;
    char rate[TUTTI_UNIT_TEXT_BYTES];

    fprintf(out, "# emulated:  '%s', whose times these are; played at --scale %" PRIu64 "%s\n",
            ask->topo->name, emulation->scale, emulation->automatic ? " (auto)" : "");
    if (!verbose)
        return;
    fprintf(out,
            "# held back: each message by its route, the links it shares (%s) and what its "
            "protocol costs; adding and copying ",
            tutti_model_name(ask->model));
    if (ask->reduce_bytes_per_s == 0)
        fprintf(out, "hidden behind the wire\n");
    else
        fprintf(out, "at %s\n", tutti_print_rate(ask->reduce_bytes_per_s, rate));
    fputs("# predicted: the same schedule simulated on that machine\n", out);
    tutti_calib_print_choice(&emulation->calib, out);
}

void tutti_emulation_print_tail(const struct tutti_emulation *emulation, FILE *out)
{
    const struct tutti_lateness *lateness = &emulation->lateness;

    fprintf(out,
            "# kept time: %" PRIu64 " of %" PRIu64
            " instants late, at worst by %.0f us here; threads at work "
            "%.0f %% of the time\n",
            lateness->late_count, lateness->instant_count,
            (double)lateness->late_ps_max / (double)TUTTI_PS_PER_US, work_percent(lateness));
    if (emulation->slow_count == 0)
        return;
    fprintf(out,
            "# NOT faithful: %" PRIu32 " of %" PRIu32
            " rows up to %.0f %% too slow here at --scale "
            "%" PRIu64 " (%.0f may do, or auto)\n",
            emulation->slow_count, emulation->row_count, emulation->worst_percent, emulation->scale,
            scale_that_may_do(emulation));
}

void tutti_emulation_json(const struct tutti_emulation *emulation, struct tutti_json *json)
{
    const struct tutti_lateness *lateness = &emulation->lateness;

    tutti_json_open(json, "emulated", '{');
    tutti_json_text(json, "topology", emulation->ask.topo->name);
    tutti_json_count(json, "scale", emulation->scale);
    tutti_json_text(json, "model", tutti_model_name(emulation->ask.model));
    tutti_calib_json_choice(&emulation->calib, json);
    tutti_json_count(json, "reduce_bytes_per_s", emulation->ask.reduce_bytes_per_s);
    tutti_json_count(json, "instants", lateness->instant_count);
    tutti_json_count(json, "late_instants", lateness->late_count);
    tutti_json_number(json, "late_us_max", (double)lateness->late_ps_max / (double)TUTTI_PS_PER_US);
    tutti_json_number(json, "work_percent", work_percent(lateness));
    tutti_json_count(json, "slow_rows", emulation->slow_count);
    tutti_json_close(json);
}
