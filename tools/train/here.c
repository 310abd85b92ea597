/* Predicts steps by what pieces of others have taken; see here.h. */
#include "tools/train/here.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/step.h"
#include "tools/cli/machine.h"
#include "tools/train/real.h"

/* ---- the text -------------------------------------------------------------------------------- */

static bool parse_line(const char *text, struct tutti_train_here_line *ret)
{
    struct tutti_train_here_line line = {.x = 0};
    char pass[16];

    if (sscanf(text, "layer %63s %63s %15s %lf %lf", line.name, line.layer, pass, &line.x,
               &line.s) == 5) {
        line.backward = strcmp(pass, "backward") == 0;
        (void)snprintf(line.kind, sizeof(line.kind), "layer");
        if (!line.backward && strcmp(pass, "forward") != 0)
            return false;
    } else if (sscanf(text, "input %63s %lf %lf", line.name, &line.x, &line.s) == 3) {
        (void)snprintf(line.kind, sizeof(line.kind), "input");
    } else if (sscanf(text, "update %63s %lf %lf", line.name, &line.x, &line.s) == 3) {
        (void)snprintf(line.kind, sizeof(line.kind), "update");
    } else if (sscanf(text, "call %lf %lf %lf", &line.x, &line.bytes, &line.s) == 3) {
        (void)snprintf(line.kind, sizeof(line.kind), "call");
    } else if (sscanf(text, "step %63s %lf", line.name, &line.s) == 2) {
        (void)snprintf(line.kind, sizeof(line.kind), "step");
    } else {
        return false;
    }
    *ret = line;
    return isfinite(line.s) && line.s >= 0 && isfinite(line.x) && line.x >= 0;
}

static int parse_head(const char *name, uint32_t number, const char *text, const char *backend,
                      struct tutti_err *err)
{
    char word[32] = "";

    if (number == 1 && strcmp(text, "tutti pieces 1") != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s: line 1: '%.40s' (tutti pieces 1: of train -B --calibrate)", name,
                          text);
    if (number == 2 && (sscanf(text, "backend %31s", word) != 1 || strcmp(word, backend) != 0))
        return tutti_fail(err, TUTTI_EINVAL, "%s: line 2: '%.40s' (backend %s)", name, text,
                          backend);
    return 0;
}

int tutti_train_here_parse(const char *name, const char *text, const char *backend,
                           struct tutti_train_here *ret, struct tutti_err *err)
{
    struct tutti_train_here here = {.count = 0};
    uint32_t number = 0;
    int status = 0;

    here.lines = calloc(strlen(text) / 4 + 1, sizeof(here.lines[0]));
    if (here.lines == NULL)
        return tutti_nomem(err);
    while (*text != '\0' && status == 0) {
        const size_t length = strcspn(text, "\n");
        char line[256];

        (void)snprintf(line, sizeof(line), "%.*s", (int)(length < 255 ? length : 255), text);
        text += length + (text[length] == '\n');
        number++;
        if (number <= 2)
            status = parse_head(name, number, line, backend, err);
        else if (line[0] != '#' && line[0] != '\0' && !parse_line(line, &here.lines[here.count++]))
            status = tutti_fail(err, TUTTI_EINVAL,
                                "%s: line %u: '%.60s' (layer, input, update, call or step)", name,
                                number, line);
    }
    if (status == 0 && number < 2)
        status = parse_head(name, 1, "", backend, err);
    if (status < 0)
        tutti_train_here_done(&here);
    else
        *ret = here;
    return status;
}

void tutti_train_here_done(struct tutti_train_here *here)
{
    free(here->lines);
    *here = (struct tutti_train_here){.count = 0};
}

/* ---- fits ------------------------------------------------------------------------------------ */

/* y = a * f[0] + b * f[1], of lines by least squares of relative errors; none is negative. */
struct fit {
    double ff[3]; /* sums over lines of f0 f0, f0 f1, f1 f1, each over y y */
    double fy[2]; /* of f over y */
    double a;
    double b;
    uint32_t count;
};

static void add(struct fit *fit, double f0, double f1, double y)
{
    if (y <= 0)
        return;
    fit->ff[0] += f0 * f0 / (y * y);
    fit->ff[1] += f0 * f1 / (y * y);
    fit->ff[2] += f1 * f1 / (y * y);
    fit->fy[0] += f0 / y;
    fit->fy[1] += f1 / y;
    fit->count++;
}

static void solve(struct fit *fit)
{
    const double determinant = fit->ff[0] * fit->ff[2] - fit->ff[1] * fit->ff[1];

    fit->a = fit->b = 0;
    if (determinant > 1e-9 * fit->ff[0] * fit->ff[2]) {
        fit->a = (fit->fy[0] * fit->ff[2] - fit->fy[1] * fit->ff[1]) / determinant;
        fit->b = (fit->fy[1] * fit->ff[0] - fit->fy[0] * fit->ff[1]) / determinant;
        if (fit->a >= 0 && fit->b >= 0)
            return;
    }
    if (fit->ff[2] > 0 && !(fit->b < 0)) {
        fit->a = 0;
        fit->b = fit->fy[1] / fit->ff[2];
    } else {
        fit->b = 0;
        fit->a = fit->ff[0] > 0 ? fit->fy[0] / fit->ff[0] : 0;
    }
}

