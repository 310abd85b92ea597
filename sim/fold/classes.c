/* Colour refinement of ranks (the coarsest equitable partition: Paige and Tarjan 1987): ranks begin
 * in one class if their wires are of the same kinds, and stay together as long as their partners,
 * wire by wire, are in the same classes. All comparisons are of the things themselves; hashes only
 * say where to look.
 *
 * Price: ranks * wires for each round of refinement, and a route for each wire of each rank. */
#include "sim/fold/classes.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/net/net.h"
#include "sim/play/wires.h"
#include "sim/sim.h"
#include "topo/topo.h"

enum { TABLE_SIZE = 4 * TUTTI_FOLD_CLASSES_MAX, KINDS_MAX = 1024 };

/* What is at hand while classes are being found. */
struct search {
    const struct tutti_sim_opts *opts;
    const struct tutti_schedule *schedule;
    struct tutti_classes *classes;
    uint32_t *route;
    uint32_t kind_capacity;
    bool *is_taken;       /* fair: [link]: a connection has it to itself */
    uint32_t *next_class; /* [rank] */
    struct tutti_partners partners[TUTTI_FOLD_WIRES_MAX];
    struct tutti_partners others[TUTTI_FOLD_WIRES_MAX];
    uint32_t table[TABLE_SIZE]; /* class + 1 by hash, or 0 */
};

/* ---- wires ----------------------------------------------------------------------------------- */

/* The partners of a rank, lane after lane. */
static void list_partners(const struct search *search, uint32_t rank, struct tutti_partners *out)
{
    const struct tutti_schedule *schedule = search->schedule;
    const struct tutti_classes *classes = search->classes;

    for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
        uint32_t first = classes->wire_first[lane];
        uint32_t count = schedule->ops->partners(schedule, rank, lane, out + first,
                                                 classes->wire_first[lane + 1] - first);

        assert(count == classes->wire_first[lane + 1] - first);
    }
}

static int count_wires(struct search *search, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = search->schedule;
    struct tutti_classes *classes = search->classes;

    if (schedule->ops->partners == NULL)
        return tutti_fail(err, TUTTI_ELACK, "'%s' has programs that differ from rank to rank",
                          schedule->name);
    if (schedule->lane_count > TUTTI_FOLD_WIRES_MAX)
        return tutti_fail(err, TUTTI_ELACK, "%" PRIu32 " lanes are too many (at most %d)",
                          schedule->lane_count, TUTTI_FOLD_WIRES_MAX);
    for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
        uint32_t count = schedule->ops->partners(schedule, 0, lane, search->partners, 0);

        if (count == 0)
            return tutti_fail(err, TUTTI_ELACK,
                              "the data of '%s' cannot be cut into equal parts for %" PRIu32
                              " ranks",
                              schedule->name, schedule->rank_count);
        if (count > TUTTI_FOLD_WIRES_MAX - classes->wire_count)
            return tutti_fail(err, TUTTI_ELACK, "a rank has more than %d connections",
                              TUTTI_FOLD_WIRES_MAX);
        classes->wire_count += count;
        classes->wire_first[lane + 1] = classes->wire_count;
    }
    return 0;
}

static bool is_same_kind(const struct tutti_wire_kind *a, const struct tutti_wire_kind *b)
{
    return a->latency_ps == b->latency_ps && a->bytes_per_s == b->bytes_per_s &&
           a->pace.bytes_per_s == b->pace.bytes_per_s && a->pace.slice_ps == b->pace.slice_ps &&
           a->egress == b->egress;
}

/* The number of a kind; `guess` is where it was found last. */
static int find_kind(struct search *search, const struct tutti_wire_kind *kind, uint32_t guess,
                     uint16_t *ret, struct tutti_err *err)
{
    struct tutti_classes *classes = search->classes;
    uint32_t i = 0;

    if (guess < classes->kind_count && is_same_kind(&classes->kinds[guess], kind)) {
        *ret = (uint16_t)guess;
        return 0;
    }
    while (i < classes->kind_count && !is_same_kind(&classes->kinds[i], kind))
        i++;
    if (i == KINDS_MAX)
        return tutti_fail(err, TUTTI_ELACK, "there are more than %d kinds of connections",
                          KINDS_MAX);
    if (i == classes->kind_count) {
        if (tutti_grow(&classes->kinds, &search->kind_capacity, (uint64_t)i + 1,
                       sizeof(*classes->kinds)) < 0)
            return tutti_nomem(err);
        classes->kinds[classes->kind_count++] = *kind;
    }
    *ret = (uint16_t)i;
    return 0;
}

