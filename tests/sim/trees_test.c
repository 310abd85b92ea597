/* Trees of one item are played shape by shape on a switch, and take what they do rank by rank. */
#include "runtime/coll.h"
#include "runtime/random.h"
#include "sim/fold/fold.h"
#include "sim/fold/trees.h"
#include "sim/sim.h"
#include "tests/machines.h"
#include "tests/sim/play_all.h"

static uint32_t below(struct tutti_random *random, uint32_t bound)
{
    return (uint32_t)tutti_random_below(random, bound);
}

struct tree_case {
    const char *algorithm;
    uint32_t n;
    uint64_t count;
    enum tutti_collective collective;
    struct tutti_sim_opts opts;
};

static struct tutti_schedule *make(const struct tree_case *of)
{
    struct tutti_coll_params params = {
        .collective = of->collective,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .count = of->collective == TUTTI_BARRIER ? 0 : of->count,
        .root = of->collective == TUTTI_BROADCAST ? of->n / 3 : 0,
        .chunk_bytes = 1 << 30,
    };
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_coll_generate(of->algorithm, &params, &of->opts.topo->shape, &schedule, &err),
             err);
    return schedule;
}

/* Whether it folds; then it takes as long, in as many steps. */
static bool is_equal(struct tree_case *of)
{
    struct tutti_topo *topo;
    struct tutti_schedule *schedule;
    struct tutti_folded folded = {.end_ps = 0};
    struct tutti_err err = {.text = ""};
    struct tutti_played played;
    char spec[64];
    int status;

    (void)snprintf(spec, sizeof(spec), "switch:n=%u,bw=50GB/s,lat=1us", of->n);
    of->opts.topo = topo = machine(spec);
    of->opts.size = sizeof(struct tutti_sim_opts);
    schedule = make(of);
    status = tutti_trees_play(&of->opts, schedule, &folded, &err);
    if (status == 0) {
        played = play_all(&of->opts, schedule);
        if (folded.end_ps != played.total_ps || folded.step_count != played.step_count)
            TEST_FAIL("%s of %u ranks, %llu elements, %s, %s: %lld ps and %llu steps, folded %lld "
                      "and %llu",
                      of->algorithm, of->n, (unsigned long long)of->count,
                      tutti_model_name(of->opts.model),
                      of->opts.protocol != NULL ? of->opts.protocol->name : "none",
                      (long long)played.total_ps, (unsigned long long)played.step_count,
                      (long long)folded.end_ps, (unsigned long long)folded.step_count);
    } else {
        CHECK_INT(status, -TUTTI_ELACK);
    }
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
    return status == 0;
}

/* Ranks of equal numbers have children of equal numbers, in the same order, whatever the size. */
TEST(subtrees_of_equal_numbers_are_equal)
{
    for (uint32_t n = 2; n <= 130; n++) {
        struct tree_case of = {.algorithm = n % 2 == 0 ? "double-binary-tree" : "binomial",
                               .n = n,
                               .count = 1000,
                               .collective = TUTTI_ALLREDUCE};
        struct tutti_topo *topo;
        struct tutti_schedule *schedule;
        struct tutti_rank_tree tree;
        uint64_t keys[130];
        uint64_t of_children[130];
        char spec[64];

        (void)snprintf(spec, sizeof(spec), "switch:n=%u", n);
        of.opts.topo = topo = machine(spec);
        schedule = make(&of);
        for (uint32_t t = 0; schedule->ops->tree(schedule, t, &tree); t++) {
            for (uint32_t rank = 0; rank < n; rank++) {
                struct tutti_cursor cursor;
                const struct tutti_step *step;

                keys[rank] = schedule->ops->subtree(schedule, t, rank);
                of_children[rank] = 0;
                tutti_cursor_open(&cursor, schedule, rank, tree.up_lane);
                while ((step = tutti_cursor_next(&cursor)) != NULL) {
                    if (step->kind == TUTTI_RECV)
                        of_children[rank] = tutti_random_hash(
                            of_children[rank] + 1, schedule->ops->subtree(schedule, t, step->peer),
                            0, 0);
                }
            }
            for (uint32_t i = 0; i < n * n; i++) {
                if (keys[i / n] == keys[i % n])
                    CHECK(of_children[i / n] == of_children[i % n]);
            }
        }
        tutti_schedule_free(schedule);
        tutti_topo_free(topo);
    }
}

