/* Rings of short chunks. A chunk and its messages, one after another round the ring, are a chain;
 * chain c begins at seat c, and its message t is what seat c + t sends in round t. If nothing else
 * holds it up, a chain takes the latencies of its links, and what its bytes need where links are
 * shared with other chains' bytes or connections are paced; chains without bytes, the most where
 * data are few, take the latencies alone. So only chains with bytes are simulated. (Slices, see
 * struct tutti_pace, count as latencies.)
 *
 * Let `late` be the most by which any chain exceeds its latencies. Nothing else holds a chain up if
 * - every latency, less the longest slice, is at least `late`: seat x is through with round t - 1,
 *   chain c + 1, when round t arrives: chain c began one link before it, and neither is later than
 *   `late`. For the same reason a message finds its connection empty when its slice begins;
 * - any slot_count links in a row have latencies of at least the largest one and `late`: then the
 *   message so many rounds ago was taken before.
 * Both are checked afterwards; where they hold this is the one course that fulfils all rules.
 *
 * On machines made of equal parts a ring may look the same a number of seats further on; then
 * chains that begin that far apart are one. Price: the rounds times the chains with bytes that
 * differ. */
#include "sim/fold/chains.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/net/fair.h"
#include "sim/play/start.h"
#include "sim/play/wires.h"
#include "sim/sim.h"
#include "topo/topo.h"

#define NONE UINT32_MAX

enum { WAY_MAX = 64 };

struct chain {
    uint32_t lane;
    uint32_t seat;  /* where it begins, below the period */
    uint64_t round; /* of the message under way */
    uint64_t bytes; /* on the wire */
};

struct chains {
    const struct tutti_sim_opts *opts;
    const struct tutti_schedule *schedule;
    struct tutti_ring_phase phase; /* of lane 0: all have as many seats and rounds */
    uint32_t period;               /* seats after which rings repeat */
    uint32_t axis;                 /* along which the repetitions lie; NONE: there are none */
    tutti_ps *latency_ps;          /* [lane * period + seat]: from the seat to the next */
    uint64_t *bytes_per_s;         /* [likewise]: of its pace */
    struct chain *chains;          /* those with bytes */
    uint32_t chain_count;
    uint32_t chain_capacity;
    uint64_t *link_keys; /* of links met, and their rates */
    uint64_t *link_rates;
    uint32_t *link_table; /* [table_size] link + 1, or 0 */
    uint32_t table_size;
    uint32_t link_count;
    uint32_t link_capacity;
    uint32_t rate_capacity;
    struct tutti_net *net;
    tutti_ps begin_ps;
    tutti_ps latency_min_ps;
    tutti_ps latency_max_ps;
    tutti_ps slice_max_ps;
    tutti_ps late_ps;
    tutti_ps end_ps;
};

/* ---- rings ----------------------------------------------------------------------------------- */

static bool chunk_of(const struct chains *chains, uint32_t lane, uint32_t rank,
                     struct tutti_ring_phase *ret)
{
    return chains->schedule->ops->ring_chunk(chains->schedule, lane, rank, ret);
}

/* The rank on a seat of a lane's ring, counted in the direction of travel. */
static uint32_t rank_at(const struct tutti_ring_phase *phase, uint32_t seat)
{
    uint32_t place = phase->reversed && seat > 0 ? phase->size - seat : seat;

    return phase->order != NULL ? phase->order[place] : place;
}

static int check_lanes(struct chains *chains, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = chains->schedule;

    if (schedule->ops->ring_chunk == NULL || !chunk_of(chains, 0, 0, &chains->phase))
        return tutti_fail(err, TUTTI_ELACK, "'%s' is no ring", schedule->name);
    if (chains->opts->reduce_bytes_per_s > 0)
        return tutti_fail(err, TUTTI_ELACK, "'%s': reductions take time", schedule->name);
    for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
        struct tutti_ring_phase phase;

        if (!chunk_of(chains, lane, 0, &phase) || phase.size != schedule->rank_count ||
            phase.stride != 1 || phase.transfer_count != chains->phase.transfer_count)
            return tutti_fail(err, TUTTI_ELACK, "'%s': its lanes are not rings of all ranks alike",
                              schedule->name);
    }
    return 0;
}

