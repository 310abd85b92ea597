/* Generators as loops: any window of their steps is that of the whole, written in one go; what they
 * write is proved; and a long one is asked for its end in no time. */
#include "runtime/loop.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/test.h"

struct plan {
    uint64_t pieces;
    uint64_t rounds;
    uint64_t slices;
    uint64_t bytes; /* of a slice */
};

/* Rings of pieces on lane 0, nested; each piece is announced on lane 1 when it is through. */
static void write_rings(struct tutti_loop *w)
{
    const struct plan *p = w->context;
    uint32_t next = (w->rank + 1) % w->rank_count;
    uint32_t previous = (w->rank + w->rank_count - 1) % w->rank_count;

    TUTTI_REPEAT(w, piece, p->pieces)
    {
        TUTTI_REPEAT(w, round, p->rounds)
        {
            TUTTI_REPEAT(w, slice, p->slices)
            {
                uint64_t at = ((piece * p->rounds + round) * p->slices + slice) * p->bytes;

                tutti_loop_on(w, 0);
                tutti_loop_append(
                    w, tutti_step_send((struct tutti_buf_at){TUTTI_BUF_IN, at}, p->bytes, next));
                tutti_loop_append(w, tutti_step_recv((struct tutti_buf_at){TUTTI_BUF_OUT, at},
                                                     p->bytes, previous));
                if (w->rank % 2 == 0)
                    continue; /* leaves this turn alone */
                tutti_loop_append(
                    w, tutti_step_copy((struct tutti_buf_at){0}, (struct tutti_buf_at){0}, 0));
            }
        }
        for (uint32_t k = 0; k < 3; k++) { /* turns that differ */
            struct tutti_loop_mark through;

            tutti_loop_on(w, 0);
            through = tutti_loop_last(w);
            tutti_loop_on(w, 1);
            tutti_loop_after(w,
                             tutti_loop_append(w, tutti_step_copy((struct tutti_buf_at){0},
                                                                  (struct tutti_buf_at){0}, k)),
                             through);
        }
    }
}

static struct tutti_schedule *rings(const struct plan *plan, uint32_t rank_count,
                                    uint32_t share_count)
{
    const struct tutti_loop_desc desc = {
        .size = sizeof(desc),
        .head = {.name = "rings",
                 .contract = {.collective = TUTTI_CUSTOM},
                 .rank_count = rank_count,
                 .lane_count = 2 * share_count,
                 .in_bytes = plan->pieces * plan->rounds * plan->slices * plan->bytes,
                 .out_bytes = plan->pieces * plan->rounds * plan->slices * plan->bytes},
        .share_lanes = 2,
        .write = write_rings,
        .context = plan,
        .context_bytes = sizeof(*plan),
    };
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_loop_schedule(&desc, &schedule, &err), err);
    return schedule;
}

/* Steps of lane 0, written without a writer. */
static struct tutti_step expected(const struct plan *p, uint32_t rank, uint32_t rank_count,
                                  uint64_t index)
{
    uint64_t a_slice = rank % 2 == 0 ? 2 : 3;
    uint64_t at = index / a_slice * p->bytes;

    if (index % a_slice == 0)
        return tutti_step_send((struct tutti_buf_at){TUTTI_BUF_IN, at}, p->bytes,
                               (rank + 1) % rank_count);
    if (index % a_slice == 1)
        return tutti_step_recv((struct tutti_buf_at){TUTTI_BUF_OUT, at}, p->bytes,
                               (rank + rank_count - 1) % rank_count);
    return tutti_step_copy((struct tutti_buf_at){0}, (struct tutti_buf_at){0}, 0);
}

