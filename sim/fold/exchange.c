/* Everybody with everybody: ranks are put into orbits of the machine's symmetry, the n (n - 1)
 * connections into orbits of pairs, each one weighted flow. As long as no connection runs out of
 * slots, all messages of a part start when the part begins, and a part that receives is over when
 * the last one is there, in whatever order they are taken.
 *
 * Price: the classes of ranks squared, however many ranks there are. */
#include "sim/fold/exchange.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/fold/orbits.h"
#include "sim/net/fair.h"
#include "sim/play/start.h"
#include "sim/play/wires.h"
#include "sim/sim.h"
#include "topo/topo.h"

enum { FLOWS_MAX = 1 << 16, PARTS_MAX = 4096 };

/* All connections of an orbit of pairs. */
struct flow {
    struct tutti_orbit_pair pair;
    tutti_ps latency_ps;
    struct tutti_pace pace;
    uint32_t arrived_count; /* messages */
};

/* All ranks of a class. */
struct party {
    uint64_t part;  /* the next one */
    uint32_t sends; /* parts that have been sent */
    uint32_t receives;
    uint32_t flow_count; /* flows to it */
    uint32_t *missing;   /* [message]: flows whose message of that number has not arrived */
};

struct play {
    const struct tutti_sim_opts *opts;
    const struct tutti_schedule *schedule;
    struct tutti_known_axes *axes;
    struct tutti_orbits orbits;
    uint32_t *colour; /* [rank] */
    uint32_t part_count;
    uint32_t message_count; /* on each connection */
    struct party *parties;
    uint32_t *missing; /* of all parties */
    struct flow *flows;
    uint32_t flow_count;
    uint32_t flow_capacity;
    uint32_t *flow_first; /* [class + 1] in flows, which are in order of their senders */
    struct tutti_net *net;
    uint64_t *link_keys; /* numbers of orbits of links, in order of being met */
    uint64_t *link_rates;
    uint32_t link_count;
    uint32_t link_capacity;
    uint32_t rate_capacity;
    uint32_t *ways; /* of each flow TUTTI_ORBIT_WAY_MAX links, weights, and how many */
    uint32_t way_capacity;
    tutti_ps now;
};

enum { WAY_WORDS = 2 * TUTTI_ORBIT_WAY_MAX + 1 };

static bool part_of_rank(const struct play *play, uint64_t part, uint32_t rank,
                         struct tutti_exchange *ret)
{
    return play->schedule->ops->exchange(play->schedule, 0, part, rank, ret);
}

/* ---- what is exchanged ----------------------------------------------------------------------- */

static int count_parts(struct play *play, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = play->schedule;
    struct tutti_exchange exchange;
    uint32_t receives = 0;

    if (schedule->ops->exchange == NULL || schedule->lane_count != 1 ||
        !part_of_rank(play, 0, 0, &exchange))
        return tutti_fail(err, TUTTI_ELACK, "'%s' is no exchange of all with all on one lane",
                          schedule->name);
    while (play->part_count < PARTS_MAX && part_of_rank(play, play->part_count, 0, &exchange)) {
        play->part_count++;
        play->message_count += exchange.sends;
        receives += !exchange.sends;
    }
    if (play->part_count == PARTS_MAX || play->message_count > schedule->slot_count ||
        receives != play->message_count)
        return tutti_fail(err, TUTTI_ELACK, "'%s': its connections run out of slots",
                          schedule->name);
    if (play->opts->reduce_bytes_per_s > 0)
        return tutti_fail(err, TUTTI_ELACK, "'%s': reductions take time", schedule->name);
    return 0;
}

static bool decide_alike(const struct play *play, uint32_t a, uint32_t b)
{
    for (uint32_t part = 0; part < play->part_count; part++) {
        struct tutti_exchange of_a;
        struct tutti_exchange of_b;

        (void)part_of_rank(play, part, a, &of_a);
        (void)part_of_rank(play, part, b, &of_b);
        if (of_a.bytes != of_b.bytes)
            return false;
    }
    return true;
}

/* Ranks are of one colour if they decide on equal lengths. */
static int colour_ranks(struct play *play, struct tutti_err *err)
{
    uint32_t first[TUTTI_ORBIT_COLOURS_MAX];
    uint32_t count = 0;

    play->colour = calloc(play->schedule->rank_count, sizeof(*play->colour));
    if (play->colour == NULL)
        return tutti_nomem(err);
    for (uint32_t rank = 0; rank < play->schedule->rank_count; rank++) {
        uint32_t colour = 0;

        while (colour < count && !decide_alike(play, first[colour], rank))
            colour++;
        if (colour == TUTTI_ORBIT_COLOURS_MAX)
            return tutti_fail(err, TUTTI_ELACK, "'%s': parts of more than %d different lengths",
                              play->schedule->name, TUTTI_ORBIT_COLOURS_MAX);
        if (colour == count)
            first[count++] = rank;
        play->colour[rank] = colour;
    }
    return 0;
}

