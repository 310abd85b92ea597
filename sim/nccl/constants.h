/* NCCL's tables of times and rates, each named by the first version that has it. */
#ifndef TUTTI_SIM_NCCL_CONSTANTS_H
#define TUTTI_SIM_NCCL_CONSTANTS_H

#include "sim/nccl/version.h"

extern const struct tutti_nccl_constants tutti_nccl_of_20604;
extern const struct tutti_nccl_constants tutti_nccl_of_20703;
extern const struct tutti_nccl_constants tutti_nccl_of_20803;
extern const struct tutti_nccl_constants tutti_nccl_of_21003;
extern const struct tutti_nccl_constants tutti_nccl_of_21212;
extern const struct tutti_nccl_constants tutti_nccl_of_21501;
extern const struct tutti_nccl_constants tutti_nccl_of_21701;
extern const struct tutti_nccl_constants tutti_nccl_of_21801;
extern const struct tutti_nccl_constants tutti_nccl_of_21803;
extern const struct tutti_nccl_constants tutti_nccl_of_21903;
extern const struct tutti_nccl_constants tutti_nccl_of_22105;
extern const struct tutti_nccl_constants tutti_nccl_of_22403;
extern const struct tutti_nccl_constants tutti_nccl_of_22501;
extern const struct tutti_nccl_constants tutti_nccl_of_22809;
extern const struct tutti_nccl_constants tutti_nccl_of_22907;
extern const struct tutti_nccl_constants tutti_nccl_of_23007;

#endif
