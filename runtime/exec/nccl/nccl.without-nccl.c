/* libtutti_nccl in a build without the backend: each call says so. */
#include <stddef.h>

#include "runtime/nccl.h"
#include "runtime/status.h"

static int lacking(struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_ELACK,
                      "this build has no backend 'nccl' (configure it with -DTUTTI_CUDA=auto, on a "
                      "system that has dlopen)");
}

int tutti_nccl_open(const struct tutti_nccl_opts *opts, struct tutti_backend **ret,
                    struct tutti_err *err)
{
    (void)opts;
    (void)ret;
    return lacking(err);
}

int tutti_nccl_estimate(struct tutti_backend *backend, const struct tutti_contract *contract,
                        tutti_ps *ret, struct tutti_err *err)
{
    (void)backend;
    (void)contract;
    (void)ret;
    return lacking(err);
}

int tutti_nccl_gpu_count(uint32_t *ret, struct tutti_err *err)
{
    (void)ret;
    return lacking(err);
}

int tutti_nccl_name(char ret[TUTTI_NCCL_NAME_BYTES], struct tutti_err *err)
{
    ret[0] = '\0';
    return lacking(err);
}
