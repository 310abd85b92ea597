/* Sets of ranks, each kept once: equal sets are the same pointer. */
#ifndef TUTTI_RUNTIME_SCHEDULE_SETS_H
#define TUTTI_RUNTIME_SCHEDULE_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ranks as sorted, separate, half-open runs: an arc of a ring is one or two of them. */
struct tutti_rank_run {
    uint32_t first;
    uint32_t end;
};

struct tutti_rank_set {
    const struct tutti_rank_set *next; /* in its bucket */
    uint64_t hash;
    uint32_t run_count;
    struct tutti_rank_run runs[];
};

struct tutti_rank_sets; /* the pool */

struct tutti_rank_sets *tutti_rank_sets_new(void); /* NULL: no memory */
void tutti_rank_sets_free(struct tutti_rank_sets *sets);

/* The set {first, ..., end - 1}; NULL: no memory. */
const struct tutti_rank_set *tutti_rank_sets_range(struct tutti_rank_sets *sets, uint32_t first,
                                                   uint32_t end);
/* The union; NULL: no memory. */
const struct tutti_rank_set *tutti_rank_sets_join(struct tutti_rank_sets *sets,
                                                  const struct tutti_rank_set *a,
                                                  const struct tutti_rank_set *b);

/* Whether a and b share a rank; the lowest goes to *ret_rank. */
bool tutti_rank_set_meet(const struct tutti_rank_set *a, const struct tutti_rank_set *b,
                         uint32_t *ret_rank);
/* Whether a holds a rank that b does not; the lowest goes to *ret_rank. */
bool tutti_rank_set_beyond(const struct tutti_rank_set *a, const struct tutti_rank_set *b,
                           uint32_t *ret_rank);

#endif
