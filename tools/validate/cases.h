/* Measured beside predicted: the cases of `validate`, their errors, and how they are printed. */
#ifndef TUTTI_TOOLS_VALIDATE_CASES_H
#define TUTTI_TOOLS_VALIDATE_CASES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/coll.h"
#include "tools/cli/json.h"

struct tutti_page;
struct tutti_sink;

struct tutti_args;
struct tutti_ask;
struct tutti_err;
struct tutti_topo;

struct tutti_case {
    const char *log; /* where it was measured: borrowed; NULL: here */
    struct tutti_coll_params params;
    uint32_t
        iteration_count; /* timed in a row, of which measured_us is the mean; 0, 1: one alone */
    uint64_t bytes;      /* nccl-tests' size column */
    double measured_us;
    double least_us; /* that launching takes, whatever is predicted; 0: nothing is known of it */
    double predicted_us;
    double null_us;
    double calibrated_us;  /* predicted as this machine was when it was calibrated; 0: a log's */
    double apart_ns;       /* how far apart its processors lay */
    const char *algorithm; /* predicted, or played here */
    const char *protocol;
};

struct tutti_cases {
    struct tutti_case *cases;
    size_t case_count;
    size_t case_capacity;
};

int tutti_cases_add(struct tutti_cases *cases, const struct tutti_case *one);
void tutti_cases_done(struct tutti_cases *cases);

/* Fills in what is predicted of each by `ask`, but for what the case says itself. What a log
 * repeats is predicted once. */
int tutti_cases_predict(struct tutti_cases *cases, const struct tutti_ask *ask,
                        uint32_t thread_count, struct tutti_sink *sink, struct tutti_err *err);

/* Absolute errors in percent of what was measured. The median of an even number is the mean of the
 * two in the middle; p90 is the smallest error that at least 90 % of the cases do not exceed. */
struct tutti_errors {
    double median_abs_percent;
    double p90_abs_percent;
    double worst_abs_percent;
    double null_median_abs_percent;
    double calibrated_median_abs_percent; /* of this machine; else 0 */
    size_t small_count;                   /* below 1 MiB */
    double small_median_abs_percent;      /* of these; 0: there are none */
    double large_median_abs_percent;      /* of the others; likewise */
};

int tutti_cases_errors(const struct tutti_cases *cases, struct tutti_errors *ret,
                       struct tutti_err *err);

/* The null model: no schedule, no contention, no protocol; one flat ring 0, 1, ..., n-1 whose
 * slowest hop has latency a and rate b, and
 *     allreduce                     2(n-1) a + 2(n-1)/n S/b
 *     reducescatter, allgather,
 *     alltoall                       (n-1) a +  (n-1)/n S/b
 *     broadcast, reduce              (n-1) a +          S/b   (a chain, perfectly pipelined)
 *     sendrecv                             a +          S/b
 *     barrier                       2(n-1) a
 * for nccl-tests' size S. A prediction that is no better than this has explained nothing. */
double tutti_null_us(enum tutti_collective collective, uint32_t rank_count, uint64_t bytes,
                     double latency_ps, double bytes_per_s);

/* a and b on a machine: the largest latency of the routes r -> r+1 and the least nominal rate of
 * all their links, each route as if alone. */
int tutti_null_ring(const struct tutti_topo *topo, double *ret_latency_ps, double *ret_bytes_per_s,
                    struct tutti_err *err);

/* Rows, then the errors: as a table, as the members "cases", "median_abs_percent", ... of an open
 * JSON object, or as CSV. */
int tutti_cases_print(const struct tutti_cases *cases, const struct tutti_errors *errors,
                      const struct tutti_page *page, struct tutti_err *err);
int tutti_cases_json(const struct tutti_cases *cases, const struct tutti_errors *errors,
                     struct tutti_json *json, struct tutti_err *err);
int tutti_cases_csv(const struct tutti_cases *cases, struct tutti_sink *sink,
                    struct tutti_err *err);

#endif
