/* The sweep of sizes that -b -e -f -i ask for, as nccl-tests does it. */
#ifndef TUTTI_TOOLS_CLI_SIZES_H
#define TUTTI_TOOLS_CLI_SIZES_H

#include <stdint.h>

#include "runtime/schedule.h"
#include "tools/options.h"

struct tutti_err;

enum { TUTTI_SIZES_MAX = 10000 };

/* size(0) = min; size(i + 1) = size(i) * factor, or + step if factor is 1; the last is <= max. */
struct tutti_sizes {
    uint64_t min_bytes;
    uint64_t max_bytes;
    uint64_t factor;     /* 1: by steps */
    uint64_t step_bytes; /* with factor 1 */
    uint32_t count;      /* how many sizes: 1 .. TUTTI_SIZES_MAX */
};

/* The rows of an option table; `from`, `to` and `by` are what holds if nothing is given. */
#define TUTTI_OPTIONS_SIZES(from, to, by)                                               \
    {.letter = 'b',                                                                     \
     .name = "minbytes",                                                                \
     .type = TUTTI_OPTION_SIZE,                                                         \
     .value = "SIZE",                                                                   \
     .standard = from,                                                                  \
     .help = "smallest size: 12345, 4K, 16M, 1G (powers of 1024)"},                     \
        {.letter = 'e',                                                                 \
         .name = "maxbytes",                                                            \
         .type = TUTTI_OPTION_SIZE,                                                     \
         .value = "SIZE",                                                               \
         .standard = to,                                                                \
         .help = "largest size; with -b alone that one size"},                          \
        {.letter = 'f',                                                                 \
         .name = "stepfactor",                                                          \
         .type = TUTTI_OPTION_COUNT,                                                    \
         .value = "FACTOR",                                                             \
         .standard = by,                                                                \
         .min = 2,                                                                      \
         .max = 1 << 20,                                                                \
         .help = "each size is FACTOR times the last"},                                 \
    {                                                                                   \
        .letter = 'i', .name = "stepbytes", .type = TUTTI_OPTION_SIZE, .value = "SIZE", \
        .help = "each size is SIZE more than the last, instead of -f"                   \
    }

/* Reads them. With -b and without -e there is one size; with -e below the standard -b the sweep
 * begins there. -TUTTI_EINVAL for -b above -e, for -f beside -i and for too many sizes. */
int tutti_sizes_read(const struct tutti_args *args, struct tutti_sizes *ret, struct tutti_err *err);

/* -TUTTI_EINVAL: `least` of -b is above `most` of -e, which is said as typed. */
int tutti_sizes_check_order(const struct tutti_args *args, uint64_t least, uint64_t most,
                            struct tutti_err *err);

/* Size number `index` < count, in bytes, as it was asked for. */
uint64_t tutti_sizes_at(const struct tutti_sizes *sizes, uint32_t index);

/* The count (of elements, as in a schedule's contract) that nccl-tests makes of a size: rounded
 * down to whole elements; where every rank has a block of its own, the block is rounded down to 16
 * bytes as well. tutti_collective_bytes() of it is the size that is printed. */
uint64_t tutti_sizes_elements(enum tutti_collective collective, uint64_t bytes,
                              enum tutti_dtype dtype, uint32_t rank_count);

#endif
