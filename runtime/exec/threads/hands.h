/* Hands: threads that help one thread which plays several ranks (ensemble.h) to move and add bytes.
 * What is due is put on a list, and done before anybody is told that it has been: a list has what
 * can be done at one time, so only chores of the same rank stay in their order.
 * Private to runtime/exec/threads. */
#ifndef TUTTI_RUNTIME_EXEC_THREADS_HANDS_H
#define TUTTI_RUNTIME_EXEC_THREADS_HANDS_H

#include <stdbool.h>
#include <stdint.h>

struct tutti_err;
struct tutti_hall;
struct tutti_hands;
struct tutti_spread;

/* `count` threads beside the caller's, of which fewer may start; `hall` (borrowed) has the clock.
 * All that follows is for one thread alone. */
int tutti_hands_open(const struct tutti_hall *hall, uint32_t rank_count, uint32_t count,
                     struct tutti_hands **ret, struct tutti_err *err);
void tutti_hands_close(struct tutti_hands *hands); /* NULL: does nothing */

/* On the list of a rank, counted from 0: as memmove, or, if `streams`, tutti_copy_stream. */
void tutti_hands_copy(struct tutti_hands *hands, uint32_t rank, void *dst, const void *src,
                      uint64_t bytes, bool streams);
/* Likewise as tutti_reduce_spread; the lists of operands are copied. */
void tutti_hands_reduce(struct tutti_hands *hands, uint32_t rank,
                        const struct tutti_spread *spread);
/* Does all that is on the list. */
void tutti_hands_settle(struct tutti_hands *hands);

#endif
