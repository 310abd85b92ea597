/* Tests of the arithmetic: every kernel of every instruction set against one written by hand. */
#include "runtime/data.h"
#include "runtime/exec/device/half.h"
#include "runtime/exec/device/kernels.h"
#include "runtime/random.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { ELEMENTS = 700, ROOM = ELEMENTS * 8 + 128 };

/* ---- the reference: one element, through the widest type that holds it ---- */

static double ref_double(enum tutti_op op, double a, double b)
{
    if (op == TUTTI_SUM || op == TUTTI_AVG)
        return a + b;
    if (op == TUTTI_PROD)
        return a * b;
    if (a != a || b != b)
        return __builtin_nan("");
    if (op == TUTTI_MIN)
        return a < b ? a : b;
    return a > b ? a : b;
}

static float ref_float(enum tutti_op op, float a, float b)
{
    volatile float result; /* float32 arithmetic, whatever the compiler */

    if (op == TUTTI_SUM || op == TUTTI_AVG)
        result = a + b;
    else if (op == TUTTI_PROD)
        result = a * b;
    else
        result = (float)ref_double(op, (double)a, (double)b);
    return result == result ? result : __builtin_nanf("");
}

static uint64_t ref_integer(enum tutti_op op, int64_t a, int64_t b)
{
    if (op == TUTTI_SUM || op == TUTTI_AVG)
        return (uint64_t)a + (uint64_t)b;
    if (op == TUTTI_PROD)
        return (uint64_t)a * (uint64_t)b;
    if (op == TUTTI_MIN)
        return (uint64_t)(a < b ? a : b);
    return (uint64_t)(a > b ? a : b);
}

static uint16_t brain_of(float value)
{
    union tutti_float_bits bits = {.f = value};

    return (uint16_t)((bits.u + 0x7fff + (bits.u >> 16 & 1)) >> 16);
}

static void ref_element(enum tutti_dtype dtype, enum tutti_op op, void *d, const void *a,
                        const void *b)
{
    size_t bytes = tutti_dtype_bytes(dtype);
    union {
        float f32;
        double f64;
        uint16_t u16;
        int32_t i32;
        int64_t i64;
        int8_t i8;
        uint8_t u8;
        uint32_t u32;
    } x = {.i64 = 0}, y = {.i64 = 0};

    memcpy(&x, a, bytes);
    memcpy(&y, b, bytes);
    switch (dtype) {
    case TUTTI_FLOAT32:
        x.f32 = ref_float(op, x.f32, y.f32);
        break;
    case TUTTI_FLOAT64:
        x.f64 = ref_double(op, x.f64, y.f64);
        x.f64 = x.f64 == x.f64 ? x.f64 : __builtin_nan("");
        break;
    case TUTTI_FLOAT16:
        x.u16 = tutti_half_narrow(ref_float(op, tutti_half_widen(x.u16), tutti_half_widen(y.u16)));
        break;
    case TUTTI_BFLOAT16: {
        union tutti_float_bits p = {.u = (uint32_t)x.u16 << 16};
        union tutti_float_bits q = {.u = (uint32_t)y.u16 << 16};
        x.u16 = brain_of(ref_float(op, p.f, q.f));
        break;
    }
    case TUTTI_INT32:
        x.u32 = (uint32_t)ref_integer(op, x.i32, y.i32);
        break;
    case TUTTI_INT64:
        x.i64 = (int64_t)ref_integer(op, x.i64, y.i64);
        break;
    case TUTTI_INT8:
        x.u8 = (uint8_t)ref_integer(op, x.i8, y.i8);
        break;
    default:
        x.u8 = (uint8_t)ref_integer(op, x.u8, y.u8);
    }
    memcpy(d, &x, bytes);
}

/* Random bits make NaNs, infinities and subnormals often enough for 16 bits; the wider floats get
 * them sprinkled in. */
static void fill(struct tutti_random *random, enum tutti_dtype dtype, void *data)
{
    static const uint32_t special32[] = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00001,
                                         0xffc12345, 1,          0x7f7fffff, 0x7fa00000};
    static const uint64_t special64[] = {
        0, UINT64_C(0x8000000000000000), UINT64_C(0x7ff0000000000000), UINT64_C(0xfff8000000000123),
        1, UINT64_C(0x7ff4000000000000)};

    for (size_t i = 0; i < ELEMENTS; i++) {
        uint64_t bits = tutti_random_next(random);
        uint64_t pick = tutti_random_below(random, 8);
        size_t bytes = tutti_dtype_bytes(dtype);

        if (dtype == TUTTI_FLOAT32 && pick == 0)
            bits = special32[tutti_random_below(random, 9)];
        if (dtype == TUTTI_FLOAT64 && pick == 0)
            bits = special64[tutti_random_below(random, 6)];
        memcpy((char *)data + i * bytes, &bits, bytes);
    }
}

