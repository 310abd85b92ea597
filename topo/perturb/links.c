/* Perturbing the links of a machine, item by item; see topo/perturb.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "topo/graph/routes.h"
#include "topo/perturb.h"
#include "topo/perturb/draw.h"
#include "topo/perturb/names.h"

enum { MILLION = 1000000 };

/* Links in a row, as most are asked for one after the other. */
struct nearby {
    uint32_t first;
    uint32_t count;
    struct tutti_link links[TUTTI_LINK_BLOCK];
};

struct pass {
    struct nearby *nearby; /* of the machine before this item */
    struct tutti_topo *topo;
    struct tutti_perturb_item *item;
    uint64_t key;
    const uint32_t *links; /* those that become slow, by index */
};

/* rate * up / down to the nearest, from 1 to what a link may have. */
static uint64_t scale_rate(uint64_t bytes_per_s, uint64_t up, uint64_t down)
{
    uint64_t scaled = tutti_muldiv_near(bytes_per_s, up, down);

    if (scaled > INT64_MAX)
        return INT64_MAX;
    return scaled > 0 ? scaled : 1;
}

static tutti_ps scale_latency(tutti_ps latency_ps, uint64_t factor_q32)
{
    uint64_t scaled = tutti_muldiv_near((uint64_t)latency_ps, factor_q32, UINT64_C(1) << 32);

    return scaled > INT64_MAX ? INT64_MAX : (tutti_ps)scaled;
}

static struct tutti_link link_of(const struct pass *pass, uint32_t index)
{
    struct nearby *nearby = pass->nearby;

    if (index - nearby->first >= nearby->count) {
        nearby->first = index;
        nearby->count = tutti_topo_links(pass->topo, index, nearby->links, TUTTI_LINK_BLOCK);
    }
    return nearby->links[index - nearby->first];
}

/* A slow link, of those whose numbers are in pass->links. */
static void slow_link(const void *context, uint32_t index, struct tutti_link_change *ret)
{
    const struct pass *pass = context;
    uint32_t l = pass->links[index];
    struct tutti_link link = tutti_topo_link(pass->topo, l);

    *ret = (struct tutti_link_change){
        .link = l,
        .bytes_per_s = scale_rate(link.bytes_per_s, MILLION, pass->item->factors[0]),
        .latency_ps = link.latency_ps};
}

static int compare_links(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left;
    uint32_t b = *(const uint32_t *)right;

    return (a > b) - (a < b);
}

/* In any order, each once. */
static int slow_down(struct pass *pass, uint32_t *links, uint32_t count, struct tutti_err *err)
{
    if (count > 1)
        qsort(links, count, sizeof(*links), compare_links);
    pass->links = links;
    pass->item->link_count += count;
    return tutti_topo_change_links(pass->topo, count, slow_link, pass, err);
}

/* ---- every cable ----------------------------------------------------------------------------- */

/* The same for both directions of a cable. */
static uint64_t cable_hash(const void *context, uint32_t index)
{
    const struct pass *pass = context;
    struct tutti_link link = link_of(pass, index);
    bool upward = link.from < link.to;

    return tutti_random_hash(pass->key, upward ? link.from : link.to, upward ? link.to : link.from,
                             0);
}

static void other_rate(const void *context, uint32_t index, struct tutti_link_change *ret)
{
    const struct pass *pass = context;
    const struct tutti_perturb_item *item = pass->item;
    struct tutti_link link = link_of(pass, index);
    uint64_t place = tutti_perturb_scale(cable_hash(pass, index), item->factor_count - 1);

    *ret = (struct tutti_link_change){
        .link = index,
        .bytes_per_s = scale_rate(link.bytes_per_s, item->factors[place], MILLION),
        .latency_ps = link.latency_ps};
}

