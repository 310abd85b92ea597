/* Vector clocks over a run: what has certainly happened before what. */
#ifndef TUTTI_RUNTIME_SCHEDULE_CLOCK_H
#define TUTTI_RUNTIME_SCHEDULE_CLOCK_H

#include <stdbool.h>

#include "runtime/schedule.h"

/* Refuses accesses to the same bytes that nothing orders; with `barrier` also a rank that may end
 * before every rank has begun. `flat` has no callees. */
int tutti_clock_check(const struct tutti_schedule *flat, bool barrier, struct tutti_err *err);

#endif