struct operands {
    _Alignas(64) char a[ROOM];
    _Alignas(64) char b[ROOM];
    _Alignas(64) char d[ROOM];
    _Alignas(64) char expected[ROOM];
};

static void check_one(struct operands *o, const struct tutti_kernels *kernels,
                      enum tutti_dtype dtype, enum tutti_op op, size_t count, const size_t *shift)
{
    size_t bytes = tutti_dtype_bytes(dtype);
    char *a = o->a + shift[0] * bytes;
    char *b = o->b + shift[1] * bytes;
    char *d = o->d + shift[2] * bytes;

    for (size_t i = 0; i < count; i++)
        ref_element(dtype, op, o->expected + i * bytes, a + i * bytes, b + i * bytes);
    memset(o->d, 0x5a, sizeof(o->d));
    kernels->reduce[dtype][op](d, a, b, count);
    if (memcmp(d, o->expected, count * bytes) != 0)
        TEST_FAIL("%s %s %s of %zu differs", kernels->isa, tutti_dtype_name(dtype),
                  tutti_op_name(op), count);
    CHECK_INT(d[count * bytes], 0x5a);
    CHECK(d == o->d || d[-1] == 0x5a);
    memcpy(d, a, count * bytes); /* in place, as the accumulator and as the source */
    kernels->reduce[dtype][op](d, d, b, count);
    CHECK(memcmp(d, o->expected, count * bytes) == 0);
    memcpy(d, b, count * bytes);
    kernels->reduce[dtype][op](d, a, d, count);
    CHECK(memcmp(d, o->expected, count * bytes) == 0);
}

TEST(every_kernel_of_every_instruction_set_gives_the_same_bits)
{
    static const size_t counts[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 63, 64, 65, 255, 257, 600};
    struct tutti_random random;
    struct operands *o = aligned_alloc(64, sizeof(*o));
    const struct tutti_kernels *kernels;

    REQUIRE(o != NULL);
    memset(o, 0, sizeof(*o));
    tutti_random_seed(&random, test_seed);
    for (int t = 0; t < TUTTI_DTYPE_COUNT; t++) {
        for (int op = 0; op < TUTTI_OP_COUNT; op++) {
            fill(&random, (enum tutti_dtype)t, o->a);
            fill(&random, (enum tutti_dtype)t, o->b);
            for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
                size_t shift[3];

                for (size_t i = 0; i < 3; i++)
                    shift[i] = (size_t)tutti_random_below(&random, 16);
                for (size_t k = 0; (kernels = tutti_kernels_at(k)) != NULL; k++)
                    check_one(o, kernels, (enum tutti_dtype)t, (enum tutti_op)op, counts[c], shift);
            }
        }
    }
    free(o);
}

TEST(streaming_and_whole_lines_give_the_same_bits)
{
    enum { COUNT = 9000 };
    struct tutti_random random;
    static float a[COUNT + 16], b[COUNT + 16], d[COUNT + 16], e[COUNT + 16], expected[COUNT + 16];

    tutti_random_seed(&random, test_seed);
    for (size_t i = 0; i < COUNT + 16; i++) {
        a[i] = (float)tutti_random_unit(&random);
        b[i] = (float)tutti_random_unit(&random);
    }
    for (size_t shift = 0; shift < 16; shift++) {
        size_t count = COUNT - (size_t)tutti_random_below(&random, 8000);

        tutti_reduce(TUTTI_FLOAT32, TUTTI_SUM, expected, a + 1, b + shift, count);
        if ((shift & 1) != 0)
            tutti_reduce(TUTTI_FLOAT32, TUTTI_SUM, expected, expected, a + 2, count);
        /* To one or two places, through the cache, past it, or whole. */
        for (int way = 0; way < 6; way++) {
            void *places[2] = {d + shift, e + 16 - shift};
            const void *operands[2] = {b + shift, a + 2};
            struct tutti_spread spread = {.dtype = TUTTI_FLOAT32,
                                          .op = TUTTI_SUM,
                                          .count = count,
                                          .acc = a + 1,
                                          .srcs = operands,
                                          .dsts = places,
                                          .src_count = 1 + (uint32_t)(shift & 1),
                                          .dst_count = 1 + (uint32_t)(way & 1),
                                          .stream = way == 2 || way == 3,
                                          .handed = way >= 4};

            memset(d, 0, sizeof(d));
            memset(e, 0, sizeof(e));
            tutti_reduce_spread(&spread);
            CHECK(memcmp(d + shift, expected, count * 4) == 0);
            CHECK((memcmp(e + 16 - shift, expected, count * 4) == 0) == ((way & 1) != 0));
        }
        CHECK(d[shift + count - (shift + count == COUNT + 16)] == 0 || shift + count == COUNT + 16);
        for (size_t k = 0; tutti_kernels_at(k) != NULL; k++) {
            memset(d, 0, sizeof(d));
            tutti_kernels_at(k)->stream(d + shift, a, count * 4 - k);
            CHECK(memcmp(d + shift, a, count * 4 - k) == 0);
            memset(d, 0, sizeof(d));
            tutti_kernels_at(k)->whole(d + shift, b, count * 4 - k);
            CHECK(memcmp(d + shift, b, count * 4 - k) == 0);
        }
        tutti_copy_stream(d + shift, b, 3);
        CHECK(memcmp(d + shift, b, 3) == 0);
    }
}

