/* Rows for fits; see rows.h. */
#include "tools/fit/rows.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/options.h"
#include "tools/validate/percentiles.h"

/* ---- groups ---------------------------------------------------------------------------------- */

static int check_columns(const char *columns, struct tutti_err *err)
{
    for (const char *at = columns; *at != '\0';) {
        size_t bytes = strcspn(at, ",");
        const struct tutti_training_field *field;
        char name[64];
        int status;

        (void)snprintf(name, sizeof(name), "%.*s", (int)bytes, at);
        status = tutti_training_field_find(name, &field, err);
        if (status < 0)
            return tutti_wrap(err, status, "option '--leave-out'");
        at += bytes + (at[bytes] == ',');
    }
    return 0;
}

static void name_group(const struct tutti_training_row *row, const char *columns,
                       char ret[TUTTI_FIT_GROUP_BYTES])
{
    size_t used = 0;

    ret[0] = '\0';
    for (const char *at = columns; *at != '\0' && used < TUTTI_FIT_GROUP_BYTES;) {
        size_t bytes = strcspn(at, ",");
        const struct tutti_training_field *field;
        char name[64];
        char value[TUTTI_TRAINING_VALUE_BYTES];

        (void)snprintf(name, sizeof(name), "%.*s", (int)bytes, at);
        if (tutti_training_field_find(name, &field, NULL) == 0)
            used += (size_t)snprintf(ret + used, TUTTI_FIT_GROUP_BYTES - used, "%s%s=%.40s",
                                     used > 0 ? " " : "", name,
                                     tutti_training_value(row, field, value));
        at += bytes + (at[bytes] == ',');
    }
}

static size_t group_of(struct tutti_fit_rows *rows, const struct tutti_training_row *row,
                       const char *columns)
{
    char *name = rows->groups[rows->group_count];

    name_group(row, columns, name);
    for (size_t i = 0; i < rows->group_count; i++)
        if (strcmp(rows->groups[i], name) == 0)
            return i;
    return rows->group_count++;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool is_measured(const struct tutti_training_row *row)
{
    return row->measured_step_s > 0;
}

bool tutti_fit_rows_alike(const struct tutti_training_row *a, const struct tutti_training_row *b)
{
    return a->settings.gpus == b->settings.gpus && a->settings.hidden == b->settings.hidden &&
           a->settings.layers == b->settings.layers &&
           a->settings.global_batch == b->settings.global_batch &&
           strcmp(a->settings.model, b->settings.model) == 0;
}

static bool is_near(const struct tutti_fit_rows *rows, const struct tutti_training_row *row,
                    double within)
{
    for (size_t i = 0; i < rows->row_count; i++) {
        const struct tutti_training_row *other = rows->rows[i].row;

        if (is_measured(other) && row->measured_step_s > within * other->measured_step_s &&
            tutti_fit_rows_alike(row, other))
            return false;
    }
    return true;
}

static bool has_result(const struct tutti_training_row *row)
{
    return is_measured(row) || row->results.memory == TUTTI_TRAINING_MEMORY_STATED;
}

static void take_rows(struct tutti_fit_rows *rows, const char *columns, uint64_t every)
{
    uint64_t count = 0;

    for (size_t t = 0; t < rows->tables.table_count; t++) {
        const struct tutti_training_rows *table = &rows->tables.tables[t];

        for (size_t i = 0; i < table->row_count; i++) {
            const struct tutti_training_row *row = &table->rows[i];

            if (strcmp(row->quality, "degraded") == 0 || row->problem[0] != '\0')
                continue;
            rows->rows[rows->row_count++] = (struct tutti_fit_row){
                row, group_of(rows, row, columns), has_result(row) && count++ % every == 0, true};
        }
    }
}

/* O(rows squared), of comparisons of a few numbers. */
int tutti_fit_rows_open(const struct tutti_args *args, struct tutti_fit_rows *ret,
                        struct tutti_err *err)
{
    const char *columns = tutti_args_text(args, "leave-out");
    const char *paths[TUTTI_FIT_FILES_MAX];
    uint64_t every = tutti_args_number(args, "every");
    size_t path_count = 0;
    size_t count = 0;
    int status = check_columns(columns == NULL ? "" : columns, err);

    if (status < 0)
        return status;
    while (path_count < TUTTI_FIT_FILES_MAX &&
           (paths[path_count] = tutti_args_operand(args, (uint32_t)path_count)) != NULL)
        path_count++;
    status = tutti_training_load(paths, path_count, &ret->tables, err);
    if (status < 0)
        return status;
    for (size_t i = 0; i < ret->tables.table_count; i++)
        count += ret->tables.tables[i].row_count;
    ret->rows = calloc(count + 1, sizeof(*ret->rows));
    ret->groups = calloc(count + 1, sizeof(*ret->groups));
    if (ret->rows == NULL || ret->groups == NULL)
        return tutti_nomem(err);
    take_rows(ret, columns == NULL ? "" : columns, every);
    for (size_t i = 0; i < ret->row_count && tutti_args_given(args, "within"); i++)
        ret->rows[i].near = !is_measured(ret->rows[i].row) ||
                            is_near(ret, ret->rows[i].row, tutti_args_real(args, "within"));
    return 0;
}

void tutti_fit_rows_close(struct tutti_fit_rows *rows)
{
    free(rows->rows);
    free(rows->groups);
    tutti_training_unload(&rows->tables);
}

void tutti_fit_print_spread(double *errors, size_t count, FILE *out)
{
    double sum = 0;

    if (count == 0) {
        fprintf(out, "no rows");
        return;
    }
    tutti_percentiles_sort(errors, count);
    for (size_t i = 0; i < count; i++)
        sum += errors[i];
    fprintf(out, "%zu rows, median %.2f %%, mean %.2f %%, p90 %.2f %%, worst %.2f %%", count,
            tutti_percentiles_median(errors, count), sum / (double)count,
            tutti_percentiles_p90(errors, count), errors[count - 1]);
}
