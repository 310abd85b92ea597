/* Values counted in TensorFlow's buckets. */
#ifndef TUTTI_TRACES_TENSORBOARD_HISTOGRAM_H
#define TUTTI_TRACES_TENSORBOARD_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

struct tutti_protobuf;

enum {
    TUTTI_HISTOGRAM_SIDE = 774, /* limits above 0: 1e-12 times powers of 1.1, below 1e20 */
    TUTTI_HISTOGRAM_BUCKETS = 2 * TUTTI_HISTOGRAM_SIDE + 2,
};

struct tutti_histogram {
    double limits[TUTTI_HISTOGRAM_BUCKETS];   /* ascending; the last is the largest double */
    uint64_t counts[TUTTI_HISTOGRAM_BUCKETS]; /* of what is in (limits[i - 1], limits[i]] */
    double min, max, sum, sum_squares;
    uint64_t count;
};

void tutti_histogram_init(struct tutti_histogram *histogram);

/* Forgets what was counted, and counts those of `values` that are finite. Price: log2(1550) steps a
 * value. */
void tutti_histogram_count(struct tutti_histogram *histogram, const float *values, size_t count);

/* As a HistogramProto: without the empty buckets at both ends, and those that follow each other
 * elsewhere as one. */
void tutti_histogram_put(const struct tutti_histogram *histogram, struct tutti_protobuf *wire,
                         uint32_t field);

#endif