/* Does a lane look the same `period` seats further on, one place further along the axis? */
static bool lane_repeats(const struct chains *chains, uint32_t lane, uint32_t axis, uint32_t length,
                         uint32_t period)
{
    const struct tutti_topo *topo = chains->opts->topo;
    struct tutti_ring_phase phase;

    (void)chunk_of(chains, lane, 0, &phase);
    for (uint32_t seat = 0; seat < phase.size; seat++) {
        uint32_t rank = rank_at(&phase, seat);
        uint32_t next = rank_at(&phase, (seat + period) % phase.size);
        struct tutti_spot a = tutti_topo_rank_spot(topo, rank);
        struct tutti_spot b = tutti_topo_rank_spot(topo, next);
        struct tutti_ring_phase here;
        struct tutti_ring_phase there;
        uint32_t step = phase.reversed ? length - 1 : 1;

        if (a.kind != b.kind || a.along[1 - axis] != b.along[1 - axis] ||
            (a.along[axis] + step) % length != b.along[axis])
            return false;
        (void)chunk_of(chains, lane, rank, &here);
        (void)chunk_of(chains, lane, next, &there);
        if (here.bytes != there.bytes)
            return false;
    }
    return true;
}

static void find_period(struct chains *chains)
{
    uint32_t lengths[TUTTI_AXES];

    chains->period = chains->phase.size;
    chains->axis = NONE;
    if (!tutti_topo_axes(chains->opts->topo, lengths))
        return;
    for (uint32_t i = TUTTI_AXES; i-- > 0 && chains->axis == NONE;) {
        bool repeats = lengths[i] > 1 && chains->phase.size % lengths[i] == 0;
        uint32_t period = chains->phase.size / lengths[i];

        for (uint32_t lane = 0; lane < chains->schedule->lane_count && repeats; lane++)
            repeats = lane_repeats(chains, lane, i, lengths[i], period);
        if (repeats) {
            chains->axis = i;
            chains->period = period;
        }
    }
}

/* ---- links ----------------------------------------------------------------------------------- */

/* What links that are one have in common. */
static uint64_t key_of(const struct chains *chains, uint32_t link)
{
    struct tutti_spot spot;

    if (chains->axis == NONE)
        return link;
    spot = tutti_topo_link_spot(chains->opts->topo, link);
    assert(spot.along[chains->axis] != NONE); /* routes take no other links */
    return (uint64_t)spot.along[1 - chains->axis] << 32 | spot.kind;
}

static uint32_t *place_of(const struct chains *chains, uint64_t key)
{
    uint64_t place = key * UINT64_C(0x9e3779b97f4a7c15) >> 20;

    for (;; place++) {
        uint32_t *entry = &chains->link_table[place & (chains->table_size - 1)];

        if (*entry == 0 || chains->link_keys[*entry - 1] == key)
            return entry;
    }
}

static int find_link(struct chains *chains, uint32_t link, uint32_t *ret)
{
    uint64_t key = key_of(chains, link);
    uint32_t *entry = place_of(chains, key);

    if (*entry == 0) {
        uint32_t count = chains->link_count;

        if (tutti_grow(&chains->link_keys, &chains->link_capacity, (uint64_t)count + 1,
                       sizeof(*chains->link_keys)) < 0 ||
            tutti_grow(&chains->link_rates, &chains->rate_capacity, (uint64_t)count + 1,
                       sizeof(*chains->link_rates)) < 0)
            return -TUTTI_ENOMEM;
        chains->link_keys[count] = key;
        chains->link_rates[count] =
            tutti_link_rate(chains->opts->topo, chains->opts->protocol, link);
        *entry = ++chains->link_count;
    }
    *ret = *entry - 1;
    return 0;
}

/* The ways of connections over links, one after another. */
struct ways {
    uint32_t *first; /* [connection + 1] */
    uint32_t *links;
    uint32_t *weights;
    uint32_t count;
    uint32_t link_capacity;
    uint32_t weight_capacity;
};

static int note_weight(struct chains *chains, size_t wire, const struct tutti_route_weight *weight,
                       struct tutti_err *err)
{
    tutti_ps latency_ps = tutti_add_ps(weight->latency_ps, weight->pace.slice_ps);

