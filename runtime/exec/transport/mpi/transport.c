/* The transport on MPI's point-to-point messages: what is taken before an execution and given back
 * after it, and how ranks sleep; see transport.h. */
#include "runtime/exec/transport/mpi/transport.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/exec/transport/mpi/open.h"

/* The execution has spun and yielded before it rests. MPI wakes nobody, so sleeps are short. */
enum { BACKOFF_NS_MIN = 20000, BACKOFF_NS_MAX = 500000, NS_PER_S = 1000000000 };

static const tutti_ps OPEN_PS = 30 * TUTTI_PS_PER_S;

static struct tutti_mpi_transport *of(struct tutti_transport *transport)
{
    return (struct tutti_mpi_transport *)transport;
}

/* ---- before an execution ---- */

static size_t head_bytes(const struct tutti_endpoint *endpoint)
{
    size_t inside =
        endpoint->bytes_max < TUTTI_MPI_INLINE_BYTES ? endpoint->bytes_max : TUTTI_MPI_INLINE_BYTES;
    size_t bytes = sizeof(struct tutti_mpi_head) + inside;

    return (bytes + TUTTI_PIECE_BYTES - 1) / TUTTI_PIECE_BYTES * TUTTI_PIECE_BYTES;
}

/* The requests that an endpoint may have under way. */
static int requests_of(const struct tutti_endpoint *endpoint)
{
    /* A message of another length leaves its receive descriptor's pieces behind. */
    return endpoint->sends ? 2 * (int)endpoint->slot_count + TUTTI_MPI_WINDOW
                           : 1 + TUTTI_MPI_WINDOW;
}

static int open_rank(struct tutti_mpi_rank *rank, struct tutti_err *err)
{
    size_t room = (size_t)rank->capacity + 1;
    pthread_condattr_t attr;

    rank->requests = calloc(room, sizeof(rank->requests[0]));
    rank->whats = calloc(room, sizeof(rank->whats[0]));
    rank->came = calloc(room, sizeof(rank->came[0]));
    rank->indices = calloc(room, sizeof(rank->indices[0]));
    rank->statuses = calloc(room, sizeof(rank->statuses[0]));
    if (rank->requests == NULL || rank->whats == NULL || rank->came == NULL ||
        rank->indices == NULL || rank->statuses == NULL)
        return tutti_nomem(err);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&rank->sleeper, &attr);
    (void)pthread_condattr_destroy(&attr);
    (void)pthread_mutex_init(&rank->lock, NULL);
    rank->ready = true;
    return 0;
}

/* Memory for pieces that are handed over, where there are any. */
static int lend(struct tutti_mpi_rank *rank, struct tutti_err *err)
{
    for (; rank->spare_count < TUTTI_MPI_WINDOW; rank->spare_count++) {
        char *memory = aligned_alloc(TUTTI_PIECE_BYTES, TUTTI_MPI_MOVED_BYTES);

        if (memory == NULL)
            return tutti_nomem(err);
        rank->memory[rank->spare_count] = memory;
        rank->spare[rank->spare_count] = memory;
    }
    return 0;
}

/* Numbers the tags of an endpoint among those of the same two processes. */
static int open_endpoint(struct tutti_mpi_transport *transport, uint32_t number,
                         uint64_t *endpoint_counts, struct tutti_err *err)
{
    const struct tutti_transport_plan *plan = transport->plan;
    struct tutti_endpoint *endpoint = &plan->endpoints[number];
    struct tutti_mpi_endpoint *own = &transport->endpoints[number];
    uint32_t process =
        tutti_group_of_rank(plan->rank_count, transport->group->base.count, endpoint->peer);
    uint64_t tag = 1 + TUTTI_MPI_TAGS_OF_ENDPOINT * endpoint_counts[process]++;

    assert(process != transport->group->base.index);
    if (tag + TUTTI_MPI_TAGS_OF_ENDPOINT > (uint64_t)transport->tag_max)
        return tutti_fail(err, TUTTI_ELACK,
                          "more connections between two processes than this MPI has tags for (%d)",
                          transport->tag_max / TUTTI_MPI_TAGS_OF_ENDPOINT);
    own->endpoint = endpoint;
    own->rank = tutti_mpi_rank_of(transport, endpoint->rank);
    own->process = (int)process;
    own->tag = (int)tag;
    own->head_bytes = head_bytes(endpoint);
    own->rank->capacity += requests_of(endpoint);
    endpoint->own = own;
    return 0;
}

