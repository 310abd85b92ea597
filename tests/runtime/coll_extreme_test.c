/* Generators meet parameters that nobody means: each is refused with a message or served within its
 * buffers, whatever the number of ranks, elements, channels, chunks, slices and slots. */
#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/runtime/coll_cases.h"

static uint64_t below(struct tutti_random *random, uint64_t end)
{
    return tutti_random_below(random, end);
}

/* Any magnitude is as likely as any other. */
static uint64_t magnitude(struct tutti_random *random, uint32_t bits_max)
{
    uint64_t bits = below(random, bits_max + UINT64_C(1));

    return bits == 0 ? 0 : (UINT64_C(1) << (bits - 1)) + below(random, UINT64_C(1) << (bits - 1));
}

static uint32_t random_ranks(struct tutti_random *random)
{
    static const uint32_t corners[] = {1, 2, 3, 64, 65535, 65536, 1u << 31, UINT32_MAX};

    if (below(random, 3) == 0)
        return corners[below(random, sizeof(corners) / sizeof(corners[0]))];
    return 1 + (uint32_t)magnitude(random, below(random, 2) == 0 ? 7 : 31);
}

/* Levels and dims that often multiply out to n, and sometimes do not. */
static struct tutti_shape random_shape(struct tutti_random *random)
{
    struct tutti_shape shape = tutti_shape_flat(random_ranks(random));
    uint32_t rest = shape.rank_count;

    for (uint32_t f = 2; f < 8 && shape.level_count < 6; f++)
        for (; rest % f == 0 && shape.level_count < 6; rest /= f)
            case_add(&shape, f);
    if (rest > 1)
        case_add(&shape, rest);
    if (below(random, 8) == 0)
        case_add(&shape, (uint32_t)below(random, 5));
    if (below(random, 8) == 0)
        shape.level_count = shape.dim_count = 0;
    return shape;
}

/* Mostly one that the algorithm serves. */
static enum tutti_collective random_collective(struct tutti_random *random, uint32_t served)
{
    uint32_t collective = (uint32_t)below(random, TUTTI_CUSTOM);

    while ((served & 1u << collective) == 0 && below(random, 100) > 0)
        collective = (collective + 1) % TUTTI_CUSTOM;
    return (enum tutti_collective)collective;
}

static struct tutti_coll_params random_params(struct tutti_random *random, uint32_t served,
                                              uint32_t rank_count)
{
    struct tutti_coll_params params = {
        .collective = random_collective(random, served),
        .dtype = (enum tutti_dtype)below(random, TUTTI_DTYPE_COUNT),
        .op = (enum tutti_op)below(random, TUTTI_OP_COUNT),
        .root = (uint32_t)below(random, rank_count + (below(random, 9) == 0 ? UINT64_C(1) : 0)),
        .count = magnitude(random, below(random, 2) == 0 ? 64 : 30),
    };

    if (params.collective == TUTTI_BARRIER && below(random, 9) > 0)
        params.count = 0;
    if (below(random, 2) == 0)
        params.channel_count = (uint32_t)magnitude(random, below(random, 4) == 0 ? 32 : 6);
    if (below(random, 2) == 0)
        params.chunk_bytes = magnitude(random, 64);
    if (below(random, 2) == 0) {
        params.slice_count = (uint32_t)magnitude(random, below(random, 4) == 0 ? 32 : 3);
        params.slot_count = (uint32_t)magnitude(random, below(random, 4) == 0 ? 32 : 8);
    }
    return params;
}

static void within(const struct tutti_schedule *schedule, unsigned buf, uint64_t offset,
                   uint64_t bytes, const char *what)
{
    const uint64_t sizes[] = {0, schedule->in_bytes, schedule->out_bytes, schedule->scratch_bytes};

    if (buf == TUTTI_BUF_NONE || buf > TUTTI_BUF_SCRATCH || offset > sizes[buf] ||
        bytes > sizes[buf] - offset)
        TEST_FAIL("%s: bytes %" PRIu64 " + %" PRIu64 " of buffer %u", what, offset, bytes, buf);
}

