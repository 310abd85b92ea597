/* This machine as its ranks feel it: measured by small schedules that are no collectives, and the
 * parameters of sim/local.h fitted to what they took. */
#ifndef TUTTI_TOOLS_LOCAL_H
#define TUTTI_TOOLS_LOCAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/coll.h"
#include "sim/fit.h"
#include "sim/local.h"

struct tutti_backend;
struct tutti_err;
struct tutti_json;

struct tutti_local_ask {
    struct tutti_backend *backend; /* NULL: threads; else all its processes measure together */
    uint32_t process_count;        /* of it; 0: 1 */
    uint32_t rank_count;
    uint32_t processor_count;
    bool pin;
    enum tutti_dtype dtype;
    enum tutti_op op;
    int64_t deadline_ps; /* of a wait */
    uint64_t seed;
    uint64_t bytes_max; /* of the buffers of the largest */
    bool brief;         /* fewer sizes and iterations: a second or two, less exact */
};

/* One schedule at one size. */
struct tutti_local_point {
    const char *what; /* "copy", "message", ... */
    uint64_t bytes;   /* of each operand */
    uint32_t rank_count;
    struct tutti_schedule *schedule;
    double measured_us; /* median of medians */
    double fitted_us;
};

struct tutti_local_points {
    struct tutti_local_point *points;
    uint32_t count;
};

/* Runs all of them, at sizes that are 3 times a power of two: none that a sweep of
 * powers of two prints, and none of the schedules that are collectives. */
int tutti_local_measure(const struct tutti_local_ask *ask, struct tutti_local_points *ret,
                        struct tutti_err *err);
void tutti_local_points_close(struct tutti_local_points *points);

/* The schedules alone, not yet timed: for fits to made-up machines. */
int tutti_local_points_make(const struct tutti_local_ask *ask, struct tutti_local_points *ret,
                            struct tutti_err *err);

/* Fits all parameters to measured_us of all points, from `local` on, and fills in fitted_us. */
struct tutti_local_fitted {
    uint32_t iteration_count;
    bool converged;
    double median_abs_percent; /* of the points fitted to */
    double p90_abs_percent;
    double worst_abs_percent;
};
int tutti_local_fit(struct tutti_local_points *points, struct tutti_local *local,
                    struct tutti_local_fitted *ret, struct tutti_err *err);

/* Both; says which machine it is, and when. Points are the caller's to close. */
int tutti_local_calibrate(const struct tutti_local_ask *ask, struct tutti_local_points *ret_points,
                          struct tutti_local *ret, struct tutti_local_fitted *ret_fitted,
                          struct tutti_err *err);

/* Reads what `calibrate -B` has written. -TUTTI_EINVAL for another backend's. */
int tutti_local_load(const char *path, const char *backend, struct tutti_local *ret,
                     struct tutti_err *err);

/* Times the schedule of `algorithm` on it: see sim/local.h. *ret_ps is 0 for one too large to be
 * looked at step by step. */
int tutti_local_predict(const struct tutti_local *local, uint32_t rank_count,
                        const struct tutti_coll_params *params, const char *algorithm,
                        int64_t *ret_ps, struct tutti_err *err);

/* For the null model: what a message costs beside its bytes, and one rate for those. */
double tutti_local_null_latency_ps(const struct tutti_local *local);
double tutti_local_null_bytes_per_s(const struct tutti_local *local);

/* What is known of the machine, as lines of '#' and as the member "machine" of an open JSON object.
 * The lines end with how it came to be known: `how`. */
void tutti_local_show(const struct tutti_local *local, const char *how, FILE *out);
/* The same in three lines, the same for every machine but for the numbers. */
void tutti_local_sum_up(const struct tutti_local *local, const char *how, FILE *out);
void tutti_local_json(const struct tutti_local *local, struct tutti_json *json);

#endif
