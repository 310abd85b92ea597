/* The words of the kernels of training, for a C compiler: items one after the other, and a block's
 * threads one after the other between two meetings. Neither has an order on a device, so a test may
 * turn them round (TUTTI_STANDIN_BACKWARD): results must be the same to the bit. After
 * player_cpu.h. */
#ifndef TUTTI_TESTS_GPU_TRAIN_CPU_H
#define TUTTI_TESTS_GPU_TRAIN_CPU_H

#include <math.h>

#include "runtime/exec/device/kernel_args.h"
#include "tests/gpu/player_cpu.h"

#define T_KERNEL(NAME) static void NAME(const struct tutti_kernel_args args, bool backward)
#define T_ITEMS(I, COUNT)                                                     \
    for (uint64_t I##_at = 0, I = backward ? (COUNT)-1 : 0; I##_at < (COUNT); \
         I##_at++, I = backward ? (COUNT)-1 - I##_at : I##_at)
#define T_BLOCKS(B, COUNT) T_ITEMS(B, COUNT)
#define T_THREADS(T)                                                                      \
    for (uint32_t T##_at = 0, T = backward ? TILE_THREADS - 1 : 0; T##_at < TILE_THREADS; \
         T##_at++, T = backward ? TILE_THREADS - 1 - T##_at : T##_at)
#define T_MEET() ((void)0)
#define T_SHARED
#define T_OWN(NAME)     float NAME[TILE_THREADS][TILE_OWN]
#define T_MINE(NAME, T) NAME[T]
#define T_FMA(A, B, C)  ((A) * (B) + (C))

#include "runtime/exec/cuda/train_kernels.h"

typedef void train_cpu_kernel(const struct tutti_kernel_args args, bool backward);

#define TRAIN_CPU_ROW(NAME) {"tutti_train_" #NAME, tutti_train_##NAME},

/* The kernels by their names on the device. */
static const struct train_cpu_entry {
    const char *name;
    train_cpu_kernel *kernel;
} train_cpu_kernels[] = {TUTTI_TRAIN_KERNELS(TRAIN_CPU_ROW)};

#endif
