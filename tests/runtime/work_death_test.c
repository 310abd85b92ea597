/* A process of a group dies while ranks of the others work: these hear of it beside their work, and
 * their play ends when that has ended. There is one test, since it kills a process. */
#include <stdatomic.h>
#include <time.h>

#include "runtime/tcp.h"
#include "tests/runtime/processes.h"
#include "tests/runtime/small.h"

enum { RANKS = 3, WORK_S = 1 };
enum { WORK_LANE, MESSAGE_LANE, LANES };

static atomic_int begun_count;
static atomic_int ended_count;

static int work_or_die(const struct tutti_work_call *call, struct tutti_err *err)
{
    struct timespec pause = {.tv_sec = WORK_S};
    struct timespec soon = {.tv_nsec = 100 * 1000 * 1000};

    (void)err;
    atomic_fetch_add(&begun_count, 1);
    (void)nanosleep(call->rank == RANKS - 1 ? &soon : &pause, NULL);
    if (call->rank == RANKS - 1) {
        fflush(NULL);
        _exit(0); /* so that the test as a whole can pass; to the others it is the same */
    }
    atomic_fetch_add(&ended_count, 1);
    return 0;
}

/* All work; on the other lane all wait for what the last sends when it has worked. */
static struct tutti_schedule *open_schedule(void)
{
    static const struct tutti_work work = {.name = "works", .run = work_or_die};
    struct tutti_builder *builder =
        small_builder((struct tutti_schedule_desc){.contract = {.collective = TUTTI_CUSTOM},
                                                   .rank_count = RANKS,
                                                   .lane_count = LANES,
                                                   .in_bytes = 8,
                                                   .out_bytes = 8,
                                                   .work = &work,
                                                   .work_count = 1});

    for (uint32_t rank = 0; rank < RANKS; rank++)
        small_add(builder, rank, WORK_LANE, tutti_step_compute(&work, 0));
    for (uint32_t rank = 0; rank < RANKS - 1; rank++) {
        struct tutti_step send = small_send(rank, SMALL_IN, 0, 4);

        send.flags |= TUTTI_STEP_DEP;
        send.dep_lane = WORK_LANE;
        small_add(builder, RANKS - 1, MESSAGE_LANE, send);
        small_add(builder, rank, MESSAGE_LANE, small_recv(RANKS - 1, SMALL_OUT, 0, 4));
    }
    return small_finish(builder);
}

TEST(who_works_while_another_process_dies_is_told_and_ends_its_work_first)
{
    struct tutti_tcp_opts opts = {.size = sizeof(struct tutti_tcp_opts),
                                  .group = processes_group()};
    struct tutti_schedule *schedule = open_schedule();
    struct tutti_play play = {
        .size = sizeof(struct tutti_play), .schedule = schedule, .iteration_count = 1};
    struct tutti_backend *backend = NULL;
    struct tutti_played played;
    struct tutti_err err = {""};

    CHECK_OK(tutti_tcp_open(&opts, &backend, &err), err);
    REQUIRE(backend != NULL);
    CHECK_INT(tutti_backend_play(backend, &play, &played, &err), -TUTTI_EIO);
    if (strstr(err.text, "process 1") == NULL)
        TEST_FAIL("names not who is gone: %s", err.text);
    if (strstr(err.text, "lane ") == NULL)
        TEST_FAIL("names no step: %s", err.text);
    CHECK_INT(atomic_load(&ended_count), atomic_load(&begun_count));
    printf("%s\n", err.text);
    tutti_schedule_free(schedule);
    tutti_backend_close(backend);
}
