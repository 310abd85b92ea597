/* Calls and work that are under way at once: how fast each of them goes on. */
#include "sim/step/sharing.h"

#include <assert.h>
#include <string.h>

#include "runtime/arena.h"
#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/net/net.h"

enum { ONE = TUTTI_SHARE_ONE, WORK_LEAST = ONE / 4 };

int tutti_sharing_open(struct tutti_sharing *sharing, struct tutti_queue *queue,
                       struct tutti_arena *arena, uint32_t class_count, uint32_t lane_count,
                       uint32_t activity_count)
{
    size_t slots = (size_t)class_count * lane_count;

    *sharing = (struct tutti_sharing){
        .queue = queue,
        .activities = tutti_arena_take(arena, activity_count, sizeof(struct tutti_activity)),
        .under_way = tutti_arena_take(arena, slots, sizeof(uint32_t)),
        .under_way_count = tutti_arena_take(arena, class_count, sizeof(uint32_t)),
        .class_stamp = tutti_arena_take(arena, class_count, sizeof(uint32_t)),
        .touched = tutti_arena_take(arena, class_count, sizeof(uint32_t)),
        .found = tutti_arena_take(arena, class_count, sizeof(uint32_t)),
        .class_count = class_count,
        .slots = lane_count,
    };
    if (sharing->activities == NULL || sharing->under_way == NULL ||
        sharing->under_way_count == NULL || sharing->class_stamp == NULL ||
        sharing->touched == NULL || sharing->found == NULL)
        return -TUTTI_ENOMEM;
    return tutti_queue_reserve(queue, activity_count) < 0 ? -TUTTI_ENOMEM : 0;
}

/* ---- what is under way ----------------------------------------------------------------------- */

static void touch(struct tutti_sharing *s, const struct tutti_activity *a)
{
    for (uint32_t i = 0; i < a->member_count; i++) {
        uint32_t c = a->members[i];

        if (s->class_stamp[c] == UINT32_MAX)
            continue;
        s->class_stamp[c] = UINT32_MAX;
        s->touched[s->touched_count++] = c;
    }
}

void tutti_sharing_begin(struct tutti_sharing *s, uint32_t id, tutti_ps takes_ps, tutti_ps now_ps)
{
    struct tutti_activity *a = &s->activities[id];

    assert(!a->active && takes_ps > 0);
    a->active = true;
    a->rate = 0;
    a->rest_ps = takes_ps;
    a->since_ps = now_ps;
    for (uint32_t i = 0; i < a->member_count; i++) {
        uint32_t c = a->members[i];

        assert(s->under_way_count[c] < s->slots);
        s->under_way[(size_t)c * s->slots + s->under_way_count[c]++] = id;
    }
    touch(s, a);
}

void tutti_sharing_end(struct tutti_sharing *s, uint32_t id)
{
    struct tutti_activity *a = &s->activities[id];

    assert(a->active);
    a->active = false;
    for (uint32_t i = 0; i < a->member_count; i++) {
        uint32_t *ids = &s->under_way[(size_t)a->members[i] * s->slots];
        uint32_t *count = &s->under_way_count[a->members[i]];
        uint32_t k = 0;

        while (ids[k] != id)
            k++;
        ids[k] = ids[--*count];
    }
    touch(s, a);
}

static const uint32_t *ids_of(const struct tutti_sharing *s, uint32_t c)
{
    return &s->under_way[(size_t)c * s->slots];
}

/* ---- rates ----------------------------------------------------------------------------------- */

/* The classes that a chain of calls under way joins with class `c`. */
static void find_component(struct tutti_sharing *s, uint32_t c)
{
    s->found_count = 1;
    s->found[0] = c;
    s->class_stamp[c] = s->stamp;
    for (uint32_t i = 0; i < s->found_count; i++) {
        const uint32_t *ids = ids_of(s, s->found[i]);

        for (uint32_t k = 0; k < s->under_way_count[s->found[i]]; k++) {
            struct tutti_activity *a = &s->activities[ids[k]];

            if (a->stamp == s->stamp)
                continue;
            a->stamp = s->stamp;
            a->frozen = false;
            a->new_rate = ONE;
            for (uint32_t m = 0; m < a->member_count; m++) {
                if (s->class_stamp[a->members[m]] == s->stamp)
                    continue;
                s->class_stamp[a->members[m]] = s->stamp;
                s->found[s->found_count++] = a->members[m];
            }
        }
    }
}

/* The rate at which links of a kind of a rank are full, if all calls not frozen go on alike;
 * UINT32_MAX: no such call uses them. */
