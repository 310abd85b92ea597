/* Ring by ring on machines with unequal links and ranks that start at different times: folded times
 * are those of all ranks, to the picosecond. */
#include "runtime/backend.h"
#include "sim/fold/fold.h"
#include "sim/fold/hops.h"
#include "sim/fold/phases.h"
#include "tests/sim/fold_cases.h"
#include "tests/sim/paced.h"
#include "tests/test.h"
#include "tests/topo/links.h"

enum { RANKS_MAX = 4096 };

static const char *const small[] = {
    "ring:n=3",          "ring:n=8,lat=5us", "ring:n=17,bw=3GB/s",
    "ring:n=40",         "torus:4x4",        "torus:3x3x3",
    "torus:3x4",         "torus:4x4x4",      "torus:6x6",
    "torus:5x5,lat=0ns", "dgx-h100:nodes=2", "dgx-h100:nodes=5",
    "dgx-h100:nodes=12", "switch:n=12",      "rail:nodes=6,gpus=4,group=2",
    "mesh:4x4",
};
static const char *const middling[] = {
    "ring:n=128",  "ring:n=500,lat=300ns", "torus:8x8",         "torus:16x16",
    "torus:5x5x5", "torus:4x8x8",          "dgx-h100:nodes=32", "dgx-h100:nodes=64",
};
static const char *const large[] = {
    "ring:n=4096",        "ring:n=4096,lat=100ns,bw=2GB/s", "torus:16x16x16", "torus:64x64",
    "dgx-h100:nodes=512",
};
static const char *const algorithms[] = {"ring", "ring-bidirectional", "torus", "hierarchical"};

/* What makes ranks and links differ. */
enum trouble { NONE, ONE_LINK, SLOW_NODES, RATES, LATENCIES, ANYTHING, TROUBLES };

static void trouble(struct tutti_random *random, struct tutti_topo *topo, enum trouble what)
{
    struct tutti_link *links = take_links(topo);
    uint32_t one = below(random, topo->link_count);
    uint64_t slow = 1 + below(random, 20);
    uint32_t part = 2 + below(random, 10);
    uint32_t seed = below(random, 1000);

    for (uint32_t i = 0; i < topo->link_count; i++) {
        uint64_t draw = tutti_random_hash(seed, links[i].from, 0, 0);

        if (what == ONE_LINK && i == one)
            links[i].bytes_per_s = links[i].bytes_per_s / slow + 1;
        if (what == SLOW_NODES && draw % part == 0) {
            links[i].bytes_per_s = links[i].bytes_per_s * 5 / 6;
            links[i].latency_ps = links[i].latency_ps * 6 / 5;
        }
        if (what == RATES || what == ANYTHING)
            links[i].bytes_per_s /= 1 + below(random, 3);
        if (what == LATENCIES || what == ANYTHING)
            links[i].latency_ps += below(random, 1 + (uint32_t)(links[i].latency_ps / 4));
    }
    put_links(topo, links);
}

struct scene {
    struct tutti_topo *topo;
    struct tutti_schedule *schedule;
    struct tutti_sim_opts opts;
    struct tutti_protocol protocols[TUTTI_PROTOCOLS];
    tutti_ps starts[RANKS_MAX];
};

static void draw_starts(struct tutti_random *random, struct scene *scene)
{
    static const uint32_t spreads[] = {1000, 100000, 5000000, 200000000};
    uint32_t spread = spreads[below(random, 4)];
    uint32_t part = 1 + below(random, 20);

    for (uint32_t i = 0; i < scene->topo->rank_count; i++)
        scene->starts[i] = below(random, part) == 0 ? below(random, spread) : 0;
    scene->opts.start_ps = scene->starts;
}

/* False where the algorithm does not fit the machine. */
static bool draw_scene(struct tutti_random *random, const char *spec, struct scene *scene)
{
    static const uint32_t counts[] = {3, 50, 3000, 100000};
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_FLOAT32,
                                       .channel_count = 1 + (below(random, 8) == 0),
                                       .slot_count = 1 + below(random, 12)};
    struct tutti_err err = {.text = ""};

    scene->topo = NULL;
    scene->schedule = NULL;
    scene->opts = (struct tutti_sim_opts){.size = sizeof(struct tutti_sim_opts),
                                          .model = TUTTI_MODEL_ALPHABETA};
    CHECK_OK(tutti_topo_from_spec(spec, &scene->topo, &err), err);
    if (below(random, 3) > 0)
        params.slot_count = 0;
    params.count =
        (uint64_t)scene->topo->rank_count * (1 + below(random, counts[below(random, 4)]));
    if (tutti_coll_generate(algorithms[below(random, 4)], &params, &scene->topo->shape,
                            &scene->schedule, NULL) < 0)
        return false;
    trouble(random, scene->topo, (enum trouble)below(random, TROUBLES));
    scene->opts.topo = scene->topo;
    if (below(random, 4) == 0)
        scene->opts.model = TUTTI_MODEL_FAIR;
    draw_costs(random, scene->topo, scene->protocols);
    if (below(random, 3) == 0)
        scene->opts.protocol = &scene->protocols[below(random, TUTTI_PROTOCOLS)];
    if (below(random, 8) == 0)
        scene->opts.reduce_bytes_per_s = UINT64_C(1000000000) * (1 + below(random, 1000));
    if (below(random, 3) == 0)
        draw_starts(random, scene);
    return tutti_phases_suit(scene->schedule);
}

