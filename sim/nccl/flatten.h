/* Broadcom's PCIe switches that show themselves as two levels, made one. */
#ifndef TUTTI_SIM_NCCL_FLATTEN_H
#define TUTTI_SIM_NCCL_FLATTEN_H

struct tutti_arena;
struct tutti_nccl_system;

/* What lies under a lower level is linked to the upper one, which stays; the lower level keeps no
 * links. -TUTTI_ENOMEM. */
int tutti_nccl_flatten(struct tutti_nccl_system *system, struct tutti_arena *arena);

#endif
