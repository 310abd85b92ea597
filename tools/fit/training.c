/* tutti-fit training: constants of a framework fitted to measured training steps, and judged by
 * rows that the fit has not seen. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/device.h"
#include "sim/fit.h"
#include "sim/train.h"
#include "tools/cli/shared_options.h"
#include "tools/fit/commands.h"
#include "tools/fit/rows.h"
#include "tools/options.h"
#include "tools/sink.h"
#include "tools/validate/percentiles.h"
#include "tools/validate/training_plan.h"

enum { FREE_MAX = 32, ITERATIONS_MAX = 12 };

struct row {
    struct tutti_training_plan plan;
    double measured_s;
    double other_s; /* of what is not divided: collectives, agreement, input, simulated once */
    const struct tutti_training_row *row;
    bool *out_of_memory; /* of the job: set where a prediction fails for want of it */
    size_t group;
    bool fitted;
    bool near; /* errors are of these alone; choices are among all */
    bool fits; /* into devices, as predicted */
};

enum { CHOSEN_MAX = 64, MANY = 256, ANY_COUNT = 1 << 30 };

/* What choices among rows alike cost, in percent. */
struct chosen {
    double first[CHOSEN_MAX];
    double three[CHOSEN_MAX];
    int64_t gpus[CHOSEN_MAX];
    size_t count;
};

struct job {
    struct tutti_fit_rows given_rows;
    struct row *rows;
    size_t row_count;
    const struct tutti_framework *given;
    const struct tutti_framework_constant *free[FREE_MAX];
    size_t free_count;
    double price; /* of a constant that is its sigma away from what was given, beside a row that is
                     a tenth off */
    struct tutti_train_memory *memory; /* of collectives */
    bool out_of_memory;
    bool chooses; /* --choose */
    double *room; /* [5][row] */
};

/* ---- what is fitted -------------------------------------------------------------------------- */

static int add_free(struct job *job, const char *name, struct tutti_err *err)
{
    size_t count;
    const struct tutti_framework_constant *all = tutti_framework_constants(&count);
    char names[512] = "";
    char hint[TUTTI_HINT_BYTES];
    size_t used = 0;

    for (size_t i = 0; i < count && used < sizeof(names); i++) {
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "",
                                 all[i].name);
        if (strcmp(all[i].name, name) != 0)
            continue;
        if (job->free_count == FREE_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "more than %d constants", FREE_MAX);
        job->free[job->free_count++] = &all[i];
        return 0;
    }
    return tutti_fail(err, TUTTI_EINVAL, "option '--free': unknown constant '%s' (%s%s)", name,
                      tutti_nearest_hint(name, names, hint), names);
}

static struct tutti_framework framework_of(const struct job *job, const double *logs)
{
    struct tutti_framework f = *job->given;

