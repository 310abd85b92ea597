/* The network model `alphabeta`: a message takes its latency plus its bytes over its narrowest
 * link. The first link of the route serves one message at a time, in order of start (the gap of
 * LogGP, Alexandrov et al. 1995). Nothing else is contended: two senders to one receiver do not
 * disturb each other. That is the limit of this model; `fair` has the rest.
 *
 * A connection that is paced is a second such server, which takes from the link: other connections
 * may use the link while it is still at it. Without a pace it would never make anyone wait.
 *
 * A link with a token bucket is free again when that is full: see net.h. */
#include "sim/net/alphabeta.h"

#include <assert.h>

#include "runtime/status.h"
#include "sim/memory/memory.h"
#include "sim/net/net.h"
#include "sim/queue/queue.h"

struct connection {
    uint64_t bytes_per_s;       /* of the narrowest link */
    uint64_t bytes;             /* of the last message; sizes repeat, and dividing is dear */
    tutti_ps wire_ps;           /* what it took of the link */
    tutti_ps busy_ps;           /* and of the connection */
    tutti_ps free_ps;           /* when the connection has sent all it was given */
    tutti_ps plain_ps;          /* what it takes of the narrowest link without a bucket */
    tutti_ps burst_ps;          /* how much sooner it is through than the bucket is full */
    uint64_t plain_bytes_per_s; /* of that link; 0: all have buckets */
    struct tutti_pace pace;
    uint32_t egress; /* the first link */
    bool is_paced;
};

struct alphabeta {
    struct tutti_net net;
    uint32_t link_count;
    const uint64_t *bytes_per_s;
    const uint32_t *burst_bytes; /* or NULL */
    tutti_ps *free_ps; /* [link_count]: when the link has sent all it was given, and is full */
    struct connection *connections;
    uint32_t connection_count;
    uint32_t connection_capacity;
    struct tutti_queue arrivals; /* ids are messages */
};

static void alphabeta_close(struct tutti_net *net)
{
    struct alphabeta *model = (struct alphabeta *)net;

    if (model == NULL)
        return;
    tutti_queue_done(&model->arrivals);
    tutti_memory_give(net->memory, model->connections);
    tutti_memory_give(net->memory, model->free_ps);
    tutti_memory_give(net->memory, model);
}

static int alphabeta_open(const struct tutti_net_links *links, struct tutti_net **ret,
                          struct tutti_err *err)
{
    struct alphabeta *model = tutti_memory_take(links->memory, 1, sizeof(*model));

    if (model == NULL)
        return tutti_nomem(err);
    model->net.ops = &tutti_net_alphabeta;
    model->net.memory = model->arrivals.memory = links->memory;
    model->link_count = links->link_count;
    model->bytes_per_s = links->bytes_per_s;
    model->burst_bytes = links->burst_bytes;
    model->free_ps =
        tutti_memory_take(links->memory, (size_t)links->link_count + 1, sizeof(*model->free_ps));
    if (model->free_ps == NULL) {
        alphabeta_close(&model->net);
        return tutti_nomem(err);
    }
    *ret = &model->net;
    return 0;
}

static void alphabeta_reset(struct tutti_net *net)
{
    struct alphabeta *model = (struct alphabeta *)net;

    for (uint32_t link = 0; link < model->link_count; link++)
        model->free_ps[link] = 0;
    for (uint32_t i = 0; i < model->connection_count; i++)
        model->connections[i].free_ps = 0;
    tutti_queue_clear(&model->arrivals);
}

static void take_bucket(const struct alphabeta *model, struct connection *connection,
                        const uint32_t *links, uint32_t link_count)
{
    struct tutti_net_links all = {.bytes_per_s = model->bytes_per_s,
                                  .burst_bytes = model->burst_bytes};
    struct tutti_net_bucket bucket = tutti_net_route_bucket(&all, links, link_count);

    connection->burst_ps = tutti_wire_ps(bucket.burst_bytes, connection->bytes_per_s);
    connection->plain_bytes_per_s = bucket.plain_bytes_per_s;
}

static int alphabeta_connect(struct tutti_net *net, const uint32_t *links, uint32_t link_count,
                             struct tutti_pace pace)
{
    struct alphabeta *model = (struct alphabeta *)net;
    struct connection *connection;
    int status = tutti_memory_grow(net->memory, &model->connections, &model->connection_capacity,
                                   (uint64_t)model->connection_count + 1, sizeof(*connection));

    assert(link_count > 0);
    if (status < 0)
        return status;
    connection = &model->connections[model->connection_count++];
    *connection = (struct connection){.egress = links[0], .bytes_per_s = UINT64_MAX};
    for (uint32_t i = 0; i < link_count; i++) {
        uint64_t rate = model->bytes_per_s[links[i]];

        if (rate < connection->bytes_per_s)
            connection->bytes_per_s = rate;
    }
    if (pace.bytes_per_s == 0 || pace.bytes_per_s > connection->bytes_per_s)
        pace.bytes_per_s = connection->bytes_per_s;
    take_bucket(model, connection, links, link_count);
    connection->pace = pace;
    connection->is_paced = pace.slice_ps > 0 || pace.bytes_per_s < connection->bytes_per_s;
    return 0;
}

