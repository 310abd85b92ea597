/* RCCL, which is NCCL on AMD's GPUs: rings and trees of its own, laid on xGMI by tables of known
 * hosts instead of a search, and tuning tables of its own.
 *
 * Source: ROCm/rccl of autumn 2025 and of 2026 (2.28): graph/tuning.cc, graph/rome_models.cc,
 * rccl_wrap.cc. */
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
    /* Over several nodes a collective runs in LL128 from more than `from` bytes to `ll128`, else in
     * LL up to `ll`, else in Simple; of all-reduce LL128 reaches 3.8 times as far from three nodes
     * on. Bytes are those of a rank but for all-reduce. All 0: as the times say. */
    struct {
        uint64_t ll, from, ll128;
    } ranges[TUTTI_NCCL_FUNCTION_COUNT];
    /* On one node LL up to so many bytes of a rank, whatever the times say. */
    uint64_t alone_ll[TUTTI_NCCL_FUNCTION_COUNT];
    /* Up to so many bytes an all-gather is sent directly: on one node; a node of several, fewer
     * than 64; or so many in all. */
    uint64_t direct_alone, direct_a_node, direct;
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

/* The protocol that a collective of `bytes` (TUTTI_NCCL_ALLREDUCE and so on) runs in, where the
 * times say `protocol`. */
uint8_t tutti_rccl_protocol(const struct tutti_nccl_comm *comm, uint32_t function, uint64_t bytes,
                            uint8_t protocol);

/* Is neither NCCL_ALGO nor NCCL_PROTO set? */
bool tutti_rccl_is_free(const struct tutti_nccl_comm *comm);

/* Does an all-gather of `bytes` go to all at once, by sends and receives? By multiples of 8 ranks,
 * and where neither NCCL_ALGO nor NCCL_PROTO is set (rccl_wrap.cc: rcclUseAllGatherDirect, of 2.27
 * and 2.28; RCCL itself does not ask for these two). */
bool tutti_rccl_gathers_directly(const struct tutti_nccl_comm *comm, uint64_t bytes);

#endif
