/* Every generator, for 1 to 33 ranks, is checked and proved: nothing raced, lost, or counted twice.
 */
#include "tests/runtime/coll_prove.h"

/* None, one, fewer than ranks, one to spare, one short, and a size with nothing in common. Where
 * `count` is that of each rank's block, small ones do: blocks stand side by side. */
static uint64_t count_of(enum tutti_collective collective, uint32_t n, size_t index)
{
    const uint64_t whole[] = {0, 1, n / 2, n + UINT64_C(1), 2 * (uint64_t)n - 1, 67};
    static const uint64_t block[] = {0, 1, 2, 3, 7, 17};
    bool blocks = collective == TUTTI_REDUCESCATTER || collective == TUTTI_ALLGATHER ||
                  collective == TUTTI_ALLTOALL;

    return blocks ? block[index] : whole[index];
}

enum { SIZE_COUNT = 6 };

/* By default one size for each manner, another for each: five of the six for every rank count, and
 * all over all. The most lanes are for up to 16 ranks. */
static bool wanted(size_t manner, size_t size, uint32_t n)
{
    return test_full ||
           ((size + manner + n) % SIZE_COUNT == 0 && (manner + 1 < MANNER_COUNT || n <= 16));
}

static void prove_sizes(const struct tutti_algorithm *algorithm, enum tutti_collective collective,
                        uint32_t n)
{
    uint32_t orders[2 * CASE_RANKS_MAX];
    struct tutti_shape shape = case_shape(n, orders);

    for (size_t m = 0; m < MANNER_COUNT; m++) {
        for (size_t c = 0; c < SIZE_COUNT; c++) {
            struct tutti_coll_params params =
                params_of(collective, m, (uint32_t)(m + 5 * c) % n, count_of(collective, n, c));

            if (wanted(m, c, n))
                prove(algorithm, &params, &shape);
        }
    }
}

static void prove_collective(enum tutti_collective collective)
{
    size_t count;
    const struct tutti_algorithm *table = tutti_algorithms(&count);

    asked_count = proved_count = 0;
    for (size_t i = 0; i < count; i++)
        for (uint32_t n = 1; n <= RANKS_MAX; n++)
            if ((table[i].collectives & (1u << collective)) != 0)
                prove_sizes(&table[i], collective, n);
    printf("%s: %" PRIu64 " schedules\n", tutti_collective_name(collective), proved_count);
}

TEST(allreduce_is_proved)
{
    prove_collective(TUTTI_ALLREDUCE);
}

TEST(reducescatter_is_proved)
{
    prove_collective(TUTTI_REDUCESCATTER);
}

TEST(allgather_is_proved)
{
    prove_collective(TUTTI_ALLGATHER);
}

TEST(broadcast_is_proved)
{
    prove_collective(TUTTI_BROADCAST);
}

TEST(reduction_to_one_is_proved)
{
    prove_collective(TUTTI_REDUCE_TO_ROOT);
}

TEST(alltoall_is_proved)
{
    prove_collective(TUTTI_ALLTOALL);
}

TEST(sendrecv_is_proved)
{
    prove_collective(TUTTI_SENDRECV);
}

TEST(barrier_is_proved)
{
    prove_collective(TUTTI_BARRIER);
}
