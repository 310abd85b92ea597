/* NCCL's rings: proved in all manners of cutting, priced, and cut as NCCL's own figures say. */
#include "tests/runtime/mutate.h"
#include "tests/runtime/price.h"
#include "tests/sim/nccl/nccl_cases.h"

static const enum tutti_collective served[] = {
    TUTTI_ALLREDUCE, TUTTI_REDUCESCATTER, TUTTI_ALLGATHER, TUTTI_BROADCAST, TUTTI_REDUCE_TO_ROOT};

TEST(rings_are_proved_whatever_the_hosts_the_channels_and_the_cuts)
{
    uint64_t proved_count = 0;

    for (uint32_t hosts = 1; hosts <= 9; hosts++) {
        for (uint32_t length = 1; length <= 9 && hosts * length <= 33; length++) {
            for (uint64_t i = 0; i < test_count(60, 10); i++) {
                struct nccl_case c;

                nccl_case_draw(&c, served[i % 5], hosts, length, i);
                tutti_schedule_free(nccl_case_prove("ring", &c));
                proved_count++;
            }
        }
    }
    printf("%" PRIu64 " schedules\n", proved_count);
}

TEST(no_mutant_of_a_ring_survives)
{
    uint64_t mutant_count = 0;

    for (uint64_t i = 0; i < 10; i++) {
        struct nccl_case c;
        struct tutti_schedule *schedule;

        nccl_case_draw(&c, served[i % 5], 1 + (uint32_t)i / 5, 2, i);
        c.params.coll.count = c.params.coll.count % 9 + 1;
        nccl_case_shares(&c.params, i);
        schedule = nccl_case_prove("ring", &c);
        REQUIRE(schedule != NULL);
        mutant_count += mutate_all(schedule);
        tutti_schedule_free(schedule);
    }
    printf("%" PRIu64 " mutants refused\n", mutant_count);
}

/* ---- the price ------------------------------------------------------------------------------- */

static struct tutti_schedule *whole(enum tutti_collective collective, uint32_t n, uint64_t count,
                                    uint64_t chunk_bytes)
{
    struct tutti_chains chains = {.host_count = n, .length = 1, .count = 1};
    struct tutti_nccl_params params = {.coll = {.collective = collective,
                                                .dtype = TUTTI_INT8,
                                                .count = count,
                                                .chunk_bytes = chunk_bytes,
                                                .slot_count = 1 << 16},
                                       .count_lo = count};
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_nccl_generate("ring", &params, &chains, &schedule, &err), err);
    return schedule;
}

static void hold(enum tutti_collective collective, uint32_t n, uint64_t pieces)
{
    bool blocks = collective == TUTTI_REDUCESCATTER || collective == TUTTI_ALLGATHER;
    uint64_t chunk = 512;
    uint64_t count = chunk * pieces * (collective == TUTTI_ALLREDUCE ? n : 1);
    struct tutti_schedule *schedule = whole(collective, n, count, chunk);
    uint64_t hops = n - UINT64_C(1);
    struct price price;

    REQUIRE(schedule != NULL);
    price = price_of(schedule);
    if (collective == TUTTI_ALLREDUCE) {
        CHECK_INT(price.depth, 2 * hops * pieces); /* each piece begins where the last one ends */
        CHECK_INT(price.messages, 2 * hops * pieces);
        CHECK_INT(price.sent, 2 * hops * count / n);
        CHECK_INT(price.reduced, hops * count / n);
    } else if (blocks) {
        CHECK_INT(price.messages, hops * pieces);
        CHECK_INT(price.sent, hops * count);
        CHECK_INT(price.reduced, collective == TUTTI_ALLGATHER ? 0 : hops * count);
        CHECK_INT(price.copied, collective == TUTTI_ALLGATHER ? count : 0);
    } else {
        CHECK_INT(price.messages, pieces);
        CHECK_INT(price.sent, count);
        CHECK_INT(price_depth(schedule, true), n - 2 + pieces);
    }
    CHECK_INT(price.total, price.messages * (blocks || collective == TUTTI_ALLREDUCE ? n : hops));
    tutti_schedule_free(schedule);
}

TEST(prices_are_as_stated)
{
    for (uint32_t n = 2; n <= 40; n++) {
        for (size_t i = 0; i < 5; i++) {
            hold(served[i], n, 1);
            hold(served[i], n, 3);
        }
    }
}

/* ---- NCCL's own figures ---------------------------------------------------------------------- */

static struct tutti_schedule *eight_ranks(uint64_t count, uint64_t mid, uint64_t hi)
{
    struct tutti_chains chains = {.host_count = 1, .length = 8, .count = 1};
    struct tutti_nccl_params params = {.coll = {.collective = TUTTI_ALLREDUCE,
                                                .dtype = TUTTI_FLOAT32,
                                                .count = count,
                                                .channel_count = 24,
                                                .chunk_bytes = 2 << 20,
                                                .slice_count = 2,
                                                .slot_count = 4},
                                       .count_lo = mid,
                                       .count_mid = mid,
                                       .count_hi = hi};
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_nccl_generate("ring", &params, &chains, &schedule, &err), err);
    return schedule;
}

