/* Makes the quotient of colours, and holds them to what it relies on: like lanes have like wires in
 * one order, like wires go like ways, like links serve like wires. That is compared thing by thing,
 * so that no hash has to be trusted. */
#include "sim/fold/quotient.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/fold/colours.h"
#include "sim/fold/programs.h"
#include "sim/play/wires.h"
#include "topo/topo.h"

#define NONE UINT32_MAX

/* For each of some things the wires that belong to it: wires[first[i] .. first[i + 1]), or those
 * numbers themselves where `wires` is NULL. */
struct bags {
    const uint32_t *first;
    const uint32_t *wires;
};

struct maker {
    const struct tutti_topo *topo;
    const struct tutti_programs *programs;
    uint32_t per_rank;
    struct tutti_colours colours;
    struct tutti_quotient *quotient;
    uint32_t *lane_first; /* [colour]: the first lane, wire, link of it */
    uint32_t *wire_first;
    uint32_t *link_first;
    uint32_t *serve_first; /* wires by link */
    uint32_t *serve_wire;
    int64_t *tally;       /* [wire colour], all 0 between uses */
    uint32_t *kept_links; /* [link colour]: number in the quotient, or NONE */
    uint64_t *blend;      /* [link colour]: of the colours it serves, in any order */
    uint32_t *link_way;   /* [link of the quotient]: the last way over it so far, or NONE */
    uint32_t *way_before; /* [way]: the one before it over the same link, or NONE */
    uint32_t *way_wire;   /* [way]: whose it is */
};

/* ---- comparing ------------------------------------------------------------------------------- */

static uint32_t in_bag(const struct maker *maker, const struct bags *bags, uint32_t i)
{
    return maker->colours.wire[bags->wires != NULL ? bags->wires[i] : i];
}

/* Do two lanes have wires of the same colours in the same order? */
static bool are_in_step(const struct maker *maker, const struct bags *bags, uint32_t a, uint32_t b)
{
    uint32_t count = bags->first[a + 1] - bags->first[a];
    uint32_t same = 0;

    while (same < count &&
           in_bag(maker, bags, bags->first[a] + same) == in_bag(maker, bags, bags->first[b] + same))
        same++;
    return same == count && bags->first[b + 1] - bags->first[b] == count;
}

/* Do two links serve as many wires of each colour? */
static bool are_alike(const struct maker *maker, const struct bags *bags, uint32_t a, uint32_t b)
{
    uint32_t count = bags->first[a + 1] - bags->first[a];
    uint32_t same = 0;
    bool alike = true;

    if (bags->first[b + 1] - bags->first[b] != count)
        return false;
    while (same < count &&
           in_bag(maker, bags, bags->first[a] + same) == in_bag(maker, bags, bags->first[b] + same))
        same++;
    for (uint32_t i = same; i < count; i++) {
        maker->tally[in_bag(maker, bags, bags->first[a] + i)]++;
        maker->tally[in_bag(maker, bags, bags->first[b] + i)]--;
    }
    for (uint32_t i = same; i < count; i++) {
        int64_t *left = &maker->tally[in_bag(maker, bags, bags->first[b] + i)];
        int64_t *right = &maker->tally[in_bag(maker, bags, bags->first[a] + i)];

        alike = alike && *left == 0 && *right == 0;
        *left = *right = 0;
    }
    return alike;
}

static bool check_wires(const struct maker *maker)
{
    const struct tutti_colours *colours = &maker->colours;
    const uint32_t *receiver = maker->programs->out_lane;

    for (uint32_t wire = 0; wire < maker->programs->wire_count; wire++) {
        uint32_t other = maker->wire_first[colours->wire[wire]];
        uint32_t first = colours->way_first[wire];
        uint32_t count = colours->way_first[wire + 1] - first;

        if (colours->lane[colours->sender[wire]] != colours->lane[colours->sender[other]] ||
            colours->lane[receiver[wire]] != colours->lane[receiver[other]] ||
            colours->type[wire] != colours->type[other] ||
            colours->way_first[other + 1] - colours->way_first[other] != count)
            return false;
        for (uint32_t i = 0; i < count; i++) {
            if (colours->link[colours->way[first + i]] !=
                colours->link[colours->way[colours->way_first[other] + i]])
                return false;
        }
    }
    return true;
}

static uint32_t colour_of_dep(const struct maker *maker, uint32_t lane)
{
    uint32_t dep = maker->programs->dep_lane[lane];

    return dep == NONE ? NONE : maker->colours.lane[dep];
}

