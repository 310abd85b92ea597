/* The launchers whose variables are plain numbers and names, innermost first. */
#include "runtime/launch/source.h"

#include <stdio.h>
#include <string.h>

const char *tutti_env_get(const struct tutti_env *env, const char *name)
{
    const char *text = env->get(env->context, name);

    return text == NULL || text[0] == '\0' ? NULL : text;
}

const char *tutti_env_first(const struct tutti_env *env, const char *names, char ret_name[64])
{
    const char *text = NULL;

    while (names != NULL && *names != '\0' && text == NULL) {
        size_t bytes = strcspn(names, "|+");

        (void)snprintf(ret_name, 64, "%.*s", (int)bytes, names);
        text = tutti_env_get(env, ret_name);
        names = names[bytes] == '|' ? names + bytes + 1 : NULL;
    }
    return text;
}

int tutti_env_count(const struct tutti_env *env, const char *names, uint32_t *ret, bool *ret_set,
                    struct tutti_err *err)
{
    char name[64];
    const char *text = tutti_env_first(env, names, name);
    uint32_t value = 0;

    if (ret_set != NULL)
        *ret_set = text != NULL;
    if (text == NULL)
        return 0;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p < '0' || *p > '9')
            return tutti_fail(err, TUTTI_EINVAL, "variable '%s': not a number '%.100s' (0 to %d)",
                              name, text, TUTTI_LAUNCH_COUNT_MAX);
        if (value <= TUTTI_LAUNCH_COUNT_MAX)
            value = 10 * value + (uint32_t)(*p - '0');
    }
    if (value > TUTTI_LAUNCH_COUNT_MAX)
        return tutti_fail(err, TUTTI_EINVAL, "variable '%s': out of range '%.100s' (0 to %d)", name,
                          text, TUTTI_LAUNCH_COUNT_MAX);
    *ret = value;
    return 0;
}

bool tutti_launch_present(const struct tutti_env *env, const struct tutti_launch_source *source)
{
    char name[64];
    const char *at = source->present;

    for (; at != NULL; at = strchr(at, '+') == NULL ? NULL : strchr(at, '+') + 1) {
        if (tutti_env_first(env, at, name) == NULL)
            return false;
    }
    return true;
}

/* What this says must be sound in itself. */
static int check(const struct tutti_launch_source *source, const struct tutti_launch *launch,
                 struct tutti_err *err)
{
    if (launch->member && launch->count > 0 && launch->index >= launch->count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s says that this is process '%u' of %u ('%s' is 0 to %u)", launch->by,
                          launch->index, launch->count,
                          source->index != NULL ? source->index : "the index", launch->count - 1);
    if (launch->local_count > 0 && launch->local_index >= launch->local_count)
        return tutti_fail(
            err, TUTTI_EINVAL, "%s says that this is process '%u' of the %u on its host (0 to %u)",
            launch->by, launch->local_index, launch->local_count, launch->local_count - 1);
    if (launch->count > 0 && launch->local_count > launch->count)
        return tutti_fail(err, TUTTI_EINVAL,
                          "%s says that there are %u processes, and '%u' on this host alone",
                          launch->by, launch->count, launch->local_count);
    return 0;
}

int tutti_launch_source_read(const struct tutti_env *env, const struct tutti_launch_source *source,
                             struct tutti_launch *ret, struct tutti_err *err)
{
    struct tutti_launch launch = {.name = source->name, .by = source->by, .member = true};
    bool counted = source->count == NULL;
    bool local = false;
    int status = tutti_env_count(env, source->index, &launch.index, NULL, err);

    if (status == 0 && source->count != NULL)
        status = tutti_env_count(env, source->count, &launch.count, &counted, err);
    if (status == 0 && counted && source->count != NULL && launch.count == 0)
        status = tutti_fail(err, TUTTI_EINVAL, "%s says that there are '0' processes ('%s')",
                            source->by, source->count);
    if (status == 0)
        status = tutti_env_count(env, source->local_index, &launch.local_index, &local, err);
    if (status == 0 && local)
        status = tutti_env_count(env, source->local_count, &launch.local_count, NULL, err);
    if (status == 0)
        status = tutti_env_count(env, source->host_index, &launch.host_index, NULL, err);
    if (status == 0)
        status = tutti_env_count(env, source->host_count, &launch.host_count, NULL, err);
    if (status == 0 && source->finish != NULL)
        status = source->finish(env, &launch, err);
    if (status == 0)
        status = check(source, &launch, err);
    if (status < 0)
        return status;
    /* What is all on one host meets on its loopback, where no secret is needed. */
    if (launch.root_port != 0 && launch.count > 1 && launch.local_count == launch.count)
        (void)snprintf(launch.root_host, sizeof(launch.root_host), "127.0.0.1");
    *ret = launch;
    return 0;
}

