/* Several trainings on one machine: placed on ranks of their own, they share links, and each loses
 * beside running alone.
 *
 * Each job repeats its step. What it computes takes as long as ever. A collective takes what it
 * takes alone on its ranks, simulated message by message, and while it is under way it asks of each
 * link on the routes of its messages the part of the link's rate that it has on the average. Where
 * links are asked for more than they have, collectives go on more slowly as a fluid, max-min fair
 * by the pairs of ranks that send over the link. A play of all messages of all jobs
 * (tutti_jobs_merge(), sim.h) knows more: bursts within a collective, and that slow messages make
 * others wait. Not modelled: SENDs between stages of a pipeline (-TUTTI_ELACK), what jobs take from
 * each other on hosts (processors, storage), congestion control. */
#ifndef TUTTI_SIM_JOBS_H
#define TUTTI_SIM_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/api.h"
#include "runtime/units.h"
#include "topo/topo.h"

TUTTI_API_BEGIN

struct tutti_err;
struct tutti_schedule;

struct tutti_job_on_ranks {
    const char *name;
    const struct tutti_schedule *step; /* COMPUTE and CALL, the same on all of its ranks */
    const uint32_t *ranks;             /* [step->rank_count]: of the machine, no job's twice */
    tutti_ps start_ps;                 /* of its first step */
};

enum { TUTTI_JOBS_MAX = 64 };

struct tutti_jobs_opts {
    size_t size; /* sizeof(struct tutti_jobs_opts): runtime/api.h */
    const struct tutti_topo *topo;
    const struct tutti_job_on_ranks *jobs;
    uint32_t job_count; /* 1 to TUTTI_JOBS_MAX */
    uint32_t steps;     /* of the job that has made the fewest at the end; 0: 20 */
    bool ends;          /* each job makes so many and ends; else all go on until then */
    /* Collectives between hosts that each have k ranks of a job are played as k copies with a k-th
     * of the data each, in which the ranks of a host change places in turn, and go backwards on
     * every other host: so all network cards are used, and rings stay on their rails, as libraries
     * have it. Else as they stand. */
    bool rails;
    uint32_t seconds_max; /* as in struct tutti_sim_opts, of each collective */
    /* Of two jobs: the second is begun at so many times as well, evenly over a step of the first,
     * for the one at which both lose least. 0: it is not. */
    uint32_t shifts;
};

struct tutti_job_shared {
    tutti_ps alone_ps; /* a step without the others, */
    tutti_ps step_ps;  /* and with them: the mean of all that it made */
    tutti_ps calls_ps; /* collectives of a step, each alone, hidden or not */
    uint64_t steps;
    tutti_ps shift_ps;   /* with `shifts`: begun so much later (the first: 0), a step takes: */
    tutti_ps shifted_ps; /* 0: not asked, or nothing is better than as they begin */
    /* Of the links that others use as well, the one that all together ask most of: the part of its
     * rate that this job asks for on the average of its steps alone, and all jobs do. */
    uint32_t link; /* UINT32_MAX: none is shared */
    double asked;
    double asked_by_all;
};

/* ret[job_count]. -TUTTI_EINVAL for what does not fit together. Memory: each collective of a job is
 * laid out on its ranks, 48 bytes a step of each rank. */
int tutti_jobs_play(const struct tutti_jobs_opts *opts, struct tutti_job_shared *ret,
                    struct tutti_err *err);

/* All messages of all jobs, so many steps of each, as one schedule of `rank_count` ranks for any
 * simulator; REDUCEs are joins, for they take no time there. Steps of a rank follow each other. To
 * be freed by the caller. */
int tutti_jobs_merge(uint32_t rank_count, const struct tutti_job_on_ranks *jobs, uint32_t job_count,
                     uint32_t steps, struct tutti_schedule **ret, struct tutti_err *err);

enum tutti_jobs_placement {
    TUTTI_JOBS_PACKED, /* the first free ranks, host by host */
    TUTTI_JOBS_SPREAD, /* one on each host in turn */
};

/* The ranks of a job of `count` on those that are not taken, and takes them: taken[rank_count].
 * -TUTTI_EINVAL where there are too few. */
int tutti_jobs_place(const struct tutti_topo *topo, enum tutti_jobs_placement placement,
                     uint32_t count, bool *taken, uint32_t *ret_ranks, struct tutti_err *err);

TUTTI_API_END

#endif
