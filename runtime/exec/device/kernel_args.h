/* What training does on a device beside products: the names of its kernels, and what they read. The
 * same bytes for the host and for the device, in the common part of C11 and CUDA C++; private to
 * the room runtime. Pointers are addresses of the device. */
#ifndef TUTTI_RUNTIME_EXEC_DEVICE_KERNEL_ARGS_H
#define TUTTI_RUNTIME_EXEC_DEVICE_KERNEL_ARGS_H

#include <stdint.h>

/* KERNEL(name): the symbol is tutti_train_NAME; what each does stands in
 * runtime/exec/cuda/train_kernels.h. */
#define TUTTI_TRAIN_KERNELS(KERNEL) \
    KERNEL(bias)                    \
    KERNEL(relu_backward)           \
    KERNEL(column_sums)             \
    KERNEL(column_totals)           \
    KERNEL(multiply)                \
    KERNEL(dropout)                 \
    KERNEL(cross_entropy)           \
    KERNEL(square_error)            \
    KERNEL(part_sums)               \
    KERNEL(add_sums)                \
    KERNEL(square_sums)             \
    KERNEL(report)                  \
    KERNEL(stamp)                   \
    KERNEL(window_columns)          \
    KERNEL(window_image)            \
    KERNEL(pool)                    \
    KERNEL(pool_backward)           \
    KERNEL(update)                  \
    KERNEL(outer)                   \
    KERNEL(round)                   \
    KERNEL(narrow)                  \
    KERNEL(widen)                   \
    KERNEL(add)                     \
    KERNEL(turn)                    \
    KERNEL(product)

#define TUTTI_TRAIN_KERNEL_NUMBER(NAME) TUTTI_KERNEL_##NAME,
enum tutti_train_kernel { TUTTI_TRAIN_KERNELS(TUTTI_TRAIN_KERNEL_NUMBER) TUTTI_TRAIN_KERNEL_COUNT };
#undef TUTTI_TRAIN_KERNEL_NUMBER

/* As struct tutti_window, in 32 bits. */
struct tutti_kernel_window {
    uint32_t rows;
    uint32_t columns;
    uint32_t channels;
    uint32_t kernel;
    uint32_t stride;
    uint32_t pad;
    uint32_t out_rows;
    uint32_t out_columns;
};

/* Values of 16 bits, where there are some: */
enum { TUTTI_KERNEL_FLOAT = 0, TUTTI_KERNEL_HALF = 1, TUTTI_KERNEL_BRAIN = 2 };
/* What `update` does. */
enum { TUTTI_KERNEL_SGD, TUTTI_KERNEL_MOMENTUM, TUTTI_KERNEL_ADAM };

/* Each kernel says which of these it looks at. */
struct tutti_kernel_args {
    float *to;
    float *too;
    const float *from;
    const float *other;
    float *moments[2];
    void *bytes;
    const void *from_bytes;
    double *sums;
    const double *parts;
    const uint32_t *labels;
    const uint64_t *states; /* of random numbers, [row][4] */
    uint64_t count;         /* items: each is done by one thread, in any order */
    uint64_t rows;
    uint64_t columns;
    uint64_t depth;
    uint64_t part_count;
    struct tutti_kernel_window window;
    uint32_t kind;
    uint32_t below;
    uint8_t relu;
    uint8_t add;
    uint8_t nesterov;
    uint8_t transpose_a;
    uint8_t transpose_b;
    uint8_t unused[3];
    float scale;
    float decay;
    float rate;
    float momentum;
    float mean_part;
    float variance_part;
    float epsilon;
    double factor;
};

#endif
