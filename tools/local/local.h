/* This machine as its ranks feel it: measured by small schedules that are no collectives, and the
 * parameters of sim/local.h fitted to what they took. */
#ifndef TUTTI_TOOLS_LOCAL_LOCAL_H
#define TUTTI_TOOLS_LOCAL_LOCAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/coll.h"
#include "sim/fit.h"
#include "sim/local.h"

struct tutti_backend;
struct tutti_group;
struct tutti_err;
struct tutti_json;

struct tutti_local_ask {
    struct tutti_backend *backend; /* NULL: threads; else all its processes measure together */
    bool on_gpu;                   /* ranks are virtual ones of a GPU: `backend` is that */
    uint32_t process_count;        /* of it; 0: 1 */
    struct tutti_group *group;     /* those; NULL: this one alone */
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
    double apart_ns; /* how far apart the processors lay meanwhile; 0: not known */
    bool moved; /* they moved meanwhile, or lay otherwise than most of the time: not fitted to */
};

struct tutti_local_points {
    struct tutti_local_point *points;
    uint32_t count;
    double apart_ns;      /* most of the time */
    uint32_t again_count; /* of timings that were done again, because the processors had moved, */
    uint32_t left_out_count; /* and of points that had to be left out for it */
};

/* How far apart the processors are that ranks 0 and 1 are tied to: from one's storing a word until
 * the other sees it, in nanoseconds; 0: there is one processor only. A virtual machine's may be
 * moved to other cores at any time, and then all that passes from one to the other costs otherwise.
 * All processes look together, and learn what the first one has seen. About 20 us. */
int tutti_local_look(const struct tutti_local_ask *ask, double *ret_ns, struct tutti_err *err);
/* Whether two looks saw processors that lay otherwise; false where one of them saw nothing. */
bool tutti_local_moved(double one_ns, double other_ns);

/* Runs all of them, at sizes that are 3 times a power of two: none that a sweep of powers of two
 * prints, and none of the schedules that are collectives. Once more those during which the
 * processors moved, or lay otherwise than most of the time. */
int tutti_local_measure(const struct tutti_local_ask *ask, struct tutti_local_points *ret,
                        struct tutti_err *err);
/* Times them anew, whatever they are. */
int tutti_local_time_points(const struct tutti_local_ask *ask, struct tutti_local_points *points,
                            struct tutti_err *err);
void tutti_local_points_close(struct tutti_local_points *points);

/* Those for the lanes of a GPU: copies and sums by different numbers of blocks, small messages that
 * go round. Adds to the points, up to `capacity`. */
int tutti_local_points_make_blocks(const struct tutti_local_ask *ask, uint32_t capacity,
                                   struct tutti_local_points *points, struct tutti_err *err);

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

/* Fits what passes between processors alone to measured_us, and leaves all else as `local` has it:
 * for a machine that has moved since it was calibrated. `sigma`: by which factor they may well have
 * changed, as its logarithm. */
int tutti_local_fit_between(struct tutti_local_points *points, double sigma,
                            struct tutti_local *local, struct tutti_local_fitted *ret,
                            struct tutti_err *err);

/* The machine as it is beside a timing, not as it was when it was calibrated: a look tells whether
 * it has moved, and a few of the schedules that it was calibrated by, timed again in a tenth of a
 * second, tell what passing from one processor to the other costs now. */
struct tutti_local_beside {
    struct tutti_local_ask ask;
    struct tutti_local calibrated;
    struct tutti_local now;
    struct tutti_local_points probes;
    uint32_t probe_count; /* how often they were timed */
};
int tutti_local_beside_open(const struct tutti_local_ask *ask, const struct tutti_local *calibrated,
                            struct tutti_local_beside *ret, struct tutti_err *err);
void tutti_local_beside_close(struct tutti_local_beside *beside);
/* `now` for processors that a look has just seen so far apart: what was calibrated or fitted last,
 * if they lay alike then; else times the probes and fits it to them. */
int tutti_local_beside_follow(struct tutti_local_beside *beside, double apart_ns,
                              struct tutti_err *err);

/* Both; says which machine it is, and when. Points are the caller's to close. */
int tutti_local_calibrate(const struct tutti_local_ask *ask, struct tutti_local_points *ret_points,
                          struct tutti_local *ret, struct tutti_local_fitted *ret_fitted,
                          struct tutti_err *err);

/* Reads what `calibrate -B` has written. -TUTTI_EINVAL for another backend's. */
int tutti_local_load(const char *path, const char *backend, struct tutti_local *ret,
                     struct tutti_err *err);

/* Opens the play of a schedule on that machine; on a GPU *ret_work is what the backend makes of it,
 * which the play refers to, else NULL. Both are the caller's, the play to be closed first. */
struct tutti_cuda_work;
int tutti_local_open_play(const struct tutti_local *local, const struct tutti_schedule *schedule,
                          struct tutti_cuda_work **ret_work, struct tutti_local_play **ret,
                          struct tutti_err *err);

void tutti_local_work_free(const struct tutti_local *local, struct tutti_cuda_work *work);

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
void tutti_local_show(const struct tutti_local *local, const char *how, bool verbose, FILE *out);
/* The same in three lines, the same for every machine but for the numbers. */
void tutti_local_sum_up(const struct tutti_local *local, const char *how, bool verbose, FILE *out);
void tutti_local_json(const struct tutti_local *local, struct tutti_json *json);

#endif
