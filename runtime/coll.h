/* Collective algorithms by name: each writes a schedule for any rank count from 1. */
#ifndef TUTTI_RUNTIME_COLL_H
#define TUTTI_RUNTIME_COLL_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/schedule.h"
#include "runtime/shape.h"

TUTTI_API_BEGIN

struct tutti_err;

struct tutti_coll_params {
    enum tutti_collective collective;
    enum tutti_dtype dtype;
    enum tutti_op op;
    uint32_t root;
    uint64_t count;         /* elements; see enum tutti_collective */
    uint32_t channel_count; /* parallel lanes that share the data; 0: 1 */
    uint64_t chunk_bytes; /* pipelining grain in bytes; 0: the algorithm's default (stated there) */
    uint32_t slice_count; /* messages a chunk is cut into; 0: 1 (the torus: see torus.c) */
    uint32_t slot_count;  /* messages in flight a connection; 0: TUTTI_SLOTS_DEFAULT */
};

/* One algorithm for one or more collectives. Price (latency terms, bytes a rank sends) and source
 * stand in the comment of its file and are held by a test. */
struct tutti_algorithm {
    const char *name;     /* "ring", "halving-doubling", ... */
    const char *summary;  /* one line for people */
    uint32_t collectives; /* bit set: 1u << enum tutti_collective */
    /* Makes the schedule. Refuses (-TUTTI_EINVAL) a shape it does not fit, saying why. */
    int (*generate)(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                    struct tutti_schedule **ret, struct tutti_err *err);
};

/* The table: all algorithms, in the order in which `-a all` tries them. *ret_count is its length.
 */
const struct tutti_algorithm *tutti_algorithms(size_t *ret_count);

/* Finds an algorithm that serves `collective`; else -TUTTI_EINVAL and the names that do. */
int tutti_algorithm_find(const char *name, enum tutti_collective collective,
                         const struct tutti_algorithm **ret, struct tutti_err *err);

/* find, then generate: params are validated here (root in range, sizes that do not overflow). */
int tutti_coll_generate(const char *algorithm, const struct tutti_coll_params *params,
                        const struct tutti_shape *shape, struct tutti_schedule **ret,
                        struct tutti_err *err);

TUTTI_API_END

#endif
