/* TensorFlow's rings, trees, copies inside a DGX-1 and division of the input, by known examples. */
#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/tensorflow.h"
#include "tests/test.h"

enum { TEXT_BYTES = 512, DEVICES_MAX = 64 };

static const char *numbers_text(const uint32_t *numbers, uint32_t count, char *text)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < count && used < TEXT_BYTES; i++) {
        char number[16] = "-";

        if (numbers[i] != TUTTI_TF_NONE)
            snprintf(number, sizeof(number), "%u", numbers[i]);
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%s", i == 0 ? "" : " ", number);
    }
    return text;
}

/* 102.2 MB, ResNet-50's gradients in float32. */
enum { RESNET_BYTES = 102200000 };

static void expect_offsets(struct tutti_tf_cluster cluster, uint64_t bytes, int32_t a_device,
                           const char *expected)
{
    int32_t offset[TUTTI_TF_SUBDIVISIONS_MAX];
    uint32_t count = tutti_tf_subdivisions(&cluster, bytes, a_device, offset);
    char text[TEXT_BYTES] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < count && used < TEXT_BYTES; i++)
        used +=
            (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%d", i == 0 ? "" : " ", offset[i]);
    CHECK_TEXT(text, expected);
}

TEST(a_tensor_is_divided_until_its_chunks_are_small)
{
    static const uint32_t eight[] = {8, 8};

    expect_offsets((struct tutti_tf_cluster){1, eight}, RESNET_BYTES, 0, "0 -2 4 -6");
    expect_offsets((struct tutti_tf_cluster){2, eight}, RESNET_BYTES, 0, "0 -4");
    expect_offsets((struct tutti_tf_cluster){1, eight}, 1000, 0, "0");
    expect_offsets((struct tutti_tf_cluster){1, eight}, RESNET_BYTES, -1, "0");
    expect_offsets((struct tutti_tf_cluster){2, eight}, UINT64_C(1) << 40, 0,
                   "0 -1 2 -3 4 -5 6 -7 8 -9 10 -11 12 -13 14 -15");
}

TEST(local_orders_are_turned_and_reversed)
{
    static const uint32_t tasks[] = {4, 4};
    static const uint32_t ring[] = {0, 2, 3, 1, 5, 4, 6, 7};
    struct tutti_tf_cluster one = {1, tasks};
    struct tutti_tf_cluster two = {2, tasks};
    uint32_t order[8];
    char text[TEXT_BYTES];

    tutti_tf_ring_order(&one, NULL, -1, order);
    CHECK_TEXT(numbers_text(order, 4, text), "2 1 0 3");
    tutti_tf_ring_order(&one, NULL, 1, order);
    CHECK_TEXT(numbers_text(order, 4, text), "1 2 3 0");
    tutti_tf_ring_order(&two, ring, 0, order);
    CHECK_TEXT(numbers_text(order, 8, text), "0 2 3 1 5 4 6 7");
    tutti_tf_ring_order(&two, ring, -6, order); /* as -2 */
    CHECK_TEXT(numbers_text(order, 8, text), "2 0 1 3 4 5 7 6");
}

/* Of a DGX-1's first quad with two links 0-1, 2-3 and one on the other sides. */
TEST(a_ring_follows_the_strongest_links)
{
    static const uint32_t strength[] = {0, 1, 2, 1, 1, 0, 1, 2, 2, 1, 0, 1, 1, 2, 1, 0};
    static const uint32_t none[16] = {0};
    uint32_t order[4];
    char text[TEXT_BYTES];

    tutti_tf_ring_walk(4, strength, order);
    CHECK_TEXT(numbers_text(order, 4, text), "0 2 1 3");
    tutti_tf_ring_walk(4, none, order);
    CHECK_TEXT(numbers_text(order, 4, text), "0 1 2 3");
}

