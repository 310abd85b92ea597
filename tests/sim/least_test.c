/* What plays under one protocol tell of others: never more than those take. */
#include "runtime/backend.h"
#include "runtime/coll.h"
#include "runtime/random.h"
#include "sim/fold/class_play.h"
#include "sim/fold/fold.h"
#include "sim/fold/quotient.h"
#include "sim/play/busiest.h"
#include "sim/play/drained.h"
#include "sim/sim.h"
#include "tests/machines.h"
#include "tests/sim/play_all.h"

static uint32_t below(struct tutti_random *random, uint32_t bound)
{
    return (uint32_t)tutti_random_below(random, bound);
}

/* An algorithm that fits, or NULL, at a size from nothing to some MiB. */
static struct tutti_schedule *draw_schedule(struct tutti_random *random,
                                            const struct tutti_topo *topo)
{
    size_t count = 0;
    const struct tutti_algorithm *algorithms = tutti_algorithms(&count);
    struct tutti_coll_params params = {
        .collective = below(random, 4) > 0 ? TUTTI_ALLREDUCE : TUTTI_BROADCAST,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .count = below(random, 1u << below(random, 22)),
        .channel_count = 1 + below(random, 2),
        .slot_count = 1 + below(random, 8),
        .chunk_bytes = below(random, 3) == 0 ? 64u << below(random, 12) : 0,
    };
    struct tutti_schedule *schedule = NULL;

    for (int i = 0; i < 40 && schedule == NULL; i++)
        (void)tutti_coll_generate(algorithms[below(random, (uint32_t)count)].name, &params,
                                  &topo->shape, &schedule, NULL);
    return schedule;
}

/* Notes plays of all ranks and of classes. */
static void note_plays(struct tutti_fold_known *known, const struct tutti_sim_opts *opts,
                       const struct tutti_schedule *schedule)
{
    struct tutti_play play = {
        .size = sizeof(struct tutti_play), .schedule = schedule, .iteration_count = 1};
    struct tutti_played played = {.total_ps = 0};
    struct tutti_quotient quotient = {.lane_count = 0};
    struct tutti_class_played classes;
    struct tutti_backend *backend = NULL;
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_sim_open(opts, &backend, &err), err);
    CHECK_OK(tutti_backend_play(backend, &play, &played, &err), err);
    CHECK(tutti_sim_drain_ps_max(backend) >= 0);
    tutti_fold_note_took(known, opts, played.total_ps, tutti_sim_drain_ps_max(backend));
    tutti_backend_close(backend);
    if (opts->model == TUTTI_MODEL_FAIR && opts->start_ps == NULL &&
        tutti_quotient_find(opts->topo, schedule, false, &quotient, NULL) == 0 &&
        tutti_class_play(opts, schedule, &quotient, 0, &classes, NULL) == 0)
        tutti_fold_note_took(known, opts, classes.end_ps, classes.drain_ps_max);
    tutti_quotient_done(&quotient);
}

static uint32_t try_case(struct tutti_random *random, int number)
{
    static const char *const machines[] = {
        "ring:n=6",       "switch:n=8",       "torus:3x4",
        "dgx-h100",       "dgx-h100:nodes=2", "dgx-h100:nodes=6,group=2",
        "dgx-1v:nodes=2", "full:n=6",         "pcie:gpus=4,sockets=2,switches=2,gen=4",
    };
    size_t count = 0;
    const struct tutti_protocol *protocols = tutti_protocols(&count);
    struct tutti_topo *topo =
        machine(machines[below(random, sizeof(machines) / sizeof(*machines))]);
    struct tutti_sim_opts opts = {.size = sizeof(struct tutti_sim_opts),
                                  .topo = topo,
                                  .model = below(random, 3) > 0 ? TUTTI_MODEL_FAIR
                                                                : TUTTI_MODEL_ALPHABETA,
                                  .protocol = &protocols[below(random, (uint32_t)count)]};
    struct tutti_schedule *schedule = draw_schedule(random, topo);
    struct tutti_fold_known known = {.took_count = 0};
    tutti_ps starts[64] = {0};
    uint32_t told = 0;

    if (below(random, 4) == 0)
        opts.reduce_bytes_per_s = UINT64_C(1000000) * (1 + below(random, 100000));
    for (uint32_t rank = 0; rank < topo->rank_count; rank++)
        starts[rank] = below(random, 20000000);
    if (below(random, 4) == 0)
        opts.start_ps = starts;
    if (schedule != NULL)
        note_plays(&known, &opts, schedule);
    for (size_t i = 0; i < count && schedule != NULL; i++) {
        struct tutti_sim_opts other = opts;
        tutti_ps least = tutti_fold_least_ps(&known, schedule, &protocols[i]);
        tutti_ps took;

        other.protocol = &protocols[i];
        took = play_all(&other, schedule).total_ps;
        told += other.protocol != opts.protocol && least > protocols[i].launch_ps;
        if (least > took)
            TEST_FAIL("case %d: '%s' on '%s' under %s takes %" PRId64
                      " ps; by %s at least %" PRId64,
                      number, schedule->name, topo->name, protocols[i].name, took,
                      opts.protocol->name, least);
    }
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
    return told;
}

/* Whether what the busiest link needs is more than half of what a play takes, and never more. */
static bool try_load(struct tutti_random *random, int number)
{
    static const char *const machines[] = {"ring:n=6", "switch:n=8", "torus:3x4",
                                           "dgx-h100:nodes=2", "dgx-1v:nodes=2"};
    size_t count = 0;
    const struct tutti_protocol *protocols = tutti_protocols(&count);
    size_t which = below(random, (uint32_t)count + 1);
    struct tutti_topo *topo =
        machine(machines[below(random, sizeof(machines) / sizeof(*machines))]);
    struct tutti_sim_opts opts = {.size = sizeof(struct tutti_sim_opts),
                                  .topo = topo,
                                  .model = below(random, 2) > 0 ? TUTTI_MODEL_FAIR
                                                                : TUTTI_MODEL_ALPHABETA,
                                  .protocol = which < count ? &protocols[which] : NULL};
    struct tutti_schedule *schedule = draw_schedule(random, topo);
    struct tutti_err err = {.text = ""};
    uint64_t *loads = NULL;
    tutti_ps least_ps = 0;
    tutti_ps took_ps = 0;

    if (schedule != NULL) {
        CHECK_OK(tutti_busiest_loads(&opts, schedule, &loads, &err), err);
        least_ps = tutti_busiest_least_ps(&opts, loads);
        took_ps = play_all(&opts, schedule).total_ps;
        if (least_ps > took_ps)
            TEST_FAIL("case %d: '%s' on '%s' takes %" PRId64 " ps; its links %" PRId64, number,
                      schedule->name, topo->name, took_ps, least_ps);
    }
    free(loads);
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
    return 2 * least_ps > took_ps;
}

TEST(no_play_is_faster_than_its_busiest_link)
{
    struct tutti_random random;
    uint32_t close = 0;

    tutti_random_seed(&random, test_seed);
    for (int i = 0; i < (int)test_count(20000, 300); i++)
        close += try_load(&random, i);
    printf("%u plays take less than twice what their busiest link does\n", close);
    CHECK(close > test_share(30));
}

TEST(least_times_are_true)
{
    struct tutti_random random;
    uint32_t told = 0;

    tutti_random_seed(&random, test_seed);
    for (int i = 0; i < (int)test_count(20000, 300); i++)
        told += try_case(&random, i);
    printf("%u least times told by other plays\n", told);
    CHECK(told > test_share(60));
}