static bool check_lanes(const struct maker *maker)
{
    const struct tutti_programs *programs = maker->programs;
    const struct bags out = {.first = programs->out_first};
    const struct bags in = {.first = programs->in_first, .wires = programs->in_wire};

    for (uint32_t lane = 0; lane < programs->lane_count; lane++) {
        uint32_t other = maker->lane_first[maker->colours.lane[lane]];

        if (programs->kind[lane] != programs->kind[other] ||
            colour_of_dep(maker, lane) != colour_of_dep(maker, other) ||
            !are_in_step(maker, &out, lane, other) || !are_in_step(maker, &in, lane, other))
            return false;
    }
    return true;
}

static uint64_t rate_of(const struct maker *maker, uint32_t link)
{
    return tutti_topo_link(maker->topo, maker->colours.links[link]).bytes_per_s;
}

static enum tutti_hop hop_of(const struct maker *maker, uint32_t link)
{
    return tutti_link_hop(maker->topo, maker->colours.links[link]);
}

static bool check_links(const struct maker *maker)
{
    const struct bags serves = {.first = maker->serve_first, .wires = maker->serve_wire};

    for (uint32_t link = 0; link < maker->colours.link_count; link++) {
        uint32_t other = maker->link_first[maker->colours.link[link]];

        if (rate_of(maker, link) != rate_of(maker, other) ||
            hop_of(maker, link) != hop_of(maker, other) || !are_alike(maker, &serves, link, other))
            return false;
    }
    return true;
}

/* ---- what is made of them -------------------------------------------------------------------- */

/* The first of each colour. */
static void find_firsts(const uint32_t *colour, uint32_t count, uint32_t *first)
{
    for (uint32_t i = count; i-- > 0;)
        first[colour[i]] = i;
}

static void list_served(struct maker *maker)
{
    const struct tutti_colours *colours = &maker->colours;
    uint32_t hops = colours->way_first[maker->programs->wire_count];
    uint32_t *first = maker->serve_first;

    for (uint32_t i = 0; i < hops; i++)
        first[colours->way[i] + 1]++;
    for (uint32_t link = 0; link < colours->link_count; link++)
        first[link + 1] += first[link];
    for (uint32_t wire = maker->programs->wire_count; wire-- > 0;) {
        for (uint32_t i = colours->way_first[wire]; i < colours->way_first[wire + 1]; i++)
            maker->serve_wire[--first[colours->way[i] + 1]] = wire;
    }
    /* Each first[link + 1] has gone down to the beginning of `link`. */
    for (uint32_t link = 0; link < colours->link_count; link++)
        first[link] = first[link + 1];
    first[colours->link_count] = hops;
}

/* Links of unequal blends serve unequal wires: most need no closer look. */
static void blend_served(struct maker *maker)
{
    const struct bags serves = {.first = maker->serve_first, .wires = maker->serve_wire};

    for (uint32_t i = 0; i < maker->colours.link_colours; i++) {
        uint32_t link = maker->link_first[i];

        for (uint32_t k = serves.first[link]; k < serves.first[link + 1]; k++)
            maker->blend[i] += tutti_random_hash(0, in_bag(maker, &serves, k), 0, 0);
    }
}

/* The rate of a link that is kept, and those of links of other kinds that serve the same: under
 * protocols that use less of some kind than of others, these may bind. */
static void note_rates(const struct maker *maker, uint32_t mine, uint64_t *rates)
{
    const struct bags serves = {.first = maker->serve_first, .wires = maker->serve_wire};
    uint32_t wire = maker->serve_wire[maker->serve_first[mine]];
    uint32_t colour = maker->colours.link[mine];

    rates[hop_of(maker, mine)] = rate_of(maker, mine);
    for (uint32_t k = maker->colours.way_first[wire]; k < maker->colours.way_first[wire + 1]; k++) {
        uint32_t other = maker->colours.link[maker->colours.way[k]];
        uint32_t its = maker->link_first[other];
        uint64_t *least = &rates[hop_of(maker, its)];

        if (maker->blend[other] == maker->blend[colour] &&
            (*least == 0 || rate_of(maker, its) < *least) && are_alike(maker, &serves, mine, its))
            *least = rate_of(maker, its);
    }
}

/* A link that serves what a narrower one serves, or one as wide that comes before it, binds
 * nothing: its share is never less. */
