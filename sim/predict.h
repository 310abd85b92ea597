/* One prediction: a collective by an algorithm on a machine, with its bound; what predict, compare
 * and validate all call. */
#ifndef TUTTI_SIM_PREDICT_H
#define TUTTI_SIM_PREDICT_H

#include <stdbool.h>

#include "runtime/coll.h"
#include "sim/sim.h"
#include "topo/topo.h"

struct tutti_ask {
    const struct tutti_topo *topo;
    const char *algorithm; /* a name of tutti_algorithms(), or "auto": the fastest */
    struct tutti_coll_params params;
    const char *protocol; /* "none", "ll", "ll128", "simple", or "auto": the fastest */
    enum tutti_model model;
    uint64_t seed;
    double jitter;
    uint64_t reduce_bytes_per_s;
    struct tutti_record *record; /* NULL, or the events of the winner */
};

struct tutti_answer {
    const char *algorithm; /* that was run or won */
    const char *protocol;
    uint64_t bytes; /* nccl-tests' size column actually simulated */
    tutti_ps time_ps;
    double algbw_GBps;
    double busbw_GBps;
    struct tutti_bound bound;
    double percent_of_bound; /* 100 * bound / time */
    uint64_t event_count;    /* steps simulated */
    bool folded;
};

/* Predicts. -TUTTI_EINVAL where the algorithm does not fit the topology or collective; with "auto"
 * those are left out and only if none fits it is an error. */
int tutti_predict(const struct tutti_ask *ask, struct tutti_answer *ret, struct tutti_err *err);

#endif
