/* Model A, what NCCL thinks: its channel search, its tuning tables and its choice of algorithm,
 * protocol and channels, by version. This decides which schedule runs; what that costs is another
 * matter (predict.h), and the two are never mixed. */
#ifndef TUTTI_SIM_NCCL_H
#define TUTTI_SIM_NCCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/schedule.h"
#include "topo/hardware.h"

TUTTI_API_BEGIN

struct tutti_err;

/* Numbers are NCCL's own (nccl_tuner.h); the names in logs: tutti_nccl_algorithm_name(). */
enum tutti_nccl_algorithm {
    TUTTI_NCCL_TREE,
    TUTTI_NCCL_RING,
    TUTTI_NCCL_COLLNET_DIRECT,
    TUTTI_NCCL_COLLNET_CHAIN,
    TUTTI_NCCL_NVLS,
    TUTTI_NCCL_NVLS_TREE,
    TUTTI_NCCL_PAT,
    TUTTI_NCCL_ALGORITHM_COUNT
};

enum tutti_nccl_protocol {
    TUTTI_NCCL_LL,
    TUTTI_NCCL_LL128,
    TUTTI_NCCL_SIMPLE,
    TUTTI_NCCL_PROTOCOL_COUNT
};

enum tutti_nccl_path_type { /* smaller is nearer; only compared, never stored: versions differ */
                            TUTTI_PATH_LOC,
                            TUTTI_PATH_NVL,
                            TUTTI_PATH_NVB,
                            TUTTI_PATH_C2C,
                            TUTTI_PATH_PIX,
                            TUTTI_PATH_PXB,
                            TUTTI_PATH_P2C,
                            TUTTI_PATH_PXN,
                            TUTTI_PATH_PHB,
                            TUTTI_PATH_SYS,
                            TUTTI_PATH_NET,
                            TUTTI_PATH_DIS,
                            TUTTI_PATH_COUNT
};

enum tutti_nccl_pattern { /* NCCL's numbers */
                          TUTTI_PATTERN_BALANCED_TREE = 1,
                          TUTTI_PATTERN_SPLIT_TREE = 2,
                          TUTTI_PATTERN_TREE = 3,
                          TUTTI_PATTERN_RING = 4,
                          TUTTI_PATTERN_NVLS = 5,
                          TUTTI_PATTERN_COLLNET_DIRECT = 6,
};

enum tutti_nccl_graph_id { /* NCCL's numbers in graph files */
                           TUTTI_GRAPH_RING,
                           TUTTI_GRAPH_TREE,
                           TUTTI_GRAPH_COLLNET_CHAIN,
                           TUTTI_GRAPH_NVLS,
                           TUTTI_GRAPH_COLLNET_DIRECT,
                           TUTTI_GRAPH_COUNT
};

enum { TUTTI_NCCL_CHANNELS_MAX = 64 };

/* What a search found. channel_count 0: nothing. */
struct tutti_nccl_graph {
    uint8_t pattern; /* enum tutti_nccl_pattern */
    uint8_t cross_nic;
    uint8_t type_intra; /* enum tutti_nccl_path_type */
    uint8_t type_inter;
    bool same_channels;
    bool collapsed;          /* no speed could be met: rank order, one channel, 0.1 GB/s */
    uint32_t channel_count;  /* of these so many are used: ring and tree share the lesser count */
    uint32_t channels_found; /* by the search */
    double bw_intra_GBps;    /* a channel; of NCCL's list of speeds */
    double bw_inter_GBps;
    double latency_inter_us;
    uint32_t gpu_count;
    /* [channel][gpu_count]: the host's ranks in the order of the channel; with NVLS and CollNet
     * direct the head and then the others. Of a rack: host * GPUs of a host + rank. Where GPUs of a
     * host talk by the network, so that NCCL takes it for several nodes: those of the first. */
    const uint32_t *gpus;
    const uint32_t *nets; /* [channel][2]: ports in and out by index; NULL on one node */
};

/* One attempt of a search to find channels: what was allowed, and what came of it. Of types refused
 * the nearest is told; DIS: none was. */
struct tutti_nccl_try {
    uint8_t pass; /* 1: any graph; 2: a faster one */
    uint8_t pattern, cross_nic;
    uint8_t type_intra, type_inter; /* the farthest allowed */
    bool same_channels;
    bool better;  /* than what there was: kept */
    bool gave_up; /* out of steps */
    bool rate_lacked;
    uint8_t refused_intra, refused_to_port, refused_from_port;
    uint32_t step_count;       /* of the walk; NCCL gives up after 16384, 256 with same_channels */
    uint32_t channels_reached; /* at once, of which so many must be for a graph to count */
    uint32_t channels_best;    /* of what is kept; 0: nothing yet */
    double bw_intra_GBps, bw_inter_GBps;
};

