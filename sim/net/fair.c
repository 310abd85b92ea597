/* The network model `fair`: a message waits for its latency, then its bytes drain at the max-min
 * fair rate of all links on its route. Messages of one connection drain one after another, in
 * order; their latencies overlap. Where connections have a slice (struct tutti_pace), each message
 * takes that time before it drains and while no other of its connection does. Rates are solved once
 * for each instant at which flows came or went.
 *
 * Token buckets: a message takes what the buckets of its links hold when it begins to drain, and
 * the rest drains at its rate; see net.h.
 *
 * Numbers: rates and bytes left are doubles, times are whole picoseconds. The bytes left are
 * counted down only when a rate changes, always from the exact times, so rounding does not add up;
 * a message ends on the first picosecond not before the computed end. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/memory/memory.h"
#include "sim/net/fair.h"
#include "sim/net/maxmin.h"
#include "sim/queue/queue.h"

/* What the oldest message of a connection does; those behind it wait for their turn. */
enum stage {
    FLIES,  /* its latency is not over */
    BEGINS, /* its slice is not over */
    DRAINS,
    WAITS, /* of others: the latency is over, but the turn is that of a message before it */
};

struct message {
    double bytes; /* on the wire, stretched */
    tutti_ps slice_ps;
    tutti_ps ready_ps; /* when its latency is over */
    uint32_t connection;
    uint32_t next;
};

/* A connection is one flow; it is active in the solver while its oldest message drains. */
struct connection {
    double left_bytes; /* of the draining message, at since_ps */
    double rate;       /* bytes per second; 0: not solved yet or not active */
    tutti_ps since_ps;
    tutti_ps slice_ps;
    uint32_t first; /* oldest message, whose turn it is if ready */
    uint32_t last;
    enum stage stage; /* of the oldest */
};

struct fair {
    struct tutti_net net;
    struct tutti_maxmin maxmin;  /* flows are connections */
    const uint32_t *burst_bytes; /* [links], or NULL */
    tutti_ps *full_ps;           /* [links]: when its bucket is full again; or NULL */
    uint32_t link_count;
    struct connection *connections;
    uint32_t connection_count;
    uint32_t connection_capacity;
    struct message *messages;
    uint32_t message_capacity;
    struct tutti_queue events; /* ids are connections: what ends next of their oldest messages */
};

static void fair_close(struct tutti_net *net)
{
    struct fair *model = (struct fair *)net;

    if (model == NULL)
        return;
    tutti_maxmin_done(&model->maxmin);
    tutti_queue_done(&model->events);
    tutti_memory_give(net->memory, model->full_ps);
    tutti_memory_give(net->memory, model->connections);
    tutti_memory_give(net->memory, model->messages);
    tutti_memory_give(net->memory, model);
}

static int fair_open(const struct tutti_net_links *links, struct tutti_net **ret,
                     struct tutti_err *err)
{
    struct fair *model = tutti_memory_take(links->memory, 1, sizeof(*model));

    if (model == NULL)
        return tutti_nomem(err);
    model->net.ops = &tutti_net_fair;
    model->net.memory = model->events.memory = links->memory;
    model->burst_bytes = links->burst_bytes;
    model->link_count = links->link_count;
    if (links->burst_bytes != NULL)
        model->full_ps = tutti_memory_take(links->memory, (size_t)links->link_count + 1,
                                           sizeof(*model->full_ps));
    if ((links->burst_bytes != NULL && model->full_ps == NULL) ||
        tutti_maxmin_init_in(&model->maxmin, links->memory, links->bytes_per_s, links->link_count) <
            0) {
        fair_close(&model->net);
        return tutti_nomem(err);
    }
    *ret = &model->net;
    return 0;
}

static struct connection idle_connection(tutti_ps slice_ps)
{
    return (struct connection){
        .slice_ps = slice_ps, .first = TUTTI_MESSAGE_NONE, .last = TUTTI_MESSAGE_NONE};
}

