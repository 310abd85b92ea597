/* Launches and graphs of the stand-in for the driver's library, a part of cuda_standin.c, whose
 * words it uses. */
#ifndef TUTTI_TESTS_GPU_STANDIN_LAUNCH_H
#define TUTTI_TESTS_GPU_STANDIN_LAUNCH_H

/* A kernel of training: it has no blocks that wait for each other. */
static int launch_training(const struct train_cpu_entry *entry, void *stream, void **parameters)
{
    if (*current() != ((const struct stream *)stream)->context)
        return ELSEWHERE;
    return put(stream,
               &(struct job){.kind = JOB_KERNEL,
                             .train = entry,
                             .kernel_args = *(const struct tutti_kernel_args *)parameters[0]});
}

/* For the stand-in for cuBLAS: what it does comes in the stream's order. */
__attribute__((visibility("default"))) int standin_put(void *stream, void (*call)(const void *args),
                                                       const void *args, size_t bytes);
int standin_put(void *stream, void (*call)(const void *args), const void *args, size_t bytes)
{
    struct job job = {.kind = JOB_CALL, .call = call};

    if (bytes > sizeof(job.call_args))
        return INVALID;
    memcpy(job.call_args, args, bytes);
    return put(stream, &job);
}

static int launch(void *function, unsigned blocks, unsigned threads, void *stream,
                  void **parameters)
{
    uint32_t most = (uint32_t)setting("TUTTI_STANDIN_THREADS", 2);

    if (*current() != ((const struct stream *)stream)->context)
        return ELSEWHERE;
    return put(stream, &(struct job){.kind = JOB_LAUNCH,
                                     .entry = function,
                                     .args = *(const struct tutti_cuda_args *)parameters[0],
                                     .blocks = blocks,
                                     .threads = most < threads ? most : threads});
}

CALL(cuLaunchCooperativeKernel,
     (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
      unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **parameters))
{
    FAIL_IF_ASKED();
    if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || shared_bytes != 0)
        return INVALID;
    if (grid_x > setting("TUTTI_STANDIN_BLOCKS", 4096))
        return TOO_LARGE;
    return launch(function, grid_x, block_x, stream, parameters);
}

CALL(cuLaunchKernel, (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                      void *stream, void **parameters, void **extra))
{
    FAIL_IF_ASKED();
    if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || shared_bytes != 0 ||
        extra != NULL)
        return INVALID;
    for (size_t i = 0; i < sizeof(train_cpu_kernels) / sizeof(train_cpu_kernels[0]); i++)
        if (function == (const void *)&train_cpu_kernels[i])
            return launch_training(function, stream, parameters);
    return launch(function, grid_x, block_x, stream, parameters);
}

/* ---- graphs: what has been put into a stream while it was captured ---- */

CALL(cuStreamBeginCapture_v2, (void *stream, int mode))
{
    struct stream *s = stream;

    FAIL_IF_ASKED();
    (void)mode;
    s->captured = graph_new(NULL);
    return s->captured == NULL ? OUT_OF_MEMORY : SUCCESS;
}

CALL(cuStreamEndCapture, (void *stream, void **ret))
{
    struct stream *s = stream;
    struct graph *graph = s->captured;

    s->captured = NULL;
    if (fails(__func__)) {
        graph_free(graph);
        return UNKNOWN;
    }
    *ret = graph;
    return SUCCESS;
}

CALL(cuGraphInstantiateWithFlags, (void **ret, void *graph, unsigned long long flags))
{
    FAIL_IF_ASKED();
    if (flags != 0)
        return INVALID;
    *ret = graph_new(graph);
    return *ret == NULL ? OUT_OF_MEMORY : SUCCESS;
}

CALL(cuGraphLaunch, (void *played, void *stream))
{
    const struct graph *graph = played;
    int result = SUCCESS;

    FAIL_IF_ASKED();
    for (uint32_t i = 0; i < graph->count && result == SUCCESS; i++)
        result = put(stream, &graph->jobs[i]);
    return result;
}

CALL(cuGraphExecDestroy, (void *played))
{
    graph_free(played);
    return SUCCESS;
}

CALL(cuGraphDestroy, (void *graph))
{
    graph_free(graph);
    return SUCCESS;
}

#endif
