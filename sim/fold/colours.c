/* Colour refinement of lanes and links (the coarsest equitable partition, as classes.c has of
 * ranks): lanes begin with the colour of their program,
 * links with their rate and kind; a wire's colour is that of its ends and of the links on its way,
 * and in each round lanes take up the colours of their wires in their order, links in any.
 *
 * Price: a route for each wire, then the hops of all wires for each round. */
#include "sim/fold/colours.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/net/net.h"
#include "sim/play/wires.h"
#include "topo/topo.h"

enum { ROUNDS_MAX = 256, TYPES_MAX = 1024 };

/* Takes up one more value; the first of a chain goes to mix(0, ...). Hash and value are added bit
 * by bit, so that of two plain numbers one could make up for the other. Zeros count, too: without
 * the sum any number of them would be 0. */
static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0xd1b54a32d192ed03);
    hash ^= hash >> 32;
    hash *= UINT64_C(0xd6e8feb86659fd93);
    return hash ^ hash >> 29;
}

/* ---- ways ------------------------------------------------------------------------------------ */

static int find_type(struct tutti_colours *colours, const struct tutti_wire_type *type,
                     uint32_t *ret, struct tutti_err *err)
{
    uint32_t i = 0;

    while (i < colours->type_count &&
           (colours->types[i].latency_ps != type->latency_ps || colours->types[i].hop != type->hop))
        i++;
    if (i == TYPES_MAX)
        return tutti_fail(err, TUTTI_ELACK, "there are more than %d kinds of connections",
                          TYPES_MAX);
    if (i == colours->type_count)
        colours->types[colours->type_count++] = *type;
    *ret = i;
    return 0;
}

static int number_link(struct tutti_colours *colours, uint32_t link, uint32_t *ret)
{
    if (colours->numbers[link] == 0) {
        if (tutti_grow(&colours->links, &colours->link_capacity, (uint64_t)colours->link_count + 1,
                       sizeof(*colours->links)) < 0)
            return -TUTTI_ENOMEM;
        colours->links[colours->link_count++] = link;
        colours->numbers[link] = colours->link_count;
    }
    *ret = colours->numbers[link] - 1;
    return 0;
}

static int route_wire(struct tutti_colours *colours, uint32_t wire, uint32_t lanes_per_rank,
                      struct tutti_err *err)
{
    const struct tutti_topo *topo = colours->topo;
    uint32_t from = colours->sender[wire] / lanes_per_rank;
    uint32_t to = colours->programs->out_lane[wire] / lanes_per_rank;
    uint32_t first = colours->way_first[wire];
    struct tutti_wire_type type;
    uint32_t count;

    if (from == to)
        return tutti_fail(err, TUTTI_ELACK, "rank %u sends to itself", from);
    for (;;) {
        count = tutti_topo_route(topo, from, to, colours->way != NULL ? colours->way + first : NULL,
                                 colours->way_capacity - first);
        if (first + count <= colours->way_capacity)
            break;
        if (tutti_grow(&colours->way, &colours->way_capacity, (uint64_t)first + count,
                       sizeof(*colours->way)) < 0)
            return tutti_nomem(err);
    }
    if (count == 0)
        return tutti_fail(err, TUTTI_ELACK, "rank %u cannot reach rank %u", from, to);
    type.latency_ps = tutti_route_latency_ps(topo, NULL, colours->way + first, count);
    type.hop = tutti_route_hop(topo, colours->way + first, count);
    colours->way_first[wire + 1] = first + count;
    for (uint32_t i = first; i < first + count; i++) {
        if (number_link(colours, colours->way[i], &colours->way[i]) < 0)
            return tutti_nomem(err);
    }
    return find_type(colours, &type, &colours->type[wire], err);
}

