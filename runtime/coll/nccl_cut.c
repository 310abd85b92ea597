/* The parameters of NCCL's cuts, checked. */
#include "runtime/coll/nccl_cut.h"

#include "runtime/wide.h"

static int check_shares(const struct nccl_cut *cut, uint64_t count, struct tutti_err *err)
{
    uint64_t middles = cut->channel_count > 2 ? cut->channel_count - UINT64_C(2) : 0;
    uint64_t sum = tutti_plus(cut->lo, tutti_times(cut->mid, middles));

    if (cut->channel_count > 1)
        sum = tutti_plus(sum, cut->hi);
    if (sum != count)
        return tutti_fail(
            err, TUTTI_EINVAL, "shares of '%llu', %llu times %llu, and %llu are not %llu elements",
            (unsigned long long)cut->lo, (unsigned long long)middles, (unsigned long long)cut->mid,
            (unsigned long long)cut->hi, (unsigned long long)count);
    return 0;
}

int tutti_nccl_cut_init(struct nccl_cut *cut, const struct tutti_nccl_params *params,
                        struct tutti_err *err)
{
    const struct tutti_coll_params *coll = &params->coll;
    uint64_t element_bytes = tutti_dtype_bytes(coll->dtype);

    uint64_t lo_bytes = params->chunk_lo_bytes > 0 ? params->chunk_lo_bytes : coll->chunk_bytes;
    uint64_t hi_bytes = params->chunk_hi_bytes > 0 ? params->chunk_hi_bytes : coll->chunk_bytes;
    uint64_t least;

    *cut = (struct nccl_cut){
        .channel_count = coll->channel_count == 0 ? 1 : coll->channel_count,
        .slice_count = coll->slice_count == 0 ? 1 : coll->slice_count,
        .lo = params->count_lo,
        .mid = params->count_mid,
        .hi = params->count_hi,
        .lo_chunk = lo_bytes / element_bytes,
        .mid_chunk = coll->chunk_bytes / element_bytes,
        .hi_chunk = hi_bytes / element_bytes,
        .grain = element_bytes < NCCL_CHUNK_BYTES ? NCCL_CHUNK_BYTES / element_bytes : 1,
    };
    least = cut->lo_chunk < cut->hi_chunk ? cut->lo_chunk : cut->hi_chunk;
    if (least == 0 || cut->mid_chunk == 0)
        return tutti_fail(err, TUTTI_EINVAL, "a chunk of '%llu' bytes holds no element (%llu)",
                          (unsigned long long)(cut->mid_chunk == 0  ? coll->chunk_bytes
                                               : cut->lo_chunk == 0 ? lo_bytes
                                                                    : hi_bytes),
                          (unsigned long long)element_bytes);
    cut->chunk = cut->lo_chunk > cut->hi_chunk ? cut->lo_chunk : cut->hi_chunk;
    cut->chunk = cut->mid_chunk > cut->chunk ? cut->mid_chunk : cut->chunk;
    return check_shares(cut, coll->count, err);
}