/* ---- what a table cannot say ----------------------------------------------------------------- */

/* HOST and PORT in two variables. `skip`: the port is another's, and the one behind it is taken. */
static int read_root(const struct tutti_env *env, const char *hosts, const char *ports, bool skip,
                     struct tutti_launch *launch, struct tutti_err *err)
{
    char name[64];
    const char *host = tutti_env_first(env, hosts, name);
    uint32_t port = 0;
    bool set = false;
    int status = tutti_env_count(env, ports, &port, &set, err);

    if (status < 0)
        return status;
    if (set && (port == 0 || port > UINT16_MAX))
        return tutti_fail(err, TUTTI_EINVAL, "variable '%s': not a port '%u' (1 to %u)", ports,
                          port, UINT16_MAX);
    if (host == NULL || !set)
        return 0;
    if (strlen(host) >= sizeof(launch->root_host))
        return tutti_fail(err, TUTTI_EINVAL, "variable '%s': a name of more than %d characters",
                          name, TUTTI_LAUNCH_HOST_BYTES - 1);
    (void)snprintf(launch->root_host, sizeof(launch->root_host), "%s", host);
    launch->root_port = (uint16_t)(!skip ? port : port < UINT16_MAX ? port + 1 : port - 1);
    return 0;
}

static int finish_tutti(const struct tutti_env *env, struct tutti_launch *launch,
                        struct tutti_err *err)
{
    (void)env;
    if (launch->count == 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "variable 'TUTTI_RANK' is set to '%u' without 'TUTTI_SIZE' (both)",
                          launch->index);
    return 0;
}

/* The agent's own store listens on MASTER_PORT. */
static int finish_torchrun(const struct tutti_env *env, struct tutti_launch *launch,
                           struct tutti_err *err)
{
    const char *run = tutti_env_get(env, "TORCHELASTIC_RUN_ID");
    const char *restart = tutti_env_get(env, "TORCHELASTIC_RESTART_COUNT");
    const char *host = tutti_env_get(env, "MASTER_ADDR");
    const char *port = tutti_env_get(env, "MASTER_PORT");

    (void)snprintf(launch->job, sizeof(launch->job), "torchrun %.80s %.80s:%.10s restart %.10s",
                   run, host != NULL ? host : "", port != NULL ? port : "",
                   restart != NULL ? restart : "0");
    return read_root(env, "MASTER_ADDR", "MASTER_PORT", true, launch, err);
}

/* Its rendezvous server is where horovodrun is, which need not be where process 0 is. */
static int finish_horovod(const struct tutti_env *env, struct tutti_launch *launch,
                          struct tutti_err *err)
{
    const char *host = tutti_env_get(env, "HOROVOD_GLOO_RENDEZVOUS_ADDR");
    const char *port = tutti_env_get(env, "HOROVOD_GLOO_RENDEZVOUS_PORT");

    (void)err;
    if (host != NULL && port != NULL)
        (void)snprintf(launch->job, sizeof(launch->job), "horovod %.80s:%.10s", host, port);
    return 0;
}

static int finish_openmpi(const struct tutti_env *env, struct tutti_launch *launch,
                          struct tutti_err *err)
{
    char name[64];
    const char *job = tutti_env_first(env, "PMIX_NAMESPACE|OMPI_MCA_ess_base_jobid", name);

    (void)err;
    if (job != NULL)
        (void)snprintf(launch->job, sizeof(launch->job), "openmpi %.200s", job);
    return 0;
}

static int finish_hydra(const struct tutti_env *env, struct tutti_launch *launch,
                        struct tutti_err *err)
{
    const char *job = tutti_env_get(env, "PMI_JOBID");

