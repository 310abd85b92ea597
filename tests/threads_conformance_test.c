/* The backend `threads` under the conformance suite, and what only real threads can be asked. */
#include "runtime/threads.h"
#include "tests/conformance.h"

static int open_threads(uint32_t rank_count, struct tutti_backend **ret, struct tutti_err *err)
{
    struct tutti_threads_opts opts = {.pin = rank_count == 3}; /* pinned now and then */

    return tutti_threads_open(&opts, ret, err);
}

static const struct conformance_subject subject = {.name = "threads", .open = open_threads};

TEST(a_deadline_passes_while_somebody_computes_and_names_who_waits)
{
    struct tutti_builder *builder = conformance_builder(2, 1);
    struct tutti_step compute = {.kind = TUTTI_COMPUTE, .duration_ps = TUTTI_PS_PER_S / 2};
    struct tutti_schedule *schedule = NULL;
    struct tutti_backend *backend = NULL;
    struct tutti_played played;
    struct tutti_err err = {{0}};
    struct tutti_play play = {.iteration_count = 1, .deadline_ps = 50 * TUTTI_PS_PER_MS};

    CHECK_OK(tutti_threads_open(NULL, &backend, &err), err);
    REQUIRE(backend != NULL);
    CHECK_OK(tutti_builder_add(builder, 0, 0, &compute, &err), err);
    conformance_step(builder, 0, 0, TUTTI_SEND, 1, 4);
    conformance_step(builder, 1, 0, TUTTI_RECV, 0, 4);
    CHECK_OK(tutti_builder_finish(builder, &schedule, &err), err);
    play.schedule = schedule;
    CHECK_INT(tutti_backend_play(backend, &play, &played, &err), -TUTTI_ETIME);
    CHECK(strstr(err.text, "deadline of 50ms passed: rank 1, lane 0, step 0 (RECV") == err.text);
    play.deadline_ps = 5 * TUTTI_PS_PER_S;
    CHECK_OK(tutti_backend_play(backend, &play, &played, &err), err);
    CHECK(played.total_ps >= compute.duration_ps);
    tutti_schedule_free(schedule);
    tutti_backend_close(backend);
}

TEST(a_deadlock_is_found_at_once_not_at_the_deadline)
{
    struct tutti_builder *builder = conformance_builder(3, 1);
    struct tutti_backend *backend = NULL;
    struct tutti_err err = {{0}};

    CHECK_OK(tutti_threads_open(NULL, &backend, &err), err);
    REQUIRE(backend != NULL);
    for (uint32_t r = 0; r < 3; r++) {
        conformance_step(builder, r, 0, TUTTI_RECV, (r + 1) % 3, 4);
        conformance_step(builder, r, 0, TUTTI_SEND, (r + 2) % 3, 4);
    }
    CHECK_INT(conformance_run(builder, backend, NULL, &err), -TUTTI_ECHECK);
    CHECK(strstr(err.text, "deadlock: rank ") == err.text);
    CHECK(strstr(err.text, "lane 0, step 0 (RECV") != NULL);
    tutti_backend_close(backend);
}

TEST(floating_point_work_without_a_duration_is_refused)
{
    struct tutti_builder *builder = conformance_builder(1, 1);
    struct tutti_step compute = {.kind = TUTTI_COMPUTE, .flops = 1000};
    struct tutti_backend *backend = NULL;
    struct tutti_err err = {{0}};

    CHECK_OK(tutti_threads_open(NULL, &backend, &err), err);
    REQUIRE(backend != NULL);
    CHECK_OK(tutti_builder_add(builder, 0, 0, &compute, &err), err);
    CHECK_INT(conformance_run(builder, backend, NULL, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "rank 0, lane 0, step 0 computes 1000 flops, and the backend 'threads' "
                         "does not know how long that takes (give the step a duration)");
    tutti_backend_close(backend);
}
