/* Reads the tables, makes their machines, and forecasts every size; see accuracy.h. */
#include "tools/fit/accuracy/accuracy.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/nccl.h"
#include "tools/cli/machine.h"
#include "tools/fit/accuracy/accuracy_nccl.h"
#include "tools/fit/accuracy/accuracy_peers.h"
#include "tools/sweep/points.h"
#include "tools/sweep/sweep.h"
#include "tools/validate/cases.h"
#include "tools/validate/measured_files.h"
#include "tools/validate/measured_run.h"

/* ---- tables ---------------------------------------------------------------------------------- */

int tutti_accuracy_open(const char *path, const struct tutti_measured_filter *filter,
                        struct tutti_accuracy *ret, struct tutti_err *err)
{
    struct tutti_accuracy accuracy = {0};
    int status = tutti_measured_load(path, &accuracy.set, err);

    if (status < 0)
        return status;
    accuracy.tables = calloc(accuracy.set.table_count + 1, sizeof(*accuracy.tables));
    if (accuracy.tables == NULL) {
        tutti_measured_free(&accuracy.set);
        return tutti_nomem(err);
    }
    accuracy.table_count = accuracy.set.table_count;
    for (size_t i = 0; i < accuracy.table_count; i++) {
        accuracy.tables[i].measured = &accuracy.set.tables[i];
        accuracy.tables[i].chosen = tutti_measured_matches(filter, &accuracy.set.tables[i]);
    }
    *ret = accuracy;
    return 0;
}

void tutti_accuracy_close(struct tutti_accuracy *accuracy)
{
    for (size_t i = 0; i < accuracy->table_count; i++)
        free(accuracy->tables[i].rows);
    free(accuracy->tables);
    tutti_measured_free(&accuracy->set);
    *accuracy = (struct tutti_accuracy){0};
}

static double side_us(const struct tutti_measured_row *row, enum tutti_side side)
{
    double first = side == TUTTI_SIDE_IN ? row->in_us : row->out_us;
    double second = side == TUTTI_SIDE_IN ? row->out_us : row->in_us;

    if (isnan(first) || (side == TUTTI_SIDE_BEST && second < first))
        return second;
    return first;
}

static int take_rows(struct tutti_accuracy_table *table, const struct tutti_accuracy_ask *ask,
                     struct tutti_err *err)
{
    const struct tutti_measured_table *measured = table->measured;

    table->rows = calloc(measured->row_count, sizeof(*table->rows));
    if (table->rows == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < measured->row_count; i++) {
        const struct tutti_measured_row *row = &measured->rows[i];
        struct tutti_accuracy_row *taken = &table->rows[table->row_count];

        if (row->bytes < ask->bytes_min || row->bytes > ask->bytes_max)
            continue;
        taken->bytes = row->bytes;
        taken->measured_us = side_us(row, ask->side);
        for (uint32_t f = 0; f < TUTTI_FORECASTERS; f++)
            taken->us[f] = NAN;
        table->row_count++;
    }
    return 0;
}

/* ---- one table ------------------------------------------------------------------------------- */

static int keep_reason(struct tutti_accuracy_table *table, int status, const struct tutti_err *why,
                       struct tutti_err *err)
{
    if (status == -TUTTI_ENOMEM)
        return tutti_nomem(err);
    table->status = status;
    (void)snprintf(table->reason, sizeof(table->reason), "%.255s", why->text);
    return 0;
}

/* What leaves the first GPU on its routes to the others of its host: each first link once. */
static int find_host_rate(const struct tutti_topo *topo, uint32_t gpu_count, double *ret,
                          struct tutti_err *err)
{
    uint32_t *route = calloc((size_t)topo->node_count + 1, sizeof(*route));
    uint32_t *seen = calloc((size_t)gpu_count + 1, sizeof(*seen));
    uint32_t seen_count = 0;

    *ret = 0;
    for (uint32_t r = 1; route != NULL && seen != NULL && r < gpu_count; r++) {
        uint32_t hops = tutti_topo_route(topo, 0, r, route, topo->node_count);
        uint32_t i = 0;

        while (i < seen_count && seen[i] != route[0])
            i++;
        if (hops == 0 || i < seen_count)
            continue;
        seen[seen_count++] = route[0];
        *ret += (double)tutti_topo_link(topo, route[0]).bytes_per_s;
    }
    free(seen);
    free(route);
    return route == NULL || seen == NULL ? tutti_nomem(err) : 0;
}

