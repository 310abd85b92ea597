/* Answers in place of the driver's library: memory is malloc, so that sanitizers see overruns; a
 * stream is a thread with a queue, in which a launch runs the kernel compiled for the CPU. A launch
 * that is going to touch what its device does not reach fails as on a GPU (standin_memory.h). What
 * a test sets in the environment:
 *   TUTTI_STANDIN_THREADS  threads of a block (2), whatever the launch asks for
 *   TUTTI_STANDIN_BLOCKS   blocks at work at one time (4096)
 *   TUTTI_STANDIN_MEMORY   bytes of the device (2^36)
 *   TUTTI_STANDIN_FAIL     CALL:N: the N-th call of that name fails with error 999
 *   TUTTI_STANDIN_ABSENT   a block that never comes; TUTTI_STANDIN_ABSENT_DEVICE: of that device
 *   TUTTI_STANDIN_PEERS    which devices reach each other's memory: 0 none, 1 all, 2 pairs of
 *                          neighbours, 3 all by what is said, and none
 *   TUTTI_STANDIN_DEVICES  GPUs (1)
 *   TUTTI_STANDIN_MULTIPROCESSORS  of each (1)
 *   TUTTI_STANDIN_BACKWARD items and threads of training's kernels come in the opposite order
 *   TUTTI_STANDIN_STUCK    events are never reached */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/standin_streams.h"

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
    *ret = result == OUT_OF_MEMORY     ? "CUDA_ERROR_OUT_OF_MEMORY"
           : result == ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
           : result == TOO_LARGE       ? "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"
                                       : "CUDA_ERROR_UNKNOWN";
    return SUCCESS;
}

CALL(cuGetErrorString, (int result, const char **ret))
{
    *ret = result == OUT_OF_MEMORY ? "out of memory" : "unknown error";
    return SUCCESS;
}

static int device_count(void)
{
    uint64_t count = setting("TUTTI_STANDIN_DEVICES", 1);

    return (int)(count < DEVICES_MAX ? count : DEVICES_MAX);
}

CALL(cuDeviceGetCount, (int *ret))
{
    FAIL_IF_ASKED();
    *ret = device_count();
    return SUCCESS;
}

CALL(cuDeviceGet, (int *ret, int ordinal))
{
    FAIL_IF_ASKED();
    *ret = ordinal;
    return ordinal >= 0 && ordinal < device_count() ? SUCCESS : INVALID;
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
    *ret = attribute == 75   ? 9
           : attribute == 95 ? 1
           : attribute == 16 ? (int)setting("TUTTI_STANDIN_MULTIPROCESSORS", 1)
                             : 0;
    return SUCCESS;
}

/* The one context of each device, for as long as somebody has it: a leak is seen. */
struct primary {
    uint32_t holders;
    void *context;
};

struct primaries {
    pthread_mutex_t lock; /* of the rest */
    struct primary of[DEVICES_MAX];
};

static struct primaries *primaries(void)
{
    static struct primaries all = {.lock = PTHREAD_MUTEX_INITIALIZER};

    return &all;
}

CALL(cuDevicePrimaryCtxRetain, (void **ret, int device))
{
    struct primaries *all = primaries();

    FAIL_IF_ASKED();
    (void)pthread_mutex_lock(&all->lock);
    if (all->of[device].holders++ == 0)
        all->of[device].context = malloc(1);
    *ret = all->of[device].context;
    (void)pthread_mutex_unlock(&all->lock);
    return SUCCESS;
}

CALL(cuDevicePrimaryCtxRelease_v2, (int device))
{
    struct primaries *all = primaries();

    (void)pthread_mutex_lock(&all->lock);
    if (--all->of[device].holders == 0) {
        free(all->of[device].context);
        memory_forget(device);
    }
    (void)pthread_mutex_unlock(&all->lock);
    return SUCCESS;
}

/* The calling thread's. */
static void **current(void)
{
    static _Thread_local void *mine;

    return &mine;
}

/* Or NO_DEVICE. */
static int device_of(const void *context)
{
    struct primaries *all = primaries();
    int device = NO_DEVICE;

    (void)pthread_mutex_lock(&all->lock);
    for (int d = 0; d < DEVICES_MAX && device == NO_DEVICE; d++)
        if (all->of[d].holders > 0 && all->of[d].context == context)
            device = d;
    (void)pthread_mutex_unlock(&all->lock);
    return device;
}

