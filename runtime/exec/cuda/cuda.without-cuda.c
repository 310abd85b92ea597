/* libtutti_cuda in a build without the backend: each call says so. */
#include <stddef.h>

#include "runtime/cuda.h"
#include "runtime/cuda_work.h"
#include "runtime/status.h"

static int lacking(struct tutti_err *err)
{
    return tutti_fail(err, TUTTI_ELACK,
                      "this build has no backend 'cuda' (configure it with -DTUTTI_CUDA=auto, on a "
                      "system that has dlopen)");
}

int tutti_cuda_open(const struct tutti_cuda_opts *opts, struct tutti_backend **ret,
                    struct tutti_err *err)
{
    (void)opts;
    (void)ret;
    return lacking(err);
}

int tutti_cuda_places(struct tutti_backend *backend, uint32_t rank_count,
                      char ret[TUTTI_CUDA_PLACES_BYTES], struct tutti_err *err)
{
    (void)backend;
    (void)rank_count;
    ret[0] = '\0';
    return lacking(err);
}

uint32_t tutti_cuda_channels(uint32_t rank_count, uint64_t bytes)
{
    (void)rank_count;
    (void)bytes;
    return 1;
}

int tutti_cuda_name(char ret[TUTTI_CUDA_NAME_BYTES], struct tutti_err *err)
{
    ret[0] = '\0';
    return lacking(err);
}

int tutti_cuda_weigh_graph(const struct tutti_schedule *schedule, int64_t *ret,
                           struct tutti_err *err)
{
    (void)schedule;
    (void)ret;
    return lacking(err);
}

int tutti_cuda_work_new(const struct tutti_schedule *schedule, struct tutti_cuda_work **ret,
                        struct tutti_err *err)
{
    (void)schedule;
    (void)ret;
    return lacking(err);
}

void tutti_cuda_work_free(struct tutti_cuda_work *work)
{
    (void)work;
}

void tutti_cuda_work_fit(struct tutti_cuda_work *work, uint32_t multiprocessor_count)
{
    (void)work;
    (void)multiprocessor_count;
}

int tutti_cuda_multiprocessors(uint32_t *ret, struct tutti_err *err)
{
    (void)ret;
    return lacking(err);
}