/* ---- flows ----------------------------------------------------------------------------------- */

/* The number of the class that a link is in. */
static int find_link(struct play *play, uint32_t link, uint64_t *ret_size, uint32_t *ret,
                     struct tutti_err *err)
{
    uint64_t key = tutti_orbits_link(&play->orbits, link, ret_size);
    uint32_t i = 0;

    while (i < play->link_count && play->link_keys[i] != key)
        i++;
    if (i == play->link_count) {
        if (tutti_grow(&play->link_keys, &play->link_capacity, (uint64_t)i + 1,
                       sizeof(*play->link_keys)) < 0 ||
            tutti_grow(&play->link_rates, &play->rate_capacity, (uint64_t)i + 1,
                       sizeof(*play->link_rates)) < 0)
            return tutti_nomem(err);
        play->link_keys[i] = key;
        play->link_rates[i] = tutti_link_rate(play->opts->topo, play->opts->protocol, link);
        play->link_count++;
    }
    *ret = i;
    return 0;
}

/* Writes the way of a flow: links and how many of its connections each serves. */
static int lay_way(struct play *play, const struct flow *flow, const uint32_t *route,
                   uint32_t count, uint32_t *way, struct tutti_err *err)
{
    uint32_t *weights = way + TUTTI_ORBIT_WAY_MAX;
    uint32_t *way_count = way + 2 * (size_t)TUTTI_ORBIT_WAY_MAX;

    *way_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t size = 0;
        uint32_t link = 0;
        uint32_t at = 0;
        int status = find_link(play, route[i], &size, &link, err);

        if (status < 0)
            return status;
        while (at < *way_count && way[at] != link)
            at++;
        if (at == *way_count) {
            way[at] = link;
            weights[at] = 0;
            ++*way_count;
        }
        assert(flow->pair.count % size == 0); /* the orbit of a pair covers that of a link evenly */
        weights[at] += (uint32_t)(flow->pair.count / size);
    }
    return 0;
}

static int add_flow(struct play *play, const struct tutti_orbit_pair *pair, struct tutti_err *err)
{
    const struct tutti_topo *topo = play->opts->topo;
    uint32_t route[TUTTI_ORBIT_WAY_MAX];
    struct tutti_route_weight weight;
    uint32_t count = tutti_topo_route(topo, pair->from, pair->to, route, TUTTI_ORBIT_WAY_MAX);
    struct flow *flow;

    if (count == 0 || count > TUTTI_ORBIT_WAY_MAX || play->flow_count == FLOWS_MAX)
        return tutti_fail(err, TUTTI_ELACK, "there are too many kinds of connections");
    if (tutti_grow(&play->flows, &play->flow_capacity, (uint64_t)play->flow_count + 1,
                   sizeof(*play->flows)) < 0 ||
        tutti_grow(&play->ways, &play->way_capacity, ((uint64_t)play->flow_count + 1) * WAY_WORDS,
                   sizeof(*play->ways)) < 0)
        return tutti_nomem(err);
    flow = &play->flows[play->flow_count++];
    weight = tutti_route_weigh(topo, play->opts->protocol, route, count);
    *flow = (struct flow){.pair = *pair, .latency_ps = weight.latency_ps, .pace = weight.pace};
    play->parties[pair->to_class].flow_count++;
    return lay_way(play, flow, route, count, play->ways + (size_t)(flow - play->flows) * WAY_WORDS,
                   err);
}

static int add_flows(struct play *play, struct tutti_err *err)
{
    uint32_t count = play->orbits.class_count;
    int status = 0;

    for (uint32_t from = 0; from < count; from++) {
        play->flow_first[from] = play->flow_count;
        for (uint32_t to = 0; to < count; to++) {
            for (uint32_t same = 0; same < 4 && status == 0; same++) {
                struct tutti_orbit_pair pair;

                if (tutti_orbits_pair(&play->orbits, from, to, same, &pair))
                    status = add_flow(play, &pair, err);
            }
        }
    }
    play->flow_first[count] = play->flow_count;
    return status;
}

static int open_net(struct play *play, struct tutti_err *err)
{
    const struct tutti_net_links links = {.link_count = play->link_count,
                                          .bytes_per_s = play->link_rates};
    int status = tutti_net_fair.open(&links, &play->net, err);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < play->flow_count && status == 0; i++) {
        const uint32_t *way = play->ways + (size_t)i * WAY_WORDS;

        status = tutti_fair_connect(play->net, way, way + TUTTI_ORBIT_WAY_MAX,
                                    way[2 * TUTTI_ORBIT_WAY_MAX], play->flows[i].pace);
    }
    if (status == 0)
        status = play->net->ops->reserve(play->net, play->flow_count * play->message_count);
    return status < 0 ? tutti_nomem(err) : 0;
}

