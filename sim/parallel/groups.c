/* What collectives of groups take, and messages to the next member; each found once and kept. */
#include "sim/parallel/groups.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/nccl.h"
#include "sim/parallel/store.h"
#include "sim/predict.h"
#include "sim/step.h"
#include "sim/train/memory.h"
#include "sim/train/part.h"
#include "topo/topo.h"

enum {
    ROUTE_MAX = 32,         /* links of a route that are looked at */
    SENDERS_MAX = 512,      /* ranks whose messages are */
    EXCHANGED_MAX = 1 << 20 /* messages of all-to-alls that are, but of whole groups at least */
};

/* ---- where groups lie ------------------------------------------------------------------------ */

static uint32_t ranks_on_host(const struct tutti_topo *topo)
{
    return topo->host_count > 0 && topo->rank_count % topo->host_count == 0
               ? topo->rank_count / topo->host_count
               : 0;
}

/* Of all groups alike; else `on_host` stays 0. */
static struct tutti_group_shape shape_of(const struct tutti_topo *topo, struct tutti_axis axis)
{
    const uint32_t per_host = ranks_on_host(topo);
    struct tutti_group_shape shape = {.axis = axis};

    if (per_host == 0 && (axis.size == topo->rank_count || tutti_part_is_flat(topo)))
        return (struct tutti_group_shape){axis, axis.size, 1, false};
    if (per_host == 0)
        return shape;
    if (per_host % axis.period == 0)
        shape.on_host = axis.size;
    else if (axis.stride % per_host == 0 || (axis.size == 2 && axis.stride > per_host))
        shape.on_host = 1;
    else if (axis.period % per_host == 0 && per_host % axis.stride == 0 &&
             axis.period == axis.stride * axis.size)
        shape.on_host = per_host / axis.stride;
    if (shape.on_host > 0)
        shape.host_count = axis.size / shape.on_host;
    return shape;
}

int tutti_groups_open(const struct tutti_parallel_ask *ask, const struct tutti_parallel *parallel,
                      struct tutti_groups *ret, struct tutti_err *err)
{
    struct tutti_groups groups = {.ask = ask};
    struct tutti_price_store **store = tutti_train_memory_store(ask->memory);

    if (*store == NULL)
        *store = tutti_price_store_new();
    if (*store == NULL)
        return tutti_nomem(err);
    groups.store = *store;
    groups.machine = tutti_price_store_name(groups.store, ask->topo->name);
    if (groups.machine == UINT32_MAX)
        return tutti_nomem(err);
    for (int i = 0; i < TUTTI_GROUP_COUNT; i++)
        groups.shapes[i] =
            shape_of(ask->topo, tutti_parallel_axis(parallel, (enum tutti_parallel_group)i));
    groups.shapes[TUTTI_GROUP_DATA].of_gradients = true;
    groups.shapes[TUTTI_GROUP_EXPERT_DATA].of_gradients = true;
    groups.shapes[TUTTI_GROUP_SHARD].of_gradients = true;
    groups.shapes[TUTTI_GROUP_ACROSS].of_gradients = true;
    groups.shapes[TUTTI_GROUP_KV] =
        shape_of(ask->topo, tutti_parallel_kv_axis(parallel, ask->model));
    *ret = groups;
    return 0;
}

/* ---- messages -------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* The slowest of the messages from ranks of the first host to the next member of their group, when
 * all are sent at once and share the links of that host alike. */
static bool find_hop(const struct tutti_topo *topo, const struct tutti_axis *axis,
                     struct tutti_kept_hop *ret)
{
    const uint32_t per_host = ranks_on_host(topo);
    const uint32_t some = per_host > 0 ? per_host : topo->rank_count;
    const uint32_t senders = some < SENDERS_MAX ? some : SENDERS_MAX;
    uint32_t *links = calloc((size_t)senders * ROUTE_MAX, sizeof(*links));
    uint32_t count = 0;