static int open_endpoints(struct tutti_mpi_transport *transport, struct tutti_err *err)
{
    const struct tutti_transport_plan *plan = transport->plan;
    uint32_t process_count = transport->group->base.count;
    uint64_t *endpoint_counts = calloc(process_count, sizeof(endpoint_counts[0]));
    size_t heads_bytes = 0;
    size_t flight_count = 0;
    int status = endpoint_counts == NULL ? tutti_nomem(err) : 0;

    for (uint32_t i = 0; i < plan->endpoint_count && status == 0; i++) {
        const struct tutti_endpoint *endpoint = &plan->endpoints[i];

        status = open_endpoint(transport, i, endpoint_counts, err);
        heads_bytes +=
            transport->endpoints[i].head_bytes * (endpoint->sends ? endpoint->slot_count : 1);
        flight_count += endpoint->sends ? endpoint->slot_count : 0;
        transport->large = transport->large || endpoint->bytes_max > TUTTI_MPI_INLINE_BYTES;
    }
    free(endpoint_counts);
    if (status < 0)
        return status;
    transport->heads = aligned_alloc(TUTTI_PIECE_BYTES, heads_bytes + TUTTI_PIECE_BYTES);
    transport->flights = calloc(flight_count + 1, sizeof(transport->flights[0]));
    if (transport->heads == NULL || transport->flights == NULL)
        return tutti_nomem(err);
    heads_bytes = 0;
    flight_count = 0;
    for (uint32_t i = 0; i < plan->endpoint_count; i++) {
        struct tutti_mpi_endpoint *own = &transport->endpoints[i];
        uint32_t slot_count = plan->endpoints[i].sends ? plan->endpoints[i].slot_count : 0;

        own->heads = transport->heads + heads_bytes;
        own->flights = transport->flights + flight_count;
        heads_bytes += own->head_bytes * (slot_count > 0 ? slot_count : 1);
        flight_count += slot_count;
    }
    return 0;
}

static void clear(struct tutti_mpi_transport *transport)
{
    for (uint32_t i = 0; transport->ranks != NULL && i < transport->plan->own_count; i++) {
        struct tutti_mpi_rank *rank = &transport->ranks[i];

        if (rank->ready) {
            pthread_cond_destroy(&rank->sleeper);
            pthread_mutex_destroy(&rank->lock);
        }
        for (uint32_t k = 0; k < TUTTI_MPI_WINDOW; k++)
            free(rank->memory[k]);
        free(rank->requests);
        free(rank->whats);
        free(rank->came);
        free(rank->indices);
        free(rank->statuses);
    }
    free(transport->ranks);
    free(transport->endpoints);
    free(transport->heads);
    free(transport->flights);
    free(transport->counts);
    free(transport->trash);
    transport->ranks = NULL;
    transport->endpoints = NULL;
    transport->heads = NULL;
    transport->flights = NULL;
    transport->counts = NULL;
    transport->trash = NULL;
    transport->plan = NULL;
}

static int prepare(struct tutti_mpi_transport *transport, struct tutti_err *err)
{
    const struct tutti_transport_plan *plan = transport->plan;
    size_t process_count = transport->group->base.count;
    int status;

    transport->ranks = calloc((size_t)plan->own_count + 1, sizeof(transport->ranks[0]));
    transport->endpoints =
        calloc((size_t)plan->endpoint_count + 1, sizeof(transport->endpoints[0]));
    transport->counts = calloc(process_count * (process_count + 2), sizeof(transport->counts[0]));
    transport->trash = malloc(TUTTI_MPI_MOVED_BYTES);
    if (transport->ranks == NULL || transport->endpoints == NULL || transport->counts == NULL ||
        transport->trash == NULL)
        return tutti_nomem(err);
    status = open_endpoints(transport, err);
    for (uint32_t i = 0; i < plan->own_count && status == 0; i++) {
        status = open_rank(&transport->ranks[i], err);
        if (status == 0 && transport->large)
            status = lend(&transport->ranks[i], err);
    }
    return status;
}

static int begin(struct tutti_transport *base, struct tutti_group *group,
                 const struct tutti_transport_plan *plan, struct tutti_err *err)
{
    struct tutti_mpi_transport *transport = of(base);
    int status = 0;

    assert(transport->plan == NULL && group == &transport->group->base);
    (void)group;
    transport->plan = plan;
    transport->large = false;
    atomic_store(&transport->stopped, false);
    atomic_store(&transport->stopped_by, 0);
    if (transport->broken)
        status = tutti_fail(err, TUTTI_EIO, "messages of an earlier execution are still under way");
    else
        status = prepare(transport, err);
    /* All begin or none does: `end` waits for all who have begun. */
    status = tutti_group_agree(&transport->group->base, status, plan->deadline_ps, err);
    if (status < 0)
        clear(transport);
    return status;
}

/* ---- after an execution ---- */

