/* Fills the buffers of a real run and holds what came out against the contract; see buffers.h. */
#include "tools/run/buffers.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/random.h"
#include "runtime/status.h"
#include "runtime/units.h"
#include "runtime/wide.h"

/* Values repeat after PERIOD elements, so that large buffers are filled and compared at the speed
 * of memory. A prime: no chunk or block of a schedule is a multiple of it by chance. */
enum { PERIOD = 65521, PROD_RANKS = 8, SPOILT = 0xdb };

/* ---- values ----------------------------------------------------------------------------------
 */

static bool is_float(enum tutti_dtype dtype)
{
    return dtype == TUTTI_FLOAT32 || dtype == TUTTI_FLOAT64 || dtype == TUTTI_FLOAT16 ||
           dtype == TUTTI_BFLOAT16;
}

/* All whole numbers up to this are exact: 2 to the bits of the significand (less for the wide ones:
 * small numbers test as well). */
static uint64_t exact_max(enum tutti_dtype dtype)
{
    return dtype == TUTTI_FLOAT16 ? 2048 : dtype == TUTTI_BFLOAT16 ? 256 : 1u << 22;
}

/* A whole number in [-max, max] that is not 0. */
static double nonzero(uint64_t bits, uint64_t max)
{
    int64_t number = (int64_t)(bits % (2 * max)) - (int64_t)max;

    return (double)(number < 0 ? number : number + 1);
}

/* Floats. Sums: no subset of the ranks sums up to more than is exact; where there are more ranks
 * than that, some give 0, others for each element. Products: at most 8 ranks give a factor other
 * than 1 or -1, so that binary16 holds 2^8. */
static double float_value(const struct tutti_buffers *b, uint32_t rank, uint64_t i)
{
    uint64_t bits = tutti_random_hash(b->seed, rank, i, 0);
    uint64_t exact = exact_max(b->contract.dtype);
    uint64_t turn = (rank + i) % b->rank_count;

    if (b->contract.op == TUTTI_PROD) {
        double sign = (bits & 1) != 0 ? 1.0 : -1.0;

        return turn >= PROD_RANKS ? sign : (bits & 2) != 0 ? sign * 2.0 : sign * 0.5;
    }
    if (b->contract.op == TUTTI_SUM || b->contract.op == TUTTI_AVG) {
        if (b->rank_count <= exact)
            return nonzero(bits, exact / b->rank_count);
        return turn < exact ? nonzero(bits, 1) : 0.0;
    }
    return nonzero(bits, exact);
}

/* Integers of any size; odd ones for products, which else would soon be 0. */
static uint64_t integer_value(const struct tutti_buffers *b, uint32_t rank, uint64_t i)
{
    uint64_t bits = tutti_random_hash(b->seed, rank, i, 0);

    return b->contract.op == TUTTI_PROD || (bits & 0xff) == 0 ? bits | 1 : bits;
}

/* IEEE binary16, rounded to nearest even. */
static uint16_t half_bits(double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double size = fabs(value);
    int exponent;
    double whole;

    if (size < 0x1p-14)
        return (uint16_t)(sign | (uint16_t)nearbyint(size * 0x1p24));
    exponent = ilogb(size);
    whole = nearbyint(ldexp(size, 10 - exponent));
    if (whole >= 2048.0) {
        whole /= 2.0;
        exponent++;
    }
    if (exponent > 15)
        return sign | 0x7c00;
    return (uint16_t)(sign | (exponent + 15) << 10 | ((int)whole - 1024));
}

static uint16_t bfloat_bits(double value)
{
    float narrow = (float)value;
    uint32_t bits;

    memcpy(&bits, &narrow, 4);
    bits += 0x7fff + (bits >> 16 & 1);
    return (uint16_t)(bits >> 16);
}

static void store_float(enum tutti_dtype dtype, char *at, double value)
{
    float narrow = (float)value;
    uint16_t bits;

    switch (dtype) {
    case TUTTI_FLOAT32:
        memcpy(at, &narrow, 4);
        break;
    case TUTTI_FLOAT64:
        memcpy(at, &value, 8);
        break;
    default:
        bits = dtype == TUTTI_FLOAT16 ? half_bits(value) : bfloat_bits(value);
        memcpy(at, &bits, 2);
        break;
    }
}

static void store_integer(enum tutti_dtype dtype, char *at, uint64_t bits)
{
    switch (dtype) {
    case TUTTI_INT64:
        memcpy(at, &bits, 8);
        break;
    case TUTTI_INT32:
        memcpy(at, &(uint32_t){(uint32_t)bits}, 4);
        break;
    default:
        memcpy(at, &(uint8_t){(uint8_t)bits}, 1);
        break;
    }
}

