/* How a measured table was run, as far as a prediction of it must know: by which NCCL, launched by
 * whom, and how many iterations in a row. */
#ifndef TUTTI_TOOLS_VALIDATE_MEASURED_RUN_H
#define TUTTI_TOOLS_VALIDATE_MEASURED_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/coll.h"
#include "traces/measured.h"

struct tutti_err;
struct tutti_nccl_env;
struct tutti_nccl_version;

/* The variables of NCCL that the table states and model A knows (the others are left out), and the
 * version, NULL: not stated, or older than any known. The caller frees the variables. */
int tutti_measured_env(const struct tutti_measured_table *measured, struct tutti_nccl_env **ret_env,
                       const struct tutti_nccl_version **ret_version, struct tutti_err *err);

/* The least time of an iteration where one process launches on all GPUs of a host, one after the
 * other (nccl-tests -g), as a median over sites of what tables of traces/measured with launch 'one'
 * and 4 GPUs or more take at their smallest sizes: 4.3 us a GPU by NCCL (2.9 to 5.3 us of most),
 * 5.5 by RCCL (4.5 to 6.3 us, five sites); of an all-to-all, which is a send and a receive for each
 * pair of them, 0.5 us a pair more (0.3 to 0.8 us). */
double tutti_one_process_us(enum tutti_collective collective, bool is_rccl, uint32_t gpu_count,
                            uint32_t rank_count);
/* The same of a table; 0 where it has not launch 'one'. */
double tutti_least_us(const struct tutti_measured_table *measured);

/* How many iterations in a row its times are the mean of, which is 20, nccl-tests' standard, where
 * the table does not say; 1 where something else than such a loop was timed. */
uint32_t tutti_timed_iterations(const struct tutti_measured_table *measured);

#endif
