/* Opens a fit, makes it, and names what it came to; see fit_job.h. */
#include "tools/calibrate/fit_job.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/cli/files.h"
#include "tools/cli/progress.h"
#include "tools/options.h"

/* A class of hardware unlike all others is to be its own, and not to move what is general: few
 * degrees of freedom, as is usual where some members of a group may be outliers (Lange, Little &
 * Taylor 1989, "Robust statistical modeling using the t distribution"). */
enum { PRIOR_FREEDOM = 3 };

double *tutti_fit_numbers(size_t count)
{
    return calloc(count + 1, sizeof(double));
}

int tutti_fit_job_open(struct tutti_measured *set, struct tutti_topo *machine,
                       const struct tutti_fit_choice *choice, uint32_t thread_count,
                       const struct tutti_calib *base, struct tutti_fit_job *job,
                       struct tutti_err *err)
{
    int status = tutti_fit_cases_open(set, machine, choice, thread_count, &job->cases, err);

    if (status == 0)
        status = tutti_fit_values_open(&job->cases, base, &job->values, err);
    if (status < 0)
        return status;
    job->observed = tutti_fit_numbers(job->cases.point_count);
    job->weight = tutti_fit_numbers(job->cases.point_count);
    job->seen = tutti_fit_numbers(job->cases.point_count);
    job->prior = tutti_fit_numbers(job->values.parameter_count);
    job->sigma = tutti_fit_numbers(job->values.parameter_count);
    if (job->observed == NULL || job->weight == NULL || job->seen == NULL || job->prior == NULL ||
        job->sigma == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < job->cases.point_count; i++)
        job->observed[i] = log(job->cases.points[i].measured_us);
    for (size_t p = 0; p < job->values.parameter_count; p++)
        job->sigma[p] = job->values.parameters[p].sigma;
    return 0;
}

void tutti_fit_job_close(struct tutti_fit_job *job)
{
    tutti_fit_free(job->fit);
    tutti_fit_values_close(&job->values);
    tutti_fit_cases_close(&job->cases);
    free(job->observed);
    free(job->weight);
    free(job->seen);
    free(job->prior);
    free(job->sigma);
}

/* ---- the fit --------------------------------------------------------------------------------- */

/* What was fitted to: not what only judges, and no size without a time. */
static void count_fitted(const struct tutti_fit_job *job, size_t *ret_tables, size_t *ret_sizes)
{
    *ret_tables = *ret_sizes = 0;
    for (size_t c = 0; c < job->cases.case_count; c++) {
        const struct tutti_fit_case *one = &job->cases.cases[c];

        *ret_tables += !one->judged;
        for (size_t i = 0; i < one->point_count && !one->judged; i++)
            *ret_sizes += !job->cases.points[one->first_point + i].wrong;
    }
}

/* What takes minutes says so before, whoever reads it; on the way only to a terminal. */
static void announce(const struct tutti_fit_job *job, struct tutti_sink *sink)
{
    size_t tables, sizes;
    size_t minutes;

    count_fitted(job, &tables, &sizes);
    minutes = job->values.parameter_count * sizes / job->a_minute;
    if (minutes > 1)
        fprintf(sink->notes,
                "%s %s: fits %zu parameters to %zu sizes of %zu tables%s%s: takes some %zu minutes "
                "on two processors (fewer tables: --filter)\n",
                tutti_command_program(job->command), job->command->name,
                job->values.parameter_count, sizes, tables,
                job->again != NULL ? ", then again without " : "",
                job->again != NULL ? job->again : "", minutes);
}

static void show_turn(void *context, uint32_t iteration, uint32_t parameter)
{
    const struct tutti_fit_values *values = context;
    char detail[80];

    (void)snprintf(detail, sizeof(detail), "%" PRIu32 ", derivative %" PRIu32 " of %zu",
                   iteration + 1, parameter + 1, values->parameter_count);
    tutti_progress_show(tutti_command_program(values->command), values->command->name, "fits, turn",
                        detail, values->sink);
}

