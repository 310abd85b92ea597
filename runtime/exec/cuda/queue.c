/* A stream of a GPU as a queue; see queue.h. */
#include "runtime/exec/cuda/queue.h"

#include <sched.h>
#include <time.h>

#include "runtime/status.h"
#include "runtime/train/products.h"

enum { THREADS = 256, BLOCKS_MAX = 4096, TILE = 64 };

#define CALL(GPU, FIELD, ...) \
    tutti_cuda_check(&(GPU)->driver, (GPU)->driver.FIELD(__VA_ARGS__), #FIELD, err)

static struct tutti_cuda_queue *own(struct tutti_device_queue *queue)
{
    return (struct tutti_cuda_queue *)queue;
}

static uint64_t address(const void *at)
{
    return (uint64_t)(uintptr_t)at;
}

/* Whoever looks knows of deadlines, and gives the GPU up if need be. */
static int wait_and_look(struct tutti_cuda_queue *q, struct tutti_err *err)
{
    enum { LOOK_EVERY = 256 };
    int result;

    for (uint32_t turn = 1;; turn++) {
        result = q->gpu->driver.stream_query(q->stream);
        if (result != TUTTI_CU_NOT_READY)
            return tutti_cuda_check(&q->gpu->driver, result, "stream_query", err);
        if (turn % LOOK_EVERY == 0) {
            int status = q->look(q->look_context, err);

            if (status < 0)
                return status;
            (void)sched_yield();
        }
    }
}

int tutti_cuda_queue_wait(struct tutti_cuda_queue *q, struct tutti_err *err)
{
    static const double limit_s = 600; /* much longer than any that keeps its deadlines */
    struct timespec from;
    struct timespec now;
    int result;

    if (q->look != NULL)
        return wait_and_look(q, err);
    (void)clock_gettime(CLOCK_MONOTONIC, &from);
    while ((result = q->gpu->driver.stream_query(q->stream)) == TUTTI_CU_NOT_READY) {
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        if ((double)(now.tv_sec - from.tv_sec) > limit_s) {
            q->gpu->lost = true;
            return tutti_fail(err, TUTTI_EIO, "a stream of the GPU does not come to its end");
        }
    }
    return tutti_cuda_check(&q->gpu->driver, result, "stream_query", err);
}

/* ---- as any queue ---- */

static int queue_alloc(struct tutti_device_queue *queue, uint64_t bytes, void **ret,
                       struct tutti_err *err)
{
    struct tutti_gpu *gpu = own(queue)->gpu;
    uint64_t at = 0;
    int status = CALL(gpu, alloc, &at, (size_t)bytes);

    if (status == 0)
        *ret = (void *)(uintptr_t)at;
    return status;
}

static void queue_free(struct tutti_device_queue *queue, void *at)
{
    struct tutti_gpu *gpu = own(queue)->gpu;

    if (at == NULL || gpu->lost)
        return;
    (void)tutti_gpu_enter(gpu, NULL);
    (void)gpu->driver.free(address(at));
}

static int queue_upload(struct tutti_device_queue *queue, void *to, const void *from,
                        uint64_t bytes, struct tutti_err *err)
{
    struct tutti_cuda_queue *q = own(queue);
    /* From memory that is not pinned the driver may wait for the stream, and looks at nothing. */
    int status = q->look != NULL && bytes > 0 ? tutti_cuda_queue_wait(q, err) : 0;

    return bytes == 0 || status < 0
               ? status
               : CALL(q->gpu, upload, address(to), from, (size_t)bytes, q->stream);
}

static int queue_download(struct tutti_device_queue *queue, void *to, const void *from,
                          uint64_t bytes, struct tutti_err *err)
{
    struct tutti_cuda_queue *q = own(queue);
    /* The driver waits for the stream, without a look at anything else. */
    int status = q->look != NULL ? tutti_cuda_queue_wait(q, err) : 0;

    if (status == 0 && bytes > 0)
        status = CALL(q->gpu, download, to, address(from), (size_t)bytes, q->stream);

    return status < 0 ? status : tutti_cuda_queue_wait(q, err);
}

static int queue_copy(struct tutti_device_queue *queue, void *to, const void *from, uint64_t bytes,
                      struct tutti_err *err)
{
    struct tutti_cuda_queue *q = own(queue);

    return bytes == 0 ? 0
                      : CALL(q->gpu, copy, address(to), address(from), (size_t)bytes, q->stream);
}

static int queue_clear(struct tutti_device_queue *queue, void *at, uint64_t bytes,
                       struct tutti_err *err)
{
    struct tutti_cuda_queue *q = own(queue);

    return bytes == 0 ? 0 : CALL(q->gpu, fill, address(at), 0, (size_t)bytes, q->stream);
}

static int queue_launch(struct tutti_device_queue *queue, enum tutti_train_kernel kernel,
                        const struct tutti_kernel_args *args, struct tutti_err *err)
{
    struct tutti_cuda_queue *q = own(queue);
    struct tutti_kernel_args copy = *args;
    void *parameters[1] = {&copy};
    uint64_t per_block = kernel == TUTTI_KERNEL_product ? 1 : THREADS;
    uint64_t blocks = (args->count + per_block - 1) / per_block;

    if (args->count == 0)
        return 0;
    return CALL(q->gpu, launch_alone, q->kernels[kernel],
                (unsigned)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX), 1, 1, THREADS, 1, 1, 0,
                q->stream, parameters, NULL);
}