/* What NCCL would run is not always modelled (all-gather by CollNet): then its ring stands in, or
 * else the fastest that Tutti knows. */
static void stand_in(const struct tutti_accuracy_ask *ask, struct tutti_ask *one,
                     struct tutti_accuracy_table *table, struct tutti_point *points)
{
    static const char *const others[] = {"nccl:ring", "auto"};

    for (size_t i = 0; i < table->row_count; i++) {
        for (size_t k = 0; k < 2; k++) {
            if (points[i].status != -TUTTI_ELACK && points[i].status != -TUTTI_EINVAL)
                break;
            points[i] = (struct tutti_point){.algorithm = others[k], .count = points[i].count};
            tutti_points_predict(one, NULL, ask->thread_count, &points[i], 1, NULL);
            table->rows[i].stands_in = points[i].status == 0;
        }
    }
}

static void predict_points(const struct tutti_accuracy_ask *ask, const struct tutti_topo *topo,
                           const struct tutti_nccl_env *env,
                           const struct tutti_nccl_version *version,
                           struct tutti_accuracy_table *table, struct tutti_point *points)
{
    const struct tutti_measured_table *measured = table->measured;
    struct tutti_calib_choice choice = tutti_calib_option_for(&ask->calib, topo);
    struct tutti_bound_law no_bound = tutti_bound_law_none(topo); /* nobody looks at bounds here */
    struct tutti_ask one = ask->ask;

    one.topo = topo;
    one.bound_law = &no_bound;
    one.env = ask->ask.env != NULL ? ask->ask.env : env;
    one.as_nccl = ask->ask.as_nccl != NULL ? ask->ask.as_nccl : version;
    one.protocols = choice.made.protocols;
    one.iteration_count = tutti_timed_iterations(measured);
    one.protocol = tutti_sweep_protocol(topo, ask->protocol);
    one.params.collective = measured->collective;
    one.params.dtype = measured->dtype;
    one.params.op = measured->op;
    for (size_t i = 0; i < table->row_count; i++) {
        points[i].algorithm = ask->ask.algorithm;
        points[i].count = tutti_collective_count_for(measured->collective, table->rows[i].bytes,
                                                     measured->dtype, topo->rank_count);
    }
    tutti_points_predict(&one, NULL, ask->thread_count, points, table->row_count, NULL);
    if (strcmp(ask->ask.algorithm, "nccl") == 0)
        stand_in(ask, &one, table, points);
}

static int take_points(struct tutti_accuracy_table *table, const struct tutti_point *points,
                       struct tutti_err *err)
{
    int status = 0;

    for (size_t i = 0; status == 0 && i < table->row_count; i++) {
        struct tutti_accuracy_row *row = &table->rows[i];

        if (points[i].status < 0) {
            status = table->status == 0 || points[i].status == -TUTTI_ENOMEM
                         ? keep_reason(table, points[i].status, &points[i].err, err)
                         : 0;
            continue;
        }
        row->us[TUTTI_FORECAST_OURS] =
            fmax((double)points[i].answer.time_ps / (double)TUTTI_PS_PER_US,
                 tutti_least_us(table->measured));
        row->algorithm = points[i].answer.algorithm;
        row->protocol = points[i].answer.protocol;
    }
    return status;
}

static int forecast_ours(const struct tutti_accuracy_ask *ask, const struct tutti_topo *topo,
                         const struct tutti_nccl_env *env, const struct tutti_nccl_version *version,
                         struct tutti_accuracy_table *table, struct tutti_err *err)
{
    struct tutti_point *points = calloc(table->row_count + 1, sizeof(*points));
    int status;

    if (points == NULL)
        return tutti_nomem(err);
    predict_points(ask, topo, env, version, table, points);
    status = take_points(table, points, err);
    free(points);
    return status;
}

