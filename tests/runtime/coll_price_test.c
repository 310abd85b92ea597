/* The price that each generator states in its comment, held for 2 to 64 ranks and a few more. */
#include "tests/runtime/coll_prices.h"

#include "runtime/coll.h"
#include "runtime/coll/emit.h"
#include "runtime/status.h"
#include "tests/runtime/coll_cases.h"

enum { HUGE_CHUNK = 1 << 30, MANY_SLOTS = 1 << 16 };

static struct price stated_by(const struct price_row *row, const struct price_case *price_case)
{
    struct price price = row->price(price_case);

    price.messages *= row->both_ways ? 2 : 1;
    price.total *= row->both_ways ? 2 : 1;
    price.steps *= row->both_ways ? 2 : 1;
    return price;
}

static struct price_case price_case_of(const struct tutti_shape *shape, bool whole)
{
    struct price_case price_case = {
        .n = shape->rank_count, .log = log2_up(shape->rank_count), .members = 1};

    price_case.group = shape->level_count > 0 ? shape->level[0] : 1;

    while (price_case.members * 2 <= price_case.n)
        price_case.members *= 2;
    price_case.surplus = price_case.n - price_case.members;
    for (uint32_t i = 0; i < shape->level_count; i++) {
        price_case.hops += shape->level[i] - UINT64_C(1);
        price_case.axes += shape->level[i] > 1;
    }
    /* Of the whole, every part that any of them makes is the same. */
    price_case.c = whole ? 120 * UINT64_C(7) * price_case.n * price_case.members : 13;
    return price_case;
}

static bool within(uint64_t seen, uint64_t stated, bool loose)
{
    return loose ? seen <= stated : seen == stated;
}

/* The library's own count, which considers slots, agrees: here slots never bind. */
static void counted_alike(const struct tutti_schedule *schedule, const struct price *seen)
{
    struct tutti_price price = {.step_count = 0};
    struct tutti_err err = {""};

    CHECK_OK(tutti_schedule_price(schedule, &price, &err), err);
    CHECK_INT(price.round_count, seen->depth);
    CHECK_INT(price.send_count, seen->total);
    CHECK_INT(price.step_count, seen->steps);
    CHECK_INT(price.sent_bytes_max, seen->sent);
    CHECK_INT(price.reduced_bytes_max, seen->reduced);
    CHECK_INT(price.copied_bytes_max, seen->copied);
}

static void hold(const struct price_row *row, const struct tutti_shape *shape)
{
    struct price_case price_case = price_case_of(shape, row->collective == TUTTI_ALLREDUCE);
    struct tutti_coll_params params = {.collective = row->collective,
                                       .dtype = TUTTI_INT8,
                                       .root = price_case.n / 2,
                                       .count = row->collective == TUTTI_BARRIER ? 0 : price_case.c,
                                       .chunk_bytes = HUGE_CHUNK};
    bool loose = row->loose && price_case.surplus > 0;
    bool tree = row->price == double_tree || row->price == chain_tree;
    struct tutti_schedule *schedule = NULL;
    struct price stated = stated_by(row, &price_case);
    struct tutti_err err = {""};
    struct price seen;

    if (!test_takes())
        return;
    CHECK_OK(tutti_coll_generate(row->algorithm, &params, shape, &schedule, &err), err);
    REQUIRE(schedule != NULL);
    seen = price_of(schedule);
    if (price_case.n <= 33)
        counted_alike(schedule, &seen);
#define HOLD(field, is_loose)                                                                   \
    if (!within(seen.field, stated.field, is_loose))                                            \
    TEST_FAIL("%s %s, %u ranks: " #field " is %" PRIu64 ", the price says %" PRIu64,            \
              tutti_collective_name(row->collective), row->algorithm, price_case.n, seen.field, \
              stated.field)
    HOLD(depth, loose || row->price == chain_tree);
    HOLD(messages, loose || tree);
    HOLD(total, false);
    HOLD(steps, false);
    HOLD(sent, loose || tree);
    HOLD(received, loose || tree);
    HOLD(reduced, loose || tree);
    HOLD(copied, false);
#undef HOLD
    tutti_schedule_free(schedule);
}

TEST(every_generator_has_a_price)
{
    size_t count;
    const struct tutti_algorithm *table = tutti_algorithms(&count);

    for (size_t i = 0; i < count; i++) {
        for (int c = 0; c < TUTTI_CUSTOM; c++) {
            bool found = (table[i].collectives & (1u << c)) == 0;

            for (size_t t = 0; t < PRICE_ROWS && !found; t++)
                found = price_rows[t].collective == (enum tutti_collective)c &&
                        strcmp(price_rows[t].algorithm, table[i].name) == 0;
            if (!found)
                TEST_FAIL("no price for %s of %s (a row in coll_prices.h)", table[i].name,
                          tutti_collective_name((enum tutti_collective)c));
        }
    }
}

