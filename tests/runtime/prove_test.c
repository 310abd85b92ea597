/* Tests of the proof: a hand-written ring passes, and each kind of mistake is told from others. */
#include <time.h>

#include "tests/runtime/mutate.h"
#include "tests/runtime/small.h"

TEST(a_ring_is_proved_for_any_rank_count_and_size)
{
    static const uint64_t counts[] = {0, 1, 2, 7, 33, 1009, 1 << 20};
    struct tutti_err err;

    for (uint32_t n = 1; n <= 33; n++) {
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            struct tutti_schedule *ring = small_finish(small_ring(n, counts[i]));

            CHECK_OK(tutti_schedule_prove(ring, &err), err);
            CHECK_OK(tutti_schedule_check(ring, &err), err);
            tutti_schedule_free(ring);
        }
    }
}

TEST(a_ring_of_256_is_proved_within_seconds)
{
    struct tutti_schedule *ring = small_finish(small_ring(test_is_slow() ? 64 : 256, 1000003));
    struct tutti_err err;
    clock_t start = clock();

    CHECK_OK(tutti_schedule_prove(ring, &err), err);
    printf("prove: %.2f s", (double)(clock() - start) / CLOCKS_PER_SEC);
    start = clock();
    CHECK_OK(tutti_schedule_check(ring, &err), err);
    printf(", check: %.2f s\n", (double)(clock() - start) / CLOCKS_PER_SEC);
    tutti_schedule_free(ring);
}

TEST(no_mutant_of_a_ring_survives)
{
    for (uint32_t n = 1; n <= 5; n++) {
        struct tutti_schedule *ring = small_finish(small_ring(n, 2 * n + 1));
        uint64_t steps_a_rank = n == 1 ? 1 : 5 * (n - 1);

        CHECK_INT(mutate_all(ring), 3 * n * steps_a_rank);
        tutti_schedule_free(ring);
    }
}
