/* A build without nvcc has no kernels. */
#include "runtime/exec/cuda/driver.h"

const unsigned char *const tutti_cuda_image = NULL;
