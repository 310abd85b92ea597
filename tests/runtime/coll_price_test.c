/* The price that each generator states in its comment, held for 2 to 64 ranks and a few more. */
#include "tests/runtime/price.h"

#include "runtime/coll.h"
#include "runtime/coll/emit.h"
#include "runtime/status.h"
#include "tests/runtime/coll_cases.h"

enum { HUGE_CHUNK = 1 << 30, MANY_SLOTS = 1 << 16 };

/* ---- prices as stated, for c elements of one byte -------------------------------------------- */

/* What a price is stated for. */
struct price_case {
    uint32_t n;
    uint32_t log;     /* log2 n, rounded up */
    uint32_t members; /* the largest power of two in n */
    uint32_t surplus; /* n - members */
    uint64_t hops;    /* sum of (size - 1) over the axes */
    uint32_t axes;    /* longer than 1 */
    uint32_t group;   /* ranks of the innermost level, or 1 */
    uint64_t c;
};

static struct price ring_allreduce(const struct price_case *d)
{
    uint64_t hops = d->n - UINT64_C(1);

    return (struct price){.depth = 2 * hops,
                          .messages = 2 * hops,
                          .total = 2 * hops * d->n,
                          .steps = 5 * hops * d->n,
                          .sent = 2 * hops * d->c / d->n,
                          .received = 2 * hops * d->c / d->n,
                          .reduced = hops * d->c / d->n};
}

/* As many bytes and rounds in twice the messages. */
static struct price ring_reducescatter(const struct price_case *d)
{
    uint64_t hops = d->n - UINT64_C(1);

    return (struct price){.depth = hops,
                          .messages = hops,
                          .total = hops * d->n,
                          .steps = 3 * hops * d->n,
                          .sent = hops * d->c,
                          .received = hops * d->c,
                          .reduced = hops * d->c};
}

static struct price ring_allgather(const struct price_case *d)
{
    struct price price = ring_reducescatter(d);

    price.steps = (2 * (d->n - UINT64_C(1)) + 1) * d->n;
    price.reduced = 0;
    price.copied = d->c;
    return price;
}

static struct price chain_broadcast(const struct price_case *d)
{
    uint64_t hops = d->n - UINT64_C(1);

    return (struct price){.depth = hops,
                          .messages = 1,
                          .total = hops,
                          .steps = 2 * hops + 1,
                          .sent = d->c,
                          .received = d->c,
                          .copied = d->c};
}

static struct price chain_reduce(const struct price_case *d)
{
    uint64_t hops = d->n - UINT64_C(1);

    return (struct price){.depth = hops,
                          .messages = 1,
                          .total = hops,
                          .steps = 3 * hops,
                          .sent = d->c,
                          .received = d->c,
                          .reduced = d->c};
}

static struct price ring_alltoall(const struct price_case *d)
{
    uint64_t hops = d->n - UINT64_C(1);

    return (struct price){.depth = hops,
                          .messages = hops,
                          .total = hops * d->n,
                          .steps = (d->n + 3 * hops) * d->n,
                          .sent = d->n * hops / 2 * d->c,
                          .received = d->n * hops / 2 * d->c,
                          .copied = (2 * hops + 1) * d->c};
}

static struct price ring_barrier(const struct price_case *d)
{
    uint64_t hops = d->n - UINT64_C(1);

    return (struct price){
        .depth = hops, .messages = hops, .total = hops * d->n, .steps = 2 * hops * d->n};
}

/* Members exchange `log` times; surplus ranks send before and receive after. */
static struct price doubling(const struct price_case *d)
{
    uint64_t more = d->surplus > 0 ? 1 : 0;
    uint64_t log = d->log - more;
    uint64_t total = d->members * log + UINT64_C(2) * d->surplus;

    return (struct price){.depth = log + 2 * more,
                          .messages = log + more,
                          .total = total,
                          .steps = 2 * total + d->members * log + d->surplus,
                          .sent = (log + more) * d->c,
                          .received = (log + more) * d->c,
                          .reduced = (log + more) * d->c};
}

static struct price bruck(const struct price_case *d)
{
    uint64_t total = (uint64_t)d->log * d->n;

    return (struct price){.depth = d->log,
                          .messages = d->log,
                          .total = total,
                          .steps = 2 * total + UINT64_C(3) * d->n,
                          .sent = (d->n - UINT64_C(1)) * d->c,
                          .received = (d->n - UINT64_C(1)) * d->c,
                          .copied = (d->n + UINT64_C(1)) * d->c};
}

static struct price dissemination(const struct price_case *d)
{
    uint64_t total = (uint64_t)d->log * d->n;

    return (struct price){.depth = d->log, .messages = d->log, .total = total, .steps = 2 * total};
}

static struct price rabenseifner(const struct price_case *d)
{
    uint64_t more = d->surplus > 0 ? 1 : 0;
    uint64_t log = d->log - more;
    uint64_t total = 2 * d->members * log + UINT64_C(2) * d->surplus;
    uint64_t once = d->c / d->members * (d->members - 1);

