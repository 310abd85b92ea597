/* Which wires make an island, and the rates they drain at; see island.h.
 *
 * Rates depend on which wires of an island drain, on nothing else: so they are kept for each such
 * set that is met. Where all wires go over the same links, how many drain is enough; else, where
 * there are few, each set has its place; else it is parts of sets that are kept, those whose wires
 * meet, and of them those asked for last. Islands that are alike, as hosts are, share them.
 *
 * On nothing else, that is, in whole numbers. As doubles they may differ in the last bit by what
 * drained before, for flows keep the rates they had (sim/net/maxmin_near.c), unless all sums are
 * exact, as they are of multiples of a power of two; or unless there is but one share to work out.
 * So a play that meets other rates is given up. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/fold/island.h"
#include "sim/net/net.h"
#include "sim/protocol.h"
#include "sim/sim.h"

enum {
    WIRES_FEW = 10, /* all their sets have a place */
    PLACES_OF_MANY = 4096,
    RATES_MAX = 1 << 22,
    FRACTION = 1024,      /* of a byte per second: exact rates are multiples of it */
    ALIKE_LOOKED_AT = 16, /* islands before, of which one may be alike */
};

#define NONE UINT32_MAX

/* ---- finding them ---------------------------------------------------------------------------- */

static uint32_t root_of(uint32_t *parent, uint32_t wire)
{
    while (parent[wire] != wire) {
        parent[wire] = parent[parent[wire]];
        wire = parent[wire];
    }
    return wire;
}

/* Wires that meet on a link get one root, the first of them. */
static void join_wires(const struct tutti_quotient *quotient, uint32_t *parent, uint32_t *user)
{
    for (uint32_t i = 0; i < quotient->link_count; i++)
        user[i] = NONE;
    for (uint32_t i = 0; i < quotient->wire_count; i++) {
        const struct tutti_quotient_wire *wire = &quotient->wires[i];

        parent[i] = i;
        for (uint32_t k = wire->way_first; k < wire->way_first + wire->way_count; k++) {
            uint32_t link = quotient->ways[k].link;
            uint32_t a = root_of(parent, i);
            uint32_t b = user[link] == NONE ? a : root_of(parent, user[link]);

            parent[a > b ? a : b] = a > b ? b : a;
            user[link] = i;
        }
    }
}

/* Numbers the islands in the order of their first wires, and counts their wires. */
static int count_wires(struct tutti_islands *islands, uint32_t *parent, struct tutti_err *err)
{
    uint32_t count = islands->wire_count;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t root = root_of(parent, i);

        assert(root <= i);
        islands->wires[i].island =
            root == i ? islands->island_count++ : islands->wires[root].island;
        if (++islands->islands[islands->wires[i].island].count > TUTTI_ISLAND_WIRES_MAX)
            return tutti_fail(err, TUTTI_ELACK, "more than %d connections share links",
                              TUTTI_ISLAND_WIRES_MAX);
    }
    for (uint32_t i = 1; i < islands->island_count; i++)
        islands->islands[i].first = islands->islands[i - 1].first + islands->islands[i - 1].count;
    return 0;
}

/* The wires of the quotient by their numbers here. */
static void number_wires(struct tutti_islands *islands, uint32_t *quotient_wire)
{
    for (uint32_t i = 0; i < islands->island_count; i++)
        islands->islands[i].count = 0;
    for (uint32_t i = 0; i < islands->wire_count; i++) {
        struct tutti_island *island = &islands->islands[islands->wires[i].island];

        islands->number[i] = island->first + island->count++;
        quotient_wire[islands->number[i]] = i;
    }
    for (uint32_t i = 0; i < islands->island_count; i++) {
        const struct tutti_island *island = &islands->islands[i];

        for (uint32_t id = island->first; id < island->first + island->count; id++)
            islands->wires[id].island = i;
    }
}

/* ---- alike ----------------------------------------------------------------------------------- */

/* What alikeness is seen by: links are numbered in each island in the order in which its wires come
 * to them. */
struct look {
    const struct tutti_quotient *quotient;
    const uint32_t *quotient_wire;
    const uint64_t *rates; /* [link] bytes per second */
    uint32_t *link_number;
};

static void number_links(const struct tutti_islands *islands, const struct look *look)
{
    for (uint32_t i = 0; i < look->quotient->link_count; i++)
        look->link_number[i] = NONE;
    for (uint32_t i = 0; i < islands->island_count; i++) {
        const struct tutti_island *island = &islands->islands[i];
        uint32_t count = 0;

        for (uint32_t id = island->first; id < island->first + island->count; id++) {
            const struct tutti_quotient_wire *wire =
                &look->quotient->wires[look->quotient_wire[id]];

            for (uint32_t k = wire->way_first; k < wire->way_first + wire->way_count; k++) {
                uint32_t *number = &look->link_number[look->quotient->ways[k].link];

                *number = *number == NONE ? count++ : *number;
            }
        }
    }
}

