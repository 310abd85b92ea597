/* The play of a quotient; see class_play.h. Steps follow the rules of sim/play/stage.c, the network
 * is `fair` with weights. All lanes of a class doing the same at the same time fulfils all rules as
 * long as the wires that a lane has of one class are sent over, and their slots are free again, at
 * the same instants; there is but one play that does. That is watched for. */
#include "sim/fold/class_play.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "runtime/status.h"
#include "sim/net/fair.h"
#include "sim/play/estimate.h"
#include "sim/play/start.h"
#include "sim/play/wires.h"
#include "sim/sim.h"

#define NONE UINT32_MAX

static const char TOO_LOOSE[] = "a lane receives from like ones at different times";

static void wake(struct tutti_class_play *play, uint32_t lane)
{
    uint32_t at = play->todo_first + play->todo_count;
    uint32_t count = play->quotient->lane_count;

    if (play->lanes[lane].listed)
        return;
    __builtin_prefetch(play->lanes[lane].step);
    play->lanes[lane].listed = true;
    play->todo[at < count ? at : at - count] = lane;
    play->todo_count++;
}

static bool give_up(struct tutti_class_play *play, const char *why)
{
    play->unsuited = why;
    return false;
}

static struct tutti_class_slot *slot_of(const struct tutti_class_play *play, uint32_t wire,
                                        uint64_t number)
{
    uint32_t count = play->schedule->slot_count;

    return &play->slots[(size_t)wire * count + number % count];
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* A lane has to wait until the oldest message of a wire is complete: all like wires' messages must
 * be at the same instant, those before this one and those to come. */
static bool await(struct tutti_class_play *play, struct tutti_class_wire *wire)
{
    wire->awaited = true;
    return wire->loose ? give_up(play, TOO_LOOSE) : false;
}

/* Is the step of that index complete? SENDs may be under way long after their lane has gone on. */
static bool has_completed(struct tutti_class_play *play, uint32_t id, uint64_t index)
{
    const struct tutti_quotient_lane *is = &play->quotient->lanes[id];
    uint32_t slot_count = play->schedule->slot_count;

    if (index >= play->lanes[id].index)
        return false;
    for (uint32_t place = is->out_first; place < is->out_first + is->out_count; place++) {
        struct tutti_class_wire *wire = &play->wires[play->quotient->out_wire[place]];

        for (uint64_t m = wire->completed_count; m < play->out_sent[place]; m++) {
            if (play->send_index[(size_t)place * slot_count + m % slot_count] != index)
                continue;
            return await(play, wire);
        }
    }
    return true;
}

static bool dep_holds(struct tutti_class_play *play, uint32_t id)
{
    const struct tutti_class_lane *lane = &play->lanes[id];
    uint32_t other = id;

    if ((lane->step->flags & TUTTI_STEP_DEP) == 0)
        return true;
    if (lane->step->dep_lane != play->quotient->lanes[id].lane)
        other = play->quotient->lanes[id].dep;
    return has_completed(play, other, lane->step->dep_step);
}

/* False: it has to wait for a slot. */
static bool do_send(struct tutti_class_play *play, uint32_t id)
{
    struct tutti_class_lane *lane = &play->lanes[id];
    uint32_t place = lane->step->place;
    uint32_t number = play->quotient->out_wire[place];
    struct tutti_class_wire *wire = &play->wires[number];
    uint64_t message = play->out_sent[place];
    uint32_t slot_count = play->schedule->slot_count;
    struct tutti_class_slot *slot = slot_of(play, number, message);

    if (message - wire->completed_count >= slot_count)
        return await(play, wire);
    if (message == wire->sent_count) {
        *slot = (struct tutti_class_slot){.sent_ps = play->now, .bytes = lane->step->bytes};
        wire->sent_count++;
        wire->bytes += slot->bytes;
        play->net->ops->start(
            play->net,
            &(struct tutti_net_send){.message = (uint32_t)(slot - play->slots),
                                     .connection = number,
                                     .bytes = tutti_wire_bytes(play->opts->protocol, slot->bytes),
                                     .latency_ps = wire->latency_ps},
            play->now);
    }
    if (slot->sent_ps != play->now || slot->bytes != lane->step->bytes)
        return give_up(play, "a lane sends to like ones at different times");
    slot->sends++;
    play->send_index[(size_t)place * slot_count + message % slot_count] = lane->index;
    play->out_sent[place]++;
    return true;
}

/* The oldest message that has arrived over a wire of a lane has been taken. */
static void take(struct tutti_class_play *play, uint32_t number, uint32_t place)
{
    struct tutti_class_wire *wire = &play->wires[number];
    const struct tutti_quotient_wire *is = &play->quotient->wires[number];
    uint64_t message = play->in_taken[place]++;
    struct tutti_class_slot *slot = slot_of(play, number, message);

    if (message == wire->taken_count) {
        slot->taken_ps = play->now;
        wire->taken_count++;
    }
    wire->loose |= slot->taken_ps != play->now;
    if (wire->loose && wire->awaited)
        (void)give_up(play, TOO_LOOSE);
    if (++slot->takes < is->in_count)
        return;
    if (slot->sends != is->out_count)
        (void)give_up(play, "a lane sends to like ones at different times");
    assert(message == wire->completed_count); /* each takes them in order */
    wire->completed_count++;
    if (!wire->awaited) /* lanes that wait for something else are woken by that */
        return;
    wire->awaited = false; /* who still waits will say so */
    wake(play, is->sender);
    for (uint32_t i = play->lanes[is->sender].waiter_first; i != NONE;
         i = play->lanes[i].waiter_next)
        wake(play, i);
}

/* False: it has to wait for the message. */
static bool do_recv(struct tutti_class_play *play, uint32_t id)
{
    struct tutti_class_lane *lane = &play->lanes[id];
    uint32_t place = lane->step->place;
    uint32_t number = play->quotient->in_wire[place];
    uint64_t message = play->in_taken[place];

    if (message >= play->wires[number].arrived_count)
        return false;
    if (slot_of(play, number, message)->bytes != lane->step->bytes)
        return give_up(play, "a message is not as long as what is received");
    if ((lane->step->flags & TUTTI_STEP_FUSE) != 0) {
        lane->fused = number;
        lane->fused_place = place;
    } else {
        take(play, number, place);
    }
    return true;
}

/* What a REDUCE or COPY leaves behind when it is complete. */
static void end_local(struct tutti_class_play *play, struct tutti_class_lane *lane)
{
    if (lane->fused != NONE)
        take(play, lane->fused, lane->fused_place);
    lane->fused = NONE;
}

/* False: it takes time. */
static bool do_local(struct tutti_class_play *play, uint32_t id)
{
    struct tutti_class_lane *lane = &play->lanes[id];
    tutti_ps took_ps = 0;

    if (play->opts->reduce_bytes_per_s > 0)
        took_ps = tutti_wire_ps(lane->step->bytes, play->opts->reduce_bytes_per_s);
    if (took_ps == 0) {
        end_local(play, lane);
        return true;
    }
    lane->busy_ps = tutti_add_ps(play->now, took_ps);
    tutti_queue_put(&play->timers, id, lane->busy_ps);
    return false;
}

/* Goes on to the next step; rounds that repeat are not written anew, offsets do not matter here. */
static void next_step(struct tutti_class_play *play, uint32_t id)
{
    struct tutti_class_lane *lane = &play->lanes[id];
    uint64_t end = lane->first_round + lane->held_rounds;

    lane->index++;
    if (++lane->step < lane->steps + lane->step_count)
        return;
    if (end + lane->held_rounds > lane->same_end) {
        tutti_class_hold(play, id, end);
        return;
    }
    lane->first_round = end;
    lane->step = lane->steps;
}

static void go_on(struct tutti_class_play *play, uint32_t id)
{
    next_step(play, id);
    play->simulated_count++;
    for (uint32_t i = play->lanes[id].waiter_first; i != NONE; i = play->lanes[i].waiter_next)
        wake(play, i);
}

/* Runs a lane as far as it gets at this instant. */
static void run_lane(struct tutti_class_play *play, uint32_t id)
{
    struct tutti_class_lane *lane = &play->lanes[id];

    while (lane->step != NULL && lane->busy_ps < 0 && play->unsuited == NULL &&
           dep_holds(play, id)) {
        bool done = lane->step->kind == TUTTI_SEND   ? do_send(play, id)
                    : lane->step->kind == TUTTI_RECV ? do_recv(play, id)
                                                     : do_local(play, id);

        if (!done)
            return;
        go_on(play, id);
    }
}

/* ---- the clock ------------------------------------------------------------------------------- */

static void run_todo(struct tutti_class_play *play)
{
    while (play->todo_count > 0 && play->unsuited == NULL) {
        uint32_t id = play->todo[play->todo_first];

        play->todo_count--;
        if (++play->todo_first == play->quotient->lane_count)
            play->todo_first = 0;
        play->lanes[id].listed = false;
        run_lane(play, id);
    }
}

/* All that ends or arrives at play->now. */
static void take_events(struct tutti_class_play *play)
{
    tutti_ps at_ps;

    while (tutti_queue_next(&play->timers, &at_ps) && at_ps <= play->now) {
        uint32_t id = tutti_queue_pop(&play->timers);
        struct tutti_class_lane *lane = &play->lanes[id];

        lane->busy_ps = -1;
        end_local(play, lane);
        go_on(play, id);
        wake(play, id);
    }
    for (;;) {
        uint32_t message = play->net->ops->arrived(play->net, play->now);
        uint32_t wire = message / play->schedule->slot_count;
        tutti_ps drain_ps;

        if (message == TUTTI_MESSAGE_NONE)
            return;
        drain_ps = play->now - play->slots[message].sent_ps - play->wires[wire].latency_ps;
        play->drain_ps_max = tutti_later_ps(play->drain_ps_max, drain_ps);
        play->wires[wire].arrived_count++;
        wake(play, play->quotient->wires[wire].receiver);
    }
}

/* When something happens next; false if nothing does. */
static bool next_event(struct tutti_class_play *play, tutti_ps *ret_ps)
{
    tutti_ps timer_ps = INT64_MAX;
    tutti_ps net_ps = INT64_MAX;
    bool timer = tutti_queue_next(&play->timers, &timer_ps);
    bool net = play->net->ops->next(play->net, play->now, &net_ps);

    *ret_ps = timer_ps < net_ps ? timer_ps : net_ps;
    return timer || net;
}

static int run(struct tutti_class_play *play, uint64_t step_count_max, struct tutti_err *err)
{
    uint64_t limit = step_count_max > 0 ? step_count_max : UINT64_MAX - 1;
    struct tutti_steady *steady = NULL;
    tutti_ps at_ps;
    int status = tutti_steady_new(play, &steady, err);

    for (uint32_t lane = 0; lane < play->quotient->lane_count; lane++)
        wake(play, lane);
    while (status == 0) {
        run_todo(play);
        if (play->unsuited != NULL || play->simulated_count > limit || !next_event(play, &at_ps))
            break;
        if (at_ps > play->now) {
            status = tutti_steady_watch(steady, play, at_ps);
            if (status < 0 || !next_event(play, &at_ps))
                break;
        }
        play->now = at_ps;
        take_events(play);
        play->look_count = play->net->look_count;
        status = tutti_play_goes_on(play->opts, play->net, err);
    }
    tutti_steady_free(steady);
    if (status < 0)
        return status == -TUTTI_ETIME ? status : tutti_nomem(err);
    if (play->unsuited != NULL)
        return tutti_fail(err, TUTTI_ELACK, "'%s': %s", play->schedule->name, play->unsuited);
    if (play->simulated_count > limit) /* strict: nor is another way tried, which takes as long */
        return tutti_fail(err, play->opts->strict ? TUTTI_ETIME : TUTTI_ELACK,
                          "it takes more than %" PRIu64 " steps to simulate, folded",
                          step_count_max);
    for (uint32_t lane = 0; lane < play->quotient->lane_count; lane++) {
        if (play->lanes[lane].step != NULL)
            return tutti_fail(err, TUTTI_ELACK, "'%s': lanes wait for each other",
                              play->schedule->name);
    }
    return 0;
}

/* ---- coming and going ------------------------------------------------------------------------ */

static tutti_ps latency_of(const struct tutti_class_play *play,
                           const struct tutti_quotient_wire *wire)
{
    if (play->opts->protocol == NULL)
        return wire->latency_ps;
    return tutti_add_ps(wire->latency_ps, play->opts->protocol->message_ps[wire->hop]);
}

static int open_links(struct tutti_class_play *play, struct tutti_err *err)
{
    const struct tutti_quotient *quotient = play->quotient;
    uint64_t *rates = calloc((size_t)quotient->link_count + 1, sizeof(*rates));
    int status;

    if (rates == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < quotient->link_count; i++)
        rates[i] = tutti_quotient_rate(quotient, play->opts->protocol, i);
    status = tutti_net_fair.open(
        &(struct tutti_net_links){.link_count = quotient->link_count, .bytes_per_s = rates},
        &play->net, err);
    free(rates);
    return status;
}

static int open_net(struct tutti_class_play *play, struct tutti_err *err)
{
    const struct tutti_quotient *quotient = play->quotient;
    uint32_t most = 1;
    uint32_t *ids;
    int status = open_links(play, err);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < quotient->wire_count; i++)
        most = quotient->wires[i].way_count > most ? quotient->wires[i].way_count : most;
    ids = calloc(2 * (size_t)most, sizeof(*ids));
    if (ids == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < quotient->wire_count && status == 0; i++) {
        const struct tutti_quotient_wire *wire = &quotient->wires[i];

        for (uint32_t k = 0; k < wire->way_count; k++) {
            ids[k] = quotient->ways[wire->way_first + k].link;
            ids[most + k] = quotient->ways[wire->way_first + k].weight;
        }
        play->wires[i].latency_ps = latency_of(play, wire);
        status = tutti_fair_connect(play->net, ids, ids + most, wire->way_count,
                                    tutti_protocol_pace(play->opts->protocol, wire->hop));
    }
    free(ids);
    if (status == 0)
        status =
            play->net->ops->reserve(play->net, quotient->wire_count * play->schedule->slot_count);
    return status < 0 ? tutti_nomem(err) : 0;
}

