/* Rings of short chunks: chunks go round as generators say, and folded times under `fair` are those
 * of all ranks, to the picosecond. */
#include "runtime/coll.h"
#include "sim/fold/chains.h"
#include "tests/sim/fold_cases.h"
#include "tests/sim/paced.h"
#include "tests/topo/links.h"

static const char *const specs[] = {
    "ring:n=2",
    "ring:n=7",
    "ring:n=16,lat=3us",
    "switch:n=9",
    "dgx-h100:nodes=2",
    "dgx-h100:nodes=4,group=2",
    "dgx-h100:nodes=6,group=2",
    "dgx-h100:nodes=8,group=4",
    "dgx-h100:nodes=3",
    "rail:nodes=6,gpus=4,group=2",
    "dgx-1v:nodes=2",
    "ring:n=12,lat=0ns",
};

static struct tutti_topo *draw_spec(struct tutti_random *random)
{
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {.text = ""};

    CHECK_OK(
        tutti_topo_from_spec(specs[below(random, sizeof(specs) / sizeof(specs[0]))], &topo, &err),
        err);
    return topo;
}

static struct tutti_schedule *draw_ring(struct tutti_random *random, const struct tutti_topo *topo)
{
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .count = below(random, 2) == 0 ? UINT64_C(1) << below(random, 13) : below(random, 5000),
        .channel_count = 1 + below(random, 4),
        .slot_count = 1 + below(random, 8),
    };
    struct tutti_schedule *schedule = NULL;

    (void)tutti_coll_generate(below(random, 2) == 0 ? "ring" : "ring-bidirectional", &params,
                              &topo->shape, &schedule, NULL);
    return schedule;
}

/* Follows the chunk that a rank sends first: round by round the next seat sends as much. */
static void follow(const struct tutti_schedule *schedule, uint32_t lane, uint32_t rank)
{
    struct tutti_ring_phase phase;
    uint32_t at = rank;

    REQUIRE(schedule->ops->ring_chunk(schedule, lane, rank, &phase));
    CHECK_INT(schedule->ops->round_count(schedule, rank, lane), phase.transfer_count + 1);
    for (uint64_t t = 0; t < phase.transfer_count; t++) {
        struct tutti_round round = {.step_count = 0};
        const struct tutti_step *send;

        schedule->ops->emit(schedule, at, lane, t, &round);
        CHECK_INT(round.step_count, t == 0 ? 1 : t <= phase.reduce_count ? 3 : 2);
        send = &round.step[round.step_count - 1];
        CHECK_INT(send->kind, TUTTI_SEND);
        CHECK_INT(send->bytes, phase.bytes);
        at = send->peer;
    }
}

TEST(chunks_go_round)
{
    struct tutti_random random;
    uint32_t followed = 0;

    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < test_count(5000, 300); i++) {
        struct tutti_topo *topo = draw_spec(&random);
        struct tutti_schedule *schedule = draw_ring(&random, topo);

        for (uint32_t lane = 0; schedule != NULL && lane < schedule->lane_count; lane++, followed++)
            follow(schedule, lane, below(&random, schedule->rank_count));
        tutti_schedule_free(schedule);
        tutti_topo_free(topo);
    }
    CHECK(followed > test_share(500));
}

TEST(short_chunks_take_as_long_as_all_ranks)
{
    struct tutti_protocol protocols[TUTTI_PROTOCOLS];
    struct tutti_random random;
    uint32_t folded_count = 0;
    uint32_t repeated = 0;

    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < test_count(50000, 1500); i++) {
        struct tutti_topo *topo = draw_spec(&random);
        struct tutti_sim_opts opts = {
            .size = sizeof(struct tutti_sim_opts), .topo = topo, .model = TUTTI_MODEL_FAIR};
        struct tutti_schedule *schedule = draw_ring(&random, topo);
        struct tutti_folded folded;

        if (below(&random, 4) == 0)
            disturb(&random, topo);
        draw_costs(&random, topo, protocols);
        if (below(&random, 2) == 0)
            opts.protocol = &protocols[below(&random, TUTTI_PROTOCOLS)];
        if (schedule != NULL && tutti_chains_play(&opts, schedule, 0, &folded, NULL) == 0) {
            struct tutti_played played = play_all(&opts, schedule);

            if (played.total_ps != folded.end_ps || played.step_count != folded.step_count)
                TEST_FAIL("case %" PRIu64 ": '%s' on '%s', %u seats: %" PRId64 " ps, %" PRIu64
                          " steps; all ranks: %" PRId64 " ps, %" PRIu64 " steps",
                          i, schedule->name, topo->name, folded.class_count, folded.end_ps,
                          folded.step_count, played.total_ps, played.step_count);
            folded_count++;
            repeated += folded.class_count < topo->rank_count;
        }
        tutti_schedule_free(schedule);
        tutti_topo_free(topo);
    }
    printf("%u folded, %u of them rings that repeat\n", folded_count, repeated);
    CHECK(folded_count > test_share(300));
    CHECK(repeated >= test_share(30));
}

/* A clock that starts near its end leaves no room for the sums that are formed. */
TEST(a_ring_that_starts_near_the_end_of_the_clock_is_refused)
{
    const struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .op = TUTTI_SUM, .count = 2};
    tutti_ps starts_ps[8];
    struct tutti_topo *topo = NULL;
    struct tutti_schedule *schedule = NULL;
    struct tutti_folded folded = {.end_ps = -1};
    struct tutti_err err = {.text = ""};
    struct tutti_sim_opts opts = {
        .size = sizeof(struct tutti_sim_opts), .model = TUTTI_MODEL_FAIR, .start_ps = starts_ps};

    CHECK_OK(tutti_topo_from_spec("ring:n=8", &topo, &err), err);
    CHECK_OK(tutti_coll_generate("ring", &params, &topo->shape, &schedule, &err), err);
    opts.topo = topo;
    for (uint32_t i = 0; i < 8; i++)
        starts_ps[i] = INT64_MAX - 1000;
    CHECK_INT(tutti_chains_play(&opts, schedule, 0, &folded, &err), -TUTTI_ELACK);
    CHECK_TEXT(err.text, "its times are too long to be added up");
    CHECK_INT(folded.end_ps, -1);
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
}
