/* The carrier on MPI's point-to-point messages: what is taken before a game and given back after
 * it, and how ranks sleep; see carrier.h. */
#include "runtime/exec/mpi/carrier.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/exec/mpi/open.h"

/* The game has spun and yielded before it rests. MPI wakes nobody, so sleeps are short. */
enum { NAP_NS_MIN = 20000, NAP_NS_MAX = 500000, NS_PER_S = 1000000000 };

static const tutti_ps OPEN_PS = 30 * TUTTI_PS_PER_S;

static struct tutti_mpi_carrier *of(struct tutti_carrier *carrier)
{
    return (struct tutti_mpi_carrier *)carrier;
}

/* ---- before a game ---- */

static size_t head_bytes(const struct tutti_way *way)
{
    size_t inside =
        way->bytes_max < TUTTI_MPI_INLINE_BYTES ? way->bytes_max : TUTTI_MPI_INLINE_BYTES;
    size_t bytes = sizeof(struct tutti_mpi_head) + inside;

    return (bytes + TUTTI_PIECE_BYTES - 1) / TUTTI_PIECE_BYTES * TUTTI_PIECE_BYTES;
}

/* The requests that a way may have under way. */
static int requests_of(const struct tutti_way *way)
{
    /* A message of another length leaves its landing's pieces behind. */
    return way->sends ? 2 * (int)way->slot_count + TUTTI_MPI_WINDOW : 1 + TUTTI_MPI_WINDOW;
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
    (void)pthread_cond_init(&rank->bell, &attr);
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

/* Numbers the tags of a way among those of the same two processes. */
static int open_way(struct tutti_mpi_carrier *carrier, uint32_t number, uint64_t *way_counts,
                    struct tutti_err *err)
{
    const struct tutti_carried *carried = carrier->carried;
    struct tutti_way *way = &carried->ways[number];
    struct tutti_mpi_way *own = &carrier->ways[number];
    uint32_t process =
        tutti_crew_of_rank(carried->rank_count, carrier->crew->base.count, way->peer);
    uint64_t tag = 1 + TUTTI_MPI_TAGS_OF_WAY * way_counts[process]++;

    assert(process != carrier->crew->base.index);
    if (tag + TUTTI_MPI_TAGS_OF_WAY > (uint64_t)carrier->tag_max)
        return tutti_fail(err, TUTTI_ELACK,
                          "more connections between two processes than this MPI has tags for (%d)",
                          carrier->tag_max / TUTTI_MPI_TAGS_OF_WAY);
    own->way = way;
    own->rank = tutti_mpi_rank_of(carrier, way->rank);
    own->process = (int)process;
    own->tag = (int)tag;
    own->head_bytes = head_bytes(way);
    own->rank->capacity += requests_of(way);
    way->own = own;
    return 0;
}

static int open_ways(struct tutti_mpi_carrier *carrier, struct tutti_err *err)
{
    const struct tutti_carried *carried = carrier->carried;
    uint32_t process_count = carrier->crew->base.count;
    uint64_t *way_counts = calloc(process_count, sizeof(way_counts[0]));
    size_t heads_bytes = 0;
    size_t flight_count = 0;
    int status = way_counts == NULL ? tutti_nomem(err) : 0;

    for (uint32_t i = 0; i < carried->way_count && status == 0; i++) {
        const struct tutti_way *way = &carried->ways[i];

        status = open_way(carrier, i, way_counts, err);
        heads_bytes += carrier->ways[i].head_bytes * (way->sends ? way->slot_count : 1);
        flight_count += way->sends ? way->slot_count : 0;
        carrier->large = carrier->large || way->bytes_max > TUTTI_MPI_INLINE_BYTES;
    }
    free(way_counts);
    if (status < 0)
        return status;
    carrier->heads = aligned_alloc(TUTTI_PIECE_BYTES, heads_bytes + TUTTI_PIECE_BYTES);
    carrier->flights = calloc(flight_count + 1, sizeof(carrier->flights[0]));
    if (carrier->heads == NULL || carrier->flights == NULL)
        return tutti_nomem(err);
    heads_bytes = 0;
    flight_count = 0;
    for (uint32_t i = 0; i < carried->way_count; i++) {
        struct tutti_mpi_way *own = &carrier->ways[i];
        uint32_t slot_count = carried->ways[i].sends ? carried->ways[i].slot_count : 0;

        own->heads = carrier->heads + heads_bytes;
        own->flights = carrier->flights + flight_count;
        heads_bytes += own->head_bytes * (slot_count > 0 ? slot_count : 1);
        flight_count += slot_count;
    }
    return 0;
}

static void clear(struct tutti_mpi_carrier *carrier)
{
    for (uint32_t i = 0; carrier->ranks != NULL && i < carrier->carried->own_count; i++) {
        struct tutti_mpi_rank *rank = &carrier->ranks[i];

        if (rank->ready) {
            pthread_cond_destroy(&rank->bell);
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
    free(carrier->ranks);
    free(carrier->ways);
    free(carrier->heads);
    free(carrier->flights);
    free(carrier->counts);
    free(carrier->trash);
    carrier->ranks = NULL;
    carrier->ways = NULL;
    carrier->heads = NULL;
    carrier->flights = NULL;
    carrier->counts = NULL;
    carrier->trash = NULL;
    carrier->carried = NULL;
}

static int prepare(struct tutti_mpi_carrier *carrier, struct tutti_err *err)
{
    const struct tutti_carried *carried = carrier->carried;
    size_t process_count = carrier->crew->base.count;
    int status;

    carrier->ranks = calloc((size_t)carried->own_count + 1, sizeof(carrier->ranks[0]));
    carrier->ways = calloc((size_t)carried->way_count + 1, sizeof(carrier->ways[0]));
    carrier->counts = calloc(process_count * (process_count + 2), sizeof(carrier->counts[0]));
    carrier->trash = malloc(TUTTI_MPI_MOVED_BYTES);
    if (carrier->ranks == NULL || carrier->ways == NULL || carrier->counts == NULL ||
        carrier->trash == NULL)
        return tutti_nomem(err);
    status = open_ways(carrier, err);
    for (uint32_t i = 0; i < carried->own_count && status == 0; i++) {
        status = open_rank(&carrier->ranks[i], err);
        if (status == 0 && carrier->large)
            status = lend(&carrier->ranks[i], err);
    }
    return status;
}

static int begin(struct tutti_carrier *base, struct tutti_crew *crew,
                 const struct tutti_carried *carried, struct tutti_err *err)
{
    struct tutti_mpi_carrier *carrier = of(base);
    int status = 0;

    assert(carrier->carried == NULL && crew == &carrier->crew->base);
    (void)crew;
    carrier->carried = carried;
    carrier->large = false;
    atomic_store(&carrier->stopped, false);
    atomic_store(&carrier->stopped_by, 0);
    if (carrier->broken)
        status = tutti_fail(err, TUTTI_EIO, "messages of an earlier game are still under way");
    else
        status = prepare(carrier, err);
    /* All begin or none does: `end` waits for all who have begun. */
    status = tutti_crew_agree(&carrier->crew->base, status, carried->deadline_ps, err);
    if (status < 0)
        clear(carrier);
    return status;
}

/* ---- after a game ---- */

static void end(struct tutti_carrier *base, int status)
{
    struct tutti_mpi_carrier *carrier = of(base);
    bool under_way = false;
    struct tutti_err err;

    if (status < 0 && tutti_mpi_drain(carrier, &err) < 0)
        carrier->broken = true;
    for (uint32_t i = 0; i < carrier->carried->own_count; i++)
        under_way = under_way || carrier->ranks[i].active_count > 0;
    carrier->broken = carrier->broken || under_way;
    if (!under_way) {
        clear(carrier);
        return;
    }
    /* MPI may still write there: the memory stays its own. The caller's does not. */
    tutti_mpi_die(carrier->crew);
    carrier->ranks = NULL;
    carrier->ways = NULL;
    carrier->heads = NULL;
    carrier->flights = NULL;
    clear(carrier);
}

/* ---- sleep, and breaking off ---- */

static void rest(struct tutti_carrier *base, uint32_t number, tutti_ps timeout_ps)
{
    struct tutti_mpi_rank *rank = tutti_mpi_rank_of(of(base), number);
    int64_t nap_ns = rank->nap_ns == 0 ? NAP_NS_MIN : 2 * rank->nap_ns;
    struct timespec until;

    rank->nap_ns = (long)(nap_ns < NAP_NS_MAX ? nap_ns : NAP_NS_MAX);
    nap_ns =
        rank->nap_ns < timeout_ps / TUTTI_PS_PER_NS ? rank->nap_ns : timeout_ps / TUTTI_PS_PER_NS;
    nap_ns += tutti_mpi_now_ns();
    until = (struct timespec){.tv_sec = nap_ns / NS_PER_S, .tv_nsec = nap_ns % NS_PER_S};
    pthread_mutex_lock(&rank->lock);
    if (!rank->woken)
        (void)pthread_cond_timedwait(&rank->bell, &rank->lock, &until);
    rank->woken = false;
    pthread_mutex_unlock(&rank->lock);
}

static void wake(struct tutti_carrier *base, uint32_t number)
{
    struct tutti_mpi_rank *rank = tutti_mpi_rank_of(of(base), number);

    pthread_mutex_lock(&rank->lock);
    rank->woken = true;
    pthread_cond_signal(&rank->bell);
    pthread_mutex_unlock(&rank->lock);
}

static void stop(struct tutti_carrier *base)
{
    struct tutti_mpi_carrier *carrier = of(base);
    MPI_Request request;

    if (atomic_exchange(&carrier->stopped, true))
        return;
    tutti_mpi_enter(carrier->crew);
    for (uint32_t i = 0; i < carrier->crew->base.count; i++) {
        if (i != carrier->crew->base.index &&
            MPI_Isend(NULL, 0, MPI_BYTE, (int)i, TUTTI_MPI_TAG_STOP, carrier->comm, &request) ==
                MPI_SUCCESS)
            (void)MPI_Request_free(&request);
    }
    tutti_mpi_leave(carrier->crew);
}

/* ---- open and close ---- */

static void carrier_close(struct tutti_carrier *base)
{
    struct tutti_mpi_carrier *carrier = of(base);
    const struct tutti_mpi_crew *crew = carrier->crew;

    if (!carrier->broken && !crew->failed && !crew->heard && !crew->stopped)
        (void)MPI_Comm_free(&carrier->comm);
    free(carrier);
}

static const struct tutti_carrier_ops ops = {
    .size = sizeof(struct tutti_carrier_ops),
    .name = "mpi",
    .close = carrier_close,
    .begin = begin,
    .send = tutti_mpi_send,
    .recv = tutti_mpi_recv,
    .move = tutti_mpi_move,
    .rest = rest,
    .wake = wake,
    .stop = stop,
    .end = end,
};

int tutti_mpi_carrier_open(struct tutti_crew *crew, struct tutti_carrier **ret,
                           struct tutti_err *err)
{
    struct tutti_mpi_carrier *carrier = calloc(1, sizeof(*carrier));
    void *tag_max = NULL;
    int known = 0;
    /* Who makes a communicator waits for all, and knows no deadline. */
    int status = tutti_crew_agree(crew, carrier == NULL ? tutti_nomem(err) : 0, OPEN_PS, err);

    if (status < 0) {
        free(carrier);
        return status;
    }
    assert(strcmp(crew->ops->name, "mpi") == 0);
    carrier->base.ops = &ops;
    carrier->crew = (struct tutti_mpi_crew *)crew;
    carrier->tag_max = 32767; /* every MPI has so many */
    status = tutti_mpi_status(MPI_Comm_dup(carrier->crew->talk, &carrier->comm),
                              "make a communicator for messages", err);
    if (status == 0)
        status = tutti_mpi_status(MPI_Comm_get_attr(carrier->comm, MPI_TAG_UB, &tag_max, &known),
                                  "ask how many tags there are", err);
    if (status < 0) {
        free(carrier);
        return status;
    }
    if (known && tag_max != NULL)
        carrier->tag_max = *(const int *)tag_max;
    *ret = &carrier->base;
    return 0;
}
