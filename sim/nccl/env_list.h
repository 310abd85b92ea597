/* The lists of NCCL_ALGO and NCCL_PROTO: "[function:][^]name,name;function:...". */
#ifndef TUTTI_SIM_NCCL_ENV_LIST_H
#define TUTTI_SIM_NCCL_ENV_LIST_H

#include "sim/nccl/env.h"

struct tutti_err;

/* An entry without a function, which only the first may be, holds for all functions; "^": all but
 * those. What is listed or left by a "^" becomes TUTTI_NCCL_ON, the others TUTTI_NCCL_OFF; other
 * functions stay as they were, and so does everything on failure: -TUTTI_EINVAL. */
int tutti_nccl_read_algorithms(const char *text,
                               uint8_t on[TUTTI_NCCL_FUNCTION_COUNT][TUTTI_NCCL_ALGORITHM_COUNT],
                               struct tutti_err *err);
int tutti_nccl_read_protocols(const char *text,
                              uint8_t on[TUTTI_NCCL_FUNCTION_COUNT][TUTTI_NCCL_PROTOCOL_COUNT],
                              struct tutti_err *err);

#endif
