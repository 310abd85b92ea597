/* Finds the ways that lead out of this process, and lets all processes meet over some of them. */
#include "runtime/exec/threads/ways.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "runtime/crew.h"

/* ---- SENDs and RECVs that have no other side ---- */

/* The step after the first `count` that go over the wire, on the side that has more of them. */
static int refuse(const struct tutti_schedule *schedule, const struct tutti_wire *wire,
                  struct tutti_err *err)
{
    bool sends = wire->send_total > wire->recv_total;
    uint32_t rank = sends ? wire->from : wire->to;
    uint32_t peer = sends ? wire->to : wire->from;
    uint64_t count = sends ? wire->recv_total : wire->send_total;
    uint64_t seen = 0;
    char text[TUTTI_STEP_TEXT_BYTES];
    struct tutti_cursor cursor;
    const struct tutti_step *step;

    tutti_cursor_open(&cursor, schedule, rank, wire->lane);
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
                      rank, wire->lane, (unsigned long long)(cursor.step_index - 1),
                      tutti_step_text(step, text), peer, (unsigned long long)count,
                      sends ? "RECVs" : "SENDs", rank);
}

/* Of several such wires that of the lowest rank and lane: all processes that see it name the same
 * step. */
static int check_totals(const struct tutti_schedule *schedule, const struct tutti_wires *wires,
                        struct tutti_err *err)
{
    const struct tutti_wire *worst = NULL;

    for (uint32_t i = 0; i < wires->wire_count; i++) {
        const struct tutti_wire *wire = &wires->wires[i];

        if (wire->send_total == wire->recv_total)
            continue;
        if (worst == NULL || wire->from < worst->from ||
            (wire->from == worst->from && wire->lane < worst->lane))
            worst = wire;
    }
    return worst == NULL ? 0 : refuse(schedule, worst, err);
}

/* ---- the ways ---- */

static int by_order(const void *left, const void *right)
{
    const struct tutti_way *a = left;
    const struct tutti_way *b = right;
    uint32_t keys[2][4] = {{0}};

    for (int i = 0; i < 2; i++) {
        const struct tutti_way *way = i == 0 ? a : b;
        bool up = (way->rank < way->peer) == way->sends; /* from the lower to the higher */

        keys[i][0] = way->rank < way->peer ? way->rank : way->peer;
        keys[i][1] = way->rank < way->peer ? way->peer : way->rank;
        keys[i][2] = way->lane;
        keys[i][3] = up ? 0 : 1;
    }
    for (int k = 0; k < 4; k++) {
        if (keys[0][k] != keys[1][k])
            return keys[0][k] < keys[1][k] ? -1 : 1;
    }
    return 0;
}

static void add_crossing(struct tutti_ways *ways, uint32_t rank_count, uint32_t lane_count,
                         const struct tutti_crew *crew)
{
    uint32_t active = crew->count < rank_count ? crew->count : rank_count;

    if (crew->index >= active)
        return;
    for (uint32_t on = 1; on < active; on *= 2) {
        uint32_t after = (uint32_t)(((uint64_t)crew->index + on) % active);
        uint32_t before = (crew->index + active - on) % active;
        struct tutti_way way = {
            .rank = tutti_crew_first_rank(rank_count, crew->count, crew->index),
            .peer = tutti_crew_first_rank(rank_count, crew->count, after),
            .lane = lane_count + ways->crossing.round_count,
            .slot_count = 1,
            .message_count = 1,
            .bytes_max = sizeof(ways->crossing.said_ns[0]),
            .sends = true,
        };

        ways->ways[ways->way_count++] = way;
        way.peer = tutti_crew_first_rank(rank_count, crew->count, before);
        way.sends = false;
        ways->ways[ways->way_count++] = way;
        ways->crossing.round_count++;
    }
}

/* The ways have their final places: those who use them learn where. */
static void point(struct tutti_ways *ways, struct tutti_wires *wires, uint32_t lane_count)
{
    for (uint32_t i = 0; i < ways->way_count; i++) {
        struct tutti_way *way = &ways->ways[i];

        if (way->lane >= lane_count) {
            struct tutti_way **side = way->sends ? ways->crossing.out : ways->crossing.in;

            side[way->lane - lane_count] = way;
            continue;
        }
        tutti_thread_wires_find(wires, way->sends ? way->rank : way->peer,
                                way->sends ? way->peer : way->rank, way->lane)
            ->way = way;
    }
}

