/* The shaper of the simulator: a network model with the routes of a machine; see sim/shaper.h. */
#include "sim/shaper.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/schedule.h"
#include "runtime/shaper.h"
#include "runtime/status.h"
#include "sim/net/net.h"
#include "sim/play/wires.h"
#include "sim/sim.h"
#include "topo/topo.h"

struct sim_shaper {
    struct tutti_shaper base; /* first member: casts back */
    struct tutti_sim_opts opts;
    uint64_t *link_rates;   /* [link_count] */
    uint32_t *link_bursts;  /* [link_count]; NULL: no link has a token bucket */
    uint32_t *route;        /* [node_count] */
    struct tutti_net *net;  /* NULL: nothing has begun */
    tutti_ps *latencies_ps; /* [connection] */
    uint32_t connection_count;
    uint32_t connection_capacity;
};

static void shaper_close(struct tutti_shaper *base)
{
    struct sim_shaper *shaper = (struct sim_shaper *)base;

    if (shaper->net != NULL)
        shaper->net->ops->close(shaper->net);
    free(shaper->link_rates);
    free(shaper->link_bursts);
    free(shaper->route);
    free(shaper->latencies_ps);
    free(shaper);
}

static int shaper_begin(struct tutti_shaper *base, uint32_t rank_count, uint32_t message_count,
                        struct tutti_err *err)
{
    struct sim_shaper *shaper = (struct sim_shaper *)base;
    const struct tutti_topo *topo = shaper->opts.topo;
    const struct tutti_net_ops *ops = tutti_net_of(shaper->opts.model);
    struct tutti_net_links links = {.link_count = topo->link_count,
                                    .bytes_per_s = shaper->link_rates,
                                    .burst_bytes = shaper->link_bursts};
    int status;

    if (rank_count != topo->rank_count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "the schedule has '%" PRIu32 "' ranks, but topology '%s' has %" PRIu32
                          " (as many)",
                          rank_count, topo->name, topo->rank_count);
    if (shaper->net != NULL)
        shaper->net->ops->close(shaper->net);
    shaper->net = NULL;
    shaper->connection_count = 0;
    status = ops->open(&links, &shaper->net, err);
    if (status == 0 && shaper->net->ops->reserve(shaper->net, message_count) < 0)
        status = tutti_nomem(err);
    return status;
}

static int shaper_connect(struct tutti_shaper *base, uint32_t from, uint32_t to, uint32_t lane,
                          struct tutti_err *err)
{
    struct sim_shaper *shaper = (struct sim_shaper *)base;
    const struct tutti_topo *topo = shaper->opts.topo;
    struct tutti_route_weight weight;
    uint32_t link_count;

    if (to >= topo->rank_count || from >= topo->rank_count || from == to)
        return tutti_fail(err, TUTTI_ECHECK,
                          "lane %" PRIu32 ": rank %" PRIu32 " cannot send to rank '%" PRIu32
                          "' (another of the %" PRIu32 " ranks)",
                          lane, from, to, topo->rank_count);
    if (tutti_grow(&shaper->latencies_ps, &shaper->connection_capacity,
                   (uint64_t)shaper->connection_count + 1, sizeof(*shaper->latencies_ps)) < 0)
        return tutti_nomem(err);
    link_count = tutti_topo_route(topo, from, to, shaper->route, topo->node_count);
    assert(link_count <= topo->node_count);
    if (link_count == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "no route from rank %" PRIu32 " to rank %" PRIu32 " in '%s'", from, to,
                          topo->name);
    weight = tutti_route_weigh(topo, shaper->opts.protocol, shaper->route, link_count);
    if (shaper->net->ops->connect(shaper->net, shaper->route, link_count, weight.pace) < 0)
        return tutti_nomem(err);
    shaper->latencies_ps[shaper->connection_count++] = weight.latency_ps;
    return 0;
}

static void shaper_reset(struct tutti_shaper *base)
{
    struct sim_shaper *shaper = (struct sim_shaper *)base;

    shaper->net->ops->reset(shaper->net);
}

