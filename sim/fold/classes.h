/* Which ranks behave alike: the coarsest classes of ranks that are connected alike, to ranks that
 * are alike. */
#ifndef TUTTI_SIM_FOLD_CLASSES_H
#define TUTTI_SIM_FOLD_CLASSES_H

#include <stdint.h>

#include "runtime/schedule.h"
#include "runtime/units.h"
#include "sim/protocol.h"

struct tutti_err;
struct tutti_sim_opts;

enum { TUTTI_FOLD_CLASSES_MAX = 256, TUTTI_FOLD_ROUNDS_MAX = 64, TUTTI_FOLD_WIRES_MAX = 256 };

/* What matters of the route from a rank to a partner. */
struct tutti_wire_kind {
    tutti_ps latency_ps;
    uint64_t bytes_per_s; /* of the narrowest link */
    struct tutti_pace pace;
    uint32_t egress; /* lowest wire of the rank that has the same first link */
};

/* A wire of a rank is one partner of one lane; all ranks have as many, in the same order: lane by
 * lane. */
struct tutti_classes {
    uint32_t wire_count;                           /* of a rank */
    uint32_t wire_first[TUTTI_FOLD_WIRES_MAX + 1]; /* [lane]: its first wire; [lane_count]: all */
    uint32_t kind_count;
    struct tutti_wire_kind *kinds;
    uint16_t *rank_kinds; /* [rank * wire_count + wire] */
    uint32_t *rank_class; /* [rank] */
    uint32_t class_count;
    uint32_t first[TUTTI_FOLD_CLASSES_MAX]; /* the lowest rank of a class, which stands for it */
    uint32_t size[TUTTI_FOLD_CLASSES_MAX];
};

/* Finds them; -TUTTI_ELACK and why if there are none worth it, or they are not known. */
int tutti_classes_find(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                       struct tutti_classes *ret, struct tutti_err *err);
void tutti_classes_done(struct tutti_classes *classes);

#endif
