/* The times of one ring, in one of two ways; see ring_times.h. A third is in ring_last.c.
 *
 * Message by message: T * d updates, always right.
 *
 * By hops, where every path worth taking passes every link, or all links are alike. Then a path
 * from m with s rounds that are not hops (stays and windows) hops T - s times, ends at
 * j = m + T - s, and the best use of the s rounds is the same for all:
 *
 *   C_j(T-1) = max over s of ready_m + b_m + ... + b_{j-1} (T - s of them) + W(s),
 *   W(s) = s a_max, or floor(s/B) b_max + (s mod B) a_max if b_max > B a_max.
 *
 * Which s matter: let w = max(a_max, b_max/B) >= W(s)/s. A path of s other rounds falls behind the
 * one that hops T times to the same end by s (b_min - w) at least, so it must have begun later by
 * as much: s <= (ready_m - ready_min) / (b_min - w). The path passes every link if T - s >= d.
 * Steps back without a hop over the same link end further back than they began: they count as
 * s > T.
 *
 * If all links are alike any path of one hop or more passes the right one, and, as W(s+1) <= W(s) +
 * b, of the paths from m to j the one with most hops is the heaviest: s < d is enough, with T - s
 * >= 1. Where T = d - 1 no path hops from j to j; then j waits for itself: windows over the next
 * link, of which the last step back is followed by no hop, so that T - 1 rounds are left.
 *
 * Price: d and the sum of all (1 + s). A source m is passed over if one further on, m + k, that
 * begins as late as ready_m + b_m + ... + b_{m+k-1} - k a_max or later makes up for every path from
 * m, with k more stays. */
#include "sim/fold/ring_times.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/status.h"
#include "runtime/wide.h"
#include "sim/fold/ring_last.h"
#include "sim/net/net.h"

enum { MEMORY_MAX = 1 << 25 }; /* times kept, of the ranks of a ring message by message */

/* The ring as a whole. */
struct bounds {
    tutti_ps busy_max;
    tutti_ps hop_min;
    tutti_ps hop_max;
    tutti_ps hop_sum;
    tutti_ps ready_min;
    tutti_ps ready_max;
};

static tutti_ps earlier(tutti_ps a, tutti_ps b)
{
    return a < b ? a : b;
}

static struct bounds bounds_of(const struct tutti_ring *ring)
{
    struct bounds bounds = {.hop_min = INT64_MAX, .ready_min = INT64_MAX};

    for (uint32_t i = 0; i < ring->size; i++) {
        bounds.busy_max = tutti_later_ps(bounds.busy_max, ring->busy_ps[i]);
        bounds.hop_min = earlier(bounds.hop_min, ring->hop_ps[i]);
        bounds.hop_max = tutti_later_ps(bounds.hop_max, ring->hop_ps[i]);
        bounds.hop_sum += ring->hop_ps[i];
        bounds.ready_min = earlier(bounds.ready_min, ring->ready_ps[i]);
        bounds.ready_max = tutti_later_ps(bounds.ready_max, ring->ready_ps[i]);
    }
    return bounds;
}

int tutti_ring_context_reserve(struct tutti_ring_context *context, uint64_t count)
{
    tutti_ps *memory;

    if (count <= context->memory_count)
        return 0;
    memory = realloc(context->memory, tutti_size(tutti_times(count, sizeof(*memory))));
    if (memory == NULL)
        return -TUTTI_ENOMEM;
    context->memory = memory;
    context->memory_count = count;
    return 0;
}

/* ---- message by message ---------------------------------------------------------------------- */

/* One round of all ranks. `opened` is when slots were freed that SENDs need now, or NULL. `done`
 * may be where `opened` is: of a rank it is read before the rank before it is written. */
static void play_round(const struct tutti_ring *ring, const tutti_ps *before,
                       const tutti_ps *opened, tutti_ps *start, tutti_ps *done, tutti_ps reduce_ps)
{
    uint32_t d = ring->size;
    tutti_ps first_opened = opened != NULL ? opened[0] : 0;
    tutti_ps arrived = 0; /* at the rank that comes next */

    for (uint32_t i = 0; i < d; i++) {
        tutti_ps posted = before[i];

        if (opened != NULL)
            posted = tutti_later_ps(posted, i + 1 < d ? opened[i + 1] : first_opened);
        start[i] = tutti_later_ps(posted, start[i] + ring->busy_ps[i]);
        done[i] = tutti_later_ps(posted, arrived) + reduce_ps;
        arrived = start[i] + ring->hop_ps[i];
    }
    done[0] = tutti_later_ps(done[0], arrived + reduce_ps);
}

