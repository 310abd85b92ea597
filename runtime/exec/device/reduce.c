/* Data types and operators: names, sizes, the choice of kernels, and the finishing of averages. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "runtime/data.h"
#include "runtime/exec/device/half.h"
#include "runtime/exec/device/kernels.h"
#include "runtime/status.h"

struct dtype_entry {
    const char *name;  /* as nccl-tests prints it */
    const char *alias; /* as people say it; NULL: none */
    size_t bytes;
};

static const struct dtype_entry dtypes[TUTTI_DTYPE_COUNT] = {
    [TUTTI_FLOAT32] = {"float", "float32", 4}, [TUTTI_FLOAT64] = {"double", "float64", 8},
    [TUTTI_FLOAT16] = {"half", "float16", 2},  [TUTTI_BFLOAT16] = {"bfloat16", NULL, 2},
    [TUTTI_INT32] = {"int32", NULL, 4},        [TUTTI_INT64] = {"int64", NULL, 8},
    [TUTTI_INT8] = {"int8", NULL, 1},          [TUTTI_UINT8] = {"uint8", NULL, 1},
};

static const char *const ops[TUTTI_OP_COUNT] = {
    [TUTTI_SUM] = "sum", [TUTTI_PROD] = "prod", [TUTTI_MIN] = "min",
    [TUTTI_MAX] = "max", [TUTTI_AVG] = "avg",
};

static float widen_brain(uint16_t brain)
{
    union tutti_float_bits bits = {.u = (uint32_t)brain << 16};

    return bits.f;
}

static uint16_t narrow_brain(float value)
{
    union tutti_float_bits bits = {.f = value};

    if ((bits.u & 0x7fffffff) > 0x7f800000) /* adding to a NaN could carry into infinity */
        return (uint16_t)(bits.u >> 16 | 0x40);
    return (uint16_t)((bits.u + 0x7fff + (bits.u >> 16 & 1)) >> 16);
}

#define DIVIDE(TYPE, WIDE)                           \
    do {                                             \
        TYPE *d = dst;                               \
        for (size_t i = 0; i < count; i++)           \
            d[i] = (TYPE)((WIDE)d[i] / (WIDE)ranks); \
    } while (0)

#define DIVIDE_WIDE(WIDEN, NARROW)                     \
    do {                                               \
        uint16_t *d = dst;                             \
        for (size_t i = 0; i < count; i++)             \
            d[i] = NARROW(WIDEN(d[i]) / (float)ranks); \
    } while (0)

static void divide(enum tutti_dtype dtype, void *dst, size_t count, uint32_t ranks)
{
    switch (dtype) {
    case TUTTI_FLOAT32:
        DIVIDE(float, float);
        break;
    case TUTTI_FLOAT64:
        DIVIDE(double, double);
        break;
    case TUTTI_FLOAT16:
        DIVIDE_WIDE(tutti_half_widen, tutti_half_narrow);
        break;
    case TUTTI_BFLOAT16:
        DIVIDE_WIDE(widen_brain, narrow_brain);
        break;
    case TUTTI_INT32:
        DIVIDE(int32_t, int64_t);
        break;
    case TUTTI_INT64:
        DIVIDE(int64_t, int64_t);
        break;
    case TUTTI_INT8:
        DIVIDE(int8_t, int64_t);
        break;
    case TUTTI_UINT8:
        DIVIDE(uint8_t, int64_t);
        break;
    default:
        assert(dtype < TUTTI_DTYPE_COUNT);
    }
}

size_t tutti_dtype_bytes(enum tutti_dtype dtype)
{
    assert((unsigned)dtype < TUTTI_DTYPE_COUNT);
    return dtypes[dtype].bytes;
}

const char *tutti_dtype_name(enum tutti_dtype dtype)
{
    assert((unsigned)dtype < TUTTI_DTYPE_COUNT);
    return dtypes[dtype].name;
}

const char *tutti_op_name(enum tutti_op op)
{
    assert((unsigned)op < TUTTI_OP_COUNT);
    return ops[op];
}

/* More names that people type. */
static const struct {
    const char *name;
    enum tutti_dtype dtype;
} short_names[] = {
    {"bf16", TUTTI_BFLOAT16}, {"fp16", TUTTI_FLOAT16}, {"f16", TUTTI_FLOAT16},
    {"fp32", TUTTI_FLOAT32},  {"f32", TUTTI_FLOAT32},  {"fp64", TUTTI_FLOAT64},
    {"f64", TUTTI_FLOAT64},
};