    for (size_t i = 0; i < job->free_count; i++)
        tutti_framework_set(&f, job->free[i], fmin(exp(logs[i]), job->free[i]->most));
    return f;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* NAN: it cannot be predicted. */
static double predicted_s(const struct row *row, const struct tutti_framework *f)
{
    struct tutti_training_divided divided;
    int status;

    if (!row->plan.is_divided)
        return tutti_training_plan_device_s(&row->plan, f) + row->other_s;
    status = tutti_training_plan_divided(&row->plan, f, 1, &divided, NULL);
    if (status == -TUTTI_ENOMEM)
        *row->out_of_memory = true;
    return status < 0 ? NAN : divided.step_s;
}

static int simulate_once(const struct job *job, struct row *row, struct tutti_err *err)
{
    int status;

    row->plan.ask.memory = job->memory;
    if (row->plan.is_divided) {
        struct tutti_training_divided divided;

        status = tutti_training_plan_choose(&row->plan, err);
        return status < 0 ? status
                          : tutti_training_plan_divided(&row->plan, job->given, 1, &divided, err);
    }
    status = tutti_training_plan_step(&row->plan, &row->other_s, err);
    if (status == 0)
        row->other_s -= tutti_training_plan_device_s(&row->plan, job->given);
    return status;
}

/* Rows that cannot be predicted, and those of other frameworks, are passed over. */
static int take_row(struct job *job, const struct tutti_fit_row *one, struct tutti_err *err)
{
    struct row *row = &job->rows[job->row_count];
    uint64_t bytes;
    int fits;
    int status = tutti_training_plan_open(&one->row->settings, &row->plan, err);

    if (status < 0)
        return status == -TUTTI_ENOMEM ? status : 0;
    if (row->plan.ask.use.framework == job->given && row->plan.server_count == 0)
        status = simulate_once(job, row, err);
    else
        status = -TUTTI_ELACK;
    if (status == 0) { /* of what cannot be said it is not counted against them */
        status = tutti_training_plan_memory(&row->plan, &bytes, &fits, err);
        row->fits = status < 0 || fits != 0;
        status = status == -TUTTI_ENOMEM ? status : 0;
    }
    if (status < 0) {
        tutti_training_plan_done(&row->plan);
        return status == -TUTTI_ENOMEM ? status : 0;
    }
    row->measured_s = one->row->measured_step_s;
    if (one->row->by_throughput)
        row->measured_s *= row->plan.ask.micro_batches;
    row->row = one->row;
    row->out_of_memory = &job->out_of_memory;
    row->group = one->group;
    row->near = one->near;
    row->fitted = one->fitted && one->near;
    job->row_count++;
    return 0;
}

static int take_rows(struct job *job, struct tutti_err *err)
{
    const struct tutti_fit_rows *given = &job->given_rows;
    int status = 0;

    job->rows = calloc(given->row_count + 1, sizeof(*job->rows));
    job->room = calloc(5 * given->row_count + 5, sizeof(*job->room));
    if (job->rows == NULL || job->room == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < given->row_count && status == 0; i++)
        if (given->rows[i].row->measured_step_s > 0)
            status = take_row(job, &given->rows[i], err);
    if (status == 0 && job->row_count == 0)
        status =
            tutti_fail(err, TUTTI_EINVAL, "no row of '%s' that can be predicted", job->given->name);
    return status;
}

/* ---- the fit --------------------------------------------------------------------------------- */

static int predict(void *context, const double *parameters, uint32_t changed, double *times,
                   struct tutti_err *err)
{
    const struct job *job = context;
    const double *weight = job->room + job->given_rows.row_count;
    const struct tutti_framework f = framework_of(job, parameters);

    (void)changed;
    (void)err;
    for (size_t i = 0; i < job->row_count; i++) {
        double seconds = weight[i] > 0 ? predicted_s(&job->rows[i], &f) : 1;

        times[i] = log(seconds > 0 ? seconds : 1e-9);
    }
    return 0;
}

/* Without the rows of group `left_out` (SIZE_MAX: none is). Robust: beyond a tenth, rows count by
 * how far they are off. */
static int solve(struct job *job, size_t left_out, struct tutti_framework *ret,
                 struct tutti_err *err)
{
    double *observed = job->room;
    double *weight = job->room + job->given_rows.row_count;
    double prior[FREE_MAX];
    double sigma[FREE_MAX];
    struct tutti_fit *fit = NULL;
    const struct tutti_fit_problem problem = {.parameter_count = (uint32_t)job->free_count,
                                              .point_count = (uint32_t)job->row_count,
                                              .prior = prior,
                                              .prior_sigma = sigma,
                                              .observed = observed,
                                              .weight = weight,
                                              .scale = 0.1,
                                              .iteration_max = ITERATIONS_MAX,
                                              .predict = predict,
                                              .context = job};
    int status;

