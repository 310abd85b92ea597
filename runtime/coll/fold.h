/* Folding: an exchange among 2^k ranks serves any number, the surplus ranks giving their data to a
 * neighbour before and getting the result after it (Thakur, Rabenseifner & Gropp 2005, 4.1). */
#ifndef TUTTI_RUNTIME_COLL_FOLD_H
#define TUTTI_RUNTIME_COLL_FOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/coll/emit.h"

struct fold {
    uint32_t rank_count;
    uint32_t member_count; /* the largest power of two <= rank_count */
    uint32_t log;          /* of it */
    uint32_t surplus;      /* rank_count - member_count */
};

/* Of the first 2 * surplus ranks the even ones are surplus, each with the next rank as partner. */
struct role {
    bool surplus;
    bool folded;      /* a member with a surplus partner */
    uint32_t partner; /* rank, if surplus or folded */
    uint32_t member;  /* number among the members, unless surplus */
};

static inline struct fold fold_of(uint32_t rank_count)
{
    struct fold fold = {.rank_count = rank_count, .member_count = 1};

    while (fold.member_count <= rank_count / 2) {
        fold.member_count *= 2;
        fold.log++;
    }
    fold.surplus = rank_count - fold.member_count;
    return fold;
}

static inline struct role fold_role(const struct fold *fold, uint32_t rank)
{
    if (rank >= 2 * fold->surplus)
        return (struct role){.member = rank - fold->surplus};
    if (rank % 2 == 0)
        return (struct role){.surplus = true, .partner = rank + 1};
    return (struct role){.folded = true, .partner = rank - 1, .member = rank / 2};
}

static inline uint32_t fold_rank(const struct fold *fold, uint32_t member)
{
    return member < fold->surplus ? 2 * member + 1 : member + fold->surplus;
}

/* What a surplus rank does with a part of the data: gives it (first) or gets the result (then). */
static inline void fold_emit_surplus(const struct coll *coll, const struct role *role, bool gives,
                                     struct range part, struct tutti_round *out)
{
    if (gives)
        emit_send(out, role->partner, at(coll, TUTTI_BUF_IN, part.first),
                  part.count * coll->element_bytes);
    else
        emit_recv(out, role->partner, at(coll, TUTTI_BUF_OUT, part.first),
                  part.count * coll->element_bytes);
}

#endif
