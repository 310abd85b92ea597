/* Bytes that a rank sends in a training step, by the way in which the replicas keep together: exact
 * whole numbers, before anyone says on what network. */
#ifndef TUTTI_RUNTIME_TRAFFIC_H
#define TUTTI_RUNTIME_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

struct tutti_err;

/* What the busiest rank of a ring all-reduce of so many elements sends, 2(n-1)/n of all bytes where
 * n divides them; blocks differ by an element where not. All ranks together send 2(n-1) times it.
 */
uint64_t tutti_ring_sent_max(uint64_t elements, uint32_t element_bytes, uint32_t rank_count);

enum tutti_sharding {
    TUTTI_SHARD_NONE, /* every rank keeps everything; gradients are all-reduced: DDP, Mirrored */
    /* Optimizer states divided: gradients are reduce-scattered, weights gathered. */
    TUTTI_SHARD_ZERO1,
    TUTTI_SHARD_ZERO2, /* gradients as well: reduce-scattered at every micro-batch */
    /* Weights as well (ZeRO-3, FSDP): gathered for forward and again for backward, each
     * micro-batch. */
    TUTTI_SHARD_ZERO3,
};
/* Where fewer ranks share states than there are (HSDP; ZeRO-1 of InternEvo by hosts), gradients are
 * then all-reduced across, once a step. */

struct tutti_traffic_params {
    size_t size; /* sizeof(struct tutti_traffic_params): runtime/api.h */
    enum tutti_sharding sharding;
    uint32_t rank_count;
    uint32_t shard_ranks;    /* that share states; 0: all, else a divisor of rank_count */
    uint32_t gradient_bytes; /* of an element */
    uint32_t weight_bytes;
    uint64_t parameters;
    uint32_t micro_batches; /* gradient accumulation; 0: 1 */
    bool eager;        /* NONE: all-reduce at each micro-batch, as DDP does without no_sync() */
    bool keep_weights; /* ZERO3: reshard_after_forward=False, no second gather */
    /* Local SGD, DiLoCo: weights of `weight_bytes` all-reduced every so many steps, and nothing in
     * between; 0: gradients at every step. NONE only. */
    uint32_t local_steps;
};

/* By a rank that sends most; shards are padded to equal ones, as ZeRO and FSDP do. */
struct tutti_traffic {
    uint64_t all_reduce_bytes;
    uint64_t reduce_scatter_bytes;
    uint64_t all_gather_bytes;
    uint64_t bytes; /* all of them together */
    uint32_t steps; /* in so many steps: 1, or local_steps */
};

int tutti_traffic_of(const struct tutti_traffic_params *params, struct tutti_traffic *ret,
                     struct tutti_err *err);

/* ---- compression --------------------------------------------------------------------------- */

enum tutti_compression {
    TUTTI_COMPRESS_NONE,
    TUTTI_COMPRESS_CAST,  /* to `element_bytes`: fp16, bf16 2; fp8, int8 1 */
    TUTTI_COMPRESS_TOP_K, /* the `keep` largest, values and 4-byte indices, gathered from all */
    /* Rank `rank` factors of an a x b matrix, r (a + b) elements, in two all-reduces; what is no
     * matrix, or would shrink to no less than 1/`worth`, stays as it is (Vogels et al. 2019;
     * PyTorch powerSGD_hook.py, min_compression_rate) */
    TUTTI_COMPRESS_POWER_SGD,
    TUTTI_COMPRESS_ONE_BIT, /* signs, and a scale of 4 bytes, in the two halves of an all-reduce */
    TUTTI_COMPRESS_ADASUM,  /* nothing less: log2 n rounds of recursive halving, each with three
                               dot products; Maleki et al. 2020 */
};

struct tutti_compressor {
    enum tutti_compression kind;
    uint32_t element_bytes; /* CAST */
    uint32_t rank;          /* POWER_SGD */
    uint32_t worth;         /* POWER_SGD; 0: 2 */
    uint64_t keep;          /* TOP_K */
};

struct tutti_compressed {
    uint64_t payload_bytes; /* of one rank's gradient, compressed */
    uint64_t sent_bytes;    /* by a rank that sends most */
    uint32_t collectives;   /* one after another */
};

/* One variable of rows x columns (1 x n: no matrix) of `element_bytes` each, on n ranks. */
struct tutti_compressed tutti_compressed_of(const struct tutti_compressor *compressor,
                                            uint64_t rows, uint64_t columns, uint32_t element_bytes,
                                            uint32_t rank_count);

TUTTI_API_END

#endif
