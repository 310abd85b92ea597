/* Every allocation of a play of two processes over sockets made to fail once. The processes are
 * threads here, and their connections pairs of sockets. */
#include "runtime/coll.h"
#include "tests/alloc_fail.h"
#include "tests/runtime/host_backend.h"
#include "tests/runtime/socket_pairs.h"

static int open_tcp(struct tutti_group *group, void *data, struct tutti_backend **ret,
                    struct tutti_err *err)
{
    struct tutti_tcp_opts opts = *(const struct tutti_tcp_opts *)data;

    opts.group = group;
    return tutti_tcp_open_with(&opts, links, ret, err);
}

static struct tutti_schedule *schedule;

static int play_between_two(enum tutti_tcp_engine engine, struct tutti_err *err)
{
    struct tutti_tcp_opts opts = {
        .size = sizeof(struct tutti_tcp_opts), .engine = engine, .connections = 2};

    return play_over_pairs(schedule, open_tcp, &opts, err);
}

static void open_schedule(void)
{
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .count = 1000, .slot_count = 1, .chunk_bytes = 400};
    struct tutti_shape shape = tutti_shape_flat(3);
    struct tutti_err err;

    CHECK_OK(tutti_coll_generate("ring", &params, &shape, &schedule, &err), err);
}

TEST(playing_on_sockets_fails_cleanly)
{
    struct tutti_err err = {""};

    open_schedule();
    REQUIRE(schedule != NULL);
    ALLOC_FAIL_EACH(play_between_two(TUTTI_TCP_POLL, &err), err);
    tutti_schedule_free(schedule);
}

TEST(playing_through_io_uring_fails_cleanly)
{
    struct tutti_err err = {""};

    if (tutti_tcp_uring_check(&err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        SKIP("no io_uring here");
    }
    open_schedule();
    REQUIRE(schedule != NULL);
    ALLOC_FAIL_EACH(play_between_two(TUTTI_TCP_URING, &err), err);
    tutti_schedule_free(schedule);
}
