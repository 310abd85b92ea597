/* The accuracy table as text and JSON; see accuracy.h. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/units.h"
#include "tools/cli/output.h"
#include "tools/cli/page.h"
#include "tools/fit/accuracy/accuracy.h"
#include "tools/fit/accuracy/accuracy_nccl.h"

struct band {
    const char *name;
    uint64_t bytes_min;
    uint64_t bytes_max;
};

static const struct band bands[] = {
    {"<1MiB", 0, UINT64_C(1) << 20},
    {">=1MiB", UINT64_C(1) << 20, UINT64_MAX},
    {">=16MiB", UINT64_C(1) << 24, UINT64_MAX},
};

enum { BAND_COUNT = sizeof(bands) / sizeof(bands[0]), NAMES_MAX = 128, WORST_COUNT = 12 };

/* ---- what rows belong to a group ------------------------------------------------------------- */

static bool takes_counted(const struct tutti_accuracy_table *table, const char *name)
{
    (void)name;
    return tutti_accuracy_counts(table);
}

static const char *collective_of(const struct tutti_accuracy_table *table)
{
    return tutti_collective_name(table->measured->collective);
}

static const char *platform_of(const struct tutti_accuracy_table *table)
{
    return table->measured->platform;
}

static const char *group_of(const struct tutti_accuracy_table *table)
{
    return table->measured->group;
}

static const char *network_of(const struct tutti_accuracy_table *table)
{
    if (table->measured->host_count == 1)
        return "one node";
    return table->measured->net[0] != '\0' ? table->measured->net : "NVLink";
}

static const char *library_of(const struct tutti_accuracy_table *table)
{
    return table->measured->library;
}

/* The parts of the summary: tables that count, by something; then those that do not. */
struct section {
    const char *name;
    const char *title;
    const char *(*of)(const struct tutti_accuracy_table *table); /* NULL: one group */
    bool counted;
    bool degraded; /* else */
};

static const struct section sections[] = {
    {"all", "all good tables of NCCL and RCCL", NULL, true, false},
    {"collective", "by collective", collective_of, true, false},
    {"network", "by network", network_of, true, false},
    {"class", "by class of accelerator", group_of, true, false},
    {"platform", "by platform", platform_of, true, false},
    {"degraded", "not in the above: degraded measurements, by collective", collective_of, false,
     true},
    {"other library", "not in the above: good tables of other libraries", library_of, false, false},
};

enum { SECTION_COUNT = sizeof(sections) / sizeof(sections[0]) };

static bool in_section(const struct section *section, const struct tutti_accuracy_table *table)
{
    bool library = strcmp(table->measured->library, "nccl") == 0 ||
                   strcmp(table->measured->library, "rccl") == 0;

    if (section->counted)
        return tutti_accuracy_counts(table);
    return section->degraded ? table->measured->degraded : !table->measured->degraded && !library;
}

/* A slice's own predicate gets a name only, so one function a section. */
#define TAKES(function, index)                                                       \
    static bool function(const struct tutti_accuracy_table *table, const char *name) \
    {                                                                                \
        const struct section *section = &sections[index];                            \
                                                                                     \
        return in_section(section, table) &&                                         \
               (section->of == NULL || strcmp(section->of(table), name) == 0);       \
    }

TAKES(takes_all, 0)
TAKES(takes_collective, 1)
TAKES(takes_network, 2)
TAKES(takes_class, 3)
TAKES(takes_platform, 4)
TAKES(takes_degraded, 5)
TAKES(takes_library, 6)
#undef TAKES

typedef bool takes_function(const struct tutti_accuracy_table *table, const char *name);

