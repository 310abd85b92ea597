/* Folding where links are shared: rounds that are said to repeat do, and folded times under `fair`
 * are those of all ranks, to the picosecond, however many rounds were skipped. */
#include "runtime/backend.h"
#include "runtime/coll.h"
#include "runtime/random.h"
#include "sim/fold/class_play.h"
#include "sim/fold/fold.h"
#include "sim/fold/quotient.h"
#include "sim/sim.h"
#include "tests/machines.h"
#include "tests/sim/paced.h"
#include "tests/sim/play_all.h"
#include "tests/topo/links.h"

static uint32_t below(struct tutti_random *random, uint32_t bound)
{
    return (uint32_t)tutti_random_below(random, bound);
}

static const char *const machines[] = {
    "ring:n=6",
    "ring:n=16",
    "switch:n=8",
    "switch:n=12",
    "torus:4x4",
    "torus:3x4",
    "mesh:4x4",
    "dgx-h100",
    "dgx-h100:nodes=2",
    "dgx-h100:nodes=4",
    "dgx-h100:nodes=6,group=2",
    "dgx-h100:nodes=8,group=4,spines=2",
    "pcie:gpus=8,sockets=2,switches=4,gen=4,nodes=2",
    "full:n=6",
    "fattree:arity=3,levels=2",
    "rail:nodes=6,gpus=4,group=2",
    "dgx-1v:nodes=2",
};

static struct tutti_topo *draw_machine(struct tutti_random *random)
{
    return machine(machines[below(random, (uint32_t)(sizeof(machines) / sizeof(machines[0])))]);
}

/* An all-reduce, often of parts that divide, often of many chunks; NULL where it does not fit. */
static struct tutti_schedule *draw_schedule(struct tutti_random *random,
                                            const struct tutti_topo *topo)
{
    static const enum tutti_collective collectives[] = {
        TUTTI_ALLREDUCE, TUTTI_ALLREDUCE,      TUTTI_ALLREDUCE,     TUTTI_ALLREDUCE,
        TUTTI_BROADCAST, TUTTI_REDUCE_TO_ROOT, TUTTI_REDUCESCATTER, TUTTI_ALLTOALL};
    size_t count = 0;
    const struct tutti_algorithm *algorithms = tutti_algorithms(&count);
    struct tutti_coll_params params = {
        .collective = collectives[below(random, 8)],
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .channel_count = 1 + below(random, 3),
        .slice_count = 1 + below(random, 2),
        .slot_count = 2 + below(random, 7),
    };
    struct tutti_schedule *schedule = NULL;

    params.count = (uint64_t)topo->rank_count * 24 * (1 + below(random, 400));
    if (below(random, 4) == 0)
        params.count = below(random, 5000);
    if (below(random, 2) == 0) {
        params.chunk_bytes = params.count * 4 / (1 + below(random, 60));
        params.chunk_bytes += params.chunk_bytes == 0;
    }
    (void)tutti_coll_generate(algorithms[below(random, (uint32_t)count)].name, &params,
                              &topo->shape, &schedule, NULL);
    return schedule;
}

/* ---- rounds that repeat ---------------------------------------------------------------------- */

static bool is_same_step(const struct tutti_step *a, const struct tutti_step *b)
{
    uint8_t flags = TUTTI_STEP_DEP | TUTTI_STEP_FUSE;

    return a->kind == b->kind && (a->flags & flags) == (b->flags & flags) && a->bytes == b->bytes &&
           ((a->kind != TUTTI_SEND && a->kind != TUTTI_RECV) || a->peer == b->peer) &&
           ((a->flags & TUTTI_STEP_DEP) == 0 ||
            (a->dep_lane == b->dep_lane && a->dep_step < b->dep_step));
}

static void check_run(const struct tutti_schedule *schedule, uint32_t rank, uint32_t lane,
                      uint64_t round, uint64_t count, uint64_t period)
{
    for (uint64_t i = round; i + period < round + count; i++) {
        struct tutti_round a = {.step_count = 0};
        struct tutti_round b = {.step_count = 0};
        bool same;

        schedule->ops->emit(schedule, rank, lane, i, &a);
        schedule->ops->emit(schedule, rank, lane, i + period, &b);
        same = a.step_count == b.step_count;
        for (uint32_t s = 0; same && s < a.step_count; s++)
            same = is_same_step(&a.step[s], &b.step[s]);
        if (!same)
            TEST_FAIL("'%s': rank %u, lane %u: rounds %" PRIu64 " and %" PRIu64 " differ",
                      schedule->name, rank, lane, i, i + period);
    }
}

