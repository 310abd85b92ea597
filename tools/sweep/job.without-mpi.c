/* Jobs in a build without MPI: of one process only; see job.h. */
#include "tools/sweep/job.h"

int tutti_job_join(struct tutti_job *ret, struct tutti_err *err)
{
    struct tutti_launch launch = tutti_job_launch();

    *ret = (struct tutti_job){.index = launch.index, .count = 1};
    if (launch.count == 1)
        return 0;
    return tutti_fail(
        err, TUTTI_ELACK,
        "%s started several of these, and this build is without MPI: each would print "
        "a table of its own (build with MPI: Debian's libopenmpi-dev; or start one)",
        launch.by);
}

void tutti_job_leave(struct tutti_job *job)
{
    (void)job;
}

uint64_t tutti_job_min(const struct tutti_job *job, uint64_t value)
{
    (void)job;
    return value;
}

void tutti_job_merge(const struct tutti_job *job, void *bytes, size_t byte_count)
{
    (void)job;
    (void)bytes;
    (void)byte_count;
}

uint32_t tutti_job_processors(const struct tutti_job *job)
{
    (void)job;
    return 0;
}
