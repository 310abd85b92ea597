/* Perturbing the links of a machine, item by item; see topo/perturb.h. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "topo/perturb.h"
#include "topo/perturb/draw.h"
#include "topo/perturb/names.h"

enum { MILLION = 1000000 };

struct pass {
    struct tutti_topo *topo;
    struct tutti_perturb_item *item;
    uint64_t key;
};

/* The one place that writes to a machine that is frozen: its owner asked for it, and nobody else
 * has read it yet. */
static void rewrite(struct pass *pass, uint32_t index, uint64_t bytes_per_s, tutti_ps latency_ps)
{
    struct tutti_link *links = (struct tutti_link *)(uintptr_t)pass->topo->links;

    assert(bytes_per_s > 0);
    assert(latency_ps >= 0);
    links[index].bytes_per_s = bytes_per_s;
    links[index].latency_ps = latency_ps;
    pass->item->link_count++;
}

/* rate * up / down to the nearest, from 1 to what a link may have. */
static uint64_t scale_rate(uint64_t bytes_per_s, uint64_t up, uint64_t down)
{
    tutti_u128 scaled = ((tutti_u128)bytes_per_s * up + down / 2) / down;

    if (scaled > INT64_MAX)
        return INT64_MAX;
    return scaled > 0 ? (uint64_t)scaled : 1;
}

static tutti_ps scale_latency(tutti_ps latency_ps, uint64_t factor_q32)
{
    tutti_u128 scaled = ((tutti_u128)(uint64_t)latency_ps * factor_q32 + (UINT64_C(1) << 31)) >> 32;

    return scaled > INT64_MAX ? INT64_MAX : (tutti_ps)scaled;
}

static void slow_down(struct pass *pass, uint32_t index)
{
    const struct tutti_link *link = &pass->topo->links[index];

    rewrite(pass, index, scale_rate(link->bytes_per_s, MILLION, pass->item->factors[0]),
            link->latency_ps);
}

/* ---- every cable ----------------------------------------------------------------------------- */

/* The same for both directions of a cable. */
static uint64_t cable_hash(const void *context, uint32_t index)
{
    const struct pass *pass = context;
    const struct tutti_link *link = &pass->topo->links[index];
    bool upward = link->from < link->to;

    return tutti_random_hash(pass->key, upward ? link->from : link->to,
                             upward ? link->to : link->from, 0);
}

static void perturb_rates(struct pass *pass)
{
    const struct tutti_perturb_item *item = pass->item;

    for (uint32_t l = 0; l < pass->topo->link_count; l++) {
        const struct tutti_link *link = &pass->topo->links[l];
        uint64_t place = tutti_perturb_scale(cable_hash(pass, l), item->factor_count - 1);

        rewrite(pass, l, scale_rate(link->bytes_per_s, item->factors[place], MILLION),
                link->latency_ps);
    }
}

/* The factor in 1 / 2^32: millionths would be too coarse to make latencies differ. */
static void perturb_latencies(struct pass *pass)
{
    uint64_t low_q32 = (uint64_t)(((tutti_u128)pass->item->factors[0] << 32) / MILLION);
    uint64_t high_q32 = (uint64_t)(((tutti_u128)pass->item->factors[1] << 32) / MILLION);

    for (uint32_t l = 0; l < pass->topo->link_count; l++) {
        const struct tutti_link *link = &pass->topo->links[l];
        uint64_t factor_q32 =
            low_q32 + tutti_perturb_scale(cable_hash(pass, l), high_q32 - low_q32);

        rewrite(pass, l, link->bytes_per_s, scale_latency(link->latency_ps, factor_q32));
    }
}

/* ---- some cables ----------------------------------------------------------------------------- */

static void slow_between(struct pass *pass, uint32_t from, uint32_t to)
{
    const struct tutti_topo *topo = pass->topo;

    for (uint32_t k = topo->out_first[from]; k < topo->out_first[from + 1]; k++) {
        if (topo->links[topo->out_links[k]].to == to)
            slow_down(pass, topo->out_links[k]);
    }
}

