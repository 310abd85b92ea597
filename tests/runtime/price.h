/* What a schedule costs, counted step by step: messages, bytes, steps, and how many messages must
 * follow one another. A small player of its own: no slots, no data, a message takes one unit. */
#ifndef TUTTI_TESTS_RUNTIME_PRICE_H
#define TUTTI_TESTS_RUNTIME_PRICE_H

#include "runtime/schedule.h"
#include "tests/test.h"

struct price {
    uint64_t depth;    /* messages one after another */
    uint64_t messages; /* the most that a rank sends */
    uint64_t total;    /* messages of all ranks */
    uint64_t steps;    /* of all ranks */
    uint64_t sent;     /* bytes, here and below: the most of any rank */
    uint64_t received;
    uint64_t reduced;
    uint64_t copied;
};

/* ---- counting -------------------------------------------------------------------------------- */

static inline void price_count_rank(const struct tutti_schedule *schedule, uint32_t rank,
                                    struct price *price)
{
    uint64_t bytes[8] = {0};
    uint64_t messages = 0;

    for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
        const struct tutti_step *step;
        struct tutti_cursor cursor;

        tutti_cursor_open(&cursor, schedule, rank, lane);
        while ((step = tutti_cursor_next(&cursor)) != NULL) {
            bytes[step->kind & 7] += step->bytes;
            messages += step->kind == TUTTI_SEND;
            price->steps++;
        }
    }
    price->total += messages;
    price->messages = messages > price->messages ? messages : price->messages;
    price->sent = bytes[TUTTI_SEND] > price->sent ? bytes[TUTTI_SEND] : price->sent;
    price->received = bytes[TUTTI_RECV] > price->received ? bytes[TUTTI_RECV] : price->received;
    price->reduced = bytes[TUTTI_REDUCE] > price->reduced ? bytes[TUTTI_REDUCE] : price->reduced;
    price->copied = bytes[TUTTI_COPY] > price->copied ? bytes[TUTTI_COPY] : price->copied;
}

/* ---- the longest chain of messages ----------------------------------------------------------- */

struct depth_message {
    uint64_t arrival;
    uint64_t step; /* of the SEND */
    struct depth_message *next;
};

struct depth_wire { /* one for each (from, to, lane) */
    struct depth_message *first;
    struct depth_message *last;
};

struct depth_lane {
    struct tutti_cursor cursor;
    const struct tutti_step *step;
    struct depth_message *fused; /* received, its SEND not yet complete */
    uint64_t now;
    uint64_t port;  /* when the port is free for the next SEND of this lane */
    int64_t *ended; /* by step: when, or -1 */
    uint32_t fused_from;
};

struct depth_world {
    const struct tutti_schedule *schedule;
    bool one_port; /* the messages of a lane leave one unit apart */
    struct depth_lane *lanes;
    struct depth_wire *wires;
    uint64_t latest;
};

static inline struct depth_lane *depth_lane(const struct depth_world *world, uint32_t rank,
                                            uint32_t lane)
{
    return &world->lanes[(size_t)rank * world->schedule->lane_count + lane];
}

static inline struct depth_wire *depth_wire(const struct depth_world *world, uint32_t from,
                                            uint32_t to, uint32_t lane)
{
    size_t n = world->schedule->rank_count;

    return &world->wires[((size_t)lane * n + from) * n + to];
}

static inline void depth_complete(struct depth_world *world, struct depth_message *message,
                                  uint32_t from, uint32_t lane, uint64_t now)
{
    depth_lane(world, from, lane)->ended[message->step] = (int64_t)now;
    free(message);
}

static inline void depth_send(struct depth_world *world, uint32_t rank, uint32_t lane,
                              struct depth_lane *me)
{
    struct depth_wire *wire = depth_wire(world, rank, me->step->peer, lane);
    struct depth_message *message = calloc(1, sizeof(*message));
    uint64_t start = world->one_port && me->port > me->now ? me->port : me->now;