static uint32_t level_of(const struct tutti_sharing *s, uint32_t c, uint32_t kind)
{
    const uint32_t *ids = ids_of(s, c);
    uint64_t used = 0;
    uint64_t rising = 0;

    for (uint32_t k = 0; k < s->under_way_count[c]; k++) {
        const struct tutti_activity *a = &s->activities[ids[k]];

        if (a->price == NULL)
            continue;
        if (a->frozen)
            used += tutti_muldiv(a->price->link_share[kind], a->new_rate, ONE);
        else
            rising += a->price->link_share[kind];
    }
    if (rising == 0)
        return UINT32_MAX;
    if (used >= ONE)
        return 1;
    used = tutti_muldiv(ONE - used, ONE, rising);
    return used > ONE ? ONE : used < 1 ? 1 : (uint32_t)used;
}

static uint32_t lowest_level(const struct tutti_sharing *s)
{
    uint32_t lowest = ONE;

    for (uint32_t i = 0; i < s->found_count; i++) {
        for (uint32_t kind = 0; kind < TUTTI_SHARE_LINKS; kind++) {
            uint32_t level = level_of(s, s->found[i], kind);

            lowest = level < lowest ? level : lowest;
        }
    }
    return lowest;
}

/* Calls over links that are full stay at `level`. Which links are is found before any is frozen. */
static void freeze(struct tutti_sharing *s, uint32_t level)
{
    for (uint32_t i = 0; i < s->found_count; i++) {
        const uint32_t *ids = ids_of(s, s->found[i]);

        for (uint32_t kind = 0; kind < TUTTI_SHARE_LINKS; kind++) {
            if (level_of(s, s->found[i], kind) != level)
                continue;
            for (uint32_t k = 0; k < s->under_way_count[s->found[i]]; k++) {
                struct tutti_activity *a = &s->activities[ids[k]];

                if (a->price != NULL && !a->frozen && a->price->link_share[kind] > 0)
                    a->new_rate = level;
            }
        }
    }
    for (uint32_t i = 0; i < s->found_count; i++)
        for (uint32_t k = 0; k < s->under_way_count[s->found[i]]; k++) {
            struct tutti_activity *a = &s->activities[ids_of(s, s->found[i])[k]];

            a->frozen |= a->new_rate != ONE;
        }
}

static void find_rates(struct tutti_sharing *s)
{
    uint32_t level;

    while ((level = lowest_level(s)) < ONE)
        freeze(s, level);
    for (uint32_t i = 0; i < s->found_count; i++) {
        const uint32_t *ids = ids_of(s, s->found[i]);
        uint64_t taken = 0;

        for (uint32_t k = 0; k < s->under_way_count[s->found[i]]; k++)
            if (s->activities[ids[k]].price != NULL)
                taken += s->activities[ids[k]].price->device_share;
        for (uint32_t k = 0; k < s->under_way_count[s->found[i]]; k++)
            if (s->activities[ids[k]].price == NULL)
                s->activities[ids[k]].new_rate =
                    taken > ONE - WORK_LEAST ? WORK_LEAST : (uint32_t)(ONE - taken);
    }
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void apply(struct tutti_sharing *s, uint32_t id, tutti_ps now_ps)
{
    struct tutti_activity *a = &s->activities[id];
    uint64_t done;
    uint64_t left;

    if (a->new_rate == a->rate)
        return;
    done = tutti_muldiv((uint64_t)(now_ps - a->since_ps), a->rate, ONE);
    a->rest_ps = done >= (uint64_t)a->rest_ps ? 0 : a->rest_ps - (tutti_ps)done;
    a->since_ps = now_ps;
    a->rate = a->new_rate;
    left = tutti_muldiv_up((uint64_t)a->rest_ps, ONE, a->rate);
    tutti_queue_put(s->queue, id,
                    tutti_add_ps(now_ps, left > INT64_MAX ? INT64_MAX : (tutti_ps)left));
}

void tutti_sharing_settle(struct tutti_sharing *s, tutti_ps now_ps)
{
    for (uint32_t i = 0; i < s->touched_count; i++) {
        uint32_t c = s->touched[i];

        if (s->class_stamp[c] != UINT32_MAX) /* found with another */
            continue;
        s->stamp++;
        find_component(s, c);
        find_rates(s);
        for (uint32_t k = 0; k < s->found_count; k++)
            for (uint32_t j = 0; j < s->under_way_count[s->found[k]]; j++)
                apply(s, ids_of(s, s->found[k])[j], now_ps);
    }
    s->touched_count = 0;
}