static int slow_named_link(struct pass *pass, struct tutti_err *err)
{
    uint32_t a = 0;
    uint32_t b = 0;
    int status = tutti_perturb_cable(pass->topo, pass->item, &a, &b, err);

    if (status < 0)
        return status;
    slow_between(pass, a, b);
    slow_between(pass, b, a);
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

    for (uint64_t i = 0; i < count; i++)
        slow_down(pass, drawn[i]);
    if (count > 0)
        (void)snprintf(pass->item->first, sizeof(pass->item->first), "%s-%s",
                       topo->nodes[topo->links[drawn[0]].from].name,
                       topo->nodes[topo->links[drawn[0]].to].name);
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
static void slow_marked(struct pass *pass, const bool *marks)
{
    for (uint32_t l = 0; l < pass->topo->link_count; l++) {
        const struct tutti_link *link = &pass->topo->links[l];

        if (marks[link->from] || marks[link->to])
            slow_down(pass, l);
    }
}

static int mark_named(struct pass *pass, bool *marks, struct tutti_err *err)
{
    struct tutti_perturb_item *item = pass->item;
    const struct tutti_topo *topo = pass->topo;
    uint32_t node = 0;
    uint32_t host = 0;
    int status = tutti_perturb_node(topo, item, &node, &host, err);

    for (uint32_t v = 0; v < topo->node_count && status == 0; v++)
        marks[v] = v == node || (host != UINT32_MAX && topo->nodes[v].host == host);
    item->host_count = 1;
    (void)snprintf(item->first, sizeof(item->first), "%s", item->name);
    return status;
}

static void mark_hosts(const struct tutti_topo *topo, const bool *slow, bool *marks)
{
    for (uint32_t v = 0; v < topo->node_count; v++)
        marks[v] = topo->nodes[v].host != UINT32_MAX && slow[topo->nodes[v].host];
}

/* Hosts, or devices where there are no hosts. */
static int mark_drawn(struct pass *pass, bool *marks, struct tutti_err *err)
{
    struct tutti_perturb_item *item = pass->item;
    const struct tutti_topo *topo = pass->topo;
    bool hosts = topo->host_count > 0;
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
            marks[topo->rank_node[drawn[i]]] = true;
    }
    if (item->host_count > 0 && hosts)
        (void)snprintf(item->first, sizeof(item->first), "host%" PRIu32, drawn[0]);
    else if (item->host_count > 0)
        (void)snprintf(item->first, sizeof(item->first), "%s",
                       topo->nodes[topo->rank_node[drawn[0]]].name);
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
        slow_marked(pass, marks);
    free(marks);
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int perturb_item(struct tutti_topo *topo, struct tutti_perturb_item *item, uint64_t seed,
                        struct tutti_err *err)
{
    struct pass pass = {.topo = topo, .item = item, .key = tutti_perturb_key(item, seed)};

    item->host_count = item->link_count = 0;
    switch (item->kind) {
    case TUTTI_PERTURB_RATES:
        perturb_rates(&pass);
        return 0;
    case TUTTI_PERTURB_SLOW_NODE:
        return slow_nodes(&pass, err);
    case TUTTI_PERTURB_SLOW_LINK:
        return item->whom == TUTTI_PERTURB_NAMED ? slow_named_link(&pass, err)
                                                 : slow_drawn_links(&pass, err);
    case TUTTI_PERTURB_LATENCY:
        perturb_latencies(&pass);
        return 0;
    case TUTTI_PERTURB_START:
    case TUTTI_PERTURB_KIND_COUNT:
        break;
    }
    return 0;
}

/* "...; perturbed: slow-link=1:2, latency=1..1.2 (seed 42)" */
static int say_so(struct tutti_topo *topo, const struct tutti_perturb *perturb, uint64_t seed,
                  struct tutti_err *err)
{
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
