/* Playing by the clock; see clocked.h.
 *
 * Everything is kept by lanes, connections and messages of a cache line or two each; programs are
 * written a round at a time and never stored; what completes in an instant stands in one line, in
 * the order in which the stage would report it, and is followed up before the clock goes on. */
#include "sim/play/clocked.h"
#include "sim/play/estimate.h"

#include <assert.h>
#include <string.h>

#include "runtime/record.h"
#include "runtime/status.h"
#include "sim/memory/memory.h"
#include "sim/play/clocked_state.h"
#include "sim/play/clocked_steady.h"
#include "sim/play/clocked_steps.h"
#include "sim/sim.h"
#include "topo/topo.h"

/* ---- dependencies ---------------------------------------------------------------------------- */

static bool has_completed(const struct tutti_clocked *clocked, const struct lane *lane,
                          uint64_t step)
{
    if (step >= lane->index)
        return false;
    for (uint32_t m = lane->send_first; m != NONE; m = clocked->messages[m].next_send) {
        if (clocked->messages[m].index == step)
            return false;
    }
    return true;
}

/* Begins the step of a lane, or leaves it with those who wait for what it depends on. */
static int try_lane(struct tutti_clocked *clocked, uint32_t id, struct tutti_err *err)
{
    struct lane *lane = &clocked->lanes[id];
    const struct brief *brief = &lane->brief[lane->brief_at];

    if ((brief->flags & TUTTI_STEP_DEP) != 0) {
        struct lane *other = lane - id % clocked->schedule->lane_count + brief->dep_lane;

        if (!clocked->has_dependencies) {
            clocked->begin_anew = true;
            return 0;
        }
        if (!has_completed(clocked, other, brief->dep_step)) {
            lane->waiter_next = other->waiter_first;
            other->waiter_first = id;
            return 0;
        }
    }
    return tutti_clocked_begin(clocked, id, err);
}

