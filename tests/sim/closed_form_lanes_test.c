/* The simulator with `alphabeta` equals the closed forms for several channels, chunks and slices,
 * to the picosecond, where every rank does the same on one switch and its messages share a link.
 *
 * a is the latency of a message, b the time of one message on the wire, n the ranks, C the
 * channels, s the slices, P the pieces one after another. */
#include <assert.h>

#include "tests/sim/closed_form.h"

struct world {
    uint32_t n;
    struct cost cost;
    struct tutti_topo *topo;
};

static struct world world_open(uint32_t n, unsigned number)
{
    struct world world = {.n = n, .cost = cost_number(number % COST_COUNT, TUTTI_HOP_NVLINK)};

    world.topo = machine_switch(n, &world.cost);
    return world;
}

static void world_close(struct world *world)
{
    tutti_topo_free(world->topo);
}

/* What is asked, and the answer without the launch. */
static void question(const struct world *world, const char *algorithm,
                     struct tutti_coll_params params, tutti_ps time)
{
    struct tutti_shape shape = tutti_shape_flat(world->n);

    params.dtype = TUTTI_FLOAT32;
    params.chunk_bytes = params.chunk_bytes == 0 ? GIANT_CHUNK : params.chunk_bytes;
    expect(world->topo, algorithm, &params, &shape, &world->cost, launch(&world->cost) + time);
}

/* ---- rings ----------------------------------------------------------------------------------- */

/* K = C s messages go round in h hops each, all equally long. The link sends K of them in the time
 * K b; the first is back after a + b. Whatever takes longer is the beat: the K-th has left after
 * K b, has arrived a later, and has h-1 beats to go. */
static tutti_ps beats(uint64_t lanes, uint64_t hops, tutti_ps a, tutti_ps b)
{
    tutti_ps full = (tutti_ps)lanes * b;

    return full + a + (tutti_ps)(hops - 1) * later(a + b, full);
}

static const struct {
    const char *name;
    enum tutti_collective collective;
    uint32_t shares_per_channel;
} rings[] = {
    {"ring", TUTTI_ALLREDUCE, 1},
    {"ring-bidirectional", TUTTI_ALLREDUCE, 2}, /* a switch has one link for both ways */
    {"ring", TUTTI_REDUCESCATTER, 1},
    {"ring", TUTTI_ALLGATHER, 1},
    {"ring-bidirectional", TUTTI_REDUCESCATTER, 2},
    {"ring-bidirectional", TUTTI_ALLGATHER, 2},
};

enum { RING_COUNT = sizeof(rings) / sizeof(rings[0]) };

/* Elements of a message `each`. All-reduce: a lane cuts its share into P pieces of n chunks of s
 * slices; the others cut the block of a rank into P pieces of s slices. */
static void ask_ring(const struct world *world, size_t ring, struct tutti_coll_params params,
                     uint64_t pieces, uint64_t each)
{
    bool allreduce = rings[ring].collective == TUTTI_ALLREDUCE;
    uint64_t chunk = each * params.slice_count;
    uint64_t shares = (uint64_t)params.channel_count * rings[ring].shares_per_channel;
    uint64_t hops = (allreduce ? 2 : 1) * (world->n - UINT64_C(1));
    tutti_ps a = alpha(&world->cost);
    tutti_ps b = beta(&world->cost, each);
    tutti_ps time;

    params.collective = rings[ring].collective;
    params.count = chunk * pieces * shares * (allreduce ? world->n : 1);
    params.chunk_bytes = chunk * ELEMENT_BYTES;
    /* One slice: piece follows piece without a break. One lane: a piece begins when all slices of
     * the one before have come. */
    time = params.slice_count == 1 ? beats(shares, pieces * hops, a, b)
                                   : (tutti_ps)pieces * beats(params.slice_count, hops, a, b);
    if (params.slice_count > 1 && shares > 1) {
        assert(pieces == 1);
        time = beats(shares * params.slice_count, hops, a, b);
    }
    question(world, rings[ring].name, params, time);
}

TEST(rings_of_several_channels_and_slices)
{
    for (uint32_t n = 2; n <= CASE_RANKS_MAX; n++) {
        for (unsigned i = 0; i < 12; i++) {
            struct world world = world_open(n, i + 3 * n);

            for (size_t ring = 0; ring < RING_COUNT; ring++)
                if (test_full || (i + n + ring) % 12 == 0)
                    ask_ring(&world, ring,
                             (struct tutti_coll_params){.channel_count = 1 + i % 4,
                                                        .slice_count = 1 + i / 4},
                             1, i % 2 == 0 ? 1000 : 7);
            world_close(&world);
        }
    }
}

