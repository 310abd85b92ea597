/* Copies and checks chains. */
#include "runtime/coll/nccl_chains.h"

#include <stddef.h>

#include "runtime/arena.h"
#include "runtime/status.h"

static int invert(uint32_t chain, uint32_t length, const uint32_t *members, uint32_t *places,
                  struct tutti_err *err)
{
    for (uint32_t i = 0; i < length; i++)
        places[i] = UINT32_MAX;
    for (uint32_t i = 0; i < length; i++) {
        if (members[i] >= length)
            return tutti_fail(err, TUTTI_EINVAL, "chain %u names '%u' (0 to %u)", chain, members[i],
                              length - 1);
        if (places[members[i]] != UINT32_MAX)
            return tutti_fail(err, TUTTI_EINVAL, "chain %u names '%u' twice (every rank once)",
                              chain, members[i]);
        places[members[i]] = i;
    }
    return 0;
}

static int check_sizes(const struct tutti_chains *chains, uint32_t rank_count,
                       struct tutti_err *err)
{
    if (chains->length == 0 || chains->count == 0 ||
        (uint64_t)chains->host_count * chains->length != rank_count)
        return tutti_fail(err, TUTTI_EINVAL, "'%u' chains of %u on %u hosts are not for %u ranks",
                          chains->count, chains->length, chains->host_count, rank_count);
    if (chains->swapped && chains->count % 2 != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'%u' chains cannot change places (an even number of them)",
                          chains->count);
    return 0;
}

int tutti_nccl_chains_init(struct nccl_chains *chains, const struct tutti_chains *from,
                           uint32_t rank_count, struct tutti_arena *arena, struct tutti_err *err)
{
    size_t total = (size_t)from->count * from->length;
    int status = check_sizes(from, rank_count, err);
    uint32_t *members;

    *chains = (struct nccl_chains){.is = *from};
    if (status < 0 || from->members == NULL)
        return status;
    members = tutti_arena_take(arena, total, sizeof(*members));
    chains->places = tutti_arena_take(arena, total, sizeof(*chains->places));
    if (members == NULL || chains->places == NULL)
        return tutti_nomem(err);
    for (size_t i = 0; i < total; i++)
        members[i] = from->members[i];
    chains->is.members = members;
    for (uint32_t c = 0; c < from->count && status == 0; c++)
        status = invert(c, from->length, members + (size_t)c * from->length,
                        chains->places + (size_t)c * from->length, err);
    return status;
}
