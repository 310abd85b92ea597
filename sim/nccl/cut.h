/* How a chosen operation is cut: channels and threads, shares of channels, chunks. */
#ifndef TUTTI_SIM_NCCL_CUT_H
#define TUTTI_SIM_NCCL_CUT_H

#include "sim/nccl/tables.h"

/* An operation: count as in the contract of a collective (schedule.h). */
struct tutti_nccl_operation {
    uint32_t function;      /* enum tutti_nccl_function */
    uint32_t element_bytes; /* of the data type */
    uint64_t count;
    uint64_t bytes; /* all of it: n * count elements where ranks gather or scatter, else count */
};

/* Fill the part of `choice` that follows from its algorithm and protocol. */
void tutti_nccl_allow_channels(const struct tutti_nccl_comm *comm,
                               const struct tutti_nccl_operation *operation,
                               struct tutti_nccl_choice *choice);
void tutti_nccl_share(const struct tutti_nccl_comm *comm,
                      const struct tutti_nccl_operation *operation,
                      struct tutti_nccl_choice *choice);
void tutti_nccl_chunk(const struct tutti_nccl_comm *comm,
                      const struct tutti_nccl_operation *operation,
                      struct tutti_nccl_choice *choice);

/* All of it for a message to one peer: a send and a receive, `bytes` each way, one of those that
 * every rank has under way. */
void tutti_nccl_cut_message(const struct tutti_nccl_comm *comm, uint64_t bytes,
                            uint32_t element_bytes, struct tutti_nccl_choice *choice);

#endif
