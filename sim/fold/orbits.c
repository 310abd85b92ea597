/* Orbits by the places on axes; see orbits.h. Two places on an axis may be exchanged if whatever
 * lies at one has the same colours as what lies at the other; then any permutation of places that
 * may be exchanged, on either axis, keeps colours, links and routes. */
#include "sim/fold/orbits.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/status.h"

#define NONE UINT32_MAX

static uint32_t rank_of(const struct tutti_orbits *orbits, uint32_t x0, uint32_t x1, uint32_t kind)
{
    return orbits->rank_at[(x1 * orbits->lengths[0] + x0) * orbits->kinds + kind];
}

/* May places a and b of an axis be exchanged? */
static bool are_alike(const struct tutti_orbits *orbits, const uint32_t *colour, uint32_t axis,
                      uint32_t a, uint32_t b)
{
    for (uint32_t other = 0; other < orbits->lengths[1 - axis]; other++) {
        for (uint32_t kind = 0; kind < orbits->kinds; kind++) {
            uint32_t of_a =
                axis == 0 ? rank_of(orbits, a, other, kind) : rank_of(orbits, other, a, kind);
            uint32_t of_b =
                axis == 0 ? rank_of(orbits, b, other, kind) : rank_of(orbits, other, b, kind);

            if (colour[of_a] != colour[of_b])
                return false;
        }
    }
    return true;
}

static int classify_axis(struct tutti_orbits *orbits, const uint32_t *colour, uint32_t axis,
                         struct tutti_err *err)
{
    struct tutti_axis_classes *classes = &orbits->axes[axis];

    classes->of = calloc((size_t)orbits->lengths[axis] + 1, sizeof(*classes->of));
    if (classes->of == NULL)
        return tutti_nomem(err);
    for (uint32_t place = 0; place < orbits->lengths[axis]; place++) {
        uint32_t class = 0;

        while (class < classes->count &&
               !are_alike(orbits, colour, axis, classes->first[class], place))
            class ++;
        if (class == TUTTI_ORBIT_CLASSES_MAX)
            return tutti_fail(err, TUTTI_ELACK, "more than %d places of an axis are different",
                              TUTTI_ORBIT_CLASSES_MAX);
        if (class == classes->count) {
            classes->first[class] = place;
            classes->second[class] = NONE;
            classes->count++;
        } else if (classes->second[class] == NONE) {
            classes->second[class] = place;
        }
        classes->size[class]++;
        classes->of[place] = class;
    }
    return 0;
}

static int place_ranks(struct tutti_orbits *orbits, struct tutti_err *err)
{
    const struct tutti_topo *topo = orbits->topo;
    uint64_t places = (uint64_t)orbits->lengths[0] * orbits->lengths[1];

    assert(topo->rank_count % places == 0);
    orbits->kinds = (uint32_t)(topo->rank_count / places);
    orbits->rank_at = calloc(topo->rank_count, sizeof(*orbits->rank_at));
    if (orbits->rank_at == NULL)
        return tutti_nomem(err);
    for (uint32_t rank = 0; rank < topo->rank_count; rank++) {
        struct tutti_spot place = tutti_topo_rank_spot(topo, rank);

        assert(place.kind < orbits->kinds);
        orbits->rank_at[(place.along[1] * orbits->lengths[0] + place.along[0]) * orbits->kinds +
                        place.kind] = rank;
    }
    return 0;
}

int tutti_orbits_find(const struct tutti_topo *topo, struct tutti_known_axes *known,
                      const uint32_t *colour, struct tutti_orbits *ret, struct tutti_err *err)
{
    int status = 0;

    *ret = (struct tutti_orbits){.topo = topo};
    if (known->topo != topo) {
        known->exist = tutti_topo_axes(topo, known->lengths);
        known->topo = topo;
    }
    for (uint32_t axis = 0; axis < TUTTI_AXES; axis++)
        ret->lengths[axis] = known->lengths[axis];
    if (!known->exist)
        return tutti_fail(err, TUTTI_ELACK, "'%s' is not made of equal parts", topo->name);
    status = place_ranks(ret, err);
    for (uint32_t axis = 0; axis < TUTTI_AXES && status == 0; axis++)
        status = classify_axis(ret, colour, axis, err);
    if (status < 0) {
        tutti_orbits_done(ret);
        return status;
    }
    ret->class_count = ret->axes[0].count * ret->axes[1].count * ret->kinds;
    return 0;
}

void tutti_orbits_done(struct tutti_orbits *orbits)
{
    free(orbits->rank_at);
    for (uint32_t axis = 0; axis < TUTTI_AXES; axis++)
        free(orbits->axes[axis].of);
    *orbits = (struct tutti_orbits){.topo = NULL};
}

/* The class of a rank class along an axis. */
static uint32_t class_along(const struct tutti_orbits *orbits, uint32_t class, uint32_t axis)
{
    uint32_t places = class / orbits->kinds;

    return axis == 0 ? places % orbits->axes[0].count : places / orbits->axes[0].count;
}

uint32_t tutti_orbits_rank(const struct tutti_orbits *orbits, uint32_t class)
{
    return rank_of(orbits, orbits->axes[0].first[class_along(orbits, class, 0)],
                   orbits->axes[1].first[class_along(orbits, class, 1)], class % orbits->kinds);
}

bool tutti_orbits_pair(const struct tutti_orbits *orbits, uint32_t from, uint32_t to, uint32_t same,
                       struct tutti_orbit_pair *ret)
{
    uint32_t a[TUTTI_AXES];
    uint32_t b[TUTTI_AXES];
    uint64_t count = 1;

    for (uint32_t axis = 0; axis < TUTTI_AXES; axis++) {
        const struct tutti_axis_classes *classes = &orbits->axes[axis];
        uint32_t mine = class_along(orbits, from, axis);
        uint32_t its = class_along(orbits, to, axis);

        a[axis] = classes->first[mine];
        if ((same >> axis & 1) != 0) {
            b[axis] = a[axis];
            count *= mine == its ? classes->size[mine] : 0;
        } else {
            b[axis] = mine == its ? classes->second[its] : classes->first[its];
            count *= (uint64_t)classes->size[mine] * (classes->size[its] - (mine == its ? 1 : 0));
        }
    }
    if (count == 0 || (same == 3 && from % orbits->kinds == to % orbits->kinds))
        return false;
    *ret = (struct tutti_orbit_pair){
        .from = rank_of(orbits, a[0], a[1], from % orbits->kinds),
        .to = rank_of(orbits, b[0], b[1], to % orbits->kinds),
        .from_class = from,
        .to_class = to,
        .count = count,
    };
    return true;
}

uint64_t tutti_orbits_link(const struct tutti_orbits *orbits, uint32_t link, uint64_t *ret_count)
{
    struct tutti_spot place = tutti_topo_link_spot(orbits->topo, link);
    uint64_t number = place.kind;

    *ret_count = 1;
    for (uint32_t axis = 0; axis < TUTTI_AXES; axis++) {
        const struct tutti_axis_classes *classes = &orbits->axes[axis];
        uint32_t class =
            place.along[axis] == NONE ? TUTTI_ORBIT_CLASSES_MAX : classes->of[place.along[axis]];

        number = number * (TUTTI_ORBIT_CLASSES_MAX + 1) + class;
        if (class < TUTTI_ORBIT_CLASSES_MAX)
            *ret_count *= classes->size[class];
    }
    return number;
}
