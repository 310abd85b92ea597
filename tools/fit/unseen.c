/* Each site, and each platform, left out in turn; see unseen.h. */
#include "tools/fit/unseen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/cli/progress.h"
#include "tools/options.h"

typedef const char *(*name_of)(const struct tutti_measured_table *table);

static const char *site_of(const struct tutti_measured_table *table)
{
    return table->site;
}

static const char *platform_of(const struct tutti_measured_table *table)
{
    return table->platform;
}

/* Tables of one site or platform. */
struct group {
    const char *name;
    size_t table_count;
    int fold; /* SEEN: there is nothing to be done */
};

enum { SEEN = -1 };

struct unseen {
    struct tutti_fit_job *job;
    bool folds_alone;
    const double
        *known;    /* [point]: times by site, where those by platform are asked for; or NULL */
    double *times; /* [point] to be filled */
    size_t group_count;
    struct group *groups;
    size_t *group; /* [case] */
    bool *omitted; /* [point] */
    double *values;
    double *weight; /* [point]: of a fit without a fold */
};

static void close_unseen(struct unseen *unseen)
{
    free(unseen->groups);
    free(unseen->group);
    free(unseen->omitted);
    free(unseen->values);
    free(unseen->weight);
}

static int open_unseen(struct tutti_fit_job *job, name_of name, struct unseen *ret,
                       struct tutti_err *err)
{
    size_t cases = job->cases.case_count, points = job->cases.point_count;

    ret->job = job;
    ret->groups = calloc(cases + 1, sizeof(*ret->groups));
    ret->group = calloc(cases + 1, sizeof(*ret->group));
    ret->omitted = calloc(points + 1, sizeof(*ret->omitted));
    ret->values = tutti_fit_numbers(job->values.parameter_count);
    ret->weight = tutti_fit_numbers(points);
    if (ret->groups == NULL || ret->group == NULL || ret->omitted == NULL || ret->values == NULL ||
        ret->weight == NULL) {
        close_unseen(ret);
        return tutti_nomem(err);
    }
    for (size_t c = 0; c < cases; c++) {
        const char *own = name(job->cases.cases[c].table);
        size_t g = 0;

        while (g < ret->group_count && strcmp(ret->groups[g].name, own) != 0)
            g++;
        if (g == ret->group_count)
            ret->groups[ret->group_count++].name = own;
        ret->groups[g].table_count++;
        ret->group[c] = g;
    }
    return 0;
}

/* A platform of one site alone, all of whose tables are of it: it is known by then. */
static void copy_known(struct unseen *unseen, size_t g)
{
    struct tutti_fit_job *job = unseen->job;
    const char *site = NULL;

    for (size_t c = 0; c < job->cases.case_count; c++) {
        const char *own = site_of(job->cases.cases[c].table);

        if (unseen->group[c] == g && site != NULL && strcmp(site, own) != 0)
            return;
        if (unseen->group[c] == g)
            site = own;
    }
    for (size_t c = 0; c < job->cases.case_count; c++) {
        if (unseen->group[c] != g && strcmp(site, site_of(job->cases.cases[c].table)) == 0)
            return;
    }
    for (size_t c = 0; c < job->cases.case_count; c++) {
        const struct tutti_fit_case *one = &job->cases.cases[c];

        if (unseen->group[c] == g)
            memcpy(unseen->times + one->first_point, unseen->known + one->first_point,
                   one->point_count * sizeof(*unseen->times));
    }
    unseen->groups[g].fold = SEEN;
}

/* Each group in turn to the fold that has the fewest tables. */
static void deal(struct unseen *unseen)
{
    size_t load[TUTTI_FIT_FOLDS] = {0};

    for (size_t g = 0; g < unseen->group_count; g++) {
        int least = 0;

        if (unseen->groups[g].fold == SEEN)
            continue;
        for (int fold = 1; fold < TUTTI_FIT_FOLDS; fold++)
            least = load[fold] < load[least] ? fold : least;
        unseen->groups[g].fold = least;
        load[least] += unseen->groups[g].table_count;
    }
}

static bool is_of_fold(const struct unseen *unseen, size_t c, int fold)
{
    return unseen->groups[unseen->group[c]].fold == fold;
}

/* A fit from the priors without a fold; *ret stays NULL where nothing else is left. */
static int fit_without_fold(struct unseen *unseen, int fold, struct tutti_fit **ret,
                            struct tutti_err *err)
{
    struct tutti_fit_job *job = unseen->job;
    struct tutti_fit_problem problem = job->problem;
    double weights = 0;

    for (size_t c = 0; c < job->cases.case_count; c++) {
        const struct tutti_fit_case *one = &job->cases.cases[c];

        for (size_t i = one->first_point; i < one->first_point + one->point_count; i++) {
            unseen->weight[i] = is_of_fold(unseen, c, fold) ? 0 : job->weight[i];
            weights += unseen->weight[i];
        }
    }
    problem.weight = unseen->weight;
    return weights > 0 ? tutti_fit_solve(&problem, ret, err) : 0;
}

