/* Which parameter server keeps which rows: TensorFlow's partitioners and placements. */
#include "runtime/placement.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/alloc_fail.h"
#include "tests/test.h"

enum { TEXT_BYTES = 1024, VARIABLES_MAX = 20 };

static void expect_shards(const struct tutti_placement_params *params, const char *expected)
{
    struct tutti_placed *placed = NULL;
    struct tutti_err err = {""};
    char text[TEXT_BYTES] = "";
    size_t used = 0;

    CHECK_OK(tutti_placed_new(params, &placed, &err), err);
    REQUIRE(placed != NULL);
    for (uint32_t i = 0; i < placed->shard_count && used < TEXT_BYTES; i++) {
        const struct tutti_shard *shard = &placed->shard[i];

        used += (size_t)snprintf(
            text + used, TEXT_BYTES - used, "%s%u[%llu+%llu]%lluB>%u", i == 0 ? "" : " ",
            shard->variable, (unsigned long long)shard->first_row, (unsigned long long)shard->rows,
            (unsigned long long)shard->bytes, shard->server);
    }
    CHECK_TEXT(text, expected);
    tutti_placed_free(placed);
}

static uint64_t shards_of(enum tutti_partitioner kind, uint64_t bytes, uint64_t shards)
{
    struct tutti_partitioning partition = {.kind = kind, .shard_bytes = bytes, .shards = shards};

    return tutti_partitioning_count(&partition, 6, 24); /* shape [6, 1], float32 */
}

TEST(partitioners_cut_as_tensorflow_says)
{
    struct tutti_partitioning partition = {.kind = TUTTI_PARTITION_MIN_SIZE};

    CHECK_INT(shards_of(TUTTI_PARTITION_MIN_SIZE, 4, 2), 2);
    CHECK_INT(shards_of(TUTTI_PARTITION_MIN_SIZE, 4, 10), 6);
    CHECK_INT(shards_of(TUTTI_PARTITION_MAX_SIZE, 4, 0), 6);
    CHECK_INT(shards_of(TUTTI_PARTITION_MAX_SIZE, 4, 2), 2);
    CHECK_INT(shards_of(TUTTI_PARTITION_MAX_SIZE, 1024, 0), 1);
    CHECK_INT(shards_of(TUTTI_PARTITION_MAX_SIZE, 1, 0), 6); /* a row is the least */
    CHECK_INT(shards_of(TUTTI_PARTITION_FIXED, 0, 2), 2);
    CHECK_INT(shards_of(TUTTI_PARTITION_FIXED, 0, 10), 6);
    CHECK_INT(shards_of(TUTTI_PARTITION_NONE, 0, 10), 1);
    CHECK_INT(tutti_partitioning_count(&partition, 1000, 1 << 30), 1); /* max_shards 1 by default */
    partition.shards = 100;
    CHECK_INT(tutti_partitioning_count(&partition, 1000, 1 << 20), 4); /* 256 KiB by default */
    CHECK_INT(tutti_partitioning_count(&partition, 1000, (1 << 20) + 4), 5); /* rounded up */
    CHECK_INT(tutti_partitioning_count(&partition, 1, 1 << 30), 1);
}

static struct tutti_placement_params params_of(const uint64_t *rows, const uint64_t *elements,
                                               uint32_t count, uint32_t servers)
{
    return (struct tutti_placement_params){.size = sizeof(struct tutti_placement_params),
                                           .server_count = servers,
                                           .element_bytes = 4,
                                           .variable_count = count,
                                           .rows = rows,
                                           .elements = elements};
}

/* "div": 13 ids over 5 are 3, 3, 3, 2, 2; 10 over 4 are 3, 3, 2, 2. */
TEST(rows_are_divided_the_first_shards_having_one_more)
{
    static const uint64_t rows[] = {13, 10};
    static const uint64_t elements[] = {13, 20};
    struct tutti_placement_params params = params_of(rows, elements, 1, 1);

    params.partition = (struct tutti_partitioning){.kind = TUTTI_PARTITION_FIXED, .shards = 5};
    expect_shards(&params, "0[0+3]12B>0 0[3+3]12B>0 0[6+3]12B>0 0[9+2]8B>0 0[11+2]8B>0");
    params = params_of(rows + 1, elements + 1, 1, 3);
    params.partition = (struct tutti_partitioning){.kind = TUTTI_PARTITION_FIXED, .shards = 4};
    expect_shards(&params, "0[0+3]24B>0 0[3+3]24B>1 0[6+2]16B>2 0[8+2]16B>0");
}

