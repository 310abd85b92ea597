/* This machine as the simulator sees it: a few rates and latencies, measured by threads. */
#ifndef TUTTI_TOOLS_CALIBRATE_H
#define TUTTI_TOOLS_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/coll.h"

struct tutti_err;

enum { TUTTI_HOST_POINTS_MAX = 16 };

/* What was measured with messages and buffers of one size. Bytes per second, of one rank. */
struct tutti_host_point {
    uint64_t bytes;
    uint64_t copy_bytes_per_s;   /* from `in` to `out` of the same rank, which runs alone */
    uint64_t single_bytes_per_s; /* a message of fresh data, nobody else running */
    uint64_t pair_bytes_per_s;   /* the same while all pairs exchange */
    uint64_t reduce_bytes_per_s; /* receive and reduce in one pass while all pairs exchange */
};

/* No collective is run for it: only single messages, copies and reductions, of sizes that are 3
 * times a power of two, and so none that a sweep of powers of two prints. The shortest of several
 * runs counts: the machine when nothing disturbs it. */
struct tutti_host {
    uint32_t rank_count;
    uint32_t processor_count;
    uint32_t pair_ranks; /* how many ranks exchanged at a time: at most one a processor */
    int64_t launch_ps;   /* from the common start to the end of ranks with nothing to do */
    int64_t latency_ps;  /* of a small message, handed on from rank to rank of all ranks */
    uint32_t point_count;
    struct tutti_host_point points[TUTTI_HOST_POINTS_MAX]; /* by size */
};

struct tutti_host_ask {
    uint32_t rank_count;
    bool pin;
    enum tutti_dtype dtype;
    enum tutti_op op;
    int64_t deadline_ps; /* of a wait */
    uint64_t seed;
    uint64_t bytes_min; /* of the sizes to be predicted */
    uint64_t bytes_max;
};

int tutti_host_measure(const struct tutti_host_ask *ask, struct tutti_host *ret,
                       struct tutti_err *err);

/* Simulates the schedule of `algorithm` on a machine of what was measured, model fair. Every rank
 * takes what it receives through a link of its own (single_bytes_per_s), and all together through
 * one (pair_ranks * pair_bytes_per_s: processors and memory that they share), each message after
 * latency_ps. To reduce takes what it takes beyond the copy; ranks beyond the processors share
 * them. Rates between two measured sizes are interpolated by the logarithms. Not modelled: what one
 * step leaves in a cache for the next, and other work of the machine. */
int tutti_host_predict(const struct tutti_host *host, const struct tutti_coll_params *params,
                       const char *algorithm, int64_t *ret_ps, struct tutti_err *err);

/* Bytes per second of a message at that size of buffer, while all pairs exchange. */
uint64_t tutti_host_message_rate(const struct tutti_host *host, uint64_t bytes);

/* What was measured, as lines of '#' and as the member "measured" of an open JSON object. */
struct tutti_json;
void tutti_host_print(const struct tutti_host *host, FILE *out);
void tutti_host_json(const struct tutti_host *host, struct tutti_json *json);

#endif
