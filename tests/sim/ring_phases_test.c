/* What generators say of the ring phases of their lanes is what their programs do. */
#include "tests/sim/fold_cases.h"
#include "tests/test.h"

enum { PHASES = 16 };

/* A rank in a phase: who is next to it, as the phase says. */
struct ends {
    uint32_t next;
    uint32_t prev;
};

static struct ends ends_of(const struct tutti_ring_phase *phase, uint32_t rank)
{
    uint32_t d = phase->size;
    uint32_t x = rank / phase->stride % d;
    uint32_t base = rank - x * phase->stride;
    uint32_t up;
    uint32_t down;

    for (uint32_t i = 0; phase->order != NULL && i < d; i++) {
        if (phase->order[i] == rank)
            x = i;
    }
    up = phase->order != NULL ? phase->order[(x + 1) % d] : base + (x + 1) % d * phase->stride;
    down = phase->order != NULL ? phase->order[(x + d - 1) % d]
                                : base + (x + d - 1) % d * phase->stride;
    return phase->reversed ? (struct ends){.next = down, .prev = up}
                           : (struct ends){.next = up, .prev = down};
}

/* Where the last SEND of a phase stands in its lane. */
static uint64_t last_send_of(const struct tutti_ring_phase *phases, uint32_t number)
{
    uint64_t index = 0;

    for (uint32_t i = 0; i <= number; i++)
        index += 2 * phases[i].transfer_count + phases[i].reduce_count;
    return index - 2 - (phases[number].reduce_count == phases[number].transfer_count);
}

static bool is_send(const struct tutti_schedule *schedule, const struct tutti_step *step,
                    const struct tutti_ring_phase *phases, uint32_t number, uint32_t to, bool first)
{
    const struct tutti_ring_phase *phase = &phases[number];
    struct tutti_ring_phase others[PHASES];

    if (step == NULL || step->kind != TUTTI_SEND || step->bytes != phase->bytes || step->peer != to)
        return false;
    if (!first || phase->after_lane == TUTTI_LANE_NONE)
        return step->flags == 0;
    if (number == 0 || schedule->ops->ring_phases(schedule, phase->after_lane, others, PHASES) == 0)
        return false;
    return step->flags == TUTTI_STEP_DEP && step->dep_lane == phase->after_lane &&
           step->dep_step == last_send_of(others, number - 1);
}

static bool is_recv(struct tutti_cursor *cursor, const struct tutti_ring_phase *phase,
                    uint32_t from, uint64_t transfer)
{
    const struct tutti_step *step = tutti_cursor_next(cursor);
    bool reduces = transfer < phase->reduce_count;

    if (step == NULL || step->kind != TUTTI_RECV || step->bytes != phase->bytes ||
        step->peer != from || step->flags != (reduces ? TUTTI_STEP_FUSE : 0))
        return false;
    if (!reduces)
        return true;
    step = tutti_cursor_next(cursor);
    return step != NULL && step->kind == TUTTI_REDUCE && step->bytes == phase->bytes &&
           (step->flags & TUTTI_STEP_DEP) == 0;
}

/* Walks a lane of a rank along its phases. */
static bool is_as_said(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane)
{
    struct tutti_ring_phase phases[PHASES];
    uint32_t count = schedule->ops->ring_phases(schedule, lane, phases, PHASES);
    struct tutti_cursor cursor;

    if (count > PHASES)
        return false;
    tutti_cursor_open(&cursor, schedule, rank, lane);
    for (uint32_t i = 0; i < count; i++) {
        struct ends ends = ends_of(&phases[i], rank);

        for (uint64_t t = 0; t <= phases[i].transfer_count; t++) {
            if (t > 0 && !is_recv(&cursor, &phases[i], ends.prev, t - 1))
                return false;
            if (t < phases[i].transfer_count &&
                !is_send(schedule, tutti_cursor_next(&cursor), phases, i, ends.next, t == 0))
                return false;
        }
    }
    return tutti_cursor_next(&cursor) == NULL;
}

TEST(programs_are_made_of_the_ring_phases_that_are_told)
{
    struct tutti_random random;
    uint32_t told = 0;

    tutti_random_seed(&random, test_seed);
    for (int i = 0; i < (test_full ? 20000 : 1500); i++) {
        struct tutti_topo *topo = draw_machine(&random);
        struct tutti_schedule *schedule = draw_schedule(&random, topo, i % 4 != 0);

        for (uint32_t lane = 0;
             schedule != NULL && schedule->ops->ring_phases != NULL && lane < schedule->lane_count;
             lane++) {
            if (schedule->ops->ring_phases(schedule, lane, NULL, 0) == 0)
                continue;
            told++;
            for (uint32_t rank = 0; rank < schedule->rank_count; rank++) {
                if (!is_as_said(schedule, rank, lane))
                    TEST_FAIL("case %d: '%s' on '%s': lane %u of rank %u is not as it is told", i,
                              schedule->name, topo->name, lane, rank);
            }
        }
        tutti_schedule_free(schedule);
        tutti_topo_free(topo);
    }
    printf("%u lanes are made of ring phases\n", told);
    CHECK(told > 100);
}
