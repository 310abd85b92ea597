/* Hops and their kinds; see hops.h. Price: a route for each rank and family, but for axes of grids
 * that follow a rule. */
#include "sim/fold/hops.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/fold/rings.h"
#include "sim/net/net.h"
#include "sim/play/wires.h"
#include "sim/protocol.h"
#include "sim/sim.h"
#include "topo/topo.h"

enum { LIKE_LINKS = 12, LIKE_ROUTES = 256 };

/* A route that was weighed: another one whose links are like these, in order, weighs the same. */
struct like_route {
    uint32_t kind;
    uint32_t count; /* 0: none yet */
    struct tutti_link_likeness links[LIKE_LINKS];
};

/* What is at hand while hops are looked for. */
struct search {
    struct tutti_hops *hops;
    const struct tutti_sim_opts *opts;
    uint32_t *route; /* [node_count] */
    uint8_t *owner;  /* [link_count]: family + 1 of the hop that a link serves, or 0 */
    uint32_t family;
    uint32_t link_count; /* kept so far */
    uint32_t link_capacity;
    bool keep_links;
    struct like_route *like; /* [LIKE_ROUTES], by a hash of the links */
};

int tutti_hops_add(struct tutti_hops *hops, uint32_t lane, const struct tutti_ring_phase *phase,
                   uint32_t *ret, struct tutti_err *err)
{
    struct tutti_hop_family *family;
    uint32_t i = 0;

    while (i < hops->family_count && !tutti_is_same_way(&hops->families[i].way, phase))
        i++;
    if (i == TUTTI_HOP_FAMILIES_MAX)
        return tutti_fail(err, TUTTI_ELACK, "its messages go more than %d ways around rings",
                          TUTTI_HOP_FAMILIES_MAX);
    if (i == hops->family_count)
        hops->families[hops->family_count++] = (struct tutti_hop_family){.way = *phase};
    family = &hops->families[i];
    if (family->lane_count == 0 || family->lane != lane)
        family->lane_count++;
    family->lane = lane;
    *ret = i;
    return 0;
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static bool is_kind(const struct tutti_route_figures *a, const struct tutti_route_figures *b)
{
    return a->latency_ps == b->latency_ps && a->hop == b->hop &&
           memcmp(a->bytes_per_s, b->bytes_per_s, sizeof(a->bytes_per_s)) == 0;
}

static uint32_t *kind_place(const struct tutti_hops *hops, const struct tutti_route_figures *kind)
{
    uint64_t place = tutti_random_hash((uint64_t)kind->latency_ps, kind->hop, 0, 0);

    for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++)
        if (kind->bytes_per_s[hop] < UINT64_MAX)
            place = tutti_random_hash(place, kind->bytes_per_s[hop], (uint64_t)hop, 0);
    for (;; place++) {
        uint32_t *entry = &hops->table[place & (hops->table_size - 1)];

        if (*entry == 0 || is_kind(&hops->figures[*entry - 1], kind))
            return entry;
    }
}

/* Keeps the table at most half full. */
static int grow_table(struct tutti_hops *hops)
{
    uint32_t size = hops->table_size > 0 ? 2 * hops->table_size : 64;
    uint32_t *table;

    if (2 * (uint64_t)hops->kind_count < hops->table_size)
        return 0;
    table = calloc(size, sizeof(*table));
    if (table == NULL)
        return -TUTTI_ENOMEM;
    free(hops->table);
    hops->table = table;
    hops->table_size = size;
    for (uint32_t i = 0; i < hops->kind_count; i++)
        *kind_place(hops, &hops->figures[i]) = i + 1;
    return 0;
}

/* The number of a kind; `guess` is what the hop before has. */
static int find_kind(struct tutti_hops *hops, const struct tutti_route_figures *kind,
                     uint32_t guess, uint32_t *ret)
{
    uint32_t *entry;

    *ret = guess;
    if (guess < hops->kind_count && is_kind(&hops->figures[guess], kind))
        return 0;
    if (grow_table(hops) < 0 ||
        tutti_grow(&hops->figures, &hops->kind_capacity, (uint64_t)hops->kind_count + 1,
                   sizeof(*hops->figures)) < 0)
        return -TUTTI_ENOMEM;
    entry = kind_place(hops, kind);
    if (*entry == 0) {
        hops->figures[hops->kind_count] = *kind;
        *entry = ++hops->kind_count;
    }
    *ret = *entry - 1;
    return 0;
}

