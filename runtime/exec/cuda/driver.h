/* The driver's library, opened at run time: the calls that we use of it, and its errors in words.
 * Private to runtime/exec: the
 * backend nccl stands on it, too. */
#ifndef TUTTI_RUNTIME_EXEC_CUDA_DRIVER_H
#define TUTTI_RUNTIME_EXEC_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tutti_err;

/* Results and attributes as cuda.h numbers them. */
enum {
    TUTTI_CU_SUCCESS = 0,
    TUTTI_CU_OUT_OF_MEMORY = 2,
    TUTTI_CU_NO_DEVICE = 100,
    TUTTI_CU_INVALID_IMAGE = 200,
    TUTTI_CU_PEERS_UNSUPPORTED = 217,
    TUTTI_CU_NO_BINARY_FOR_GPU = 209,
    TUTTI_CU_NOT_READY = 600,
    TUTTI_CU_PEERS_ALREADY = 704,
    TUTTI_CU_PEERS_TOO_MANY = 711,

    TUTTI_CU_DEVICE_MULTIPROCESSORS = 16,
    TUTTI_CU_DEVICE_MAJOR = 75,
    TUTTI_CU_DEVICE_MINOR = 76,
    TUTTI_CU_DEVICE_COOPERATIVE = 95,

    TUTTI_CU_FUNCTION_REGISTERS = 4,
    TUTTI_CU_HOST_PORTABLE = 1, /* seen by all contexts */
    TUTTI_CU_HOST_MAPPED = 2,
    TUTTI_CU_STREAM_NON_BLOCKING = 1,
    TUTTI_CU_EVENT_NO_TIMING = 2,
};

/* CALL(field, symbol, parameters) */
#define TUTTI_CUDA_CALLS(CALL)                                                                     \
    CALL(init, "cuInit", (unsigned flags))                                                         \
    CALL(version, "cuDriverGetVersion", (int *ret))                                                \
    CALL(error_name, "cuGetErrorName", (int result, const char **ret))                             \
    CALL(error_text, "cuGetErrorString", (int result, const char **ret))                           \
    CALL(device_count, "cuDeviceGetCount", (int *ret))                                             \
    CALL(device_get, "cuDeviceGet", (int *ret, int ordinal))                                       \
    CALL(device_name, "cuDeviceGetName", (char *ret, int bytes, int device))                       \
    CALL(device_memory, "cuDeviceTotalMem_v2", (size_t * ret, int device))                         \
    CALL(device_attribute, "cuDeviceGetAttribute", (int *ret, int attribute, int device))          \
    CALL(context_retain, "cuDevicePrimaryCtxRetain", (void **ret, int device))                     \
    CALL(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                            \
    CALL(context_set, "cuCtxSetCurrent", (void *context))                                          \
    CALL(can_reach, "cuDeviceCanAccessPeer", (int *ret, int device, int peer))                     \
    CALL(reach, "cuCtxEnablePeerAccess", (void *peer_context, unsigned flags))                     \
    CALL(module_load, "cuModuleLoadData", (void **ret, const void *image))                         \
    CALL(module_unload, "cuModuleUnload", (void *module))                                          \
    CALL(module_function, "cuModuleGetFunction", (void **ret, void *module, const char *name))     \
    CALL(function_attribute, "cuFuncGetAttribute", (int *ret, int attribute, void *function))      \
    CALL(resident_blocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor",                           \
         (int *ret, void *function, int thread_count, size_t shared_bytes))                        \
    CALL(memory_info, "cuMemGetInfo_v2", (size_t * ret_left, size_t * ret_total))                  \
    CALL(alloc, "cuMemAlloc_v2", (uint64_t * ret, size_t bytes))                                   \
    CALL(free, "cuMemFree_v2", (uint64_t at))                                                      \
    CALL(host_alloc, "cuMemHostAlloc", (void **ret, size_t bytes, unsigned flags))                 \
    CALL(host_free, "cuMemFreeHost", (void *at))                                                   \
    CALL(host_address, "cuMemHostGetDevicePointer_v2", (uint64_t * ret, void *at, unsigned flags)) \
    CALL(upload, "cuMemcpyHtoDAsync_v2",                                                           \
         (uint64_t to, const void *from, size_t bytes, void *stream))                              \
    CALL(download, "cuMemcpyDtoHAsync_v2", (void *to, uint64_t from, size_t bytes, void *stream))  \
    CALL(copy, "cuMemcpyDtoDAsync_v2", (uint64_t to, uint64_t from, size_t bytes, void *stream))   \
    CALL(fill, "cuMemsetD8Async", (uint64_t at, unsigned char value, size_t bytes, void *stream))  \
    CALL(stream_create, "cuStreamCreate", (void **ret, unsigned flags))                            \
    CALL(stream_destroy, "cuStreamDestroy_v2", (void *stream))                                     \
    CALL(stream_query, "cuStreamQuery", (void *stream))                                            \
    CALL(stream_wait, "cuStreamWaitEvent", (void *stream, void *event, unsigned flags))            \
    CALL(event_create, "cuEventCreate", (void **ret, unsigned flags))                              \
    CALL(event_record, "cuEventRecord", (void *event, void *stream))                               \
    CALL(event_query, "cuEventQuery", (void *event))                                               \
    CALL(event_elapsed, "cuEventElapsedTime", (float *ret_ms, void *from, void *to))               \
    CALL(event_destroy, "cuEventDestroy_v2", (void *event))                                        \
    CALL(capture_begin, "cuStreamBeginCapture_v2", (void *stream, int mode))                       \
    CALL(capture_end, "cuStreamEndCapture", (void *stream, void **ret))                            \
    CALL(graph_open, "cuGraphInstantiateWithFlags",                                                \
         (void **ret, void *graph, unsigned long long flags))                                      \
    CALL(graph_launch, "cuGraphLaunch", (void *played, void *stream))                              \
    CALL(graph_close, "cuGraphExecDestroy", (void *played))                                        \
    CALL(graph_free, "cuGraphDestroy", (void *graph))                                              \
    CALL(launch, "cuLaunchCooperativeKernel",                                                      \
         (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,     \
          unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream,                 \
          void **parameters))                                                                      \
    CALL(launch_alone, "cuLaunchKernel",                                                           \
         (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,     \
          unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream,                 \
          void **parameters, void **extra))

struct tutti_cuda_driver {
    void *library;
    const char *name; /* of the library; borrowed */
    bool other;       /* it is one that somebody has named, and perhaps not NVIDIA's */
#define TUTTI_CUDA_FIELD(FIELD, SYMBOL, PARAMETERS) int(*FIELD) PARAMETERS;
    TUTTI_CUDA_CALLS(TUTTI_CUDA_FIELD)
#undef TUTTI_CUDA_FIELD
};

/* Opens the library and finds its calls; -TUTTI_ELACK: there is none, or one of them is missing. */
int tutti_cuda_driver_open(const char *library, struct tutti_cuda_driver *driver,
                           struct tutti_err *err);
void tutti_cuda_driver_close(struct tutti_cuda_driver *driver); /* a zeroed one is a no-op */

/* 0, or what the call said: memory that ran out and what is not there by their statuses, all else
 * -TUTTI_EIO. */
int tutti_cuda_check(const struct tutti_cuda_driver *driver, int result, const char *call,
                     struct tutti_err *err);

/* The machine code of the kernels, as nvcc has put it together; NULL in a build without. */
extern const unsigned char *const tutti_cuda_image;

#endif
