/* Calls of jobs that share links, as a fluid: what each asks of links, and how fast it goes on. */
#ifndef TUTTI_SIM_JOBS_FLUID_H
#define TUTTI_SIM_JOBS_FLUID_H

#include <stdint.h>

#include "sim/jobs.h"

struct tutti_err;

/* What a call asks of a link while it goes on at its full rate. */
struct tutti_job_use {
    uint32_t link;
    uint32_t flows; /* pairs of ranks that send over it */
    double share;   /* of its rate */
    double rate;    /* bytes a second */
};

struct tutti_job_call {
    tutti_ps alone_ps;
    uint32_t use_count;
    struct tutti_job_use *uses; /* by link, rising */
};

/* Callee `callee` of the job's step on its axis `axis`, by all groups at once. `uses` is freed by
 * the caller. */
int tutti_job_call_of(const struct tutti_jobs_opts *opts, const struct tutti_job_on_ranks *job,
                      uint32_t callee, uint32_t axis, struct tutti_job_call *ret,
                      struct tutti_err *err);

/* Ranks that there are, and none twice. */
int tutti_jobs_check(uint32_t rank_count, const struct tutti_job_on_ranks *jobs, uint32_t job_count,
                     struct tutti_err *err);

/* A schedule without calls on ranks of a machine, in copies as `rails` of struct tutti_jobs_opts
 * says. */
int tutti_job_rails(const struct tutti_topo *topo, const struct tutti_schedule *call,
                    const uint32_t *ranks, bool rails, struct tutti_schedule **ret,
                    struct tutti_err *err);

/* Memory for the rates of calls: of each link. */
struct tutti_job_links {
    double *free;      /* [link_count]: of its rate */
    uint32_t *waiting; /* [link_count]: flows of calls whose rate is not known yet */
};

/* rates[count]: of each call, 1 at most. */
void tutti_job_rates(struct tutti_job_links *links, const struct tutti_job_call *const *calls,
                     uint32_t count, double *rates);

#endif
