/* Which examples a rank gets at which step: epochs, shuffling, global batches and their shares. */
#ifndef TUTTI_RUNTIME_TRAIN_FEED_H
#define TUTTI_RUNTIME_TRAIN_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/tensorflow.h"

struct tutti_dataset;
struct tutti_err;

/* How a data set is fed. DATA is what synchronous training wants: rank r of n gets the r-th stretch
 * of each global batch, so that any number of ranks sees the same examples at the same step. */
struct tutti_feed_ask {
    uint64_t global_batch; /* examples of a step, of all ranks; >= 1 */
    uint32_t rank, rank_count;
    uint64_t seed;             /* of shuffling */
    bool shuffle;              /* anew in each epoch; else in the order of the data set */
    bool drop_remainder;       /* leave out the last, short batch of each epoch */
    enum tutti_tf_shard shard; /* tf.data's: DATA, FILE, OFF, or AUTO (FILE of enough files) */
};

/* Plain data, no memory: copied, shared by threads, and a pure function of the ask and the set.
 *
 * DATA: one order of all examples, and of each global batch of it the rank's share: the batch
 *   divided by the ranks, rounded up (the last ranks get less of a short one, or nothing).
 * FILE: the rank has every n-th file for itself, shuffles those, and takes global_batch / n rounded
 *   up a step; the epoch is over when all are through, and who is through before gets nothing.
 * OFF: the same, but everybody goes through the whole set, in an order of their own. */
struct tutti_feed {
    struct tutti_feed_ask ask; /* `shard` being what AUTO came to */
    uint64_t example_count;    /* of the data set */
    uint64_t file_example_count;
    uint32_t file_count;
    uint64_t epoch_steps; /* >= 1 */
};

/* -TUTTI_EINVAL: an empty data set or batch, fewer files than ranks (FILE), or an epoch without a
 * whole batch (drop_remainder). */
int tutti_feed_init(const struct tutti_feed_ask *ask, const struct tutti_dataset *set,
                    struct tutti_feed *ret, struct tutti_err *err);

/* Where training is in the data, to be saved and restored: the next step begins here. With another
 * number of ranks and the same global batch it means the same (DATA: exactly the same examples
 * follow; FILE and OFF: the same step of the epoch, of other shares). Zero is the beginning. */
struct tutti_feed_position {
    uint64_t epoch;
    uint64_t
        offset; /* examples of this epoch that were fed, over all ranks: steps x global batch */
};

/* Of step number `step` since the beginning, and of the position that follows a step. */
struct tutti_feed_position tutti_feed_at(const struct tutti_feed *feed, uint64_t step);
struct tutti_feed_position tutti_feed_next(const struct tutti_feed *feed,
                                           struct tutti_feed_position position);
/* -TUTTI_EINVAL: not the beginning of a step: it was saved with another data set or batch. */
int tutti_feed_check(const struct tutti_feed *feed, struct tutti_feed_position position,
                     struct tutti_err *err);

/* What the rank gets in the step at a position. */
struct tutti_feed_share {
    struct tutti_feed_position position;
    uint64_t first;        /* in the order of this epoch, of the whole set (DATA, OFF) or the
                            * rank's files */
    uint64_t count;        /* examples, 0 where nothing is left for this rank */
    uint64_t global_count; /* of all ranks: what a mean over the step divides by */
};

struct tutti_feed_share tutti_feed_share(const struct tutti_feed *feed,
                                         struct tutti_feed_position position);

/* The index in the data set of the share's example number `index` < count. O(1): a permutation that
 * is computed, not stored. */
uint64_t tutti_feed_example(const struct tutti_feed *feed, const struct tutti_feed_share *share,
                            uint64_t index);

/* Where `index` < count goes in a seeded permutation of `count`: a Feistel network on the next
 * power of two, walked until it is below `count` (Black & Rogaway 2002): twice on average at most,
 * four times below 3. */
uint64_t tutti_feed_permute(uint64_t index, uint64_t count, uint64_t seed);

#endif