    chains->latency_ps[wire] = latency_ps;
    chains->bytes_per_s[wire] = weight->pace.bytes_per_s;
    chains->slice_max_ps = tutti_later_ps(chains->slice_max_ps, weight->pace.slice_ps);
    if (latency_ps < chains->latency_min_ps)
        chains->latency_min_ps = latency_ps;
    if (latency_ps > chains->latency_max_ps)
        chains->latency_max_ps = latency_ps;
    if (latency_ps <= INT64_MAX / 4 / (tutti_ps)chains->phase.transfer_count)
        return 0;
    return tutti_fail(err, TUTTI_ELACK, "its times are too long to be added up");
}

/* Adds the links of a connection that is the next to be laid, each once. */
static int lay_way(struct chains *chains, size_t wire, const uint32_t *route, uint32_t count,
                   struct ways *ways)
{
    uint32_t first = ways->first[wire];

    if (tutti_grow(&ways->links, &ways->link_capacity, (uint64_t)first + count,
                   sizeof(*ways->links)) < 0 ||
        tutti_grow(&ways->weights, &ways->weight_capacity, (uint64_t)first + count,
                   sizeof(*ways->weights)) < 0)
        return -TUTTI_ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t link;
        uint32_t at = first;

        if (find_link(chains, route[i], &link) < 0)
            return -TUTTI_ENOMEM;
        while (at < ways->count && ways->links[at] != link)
            at++;
        if (at == ways->count) {
            ways->links[at] = link;
            ways->weights[at] = 0;
            ways->count++;
        }
        ways->weights[at]++;
    }
    ways->first[wire + 1] = ways->count;
    return 0;
}

/* Asks for the routes of a lane, over the first period. */
static int route_lane(struct chains *chains, uint32_t lane, struct ways *ways,
                      struct tutti_err *err)
{
    const struct tutti_topo *topo = chains->opts->topo;
    struct tutti_ring_phase phase;

    (void)chunk_of(chains, lane, 0, &phase);
    for (uint32_t seat = 0; seat < chains->period; seat++) {
        size_t wire = (size_t)lane * chains->period + seat;
        uint32_t route[WAY_MAX];
        uint32_t count = tutti_topo_route(topo, rank_at(&phase, seat),
                                          rank_at(&phase, (seat + 1) % phase.size), route, WAY_MAX);
        struct tutti_route_weight weight;
        int status;

        if (count == 0 || count > WAY_MAX)
            return tutti_fail(err, TUTTI_ELACK, "routes of %" PRIu32 " links are too long", count);
        weight = tutti_route_weigh(topo, chains->opts->protocol, route, count);
        status = note_weight(chains, wire, &weight, err);
        if (status < 0)
            return status;
        if (lay_way(chains, wire, route, count, ways) < 0)
            return tutti_nomem(err);
    }
    return 0;
}

static int open_net(struct chains *chains, const struct ways *ways, struct tutti_err *err)
{
    const struct tutti_net_links links = {.link_count = chains->link_count,
                                          .bytes_per_s = chains->link_rates};
    uint32_t count = chains->schedule->lane_count * chains->period;
    int status = tutti_net_fair.open(&links, &chains->net, err);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < count && status == 0; i++) {
        uint32_t first = ways->first[i];

        status = tutti_fair_connect(chains->net, ways->links + first, ways->weights + first,
                                    ways->first[i + 1] - first,
                                    (struct tutti_pace){.bytes_per_s = chains->bytes_per_s[i]});
    }
    if (status == 0)
        status = chains->net->ops->reserve(chains->net, chains->chain_count + 1);
    return status < 0 ? tutti_nomem(err) : 0;
}

