/* Makes a machine of what was measured here, and simulates on it; see calibrate.h. */
#include <math.h>
#include <stdio.h>

#include "runtime/backend.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/sim.h"
#include "tools/calibrate.h"
#include "topo/topo.h"

/* Between two rates, straight in the logarithms of size and rate. */
static uint64_t between(uint64_t bytes, const struct tutti_host_point *low,
                        const struct tutti_host_point *high, uint64_t low_rate, uint64_t high_rate)
{
    double share = (log((double)bytes) - log((double)low->bytes)) /
                   (log((double)high->bytes) - log((double)low->bytes));

    return (uint64_t)exp(log((double)low_rate) +
                         share * (log((double)high_rate) - log((double)low_rate)));
}

struct tutti_host_point tutti_host_point_at(const struct tutti_host *host, uint64_t bytes)
{
    const struct tutti_host_point *high = host->points;
    const struct tutti_host_point *end = host->points + host->point_count;
    const struct tutti_host_point *low;
    struct tutti_host_point point = {.bytes = bytes};

    while (high + 1 < end && high->bytes < bytes)
        high++;
    low = high > host->points ? high - 1 : high;
    if (bytes <= low->bytes || low == high)
        return *low;
    if (bytes >= high->bytes)
        return *high;
    for (int i = 0; i < TUTTI_PASS_COUNT; i++) {
        if (low->bytes_per_s[i] > 0 && high->bytes_per_s[i] > 0)
            point.bytes_per_s[i] =
                between(bytes, low, high, low->bytes_per_s[i], high->bytes_per_s[i]);
    }
    return point;
}

/* Rank -> shared -> memory -> rank: the second link is what all share, the third what a rank takes
 * by itself; it carries the latency. */
static int add_links(struct tutti_topo_builder *builder, const struct tutti_host *host,
                     const struct tutti_host_point *point, uint32_t shared, uint32_t memory,
                     struct tutti_err *err)
{
    uint64_t pair_bytes_per_s = point->bytes_per_s[TUTTI_PASS_TAKE];
    uint64_t single_bytes_per_s = point->bytes_per_s[TUTTI_PASS_SINGLE];
    uint64_t all_bytes_per_s = pair_bytes_per_s * host->pair_ranks;
    uint64_t one_bytes_per_s =
        single_bytes_per_s > pair_bytes_per_s ? single_bytes_per_s : pair_bytes_per_s;
    struct tutti_link link = {
        .from = shared, .to = memory, .bytes_per_s = all_bytes_per_s, .cable_count = 1};
    int status = tutti_topo_add_link(builder, &link, err);

    for (uint32_t r = 0; status == 0 && r < host->rank_count; r++) {
        char name[32];
        uint32_t device = 0;

        (void)snprintf(name, sizeof(name), "rank%u", r);
        status = tutti_topo_add_node(
            builder,
            &(struct tutti_node){.name = name, .rank = r, .kind = TUTTI_NODE_DEVICE, .host = 0},
            &device, err);
        link = (struct tutti_link){
            .from = device, .to = shared, .bytes_per_s = all_bytes_per_s, .cable_count = 1};
        if (status == 0)
            status = tutti_topo_add_link(builder, &link, err);
        link = (struct tutti_link){.from = memory,
                                   .to = device,
                                   .bytes_per_s = one_bytes_per_s,
                                   .latency_ps = host->latency_ps,
                                   .cable_count = 1};
        if (status == 0)
            status = tutti_topo_add_link(builder, &link, err);
    }
    return status;
}

static int make_machine(const struct tutti_host *host, const struct tutti_host_point *point,
                        struct tutti_topo **ret, struct tutti_err *err)
{
    struct tutti_topo_builder *builder = NULL;
    struct tutti_node node = {
        .name = "shared", .rank = TUTTI_RANK_NONE, .kind = TUTTI_NODE_SWITCH, .host = 0};
    uint32_t shared = 0;
    uint32_t memory = 0;
    int status =
        tutti_topo_builder_new("this machine", "measured by tutti on this machine", &builder, err);

