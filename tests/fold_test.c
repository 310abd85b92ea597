/* Folding: what generators promise about their programs holds, and folded times are those of all
 * ranks, to the picosecond. */
#include "runtime/backend.h"
#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "sim/fold/fold.h"
#include "sim/sim.h"
#include "tests/test.h"
#include "topo/topo.h"

enum { PARTNERS = 64 };

static const enum tutti_collective collectives[] = {TUTTI_ALLREDUCE, TUTTI_REDUCESCATTER,
                                                    TUTTI_ALLGATHER};

static uint32_t below(struct tutti_random *random, uint32_t bound)
{
    return (uint32_t)tutti_random_below(random, bound);
}

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

/* A random schedule for a machine, or NULL where the algorithm does not fit. */
static struct tutti_schedule *draw_schedule(struct tutti_random *random,
                                            const struct tutti_topo *topo, bool even)
{
    size_t count = 0;
    const struct tutti_algorithm *algorithms = tutti_algorithms(&count);
    static const char *const nests[] = {"ring", "ring-bidirectional", "torus", "hierarchical"};
    uint32_t any = below(random, (uint32_t)count);
    const char *name = below(random, 4) == 0 ? algorithms[any].name : nests[below(random, 4)];
    struct tutti_coll_params params = {
        .collective = collectives[below(random, 3)],
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .channel_count = 1 + below(random, 2),
        .slice_count = 1 + below(random, 3),
        .slot_count = 1 + below(random, 8),
    };
    struct tutti_schedule *schedule = NULL;

    params.count = below(random, 5000);
    if (even)
        params.count = (uint64_t)topo->rank_count * 12 * params.channel_count * below(random, 200);
    if (below(random, 3) == 0)
        params.chunk_bytes = 4 + 4 * below(random, 2000);
    if (tutti_coll_generate(name, &params, &topo->shape, &schedule, NULL) < 0)
        return NULL;
    return schedule;
}

static const char *const machines[] = {
    "ring:n=2",
    "ring:n=3",
    "ring:n=12",
    "ring:n=24,bw=7GB/s",
    "switch:n=2",
    "switch:n=9",
    "switch:n=16",
    "torus:4x4",
    "torus:4x6",
    "torus:3x4x5",
    "torus:2x4",
    "torus:8x3",
    "mesh:4x4",
    "dgx-h100",
    "dgx-h100:nodes=2",
    "dgx-h100:nodes=4",
    "tpu-v4:2x2x4",
    "tpu-v4:4x4x4",
    "full:n=6",
    "fattree:arity=3,levels=2",
    "rail:nodes=6,gpus=4,group=2",
    "torus:5x5,lat=0ns",
    "ring:n=16,lat=13us,bw=900MB/s",
};

static struct tutti_topo *draw_machine(struct tutti_random *random)
{
    uint32_t count = (uint32_t)(sizeof(machines) / sizeof(machines[0]));
    struct tutti_topo *topo = NULL;
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_topo_from_spec(machines[below(random, count)], &topo, &err), err);
    return topo;
}

TEST(generators_keep_the_promise_of_equal_programs)
{
    struct tutti_random random;
    uint32_t promised = 0;

    tutti_random_seed(&random, test_seed);
    for (int i = 0; i < (test_full ? 20000 : 1500); i++) {
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
                    TEST_FAIL("case %d: '%s' on '%s': lane %u of rank %u is not that of rank 0", i,
                              schedule->name, topo->name, lane, rank);
            }
        }
        tutti_schedule_free(schedule);
        tutti_topo_free(topo);
    }
    CHECK(promised > 100);
}

/* ---- times ----------------------------------------------------------------------------------- */

/* Makes links unequal, in a pattern that repeats every few nodes, or one link. */
static void disturb(struct tutti_random *random, struct tutti_topo *topo)
{
    struct tutti_link *links = (struct tutti_link *)(uintptr_t)topo->links;
    uint32_t period = 1 + below(random, 4);
    uint32_t phase = below(random, period);
    uint32_t one = below(random, topo->link_count);
    uint32_t what = below(random, 5);

    for (uint32_t i = 0; i < topo->link_count; i++) {
        bool hit = what <= 2 ? links[i].from % period == phase : i == one;

        if (!hit || what == 0)
            continue;
        links[i].latency_ps += 777;
        if (what % 2 == 0)
            links[i].bytes_per_s = links[i].bytes_per_s / 3 + 1;
    }
}

static struct tutti_played play(const struct tutti_sim_opts *opts,
                                const struct tutti_schedule *schedule)
{
    struct tutti_play play = {.schedule = schedule, .iteration_count = 1};
    struct tutti_played played = {.total_ps = -1};
    struct tutti_backend *backend = NULL;
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_sim_open(opts, &backend, &err), err);
    CHECK_OK(tutti_backend_play(backend, &play, &played, &err), err);
    tutti_backend_close(backend);
    return played;
}

TEST(folded_times_are_those_of_all_ranks)
{
    struct tutti_random random;
    size_t protocol_count = 0;
    const struct tutti_protocol *protocols = tutti_protocols(&protocol_count);
    uint32_t folded_count = 0;
    uint32_t several = 0;
    uint32_t fair = 0;

    tutti_random_seed(&random, test_seed);
    for (int i = 0; i < (test_full ? 100000 : 6000); i++) {
        struct tutti_topo *topo = draw_machine(&random);
        struct tutti_sim_opts opts = {.topo = topo};
        struct tutti_schedule *schedule = NULL;
        struct tutti_folded folded = {.class_count = 0};
        int status = -TUTTI_ELACK;

        disturb(&random, topo);
        if (below(&random, 3) == 0)
            opts.model = TUTTI_MODEL_FAIR;
        if (below(&random, 2) == 0)
            opts.protocol = &protocols[below(&random, (uint32_t)protocol_count)];
        if (below(&random, 2) == 0)
            opts.reduce_bytes_per_s = UINT64_C(1000000) * (1 + below(&random, 100000));
        schedule = draw_schedule(&random, topo, i % 4 != 0);
        if (schedule != NULL)
            status = tutti_fold_play(&opts, schedule, 0, &folded, NULL);
        if (status == 0) {
            struct tutti_played played = play(&opts, schedule);

            if (played.total_ps != folded.end_ps || played.step_count != folded.step_count)
                TEST_FAIL("case %d: '%s' on '%s' in %u classes: %" PRId64 " ps, %" PRIu64
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
    CHECK(fair > 40);
    CHECK(folded_count > 300);
    CHECK(several > 150);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refused(const char *spec, const char *algorithm, uint64_t count, uint32_t channels,
                    struct tutti_sim_opts opts, uint64_t steps, const char *message)
{
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_FLOAT32,
                                       .op = TUTTI_SUM,
                                       .count = count,
                                       .channel_count = channels};
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

TEST(what_does_not_fold_says_why)
{
    const struct tutti_sim_opts plain = {.model = TUTTI_MODEL_ALPHABETA};
    const struct tutti_sim_opts fair = {.model = TUTTI_MODEL_FAIR};
    const struct tutti_sim_opts jitter = {.jitter = 0.1};
    const tutti_ps starts[8] = {0, 0, 0, 0, 0, 0, 0, 1};
    const struct tutti_sim_opts skewed = {.start_ps = starts};

    refused("ring:n=8", "ring", 64, 2, fair, 0, "connections share links, which 'fair' divides");
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
}
