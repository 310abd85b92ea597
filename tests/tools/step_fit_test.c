/* Constants of a framework fitted to measured steps: found where rows tell them, held by priors
 * where they do not, and judged by rows that no fit has seen. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/status.h"
#include "sim/calib.h"
#include "tests/test.h"
#include "tools/calibrate/step_fit.h"

enum { ROWS = 12 };

static const char head[] = "# gpu: A100-SXM4-80GB\n# gpus_per_node: 8\n# nodes: 1\n"
                           "# network: one node\n# framework: PyTorch DDP\n# precision: bf16\n"
                           "# seq_len: 1024\n# heads: 16\n# model: GPT\n# vocab: 51200\n"
                           "gpus,layers,hidden,micro_batch,global_batch,step_time_s\n";

static void write_table(const char *path, const double *steps)
{
    static const int hiddens[] = {1024, 2048, 4096};
    static const int batches[] = {1, 2, 4, 8};
    FILE *out = fopen(path, "w");

    CHECK(out != NULL);
    fputs(head, out);
    for (int i = 0; i < ROWS; i++)
        fprintf(out, "1,8,%d,%d,%d,%.9g\n", hiddens[i / 4], batches[i % 4], batches[i % 4],
                steps[i]);
    CHECK(fclose(out) == 0);
}

static const struct tutti_framework_constant *constant_of(const char *name)
{
    size_t count;
    const struct tutti_framework_constant *all = tutti_framework_constants(&count);
    size_t i = 0;

    while (strcmp(all[i].name, name) != 0)
        i++;
    CHECK(i < count);
    return &all[i];
}

/* Rows as a framework would take that differs in two constants, and is noisy by `noise`. */
static void open_rows(const char *path, const struct tutti_framework *truth, double noise,
                      struct tutti_step_rows *rows)
{
    const char *paths[] = {path};
    struct tutti_err err = {""};
    double steps[ROWS];

    for (int i = 0; i < ROWS; i++)
        steps[i] = 1;
    write_table(path, steps);
    CHECK_OK(tutti_step_rows_open(paths, 1, rows, &err), err);
    CHECK_INT(rows->row_count, ROWS);
    CHECK_OK(tutti_step_rows_simulate(rows, truth, &err), err);
    for (int i = 0; i < ROWS; i++)
        steps[i] = rows->rows[i].simulated_s * (1 + (i % 2 == 0 ? noise : -noise));
    tutti_step_rows_close(rows);
    write_table(path, steps);
    CHECK_OK(tutti_step_rows_open(paths, 1, rows, &err), err);
    CHECK(unlink(path) == 0);
}

TEST(constants_that_rows_tell_are_found)
{
    const struct tutti_framework_constant *named[] = {constant_of("matmul_half"),
                                                      constant_of("passes")};
    const struct tutti_framework *given;
    struct tutti_err err = {""};
    struct tutti_step_rows rows;
    struct tutti_step_fit fit;
    struct tutti_framework truth;

    CHECK_OK(tutti_framework_find("pytorch", &given, &err), err);
    truth = *given;
    truth.matmul_half = 0.55;
    truth.passes = 3.0;
    open_rows("step_fit_found.csv", &truth, 0.01, &rows);
    CHECK_OK(tutti_step_fit_solve(&rows, given, named, 2, &fit, &err), err);

    CHECK_INT(fit.constant_count, 2);
    CHECK(fabs(fit.fitted.matmul_half / 0.55 - 1) < 0.05);
    CHECK(fit.constants[0].told);
    CHECK(fit.constants[1].told);
    CHECK(fit.constants[0].low < 0.55 && fit.constants[0].high > 0.55);
    CHECK(fit.constants[1].low < 3.0 && fit.constants[1].high > 3.0);
    CHECK(fit.fold_count == 5);
    for (size_t i = 0; i < rows.row_count; i++) {
        CHECK(fabs(rows.rows[i].fitted_s / rows.rows[i].measured_s - 1) < 0.05);
        CHECK(fabs(rows.rows[i].unseen_s / rows.rows[i].measured_s - 1) < 0.06);
        CHECK(fabs(rows.rows[i].given_s / rows.rows[i].measured_s - 1) > 0.06);
    }
    tutti_step_rows_close(&rows);
}

/* A row ten times as slow as anything says nothing of the eleven others. */
TEST(a_row_that_is_far_off_moves_little)
{
    const struct tutti_framework *given;
    struct tutti_err err = {""};
    struct tutti_step_rows rows;
    struct tutti_step_fit fit;

    CHECK_OK(tutti_framework_find("pytorch", &given, &err), err);
    open_rows("step_fit_far.csv", given, 0.01, &rows);
    rows.rows[5].measured_s *= 10;
    CHECK_OK(tutti_step_fit_solve(&rows, given, NULL, 0, &fit, &err), err);
    CHECK(fit.constant_count >= 3);
    for (size_t i = 0; i < rows.row_count; i++)
        if (i != 5)
            CHECK(fabs(rows.rows[i].fitted_s / rows.rows[i].measured_s - 1) < 0.05);
    tutti_step_rows_close(&rows);
}

/* What is kept is what a calibration gives back, and of other frameworks nothing. */
TEST(a_calibration_gives_a_framework_its_constants)
{
    const struct tutti_framework *given, *other;
    struct tutti_err err = {""};
    struct tutti_step_rows rows;
    struct tutti_step_fit fit;
    struct tutti_calib *calib, *again;
    struct tutti_framework made;
    char *text;

    CHECK_OK(tutti_framework_find("pytorch", &given, &err), err);
    CHECK_OK(tutti_framework_find("xla", &other, &err), err);
    open_rows("step_fit_kept.csv", given, 0.04, &rows);
    CHECK_OK(tutti_step_fit_solve(&rows, given, NULL, 0, &fit, &err), err);
    CHECK_OK(tutti_calib_new(&calib, &err), err);
    CHECK_OK(tutti_calib_set_source(calib, "fit", "made up", &err), err);
    CHECK_OK(tutti_step_fit_keep(&fit, "fit", calib, &err), err);
    CHECK_OK(tutti_calib_print(calib, &text, &err), err);
    CHECK_OK(tutti_calib_parse("text", text, strlen(text), &again, &err), err);

    CHECK_INT(tutti_calib_framework((const struct tutti_calib *const *)&again, 1, given, &made),
              fit.constant_count);
    CHECK(memcmp(&made, &fit.fitted, sizeof(made)) == 0);
    CHECK_INT(tutti_calib_framework((const struct tutti_calib *const *)&again, 1, other, &made), 0);
    CHECK(memcmp(&made, other, sizeof(made)) == 0);
    tutti_calib_free(calib);
    tutti_calib_free(again);
    free(text);
    tutti_step_rows_close(&rows);
}
