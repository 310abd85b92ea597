/* The backend `threads` under the conformance suite while it emulates a machine: the same bytes and
 * steps as everywhere, whatever is shared and however long steps take there. */
#include "tests/runtime/conformance_nccl.h"
#include "tests/runtime/conformance_overlap.h"
#include "tests/runtime/emulated.h"

static int open_emulating(uint32_t rank_count, struct tutti_backend **ret, struct tutti_err *err)
{
    struct tutti_sim_opts opts = {
        .size = sizeof(struct tutti_sim_opts),
        .model = rank_count % 2 == 0 ? TUTTI_MODEL_FAIR : TUTTI_MODEL_ALPHABETA,
        .reduce_bytes_per_s = rank_count % 3 * UINT64_C(100000000000), /* free now and then */
    };
    char spec[64];

    snprintf(spec, sizeof(spec), "ring:n=%u,bw=10GB/s,lat=100ns", rank_count);
    return emulated_open(spec, opts, 1, ret, err);
}

static const struct conformance_subject subject = {.name = "threads", .open = open_emulating};
