/* `tutti train SPEC --job ... --job ...`: several trainings on one machine, and what each loses by
 * the links that they share; see sim/jobs.h. */
#ifndef TUTTI_TOOLS_TRAIN_JOBS_H
#define TUTTI_TOOLS_TRAIN_JOBS_H

#include "tools/options.h"

struct tutti_err;
struct tutti_sink;

#define TUTTI_TRAIN_OPTION_JOB                                                                   \
    {                                                                                            \
        .name = "job", .type = TUTTI_OPTION_LIST, .value = "model=MODEL KEY=VALUE...",           \
        .help =                                                                                  \
            "several of them: trainings that run on the machine at once, and what each loses "   \
            "beside running alone. A job begins with model= and has devices=N (whole hosts, or " \
            "a part of one), strategy=NAME, batch=N, accumulate=N, precision=NAME, "             \
            "recompute=NAME, framework=NAME, device=NAME, name=TEXT of its own, start=TIME of "  \
            "its first step, and place=packed, spread (over hosts) or ranks as 0-3+8-11. "       \
            "Messages are those of rings over all network cards of a host, without protocols; "  \
            "no input. What does not fit into its devices is refused (--any-memory: not)"        \
    }

int tutti_train_jobs(const struct tutti_args *args, struct tutti_sink *sink, struct tutti_err *err);

#endif