/* Sizes about powers of two and between, short and long messages, both models. */
TEST(shapes_take_what_ranks_do)
{
    static const uint32_t sizes[] = {2,   3,   4,   5,   6,   7,   8,   9,    12,   15,  16,
                                     17,  24,  31,  32,  33,  63,  64,  65,   96,   100, 127,
                                     128, 129, 255, 256, 257, 512, 777, 1000, 1024, 4096};
    static const uint64_t counts[] = {1, 4099, 1 << 20};
    uint32_t cases = 0;
    uint32_t folds = 0;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        for (size_t k = 0; k < 3; k++) {
            for (int which = 0; which < 4; which++) {
                struct tree_case of = {
                    .algorithm = which < 2 ? "binomial" : "double-binary-tree",
                    .n = sizes[i],
                    .count = counts[k],
                    .collective = TUTTI_ALLREDUCE,
                    .opts = {.model = which % 2 == 0 ? TUTTI_MODEL_FAIR : TUTTI_MODEL_ALPHABETA}};
                bool folded = is_equal(&of);

                /* Without a second tree nothing can be in the way, nor where all leaves are at one
                 * depth. */
                if (which < 2 || (sizes[i] & (sizes[i] - 1)) == 0)
                    CHECK(folded);
                cases++;
                folds += folded;
            }
        }
    }
    printf("%u of %u fold\n", folds, cases);
    CHECK(folds > cases * 3 / 4);
}

static void draw(struct tutti_random *random, struct tree_case *of)
{
    static const enum tutti_collective collectives[] = {
        TUTTI_ALLREDUCE, TUTTI_ALLREDUCE, TUTTI_BROADCAST, TUTTI_REDUCE_TO_ROOT, TUTTI_BARRIER};
    size_t count = 0;
    const struct tutti_protocol *protocols = tutti_protocols(&count);
    uint32_t which = below(random, (uint32_t)count + 1);

    *of = (struct tree_case){.algorithm = "binomial",
                             .n = 2 + below(random, 1u << (1 + below(random, 8))),
                             .count = below(random, 1u << below(random, 22)),
                             .collective = collectives[below(random, 5)]};
    if (of->collective == TUTTI_ALLREDUCE && below(random, 2) > 0)
        of->algorithm = "double-binary-tree";
    of->opts.model = below(random, 2) > 0 ? TUTTI_MODEL_FAIR : TUTTI_MODEL_ALPHABETA;
    of->opts.protocol = which < count ? &protocols[which] : NULL;
    if (below(random, 3) == 0)
        of->opts.reduce_bytes_per_s = UINT64_C(1000000) * (1 + below(random, 100000));
}

TEST(any_tree_that_folds_takes_what_it_does_unfolded)
{
    uint32_t cases = (uint32_t)test_count(20000, 400);
    struct tutti_random random;
    uint32_t folds = 0;

    tutti_random_seed(&random, test_seed);
    for (uint32_t i = 0; i < cases; i++) {
        struct tree_case of;

        draw(&random, &of);
        folds += is_equal(&of);
    }
    printf("%u of %u fold\n", folds, cases);
    CHECK(folds > cases / 2);
}

/* What is not one switch, or has several items, is left to others. */
TEST(what_is_no_such_tree_is_refused)
{
    static const char *const specs[] = {"dgx-h100:nodes=2", "torus:4x4", "ring:n=8"};
    struct tutti_err err = {.text = ""};
    struct tutti_folded folded;

    for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
        struct tutti_topo *topo = machine(specs[i]);
        struct tree_case of = {.algorithm = "binomial",
                               .n = topo->rank_count,
                               .count = 1000,
                               .opts = {.size = sizeof(struct tutti_sim_opts), .topo = topo}};
        struct tutti_schedule *schedule = make(&of);

        CHECK_INT(tutti_trees_play(&of.opts, schedule, &folded, &err), -TUTTI_ELACK);
        tutti_schedule_free(schedule);
        tutti_topo_free(topo);
    }
}
