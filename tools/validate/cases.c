/* Collects cases, measures their errors, knows the null model; see cases.h. */
#include "tools/validate/cases.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/sink.h"
#include "tools/validate/percentiles.h"
#include "topo/topo.h"

static const uint64_t small_bytes_max = (1 << 20) - 1;

int tutti_cases_add(struct tutti_cases *cases, const struct tutti_case *one)
{
    if (cases->case_count == cases->case_capacity) {
        size_t capacity = cases->case_capacity == 0 ? 64 : 2 * cases->case_capacity;
        struct tutti_case *more = realloc(cases->cases, capacity * sizeof(*more));

        if (more == NULL)
            return -TUTTI_ENOMEM;
        cases->cases = more;
        cases->case_capacity = capacity;
    }
    cases->cases[cases->case_count++] = *one;
    return 0;
}

void tutti_cases_done(struct tutti_cases *cases)
{
    free(cases->cases);
    *cases = (struct tutti_cases){0};
}

/* ---- errors ---------------------------------------------------------------------------------- */

static double error_percent(double predicted_us, double measured_us)
{
    return 100.0 * (predicted_us - measured_us) / measured_us;
}

static bool is_here(const struct tutti_cases *cases)
{
    return cases->case_count > 0 && cases->cases[0].calibrated_us > 0;
}

/* Which time of a case is held against what was measured. */
enum column { PREDICTED, NULL_MODEL, CALIBRATED };

static double time_of(const struct tutti_case *one, enum column column)
{
    return column == PREDICTED    ? one->predicted_us
           : column == NULL_MODEL ? one->null_us
                                  : one->calibrated_us;
}

/* The errors of the cases of `least` to `most` bytes, either way, sorted; how many. */
static size_t sort_errors(const struct tutti_cases *cases, enum column column, uint64_t least,
                          uint64_t most, double *errors)
{
    size_t count = 0;

    for (size_t i = 0; i < cases->case_count; i++) {
        const struct tutti_case *one = &cases->cases[i];

        if (one->bytes >= least && one->bytes <= most)
            errors[count++] = fabs(error_percent(time_of(one, column), one->measured_us));
    }
    tutti_percentiles_sort(errors, count);
    return count;
}

int tutti_cases_errors(const struct tutti_cases *cases, struct tutti_errors *ret,
                       struct tutti_err *err)
{
    size_t count = cases->case_count;
    double *errors = calloc(count + 1, sizeof(*errors));

    assert(count > 0);
    if (errors == NULL)
        return tutti_nomem(err);
    *ret = (struct tutti_errors){.small_count = 0};
    (void)sort_errors(cases, NULL_MODEL, 0, UINT64_MAX, errors);
    ret->null_median_abs_percent = tutti_percentiles_median(errors, count);
    if (is_here(cases)) {
        (void)sort_errors(cases, CALIBRATED, 0, UINT64_MAX, errors);
        ret->calibrated_median_abs_percent = tutti_percentiles_median(errors, count);
    }
    ret->small_count = sort_errors(cases, PREDICTED, 0, small_bytes_max, errors);
    if (ret->small_count > 0)
        ret->small_median_abs_percent = tutti_percentiles_median(errors, ret->small_count);
    if (sort_errors(cases, PREDICTED, small_bytes_max + 1, UINT64_MAX, errors) > 0)
        ret->large_median_abs_percent = tutti_percentiles_median(errors, count - ret->small_count);
    (void)sort_errors(cases, PREDICTED, 0, UINT64_MAX, errors);
    ret->median_abs_percent = tutti_percentiles_median(errors, count);
    ret->p90_abs_percent = tutti_percentiles_p90(errors, count);
    ret->worst_abs_percent = errors[count - 1];
    free(errors);
    return 0;
}

/* ---- the null model -------------------------------------------------------------------------- */

