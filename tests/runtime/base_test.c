/* Tests of the ground under everything: messages, units, arena, random numbers. */
#include "runtime/arena.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/units.h"
#include "tests/test.h"

TEST(a_message_grows_outwards)
{
    struct tutti_err err;
    int status = tutti_fail(&err, TUTTI_EINVAL, "unknown key '%s' (%s)", "foo", "bar");

    CHECK_INT(status, -TUTTI_EINVAL);
    CHECK_INT(tutti_wrap(&err, status, "line %d", 3), -TUTTI_EINVAL);
    CHECK_INT(tutti_wrap(&err, status, "x.topo"), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "x.topo: line 3: unknown key 'foo' (bar)");
    CHECK_INT(tutti_fail(NULL, TUTTI_EIO, "nobody listens"), -TUTTI_EIO);
}

TEST(a_message_is_one_visible_line)
{
    struct tutti_err err;
    int status = tutti_fail(&err, TUTTI_EINVAL, "no key 'a\nb\033[2J\x7f'");

    CHECK_TEXT(err.text, "no key 'a?b?[2J?'");
    CHECK_INT(tutti_wrap(&err, status, "file\t\xc3\xa9"), status);
    CHECK_TEXT(err.text, "file?\xc3\xa9: no key 'a?b?[2J?'");
}

TEST(sizes_are_powers_of_1024_as_in_nccl_tests)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},          {"12345", 12345},    {"4K", 4096},
                {"16M", 16777216}, {"1G", 1u << 30},    {"1.5KiB", 1536},
                {"64KiB", 65536},  {"2GB", 2000000000}, {"8GiB", 8ull << 30}};
    static const char *const bad[] = {"", "-1", "4 K", "4k", "K", "1e3", "4Q", "99999999999T"};
    struct tutti_err err;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        uint64_t bytes = 1;
        CHECK_OK(tutti_read_size(good[i].text, &bytes, &err), err);
        CHECK_INT(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint64_t bytes = 77;
        CHECK_INT(tutti_read_size(bad[i], &bytes, &err), -TUTTI_EINVAL);
        CHECK_INT(bytes, 77);
    }
}