static void keep_links(struct maker *maker)
{
    const struct bags serves = {.first = maker->serve_first, .wires = maker->serve_wire};
    struct tutti_quotient *quotient = maker->quotient;

    for (uint32_t i = 0; i < maker->colours.link_colours; i++) {
        uint32_t mine = maker->link_first[i];
        uint32_t wire = maker->serve_wire[maker->serve_first[mine]];
        bool binds = true;

        /* Any link that serves the same is on the way of each of its wires. */
        for (uint32_t k = maker->colours.way_first[wire];
             k < maker->colours.way_first[wire + 1] && binds; k++) {
            uint32_t other = maker->colours.link[maker->colours.way[k]];
            uint32_t its = maker->link_first[other];
            uint64_t rate = rate_of(maker, its);

            if (other != i && maker->blend[other] == maker->blend[i] &&
                (rate < rate_of(maker, mine) || (rate == rate_of(maker, mine) && other < i)))
                binds = !are_alike(maker, &serves, mine, its);
        }
        maker->kept_links[i] = binds ? quotient->link_count : NONE;
        if (binds)
            note_rates(maker, mine, quotient->link_rates[quotient->link_count++]);
    }
}

static uint32_t count_in(const struct maker *maker, const struct bags *bags, uint32_t thing,
                         uint32_t colour)
{
    uint32_t count = 0;

    for (uint32_t i = bags->first[thing]; i < bags->first[thing + 1]; i++)
        count += in_bag(maker, bags, i) == colour;
    return count;
}

/* A way over every kept link of a wire, once; what they weigh is found when all are known. */
static void add_ways(struct maker *maker, uint32_t class)
{
    const struct tutti_colours *colours = &maker->colours;
    struct tutti_quotient *quotient = maker->quotient;
    struct tutti_quotient_wire *wire = &quotient->wires[class];
    uint32_t first = maker->wire_first[class];

    wire->way_first = quotient->way_count;
    for (uint32_t i = colours->way_first[first]; i < colours->way_first[first + 1]; i++) {
        uint32_t link = maker->kept_links[colours->link[colours->way[i]]];
        uint32_t way = quotient->way_count;

        if (link == NONE ||
            (maker->link_way[link] != NONE && maker->way_wire[maker->link_way[link]] == class))
            continue;
        quotient->ways[quotient->way_count++] = (struct tutti_quotient_way){.link = link};
        maker->way_wire[way] = class;
        maker->way_before[way] = maker->link_way[link];
        maker->link_way[link] = way;
    }
    wire->way_count = quotient->way_count - wire->way_first;
}

/* Counts what a link serves once for all ways over it. */
static void weigh_ways(struct maker *maker)
{
    const struct bags serves = {.first = maker->serve_first, .wires = maker->serve_wire};

    for (uint32_t i = 0; i < maker->colours.link_colours; i++) {
        uint32_t link = maker->link_first[i];

        if (maker->kept_links[i] == NONE)
            continue;
        for (uint32_t k = serves.first[link]; k < serves.first[link + 1]; k++)
            maker->tally[in_bag(maker, &serves, k)]++;
        for (uint32_t way = maker->link_way[maker->kept_links[i]]; way != NONE;
             way = maker->way_before[way])
            maker->quotient->ways[way].weight = (uint32_t)maker->tally[maker->way_wire[way]];
        for (uint32_t k = serves.first[link]; k < serves.first[link + 1]; k++)
            maker->tally[in_bag(maker, &serves, k)] = 0;
    }
}

static void lay_wires(struct maker *maker)
{
    const struct tutti_programs *programs = maker->programs;
    const struct tutti_colours *colours = &maker->colours;
    const struct bags out = {.first = programs->out_first};
    const struct bags in = {.first = programs->in_first, .wires = programs->in_wire};

    for (uint32_t class = 0; class < colours->wire_colours; class ++) {
        uint32_t first = maker->wire_first[class];
        uint32_t sender = colours->sender[first];
        uint32_t receiver = programs->out_lane[first];

        maker->quotient->wires[class] = (struct tutti_quotient_wire){
            .sender = colours->lane[sender],
            .receiver = colours->lane[receiver],
            .out_count = count_in(maker, &out, sender, class),
            .in_count = count_in(maker, &in, receiver, class),
            .hop = colours->types[colours->type[first]].hop,
            .latency_ps = colours->types[colours->type[first]].latency_ps,
        };
        add_ways(maker, class);
    }
    weigh_ways(maker);
}