/* ---- routes ---------------------------------------------------------------------------------- */

/* The place of the route and those like it; NULL: it is weighed by itself. */
static struct like_route *like_place(const struct search *search, uint32_t count,
                                     struct tutti_link_likeness *links)
{
    uint64_t hash = count;

    if (count > LIKE_LINKS)
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        links[i] = tutti_topo_link_likeness(search->opts->topo, search->route[i]);
        if (links[i].rule == NULL)
            return NULL;
        hash ^= (uint64_t)(uintptr_t)links[i].rule + 3 * (uint64_t)(uintptr_t)links[i].change;
        hash *= UINT64_C(0x9e3779b97f4a7c15);
    }
    return &search->like[(hash >> 40) % LIKE_ROUTES];
}

static bool is_like(const struct like_route *like, const struct tutti_link_likeness *links,
                    uint32_t count)
{
    bool same = like->count == count;

    for (uint32_t i = 0; i < count && same; i++)
        same = like->links[i].rule == links[i].rule && like->links[i].change == links[i].change;
    return same;
}

/* The kind of the route at hand. */
static int weigh_route(struct search *search, uint32_t count, uint32_t *ret)
{
    struct tutti_link_likeness links[LIKE_LINKS];
    struct like_route *like = like_place(search, count, links);
    struct tutti_route_figures figures;

    if (like != NULL && is_like(like, links, count)) {
        *ret = like->kind;
        return 0;
    }
    figures = tutti_route_figures(search->opts->topo, search->route, count);
    if (find_kind(search->hops, &figures, *ret, ret) < 0)
        return -TUTTI_ENOMEM;
    if (like != NULL) {
        *like = (struct like_route){.kind = *ret, .count = count};
        memcpy(like->links, links, count * sizeof(*links));
    }
    return 0;
}

/* Notes whose the links of a route are. */
static void take_links(struct search *search, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *owner = &search->owner[search->route[i]];

        search->hops->found_shares |= *owner == search->family + 1;
        search->hops->found_exclusive &= *owner == 0;
        *owner = (uint8_t)(search->family + 1);
    }
}

static int keep_links(struct search *search, uint32_t rank, uint32_t count)
{
    struct tutti_hop_family *family = &search->hops->families[search->family];
    uint64_t needed = (uint64_t)search->link_count + count;

    if (!search->keep_links)
        return 0;
    if (family->link_first == NULL) {
        family->links[rank] = search->route[0];
        return 0;
    }
    if (tutti_grow(&family->links, &search->link_capacity, needed, sizeof(*family->links)) < 0)
        return -TUTTI_ENOMEM;
    memcpy(family->links + search->link_count, search->route, count * sizeof(*family->links));
    family->link_first[rank] = search->link_count;
    search->link_count += count;
    family->link_first[rank + 1] = search->link_count;
    return 0;
}

static int find_hop(struct search *search, uint32_t from, uint32_t to, uint32_t *ret,
                    struct tutti_err *err)
{
    const struct tutti_topo *topo = search->opts->topo;
    uint32_t count = tutti_topo_route(topo, from, to, search->route, topo->node_count);

    if (count == 0 || from == to)
        return tutti_fail(err, TUTTI_ELACK, "rank %" PRIu32 " cannot reach rank %" PRIu32, from,
                          to);
    if (weigh_route(search, count, ret) < 0)
        return tutti_nomem(err);
    if (search->opts->model != TUTTI_MODEL_FAIR)
        count = 1;
    take_links(search, count);
    if (keep_links(search, from, count) < 0)
        return tutti_nomem(err);
    return 0;
}

/* ---- families -------------------------------------------------------------------------------- */

