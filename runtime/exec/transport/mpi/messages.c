/* Messages over MPI: heads, pieces, and word of what has arrived; see transport.h. */
#include <assert.h>
#include <string.h>

#include "runtime/exec/transport/mpi/transport.h"

enum { HEADS, PIECES, WORDS }; /* an endpoint's tags */

/* A stop is looked for in one of so many fruitless moves: looking costs as much as moving. */
enum { LOOKS_PER_PROBE = 32 };

static struct tutti_mpi_transport *of(struct tutti_transport *transport)
{
    return (struct tutti_mpi_transport *)transport;
}

static uint64_t pieces_of(uint64_t bytes)
{
    if (bytes <= TUTTI_MPI_INLINE_BYTES)
        return 0;
    return (bytes - 1) / TUTTI_MPI_MOVED_BYTES + 1;
}

static int piece_bytes(uint64_t bytes, uint64_t piece)
{
    uint64_t left = bytes - piece * TUTTI_MPI_MOVED_BYTES;

    return (int)(left < TUTTI_MPI_MOVED_BYTES ? left : TUTTI_MPI_MOVED_BYTES);
}

/* Room for one request more, which the rank's moves will look at. */
static MPI_Request *request(struct tutti_mpi_endpoint *own, enum tutti_mpi_kind kind,
                            uint64_t number)
{
    struct tutti_mpi_rank *rank = own->rank;

    assert(rank->active_count < rank->capacity);
    rank->whats[rank->active_count] =
        (struct tutti_mpi_what){.endpoint = own, .kind = kind, .number = number};
    return &rank->requests[rank->active_count];
}

/* After MPI has taken it. */
static int posted(struct tutti_mpi_endpoint *own, int code, const char *what, struct tutti_err *err)
{
    if (code == MPI_SUCCESS) {
        own->rank->active_count++;
        return 0;
    }
    (void)tutti_mpi_status(code, what, err);
    return tutti_wrap(err, -TUTTI_EIO, "rank %u and rank %u", own->endpoint->rank,
                      own->endpoint->peer);
}

/* ---- sending ---- */

static struct tutti_mpi_flight *flight(const struct tutti_mpi_endpoint *own, uint64_t number)
{
    return &own->flights[number % own->endpoint->slot_count];
}

/* Posts as many pieces as may be under way. */
static int feed_out(struct tutti_mpi_transport *transport, struct tutti_mpi_endpoint *own,
                    struct tutti_err *err)
{
    int status = 0;

    while (status == 0 && own->window_count < TUTTI_MPI_WINDOW && own->posting < own->begun_count) {
        struct tutti_mpi_flight *out = flight(own, own->posting);
        uint64_t piece = out->posted_count;

        if (piece == out->piece_count) {
            own->posting++;
            continue;
        }
        status = posted(own,
                        MPI_Isend((const char *)out->send_desc.src + piece * TUTTI_MPI_MOVED_BYTES,
                                  piece_bytes(out->send_desc.bytes, piece), MPI_BYTE, own->process,
                                  own->tag + PIECES, transport->comm,
                                  request(own, TUTTI_MPI_PIECE_OUT, own->posting)),
                        "send a piece of a message", err);
        out->posted_count++;
        own->window_count++;
        own->sent_count++;
    }
    return status;
}

/* Counts what is done, in order. */
static void settle_out(struct tutti_mpi_endpoint *own)
{
    while (own->endpoint->done_count < own->begun_count) {
        const struct tutti_mpi_flight *out = flight(own, own->endpoint->done_count);

        if (!out->head_moved || out->moved_count < out->piece_count ||
            (out->send_desc.strict && !out->arrived))
            return;
        own->endpoint->done_count++;
    }
}

int tutti_mpi_send(struct tutti_transport *base, struct tutti_endpoint *endpoint,
                   const struct tutti_send_desc *send_desc, struct tutti_err *err)
{
    struct tutti_mpi_transport *transport = of(base);
    struct tutti_mpi_endpoint *own = endpoint->own;
    uint64_t number = own->begun_count;
    struct tutti_mpi_flight *out = flight(own, number);
    char *at = own->heads + number % endpoint->slot_count * own->head_bytes;
    struct tutti_mpi_head head = {.bytes = send_desc->bytes,
                                  .step = send_desc->step & INT64_MAX,
                                  .strict = send_desc->strict};
    size_t bytes = sizeof(head);
    int status = 0;

    assert(endpoint->sends && number - endpoint->done_count < endpoint->slot_count);
    *out = (struct tutti_mpi_flight){.send_desc = *send_desc,
                                     .piece_count = pieces_of(send_desc->bytes)};
    memcpy(at, &head, sizeof(head));
    if (out->piece_count == 0 && send_desc->bytes > 0) {
        memcpy(at + sizeof(head), send_desc->src, send_desc->bytes);
        bytes += send_desc->bytes;
    }
    own->begun_count++;
    tutti_mpi_enter(transport->group);
    if (send_desc->strict)
        status = posted(own,
                        MPI_Irecv(NULL, 0, MPI_BYTE, own->process, own->tag + WORDS,
                                  transport->comm, request(own, TUTTI_MPI_WORD_IN, number)),
                        "wait for word of a message", err);
    if (status == 0)
        status = posted(own,
                        MPI_Isend(at, (int)bytes, MPI_BYTE, own->process, own->tag + HEADS,
                                  transport->comm, request(own, TUTTI_MPI_HEAD_OUT, number)),
                        "send a message", err);
    own->sent_count++;
    if (status == 0)
        status = feed_out(transport, own, err);
    tutti_mpi_leave(transport->group);
    return status;
}

