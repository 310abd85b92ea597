/* What the first GPU is, and how many channels make good use of one. See runtime/cuda.h. */
#include <stdio.h>

#include "runtime/cuda.h"
#include "runtime/exec/cuda/gpu.h"
#include "runtime/status.h"

#define CALL(GPU, FIELD, ...) \
    tutti_cuda_check(&(GPU)->driver, (GPU)->driver.FIELD(__VA_ARGS__), #FIELD, err)

uint32_t tutti_cuda_channels(uint32_t rank_count, uint64_t bytes)
{
    enum { BLOCKS = 128, CHANNEL_BYTES = 32 << 10 };
    uint64_t most = rank_count >= BLOCKS ? 1 : BLOCKS / rank_count;
    uint64_t wanted = bytes / CHANNEL_BYTES;

    return (uint32_t)(wanted > most ? most : wanted < 1 ? 1 : wanted);
}

int tutti_cuda_name(char ret[TUTTI_CUDA_NAME_BYTES], struct tutti_err *err)
{
    struct tutti_gpu gpu = {.device = 0};
    char name[96] = "";
    size_t memory_bytes = 0;
    char rest[32] = "";
    int version = 0;
    int count = 0;
    int status = tutti_gpu_open(&gpu, NULL, 0, err);

    if (status < 0)
        return status;
    status = CALL(&gpu, device_name, name, (int)sizeof(name), gpu.device);
    if (status == 0)
        status = CALL(&gpu, device_memory, &memory_bytes, gpu.device);
    if (status == 0)
        status = CALL(&gpu, version, &version);
    if (status == 0)
        status = CALL(&gpu, device_count, &count);
    if (count > 1)
        (void)snprintf(rest, sizeof(rest), ", the first of %d GPUs", count);
    if (status == 0)
        (void)snprintf(ret, TUTTI_CUDA_NAME_BYTES,
                       "%.95s, %d multiprocessors, %.1f GiB, driver for CUDA %d.%d%s", name,
                       gpu.multiprocessor_count, (double)memory_bytes / 0x1p30, version / 1000,
                       version % 1000 / 10, rest);
    tutti_gpu_close(&gpu);
    return status;
}