/* In order of ranks, as links are kept in that order. */
static uint32_t next_of(const struct tutti_ring_phase *way, const uint32_t *seats, uint32_t rank)
{
    uint32_t x = way->order != NULL ? seats[rank] : rank / way->stride % way->size;
    uint32_t base = rank - x * way->stride;
    uint32_t next = way->reversed ? (x > 0 ? x : way->size) - 1 : x + 1 < way->size ? x + 1 : 0;

    return way->order != NULL ? way->order[next] : base + next * way->stride;
}

static int find_family(struct search *search, struct tutti_hop_family *family,
                       const uint32_t *seats, struct tutti_err *err)
{
    uint32_t n = search->opts->topo->rank_count;
    uint32_t kind = 0;
    bool alike = true;

    for (uint32_t rank = 0; rank < n; rank++) {
        int status = find_hop(search, rank, next_of(&family->way, seats, rank), &kind, err);

        if (status < 0)
            return status;
        family->found[rank] = kind;
        alike &= kind == family->found[0];
    }
    family->found_kind = family->found[0];
    if (alike) {
        free(family->found);
        family->found = NULL;
    }
    return 0;
}

/* The same for an axis whose links a rule says: only those that were changed are looked at. */
static int find_on_axis(struct search *search, struct tutti_hop_family *family,
                        const struct tutti_axis_links *axis)
{
    const struct tutti_topo *topo = search->opts->topo;
    struct tutti_ring_phase up = family->way;
    struct tutti_route_figures kind = tutti_link_figures(&axis->link);

    up.reversed = false;
    if (find_kind(search->hops, &kind, 0, &family->found_kind) < 0)
        return -TUTTI_ENOMEM;
    for (uint32_t i = 0; axis->changed && i < topo->rank_count; i++) {
        uint32_t link = axis->first + axis->per_rank * i;
        uint32_t sender = axis->of_next ? next_of(&up, NULL, i) : i;
        uint32_t number = family->found_kind;

        if (!tutti_topo_link_is_changed(topo, link))
            continue;
        if (family->found == NULL) {
            family->found = malloc(topo->rank_count * sizeof(*family->found));
            for (uint32_t k = 0; family->found != NULL && k < topo->rank_count; k++)
                family->found[k] = family->found_kind;
        }
        kind = tutti_route_figures(topo, &link, 1);
        if (family->found == NULL || find_kind(search->hops, &kind, number, &number) < 0)
            return -TUTTI_ENOMEM;
        family->found[sender] = number;
    }
    return 0;
}

/* Whether all families are such; 1: they have been gone through, and share no links. */
static int find_on_axes(struct search *search)
{
    struct tutti_hops *hops = search->hops;
    int status = 0;

    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < hops->family_count && status == 0; i++) {
            const struct tutti_ring_phase *way = &hops->families[i].way;
            struct tutti_axis_links axis;

            if (way->order != NULL || !tutti_topo_axis_links(search->opts->topo, way->size,
                                                             way->stride, way->reversed, &axis))
                return 0;
            if (pass == 1)
                status = find_on_axis(search, &hops->families[i], &axis);
        }
    }
    return status < 0 ? status : 1;
}

static int lay_seats(const struct tutti_ring_phase *way, uint32_t rank_count, uint32_t **seats)
{
    *seats = NULL;
    if (way->order == NULL)
        return 0;
    *seats = calloc(rank_count, sizeof(**seats));
    if (*seats == NULL)
        return -TUTTI_ENOMEM;
    for (uint32_t i = 0; i < way->size; i++)
        (*seats)[way->order[i]] = i;
    return 0;
}

static int open_family(struct search *search, struct tutti_hop_family *family, uint32_t **seats,
                       struct tutti_err *err)
{
    uint32_t n = search->opts->topo->rank_count;
    bool fair = search->opts->model == TUTTI_MODEL_FAIR;

    search->link_count = search->link_capacity = 0;
    family->found = malloc(n * sizeof(*family->found));
    if (search->keep_links && fair)
        family->link_first = calloc((size_t)n + 1, sizeof(*family->link_first));
    else if (search->keep_links)
        family->links = calloc(n, sizeof(*family->links));
    if (family->found == NULL || (search->keep_links && fair && family->link_first == NULL) ||
        (search->keep_links && !fair && family->links == NULL) ||
        lay_seats(&family->way, n, seats) < 0)
        return tutti_nomem(err);
    return 0;
}

