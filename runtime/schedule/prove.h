/* The state of a proof: what all buffers of all ranks hold. */
#ifndef TUTTI_RUNTIME_SCHEDULE_PROVE_H
#define TUTTI_RUNTIME_SCHEDULE_PROVE_H

#include "runtime/schedule/dry_run.h"
#include "runtime/schedule/value.h"

struct tutti_proof {
    const struct tutti_schedule *schedule; /* flat */
    struct tutti_rank_sets *sets;
    const struct tutti_rank_set **single; /* [rank]: {rank} */
    const struct tutti_rank_set *all;
    struct tutti_value_map *out; /* [rank] */
    struct tutti_value_map *scratch;
    struct tutti_pieces *free_pieces;
    struct tutti_pieces acc; /* work of one step */
    struct tutti_pieces src;
    struct tutti_pieces dst;
};

/* What is left at the end: that out holds what the contract promises, and nothing was in vain. */
int tutti_proof_final(const struct tutti_proof *proof, struct tutti_err *err);

#endif