static void open_lanes(struct tutti_class_play *play)
{
    for (uint32_t id = 0; id < play->quotient->lane_count; id++) {
        const struct tutti_quotient_lane *is = &play->quotient->lanes[id];
        struct tutti_class_lane *lane = &play->lanes[id];

        lane->fused = NONE;
        lane->busy_ps = -1;
        lane->waiter_first = NONE;
        lane->round_count = play->schedule->ops->round_count(play->schedule, is->rank, is->lane);
        tutti_class_hold(play, id, 0);
    }
    for (uint32_t id = 0; id < play->quotient->lane_count; id++) {
        uint32_t dep = play->quotient->lanes[id].dep;

        if (dep == NONE)
            continue;
        play->lanes[id].waiter_next = play->lanes[dep].waiter_first;
        play->lanes[dep].waiter_first = id;
    }
}

static int make(struct tutti_class_play *play, struct tutti_err *err)
{
    const struct tutti_quotient *quotient = play->quotient;
    const struct tutti_quotient_lane *last = &quotient->lanes[quotient->lane_count - 1];
    size_t slot_count = play->schedule->slot_count;
    size_t out_count = (size_t)last->out_first + last->out_count;

    if (quotient->wire_count * (uint64_t)slot_count > UINT32_MAX / 2 ||
        out_count * (uint64_t)slot_count > UINT32_MAX)
        return tutti_fail(err, TUTTI_ELACK, "'%zu' slots of a connection are too many", slot_count);
    play->lanes = calloc(quotient->lane_count, sizeof(*play->lanes));
    play->few = calloc((size_t)quotient->lane_count * TUTTI_CLASS_HELD_FEW, sizeof(*play->few));
    play->many = calloc((size_t)quotient->lane_count * TUTTI_CLASS_HELD_MAX, sizeof(*play->many));
    play->wires = calloc((size_t)quotient->wire_count + 1, sizeof(*play->wires));
    play->slots = calloc(quotient->wire_count * slot_count + 1, sizeof(*play->slots));
    play->out_sent = calloc(out_count + 1, sizeof(*play->out_sent));
    play->in_taken = calloc((size_t)last->in_first + last->in_count + 1, sizeof(*play->in_taken));
    play->send_index = calloc(out_count * slot_count + 1, sizeof(*play->send_index));
    play->todo = calloc(quotient->lane_count, sizeof(*play->todo));
    if (play->lanes == NULL || play->few == NULL || play->many == NULL || play->wires == NULL ||
        play->slots == NULL || play->out_sent == NULL || play->in_taken == NULL ||
        play->send_index == NULL || play->todo == NULL ||
        tutti_queue_reserve(&play->timers, quotient->lane_count) < 0)
        return tutti_nomem(err);
    open_lanes(play);
    return open_net(play, err);
}

