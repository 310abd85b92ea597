/* The conformance suite, continued: training steps with groups, work that is really done, and state
 * that is kept from play to play. */
#ifndef TUTTI_TESTS_RUNTIME_CONFORMANCE_STEPS_H
#define TUTTI_TESTS_RUNTIME_CONFORMANCE_STEPS_H

#include "tests/runtime/conformance.h"
#include "tests/runtime/training_steps.h"

/* Layers of unlike types and algorithms, sharded and not, in place and not. */
static struct training steps_training(uint32_t tp, uint32_t dp)
{
    struct training t = {.tp = tp, .dp = dp, .layer_count = LAYERS_MAX, .has_neighbours = tp > 1};

    for (uint32_t l = 0; l < LAYERS_MAX; l++)
        t.layers[l] = (struct layer){.act_bytes = 8 * (3 + 100 * l),
                                     .weight_bytes = 8 * dp * (1 + 50 * l),
                                     .act_type = l % TYPE_COUNT,
                                     .grad_type = (l + 3) % TYPE_COUNT,
                                     .algorithm = (l + tp) % ALGORITHM_COUNT,
                                     .is_sharded = l % 2 == 1,
                                     .in_place = l % 2 == 0};
    return t;
}

static void steps_play(struct tutti_backend *backend, const struct tutti_schedule *s)
{
    struct memory expected = {{{NULL}}};
    struct memory seen = {{{NULL}}};
    const void *in[RANKS_MAX];
    void *out[RANKS_MAX];
    void *state[RANKS_MAX];
    struct tutti_played played;
    struct tutti_err err = {{0}};
    uint32_t first = 0;
    uint32_t count = 0;

    REQUIRE(memory_open(&expected, s) && memory_open(&seen, s));
    for (int i = 0; i < 3; i++)
        CHECK(interpret(s, &expected));
    tutti_backend_ranks(backend, s->rank_count, &first, &count);
    for (uint32_t rank = 0; rank < s->rank_count; rank++) {
        in[rank] = seen.bufs[rank][TUTTI_BUF_IN];
        out[rank] = seen.bufs[rank][TUTTI_BUF_OUT];
        state[rank] = seen.bufs[rank][TUTTI_BUF_STATE];
    }
    CHECK_OK(tutti_backend_play(backend,
                                &(struct tutti_play){.size = sizeof(struct tutti_play),
                                                     .schedule = s,
                                                     .in = in,
                                                     .out = out,
                                                     .state = state,
                                                     .warmup_count = 1,
                                                     .iteration_count = 2},
                                &played, &err),
             err);
    for (uint32_t rank = first; rank < first + count; rank++) {
        CHECK(memcmp(seen.bufs[rank][TUTTI_BUF_STATE], expected.bufs[rank][TUTTI_BUF_STATE],
                     (size_t)s->state_bytes) == 0);
        CHECK(memcmp(seen.bufs[rank][TUTTI_BUF_OUT], expected.bufs[rank][TUTTI_BUF_OUT],
                     (size_t)s->out_bytes) == 0);
    }
    memory_close(&expected, s);
    memory_close(&seen, s);
}

TEST(training_steps_on_groups_leave_the_state_that_their_steps_say)
{
    static const uint32_t meshes[][2] = {{1, 2}, {2, 1}, {2, 2}, {2, 3}};

    for (size_t i = 0; i < sizeof(meshes) / sizeof(meshes[0]); i++) {
        struct training t = steps_training(meshes[i][0], meshes[i][1]);
        struct tutti_schedule *s = make_step(&t);
        struct tutti_backend *backend = NULL;
        struct tutti_err err = {{0}};

        REQUIRE(s != NULL);
        CHECK_OK(subject.open(s->rank_count, &backend, &err), err);
        REQUIRE(backend != NULL);
        steps_play(backend, s);
        tutti_backend_close(backend);
        tutti_schedule_free(s);
    }
}

#endif