    return (struct price){.depth = 2 * log + 2 * more,
                          .messages = 2 * log + more,
                          .total = total,
                          .steps = 2 * total + d->members * log + d->surplus,
                          .sent = 2 * once + more * d->c,
                          .received = 2 * once + more * d->c,
                          .reduced = once + more * d->c};
}

/* Surplus ranks send n blocks; what their partners take in on top is bounded only. */
static struct price halving(const struct price_case *d)
{
    uint64_t more = d->surplus > 0 ? 1 : 0;
    uint64_t log = d->log - more;
    uint64_t total = d->members * log + UINT64_C(2) * d->surplus;
    uint64_t most = more == 0 ? d->n - UINT64_C(1) : d->n + 2 * (d->members - UINT64_C(1));

    return (struct price){.depth = log + 2 * more,
                          .messages = log + more,
                          .total = total,
                          .steps = 2 * total + d->members * log + UINT64_C(2) * d->surplus,
                          .sent = (d->n - 1 + more) * d->c,
                          .received = most * d->c,
                          .reduced = most * d->c,
                          .copied = more * d->c};
}

static struct price binomial_broadcast(const struct price_case *d)
{
    return (struct price){.depth = d->log,
                          .messages = d->log,
                          .total = d->n - UINT64_C(1),
                          .steps = 2 * (d->n - UINT64_C(1)) + 1,
                          .sent = d->log * d->c,
                          .received = d->c,
                          .copied = d->c};
}

static struct price binomial_reduce(const struct price_case *d)
{
    return (struct price){.depth = d->log,
                          .messages = 1,
                          .total = d->n - UINT64_C(1),
                          .steps = 3 * (d->n - UINT64_C(1)),
                          .sent = d->c,
                          .received = d->log * d->c,
                          .reduced = d->log * d->c};
}

static struct price binomial_allreduce(const struct price_case *d)
{
    return (struct price){.depth = 2 * (uint64_t)d->log,
                          .messages = d->log,
                          .total = 2 * (d->n - UINT64_C(1)),
                          .steps = 5 * (d->n - UINT64_C(1)),
                          .sent = d->log * d->c,
                          .received = d->log * d->c,
                          .reduced = d->log * d->c};
}

static struct price binomial_barrier(const struct price_case *d)
{
    return (struct price){.depth = 2 * (uint64_t)d->log,
                          .messages = d->log,
                          .total = 2 * (d->n - UINT64_C(1)),
                          .steps = 4 * (d->n - UINT64_C(1))};
}

/* 2 (floor(log2(n - 1)) + 1) is twice the smallest k with 2^k >= n. */
static struct price double_tree(const struct price_case *d)
{
    return (struct price){.depth = 2 * (uint64_t)d->log,
                          .messages = 4,
                          .total = 4 * (d->n - UINT64_C(1)),
                          .steps = 10 * (d->n - UINT64_C(1)),
                          .sent = 2 * d->c,
                          .received = 2 * d->c,
                          .reduced = d->c};
}

/* A bound but for messages and steps: one channel uses one of the trees between hosts. */
static struct price chain_tree(const struct price_case *d)
{
    uint64_t others = d->n - UINT64_C(1);

    return (struct price){.depth = 2 * (d->group - 1 + UINT64_C(2) * log2_up(d->n / d->group)),
                          .messages = 4,
                          .total = 2 * others,
                          .steps = 5 * others,
                          .sent = 4 * d->c,
                          .received = 4 * d->c,
                          .reduced = 3 * d->c};
}

static struct price one_shot(const struct price_case *d)
{
    struct price price = ring_reducescatter(d);

    price.depth = 1;
    return price;
}

static struct price two_shot(const struct price_case *d)
{
    struct price price = ring_allreduce(d);

    price.depth = 2;
    return price;
}

static struct price direct_gather(const struct price_case *d)
{
    struct price price = ring_allgather(d);

    price.depth = 1;
    return price;
}

static struct price shift(const struct price_case *d)
{
    return (struct price){.depth = 1,
                          .messages = 1,
                          .total = d->n,
                          .steps = 2 * UINT64_C(1) * d->n,
                          .sent = d->c,
                          .received = d->c};
}

static struct price hierarchical(const struct price_case *d)
{
    struct price price = ring_allreduce(d);

    price.depth = price.messages = 2 * d->hops;
    price.total = 2 * d->hops * d->n;
    price.steps = 5 * d->hops * d->n;
    return price;
}

static struct price torus(const struct price_case *d)
{
    struct price price = hierarchical(d);

    price.messages *= 2 * d->axes;
    price.total *= 2 * d->axes;
    price.steps *= 2 * d->axes;
    return price;
}

static struct price star(const struct price_case *d)
{
    uint64_t others = d->n - UINT64_C(1);

    return (struct price){.depth = 2,
                          .messages = others,
                          .total = 2 * others,
                          .steps = 5 * others,
                          .sent = others * d->c,
                          .received = others * d->c,
                          .reduced = others * d->c};
}

