/* Bytes that ranks send in a training step: against schedules, against ratios that are known. */
#include "runtime/coll.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/traffic.h"
#include "tests/test.h"

/* What the library's own ring really sends. */
TEST(a_ring_sends_what_its_steps_say)
{
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (uint64_t k = 0; k < test_count(2000, 300); k++) {
        struct tutti_shape shape = tutti_shape_flat(2 + (uint32_t)tutti_random_below(&random, 15));
        struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                           .dtype = TUTTI_FLOAT32,
                                           .count = tutti_random_below(&random, 400)};
        struct tutti_schedule *schedule = NULL;
        struct tutti_price price = {0};
        struct tutti_err err = {""};

        CHECK_OK(tutti_coll_generate("ring", &params, &shape, &schedule, &err), err);
        REQUIRE(schedule != NULL);
        CHECK_OK(tutti_schedule_price(schedule, &price, &err), err);
        if (tutti_ring_sent_max(params.count, 4, shape.rank_count) != price.sent_bytes_max)
            TEST_FAIL("%llu elements on %u ranks: %llu bytes, not %llu",
                      (unsigned long long)params.count, shape.rank_count,
                      (unsigned long long)price.sent_bytes_max,
                      (unsigned long long)tutti_ring_sent_max(params.count, 4, shape.rank_count));
        CHECK(price.sent_bytes == 2 * (uint64_t)(shape.rank_count - 1) * params.count * 4);
        tutti_schedule_free(schedule);
    }
}

static struct tutti_traffic traffic_of(struct tutti_traffic_params params)
{
    struct tutti_traffic traffic = {0};
    struct tutti_err err = {""};

    params.size = sizeof(params);
    CHECK_OK(tutti_traffic_of(&params, &traffic, &err), err);
    return traffic;
}

/* P parameters of 2 bytes: g = (n-1)/n of S = 2P bytes. */
enum { RANKS = 64, P = 64 * 1000, G_S = 63 * 1000 * 2 };

static struct tutti_traffic_params sharded(enum tutti_sharding sharding)
{
    return (struct tutti_traffic_params){.sharding = sharding,
                                         .rank_count = RANKS,
                                         .gradient_bytes = 2,
                                         .weight_bytes = 2,
                                         .parameters = P};
}

TEST(ddp_zero_and_fsdp_are_as_2_to_2_to_3)
{
    struct tutti_traffic_params params = sharded(TUTTI_SHARD_ZERO1);

    CHECK_INT(traffic_of(sharded(TUTTI_SHARD_NONE)).bytes, 2 * G_S);
    CHECK_INT(traffic_of(sharded(TUTTI_SHARD_ZERO1)).bytes, 2 * G_S);
    CHECK_INT(traffic_of(sharded(TUTTI_SHARD_ZERO2)).bytes, 2 * G_S);
    CHECK_INT(traffic_of(sharded(TUTTI_SHARD_ZERO3)).bytes, 3 * G_S);
    params.gradient_bytes = 4; /* Megatron's distributed optimizer: g (4 + 2) P */
    CHECK_INT(traffic_of(params).bytes, 3 * G_S);
    CHECK_INT(traffic_of(params).reduce_scatter_bytes, 2 * G_S);
}

TEST(micro_batches_repeat_what_is_not_kept)
{
    struct tutti_traffic_params params = sharded(TUTTI_SHARD_NONE);

    params.micro_batches = 8; /* one all-reduce of the sum: traffic a sample / 8 */
    CHECK_INT(traffic_of(params).bytes, 2 * G_S);
    params.eager = true;
    CHECK_INT(traffic_of(params).bytes, 8 * 2 * G_S);
    params.sharding = TUTTI_SHARD_ZERO1;
    CHECK_INT(traffic_of(params).bytes, 2 * G_S);
    params.sharding = TUTTI_SHARD_ZERO2;
    CHECK_INT(traffic_of(params).bytes, (8 + 1) * G_S);
    params.sharding = TUTTI_SHARD_ZERO3;
    CHECK_INT(traffic_of(params).bytes, 8 * 3 * G_S);
    params.keep_weights = true;
    CHECK_INT(traffic_of(params).bytes, 8 * 2 * G_S);
}

