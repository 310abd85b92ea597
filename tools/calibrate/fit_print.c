/* What is printed of a fit: its errors, as fitted and without what is judged; see fit_job.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "build.h"
#include "runtime/status.h"
#include "tools/calibrate/fit_job.h"
#include "tools/cli/json.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/sink.h"

double *tutti_fit_numbers(size_t count)
{
    return calloc(count + 1, sizeof(double));
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Median and 9 of 10 of the errors in percent of a collective (TUTTI_COLLECTIVE_COUNT: all) in a
 * band; how many there are. */
static size_t sum_up(const struct tutti_fit_job *job, const double *times, int collective,
                     uint64_t least, uint64_t most, double ret[2], double *room)
{
    size_t count = 0;

    for (size_t c = 0; c < job->cases.case_count; c++) {
        const struct tutti_fit_case *one = &job->cases.cases[c];

        for (size_t i = one->first_point; i < one->first_point + one->point_count; i++) {
            uint64_t bytes = job->cases.points[i].bytes;

            if (!job->cases.points[i].wrong && bytes >= least && bytes < most &&
                (collective == TUTTI_COLLECTIVE_COUNT || (int)one->table->collective == collective))
                room[count++] = 100 * fabs(exp(times[i] - job->observed[i]) - 1);
        }
    }
    qsort(room, count, sizeof(*room), by_size);
    ret[0] = count > 0 ? room[(count - 1) / 2] : NAN;
    ret[1] = count > 0 ? room[(count - 1) * 9 / 10] : NAN;
    return count;
}

static const struct {
    const char *name;
    uint64_t least, most;
} bands[] = {
    {"<1MiB", 0, 1 << 20}, {">=1MiB", 1 << 20, UINT64_MAX}, {">=16MiB", 1 << 24, UINT64_MAX}};

enum { VALUES_SHOWN_MAX = 64 };

enum { BANDS = sizeof(bands) / sizeof(bands[0]) };

static const char *collective_of(int collective)
{
    return collective == TUTTI_COLLECTIVE_COUNT
               ? "all"
               : tutti_collective_name((enum tutti_collective)collective);
}

int tutti_fit_print_errors(const struct tutti_fit_job *job, const struct tutti_page *page,
                           struct tutti_err *err)
{
    double *room = tutti_fit_numbers(job->cases.point_count);

    if (room == NULL)
        return tutti_nomem(err);
    fprintf(page->out,
            "# errors in percent, median and 9 of 10; a power of two of bytes in a table counts "
            "once\n" TUTTI_PAGE_TITLE
            "#  collective     size     sizes  as fitted      without site   without platform\n");
    for (int collective = TUTTI_COLLECTIVE_COUNT; collective >= 0; collective--) {
        for (size_t b = 0; b < BANDS; b++) {
            double seen[2], site[2], platform[2];
            size_t count =
                sum_up(job, job->seen, collective, bands[b].least, bands[b].most, seen, room);

            if (count == 0)
                continue;
            (void)sum_up(job, job->by_site, collective, bands[b].least, bands[b].most, site, room);
            (void)sum_up(job, job->by_platform, collective, bands[b].least, bands[b].most, platform,
                         room);
            fprintf(page->out, "   %-13s  %-7s  %5zu  %6.1f %6.1f  %6.1f %6.1f  %6.1f %6.1f\n",
                    collective_of(collective), bands[b].name, count, seen[0], seen[1], site[0],
                    site[1], platform[0], platform[1]);
        }
    }
    free(room);
    return 0;
}

int tutti_fit_print_csv(const struct tutti_fit_job *job, struct tutti_sink *sink)
{
    fprintf(sink->out, "table,site,platform,collective,ranks,nodes,bytes,measured_us,fitted_us,"
                       "without_site_us,without_platform_us,protocol,switches\n");
    for (size_t c = 0; c < job->cases.case_count; c++) {
        const struct tutti_fit_case *one = &job->cases.cases[c];
        const struct tutti_measured_table *table = one->table;

        for (size_t i = one->first_point; i < one->first_point + one->point_count; i++) {
            const struct tutti_fit_point *point = &job->cases.points[i];

            if (point->wrong)
                continue;
            fprintf(sink->out,
                    "%s,%s,%s,%s,%" PRIu32 ",%" PRIu32 ",%" PRIu64 ",%.6g,%.6g,%.6g,%.6g,%u,%d\n",
                    table->id, table->site, table->platform,
                    tutti_collective_name(table->collective), table->rank_count, table->host_count,
                    point->bytes, point->measured_us, exp(job->seen[i]), exp(job->by_site[i]),
                    exp(job->by_platform[i]), point->protocol, point->switches);
        }
    }
    return 0;
}