static void fair_reset(struct tutti_net *net)
{
    struct fair *model = (struct fair *)net;

    tutti_maxmin_reset(&model->maxmin);
    net->look_count = 0;
    tutti_queue_clear(&model->events);
    for (uint32_t i = 0; i < model->link_count && model->full_ps != NULL; i++)
        model->full_ps[i] = 0;
    for (uint32_t i = 0; i < model->connection_count; i++)
        model->connections[i] = idle_connection(model->connections[i].slice_ps);
}

/* The same, or 0 if some link is no faster. */
static uint64_t rate_limit(const struct fair *model, const uint32_t *links, uint32_t link_count,
                           uint64_t bytes_per_s)
{
    double least = INFINITY;

    for (uint32_t i = 0; i < link_count; i++)
        least = fmin(least, model->maxmin.links[links[i]].capacity);
    return (double)bytes_per_s < least ? bytes_per_s : 0;
}

int tutti_fair_connect(struct tutti_net *net, const uint32_t *links, const uint32_t *weights,
                       uint32_t link_count, struct tutti_pace pace)
{
    struct fair *model = (struct fair *)net;
    int status =
        tutti_memory_grow(net->memory, &model->connections, &model->connection_capacity,
                          (uint64_t)model->connection_count + 1, sizeof(*model->connections));

    if (status == 0)
        status = tutti_queue_reserve(&model->events, model->connection_capacity);
    if (status == 0)
        status = tutti_maxmin_add(&model->maxmin, links, weights, link_count,
                                  rate_limit(model, links, link_count, pace.bytes_per_s));
    if (status < 0)
        return status;
    model->connections[model->connection_count++] = idle_connection(pace.slice_ps);
    return 0;
}

static int fair_connect(struct tutti_net *net, const uint32_t *links, uint32_t link_count,
                        struct tutti_pace pace)
{
    return tutti_fair_connect(net, links, NULL, link_count, pace);
}

static int fair_reserve(struct tutti_net *net, uint32_t message_count)
{
    struct fair *model = (struct fair *)net;

    return tutti_memory_grow(net->memory, &model->messages, &model->message_capacity, message_count,
                             sizeof(*model->messages));
}

static void fair_start(struct tutti_net *net, const struct tutti_net_send *send, tutti_ps now)
{
    struct fair *model = (struct fair *)net;
    struct connection *connection = &model->connections[send->connection];
    struct message *message = &model->messages[send->message];

    assert(send->message < model->message_capacity);
    *message = (struct message){
        .bytes = tutti_stretch_bytes(send->bytes, send->stretch_q32),
        .slice_ps = tutti_stretch_ps(connection->slice_ps, send->stretch_q32),
        .ready_ps = tutti_add_ps(now, send->latency_ps),
        .connection = send->connection,
        .next = TUTTI_MESSAGE_NONE,
    };
    if (connection->first == TUTTI_MESSAGE_NONE) {
        connection->first = send->message;
        connection->stage = FLIES;
        tutti_queue_put(&model->events, send->connection, message->ready_ps);
    } else { /* nothing to be done for it before its turn */
        model->messages[connection->last].next = send->message;
    }
    connection->last = send->message;
}

/* What a message that begins to drain takes out of the buckets of its route: as much as the least
 * of them holds; but no more than leaves what takes the time of the links without buckets. The
 * links that limit the rates of single connections come after the others, and do not count. */
