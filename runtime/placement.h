/* Where variables lie on parameter servers: partitioners that cut them, and who gets which shard.
 */
#ifndef TUTTI_RUNTIME_PLACEMENT_H
#define TUTTI_RUNTIME_PLACEMENT_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

struct tutti_arena;
struct tutti_err;

/* Variables are cut along their first axis only; scalars and single rows never are. As TensorFlow's
 * sharded_variable.py has them. */
enum tutti_partitioner {
    TUTTI_PARTITION_NONE,  /* each variable whole */
    TUTTI_PARTITION_FIXED, /* `shards` each, or one a row where there are fewer rows */
    /* bytes / `shard_bytes` rounded up, at most `shards` (0: 1) and one a row. Rounded up: the last
     * of them may be smaller than the minimum that the partitioner is named for. */
    TUTTI_PARTITION_MIN_SIZE,
    /* as few as there can be with no shard larger than `shard_bytes` (but a row at least), and at
     * most `shards` (0: any number) */
    TUTTI_PARTITION_MAX_SIZE,
};

struct tutti_partitioning {
    enum tutti_partitioner kind;
    uint64_t shard_bytes; /* MIN_SIZE: 0 means 256 KiB */
    uint64_t shards;
};

/* "none", "fixed:N", "min:SIZE", "max:SIZE". */
int tutti_partitioning_read(const char *text, struct tutti_partitioning *ret,
                            struct tutti_err *err);

/* How many shards a variable of so many rows and bytes gets. */
uint64_t tutti_partitioning_count(const struct tutti_partitioning *partition, uint64_t rows,
                                  uint64_t bytes);

enum tutti_placement {
    TUTTI_PLACE_ROUND_ROBIN, /* shard by shard in order of creation, server by server */
    TUTTI_PLACE_GREEDY, /* to the server with the least bytes so far, the first of such: depends
                                on the order of creation */
};

struct tutti_placement_params {
    size_t size; /* sizeof(struct tutti_placement_params): runtime/api.h */
    enum tutti_placement placement;
    struct tutti_partitioning partition;
    uint32_t server_count; /* >= 1 */
    uint32_t element_bytes;
    uint32_t variable_count;
    const uint64_t *rows;     /* [variable_count]; 0 and 1: not to be cut */
    const uint64_t *elements; /* [variable_count], multiples of the rows */
};

struct tutti_shard {
    uint32_t variable;
    uint32_t server;
    uint64_t first_row;
    uint64_t rows; /* of `div` strategy: the first shards have one more where it does not divide */
    uint64_t bytes;
};

enum { TUTTI_SHARDS_MAX = 1 << 22 };

struct tutti_placed {
    uint32_t shard_count;
    const struct tutti_shard *shard; /* in order of creation */
    uint32_t server_count;
    const uint64_t *server_bytes; /* [server_count] */
    struct tutti_arena *arena;
};

int tutti_placed_new(const struct tutti_placement_params *params, struct tutti_placed **ret,
                     struct tutti_err *err);
void tutti_placed_free(struct tutti_placed *placed); /* NULL is a no-op */

TUTTI_API_END

#endif