static bool is_alike(const struct look *look, const struct tutti_island *a,
                     const struct tutti_island *b)
{
    const struct tutti_quotient *quotient = look->quotient;

    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        const struct tutti_quotient_wire *x = &quotient->wires[look->quotient_wire[a->first + i]];
        const struct tutti_quotient_wire *y = &quotient->wires[look->quotient_wire[b->first + i]];

        if (x->way_count != y->way_count || x->hop != y->hop)
            return false;
        for (uint32_t k = 0; k < x->way_count; k++) {
            const struct tutti_quotient_way *p = &quotient->ways[x->way_first + k];
            const struct tutti_quotient_way *q = &quotient->ways[y->way_first + k];

            if (look->link_number[p->link] != look->link_number[q->link] ||
                p->weight != q->weight || look->rates[p->link] != look->rates[q->link])
                return false;
        }
    }
    return true;
}

/* Do all wires of an island go over the same links? */
static bool is_one_way(const struct look *look, const struct tutti_island *island)
{
    const struct tutti_quotient_wire *first =
        &look->quotient->wires[look->quotient_wire[island->first]];

    for (uint32_t id = island->first + 1; id < island->first + island->count; id++) {
        const struct tutti_quotient_wire *wire = &look->quotient->wires[look->quotient_wire[id]];

        if (wire->way_count != first->way_count || wire->hop != first->hop ||
            memcmp(&look->quotient->ways[wire->way_first], &look->quotient->ways[first->way_first],
                   wire->way_count * sizeof(*look->quotient->ways)) != 0)
            return false;
    }
    return true;
}

/* Which wires each meets on a link. */
static void note_meetings(struct tutti_islands *islands, const struct look *look,
                          const struct tutti_island *island)
{
    const struct tutti_quotient *quotient = look->quotient;

    for (uint32_t id = island->first; id < island->first + island->count; id++) {
        const struct tutti_quotient_wire *a = &quotient->wires[look->quotient_wire[id]];

        for (uint32_t other = island->first; other < island->first + island->count; other++) {
            const struct tutti_quotient_wire *b = &quotient->wires[look->quotient_wire[other]];
            bool meets = false;

            for (uint32_t i = 0; i < a->way_count && !meets; i++) {
                for (uint32_t k = 0; k < b->way_count && !meets; k++)
                    meets = quotient->ways[a->way_first + i].link ==
                            quotient->ways[b->way_first + k].link;
            }
            islands->wires[id].meets |= (uint64_t)meets << (other - island->first);
        }
    }
}

/* How the rates of an island are kept. */
static void choose_places(struct tutti_islands *islands, const struct look *look,
                          struct tutti_island *island)
{
    island->by = TUTTI_ISLAND_BY_PART;
    if (is_one_way(look, island))
        island->by = TUTTI_ISLAND_BY_COUNT;
    else if (island->count <= WIRES_FEW)
        island->by = TUTTI_ISLAND_BY_SET;
    else
        note_meetings(islands, look, island);
}

static uint32_t places_of(const struct tutti_island *island, uint32_t places_of_many)
{
    if (island->by == TUTTI_ISLAND_BY_COUNT)
        return island->count + 1;
    return island->by == TUTTI_ISLAND_BY_SET ? UINT32_C(1) << island->count : places_of_many;
}

/* Gives each island its places, with others if alike[] says so; returns how many rates that is. */
static uint64_t lay_places(struct tutti_islands *islands, const uint32_t *alike,
                           uint32_t places_of_many, uint64_t *ret_key_count)
{
    uint64_t key_count = 0;
    uint64_t rate_count = 0;

    for (uint32_t i = 0; i < islands->island_count; i++) {
        struct tutti_island *island = &islands->islands[i];
        uint32_t places = places_of(island, places_of_many);

        island->place_count = places;
        island->key_first = alike[i] < i ? islands->islands[alike[i]].key_first : key_count;
        island->rates_first = alike[i] < i ? islands->islands[alike[i]].rates_first : rate_count;
        key_count += alike[i] < i ? 0 : places;
        rate_count += alike[i] < i ? 0 : (uint64_t)places * island->count;
    }
    *ret_key_count = key_count;
    return rate_count;
}

static int lay_rates(struct tutti_islands *islands, const struct look *look)
{
    uint32_t *alike = calloc(islands->island_count, sizeof(*alike));
    uint32_t places_of_many = PLACES_OF_MANY;
    uint64_t key_count = 0;
    uint64_t rate_count;

    if (alike == NULL)
        return -TUTTI_ENOMEM;
    for (uint32_t i = 0; i < islands->island_count; i++) {
        alike[i] = i;
        for (uint32_t k = i; k > 0 && i - k < ALIKE_LOOKED_AT && alike[i] == i; k--)
            alike[i] = is_alike(look, &islands->islands[k - 1], &islands->islands[i]) ? k - 1 : i;
        choose_places(islands, look, &islands->islands[i]);
    }
    rate_count = lay_places(islands, alike, places_of_many, &key_count);
    while (rate_count > RATES_MAX && places_of_many > 1) {
        places_of_many /= 2;
        rate_count = lay_places(islands, alike, places_of_many, &key_count);
    }
    free(alike);
    islands->keys = calloc((size_t)key_count, sizeof(*islands->keys));
    islands->rates = calloc((size_t)rate_count, sizeof(*islands->rates));
    return islands->keys == NULL || islands->rates == NULL ? -TUTTI_ENOMEM : 0;
}