double tutti_null_us(enum tutti_collective collective, uint32_t rank_count, uint64_t bytes,
                     double latency_ps, double bytes_per_s)
{
    double n = (double)rank_count;
    double all_us = (double)bytes / bytes_per_s * 1e6;
    double hop_us = latency_ps / (double)TUTTI_PS_PER_US;

    if (rank_count < 2)
        return 0;
    switch (collective) {
    case TUTTI_ALLREDUCE:
        return 2 * (n - 1) * (hop_us + all_us / n);
    case TUTTI_REDUCESCATTER:
    case TUTTI_ALLGATHER:
    case TUTTI_ALLTOALL:
        return (n - 1) * (hop_us + all_us / n);
    case TUTTI_BROADCAST:
    case TUTTI_REDUCE_TO_ROOT:
        return (n - 1) * hop_us + all_us;
    case TUTTI_BARRIER:
        return 2 * (n - 1) * hop_us;
    default:
        return hop_us + all_us;
    }
}

int tutti_null_ring(const struct tutti_topo *topo, double *ret_latency_ps, double *ret_bytes_per_s,
                    struct tutti_err *err)
{
    uint32_t *route = calloc((size_t)topo->node_count + 1, sizeof(*route));
    uint64_t narrowest = UINT64_MAX;
    tutti_ps longest_ps = 0;

    if (route == NULL)
        return tutti_nomem(err);
    for (uint32_t r = 0; topo->rank_count > 1 && r < topo->rank_count; r++) {
        uint32_t hops =
            tutti_topo_route(topo, r, (r + 1) % topo->rank_count, route, topo->node_count);
        tutti_ps latency_ps = 0;

        for (uint32_t i = 0; i < hops; i++) {
            struct tutti_link link = tutti_topo_link(topo, route[i]);

            if (__builtin_add_overflow(latency_ps, link.latency_ps, &latency_ps))
                latency_ps = INT64_MAX;
            narrowest = link.bytes_per_s < narrowest ? link.bytes_per_s : narrowest;
        }
        longest_ps = latency_ps > longest_ps ? latency_ps : longest_ps;
    }
    free(route);
    *ret_latency_ps = (double)longest_ps;
    *ret_bytes_per_s = (double)narrowest;
    return 0;
}

/* ---- printing -------------------------------------------------------------------------------- */

/* The first five keys are the contract of the interface. */
static const struct tutti_column columns[] = {
    {"bytes", "size", "B", TUTTI_CELL_COUNT},
    {"measured_us", "measured", "us", TUTTI_CELL_NUMBER},
    {"predicted_us", "predicted", "us", TUTTI_CELL_NUMBER},
    {"null_us", "null model", "us", TUTTI_CELL_NUMBER},
    {"error_percent", "error", "%", TUTTI_CELL_NUMBER},
    {"null_error_percent", "of null", "%", TUTTI_CELL_NUMBER},
    {"collective", "collective", "", TUTTI_CELL_TEXT},
    {"algorithm", "algorithm", "", TUTTI_CELL_TEXT},
    {"protocol", "protocol", "", TUTTI_CELL_TEXT},
    {"log", NULL, "", TUTTI_CELL_TEXT}, /* shown where there are several */
    /* Of this machine alone: */
    {"calibrated_us", "calibrated", "us", TUTTI_CELL_NUMBER},
    {"apart_ns", "apart", "ns", TUTTI_CELL_NUMBER},
};

enum { COLUMN_COUNT = sizeof(columns) / sizeof(columns[0]), LOG_COLUMN = COLUMN_COUNT - 3 };

/* The file without its folders: what tells rows of several logs apart in a table. */
static const char *file_name(const char *path)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;

    if (path == NULL)
        return "";
    return slash != NULL ? slash + 1 : path;
}

static int make_table(const struct tutti_cases *cases, struct tutti_column *shown,
                      struct tutti_table **ret, struct tutti_err *err)
{
    struct tutti_table *table;
    int status;