static void lay_lanes(struct maker *maker)
{
    const struct tutti_programs *programs = maker->programs;
    const struct tutti_colours *colours = &maker->colours;
    struct tutti_quotient *quotient = maker->quotient;
    uint32_t per_rank = maker->per_rank;
    uint32_t out = 0;
    uint32_t in = 0;

    for (uint32_t class = 0; class < colours->lane_colours; class ++) {
        uint32_t lane = maker->lane_first[class];
        struct tutti_quotient_lane *mine = &quotient->lanes[class];

        *mine = (struct tutti_quotient_lane){
            .rank = lane / per_rank,
            .lane = lane % per_rank,
            .dep = colour_of_dep(maker, lane),
            .out_first = out,
            .out_count = programs->out_first[lane + 1] - programs->out_first[lane],
            .in_first = in,
            .in_count = programs->in_first[lane + 1] - programs->in_first[lane],
        };
        for (uint32_t i = programs->out_first[lane]; i < programs->out_first[lane + 1]; i++) {
            quotient->out_rank[out] = programs->out_lane[i] / per_rank;
            quotient->out_wire[out++] = colours->wire[i];
        }
        for (uint32_t i = programs->in_first[lane]; i < programs->in_first[lane + 1]; i++) {
            quotient->in_rank[in] = colours->sender[programs->in_wire[i]] / per_rank;
            quotient->in_wire[in++] = colours->wire[programs->in_wire[i]];
        }
        /* Colours are numbered by their first lanes, so ranks come in order. */
        quotient->rank_classes += class == 0 || mine->rank != mine[-1].rank;
    }
    for (uint32_t lane = 0; lane < programs->lane_count; lane++)
        quotient->lanes[colours->lane[lane]].size++;
}

/* Peers that the representative lanes have. */
static void count_peers(const struct maker *maker, size_t *out, size_t *in)
{
    const struct tutti_programs *programs = maker->programs;

    *out = *in = 1;
    for (uint32_t class = 0; class < maker->colours.lane_colours; class ++) {
        uint32_t lane = maker->lane_first[class];

        *out += programs->out_first[lane + 1] - programs->out_first[lane];
        *in += programs->in_first[lane + 1] - programs->in_first[lane];
    }
}

static int take_quotient(struct maker *maker, struct tutti_err *err)
{
    struct tutti_quotient *quotient = maker->quotient;
    const struct tutti_colours *colours = &maker->colours;
    size_t hops = 1;
    size_t out;
    size_t in;

    count_peers(maker, &out, &in);
    for (uint32_t class = 0; class < colours->wire_colours; class ++) {
        uint32_t wire = maker->wire_first[class];

        hops += colours->way_first[wire + 1] - colours->way_first[wire];
    }
    quotient->lane_count = colours->lane_colours;
    quotient->wire_count = colours->wire_colours;
    quotient->lanes = calloc((size_t)colours->lane_colours + 1, sizeof(*quotient->lanes));
    quotient->wires = calloc((size_t)colours->wire_colours + 1, sizeof(*quotient->wires));
    quotient->link_rates = calloc((size_t)colours->link_colours + 1, sizeof(*quotient->link_rates));
    quotient->ways = calloc(hops, sizeof(*quotient->ways));
    quotient->out_wire = calloc(out, sizeof(*quotient->out_wire));
    quotient->out_rank = calloc(out, sizeof(*quotient->out_rank));
    quotient->in_wire = calloc(in, sizeof(*quotient->in_wire));
    quotient->in_rank = calloc(in, sizeof(*quotient->in_rank));
    maker->way_before = calloc(hops, sizeof(uint32_t));
    maker->way_wire = calloc(hops, sizeof(uint32_t));
    if (maker->way_before == NULL || maker->way_wire == NULL || quotient->lanes == NULL ||
        quotient->wires == NULL || quotient->ways == NULL || quotient->link_rates == NULL ||
        quotient->out_wire == NULL || quotient->out_rank == NULL || quotient->in_wire == NULL ||
        quotient->in_rank == NULL)
        return tutti_nomem(err);
    return 0;
}