/* Groups of 8: 7/8 of S, three times; and 2 * 7/8 of S/8 across 8 of them. */
TEST(hsdp_shards_inside_and_all_reduces_across)
{
    struct tutti_traffic_params params = sharded(TUTTI_SHARD_ZERO3);
    struct tutti_err err = {""};
    struct tutti_traffic traffic;

    params.shard_ranks = 8;
    traffic = traffic_of(params);
    CHECK_INT(traffic.all_gather_bytes, 2 * 7 * (2 * P / 8));
    CHECK_INT(traffic.reduce_scatter_bytes, 7 * (2 * P / 8));
    CHECK_INT(traffic.all_reduce_bytes, 2 * 7 * (2 * P / 8) / 8);
    params.shard_ranks = 7;
    params.size = sizeof(params);
    CHECK_INT(tutti_traffic_of(&params, &traffic, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "'7' ranks a shard group do not divide 64 ranks");
}

TEST(local_steps_divide_the_traffic)
{
    struct tutti_traffic_params params = sharded(TUTTI_SHARD_NONE);
    struct tutti_traffic traffic;

    params.local_steps = 500;
    params.weight_bytes = 4;
    traffic = traffic_of(params);
    CHECK_INT(traffic.bytes, 2 * 2 * G_S);
    CHECK_INT(traffic.steps, 500);
}

static struct tutti_compressed compressed(struct tutti_compressor compressor, uint64_t rows,
                                          uint64_t columns)
{
    return tutti_compressed_of(&compressor, rows, columns, 4, 8);
}

/* A gradient of 1024 x 1024 floats on 8 ranks: 4 MiB, of which a ring sends 7 MiB. */
TEST(compression_ratios_are_exact)
{
    enum { KIB = 1024, S = 4096 * 1024, RING = 7 * 1024 * 1024 };
    struct tutti_compressed seen = compressed((struct tutti_compressor){0}, KIB, KIB);

    CHECK_INT(seen.payload_bytes, S);
    CHECK_INT(seen.sent_bytes, RING);
    seen = compressed((struct tutti_compressor){.kind = TUTTI_COMPRESS_CAST, .element_bytes = 2},
                      KIB, KIB);
    CHECK_INT(seen.payload_bytes * 2, S);
    CHECK_INT(seen.sent_bytes * 2, RING);
    seen = compressed((struct tutti_compressor){.kind = TUTTI_COMPRESS_ONE_BIT}, KIB, KIB);
    CHECK_INT((seen.payload_bytes - 4) * 32, S); /* beside the scale */
    CHECK_INT((seen.sent_bytes - 2 * 7 * 4) * 32, RING);
    seen =
        compressed((struct tutti_compressor){.kind = TUTTI_COMPRESS_TOP_K, .keep = 1000}, KIB, KIB);
    CHECK_INT(seen.payload_bytes, 2 * 1000 * 4); /* 2k values */
    CHECK_INT(seen.sent_bytes, 7 * 2 * 1000 * 4);
    seen = compressed((struct tutti_compressor){.kind = TUTTI_COMPRESS_POWER_SGD, .rank = 4}, KIB,
                      KIB);
    CHECK_INT(seen.payload_bytes * KIB * KIB, (uint64_t)S * 4 * (KIB + KIB)); /* r(a+b)/(ab) */
    CHECK_INT(seen.collectives, 2);
    CHECK_INT(seen.sent_bytes * 4, 7 * seen.payload_bytes);
    seen =
        compressed((struct tutti_compressor){.kind = TUTTI_COMPRESS_POWER_SGD, .rank = 4}, 1, 4096);
    CHECK_INT(seen.payload_bytes, 4096 * 4); /* a bias stays as it is */
    seen =
        compressed((struct tutti_compressor){.kind = TUTTI_COMPRESS_POWER_SGD, .rank = 4}, 16, 16);
    CHECK_INT(seen.payload_bytes, 16 * 16 * 4); /* and what would not halve */
    seen = compressed((struct tutti_compressor){.kind = TUTTI_COMPRESS_ADASUM}, KIB, KIB);
    CHECK_INT(seen.collectives, 3);
    CHECK_INT(seen.sent_bytes, RING + 3 * 3 * 8);
}
