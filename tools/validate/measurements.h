/* Logs of nccl-tests and CSV tables as the measured side of `validate`. */
#ifndef TUTTI_TOOLS_VALIDATE_MEASUREMENTS_H
#define TUTTI_TOOLS_VALIDATE_MEASUREMENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/validate/cases.h"

struct tutti_err;
struct tutti_logs;
struct tutti_topo;

enum tutti_side { TUTTI_SIDE_OUT, TUTTI_SIDE_IN, TUTTI_SIDE_BEST };

/* What to take of the logs. */
struct tutti_measurements_ask {
    const struct tutti_topo *topo; /* must have as many ranks as the log, if that tells */
    const char *spec;              /* as typed, for messages */
    uint32_t nodes;                /* --nodes as given */
    enum tutti_side side;
    bool has_collective; /* said on the command line: for logs that do not tell */
    enum tutti_collective collective;
    uint32_t rank_count; /* likewise; 0: not said */
    uint64_t bytes_min;  /* smaller and larger sizes are left out */
    uint64_t bytes_max;
};

/* What one table of a log is, for the head of the output. */
struct tutti_measurements_table {
    const char *log;
    enum tutti_collective collective;
    uint32_t rank_count; /* 0: the log does not tell */
    char library[64];
    char version[32]; /* of the library: "2.19.3" or "22809", "" where the log does not say */
    char device[96];
    bool is_rccl;
    uint32_t process_ranks;   /* GPUs that one process launches on; 0: the log does not tell */
    uint32_t iteration_count; /* timed in a row, as a log says or nccl-tests does; of other CSV 1 */
    uint32_t taken_count;
    uint32_t left_out_count; /* no time, no bytes, or out of the range asked for */
};

struct tutti_measurements {
    struct tutti_measurements_table *tables;
    uint32_t table_count;
};

/* Adds the rows of the logs to the cases, not yet predicted; paths stay the logs'. -TUTTI_EINVAL
 * for what contradicts the machine or the command line, or leaves something open that neither says.
 */
int tutti_measurements_take(const struct tutti_measurements_ask *ask, const struct tutti_logs *logs,
                            struct tutti_measurements *measurements, struct tutti_cases *cases,
                            struct tutti_err *err);
/* What its rows took at least: see tutti_one_process_us(). */
double tutti_measurements_least_us(const struct tutti_measurements_table *table,
                                   uint32_t rank_count);
void tutti_measurements_done(struct tutti_measurements *measurements);

/* A line above the results of what a log says; `by_nccl`: NCCL's algorithms are predicted. */
void tutti_measurements_print_table(const struct tutti_measurements_table *table, bool by_nccl,
                                    FILE *out);

/* And one more where it was measured on another generation of GPU than the machine's, which is a
 * slip that the errors alone do not tell. */
void tutti_measurements_print_mismatch(const struct tutti_measurements_table *table,
                                       const struct tutti_topo *topo, FILE *out);

#endif
