/* Folding: what generators promise about their programs holds, and folded times are those of all
 * ranks, to the picosecond. */
#include "runtime/backend.h"
#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/fold/fold.h"
#include "sim/sim.h"
#include "tests/sim/fold_cases.h"
#include "tests/sim/paced.h"
#include "tests/test.h"
#include "topo/topo.h"

enum { PARTNERS = 64 };

/* ---- the promise ----------------------------------------------------------------------------- */

/* The number of the partner that a step names. */
static uint32_t partner_of(const struct tutti_step *step, const struct tutti_partners *partners,
                           uint32_t count)
{
    uint32_t i = 0;

    while (i < count &&
           (step->kind == TUTTI_SEND ? partners[i].to : partners[i].from) != step->peer)
        i++;
    return i;
}

/* Walks a lane of two ranks side by side. */
static bool are_alike(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane)
{
    struct tutti_partners mine[PARTNERS];
    struct tutti_partners first[PARTNERS];
    uint32_t count = schedule->ops->partners(schedule, 0, lane, first, PARTNERS);
    struct tutti_cursor a;
    struct tutti_cursor b;

    if (count > PARTNERS || schedule->ops->partners(schedule, rank, lane, mine, PARTNERS) != count)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct tutti_partners theirs[PARTNERS];

        (void)schedule->ops->partners(schedule, mine[i].to, lane, theirs, PARTNERS);
        if (theirs[i].from != rank)
            return false;
    }
    tutti_cursor_open(&a, schedule, 0, lane);
    tutti_cursor_open(&b, schedule, rank, lane);
    for (;;) {
        const struct tutti_step *s = tutti_cursor_next(&a);
        const struct tutti_step *t = tutti_cursor_next(&b);

        if (s == NULL || t == NULL)
            return s == t;
        if (s->kind != t->kind || s->flags != t->flags || s->bytes != t->bytes ||
            ((s->flags & TUTTI_STEP_DEP) != 0 &&
             (s->dep_lane != t->dep_lane || s->dep_step != t->dep_step)))
            return false;
        if (s->kind == TUTTI_SEND || s->kind == TUTTI_RECV) {
            uint32_t partner = partner_of(s, first, count);

            if (partner == count || partner_of(t, mine, count) != partner)
                return false;
        }
    }
}

TEST(generators_keep_the_promise_of_equal_programs)
{
    struct tutti_random random;
    uint32_t promised = 0;

    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < test_count(20000, 1500); i++) {
        struct tutti_topo *topo = draw_machine(&random);
        struct tutti_schedule *schedule = draw_schedule(&random, topo, i % 2 == 0);

        for (uint32_t lane = 0;
             schedule != NULL && schedule->ops->partners != NULL && lane < schedule->lane_count;
             lane++) {
            if (schedule->ops->partners(schedule, 0, lane, NULL, 0) == 0)
                continue;
            promised++;
            for (uint32_t rank = 0; rank < schedule->rank_count; rank++) {
                if (!are_alike(schedule, rank, lane))
                    TEST_FAIL("case %" PRIu64
                              ": '%s' on '%s': lane %u of rank %u is not that of rank 0",
                              i, schedule->name, topo->name, lane, rank);
            }
        }
        tutti_schedule_free(schedule);
        tutti_topo_free(topo);
    }
    CHECK(promised > test_share(100));
}

/* ---- times ----------------------------------------------------------------------------------- */