static tutti_ps ps_of(double s)
{
    return (tutti_ps)llround(s * (double)TUTTI_PS_PER_S);
}

/* What `x` examples take, of the lines that are alike. */
static int line_ps(const struct tutti_train_here *here, const struct tutti_train_here_line *like,
                   tutti_ps *ret, struct tutti_err *err)
{
    struct fit fit = {.count = 0};
    const bool grows = strcmp(like->kind, "update") == 0; /* from nothing on */

    for (size_t i = 0; i < here->count; i++) {
        const struct tutti_train_here_line *l = &here->lines[i];

        if (strcmp(l->kind, like->kind) == 0 && strcmp(l->name, like->name) == 0 &&
            strcmp(l->layer, like->layer) == 0 && l->backward == like->backward)
            add(&fit, grows ? 0 : 1, l->x, l->s);
    }
    if (fit.count == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--calib': %s '%s%s%s' was not measured there (--calibrate)",
                          like->kind, like->name, like->layer[0] != '\0' ? "." : "", like->layer);
    solve(&fit);
    *ret = ps_of(fit.a + fit.b * like->x);
    return 0;
}

double tutti_train_here_examples(const struct tutti_train_real *real)
{
    return (double)real->data.global_batch / real->run.rank_count / real->data.micro_batches;
}

double tutti_train_here_elements(const struct tutti_train_real *real)
{
    const uint32_t shares = real->strategy.sharding == TUTTI_SHARD_NONE ? 1
                            : real->params.shard_ranks > 0              ? real->params.shard_ranks
                                                                        : real->run.rank_count;

    return (double)tutti_model_sum(real->model).parameters / shares;
}

/* An entry of the work table: `optimizer` stands for all of the update. */
static int entry_ps(const struct tutti_train_here *here, const struct tutti_train_real *real,
                    const struct tutti_schedule *schedule, uint32_t entry, tutti_ps *ret,
                    struct tutti_err *err)
{
    const char *work = schedule->work[entry].name;
    struct tutti_train_here_line like = {.x = tutti_train_here_examples(real)};
    const struct tutti_layer *layer;

    *ret = 0;
    (void)snprintf(like.name, sizeof(like.name), "%.63s", real->model->name);
    switch (tutti_train_work_class(schedule, entry)) {
    case TUTTI_TRAIN_WORK_LAYER:
        layer = tutti_train_work_layer(real->model, work, &like.backward);
        (void)snprintf(like.kind, sizeof(like.kind), "layer");
        (void)snprintf(like.layer, sizeof(like.layer), "%.63s", layer != NULL ? layer->name : work);
        break;
    case TUTTI_TRAIN_WORK_INPUT:
        (void)snprintf(like.kind, sizeof(like.kind), "input");
        break;
    default:
        if (strcmp(work, "optimizer") != 0 && strcmp(work, "local-optimizer") != 0)
            return 0;
        (void)snprintf(like.kind, sizeof(like.kind), "update");
        (void)snprintf(like.name, sizeof(like.name), "%.63s", real->optimizer);
        like.x = tutti_train_here_elements(real);
    }
    return line_ps(here, &like, ret, err);
}

/* ---- collectives ----------------------------------------------------------------------------- */

void tutti_train_here_call(const struct tutti_schedule *callee, double *ret_messages,
                           double *ret_bytes)
{
    *ret_messages = *ret_bytes = 0;
    for (uint32_t lane = 0; lane < callee->lane_count; lane++) {
        struct tutti_cursor cursor;
        const struct tutti_step *step;
        double messages = 0;

        tutti_cursor_open(&cursor, callee, 0, lane);
        while ((step = tutti_cursor_next(&cursor)) != NULL) {
            messages += step->kind == TUTTI_RECV;
            *ret_bytes += step->kind == TUTTI_SEND ? (double)step->bytes : 0;
        }
        *ret_messages = fmax(*ret_messages, messages);
    }
}

struct pricing {
    const struct tutti_schedule *schedule;
    struct fit fit;
};

static int price(void *context, uint32_t callee, uint32_t axis, struct tutti_call_price *ret,
                 struct tutti_err *err)
{
    const struct pricing *p = context;
    double messages;
    double bytes;
    double s;

    (void)axis;
    (void)err;
    tutti_train_here_call(p->schedule->callees[callee], &messages, &bytes);
    s = p->fit.a * messages + p->fit.b * bytes;
    *ret = (struct tutti_call_price){.alone_ps = ps_of(s)};
    if (s > 0)
        ret->device_share = (uint32_t)(0.999 * p->fit.b * bytes / s * TUTTI_SHARE_ONE);
    return 0;
}

