/* Finds the endpoints that lead out of this process, and lets all processes meet over some of them.
 */
#include "runtime/exec/host/endpoints.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "runtime/group.h"

/* ---- SENDs and RECVs that have no other side ---- */

/* The step after the first `count` that go over the connection, on the side that has more of them.
 */
static int refuse(const struct tutti_schedule *schedule, const struct tutti_connection *connection,
                  struct tutti_err *err)
{
    bool sends = connection->send_total > connection->recv_total;
    uint32_t rank = sends ? connection->from : connection->to;
    uint32_t peer = sends ? connection->to : connection->from;
    uint64_t count = sends ? connection->recv_total : connection->send_total;
    uint64_t seen = 0;
    char text[TUTTI_STEP_TEXT_BYTES];
    struct tutti_cursor cursor;
    const struct tutti_step *step;

    tutti_cursor_open(&cursor, schedule, rank, connection->lane);
    while ((step = tutti_cursor_next(&cursor)) != NULL) {
        if (step->kind != (sends ? TUTTI_SEND : TUTTI_RECV) || step->peer != peer)
            continue;
        if (seen++ == count)
            break;
    }
    assert(step != NULL); /* the same walk has counted more */
    return tutti_fail(err, TUTTI_ECHECK,
                      "deadlock: rank %u, lane %u, step %llu (%s) can never finish: rank %u has "
                      "only %llu %s for rank %u there",
                      rank, connection->lane, (unsigned long long)(cursor.step_index - 1),
                      tutti_step_text(step, text), peer, (unsigned long long)count,
                      sends ? "RECVs" : "SENDs", rank);
}

/* Of several such connections that of the lowest rank and lane: all processes that see it name the
 * same step. */
static int check_totals(const struct tutti_schedule *schedule,
                        const struct tutti_connections *connections, struct tutti_err *err)
{
    const struct tutti_connection *worst = NULL;

    for (uint32_t i = 0; i < connections->connection_count; i++) {
        const struct tutti_connection *connection = &connections->connections[i];

        if (connection->send_total == connection->recv_total)
            continue;
        if (worst == NULL || connection->from < worst->from ||
            (connection->from == worst->from && connection->lane < worst->lane))
            worst = connection;
    }
    return worst == NULL ? 0 : refuse(schedule, worst, err);
}

/* ---- the endpoints ---- */

static int by_order(const void *left, const void *right)
{
    const struct tutti_endpoint *a = left;
    const struct tutti_endpoint *b = right;
    uint32_t keys[2][4] = {{0}};

    for (int i = 0; i < 2; i++) {
        const struct tutti_endpoint *endpoint = i == 0 ? a : b;
        bool up =
            (endpoint->rank < endpoint->peer) == endpoint->sends; /* from the lower to the higher */

        keys[i][0] = endpoint->rank < endpoint->peer ? endpoint->rank : endpoint->peer;
        keys[i][1] = endpoint->rank < endpoint->peer ? endpoint->peer : endpoint->rank;
        keys[i][2] = endpoint->lane;
        keys[i][3] = up ? 0 : 1;
    }
    for (int k = 0; k < 4; k++) {
        if (keys[0][k] != keys[1][k])
            return keys[0][k] < keys[1][k] ? -1 : 1;
    }
    return 0;
}

static void add_crossing(struct tutti_endpoints *endpoints, uint32_t rank_count,
                         uint32_t lane_count, const struct tutti_group *group)
{
    uint32_t active = group->count < rank_count ? group->count : rank_count;

    if (group->index >= active)
        return;
    for (uint32_t on = 1; on < active; on *= 2) {
        uint32_t after = (uint32_t)(((uint64_t)group->index + on) % active);
        uint32_t before = (group->index + active - on) % active;
        struct tutti_endpoint endpoint = {
            .rank = tutti_group_first_rank(rank_count, group->count, group->index),
            .peer = tutti_group_first_rank(rank_count, group->count, after),
            .lane = lane_count + endpoints->crossing.round_count,
            .slot_count = 1,
            .message_count = 1,
            .bytes_max = sizeof(endpoints->crossing.said[0]),
            .sends = true,
        };

        endpoints->endpoints[endpoints->endpoint_count++] = endpoint;
        endpoint.peer = tutti_group_first_rank(rank_count, group->count, before);
        endpoint.sends = false;
        endpoints->endpoints[endpoints->endpoint_count++] = endpoint;
        endpoints->crossing.round_count++;
    }
}

