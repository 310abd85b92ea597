/* tutti plan --among: the plans to choose among are the settings of a table of training steps,
 * whatever was measured of them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/model.h"
#include "runtime/status.h"
#include "tools/plan/plan.h"
#include "tools/validate/training_plan.h"
#include "tools/validate/training_run.h"
#include "topo/topo.h"

struct tutti_plan_among {
    struct tutti_training_tables tables;
    struct tutti_plan_setting *settings;
    uint32_t count;
    uint32_t **stage_layers; /* [setting]: what it points to, or NULL */
    size_t row_count;
    char why[sizeof(((struct tutti_err *)0)->text)]; /* of the first row that was passed over */
};

/* ---- rows ------------------------------------------------------------------------------------ */

static int other(struct tutti_err *err, const char *column, int64_t stated, uint64_t asked)
{
    return tutti_fail(err, TUTTI_EINVAL,
                      "%s '%" PRId64 "' in the place of %" PRIu64 " that is asked for", column,
                      stated, asked);
}

static int check_precision(enum tutti_precision asked, const char *stated, struct tutti_err *err)
{
    enum tutti_precision precision = TUTTI_PRECISION_FP32;
    int status;

    if (stated[0] == '\0')
        return tutti_fail(err, TUTTI_EINVAL, "the precision is not stated (precision)");
    status = tutti_precision_find(stated, &precision, err);
    if (status < 0 || precision == asked)
        return status;
    return tutti_fail(err, TUTTI_EINVAL, "precision '%s' in the place of %s that is asked for",
                      stated, tutti_precision_name(asked));
}

/* Of this model, precision, batch and number of devices: what a row does not say is not guessed,
 * but for the length of a known model's samples. */
static int check_row(const struct tutti_plan_question *q, const struct tutti_training_row *row,
                     uint32_t rank_count, struct tutti_err *err)
{
    const struct tutti_training_row_settings *s = &row->settings;
    const struct tutti_transformer *t = &q->model->transformer;
    int status;

    if (row->problem[0] != '\0')
        return tutti_fail(err, TUTTI_EINVAL, "%s", row->problem);
    if (s->gpus != rank_count)
        return other(err, "gpus", s->gpus, rank_count);
    if (s->global_batch != (int64_t)q->ask.global_batch)
        return other(err, "global_batch", s->global_batch, q->ask.global_batch);
    if (s->layers != TUTTI_UNSTATED && s->layers != t->layers)
        return other(err, "layers", s->layers, t->layers);
    if (s->hidden != TUTTI_UNSTATED && s->hidden != t->hidden)
        return other(err, "hidden", s->hidden, t->hidden);
    status = check_precision(q->ask.use.precision, s->precision, err);
    return status < 0 ? status : tutti_training_check_model(s, q->model, err);
}

/* -TUTTI_EINVAL: it is no way to train this model on this machine, and the message says why. */
static int read_setting(const struct tutti_plan_question *q, const struct tutti_training_row *row,
                        uint32_t machine, struct tutti_plan_setting *ret, uint32_t **ret_layers,
                        struct tutti_err *err)
{
    static const enum tutti_recompute recomputes[] = {
        TUTTI_RECOMPUTE_NONE, TUTTI_RECOMPUTE_SELECTIVE, TUTTI_RECOMPUTE_FULL};
    const int64_t mode = row->settings.recompute_mode;
    struct tutti_training_plan plan = {.model = q->model,
                                       .rank_count = q->machines[machine].topo->rank_count};
    int status = check_row(q, row, plan.rank_count, err);

    if (status < 0)
        return status;
    status = tutti_training_plan_parallel(&row->settings, &plan, err);
    if (status == 0)
        status = tutti_parallel_check(&plan.parallel, q->model, err);
    if (status < 0) {
        free(plan.stage_layers);
        return status;
    }
    *ret = (struct tutti_plan_setting){machine, plan.parallel,
                                       mode >= 0 && mode <= TUTTI_TRAINING_RECOMPUTE_FULL
                                           ? recomputes[mode]
                                           : TUTTI_RECOMPUTE_NONE};
    *ret_layers = plan.stage_layers;
    return 0;
}

static int take_row(struct tutti_plan_question *q, struct tutti_plan_among *among,
                    const struct tutti_training_row *row, struct tutti_err *err)
{
    struct tutti_err why = {""};

    among->row_count++;
    for (uint32_t m = 0; m < q->machine_count; m++) {
        int status = read_setting(q, row, m, &among->settings[among->count],
                                  &among->stage_layers[among->count], &why);

        if (status == -TUTTI_ENOMEM)
            return tutti_nomem(err);
        among->count += status == 0;
    }
    if (among->count == 0 && among->why[0] == '\0')
        memcpy(among->why, why.text, sizeof(among->why));
    return 0;
}

static int take_rows(struct tutti_plan_question *q, struct tutti_plan_among *among,
                     const char *path, struct tutti_err *err)
{
    size_t count = 0;
    int status = 0;

    for (size_t i = 0; i < among->tables.table_count; i++)
        count += among->tables.tables[i].row_count;
    if (count * q->machine_count >= UINT32_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "option '--among': too many rows");
    among->settings = calloc(count * q->machine_count + 1, sizeof(*among->settings));
    among->stage_layers = calloc(count * q->machine_count + 1, sizeof(*among->stage_layers));
    if (among->settings == NULL || among->stage_layers == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < among->tables.table_count && status == 0; i++)
        for (size_t j = 0; j < among->tables.tables[i].row_count && status == 0; j++)
            status = take_row(q, among, &among->tables.tables[i].rows[j], err);
    if (status < 0 || among->count > 0)
        return status;
    return tutti_fail(err, TUTTI_EINVAL,
                      "option '--among': '%s' has no row of this model, precision, batch and "
                      "number of devices%s%s",
                      path, among->why[0] == '\0' ? "" : "; of the first: ", among->why);
}

/* ---- the question ---------------------------------------------------------------------------- */

static int refuse_degrees(const struct tutti_args *args, struct tutti_err *err)
{
    static const char *const options[] = {"tp",        "pp",       "vp",          "cp",
                                          "ep",        "dp",       "micro-batch", "zero",
                                          "recompute", "pipeline", "context",     "sp"};

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        if (tutti_args_given(args, options[i]))
            return tutti_fail(err, TUTTI_EINVAL,
                              "option '--%s' with '--among' (the rows say it; one of them)",
                              options[i]);
    return 0;
}

int tutti_plan_among_read(const struct tutti_args *args, struct tutti_plan_question *q,
                          struct tutti_err *err)
{
    const char *path = tutti_args_text(args, "among");
    int status;

    if (path == NULL)
        return 0;
    status = refuse_degrees(args, err);
    if (status < 0)
        return status;
    q->among = calloc(1, sizeof(*q->among));
    if (q->among == NULL)
        return tutti_nomem(err);
    status = tutti_training_load(&path, 1, &q->among->tables, err);
    if (status == 0)
        status = take_rows(q, q->among, path, err);
    if (status < 0)
        return status;
    q->ask.given = q->among->settings;
    q->ask.given_count = q->among->count;
    q->turns = false; /* other batches have no rows */
    return 0;
}

void tutti_plan_among_free(struct tutti_plan_among *among)
{
    if (among == NULL)
        return;
    for (uint32_t i = 0; i < among->count; i++)
        free(among->stage_layers[i]);
    free(among->stage_layers);
    free(among->settings);
    tutti_training_unload(&among->tables);
    free(among);
}