TEST(rings_of_several_pieces)
{
    for (uint32_t n = 2; n <= CASE_RANKS_MAX; n++) {
        for (unsigned i = 0; i < 6; i++) {
            struct world world = world_open(n, i + 5 * n);
            struct tutti_coll_params params = {.channel_count = 1 + i % 3, .slice_count = 1};

            if (i >= 3) /* slices instead, for those with one lane */
                params = (struct tutti_coll_params){.channel_count = 1, .slice_count = i - 1};
            for (size_t ring = 0; ring < RING_COUNT; ring++)
                if ((i < 3 || rings[ring].shares_per_channel == 1) &&
                    (test_full || (i + n + ring) % 5 == 0))
                    ask_ring(&world, ring, params, 2 + i % 2, 300);
            world_close(&world);
        }
    }
}

/* ---- exchanges: send all slices, then receive all -------------------------------------------- */

/* Time of a message of `elements` cut into s slices, all of them one behind the other. */
static tutti_ps sliced(const struct cost *cost, uint64_t elements, uint32_t s)
{
    tutti_ps sum = 0;

    for (uint32_t k = 0; k < s; k++)
        sum += beta(cost, part(elements, k, s));
    return sum;
}

/* Recursive doubling of n = 2^L: sum over the pieces of L (a + all slices). Any count. */
static void ask_doubling(const struct world *world, uint64_t count, uint64_t chunk, uint32_t s)
{
    uint64_t pieces = up(count, chunk);
    tutti_ps time = 0;

    for (uint64_t p = 0; p < pieces; p++)
        time += log_up(world->n) *
                (alpha(&world->cost) + sliced(&world->cost, part(count, p, pieces), s));
    question(world, "recursive-doubling",
             (struct tutti_coll_params){.collective = TUTTI_ALLREDUCE,
                                        .count = count,
                                        .chunk_bytes = chunk * ELEMENT_BYTES,
                                        .slice_count = s},
             time);
}

/* Rabenseifner, n = 2^L, a piece of n chunks: P times 2 sum over k of (a + slices of n chunk /
 * 2^k). */
static void ask_rabenseifner(const struct world *world, uint64_t pieces, uint64_t chunk, uint32_t s)
{
    tutti_ps time = 0;

    for (uint32_t k = 1; k <= log_up(world->n); k++)
        time += 2 * (alpha(&world->cost) + sliced(&world->cost, world->n * chunk >> k, s));
    question(world, "halving-doubling",
             (struct tutti_coll_params){.collective = TUTTI_ALLREDUCE,
                                        .count = pieces * world->n * chunk,
                                        .chunk_bytes = chunk * ELEMENT_BYTES,
                                        .slice_count = s},
             (tutti_ps)pieces * time);
}

/* Blocks in one message of round k, 0 at the end. */
static uint64_t bruck_blocks(uint32_t n, uint32_t k)
{
    uint64_t known = UINT64_C(1) << k;

    return known >= n ? 0 : known < n - known ? known : n - known;
}

static uint64_t halving_blocks(uint32_t n, uint32_t k)
{
    return n >> (k + 1);
}

static uint64_t forward_blocks(uint32_t n, uint32_t k)
{
    return n - 1 - k;
}

static const struct {
    const char *name;
    enum tutti_collective collective;
    bool powers_only;
    uint64_t (*blocks)(uint32_t n, uint32_t round);
} exchanges[] = {
    {"recursive-doubling", TUTTI_ALLGATHER, false, bruck_blocks},
    {"halving", TUTTI_REDUCESCATTER, true, halving_blocks},
    {"ring", TUTTI_ALLTOALL, false, forward_blocks},
};

enum { EXCHANGE_COUNT = sizeof(exchanges) / sizeof(exchanges[0]) };

/* One channel: sum over the rounds of (a + all slices). */
static void ask_exchange(const struct world *world, size_t e, uint64_t count, uint32_t s)
{
    tutti_ps time = 0;

    for (uint32_t k = 0; exchanges[e].blocks(world->n, k) > 0; k++)
        time +=
            alpha(&world->cost) + sliced(&world->cost, exchanges[e].blocks(world->n, k) * count, s);
    question(world, exchanges[e].name,
             (struct tutti_coll_params){
                 .collective = exchanges[e].collective, .count = count, .slice_count = s},
             time);
}

/* C channels whose shares differ, max-plus over one rank that stands for all: in each round lane
 * after lane queues at the link, and may begin the next round a after its message has left. */
static void ask_channels(const struct world *world, size_t e, uint64_t count, uint32_t channels)
{
    tutti_ps ready[8] = {0};
    tutti_ps link_free = 0;
    tutti_ps latest = 0;

    for (uint32_t k = 0; exchanges[e].blocks(world->n, k) > 0; k++) {
        for (uint32_t c = 0; c < channels; c++) {
            uint64_t share = part(count, c, channels);

            link_free = later(link_free, ready[c]) +
                        beta(&world->cost, exchanges[e].blocks(world->n, k) * share);
            ready[c] = link_free + alpha(&world->cost);
            latest = later(latest, ready[c]);
        }
    }
    question(world, exchanges[e].name,
             (struct tutti_coll_params){
                 .collective = exchanges[e].collective, .count = count, .channel_count = channels},
             latest);
}