static void json_errors(const struct tutti_fit_job *job, double *room, struct tutti_json *json)
{
    tutti_json_open(json, "errors", '[');
    for (int collective = TUTTI_COLLECTIVE_COUNT; collective >= 0; collective--) {
        for (size_t b = 0; b < BANDS; b++) {
            double seen[2], site[2], platform[2];
            uint64_t least = bands[b].least, most = bands[b].most;
            size_t count = sum_up(job, job->seen, collective, least, most, seen, room);

            if (count == 0)
                continue;
            (void)sum_up(job, job->by_site, collective, least, most, site, room);
            (void)sum_up(job, job->by_platform, collective, least, most, platform, room);
            tutti_json_open(json, NULL, '{');
            tutti_json_text(json, "collective", collective_of(collective));
            tutti_json_text(json, "band", bands[b].name);
            tutti_json_count(json, "sizes", count);
            tutti_json_number(json, "median_abs_percent", seen[0]);
            tutti_json_number(json, "p90_abs_percent", seen[1]);
            tutti_json_number(json, "without_site_median_abs_percent", site[0]);
            tutti_json_number(json, "without_site_p90_abs_percent", site[1]);
            tutti_json_number(json, "without_platform_median_abs_percent", platform[0]);
            tutti_json_number(json, "without_platform_p90_abs_percent", platform[1]);
            tutti_json_close(json);
        }
    }
    tutti_json_close(json);
}

static void json_values(const struct tutti_calib *calib, struct tutti_json *json)
{
    char name[TUTTI_CALIB_NAME_BYTES];
    const struct tutti_calib_value *value;

    tutti_json_open(json, "values", '[');
    for (size_t i = 0; (value = tutti_calib_at(calib, i, name)) != NULL; i++) {
        tutti_json_open(json, NULL, '{');
        tutti_json_text(json, "name", name);
        tutti_json_number(json, "value", value->value);
        tutti_json_number(json, "low", value->low);
        tutti_json_number(json, "high", value->high);
        tutti_json_text(json, "source", value->source);
        tutti_json_close(json);
    }
    tutti_json_close(json);
}

/* Values that the data do not tell. */
static void json_open(const struct tutti_fit_job *job, struct tutti_json *json)
{
    tutti_json_open(json, "values_not_told", '[');
    for (size_t v = 0; v < job->values.value_count; v++) {
        if (job->values.values[v].open)
            tutti_json_text(json, NULL, job->values.values[v].name);
    }
    tutti_json_close(json);
}

int tutti_fit_print_json(const struct tutti_fit_job *job, const struct tutti_calib *calib,
                         size_t open, struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_json json = {.out = sink->out};
    double *room = tutti_fit_numbers(job->cases.point_count);

    if (room == NULL)
        return tutti_nomem(err);
    tutti_json_open(&json, NULL, '{');
    tutti_json_text(&json, "tutti", TUTTI_BUILD_VERSION);
    tutti_json_count(&json, "tables", job->cases.case_count);
    tutti_json_count(&json, "sizes", job->cases.point_count);
    tutti_json_count(&json, "parameters", job->values.parameter_count);
    tutti_json_count(&json, "iterations", job->fit->iteration_count);
    tutti_json_bool(&json, "converged", job->fit->converged);
    json_errors(job, room, &json);
    tutti_json_count(&json, "values_open", open);
    json_open(job, &json);
    json_values(calib, &json);
    tutti_json_close(&json);
    free(room);
    return 0;
}

int tutti_fit_print_values(const struct tutti_fit_job *job, const struct tutti_calib *calib,
                           size_t open, const struct tutti_page *page, struct tutti_err *err)
{
    static const struct tutti_column columns[] = {
        {"name", "value", "", TUTTI_CELL_TEXT},
        {"value", "fitted", "", TUTTI_CELL_NUMBER},
        {"low", "from", "95 %", TUTTI_CELL_NUMBER},
        {"high", "to", "95 %", TUTTI_CELL_NUMBER},
        {"told", "told by the data", "", TUTTI_CELL_TEXT},
    };
    struct tutti_table *table;
    int status = 0;

    fprintf(page->out,
            "# values:   %zu, of which the data do not tell %zu (those stay near where they begin)"
            "%s\n",
            job->values.value_count, open,
            job->values.value_count > VALUES_SHOWN_MAX ? "; -O and JSON have them" : "");
    if (job->values.value_count > VALUES_SHOWN_MAX)
        return 0;
    table = tutti_table_new(columns, sizeof(columns) / sizeof(columns[0]));
    status = table == NULL ? tutti_nomem(err) : 0;
    for (size_t v = 0; v < job->values.value_count && status == 0; v++) {
        const struct tutti_fit_value *one = &job->values.values[v];
        const struct tutti_calib_value *found = NULL;

        status = tutti_calib_get(calib, one->name, &found, err);
        if (status == 0 && found != NULL &&
            tutti_table_add(table, one->name, found->value, found->low, found->high,
                            one->open ? "no" : "yes") < 0)
            status = tutti_nomem(err);
    }
    if (status == 0)
        tutti_table_print(table, page);
    tutti_table_free(table);
    return status;
}