/* A step of `lane` has completed: those who waited for it are to be tried again. */
static void wake(struct tutti_clocked *clocked, struct lane *lane)
{
    uint32_t *link = &lane->waiter_first;

    while (*link != NONE) {
        uint32_t id = *link;
        struct lane *waiter = &clocked->lanes[id];

        if (has_completed(clocked, lane, waiter->brief[waiter->brief_at].dep_step)) {
            *link = waiter->waiter_next;
            clocked->woken[clocked->woken_count++] = id;
        } else {
            link = &waiter->waiter_next;
        }
    }
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Follows up what completed first: a lane goes on to its next step, and those who waited too. */
static int follow_up(struct tutti_clocked *clocked, struct tutti_err *err)
{
    uint32_t entry = clocked->done[clocked->done_first];
    struct lane *lane;
    int status = 0;

    clocked->done_first = (clocked->done_first + 1) & (clocked->done_capacity - 1);
    clocked->done_count--;
    clocked->woken_count = 0;
    if (entry < clocked->lane_count) {
        lane = &clocked->lanes[entry];
        lane->index++;
        if (tutti_clocked_next_step(clocked, entry))
            clocked->woken[clocked->woken_count++] = entry;
        else
            clocked->lanes_left--;
    } else {
        entry -= clocked->lane_count;
        lane = &clocked->lanes[clocked->wires[clocked->messages[entry].wire].send_lane];
        tutti_clocked_forget(clocked, entry);
    }
    if (lane->waiter_first != NONE)
        wake(clocked, lane);
    for (uint32_t i = 0; i < clocked->woken_count && status == 0 && !clocked->unsuited; i++)
        status = try_lane(clocked, clocked->woken[i], err);
    return status;
}

/* Works off all timers and arrivals of the next instant; if there is none, nobody can go on. */
static int advance(struct tutti_clocked *clocked, struct tutti_err *err)
{
    const struct tutti_net_ops *net = clocked->net->ops;
    tutti_ps timer_ps = INT64_MAX;
    tutti_ps net_ps = INT64_MAX;
    bool timer = tutti_queue_next(&clocked->timers, &timer_ps);
    int status = 0;

    if (!net->next(clocked->net, clocked->now, &net_ps) && !timer) {
        clocked->unsuited = true;
        return 0;
    }
    assert(timer_ps >= clocked->now); /* time never runs back */
    assert(net_ps >= clocked->now);
    clocked->now = timer_ps < net_ps ? timer_ps : net_ps;
    status = tutti_play_goes_on(clocked->opts, clocked->net, err);
    while (timer && timer_ps <= clocked->now && status == 0) {
        status = tutti_clocked_ring(clocked, tutti_queue_pop(&clocked->timers), err);
        timer = tutti_queue_next(&clocked->timers, &timer_ps);
    }
    while (status == 0) {
        uint32_t message = net->arrived(clocked->net, clocked->now);

        if (message == TUTTI_MESSAGE_NONE)
            break;
        status = tutti_clocked_arrive(clocked, message, err);
    }
    return status;
}

static void rewind_all(struct tutti_clocked *clocked, tutti_ps start_ps)
{
    const struct tutti_schedule *schedule = clocked->schedule;

    clocked->now = clocked->launched_ps = start_ps;
    clocked->net->ops->reset(clocked->net);
    tutti_queue_clear(&clocked->timers);
    for (uint32_t i = 0; i < clocked->wire_count; i++) {
        struct wire *wire = &clocked->wires[i];

        wire->first = wire->last = NONE;
        wire->under_way = 0;
        wire->sent_count = 0;
        wire->send_waits = wire->recv_waits = false;
    }
    clocked->message_count = clocked->under_way = 0;
    clocked->message_free = NONE;
    clocked->done_first = clocked->done_count = 0;
    clocked->step_count = 0;
    clocked->drain_ps_max = 0;
    clocked->lanes_left = clocked->lane_count;
    for (uint32_t i = 0; i < clocked->lane_count; i++)
        clocked->lanes[i] = (struct lane){
            .round_count = schedule->ops->round_count(schedule, i / schedule->lane_count,
                                                      i % schedule->lane_count),
            .fused = NONE,
            .to_wire = NONE,
            .from_wire = NONE,
            .send_first = NONE,
            .waiter_first = NONE,
        };
}

/* Plays until all lanes have ended and all messages are taken, or the attempt is over. */
static int run(struct tutti_clocked *clocked, tutti_ps start_ps, struct tutti_err *err)
{
    int status = 0;

    rewind_all(clocked, start_ps);
    if (clocked->steady != NULL)
        tutti_clocked_steady_reset(clocked->steady, clocked);
    for (uint32_t id = 0; id < clocked->lane_count && status == 0 && !clocked->unsuited; id++) {
        if (tutti_clocked_next_step(clocked, id))
            status = clocked->unsuited ? 0 : try_lane(clocked, id, err);
        else
            clocked->lanes_left--;
    }
    while ((clocked->lanes_left > 0 || clocked->under_way > 0) && status == 0 &&
           !clocked->unsuited && !clocked->begin_anew) {
        if (clocked->done_count > 0) {
            status = follow_up(clocked, err);
            continue;
        }
        if (clocked->steady != NULL)
            status = tutti_clocked_steady_watch(clocked->steady, clocked);
        if (status == 0 && !clocked->unsuited)
            status = advance(clocked, err);
    }
    return status;
}

int tutti_clocked_play(struct tutti_clocked *clocked, uint64_t seed, tutti_ps start_ps,
                       struct tutti_record *record, tutti_ps *ret_end_ps, uint64_t *ret_step_count,
                       struct tutti_err *err)
{
    int status;

    if (clocked->unsuited)
        return 0;
    clocked->seed = seed;
    clocked->record = record;
    status = run(clocked, start_ps, err);
    if (status == 0 && clocked->begin_anew) { /* nobody has kept lists of SENDs so far */
        clocked->begin_anew = false;
        clocked->has_dependencies = true;
        if (record != NULL)
            tutti_record_clear(record);
        status = run(clocked, start_ps, err);
    }
    if (status < 0)
        return status == -TUTTI_ETIME ? status : tutti_nomem(err);
    if (clocked->unsuited)
        return 0;
    *ret_end_ps = clocked->now;
    *ret_step_count = clocked->step_count;
    return 1;
}

tutti_ps tutti_clocked_drain_ps_max(const struct tutti_clocked *clocked)
{
    return clocked->drain_ps_max;
}

int tutti_clocked_skip(struct tutti_clocked *clocked, uint64_t step_count_max,
                       struct tutti_err *err)
{
    assert(clocked->steady == NULL);
    assert(clocked->opts->model == TUTTI_MODEL_ALPHABETA);
    assert(clocked->jitter_q32 == 0 && !clocked->opts->topo->has_bursts);
    return tutti_clocked_steady_new(step_count_max, &clocked->steady, err);
}

bool tutti_clocked_has_skipped(const struct tutti_clocked *clocked)
{
    return tutti_clocked_steady_has_skipped(clocked->steady);
}

bool tutti_clocked_is_over(const struct tutti_clocked *clocked)
{
    return tutti_clocked_steady_is_over(clocked->steady);
}

/* ---- coming and going ------------------------------------------------------------------------ */

static int open_net(struct tutti_clocked *clocked, struct tutti_err *err)
{
    const struct tutti_topo *topo = clocked->opts->topo;
    const struct tutti_net_ops *ops = tutti_net_of(clocked->opts->model);

    clocked->link_rates = tutti_memory_take(clocked->opts->memory, (size_t)topo->link_count + 1,
                                            sizeof(*clocked->link_rates));
    if (clocked->link_rates == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < topo->link_count; i++)
        clocked->link_rates[i] = tutti_link_rate(topo, clocked->opts->protocol, i);
    if (topo->has_bursts &&
        tutti_link_bursts(clocked->opts->memory, topo, &clocked->link_bursts) < 0)
        return tutti_nomem(err);
    return ops->open(&(struct tutti_net_links){.link_count = topo->link_count,
                                               .bytes_per_s = clocked->link_rates,
                                               .burst_bytes = clocked->link_bursts,
                                               .memory = clocked->opts->memory},
                     &clocked->net, err);
}

int tutti_clocked_new(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                      struct tutti_clocked **ret, struct tutti_err *err)
{
    uint64_t lane_count = (uint64_t)schedule->rank_count * schedule->lane_count;
    struct tutti_clocked *clocked = tutti_memory_take(opts->memory, 1, sizeof(*clocked));
    int status;

    if (clocked == NULL)
        return tutti_nomem(err);
    clocked->opts = opts;
    clocked->timers.memory = opts->memory;
    clocked->schedule = schedule;
    clocked->lane_count = (uint32_t)lane_count;
    clocked->rooms = rooms_of(schedule);
    clocked->jitter_q32 = tutti_jitter_q32(opts->jitter);
    clocked->unsuited = lane_count >= NONE / 2;
    status = open_net(clocked, err);
    if (status == 0)
        status = tutti_wires_init(&clocked->table, opts->topo, opts->protocol, clocked->net,
                                  opts->memory, err);
    if (status == 0 && !clocked->unsuited) {
        clocked->done_capacity = 64;
        while (clocked->done_capacity < lane_count)
            clocked->done_capacity *= 2;
        clocked->lanes = tutti_memory_take(opts->memory, (size_t)clocked->lane_count + 1,
                                           sizeof(*clocked->lanes));
        clocked->woken = tutti_memory_take(opts->memory, (size_t)clocked->lane_count + 1,
                                           sizeof(*clocked->woken));
        clocked->done =
            tutti_memory_take(opts->memory, clocked->done_capacity, sizeof(*clocked->done));
        if (clocked->lanes == NULL || clocked->woken == NULL || clocked->done == NULL ||
            tutti_queue_reserve(&clocked->timers, clocked->lane_count) < 0)
            status = tutti_nomem(err);
    }
    if (status < 0) {
        tutti_clocked_free(clocked);
        return status;
    }
    *ret = clocked;
    return 0;
}

void tutti_clocked_free(struct tutti_clocked *clocked)
{
    struct tutti_memory *memory;

    if (clocked == NULL)
        return;
    memory = clocked->opts->memory;
    tutti_clocked_steady_free(clocked->steady);
    tutti_wires_done(&clocked->table);
    tutti_queue_done(&clocked->timers);
    if (clocked->net != NULL)
        clocked->net->ops->close(clocked->net);
    tutti_memory_give(memory, clocked->link_rates);
    tutti_memory_give(memory, clocked->link_bursts);
    tutti_memory_give(memory, clocked->wires);
    tutti_memory_give(memory, clocked->messages);
    tutti_memory_give(memory, clocked->lanes);
    tutti_memory_give(memory, clocked->woken);
    tutti_memory_give(memory, clocked->done);
    tutti_memory_give(memory, clocked);
}