static struct tutti_fit_problem problem_of(struct tutti_fit_job *job, uint32_t iteration_max)
{
    return (struct tutti_fit_problem){
        .parameter_count = (uint32_t)job->values.parameter_count,
        .point_count = (uint32_t)job->cases.point_count,
        .prior = job->prior,
        .prior_sigma = job->sigma,
        .observed = job->observed,
        .weight = job->weight,
        .prior_freedom = PRIOR_FREEDOM,
        .scale = 0.03,
        .lost = 0.3,
        .iteration_max = iteration_max,
        .predict = tutti_fit_values_predict,
        .predict_near = tutti_fit_values_predict_near,
        .differentiate_near = tutti_fit_values_differentiate_near,
        .approximate = tutti_fit_values_approximate,
        .watch = show_turn,
        .context = &job->values,
    };
}

int tutti_fit_job_solve(struct tutti_fit_job *job, uint32_t iteration_max, struct tutti_sink *sink,
                        struct tutti_err *err)
{
    int status = tutti_fit_values_predict(&job->values, job->prior, TUTTI_FIT_NONE, job->seen, err);

    job->problem = problem_of(job, iteration_max);
    for (size_t c = 0; c < job->cases.case_count; c++) {
        const struct tutti_fit_case *one = &job->cases.cases[c];

        for (size_t i = one->first_point; i < one->first_point + one->point_count; i++)
            job->weight[i] = one->judged || job->cases.points[i].wrong ? 0 : one->weight;
    }
    if (status == 0) {
        announce(job, sink);
        job->values.command = job->command;
        job->values.sink = sink;
        status = tutti_fit_solve(&job->problem, &job->fit, err);
    }
    if (status == 0) {
        job->cases.judges = true;
        status =
            tutti_fit_values_predict(&job->values, job->fit->value, TUTTI_FIT_NONE, job->seen, err);
    }
    tutti_progress_show(tutti_command_program(job->command), job->command->name, NULL, NULL, sink);
    return status;
}

/* ---- what came of it ------------------------------------------------------------------------- */

/* As soon as it is known: to judge it may take longer, and be cut short. */
static int write_calib(const struct tutti_args *args, const struct tutti_calib *calib,
                       struct tutti_sink *sink, struct tutti_err *err)
{
    char *text = NULL;
    int status;

    if (!tutti_args_given(args, "output"))
        return 0;
    status = tutti_calib_print(calib, &text, err);
    if (status == 0)
        status = tutti_file_write(tutti_args_text(args, "output"), text, strlen(text), sink, err);
    free(text);
    return status;
}

int tutti_fit_job_result(struct tutti_fit_job *job, const struct tutti_args *args,
                         const char *words, struct tutti_sink *sink, struct tutti_calib **ret,
                         size_t *ret_open, struct tutti_err *err)
{
    struct tutti_calib *calib = NULL;
    char source[512];
    size_t tables, sizes;
    int status;

    count_fitted(job, &tables, &sizes);
    (void)snprintf(source, sizeof(source), "%s %s %s: %zu tables, %zu sizes",
                   tutti_command_program(job->command), job->command->name, words, tables, sizes);
    for (char *p = source; *p != '\0'; p++) { /* names of files may have anything */
        if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '#')
            *p = '?';
    }
    status = tutti_fit_values_result(&job->values, job->fit, source, &calib, ret_open, err);
    if (status == 0)
        status = tutti_calib_set_title(calib, tutti_args_text(args, "title"), err);
    if (status == 0)
        status = write_calib(args, calib, sink, err);
    if (status < 0) {
        tutti_calib_free(calib);
        return status;
    }
    *ret = calib;
    return 0;
}

int tutti_fit_filter_read(const struct tutti_args *args, const char *name,
                          struct tutti_measured_filter *filter,
                          const struct tutti_measured_filter **ret, struct tutti_err *err)
{
    const char *text = tutti_args_text(args, name);
    int status;

    if (text == NULL)
        return 0;
    status = tutti_measured_filter_parse(text, filter, err);
    if (status < 0)
        return tutti_wrap(err, status, "option '--%s'", name);
    *ret = filter;
    return 0;
}

/* Found out before the fit. */
int tutti_fit_title_check(const struct tutti_args *args, struct tutti_err *err)
{
    struct tutti_calib *calib = NULL;
    int status = tutti_calib_new(&calib, err);

    if (status == 0)
        status = tutti_calib_set_title(calib, tutti_args_text(args, "title"), err);
    if (status == -TUTTI_EINVAL)
        status = tutti_wrap(err, status, "option '--title'");
    tutti_calib_free(calib);
    return status;
}
