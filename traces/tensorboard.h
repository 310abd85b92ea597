/* TensorBoard's event files: scalars and histograms of a run, step by step, written as records that
 * are whole, and read back. */
#ifndef TUTTI_TRACES_TENSORBOARD_H
#define TUTTI_TRACES_TENSORBOARD_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

struct tutti_arena;
struct tutti_err;

/* ---- writing ------------------------------------------------------------------------------- */

struct tutti_tensorboard; /* opaque; one thread at a time */

/* A new file FOLDER/events.out.tfevents.SECONDS.HOST; the folder is made where there is none (its
 * parent must be there). `host` NULL: this one's name. `wall_s` is the time since 1970, here and
 * below; the second goes into the name, and behind it ".1", ".2", ... where there is such a file.
 * What is passed in alone decides what is written. */
int tutti_tensorboard_open(const char *folder, const char *host, double wall_s,
                           struct tutti_tensorboard **ret, struct tutti_err *err);
const char *tutti_tensorboard_path(const struct tutti_tensorboard *writer);

/* A number of a step under a tag: UTF-8, slashes make groups ("train/loss"). Kept in memory until
 * flush, or until 64 KiB are. */
int tutti_tensorboard_scalar(struct tutti_tensorboard *writer, double wall_s, int64_t step,
                             const char *tag, double value, struct tutti_err *err);

/* How values are distributed: in TensorFlow's buckets, whose limits lie 10 % apart from 1e-12 to
 * 1e20 on both sides of 0. Values that are not finite are left out, of the sums as well. */
int tutti_tensorboard_histogram(struct tutti_tensorboard *writer, double wall_s, int64_t step,
                                const char *tag, const float *values, size_t count,
                                struct tutti_err *err);

/* Writes what is kept: whole records, or nothing. -TUTTI_EIO (a full disk): the file is as it was
 * after the flush before, and what is kept stays. */
int tutti_tensorboard_flush(struct tutti_tensorboard *writer, struct tutti_err *err);

/* Flushes and frees, the latter in any case; NULL is a no-op. */
int tutti_tensorboard_close(struct tutti_tensorboard *writer, struct tutti_err *err);

/* ---- reading ------------------------------------------------------------------------------- */

struct tutti_tensorboard_histogram {
    double min, max, num, sum, sum_squares;
    uint32_t bucket_count;
    const double *limits; /* bucket i counts what is in (limits[i - 1], limits[i]] */
    const double *counts;
};

enum tutti_tensorboard_kind {
    TUTTI_TENSORBOARD_VERSION, /* `tag` is that of the file, "brain.Event:2" */
    TUTTI_TENSORBOARD_SCALAR,
    TUTTI_TENSORBOARD_HISTOGRAM,
    TUTTI_TENSORBOARD_OTHER, /* graphs, images, tensors, ...: not looked into */
};

struct tutti_tensorboard_event {
    enum tutti_tensorboard_kind kind;
    double wall_s;
    int64_t step;
    const char *tag; /* "": none */
    double value;    /* of a scalar */
    struct tutti_tensorboard_histogram histogram;
};

struct tutti_tensorboard_log {
    struct tutti_tensorboard_event *events;
    size_t event_count;
    size_t whole_bytes; /* of the records read; less than there were: the last one is cut off, as it
                         * is while somebody writes it */
    struct tutti_arena *arena;
};

/* -TUTTI_EINVAL: a wrong checksum or a malformed event, with the number of the record. */
int tutti_tensorboard_parse(const char *name, const uint8_t *bytes, size_t count,
                            struct tutti_tensorboard_log *ret, struct tutti_err *err);
void tutti_tensorboard_log_free(struct tutti_tensorboard_log *log);

TUTTI_API_END

#endif