static int lay_links(struct chains *chains, struct tutti_err *err)
{
    size_t wires = (size_t)chains->schedule->lane_count * chains->period;
    struct ways ways = {.first = calloc(wires + 1, sizeof(*ways.first))};
    int status = 0;

    chains->table_size = 64;
    while (chains->table_size < 16 * wires)
        chains->table_size *= 2;
    while (chains->table_size < 2 * chains->opts->topo->link_count && chains->axis == NONE)
        chains->table_size *= 2;
    chains->link_table = calloc(chains->table_size, sizeof(*chains->link_table));
    chains->latency_ps = calloc(wires, sizeof(*chains->latency_ps));
    chains->bytes_per_s = calloc(wires, sizeof(*chains->bytes_per_s));
    chains->latency_min_ps = INT64_MAX;
    if (ways.first == NULL || chains->link_table == NULL || chains->latency_ps == NULL ||
        chains->bytes_per_s == NULL)
        status = tutti_nomem(err);
    for (uint32_t lane = 0; lane < chains->schedule->lane_count && status == 0; lane++)
        status = route_lane(chains, lane, &ways, err);
    if (status == 0)
        status = open_net(chains, &ways, err);
    free(ways.first);
    free(ways.links);
    free(ways.weights);
    return status;
}

/* ---- chains ---------------------------------------------------------------------------------- */

static int list_chains(struct chains *chains, struct tutti_err *err)
{
    for (uint32_t lane = 0; lane < chains->schedule->lane_count; lane++) {
        struct tutti_ring_phase phase;

        (void)chunk_of(chains, lane, 0, &phase);
        for (uint32_t seat = 0; seat < chains->period; seat++) {
            (void)chunk_of(chains, lane, rank_at(&phase, seat), &phase);
            if (phase.bytes == 0)
                continue;
            if (tutti_grow(&chains->chains, &chains->chain_capacity,
                           (uint64_t)chains->chain_count + 1, sizeof(*chains->chains)) < 0)
                return tutti_nomem(err);
            chains->chains[chains->chain_count++] =
                (struct chain){.lane = lane,
                               .seat = seat,
                               .bytes = tutti_wire_bytes(chains->opts->protocol, phase.bytes)};
        }
    }
    return 0;
}

static tutti_ps latency_at(const struct chains *chains, uint32_t lane, uint64_t seat)
{
    return chains->latency_ps[(size_t)lane * chains->period + seat % chains->period];
}

/* The latencies of `count` links from a seat on. */
static tutti_ps latencies(const struct chains *chains, uint32_t lane, uint32_t seat, uint64_t count)
{
    tutti_ps sum = 0;
    tutti_ps turn = 0;

    for (uint32_t i = 0; i < chains->period; i++)
        turn += latency_at(chains, lane, i);
    for (uint64_t i = 0; i < count % chains->period; i++)
        sum += latency_at(chains, lane, seat + i);
    return sum + turn * (tutti_ps)(count / chains->period);
}

/* How long chains without bytes take. */
static void weigh_latencies(struct chains *chains)
{
    uint64_t rounds = chains->phase.transfer_count;

    for (uint32_t lane = 0; lane < chains->schedule->lane_count; lane++) {
        tutti_ps sum = latencies(chains, lane, 0, rounds);

        for (uint32_t seat = 0; seat < chains->period; seat++) {
            tutti_ps end_ps = chains->begin_ps + sum;

            if (end_ps > chains->end_ps) /* of a chain without bytes; others are no shorter */
                chains->end_ps = end_ps;
            sum += latency_at(chains, lane, seat + rounds) - latency_at(chains, lane, seat);
        }
    }
}

/* Any slot_count links in a row outlast the longest link and the delays. */
static bool slots_suffice(const struct chains *chains)
{
    uint32_t count = chains->schedule->slot_count;

    if (count >= chains->phase.transfer_count)
        return true;
    for (uint32_t lane = 0; lane < chains->schedule->lane_count; lane++) {
        tutti_ps sum = latencies(chains, lane, 0, count);

        for (uint32_t seat = 0; seat < chains->period; seat++) {
            if (sum - chains->latency_max_ps < chains->late_ps)
                return false;
            sum +=
                latency_at(chains, lane, (uint64_t)seat + count) - latency_at(chains, lane, seat);
        }
    }
    return true;
}

static int too_long(const struct chains *chains, struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_ELACK, "'%s': chunks are long enough to wait for each other",
                      chains->schedule->name);
}

/* The least time that its bytes add to the latencies of the longest chunk, if no link is shared:
 * enough to see what need not be begun. */