static takes_function *const takes[SECTION_COUNT] = {takes_all,    takes_collective, takes_network,
                                                     takes_class,  takes_platform,   takes_degraded,
                                                     takes_library};

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* The groups of a section in the order of their names; returns how many. */
static size_t find_names(const struct tutti_accuracy *accuracy, const struct section *section,
                         const char **found)
{
    size_t count = 0;

    for (size_t i = 0; i < accuracy->table_count; i++) {
        const struct tutti_accuracy_table *table = &accuracy->tables[i];
        const char *name = section->of != NULL ? section->of(table) : "good NCCL and RCCL";
        size_t k = 0;

        if (!table->chosen || !in_section(section, table))
            continue;
        while (k < count && strcmp(found[k], name) != 0)
            k++;
        if (k == count && count < NAMES_MAX)
            found[count++] = name;
    }
    qsort(found, count, sizeof(*found), compare_names);
    return count;
}

/* ---- the summary ----------------------------------------------------------------------------- */

static const struct tutti_column sum_columns[] = {
    {"section", NULL, "", TUTTI_CELL_TEXT},
    {"group", "group", "", TUTTI_CELL_TEXT},
    {"band", "size", "", TUTTI_CELL_TEXT},
    {"tables", "tables", "", TUTTI_CELL_COUNT},
    {"bins", "bins", "", TUTTI_CELL_COUNT},
    {"median_abs_percent", "median", "%", TUTTI_CELL_NUMBER},
    {"p90_abs_percent", "9 of 10", "%", TUTTI_CELL_NUMBER},
    {"worst_abs_percent", "worst", "%", TUTTI_CELL_NUMBER},
    {"rows", "sizes", "", TUTTI_CELL_COUNT},
    {"plain_median_abs_percent", "median", "%", TUTTI_CELL_NUMBER},
    {"plain_p90_abs_percent", "9 of 10", "%", TUTTI_CELL_NUMBER},
    {"worst_table", "worst at", "", TUTTI_CELL_TEXT},
    {"worst_bytes", "size", "B", TUTTI_CELL_COUNT},
};

enum { SUM_COLUMNS = sizeof(sum_columns) / sizeof(sum_columns[0]) };

static int add_sum(const struct tutti_accuracy *accuracy, const struct tutti_accuracy_slice *slice,
                   const char *section, const char *group, const char *band,
                   struct tutti_table *table, struct tutti_err *err)
{
    struct tutti_accuracy_sum sum;
    int status = tutti_accuracy_sum(accuracy, slice, &sum, err);

    if (status < 0 || sum.bin_count == 0)
        return status;
    status = tutti_table_add(table, section, group, band, (uint64_t)sum.table_count,
                             (uint64_t)sum.bin_count, sum.median_percent, sum.p90_percent,
                             sum.worst_percent, (uint64_t)sum.row_count, sum.plain_median_percent,
                             sum.plain_p90_percent, sum.worst->measured->id, sum.worst_bytes);
    return status < 0 ? tutti_nomem(err) : 0;
}

static int add_section(const struct tutti_accuracy *accuracy, size_t index,
                       struct tutti_table *table, struct tutti_err *err)
{
    const char *found[NAMES_MAX];
    size_t count = find_names(accuracy, &sections[index], found);
    int status = 0;

    for (size_t n = 0; n < count; n++) {
        for (size_t b = 0; status == 0 && b < BAND_COUNT; b++) {
            struct tutti_accuracy_slice slice = {
                .forecaster = TUTTI_FORECAST_OURS,
                .bytes_min = bands[b].bytes_min,
                .bytes_max = bands[b].bytes_max,
                .takes = takes[index],
                .name = found[n],
            };

            status = add_sum(accuracy, &slice, sections[index].name, found[n], bands[b].name, table,
                             err);
        }
    }
    return status;
}

/* A forecaster in all bands, on the sizes that another has too. */
static int add_forecaster(const struct tutti_accuracy *accuracy, enum tutti_forecaster forecaster,
                          enum tutti_forecaster other, const char *group, struct tutti_table *table,
                          struct tutti_err *err)
{
    int status = 0;

