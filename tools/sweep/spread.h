/* Predictions of many points by all processes of a job, each on its processors. */
#ifndef TUTTI_TOOLS_SWEEP_SPREAD_H
#define TUTTI_TOOLS_SWEEP_SPREAD_H

#include "tools/sweep/job.h"
#include "tools/sweep/points.h"
#include "topo/perturb.h"

struct tutti_sink;

/* As tutti_points_predict(), but each process of the job predicts its share of the points; then all
 * have all results, the same that one process would have. Fails only for want of memory, and then
 * in all processes. */
int tutti_spread_predict(const struct tutti_job *job, const struct tutti_ask *ask,
                         const char *command, uint32_t thread_count, struct tutti_point *points,
                         size_t point_count, struct tutti_sink *sink, struct tutti_err *err);

/* Fails in all processes unless all have the same machine, points and build. */
int tutti_spread_check(const struct tutti_job *job, const struct tutti_ask *ask,
                       const struct tutti_perturb *perturb, const struct tutti_point *points,
                       size_t point_count, struct tutti_err *err);

#endif