struct left_out {
    const struct unseen *unseen;
    size_t group;
};

static bool is_of_group(const void *context, const struct tutti_fit_case *one,
                        const struct tutti_fit_point *point)
{
    const struct left_out *out = context;

    (void)point;
    return out->unseen->group[one - out->unseen->job->cases.cases] == out->group;
}

/* The times of the tables of a group, by `fit`, which has not seen them; unless `as_is`, moved on
 * to the rest of its fold. */
static int leave_out(struct unseen *unseen, size_t g, const struct tutti_fit *fit, bool as_is,
                     struct tutti_err *err)
{
    struct tutti_fit_job *job = unseen->job;
    struct left_out out = {.unseen = unseen, .group = g};
    struct tutti_fit_some some = {.takes = is_of_group, .context = &out};
    int status = 0;

    for (size_t c = 0; c < job->cases.case_count; c++) {
        const struct tutti_fit_case *one = &job->cases.cases[c];

        memset(unseen->omitted + one->first_point, unseen->group[c] == g,
               one->point_count * sizeof(*unseen->omitted));
    }
    memcpy(unseen->values, fit == NULL ? job->prior : fit->value,
           job->values.parameter_count * sizeof(double));
    job->cases.judges = false;
    if (fit != NULL && !as_is)
        status = tutti_fit_without(&job->problem, fit, unseen->omitted, unseen->values, err);
    job->cases.judges = true;
    if (status == 0)
        status = tutti_fit_values_set(&job->values, unseen->values, err);
    if (status == 0)
        status = tutti_fit_cases_predict(&job->cases, job->values.calib, job->values.base, &some,
                                         unseen->times, err);
    return status;
}

/* `what`: that the fit is made without; NULL: it is done. */
static void show(const struct unseen *unseen, const char *what, struct tutti_sink *sink)
{
    const struct tutti_command *command = unseen->job->command;

    tutti_progress_show(tutti_command_program(command), command->name,
                        what != NULL ? "fits again without" : NULL, what, sink);
}

static int leave_out_fold(struct unseen *unseen, int fold, struct tutti_sink *sink,
                          struct tutti_err *err)
{
    struct tutti_fit *fit = NULL;
    char detail[80];
    size_t size = 0;
    int status = 0;

    for (size_t g = 0; g < unseen->group_count; g++)
        size += unseen->groups[g].fold == fold;
    if (size == 0)
        return 0;
    (void)snprintf(detail, sizeof(detail), "%d of %d of all", fold + 1, TUTTI_FIT_FOLDS);
    show(unseen, detail, sink);
    unseen->job->cases.judges = false;
    status = fit_without_fold(unseen, fold, &fit, err);
    unseen->job->cases.judges = true;
    for (size_t g = 0; g < unseen->group_count && status == 0; g++) {
        if (unseen->groups[g].fold != fold)
            continue;
        show(unseen, unseen->groups[g].name, sink);
        status = leave_out(unseen, g, fit, unseen->folds_alone || size == 1, err);
    }
    tutti_fit_free(fit);
    return status;
}

static int judge(struct tutti_fit_job *job, name_of name, struct unseen *unseen,
                 struct tutti_sink *sink, struct tutti_err *err)
{
    int status = open_unseen(job, name, unseen, err);

    if (status < 0)
        return status;
    for (size_t g = 0; g < unseen->group_count && unseen->known != NULL; g++)
        copy_known(unseen, g);
    deal(unseen);
    for (int fold = 0; fold < TUTTI_FIT_FOLDS && status == 0; fold++)
        status = leave_out_fold(unseen, fold, sink, err);
    show(unseen, NULL, sink);
    close_unseen(unseen);
    return status;
}

int tutti_fit_judge(struct tutti_fit_job *job, struct tutti_fit_unseen *ret,
                    struct tutti_sink *sink, struct tutti_err *err)
{
    struct unseen by_site = {.folds_alone = ret->folds_alone};
    struct unseen by_platform = {.folds_alone = ret->folds_alone};
    int status;

    by_site.times = ret->by_site = tutti_fit_numbers(job->cases.point_count);
    by_platform.times = ret->by_platform = tutti_fit_numbers(job->cases.point_count);
    by_platform.known = ret->by_site;
    if (ret->by_site == NULL || ret->by_platform == NULL)
        return tutti_nomem(err);
    status = judge(job, site_of, &by_site, sink, err);
    return status < 0 ? status : judge(job, platform_of, &by_platform, sink, err);
}

void tutti_fit_unseen_done(struct tutti_fit_unseen *unseen)
{
    free(unseen->by_site);
    free(unseen->by_platform);
}
