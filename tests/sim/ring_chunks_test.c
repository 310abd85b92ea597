/* Rings whose chunks are of different lengths: the longest way of a chunk is what all ranks take,
 * to the picosecond, where it is said to be, and no play is shorter. */
#include "runtime/coll.h"
#include "sim/fold/fold.h"
#include "sim/fold/hops.h"
#include "sim/fold/ring_chunks.h"
#include "tests/sim/fold_cases.h"
#include "tests/sim/paced.h"
#include "tests/topo/links.h"

static const char *const specs[] = {
    "ring:n=2",          "ring:n=7",          "ring:n=40,lat=100ns,bw=3GB/s",
    "ring:n=16,lat=3us", "ring:n=64",         "switch:n=9",
    "dgx-h100",          "dgx-h100:nodes=2",  "dgx-h100:nodes=6,group=2",
    "dgx-h100:nodes=9",  "dgx-a100:nodes=3",  "rail:nodes=6,gpus=4,group=2",
    "mi300x:nodes=2",    "ring:n=12,lat=0ns",
};

struct scene {
    struct tutti_topo *topo;
    struct tutti_schedule *schedule; /* NULL: the algorithm does not fit */
    struct tutti_protocol protocols[TUTTI_PROTOCOLS];
    struct tutti_sim_opts opts;
};

static void draw_scene(struct tutti_random *random, struct scene *scene)
{
    static const uint32_t counts[] = {30, 1000, 50000, 4000000};
    const char *spec = specs[below(random, sizeof(specs) / sizeof(specs[0]))];
    struct tutti_coll_params params = {
        .collective = collectives[below(random, 3)],
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .count = 1 + below(random, counts[below(random, 4)]),
        .channel_count = below(random, 2) == 0 ? 1 : 1 + below(random, 4),
        .slot_count = below(random, 2) == 0 ? 0 : 1 + below(random, 8),
    };
    struct tutti_err err = {.text = ""};

    *scene = (struct scene){.topo = NULL};
    CHECK_OK(tutti_topo_from_spec(spec, &scene->topo, &err), err);
    (void)tutti_coll_generate(below(random, 2) == 0 ? "ring" : "ring-bidirectional", &params,
                              &scene->topo->shape, &scene->schedule, NULL);
    draw_costs(random, scene->topo, scene->protocols);
    if (below(random, 4) == 0)
        disturb(random, scene->topo);
    scene->opts = (struct tutti_sim_opts){.size = sizeof(struct tutti_sim_opts),
                                          .topo = scene->topo,
                                          .model = below(random, 4) == 0 ? TUTTI_MODEL_ALPHABETA
                                                                         : TUTTI_MODEL_FAIR};
    if (below(random, 5) > 0)
        scene->opts.protocol = &scene->protocols[below(random, TUTTI_PROTOCOLS)];
    if (below(random, 8) == 0)
        scene->opts.reduce_bytes_per_s = UINT64_C(1000000000) * (1 + below(random, 1000));
}

static void drop_scene(struct scene *scene)
{
    tutti_schedule_free(scene->schedule);
    tutti_topo_free(scene->topo);
}

TEST(the_longest_way_of_a_chunk_is_what_all_ranks_take)
{
    struct tutti_random random;
    uint32_t folded_count = 0;
    uint32_t uneven = 0;
    uint32_t several = 0;

    tutti_random_seed(&random, test_seed);
    for (uint64_t i = 0; i < test_count(50000, 1500); i++) {
        struct tutti_folded folded = {.end_ps = -1};
        struct tutti_hops hops = {.family_count = 0};
        tutti_ps least_ps = 0;
        struct scene scene;

        draw_scene(&random, &scene);
        if (scene.schedule != NULL && i % 2 == 0) /* hops found under one protocol, */
            CHECK_INT(tutti_ring_chunks_least(&scene.opts, scene.schedule, &hops, &least_ps), 0);
        if (i % 4 == 0) /* used under another */
            scene.opts.protocol = NULL;
        if (scene.schedule != NULL &&
            tutti_ring_chunks_play(&scene.opts, scene.schedule, &hops, &folded, NULL) == 0) {
            struct tutti_played played = play_all(&scene.opts, scene.schedule);

            if (played.total_ps != folded.end_ps || played.step_count != folded.step_count)
                TEST_FAIL("case %" PRIu64 ": '%s' on '%s': %" PRId64 " ps, %" PRIu64
                          " steps; all ranks: %" PRId64 " ps, %" PRIu64 " steps",
                          i, scene.schedule->name, scene.topo->name, folded.end_ps,
                          folded.step_count, played.total_ps, played.step_count);
            folded_count++;
            uneven += folded.class_count > 1;
            several += folded.class_count > 1 && scene.schedule->lane_count > 1;
        }
        tutti_hops_done(&hops);
        drop_scene(&scene);
    }
    printf("%u folded, %u uneven, %u of these on several lanes\n", folded_count, uneven, several);
    CHECK(folded_count > test_share(100));
    CHECK(uneven > test_share(90));
    CHECK(several > test_share(30));
}

TEST(no_play_is_shorter_than_the_longest_way)
{
    struct tutti_random random;
    uint32_t equal = 0;

    tutti_random_seed(&random, test_seed + 1);
    for (uint64_t i = 0; i < test_count(50000, 1000); i++) {
        tutti_ps least_ps = -1;
        struct scene scene;

        draw_scene(&random, &scene);
        if (scene.schedule != NULL) {
            struct tutti_played played = play_all(&scene.opts, scene.schedule);
            tutti_ps launch_ps = scene.opts.protocol != NULL ? scene.opts.protocol->launch_ps : 0;

            CHECK_INT(tutti_ring_chunks_least(&scene.opts, scene.schedule, NULL, &least_ps), 0);
            if (least_ps < 0 || launch_ps + least_ps > played.total_ps)
                TEST_FAIL("case %" PRIu64 ": '%s' on '%s': at least %" PRId64 " ps; took %" PRId64,
                          i, scene.schedule->name, scene.topo->name, launch_ps + least_ps,
                          played.total_ps);
            equal += launch_ps + least_ps + played.total_ps / 100 > played.total_ps;
        }
        drop_scene(&scene);
    }
    printf("%u within a hundredth\n", equal);
    CHECK(equal > test_share(150));
}

/* 262,144 elements for a million ranks: 5.5e12 steps. The longest way goes over a link of 1 us and
 * 50 GB/s 2,097,150 times. */
TEST(a_million_ranks_with_a_quarter_of_an_element_each)
{
    const struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                             .dtype = TUTTI_FLOAT32,
                                             .op = TUTTI_SUM,
                                             .count = 262144,
                                             .channel_count = 1};
    struct tutti_topo *topo = NULL;
    struct tutti_schedule *schedule = NULL;
    struct tutti_folded folded = {.end_ps = -1};
    struct tutti_err err = {.text = ""};
    struct tutti_sim_opts opts = {.size = sizeof(opts), .model = TUTTI_MODEL_FAIR};

    CHECK_OK(tutti_topo_from_spec("ring:n=1048576", &topo, &err), err);
    CHECK_OK(tutti_coll_generate("ring", &params, &topo->shape, &schedule, &err), err);
    opts.topo = topo;
    CHECK_OK(tutti_fold_play(&opts, schedule, 0, &folded, &err), err);
    CHECK_INT(folded.end_ps, INT64_C(2097150) * (1000000 + 80));
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
}
