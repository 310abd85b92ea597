/* The kernels of the CUDA player, an instance for each type and operator. */
#include "runtime/exec/cuda/device.h"

#include "runtime/exec/cuda/player.h"
