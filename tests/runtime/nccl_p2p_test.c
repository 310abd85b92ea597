/* NCCL's sends and receives: proved in all manners of cutting, priced, in NCCL's order. */
#include "tests/runtime/mutate.h"
#include "tests/runtime/price.h"
#include "tests/sim/nccl/nccl_cases.h"

static const enum tutti_collective served[] = {TUTTI_ALLTOALL, TUTTI_SENDRECV, TUTTI_ALLGATHER};

TEST(messages_are_proved_whatever_the_hosts_the_channels_and_the_cuts)
{
    uint64_t proved_count = 0;

    for (uint32_t hosts = 1; hosts <= 9; hosts++) {
        for (uint32_t length = 1; length <= 16 && hosts * length <= 32;
             length += test_is_slow() ? 3 : 1) {
            for (uint64_t i = 0; i < test_count(40, 4); i++) {
                struct nccl_case c;

                nccl_case_draw(&c, served[i % 2], hosts, length, i);
                c.params.coll.count %= 256; /* of each of n blocks: proofs take long */
                tutti_schedule_free(nccl_case_prove("p2p", &c));
                proved_count++;
            }
        }
    }
    printf("%" PRIu64 " schedules\n", proved_count);
}

TEST(no_mutant_of_a_message_survives)
{
    uint64_t mutant_count = 0;

    for (uint64_t i = 0; i < 6; i++) {
        struct nccl_case c;
        struct tutti_schedule *schedule;

        nccl_case_draw(&c, served[i % 2], 1 + (uint32_t)i % 3, 2, i);
        c.params.coll.count = c.params.coll.count % 9 + 1;
        schedule = nccl_case_prove("p2p", &c);
        REQUIRE(schedule != NULL);
        mutant_count += mutate_all(schedule);
        tutti_schedule_free(schedule);
    }
    printf("%" PRIu64 " mutants refused\n", mutant_count);
}

/* Messages as NCCL 2.28 cuts them: one host of 8, or hosts of `length`, and 32 channels. */
static struct tutti_schedule *message(enum tutti_collective collective, uint32_t host_count,
                                      uint32_t length, uint64_t bytes)
{
    struct tutti_chains chains = {.host_count = host_count, .length = length, .count = 1};
    bool net = host_count > 1;
    struct tutti_nccl_params params = {.coll = {.collective = collective,
                                                .dtype = TUTTI_INT8,
                                                .count = bytes,
                                                .channel_count = 32,
                                                .chunk_bytes = net ? 131072 : 524288},
                                       .peer_channel_count = 32,
                                       .part_bytes_min = net ? 262144 : 65536,
                                       .part_bytes_max = net ? 524288 : 32 * 524288};
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_nccl_generate("p2p", &params, &chains, &schedule, &err), err);
    return schedule;
}

/* Bytes that a rank sends to another on a channel. */
static uint64_t bytes_on(const struct tutti_schedule *schedule, uint32_t from, uint32_t to,
                         uint32_t channel)
{
    uint64_t bytes = 0;

    for (uint32_t lane = 8 * channel; lane < 8 * channel + 8; lane++) {
        const struct tutti_step *step;
        struct tutti_cursor cursor;

        tutti_cursor_open(&cursor, schedule, from, lane);
        while ((step = tutti_cursor_next(&cursor)) != NULL)
            bytes += step->kind == TUTTI_SEND && step->peer == to ? step->bytes : 0;
    }
    return bytes;
}

static uint32_t channels_used(const struct tutti_schedule *schedule, uint32_t from, uint32_t to)
{
    uint32_t count = 0;

    for (uint32_t channel = 0; channel < 32; channel++)
        count += bytes_on(schedule, from, to, channel) > 0;
    return count;
}

TEST(a_message_is_cut_into_parts)
{
    static const struct {
        uint64_t bytes;
        uint32_t parts; /* 32 channels for 8 ranks: 4 each, more from 16 MiB a part on */
    } cases[] = {{4096, 1},     {65537, 2},    {1 << 20, 4},
                 {64 << 20, 4}, {65 << 20, 8}, {513 << 20, 32}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_schedule *schedule = message(TUTTI_SENDRECV, 1, 8, cases[i].bytes);

        REQUIRE(schedule != NULL);
        CHECK_INT(channels_used(schedule, 2, 3), cases[i].parts);
        tutti_schedule_free(schedule);
    }
}

