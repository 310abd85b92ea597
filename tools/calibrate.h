/* This machine as the simulator sees it: a few rates and latencies, measured by threads. */
#ifndef TUTTI_TOOLS_CALIBRATE_H
#define TUTTI_TOOLS_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/coll.h"

struct tutti_err;

enum { TUTTI_HOST_POINTS_MAX = 16 };

/* What a pass over the bytes of one step may be. The first three are measured of one rank or two
 * that run alone, the others while all pairs (0 and 1, 2 and 3, ...) exchange. */
enum tutti_host_pass {
    TUTTI_PASS_COPY,         /* COPY from a rank's own input to its output */
    TUTTI_PASS_REDUCE,       /* REDUCE of its own memory */
    TUTTI_PASS_SINGLE,       /* a message just written by the sender, nobody else running */
    TUTTI_PASS_TAKE,         /* the same, while all exchange */
    TUTTI_PASS_TAKE_INPUT,   /* a message of the sender's input, which lies there unchanged */
    TUTTI_PASS_REDUCE_FRESH, /* received and reduced in one pass, just written by the sender */
    TUTTI_PASS_REDUCE_INPUT, /* the same of the sender's input */
    TUTTI_PASS_PUSH, /* written to the receiver's output by the sender's own REDUCE: what that
                        takes longer */
    TUTTI_PASS_COUNT
};

/* Measured with messages and buffers of one size: bytes per second of one rank. */
struct tutti_host_point {
    uint64_t bytes;
    uint64_t bytes_per_s[TUTTI_PASS_COUNT];
};

/* No collective is run for it: only single messages, copies and reductions, of sizes that are 3
 * times a power of two, and so none that a sweep of powers of two prints. The shortest of several
 * runs counts: the machine when nothing disturbs it. */
struct tutti_host {
    uint32_t rank_count;
    uint32_t processor_count;
    uint32_t pair_ranks; /* how many ranks exchanged at a time: at most one a processor */
    int64_t launch_ps;   /* from the common start to the end of ranks with nothing to do */
    int64_t latency_ps;  /* of a small message, while every rank sends one to the next */
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
 * takes what it receives through a link of its own, and all together through one that is as fast as
 * all pairs were (processors and memory that they share), each message after latency_ps. How long
 * it keeps the links is what its pass takes here: the schedule tells whether it carries input or
 * fresh results, and whether it is reduced on the way or written by its sender. Ranks beyond the
 * processors share them. Rates between two measured sizes are interpolated by the logarithms.
 * *ret_ps is 0 for a schedule too large to be looked at step by step. Not modelled: how much of the
 * data stays in which cache from one step to the next, how ranks that share a processor wait for
 * their turns, and other work of the machine. */
int tutti_host_predict(const struct tutti_host *host, const struct tutti_coll_params *params,
                       const char *algorithm, int64_t *ret_ps, struct tutti_err *err);

/* The rates for buffers of `bytes`; beyond the measured sizes those of the nearest. */
struct tutti_host_point tutti_host_point_at(const struct tutti_host *host, uint64_t bytes);

/* The schedule as this machine feels it: the same steps, the bytes of each in proportion to what
 * its pass takes, where a byte of TUTTI_PASS_TAKE (messages) or TUTTI_PASS_COPY (COPY, REDUCE) is
 * one. Only for simulation without data. *ret is NULL if it has too many steps to be stored. */
struct tutti_schedule;
int tutti_host_weigh(const struct tutti_host_point *point, const struct tutti_schedule *schedule,
                     struct tutti_schedule **ret, struct tutti_err *err);

/* Bytes per second of a message at that size of buffer, while all pairs exchange. */
uint64_t tutti_host_message_rate(const struct tutti_host *host, uint64_t bytes);

/* What was measured, as lines of '#' and as the member "measured" of an open JSON object. */
struct tutti_json;
void tutti_host_print(const struct tutti_host *host, FILE *out);
void tutti_host_json(const struct tutti_host *host, struct tutti_json *json);

#endif