/* Versions whose tables are known, oldest first: "2.28.9", ... */
struct tutti_nccl_version;
const struct tutti_nccl_version *tutti_nccl_version_at(size_t index); /* NULL past the last */
const char *tutti_nccl_version_name(const struct tutti_nccl_version *version);
/* What of it is not its own, in words: "as 2.28.9 but for ..."; NULL: it was read in full. */
const char *tutti_nccl_version_note(const struct tutti_nccl_version *version);
const struct tutti_nccl_version *tutti_nccl_version_default(void); /* 2.28.9 */
/* Before 2.22 (NULL: 2.28.9): blocks of threads then fetched what they had to do from a queue in
 * memory; from 2.22 on it comes with the kernel (2.22 device.h, ncclDevWorkStorageTypeArgs). */
bool tutti_nccl_version_is_early(const struct tutti_nccl_version *version);
/* "2.28", "2.28.9", "22809", or "latest": the newest of that series, or else the newest not after
 * it; -TUTTI_EINVAL with those there are. */
int tutti_nccl_version_find(const char *name, const struct tutti_nccl_version **ret,
                            struct tutti_err *err);
/* The same for a version that has run: older ones than those known are like the oldest, newer ones
 * like the newest; NULL for what is no version. */
const struct tutti_nccl_version *tutti_nccl_version_near(const char *name);

/* NCCL_* variables that decide, in NCCL's own grammar; new() is what NCCL does by itself. */
struct tutti_nccl_env;
int tutti_nccl_env_new(struct tutti_nccl_env **ret, struct tutti_err *err);
void tutti_nccl_env_free(struct tutti_nccl_env *env);
/* Sets "NCCL_ALGO" and the like. -TUTTI_EINVAL for a variable not modelled or a value that NCCL
 * would not take, with what it would. */
int tutti_nccl_env_set(struct tutti_nccl_env *env, const char *name, const char *value,
                       struct tutti_err *err);
/* Sets a list, "NCCL_ALGO=Ring,Tree,NCCL_PROTO=^LL": a comma before "NCCL_" or "RCCL_" divides. */
int tutti_nccl_env_add(struct tutti_nccl_env *env, const char *list, struct tutti_err *err);
/* The first comma of a list that divides; NULL: none. */
const char *tutti_nccl_env_comma(const char *list);
const char *tutti_nccl_env_name_at(size_t index); /* those modelled, by name; NULL past the last */
/* Of those that NCCL documents: it names devices, plugins, logs and the like, or what is not
 * modelled, so that setting it says nothing here. */
bool tutti_nccl_env_is_other(const char *name);
/* Of all values; that of NULL is that of nothing set. */
uint64_t tutti_nccl_env_hash(const struct tutti_nccl_env *env);

/* A communicator of all GPUs of `host_count` equal hosts. */
struct tutti_nccl_comm_params {
    const struct tutti_hardware *hardware;
    uint32_t host_count;                      /* ranks / hardware->gpu_count: a rack is several */
    const struct tutti_nccl_version *version; /* NULL: 2.28.9 */
    const struct tutti_nccl_env *env;         /* NULL: nothing set */
};

struct tutti_nccl_comm { /* frozen */
    uint32_t rank_count;
    uint32_t node_count;         /* NCCL's: a rack with NVLink between its hosts is one */
    uint32_t channel_count;      /* after doubling */
    uint32_t nvls_channel_count; /* 0: no NVLS */
    bool by_host_memory;         /* some GPUs of a node reach each other through it (SHM) alone */
    double max_bw_GBps;          /* of one rank to another or to a port, and */
    double total_bw_GBps;        /* of all its links: the search's bounds */
    struct tutti_nccl_graph graphs[TUTTI_GRAPH_COUNT];
    const struct tutti_nccl_version *version;
    struct tutti_nccl_tables *tables; /* private */
};

/* -TUTTI_EINVAL for no GPU, and so on; *ret is freed with tutti_nccl_comm_free(). */
int tutti_nccl_comm_new(const struct tutti_nccl_comm_params *params, struct tutti_nccl_comm **ret,
                        struct tutti_err *err);
void tutti_nccl_comm_free(struct tutti_nccl_comm *comm);
/* On AMD's GPUs it is RCCL that decides, by tables of its own, of one version. */
bool tutti_nccl_is_rccl(const struct tutti_nccl_comm *comm);