static int make(struct play *play, struct tutti_err *err)
{
    uint32_t count;
    int status = colour_ranks(play, err);

    if (status == 0)
        status = tutti_orbits_find(play->opts->topo, play->axes, play->colour, &play->orbits, err);
    if (status < 0)
        return status;
    count = play->orbits.class_count;
    if ((uint64_t)count * count * 4 > FLOWS_MAX)
        return tutti_fail(err, TUTTI_ELACK, "there are too many different ranks (%" PRIu32 ")",
                          count);
    play->parties = calloc(count, sizeof(*play->parties));
    play->missing = calloc((size_t)count * play->message_count, sizeof(*play->missing));
    play->flow_first = calloc((size_t)count + 1, sizeof(*play->flow_first));
    if (play->parties == NULL || play->missing == NULL || play->flow_first == NULL)
        return tutti_nomem(err);
    status = add_flows(play, err);
    for (uint32_t class = 0; class < count; class ++) {
        struct party *party = &play->parties[class];

        party->missing = play->missing + (size_t) class * play->message_count;
        for (uint32_t i = 0; i < play->message_count; i++)
            party->missing[i] = party->flow_count;
    }
    return status < 0 ? status : open_net(play, err);
}

/* ---- the run --------------------------------------------------------------------------------- */

static void send_part(struct play *play, uint32_t class)
{
    struct party *party = &play->parties[class];

    for (uint32_t i = play->flow_first[class]; i < play->flow_first[class + 1]; i++) {
        const struct flow *flow = &play->flows[i];
        struct tutti_exchange exchange;

        (void)part_of_rank(play, party->part, flow->pair.from, &exchange);
        if (!exchange.by_sender)
            (void)part_of_rank(play, party->part, flow->pair.to, &exchange);
        play->net->ops->start(play->net,
                              &(struct tutti_net_send){
                                  .message = i * play->message_count + party->sends,
                                  .connection = i,
                                  .bytes = tutti_wire_bytes(play->opts->protocol, exchange.bytes),
                                  .latency_ps = flow->latency_ps},
                              play->now);
    }
    party->sends++;
}

/* Takes a class through its parts as far as it gets. */
static void go_on(struct play *play, uint32_t class)
{
    struct party *party = &play->parties[class];
    struct tutti_exchange exchange;

    for (; part_of_rank(play, party->part, 0, &exchange); party->part++) {
        if (exchange.sends)
            send_part(play, class);
        else if (party->missing[party->receives] > 0)
            return;
        else
            party->receives++;
    }
}

static int run(struct play *play, struct tutti_err *err)
{
    tutti_ps at_ps;

    for (uint32_t class = 0; class < play->orbits.class_count; class ++)
        go_on(play, class);
    while (play->net->ops->next(play->net, play->now, &at_ps)) {
        uint32_t message;

        play->now = at_ps;
        while ((message = play->net->ops->arrived(play->net, play->now)) != TUTTI_MESSAGE_NONE) {
            struct flow *flow = &play->flows[message / play->message_count];
            uint32_t class = flow->pair.to_class;

            if (--play->parties[class].missing[flow->arrived_count++] == 0)
                go_on(play, class);
        }
    }
    for (uint32_t class = 0; class < play->orbits.class_count; class ++) {
        if (play->parties[class].receives < play->message_count)
            return tutti_fail(err, TUTTI_ELACK, "'%s': ranks wait for each other",
                              play->schedule->name);
    }
    return 0;
}

static void done(struct play *play)
{
    tutti_orbits_done(&play->orbits);
    if (play->net != NULL)
        play->net->ops->close(play->net);
    free(play->colour);
    free(play->parties);
    free(play->missing);
    free(play->flows);
    free(play->flow_first);
    free(play->link_keys);
    free(play->link_rates);
    free(play->ways);
}

int tutti_exchange_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                        uint64_t step_count_max, struct tutti_known_axes *axes,
                        struct tutti_folded *ret, struct tutti_err *err)
{
    tutti_ps launch_ps = opts->protocol != NULL ? opts->protocol->launch_ps : 0;
    struct play play = {.opts = opts,
                        .schedule = schedule,
                        .axes = axes,
                        .now = tutti_rank_begin_ps(opts, 0, launch_ps)};
    int status = count_parts(&play, err);

    if (status == 0)
        status = make(&play, err);
    if (status == 0 && step_count_max > 0 &&
        (uint64_t)play.flow_count * play.message_count > step_count_max)
        status =
            tutti_fail(err, TUTTI_ELACK, "it takes more than %" PRIu64 " steps to simulate, folded",
                       step_count_max);
    if (status == 0)
        status = run(&play, err);
    if (status == 0)
        *ret = (struct tutti_folded){.end_ps = play.now,
                                     .step_count = schedule->rank_count *
                                                   tutti_schedule_step_count(schedule, 0, 0),
                                     .class_count = play.orbits.class_count};
    done(&play);
    return status;
}
