/* The CUDA player's kernel on the CPU: bytes as the reference player makes them, and who is missing
 * is named. */
#include "tests/gpu/player_world.h"
#include "tests/test.h"

static uint32_t play(const char *algorithm, const struct tutti_coll_params *params, uint32_t n,
                     uint32_t threads, enum tutti_cuda_planning planning)
{
    const struct tutti_shape shape = tutti_shape_flat(n);
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {{0}};
    struct world w = {0};

    if (tutti_coll_generate(algorithm, params, &shape, &schedule, &err) != 0)
        return 0; /* does not fit */
    if (world_open(&w, schedule, planning, &err) != 0 || world_refer(&w, &err) != 0)
        TEST_FAIL("%s: %s", algorithm, err.text);
    for (uint32_t i = 0; i < 2 && test_failures == 0; i++) {
        if (!world_play(&w, 1 + i, threads, UINT32_MAX, PLAYER_CPU_RIGHT, 20000000000u) ||
            w.stop != 0 || world_wrong_ranks(&w) > 0)
            TEST_FAIL("%s %s, %u ranks, %s %s, count %llu, %u channels, %u threads, planning %d: "
                      "stopped %u, %u ranks wrong",
                      algorithm, tutti_collective_name(params->collective), n,
                      tutti_dtype_name(params->dtype), tutti_op_name(params->op),
                      (unsigned long long)params->count, params->channel_count, threads, planning,
                      w.stop, world_wrong_ranks(&w));
        for (uint32_t r = 0; r < n; r++)
            memset(w.bufs[2][r], 0x5a, (size_t)w.schedule->out_bytes);
    }
    world_close(&w);
    return 1;
}

TEST(every_algorithm_gives_the_bytes_of_the_reference)
{
    static const uint64_t counts[] = {1, 3, 97, 512, 1000, 1023};
    size_t algorithm_count;
    const struct tutti_algorithm *algorithms = tutti_algorithms(&algorithm_count);
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (size_t a = 0; a < algorithm_count; a++) {
        uint32_t plays = 0;

        for (uint32_t n = 2; n <= 8; n++) {
            for (uint32_t c = 0; c < TUTTI_CUSTOM; c++) {
                struct tutti_coll_params params = {
                    .collective = (enum tutti_collective)c,
                    .dtype = (enum tutti_dtype)tutti_random_below(&random, TUTTI_DTYPE_COUNT),
                    .op = (enum tutti_op)tutti_random_below(&random, TUTTI_OP_COUNT),
                    .root = (uint32_t)tutti_random_below(&random, n),
                    .count = counts[tutti_random_below(&random, 6)],
                    .channel_count = 1 + (uint32_t)tutti_random_below(&random, 3),
                    .chunk_bytes = 256 * tutti_random_below(&random, 3),
                    .slot_count = (uint32_t)tutti_random_below(&random, 3),
                };

                if ((algorithms[a].collectives >> c & 1) == 0)
                    continue;
                plays += play(algorithms[a].name, &params, n, n % 2 == 0 ? 4 : 1,
                              (enum tutti_cuda_planning)tutti_random_below(&random, 3));
            }
        }
        if (plays == 0 && strcmp(algorithms[a].name, "torus") != 0) /* no flat shape */
            TEST_FAIL("algorithm '%s' was never played", algorithms[a].name);
    }
}

TEST(every_type_and_operator_has_the_bits_of_the_host)
{
    for (int d = 0; d < TUTTI_DTYPE_COUNT; d++) {
        for (int o = 0; o < TUTTI_OP_COUNT; o++) {
            struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                               .dtype = (enum tutti_dtype)d,
                                               .op = (enum tutti_op)o,
                                               .count = 4 * 64 + 5};

            CHECK_INT(play("two-shot", &params, 4, 2, TUTTI_CUDA_JOINED), 1);
            CHECK_INT(play("one-shot", &params, 3, 2, TUTTI_CUDA_LINED), 1);
            CHECK_INT(play("ring", &params, 4, 2, TUTTI_CUDA_LINED), 1);
        }
    }
}

