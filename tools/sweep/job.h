/* The processes of an MPI job that share one sweep; an ordinary run is a job of one without MPI. */
#ifndef TUTTI_TOOLS_SWEEP_JOB_H
#define TUTTI_TOOLS_SWEEP_JOB_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/launch.h"
#include "runtime/status.h"

/* Process `index` of `count`. Process 0 speaks: it alone prints and writes files. */
struct tutti_job {
    uint32_t index;
    uint32_t count;
};

/* What the environment says of a launcher that MPI can join: the innermost of these; of no other.
 * None: one process. */
struct tutti_launch tutti_job_launch(void);

/* Takes part in the job that the launcher has begun; without a launcher, or alone, MPI is not
 * begun. -TUTTI_ELACK without MPI in this build, or under the launcher of another MPI; ret->index
 * is set then as well: who does not speak ends in silence. */
int tutti_job_join(struct tutti_job *ret, struct tutti_err *err);

/* Waits for the others, and ends MPI. */
void tutti_job_leave(struct tutti_job *job);

/* What follows every process of the job calls alike. Who waits sleeps. In a job of one they do
 * nothing. */

/* The least of all values. */
uint64_t tutti_job_min(const struct tutti_job *job, uint64_t value);

/* Each process filled its own parts of `bytes` and left the others zero: now all have all. */
void tutti_job_merge(const struct tutti_job *job, void *bytes, size_t byte_count);

/* This process's share of the processors that all processes of this machine may use together; 0 in
 * a job of one: all of them. */
uint32_t tutti_job_processors(const struct tutti_job *job);

/* 0 if all have 0; else the status and the message of the first process that has not, in all. */
int tutti_job_agree(const struct tutti_job *job, int status, struct tutti_err *err);

#endif