/* ---- receiving ---- */

static int feed_in(struct tutti_mpi_transport *transport, struct tutti_mpi_endpoint *own,
                   struct tutti_err *err)
{
    const struct tutti_recv_desc *recv_desc = &own->recv_desc;
    int status = 0;

    while (status == 0 && own->posted_count - own->taken_count < TUTTI_MPI_WINDOW &&
           own->posted_count < own->piece_count) {
        struct tutti_mpi_piece *piece = &own->pieces[own->posted_count % TUTTI_MPI_WINDOW];

        *piece = (struct tutti_mpi_piece){.at = (char *)recv_desc->dst +
                                                own->posted_count * TUTTI_MPI_MOVED_BYTES};
        if (recv_desc->take != NULL && own->rank->spare_count > 0) {
            piece->at = own->rank->spare[--own->rank->spare_count];
            piece->lent = true;
        }
        status = posted(own,
                        MPI_Irecv(piece->at, piece_bytes(recv_desc->bytes, own->posted_count),
                                  MPI_BYTE, own->process, own->tag + PIECES, transport->comm,
                                  request(own, TUTTI_MPI_PIECE_IN, own->posted_count)),
                        "receive a piece of a message", err);
        own->posted_count++;
    }
    return status;
}

int tutti_mpi_recv(struct tutti_transport *base, struct tutti_endpoint *endpoint,
                   const struct tutti_recv_desc *recv_desc, struct tutti_err *err)
{
    struct tutti_mpi_transport *transport = of(base);
    struct tutti_mpi_endpoint *own = endpoint->own;
    int status;

    assert(!endpoint->sends && !own->open);
    own->recv_desc = *recv_desc;
    own->open = true;
    own->head_came = false;
    own->piece_count = pieces_of(recv_desc->bytes);
    own->posted_count = 0;
    own->taken_count = 0;
    tutti_mpi_enter(transport->group);
    status =
        posted(own,
               MPI_Irecv(own->heads, (int)own->head_bytes, MPI_BYTE, own->process, own->tag + HEADS,
                         transport->comm, request(own, TUTTI_MPI_HEAD_IN, endpoint->done_count)),
               "receive a message", err);
    if (status == 0)
        status = feed_in(transport, own, err);
    tutti_mpi_leave(transport->group);
    return status;
}

/* The receive descriptor has got its message, or one of another length. */
static int close_recv_desc(struct tutti_mpi_transport *transport, struct tutti_mpi_endpoint *own,
                           const struct tutti_mpi_head *head, struct tutti_err *err)
{
    MPI_Request word;
    int code = MPI_SUCCESS;

    own->open = false;
    own->endpoint->came_bytes = head->bytes;
    own->endpoint->came_step = head->step;
    own->endpoint->done_count++;
    if (!head->strict)
        return 0;
    /* No bytes, no memory: MPI may forget about it. */
    code = MPI_Isend(NULL, 0, MPI_BYTE, own->process, own->tag + WORDS, transport->comm, &word);
    own->sent_count++;
    if (code == MPI_SUCCESS)
        code = MPI_Request_free(&word);
    return tutti_mpi_status(code, "say that a message has arrived", err);
}

/* Hands over what has come, in order. */
static int settle_in(struct tutti_mpi_transport *transport, struct tutti_mpi_endpoint *own,
                     struct tutti_err *err)
{
    const struct tutti_recv_desc *recv_desc = &own->recv_desc;
    const char *inside = own->heads + sizeof(struct tutti_mpi_head);
    struct tutti_mpi_head head;
    int status = 0;

    if (!own->open || !own->head_came)
        return 0;
    memcpy(&head, own->heads, sizeof(head));
    if (head.bytes != recv_desc->bytes)
        return close_recv_desc(transport, own, &head, err);
    if (own->piece_count == 0 && recv_desc->bytes > 0 && recv_desc->take != NULL)
        recv_desc->take(recv_desc->data, 0, inside, recv_desc->bytes);
    else if (own->piece_count == 0 && recv_desc->bytes > 0)
        memcpy(recv_desc->dst, inside, recv_desc->bytes);
    while (status == 0 && own->taken_count < own->posted_count) {
        uint64_t number = own->taken_count;
        struct tutti_mpi_piece *piece = &own->pieces[number % TUTTI_MPI_WINDOW];

        if (!piece->came)
            return 0;
        if (recv_desc->take != NULL)
            recv_desc->take(recv_desc->data, number * TUTTI_MPI_MOVED_BYTES, piece->at,
                            (uint64_t)piece_bytes(recv_desc->bytes, number));
        if (piece->lent)
            own->rank->spare[own->rank->spare_count++] = piece->at;
        own->taken_count++;
        status = feed_in(transport, own, err);
    }
    if (status == 0 && own->taken_count == own->piece_count)
        status = close_recv_desc(transport, own, &head, err);
    return status;
}