/* ---- links with room for all ----------------------------------------------------------------- */

/* Adds what the hops of a family can ask of their links at most; returns whether each link has that
 * much. (A millionth less: sums of rates are doubles elsewhere.) */
static bool links_have_room(const struct search *search, const struct tutti_hop_family *family,
                            const uint32_t *seats, uint64_t *asked)
{
    const struct tutti_topo *topo = search->opts->topo;

    for (uint32_t rank = 0; rank < topo->rank_count; rank++) {
        uint32_t count = tutti_topo_route(topo, rank, next_of(&family->way, seats, rank),
                                          search->route, topo->node_count);
        uint32_t kind = family->kinds != NULL ? family->kinds[rank] : family->kind;
        uint64_t pace = search->hops->kinds[kind].pace.bytes_per_s;

        for (uint32_t i = 0; i < count; i++) {
            uint32_t link = search->route[i];
            uint64_t rate = tutti_link_rate(topo, search->opts->protocol, link);
            bool alone = asked[link] == 0 && family->lane_count == 1;
            uint64_t room = alone ? rate : rate - rate / 1000000;

            if (asked[link] > room || (room - asked[link]) / pace < family->lane_count)
                return false;
            asked[link] += family->lane_count * pace;
        }
    }
    return true;
}

/* Where connections have paces of their own, links that several share may have room for all of them
 * at once: then none holds up another, as if each had links of its own. */
static int find_room(const struct search *search)
{
    struct tutti_hops *hops = search->hops;
    const struct tutti_topo *topo = search->opts->topo;
    uint64_t *asked = calloc((size_t)topo->link_count + 1, sizeof(*asked));
    bool room = true;
    int status = asked == NULL ? -TUTTI_ENOMEM : 0;

    for (uint32_t i = 0; i < hops->family_count && room && status == 0; i++) {
        uint32_t *seats = NULL;

        status = lay_seats(&hops->families[i].way, topo->rank_count, &seats);
        if (status == 0)
            room = links_have_room(search, &hops->families[i], seats, asked);
        free(seats);
    }
    free(asked);
    return status < 0 ? status : room;
}

static bool is_paced(const struct tutti_sim_opts *opts)
{
    bool paced = false;

    for (int hop = 0; hop < TUTTI_HOP_ROUTE_COUNT && opts->protocol != NULL; hop++)
        paced |= opts->protocol->lane_bytes_per_s[hop] > 0;
    return paced && opts->model == TUTTI_MODEL_FAIR;
}

/* What is to be said of links that several hops share, or several lanes. */
static int settle_sharing(struct search *search, struct tutti_err *err)
{
    struct tutti_hops *hops = search->hops;
    bool shared = hops->shares || !hops->exclusive;
    int room = 0;

    for (uint32_t i = 0; i < hops->family_count; i++)
        shared |= hops->families[i].lane_count > 1;
    if (shared && is_paced(search->opts))
        room = find_room(search);
    if (room < 0)
        return tutti_nomem(err);
    hops->has_room = room > 0;
    hops->exclusive |= hops->has_room;
    hops->shares &= !hops->has_room;
    if (hops->shares)
        return tutti_fail(err, TUTTI_ELACK, "connections share links, which 'fair' divides");
    return 0;
}

/* Forgets what was found, but not the families. */
static void forget(struct tutti_hops *hops)
{
    for (uint32_t i = 0; i < hops->family_count; i++) {
        struct tutti_hop_family *family = &hops->families[i];

        free(family->found);
        free(family->links);
        free(family->link_first);
        family->found = family->links = family->link_first = NULL;
        family->kinds = NULL;
    }
    free(hops->figures);
    free(hops->kinds);
    free(hops->same);
    free(hops->table);
    hops->figures = NULL;
    hops->kinds = NULL;
    hops->same = hops->table = NULL;
    hops->kind_count = hops->kind_capacity = hops->table_size = 0;
    hops->topo = NULL;
    hops->on_axes = hops->has_links = hops->found_shares = false;
    hops->found_exclusive = true;
}

