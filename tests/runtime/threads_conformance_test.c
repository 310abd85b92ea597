/* The backend `threads` under the conformance suite, and what only real threads can be asked. */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "runtime/threads.h"
#include "tests/runtime/conformance_nccl.h"
#include "tests/runtime/conformance_overlap.h"

static int open_threads(uint32_t rank_count, struct tutti_backend **ret, struct tutti_err *err)
{
    struct tutti_threads_opts opts = {.size = sizeof(struct tutti_threads_opts),
                                      .pin = rank_count == 3}; /* pinned now and then */

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
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .iteration_count = 1,
                              .deadline_ps = 50 * TUTTI_PS_PER_MS};

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

/* One line that says it all; 0: the play ended. */
static int play_late(struct tutti_builder *builder, bool barrier, struct tutti_err *err)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_backend *backend = NULL;
    struct tutti_played played;
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .iteration_count = 2,
                              .barrier = barrier,
                              .deadline_ps = 20 * TUTTI_PS_PER_MS};
    int status;

    CHECK_OK(tutti_threads_open(NULL, &backend, err), *err);
    CHECK_OK(tutti_builder_finish(builder, &schedule, err), *err);
    play.schedule = schedule;
    status = tutti_backend_play(backend, &play, &played, err);
    CHECK(strchr(err->text, '\n') == NULL);
    tutti_schedule_free(schedule);
    tutti_backend_close(backend);
    return status;
}

TEST(a_deadline_names_a_send_that_gets_no_slot)
{
    struct tutti_builder *builder = conformance_builder(2, 1);
    struct tutti_step compute = {.kind = TUTTI_COMPUTE, .duration_ps = TUTTI_PS_PER_S / 4};
    struct tutti_err err = {{0}};

    CHECK_OK(tutti_builder_add(builder, 1, 0, &compute, &err), err);
    for (int i = 0; i < TUTTI_SLOTS_DEFAULT + 2; i++) {
        conformance_step(builder, 0, 0, TUTTI_SEND, 1, 4);
        conformance_step(builder, 1, 0, TUTTI_RECV, 0, 4);
    }
    CHECK_INT(play_late(builder, false, &err), -TUTTI_ETIME);
    CHECK(strstr(err.text, "deadline of 20ms passed: rank 0, lane 0, step 8 (SEND") == err.text);
}

TEST(a_deadline_names_who_waits_for_the_others_before_an_iteration)
{
    struct tutti_builder *builder = conformance_builder(2, 1);
    struct tutti_step compute = {.kind = TUTTI_COMPUTE, .duration_ps = TUTTI_PS_PER_S / 4};
    struct tutti_err err = {{0}};

    CHECK_OK(tutti_builder_add(builder, 0, 0, &compute, &err), err);
    CHECK_INT(play_late(builder, true, &err), -TUTTI_ETIME);
    CHECK_TEXT(err.text,
               "deadline of 20ms passed: rank 1 waits for the others before an iteration");
}

/* ---- pinning ---- */

struct pinned {
    atomic_bool ended;
    struct tutti_err err;
    int status;
};

static void *play_pinned(void *data)
{
    struct pinned *pinned = data;
    struct tutti_builder *builder = conformance_builder(2, 1);
    struct tutti_step compute = {.kind = TUTTI_COMPUTE, .duration_ps = TUTTI_PS_PER_S / 4};
    struct tutti_threads_opts opts = {.size = sizeof(struct tutti_threads_opts), .pin = true};
    struct tutti_backend *backend = NULL;

    for (uint32_t rank = 0; rank < 2; rank++)
        (void)tutti_builder_add(builder, rank, 0, &compute, &pinned->err);
    pinned->status = tutti_threads_open(&opts, &backend, &pinned->err);
    if (pinned->status == 0)
        pinned->status = conformance_run(builder, backend, NULL, &pinned->err);
    tutti_backend_close(backend);
    atomic_store(&pinned->ended, true);
    return NULL;
}

/* Threads of this process that may run on one processor only: a bit for each such processor. */
static uint64_t pinned_processors(void)
{
    DIR *tasks = opendir("/proc/self/task");
    uint64_t found = 0;

    for (struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
        cpu_set_t set;

        if (sched_getaffinity((pid_t)strtol(task->d_name, NULL, 10), sizeof(set), &set) != 0 ||
            task->d_name[0] == '.' || CPU_COUNT(&set) != 1)
            continue;
        for (unsigned i = 0; i < 64; i++)
            found |= CPU_ISSET(i, &set) ? UINT64_C(1) << i : 0;
    }
    if (tasks != NULL)
        closedir(tasks);
    return found;
}

TEST(pinned_ranks_have_a_processor_each)
{
    struct pinned pinned = {.ended = false};
    uint64_t found = 0;
    cpu_set_t mine;
    pthread_t thread;

    if (sched_getaffinity(0, sizeof(mine), &mine) != 0 || CPU_COUNT(&mine) < 2)
        SKIP("this process may run on one processor only");
    REQUIRE(pthread_create(&thread, NULL, play_pinned, &pinned) == 0);
    while (!atomic_load(&pinned.ended) && __builtin_popcountll(found) < 2) {
        found |= pinned_processors();
        sched_yield();
    }
    pthread_join(thread, NULL);
    CHECK_OK(pinned.status, pinned.err);
    CHECK_INT(__builtin_popcountll(found), 2);
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
    CHECK_TEXT(err.text, "rank 0, lane 0, step 0 computes 1000 flops, and a backend that "
                         "really plays does not know how long that takes (give the step a "
                         "duration)");
    tutti_backend_close(backend);
}
