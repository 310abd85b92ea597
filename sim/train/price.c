/* What collectives of a training step take: predicted on the machine, or on the part of it that a
 * group is. */
#include <string.h>

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/step/price.h"
#include "sim/train/memory.h"
#include "sim/train/part.h"
#include "sim/train/train.h"

/* The machine of a group; *ret is NULL where there is none. */
static int machine_of(struct tutti_train *t, uint32_t number, const struct tutti_topo **ret,
                      struct tutti_err *err)
{
    const struct tutti_axis axis = tutti_schedule_axis(t->schedule, number);
    int made;

    *ret = t->ask.topo;
    if (number == 0)
        return 0;
    if (t->parts[number] == NULL && !t->simulated[number]) {
        made = tutti_part_of(t->ask.topo, &axis, &t->parts[number]);
        if (made < 0)
            return tutti_nomem(err);
        t->simulated[number] = made == 0;
    }
    *ret = t->parts[number];
    return 0;
}

/* What the links of a rank carry; where NCCL runs what has no steps (NVLS, CollNet), the bound says
 * how much of the time they must be busy. */
static int find_shares(const struct tutti_ask *ask, const struct tutti_answer *answer,
                       struct tutti_call_price *ret, struct tutti_err *err)
{
    struct tutti_step_opts opts = {.topo = ask->topo};
    struct tutti_ask named = *ask;
    struct tutti_schedule *schedule = NULL;
    uint64_t share;
    int status;

    named.algorithm = answer->algorithm;
    status = tutti_predict_schedule(&named, &schedule, NULL);
    if (status == -TUTTI_ENOMEM)
        return tutti_nomem(err);
    if (status == 0) {
        status = tutti_step_link_shares(&opts, schedule, ret, err);
        tutti_schedule_free(schedule);
        return status;
    }
    share = answer->time_ps <= 0 ? 0
                                 : tutti_muldiv((uint64_t)answer->bound.bandwidth_ps,
                                                TUTTI_SHARE_ONE, (uint64_t)answer->time_ps);
    for (uint32_t kind = 0; kind < TUTTI_LINK_KIND_COUNT; kind++)
        ret->link_share[TUTTI_SHARE_DIRECTIONS + kind] =
            share > TUTTI_SHARE_ONE ? TUTTI_SHARE_ONE : (uint32_t)share;
    return 0;
}

static int predict(struct tutti_train *t, uint32_t number, struct tutti_ask *ask,
                   struct tutti_train_price *ret, struct tutti_err *err)
{
    struct tutti_answer answer;
    int status = 0;

    if (t->memory[number] == NULL)
        status = tutti_predict_memory_new(&t->memory[number], err);
    ask->memory = t->memory[number];
    if (status == 0)
        status = tutti_predict(ask, &answer, err);
    if (status < 0)
        return tutti_wrap(err, status, "%s of %s", tutti_collective_name(ask->params.collective),
                          t->schedule->name);
    *ret = (struct tutti_train_price){.algorithm = answer.algorithm,
                                      .protocol = answer.protocol,
                                      .bytes = answer.bytes,
                                      .channel_count = answer.channel_count,
                                      .call = {.alone_ps = answer.time_ps}};
    return find_shares(ask, &answer, &ret->call, err);
}

/* What the question takes, which perhaps another step has asked. */
static int price_of(struct tutti_train *t, uint32_t number, struct tutti_ask *ask,
                    struct tutti_train_price *ret, struct tutti_err *err)
{
    const struct tutti_train_price *known = NULL;
    uint32_t place = 0;
    int status;

    if (t->ask.memory == NULL) {
        status = tutti_train_memory_new(&t->own_memory, err);
        if (status < 0)
            return status;
        t->ask.memory = t->own_memory;
    }
    if (tutti_train_memory_find(t->ask.memory, ask, t->ask.topo, &place, &known) < 0)
        return tutti_nomem(err);
    if (known != NULL) {
        *ret = *known;
        return 0;
    }
    status = predict(t, number, ask, ret, err);
    if (status == 0 && tutti_train_memory_keep(t->ask.memory, place, ret) < 0)
        status = tutti_nomem(err);
    return status;
}

static void note_largest(struct tutti_train *t, const struct tutti_train_price *price)
{
    if (price->bytes < t->largest_bytes)
        return;
    t->largest_bytes = price->bytes;
    t->answer->algorithm = price->algorithm;
    t->answer->protocol = price->protocol;
}

/* By the schedule that the strategy wrote, all groups at once. */
static int simulate(struct tutti_train *t, uint32_t callee, uint32_t number,
                    struct tutti_call_price *ret, struct tutti_err *err)
{
    struct tutti_step_opts opts = {.topo = t->ask.topo, .schedule = t->schedule};
    struct tutti_step_prices prices = {.opts = &opts};

