/* The collectives: their names, the sizes of their buffers, and how nccl-tests counts them. */
#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "runtime/schedule.h"
#include "runtime/status.h"

/* How a buffer of a collective grows: with nothing, with count, with n * count. */
enum extent { EXTENT_NONE, EXTENT_COUNT, EXTENT_ALL };

struct collective {
    const char *name;
    enum extent in;
    enum extent out;
    enum extent size;           /* nccl-tests' column "size": the larger of the two */
    unsigned bus_steps_a_share; /* busbw/algbw is this * (n-1)/n; 0: 1 (PERFORMANCE.md) */
};

static const struct collective collectives[TUTTI_COLLECTIVE_COUNT] = {
    [TUTTI_ALLREDUCE] = {"allreduce", EXTENT_COUNT, EXTENT_COUNT, EXTENT_COUNT, 2},
    [TUTTI_REDUCESCATTER] = {"reducescatter", EXTENT_ALL, EXTENT_COUNT, EXTENT_ALL, 1},
    [TUTTI_ALLGATHER] = {"allgather", EXTENT_COUNT, EXTENT_ALL, EXTENT_ALL, 1},
    [TUTTI_BROADCAST] = {"broadcast", EXTENT_COUNT, EXTENT_COUNT, EXTENT_COUNT, 0},
    [TUTTI_REDUCE_TO_ROOT] = {"reduce", EXTENT_COUNT, EXTENT_COUNT, EXTENT_COUNT, 0},
    [TUTTI_ALLTOALL] = {"alltoall", EXTENT_ALL, EXTENT_ALL, EXTENT_ALL, 1},
    [TUTTI_SENDRECV] = {"sendrecv", EXTENT_COUNT, EXTENT_COUNT, EXTENT_COUNT, 0},
    [TUTTI_BARRIER] = {"barrier", EXTENT_NONE, EXTENT_NONE, EXTENT_NONE, 0},
    [TUTTI_CUSTOM] = {"custom", EXTENT_COUNT, EXTENT_COUNT, EXTENT_COUNT, 0},
};

/* Saturates: whoever makes a schedule refuses sizes that reach UINT64_MAX. */
static uint64_t extent_bytes(enum extent extent, uint64_t count, size_t element_bytes,
                             uint32_t rank_count)
{
    uint64_t bytes = 0;

    if (extent == EXTENT_NONE)
        return 0;
    if (__builtin_mul_overflow(count, (uint64_t)element_bytes, &bytes))
        return UINT64_MAX;
    if (extent == EXTENT_ALL && __builtin_mul_overflow(bytes, (uint64_t)rank_count, &bytes))
        return UINT64_MAX;
    return bytes;
}

const char *tutti_collective_name(enum tutti_collective collective)
{
    assert(collective < TUTTI_COLLECTIVE_COUNT);
    return collectives[collective].name;
}

/* "all-reduce", "AllReduce" and nccl-tests' "all_reduce" are allreduce. */
static bool same_name(const char *typed, const char *name)
{
    for (; *name != '\0'; name++, typed++) {
        typed += *typed == '-' || *typed == '_';
        if (tolower((unsigned char)*typed) != *name)
            return false;
    }
    return *typed == '\0';
}

int tutti_collective_find(const char *name, enum tutti_collective *ret, struct tutti_err *err)
{
    static const char words[] =
        "allreduce reducescatter allgather broadcast reduce alltoall sendrecv barrier";
    char hint[TUTTI_HINT_BYTES];

    for (unsigned i = 0; i < TUTTI_COLLECTIVE_COUNT; i++) {
        if (same_name(name, collectives[i].name)) {
            *ret = (enum tutti_collective)i;
            return 0;
        }
    }
    return tutti_fail(err, TUTTI_EINVAL,
                      "unknown collective '%.40s' (%s%s; custom in the text of a schedule)", name,
                      tutti_nearest_hint(name, words, hint), words);
}

uint64_t tutti_collective_bytes(enum tutti_collective collective, uint64_t count,
                                enum tutti_dtype dtype, uint32_t rank_count)
{
    assert(collective < TUTTI_COLLECTIVE_COUNT);
    return extent_bytes(collectives[collective].size, count, tutti_dtype_bytes(dtype), rank_count);
}

uint64_t tutti_collective_count_for(enum tutti_collective collective, uint64_t bytes,
                                    enum tutti_dtype dtype, uint32_t rank_count)
{
    uint64_t one = tutti_collective_bytes(collective, 1, dtype, rank_count);

    return one == 0 ? 0 : bytes / one;
}

double tutti_collective_bus_factor(enum tutti_collective collective, uint32_t rank_count)
{
    unsigned shares;

    assert(collective < TUTTI_COLLECTIVE_COUNT);
    assert(rank_count > 0);
    shares = collectives[collective].bus_steps_a_share;
    return shares == 0 ? 1 : (double)shares * (rank_count - 1) / rank_count;
}

void tutti_contract_bytes(const struct tutti_contract *contract, uint32_t rank_count,
                          uint64_t *ret_in_bytes, uint64_t *ret_out_bytes)
{
    const struct collective *c = &collectives[contract->collective];
    size_t element_bytes = tutti_dtype_bytes(contract->dtype);

    assert(contract->collective < TUTTI_COLLECTIVE_COUNT);
    *ret_in_bytes = extent_bytes(c->in, contract->count, element_bytes, rank_count);
    *ret_out_bytes = extent_bytes(c->out, contract->count, element_bytes, rank_count);
}

bool tutti_collective_reduces(enum tutti_collective collective)
{
    return collective == TUTTI_ALLREDUCE || collective == TUTTI_REDUCESCATTER ||
           collective == TUTTI_REDUCE_TO_ROOT;
}

bool tutti_collective_is_rooted(enum tutti_collective collective)
{
    return collective == TUTTI_BROADCAST || collective == TUTTI_REDUCE_TO_ROOT;
}
