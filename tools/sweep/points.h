/* Predictions of many points at once: each on its own, on all processors, in the order asked. */
#ifndef TUTTI_TOOLS_SWEEP_POINTS_H
#define TUTTI_TOOLS_SWEEP_POINTS_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/status.h"
#include "sim/predict.h"

struct tutti_sink;

/* One algorithm at one size, and what came of it. */
struct tutti_point {
    const char *algorithm; /* asked for: a name or "auto" */
    uint64_t count;        /* elements */
    struct tutti_answer answer;
    uint32_t rivals;      /* 0, or the number of a group of points of which only the fastest is
                             wanted, of equals the first */
    tutti_ps least_ps;    /* with rivals: its answer is not below; found while they are predicted */
    int status;           /* of tutti_predict(); TUTTI_POINT_SLOWER */
    struct tutti_err err; /* its message, if that is negative */
};

/* Not predicted: one of its rivals is faster. */
enum { TUTTI_POINT_SLOWER = 1 };

/* Predicts every point as `ask` says, but for the algorithm and the count, which are the point's.
 * The results do not depend on `thread_count` (0: one a processor; fewer where no more can be
 * started). While it lasts long and stderr is a terminal, tells there how far it is, in the name of
 * `command`, unless that is NULL. A point that fails says so in its own status. Of rivals those
 * that fold are predicted first, then, one after another, the others, but those that cannot be the
 * fastest. */
void tutti_points_predict(const struct tutti_ask *ask, const char *command, uint32_t thread_count,
                          struct tutti_point *points, size_t point_count, struct tutti_sink *sink);

#endif