    return tutti_step_simulate_call(&prices, callee, number, ret, err);
}

/* Slices and largest elements that one device gathers and sends to all: as the strategy wrote it,
 * which no library does. */
static bool is_at_one(const struct tutti_train *t, const struct tutti_contract *c)
{
    return c->collective == TUTTI_ALLGATHER && t->ask.strategy->gathers_at_one &&
           t->ask.strategy->sharding == TUTTI_SHARD_NONE;
}

/* Elements that are priced: of more than some KiB a multiple of GRAIN bytes, as frameworks pad
 * them; what is left over at the end of odd shards takes long to simulate and next to no time. */
static uint64_t padded(const struct tutti_contract *c)
{
    enum { GRAIN = 1024, EXACT_BELOW = 16384 };
    uint64_t grain = GRAIN / tutti_dtype_bytes(c->dtype);

    return c->count * tutti_dtype_bytes(c->dtype) < EXACT_BELOW
               ? c->count
               : (c->count + grain - 1) / grain * grain;
}

/* The names are NULL where no algorithm was asked for. */
static void tell(const struct tutti_train *t, uint32_t callee, uint32_t number,
                 const struct tutti_train_price *price)
{
    const struct tutti_schedule *s = t->schedule->callees[callee];
    const struct tutti_contract *c = &s->contract;
    const struct tutti_train_call call = {
        .callee = callee,
        .axis = number,
        .ranks = s->rank_count,
        .collective = c->collective,
        .bytes = tutti_collective_bytes(c->collective, c->count, c->dtype, s->rank_count),
        .algorithm = price->algorithm,
        .protocol = price->protocol,
        .alone_ps = price->call.alone_ps};

    if (t->ask.call != NULL)
        t->ask.call(t->ask.note_context, &call);
}

/* What broadcasts by owners take beyond an all-gather: each owner's passes all ranks, and there are
 * no more owners than variables. Of this pack its share of them. */
static tutti_ps broadcast_ps(const struct tutti_train *t, const struct tutti_contract *c,
                             uint32_t rank_count)
{
    const struct tutti_model_sums sums = tutti_model_sum(t->ask.model);
    uint64_t owners = sums.variable_count < rank_count ? sums.variable_count : rank_count;
    uint64_t all_ps = owners * rank_count * t->ask.strategy->broadcast_ns * TUTTI_PS_PER_NS;

    if (c->collective != TUTTI_ALLGATHER || sums.parameters == 0)
        return 0;
    return (tutti_ps)tutti_muldiv(all_ps, c->count * rank_count, sums.parameters);
}

int tutti_train_price(void *context, uint32_t callee, uint32_t number, struct tutti_call_price *ret,
                      struct tutti_err *err)
{
    struct tutti_train *t = context;
    const struct tutti_contract *c = &t->schedule->callees[callee]->contract;
    struct tutti_ask ask = {
        .size = sizeof(ask),
        .algorithm = t->ask.algorithm,
        .protocols = t->ask.protocols,
        .as_nccl = t->ask.as_nccl,
        .params = {.collective = c->collective,
                   .dtype = c->dtype,
                   .op = c->op,
                   .channel_count = c->collective == TUTTI_ALLREDUCE ? t->ask.channels : 0,
                   .added = t->ask.added}};
    struct tutti_train_price price = {.algorithm = NULL};
    int status;

    if (c->count == 0)
        return 0;
    status = machine_of(t, number, &ask.topo, err);
    if (status < 0)
        return status;
    if (is_at_one(t, c))
        price.algorithm = t->schedule->callees[callee]->name;
    if (ask.topo == NULL || is_at_one(t, c)) {
        status = simulate(t, callee, number, &price.call, err);
        if (status < 0)
            return status;
        tell(t, callee, number, &price);
        *ret = price.call;
        return 0;
    }
    ask.params.count = padded(c);
    if (c->collective != TUTTI_ALLREDUCE) /* a name that was asked for is of all-reduces */
        ask.algorithm = NULL;
    status = price_of(t, number, &ask, &price, err);
    if (status < 0)
        return status;
    note_largest(t, &price);
    tell(t, callee, number, &price);
    *ret = price.call;
    ret->alone_ps += broadcast_ps(t, c, ask.topo->rank_count);
    if (price.channel_count > 0 && t->ask.use.accelerator->units > 0)
        ret->device_share = (uint32_t)tutti_muldiv(price.channel_count, TUTTI_SHARE_ONE,
                                                   t->ask.use.accelerator->units);
    return 0;
}