static double take_tokens(struct fair *model, uint32_t id, double bytes, tutti_ps now)
{
    const struct tutti_maxmin_flow *flow = &model->maxmin.flows[id];
    double plain_rate = INFINITY;
    double slowest = INFINITY;
    double tokens = bytes;

    for (uint32_t i = 0; i < flow->hop_count; i++) {
        uint32_t link = model->maxmin.hops[flow->hop_first + i].link;
        double rate = model->maxmin.links[link].capacity;
        tutti_ps wait_ps;

        if (link >= model->link_count)
            continue;
        if (model->burst_bytes[link] == 0) {
            plain_rate = fmin(plain_rate, rate);
            continue;
        }
        slowest = fmin(slowest, rate);
        wait_ps = tutti_later_ps(0, model->full_ps[link] - now);
        tokens = fmin(tokens, (double)model->burst_bytes[link] -
                                  rate * ((double)wait_ps / (double)TUTTI_PS_PER_S));
        model->full_ps[link] = tutti_add_ps(now + wait_ps, tutti_drain_ps(bytes, rate));
    }
    if (!(slowest < plain_rate)) /* also: no buckets */
        return 0;
    return fmax(fmin(tokens, bytes * (1 - slowest / plain_rate)), 0);
}

/* The oldest message of a connection, whose slice is over, begins to drain. One that comes after
 * another takes over its rate: nothing changes for the others, so nothing has to be solved. */
static void drain(struct fair *model, uint32_t id, tutti_ps now)
{
    struct connection *connection = &model->connections[id];
    struct message *message = &model->messages[connection->first];
    bool active = model->maxmin.flows[id].active;

    connection->stage = DRAINS;
    if (model->full_ps != NULL && message->bytes > 0)
        message->bytes -= take_tokens(model, id, message->bytes, now);
    if (!(message->bytes > 0)) { /* nothing to drain */
        if (active)
            tutti_maxmin_leave(&model->maxmin, id);
        connection->rate = 0;
        tutti_queue_put(&model->events, id, now);
        return;
    }
    connection->left_bytes = message->bytes;
    connection->since_ps = now;
    if (!active)
        tutti_maxmin_enter(&model->maxmin, id);
    else
        tutti_queue_put(&model->events, id,
                        tutti_add_ps(now, tutti_drain_ps(message->bytes, connection->rate)));
}

/* The turn of the oldest message of a connection, if it is ready; if it does not drain at once, the
 * connection leaves the solver. */
static void take_turn(struct fair *model, uint32_t id, tutti_ps now)
{
    struct connection *connection = &model->connections[id];
    const struct message *message =
        connection->first != TUTTI_MESSAGE_NONE ? &model->messages[connection->first] : NULL;
    bool ready = message != NULL && message->ready_ps <= now;

    if (ready && message->slice_ps == 0) {
        drain(model, id, now);
        return;
    }
    if (model->maxmin.flows[id].active)
        tutti_maxmin_leave(&model->maxmin, id);
    connection->rate = 0;
    if (message == NULL)
        return;
    connection->stage = ready ? BEGINS : FLIES;
    tutti_queue_put(&model->events, id,
                    ready ? tutti_add_ps(now, message->slice_ps) : message->ready_ps);
}

/* Solves for those that are touched and moves the ends of those whose rate has changed. */
static void settle(struct fair *model, tutti_ps now)
{
    tutti_maxmin_solve(&model->maxmin);
    model->net.look_count = model->maxmin.look_count;
    for (uint32_t i = 0; i < model->maxmin.some_flow_count; i++) {
        uint32_t id = model->maxmin.some_flows[i];
        struct connection *connection = &model->connections[id];
        double rate = model->maxmin.flows[id].rate;
        double seconds = (double)(now - connection->since_ps) / (double)TUTTI_PS_PER_S;

        if (!(rate < connection->rate) && !(rate > connection->rate))
            continue;
        connection->left_bytes -= connection->rate * seconds;
        if (connection->left_bytes < 0)
            connection->left_bytes = 0;
        connection->since_ps = now;
        connection->rate = rate;
        tutti_queue_put(&model->events, id,
                        tutti_add_ps(now, tutti_drain_ps(connection->left_bytes, rate)));
    }
}

static bool fair_next(struct tutti_net *net, tutti_ps now, tutti_ps *ret)
{
    struct fair *model = (struct fair *)net;

    if (tutti_queue_next(&model->events, ret) && *ret <= now)
        return true; /* more happens at this very instant: solve when all of it is known */
    if (model->maxmin.dirty_count > 0)
        settle(model, now);
    return tutti_queue_next(&model->events, ret);
}

