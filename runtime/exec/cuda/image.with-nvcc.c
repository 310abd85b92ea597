/* The kernels, as nvcc has put them together: the bytes of the file that the build names. */
#include "runtime/exec/cuda/driver.h"

__asm__(".section .rodata\n"
        ".balign 64\n"
        "tutti_cuda_image_bytes:\n"
        ".incbin \"" TUTTI_CUDA_FATBIN "\"\n"
        ".byte 0\n"
        ".previous\n");

extern const unsigned char tutti_cuda_image_bytes[];
const unsigned char *const tutti_cuda_image = tutti_cuda_image_bytes;