/* Goes through the routes of all families. */
static int find_routes(struct search *search, struct tutti_err *err)
{
    const struct tutti_topo *topo = search->opts->topo;
    struct tutti_hops *hops = search->hops;
    int status = 0;

    search->owner = calloc((size_t)topo->link_count + 1, sizeof(*search->owner));
    search->like = calloc(LIKE_ROUTES, sizeof(*search->like));
    if (search->owner == NULL || search->like == NULL)
        status = tutti_nomem(err);
    for (uint32_t i = 0; i < hops->family_count && status == 0; i++) {
        uint32_t *seats = NULL;

        search->family = i;
        status = open_family(search, &hops->families[i], &seats, err);
        if (status == 0)
            status = find_family(search, &hops->families[i], seats, err);
        free(seats);
    }
    free(search->owner);
    free(search->like);
    search->owner = NULL;
    search->like = NULL;
    return status;
}

/* Finds what does not hang on the protocol. */
static int find_all(struct search *search, struct tutti_err *err)
{
    struct tutti_hops *hops = search->hops;
    int status = 0;

    forget(hops);
    if (!search->keep_links)
        status = find_on_axes(search);
    if (status < 0)
        return tutti_nomem(err);
    hops->on_axes = status > 0;
    if (!hops->on_axes)
        status = find_routes(search, err);
    if (status < 0)
        return status;
    hops->has_links = search->keep_links;
    hops->model = search->opts->model;
    hops->topo = search->opts->topo;
    return 0;
}

/* Finds and weighs the kinds of all hops. */
static int find_kinds(struct search *search, struct tutti_err *err)
{
    struct tutti_hops *hops = search->hops;
    const struct tutti_sim_opts *opts = search->opts;
    int status = 0;

    if (hops->topo != opts->topo || hops->model != opts->model ||
        (search->keep_links && !hops->has_links))
        status = find_all(search, err);
    hops->exclusive = hops->found_exclusive;
    hops->shares = hops->found_shares;
    hops->has_room = false;
    if (status == 0 && tutti_hops_weigh(hops, opts->protocol) < 0)
        status = tutti_nomem(err);
    return status;
}

static int find(struct tutti_hops *hops, const struct tutti_sim_opts *opts, bool keep, bool settles,
                struct tutti_err *err)
{
    struct search search = {.hops = hops, .opts = opts, .keep_links = keep};
    int status;

    search.route = malloc(((size_t)opts->topo->node_count + 1) * sizeof(*search.route));
    if (search.route == NULL)
        return tutti_nomem(err);
    status = find_kinds(&search, err);
    if (status == 0 && settles && !hops->on_axes)
        status = settle_sharing(&search, err);
    free(search.route);
    return status;
}

int tutti_hops_find(struct tutti_hops *hops, const struct tutti_sim_opts *opts, bool keep,
                    struct tutti_err *err)
{
    return find(hops, opts, keep, true, err);
}

int tutti_hops_find_kinds(struct tutti_hops *hops, const struct tutti_sim_opts *opts,
                          struct tutti_err *err)
{
    return find(hops, opts, false, false, err);
}

void tutti_hops_done(struct tutti_hops *hops)
{
    forget(hops);
    for (uint32_t i = 0; i < hops->family_count; i++)
        free(hops->families[i].own_order);
    *hops = (struct tutti_hops){.family_count = 0};
}

/* Below this a double holds every whole number, and `fair` reckons as with whole numbers. */
#define EXACT (UINT64_C(1) << 53)

tutti_ps tutti_hop_busy_ps(const struct tutti_sim_opts *opts, struct tutti_pace pace,
                           uint64_t payload)
{
    uint64_t bytes = tutti_wire_bytes(opts->protocol, payload);
    tutti_ps busy_ps;

    if (opts->model == TUTTI_MODEL_FAIR && (bytes >= EXACT || pace.bytes_per_s >= EXACT))
        busy_ps = tutti_drain_ps(tutti_stretch_bytes(bytes, 0), (double)pace.bytes_per_s);
    else
        busy_ps = tutti_wire_ps(bytes, pace.bytes_per_s);
    return tutti_add_ps(pace.slice_ps, busy_ps);
}