/* ---- the step -------------------------------------------------------------------------------- */

/* Of every entry of the work table. */
struct durations {
    tutti_ps *ps;
};

static tutti_ps duration_ps(const void *context, const struct tutti_step *step)
{
    const struct durations *d = context;

    return step->peer > 0 ? d->ps[step->peer - 1] : 0;
}

/* What rank 0 computes, of which several steps of local SGD are in one play. */
static double add_parts(const struct tutti_schedule *schedule, const struct durations *d,
                        struct tutti_train_parts *parts)
{
    struct tutti_cursor cursor;
    const struct tutti_step *step;
    double inputs = 0;

    tutti_cursor_open(&cursor, schedule, 0, TUTTI_LANE_WORK);
    while ((step = tutti_cursor_next(&cursor)) != NULL) {
        const double s = (double)duration_ps(d, step) / (double)TUTTI_PS_PER_S;

        if (step->kind != TUTTI_COMPUTE)
            continue;
        switch (tutti_train_work_class(schedule, step->peer - 1)) {
        case TUTTI_TRAIN_WORK_INPUT:
            parts->input_s += s;
            inputs++;
            break;
        case TUTTI_TRAIN_WORK_LAYER:
            parts->compute_s += s;
            break;
        default:
            parts->update_s += s;
        }
    }
    return inputs;
}

const char *tutti_train_here_sharing(const struct tutti_train_real *real)
{
    if (real->run.rank_count == 1 || real->strategy.sharding == TUTTI_SHARD_NONE)
        return "none";
    return real->strategy.sharding == TUTTI_SHARD_ZERO3 ? "zero3" : "zero";
}

/* The mean of what steps that share as much have taken beside all else; where there were none, of
 * those of the others. */
static double beside_s(const struct tutti_train_here *here, const char *sharing)
{
    double sum[2] = {0, 0};
    double count[2] = {0, 0};

    for (size_t i = 0; i < here->count; i++) {
        const bool same = strcmp(here->lines[i].name, sharing) == 0;

        if (strcmp(here->lines[i].kind, "step") != 0)
            continue;
        sum[same] += here->lines[i].s;
        count[same]++;
    }
    return count[1] > 0 ? sum[1] / count[1] : count[0] > 0 ? sum[0] / count[0] : 0;
}

static int play(const struct tutti_train_here *here, const struct tutti_schedule *schedule,
                const struct durations *d, tutti_ps *ret_ps, struct tutti_err *err)
{
    struct pricing pricing = {.schedule = schedule};
    struct tutti_step_opts opts = {.size = sizeof(opts),
                                   .schedule = schedule,
                                   .price = price,
                                   .price_context = &pricing,
                                   .compute_ps = duration_ps,
                                   .compute_context = d};
    struct tutti_stepped stepped = {.total_ps = 0};
    struct tutti_topo *topo = NULL;
    char spec[64];
    int status;

    for (size_t i = 0; i < here->count; i++)
        if (strcmp(here->lines[i].kind, "call") == 0)
            add(&pricing.fit, here->lines[i].x, here->lines[i].bytes, here->lines[i].s);
    solve(&pricing.fit);
    if (pricing.fit.count == 0 && schedule->rank_count > 1)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--calib': no collective was measured there (--calibrate, with "
                          "two ranks or more)");
    (void)snprintf(spec, sizeof(spec), "switch:n=%u", schedule->rank_count);
    status = tutti_machine_load(spec, 1, &topo, err);
    opts.topo = topo;
    if (status == 0)
        status = tutti_step_play(&opts, &stepped, err);
    tutti_topo_free(topo);
    *ret_ps = stepped.total_ps;
    return status;
}

int tutti_train_here_predict(const struct tutti_train_here *here,
                             const struct tutti_train_real *real, struct tutti_train_parts *ret,
                             struct tutti_err *err)
{
    const struct tutti_schedule *schedule = tutti_trainer_schedule(real->trainer);
    struct durations d = {.ps = calloc(schedule->work_count + (size_t)1, sizeof(d.ps[0]))};
    struct tutti_train_parts parts = {.step_s = 0};
    tutti_ps total_ps = 0;
    double inputs;
    int status = d.ps == NULL ? tutti_nomem(err) : 0;

    for (uint32_t i = 0; i < schedule->work_count && status == 0; i++)
        status = entry_ps(here, real, schedule, i, &d.ps[i], err);
    if (status == 0)
        status = play(here, schedule, &d, &total_ps, err);
    if (status == 0) {
        inputs = add_parts(schedule, &d, &parts);
        parts.compute_s /= inputs;
        parts.input_s /= inputs;
        parts.update_s /= inputs;
        parts.step_s = ((double)total_ps / (double)TUTTI_PS_PER_S +
                        beside_s(here, tutti_train_here_sharing(real))) /
                       inputs;
        parts.exposed_s = parts.step_s - parts.compute_s - parts.input_s - parts.update_s;
        *ret = parts;
    }
    free(d.ps);
    return status;
}
