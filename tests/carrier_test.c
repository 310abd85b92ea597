/* The game of several processes, under the conformance suite: they are threads here, and what
 * carries their messages is a list under a lock. */
#include "tests/conformance.h"
#include "tests/troupe.h"

/* ---- a carrier in memory ---- */

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
    struct tutti_landing landing;
    bool has_landing;
    uint64_t sent_count;
    uint64_t strict_count; /* the number of the last strict message, from 1 */
};

struct memory_carrier {
    struct tutti_carrier base;
    struct post_office *office;
    const struct tutti_carried *carried;
};

static struct channel *channel_of(struct post_office *office, const struct tutti_way *way)
{
    uint32_t from = way->sends ? way->rank : way->peer;
    uint32_t to = way->sends ? way->peer : way->rank;
    struct channel *channel = office->channels;

    while (channel != NULL &&
           (channel->from != from || channel->to != to || channel->lane != way->lane))
        channel = channel->next;
    if (channel != NULL)
        return channel;
    channel = calloc(1, sizeof(*channel));
    if (channel == NULL)
        abort();
    *channel =
        (struct channel){.next = office->channels, .from = from, .to = to, .lane = way->lane};
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

static int memory_begin(struct tutti_carrier *carrier, struct tutti_crew *crew,
                        const struct tutti_carried *carried, struct tutti_err *err)
{
    struct memory_carrier *mine = (struct memory_carrier *)carrier;

    (void)crew;
    (void)err;
    mine->carried = carried;
    pthread_mutex_lock(&mine->office->lock);
    if (mine->office->user_count++ == 0) { /* all have ended the game before this one */
        drop_channels(mine->office);
        mine->office->broken = false;
    }
    for (uint32_t i = 0; i < carried->way_count; i++) {
        struct end *end = calloc(1, sizeof(*end));

        if (end == NULL)
            abort();
        end->channel = channel_of(mine->office, &carried->ways[i]);
        carried->ways[i].own = end;
    }
    pthread_mutex_unlock(&mine->office->lock);
    return 0;
}

static void tell(struct post_office *office)
{
    office->news_count++;
    pthread_cond_broadcast(&office->news);
}

static int memory_send(struct tutti_carrier *carrier, struct tutti_way *way,
                       const struct tutti_parcel *parcel, struct tutti_err *err)
{
    struct post_office *office = ((struct memory_carrier *)carrier)->office;
    struct end *end = way->own;
    struct message *message = malloc(sizeof(*message) + (size_t)parcel->bytes);

    if (message == NULL)
        return tutti_nomem(err);
    CHECK(end->sent_count - way->done_count < way->slot_count);
    *message =
        (struct message){.bytes = parcel->bytes, .step = parcel->step, .strict = parcel->strict};
    if (parcel->bytes > 0)
        memcpy(message->data, parcel->src, (size_t)parcel->bytes);
    pthread_mutex_lock(&office->lock);
    *end->channel->last = message;
    end->channel->last = &message->next;
    end->sent_count++;
    if (parcel->strict)
        end->strict_count = end->sent_count;
    tell(office);
    pthread_mutex_unlock(&office->lock);
    return 0;
}

static int memory_recv(struct tutti_carrier *carrier, struct tutti_way *way,
                       const struct tutti_landing *landing, struct tutti_err *err)
{
    struct end *end = way->own;

    (void)carrier;
    (void)err;
    CHECK(!end->has_landing);
    end->landing = *landing;
    end->has_landing = true;
    return 0;
}

/* In two pieces, so that both ways of a landing are seen. */
static void deliver(struct end *end, const struct message *message)
{
    uint64_t half = message->bytes / 2 / TUTTI_PIECE_BYTES * TUTTI_PIECE_BYTES;
    const struct tutti_landing *landing = &end->landing;

    if (message->bytes != landing->bytes)
        return;
    if (landing->take == NULL && message->bytes > 0) {
        memcpy(landing->dst, message->data, (size_t)message->bytes);
    } else if (landing->take != NULL) {
        if (half > 0)
            landing->take(landing->data, 0, message->data, half);
        landing->take(landing->data, half, message->data + half, message->bytes - half);
    }
}

static int move_way(struct post_office *office, struct tutti_way *way)
{
    struct end *end = way->own;
    struct channel *channel = end->channel;
    struct message *message = channel->first;
    uint64_t done;

    if (way->sends) {
        /* All up to the first strict one that has not been taken. */
        done = channel->taken_count >= end->strict_count ? end->sent_count : channel->taken_count;
        if (done <= way->done_count)
            return 0;
        way->done_count = done;
        return 1;
    }
    if (message == NULL || !end->has_landing)
        return 0;
    deliver(end, message);
    way->came_bytes = message->bytes;
    way->came_step = message->step;
    way->done_count++;
    end->has_landing = false;
    channel->first = message->next;
    if (channel->first == NULL)
        channel->last = &channel->first;
    channel->taken_count++;
    free(message);
    tell(office);
    return 1;
}

static int memory_move(struct tutti_carrier *carrier, uint32_t rank, struct tutti_err *err)
{
    struct memory_carrier *mine = (struct memory_carrier *)carrier;
    int moved = 0;

    pthread_mutex_lock(&mine->office->lock);
    for (uint32_t i = 0; i < mine->carried->way_count; i++) {
        if (mine->carried->ways[i].rank == rank)
            moved += move_way(mine->office, &mine->carried->ways[i]);
    }
    if (moved == 0 && mine->office->broken)
        moved = tutti_fail(err, TUTTI_EIO, "another process has broken off");
    pthread_mutex_unlock(&mine->office->lock);
    return moved;
}

static void memory_rest(struct tutti_carrier *carrier, uint32_t rank, tutti_ps timeout_ps)
{
    struct post_office *office = ((struct memory_carrier *)carrier)->office;
    tutti_ps short_ps = timeout_ps < TUTTI_PS_PER_MS ? timeout_ps : TUTTI_PS_PER_MS;
    struct timespec until = troupe_until(short_ps); /* news may have come since the look */

    pthread_mutex_lock(&office->lock);
    if (office->woken[rank] == 0 && !office->broken)
        (void)pthread_cond_timedwait(&office->news, &office->lock, &until);
    office->woken[rank] = 0;
    pthread_mutex_unlock(&office->lock);
}

static void memory_wake(struct tutti_carrier *carrier, uint32_t rank)
{
    struct post_office *office = ((struct memory_carrier *)carrier)->office;

    pthread_mutex_lock(&office->lock);
    office->woken[rank]++;
    tell(office);
    pthread_mutex_unlock(&office->lock);
}

static void memory_stop(struct tutti_carrier *carrier)
{
    struct post_office *office = ((struct memory_carrier *)carrier)->office;

    pthread_mutex_lock(&office->lock);
    office->broken = true;
    tell(office);
    pthread_mutex_unlock(&office->lock);
}

static void memory_end(struct tutti_carrier *carrier, int status)
{
    struct memory_carrier *mine = (struct memory_carrier *)carrier;

    pthread_mutex_lock(&mine->office->lock);
    for (uint32_t i = 0; i < mine->carried->way_count; i++)
        free(mine->carried->ways[i].own);
    for (struct channel *c = mine->office->channels; c != NULL && status == 0; c = c->next)
        CHECK(c->first == NULL);
    mine->office->user_count--;
    pthread_mutex_unlock(&mine->office->lock);
}

static void memory_close(struct tutti_carrier *carrier)
{
    free(carrier);
}

static const struct tutti_carrier_ops memory_ops = {
    .size = sizeof(struct tutti_carrier_ops),
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

static int open_process(struct tutti_crew *crew, void *data, struct tutti_backend **ret,
                        struct tutti_err *err)
{
    struct memory_carrier *carrier = calloc(1, sizeof(*carrier));
    struct tutti_troupe_opts opts = {
        .name = "carried", .crew = crew, .carrier = carrier == NULL ? NULL : &carrier->base};

    if (carrier == NULL)
        return tutti_nomem(err);
    *carrier = (struct memory_carrier){.base = {.ops = &memory_ops}, .office = data};
    return tutti_troupe_open(&opts, ret, err);
}

/* 2, 3, 4, 2, ... processes, also for one rank or two. */
static int open_troupe(uint32_t rank_count, struct tutti_backend **ret, struct tutti_err *err)
{
    (void)rank_count;
    process_count = process_count % 3 + 2;
    return troupe_open(process_count, open_process, &office, ret, err);
}

static const struct conformance_subject subject = {.name = "carried", .open = open_troupe};