TEST(a_window_is_the_same_as_the_whole)
{
    struct tutti_random random;
    uint64_t windows = 0;

    tutti_random_seed(&random, test_seed);
    for (uint64_t number = 0; number < test_count(2000, 300); number++) {
        const struct plan plan = {.pieces = 1 + tutti_random_below(&random, 5),
                                  .rounds = tutti_random_below(&random, 7),
                                  .slices = 1 + tutti_random_below(&random, 20),
                                  .bytes = 4};
        struct tutti_schedule *s = plan.rounds == 0 ? NULL : rings(&plan, 3, 2);
        static struct tutti_round out[4];

        if (s == NULL)
            continue;
        for (uint32_t rank = 0; rank < 2; rank++) {
            uint64_t count = plan.pieces * plan.rounds * plan.slices * (rank == 0 ? 2 : 3);
            uint64_t first = tutti_random_below(&random, (count + 15) / 16);
            uint32_t rounds = 1 + (uint32_t)tutti_random_below(&random, 4);

            CHECK_INT(s->ops->round_count(s, rank, 2), (count + 15) / 16);
            CHECK_INT(tutti_schedule_step_count(s, rank, 0), count);
            CHECK_INT(tutti_schedule_step_count(s, rank, 3), 3 * plan.pieces);
            s->ops->emit_run(s, rank, 2, first, rounds, out);
            for (uint64_t i = 16 * first; i < 16 * (first + rounds) && i < count; i++, windows++) {
                struct tutti_step want = expected(&plan, rank, 3, i);
                const struct tutti_round *round = &out[i / 16 - first];

                CHECK(i % 16 < round->step_count);
                if (memcmp(&round->step[i % 16], &want, sizeof(want)) != 0)
                    TEST_FAIL("case %llu, rank %u, step %llu", (unsigned long long)number, rank,
                              (unsigned long long)i);
            }
        }
        tutti_schedule_free(s);
    }
    printf("%llu steps\n", (unsigned long long)windows);
}

/* Dependencies name steps of other lanes of the share, wherever the window lies. */
TEST(marks_are_where_they_were_made)
{
    const struct plan plan = {.pieces = 50, .rounds = 40, .slices = 30, .bytes = 1};
    struct tutti_schedule *s = rings(&plan, 4, 3);
    const struct tutti_step *step;
    struct tutti_cursor cursor;
    uint64_t index = 0;

    tutti_cursor_open(&cursor, s, 1, 5); /* lane 1 of share 2 */
    while ((step = tutti_cursor_next(&cursor)) != NULL) {
        CHECK_INT(step->dep_lane, 4);
        CHECK_INT(step->dep_step, (index / 3 + 1) * 40 * 30 * 3 - 1);
        CHECK_INT(step->bytes, index % 3);
        index++;
    }
    CHECK_INT(index, 150);
    tutti_schedule_free(s);
}

/* A trillion steps: counted, and the last ones written, by a handful of turns. */
TEST(the_end_of_a_long_program_is_near)
{
    const struct plan plan = {.pieces = 10000, .rounds = 10000, .slices = 5000, .bytes = 1};
    struct tutti_schedule *s = rings(&plan, 2, 1);
    uint64_t rounds = s->ops->round_count(s, 0, 0);
    struct tutti_round out = {.step_count = 0};
    struct tutti_step want = expected(&plan, 0, 2, 16 * rounds - 1);

    CHECK_INT(rounds, UINT64_C(62500000000));
    s->ops->emit(s, 0, 0, rounds - 1, &out);
    CHECK_INT(out.step_count, 16);
    CHECK(memcmp(&out.step[15], &want, sizeof(want)) == 0);
    tutti_schedule_free(s);
}

TEST(a_description_that_makes_no_sense_is_refused)
{
    struct tutti_loop_desc desc = {
        .size = sizeof(desc),
        .head = {.name = "odd",
                 .contract = {.collective = TUTTI_CUSTOM},
                 .rank_count = 2,
                 .lane_count = 3},
        .share_lanes = 2,
        .write = write_rings,
    };
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err;

    CHECK_INT(tutti_loop_schedule(&desc, &schedule, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "shares of '2' lanes of 3 in all (1 to 8, dividing them)");
    desc.head.name = "two words";
    CHECK_INT(tutti_loop_schedule(&desc, &schedule, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "bad schedule name 'two words' (one word, printable, without '#')");
    CHECK(schedule == NULL);
}