int tutti_ways_open(struct tutti_ways *ways, struct tutti_wires *wires,
                    const struct tutti_schedule *schedule, const struct tutti_crew *crew,
                    tutti_ps lead_ps, struct tutti_err *err)
{
    int status = check_totals(schedule, wires, err);

    *ways = (struct tutti_ways){.crossing = {.lead_ps = lead_ps}};
    if (status < 0)
        return status;
    ways->ways = calloc((size_t)wires->wire_count + 2 * (size_t)TUTTI_CROSSING_ROUNDS_MAX,
                        sizeof(ways->ways[0]));
    if (ways->ways == NULL)
        return tutti_nomem(err);
    for (uint32_t i = 0; i < wires->wire_count; i++) {
        const struct tutti_wire *wire = &wires->wires[i];
        bool sends = tutti_wires_own(wires, wire->from);

        if (sends && tutti_wires_own(wires, wire->to))
            continue;
        ways->ways[ways->way_count++] = (struct tutti_way){
            .rank = sends ? wire->from : wire->to,
            .peer = sends ? wire->to : wire->from,
            .lane = wire->lane,
            .slot_count = wire->slot_count,
            .message_count = wire->send_total,
            .bytes_max = wire->bytes_max,
            .sends = sends,
            .strict = wire->strict,
        };
    }
    add_crossing(ways, schedule->rank_count, schedule->lane_count, crew);
    qsort(ways->ways, ways->way_count, sizeof(ways->ways[0]), by_order);
    point(ways, wires, schedule->lane_count);
    return 0;
}

void tutti_ways_close(struct tutti_ways *ways)
{
    free(ways->ways);
    *ways = (struct tutti_ways){0};
}

/* ---- the barrier ---- */

/* Another look, with rest before it. */
static int wait_on(struct tutti_hall *hall, uint32_t rank, struct tutti_nap *nap,
                   struct tutti_err *err)
{
    int status = tutti_hall_move(hall, rank, err);

    if (status == 0)
        return tutti_hall_rest(hall, rank, nap, 0);
    if (status > 0)
        tutti_hall_rise(hall, rank, nap);
    return status < 0 ? status : 0;
}

/* On the monotonic clock. */
static int64_t now_ns(const struct tutti_hall *hall)
{
    return hall->epoch_s * 1000000000 + tutti_hall_now(hall) / TUTTI_PS_PER_NS;
}

static int cross(struct tutti_crossing *crossing, struct tutti_hall *hall, uint32_t rank,
                 struct tutti_nap *nap, struct tutti_err *err)
{
    const struct tutti_carrier_ops *ops = hall->carrier->ops;
    int64_t last_ns = now_ns(hall);
    struct tutti_landing landing = {0};
    struct tutti_parcel parcel = {0};
    int status = 0;

    crossing->met_count++;
    for (uint32_t k = 0; k < crossing->round_count && status == 0; k++) {
        if (crossing->lead_ps > 0) {
            crossing->said_ns[k] = last_ns;
            parcel.src = &crossing->said_ns[k];
            landing.dst = &crossing->heard_ns[k];
            parcel.bytes = landing.bytes = sizeof(last_ns);
        }
        status = ops->send(hall->carrier, crossing->out[k], &parcel, err);
        if (status == 0)
            status = ops->recv(hall->carrier, crossing->in[k], &landing, err);
        while (status == 0 && (crossing->in[k]->done_count < crossing->met_count ||
                               crossing->out[k]->done_count < crossing->met_count))
            status = wait_on(hall, rank, nap, err);
        /* Nobody has come later than now, whatever is heard. */
        if (status == 0 && crossing->lead_ps > 0 && crossing->heard_ns[k] > last_ns &&
            crossing->heard_ns[k] <= now_ns(hall))
            last_ns = crossing->heard_ns[k];
    }
    crossing->begins_ps = tutti_hall_after((last_ns - hall->epoch_s * 1000000000) * TUTTI_PS_PER_NS,
                                           crossing->lead_ps);
    return status;
}

/* Until the moment that all know. To spin until then would keep processes of this host from being
 * on time that share its processors. */
static void wait_for_lead(const struct tutti_crossing *crossing, const struct tutti_hall *hall)
{
    tutti_ps ps = crossing->begins_ps;
    struct timespec at = {.tv_sec = (time_t)(hall->epoch_s + ps / TUTTI_PS_PER_S),
                          .tv_nsec = (long)(ps % TUTTI_PS_PER_S / TUTTI_PS_PER_NS)};

    if (crossing->lead_ps == 0)
        return;
    (void)prctl(PR_SET_TIMERSLACK, 1); /* else the kernel may wake us 50 us later */
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

int tutti_crossing_meet(struct tutti_crossing *crossing, struct tutti_hall *hall, uint32_t rank,
                        struct tutti_err *err)
{
    unsigned generation = atomic_load(&hall->generation);
    bool leads = rank == hall->first_rank;
    struct tutti_nap nap = {0};
    int status = 0;

    if (err != NULL)
        err->text[0] = '\0';
    if (atomic_fetch_add(&hall->arrived, 1) + 1 == hall->rank_count && !leads)
        tutti_hall_wake(hall, hall->first_rank);
    while (status == 0 && (leads ? atomic_load(&hall->arrived) < hall->rank_count
                                 : atomic_load(&hall->generation) == generation))
        status = wait_on(hall, rank, &nap, err);
    if (status == 0 && leads)
        status = cross(crossing, hall, rank, &nap, err);
    tutti_hall_rise(hall, rank, &nap);
    if (status < 0)
        return status;
    if (leads) {
        atomic_store(&hall->arrived, 0);
        atomic_store(&hall->generation, generation + 1);
        for (uint32_t i = 1; i < hall->rank_count; i++)
            tutti_hall_wake(hall, hall->first_rank + i);
    }
    wait_for_lead(crossing, hall);
    return 0;
}