/* The endpoints have their final places: those who use them learn where. */
static void point(struct tutti_endpoints *endpoints, struct tutti_connections *connections,
                  uint32_t lane_count)
{
    for (uint32_t i = 0; i < endpoints->endpoint_count; i++) {
        struct tutti_endpoint *endpoint = &endpoints->endpoints[i];

        if (endpoint->lane >= lane_count) {
            struct tutti_endpoint **side =
                endpoint->sends ? endpoints->crossing.out : endpoints->crossing.in;

            side[endpoint->lane - lane_count] = endpoint;
            continue;
        }
        tutti_thread_connections_find(
            connections, endpoint->sends ? endpoint->rank : endpoint->peer,
            endpoint->sends ? endpoint->peer : endpoint->rank, endpoint->lane)
            ->endpoint = endpoint;
    }
}

int tutti_endpoints_open(struct tutti_endpoints *endpoints, struct tutti_connections *connections,
                         const struct tutti_schedule *schedule, const struct tutti_group *group,
                         tutti_ps lead_ps, bool hooked, struct tutti_err *err)
{
    int status = check_totals(schedule, connections, err);

    *endpoints = (struct tutti_endpoints){.crossing = {.lead_ps = lead_ps, .hooked = hooked}};
    if (status < 0)
        return status;
    endpoints->endpoints =
        calloc((size_t)connections->connection_count + 2 * (size_t)TUTTI_CROSSING_ROUNDS_MAX,
               sizeof(endpoints->endpoints[0]));
    if (endpoints->endpoints == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < connections->connection_count; i++) {
        const struct tutti_connection *connection = &connections->connections[i];
        bool sends = tutti_connections_own(connections, connection->from);

        if (sends && tutti_connections_own(connections, connection->to))
            continue;
        endpoints->endpoints[endpoints->endpoint_count++] = (struct tutti_endpoint){
            .rank = sends ? connection->from : connection->to,
            .peer = sends ? connection->to : connection->from,
            .lane = connection->lane,
            .slot_count = connection->slot_count,
            .message_count = connection->send_total,
            .bytes_max = connection->bytes_max,
            .sends = sends,
            .strict = connection->strict,
        };
    }
    add_crossing(endpoints, schedule->rank_count, schedule->lane_count, group);
    qsort(endpoints->endpoints, endpoints->endpoint_count, sizeof(endpoints->endpoints[0]),
          by_order);
    point(endpoints, connections, schedule->lane_count);
    return 0;
}

void tutti_endpoints_close(struct tutti_endpoints *endpoints)
{
    free(endpoints->endpoints);
    *endpoints = (struct tutti_endpoints){0};
}

/* ---- the barrier ---- */

/* Another look, with rest before it. */
static int wait_on(struct tutti_wait_set *wait_set, uint32_t rank, struct tutti_backoff *backoff,
                   struct tutti_err *err)
{
    int status = tutti_wait_set_move(wait_set, rank, err);

    if (status == 0)
        return tutti_wait_set_wait(wait_set, rank, backoff, 0);
    if (status > 0)
        tutti_wait_set_resume(wait_set, rank, backoff);
    return status < 0 ? status : 0;
}

/* On the monotonic clock. */
static int64_t now_ns(const struct tutti_wait_set *wait_set)
{
    return wait_set->epoch_s * 1000000000 + tutti_wait_set_now(wait_set) / TUTTI_PS_PER_NS;
}

