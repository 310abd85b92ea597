/* Names of NCCL's functions, as in NCCL_ALGO and its logs; those of sim/nccl.h are beside. */
#ifndef TUTTI_SIM_NCCL_NAMES_H
#define TUTTI_SIM_NCCL_NAMES_H

#include "sim/nccl/env.h"

const char *tutti_nccl_function_name(enum tutti_nccl_function function);

#endif
