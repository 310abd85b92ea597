/* After an execution that was broken off: takes back what waits to be received, and receives into
 * nothing what was sent, until no message is under way between any processes. */
#include <assert.h>

#include "runtime/exec/transport/mpi/transport.h"

/* What each process has sent to each other, of the others' own counting. */
static int tell_counts(struct tutti_mpi_transport *transport, struct tutti_err *err)
{
    struct tutti_group *group = &transport->group->base;
    uint64_t *sent = transport->counts;
    uint64_t *received = sent + group->count;
    uint64_t *all = received + group->count;

    for (uint32_t i = 0; i < group->count; i++) {
        /* A stop is told to all but ourselves. */
        sent[i] = i != group->index && atomic_load(&transport->stopped) ? 1 : 0;
        received[i] = 0;
    }
    for (uint32_t i = 0; i < transport->plan->endpoint_count; i++) {
        const struct tutti_mpi_endpoint *own = &transport->endpoints[i];

        sent[own->process] += own->sent_count;
        received[own->process] += own->received_count;
    }
    return tutti_group_exchange(group, sent, group->count * sizeof(sent[0]), all,
                                transport->plan->deadline_ps, err);
}

static bool is_receive(enum tutti_mpi_kind kind)
{
    return kind == TUTTI_MPI_WORD_IN || kind == TUTTI_MPI_HEAD_IN || kind == TUTTI_MPI_PIECE_IN;
}

static void take_back(const struct tutti_mpi_transport *transport)
{
    for (uint32_t r = 0; r < transport->plan->own_count; r++) {
        struct tutti_mpi_rank *rank = &transport->ranks[r];

        for (int i = 0; i < rank->active_count; i++) {
            if (is_receive(rank->whats[i].kind))
                (void)MPI_Cancel(&rank->requests[i]);
        }
    }
}

/* Looks at the requests of a rank; how many are left. */
static int settle(struct tutti_mpi_transport *transport, struct tutti_mpi_rank *rank)
{
    uint64_t *received = transport->counts + transport->group->base.count;
    int kept = 0;

    for (int i = 0; i < rank->active_count; i++) {
        MPI_Status status;
        int done = 0;
        int cancelled = 0;

        (void)MPI_Test(&rank->requests[i], &done, &status); /* too long or not: it is received */
        if (!done && rank->requests[i] != MPI_REQUEST_NULL) {
            rank->requests[kept] = rank->requests[i];
            rank->whats[kept++] = rank->whats[i];
            continue;
        }
        if (!is_receive(rank->whats[i].kind))
            continue;
        (void)MPI_Test_cancelled(&status, &cancelled);
        if (!cancelled)
            received[rank->whats[i].endpoint->process]++;
    }
    rank->active_count = kept;
    return kept;
}

/* Receives one message that nobody waits for, if there is one. */
static void sweep(struct tutti_mpi_transport *transport)
{
    uint64_t *received = transport->counts + transport->group->base.count;
    MPI_Message message;
    MPI_Status status;
    int there = 0;

    if (MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, transport->comm, &there, &message, &status) !=
            MPI_SUCCESS ||
        !there)
        return;
    received[status.MPI_SOURCE]++;
    /* No message is longer than a piece. */
    (void)MPI_Mrecv(transport->trash, TUTTI_MPI_MOVED_BYTES, MPI_BYTE, &message, &status);
}

static bool is_empty(const struct tutti_mpi_transport *transport)
{
    const struct tutti_group *group = &transport->group->base;
    const uint64_t *received = transport->counts + group->count;
    const uint64_t *all = received + group->count;

    for (uint32_t i = 0; i < group->count; i++) {
        if (i != group->index && received[i] < all[(size_t)i * group->count + group->index])
            return false;
    }
    return true;
}

int tutti_mpi_drain(struct tutti_mpi_transport *transport, struct tutti_err *err)
{
    struct tutti_mpi_patience patience = tutti_mpi_patience(transport->plan->deadline_ps);
    char time[TUTTI_UNIT_TEXT_BYTES];
    int status;
    int left;

    /* There will be no counts to go by: exchanges with who has stopped do not meet. */
    if (transport->group->failed || transport->group->stopped || transport->group->heard)
        return tutti_fail(err, TUTTI_EIO, "messages are still under way");
    tutti_mpi_enter(transport->group);
    take_back(transport);
    tutti_mpi_leave(transport->group);
    status = tell_counts(transport, err);
    if (status < 0)
        return status;
    do {
        left = 0;
        tutti_mpi_enter(transport->group);
        for (uint32_t r = 0; r < transport->plan->own_count; r++)
            left += settle(transport, &transport->ranks[r]);
        sweep(transport);
        tutti_mpi_leave(transport->group);
        if (left == 0 && is_empty(transport))
            return 0;
    } while (tutti_mpi_rest(&patience));
    return tutti_fail(err, TUTTI_ETIME, "deadline of %s passed: messages are still under way",
                      tutti_print_time(transport->plan->deadline_ps, time));
}
