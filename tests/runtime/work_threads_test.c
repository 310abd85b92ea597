/* Works that are really done beside the messages of their rank: who does them, in what order, what
 * records say, deadlines, an emulated machine that this one cannot keep up with, and allocations
 * that fail. That messages go on meanwhile: conformance_overlap.h. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "runtime/record.h"
#include "runtime/threads.h"
#include "sim/sim.h"
#include "tests/alloc_fail.h"
#include "tests/runtime/emulated.h"
#include "tests/runtime/small.h"

enum { WORK_COUNT = 2, LANES = 3, EVENTS_MAX = 64 };

/* What the works of a play have seen. */
static struct {
    atomic_int sleep_ms;  /* how long each takes, */
    atomic_int quick;     /* but those of this lane; -1: none */
    atomic_int under_way; /* of rank 0 */
    atomic_bool two_at_once;
    atomic_int begun_count;       /* of rank 0 */
    atomic_int order[EVENTS_MAX]; /* the lanes of works of rank 0, as they began */
    atomic_int ended_count;       /* of all ranks */
    pthread_t caller;             /* whose thread is that of rank 0 */
    atomic_int here_count;        /* works of rank 0 done there */
} seen;

static void reset(int sleep_ms)
{
    atomic_store(&seen.sleep_ms, sleep_ms);
    atomic_store(&seen.quick, -1);
    atomic_store(&seen.under_way, 0);
    atomic_store(&seen.two_at_once, false);
    atomic_store(&seen.begun_count, 0);
    atomic_store(&seen.ended_count, 0);
    atomic_store(&seen.here_count, 0);
    seen.caller = pthread_self();
}

static void pause_ms(int ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    (void)nanosleep(&pause, NULL);
}

/* The lane of a work is 0 or 1, as its entry. */
static int sleep_a_while(const struct tutti_work_call *call, struct tutti_err *err)
{
    (void)err;
    if (call->rank == 0) {
        if (atomic_fetch_add(&seen.under_way, 1) > 0)
            atomic_store(&seen.two_at_once, true);
        atomic_store(&seen.order[atomic_fetch_add(&seen.begun_count, 1) % EVENTS_MAX],
                     call->work->name[0] - '0');
        atomic_fetch_add(&seen.here_count, pthread_equal(pthread_self(), seen.caller) != 0);
    }
    if (call->work->name[0] - '0' != atomic_load(&seen.quick))
        pause_ms(atomic_load(&seen.sleep_ms));
    if (call->rank == 0)
        atomic_fetch_sub(&seen.under_way, 1);
    atomic_fetch_add(&seen.ended_count, 1);
    return 0;
}

static const struct tutti_work works[WORK_COUNT] = {
    {.name = "0", .duration_ps = 5 * TUTTI_PS_PER_MS, .run = sleep_a_while},
    {.name = "1", .duration_ps = 5 * TUTTI_PS_PER_MS, .run = sleep_a_while},
};

static struct tutti_builder *open_builder(uint32_t rank_count)
{
    return small_builder((struct tutti_schedule_desc){.contract = {.collective = TUTTI_CUSTOM},
                                                      .rank_count = rank_count,
                                                      .lane_count = LANES,
                                                      .in_bytes = 8,
                                                      .out_bytes = 8,
                                                      .work = works,
                                                      .work_count = WORK_COUNT});
}

static void add_message(struct tutti_builder *builder, uint32_t lane, uint32_t from, uint32_t to)
{
    small_add(builder, from, lane, small_send(to, SMALL_IN, 0, 4));
    small_add(builder, to, lane, small_recv(from, SMALL_OUT, 0, 4));
}

static void add_work(struct tutti_builder *builder, uint32_t rank, uint32_t lane)
{
    small_add(builder, rank, lane, tutti_step_compute(&works[lane], lane));
}

static int play(struct tutti_backend *backend, const struct tutti_schedule *schedule,
                tutti_ps deadline_ps, struct tutti_record *record, struct tutti_err *err)
{
    struct tutti_play play = {.size = sizeof(struct tutti_play),
                              .schedule = schedule,
                              .iteration_count = 1,
                              .deadline_ps = deadline_ps,
                              .record = record};
    struct tutti_played played;

    return tutti_backend_play(backend, &play, &played, err);
}

static int play_on_threads(struct tutti_builder *builder, tutti_ps deadline_ps,
                           struct tutti_record *record, struct tutti_err *err)
{
    struct tutti_schedule *schedule = small_finish(builder);
    struct tutti_backend *backend = NULL;
    int status = tutti_threads_open(NULL, &backend, err);

    if (status == 0)
        status = play(backend, schedule, deadline_ps, record, err);
    tutti_backend_close(backend);
    tutti_schedule_free(schedule);
    return status;
}

/* ---- by whom, and in what order ---- */