TEST(exchanges_in_slices_and_pieces)
{
    for (uint32_t n = 2; n <= CASE_RANKS_MAX; n++) {
        for (uint32_t s = 1; s <= 5; s += 2) {
            struct world world = world_open(n, n + s);

            for (size_t e = 0; e < EXCHANGE_COUNT; e++)
                if (power_of_two(n) || !exchanges[e].powers_only)
                    ask_exchange(&world, e, 1001, s);
            if (power_of_two(n)) {
                ask_doubling(&world, 100003, 40000, s);
                ask_doubling(&world, 7, 3, s);
                ask_rabenseifner(&world, 3, 1000, s);
            }
            world_close(&world);
        }
    }
}

TEST(exchanges_on_several_channels)
{
    for (uint32_t n = 2; n <= CASE_RANKS_MAX; n++) {
        for (uint32_t channels = 2; channels <= 8; channels += 3) {
            struct world world = world_open(n, n + channels);

            for (size_t e = 0; e < EXCHANGE_COUNT; e++)
                if (power_of_two(n) || !exchanges[e].powers_only)
                    ask_channels(&world, e, 1003, channels);
            world_close(&world);
        }
    }
}

/* Recursive doubling on C channels, C b(c/C) in all: the beats of C lanes in L hops. */
TEST(doubling_on_several_channels)
{
    for (uint32_t n = 2; n <= CASE_RANKS_MAX; n *= 2) {
        for (uint32_t channels = 2; channels <= 6; channels++) {
            struct world world = world_open(n, n + channels);

            question(&world, "recursive-doubling",
                     (struct tutti_coll_params){.collective = TUTTI_ALLREDUCE,
                                                .count = 600 * channels,
                                                .channel_count = channels},
                     beats(channels, log_up(n), alpha(&world.cost), beta(&world.cost, 600)));
            world_close(&world);
        }
    }
}

/* ---- everybody with everybody ---------------------------------------------------------------- */

static const struct {
    const char *name;
    enum tutti_collective collective;
} pairs[] = {
    {"one-shot", TUTTI_ALLREDUCE},
    {"direct", TUTTI_REDUCESCATTER},
    {"direct", TUTTI_ALLGATHER},
    {"direct", TUTTI_ALLTOALL},
};

/* All messages leave behind each other, the last has latency: a + (n-1) times all slices of all
 * channels. Any count. */
static void ask_pairs(const struct world *world, size_t pair, uint64_t count, uint32_t channels,
                      uint32_t s)
{
    tutti_ps time = alpha(&world->cost);

    for (uint32_t c = 0; c < channels; c++)
        time += (world->n - 1) * sliced(&world->cost, part(count, c, channels), s);
    question(world, pairs[pair].name,
             (struct tutti_coll_params){.collective = pairs[pair].collective,
                                        .count = count,
                                        .channel_count = channels,
                                        .slice_count = s},
             time);
}

/* One channel: the next piece begins when all of the one before has come. */
static void ask_pairs_in_pieces(const struct world *world, size_t pair, uint64_t count,
                                uint64_t chunk, uint32_t s)
{
    uint64_t pieces = up(count, chunk);
    tutti_ps time = 0;

    for (uint64_t p = 0; p < pieces; p++)
        time +=
            alpha(&world->cost) + (world->n - 1) * sliced(&world->cost, part(count, p, pieces), s);
    question(world, pairs[pair].name,
             (struct tutti_coll_params){.collective = pairs[pair].collective,
                                        .count = count,
                                        .chunk_bytes = chunk * ELEMENT_BYTES,
                                        .slice_count = s},
             time);
}

/* Two-shot, for pieces of n s m elements: P times two rounds of n-1 times s messages. */
static void ask_two_shot(const struct world *world, uint64_t pieces, uint64_t each, uint32_t s)
{
    question(world, "two-shot",
             (struct tutti_coll_params){.collective = TUTTI_ALLREDUCE,
                                        .count = pieces * world->n * each * s,
                                        .chunk_bytes = each * s * ELEMENT_BYTES,
                                        .slice_count = s},
             (tutti_ps)pieces * 2 *
                 (alpha(&world->cost) + (world->n - 1) * s * beta(&world->cost, each)));
}

TEST(all_pairs_in_channels_slices_and_pieces)
{
    for (uint32_t n = 2; n <= CASE_RANKS_MAX; n++) {
        for (unsigned i = 0; i < 3; i++) {
            struct world world = world_open(n, n + i);

            for (size_t pair = 0; pair < sizeof(pairs) / sizeof(pairs[0]); pair++) {
                if (!test_full && (i + n + pair) % 3 != 0)
                    continue;
                ask_pairs(&world, pair, 1001, 1 + i, 3 - i);
                ask_pairs_in_pieces(&world, pair, 1001, 400, 1 + i);
            }
            ask_two_shot(&world, 1 + i, 100, 3 - i);
            world_close(&world);
        }
    }
}
