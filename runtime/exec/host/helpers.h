/* Helpers: threads that help one thread which plays several ranks (multiplex.h) to move and add
 * bytes. What is due is put on a list, and done before anybody is told that it has been: a list has
 * what can be done at one time, so only chores of the same rank stay in their order. Private to
 * runtime/exec/host. */
#ifndef TUTTI_RUNTIME_EXEC_HOST_HELPERS_H
#define TUTTI_RUNTIME_EXEC_HOST_HELPERS_H

#include <stdbool.h>
#include <stdint.h>

struct tutti_err;
struct tutti_wait_set;
struct tutti_helpers;
struct tutti_spread;

/* `count` threads beside the caller's, of which fewer may start; `wait set` (borrowed) has the
 * clock. All that follows is for one thread alone. */
int tutti_helpers_open(const struct tutti_wait_set *wait_set, uint32_t rank_count, uint32_t count,
                       struct tutti_helpers **ret, struct tutti_err *err);
void tutti_helpers_close(struct tutti_helpers *helpers); /* NULL: does nothing */

/* On the list of a rank, counted from 0: as memmove, or, if `streams`, tutti_copy_stream. */
void tutti_helpers_copy(struct tutti_helpers *helpers, uint32_t rank, void *dst, const void *src,
                        uint64_t bytes, bool streams);
/* Likewise as tutti_reduce_spread; the lists of operands are copied. */
void tutti_helpers_reduce(struct tutti_helpers *helpers, uint32_t rank,
                          const struct tutti_spread *spread);
/* Does all that is on the list. */
void tutti_helpers_settle(struct tutti_helpers *helpers);

#endif