TEST(rounds_that_are_said_to_repeat_do)
{
    struct tutti_random random;
    uint32_t runs = 0;

    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < test_count(20000, 1500); i++) {
        struct tutti_topo *topo = draw_machine(&random);
        struct tutti_schedule *schedule = draw_schedule(&random, topo);

        if (schedule != NULL && schedule->ops->steady != NULL) {
            uint32_t rank = below(&random, schedule->rank_count);
            uint32_t lane = below(&random, schedule->lane_count);
            uint64_t rounds = schedule->ops->round_count(schedule, rank, lane);

            for (uint64_t round = 0; round < rounds;) {
                uint64_t period = 1;
                uint64_t count = schedule->ops->steady(schedule, rank, lane, round, &period);

                CHECK(count <= rounds - round);
                CHECK(period >= 1);
                check_run(schedule, rank, lane, round, count, period);
                runs += count > 2 * period;
                round += count > 0 ? 1 + count / 2 : 1;
            }
        }
        tutti_schedule_free(schedule);
        tutti_topo_free(topo);
    }
    CHECK(runs > test_share(300));
}

/* ---- times ----------------------------------------------------------------------------------- */

/* Makes some links slower, in a pattern that repeats every few nodes. */
static void disturb(struct tutti_random *random, struct tutti_topo *topo)
{
    struct tutti_link *links = take_links(topo);
    uint32_t period = 1 + below(random, 9);

    for (uint32_t i = 0; i < topo->link_count; i++) {
        if (links[i].from % period != 0)
            continue;
        links[i].latency_ps += 777;
        links[i].bytes_per_s = links[i].bytes_per_s / 3 + 1;
    }
    put_links(topo, links);
}

struct tally {
    uint32_t folded;
    uint32_t trees;
    uint32_t rings;
};

/* What a play tells of other protocols' least times: below their times, and of it all of the load.
 */
static void check_least(uint64_t number, const struct tutti_sim_opts *opts,
                        const struct tutti_protocol *protocols,
                        const struct tutti_schedule *schedule, struct tutti_quotient *quotient,
                        const struct tutti_class_played *classes)
{
    struct tutti_fold_known known = {.quotients = {quotient}, .loads = classes->loads};

    for (size_t i = 0; i < TUTTI_PROTOCOLS; i++) {
        struct tutti_sim_opts other = *opts;
        tutti_ps least = tutti_fold_least_ps(&known, schedule, &protocols[i]);
        tutti_ps took;

        other.protocol = &protocols[i];
        took = play_all(&other, schedule).total_ps;
        if (least > took || least < protocols[i].launch_ps + classes->load_ps / 2)
            TEST_FAIL("case %" PRIu64 ": '%s' under %s takes %" PRId64 " ps; least %" PRId64
                      ", load %" PRId64,
                      number, schedule->name, protocols[i].name, took, least, classes->load_ps);
    }
}

static void try_case(struct tutti_random *random, uint64_t number, struct tally *tally)
{
    struct tutti_protocol protocols[TUTTI_PROTOCOLS];
    struct tutti_topo *topo = draw_machine(random);
    struct tutti_sim_opts opts = {
        .size = sizeof(struct tutti_sim_opts), .topo = topo, .model = TUTTI_MODEL_FAIR};
    struct tutti_schedule *schedule = draw_schedule(random, topo);
    bool ordered = below(random, 4) == 0;
    struct tutti_quotient quotient = {.lane_count = 0};
    struct tutti_class_played classes;

    if (below(random, 4) == 0)
        disturb(random, topo);
    draw_protocols(random, protocols);
    if (below(random, 2) == 0)
        opts.protocol = &protocols[below(random, TUTTI_PROTOCOLS)];
    if (below(random, 4) == 0)
        opts.reduce_bytes_per_s = UINT64_C(1000000) * (1 + below(random, 100000));
    if (schedule != NULL && tutti_quotient_find(topo, schedule, ordered, &quotient, NULL) == 0 &&
        tutti_class_play(&opts, schedule, &quotient, 0, &classes, NULL) == 0) {
        struct tutti_played played = play_all(&opts, schedule);

        if (played.total_ps != classes.end_ps || played.step_count != classes.step_count)
            TEST_FAIL("case %" PRIu64 ": '%s' on '%s' in %u classes: %" PRId64 " ps, %" PRIu64
                      " steps; all ranks: %" PRId64 " ps, %" PRIu64 " steps",
                      number, schedule->name, topo->name, quotient.lane_count, classes.end_ps,
                      classes.step_count, played.total_ps, played.step_count);
        if (number % 4 == 0)
            check_least(number, &opts, protocols, schedule, &quotient, &classes);
        tally->folded++;
        tally->trees += strstr(schedule->name, "tree") != NULL;
        tally->rings += strncmp(schedule->name, "ring", 4) == 0;
    }
    tutti_quotient_done(&quotient);
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
}