TEST(a_count_goes_up_to_the_largest)
{
    uint64_t value = 0;
    struct tutti_err err = {""};

    CHECK_OK(tutti_read_count("18446744073709551615", 0, UINT64_MAX, &value, &err), err);
    CHECK(value == UINT64_MAX);
    CHECK_OK(tutti_read_count("18446744073709551609", 0, UINT64_MAX, &value, &err), err);
    CHECK(value == UINT64_MAX - 6);
    CHECK_INT(tutti_read_count("18446744073709551616", 0, UINT64_MAX, &value, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "out of range '18446744073709551616' (0 to 18446744073709551615)");
    CHECK_INT(tutti_read_count("18446744073709551620", 0, UINT64_MAX, &value, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_read_count("99999999999999999999", 0, UINT64_MAX, &value, &err), -TUTTI_EINVAL);
    CHECK_INT(tutti_read_count("7", 1, 6, &value, &err), -TUTTI_EINVAL);
    CHECK(value == UINT64_MAX - 6);
}

static void expect_hint(const char *typed, const char *words, const char *expected)
{
    char hint[TUTTI_HINT_BYTES];

    CHECK_TEXT(tutti_nearest_hint(typed, words, hint), expected);
}

TEST(a_near_miss_is_suggested_and_a_far_one_is_not)
{
    static const char words[] = "ring, tree, double-binary-tree, nodes= or all";

    expect_hint("rign", words, "did you mean 'ring'? all: "); /* a swap is one slip */
    expect_hint("RING", words, "did you mean 'ring'? all: ");
    expect_hint("double", words, "did you mean 'double-binary-tree'? all: ");
    expect_hint("node", words, "did you mean 'nodes'? all: ");
    expect_hint("al", words, "did you mean 'all'? all: ");
    expect_hint("ring", words, ""); /* known, and refused for something else */
    expect_hint("or", words, "");
    expect_hint("mine", words, ""); /* two letters off */
    expect_hint("", words, "");
    expect_hint("x", words, "");
    expect_hint("ring", "", "");
}

TEST(bits_are_not_bytes)
{
    struct tutti_err err;
    uint64_t rate = 0;

    CHECK_OK(tutti_read_rate("400Gb/s", &rate, &err), err);
    CHECK_INT(rate, 50000000000);
    CHECK_OK(tutti_read_rate("50GB/s", &rate, &err), err);
    CHECK_INT(rate, 50000000000);
    CHECK_INT(tutti_read_rate("50", &rate, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "not a rate '50' (a unit is needed: 50GB/s is bytes, 400Gb/s is bits)");
    CHECK_INT(tutti_read_rate("0GB/s", &rate, &err), -TUTTI_EINVAL);
}

TEST(what_is_printed_is_read_back)
{
    struct tutti_random random;
    char buf[TUTTI_UNIT_TEXT_BYTES];
    struct tutti_err err;

    tutti_random_seed(&random, test_seed);
    for (int i = 0; i < 20000; i++) {
        uint64_t value = tutti_random_next(&random) >> (1 + tutti_random_below(&random, 63));
        uint64_t size = 1;
        tutti_ps time = 1;

        CHECK_OK(tutti_read_size(tutti_print_size(value, buf), &size, &err), err);
        CHECK_INT(size, value);
        CHECK_OK(tutti_read_time(tutti_print_time((tutti_ps)value, buf), &time, &err), err);
        CHECK_INT(time, value);
    }
    CHECK_TEXT(tutti_print_time(1500000, buf), "1.5us");
    CHECK_TEXT(tutti_print_rate(50000000000, buf), "50GB/s");
    CHECK_TEXT(tutti_print_rate(20600000000, buf), "20.6GB/s");
    CHECK_TEXT(tutti_print_size(65536, buf), "64KiB");
}

TEST(wire_time_rounds_up_and_does_not_overflow)
{
    CHECK_INT(tutti_wire_ps(1, 1000000000000), 1);
    CHECK_INT(tutti_wire_ps(1, 3), 333333333334);
    CHECK_INT(tutti_wire_ps(1ull << 40, 1), INT64_MAX);
    CHECK_INT(tutti_wire_ps(8ull << 30, 50000000000), 171798691840);
    CHECK_INT(tutti_wire_ps(0, 1), 0);
}

TEST(an_arena_gives_zeroed_aligned_pieces)
{
    struct tutti_arena *arena = tutti_arena_new();

    REQUIRE(arena != NULL);
    for (size_t size = 1; size < 100000; size = size * 3 + 1) {
        unsigned char *piece = tutti_arena_take(arena, size, 1);
        unsigned seen = 0;

        REQUIRE(piece != NULL);
        CHECK_INT((uintptr_t)piece % 16, 0);
        for (size_t i = 0; i < size; i++)
            seen |= piece[i];
        CHECK_INT(seen, 0);
        memset(piece, 0xff, size);
    }
    CHECK(tutti_arena_take(arena, SIZE_MAX / 2, 3) == NULL);
    CHECK(tutti_arena_take(arena, 0, 8) != NULL);
    tutti_arena_free(arena);
    tutti_arena_free(NULL);
}

TEST(random_numbers_are_the_same_everywhere)
{
    struct tutti_random random;

    tutti_random_seed(&random, 42);
    CHECK(tutti_random_next(&random) == UINT64_C(1546998764402558742));
    CHECK(tutti_random_next(&random) == UINT64_C(6990951692964543102));
    CHECK(tutti_random_hash(1, 2, 3, 4) == tutti_random_hash(1, 2, 3, 4));
    CHECK(tutti_random_hash(1, 2, 3, 4) != tutti_random_hash(1, 2, 4, 3));
    for (int i = 0; i < 1000; i++)
        CHECK(tutti_random_below(&random, 7) < 7);
}