    *ret = *job->given;
    for (size_t i = 0; i < job->free_count; i++) {
        prior[i] = log(tutti_framework_get(job->given, job->free[i]));
        sigma[i] = job->free[i]->sigma / sqrt(job->price);
    }
    for (size_t i = 0; i < job->row_count; i++) {
        observed[i] = log(job->rows[i].measured_s);
        weight[i] = job->rows[i].fitted && job->rows[i].group != left_out ? 1 : 0;
    }
    if (job->free_count == 0)
        return 0;
    status = tutti_fit_solve(&problem, &fit, err);
    if (status == 0)
        *ret = framework_of(job, fit->value);
    tutti_fit_free(fit);
    return status;
}

/* ---- printing -------------------------------------------------------------------------------- */

static double error_of(const struct row *row, const struct tutti_framework *f)
{
    return 100 * fabs(predicted_s(row, f) / row->measured_s - 1);
}

/* Adds the errors of a group (SIZE_MAX: of all) behind those of `all`. */
static void print_errors(const struct job *job, const struct tutti_framework *f, size_t group,
                         bool unseen, const char *name, double *all, size_t *all_count, FILE *out)
{
    double *errors = job->room + 2 * job->given_rows.row_count;
    size_t count = 0;

    for (size_t i = 0; i < job->row_count; i++) {
        const struct row *row = &job->rows[i];

        if ((group == SIZE_MAX || row->group == group) && row->near && (!unseen || !row->fitted))
            errors[count++] = error_of(row, f);
    }
    for (size_t i = 0; i < count && all != NULL; i++)
        all[(*all_count)++] = errors[i];
    if (count == 0)
        return;
    fprintf(out, "%s: ", name);
    tutti_fit_print_spread(errors, count, out);
    fprintf(out, "\n");
}

/* FLOPs of the model at one rate of the devices: the median of the rows fitted to. */
static double null_of(const struct row *row)
{
    const struct tutti_model_sums sums = tutti_model_sum(row->plan.model);
    double batch = (double)row->plan.ask.use.batch * row->plan.ask.micro_batches;

    if (row->plan.is_divided)
        batch = (double)tutti_parallel_samples(&row->plan.parallel) / row->plan.rank_count;
    return 3 * (double)sums.flops * batch / row->measured_s;
}

static void print_null(const struct job *job, size_t left_out, FILE *out)
{
    double *rates = job->room + 2 * job->given_rows.row_count;
    size_t count = 0;
    double rate;

    for (size_t i = 0; i < job->row_count; i++)
        if (job->rows[i].fitted && job->rows[i].group != left_out)
            rates[count++] = null_of(&job->rows[i]);
    if (count == 0)
        return;
    tutti_percentiles_sort(rates, count);
    rate = tutti_percentiles_median(rates, count);
    count = 0;
    for (size_t i = 0; i < job->row_count; i++)
        if ((left_out == SIZE_MAX || job->rows[i].group == left_out) && job->rows[i].near)
            rates[count++] = 100 * fabs(null_of(&job->rows[i]) / rate - 1);
    fprintf(out, "  one rate of FLOPs: ");
    tutti_fit_print_spread(rates, count, out);
    fprintf(out, "\n");
}

static void print_constants(const struct job *job, const struct tutti_framework *f, FILE *out)
{
    for (size_t i = 0; i < job->free_count; i++)
        fprintf(out, "  %s.%s: %.3g, given %.3g\n", job->given->name, job->free[i]->name,
                tutti_framework_get(f, job->free[i]),
                tutti_framework_get(job->given, job->free[i]));
}

/* ---- choices --------------------------------------------------------------------------------- */

enum { CHOICES = 3 };

/* Measured time over the best, in percent more, of what is predicted to be the fastest among the
 * rows alike with number `first`, and of the best of the first three. What is predicted not to fit
 * comes last. `times` has room for all rows. */
static void choose(const struct job *job, const struct tutti_framework *f, size_t first,
                   double *times, double *ret_first, double *ret_three)
{
    double best_s = INFINITY;

    for (size_t i = first; i < job->row_count; i++) {
        const struct row *row = &job->rows[i];

        times[i] = NAN; /* chosen, or another's */
        if (!tutti_fit_rows_alike(row->row, job->rows[first].row))
            continue;
        times[i] = predicted_s(row, f) * (row->fits ? 1 : 1e6);
        best_s = fmin(best_s, row->measured_s);
    }
    *ret_three = INFINITY;
    for (int choice = 0; choice < CHOICES; choice++) {
        size_t least = SIZE_MAX;
        double more;

        for (size_t i = first; i < job->row_count; i++)
            if (!isnan(times[i]) && (least == SIZE_MAX || times[i] < times[least]))
                least = i;
        if (least == SIZE_MAX)
            return;
        more = 100 * (job->rows[least].measured_s / best_s - 1);
        if (choice == 0)
            *ret_first = more;
        *ret_three = fmin(*ret_three, more);
        times[least] = NAN;
    }
}

static bool is_first_alike(const struct job *job, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (tutti_fit_rows_alike(job->rows[i].row, job->rows[index].row))
            return false;
    return true;
}

/* Of the rows of a group (SIZE_MAX: of all), behind those of `all` where that is not NULL. */
static void print_choices(const struct job *job, const struct tutti_framework *f, size_t group,
                          struct chosen *all, FILE *out)
{
    double *times = job->room + 4 * job->given_rows.row_count;

