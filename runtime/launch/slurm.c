/* What a step of Slurm says of its hosts: process 0 is on the first of them, and the port follows
 * from the numbers of job and step, so that two steps on the same hosts do not meet. */
#include <stdio.h>

#include "runtime/launch/hostlist.h"
#include "runtime/launch/source.h"

/* Below what Linux hands out by itself (32768 and above). */
enum { PORT_FIRST = 20000, PORT_COUNT = 12000, STEP_STRIDE = 61 };

static int read_root(const struct tutti_env *env, struct tutti_launch *launch,
                     struct tutti_err *err)
{
    char name[64];
    char list_name[64];
    const char *hosts =
        tutti_env_first(env, "SLURM_STEP_NODELIST|SLURM_JOB_NODELIST|SLURM_NODELIST", list_name);
    const char *step = tutti_env_first(env, "SLURM_STEP_ID|SLURM_STEPID", name);
    const char *job = tutti_env_first(env, "SLURM_JOB_ID|SLURM_JOBID", name);
    uint32_t job_number = 0;
    uint32_t step_number = 0;
    int status = 0;

    if (hosts != NULL)
        status = tutti_hostlist_at(hosts, 0, launch->root_host, sizeof(launch->root_host), err);
    if (status < 0)
        return tutti_wrap(err, status, "variable '%s'", list_name);
    if (job == NULL)
        return 0;
    for (const char *p = job; *p >= '0' && *p <= '9'; p++)
        job_number = 10 * job_number + (uint32_t)(*p - '0'); /* may wrap: it only spreads */
    for (const char *p = step; p != NULL && *p >= '0' && *p <= '9'; p++)
        step_number = 10 * step_number + (uint32_t)(*p - '0');
    (void)snprintf(launch->job, sizeof(launch->job), "slurm %.100s step %.100s", job,
                   step != NULL ? step : "0");
    launch->root_port =
        (uint16_t)(PORT_FIRST + (job_number + step_number * STEP_STRIDE) % PORT_COUNT);
    return 0;
}

int tutti_launch_finish_slurm(const struct tutti_env *env, struct tutti_launch *launch,
                              struct tutti_err *err)
{
    char name[64];
    const char *tasks =
        tutti_env_first(env, "SLURM_STEP_TASKS_PER_NODE|SLURM_TASKS_PER_NODE", name);
    bool local = false;
    int status;

    if (launch->count == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "Slurm's srun says that this is process %u, and not of how many "
                          "('SLURM_STEP_NUM_TASKS' or 'SLURM_NTASKS')",
                          launch->index);
    status = tutti_env_count(env, "SLURM_LOCALID", &launch->local_index, &local, err);
    if (status == 0 && local && tasks != NULL) {
        status = tutti_repeated_at(tasks, launch->host_index, &launch->local_count, err);
        if (status < 0)
            return tutti_wrap(err, status, "variable '%s'", name);
    }
    return status < 0 ? status : read_root(env, launch, err);
}
