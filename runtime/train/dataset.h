/* Data sets: so many examples, each some inputs and what is to be answered. Real files (IDX of
 * MNIST and Fashion-MNIST, CIFAR-10 binary), seeded synthetic sets of the same shapes, a line. */
#ifndef TUTTI_RUNTIME_TRAIN_DATASET_H
#define TUTTI_RUNTIME_TRAIN_DATASET_H

#include <stdint.h>

struct tutti_err;

/* Open, so that a caller can bring a data set of their own: fill in the fields, and `read`. */
struct tutti_dataset {
    uint64_t example_count;
    uint32_t channels, height, width; /* of an example's inputs, which lie in this order (CHW) */
    uint32_t class_count;             /* 0: regression, the target is any number */
    uint32_t file_count;              /* that the examples lie in, of equal size; 0: in no files */
    uint64_t file_example_count;      /* of each file */

    /* Example `index`: its inputs, within [0, 1] in the sets of this file, and its target, the
     * number of its class or a value. Called from several threads at a time. */
    int (*read)(const struct tutti_dataset *set, uint64_t index, float *ret_inputs,
                float *ret_target, struct tutti_err *err);
    void (*close)(struct tutti_dataset *set); /* frees the set, too; NULL: nothing to free */
    void *state;                              /* what `read` and `close` need */
};

enum tutti_dataset_part {
    TUTTI_DATASET_TRAINING,
    TUTTI_DATASET_HELD_OUT, /* for evaluation; no example is in both */
};

struct tutti_dataset_ask {
    /* "mnist:FOLDER", "fashion-mnist:FOLDER", "cifar10:FOLDER", "synthetic-mnist",
     * "synthetic-cifar10", "synthetic-text", "line". */
    const char *name;
    enum tutti_dataset_part part;
    uint64_t seed;          /* of synthetic sets */
    uint64_t example_limit; /* the first so many alone; 0: all. Synthetic sets have 60000 and 10000
                             * examples (MNIST's shape), 50000 and 10000, 20000 and 5000 (texts),
                             * 1000 and 200 (line) */
};

/* Of files: opened, their sizes, headers and (IDX) labels checked; the examples are read when they
 * are asked for, so that memory does not grow with the set, unless files are of gzip (NAME.gz, as
 * MNIST is distributed): these are unpacked into memory. -TUTTI_EINVAL: no such kind, a file that
 * is missing, cut off or something else; -TUTTI_ELACK: compressed, and there is no zlib; the
 * message names the file. */
int tutti_dataset_open(const struct tutti_dataset_ask *ask, struct tutti_dataset **ret,
                       struct tutti_err *err);
void tutti_dataset_close(struct tutti_dataset *set); /* NULL is a no-op */

/* Kinds that `open` takes, separated by ", ", for help and messages. */
const char *tutti_dataset_kinds(void);

/* Floats of one example's inputs. */
uint64_t tutti_dataset_input_count(const struct tutti_dataset *set);

/* Examples of "synthetic-text" are so many words, whole numbers below the vocabulary. */
enum { TUTTI_TEXT_WORDS = 32, TUTTI_TEXT_VOCABULARY = 10000, TUTTI_TEXT_CLASSES = 4 };

/* The line of the data set "line": target = slope * input + intercept + noise, input uniform in
 * [0, 1), noise of standard deviation TUTTI_LINE_NOISE. */
#define TUTTI_LINE_SLOPE     2.0
#define TUTTI_LINE_INTERCEPT 1.0
#define TUTTI_LINE_NOISE     0.01

#endif