    (void)err;
    launch->has_pmi = tutti_env_get(env, "PMI_FD") != NULL;
    if (job != NULL)
        (void)snprintf(launch->job, sizeof(launch->job), "pmi %.200s", job);
    return 0;
}

static int finish_pmix(const struct tutti_env *env, struct tutti_launch *launch,
                       struct tutti_err *err)
{
    const char *job = tutti_env_get(env, "PMIX_NAMESPACE");

    (void)err;
    if (job != NULL)
        (void)snprintf(launch->job, sizeof(launch->job), "pmix %.200s", job);
    return 0;
}

/* PyTorchJob's RANK counts pods and its WORLD_SIZE processes: with several a pod the two fit
 * together only in what torchrun makes of them. */
static int finish_plain(const struct tutti_env *env, struct tutti_launch *launch,
                        struct tutti_err *err)
{
    const char *per_node = tutti_env_get(env, "PET_NPROC_PER_NODE");

    if (per_node != NULL && strcmp(per_node, "1") != 0 &&
        tutti_env_get(env, "TORCHELASTIC_RUN_ID") == NULL)
        return tutti_fail(
            err, TUTTI_EINVAL,
            "'RANK' %u is that of a pod, and 'WORLD_SIZE' %u counts '%.20s' processes "
            "a pod ('PET_NPROC_PER_NODE'): torchrun has to start them (or set "
            "TUTTI_RANK and TUTTI_SIZE)",
            launch->index, launch->count, per_node);
    return read_root(env, "MASTER_ADDR", "MASTER_PORT", false, launch, err);
}

/* What Kubeflow gives torchrun to read; a range of nodes is no number of processes. */
static int finish_pytorchjob(const struct tutti_env *env, struct tutti_launch *launch,
                             struct tutti_err *err)
{
    const char *nodes = tutti_env_get(env, "PET_NNODES");
    const char *per_node = tutti_env_get(env, "PET_NPROC_PER_NODE");

    if (per_node != NULL && strcmp(per_node, "1") != 0)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'PET_NPROC_PER_NODE' is '%.20s': torchrun has to start these processes "
                          "(or set TUTTI_RANK and TUTTI_SIZE)",
                          per_node);
    if (strchr(nodes, ':') != NULL)
        return tutti_fail(err, TUTTI_EINVAL,
                          "'PET_NNODES' is '%.20s', a range: only torchrun can tell how many came "
                          "(or set TUTTI_RANK and TUTTI_SIZE)",
                          nodes);
    return tutti_env_count(env, "PET_NNODES", &launch->count, NULL, err) < 0
               ? -TUTTI_EINVAL
               : read_root(env, "PET_MASTER_ADDR", "PET_MASTER_PORT", false, launch, err);
}

/* JAX takes HOST:PORT in one variable, JAXJob in two. */
static int finish_jax(const struct tutti_env *env, struct tutti_launch *launch,
                      struct tutti_err *err)
{
    char name[64];
    char what[96];
    const char *address = tutti_env_first(env, "JAX_COORDINATOR_ADDRESS|COORDINATOR_ADDRESS", name);

    (void)snprintf(what, sizeof(what), "variable '%s'", name);
    if (address != NULL && strchr(address, ':') != NULL)
        return tutti_launch_address(what, address, launch->root_host, &launch->root_port, err);
    return read_root(env, "JAX_COORDINATOR_ADDRESS|COORDINATOR_ADDRESS", "COORDINATOR_PORT", false,
                     launch, err);
}

