/* What check and prove let pass is right: schedules spoilt at random in one to three places are
 * judged, and those that pass are played, in random orders and as late as the rules allow; every
 * integer must be the contract's. Many are passed, since what is spoilt may not matter. */
#include "runtime/coll.h"
#include "runtime/status.h"
#include "tests/runtime/interpret.h"

enum { RANKS_MAX = 4, CELLS = 64, STEPS_MAX = 256, MOVES = 10 };

/* A schedule in the open: steps by cell, rank * lane_count + lane. */
struct open_schedule {
    struct tutti_schedule_desc desc;
    struct tutti_step step[CELLS][STEPS_MAX];
    uint32_t count[CELLS];
    uint32_t cells;
};

static struct open_schedule work; /* large */

static bool open_up(const struct tutti_schedule *s)
{
    work.desc = (struct tutti_schedule_desc){.name = "spoilt",
                                             .contract = s->contract,
                                             .rank_count = s->rank_count,
                                             .lane_count = s->lane_count,
                                             .slot_count = s->slot_count,
                                             .scratch_bytes = s->scratch_bytes};
    work.cells = s->rank_count * s->lane_count;
    for (uint32_t cell = 0; cell < work.cells && work.cells <= CELLS; cell++) {
        const struct tutti_step *step;
        struct tutti_cursor cursor;

        work.count[cell] = 0;
        tutti_cursor_open(&cursor, s, cell / s->lane_count, cell % s->lane_count);
        while ((step = tutti_cursor_next(&cursor)) != NULL) {
            if (work.count[cell] == STEPS_MAX - 1)
                return false;
            work.step[cell][work.count[cell]++] = *step;
        }
    }
    return work.cells <= CELLS;
}

static struct tutti_schedule *close_up(void)
{
    struct tutti_builder *builder = NULL;
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_builder_new(&work.desc, &builder, &err), err);
    for (uint32_t cell = 0; cell < work.cells; cell++)
        for (uint32_t i = 0; i < work.count[cell]; i++)
            CHECK_OK(tutti_builder_add(builder, cell / work.desc.lane_count,
                                       cell % work.desc.lane_count, &work.step[cell][i], &err),
                     err);
    CHECK_OK(tutti_builder_finish(builder, &schedule, &err), err);
    return schedule;
}

/* Spoils one step, or the order of two, or the number of slots. */
static void spoil(struct tutti_random *random)
{
    uint32_t cell = (uint32_t)tutti_random_below(random, work.cells);
    uint64_t delta = (tutti_random_next(random) & 1) != 0 ? 4 : (uint64_t)-4;
    struct tutti_step *step;
    struct tutti_step copy;
    uint32_t i;

    if (work.count[cell] == 0)
        return;
    i = (uint32_t)tutti_random_below(random, work.count[cell]);
    step = &work.step[cell][i];
    switch (tutti_random_below(random, MOVES)) {
    case 0:
        step->flags &= (uint8_t)~TUTTI_STEP_DEP;
        break;
    case 1:
        step->dep_step += delta == 4 ? 1 : UINT32_MAX;
        break;
    case 2: /* two neighbours change places */
        if (i + 1 == work.count[cell])
            break;
        copy = step[0];
        step[0] = step[1];
        step[1] = copy;
        break;
    case 3:
        step->dst_offset += delta;
        break;
    case 4:
        step->src_offset += delta;
        break;
    case 5:
        step->src_buf = (uint8_t)(1 + tutti_random_below(random, 3));
        break;
    case 6:
        step->flags ^= TUTTI_STEP_LAST;
        break;
    case 7:
        step->flags ^= TUTTI_STEP_FUSE;
        break;
    case 8: /* to the end of its lane */
        copy = *step;
        memmove(step, step + 1, (work.count[cell] - i - 1) * sizeof(*step));
        work.step[cell][work.count[cell] - 1] = copy;
        break;
    default:
        work.desc.slot_count = 1 + (uint32_t)tutti_random_below(random, 4);
        break;
    }
}

/* ---- playing --------------------------------------------------------------------------------- */

static int32_t value(uint32_t rank, uint64_t element)
{
    return (int32_t)(tutti_random_hash(9, rank, element, 0) % 100000);
}

static int32_t sum(uint32_t n, uint64_t element)
{
    int32_t total = 0;

    for (uint32_t rank = 0; rank < n; rank++)
        total += value(rank, element);
    return total;
}

static int32_t expected(const struct tutti_schedule *s, uint32_t rank, uint64_t i)
{
    uint64_t count = s->contract.count;

    switch (s->contract.collective) {
    case TUTTI_ALLREDUCE:
        return sum(s->rank_count, i);
    case TUTTI_REDUCESCATTER:
        return sum(s->rank_count, rank * count + i);
    case TUTTI_ALLGATHER:
        return value((uint32_t)(i / count), i % count);
    case TUTTI_ALLTOALL:
        return value((uint32_t)(i / count), rank * count + i % count);
    default:
        return value(s->contract.root, i);
    }
}

