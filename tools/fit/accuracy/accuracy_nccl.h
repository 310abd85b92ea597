/* NCCL's own opinion of a measured table: the time that its tuning model gives (model A,
 * sim/nccl.h), what it would pick, and whether that is what the source says was run. */
#ifndef TUTTI_TOOLS_FIT_ACCURACY_ACCURACY_NCCL_H
#define TUTTI_TOOLS_FIT_ACCURACY_ACCURACY_NCCL_H

#include "tools/fit/accuracy/accuracy.h"

struct tutti_nccl_env;
struct tutti_nccl_version;

/* Fills in the forecast and the pick of all rows. NAN and NULL where NCCL has none: other libraries
 * but RCCL, hardware that is not known, send and receive, all-to-all. */
int tutti_model_a_forecast(const struct tutti_topo *topo, const struct tutti_nccl_env *env,
                           const struct tutti_nccl_version *version,
                           struct tutti_accuracy_table *table, struct tutti_err *err);

/* What the text `ran` ("ring/ll@0-1M,nvls/simple@2M-", "nvls") says of a size, beside a pick: 1
 * they agree, 0 they do not, -1 it says nothing of that size, or nothing that can be read. */
int tutti_ran_agrees(const char *ran, uint64_t bytes, const char *algorithm, const char *protocol);

#endif
