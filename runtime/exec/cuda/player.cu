/* The kernels of the CUDA player, an instance for each type and operator; and those of training. */
#include "runtime/exec/cuda/device.h"

#include "runtime/exec/cuda/player.h"
#include "runtime/exec/cuda/train_kernels.h"
