/* RCCL, which is NCCL on AMD's GPUs: rings and trees of its own, laid on xGMI by tables of known
 * hosts instead of a search, and tuning tables of its own.
 *
 * Source: ROCm/rccl of autumn 2025: graph/tuning.cc, graph/rome_models.cc, rccl_wrap.cc. */
#ifndef TUTTI_SIM_NCCL_RCCL_H
#define TUTTI_SIM_NCCL_RCCL_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/nccl/tables.h"

struct tutti_arena;
struct tutti_err;
struct tutti_hardware;

enum { TUTTI_RCCL_SM_MIN = 900, TUTTI_RCCL_CORRECTIONS = 27 };

/* A tuning model: us, and shares of the rings' rate; of trees, then of rings. */
struct tutti_rccl_tuning {
    double inside_us[2][TUTTI_NCCL_PROTOCOL_COUNT];
    double between_us[2][TUTTI_NCCL_PROTOCOL_COUNT];
    double share[2][2][TUTTI_NCCL_PROTOCOL_COUNT]; /* up to two nodes, more */
    /* Factors of the bandwidth at 64 B, 128 B, ... */
    float correction[2][TUTTI_NCCL_PROTOCOL_COUNT][TUTTI_RCCL_CORRECTIONS];
    uint64_t ll_bytes_max;    /* over several nodes all-reduce runs in LL up to here, */
    uint64_t ll128_bytes_max; /* in LL128 up to here, 3.8 times as far from three nodes on, and in
                                 Simple beyond; 0: as the times say */
};

/* Are all GPUs of a host AMD's? */
bool tutti_rccl_runs_on(const struct tutti_hardware *hardware);

/* The tuning model of its GPUs. */
const struct tutti_rccl_tuning *tutti_rccl_tuning_of(const struct tutti_hardware *hardware);

/* Ring and tree graph of one of `host_count` equal hosts. All memory is the arena's. -TUTTI_EINVAL
 * for more than 16 GPUs a host. */
int tutti_rccl_draw(const struct tutti_hardware *hardware, uint32_t host_count,
                    struct tutti_arena *arena, struct tutti_nccl_comm *comm, struct tutti_err *err);

/* Fills the tables' entries. */
void tutti_rccl_fill_entries(const struct tutti_nccl_comm *comm, struct tutti_nccl_tables *tables);

/* The factor of a bandwidth by size; `algorithm` is tree or ring. */
double tutti_rccl_correction(const struct tutti_rccl_tuning *tuning, int algorithm, int protocol,
                             uint64_t bytes);

/* The protocol that an all-reduce runs in, where the times say `protocol`. */
uint8_t tutti_rccl_protocol(const struct tutti_nccl_comm *comm, uint64_t bytes, uint8_t protocol);

#endif
