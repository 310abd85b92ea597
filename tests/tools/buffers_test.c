/* The check of real runs: right results pass in every type and operator, one wrong bit is seen. */
#include "tools/run/buffers.h"

#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/threads.h"
#include "tests/test.h"

static struct tutti_schedule *make(enum tutti_collective collective, enum tutti_dtype dtype,
                                   enum tutti_op op, uint32_t rank_count, uint64_t count)
{
    struct tutti_shape shape = tutti_shape_flat(rank_count);
    struct tutti_coll_params params = {
        .collective = collective, .dtype = dtype, .op = op, .root = rank_count / 2, .count = count};
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {.text = ""};
    const struct tutti_algorithm *algorithms;
    size_t algorithm_count;

    algorithms = tutti_algorithms(&algorithm_count);
    for (size_t i = 0; i < algorithm_count && schedule == NULL; i++) {
        if ((algorithms[i].collectives >> collective & 1) != 0)
            (void)tutti_coll_generate(algorithms[i].name, &params, &shape, &schedule, &err);
    }
    if (schedule == NULL)
        TEST_FAIL("no schedule: %s", err.text);
    return schedule;
}

/* Plays it on threads; returns the number of wrong elements. */
static uint64_t play(const struct tutti_schedule *schedule, struct tutti_buffers *buffers)
{
    struct tutti_err err = {.text = ""};
    struct tutti_backend *backend = NULL;
    struct tutti_played played;
    uint64_t wrong = UINT64_MAX;
    struct tutti_play ask = {.size = sizeof(struct tutti_play),
                             .schedule = schedule,
                             .in = (const void *const *)buffers->in,
                             .out = buffers->out,
                             .iteration_count = 1};

    CHECK_OK(tutti_threads_open(NULL, &backend, &err), err);
    CHECK_OK(tutti_backend_play(backend, &ask, &played, &err), err);
    tutti_backend_close(backend);
    CHECK_OK(tutti_buffers_wrong(buffers, &wrong, &err), err);
    return wrong;
}

TEST(every_type_and_operator_comes_out_right)
{
    for (int dtype = 0; dtype < TUTTI_DTYPE_COUNT; dtype++) {
        for (int op = 0; op < TUTTI_OP_COUNT; op++) {
            struct tutti_schedule *schedule =
                make(TUTTI_ALLREDUCE, (enum tutti_dtype)dtype, (enum tutti_op)op, 5, 1003);
            struct tutti_buffers buffers;
            struct tutti_err err = {.text = ""};
            uint64_t wrong = 0;

            CHECK_OK(tutti_buffers_open(schedule, test_seed, &buffers, &err), err);
            CHECK_OK(tutti_buffers_wrong(&buffers, &wrong, &err), err);
            if (wrong < 5 * 1003 * 9 / 10) /* spoilt bytes are right by chance at most */
                TEST_FAIL("%s %s: only %" PRIu64 " of 5015 elements wrong before the run",
                          tutti_dtype_name((enum tutti_dtype)dtype),
                          tutti_op_name((enum tutti_op)op), wrong);
            wrong = play(schedule, &buffers);
            if (wrong != 0)
                TEST_FAIL("%s %s: %" PRIu64 " elements wrong",
                          tutti_dtype_name((enum tutti_dtype)dtype),
                          tutti_op_name((enum tutti_op)op), wrong);
            tutti_buffers_close(&buffers);
            tutti_schedule_free(schedule);
        }
    }
}

/* More than one period of values, sizes that do not divide, and then one bit flipped. */
TEST(one_wrong_bit_anywhere_is_seen)
{
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (int collective = 0; collective < TUTTI_BARRIER; collective++) {
        struct tutti_schedule *schedule =
            make((enum tutti_collective)collective, TUTTI_FLOAT32, TUTTI_SUM, 3, 70001);
        struct tutti_buffers buffers;
        struct tutti_err err = {.text = ""};
        uint64_t wrong = 0;
        uint64_t at;
        uint32_t rank = collective == TUTTI_REDUCE_TO_ROOT ? schedule->contract.root : 2;

        CHECK_OK(tutti_buffers_open(schedule, test_seed, &buffers, &err), err);
        CHECK_INT(play(schedule, &buffers), 0);
        at = tutti_random_below(&random, buffers.out_bytes);
        ((char *)buffers.out[rank])[at] ^= 1;
        CHECK_OK(tutti_buffers_wrong(&buffers, &wrong, &err), err);
        CHECK_INT(wrong, 1);
        ((char *)buffers.out[rank])[at] ^= 1;
        tutti_buffers_spoil(&buffers);
        CHECK_OK(tutti_buffers_wrong(&buffers, &wrong, &err), err);
        CHECK_INT(wrong, collective == TUTTI_REDUCE_TO_ROOT ? buffers.out_bytes / 4
                                                            : 3 * buffers.out_bytes / 4);
        tutti_buffers_close(&buffers);
        tutti_schedule_free(schedule);
    }
}

