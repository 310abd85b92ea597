/* Launchers, and what the processes of a job agree on; see job.h. */
#include "tools/job.h"

#include <stdlib.h>

/* What launchers set in each process's environment; the innermost first. Slurm's are those of a
 * step alone: in a batch script SLURM_NTASKS is set as well, but it is not a process of many. */
static const struct {
    const char *by;
    const char *index;
    const char *count; /* NULL: the launcher tells only its library */
} launchers[] = {
    {"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"a PMI launcher", "PMI_RANK", "PMI_SIZE"}, /* MPICH's and Intel's Hydra, srun --mpi=pmi2 */
    {"Slurm's srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"a PMIx launcher", "PMIX_RANK", NULL},
};

static int read_count(const char *name, uint32_t *ret)
{
    const char *text = name == NULL ? NULL : getenv(name);
    char *end = NULL;
    unsigned long value;

    if (text == NULL || *text < '0' || *text > '9')
        return -1;
    value = strtoul(text, &end, 10);
    if (*end != '\0' || value > UINT32_MAX)
        return -1;
    *ret = (uint32_t)value;
    return 0;
}

struct tutti_launch tutti_launch_read(void)
{
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        struct tutti_launch launch = {.by = launchers[i].by};

        if (read_count(launchers[i].index, &launch.index) != 0)
            continue;
        if (launchers[i].count == NULL || read_count(launchers[i].count, &launch.count) == 0)
            return launch;
    }
    return (struct tutti_launch){.count = 1};
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
