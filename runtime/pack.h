/* How gradients are grouped for reduction: packs (TensorFlow), buckets (PyTorch), fusion buffers
 * (Horovod); and what sparse gradients cost, which stay apart. */
#ifndef TUTTI_RUNTIME_PACK_H
#define TUTTI_RUNTIME_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/units.h"

TUTTI_API_BEGIN

struct tutti_arena;
struct tutti_err;

/* ---- packs --------------------------------------------------------------------------------- */

/* The backward pass finishes gradients in reverse order, the last variable's first. */
enum tutti_pack_rule {
    /* All gradients concatenated in forward order and cut into `limit` equal pieces, of which the
     * last takes the remainder: none can start before the last gradient is there. 0: one pack a
     * variable. TensorFlow cross_device_utils.py (num_packs of NcclAllReduce and
     * HierarchicalCopyAllReduce) and tf_cnn_benchmarks' gradient_repacking. */
    TUTTI_PACK_PIECES,
    /* In reverse order; a pack is closed once it holds *more* than `limit` bytes. 0: one pack of
     * everything. TensorFlow cross_device_utils.py, group_by_size (bytes_per_pack). */
    TUTTI_PACK_EXCEED,
    /* In reverse order; a bucket is closed once it holds `limit` bytes *or more*, the first one
     * once it holds `first_limit`. PyTorch reducer.cpp, compute_bucket_assignment_by_size, as DDP
     * calls it from the second iteration on, when it has rebuilt its buckets in the order of
     * readiness (caps 1 MiB and bucket_cap_mb, 25). Its first iteration reduces other buckets. */
    TUTTI_PACK_REACH,
    /* In reverse order; a variable that would take the buffer beyond `limit` bytes opens the next
     * one, and one larger than that goes alone. Horovod controller.cc, FuseResponses (128 MiB); its
     * padding of tensors to 16 bytes and its look-ahead past other types are left out. With
     * ready_ps, what becomes ready in different cycles is not fused. */
    TUTTI_PACK_FIT,
};

enum { TUTTI_PACKS_MAX = 1 << 20 };

struct tutti_pack_params {
    size_t size; /* sizeof(struct tutti_pack_params): runtime/api.h */
    enum tutti_pack_rule rule;
    uint32_t element_bytes;
    uint64_t limit;
    uint64_t first_limit; /* REACH; 0: as `limit` */
    uint32_t variable_count;
    const uint64_t *elements; /* [variable_count], in forward order */
    const bool *sparse;       /* [variable_count]; NULL: none */
    /* FIT: when each gradient is there, and how often Horovod looks; NULL, 0: all at once. */
    const tutti_ps *ready_ps;
    tutti_ps cycle_ps;
};

/* Variables are numbered in forward order. Dense packs are stretches of the concatenation of all
 * dense variables in forward order; a sparse variable is a pack alone, a stretch of the
 * concatenation of the sparse ones. */
struct tutti_pack {
    uint64_t first_element;
    uint64_t elements;
    uint32_t first_variable; /* the lowest that it has elements of, */
    uint32_t last_variable;  /* and the highest */
    uint32_t ready_variable; /* once this one's gradient is there, all that it needs are */
    bool sparse;
};

/* In the order in which they are reduced: of REACH and FIT as they are closed; of the others first
 * the dense ones, then the sparse ones. Pieces of no elements are left out. */
struct tutti_packs {
    uint32_t pack_count;
    const struct tutti_pack *pack;
    struct tutti_arena *arena;
};

int tutti_packs_new(const struct tutti_pack_params *params, struct tutti_packs **ret,
                    struct tutti_err *err);
void tutti_packs_free(struct tutti_packs *packs); /* NULL is a no-op */

/* ---- sparse gradients ---------------------------------------------------------------------- */

/* IndexedSlices of a variable: some of its rows, and which ones. */
struct tutti_slices {
    uint64_t rows; /* of the whole variable */
    uint64_t row_elements;
    uint32_t element_bytes;
    uint32_t index_bytes; /* 8 in TensorFlow */
};

/* What a rank receives as all ranks gather each other's slices: first how many there are (4 bytes
 * each), then values and indices; where ranks have unequally many, each is padded to the most
 * (TensorFlow cross_device_utils.py). All-gather sends each byte to n - 1 others, so all ranks
 * together send what all receive. */
struct tutti_slices_bytes {
    uint64_t length_bytes;
    uint64_t slice_bytes;   /* the sum of the others' */
    uint64_t padding_bytes; /* beside it */
};
struct tutti_slices_bytes tutti_slices_gather(const struct tutti_slices *slices,
                                              const uint64_t *touched_rows, uint32_t rank_count,
                                              uint32_t rank);

/* The least number of rows, touched by each of n ranks, from which on it is no more bytes to
 * all-reduce the whole variable by a ring (n times 2(n-1)/n of it) than to gather slices. */
uint64_t tutti_slices_densify_rows(const struct tutti_slices *slices, uint32_t rank_count);

TUTTI_API_END

#endif
