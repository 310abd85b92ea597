/* The busiest link; see busiest.h.
 *
 * Price: the steps of all programs, and a route for each run of a lane's SENDs over a few
 * connections. */
#include "sim/play/busiest.h"

#include <stdlib.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/net/net.h"
#include "sim/play/wires.h"
#include "sim/sim.h"
#include "topo/topo.h"

enum {
    PEERS_KEPT = 4,  /* trees have three */
    ROUNDS_READ = 8, /* at a time */
};

/* Bytes to a peer that are not yet on the links of its route. */
struct sent {
    uint32_t peer;
    uint64_t bytes;
};

struct count {
    const struct tutti_topo *topo;
    const struct tutti_schedule *schedule;
    bool first_links; /* alone */
    uint64_t *loads;
    uint32_t *route; /* [node_count] */
    struct sent sent[PEERS_KEPT];
    uint32_t oldest;
    struct tutti_round rounds[ROUNDS_READ];
};

static void put_on_links(struct count *count, uint32_t rank, struct sent *sent)
{
    uint32_t links;

    if (sent->bytes == 0)
        return;
    links = tutti_topo_route(count->topo, rank, sent->peer, count->route, count->topo->node_count);
    if (count->first_links && links > 1)
        links = 1;
    for (uint32_t i = 0; i < links; i++) {
        uint64_t *load = &count->loads[count->route[i]];

        *load = *load > UINT64_MAX - sent->bytes ? UINT64_MAX : *load + sent->bytes;
    }
    sent->bytes = 0;
}

static void count_send(struct count *count, uint32_t rank, const struct tutti_step *step)
{
    uint32_t at = 0;

    if (step->peer >= count->schedule->rank_count || step->peer == rank)
        return;
    while (at < PEERS_KEPT && count->sent[at].peer != step->peer)
        at++;
    if (at == PEERS_KEPT) {
        at = count->oldest;
        count->oldest = (at + 1) % PEERS_KEPT;
        put_on_links(count, rank, &count->sent[at]);
        count->sent[at].peer = step->peer;
    }
    count->sent[at].bytes += step->bytes;
}

static void count_lane(struct count *count, uint32_t rank, uint32_t lane)
{
    const struct tutti_schedule *schedule = count->schedule;
    uint64_t round_count = schedule->ops->round_count(schedule, rank, lane);

    for (uint32_t at = 0; at < PEERS_KEPT; at++)
        count->sent[at] = (struct sent){.peer = UINT32_MAX};
    for (uint64_t round = 0; round < round_count; round += ROUNDS_READ) {
        uint64_t left = round_count - round;
        uint32_t rounds = left < ROUNDS_READ ? (uint32_t)left : ROUNDS_READ;

        tutti_schedule_emit(schedule, rank, lane, round, rounds, count->rounds);
        for (uint32_t i = 0; i < rounds; i++) {
            for (uint32_t k = 0; k < count->rounds[i].step_count; k++) {
                if (count->rounds[i].step[k].kind == TUTTI_SEND)
                    count_send(count, rank, &count->rounds[i].step[k]);
            }
        }
    }
    for (uint32_t at = 0; at < PEERS_KEPT; at++)
        put_on_links(count, rank, &count->sent[at]);
}

int tutti_busiest_loads(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                        uint64_t **ret, struct tutti_err *err)
{
    struct count count = {.topo = opts->topo,
                          .schedule = schedule,
                          .first_links = opts->model == TUTTI_MODEL_ALPHABETA};

    count.loads = calloc((size_t)opts->topo->link_count + 1, sizeof(*count.loads));
    count.route = calloc((size_t)opts->topo->node_count + 1, sizeof(*count.route));
    if (count.loads == NULL || count.route == NULL) {
        free(count.loads);
        free(count.route);
        return tutti_nomem(err);
    }
    for (uint32_t rank = 0; rank < schedule->rank_count; rank++) {
        for (uint32_t lane = 0; lane < schedule->lane_count; lane++)
            count_lane(&count, rank, lane);
    }
    free(count.route);
    *ret = count.loads;
    return 0;
}

tutti_ps tutti_busiest_least_ps(const struct tutti_sim_opts *opts, const uint64_t *loads)
{
    const struct tutti_protocol *protocol = opts->protocol;
    double most_ps = 0;

    if (opts->topo->has_bursts)
        return 0;
    for (uint32_t link = 0; link < opts->topo->link_count; link++) {
        double bytes = (double)loads[link];
        double ps;

        if (loads[link] == 0)
            continue;
        if (protocol != NULL)
            bytes *= (double)protocol->wire_num / (double)protocol->wire_den;
        ps = bytes * (double)TUTTI_PS_PER_S / (double)tutti_link_rate(opts->topo, protocol, link);
        most_ps = ps > most_ps ? ps : most_ps;
    }
    most_ps *= 1 - 1e-9; /* `fair` shares links in doubles: they may be that much faster */
    if (!(most_ps < 0x1p62))
        return (tutti_ps)(UINT64_C(1) << 62);
    return tutti_add_ps(protocol != NULL ? protocol->launch_ps : 0, (tutti_ps)most_ps);
}