int tutti_dtype_find(const char *name, enum tutti_dtype *ret, struct tutti_err *err)
{
    static const char words[] = "float, double, half, bfloat16, int32, int64, int8, uint8";
    char hint[TUTTI_HINT_BYTES];

    for (int i = 0; i < TUTTI_DTYPE_COUNT; i++) {
        if (strcmp(name, dtypes[i].name) != 0 &&
            (dtypes[i].alias == NULL || strcmp(name, dtypes[i].alias) != 0))
            continue;
        *ret = (enum tutti_dtype)i;
        return 0;
    }
    for (size_t i = 0; i < sizeof(short_names) / sizeof(short_names[0]); i++) {
        if (strcmp(name, short_names[i].name) == 0) {
            *ret = short_names[i].dtype;
            return 0;
        }
    }
    return tutti_fail(err, TUTTI_EINVAL, "unknown data type '%s' (%s%s)", name,
                      tutti_nearest_hint(name, words, hint), words);
}

int tutti_op_find(const char *name, enum tutti_op *ret, struct tutti_err *err)
{
    static const char words[] = "sum, prod, min, max, avg";
    char hint[TUTTI_HINT_BYTES];

    for (int i = 0; i < TUTTI_OP_COUNT; i++) {
        if (strcmp(name, ops[i]) != 0)
            continue;
        *ret = (enum tutti_op)i;
        return 0;
    }
    return tutti_fail(err, TUTTI_EINVAL, "unknown operator '%s' (%s%s)", name,
                      tutti_nearest_hint(name, words, hint), words);
}

void tutti_reduce(enum tutti_dtype dtype, enum tutti_op op, void *dst, const void *acc,
                  const void *src, size_t count)
{
    assert((unsigned)dtype < TUTTI_DTYPE_COUNT);
    assert((unsigned)op < TUTTI_OP_COUNT);
    tutti_kernels_at(0)->reduce[dtype][op](dst, acc, src, count);
}

/* Where a block of the result is formed, and how it gets to all places from there. */
static void put(const struct tutti_kernels *kernels, const struct tutti_spread *spread,
                const char *block, size_t at, size_t bytes)
{
    if (spread->stream) {
        for (uint32_t i = 0; i < spread->dst_count; i++)
            kernels->stream((char *)spread->dsts[i] + at, block, bytes);
        return;
    }
    for (uint32_t i = 0; i < spread->dst_count; i++) {
        char *place = (char *)spread->dsts[i] + at;

        if (block != place && bytes >= kernels->whole_bytes_min)
            kernels->whole(place, block, bytes);
        else if (block != place) /* to begin the other costs more than these take */
            memcpy(place, block, bytes);
    }
}

/* Block by block through the first-level cache, so that every operand is read from memory once
 * however many the places: reduced in the first place and copied on, or in a block on the stack and
 * from there to all, past the cache or where other processors have the lines. Plain stores to such
 * lines fetch and claim them one by one: 64 KiB took 10 us between processors that lie far apart
 * where whole lines take 2.9 (2.3 and 1.6 near; tests/bench/notes.md). */
void tutti_reduce_spread(const struct tutti_spread *spread)
{
    enum { BLOCK_BYTES = 4096, WHOLE_BYTES = 16384 };
    _Alignas(64) char block[WHOLE_BYTES];
    const struct tutti_kernels *kernels = tutti_kernels_at(0);
    tutti_kernel *reduce = kernels->reduce[spread->dtype][spread->op];
    size_t element = dtypes[spread->dtype].bytes;
    size_t bytes = spread->count * element;
    bool whole = !spread->stream && spread->handed && bytes >= kernels->whole_bytes_min;
    bool plain = !spread->stream && !whole && spread->dst_count == 1 && spread->src_count == 1;
    size_t most = whole ? WHOLE_BYTES : BLOCK_BYTES;
    /* Later blocks begin on a cache line. */
    size_t now = plain ? bytes : most - ((uintptr_t)spread->dsts[0] & 63);

    assert(spread->src_count > 0);
    assert(spread->dst_count > 0);
    for (size_t at = 0; at < bytes; at += now, now = most) {
        char *first = spread->stream || whole ? block : (char *)spread->dsts[0] + at;
        size_t count;

        if (now > bytes - at)
            now = bytes - at;
        count = now / element;
        reduce(first, (const char *)spread->acc + at, (const char *)spread->srcs[0] + at, count);
        for (uint32_t i = 1; i < spread->src_count; i++)
            reduce(first, first, (const char *)spread->srcs[i] + at, count);
        if (spread->divide_by > 0)
            tutti_finish(spread->dtype, spread->op, first, count, spread->divide_by);
        put(kernels, spread, first, at, now);
    }
    if (spread->stream)
        kernels->fence();
}

void tutti_copy_stream(void *dst, const void *src, size_t bytes)
{
    const struct tutti_kernels *kernels = tutti_kernels_at(0);

    kernels->stream(dst, src, bytes);
    kernels->fence();
}

void tutti_finish(enum tutti_dtype dtype, enum tutti_op op, void *dst, size_t count,
                  uint32_t rank_count)
{
    assert(rank_count > 0);
    if (op == TUTTI_AVG)
        divide(dtype, dst, count, rank_count);
}

const char *tutti_reduce_isa(void)
{
    return tutti_kernels_at(0)->isa;
}
