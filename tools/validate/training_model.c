/* The model of a row of training steps: by its words, or by the shape that the row states. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/validate/training_plan.h"

enum { GRAIN = 64 };

static uint32_t count_of(int64_t stated)
{
    return stated == TUTTI_UNSTATED || stated > UINT32_MAX ? 0 : (uint32_t)stated;
}

/* ---- by shape -------------------------------------------------------------------------------- */

/* Half a unit of the last digit that is stated, and a little. */
static double rounding_of(double value)
{
    char text[32];
    const char *point;

    (void)snprintf(text, sizeof(text), "%.6g", value);
    point = strchr(text, '.');
    return 0.6 * pow(10, point == NULL ? 0 : -(double)strlen(point + 1));
}

/* Elements of the feed-forward part that make a Llama of so many parameters, tied or not. */
static double feed_forward_of(const struct tutti_model_params *p, double parameters, bool tied)
{
    double h = p->transformer.hidden;
    double embeddings = (tied ? 1 : 2) * (double)p->vocabulary * h;

    return ((parameters - embeddings) / p->transformer.layers - 4 * h * h) / (3 * h);
}

static double off_grain(double value)
{
    return value <= 0 ? INFINITY : fabs(value / GRAIN - round(value / GRAIN));
}

/* What is not stated of a Llama follows from how many parameters it has, where the usual shape has
 * another number; feed-forward parts are multiples of 64. */
static int fit_shape(double params_B, struct tutti_model_params *p, struct tutti_err *err)
{
    struct tutti_workload *usual = NULL;
    double parameters = params_B * 1e9;
    double own;
    int status = tutti_model_new("llama", p, &usual, err);

    if (status < 0)
        return status;
    own = (double)tutti_model_sum(usual).parameters;
    tutti_model_free(usual);
    if (!(params_B > 0) || fabs(own / 1e9 - params_B) <= rounding_of(params_B))
        return 0;
    p->transformer.tied = off_grain(feed_forward_of(p, parameters, true)) <
                          off_grain(feed_forward_of(p, parameters, false));
    own = feed_forward_of(p, parameters, p->transformer.tied);
    if (!(own >= GRAIN))
        return tutti_fail(err, TUTTI_EINVAL,
                          "%g billion parameters do not go with its layers and sizes (params_B)",
                          params_B);
    p->transformer.feed_forward = (uint32_t)(GRAIN * llround(own / GRAIN));
    return 0;
}

static int by_shape(const struct tutti_training_row_settings *s, struct tutti_workload **ret,
                    struct tutti_err *err)
{
    struct tutti_model_params p = {.size = sizeof(p),
                                   .sequence = count_of(s->seq_len),
                                   .vocabulary = count_of(s->vocab),
                                   .transformer = {.layers = count_of(s->layers),
                                                   .hidden = count_of(s->hidden),
                                                   .heads = count_of(s->heads)}};
    bool gpt = tutti_training_says(s->model, "gpt") || tutti_training_says(s->model, "MT-NLG");
    int status;

    if (p.sequence == 0 || p.transformer.layers == 0 || p.transformer.hidden == 0 ||
        p.transformer.heads == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%.60s' is no known model and its shape is not stated (layers, hidden, "
                          "heads, seq_len)",
                          s->model);
    if (gpt)
        return tutti_model_new("gpt", &p, ret, err);
    if (!tutti_training_says(s->model, "llama") && !tutti_training_says(s->model, "internlm"))
        return tutti_fail(err, TUTTI_EINVAL,
                          "of what kind '%.60s' is is not known (a known model, or GPT or Llama)",
                          s->model);
    if (p.vocabulary == 0)
        p.vocabulary = 32000;
    status = fit_shape(s->params_B, &p, err);
    return status < 0 ? status : tutti_model_new("llama", &p, ret, err);
}

/* ---- by words -------------------------------------------------------------------------------- */

static int by_name(const char *name, const struct tutti_model_params *known,
                   const struct tutti_training_row_settings *s, struct tutti_workload **ret,
                   struct tutti_err *err)
{
    struct tutti_model_params p = *known;
    struct tutti_workload *model = NULL;
    int status = tutti_model_new(name, &p, &model, err);

    if (status < 0 || model->sample != TUTTI_SAMPLE_SEQUENCE || count_of(s->seq_len) == 0 ||
        model->sequence == count_of(s->seq_len)) {
        *ret = model;
        return status;
    }
    tutti_model_free(model);
    p.sequence = count_of(s->seq_len);
    return tutti_model_new(name, &p, ret, err);
}