struct tally {
    uint32_t folded;
    uint32_t late;
    uint32_t fair;
    uint32_t tori;
    uint32_t nests;
    uint32_t refused;
};

/* The same under another protocol first, so that its hops are known; or not. */
static void play_before(const struct scene *scene, uint64_t number, struct tutti_hops *known)
{
    struct tutti_sim_opts opts = scene->opts;
    struct tutti_folded folded;

    opts.protocol = number % 4 < TUTTI_PROTOCOLS ? &scene->protocols[number % 4] : NULL;
    if (number % 3 > 0)
        (void)tutti_phases_play(&opts, scene->schedule, 0, known, &folded, NULL);
}

/* No play ends before the time that is said to be the least. */
static void check_least(const struct scene *scene, struct tutti_hops *known, tutti_ps end_ps)
{
    const struct tutti_protocol *protocol = scene->opts.protocol;
    tutti_ps launch_ps = protocol != NULL ? protocol->launch_ps : 0;
    tutti_ps least_ps = tutti_phases_least_ps(known, scene->schedule, protocol);

    CHECK(least_ps > 0 || end_ps < 2 * TUTTI_PS_PER_US);
    CHECK(launch_ps + least_ps <= end_ps);
}

/* Plays a scene both ways, if it can be folded. */
static void compare(const struct scene *scene, uint64_t number, struct tally *tally)
{
    struct tutti_folded folded = {.class_count = 0};
    struct tutti_hops known = {.family_count = 0};
    struct tutti_err err = {.text = ""};
    struct tutti_played played;
    int status;

    play_before(scene, number, &known);
    status = tutti_phases_play(&scene->opts, scene->schedule, 0, &known, &folded, &err);
    if (status == 0)
        check_least(scene, &known, folded.end_ps);
    tutti_hops_done(&known);
    if (status < 0) {
        CHECK_INT(status, -TUTTI_ELACK);
        if (getenv("TUTTI_TEST_TALK") != NULL)
            printf("case %" PRIu64 ": '%s' on '%s': %s\n", number, scene->schedule->name,
                   scene->topo->name, err.text);
        tally->refused++;
        return;
    }
    played = play_all(&scene->opts, scene->schedule);
    if (played.total_ps != folded.end_ps || played.step_count != folded.step_count)
        TEST_FAIL("case %" PRIu64 ": '%s' on '%s' by %u ranks: %" PRId64 " ps, %" PRIu64
                  " steps; all ranks: %" PRId64 " ps, %" PRIu64 " steps",
                  number, scene->schedule->name, scene->topo->name, folded.class_count,
                  folded.end_ps, folded.step_count, played.total_ps, played.step_count);
    tally->folded++;
    tally->late += scene->opts.start_ps != NULL;
    tally->fair += scene->opts.model == TUTTI_MODEL_FAIR;
    tally->tori += strcmp(scene->schedule->name, "torus") == 0;
    tally->nests += strcmp(scene->schedule->name, "hierarchical") == 0;
}

static struct tally compare_many(const char *const *specs, uint32_t spec_count, uint64_t count)
{
    static struct scene scene;
    struct tally tally = {.folded = 0};
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < count; i++) {
        if (draw_scene(&random, specs[below(&random, spec_count)], &scene))
            compare(&scene, i, &tally);
        tutti_schedule_free(scene.schedule);
        tutti_topo_free(scene.topo);
    }
    printf("%u folded (%u with late ranks, %u under fair, %u tori, %u hierarchies), %u refused\n",
           tally.folded, tally.late, tally.fair, tally.tori, tally.nests, tally.refused);
    return tally;
}

TEST(rings_of_unequal_links_and_late_ranks)
{
    struct tally tally =
        compare_many(small, sizeof(small) / sizeof(small[0]), test_count(40000, 2000));

    CHECK(tally.folded > test_share(700));
    CHECK(tally.late > test_share(200));
    CHECK(tally.fair > test_share(50));
    CHECK(tally.tori > test_share(80));
    CHECK(tally.nests > test_share(80));
}

TEST(larger_ones)
{
    struct tally tally =
        compare_many(middling, sizeof(middling) / sizeof(middling[0]), test_count(3000, 60));

    CHECK(tally.folded > test_share(15));
}

TEST(four_thousand_ranks)
{
    uint64_t count = test_count(120, 5);
    struct tally tally = compare_many(large, sizeof(large) / sizeof(large[0]), count);

    CHECK(tally.folded >= count * 5 / 12); /* of a single one perhaps none */
}
