/* The end of a phase of one ring, in the terms of ring_times.h; see ring_last.h.
 *
 * Of the ends of all ranks only the latest is asked for, so any path may be made longer by hops at
 * its end. So no path need
 *   take a window, if B b_min >= b_max: B more hops weigh as much as the hop and the step back;
 *   step back at its end: what rounds that leaves can be hops;
 *   step back at its beginning, from m to m-k, if ready_m - ready_{m-k} <= k B b_min: the path may
 *   begin at m-k as well, and has k B rounds more;
 *   stay behind a link with a <= b_min: so many hops weigh as much.
 * What is left are paths that begin at some m, hop on to some e, and spend what is left of their T
 * rounds behind one link c that they pass (max-plus algebra: Baccelli, Cohen, Olsder and Quadrat,
 * Synchronization and Linearity, 1992):
 *
 *   ready_m + b_m + ... + b_{e-1} + (T - (e - m)) a_c,  m <= c < e <= m + T
 *
 * For one value v of a_c, with Pre the sums of b: (ready_m - Pre_m + m v) + (Pre_e - e v) + T v.
 * For each e the best m lies in a window that ends with the last c before e that has a_c = v, and
 * begins at e - T; a lap more or less always pays or never does, so d places of it are enough.
 *
 * Price: 3d for each distinct a > b_min (sliding maxima; Lemire 2006). */
#include "sim/fold/ring_last.h"

#include <assert.h>
#include <stdbool.h>

#include "runtime/status.h"
#include "sim/net/net.h"

enum { VALUES_MAX = 64 };

/* Sums over a ring that is rolled out: place u is rank u mod size. */
struct roll {
    const struct tutti_ring *ring;
    tutti_ps value_ps; /* v */
    tutti_ps lap_ps;   /* of all hops */
};

/* A place on the roll. */
struct place {
    uint64_t lap;
    uint32_t rank;
    tutti_ps before_ps; /* sum of the hops before it in its lap */
};

/* Places in a window, in order, each lighter than the one before; a ring buffer. */
struct window {
    tutti_ps *weights;
    tutti_ps *places;
    uint64_t room;
    uint64_t first;
    uint64_t count;
};

