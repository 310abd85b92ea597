/* Takes rows of logs and holds what they say of themselves against the machine; see
 * measurements.h. */
#include "tools/validate/measurements.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "tools/validate/logs.h"
#include "tools/validate/measured_run.h"
#include "topo/hardware.h"
#include "topo/topo.h"

static double side_time(const struct tutti_nccl_row *row, enum tutti_side side)
{
    double out = row->out_of_place.time_us;
    double in = row->in_place.time_us;

    if (side == TUTTI_SIDE_IN)
        return in;
    if (side == TUTTI_SIDE_BEST && (isnan(out) || in < out))
        return in;
    return out;
}

/* What the table and the command line say, which must not contradict each other. */
static int find_collective(const struct tutti_measurements_ask *ask,
                           const struct tutti_nccl_table *table, enum tutti_collective *ret,
                           struct tutti_err *err)
{
    if (!table->has_collective && !ask->has_collective)
        return tutti_fail(err, TUTTI_EINVAL, "it does not say which collective was run (-c NAME)");
    if (table->has_collective && ask->has_collective && table->collective != ask->collective)
        return tutti_fail(err, TUTTI_EINVAL, "it measured %s, not '%s' (-c %s, or no -c)",
                          tutti_collective_name(table->collective),
                          tutti_collective_name(ask->collective),
                          tutti_collective_name(table->collective));
    *ret = table->has_collective ? table->collective : ask->collective;
    return 0;
}

/* What would make the machine fit, as far as a multiple of its hosts does. */
static void hint_ranks(const struct tutti_measurements_ask *ask, uint32_t rank_count, char *hint,
                       size_t hint_bytes)
{
    const struct tutti_topo *topo = ask->topo;
    uint32_t host_ranks = topo->host_count > 0 ? topo->rank_count / topo->host_count : 0;

    if (host_ranks > 0 && rank_count % host_ranks == 0 &&
        topo->rank_count == host_ranks * topo->host_count)
        (void)snprintf(hint, hint_bytes, "%snodes%c%" PRIu32,
                       strstr(ask->spec, "nodes=") != NULL ? "" : "--",
                       strstr(ask->spec, "nodes=") != NULL ? '=' : ' ', rank_count / host_ranks);
    else
        (void)snprintf(hint, hint_bytes, "a machine of %" PRIu32 " ranks", rank_count);
}

static int check_ranks(const struct tutti_measurements_ask *ask,
                       const struct tutti_nccl_table *table, struct tutti_err *err)
{
    uint32_t rank_count = table->rank_count != 0 ? table->rank_count : ask->rank_count;
    char hint[96];

    if (table->rank_count != 0 && ask->rank_count != 0 && table->rank_count != ask->rank_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "it was measured with %" PRIu32 " ranks, not %" PRIu32 " (no -g)",
                          table->rank_count, ask->rank_count);
    if (rank_count == 0 || rank_count == ask->topo->rank_count)
        return 0;
    hint_ranks(ask, rank_count, hint, sizeof(hint));
    return tutti_fail(err, TUTTI_EINVAL,
                      "it was measured with %" PRIu32 " ranks, but '%s' has %" PRIu32 " (%s)",
                      rank_count, ask->spec, ask->topo->rank_count, hint);
}

/* One row as a case. Without a type, as in CSV, it is the standard of nccl-tests; types that Tutti
 * does not compute with (fp8) are moved as bytes. */
static int take_row(const struct tutti_measurements_ask *ask, const char *log,
                    enum tutti_collective collective, const struct tutti_nccl_row *row,
                    struct tutti_measurements_table *note, struct tutti_cases *cases)
{
    struct tutti_case one = {
        .log = log,
        .params = {.collective = collective,
                   .dtype = row->type[0] == '\0' ? TUTTI_FLOAT32 : TUTTI_UINT8,
                   .op = TUTTI_SUM},
        .iteration_count = note->iteration_count,
        .bytes = row->bytes,
        .measured_us = side_time(row, ask->side),
        .least_us = tutti_measurements_least_us(note, ask->topo->rank_count),
    };
    struct tutti_coll_params *params = &one.params;

    if (row->bytes == 0 || row->bytes < ask->bytes_min || row->bytes > ask->bytes_max ||
        !(one.measured_us > 0)) {
        note->left_out_count++;
        return 0;
    }
    (void)tutti_dtype_find(row->type, &params->dtype, NULL);
    (void)tutti_op_find(row->redop, &params->op, NULL);
    if (row->root > 0 && (uint32_t)row->root < ask->topo->rank_count)
        params->root = (uint32_t)row->root;
    params->count =
        tutti_collective_count_for(collective, row->bytes, params->dtype, ask->topo->rank_count);
    note->taken_count++;
    return tutti_cases_add(cases, &one);
}