    message->arrival = start + 1;
    message->step = me->cursor.step_index - 1;
    me->port = message->arrival;
    if (wire->first == NULL)
        wire->first = message;
    else
        wire->last->next = message;
    wire->last = message;
}

/* Goes one step on, if it can. */
static inline bool depth_step(struct depth_world *world, uint32_t rank, uint32_t lane)
{
    struct depth_lane *me = depth_lane(world, rank, lane);
    const struct tutti_step *step = me->step;
    uint64_t index = me->cursor.step_index - 1;

    if ((step->flags & TUTTI_STEP_DEP) != 0) {
        int64_t ended = depth_lane(world, rank, step->dep_lane)->ended[step->dep_step];

        if (ended < 0)
            return false;
        me->now = (uint64_t)ended > me->now ? (uint64_t)ended : me->now;
    }
    if (step->kind == TUTTI_SEND) {
        depth_send(world, rank, lane, me);
    } else if (step->kind == TUTTI_RECV) {
        struct depth_wire *wire = depth_wire(world, step->peer, rank, lane);
        struct depth_message *message = wire->first;

        if (message == NULL)
            return false;
        me->now = message->arrival > me->now ? message->arrival : me->now;
        wire->first = message->next;
        if ((step->flags & TUTTI_STEP_FUSE) != 0)
            me->fused = message;
        else
            depth_complete(world, message, step->peer, lane, me->now);
        me->ended[index] = (int64_t)me->now;
        me->fused_from = step->peer;
    } else {
        if (me->fused != NULL)
            depth_complete(world, me->fused, me->fused_from, lane, me->now);
        me->fused = NULL;
        me->ended[index] = (int64_t)me->now;
    }
    world->latest = me->now > world->latest ? me->now : world->latest;
    me->step = tutti_cursor_next(&me->cursor);
    return true;
}

static inline uint64_t price_depth(const struct tutti_schedule *schedule, bool one_port)
{
    struct depth_world world = {.schedule = schedule, .one_port = one_port};
    size_t n = schedule->rank_count;
    size_t lane_count = n * schedule->lane_count;
    bool moved = true;

    world.lanes = calloc(lane_count + 1, sizeof(*world.lanes));
    world.wires = calloc(lane_count * n + 1, sizeof(*world.wires));
    for (size_t i = 0; i < lane_count; i++) {
        uint32_t rank = (uint32_t)(i / schedule->lane_count);
        uint32_t lane = (uint32_t)(i % schedule->lane_count);
        uint64_t steps = tutti_schedule_step_count(schedule, rank, lane);

        world.lanes[i].ended = malloc((size_t)(steps + 1) * sizeof(int64_t));
        memset(world.lanes[i].ended, 0xFF, (size_t)(steps + 1) * sizeof(int64_t));
        tutti_cursor_open(&world.lanes[i].cursor, schedule, rank, lane);
        world.lanes[i].step = tutti_cursor_next(&world.lanes[i].cursor);
    }
    while (moved) {
        moved = false;
        for (size_t i = 0; i < lane_count; i++)
            while (world.lanes[i].step != NULL &&
                   depth_step(&world, (uint32_t)(i / schedule->lane_count),
                              (uint32_t)(i % schedule->lane_count)))
                moved = true;
    }
    for (size_t i = 0; i < lane_count; i++) {
        if (world.lanes[i].step != NULL)
            TEST_FAIL("%s: lane %zu is stuck", schedule->name, i);
        free(world.lanes[i].ended);
    }
    free(world.lanes);
    free(world.wires);
    return world.latest;
}

static inline struct price price_of(const struct tutti_schedule *schedule)
{
    struct price price = {.depth = price_depth(schedule, false)};

    for (uint32_t rank = 0; rank < schedule->rank_count; rank++)
        price_count_rank(schedule, rank, &price);
    return price;
}

#endif