/* The factor in 1 / 2^32: millionths would be too coarse to make latencies differ. */
static void other_latency(const void *context, uint32_t index, struct tutti_link_change *ret)
{
    const struct pass *pass = context;
    struct tutti_link link = link_of(pass, index);
    uint64_t low_q32 = tutti_muldiv(pass->item->factors[0], UINT64_C(1) << 32, MILLION);
    uint64_t high_q32 = tutti_muldiv(pass->item->factors[1], UINT64_C(1) << 32, MILLION);
    uint64_t factor_q32 =
        low_q32 + tutti_perturb_scale(cable_hash(pass, index), high_q32 - low_q32);

    *ret = (struct tutti_link_change){.link = index,
                                      .bytes_per_s = link.bytes_per_s,
                                      .latency_ps = scale_latency(link.latency_ps, factor_q32)};
}

/* All links. */
static int perturb_all(struct pass *pass,
                       void (*change)(const void *, uint32_t, struct tutti_link_change *),
                       struct tutti_err *err)
{
    pass->item->link_count = pass->topo->link_count;
    return tutti_topo_change_links(pass->topo, pass->topo->link_count, change, pass, err);
}

/* ---- some cables ----------------------------------------------------------------------------- */

static uint32_t links_between(const struct tutti_topo *topo, uint32_t from, uint32_t to,
                              uint32_t *links)
{
    uint32_t count = 0;

    for (uint32_t k = 0; k < tutti_topo_out_count(topo, from); k++) {
        uint32_t l = tutti_topo_out_link(topo, from, k);

        if (tutti_topo_link(topo, l).to == to)
            links[count++] = l;
    }
    return count;
}

static int slow_named_link(struct pass *pass, struct tutti_err *err)
{
    uint32_t a = 0;
    uint32_t b = 0;
    uint32_t links[2 * TUTTI_LINK_KIND_COUNT]; /* freeze has made one of those of a kind */
    uint32_t count;
    int status = tutti_perturb_cable(pass->topo, pass->item, &a, &b, err);

    if (status < 0)
        return status;
    count = links_between(pass->topo, a, b, links);
    count += links_between(pass->topo, b, a, links + count);
    status = slow_down(pass, links, count, err);
    if (status < 0)
        return status;
    (void)snprintf(pass->item->first, sizeof(pass->item->first), "%s", pass->item->name);
    return 0;
}