    if (status < 0)
        return status;
    status = tutti_topo_add_node(builder, &node, &shared, err);
    node.name = "memory";
    if (status == 0)
        status = tutti_topo_add_node(builder, &node, &memory, err);
    if (status == 0)
        status = add_links(builder, host, point, shared, memory, err);
    if (status == 0)
        return tutti_topo_freeze(builder, ret, err);
    tutti_topo_builder_free(builder);
    return status;
}

/* COPY and REDUCE of a rank's own memory, as weighed; ranks that share processors take turns. */
static uint64_t work_bytes_per_s(const struct tutti_host *host,
                                 const struct tutti_host_point *point)
{
    double rate = (double)point->bytes_per_s[TUTTI_PASS_COPY];

    if (host->rank_count > host->processor_count)
        rate *= (double)host->processor_count / (double)host->rank_count;
    return (uint64_t)rate + 1;
}

/* One rank meets nobody: its copies, after the launch. */
static int64_t alone_ps(const struct tutti_host *host, const struct tutti_schedule *schedule,
                        const struct tutti_host_point *point)
{
    return host->launch_ps +
           tutti_wire_ps(schedule->out_bytes, point->bytes_per_s[TUTTI_PASS_COPY]);
}

static int simulate(const struct tutti_host *host, const struct tutti_host_point *point,
                    const struct tutti_schedule *schedule, int64_t *ret_ps, struct tutti_err *err)
{
    struct tutti_protocol protocol = {
        .name = "measured", .launch_ps = host->launch_ps, .wire_num = 1, .wire_den = 1};
    struct tutti_backend *backend = NULL;
    struct tutti_topo *topo = NULL;
    struct tutti_played played = {0};
    int status = make_machine(host, point, &topo, err);

    if (status == 0) {
        struct tutti_sim_opts opts = {
            .topo = topo,
            .model = TUTTI_MODEL_FAIR,
            .protocol = &protocol,
            .reduce_bytes_per_s = work_bytes_per_s(host, point),
        };

        status = tutti_sim_open(&opts, &backend, err);
    }
    if (status == 0)
        status = tutti_backend_play(
            backend, &(struct tutti_play){.schedule = schedule, .iteration_count = 1}, &played,
            err);
    tutti_backend_close(backend);
    tutti_topo_free(topo);
    if (status == 0)
        *ret_ps = played.total_ps;
    return status;
}

int tutti_host_predict(const struct tutti_host *host, const struct tutti_coll_params *params,
                       const char *algorithm, int64_t *ret_ps, struct tutti_err *err)
{
    struct tutti_shape flat = tutti_shape_flat(host->rank_count); /* as `run` lays it out */
    struct tutti_host_point point;
    struct tutti_schedule *schedule = NULL;
    struct tutti_schedule *weighed = NULL;
    int64_t ps = 0;
    int status;

    status = tutti_coll_generate(algorithm, params, &flat, &schedule, err);
    if (status < 0)
        return status;
    /* A size stands for how much memory is at work: what a rank reads or writes, the larger. */
    point = tutti_host_point_at(
        host, schedule->in_bytes > schedule->out_bytes ? schedule->in_bytes : schedule->out_bytes);
    if (host->rank_count == 1)
        ps = alone_ps(host, schedule, &point);
    else
        status = tutti_host_weigh(&point, schedule, &weighed, err);
    if (status == 0 && weighed != NULL)
        status = simulate(host, &point, weighed, &ps, err);
    tutti_schedule_free(weighed);
    tutti_schedule_free(schedule);
    if (status == 0)
        *ret_ps = ps;
    return status;
}

uint64_t tutti_host_message_rate(const struct tutti_host *host, uint64_t bytes)
{
    struct tutti_host_point point = tutti_host_point_at(host, bytes);

    return point.bytes_per_s[host->rank_count > 1 ? TUTTI_PASS_TAKE : TUTTI_PASS_COPY];
}