TEST(a_changed_input_is_seen)
{
    struct tutti_schedule *schedule = make(TUTTI_ALLREDUCE, TUTTI_INT8, TUTTI_MAX, 2, 66000);
    struct tutti_buffers buffers;
    struct tutti_err err = {.text = ""};
    uint64_t wrong = 0;

    CHECK_OK(tutti_buffers_open(schedule, test_seed, &buffers, &err), err);
    CHECK_INT(play(schedule, &buffers), 0);
    ((char *)buffers.in[1])[65999] ^= 4;
    CHECK_OK(tutti_buffers_wrong(&buffers, &wrong, &err), err);
    CHECK_INT(wrong, 1);
    tutti_buffers_close(&buffers);
    tutti_schedule_free(schedule);
}

/* 300 ranks of bfloat16: more than the 256 whole numbers that are exact. */
TEST(many_ranks_of_a_narrow_type)
{
    struct tutti_schedule *schedule = make(TUTTI_ALLREDUCE, TUTTI_BFLOAT16, TUTTI_SUM, 300, 3);
    struct tutti_buffers buffers;
    struct tutti_err err = {.text = ""};

    CHECK_OK(tutti_buffers_open(schedule, test_seed, &buffers, &err), err);
    CHECK_INT(play(schedule, &buffers), 0);
    tutti_buffers_close(&buffers);
    tutti_schedule_free(schedule);
}

/* Two processes that have two ranks each, by one table of pointers and the same schedule: what is
 * wrong in the ranks of the other is not seen, and what the others give is known without them. */
TEST(ranks_of_other_processes_are_not_looked_at)
{
    static const enum tutti_collective collectives[] = {
        TUTTI_ALLREDUCE, TUTTI_ALLGATHER, TUTTI_ALLTOALL, TUTTI_SENDRECV, TUTTI_BROADCAST};

    for (size_t i = 0; i < sizeof(collectives) / sizeof(collectives[0]); i++) {
        struct tutti_schedule *schedule = make(collectives[i], TUTTI_INT32, TUTTI_SUM, 4, 70000);
        struct tutti_buffers parts[2];
        struct tutti_buffers all;
        struct tutti_err err = {""};
        uint64_t wrong = 0;

        REQUIRE(schedule != NULL);
        CHECK_OK(tutti_buffers_open_part(schedule, test_seed, 0, 2, &parts[0], &err), err);
        CHECK_OK(tutti_buffers_open_part(schedule, test_seed, 2, 2, &parts[1], &err), err);
        CHECK(parts[0].in[2] == NULL && parts[1].in[1] == NULL && parts[1].in[2] != NULL);
        all = parts[0];
        all.own_count = 4;
        for (int r = 2; r < 4; r++) {
            all.in[r] = parts[1].in[r];
            all.out[r] = parts[1].out[r];
        }
        CHECK_INT(play(schedule, &all), 0);
        ((char *)parts[1].out[3])[0] ^= 1;
        CHECK_OK(tutti_buffers_wrong(&parts[0], &wrong, &err), err);
        CHECK_INT(wrong, 0);
        CHECK_OK(tutti_buffers_wrong(&parts[1], &wrong, &err), err);
        CHECK_INT(wrong, 1);
        all.in[2] = all.in[3] = all.out[2] = all.out[3] = NULL;
        tutti_buffers_close(&parts[0]);
        tutti_buffers_close(&parts[1]);
        tutti_schedule_free(schedule);
    }
}

TEST(more_than_this_machine_has_is_refused)
{
    struct tutti_schedule *schedule =
        make(TUTTI_ALLREDUCE, TUTTI_FLOAT64, TUTTI_SUM, 64, UINT64_C(1) << 40);
    struct tutti_buffers buffers;
    struct tutti_err err = {.text = ""};

    CHECK_INT(tutti_buffers_open(schedule, test_seed, &buffers, &err), -TUTTI_ELACK);
    CHECK(strstr(err.text, "64 ranks need 1") != NULL);
    tutti_schedule_free(schedule);
}
