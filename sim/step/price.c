/* What calls and messages of a step take by themselves: simulated once, and remembered. */
#include "sim/step/price.h"

#include <stdlib.h>

#include "runtime/arena.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "sim/fold/fold.h"
#include "topo/topo.h"

/* ---- simulating ------------------------------------------------------------------------------ */

static struct tutti_sim_opts sim_opts(const struct tutti_step_opts *opts)
{
    return (struct tutti_sim_opts){
        .size = sizeof(struct tutti_sim_opts),
        .topo = opts->topo,
        .model = opts->model,
        .protocol = opts->protocol,
        .reduce_bytes_per_s = opts->reduce_bytes_per_s,
    };
}

/* Every rank by itself. */
static int play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                tutti_ps *ret, struct tutti_err *err)
{
    struct tutti_play play = {
        .size = sizeof(struct tutti_play), .schedule = schedule, .iteration_count = 1};
    struct tutti_played played = {.total_ps = 0};
    struct tutti_backend *backend = NULL;
    int status = tutti_sim_open(opts, &backend, err);

    if (status == 0)
        status = tutti_backend_play(backend, &play, &played, err);
    tutti_backend_close(backend);
    *ret = played.total_ps;
    return status;
}

static int play_folded(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                       tutti_ps *ret, struct tutti_err *err)
{
    struct tutti_folded folded = {.end_ps = 0};
    int status = tutti_fold_play(opts, schedule, 0, &folded, NULL);

    if (status == -TUTTI_ELACK)
        return play(opts, schedule, ret, err);
    *ret = folded.end_ps;
    return status < 0 ? tutti_fail(err, (enum tutti_status) - status, "cannot be simulated") : 0;
}

static int simulate_call(const struct tutti_step_opts *opts, uint32_t callee, uint32_t number,
                         struct tutti_call_price *ret, struct tutti_err *err)
{
    const struct tutti_schedule *schedule = opts->schedule;
    const struct tutti_axis axis = tutti_schedule_axis(schedule, number);
    const struct tutti_sim_opts sim = sim_opts(opts);
    struct tutti_schedule *spread = NULL;
    int status = tutti_schedule_on_axis(schedule->callees[callee], &axis, schedule->rank_count,
                                        &spread, err);

    if (status == 0)
        status = opts->unfolded ? play(&sim, spread, &ret->alone_ps, err)
                                : play_folded(&sim, spread, &ret->alone_ps, err);
    if (status == 0)
        status = tutti_step_link_shares(opts, spread, ret, err);
    tutti_schedule_free(spread);
    if (status < 0)
        return tutti_wrap(err, status, "'%s' on axis '%s'", schedule->callees[callee]->name,
                          axis.name);
    return 0;
}

static int simulate_message(const struct tutti_step_opts *opts, uint32_t from, uint32_t to,
                            uint64_t bytes, tutti_ps *ret, struct tutti_err *err)
{
    const struct tutti_sim_opts sim = sim_opts(opts);
    const struct tutti_schedule_desc desc = {.name = "message",
                                             .contract = {.collective = TUTTI_CUSTOM},
                                             .rank_count = opts->schedule->rank_count,
                                             .lane_count = 1,
                                             .in_bytes = bytes,
                                             .out_bytes = bytes};
    const struct tutti_step send =
        tutti_step_send((struct tutti_buf_at){TUTTI_BUF_IN, 0}, bytes, to);
    const struct tutti_step recv =
        tutti_step_recv((struct tutti_buf_at){TUTTI_BUF_OUT, 0}, bytes, from);
    struct tutti_builder *builder = NULL;
    struct tutti_schedule *schedule = NULL;
    int status = tutti_builder_new(&desc, &builder, err);

    if (status < 0)
        return status;
    (void)tutti_builder_add(builder, from, 0, &send, NULL); /* finish tells */
    (void)tutti_builder_add(builder, to, 0, &recv, NULL);
    status = tutti_builder_finish(builder, &schedule, err);
    if (status == 0)
        status = play(&sim, schedule, ret, err);
    if (opts->protocol != NULL)
        *ret -= opts->protocol->launch_ps; /* it is a step among others */
    tutti_schedule_free(schedule);
    return status;
}

/* ---- remembering ----------------------------------------------------------------------------- */

int tutti_step_simulate_call(struct tutti_step_prices *prices, uint32_t callee, uint32_t number,
                             struct tutti_call_price *ret, struct tutti_err *err)
{
    return simulate_call(prices->opts, callee, number, ret, err);
}