TEST(work_that_nothing_goes_beside_is_done_in_the_thread_of_its_rank)
{
    struct tutti_builder *builder = open_builder(2);
    struct tutti_err err = {""};

    reset(1);
    add_work(builder, 0, 0);
    add_message(builder, 0, 0, 1);
    add_work(builder, 0, 0);
    CHECK_OK(play_on_threads(builder, 0, NULL, &err), err);
    CHECK_INT(atomic_load(&seen.begun_count), 2);
    CHECK_INT(atomic_load(&seen.here_count), 2);
}

TEST(works_of_a_rank_are_done_one_after_the_other_as_they_come)
{
    struct tutti_builder *builder = open_builder(2);
    struct tutti_err err = {""};

    reset(2);
    for (int i = 0; i < 8; i++) {
        add_work(builder, 0, 0);
        add_work(builder, 0, 1);
        add_work(builder, 1, 0);
        add_message(builder, 2, 0, 1);
        add_message(builder, 2, 1, 0);
    }
    CHECK_OK(play_on_threads(builder, 0, NULL, &err), err);
    CHECK_INT(atomic_load(&seen.ended_count), 24);
    CHECK(!atomic_load(&seen.two_at_once));
    CHECK(atomic_load(&seen.here_count) < 16);
    for (int i = 0; i < 16; i++) /* each is posted when the one before it in its lane has ended */
        CHECK_INT(atomic_load(&seen.order[i]), i % 2);
}

/* What is known to be short is done in the rank's thread, but not beside another one. */
TEST(a_short_work_waits_for_a_long_one_of_its_rank)
{
    struct tutti_builder *builder = open_builder(2);
    struct tutti_err err = {""};

    reset(3);
    atomic_store(&seen.quick, 1);
    for (int i = 0; i < 8; i++) {
        add_work(builder, 0, 0);
        add_work(builder, 0, 1);
        add_message(builder, 1, 0, 1);
    }
    CHECK_OK(play_on_threads(builder, 0, NULL, &err), err);
    CHECK_INT(atomic_load(&seen.begun_count), 16);
    CHECK(!atomic_load(&seen.two_at_once));
}

TEST(a_record_has_the_times_of_the_work_itself)
{
    enum { SLEEP_MS = 20 };
    struct tutti_builder *builder = open_builder(2);
    struct tutti_err err = {""};
    struct tutti_record record;
    tutti_ps end_ps = 0;
    int found = 0;

    reset(SLEEP_MS);
    add_work(builder, 0, 0);
    add_work(builder, 0, 1);
    add_message(builder, 2, 0, 1);
    tutti_record_init(&record);
    CHECK_OK(play_on_threads(builder, 0, &record, &err), err);
    tutti_record_sort(&record);
    for (size_t i = 0; i < record.event_count; i++) {
        const struct tutti_event *event = &record.events[i];

        if (event->kind != TUTTI_COMPUTE)
            continue;
        found++;
        CHECK(event->start_ps >= end_ps); /* not when it was posted: then both were */
        CHECK(event->end_ps - event->start_ps >= SLEEP_MS * TUTTI_PS_PER_MS);
        end_ps = event->end_ps;
    }
    CHECK_INT(found, 2);
    tutti_record_done(&record);
}

/* ---- deadlines ---- */

/* Rank 1 could be taken for one that waits for ever: that rank 0 sleeps as well is no deadlock. */
TEST(who_works_longer_than_the_deadline_is_not_late)
{
    struct tutti_builder *builder = open_builder(2);
    struct tutti_err err = {""};

    reset(1500);
    add_work(builder, 0, 0);
    add_work(builder, 1, 0);
    add_message(builder, 2, 0, 1);
    add_message(builder, 2, 1, 0);
    CHECK_OK(play_on_threads(builder, TUTTI_PS_PER_S, NULL, &err), err);
    CHECK_INT(atomic_load(&seen.ended_count), 2);
}

TEST(who_waits_for_one_that_works_is_and_the_play_ends_after_the_work)
{
    struct tutti_builder *builder = open_builder(2);
    struct tutti_err err = {""};

    reset(1000);
    add_message(builder, 2, 1, 0);
    add_work(builder, 0, 0);
    add_message(builder, 0, 0, 1);
    CHECK_INT(play_on_threads(builder, 50 * TUTTI_PS_PER_MS, NULL, &err), -TUTTI_ETIME);
    CHECK(strstr(err.text, "deadline of 50ms passed: rank 1, lane 0, step 0 (RECV") == err.text);
    CHECK_INT(atomic_load(&seen.ended_count), 1); /* nobody uses its buffers any more */
}

TEST(a_deadlock_is_found_when_all_works_have_ended)
{
    struct tutti_builder *builder = open_builder(2);
    struct tutti_err err = {""};

    reset(50);
    for (uint32_t rank = 0; rank < 2; rank++) {
        add_work(builder, rank, 0);
        add_work(builder, rank, 0);
        small_add(builder, rank, 2, small_recv(1 - rank, SMALL_OUT, 0, 4));
        small_add(builder, rank, 2, small_send(1 - rank, SMALL_IN, 0, 4));
    }
    CHECK_INT(play_on_threads(builder, 0, NULL, &err), -TUTTI_ECHECK);
    CHECK(strstr(err.text, "deadlock: rank ") == err.text);
    CHECK(strstr(err.text, "lane 2, step 0 (RECV") != NULL);
    CHECK_INT(atomic_load(&seen.ended_count), 4);
}

