/* The rules that an axis obeys. Its arithmetic is public: runtime/schedule.h. */
#ifndef TUTTI_RUNTIME_SCHEDULE_AXIS_H
#define TUTTI_RUNTIME_SCHEDULE_AXIS_H

#include "runtime/schedule.h"

/* Groups of one rank or more, apart from each other, of ranks that there are (-TUTTI_EINVAL). */
int tutti_axis_valid(const struct tutti_axis *axis, uint32_t rank_count, struct tutti_err *err);

#endif
