/* Collectives whose sums switches make, on a machine: NCCL's choice as a pipeline of in_network.h.
 */
#ifndef TUTTI_SIM_SHAPE_NCCL_SWITCH_H
#define TUTTI_SIM_SHAPE_NCCL_SWITCH_H

#include "runtime/schedule.h"
#include "sim/nccl/in_network.h"

struct tutti_err;
struct tutti_nccl_choice;
struct tutti_nccl_comm;
struct tutti_protocol;
struct tutti_topo;

/* What NCCL chose to run: all of *ret but what it costs. -TUTTI_ELACK for all-gather and
 * reduce-scatter of several hosts; -TUTTI_EINVAL where the machine's links have no such switch. */
int tutti_nccl_switch_plan(const struct tutti_topo *topo, const struct tutti_nccl_comm *comm,
                           const struct tutti_nccl_choice *choice, enum tutti_collective collective,
                           uint64_t bytes, struct tutti_in_network *ret, struct tutti_err *err);

/* Its time where rates and latencies of links are as they are and protocol (NULL: none) says what
 * is lost on them. */
tutti_ps tutti_nccl_switch_time(const struct tutti_topo *topo, const struct tutti_in_network *plan,
                                const struct tutti_protocol *protocol);

#endif
