/* What is printed of a fit: its errors by each of its times, and its values; see fit_job.h. */
#include <assert.h>
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
#include "tools/options.h"
#include "tools/sink.h"

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

/* Two numbers and what parts them from the next two. */
enum { TIMES_COLUMNS = 15 };

static void print_title(const struct tutti_fit_report *report, FILE *out)
{
    fprintf(out, TUTTI_PAGE_TITLE "#  collective     size     sizes  ");
    for (size_t t = 0; t + 1 < report->times_count; t++)
        fprintf(out, "%-*s", TIMES_COLUMNS, report->times[t].title);
    fprintf(out, "%s\n", report->times[report->times_count - 1].title);
}

static int print_errors(const struct tutti_fit_report *report, FILE *out, struct tutti_err *err)
{
    const struct tutti_fit_job *job = report->job;
    double *room = tutti_fit_numbers(job->cases.point_count);

    if (room == NULL)
        return tutti_nomem(err);
    fprintf(out,
            "# errors in percent, median and 9 of 10; a power of two of bytes in a table counts "
            "once\n");
    print_title(report, out);
    for (int collective = TUTTI_COLLECTIVE_COUNT; collective >= 0; collective--) {
        for (size_t b = 0; b < BANDS; b++) {
            uint64_t least = bands[b].least, most = bands[b].most;
            double error[2];
            size_t count = sum_up(job, job->seen, collective, least, most, error, room);

            if (count == 0)
                continue;
            fprintf(out, "   %-13s  %-7s  %5zu", collective_of(collective), bands[b].name, count);
            for (size_t t = 0; t < report->times_count; t++) {
                (void)sum_up(job, report->times[t].times, collective, least, most, error, room);
                fprintf(out, "  %6.1f %6.1f", error[0], error[1]);
            }
            fputc('\n', out);
        }
    }
    free(room);
    return 0;
}

static int print_csv(const struct tutti_fit_report *report, FILE *out)
{
    const struct tutti_fit_job *job = report->job;

    fprintf(out, "table,site,platform,collective,ranks,nodes,bytes,measured_us");
    for (size_t t = 0; t < report->times_count; t++)
        fprintf(out, ",%s", report->times[t].csv);
    fprintf(out, ",protocol,switches\n");
    for (size_t c = 0; c < job->cases.case_count; c++) {
        const struct tutti_fit_case *one = &job->cases.cases[c];
        const struct tutti_measured_table *table = one->table;

        for (size_t i = one->first_point; i < one->first_point + one->point_count; i++) {
            const struct tutti_fit_point *point = &job->cases.points[i];

            if (point->wrong)
                continue;
            fprintf(out, "%s,%s,%s,%s,%" PRIu32 ",%" PRIu32 ",%" PRIu64 ",%.6g", table->id,
                    table->site, table->platform, tutti_collective_name(table->collective),
                    table->rank_count, table->host_count, point->bytes, point->measured_us);
            for (size_t t = 0; t < report->times_count; t++)
                fprintf(out, ",%.6g", exp(report->times[t].times[i]));
            fprintf(out, ",%u,%d\n", point->protocol, point->switches);
        }
    }
    return 0;
}

/* "median_abs_percent" and "p90_abs_percent", each behind its prefix. */
static void json_error(const char *prefix, const double error[2], struct tutti_json *json)
{
    char name[64];

    (void)snprintf(name, sizeof(name), "%smedian_abs_percent", prefix);
    tutti_json_number(json, name, error[0]);
    (void)snprintf(name, sizeof(name), "%sp90_abs_percent", prefix);
    tutti_json_number(json, name, error[1]);
}

static void json_errors(const struct tutti_fit_report *report, double *room,
                        struct tutti_json *json)
{
    const struct tutti_fit_job *job = report->job;

    tutti_json_open(json, "errors", '[');
    for (int collective = TUTTI_COLLECTIVE_COUNT; collective >= 0; collective--) {
        for (size_t b = 0; b < BANDS; b++) {
            uint64_t least = bands[b].least, most = bands[b].most;
            double error[2];
            size_t count = sum_up(job, job->seen, collective, least, most, error, room);

            if (count == 0)
                continue;
            tutti_json_open(json, NULL, '{');
            tutti_json_text(json, "collective", collective_of(collective));
            tutti_json_text(json, "band", bands[b].name);
            tutti_json_count(json, "sizes", count);
            for (size_t t = 0; t < report->times_count; t++) {
                (void)sum_up(job, report->times[t].times, collective, least, most, error, room);
                json_error(report->times[t].json, error, json);
            }
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

static int print_json(const struct tutti_fit_report *report, FILE *out, struct tutti_err *err)
{
    const struct tutti_fit_job *job = report->job;
    struct tutti_json json = {.out = out};
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
    json_errors(report, room, &json);
    tutti_json_count(&json, "values_open", report->open);
    json_open(job, &json);
    json_values(report->calib, &json);
    tutti_json_close(&json);
    free(room);
    return 0;
}

/* The values that this fit has found, with their intervals, and which of them the data leave open;
 * of so many that nobody would read them only how many. */
static int print_values(const struct tutti_fit_report *report, const struct tutti_page *page,
                        struct tutti_err *err)
{
    const struct tutti_fit_job *job = report->job;
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
            job->values.value_count, report->open,
            job->values.value_count > VALUES_SHOWN_MAX ? "; -O and JSON have them" : "");
    if (job->values.value_count > VALUES_SHOWN_MAX)
        return 0;
    table = tutti_table_new(columns, sizeof(columns) / sizeof(columns[0]));
    status = table == NULL ? tutti_nomem(err) : 0;
    for (size_t v = 0; v < job->values.value_count && status == 0; v++) {
        const struct tutti_fit_value *one = &job->values.values[v];
        const struct tutti_calib_value *found = NULL;

        status = tutti_calib_get(report->calib, one->name, &found, err);
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

static int print_page(const struct tutti_fit_report *report, const struct tutti_page *page,
                      struct tutti_err *err)
{
    const struct tutti_fit_job *job = report->job;
    size_t wrong = 0;
    int status;

    for (size_t i = 0; i < job->cases.point_count; i++)
        wrong += job->cases.points[i].wrong;
    fprintf(page->out, "# %s %s %s\n", tutti_command_program(job->command), TUTTI_BUILD_VERSION,
            job->command->name);
    fprintf(
        page->out,
        "# measured: %zu tables, %zu sizes; left out: %zu tables (other libraries, no machine), "
        "%zu sizes\n",
        job->cases.case_count, job->cases.point_count - wrong, job->cases.left_out_count, wrong);
    fprintf(page->out, "# fit:      %zu parameters, %" PRIu32 " iterations%s\n",
            job->values.parameter_count, job->fit->iteration_count,
            job->fit->converged ? "" : ", not converged");
    if (report->note != NULL)
        fprintf(page->out, "# %s\n", report->note);
    status = print_errors(report, page->out, err);
    return status == 0 ? print_values(report, page, err) : status;
}

int tutti_fit_print(const struct tutti_args *args, const struct tutti_fit_report *report,
                    struct tutti_sink *sink, struct tutti_err *err)
{
    struct tutti_page page;
    int status;

    assert(report->times_count > 0);
    assert(report->times_count <= TUTTI_FIT_TIMES_MAX);
    if (tutti_args_is(args, "format", "csv"))
        return print_csv(report, sink->out);
    if (tutti_args_is(args, "format", "json"))
        return print_json(report, sink->out, err);
    status = tutti_page_open(&page, sink, err);
    if (status < 0)
        return status;
    return tutti_page_close(&page, print_page(report, &page, err), err);
}