/* ---- moving ---- */

/* Word comes in the order of the strict messages. Those that are done may be gone from the ring. */
static void note_word(struct tutti_mpi_endpoint *own)
{
    if (own->word_count < own->endpoint->done_count)
        own->word_count = own->endpoint->done_count;
    while (own->word_count < own->begun_count && !flight(own, own->word_count)->send_desc.strict)
        own->word_count++;
    assert(own->word_count < own->begun_count);
    flight(own, own->word_count++)->arrived = true;
}

static int note(struct tutti_mpi_transport *transport, const struct tutti_mpi_what *what,
                struct tutti_err *err)
{
    struct tutti_mpi_endpoint *own = what->endpoint;
    int status = 0;

    switch (what->kind) {
    case TUTTI_MPI_HEAD_OUT:
        flight(own, what->number)->head_moved = true;
        break;
    case TUTTI_MPI_PIECE_OUT:
        flight(own, what->number)->moved_count++;
        own->window_count--;
        status = feed_out(transport, own, err);
        break;
    case TUTTI_MPI_WORD_IN:
        own->received_count++;
        note_word(own);
        break;
    case TUTTI_MPI_HEAD_IN:
        own->received_count++;
        own->head_came = true;
        break;
    case TUTTI_MPI_PIECE_IN:
        own->received_count++;
        own->pieces[what->number % TUTTI_MPI_WINDOW].came = true;
        break;
    }
    if (own->endpoint->sends)
        settle_out(own);
    else if (status == 0)
        status = settle_in(transport, own, err);
    return status;
}

/* Whether MPI's verdict on a completed request is an error that we do not know better: a message
 * longer than its receive descriptor is told by its head. */
static int judge(const struct tutti_mpi_rank *rank, int code, int count, struct tutti_err *err)
{
    int class = MPI_SUCCESS;

    if (code == MPI_SUCCESS)
        return 0;
    for (int i = 0; code == MPI_ERR_IN_STATUS && i < count; i++) {
        int error = rank->statuses[i].MPI_ERROR;

        (void)MPI_Error_class(error, &class);
        if (error != MPI_SUCCESS && error != MPI_ERR_PENDING && class != MPI_ERR_TRUNCATE)
            return tutti_mpi_status(error, "bring a message", err);
    }
    return code == MPI_ERR_IN_STATUS ? 0 : tutti_mpi_status(code, "bring messages", err);
}

/* Another process may have broken off. */
static int probe(struct tutti_mpi_transport *transport, struct tutti_err *err)
{
    MPI_Status status;
    int there = 0;
    int by = atomic_load(&transport->stopped_by);

    if (by == 0) {
        (void)MPI_Iprobe(MPI_ANY_SOURCE, TUTTI_MPI_TAG_STOP, transport->comm, &there, &status);
        if (!there)
            return 0;
        by = status.MPI_SOURCE + 1;
        atomic_store(&transport->stopped_by, by);
    }
    return tutti_fail(err, TUTTI_EIO, "process %d of %u has broken off", by - 1,
                      transport->group->base.count);
}

/* Takes the completed ones out of the rank's list, into `came`; how many. */
static int collect(struct tutti_mpi_rank *rank, int count)
{
    int kept = 0;

    for (int i = 0; i < count; i++)
        rank->came[i] = rank->whats[rank->indices[i]];
    for (int i = 0; i < rank->active_count; i++) {
        if (rank->requests[i] == MPI_REQUEST_NULL)
            continue;
        rank->requests[kept] = rank->requests[i];
        rank->whats[kept++] = rank->whats[i];
    }
    rank->active_count = kept;
    return count;
}

int tutti_mpi_move(struct tutti_transport *base, uint32_t number, struct tutti_err *err)
{
    struct tutti_mpi_transport *transport = of(base);
    struct tutti_mpi_rank *rank = tutti_mpi_rank_of(transport, number);
    int count = 0;
    int status = 0;

    tutti_mpi_enter(transport->group);
    if (rank->active_count > 0) {
        int code =
            MPI_Testsome(rank->active_count, rank->requests, &count, rank->indices, rank->statuses);

        if (count == MPI_UNDEFINED)
            count = 0;
        status = judge(rank, code, count, err);
    }
    if (status == 0 && count > 0)
        count = collect(rank, count);
    for (int i = 0; i < count && status == 0; i++)
        status = note(transport, &rank->came[i], err);
    if (count == 0 && status == 0 && ++rank->fruitless_count % LOOKS_PER_PROBE == 0)
        status = probe(transport, err);
    if (count > 0)
        rank->backoff_ns = 0;
    tutti_mpi_leave(transport->group);
    return status < 0 ? status : count;
}
