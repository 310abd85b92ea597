/* How NCCL cuts the data: shares of channels, pieces, chunks and slices, as ranges of elements. */
#ifndef TUTTI_RUNTIME_COLL_NCCL_CUT_H
#define TUTTI_RUNTIME_COLL_NCCL_CUT_H

#include "runtime/coll/emit.h"
#include "runtime/nccl_coll.h"

enum { NCCL_SLICE_ELEMENTS = 16, NCCL_SLICE_PARTS = 32, NCCL_CHUNK_BYTES = 16 };

struct nccl_cut {
    uint32_t channel_count;
    uint32_t slice_count;
    uint64_t lo; /* elements of the first channel, */
    uint64_t mid;
    uint64_t hi;
    uint64_t chunk;    /* elements: the longest, and */
    uint64_t lo_chunk; /* of the first channel, */
    uint64_t mid_chunk;
    uint64_t hi_chunk;
    uint64_t grain; /* of a chunk that is made to fit, in elements */
};

/* The share of a channel. */
static inline struct range nccl_share(const struct nccl_cut *cut, uint32_t channel)
{
    if (channel == 0)
        return (struct range){.first = 0, .count = cut->lo};
    return (struct range){.first = cut->lo + (channel - UINT64_C(1)) * cut->mid,
                          .count = channel + 1 == cut->channel_count ? cut->hi : cut->mid};
}

static inline uint64_t nccl_share_max(const struct nccl_cut *cut)
{
    uint64_t most = cut->channel_count > 2 && cut->mid > cut->lo ? cut->mid : cut->lo;

    return cut->channel_count > 1 && cut->hi > most ? cut->hi : most;
}

/* Elements of the chunks of a channel, where channels do not share a length. */
static inline uint64_t nccl_chunk(const struct nccl_cut *cut, uint32_t channel)
{
    if (channel == 0)
        return cut->lo_chunk;
    return channel + 1 == cut->channel_count ? cut->hi_chunk : cut->mid_chunk;
}

/* Chunks of a channel. */
static inline uint64_t nccl_chunk_count(const struct nccl_cut *cut, uint32_t channel)
{
    return div_up(nccl_share(cut, channel).count, nccl_chunk(cut, channel));
}

/* No channel has more: the middle ones are alike. */
static inline uint64_t nccl_chunk_count_max(const struct nccl_cut *cut)
{
    uint64_t most = nccl_chunk_count(cut, 0);
    uint64_t next = nccl_chunk_count(cut, cut->channel_count > 2 ? 1 : 0);
    uint64_t last = nccl_chunk_count(cut, cut->channel_count - 1);

    most = next > most ? next : most;
    return last > most ? last : most;
}

/* Piece `index` of a share, each of `elements`, the last what is left. */
static inline struct range nccl_piece(struct range share, uint64_t index, uint64_t elements)
{
    uint64_t first = index * elements;

    assert(first < share.count);
    return (struct range){.first = share.first + first,
                          .count = share.count - first < elements ? share.count - first : elements};
}

/* Elements of each of the n chunks of a piece: one shorter than n whole chunks has shorter ones, of
 * multiples of 16 bytes, the last of which may be cut off or empty. */
static inline uint64_t nccl_chunk_of(const struct nccl_cut *cut, uint64_t piece, uint32_t n)
{
    uint64_t chunk = div_up(div_up(piece, n), cut->grain) * cut->grain;

    return chunk < cut->chunk ? chunk : cut->chunk;
}

/* [first, first + count) of a range, as much of it as there is. */
static inline struct range nccl_within(struct range whole, uint64_t first, uint64_t count)
{
    first = first < whole.count ? first : whole.count;
    count = count < whole.count - first ? count : whole.count - first;
    return (struct range){.first = whole.first + first, .count = count};
}

/* Slice `index` of a chunk. Small chunks go in the first slice, down to 1/32 of what a slice holds,
 * and the others are empty, but sent. */
static inline struct range nccl_slice(const struct nccl_cut *cut, struct range chunk,
                                      uint32_t index)
{
    uint64_t least = cut->chunk / cut->slice_count / NCCL_SLICE_PARTS;
    uint64_t size =
        div_up(chunk.count, (uint64_t)NCCL_SLICE_ELEMENTS * cut->slice_count) * NCCL_SLICE_ELEMENTS;

    size = size > least ? size : least;
    return nccl_within(chunk, index * size, size);
}

/* Takes the parameters over; -TUTTI_EINVAL where they do not add up. */
int tutti_nccl_cut_init(struct nccl_cut *cut, const struct tutti_nccl_params *params,
                        struct tutti_err *err);

#endif