static int cross(struct tutti_crossing *crossing, struct tutti_wait_set *wait_set, uint32_t rank,
                 struct tutti_backoff *backoff, struct tutti_err *err)
{
    const struct tutti_transport_ops *ops = wait_set->transport->ops;
    int64_t last_ns = now_ns(wait_set);
    struct tutti_recv_desc recv_desc = {0};
    struct tutti_send_desc send_desc = {0};
    bool speaks = crossing->lead_ps > 0 || crossing->hooked;
    int status = 0;

    crossing->met_count++;
    for (uint32_t k = 0; k < crossing->round_count && status == 0; k++) {
        if (speaks) {
            crossing->said[k] =
                (struct tutti_crossing_word){.last_ns = last_ns, .enough = crossing->enough};
            send_desc.src = &crossing->said[k];
            recv_desc.dst = &crossing->heard[k];
            send_desc.bytes = recv_desc.bytes = sizeof(crossing->said[k]);
        }
        status = ops->send(wait_set->transport, crossing->out[k], &send_desc, err);
        if (status == 0)
            status = ops->recv(wait_set->transport, crossing->in[k], &recv_desc, err);
        while (status == 0 && (crossing->in[k]->done_count < crossing->met_count ||
                               crossing->out[k]->done_count < crossing->met_count))
            status = wait_on(wait_set, rank, backoff, err);
        /* Nobody has come later than now, whatever is heard. */
        if (status == 0 && speaks && crossing->heard[k].last_ns > last_ns &&
            crossing->heard[k].last_ns <= now_ns(wait_set))
            last_ns = crossing->heard[k].last_ns;
        if (status == 0 && speaks && crossing->heard[k].enough != 0)
            crossing->enough = true;
    }
    crossing->begins_ps = tutti_wait_set_after(
        (last_ns - wait_set->epoch_s * 1000000000) * TUTTI_PS_PER_NS, crossing->lead_ps);
    return status;
}

/* Until the moment that all know. To spin until then would keep processes of this host from being
 * on time that share its processors. */
static void wait_for_lead(const struct tutti_crossing *crossing,
                          const struct tutti_wait_set *wait_set)
{
    tutti_ps ps = crossing->begins_ps;
    struct timespec at = {.tv_sec = (time_t)(wait_set->epoch_s + ps / TUTTI_PS_PER_S),
                          .tv_nsec = (long)(ps % TUTTI_PS_PER_S / TUTTI_PS_PER_NS)};

    if (crossing->lead_ps == 0)
        return;
    (void)prctl(PR_SET_TIMERSLACK, 1); /* else the kernel may wake us 50 us later */
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

int tutti_crossing_meet(struct tutti_crossing *crossing, struct tutti_wait_set *wait_set,
                        uint32_t rank, struct tutti_err *err)
{
    unsigned generation = atomic_load(&wait_set->generation);
    bool leads = rank == wait_set->first_rank;
    struct tutti_backoff backoff = {0};
    int status = 0;

    if (atomic_fetch_add(&wait_set->arrived, 1) + 1 == wait_set->rank_count && !leads)
        tutti_wait_set_wake(wait_set, wait_set->first_rank);
    while (status == 0 && (leads ? atomic_load(&wait_set->arrived) < wait_set->rank_count
                                 : atomic_load(&wait_set->generation) == generation))
        status = wait_on(wait_set, rank, &backoff, err);
    if (status == 0 && leads)
        status = cross(crossing, wait_set, rank, &backoff, err);
    tutti_wait_set_resume(wait_set, rank, &backoff);
    if (status < 0)
        return status;
    if (leads) {
        atomic_store(&wait_set->arrived, 0);
        atomic_store(&wait_set->generation, generation + 1);
        for (uint32_t i = 1; i < wait_set->rank_count; i++)
            tutti_wait_set_wake(wait_set, wait_set->first_rank + i);
    }
    wait_for_lead(crossing, wait_set);
    return 0;
}
