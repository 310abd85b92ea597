/* A rank's batches, in their order, read ahead by a thread of their own. */
#ifndef TUTTI_RUNTIME_TRAIN_READER_H
#define TUTTI_RUNTIME_TRAIN_READER_H

#include <stdint.h>

#include "runtime/train/dataset.h"
#include "runtime/train/feed.h"

/* One rank's share of a step. */
struct tutti_batch {
    struct tutti_feed_share share;
    uint32_t count;           /* of examples, 0: nothing for this rank; share.count */
    const float *inputs;      /* [count][inputs of an example], channels first */
    const uint32_t *labels;   /* [count]; NULL: regression */
    const float *targets;     /* [count]; NULL: classes */
    const uint64_t *examples; /* [count]: their indices in the data set */
};

struct tutti_reader_ask {
    const struct tutti_dataset *set;  /* borrowed until close; may be shared by readers */
    struct tutti_feed feed;           /* of this rank */
    struct tutti_feed_position first; /* where to begin */
    uint64_t step_limit;              /* so many batches and no more; 0: for ever */
    uint32_t depth;                   /* batches read ahead; 0: no thread, `next` reads itself */
    double deadline_s;                /* for how long `next` waits at most; 0: 60 */
};

struct tutti_reader_stats {
    uint64_t batch_count;   /* handed out */
    uint64_t example_count; /* of these */
    uint64_t wait_count;    /* times that `next` had to wait, all with depth 0 */
    double waited_s;        /* in these */
    double read_s;          /* that reading took, in the thread or in `next` */
};

struct tutti_reader; /* opaque; one thread calls `next` */

/* Memory for depth + 1 batches is taken here, and none later. -TUTTI_EINVAL: `first` begins no
 * step. -TUTTI_EIO: no thread can be started. */
int tutti_reader_open(const struct tutti_reader_ask *ask, struct tutti_reader **ret,
                      struct tutti_err *err);

/* The next batch, valid until the next call; *ret NULL: step_limit is reached. -TUTTI_ETIME: none
 * within the deadline. What failed in the thread comes back here, when all that was read before it
 * is handed out, and again at each further call. */
int tutti_reader_next(struct tutti_reader *reader, const struct tutti_batch **ret,
                      struct tutti_err *err);

struct tutti_reader_stats tutti_reader_stats(struct tutti_reader *reader);

/* Ends the thread, after the one example that it is reading; NULL is a no-op. */
void tutti_reader_close(struct tutti_reader *reader);

#endif