/* Every rank sends 2(n-1)/n of the tensor, on as many rings as there are subdivisions. */
TEST(subdivided_rings_all_reduce)
{
    static const uint32_t tasks[] = {4, 4};
    struct tutti_tf_cluster cluster = {2, tasks};
    int32_t offset[TUTTI_TF_SUBDIVISIONS_MAX];
    uint32_t count = tutti_tf_subdivisions(&cluster, UINT64_C(1) << 40, 0, offset);
    uint32_t orders[8 * 8];
    struct tutti_shape shape = tutti_shape_flat(8);
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_FLOAT32,
                                       .count = 8 * 8 * 10,
                                       .channel_count = count};
    struct tutti_schedule *schedule = NULL;
    struct tutti_price price = {0};
    struct tutti_err err = {""};

    REQUIRE(count == 8);
    for (uint32_t k = 0; k < count; k++)
        tutti_tf_ring_order(&cluster, NULL, offset[k], orders + (size_t)k * 8);
    shape.order_count = count;
    shape.orders = orders;
    CHECK_OK(tutti_coll_generate("ring", &params, &shape, &schedule, &err), err);
    REQUIRE(schedule != NULL);
    CHECK_OK(tutti_schedule_check(schedule, &err), err);
    CHECK_OK(tutti_schedule_prove(schedule, &err), err);
    CHECK_OK(tutti_schedule_price(schedule, &price, &err), err);
    CHECK_INT(price.sent_bytes_max, 2 * 7 * (params.count * 4) / 8);
    CHECK_INT(price.sent_bytes, 8 * price.sent_bytes_max);
    tutti_schedule_free(schedule);
}

/* 16 devices of 2 tasks: the second ring goes through each task backwards, turned by four: 3 2 1 0
 * 7 6 5 4. */
TEST(rings_of_subdivisions_are_an_algorithm)
{
    struct tutti_algorithm_set *set = NULL;
    struct tutti_shape shape = tutti_shape_flat(16);
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .count = 25557032};
    struct tutti_schedule *schedule = NULL;
    struct tutti_price price = {0};
    struct tutti_err err = {""};

    shape.level_count = 2;
    shape.level[0] = 8;
    shape.level[1] = 2;
    CHECK_OK(tutti_algorithm_set_new(&set, &err), err);
    CHECK_OK(tutti_tf_algorithm_add(set, &err), err);
    params.added = set;
    CHECK_OK(tutti_coll_generate("tf-ring", &params, &shape, &schedule, &err), err);
    REQUIRE(schedule != NULL);
    CHECK_INT(schedule->lane_count, 2);
    for (uint32_t lane = 0; lane < 2; lane++) {
        static const uint32_t next[2] = {1, 7}; /* of device 0 */
        struct tutti_cursor cursor;
        const struct tutti_step *step;

        tutti_cursor_open(&cursor, schedule, 0, lane);
        while ((step = tutti_cursor_next(&cursor)) != NULL)
            if (step->kind == TUTTI_SEND)
                CHECK_INT(step->peer, next[lane]);
    }
    tutti_schedule_free(schedule);
    params.count = 1600;
    schedule = NULL;
    CHECK_OK(tutti_coll_generate("tf-ring", &params, &shape, &schedule, &err), err);
    REQUIRE(schedule != NULL);
    CHECK_OK(tutti_schedule_check(schedule, &err), err);
    CHECK_OK(tutti_schedule_prove(schedule, &err), err);
    CHECK_OK(tutti_schedule_price(schedule, &price, &err), err);
    CHECK_INT(price.sent_bytes_max, 2 * 15 * 6400 / 16);
    tutti_schedule_free(schedule);
    tutti_algorithm_set_free(set);
}

TEST(trees_hang_together)
{
    static const uint32_t tasks[] = {3, 1, 4};
    struct tutti_tf_cluster cluster = {3, tasks};
    uint32_t parent[DEVICES_MAX];
    char text[TEXT_BYTES];

    for (uint32_t i = 0; i < 8; i++)
        parent[i] = tutti_tf_tree_parent(8, 3, i);
    CHECK_TEXT(numbers_text(parent, 8, text), "3 3 0 - 1 1 2 2");
    for (uint32_t i = 0; i < 7; i++)
        parent[i] = tutti_tf_tree_parent(7, 0, i);
    CHECK_TEXT(numbers_text(parent, 7, text), "- 0 0 1 1 2 2");
    tutti_tf_broadcast_parents(&cluster, 0, parent);
    CHECK_TEXT(numbers_text(parent, 8, text), "- 0 0 0 0 4 4 5");
    /* the source is device 2 of task 2: device 6; task 0's head has it from there, task 1's, too */
    tutti_tf_broadcast_parents(&cluster, 6, parent);
    CHECK_TEXT(numbers_text(parent, 8, text), "6 0 0 6 6 6 - 4");
}