const struct tutti_launch_source tutti_launch_sources[] = {
    {.name = "tutti",
     .by = "TUTTI_RANK",
     .present = "TUTTI_RANK",
     .index = "TUTTI_RANK",
     .count = "TUTTI_SIZE",
     .local_index = "TUTTI_LOCAL_RANK",
     .local_count = "TUTTI_LOCAL_SIZE",
     .finish = finish_tutti},
    {.name = "torchrun",
     .by = "torchrun",
     .present = "TORCHELASTIC_RUN_ID+RANK+WORLD_SIZE",
     .index = "RANK",
     .count = "WORLD_SIZE",
     .local_index = "LOCAL_RANK",
     .local_count = "LOCAL_WORLD_SIZE",
     .host_index = "GROUP_RANK",
     .host_count = "GROUP_WORLD_SIZE",
     .finish = finish_torchrun},
    {.name = "horovod",
     .by = "horovodrun",
     .present = "HOROVOD_RANK+HOROVOD_SIZE",
     .index = "HOROVOD_RANK",
     .count = "HOROVOD_SIZE",
     .local_index = "HOROVOD_LOCAL_RANK",
     .local_count = "HOROVOD_LOCAL_SIZE",
     .host_index = "HOROVOD_CROSS_RANK",
     .host_count = "HOROVOD_CROSS_SIZE",
     .finish = finish_horovod},
    {.name = "openmpi",
     .by = "Open MPI's mpirun",
     .present = "OMPI_COMM_WORLD_RANK+OMPI_COMM_WORLD_SIZE",
     .index = "OMPI_COMM_WORLD_RANK",
     .count = "OMPI_COMM_WORLD_SIZE",
     .local_index = "OMPI_COMM_WORLD_LOCAL_RANK",
     .local_count = "OMPI_COMM_WORLD_LOCAL_SIZE",
     .finish = finish_openmpi},
    {.name = "hydra", /* MPICH's and Intel's, srun --mpi=pmi2, Cray's */
     .by = "a PMI launcher",
     .present = "PMI_RANK+PMI_SIZE",
     .index = "PMI_RANK",
     .count = "PMI_SIZE",
     .local_index = "MPI_LOCALRANKID|PMI_LOCAL_RANK",
     .local_count = "MPI_LOCALNRANKS|PMI_LOCAL_SIZE",
     .finish = finish_hydra},
    {.name = "lsf",
     .by = "LSF's jsrun",
     .present = "JSM_NAMESPACE_RANK+JSM_NAMESPACE_SIZE",
     .index = "JSM_NAMESPACE_RANK",
     .count = "JSM_NAMESPACE_SIZE",
     .local_index = "JSM_NAMESPACE_LOCAL_RANK",
     .local_count = "JSM_NAMESPACE_LOCAL_SIZE",
     .finish = finish_pmix},
    {.name = "slurm", /* of a step: a batch script sees SLURM_PROCID=0 and SLURM_NTASKS as well */
     .by = "Slurm's srun",
     .present = "SLURM_PROCID+SLURM_STEP_ID|SLURM_STEPID|SLURM_STEP_NUM_TASKS",
     .index = "SLURM_PROCID",
     .count = "SLURM_STEP_NUM_TASKS|SLURM_NTASKS|SLURM_NPROCS",
     .host_index = "SLURM_NODEID",
     .host_count = "SLURM_STEP_NUM_NODES|SLURM_NNODES",
     .finish = tutti_launch_finish_slurm},
    {.name = "pmix",
     .by = "a PMIx launcher",
     .present = "PMIX_RANK",
     .index = "PMIX_RANK",
     .finish = finish_pmix},
    {.name = "tf_config",
     .by = "TF_CONFIG",
     .present = "TF_CONFIG",
     .finish = tutti_launch_finish_tf_config},
    {.name = "plain",
     .by = "RANK of WORLD_SIZE",
     .present = "RANK+WORLD_SIZE",
     .index = "RANK",
     .count = "WORLD_SIZE",
     .local_index = "LOCAL_RANK",
     .local_count = "LOCAL_WORLD_SIZE",
     .finish = finish_plain},
    {.name = "pytorchjob", /* and Kubeflow's Trainer v2 */
     .by = "PET_NODE_RANK",
     .present = "PET_NODE_RANK+PET_NNODES",
     .index = "PET_NODE_RANK",
     .finish = finish_pytorchjob},
    {.name = "jax",
     .by = "PROCESS_ID of NUM_PROCESSES",
     .present = "JAX_PROCESS_ID|PROCESS_ID+JAX_NUM_PROCESSES|NUM_PROCESSES",
     .index = "JAX_PROCESS_ID|PROCESS_ID",
     .count = "JAX_NUM_PROCESSES|NUM_PROCESSES",
     .finish = finish_jax},
    {.name = "indexed", /* Kubernetes says nothing of the number of completions */
     .by = "a Kubernetes indexed job",
     .present = "JOB_COMPLETION_INDEX",
     .index = "JOB_COMPLETION_INDEX"},
    {.name = NULL},
};
