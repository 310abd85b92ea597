/* The backtracking search for channels at given rates and types. */
#ifndef TUTTI_SIM_NCCL_WALK_H
#define TUTTI_SIM_NCCL_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/nccl/candidate.h"
#include "sim/nccl/rules.h"
#include "sim/nccl/system.h"

struct tutti_arena;

enum { TUTTI_WALK_PERFECT = -1 }; /* budget after a walk that found all the channels asked for */

/* What stood in the way of a walk. */
struct tutti_nccl_limiting_factor {
    bool rate;                                      /* a link had too little left */
    uint8_t type_intra, type_to_net, type_from_net; /* the nearest type refused; DIS: none */
    uint32_t channels_tried;                        /* begun at once, at most */
};

struct tutti_nccl_level;
struct tutti_nccl_score;

struct tutti_nccl_walk {
    struct tutti_nccl_system *system;
    const struct tutti_nccl_rules *rules;
    struct tutti_nccl_candidate now; /* rates and types are set by the caller; channels are tried */
    struct tutti_nccl_candidate best;                  /* kept over walks */
    bool improved;                                     /* by the last walk */
    int64_t budget;                                    /* steps left: in and out */
    int64_t steps_taken;                               /* over all walks */
    struct tutti_nccl_limiting_factor limiting_factor; /* of the last walk */

    /* private */
    uint64_t *used;       /* [GPU]: bit of channel */
    int64_t *net_left;    /* [port], kB/s */
    uint32_t *near_gpus;  /* [port][GPUs], as many as near_count[port] */
    uint32_t *near_count; /* [port] */
    uint32_t *preferred;  /* [GPU + 1][ports]: a GPU's own, and those of all */
    uint32_t *preferred_count;
    uint32_t **nets;       /* [type]: lists as above, followed by others up to that type */
    uint32_t **net_counts; /* [type] */
    uint32_t *scratch;
    uint32_t depth, depth_max;
    struct tutti_nccl_level *levels;
    uint32_t *lists; /* [level][list_width]: GPUs to go to */
    uint32_t list_width;
    struct tutti_nccl_score *scores;                   /* [GPU] */
    const struct tutti_nccl_link **pci_up, **pci_down; /* [GPU]: its PCI link; NULL: none */
    struct tutti_arena *arena;
};

/* -TUTTI_ENOMEM. For up to `channels_max` channels. */
int tutti_nccl_walk_init(struct tutti_nccl_walk *walk, struct tutti_nccl_system *system,
                         const struct tutti_nccl_rules *rules, uint32_t channels_max,
                         struct tutti_arena *arena);

/* Walks from no channel on until the budget is spent, all has been tried or all channels are there,
 * and keeps what is better than `best`. Afterwards nothing is taken from any link. -TUTTI_ENOMEM.
 */
int tutti_nccl_walk_run(struct tutti_nccl_walk *walk);

#endif