/* Elements that are wrong after a play in the order of `seed`. */
static uint64_t play_once(const struct tutti_schedule *s, uint64_t seed)
{
    static int32_t buffers[4][RANKS_MAX][1024];
    uint8_t *rows[4][RANKS_MAX];
    struct play play = {.schedule = s};
    uint64_t wrong = 0;

    memset(buffers, 0x5a, sizeof(buffers));
    for (int b = 0; b < 4; b++) {
        for (uint32_t rank = 0; rank < s->rank_count; rank++)
            rows[b][rank] = (uint8_t *)buffers[b][rank];
        play.buf[b] = rows[b];
    }
    for (uint32_t rank = 0; rank < s->rank_count; rank++)
        for (uint64_t i = 0; i < s->in_bytes / 4; i++)
            buffers[TUTTI_BUF_IN][rank][i] = value(rank, i);
    if (!play_all(&play, seed))
        return 1;
    for (uint32_t rank = 0; rank < s->rank_count; rank++)
        for (uint64_t i = 0; i < s->out_bytes / 4; i++)
            wrong += buffers[TUTTI_BUF_OUT][rank][i] != expected(s, rank, i);
    return wrong;
}

static void tell(const struct tutti_schedule *s, const char *algorithm)
{
    struct tutti_err err;
    char *text = NULL;

    CHECK_OK(tutti_schedule_print(s, &text, &err), err);
    TEST_FAIL("passed, but wrong when played; spoilt from %s:\n%s", algorithm, text);
    free(text);
}

/* ---- trials --------------------------------------------------------------------------------- */

static struct tutti_schedule *draw(struct tutti_random *random, const char **ret_name)
{
    static const enum tutti_collective collectives[] = {
        TUTTI_ALLREDUCE, TUTTI_REDUCESCATTER, TUTTI_ALLGATHER, TUTTI_ALLTOALL, TUTTI_BROADCAST};
    size_t count;
    const struct tutti_algorithm *table = tutti_algorithms(&count);
    const struct tutti_algorithm *algorithm = &table[tutti_random_below(random, count)];
    struct tutti_shape shape =
        tutti_shape_flat(1 + (uint32_t)tutti_random_below(random, RANKS_MAX));
    struct tutti_coll_params params = {.collective = collectives[tutti_random_below(random, 5)],
                                       .dtype = TUTTI_INT32,
                                       .count = 1 + tutti_random_below(random, 9),
                                       .channel_count = 1 + (uint32_t)tutti_random_below(random, 2),
                                       .chunk_bytes = 4 * tutti_random_below(random, 4),
                                       .slot_count = 2};
    struct tutti_schedule *schedule = NULL;

    shape.dim_count = 1;
    shape.dim[0] = shape.rank_count;
    shape.wrap[0] = shape.rank_count > 2;
    *ret_name = algorithm->name;
    if ((algorithm->collectives & (1u << params.collective)) != 0)
        (void)algorithm->generate(&params, &shape, &schedule, NULL);
    return schedule;
}

/* 1: passed and right; 0: refused, or nothing to spoil; -1: passed and wrong. */
static int try_one(struct tutti_random *random)
{
    const char *name = "";
    struct tutti_schedule *schedule = draw(random, &name);
    bool opened = schedule != NULL && open_up(schedule);
    uint64_t places = 1 + tutti_random_below(random, 3);
    int verdict = 0;

    tutti_schedule_free(schedule);
    if (!opened)
        return 0;
    for (uint64_t i = 0; i < places; i++)
        spoil(random);
    schedule = close_up();
    if (tutti_schedule_check(schedule, NULL) == 0 && tutti_schedule_prove(schedule, NULL) == 0) {
        verdict = 1;
        for (int i = 0; i < 4 && verdict == 1; i++)
            if (play_once(schedule, tutti_random_next(random)) > 0)
                verdict = -1;
    }
    if (verdict < 0)
        tell(schedule, name);
    tutti_schedule_free(schedule);
    return verdict;
}

TEST(what_is_passed_is_right_however_it_is_played)
{
    uint32_t trials = test_full ? 400000 : 20000;
    struct tutti_random random;
    uint32_t passed = 0;

    tutti_random_seed(&random, test_seed);
    for (uint32_t i = 0; i < trials && test_failures < 3; i++)
        passed += try_one(&random) == 1;
    printf("%u trials, %u passed\n", trials, passed);
    CHECK(passed > trials / 50);
}
