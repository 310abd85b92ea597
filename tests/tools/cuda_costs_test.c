/* What one H200 took (traces/measured/h200/bars.tsv: launch and wait), beside what its blocks are
 * predicted to take: costs are fitted to the rows without an algorithm, whose rows they then tell.
 */
#include <math.h>

#include "runtime/coll.h"
#include "runtime/cuda_work.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/fit.h"
#include "sim/local.h"
#include "tests/test.h"

enum { ROWS_MAX = 128, COSTS = TUTTI_LOCAL_COUNT - TUTTI_LOCAL_BLOCK_LAUNCH };

struct row {
    char name[32];
    uint32_t ranks;
    uint32_t lanes;
    uint32_t threads;
    uint64_t bytes;
    double measured_us;
    struct tutti_cuda_work *work;
    struct tutti_local_play *play;
};

struct rows {
    struct row rows[ROWS_MAX];
    uint32_t count;
    const char *left_out; /* of the fit */
    struct tutti_local local;
};

/* A copy or a sum of halves by one rank, a part a lane. */
static struct tutti_schedule *make_pass(const struct row *row, bool sums)
{
    const struct tutti_schedule_desc desc = {
        .name = "pass",
        .contract = {.collective = TUTTI_CUSTOM, .dtype = TUTTI_FLOAT32, .op = TUTTI_SUM},
        .rank_count = 1,
        .lane_count = row->lanes,
        .in_bytes = 2 * row->bytes,
        .out_bytes = row->bytes,
    };
    uint64_t part = row->bytes / row->lanes;
    struct tutti_builder *builder = NULL;
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_builder_new(&desc, &builder, &err), err);
    for (uint32_t l = 0; l < row->lanes; l++) {
        struct tutti_step step = {.kind = sums ? TUTTI_REDUCE : TUTTI_COPY,
                                  .flags = sums ? TUTTI_STEP_LAST : 0,
                                  .dst_buf = TUTTI_BUF_OUT,
                                  .src_buf = TUTTI_BUF_IN,
                                  .dst_offset = l * part,
                                  .src_offset = l * part + (sums ? row->bytes : 0),
                                  .bytes = part};

        if (sums) {
            step.acc_buf = TUTTI_BUF_IN;
            step.acc_offset = l * part;
        }
        CHECK_OK(tutti_builder_add(builder, 0, l, &step, &err), err);
    }
    CHECK_OK(tutti_builder_finish(builder, &schedule, &err), err);
    return schedule;
}

static struct tutti_schedule *make_schedule(const struct row *row)
{
    struct tutti_shape flat = tutti_shape_flat(row->ranks);
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_FLOAT32,
                                       .op = TUTTI_SUM,
                                       .count = row->bytes / 4,
                                       .channel_count = row->lanes / row->ranks};
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    if (row->ranks == 1)
        return make_pass(row, strcmp(row->name, "reduce") == 0);
    CHECK_OK(tutti_coll_generate(row->name, &params, &flat, &schedule, &err), err);
    return schedule;
}

/* The trees of the table ran 2.4 times as long as what they move takes, and are left out of all. */
static void read_rows(struct rows *rows)
{
    char *text = test_read_file(TUTTI_SOURCE_DIR "/traces/measured/h200/bars.tsv", NULL);
    char *rest = NULL;

    rows->count = 0;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL && rows->count < ROWS_MAX;
         line = strtok_r(NULL, "\n", &rest)) {
        struct row *row = &rows->rows[rows->count];
        struct tutti_schedule *schedule;
        struct tutti_err err = {""};
        double in_a_row_us;

        *row = (struct row){.play = NULL};
        if (sscanf(line, "%31s %" SCNu32 " %" SCNu64 " %" SCNu32 " %" SCNu32 " %lf %lf", row->name,
                   &row->ranks, &row->bytes, &row->lanes, &row->threads, &in_a_row_us,
                   &row->measured_us) != 7 ||
            strcmp(row->name, "double-binary-tree") == 0)
            continue;
        schedule = make_schedule(row);
        CHECK_OK(tutti_cuda_work_new(schedule, &row->work, &err), err);
        row->work->thread_count = row->threads;
        CHECK_OK(tutti_local_play_open_blocks(row->work, &row->play, &err), err);
        tutti_schedule_free(schedule);
        rows->count++;
    }
    free(text);
}

