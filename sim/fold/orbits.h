/* Classes of ranks and of pairs of ranks on a machine made of equal parts: orbits under the
 * permutations of places that keep what ranks have to say. */
#ifndef TUTTI_SIM_FOLD_ORBITS_H
#define TUTTI_SIM_FOLD_ORBITS_H

#include <stdbool.h>
#include <stdint.h>

#include "topo/topo.h"

struct tutti_err;

enum { TUTTI_ORBIT_COLOURS_MAX = 16, TUTTI_ORBIT_CLASSES_MAX = 64, TUTTI_ORBIT_WAY_MAX = 32 };

/* Places on an axis that are alike. */
struct tutti_axis_classes {
    uint32_t count;
    uint32_t *of;                             /* [place] */
    uint32_t first[TUTTI_ORBIT_CLASSES_MAX];  /* the lowest place of a class */
    uint32_t second[TUTTI_ORBIT_CLASSES_MAX]; /* another one, or UINT32_MAX */
    uint32_t size[TUTTI_ORBIT_CLASSES_MAX];
};

struct tutti_orbits {
    const struct tutti_topo *topo;
    uint32_t lengths[TUTTI_AXES];
    uint32_t kinds;    /* of ranks */
    uint32_t *rank_at; /* [(along[1] * lengths[0] + along[0]) * kinds + kind] */
    struct tutti_axis_classes axes[TUTTI_AXES];
    uint32_t class_count; /* of ranks: (class along 1 * classes along 0 + class along 0) * kinds +
                             kind */
};

/* All pairs of a sender and a receiver of an orbit, by one of them. */
struct tutti_orbit_pair {
    uint32_t from; /* ranks */
    uint32_t to;
    uint32_t from_class;
    uint32_t to_class;
    uint64_t count;
};

/* What tutti_topo_axes() says of a machine, which takes as long as all the rest. Begins zeroed. */
struct tutti_known_axes {
    const struct tutti_topo *topo; /* NULL: not asked yet */
    bool exist;
    uint32_t lengths[TUTTI_AXES];
};

/* `colour` [rank] must be kept, below TUTTI_ORBIT_COLOURS_MAX. -TUTTI_ELACK and why where the
 * machine has no axes, or too many different places. */
int tutti_orbits_find(const struct tutti_topo *topo, struct tutti_known_axes *known,
                      const uint32_t *colour, struct tutti_orbits *ret, struct tutti_err *err);
void tutti_orbits_done(struct tutti_orbits *orbits);

/* The orbit of the pairs from class `from` to class `to` whose places on axis 0 are the same
 * (`same` bit 0) or not, and on axis 1 (bit 1); false: there are no such pairs. */
bool tutti_orbits_pair(const struct tutti_orbits *orbits, uint32_t from, uint32_t to, uint32_t same,
                       struct tutti_orbit_pair *ret);

/* A number for the orbit of a link, and how many links it has. */
uint64_t tutti_orbits_link(const struct tutti_orbits *orbits, uint32_t link, uint64_t *ret_count);

/* Any rank of a class. */
uint32_t tutti_orbits_rank(const struct tutti_orbits *orbits, uint32_t class);

#endif