static uint32_t fair_arrived(struct tutti_net *net, tutti_ps now)
{
    struct fair *model = (struct fair *)net;
    tutti_ps at_ps;

    while (tutti_queue_next(&model->events, &at_ps) && at_ps <= now) {
        uint32_t id = tutti_queue_pop(&model->events);
        struct connection *connection = &model->connections[id];
        uint32_t message = connection->first;

        assert(message != TUTTI_MESSAGE_NONE);
        if (connection->stage == DRAINS) {
            connection->first = model->messages[message].next;
            take_turn(model, id, now);
            return message;
        }
        if (connection->stage == BEGINS)
            drain(model, id, now);
        else
            take_turn(model, id, now);
    }
    return TUTTI_MESSAGE_NONE;
}

void tutti_fair_look_connection(const struct tutti_net *net, uint32_t connection, tutti_ps now,
                                int64_t *out)
{
    const struct fair *model = (const struct fair *)net;
    const struct connection *looked = &model->connections[connection];

    memset(out, 0, TUTTI_FAIR_CONNECTION_WORDS * sizeof(*out));
    if (!model->maxmin.flows[connection].active)
        return;
    _Static_assert(sizeof(double) == sizeof(int64_t), "a double is a word");
    memcpy(&out[0], &looked->left_bytes, sizeof(looked->left_bytes));
    memcpy(&out[1], &looked->rate, sizeof(looked->rate));
    out[2] = now - looked->since_ps;
    out[3] = 1;
}

void tutti_fair_look_message(const struct tutti_net *net, uint32_t message, tutti_ps now,
                             int64_t *out)
{
    const struct fair *model = (const struct fair *)net;
    const struct message *looked = &model->messages[message];
    const struct connection *connection = &model->connections[looked->connection];
    const struct tutti_queue_node *event = &model->events.nodes[looked->connection];

    if (connection->first == message) {
        out[0] = connection->stage;
        out[1] = event->bucket == UINT32_MAX ? -1 : event->at_ps - now;
    } else {
        out[0] = looked->ready_ps > now ? FLIES : WAITS;
        out[1] = looked->ready_ps > now ? looked->ready_ps - now : -1;
    }
}

int tutti_fair_shift(struct tutti_net *net, tutti_ps later_ps)
{
    struct fair *model = (struct fair *)net;
    uint32_t count = model->events.count;
    uint32_t *ids = calloc((size_t)count + 1, sizeof(*ids));
    tutti_ps *times = calloc((size_t)count + 1, sizeof(*times));

    if (ids == NULL || times == NULL) {
        free(ids);
        free(times);
        return -TUTTI_ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        (void)tutti_queue_next(&model->events, &times[i]);
        ids[i] = tutti_queue_pop(&model->events);
    }
    tutti_queue_clear(&model->events); /* its time may run back */
    for (uint32_t i = 0; i < count; i++)
        tutti_queue_put(&model->events, ids[i], tutti_add_ps(times[i], later_ps));
    for (uint32_t i = 0; i < model->connection_count; i++) {
        model->connections[i].since_ps += later_ps;
        for (uint32_t m = model->connections[i].first; m != TUTTI_MESSAGE_NONE;
             m = model->messages[m].next)
            model->messages[m].ready_ps = tutti_add_ps(model->messages[m].ready_ps, later_ps);
    }
    free(ids);
    free(times);
    return 0;
}

const struct tutti_net_ops tutti_net_fair = {
    .size = sizeof(struct tutti_net_ops),
    .name = "fair",
    .open = fair_open,
    .close = fair_close,
    .reset = fair_reset,
    .connect = fair_connect,
    .reserve = fair_reserve,
    .start = fair_start,
    .next = fair_next,
    .arrived = fair_arrived,
};
