/* Finds the connections of a schedule, and gives each its ring of slots. */
#include "runtime/exec/threads/wire.h"

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

/* Where the wire stands in the table, or the free place where it would stand. */
static uint32_t place_of(const struct tutti_wires *wires, uint32_t from, uint32_t to, uint32_t lane)
{
    uint32_t at = hash_of(from, to, lane) & wires->table_mask;

    for (; wires->table[at] != 0; at = (at + 1) & wires->table_mask) {
        const struct tutti_wire *wire = &wires->wires[wires->table[at] - 1];

        if (wire->from == from && wire->to == to && wire->lane == lane)
            break;
    }
    return at;
}

/* The table is at most half full, and `wires` has room for as many as that. */
static int grow(struct tutti_wires *wires, struct tutti_err *err)
{
    uint32_t size = wires->table == NULL ? 64 : 2 * (wires->table_mask + 1);
    struct tutti_wire *larger;
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
    if (wires->wire_count > 0)
        memcpy(larger, wires->wires, wires->wire_count * sizeof(*larger));
    free(wires->wires);
    free(wires->table);
    wires->wires = larger;
    wires->table = table;
    wires->table_mask = size - 1;
    for (uint32_t i = 0; i < wires->wire_count; i++)
        table[place_of(wires, larger[i].from, larger[i].to, larger[i].lane)] = i + 1;
    return 0;
}

/* A step goes over this wire; those between ranks of other processes are no matter. */
static int count_message(struct tutti_wires *wires, uint32_t from, uint32_t to, uint32_t lane,
                         const struct tutti_step *step, struct tutti_err *err)
{
    struct tutti_wire *wire;
    uint32_t at;

    if (!tutti_wires_own(wires, from) && !tutti_wires_own(wires, to))
        return 0;
    if (wires->table == NULL || 2 * (wires->wire_count + 1) > wires->table_mask + 1) {
        int status = grow(wires, err);

        if (status < 0)
            return status;
    }
    at = place_of(wires, from, to, lane);
    if (wires->table[at] == 0) {
        wires->wires[wires->wire_count++] =
            (struct tutti_wire){.from = from, .to = to, .lane = lane};
        wires->table[at] = wires->wire_count;
        if (tutti_wires_own(wires, from))
            wires->out_counts[from - wires->first_rank]++;
    }
    wire = &wires->wires[wires->table[at] - 1];
    wire->send_total += step->kind == TUTTI_SEND;
    wire->recv_total += step->kind == TUTTI_RECV;
    if (step->bytes > wire->bytes_max)
        wire->bytes_max = step->bytes;
    return 0;
}

static int walk_lane(struct tutti_wires *wires, const struct tutti_schedule *schedule,
                     uint32_t rank, uint32_t lane, struct tutti_err *err)
{
    struct tutti_cursor cursor;
    const struct tutti_step *step;
    int status = 0;

    tutti_cursor_open(&cursor, schedule, rank, lane);
    while (status == 0 && (step = tutti_cursor_next(&cursor)) != NULL) {
        if ((step->flags & TUTTI_STEP_DEP) != 0 && step->dep_lane < schedule->lane_count) {
            size_t bit = (size_t)rank * schedule->lane_count + step->dep_lane;

            wires->waited_for[bit / 64] |= UINT64_C(1) << bit % 64;
        }
        if (step->kind == TUTTI_SEND)
            status = count_message(wires, rank, step->peer, lane, step, err);
        else if (step->kind == TUTTI_RECV)
            status = count_message(wires, step->peer, rank, lane, step, err);
        else if (step->kind == TUTTI_COMPUTE && step->duration_ps == 0 && step->flops > 0)
            status = tutti_fail(err, TUTTI_EINVAL,
                                "rank %u, lane %u, step %llu computes %llu flops, and a backend "
                                "that really plays does not know how long that takes (give the "
                                "step a duration)",
                                rank, lane, (unsigned long long)cursor.step_index - 1,
                                (unsigned long long)step->flops);
    }
    return status;
}

/* No wire needs more slots than it has messages: finished ones give theirs back before the next
 * iteration of their sender begins. */
static int give_slots(struct tutti_wires *wires, const struct tutti_schedule *schedule,
                      struct tutti_err *err)
{
    uint32_t slot_count = schedule->slot_count;
    uint64_t total = 0;

    for (uint32_t i = 0; i < wires->wire_count; i++) {
        struct tutti_wire *wire = &wires->wires[i];
        size_t bit = (size_t)wire->from * schedule->lane_count + wire->lane;

        wire->strict =
            wire->send_total > slot_count || (wire->from < schedule->rank_count &&
                                              (wires->waited_for[bit / 64] >> bit % 64 & 1) != 0);
        wire->slot_count = wire->send_total < slot_count ? (uint32_t)wire->send_total : slot_count;
        wire->slot_count += wire->slot_count == 0;
        if (tutti_wires_own(wires, wire->from))
            total += wire->slot_count;
    }
    if (total >= UINT32_MAX || total > SIZE_MAX / sizeof(struct tutti_slot) - 1)
        return tutti_nomem(err);
    wires->slots = aligned_alloc(TUTTI_CACHE_LINE, (size_t)(total + 1) * sizeof(struct tutti_slot));
    if (wires->slots == NULL)
        return tutti_nomem(err);
    memset(wires->slots, 0, (size_t)(total + 1) * sizeof(struct tutti_slot));
    total = 0;
    for (uint32_t i = 0; i < wires->wire_count; i++) {
        if (!tutti_wires_own(wires, wires->wires[i].from))
            continue;
        wires->wires[i].slots = wires->slots + total;
        for (uint32_t k = 0; k < wires->wires[i].slot_count; k++)
            wires->wires[i].slots[k].wire = i;
        total += wires->wires[i].slot_count;
    }
    wires->slot_count = (uint32_t)total;
    return 0;
}

int tutti_thread_wires_open(struct tutti_wires *wires, const struct tutti_schedule *schedule,
                            uint32_t first_rank, uint32_t own_count, struct tutti_err *err)
{
    int status = 0;

    assert(first_rank <= schedule->rank_count);
    assert(own_count <= schedule->rank_count - first_rank);
    *wires = (struct tutti_wires){.first_rank = first_rank, .own_count = own_count};
    wires->out_counts = calloc((size_t)own_count + 1, sizeof(wires->out_counts[0]));
    wires->waited_for = calloc((size_t)schedule->rank_count * schedule->lane_count / 64 + 1,
                               sizeof(wires->waited_for[0]));
    if (wires->out_counts == NULL || wires->waited_for == NULL)
        status = tutti_nomem(err);
    for (uint32_t rank = 0; rank < schedule->rank_count && status == 0; rank++) {
        for (uint32_t lane = 0; lane < schedule->lane_count && status == 0; lane++)
            status = walk_lane(wires, schedule, rank, lane, err);
    }
    if (status == 0)
        status = give_slots(wires, schedule, err);
    if (status < 0)
        tutti_thread_wires_close(wires);
    return status;
}

void tutti_thread_wires_close(struct tutti_wires *wires)
{
    free(wires->wires);
    free(wires->table);
    free(wires->slots);
    free(wires->waited_for);
    free(wires->out_counts);
    *wires = (struct tutti_wires){0};
}

struct tutti_wire *tutti_thread_wires_find(const struct tutti_wires *wires, uint32_t from,
                                           uint32_t to, uint32_t lane)
{
    uint32_t number;

    if (wires->table == NULL)
        return NULL;
    number = wires->table[place_of(wires, from, to, lane)];
    return number == 0 ? NULL : &wires->wires[number - 1];
}