    for (size_t b = 0; status == 0 && b < BAND_COUNT; b++) {
        struct tutti_accuracy_slice slice = {
            .forecaster = forecaster,
            .bytes_min = bands[b].bytes_min,
            .bytes_max = bands[b].bytes_max,
            .also = UINT32_C(1) << other,
            .takes = takes_all,
        };

        status = add_sum(accuracy, &slice, "forecaster", group, bands[b].name, table, err);
    }
    return status;
}

/* Each peer, and ours on the sizes that it has. */
static int add_peers(const struct tutti_accuracy *accuracy, struct tutti_table *table,
                     struct tutti_err *err)
{
    int status = 0;

    for (uint32_t f = TUTTI_FORECAST_OURS + 1; status == 0 && f < TUTTI_FORECASTERS; f++) {
        enum tutti_forecaster peer = (enum tutti_forecaster)f;
        char ours[32];

        (void)snprintf(ours, sizeof(ours), "ours beside %s", tutti_forecaster_name(peer));
        status = add_forecaster(accuracy, peer, TUTTI_FORECAST_OURS, tutti_forecaster_name(peer),
                                table, err);
        if (status == 0)
            status = add_forecaster(accuracy, TUTTI_FORECAST_OURS, peer, ours, table, err);
    }
    return status;
}

/* ---- every table ----------------------------------------------------------------------------- */

static const struct tutti_column table_columns[] = {
    {"id", "table", "", TUTTI_CELL_TEXT},
    {"site", "site", "", TUTTI_CELL_TEXT},
    {"platform", NULL, "", TUTTI_CELL_TEXT},
    {"machine", "machine", "", TUTTI_CELL_TEXT},
    {"library", "library", "", TUTTI_CELL_TEXT},
    {"collective", "collective", "", TUTTI_CELL_TEXT},
    {"ranks", "ranks", "", TUTTI_CELL_COUNT},
    {"quality", "quality", "", TUTTI_CELL_TEXT},
    {"rows", "sizes", "", TUTTI_CELL_COUNT},
    {"median_abs_percent_below_1MiB", "<1MiB", "%", TUTTI_CELL_NUMBER},
    {"median_abs_percent_from_1MiB", ">=1MiB", "%", TUTTI_CELL_NUMBER},
    {"median_abs_percent_from_16MiB", ">=16MiB", "%", TUTTI_CELL_NUMBER},
    {"worst_abs_percent", "worst", "%", TUTTI_CELL_NUMBER},
    {"worst_bytes", "at size", "B", TUTTI_CELL_COUNT},
    {"caveat", NULL, "", TUTTI_CELL_TEXT},
    {"note", NULL, "", TUTTI_CELL_TEXT},
    {"not_predicted", NULL, "", TUTTI_CELL_TEXT},
};

enum { TABLE_COLUMNS = sizeof(table_columns) / sizeof(table_columns[0]) };

/* The sum of one table alone, in a band. */
static int sum_one(const struct tutti_accuracy_table *table, const struct band *band,
                   struct tutti_accuracy_sum *ret, struct tutti_err *err)
{
    struct tutti_accuracy_table copy = *table;
    struct tutti_accuracy one = {.table_count = 1, .tables = &copy};
    struct tutti_accuracy_slice slice = {
        .forecaster = TUTTI_FORECAST_OURS,
        .bytes_min = band->bytes_min,
        .bytes_max = band->bytes_max,
    };

    return tutti_accuracy_sum(&one, &slice, ret, err);
}

static int add_one(const struct tutti_accuracy_table *table, struct tutti_table *out,
                   struct tutti_err *err)
{
    static const struct band whole = {"", 0, UINT64_MAX};
    const struct tutti_measured_table *measured = table->measured;
    struct tutti_accuracy_sum sums[BAND_COUNT];
    struct tutti_accuracy_sum all;
    int status = sum_one(table, &whole, &all, err);

