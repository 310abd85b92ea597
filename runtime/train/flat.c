/* Weights as one row. */
#include "runtime/train/flat.h"

#include <string.h>

bool tutti_flat_piece_at(const struct tutti_layout *l, uint32_t rank, uint32_t index,
                         struct tutti_flat_piece *ret)
{
    const struct tutti_plan_pack *p = &l->plan.packs[index];
    const bool shares = l->plan.strategy->sharding != TUTTI_SHARD_NONE;
    const uint64_t part = rank % l->plan.shard_ranks;
    uint64_t own;
    uint64_t first;

    if (index >= (shares ? l->plan.pack_count : l->run_count))
        return false;
    if (!shares) {
        *ret = (struct tutti_flat_piece){l->runs[index].flat, l->runs[index].state,
                                         l->runs[index].count};
        return true;
    }
    own = p->padded / l->plan.shard_ranks;
    first = part * own < p->elements ? part * own : p->elements;
    *ret = (struct tutti_flat_piece){
        .flat = p->first + first,
        .state = p->state_offset / sizeof(float),
        .count = own < p->elements - first ? own : p->elements - first,
    };
    return true;
}

void tutti_flat_scatter(const struct tutti_layout *l, uint32_t rank, const float *all, float *state)
{
    struct tutti_flat_piece s;

    for (uint32_t i = 0; tutti_flat_piece_at(l, rank, i, &s); i++)
        memcpy(state + s.state, all + s.flat, s.count * sizeof(float));
}

void tutti_flat_gather(const struct tutti_layout *l, uint32_t rank, const float *state, float *all)
{
    struct tutti_flat_piece s;

    for (uint32_t i = 0; tutti_flat_piece_at(l, rank, i, &s); i++)
        memcpy(all + s.flat, state + s.state, s.count * sizeof(float));
}