TEST(folded_times_are_those_of_all_ranks)
{
    struct tutti_random random;
    struct tutti_protocol protocols[TUTTI_PROTOCOLS];
    uint32_t folded_count = 0;
    uint32_t several = 0;
    uint32_t fair = 0;

    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < test_count(100000, 6000); i++) {
        struct tutti_topo *topo = draw_machine(&random);
        struct tutti_sim_opts opts = {
            .size = sizeof(struct tutti_sim_opts), .model = TUTTI_MODEL_ALPHABETA, .topo = topo};
        struct tutti_schedule *schedule = NULL;
        struct tutti_folded folded = {.class_count = 0};
        int status = -TUTTI_ELACK;

        disturb(&random, topo);
        if (below(&random, 3) == 0)
            opts.model = TUTTI_MODEL_FAIR;
        draw_protocols(&random, protocols);
        if (below(&random, 2) == 0)
            opts.protocol = &protocols[below(&random, TUTTI_PROTOCOLS)];
        if (below(&random, 2) == 0)
            opts.reduce_bytes_per_s = UINT64_C(1000000) * (1 + below(&random, 100000));
        schedule = draw_schedule(&random, topo, i % 4 != 0);
        if (schedule != NULL)
            status = tutti_fold_play(&opts, schedule, 0, &folded, NULL);
        if (status == 0) {
            struct tutti_played played = play_all(&opts, schedule);

            if (played.total_ps != folded.end_ps || played.step_count != folded.step_count)
                TEST_FAIL("case %" PRIu64 ": '%s' on '%s' in %u classes: %" PRId64 " ps, %" PRIu64
                          " steps; all ranks: %" PRId64 " ps, %" PRIu64 " steps",
                          i, schedule->name, topo->name, folded.class_count, folded.end_ps,
                          folded.step_count, played.total_ps, played.step_count);
            folded_count++;
            fair += opts.model == TUTTI_MODEL_FAIR;
            several += folded.class_count > 1;
        } else {
            CHECK_INT(status, -TUTTI_ELACK);
        }
        tutti_schedule_free(schedule);
        tutti_topo_free(topo);
    }
    printf("%u folded, %u of them into several ranks, %u under fair\n", folded_count, several,
           fair);
    CHECK(fair > test_share(40));
    CHECK(folded_count > test_share(300));
    CHECK(several > test_share(150));
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* In two slices, unless told otherwise: rings of whole messages are gone through ring by ring. */
static void refused_in(uint32_t slices, const char *spec, const char *algorithm, uint64_t count,
                       uint32_t channels, struct tutti_sim_opts opts, uint64_t steps,
                       const char *message)
{
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_FLOAT32,
                                       .op = TUTTI_SUM,
                                       .count = count,
                                       .channel_count = channels,
                                       .slice_count = slices};
    struct tutti_schedule *schedule = NULL;
    struct tutti_topo *topo = NULL;
    struct tutti_folded folded;
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    CHECK_OK(tutti_coll_generate(algorithm, &params, &topo->shape, &schedule, &err), err);
    opts.topo = topo;
    CHECK_INT(tutti_fold_play(&opts, schedule, steps, &folded, &err), -TUTTI_ELACK);
    CHECK_TEXT(err.text, message);
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
}

static void refused(const char *spec, const char *algorithm, uint64_t count, uint32_t channels,
                    struct tutti_sim_opts opts, uint64_t steps, const char *message)
{
    refused_in(2, spec, algorithm, count, channels, opts, steps, message);
}

TEST(what_does_not_fold_says_why)
{
    const struct tutti_sim_opts plain = {.size = sizeof(struct tutti_sim_opts),
                                         .model = TUTTI_MODEL_ALPHABETA};
    const struct tutti_sim_opts fair = {.size = sizeof(struct tutti_sim_opts),
                                        .model = TUTTI_MODEL_FAIR};
    const struct tutti_sim_opts jitter = {
        .size = sizeof(struct tutti_sim_opts), .model = TUTTI_MODEL_ALPHABETA, .jitter = 0.1};
    const tutti_ps starts[8] = {0, 0, 0, 0, 0, 0, 0, 1};
    const struct tutti_sim_opts skewed = {
        .size = sizeof(struct tutti_sim_opts), .model = TUTTI_MODEL_ALPHABETA, .start_ps = starts};

    refused("mesh:5", "ring", 60, 1, fair, 0, "at least 3 of its 5 lanes are different");
    refused("ring:n=8", "ring", 64, 1, jitter, 0, "jitter makes every rank different");
    refused("ring:n=8", "ring", 64, 1, skewed, 0, "ranks start at different times");
    refused("ring:n=8", "ring", 65, 1, plain, 0,
            "the data of 'ring' cannot be cut into equal parts for 8 ranks");
    refused("ring:n=8", "ring", 64, 2, plain, 0,
            "'ring': lanes of a rank want a link at the same instant");
    refused("ring:n=8", "binomial", 64, 1, plain, 0,
            "'binomial' has programs that differ from rank to rank");
    refused("mesh:5", "ring", 60, 1, plain, 0, "links make at least 4 different ranks of the 5");
    refused("ring:n=8", "ring", 64, 1, plain, 34,
            "it takes more than 34 steps to simulate, folded");
    refused_in(1, "ring:n=8", "ring", 64, 2, plain, 0,
               "ring by ring: rank 0 sends over a link that still serves another phase; rank by "
               "rank: 'ring': lanes of a rank want a link at the same instant");
}
