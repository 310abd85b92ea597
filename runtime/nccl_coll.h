/* The schedules that NCCL runs: ring, tree and their like, cut as NCCL cuts them. Which of them it
 * picks, with how many channels and which chunks, is a matter of sim/nccl.h; what they cost, of the
 * simulator.
 *
 * Source: NCCL 2.28.9, src/device (all_reduce.h and the like), src/graph/connect.cc, trees.cc. */
#ifndef TUTTI_RUNTIME_NCCL_COLL_H
#define TUTTI_RUNTIME_NCCL_COLL_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/coll.h"

TUTTI_API_BEGIN

struct tutti_err;

/* Equal hosts, whose ranks are in one or more orders: host h holds the ranks from h * length on. A
 * chain is an order of the numbers 0 .. length - 1 of ranks on their host. The ring of a chain is
 * that of host 0, then of host 1, and so on; its tree goes through the chain inside each host. */
struct tutti_chains {
    uint32_t host_count;
    uint32_t length;
    uint32_t count;          /* channel c runs on chain c mod count */
    const uint32_t *members; /* [count * length], borrowed for the call; NULL: 0, 1, ... */
    bool swapped;            /* rings: odd hosts have chains 2k and 2k + 1 in each other's place, as
                                where channels cross rails in pairs; count is even */
};

/* Where the tree between hosts meets the chains inside them; NCCL's numbers of patterns. */
enum tutti_tree_pattern {
    TUTTI_TREE_BALANCED = 1, /* first child at the second rank of the chain, second at the first */
    TUTTI_TREE_SPLIT = 2,    /* both children at the second rank */
    TUTTI_TREE_SINGLE = 3,   /* all at the first rank */
};

struct tutti_nccl_params {
    struct tutti_coll_params coll; /* chunk_bytes: NCCL's chunk, of data, > 0; slice_count: slices
                                      of a chunk; slot_count: slices that a connection holds */
    uint64_t count_lo;             /* elements of the first channel, */
    uint64_t count_mid;            /* of each between, */
    uint64_t count_hi;             /* and of the last; one channel has count_lo. Of blocks: their
                                      share of each. Together coll.count */
    uint64_t chunk_lo_bytes;       /* chunks of the first channel, */
    uint64_t chunk_hi_bytes;       /* and of the last; 0: chunk_bytes, as rings always have */
    uint8_t pattern;               /* enum tutti_tree_pattern; trees only */
    uint64_t step_bytes;           /* of a connection's buffer; 0: 512 KiB; "pat" only */
    uint32_t repeat_count;         /* broadcast and reduce on "ring" only: so many in a row on the
                                      same buffers, as in the loop of a benchmark: for who keeps
                                      time, not data; 0: one */

    /* "p2p" only, which has no shares but as many channels as there are to send and receive on, a
     * power of two, and cuts messages into parts, one a channel. */
    uint32_t peer_channel_count; /* parts at most; as many as channels suffice for all peers at
                                    once, or more, if they were larger than part_bytes_max */
    uint64_t part_bytes_min;
    uint64_t part_bytes_max;  /* 0: none */
    uint64_t net_chunk_bytes; /* between hosts; 0: chunk_bytes, as inside them */
};

/* Algorithms:
 *   ring  all-reduce, reduce-scatter, all-gather, broadcast, reduce
 *   tree  all-reduce; the first chains.count channels run on the first of the two trees between
 *         hosts, as many after them on the second, and so on in turn
 *   pat   all-gather, reduce-scatter, one rank a host; chunks are not cut into slices
 *   p2p   all-to-all, send and receive; likewise
 * -TUTTI_EINVAL for another collective or algorithm, shares that do not add up, chains that are no
 * permutations. The name of the schedule is "nccl:" and the algorithm; that of several ranks has a
 * recipe. */
int tutti_nccl_generate(const char *algorithm, const struct tutti_nccl_params *params,
                        const struct tutti_chains *chains, struct tutti_schedule **ret,
                        struct tutti_err *err);

/* How many channels of a schedule of "p2p" have any part of a message, of some rank; of one rank
 * alone none. */
uint32_t tutti_nccl_p2p_channels(const struct tutti_schedule *schedule);

TUTTI_API_END

#endif
