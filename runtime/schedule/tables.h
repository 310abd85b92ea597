/* The tables of a schedule that steps refer to by number: axes, work, atomic regions. */
#ifndef TUTTI_RUNTIME_SCHEDULE_TABLES_H
#define TUTTI_RUNTIME_SCHEDULE_TABLES_H

#include "runtime/schedule.h"

struct tutti_arena;

/* That names are words, axes lie within the ranks, regions in the buffers of `desc`
 * (-TUTTI_EINVAL). */
int tutti_tables_valid(const struct tutti_schedule_desc *desc, struct tutti_err *err);

/* One word, printable, without '#': names go into the text form. */
int tutti_name_valid(const char *what, const char *name, struct tutti_err *err);

/* Puts copies of all tables into `desc`, from the arena. */
int tutti_tables_copy(struct tutti_schedule_desc *desc, struct tutti_arena *arena,
                      struct tutti_err *err);

/* Whether all of state [offset, offset + bytes) lies in one atomic region. */
bool tutti_is_atomic(const struct tutti_schedule *schedule, uint64_t offset, uint64_t bytes);

#endif
