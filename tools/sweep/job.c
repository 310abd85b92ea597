/* Launchers, and what the processes of a job agree on; see job.h. */
#include "tools/sweep/job.h"

/* Those whose processes some MPI may join; the innermost first. */
struct tutti_launch tutti_job_launch(void)
{
    static const char *const launchers[] = {"openmpi", "hydra", "slurm", "pmix"};
    struct tutti_launch launch = {.name = "none", .by = "no launcher", .count = 1};

    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        if (tutti_launch_by(&tutti_env_process, launchers[i], &launch))
            break;
    }
    return launch;
}

int tutti_job_agree(const struct tutti_job *job, int status, struct tutti_err *err)
{
    struct {
        int32_t status;
        struct tutti_err err;
    } said = {.status = 0};
    uint64_t first;

    if (job->count == 1)
        return status;
    first = tutti_job_min(job, status < 0 ? job->index : job->count);
    if (first == job->count)
        return 0;
    if (first == job->index) {
        said.status = status;
        said.err = *err;
    }
    tutti_job_merge(job, &said, sizeof(said));
    *err = said.err;
    if (first > 0) /* the first has no such trouble: say where to look */
        return tutti_wrap(err, said.status, "process %u of %u", (uint32_t)first, job->count);
    return said.status;
}