TEST(prices_are_as_stated)
{
    static uint32_t orders[2 * 256];

    for (size_t t = 0; t < PRICE_ROWS; t++) {
        for (uint32_t n = 2; n <= 64; n++) {
            struct tutti_shape shape = case_shape(n, orders);

            hold(&price_rows[t], &shape);
        }
        for (uint32_t n = 96; n <= 256; n += 80) {
            struct tutti_shape shape = case_shape(n, orders);

            hold(&price_rows[t], &shape);
        }
    }
}

/* ---- where the bytes go ---------------------------------------------------------------------- */

static struct tutti_schedule *generate(const char *algorithm, enum tutti_collective collective,
                                       const struct tutti_shape *shape, uint64_t count,
                                       uint64_t chunk_bytes)
{
    struct tutti_coll_params params = {.collective = collective,
                                       .dtype = TUTTI_INT8,
                                       .count = count,
                                       .chunk_bytes = chunk_bytes,
                                       .slot_count = MANY_SLOTS};
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_coll_generate(algorithm, &params, shape, &schedule, &err), err);
    return schedule;
}

/* Bytes from one rank to another. */
static uint64_t bytes_between(const struct tutti_schedule *schedule, uint32_t from, uint32_t to)
{
    uint64_t bytes = 0;

    for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
        const struct tutti_step *step;
        struct tutti_cursor cursor;

        tutti_cursor_open(&cursor, schedule, from, lane);
        while ((step = tutti_cursor_next(&cursor)) != NULL)
            bytes += step->kind == TUTTI_SEND && step->peer == to ? step->bytes : 0;
    }
    return bytes;
}

TEST(each_level_of_a_hierarchy_carries_its_part)
{
    struct tutti_shape shape = tutti_shape_flat(4 * 3 * 5);
    uint64_t count = UINT64_C(3600) * 7;
    struct tutti_schedule *schedule;

    case_add(&shape, 4);
    case_add(&shape, 3);
    case_add(&shape, 5);
    schedule = generate("hierarchical", TUTTI_ALLREDUCE, &shape, count, 0);
    REQUIRE(schedule != NULL);
    for (uint32_t rank = 0; rank < shape.rank_count; rank++) {
        uint32_t x = rank % 4;
        uint32_t y = rank / 4 % 3;
        uint32_t z = rank / 12;

        CHECK_INT(bytes_between(schedule, rank, rank - x + (x + 1) % 4), 2 * 3 * count / 4);
        CHECK_INT(bytes_between(schedule, rank, rank - 4 * y + 4 * ((y + 1) % 3)),
                  2 * 2 * count / 3 / 4);
        CHECK_INT(bytes_between(schedule, rank, rank - 12 * z + 12 * ((z + 1) % 5)),
                  2 * 4 * count / 5 / 12);
    }
    tutti_schedule_free(schedule);
}

TEST(a_torus_spreads_its_bytes_over_all_links)
{
    struct tutti_shape shape = tutti_shape_flat(64);
    uint64_t count = 6 * 64 * 11;
    struct tutti_schedule *schedule;

    for (int axis = 0; axis < 3; axis++)
        case_add(&shape, 4);
    schedule = generate("torus", TUTTI_ALLREDUCE, &shape, count, 0);
    REQUIRE(schedule != NULL);
    for (uint32_t rank = 0; rank < 64; rank++) {
        for (uint32_t stride = 1; stride < 64; stride *= 4) {
            uint32_t x = rank / stride % 4;
            uint32_t base = rank - x * stride;

            CHECK_INT(bytes_between(schedule, rank, base + (x + 1) % 4 * stride),
                      2 * 63 * count / 64 / 6);
            CHECK_INT(bytes_between(schedule, rank, base + (x + 3) % 4 * stride),
                      2 * 63 * count / 64 / 6);
        }
    }
    tutti_schedule_free(schedule);
}

/* Where a message occupies its sender for a unit: q chunks on a chain take n - 2 + q. */
TEST(a_chain_is_a_pipeline)
{
    for (uint32_t n = 2; n <= 40; n++) {
        for (uint64_t q = 1; q <= 40; q += 3) {
            static const enum tutti_collective both[] = {TUTTI_BROADCAST, TUTTI_REDUCE_TO_ROOT};
            struct tutti_shape shape = tutti_shape_flat(n);

            for (int i = 0; i < 2; i++) {
                struct tutti_schedule *schedule = generate("ring", both[i], &shape, 10 * q, 10);

                REQUIRE(schedule != NULL);
                CHECK_INT(price_depth(schedule, true), n - 2 + q);
                tutti_schedule_free(schedule);
            }
        }
    }
}

TEST(a_rank_that_is_alone_only_copies)
{
    for (size_t t = 0; t < PRICE_ROWS; t++) {
        struct tutti_shape shape = tutti_shape_flat(1);
        bool barrier = price_rows[t].collective == TUTTI_BARRIER;
        struct tutti_schedule *schedule =
            generate(price_rows[t].algorithm, price_rows[t].collective, &shape, barrier ? 0 : 9, 0);
        struct price price;

        REQUIRE(schedule != NULL);
        price = price_of(schedule);
        CHECK_INT(price.steps, barrier ? 0 : 1);
        CHECK_INT(price.copied, barrier ? 0 : 9);
        CHECK_INT(price.total, 0);
        tutti_schedule_free(schedule);
    }
}