/* Under `fair` every link of a route has to serve this connection alone. */
static int take_links(struct search *search, uint32_t link_count, struct tutti_err *err)
{
    if (search->is_taken == NULL)
        return 0;
    for (uint32_t i = 0; i < link_count; i++) {
        bool *is_taken = &search->is_taken[search->route[i]];

        if (*is_taken)
            return tutti_fail(err, TUTTI_ELACK, "connections share links, which 'fair' divides");
        *is_taken = true;
    }
    return 0;
}

/* The kinds of all wires of a rank. Lanes often share partners: those are routed to once. */
static int classify_wires(struct search *search, uint32_t rank, struct tutti_err *err)
{
    const struct tutti_topo *topo = search->opts->topo;
    struct tutti_classes *classes = search->classes;
    uint16_t *kinds = &classes->rank_kinds[(size_t)rank * classes->wire_count];
    uint32_t egress[TUTTI_FOLD_WIRES_MAX];

    list_partners(search, rank, search->partners);
    for (uint32_t i = 0; i < classes->wire_count; i++) {
        uint32_t to = search->partners[i].to;
        struct tutti_wire_kind kind = {.egress = i};
        struct tutti_route_weight weight;
        uint32_t known = 0;
        uint32_t count;
        int status;

        while (known < i && search->partners[known].to != to)
            known++;
        if (known < i && search->is_taken == NULL) {
            kinds[i] = kinds[known];
            egress[i] = egress[known];
            continue;
        }
        count = tutti_topo_route(topo, rank, to, search->route, topo->node_count);
        if (count == 0 || rank == to)
            return tutti_fail(err, TUTTI_ELACK, "rank %" PRIu32 " cannot reach rank %" PRIu32, rank,
                              to);
        status = take_links(search, count, err);
        if (status < 0)
            return status;
        egress[i] = search->route[0];
        for (uint32_t k = 0; k < i && kind.egress == i; k++)
            kind.egress = egress[k] == egress[i] ? k : i;
        weight = tutti_route_weigh(topo, search->opts->protocol, search->route, count);
        kind.latency_ps = weight.latency_ps;
        kind.bytes_per_s = weight.bytes_per_s;
        kind.pace = weight.pace;
        status = find_kind(search, &kind, rank > 0 ? *(kinds + i - classes->wire_count) : 0,
                           &kinds[i], err);
        if (status < 0)
            return status;
    }
    return 0;
}

/* ---- refinement ------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* What tells ranks apart: at first the kinds of their wires alone, then also the classes of
 * themselves and of their partners (in search->partners). */
static uint64_t hash_of(const struct search *search, uint32_t rank, bool first)
{
    const struct tutti_classes *classes = search->classes;
    const uint16_t *kinds = &classes->rank_kinds[(size_t)rank * classes->wire_count];
    uint64_t hash = 0;

    if (!first)
        hash = mix(hash, classes->rank_class[rank]);
    for (uint32_t i = 0; i < classes->wire_count; i++) {
        hash = mix(hash, kinds[i]);
        if (first)
            continue;
        hash = mix(hash, classes->rank_class[search->partners[i].to]);
        hash = mix(hash, classes->rank_class[search->partners[i].from]);
    }
    return hash;
}

static bool are_alike(struct search *search, uint32_t rank, uint32_t other, bool first)
{
    const struct tutti_classes *classes = search->classes;
    const uint32_t *of = classes->rank_class;
    uint32_t count = classes->wire_count;

    if (memcmp(&classes->rank_kinds[(size_t)rank * count],
               &classes->rank_kinds[(size_t)other * count], count * sizeof(uint16_t)) != 0)
        return false;
    if (first)
        return true;
    list_partners(search, other, search->others);
    for (uint32_t i = 0; i < count; i++) {
        if (of[search->partners[i].to] != of[search->others[i].to] ||
            of[search->partners[i].from] != of[search->others[i].from])
            return false;
    }
    return of[rank] == of[other];
}

