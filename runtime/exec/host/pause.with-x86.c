/* A breath between two looks at shared memory, on x86. */
#include "runtime/exec/host/wait_set.h"

void tutti_cpu_relax(void)
{
    __builtin_ia32_pause();
}
