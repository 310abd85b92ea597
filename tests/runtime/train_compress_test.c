/* Compressed gradients that really train: what is chosen and sent, what is kept until the next
 * step, and that with it training comes to what it would have come to. */
#include "runtime/record.h"
#include "runtime/schedule.h"
#include "runtime/train/compress.h"
#include "tests/runtime/train_course.h"

/* ---- numbers --------------------------------------------------------------------------------- */

TEST(the_largest_are_chosen_by_magnitude)
{
    static const float values[] = {1, -3, 2, 3, 0, -2, 1e-30f, 3};
    float chosen[8];
    uint32_t indices[8];

    tutti_top_k(values, 8, 4, chosen, indices);
    CHECK(chosen[0] == -3 && indices[0] == 1); /* of 2 and -2 the first */
    CHECK(chosen[1] == 2 && indices[1] == 2);
    CHECK(chosen[2] == 3 && indices[2] == 3);
    CHECK(chosen[3] == 3 && indices[3] == 7);
    tutti_top_k(values, 8, 1, chosen, indices);
    CHECK(indices[0] == 1);
    tutti_top_k(values, 8, 8, chosen, indices);
    for (uint32_t i = 0; i < 8; i++)
        CHECK(chosen[i] == values[i] && indices[i] == i);
}

TEST(what_is_not_finite_is_larger_than_all_else)
{
    static const float values[] = {1e38f, NAN, 3e38f, -INFINITY};
    float chosen[2];
    uint32_t indices[2];

    tutti_top_k(values, 4, 2, chosen, indices);
    CHECK(indices[0] == 1 && indices[1] == 3);
    CHECK(!isfinite(chosen[0]) && !isfinite(chosen[1]));
}

TEST(random_choices_are_those_of_a_sort)
{
    enum { COUNT = 500 };
    float values[COUNT];
    float chosen[COUNT];
    uint32_t indices[COUNT];

    for (uint32_t i = 0; i < COUNT; i++)
        values[i] = (float)((int)((i * 7919 + test_seed) % 211) - 100) * 0.25f;
    for (uint64_t keep = 1; keep <= COUNT; keep += 13) {
        float least = INFINITY;
        uint64_t larger = 0;

        tutti_top_k(values, COUNT, keep, chosen, indices);
        for (uint64_t i = 0; i < keep; i++) {
            least = fminf(least, fabsf(chosen[i]));
            CHECK(i == 0 || indices[i] > indices[i - 1]);
            CHECK(chosen[i] == values[indices[i]]);
        }
        for (uint32_t i = 0; i < COUNT; i++)
            larger += fabsf(values[i]) > least;
        CHECK(larger < keep);
    }
}

static double product_of(const float *m, uint64_t rows, uint32_t rank, uint32_t a, uint32_t b)
{
    double sum = 0;

    for (uint64_t i = 0; i < rows; i++)
        sum += (double)m[i * rank + a] * (double)m[i * rank + b];
    return sum;
}

TEST(columns_become_orthonormal_or_zero)
{
    enum { ROWS = 40, RANK = 4 };
    float m[ROWS * RANK];

    for (uint32_t i = 0; i < ROWS; i++) {
        m[i * RANK] = (float)(i % 7) - 3;
        m[i * RANK + 1] = 1e-20f * (float)(i % 5);
        m[i * RANK + 2] = 2 * m[i * RANK]; /* of the first */
        m[i * RANK + 3] = (float)(i % 3);
    }
    tutti_orthogonalize(m, ROWS, RANK);
    for (uint32_t a = 0; a < RANK; a++)
        for (uint32_t b = 0; b < RANK; b++)
            CHECK(fabs(product_of(m, ROWS, RANK, a, b) - (a == b && a != 2)) < 1e-6);
    tutti_factor_renew(m, ROWS, RANK, 5);
    for (uint32_t a = 0; a < RANK; a++)
        for (uint32_t b = 0; b < RANK; b++)
            CHECK(fabs(product_of(m, ROWS, RANK, a, b) - (a == b)) < 1e-6);
}

