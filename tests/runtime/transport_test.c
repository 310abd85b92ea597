/* The execution of several processes, under the conformance suite: they are threads here, and what
 * carries their messages is a list under a lock. */
#include "tests/runtime/conformance.h"
#include "tests/runtime/host_backend.h"

/* ---- a transport in memory ---- */

struct message {
    struct message *next;
    uint64_t bytes;
    uint64_t step;
    bool strict;
    _Alignas(16) char data[];
};

/* From one rank to another on a lane. */
struct channel {
    struct channel *next;
    uint32_t from;
    uint32_t to;
    uint32_t lane;
    struct message *first;
    struct message **last;
    uint64_t taken_count;
};

/* What all processes share. */
struct post_office {
    pthread_mutex_t lock; /* guards all of it */
    pthread_cond_t news;
    uint64_t news_count;
    struct channel *channels;
    bool broken;
    uint32_t user_count;
    uint32_t woken[256]; /* [rank]: calls of wake not yet answered */
};

/* One end of a channel: the way's `own`. */
struct end {
    struct channel *channel;
    struct tutti_recv_desc recv_desc;
    bool has_recv_desc;
    uint64_t sent_count;
    uint64_t strict_count; /* the number of the last strict message, from 1 */
};

struct memory_transport {
    struct tutti_transport base;
    struct post_office *office;
    const struct tutti_transport_plan *plan;
};

static struct channel *channel_of(struct post_office *office, const struct tutti_endpoint *endpoint)
{
    uint32_t from = endpoint->sends ? endpoint->rank : endpoint->peer;
    uint32_t to = endpoint->sends ? endpoint->peer : endpoint->rank;
    struct channel *channel = office->channels;

    while (channel != NULL &&
           (channel->from != from || channel->to != to || channel->lane != endpoint->lane))
        channel = channel->next;
    if (channel != NULL)
        return channel;
    channel = calloc(1, sizeof(*channel));
    if (channel == NULL)
        abort();
    *channel =
        (struct channel){.next = office->channels, .from = from, .to = to, .lane = endpoint->lane};
    channel->last = &channel->first;
    office->channels = channel;
    return channel;
}

static void drop_channels(struct post_office *office)
{
    while (office->channels != NULL) {
        struct channel *channel = office->channels;

        office->channels = channel->next;
        while (channel->first != NULL) {
            struct message *message = channel->first;

            channel->first = message->next;
            free(message);
        }
        free(channel);
    }
}

static int memory_begin(struct tutti_transport *transport, struct tutti_group *group,
                        const struct tutti_transport_plan *plan, struct tutti_err *err)
{
    struct memory_transport *mine = (struct memory_transport *)transport;

    (void)group;
    (void)err;
    mine->plan = plan;
    pthread_mutex_lock(&mine->office->lock);
    if (mine->office->user_count++ == 0) { /* all have ended the execution before this one */
        drop_channels(mine->office);
        mine->office->broken = false;
    }
    for (uint32_t i = 0; i < plan->endpoint_count; i++) {
        struct end *end = calloc(1, sizeof(*end));

        if (end == NULL)
            abort();
        end->channel = channel_of(mine->office, &plan->endpoints[i]);
        plan->endpoints[i].own = end;
    }
    pthread_mutex_unlock(&mine->office->lock);
    return 0;
}

static void tell(struct post_office *office)
{
    office->news_count++;
    pthread_cond_broadcast(&office->news);
}

static int memory_send(struct tutti_transport *transport, struct tutti_endpoint *endpoint,
                       const struct tutti_send_desc *send_desc, struct tutti_err *err)
{
    struct post_office *office = ((struct memory_transport *)transport)->office;
    struct end *end = endpoint->own;
    struct message *message = malloc(sizeof(*message) + (size_t)send_desc->bytes);

    if (message == NULL)
        return tutti_nomem(err);
    CHECK(end->sent_count - endpoint->done_count < endpoint->slot_count);
    *message = (struct message){
        .bytes = send_desc->bytes, .step = send_desc->step, .strict = send_desc->strict};
    if (send_desc->bytes > 0)
        memcpy(message->data, send_desc->src, (size_t)send_desc->bytes);
    pthread_mutex_lock(&office->lock);
    *end->channel->last = message;
    end->channel->last = &message->next;
    end->sent_count++;
    if (send_desc->strict)
        end->strict_count = end->sent_count;
    tell(office);
    pthread_mutex_unlock(&office->lock);
    return 0;
}

static int memory_recv(struct tutti_transport *transport, struct tutti_endpoint *endpoint,
                       const struct tutti_recv_desc *recv_desc, struct tutti_err *err)
{
    struct end *end = endpoint->own;

    (void)transport;
    (void)err;
    CHECK(!end->has_recv_desc);
    end->recv_desc = *recv_desc;
    end->has_recv_desc = true;
    return 0;
}

/* In two pieces, so that both ways of a receive descriptor are seen. */
static void deliver(struct end *end, const struct message *message)
{
    uint64_t half = message->bytes / 2 / TUTTI_PIECE_BYTES * TUTTI_PIECE_BYTES;
    const struct tutti_recv_desc *recv_desc = &end->recv_desc;

    if (message->bytes != recv_desc->bytes)
        return;
    if (recv_desc->take == NULL && message->bytes > 0) {
        memcpy(recv_desc->dst, message->data, (size_t)message->bytes);
    } else if (recv_desc->take != NULL) {
        if (half > 0)
            recv_desc->take(recv_desc->data, 0, message->data, half);
        recv_desc->take(recv_desc->data, half, message->data + half, message->bytes - half);
    }
}

