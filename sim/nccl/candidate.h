/* A graph while it is searched for: NCCL's ncclTopoGraph. */
#ifndef TUTTI_SIM_NCCL_CANDIDATE_H
#define TUTTI_SIM_NCCL_CANDIDATE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/nccl/system.h"

struct tutti_nccl_candidate {
    uint8_t pattern; /* enum tutti_nccl_pattern */
    uint8_t cross_nic;
    uint8_t type_intra, type_inter; /* the farthest allowed */
    bool same_channels;
    bool collnet;
    uint32_t channels_min, channels_max;
    uint32_t channel_count;
    int64_t hop_count;
    int64_t intra_kbyte_per_s, inter_kbyte_per_s; /* a channel */
    uint32_t latency_ns;
    uint32_t *gpus; /* [channel][GPUs] */
    uint32_t *nets; /* [channel][2] */
};

/* Everything but the arrays, whose first channels are copied. */
void tutti_nccl_candidate_copy(const struct tutti_nccl_system *system,
                               const struct tutti_nccl_candidate *from,
                               struct tutti_nccl_candidate *to);

#endif