/* One host: round 1 has the reversed bits of 1, channel 16 of 32, and the parts those after it. */
TEST(rounds_have_channels_with_reversed_bits)
{
    struct tutti_schedule *schedule = message(TUTTI_ALLTOALL, 1, 8, 1 << 20);

    REQUIRE(schedule != NULL);
    for (uint32_t part = 0; part < 4; part++) {
        CHECK_INT(bytes_on(schedule, 2, 3, 16 + part), 1 << 18);
        CHECK_INT(bytes_on(schedule, 2, 4, 8 + part), 1 << 18);
        CHECK_INT(bytes_on(schedule, 2, 5, 24 + part), 1 << 18);
        CHECK_INT(bytes_on(schedule, 2, 1, 28 + part), 1 << 18); /* round 7 */
    }
    tutti_schedule_free(schedule);
}

/* What has nothing to do costs no launch: of send/receive on one host one round, and as many
 * channels as a message has parts; of all-to-all all rounds; between hosts 8 rounds share one. */
TEST(channels_without_messages_are_not_counted)
{
    static const struct {
        enum tutti_collective collective;
        uint32_t hosts, length;
        uint64_t bytes;
        uint32_t channels; /* of 32 */
    } cases[] = {{TUTTI_SENDRECV, 1, 8, 1024, 1},     {TUTTI_SENDRECV, 1, 8, 1 << 20, 4},
                 {TUTTI_SENDRECV, 2, 8, 1024, 2},     {TUTTI_ALLTOALL, 1, 8, 1024, 8},
                 {TUTTI_ALLTOALL, 1, 8, 1 << 20, 32}, {TUTTI_ALLTOALL, 2, 8, 1024, 2},
                 {TUTTI_ALLTOALL, 1, 1, 1024, 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tutti_schedule *schedule =
            message(cases[i].collective, cases[i].hosts, cases[i].length, cases[i].bytes);

        REQUIRE(schedule != NULL);
        CHECK_INT(tutti_nccl_p2p_channels(schedule), cases[i].channels);
        tutti_schedule_free(schedule);
    }
}

/* Six hosts of two: deltas of groups 0, 1, 3, (6), (2: 10 mod 8), (7), 5, 4. */
TEST(groups_are_visited_in_squares)
{
    static const uint32_t deltas[] = {0, 1, 3, 2, 5, 4};
    struct tutti_schedule *schedule = message(TUTTI_ALLTOALL, 6, 2, 1024);

    REQUIRE(schedule != NULL);
    for (uint32_t index = 0; index < 6; index++) {
        uint32_t reversed = 0;

        for (uint32_t bit = 0; bit < 5; bit++)
            reversed |= (index >> bit & 1) << (4 - bit);
        for (uint32_t near = 0; near < 2; near++) {
            if (index + near > 0)
                CHECK_INT(
                    bytes_on(schedule, 3, (1 + deltas[index]) % 6 * 2 + (1 + near) % 2, reversed),
                    1024);
        }
    }
    tutti_schedule_free(schedule);
}

TEST(prices_are_as_stated)
{
    for (uint32_t n = 2; n <= 32; n += test_is_slow() ? 10 : 3) {
        for (size_t i = 0; i < sizeof(served) / sizeof(served[0]); i++) {
            struct tutti_schedule *schedule = message(served[i], 1, n, 1000);
            uint64_t messages = served[i] == TUTTI_SENDRECV ? 1 : n - UINT64_C(1);
            struct price price;

            REQUIRE(schedule != NULL);
            price = price_of(schedule);
            CHECK_INT(price.messages, messages);
            CHECK_INT(price.total, n * messages);
            CHECK_INT(price.sent, messages * 1000);
            CHECK_INT(price.received, messages * 1000);
            CHECK_INT(price.copied, served[i] == TUTTI_SENDRECV ? 0 : 1000);
            CHECK_INT(price.reduced, 0);
            CHECK(price.depth <= messages);
            tutti_schedule_free(schedule);
        }
    }
}

TEST(what_cannot_be_sent_is_refused)
{
    struct tutti_chains chains = {.host_count = 2, .length = 3, .count = 1};
    struct tutti_nccl_params params = {
        .coll = {.collective = TUTTI_ALLTOALL, .count = 10, .chunk_bytes = 64, .channel_count = 3}};
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_nccl_generate("p2p", &params, &chains, &schedule, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "'3' channels to send and receive on (a power of two)");
    params.coll.channel_count = 4;
    params.coll.chunk_bytes = 2;
    CHECK_INT(tutti_nccl_generate("p2p", &params, &chains, &schedule, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "a chunk of '2' bytes holds no element (4)");
    params.coll.collective = TUTTI_ALLREDUCE;
    CHECK_INT(tutti_nccl_generate("p2p", &params, &chains, &schedule, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text,
               "NCCL does not send and receive for 'allreduce' (alltoall, sendrecv, allgather)");
}