/* Sorts all ranks into new classes; the new number of classes, or a negative status. */
static int refine(struct search *search, bool first, struct tutti_err *err)
{
    struct tutti_classes *classes = search->classes;
    uint32_t found = 0;

    memset(search->table, 0, sizeof(search->table));
    for (uint32_t rank = 0; rank < search->schedule->rank_count; rank++) {
        uint64_t place;
        uint32_t *entry;

        if (!first)
            list_partners(search, rank, search->partners);
        place = hash_of(search, rank, first);
        entry = &search->table[place % TABLE_SIZE];
        while (*entry > 0 && !are_alike(search, rank, classes->first[*entry - 1], first))
            entry = &search->table[++place % TABLE_SIZE];
        if (*entry == 0) {
            if (found == TUTTI_FOLD_CLASSES_MAX)
                return tutti_fail(err, TUTTI_ELACK,
                                  "links make more than %d different ranks of the %" PRIu32, found,
                                  search->schedule->rank_count);
            classes->first[found] = rank;
            classes->size[found] = 0;
            *entry = ++found;
        }
        search->next_class[rank] = *entry - 1;
        classes->size[*entry - 1]++;
    }
    return (int)found;
}

static int refine_all(struct search *search, struct tutti_err *err)
{
    struct tutti_classes *classes = search->classes;
    uint32_t rank_count = search->schedule->rank_count;

    for (int round = 0; round < TUTTI_FOLD_ROUNDS_MAX; round++) {
        int found = refine(search, round == 0, err);
        uint32_t *old = classes->rank_class;
        bool same = round > 0 && (uint32_t)found == classes->class_count;

        if (found < 0)
            return found;
        classes->rank_class = search->next_class;
        search->next_class = old;
        classes->class_count = (uint32_t)found;
        if ((uint32_t)found > rank_count / 2)
            return tutti_fail(err, TUTTI_ELACK,
                              "links make at least %d different ranks of the %" PRIu32, found,
                              rank_count);
        if (same || found == 1) /* one class: all partners are in it */
            return 0;
    }
    return tutti_fail(err, TUTTI_ELACK,
                      "which ranks are alike is not settled after %d rounds of comparing them",
                      TUTTI_FOLD_ROUNDS_MAX);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int find(struct search *search, struct tutti_err *err)
{
    const struct tutti_topo *topo = search->opts->topo;
    struct tutti_classes *classes = search->classes;
    uint32_t rank_count = search->schedule->rank_count;
    int status = count_wires(search, err);

    if (status < 0)
        return status;
    classes->rank_kinds =
        calloc((size_t)rank_count * classes->wire_count + 1, sizeof(*classes->rank_kinds));
    classes->rank_class = calloc(rank_count, sizeof(*classes->rank_class));
    search->next_class = calloc(rank_count, sizeof(*search->next_class));
    search->route = calloc((size_t)topo->node_count + 1, sizeof(*search->route));
    if (search->opts->model == TUTTI_MODEL_FAIR)
        search->is_taken = calloc((size_t)topo->link_count + 1, sizeof(*search->is_taken));
    if (classes->rank_kinds == NULL || classes->rank_class == NULL || search->next_class == NULL ||
        search->route == NULL ||
        (search->is_taken == NULL && search->opts->model == TUTTI_MODEL_FAIR))
        return tutti_nomem(err);
    for (uint32_t rank = 0; rank < rank_count && status == 0; rank++)
        status = classify_wires(search, rank, err);
    return status < 0 ? status : refine_all(search, err);
}

int tutti_classes_find(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                       struct tutti_classes *ret, struct tutti_err *err)
{
    struct search *search = calloc(1, sizeof(*search));
    int status;

    memset(ret, 0, sizeof(*ret));
    if (search == NULL)
        return tutti_nomem(err);
    search->opts = opts;
    search->schedule = schedule;
    search->classes = ret;
    status = find(search, err);
    free(search->route);
    free(search->is_taken);
    free(search->next_class);
    free(search);
    if (status < 0)
        tutti_classes_done(ret);
    return status;
}

void tutti_classes_done(struct tutti_classes *classes)
{
    free(classes->kinds);
    free(classes->rank_kinds);
    free(classes->rank_class);
    memset(classes, 0, sizeof(*classes));
}
