/* Whether the costs that this build has were fitted to what was measured; see fitted.h. */
#include "tools/validate/fitted.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/calib.h"
#include "tools/validate/cases.h"
#include "tools/validate/measured_files.h"
#include "traces/measured.h"

enum {
    FILTERS_MAX = 4,
    CASES_MAX = 1024, /* looked at: no table has as many rows */
    ALIKE_MIN = 3,    /* rows of a log that are no chance */
};

static const double same_within = 1e-4; /* of a time: nccl-tests prints 4 digits and more */

/* Which tables were fitted to: those that any of these lets through. */
struct filters {
    struct tutti_measured_filter at[FILTERS_MAX];
    size_t count;
};

/* The filter behind `option` in "tutti-fit calibrate --filter 'collective=allreduce' ...". */
static int take_filter(const char *source, const char *option, struct filters *filters,
                       struct tutti_err *err)
{
    const char *text = strstr(source, option);
    char filter[512];
    size_t bytes;

    if (text == NULL || filters->count == FILTERS_MAX)
        return 0;
    text += strlen(option);
    bytes = strcspn(text, "'");
    if (bytes >= sizeof(filter))
        return 0;
    (void)snprintf(filter, sizeof(filter), "%.*s", (int)bytes, text);
    return tutti_measured_filter_parse(filter, &filters->at[filters->count++], err);
}

static int read_filters(struct filters *ret, struct tutti_err *err)
{
    static const char *const words[] = {"fit", "fit2"};
    struct tutti_calib *calib = NULL;
    int status = tutti_calib_builtin(&calib, err);

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && status == 0; i++) {
        const char *source = tutti_calib_source(calib, words[i]);

        if (source == NULL)
            continue;
        status = take_filter(source, "--filter '", ret, err);
        if (status == 0)
            status = take_filter(source, "--aside '", ret, err);
    }
    tutti_calib_free(calib);
    return status;
}

static bool is_fitted_to(const struct filters *filters, const struct tutti_measured_table *table)
{
    for (size_t i = 0; i < filters->count; i++) {
        if (tutti_measured_matches(&filters->at[i], table))
            return true;
    }
    return false;
}

static bool same_time(double a, double b)
{
    return fabs(a - b) <= same_within * b; /* NAN is the same as nothing */
}

/* Rows of a table rise in bytes. */
static bool has_case(const struct tutti_measured_table *table, const struct tutti_case *one)
{
    size_t low = 0;
    size_t high = table->row_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (table->rows[middle].bytes < one->bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low < table->row_count && table->rows[low].bytes == one->bytes &&
           (same_time(table->rows[low].out_us, one->measured_us) ||
            same_time(table->rows[low].in_us, one->measured_us));
}

static bool is_of_log(const struct tutti_measured_table *table, const struct tutti_cases *cases,
                      uint32_t rank_count)
{
    size_t count = cases->case_count < CASES_MAX ? cases->case_count : CASES_MAX;
    size_t shared = count < table->row_count ? count : table->row_count;
    size_t alike = 0;

    if (table->rank_count != rank_count)
        return false;
    for (size_t i = 0; i < count; i++)
        alike += cases->cases[i].params.collective == table->collective &&
                 has_case(table, &cases->cases[i]);
    return 2 * alike >= shared && alike >= (shared < ALIKE_MIN ? shared : ALIKE_MIN);
}

int tutti_fitted_find(const struct tutti_cases *cases, uint32_t rank_count, enum tutti_fitted *ret,
                      char id[TUTTI_FITTED_ID_BYTES], struct tutti_err *err)
{
    struct filters filters = {.count = 0};
    struct tutti_measured set = {.table_count = 0};
    const char *folder = tutti_measured_folder();
    enum tutti_fitted fitted = TUTTI_FITTED_NOT;
    int status = read_filters(&filters, err);

    id[0] = '\0';
    if (status == 0 && folder != NULL && filters.count > 0)
        status = tutti_measured_load(folder, &set, err);
    if (status == 0 ? set.table_count == 0 : status != -TUTTI_ENOMEM) {
        *ret = TUTTI_FITTED_UNKNOWN; /* which is not what was asked for, and no reason to fail */
        return 0;
    }
    for (size_t i = 0; status == 0 && i < set.table_count && fitted == TUTTI_FITTED_NOT; i++) {
        const struct tutti_measured_table *table = &set.tables[i];

        if (!is_fitted_to(&filters, table) || !is_of_log(table, cases, rank_count))
            continue;
        fitted = TUTTI_FITTED_TOO;
        (void)snprintf(id, TUTTI_FITTED_ID_BYTES, "%s", table->id);
    }
    tutti_measured_free(&set);
    if (status == 0)
        *ret = fitted;
    return status;
}
