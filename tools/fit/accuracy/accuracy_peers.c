/* The simpler models; see accuracy_peers.h. */
#include "tools/fit/accuracy/accuracy_peers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

enum { DIMENSIONS = 2 };

static const double link_s[DIMENSIONS] = {936.25e-9, 1000e-9};
static const double endpoint_s = 10e-9;
static const double memory_bytes_per_s = 1.6e12;

/* `steps` steps of `bytes` in dimension `d`. */
static double steps_s(double steps, uint32_t d, double bytes_per_s, double bytes, bool reduces)
{
    double step;

    if (!(steps > 0))
        return 0;
    step = 2 * link_s[d] + endpoint_s + bytes / bytes_per_s;
    return steps * (step + (reduces ? 3 * bytes / memory_bytes_per_s : 0));
}

/* Down through the dimensions, which halves of an all-reduce do both. */
static double pass_s(const uint32_t counts[2], const double bytes_per_s[2], double bytes,
                     bool reduces)
{
    double total = 0;

    for (uint32_t d = 0; d < DIMENSIONS; d++) {
        bytes /= counts[d];
        total += steps_s(counts[d] - 1, d, bytes_per_s[d], bytes, reduces);
    }
    return total;
}

static double exchange_s(const uint32_t counts[2], const double bytes_per_s[2], double bytes)
{
    double total = 0;

    for (uint32_t d = 0; d < DIMENSIONS; d++)
        total += steps_s(counts[d] - 1, d, bytes_per_s[d], bytes / counts[d], false);
    return total;
}

double tutti_astra_us(enum tutti_collective collective, const uint32_t counts[2],
                      const double bytes_per_s[2], uint64_t bytes)
{
    double all = (double)bytes;
    uint32_t last = counts[1] > 1 ? 1 : 0;

    for (uint32_t d = 0; d < DIMENSIONS; d++) {
        if (counts[d] > 1 && !(bytes_per_s[d] > 0))
            return NAN;
    }
    switch (collective) {
    case TUTTI_ALLREDUCE:
        return 1e6 *
               (pass_s(counts, bytes_per_s, all, true) + pass_s(counts, bytes_per_s, all, false));
    case TUTTI_REDUCESCATTER:
        return 1e6 * pass_s(counts, bytes_per_s, all, true);
    case TUTTI_ALLGATHER:
        return 1e6 * pass_s(counts, bytes_per_s, all, false);
    case TUTTI_ALLTOALL:
        return 1e6 * exchange_s(counts, bytes_per_s, all);
    case TUTTI_SENDRECV:
        return 1e6 * steps_s(1, last, bytes_per_s[last], all, false);
    default:
        return NAN;
    }
}

/* ---- the nearest other platform -------------------------------------------------------------- */

static bool reaches(const struct tutti_accuracy_table *table, uint64_t bytes)
{
    return table->row_count > 0 && table->rows[0].bytes <= bytes &&
           table->rows[table->row_count - 1].bytes >= bytes;
}

static double octaves(double a, double b)
{
    return fabs(log2(a / b));
}

static double binding_rate(const struct tutti_accuracy_table *table)
{
    return table->measured->host_count > 1 ? table->net_bytes_per_s : table->host_bytes_per_s;
}

static double distance(const struct tutti_accuracy_table *a, const struct tutti_accuracy_table *b)
{
    static const double unknown_octaves = 4; /* as far as an HGX from a PCIe host */
    double rate_a = binding_rate(a);
    double rate_b = binding_rate(b);

    return octaves(a->measured->host_count, b->measured->host_count) +
           octaves(a->measured->gpu_count, b->measured->gpu_count) +
           (rate_a > 0 && rate_b > 0 ? octaves(rate_a, rate_b) : unknown_octaves);
}

