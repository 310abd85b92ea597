/* A measured step that scales what devices take; see anchor.h. */
#include "tools/train/anchor.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/units.h"
#include "tools/cli/output.h"
#include "tools/train/found.h"
#include "topo/topo.h"

enum { WORD_BYTES = 64, ROUNDS_MAX = 12, COUNT_MAX = 1 << 24 };

/* What is exposed of collectives changes with the pace: near enough. */
static const double NEAR = 1e-4;

/* ---- the option ------------------------------------------------------------------------------ */

static int read_count(const char *word, const char *name, uint32_t *ret, struct tutti_err *err)
{
    char *end;
    unsigned long long value = strtoull(word + strlen(name), &end, 10);

    if (*ret > 0)
        return tutti_fail(err, TUTTI_EINVAL, "option '--anchor': '%s' after another (one)", word);
    if (end == word + strlen(name) || *end != '\0' || word[strlen(name)] == '-' || value == 0 ||
        value > COUNT_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "option '--anchor': '%s' (%sN, of 1 to %d)", word,
                          name, COUNT_MAX);
    *ret = (uint32_t)value;
    return 0;
}

static int read_word(const char *word, struct tutti_train_anchor *anchor, struct tutti_err *err)
{
    const struct {
        const char *name;
        uint32_t *value;
    } settings[] = {{"devices=", &anchor->device_count},
                    {"batch=", &anchor->batch},
                    {"accumulate=", &anchor->micro_batches}};

    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        if (strncmp(word, settings[i].name, strlen(settings[i].name)) == 0)
            return read_count(word, settings[i].name, settings[i].value, err);
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--anchor': '%s' is no setting of a step (devices=N, batch=N, "
                      "accumulate=N)",
                      word);
}

int tutti_train_anchor_read(const struct tutti_args *args, struct tutti_train_question *q,
                            struct tutti_err *err)
{
    const char *text = tutti_args_text(args, "anchor");
    struct tutti_train_anchor anchor = {.step_ps = 0};
    int status = 0;

    if (text == NULL)
        return 0;
    if (tutti_args_given(args, "step-time"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "options '--anchor' and '--step-time' both say how fast a device is (one "
                          "of them)");
    for (bool first = true; status == 0; first = false) {
        size_t bytes = strcspn(text, ",");
        char word[WORD_BYTES];

        (void)snprintf(word, sizeof(word), "%.*s", (int)(bytes < WORD_BYTES ? bytes : WORD_BYTES),
                       text);
        status =
            first ? tutti_read_time(word, &anchor.step_ps, err) : read_word(word, &anchor, err);
        if (first && status < 0)
            return tutti_wrap(err, status, "option '--anchor'");
        if (status == 0 && anchor.step_ps <= 0)
            status =
                tutti_fail(err, TUTTI_EINVAL, "option '--anchor': a step of '%s' (more)", word);
        if (text[bytes] == '\0')
            break;
        text += bytes + 1;
    }
    if (status < 0)
        return status;
    if (anchor.device_count == 0)
        anchor.device_count = q->topo->rank_count;
    q->anchor = anchor;
    return 0;
}

/* ---- the pace -------------------------------------------------------------------------------- */

/* As often as it takes until the step is predicted as measured. */
static int solve(const struct tutti_args *args, const struct tutti_train_question *q,
                 const struct tutti_topo *topo, double *ret, struct tutti_err *err)
{
    double measured_ps = (double)q->anchor.step_ps;
    struct tutti_train_question of_anchor = *q;
    struct tutti_train_found found;
    double other_ps = 0;

    *ret = 1;
    for (int i = 0; i < ROUNDS_MAX; i++) {
        double compute_ps;
        int status;

        of_anchor.ask.pace = *ret;
        status = tutti_train_ask_one(args, &of_anchor, topo, &found, err);
        if (status < 0)
            return status;
        if (fabs((double)found.answer.step_ps / measured_ps - 1) < NEAR)
            return 0;
        compute_ps = (double)found.answer.split.compute_ps;
        other_ps = (double)found.answer.step_ps - compute_ps;
        *ret *= fmax((measured_ps - other_ps) / compute_ps, 0.1);
    }
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--anchor': a step of %.4g s on %u device%s, which wait %.4g s of it "
                      "for what is no work of theirs, whatever their pace: %s",
                      measured_ps / (double)TUTTI_PS_PER_S, topo->rank_count,
                      topo->rank_count == 1 ? "" : "s", other_ps / (double)TUTTI_PS_PER_S,
                      found.answer.limited_by);
}

int tutti_train_anchor_solve(const struct tutti_args *args, struct tutti_train_question *q,
                             struct tutti_err *err)
{
    struct tutti_train_question of_anchor = *q;
    struct tutti_topo *topo = NULL;
    int status;

    if (q->anchor.step_ps == 0)
        return 0;
    if (q->anchor.batch == 0 && q->global_batch > 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "option '--anchor': its batch (batch=N a device and micro-batch; "
                          "'--global-batch' says that of other numbers of devices)");
    if (q->anchor.batch == 0)
        q->anchor.batch = q->ask.use.batch;
    if (q->anchor.micro_batches == 0)
        q->anchor.micro_batches = q->ask.micro_batches > 0 ? q->ask.micro_batches : 1;
    of_anchor.anchor = q->anchor;
    of_anchor.ask.use.batch = q->anchor.batch;
    of_anchor.ask.micro_batches = q->anchor.micro_batches;
    of_anchor.global_batch = 0;
    of_anchor.is_watched = false;
    of_anchor.ask.any_memory = true; /* it ran */
    status = tutti_train_machine(q->topo, q->anchor.device_count, &topo, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--anchor'");
    status = solve(args, &of_anchor, topo, &q->anchor.pace, err);
    if (status == 0)
        q->ask.pace = q->anchor.pace;
    tutti_topo_free(topo);
    return status;
}

/* ---- printing -------------------------------------------------------------------------------- */

void tutti_train_anchor_print(const struct tutti_train_anchor *a, FILE *out)
{
    char number[TUTTI_NUMBER_TEXT_BYTES];

    if (a->step_ps == 0)
        return;
    fprintf(out, "# anchor:   %s ms on %u device%s, batch %u",
            tutti_number_text((double)a->step_ps / 1e9, number), a->device_count,
            a->device_count == 1 ? "" : "s", a->batch);
    if (a->micro_batches > 1)
        fprintf(out, " x %u", a->micro_batches);
    fprintf(out, ": devices take %s times what is modelled\n", tutti_number_text(a->pace, number));
}

void tutti_train_anchor_json(const struct tutti_train_anchor *a, struct tutti_json *json)
{
    if (a->step_ps == 0)
        return;
    tutti_json_open(json, "anchor", '{');
    tutti_json_number(json, "step_time_s", (double)a->step_ps / (double)TUTTI_PS_PER_S);
    tutti_json_count(json, "devices", a->device_count);
    tutti_json_count(json, "batch", a->batch);
    tutti_json_count(json, "accumulate", a->micro_batches);
    tutti_json_number(json, "pace", a->pace);
    tutti_json_close(json);
}