static int open_skip(const struct tutti_quotient *quotient, struct tutti_class_skip *skip,
                     struct tutti_err *err)
{
    skip->rounds = calloc(quotient->lane_count, sizeof(*skip->rounds));
    skip->run_bytes = calloc((size_t)quotient->wire_count + 1, sizeof(*skip->run_bytes));
    skip->bytes = calloc((size_t)quotient->wire_count + 1, sizeof(*skip->bytes));
    return skip->rounds == NULL || skip->run_bytes == NULL || skip->bytes == NULL ? tutti_nomem(err)
                                                                                  : 0;
}

void tutti_class_skip_done(struct tutti_class_skip *skip)
{
    free(skip->rounds);
    free(skip->run_bytes);
    free(skip->bytes);
    *skip = (struct tutti_class_skip){.runs = 0};
}

static int sum_up(const struct tutti_class_play *play, struct tutti_class_played *ret,
                  struct tutti_err *err)
{
    *ret = (struct tutti_class_played){.end_ps = play->now,
                                       .drain_ps_max = play->drain_ps_max,
                                       .simulated_count = play->simulated_count,
                                       .look_count = play->look_count};
    for (uint32_t lane = 0; lane < play->quotient->lane_count; lane++)
        ret->step_count += play->lanes[lane].index * play->quotient->lanes[lane].size;
    for (uint32_t wire = 0; wire < play->quotient->wire_count; wire++)
        play->skip->bytes[wire] = play->wires[wire].bytes;
    return tutti_class_load(play->quotient, play->skip, 0, ret, err);
}