static double interpolate(const struct tutti_accuracy_table *table, uint64_t bytes)
{
    const struct tutti_accuracy_row *rows = table->rows;
    size_t i = 0;
    double part;

    while (rows[i].bytes < bytes)
        i++;
    if (rows[i].bytes == bytes)
        return rows[i].measured_us;
    part = log((double)bytes / (double)rows[i - 1].bytes) /
           log((double)rows[i].bytes / (double)rows[i - 1].bytes);
    return exp(log(rows[i - 1].measured_us) * (1 - part) + log(rows[i].measured_us) * part);
}

/* How far each table is from this one; INFINITY: it is no candidate. */
static void measure(const struct tutti_accuracy *accuracy, const struct tutti_accuracy_table *table,
                    double *far)
{
    for (size_t i = 0; i < accuracy->table_count; i++) {
        const struct tutti_accuracy_table *other = &accuracy->tables[i];
        bool candidate = tutti_accuracy_counts(other) &&
                         other->measured->collective == table->measured->collective &&
                         strcmp(other->measured->platform, table->measured->platform) != 0;

        far[i] = candidate ? distance(table, other) : INFINITY;
    }
}

int tutti_nearest_forecast(const struct tutti_accuracy *accuracy,
                           struct tutti_accuracy_table *table, struct tutti_err *err)
{
    double *far = calloc(accuracy->table_count + 1, sizeof(*far));

    if (far == NULL)
        return tutti_nomem(err);
    measure(accuracy, table, far);
    for (size_t r = 0; r < table->row_count; r++) {
        struct tutti_accuracy_row *row = &table->rows[r];
        size_t nearest = accuracy->table_count;

        for (size_t i = 0; i < accuracy->table_count; i++) {
            if (!isinf(far[i]) && reaches(&accuracy->tables[i], row->bytes) &&
                (nearest == accuracy->table_count || far[i] < far[nearest] ||
                 (!(far[i] > far[nearest]) && strcmp(accuracy->tables[i].measured->id,
                                                     accuracy->tables[nearest].measured->id) < 0)))
                nearest = i;
        }
        row->us[TUTTI_FORECAST_NEAREST] = nearest < accuracy->table_count
                                              ? interpolate(&accuracy->tables[nearest], row->bytes)
                                              : NAN;
    }
    free(far);
    return 0;
}

/* ---- the same machine elsewhere -------------------------------------------------------------- */

static bool is_twin(const struct tutti_accuracy_table *other,
                    const struct tutti_measured_table *mine)
{
    const struct tutti_measured_table *theirs = other->measured;

    return tutti_accuracy_counts(other) && theirs->collective == mine->collective &&
           strcmp(theirs->machine, mine->machine) == 0 &&
           strcmp(theirs->library, mine->library) == 0 &&
           strcmp(theirs->timing, mine->timing) == 0 && strcmp(theirs->site, mine->site) != 0;
}

static int compare_us(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;

    return (a > b) - (a < b);
}

/* Sorts them. */
static double median_of(double *us, size_t count)
{
    if (count == 0)
        return NAN;
    qsort(us, count, sizeof(*us), compare_us);
    return (us[(count - 1) / 2] + us[count / 2]) / 2;
}

int tutti_twins_forecast(const struct tutti_accuracy *accuracy, struct tutti_accuracy_table *table,
                         struct tutti_err *err)
{
    const struct tutti_measured_table *mine = table->measured;
    bool said = strcmp(mine->machine, "-") != 0;
    double *us = calloc(accuracy->table_count + 1, sizeof(*us));

    if (us == NULL)
        return tutti_nomem(err);
    for (size_t r = 0; r < table->row_count; r++) {
        struct tutti_accuracy_row *row = &table->rows[r];
        size_t count = 0;

        for (size_t i = 0; said && i < accuracy->table_count; i++) {
            if (is_twin(&accuracy->tables[i], mine) && reaches(&accuracy->tables[i], row->bytes))
                us[count++] = interpolate(&accuracy->tables[i], row->bytes);
        }
        row->us[TUTTI_FORECAST_TWINS] = median_of(us, count);
    }
    free(us);
    return 0;
}