    memcpy(shown, columns, sizeof(columns));
    for (size_t i = 0; i < COLUMN_COUNT && is_here(cases); i++) {
        if (strcmp(shown[i].key, "null_us") == 0 || strcmp(shown[i].key, "protocol") == 0)
            shown[i].title = NULL; /* widths vary with what is measured, and the columns must not */
    }
    for (size_t i = 1; i < cases->case_count; i++) {
        if (cases->cases[i].log != cases->cases[0].log)
            shown[LOG_COLUMN].title = "log";
    }
    table = tutti_table_new(shown, is_here(cases) ? COLUMN_COUNT : LOG_COLUMN + 1);
    status = table == NULL ? -TUTTI_ENOMEM : 0;
    for (size_t i = 0; status == 0 && i < cases->case_count; i++) {
        const struct tutti_case *one = &cases->cases[i];

        status =
            tutti_table_add(table, one->bytes, one->measured_us, one->predicted_us, one->null_us,
                            error_percent(one->predicted_us, one->measured_us),
                            error_percent(one->null_us, one->measured_us),
                            tutti_collective_name(one->params.collective), one->algorithm,
                            one->protocol, file_name(one->log), one->calibrated_us, one->apart_ns);
    }
    if (status < 0) {
        tutti_table_free(table);
        return tutti_nomem(err);
    }
    *ret = table;
    return 0;
}

int tutti_cases_print(const struct tutti_cases *cases, const struct tutti_errors *errors,
                      const struct tutti_page *page, struct tutti_err *err)
{
    struct tutti_column shown[COLUMN_COUNT];
    struct tutti_table *table = NULL;
    char text[4][TUTTI_NUMBER_TEXT_BYTES];
    int status = make_table(cases, shown, &table, err);

    if (status < 0)
        return status;
    tutti_table_print(table, page);
    tutti_table_free(table);
    fprintf(
        page->out,
        "# error of %zu size%s: median %s %%, 9 of 10 within %s %%, worst %s %%; null model: %s "
        "%%\n",
        cases->case_count, cases->case_count == 1 ? "" : "s",
        tutti_number_text(errors->median_abs_percent, text[0]),
        tutti_number_text(errors->p90_abs_percent, text[1]),
        tutti_number_text(errors->worst_abs_percent, text[2]),
        tutti_number_text(errors->null_median_abs_percent, text[3]));
    if (errors->small_count > 0 && errors->small_count < cases->case_count)
        fprintf(page->out, "#   median below 1 MiB %s %% of %zu, from there on %s %% of %zu\n",
                tutti_number_text(errors->small_median_abs_percent, text[0]), errors->small_count,
                tutti_number_text(errors->large_median_abs_percent, text[1]),
                cases->case_count - errors->small_count);
    return 0;
}

int tutti_cases_json(const struct tutti_cases *cases, const struct tutti_errors *errors,
                     struct tutti_json *json, struct tutti_err *err)
{
    struct tutti_column shown[COLUMN_COUNT];
    struct tutti_table *table = NULL;
    int status = make_table(cases, shown, &table, err);

    if (status < 0)
        return status;
    tutti_table_json(table, "cases", json);
    tutti_table_free(table);
    tutti_json_number(json, "median_abs_percent", errors->median_abs_percent);
    tutti_json_number(json, "p90_abs_percent", errors->p90_abs_percent);
    tutti_json_number(json, "worst_abs_percent", errors->worst_abs_percent);
    tutti_json_number(json, "null_median_abs_percent", errors->null_median_abs_percent);
    if (errors->small_count > 0)
        tutti_json_number(json, "below_1MiB_median_abs_percent", errors->small_median_abs_percent);
    if (errors->small_count < cases->case_count)
        tutti_json_number(json, "from_1MiB_median_abs_percent", errors->large_median_abs_percent);
    if (is_here(cases))
        tutti_json_number(json, "calibrated_median_abs_percent",
                          errors->calibrated_median_abs_percent);
    return 0;
}

int tutti_cases_csv(const struct tutti_cases *cases, struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_column shown[COLUMN_COUNT];
    struct tutti_table *table = NULL;
    int status = make_table(cases, shown, &table, err);

    if (status < 0)
        return status;
    tutti_table_csv(table, sink->out);
    tutti_table_free(table);
    return 0;
}
