/* The hops that ring phases are made of: the connection of every rank to the next on its ring, for
 * each way to go around rings (a family of hops). */
#ifndef TUTTI_SIM_FOLD_HOPS_H
#define TUTTI_SIM_FOLD_HOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/schedule.h"
#include "runtime/units.h"
#include "sim/play/wires.h"

struct tutti_err;
struct tutti_sim_opts;

enum { TUTTI_HOP_FAMILIES_MAX = 64 };

struct tutti_hop_family {
    struct tutti_ring_phase way; /* size, stride, order and direction matter */
    uint32_t kind;               /* of all hops, if `kinds` is NULL */
    uint32_t *kinds;             /* [rank that sends] */
    uint32_t *links;             /* those that a message occupies, by rank; NULL: not kept */
    uint32_t *link_first;        /* [rank + 1]; NULL: one a rank */
    uint32_t lane_count;         /* that go this way */
    uint32_t lane;               /* the last of them */
};

struct tutti_hops {
    uint32_t family_count;
    struct tutti_hop_family families[TUTTI_HOP_FAMILIES_MAX];
    struct tutti_route_weight *kinds; /* what matters of a route: latency and pace */
    uint32_t kind_count;
    uint32_t kind_capacity;
    uint32_t *table; /* [table_size] kind + 1 by hash, or 0 */
    uint32_t table_size;
    bool exclusive; /* no link serves two families that could hold each other up */
    bool shares;    /* two hops of a family share a link that has no room for all it serves */
    bool has_room;  /* nor two lanes: shared links have room for all that they serve, at once */
};

/* The family of a phase of a lane, added if it is new; lanes one after another. -TUTTI_ELACK: there
 * are too many. */
int tutti_hops_add(struct tutti_hops *hops, uint32_t lane, const struct tutti_ring_phase *phase,
                   uint32_t *ret, struct tutti_err *err);

/* Finds the kinds of all hops of all families, and, if asked to, keeps their links: of a message
 * under alphabeta the first, under fair all. -TUTTI_ELACK where two hops of a family share a link
 * without room for all that it serves; then too, if `shares` says that it is that, all kinds have
 * been found. */
int tutti_hops_find(struct tutti_hops *hops, const struct tutti_sim_opts *opts, bool keep_links,
                    struct tutti_err *err);
void tutti_hops_done(struct tutti_hops *hops);

/* How long a message keeps a connection of this pace, if links are its own. */
tutti_ps tutti_hop_busy_ps(const struct tutti_sim_opts *opts, struct tutti_pace pace,
                           uint64_t payload);

#endif
