/* What versions and NCCL_* variables make of the rules of paths and searches. */
#ifndef TUTTI_SIM_NCCL_RULES_H
#define TUTTI_SIM_NCCL_RULES_H

#include <stdbool.h>
#include <stdint.h>

/* NCCL_NETDEVS_POLICY: which of the nearest ports a GPU uses. */
enum tutti_nccl_nets { TUTTI_NETS_AUTO, TUTTI_NETS_ALL, TUTTI_NETS_MAX };

struct tutti_nccl_rules {
    int p2p_level; /* enum tutti_nccl_path_type; -1: by NCCL's own rule */
    int gdr_level;
    bool nvb, pxn, pxn_c2c, shm;
    bool gdr_c2c;    /* GPUDirect to ports that hang off the CPU of a C2C link */
    int cross_nic;   /* 0, 1, 2: as needed */
    int nets_policy; /* enum tutti_nccl_nets */
    uint32_t nets_max;
    bool nvls, collnet;
    bool sm100_more_speeds; /* 2.30: 45 within a node; 86, 80 between nodes */
    bool amd_rates;         /* as in struct tutti_nccl_version */
    bool duplicates_last;   /* as in struct tutti_nccl_changes */
};

#endif
