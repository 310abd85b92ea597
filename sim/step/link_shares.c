/* What part of the rates of links a collective uses while it is played alone: bytes counted on the
 * programs of the ranks of some hosts, on the routes that their messages take. */
#include <stdlib.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/protocol.h"
#include "sim/step/price.h"
#include "sim/step/tuples.h"
#include "topo/topo.h"

/* Hosts looked at, evenly from the first rank's to the last's; steps of which one host is enough;
 * steps counted at most; and links of a route at most. */
enum { HOSTS = 3, STEPS_ENOUGH = 200000, STEPS_MAX = 4000000, ROUTE_MAX = 64 };

struct counter {
    const struct tutti_topo *topo;
    const struct tutti_schedule *s;
    struct tutti_tuples pairs; /* (rank, peer) */
    struct tutti_tuples links; /* of the hosts */
    uint64_t *bytes;           /* [pair], then reused by [link] */
    uint32_t capacity;
    uint64_t steps;
};

static int add(struct counter *c, struct tutti_tuples *tuples, const uint64_t *words, size_t count,
               uint64_t bytes)
{
    uint32_t number = tutti_tuples_number(tuples, words, count);

    if (number == UINT32_MAX)
        return -TUTTI_ENOMEM;
    if (number >= c->capacity) {
        uint32_t capacity = 2 * number + 64;
        uint64_t *larger = realloc(c->bytes, capacity * sizeof(*larger));

        if (larger == NULL)
            return -TUTTI_ENOMEM;
        for (uint32_t i = c->capacity; i < capacity; i++)
            larger[i] = 0;
        c->bytes = larger;
        c->capacity = capacity;
    }
    c->bytes[number] += bytes;
    return 0;
}

/* What a round of a lane sends, so many times. */
static int read_round(struct counter *c, uint32_t rank, uint32_t lane, uint64_t number,
                      uint64_t times)
{
    struct tutti_round round;
    int status = 0;

    round.step_count = 0;
    c->s->ops->emit(c->s, rank, lane, number, &round);
    c->steps += round.step_count * times;
    for (uint32_t i = 0; i < round.step_count && status == 0; i++) {
        const struct tutti_step *step = &round.step[i];
        const uint64_t pair[2] = {rank, step->peer};

        if (step->kind == TUTTI_SEND)
            status = add(c, &c->pairs, pair, 2, step->bytes * times);
    }
    return status;
}

/* All that a lane sends, of rounds that repeat one period for all; false: too many steps. */
static bool read_lane(struct counter *c, uint32_t rank, uint32_t lane, int *ret_status)
{
    const struct tutti_schedule_ops *ops = c->s->ops;
    uint64_t count = ops->round_count(c->s, rank, lane);
    uint64_t run;

    for (uint64_t round = 0; round < count && *ret_status == 0; round += run) {
        uint64_t period = 1;

        run = ops->steady != NULL ? ops->steady(c->s, rank, lane, round, &period) : 0;
        if (run <= 2 * period)
            run = period = 1;
        for (uint64_t i = 0; i < period && *ret_status == 0; i++)
            *ret_status =
                read_round(c, rank, lane, round + i, run / period + (i < run % period ? 1 : 0));
        if (c->steps > STEPS_MAX)
            return false;
    }
    return true;
}

/* Of the links on the routes of a host's messages, those that leave a node of the host. */
static int load_links(struct counter *c, uint32_t host)
{
    uint64_t *bytes = c->bytes;
    uint32_t pair_count = c->pairs.count;
    int status = 0;

    c->bytes = NULL;
    c->capacity = 0;
    for (uint32_t i = 0; i < pair_count && status == 0; i++) {
        const uint64_t *pair = &c->pairs.words[c->pairs.first[i]];
        uint32_t links[ROUTE_MAX];
        uint32_t count =
            tutti_topo_route(c->topo, (uint32_t)pair[0], (uint32_t)pair[1], links, ROUTE_MAX);
        uint32_t own = tutti_topo_rank_node(c->topo, (uint32_t)pair[0]);

        for (uint32_t k = 0; k < count && k < ROUTE_MAX && status == 0; k++) {
            const uint64_t word = links[k];
            uint32_t from = tutti_topo_link(c->topo, links[k]).from;

            if (from == own || (host != UINT32_MAX && tutti_topo_node(c->topo, from).host == host))
                status = add(c, &c->links, &word, 1, bytes[i]);
        }
    }
    free(bytes);
    return status;
}

