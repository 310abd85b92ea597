/* Chains with their inverse: which rank sits where on the ring of a channel. */
#ifndef TUTTI_RUNTIME_COLL_NCCL_CHAINS_H
#define TUTTI_RUNTIME_COLL_NCCL_CHAINS_H

#include <stdint.h>

#include "runtime/nccl_coll.h"

struct tutti_arena;

struct nccl_chains {
    struct tutti_chains is; /* members: a copy */
    uint32_t *places;       /* [count * length]: where on a chain a member is */
};

/* Copies and checks them: hosts and chains must make up `rank_count` ranks. */
int tutti_nccl_chains_init(struct nccl_chains *chains, const struct tutti_chains *from,
                           uint32_t rank_count, struct tutti_arena *arena, struct tutti_err *err);

/* The chain of a channel on a host: where its row begins. */
static inline uint64_t nccl_chain_row(const struct nccl_chains *chains, uint32_t channel,
                                      uint32_t host)
{
    uint32_t chain = channel % chains->is.count;

    if (chains->is.swapped)
        chain ^= host & 1;
    return (uint64_t)chain * chains->is.length;
}

static inline uint32_t nccl_ring_rank(const struct nccl_chains *chains, uint32_t channel,
                                      uint32_t position)
{
    uint32_t host = position / chains->is.length;
    uint32_t place = position - host * chains->is.length;

    if (chains->is.members == NULL)
        return position;
    return position - place + chains->is.members[nccl_chain_row(chains, channel, host) + place];
}

static inline uint32_t nccl_ring_position(const struct nccl_chains *chains, uint32_t channel,
                                          uint32_t rank)
{
    uint32_t host = rank / chains->is.length;
    uint32_t member = rank - host * chains->is.length;

    if (chains->is.members == NULL)
        return rank;
    return rank - member + chains->places[nccl_chain_row(chains, channel, host) + member];
}

#endif
