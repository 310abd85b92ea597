/* A schedule told level by level: what each rank moves with whom, and what it adds then. */
#include "runtime/coll.h"
#include "runtime/cuda_work.h"
#include "runtime/schedule.h"
#include "runtime/status.h"
#include "tests/test.h"

static struct tutti_schedule *ring(uint32_t ranks, uint64_t count)
{
    struct tutti_shape flat = tutti_shape_flat(ranks);
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_FLOAT32,
                                       .op = TUTTI_SUM,
                                       .count = count,
                                       .channel_count = 2};
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_coll_generate("ring", &params, &flat, &schedule, &err), err);
    return schedule;
}

/* 4 ranks, 1 MiB: 6 levels of a quarter each, on both channels together; after each of the first 3
 * a sum of a quarter. */
TEST(a_ring_of_four_has_six_levels_and_three_sums)
{
    struct tutti_schedule *schedule = ring(4, 1 << 18);
    struct tutti_cuda_work *work = NULL;
    struct tutti_err err = {""};
    uint32_t sums = 0;

    CHECK_OK(tutti_level_work_new(schedule, &work, &err), err);
    REQUIRE(work != NULL);
    CHECK_INT(work->lane_count, 4);
    CHECK_INT(work->op_first[1], 9);
    for (uint32_t o = 0; o < work->op_first[1]; o++) {
        const struct tutti_cuda_work_op *op = &work->ops[o];

        CHECK_INT(op->bytes, 1 << 18);
        CHECK_INT(op->wait_count, op->src_count == 1 ? 2 : 0); /* from whom, and to whom */
        CHECK_INT(work->flags[op->signal_first].value, o + 1);
        sums += op->src_count == 2;
    }
    CHECK_INT(sums, 3);
    /* For the second level it waits until both have sent and added. */
    CHECK_INT(work->flags[work->ops[2].wait_first].value, 2);
    tutti_level_work_free(work);
    tutti_schedule_free(schedule);
}