    for (size_t b = 0; status == 0 && b < BAND_COUNT; b++)
        status = sum_one(table, &bands[b], &sums[b], err);
    if (status < 0)
        return status;
    status = tutti_table_add(
        out, measured->id, measured->site, measured->platform, measured->machine, measured->library,
        tutti_collective_name(measured->collective), (uint64_t)measured->rank_count,
        measured->quality, (uint64_t)table->row_count, sums[0].median_percent,
        sums[1].median_percent, sums[2].median_percent, all.worst_percent, all.worst_bytes,
        measured->caveat, measured->note, table->reason);
    return status < 0 ? tutti_nomem(err) : 0;
}

static int add_tables(const struct tutti_accuracy *accuracy, struct tutti_table *out,
                      struct tutti_err *err)
{
    int status = 0;

    for (size_t i = 0; status == 0 && i < accuracy->table_count; i++) {
        if (accuracy->tables[i].chosen)
            status = add_one(&accuracy->tables[i], out, err);
    }
    return status;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Where a source says what NCCL ran: does model A pick the same? */
static void print_picks(const struct tutti_accuracy *accuracy, FILE *out)
{
    size_t agree = 0;
    size_t count = 0;

    for (size_t i = 0; i < accuracy->table_count; i++) {
        const struct tutti_accuracy_table *table = &accuracy->tables[i];
        const struct tutti_accuracy_row *other = NULL;

        for (size_t r = 0; table->chosen && r < table->row_count; r++) {
            const struct tutti_accuracy_row *row = &table->rows[r];
            int same = row->pick_algorithm == NULL
                           ? -1
                           : tutti_ran_agrees(table->measured->ran, row->bytes, row->pick_algorithm,
                                              row->pick_protocol);

            count += same >= 0;
            agree += same == 1;
            other = same == 0 ? row : other;
        }
        if (other != NULL)
            fprintf(out, "# pick: %s ran %s, NCCL's model picks %s/%s at %" PRIu64 " B\n",
                    table->measured->id, table->measured->ran, other->pick_algorithm,
                    other->pick_protocol, other->bytes);
    }
    if (count > 0)
        fprintf(out,
                "# picks: %zu of %zu sizes whose source says what was run agree with NCCL's "
                "model\n",
                agree, count);
}

/* Sizes whose prediction is of another algorithm than NCCL's. */
static void print_stand_ins(const struct tutti_accuracy *accuracy, FILE *out)
{
    size_t count = 0;

    for (size_t i = 0; i < accuracy->table_count; i++) {
        for (size_t r = 0; r < accuracy->tables[i].row_count; r++)
            count += accuracy->tables[i].rows[r].stands_in;
    }
    if (count > 0)
        fprintf(out,
                "# another algorithm stands in at %zu sizes, where NCCL's is not modelled "
                "yet\n",
                count);
}

static int print_section(const struct tutti_accuracy *accuracy, size_t index,
                         const struct tutti_page *page, struct tutti_err *err)
{
    struct tutti_table *table = tutti_table_new(sum_columns, SUM_COLUMNS);
    int status;

    if (table == NULL)
        return tutti_nomem(err);
    status = index < SECTION_COUNT ? add_section(accuracy, index, table, err)
                                   : add_peers(accuracy, table, err);
    if (status == 0 && tutti_table_rows(table) > 0) {
        fprintf(page->out, "#\n# %s\n",
                index < SECTION_COUNT ? sections[index].title
                                      : "peers, and ours on the sizes that they forecast");
        tutti_table_print(table, page);
    }
    tutti_table_free(table);
    return status;
}

/* Tables that count, worst median of large sizes first. */
struct ranked {
    const struct tutti_accuracy_table *table;
    double percent;
};

static int compare_ranked(const void *left, const void *right)
{
    const struct ranked *a = left;
    const struct ranked *b = right;

    if (a->percent < b->percent || a->percent > b->percent)
        return a->percent < b->percent ? 1 : -1;
    return strcmp(a->table->measured->id, b->table->measured->id);
}

static int print_worst(const struct tutti_accuracy *accuracy, FILE *out, struct tutti_err *err)
{
    struct ranked *list = calloc(accuracy->table_count + 1, sizeof(*list));
    size_t count = 0;
    int status = list == NULL ? tutti_nomem(err) : 0;

    for (size_t i = 0; status == 0 && i < accuracy->table_count; i++) {
        const struct tutti_accuracy_table *table = &accuracy->tables[i];
        struct tutti_accuracy_sum sum;

        if (!table->chosen || !tutti_accuracy_counts(table))
            continue;
        status = sum_one(table, &bands[1], &sum, err);
        if (status == 0 && sum.bin_count > 0)
            list[count++] = (struct ranked){table, sum.median_percent};
    }
    if (status == 0 && count > 0) {
        qsort(list, count, sizeof(*list), compare_ranked);
        fprintf(out, "#\n# worst tables from 1 MiB on, and what is noted of them\n");
        for (size_t i = 0; i < count && i < WORST_COUNT; i++) {
            const struct tutti_measured_table *worst = list[i].table->measured;
            bool both = worst->caveat[0] != '\0' && worst->note[0] != '\0';

            fprintf(out, "# %6.1f %%  %s on %s: %s%s%s\n", list[i].percent, worst->id,
                    worst->machine,
                    worst->caveat[0] == '\0' && worst->note[0] == '\0' ? "nothing is noted"
                                                                       : worst->caveat,
                    both ? "; " : "", worst->note);
        }
    }
    free(list);
    return status;
}

static size_t count_missing(const struct tutti_accuracy_table *table)
{
    size_t count = 0;

    for (size_t i = 0; i < table->row_count; i++)
        count += !(table->rows[i].us[TUTTI_FORECAST_OURS] > 0);
    return count;
}

/* Reasons why sizes are not predicted, each once with how many of how many tables have it. */
static void print_missing(const struct tutti_accuracy *accuracy, FILE *out)
{
    for (size_t i = 0; i < accuracy->table_count; i++) {
        const struct tutti_accuracy_table *table = &accuracy->tables[i];
        size_t count = 0, size_count = 0, missing_count = 0;
        bool told = false;

        if (!table->chosen || table->status == 0)
            continue;
        for (size_t k = 0; k < accuracy->table_count; k++) {
            const struct tutti_accuracy_table *other = &accuracy->tables[k];
            bool same =
                other->chosen && other->status < 0 && strcmp(other->reason, table->reason) == 0;

            told = told || (same && k < i);
            count += same;
            size_count += same ? other->row_count : 0;
            missing_count += same ? count_missing(other) : 0;
        }
        if (!told)
            fprintf(out, "# not predicted: %zu of %zu sizes of %zu table%s: %s\n", missing_count,
                    size_count, count, count == 1 ? "" : "s", table->reason);
    }
}

/* Median and 9 of 10 by powers of four, drawn with one sign for two percent. */
static int print_plot(const struct tutti_accuracy *accuracy, FILE *out, struct tutti_err *err)
{
    enum { WIDTH = 60, PERCENT_A_SIGN = 2 };
    int status = 0;

    fprintf(out,
            "#\n# error by size (good NCCL and RCCL): = up to the median, - up to 9 of 10; a "
            "sign is %d %%\n",
            PERCENT_A_SIGN);
    for (uint32_t k = 2; status == 0 && k < 40; k += 2) {
        struct tutti_accuracy_slice slice = {
            .forecaster = TUTTI_FORECAST_OURS,
            .bytes_min = UINT64_C(1) << k,
            .bytes_max = UINT64_C(4) << k,
            .takes = takes_counted,
        };
        struct tutti_accuracy_sum sum;
        char size[TUTTI_UNIT_TEXT_BYTES];

        status = tutti_accuracy_sum(accuracy, &slice, &sum, err);
        if (status < 0 || sum.bin_count == 0)
            continue;
        fprintf(out, "# %9s %8.1f %%  |", tutti_print_size(slice.bytes_min, size),
                sum.median_percent);
        for (int x = 0; x < WIDTH; x++) {
            double percent = (x + 0.5) * PERCENT_A_SIGN;

            if (percent > sum.p90_percent && percent > sum.median_percent)
                break;
            fputc(percent <= sum.median_percent ? '=' : '-', out);
        }
        fprintf(out, "%s\n", sum.p90_percent > WIDTH * PERCENT_A_SIGN ? ">" : "");
    }
    return status;
}

static void print_head(const struct tutti_accuracy *accuracy, const struct tutti_accuracy_ask *ask,
                       FILE *out)
{
    size_t tables = 0;
    size_t rows = 0;
    size_t counted = 0;

    for (size_t i = 0; i < accuracy->table_count; i++) {
        tables += accuracy->tables[i].chosen;
        counted += accuracy->tables[i].chosen && tutti_accuracy_counts(&accuracy->tables[i]);
        rows += accuracy->tables[i].chosen ? accuracy->tables[i].row_count : 0;
    }
    fprintf(out, "# measured: %zu of %zu tables, %zu sizes; %zu of them good and of NCCL or RCCL\n",
            tables, accuracy->table_count, rows, counted);
    tutti_calib_option_print(&ask->calib, out);
    fprintf(out, "# predicted: algorithm %s, protocol %s, model %s; nothing is fitted here\n",
            ask->ask.algorithm, ask->protocol, tutti_model_name(ask->ask.model));
    fprintf(out, "# a bin is a power of two of bytes in a table: each counts once, whatever the "
                 "number of sizes in it;\n"
                 "# behind 'sizes' the plain figures, where every size counts\n");
}

int tutti_accuracy_print(const struct tutti_accuracy *accuracy,
                         const struct tutti_accuracy_ask *ask, const struct tutti_page *page,
                         struct tutti_err *err)
{
    struct tutti_table *table = tutti_table_new(table_columns, TABLE_COLUMNS);
    FILE *out = page->out;
    int status;

