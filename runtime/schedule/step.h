/* Words about steps that the rooms of the schedule share: names of buffers, where a step stands. */
#ifndef TUTTI_RUNTIME_SCHEDULE_STEP_H
#define TUTTI_RUNTIME_SCHEDULE_STEP_H

#include "runtime/schedule.h"

enum { TUTTI_STEP_WHERE_BYTES = TUTTI_STEP_TEXT_BYTES + 80 };

/* "none", "in", "out", "scratch", "state", or "unknown". */
const char *tutti_buf_name(unsigned buffer);

/* As tutti_step_text, but lengths are followed by `unit`. */
const char *tutti_step_text_in(const struct tutti_step *step, const char *unit, char *buf);

/* "rank 2, lane 0, step 5 (RECV out+0 64 B from 1)"; returns `buf`, TUTTI_STEP_WHERE_BYTES long. */
const char *tutti_step_where(uint32_t rank, uint32_t lane, uint64_t index,
                             const struct tutti_step *step, char *buf);

#endif
