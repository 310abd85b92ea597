/* The loops of real training: every instruction set gives the same bits, products are right, and
 * floats are rounded to nearest. */
#include <math.h>

#include "runtime/exec/device/half.h"
#include "runtime/random.h"
#include "runtime/train/convert.h"
#include "runtime/train/loops.h"
#include "runtime/train/products.h"
#include "tests/test.h"

enum { COUNT = 4099 };

static void draw(struct tutti_random *random, float *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = (float)(2 * tutti_random_unit(random) - 1);
}

/* Against sums in double precision, to what float32 allows for sums of `depth` numbers below 1. */
static void check_product(const struct tutti_products *products, struct tutti_product p,
                          struct tutti_random *random)
{
    float *a = calloc(p.rows * p.depth + 1, sizeof(*a));
    float *b = calloc(p.columns * p.depth + 1, sizeof(*b));
    float *c = calloc(p.rows * p.columns, sizeof(*c));
    float *before = calloc(p.rows * p.columns, sizeof(*before));

    REQUIRE(a != NULL && b != NULL && c != NULL && before != NULL);
    draw(random, a, p.rows * p.depth);
    draw(random, b, p.columns * p.depth);
    draw(random, c, p.rows * p.columns);
    memcpy(before, c, p.rows * p.columns * sizeof(*c));
    p.a = a;
    p.b = b;
    p.c = c;
    products->multiply(products, &p);
    for (size_t i = 0; i < p.rows; i++)
        for (size_t j = 0; j < p.columns; j++) {
            double sum = p.add ? (double)before[i * p.columns + j] : 0;

            for (size_t k = 0; k < p.depth; k++)
                sum += (double)a[p.transpose_a ? k * p.rows + i : i * p.depth + k] *
                       (double)b[p.transpose_b ? j * p.depth + k : k * p.columns + j];
            if (fabs(sum - (double)c[i * p.columns + j]) > 1e-6 * (1 + (double)p.depth))
                TEST_FAIL("%s: %zu x %zu x %zu (%d, %d, %d): [%zu][%zu] is %g, expected %g",
                          products->name, p.rows, p.depth, p.columns, p.transpose_a, p.transpose_b,
                          p.add, i, j, (double)c[i * p.columns + j], sum);
        }
    free(a);
    free(b);
    free(c);
    free(before);
}

TEST(products_are_right_whatever_their_shape)
{
    static const size_t sizes[][3] = {{1, 1, 1},     {1, 1, 700}, {3, 5, 7},   {12, 32, 256},
                                      {13, 33, 257}, {31, 10, 9}, {64, 64, 1}, {5, 100, 520}};
    struct tutti_products products[4];
    size_t count = 0;
    struct tutti_random random;

    tutti_random_seed(&random, test_seed);
    for (size_t i = 0; tutti_loops_at(i) != NULL; i++)
        tutti_products_by_loops(tutti_loops_at(i), &products[count++]);
    tutti_products_open(1, &products[count++]);
    for (size_t i = 0; i < count; i++)
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
            for (unsigned how = 0; how < 8; how++)
                check_product(&products[i],
                              (struct tutti_product){.rows = sizes[s][0],
                                                     .columns = sizes[s][1],
                                                     .depth = sizes[s][2],
                                                     .transpose_a = (how & 1) != 0,
                                                     .transpose_b = (how & 2) != 0,
                                                     .add = (how & 4) != 0},
                              &random);
    tutti_products_close(&products[count - 1]);
}

TEST(the_bound_of_openblas_is_put_back)
{
    struct tutti_products two;
    struct tutti_products one;
    struct tutti_blas blas;
    int before;

    if (!tutti_blas_open(&blas))
        SKIP("no OpenBLAS here");
    before = blas.get_threads();
    tutti_products_open(2, &two);
    CHECK_TEXT(two.name, "openblas");
    CHECK_INT(two.blas.get_threads(), 2);
    tutti_products_open(0, &one);
    CHECK_INT(one.blas.get_threads(), 1);
    tutti_products_close(&one);
    CHECK_INT(two.blas.get_threads(), 2);
    tutti_products_close(&two);
    CHECK_INT(blas.get_threads(), before);
}

/* Results of one instruction set. */
struct results {
    float bias[COUNT];
    float relu[COUNT];
    float back[COUNT];
    float e[COUNT];
    double sums[COUNT];
    double squares;
    float columns[4 * 4 * 27 + TUTTI_LOOPS_ROOM];
    float image[8 * 8 * 3];
    float pooled[16 * 3];
    uint8_t which[16 * 3];
    float unpooled[9 * 9 * 3];
    float c[37 * 41];
    uint16_t half[COUNT];
    uint16_t brain[COUNT];
    float wide[2][COUNT];
};