    if (table == NULL)
        return tutti_nomem(err);
    print_head(accuracy, ask, out);
    status = add_tables(accuracy, table, err);
    if (status == 0)
        tutti_table_print(table, page);
    tutti_table_free(table);
    if (status == 0) {
        print_missing(accuracy, out);
        print_stand_ins(accuracy, out);
        print_picks(accuracy, out);
        status = print_worst(accuracy, out, err);
    }
    if (status == 0)
        status = print_plot(accuracy, out, err);
    for (size_t i = SECTION_COUNT; status == 0 && i > 0; i--)
        status = print_section(accuracy, i - 1, page, err);
    return status == 0 ? print_section(accuracy, SECTION_COUNT, page, err) : status;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

int tutti_accuracy_json(const struct tutti_accuracy *accuracy, struct tutti_json *json,
                        struct tutti_err *err)
{
    struct tutti_table *sums = tutti_table_new(sum_columns, SUM_COLUMNS);
    struct tutti_table *tables = tutti_table_new(table_columns, TABLE_COLUMNS);
    int status = sums == NULL || tables == NULL ? tutti_nomem(err) : 0;

    for (size_t i = 0; status == 0 && i < SECTION_COUNT; i++)
        status = add_section(accuracy, i, sums, err);
    if (status == 0)
        status = add_peers(accuracy, sums, err);
    if (status == 0)
        status = add_tables(accuracy, tables, err);
    if (status == 0) {
        tutti_table_json(sums, "summary", json);
        tutti_table_json(tables, "tables", json);
    }
    tutti_table_free(sums);
    tutti_table_free(tables);
    return status;
}