TEST(half_precision_round_trips_and_rounds_to_even)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float wide = tutti_half_widen((uint16_t)h);

        if (wide == wide)
            CHECK_INT(tutti_half_narrow(wide), h);
        else
            CHECK_INT(tutti_half_narrow(wide), h | 0x200);
    }
    CHECK_INT(tutti_half_narrow(2049.0f), tutti_half_narrow(2048.0f)); /* tie: to even */
    CHECK_INT(tutti_half_narrow(2051.0f), tutti_half_narrow(2052.0f));
    CHECK_INT(tutti_half_narrow(65519.0f), 0x7bff);
    CHECK_INT(tutti_half_narrow(65520.0f), 0x7c00);
    CHECK_INT(tutti_half_narrow(0x1p-25f), 0); /* half the smallest subnormal: tie to 0 */
    CHECK_INT(tutti_half_narrow(0x1.8p-25f), 1);
}

TEST(an_average_divides_and_truncates)
{
    float f[2] = {10, -3};
    int32_t i[2] = {-7, 7};
    uint8_t u[1] = {200};
    int8_t c[1] = {-128};
    int64_t l[1] = {INT64_MIN};
    uint16_t h[2] = {tutti_half_narrow(9.0f), tutti_half_narrow(-1.0f)};
    uint16_t b[1] = {brain_of(9.0f)};
    double d[1] = {1};

    tutti_finish(TUTTI_FLOAT32, TUTTI_AVG, f, 2, 4);
    CHECK(f[0] == 2.5f && f[1] == -0.75f);
    tutti_finish(TUTTI_FLOAT32, TUTTI_SUM, f, 2, 4);
    CHECK(f[0] == 2.5f);
    tutti_finish(TUTTI_INT32, TUTTI_AVG, i, 2, 2);
    CHECK_INT(i[0], -3);
    CHECK_INT(i[1], 3);
    tutti_finish(TUTTI_UINT8, TUTTI_AVG, u, 1, 3);
    CHECK_INT(u[0], 66);
    tutti_finish(TUTTI_INT8, TUTTI_AVG, c, 1, 3);
    CHECK_INT(c[0], -42);
    tutti_finish(TUTTI_INT64, TUTTI_AVG, l, 1, 2);
    CHECK_INT(l[0], INT64_MIN / 2);
    tutti_finish(TUTTI_FLOAT16, TUTTI_AVG, h, 2, 2);
    CHECK(tutti_half_widen(h[0]) == 4.5f && tutti_half_widen(h[1]) == -0.5f);
    tutti_finish(TUTTI_BFLOAT16, TUTTI_AVG, b, 1, 2);
    CHECK_INT(b[0], brain_of(4.5f));
    tutti_finish(TUTTI_FLOAT64, TUTTI_AVG, d, 1, 4);
    CHECK(d[0] == 0.25);
}

TEST(names_are_those_of_nccl_tests)
{
    struct tutti_err err;
    enum tutti_dtype dtype = TUTTI_INT8;
    enum tutti_op op = TUTTI_SUM;

    for (int t = 0; t < TUTTI_DTYPE_COUNT; t++) {
        CHECK_OK(tutti_dtype_find(tutti_dtype_name((enum tutti_dtype)t), &dtype, &err), err);
        CHECK_INT(dtype, t);
    }
    CHECK_OK(tutti_dtype_find("float16", &dtype, &err), err);
    CHECK_INT(dtype, TUTTI_FLOAT16);
    for (int o = 0; o < TUTTI_OP_COUNT; o++) {
        CHECK_OK(tutti_op_find(tutti_op_name((enum tutti_op)o), &op, &err), err);
        CHECK_INT(op, o);
    }
    CHECK_INT(tutti_dtype_find("quad", &dtype, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "unknown data type 'quad' (float, double, half, bfloat16, int32, int64, "
                         "int8, uint8)");
    CHECK_INT(tutti_op_find("xor", &op, &err), -TUTTI_EINVAL);
    CHECK_TEXT(err.text, "unknown operator 'xor' (sum, prod, min, max, avg)");
    printf("        instruction set in use: %s\n", tutti_reduce_isa());
}
