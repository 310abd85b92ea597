/* The variables, the version and the loop of a measured table; see measured_run.h. */
#include "tools/validate/measured_run.h"

#include <stdio.h>
#include <string.h>

#include "runtime/status.h"
#include "sim/nccl.h"
#include "traces/nccl_tests.h"

/* "NCCL_ALGO=Ring", of so many bytes; what is no variable, or is not modelled, is left out. */
static int set_variable(struct tutti_nccl_env *env, const char *word, size_t bytes,
                        struct tutti_err *err)
{
    char variable[128];
    char *equals;
    int status;

    (void)snprintf(variable, sizeof(variable), "%.*s", (int)bytes, word);
    equals = strchr(variable, '=');
    if (equals == NULL || bytes >= sizeof(variable))
        return 0;
    *equals = '\0';
    status = tutti_nccl_env_set(env, variable, equals + 1, err);
    return status == -TUTTI_ENOMEM ? status : 0;
}

int tutti_measured_env(const struct tutti_measured_table *measured, struct tutti_nccl_env **ret_env,
                       const struct tutti_nccl_version **ret_version, struct tutti_err *err)
{
    const char *text = measured->env;
    struct tutti_nccl_env *env = NULL;
    int status = tutti_nccl_env_new(&env, err);

    while (status == 0 && *text != '\0') {
        size_t bytes = strcspn(text, " ");

        status = set_variable(env, text, bytes, err);
        text += bytes + (text[bytes] != '\0');
    }
    if (status < 0) {
        tutti_nccl_env_free(env);
        return status;
    }
    *ret_env = env;
    *ret_version = NULL;
    if (strcmp(measured->library, "nccl") == 0 && measured->version[0] != '\0')
        *ret_version = tutti_nccl_version_near(measured->version);
    return 0;
}

double tutti_one_process_us(enum tutti_collective collective, bool is_rccl, uint32_t gpu_count,
                            uint32_t rank_count)
{
    double gpus = gpu_count;
    double us = (is_rccl ? 5.5 : 4.3) * gpus;

    if (collective == TUTTI_ALLTOALL)
        us += 0.5 * gpus * rank_count;
    return us;
}

double tutti_least_us(const struct tutti_measured_table *measured)
{
    if (strcmp(measured->launch, "one") != 0)
        return 0;
    return tutti_one_process_us(measured->collective, strcmp(measured->library, "rccl") == 0,
                                measured->gpu_count, measured->rank_count);
}

uint32_t tutti_timed_iterations(const struct tutti_measured_table *measured)
{
    if (strcmp(measured->timing, "host") != 0)
        return 1;
    return measured->iteration_count > 0 ? measured->iteration_count : TUTTI_NCCL_TESTS_ITERATIONS;
}