/* `loose`: where n is no power of two the depth and the bytes of a rank are bounds. */
static const struct price_row {
    const char *algorithm;
    enum tutti_collective collective;
    bool loose;
    struct price (*price)(const struct price_case *price_case);
    bool both_ways; /* each message is two, of half the length */
} tags[] = {
    {"ring", TUTTI_ALLREDUCE, false, ring_allreduce, false},
    {"ring", TUTTI_REDUCESCATTER, false, ring_reducescatter, false},
    {"ring", TUTTI_ALLGATHER, false, ring_allgather, false},
    {"ring", TUTTI_BROADCAST, false, chain_broadcast, false},
    {"ring", TUTTI_REDUCE_TO_ROOT, false, chain_reduce, false},
    {"ring", TUTTI_ALLTOALL, false, ring_alltoall, false},
    {"ring", TUTTI_BARRIER, false, ring_barrier, false},
    {"ring-bidirectional", TUTTI_ALLREDUCE, false, ring_allreduce, true},
    {"ring-bidirectional", TUTTI_REDUCESCATTER, false, ring_reducescatter, true},
    {"ring-bidirectional", TUTTI_ALLGATHER, false, ring_allgather, true},
    {"ring-bidirectional", TUTTI_BROADCAST, false, chain_broadcast, true},
    {"ring-bidirectional", TUTTI_REDUCE_TO_ROOT, false, chain_reduce, true},
    {"recursive-doubling", TUTTI_ALLREDUCE, true, doubling, false},
    {"recursive-doubling", TUTTI_ALLGATHER, false, bruck, false},
    {"recursive-doubling", TUTTI_BARRIER, false, dissemination, false},
    {"halving-doubling", TUTTI_ALLREDUCE, true, rabenseifner, false},
    {"halving", TUTTI_REDUCESCATTER, true, halving, false},
    {"binomial", TUTTI_ALLREDUCE, true, binomial_allreduce, false},
    {"binomial", TUTTI_BROADCAST, true, binomial_broadcast, false},
    {"binomial", TUTTI_REDUCE_TO_ROOT, true, binomial_reduce, false},
    {"binomial", TUTTI_BARRIER, true, binomial_barrier, false},
    {"double-binary-tree", TUTTI_ALLREDUCE, true, double_tree, false},
    {"chain-tree", TUTTI_ALLREDUCE, true, chain_tree, false},
    {"one-shot", TUTTI_ALLREDUCE, false, one_shot, false},
    {"two-shot", TUTTI_ALLREDUCE, false, two_shot, false},
    {"direct", TUTTI_REDUCESCATTER, false, one_shot, false},
    {"direct", TUTTI_ALLGATHER, false, direct_gather, false},
    {"direct", TUTTI_ALLTOALL, false, direct_gather, false},
    {"direct", TUTTI_SENDRECV, false, shift, false},
    {"hierarchical", TUTTI_ALLREDUCE, false, hierarchical, false},
    {"reduce-broadcast", TUTTI_ALLREDUCE, false, star, false},
    {"torus", TUTTI_ALLREDUCE, false, torus, false},
};

enum { TAG_COUNT = sizeof(tags) / sizeof(tags[0]) };

static struct price stated_by(const struct price_row *row, const struct price_case *price_case)
{
    struct price price = row->price(price_case);

    price.messages *= row->both_ways ? 2 : 1;
    price.total *= row->both_ways ? 2 : 1;
    price.steps *= row->both_ways ? 2 : 1;
    return price;
}

static struct price_case deal_of(const struct tutti_shape *shape, bool whole)
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
    struct price_case price_case = deal_of(shape, row->collective == TUTTI_ALLREDUCE);
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

            for (size_t t = 0; t < TAG_COUNT && !found; t++)
                found = tags[t].collective == (enum tutti_collective)c &&
                        strcmp(tags[t].algorithm, table[i].name) == 0;
            if (!found)
                TEST_FAIL("no price for %s of %s", table[i].name,
                          tutti_collective_name((enum tutti_collective)c));
        }
    }
}

TEST(prices_are_as_stated)
{
    static uint32_t orders[2 * 256];

    for (size_t t = 0; t < TAG_COUNT; t++) {
        for (uint32_t n = 2; n <= 64; n++) {
            struct tutti_shape shape = case_shape(n, orders);

            hold(&tags[t], &shape);
        }
        for (uint32_t n = 96; n <= 256; n += 80) {
            struct tutti_shape shape = case_shape(n, orders);

            hold(&tags[t], &shape);
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
    for (size_t t = 0; t < TAG_COUNT; t++) {
        struct tutti_shape shape = tutti_shape_flat(1);
        bool barrier = tags[t].collective == TUTTI_BARRIER;
        struct tutti_schedule *schedule =
            generate(tags[t].algorithm, tags[t].collective, &shape, barrier ? 0 : 9, 0);
        struct price price;

        REQUIRE(schedule != NULL);
        price = price_of(schedule);
        CHECK_INT(price.steps, barrier ? 0 : 1);
        CHECK_INT(price.copied, barrier ? 0 : 9);
        CHECK_INT(price.total, 0);
        tutti_schedule_free(schedule);
    }
}