static void store_value(const struct tutti_buffers *b, char *at, uint32_t rank, uint64_t i)
{
    enum tutti_dtype dtype = b->contract.dtype;

    if (is_float(dtype))
        store_float(dtype, at, float_value(b, rank, i % PERIOD));
    else
        store_integer(dtype, at, integer_value(b, rank, i % PERIOD));
}

/* ---- what must come out ---------------------------------------------------------------------- */

static double float_result(const struct tutti_buffers *b, uint64_t i)
{
    double result = float_value(b, 0, i);

    for (uint32_t r = 1; r < b->rank_count; r++) {
        double next = float_value(b, r, i);

        switch (b->contract.op) {
        case TUTTI_PROD:
            result *= next;
            break;
        case TUTTI_MIN:
            result = next < result ? next : result;
            break;
        case TUTTI_MAX:
            result = next > result ? next : result;
            break;
        default: /* sum and avg */
            result += next;
            break;
        }
    }
    if (b->contract.op != TUTTI_AVG)
        return result;
    /* All but float64 divide in float32, as the contract of tutti_finish says. */
    return b->contract.dtype == TUTTI_FLOAT64 ? result / (double)b->rank_count
                                              : (double)((float)result / (float)b->rank_count);
}

/* The number that the low bits stand for in the data type. */
static int64_t as_integer(enum tutti_dtype dtype, uint64_t bits)
{
    switch (dtype) {
    case TUTTI_INT64:
        return (int64_t)bits;
    case TUTTI_INT32:
        return (int32_t)(uint32_t)bits;
    case TUTTI_INT8:
        return (int8_t)(uint8_t)bits;
    default:
        return (uint8_t)bits;
    }
}

static uint64_t integer_result(const struct tutti_buffers *b, uint64_t i)
{
    enum tutti_dtype dtype = b->contract.dtype;
    uint64_t result = integer_value(b, 0, i);

    for (uint32_t r = 1; r < b->rank_count; r++) {
        uint64_t next = integer_value(b, r, i);
        bool less = as_integer(dtype, next) < as_integer(dtype, result);

        switch (b->contract.op) {
        case TUTTI_PROD:
            result *= next;
            break;
        case TUTTI_MIN:
            result = less ? next : result;
            break;
        case TUTTI_MAX:
            result = less ? result : next;
            break;
        default: /* sum and avg, modulo 2^64 and so modulo any smaller power of two */
            result += next;
            break;
        }
    }
    return b->contract.op == TUTTI_AVG
               ? (uint64_t)(as_integer(dtype, result) / (int64_t)b->rank_count)
               : result;
}