/* ---- rates ----------------------------------------------------------------------------------- */

/* What its pace allows, or 0 if some link is no faster; as sim/net/fair.c has it. */
static uint64_t rate_limit(const struct tutti_islands *islands, const struct look *look,
                           const struct tutti_quotient_wire *wire)
{
    uint64_t limit = tutti_protocol_pace(islands->opts->protocol, wire->hop).bytes_per_s;

    for (uint32_t k = wire->way_first; k < wire->way_first + wire->way_count; k++) {
        if (!((double)limit < (double)look->rates[look->quotient->ways[k].link]))
            return 0;
    }
    return limit;
}

static int add_flows(struct tutti_islands *islands, const struct look *look)
{
    const struct tutti_quotient *quotient = look->quotient;
    uint32_t *links;
    uint32_t most = 1;
    int status = tutti_maxmin_init(&islands->maxmin, look->rates, quotient->link_count);

    for (uint32_t i = 0; i < quotient->wire_count; i++)
        most = quotient->wires[i].way_count > most ? quotient->wires[i].way_count : most;
    links = calloc(2 * (size_t)most, sizeof(*links));
    if (links == NULL)
        return -TUTTI_ENOMEM;
    for (uint32_t id = 0; id < islands->wire_count && status == 0; id++) {
        const struct tutti_quotient_wire *wire = &quotient->wires[look->quotient_wire[id]];

        for (uint32_t k = 0; k < wire->way_count; k++) {
            links[k] = quotient->ways[wire->way_first + k].link;
            links[most + k] = quotient->ways[wire->way_first + k].weight;
        }
        status = tutti_maxmin_add(&islands->maxmin, links, links + most, wire->way_count,
                                  rate_limit(islands, look, wire));
    }
    free(links);
    return status;
}

/* Sums of such rates are exact. */
static bool is_exact(double rate)
{
    double fractions = rate * FRACTION;

    return fractions < 0x1p53 && !((double)(int64_t)fractions < fractions);
}

/* Solves for some wires of an island, alone. */
static void solve(struct tutti_islands *islands, const struct tutti_island *island, uint64_t set,
                  double *rates)
{
    double rate = 0;

    for (uint64_t left = set; left != 0; left &= left - 1)
        tutti_maxmin_enter(&islands->maxmin, island->first + (uint32_t)__builtin_ctzll(left));
    tutti_maxmin_solve(&islands->maxmin);
    for (uint64_t left = set; left != 0; left &= left - 1) {
        uint32_t place = (uint32_t)__builtin_ctzll(left);

        rates[place] = rate = islands->maxmin.flows[island->first + place].rate;
        tutti_maxmin_leave(&islands->maxmin, island->first + place);
        islands->vague |= island->by != TUTTI_ISLAND_BY_COUNT && !is_exact(rate);
    }
    for (uint32_t i = 0; i < island->count && island->by == TUTTI_ISLAND_BY_COUNT; i++)
        rates[i] = rate;
}

const double *tutti_island_rates(struct tutti_islands *islands, const struct tutti_island *island,
                                 uint64_t set)
{
    uint64_t key = island->by == TUTTI_ISLAND_BY_COUNT ? (uint64_t)__builtin_popcountll(set) : set;
    uint64_t place = island->by == TUTTI_ISLAND_BY_PART
                         ? (key * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (island->place_count - 1)
                         : key;
    double *rates = &islands->rates[island->rates_first + place * island->count];

    assert(place < island->place_count);
    if (islands->keys[island->key_first + place] != key) {
        islands->keys[island->key_first + place] = key;
        solve(islands, island, set, rates);
    }
    return rates;
}

int tutti_islands_find(struct tutti_islands *islands, struct tutti_err *err)
{
    const struct tutti_quotient *quotient = islands->quotient;
    size_t links = (size_t)quotient->link_count + 1;
    uint32_t *places = calloc(links + islands->wire_count, sizeof(*places));
    uint64_t *rates = calloc(links, sizeof(*rates));
    struct look look = {.quotient = quotient, .rates = rates};
    int status;

    if (places == NULL || rates == NULL) {
        free(places);
        free(rates);
        return tutti_nomem(err);
    }
    for (uint32_t i = 0; i < quotient->link_count; i++)
        rates[i] = tutti_quotient_rate(quotient, islands->opts->protocol, i);
    look.link_number = places; /* and before that, the last wire met on each link */
    look.quotient_wire = places + links;
    join_wires(quotient, places + links, places);
    status = count_wires(islands, places + links, err);
    if (status == 0) {
        number_wires(islands, places + links);
        number_links(islands, &look);
        status = lay_rates(islands, &look);
        if (status == 0)
            status = add_flows(islands, &look);
        if (status < 0)
            status = tutti_nomem(err);
    }
    free(places);
    free(rates);
    return status;
}