CALL(cuCtxSetCurrent, (void *context))
{
    FAIL_IF_ASKED();
    if (device_of(context) == NO_DEVICE)
        return INVALID;
    *current() = context;
    return SUCCESS;
}

CALL(cuDeviceCanAccessPeer, (int *ret, int device, int peer))
{
    FAIL_IF_ASKED();
    *ret = memory_can_reach(device, peer);
    return SUCCESS;
}

CALL(cuCtxEnablePeerAccess, (void *peer_context, unsigned flags))
{
    int from = device_of(*current());
    int to = device_of(peer_context);

    FAIL_IF_ASKED();
    if (flags != 0 || from == NO_DEVICE || to == NO_DEVICE)
        return INVALID;
    return memory_can_reach(from, to) ? memory_reach(from, to) : PEERS_UNSUPPORTED;
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
    for (size_t i = 0; i < sizeof(train_cpu_kernels) / sizeof(train_cpu_kernels[0]); i++) {
        if (strcmp(train_cpu_kernels[i].name, name) == 0) {
            *ret = (void *)(uintptr_t)&train_cpu_kernels[i];
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
    int device = device_of(*current());
    void *at = NULL;

    FAIL_IF_ASKED();
    if (device == NO_DEVICE)
        return NO_CONTEXT;
    if (posix_memalign(&at, 512, bytes) != 0)
        return OUT_OF_MEMORY;
    if (!memory_add(at, (struct piece){.bytes = bytes, .device = device})) {
        free(at);
        return OUT_OF_MEMORY;
    }
    memset(at, 0xa5, bytes);
    *ret = (uintptr_t)at;
    return SUCCESS;
}

/* Waits for all that plays, as a driver does. */
CALL(cuMemFree_v2, (uint64_t at))
{
    struct all_streams *all = all_streams();

    (void)pthread_mutex_lock(&all->lock);
    for (struct stream *s = all->first; s != NULL; s = s->next)
        wait_for(s);
    (void)pthread_mutex_unlock(&all->lock);
    memory_remove((void *)(uintptr_t)at);
    free((void *)(uintptr_t)at);
    return SUCCESS;
}

CALL(cuMemHostAlloc, (void **ret, size_t bytes, unsigned flags))
{
    enum { PORTABLE = 1 };
    struct piece piece = {.bytes = bytes,
                          .device = device_of(*current()),
                          .of_host = true,
                          .portable = (flags & PORTABLE) != 0};
    void *at;

    FAIL_IF_ASKED();
    if (piece.device == NO_DEVICE)
        return NO_CONTEXT;
    at = malloc(bytes);
    if (at == NULL || !memory_add(at, piece)) {
        free(at);
        return OUT_OF_MEMORY;
    }
    *ret = at;
    return SUCCESS;
}

CALL(cuMemFreeHost, (void *at))
{
    memory_remove(at);
    free(at);
    return SUCCESS;
}

CALL(cuMemHostGetDevicePointer_v2, (uint64_t * ret, void *at, unsigned flags))
{
    FAIL_IF_ASKED();
    (void)flags;
    if (!memory_is_legal(device_of(*current()), (uintptr_t)at, 1))
        return INVALID;
    *ret = (uintptr_t)at;
    return SUCCESS;
}

CALL(cuMemcpyHtoDAsync_v2, (uint64_t to, const void *from, size_t bytes, void *stream))
{
    FAIL_IF_ASKED();
    if (!memory_is_legal(((const struct stream *)stream)->device, to, bytes))
        return INVALID;
    return put_copy(stream, (void *)(uintptr_t)to, from, bytes);
}

CALL(cuMemcpyDtoHAsync_v2, (void *to, uint64_t from, size_t bytes, void *stream))
{
    FAIL_IF_ASKED();
    if (!memory_is_legal(((const struct stream *)stream)->device, from, bytes))
        return INVALID;
    return put_copy(stream, to, (const void *)(uintptr_t)from, bytes);
}

CALL(cuMemcpyDtoDAsync_v2, (uint64_t to, uint64_t from, size_t bytes, void *stream))
{
    FAIL_IF_ASKED();
    return put(stream, &(struct job){.to = (void *)(uintptr_t)to,
                                     .from = (const void *)(uintptr_t)from,
                                     .bytes = bytes});
}

CALL(cuMemsetD8Async, (uint64_t at, unsigned char value, size_t bytes, void *stream))
{
    FAIL_IF_ASKED();
    return put(stream,
               &(struct job){
                   .kind = JOB_FILL, .to = (void *)(uintptr_t)at, .value = value, .bytes = bytes});
}

CALL(cuStreamCreate, (void **ret, unsigned flags))
{
    struct all_streams *all = all_streams();
    struct stream *s;

    FAIL_IF_ASKED();
    (void)flags;
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        return OUT_OF_MEMORY;
    s->context = *current();
    s->device = device_of(s->context);
    s->jobs = calloc(JOBS_MAX, sizeof(*s->jobs));
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->changed, NULL);
    if (s->jobs == NULL || pthread_create(&s->thread, NULL, work, s) != 0) {
        free(s->jobs);
        free(s);
        return OUT_OF_MEMORY;
    }
    (void)pthread_mutex_lock(&all->lock);
    s->next = all->first;
    all->first = s;
    (void)pthread_mutex_unlock(&all->lock);
    *ret = s;
    return SUCCESS;
}

CALL(cuStreamDestroy_v2, (void *stream))
{
    struct all_streams *all = all_streams();
    struct stream *s = stream;
    struct stream **link = &all->first;

    (void)pthread_mutex_lock(&all->lock);
    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
    (void)pthread_mutex_unlock(&all->lock);

    (void)pthread_mutex_lock(&s->lock);
    s->over = true;
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
    (void)pthread_join(s->thread, NULL);
    (void)pthread_cond_destroy(&s->changed);
    (void)pthread_mutex_destroy(&s->lock);
    free(s->jobs);
    free(s);
    return SUCCESS;
}

/* For the stand-in for NCCL. */
__attribute__((visibility("default"))) bool standin_is_idle(void *stream);
bool standin_is_idle(void *stream)
{
    struct stream *s = stream;
    bool idle;

    (void)pthread_mutex_lock(&s->lock);
    idle = s->put == s->done;
    (void)pthread_mutex_unlock(&s->lock);
    return idle;
}

CALL(cuStreamQuery, (void *stream))
{
    struct stream *s = stream;
    bool busy;
    int result;

    FAIL_IF_ASKED();
    (void)pthread_mutex_lock(&s->lock);
    busy = s->put != s->done;
    result = s->result;
    (void)pthread_mutex_unlock(&s->lock);
    if (busy)
        (void)sched_yield();
    return result != SUCCESS ? result : busy ? NOT_READY : SUCCESS;
}

CALL(cuEventCreate, (void **ret, unsigned flags))
{
    FAIL_IF_ASKED();
    (void)flags;
    *ret = calloc(1, sizeof(struct event));
    return SUCCESS;
}

CALL(cuEventRecord, (void *event, void *stream))
{
    FAIL_IF_ASKED();
    if (*current() != ((const struct stream *)stream)->context)
        return ELSEWHERE;
    __atomic_store_n((uint64_t *)event, 0, __ATOMIC_RELAXED);
    return put(stream, &(struct job){.kind = JOB_EVENT,
                                     .to = event,
                                     .bytes = (size_t)__atomic_add_fetch(
                                         &((struct event *)event)->recorded, 1, __ATOMIC_RELAXED)});
}

CALL(cuStreamWaitEvent, (void *stream, void *event, unsigned flags))
{
    FAIL_IF_ASKED();
    if (flags != 0)
        return INVALID;
    return put(stream, &(struct job){.kind = JOB_WAIT,
                                     .to = event,
                                     .bytes = (size_t)__atomic_load_n(
                                         &((struct event *)event)->recorded, __ATOMIC_RELAXED)});
}

CALL(cuEventQuery, (void *event))
{
    bool reached = __atomic_load_n((const uint64_t *)event, __ATOMIC_ACQUIRE) != 0;

    FAIL_IF_ASKED();
    if (!reached)
        (void)sched_yield();
    return reached && getenv("TUTTI_STANDIN_STUCK") == NULL ? SUCCESS : NOT_READY;
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

#include "tests/gpu/standin_launch.h"
