/* Pipelines along trees under alphabeta: rounds are skipped once they repeat, and all takes what it
 * does when every round is played. */
#include "runtime/coll.h"
#include "runtime/random.h"
#include "sim/fold/periods.h"
#include "sim/net/alphabeta.h"
#include "sim/queue/queue.h"
#include "tests/machines.h"
#include "tests/sim/play_all.h"

static uint32_t below(struct tutti_random *random, uint32_t bound)
{
    return (uint32_t)tutti_random_below(random, bound);
}

/* Whether rounds were skipped; it takes as long either way, in as many steps. */
static bool is_equal(const struct tutti_sim_opts *opts, const struct tutti_schedule *schedule,
                     int number)
{
    struct tutti_folded folded = {.end_ps = 0};
    struct tutti_err err = {.text = ""};
    struct tutti_played played;
    int status = tutti_periods_play(opts, schedule, 0, &folded, &err);

    if (status < 0) {
        CHECK_INT(status, -TUTTI_ELACK);
        return false;
    }
    played = play_all(opts, schedule);
    if (folded.end_ps != played.total_ps || folded.step_count != played.step_count)
        TEST_FAIL("case %d: '%s' on '%s': %lld ps and %llu steps, with skips %lld and %llu", number,
                  schedule->name, opts->topo->name, (long long)played.total_ps,
                  (unsigned long long)played.step_count, (long long)folded.end_ps,
                  (unsigned long long)folded.step_count);
    return folded.class_count > 0;
}

static struct tutti_schedule *make(const char *algorithm, const struct tutti_topo *topo,
                                   const struct tutti_coll_params *params)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_coll_generate(algorithm, params, &topo->shape, &schedule, &err), err);
    return schedule;
}

/* The double binary tree of a gigabyte: ever more ranks come to rest ever later. */
TEST(a_full_pipeline_comes_to_repeat)
{
    for (uint32_t n = 4; n <= 64; n *= 2) {
        struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                           .dtype = TUTTI_FLOAT32,
                                           .op = TUTTI_SUM,
                                           .count = 1 << 28};
        struct tutti_sim_opts opts = {.size = sizeof(opts), .model = TUTTI_MODEL_ALPHABETA};
        struct tutti_topo *topo;
        struct tutti_schedule *schedule;
        char spec[64];

        (void)snprintf(spec, sizeof(spec), "switch:n=%u,bw=50GB/s,lat=1us", n);
        opts.topo = topo = machine(spec);
        schedule = make("double-binary-tree", topo, &params);
        CHECK(is_equal(&opts, schedule, (int)n));
        tutti_schedule_free(schedule);
        tutti_topo_free(topo);
    }
}

static bool try_case(struct tutti_random *random, int number)
{
    static const char *const machines[] = {"switch:n=7,bw=50GB/s,lat=1us",
                                           "switch:n=12,bw=50GB/s,lat=1us",
                                           "switch:n=16",
                                           "ring:n=6,bw=50GB/s,lat=500ns",
                                           "torus:3x4",
                                           "dgx-h100:nodes=2"};
    static const char *const algorithms[] = {"double-binary-tree", "binomial", "reduce-broadcast"};
    size_t count = 0;
    const struct tutti_protocol *protocols = tutti_protocols(&count);
    uint32_t which = below(random, (uint32_t)count + 2);
    struct tutti_topo *topo =
        machine(machines[below(random, sizeof(machines) / sizeof(*machines))]);
    uint64_t items = 64 + below(random, 400);
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE,
        .dtype = TUTTI_FLOAT32,
        .op = TUTTI_SUM,
        .slot_count = 3 + below(random, 6),
        .slice_count = 1 + below(random, 3),
        .channel_count = 1 + below(random, 2),
        .chunk_bytes = 4 * (1 + below(random, 1u << below(random, 18))),
    };
    struct tutti_sim_opts opts = {.size = sizeof(opts),
                                  .topo = topo,
                                  .model = TUTTI_MODEL_ALPHABETA,
                                  .protocol = which < count ? &protocols[which] : NULL};
    struct tutti_schedule *schedule;
    bool skipped;

    params.count = items * params.channel_count * 2 * params.chunk_bytes / 4 + below(random, 3);
    if (below(random, 3) == 0)
        opts.reduce_bytes_per_s = UINT64_C(1000000) * (1 + below(random, 100000));
    schedule = make(algorithms[below(random, 3)], topo, &params);
    skipped = is_equal(&opts, schedule, number);
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
    return skipped;
}

TEST(skipped_rounds_take_what_they_do_played)
{
    uint32_t cases = (uint32_t)test_count(5000, 120);
    struct tutti_random random;
    uint32_t skipped = 0;

    tutti_random_seed(&random, test_seed);
    for (uint32_t i = 0; i < cases; i++)
        skipped += try_case(&random, (int)i);
    printf("%u of %u skip rounds\n", skipped, cases);
    /* Of few cases, drawn at random, few may have to do with it. */
    CHECK(cases < 100 || skipped > cases / 8);
}

/* Too many steps are given up, and the caller may do without. */
TEST(what_does_not_repeat_in_time_is_refused)
{
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .op = TUTTI_SUM, .count = 1 << 28};
    struct tutti_topo *topo = machine("switch:n=16");
    struct tutti_sim_opts opts = {
        .size = sizeof(opts), .topo = topo, .model = TUTTI_MODEL_ALPHABETA};
    struct tutti_schedule *schedule = make("double-binary-tree", topo, &params);
    struct tutti_err err = {.text = ""};
    struct tutti_folded folded;

    CHECK_INT(tutti_periods_play(&opts, schedule, 1000, &folded, &err), -TUTTI_ELACK);
    CHECK_TEXT(err.text, "'double-binary-tree': its rounds do not repeat in time");
    tutti_schedule_free(schedule);
    tutti_topo_free(topo);
}

/* What is in a queue, moved in time, comes out in the same order. */
TEST(a_queue_that_is_moved_keeps_its_order)
{
    struct tutti_queue queue = {.capacity = 0};
    struct tutti_queue_item items[200];
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    CHECK_INT(tutti_queue_reserve(&queue, 200), 0);
    for (int turn = 0; turn < 100; turn++) {
        uint32_t count = below(&random, 200);
        struct tutti_queue_item listed[200];

        tutti_queue_clear(&queue);
        for (uint32_t id = 0; id < count; id++)
            tutti_queue_put(&queue, id, below(&random, 1u << below(&random, 20)));
        CHECK_INT(tutti_queue_list(&queue, listed), count);
        tutti_queue_shift(&queue, 12345, items);
        for (uint32_t i = 0; i < count; i++) {
            tutti_ps at_ps;

            CHECK(tutti_queue_next(&queue, &at_ps));
            CHECK_INT(at_ps, listed[i].at_ps + 12345);
            CHECK_INT(tutti_queue_pop(&queue), listed[i].id);
        }
    }
    tutti_queue_done(&queue);
}
