/* NCCL's schedules by name; see runtime/nccl_coll.h. */
#include "runtime/nccl_coll.h"

#include <string.h>

#include "runtime/coll/emit.h"
#include "runtime/coll/nccl_generators.h"

static const struct {
    const char *name;
    const char *full_name;
    int (*generate)(const struct tutti_nccl_params *params, const struct tutti_chains *chains,
                    const struct tutti_shape *shape, struct tutti_schedule **ret,
                    struct tutti_err *err);
} algorithms[] = {
    {"ring", "nccl:ring", tutti_nccl_ring},
    {"tree", "nccl:tree", tutti_nccl_tree},
    {"pat", "nccl:pat", tutti_nccl_pat},
    {"p2p", "nccl:p2p", tutti_nccl_p2p},
};

int tutti_nccl_generate(const char *algorithm, const struct tutti_nccl_params *params,
                        const struct tutti_chains *chains, struct tutti_schedule **ret,
                        struct tutti_err *err)
{
    uint64_t rank_count = (uint64_t)chains->host_count * chains->length;
    struct tutti_shape shape = tutti_shape_flat((uint32_t)rank_count);

    if (rank_count > UINT32_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "too many ranks '%llu' (at most 4294967295)",
                          (unsigned long long)rank_count);
    for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
        if (strcmp(algorithms[i].name, algorithm) != 0)
            continue;
        if (rank_count == 1)
            return tutti_coll_alone(algorithms[i].full_name, &params->coll, &shape, ret, err);
        return algorithms[i].generate(params, chains, &shape, ret, err);
    }
    return tutti_fail(err, TUTTI_EINVAL, "NCCL has no algorithm '%s' (ring, tree, pat, p2p)",
                      algorithm);
}