static void shaper_start(struct tutti_shaper *base, uint32_t connection, uint32_t message,
                         uint64_t bytes, tutti_ps now)
{
    struct sim_shaper *shaper = (struct sim_shaper *)base;
    struct tutti_net_send send = {.message = message,
                                  .connection = connection,
                                  .bytes = tutti_wire_bytes(shaper->opts.protocol, bytes),
                                  .latency_ps = shaper->latencies_ps[connection]};

    assert(connection < shaper->connection_count);
    shaper->net->ops->start(shaper->net, &send, now);
}

static bool shaper_next(struct tutti_shaper *base, tutti_ps now, tutti_ps *ret)
{
    struct sim_shaper *shaper = (struct sim_shaper *)base;

    return shaper->net->ops->next(shaper->net, now, ret);
}

static uint32_t shaper_arrived(struct tutti_shaper *base, tutti_ps now)
{
    struct sim_shaper *shaper = (struct sim_shaper *)base;
    uint32_t message = shaper->net->ops->arrived(shaper->net, now);

    return message == TUTTI_MESSAGE_NONE ? TUTTI_SHAPER_NONE : message;
}

static tutti_ps shaper_step_ps(const struct tutti_shaper *base, uint32_t rank,
                               const struct tutti_step *step)
{
    const struct sim_shaper *shaper = (const struct sim_shaper *)base;
    uint64_t rate = shaper->opts.reduce_bytes_per_s;

    if (step->kind == TUTTI_COMPUTE && shaper->opts.compute_ps != NULL)
        return shaper->opts.compute_ps(shaper->opts.compute_context, rank, step);
    if (step->kind == TUTTI_COMPUTE)
        return step->duration_ps;
    return rate == 0 ? 0 : tutti_wire_ps(step->bytes, rate);
}

static const struct tutti_shaper_ops shaper_ops = {
    .size = sizeof(struct tutti_shaper_ops),
    .close = shaper_close,
    .begin = shaper_begin,
    .connect = shaper_connect,
    .reset = shaper_reset,
    .start = shaper_start,
    .next = shaper_next,
    .arrived = shaper_arrived,
    .step_ps = shaper_step_ps,
};

static int open_whole(const struct tutti_sim_opts *opts, struct tutti_shaper **ret,
                      struct tutti_err *err)
{
    const struct tutti_topo *topo = opts->topo;
    struct sim_shaper *shaper;

    if (topo == NULL)
        return tutti_fail(err, TUTTI_EINVAL, "an emulation needs a topology");
    if (tutti_jitter_q32(opts->jitter) != 0 || opts->start_ps != NULL)
        return tutti_fail(err, TUTTI_EINVAL, "an emulation knows neither jitter nor late ranks");
    shaper = calloc(1, sizeof(*shaper));
    if (shaper == NULL)
        return tutti_nomem(err);
    shaper->base.ops = &shaper_ops;
    shaper->base.launch_ps = opts->protocol != NULL ? opts->protocol->launch_ps : 0;
    shaper->opts = *opts;
    shaper->link_rates = calloc((size_t)topo->link_count + 1, sizeof(*shaper->link_rates));
    shaper->route = calloc((size_t)topo->node_count + 1, sizeof(*shaper->route));
    if (shaper->link_rates == NULL || shaper->route == NULL ||
        (topo->has_bursts && tutti_link_bursts(NULL, topo, &shaper->link_bursts) < 0)) {
        shaper_close(&shaper->base);
        return tutti_nomem(err);
    }
    for (uint32_t i = 0; i < topo->link_count; i++)
        shaper->link_rates[i] = tutti_link_rate(topo, opts->protocol, i);
    *ret = &shaper->base;
    return 0;
}

int tutti_sim_shaper_open(const struct tutti_sim_opts *opts, struct tutti_shaper **ret,
                          struct tutti_err *err)
{
    struct tutti_sim_opts own;
    int status = tutti_take("tutti_sim_opts", &own, sizeof(own), opts,
                            TUTTI_BYTES_TO(struct tutti_sim_opts, carry), err);

    return status < 0 ? status : open_whole(&own, ret, err);
}