/* What the plugin of its network sets and decides (AWS's, for EFA), in words, cut at the end if
 * longer; returns their length, 0 where none is known. `bytes` > 0. */
size_t tutti_nccl_plugin_words(const struct tutti_nccl_comm *comm, char *ret, size_t bytes);

/* What the search of a graph tried, in order; returns how many. What is borrowed lives as long as
 * the communicator. Within one attempt no way from a port is farther than `*ret_port_type`, the
 * farthest from a GPU to a port. */
size_t tutti_nccl_tries(const struct tutti_nccl_comm *comm, enum tutti_nccl_graph_id graph,
                        const struct tutti_nccl_try **ret,
                        enum tutti_nccl_path_type *ret_port_type);

/* The same in one line of words: what was found, what had to be relaxed for it, or why the search
 * collapsed; cut at the end if longer. `bytes` > 0. */
void tutti_nccl_explain(const struct tutti_nccl_comm *comm, enum tutti_nccl_graph_id graph,
                        char *ret, size_t bytes);

/* The tables of a communicator: us and GB/s of payload; bandwidth 0: not available. */
struct tutti_nccl_estimate {
    double latency_us;
    double algbw_GBps;
};
struct tutti_nccl_estimate tutti_nccl_row(const struct tutti_nccl_comm *comm,
                                          enum tutti_collective collective,
                                          enum tutti_nccl_algorithm algorithm,
                                          enum tutti_nccl_protocol protocol);
/* What would run, and how it is cut. */
struct tutti_nccl_choice {
    uint8_t algorithm; /* enum tutti_nccl_algorithm */
    uint8_t protocol;
    double time_us; /* NCCL's own estimate */
    bool tuned;     /* the tuner of a network's plugin took it, whatever the estimates */
    double times_us[TUTTI_NCCL_ALGORITHM_COUNT]
                   [TUTTI_NCCL_PROTOCOL_COUNT]; /* < 0: not available, and */
    const char *missing[TUTTI_NCCL_ALGORITHM_COUNT][TUTTI_NCCL_PROTOCOL_COUNT]; /* why, else NULL */
    /* What the times are made of: the table's rows as NCCL corrects them for this size. */
    struct tutti_nccl_estimate rows[TUTTI_NCCL_ALGORITHM_COUNT][TUTTI_NCCL_PROTOCOL_COUNT];
    uint32_t channels_allowed; /* of which so many are used, and their shares in elements: */
    uint32_t channel_count;
    uint32_t warp_count;                    /* a channel */
    uint64_t count_lo, count_mid, count_hi; /* first, each of the middle, last; one channel: lo */
    uint64_t chunk_bytes; /* of data, for the middle channels (the first where there are none) */
    uint64_t chunk_lo_bytes, chunk_hi_bytes; /* those of the first and the last channel */
    uint32_t slice_count;                    /* of a chunk */
};

/* `bytes` is nccl-tests' size column. -TUTTI_EINVAL where nothing may run: the message names what
 * forbids it. Send and receive and all-to-all are not in the tables: algorithm is then Ring and
 * the protocol the one that message sizes say (2.28: LL up to 16 KiB a channel), time_us 0. */
int tutti_nccl_choose(const struct tutti_nccl_comm *comm, enum tutti_collective collective,
                      enum tutti_dtype dtype, enum tutti_op op, uint64_t bytes,
                      struct tutti_nccl_choice *ret, struct tutti_err *err);

/* Symmetric kernels are no part of the tables: they run where all ranks registered their buffers as
 * symmetric windows, on one node, from 2.27 on. The one NCCL would take and its own estimate;
 * -TUTTI_EINVAL where there is none, with why. */
struct tutti_nccl_symmetric {
    const char *kernel; /* NCCL's name for it */
    uint32_t block_count;
    double time_us;
};
int tutti_nccl_symmetric(const struct tutti_nccl_comm *comm, enum tutti_collective collective,
                         enum tutti_dtype dtype, enum tutti_op op, uint64_t bytes,
                         struct tutti_nccl_symmetric *ret, struct tutti_err *err);

const char *tutti_nccl_algorithm_name(enum tutti_nccl_algorithm algorithm); /* as in NCCL_ALGO */
const char *tutti_nccl_protocol_name(enum tutti_nccl_protocol protocol);
const char *tutti_nccl_path_name(enum tutti_nccl_path_type path);
const char *tutti_nccl_pattern_name(enum tutti_nccl_pattern pattern);

TUTTI_API_END

#endif