TEST(scalars_are_never_split)
{
    static const uint64_t rows[] = {0, 1, 2};
    static const uint64_t elements[] = {1, 1000, 4};
    struct tutti_placement_params params = params_of(rows, elements, 3, 2);

    params.partition = (struct tutti_partitioning){.kind = TUTTI_PARTITION_FIXED, .shards = 2};
    expect_shards(&params, "0[0+1]4B>0 1[0+1]4000B>1 2[0+1]8B>0 2[1+1]8B>1");
}

TEST(round_robin_takes_turns_and_greedy_looks_at_bytes)
{
    static const uint64_t rows[] = {1, 1, 1, 1, 1};
    static const uint64_t elements[] = {100, 1, 1, 1, 98};
    static const uint64_t other_order[] = {1, 98, 1, 100, 1};
    struct tutti_placement_params params = params_of(rows, elements, 5, 2);

    expect_shards(&params, "0[0+1]400B>0 1[0+1]4B>1 2[0+1]4B>0 3[0+1]4B>1 4[0+1]392B>0");
    params.placement = TUTTI_PLACE_GREEDY;
    expect_shards(&params, "0[0+1]400B>0 1[0+1]4B>1 2[0+1]4B>1 3[0+1]4B>1 4[0+1]392B>1");
    params.elements = other_order; /* the same variables, worse divided */
    expect_shards(&params, "0[0+1]4B>0 1[0+1]392B>1 2[0+1]4B>0 3[0+1]400B>0 4[0+1]4B>1");
}

TEST(nonsense_is_refused)
{
    static const uint64_t rows[] = {3};
    static const uint64_t elements[] = {10};
    struct tutti_placement_params params = params_of(rows, elements, 1, 2);
    struct tutti_placed *placed = NULL;
    struct tutti_err err = {""};

    CHECK_INT(tutti_placed_new(&params, &placed, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "variable 0: '10' elements are no whole number of each of 3 rows");
    params.server_count = 0;
    CHECK_INT(tutti_placed_new(&params, &placed, &err), -TUTTI_EINVAL);
    CHECK(placed == NULL);
}

TEST(random_models_are_placed_once)
{
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (uint64_t k = 0; k < test_count(20000, 2000); k++) {
        uint64_t rows[VARIABLES_MAX];
        uint64_t elements[VARIABLES_MAX];
        uint64_t bytes[VARIABLES_MAX] = {0};
        uint64_t all = 0;
        uint32_t count = (uint32_t)tutti_random_below(&random, VARIABLES_MAX + 1);
        struct tutti_placement_params params =
            params_of(rows, elements, count, 1 + (uint32_t)tutti_random_below(&random, 5));
        struct tutti_placed *placed = NULL;
        struct tutti_err err = {""};

        for (uint32_t i = 0; i < count; i++) {
            rows[i] = tutti_random_below(&random, 30);
            elements[i] = (rows[i] > 0 ? rows[i] : 1) * (1 + tutti_random_below(&random, 9));
        }
        params.placement = (enum tutti_placement)tutti_random_below(&random, 2);
        params.partition = (struct tutti_partitioning){
            (enum tutti_partitioner)tutti_random_below(&random, 4),
            tutti_random_below(&random, 200), tutti_random_below(&random, 12)};
        CHECK_OK(tutti_placed_new(&params, &placed, &err), err);
        REQUIRE(placed != NULL);
        for (uint32_t i = 0; i < placed->shard_count; i++) {
            const struct tutti_shard *shard = &placed->shard[i];

            CHECK(shard->rows > 0);
            CHECK(shard->server < params.server_count);
            bytes[shard->variable] += shard->bytes;
        }
        for (uint32_t i = 0; i < count; i++)
            CHECK(bytes[i] == elements[i] * 4);
        for (uint32_t i = 0; i < placed->server_count; i++)
            all += placed->server_bytes[i];
        for (uint32_t i = 0; i < count; i++)
            all -= elements[i] * 4;
        CHECK_INT(all, 0);
        tutti_placed_free(placed);
    }
}

static int story(struct tutti_err *err)
{
    static const uint64_t rows[] = {4};
    static const uint64_t elements[] = {8};
    struct tutti_placement_params params = params_of(rows, elements, 1, 2);
    struct tutti_placed *placed = NULL;
    int status = tutti_placed_new(&params, &placed, err);

    tutti_placed_free(placed);
    return status;
}

TEST(memory_may_run_out)
{
    struct tutti_err err = {""};

    ALLOC_FAIL_EACH(story(&err), err);
}
