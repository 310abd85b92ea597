/* What TensorFlow's own collectives and input pipelines decide: its rings and their subdivisions,
 * its broadcast trees, its copies inside a DGX-1, and which examples go to which replica. */
#ifndef TUTTI_RUNTIME_TENSORFLOW_H
#define TUTTI_RUNTIME_TENSORFLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/coll.h"

TUTTI_API_BEGIN

/* Devices are numbered task by task, so many of each task. */
struct tutti_tf_cluster {
    uint32_t task_count;    /* >= 1 */
    const uint32_t *device; /* [task_count]: devices of each, >= 1 */
};

uint32_t tutti_tf_device_count(const struct tutti_tf_cluster *cluster);

/* ---- the ring (core/common_runtime: collective_param_resolver_local.cc, ring_alg.cc) -------- */

/* The devices of one task in the order of its ring: from device 0 always on along the strongest
 * link to one not yet visited, the lowest of equals; where there is none, to the lowest left.
 * strength[a * count + b] is that of the link from a to b, 0 for none. */
void tutti_tf_ring_walk(uint32_t count, const uint32_t *strength, uint32_t *ret_order);

enum { TUTTI_TF_SUBDIVISIONS_MAX = 256, TUTTI_TF_CHUNK_BYTES_MAX = 4 << 20 };

/* Into how many rings a tensor is divided: the least number k at which a chunk, bytes / (n k), is
 * at most 4 MiB, and at most `a_device` (0: 2; negative: one ring) for each device of an average
 * task. ret_offset, of TUTTI_TF_SUBDIVISIONS_MAX, says how far each ring's local orders are turned,
 * negative: and reversed. */
uint32_t tutti_tf_subdivisions(const struct tutti_tf_cluster *cluster, uint64_t bytes,
                               int32_t a_device, int32_t *ret_offset);

/* The ring of one offset: within each task the local order is turned left by |offset|, reversed
 * first if that is negative; tasks keep their order. `order` is the ring without an offset (NULL:
 * by number); a k-th of them is a shape's k-th ring order for the algorithm "ring". */
void tutti_tf_ring_order(const struct tutti_tf_cluster *cluster, const uint32_t *order,
                         int32_t offset, uint32_t *ret_order);

/* "tf-ring": the ring, divided as above: a channel a subdivision, each on the ring of its offset.
 * Tasks are the groups of the shape's first level; within them devices are in the order of the
 * shape's first ring, if that goes task by task, else by number. Price: as "ring", 2(n-1)/n of all
 * bytes a rank. */
int tutti_tf_ring_reduce(const struct tutti_coll_params *params, const struct tutti_shape *shape,
                         struct tutti_schedule **ret, struct tutti_err *err);

/* ---- trees (hierarchical_tree_broadcaster.cc) ------------------------------------------------ */

#define TUTTI_TF_NONE UINT32_MAX

/* The parent of member `rank` of a binary tree of n, TUTTI_TF_NONE for the source. Children of r
 * are 2r+1 and 2r+2; where the source is not 0 they are 2r+2 and 2r+3, and the source has 0 and 1
 * besides. */
uint32_t tutti_tf_tree_parent(uint32_t count, uint32_t source, uint32_t rank);

/* From whom each device has a broadcast: first a tree over one device of each task (the source in
 * its own, device 0 of others), then a tree in each task. ret_parent[device]. */
void tutti_tf_broadcast_parents(const struct tutti_tf_cluster *cluster, uint32_t source,
                                uint32_t *ret_parent);

/* ---- hierarchical copy (cross_device_ops.py, HierarchicalCopyAllReduce) -----------------------
 */

/* "hierarchical-copy", an all-reduce among two halves of an even number of devices, made for the
 * two quads of a DGX-1. Each channel is a tensor (or pack) of its own, one after another in the
 * data. Tensor i has two roots, A = i mod n and the device of the other half A + n/2: each half is
 * summed at its root, B's sum goes to A, the total back to B, and both hand it to their half. Price
 * for n ranks, M bytes in one tensor: 4 messages one after another on the longest path (2 for n =
 * 2); A sends n/2 M, reduces n/2 M. With tensors as many as ranks, of M bytes each, every link
 * inside a half carries 4 M each way, every one across 2 M, where one ring for all 8 M would lay 14
 * M on each of its links. */
int tutti_tf_hierarchical_copy(const struct tutti_coll_params *params,
                               const struct tutti_shape *shape, struct tutti_schedule **ret,
                               struct tutti_err *err);

/* Adds both, "hierarchical-copy" and "tf-ring", to the algorithms of a set. */
int tutti_tf_algorithm_add(struct tutti_algorithm_set *set, struct tutti_err *err);

/* ---- input (tf.data's rebatching and auto-sharding) -------------------------------------------
 */

/* A stretch of the data set. */
struct tutti_tf_part {
    uint64_t first;
    uint64_t count;
};

/* Steps that `examples` make: with the last, short batch, or without. */
uint64_t tutti_tf_steps(uint64_t examples, uint64_t global_batch, bool drop_remainder);

/* What replica `replica` of n gets of global batch number `step`: its own size, short or not,
 * divided by n and rounded up, so that the last replicas get less or nothing. */
struct tutti_tf_part tutti_tf_rebatch(uint64_t examples, uint64_t global_batch,
                                      uint32_t replica_count, uint64_t step, uint32_t replica);

enum tutti_tf_shard {
    TUTTI_TF_SHARD_OFF,  /* each worker goes through everything */
    TUTTI_TF_SHARD_DATA, /* each reads everything and keeps every n-th */
    TUTTI_TF_SHARD_FILE, /* each reads every n-th file; an error with fewer files than workers */
    TUTTI_TF_SHARD_AUTO, /* FILE of a data set of files that are enough, else DATA */
};

/* What AUTO comes to; others stay. -TUTTI_EINVAL: FILE, and too few files. `files` 0: the data set
 * is not one of files. */
int tutti_tf_shard_resolve(enum tutti_tf_shard shard, uint64_t files, uint32_t worker_count,
                           enum tutti_tf_shard *ret, struct tutti_err *err);

/* What worker `worker` of n reads of `items` items at step `step`, its share of a global batch
 * being the batch / n rounded up: of OFF (each its own way through all), and of DATA. */
struct tutti_tf_part tutti_tf_shard_part(enum tutti_tf_shard shard, uint64_t items,
                                         uint64_t global_batch, uint32_t worker_count,
                                         uint64_t step, uint32_t worker);
/* FILE: how many of the files a worker reads: `worker`, worker + n, ... */
uint64_t tutti_tf_shard_files(uint64_t files, uint32_t worker_count, uint32_t worker);

TUTTI_API_END

#endif
