/* Stars on one switch; see star.h. */
#include "sim/fold/star.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "sim/net/net.h"
#include "sim/play/wires.h"
#include "sim/sim.h"
#include "topo/topo.h"

int tutti_star_find(const struct tutti_sim_opts *opts, struct tutti_star *ret,
                    struct tutti_err *err)
{
    const struct tutti_topo *topo = opts->topo;
    struct tutti_link_class classes[3];
    struct tutti_route_weight weight;
    uint32_t links[2];
    uint32_t more = 0;
    uint32_t n = topo->rank_count;

    /* No link joins two ranks, for there are n that leave ranks and n that lead to them, all of a
     * direction alike, and each rank has one of each. */
    if (n < 2 || topo->node_count != n + 1 || topo->link_count != 2 * n ||
        tutti_topo_link_classes(topo, classes, 3, &more) != 2 || more > 0 ||
        classes[0].count != n || classes[1].count != n ||
        tutti_topo_route(topo, 0, 1, links, 2) != 2)
        return tutti_fail(err, TUTTI_ELACK, "the machine is not one switch with like links");
    weight = tutti_route_weigh(topo, opts->protocol, links, 2);
    *ret = (struct tutti_star){
        .opts = opts,
        .out_bytes_per_s = tutti_link_rate(topo, opts->protocol, links[0]),
        .in_bytes_per_s = tutti_link_rate(topo, opts->protocol, links[1]),
        .latency_ps = weight.latency_ps,
        .pace = weight.pace,
    };
    return 0;
}

/* A network of the links that a star takes: link 0 is that of its rank. */
static int open_net(const struct tutti_star *star, bool inwards, uint32_t count,
                    struct tutti_net **ret, struct tutti_err *err)
{
    const struct tutti_net_ops *ops =
        star->opts->model == TUTTI_MODEL_FAIR ? &tutti_net_fair : &tutti_net_alphabeta;
    uint64_t *rates = calloc((size_t)count + 1, sizeof(*rates));
    struct tutti_net *net = NULL;
    int status;

    if (rates == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i <= count; i++)
        rates[i] = (i == 0) == inwards ? star->in_bytes_per_s : star->out_bytes_per_s;
    status = ops->open(&(struct tutti_net_links){.link_count = count + 1, .bytes_per_s = rates},
                       &net, err);
    for (uint32_t i = 0; i < count && status == 0; i++) {
        uint32_t links[2] = {inwards ? i + 1 : 0, inwards ? 0 : i + 1};

        status = ops->connect(net, links, 2, star->pace);
    }
    if (status == 0)
        status = ops->reserve(net, count);
    if (status < 0 && net != NULL)
        ops->close(net);
    free(rates);
    if (status < 0)
        return tutti_nomem(err);
    *ret = net;
    return 0;
}

/* The messages that have not started and start next; UINT32_MAX: none. */
static uint32_t next_start(const tutti_ps *start_ps, const tutti_ps *arrive_ps, uint32_t count)
{
    uint32_t next = UINT32_MAX;

    for (uint32_t i = 0; i < count; i++) {
        if (arrive_ps[i] < 0 && (next == UINT32_MAX || start_ps[i] < start_ps[next]))
            next = i;
    }
    return next;
}

int tutti_star_play(const struct tutti_star *star, bool inwards, uint32_t count, uint64_t bytes,
                    const tutti_ps *start_ps, tutti_ps *arrive_ps, struct tutti_err *err)
{
    struct tutti_net_send send = {.bytes = tutti_wire_bytes(star->opts->protocol, bytes),
                                  .latency_ps = star->latency_ps};
    struct tutti_net *net = NULL;
    uint32_t arrived_count = 0;
    tutti_ps now = 0;
    int status = open_net(star, inwards, count, &net, err);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < count; i++)
        arrive_ps[i] = -1; /* not started */
    while (arrived_count < count) {
        uint32_t first = next_start(start_ps, arrive_ps, count);
        tutti_ps net_ps = INT64_MAX;
        bool pending = net->ops->next(net, now, &net_ps);
        uint32_t message;

        if (first != UINT32_MAX && (!pending || start_ps[first] <= net_ps)) {
            now = start_ps[first];
            arrive_ps[first] = INT64_MAX; /* under way */
            send.message = send.connection = first;
            net->ops->start(net, &send, now);
            continue;
        }
        assert(pending);
        now = net_ps;
        while ((message = net->ops->arrived(net, now)) != TUTTI_MESSAGE_NONE) {
            arrive_ps[message] = now;
            arrived_count++;
        }
    }
    net->ops->close(net);
    return 0;
}