/* Keeps the completions of as many rounds as there are slots, and of one at least. */
static int play_messages(struct tutti_ring_context *context, const struct tutti_ring *ring,
                         struct tutti_err *err)
{
    uint64_t d = ring->size;
    uint64_t kept = ring->slot_count < ring->round_count ? ring->slot_count : 2;
    const tutti_ps *before = ring->ready_ps;
    tutti_ps *start;

    kept = kept < 2 ? 2 : kept; /* a round does not write over the one before */
    if ((kept + 1) * d > MEMORY_MAX)
        return tutti_fail(err, TUTTI_ELACK,
                          "'%" PRIu32 "' slots of a connection are too many for a ring of %" PRIu32,
                          ring->slot_count, ring->size);
    if (tutti_ring_context_reserve(context, (kept + 1) * d) < 0)
        return tutti_nomem(err);
    start = context->memory + kept * d;
    for (uint64_t i = 0; i < d; i++)
        start[i] = ring->ready_ps[i] - ring->busy_ps[i];
    for (uint64_t t = 0; t < ring->round_count; t++) {
        tutti_ps *done = context->memory + t % kept * d;
        const tutti_ps *opened = NULL;

        if (t >= ring->slot_count)
            opened = context->memory + (t - ring->slot_count) % kept * d;
        play_round(ring, before, opened, start, done, t < ring->reduce_count ? ring->reduce_ps : 0);
        before = done;
    }
    memcpy(ring->finish_ps, before, (size_t)d * sizeof(*before));
    return 0;
}

/* ---- by hops --------------------------------------------------------------------------------- */

struct hops {
    const struct tutti_ring *ring;
    struct bounds bounds;
    uint64_t rest_max;  /* most rounds without a hop that may matter */
    tutti_ps gain;      /* B (b_min - w); not positive: any number of them may matter */
    tutti_ps laps_ps;   /* T hops are so many whole laps ... */
    uint32_t past_laps; /* ... and so many hops */
};

/* W(s). */
static tutti_ps rest_ps(const struct hops *hops, uint64_t rounds)
{
    uint64_t slots = hops->ring->slot_count;
    tutti_ps busy = hops->bounds.busy_max;

    if (hops->bounds.hop_max / (tutti_ps)slots < busy)
        return (tutti_ps)rounds * busy;
    return (tutti_ps)(rounds / slots) * hops->bounds.hop_max + (tutti_ps)(rounds % slots) * busy;
}

/* How many rounds without a hop may matter on paths from rank m. */
static uint64_t rests_of(const struct hops *hops, uint32_t m)
{
    uint64_t lead = (uint64_t)(hops->ring->ready_ps[m] - hops->bounds.ready_min);
    uint64_t rests;

    if (hops->gain <= 0)
        return lead == 0 ? 0 : hops->rest_max;
    rests = lead * hops->ring->slot_count / (uint64_t)hops->gain;
    return rests < hops->rest_max ? rests : hops->rest_max;
}

/* Whether the ring can be gone through by hops. */
static bool goes_by_hops(const struct tutti_ring *ring, struct hops *hops)
{
    const struct bounds *bounds = &hops->bounds;
    tutti_ps slots = ring->slot_count;
    tutti_ps waits = tutti_later_ps(slots * bounds->busy_max, bounds->hop_max);
    uint64_t lead = (uint64_t)(bounds->ready_max - bounds->ready_min);

    hops->gain = slots * bounds->hop_min - waits;
    hops->laps_ps = (tutti_ps)(ring->round_count / ring->size) * bounds->hop_sum;
    hops->past_laps = (uint32_t)(ring->round_count % ring->size);
    hops->rest_max = (ring->round_count < ring->size ? ring->round_count : ring->size) - 1;
    if (ring->reduce_ps > 0 && ring->reduce_count > 0)
        return false;
    if (ring->links_alike)
        return true;
    hops->rest_max = UINT64_MAX;
    return ring->round_count >= ring->size && hops->gain > 0 &&
           lead * (uint64_t)slots / (uint64_t)hops->gain <= ring->round_count - ring->size;
}

/* Marks the sources that matter with the number of rounds without a hop, others with -1; returns
 * the price. Goes round against the hops, twice, so that all have been passed. */
static uint64_t find_sources(const struct hops *hops, tutti_ps *rests)
{
    const struct tutti_ring *ring = hops->ring;
    bool skips = ring->round_count >= ring->size;
    uint32_t d = ring->size;
    tutti_ps best = INT64_MIN / 2; /* a source further on, as it would have to begin here */
    uint64_t price = 0;

    for (uint32_t i = 2 * d; i-- > 0;) {
        uint32_t m = i < d ? i : i - d;

        best += hops->bounds.busy_max - ring->hop_ps[m];
        if (i < d) {
            bool matters = !skips || best <= ring->ready_ps[m];

            rests[m] = matters ? (tutti_ps)rests_of(hops, m) : -1;
            price += 1 + (uint64_t)(rests[m] + 1);
        }
        best = tutti_later_ps(best, ring->ready_ps[m]);
    }
    return price;
}

