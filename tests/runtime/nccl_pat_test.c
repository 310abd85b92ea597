/* NCCL's parallel aggregated trees: proved in all manners of cutting, priced, counted as NCCL's. */
#include "tests/runtime/mutate.h"
#include "tests/runtime/price.h"
#include "tests/sim/nccl/nccl_cases.h"

static const enum tutti_collective served[] = {TUTTI_ALLGATHER, TUTTI_REDUCESCATTER};

TEST(pat_is_proved_whatever_the_hosts_the_channels_and_the_cuts)
{
    uint64_t proved_count = 0;

    for (uint32_t n = 1; n <= 40; n++) {
        for (uint64_t i = 0; i < test_count(100, 10); i++) {
            struct nccl_case c;

            nccl_case_draw(&c, served[i % 2], n, 1, i);
            c.params.coll.count %= 64; /* of each of n blocks: proofs grow with their square */
            nccl_case_shares(&c.params, i);
            tutti_schedule_free(nccl_case_prove("pat", &c));
            proved_count++;
        }
    }
    printf("%" PRIu64 " schedules\n", proved_count);
}

TEST(no_mutant_of_pat_survives)
{
    uint64_t mutant_count = 0;

    for (uint64_t i = 0; i < test_count(8, 3); i++) {
        struct nccl_case c;
        struct tutti_schedule *schedule;

        nccl_case_draw(&c, served[i % 2], 2 + (uint32_t)i / 2, 1, i);
        c.params.coll.count = c.params.coll.count % 9 + 1;
        nccl_case_shares(&c.params, i);
        schedule = nccl_case_prove("pat", &c);
        REQUIRE(schedule != NULL);
        mutant_count += mutate_all(schedule);
        tutti_schedule_free(schedule);
    }
    printf("%" PRIu64 " mutants refused\n", mutant_count);
}

static struct price price_for(enum tutti_collective collective, uint32_t n, uint64_t count)
{
    struct tutti_chains chains = {.host_count = n, .length = 1, .count = 1};
    struct tutti_nccl_params params = {.coll = {.collective = collective,
                                                .dtype = TUTTI_INT8,
                                                .count = count,
                                                .chunk_bytes = 524288},
                                       .count_lo = count};
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};
    struct price price = {0};

    CHECK_OK(tutti_nccl_generate("pat", &params, &chains, &schedule, &err), err);
    if (schedule != NULL)
        price = price_of(schedule);
    tutti_schedule_free(schedule);
    return price;
}

/* Messages a rank sends of tiny data, counted in NCCL 2.28. */
TEST(tiny_data_take_as_many_messages_as_in_nccl)
{
    static const struct {
        uint32_t n;
        uint64_t messages;
    } cases[] = {{2, 1}, {3, 2}, {4, 2}, {5, 4}, {7, 3}, {8, 3}, {12, 4}, {16, 4}, {32, 5}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int c = 0; c < 2; c++) {
            struct price price = price_for(served[c], cases[i].n, 4);

            CHECK_INT(price.messages, cases[i].messages);
            CHECK_INT(price.sent, (cases[i].n - 1) * UINT64_C(4));
        }
    }
}

TEST(prices_are_as_stated)
{
    for (uint32_t n = 2; n <= 64; n++) {
        uint64_t levels = 0;

        while ((UINT64_C(1) << levels) < n)
            levels++;
        for (int c = 0; c < 2; c++) {
            uint64_t count = 300000; /* two of them do not fit into a step */
            struct price price = price_for(served[c], n, count);

            CHECK_INT(price.messages, n - UINT64_C(1));
            CHECK_INT(price.sent, (n - UINT64_C(1)) * count);
            CHECK_INT(price.received, (n - UINT64_C(1)) * count);
            CHECK_INT(price.reduced, c == 0 ? 0 : (n - UINT64_C(1)) * count);
            CHECK_INT(price.copied, c == 0 ? count : 0);
            price = price_for(served[c], n, 1);
            CHECK(price.messages >= levels);
            if ((n & (n - 1)) == 0) {
                CHECK_INT(price.messages, levels);
                CHECK_INT(price.depth, levels);
            }
        }
    }
}

/* Four ranks, 2 blocks a message: own block to the rank two before; both to the one before. */
TEST(four_ranks_exchange_far_first)
{
    struct tutti_chains chains = {.host_count = 4, .length = 1, .count = 1};
    struct tutti_nccl_params params = {.coll = {.collective = TUTTI_ALLGATHER,
                                                .dtype = TUTTI_INT8,
                                                .count = 3,
                                                .chunk_bytes = 524288},
                                       .count_lo = 3};
    static const uint32_t peers[] = {1, 1, 2, 0};
    static const uint64_t bytes[] = {3, 3, 6, 6};
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};
    struct tutti_cursor cursor;
    const struct tutti_step *step;
    uint32_t seen = 0;

    CHECK_OK(tutti_nccl_generate("pat", &params, &chains, &schedule, &err), err);
    REQUIRE(schedule != NULL);
    tutti_cursor_open(&cursor, schedule, 3, 0);
    while ((step = tutti_cursor_next(&cursor)) != NULL) {
        if (step->kind == TUTTI_COPY)
            continue;
        REQUIRE(seen < 4);
        CHECK_INT(step->peer, peers[seen]); /* SEND, RECV, SEND, RECV */
        CHECK_INT(step->bytes, bytes[seen]);
        seen++;
    }
    CHECK_INT(seen, 4);
    tutti_schedule_free(schedule);
}

TEST(what_pat_does_not_serve_is_refused)
{
    struct tutti_chains chains = {.host_count = 4, .length = 2, .count = 1};
    struct tutti_nccl_params params = {
        .coll = {.collective = TUTTI_ALLGATHER, .count = 3, .chunk_bytes = 64}, .count_lo = 3};
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_nccl_generate("pat", &params, &chains, &schedule, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "NCCL's PAT does not serve hosts of '2' ranks (1)");
    params.coll.collective = TUTTI_ALLREDUCE;
    CHECK_INT(tutti_nccl_generate("pat", &params, &chains, &schedule, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "NCCL's PAT does not serve 'allreduce' (allgather, reducescatter)");
}