static bool may_be_short(const struct chains *chains)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < chains->chain_count; i++)
        bytes = chains->chains[i].bytes > bytes ? chains->chains[i].bytes : bytes;
    for (uint32_t lane = 0; lane < chains->schedule->lane_count; lane++) {
        uint64_t turn = 0;

        for (uint32_t seat = 0; seat < chains->period; seat++)
            turn = tutti_plus(
                turn, (uint64_t)tutti_wire_ps(
                          bytes, chains->bytes_per_s[(size_t)lane * chains->period + seat]));
        if (tutti_times(turn, chains->phase.transfer_count / chains->period) >
            (uint64_t)chains->latency_min_ps)
            return false;
    }
    return true;
}

static void send(struct chains *chains, uint32_t id, tutti_ps now)
{
    const struct chain *chain = &chains->chains[id];
    uint64_t seat = (chain->seat + chain->round) % chains->period;
    uint32_t wire = chain->lane * chains->period + (uint32_t)seat;

    chains->net->ops->start(chains->net,
                            &(struct tutti_net_send){.message = id,
                                                     .connection = wire,
                                                     .bytes = chain->bytes,
                                                     .latency_ps = chains->latency_ps[wire]},
                            now);
}

/* The last message of a chain has arrived. */
static void end_chain(struct chains *chains, const struct chain *chain, tutti_ps now)
{
    tutti_ps late_ps = now - chains->begin_ps -
                       latencies(chains, chain->lane, chain->seat, chains->phase.transfer_count);

    assert(late_ps >= 0);
    chains->late_ps = late_ps > chains->late_ps ? late_ps : chains->late_ps;
    chains->end_ps = now > chains->end_ps ? now : chains->end_ps;
}

static void run(struct chains *chains)
{
    tutti_ps now = chains->begin_ps;
    tutti_ps at_ps;

    for (uint32_t i = 0; i < chains->chain_count; i++)
        send(chains, i, now);
    while (chains->net->ops->next(chains->net, now, &at_ps)) {
        uint32_t id;

        now = at_ps;
        while ((id = chains->net->ops->arrived(chains->net, now)) != TUTTI_MESSAGE_NONE) {
            struct chain *chain = &chains->chains[id];

            if (++chain->round < chains->phase.transfer_count)
                send(chains, id, now);
            else
                end_chain(chains, chain, now);
        }
    }
}

static int play(struct chains *chains, uint64_t step_count_max, struct tutti_err *err)
{
    uint64_t rounds;
    int status = check_lanes(chains, err);

    if (status < 0)
        return status;
    rounds = chains->phase.transfer_count;
    if (chains->begin_ps > INT64_MAX / 2)
        return tutti_fail(err, TUTTI_ELACK, "its times are too long to be added up");
    find_period(chains);
    status = list_chains(chains, err);
    if (status == 0)
        status = lay_links(chains, err);
    if (status < 0)
        return status;
    weigh_latencies(chains);
    if (!may_be_short(chains))
        return too_long(chains, err);
    if (step_count_max > 0 && chains->chain_count * rounds > step_count_max)
        return tutti_fail(err, TUTTI_ELACK,
                          "it takes more than %" PRIu64 " steps to simulate, folded",
                          step_count_max);
    run(chains);
    if (chains->latency_min_ps - chains->slice_max_ps < chains->late_ps || !slots_suffice(chains))
        return too_long(chains, err);
    return 0;
}

int tutti_chains_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                      uint64_t step_count_max, struct tutti_folded *ret, struct tutti_err *err)
{
    tutti_ps launch_ps = opts->protocol != NULL ? opts->protocol->launch_ps : 0;
    struct chains chains = {
        .opts = opts, .schedule = schedule, .begin_ps = tutti_rank_begin_ps(opts, 0, launch_ps)};
    int status = play(&chains, step_count_max, err);

    if (status == 0)
        *ret = (struct tutti_folded){
            .end_ps = chains.end_ps,
            .step_count = (2 * chains.phase.transfer_count + chains.phase.reduce_count) *
                          schedule->lane_count * schedule->rank_count,
            .class_count = chains.period};
    if (chains.net != NULL)
        chains.net->ops->close(chains.net);
    free(chains.latency_ps);
    free(chains.bytes_per_s);
    free(chains.chains);
    free(chains.link_keys);
    free(chains.link_rates);
    free(chains.link_table);
    return status;
}
