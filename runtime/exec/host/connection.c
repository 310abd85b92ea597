/* Finds the connections of a schedule, and gives each its ring of slots. */
#include "runtime/exec/host/connection.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"

static uint32_t hash_of(uint32_t from, uint32_t to, uint32_t lane)
{
    uint64_t key = ((uint64_t)from << 32 | to) * UINT64_C(0x9e3779b97f4a7c15) +
                   lane * UINT64_C(0xc2b2ae3d27d4eb4f);

    return (uint32_t)((key ^ key >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 32);
}

/* Where the connection stands in the table, or the free place where it would stand. */
static uint32_t lane_state_of(const struct tutti_connections *connections, uint32_t from,
                              uint32_t to, uint32_t lane)
{
    uint32_t at = hash_of(from, to, lane) & connections->table_mask;

    for (; connections->table[at] != 0; at = (at + 1) & connections->table_mask) {
        const struct tutti_connection *connection =
            &connections->connections[connections->table[at] - 1];

        if (connection->from == from && connection->to == to && connection->lane == lane)
            break;
    }
    return at;
}

/* The table is at most half full, and `connections` has room for as many as that. */
static int grow(struct tutti_connections *connections, struct tutti_err *err)
{
    uint32_t size = connections->table == NULL ? 64 : 2 * (connections->table_mask + 1);
    struct tutti_connection *larger;
    uint32_t *table;

    if (size == 0)
        return tutti_nomem(err);
    larger = aligned_alloc(TUTTI_CACHE_LINE, size / 2 * sizeof(*larger));
    table = calloc(size, sizeof(*table));
    if (larger == NULL || table == NULL) {
        free(larger);
        free(table);
        return tutti_nomem(err);
    }
    if (connections->connection_count > 0)
        memcpy(larger, connections->connections, connections->connection_count * sizeof(*larger));
    free(connections->connections);
    free(connections->table);
    connections->connections = larger;
    connections->table = table;
    connections->table_mask = size - 1;
    for (uint32_t i = 0; i < connections->connection_count; i++)
        table[lane_state_of(connections, larger[i].from, larger[i].to, larger[i].lane)] = i + 1;
    return 0;
}

/* A step goes over this connection; those between ranks of other processes are no matter. */
static int count_message(struct tutti_connections *connections, uint32_t from, uint32_t to,
                         uint32_t lane, const struct tutti_step *step, struct tutti_err *err)
{
    struct tutti_connection *connection;
    uint32_t at;

    if (!tutti_connections_own(connections, from) && !tutti_connections_own(connections, to))
        return 0;
    if (connections->table == NULL ||
        2 * (connections->connection_count + 1) > connections->table_mask + 1) {
        int status = grow(connections, err);

        if (status < 0)
            return status;
    }
    at = lane_state_of(connections, from, to, lane);
    if (connections->table[at] == 0) {
        connections->connections[connections->connection_count++] =
            (struct tutti_connection){.from = from, .to = to, .lane = lane};
        connections->table[at] = connections->connection_count;
        if (tutti_connections_own(connections, from))
            connections->out_counts[from - connections->first_rank]++;
    }
    connection = &connections->connections[connections->table[at] - 1];
    connection->send_total += step->kind == TUTTI_SEND;
    connection->recv_total += step->kind == TUTTI_RECV;
    if (step->bytes > connection->bytes_max)
        connection->bytes_max = step->bytes;
    return 0;
}

static int walk_lane(struct tutti_connections *connections, const struct tutti_schedule *schedule,
                     uint32_t rank, uint32_t lane, struct tutti_err *err)
{
    struct tutti_cursor cursor;
    const struct tutti_step *step;
    int status = 0;

    tutti_cursor_open(&cursor, schedule, rank, lane);
    while (status == 0 && (step = tutti_cursor_next(&cursor)) != NULL) {
        if ((step->flags & TUTTI_STEP_DEP) != 0 && step->dep_lane < schedule->lane_count) {
            size_t bit = (size_t)rank * schedule->lane_count + step->dep_lane;

            connections->waited_for[bit / 64] |= UINT64_C(1) << bit % 64;
        }
        if (step->kind == TUTTI_SEND)
            status = count_message(connections, rank, step->peer, lane, step, err);
        else if (step->kind == TUTTI_RECV)
            status = count_message(connections, step->peer, rank, lane, step, err);
        else if (step->kind == TUTTI_COMPUTE && step->duration_ps == 0 && step->flops > 0 &&
                 (step->peer == 0 || schedule->work[step->peer - 1].run == NULL))
            status = tutti_fail(err, TUTTI_EINVAL,
                                "rank %u, lane %u, step %llu computes %llu flops, and a backend "
                                "that really plays does not know how long that takes (give the "
                                "step a duration)",
                                rank, lane, (unsigned long long)cursor.step_index - 1,
                                (unsigned long long)step->flops);
    }
    return status;
}

/* No connection needs more slots than it has messages: finished ones give theirs back before the
 * next iteration of their sender begins. */
static int give_slots(struct tutti_connections *connections, const struct tutti_schedule *schedule,
                      struct tutti_err *err)
{
    uint32_t slot_count = schedule->slot_count;
    uint64_t total = 0;

    for (uint32_t i = 0; i < connections->connection_count; i++) {
        struct tutti_connection *connection = &connections->connections[i];
        size_t bit = (size_t)connection->from * schedule->lane_count + connection->lane;

        connection->strict = connection->send_total > slot_count ||
                             (connection->from < schedule->rank_count &&
                              (connections->waited_for[bit / 64] >> bit % 64 & 1) != 0);
        connection->slot_count =
            connection->send_total < slot_count ? (uint32_t)connection->send_total : slot_count;
        connection->slot_count += connection->slot_count == 0;
        if (tutti_connections_own(connections, connection->from))
            total += connection->slot_count;
    }
    if (total >= UINT32_MAX || total > SIZE_MAX / sizeof(struct tutti_slot) - 1)
        return tutti_nomem(err);
    connections->slots =
        aligned_alloc(TUTTI_CACHE_LINE, (size_t)(total + 1) * sizeof(struct tutti_slot));
    if (connections->slots == NULL)
        return tutti_nomem(err);
    memset(connections->slots, 0, (size_t)(total + 1) * sizeof(struct tutti_slot));
    total = 0;
    for (uint32_t i = 0; i < connections->connection_count; i++) {
        if (!tutti_connections_own(connections, connections->connections[i].from))
            continue;
        connections->connections[i].slots = connections->slots + total;
        for (uint32_t k = 0; k < connections->connections[i].slot_count; k++)
            connections->connections[i].slots[k].connection = i;
        total += connections->connections[i].slot_count;
    }
    connections->slot_count = (uint32_t)total;
    return 0;
}

int tutti_thread_connections_open(struct tutti_connections *connections,
                                  const struct tutti_schedule *schedule, uint32_t first_rank,
                                  uint32_t own_count, struct tutti_err *err)
{
    int status = 0;

    assert(first_rank <= schedule->rank_count);
    assert(own_count <= schedule->rank_count - first_rank);
    *connections = (struct tutti_connections){.first_rank = first_rank, .own_count = own_count};
    connections->out_counts = calloc((size_t)own_count + 1, sizeof(connections->out_counts[0]));
    connections->waited_for = calloc((size_t)schedule->rank_count * schedule->lane_count / 64 + 1,
                                     sizeof(connections->waited_for[0]));
    if (connections->out_counts == NULL || connections->waited_for == NULL)
        status = tutti_nomem(err);
    for (uint32_t rank = 0; rank < schedule->rank_count && status == 0; rank++) {
        for (uint32_t lane = 0; lane < schedule->lane_count && status == 0; lane++)
            status = walk_lane(connections, schedule, rank, lane, err);
    }
    if (status == 0)
        status = give_slots(connections, schedule, err);
    if (status < 0)
        tutti_thread_connections_close(connections);
    return status;
}

void tutti_thread_connections_close(struct tutti_connections *connections)
{
    free(connections->connections);
    free(connections->table);
    free(connections->slots);
    free(connections->waited_for);
    free(connections->out_counts);
    *connections = (struct tutti_connections){0};
}

struct tutti_connection *tutti_thread_connections_find(const struct tutti_connections *connections,
                                                       uint32_t from, uint32_t to, uint32_t lane)
{
    uint32_t number;

    if (connections->table == NULL)
        return NULL;
    number = connections->table[lane_state_of(connections, from, to, lane)];
    return number == 0 ? NULL : &connections->connections[number - 1];
}