/* The number of a tuple; *ret_new: it is asked for the first time. */
static int number_of(struct tutti_tuples *tuples, const uint64_t *words, size_t count,
                     uint32_t *ret, bool *ret_new)
{
    uint32_t before = tuples->count;

    *ret = tutti_tuples_number(tuples, words, count);
    *ret_new = tuples->count > before;
    return *ret == UINT32_MAX ? -TUTTI_ENOMEM : 0;
}

/* Room for one more than `count` items. */
static bool make_room(void **items, size_t item_bytes, uint32_t count, uint32_t *capacity)
{
    uint32_t larger_capacity = 2 * *capacity + 16;
    void *larger;

    if (count < *capacity)
        return true;
    larger = realloc(*items, larger_capacity * item_bytes);
    if (larger == NULL)
        return false;
    *items = larger;
    *capacity = larger_capacity;
    return true;
}

static int price_call(const struct tutti_step_opts *opts, uint32_t callee, uint32_t number,
                      struct tutti_call_price *ret, struct tutti_err *err)
{
    int status = opts->price != NULL ? opts->price(opts->price_context, callee, number, ret, err)
                                     : simulate_call(opts, callee, number, ret, err);

    if (status == 0 && ret->alone_ps < 0)
        return tutti_fail(err, TUTTI_EINVAL, "callee %u on axis %u takes less than no time", callee,
                          number);
    for (uint32_t kind = 0; kind < TUTTI_SHARE_LINKS; kind++)
        ret->link_share[kind] =
            ret->link_share[kind] > TUTTI_SHARE_ONE ? TUTTI_SHARE_ONE : ret->link_share[kind];
    return status;
}

int tutti_step_call_price(struct tutti_step_prices *prices, uint32_t callee, uint32_t number,
                          const struct tutti_call_price **ret, struct tutti_err *err)
{
    const uint64_t words[2] = {callee, number};
    void *items = prices->call;
    uint32_t index = 0;
    bool is_new = false;
    int status = 0;

    if (!make_room(&items, sizeof(*prices->call), prices->calls.count, &prices->call_capacity))
        return tutti_nomem(err);
    prices->call = items;
    if (number_of(&prices->calls, words, 2, &index, &is_new) < 0)
        return tutti_nomem(err);
    if (is_new) {
        prices->call[index] = tutti_arena_take(prices->arena, 1, sizeof(**prices->call));
        if (prices->call[index] == NULL)
            return tutti_nomem(err);
        status = price_call(prices->opts, callee, number, prices->call[index], err);
    }
    *ret = prices->call[index];
    return status;
}

void tutti_step_route(const struct tutti_topo *topo, uint32_t from, uint32_t to,
                      uint64_t words[TUTTI_ROUTE_WORDS])
{
    enum { ROUTE_MAX = 64, BITS_A_KIND = 6 };
    uint32_t links[ROUTE_MAX];
    uint32_t count = tutti_topo_route(topo, from, to, links, ROUTE_MAX);

    words[0] = 0;
    words[1] = UINT64_MAX;
    words[2] = 0;
    for (uint32_t i = 0; i < count && i < ROUTE_MAX; i++) {
        struct tutti_link link = tutti_topo_link_figures(topo, links[i]);

        words[0] += (uint64_t)link.latency_ps;
        words[1] = words[1] < link.bytes_per_s ? words[1] : link.bytes_per_s;
        words[2] += UINT64_C(1) << BITS_A_KIND * link.kind;
    }
}

int tutti_step_message_ps(struct tutti_step_prices *prices, uint32_t from, uint32_t to,
                          uint64_t bytes, tutti_ps *ret, struct tutti_err *err)
{
    uint64_t words[TUTTI_ROUTE_WORDS + 1];
    void *items = prices->message_ps;
    uint32_t index = 0;
    bool is_new = false;
    int status = 0;

    if (!make_room(&items, sizeof(*prices->message_ps), prices->messages.count,
                   &prices->message_capacity))
        return tutti_nomem(err);
    prices->message_ps = items;
    tutti_step_route(prices->opts->topo, from, to, words);
    words[TUTTI_ROUTE_WORDS] = bytes;
    if (number_of(&prices->messages, words, TUTTI_ROUTE_WORDS + 1, &index, &is_new) < 0)
        return tutti_nomem(err);
    if (is_new)
        status = simulate_message(prices->opts, from, to, bytes, &prices->message_ps[index], err);
    *ret = prices->message_ps[index];
    return status;
}

void tutti_step_prices_done(struct tutti_step_prices *prices)
{
    tutti_tuples_done(&prices->calls);
    tutti_tuples_done(&prices->messages);
    free(prices->call);
    free(prices->message_ps);
}