/* Where the share of a link goes: its direction on a torus or mesh, else its kind. */
static uint32_t place_of(const struct tutti_topo *topo, const struct tutti_link *link)
{
    const struct tutti_shape *shape = &topo->shape;
    uint32_t from = tutti_topo_node(topo, link->from).rank;
    uint32_t to = tutti_topo_node(topo, link->to).rank;

    if (from == TUTTI_RANK_NONE || to == TUTTI_RANK_NONE || shape->dim_count > TUTTI_SHARE_DIMS)
        return TUTTI_SHARE_DIRECTIONS + link->kind;
    for (uint32_t d = 0; d < shape->dim_count; d++) {
        uint32_t size = shape->dim[d];
        uint32_t steps = (to % size + size - from % size) % size;

        if (steps != 0)
            return 2 * d + (steps <= size / 2);
        from /= size;
        to /= size;
    }
    return TUTTI_SHARE_DIRECTIONS + link->kind;
}

static void take_shares(const struct counter *c, const struct tutti_protocol *protocol,
                        struct tutti_call_price *ret)
{
    for (uint32_t i = 0; i < c->links.count; i++) {
        uint32_t index = (uint32_t)c->links.words[c->links.first[i]];
        struct tutti_link link = tutti_topo_link(c->topo, index);
        uint32_t *place = &ret->link_share[place_of(c->topo, &link)];
        uint64_t bytes = c->bytes[i];
        tutti_ps busy;
        uint64_t share;

        if (protocol != NULL && protocol->wire_den > 0)
            bytes = tutti_muldiv(bytes, protocol->wire_num, protocol->wire_den);
        busy = tutti_wire_ps(bytes, link.bytes_per_s);
        share = busy >= ret->alone_ps
                    ? TUTTI_SHARE_ONE
                    : tutti_muldiv((uint64_t)busy, TUTTI_SHARE_ONE, (uint64_t)ret->alone_ps);
        *place = share > *place ? (uint32_t)share : *place;
    }
}

/* The host of a rank; false: it has too many steps to be read. */
static bool count_host(struct counter *c, uint32_t rank, const struct tutti_protocol *protocol,
                       struct tutti_call_price *ret, int *ret_status)
{
    uint32_t host = tutti_topo_node(c->topo, tutti_topo_rank_node(c->topo, rank)).host;
    uint32_t first = rank;
    uint32_t last = rank;
    bool read = true;

    while (host != UINT32_MAX && first > 0 &&
           tutti_topo_node(c->topo, tutti_topo_rank_node(c->topo, first - 1)).host == host)
        first--;
    while (host != UINT32_MAX && last + 1 < c->s->rank_count &&
           tutti_topo_node(c->topo, tutti_topo_rank_node(c->topo, last + 1)).host == host)
        last++;
    for (rank = first; rank <= last && read && *ret_status == 0; rank++)
        for (uint32_t lane = 0; lane < c->s->lane_count && read && *ret_status == 0; lane++)
            read = read_lane(c, rank, lane, ret_status);
    if (read && *ret_status == 0)
        *ret_status = load_links(c, host);
    if (read && *ret_status == 0)
        take_shares(c, protocol, ret);
    tutti_tuples_clear(&c->pairs);
    tutti_tuples_clear(&c->links);
    for (uint32_t i = 0; i < c->capacity; i++)
        c->bytes[i] = 0;
    return read;
}

int tutti_step_link_shares(const struct tutti_step_opts *opts,
                           const struct tutti_schedule *schedule, struct tutti_call_price *ret,
                           struct tutti_err *err)
{
    struct counter c = {.topo = opts->topo, .s = schedule};
    int status = 0;

    if (ret->alone_ps <= 0)
        return 0;
    for (uint32_t i = 0; i < HOSTS && status == 0; i++) {
        uint64_t rank = (uint64_t)(schedule->rank_count - 1) * i / (HOSTS - 1);

        if (i > 0 && (schedule->rank_count == 1 || c.steps > STEPS_ENOUGH))
            break;
        if (!count_host(&c, (uint32_t)rank, opts->protocol, ret, &status))
            break;
    }
    tutti_tuples_done(&c.pairs);
    tutti_tuples_done(&c.links);
    free(c.bytes);
    return status < 0 ? tutti_nomem(err) : 0;
}
