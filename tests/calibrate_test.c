/* Predictions for this machine, worked out by hand for one whose rates are round numbers. */
#include "tools/calibrate.h"

#include "runtime/status.h"
#include "runtime/units.h"
#include "tests/test.h"

/* To begin takes 1 us, a message 2 us; GB/s of the passes as below, at every size. */
static struct tutti_host machine(uint32_t rank_count)
{
    struct tutti_host host = {.rank_count = rank_count,
                              .processor_count = rank_count,
                              .pair_ranks = rank_count,
                              .launch_ps = TUTTI_PS_PER_US,
                              .latency_ps = 2 * TUTTI_PS_PER_US,
                              .point_count = 2};

    for (uint32_t i = 0; i < host.point_count; i++) {
        uint64_t *rate = host.points[i].bytes_per_s;

        host.points[i].bytes = 1000 + i * 1000000;
        rate[TUTTI_PASS_COPY] = 10000000000;
        rate[TUTTI_PASS_REDUCE] = 5000000000;
        rate[TUTTI_PASS_SINGLE] = 1000000000;
        rate[TUTTI_PASS_TAKE] = 1000000000;
        rate[TUTTI_PASS_TAKE_INPUT] = 8000000000;
        rate[TUTTI_PASS_REDUCE_FRESH] = 500000000;
        rate[TUTTI_PASS_REDUCE_INPUT] = 4000000000;
        rate[TUTTI_PASS_PUSH] = 2000000000;
    }
    return host;
}

/* In us. */
static double predict(const struct tutti_host *host, enum tutti_collective collective,
                      const char *algorithm, uint64_t count)
{
    struct tutti_coll_params params = {
        .collective = collective, .dtype = TUTTI_UINT8, .op = TUTTI_SUM, .count = count};
    struct tutti_err err = {.text = ""};
    int64_t ps = 0;

    CHECK_OK(tutti_host_predict(host, &params, algorithm, &ps, &err), err);
    return (double)ps / (double)TUTTI_PS_PER_US;
}

#define CHECK_US(seen, expected)                                                       \
    do {                                                                               \
        double seen_ = (seen);                                                         \
        if (seen_ < (expected)-0.01 || seen_ > (expected) + 0.01)                      \
            TEST_FAIL("%s is %.3f us, expected %.3f", #seen, seen_, (double)expected); \
    } while (0)

/* 8 MB: half is received and reduced (input, 4 GB/s), half pushed (2 GB/s). */
TEST(a_ring_of_two_reduces_input_and_pushes_results)
{
    struct tutti_host host = machine(2);

    CHECK_US(predict(&host, TUTTI_ALLREDUCE, "ring", 8000000), 1 + 2 + 1000 + 2 + 2000);
    CHECK_US(predict(&host, TUTTI_ALLREDUCE, "two-shot", 8000000), 1 + 2 + 1000 + 2 + 2000);
}

TEST(recursive_doubling_of_two_is_one_exchange_of_input)
{
    struct tutti_host host = machine(2);

    CHECK_US(predict(&host, TUTTI_ALLREDUCE, "recursive-doubling", 8000000), 1 + 2 + 2000);
}

TEST(a_message_of_input_is_a_pass_over_input)
{
    struct tutti_host host = machine(2);

    CHECK_US(predict(&host, TUTTI_SENDRECV, "direct", 8000000), 1 + 2 + 1000);
}

/* 4 ranks, 8 MB: three steps reduce a quarter each, the first of input, two of fresh partial sums
 * (0.5 GB/s), of which the last is pushed on; the other two steps of the second half take what is
 * fresh (1 GB/s). */
TEST(a_ring_of_four_reduces_what_its_neighbour_has_just_written)
{
    struct tutti_host host = machine(4);

    CHECK_US(predict(&host, TUTTI_ALLREDUCE, "ring", 8000000),
             1 + (2 + 500) + 2 * (2 + 4000) + (2 + 1000) + 2 * (2 + 2000));
}

TEST(rates_lie_between_those_that_were_measured)
{
    struct tutti_host host = machine(2);
    struct tutti_host_point point;

    host.points[0].bytes = 1 << 10;
    host.points[1].bytes = 1 << 20;
    host.points[1].bytes_per_s[TUTTI_PASS_TAKE] = 4000000000;
    point = tutti_host_point_at(&host, 1 << 15); /* half way in the logarithm */
    CHECK(point.bytes_per_s[TUTTI_PASS_TAKE] > 1999000000 &&
          point.bytes_per_s[TUTTI_PASS_TAKE] < 2001000000);
    point = tutti_host_point_at(&host, 1);
    CHECK_INT(point.bytes_per_s[TUTTI_PASS_TAKE], 1000000000);
    point = tutti_host_point_at(&host, UINT64_C(1) << 40);
    CHECK_INT(point.bytes_per_s[TUTTI_PASS_TAKE], 4000000000);
}

TEST(a_rank_alone_copies)
{
    struct tutti_host host = machine(1);

    CHECK_US(predict(&host, TUTTI_ALLREDUCE, "ring", 8000000), 1 + 800);
}