static void look_at_step(const struct tutti_schedule *schedule, uint32_t rank,
                         const struct tutti_step *step, const char *what)
{
    bool message = step->kind == TUTTI_SEND || step->kind == TUTTI_RECV;

    if (step->kind != TUTTI_RECV)
        within(schedule, step->src_buf, step->src_offset, step->bytes, what);
    if (step->kind != TUTTI_SEND)
        within(schedule, step->dst_buf, step->dst_offset, step->bytes, what);
    if (step->kind == TUTTI_REDUCE)
        within(schedule, step->acc_buf, step->acc_offset, step->bytes, what);
    if (step->kind < TUTTI_SEND || step->kind > TUTTI_COPY)
        TEST_FAIL("%s: a step of kind %u", what, step->kind);
    if (message && (step->peer == rank || step->peer >= schedule->rank_count))
        TEST_FAIL("%s: rank %u and rank %u", what, rank, step->peer);
    if (step->bytes % tutti_dtype_bytes(schedule->contract.dtype) != 0)
        TEST_FAIL("%s: %" PRIu64 " bytes are not whole elements", what, step->bytes);
    if ((step->flags & TUTTI_STEP_DEP) != 0 && step->dep_lane >= schedule->lane_count)
        TEST_FAIL("%s: depends on lane %u", what, step->dep_lane);
}

/* A few rounds of a few ranks, the first and last among them. */
static void look_at(const struct tutti_schedule *schedule, struct tutti_random *random,
                    const char *what)
{
    for (uint32_t i = 0; i < 24; i++) {
        uint32_t rank = i == 0   ? 0
                        : i == 1 ? schedule->rank_count - 1
                                 : (uint32_t)below(random, schedule->rank_count);
        uint32_t lane =
            i < 2 ? schedule->lane_count - 1 : (uint32_t)below(random, schedule->lane_count);
        uint64_t rounds = schedule->ops->round_count(schedule, rank, lane);
        struct tutti_round round = {.step_count = 0};
        uint64_t number;

        if (rounds == 0)
            continue;
        number = i % 3 == 0 ? rounds - 1 : i % 3 == 1 ? below(random, rounds) : 0;
        schedule->ops->emit(schedule, rank, lane, number, &round);
        if (round.step_count > TUTTI_ROUND_STEPS_MAX)
            TEST_FAIL("%s: %u steps in a round", what, round.step_count);
        for (uint32_t s = 0; s < round.step_count; s++)
            look_at_step(schedule, rank, &round.step[s], what);
    }
}

TEST(extreme_parameters_are_refused_or_served)
{
    uint64_t rounds = test_full ? 2000000 : 100000;
    uint64_t served = 0;
    uint64_t refused = 0;
    size_t count;
    const struct tutti_algorithm *table = tutti_algorithms(&count);

    for (uint64_t i = 0; i < rounds && test_failures < 10; i++) {
        struct tutti_random random;
        struct tutti_schedule *schedule = NULL;
        struct tutti_err err = {""};
        struct tutti_shape shape;
        struct tutti_coll_params params;
        const char *name = table[i % count].name;
        char what[256];
        int status;

        tutti_random_seed(&random, tutti_random_hash(test_seed, i, 0, 0));
        shape = random_shape(&random);
        params = random_params(&random, table[i % count].collectives, shape.rank_count);
        case_text(name, &params, &shape, what, sizeof(what));
        status = tutti_coll_generate(name, &params, &shape, &schedule, &err);
        if (status == 0)
            look_at(schedule, &random, what);
        else if (status != -TUTTI_EINVAL || err.text[0] == '\0' || schedule != NULL)
            TEST_FAIL("%s: status %d, '%s'", what, status, err.text);
        served += status == 0;
        refused += status != 0;
        tutti_schedule_free(schedule);
    }
    printf("%" PRIu64 " served, %" PRIu64 " refused\n", served, refused);
    CHECK(served > rounds / 10);
    CHECK(refused > rounds / 10);
}
