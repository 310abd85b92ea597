/* Transfers between hosts that share their network cards max-min fairly. */
#ifndef TUTTI_SIM_SERVERS_SHARING_H
#define TUTTI_SIM_SERVERS_SHARING_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/units.h"

struct tutti_arena;

/* A transfer under way. */
struct card_flow {
    uint32_t worker;
    uint32_t from; /* hosts */
    uint32_t to;
    uint32_t next[2]; /* of those on the same card: out of `from`, into `to` */
    double left_bytes;
    double bytes_per_s;
};

struct cards {
    uint32_t host_count;
    double host_bytes_per_s;
    struct card_flow *flow;
    uint32_t flow_count;
    uint32_t flow_limit;
    /* Of each host first the way out, then the way in: [2 * host_count]. */
    double *left;       /* rate not yet given away */
    uint32_t *open;     /* transfers that have no rate yet */
    uint32_t *first;    /* the first of its transfers */
    double *used_bytes; /* that went over it so far */
};

/* 0, or -TUTTI_ENOMEM; all memory is the arena's. */
int tutti_cards_init(struct cards *cards, struct tutti_arena *arena, uint32_t host_count,
                     uint64_t host_bytes_per_s, uint32_t flow_limit);
void tutti_cards_add(struct cards *cards, uint32_t worker, uint32_t from, uint32_t to,
                     uint64_t bytes);
void tutti_cards_drop(struct cards *cards, uint32_t worker); /* all of a worker's */
/* Gives every transfer its rate: the most loaded card first, in equal parts. Takes time with the
 * number of transfers, and with the square of the cards in use. */
void tutti_cards_share(struct cards *cards);
/* When the next transfer ends, from now; INT64_MAX: there is none. */
tutti_ps tutti_cards_next(const struct cards *cards);
/* Time goes on; true: a transfer has ended. Those that are over stay, with nothing left. */
bool tutti_cards_advance(struct cards *cards, tutti_ps by_ps);

#endif
