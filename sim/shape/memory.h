/* What predictions on one machine tell each other: folded classes and plays, and NCCL's
 * communicators, whose search takes longer than most predictions. */
#ifndef TUTTI_SIM_SHAPE_MEMORY_H
#define TUTTI_SIM_SHAPE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/calib.h"
#include "sim/nccl/env.h"
#include "topo/topo.h"

struct tutti_err;
struct tutti_fold_memory;
struct tutti_nccl_comm;
struct tutti_nccl_comm_params;

enum { TUTTI_COMMS_MAX = 16 };

struct tutti_predict_memory {
    struct tutti_fold_memory *fold;
    bool has_costs;
    struct tutti_calibrated costs; /* of protocols, where the question has none */
    bool has_rings;
    struct tutti_shape rings; /* as tutti_host_rings() has it */
    uint32_t *ring_orders;    /* of it */
    uint32_t comm_count;      /* made so far; the newest TUTTI_COMMS_MAX are kept */
    struct tutti_nccl_comm *comms[TUTTI_COMMS_MAX];
    struct tutti_nccl_env envs[TUTTI_COMMS_MAX]; /* that they were made with */
};

/* tutti_host_rings(), once: *ret goes with the memory. */
int tutti_memory_rings(struct tutti_predict_memory *memory, const struct tutti_topo *topo,
                       struct tutti_shape *ret, struct tutti_err *err);

/* The communicator of these parameters, remembered or made: the memory's own, until enough others
 * have been asked for. */
int tutti_memory_comm(struct tutti_predict_memory *memory,
                      const struct tutti_nccl_comm_params *params, struct tutti_nccl_comm **ret,
                      struct tutti_err *err);

#endif