    for (size_t i = 0; i < job->row_count; i++) {
        const struct tutti_training_row_settings *s = &job->rows[i].row->settings;
        double first = 0;
        double three = 0;

        if ((group != SIZE_MAX && job->rows[i].group != group) || !is_first_alike(job, i))
            continue;
        choose(job, f, i, times, &first, &three);
        fprintf(out, "  %s on %" PRId64 " devices: first choice +%.1f %%, best of three +%.1f %%\n",
                s->model, s->gpus, first, three);
        if (all->count == CHOSEN_MAX)
            continue;
        all->first[all->count] = first;
        all->three[all->count] = three;
        all->gpus[all->count++] = s->gpus;
    }
}

/* Of those on up to so many devices. */
static void print_chosen(const struct chosen *all, int64_t gpus_max, FILE *out)
{
    double first[CHOSEN_MAX];
    double three[CHOSEN_MAX];
    size_t count = 0;

    for (size_t i = 0; i < all->count; i++) {
        if (all->gpus[i] > gpus_max)
            continue;
        first[count] = all->first[i];
        three[count++] = all->three[i];
    }
    if (count == 0)
        return;
    tutti_percentiles_sort(first, count);
    tutti_percentiles_sort(three, count);
    if (gpus_max == ANY_COUNT)
        fprintf(out, "all choices");
    else
        fprintf(out, "choices on up to %" PRId64 " devices", gpus_max);
    fprintf(out,
            ": first median +%.1f %%, worst +%.1f %%; best of "
            "three median +%.1f %%, worst +%.1f %%\n",
            tutti_percentiles_median(first, count), first[count - 1],
            tutti_percentiles_median(three, count), three[count - 1]);
}

/* Each group predicted by a fit that has not seen it. */
static int print_left_out(struct job *job, FILE *out, struct tutti_err *err)
{
    double *all = job->room + 3 * job->given_rows.row_count;
    size_t all_count = 0;
    struct chosen chosen = {.count = 0};
    char name[TUTTI_FIT_GROUP_BYTES + 16];

    for (size_t g = 0; g < job->given_rows.group_count; g++) {
        struct tutti_framework f;
        size_t before = all_count;
        int status = solve(job, g, &f, err);

        if (status < 0)
            return status;
        (void)snprintf(name, sizeof(name), "without %s", job->given_rows.groups[g]);
        print_errors(job, &f, g, false, name, all, &all_count, out);
        if (all_count > before && job->given_rows.group_count <= 4) {
            print_null(job, g, out);
            print_constants(job, &f, out);
        }
        if (job->chooses)
            print_choices(job, &f, g, &chosen, out);
    }
    fprintf(out, "all left out: ");
    tutti_fit_print_spread(all, all_count, out);
    fprintf(out, "\n");
    print_chosen(&chosen, MANY, out);
    print_chosen(&chosen, ANY_COUNT, out);
    return 0;
}

static int print_fit(struct job *job, bool every, bool leave, FILE *out, struct tutti_err *err)
{
    struct chosen chosen = {.count = 0};
    struct tutti_framework best;
    int status = 0;

    print_errors(job, job->given, SIZE_MAX, false, "as given", NULL, NULL, out);
    print_null(job, SIZE_MAX, out);
    if (job->chooses && !leave) {
        print_choices(job, job->given, SIZE_MAX, &chosen, out);
        print_chosen(&chosen, MANY, out);
        print_chosen(&chosen, ANY_COUNT, out);
    }
    if (job->free_count == 0)
        return 0;
    status = solve(job, SIZE_MAX, &best, err);
    if (status < 0)
        return status;
    print_errors(job, &best, SIZE_MAX, false, "fitted", NULL, NULL, out);
    print_constants(job, &best, out);
    if (every)
        print_errors(job, &best, SIZE_MAX, true, "those not fitted", NULL, NULL, out);
    return leave ? print_left_out(job, out, err) : 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

static int read_options(const struct tutti_args *args, struct job *job, struct tutti_err *err)
{
    const char *name;
    int status = tutti_framework_find(tutti_args_text(args, "framework"), &job->given, err);

    for (uint32_t i = 0; status == 0 && (name = tutti_args_word(args, "free", i)) != NULL; i++)
        status = add_free(job, name, err);
    job->price = tutti_args_real(args, "prior");
    job->chooses = tutti_args_flag(args, "choose");
    if (status == 0)
        status = tutti_train_memory_new(&job->memory, err);
    return status < 0 ? status : tutti_fit_rows_open(args, &job->given_rows, err);
}

int tutti_command_fit_training(const struct tutti_args *args, struct tutti_sink *sink,
                               struct tutti_err *err)
{
    struct job job = {.row_count = 0};
    int status = read_options(args, &job, err);

    if (status == 0)
        status = take_rows(&job, err);
    if (status == 0)
        status = print_fit(&job, tutti_args_given(args, "every"),
                           tutti_args_given(args, "leave-out"), sink->out, err);
    if (status == 0 && job.out_of_memory)
        status = tutti_nomem(err);
    for (size_t i = 0; i < job.row_count; i++)
        tutti_training_plan_done(&job.rows[i].plan);
    free(job.rows);
    free(job.room);
    tutti_train_memory_free(job.memory);
    tutti_fit_rows_close(&job.given_rows);
    return status;
}

static const struct tutti_option options[] = {
    {.name = "framework",
     .type = TUTTI_OPTION_TEXT,
     .value = "NAME",
     .standard = "deepspeed",
     .help = "whose constants are fitted, to the rows that are of it"},
    {.name = "free",
     .type = TUTTI_OPTION_LIST,
     .value = "NAME...",
     .help = "the constants that may change (sim/device.h); the others stay"},
    {.name = "prior",
     .type = TUTTI_OPTION_REAL,
     .value = "W",
     .standard = "1",
     .max = 1000000,
     .help = "what it costs to move a constant by its sigma, in rows that are a tenth off"},
    {.name = "choose",
     .type = TUTTI_OPTION_FLAG,
     .help =
         "what it costs to take the row that is predicted to be the fastest, among those of one "
         "model, batch and number of devices"},
    TUTTI_FIT_ROW_OPTIONS,
};

const struct tutti_command tutti_fit_training = {
    .program = TUTTI_FIT_PROGRAM,
    .name = "training",
    .summary = "fit constants of a framework to measured training steps, and judge the fit",
    .operands = "FILE.csv|FOLDER...",
    .operand_min = 1,
    .operand_max = TUTTI_FIT_FILES_MAX,
    .text =
        "Takes the rows of one framework that 'tutti validate --training' can predict, and moves "
        "the constants named until steps fit best: robust, in logarithms, with a price for each "
        "constant that leaves what it was. Without --free the rows are judged as things are. "
        "Nothing is written: what is worth keeping goes to sim/train/frameworks.c by hand.",
    .examples = "tutti-fit training traces/measured/training/vtrain.csv --free passes forward_us "
                "backward_us --leave-out hidden,tp,micro_batch",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .run = tutti_command_fit_training,
};