/* Messages of a rank on a lane, and the lengths of the first two and of the last. */
static void expect_sends(const struct tutti_schedule *schedule, uint32_t lane, uint64_t count,
                         uint64_t first, uint64_t second, uint64_t last)
{
    struct tutti_cursor cursor;
    const struct tutti_step *step;
    uint64_t seen[3] = {0};
    uint64_t sends = 0;

    tutti_cursor_open(&cursor, schedule, 3, lane);
    while ((step = tutti_cursor_next(&cursor)) != NULL) {
        if (step->kind != TUTTI_SEND)
            continue;
        if (sends < 2)
            seen[sends] = step->bytes;
        seen[2] = step->bytes;
        sends++;
    }
    CHECK_INT(sends, count);
    CHECK_INT(seen[0], first);
    CHECK_INT(seen[1], second);
    CHECK_INT(seen[2], last);
}

/* facts: 64 MiB and 1 GiB of float32 over 8 ranks, Ring Simple, 24 channels. */
TEST(chunks_and_slices_are_those_of_nccl)
{
    struct tutti_schedule *schedule = eight_ranks(16777216, 700416, 667648);

    REQUIRE(schedule != NULL);
    expect_sends(schedule, 0, 28, 175104, 175104, 175104);
    tutti_schedule_free(schedule);
    schedule = eight_ranks(268435456, 11186176, 11153408);
    REQUIRE(schedule != NULL);
    expect_sends(schedule, 0, 84, 1 << 20, 1 << 20, 349696 * 2);
    tutti_schedule_free(schedule);
}

TEST(what_is_short_goes_in_the_first_slice)
{
    struct tutti_chains chains = {.host_count = 1, .length = 4, .count = 1};
    struct tutti_nccl_params params = {.coll = {.collective = TUTTI_ALLREDUCE,
                                                .dtype = TUTTI_FLOAT32,
                                                .count = 4 * 9000,
                                                .chunk_bytes = 2 << 20,
                                                .slice_count = 2,
                                                .slot_count = 4},
                                       .count_lo = 4 * 9000};
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_nccl_generate("ring", &params, &chains, &schedule, &err), err);
    REQUIRE(schedule != NULL);
    expect_sends(schedule, 0, 12, 32768, 36000 - 32768, 36000 - 32768); /* 1/32 of 1 MiB */
    tutti_schedule_free(schedule);
    params.coll.count = params.count_lo = 4 * 100;
    CHECK_OK(tutti_nccl_generate("ring", &params, &chains, &schedule, &err), err);
    expect_sends(schedule, 0, 12, 400, 0, 0);
    tutti_schedule_free(schedule);
}

TEST(rings_go_from_host_to_host)
{
    uint32_t members[] = {0, 1, 2, 3, 2, 1, 0, 3};
    struct tutti_chains chains = {.host_count = 3, .length = 4, .count = 2, .members = members};
    struct tutti_nccl_params params = {.coll = {.collective = TUTTI_ALLGATHER,
                                                .count = 8,
                                                .channel_count = 4,
                                                .chunk_bytes = 4096},
                                       .count_lo = 2,
                                       .count_mid = 2,
                                       .count_hi = 2};
    static const uint32_t next[2][12] = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0},
                                         {3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 2}};
    static const uint32_t swapped[12] = {1, 2, 3, 6, 7, 4, 5, 8, 9, 10, 11, 0};
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    for (int pass = 0; pass < 2; pass++) {
        chains.swapped = pass == 1;
        CHECK_OK(tutti_nccl_generate("ring", &params, &chains, &schedule, &err), err);
        REQUIRE(schedule != NULL);
        for (uint32_t lane = 0; lane < 4; lane += 1 + (uint32_t)pass) {
            for (uint32_t rank = 0; rank < 12; rank++) {
                struct tutti_cursor cursor;

                tutti_cursor_open(&cursor, schedule, rank, lane);
                CHECK_INT(tutti_cursor_next(&cursor)->peer,
                          pass == 0 ? next[lane % 2][rank] : swapped[rank]);
            }
        }
        tutti_schedule_free(schedule);
    }
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refused(const char *algorithm, const struct tutti_nccl_params *params,
                    const struct tutti_chains *chains, const char *text)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_nccl_generate(algorithm, params, chains, &schedule, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, text);
    CHECK(schedule == NULL);
}

TEST(what_does_not_add_up_is_refused)
{
    uint32_t members[] = {0, 1, 1, 1, 0, 4};
    struct tutti_chains chains = {.host_count = 2, .length = 3, .count = 1, .members = members};
    struct tutti_chains plain = {.host_count = 2, .length = 3, .count = 1};
    struct tutti_nccl_params params = {.coll = {.count = 10, .channel_count = 3, .chunk_bytes = 64},
                                       .count_lo = 3,
                                       .count_mid = 4,
                                       .count_hi = 2};

    refused("ring", &params, &plain, "shares of '3', 1 times 4, and 2 are not 10 elements");
    params.count_hi = 3;
    refused("ring", &params, &chains, "chain 0 names '1' twice (every rank once)");
    members[2] = 2;
    chains.count = 2;
    refused("ring", &params, &chains, "chain 1 names '4' (0 to 2)");
    chains.count = 1;
    chains.swapped = true;
    refused("ring", &params, &chains, "'1' chains cannot change places (an even number of them)");
    chains.count = 0;
    refused("ring", &params, &chains, "'0' chains of 3 on 2 hosts are not for 6 ranks");
    params.coll.chunk_bytes = 3;
    refused("ring", &params, &plain, "a chunk of '3' bytes holds no element (4)");
    params.coll.collective = TUTTI_BARRIER;
    refused("ring", &params, &plain,
            "NCCL's rings do not serve 'barrier' (allreduce, reducescatter, allgather, broadcast, "
            "reduce)");
    refused("square", &params, &plain, "NCCL has no algorithm 'square' (ring, tree, pat, p2p)");
}
