/* NCCL's schedules by name; see runtime/nccl_coll.h. */
#include "runtime/nccl_coll.h"

#include <string.h>

#include "runtime/arena.h"
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

/* Notes all that a schedule hangs on, the machine's routes aside, which it does not know. */
static int note_recipe(size_t algorithm, const struct tutti_nccl_params *params,
                       const struct tutti_chains *chains, struct tutti_schedule *schedule,
                       struct tutti_err *err)
{
    const struct tutti_coll_params *coll = &params->coll;
    const uint64_t head[] = {
        algorithm,
        coll->collective,
        coll->dtype,
        coll->op,
        coll->root,
        coll->count,
        coll->channel_count,
        coll->chunk_bytes,
        coll->slice_count,
        coll->slot_count,
        params->count_lo,
        params->count_mid,
        params->count_hi,
        params->chunk_lo_bytes,
        params->chunk_hi_bytes,
        params->pattern,
        params->step_bytes,
        params->repeat_count,
        params->peer_channel_count,
        params->part_bytes_min,
        params->part_bytes_max,
        params->net_chunk_bytes,
        chains->host_count,
        chains->length,
        chains->count,
        chains->members != NULL,
        chains->swapped,
    };
    size_t head_count = sizeof(head) / sizeof(head[0]);
    size_t count = chains->members != NULL ? (size_t)chains->length * chains->count : 0;
    uint64_t *words = tutti_arena_take(schedule->arena, head_count + count, sizeof(*words));

    if (words == NULL)
        return tutti_nomem(err);
    memcpy(words, head, sizeof(head));
    for (size_t i = 0; i < count; i++)
        words[head_count + i] = chains->members[i];
    schedule->recipe = words;
    schedule->recipe_count = (uint32_t)(head_count + count);
    return 0;
}

static int generate(size_t algorithm, const struct tutti_nccl_params *params,
                    const struct tutti_chains *chains, struct tutti_schedule **ret,
                    struct tutti_err *err)
{
    struct tutti_shape shape = tutti_shape_flat(chains->host_count * chains->length);
    struct tutti_schedule *schedule = NULL;
    int status;

    if (shape.rank_count == 1)
        return tutti_coll_alone(algorithms[algorithm].full_name, &params->coll, &shape, ret, err);
    status = algorithms[algorithm].generate(params, chains, &shape, &schedule, err);
    if (status == 0)
        status = note_recipe(algorithm, params, chains, schedule, err);
    if (status < 0) {
        tutti_schedule_free(schedule);
        return status;
    }
    *ret = schedule;
    return 0;
}

int tutti_nccl_generate(const char *algorithm, const struct tutti_nccl_params *params,
                        const struct tutti_chains *chains, struct tutti_schedule **ret,
                        struct tutti_err *err)
{
    static const char words[] = "ring, tree, pat, p2p";
    char hint[TUTTI_HINT_BYTES];
    uint64_t rank_count = (uint64_t)chains->host_count * chains->length;

    if (rank_count > UINT32_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "too many ranks '%llu' (at most 4294967295)",
                          (unsigned long long)rank_count);
    for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++) {
        if (strcmp(algorithms[i].name, algorithm) == 0)
            return generate(i, params, chains, ret, err);
    }
    return tutti_fail(err, TUTTI_EINVAL, "NCCL has no algorithm '%s' (%s%s)", algorithm,
                      tutti_nearest_hint(algorithm, words, hint), words);
}
