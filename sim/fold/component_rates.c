/* Which wires make a component, and the rates they drain at; see component.h.
 *
 * Rates depend on which wires of a component drain, on nothing else: so they are kept for each such
 * set that is met. Where all wires go over the same links, how many drain is enough; else, where
 * there are few, each set has its place; else it is parts of sets that are kept, those whose wires
 * meet, and of them those asked for last. Components that are alike, as hosts are, share them.
 *
 * On nothing else, that is, in whole numbers. As doubles they may differ in the last bit by what
 * drained before, for flows keep the rates they had (sim/net/maxmin_near.c), unless all sums are
 * exact, as they are of multiples of a power of two; or unless there is but one share to work out.
 * So a play that meets other rates is given up. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/fold/component.h"
#include "sim/net/net.h"
#include "sim/protocol.h"
#include "sim/sim.h"

enum {
    WIRES_FEW = 10, /* all their sets have a place */
    PLACES_OF_MANY = 4096,
    RATES_MAX = 1 << 22,
    FRACTION = 1024,      /* of a byte per second: exact rates are multiples of it */
    ALIKE_LOOKED_AT = 16, /* components before, of which one may be alike */
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

/* Numbers the components in the order of their first wires, and counts their wires. */
static int count_wires(struct tutti_components *components, uint32_t *parent, struct tutti_err *err)
{
    uint32_t count = components->wire_count;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t root = root_of(parent, i);

        assert(root <= i);
        components->wires[i].component =
            root == i ? components->component_count++ : components->wires[root].component;
        if (++components->components[components->wires[i].component].count >
            TUTTI_COMPONENT_WIRES_MAX)
            return tutti_fail(err, TUTTI_ELACK, "more than %d connections share links",
                              TUTTI_COMPONENT_WIRES_MAX);
    }
    for (uint32_t i = 1; i < components->component_count; i++)
        components->components[i].first =
            components->components[i - 1].first + components->components[i - 1].count;
    return 0;
}

/* The wires of the quotient by their numbers here. */
static void number_wires(struct tutti_components *components, uint32_t *quotient_wire)
{
    for (uint32_t i = 0; i < components->component_count; i++)
        components->components[i].count = 0;
    for (uint32_t i = 0; i < components->wire_count; i++) {
        struct tutti_component *component = &components->components[components->wires[i].component];

        components->number[i] = component->first + component->count++;
        quotient_wire[components->number[i]] = i;
    }
    for (uint32_t i = 0; i < components->component_count; i++) {
        const struct tutti_component *component = &components->components[i];

        for (uint32_t id = component->first; id < component->first + component->count; id++)
            components->wires[id].component = i;
    }
}

/* ---- alike ----------------------------------------------------------------------------------- */

/* What alikeness is seen by: links are numbered in each component in the order in which its wires
 * come to them. */
struct look {
    const struct tutti_quotient *quotient;
    const uint32_t *quotient_wire;
    const uint64_t *rates; /* [link] bytes per second */
    uint32_t *link_number;
};

static void number_links(const struct tutti_components *components, const struct look *look)
{
    for (uint32_t i = 0; i < look->quotient->link_count; i++)
        look->link_number[i] = NONE;
    for (uint32_t i = 0; i < components->component_count; i++) {
        const struct tutti_component *component = &components->components[i];
        uint32_t count = 0;

        for (uint32_t id = component->first; id < component->first + component->count; id++) {
            const struct tutti_quotient_wire *wire =
                &look->quotient->wires[look->quotient_wire[id]];

            for (uint32_t k = wire->way_first; k < wire->way_first + wire->way_count; k++) {
                uint32_t *number = &look->link_number[look->quotient->ways[k].link];

                *number = *number == NONE ? count++ : *number;
            }
        }
    }
}

static bool is_alike(const struct look *look, const struct tutti_component *a,
                     const struct tutti_component *b)
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

/* Do all wires of a component go over the same links? */
static bool is_one_way(const struct look *look, const struct tutti_component *component)
{
    const struct tutti_quotient_wire *first =
        &look->quotient->wires[look->quotient_wire[component->first]];

    for (uint32_t id = component->first + 1; id < component->first + component->count; id++) {
        const struct tutti_quotient_wire *wire = &look->quotient->wires[look->quotient_wire[id]];

        if (wire->way_count != first->way_count || wire->hop != first->hop ||
            memcmp(&look->quotient->ways[wire->way_first], &look->quotient->ways[first->way_first],
                   wire->way_count * sizeof(*look->quotient->ways)) != 0)
            return false;
    }
    return true;
}