    if (links == NULL)
        return false;
    *ret = (struct tutti_kept_hop){.bytes_per_s = UINT64_MAX};
    for (uint32_t rank = 0; rank < senders; rank++) {
        const uint32_t member = rank % axis->period / axis->stride;
        const uint32_t to =
            member + 1 < axis->size ? rank + axis->stride : rank - member * axis->stride;
        uint32_t length;
        tutti_ps latency_ps = 0;

        if (to == rank || to >= topo->rank_count || member >= axis->size)
            continue;
        length = tutti_topo_route(topo, rank, to, links + count, ROUTE_MAX);
        length = length < ROUTE_MAX ? length : ROUTE_MAX;
        for (uint32_t i = 0; i < length; i++)
            latency_ps += tutti_topo_link(topo, links[count + i]).latency_ps;
        ret->latency_ps = latency_ps > ret->latency_ps ? latency_ps : ret->latency_ps;
        count += length;
    }
    qsort(links, count, sizeof(*links), by_number);
    for (uint32_t i = 0; i < count;) {
        uint32_t users = 1;
        uint64_t rate;

        while (i + users < count && links[i + users] == links[i])
            users++;
        rate = tutti_topo_link(topo, links[i]).bytes_per_s / users;
        ret->bytes_per_s = rate < ret->bytes_per_s ? rate : ret->bytes_per_s;
        i += users;
    }
    free(links);
    return true;
}

/* The messages of a rank to all others of its group. */
static void add_exchanged(const struct tutti_topo *topo, const struct tutti_axis *axis,
                          uint32_t rank, uint32_t *loads, tutti_ps *latency_ps_max)
{
    const uint32_t member = rank % axis->period / axis->stride;

    for (uint32_t other = 0; member < axis->size && other < axis->size; other++) {
        const uint32_t to = rank - member * axis->stride + other * axis->stride;
        uint32_t links[ROUTE_MAX];
        uint32_t length;
        tutti_ps latency_ps = 0;

        if (other == member || to >= topo->rank_count)
            continue;
        length = tutti_topo_route(topo, rank, to, links, ROUTE_MAX);
        length = length < ROUTE_MAX ? length : ROUTE_MAX;
        for (uint32_t i = 0; i < length; i++) {
            loads[links[i]]++;
            latency_ps += tutti_topo_link(topo, links[i]).latency_ps;
        }
        *latency_ps_max = latency_ps > *latency_ps_max ? latency_ps : *latency_ps_max;
    }
}

/* When all members of all groups send to all others of theirs at once: the longest way, and the
 * rate of each message over the link that has the most of them for its rate. */
static bool find_exchange(const struct tutti_topo *topo, const struct tutti_axis *axis,
                          struct tutti_kept_hop *ret)
{
    uint32_t *loads = calloc(topo->link_count, sizeof(*loads));
    uint64_t messages = 0;

    if (loads == NULL)
        return false;
    *ret = (struct tutti_kept_hop){.bytes_per_s = UINT64_MAX};
    for (uint32_t rank = 0; rank < topo->rank_count; rank++) {
        if (rank % axis->period == 0 && messages >= EXCHANGED_MAX)
            break;
        add_exchanged(topo, axis, rank, loads, &ret->latency_ps);
        messages += axis->size;
    }
    for (uint32_t i = 0; i < topo->link_count; i++) {
        const uint64_t rate =
            loads[i] == 0 ? UINT64_MAX : tutti_topo_link(topo, i).bytes_per_s / loads[i];

        ret->bytes_per_s = rate < ret->bytes_per_s ? rate : ret->bytes_per_s;
    }
    ret->bytes_per_s = ret->bytes_per_s > 0 ? ret->bytes_per_s : 1;
    free(loads);
    return true;
}

static tutti_ps moved_ps(uint64_t bytes, uint64_t bytes_per_s)
{
    const uint64_t ps = tutti_muldiv_up(bytes, (uint64_t)TUTTI_PS_PER_S, bytes_per_s);

    return ps < INT64_MAX / 4 ? (tutti_ps)ps : INT64_MAX / 4;
}

