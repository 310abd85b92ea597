/* Answers in place of the driver's library: memory is malloc, so that sanitizers see overruns, and
 * a launch runs the kernel compiled for the CPU to its end. What a test sets in the environment:
 *   TUTTI_STANDIN_THREADS  threads of a block (2), whatever the launch asks for
 *   TUTTI_STANDIN_BLOCKS   blocks at work at one time (4096)
 *   TUTTI_STANDIN_MEMORY   bytes of the device (2^36)
 *   TUTTI_STANDIN_FAIL     CALL:N: the N-th call of that name fails with error 999
 *   TUTTI_STANDIN_ABSENT   a block that never comes
 *   TUTTI_STANDIN_STUCK    events are never reached */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/player_cpu.h"

enum {
    SUCCESS = 0,
    INVALID = 1,
    OUT_OF_MEMORY = 2,
    NOT_READY = 600,
    TOO_LARGE = 720,
    UNKNOWN = 999
};

static uint64_t setting(const char *name, uint64_t standard)
{
    const char *text = getenv(name);

    return text == NULL ? standard : strtoull(text, NULL, 0);
}

/* Whether this call is the one that is to fail. */
static bool fails(const char *call)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of `calls` */
    static uint64_t calls;
    const char *wish = getenv("TUTTI_STANDIN_FAIL");
    size_t length = strlen(call);
    bool result;

    if (wish == NULL || strncmp(wish, call, length) != 0 || wish[length] != ':')
        return false;
    (void)pthread_mutex_lock(&lock);
    result = ++calls == strtoull(wish + length + 1, NULL, 0);
    (void)pthread_mutex_unlock(&lock);
    return result;
}

#define CALL(NAME, PARAMETERS)                                  \
    __attribute__((visibility("default"))) int NAME PARAMETERS; \
    int NAME PARAMETERS

#define FAIL_IF_ASKED()      \
    do {                     \
        if (fails(__func__)) \
            return UNKNOWN;  \
    } while (0)

CALL(cuInit, (unsigned flags))
{
    FAIL_IF_ASKED();
    return flags == 0 ? SUCCESS : INVALID;
}

CALL(cuDriverGetVersion, (int *ret))
{
    FAIL_IF_ASKED();
    *ret = 13000;
    return SUCCESS;
}

CALL(cuGetErrorName, (int result, const char **ret))
{
    *ret = result == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
           : result == TOO_LARGE   ? "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"
                                   : "CUDA_ERROR_UNKNOWN";
    return SUCCESS;
}

CALL(cuGetErrorString, (int result, const char **ret))
{
    *ret = result == OUT_OF_MEMORY ? "out of memory" : "unknown error";
    return SUCCESS;
}

CALL(cuDeviceGetCount, (int *ret))
{
    FAIL_IF_ASKED();
    *ret = 1;
    return SUCCESS;
}

CALL(cuDeviceGet, (int *ret, int ordinal))
{
    FAIL_IF_ASKED();
    *ret = ordinal;
    return ordinal == 0 ? SUCCESS : INVALID;
}

CALL(cuDeviceGetName, (char *ret, int bytes, int device))
{
    FAIL_IF_ASKED();
    (void)device;
    (void)snprintf(ret, (size_t)bytes, "stand-in");
    return SUCCESS;
}

CALL(cuDeviceTotalMem_v2, (size_t * ret, int device))
{
    FAIL_IF_ASKED();
    (void)device;
    *ret = setting("TUTTI_STANDIN_MEMORY", UINT64_C(1) << 36);
    return SUCCESS;
}

CALL(cuDeviceGetAttribute, (int *ret, int attribute, int device))
{
    FAIL_IF_ASKED();
    (void)device;
    *ret = attribute == 75 ? 9 : attribute == 95 ? 1 : attribute == 16 ? 1 : 0;
    return SUCCESS;
}

/* The device's one context, for as long as somebody has it: a leak is seen. */
struct primary {
    pthread_mutex_t lock; /* of the rest */
    uint32_t holders;
    void *context;
};

static struct primary *primary(void)
{
    static struct primary only = {.lock = PTHREAD_MUTEX_INITIALIZER};

    return &only;
}

CALL(cuDevicePrimaryCtxRetain, (void **ret, int device))
{
    struct primary *p = primary();

    FAIL_IF_ASKED();
    (void)device;
    (void)pthread_mutex_lock(&p->lock);
    if (p->holders++ == 0)
        p->context = malloc(1);
    *ret = p->context;
    (void)pthread_mutex_unlock(&p->lock);
    return SUCCESS;
}

CALL(cuDevicePrimaryCtxRelease_v2, (int device))
{
    struct primary *p = primary();

    (void)device;
    (void)pthread_mutex_lock(&p->lock);
    if (--p->holders == 0)
        free(p->context);
    (void)pthread_mutex_unlock(&p->lock);
    return SUCCESS;
}

CALL(cuCtxSetCurrent, (void *context))
{
    FAIL_IF_ASKED();
    return context == primary()->context ? SUCCESS : INVALID;
}

CALL(cuModuleLoadData, (void **ret, const void *image))
{
    FAIL_IF_ASKED();
    (void)image;
    *ret = malloc(1);
    return SUCCESS;
}

CALL(cuModuleUnload, (void *module))
{
    free(module);
    return SUCCESS;
}

CALL(cuModuleGetFunction, (void **ret, void *module, const char *name))
{
    FAIL_IF_ASKED();
    (void)module;
    for (size_t i = 0; i < sizeof(player_cpu_kernels) / sizeof(player_cpu_kernels[0]); i++) {
        if (strcmp(player_cpu_kernels[i].name, name) == 0) {
            *ret = (void *)(uintptr_t)&player_cpu_kernels[i];
            return SUCCESS;
        }
    }
    return 500; /* not found */
}

