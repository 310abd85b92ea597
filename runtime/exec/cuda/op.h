/* What the kernel of the CUDA player reads: operations, lanes, counters and arguments, the same
 * bytes for the host and for the device. In the common part of C11 and CUDA C++; private to
 * runtime/exec/cuda. */
#ifndef TUTTI_RUNTIME_EXEC_CUDA_OP_H
#define TUTTI_RUNTIME_EXEC_CUDA_OP_H

#include <stdint.h>

#include "runtime/api.h"
#include "runtime/data.h"

enum { TUTTI_CUDA_SOURCES_MAX = 8, TUTTI_CUDA_TARGETS_MAX = 8, TUTTI_CUDA_FLAGS_MAX = 16 };

/* Counters only grow: a value counts from 1 within one iteration, the number of the iteration
 * stands above it, so that nothing is ever reset. One memory sector each. */
struct tutti_cuda_counter {
    uint64_t value; /* iteration << 32 | value */
    uint64_t unused[3];
};

struct tutti_cuda_flag {
    uint32_t counter;
    uint32_t value; /* to wait for, or to store, in the iteration under way */
};

/* Where a counter lies stands above its number. 0: with the GPU of the block, whose blocks alone
 * store it and wait for it. 1 + g: with GPU g, whose blocks wait for what another GPU stores;
 * 1 + the number of GPUs: with the host, for two GPUs that do not reach each other's memory. */
enum { TUTTI_CUDA_GPUS_MAX = 16, TUTTI_CUDA_COUNTER_BITS = 26 };
#define TUTTI_CUDA_COUNTERS_MAX (1u << TUTTI_CUDA_COUNTER_BITS)

/* What a block does at a time: waits for counters, makes every dst from the sources (the first one,
 * combined with one after the other), waits `duration_ns`, and stores counters. */
struct tutti_cuda_op {
    uint64_t src[TUTTI_CUDA_SOURCES_MAX]; /* addresses of the device */
    uint64_t dst[TUTTI_CUDA_TARGETS_MAX];
    uint64_t bytes;
    uint64_t duration_ns;
    uint32_t wait_first;
    uint32_t wait_count;
    uint32_t signal_first;
    uint32_t signal_count;
    uint32_t divide_by; /* avg: the number of ranks; 0: no more than the sum */
    uint16_t src_count; /* 0: no data */
    uint16_t dst_count;
    uint16_t flagged; /* its waits and signals stand here: no second load before a look */
    /* With several types in one plan, how the sources are combined: enum tutti_dtype *
     * TUTTI_OP_COUNT + enum tutti_op. An average sums, and divides at its end. */
    uint8_t code;
    uint8_t asks; /* the host does it, between the waits and the signals */
    /* Bits of the sources, and from bit 16 on of the targets, that are lines: 8 bytes of data in
     * 16, each 4 with the number of the iteration, so that who sees that has the data as well. */
    uint32_t lines;
    struct tutti_cuda_flag flags[TUTTI_CUDA_FLAGS_MAX]; /* waits, then signals */
};

struct tutti_cuda_lane {
    uint32_t op_first;
    uint32_t op_count;
    uint32_t rank;
    uint32_t lane;
};

/* Between a lane and the host, in memory of the host that both see: work that the host does. */
struct tutti_cuda_request {
    uint64_t asked;    /* iteration << 32 | 1 + number of the lane's operation; by the lane */
    uint64_t answered; /* the same, once it is done; by the host */
    uint64_t unused[2];
};

/* What the block of a lane was waiting for when it gave up, or saw that another had. */
struct tutti_cuda_verdict {
    uint32_t given; /* 0: it was not waiting */
    uint32_t op;   /* number of the lane's; TUTTI_CUDA_MEETING: all lanes meet between iterations */
    uint32_t wait; /* number of the operation's; of a meeting 0, or 1 + the GPU that did not come */
    uint32_t unused;
};
#define TUTTI_CUDA_MEETING UINT32_MAX
#define TUTTI_CUDA_LINE    0x80000000u /* `wait` is that, and the number of a source */
#define TUTTI_CUDA_HOST    0x40000000u /* `wait` is that: the host works */

struct tutti_cuda_stamp {
    uint64_t begin_ns; /* by the clock of the device */
    uint64_t end_ns;
};

/* A block is a lane. */
struct tutti_cuda_args {
    const struct tutti_cuda_op *ops;
    const struct tutti_cuda_lane *lanes;
    const struct tutti_cuda_flag *waits;
    const struct tutti_cuda_flag *signals;
    struct tutti_cuda_counter *counters;
    struct tutti_cuda_counter *meeting;  /* blocks that have come to a meeting, ever */
    uint64_t meeting_base;               /* its value before this launch */
    struct tutti_cuda_verdict *verdicts; /* [block] */
    uint32_t *stop;        /* not 0: a wait took too long, every block (of all GPUs) leaves */
    const uint32_t *abort; /* likewise, by the host */
    struct tutti_cuda_request *requests; /* [block]; NULL: the host has no work */
    struct tutti_cuda_stamp *stamps;     /* NULL, or [op]: of the last iteration */
    /* With several iterations in one launch: [iteration_count + 1], when all lanes had met. With
     * several GPUs all lanes meet before the first iteration even if it is the only one. */
    uint64_t *meetings_ns;
    uint64_t deadline_ns; /* no wait takes longer */
    uint32_t iteration;   /* number of the first; from 1 */
    uint32_t iteration_count;
    /* Of no effect with fewer than 2 GPUs. */
    uint32_t gpu_count;
    uint32_t gpu;                     /* the one that plays this */
    struct tutti_cuda_counter *gates; /* [gpu]: meetings that it has come to; with the host */
    uint64_t gate_base;               /* their value before this launch */
    /* Counters that lie with each GPU, as [0, gpu_count), and with the host. */
    struct tutti_cuda_counter *far[TUTTI_CUDA_GPUS_MAX + 1];
};

TUTTI_STATIC_ASSERT(sizeof(struct tutti_cuda_op) % 16 == 0, "copied in words of 16 bytes");

#endif