/* A known model with fewer layers: "Llama 3.1 405b (proxy, fewer layers)". */
static int with_layers(const struct tutti_training_row_settings *s, struct tutti_workload **model,
                       struct tutti_err *err)
{
    const struct tutti_workload *known = *model;
    struct tutti_model_params p = {.size = sizeof(p),
                                   .sequence = known->sequence,
                                   .vocabulary = known->transformer.vocabulary,
                                   .transformer = known->transformer};
    struct tutti_workload *made = NULL;
    int status;

    p.transformer.layers = count_of(s->layers);
    status = tutti_model_new(known->transformer.gated ? "llama" : "gpt", &p, &made, err);
    if (status < 0)
        return status;
    tutti_model_free(*model);
    *model = made;
    return 0;
}

static bool has_other_layers(const struct tutti_training_row_settings *s,
                             const struct tutti_workload *model)
{
    return tutti_training_says(s->model, "fewer layers") && count_of(s->layers) > 0 &&
           model->transformer.layers > 0 && model->transformer.experts == 0 &&
           model->transformer.layers != count_of(s->layers);
}

/* By the model's own words; where they name none, by those of the variant as well, which may say of
 * how many dimensions it is. */
static const char *recognize(const struct tutti_training_row_settings *s,
                             struct tutti_model_params *params)
{
    char words[256];
    const char *name;

    (void)snprintf(words, sizeof(words), "%.*s",
                   (int)(tutti_training_says(s->model, "fewer layers") ? strcspn(s->model, "(")
                                                                       : strlen(s->model)),
                   s->model);
    name = tutti_model_recognize(words, count_of(s->seq_len), params);

    if (name != NULL || s->variant[0] == '\0' || s->layers != TUTTI_UNSTATED)
        return name;
    (void)snprintf(words, sizeof(words), "%.120s %.120s", s->model, s->variant);
    return tutti_model_recognize(words, count_of(s->seq_len), params);
}

int tutti_training_plan_model(const struct tutti_training_row_settings *s,
                              struct tutti_training_plan *plan, struct tutti_err *err)
{
    struct tutti_model_params params;
    const char *name;
    int status;

    if (s->model[0] == '\0')
        return tutti_fail(err, TUTTI_EINVAL, "the model is not stated (model)");
    name = recognize(s, &params);
    status = name != NULL ? by_name(name, &params, s, &plan->model, err)
                          : by_shape(s, &plan->model, err);
    if (status == 0 && has_other_layers(s, plan->model))
        status = with_layers(s, &plan->model, err);
    plan->ask.model = plan->model;
    return status;
}

/* ---- the same model -------------------------------------------------------------------------- */

static int compare(const char *column, uint64_t stated, uint64_t asked, struct tutti_err *err)
{
    return stated == asked
               ? 0
               : tutti_fail(err, TUTTI_EINVAL,
                            "%s '%" PRIu64 "' in the place of %" PRIu64 " that is asked for",
                            column, stated, asked);
}

/* Llamas of one shape differ in their feed-forward part, which no column states; GPTs do not. */
static bool has_parameters(const struct tutti_training_row_settings *s, bool is_known,
                           const struct tutti_workload *read, const struct tutti_workload *asked)
{
    uint64_t parameters = tutti_model_sum(asked).parameters;

    if (is_known)
        return tutti_model_sum(read).parameters == parameters;
    return !asked->transformer.gated || !(s->params_B > 0) ||
           fabs((double)parameters / 1e9 - s->params_B) <= rounding_of(s->params_B);
}

static int compare_models(const struct tutti_training_row_settings *s,
                          const struct tutti_workload *read, const struct tutti_workload *asked,
                          struct tutti_err *err)
{
    const struct tutti_transformer *a = &read->transformer;
    const struct tutti_transformer *b = &asked->transformer;
    struct tutti_model_params params;
    bool is_known = recognize(s, &params) != NULL;
    int status = compare("layers", a->layers, b->layers, err);

    if (status == 0)
        status = compare("hidden", a->hidden, b->hidden, err);
    if (status == 0)
        status = compare("heads", a->heads, b->heads, err);
    if (status == 0)
        status = compare("seq_len", read->sequence, asked->sequence, err);
    if (status == 0 && count_of(s->vocab) > 0)
        status = compare("vocab", count_of(s->vocab), b->vocabulary, err);
    if (status < 0)
        return status;
    if (a->gated == b->gated && has_parameters(s, is_known, read, asked))
        return 0;
    return tutti_fail(err, TUTTI_EINVAL, "model '%.60s' in the place of %s that is asked for",
                      s->model, asked->name);
}

int tutti_training_check_model(const struct tutti_training_row_settings *s,
                               const struct tutti_workload *asked, struct tutti_err *err)
{
    struct tutti_training_plan plan = {.model = NULL};
    int status = tutti_training_plan_model(s, &plan, err);

    if (status == 0)
        status = compare_models(s, plan.model, asked, err);
    tutti_model_free(plan.model);
    return status;
}
