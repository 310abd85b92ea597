/* Everybody with everybody, folded: machines made of equal parts are, exchanges are what they are
 * said to be, and folded times are those of all ranks, to the picosecond. */
#include "runtime/backend.h"
#include "runtime/coll.h"
#include "runtime/random.h"
#include "sim/fold/exchange.h"
#include "sim/fold/orbits.h"
#include "sim/sim.h"
#include "tests/machines.h"
#include "tests/sim/paced.h"
#include "tests/sim/play_all.h"
#include "tests/topo/links.h"

static uint32_t below(struct tutti_random *random, uint32_t bound)
{
    return (uint32_t)tutti_random_below(random, bound);
}

static struct tutti_topo *draw_machine(struct tutti_random *random)
{
    static const char *const presets[] = {"dgx-h100", "dgx-1v", "mi300x", "dgx-a100"};
    uint32_t group = 1 + below(random, 4);
    char spec[96];

    (void)snprintf(spec, sizeof(spec), "%s:nodes=%u,group=%u,spines=%u", presets[below(random, 4)],
                   group * (1 + below(random, 4)), group, group + below(random, 2));
    return machine(spec);
}

/* ---- equal parts ----------------------------------------------------------------------------- */

static uint32_t rank_at(const struct tutti_topo *topo, const struct tutti_spot *spot)
{
    uint32_t rank = 0;

    for (; rank < topo->rank_count; rank++) {
        struct tutti_spot other = tutti_topo_rank_spot(topo, rank);

        if (other.kind == spot->kind && other.along[0] == spot->along[0] &&
            other.along[1] == spot->along[1])
            break;
    }
    return rank;
}

/* Exchanges two places of an axis. */
static struct tutti_spot move(struct tutti_spot spot, uint32_t axis, uint32_t a, uint32_t b)
{
    uint32_t *place = &spot.along[axis];

    *place = *place == a ? b : *place == b ? a : *place;
    return spot;
}

static bool is_same_spot(struct tutti_spot a, struct tutti_spot b)
{
    return a.kind == b.kind && a.along[0] == b.along[0] && a.along[1] == b.along[1];
}

TEST(places_can_be_exchanged_and_nobody_notices)
{
    struct tutti_random random;
    uint32_t compared = 0;

    tutti_random_seed(&random, test_seed);
    for (int i = 0; i < (test_full ? 2000 : 150); i++) {
        struct tutti_topo *topo = draw_machine(&random);
        uint32_t lengths[TUTTI_AXES] = {0};
        uint32_t axis = below(&random, TUTTI_AXES);
        bool made = tutti_topo_axes(topo, lengths);
        uint32_t a = made ? below(&random, lengths[axis]) : 0;
        uint32_t b = made ? below(&random, lengths[axis]) : 0;

        for (int k = 0; k < 50 && made; k++) {
            uint32_t from = below(&random, topo->rank_count);
            uint32_t to = below(&random, topo->rank_count);
            struct tutti_spot from_spot = move(tutti_topo_rank_spot(topo, from), axis, a, b);
            struct tutti_spot to_spot = move(tutti_topo_rank_spot(topo, to), axis, a, b);
            uint32_t way[64];
            uint32_t moved[64];
            uint32_t count = tutti_topo_route(topo, from, to, way, 64);

            REQUIRE(tutti_topo_route(topo, rank_at(topo, &from_spot), rank_at(topo, &to_spot),
                                     moved, 64) == count);
            for (uint32_t l = 0; l < count; l++)
                CHECK(is_same_spot(move(tutti_topo_link_spot(topo, way[l]), axis, a, b),
                                   tutti_topo_link_spot(topo, moved[l])));
            compared++;
        }
        tutti_topo_free(topo);
    }
    CHECK(compared > 1000);
}

TEST(one_slow_link_makes_parts_unequal)
{
    struct tutti_topo *topo = machine("dgx-h100:nodes=4,group=2");
    struct tutti_topo *switched = machine("switch:n=8");
    struct tutti_link *links;
    uint32_t lengths[TUTTI_AXES] = {0};

    CHECK(tutti_topo_axes(topo, lengths));
    CHECK_INT(lengths[0], 2);
    CHECK_INT(lengths[1], 2);
    links = take_links(topo);
    links[topo->link_count - 1].latency_ps++;
    put_links(topo, links);
    CHECK(!tutti_topo_axes(topo, lengths));
    CHECK(!tutti_topo_axes(switched, lengths));
    tutti_topo_free(topo);
    tutti_topo_free(switched);
}

/* ---- schedules ------------------------------------------------------------------------------- */

static struct tutti_schedule *draw_schedule(struct tutti_random *random, uint32_t rank_count)
{
    static const enum tutti_collective collectives[] = {
        TUTTI_ALLREDUCE, TUTTI_REDUCESCATTER, TUTTI_ALLGATHER, TUTTI_ALLTOALL, TUTTI_SENDRECV};
    static const char *const names[] = {"one-shot", "two-shot"};
    struct tutti_shape shape = {.rank_count = rank_count};
    struct tutti_coll_params params = {
        .collective = collectives[below(random, 10) < 6 ? 0 : below(random, 5)],
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .count = below(random, 3) == 0 ? below(random, 20) : below(random, 1 << 16),
        .slice_count = 1 + below(random, 2),
        .slot_count = 2 + below(random, 7),
    };
    struct tutti_schedule *schedule = NULL;