static void end(struct tutti_transport *base, int status)
{
    struct tutti_mpi_transport *transport = of(base);
    bool under_endpoint = false;
    struct tutti_err err;

    if (status < 0 && tutti_mpi_drain(transport, &err) < 0)
        transport->broken = true;
    for (uint32_t i = 0; i < transport->plan->own_count; i++)
        under_endpoint = under_endpoint || transport->ranks[i].active_count > 0;
    transport->broken = transport->broken || under_endpoint;
    if (!under_endpoint) {
        clear(transport);
        return;
    }
    /* MPI may still write there: the memory stays its own. The caller's does not. */
    tutti_mpi_die(transport->group);
    transport->ranks = NULL;
    transport->endpoints = NULL;
    transport->heads = NULL;
    transport->flights = NULL;
    clear(transport);
}

/* ---- sleep, and breaking off ---- */

static void rest(struct tutti_transport *base, uint32_t number, tutti_ps timeout_ps)
{
    struct tutti_mpi_rank *rank = tutti_mpi_rank_of(of(base), number);
    int64_t backoff_ns = rank->backoff_ns == 0 ? BACKOFF_NS_MIN : 2 * rank->backoff_ns;
    struct timespec until;

    rank->backoff_ns = (long)(backoff_ns < BACKOFF_NS_MAX ? backoff_ns : BACKOFF_NS_MAX);
    backoff_ns = rank->backoff_ns < timeout_ps / TUTTI_PS_PER_NS ? rank->backoff_ns
                                                                 : timeout_ps / TUTTI_PS_PER_NS;
    backoff_ns += tutti_mpi_now_ns();
    until = (struct timespec){.tv_sec = backoff_ns / NS_PER_S, .tv_nsec = backoff_ns % NS_PER_S};
    pthread_mutex_lock(&rank->lock);
    if (!rank->woken)
        (void)pthread_cond_timedwait(&rank->sleeper, &rank->lock, &until);
    rank->woken = false;
    pthread_mutex_unlock(&rank->lock);
}

static void wake(struct tutti_transport *base, uint32_t number)
{
    struct tutti_mpi_rank *rank = tutti_mpi_rank_of(of(base), number);

    pthread_mutex_lock(&rank->lock);
    rank->woken = true;
    pthread_cond_signal(&rank->sleeper);
    pthread_mutex_unlock(&rank->lock);
}

static void stop(struct tutti_transport *base)
{
    struct tutti_mpi_transport *transport = of(base);
    MPI_Request request;

    if (atomic_exchange(&transport->stopped, true))
        return;
    tutti_mpi_enter(transport->group);
    for (uint32_t i = 0; i < transport->group->base.count; i++) {
        if (i != transport->group->base.index &&
            MPI_Isend(NULL, 0, MPI_BYTE, (int)i, TUTTI_MPI_TAG_STOP, transport->comm, &request) ==
                MPI_SUCCESS)
            (void)MPI_Request_free(&request);
    }
    tutti_mpi_leave(transport->group);
}

/* ---- open and close ---- */

static void transport_close(struct tutti_transport *base)
{
    struct tutti_mpi_transport *transport = of(base);
    const struct tutti_mpi_group *group = transport->group;

    if (!transport->broken && !group->failed && !group->heard && !group->stopped)
        (void)MPI_Comm_free(&transport->comm);
    free(transport);
}

static const struct tutti_transport_ops ops = {
    .size = sizeof(struct tutti_transport_ops),
    .name = "mpi",
    .close = transport_close,
    .begin = begin,
    .send = tutti_mpi_send,
    .recv = tutti_mpi_recv,
    .move = tutti_mpi_move,
    .rest = rest,
    .wake = wake,
    .stop = stop,
    .end = end,
};

int tutti_mpi_transport_open(struct tutti_group *group, struct tutti_transport **ret,
                             struct tutti_err *err)
{
    struct tutti_mpi_transport *transport = calloc(1, sizeof(*transport));
    void *tag_max = NULL;
    int known = 0;
    /* Who makes a communicator waits for all, and knows no deadline. */
    int status = tutti_group_agree(group, transport == NULL ? tutti_nomem(err) : 0, OPEN_PS, err);

    if (status < 0) {
        free(transport);
        return status;
    }
    assert(strcmp(group->ops->name, "mpi") == 0);
    transport->base.ops = &ops;
    transport->group = (struct tutti_mpi_group *)group;
    transport->tag_max = 32767; /* every MPI has so many */
    status = tutti_mpi_status(MPI_Comm_dup(transport->group->talk, &transport->comm),
                              "make a communicator for messages", err);
    if (status == 0)
        status = tutti_mpi_status(MPI_Comm_get_attr(transport->comm, MPI_TAG_UB, &tag_max, &known),
                                  "ask how many tags there are", err);
    if (status < 0) {
        free(transport);
        return status;
    }
    if (known && tag_max != NULL)
        transport->tag_max = *(const int *)tag_max;
    *ret = &transport->base;
    return 0;
}
