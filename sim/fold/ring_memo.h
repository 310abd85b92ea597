/* What rings have come to, so that rings that are alike are gone through once. */
#ifndef TUTTI_SIM_FOLD_RING_MEMO_H
#define TUTTI_SIM_FOLD_RING_MEMO_H

#include <stdint.h>

#include "runtime/schedule.h"
#include "runtime/units.h"

/* A ring: a phase, the kinds of its hops, and when its ranks begin, the first of them at 0. */
struct tutti_ring_key {
    const struct tutti_ring_phase *phase; /* how long it is, and its messages */
    const uint32_t *kinds;                /* [size] */
    const tutti_ps *ready_ps;             /* [size] */
};

struct tutti_ring_memo_entry;

/* Keeps what it has memory for, and forgets nothing. Rings are compared in full. */
struct tutti_ring_memo {
    struct tutti_ring_memo_entry *entries;
    uint32_t entry_count;
    uint32_t entry_capacity;
    uint32_t *table; /* [table_size] entry + 1 by hash, or 0 */
    uint32_t table_size;
    tutti_ps *times; /* of all entries: ready, then finish */
    uint32_t time_count;
    uint32_t time_capacity;
    uint32_t *kinds;
    uint32_t kind_count;
    uint32_t kind_capacity;
};

/* The finish_ps [size] of a ring that was kept, valid until the next is kept, or NULL. */
const tutti_ps *tutti_ring_memo_find(const struct tutti_ring_memo *memo,
                                     const struct tutti_ring_key *key);
/* 0, also where there is no room left, or -TUTTI_ENOMEM. */
int tutti_ring_memo_keep(struct tutti_ring_memo *memo, const struct tutti_ring_key *key,
                         const tutti_ps *finish_ps);
void tutti_ring_memo_done(struct tutti_ring_memo *memo);

#endif