int tutti_class_play_noting(const struct tutti_sim_opts *opts,
                            const struct tutti_schedule *schedule,
                            const struct tutti_quotient *quotient, uint64_t step_count_max,
                            struct tutti_class_skip *skip, struct tutti_class_played *ret,
                            struct tutti_err *err)
{
    tutti_ps launch_ps = opts->protocol != NULL ? opts->protocol->launch_ps : 0;
    struct tutti_class_play play = {.opts = opts,
                                    .schedule = schedule,
                                    .quotient = quotient,
                                    .skip = skip,
                                    .now = tutti_rank_begin_ps(opts, 0, launch_ps)};
    int status = open_skip(quotient, skip, err);

    if (status == 0)
        status = make(&play, err);
    if (status == 0)
        status = run(&play, step_count_max, err);
    if (status == 0)
        status = sum_up(&play, ret, err);
    tutti_queue_done(&play.timers);
    if (play.net != NULL)
        play.net->ops->close(play.net);
    free(play.lanes);
    free(play.few);
    free(play.many);
    free(play.wires);
    free(play.slots);
    free(play.out_sent);
    free(play.in_taken);
    free(play.send_index);
    free(play.todo);
    return status;
}

int tutti_class_play(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                     const struct tutti_quotient *quotient, uint64_t step_count_max,
                     struct tutti_class_played *ret, struct tutti_err *err)
{
    struct tutti_class_skip skip = {.runs = 0};
    int status = tutti_class_play_noting(opts, schedule, quotient, step_count_max, &skip, ret, err);

    tutti_class_skip_done(&skip);
    return status;
}
