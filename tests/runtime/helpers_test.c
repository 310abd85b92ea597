/* Helpers that help a thread to move and add bytes: what comes out is what one thread alone would
 * have made of the same list, and what is asked of one rank stays in its order. */
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/device/kernels.h"
#include "runtime/exec/host/helpers.h"
#include "runtime/exec/host/wait_set.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { RANKS = 5, FLOATS = 96 << 10, ROUNDS = 40, CHORES_MAX = 70 };

struct world {
    struct tutti_wait_set wait_set;
    struct tutti_helpers *helpers;
    float *held[RANKS];     /* what the helpers work on, */
    float *expected[RANKS]; /* and what one thread makes of it */
    float *given;           /* read by all */
};

static void open_world(struct world *world, uint32_t helper_count)
{
    struct tutti_err err;

    *world = (struct world){.given = malloc(FLOATS * sizeof(float))};
    REQUIRE(world->given != NULL);
    for (uint32_t i = 0; i < FLOATS; i++)
        world->given[i] = (float)(i % 1000);
    for (uint32_t i = 0; i < RANKS; i++) {
        world->held[i] = calloc(FLOATS, sizeof(float));
        world->expected[i] = calloc(FLOATS, sizeof(float));
        REQUIRE(world->held[i] != NULL && world->expected[i] != NULL);
    }
    CHECK_OK(tutti_wait_set_open(&world->wait_set, 1, 1, TUTTI_PS_PER_S, &err), err);
    CHECK_OK(tutti_helpers_open(&world->wait_set, RANKS, helper_count, &world->helpers, &err), err);
    REQUIRE(world->helpers != NULL);
}

static void close_world(struct world *world)
{
    tutti_helpers_close(world->helpers);
    tutti_wait_set_close(&world->wait_set);
    for (uint32_t i = 0; i < RANKS; i++) {
        free(world->held[i]);
        free(world->expected[i]);
    }
    free(world->given);
}

/* A copy or a sum within one rank, of some part of what is given. */
static void ask(struct world *world, uint64_t bits)
{
    uint32_t rank = (uint32_t)(bits % RANKS);
    size_t from = bits >> 8 & 0xffff;
    size_t count = (bits >> 24 & 0x7fff) + 1;
    const void *src = world->given + from % (FLOATS - count);
    size_t to = (size_t)(bits >> 40) % (FLOATS - count);
    bool streams = (bits >> 5 & 1) != 0;
    void *dst = world->held[rank] + to;
    struct tutti_spread spread = {.dtype = TUTTI_FLOAT32,
                                  .op = TUTTI_SUM,
                                  .count = count,
                                  .acc = dst,
                                  .srcs = &src,
                                  .dsts = &dst,
                                  .src_count = 1,
                                  .dst_count = 1,
                                  .stream = streams};

    if ((bits >> 6 & 1) != 0) {
        tutti_helpers_copy(world->helpers, rank, dst, src, count * sizeof(float), streams);
        memcpy(world->expected[rank] + to, src, count * sizeof(float));
        return;
    }
    tutti_helpers_reduce(world->helpers, rank, &spread);
    for (size_t i = 0; i < count; i++)
        world->expected[rank][to + i] += ((const float *)src)[i];
}

static void check_helpers(uint32_t helper_count)
{
    struct world world;

    open_world(&world, helper_count);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t count = (uint32_t)tutti_random_hash(test_seed, round, 0, 0) % CHORES_MAX;

        for (uint32_t i = 0; i < count; i++)
            ask(&world, tutti_random_hash(test_seed, round, i, 1));
        tutti_helpers_settle(world.helpers);
        for (uint32_t i = 0; i < RANKS; i++)
            CHECK(memcmp(world.held[i], world.expected[i], FLOATS * sizeof(float)) == 0);
    }
    close_world(&world);
}

TEST(several_helpers_do_what_one_thread_would_do)
{
    check_helpers(0);
    check_helpers(1);
    check_helpers(4);
}

TEST(a_list_that_is_full_is_done_at_once)
{
    struct world world;

    open_world(&world, 2);
    for (uint32_t i = 0; i < 2000; i++)
        ask(&world, tutti_random_hash(7, i, 0, 0) & ~(UINT64_C(0x7f00) << 24));
    tutti_helpers_settle(world.helpers);
    for (uint32_t i = 0; i < RANKS; i++)
        CHECK(memcmp(world.held[i], world.expected[i], FLOATS * sizeof(float)) == 0);
    close_world(&world);
}
