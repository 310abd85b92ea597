/* The conformance suite, continued: schedules that call others, laid out by the backend's door. */
#ifndef TUTTI_TESTS_RUNTIME_CONFORMANCE_CALLS_H
#define TUTTI_TESTS_RUNTIME_CONFORMANCE_CALLS_H

#include "tests/runtime/conformance.h"
#include "tests/runtime/conformance_steps.h"

/* A part of the collective in a schedule of its own. */
static struct tutti_schedule *calls_part(const char *algorithm, enum tutti_collective collective,
                                         uint32_t n, uint64_t count)
{
    const struct tutti_coll_params params = {.collective = collective,
                                             .dtype = TUTTI_INT32,
                                             .count = count,
                                             .channel_count = 1 + n % 2,
                                             .slot_count = TUTTI_SLOTS_DEFAULT};
    const struct tutti_shape shape = tutti_shape_flat(n);
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {{0}};

    CHECK_OK(tutti_coll_generate(algorithm, &params, &shape, &schedule, &err), err);
    return schedule;
}

static void calls_add(struct tutti_builder *builder, uint32_t n, uint32_t callee,
                      struct tutti_step call)
{
    struct tutti_err err = {{0}};

    call.kind = TUTTI_CALL;
    call.peer = callee;
    for (uint32_t rank = 0; rank < n; rank++)
        CHECK_OK(tutti_builder_add(builder, rank, 0, &call, &err), err);
}

/* All-reduce of n * count integers: reduce-scatter into scratch, all-gather from there. */
static struct tutti_schedule *calls_build(const char *down, const char *up, uint32_t n,
                                          uint64_t count)
{
    struct tutti_schedule *parts[2] = {calls_part(down, TUTTI_REDUCESCATTER, n, count),
                                       calls_part(up, TUTTI_ALLGATHER, n, count)};
    struct tutti_schedule_desc desc = {
        .name = "calls",
        .contract = {.collective = TUTTI_ALLREDUCE, .dtype = TUTTI_INT32, .count = n * count},
        .rank_count = n,
        .lane_count = 1,
        .scratch_bytes = count * 4 + parts[0]->scratch_bytes + parts[1]->scratch_bytes};
    struct tutti_step first = {
        .src_buf = TUTTI_BUF_IN, .dst_buf = TUTTI_BUF_SCRATCH, .acc_offset = count * 4};
    struct tutti_step second = {
        .src_buf = TUTTI_BUF_SCRATCH, .dst_buf = TUTTI_BUF_OUT, .acc_offset = count * 4};
    struct tutti_schedule *schedule = NULL;
    struct tutti_builder *builder = NULL;
    struct tutti_err err = {{0}};
    uint32_t index = 0;

    CHECK_OK(tutti_builder_new(&desc, &builder, &err), err);
    for (int i = 0; i < 2; i++)
        CHECK_OK(tutti_builder_add_callee(builder, parts[i], &index, &err), err);
    calls_add(builder, n, 0, first);
    calls_add(builder, n, 1, second);
    CHECK_OK(tutti_builder_finish(builder, &schedule, &err), err);
    return schedule;
}

static void calls_play(struct tutti_backend *backend, struct tutti_schedule *schedule)
{
    static struct performance p; /* large, and cleared by each close */
    struct tutti_schedule *flat = NULL;
    struct tutti_record record;
    struct tutti_played played = {0};
    struct tutti_err err = {{0}};
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .schedule = schedule,
                              .iteration_count = 2,
                              .record = &record};

    tutti_record_init(&record);
    CHECK(performance_open(&p, schedule, test_seed));
    tutti_backend_ranks(backend, schedule->rank_count, &p.first_rank, &p.own_count);
    play.in = (const void *const *)p.in;
    play.out = (void *const *)p.out;
    CHECK_OK(tutti_backend_play(backend, &play, &played, &err), err);
    CHECK_INT(performance_wrong_integers(&p), 0);
    CHECK_INT(performance_damage(&p, test_seed), 0);
    CHECK_OK(tutti_schedule_flatten(schedule, &flat, &err), err);
    if (flat != NULL)
        CHECK(tutti_record_hash(&record, 0) == performance_hash(flat));
    tutti_schedule_free(flat);
    tutti_record_done(&record);
    performance_close(&p);
}

TEST(calls_give_the_bytes_of_the_contract_and_the_record_of_the_laid_out_programs)
{
    static const char *const downs[] = {"ring", "halving", "direct"};
    static const char *const ups[] = {"direct", "ring", "recursive-doubling"};
    static const uint32_t ranks[] = {1, 2, 3, 4, 7};

    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        struct tutti_backend *backend = NULL;
        struct tutti_err err = {{0}};

        CHECK_OK(subject.open(ranks[i], &backend, &err), err);
        REQUIRE(backend != NULL);
        for (size_t k = 0; k < 3; k++)
            calls_play(backend, calls_build(downs[k], ups[k], ranks[i], 100 * k + 5));
        tutti_backend_close(backend);
    }
}

#endif