static int route_all(struct tutti_colours *colours, struct tutti_err *err)
{
    const struct tutti_programs *programs = colours->programs;
    uint32_t lanes_per_rank = programs->lane_count / colours->topo->rank_count;
    int status = 0;

    for (uint32_t lane = 0; lane < programs->lane_count; lane++) {
        for (uint32_t i = programs->out_first[lane]; i < programs->out_first[lane + 1]; i++) {
            colours->sender[i] = lane;
            if (colours->out_place != NULL)
                colours->out_place[i] = i - programs->out_first[lane];
        }
        for (uint32_t i = programs->in_first[lane]; i < programs->in_first[lane + 1]; i++) {
            if (colours->in_place != NULL)
                colours->in_place[programs->in_wire[i]] = i - programs->in_first[lane];
        }
    }
    for (uint32_t wire = 0; wire < programs->wire_count && status == 0; wire++)
        status = route_wire(colours, wire, lanes_per_rank, err);
    return status;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

/* Hashes of all things of one sort on their way to become colours. */
struct sort {
    uint32_t *colour;
    uint64_t *hash;
    uint32_t count;
    uint32_t colours; /* how many different ones there were */
};

/* Numbers the hashes in the order of their first owners; `table` has `size` (a power of two, at
 * least twice count) entries of owner + 1. Returns how many there are. */
static uint32_t number_hashes(struct sort *sort, uint32_t *table, uint32_t size)
{
    uint32_t found = 0;

    memset(table, 0, size * sizeof(*table));
    for (uint32_t i = 0; i < sort->count; i++) {
        uint64_t place = sort->hash[i];
        uint32_t *entry = &table[place & (size - 1)];

        while (*entry > 0 && sort->hash[*entry - 1] != sort->hash[i])
            entry = &table[++place & (size - 1)];
        if (*entry == 0) {
            *entry = i + 1;
            sort->colour[i] = found++;
        } else {
            sort->colour[i] = sort->colour[*entry - 1];
        }
    }
    return found;
}

static void hash_wires(const struct tutti_colours *colours, uint64_t *hash)
{
    const struct tutti_programs *programs = colours->programs;

    for (uint32_t wire = 0; wire < programs->wire_count; wire++) {
        uint64_t h = mix(0, (uint64_t)colours->lane[colours->sender[wire]] << 32 |
                                colours->lane[programs->out_lane[wire]]);

        h = mix(h, colours->type[wire]);
        if (colours->out_place != NULL)
            h = mix(h, (uint64_t)colours->out_place[wire] << 32 | colours->in_place[wire]);
        for (uint32_t i = colours->way_first[wire]; i < colours->way_first[wire + 1]; i++)
            h = mix(h, colours->link[colours->way[i]]);
        hash[wire] = h;
    }
}

static void hash_lanes(const struct tutti_colours *colours, const uint64_t *wires, uint64_t *hash)
{
    const struct tutti_programs *programs = colours->programs;

    for (uint32_t lane = 0; lane < programs->lane_count; lane++) {
        uint32_t dep = programs->dep_lane[lane];
        uint64_t h = mix(0, (uint64_t)colours->lane[lane] << 32 |
                                (dep == UINT32_MAX ? dep : colours->lane[dep]));

        for (uint32_t i = programs->out_first[lane]; i < programs->out_first[lane + 1]; i++)
            h = mix(h, wires[i]);
        h = mix(h, UINT32_MAX); /* a border: what comes in is not what goes out */
        for (uint32_t i = programs->in_first[lane]; i < programs->in_first[lane + 1]; i++)
            h = mix(h, wires[programs->in_wire[i]]);
        hash[lane] = h;
    }
}

static void hash_links(const struct tutti_colours *colours, const uint64_t *wires, uint64_t *hash)
{
    for (uint32_t link = 0; link < colours->link_count; link++)
        hash[link] = 0;
    for (uint32_t wire = 0; wire < colours->programs->wire_count; wire++) {
        uint64_t h = mix(wires[wire], 3);

        for (uint32_t i = colours->way_first[wire]; i < colours->way_first[wire + 1]; i++)
            hash[colours->way[i]] += h;
    }
    for (uint32_t link = 0; link < colours->link_count; link++)
        hash[link] = mix(hash[link], colours->link[link]);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void begin(struct tutti_colours *colours, struct sort *lanes, struct sort *links,
                  uint32_t *table, uint32_t size)
{
    for (uint32_t i = 0; i < lanes->count; i++)
        lanes->hash[i] = mix(0, colours->programs->kind[i]);
    for (uint32_t i = 0; i < links->count; i++) {
        struct tutti_link link = tutti_topo_link_figures(colours->topo, colours->links[i]);

        links->hash[i] =
            mix(mix(0, link.bytes_per_s), tutti_link_hop(colours->topo, colours->links[i]));
    }
    lanes->colours = number_hashes(lanes, table, size);
    links->colours = number_hashes(links, table, size);
}

static int refine(struct tutti_colours *colours, struct tutti_err *err)
{
    uint32_t lane_count = colours->programs->lane_count;
    uint32_t wire_count = colours->programs->wire_count;
    uint32_t most = larger(larger(lane_count, wire_count), colours->link_count);
    uint64_t *hashes =
        calloc((size_t)lane_count + wire_count + colours->link_count + 1, sizeof(*hashes));
    struct sort lanes = {.colour = colours->lane, .hash = hashes, .count = lane_count};
    struct sort wires = {.colour = colours->wire, .count = wire_count};
    struct sort links = {.colour = colours->link, .count = colours->link_count};
    uint32_t size = 64;
    uint32_t *table;
    bool changes = true;

    while (size < 2 * most)
        size *= 2;
    table = malloc(size * sizeof(*table));
    if (hashes == NULL || table == NULL) {
        free(hashes);
        free(table);
        return tutti_nomem(err);
    }
    wires.hash = hashes + lane_count;
    links.hash = wires.hash + wire_count;
    begin(colours, &lanes, &links, table, size);
    for (int round = 0; round < ROUNDS_MAX && changes; round++) {
        uint32_t before = lanes.colours + links.colours;

        hash_wires(colours, wires.hash);
        hash_lanes(colours, wires.hash, lanes.hash);
        hash_links(colours, wires.hash, links.hash);
        lanes.colours = number_hashes(&lanes, table, size);
        links.colours = number_hashes(&links, table, size);
        changes = lanes.colours + links.colours != before && lanes.colours <= lane_count / 2;
    }
    colours->lane_colours = lanes.colours;
    colours->link_colours = links.colours;
    colours->wire_colours = number_hashes(&wires, table, size);
    free(hashes);
    free(table);
    if (lanes.colours > lane_count / 2)
        return tutti_fail(err, TUTTI_ELACK, "at least %u of its %u lanes are different",
                          lanes.colours, lane_count);
    if (changes)
        return tutti_fail(err, TUTTI_ELACK,
                          "which lanes are alike is not settled after %d rounds of comparing them",
                          ROUNDS_MAX);
    return 0;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int take_memory(struct tutti_colours *colours, bool ordered, struct tutti_err *err)
{
    size_t wires = (size_t)colours->programs->wire_count + 1;

    colours->sender = calloc(wires, sizeof(uint32_t));
    colours->way_first = calloc(wires, sizeof(uint32_t));
    colours->type = calloc(wires, sizeof(uint32_t));
    colours->wire = calloc(wires, sizeof(uint32_t));
    colours->lane = calloc((size_t)colours->programs->lane_count + 1, sizeof(uint32_t));
    colours->link = calloc((size_t)colours->topo->link_count + 1, sizeof(uint32_t));
    colours->numbers = calloc((size_t)colours->topo->link_count + 1, sizeof(uint32_t));
    if (ordered) {
        colours->out_place = calloc(wires, sizeof(uint32_t));
        colours->in_place = calloc(wires, sizeof(uint32_t));
    }
    if (colours->sender == NULL || colours->way_first == NULL || colours->type == NULL ||
        colours->wire == NULL || colours->lane == NULL || colours->link == NULL ||
        colours->numbers == NULL ||
        (ordered && (colours->out_place == NULL || colours->in_place == NULL)))
        return tutti_nomem(err);
    return 0;
}

int tutti_colours_find(const struct tutti_topo *topo, const struct tutti_programs *programs,
                       bool ordered, struct tutti_colours *ret, struct tutti_err *err)
{
    int status;

    *ret = (struct tutti_colours){.programs = programs, .topo = topo};
    status = take_memory(ret, ordered, err);
    if (status == 0)
        status = route_all(ret, err);
    if (status == 0)
        status = refine(ret, err);
    if (status < 0)
        tutti_colours_done(ret);
    return status;
}

void tutti_colours_done(struct tutti_colours *colours)
{
    free(colours->out_place);
    free(colours->in_place);
    free(colours->sender);
    free(colours->way_first);
    free(colours->way);
    free(colours->links);
    free(colours->numbers);
    free(colours->type);
    free(colours->lane);
    free(colours->wire);
    free(colours->link);
    *colours = (struct tutti_colours){.programs = NULL};
}