/* A matrix of rank 2 is what two factors of rank 2 make of it. */
TEST(factors_of_a_matrix_of_their_rank_are_all_of_it)
{
    enum { ROWS = 9, COLUMNS = 7, RANK = 2 };
    float m[ROWS * COLUMNS];
    float back[ROWS * COLUMNS];
    float first[ROWS * RANK];
    float second[COLUMNS * RANK] = {0};

    for (uint32_t i = 0; i < ROWS * COLUMNS; i++)
        m[i] = (float)(i / COLUMNS) * 0.5f - (float)(i % COLUMNS) * 0.25f + 1;
    tutti_factor_renew(second, COLUMNS, RANK, 1);
    tutti_factor_first(m, ROWS, COLUMNS, RANK, second, first);
    tutti_orthogonalize(first, ROWS, RANK);
    tutti_factor_second(m, ROWS, COLUMNS, RANK, first, second);
    tutti_factor_product(first, second, ROWS, COLUMNS, RANK, back);
    for (uint32_t i = 0; i < ROWS * COLUMNS; i++)
        CHECK(fabsf(back[i] - m[i]) < 1e-5f);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

enum { MLP = 784 * 128 + 128 + 128 * 10 + 10 };

/* Bytes that all ranks send in a step, beside what they report. */
static uint64_t sent_bytes(struct course c)
{
    struct tutti_record record;
    struct outcome o;
    uint64_t bytes = 0;

    tutti_record_init(&record);
    c.record = &record;
    c.steps = 1;
    o = take_course(&c);
    for (size_t i = 0; i < record.event_count; i++)
        if (record.events[i].kind == TUTTI_SEND)
            bytes += record.events[i].bytes;
    tutti_record_done(&record);
    free(o.weights);
    return bytes - 2 * (c.rank_count - UINT64_C(1)) * 8 * (8 + 3 * c.rank_count);
}

TEST(bytes_that_are_really_sent_are_those_of_the_formulas)
{
    enum { N = 4, KEPT = MLP / 100, RANK = 4 };
    const struct course dense = {
        .strategy = "horovod", .rank_count = N, .global_batch = 16, .rate = 0.02};
    struct course largest = dense;
    struct course factors = dense;
    struct tutti_compressor compressor = {.kind = TUTTI_COMPRESS_TOP_K, .keep = KEPT};
    uint64_t each;

    CHECK_INT(sent_bytes(dense), 2 * (N - 1) * 4 * (uint64_t)MLP);
    largest.compression = TUTTI_COMPRESS_TOP_K;
    largest.keep_ppm = 10000;
    each = tutti_compressed_of(&compressor, 1, MLP, 4, N).sent_bytes;
    CHECK_INT(each, (N - 1) * KEPT * 8);
    CHECK_INT(sent_bytes(largest), N * each);
    factors.compression = compressor.kind = TUTTI_COMPRESS_POWER_SGD;
    factors.factor_rank = compressor.rank = RANK;
    each = tutti_compressed_of(&compressor, 784, 128, 4, N).payload_bytes +
           tutti_compressed_of(&compressor, 128, 10, 4, N).payload_bytes + 4 * (128 + 10);
    CHECK_INT(each, 4 * (RANK * (784 + 128 + 128 + 10) + 128 + 10));
    CHECK_INT(sent_bytes(factors), 2 * (N - 1) * each);
}

/* ---- learning -------------------------------------------------------------------------------- */

static const struct course whole = {
    .strategy = "ddp", .rank_count = 2, .global_batch = 64, .steps = 200, .rate = 0.03};

static double loss_with(enum tutti_compression compression, uint32_t keep_ppm, uint32_t rank,
                        bool forgets)
{
    struct course c = whole;
    struct outcome o;
    double loss;

    c.compression = compression;
    c.keep_ppm = keep_ppm;
    c.factor_rank = rank;
    c.forgets = forgets;
    o = take_course(&c);
    CHECK(o.in_sync);
    loss = loss_of(&o);
    printf("loss %.4f (compression %d%s)\n", loss, (int)compression, forgets ? ", forgotten" : "");
    free(o.weights);
    return loss;
}

/* What is left out and kept until it is sent: within 2 % of the loss without compression; what is
 * left out and lost: nothing near. */
TEST(with_error_feedback_training_comes_to_the_same)
{
    double dense;

    if (test_is_slow())
        SKIP("what is learnt is the same without sanitizers");
    dense = loss_with(TUTTI_COMPRESS_NONE, 0, 0, false);
    CHECK(fabs(loss_with(TUTTI_COMPRESS_TOP_K, 50000, 0, false) - dense) <= 0.02 * dense);
    CHECK(loss_with(TUTTI_COMPRESS_TOP_K, 50000, 0, true) > 1.04 * dense);
    CHECK(fabs(loss_with(TUTTI_COMPRESS_POWER_SGD, 0, 2, false) - dense) <= 0.02 * dense);
    CHECK(loss_with(TUTTI_COMPRESS_POWER_SGD, 0, 2, true) > 1.04 * dense);
}

TEST(all_of_the_largest_are_all_gradients)
{
    struct course c = {
        .strategy = "ddp", .rank_count = 4, .global_batch = 64, .steps = 20, .rate = 0.02};
    struct outcome dense = take_course(&c);
    struct outcome all;

    c.compression = TUTTI_COMPRESS_TOP_K;
    c.keep_ppm = 1000000;
    all = take_course(&c);
    CHECK(distance(&all, &dense) <= 1e-6);
    free(dense.weights);
    free(all.weights);
}

/* ---- what is kept ---------------------------------------------------------------------------- */

static struct course compressed(enum tutti_compression kind)
{
    return (struct course){.strategy = "horovod",
                           .rank_count = 4,
                           .global_batch = 64,
                           .steps = 16,
                           .rate = 0.02,
                           .compression = kind,
                           .keep_ppm = 10000,
                           .factor_rank = 3,
                           .micro_batches = 2};
}

/* A step that all skip leaves nothing behind: neither weights, nor what was left out, nor factors.
 * What comes after differs by the examples of that step alone. */
TEST(a_step_that_is_skipped_is_not_kept)
{
    static const enum tutti_compression kinds[] = {TUTTI_COMPRESS_TOP_K, TUTTI_COMPRESS_POWER_SGD};

    for (size_t i = 0; i < 2; i++) {
        struct course c = compressed(kinds[i]);
        struct outcome clean;
        struct outcome spoilt;

        c.steps = 3;
        clean = take_course(&c);
        c.steps = 4;
        c.poisoned_step = 4;
        spoilt = take_course(&c);
        CHECK_INT(spoilt.skipped_count, 1);
        CHECK(memcmp(spoilt.weights, clean.weights, clean.elements * sizeof(float)) == 0);
        free(spoilt.weights);
        c.steps = 8;
        spoilt = take_course(&c);
        CHECK_INT(spoilt.skipped_count, 1);
        CHECK(spoilt.in_sync);
        CHECK(isfinite(loss_of(&spoilt)));
        free(spoilt.weights);
        free(clean.weights);
    }
}

/* Saved at half of the way by 4, and gone on with by `later`. */
static struct outcome in_two(const struct course *c, const struct course *later)
{
    char folder[] = "/tmp/tutti-compress-XXXXXX";
    char line[128];
    struct course half = *c;
    struct course rest = *later;
    struct outcome o;

    CHECK(mkdtemp(folder) != NULL);
    half.steps = c->steps / 2;
    half.checkpoint = rest.checkpoint = folder;
    o = take_course(&half);
    free(o.weights);
    o = take_course(&rest);
    CHECK_INT(o.began_at, half.steps);
    (void)snprintf(line, sizeof(line), "rm -rf '%s'", folder);
    CHECK_INT(system(line), 0);
    return o;
}

TEST(what_was_left_out_is_part_of_a_checkpoint)
{
    static const enum tutti_compression kinds[] = {TUTTI_COMPRESS_TOP_K, TUTTI_COMPRESS_POWER_SGD};

    for (size_t i = 0; i < 2; i++) {
        struct course c = compressed(kinds[i]);
        struct outcome undisturbed = take_course(&c);
        struct outcome again = in_two(&c, &c);

        CHECK(memcmp(again.weights, undisturbed.weights, again.elements * sizeof(float)) == 0);
        free(undisturbed.weights);
        free(again.weights);
    }
}

/* Ranks' own are summed: the steps of POWER_SGD depend on the sum over ranks alone, so that two go
 * on as four would have. */
TEST(what_was_left_out_by_four_is_summed_into_two)
{
    struct course c = compressed(TUTTI_COMPRESS_POWER_SGD);
    struct course two = c;
    struct outcome undisturbed = take_course(&c);
    struct outcome again;

    two.rank_count = 2;
    again = in_two(&c, &two);
    CHECK(distance(&again, &undisturbed) <= 1e-5);
    CHECK(strstr(again.notes, "slot 'left-out': those of 4 ranks are summed into 2") != NULL);
    free(again.weights);
    two.compression = TUTTI_COMPRESS_NONE;
    again = in_two(&c, &two);
    CHECK(distance(&again, &undisturbed) > 1e-4);
    CHECK(strstr(again.notes, "left out of gradients is dropped") != NULL);
    free(again.weights);
    free(undisturbed.weights);
}

/* ---- averages -------------------------------------------------------------------------------- */

/* Eight workers that average every 4 steps (local SGD) or every 8 (DiLoCo) come to the loss of the
 * synchronous run, to 2 %. */
TEST(eight_that_average_now_and_then_come_to_the_same)
{
    struct course c = {
        .strategy = "ddp", .rank_count = 8, .global_batch = 256, .steps = 160, .rate = 0.05};
    struct outcome sync;
    struct outcome local;
    struct outcome outer;

    if (test_is_slow())
        SKIP("what is learnt is the same without sanitizers");
    sync = take_course(&c);
    c.strategy = "local-sgd";
    c.local_steps = 4;
    local = take_course(&c);
    c.strategy = "diloco";
    c.local_steps = 8;
    c.outer_rate = 0.7;
    outer = take_course(&c);
    printf("loss %.4f, local SGD %.4f, DiLoCo %.4f\n", loss_of(&sync), loss_of(&local),
           loss_of(&outer));
    CHECK(loss_of(&local) <= 1.02 * loss_of(&sync));
    CHECK(loss_of(&outer) <= 1.02 * loss_of(&sync));
    free(sync.weights);
    free(local.weights);
    free(outer.weights);
}