static int by_own_kernel(struct tutti_cuda_queue *q, const struct tutti_product *p,
                         struct tutti_err *err)
{
    const struct tutti_kernel_args args = {.to = p->c,
                                           .from = p->a,
                                           .other = p->b,
                                           .rows = p->rows,
                                           .columns = p->columns,
                                           .depth = p->depth,
                                           .transpose_a = p->transpose_a,
                                           .transpose_b = p->transpose_b,
                                           .add = p->add,
                                           .count = (p->rows + TILE - 1) / TILE *
                                                    ((p->columns + TILE - 1) / TILE)};

    return queue_launch(&q->base, TUTTI_KERNEL_product, &args, err);
}

static int queue_multiply(struct tutti_device_queue *queue, const struct tutti_product *product,
                          struct tutti_err *err)
{
    struct tutti_cuda_queue *q = own(queue);
    int status = 0;

    if (q->blas->library == NULL)
        return by_own_kernel(q, product, err);
    if (q->handle == NULL)
        status = tutti_cublas_handle(q->blas, q->stream, &q->handle, err);
    return status < 0 ? status : tutti_cublas_multiply(q->blas, q->handle, product, err);
}

static const struct tutti_device_queue_ops cuda_queue_ops = {.alloc = queue_alloc,
                                                             .free = queue_free,
                                                             .upload = queue_upload,
                                                             .download = queue_download,
                                                             .copy = queue_copy,
                                                             .clear = queue_clear,
                                                             .launch = queue_launch,
                                                             .multiply = queue_multiply};

/* ---- open and close ---- */

int tutti_cuda_queue_open(struct tutti_cuda_queue *queue, struct tutti_gpu *gpu,
                          const struct tutti_cublas *blas, struct tutti_err *err)
{
#define NAME_OF(NAME) "tutti_train_" #NAME,
    static const char *const names[] = {TUTTI_TRAIN_KERNELS(NAME_OF)};
#undef NAME_OF
    struct tutti_cuda_queue q = {.base = {.ops = &cuda_queue_ops}, .gpu = gpu, .blas = blas};
    int registers;
    int status = CALL(gpu, stream_create, &q.stream, TUTTI_CU_STREAM_NON_BLOCKING);

    for (int k = 0; k < TUTTI_TRAIN_KERNEL_COUNT && status == 0; k++) {
        status = CALL(gpu, module_function, &q.kernels[k], gpu->module, names[k]);
        if (status == 0) /* also loads it, where that is put off: never in the middle of a step */
            status = CALL(gpu, function_attribute, &registers, TUTTI_CU_FUNCTION_REGISTERS,
                          q.kernels[k]);
    }
    *queue = q; /* a stream of a queue that fails is the caller's to close, too */
    return status;
}

void tutti_cuda_queue_close(struct tutti_cuda_queue *queue)
{
    if (queue->gpu != NULL && !queue->gpu->lost) {
        (void)tutti_gpu_enter(queue->gpu, NULL);
        if (queue->handle != NULL)
            (void)queue->blas->destroy(queue->handle);
        if (queue->stream != NULL)
            (void)queue->gpu->driver.stream_destroy(queue->stream);
    }
    *queue = (struct tutti_cuda_queue){.gpu = NULL};
}
