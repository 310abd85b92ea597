/* The words of player.h on a device of NVIDIA; for nvcc alone. */
#ifndef TUTTI_RUNTIME_EXEC_CUDA_DEVICE_H
#define TUTTI_RUNTIME_EXEC_CUDA_DEVICE_H

#include <stdint.h>

#define P_DEV __device__ __forceinline__
#define P_KERNEL(NAME) \
    extern "C" __global__ void __launch_bounds__(512, 1) NAME(const struct tutti_cuda_args args)
#define P_APART static __device__ __noinline__
#define P_CTX
#define P_PASS
#define P_TID     threadIdx.x
#define P_NTID    blockDim.x
#define P_BID     blockIdx.x
#define P_NBLOCKS gridDim.x
#define P_SYNC()  __syncthreads()
#define P_NULL    nullptr
#define P_SHARED(TYPE, NAME)        \
    __shared__ TYPE NAME##_storage; \
    TYPE *NAME = &NAME##_storage
#define P_SPINS  1024
#define P_UNROLL _Pragma("unroll")

struct alignas(16) p_vec {
    uint32_t word[4];
};

/* The words of train_kernels.h. */
#define T_KERNEL(NAME) \
    extern "C" __global__ void __launch_bounds__(256) NAME(const struct tutti_kernel_args args)
#define T_ITEMS(I, COUNT)                                                           \
    for (uint64_t I = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; I < (COUNT); \
         I += (uint64_t)gridDim.x * blockDim.x)
#define T_BLOCKS(B, COUNT) for (uint64_t B = blockIdx.x; B < (COUNT); B += gridDim.x)
#define T_THREADS(T)       if (const uint32_t T = threadIdx.x; true)
#define T_MEET()           __syncthreads()
#define T_SHARED           __shared__
#define T_OWN(NAME)        float NAME[TILE_OWN]
#define T_MINE(NAME, T)    NAME
#define T_FMA(A, B, C)     __fmaf_rn(A, B, C)

/* Blocks of one device hand on to each other: scope gpu. Before sm_70 there are no such
 * instructions, and nothing is built for that. */
static P_DEV uint64_t p_ld_acquire(const uint64_t *at)
{
    uint64_t value;

    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

static P_DEV void p_st_release(uint64_t *at, uint64_t value)
{
    asm volatile("st.release.gpu.global.u64 [%0], %1;" : : "l"(at), "l"(value) : "memory");
}

/* The same where the other side is the host, or another device. */
static P_DEV uint64_t p_ld_acquire_system(const uint64_t *at)
{
    uint64_t value;

    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}

static P_DEV void p_st_release_system(uint64_t *at, uint64_t value)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" : : "l"(at), "l"(value) : "memory");
}

static P_DEV void p_add_release(uint64_t *at)
{
    asm volatile("red.release.gpu.global.add.u64 [%0], %1;" : : "l"(at), "l"(1ull) : "memory");
}

/* Data and flag of each half come together, in one access of 8 bytes and more. */
static P_DEV int p_ld_line(uint64_t at, uint32_t flag, uint64_t *ret)
{
    uint32_t low, low_flag, high, high_flag;

    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(low), "=r"(low_flag), "=r"(high), "=r"(high_flag)
                 : "l"(at)
                 : "memory");
    *ret = (uint64_t)high << 32 | low;
    return low_flag == flag && high_flag == flag;
}

static P_DEV void p_st_line(uint64_t at, uint64_t value, uint32_t flag)
{
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %2};"
                 :
                 : "l"(at), "r"((uint32_t)value), "r"(flag), "r"((uint32_t)(value >> 32))
                 : "memory");
}

static P_DEV uint32_t p_ld_flag(const uint32_t *at)
{
    return *(const volatile uint32_t *)at;
}

static P_DEV void p_st_flag(uint32_t *at, uint32_t value)
{
    *(volatile uint32_t *)at = value;
}

static P_DEV int p_claim(uint32_t *at)
{
    return atomicCAS(at, 0u, 1u) == 0u;
}

static P_DEV uint32_t p_ld_host(const uint32_t *at)
{
    return *(const volatile uint32_t *)at;
}

static P_DEV uint64_t p_now_ns(void)
{
    uint64_t now;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) : : "memory");
    return now;
}

static P_DEV void p_pause(void)
{
}

static P_DEV float p_float(uint32_t bits)
{
    return __uint_as_float(bits);
}

static P_DEV uint32_t p_float_bits(float value)
{
    return __float_as_uint(value);
}

static P_DEV double p_double(uint64_t bits)
{
    return __longlong_as_double((long long)bits);
}

static P_DEV uint64_t p_double_bits(double value)
{
    return (uint64_t)__double_as_longlong(value);
}

static P_DEV float p_half_widen(uint16_t half)
{
    float value;

    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

/* The one NaN that results have; the instruction gives another. */
static P_DEV uint16_t p_half_narrow(float value)
{
    uint16_t half;

    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return value == value ? half : (uint16_t)0x7e00;
}

#endif
