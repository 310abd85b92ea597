/* `calibrate --training`; see step_command.h. */
#include "tools/calibrate/step_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/calib.h"
#include "tools/calibrate/fit_job.h"
#include "tools/cli/files.h"
#include "tools/options.h"
#include "tools/sink.h"

static int read_free(const struct tutti_args *args, const struct tutti_framework_constant **named,
                     size_t *ret_count, struct tutti_err *err)
{
    size_t count;
    const struct tutti_framework_constant *all = tutti_framework_constants(&count);
    const char *word;

    *ret_count = 0;
    for (uint32_t i = 0; (word = tutti_args_word(args, "free", i)) != NULL; i++) {
        char accepted[512] = "";
        char hint[TUTTI_HINT_BYTES];
        size_t used = 0;
        size_t at = 0;

        while (at < count && strcmp(all[at].name, word) != 0)
            at++;
        for (size_t c = 0; c < count; c++)
            used += (size_t)snprintf(accepted + used, sizeof(accepted) - used, "%s%s",
                                     c > 0 ? ", " : "", all[c].name);
        if (at == count)
            return tutti_fail(err, TUTTI_EINVAL, "option '--free': unknown constant '%s' (%s%s)",
                              word, tutti_nearest_hint(word, accepted, hint), accepted);
        if (*ret_count == TUTTI_STEP_CONSTANTS_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "option '--free': '%s' is one too many (%d)", word,
                              TUTTI_STEP_CONSTANTS_MAX);
        named[(*ret_count)++] = &all[at];
    }
    return 0;
}

static int solve_all(const struct tutti_framework_constant *const *named, size_t named_count,
                     struct tutti_step_rows *rows, struct tutti_step_report *report,
                     struct tutti_err *err)
{
    size_t count;
    const struct tutti_framework *all = tutti_frameworks(&count);
    int status = 0;

    for (size_t i = 0; i < count && status == 0; i++) {
        bool used = false;

        for (size_t r = 0; r < rows->row_count; r++)
            used |= rows->rows[r].framework == &all[i];
        if (!used || report->fit_count == TUTTI_STEP_FITS_MAX)
            continue;
        status = tutti_step_fit_solve(rows, &all[i], named, named_count,
                                      &report->fits[report->fit_count], err);
        report->fit_count += status == 0;
    }
    return status;
}

/* ---- the file -------------------------------------------------------------------------------- */

static int write_calib(const struct tutti_args *args, const struct tutti_step_report *report,
                       struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_calib *calib = NULL;
    char source[512];
    char *text = NULL;
    int status = tutti_calib_new(&calib, err);

    (void)snprintf(source, sizeof(source), "tutti calibrate --training %.300s%s: %zu rows",
                   tutti_args_operand(args, 0), tutti_args_operand(args, 1) != NULL ? " ..." : "",
                   report->rows->row_count);
    for (char *p = source; *p != '\0'; p++) /* names of files may have anything */
        if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '#')
            *p = '?';
    if (status == 0)
        status = tutti_calib_set_title(calib, tutti_args_text(args, "title"), err);
    if (status == 0)
        status = tutti_calib_set_source(calib, "fit", source, err);
    for (size_t i = 0; i < report->fit_count && status == 0; i++)
        status = tutti_step_fit_keep(&report->fits[i], "fit", calib, err);
    if (status == 0)
        status = tutti_calib_print(calib, &text, err);
    if (status == 0)
        status = tutti_file_write(report->output, text, strlen(text), sink, err);
    free(text);
    tutti_calib_free(calib);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

int tutti_calibrate_training(const struct tutti_args *args, struct tutti_sink *sink,
                             struct tutti_err *err)
{
    const char *paths[TUTTI_STEP_FILES_MAX];
    size_t path_count = 0;
    struct tutti_step_rows rows = {.row_count = 0};
    struct tutti_step_report report = {.rows = &rows};
    const struct tutti_framework_constant *named[TUTTI_STEP_CONSTANTS_MAX];
    size_t named_count = 0;
    int status = tutti_fit_title_check(args, err);

    while (path_count < TUTTI_STEP_FILES_MAX &&
           (paths[path_count] = tutti_args_operand(args, (uint32_t)path_count)) != NULL)
        path_count++;
    if (tutti_args_given(args, "output"))
        report.output = tutti_args_text(args, "output");
    if (status == 0 && path_count == 0)
        status = tutti_fail(err, TUTTI_EINVAL,
                            "nothing to fit to (--training FILE.csv, as 'tutti validate "
                            "--training' reads it)");
    if (status == 0)
        status = read_free(args, named, &named_count, err);
    if (status == 0)
        status = tutti_step_rows_open(paths, path_count, &rows, err);
    if (status == 0)
        status = solve_all(named, named_count, &rows, &report, err);
    if (status == 0 && report.output != NULL)
        status = write_calib(args, &report, sink, err);
    if (status == 0)
        status = tutti_step_print(args, &report, sink, err);
    tutti_step_rows_close(&rows);
    return status;
}
