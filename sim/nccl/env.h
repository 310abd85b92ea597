/* The values of the NCCL_* variables that decide: what the graph search and the tuning read. */
#ifndef TUTTI_SIM_NCCL_ENV_H
#define TUTTI_SIM_NCCL_ENV_H

#include <stdint.h>

#include "sim/nccl.h"
#include "sim/nccl/rings.h"

enum tutti_nccl_function { /* the functions that are tuned; NCCL's numbers */
                           TUTTI_NCCL_BROADCAST,
                           TUTTI_NCCL_REDUCE,
                           TUTTI_NCCL_ALLGATHER,
                           TUTTI_NCCL_REDUCESCATTER,
                           TUTTI_NCCL_ALLREDUCE,
                           TUTTI_NCCL_FUNCTION_COUNT
};

#define TUTTI_NCCL_UNSET INT64_MIN /* a variable that is not set: NCCL's own default holds */

enum { TUTTI_NCCL_OFF, TUTTI_NCCL_ON, TUTTI_NCCL_AUTO }; /* auto: LL128, where links allow it */

enum tutti_nccl_netdevs { TUTTI_NETDEVS_AUTO, TUTTI_NETDEVS_ALL, TUTTI_NETDEVS_MAX };

/* Numbers are as given, unclamped; what reads one clamps as NCCL does. Levels are names of paths
 * (enum tutti_nccl_path_type): old numbers are translated on reading. */
struct tutti_nccl_env {
    uint8_t algorithms[TUTTI_NCCL_FUNCTION_COUNT][TUTTI_NCCL_ALGORITHM_COUNT]; /* NCCL_ALGO */
    uint8_t protocols[TUTTI_NCCL_FUNCTION_COUNT][TUTTI_NCCL_PROTOCOL_COUNT];   /* NCCL_PROTO */
    int64_t thread_thresholds[2][TUTTI_NCCL_PROTOCOL_COUNT]; /* of trees, of rings; or UNSET */

    /* how many channels and threads */
    int64_t min_nchannels, max_nchannels, min_nrings, max_nrings; /* the first pair goes first */
    int64_t min_ctas, max_ctas;
    int64_t nthreads, ll128_nthreads;

    /* how the data are cut */
    int64_t buffsize, ll_buffsize, ll128_buffsize;
    int64_t nvls_chunksize, nvlstree_max_chunksize;
    int64_t p2p_ll_threshold, p2p_net_chunksize, p2p_pci_chunksize, p2p_nvl_chunksize;

    /* what may run, and its price */
    int64_t nvls_enable;                            /* 0, 1, 2: where there is support */
    int64_t collnet_enable, collnet_node_threshold; /* see tutti_nccl_env_collnet() */
    int64_t pat_enable;                             /* 0, 1, 2: by the rule of one rank a node */
    int64_t msccl_enable;                           /* RCCL_: 0, 1; unset: 1 */
    int64_t tuner_plugin; /* 0: none; else a network's own if it has one */
    int64_t net_overhead_ns;
    int64_t ll128_c2c;

    /* what the graph search sees and may use */
    int64_t p2p_level, net_gdr_level; /* a path */
    int64_t p2p_disable, shm_disable, pxn_disable, nvb_disable;
    int64_t net_gdr_read, pxn_c2c;
    int64_t cross_nic; /* 0, 1, 2 */
    int64_t netdevs_policy;
    int64_t netdevs_max;           /* of TUTTI_NETDEVS_MAX */
    struct tutti_nccl_rings rings; /* NCCL_GRAPH_FILE */
};

/* Is CollNet on? Not by itself, and not for fewer nodes than the threshold, 2 (2.28 init.cc). */
bool tutti_nccl_env_collnet(const struct tutti_nccl_env *env, uint32_t node_count);

/* What NCCL does by itself: nothing set. */
const struct tutti_nccl_env *tutti_nccl_env_none(void);

#endif
