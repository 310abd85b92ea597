/* Small schedules written by hand, for tests of the schedule that must not need the generators. */
#ifndef TUTTI_TESTS_RUNTIME_SMALL_H
#define TUTTI_TESTS_RUNTIME_SMALL_H

#include "runtime/schedule.h"
#include "runtime/status.h"
#include "tests/test.h"

enum { SMALL_IN = TUTTI_BUF_IN, SMALL_OUT = TUTTI_BUF_OUT, SMALL_SCRATCH = TUTTI_BUF_SCRATCH };

static inline struct tutti_step small_send(uint32_t to, unsigned buf, uint64_t offset,
                                           uint64_t bytes)
{
    return (struct tutti_step){.kind = TUTTI_SEND,
                               .peer = to,
                               .src_buf = (uint8_t)buf,
                               .src_offset = offset,
                               .bytes = bytes};
}

static inline struct tutti_step small_recv(uint32_t from, unsigned buf, uint64_t offset,
                                           uint64_t bytes)
{
    return (struct tutti_step){.kind = TUTTI_RECV,
                               .peer = from,
                               .dst_buf = (uint8_t)buf,
                               .dst_offset = offset,
                               .bytes = bytes};
}

/* out[offset] = in[offset] op scratch[0] */
static inline struct tutti_step small_reduce(uint64_t offset, uint64_t bytes, bool last)
{
    return (struct tutti_step){.kind = TUTTI_REDUCE,
                               .flags = last ? TUTTI_STEP_LAST : 0,
                               .dst_buf = SMALL_OUT,
                               .dst_offset = offset,
                               .acc_buf = SMALL_IN,
                               .acc_offset = offset,
                               .src_buf = SMALL_SCRATCH,
                               .bytes = bytes};
}

static inline struct tutti_step small_copy(unsigned dst, uint64_t dst_offset, unsigned src,
                                           uint64_t src_offset, uint64_t bytes)
{
    return (struct tutti_step){.kind = TUTTI_COPY,
                               .dst_buf = (uint8_t)dst,
                               .dst_offset = dst_offset,
                               .src_buf = (uint8_t)src,
                               .src_offset = src_offset,
                               .bytes = bytes};
}

static inline void small_add(struct tutti_builder *builder, uint32_t rank, uint32_t lane,
                             struct tutti_step step)
{
    struct tutti_err err;

    CHECK_OK(tutti_builder_add(builder, rank, lane, &step, &err), err);
}

static inline struct tutti_builder *small_builder(struct tutti_schedule_desc desc)
{
    struct tutti_builder *builder = NULL;
    struct tutti_err err;

    desc.name = desc.name == NULL ? "small" : desc.name;
    desc.lane_count = desc.lane_count == 0 ? 1 : desc.lane_count;
    CHECK_OK(tutti_builder_new(&desc, &builder, &err), err);
    return builder;
}

static inline struct tutti_schedule *small_finish(struct tutti_builder *builder)
{
    struct tutti_schedule *schedule = NULL;
    struct tutti_err err;

    CHECK_OK(tutti_builder_finish(builder, &schedule, &err), err);
    return schedule;
}

/* Bytes before block b of `count` floats cut into n as evenly as it goes. */
static inline uint64_t small_block(uint64_t count, uint32_t n, uint32_t b)
{
    return count * b / n * 4;
}

static inline void small_ring_rank(struct tutti_builder *builder, uint32_t n, uint64_t count,
                                   uint32_t rank)
{
    uint32_t right = (rank + 1) % n;
    uint32_t left = (rank + n - 1) % n;

    for (uint32_t k = 0; k + 1 < n; k++) { /* reduce-scatter: block rank - k - 1 comes in */
        uint32_t give = (rank + n - k) % n;
        uint32_t take = (give + n - 1) % n;
        uint64_t give_at = small_block(count, n, give);
        uint64_t take_at = small_block(count, n, take);
        uint64_t take_bytes = small_block(count, n, take + 1) - take_at;
        struct tutti_step recv = small_recv(left, SMALL_SCRATCH, 0, take_bytes);

        recv.flags = TUTTI_STEP_FUSE;
        small_add(builder, rank, 0,
                  small_send(right, k == 0 ? SMALL_IN : SMALL_OUT, give_at,
                             small_block(count, n, give + 1) - give_at));
        small_add(builder, rank, 0, recv);
        small_add(builder, rank, 0, small_reduce(take_at, take_bytes, k + 2 == n));
    }
    for (uint32_t k = 0; k + 1 < n; k++) { /* all-gather: block rank - k comes in, finished */
        uint32_t give = (rank + 1 + n - k) % n;
        uint32_t take = (give + n - 1) % n;
        uint64_t give_at = small_block(count, n, give);
        uint64_t take_at = small_block(count, n, take);

        small_add(builder, rank, 0,
                  small_send(right, SMALL_OUT, give_at, small_block(count, n, give + 1) - give_at));
        small_add(builder, rank, 0,
                  small_recv(left, SMALL_OUT, take_at, small_block(count, n, take + 1) - take_at));
    }
}

/* Ring allreduce of `count` floats over one lane (Patarasuk & Yuan 2009). */
static inline struct tutti_builder *small_ring(uint32_t n, uint64_t count)
{
    struct tutti_builder *builder = small_builder(
        (struct tutti_schedule_desc){.name = "small-ring",
                                     .contract = {.collective = TUTTI_ALLREDUCE, .count = count},
                                     .rank_count = n,
                                     .scratch_bytes = (count / n + 1) * 4});

    for (uint32_t rank = 0; rank < n && n > 1; rank++)
        small_ring_rank(builder, n, count, rank);
    if (n == 1) {
        struct tutti_step copy = small_copy(SMALL_OUT, 0, SMALL_IN, 0, count * 4);

        copy.flags = TUTTI_STEP_LAST;
        small_add(builder, 0, 0, copy);
    }
    return builder;
}

#endif
