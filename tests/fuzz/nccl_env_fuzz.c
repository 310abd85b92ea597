/* Fuzzes lists of NCCL_* variables: each is taken, and leaves values in range, or is refused for
 * what it names, in one line. */
#include "sim/nccl/env.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/judge.h"

enum { BYTES_MAX = 2000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tutti_nccl_env *env = NULL;
    struct tutti_err err = {""};
    char text[BYTES_MAX + 1];
    int status;

    if (bytes > BYTES_MAX)
        return 0;
    if (bytes > 0)
        memcpy(text, data, bytes);
    text[bytes] = '\0';
    if (tutti_nccl_env_new(&env, &err) < 0)
        abort();
    status = tutti_nccl_env_add(env, text, &err);
    if (status < 0)
        judge_refusal(status, &err);
    for (int i = 0; i < TUTTI_NCCL_FUNCTION_COUNT; i++) {
        for (int k = 0; k < TUTTI_NCCL_ALGORITHM_COUNT; k++) {
            if (env->algorithms[i][k] > TUTTI_NCCL_ON)
                abort();
        }
    }
    if (env->netdevs_policy == TUTTI_NETDEVS_MAX && env->netdevs_max < 1)
        abort();
    tutti_nccl_env_free(env);
    return 0;
}