static int forecast_nominal(const struct tutti_topo *topo, struct tutti_accuracy_table *table,
                            struct tutti_err *err)
{
    const struct tutti_measured_table *measured = table->measured;
    uint32_t counts[2] = {measured->gpu_count, measured->host_count};
    double rates[2];
    double latency_ps = 0;
    double bytes_per_s = 0;
    int status = tutti_null_ring(topo, &latency_ps, &bytes_per_s, err);

    if (status < 0)
        return status;
    if (table->net_bytes_per_s <= 0 && topo->host_count <= 1) { /* NVLink joins the hosts */
        counts[0] = measured->rank_count;
        counts[1] = 1;
    }
    rates[0] = table->host_bytes_per_s;
    rates[1] = table->net_bytes_per_s;
    for (size_t i = 0; i < table->row_count; i++) {
        struct tutti_accuracy_row *row = &table->rows[i];

        row->us[TUTTI_FORECAST_NOMINAL] = tutti_null_us(measured->collective, topo->rank_count,
                                                        row->bytes, latency_ps, bytes_per_s);
        row->us[TUTTI_FORECAST_ASTRA] =
            tutti_astra_us(measured->collective, counts, rates, row->bytes);
    }
    return 0;
}

/* What is forecast from the machine. */
static int forecast(struct tutti_accuracy_table *table, const struct tutti_accuracy_ask *ask,
                    const struct tutti_topo *topo, struct tutti_err *err)
{
    const struct tutti_nccl_version *version = NULL;
    struct tutti_nccl_env *env = NULL;
    int status = tutti_measured_env(table->measured, &env, &version, err);

    if (status == 0)
        status = forecast_ours(ask, topo, env, version, table, err);
    if (status == 0)
        status = tutti_model_a_forecast(topo, env, version, table, err);
    if (status == 0)
        status = forecast_nominal(topo, table, err);
    tutti_nccl_env_free(env);
    return status;
}

static int make_machine(const struct tutti_measured_table *measured, struct tutti_topo **ret,
                        struct tutti_err *err)
{
    int status;

    if (strcmp(measured->machine, "-") == 0)
        return tutti_fail(err, TUTTI_EINVAL, "no machine is said for '%s'", measured->platform);
    status = tutti_topo_from_spec(measured->machine, ret, err);
    if (status == 0 && (*ret)->rank_count != measured->rank_count)
        status = tutti_fail(err, TUTTI_EINVAL, "'%s' has %" PRIu32 " ranks, not %" PRIu32,
                            measured->machine, (*ret)->rank_count, measured->rank_count);
    return status;
}

static int run_table(struct tutti_accuracy_table *table, const struct tutti_accuracy_ask *ask,
                     struct tutti_err *err)
{
    const struct tutti_measured_table *measured = table->measured;
    struct tutti_topo *topo = NULL;
    struct tutti_err why = {""};
    int status;

    if (measured->host_count > 1)
        table->net_bytes_per_s =
            (double)measured->nic_bytes_per_s * measured->nic_count / measured->gpu_count;
    status = make_machine(measured, &topo, &why);
    if (status < 0) {
        tutti_topo_free(topo);
        return keep_reason(table, status, &why, err);
    }
    status = find_host_rate(topo, measured->gpu_count, &table->host_bytes_per_s, err);
    if (status == 0 && table->chosen)
        status = forecast(table, ask, topo, err);
    tutti_topo_free(topo);
    return status;
}

/* ---- all of them ----------------------------------------------------------------------------- */

int tutti_accuracy_run(struct tutti_accuracy *accuracy, const struct tutti_accuracy_ask *ask,
                       struct tutti_err *err)
{
    int status = 0;

    for (size_t i = 0; status == 0 && i < accuracy->table_count; i++) {
        status = take_rows(&accuracy->tables[i], ask, err);
        if (status == 0)
            status = run_table(&accuracy->tables[i], ask, err);
    }
    for (size_t i = 0; status == 0 && i < accuracy->table_count; i++) {
        if (accuracy->tables[i].chosen)
            status = tutti_nearest_forecast(accuracy, &accuracy->tables[i], err);
        if (status == 0 && accuracy->tables[i].chosen)
            status = tutti_twins_forecast(accuracy, &accuracy->tables[i], err);
    }
    return status;
}