static int slow_drawn_links(struct pass *pass, struct tutti_err *err)
{
    const struct tutti_topo *topo = pass->topo;
    struct tutti_crowd crowd = {
        .hash = cable_hash, .context = pass, .count = topo->link_count, .name = "cables"};
    uint32_t *drawn = NULL;
    uint64_t count = 0;
    int status = tutti_perturb_draw(&crowd, pass->item, &drawn, &count, err);

    if (count > 0) {
        struct tutti_link link = tutti_topo_link(topo, drawn[0]);
        char from[TUTTI_NODE_NAME_BYTES];
        char to[TUTTI_NODE_NAME_BYTES];

        (void)snprintf(pass->item->first, sizeof(pass->item->first), "%s-%s",
                       tutti_topo_node_name(topo, link.from, from),
                       tutti_topo_node_name(topo, link.to, to));
        status = slow_down(pass, drawn, (uint32_t)count, err);
    }
    free(drawn);
    return status;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Of host or rank `index`. */
static uint64_t number_hash(const void *context, uint32_t index)
{
    return tutti_random_hash(((const struct pass *)context)->key, index, 0, 0);
}

/* All links that begin or end at a node with its mark set. */
static int slow_marked(struct pass *pass, const bool *marks, struct tutti_err *err)
{
    struct tutti_link block[TUTTI_LINK_BLOCK];
    uint32_t *links = malloc(((size_t)pass->topo->link_count + 1) * sizeof(*links));
    uint32_t count = 0;
    int status;

    if (links == NULL)
        return tutti_nomem(err);
    for (uint32_t l = 0; l < pass->topo->link_count; l += TUTTI_LINK_BLOCK) {
        uint32_t some = tutti_topo_links(pass->topo, l, block, TUTTI_LINK_BLOCK);

        for (uint32_t i = 0; i < some; i++)
            if (marks[block[i].from] || marks[block[i].to])
                links[count++] = l + i; /* the rest of the memory is never touched */
    }
    status = slow_down(pass, links, count, err);
    free(links);
    return status;
}

static int mark_named(struct pass *pass, bool *marks, struct tutti_err *err)
{
    struct tutti_perturb_item *item = pass->item;
    const struct tutti_topo *topo = pass->topo;
    uint32_t node = 0;
    uint32_t host = 0;
    int status = tutti_perturb_node(topo, item, &node, &host, err);

    for (uint32_t v = 0; v < topo->node_count && status == 0; v++)
        marks[v] = v == node || (host != UINT32_MAX && tutti_topo_node(topo, v).host == host);
    item->host_count = 1;
    (void)snprintf(item->first, sizeof(item->first), "%s", item->name);
    return status;
}

static void mark_hosts(const struct tutti_topo *topo, const bool *slow, bool *marks)
{
    for (uint32_t v = 0; v < topo->node_count; v++) {
        uint32_t host = tutti_topo_node(topo, v).host;

        marks[v] = host != UINT32_MAX && slow[host];
    }
}

/* Hosts, or devices where there are no hosts. */
static int mark_drawn(struct pass *pass, bool *marks, struct tutti_err *err)
{
    struct tutti_perturb_item *item = pass->item;
    const struct tutti_topo *topo = pass->topo;
    bool hosts = topo->host_count > 0;
    char name[TUTTI_NODE_NAME_BYTES];
    struct tutti_crowd crowd = {.hash = number_hash,
                                .context = pass,
                                .count = hosts ? topo->host_count : topo->rank_count,
                                .name = hosts ? "hosts" : "devices"};
    bool *slow = calloc((size_t)topo->host_count + 1, sizeof(*slow));
    uint32_t *drawn = NULL;
    int status = slow == NULL ? tutti_nomem(err)
                              : tutti_perturb_draw(&crowd, item, &drawn, &item->host_count, err);

    for (uint64_t i = 0; i < item->host_count; i++) {
        if (hosts)
            slow[drawn[i]] = true;
        else
            marks[tutti_topo_rank_node(topo, drawn[i])] = true;
    }
    if (item->host_count > 0 && hosts)
        (void)snprintf(item->first, sizeof(item->first), "host%" PRIu32, drawn[0]);
    else if (item->host_count > 0)
        (void)snprintf(item->first, sizeof(item->first), "%s",
                       tutti_topo_node_name(topo, tutti_topo_rank_node(topo, drawn[0]), name));
    if (slow != NULL && hosts)
        mark_hosts(topo, slow, marks);
    free(drawn);
    free(slow);
    return status;
}

static int slow_nodes(struct pass *pass, struct tutti_err *err)
{
    bool *marks = calloc(pass->topo->node_count, sizeof(*marks));
    int status;

    if (marks == NULL)
        return tutti_nomem(err);
    status = pass->item->whom == TUTTI_PERTURB_NAMED ? mark_named(pass, marks, err)
                                                     : mark_drawn(pass, marks, err);
    if (status == 0)
        status = slow_marked(pass, marks, err);
    free(marks);
    return status;
}

/* ---- routes ---------------------------------------------------------------------------------- */

static int draw_routes(struct pass *pass, struct tutti_err *err)
{
    int status = tutti_perturb_check_item(pass->topo, pass->item, err);

    return status < 0 ? status : tutti_topo_routes_draw(pass->topo, pass->key, err);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int perturb_item(struct tutti_topo *topo, struct tutti_perturb_item *item, uint64_t seed,
                        struct tutti_err *err)
{
    struct nearby nearby = {.count = 0};
    struct pass pass = {
        .nearby = &nearby, .topo = topo, .item = item, .key = tutti_perturb_key(item, seed)};

    item->host_count = item->link_count = 0;
    switch (item->kind) {
    case TUTTI_PERTURB_RATES:
        return perturb_all(&pass, other_rate, err);
    case TUTTI_PERTURB_SLOW_NODE:
        return slow_nodes(&pass, err);
    case TUTTI_PERTURB_SLOW_LINK:
        return item->whom == TUTTI_PERTURB_NAMED ? slow_named_link(&pass, err)
                                                 : slow_drawn_links(&pass, err);
    case TUTTI_PERTURB_LATENCY:
        return perturb_all(&pass, other_latency, err);
    case TUTTI_PERTURB_ECMP:
        return draw_routes(&pass, err);
    case TUTTI_PERTURB_START:
    case TUTTI_PERTURB_KIND_COUNT:
        break;
    }
    return 0;
}

/* "...; perturbed: slow-link=1:2, latency=1..1.2 (seed 42)"; its name is its own as well. */
static int say_so(struct tutti_topo *topo, const struct tutti_perturb *perturb, uint64_t seed,
                  struct tutti_err *err)
{
    static const char suffix[] = ", perturbed";
    size_t room = strlen(topo->source) + (perturb->item_count + 1) * (TUTTI_PERTURB_TEXT_BYTES + 8);
    char *text = tutti_arena_take(topo->arena, room, 1);
    size_t used = 0;

    if (text == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < perturb->item_count; i++) {
        if (perturb->items[i].kind == TUTTI_PERTURB_START)
            continue;
        used += (size_t)snprintf(text + used, room - used, "%s%s%s", used == 0 ? topo->source : "",
                                 used == 0 ? "; perturbed: " : ", ", perturb->items[i].text);
    }
    if (used == 0)
        return 0;
    (void)snprintf(text + used, room - used, " (seed %" PRIu64 ")", seed);
    topo->source = text;
    topo->is_preset = false;
    room = strlen(topo->name);
    if (room >= strlen(suffix) && strcmp(topo->name + room - strlen(suffix), suffix) == 0)
        return 0;
    room += sizeof(suffix);
    text = tutti_arena_take(topo->arena, room, 1);
    if (text == NULL)
        return tutti_nomem(err);
    (void)snprintf(text, room, "%s%s", topo->name, suffix);
    topo->name = text;
    return 0;
}

int tutti_topo_perturb(struct tutti_topo *topo, struct tutti_perturb *perturb, uint64_t seed,
                       struct tutti_err *err)
{
    for (unsigned kind = 0; kind < TUTTI_PERTURB_KIND_COUNT; kind++) {
        for (uint32_t i = 0; i < perturb->item_count; i++) {
            struct tutti_perturb_item *item = &perturb->items[i];
            int status = item->kind == kind ? perturb_item(topo, item, seed, err) : 0;

            if (status < 0)
                return status;
        }
    }
    return say_so(topo, perturb, seed, err);
}

int tutti_perturb_starts(struct tutti_perturb *perturb, uint64_t seed, uint32_t rank_count,
                         tutti_ps **ret, struct tutti_err *err)
{
    struct tutti_perturb_item *item = NULL;
    tutti_ps *starts;
    uint64_t key;

    for (uint32_t i = 0; i < perturb->item_count; i++)
        item = perturb->items[i].kind == TUTTI_PERTURB_START ? &perturb->items[i] : item;
    if (item == NULL) {
        *ret = NULL;
        return 0;
    }
    starts = malloc(((size_t)rank_count + 1) * sizeof(*starts));
    if (starts == NULL)
        return tutti_nomem(err);
    key = tutti_perturb_key(item, seed);
    item->rank_count = 0;
    for (uint32_t rank = 0; rank < rank_count; rank++) {
        starts[rank] = (tutti_ps)tutti_perturb_scale(tutti_random_hash(key, rank, 0, 0),
                                                     (uint64_t)item->start_ps_max);
        item->rank_count += starts[rank] > 0;
    }
    *ret = starts;
    return 0;
}
