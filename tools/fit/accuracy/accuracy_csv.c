/* Every size of every table as CSV; see accuracy.h. */
#include <stdlib.h>

#include "runtime/status.h"
#include "tools/cli/output.h"
#include "tools/fit/accuracy/accuracy.h"

static const struct tutti_column row_columns[] = {
    {"table", "", "", TUTTI_CELL_TEXT},          {"site", "", "", TUTTI_CELL_TEXT},
    {"platform", "", "", TUTTI_CELL_TEXT},       {"quality", "", "", TUTTI_CELL_TEXT},
    {"library", "", "", TUTTI_CELL_TEXT},        {"collective", "", "", TUTTI_CELL_TEXT},
    {"nodes", "", "", TUTTI_CELL_COUNT},         {"ranks", "", "", TUTTI_CELL_COUNT},
    {"bytes", "", "", TUTTI_CELL_COUNT},         {"measured_us", "", "", TUTTI_CELL_NUMBER},
    {"predicted_us", "", "", TUTTI_CELL_NUMBER}, {"error_percent", "", "", TUTTI_CELL_NUMBER},
    {"model_a_us", "", "", TUTTI_CELL_NUMBER},   {"nominal_us", "", "", TUTTI_CELL_NUMBER},
    {"astra_us", "", "", TUTTI_CELL_NUMBER},     {"nearest_us", "", "", TUTTI_CELL_NUMBER},
    {"twins_us", "", "", TUTTI_CELL_NUMBER},     {"algorithm", "", "", TUTTI_CELL_TEXT},
    {"protocol", "", "", TUTTI_CELL_TEXT},       {"pick_algorithm", "", "", TUTTI_CELL_TEXT},
    {"pick_protocol", "", "", TUTTI_CELL_TEXT},
};

static int add_rows(const struct tutti_accuracy_table *table, struct tutti_table *out)
{
    const struct tutti_measured_table *measured = table->measured;
    int status = 0;

    for (size_t i = 0; status == 0 && i < table->row_count; i++) {
        const struct tutti_accuracy_row *row = &table->rows[i];
        double ours = row->us[TUTTI_FORECAST_OURS];

        status = tutti_table_add(
            out, measured->id, measured->site, measured->platform, measured->quality,
            measured->library, tutti_collective_name(measured->collective),
            (uint64_t)measured->host_count, (uint64_t)measured->rank_count, row->bytes,
            row->measured_us, ours, 100 * (ours - row->measured_us) / row->measured_us,
            row->us[TUTTI_FORECAST_MODEL_A], row->us[TUTTI_FORECAST_NOMINAL],
            row->us[TUTTI_FORECAST_ASTRA], row->us[TUTTI_FORECAST_NEAREST],
            row->us[TUTTI_FORECAST_TWINS], row->algorithm != NULL ? row->algorithm : "",
            row->protocol != NULL ? row->protocol : "",
            row->pick_algorithm != NULL ? row->pick_algorithm : "",
            row->pick_protocol != NULL ? row->pick_protocol : "");
    }
    return status;
}

int tutti_accuracy_csv(const struct tutti_accuracy *accuracy, FILE *out, struct tutti_err *err)
{
    struct tutti_table *table =
        tutti_table_new(row_columns, sizeof(row_columns) / sizeof(row_columns[0]));
    int status = table == NULL ? -TUTTI_ENOMEM : 0;

    for (size_t i = 0; status == 0 && i < accuracy->table_count; i++) {
        if (accuracy->tables[i].chosen)
            status = add_rows(&accuracy->tables[i], table);
    }
    if (status == 0)
        tutti_table_csv(table, out);
    tutti_table_free(table);
    return status < 0 ? tutti_nomem(err) : 0;
}