static int take_scratch(struct maker *maker, struct tutti_err *err)
{
    const struct tutti_colours *colours = &maker->colours;
    size_t hops = (size_t)colours->way_first[maker->programs->wire_count] + 1;

    maker->lane_first = calloc((size_t)colours->lane_colours + 1, sizeof(uint32_t));
    maker->wire_first = calloc((size_t)colours->wire_colours + 1, sizeof(uint32_t));
    maker->link_first = calloc((size_t)colours->link_colours + 1, sizeof(uint32_t));
    maker->kept_links = calloc((size_t)colours->link_colours + 1, sizeof(uint32_t));
    maker->serve_first = calloc((size_t)colours->link_count + 2, sizeof(uint32_t));
    maker->serve_wire = calloc(hops, sizeof(uint32_t));
    maker->tally = calloc((size_t)colours->wire_colours + 1, sizeof(*maker->tally));
    maker->blend = calloc((size_t)colours->link_colours + 1, sizeof(*maker->blend));
    maker->link_way = malloc(((size_t)colours->link_colours + 1) * sizeof(uint32_t));
    if (maker->lane_first == NULL || maker->wire_first == NULL || maker->link_first == NULL ||
        maker->kept_links == NULL || maker->serve_first == NULL || maker->serve_wire == NULL ||
        maker->tally == NULL || maker->blend == NULL || maker->link_way == NULL)
        return tutti_nomem(err);
    memset(maker->link_way, 0xff, ((size_t)colours->link_colours + 1) * sizeof(uint32_t));
    return 0;
}

static int make(struct maker *maker, struct tutti_err *err)
{
    const struct tutti_colours *colours = &maker->colours;
    int status = take_scratch(maker, err);

    if (status < 0)
        return status;
    find_firsts(colours->lane, maker->programs->lane_count, maker->lane_first);
    find_firsts(colours->wire, maker->programs->wire_count, maker->wire_first);
    find_firsts(colours->link, colours->link_count, maker->link_first);
    list_served(maker);
    if (!check_wires(maker) || !check_lanes(maker) || !check_links(maker))
        return tutti_fail(err, TUTTI_ELACK, "two hashes met"); /* one in 2^64 */
    status = take_quotient(maker, err);
    if (status < 0)
        return status;
    blend_served(maker);
    keep_links(maker);
    lay_wires(maker);
    lay_lanes(maker);
    return 0;
}

int tutti_quotient_make(const struct tutti_topo *topo, const struct tutti_programs *programs,
                        uint32_t per_rank, bool ordered, struct tutti_quotient *ret,
                        struct tutti_err *err)
{
    struct maker maker = {
        .topo = topo, .programs = programs, .per_rank = per_rank, .quotient = ret};
    int status;

    *ret = (struct tutti_quotient){.lane_count = 0};
    status = tutti_colours_find(topo, programs, ordered, &maker.colours, err);
    if (status == 0)
        status = make(&maker, err);
    free(maker.lane_first);
    free(maker.wire_first);
    free(maker.link_first);
    free(maker.kept_links);
    free(maker.serve_first);
    free(maker.serve_wire);
    free(maker.tally);
    free(maker.blend);
    free(maker.link_way);
    free(maker.way_before);
    free(maker.way_wire);
    tutti_colours_done(&maker.colours);
    if (status < 0)
        tutti_quotient_done(ret);
    return status;
}

int tutti_quotient_find(const struct tutti_topo *topo, const struct tutti_schedule *schedule,
                        bool ordered, struct tutti_quotient *ret, struct tutti_err *err)
{
    struct tutti_programs programs;
    int status = tutti_programs_read(schedule, &programs, err);

    *ret = (struct tutti_quotient){.lane_count = 0};
    if (status == 0)
        status = tutti_quotient_make(topo, &programs, schedule->lane_count, ordered, ret, err);
    tutti_programs_done(&programs);
    return status;
}

void tutti_quotient_done(struct tutti_quotient *quotient)
{
    free(quotient->lanes);
    free(quotient->wires);
    free(quotient->ways);
    free(quotient->link_rates);
    free(quotient->out_wire);
    free(quotient->out_rank);
    free(quotient->in_wire);
    free(quotient->in_rank);
    *quotient = (struct tutti_quotient){.lane_count = 0};
}

uint64_t tutti_quotient_rate(const struct tutti_quotient *quotient,
                             const struct tutti_protocol *protocol, uint32_t link)
{
    uint64_t least = UINT64_MAX;

    for (int hop = 0; hop < TUTTI_HOP_COUNT; hop++) {
        uint64_t rate = quotient->link_rates[link][hop];

        if (rate > 0)
            rate = tutti_protocol_link_rate(protocol, (enum tutti_hop)hop, rate);
        if (rate > 0 && rate < least)
            least = rate;
    }
    return least;
}