static void free_rows(struct rows *rows)
{
    for (uint32_t i = 0; i < rows->count; i++) {
        tutti_local_play_close(rows->rows[i].play);
        tutti_cuda_work_free(rows->rows[i].work);
    }
}

static int predict(void *context, const double *costs, uint32_t changed, double *times,
                   struct tutti_err *err)
{
    struct rows *rows = context;
    int status = 0;

    (void)changed;
    for (int c = 0; c < COSTS; c++)
        rows->local.values[TUTTI_LOCAL_BLOCK_LAUNCH + c].value = exp(costs[c]);
    for (uint32_t i = 0; i < rows->count && status == 0; i++) {
        tutti_ps ps = 0;

        status = tutti_local_time(rows->rows[i].play, &rows->local, &ps, err);
        times[i] = log((double)ps / 1e6);
    }
    return status;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

/* The median error in percent of the rows left out of the fit, or of all where none are. */
static double median_of(const struct rows *rows, const struct tutti_fit *fit)
{
    double errors[ROWS_MAX];
    size_t count = 0;

    for (uint32_t i = 0; i < rows->count; i++)
        if (rows->left_out == NULL || strcmp(rows->rows[i].name, rows->left_out) == 0)
            errors[count++] = 100 * fabs(exp(fit->predicted[i]) / rows->rows[i].measured_us - 1);
    qsort(errors, count, sizeof(errors[0]), compare);
    return count == 0 ? 1e9 : errors[count / 2];
}

static double fit_without(struct rows *rows, const char *left_out)
{
    double prior[COSTS];
    double sigma[COSTS];
    double observed[ROWS_MAX];
    double weight[ROWS_MAX];
    struct tutti_fit_problem problem = {.parameter_count = COSTS,
                                        .point_count = rows->count,
                                        .prior = prior,
                                        .prior_sigma = sigma,
                                        .observed = observed,
                                        .weight = weight,
                                        .scale = 0.05,
                                        .iteration_max = 40,
                                        .predict = predict,
                                        .context = rows};
    struct tutti_fit *fit = NULL;
    struct tutti_err err = {""};
    double median;

    rows->left_out = left_out;
    rows->local = tutti_local_guess();
    for (int c = 0; c < COSTS; c++) {
        prior[c] = log(rows->local.values[TUTTI_LOCAL_BLOCK_LAUNCH + c].value);
        sigma[c] = 2;
    }
    for (uint32_t i = 0; i < rows->count; i++) {
        observed[i] = log(rows->rows[i].measured_us);
        weight[i] = left_out == NULL || strcmp(rows->rows[i].name, left_out) != 0;
    }
    CHECK_OK(tutti_fit_solve(&problem, &fit, &err), err);
    median = fit == NULL ? 1e9 : median_of(rows, fit);
    printf("without %s: median error %.1f %%\n", left_out == NULL ? "none" : left_out, median);
    tutti_fit_free(fit);
    return median;
}

TEST(rows_of_an_h200_are_told_by_those_of_other_algorithms)
{
    static struct rows rows;

    read_rows(&rows);
    CHECK_INT(rows.count, 55);
    CHECK(fit_without(&rows, NULL) <= 5);
    CHECK(fit_without(&rows, "two-shot") <= 10);
    CHECK(fit_without(&rows, "one-shot") <= 10);
    CHECK(fit_without(&rows, "ring") <= 15);
    free_rows(&rows);
}