TEST(classes_take_as_long_as_all_ranks)
{
    struct tally tally = {.folded = 0};
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < test_count(60000, 3000); i++)
        try_case(&random, i, &tally);
    printf("%u folded, %u of them trees, %u rings\n", tally.folded, tally.trees, tally.rings);
    CHECK(tally.folded > test_share(300));
    CHECK(tally.trees > test_share(10));
    CHECK(tally.rings > test_share(30));
}

/* ---- scale ----------------------------------------------------------------------------------- */

static void folds(const char *spec, const char *algorithm, uint64_t count, uint32_t channels,
                  uint64_t steps_max)
{
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_FLOAT32,
                                       .op = TUTTI_SUM,
                                       .count = count,
                                       .channel_count = channels};
    struct tutti_topo *topo = machine(spec);
    struct tutti_sim_opts opts = {
        .size = sizeof(struct tutti_sim_opts), .topo = topo, .model = TUTTI_MODEL_FAIR};
    struct tutti_schedule *schedule = NULL;
    struct tutti_folded folded = {.class_count = 0};
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_coll_generate(algorithm, &params, &topo->shape, &schedule, &err), err);
    CHECK_OK(tutti_fold_play(&opts, schedule, steps_max, &folded, &err), err);
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
}

/* The limit on simulated steps would stop them if nothing were skipped. */
TEST(long_pipelines_are_not_played_to_the_end)
{
    folds("dgx-h100:nodes=32", "ring", UINT64_C(1) << 28, 2, 40000);
    folds("dgx-h100:nodes=8", "double-binary-tree", UINT64_C(1) << 30, 1, 300000);
}

/* ---- colours --------------------------------------------------------------------------------- */

/* Four ranks in a ring of links without latency, every other way through a switch. */
static const char ways_of_one_and_two[] =
    "node a device\nnode b device\nnode c device\nnode d device\nnode s switch\nnode t switch\n"
    "link a b nvlink 1GB/s 0us\nlink b s nvlink 1GB/s 0us\nlink s c nvlink 1GB/s 0us\n"
    "link c d nvlink 1GB/s 0us\nlink d t nvlink 1GB/s 0us\nlink t a nvlink 1GB/s 0us\n";

/* All about the first wires has the number 0; of such there may still be more or fewer. */
TEST(ways_of_zeros_are_told_apart_by_their_lengths)
{
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .op = TUTTI_SUM, .count = 4096};
    struct tutti_topo *topo = NULL;
    struct tutti_schedule *schedule = NULL;
    struct tutti_quotient quotient = {.lane_count = 0};
    struct tutti_class_played classes = {.end_ps = 0};
    struct tutti_err err = {.text = ""};
    struct tutti_sim_opts opts = {.size = sizeof(struct tutti_sim_opts), .model = TUTTI_MODEL_FAIR};

    CHECK_OK(
        tutti_topo_parse("test", ways_of_one_and_two, strlen(ways_of_one_and_two), &topo, &err),
        err);
    REQUIRE(topo != NULL);
    opts.topo = topo;
    CHECK_OK(tutti_coll_generate("ring", &params, &topo->shape, &schedule, &err), err);
    CHECK_OK(tutti_quotient_find(topo, schedule, false, &quotient, &err), err);
    REQUIRE(quotient.lane_count == 2);
    CHECK_OK(tutti_class_play(&opts, schedule, &quotient, 0, &classes, &err), err);
    CHECK_INT(classes.end_ps, play_all(&opts, schedule).total_ps);
    tutti_quotient_done(&quotient);
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
}