static int move_endpoint(struct post_office *office, struct tutti_endpoint *endpoint)
{
    struct end *end = endpoint->own;
    struct channel *channel = end->channel;
    struct message *message = channel->first;
    uint64_t done;

    if (endpoint->sends) {
        /* All up to the first strict one that has not been taken. */
        done = channel->taken_count >= end->strict_count ? end->sent_count : channel->taken_count;
        if (done <= endpoint->done_count)
            return 0;
        endpoint->done_count = done;
        return 1;
    }
    if (message == NULL || !end->has_recv_desc)
        return 0;
    deliver(end, message);
    endpoint->came_bytes = message->bytes;
    endpoint->came_step = message->step;
    endpoint->done_count++;
    end->has_recv_desc = false;
    channel->first = message->next;
    if (channel->first == NULL)
        channel->last = &channel->first;
    channel->taken_count++;
    free(message);
    tell(office);
    return 1;
}

static int memory_move(struct tutti_transport *transport, uint32_t rank, struct tutti_err *err)
{
    struct memory_transport *mine = (struct memory_transport *)transport;
    int moved = 0;

    pthread_mutex_lock(&mine->office->lock);
    for (uint32_t i = 0; i < mine->plan->endpoint_count; i++) {
        if (mine->plan->endpoints[i].rank == rank)
            moved += move_endpoint(mine->office, &mine->plan->endpoints[i]);
    }
    if (moved == 0 && mine->office->broken)
        moved = tutti_fail(err, TUTTI_EIO, "another process has broken off");
    pthread_mutex_unlock(&mine->office->lock);
    return moved;
}

static void memory_rest(struct tutti_transport *transport, uint32_t rank, tutti_ps timeout_ps)
{
    struct post_office *office = ((struct memory_transport *)transport)->office;
    tutti_ps short_ps = timeout_ps < TUTTI_PS_PER_MS ? timeout_ps : TUTTI_PS_PER_MS;
    struct timespec until = host_backend_until(short_ps); /* news may have come since the look */

    pthread_mutex_lock(&office->lock);
    if (office->woken[rank] == 0 && !office->broken)
        (void)pthread_cond_timedwait(&office->news, &office->lock, &until);
    office->woken[rank] = 0;
    pthread_mutex_unlock(&office->lock);
}

static void memory_wake(struct tutti_transport *transport, uint32_t rank)
{
    struct post_office *office = ((struct memory_transport *)transport)->office;

    pthread_mutex_lock(&office->lock);
    office->woken[rank]++;
    tell(office);
    pthread_mutex_unlock(&office->lock);
}

static void memory_stop(struct tutti_transport *transport)
{
    struct post_office *office = ((struct memory_transport *)transport)->office;

    pthread_mutex_lock(&office->lock);
    office->broken = true;
    tell(office);
    pthread_mutex_unlock(&office->lock);
}

static void memory_end(struct tutti_transport *transport, int status)
{
    struct memory_transport *mine = (struct memory_transport *)transport;

    pthread_mutex_lock(&mine->office->lock);
    for (uint32_t i = 0; i < mine->plan->endpoint_count; i++)
        free(mine->plan->endpoints[i].own);
    for (struct channel *c = mine->office->channels; c != NULL && status == 0; c = c->next)
        CHECK(c->first == NULL);
    mine->office->user_count--;
    pthread_mutex_unlock(&mine->office->lock);
}

static void memory_close(struct tutti_transport *transport)
{
    free(transport);
}

static const struct tutti_transport_ops memory_ops = {
    .size = sizeof(struct tutti_transport_ops),
    .name = "memory",
    .close = memory_close,
    .begin = memory_begin,
    .send = memory_send,
    .recv = memory_recv,
    .move = memory_move,
    .rest = memory_rest,
    .wake = memory_wake,
    .stop = memory_stop,
    .end = memory_end,
};

/* ---- the suite ---- */

static uint32_t process_count;
static struct post_office office = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                    .news = PTHREAD_COND_INITIALIZER};

static int open_process(struct tutti_group *group, void *data, struct tutti_backend **ret,
                        struct tutti_err *err)
{
    struct memory_transport *transport = calloc(1, sizeof(*transport));
    struct tutti_host_backend_opts opts = {
        .name = "plan", .group = group, .transport = transport == NULL ? NULL : &transport->base};

    if (transport == NULL)
        return tutti_nomem(err);
    *transport = (struct memory_transport){.base = {.ops = &memory_ops}, .office = data};
    return tutti_host_backend_open(&opts, ret, err);
}

/* 2, 3, 4, 2, ... processes, also for one rank or two. */
static int open_host_backend(uint32_t rank_count, struct tutti_backend **ret, struct tutti_err *err)
{
    (void)rank_count;
    process_count = process_count % 3 + 2;
    return host_backend_open(process_count, open_process, &office, ret, err);
}

static const struct conformance_subject subject = {.name = "plan", .open = open_host_backend};
