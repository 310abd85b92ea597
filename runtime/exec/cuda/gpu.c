/* Opens a GPU; moves bytes to it and back; waits without ever blocking inside the driver. */
#include "runtime/exec/cuda/gpu.h"

#include <assert.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/status.h"

#define CALL(GPU, FIELD, ...) \
    tutti_cuda_check(&(GPU)->driver, (GPU)->driver.FIELD(__VA_ARGS__), #FIELD, err)

static int find_device(struct tutti_gpu *gpu, uint32_t device, struct tutti_err *err)
{
    int cooperative = 0;
    int count = 0;
    int major = 0;
    int status = CALL(gpu, device_count, &count);

    if (status < 0)
        return status;
    if (count == 0)
        return tutti_fail(err, TUTTI_ELACK, "this machine has no GPU of NVIDIA");
    if (device >= (uint32_t)count)
        return tutti_fail(err, TUTTI_EINVAL, "there is no GPU %u (0 to %d)", device, count - 1);
    status = CALL(gpu, device_get, &gpu->device, (int)device);
    if (status == 0)
        status = CALL(gpu, device_attribute, &gpu->multiprocessor_count,
                      TUTTI_CU_DEVICE_MULTIPROCESSORS, gpu->device);
    if (status == 0)
        status =
            CALL(gpu, device_attribute, &cooperative, TUTTI_CU_DEVICE_COOPERATIVE, gpu->device);
    if (status == 0)
        status = CALL(gpu, device_attribute, &major, TUTTI_CU_DEVICE_MAJOR, gpu->device);
    if (status == 0 && (cooperative == 0 || major < 7))
        status = tutti_fail(err, TUTTI_ELACK,
                            "GPU %u cannot keep all blocks of a kernel at work together (one of "
                            "compute capability 7.0 or later)",
                            device);
    return status;
}

static int open_device(struct tutti_gpu *gpu, struct tutti_err *err)
{
    void *host = NULL;
    int status = CALL(gpu, context_retain, &gpu->context, gpu->device);

    if (status < 0)
        return status;
    gpu->retained = true;
    status = CALL(gpu, context_set, gpu->context);
    if (status == 0)
        status = CALL(gpu, module_load, &gpu->module, tutti_cuda_image);
    if (status == 0)
        status = CALL(gpu, stream_create, &gpu->stream, TUTTI_CU_STREAM_NON_BLOCKING);
    if (status == 0)
        status = CALL(gpu, event_create, &gpu->begin, 0);
    if (status == 0)
        status = CALL(gpu, event_create, &gpu->end, 0);
    if (status == 0)
        status = CALL(gpu, host_alloc, &host, sizeof(*gpu->abort), TUTTI_CU_HOST_MAPPED);
    if (status == 0) {
        gpu->abort = host;
        *gpu->abort = 0;
        status = CALL(gpu, host_address, &gpu->abort_address, host, 0);
    }
    return status;
}

int tutti_gpu_open(struct tutti_gpu *gpu, const char *library, uint32_t device,
                   struct tutti_err *err)
{
    struct tutti_gpu made = {.device = 0};
    int status = tutti_cuda_driver_open(library, &made.driver, err);

    if (status == 0)
        status = find_device(&made, device, err);
    if (status == 0)
        status = open_device(&made, err);
    if (status < 0) {
        tutti_gpu_close(&made);
        return status;
    }
    *gpu = made;
    return 0;
}

void tutti_gpu_close(struct tutti_gpu *gpu)
{
    const struct tutti_cuda_driver *driver = &gpu->driver;

    if (gpu->lost) /* whatever waits for the kernel would wait for ever */
        return;
    if (gpu->abort != NULL)
        (void)driver->host_free(gpu->abort);
    if (gpu->begin != NULL)
        (void)driver->event_destroy(gpu->begin);
    if (gpu->end != NULL)
        (void)driver->event_destroy(gpu->end);
    if (gpu->stream != NULL)
        (void)driver->stream_destroy(gpu->stream);
    if (gpu->module != NULL)
        (void)driver->module_unload(gpu->module);
    if (gpu->retained)
        (void)driver->context_release(gpu->device);
    tutti_cuda_driver_close(&gpu->driver);
    *gpu = (struct tutti_gpu){0};
}

int tutti_gpu_enter(const struct tutti_gpu *gpu, struct tutti_err *err)
{
    if (gpu->lost)
        return tutti_fail(err, TUTTI_EIO, "the GPU has a kernel that does not end");
    return CALL(gpu, context_set, gpu->context);
}

static tutti_ps now_ps(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (tutti_ps)now.tv_sec * TUTTI_PS_PER_S + (tutti_ps)now.tv_nsec * 1000;
}

/* Waits for the end of what has been told to leave. */
static int wait_to_leave(struct tutti_gpu *gpu, int status, struct tutti_err *err)
{
    static const tutti_ps leave_ps = 5 * TUTTI_PS_PER_S;
    tutti_ps since_ps = now_ps();

    __atomic_store_n(gpu->abort, 1, __ATOMIC_RELAXED);
    while (gpu->driver.stream_query(gpu->stream) == TUTTI_CU_NOT_READY) {
        if (now_ps() - since_ps > leave_ps) {
            gpu->lost = true;
            return tutti_fail(err, TUTTI_EIO, "a kernel does not end, and does not leave");
        }
    }
    __atomic_store_n(gpu->abort, 0, __ATOMIC_RELAXED);
    return status;
}

int tutti_gpu_wait(struct tutti_gpu *gpu, struct tutti_gpu_load *load, tutti_ps limit_ps,
                   struct tutti_err *err)
{
    tutti_ps since_ps = now_ps();
    int result;

    while ((result = gpu->driver.stream_query(gpu->stream)) == TUTTI_CU_NOT_READY) {
        int status = load == NULL ? 0 : tutti_gpu_work_serve(load, err);

        if (load != NULL && load->work.lane_count > 0 && status == 0)
            since_ps = now_ps(); /* its work takes the time that it takes */
        else if (status == 0 && now_ps() - since_ps > limit_ps)
            status = tutti_fail(err, TUTTI_EIO, "a kernel did not end until it was told to leave");
        if (status < 0)
            return wait_to_leave(gpu, status, err);
    }
    if (result == TUTTI_CU_SUCCESS)
        return 0;
    /* What may still play shall have left before its memory is given back. */
    return wait_to_leave(gpu, tutti_cuda_check(&gpu->driver, result, "stream_query", err), err);
}

/* Copies have no waits in them. */
static int settle(struct tutti_gpu *gpu, int status, struct tutti_err *err)
{
    return status < 0 ? status : tutti_gpu_wait(gpu, NULL, 600 * TUTTI_PS_PER_S, err);
}

int tutti_gpu_upload(struct tutti_gpu *gpu, uint64_t to, const void *from, size_t bytes,
                     struct tutti_err *err)
{
    return bytes == 0 ? 0 : settle(gpu, CALL(gpu, upload, to, from, bytes, gpu->stream), err);
}

int tutti_gpu_download(struct tutti_gpu *gpu, void *to, uint64_t from, size_t bytes,
                       struct tutti_err *err)
{
    return bytes == 0 ? 0 : settle(gpu, CALL(gpu, download, to, from, bytes, gpu->stream), err);
}

int tutti_gpu_fill(struct tutti_gpu *gpu, uint64_t at, unsigned char value, size_t bytes,
                   struct tutti_err *err)
{
    return bytes == 0 ? 0 : settle(gpu, CALL(gpu, fill, at, value, bytes, gpu->stream), err);
}