/* ---- an emulated machine ---- */

/* Three works one after the other beside messages of each rank, and one more at the end. */
static struct tutti_schedule *step_of(uint32_t rank_count)
{
    struct tutti_builder *builder = open_builder(rank_count);

    for (uint32_t rank = 0; rank < rank_count; rank++) {
        struct tutti_step last = tutti_step_compute(&works[1], 1);

        last.flags |= TUTTI_STEP_DEP;
        last.dep_lane = 2;
        last.dep_step = 3;
        for (int i = 0; i < 3; i++)
            add_work(builder, rank, 0);
        for (int i = 0; i < 2; i++) {
            small_add(builder, rank, 2, small_send((rank + 1) % rank_count, SMALL_IN, 0, 4));
            small_add(builder, rank, 2,
                      small_recv((rank + rank_count - 1) % rank_count, SMALL_OUT, 0, 4));
        }
        small_add(builder, rank, 1, last);
    }
    return small_finish(builder);
}

static struct tutti_lateness emulate(uint32_t rank_count, double slowdown)
{
    struct tutti_sim_opts opts = {.size = sizeof(struct tutti_sim_opts), .model = TUTTI_MODEL_FAIR};
    struct tutti_schedule *schedule = step_of(rank_count);
    struct tutti_backend *emulated = NULL;
    struct tutti_backend *sim = NULL;
    struct tutti_topo *topo = NULL;
    struct tutti_lateness lateness = {0};
    struct tutti_play play = {
        .size = sizeof(struct tutti_play), .schedule = schedule, .iteration_count = 1};
    struct tutti_played simulated = {0};
    struct tutti_played played = {0};
    struct tutti_err err = {""};
    char spec[64];

    snprintf(spec, sizeof(spec), "switch:n=%u,bw=1GB/s,lat=1ms", rank_count);
    CHECK_OK(emulated_open(spec, opts, slowdown, &emulated, &err), err);
    CHECK_OK(tutti_topo_from_spec(spec, &topo, &err), err);
    opts.topo = topo;
    CHECK_OK(tutti_sim_open(&opts, &sim, &err), err);
    CHECK_OK(tutti_backend_play(sim, &play, &simulated, &err), err);
    atomic_store(&seen.ended_count, 0); /* those of the simulator */
    CHECK_OK(tutti_backend_play(emulated, &play, &played, &err), err);
    lateness = tutti_threads_lateness(((struct emulated *)emulated)->inner);
    CHECK_INT(lateness.clock_ps, simulated.total_ps);
    CHECK_INT(lateness.computed_count, 4 * rank_count);
    CHECK_INT(atomic_load(&seen.ended_count), 4 * rank_count);
    tutti_backend_close(emulated);
    tutti_backend_close(sim);
    tutti_topo_free(topo);
    tutti_schedule_free(schedule);
    return lateness;
}

TEST(an_emulated_machine_waits_for_work_that_takes_longer_here_and_says_so)
{
    for (uint32_t rank_count = 2; rank_count <= 4; rank_count++) {
        struct tutti_lateness lateness;

        reset(30); /* six times what it takes there */
        lateness = emulate(rank_count, 1);
        CHECK_INT(lateness.computed_late_count, lateness.computed_count);
        CHECK(lateness.computed_slowdown >= 6);
    }
}

TEST(works_that_are_in_time_leave_an_emulated_machine_its_own)
{
    struct tutti_lateness lateness;

    reset(1);
    lateness = emulate(3, 100); /* half a second for a millisecond */
    CHECK_INT(lateness.computed_late_count, 0);
    CHECK(lateness.computed_slowdown >= 0.2 && lateness.computed_slowdown < 100);
}

/* ---- memory ---- */

static int play_once(const struct tutti_schedule *schedule, bool emulates, struct tutti_err *err)
{
    struct tutti_sim_opts opts = {.size = sizeof(struct tutti_sim_opts), .model = TUTTI_MODEL_FAIR};
    struct tutti_backend *backend = NULL;
    int status = emulates ? emulated_open("switch:n=3,bw=50GB/s,lat=1us", opts, 0, &backend, err)
                          : tutti_threads_open(NULL, &backend, err);

    if (status == 0)
        status = play(backend, schedule, 0, NULL, err);
    tutti_backend_close(backend);
    return status;
}

TEST(every_allocation_may_fail)
{
    struct tutti_schedule *schedule = step_of(3);
    struct tutti_err err = {""};

    reset(0);
    ALLOC_FAIL_EACH(play_once(schedule, false, &err), err);
    ALLOC_FAIL_EACH(play_once(schedule, true, &err), err);
    tutti_schedule_free(schedule);
}