static uint64_t later_place(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void step(const struct roll *roll, struct place *place)
{
    place->before_ps += roll->ring->hop_ps[place->rank];
    if (++place->rank == roll->ring->size) {
        place->rank = 0;
        place->lap++;
        place->before_ps = 0;
    }
}

/* Pre - u v at a place. */
static tutti_ps slope_ps(const struct roll *roll, const struct place *place)
{
    tutti_ps u = (tutti_ps)(place->lap * roll->ring->size + place->rank);

    return (tutti_ps)place->lap * roll->lap_ps + place->before_ps - u * roll->value_ps;
}

static uint64_t slot(const struct window *window, uint64_t number)
{
    uint64_t at = window->first + number;

    return at < window->room ? at : at - window->room;
}

static void put(struct window *window, tutti_ps weight, uint64_t place)
{
    while (window->count > 0 && window->weights[slot(window, window->count - 1)] <= weight)
        window->count--;
    assert(window->count < window->room);
    window->weights[slot(window, window->count)] = weight;
    window->places[slot(window, window->count)] = (tutti_ps)place;
    window->count++;
}

static void drop_before(struct window *window, uint64_t place)
{
    while (window->count > 0 && (uint64_t)window->places[window->first] < place) {
        window->first = slot(window, 1);
        window->count--;
    }
}

static struct place place_of(const struct roll *roll, uint64_t u)
{
    struct place place = {.lap = u / roll->ring->size, .rank = (uint32_t)(u % roll->ring->size)};

    for (uint32_t i = 0; i < place.rank; i++)
        place.before_ps += roll->ring->hop_ps[i];
    return place;
}

/* The last place before `u`, which has rank 0, with a_c = v. */
static uint64_t last_stay(const struct roll *roll, uint64_t u)
{
    uint32_t rank = roll->ring->size - 1;

    for (u--; roll->ring->busy_ps[rank] != roll->value_ps; rank--)
        u--;
    return u;
}

/* The heaviest path with stays of one value: ends e in one lap, begins m in the laps before. */
static tutti_ps heaviest(const struct roll *roll, struct window *window)
{
    const struct tutti_ring *ring = roll->ring;
    uint64_t d = ring->size;
    uint64_t rounds = ring->round_count;
    uint64_t lead = (rounds / d + 2) * d;                     /* so that no m is before place 0 */
    bool late = (tutti_ps)d * roll->value_ps >= roll->lap_ps; /* of two laps the later one pays */
    uint64_t stay = last_stay(roll, lead);
    uint64_t next = late ? later_place(stay + 1 - d, lead + 1 - rounds) : lead + 1 - rounds;
    struct place begin = place_of(roll, next);
    struct place end = place_of(roll, lead);
    tutti_ps best = 0;

    for (uint64_t e = lead + 1; e <= lead + d; e++) {
        uint64_t lowest = e - rounds;
        uint64_t highest;

        if (ring->busy_ps[end.rank] == roll->value_ps)
            stay = e - 1;
        step(roll, &end);
        if (late)
            lowest = later_place(lowest, stay + 1 - d);
        highest = !late && stay > lowest + d - 1 ? lowest + d - 1 : stay;
        for (; next <= highest; next++) {
            drop_before(window, lowest);
            put(window, ring->ready_ps[begin.rank] - slope_ps(roll, &begin), next);
            step(roll, &begin);
        }
        drop_before(window, lowest);
        if (window->count > 0)
            best = tutti_later_ps(best, window->weights[window->first] + slope_ps(roll, &end) +
                                            (tutti_ps)rounds * roll->value_ps);
    }
    return best;
}

/* The heaviest path of hops alone. */
static tutti_ps heaviest_of_hops(const struct tutti_ring *ring, tutti_ps lap_ps)
{
    uint32_t end = (uint32_t)(ring->round_count % ring->size);
    tutti_ps path = (tutti_ps)(ring->round_count / ring->size) * lap_ps;
    tutti_ps best = 0;

    for (uint32_t i = 0; i < end; i++)
        path += ring->hop_ps[i];
    for (uint32_t m = 0; m < ring->size; m++) {
        best = tutti_later_ps(best, ring->ready_ps[m] + path);
        path += ring->hop_ps[end] - ring->hop_ps[m];
        end = end + 1 < ring->size ? end + 1 : 0;
    }
    return best;
}

/* The distinct busy times above the shortest hop; false: too many, or a condition does not hold. */
static bool find_values(const struct tutti_ring *ring, tutti_ps *values, uint32_t *ret_count)
{
    tutti_ps hop_min = INT64_MAX;
    tutti_ps hop_max = 0;
    tutti_ps slots = ring->slot_count;
    uint32_t count = 0;

    for (uint32_t i = 0; i < ring->size; i++) {
        hop_min = ring->hop_ps[i] < hop_min ? ring->hop_ps[i] : hop_min;
        hop_max = tutti_later_ps(hop_max, ring->hop_ps[i]);
    }
    for (uint32_t i = 0; i < ring->size; i++) {
        tutti_ps before = ring->ready_ps[(i > 0 ? i : ring->size) - 1];
        uint32_t k = 0;

        if (ring->ready_ps[i] - before > slots * hop_min)
            return false;
        if (ring->busy_ps[i] <= hop_min)
            continue;
        while (k < count && values[k] != ring->busy_ps[i])
            k++;
        if (k == VALUES_MAX)
            return false;
        values[k] = ring->busy_ps[i];
        count += k == count;
    }
    *ret_count = count;
    return slots * hop_min >= hop_max && (ring->reduce_ps == 0 || ring->reduce_count == 0);
}

int tutti_ring_last(struct tutti_ring_context *context, const struct tutti_ring *ring,
                    uint64_t price_max, tutti_ps *ret_ps)
{
    struct window window = {.room = (uint64_t)ring->size + 1};
    struct roll roll = {.ring = ring};
    tutti_ps values[VALUES_MAX];
    uint32_t count = 0;
    uint64_t price;
    tutti_ps best;

    if (!find_values(ring, values, &count))
        return 0;
    price = (1 + 3 * (uint64_t)count) * ring->size;
    if (price >= price_max)
        return 0;
    if (tutti_ring_context_reserve(context, 2 * window.room) < 0)
        return -TUTTI_ENOMEM;
    context->update_count += price;
    window.weights = context->memory;
    window.places = context->memory + window.room;
    for (uint32_t i = 0; i < ring->size; i++)
        roll.lap_ps += ring->hop_ps[i];
    best = heaviest_of_hops(ring, roll.lap_ps);
    for (uint32_t i = 0; i < count; i++) {
        roll.value_ps = values[i];
        window.first = window.count = 0;
        best = tutti_later_ps(best, heaviest(&roll, &window));
    }
    *ret_ps = best;
    return 1;
}
