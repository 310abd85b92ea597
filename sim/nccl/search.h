/* The search for a graph: which rates and types are tried in which order, until one will do. */
#ifndef TUTTI_SIM_NCCL_SEARCH_H
#define TUTTI_SIM_NCCL_SEARCH_H

#include "sim/nccl/candidate.h"
#include "sim/nccl/rules.h"
#include "sim/nccl/system.h"

struct tutti_arena;
struct tutti_err;

struct tutti_nccl_request {
    uint8_t pattern; /* enum tutti_nccl_pattern */
    bool collnet;
    uint32_t channels_min, channels_max;
};

/* What was tried, in order. */
struct tutti_nccl_search_log {
    struct tutti_arena *arena; /* of the tries; set by the caller */
    struct tutti_nccl_try *tries;
    size_t count, room;
    uint8_t type_inter_max; /* no search goes farther than a GPU is from a port */
    bool collapsed;
    int64_t steps_taken;
};

/* `ret`: a graph whose GPUs and ports are places in the system; channel_count 0: nothing found, nor
 * made up. Memory is the arena's. */
int tutti_nccl_search(struct tutti_nccl_system *system, const struct tutti_nccl_rules *rules,
                      const struct tutti_nccl_request *request, struct tutti_arena *arena,
                      struct tutti_nccl_candidate *ret, struct tutti_nccl_search_log *log,
                      struct tutti_err *err);

#endif
