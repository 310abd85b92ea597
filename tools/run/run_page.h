/* The rows of `tutti run` as a page, JSON or CSV. */
#ifndef TUTTI_TOOLS_RUN_RUN_PAGE_H
#define TUTTI_TOOLS_RUN_RUN_PAGE_H

#include "runtime/nccl.h"
#include "tools/cli/calib.h"
#include "tools/local/local.h"
#include "tools/run/cpu_steal.h"
#include "tools/run/run.h"

struct tutti_emulation;
struct tutti_run_group;
struct tutti_sink;
struct tutti_topo;

/* Where it is played: sim has a machine; threads the one of --predict, or what is emulated, or
 * neither. */
struct tutti_run_stage {
    struct tutti_topo *topo;         /* sim ... */
    struct tutti_calib_choice calib; /* ... by these costs */
    const struct tutti_local *local;
    const char *how; /* it came to be known */
    char gpu[TUTTI_NCCL_NAME_BYTES];
    struct tutti_emulation *emulation;
    struct tutti_run_group *with;     /* NULL: no other processes */
    struct tutti_local_beside beside; /* with `local` */
    struct tutti_cpu_steal began;
};

int tutti_run_print_rows(const struct tutti_args *args, const struct tutti_run_command *run,
                         const struct tutti_run_stage *stage, const struct tutti_run_rows *rows,
                         struct tutti_sink *sink, struct tutti_err *err);

#endif