/* Which wires each meets on a link. */
static void note_meetings(struct tutti_components *components, const struct look *look,
                          const struct tutti_component *component)
{
    const struct tutti_quotient *quotient = look->quotient;

    for (uint32_t id = component->first; id < component->first + component->count; id++) {
        const struct tutti_quotient_wire *a = &quotient->wires[look->quotient_wire[id]];

        for (uint32_t other = component->first; other < component->first + component->count;
             other++) {
            const struct tutti_quotient_wire *b = &quotient->wires[look->quotient_wire[other]];
            bool meets = false;

            for (uint32_t i = 0; i < a->way_count && !meets; i++) {
                for (uint32_t k = 0; k < b->way_count && !meets; k++)
                    meets = quotient->ways[a->way_first + i].link ==
                            quotient->ways[b->way_first + k].link;
            }
            components->wires[id].meets |= (uint64_t)meets << (other - component->first);
        }
    }
}

/* How the rates of a component are kept. */
static void choose_places(struct tutti_components *components, const struct look *look,
                          struct tutti_component *component)
{
    component->by = TUTTI_COMPONENT_BY_PART;
    if (is_one_way(look, component))
        component->by = TUTTI_COMPONENT_BY_COUNT;
    else if (component->count <= WIRES_FEW)
        component->by = TUTTI_COMPONENT_BY_SET;
    else
        note_meetings(components, look, component);
}

static uint32_t places_of(const struct tutti_component *component, uint32_t places_of_many)
{
    if (component->by == TUTTI_COMPONENT_BY_COUNT)
        return component->count + 1;
    return component->by == TUTTI_COMPONENT_BY_SET ? UINT32_C(1) << component->count
                                                   : places_of_many;
}

/* Gives each component its places, with others if alike[] says so; returns how many rates that is.
 */
static uint64_t lay_places(struct tutti_components *components, const uint32_t *alike,
                           uint32_t places_of_many, uint64_t *ret_key_count)
{
    uint64_t key_count = 0;
    uint64_t rate_count = 0;

    for (uint32_t i = 0; i < components->component_count; i++) {
        struct tutti_component *component = &components->components[i];
        uint32_t places = places_of(component, places_of_many);

        component->place_count = places;
        component->key_first =
            alike[i] < i ? components->components[alike[i]].key_first : key_count;
        component->rates_first =
            alike[i] < i ? components->components[alike[i]].rates_first : rate_count;
        key_count += alike[i] < i ? 0 : places;
        rate_count += alike[i] < i ? 0 : (uint64_t)places * component->count;
    }
    *ret_key_count = key_count;
    return rate_count;
}

static int lay_rates(struct tutti_components *components, const struct look *look)
{
    uint32_t *alike = calloc(components->component_count, sizeof(*alike));
    uint32_t places_of_many = PLACES_OF_MANY;
    uint64_t key_count = 0;
    uint64_t rate_count;

    if (alike == NULL)
        return -TUTTI_ENOMEM;
    for (uint32_t i = 0; i < components->component_count; i++) {
        alike[i] = i;
        for (uint32_t k = i; k > 0 && i - k < ALIKE_LOOKED_AT && alike[i] == i; k--)
            alike[i] = is_alike(look, &components->components[k - 1], &components->components[i])
                           ? k - 1
                           : i;
        choose_places(components, look, &components->components[i]);
    }
    rate_count = lay_places(components, alike, places_of_many, &key_count);
    while (rate_count > RATES_MAX && places_of_many > 1) {
        places_of_many /= 2;
        rate_count = lay_places(components, alike, places_of_many, &key_count);
    }
    free(alike);
    components->keys = calloc((size_t)key_count, sizeof(*components->keys));
    components->rates = calloc((size_t)rate_count, sizeof(*components->rates));
    return components->keys == NULL || components->rates == NULL ? -TUTTI_ENOMEM : 0;
}

/* ---- rates ----------------------------------------------------------------------------------- */

