/* A fit moved on to other points than it was made to; see sim/fit.h.
 *
 * A fit from scratch takes derivatives of all times at each turn. Here only those are taken anew
 * whose time is not what the model said: what left the path that it was on. Times have kinks and
 * jumps, so that a fit ends in a corner from which each leap is uphill: the first one is therefore
 * made whatever it gains, as a fit on its way would have, and the turns after it must gain. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/fit.h"
#include "sim/fit/result.h"
#include "sim/fit/search.h"

/* Of a logarithm: a time this far from what the model said is on another path. As large as the
 * differences that derivatives are taken of. */
static const double stale_least = 0.02;
/* Of the objective, in which a point off by the scale counts 0.5: what gains no more is done. */
static const double gain_least = 1;
enum { TURNS_MAX = 6, FAILURES_MAX = 2 };

struct refit {
    struct tutti_fit_search search;
    struct tutti_fit_search model; /* the same where the model leads */
    struct tutti_fit about;        /* what the model is about */
    bool *skipped;                 /* [point]: whose derivatives need not be taken anew */
};

static void close_refit(struct refit *refit)
{
    free(refit->search.own);
    free(refit->search.at);
    free(refit->search.now);
    free(refit->search.matrix);
    free(refit->search.vector);
    free(refit->search.trial);
    free(refit->search.times);
    free(refit->search.guess);
    free(refit->model.at);
    free(refit->model.now);
    free(refit->about.weight);
    free(refit->about.value);
    free(refit->about.predicted);
    free(refit->about.jacobian);
    free(refit->skipped);
}

static int open_refit(const struct tutti_fit_problem *problem, const struct tutti_fit *fit,
                      const bool *omitted, struct refit *refit, struct tutti_err *err)
{
    size_t size = fit->parameter_count, points = fit->point_count;
    struct tutti_fit_search *search = &refit->search;
    struct tutti_fit *about = &refit->about;

    *refit = (struct refit){.about = *fit, .skipped = calloc(points + 1, sizeof(bool))};
    *search = (struct tutti_fit_search){.problem = problem,
                                        .about = about,
                                        .omitted = omitted,
                                        .own = tutti_fit_zeros(points * size),
                                        .at = tutti_fit_zeros(size),
                                        .now = tutti_fit_zeros(points),
                                        .matrix = tutti_fit_zeros(size * size),
                                        .vector = tutti_fit_zeros(size),
                                        .trial = tutti_fit_zeros(size),
                                        .times = tutti_fit_zeros(points),
                                        .guess = tutti_fit_zeros(points)};
    refit->model.at = tutti_fit_zeros(size);
    refit->model.now = tutti_fit_zeros(points);
    about->weight = tutti_fit_zeros(points);
    about->value = tutti_fit_zeros(size);
    about->predicted = tutti_fit_zeros(points);
    search->slopes = about->jacobian = tutti_fit_zeros(points * size);
    if (refit->skipped == NULL || search->own == NULL || search->at == NULL ||
        search->now == NULL || search->matrix == NULL || search->vector == NULL ||
        search->trial == NULL || search->times == NULL || search->guess == NULL ||
        refit->model.at == NULL || refit->model.now == NULL || about->weight == NULL ||
        about->value == NULL || about->predicted == NULL || about->jacobian == NULL) {
        close_refit(refit);
        return tutti_nomem(err);
    }
    memcpy(search->at, fit->value, size * sizeof(double));
    memcpy(search->now, fit->predicted, points * sizeof(double));
    memcpy(about->weight, problem->weight, points * sizeof(double));
    memcpy(about->value, fit->value, size * sizeof(double));
    memcpy(about->predicted, fit->predicted, points * sizeof(double));
    memcpy(about->jacobian, fit->jacobian, points * size * sizeof(double));
    return 0;
}

/* To where the model has the least, if it is better there with times predicted; where there is no
 * such place, to the priors, at first. */
static int leap(struct refit *refit, struct tutti_err *err)
{
    struct tutti_fit_search *search = &refit->search, *model = &refit->model;
    size_t size = search->about->parameter_count, points = search->about->point_count;
    double *at = model->at, *now = model->now;
    double found;
    int status;

    *model = *search;
    model->at = at;
    model->now = now;
    model->slopes = search->own;
    memcpy(model->at, search->at, size * sizeof(double));
    memcpy(model->now, search->now, points * sizeof(double));
    memcpy(model->slopes, search->about->jacobian, points * size * sizeof(double));
    if (!tutti_fit_search_leap(model)) {
        if (isfinite(search->objective))
            return 0;
        memcpy(model->at, search->problem->prior, size * sizeof(double));
    }
    status = tutti_fit_search_predict(search, model->at, err);
    if (status < 0)
        return status;
    found = tutti_fit_search_objective(search, model->at, search->times);
    if (found < search->objective) {
        search->objective = found;
        memcpy(search->at, model->at, size * sizeof(double));
        memcpy(search->now, search->times, points * sizeof(double));
    }
    return 0;
}

/* Makes the model one about where the search is now. */
static int move_on(struct refit *refit, struct tutti_err *err)
{
    struct tutti_fit_search *search = &refit->search;
    const struct tutti_fit_problem *problem = search->problem;
    struct tutti_fit *about = &refit->about;
    size_t size = about->parameter_count, points = about->point_count;
    size_t stale_count = 0;
    int status = 0;

    for (uint32_t i = 0; i < points; i++) {
        refit->skipped[i] = !tutti_fit_search_counts(search, i) ||
                            !(fabs(search->now[i] - search->guess[i]) > stale_least);
        stale_count += !refit->skipped[i];
    }
    if (problem->approximate != NULL) {
        problem->approximate(problem->context, about, search->at, search->times, search->own);
        memcpy(about->jacobian, search->own, points * size * sizeof(double));
    }
    memcpy(about->value, search->at, size * sizeof(double));
    memcpy(about->predicted, search->now, points * sizeof(double));
    if (problem->differentiate_near != NULL && stale_count > 0)
        status = problem->differentiate_near(problem->context, about->value, refit->skipped,
                                             about->predicted, about->jacobian, err);
    return status;
}

static int move(struct refit *refit, struct tutti_err *err)
{
    struct tutti_fit_search *search = &refit->search;
    double damping = 1e-3, better;
    int status = 0, failures = 0;

    search->objective = (double)INFINITY; /* all is better */
    for (int turn = 0; turn < TURNS_MAX && failures < FAILURES_MAX && status == 0; turn++) {
        double before = search->objective;

        status = failures == 0 ? leap(refit, err)
                               : tutti_fit_search_descend(search, &damping, &better, err);
        if (status == 0 && search->objective < before)
            status = move_on(refit, err);
        failures = before - search->objective > gain_least ? 0 : failures + 1;
    }
    return status;
}

int tutti_fit_without(const struct tutti_fit_problem *problem, const struct tutti_fit *fit,
                      const bool *omitted, double *values, struct tutti_err *err)
{
    struct refit refit;
    int status = open_refit(problem, fit, omitted, &refit, err);

    if (status < 0)
        return status;
    status = move(&refit, err);
    if (status == 0)
        memcpy(values, refit.search.at, fit->parameter_count * sizeof(double));
    close_refit(&refit);
    return status;
}
