/* The kinds of data sets, each in a file of its own: how one is made of its files, or of a seed. */
#ifndef TUTTI_RUNTIME_TRAIN_DATASET_KINDS_H
#define TUTTI_RUNTIME_TRAIN_DATASET_KINDS_H

#include <stdint.h>

#include "runtime/train/dataset.h"

struct tutti_blob;

/* Those of files take over the blobs if they succeed (and leave them closed to the caller), and
 * read all that they hold. */

enum { TUTTI_IDX_SIDE = 28, TUTTI_IDX_CLASSES = 10 };

/* MNIST's: images (magic 2051, of 28 x 28 bytes) and labels (magic 2049, 0 to 9), of equal number.
 * http://yann.lecun.com/exdb/mnist */
int tutti_idx_dataset(struct tutti_blob *images, struct tutti_blob *labels,
                      struct tutti_dataset **ret, struct tutti_err *err);

enum {
    TUTTI_CIFAR_SIDE = 32,
    TUTTI_CIFAR_CLASSES = 10,
    TUTTI_CIFAR_RECORD_BYTES = 1 + 3 * TUTTI_CIFAR_SIDE * TUTTI_CIFAR_SIDE,
    TUTTI_CIFAR_FILES_MAX = 5,
};

/* CIFAR-10's binary version: records of a label (0 to 9) and 1024 bytes each of red, green and
 * blue; equally many in each file. https://www.cs.toronto.edu/~kriz/cifar.html */
int tutti_cifar_dataset(struct tutti_blob *blobs, uint32_t blob_count, struct tutti_dataset **ret,
                        struct tutti_err *err);

/* Of the shape of MNIST (1 channel, 28 x 28) or CIFAR-10 (3, 32 x 32), a line, or texts. */
enum tutti_synthetic {
    TUTTI_SYNTHETIC_MNIST,
    TUTTI_SYNTHETIC_CIFAR10,
    TUTTI_SYNTHETIC_LINE,
    TUTTI_SYNTHETIC_TEXT
};

int tutti_synthetic_dataset(enum tutti_synthetic kind, enum tutti_dataset_part part, uint64_t seed,
                            struct tutti_dataset **ret, struct tutti_err *err);

#endif