/* What its pace allows, or 0 if some link is no faster; as sim/net/fair.c has it. */
static uint64_t rate_limit(const struct tutti_components *components, const struct look *look,
                           const struct tutti_quotient_wire *wire)
{
    uint64_t limit = tutti_protocol_pace(components->opts->protocol, wire->hop).bytes_per_s;

    for (uint32_t k = wire->way_first; k < wire->way_first + wire->way_count; k++) {
        if (!((double)limit < (double)look->rates[look->quotient->ways[k].link]))
            return 0;
    }
    return limit;
}

static int add_flows(struct tutti_components *components, const struct look *look)
{
    const struct tutti_quotient *quotient = look->quotient;
    uint32_t *links;
    uint32_t most = 1;
    int status = tutti_maxmin_init(&components->maxmin, look->rates, quotient->link_count);

    for (uint32_t i = 0; i < quotient->wire_count; i++)
        most = quotient->wires[i].way_count > most ? quotient->wires[i].way_count : most;
    links = calloc(2 * (size_t)most, sizeof(*links));
    if (links == NULL)
        return -TUTTI_ENOMEM;
    for (uint32_t id = 0; id < components->wire_count && status == 0; id++) {
        const struct tutti_quotient_wire *wire = &quotient->wires[look->quotient_wire[id]];

        for (uint32_t k = 0; k < wire->way_count; k++) {
            links[k] = quotient->ways[wire->way_first + k].link;
            links[most + k] = quotient->ways[wire->way_first + k].weight;
        }
        status = tutti_maxmin_add(&components->maxmin, links, links + most, wire->way_count,
                                  rate_limit(components, look, wire));
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

/* Solves for some wires of a component, alone. */
static void solve(struct tutti_components *components, const struct tutti_component *component,
                  uint64_t set, double *rates)
{
    double rate = 0;

    for (uint64_t left = set; left != 0; left &= left - 1)
        tutti_maxmin_enter(&components->maxmin, component->first + (uint32_t)__builtin_ctzll(left));
    tutti_maxmin_solve(&components->maxmin);
    for (uint64_t left = set; left != 0; left &= left - 1) {
        uint32_t place = (uint32_t)__builtin_ctzll(left);

        rates[place] = rate = components->maxmin.flows[component->first + place].rate;
        tutti_maxmin_leave(&components->maxmin, component->first + place);
        components->vague |= component->by != TUTTI_COMPONENT_BY_COUNT && !is_exact(rate);
    }
    for (uint32_t i = 0; i < component->count && component->by == TUTTI_COMPONENT_BY_COUNT; i++)
        rates[i] = rate;
}

const double *tutti_component_rates(struct tutti_components *components,
                                    const struct tutti_component *component, uint64_t set)
{
    uint64_t key =
        component->by == TUTTI_COMPONENT_BY_COUNT ? (uint64_t)__builtin_popcountll(set) : set;
    uint64_t place = component->by == TUTTI_COMPONENT_BY_PART
                         ? (key * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (component->place_count - 1)
                         : key;
    double *rates = &components->rates[component->rates_first + place * component->count];

    assert(place < component->place_count);
    if (components->keys[component->key_first + place] != key) {
        components->keys[component->key_first + place] = key;
        solve(components, component, set, rates);
    }
    return rates;
}

int tutti_components_find(struct tutti_components *components, struct tutti_err *err)
{
    const struct tutti_quotient *quotient = components->quotient;
    size_t links = (size_t)quotient->link_count + 1;
    uint32_t *places = calloc(links + components->wire_count, sizeof(*places));
    uint64_t *rates = calloc(links, sizeof(*rates));
    struct look look = {.quotient = quotient, .rates = rates};
    int status;

    if (places == NULL || rates == NULL) {
        free(places);
        free(rates);
        return tutti_nomem(err);
    }
    for (uint32_t i = 0; i < quotient->link_count; i++)
        rates[i] = tutti_quotient_rate(quotient, components->opts->protocol, i);
    look.link_number = places; /* and before that, the last wire met on each link */
    look.quotient_wire = places + links;
    join_wires(quotient, places + links, places);
    status = count_wires(components, places + links, err);
    if (status == 0) {
        number_wires(components, places + links);
        number_links(components, &look);
        status = lay_rates(components, &look);
        if (status == 0)
            status = add_flows(components, &look);
        if (status < 0)
            status = tutti_nomem(err);
    }
    free(places);
    free(rates);
    return status;
}