    if (below(random, 2) == 0)
        params.count -= params.count % rank_count;
    if (below(random, 4) == 0)
        params.count = UINT64_C(1) << below(random, 20);
    if (below(random, 4) == 0)
        params.chunk_bytes = 4 + below(random, 4000);
    (void)tutti_coll_generate(params.collective == TUTTI_ALLREDUCE ? names[below(random, 2)]
                                                                   : "direct",
                              &params, &shape, &schedule, NULL);
    return schedule;
}

/* Walks a part of a program: it sends to, or receives from, each other rank once. */
static void check_part(struct tutti_cursor *cursor, const struct tutti_schedule *schedule,
                       uint64_t part, uint64_t *steps)
{
    struct tutti_exchange exchange;
    uint64_t seen = 0;

    CHECK(schedule->ops->exchange(schedule, 0, part, cursor->rank, &exchange));
    for (uint32_t left = schedule->rank_count - 1; left > 0;) {
        const struct tutti_step *step = tutti_cursor_next(cursor);
        struct tutti_exchange by_peer;

        REQUIRE(step != NULL);
        ++*steps;
        CHECK((step->flags & TUTTI_STEP_DEP) == 0);
        if (step->kind == TUTTI_REDUCE || step->kind == TUTTI_COPY)
            continue;
        CHECK_INT(step->kind, exchange.sends ? TUTTI_SEND : TUTTI_RECV);
        CHECK((seen >> step->peer & 1) == 0);
        seen |= UINT64_C(1) << step->peer;
        (void)schedule->ops->exchange(schedule, 0, part, step->peer, &by_peer);
        CHECK_INT(step->bytes,
                  exchange.by_sender == exchange.sends ? exchange.bytes : by_peer.bytes);
        left--;
    }
}

TEST(exchanges_are_what_they_are_said_to_be)
{
    struct tutti_random random;
    uint32_t found = 0;

    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < test_cheap_count(10000, 500); i++) {
        struct tutti_schedule *schedule = draw_schedule(&random, 3 + below(&random, 30));
        struct tutti_exchange exchange;
        uint64_t steps_of_first = 0;

        for (uint32_t rank = 0; schedule != NULL && rank < schedule->rank_count &&
                                schedule->ops->exchange(schedule, 0, 0, rank, &exchange);
             rank++) {
            struct tutti_cursor cursor;
            uint64_t steps = 0;
            uint64_t part = 0;

            tutti_cursor_open(&cursor, schedule, rank, 0);
            for (; schedule->ops->exchange(schedule, 0, part, rank, &exchange); part++)
                check_part(&cursor, schedule, part, &steps);
            for (const struct tutti_step *step = tutti_cursor_next(&cursor); step != NULL;
                 step = tutti_cursor_next(&cursor), steps++)
                CHECK(step->kind == TUTTI_REDUCE || step->kind == TUTTI_COPY);
            steps_of_first = rank == 0 ? steps : steps_of_first;
            CHECK_INT(steps, steps_of_first);
            found++;
        }
        tutti_schedule_free(schedule);
    }
    CHECK(found > test_cheap_count(1000, 1000));
}

/* ---- times ----------------------------------------------------------------------------------- */

TEST(folded_exchanges_take_as_long_as_all_ranks)
{
    struct tutti_protocol protocols[TUTTI_PROTOCOLS];
    struct tutti_random random;
    uint32_t folded_count = 0;
    uint32_t uneven = 0;

    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < test_count(20000, test_is_slow() ? 100 : 300); i++) {
        struct tutti_topo *topo = draw_machine(&random);
        struct tutti_sim_opts opts = {
            .size = sizeof(struct tutti_sim_opts), .topo = topo, .model = TUTTI_MODEL_FAIR};
        struct tutti_schedule *schedule = draw_schedule(&random, topo->rank_count);
        struct tutti_known_axes axes = {.topo = NULL};
        struct tutti_folded folded;

        draw_protocols(&random, protocols);
        if (below(&random, 2) == 0)
            opts.protocol = &protocols[below(&random, TUTTI_PROTOCOLS)];
        if (schedule != NULL &&
            tutti_exchange_play(&opts, schedule, 0, &axes, &folded, NULL) == 0) {
            struct tutti_played played = play_all(&opts, schedule);

            if (played.total_ps != folded.end_ps || played.step_count != folded.step_count)
                TEST_FAIL("case %" PRIu64 ": '%s' on '%s' in %u classes: %" PRId64 " ps, %" PRIu64
                          " steps; all ranks: %" PRId64 " ps, %" PRIu64 " steps",
                          i, schedule->name, topo->name, folded.class_count, folded.end_ps,
                          folded.step_count, played.total_ps, played.step_count);
            folded_count++;
            uneven += schedule->contract.count % topo->rank_count != 0;
        }
        tutti_schedule_free(schedule);
        tutti_topo_free(topo);
    }
    printf("%u folded, %u of them uneven\n", folded_count, uneven);
    CHECK(folded_count > test_share(test_is_slow() ? 40 : 100));
    CHECK(test_is_slow() || uneven > test_share(20));
}
