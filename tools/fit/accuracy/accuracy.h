/* How well predictions hold against all measurements there are: every size of every table,
 * predicted by us and by simpler models, and the errors summed up fairly. */
#ifndef TUTTI_TOOLS_FIT_ACCURACY_ACCURACY_H
#define TUTTI_TOOLS_FIT_ACCURACY_ACCURACY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/predict.h"
#include "tools/cli/calib.h"
#include "tools/validate/measurements.h"
#include "traces/measured.h"

struct tutti_page;

struct tutti_err;

/* Who forecasts; the peers are explained in accuracy_peers.h. */
enum tutti_forecaster {
    TUTTI_FORECAST_OURS,
    TUTTI_FORECAST_MODEL_A, /* NCCL's own tuning model (sim/nccl.h) */
    TUTTI_FORECAST_NOMINAL, /* one flat ring at nominal latency and rate (cases.h) */
    TUTTI_FORECAST_ASTRA,   /* ASTRA-sim's analytical formula */
    TUTTI_FORECAST_NEAREST, /* what was measured on the nearest other platform */
    TUTTI_FORECAST_TWINS,   /* on the same machine elsewhere: about as well as any model can */
    TUTTI_FORECASTERS
};

const char *tutti_forecaster_name(enum tutti_forecaster forecaster);

struct tutti_accuracy_row {
    uint64_t bytes;
    double measured_us;
    double us[TUTTI_FORECASTERS]; /* NAN: it has none */
    const char *algorithm;        /* ours; NULL: not predicted */
    const char *protocol;
    bool stands_in;             /* ours is of another algorithm than NCCL's: not modelled */
    const char *pick_algorithm; /* what model A says NCCL runs; NULL: it says nothing */
    const char *pick_protocol;
};

struct tutti_accuracy_table {
    const struct tutti_measured_table *measured;
    bool chosen;             /* by the filter: the others are only there to be the nearest */
    int status;              /* of ours, of the whole table or of its first size that failed */
    char reason[256];        /* why that is not 0 */
    double host_bytes_per_s; /* what a GPU can send inside its host, nominally; 0: not known */
    double net_bytes_per_s;  /* its share of the host's NICs; 0: one host, or not known */
    size_t row_count;
    struct tutti_accuracy_row *rows;
};

struct tutti_accuracy {
    struct tutti_measured set;
    size_t table_count; /* all, in the order of the set */
    struct tutti_accuracy_table *tables;
};

struct tutti_accuracy_ask {
    struct tutti_ask
        ask; /* algorithm, protocol, model and so on; machine and sizes are the tables' */
    const char *protocol; /* as typed: "auto" depends on the machine */
    struct tutti_calib_option calib;
    enum tutti_side side; /* where a size was measured on the other side only, that is taken */
    uint64_t bytes_min;
    uint64_t bytes_max;
    uint32_t thread_count; /* 0: one a processor */
};

/* Reads the tables at `path` and marks those that the filter chooses; no forecasts yet. */
int tutti_accuracy_open(const char *path, const struct tutti_measured_filter *filter,
                        struct tutti_accuracy *ret, struct tutti_err *err);
void tutti_accuracy_close(struct tutti_accuracy *accuracy);

/* Forecasts every size: by us on all processors (the results do not depend on how many), then by
 * the peers. A table whose machine cannot be made, or that cannot be predicted, keeps the reason;
 * only what ends all of it (no memory) is an error. */
int tutti_accuracy_run(struct tutti_accuracy *accuracy, const struct tutti_accuracy_ask *ask,
                       struct tutti_err *err);

/* Errors either way in percent of what was measured. Each table counts once in each power of two of
 * bytes that it has (the mean of its sizes there), so that a sweep of a thousand sizes weighs as
 * much as one of ten: median, 9 of 10, worst. Plain: every size counts. */
struct tutti_accuracy_sum {
    size_t table_count;
    size_t bin_count; /* tables times powers of two */
    size_t row_count;
    double median_percent;
    double p90_percent;
    double worst_percent; /* of a single size */
    double plain_median_percent;
    double plain_p90_percent;
    const struct tutti_accuracy_table *worst; /* and where that is */
    uint64_t worst_bytes;
};

/* Which rows are summed up. */
struct tutti_accuracy_slice {
    enum tutti_forecaster forecaster;
    uint64_t bytes_min; /* a band: sizes from here, */
    uint64_t bytes_max; /* and below here */
    uint32_t also;      /* only sizes that these have too: bit 1 << enum tutti_forecaster */
    bool (*takes)(const struct tutti_accuracy_table *table, const char *name); /* NULL: all */
    const char *name;
};

/* bin_count 0: nothing is in the slice, and the figures are NAN. */
int tutti_accuracy_sum(const struct tutti_accuracy *accuracy,
                       const struct tutti_accuracy_slice *slice, struct tutti_accuracy_sum *ret,
                       struct tutti_err *err);

/* Good tables of NCCL and RCCL: what the summary is of. */
bool tutti_accuracy_counts(const struct tutti_accuracy_table *table);

/* The summary and the tables as text, JSON or (every size) CSV; the picture of measured against
 * predicted. */
int tutti_accuracy_print(const struct tutti_accuracy *accuracy,
                         const struct tutti_accuracy_ask *ask, const struct tutti_page *page,
                         struct tutti_err *err);
int tutti_accuracy_json(const struct tutti_accuracy *accuracy, struct tutti_json *json,
                        struct tutti_err *err);
int tutti_accuracy_csv(const struct tutti_accuracy *accuracy, FILE *out, struct tutti_err *err);
int tutti_accuracy_svg(const struct tutti_accuracy *accuracy, char **ret, struct tutti_err *err);

#endif
