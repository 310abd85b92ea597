/* What a fit is made to: tables of measurements, or logs of nccl-tests and CSV. */
#ifndef TUTTI_TOOLS_CALIBRATE_FIT_LOGS_H
#define TUTTI_TOOLS_CALIBRATE_FIT_LOGS_H

#include "tools/options.h"
#include "traces/measured.h"

struct tutti_topo;

/* Reads the tables of the folder or file on the command line; or the logs of option --log, measured
 * on the machine SPEC of the command line, of which options -c, --as-nccl and --env say what the
 * logs do not. One of them must be there. Into the empty set. *ret_machine is the machine of the
 * logs, the caller's, and NULL with tables, which name their own. -TUTTI_EINVAL for what
 * contradicts the machine, or leaves something open. */
int tutti_fit_tables_read(const struct tutti_args *args, struct tutti_measured *ret,
                          struct tutti_topo **ret_machine, struct tutti_sink *sink,
                          struct tutti_err *err);

#endif
