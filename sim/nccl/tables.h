/* NCCL's tuning tables of one communicator: what each algorithm and protocol would take and give,
 * what is missing and why, threads; all that a choice needs. */
#ifndef TUTTI_SIM_NCCL_TABLES_H
#define TUTTI_SIM_NCCL_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/nccl/env.h"
#include "sim/nccl/version.h"

struct tutti_err;
struct tutti_hardware;
struct tutti_rccl_tuning;

/* What the tuning reads of the machine besides the graphs. */
struct tutti_nccl_facts {
    uint32_t compute_min, compute_max; /* compute capability, 10 * major + minor */
    uint8_t cpu_arch;                  /* enum tutti_hw_arch */
    uint8_t cpu_vendor;                /* enum tutti_hw_vendor */
    bool cpus_mixed;                   /* of several vendors */
    bool nvswitch;
    bool nvlink_all;     /* every GPU reaches every other of its host over NVLink, at
                            most through another */
    uint32_t link_count; /* least NVLinks' worth of rate between two GPUs of a host; 0: one pair
                            at least has none */
    uint8_t plugin;      /* enum tutti_nccl_plugin, of the ports' */
    bool unordered;      /* a port is: Simple alone unless NCCL_PROTO is set */
    double nic_GBps;     /* of the slowest port; 0: none */
    const struct tutti_rccl_tuning *rccl; /* of AMD's GPUs; NULL: NVIDIA's */
};

/* From a host; links between GPUs are counted direct or through NVSwitch. */
void tutti_nccl_facts_of(const struct tutti_hardware *hardware, struct tutti_nccl_facts *ret);

struct tutti_nccl_entry {
    float latency_us;
    float algbw_GBps;    /* 0: not available, and then */
    const char *missing; /* why, else NULL */
};

struct tutti_nccl_tables {
    struct tutti_nccl_facts facts;
    const struct tutti_rccl_tuning *rccl; /* that of the facts */
    struct tutti_nccl_env env;
    struct tutti_nccl_entry entries[TUTTI_NCCL_FUNCTION_COUNT][TUTTI_NCCL_ALGORITHM_COUNT]
                                   [TUTTI_NCCL_PROTOCOL_COUNT];
    uint32_t thread_counts[TUTTI_NCCL_ALGORITHM_COUNT][TUTTI_NCCL_PROTOCOL_COUNT]; /* at most */
    uint64_t thread_bytes[TUTTI_NCCL_ALGORITHM_COUNT][TUTTI_NCCL_PROTOCOL_COUNT];  /* at least */
    uint64_t buffer_bytes[TUTTI_NCCL_PROTOCOL_COUNT];
    uint64_t nvls_chunk_bytes, nvls_tree_chunk_bytes; /* at most; the latter UINT64_MAX: by nodes */
    uint32_t p2p_channel_count, p2p_peer_channel_count;
    uint64_t p2p_chunk_bytes;
};

/* Completes a communicator whose ranks, nodes, version and graphs are there as each host's search
 * left them: ring and tree get the lesser channel count of both, and channels, NVLS channels and
 * tables are made. */
int tutti_nccl_tune(struct tutti_nccl_comm *comm, const struct tutti_nccl_facts *facts,
                    const struct tutti_nccl_env *env, struct tutti_err *err);
void tutti_nccl_tables_free(struct tutti_nccl_tables *tables);

/* The parts of tutti_nccl_tune(). */
void tutti_nccl_count_channels(struct tutti_nccl_comm *comm, const struct tutti_nccl_facts *facts,
                               const struct tutti_nccl_env *env);
void tutti_nccl_fill_threads(const struct tutti_nccl_comm *comm, struct tutti_nccl_tables *tables);
void tutti_nccl_fill_entries(const struct tutti_nccl_comm *comm, struct tutti_nccl_tables *tables);
void tutti_nccl_fill_buffers(struct tutti_nccl_comm *comm, struct tutti_nccl_tables *tables);

/* enum tutti_nccl_function of a collective; -1: it is not tuned. */
int tutti_nccl_function_of(enum tutti_collective collective);

/* The graph an algorithm runs on. */
const struct tutti_nccl_graph *tutti_nccl_graph_of(const struct tutti_nccl_comm *comm,
                                                   enum tutti_nccl_algorithm algorithm);

/* The class of the tables' rows, and the greatest power of two not above `value` as an exponent;
 * -1 for 0. */
uint32_t tutti_nccl_gpu_class(uint32_t compute, const struct tutti_nccl_changes *changes);
int tutti_nccl_log2(uint64_t value);

#endif
