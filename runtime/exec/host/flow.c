/* Nothing is held back: who waits for a message or for a slot is woken at once; see flow.h. */
#include "runtime/exec/host/flow.h"

#include "runtime/exec/host/lane_state.h"

static void sent(const struct tutti_thread_stage *stage, struct tutti_connection *connection,
                 struct tutti_slot *slot)
{
    (void)slot;
    tutti_wait_set_wake(stage->wait_set, connection->to);
}

static bool arrived(const struct tutti_thread_stage *stage,
                    const struct tutti_connection *connection, const struct tutti_slot *slot)
{
    (void)stage;
    return atomic_load(&slot->serial) == connection->taken_count + 1;
}

static void released(const struct tutti_thread_stage *stage, struct tutti_connection *connection)
{
    tutti_wait_set_wake(stage->wait_set, connection->from);
}

/* The transport does all there is to be done. */
static void sent_away(const struct tutti_thread_stage *stage, struct tutti_connection *connection,
                      struct tutti_slot *slot)
{
    (void)stage;
    (void)connection;
    (void)slot;
}

static bool came(const struct tutti_thread_stage *stage, const struct tutti_connection *connection)
{
    (void)stage;
    (void)connection;
    return true;
}

static void took(const struct tutti_thread_stage *stage, struct tutti_connection *connection)
{
    (void)stage;
    (void)connection;
}

static uint64_t taken_away(const struct tutti_thread_stage *stage,
                           const struct tutti_connection *connection)
{
    (void)stage;
    return connection->endpoint->done_count;
}

/* Only COMPUTE takes longer than it takes us. */
static bool is_over(const struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state)
{
    const struct tutti_step *step = lane_state->post.step;
    tutti_ps now_ps;

    if (step->kind != TUTTI_COMPUTE)
        return true;
    now_ps = tutti_wait_set_now(stage->wait_set);
    if (!lane_state->started) {
        lane_state->started = true;
        lane_state->start_ps = now_ps;
        lane_state->until_ps = tutti_wait_set_after(now_ps, step->duration_ps);
    }
    return lane_state->until_ps <= now_ps;
}

static tutti_ps time_of(const struct tutti_thread_stage *stage)
{
    return tutti_wait_set_now(stage->wait_set);
}

const struct tutti_flow_ops tutti_plain_flow = {
    .holds = false,
    .sent = sent,
    .arrived = arrived,
    .released = released,
    .sent_away = sent_away,
    .came = came,
    .took = took,
    .taken_away = taken_away,
    .is_over = is_over,
    .time = time_of,
};