/* Every result of every loop, of the same inputs. */
static void play(const struct tutti_loops *l, struct results *r)
{
    static float x[COUNT + TUTTI_LOOPS_ROOM];
    static float y[COUNT];
    const struct tutti_window w = {8, 8, 3, 3, 2, 0, 4, 4};
    const struct tutti_window p = {9, 9, 3, 2, 2, 0, 4, 4};
    struct tutti_random random;

    memset(r, 0, sizeof(*r));
    tutti_random_seed(&random, test_seed);
    draw(&random, x, COUNT);
    draw(&random, y, COUNT);
    memcpy(r->bias, x, sizeof(r->bias));
    l->bias(r->bias, y, 4, 1000, false);
    memcpy(r->relu, x, sizeof(r->relu));
    l->bias(r->relu, y, 4, 1000, true);
    memcpy(r->back, x, sizeof(r->back));
    l->relu_backward(r->back, y, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        r->e[i] = -100 * (x[i] + 1);
    l->exponential(r->e, COUNT);
    l->column_sums(r->sums, x, 41, 99);
    r->squares = l->square_sum(x, COUNT);
    l->window_columns(&w, x, r->columns);
    l->window_image(&w, r->columns, r->image);
    l->pool(&p, x, y, true, r->pooled, r->which);
    l->pool_backward(&p, r->pooled, r->which, r->unpooled);
    l->multiply(&(struct tutti_product){37, 41, 53, x, y, r->c, true, false, false});
    l->multiply(&(struct tutti_product){37, 41, 53, x, y, r->c, false, true, true});
    for (size_t i = 0; i < COUNT; i++)
        y[i] = ldexpf(x[i], (int)(i % 60) - 40);
    y[0] = NAN;
    y[1] = INFINITY;
    y[2] = -0.0f;
    l->narrow_half(r->half, y, COUNT);
    l->narrow_brain(r->brain, y, COUNT);
    l->widen_half(r->wide[0], r->half, COUNT);
    l->widen_brain(r->wide[1], r->brain, COUNT);
}

TEST(every_instruction_set_gives_the_same_bits)
{
    static struct results best;
    static struct results other;

    play(tutti_loops_at(0), &best);
    for (size_t i = 1; tutti_loops_at(i) != NULL; i++) {
        play(tutti_loops_at(i), &other);
        if (memcmp(&best, &other, sizeof(best)) != 0)
            TEST_FAIL("%s is not %s", tutti_loops_at(i)->isa, tutti_loops_at(0)->isa);
    }
    CHECK(best.squares > 0);
    if (tutti_loops_at(1) == NULL)
        SKIP("one instruction set here");
}

TEST(exponentials_are_within_two_units)
{
    float x[COUNT];

    for (size_t i = 0; i < COUNT; i++)
        x[i] = -(float)i * (87.0f / COUNT);
    tutti_loops_at(0)->exponential(x, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        double expected = exp(-(double)((float)i * (87.0f / COUNT)));

        if (fabs((double)x[i] - expected) > 2.4e-7 * expected)
            TEST_FAIL("e^-%g is %g, expected %g", (double)((float)i * (87.0f / COUNT)),
                      (double)x[i], expected);
    }
    x[0] = -INFINITY;
    x[1] = NAN;
    tutti_loops_at(0)->exponential(x, 2);
    CHECK(x[0] < 1e-37f);
    CHECK(isnan(x[1]));
}

/* All 65536 halves and brains survive widening and narrowing; between two neighbours the middle
 * goes to the even one. */
TEST(sixteen_bits_are_rounded_to_nearest_even)
{
    static uint16_t all[65536];
    static uint16_t back[65536];
    static float wide[65536];
    const enum tutti_dtype types[] = {TUTTI_FLOAT16, TUTTI_BFLOAT16};

    for (uint32_t i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (size_t t = 0; t < 2; t++) {
        tutti_train_widen(types[t], wide, all, 65536);
        tutti_train_narrow(types[t], back, wide, 65536);
        for (uint32_t i = 0; i < 65536; i++)
            CHECK(back[i] == all[i] || isnan(wide[i]));
        for (uint32_t i = 0; i + 1 < 0x7c00; i++) { /* finite in both */
            float middle = (float)(((double)wide[i] + (double)wide[i + 1]) / 2);
            float rounded;

            tutti_train_round(tutti_loops_at(0), types[t], &rounded, &middle, 1);
            CHECK(rounded == wide[i + (i & 1)]);
        }
    }
}

TEST(a_sum_of_squares_is_finite_where_all_are)
{
    static float x[COUNT];

    for (size_t i = 0; i < COUNT; i++)
        x[i] = 3e38f;
    CHECK(isfinite(tutti_train_square_sum(x, COUNT)));
    x[COUNT - 1] = NAN;
    CHECK(!isfinite(tutti_train_square_sum(x, COUNT)));
    x[COUNT - 1] = 0;
    x[7] = -INFINITY;
    CHECK(!isfinite(tutti_train_square_sum(x, COUNT)));
    for (size_t i = 0; i < COUNT; i++)
        x[i] = 2;
    CHECK(tutti_train_square_sum(x, COUNT) == 4.0 * COUNT);
}