/* All bits there are: NaNs with payloads, infinities, numbers below the normal ones. */
TEST(odd_floats_have_the_bits_of_the_host)
{
    static const enum tutti_dtype dtypes[] = {TUTTI_FLOAT32, TUTTI_FLOAT64, TUTTI_FLOAT16,
                                              TUTTI_BFLOAT16};

    for (size_t d = 0; d < 4; d++) {
        for (int o = 0; o < TUTTI_OP_COUNT; o++) {
            struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE,
                                               .dtype = dtypes[d],
                                               .op = (enum tutti_op)o,
                                               .count = 4096};
            const struct tutti_shape shape = tutti_shape_flat(2);
            struct tutti_schedule *schedule = NULL;
            struct tutti_err err = {{0}};
            struct world w = {0};

            CHECK_OK(tutti_coll_generate("two-shot", &params, &shape, &schedule, &err), err);
            CHECK_OK(world_open(&w, schedule, TUTTI_CUDA_LINED, &err), err);
            for (uint32_t r = 0; r < 2; r++) {
                for (uint64_t i = 0; i < w.schedule->in_bytes / 8; i++) {
                    uint64_t bits = tutti_random_hash(test_seed, r, i, 7);

                    if (i % 3 == 0) /* all ones where exponents are */
                        bits |= dtypes[d] == TUTTI_FLOAT64   ? 0x7ff0000000000000u
                                : dtypes[d] == TUTTI_FLOAT32 ? 0x7f8000007f800000u
                                                             : 0x7c007f807c007f80u;
                    memcpy(w.bufs[1][r] + i * 8, &bits, 8);
                }
            }
            CHECK_OK(world_refer(&w, &err), err);
            CHECK(world_play(&w, 1, 2, UINT32_MAX, PLAYER_CPU_RIGHT, 20000000000u));
            if (world_wrong_ranks(&w) > 0)
                TEST_FAIL("%s %s: other bits", tutti_dtype_name(dtypes[d]),
                          tutti_op_name(params.op));
            world_close(&w);
        }
    }
}

TEST(a_lane_that_never_comes_is_waited_for_no_longer_than_the_deadline)
{
    for (uint32_t absent = 0; absent < 4; absent++) {
        struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE, .count = 64};
        const struct tutti_shape shape = tutti_shape_flat(4);
        struct tutti_schedule *schedule = NULL;
        struct tutti_err err = {{0}};
        struct world w = {0};
        uint64_t since_ns = p_now_ns();
        const struct tutti_cuda_planned_op *op;

        CHECK_OK(tutti_coll_generate("two-shot", &params, &shape, &schedule, &err), err);
        CHECK_OK(world_open(&w, schedule, TUTTI_CUDA_LINED, &err), err);
        CHECK(world_play(&w, 1, 2, absent, PLAYER_CPU_RIGHT, 300000000));
        CHECK(p_now_ns() - since_ns >= 300000000);
        CHECK(p_now_ns() - since_ns < UINT64_C(20000000000)); /* the machine may be busy */
        CHECK_INT(w.stop, 1);
        for (uint32_t l = 0; l < 4; l++) { /* each says which step it waited in */
            char text[TUTTI_CUDA_STEP_TEXT_BYTES];
            char from[32];

            CHECK_INT(w.verdicts[l].given, l != absent);
            if (l != (absent + 1) % 4)
                continue;
            op = &w.plan.ops[w.plan.op_first[l] + w.verdicts[l].op];
            REQUIRE(w.verdicts[l].wait < op->wait_count);
            (void)tutti_cuda_step_text(
                &w.plan, l, w.plan.wait_steps[op->wait_first + w.verdicts[l].wait], text);
            (void)snprintf(from, sizeof(from), "from %u ", absent);
            if (strstr(text, from) == NULL)
                TEST_FAIL("'%s' is not in '%s'", from, text);
        }
        world_close(&w);
    }
}

TEST(all_leave_when_the_host_says_so)
{
    struct tutti_coll_params params = {.collective = TUTTI_ALLREDUCE, .count = 64};
    const struct tutti_shape shape = tutti_shape_flat(4);
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err = {{0}};
    struct world w = {0};

    CHECK_OK(tutti_coll_generate("ring", &params, &shape, &schedule, &err), err);
    CHECK_OK(world_open(&w, schedule, TUTTI_CUDA_LINED, &err), err);
    w.abort = 1;
    CHECK(world_play(&w, 1, 2, 0, PLAYER_CPU_RIGHT, UINT64_MAX));
    CHECK_INT(w.stop, 0);
    world_close(&w);
}
