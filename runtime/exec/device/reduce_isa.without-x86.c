/* Which kernels a processor other than x86 can run: those that the compiler made for it. */
#include "runtime/exec/device/kernels.h"

const struct tutti_kernels *tutti_kernels_at(size_t index)
{
    return index == 0 ? &tutti_kernels_generic : NULL;
}