static int alphabeta_reserve(struct tutti_net *net, uint32_t message_count)
{
    return tutti_queue_reserve(&((struct alphabeta *)net)->arrivals, message_count);
}

/* When a message leaves a paced connection whose link has begun to send it at `begin_ps`. */
static tutti_ps leave_ps(struct connection *connection, tutti_ps begin_ps,
                         const struct tutti_net_send *send)
{
    tutti_ps busy_ps = tutti_add_ps(connection->pace.slice_ps, connection->busy_ps);

    if (send->stretch_q32 != 0)
        busy_ps = tutti_stretch_ps(busy_ps, send->stretch_q32);
    connection->free_ps = tutti_add_ps(tutti_later_ps(begin_ps, connection->free_ps), busy_ps);
    return connection->free_ps;
}

static void alphabeta_start(struct tutti_net *net, const struct tutti_net_send *send, tutti_ps now)
{
    struct alphabeta *model = (struct alphabeta *)net;
    struct connection *connection = &model->connections[send->connection];
    tutti_ps *free_ps = &model->free_ps[connection->egress];
    tutti_ps begin_ps = *free_ps > now ? *free_ps : now;
    tutti_ps through_ps;
    tutti_ps wire_ps;

    assert(send->connection < model->connection_count);
    if (connection->bytes != send->bytes) {
        connection->bytes = send->bytes;
        connection->wire_ps = tutti_wire_ps(send->bytes, connection->bytes_per_s);
        if (connection->plain_bytes_per_s > 0)
            connection->plain_ps = tutti_wire_ps(send->bytes, connection->plain_bytes_per_s);
        connection->busy_ps = tutti_wire_ps(send->bytes, connection->pace.bytes_per_s);
    }
    wire_ps = connection->wire_ps;
    if (send->stretch_q32 != 0)
        wire_ps = tutti_stretch_ps(wire_ps, send->stretch_q32);
    *free_ps = tutti_add_ps(begin_ps, wire_ps);
    through_ps = *free_ps;
    if (connection->burst_ps > 0) {
        begin_ps = tutti_later_ps(now, begin_ps - connection->burst_ps);
        through_ps = tutti_later_ps(*free_ps - connection->burst_ps, begin_ps);
        if (connection->plain_bytes_per_s > 0)
            through_ps = tutti_later_ps(
                through_ps,
                tutti_add_ps(begin_ps, tutti_stretch_ps(connection->plain_ps, send->stretch_q32)));
    }
    if (connection->is_paced)
        through_ps = leave_ps(connection, begin_ps, send);
    tutti_queue_put(&model->arrivals, send->message, tutti_add_ps(through_ps, send->latency_ps));
}

static bool alphabeta_next(struct tutti_net *net, tutti_ps now, tutti_ps *ret)
{
    (void)now;
    return tutti_queue_next(&((struct alphabeta *)net)->arrivals, ret);
}

static uint32_t alphabeta_arrived(struct tutti_net *net, tutti_ps now)
{
    struct tutti_queue *arrivals = &((struct alphabeta *)net)->arrivals;
    tutti_ps at_ps;

    if (!tutti_queue_next(arrivals, &at_ps) || at_ps > now)
        return TUTTI_MESSAGE_NONE;
    return tutti_queue_pop(arrivals);
}

tutti_ps tutti_alphabeta_link_ps(const struct tutti_net *net, uint32_t link, tutti_ps now)
{
    return tutti_later_ps(((const struct alphabeta *)net)->free_ps[link] - now, 0);
}

tutti_ps tutti_alphabeta_connection_ps(const struct tutti_net *net, uint32_t connection,
                                       tutti_ps now)
{
    const struct connection *looked = &((const struct alphabeta *)net)->connections[connection];

    return looked->is_paced ? tutti_later_ps(looked->free_ps - now, 0) : 0;
}

tutti_ps tutti_alphabeta_message_ps(const struct tutti_net *net, uint32_t message, tutti_ps now)
{
    const struct tutti_queue_node *node = &((const struct alphabeta *)net)->arrivals.nodes[message];

    return node->bucket == UINT32_MAX ? -1 : node->at_ps - now;
}

const struct tutti_queue *tutti_alphabeta_arrivals(const struct tutti_net *net)
{
    return &((const struct alphabeta *)net)->arrivals;
}

void tutti_alphabeta_shift(struct tutti_net *net, tutti_ps later_ps, struct tutti_queue_item *items)
{
    struct alphabeta *model = (struct alphabeta *)net;

    for (uint32_t link = 0; link < model->link_count; link++)
        model->free_ps[link] = tutti_add_ps(model->free_ps[link], later_ps);
    for (uint32_t i = 0; i < model->connection_count; i++)
        model->connections[i].free_ps = tutti_add_ps(model->connections[i].free_ps, later_ps);
    tutti_queue_shift(&model->arrivals, later_ps, items);
}

const struct tutti_net_ops tutti_net_alphabeta = {
    .size = sizeof(struct tutti_net_ops),
    .name = "alphabeta",
    .open = alphabeta_open,
    .close = alphabeta_close,
    .reset = alphabeta_reset,
    .connect = alphabeta_connect,
    .reserve = alphabeta_reserve,
    .start = alphabeta_start,
    .next = alphabeta_next,
    .arrived = alphabeta_arrived,
};
