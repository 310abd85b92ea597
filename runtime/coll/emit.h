/* What every generator needs: exact partitions of the data, and steps written into a round. */
#ifndef TUTTI_RUNTIME_COLL_EMIT_H
#define TUTTI_RUNTIME_COLL_EMIT_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/coll.h"
#include "runtime/schedule.h"
#include "runtime/shape.h"
#include "runtime/status.h"
#include "runtime/units.h"
#include "runtime/wide.h"

/* ---- the head of every generated schedule -------------------------------------------------- */

/* Generators embed this as their first member. The data of the contract (`count` elements of every
 * block) is cut into share_count shares, each looked after by one or more lanes; a share is cut
 * into pieces, done one after another; the messages of a piece are cut into slices. */
struct coll {
    struct tutti_schedule schedule;
    uint64_t element_bytes;
    uint64_t piece_count;
    uint32_t share_count;
    uint32_t slice_count;
};

/* How a generator divides the work; 0 means 1 where a count is asked for. */
struct coll_layout {
    const char *name;
    const struct tutti_schedule_ops *ops;
    size_t struct_bytes;         /* of the generator's struct, which begins with struct coll */
    uint32_t shares_per_channel; /* data is cut into channel_count times so many shares */
    uint32_t lanes_per_share;    /* lane = share * lanes_per_share + its index there */
    uint64_t chunks_per_piece;   /* a piece is so many chunks of chunk_bytes */
    uint64_t grain_bytes;        /* chunk_bytes if the caller leaves it 0; 0: one piece */
    bool whole;                  /* chunk_bytes does not matter: always one piece */
};

/* Allocates and fills the head; checks the parameters. The generator then adds its own fields and
 * calls tutti_coll_finish. */
int tutti_coll_new(const struct coll_layout *layout, const struct tutti_coll_params *params,
                   const struct tutti_shape *shape, struct coll **ret, struct tutti_err *err);

/* Sets the scratch size, `share_elements` for every share and `elements` more; refuses lanes of
 * more rounds than 2^62. `rounds` is the largest number of rounds a piece has. Frees on error. */
int tutti_coll_finish(struct coll *coll, uint64_t share_elements, uint64_t elements,
                      uint64_t rounds, struct tutti_schedule **ret, struct tutti_err *err);

/* The schedule of a rank that is alone: a copy, or nothing for a barrier. */
int tutti_coll_alone(const char *name, const struct tutti_coll_params *params,
                     const struct tutti_shape *shape, struct tutti_schedule **ret,
                     struct tutti_err *err);

/* ---- partitions ----------------------------------------------------------------------------- */

struct range {
    uint64_t first; /* element */
    uint64_t count; /* elements */
};

static inline uint64_t div_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* n elements about to be cut into `count` parts: n = quotient * count + rest. */
struct cut {
    uint64_t first;
    uint64_t count; /* below 2^32 */
    uint64_t quotient;
    uint64_t rest;
};

static inline struct cut cut_of(struct range whole, uint64_t count)
{
    return (struct cut){.first = whole.first,
                        .count = count,
                        .quotient = whole.count / count,
                        .rest = whole.count % count};
}

/* Part `index`: [index * n / count, (index + 1) * n / count). No part is longer than n / count
 * rounded up; parts may be empty. It begins at index * quotient + index * rest / count: divisions
 * are what generating costs most, and where parts are equal there is none left here. */
static inline struct range cut_part(const struct cut *cut, uint64_t index)
{
    uint64_t first = cut->first + index * cut->quotient;
    uint64_t product = index * cut->rest;

    assert(index < cut->count);
    if (cut->rest == 0)
        return (struct range){.first = first, .count = cut->quotient};
    return (struct range){.first = first + product / cut->count,
                          .count =
                              cut->quotient + (product % cut->count + cut->rest >= cut->count)};
}

/* Part `index` of `count` parts of `whole`. */
static inline struct range part_of(struct range whole, uint64_t index, uint64_t count)
{
    struct cut cut;

    if (count == 1)
        return whole;
    cut = cut_of(whole, count);
    return cut_part(&cut, index);
}

/* Elements [first, first + count) of a block that piece `piece` of share `share` covers. */
static inline struct range coll_piece(const struct coll *coll, uint32_t share, uint64_t piece)
{
    struct range all = {.first = 0, .count = coll->schedule.contract.count};

    return part_of(part_of(all, share, coll->share_count), piece, coll->piece_count);
}