/* Goes all paths from the sources. A path from m ends further on the fewer its rests: with none at
 * m + T, and before that link by link. */
static void go_paths(const struct hops *hops, const tutti_ps *rests)
{
    const struct tutti_ring *ring = hops->ring;
    uint32_t d = ring->size;
    uint32_t end = hops->past_laps;
    tutti_ps part = 0; /* of the hops past whole laps */

    for (uint32_t i = 0; i < end; i++)
        part += ring->hop_ps[i];
    for (uint32_t i = 0; i < d; i++)
        ring->finish_ps[i] = INT64_MIN;
    for (uint32_t m = 0; m < d; m++) {
        tutti_ps path = ring->ready_ps[m] + hops->laps_ps + part;
        uint32_t j = end;

        for (tutti_ps s = 0; s <= rests[m]; s++) {
            tutti_ps at = path + rest_ps(hops, (uint64_t)s);

            ring->finish_ps[j] = tutti_later_ps(ring->finish_ps[j], at);
            j = (j > 0 ? j : d) - 1;
            path -= ring->hop_ps[j];
        }
        part += ring->hop_ps[end] - ring->hop_ps[m];
        end = end + 1 < d ? end + 1 : 0;
    }
}

/* Where T = d - 1, what a rank waits for itself. */
static void go_back_home(const struct hops *hops)
{
    const struct tutti_ring *ring = hops->ring;
    uint64_t rounds = ring->round_count - 1;
    tutti_ps wait = 0;

    if (ring->round_count >= ring->size)
        return;
    if (rounds >= ring->slot_count) {
        uint64_t rest = rounds - ring->slot_count;

        wait = hops->bounds.hop_max + rest_ps(hops, rest);
    }
    for (uint32_t i = 0; i < ring->size; i++)
        ring->finish_ps[i] = tutti_later_ps(ring->finish_ps[i], ring->ready_ps[i] + wait);
}

/* ---- the choice ------------------------------------------------------------------------------ */

tutti_ps tutti_ring_alike_ps(uint64_t round_count, tutti_ps hop_ps, uint64_t reduce_count,
                             tutti_ps reduce_ps)
{
    return (tutti_ps)round_count * hop_ps + (tutti_ps)reduce_count * reduce_ps;
}

/* 1: done; 0: not by hops, or not at this price. */
static int run_by_hops(struct tutti_ring_context *context, const struct tutti_ring *ring,
                       uint64_t price_max)
{
    struct hops hops = {.ring = ring, .bounds = bounds_of(ring)};
    uint64_t price;

    if (!goes_by_hops(ring, &hops))
        return 0;
    if (tutti_ring_context_reserve(context, ring->size) < 0)
        return -TUTTI_ENOMEM;
    price = find_sources(&hops, context->memory);
    if (price >= price_max)
        return 0;
    context->update_count += price;
    go_paths(&hops, context->memory);
    go_back_home(&hops);
    return 1;
}

/* Likewise, for the end of the whole ring. */
static int run_to_last(struct tutti_ring_context *context, const struct tutti_ring *ring,
                       uint64_t price_max)
{
    tutti_ps last_ps;
    int status = ring->only_last ? tutti_ring_last(context, ring, price_max, &last_ps) : 0;

    for (uint32_t i = 0; i < ring->size && status == 1; i++)
        ring->finish_ps[i] = last_ps;
    return status;
}

int tutti_ring_run(struct tutti_ring_context *context, const struct tutti_ring *ring,
                   uint64_t update_count_max, struct tutti_err *err)
{
    uint64_t left =
        update_count_max > context->update_count ? update_count_max - context->update_count : 0;
    uint64_t messages = tutti_times(ring->round_count, ring->size);
    uint64_t price_max = messages < left ? messages : left;
    int status;

    assert(ring->size >= 2);
    assert(ring->round_count + 1 >= ring->size);
    status = run_by_hops(context, ring, price_max);
    if (status == 0)
        status = run_to_last(context, ring, price_max);
    if (status != 0)
        return status < 0 ? tutti_nomem(err) : 0;
    if (messages > left)
        return tutti_fail(err, TUTTI_ELACK,
                          "a ring of %" PRIu32 " whose links or starts differ too much to be gone "
                          "through by hops has too many messages (%" PRIu64 " in all)",
                          ring->size, update_count_max);
    context->update_count += (uint64_t)messages;
    return play_messages(context, ring, err);
}

void tutti_ring_context_done(struct tutti_ring_context *context)
{
    free(context->memory);
    *context = (struct tutti_ring_context){.memory = NULL};
}
