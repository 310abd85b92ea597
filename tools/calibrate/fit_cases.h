/* Measured tables as a fit sees them: machines, and the time of each size by a calibration. */
#ifndef TUTTI_TOOLS_CALIBRATE_FIT_CASES_H
#define TUTTI_TOOLS_CALIBRATE_FIT_CASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/calib.h"
#include "sim/nccl.h"
#include "sim/predict.h"
#include "topo/topo.h"
#include "traces/measured.h"

struct tutti_err;

struct tutti_fit_point {
    uint64_t bytes;
    double measured_us;
    double fitted_least_us; /* what it takes at least to fit by: what launching took here */
    uint8_t protocol;       /* what ran when all were predicted last: number of tutti_protocols() */
    bool switches;          /* NVSwitch adds up */
    bool wrong;             /* it cannot be predicted: left out */
};

struct tutti_fit_case {
    const struct tutti_measured_table *table;
    struct tutti_topo *topo;
    bool lent; /* the topology is not its own */
    struct tutti_calib_machine machine;
    bool messages; /* all-to-all and send/receive: no ring, but messages */
    double weight; /* of a size in a fit: 1, or TUTTI_FIT_ASIDE_WEIGHT */
    bool judged;   /* predicted, but not fitted to */
    struct tutti_bound_law law;
    const struct tutti_nccl_version *version;
    struct tutti_nccl_env *env;
    struct tutti_predict_memory *memory; /* of the thread that has the case */
    size_t first_point;
    size_t point_count;
    size_t like; /* the first case that asks for the same times: of twins each is predicted once */
    double least_us; /* what any size takes at least, as anyone would predict: tutti_least_us() */
};

struct tutti_fit_cases {
    struct tutti_measured set;
    size_t case_count;
    struct tutti_fit_case *cases;
    size_t point_count;
    struct tutti_fit_point *points;
    size_t left_out_count; /* tables whose machine cannot be made, or that NCCL did not run */
    uint32_t thread_count;
    bool judges; /* times take least_us at least; false, as when opened: those of points */
};

/* Which tables to take; the first filter that matches a table says what for. */
struct tutti_fit_choice {
    const struct tutti_measured_filter *fitted;
    const struct tutti_measured_filter *aside;  /* fitted to as well, but counting less; or NULL */
    const struct tutti_measured_filter *judged; /* predicted besides, to judge the fit; or NULL */
};

/* Of what is fitted to aside: it tells apart what the rest tells only together (steps, say, from
 * launches: a broadcast has other sums of them than an all-reduce), but is overruled where both do
 * not agree. */
#define TUTTI_FIT_ASIDE_WEIGHT 0.25

/* Those tables of the set that are chosen, and NCCL or RCCL ran; of each power of two of bytes in a
 * table one size, the nearest to it, so that each counts once. The set becomes that of the cases on
 * success, and is empty then. `machine` is that of all tables, borrowed until close, or NULL: each
 * names its own. */
int tutti_fit_cases_open(struct tutti_measured *set, struct tutti_topo *machine,
                         const struct tutti_fit_choice *choice, uint32_t thread_count,
                         struct tutti_fit_cases *ret, struct tutti_err *err);
void tutti_fit_cases_close(struct tutti_fit_cases *cases);

/* Which points to predict; NULL: all. */
struct tutti_fit_some {
    bool (*takes)(const void *context, const struct tutti_fit_case *one,
                  const struct tutti_fit_point *point);
    const void *context;
};

/* Writes the logarithm of the time in us of those points; others stay. On all processors; the
 * results do not depend on how many. What cannot be predicted becomes `wrong`, and 0. */
int tutti_fit_cases_predict(struct tutti_fit_cases *cases, const struct tutti_calib *calib,
                            const struct tutti_calib *base, const struct tutti_fit_some *some,
                            double *times, struct tutti_err *err);

#endif
