/* Errors summed up so that every table counts alike; see accuracy.h. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/fit/accuracy/accuracy.h"

static const char *const names[TUTTI_FORECASTERS] = {"ours",  "model-a", "nominal",
                                                     "astra", "nearest", "twins"};

const char *tutti_forecaster_name(enum tutti_forecaster forecaster)
{
    assert(forecaster < TUTTI_FORECASTERS);
    return names[forecaster];
}

bool tutti_accuracy_counts(const struct tutti_accuracy_table *table)
{
    const char *library = table->measured->library;

    return !table->measured->degraded &&
           (strcmp(library, "nccl") == 0 || strcmp(library, "rccl") == 0);
}

/* Absolute errors in percent, one a row or one a bin. */
struct errors {
    double *percent;
    size_t count;
};

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

/* Sorts; of an even number the mean of the two in the middle, as tutti_cases_errors(). */
static double median(struct errors *errors)
{
    if (errors->count == 0)
        return NAN;
    qsort(errors->percent, errors->count, sizeof(double), compare);
    return (errors->percent[(errors->count - 1) / 2] + errors->percent[errors->count / 2]) / 2;
}

/* Of sorted ones: the smallest that at least 9 of 10 do not exceed. */
static double nine_of_ten(const struct errors *errors)
{
    return errors->count == 0 ? NAN : errors->percent[(errors->count * 9 + 9) / 10 - 1];
}

static bool takes_row(const struct tutti_accuracy_slice *slice,
                      const struct tutti_accuracy_row *row)
{
    bool has = !isnan(row->us[slice->forecaster]);

    for (uint32_t f = 0; f < TUTTI_FORECASTERS; f++)
        has = has && ((slice->also >> f & 1) == 0 || !isnan(row->us[f]));
    return has && row->bytes >= slice->bytes_min && row->bytes < slice->bytes_max;
}

static uint32_t power_of_two(uint64_t bytes)
{
    return bytes == 0 ? 0 : 63 - (uint32_t)__builtin_clzll(bytes);
}

/* The errors of one table: its rows one by one, and the mean of each power of two. */
static void add_table(const struct tutti_accuracy_slice *slice,
                      const struct tutti_accuracy_table *table, struct errors *rows,
                      struct errors *bins, struct tutti_accuracy_sum *sum)
{
    uint32_t open = UINT32_MAX; /* the bin being summed */
    double total = 0;
    size_t count = 0;

    for (size_t i = 0; i < table->row_count; i++) {
        const struct tutti_accuracy_row *row = &table->rows[i];
        double percent;

        if (!takes_row(slice, row))
            continue;
        percent = 100 * fabs(row->us[slice->forecaster] - row->measured_us) / row->measured_us;
        if (power_of_two(row->bytes) != open && count > 0) {
            bins->percent[bins->count++] = total / (double)count;
            total = 0;
            count = 0;
        }
        open = power_of_two(row->bytes);
        total += percent;
        count++;
        rows->percent[rows->count++] = percent;
        if (sum->worst == NULL || percent > sum->worst_percent) {
            sum->worst = table;
            sum->worst_bytes = row->bytes;
            sum->worst_percent = percent;
        }
    }
    if (count == 0)
        return;
    bins->percent[bins->count++] = total / (double)count;
    sum->table_count++;
}

int tutti_accuracy_sum(const struct tutti_accuracy *accuracy,
                       const struct tutti_accuracy_slice *slice, struct tutti_accuracy_sum *ret,
                       struct tutti_err *err)
{
    struct tutti_accuracy_sum sum = {.worst_percent = NAN};
    struct errors rows = {0};
    struct errors bins = {0};
    size_t room = 1;

    for (size_t i = 0; i < accuracy->table_count; i++)
        room += accuracy->tables[i].row_count;
    rows.percent = calloc(room, sizeof(double));
    bins.percent = calloc(room, sizeof(double));
    if (rows.percent == NULL || bins.percent == NULL) {
        free(rows.percent);
        free(bins.percent);
        return tutti_nomem(err);
    }
    for (size_t i = 0; i < accuracy->table_count; i++) {
        const struct tutti_accuracy_table *table = &accuracy->tables[i];

        if (table->chosen && (slice->takes == NULL || slice->takes(table, slice->name)))
            add_table(slice, table, &rows, &bins, &sum);
    }
    assert(rows.count < room);
    assert(bins.count <= rows.count);
    sum.bin_count = bins.count;
    sum.row_count = rows.count;
    sum.median_percent = median(&bins);
    sum.p90_percent = nine_of_ten(&bins);
    sum.plain_median_percent = median(&rows);
    sum.plain_p90_percent = nine_of_ten(&rows);
    free(rows.percent);
    free(bins.percent);
    *ret = sum;
    return 0;
}
