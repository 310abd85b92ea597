/* What the backend `cuda` makes of a schedule, as far as its time hangs on it: operations of blocks
 * of threads, the bytes that each reads and writes, and what waits for what. */
#ifndef TUTTI_RUNTIME_CUDA_WORK_H
#define TUTTI_RUNTIME_CUDA_WORK_H

#include <stdint.h>

#include "runtime/api.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_schedule;

/* Counters only grow, from 0; a line is a counter of its own, whose value is 1 once it is there. */
struct tutti_cuda_work_flag {
    uint32_t counter;
    uint32_t value;
};

struct tutti_cuda_work_op {
    uint64_t bytes; /* of each source and target */
    uint64_t duration_ps;
    uint32_t wait_first;
    uint32_t wait_count;
    uint32_t signal_first;
    uint32_t signal_count;
    uint16_t src_count; /* lines among them, which take twice the bytes */
    uint16_t dst_count;
    uint16_t line_count;  /* sources and targets that are lines */
    uint32_t place_first; /* sources, then targets */
};

#define TUTTI_CUDA_WORK_LINE UINT32_MAX

/* A block plays a lane's operations in order: it waits for all its flags, moves the bytes, and
 * stores its signals. Counters from line_first on are lines. */
struct tutti_cuda_work {
    uint32_t lane_count; /* of all ranks */
    uint32_t op_count;
    uint32_t flag_count;
    uint32_t counter_count;
    uint32_t line_first;
    uint32_t thread_count;    /* of a block */
    uint64_t buffer_bytes;    /* of all ranks: in, out and scratch */
    uint64_t moved_bytes;     /* read and written by one iteration */
    int64_t graph_ps;         /* tutti_cuda_weigh_graph's; 0 where it is not told */
    const uint32_t *op_first; /* [lane_count + 1] */
    const struct tutti_cuda_work_op *ops;
    const struct tutti_cuda_work_flag *flags; /* waits and signals */
    /* What each source and target is, numbered from 0 by rank, buffer and offset, or
     * TUTTI_CUDA_WORK_LINE: the same numbers are the same memory. NULL: not told. */
    const uint32_t *places;
    uint32_t place_count; /* numbers are less than that */
};

/* Of a flat schedule, with as many threads a block as the backend takes where the GPU has room for
 * all lanes (else: tutti_cuda_work_fit). The same errors as playing it, but for what a GPU is
 * asked.
 * Needs no GPU. */
int tutti_cuda_work_new(const struct tutti_schedule *schedule, struct tutti_cuda_work **ret,
                        struct tutti_err *err);
void tutti_cuda_work_free(struct tutti_cuda_work *work); /* NULL is a no-op */

/* What a CUDA graph of its levels takes beyond one launch of all lanes, in picoseconds, by a rule
 * fitted to what both took on an H100 and an H200 (runtime/exec/cuda/choose.c); below 0 the backend
 * takes the graph by itself. INT64_MAX: it does not play it so. */
int tutti_cuda_weigh_graph(const struct tutti_schedule *schedule, int64_t *ret,
                           struct tutti_err *err);

/* Narrower blocks where so many multiprocessors do not keep all lanes at work together, as the
 * backend takes them: of 512 threads a multiprocessor keeps one block. */
void tutti_cuda_work_fit(struct tutti_cuda_work *work, uint32_t multiprocessor_count);
/* How many the first GPU has. The same errors as tutti_cuda_open. */
int tutti_cuda_multiprocessors(uint32_t *ret, struct tutti_err *err);

/* The same of a schedule that is played level by level, as the backend `nccl` does: a lane a rank,
 * an operation of one source for its messages of a level, as many bytes as it sends or receives,
 * whichever is more, once all its peers have come there; and one of two sources for what it reduces
 * and copies in a stage, of a third of the bytes that those steps read and write. */
int tutti_level_work_new(const struct tutti_schedule *schedule, struct tutti_cuda_work **ret,
                         struct tutti_err *err);
void tutti_level_work_free(struct tutti_cuda_work *work); /* NULL is a no-op */

TUTTI_API_END

#endif