CALL(cuFuncGetAttribute, (int *ret, int attribute, void *function))
{
    FAIL_IF_ASKED();
    (void)attribute;
    (void)function;
    *ret = 64;
    return SUCCESS;
}

CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor,
     (int *ret, void *function, int thread_count, size_t shared_bytes))
{
    FAIL_IF_ASKED();
    (void)function;
    (void)thread_count;
    (void)shared_bytes;
    *ret = (int)setting("TUTTI_STANDIN_BLOCKS", 4096);
    return SUCCESS;
}

CALL(cuMemGetInfo_v2, (size_t * ret_left, size_t *ret_total))
{
    FAIL_IF_ASKED();
    *ret_left = *ret_total = setting("TUTTI_STANDIN_MEMORY", UINT64_C(1) << 36);
    return SUCCESS;
}

CALL(cuMemAlloc_v2, (uint64_t * ret, size_t bytes))
{
    void *memory = NULL;

    FAIL_IF_ASKED();
    if (posix_memalign(&memory, 512, bytes) != 0)
        return OUT_OF_MEMORY;
    memset(memory, 0xa5, bytes);
    *ret = (uintptr_t)memory;
    return SUCCESS;
}

CALL(cuMemFree_v2, (uint64_t at))
{
    free((void *)(uintptr_t)at);
    return SUCCESS;
}

CALL(cuMemHostAlloc, (void **ret, size_t bytes, unsigned flags))
{
    FAIL_IF_ASKED();
    (void)flags;
    *ret = malloc(bytes);
    return *ret == NULL ? OUT_OF_MEMORY : SUCCESS;
}

CALL(cuMemFreeHost, (void *at))
{
    free(at);
    return SUCCESS;
}

CALL(cuMemHostGetDevicePointer_v2, (uint64_t * ret, void *at, unsigned flags))
{
    FAIL_IF_ASKED();
    (void)flags;
    *ret = (uintptr_t)at;
    return SUCCESS;
}

CALL(cuMemcpyHtoDAsync_v2, (uint64_t to, const void *from, size_t bytes, void *stream))
{
    FAIL_IF_ASKED();
    (void)stream;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return SUCCESS;
}

CALL(cuMemcpyDtoHAsync_v2, (void *to, uint64_t from, size_t bytes, void *stream))
{
    FAIL_IF_ASKED();
    (void)stream;
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return SUCCESS;
}

CALL(cuMemcpyDtoDAsync_v2, (uint64_t to, uint64_t from, size_t bytes, void *stream))
{
    FAIL_IF_ASKED();
    (void)stream;
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return SUCCESS;
}

CALL(cuMemsetD8Async, (uint64_t at, unsigned char value, size_t bytes, void *stream))
{
    FAIL_IF_ASKED();
    (void)stream;
    memset((void *)(uintptr_t)at, value, bytes);
    return SUCCESS;
}

CALL(cuStreamCreate, (void **ret, unsigned flags))
{
    FAIL_IF_ASKED();
    (void)flags;
    *ret = malloc(1);
    return SUCCESS;
}

CALL(cuStreamDestroy_v2, (void *stream))
{
    free(stream);
    return SUCCESS;
}

CALL(cuStreamQuery, (void *stream))
{
    FAIL_IF_ASKED();
    (void)stream;
    return SUCCESS;
}

CALL(cuEventCreate, (void **ret, unsigned flags))
{
    FAIL_IF_ASKED();
    (void)flags;
    *ret = calloc(1, sizeof(uint64_t));
    return SUCCESS;
}

CALL(cuEventRecord, (void *event, void *stream))
{
    FAIL_IF_ASKED();
    (void)stream;
    *(uint64_t *)event = p_now_ns();
    return SUCCESS;
}

CALL(cuEventQuery, (void *event))
{
    FAIL_IF_ASKED();
    (void)event;
    return getenv("TUTTI_STANDIN_STUCK") == NULL ? SUCCESS : NOT_READY;
}

CALL(cuEventElapsedTime, (float *ret_ms, void *from, void *to))
{
    FAIL_IF_ASKED();
    *ret_ms = (float)(*(uint64_t *)to - *(uint64_t *)from) / 1e6f;
    return SUCCESS;
}

CALL(cuEventDestroy_v2, (void *event))
{
    free(event);
    return SUCCESS;
}

CALL(cuLaunchCooperativeKernel,
     (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
      unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **parameters))
{
    const struct player_cpu_entry *entry = function;
    const struct tutti_cuda_args args = *(const struct tutti_cuda_args *)parameters[0];
    uint32_t threads = (uint32_t)setting("TUTTI_STANDIN_THREADS", 2);
    uint32_t absent = (uint32_t)setting("TUTTI_STANDIN_ABSENT", UINT32_MAX);

    FAIL_IF_ASKED();
    (void)stream;
    if (grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1 || shared_bytes != 0)
        return INVALID;
    if (grid_x > setting("TUTTI_STANDIN_BLOCKS", 4096))
        return TOO_LARGE;
    return player_cpu_launch(entry->kernel, &args, grid_x, threads < block_x ? threads : block_x,
                             absent, PLAYER_CPU_RIGHT)
               ? SUCCESS
               : UNKNOWN;
}

CALL(cuLaunchKernel, (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                      void *stream, void **parameters, void **extra))
{
    FAIL_IF_ASKED();
    (void)extra;
    return cuLaunchCooperativeKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                                     shared_bytes, stream, parameters);
}
