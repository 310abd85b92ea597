/* Every generator computes what its collective promises, and refuses what it cannot do. */
#include "runtime/coll.h"

#include "runtime/coll/emit.h"
#include "tests/runtime/coll_cases.h"
#include "tests/runtime/interpret.h"

/* ---- a world: buffers with data, and what must come out of them ----------------------------- */

struct world {
    struct play play;
    uint8_t *memory; /* all buffers of all ranks */
};

/* Small numbers, so that float sums are exact and products of minima and maxima differ. */
static int32_t value(uint32_t rank, uint64_t element)
{
    return (int32_t)(tutti_random_hash(7, rank, element, 0) % 1000) - 300;
}

static void store(const struct tutti_contract *contract, uint8_t *buf, uint64_t i, int32_t number)
{
    if (contract->dtype == TUTTI_FLOAT32)
        ((float *)(void *)buf)[i] = (float)number;
    else
        ((int32_t *)(void *)buf)[i] = number;
}

static double load(const struct tutti_contract *contract, const uint8_t *buf, uint64_t i)
{
    if (contract->dtype == TUTTI_FLOAT32)
        return (double)((const float *)(const void *)buf)[i];
    return (double)((const int32_t *)(const void *)buf)[i];
}

static uint64_t padded(uint64_t bytes)
{
    return (bytes + 64) / 64 * 64;
}

static void world_open(struct world *world, const struct tutti_schedule *schedule)
{
    uint32_t n = schedule->rank_count;
    uint64_t bytes[4] = {0, schedule->in_bytes, schedule->out_bytes, schedule->scratch_bytes};
    uint64_t total = 0;
    uint8_t *next;

    for (int b = 0; b < 4; b++)
        total += padded(bytes[b]) * n;
    memset(world, 0, sizeof(*world));
    world->play.schedule = schedule;
    world->memory = malloc((size_t)total);
    memset(world->memory, 0xA5, (size_t)total);
    next = world->memory;
    for (int b = 0; b < 4; b++) {
        world->play.buf[b] = calloc(n, sizeof(uint8_t *));
        for (uint32_t rank = 0; rank < n; rank++, next += padded(bytes[b]))
            world->play.buf[b][rank] = next;
    }
    for (uint32_t rank = 0; rank < n; rank++)
        for (uint64_t i = 0; i < schedule->in_bytes / 4; i++)
            store(&schedule->contract, world->play.buf[TUTTI_BUF_IN][rank], i, value(rank, i));
}

static void world_close(struct world *world)
{
    for (int b = 0; b < 4; b++)
        free(world->play.buf[b]);
    free(world->memory);
}

static double combine(const struct tutti_contract *contract, uint32_t n, uint64_t element)
{
    double result = value(0, element);

    for (uint32_t rank = 1; rank < n; rank++) {
        double next = value(rank, element);

        if (contract->op == TUTTI_MAX)
            result = next > result ? next : result;
        else
            result += next;
    }
    if (contract->op == TUTTI_AVG)
        result = contract->dtype == TUTTI_FLOAT32 ? (double)((float)result / (float)n)
                                                  : (double)((int64_t)result / (int64_t)n);
    return result;
}

/* What rank's out[i] must be; false: anything goes. */
static bool expected(const struct tutti_schedule *schedule, uint32_t rank, uint64_t i, double *ret)
{
    const struct tutti_contract *contract = &schedule->contract;
    uint32_t n = schedule->rank_count;
    uint64_t count = contract->count;

    switch (contract->collective) {
    case TUTTI_ALLREDUCE:
        *ret = combine(contract, n, i);
        return true;
    case TUTTI_REDUCE_TO_ROOT:
        *ret = combine(contract, n, i);
        return rank == contract->root;
    case TUTTI_REDUCESCATTER:
        *ret = combine(contract, n, rank * count + i);
        return true;
    case TUTTI_BROADCAST:
        *ret = value(contract->root, i);
        return true;
    case TUTTI_ALLGATHER:
        *ret = value((uint32_t)(i / count), i % count);
        return true;
    case TUTTI_ALLTOALL:
        *ret = value((uint32_t)(i / count), rank * count + i % count);
        return true;
    case TUTTI_SENDRECV:
        *ret = value((rank + n - 1) % n, i);
        return true;
    default:
        return false;
    }
}

static void world_check(const struct world *world, const char *what)
{
    const struct tutti_schedule *schedule = world->play.schedule;

    for (uint32_t rank = 0; rank < schedule->rank_count; rank++) {
        for (uint64_t i = 0; i < schedule->out_bytes / 4; i++) {
            double want = 0;
            double seen = load(&schedule->contract, world->play.buf[TUTTI_BUF_OUT][rank], i);

            if (expected(schedule, rank, i, &want) && (seen < want || seen > want)) {
                TEST_FAIL("%s: rank %u out[%u] is %g, expected %g", what, rank, (unsigned)i, seen,
                          want);
                return;
            }
        }
    }
}

static void play_one(const struct tutti_algorithm *algorithm,
                     const struct tutti_coll_params *params, const struct tutti_shape *shape)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};
    struct world world;
    char what[256];

    case_text(algorithm->name, params, shape, what, sizeof(what));
    if (algorithm->generate(params, shape, &schedule, &err) != 0) {
        TEST_FAIL("%s: %s", what, err.text);
        return;
    }
    world_open(&world, schedule);
    if (!play_all(&world.play, test_seed))
        TEST_FAIL("%s: stuck", what);
    else
        world_check(&world, what);
    world_close(&world);
    tutti_schedule_free(schedule);
}

static const struct coll_manner manners[] = {
    {0, 0, 0, 0}, {1, 0, 3, 3}, {3, 8, 2, 2}, {2, 4, 1, 1}};

static void play_manners(const struct tutti_algorithm *algorithm, enum tutti_collective collective,
                         uint32_t n)
{
    static const uint64_t counts[] = {0, 1, 5, 64, 131};
    uint32_t orders[2 * CASE_RANKS_MAX];
    struct tutti_shape shape = case_shape(n, orders);

    for (size_t m = 0; m < sizeof(manners) / sizeof(manners[0]); m++) {
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            struct tutti_coll_params params = {
                .collective = collective,
                .dtype = (m + n) % 2 == 0 ? TUTTI_INT32 : TUTTI_FLOAT32,
                .op = (enum tutti_op[]){TUTTI_SUM, TUTTI_MAX, TUTTI_AVG}[(c + n) % 3],
                .root = (uint32_t)(m + c) % n,
                .count = collective == TUTTI_BARRIER ? 0 : counts[c],
                .channel_count = manners[m].channel_count,
                .chunk_bytes = manners[m].chunk_bytes,
                .slice_count = manners[m].slice_count,
                .slot_count = manners[m].slot_count};

            if (!test_full && (n > 9 || c == 2) && (c + 3 * n + m) % 7 != 0)
                continue;
            if (test_takes())
                play_one(algorithm, &params, &shape);
        }
    }
}

TEST(every_algorithm_computes_what_it_promises)
{
    size_t count;
    const struct tutti_algorithm *table = tutti_algorithms(&count);

    for (size_t i = 0; i < count; i++)
        for (int c = 0; c < TUTTI_CUSTOM; c++)
            for (uint32_t n = 1; n <= 33; n++)
                if ((table[i].collectives & (1u << c)) != 0)
                    play_manners(&table[i], (enum tutti_collective)c, n);
}