static int hop_of(const struct tutti_groups *g, const struct tutti_axis *axis,
                  const struct tutti_kept_hop **ret)
{
    const uint64_t key[] = {g->machine, axis->stride, axis->size, axis->period};
    struct tutti_kept_hop *kept = tutti_price_store_hop(g->store, key, 4);

    if (kept == NULL)
        return -TUTTI_ENOMEM;
    if (kept->bytes_per_s == 0 && !find_hop(g->ask->topo, axis, kept))
        return -TUTTI_ENOMEM;
    *ret = kept;
    return 0;
}

/* Some tens of them are added up before anyone looks. */
static int check_length(tutti_ps ps, struct tutti_err *err)
{
    const tutti_ps longest_ps = INT64_MAX / 128;

    if (ps <= longest_ps)
        return 0;
    return tutti_fail(err, TUTTI_EINVAL, "a collective or message of '%.3g' hours (at most %.0f)",
                      (double)ps / 3600e12, (double)longest_ps / 3600e12);
}

int tutti_groups_hop(const struct tutti_groups *g, enum tutti_parallel_group group, uint64_t bytes,
                     tutti_ps *ret, struct tutti_err *err)
{
    const struct tutti_kept_hop *hop;

    *ret = 0;
    if (g->shapes[group].axis.size <= 1 || bytes == 0)
        return 0;
    if (hop_of(g, &g->shapes[group].axis, &hop) < 0)
        return tutti_nomem(err);
    *ret = hop->latency_ps + moved_ps(bytes, hop->bytes_per_s);
    return check_length(*ret, err);
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* Of all ranks of a host to those of the next. */
static struct tutti_axis across_hosts(uint32_t per_host)
{
    return (struct tutti_axis){
        .width = per_host, .stride = per_host, .size = 2, .period = 2 * per_host, .repeat = 1};
}

/* Where several members are on each host their rings leave it by as many ways: all that a host has,
 * shared with the other groups on it. */
static int ring_rate(const struct tutti_groups *g, const struct tutti_group_shape *shape,
                     uint64_t *ret)
{
    const struct tutti_axis across = across_hosts(ranks_on_host(g->ask->topo));
    struct tutti_axis within = shape->axis;
    const struct tutti_kept_hop *hop;
    uint64_t out;

    if (hop_of(g, &across, &hop) < 0)
        return -TUTTI_ENOMEM;
    out = tutti_times(hop->bytes_per_s, shape->on_host);
    within.size = shape->on_host;
    within.period = within.stride * within.size;
    if (hop_of(g, &within, &hop) < 0)
        return -TUTTI_ENOMEM;
    *ret = out < hop->bytes_per_s ? out : hop->bytes_per_s;
    return 0;
}

/* All-to-alls on a machine of which no part can be made: each message goes the whole way. */
static int by_exchange(const struct tutti_groups *g, const struct tutti_axis *axis, uint64_t bytes,
                       struct tutti_kept_price *ret, struct tutti_err *err)
{
    const uint64_t key[] = {g->machine, axis->stride, axis->size, axis->period, TUTTI_ALLTOALL};
    struct tutti_kept_hop *kept = tutti_price_store_hop(g->store, key, 5);

    if (kept == NULL)
        return tutti_nomem(err);
    if (kept->bytes_per_s == 0 && !find_exchange(g->ask->topo, axis, kept))
        return tutti_nomem(err);
    ret->wire_ps = moved_ps(bytes / axis->size + 1, kept->bytes_per_s);
    ret->ps = ret->wire_ps + kept->latency_ps;
    return 0;
}

/* Others on a machine of which no part can be made: round a ring of the members, by the slowest
 * link; of meshes and tori both ways round. */
static int by_ring(const struct tutti_groups *g, const struct tutti_group_shape *shape,
                   enum tutti_collective collective, uint64_t bytes, struct tutti_kept_price *ret,
                   struct tutti_err *err)
{
    const uint64_t rounds =
        (uint64_t)(shape->axis.size - 1) * (collective == TUTTI_ALLREDUCE ? 2 : 1);
    const uint32_t ways = g->ask->topo->shape.dim_count > 0 ? 2 : 1;
    const struct tutti_kept_hop *hop;
    tutti_ps latency_ps;
    uint64_t rate;

    if (hop_of(g, &shape->axis, &hop) < 0)
        return tutti_nomem(err);
    latency_ps = hop->latency_ps;
    rate = hop->bytes_per_s;
    if (shape->on_host > 1 && shape->host_count > 1 && ring_rate(g, shape, &rate) < 0)
        return tutti_nomem(err);
    ret->wire_ps = moved_ps(tutti_times(bytes / shape->axis.size / ways + 1, rounds), rate);
    ret->ps = ret->wire_ps + (tutti_ps)rounds * latency_ps;
    return 0;
}

/* Whether a rank of the part has no faster way out of its host than one of the whole has. */
static bool is_fair(const struct tutti_topo *topo, const struct tutti_topo *part, uint32_t on_host)
{
    const struct tutti_axis across = across_hosts(on_host);
    const struct tutti_axis whole = across_hosts(ranks_on_host(topo));
    struct tutti_kept_hop ours;
    struct tutti_kept_hop theirs;

    if (part->host_count <= 1)
        return true;
    return find_hop(part, &across, &ours) && find_hop(topo, &whole, &theirs) &&
           ours.bytes_per_s <= theirs.bytes_per_s + theirs.bytes_per_s / 50;
}

static int part_of(struct tutti_groups *g, const struct tutti_group_shape *shape,
                   struct tutti_kept_part **ret, struct tutti_err *err)
{
    const struct tutti_topo *topo = g->ask->topo;
    const uint64_t key[] = {g->machine, shape->on_host, shape->host_count};
    struct tutti_kept_part *part = tutti_price_store_part(g->store, key, 3);
    struct tutti_topo *made = NULL;
    int status;

    if (part == NULL)
        return tutti_nomem(err);
    *ret = part;
    if (part->is_known)
        return 0;
    status = shape->on_host == 0
                 ? 0
                 : tutti_part_of_hosts(topo, shape->on_host, shape->host_count, &made);
    if (status < 0)
        return tutti_nomem(err);
    if (made != NULL && !is_fair(topo, made, shape->on_host)) {
        tutti_topo_free(made);
        made = NULL;
    }
    status = made == NULL ? 0 : tutti_predict_memory_new(&part->memory, err);
    if (status < 0) {
        tutti_topo_free(made);
        return status;
    }
    part->topo = made;
    part->is_known = true;
    return 0;
}

/* NULL: what the library chooses. */
static const char *algorithm_of(const struct tutti_groups *g, const struct tutti_group_shape *shape,
                                enum tutti_collective collective)
{
    if (collective != TUTTI_ALLREDUCE)
        return NULL;
    return shape->of_gradients ? g->ask->algorithm : g->ask->layer_algorithm;
}

/* Elements that are priced: of more than some KiB a multiple of GRAIN bytes, as frameworks pad
 * them; what is left over at the end of odd shards takes long to simulate and next to no time. */
static uint64_t padded(uint64_t count, uint32_t element_bytes)
{
    enum { GRAIN = 1024, EXACT_BELOW = 16384 };
    const uint64_t grain = GRAIN / element_bytes;

    return tutti_times(count, element_bytes) < EXACT_BELOW ? count
                                                           : (count + grain - 1) / grain * grain;
}

static int simulate(struct tutti_groups *g, const struct tutti_group_shape *shape,
                    const struct tutti_coll_params *params, struct tutti_kept_price *ret,
                    struct tutti_err *err)
{
    const uint32_t units = g->ask->use.accelerator->units;
    struct tutti_ask ask = {.size = sizeof(ask),
                            .params = *params,
                            .algorithm = algorithm_of(g, shape, params->collective),
                            .protocols = g->ask->protocols,
                            .as_nccl = g->ask->as_nccl};
    const uint64_t bytes =
        tutti_collective_bytes(params->collective, params->count, params->dtype, shape->axis.size);
    struct tutti_kept_part *part = NULL;
    struct tutti_answer answer;
    int status = part_of(g, shape, &part, err);

    if (status < 0)
        return status;
    if (part->topo == NULL)
        return params->collective == TUTTI_ALLTOALL
                   ? by_exchange(g, &shape->axis, bytes, ret, err)
                   : by_ring(g, shape, params->collective, bytes, ret, err);
    ask.topo = part->topo;
    ask.memory = part->memory;
    status = tutti_predict(&ask, &answer, err);
    if (status < 0)
        return tutti_wrap(err, status, "%s among %u ranks (%s)",
                          tutti_collective_name(params->collective), shape->axis.size,
                          shape->axis.name);
    *ret = (struct tutti_kept_price){.ps = answer.time_ps, .wire_ps = answer.bound.bandwidth_ps};
    if (ret->wire_ps <= 0 || ret->wire_ps > ret->ps)
        ret->wire_ps = ret->ps;
    if (answer.channel_count > 0 && units > 0)
        ret->share = (uint32_t)tutti_muldiv(answer.channel_count, TUTTI_SHARE_ONE, units);
    return 0;
}

/* ---- many hosts, roughly --------------------------------------------------------------------- */

enum { ROUGH_HOSTS = 32 }; /* of more, questions that are `coarse` simulate so many */

/* What NCCL thinks that it takes, in microseconds; 0: it does not say. */
static int estimate(struct tutti_groups *g, const struct tutti_group_shape *shape,
                    const struct tutti_coll_params *params, double *ret, struct tutti_err *err)
{
    const uint64_t bytes =
        tutti_collective_bytes(params->collective, params->count, params->dtype, shape->axis.size);
    struct tutti_kept_part *part = NULL;
    struct tutti_nccl_choice choice = {.time_us = 0};
    int status = part_of(g, shape, &part, err);

    *ret = 0;
    if (status < 0 || part->topo == NULL || part->topo->hardware == NULL)
        return status;
    if (part->comm == NULL) {
        const struct tutti_nccl_comm_params comm = {.hardware = part->topo->hardware,
                                                    .host_count = part->topo->host_count,
                                                    .version = g->ask->as_nccl};

        status = tutti_nccl_comm_new(&comm, &part->comm, err);
        if (status < 0)
            return status == -TUTTI_ENOMEM ? status : 0;
    }
    if (tutti_nccl_choose(part->comm, params->collective, params->dtype, params->op, bytes, &choice,
                          NULL) == 0)
        *ret = choice.time_us;
    return 0;
}

/* As so many hosts take, and as much more as NCCL thinks; all-to-alls as they have peers. */
static int scale(struct tutti_groups *g, const struct tutti_group_shape *shape,
                 const struct tutti_coll_params *params, struct tutti_kept_price *ret,
                 struct tutti_err *err)
{
    struct tutti_group_shape few = *shape;
    double few_us = few.on_host * (double)ROUGH_HOSTS - 1;
    double all_us = shape->axis.size - 1.0;
    double factor;
    int status = 0;

    few.host_count = ROUGH_HOSTS;
    few.axis.size = few.on_host * ROUGH_HOSTS;
    if (params->collective != TUTTI_ALLTOALL)
        status = estimate(g, &few, params, &few_us, err);
    if (status == 0 && params->collective != TUTTI_ALLTOALL)
        status = estimate(g, shape, params, &all_us, err);
    if (status < 0)
        return status;
    if (few_us <= 0 || all_us <= 0)
        return simulate(g, shape, params, ret, err);
    status = simulate(g, &few, params, ret, err);
    factor = all_us / few_us;
    if (factor * (double)ret->ps > (double)(INT64_MAX / 4))
        factor = 1;
    ret->ps = (tutti_ps)llround((double)ret->ps * factor);
    ret->wire_ps = (tutti_ps)llround((double)ret->wire_ps * factor);
    return status;
}

static int predict(struct tutti_groups *g, const struct tutti_group_shape *shape,
                   const struct tutti_coll_params *params, struct tutti_kept_price *ret,
                   struct tutti_err *err)
{
    const bool many = shape->on_host > 0 && shape->host_count > ROUGH_HOSTS;
    const bool named = algorithm_of(g, shape, params->collective) != NULL;

    return g->ask->coarse && many && !named ? scale(g, shape, params, ret, err)
                                            : simulate(g, shape, params, ret, err);
}

static int price_of(struct tutti_groups *g, const struct tutti_group_shape *shape,
                    const struct tutti_coll_params *params, struct tutti_kept_price *ret,
                    struct tutti_err *err)
{
    const bool uneven = shape->on_host == 0;
    const uint64_t key[] = {
        g->machine,
        tutti_price_store_name(g->store, algorithm_of(g, shape, params->collective)),
        shape->on_host,
        uneven ? shape->axis.stride : shape->host_count,
        uneven ? shape->axis.size : 0,
        (uint64_t)params->collective,
        (uint64_t)params->dtype,
        params->count,
        g->ask->coarse && shape->host_count > ROUGH_HOSTS};
    struct tutti_kept_price *kept =
        tutti_price_store_price(g->store, key, sizeof(key) / sizeof(key[0]));
    struct tutti_kept_price price = {.ps = 0};
    int status = 0;

    if (kept == NULL || key[1] == UINT32_MAX)
        return tutti_nomem(err);
    if (!kept->is_known) {
        status = predict(g, shape, params, &price, err);
        if (status == 0)
            status = check_length(price.ps, err);
        if (status < 0)
            return status;
        price.is_known = true;
        *kept = price;
    }
    *ret = *kept;
    return 0;
}

/* The points of the grid round a count: powers of two, and one and a half times these. */
static void neighbours(uint64_t count, uint64_t *ret_below, uint64_t *ret_above)
{
    uint64_t power = 1024;

    while (power <= count / 2)
        power *= 2;
    *ret_below = count >= power + power / 2 ? power + power / 2 : power;
    *ret_above = count >= power + power / 2 ? 2 * power : power + power / 2;
}

/* Between two points of the grid in proportion. */
static int interpolate(struct tutti_groups *g, const struct tutti_group_shape *shape,
                       struct tutti_coll_params *params, struct tutti_kept_price *ret,
                       struct tutti_err *err)
{
    const uint64_t count = params->count;
    struct tutti_kept_price above;
    uint64_t from;
    uint64_t to;
    int status;

    neighbours(count, &from, &to);
    params->count = count <= from ? count : from;
    status = price_of(g, shape, params, ret, err);
    if (status < 0 || count <= from)
        return status;
    params->count = to;
    status = price_of(g, shape, params, &above, err);
    if (status < 0)
        return status;
    if (above.ps > ret->ps)
        ret->ps += (tutti_ps)tutti_muldiv((uint64_t)(above.ps - ret->ps), count - from, to - from);
    if (above.wire_ps > ret->wire_ps)
        ret->wire_ps += (tutti_ps)tutti_muldiv((uint64_t)(above.wire_ps - ret->wire_ps),
                                               count - from, to - from);
    return 0;
}

int tutti_groups_price(struct tutti_groups *g, struct tutti_group_call call,
                       struct tutti_group_price *ret, struct tutti_err *err)
{
    const struct tutti_group_shape *shape = &g->shapes[call.group];
    struct tutti_coll_params params = {.collective = call.collective,
                                       .dtype = call.element_bytes == 1   ? TUTTI_INT8
                                                : call.element_bytes == 2 ? TUTTI_BFLOAT16
                                                                          : TUTTI_FLOAT32,
                                       .op = TUTTI_SUM,
                                       .count = padded(call.count, call.element_bytes)};
    struct tutti_kept_price price = {.ps = 0};
    int status = 0;

    if (shape->axis.size > 1 && call.count > 0)
        status = g->ask->coarse ? interpolate(g, shape, &params, &price, err)
                                : price_of(g, shape, &params, &price, err);
    if (status == 0)
        *ret = (struct tutti_group_price){price.ps, price.wire_ps, price.share};
    return status;
}
