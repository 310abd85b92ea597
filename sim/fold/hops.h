/* The hops that ring phases are made of: the connection of every rank to the next on its ring, for
 * each way to go around rings (a family of hops). */
#ifndef TUTTI_SIM_FOLD_HOPS_H
#define TUTTI_SIM_FOLD_HOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/schedule.h"
#include "runtime/units.h"
#include "sim/play/wires.h"
#include "sim/sim.h"

struct tutti_err;
struct tutti_topo;

enum { TUTTI_HOP_FAMILIES_MAX = 64 };

struct tutti_hop_family {
    struct tutti_ring_phase way; /* size, stride, order and direction matter */
    uint32_t kind;               /* of all hops, if `kinds` is NULL */
    const uint32_t *kinds;       /* [rank that sends] */
    uint32_t *found;             /* the same whatever the protocol; NULL: all are of found_kind */
    uint32_t found_kind;
    uint32_t *own_order;  /* a copy of the way's, or NULL */
    uint32_t *links;      /* those that a message occupies, by rank; NULL: not kept */
    uint32_t *link_first; /* [rank + 1]; NULL: one a rank */
    uint32_t lane_count;  /* that go this way */
    uint32_t lane;        /* the last of them */
};

struct tutti_hops {
    uint32_t family_count;
    struct tutti_hop_family families[TUTTI_HOP_FAMILIES_MAX];
    struct tutti_route_figures *figures; /* [kind]: what was found, whatever the protocol */
    struct tutti_route_weight *kinds;    /* what matters of a route: latency and pace */
    uint32_t *same;                      /* [kind]: the first that weighs the same */
    uint32_t kind_count;
    uint32_t kind_capacity;
    uint32_t *table; /* [table_size] kind + 1 by hash, or 0 */
    uint32_t table_size;
    const struct tutti_topo *topo; /* where all kinds have been found, else NULL */
    enum tutti_model model;        /* with which */
    bool on_axes;                  /* of grids: all links are of one hop each */
    bool has_links;
    bool found_exclusive; /* before rates are looked at */
    bool found_shares;
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
/* The same, of kinds alone: what is shared is not looked at. */
int tutti_hops_find_kinds(struct tutti_hops *hops, const struct tutti_sim_opts *opts,
                          struct tutti_err *err);
void tutti_hops_done(struct tutti_hops *hops);

/* Weighs the kinds that have been found anew. 0 or -TUTTI_ENOMEM. */
int tutti_hops_weigh(struct tutti_hops *hops, const struct tutti_protocol *protocol);

/* What was found of the same families on the same machine goes from `known` to `hops`, all families
 * of which have been added, so that tutti_hops_find() need not look for it; and back, for the next
 * protocol, to be given up by tutti_hops_done(). 0 or -TUTTI_ENOMEM. */
int tutti_hops_take(struct tutti_hops *hops, const struct tutti_topo *topo,
                    struct tutti_hops *known);
void tutti_hops_give(struct tutti_hops *hops, struct tutti_hops *known);

/* For each family that was given the best weight that any of its hops has under a protocol, in each
 * figure by itself. -TUTTI_ELACK: nothing was given. */
int tutti_hops_best(struct tutti_hops *known, const struct tutti_protocol *protocol,
                    struct tutti_route_weight best[TUTTI_HOP_FAMILIES_MAX]);

/* Finds the family of a phase; false: there is none. */
bool tutti_hops_family(const struct tutti_hops *known, const struct tutti_ring_phase *phase,
                       uint32_t *ret);

/* How long a message keeps a connection of this pace, if links are its own. */
tutti_ps tutti_hop_busy_ps(const struct tutti_sim_opts *opts, struct tutti_pace pace,
                           uint64_t payload);

#endif