/* "22809" or "2.19.3" of "NCCL version 2.19.3+cuda12.2". */
static void find_version(const char *library, struct tutti_measurements_table *note)
{
    const char *start = library + strcspn(library, "0123456789");

    (void)snprintf(note->library, sizeof(note->library), "%s", library);
    (void)snprintf(note->version, sizeof(note->version), "%.*s", (int)strspn(start, "0123456789."),
                   start);
}

static bool is_rccl(const struct tutti_nccl_table *table)
{
    return strstr(table->library, "RCCL") != NULL || strstr(table->device, "AMD") != NULL ||
           strstr(table->device, "Instinct") != NULL;
}

/* A CSV is of nccl-tests if it has their busbw, which nobody else reckons with. */
static bool has_busbw(const struct tutti_nccl_table *table)
{
    return table->row_count > 0 && !isnan(table->rows[0].out_of_place.busbw_GBps);
}

static int take_table(const struct tutti_measurements_ask *ask, const char *log,
                      const struct tutti_nccl_table *table, bool is_nccl_tests,
                      struct tutti_measurements *measurements, struct tutti_cases *cases,
                      struct tutti_err *err)
{
    struct tutti_measurements_table note = {
        .log = log,
        .rank_count = table->rank_count,
        .iteration_count = table->iteration_count > 0 ? table->iteration_count
                           : is_nccl_tests            ? TUTTI_NCCL_TESTS_ITERATIONS
                                                      : 1,
        .is_rccl = is_rccl(table),
        .process_ranks = table->process_count > 0 ? table->rank_count / table->process_count : 0,
    };
    struct tutti_measurements_table *more;
    int status = find_collective(ask, table, &note.collective, err);

    if (status == 0)
        status = check_ranks(ask, table, err);
    if (status < 0)
        return status;
    find_version(table->library, &note);
    (void)snprintf(note.device, sizeof(note.device), "%s", table->device);
    for (size_t i = 0; i < table->row_count; i++) {
        if (take_row(ask, log, note.collective, &table->rows[i], &note, cases) < 0)
            return tutti_nomem(err);
    }
    more = realloc(measurements->tables, (measurements->table_count + 1) * sizeof(*more));
    if (more == NULL)
        return tutti_nomem(err);
    measurements->tables = more;
    more[measurements->table_count++] = note;
    return 0;
}

int tutti_measurements_take(const struct tutti_measurements_ask *ask, const struct tutti_logs *logs,
                            struct tutti_measurements *measurements, struct tutti_cases *cases,
                            struct tutti_err *err)
{
    for (uint32_t i = 0; i < logs->log_count; i++) {
        const struct tutti_log_file *log = &logs->logs[i];

        for (size_t j = 0; j < log->tables.table_count; j++) {
            const struct tutti_nccl_table *table = &log->tables.tables[j];
            int status = take_table(ask, log->path, table, !log->is_csv || has_busbw(table),
                                    measurements, cases, err);

            if (status < 0)
                return tutti_wrap(err, status, "%s", log->name);
        }
    }
    return 0;
}

double tutti_measurements_least_us(const struct tutti_measurements_table *table,
                                   uint32_t rank_count)
{
    return table->process_ranks > 1 ? tutti_one_process_us(table->collective, table->is_rccl,
                                                           table->process_ranks, rank_count)
                                    : 0;
}

void tutti_measurements_done(struct tutti_measurements *measurements)
{
    free(measurements->tables);
    *measurements = (struct tutti_measurements){0};
}

void tutti_measurements_print_table(const struct tutti_measurements_table *table, bool by_nccl,
                                    FILE *out)
{
    bool in_a_row = tutti_collective_is_rooted(table->collective);

    fprintf(out, "# log:      %s: %s", table->log, tutti_collective_name(table->collective));
    if (table->rank_count > 0)
        fprintf(out, ", %" PRIu32 " ranks", table->rank_count);
    else
        fprintf(out, ", does not say how many ranks");
    if (table->library[0] != '\0')
        fprintf(out, ", NCCL %s", table->library);
    if (table->device[0] != '\0')
        fprintf(out, ", %s", table->device);
    fprintf(out, "; %" PRIu32 " size%s", table->taken_count, table->taken_count == 1 ? "" : "s");
    if (by_nccl && in_a_row && table->iteration_count > 1)
        fprintf(out, ", each the mean of %" PRIu32 " in a row", table->iteration_count);
    if (table->left_out_count > 0)
        fprintf(out, ", %" PRIu32 " left out (no bytes, no time, or out of -b and -e)",
                table->left_out_count);
    fputc('\n', out);
}

void tutti_measurements_print_mismatch(const struct tutti_measurements_table *table,
                                       const struct tutti_topo *topo, FILE *out)
{
    uint32_t measured = tutti_hw_device_sm(table->device);
    uint32_t machine = topo->hardware != NULL ? topo->hardware->gpus[0].sm : 0;

    if (measured != 0 && machine != 0 && measured != machine)
        fprintf(out,
                "# log:      that is another GPU than the machine's (sm %" PRIu32 ", not %" PRIu32
                "): 'tutti topo list' has others\n",
                measured, machine);
}
