/* Reads tables of training steps and reports on all of them; see training_run.h. */
#include "tools/validate/training_run.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "build.h"
#include "runtime/status.h"
#include "tools/cli/files.h"
#include "tools/cli/page.h"
#include "tools/sink.h"
#include "tools/validate/measured_files.h"

enum { PATH_BYTES = 4096 };

/* ---- tables ---------------------------------------------------------------------------------- */

static int load_file(const char *path, struct tutti_training_tables *tables, struct tutti_err *err)
{
    size_t wanted = (tables->table_count + 1) * sizeof(*tables->tables);
    struct tutti_training_rows *more = realloc(tables->tables, wanted);
    char *text = NULL;
    size_t bytes = 0;
    int status;

    if (more == NULL)
        return tutti_nomem(err);
    tables->tables = more;
    status = tutti_file_read(path, &text, &bytes, err);
    if (status == 0)
        status = tutti_training_parse(path, text, bytes, &more[tables->table_count], err);
    tables->table_count += status == 0;
    free(text);
    return status;
}

static int is_table(const struct dirent *entry)
{
    size_t bytes = strlen(entry->d_name);

    return bytes > 4 && strcmp(entry->d_name + bytes - 4, ".csv") == 0;
}

/* By bytes: the same order whatever the locale. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int load_folder(const char *path, struct tutti_training_tables *tables,
                       struct tutti_err *err)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, is_table, by_name);
    int status = 0;

    if (count <= 0)
        status = tutti_fail(err, TUTTI_EINVAL, "no tables of training steps in '%s' (*.csv)", path);
    for (int i = 0; i < count; i++) {
        char file[PATH_BYTES];
        int bytes = snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);

        if (status == 0 && (bytes < 0 || bytes >= PATH_BYTES))
            status = tutti_fail(err, TUTTI_EINVAL, "the name of '%s' is too long", path);
        if (status == 0)
            status = load_file(file, tables, err);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static int load_own(struct tutti_training_tables *tables, struct tutti_err *err)
{
    const char *folder = tutti_measured_folder();
    char path[PATH_BYTES];

    if (folder == NULL)
        return tutti_fail(err, TUTTI_ELACK,
                          "no measured tables are installed here (TUTTI_MEASURED_DIR, or files)");
    snprintf(path, sizeof(path), "%.4000s/training", folder);
    return load_folder(path, tables, err);
}

int tutti_training_load(const char *const *paths, size_t path_count,
                        struct tutti_training_tables *ret, struct tutti_err *err)
{
    struct tutti_training_tables tables = {.table_count = 0};
    struct stat info;
    int status = path_count == 0 ? load_own(&tables, err) : 0;

    for (size_t i = 0; i < path_count && status == 0; i++) {
        if (stat(paths[i], &info) == 0 && S_ISDIR(info.st_mode))
            status = load_folder(paths[i], &tables, err);
        else
            status = load_file(paths[i], &tables, err);
    }
    if (status < 0) {
        tutti_training_unload(&tables);
        return status;
    }
    *ret = tables;
    return 0;
}

void tutti_training_unload(struct tutti_training_tables *tables)
{
    for (size_t i = 0; i < tables->table_count; i++)
        tutti_training_free(&tables->tables[i]);
    free(tables->tables);
    *tables = (struct tutti_training_tables){.table_count = 0};
}

/* ---- the report ------------------------------------------------------------------------------ */

static void print_head(const struct tutti_training_tables *tables,
                       const struct tutti_training_report *report, const struct tutti_page *page)
{
    size_t row_count = 0;

    for (size_t i = 0; i < tables->table_count; i++) {
        row_count += tables->tables[i].row_count;
        if (tables->tables[i].passed_over[0] != '\0')
            fprintf(page->out, "# %s: columns passed over: %s\n", tables->tables[i].rows[0].file,
                    tables->tables[i].passed_over);
    }
    fprintf(page->out, "# %zu rows of %zu table%s; anchor: %s\n", row_count, tables->table_count,
            tables->table_count == 1 ? "" : "s", report->anchor == NULL ? "none" : report->anchor);
    if (report->costs != NULL)
        fprintf(page->out, "# costs: %s\n", report->costs);
    fprintf(page->out, "# null: one rate a device, of FLOPs in a family, of samples in a series\n");
}

static int print(const struct tutti_training_tables *tables,
                 const struct tutti_training_cases *cases,
                 const struct tutti_training_report *report, struct tutti_sink *sink,
                 struct tutti_err *err)
{
    struct tutti_json json = {.out = sink->out};
    struct tutti_page page;
    int status;

    if (report->format == TUTTI_TRAINING_CSV)
        return tutti_training_csv(cases, sink, err);
    if (report->format == TUTTI_TRAINING_TABLE) {
        status = tutti_page_open(&page, sink, err);
        if (status < 0)
            return status;
        print_head(tables, report, &page);
        return tutti_page_close(&page, tutti_training_print(cases, &page, err), err);
    }
    tutti_json_open(&json, NULL, '{');
    tutti_json_text(&json, "tutti", TUTTI_BUILD_VERSION);
    tutti_json_text(&json, "anchor", report->anchor);
    if (report->costs != NULL)
        tutti_json_text(&json, "costs", report->costs);
    status = tutti_training_json(cases, &json, err);
    tutti_json_close(&json);
    return status;
}

static int check_limit(const struct tutti_training_cases *cases, double limit_percent,
                       struct tutti_err *err)
{
    struct tutti_training_errors errors;
    int status = limit_percent > 0 ? tutti_training_errors(cases, SIZE_MAX, &errors, err) : 0;

    if (status < 0 || limit_percent <= 0 || errors.step.median_abs_percent <= limit_percent)
        return status;
    return tutti_fail(err, TUTTI_ECHECK, "the median error is %.1f %% (--limit %g)",
                      errors.step.median_abs_percent, limit_percent);
}

int tutti_training_report(const struct tutti_training_report *report, struct tutti_sink *sink,
                          struct tutti_err *err)
{
    struct tutti_training_tables tables = {.table_count = 0};
    struct tutti_training_cases cases = {.case_count = 0};
    struct tutti_training_anchor anchor;
    int status = 0;

    if (report->anchor != NULL)
        status = tutti_training_anchor_parse(report->anchor, &anchor, err);
    if (status == 0)
        status = tutti_training_load(report->paths, report->path_count, &tables, err);
    if (status == 0)
        status = tutti_training_cases_new(tables.tables, tables.table_count, &cases, err);
    if (status == 0 && report->anchor != NULL)
        status = tutti_training_anchor_choose(&cases, &anchor, err);
    if (status == 0)
        status = tutti_training_predict(&cases, &report->predictor, err);
    if (status == 0)
        status = print(&tables, &cases, report, sink, err);
    if (status == 0)
        status = check_limit(&cases, report->limit_percent, err);
    tutti_training_cases_done(&cases);
    tutti_training_unload(&tables);
    return status;
}
