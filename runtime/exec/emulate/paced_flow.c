/* Messages and steps are held back until they are over on the clock of the emulated machine; see
 * host/flow.h. */
#include "runtime/exec/emulate/pacer.h"
#include "runtime/exec/host/flow.h"
#include "runtime/exec/host/lane_state.h"

static void sent(const struct tutti_thread_stage *stage, struct tutti_connection *connection,
                 struct tutti_slot *slot)
{
    stage->pacer->ops->send(stage->pacer, connection, slot);
}

static bool arrived(const struct tutti_thread_stage *stage,
                    const struct tutti_connection *connection, const struct tutti_slot *slot)
{
    return stage->pacer->ops->arrived(stage->pacer, connection, slot);
}

static void released(const struct tutti_thread_stage *stage, struct tutti_connection *connection)
{
    stage->pacer->ops->release(stage->pacer, connection);
}

static bool came(const struct tutti_thread_stage *stage, const struct tutti_connection *connection)
{
    return stage->pacer->ops->arrived(stage->pacer, connection, NULL);
}

/* As soon as both the transport and the clock say so. */
static uint64_t taken_away(const struct tutti_thread_stage *stage,
                           const struct tutti_connection *connection)
{
    uint64_t taken = stage->pacer->ops->released(stage->pacer, connection);
    uint64_t done = connection->endpoint->done_count;

    return taken < done ? taken : done;
}

/* Every step takes the time that it takes there. */
static bool is_over(const struct tutti_thread_stage *stage, struct tutti_lane_state *lane_state)
{
    struct tutti_shaper *shaper = stage->pacer->shaper;
    tutti_ps now_ps = stage->pacer->ops->now(stage->pacer);

    if (!lane_state->started) {
        lane_state->started = true;
        lane_state->until_ps = tutti_wait_set_after(
            now_ps, shaper->ops->step_ps(shaper, stage->rank, lane_state->post.step));
    }
    return lane_state->until_ps <= now_ps;
}

static tutti_ps time_of(const struct tutti_thread_stage *stage)
{
    return stage->pacer->ops->time(stage->pacer);
}

const struct tutti_flow_ops tutti_paced_flow = {
    .holds = true,
    .sent = sent,
    .arrived = arrived,
    .released = released,
    .sent_away = sent,
    .came = came,
    .took = released,
    .taken_away = taken_away,
    .is_over = is_over,
    .time = time_of,
};