/* Whatever the cluster: from the source along parents to everybody. */
TEST(a_broadcast_reaches_everybody)
{
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (uint32_t k = 0; k < 2000; k++) {
        uint32_t tasks[8];
        struct tutti_tf_cluster cluster = {1 + (uint32_t)tutti_random_below(&random, 8), tasks};
        uint32_t parent[DEVICES_MAX];
        uint32_t count;
        uint32_t source;

        for (uint32_t i = 0; i < cluster.task_count; i++)
            tasks[i] = 1 + (uint32_t)tutti_random_below(&random, 8);
        count = tutti_tf_device_count(&cluster);
        source = (uint32_t)tutti_random_below(&random, count);
        tutti_tf_broadcast_parents(&cluster, source, parent);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t at = i;
            uint32_t hops = 0;

            for (; at != source && at != TUTTI_TF_NONE && hops <= count; hops++)
                at = parent[at];
            CHECK_INT(at, source);
        }
        CHECK(parent[source] == TUTTI_TF_NONE);
    }
}

static struct tutti_schedule *copying(uint32_t ranks, uint32_t tensors, uint64_t count)
{
    struct tutti_shape shape = tutti_shape_flat(ranks);
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                       .dtype = TUTTI_FLOAT32,
                                       .op = TUTTI_AVG,
                                       .count = count,
                                       .channel_count = tensors};
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_tf_hierarchical_copy(&params, &shape, &schedule, &err), err);
    return schedule;
}

TEST(hierarchical_copies_are_proved)
{
    static const uint32_t ranks[] = {2, 4, 6, 8, 16};
    struct tutti_err err = {""};

    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
        for (uint32_t tensors = 0; tensors <= 17; tensors += tensors < 3 ? 1 : 7) {
            struct tutti_schedule *schedule = copying(ranks[i], tensors, 37);

            REQUIRE(schedule != NULL);
            CHECK_OK(tutti_schedule_check(schedule, &err), err);
            CHECK_OK(tutti_schedule_prove(schedule, &err), err);
            tutti_schedule_free(schedule);
        }
}

/* Tensors over each directed link of a DGX-1 for 8 equal tensors: 4 in a quad, 2 across. */
TEST(eight_tensors_load_links_with_four_and_two)
{
    enum { TENSOR_BYTES = 400 };
    struct tutti_schedule *schedule = copying(8, 8, 8 * TENSOR_BYTES / 4);

    REQUIRE(schedule != NULL);
    for (uint32_t from = 0; from < 8; from++) {
        uint64_t bytes[8] = {0};

        for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
            struct tutti_cursor cursor;
            const struct tutti_step *step;

            tutti_cursor_open(&cursor, schedule, from, lane);
            while ((step = tutti_cursor_next(&cursor)) != NULL)
                if (step->kind == TUTTI_SEND)
                    bytes[step->peer] += step->bytes;
        }
        for (uint32_t to = 0; to < 8; to++) {
            bool inside = from / 4 == to / 4 && from != to;

            CHECK_INT(bytes[to], (inside ? 4 : to == (from + 4) % 8 ? 2 : 0) * TENSOR_BYTES);
        }
    }
    tutti_schedule_free(schedule);
}

TEST(a_hierarchical_copy_has_its_price)
{
    struct tutti_price price = {0};
    struct tutti_err err = {""};

    for (uint32_t n = 2; n <= 16; n += 2) {
        struct tutti_schedule *schedule = copying(n, 1, 100);

        REQUIRE(schedule != NULL);
        CHECK_OK(tutti_schedule_price(schedule, &price, &err), err);
        CHECK_INT(price.round_count, n == 2 ? 2 : 4);
        CHECK_INT(price.sent_bytes_max, 400 * n / 2);
        CHECK_INT(price.reduced_bytes_max, 400 * n / 2);
        CHECK_INT(price.sent_bytes, 400 * 2 * (n - 1)); /* n - 1 copies up, n - 1 down */
        tutti_schedule_free(schedule);
    }
}

TEST(a_hierarchical_copy_needs_two_halves)
{
    struct tutti_algorithm_set *set = NULL;
    struct tutti_shape shape = tutti_shape_flat(3);
    struct tutti_coll_params params = {
        .collective = TUTTI_ALLREDUCE, .dtype = TUTTI_FLOAT32, .count = 8};
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {""};

    CHECK_OK(tutti_algorithm_set_new(&set, &err), err);
    CHECK_OK(tutti_tf_algorithm_add(set, &err), err);
    params.added = set;
    CHECK_INT(tutti_coll_generate("hierarchical-copy", &params, &shape, &schedule, &err),
              -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "hierarchical-copy on '3' ranks (it needs two halves of equal size)");
    shape = tutti_shape_flat(4);
    CHECK_OK(tutti_coll_generate("hierarchical-copy", &params, &shape, &schedule, &err), err);
    tutti_schedule_free(schedule);
    tutti_algorithm_set_free(set);
}