/* No piece has more elements. */
static inline uint64_t coll_piece_max(const struct coll *coll)
{
    return div_up(div_up(coll->schedule.contract.count, coll->share_count), coll->piece_count);
}

/* (a + b) mod n and (a - b) mod n for a, b below n; also where a + b leaves 32 bits. */
static inline uint32_t ring_add(uint32_t a, uint32_t b, uint32_t n)
{
    return (uint32_t)(((uint64_t)a + b) % n);
}

static inline uint32_t ring_sub(uint32_t a, uint32_t b, uint32_t n)
{
    return a >= b ? a - b : a + (n - b);
}

/* Smallest k with 2^k >= n, for n >= 1. */
static inline uint32_t log2_up(uint32_t n)
{
    uint32_t k = 0;

    while (k < 32 && (UINT64_C(1) << k) < n)
        k++;
    return k;
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* Where something lies: a buffer and a byte offset. */
struct place {
    enum tutti_buf buf;
    uint64_t offset;
};

static inline struct place at(const struct coll *coll, enum tutti_buf buf, uint64_t element)
{
    return (struct place){.buf = buf, .offset = element * coll->element_bytes};
}

static inline struct tutti_step *emit_step(struct tutti_round *out, enum tutti_step_kind kind,
                                           uint64_t bytes)
{
    struct tutti_step *step;

    assert(out->step_count < TUTTI_ROUND_STEPS_MAX);
    step = &out->step[out->step_count++];
    *step = (struct tutti_step){.kind = (uint8_t)kind, .bytes = bytes};
    return step;
}

static inline struct tutti_step *emit_send(struct tutti_round *out, uint32_t to, struct place src,
                                           uint64_t bytes)
{
    struct tutti_step *step = emit_step(out, TUTTI_SEND, bytes);

    step->peer = to;
    step->src_buf = (uint8_t)src.buf;
    step->src_offset = src.offset;
    return step;
}

static inline struct tutti_step *emit_recv(struct tutti_round *out, uint32_t from, struct place dst,
                                           uint64_t bytes)
{
    struct tutti_step *step = emit_step(out, TUTTI_RECV, bytes);

    step->peer = from;
    step->dst_buf = (uint8_t)dst.buf;
    step->dst_offset = dst.offset;
    return step;
}

static inline struct tutti_step *emit_copy(struct tutti_round *out, struct place dst,
                                           struct place src, uint64_t bytes)
{
    struct tutti_step *step = emit_step(out, TUTTI_COPY, bytes);

    step->dst_buf = (uint8_t)dst.buf;
    step->dst_offset = dst.offset;
    step->src_buf = (uint8_t)src.buf;
    step->src_offset = src.offset;
    return step;
}

/* dst = acc op src. */
static inline struct tutti_step *emit_reduce(struct tutti_round *out, struct place dst,
                                             struct place acc, struct place src, uint64_t bytes)
{
    struct tutti_step *step = emit_copy(out, dst, src, bytes);

    step->kind = TUTTI_REDUCE;
    step->acc_buf = (uint8_t)acc.buf;
    step->acc_offset = acc.offset;
    return step;
}

/* A fused pair: receive into `staging area` (scratch) and dst = acc op staging area. Returns the
 * REDUCE. */
static inline struct tutti_step *emit_recv_reduce(struct tutti_round *out, uint32_t from,
                                                  struct place staging, struct place dst,
                                                  struct place acc, uint64_t bytes)
{
    emit_recv(out, from, staging, bytes)->flags = TUTTI_STEP_FUSE;
    return emit_reduce(out, dst, acc, staging, bytes);
}

/* The step starts only when step `dep_step` of lane `dep_lane` of this rank has completed. */
static inline void emit_dep(struct tutti_step *step, uint32_t dep_lane, uint64_t dep_step)
{
    assert(dep_step <= UINT32_MAX);
    step->flags |= TUTTI_STEP_DEP;
    step->dep_lane = (uint16_t)dep_lane;
    step->dep_step = (uint32_t)dep_step;
}

static inline void emit_last(struct tutti_step *step)
{
    step->flags |= TUTTI_STEP_LAST;
}

#endif
