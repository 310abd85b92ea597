/* Opens the backend `cuda`, and closes it. */
#include "runtime/exec/cuda/opened.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/status.h"

void tutti_cuda_close(struct tutti_backend *base)
{
    struct tutti_cuda_backend *backend = (struct tutti_cuda_backend *)base;

    tutti_gpus_close(&backend->gpus);
    free(backend);
}

int tutti_cuda_open(const struct tutti_cuda_opts *opts, struct tutti_backend **ret,
                    struct tutti_err *err)
{
    struct tutti_cuda_backend *backend = calloc(1, sizeof(*backend));
    int status = backend == NULL ? tutti_nomem(err) : 0;

    if (status == 0 && opts != NULL)
        status = tutti_take("tutti_cuda_opts", &backend->opts, sizeof(backend->opts), opts,
                            TUTTI_BYTES_TO(struct tutti_cuda_opts, thread_count), err);
    if (status == 0 && (backend->opts.thread_count % 32 != 0 || backend->opts.thread_count > 512))
        status =
            tutti_fail(err, TUTTI_EINVAL, "a block of %u threads (a multiple of 32, at most 512)",
                       backend->opts.thread_count);
    if (status == 0 && backend->opts.graph > TUTTI_CUDA_GRAPH_NEVER)
        status = tutti_fail(err, TUTTI_EINVAL, "no such use of graphs: %d", backend->opts.graph);
    if (status == 0)
        status = tutti_gpus_open(&backend->gpus, backend->opts.library, backend->opts.device,
                                 backend->opts.gpu_count, backend->opts.staged, err);
    if (status < 0) {
        free(backend);
        return status;
    }
    backend->base.ops = backend->opts.streams ? &tutti_cuda_streams_ops : &tutti_cuda_ops;
    *ret = &backend->base;
    return 0;
}

int tutti_cuda_places(struct tutti_backend *backend, uint32_t rank_count,
                      char ret[TUTTI_CUDA_PLACES_BYTES], struct tutti_err *err)
{
    assert(backend->ops->close == tutti_cuda_close);
    return tutti_gpus_places(&((struct tutti_cuda_backend *)backend)->gpus, rank_count, ret,
                             TUTTI_CUDA_PLACES_BYTES, err);
}