TEST(steps_an_epoch_count_the_short_batch)
{
    CHECK_INT(tutti_tf_steps(23262, 64, false), 364); /* cats and dogs, one GPU and four */
    CHECK_INT(tutti_tf_steps(23262, 256, false), 91);
    CHECK_INT(tutti_tf_steps(23262, 256, true), 90);
    CHECK_INT(tutti_tf_steps(0, 256, false), 0);
}

/* "0-1 2-3 | 4 5": what each replica gets, step by step; "." for nothing. */
static void expect_rebatch(uint64_t examples, uint64_t batch, uint32_t replicas,
                           const char *expected)
{
    char text[TEXT_BYTES] = "";
    size_t used = 0;

    for (uint64_t step = 0; step < tutti_tf_steps(examples, batch, false); step++)
        for (uint32_t i = 0; i < replicas && used < TEXT_BYTES; i++) {
            struct tutti_tf_part part = tutti_tf_rebatch(examples, batch, replicas, step, i);

            used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s",
                                     i > 0      ? " "
                                     : step > 0 ? " | "
                                                : "");
            if (part.count == 0)
                used += (size_t)snprintf(text + used, TEXT_BYTES - used, ".");
            for (uint64_t k = 0; k < part.count && used < TEXT_BYTES; k++)
                used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%llu",
                                         k == 0 ? "" : ",", (unsigned long long)(part.first + k));
        }
    CHECK_TEXT(text, expected);
}

TEST(batches_are_divided_among_replicas)
{
    expect_rebatch(6, 4, 2, "0,1 2,3 | 4 5");
    expect_rebatch(4, 4, 5, "0 1 2 3 .");
    expect_rebatch(8, 4, 3, "0,1 2,3 . | 4,5 6,7 .");
}

static void expect_part(struct tutti_tf_part part, uint64_t first, uint64_t count)
{
    CHECK_INT(part.count, count);
    if (count > 0)
        CHECK_INT(part.first, first);
}

/* 12 items, 2 workers, global batch 4: 0,1 4,5 8,9 and 2,3 6,7 10,11. */
TEST(workers_get_their_shards)
{
    for (uint64_t step = 0; step < 3; step++)
        for (uint32_t w = 0; w < 2; w++)
            expect_part(tutti_tf_shard_part(TUTTI_TF_SHARD_DATA, 12, 4, 2, step, w),
                        step * 4 + w * 2, 2);
    expect_part(tutti_tf_shard_part(TUTTI_TF_SHARD_DATA, 12, 4, 2, 3, 0), 0, 0);
    for (uint64_t step = 0; step < 6; step++) /* all of it, twice as many steps */
        expect_part(tutti_tf_shard_part(TUTTI_TF_SHARD_OFF, 12, 4, 2, step, 1), step * 2, 2);
    expect_part(tutti_tf_shard_part(TUTTI_TF_SHARD_OFF, 12, 4, 2, 6, 1), 0, 0);
    CHECK_INT(tutti_tf_shard_files(7, 3, 0), 3);
    CHECK_INT(tutti_tf_shard_files(7, 3, 1), 2);
    CHECK_INT(tutti_tf_shard_files(7, 3, 2), 2);
}

TEST(files_are_sharded_where_there_are_enough)
{
    enum tutti_tf_shard shard = TUTTI_TF_SHARD_OFF;
    struct tutti_err err = {""};

    CHECK_OK(tutti_tf_shard_resolve(TUTTI_TF_SHARD_AUTO, 8, 8, &shard, &err), err);
    CHECK_INT(shard, TUTTI_TF_SHARD_FILE);
    CHECK_OK(tutti_tf_shard_resolve(TUTTI_TF_SHARD_AUTO, 0, 8, &shard, &err), err);
    CHECK_INT(shard, TUTTI_TF_SHARD_DATA);
    CHECK_INT(tutti_tf_shard_resolve(TUTTI_TF_SHARD_FILE, 7, 8, &shard, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "'7' files for 8 workers: sharding by file needs one each (or DATA)");
}
