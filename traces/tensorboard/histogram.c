/* Values counted in TensorFlow's buckets (core/lib/histogram/histogram.cc). */
#include "traces/tensorboard/histogram.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "traces/protobuf/wire.h"
#include "traces/tensorboard/event.h"

enum { ZERO = TUTTI_HISTOGRAM_SIDE }; /* the bucket whose limit is 0 */

void tutti_histogram_init(struct tutti_histogram *histogram)
{
    double limit = 1e-12;

    *histogram = (struct tutti_histogram){.count = 0};
    for (int i = 1; i <= TUTTI_HISTOGRAM_SIDE; i++) {
        histogram->limits[ZERO + i] = limit;
        histogram->limits[ZERO - i] = -limit;
        limit *= 1.1;
    }
    assert(limit >= 1e20);
    assert(limit < 1.1e20);
    histogram->limits[TUTTI_HISTOGRAM_BUCKETS - 1] = DBL_MAX;
}

/* The first bucket whose limit is not below the value. */
static uint32_t bucket_of(const struct tutti_histogram *histogram, double value)
{
    uint32_t low = 0;
    uint32_t high = TUTTI_HISTOGRAM_BUCKETS - 1;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (histogram->limits[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void tutti_histogram_count(struct tutti_histogram *histogram, const float *values, size_t count)
{
    memset(histogram->counts, 0, sizeof(histogram->counts));
    histogram->count = 0;
    histogram->min = histogram->max = histogram->sum = histogram->sum_squares = 0;
    for (size_t i = 0; i < count; i++) {
        double value = (double)values[i];

        if (!isfinite(value))
            continue;
        histogram->min = histogram->count == 0 ? value : fmin(histogram->min, value);
        histogram->max = histogram->count == 0 ? value : fmax(histogram->max, value);
        histogram->sum += value;
        histogram->sum_squares += value * value;
        histogram->counts[bucket_of(histogram, value)]++;
        histogram->count++;
    }
}

/* The buckets that are written: from the first to the last that is not empty (the first of all, if
 * all are), and of empty ones in a row the last. */
struct shown {
    uint32_t first, last;
};

static struct shown shown_of(const struct tutti_histogram *histogram)
{
    struct shown shown = {.last = TUTTI_HISTOGRAM_BUCKETS - 1};

    if (histogram->count == 0)
        return (struct shown){TUTTI_HISTOGRAM_BUCKETS - 1, TUTTI_HISTOGRAM_BUCKETS - 1};
    while (histogram->counts[shown.first] == 0)
        shown.first++;
    while (histogram->counts[shown.last] == 0)
        shown.last--;
    return shown;
}

static bool is_shown(const struct tutti_histogram *histogram, struct shown shown, uint32_t i)
{
    return i == shown.last || histogram->counts[i] > 0 || histogram->counts[i + 1] > 0;
}

void tutti_histogram_put(const struct tutti_histogram *histogram, struct tutti_protobuf *wire,
                         uint32_t field)
{
    struct shown shown = shown_of(histogram);
    size_t message = tutti_protobuf_open(wire, field);
    size_t packed;

    tutti_protobuf_double(wire, TUTTI_HISTOGRAM_MIN, histogram->min);
    tutti_protobuf_double(wire, TUTTI_HISTOGRAM_MAX, histogram->max);
    tutti_protobuf_double(wire, TUTTI_HISTOGRAM_NUM, (double)histogram->count);
    tutti_protobuf_double(wire, TUTTI_HISTOGRAM_SUM, histogram->sum);
    tutti_protobuf_double(wire, TUTTI_HISTOGRAM_SUM_SQUARES, histogram->sum_squares);
    packed = tutti_protobuf_open(wire, TUTTI_HISTOGRAM_LIMITS);
    for (uint32_t i = shown.first; i <= shown.last; i++) {
        if (is_shown(histogram, shown, i))
            tutti_protobuf_packed_double(wire, histogram->limits[i]);
    }
    tutti_protobuf_close(wire, packed);
    packed = tutti_protobuf_open(wire, TUTTI_HISTOGRAM_COUNTS);
    for (uint32_t i = shown.first; i <= shown.last; i++) {
        if (is_shown(histogram, shown, i))
            tutti_protobuf_packed_double(wire, (double)histogram->counts[i]);
    }
    tutti_protobuf_close(wire, packed);
    tutti_protobuf_close(wire, message);
}