/* One period of the reduction of all inputs; the caller frees it. */
static char *reduce_period(const struct tutti_buffers *b, uint64_t count)
{
    size_t element = tutti_dtype_bytes(b->contract.dtype);
    uint64_t kept = count < PERIOD ? count : PERIOD;
    char *period = malloc((size_t)kept * element + 1);

    for (uint64_t i = 0; period != NULL && i < kept; i++) {
        if (is_float(b->contract.dtype))
            store_float(b->contract.dtype, period + i * element, float_result(b, i));
        else
            store_integer(b->contract.dtype, period + i * element, integer_result(b, i));
    }
    return period;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static uint64_t count_different(const char *seen, const char *expected, uint64_t count,
                                size_t element)
{
    uint64_t wrong = 0;

    if (memcmp(seen, expected, (size_t)count * element) == 0)
        return 0;
    for (uint64_t i = 0; i < count; i++)
        wrong += memcmp(seen + i * element, expected + i * element, element) != 0;
    return wrong;
}

/* `count` elements against a periodic sequence, of which they begin at element `first`. */
static uint64_t count_unlike(const char *seen, uint64_t count, const char *period, uint64_t first,
                             size_t element)
{
    uint64_t wrong = 0;

    for (uint64_t i = 0; i < count;) {
        uint64_t phase = (first + i) % PERIOD;
        uint64_t run = PERIOD - phase < count - i ? PERIOD - phase : count - i;

        wrong += count_different(seen + i * element, period + phase * element, run, element);
        i += run;
    }
    return wrong;
}

/* Has somebody written to the input of a rank? */
static uint64_t count_changed(const struct tutti_buffers *b, uint32_t rank)
{
    size_t element = tutti_dtype_bytes(b->contract.dtype);
    uint64_t count = b->in_bytes / element;
    const char *in = b->in[rank];
    uint64_t wrong = 0;
    char value[8];

    for (uint64_t i = 0; i < count && i < PERIOD; i++) {
        store_value(b, value, rank, i);
        wrong += memcmp(in + i * element, value, element) != 0;
    }
    if (count > PERIOD)
        wrong += count_different(in + PERIOD * element, in, count - PERIOD, element);
    return wrong;
}

static const char *result_of(const struct tutti_buffers *b, uint32_t rank)
{
    return b->places == NULL ? b->out[rank] : (const char *)b->state[rank] + b->places[rank][1];
}

/* One period of the input of a rank, which another process may have. */
static void fill_period(const struct tutti_buffers *b, uint32_t rank, char *period)
{
    size_t element = tutti_dtype_bytes(b->contract.dtype);
    uint64_t count = b->in_bytes / element;

    for (uint64_t i = 0; i < count && i < PERIOD; i++)
        store_value(b, period + i * element, rank, i);
}

/* Of a collective that only moves data: what this rank should have from the rank `from`, of whose
 * input one period is given. */
static uint64_t count_unlike_moved(const struct tutti_buffers *b, uint32_t rank, uint32_t from,
                                   const char *period)
{
    size_t element = tutti_dtype_bytes(b->contract.dtype);
    uint64_t count = b->contract.count;
    uint64_t block_bytes = count * element;
    const char *out = result_of(b, rank);

    switch (b->contract.collective) {
    case TUTTI_BROADCAST:
        return from == b->contract.root ? count_unlike(out, count, period, 0, element) : 0;
    case TUTTI_SENDRECV:
        return from == (rank + b->rank_count - 1) % b->rank_count
                   ? count_unlike(out, count, period, 0, element)
                   : 0;
    case TUTTI_ALLGATHER:
        return count_unlike(out + from * block_bytes, count, period, 0, element);
    case TUTTI_ALLTOALL:
        return count_unlike(out + from * block_bytes, count, period, rank * count, element);
    default:
        return 0; /* a barrier has no data */
    }
}

/* Those collectives are held against the inputs themselves. */
static int count_wrong_moved(const struct tutti_buffers *b, uint64_t *wrong, struct tutti_err *err)
{
    char *period = malloc(PERIOD * tutti_dtype_bytes(b->contract.dtype));

    if (period == NULL)
        return tutti_nomem(err);
    for (uint32_t from = 0; from < b->rank_count; from++) {
        fill_period(b, from, period);
        for (uint32_t r = b->first_rank; r < b->first_rank + b->own_count; r++)
            *wrong += count_unlike_moved(b, r, from, period);
    }
    free(period);
    return 0;
}

static int count_wrong_reduced(const struct tutti_buffers *b, uint64_t *wrong,
                               struct tutti_err *err)
{
    const struct tutti_contract *contract = &b->contract;
    size_t element = tutti_dtype_bytes(contract->dtype);
    bool scattered = contract->collective == TUTTI_REDUCESCATTER;
    bool rooted = contract->collective == TUTTI_REDUCE_TO_ROOT;
    char *period = reduce_period(b, b->in_bytes / element);

    if (period == NULL)
        return tutti_nomem(err);
    for (uint32_t r = b->first_rank; r < b->first_rank + b->own_count; r++) {
        if (!rooted || r == contract->root)
            *wrong += count_unlike(result_of(b, r), contract->count, period,
                                   scattered ? r * contract->count : 0, element);
    }
    free(period);
    return 0;
}

int tutti_buffers_wrong(const struct tutti_buffers *buffers, uint64_t *ret, struct tutti_err *err)
{
    enum tutti_collective collective = buffers->contract.collective;
    bool reduces = collective == TUTTI_ALLREDUCE || collective == TUTTI_REDUCESCATTER ||
                   collective == TUTTI_REDUCE_TO_ROOT;
    uint64_t wrong = 0;
    int status = reduces ? count_wrong_reduced(buffers, &wrong, err)
                         : count_wrong_moved(buffers, &wrong, err);

    if (status < 0)
        return status;
    for (uint32_t i = 0; i < buffers->own_count && buffers->places == NULL; i++)
        wrong += count_changed(buffers, buffers->first_rank + i);
    *ret = wrong;
    return 0;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Bytes that may be taken without swapping, from /proc/meminfo; UINT64_MAX if it does not say. */
static uint64_t memory_left(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[256];
    uint64_t kib = 0;
    bool found = false;

    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL)
        found = sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1;
    if (file != NULL)
        fclose(file);
    return found ? kib * 1024 : UINT64_MAX;
}

static void *take(uint64_t bytes)
{
    const size_t huge = (size_t)2 << 20; /* a page may be that large on x86-64 and arm64 */
    size_t unit = bytes >= huge ? huge : 4096;
    size_t rounded = bytes > SIZE_MAX - unit ? 0 : ((size_t)bytes / unit + 1) * unit;
    void *memory = rounded > 0 ? aligned_alloc(unit, rounded) : NULL;

    if (memory != NULL && unit == huge)
        (void)madvise(memory, rounded, MADV_HUGEPAGE); /* a matter of speed alone */
    return memory;
}

static void fill(const struct tutti_buffers *b, uint32_t rank)
{
    size_t element = tutti_dtype_bytes(b->contract.dtype);
    uint64_t count = b->in_bytes / element;
    char *in = b->in[rank];

    for (uint64_t i = 0; i < count && i < PERIOD; i++)
        store_value(b, in + i * element, rank, i);
    for (uint64_t i = PERIOD; i < count; i += PERIOD) /* from the period before: in cache */
        memcpy(in + i * element, in + (i - PERIOD) * element,
               (size_t)(count - i < PERIOD ? count - i : PERIOD) * element);
}

int tutti_buffers_open(const struct tutti_schedule *schedule, uint64_t seed,
                       struct tutti_buffers *ret, struct tutti_err *err)
{
    return tutti_buffers_open_part(schedule, seed, 0, schedule->rank_count, ret, err);
}

int tutti_buffers_open_part(const struct tutti_schedule *schedule, uint64_t seed,
                            uint32_t first_rank, uint32_t count, struct tutti_buffers *ret,
                            struct tutti_err *err)
{
    struct tutti_buffers b = {
        .contract = schedule->contract,
        .rank_count = schedule->rank_count,
        .first_rank = first_rank,
        .own_count = count,
        .in_bytes = schedule->in_bytes,
        .out_bytes = schedule->out_bytes,
        .seed = seed,
    };
    uint64_t wanted = tutti_times(
        tutti_plus(tutti_plus(b.in_bytes, b.out_bytes), schedule->scratch_bytes), count);
    uint64_t left = memory_left();
    bool complete;

    assert(first_rank <= b.rank_count && count <= b.rank_count - first_rank);
    if (wanted > left)
        return tutti_fail(err, TUTTI_ELACK,
                          "%u ranks need %.1f GiB for their buffers, and this machine has %.1f GiB "
                          "left (fewer ranks, or smaller sizes)",
                          count, (double)wanted / 0x1p30, (double)left / 0x1p30);
    b.in = calloc(b.rank_count, sizeof(*b.in));
    b.out = calloc(b.rank_count, sizeof(*b.out));
    complete = b.in != NULL && b.out != NULL;
    for (uint32_t r = first_rank; complete && r < first_rank + count; r++) {
        b.in[r] = take(b.in_bytes);
        b.out[r] = take(b.out_bytes);
        complete = b.in[r] != NULL && b.out[r] != NULL;
        if (complete)
            fill(&b, r);
    }
    if (!complete) {
        tutti_buffers_close(&b);
        return tutti_nomem(err);
    }
    tutti_buffers_spoil(&b);
    *ret = b;
    return 0;
}

void tutti_buffers_spoil(struct tutti_buffers *buffers)
{
    for (uint32_t r = buffers->first_rank; r < buffers->first_rank + buffers->own_count; r++)
        memset(buffers->out[r], SPOILT, (size_t)buffers->out_bytes);
}

static int find_places(const struct tutti_schedule *schedule, struct tutti_buffers *b,
                       struct tutti_err *err)
{
    uint64_t(*places)[2] = calloc(b->rank_count, sizeof(*places));

    b->state = calloc(b->rank_count, sizeof(*b->state));
    b->places = (const uint64_t(*)[2])places;
    if (places == NULL || b->state == NULL)
        return tutti_nomem(err);
    for (uint32_t r = 0; r < b->rank_count; r++)
        if (!tutti_schedule_place(schedule, r, &places[r][0], &places[r][1]))
            return tutti_fail(err, TUTTI_EINVAL, "'%s' is not played in place",
                              tutti_collective_name(b->contract.collective));
    return 0;
}

int tutti_buffers_put_in_place(const struct tutti_schedule *schedule, struct tutti_buffers *b,
                               struct tutti_err *err)
{
    bool in_is_larger = b->in_bytes > b->out_bytes;
    int status = b->places == NULL ? find_places(schedule, b, err) : 0;

    for (uint32_t r = b->first_rank; r < b->first_rank + b->own_count && status == 0; r++) {
        void *own = b->in[r];

        b->state[r] = in_is_larger ? b->in[r] : b->out[r];
        memset(b->state[r], SPOILT, (size_t)(in_is_larger ? b->in_bytes : b->out_bytes));
        b->in[r] = (char *)b->state[r] + b->places[r][0];
        fill(b, r);
        b->in[r] = own;
    }
    return status;
}

void tutti_buffers_close(struct tutti_buffers *buffers)
{
    for (uint32_t r = 0; r < buffers->rank_count; r++) {
        if (buffers->in != NULL)
            free(buffers->in[r]);
        if (buffers->out != NULL)
            free(buffers->out[r]);
    }
    free(buffers->in);
    free(buffers->out);
    free((void *)(uintptr_t)buffers->places);
    free(buffers->state);
    *buffers = (struct tutti_buffers){0};
}
